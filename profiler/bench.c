#include "profiler/bench.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "profiler/bench_exchange.h"
#include "profiler/bench_step.h"
#include "profiler/bench_sync.h"
#include "profiler/run_meta.h"
#include "profiler/sample.h"

/* Shares of the time that the parts get. */
#define EXCHANGE_SHARE 0.40
#define SYNC_SHARE 0.12
#define STEP_SHARE 0.48

#define CACHE_LINE_BYTES 64

const char *const dl_bench_names[DL_BENCH_NAME_COUNT] = {"copy",   "average", "update", "barrier",
                                                         "wakeup", "lock",    "slice",  "step"};

void dl_bench_init(dl_bench *bench, dl_trace_writer *writer)
{
    *bench = (dl_bench){.writer = writer};
    dl_progress_init(&bench->progress, "bench");
    if (writer == NULL) return;
    for (int i = 0; i < DL_BENCH_NAME_COUNT; i++) {
        bench->ids[i] = dl_trace_writer_intern(writer, dl_bench_names[i]);
    }
    bench->stream = dl_trace_writer_stream(writer);
}

void dl_bench_free(dl_bench *bench)
{
    free(bench->records);
    *bench = (dl_bench){0};
}

void dl_bench_add(dl_bench *bench, dl_bench_name name, dl_record record)
{
    if (bench->count == bench->capacity) {
        bench->capacity = bench->capacity > 0 ? 2 * bench->capacity : 1024;
        bench->records =
            dl_realloc(bench->records, bench->capacity, sizeof *bench->records, "bench samples");
    }
    record.kind = DL_RECORD_BENCH;
    record.staleness = DL_NO_STALENESS;
    record.name = name;
    bench->records[bench->count++] = record;
    if (bench->stream == NULL) return;
    record.name = bench->ids[name];
    dl_trace_stream_append(bench->stream, &record);
}

dl_status dl_bench_run(dl_bench *bench, const dl_bench_config *config, dl_error *err)
{
    static const struct {
        const char *what;
        double share;
        dl_status (*run)(dl_bench *, const dl_bench_config *, int64_t, dl_error *);
    } parts[] = {{"bench: exchange", EXCHANGE_SHARE, dl_bench_exchange},
                 {"bench: waiting", SYNC_SHARE, dl_bench_sync},
                 {"bench: steps side by side", STEP_SHARE, dl_bench_step}};
    dl_status status = DL_OK;
    for (size_t i = 0; status == DL_OK && i < sizeof parts / sizeof parts[0]; i++) {
        bench->progress.what = parts[i].what;
        status = parts[i].run(bench, config,
                              (int64_t)(dl_s_to_ns(config->seconds) * parts[i].share), err);
    }
    dl_progress_end(&bench->progress);
    return status;
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

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Order of the table's lines: two records belong to one line if none of these differ. */
static int compare_cases(const dl_record *a, const dl_record *b)
{
    int order = compare_u64(a->name, b->name);
    if (order == 0) order = compare_u64(a->samples, b->samples);
    if (order == 0) order = compare_u64(a->bytes, b->bytes);
    if (order == 0) order = compare_u64(a->vectors, b->vectors);
    if (order == 0) order = compare_u64(a->threads, b->threads);
    return order;
}

static int compare_records(const void *left, const void *right)
{
    return compare_cases(left, right);
}

/* "-" for what does not apply to the benchmark. */
static void print_number(FILE *out, int width, uint32_t number)
{
    if (number == 0) {
        fprintf(out, " %*s", width, "-");
    } else {
        fprintf(out, " %*u", width, number);
    }
}

static void print_case(FILE *out, const dl_record *records, size_t count)
{
    double *values = dl_calloc(count, sizeof *values, "bench table");
    for (size_t i = 0; i < count; i++)
        values[i] = (double)records[i].duration_ns;
    const dl_sample_summary summary = dl_sample_summarise(values, count);
    free(values);
    char size[32] = "-", min[32], median[32], high[32];
    if (records->bytes > 0) dl_format_bytes(size, sizeof size, (double)records->bytes);
    fprintf(out, "%-8s %10s", dl_bench_names[records->name], size);
    print_number(out, 7, records->vectors);
    print_number(out, 7, records->threads);
    print_number(out, 7, records->samples);
    fprintf(out, " %10s %10s %10s %7zu\n", dl_format_ns(min, sizeof min, summary.min),
            dl_format_ns(median, sizeof median, summary.p50),
            dl_format_ns(high, sizeof high, summary.p90), count);
}

void dl_bench_print(const dl_bench *bench, FILE *out)
{
    fprintf(out, "%-8s %10s %7s %7s %7s %10s %10s %10s %7s\n", "what", "size", "vectors", "threads",
            "samples", "min", "median", "p90", "n");
    dl_record *sorted = dl_calloc(bench->count, sizeof *sorted, "bench table");
    if (bench->count > 0) memcpy(sorted, bench->records, bench->count * sizeof *sorted);
    qsort(sorted, bench->count, sizeof *sorted, compare_records);
    for (size_t first = 0, end; first < bench->count; first = end) {
        for (end = first + 1; end < bench->count; end++) {
            if (compare_cases(&sorted[first], &sorted[end]) != 0) break;
        }
        print_case(out, sorted + first, end - first);
    }
    free(sorted);
}
