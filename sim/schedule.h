/* The order of updates of one simulated run, for `dlprof train --schedule`, which repeats it with
 * real gradients. A CSV file:
 *
 *   # dlscale schedule
 *   # schema: 1
 *   # program: dlsim 0.1.0
 *   # scenario: two workers
 *   # point: cores 2, workers 2, batch 128, softsync, n 1
 *   # mode: softsync
 *   # seed: 1
 *   # workers: 2
 *   # batch: 128
 *   time_s,event,update,worker,read,batch
 *   0.021300000,gradient,1,0,0,0
 *   0.021300000,gradient,1,1,0,1
 *
 * Rows are in the order of the events, equal times included.
 *
 *   gradient  update number `update` (1, 2, ... without gaps) has in it, as one of all that have its
 *             number, the mean being applied, the gradient that `worker` computed with the parameters
 *             behind update `read` (0 = the first ones); its staleness is update - 1 - read. time_s is
 *             when the update was done.
 *   local     `worker` has computed a gradient with its own parameters and updated them
 *   average   the parameters of all workers have been replaced by their mean, for the `update`th time
 *
 * time_s are seconds since the start. `batch` is the mini-batch: number `step` of worker w is step x
 * workers + w, samples batch x share ... of the shuffled order, with share = (# batch) / workers. What
 * does not apply is an empty cell. A gradient that no update has in it is not there.
 *
 * Modes whose server updates give gradients, none and average local steps. easgd and bmuf also blend
 * parameters, which this format does not have. */
#ifndef DL_SIM_SCHEDULE_H
#define DL_SIM_SCHEDULE_H

#include "sim/run.h"

/* Runs replicate 0 of `point` (one of the scenario's) once more and writes its order to `path`.
 * DL_ERR_UNSUPPORTED for easgd and bmuf; DL_ERR_IO. */
dl_status dl_schedule_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err) DL_MUST_CHECK;

#endif
