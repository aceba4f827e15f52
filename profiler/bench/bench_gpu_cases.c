#include "profiler/bench/bench_gpu_cases.h"

#include <stdlib.h>

#include "common/alloc.h"

const char *const dl_bench_gpu_names[] = {
    [DL_BENCH_GPU_H2D] = "h2d",
    [DL_BENCH_GPU_D2H] = "d2h",
    [DL_BENCH_GPU_H2D_PAGEABLE] = "h2d_pageable",
    [DL_BENCH_GPU_D2H_PAGEABLE] = "d2h_pageable",
    [DL_BENCH_GPU_H2D_WITH_D2H] = "h2d_with_d2h",
    [DL_BENCH_GPU_P2P] = "p2p",
    [DL_BENCH_GPU_ALL_REDUCE] = "all_reduce",
    [DL_BENCH_GPU_LAUNCH] = "launch",
    [DL_BENCH_GPU_LAUNCH_GAP] = "launch_gap",
    [DL_BENCH_GPU_LAUNCH_WAIT] = "launch_wait",
    [DL_BENCH_GPU_NAME_COUNT] = NULL,
};

static void add(dl_bench_gpu_cases *cases, dl_bench_gpu_case added)
{
    if (cases->count == cases->capacity) {
        cases->capacity = 2 * cases->capacity + 64;
        cases->items = dl_realloc(cases->items, cases->capacity, sizeof *cases->items, "cases");
    }
    cases->items[cases->count++] = added;
}

/* 1, 2, 4, ... GPUs at once, and all. */
static void add_at_once(dl_bench_gpu_cases *cases, dl_bench_gpu_name copy, size_t bytes, int gpus)
{
    for (int n = 1; n <= gpus; n = n < gpus && 2 * n > gpus ? gpus : 2 * n)
        add(cases, (dl_bench_gpu_case){.name = copy, .bytes = bytes, .at_once = n});
}

static void add_pairs(dl_bench_gpu_cases *cases, size_t bytes, int gpus)
{
    for (int to = 0; to < gpus; to++) {
        for (int from = 0; from < gpus; from++) {
            if (from == to) continue;
            add(cases, (dl_bench_gpu_case){.name = DL_BENCH_GPU_P2P,
                                           .bytes = bytes,
                                           .gpu = to,
                                           .at_once = 1,
                                           .source = from});
        }
    }
}

void dl_bench_gpu_cases_init(dl_bench_gpu_cases *cases, int gpus, size_t bytes_max)
{
    *cases = (dl_bench_gpu_cases){0};
    for (size_t bytes = DL_BENCH_GPU_BYTES_MIN; bytes <= bytes_max; bytes *= 2) {
        for (dl_bench_gpu_name copy = DL_BENCH_GPU_H2D; copy <= DL_BENCH_GPU_D2H_PAGEABLE; copy++)
            add_at_once(cases, copy, bytes, gpus);
        add(cases,
            (dl_bench_gpu_case){.name = DL_BENCH_GPU_H2D_WITH_D2H, .bytes = bytes, .at_once = 1});
        add_pairs(cases, bytes, gpus);
        if (gpus > 1) {
            add(cases, (dl_bench_gpu_case){
                           .name = DL_BENCH_GPU_ALL_REDUCE, .bytes = bytes, .at_once = gpus});
        }
    }
    for (int g = 0; g < gpus; g++) {
        add(cases, (dl_bench_gpu_case){.name = DL_BENCH_GPU_LAUNCH, .gpu = g, .at_once = 1});
        add(cases, (dl_bench_gpu_case){.name = DL_BENCH_GPU_LAUNCH_WAIT, .gpu = g, .at_once = 1});
    }
}

void dl_bench_gpu_cases_free(dl_bench_gpu_cases *cases)
{
    free(cases->items);
}
