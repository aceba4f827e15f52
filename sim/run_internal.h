/* Internal interface of the sources that make up a run: run.c, run_results.c, run_processes.c,
 * shares.c, fits.c, and sim/island/island_run.c for workers of several GPUs. */
#ifndef DL_SIM_RUN_INTERNAL_H
#define DL_SIM_RUN_INTERNAL_H

#include "sim/island/island.h"
#include "sim/island/memory.h"
#include "sim/run.h"

/* GPU model of a worker, and the worker's part of the batch. */
typedef struct dl_run_share {
    int model;
    int64_t samples;
} dl_run_share;

/* Writes the results of a finished team to the zeroed *result; takes ownership of the staleness
 * counts of a team without logs. shares[workers] are the point's; is_compared: sets the quantiles
 * of the steps. */
void dl_run_measure(dl_team *team, const dl_point *point, const dl_run_share *shares,
                    bool is_compared, dl_run_result *result);

/* Sets standard deviation and quantiles of the steps in steps_s[count], which it reorders. */
void dl_run_spread_of_steps(double *steps_s, size_t count, dl_run_result *result);

/* Factor on the compute times of GPUs of this model, from the run's compute_log. */
double dl_run_compute_factor(const dl_run_config *run, int model);

/* Factors on the times of passes, [workers x ranks]; the caller frees them. A slow worker is slow
 * in all its stages; GPUs of one model vary individually. `gpus` is NULL for workers on cores. */
double *dl_run_slow_devices(const dl_scenario *scenario, const dl_gpu_options *gpus,
                            const dl_costs *costs, const dl_point *point);

/* Inputs for the memory of the GPUs of one worker, stage by stage (dl_run_rank); the shards of a
 * stage need equal memory. dl_run_ranks_open returns the errors of dl_pipeline_cut; call
 * dl_run_ranks_close even then. Contains pointers to its own members: must not be moved. */
typedef struct dl_run_ranks {
    dl_memory_rank all; /* fields common to all stages; its plan divides the state among shards and,
                         * as [exchange] sharded demands, among workers */
    dl_gpu_options options;
    dl_model_layers model;
    dl_stage stages[DL_STAGES_MAX];
    int first[DL_PIECES_MAX + 1];
} dl_run_ranks;
dl_status dl_run_ranks_open(dl_run_ranks *ranks, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point);
void dl_run_ranks_close(dl_run_ranks *ranks);
dl_memory_rank dl_run_rank(const dl_run_ranks *ranks, int stage);

/* Workers of several GPUs. dl_run_create_island creates them from drawn costs and the exchange
 * settings of single-GPU workers; *island holds their data, must be freed after *islands, and may
 * be set even on failure. dl_run_measure_island adds their results; dl_run_split_memory returns the
 * memory of the fullest GPU of the stages `first` to `last`. */
typedef struct dl_run_island dl_run_island;
dl_status dl_run_create_island(const dl_run_config *run, const dl_costs *costs,
                               const dl_gpus_config *exchange, dl_run_island **island,
                               dl_islands **islands, dl_error *err) DL_MUST_CHECK;
void dl_run_free_island(dl_run_island *island);

/* Step times of the workers without exchange and noise, [workers], in ns, owned by the island:
 * stages and launches. Call it once. */
const double *dl_run_island_alone_ns(dl_run_island *island, const dl_run_config *run);
void dl_run_measure_island(const dl_team *team, const dl_point *point, dl_run_result *result);
double dl_run_split_least_ns(const dl_run_config *run, bool with_tensors);
dl_gpu_memory dl_run_split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int first, int last);

/* Sets the bytes that a server keeps for the point's workers: the vectors and the state of its
 * optimizer. No effect without a server. */
void dl_run_serve(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                  dl_gpu_point *gpus);

/* --- run_processes.c --- */

/* Whether the workers are processes on cores. */
bool dl_run_is_of_processes(const dl_scenario *scenario);

/* The measured time of this kind of exchange among the point's processes; NULL: not measured. */
const dl_collective_cost *dl_run_process_cost(const dl_costs *costs, const dl_point *point,
                                              int kind);

/* Whether the workers are processes whose exchange is timed as a whole: all-reduces, or, with a
 * synchronous server, push and pull together, if that was measured. */
bool dl_run_reduces(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

/* *ns: time that an exchange among processes, including the broadcast of buffers before it, adds to
 * a step whose backward pass takes backward_ns. *late_ns: the part of it that remains after the
 * last process arrives. Processes that wait leave a core to the last one's communication threads,
 * which then do not slow down its backward pass. */
void dl_run_reduce_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                      double backward_ns, double *ns, double *late_ns);

/* Whether an exchange of the point was measured only for other numbers of processes. */
bool dl_run_scales_exchange(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point);

/* Converts the needs of threads to those of processes: the time of an exchange includes waits. Adds
 * the needs of exchanges whose times are not in the costs. */
unsigned dl_run_process_needs(const dl_scenario *scenario, const dl_costs *costs,
                              const dl_point *point, unsigned needs);

#endif
