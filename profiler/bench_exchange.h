/* What exchanging n vectors costs: rounds of push copies, average or server update, pull copies.
 *
 * A round has n vectors of one size on t threads, vector i being thread i mod t's, allocated and
 * written by it. As in a training step, each thread first writes its vectors, then passes over its
 * private working set, then all meet at a barrier: push (each copy is timed: "copy" with threads =
 * t), barrier, "average" by s of the threads or "update" by one, barrier, pull (timed as well).
 * Sizes: the model's parameters times 1/4, 1/2, 1, 2, 4, and 64 KiB; n = 1, 2, 4, 8, 16, but at
 * most 16 times the parameters in one round. */
#ifndef DL_PROFILER_BENCH_EXCHANGE_H
#define DL_PROFILER_BENCH_EXCHANGE_H

#include "profiler/bench.h"

/* Repeats all cases until budget_ns is used, at least twice. */
dl_status dl_bench_exchange(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                            dl_error *err) DL_MUST_CHECK;

#endif
