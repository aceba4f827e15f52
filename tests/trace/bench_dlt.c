/* Cost of tracing: time and bytes per appended record or activity, and the speed of reading.
 *
 * One thread appends whole training steps as recorded by dlprof (input, 8 layers forward and
 * backward, 8 updates, push, average, pull, wait, step) to a trace file, from an array that stays
 * in the first-level cache; then steps of a CUDA program (NVTX ranges around the launches of 60
 * kernels, two copies, one synchronisation; device work and host work alternate, as in CUPTI's
 * buffers). Each line is the median of ROUNDS rounds after a warm-up round, followed by the minimum
 * and the maximum. The time of append includes checksums and write(2) to the page cache, but no
 * disk access. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/status.h"
#include "common/units.h"
#include "trace/dlt/dlt.h"

enum { LAYERS = 8, STEPS = 40000, ROUNDS = 9, STEP_RECORDS_MAX = 3 * LAYERS + 6 };
enum { KERNELS = 60, CUDA_STEPS = 8000, STEP_ACTIVITIES_MAX = 2 * KERNELS + 16 };

/* Records of one step with times relative to its start. */
typedef struct step_template {
    dl_record records[STEP_RECORDS_MAX];
    int count;
    int64_t clock_ns;
} step_template;

static void add(step_template *step, dl_record record, int64_t duration_ns)
{
    record.staleness = DL_NO_STALENESS;
    record.start_ns = step->clock_ns + 60; /* host time between two operations */
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
            char name[32];
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

/* Appends STEPS steps; `with_clock` reads the clock once per record, as a profiler must. */
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
    DL_ASSERT(ignored_ns >= INT64_MIN, "clock"); /* prevents removal of the calls */
    return (double)took_ns / ((double)STEPS * step->count);
}

/* Activities of one step of a CUDA program, with times and correlations relative to its start. */
typedef struct cuda_template {
    dl_activity activities[STEP_ACTIVITIES_MAX];
    int count;
    int64_t host_ns, device_ns; /* current times of the host and the stream */
    uint32_t correlations;
} cuda_template;

static uint32_t intern(dl_trace_writer *writer, const char *format, int number)
{
    char text[64];
    snprintf(text, sizeof text, format, number);
    return dl_trace_writer_intern(writer, text);
}

/* Adds a runtime call and the work that it adds to the stream. */
static void launch(cuda_template *step, dl_activity work, uint32_t function, int64_t duration_ns)
{
    const int64_t call_ns = 4100, call_gap_ns = 1700, launch_ns = 5200, device_gap_ns = 900;
    uint32_t correlation = ++step->correlations;
    step->activities[step->count++] = (dl_activity){.kind = DL_ACTIVITY_CALL,
                                                    .name = function,
                                                    .thread = 314159,
                                                    .correlation = correlation,
                                                    .start_ns = step->host_ns,
                                                    .duration_ns = call_ns + correlation % 7 * 83};
    work.correlation = correlation;
    work.start_ns = step->device_ns + device_gap_ns + correlation % 5 * 32;
    if (work.start_ns < step->host_ns + launch_ns) work.start_ns = step->host_ns + launch_ns;
    work.duration_ns = duration_ns;
    step->device_ns = work.start_ns + duration_ns;
    step->host_ns += call_ns + call_gap_ns + correlation % 3 * 211;
    step->activities[step->count++] = work;
}

static void add_range(cuda_template *step, uint32_t name, uint32_t domain, int64_t start_ns)
{
    step->activities[step->count++] = (dl_activity){.kind = DL_ACTIVITY_RANGE,
                                                    .name = name,
                                                    .detail = domain,
                                                    .thread = 314159,
                                                    .start_ns = start_ns,
                                                    .duration_ns = step->host_ns - start_ns};
}

static void add_copy(cuda_template *step, dl_copy_direction direction, uint64_t bytes,
                     uint32_t function)
{
    dl_activity copy = {.kind = DL_ACTIVITY_MEMCPY,
                        .copy = (uint8_t)direction,
                        .memory = DL_MEMORY_PINNED,
                        .stream = 7,
                        .bytes = bytes};
    launch(step, copy, function, 1500 + (int64_t)bytes / 25); /* 25 bytes per ns */
}

/* Ten layers of six kernels, each layer in a range; 40 different kernels, 12 launch shapes. */
static void make_cuda_step(cuda_template *step, dl_trace_writer *writer)
{
    uint32_t launch_kernel = dl_trace_writer_intern(writer, "cudaLaunchKernel");
    uint32_t memcpy_async = dl_trace_writer_intern(writer, "cudaMemcpyAsync");
    uint32_t domain = dl_trace_writer_intern(writer, "train");
    *step = (cuda_template){0};
    add_copy(step, DL_COPY_H2D, 19267584, memcpy_async);
    int64_t layer_ns = 0;
    for (int i = 0; i < KERNELS; i++) {
        dl_activity kernel = {.kind = DL_ACTIVITY_KERNEL, .stream = 7};
        kernel.name = intern(writer, "_ZN5layer6kernelILi%dEEvPKfPfi", i % 40);
        kernel.detail =
            intern(writer, "grid %dx1x1 block 256x1x1 shared 0 regs 32", 64 * (1 + i % 12));
        launch(step, kernel, launch_kernel, 2500 + i * 7919 % 61000);
        if (i % 6 < 5) continue;
        add_range(step, intern(writer, "layer %d", i / 6), domain, layer_ns);
        layer_ns = step->host_ns;
    }
    add_copy(step, DL_COPY_D2H, 4, memcpy_async);
    dl_activity wait = {.kind = DL_ACTIVITY_SYNC,
                        .name = dl_trace_writer_intern(writer, "stream"),
                        .stream = 7,
                        .correlation = ++step->correlations,
                        .start_ns = step->host_ns,
                        .duration_ns = step->device_ns - step->host_ns};
    step->activities[step->count++] = wait;
    step->host_ns = step->device_ns + 2000;
    add_range(step, dl_trace_writer_intern(writer, "step"), domain, 0);
}

/* Appends CUDA_STEPS steps, of device work only or of all activities; returns the ns per
 * activity. */
static double append_cuda_steps(dl_trace_stream *stream, const cuda_template *step,
                                bool kernels_only, size_t *appended)
{
    size_t count = 0;
    int64_t start_ns = dl_clock_ns();
    for (uint32_t s = 0; s < CUDA_STEPS; s++) {
        for (int i = 0; i < step->count; i++) {
            dl_activity activity = step->activities[i];
            if (kernels_only && activity.kind != DL_ACTIVITY_KERNEL) continue;
            activity.start_ns += 1790000000000000000 + s * step->host_ns; /* like CLOCK_REALTIME */
            if (activity.correlation != 0) activity.correlation += s * step->correlations;
            dl_trace_stream_append_activity(stream, &activity);
            count++;
        }
    }
    *appended = count;
    return (double)(dl_clock_ns() - start_ns) / (double)count;
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
    double activity_ns[ROUNDS], activity_bytes[ROUNDS], activity_read_ns[ROUNDS];
    double kernel_ns[ROUNDS], kernel_bytes[ROUNDS], kernel_read_ns[ROUNDS];
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

static dl_status run_cuda_round(const char *path, bool kernels_only, double *append_ns,
                                size_t *appended, dl_error *err)
{
    dl_trace_writer *writer = NULL;
    dl_status status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) return status;
    cuda_template step;
    make_cuda_step(&step, writer);
    *append_ns = append_cuda_steps(dl_trace_writer_stream(writer), &step, kernels_only, appended);
    return dl_trace_writer_close(&writer, err);
}

/* Reads the trace of `count` records and activities. */
static dl_status read_round(const char *path, size_t count, double *bytes, double *read_ns,
                            dl_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) return dl_error_set(err, DL_ERR_IO, "cannot stat %s", path);
    dl_trace trace = {0};
    int64_t start_ns = dl_clock_ns();
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    *read_ns = (double)(dl_clock_ns() - start_ns) / (double)count;
    *bytes = (double)info.st_size / (double)count;
    DL_ASSERT(trace.record_count + trace.activity_count == count, "%zu written, %zu + %zu read",
              count, trace.record_count, trace.activity_count);
    dl_trace_free(&trace);
    return DL_OK;
}

static dl_status measure_activities(results *r, int i, const char *path, dl_error *err)
{
    size_t count = 0;
    dl_status status = run_cuda_round(path, false, &r->activity_ns[i], &count, err);
    if (status == DL_OK) {
        status = read_round(path, count, &r->activity_bytes[i], &r->activity_read_ns[i], err);
    }
    if (status == DL_OK) status = run_cuda_round(path, true, &r->kernel_ns[i], &count, err);
    if (status == DL_OK) {
        status = read_round(path, count, &r->kernel_bytes[i], &r->kernel_read_ns[i], err);
    }
    return status;
}

static dl_status measure(results *r, const char *path, dl_error *err)
{
    const size_t records = (size_t)STEPS * STEP_RECORDS_MAX;
    for (int round = -1; round < ROUNDS; round++) {
        int i = round < 0 ? 0 : round; /* the warm-up's values are overwritten */
        dl_status status = run_round(path, true, &r->clock_ns[i], err);
        if (status == DL_OK) status = run_round(path, false, &r->append_ns[i], err);
        if (status == DL_OK) {
            status = read_round(path, records, &r->record_bytes[i], &r->read_ns[i], err);
        }
        if (status == DL_OK) status = measure_activities(r, i, path, err);
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
    puts("per activity of CUDA steps");
    print_row("append", r.activity_ns, "ns");
    print_row("file", r.activity_bytes, "bytes");
    print_row("read into memory", r.activity_read_ns, "ns");
    puts("per kernel, of the same steps' kernels alone");
    print_row("append", r.kernel_ns, "ns");
    print_row("file", r.kernel_bytes, "bytes");
    print_row("read into memory", r.kernel_read_ns, "ns");
    return 0;
}
