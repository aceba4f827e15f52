#include "kernels/train/train.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/units.h"
#include "kernels/train/train_worker.h"

/* Places for `places` vectors, the first `count` of them with one in the server's memory. */
static void **make_slots(const dl_train_shared *shared, int places, int count, size_t bytes)
{
    void **slots = dl_calloc((size_t)places, sizeof *slots, "slots");
    for (int i = 0; i < count; i++)
        slots[i] = dl_train_server_allocate(shared, bytes, "slot");
    return slots;
}

/* Slots of the workers; in async and softsync also the vectors of gradients that wait for an
 * update: with those of workers that do not wait for it, one less than it needs. */
static void make_all_slots(dl_train_shared *shared)
{
    const int workers = shared->config->workers;
    shared->slots = make_slots(shared, workers, shared->mode->slots ? workers : 0, shared->bytes);
    if (!shared->mode->free_running || !shared->mode->server) return;
    shared->spare_count = dl_train_gradients_an_update(shared->config) - 1;
    const int all = workers + shared->spare_count;
    shared->spares = make_slots(shared, all, shared->spare_count, shared->bytes);
    shared->pending = make_slots(shared, all, 0, shared->bytes);
}

/* The server's vectors, as far as the mode has them. `model` has the common first parameters. */
static dl_status make_server(dl_train_shared *shared, dl_model *model, dl_error *err)
{
    const dl_train_config *config = shared->config;
    const dl_sync_mode *mode = shared->mode;
    const dl_backend *backend = shared->backend;
    dl_optimizer *optimizer = NULL;
    const bool on_device = config->where == DL_TRAIN_WHERE_GPU;
    if (on_device) config->device->use(shared->workers[0].server);
    dl_status status = dl_optimizer_create_on(
        &optimizer, &config->optimizer, on_device ? backend : dl_backend_cpu(config->precision),
        shared->count, err);
    if (status != DL_OK) return status;
    if (config->sync == DL_SYNC_AVERAGE && config->average_state) {
        (void)dl_optimizer_state(optimizer, &shared->state_count);
        shared->state_bytes = shared->state_count * dl_precision_bytes(config->precision);
        if (mode->slots && shared->state_bytes > 0) {
            shared->state_slots =
                make_slots(shared, config->workers, config->workers, shared->state_bytes);
            shared->state_result =
                dl_train_server_allocate(shared, shared->state_bytes, "averaged state");
        }
    }
    make_all_slots(shared);
    if (mode->result) shared->result = dl_train_server_allocate(shared, shared->bytes, "averages");
    if (mode->server) {
        shared->parameters =
            dl_train_server_allocate(shared, shared->bytes, "the server's parameters");
        shared->optimizer = optimizer;
    } else {
        dl_optimizer_destroy(optimizer);
    }
    status = backend->wait(err);
    if (status == DL_OK && mode->server) {
        status = dl_train_server_put(shared, shared->parameters, dl_model_parameters(model),
                                     shared->bytes, err);
    }
    return status == DL_OK ? dl_train_make_messages(shared, model, err) : status;
}

/* The worker's place on a device, and where the server is on another one, its place there. */
static dl_status open_places(dl_train_worker *worker, int number, dl_error *err)
{
    const dl_train_config *config = worker->shared->config;
    const dl_device_type *type = config->device;
    const dl_status status = type->open(&worker->device, number, &config->device_settings, err);
    if (status != DL_OK || config->where != DL_TRAIN_WHERE_GPU) return status;
    if (number == config->where_device) {
        worker->server = worker->device;
        return DL_OK;
    }
    return type->open(&worker->server, config->where_device, &config->device_settings, err);
}

/* A place on a device for each worker, in turn; the calling thread uses the first one. */
static dl_status open_devices(dl_train_shared *shared, dl_error *err)
{
    const dl_train_config *config = shared->config;
    const dl_device_type *type = config->device;
    if (type == NULL) return DL_OK;
    int count = 1;
    dl_status status = dl_train_device_count(config, &count, err);
    for (int w = 0; status == DL_OK && w < config->workers; w++) {
        status = open_places(&shared->workers[w], config->first_device + w % count, err);
    }
    if (status == DL_OK && shared->mode->collective) {
        dl_device **devices = dl_calloc((size_t)config->workers, sizeof *devices, "devices");
        for (int w = 0; w < config->workers; w++)
            devices[w] = shared->workers[w].device;
        status = shared->ranks != NULL ? dl_train_ranks_join(shared, devices, err)
                                       : type->join(devices, config->workers, err);
        free(devices);
    }
    if (status == DL_OK) dl_train_use(&shared->workers[0]);
    return status;
}

static dl_wait choose_wait(const dl_train_config *config, int cores)
{
    if (config->wait != DL_WAIT_AUTO) return config->wait;
    return config->workers <= cores ? DL_WAIT_SPIN : DL_WAIT_BLOCK;
}

/* Everything but the threads. What it has made when it fails, free_shared releases. */
static dl_status init_shared(dl_train_shared *shared, const dl_train_config *whole,
                             const dl_data_set *data, const dl_train_observer *observer,
                             dl_error *err)
{
    *shared = (dl_train_shared){
        .whole = whole, .data = data, .observer = observer, .last_step = whole->steps};
    dl_status status = dl_train_take_part(shared, err);
    const dl_train_config *config = shared->config;
    shared->mode = dl_sync_mode_of(config);
    shared->backend =
        config->device != NULL ? config->device->backend : dl_backend_cpu(config->precision);
    shared->batch_per_worker = config->batch / config->workers;
    shared->cores = config->cores > 0 ? config->cores : dl_cpu_count();
    shared->wait = choose_wait(config, shared->cores);
    dl_barrier_init(&shared->barrier, config->workers, shared->wait);
    dl_lock_init(&shared->lock, shared->wait);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_cond_init(&shared->changed, NULL);
    shared->workers = dl_calloc((size_t)config->workers, sizeof *shared->workers, "workers");
    for (int w = 0; w < config->workers; w++) {
        shared->workers[w] =
            (dl_train_worker){.shared = shared, .index = w, .epoch = -1, .computes = true};
    }

    dl_model *model = NULL;
    if (status == DL_OK) {
        status = dl_model_create(&model, config->model, config->precision, 1, config->seed, err);
    }
    if (status != DL_OK) return status;
    shared->count = dl_model_parameter_count(model);
    shared->bytes = dl_model_parameter_bytes(model);
    shared->operations = dl_model_operation_count(model);
    status = dl_train_check_data(data, model, config->model, err);
    if (status == DL_OK) status = open_devices(shared, err);
    if (status == DL_OK) status = make_server(shared, model, err);
    dl_model_destroy(model);
    return status;
}

static void free_shared(dl_train_shared *shared)
{
    const int workers = shared->config->workers;
    /* Without a slot nothing of the server's memory was asked for. */
    for (int w = 0; shared->slots != NULL && w < workers; w++) {
        if (w == 0) dl_train_use(&shared->workers[0]);
        if (shared->mode->slots) dl_train_server_release(shared, shared->slots[w]);
        if (shared->state_slots != NULL) dl_train_server_release(shared, shared->state_slots[w]);
    }
    for (int i = 0; i < shared->spare_count; i++)
        dl_train_server_release(shared, shared->spares[i]);
    for (int i = 0; i < shared->pending_count; i++)
        dl_train_server_release(shared, shared->pending[i]);
    if (shared->slots != NULL) {
        dl_train_server_release(shared, shared->result);
        dl_train_server_release(shared, shared->state_result);
        dl_train_server_release(shared, shared->parameters);
    }
    dl_train_free_messages(shared);
    free(shared->slots);
    free(shared->spares);
    dl_train_points_free(&shared->points);
    free(shared->pending);
    free(shared->state_slots);
    dl_optimizer_destroy(shared->optimizer);
    for (int w = 0; w < workers; w++)
        dl_train_worker_free(&shared->workers[w]);
    free(shared->workers);
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->mutex);
    dl_lock_free(&shared->lock);
    dl_barrier_free(&shared->barrier);
}

/* The first failure of a worker, if there is one. */
static dl_status worker_status(const dl_train_shared *shared, dl_error *err)
{
    for (int w = 0; w < shared->config->workers; w++) {
        const dl_train_worker *worker = &shared->workers[w];
        if (worker->status == DL_OK) continue;
        return dl_error_set(err, worker->status, "worker %d: %s", w, worker->err.text);
    }
    return DL_OK;
}

/* Waits until `started` threads are set up, lets them go if all are well, and joins them. A worker
 * that could not be set up cancels the whole run: the others would wait for it for ever. */
static dl_status run_workers(dl_train_shared *shared, int started, dl_status status, dl_error *err)
{
    pthread_mutex_lock(&shared->mutex);
    while (shared->ready < started)
        pthread_cond_wait(&shared->changed, &shared->mutex);
    if (status == DL_OK) status = worker_status(shared, err);
    status = dl_train_ranks_ready(shared, status, err);
    shared->gate = status == DL_OK ? DL_TRAIN_GO : DL_TRAIN_CANCEL;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
    for (int t = 0; t < started; t++)
        pthread_join(shared->workers[t].thread, NULL);
    return status == DL_OK ? worker_status(shared, err) : status;
}

/* Steps that there is memory for from the start, 32 KiB a worker; for more it grows. */
#define STEPS_AT_FIRST ((int64_t)1 << 12)

/* Starts the threads. */
static dl_status run_threads(dl_train_shared *shared, dl_error *err)
{
    const dl_train_config *config = shared->config;
    const bool single = config->dispatch == DL_DISPATCH_SINGLE;
    const int threads = single ? 1 : config->workers;
    const dl_backend *backend = shared->backend;
    dl_status status = DL_OK;
    if (backend->start_threads != NULL) status = backend->start_threads(threads, err);
    int started = 0;
    for (int w = 0; w < config->workers; w++) {
        dl_train_worker *worker = &shared->workers[w];
        worker->step_capacity = config->steps < STEPS_AT_FIRST ? config->steps : STEPS_AT_FIRST;
        worker->step_ns = dl_alloc_aligned((size_t)worker->step_capacity * sizeof *worker->step_ns,
                                           "durations of steps");
    }
    while (status == DL_OK && started < threads) {
        dl_train_worker *worker = &shared->workers[started];
        const int reason = single
                               ? pthread_create(&worker->thread, NULL, dl_train_single_run, shared)
                               : pthread_create(&worker->thread, NULL, dl_train_worker_run, worker);
        if (reason != 0) {
            status = dl_error_set(err, DL_ERR_SYSTEM, "cannot start the thread of worker %d: %s",
                                  started, strerror(reason));
        } else {
            started++;
        }
    }
    return run_workers(shared, started, status, err);
}

dl_status dl_train_run(const dl_train_config *config, const dl_data_set *data,
                       const dl_train_observer *observer, dl_train_result *result, dl_error *err)
{
    dl_status status = dl_train_check_config(config, err);
    if (status != DL_OK) return status;
    dl_train_shared shared;
    status = init_shared(&shared, config, data, observer, err);
    if (status == DL_OK) status = run_threads(&shared, err);
    if (status == DL_OK) status = dl_train_make_result(&shared, result, err);
    free_shared(&shared);
    return status;
}
