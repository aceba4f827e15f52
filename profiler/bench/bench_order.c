#include "profiler/bench/bench_order.h"

#include <stdlib.h>

#include "common/alloc.h"

void dl_bench_order_init(dl_bench_order *order, uint32_t count, uint64_t seed, uint32_t stream)
{
    *order = (dl_bench_order){.count = count};
    order->cases = dl_calloc(count, sizeof *order->cases, "order of cases");
    for (uint32_t i = 0; i < count; i++)
        order->cases[i] = i;
    dl_random_init(&order->random, seed, 0, 0, stream);
}

const uint32_t *dl_bench_order_next(dl_bench_order *order)
{
    dl_random_shuffle(&order->random, order->cases, order->count);
    return order->cases;
}

void dl_bench_order_free(dl_bench_order *order)
{
    free(order->cases);
}
