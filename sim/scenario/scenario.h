/* A scenario: what to simulate, read from an INI file. Every listed value is swept: those that are
 * marked below make points; a list of any other key makes variants of the scenario (sim/scenario/study.h).
 *
 *   [scenario]
 *   name = LeNet on 2 cores
 *   steps = 200                  ; of a worker; rounded up to whole intervals. Default 200
 *   seed = 1                     ; default 1
 *   replicates = 5               ; default 1
 *   [machine]
 *   cores = 2                    ; list of numbers and words: `workers`, a core for each worker;
 *                                ; `measured`, as many as the cost file says were measured
 *   workers = 1, 2, 4            ; list
 *   ; or, for workers on GPUs, in place of cores (sim/platform/platform_gpu.h says what it means):
 *   file = machines/dgx1.ini     ; common/machine.h; relative to this file
 *   gpus = 0, 2                  ; GPUs of workers 0, 1, ..., ascending, counted over all nodes.
 *                                ; Default: worker w has GPU w
 *   placement = 431              ; in place of gpus and workers: workers of each node
 *                                ; (sim/platform/placement.h)
 *   dispatch = single            ; one host thread for all GPUs, or per_gpu. Default per_gpu
 *   ahead = 1                    ; steps that the host may be ahead of the GPUs. Default 1
 *   pageable = no                ; host memory of copies is not pinned. Default no
 *   [exchange]                   ; with [machine] file only
 *   shards = 2                   ; of the server; or `workers`: as many as these, at most 64.
 *                                ; Default 1
 *   algorithm = ring             ; of collectives: ring, tree, hierarchical, auto. Default auto
 *   fidelity = phase             ; of collectives: phase, chunk. Default phase
 *   bucket_bytes = 25000000      ; of collectives; 0 = all in one; at most 65536 buckets.
 *                                ; Default: those of [gradients] in the cost file, else 0
 *   overlap = no                 ; allreduce, ps: buckets start during the backward pass. Default no
 *   slows = transfers            ; when [overlap] slowdown of the costs holds: while a bucket is on
 *                                ; its way (default), or throughout the exchange: from the start of
 *                                ; the first bucket to the end of the last one
 *   compress = none              ; fp16, 1bit, topk: of what is pushed or reduced. Default none
 *   topk_frac = 0.01             ; topk: of the parameters; no default
 *   [input]                      ; with [machine] file only; if the cost file has [op input]
 *   cores = 4                    ; of each node that make batches. Default 1
 *   prefetch = 2                 ; batches of a worker made ahead. Default 1
 *   noise = exponential          ; of the time to make one: none, exponential. Default none
 *   [pipeline]                   ; with [machine] file only: a worker is several GPUs
 *   stages = 4                   ; that the model's layers are split into. 1: not split
 *   micro_batches = 8            ; of a worker's batch. Default 1: one stage works at a time. With
 *                                ; stages = 1 as [sync] accumulate
 *   schedule = 1f1b              ; gpipe, 1f1b (sim/pipeline/pipeline_split.h). Default gpipe
 *   split = balanced             ; or the first layers of stages 1, 2, ... (conv4, fc1). Default
 *                                ; balanced: by compute time
 *   cut_bytes_per_sample = 4096  ; that cross each cut, or a list; default: of the cost file
 *   gpus = 1, 2, 4               ; list in place of [machine] workers: GPUs of all workers; those
 *                                ; that stages do not divide are left out
 *                                ; modes none and allreduce; without overlap, buckets,
 *                                ; compression, accumulate, lag
 *   [workload]
 *   costs = costs/lenet.ini      ; relative to this file
 *   batch = 128                  ; list; all workers together. Or, for weak scaling:
 *   batch_per_worker = 128
 *   samples_per_epoch = 50000    ; for the time and, on GPUs, the price of an epoch
 *   scale_compute = machines/p2.ini  ; the costs are of a GPU of this file: scale them to the
 *                                ; machine's (sim/scenario/scaling.h)
 *   scale_arithmetic = fp32      ; by these rates: fp32, tf32, fp16. Default fp32
 *   [sync]
 *   mode = average, async        ; list of none, allreduce, ps, average, async, softsync, ssp,
 *                                ; ksync, kasync, kbatchsync, kbatchasync, easgd, bmuf. Default
 *                                ; none
 *   interval = 1, 10             ; list; average, easgd, bmuf: local steps. Default 1
 *   n = 1, 4                     ; list; softsync: updates after workers / n gradients. Default 1
 *   bound = 0, 3                 ; list; ssp: clocks ahead of the slowest worker, no default;
 *                                ; softsync: largest staleness. Default none
 *   k = 2, 4                     ; list; ksync, kasync, kbatchsync, kbatchasync: gradients of an
 *                                ; update, no default
 *   moving_rate = 0.1            ; list; easgd: does not matter for time
 *   block_momentum = 0.9         ; list; bmuf: does not matter for time
 *   accumulate = 1, 4            ; list; any mode: micro-batches of a worker's share of the batch,
 *                                ; after which there is one exchange. Default 1
 *   lag = 0, 1                   ; list; ps, allreduce: 1 exchanges during the next step, whose
 *                                ; parameters then are one step old. Default 0
 *   average_state = no           ; average: the optimizer's state too. Default no
 *   server_threads = 2           ; ps, average, bmuf; on cores at most all
 *                                ; workers of a point. Default 1
 *   where = cpu                  ; of the server. On GPUs also gpu:K (K over all nodes) and, for
 *                                ; average and bmuf, allreduce. Default cpu
 *                                ; an option that none of the modes takes is an error
 *   [noise]
 *   kind = trace                 ; none, trace, lognormal, gamma, exponential. Default none
 *   sigma = 0.1                  ; lognormal, gamma: coefficient of variation
 *   slow = 1:2, 3:1.5            ; worker:factor on forward and backward
 *   [measured]
 *   file = measured.csv          ; sim/report/measured.h
 */
#ifndef DL_SIM_SCENARIO_H
#define DL_SIM_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "sim/noise.h"
#include "sim/pipeline/pipeline_split.h"
#include "sim/sync/mode.h"

#define DL_WORKERS_MAX 1024
#define DL_STAGES_MAX 64
#define DL_MICRO_BATCHES_MAX 4096
#define DL_CORES_MEASURED (-1)
#define DL_CORES_GPU 0 /* workers are GPUs */

/* One combination of the swept values. */
typedef struct dl_point {
    int cores; /* DL_CORES_MEASURED until dl_scenario_set_measured_cores; DL_CORES_GPU */
    int workers;
    int64_t batch;   /* all workers together; a multiple of workers */
    const int *gpus; /* [workers] borrowed, counted over all nodes; NULL: as the scenario says */
    const dl_mode *mode;
    double option[DL_SYNC_SWEPT]; /* the fallback where the mode does not take it */
    int stages, micro_batches;    /* of a split model; stages <= 1: it is not split */
} dl_point;

typedef struct dl_slow_worker {
    int worker;
    double factor; /* > 0 */
} dl_slow_worker;

/* [pipeline]. */
typedef struct dl_scenario_pipeline {
    dl_pipeline_options options;
    int stages, micro_batches;
    dl_schedule schedule;
} dl_scenario_pipeline;

typedef struct dl_scenario {
    char *path, *name;
    char *costs_path, *measured_path; /* as to be opened; measured_path may be NULL */
    char *scale_path;                 /* sim/scenario/scaling.h; NULL: compute is not scaled */
    int scale_arithmetic;             /* 0 fp32, 1 tf32, 2 fp16 */
    int64_t steps, replicates, seed;
    int64_t samples_per_epoch; /* 0: not given */
    bool batch_per_worker;
    bool average_state;
    int server_threads;
    unsigned without; /* costs that are switched off: sim/scenario/without.h */
    dl_noise_kind noise;
    double sigma;
    dl_slow_worker *slow; /* [slow_count] */
    size_t slow_count;
    dl_gpu_options *gpu;            /* NULL: workers are threads on cores */
    dl_scenario_pipeline *pipeline; /* NULL: models are not split */
    dl_point *points; /* [point_count], in the order cores, workers, batch, mode, options */
    size_t point_count;
} dl_scenario;

/* Reads and checks a scenario; zero `scenario` before. Errors name file:line, key and value:
 * DL_ERR_PARSE, DL_ERR_NAME (unknown section, key, mode, ...), DL_ERR_RANGE (also: a batch that the
 * workers cannot share evenly), DL_ERR_DATA (a key is missing). */
dl_status dl_scenario_read(dl_scenario *scenario, const char *path, dl_error *err) DL_MUST_CHECK;

/* The same from memory; relative paths in it are relative to the folder of `name`. */
dl_status dl_scenario_read_text(dl_scenario *scenario, const char *name, const char *text,
                                size_t bytes, dl_error *err) DL_MUST_CHECK;

/* Puts the measured number of cores (0: the cost file does not say) where a point wants it; points
 * that are equal then become one. DL_ERR_DATA if it is wanted and not known. */
dl_status dl_scenario_set_measured_cores(dl_scenario *scenario, int64_t cores,
                                         dl_error *err) DL_MUST_CHECK;

void dl_scenario_free(dl_scenario *scenario);

/* Factor of each worker, [workers]. */
void dl_scenario_slow(const dl_scenario *scenario, int workers, double *slow);

/* Whether the mode takes the option, and it is given or its default means something. */
bool dl_point_shows(const dl_point *point, int option);

#define DL_POINT_TEXT_BYTES 256

/* "interval 10", "n 2, bound 8", or "" in text[bytes >= 1]; returns text. */
const char *dl_point_options(char *text, size_t bytes, const dl_point *point);

/* "cores 2, workers 4, batch 128, average, interval 10" in text[bytes]; returns text. */
const char *dl_point_text(char *text, size_t bytes, const dl_point *point);

#endif
