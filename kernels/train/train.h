/* Data-parallel training: replicas are threads pinned to cores, which exchange by the sync mode.
 *
 * Worker w trains on its own shard of each global batch: in step s, samples s*batch +
 * w*batch/workers ... of the shuffled order. All modes start from equal parameters and exchange
 * through memory: a "transfer" is a copy between a worker's vectors and the server's.
 *
 *   none       no exchange (k independent copies, which show the cost of sharing the machine)
 *   allreduce  gradients: barrier, worker w averages slice w of all workers' gradients into a
 *              shared result, barrier, every worker copies the result; local update
 *   ps         push gradients; barrier; `server_threads` workers sum and update slices of the
 *              server's parameters; barrier; pull
 *   average    every `interval` steps: push parameters (and optimizer state, or keep it); barrier;
 *              `server_threads` workers average slices; barrier; pull
 *   async      push gradient; under the server's lock: apply it, count the version, pull. Staleness
 *              of a gradient = updates applied between this worker's pull and the application.
 *   softsync   as async, but an update applies the mean of workers / n gradients (rounded down;
 *              Gupta, Zhang & Wang 2016), which wait at the server until there are enough. An
 *              update that would make a gradient staler than the bound waits for that gradient, and
 *              workers that push meanwhile wait for the update. Gradients that still wait at the
 *              end of the run are in no update.
 *   async_average
 *              every `interval` steps: upload the change since the last upload or the version
 *              taken, take a newer version if there is one (waiting at most merge.wait_s).
 *              A syncer in a separate thread merges uploads into new versions
 *              (common/merge.h); `outer` is then its optimizer. Staleness of an upload =
 *              versions made between the one that its worker had taken and the merge.
 *
 * In average, `fragments` F divides the parameters into F equal parts, each of which is averaged
 * every `interval` steps, one after another every interval / F (Streaming DiLoCo, Douillard et al.
 * 2025). With `lag` L a fragment is merged L steps after it was sent: the worker continues
 * meanwhile, and then takes mixing x its own parameters + (1 - mixing) x the average. The last
 * worker to send averages, so only a worker L steps ahead waits; over ranks the first worker of
 * each averages when the merge is due. After the last step of a run all sent fragments are
 * merged.
 *
 * With `sites` N averaging has two levels: worker w belongs to site w x N / workers. The workers of
 * a site average their gradients in each step, as in allreduce, so their parameters stay equal. The
 * first worker of each site sends its parameters for the averages, which all workers take. With one
 * site this is allreduce, with one worker per site average, bit for bit.
 *
 * With `interval_by_speed` slower workers do fewer local steps than the interval (dynamic local
 * updates), so that no worker waits long; all workers have the same weight in the average.
 *
 * An outer optimizer (config.outer; average and async_average) keeps separate parameters, which
 * every average updates (kernels/exchange.h), by the same slices; the workers then pull them. The
 * workers' optimizer states continue, or are averaged.
 *
 * In none, async, softsync and async_average no worker waits for the others' steps. The run ends
 * when the first worker has done all its steps (the others finish their current step), so that all
 * workers are active during the whole measurement.
 *
 * On a device (config.device) the same modes push to and pull from the server, which is in the
 * host's memory (where = cpu) or on a device, which workers may also use (gpu); or the devices
 * reduce gradients or parameters among themselves (allreduce). Every worker waits for its device at
 * the end of a step, and before it meets the others. By `dispatch`, each worker has a thread that
 * launches its operations, or one thread launches those of all workers in turn.
 *
 * `quantise` compresses the gradients that are pushed (kernels/quantise.h): encoded on the worker's
 * device, decoded at the server, each with a separate record. allreduce on the processor then
 * pushes and pulls too. In average it compresses the difference between a worker's parameters and
 * the common ones that all started from: the last average, or the outer optimizer's parameters. The
 * average is the common parameters plus the mean of the differences, and is pulled uncompressed.
 * Over ranks, rank 0 gets all messages and sends the mean.
 *
 * `ranks` divides the workers over several processes, in equal parts (allreduce and average). The
 * first workers of the processes meet ("barrier") and exchange; GPUs that reduce among themselves
 * do so directly. The results have the same bits as in one process.
 *
 * With `work` each worker draws the number of its samples in each step, batch / workers on average,
 * as with sentences of varying length. A step takes consecutive samples of the shuffled order from
 * its usual position on, so samples are not trained on equally often. A worker's gradient is the
 * mean over its samples; averages give all workers the same weight.
 *
 * With one worker every mode but async_average gives the bits of `none`, unless it quantises, lags
 * or has an outer optimizer. The result of async_average follows from the order of uploads, merges
 * and adoptions (result.merge_events), which the scheduler decides: a replay of them gives the same
 * bits. If each worker waits for a merge of all uploads, the order and the result are always the
 * same. The loops of a worker's operations may be divided among several threads
 * (kernels/thread_team.h), with the same bits as with one.
 *
 * Waiting: `spin` when every thread has its own core, else `block` (a spinning thread would steal
 * the core from the one it waits for). */
#ifndef DL_KERNELS_TRAIN_H
#define DL_KERNELS_TRAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/merge.h"
#include "common/options.h"
#include "common/status.h"
#include "kernels/data_set.h"
#include "kernels/device.h"
#include "kernels/exchange.h"
#include "kernels/model.h"
#include "kernels/optimizer.h"
#include "kernels/quantise.h"
#include "kernels/ranks/rank_group.h"
#include "kernels/train/schedule.h"
#include "trace/record.h"

/* "none", "allreduce", "ps", "average", "async", "softsync", "async_average", NULL */
extern const char *const dl_sync_names[];
typedef enum dl_sync {
    DL_SYNC_NONE,
    DL_SYNC_ALLREDUCE,
    DL_SYNC_PS,
    DL_SYNC_AVERAGE,
    DL_SYNC_ASYNC,
    DL_SYNC_SOFTSYNC,
    DL_SYNC_ASYNC_AVERAGE
} dl_sync;

extern const char *const dl_dispatch_names[]; /* "threads", "single", NULL */
typedef enum dl_dispatch {
    DL_DISPATCH_THREADS, /* a thread per worker */
    DL_DISPATCH_SINGLE   /* one thread for all workers; only on a device, not in async and
                          * softsync */
} dl_dispatch;

/* Where vectors are exchanged. AUTO: between the devices in allreduce, else on the host. */
typedef enum dl_train_where {
    DL_TRAIN_WHERE_AUTO,
    DL_TRAIN_WHERE_CPU,
    DL_TRAIN_WHERE_GPU,      /* on device `where_device`; every mode but none and async_average */
    DL_TRAIN_WHERE_ALLREDUCE /* between the devices; allreduce and average */
} dl_train_where;

/* Distribution of the samples in a worker's step about the mean m = batch / workers, with the
 * coefficient of variation `spread`; rounded, and at least 1:
 *
 *   none       always m
 *   uniform    evenly over m (1 - sqrt(3) spread) ... m (1 + sqrt(3) spread); spread <= 1 / sqrt(3)
 *   two-point  m (1 - spread) or m (1 + spread), equally likely; spread < 1
 *   lognormal  at most DL_TRAIN_WORK_MAX m; spread <= 1 */
extern const char
    *const dl_train_work_names[]; /* "none", "uniform", "two-point", "lognormal", NULL */
typedef enum dl_train_work_kind {
    DL_TRAIN_WORK_NONE,
    DL_TRAIN_WORK_UNIFORM,
    DL_TRAIN_WORK_TWO_POINT,
    DL_TRAIN_WORK_LOGNORMAL
} dl_train_work_kind;

#define DL_TRAIN_WORK_MAX 8

typedef struct dl_train_work {
    dl_train_work_kind kind;
    double spread;
} dl_train_work;

typedef struct dl_train_config {
    const char *model;
    dl_precision precision;
    dl_optimizer_config optimizer;
    dl_sync sync;
    int interval;           /* average, async_average: local steps between exchanges, >= 1 */
    bool interval_by_speed; /* average on the processor: the fastest worker does `interval` local
                             * steps between two averages, a worker slower by a factor f (from
                             * `slow`) the nearest whole number to interval / f, at least 1; steps
                             * is then a multiple of interval. Not with fragments, a lag or sites */
    bool average_state;     /* average: also averages the optimizers' states; not with a lag or
                             * quantised messages */
    int fragments; /* average on the processor: 1..DL_TRAIN_FRAGMENTS_MAX, divides interval */
    int lag;       /* average on the processor: steps, 0..interval - 1 */
    double mixing; /* with lag: 0..1, weight of a worker's own parameters */
    int sites;     /* average on the processor: number of sites, which divides workers; 0: one
                    * level. Over ranks a multiple of the number of ranks, and without lag */
    dl_outer_config outer; /* average (not on a device's server or between devices),
                            * async_average */
    int server_threads;    /* ps, average: workers that each compute a slice, 1..workers */
    int softsync_n;        /* softsync: 1..workers; an update needs workers / n gradients */
    int64_t bound;         /* softsync, async_average: largest staleness; -1 = none */
    dl_merge_config merge; /* async_average */
    bool staleness_rate;   /* async, softsync: divides each gradient's learning rate by its
                            * staleness, if above 1 (Zhang et al. 2016); sgd only, not on a device's
                            * server */
    int workers;           /* 1..DL_TRAIN_WORKERS_MAX */
    int batch;             /* samples per step of all workers; a multiple of workers */
    int64_t steps; /* steps of each worker, with interval_by_speed of the fastest: 1..2^32-1; in
                    * none, async, softsync and async_average the first worker to do them ends the
                    * run */
    uint64_t seed;
    const double *slow; /* [workers] factor >= 1 on the time of a worker's forward and backward
                         * passes, reached by running them again and spinning for the rest (on a
                         * device only whole passes, so that the factor holds on average over the
                         * steps); NULL = none */
    dl_train_work work; /* distribution of samples per step; on the processor */
    int threads;        /* threads of each worker that divide its loops, on the processor: 1 or
                         * more */
    int first_core;     /* >= 0; thread t of worker w is pinned to allowed core
                           (first_core + w threads + t) mod cores */
    int cores;          /* cores to use, at most all allowed ones; 0 = all */
    dl_wait wait;
    const dl_device_type *device; /* NULL = the processor; precision must be float */
    int first_device; /* worker w runs on device first_device + w mod n; n is the number of devices
                       * from first_device on, at most `devices`. Several workers may share one */
    int devices;      /* maximum number of devices; 0 = all */
    bool in_step;     /* none: the workers end each step together, so that they share a device
                       * during the whole step */
    dl_device_settings device_settings;
    dl_dispatch dispatch;
    dl_train_where where;
    int where_device;
    dl_quantise quantise;  /* format of the messages: of gradients in ps, allreduce (not between
                            * devices), async and softsync; of parameter changes in average on the
                            * processor. int8, topk and fp4: on the processor */
    double topk_frac;      /* topk: above 0, at most 1; unused by the others */
    double drop_epochs;    /* after this many epochs the learning rate is a tenth; 0 = never */
    double evaluate_every; /* steps of worker 0 between two points of the result, possibly
                            * fractional; 0 = none; not in async_average */
    dl_rank_group
        *ranks; /* processes that share the workers; NULL = this one has them all. The other
                 * settings count all ranks together; this rank's cores and devices follow those of
                 * the lower ranks on the same host */
    const atomic_bool *stop; /* once true, the run ends when no worker waits for another: after the
                              * step, in average after the interval; NULL = never */
} dl_train_config;

#define DL_TRAIN_WORKERS_MAX 256 /* limit of workers, and of workers x threads */
#define DL_TRAIN_FRAGMENTS_MAX 1024

/* LeNet in single precision on one worker: batch 64, 100 steps, SGD (0.01, momentum 0.9), seed 1.
 */
dl_train_config dl_train_default_config(void);

/* An observer receives the records of a trace, made on the worker's own thread between two
 * operations. `name` is an index in dl_train_event_names(). It must be fast, since its time counts
 * in the step. STEP is a step's last record. A step's records follow one another without gaps: the
 * first one starts with the step, each further one where the previous one ends, and the next step
 * where the last one ends; the clock is read once per boundary.
 *
 * A device's operations are timed by its marks; time zero is the launch of the first operation on
 * the idle device, some microseconds before its start. Gaps between records are the host's time to
 * launch and to wake up. The observer gets the records after the step, before the next step
 * starts. */
typedef struct dl_train_observer {
    bool steps_only; /* only STEP records: nothing within a step is marked or timed */
    void *user;
    void (*record)(void *user, const dl_record *record);
    /* May be NULL. Called when a step of this process's first worker begins, before any launch, and
     * when it has ended; on its thread. */
    void (*step)(void *user, int64_t step, bool begins);
} dl_train_observer;

/* The parameters at a point of a run, kept so that they can be evaluated after it without delaying
 * it: worker 0's after a step, which (except in none, and between averages) are also those of all
 * workers or, in async and softsync, of the server. */
typedef struct dl_train_point {
    int64_t update;     /* number of updates contained; in none and average, steps of a worker (with
                         * interval_by_speed of the fastest one) */
    int64_t samples;    /* samples whose gradients are contained */
    double simulated_s; /* of a replay: time in the simulated run; else NaN */
    double loss;        /* mean loss of the batches that worker 0 (a replay: every worker) has
                         * trained on since the last point */
    double *parameters; /* [parameter_count] */
} dl_train_point;

typedef enum dl_merge_kind {
    DL_MERGE_UPLOAD,     /* the worker uploaded its change after step `step` */
    DL_MERGE_MERGE,      /* the worker's upload became part of version `version` */
    DL_MERGE_ADOPT,      /* the worker took version `version` */
    DL_MERGE_TOO_STALE,  /* the upload was lost: staler than the bound */
    DL_MERGE_SUPERSEDED, /* the upload was lost: the worker uploaded again */
    DL_MERGE_UNMERGED    /* the run ended before a merge of the upload */
} dl_merge_kind;

typedef struct dl_merge_event {
    dl_merge_kind kind;
    int worker;
    int64_t step;      /* step after which the upload was made; adopt: the worker's current step */
    int64_t version;   /* merge: version made; adopt: version taken */
    int64_t base;      /* upload, merge: version that the upload is based on */
    int64_t staleness; /* merge: version before the merge, minus base */
    double weight;     /* merge: weight of the upload */
} dl_merge_event;

/* uploaded = applied + too_stale + superseded + unmerged */
typedef struct dl_merge_counts {
    int64_t uploaded, applied, too_stale, superseded, unmerged;
    int64_t merges;
    double weight; /* sum of the weights of applied uploads */
} dl_merge_counts;

/* Over ranks, workers and `seconds` refer to this process, all other fields to the whole run. */
typedef struct dl_train_result {
    int worker_count;
    int64_t **step_ns;    /* [worker_count][steps_done] duration of each step */
    int64_t *steps_done;  /* [worker_count] steps of each worker: all, except in none, async,
                           * softsync, async_average, with interval_by_speed, and in a stopped
                           * run */
    double seconds;       /* wall time from the common start to the last worker's end */
    double samples_per_s; /* samples of all steps done / seconds; with work, those drawn */
    double first_loss, last_loss; /* loss of the first and of the last step, mean over the
                                   * workers */
    double *parameters; /* [parameter_count] final parameters (mean over workers; the server's for
                           ps, async and softsync; async_average: the last version), as double */
    size_t parameter_count;
    int64_t updates, samples; /* contained in the final parameters, as in dl_train_point; with work,
                                 the average number of samples */
    dl_train_point *points;   /* [point_count] points, config.evaluate_every steps apart; in average
                             * at the next average */
    int point_count;
    dl_merge_counts uploads;      /* async_average: counts of uploads */
    dl_merge_event *merge_events; /* async_average: [merge_event_count] in order; else NULL */
    size_t merge_event_count;
    size_t device_bytes; /* in use on the first worker's device at the end; 0 on the processor */
} dl_train_result;

/* Returns the number of samples of a worker in step `step`, a function of the arguments only. Over
 * ranks, `config` and `worker` refer to the whole run. dl_train_most_samples returns the largest
 * possible number. */
int dl_train_step_samples(const dl_train_config *config, int worker, int64_t step);
int dl_train_most_samples(const dl_train_config *config);

/* Returns the number of processes that share the workers of a configuration; 1 without ranks. */
int dl_train_rank_count(const dl_train_config *config);

/* Sets *count to the number of devices that the workers of a configuration with a device run on,
 * over ranks those of one rank; fewer than the workers if some share one. Returns DL_ERR_RANGE if a
 * requested device does not exist. */
dl_status dl_train_device_count(const dl_train_config *config, int *count,
                                dl_error *err) DL_MUST_CHECK;

/* Returns whether the devices reduce among themselves. */
bool dl_train_is_collective(const dl_train_config *config);

/* Returns the number of cores that the configuration uses: `cores`, at most the allowed ones. */
int dl_train_cores(const dl_train_config *config);

/* Returns how the configuration's threads wait: `wait`, with AUTO resolved to SPIN if every thread
 * has its own core, else to BLOCK. */
dl_wait dl_train_wait(const dl_train_config *config);

/* Returns whether the run was asked to stop. */
bool dl_train_stopped(const dl_train_config *config);

/* Names that events point to: the model's operations, then "input", "gradients", "parameters",
 * "state", "barrier", "lock", "slowdown", "quantise", "dequantise", "step". *names is released with
 * free(). */
dl_status dl_train_event_names(const dl_train_config *config, const char ***names, int *count,
                               dl_error *err) DL_MUST_CHECK;

/* Checks, before the processes meet and with the same result in each, that they can share the
 * workers of a run with these settings. DL_ERR_RANGE, DL_ERR_UNSUPPORTED. */
dl_status dl_train_check_ranks(const dl_train_config *config, int ranks,
                               dl_error *err) DL_MUST_CHECK;

/* Does the checks with which dl_train_run begins, of the settings and the data set, without
 * starting anything. Returns DL_ERR_RANGE, DL_ERR_UNSUPPORTED or DL_ERR_NAME for a bad setting,
 * DL_ERR_DATA if the data set does not fit the model. */
dl_status dl_train_check(const dl_train_config *config, const dl_data_set *data,
                         dl_error *err) DL_MUST_CHECK;

/* Trains. If `observer` is NULL, the clock is read once per step. All workers are set up before any
 * starts. On failure *result stays untouched: DL_ERR_RANGE or DL_ERR_NAME for a bad setting,
 * DL_ERR_DATA if the set does not fit the model, DL_ERR_SYSTEM if a thread cannot be started or
 * pinned, the device fails, or a rank is lost, DL_ERR_UNSUPPORTED for settings that the mode or the
 * device lacks, or if there is no OpenBLAS. On success the caller releases *result with
 * dl_train_result_free. */
dl_status dl_train_run(const dl_train_config *config, const dl_data_set *data,
                       const dl_train_observer *observer, dl_train_result *result,
                       dl_error *err) DL_MUST_CHECK;
void dl_train_result_free(dl_train_result *result);

/* Plans the messages of a vector of the model's parameters or gradients: no block mixes layers.
 * Released with dl_quantise_plan_free. */
void dl_train_plan_messages(dl_quantise_plan *plan, const dl_model *model, dl_quantise kind,
                            double kept_frac);

/* Returns whether the training diverged: its last loss is not a finite number. */
bool dl_train_diverged(const dl_train_result *result);

/* Fraction of `data` that a model with these parameters classifies correctly, in single precision
 * on the calling thread. DL_ERR_NAME, or DL_ERR_DATA if the set does not fit the model. */
dl_status dl_train_accuracy(const char *model, const double *parameters, const dl_data_set *data,
                            double *accuracy, dl_error *err) DL_MUST_CHECK;

/* Fills table[DL_TRAIN_OPTION_COUNT] with dlprof train's options, whose targets are fields of
 * *config. */
enum { DL_TRAIN_OPTION_COUNT = 28 };
void dl_train_options(dl_train_config *config, dl_option *table);

/* Checks that the mode takes all settings that are not the defaults; without `all`, settings that
 * have no effect in other modes are allowed there. DL_ERR_UNSUPPORTED names the first refused one
 * as dlprof train's option. */
dl_status dl_train_check_modes(const dl_train_config *config, bool all,
                               dl_error *err) DL_MUST_CHECK;

/* Returns the name of an option that a schedule determines but whose value is not the
 * default; NULL: none. */
const char *dl_train_scheduled_option(const dl_train_config *config);

/* Checks the settings that a replay uses, as dl_train_check does, without the data set. */
dl_status dl_train_check_replay(const dl_train_config *config, dl_error *err) DL_MUST_CHECK;

/* Trains by the schedule of a simulated run, which gives the order of the gradients and the
 * versions of the parameters for each, on one or more cores. A schedule of one worker gives,
 * bit for bit, the result of training with one worker; its points and updates are then counted in
 * steps, as without averages.
 *
 * Uses these settings: model, precision, optimizer, outer (of averages and merges; DL_ERR_DATA
 * without it if the schedule is of mode bmuf), seed, average_state (of averages; DL_ERR_DATA with
 * merges or a lag), quantise and topk_frac (of averages; else DL_ERR_DATA), mixing (with a lag),
 * staleness_rate, cores (a thread each, not pinned), drop_epochs, evaluate_every (in steps of all
 * workers: of schedule->batch samples) and stop. Computes on the processor. In the result step_ns
 * and steps_done stay NULL; `seconds` is the wall time of the replay; of a schedule with merges the
 * parameters are the last version. Fails as dl_train_run. */
dl_status dl_train_replay(const dl_train_config *config, const dl_schedule *schedule,
                          const dl_data_set *data, dl_train_result *result,
                          dl_error *err) DL_MUST_CHECK;

#endif
