#include "profiler/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* Steps whose memory is there and touched from the start, 1.5 MiB a worker. Behind them a page fault
 * comes every 170 steps (4 KiB), and at each doubling a larger block, to which the pages are moved
 * where the C library has mapped them, else copied. */
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
    if (event->kind != DL_RECORD_STEP) return;
    const long long done = atomic_load_explicit(&worker->count, memory_order_relaxed);
    DL_ASSERT(done < recorder->steps, "worker %u, step %lld of %lld", event->worker, done,
              (long long)recorder->steps);
    if (done == worker->capacity) dl_recorder_reserve(worker, 2 * worker->capacity);
    worker->steps[done] = (dl_recorder_step){.end_ns = event->start_ns + event->duration_ns,
                                             .duration_ns = event->duration_ns,
                                             .staleness = event->staleness};
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
    *recorder = (dl_recorder){.writer = writer,
                              .worker_count = config->workers,
                              .steps = config->steps,
                              .worker_batch = config->batch / config->workers};
    intern_names(recorder, names, name_count);
    free(names);
    recorder->workers =
        dl_alloc_aligned((size_t)config->workers * sizeof *recorder->workers, "recorder");
    for (int w = 0; w < config->workers; w++) {
        dl_recorder_worker *worker = &recorder->workers[w];
        worker->ids = recorder->ids;
        dl_recorder_reserve(worker,
                            config->steps < STEPS_AT_FIRST ? config->steps : STEPS_AT_FIRST);
        /* Touched now: a page fault in the run would be time of a step. */
        memset(worker->steps, 0xff, (size_t)worker->capacity * sizeof *worker->steps);
        atomic_init(&worker->count, 0);
        if (writer != NULL) worker->stream = dl_trace_writer_stream(writer);
    }
    return DL_OK;
}

dl_train_observer dl_recorder_observer(dl_recorder *recorder)
{
    return (dl_train_observer){.user = recorder, .record = record};
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

static int64_t steps_done(const dl_recorder_worker *worker)
{
    return atomic_load_explicit(&worker->count, memory_order_acquire);
}

int64_t dl_recorder_steps_done(const dl_recorder *recorder, int worker)
{
    return steps_done(&recorder->workers[worker]);
}

/* The first step behind the warm-up. */
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

/* Space for one number of every step of every worker. */
static double *alloc_values(const dl_recorder *recorder)
{
    size_t count = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        count += (size_t)steps_done(&recorder->workers[w]);
    }
    return dl_calloc(count, sizeof(double), "step statistics");
}

dl_distribution dl_recorder_step_times(const dl_recorder *recorder)
{
    double *values = alloc_values(recorder);
    size_t count = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        const dl_recorder_worker *worker = &recorder->workers[w];
        for (int64_t s = first_step(worker); s < steps_done(worker); s++) {
            values[count++] = (double)worker->steps[s].duration_ns;
        }
    }
    const dl_distribution summary = dl_distribution_of(values, count);
    free(values);
    return summary;
}

/* 0 without steps: where nobody waits, a run may end before a worker without a core got to one. */
static double worker_mean_ns(const dl_recorder_worker *worker)
{
    const int64_t done = steps_done(worker);
    if (done == 0) return 0;
    double sum = 0;
    for (int64_t s = first_step(worker); s < done; s++)
        sum += (double)worker->steps[s].duration_ns;
    return sum / (double)(done - first_step(worker));
}

double dl_recorder_mean_step_ns(const dl_recorder *recorder)
{
    double sum = 0;
    int count = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        const double mean_ns = worker_mean_ns(&recorder->workers[w]);
        sum += mean_ns;
        count += mean_ns > 0;
    }
    return count > 0 ? sum / count : 0;
}

double dl_recorder_throughput_per_s(const dl_recorder *recorder)
{
    double sum = 0;
    for (int w = 0; w < recorder->worker_count; w++) {
        const double mean_ns = worker_mean_ns(&recorder->workers[w]);
        if (mean_ns > 0) sum += recorder->worker_batch / dl_ns_to_s(mean_ns);
    }
    return sum;
}

/* The smallest of ascending sorted[count] that at least `fraction` of them do not exceed. */
static double occurred_quantile(const double *sorted, size_t count, double fraction)
{
    const size_t rank = (size_t)ceil(fraction * (double)count);
    return sorted[rank > 0 ? rank - 1 : 0];
}

dl_distribution dl_recorder_staleness(const dl_recorder *recorder, int worker)
{
    double *values = alloc_values(recorder);
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
    free(values);
    return summary;
}
