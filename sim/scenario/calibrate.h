/* Calibration of costs with a measured step ([workload] calibrate): one factor on all compute
 * times, with which the predicted step of the measured point equals that step.
 *
 *   [workload]
 *   calibrate = 212 ms        ; of the scenario's point with the fewest workers, its first one
 *   calibrate = 212 ms@8      ; of eight workers, with the mode and batch per worker of that point
 *   calibrate = 212 ms@8x32   ; with 32 samples each
 *   calibrate = 1.31          ; the factor itself
 *
 * The factor applies to forward, backward, update and copies to buckets; exchange, input and the
 * host's launches stay unchanged, but for a launch that is assumed from the step. It is found on
 * the first variant of a study with this value of the key, and applies to the others too: a list of
 * machines or settings has one factor. On the model of GPU where it was found it replaces the
 * estimate's own spread in the intervals; on another one the spread stays. */
#ifndef DL_SIM_CALIBRATE_H
#define DL_SIM_CALIBRATE_H

#include "common/ini.h"
#include "sim/scenario/scenario.h"

/* Reads the key into zeroed *calibrate, which stays zero without it. DL_ERR_PARSE, DL_ERR_RANGE
 * with file:line. */
dl_status dl_calibrate_read(dl_calibrate *calibrate, const dl_ini *ini,
                            dl_error *err) DL_MUST_CHECK;

/* Finds the factor for the scenario and its costs, which must not contain assumptions yet, and
 * fills in the factor, workers and batch of *calibrate. DL_ERR_RANGE, with the prediction at the
 * limit, if no factor within DL_CALIBRATE_FACTOR_MAX gives the step; the errors of dl_run. */
dl_status dl_calibrate_find(const dl_scenario *scenario, const dl_costs *costs,
                            dl_calibrate *calibrate, dl_error *err) DL_MUST_CHECK;

/* Multiplies the compute times of the costs, also of other models of GPU. */
void dl_calibrate_apply(dl_costs *costs, double factor);

#endif
