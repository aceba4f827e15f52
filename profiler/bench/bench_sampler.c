/* Samples, orders of cases, thread counts and core numbers for all parts of the
 * micro-benchmarks. */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/random.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/bench_internal.h"

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

#define CACHE_LINE_BYTES 64

#define QUANTISE(kind, name)                                                              \
    [DL_BENCH_QUANTISE + DL_QUANTISE_##kind - DL_QUANTISE_FP16] = "quantise_" name,       \
                                              [DL_BENCH_DEQUANTISE + DL_QUANTISE_##kind - \
                                                  DL_QUANTISE_FP16] = "dequantise_" name

const char *const dl_bench_names[DL_BENCH_NAME_COUNT] = {
    [DL_BENCH_COPY] = "copy",
    [DL_BENCH_AVERAGE] = "average",
    [DL_BENCH_UPDATE] = "update",
    [DL_BENCH_BARRIER] = "barrier",
    [DL_BENCH_WAKEUP] = "wakeup",
    [DL_BENCH_LOCK] = "lock",
    [DL_BENCH_SLICE] = "slice",
    [DL_BENCH_STEP] = "step",
    [DL_BENCH_PASS] = "pass",
    QUANTISE(FP16, "fp16"),
    QUANTISE(INT8, "int8"),
    QUANTISE(1BIT, "1bit"),
    QUANTISE(TOPK, "topk"),
    QUANTISE(FP4, "fp4"),
    [DL_BENCH_LEARNED] = "learned",
    [DL_BENCH_SHARED_WRITE] = "shared_write",
    [DL_BENCH_SHARED_READ] = "shared_read",
};

void dl_bench_init(dl_bench *bench, dl_trace_writer *writer)
{
    *bench = (dl_bench){.stream = dl_trace_writer_stream(writer)};
    dl_progress_init(&bench->progress, "bench");
    for (int i = 0; i < DL_BENCH_NAME_COUNT; i++) {
        bench->ids[i] = dl_trace_writer_intern(writer, dl_bench_names[i]);
    }
}

void dl_bench_add(dl_bench *bench, dl_bench_name name, dl_record record)
{
    record.kind = DL_RECORD_BENCH;
    record.name = bench->ids[name];
    record.staleness = DL_NO_STALENESS;
    dl_trace_stream_append(bench->stream, &record);
}

void dl_bench_evict(void *working_set)
{
    /* Each line is read and written, as with activations; one access per line fetches it whole. */
    volatile unsigned char *line = working_set;
    for (size_t at = 0; at < DL_BENCH_WORKING_SET_BYTES; at += CACHE_LINE_BYTES)
        line[at]++;
}

int dl_bench_thread_counts(int most, int counts[DL_BENCH_COUNTS_MAX])
{
    int count = 0;
    for (int t = 1; t < most && count < DL_BENCH_COUNTS_MAX - 1; t *= 2)
        counts[count++] = t;
    counts[count++] = most;
    return count;
}

int *dl_bench_cores(const dl_train_config *config, int count)
{
    int *cores = dl_calloc((size_t)count, sizeof *cores, "core numbers");
    for (int i = 0; i < count; i++)
        cores[i] = (config->first_core + i) % dl_train_cores(config);
    return cores;
}
