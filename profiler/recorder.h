/* Records a training run: the observer of dl_train_run that writes the trace and keeps each step.
 *
 * Every worker has a separate stream and list of steps, so that recording takes no lock. Before the
 * start all names are interned and the memory of the first steps is touched; lists grow by
 * doubling. The steps kept in memory suffice for the statistics of a run, with or without a
 * trace. */
#ifndef DL_PROFILER_RECORDER_H
#define DL_PROFILER_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cpu.h"
#include "common/status.h"
#include "kernels/train/train.h"
#include "profiler/progress.h"
#include "trace/distribution.h"
#include "trace/dlt/dlt.h"

typedef struct dl_recorder_step {
    int64_t end_ns; /* CLOCK_MONOTONIC */
    int64_t duration_ns;
    int64_t compute_ns; /* time of the step's operations */
    int64_t samples;
    int64_t staleness; /* staleness of the applied gradient or upload; DL_NO_STALENESS: none was
                        * applied */
} dl_recorder_step;

/* Written only by the worker's thread; each on separate cache lines. */
typedef struct dl_recorder_worker {
    _Alignas(64) dl_trace_stream *stream; /* NULL: no trace */
    const uint32_t *ids;                  /* ids in the trace, indexed by the run's names */
    dl_recorder_step *steps;              /* [capacity]; the first `count` are done */
    int64_t capacity;
    int64_t compute_ns; /* time of the current step's operations so far */
    atomic_llong count; /* steps done; may be read during the run */
} dl_recorder_worker;

typedef struct dl_recorder {
    dl_trace_writer *writer; /* NULL: no trace, only steps are kept */
    uint32_t *ids;
    dl_recorder_worker *workers;
    int worker_count;
    int64_t steps; /* steps requested per worker */
    dl_merge_counts uploads;
} dl_recorder;

/* Prepares the recording of one run of `config`; with a path, creates the trace file there. The
 * caller may add meta keys through recorder->writer. */
dl_status dl_recorder_open(dl_recorder *recorder, const dl_train_config *config, const char *path,
                           dl_error *err) DL_MUST_CHECK;

/* The observer to hand to dl_train_run; valid while the recorder is. The caller may restrict it to
 * steps. If a tool records NVTX (NVTX_INJECTION64_PATH), the observer marks the first worker's
 * steps as ranges "step 0", "step 1", ... */
dl_train_observer dl_recorder_observer(dl_recorder *recorder);

/* Reserves memory for `count` steps of a worker; called by the worker's thread, or while that
 * thread is not running. */
void dl_recorder_reserve(dl_recorder_worker *worker, int64_t count);

/* Completes and closes the trace, if there is one; the steps stay. DL_ERR_IO if records were lost.
 */
dl_status dl_recorder_finish(dl_recorder *recorder, dl_error *err) DL_MUST_CHECK;

/* Finishes the trace, ignoring errors, and frees everything. A zeroed recorder is allowed. */
void dl_recorder_free(dl_recorder *recorder);

/* Applies the results of an async_average run's uploads to the steps: the last step of a merged
 * upload gets its staleness; the steps of an upload that was too stale or superseded count no
 * samples. */
void dl_recorder_take_uploads(dl_recorder *recorder, const dl_train_config *config,
                              const dl_train_result *result);

/* Time at which the first worker ended its last step; until then all workers were active. Workers
 * without a step are ignored; INT64_MAX if no worker has done one. */
int64_t dl_recorder_common_end_ns(const dl_recorder *recorder);

/* Number of steps that worker `worker` has done. May be called during the run. */
int64_t dl_recorder_steps_done(const dl_recorder *recorder, int worker);

/* Statistics of all workers' step times after the warm-up, in ns. */
dl_distribution dl_recorder_step_times(const dl_recorder *recorder);

/* Mean step time after the warm-up in ns: the mean of the workers' means, over the workers that
 * have such steps. */
double dl_recorder_mean_step_ns(const dl_recorder *recorder);

/* Samples per second that all workers apply: the sum over the workers of applied samples / time of
 * the worker's steps, both after the warm-up. */
double dl_recorder_throughput_per_s(const dl_recorder *recorder);

/* Statistics of the staleness of the applied gradients or merged uploads of one worker, or of all
 * if worker < 0. A quantile is the smallest value that at least that fraction of the values do not
 * exceed. count is 0 in synchronous modes. */
dl_distribution dl_recorder_staleness(const dl_recorder *recorder, int worker);

/* Shows the progress of a training run on a terminal. A thread reads the recorder a few times a
 * second; without a terminal there is no thread. */
typedef struct dl_run_progress {
    const dl_recorder *recorder; /* borrowed until stop */
    dl_progress progress;
    pthread_t thread;
    bool running;
    bool stop; /* guarded by `mutex` */
    pthread_mutex_t mutex;
    pthread_cond_t stopped;
} dl_run_progress;

void dl_run_progress_start(dl_run_progress *progress, const dl_recorder *recorder);
void dl_run_progress_stop(dl_run_progress *progress);

/* The result of one training run, as a row of the table that dlsim compares with. */

/* Checks before a run that the file at `path`, if there is one, has the columns of a row.
 * DL_ERR_FORMAT for other columns, and the errors of dl_csv_read. */
dl_status dl_measured_row_check(const char *path, dl_error *err) DL_MUST_CHECK;

/* Appends a row to `path`, with the column names before it if the file is new or empty:
 *
 *   cores, workers, batch, sync, interval    interval: empty except in average, async_average
 *   model, precision                         "lenet"; "float", "double", "tf32", "fp16"
 *   gpu_count                                GPUs that the workers are on; 0: on the processor
 *   where, compress                          "cpu", "gpu:0", "allreduce"; a name of
 *                                            dl_quantise_names; empty without exchange
 *   host_memory                              "pinned", "pageable"; empty without GPUs
 *   step_s, throughput_per_s                 without the warm-up
 *   step_quantiles_s                         quantiles 0.005, 0.015, ..., 0.995 of all workers'
 *                                            steps without the warm-up, separated by semicolons
 *   staleness_mean, _sd, _p50, _p90          empty in synchronous modes
 *   staleness_mean_by_worker                 numbers separated by semicolons; empty also if a
 *                                            worker has no staleness
 *   staleness_counts                         numbers of gradients or uploads with staleness 0,
 *                                            1, 2, ..., separated by semicolons
 *   uploads_applied, _too_stale,             counts of uploads in async_average, else empty
 *   _superseded, _unmerged, merges
 *   steps, seed                              steps of the worker that did the most: fewer than
 *                                            requested if the run was stopped
 *   others_frac, steal_frac                  shares of the machine's processor time during the
 *                                            run used by other programs and taken by the host
 *   source                                   "dlprof train"
 *
 * DL_ERR_FORMAT if the file has other columns; DL_ERR_IO. */
dl_status dl_measured_row_append(const char *path, const dl_train_config *config,
                                 const dl_recorder *recorder, const dl_cpu_disturbance *disturbed,
                                 dl_error *err) DL_MUST_CHECK;

#endif
