/* What exchanging n vectors costs: copies, averages and server updates of many rounds
 * (exchange_round.h).
 *
 * The real size with n = t vectors on t = 1, 2, 4, ... and all cores; six other sizes with n = 1,
 * 2, 4, 8, 16 vectors on t = min(n, cores) threads. Each with averages by one and by all t threads,
 * parameter-server updates of n gradients, and, for n = t, asynchronous updates of one gradient by
 * the threads in turn. Pushes and pulls are recorded where n = t, so that each thread copies one
 * vector, with `threads` = how many copy at once. A case's rounds come several in a row, the first
 * of them unrecorded, so that the server's memory is as the round before left it, as in training.
 */
#ifndef DL_PROFILER_BENCH_EXCHANGE_H
#define DL_PROFILER_BENCH_EXCHANGE_H

#include "profiler/bench/bench.h"

/* Repeats all cases until budget_ns is used, at least twice. */
dl_status dl_bench_exchange(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                            dl_error *err) DL_MUST_CHECK;

#endif
