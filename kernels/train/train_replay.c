/* Replay of a schedule. A thread takes the next event, waits until the parameters for its gradient
 * exist, computes the gradient, waits until all earlier events are applied, and applies it. The
 * result thus does not depend on the number of threads.
 *
 * A server's parameters are kept in as many versions as the largest staleness requires. In modes
 * whose workers update, each worker has parameters and an optimizer. Until an event is applied, the
 * parameters for its gradient do not change, so gradients can be computed concurrently.
 *
 * With sites, the gradients of a local step are stored until all workers of the site have theirs;
 * the mean then updates each of them. Averages are taken over the first workers of the sites.
 *
 * With a lag, a worker's fragment is stored when it is sent, and averages are of the stored
 * fragments. With a syncer the last two versions are kept, since workers take one while the next is
 * merged. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/exchange.h"
#include "kernels/optimizer.h"
#include "kernels/pinned_threads.h"
#include "kernels/train/schedule.h"
#include "kernels/train/train.h"
#include "kernels/train/train_internal.h"

/* One thread's model and reader. */
typedef struct replay_thread {
    dl_model *model;
    dl_train_reader reader;
} replay_thread;

typedef struct replay {
    const dl_train_config *config;
    const dl_schedule *schedule;
    const dl_data_set *data;
    int share;    /* a worker's samples per step */
    size_t count; /* number of parameters */
    size_t bytes; /* bytes of one version */
    replay_thread *threads;
    int thread_count;

    /* A server's parameters after update v are versions[v mod version_count], its optimizer
     * optimizers[0]. In modes whose workers update, versions[w] and optimizers[w] belong to worker
     * w. Only the thread that applies the next event changes them. */
    void **versions;
    size_t version_count;
    dl_optimizer **optimizers;
    size_t optimizer_count;
    void *outer, *velocity;  /* the outer optimizer's parameters and state; NULL: none */
    void *start;             /* common start of all workers, = outer if there is one; NULL: not
                              * needed */
    dl_quantise_plan *plans; /* [fragments] plans for the messages of averages; NULL:
                              * uncompressed */
    void *message, *average; /* message of a fragment; average of the values sent */
    void **residuals;        /* [workers] errors of earlier messages, for 1bit and topk
                              * (quantise.h); otherwise NULL */
    void *sum;               /* sum of an update's gradients, or of a merge's uploads; mean of a
                              * site's gradients */
    void *merged[2];         /* version v of a syncer is merged[v mod 2]; NULL: there is none */
    void **starts;           /* [workers] parameters from which each worker's change is counted;
                              * NULL without merges */
    void **uploads;          /* [workers] last uploads or sends */
    void **gradients_of;     /* [workers] gradients of the site's step; NULL without sites */
    int *given;              /* [sites] number of stored gradients */
    dl_train_points points;
    int64_t updates, gradients;
    double first_loss, last_loss;

    pthread_mutex_t mutex; /* guards all members below */
    pthread_cond_t changed;
    size_t next, done; /* events taken, and completed */
} replay;

static bool is_local(const replay *r)
{
    return r->schedule->events[0].kind != DL_SCHEDULE_GRADIENT;
}

static void update(replay *r, dl_optimizer *optimizer, void *parameters, const void *gradients,
                   int64_t applied)
{
    dl_train_begin_update(optimizer, r->config, r->data->count, applied * r->share);
    dl_optimizer_apply(optimizer, parameters, gradients, 0, r->count);
}

/* Whether `other`, a neighbour of `event`, is a gradient of the same update. */
static bool shares_update(const replay *r, size_t event, size_t other)
{
    const dl_schedule_event *events = r->schedule->events;
    return other < r->schedule->count && events[event].update == events[other].update;
}

static void note_point(replay *r, const dl_schedule_event *event, const void *parameters)
{
    const int64_t steps = r->gradients / r->schedule->workers;
    if (!dl_train_points_due(&r->points, steps, r->config->evaluate_every)) return;
    dl_train_points_add(&r->points,
                        &(dl_train_point){.update = r->updates,
                                          .samples = r->gradients * r->share,
                                          .simulated_s = event->time_s,
                                          .parameters = dl_train_as_double(parameters, r->count,
                                                                           r->config->precision)});
}

/* to += factor x from. */
static void add(const replay *r, void *to, const void *from, double factor)
{
    dl_exchange_add(to, from, factor, r->count, r->config->precision);
}

static void apply_gradient(replay *r, size_t row, void *gradient)
{
    const dl_schedule_event *event = &r->schedule->events[row];
    const bool first = row == 0 || !shares_update(r, row, row - 1);
    const bool last = !shares_update(r, row, row + 1);
    const int64_t staleness = event->update - 1 - event->read;
    const double factor = r->config->staleness_rate ? dl_train_staleness_rate(staleness) : 1;
    size_t together = 1;
    dl_train_scale(gradient, r->count, r->config->precision, factor);
    if (!first) {
        add(r, r->sum, gradient, 1);
    } else if (!last) {
        memcpy(r->sum, gradient, r->bytes);
    }
    r->gradients++;
    if (!last) return;
    while (together <= row && shares_update(r, row, row - together))
        together++;
    if (!first) dl_train_scale(r->sum, r->count, r->config->precision, 1.0 / (double)together);
    void *before = r->versions[(size_t)r->updates % r->version_count];
    r->updates = event->update;
    void *now = r->versions[(size_t)r->updates % r->version_count];
    if (now != before) memcpy(now, before, r->bytes);
    update(r, r->optimizers[0], now, first ? gradient : r->sum, r->gradients - (int64_t)together);
    note_point(r, event, now);
}

/* Number of workers of a site, which have equal parameters; the first one represents them in
 * averages. 1 without sites. */
static int site_size(const replay *r)
{
    return r->schedule->sites > 0 ? r->schedule->workers / r->schedule->sites : 1;
}

/* Sets `result` to the mean of the vectors of each site's first worker or, without sites, of all
 * workers. */
static void average_of(const replay *r, void *result, void *const *vectors, size_t first,
                       size_t count)
{
    const int size = site_size(r), senders = r->schedule->workers / size;
    const void *from[DL_SCHEDULE_WORKERS_MAX];
    for (int s = 0; s < senders; s++)
        from[s] = vectors[s * size];
    dl_exchange_average(result, from, senders, first, count, r->config->precision);
}

/* Replaces all workers' vectors by their mean. */
static void average_all(const replay *r, void *const *vectors, size_t first, size_t count)
{
    const int workers = r->schedule->workers;
    const dl_precision precision = r->config->precision;
    const size_t offset = first * dl_precision_bytes(precision);
    average_of(r, vectors[0], vectors, first, count);
    for (int w = 1; w < workers; w++) {
        memcpy((char *)vectors[w] + offset, (char *)vectors[0] + offset,
               count * dl_precision_bytes(precision));
    }
}

static void *from(const replay *r, const void *vector, size_t first)
{
    return (char *)vector + first * dl_precision_bytes(r->config->precision);
}

static dl_fragment fragment_of(const replay *r, const dl_schedule_event *event)
{
    return dl_fragment_of(r->count, r->schedule->fragments, event->fragment);
}

/* Stores the worker's parameters of the fragment or, with compressed messages, its change as the
 * receiver decodes it. */
static void put_aside(const replay *r, int worker, const dl_fragment *fragment)
{
    const dl_precision precision = r->config->precision;
    const size_t first = fragment->first;
    if (worker % site_size(r) != 0) return;
    void *to = from(r, r->uploads[worker], first);
    const void *parameters = from(r, r->versions[worker], first);
    if (r->plans == NULL) {
        memcpy(to, parameters, fragment->count * dl_precision_bytes(precision));
        return;
    }
    const dl_quantise_plan *plan = &r->plans[fragment->index];
    void *residual = r->residuals != NULL ? from(r, r->residuals[worker], first) : NULL;
    dl_train_encode_change(plan, to, parameters, from(r, r->start, first), residual, r->message,
                           precision);
    dl_quantise_decode(plan, r->message, to, precision);
}

/* Averages the stored fragments. */
static void average_aside(const replay *r, const dl_fragment *fragment)
{
    average_of(r, r->average, r->uploads, fragment->first, fragment->count);
    if (r->start == NULL) return;
    dl_train_end_average(r->config, r->average, r->start, r->velocity, fragment->first,
                         fragment->count);
}

/* Merges the average of the fragment into the worker's parameters, of which own_frac is kept. */
static void receive(const replay *r, int worker, const dl_fragment *fragment, double own_frac)
{
    const void *average = r->start != NULL ? r->start : r->average;
    dl_exchange_mix(from(r, r->versions[worker], fragment->first),
                    from(r, average, fragment->first), own_frac, fragment->count,
                    r->config->precision);
}

/* Averages the part of each vector of the optimizers' states that belongs to the fragment. */
static void average_states(const replay *r, const dl_fragment *fragment)
{
    size_t count = 0;
    DL_AUTOFREE void **states = dl_calloc(r->optimizer_count, sizeof *states, "optimizer states");
    for (size_t w = 0; w < r->optimizer_count; w++)
        states[w] = dl_optimizer_state(r->optimizers[w], &count);
    for (size_t first = 0; first < count; first += r->count)
        average_all(r, states, first + fragment->first, fragment->count);
}

static void apply_average(replay *r, const dl_schedule_event *event)
{
    const dl_fragment fragment = fragment_of(r, event);
    const bool sent = r->schedule->has_sends;
    if (r->schedule->workers > 1) r->updates = event->update;
    for (int w = 0; !sent && w < r->schedule->workers; w++)
        put_aside(r, w, &fragment);
    average_aside(r, &fragment);
    for (int w = 0; !sent && w < r->schedule->workers; w++)
        receive(r, w, &fragment, 0);
    if (r->config->average_state) average_states(r, &fragment);
    note_point(r, event, r->versions[0]);
}

static void apply_upload(replay *r, int worker)
{
    memcpy(r->uploads[worker], r->versions[worker], r->bytes);
    add(r, r->uploads[worker], r->starts[worker], -1);
    memcpy(r->starts[worker], r->versions[worker], r->bytes);
}

/* Replaces the worker's parameters by a merged version, plus the worker's own change if it
 * rebases. */
static void apply_adoption(replay *r, const dl_schedule_event *event)
{
    const void *version = r->merged[event->read % 2];
    void *parameters = r->versions[event->worker], *start = r->starts[event->worker];
    if (event->kind == DL_SCHEDULE_REBASE) {
        add(r, parameters, start, -1);
        add(r, parameters, version, 1);
    } else {
        memcpy(parameters, version, r->bytes);
    }
    memcpy(start, version, r->bytes);
}

static bool is_merge_of(const replay *r, size_t other, int64_t update)
{
    const dl_schedule_event *events = r->schedule->events;
    return other < r->schedule->count && events[other].kind == DL_SCHEDULE_MERGE &&
           events[other].update == update;
}

/* Adds an upload to a merge; the last upload completes the version. */
static void apply_merge(replay *r, size_t row)
{
    const dl_schedule_event *event = &r->schedule->events[row];
    size_t uploads = 1;
    while (uploads <= row && is_merge_of(r, row - uploads, event->update))
        uploads++;
    if (uploads == 1) memset(r->sum, 0, r->bytes);
    add(r, r->sum, r->uploads[event->worker], event->weight);
    if (is_merge_of(r, row + 1, event->update)) return;
    void *version = r->merged[event->update % 2], *before = r->merged[(event->update + 1) % 2];
    dl_train_end_merge(r->config, r->sum, (int)uploads, before, r->outer, r->velocity, r->count);
    memcpy(version, r->sum, r->bytes);
    r->updates = event->update;
    note_point(r, event, version);
}

static void apply_late(replay *r, const dl_schedule_event *event)
{
    const dl_fragment fragment = fragment_of(r, event);
    if (event->kind == DL_SCHEDULE_SEND) {
        put_aside(r, event->worker, &fragment);
    } else {
        receive(r, event->worker, &fragment, r->config->mixing);
    }
}

/* Stores a gradient of a site's step; the last one updates all workers of the site. */
static void apply_site(replay *r, int worker, const void *gradient)
{
    const int size = site_size(r), site = worker / size, first = site * size;
    memcpy(r->gradients_of[worker], gradient, r->bytes);
    if (++r->given[site] < size) return;
    r->given[site] = 0;
    dl_exchange_average(r->sum, (const void *const *)&r->gradients_of[first], size, 0, r->count,
                        r->config->precision);
    for (int w = first; w < first + size; w++)
        update(r, r->optimizers[w], r->versions[w], r->sum, r->gradients + 1 - size);
}

/* Applies event `row`, overwriting its gradient in the model. */
static void apply(replay *r, size_t row, dl_model *model)
{
    const dl_schedule_event *event = &r->schedule->events[row];
    switch (event->kind) {
    case DL_SCHEDULE_AVERAGE: apply_average(r, event); return;
    case DL_SCHEDULE_UPLOAD: apply_upload(r, event->worker); return;
    case DL_SCHEDULE_MERGE: apply_merge(r, row); return;
    case DL_SCHEDULE_REPLACE:
    case DL_SCHEDULE_REBASE: apply_adoption(r, event); return;
    case DL_SCHEDULE_SEND:
    case DL_SCHEDULE_RECEIVE: apply_late(r, event); return;
    case DL_SCHEDULE_GRADIENT:
    case DL_SCHEDULE_LOCAL: break;
    }
    const double loss = dl_model_loss(model);
    void *gradient = dl_model_gradients(model);
    if (r->gradients == 0) r->first_loss = loss;
    r->last_loss = loss;
    dl_train_points_loss(&r->points, loss);
    if (event->kind == DL_SCHEDULE_GRADIENT) {
        apply_gradient(r, row, gradient);
        return;
    }
    if (r->gradients_of != NULL) {
        apply_site(r, event->worker, gradient);
    } else {
        update(r, r->optimizers[event->worker], r->versions[event->worker], gradient, r->gradients);
    }
    r->gradients++;
    if (r->schedule->workers > 1 || r->schedule->has_merges) return;
    /* There is no other worker to average with: each step is an update. */
    r->updates = r->gradients;
    note_point(r, event, r->versions[0]);
}

/* Computes an event's gradient with the parameters that it needs, which must exist. */
static void compute(replay *r, replay_thread *thread, const dl_schedule_event *event)
{
    const bool local = event->kind == DL_SCHEDULE_LOCAL;
    const size_t version = local ? (size_t)event->worker : (size_t)event->read % r->version_count;
    memcpy(dl_model_parameters(thread->model), r->versions[version], r->bytes);
    dl_train_reader_fill(&thread->reader, thread->model, event->batch * r->share, r->share);
    dl_model_pass(thread->model, r->share);
}

/* Takes the next event, once its prerequisites are done. Events are taken in order, so a waiting
 * thread waits for events taken before. */
static bool take(replay *r, size_t *row)
{
    pthread_mutex_lock(&r->mutex);
    const bool goes_on = r->next < r->schedule->count && !dl_train_stopped(r->config);
    if (goes_on) {
        *row = r->next++;
        while (r->done < r->schedule->events[*row].after)
            pthread_cond_wait(&r->changed, &r->mutex);
    }
    pthread_mutex_unlock(&r->mutex);
    return goes_on;
}

static bool has_gradient(const dl_schedule_event *event)
{
    return event->kind == DL_SCHEDULE_GRADIENT || event->kind == DL_SCHEDULE_LOCAL;
}

static void run_thread(void *user, int index)
{
    replay *r = user;
    replay_thread *thread = &r->threads[index];
    size_t row = 0;
    while (take(r, &row)) {
        if (has_gradient(&r->schedule->events[row])) {
            compute(r, thread, &r->schedule->events[row]);
        }
        pthread_mutex_lock(&r->mutex);
        while (r->done < row)
            pthread_cond_wait(&r->changed, &r->mutex);
        pthread_mutex_unlock(&r->mutex);
        apply(r, row, thread->model);
        pthread_mutex_lock(&r->mutex);
        r->done = row + 1;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->mutex);
    }
}

/* Makes `count` vectors that start as the model's initial parameters. */
static void make_vectors(const replay *r, void **vectors, size_t count, dl_model *model)
{
    for (size_t v = 0; v < count; v++) {
        vectors[v] = dl_alloc_staggered(r->bytes, "version of the parameters");
        memcpy(vectors[v], dl_model_parameters(model), r->bytes);
    }
}

static void make_merged(replay *r, dl_model *model)
{
    const size_t workers = (size_t)r->schedule->workers;
    if (!is_local(r)) return;
    r->uploads = dl_calloc(workers, sizeof *r->uploads, "uploads");
    make_vectors(r, r->uploads, workers, model);
    if (r->schedule->sites > 0) {
        r->given = dl_calloc((size_t)r->schedule->sites, sizeof *r->given, "sites");
        r->gradients_of = dl_calloc(workers, sizeof *r->gradients_of, "gradients");
        make_vectors(r, r->gradients_of, workers, model);
    }
    if (!r->schedule->has_merges) return;
    r->starts = dl_calloc(workers, sizeof *r->starts, "versions");
    make_vectors(r, r->merged, 2, model);
    make_vectors(r, r->starts, workers, model);
}

/* Allocates memory for averages. */
static void make_averages(replay *r, dl_model *model)
{
    const dl_train_config *config = r->config;
    const size_t workers = (size_t)r->schedule->workers;
    size_t most = 0;
    if (!is_local(r) || r->schedule->has_merges) return;
    make_vectors(r, &r->average, 1, model);
    r->start = r->outer;
    if (config->quantise == DL_QUANTISE_NONE) return;
    if (r->outer == NULL) make_vectors(r, &r->start, 1, model);
    r->plans = dl_fragment_plans(model, config, r->schedule->fragments);
    for (int f = 0; f < r->schedule->fragments; f++)
        most = r->plans[f].message_bytes > most ? r->plans[f].message_bytes : most;
    r->message = dl_alloc_staggered(most, "message");
    if (!dl_quantise_feeds_back(config->quantise)) return;
    r->residuals = dl_calloc(workers, sizeof *r->residuals, "residuals");
    make_vectors(r, r->residuals, workers, model);
    for (size_t w = 0; w < workers; w++)
        memset(r->residuals[w], 0, r->bytes);
}

/* Makes the versions, which start as the model's initial parameters. */
static dl_status make_versions(replay *r, dl_model *model, dl_error *err)
{
    const dl_train_config *config = r->config;
    const size_t workers = (size_t)r->schedule->workers;
    r->count = dl_model_parameter_count(model);
    r->bytes = dl_model_parameter_bytes(model);
    r->version_count = is_local(r) ? workers : (size_t)r->schedule->staleness_max + 1;
    r->versions = dl_calloc(r->version_count, sizeof *r->versions, "versions");
    make_vectors(r, r->versions, r->version_count, model);
    make_merged(r, model);
    r->sum = dl_alloc_staggered(r->bytes, "sum of gradients");
    if (config->outer.kind != DL_OUTER_NONE) {
        r->outer = dl_alloc_staggered(r->bytes, "outer optimizer");
        r->velocity = dl_alloc_staggered(r->bytes, "outer optimizer");
        memcpy(r->outer, dl_model_parameters(model), r->bytes);
        memset(r->velocity, 0, r->bytes);
    }
    make_averages(r, model);
    r->optimizer_count = is_local(r) ? workers : 1;
    r->optimizers = dl_calloc(r->optimizer_count, sizeof(dl_optimizer *), "optimizers");
    dl_status status = DL_OK;
    for (size_t o = 0; status == DL_OK && o < r->optimizer_count; o++) {
        status = dl_optimizer_create(&r->optimizers[o], &config->optimizer, config->precision,
                                     r->count, err);
    }
    return status;
}

static dl_status set_up(replay *r, dl_error *err)
{
    const dl_train_config *config = r->config;
    dl_status status = dl_train_check_data(r->data, config->model, err);
    for (int t = 0; status == DL_OK && t < r->thread_count; t++) {
        replay_thread *thread = &r->threads[t];
        status = dl_model_create(&thread->model, config->model, config->precision, r->share,
                                 config->seed, err);
        if (status == DL_OK) {
            dl_train_reader_init(&thread->reader, r->data, config->seed, r->share);
        }
    }
    if (status == DL_OK) status = make_versions(r, r->threads[0].model, err);
    if (status != DL_OK) return status;
    return dl_backend_cpu(config->precision)->start_threads(r->thread_count, err);
}

/* Threads are not pinned: nothing is timed, and concurrent replays should share all cores. */
static dl_status run_all(replay *r, dl_error *err)
{
    return dl_pinned_threads_run(r->thread_count, NULL, run_thread, r, err);
}

/* Sets *result except its times; the parameters are the server's, the last merged version, or the
 * mean of the workers'. */
static void take_result(replay *r, dl_train_result *result)
{
    const bool merges = r->schedule->has_merges;
    void *last = merges ? r->merged[r->updates % 2]
                        : r->versions[is_local(r) ? 0 : (size_t)r->updates % r->version_count];
    if (is_local(r) && !merges) average_all(r, r->versions, 0, r->count);
    *result = (dl_train_result){
        .first_loss = r->first_loss,
        .last_loss = r->last_loss,
        .parameters = dl_train_as_double(last, r->count, r->config->precision),
        .parameter_count = r->count,
        .updates = r->updates,
        .samples = r->gradients * r->share,
    };
    dl_train_points_take(&r->points, result);
}

static void free_replay(replay *r)
{
    for (int t = 0; t < r->thread_count; t++) {
        dl_model_destroy(r->threads[t].model);
        dl_train_reader_free(&r->threads[t].reader);
    }
    free(r->threads);
    for (size_t v = 0; v < r->version_count; v++)
        dl_free_staggered(r->versions[v]);
    for (int w = 0; r->uploads != NULL && w < r->schedule->workers; w++) {
        if (r->starts != NULL) dl_free_staggered(r->starts[w]);
        if (r->gradients_of != NULL) dl_free_staggered(r->gradients_of[w]);
        if (r->residuals != NULL) dl_free_staggered(r->residuals[w]);
        dl_free_staggered(r->uploads[w]);
    }
    free(r->gradients_of);
    free(r->given);
    free(r->residuals);
    if (r->start != r->outer) dl_free_staggered(r->start);
    dl_free_staggered(r->message);
    dl_free_staggered(r->average);
    dl_fragment_plans_free(r->plans, r->schedule->fragments);
    dl_free_staggered(r->merged[0]);
    dl_free_staggered(r->merged[1]);
    free(r->starts);
    free(r->uploads);
    for (size_t o = 0; o < r->optimizer_count; o++)
        dl_optimizer_destroy(r->optimizers[o]);
    free(r->versions);
    free(r->optimizers);
    dl_free_staggered(r->sum);
    dl_free_staggered(r->outer);
    dl_free_staggered(r->velocity);
    dl_train_points_free(&r->points);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}

/* Checks the settings as training does, with the worker count left to the schedule. */
dl_status dl_train_check_replay(const dl_train_config *config, dl_error *err)
{
    if (config->device != NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "a schedule is replayed on the processor only");
    }
    if (config->threads > 1) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "the workers of a schedule have one thread each; --threads must be 1");
    }
    dl_train_config checked = *config;
    checked.workers = checked.batch = 1;
    checked.slow = NULL;
    const bool outer = config->outer.kind != DL_OUTER_NONE;
    const bool quantised = config->quantise != DL_QUANTISE_NONE;
    checked.sync = outer || quantised       ? DL_SYNC_AVERAGE
                   : config->staleness_rate ? DL_SYNC_ASYNC
                                            : DL_SYNC_NONE;
    checked.interval = checked.fragments = 1;
    checked.lag = checked.sites = 0;
    checked.interval_by_speed = false;
    checked.steps = 1;
    return dl_train_check_config(&checked, err);
}

/* Checks that the options suit the schedule: an outer optimizer needs averages or merges, bmuf
 * needs an outer optimizer, compressed messages need averages, and the optimizers' states cannot be
 * averaged with a lag or with merges. */
static dl_status check_outer(const dl_train_config *config, const dl_schedule *schedule,
                             dl_error *err)
{
    const bool outer = config->outer.kind != DL_OUTER_NONE;
    if (outer && schedule->events[0].kind == DL_SCHEDULE_GRADIENT) {
        return dl_error_set_at(err, DL_ERR_DATA, schedule->path, 0,
                               "has gradients that a server applies: an outer optimizer needs "
                               "averages of parameters");
    }
    const bool averages = !schedule->has_merges && schedule->events[0].kind != DL_SCHEDULE_GRADIENT;
    if (config->quantise != DL_QUANTISE_NONE && !averages) {
        return dl_error_set_at(err, DL_ERR_DATA, schedule->path, 0,
                               "has no averages of parameters, the only messages of a schedule "
                               "that can be sent as %s",
                               dl_quantise_names[config->quantise]);
    }
    if (config->average_state && schedule->has_sends) {
        return dl_error_set_at(err, DL_ERR_DATA, schedule->path, 0,
                               "has averages with a lag, in which the optimizers' states cannot "
                               "be averaged");
    }
    if (config->average_state && schedule->has_merges) {
        return dl_error_set_at(err, DL_ERR_DATA, schedule->path, 0,
                               "has merges of parameters, in which the optimizers' states cannot "
                               "be averaged");
    }
    if (outer || strcmp(schedule->mode, "bmuf") != 0) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, schedule->path, 0,
                           "is of mode bmuf, which needs an outer optimizer: --outer sgd or "
                           "nesterov");
}

dl_status dl_train_replay(const dl_train_config *config, const dl_schedule *schedule,
                          const dl_data_set *data, dl_train_result *result, dl_error *err)
{
    dl_status status = dl_train_check_replay(config, err);
    if (status == DL_OK) status = check_outer(config, schedule, err);
    if (status != DL_OK) return status;
    replay r = {.config = config,
                .schedule = schedule,
                .data = data,
                .share = schedule->batch / schedule->workers,
                .thread_count = dl_train_cores(config)};
    pthread_mutex_init(&r.mutex, NULL);
    pthread_cond_init(&r.changed, NULL);
    r.threads = dl_calloc((size_t)r.thread_count, sizeof *r.threads, "threads");
    status = set_up(&r, err);
    const int64_t start_ns = dl_clock_ns();
    if (status == DL_OK) status = run_all(&r, err);
    if (status == DL_OK) {
        const double seconds = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
        take_result(&r, result);
        result->seconds = seconds;
        result->samples_per_s = (double)result->samples / seconds;
    }
    free_replay(&r);
    return status;
}
