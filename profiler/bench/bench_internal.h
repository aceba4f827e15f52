/* Shared by the sources of the micro-benchmarks: samples, the order of cases, thread counts, and
 * the parts. */
#ifndef DL_PROFILER_BENCH_INTERNAL_H
#define DL_PROFILER_BENCH_INTERNAL_H

#include <stdio.h>

#include "common/random.h"
#include "common/status.h"
#include "kernels/exchange.h"
#include "profiler/bench/bench.h"

/* Adds a sample, after setting kind, name and staleness of `record`. Not thread-safe. */
void dl_bench_add(dl_bench *bench, dl_bench_name name, dl_record record);

/* Reads and writes a thread's private working set, which is larger than a core's private caches, as
 * a step does with its activations between two exchanges. */
#define DL_BENCH_WORKING_SET_BYTES ((size_t)4 << 20)

void dl_bench_evict(void *working_set);

/* Thread counts to measure up to `most`: 1, 2, 4, ... and `most` itself; at most
 * DL_BENCH_COUNTS_MAX, ascending. Returns their number. */
#define DL_BENCH_COUNTS_MAX 16

int dl_bench_thread_counts(int most, int counts[DL_BENCH_COUNTS_MAX]);

/* Core numbers of `count` threads, as training pins its workers; free() it. */
int *dl_bench_cores(const dl_train_config *config, int count);

typedef struct dl_bench_order {
    dl_random random;
    uint32_t *cases; /* [count] */
    uint32_t count;
} dl_bench_order;

/* Random orders of the cases 0 .. count - 1; equal seeds and streams give equal orders. */
void dl_bench_order_init(dl_bench_order *order, uint32_t count, uint64_t seed, uint32_t stream);
void dl_bench_order_free(dl_bench_order *order);

/* Returns the order of the next round, [count]; valid until the next call. */
const uint32_t *dl_bench_order_next(dl_bench_order *order);

/* Costs of exchanging n vectors: copies, averages and server updates of many rounds
 * (bench_exchange.c).
 *
 * Cases of a whole benchmark: the real size with n = t vectors on t = 1, 2, 4, ... and all cores;
 * five other sizes, and the real one with other numbers of vectors, with n = 1, 2, 4, 8, 16 vectors
 * (fewer of large ones) on t = min(n, cores) threads. Each case has averages by one thread and by
 * all t threads; if n > 1, also parameter-server updates of n gradients; if n = t > 1, or on a
 * single core, also asynchronous updates of one gradient by the threads in turn. Messages and
 * copies of a vector in another core's cache are measured at the real size. Pushes and pulls are
 * recorded for n = t, when each thread copies one vector; `threads` is the number of concurrent
 * copies. Copies by config->copier are timed from launch to the end of the wait. A case runs
 * several consecutive rounds, the first unrecorded, so that, as in training, the server's memory is
 * as the previous round left it. */

/* Repeats all cases until budget_ns is used, at least twice. */
dl_status dl_bench_exchange(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                            dl_error *err) DL_MUST_CHECK;

/* Costs of waiting: release from a spinning barrier, wake-up of a blocked thread, hand-over of a
 * contended lock, and the time for which the scheduler lets a thread run while other threads want
 * its core. */

/* Runs bursts of all cases in turn for budget_ns, at least one of each. A case still without a
 * sample is then measured in longer bursts, up to some seconds, until it has one; bench->gaps lists
 * it. */
dl_status dl_bench_sync(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                        dl_error *err) DL_MUST_CHECK;

/* Measures forward and backward passes by the GPU's clock, enqueued while the GPU is held so that
 * it never waits for the host; for budget_ns, at least five times at each batch size. */
dl_status dl_bench_pass(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                        dl_error *err) DL_MUST_CHECK;

#endif
