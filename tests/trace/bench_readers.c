/* Speed of reading other profilers' traces: bench_readers FILE... Not a test. One line per file:
 * activities, kernels, collectives with known bytes, time of the fastest of three runs, unpacked
 * bytes per second of wall-clock and of processor time, peak memory of the process so far (so run
 * one file at a time to measure a file's peak). */
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/alloc.h"
#include "common/units.h"
#include "trace/readers/reader.h"

enum { RUNS = 3 };

static uint64_t unpacked_bytes(const char *path)
{
    static char buffer[1 << 16];
    dl_text_source *source = NULL;
    dl_error err = {0};
    uint64_t bytes = 0;
    size_t got;
    if (dl_text_source_open(&source, path, &err) != DL_OK) return 0;
    while ((got = dl_text_source_read(source, buffer, sizeof buffer)) > 0)
        bytes += got;
    return dl_text_source_close(source, NULL, &err) == DL_OK ? bytes : 0;
}

static void print_counts(const dl_read_traces *traces)
{
    size_t activities = 0, kernels = 0, collectives = 0;
    for (size_t t = 0; t < traces->count; t++) {
        const dl_trace *trace = &traces->items[t].trace;
        activities += trace->activity_count;
        for (size_t i = 0; i < trace->activity_count; i++) {
            const dl_activity *a = &trace->activities[i];
            kernels += a->kind == DL_ACTIVITY_KERNEL;
            collectives += a->kind == DL_ACTIVITY_COLLECTIVE && a->bytes > 0;
        }
    }
    printf("%10zu activities %8zu kernels %6zu collectives", activities, kernels, collectives);
}

static dl_status bench(const char *path, dl_error *err)
{
    const dl_read_options options = {0};
    double best_s = 0, best_cpu_s = 0;
    struct rusage usage;
    dl_status status = DL_OK;
    for (int run = 0; run < RUNS && status == DL_OK; run++) {
        DL_AUTO(dl_read_free) dl_read_traces traces = {0};
        int64_t start_ns = dl_clock_ns(), start_cpu_ns = dl_clock_thread_cpu_ns();
        status = dl_read(&traces, path, &options, err);
        double seconds = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
        double cpu_s = dl_ns_to_s((double)(dl_clock_thread_cpu_ns() - start_cpu_ns));
        if (run == 0 || seconds < best_s) best_s = seconds;
        if (run == 0 || cpu_s < best_cpu_s) best_cpu_s = cpu_s;
        if (run == 0 && status == DL_OK) print_counts(&traces);
        if (run == 0) getrusage(RUSAGE_SELF, &usage);
    }
    if (status != DL_OK) return status;
    double bytes = (double)unpacked_bytes(path);
    printf(" %8.1f MB %8.1f ms %5.0f MB/s %5.0f MB/cpu s %4ld MiB  %s\n", bytes * 1e-6,
           best_s * 1e3, bytes * 1e-6 / best_s, bytes * 1e-6 / best_cpu_s, usage.ru_maxrss / 1024,
           path);
    return DL_OK;
}

int main(int argc, char **argv)
{
    dl_error err = {0};
    dl_status status = argc > 1 ? DL_OK : dl_error_set(&err, DL_ERR_USAGE, "want FILE...");
    for (int i = 1; i < argc && status == DL_OK; i++)
        status = bench(argv[i], &err);
    if (status != DL_OK) dl_error_print(&err, "bench_readers", stderr);
    return dl_status_exit_code(status);
}
