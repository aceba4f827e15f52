#include "profiler/bench/launch_cost.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/units.h"
#include "kernels/device.h"
#include "profiler/bench/measuring_child.h"
#include "profiler/bench/overhead.h"
#include "profiler/inject/settings.h"
#include "trace/distribution.h"

#define CALL_KINDS DL_CAPTURE_PER_RECORD
#define COPY_BYTES 4096 /* a batch's labels: the cost of a copy, not of its bytes */

const char *const dl_launch_variant_names[DL_LAUNCH_VARIANT_COUNT] = {"bare", "nvtx", "light",
                                                                      "default", "full"};

/* What a child hands over. */
typedef struct child_result {
    char why[DL_ERROR_TEXT_BYTES]; /* nothing was measured; "" = all went well */
    char device[DL_DEVICE_NAME_BYTES];
    double call_ns[CALL_KINDS];
    double background_ns; /* processor time of all threads but the launching one, to the end */
    double process_ns, thread_ns; /* clocks at the start of that time */
} child_result;

/* What a child is to do. */
typedef struct child_order {
    const dl_launch_config *config;
    dl_launch_variant variant;
    const char *folder;
} child_order;

/* The device and what the calls need. */
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

static dl_status set_environment(const child_order *order, dl_error *err)
{
    dl_capture_settings settings = dl_capture_settings_default();
    if (order->variant == DL_LAUNCH_BARE) {
        dl_child_inject(&settings, NULL, false);
        return DL_OK;
    }
    if (order->variant > DL_LAUNCH_NVTX) settings.preset = order->variant - DL_LAUNCH_LIGHT;
    dl_status status = dl_capture_set_path(settings.output, order->folder, err);
    if (status == DL_OK) status = dl_capture_set_path(settings.cupti, order->config->cupti, err);
    if (status != DL_OK) return status;
    dl_child_inject(&settings, order->config->library, order->variant > DL_LAUNCH_NVTX);
    return DL_OK;
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
    to->type->backend->start();
    to->host = to->type->backend->allocate_host(COPY_BYTES, "measured copies");
    to->memory = to->type->backend->allocate(COPY_BYTES, "measured copies");
    /* The device's library has loaded the driver's. */
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver != NULL) *(void **)&to->synchronize = dlsym(driver, "cuCtxSynchronize");
    if (to->synchronize == NULL) {
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

/* All kinds of calls, round by round, so that a drift of the machine touches all alike. The device
 * is idle when a round begins, and waiting for it is not timed. */
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

static void work_in_child(void *user, void *memory)
{
    const child_order *order = user;
    child_result *result = memory;
    dl_error err = {0};
    launcher by = {0};
    dl_status status = set_environment(order, &err);
    if (status == DL_OK) {
        status = open_launcher(&by, order->config->device_library, result->device, &err);
    }
    result->process_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    result->thread_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
    if (status == DL_OK) status = time_calls(&by, result->call_ns, &err);
    close_launcher(&by);
    if (status != DL_OK) snprintf(result->why, sizeof result->why, "%s", err.text);
}

/* Here the recorder has written all it had. */
static void finish_in_child(void *user, void *memory)
{
    (void)user;
    child_result *result = memory;
    result->background_ns = (clock_of(CLOCK_PROCESS_CPUTIME_ID) - result->process_ns) -
                            (clock_of(CLOCK_THREAD_CPUTIME_ID) - result->thread_ns);
}

/* What the recorder says about its failure, or that it says nothing. */
static dl_status no_recording(const child_order *order, const char *what, dl_error *err)
{
    char *path = dl_child_folder_find(order->folder, ".log");
    char *text = NULL;
    size_t bytes = 0;
    if (path == NULL || dl_file_read(path, &text, &bytes, NULL) != DL_OK) text = dl_strdup("");
    text[strcspn(text, "\n")] = '\0';
    const dl_status status = dl_error_set(
        err, text[0] != '\0' ? DL_ERR_UNSUPPORTED : DL_ERR_DATA, "preset %s: %s%s%s",
        dl_launch_variant_names[order->variant], what, text[0] != '\0' ? ": " : "", text);
    free(text);
    free(path);
    return status;
}

/* How many activities the trace holds, all of the loop's kernels and copies among them. */
static dl_status count_records(const child_order *order, double *records, dl_error *err)
{
    dl_child_recording recording;
    const dl_status status = dl_child_recording_count(order->folder, &recording, err);
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

/* The device's library offers the processor instead, which is no help here. */
static dl_status no_device(char *why, dl_error *err)
{
    char *offer = strstr(why, "; --device");
    if (offer != NULL) *offer = '\0';
    return dl_error_set(err, DL_ERR_UNSUPPORTED, "%s", why);
}

/* One child; *records is 0 where nothing of CUDA is recorded. */
static dl_status run_one(const child_order *order, child_result *result, double *records,
                         dl_error *err)
{
    child_order own = *order;
    const dl_child_work work = {work_in_child, finish_in_child, &own};
    dl_status status = dl_child_measure(&work, result, sizeof *result, err);
    *records = 0;
    if (status == DL_OK && result->why[0] != '\0') {
        status = no_device(result->why, err);
    }
    if (status == DL_OK && order->variant > DL_LAUNCH_NVTX) {
        status = count_records(order, records, err);
    }
    dl_child_folder_empty(order->folder);
    return status;
}

/* [repetition] of all variants: what is added to the bare time of the same repetition. */
typedef struct cost_samples {
    double bare[CALL_KINDS][DL_LAUNCH_REPETITIONS_MAX];
    double added[DL_LAUNCH_VARIANT_COUNT][DL_CAPTURE_ITEM_COUNT][DL_LAUNCH_REPETITIONS_MAX];
    double records[DL_LAUNCH_VARIANT_COUNT];
    char device[DL_DEVICE_NAME_BYTES];
} cost_samples;

/* All variants once, forwards or backwards. */
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

static dl_capture_figure figure_of(double *values, size_t count)
{
    const double median_ns = dl_distribution_of(values, count).p50; /* and sorts them */
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
            figures->items[item] = figure_of(samples->added[v][item], count);
        cost->records_per_launch[v] = samples->records[v] / calls;
    }
}

/* As many repetitions as fit, by the time of the first. */
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
    dl_status status = dl_child_folder_make(config->folder, &folder, err);
    if (status != DL_OK) return status;
    cost_samples *samples = dl_calloc(1, sizeof *samples, "cost of the capture");
    int repetitions = 0;
    status = measure_into(config, folder, samples, &repetitions, err);
    if (status == DL_OK) sum_up(samples, repetitions, cost);
    free(samples);
    dl_child_folder_remove(folder);
    return status;
}
