/* What run.c, its results, exchange of processes and workers of several GPUs (sim/island/island_run.c)
 * share. */
#ifndef DL_SIM_RUN_INTERNAL_H
#define DL_SIM_RUN_INTERNAL_H

#include "sim/island/island.h"
#include "sim/island/memory.h"
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

/* Factors on passes, [workers x ranks], the caller's to free. A slow worker is slow in all stages;
 * GPUs of one model differ each for itself. `gpus` NULL: workers on cores. */
double *dl_run_slow_devices(const dl_scenario *scenario, const dl_gpu_options *gpus,
                            const dl_costs *costs, const dl_point *point);

/* GPUs of the point's stages, or a worker that is one GPU: shards have a part each of their stage, or
 * workers of what [exchange] sharded says. Must stay where it is; close it after errors too, which
 * are those of dl_pipeline_cut. */
typedef struct dl_run_ranks {
    dl_memory_rank all; /* but for the stage */
    dl_gpu_options options;
    dl_model_layers model;
    dl_stage stages[DL_STAGES_MAX];
    int first[DL_PIECES_MAX + 1];
} dl_run_ranks;
dl_status dl_run_ranks_open(dl_run_ranks *ranks, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point);
void dl_run_ranks_close(dl_run_ranks *ranks);
dl_memory_rank dl_run_rank(const dl_run_ranks *ranks, int stage);

/* Of workers of several GPUs, with the costs of the draw: makes them, for an exchange as of workers of
 * one GPU, and what they need until they are freed, of which the latter may be there even if it fails;
 * figures of a team that has run; what the fullest of the GPUs needs. */
typedef struct dl_run_island dl_run_island;
dl_status dl_run_create_island(const dl_run_config *run, const dl_costs *costs,
                               const dl_gpus_config *exchange, dl_run_island **island,
                               dl_islands **islands, dl_error *err) DL_MUST_CHECK;
void dl_run_free_island(dl_run_island *island);
void dl_run_measure_island(const dl_team *team, const dl_point *point, dl_run_result *result);
double dl_run_split_least_ns(const dl_run_config *run);
dl_gpu_memory dl_run_split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point);

/* Of the parameters, that are averaged one after another. */
int dl_run_fragments(const dl_scenario *scenario, const dl_point *point);

/* --- run_processes.c --- */

/* Whether the workers are processes on cores. */
bool dl_run_is_of_processes(const dl_scenario *scenario);

/* The time of this kind of exchange among the point's processes; NULL: it was not measured. */
const dl_collective_cost *dl_run_process_cost(const dl_costs *costs, const dl_point *point,
                                              int kind);

/* Whether the workers are processes whose exchange, all of them together, was measured as a whole:
 * by all-reduces, or with a synchronous server. */
bool dl_run_reduces(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* What an exchange of processes adds to a step whose backward pass takes backward_ns, with the
 * broadcast of buffers before it; and what is left of it where all but the last process have
 * waited. These leave a core to the last one's threads: nothing that is in flight during its
 * backward pass slows that down. */
void dl_run_reduce_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                      double backward_ns, double *ns, double *late_ns);

/* Whether an exchange of the point was measured of other numbers of processes only. */
bool dl_run_scales_exchange(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point);

/* What processes need of what threads would: their waits are in what their exchange takes as a
 * whole. With what they need where the costs have no times of it. */
unsigned dl_run_process_needs(const dl_scenario *scenario, const dl_costs *costs,
                              const dl_point *point, unsigned needs);

#endif
