/* The exchange of all sync modes: copies to the server and back, and the server's arithmetic.
 *
 * On the host, the thread of the worker that has the lock or the slice computes. On a device (where
 * = gpu) this thread launches on `worker->server`, a slot on the server's device: the worker's slot
 * if that is on the same device, so that all operations are in one stream and timed by its marks;
 * else a second slot, for whose kernels the host waits and which the host times.
 *
 * Over ranks, the first worker of each process exchanges with the other ranks, while the other
 * workers wait at the barrier at which they wait for one another's averages. All ranks agree
 * whether the run ends early, since a rank that ended alone would leave the others waiting. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "kernels/ranks/rank_group.h"
#include "kernels/train/train_internal.h"

static bool on_device(const dl_train_shared *shared)
{
    return shared->config->where == DL_TRAIN_WHERE_GPU;
}

static void use_server(const dl_train_shared *shared)
{
    if (on_device(shared)) shared->config->device->use(shared->workers[0].server);
}

/* Allocates zeroed memory of the server, on the host or on a device. server_put and
 * dl_train_server_get copy from and to the host's memory, before and after training. */
static void *server_allocate(const dl_train_shared *shared, size_t bytes, const char *purpose)
{
    use_server(shared);
    return on_device(shared) ? shared->backend->allocate(bytes, purpose)
                             : shared->backend->allocate_host(bytes, purpose);
}

static void server_release(const dl_train_shared *shared, void *memory)
{
    if (on_device(shared)) {
        shared->backend->release(memory);
    } else {
        shared->backend->release_host(memory);
    }
}

static dl_status server_put(const dl_train_shared *shared, void *to, const void *from, size_t bytes,
                            dl_error *err)
{
    use_server(shared);
    if (!on_device(shared)) {
        const dl_status status = shared->backend->wait(err);
        if (status == DL_OK) memcpy(to, from, bytes);
        return status;
    }
    shared->backend->upload(to, from, bytes);
    return shared->backend->wait(err);
}

dl_status dl_train_server_get(const dl_train_shared *shared, void *to, const void *from,
                              size_t bytes, dl_error *err)
{
    use_server(shared);
    if (!on_device(shared)) {
        memcpy(to, from, bytes);
        return DL_OK;
    }
    shared->backend->download(to, from, bytes);
    return shared->backend->wait(err);
}

/* Copies between a worker and the server, in the direction of the phase. */
static void transfer(dl_train_worker *worker, dl_phase phase, void *to, const void *from,
                     size_t bytes, dl_train_name name)
{
    const dl_train_shared *shared = worker->shared;
    const bool pushes = phase == DL_PHASE_PUSH;
    dl_train_launch(worker);
    if (on_device(shared)) {
        shared->config->device->copy(pushes ? worker->server : worker->device, to,
                                     pushes ? worker->device : worker->server, from, bytes);
    } else if (pushes) {
        shared->backend->download(to, from, bytes);
    } else {
        shared->backend->upload(to, from, bytes);
    }
    dl_train_launched(worker, (dl_record){.kind = DL_RECORD_COPY,
                                          .phase = phase,
                                          .name = dl_train_name_id(shared, name),
                                          .bytes = bytes});
}

void dl_train_push(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name)
{
    transfer(worker, DL_PHASE_PUSH, to, from, bytes, name);
}

void dl_train_pull(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name)
{
    transfer(worker, DL_PHASE_PULL, to, from, bytes, name);
}

void dl_train_serve(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    if (!on_device(shared)) return;
    if (worker->server == worker->device) {
        dl_train_launch(worker);
        return;
    }
    dl_train_synchronize(worker);
    shared->config->device->use(worker->server);
}

/* Ends the server's work that dl_train_serve started, and records it. */
static void served(dl_train_worker *worker, dl_record fields)
{
    dl_train_shared *shared = worker->shared;
    if (!on_device(shared)) {
        dl_train_mark(worker, fields);
        return;
    }
    if (worker->server == worker->device) {
        dl_train_launched(worker, fields);
        return;
    }
    const dl_status status = shared->backend->wait(worker->status == DL_OK ? &worker->err : NULL);
    if (worker->status == DL_OK && status != DL_OK) {
        worker->status = status;
        atomic_store_explicit(&shared->failed, true, memory_order_relaxed);
    }
    dl_train_use(worker);
    dl_train_mark(worker, fields);
}

static dl_record average_record(const dl_train_worker *worker, dl_phase phase, dl_train_name name,
                                int vectors, int threads, size_t bytes)
{
    return (dl_record){.kind = DL_RECORD_AVERAGE,
                       .phase = phase,
                       .name = dl_train_name_id(worker->shared, name),
                       .vectors = (uint32_t)vectors,
                       .threads = (uint32_t)threads,
                       .bytes = bytes};
}

void dl_train_mark_average(dl_train_worker *worker, dl_phase phase, dl_train_name name, int vectors,
                           int threads, size_t bytes)
{
    served(worker, average_record(worker, phase, name, vectors, threads, bytes));
}

void dl_train_average_vectors(const dl_train_shared *shared, void *result, void *const *vectors,
                              int n, size_t first, size_t count)
{
    const void *const *list = (const void *const *)vectors;
    if (on_device(shared)) {
        DL_ASSERT(first == 0, "slice from %zu on", first);
        shared->config->device->average(result, list, n, count);
    } else {
        dl_exchange_average(result, list, n, first, count, shared->config->precision);
    }
}

/* Encodes the worker's gradients as a message, in the worker's memory. */
static void quantise(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const void *gradients = dl_model_gradients(worker->model);
    if (worker->device == NULL) {
        dl_quantise_encode(&shared->plan, gradients, worker->residual, worker->message,
                           shared->config->precision);
    } else {
        dl_train_launch(worker);
        shared->config->device->encode(&shared->plan, worker->blocks, gradients, worker->residual,
                                       worker->message);
    }
    dl_train_launched(
        worker, average_record(worker, DL_PHASE_NONE, DL_TRAIN_NAME_QUANTISE, 1, 1, shared->bytes));
}

/* Decodes the worker's message at the server into the vector in its slot. */
static void dequantise(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const void *message = shared->messages[worker->index];
    void *vector = shared->slots[worker->index];
    if (on_device(shared)) {
        dl_train_serve(worker);
        shared->config->device->decode(&shared->plan, shared->blocks, message, vector);
    } else {
        dl_train_synchronize(worker);
        dl_quantise_decode(&shared->plan, message, vector, shared->config->precision);
    }
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_DEQUANTISE, 1, 1, shared->bytes);
}

void dl_train_push_gradients(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    if (shared->messages == NULL) {
        dl_train_push(worker, shared->slots[worker->index], dl_model_gradients(worker->model),
                      shared->bytes, DL_TRAIN_NAME_GRADIENTS);
        return;
    }
    quantise(worker);
    dl_train_push(worker, shared->messages[worker->index], worker->message,
                  shared->plan.message_bytes, DL_TRAIN_NAME_GRADIENTS);
    dequantise(worker);
}

void dl_train_pull_parameters(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_pull(worker, dl_model_parameters(worker->model), shared->parameters, shared->bytes,
                  DL_TRAIN_NAME_PARAMETERS);
}

void dl_train_plan_messages(dl_quantise_plan *plan, const dl_model *model, dl_quantise kind,
                            double kept_frac)
{
    dl_quantise_plan_init(plan, kind);
    plan->kept_frac = kept_frac;
    for (int op = 0; op < dl_model_operation_count(model); op++) {
        size_t first, count;
        dl_model_operation_parameters(model, op, &first, &count);
        dl_quantise_plan_add(plan, count);
    }
}

static void plan_gradients(dl_train_shared *shared, const dl_model *model)
{
    dl_train_plan_messages(&shared->plan, model, shared->config->quantise,
                           shared->config->topk_frac);
    DL_ASSERT(shared->plan.count == shared->count, "%zu of %zu numbers", shared->plan.count,
              shared->count);
    shared->message_bytes = shared->plan.message_bytes;
}

/* Allocates the server's memory for messages, if the configuration needs it. */
static dl_status make_messages(dl_train_shared *shared, const dl_model *model, dl_error *err)
{
    const int senders = dl_train_senders(shared->config);
    if (shared->config->quantise == DL_QUANTISE_NONE) return DL_OK;
    if (shared->plans == NULL) plan_gradients(shared, model);
    shared->messages = dl_calloc((size_t)senders, sizeof *shared->messages, "messages");
    for (int w = 0; w < senders; w++) {
        shared->messages[w] = server_allocate(shared, shared->message_bytes, "message");
    }
    if (!on_device(shared)) return DL_OK;
    const size_t bytes = shared->plan.block_count * sizeof *shared->plan.blocks;
    shared->blocks = server_allocate(shared, bytes, "blocks");
    return server_put(shared, shared->blocks, shared->plan.blocks, bytes, err);
}

static void free_messages(dl_train_shared *shared)
{
    for (int w = 0; shared->messages != NULL && w < dl_train_senders(shared->config); w++)
        server_release(shared, shared->messages[w]);
    if (shared->blocks != NULL) server_release(shared, shared->blocks);
    free(shared->messages);
    dl_quantise_plan_free(&shared->plan);
}

void dl_train_make_message(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const dl_backend *backend = shared->backend;
    if (shared->messages == NULL) return;
    worker->message = backend->allocate(shared->message_bytes, "message");
    if (shared->plans != NULL)
        worker->learned = backend->allocate(shared->bytes, "parameter change");
    if (dl_quantise_feeds_back(shared->config->quantise)) {
        worker->residual = backend->allocate(shared->bytes, "residual");
    }
    if (worker->device == NULL) return;
    const size_t bytes = shared->plan.block_count * sizeof *shared->plan.blocks;
    worker->blocks = backend->allocate(bytes, "blocks");
    backend->upload(worker->blocks, shared->plan.blocks, bytes);
}

void dl_train_free_message(dl_train_worker *worker)
{
    const dl_backend *backend = worker->shared->backend;
    backend->release(worker->message);
    backend->release(worker->residual);
    backend->release(worker->learned);
    backend->release(worker->blocks);
}

/* Makes a list of `places` vectors, of which the first `count` get memory of the server. */
static void **make_slots(const dl_train_shared *shared, int places, int count, size_t bytes)
{
    void **slots = dl_calloc((size_t)places, sizeof *slots, "slots");
    for (int i = 0; i < count; i++)
        slots[i] = server_allocate(shared, bytes, "slot");
    return slots;
}

/* Makes the workers' slots; in async and softsync also spare vectors, which replace the slots of
 * gradients that wait for an update: one fewer than the gradients of an update. */
static void make_all_slots(dl_train_shared *shared)
{
    const int workers = shared->config->workers, senders = dl_train_senders(shared->config);
    shared->slots = make_slots(shared, workers, shared->mode->slots ? senders : 0, shared->bytes);
    if (!shared->mode->free_running || !shared->mode->server) return;
    shared->spare_count = dl_train_gradients_per_update(shared->config) - 1;
    const int all = workers + shared->spare_count;
    shared->spares = make_slots(shared, all, shared->spare_count, shared->bytes);
    shared->pending = make_slots(shared, all, 0, shared->bytes);
}

dl_status dl_train_server_make(dl_train_shared *shared, dl_model *model, dl_error *err)
{
    const dl_train_config *config = shared->config;
    const dl_sync_mode *mode = shared->mode;
    const dl_backend *backend = shared->backend;
    dl_optimizer *optimizer = NULL;
    use_server(shared);
    dl_status status = dl_optimizer_create_on(
        &optimizer, &config->optimizer,
        on_device(shared) ? backend : dl_backend_cpu(config->precision), shared->count, err);
    if (status != DL_OK) return status;
    if (config->sync == DL_SYNC_AVERAGE && config->average_state) {
        (void)dl_optimizer_state(optimizer, &shared->state_count);
        shared->state_bytes = shared->state_count * dl_precision_bytes(config->precision);
        if (mode->slots && shared->state_bytes > 0) {
            shared->state_slots =
                make_slots(shared, config->workers, dl_train_senders(config), shared->state_bytes);
            shared->state_result = server_allocate(shared, shared->state_bytes, "averaged state");
        }
    }
    make_all_slots(shared);
    if (mode->result) shared->result = server_allocate(shared, shared->bytes, "averages");
    const bool outer = config->outer.kind != DL_OUTER_NONE;
    const bool keeps = mode->server || mode->syncer || dl_train_keeps_start(config);
    if (keeps) {
        shared->parameters = server_allocate(shared, shared->bytes, "the server's parameters");
    }
    if (outer) shared->velocity = server_allocate(shared, shared->bytes, "outer optimizer");
    if (mode->server) {
        shared->optimizer = optimizer;
    } else {
        dl_optimizer_destroy(optimizer);
    }
    status = backend->wait(err);
    if (outer) memset(shared->velocity, 0, shared->bytes);
    if (status == DL_OK && keeps) {
        status =
            server_put(shared, shared->parameters, dl_model_parameters(model), shared->bytes, err);
    }
    return status == DL_OK ? make_messages(shared, model, err) : status;
}

void dl_train_server_free(dl_train_shared *shared)
{
    const int workers = shared->config->workers;
    /* Without slots no memory of the server was requested. */
    for (int w = 0; shared->slots != NULL && w < workers; w++) {
        if (w == 0) dl_train_use(&shared->workers[0]);
        if (shared->mode->slots) server_release(shared, shared->slots[w]);
        if (shared->state_slots != NULL) server_release(shared, shared->state_slots[w]);
    }
    for (int i = 0; i < shared->spare_count; i++)
        server_release(shared, shared->spares[i]);
    for (int i = 0; i < shared->pending_count; i++)
        server_release(shared, shared->pending[i]);
    if (shared->slots != NULL) {
        server_release(shared, shared->result);
        server_release(shared, shared->state_result);
        server_release(shared, shared->parameters);
        server_release(shared, shared->velocity);
    }
    free_messages(shared);
    free(shared->slots);
    free(shared->spares);
    free(shared->pending);
    free(shared->state_slots);
    dl_optimizer_destroy(shared->optimizer);
}

/* Ends this process's part. An earlier failure of a worker stays the reason, as the loss may be its
 * consequence. */
void dl_train_end_by_loss(dl_train_worker *worker, dl_status status, const dl_error *why)
{
    dl_train_shared *shared = worker->shared;
    if (worker->status == DL_OK && !atomic_load(&shared->failed)) {
        worker->status = status;
        worker->err = *why;
        worker->lost_rank = true;
    }
    atomic_store(&shared->failed, true);
    const int64_t steps = worker->step + (shared->mode->collective ? 2 : 1);
    atomic_store(&shared->last_step, dl_train_run_steps(worker, steps));
}

void dl_train_ranks_barrier(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const bool mine = dl_train_stopped(shared->config) || atomic_load(&shared->failed);
    bool stop = false;
    dl_error why = {0};
    const dl_status status = shared->ranks->agree(shared->ranks, mine, &stop, &why);
    atomic_store(&shared->agreed_stop, stop);
    if (status != DL_OK) dl_train_end_by_loss(worker, status, &why);
}

void dl_train_ranks_average(dl_train_worker *worker, void *result, void *const *vectors,
                            size_t count, dl_train_name name)
{
    const dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    dl_error why = {0};
    const dl_status status = shared->ranks->sum(
        shared->ranks, result, (const void *const *)vectors, dl_train_senders(config),
        dl_train_senders(shared->whole), count, config->precision, &why);
    if (status != DL_OK) dl_train_end_by_loss(worker, status, &why);
    dl_train_mark_average(worker, DL_PHASE_NONE, name, dl_train_senders(shared->whole), 1,
                          count * dl_precision_bytes(config->precision));
}

void dl_train_average(dl_train_worker *worker, void *result, void *const *vectors, size_t first,
                      size_t count, int parts, dl_train_name name, size_t recorded)
{
    const dl_train_shared *shared = worker->shared;
    const int senders = dl_train_senders(shared->config);
    dl_train_serve(worker);
    dl_train_average_vectors(shared, result, vectors, senders, first, count);
    dl_train_mark_average(worker, DL_PHASE_NONE, name, senders, parts, recorded);
}

void dl_train_ranks_meet(dl_train_worker *worker)
{
    dl_train_ranks_barrier(worker);
    dl_train_mark(worker,
                  (dl_record){.kind = DL_RECORD_WAIT,
                              .name = dl_train_name_id(worker->shared, DL_TRAIN_NAME_BARRIER)});
}

void dl_train_update_replica(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_begin_update(worker->optimizer, shared->config, shared->data->count,
                          worker->step * shared->whole->batch);
    dl_train_launch(worker);
    for (int op = 0; op < worker->shared->operations; op++) {
        size_t first, count;
        dl_model_operation_parameters(worker->model, op, &first, &count);
        if (count == 0) continue;
        dl_optimizer_apply(worker->optimizer, dl_model_parameters(worker->model),
                           dl_model_gradients(worker->model), first, count);
        dl_train_launched(
            worker,
            (dl_record){.kind = DL_RECORD_COMPUTE, .phase = DL_PHASE_UPDATE, .name = (uint32_t)op});
    }
}

void dl_train_free_running_end(dl_train_shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    atomic_store_explicit(&shared->ended, true, memory_order_relaxed);
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}
