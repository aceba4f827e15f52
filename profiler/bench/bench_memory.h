/* What averaging and quantising reach of the memory's bandwidth: on vectors far larger than the
 * caches, beside the triad of McCalpin's STREAM in the same run, on 1, 2, 4, ... and all cores.
 *
 * The threads share a vector of `bytes`; each works on a piece that it wrote first, so that it lies
 * in its own NUMA node's memory; of "average_far" it lies with another thread, on a machine with
 * several nodes with the farthest one. Names and fields: trace/record.h.
 *
 * Bytes counted are those that the arithmetic reads and writes: 3 a number's bytes of the triad,
 * n + 1 of an average. Lines that are read before they are written come on top, in both. */
#ifndef DL_PROFILER_BENCH_MEMORY_H
#define DL_PROFILER_BENCH_MEMORY_H

#include <stdio.h>

#include "profiler/bench/bench.h"
#include "trace/training/summary.h"

/* Repeats all cases in random order until budget_ns is used, at least five times. */
dl_status dl_bench_memory(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                          dl_error *err) DL_MUST_CHECK;

/* Prints rates of a summary's averages and messages beside that of its triad (GPU: "gpu_copy") with
 * as many threads (on the same GPU); nothing where it has none. */
void dl_bench_memory_print(const dl_summary *summary, FILE *out);

#endif
