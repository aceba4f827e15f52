/* A run of a scenario with [generators]: computes the trainer's time (from keys or costs, or by
 * simulating its step) and the rollout, and combines them into an ordinary run result. */
#ifndef DL_SIM_GENERATE_H
#define DL_SIM_GENERATE_H

#include "sim/costs/assume.h"
#include "sim/run.h"

/* Runs with the drawn costs. DL_ERR_DATA if no update can be made; the errors of dl_run. `observer`
 * may be NULL. */
dl_status dl_generate_run(const dl_run_config *config, const dl_costs *costs,
                          const dl_rollout_observer *observer, dl_run_result *result,
                          dl_error *err) DL_MUST_CHECK;

/* Estimates, for a scenario with a [workload] model on GPUs like this one, the requests in flight
 * that fit their memory and, where neither keys nor costs give it, a replica's rate by the model's
 * roofline, added to *made with its interval. */
void dl_generate_estimate(dl_scenario *scenario, const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                          dl_costs *costs, dl_assumptions *made);

/* Memory of a replica's GPU. It needs `parameters` in 16 bits and, as `others`, its part of the
 * longest request's keys and values; it has the part that inference engines use. NaN where the
 * model, its cache or the GPU is unknown, or where keys give the replica's rates: a replica that
 * was measured holds the model. */
dl_gpu_memory dl_generate_memory(const dl_scenario *scenario);

/* The smallest replica_gpus that fits, for a scenario whose replicas do not; NULL: they do. The
 * caller frees it. */
char *dl_generate_remedy(const dl_scenario *scenario);

/* Assumes the part of the trainer's time that does not scale, where a measured update on policy
 * must be split and the part is unknown. */
void dl_generate_assume(const dl_generators *generators, dl_costs *costs, dl_assumptions *made);

/* Seconds of a trainer's update on `gpus` GPUs: *fixed_s, and *token_s per token. */
dl_status dl_generate_trainer(const dl_run_config *config, const dl_costs *costs, int gpus,
                              double *fixed_s, double *token_s, dl_error *err) DL_MUST_CHECK;

#endif
