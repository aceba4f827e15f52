#include "kernels/train_replay.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/units.h"
#include "kernels/exchange.h"
#include "kernels/train_points.h"
#include "kernels/train_worker.h"

typedef struct replay replay;

/* One core's thread. */
typedef struct replay_thread {
    replay *all;
    int index;
    pthread_t thread;
    dl_model *model;
    uint32_t *samples; /* [share] */
    dl_status status;
    dl_error err;
} replay_thread;

struct replay {
    const dl_train_config *config;
    const dl_schedule *schedule;
    const dl_data_set *data;
    int share; /* samples of a mini-batch */
    size_t count, bytes;

    /* What events have made, written by the one whose turn it is. A server's parameters behind
     * update v are versions[v mod version_count], its optimizer optimizers[0]. Where the workers
     * update, versions[w] and optimizers[w] are those of worker w. */
    void **versions;
    size_t version_count;
    dl_optimizer **optimizers;
    size_t optimizer_count;
    void *sum; /* of gradients of an update that has several */
    dl_train_points points;
    int64_t updates, gradients;
    double first_loss, last_loss;

    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    size_t next, done; /* events taken, and done */
    uint32_t **orders; /* [epochs] permutations, as they are needed */
    size_t epochs;
    bool failed;
};

static bool is_local(const replay *r)
{
    return r->schedule->events[0].kind != DL_SCHEDULE_GRADIENT;
}

/* y += a x, and x = a x. */
static void add_scaled(const replay *r, void *y, const void *x, double a)
{
    if (r->config->precision == DL_FLOAT) {
        cblas_saxpy((blasint)r->count, (float)a, x, 1, y, 1);
    } else {
        cblas_daxpy((blasint)r->count, a, x, 1, y, 1);
    }
}

static void scale(const replay *r, void *x, double a)
{
    if (a == 1) return;
    if (r->config->precision == DL_FLOAT) {
        cblas_sscal((blasint)r->count, (float)a, x, 1);
    } else {
        cblas_dscal((blasint)r->count, a, x, 1);
    }
}

/* The permutation of an epoch; the mutex is held by nobody. */
static const uint32_t *order_of(replay *r, size_t epoch)
{
    const uint32_t count = (uint32_t)r->data->count;
    pthread_mutex_lock(&r->mutex);
    if (r->orders[epoch] == NULL) {
        r->orders[epoch] = dl_calloc(count, sizeof **r->orders, "order of samples");
        dl_train_shuffle(r->config->seed, (int64_t)epoch, r->orders[epoch], count);
    }
    const uint32_t *order = r->orders[epoch];
    pthread_mutex_unlock(&r->mutex);
    return order;
}

/* Fills the model's input with a mini-batch: positions batch x share ... of the endless sequence of
 * shuffled epochs. */
static void input(replay_thread *thread, int64_t batch)
{
    replay *r = thread->all;
    const size_t count = r->data->count, first = (size_t)batch * (size_t)r->share;
    const uint32_t *order = order_of(r, first / count);
    size_t epoch = first / count;
    for (int i = 0; i < r->share; i++) {
        const size_t at = first + (size_t)i;
        if (at / count != epoch) {
            epoch = at / count;
            order = order_of(r, epoch);
        }
        thread->samples[i] = order[at % count];
    }
    dl_data_set_batch(r->data, thread->samples, r->share, r->config->precision,
                      dl_model_input(thread->model), dl_model_labels(thread->model));
}

/* The gradient of an event, with the parameters that it asks for, which are there. */
static void compute(replay_thread *thread, const dl_schedule_event *event)
{
    const replay *r = thread->all;
    const size_t version = event->kind == DL_SCHEDULE_LOCAL
                               ? (size_t)event->worker
                               : (size_t)event->read % r->version_count;
    const int operations = dl_model_operation_count(thread->model);
    memcpy(dl_model_parameters(thread->model), r->versions[version], r->bytes);
    input(thread, event->batch);
    for (int op = 0; op < operations; op++)
        dl_model_forward(thread->model, op, r->share);
    for (int op = operations - 1; op >= 0; op--)
        dl_model_backward(thread->model, op, r->share);
}

static void update(replay *r, dl_optimizer *optimizer, void *parameters, const void *gradients,
                   int64_t applied)
{
    dl_optimizer_scale_rate(optimizer,
                            dl_train_rate_factor(r->config, r->data->count, applied * r->share));
    dl_optimizer_begin(optimizer);
    dl_optimizer_apply(optimizer, parameters, gradients, 0, r->count);
}

/* Whether another gradient of the same update comes before the event, or behind it. */
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

static void apply_gradient(replay *r, size_t row, void *gradient)
{
    const dl_schedule_event *event = &r->schedule->events[row];
    const bool first = row == 0 || !shares_update(r, row, row - 1);
    const bool last = !shares_update(r, row, row + 1);
    const int64_t staleness = event->update - 1 - event->read;
    const double factor = r->config->staleness_rate ? dl_train_staleness_rate(staleness) : 1;
    size_t together = 1;
    if (first && last) {
        scale(r, gradient, factor);
    } else if (first) {
        memcpy(r->sum, gradient, r->bytes);
        scale(r, r->sum, factor);
    } else {
        add_scaled(r, r->sum, gradient, factor);
    }
    r->gradients++;
    if (!last) return;
    while (together <= row && shares_update(r, row, row - together))
        together++;
    if (!first) scale(r, r->sum, 1.0 / (double)together);
    void *before = r->versions[(size_t)r->updates % r->version_count];
    r->updates = event->update;
    void *now = r->versions[(size_t)r->updates % r->version_count];
    if (now != before) memcpy(now, before, r->bytes);
    update(r, r->optimizers[0], now, first ? gradient : r->sum, r->gradients - (int64_t)together);
    note_point(r, event, now);
}

/* Puts the mean of all workers' vectors in their places. */
static void average_all(const replay *r, void *const *vectors, size_t count)
{
    const int workers = r->schedule->workers;
    const dl_precision precision = r->config->precision;
    dl_exchange_average(vectors[0], (const void *const *)vectors, workers, 0, count, precision);
    for (int w = 1; w < workers; w++)
        memcpy(vectors[w], vectors[0], count * dl_precision_bytes(precision));
}

static void apply_average(replay *r, const dl_schedule_event *event)
{
    if (r->schedule->workers > 1) r->updates = event->update;
    average_all(r, r->versions, r->count);
    if (r->config->average_state) {
        size_t count = 0;
        void **states = dl_calloc(r->optimizer_count, sizeof *states, "optimizer states");
        for (size_t w = 0; w < r->optimizer_count; w++)
            states[w] = dl_optimizer_state(r->optimizers[w], &count);
        if (count > 0) average_all(r, states, count);
        free(states);
    }
    note_point(r, event, r->versions[0]);
}

static void apply(replay_thread *thread, size_t row)
{
    replay *r = thread->all;
    const dl_schedule_event *event = &r->schedule->events[row];
    if (event->kind == DL_SCHEDULE_AVERAGE) {
        apply_average(r, event);
        return;
    }
    const double loss = dl_model_loss(thread->model);
    if (r->gradients == 0) r->first_loss = loss;
    r->last_loss = loss;
    dl_train_points_loss(&r->points, loss);
    if (event->kind == DL_SCHEDULE_GRADIENT) {
        apply_gradient(r, row, dl_model_gradients(thread->model));
        return;
    }
    update(r, r->optimizers[event->worker], r->versions[event->worker],
           dl_model_gradients(thread->model), r->gradients);
    r->gradients++;
    if (r->schedule->workers > 1) return;
    /* Nobody to average with: each step is an update. */
    r->updates = r->gradients;
    note_point(r, event, r->versions[0]);
}

/* Takes the next event, once what it needs is done. Events are taken in their order, so who waits
 * waits for others that were taken before. */
static bool take(replay *r, size_t *row)
{
    pthread_mutex_lock(&r->mutex);
    const bool goes_on = r->next < r->schedule->count && !r->failed && !dl_train_stopped(r->config);
    if (goes_on) {
        *row = r->next++;
        while (r->done < r->schedule->events[*row].after)
            pthread_cond_wait(&r->changed, &r->mutex);
    }
    pthread_mutex_unlock(&r->mutex);
    return goes_on;
}

static void *run_thread(void *argument)
{
    replay_thread *thread = argument;
    replay *r = thread->all;
    size_t row = 0;
    const int cores = r->config->cores > 0 ? r->config->cores : dl_cpu_count();
    thread->status = dl_cpu_pin((r->config->first_core + thread->index) % cores, &thread->err);
    if (thread->status != DL_OK) {
        pthread_mutex_lock(&r->mutex);
        r->failed = true;
        pthread_mutex_unlock(&r->mutex);
    }
    while (take(r, &row)) {
        if (r->schedule->events[row].kind != DL_SCHEDULE_AVERAGE) {
            compute(thread, &r->schedule->events[row]);
        }
        pthread_mutex_lock(&r->mutex);
        while (r->done < row)
            pthread_cond_wait(&r->changed, &r->mutex);
        pthread_mutex_unlock(&r->mutex);
        apply(thread, row);
        pthread_mutex_lock(&r->mutex);
        r->done = row + 1;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->mutex);
    }
    return NULL;
}

/* Versions, optimizers and orders; `model` has the first parameters. */
static dl_status make_replay(replay *r, dl_model *model, dl_error *err)
{
    const dl_schedule *schedule = r->schedule;
    const dl_train_config *config = r->config;
    const size_t workers = (size_t)schedule->workers;
    r->count = dl_model_parameter_count(model);
    r->bytes = dl_model_parameter_bytes(model);
    r->version_count = is_local(r) ? workers : (size_t)schedule->staleness_max + 1;
    r->versions = dl_calloc(r->version_count, sizeof *r->versions, "versions");
    for (size_t v = 0; v < r->version_count; v++) {
        r->versions[v] = dl_alloc_aligned(r->bytes, "version of the parameters");
        memcpy(r->versions[v], dl_model_parameters(model), r->bytes);
    }
    r->sum = dl_alloc_aligned(r->bytes, "sum of gradients");
    int64_t most = 0;
    for (size_t i = 0; i < schedule->count; i++) {
        if (schedule->events[i].batch > most) most = schedule->events[i].batch;
    }
    r->epochs = ((size_t)most + 1) * (size_t)r->share / r->data->count + 1;
    r->orders = dl_calloc(r->epochs, sizeof *r->orders, "epochs");
    r->optimizer_count = is_local(r) ? workers : 1;
    r->optimizers = dl_calloc(r->optimizer_count, sizeof(dl_optimizer *), "optimizers");
    dl_status status = DL_OK;
    for (size_t o = 0; status == DL_OK && o < r->optimizer_count; o++) {
        status = dl_optimizer_create(&r->optimizers[o], &config->optimizer, config->precision,
                                     r->count, err);
    }
    return status;
}

static dl_status make_threads(replay *r, replay_thread *threads, int count, dl_error *err)
{
    const dl_train_config *config = r->config;
    dl_status status = DL_OK;
    for (int t = 0; status == DL_OK && t < count; t++) {
        threads[t] = (replay_thread){.all = r, .index = t};
        threads[t].samples = dl_calloc((size_t)r->share, sizeof(uint32_t), "samples of a batch");
        status = dl_model_create(&threads[t].model, config->model, config->precision, r->share,
                                 config->seed, err);
        if (status == DL_OK && t == 0) {
            status = dl_train_check_data(r->data, threads[0].model, config->model, err);
        }
    }
    return status == DL_OK ? make_replay(r, threads[0].model, err) : status;
}

static dl_status run_all(replay *r, replay_thread *threads, int count, dl_error *err)
{
    dl_status status = DL_OK;
    int started = 0;
    while (status == DL_OK && started < count) {
        const int reason =
            pthread_create(&threads[started].thread, NULL, run_thread, &threads[started]);
        if (reason != 0) {
            status = dl_error_set(err, DL_ERR_SYSTEM, "cannot start thread %d: %s", started,
                                  strerror(reason));
            pthread_mutex_lock(&r->mutex);
            r->failed = true;
            pthread_mutex_unlock(&r->mutex);
        } else {
            started++;
        }
    }
    for (int t = 0; t < started; t++)
        pthread_join(threads[t].thread, NULL);
    for (int t = 0; t < started && status == DL_OK; t++) {
        status = threads[t].status;
        if (status != DL_OK && err != NULL) *err = threads[t].err;
    }
    return status;
}

/* The server's last parameters, or the mean of the workers'. */
static void make_result(replay *r, int64_t start_ns, dl_train_result *result)
{
    *result = (dl_train_result){
        .seconds = dl_ns_to_s((double)(dl_clock_ns() - start_ns)),
        .first_loss = r->first_loss,
        .last_loss = r->last_loss,
        .parameter_count = r->count,
        .updates = r->updates,
        .samples = r->gradients * r->share,
    };
    result->samples_per_s = (double)result->samples / result->seconds;
    void *last = r->versions[is_local(r) ? 0 : (size_t)r->updates % r->version_count];
    if (is_local(r)) average_all(r, r->versions, r->count);
    result->parameters = dl_train_as_double(last, r->count, r->config->precision);
    dl_train_points_take(&r->points, result);
}

static void free_replay(replay *r, replay_thread *threads, int count)
{
    for (size_t v = 0; r->versions != NULL && v < r->version_count; v++)
        free(r->versions[v]);
    for (size_t o = 0; r->optimizers != NULL && o < r->optimizer_count; o++)
        dl_optimizer_destroy(r->optimizers[o]);
    for (size_t e = 0; r->orders != NULL && e < r->epochs; e++)
        free(r->orders[e]);
    for (int t = 0; t < count; t++) {
        dl_model_destroy(threads[t].model);
        free(threads[t].samples);
    }
    free(r->versions);
    free(r->optimizers);
    free(r->orders);
    free(r->sum);
    free(threads);
    dl_train_points_free(&r->points);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}

/* The settings that training checks, as if the workers of the schedule were there. */
static dl_status check(const dl_train_config *config, dl_error *err)
{
    if (config->device != NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "a schedule is replayed on the processor");
    }
    dl_train_config checked = *config;
    checked.workers = checked.batch = 1;
    checked.slow = NULL;
    checked.sync = config->staleness_rate ? DL_SYNC_ASYNC : DL_SYNC_NONE;
    checked.steps = 1;
    return dl_train_check_config(&checked, err);
}

dl_status dl_train_replay(const dl_train_config *config, const dl_schedule *schedule,
                          const dl_data_set *data, dl_train_result *result, dl_error *err)
{
    dl_status status = check(config, err);
    if (status != DL_OK) return status;
    const int count = config->cores > 0 ? config->cores : dl_cpu_count();
    replay r = {.config = config,
                .schedule = schedule,
                .data = data,
                .share = schedule->batch / schedule->workers};
    pthread_mutex_init(&r.mutex, NULL);
    pthread_cond_init(&r.changed, NULL);
    replay_thread *threads = dl_calloc((size_t)count, sizeof *threads, "threads");
    status = make_threads(&r, threads, count, err);
    const int64_t start_ns = dl_clock_ns();
    if (status == DL_OK) status = run_all(&r, threads, count, err);
    if (status == DL_OK) make_result(&r, start_ns, result);
    free_replay(&r, threads, count);
    return status;
}
