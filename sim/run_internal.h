/* What run.c, its results and split models (sim/pipeline/pipeline_run.c) share. */
#ifndef DL_SIM_RUN_INTERNAL_H
#define DL_SIM_RUN_INTERNAL_H

#include "sim/run.h"

/* A worker's GPU and its part of the batch. */
typedef struct dl_run_share {
    int model;
    int64_t samples;
} dl_run_share;

/* The errors of a run that has ended: it took no time, or more than DL_NS_MAX. */
dl_status dl_run_check_time(const dl_engine *engine, const dl_run_config *config,
                            dl_error *err) DL_MUST_CHECK;

/* The figures of a team that has run, to a zeroed *result, which takes the counts of a team without
 * logs away. shares[workers] of the point. */
void dl_run_measure(dl_team *team, const dl_point *point, const dl_run_share *shares,
                    dl_run_result *result);

/* Standard deviation and quantiles of steps_s[count], which change their places. */
void dl_run_spread_of_steps(double *steps_s, size_t count, dl_run_result *result);

/* What a run's compute_log makes of the times of a GPU of that model. */
double dl_run_compute_factor(const dl_run_config *run, int model);

/* Factors on passes, [workers x stages], the caller's to free. A slow worker is slow in all stages;
 * GPUs of one model differ each for itself. `gpus` NULL: workers on cores. */
double *dl_run_slow_devices(const dl_scenario *scenario, const dl_gpu_options *gpus,
                            const dl_costs *costs, const dl_point *point);

/* dl_run of a split model, with the costs of the draw; what the fullest of its GPUs needs. */
dl_status dl_run_split(const dl_run_config *run, const dl_costs *costs, dl_run_result *result,
                       dl_error *err) DL_MUST_CHECK;
dl_gpu_memory dl_run_split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point);

#endif
