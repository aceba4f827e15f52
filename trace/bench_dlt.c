/* What tracing costs: time and bytes of an appended record, and the speed of reading.
 *
 * One thread appends whole training steps as dlprof records them (input, 8 layers forward and
 * backward, 8 updates, push, average, pull, wait, step) to a trace file, from an array that stays
 * in the first-level cache. Each line is the median of ROUNDS rounds after one for warm-up, with
 * the least and the greatest behind it. The time of append includes checksums and write(2) to the
 * page cache, not the disk's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/status.h"
#include "common/units.h"
#include "trace/dlt.h"

enum { LAYERS = 8, STEPS = 40000, ROUNDS = 9, STEP_RECORDS_MAX = 3 * LAYERS + 6 };

/* The records of one step with times relative to its begin. */
typedef struct step_template {
    dl_record records[STEP_RECORDS_MAX];
    int count;
    int64_t clock_ns;
} step_template;

static void add(step_template *step, dl_record record, int64_t duration_ns)
{
    record.staleness = DL_NO_STALENESS;
    record.start_ns = step->clock_ns + 60; /* the host's own time between two operations */
    record.duration_ns = duration_ns;
    step->clock_ns = record.start_ns + duration_ns;
    step->records[step->count++] = record;
}

static void make_step(step_template *step, dl_trace_writer *writer)
{
    const uint32_t batch = 64;
    const uint64_t bytes = 1724320;
    *step = (step_template){0};
    add(step, (dl_record){.kind = DL_RECORD_INPUT, .samples = batch, .bytes = 200704}, 21000);
    for (int phase = DL_PHASE_FORWARD; phase <= DL_PHASE_UPDATE; phase++) {
        for (int i = 0; i < LAYERS; i++) {
            char name[16];
            snprintf(name, sizeof name, "layer%d", i);
            dl_record compute = {.kind = DL_RECORD_COMPUTE,
                                 .phase = (dl_phase)phase,
                                 .samples = batch,
                                 .name = dl_trace_writer_intern(writer, name)};
            add(step, compute, 40000 + 173000 * i);
        }
    }
    add(step, (dl_record){.kind = DL_RECORD_COPY, .phase = DL_PHASE_PUSH, .bytes = bytes}, 160000);
    add(step,
        (dl_record){.kind = DL_RECORD_WAIT, .name = dl_trace_writer_intern(writer, "barrier")},
        3100);
    dl_record average = {.kind = DL_RECORD_AVERAGE, .bytes = bytes, .vectors = 2, .threads = 1};
    add(step, average, 240000);
    add(step, (dl_record){.kind = DL_RECORD_COPY, .phase = DL_PHASE_PULL, .bytes = bytes}, 161000);
    dl_record whole = {.kind = DL_RECORD_STEP,
                       .samples = batch,
                       .staleness = DL_NO_STALENESS,
                       .duration_ns = step->clock_ns};
    step->records[step->count++] = whole;
}

/* Appends STEPS steps; `with_clock` reads the clock once a record, as a profiler must. */
static double append_steps(dl_trace_stream *stream, const step_template *step, bool with_clock)
{
    int64_t ignored_ns = 0;
    int64_t start_ns = dl_clock_ns();
    for (uint32_t s = 0; s < STEPS; s++) {
        int64_t step_start_ns = s * step->clock_ns;
        for (int i = 0; i < step->count; i++) {
            dl_record record = step->records[i];
            record.step = s;
            record.start_ns += step_start_ns;
            if (with_clock) ignored_ns ^= dl_clock_ns();
            dl_trace_stream_append(stream, &record);
        }
    }
    int64_t took_ns = dl_clock_ns() - start_ns;
    DL_ASSERT(ignored_ns >= INT64_MIN, "clock"); /* keeps the calls */
    return (double)took_ns / ((double)STEPS * step->count);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(const char *what, double *values, const char *unit)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    printf("%-34s %9.2f %9.2f %9.2f  %s\n", what, values[ROUNDS / 2], values[0], values[ROUNDS - 1],
           unit);
}

typedef struct results {
    double append_ns[ROUNDS], clock_ns[ROUNDS], record_bytes[ROUNDS], read_ns[ROUNDS];
} results;

static dl_status run_round(const char *path, bool with_clock, double *append_ns, dl_error *err)
{
    dl_trace_writer *writer = NULL;
    dl_status status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) return status;
    step_template step;
    make_step(&step, writer);
    *append_ns = append_steps(dl_trace_writer_stream(writer), &step, with_clock);
    return dl_trace_writer_close(&writer, err);
}

static dl_status read_round(const char *path, double *record_bytes, double *read_ns, dl_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) return dl_error_set(err, DL_ERR_IO, "cannot stat %s", path);
    dl_trace trace = {0};
    int64_t start_ns = dl_clock_ns();
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    *read_ns = (double)(dl_clock_ns() - start_ns) / (double)trace.record_count;
    *record_bytes = (double)info.st_size / (double)trace.record_count;
    dl_trace_free(&trace);
    return DL_OK;
}

static dl_status measure(results *r, const char *path, dl_error *err)
{
    for (int round = -1; round < ROUNDS; round++) {
        int i = round < 0 ? 0 : round; /* the warm-up's values are overwritten */
        dl_status status = run_round(path, true, &r->clock_ns[i], err);
        if (status == DL_OK) status = run_round(path, false, &r->append_ns[i], err);
        if (status == DL_OK) status = read_round(path, &r->record_bytes[i], &r->read_ns[i], err);
        if (status != DL_OK) return status;
    }
    return DL_OK;
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: %s [FILE]   (a trace file to write and remove)\n", argv[0]);
        return 2;
    }
    const char *path = argc > 1 ? argv[1] : "bench_dlt.dlt";
    results r;
    dl_error err = {0};
    dl_status status = measure(&r, path, &err);
    unlink(path);
    if (status != DL_OK) {
        dl_error_print(&err, argv[0], stderr);
        return dl_status_exit_code(status);
    }
    printf("%-34s %9s %9s %9s\n", "per record", "median", "least", "greatest");
    print_row("append", r.append_ns, "ns");
    print_row("append and one clock reading", r.clock_ns, "ns");
    print_row("file", r.record_bytes, "bytes");
    print_row("read into memory", r.read_ns, "ns");
    return 0;
}
