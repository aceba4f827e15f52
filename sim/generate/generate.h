/* A run of a scenario with [generators]: the trainer's seconds, by its keys or by simulating the
 * scenario's own step, the rollout, and both as the result of a run like any other. */
#ifndef DL_SIM_GENERATE_H
#define DL_SIM_GENERATE_H

#include "sim/costs/assume.h"
#include "sim/run.h"

/* Runs, with the costs of the draw. DL_ERR_DATA if no update can be made; the errors of dl_run.
 * `observer` may be NULL. */
dl_status dl_generate_run(const dl_run_config *config, const dl_costs *costs,
                          const dl_rollout_observer *observer, dl_run_result *result,
                          dl_error *err) DL_MUST_CHECK;

/* Estimates, for a scenario with a [workload] model on GPUs like this one, the requests in flight that
 * their memory holds and, where neither keys nor costs give it, the rate of a replica by the model's
 * roofline, which is added to *made with its interval. */
void dl_generate_estimate(dl_scenario *scenario, const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                          dl_costs *costs, dl_assumptions *made);

/* Assumes, where a measured update on policy is to be split, the part of the trainer's that does not
 * scale, unless it is known. */
void dl_generate_assume(const dl_generators *generators, dl_costs *costs, dl_assumptions *made);

/* Seconds of an update of the trainer on `gpus` GPUs: *fixed_s, and *token_s for each of its
 * tokens. */
dl_status dl_generate_trainer(const dl_run_config *config, const dl_costs *costs, int gpus,
                              double *fixed_s, double *token_s, dl_error *err) DL_MUST_CHECK;

#endif
