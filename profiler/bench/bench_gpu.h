/* Micro-benchmarks of GPUs: copies, all-reduces and launches, as BENCH records (names and fields:
 * bench_gpu.c), with the functions that training uses (kernels/device.h).
 *
 * Copies of pinned memory are timed by two marks on the GPU around several copies, all enqueued
 * while the GPU is held, so that the host's launch time does not count. Copies of pageable memory
 * keep the host busy, and are timed by the host's clock. */
#ifndef DL_PROFILER_BENCH_GPU_H
#define DL_PROFILER_BENCH_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "kernels/device.h"
#include "profiler/progress.h"
#include "trace/dlt/dlt.h"

typedef struct dl_bench_gpu_config {
    const dl_device_type *type;
    int first, count;        /* GPUs first .. first + count - 1 are measured */
    double seconds;          /* target duration; every case is measured at least twice */
    bool quick;              /* copies of at most DL_BENCH_GPU_QUICK_BYTES */
    const atomic_bool *stop; /* once true: skip the rest; NULL: never */
} dl_bench_gpu_config;

/* Measures all cases; samples go to a stream of `writer`. DL_ERR_SYSTEM if a GPU fails. */
dl_status dl_bench_gpu(dl_trace_writer *writer, const dl_bench_gpu_config *config,
                       dl_error *err) DL_MUST_CHECK;

typedef enum dl_bench_gpu_name {
    DL_BENCH_GPU_H2D,
    DL_BENCH_GPU_D2H,
    DL_BENCH_GPU_H2D_PAGEABLE,
    DL_BENCH_GPU_D2H_PAGEABLE,
    DL_BENCH_GPU_H2D_WITH_D2H,
    DL_BENCH_GPU_P2P,
    DL_BENCH_GPU_ALL_REDUCE,
    DL_BENCH_GPU_LAUNCH,
    DL_BENCH_GPU_NAME_COUNT
} dl_bench_gpu_name;

/* A case: operations measured together. */
typedef struct dl_bench_gpu_case {
    dl_bench_gpu_name name;
    size_t bytes;
    int gpu, at_once; /* first GPU; number of concurrent GPUs */
    int source;       /* P2P: index of the sending GPU */
} dl_bench_gpu_case;

/* Smallest copy; each further size is twice the previous one. */
#define DL_BENCH_GPU_BYTES_MIN ((size_t)1 << 10)

typedef struct dl_bench_gpu_cases {
    dl_bench_gpu_case *items; /* [count] */
    size_t count;
} dl_bench_gpu_cases;

/* Lists all cases of GPUs 0 .. gpus - 1 (gpus >= 1), with copies of up to bytes_max. */
void dl_bench_gpu_cases_init(dl_bench_gpu_cases *cases, int gpus, size_t bytes_max);
void dl_bench_gpu_cases_free(dl_bench_gpu_cases *cases);

/* Averages, and making and reading of messages, in a GPU's memory, beside copies within it: BENCH
 * records, timed by two marks around several operations that are enqueued while the GPU is held.
 *
 *   name                              bytes       vectors     operation
 *   gpu_copy                          one vector  -           copy within the GPU's memory
 *   gpu_average                       one vector  n averaged  in one pass
 *   gpu_fp16_encode, gpu_fp16_decode, gpu_1bit_encode, gpu_1bit_decode
 *                                     one vector  -           to and from a message
 *
 * `worker` is the GPU, `threads` is 1. */

/* Measures the GPUs one after another within config->seconds in total, each case at least twice;
 * samples go to a stream of `writer`. DL_ERR_SYSTEM if a GPU fails. */
dl_status dl_bench_gpu_memory(dl_trace_writer *writer, const dl_bench_gpu_config *config,
                              dl_error *err) DL_MUST_CHECK;

#endif
