#include "profiler/recorder.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef DL_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

#include "common/alloc.h"
#include "common/csv.h"
#include "common/options.h"
#include "common/units.h"
#include "profiler/workload_options.h"

/* A worker's first steps, but at most a tenth of all, are warm-up (page faults, cold caches) and
 * excluded from step times and throughput. */
#define DL_RECORDER_WARM_UP_STEPS 4

/* Steps whose memory is allocated and touched before the start, 2.5 MiB per worker. Later steps
 * cause a page fault every 102 steps (4 KiB), and each doubling reallocates the block, by remapping
 * its pages if the C library has mapped them, else by copying. */
#define STEPS_AT_FIRST ((int64_t)1 << 16)

void dl_recorder_reserve(dl_recorder_worker *worker, int64_t count)
{
    if (count <= worker->capacity) return;
    worker->steps =
        dl_realloc(worker->steps, (size_t)count, sizeof *worker->steps, "steps of a run");
    worker->capacity = count;
}

static void record(void *user, const dl_record *event)
{
    const dl_recorder *recorder = user;
    dl_recorder_worker *worker = &recorder->workers[event->worker];
    if (worker->stream != NULL) {
        dl_record named = *event;
        named.name = worker->ids[event->name];
        dl_trace_stream_append(worker->stream, &named);
    }
    if (event->kind == DL_RECORD_COMPUTE) worker->compute_ns += event->duration_ns;
    if (event->kind != DL_RECORD_STEP) return;
    const long long done = atomic_load_explicit(&worker->count, memory_order_relaxed);
    DL_ASSERT(done < recorder->steps, "worker %u, step %lld of %lld", event->worker, done,
              (long long)recorder->steps);
    if (done == worker->capacity) dl_recorder_reserve(worker, 2 * worker->capacity);
    worker->steps[done] = (dl_recorder_step){.end_ns = event->start_ns + event->duration_ns,
                                             .duration_ns = event->duration_ns,
                                             .compute_ns = worker->compute_ns,
                                             .samples = event->samples,
                                             .staleness = event->staleness};
    worker->compute_ns = 0;
    atomic_store_explicit(&worker->count, done + 1, memory_order_release);
}

static void intern_names(dl_recorder *recorder, const char *const *names, int count)
{
    recorder->ids = dl_calloc((size_t)count, sizeof *recorder->ids, "names of a run");
    if (recorder->writer == NULL) return;
    for (int i = 0; i < count; i++) {
        recorder->ids[i] = dl_trace_writer_intern(recorder->writer, names[i]);
    }
}

dl_status dl_recorder_open(dl_recorder *recorder, const dl_train_config *config, const char *path,
                           dl_error *err)
{
    const char **names;
    int name_count;
    dl_status status = dl_train_event_names(config, &names, &name_count, err);
    if (status != DL_OK) return status;
    dl_trace_writer *writer = NULL;
    if (path != NULL) status = dl_trace_writer_open(&writer, path, err);
    if (status != DL_OK) {
        free(names);
        return status;
    }
    *recorder =
        (dl_recorder){.writer = writer, .worker_count = config->workers, .steps = config->steps};
    intern_names(recorder, names, name_count);
    free(names);
    recorder->workers =
        dl_alloc_aligned((size_t)config->workers * sizeof *recorder->workers, "recorder");
    for (int w = 0; w < config->workers; w++) {
        dl_recorder_worker *worker = &recorder->workers[w];
        worker->ids = recorder->ids;
        worker->compute_ns = 0;
        dl_recorder_reserve(worker,
                            config->steps < STEPS_AT_FIRST ? config->steps : STEPS_AT_FIRST);
        /* Touched now: a page fault in the run would add to the time of a step. */
        memset(worker->steps, 0xff, (size_t)worker->capacity * sizeof *worker->steps);
        atomic_init(&worker->count, 0);
        if (writer != NULL) worker->stream = dl_trace_writer_stream(writer);
    }
    return DL_OK;
}

#ifdef DL_NVTX
/* An NVTX range for each step, by which dlprof run and other recorders identify steps. */
static void mark_step(void *user DL_UNUSED, int64_t step, bool begins)
{
    char text[32];
    if (!begins) {
        nvtxRangePop();
        return;
    }
    snprintf(text, sizeof text, "step %lld", (long long)step);
    nvtxRangePushA(text);
}
#endif

dl_train_observer dl_recorder_observer(dl_recorder *recorder)
{
    dl_train_observer observer = {.user = recorder, .record = record};
#ifdef DL_NVTX
    if (getenv("NVTX_INJECTION64_PATH") != NULL) observer.step = mark_step;
#endif
    return observer;
}

dl_status dl_recorder_finish(dl_recorder *recorder, dl_error *err)
{
    if (recorder->writer == NULL) return DL_OK;
    return dl_trace_writer_close(&recorder->writer, err);
}

void dl_recorder_free(dl_recorder *recorder)
{
    dl_error ignored = {0};
    if (dl_recorder_finish(recorder, &ignored) != DL_OK) ignored.code = DL_OK;
    for (int w = 0; w < recorder->worker_count; w++)
        free(recorder->workers[w].steps);
    free(recorder->workers);
    free(recorder->ids);
    *recorder = (dl_recorder){0};
}

void dl_recorder_take_uploads(dl_recorder *recorder, const dl_train_config *config,
                              const dl_train_result *result)
{
    recorder->uploads = result->uploads;
    for (size_t i = 0; i < result->merge_event_count; i++) {
        const dl_merge_event *event = &result->merge_events[i];
        dl_recorder_step *steps = recorder->workers[event->worker].steps;
        const bool lost = event->kind == DL_MERGE_TOO_STALE || event->kind == DL_MERGE_SUPERSEDED;
        if (event->kind == DL_MERGE_MERGE) steps[event->step].staleness = event->staleness;
        for (int64_t s = event->step; lost && s > event->step - config->interval; s--)
            steps[s].samples = 0;
    }
}

static int64_t steps_done(const dl_recorder_worker *worker)
{
    return atomic_load_explicit(&worker->count, memory_order_acquire);
}

int64_t dl_recorder_steps_done(const dl_recorder *recorder, int worker)
{
    return steps_done(&recorder->workers[worker]);
}

/* Index of the first step after the warm-up. */
static int64_t first_step(const dl_recorder_worker *worker)
{
    const int64_t tenth = steps_done(worker) / 10;
    return tenth < DL_RECORDER_WARM_UP_STEPS ? tenth : DL_RECORDER_WARM_UP_STEPS;
}

int64_t dl_recorder_common_end_ns(const dl_recorder *recorder)
{
    int64_t first_ns = INT64_MAX;
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_recorder_worker *worker = &recorder->workers[w];
        const int64_t done = steps_done(worker);
        if (done > 0 && worker->steps[done - 1].end_ns < first_ns) {
            first_ns = worker->steps[done - 1].end_ns;
        }
    }
    return first_ns;
}

/* Allocates one number for every step of every worker. */
static double *alloc_values(const dl_recorder *recorder)
{
    size_t count = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        count += (size_t)steps_done(&recorder->workers[w]);
    }
    return dl_calloc(count, sizeof(double), "step statistics");
}

/* Returns the step times of all workers after the warm-up, in ns, and sets *count to their number.
 * free() it. */
static double *step_times(const dl_recorder *recorder, size_t *count)
{
    double *values = alloc_values(recorder);
    *count = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_recorder_worker *worker = &recorder->workers[w];
        for (int64_t s = first_step(worker); s < steps_done(worker); s++) {
            values[(*count)++] = (double)worker->steps[s].duration_ns;
        }
    }
    return values;
}

dl_distribution dl_recorder_step_times(const dl_recorder *recorder)
{
    size_t count = 0;
    DL_AUTOFREE double *values = step_times(recorder, &count);
    return dl_distribution_of(values, count);
}

/* Sums over the steps after the warm-up. There may be none: in modes without waiting, a run may end
 * before a worker that shares its core has been scheduled. */
typedef struct steps_sum {
    int64_t steps;
    double ns, samples;
} steps_sum;

static steps_sum sum_steps(const dl_recorder_worker *worker)
{
    steps_sum sum = {0};
    for (int64_t s = first_step(worker); s < steps_done(worker); s++) {
        sum.steps++;
        sum.ns += (double)worker->steps[s].duration_ns;
        sum.samples += (double)worker->steps[s].samples;
    }
    return sum;
}

double dl_recorder_mean_step_ns(const dl_recorder *recorder)
{
    double sum = 0;
    int count = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        const steps_sum own = sum_steps(&recorder->workers[w]);
        if (own.steps > 0) sum += own.ns / (double)own.steps;
        count += own.ns > 0;
    }
    return count > 0 ? sum / count : 0;
}

double dl_recorder_throughput_per_s(const dl_recorder *recorder)
{
    double sum = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        const steps_sum own = sum_steps(&recorder->workers[w]);
        if (own.ns > 0) sum += own.samples / dl_ns_to_s(own.ns);
    }
    return sum;
}

/* Returns the smallest of ascending sorted[count] that at least `fraction` of the values do not
 * exceed. */
static double occurred_quantile(const double *sorted, size_t count, double fraction)
{
    const size_t rank = (size_t)ceil(fraction * (double)count);
    return sorted[rank > 0 ? rank - 1 : 0];
}

dl_distribution dl_recorder_staleness(const dl_recorder *recorder, int worker)
{
    DL_AUTOFREE double *values = alloc_values(recorder);
    size_t count = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        if (worker >= 0 && w != worker) continue;
        const dl_recorder_worker *of = &recorder->workers[w];
        for (int64_t s = 0; s < steps_done(of); s++) {
            const int64_t staleness = of->steps[s].staleness;
            if (staleness != DL_NO_STALENESS) values[count++] = (double)staleness;
        }
    }
    dl_distribution summary = dl_distribution_of(values, count);
    if (count > 0) {
        summary.p50 = occurred_quantile(values, count, 0.5);
        summary.p90 = occurred_quantile(values, count, 0.9);
    }
    return summary;
}

#define LOOK_NS (DL_NS_PER_S / 2)

static void *show(void *user)
{
    dl_run_progress *progress = user;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    pthread_mutex_lock(&progress->mutex);
    while (!progress->stop) {
        const int64_t ns = until.tv_nsec + LOOK_NS;
        until.tv_sec += (time_t)(ns / DL_NS_PER_S);
        until.tv_nsec = (long)(ns % DL_NS_PER_S);
        pthread_cond_timedwait(&progress->stopped, &progress->mutex, &until);
        if (!progress->stop) {
            dl_progress_update(&progress->progress,
                               (double)dl_recorder_steps_done(progress->recorder, 0) /
                                   (double)progress->recorder->steps);
        }
    }
    pthread_mutex_unlock(&progress->mutex);
    return NULL;
}

void dl_run_progress_start(dl_run_progress *progress, const dl_recorder *recorder)
{
    *progress = (dl_run_progress){.recorder = recorder};
    dl_progress_init(&progress->progress, "training");
    if (!progress->progress.terminal) return;
    pthread_mutex_init(&progress->mutex, NULL);
    pthread_cond_init(&progress->stopped, NULL);
    /* Without the thread only the display of progress is missing. */
    progress->running = pthread_create(&progress->thread, NULL, show, progress) == 0;
}

void dl_run_progress_stop(dl_run_progress *progress)
{
    if (!progress->progress.terminal) return;
    if (progress->running) {
        pthread_mutex_lock(&progress->mutex);
        progress->stop = true;
        pthread_cond_signal(&progress->stopped);
        pthread_mutex_unlock(&progress->mutex);
        pthread_join(progress->thread, NULL);
    }
    dl_progress_end(&progress->progress);
    pthread_cond_destroy(&progress->stopped);
    pthread_mutex_destroy(&progress->mutex);
}

static const char *const columns[] = {"cores",
                                      "workers",
                                      "batch",
                                      "sync",
                                      "interval",
                                      "model",
                                      "precision",
                                      "gpu_count",
                                      "where",
                                      "compress",
                                      "host_memory",
                                      "step_s",
                                      "throughput_per_s",
                                      "step_quantiles_s",
                                      "staleness_mean",
                                      "staleness_sd",
                                      "staleness_p50",
                                      "staleness_p90",
                                      "staleness_mean_by_worker",
                                      "staleness_counts",
                                      "uploads_applied",
                                      "uploads_too_stale",
                                      "uploads_superseded",
                                      "uploads_unmerged",
                                      "merges",
                                      "steps",
                                      "seed",
                                      "others_frac",
                                      "steal_frac",
                                      "source"};

#define COLUMN_COUNT (sizeof columns / sizeof columns[0])

/* Quantiles of a run's steps: distributions are compared to one part in a hundred. */
#define STEP_QUANTILES 100

/* Checks that the file at `path` has the columns of a measured run. */
static dl_status check_columns(const char *path, dl_error *err)
{
    DL_SCOPED(dl_csv) csv = {0};
    dl_status status = dl_csv_read(&csv, path, err);
    if (status != DL_OK) return status;
    bool same = csv.columns == COLUMN_COUNT;
    for (size_t c = 0; same && c < COLUMN_COUNT; c++)
        same = strcmp(csv.names[c], columns[c]) == 0;
    if (same) return DL_OK;
    return dl_error_set_at(err, DL_ERR_FORMAT, path, 0,
                           "has other columns than a measured run; nothing was appended");
}

static void write_head(dl_csv_writer *writer)
{
    dl_csv_comment(writer, "measured training runs, one a row; dlprof %s", dl_version());
    for (size_t c = 0; c < COLUMN_COUNT; c++)
        dl_csv_text(writer, columns[c]);
    dl_csv_end_row(writer);
}

/* Returns the quantiles 0.005, 0.015, ..., 0.995 of the step times in s, as "0.0191;0.0192;...", or
 * "" without steps. free() it. */
static char *step_quantiles(const dl_recorder *recorder)
{
    size_t count = 0;
    DL_AUTOFREE double *values = step_times(recorder, &count);
    char *text = dl_strdup("");
    dl_distribution_of(values, count); /* sorts them */
    for (int q = 0; q < STEP_QUANTILES && count > 0; q++) {
        const double ns = dl_distribution_quantile(values, count, (q + 0.5) / STEP_QUANTILES);
        dl_extend(&text, "%s%.5g", q > 0 ? ";" : "", dl_ns_to_s(ns));
    }
    return text;
}

/* Returns the mean staleness of each worker as "0.99;1.02"; "" in synchronous modes, and if a
 * worker has no step. free() it. */
static char *staleness_by_worker(const dl_recorder *recorder)
{
    char *text = dl_strdup("");
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_distribution own = dl_recorder_staleness(recorder, w);
        if (own.count == 0) {
            free(text);
            return dl_strdup("");
        }
        char number[DL_DOUBLE_TEXT_BYTES];
        dl_extend(&text, "%s%s", w > 0 ? ";" : "", dl_format_double(number, own.mean));
    }
    return text;
}

/* Highest staleness of an applied gradient, -1 in synchronous modes. */
static int64_t highest_staleness(const dl_recorder *recorder)
{
    int64_t most = DL_NO_STALENESS;
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_recorder_worker *worker = &recorder->workers[w];
        for (int64_t s = 0; s < atomic_load(&worker->count); s++) {
            if (worker->steps[s].staleness > most) most = worker->steps[s].staleness;
        }
    }
    return most;
}

/* Numbers of applied gradients with staleness 0, 1, 2, ..., as "3;690;7"; empty in synchronous
 * modes. free() it. */
static char *staleness_counts(const dl_recorder *recorder)
{
    const int64_t most = highest_staleness(recorder);
    if (most < 0) return dl_strdup("");
    DL_AUTOFREE int64_t *counts = dl_calloc((size_t)most + 1, sizeof *counts, "staleness counts");
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_recorder_worker *worker = &recorder->workers[w];
        for (int64_t s = 0; s < atomic_load(&worker->count); s++)
            if (worker->steps[s].staleness >= 0) counts[worker->steps[s].staleness]++;
    }
    char *text = NULL;
    size_t bytes = 0;
    FILE *joined = dl_text_stream(&text, &bytes);
    for (int64_t b = 0; b <= most; b++)
        fprintf(joined, "%s%lld", b > 0 ? ";" : "", (long long)counts[b]);
    fclose(joined);
    return text;
}

/* Steps of the worker that has done the most: all requested ones, unless the run was stopped. */
static int64_t most_steps_done(const dl_recorder *recorder)
{
    int64_t most = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        const int64_t done = dl_recorder_steps_done(recorder, w);
        if (done > most) most = done;
    }
    return most;
}

/* Writes the columns from model to host_memory of a measured row. */
static void write_settings(dl_csv_writer *writer, const dl_train_config *config)
{
    const bool exchanges = config->sync != DL_SYNC_NONE;
    int gpus = 0;
    if (config->device != NULL && dl_train_device_count(config, &gpus, NULL) != DL_OK) gpus = 0;
    DL_AUTOFREE char *where = dl_device_where_text(config);
    dl_csv_text(writer, config->model);
    dl_csv_text(writer, dl_precision_text(config));
    dl_csv_int(writer, gpus);
    dl_csv_text(writer, exchanges ? where : "");
    dl_csv_text(writer, exchanges ? dl_quantise_names[config->quantise] : "");
    dl_csv_text(writer, config->device != NULL
                            ? dl_host_memory_names[config->device_settings.pageable]
                            : "");
}

static void write_row(dl_csv_writer *writer, const dl_train_config *config,
                      const dl_recorder *recorder, const dl_cpu_disturbance *disturbed)
{
    const dl_distribution staleness = dl_recorder_staleness(recorder, -1);
    DL_AUTOFREE char *by_worker = staleness_by_worker(recorder);
    DL_AUTOFREE char *counts = staleness_counts(recorder);
    DL_AUTOFREE char *quantiles = step_quantiles(recorder);
    dl_csv_int(writer, dl_train_cores(config));
    dl_csv_int(writer, config->workers);
    dl_csv_int(writer, config->batch);
    dl_csv_text(writer, dl_sync_names[config->sync]);
    if (config->sync == DL_SYNC_AVERAGE || config->sync == DL_SYNC_ASYNC_AVERAGE) {
        dl_csv_int(writer, config->interval);
    } else {
        dl_csv_text(writer, "");
    }
    write_settings(writer, config);
    dl_csv_double(writer, dl_ns_to_s(dl_recorder_mean_step_ns(recorder)));
    dl_csv_double(writer, dl_recorder_throughput_per_s(recorder));
    dl_csv_text(writer, quantiles);
    const double numbers[] = {staleness.mean, staleness.sd, staleness.p50, staleness.p90};
    for (int i = 0; i < 4; i++)
        dl_csv_double(writer, staleness.count > 0 ? numbers[i] : (double)NAN);
    dl_csv_text(writer, by_worker);
    dl_csv_text(writer, counts);
    const dl_merge_counts *uploads = &recorder->uploads;
    const int64_t fates[] = {uploads->applied, uploads->too_stale, uploads->superseded,
                             uploads->unmerged, uploads->merges};
    for (size_t i = 0; i < DL_LENGTH(fates); i++) {
        if (config->sync == DL_SYNC_ASYNC_AVERAGE) {
            dl_csv_int(writer, fates[i]);
        } else {
            dl_csv_text(writer, "");
        }
    }
    dl_csv_int(writer, most_steps_done(recorder));
    dl_csv_int(writer, (int64_t)config->seed);
    dl_csv_double(writer, disturbed->others_frac);
    dl_csv_double(writer, disturbed->steal_frac);
    dl_csv_text(writer, "dlprof train");
    dl_csv_end_row(writer);
}

dl_status dl_measured_row_check(const char *path, dl_error *err)
{
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0) return DL_OK;
    return check_columns(path, err);
}

dl_status dl_measured_row_append(const char *path, const dl_train_config *config,
                                 const dl_recorder *recorder, const dl_cpu_disturbance *disturbed,
                                 dl_error *err)
{
    FILE *out = fopen(path, "a");
    if (out == NULL) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot open: %s", strerror(errno));
    }
    fseek(out, 0, SEEK_END);
    const off_t before = ftello(out);
    const bool empty = before == 0;
    dl_status status = empty ? DL_OK : check_columns(path, err);
    dl_csv_writer writer = {.out = out};
    if (status == DL_OK && empty) write_head(&writer);
    if (status == DL_OK) write_row(&writer, config, recorder, disturbed);
    const bool failed = ferror(out) != 0;
    if ((fclose(out) != 0 || failed) && status == DL_OK) {
        status = dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot write: %s", strerror(errno));
        struct stat found;
        if (stat(path, &found) == 0 && S_ISREG(found.st_mode) &&
            (empty ? unlink(path) : truncate(path, before)) != 0) {
            dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot write; a part of a row may be in it");
        }
    }
    return status;
}
