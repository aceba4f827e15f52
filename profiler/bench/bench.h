/* Micro-benchmarks: costs of exchange and sharing on this machine, as BENCH records (their names
 * and fields: trace/record.h).
 *
 * Measurements use the functions that training uses (kernels/exchange.h, train.h), on pinned
 * threads, with caches in the state in which training leaves them. Every repetition takes the cases
 * in a new random order, so that a drift of the machine's speed affects all equally. */
#ifndef DL_PROFILER_BENCH_H
#define DL_PROFILER_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"
#include "kernels/train/train.h"
#include "profiler/progress.h"
#include "trace/dlt/dlt.h"
#include "trace/training/summary.h"

typedef enum dl_bench_name {
    DL_BENCH_COPY,
    DL_BENCH_AVERAGE,
    DL_BENCH_UPDATE,
    DL_BENCH_BARRIER,
    DL_BENCH_WAKEUP,
    DL_BENCH_LOCK,
    DL_BENCH_SLICE,
    DL_BENCH_STEP,
    DL_BENCH_PASS,
    DL_BENCH_TRIAD,
    DL_BENCH_AVERAGE_RAM,
    DL_BENCH_AVERAGE_PASSES,
    DL_BENCH_AVERAGE_FAR,
    DL_BENCH_FP16_ENCODE,
    DL_BENCH_FP16_DECODE,
    DL_BENCH_1BIT_ENCODE,
    DL_BENCH_1BIT_DECODE,
    DL_BENCH_QUANTISE, /* as dl_quantise from its first kind on; then back */
    DL_BENCH_DEQUANTISE = DL_BENCH_QUANTISE + DL_QUANTISE_COUNT - 1,
    DL_BENCH_LEARNED = DL_BENCH_DEQUANTISE + DL_QUANTISE_COUNT - 1,
    DL_BENCH_SHARED_WRITE,
    DL_BENCH_SHARED_READ,
    DL_BENCH_NAME_COUNT
} dl_bench_name;

extern const char *const dl_bench_names[DL_BENCH_NAME_COUNT]; /* "copy", "average", ... */

typedef enum dl_bench_kind {
    DL_BENCH_WHOLE,
    /* Only costs that vary with the machine's state (load by neighbours, placement on cores): k
     * concurrent steps for k = 2, 4, ... up to workers_max and the number of cores (1 on a machine
     * with one core), one run per batch size; and pushes, pulls, averages and updates of the real
     * size on all cores, with copies of vectors that another core's cache holds. Many snapshots,
     * taken between runs of training, sample the states during these runs; costs by size need a
     * whole benchmark. */
    DL_BENCH_SNAPSHOT,
    DL_BENCH_HOST, /* no steps: the communication costs of a host whose workers are on `copier` */
    /* Concurrent steps of 1, 2, 4, ... up to workers_max copies that share the first GPU of
     * train.device. The copies end their steps together, so that they share the GPU during the
     * whole step; a step's time is that of its operations on the GPU, without the host's part.
     * Cases that do not fit into the GPU's memory are left out and counted. Also measured: single
     * passes of one copy, launched while the GPU is held up so that it never waits for the host. */
    DL_BENCH_GPU_STEPS
} dl_bench_kind;

/* Settings of a benchmark. */
typedef struct dl_bench_config {
    dl_train_config train; /* model, precision, optimizer, seed, first_core, cores, stop are used;
                              by GPU_STEPS also device, first_device, device_settings */
    size_t parameter_bytes;
    size_t replica_bytes, activation_bytes; /* of a copy, and of each of its samples; GPU_STEPS */
    const dl_data_set *data;
    const int *batches; /* [batch_count] samples of one copy of the step */
    int batch_count;
    int workers_max; /* most copies of the step side by side, 1 .. DL_TRAIN_WORKERS_MAX */
    double seconds;  /* for everything; each part takes its share, and runs at least once */
    bool quick;      /* exchange of at most DL_BENCH_QUICK_VECTORS vectors */
    dl_bench_kind kind;
    /* HOST: the type of device that copies to and from the server's page-locked memory, with a
     * stream on train.first_device for each thread; NULL: the threads copy. */
    const dl_device_type *copier;
} dl_bench_config;

#define DL_BENCH_QUICK_VECTORS 4

/* A case without a sample in its bursts, measured in longer ones. */
typedef struct dl_bench_gap {
    dl_bench_name name;
    int threads;
    double longest_s; /* the longest burst */
    bool found;       /* the longest burst had a sample */
} dl_bench_gap;

#define DL_BENCH_GAPS_MAX 64

/* Collects the samples of all parts in the trace. */
typedef struct dl_bench {
    dl_trace_stream *stream;
    uint32_t ids[DL_BENCH_NAME_COUNT];
    dl_progress progress;
    dl_bench_gap gaps[DL_BENCH_GAPS_MAX];
    int gap_count;
    int unfit; /* cases whose copies did not fit into the GPU's memory */
} dl_bench;

/* Samples go to a stream of `writer`, which the caller closes afterwards. */
void dl_bench_init(dl_bench *bench, dl_trace_writer *writer);

/* Prints a line for each gap, and for the cases that did not fit. */
void dl_bench_print_gaps(const dl_bench *bench, FILE *out);

/* Runs the parts of config->kind in turn, until config->train.stop is set. */
dl_status dl_bench_run(dl_bench *bench, const dl_bench_config *config, dl_error *err) DL_MUST_CHECK;

/* Prints the rates of a summary's averages and messages beside that of the triad with as many
 * threads (GPU: of "gpu_copy" on the same GPU), or nothing if there are none. */
void dl_bench_memory_print(const dl_summary *summary, FILE *out);

#endif
