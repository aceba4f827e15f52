#include "kernels/train/train_replay.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/units.h"
#include "kernels/train/train_points.h"
#include "kernels/train/train_replay_parameters.h"
#include "kernels/train/train_worker.h"

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
    const int operations = dl_model_operation_count(thread->model);
    memcpy(dl_model_parameters(thread->model), dl_replay_parameters_of(&r->parameters, event),
           r->parameters.bytes);
    input(thread, event->batch);
    for (int op = 0; op < operations; op++)
        dl_model_forward(thread->model, op, r->share);
    for (int op = operations - 1; op >= 0; op--)
        dl_model_backward(thread->model, op, r->share);
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
