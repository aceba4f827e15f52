/* Costs anchored to a step that was measured ([workload] calibrate): all compute times one factor,
 * so that the prediction of the measured point is that step.
 *
 *   [workload]
 *   calibrate = 212 ms        ; of the scenario's point with the fewest workers, its first one
 *   calibrate = 212 ms@8      ; of eight workers, with the mode and batch per worker of that point
 *   calibrate = 212 ms@8x32   ; with 32 samples each
 *   calibrate = 1.31          ; the factor itself
 *
 * The factor is on forward, backward, update and copies to buckets; exchange, input and the host's
 * launches stay as they are, but for a launch that is assumed from the step. It is found on the
 * first variant of a study that has the key so, and holds for the others too: a list of machines
 * or settings has one factor. Where it was found the estimate's own spread is gone from the
 * intervals; on another model of GPU it stays. */
#ifndef DL_SIM_CALIBRATE_H
#define DL_SIM_CALIBRATE_H

#include "sim/scenario/scenario.h"

/* Finds the factor for the scenario and its costs, before anything is assumed for these, and
 * completes *calibrate: factor, workers, batch. DL_ERR_RANGE where no factor within
 * DL_CALIBRATE_FACTOR_MAX gives the step, with what is then predicted; the errors of dl_run. */
dl_status dl_calibrate_find(const dl_scenario *scenario, const dl_costs *costs,
                            dl_calibrate *calibrate, dl_error *err) DL_MUST_CHECK;

/* Multiplies the compute times of the costs, those of other models of GPU too. */
void dl_calibrate_apply(dl_costs *costs, double factor);

#endif
