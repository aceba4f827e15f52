/* Calibration of costs with a measured step ([workload] calibrate): one factor on all compute
 * times, chosen so that the predicted step of the measured point equals the measured step.
 *
 *   [workload]
 *   calibrate = 212 ms        ; step of the scenario's first point with the fewest workers
 *   calibrate = 212 ms@8      ; step of eight workers, with that point's mode and batch per worker
 *   calibrate = 212 ms@8x32   ; step of eight workers with 32 samples each
 *   calibrate = 600 samples/s@8x32 ; such a step by its rate, of all workers together
 *   calibrate = 60000 tokens/s@8   ; the same, of a model whose samples are sequences
 *   calibrate = 1.31          ; the factor itself
 *   calibrate = 212 ms@8x32=1.31   ; such a step with its factor, which is not determined again
 *
 * The factor applies to forward, backward, update and copies to buckets. Exchange, input and the
 * host's launches stay unchanged, except a launch time that is assumed from the step. The factor is
 * determined on the first variant of a study with this value of the key, and applies to the other
 * variants too: a list of machines or settings has one factor. On the GPU model on which it was
 * determined it replaces the estimate's own spread in the intervals; on other models the spread
 * remains. */
#ifndef DL_SIM_CALIBRATE_H
#define DL_SIM_CALIBRATE_H

#include "common/ini.h"
#include "sim/scenario/scenario.h"

/* Reads the key into *calibrate, which must be zeroed and stays zero if the key is absent.
 * DL_ERR_PARSE, DL_ERR_RANGE with file:line. */
dl_status dl_calibrate_read(dl_calibrate *calibrate, const dl_ini *ini,
                            dl_error *err) DL_MUST_CHECK;

/* Finds the factor for the scenario and its costs, which must not contain assumptions yet, and sets
 * the factor, step, workers and samples of *calibrate. DL_ERR_RANGE, with the prediction at the
 * limit, if no factor within DL_CALIBRATE_FACTOR_MAX gives the step, and for more workers than the
 * machine has GPUs; DL_ERR_DATA if the scenario cannot predict the measured step, and for tokens/s
 * if samples are not sequences; the errors of dl_run. */
dl_status dl_calibrate_find(const dl_scenario *scenario, const dl_costs *costs,
                            dl_calibrate *calibrate, dl_error *err) DL_MUST_CHECK;

/* Multiplies the compute times of the costs by `factor`, including those of other GPU models. */
void dl_calibrate_apply(dl_costs *costs, double factor);

#endif
