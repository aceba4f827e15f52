#include "profiler/bench/capture_cost.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/install.h"
#include "common/names.h"
#include "common/units.h"
#include "kernels/device.h"
#include "profiler/inject/settings.h"
#include "trace/activity/activity.h"
#include "trace/distribution.h"
#include "trace/dlt/dlt.h"

/* Activity counts in the trace of a recorded child. */
typedef struct dl_child_recording {
    bool found; /* there is a trace */
    size_t count, of_kind[DL_ACTIVITY_KIND_END];
} dl_child_recording;

/* Rounds per child, after an uncounted first one, and calls of each kind per round; a child's
 * figure is the median over its rounds. A device's queue holds about a thousand launches; beyond
 * them the host waits. */
#define DL_LAUNCH_ROUNDS 41
#define DL_LAUNCH_CALLS 250
#define DL_LAUNCH_REPETITIONS_MAX 60

/* A new folder below `below`; free() its path. DL_ERR_IO if it cannot be made. */
static dl_status child_folder_make(const char *below, char **folder, dl_error *err)
{
    char *made = dl_format("%s/dlprof-XXXXXX", below);
    if (mkdtemp(made) != NULL) {
        *folder = made;
        return DL_OK;
    }
    const dl_status status =
        dl_error_set_at(err, DL_ERR_IO, made, 0, "cannot make a temporary folder");
    free(made);
    return status;
}

/* Returns the path of a file in the folder with this ending (".dlt"), or NULL if there is none.
 * free() it. */
static char *child_folder_find(const char *folder, const char *ending)
{
    char *found = NULL;
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir != NULL && found == NULL && (entry = readdir(dir)) != NULL) {
        if (dl_ends_with(entry->d_name, ending)) found = dl_format("%s/%s", folder, entry->d_name);
    }
    if (dir != NULL) closedir(dir);
    return found;
}

/* Counts the activities of the trace in the folder. Fails as dl_trace_read; a missing trace is not
 * an error. */
static dl_status child_recording_count(const char *folder, dl_child_recording *recording,
                                       dl_error *err)
{
    *recording = (dl_child_recording){0};
    DL_AUTOFREE char *path = child_folder_find(folder, ".dlt");
    if (path == NULL) return DL_OK;
    DL_SCOPED(dl_trace) trace = {0};
    const dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    recording->found = true;
    recording->count = trace.activity_count;
    for (size_t i = 0; i < trace.activity_count; i++)
        recording->of_kind[trace.activities[i].kind]++;
    return DL_OK;
}

/* Removes the files in the folder, which must not hold folders. */
static void child_folder_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        DL_AUTOFREE char *path = dl_format("%s/%s", folder, entry->d_name);
        unlink(path); /* fails for . and .. */
    }
    if (dir != NULL) closedir(dir);
}

/* Removes folder and files, and frees the path. */
static void child_folder_remove(char *folder)
{
    child_folder_empty(folder);
    rmdir(folder);
    free(folder);
}

#define CALL_KINDS DL_CAPTURE_PER_RECORD
#define COPY_BYTES 4096 /* as small as a batch's labels: the call takes the time, not the bytes */

const char *const dl_launch_variant_names[DL_LAUNCH_VARIANT_COUNT] = {"bare", "nvtx", "light",
                                                                      "default", "full"};

/* Result of a child. */
typedef struct child_result {
    char why[DL_ERROR_TEXT_BYTES]; /* reason why nothing was measured; "" = success */
    char device[DL_DEVICE_NAME_BYTES];
    double call_ns[CALL_KINDS];
    double background_ns;         /* CPU time of all threads except the launching one, from the
                                   * first timed call to the end of the process */
    double process_ns, thread_ns; /* CPU time of the process and of the launching thread before the
                                   * first timed call */
} child_result;

/* Parameters of a child. */
typedef struct child_order {
    const dl_launch_config *config;
    dl_launch_variant variant;
    const char *folder;
} child_order;

/* The device and the resources for its calls. */
typedef struct launcher {
    const dl_device_type *type;
    dl_device *device;
    void *host, *memory;
    int (*synchronize)(void); /* the driver's cuCtxSynchronize */
} launcher;

static double clock_of(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return dl_s_to_ns((double)now.tv_sec) + (double)now.tv_nsec;
}

/* In the child, before its first call of CUDA: makes NVTX and the driver load the library as dlprof
 * run does, with the variant's settings; BARE: nothing is loaded, whatever the environment
 * contains. */
static void set_environment(const child_order *order)
{
    dl_capture_settings settings = dl_capture_settings_default();
    unsetenv("CUDA_INJECTION64_PATH");
    unsetenv("NVTX_INJECTION64_PATH");
    if (order->variant == DL_LAUNCH_BARE) return;
    if (order->variant > DL_LAUNCH_NVTX) settings.preset = order->variant - DL_LAUNCH_LIGHT;
    settings.output = order->folder;
    settings.cupti = order->config->cupti;
    dl_capture_settings_to_environment(&settings);
    setenv("NVTX_INJECTION64_PATH", order->config->library, 1);
    if (order->variant > DL_LAUNCH_NVTX) setenv("CUDA_INJECTION64_PATH", order->config->library, 1);
}

static dl_status open_launcher(launcher *to, const char *path, char *name, dl_error *err)
{
    static const dl_device_settings settings = {0};
    dl_device_info info = {0};
    dl_status status = dl_device_load(path, &to->type, err);
    if (status == DL_OK) status = to->type->describe(0, &info, err);
    if (status == DL_OK) status = to->type->open(&to->device, 0, &settings, err);
    if (status != DL_OK) return status;
    snprintf(name, DL_DEVICE_NAME_BYTES, "%s", info.name);
    to->type->use(to->device);
    status = to->type->backend->start(err);
    if (status != DL_OK) return status;
    to->host = to->type->backend->allocate_host(COPY_BYTES, "measured copies");
    to->memory = to->type->backend->allocate(COPY_BYTES, "measured copies");
    /* The device's library has already loaded the driver's library. */
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver == NULL || !dl_library_function(driver, "cuCtxSynchronize", &to->synchronize)) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "the driver has no cuCtxSynchronize");
    }
    return to->type->backend->wait(err);
}

static void close_launcher(launcher *to)
{
    if (to->device == NULL) return;
    to->type->backend->release(to->memory);
    to->type->backend->release_host(to->host);
    to->type->close(to->device);
}

static void call_once(const launcher *by, int kind)
{
    switch (kind) {
    case DL_CAPTURE_PER_KERNEL: by->type->launch(); break;
    case DL_CAPTURE_PER_COPY: by->type->backend->upload(by->memory, by->host, COPY_BYTES); break;
    case DL_CAPTURE_PER_EVENT: by->type->mark(0); break;
    case DL_CAPTURE_PER_SYNC: (void)by->synchronize(); break;
    default: break;
    }
}

/* Times all kinds of calls in every round, so that a drift of the machine affects each equally. The
 * device is idle when a round starts, and waiting for it is not timed. */
static dl_status time_calls(const launcher *by, double call_ns[CALL_KINDS], dl_error *err)
{
    static double rounds[CALL_KINDS][DL_LAUNCH_ROUNDS];
    for (int round = -1; round < DL_LAUNCH_ROUNDS; round++) {
        for (int kind = 0; kind < CALL_KINDS; kind++) {
            const double start_ns = clock_of(CLOCK_MONOTONIC);
            for (int i = 0; i < DL_LAUNCH_CALLS; i++)
                call_once(by, kind);
            const double taken_ns = clock_of(CLOCK_MONOTONIC) - start_ns;
            const dl_status status = by->type->backend->wait(err);
            if (status != DL_OK) return status;
            if (round >= 0) rounds[kind][round] = taken_ns / DL_LAUNCH_CALLS;
        }
    }
    for (int kind = 0; kind < CALL_KINDS; kind++)
        call_ns[kind] = dl_distribution_of(rounds[kind], DL_LAUNCH_ROUNDS).p50;
    return DL_OK;
}

static void measure_in_child(const child_order *order, child_result *result)
{
    dl_error err = {0};
    launcher by = {0};
    set_environment(order);
    dl_status status = open_launcher(&by, order->config->device_library, result->device, &err);
    result->process_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    result->thread_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
    if (status == DL_OK) status = time_calls(&by, result->call_ns, &err);
    close_launcher(&by);
    if (status != DL_OK) snprintf(result->why, sizeof result->why, "%s", err.text);
}

/* State of the child; global, as exit handlers get no argument. */
static struct {
    int to_parent;
    child_result result;
} child;

/* Called after the recorder has written everything. */
static void hand_over(void)
{
    const char *result = (const char *)&child.result;
    child.result.background_ns = (clock_of(CLOCK_PROCESS_CPUTIME_ID) - child.result.process_ns) -
                                 (clock_of(CLOCK_THREAD_CPUTIME_ID) - child.result.thread_ns);
    for (size_t done = 0; done < sizeof child.result;) {
        const ssize_t bytes = write(child.to_parent, result + done, sizeof child.result - done);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) _exit(1);
        done += (size_t)bytes;
    }
    _exit(0); /* skips the handlers inherited from the parent */
}

/* Exit handlers run in reverse order of registration: this one runs after those of the libraries
 * that the measurement loads. */
static void run_child(const child_order *order, int to_parent)
{
    child.to_parent = to_parent;
    if (atexit(hand_over) != 0) _exit(1);
    measure_in_child(order, &child.result);
    exit(0);
}

static bool read_all(int from_child, char *result, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = read(from_child, result + done, bytes - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

/* Forks; the child measures, runs its exit handlers, as a program does at its end, and passes the
 * result to the parent. The calling process must have a single thread. DL_ERR_SYSTEM, with *result
 * undefined, if the fork fails, or if the child fails or ends without a result. */
static dl_status child_measure(const child_order *order, child_result *result, dl_error *err)
{
    int ends[2];
    fflush(NULL); /* otherwise the child would write buffered output again */
    if (pipe(ends) != 0) return dl_error_set(err, DL_ERR_SYSTEM, "cannot make a pipe");
    const pid_t made = fork();
    if (made == 0) run_child(order, ends[1]);
    close(ends[1]);
    const bool whole = made > 0 && read_all(ends[0], (char *)result, sizeof *result);
    close(ends[0]);
    int status = 1;
    while (made > 0 && waitpid(made, &status, 0) < 0 && errno == EINTR) {}
    if (whole && status == 0) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "the process that was to be recorded failed");
}

/* Sets the error to `what`, with the first line of the recorder's log if there is one. */
static dl_status no_recording(const child_order *order, const char *what, dl_error *err)
{
    DL_AUTOFREE char *path = child_folder_find(order->folder, ".log");
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    if (path == NULL || dl_file_read(path, &text, &bytes, NULL) != DL_OK) text = dl_strdup("");
    text[strcspn(text, "\n")] = '\0';
    return dl_error_set(err, text[0] != '\0' ? DL_ERR_UNSUPPORTED : DL_ERR_DATA,
                        "preset %s: %s%s%s", dl_launch_variant_names[order->variant], what,
                        text[0] != '\0' ? ": " : "", text);
}

/* Counts the activities of the trace, which must hold all kernels and copies of the loop. */
static dl_status count_records(const child_order *order, double *records, dl_error *err)
{
    dl_child_recording recording;
    const dl_status status = child_recording_count(order->folder, &recording, err);
    if (status != DL_OK) return status;
    if (!recording.found) return no_recording(order, "left no trace", err);
    const size_t calls = (size_t)DL_LAUNCH_CALLS * (DL_LAUNCH_ROUNDS + 1);
    const size_t kernels = recording.of_kind[DL_ACTIVITY_KERNEL];
    const size_t copies = recording.of_kind[DL_ACTIVITY_MEMCPY];
    *records = (double)recording.count;
    if (kernels >= calls && copies >= calls) return DL_OK;
    char what[128];
    snprintf(what, sizeof what, "recorded %zu kernels and %zu copies of %zu each", kernels, copies,
             calls);
    return no_recording(order, what, err);
}

/* Drops the device library's advice to use the processor, which does not help here. */
static dl_status no_device(char *why, dl_error *err)
{
    char *offer = strstr(why, "; --device");
    if (offer != NULL) *offer = '\0';
    return dl_error_set(err, DL_ERR_UNSUPPORTED, "%s", why);
}

/* Runs one child; *records becomes the number of activities recorded, 0 for BARE and NVTX. */
static dl_status run_one(const child_order *order, child_result *result, double *records,
                         dl_error *err)
{
    dl_status status = child_measure(order, result, err);
    *records = 0;
    if (status == DL_OK && result->why[0] != '\0') {
        status = no_device(result->why, err);
    }
    if (status == DL_OK && order->variant > DL_LAUNCH_NVTX) {
        status = count_records(order, records, err);
    }
    child_folder_empty(order->folder);
    return status;
}

/* Measurements of all repetitions. */
typedef struct cost_samples {
    /* [kind of call][repetition] time of a call without recording */
    double bare[CALL_KINDS][DL_LAUNCH_REPETITIONS_MAX];
    /* [variant][item][repetition] increase over the bare time of the same repetition */
    double added[DL_LAUNCH_VARIANT_COUNT][DL_CAPTURE_ITEM_COUNT][DL_LAUNCH_REPETITIONS_MAX];
    double records[DL_LAUNCH_VARIANT_COUNT]; /* [variant] number of records of one run */
    char device[DL_DEVICE_NAME_BYTES];
} cost_samples;

/* Runs all variants once, in reverse order in odd repetitions. */
static dl_status repeat(const dl_launch_config *config, const char *folder, int repetition,
                        cost_samples *samples, dl_error *err)
{
    child_result results[DL_LAUNCH_VARIANT_COUNT];
    for (int i = 0; i < DL_LAUNCH_VARIANT_COUNT; i++) {
        const int variant = repetition % 2 == 0 ? i : DL_LAUNCH_VARIANT_COUNT - 1 - i;
        const child_order order = {config, (dl_launch_variant)variant, folder};
        if (config->stop != NULL && atomic_load(config->stop)) {
            return dl_error_set(err, DL_ERR_SYSTEM, "stopped in repetition %d", repetition + 1);
        }
        const dl_status status =
            run_one(&order, &results[variant], &samples->records[variant], err);
        if (status != DL_OK) return status;
    }
    const child_result *bare = &results[DL_LAUNCH_BARE];
    memcpy(samples->device, bare->device, sizeof samples->device);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        samples->bare[kind][repetition] = bare->call_ns[kind];
    for (int v = 0; v < DL_LAUNCH_VARIANT_COUNT; v++) {
        for (int kind = 0; kind < CALL_KINDS; kind++)
            samples->added[v][kind][repetition] = results[v].call_ns[kind] - bare->call_ns[kind];
        if (samples->records[v] == 0) continue;
        samples->added[v][DL_CAPTURE_PER_RECORD][repetition] =
            (results[v].background_ns - bare->background_ns) / samples->records[v];
    }
    return DL_OK;
}

/* The median lies below the value of rank `low` (from 0) if at most `low` of n fair coins show
 * heads; the interval misses it on either side with that probability. */
size_t dl_overhead_median_interval(size_t count, double confidence)
{
    const double n = (double)count;
    double tail = 0;
    size_t low = 0;
    for (size_t k = 0; 2 * k < count; k++) {
        const double heads = (double)k;
        tail += exp(lgamma(n + 1) - lgamma(heads + 1) - lgamma(n - heads + 1) - n * log(2));
        if (2 * tail > 1 - confidence) break;
        low = k;
    }
    return low;
}

dl_capture_figure dl_overhead_figure(double *values, size_t count)
{
    const double median_ns = dl_distribution_of(values, count).p50; /* also sorts them */
    const size_t low = dl_overhead_median_interval(count, DL_OVERHEAD_CONFIDENCE);
    return (dl_capture_figure){median_ns, values[low], values[count - 1 - low]};
}

static void sum_up(cost_samples *samples, int repetitions, dl_launch_cost *cost)
{
    const size_t count = (size_t)repetitions;
    const double calls = (double)CALL_KINDS * DL_LAUNCH_CALLS * (DL_LAUNCH_ROUNDS + 1);
    *cost = (dl_launch_cost){0};
    for (int kind = 0; kind < CALL_KINDS; kind++)
        cost->bare_ns[kind] = dl_distribution_of(samples->bare[kind], count).p50;
    for (int v = DL_LAUNCH_NVTX; v < DL_LAUNCH_VARIANT_COUNT; v++) {
        dl_capture_figures *figures = &cost->figures[v];
        figures->repetitions = repetitions;
        gethostname(figures->host, sizeof figures->host - 1);
        snprintf(figures->device, sizeof figures->device, "%s", samples->device);
        for (int item = 0; item < DL_CAPTURE_ITEM_COUNT; item++)
            figures->items[item] = dl_overhead_figure(samples->added[v][item], count);
        cost->records_per_launch[v] = samples->records[v] / calls;
    }
}

/* Repeats as often as config->seconds allow, judging by the time of the first repetition. */
static dl_status measure_into(const dl_launch_config *config, const char *folder,
                              cost_samples *samples, int *repetitions, dl_error *err)
{
    const double begin_ns = clock_of(CLOCK_MONOTONIC);
    int wanted = DL_LAUNCH_REPETITIONS_MIN;
    for (int i = 0; i < wanted; i++) {
        const dl_status status = repeat(config, folder, i, samples, err);
        if (status != DL_OK) return status;
        if (i == 0) {
            const double each_s = dl_ns_to_s(clock_of(CLOCK_MONOTONIC) - begin_ns);
            const double fit = config->seconds / each_s;
            wanted = fit > DL_LAUNCH_REPETITIONS_MAX   ? DL_LAUNCH_REPETITIONS_MAX
                     : fit > DL_LAUNCH_REPETITIONS_MIN ? (int)fit
                                                       : DL_LAUNCH_REPETITIONS_MIN;
        }
        dl_progress_update(config->progress, (double)(i + 1) / wanted);
    }
    *repetitions = wanted;
    return DL_OK;
}

dl_status dl_launch_cost_measure(const dl_launch_config *config, dl_launch_cost *cost,
                                 dl_error *err)
{
    char *folder = NULL;
    dl_status status = child_folder_make(config->folder, &folder, err);
    if (status != DL_OK) return status;
    DL_AUTOFREE cost_samples *samples = dl_calloc(1, sizeof *samples, "cost of the capture");
    int repetitions = 0;
    status = measure_into(config, folder, samples, &repetitions, err);
    if (status == DL_OK) sum_up(samples, repetitions, cost);
    child_folder_remove(folder);
    return status;
}
