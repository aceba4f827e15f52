/* Asynchronous local SGD: the workers are the learners, and a separate thread, not pinned to a
 * core, is the syncer. shared->mutex protects all lists, the version and `parameters`; a worker
 * copies a version while holding it, and so never reads a partial one.
 *
 * A worker's change is the difference of its parameters from those at its last upload or from the
 * version that it took since.
 *
 * Each worker has three vectors for uploads: one is waiting, one is being merged, and one is free
 * to be written. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/units.h"
#include "kernels/train/train_internal.h"

enum { BUFFERS = 3, NONE = -1 };

typedef struct learner {
    void *buffers[BUFFERS];
    int lying, merging; /* indices of the waiting and the merging buffer, or NONE */
    void *start;        /* parameters from which the worker's change is counted */
    int64_t cycle_start_ns;
} learner;

struct dl_train_syncer {
    dl_merger merger;
    double *weights;        /* [workers] weights of the uploads of the current merge */
    dl_merge_event *events; /* [event_count] in order of occurrence */
    size_t event_count;
    dl_merge_counts counts;
    learner *learners; /* [workers] */
    void *outer;       /* the outer optimizer's parameters; NULL: none */
    pthread_t thread;
    bool started;
};

void dl_train_syncer_make(dl_train_shared *shared, dl_model *model)
{
    const dl_train_config *config = shared->config;
    const dl_backend *backend = shared->backend;
    if (!shared->mode->syncer) return;
    dl_train_syncer *s = dl_calloc(1, sizeof *s, "syncer");
    dl_merger_init(&s->merger, &config->merge, config->bound, config->workers);
    s->weights = dl_calloc((size_t)config->workers, sizeof *s->weights, "merge");
    s->learners = dl_calloc((size_t)config->workers, sizeof *s->learners, "learners");
    for (int w = 0; w < config->workers; w++) {
        learner *l = &s->learners[w];
        for (int b = 0; b < BUFFERS; b++)
            l->buffers[b] = backend->allocate_host(shared->bytes, "upload");
        l->lying = l->merging = NONE;
        l->start = backend->allocate_host(shared->bytes, "start of an interval");
        memcpy(l->start, dl_model_parameters(model), shared->bytes);
    }
    if (config->outer.kind != DL_OUTER_NONE) {
        s->outer = backend->allocate_host(shared->bytes, "outer parameters");
        memcpy(s->outer, dl_model_parameters(model), shared->bytes);
    }
    shared->syncer = s;
}

void dl_train_syncer_free(dl_train_shared *shared)
{
    DL_AUTOFREE dl_train_syncer *s = shared->syncer;
    const dl_backend *backend = shared->backend;
    if (s == NULL) return;
    for (int w = 0; w < shared->config->workers; w++) {
        for (int b = 0; b < BUFFERS; b++)
            backend->release_host(s->learners[w].buffers[b]);
        backend->release_host(s->learners[w].start);
    }
    backend->release_host(s->outer);
    dl_merger_free(&s->merger);
    free(s->weights);
    free(s->events);
    free(s->learners);
    shared->syncer = NULL;
}

int64_t dl_train_syncer_version(const dl_train_shared *shared)
{
    return shared->syncer->merger.version;
}

void dl_train_syncer_take(dl_train_shared *shared, dl_train_result *result)
{
    dl_train_syncer *s = shared->syncer;
    result->uploads = s->counts;
    result->merge_events = s->events;
    result->merge_event_count = s->event_count;
    s->events = NULL;
    s->event_count = 0;
}

static bool has_ended(const dl_train_shared *shared)
{
    return atomic_load_explicit(&shared->ended, memory_order_relaxed);
}

/* Waits for a change, or until until_ns (INT64_MAX: no limit). The caller holds the mutex. */
static void wait_until(dl_train_shared *shared, int64_t until_ns)
{
    if (until_ns == INT64_MAX) {
        pthread_cond_wait(&shared->changed, &shared->mutex);
        return;
    }
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};
    (void)pthread_cond_timedwait(&shared->changed, &shared->mutex, &until);
}

/* --- the syncer ----------------------------------------------------------------------------- */

static void note(dl_train_syncer *s, dl_merge_event event)
{
    DL_APPEND(s->events, s->event_count, "events of uploads") = event;
}

/* Counts the worker's upload as lost. */
static void lose(dl_train_syncer *s, int worker, dl_merge_kind kind, int64_t *count)
{
    (*count)++;
    note(s,
         (dl_merge_event){.kind = kind, .worker = worker, .step = s->merger.uploads[worker].step});
}

/* Merges the `count` chosen uploads into the next version in `result`. Needs no mutex: no other
 * thread writes the inputs. */
static void merge(const dl_train_shared *shared, int count)
{
    const dl_train_syncer *s = shared->syncer;
    const dl_train_config *config = shared->config;
    const dl_merger *m = &s->merger;
    void *sum = shared->result;
    memset(sum, 0, shared->bytes);
    for (int i = 0; i < count; i++) {
        const learner *l = &s->learners[m->chosen[i]];
        dl_exchange_add(sum, l->buffers[l->merging], s->weights[i], shared->count,
                        config->precision);
    }
    dl_train_end_merge(config, sum, count, shared->parameters, s->outer, shared->velocity,
                       shared->count);
}

DL_ORDER(by_number, int, DL_COMPARE(*a, *b));

/* Reserves the merge's uploads, so that learners do not write into them, in the order of the
 * workers, so that the sum does not depend on the order of arrival. The caller holds the mutex. */
static void begin_merge(dl_train_syncer *s, int count)
{
    const dl_merger *m = &s->merger;
    qsort(m->chosen, (size_t)count, sizeof *m->chosen, by_number);
    s->counts.merges++;
    for (int i = 0; i < count; i++) {
        const dl_upload *u = &m->uploads[m->chosen[i]];
        learner *l = &s->learners[m->chosen[i]];
        const int64_t staleness = m->version - u->base;
        l->merging = l->lying;
        l->lying = NONE;
        s->weights[i] = dl_merge_weight(&m->config, staleness);
        s->counts.applied++;
        s->counts.weight += s->weights[i];
        note(s, (dl_merge_event){.kind = DL_MERGE_MERGE,
                                 .worker = m->chosen[i],
                                 .step = u->step,
                                 .version = m->version + 1,
                                 .base = u->base,
                                 .staleness = staleness,
                                 .weight = s->weights[i]});
    }
}

static void publish(dl_train_shared *shared, int count)
{
    dl_train_syncer *s = shared->syncer;
    void *version = shared->result;
    shared->result = shared->parameters;
    shared->parameters = version;
    for (int i = 0; i < count; i++)
        s->learners[s->merger.chosen[i]].merging = NONE;
    const int dropped = dl_merger_publish(&s->merger);
    for (int i = 0; i < dropped; i++) {
        s->learners[s->merger.chosen[i]].lying = NONE;
        lose(s, s->merger.chosen[i], DL_MERGE_TOO_STALE, &s->counts.too_stale);
    }
    pthread_cond_broadcast(&shared->changed);
}

/* Waits until the syncer's next look is due or, if it looks at each upload, until the next
 * upload. */
static void rest(dl_train_shared *shared, int64_t next_ns)
{
    const dl_train_syncer *s = shared->syncer;
    const int64_t uploaded = s->counts.uploaded;
    const bool scans = s->merger.config.scan_s > 0;
    while (!has_ended(shared) && (scans || s->counts.uploaded == uploaded) &&
           (next_ns == INT64_MAX || dl_clock_ns() < next_ns)) {
        wait_until(shared, next_ns);
    }
}

static void *run_syncer(void *user)
{
    dl_train_shared *shared = user;
    dl_train_syncer *s = shared->syncer;
    pthread_mutex_lock(&shared->mutex);
    while (!has_ended(shared)) {
        int64_t next_ns;
        const int count = dl_merger_look(&s->merger, dl_clock_ns(), &next_ns);
        if (count == 0) {
            rest(shared, next_ns);
            continue;
        }
        begin_merge(s, count);
        pthread_mutex_unlock(&shared->mutex);
        merge(shared, count);
        pthread_mutex_lock(&shared->mutex);
        publish(shared, count);
    }
    pthread_mutex_unlock(&shared->mutex);
    return NULL;
}

dl_status dl_train_syncer_start(dl_train_shared *shared, dl_error *err)
{
    dl_train_syncer *s = shared->syncer;
    if (s == NULL) return DL_OK;
    const int error = pthread_create(&s->thread, NULL, run_syncer, shared);
    s->started = error == 0;
    if (s->started) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "cannot start the syncer's thread: %s",
                        strerror(error));
}

void dl_train_syncer_join(dl_train_shared *shared)
{
    dl_train_syncer *s = shared->syncer;
    if (s == NULL || !s->started) return;
    dl_train_free_running_end(shared);
    pthread_join(s->thread, NULL);
    s->started = false;
    for (int w = 0; w < shared->config->workers; w++)
        if (s->merger.uploads[w].lies) lose(s, w, DL_MERGE_UNMERGED, &s->counts.unmerged);
}

/* --- learners ------------------------------------------------------------------------------- */

/* Locks the mutex, recording the time as a wait for a lock. */
static void acquire(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    pthread_mutex_lock(&shared->mutex);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_LOCK)});
}

/* Index of a buffer that is neither waiting nor being merged; it remains free until its worker
 * submits it. */
static int free_buffer(dl_train_worker *worker, const learner *l)
{
    int found = 0;
    pthread_mutex_lock(&worker->shared->mutex);
    while (found == l->lying || found == l->merging)
        found++;
    pthread_mutex_unlock(&worker->shared->mutex);
    return found;
}

/* Writes the worker's change to the buffer. */
static void push(dl_train_worker *worker, const learner *l, int buffer)
{
    const dl_train_shared *shared = worker->shared;
    void *upload = l->buffers[buffer];
    dl_train_push(worker, upload, dl_model_parameters(worker->model), shared->bytes,
                  DL_TRAIN_NAME_PARAMETERS);
    dl_exchange_add(upload, l->start, -1, shared->count, shared->config->precision);
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_PARAMETERS, 2, 1, shared->bytes);
}

static bool is_outdated(const dl_train_worker *worker)
{
    return worker->shared->syncer->merger.version > worker->read_version;
}

/* Waits for a newer version; the mutex, which must be held, is released meanwhile. */
static void wait_for_version(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const double wait_s = shared->config->merge.wait_s;
    if (!(wait_s > 0)) return;
    const int64_t until_ns = dl_clock_ns() + (int64_t)dl_s_to_ns(wait_s);
    while (!is_outdated(worker) && !has_ended(shared) && dl_clock_ns() < until_ns)
        wait_until(shared, until_ns);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_BARRIER)});
}

/* Gives the worker's upload to the syncer. The caller holds the mutex. */
static void submit(const dl_train_worker *worker, int64_t cycle_ns)
{
    dl_train_syncer *s = worker->shared->syncer;
    if (s->merger.uploads[worker->index].lies)
        lose(s, worker->index, DL_MERGE_SUPERSEDED, &s->counts.superseded);
    dl_merger_submit(&s->merger, worker->index, worker->step, worker->read_version, cycle_ns);
    s->counts.uploaded++;
    note(s, (dl_merge_event){.kind = DL_MERGE_UPLOAD,
                             .worker = worker->index,
                             .step = worker->step,
                             .base = worker->read_version});
}

void dl_train_exchange_syncer(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_train_syncer *s = shared->syncer;
    learner *l = &s->learners[worker->index];
    dl_train_update_replica(worker);
    if (worker->step + 1 == worker->interval) l->cycle_start_ns = worker->start_ns;
    if ((worker->step + 1) % worker->interval != 0) return;
    const int buffer = free_buffer(worker, l);
    const int64_t pushed_ns = dl_clock_ns();
    push(worker, l, buffer);
    acquire(worker);
    submit(worker, pushed_ns - l->cycle_start_ns);
    l->lying = buffer;
    if (s->merger.config.scan_s == 0) pthread_cond_broadcast(&shared->changed);
    if (!is_outdated(worker)) wait_for_version(worker);
    if (is_outdated(worker)) {
        worker->read_version = s->merger.version;
        note(s, (dl_merge_event){.kind = DL_MERGE_ADOPT,
                                 .worker = worker->index,
                                 .step = worker->step,
                                 .version = worker->read_version});
        dl_train_pull_parameters(worker);
    }
    pthread_mutex_unlock(&shared->mutex);
    dl_train_pull(worker, l->start, dl_model_parameters(worker->model), shared->bytes,
                  DL_TRAIN_NAME_PARAMETERS);
    l->cycle_start_ns = dl_clock_ns();
}
