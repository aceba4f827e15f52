/* The cases of a benchmark in a new random order every round, so that a drift of the machine's speed
 * touches all alike. */
#ifndef DL_PROFILER_BENCH_ORDER_H
#define DL_PROFILER_BENCH_ORDER_H

#include "common/random.h"

typedef struct dl_bench_order {
    dl_random random;
    uint32_t *cases; /* [count] */
    uint32_t count;
} dl_bench_order;

/* Orders of the cases 0 .. count - 1; the same ones for the same seed and stream. */
void dl_bench_order_init(dl_bench_order *order, uint32_t count, uint64_t seed, uint32_t stream);
void dl_bench_order_free(dl_bench_order *order);

/* The order of the next round, [count], until the one after it is asked for. */
const uint32_t *dl_bench_order_next(dl_bench_order *order);

#endif
