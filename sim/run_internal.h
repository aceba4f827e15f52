/* Shared by run.c, its results, exchange of processes and workers of several GPUs
 * (sim/island/island_run.c). */
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

/* Writes the figures of a team that has run to zeroed *result; takes over the counts of a team
 * without logs. shares[workers] of the point. */
void dl_run_measure(dl_team *team, const dl_point *point, const dl_run_share *shares,
                    dl_run_result *result);

/* Standard deviation and quantiles of steps_s[count], which it reorders. */
void dl_run_spread_of_steps(double *steps_s, size_t count, dl_run_result *result);

/* Factor of a run's compute_log on the times of a GPU of that model. */
double dl_run_compute_factor(const dl_run_config *run, int model);

/* Factors on passes, [workers x ranks], freed by the caller. A slow worker is slow in all stages;
 * GPUs of one model differ individually. `gpus` NULL: workers on cores. */
double *dl_run_slow_devices(const dl_scenario *scenario, const dl_gpu_options *gpus,
                            const dl_costs *costs, const dl_point *point);

/* GPUs of the point's stages, or of workers of one GPU. Each shard holds a part of its stage; each
 * worker, its part of the state that they divide. Must not move in memory; close it
 * after errors too, which are those of dl_pipeline_cut. */
typedef struct dl_run_ranks {
    dl_memory_rank all; /* except for the stage */
    dl_gpu_options options;
    dl_model_layers model;
    dl_stage stages[DL_STAGES_MAX];
    int first[DL_PIECES_MAX + 1];
} dl_run_ranks;
dl_status dl_run_ranks_open(dl_run_ranks *ranks, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point);
void dl_run_ranks_close(dl_run_ranks *ranks);
dl_memory_rank dl_run_rank(const dl_run_ranks *ranks, int stage);

/* Workers of several GPUs, with the drawn costs. Creates them, for an exchange as of workers of one
 * GPU, with the data they need until freed, which may exist even after a failure; measures a team
 * that has run; gives the need of the fullest GPU. */
typedef struct dl_run_island dl_run_island;
dl_status dl_run_create_island(const dl_run_config *run, const dl_costs *costs,
                               const dl_gpus_config *exchange, dl_run_island **island,
                               dl_islands **islands, dl_error *err) DL_MUST_CHECK;
void dl_run_free_island(dl_run_island *island);

/* Times of the workers' steps without exchange and noise, [workers], owned by the island: those of
 * their stages and launches. To be called once. */
const double *dl_run_island_alone_ns(dl_run_island *island, const dl_run_config *run);
void dl_run_measure_island(const dl_team *team, const dl_point *point, dl_run_result *result);
double dl_run_split_least_ns(const dl_run_config *run, bool with_tensors);
dl_gpu_memory dl_run_split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point);

/* --- run_processes.c --- */

/* Whether the workers are processes on cores. */
bool dl_run_is_of_processes(const dl_scenario *scenario);

/* The time of this kind of exchange among the point's processes; NULL: it was not measured. */
const dl_collective_cost *dl_run_process_cost(const dl_costs *costs, const dl_point *point,
                                              int kind);

/* Whether the workers are processes whose exchange, all of them together, was measured as a whole:
 * by all-reduces, or with a synchronous server. */
bool dl_run_reduces(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* Time that an exchange of processes adds to a step whose backward pass takes backward_ns, with the
 * broadcast of buffers before it; and the time of that left after the last process arrives, while
 * all others have waited: these leave a core to its threads, so that nothing in flight slows its
 * backward pass. */
void dl_run_reduce_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                      double backward_ns, double *ns, double *late_ns);

/* Whether an exchange of the point was measured only for other numbers of processes. */
bool dl_run_scales_exchange(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point);

/* The needs of processes among those of threads: their waits are included in the time of their
 * exchange. With the needs of exchanges that the costs have no times of. */
unsigned dl_run_process_needs(const dl_scenario *scenario, const dl_costs *costs,
                              const dl_point *point, unsigned needs);

#endif
