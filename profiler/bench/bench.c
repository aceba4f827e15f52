#include "profiler/bench/bench.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "profiler/bench/bench_exchange.h"
#include "profiler/bench/bench_memory.h"
#include "profiler/bench/bench_step.h"
#include "profiler/bench/bench_sync.h"
#include "profiler/run/run_meta.h"

/* Shares of the time that the parts get. */
#define EXCHANGE_SHARE 0.38
#define SYNC_SHARE 0.12
#define STEP_SHARE 0.46
#define MEMORY_SHARE 0.04

#define SNAPSHOT_STEP_SHARE 0.6
#define SNAPSHOT_EXCHANGE_SHARE 0.4

#define HOST_EXCHANGE_SHARE 0.5
#define HOST_SYNC_SHARE 0.25
#define HOST_MEMORY_SHARE 0.25

#define CACHE_LINE_BYTES 64

const char *const dl_bench_names[DL_BENCH_NAME_COUNT] = {
    [DL_BENCH_COPY] = "copy",
    [DL_BENCH_AVERAGE] = "average",
    [DL_BENCH_UPDATE] = "update",
    [DL_BENCH_BARRIER] = "barrier",
    [DL_BENCH_WAKEUP] = "wakeup",
    [DL_BENCH_LOCK] = "lock",
    [DL_BENCH_SLICE] = "slice",
    [DL_BENCH_STEP] = "step",
    [DL_BENCH_TRIAD] = "triad",
    [DL_BENCH_AVERAGE_RAM] = "average_ram",
    [DL_BENCH_AVERAGE_PASSES] = "average_passes",
    [DL_BENCH_AVERAGE_FAR] = "average_far",
    [DL_BENCH_FP16_ENCODE] = "fp16_encode",
    [DL_BENCH_FP16_DECODE] = "fp16_decode",
    [DL_BENCH_1BIT_ENCODE] = "1bit_encode",
    [DL_BENCH_1BIT_DECODE] = "1bit_decode",
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

void dl_bench_print_gaps(const dl_bench *bench, FILE *out)
{
    for (int g = 0; g < bench->gap_count; g++) {
        const dl_bench_gap *gap = &bench->gaps[g];
        fprintf(out, "%s of %d threads: no sample in bursts as short as asked for, ",
                dl_bench_names[gap->name], gap->threads);
        if (gap->found) {
            fprintf(out, "measured in one of %.2g s\n", gap->longest_s);
        } else {
            fprintf(out, "nor in one of %.2g s: not measured; are the cores busy?\n",
                    gap->longest_s);
        }
    }
}

typedef struct part {
    const char *what;
    double share;
    dl_status (*run)(dl_bench *, const dl_bench_config *, int64_t, dl_error *);
} part;

static dl_status run_parts(dl_bench *bench, const dl_bench_config *config, const part *parts,
                           size_t count, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t i = 0; status == DL_OK && i < count; i++) {
        bench->progress.what = parts[i].what;
        status = parts[i].run(bench, config,
                              (int64_t)(dl_s_to_ns(config->seconds) * parts[i].share), err);
    }
    dl_progress_end(&bench->progress);
    return status;
}

dl_status dl_bench_run(dl_bench *bench, const dl_bench_config *config, dl_error *err)
{
    static const part parts[] = {{"bench: exchange", EXCHANGE_SHARE, dl_bench_exchange},
                                 {"bench: waiting", SYNC_SHARE, dl_bench_sync},
                                 {"bench: steps side by side", STEP_SHARE, dl_bench_step},
                                 {"bench: memory", MEMORY_SHARE, dl_bench_memory}};
    return run_parts(bench, config, parts, sizeof parts / sizeof *parts, err);
}

dl_status dl_bench_run_snapshot(dl_bench *bench, const dl_bench_config *config, dl_error *err)
{
    static const part parts[] = {
        {"snapshot: steps side by side", SNAPSHOT_STEP_SHARE, dl_bench_step},
        {"snapshot: exchange", SNAPSHOT_EXCHANGE_SHARE, dl_bench_exchange}};
    dl_bench_config snapshot = *config;
    snapshot.snapshot = true;
    return run_parts(bench, &snapshot, parts, sizeof parts / sizeof *parts, err);
}

dl_status dl_bench_run_host(dl_bench *bench, const dl_bench_config *config, dl_error *err)
{
    static const part parts[] = {
        {"bench: exchange on the host", HOST_EXCHANGE_SHARE, dl_bench_exchange},
        {"bench: waiting on the host", HOST_SYNC_SHARE, dl_bench_sync},
        {"bench: the host's memory", HOST_MEMORY_SHARE, dl_bench_memory}};
    return run_parts(bench, config, parts, sizeof parts / sizeof *parts, err);
}

void dl_bench_evict(void *working_set)
{
    /* Read and written, as activations are; one access a line brings in the whole line. */
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
        cores[i] = (config->first_core + i) % dl_run_cores(config);
    return cores;
}
