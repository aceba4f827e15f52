/* Micro-benchmarks of exchange, of waiting and of sharing the machine. The results are BENCH
 * records (names and fields: trace/record.h).
 *
 * Measurements use the functions that training uses (kernels/exchange.h, train.h), on pinned
 * threads, with caches in the state in which training leaves them. Every repetition runs the cases
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
    DL_BENCH_QUANTISE, /* encoding, one name per dl_quantise kind from FP16 on; DEQUANTISE:
                        * decoding, likewise; LEARNED, one name: forming the parameter change */
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
     * size by two threads (one on a machine with one core), with copies of vectors that another
     * core's cache holds. Many snapshots, taken between runs of training, sample the states during
     * these runs; costs by size need a whole benchmark. */
    DL_BENCH_SNAPSHOT,
    DL_BENCH_HOST, /* communication costs of a host whose workers run on `copier`; no steps */
    /* Concurrent steps of 1, 2, 4, ... up to workers_max copies that share the first GPU of
     * train.device. The copies end their steps together, so that they share the GPU during the
     * whole step; a step's time is that of its operations on the GPU, without the host's part.
     * Cases that do not fit into the GPU's memory are skipped and counted. Single passes of one
     * copy are measured too, enqueued while the GPU is held, so that it never waits for the
     * host. */
    DL_BENCH_GPU_STEPS
} dl_bench_kind;

/* Settings of a benchmark. */
typedef struct dl_bench_config {
    dl_train_config train; /* model, precision, optimizer, seed, first_core, cores, stop are used;
                            * by GPU_STEPS also device, first_device, device_settings, by HOST the
                            * last two */
    size_t parameter_bytes;
    size_t replica_bytes, activation_bytes; /* GPU_STEPS: memory per copy, and per sample of its
                                             * batch */
    const dl_data_set *data;
    const int *batches; /* [batch_count] batch sizes of one copy, in samples */
    int batch_count;
    int workers_max; /* largest number of concurrent copies, 1 .. DL_TRAIN_WORKERS_MAX */
    double seconds;  /* time budget; each part gets a share and runs at least once */
    bool quick;      /* exchange at most DL_BENCH_QUICK_VECTORS vectors */
    dl_bench_kind kind;
    /* HOST: type of the device that copies to and from the server's page-locked memory, with one
     * stream per thread on device train.first_device; NULL: the threads copy. */
    const dl_device_type *copier;
} dl_bench_config;

#define DL_BENCH_QUICK_VECTORS 4

/* A case that had no sample in its normal bursts and was measured in longer ones. */
typedef struct dl_bench_gap {
    dl_bench_name name;
    int threads;
    double longest_s; /* length of the longest burst */
    bool found;       /* the longest burst gave a sample */
} dl_bench_gap;

#define DL_BENCH_GAPS_MAX 64

/* Trace stream and state shared by all parts. */
typedef struct dl_bench {
    dl_trace_stream *stream;
    uint32_t ids[DL_BENCH_NAME_COUNT];
    dl_progress progress;
    dl_bench_gap gaps[DL_BENCH_GAPS_MAX];
    int gap_count;
    int unfit; /* cases skipped because their copies exceed the GPU's memory */
} dl_bench;

/* Samples go to a stream of `writer`, which the caller closes afterwards. */
void dl_bench_init(dl_bench *bench, dl_trace_writer *writer);

/* Prints a line per gap, and one for the cases that exceeded the GPU's memory. */
void dl_bench_print_gaps(const dl_bench *bench, FILE *out);

/* Runs the parts of config->kind in turn, until config->train.stop is set; returns the error of the
 * first part that fails. */
dl_status dl_bench_run(dl_bench *bench, const dl_bench_config *config, dl_error *err) DL_MUST_CHECK;

#endif
