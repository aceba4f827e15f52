/* What the micro-benchmarks of GPUs measure: every copy in all sizes, reductions, launches. */
#ifndef DL_PROFILER_BENCH_GPU_CASES_H
#define DL_PROFILER_BENCH_GPU_CASES_H

#include <stddef.h>

/* Names of the records; `worker` is the GPU, duration_ns of one operation.
 *
 *   name            bytes     threads          vectors  what
 *   h2d, d2h        one copy  GPUs at once     -        from and to pinned memory
 *   h2d_pageable, d2h_pageable                          the same of pageable memory
 *   h2d_with_d2h    one copy  1                -        to a GPU, while twice as much goes the other way
 *   p2p             one copy  1                source   from GPU `source` to GPU `worker`
 *   all_reduce      one GPU's members          -        mean of all GPUs' vectors
 *   launch          -         -                -        host: to issue an operation that does nothing
 *   launch_gap      -         -                -        GPU: from one such to the next
 *   launch_wait     -         -                -        host: to issue one and wait for it
 */
extern const char *const dl_bench_gpu_names[];

typedef enum dl_bench_gpu_name {
    DL_BENCH_GPU_H2D,
    DL_BENCH_GPU_D2H,
    DL_BENCH_GPU_H2D_PAGEABLE,
    DL_BENCH_GPU_D2H_PAGEABLE,
    DL_BENCH_GPU_H2D_WITH_D2H,
    DL_BENCH_GPU_P2P,
    DL_BENCH_GPU_ALL_REDUCE,
    DL_BENCH_GPU_LAUNCH,
    DL_BENCH_GPU_LAUNCH_GAP,
    DL_BENCH_GPU_LAUNCH_WAIT,
    DL_BENCH_GPU_NAME_COUNT
} dl_bench_gpu_name;

/* What is measured at once. launch_gap is measured with launch. */
typedef struct dl_bench_gpu_case {
    dl_bench_gpu_name name;
    size_t bytes;
    int gpu, at_once; /* the first GPU and how many */
    int source;       /* p2p */
} dl_bench_gpu_case;

/* Smallest copy; the others are twice as large each. */
#define DL_BENCH_GPU_BYTES_MIN ((size_t)1 << 10)

typedef struct dl_bench_gpu_cases {
    dl_bench_gpu_case *items; /* [count] */
    size_t count, capacity;
} dl_bench_gpu_cases;

/* All cases of GPUs 0 .. gpus - 1 (at least one), with copies of up to bytes_max. */
void dl_bench_gpu_cases_init(dl_bench_gpu_cases *cases, int gpus, size_t bytes_max);
void dl_bench_gpu_cases_free(dl_bench_gpu_cases *cases);

#endif
