/* Runs of a scenario with [generators]: computes the trainer's time (from keys or costs, or by
 * simulating its step) and the rollout, and combines them into an ordinary run result. */
#ifndef DL_SIM_GENERATE_H
#define DL_SIM_GENERATE_H

#include "sim/costs/assume.h"
#include "sim/run.h"

/* Runs with the drawn costs. DL_ERR_DATA if no update is possible; otherwise the errors of dl_run.
 * `observer` may be NULL. */
dl_status dl_generate_run(const dl_run_config *config, const dl_costs *costs,
                          const dl_rollout_observer *observer, dl_run_result *result,
                          dl_error *err) DL_MUST_CHECK;

/* Estimates, for a scenario with a [workload] model on GPUs like this one, the number of requests
 * in flight that fit into memory, unless a key gives it, and, if neither keys nor costs give it, a
 * replica's rate by the model's roofline, which is added to *made with its interval. */
void dl_generate_estimate(dl_scenario *scenario, const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                          dl_costs *costs, dl_assumptions *made);

/* Memory of a replica's GPU. needs_bytes: `parameters` in 16 bits and, as `others`, its part of the
 * longest request's keys and values. has_bytes: the part of the memory that inference engines use.
 * NaN if the model, its cache or the GPU is unknown, or if keys give the replica's rates, as a
 * measured replica must have held the model. */
dl_gpu_memory dl_generate_memory(const dl_scenario *scenario);

/* Suggests the smallest replica_gpus that fits, or says that none does, for a scenario whose
 * replicas do not fit; NULL if they do or if that is unknown. The caller frees the text. */
char *dl_generate_remedy(const dl_scenario *scenario);

/* Assumes the fraction of the trainer's time that does not scale, if a measured on-policy update
 * must be split and the fraction is unknown. */
void dl_generate_assume(const dl_generators *generators, dl_costs *costs, dl_assumptions *made);

/* Time in s of a trainer's update on `gpus` GPUs: *fixed_s, and *token_s per token. Returns the
 * errors of dl_run. */
dl_status dl_generate_trainer(const dl_run_config *config, const dl_costs *costs, int gpus,
                              double *fixed_s, double *token_s, dl_error *err) DL_MUST_CHECK;

#endif
