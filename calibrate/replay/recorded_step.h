/* One step of a replayed run, cut out as the program that a scenario runs (sim/step/recorded.h). */
#ifndef DL_CALIBRATE_REPLAY_RECORDED_STEP_H
#define DL_CALIBRATE_REPLAY_RECORDED_STEP_H

#include "calibrate/replay/report.h"

/* Writes the regular step of median duration, of the device with most operations, as replayed at
 * `times` without collectives, to `path` (overwritten). The step consists of the work that its
 * forward and backward passes and collectives need; work in it that began before the step, or waits
 * for work that ended before it, starts at the replayed time since the step's start. `steps` are
 * those of the run's one trace, `replayed` the same at `times`; `batch` its samples. *step_ns
 * becomes the step's replayed duration. DL_ERR_DATA without a regular step that another one
 * follows; DL_ERR_IO. */
dl_status dl_recorded_step_write(const char *path, const dl_replay_run *run,
                                 const dl_activity_steps *steps, const dl_replay_steps *replayed,
                                 const dl_replay_time *times, int64_t batch, double *step_ns,
                                 dl_error *err) DL_MUST_CHECK;

#endif
