/* Export of one step of a replayed run as a program for a scenario (sim/step/recorded.h). */
#ifndef DL_CALIBRATE_REPLAY_RECORDED_STEP_H
#define DL_CALIBRATE_REPLAY_RECORDED_STEP_H

#include "calibrate/replay/report.h"

/* Writes one step to `path` (overwritten), as replayed at `times` without collectives: on the
 * device with most operations, the step of median duration among the regular steps that a regular
 * step follows. The step consists of the work that its forward and backward passes and collectives
 * need. Of work that began before the step, only the rest after its start is written; work that
 * waits for work that ended before the step starts at its replayed time relative to the step's
 * start. `steps` are those of the run's only trace, `replayed` the same steps at `times`; `batch`
 * is the number of samples per step. Sets *step_ns to the step's replayed duration. Returns
 * DL_ERR_DATA if there is no such step, or DL_ERR_IO. */
dl_status dl_recorded_step_write(const char *path, const dl_replay_run *run,
                                 const dl_activity_steps *steps, const dl_replay_steps *replayed,
                                 const dl_replay_time *times, int64_t batch, double *step_ns,
                                 dl_error *err) DL_MUST_CHECK;

#endif
