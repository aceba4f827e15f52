/* Training as a schedule says: real gradients, applied in the order and against the versions of the
 * parameters that a simulated run had, on one or more cores.
 *
 * A thread takes the next event, waits until the parameters that its gradient is of are there,
 * computes, waits for its turn, and applies (train_replay_parameters.h): so the result does not
 * depend on the number of threads.
 *
 * A schedule of one worker gives bit for bit what training with one worker gives; its points and
 * updates are then counted in steps, as if nobody averaged. */
#ifndef DL_KERNELS_TRAIN_REPLAY_H
#define DL_KERNELS_TRAIN_REPLAY_H

#include "kernels/train/schedule.h"
#include "kernels/train/train.h"

/* As dl_train_check, of what counts in a replay. */
dl_status dl_train_check_replay(const dl_train_config *config, dl_error *err) DL_MUST_CHECK;

/* Replays. Of the configuration count: model, precision, optimizer, seed, average_state,
 * staleness_rate, cores and first_core (a thread each), drop_epochs, evaluate_every (in steps of all
 * workers: of schedule->batch samples) and stop; the processor computes. Of the result, step_ns and
 * steps_done stay NULL; `seconds` is the wall time of the replay. Fails as dl_train_run. */
dl_status dl_train_replay(const dl_train_config *config, const dl_schedule *schedule,
                          const dl_data_set *data, dl_train_result *result,
                          dl_error *err) DL_MUST_CHECK;

#endif
