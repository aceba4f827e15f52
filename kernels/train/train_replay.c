/* Replay of a schedule. A thread takes the next event, waits until the parameters that its gradient
 * needs are there, computes, waits until all events before it are applied, and applies: so the
 * result does not depend on the number of threads.
 *
 * Of a server's parameters as many versions are kept as the largest staleness needs; where the
 * workers update, each has its own parameters and optimizer. The parameters that an event is
 * computed with do not change before it is applied, so gradients may be computed meanwhile. */
#include <cblas.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/units.h"
#include "kernels/exchange.h"
#include "kernels/optimizer.h"
#include "kernels/train/schedule.h"
#include "kernels/train/train.h"
#include "kernels/train/train_internal.h"

static bool is_local(const dl_replay_parameters *p)
{
    return p->schedule->events[0].kind != DL_SCHEDULE_GRADIENT;
}

/* y += a x. */
static void add_scaled(const dl_replay_parameters *p, void *y, const void *x, double a)
{
    if (p->config->precision == DL_FLOAT) {
        cblas_saxpy((blasint)p->count, (float)a, x, 1, y, 1);
    } else {
        cblas_daxpy((blasint)p->count, a, x, 1, y, 1);
    }
}

static void update(dl_replay_parameters *p, dl_optimizer *optimizer, void *parameters,
                   const void *gradients, int64_t applied)
{
    dl_optimizer_scale_rate(optimizer,
                            dl_train_rate_factor(p->config, p->set_size, applied * p->share));
    dl_optimizer_begin(optimizer);
    dl_optimizer_apply(optimizer, parameters, gradients, 0, p->count);
}

/* Whether another gradient of the same update comes before the event, or after it. */
static bool shares_update(const dl_replay_parameters *p, size_t event, size_t other)
{
    const dl_schedule_event *events = p->schedule->events;
    return other < p->schedule->count && events[event].update == events[other].update;
}

static void note_point(dl_replay_parameters *p, const dl_schedule_event *event,
                       const void *parameters)
{
    const int64_t steps = p->gradients / p->schedule->workers;
    if (!dl_train_points_due(&p->points, steps, p->config->evaluate_every)) return;
    dl_train_points_add(&p->points,
                        &(dl_train_point){.update = p->updates,
                                          .samples = p->gradients * p->share,
                                          .simulated_s = event->time_s,
                                          .parameters = dl_train_as_double(parameters, p->count,
                                                                           p->config->precision)});
}

static void apply_gradient(dl_replay_parameters *p, size_t row, void *gradient)
{
    const dl_schedule_event *event = &p->schedule->events[row];
    const bool first = row == 0 || !shares_update(p, row, row - 1);
    const bool last = !shares_update(p, row, row + 1);
    const int64_t staleness = event->update - 1 - event->read;
    const double factor = p->config->staleness_rate ? dl_train_staleness_rate(staleness) : 1;
    size_t together = 1;
    if (first && last) {
        dl_train_scale(gradient, p->count, p->config->precision, factor);
    } else if (first) {
        memcpy(p->sum, gradient, p->bytes);
        dl_train_scale(p->sum, p->count, p->config->precision, factor);
    } else {
        add_scaled(p, p->sum, gradient, factor);
    }
    p->gradients++;
    if (!last) return;
    while (together <= row && shares_update(p, row, row - together))
        together++;
    if (!first) dl_train_scale(p->sum, p->count, p->config->precision, 1.0 / (double)together);
    void *before = p->versions[(size_t)p->updates % p->version_count];
    p->updates = event->update;
    void *now = p->versions[(size_t)p->updates % p->version_count];
    if (now != before) memcpy(now, before, p->bytes);
    update(p, p->optimizers[0], now, first ? gradient : p->sum, p->gradients - (int64_t)together);
    note_point(p, event, now);
}

/* Puts the mean of all workers' vectors in their places. */
static void average_all(const dl_replay_parameters *p, void *const *vectors, size_t count)
{
    const int workers = p->schedule->workers;
    const dl_precision precision = p->config->precision;
    dl_exchange_average(vectors[0], (const void *const *)vectors, workers, 0, count, precision);
    for (int w = 1; w < workers; w++)
        memcpy(vectors[w], vectors[0], count * dl_precision_bytes(precision));
}

static void apply_average(dl_replay_parameters *p, const dl_schedule_event *event)
{
    if (p->schedule->workers > 1) p->updates = event->update;
    average_all(p, p->versions, p->count);
    if (p->config->average_state) {
        size_t count = 0;
        void **states = dl_calloc(p->optimizer_count, sizeof *states, "optimizer states");
        for (size_t w = 0; w < p->optimizer_count; w++)
            states[w] = dl_optimizer_state(p->optimizers[w], &count);
        if (count > 0) average_all(p, states, count);
        free(states);
    }
    note_point(p, event, p->versions[0]);
}

void dl_replay_parameters_apply(dl_replay_parameters *p, size_t row, void *gradient, double loss)
{
    const dl_schedule_event *event = &p->schedule->events[row];
    if (event->kind == DL_SCHEDULE_AVERAGE) {
        apply_average(p, event);
        return;
    }
    if (p->gradients == 0) p->first_loss = loss;
    p->last_loss = loss;
    dl_train_points_loss(&p->points, loss);
    if (event->kind == DL_SCHEDULE_GRADIENT) {
        apply_gradient(p, row, gradient);
        return;
    }
    update(p, p->optimizers[event->worker], p->versions[event->worker], gradient, p->gradients);
    p->gradients++;
    if (p->schedule->workers > 1) return;
    /* Nobody to average with: each step is an update. */
    p->updates = p->gradients;
    note_point(p, event, p->versions[0]);
}

const void *dl_replay_parameters_of(const dl_replay_parameters *p, const dl_schedule_event *event)
{
    const bool local = event->kind == DL_SCHEDULE_LOCAL;
    return p->versions[local ? (size_t)event->worker : (size_t)event->read % p->version_count];
}

dl_status dl_replay_parameters_init(dl_replay_parameters *p, const dl_train_config *config,
                                    const dl_schedule *schedule, size_t set_size, const void *first,
                                    size_t count, dl_error *err)
{
    const size_t workers = (size_t)schedule->workers;
    *p = (dl_replay_parameters){.config = config,
                                .schedule = schedule,
                                .set_size = set_size,
                                .count = count,
                                .bytes = count * dl_precision_bytes(config->precision),
                                .share = schedule->batch / schedule->workers};
    p->version_count = is_local(p) ? workers : (size_t)schedule->staleness_max + 1;
    p->versions = dl_calloc(p->version_count, sizeof *p->versions, "versions");
    for (size_t v = 0; v < p->version_count; v++) {
        p->versions[v] = dl_alloc_staggered(p->bytes, "version of the parameters");
        memcpy(p->versions[v], first, p->bytes);
    }
    p->sum = dl_alloc_staggered(p->bytes, "sum of gradients");
    p->optimizer_count = is_local(p) ? workers : 1;
    p->optimizers = dl_calloc(p->optimizer_count, sizeof(dl_optimizer *), "optimizers");
    dl_status status = DL_OK;
    for (size_t o = 0; status == DL_OK && o < p->optimizer_count; o++) {
        status = dl_optimizer_create(&p->optimizers[o], &config->optimizer, config->precision,
                                     count, err);
    }
    return status;
}

void dl_replay_parameters_result(dl_replay_parameters *p, dl_train_result *result)
{
    *result = (dl_train_result){
        .first_loss = p->first_loss,
        .last_loss = p->last_loss,
        .parameter_count = p->count,
        .updates = p->updates,
        .samples = p->gradients * p->share,
    };
    void *last = p->versions[is_local(p) ? 0 : (size_t)p->updates % p->version_count];
    if (is_local(p)) average_all(p, p->versions, p->count);
    result->parameters = dl_train_as_double(last, p->count, p->config->precision);
    dl_train_points_take(&p->points, result);
}

void dl_replay_parameters_free(dl_replay_parameters *p)
{
    for (size_t v = 0; p->versions != NULL && v < p->version_count; v++)
        dl_free_staggered(p->versions[v]);
    for (size_t o = 0; p->optimizers != NULL && o < p->optimizer_count; o++)
        dl_optimizer_destroy(p->optimizers[o]);
    free(p->versions);
    free(p->optimizers);
    dl_free_staggered(p->sum);
    dl_train_points_free(&p->points);
}

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
    int share;                       /* samples of a mini-batch */
    dl_replay_parameters parameters; /* events are applied by the one whose turn it is */

    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    size_t next, done; /* events taken, and done */
    uint32_t **orders; /* [epochs] permutations, as they are needed */
    size_t epochs;
    bool failed;
};

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
    memcpy(dl_model_parameters(thread->model), dl_replay_parameters_of(&r->parameters, event),
           r->parameters.bytes);
    input(thread, event->batch);
    dl_model_pass(thread->model, r->share);
}

static void apply(replay_thread *thread, size_t row)
{
    replay *r = thread->all;
    const bool average = r->schedule->events[row].kind == DL_SCHEDULE_AVERAGE;
    dl_replay_parameters_apply(&r->parameters, row, dl_model_gradients(thread->model),
                               average ? 0 : dl_model_loss(thread->model));
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

/* Room for the permutations of all epochs that the schedule goes through. */
static void make_orders(replay *r)
{
    const dl_schedule *schedule = r->schedule;
    int64_t most = 0;
    for (size_t i = 0; i < schedule->count; i++) {
        if (schedule->events[i].batch > most) most = schedule->events[i].batch;
    }
    r->epochs = ((size_t)most + 1) * (size_t)r->share / r->data->count + 1;
    r->orders = dl_calloc(r->epochs, sizeof *r->orders, "epochs");
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
    if (status != DL_OK) return status;
    make_orders(r);
    return dl_replay_parameters_init(&r->parameters, config, r->schedule, r->data->count,
                                     dl_model_parameters(threads[0].model),
                                     dl_model_parameter_count(threads[0].model), err);
}

static dl_status run_all(replay *r, replay_thread *threads, int count, dl_error *err)
{
    dl_status status = dl_backend_cpu(r->config->precision)->start_threads(count, err);
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

static void free_replay(replay *r, replay_thread *threads, int count)
{
    for (size_t e = 0; r->orders != NULL && e < r->epochs; e++)
        free(r->orders[e]);
    for (int t = 0; t < count; t++) {
        dl_model_destroy(threads[t].model);
        free(threads[t].samples);
    }
    free(r->orders);
    free(threads);
    dl_replay_parameters_free(&r->parameters);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}

/* The settings that training checks, as if the workers of the schedule were there. */
dl_status dl_train_check_replay(const dl_train_config *config, dl_error *err)
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
    dl_status status = dl_train_check_replay(config, err);
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
    if (status == DL_OK) {
        const double seconds = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
        dl_replay_parameters_result(&r.parameters, result);
        result->seconds = seconds;
        result->samples_per_s = (double)result->samples / seconds;
    }
    free_replay(&r, threads, count);
    return status;
}
