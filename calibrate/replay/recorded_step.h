/* Export of one step of a replayed run as a program for a scenario (sim/step/recorded.h). */
#ifndef DL_CALIBRATE_REPLAY_RECORDED_STEP_H
#define DL_CALIBRATE_REPLAY_RECORDED_STEP_H

#include "calibrate/replay/report.h"

/* Writes the regular step of median duration on the device with most operations to `path`
 * (overwritten), as replayed at `times` without collectives. The step consists of the work that its
 * forward and backward passes and collectives need; work that began before the step, or waits for
 * work that ended before it, starts at its replayed time after the step's start. `steps` are those
 * of the run's only trace, `replayed` the same steps at `times`; `batch` is the step's number of
 * samples. *step_ns becomes the step's replayed duration. DL_ERR_DATA without a regular step that
 * another one follows; DL_ERR_IO. */
dl_status dl_recorded_step_write(const char *path, const dl_replay_run *run,
                                 const dl_activity_steps *steps, const dl_replay_steps *replayed,
                                 const dl_replay_time *times, int64_t batch, double *step_ns,
                                 dl_error *err) DL_MUST_CHECK;

#endif
