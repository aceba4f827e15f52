/* The sync modes: a step's work once its gradients are ready. First how vectors get to the server
 * and back and who does its arithmetic, then the modes; the server of async and softsync is in
 * train_server.c, averages of parameters in train_average.c.
 *
 * On the host, the thread of the worker that has the lock or the slice computes. On a device (where
 * = gpu) it launches on `worker->server`, a slot on the server's device: the worker's own slot if
 * it is on that device, so that everything runs in one stream and is timed by its marks; else a
 * second one, whose kernels are waited for and timed by the host.
 *
 * Over ranks, the first worker of each process exchanges with the other ranks, while its others
 * wait where they would wait for one another's averages. All ranks agree whether the run ends
 * early, since a rank that ended alone would leave the others waiting. */
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

/* Zeroed memory of the server, on the host or on a device. server_put and dl_train_server_get copy
 * from and to the host's memory, before and after training. */
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

static dl_record copy_record(const dl_train_worker *worker, size_t bytes, dl_phase phase,
                             dl_train_name name)
{
    return (dl_record){.kind = DL_RECORD_COPY,
                       .phase = phase,
                       .name = dl_train_name_id(worker->shared, name),
                       .bytes = bytes};
}

void dl_train_push(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_launch(worker);
    if (on_device(shared)) {
        shared->config->device->copy(worker->server, to, worker->device, from, bytes);
    } else {
        shared->backend->download(to, from, bytes);
    }
    dl_train_launched(worker, copy_record(worker, bytes, DL_PHASE_PUSH, name));
}

void dl_train_pull(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_launch(worker);
    if (on_device(shared)) {
        shared->config->device->copy(worker->device, to, worker->server, from, bytes);
    } else {
        shared->backend->upload(to, from, bytes);
    }
    dl_train_launched(worker, copy_record(worker, bytes, DL_PHASE_PULL, name));
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

/* Ends what dl_train_serve started, with its record. */
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

/* Encodes the worker's gradients as a message, in its own memory. */
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

/* Memory for messages, if the configuration needs it: the server's, a worker's. */
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
        worker->learned = backend->allocate(shared->bytes, "what was learned");
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

/* Places for `places` vectors, the first `count` of them with one in the server's memory. */
static void **make_slots(const dl_train_shared *shared, int places, int count, size_t bytes)
{
    void **slots = dl_calloc((size_t)places, sizeof *slots, "slots");
    for (int i = 0; i < count; i++)
        slots[i] = server_allocate(shared, bytes, "slot");
    return slots;
}

/* Slots of the workers; in async and softsync also the vectors of gradients that wait for an
 * update: with those of workers that do not wait for it, one fewer than it needs. */
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
    if (status == DL_OK) dl_average_make(shared, model);
    if (status == DL_OK) dl_train_syncer_make(shared, model);
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
    dl_average_free(shared);
    dl_train_syncer_free(shared);
    free(shared->slots);
    free(shared->spares);
    free(shared->pending);
    free(shared->state_slots);
    dl_optimizer_destroy(shared->optimizer);
}

/* Ends this process's part: another worker's reason stands, and this may be its consequence. */
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

const char *const dl_sync_names[] = {[DL_SYNC_NONE] = "none",
                                     [DL_SYNC_ALLREDUCE] = "allreduce",
                                     [DL_SYNC_PS] = "ps",
                                     [DL_SYNC_AVERAGE] = "average",
                                     [DL_SYNC_ASYNC] = "async",
                                     [DL_SYNC_SOFTSYNC] = "softsync",
                                     [DL_SYNC_ASYNC_AVERAGE] = "async_average",
                                     [DL_SYNC_ASYNC_AVERAGE + 1] = NULL};

/* Slice boundaries are multiples of this many numbers: 64 bytes of float, so that no two workers
 * write the same cache line. */
#define SLICE_NUMBERS 16

void dl_train_slice_of(size_t count, int parts, int index, size_t *first, size_t *size)
{
    const size_t units = (count + SLICE_NUMBERS - 1) / SLICE_NUMBERS;
    const size_t begin = units * (size_t)index / (size_t)parts * SLICE_NUMBERS;
    const size_t end = units * (size_t)(index + 1) / (size_t)parts * SLICE_NUMBERS;
    *first = begin;
    *size = (end < count ? end : count) - begin;
}

/* Worker `worker` averages its slice of `parts` of the workers' vectors into `result`. */
static void average_slice_of(dl_train_worker *worker, void *result, void *const *vectors,
                             size_t count, int parts)
{
    const dl_train_config *config = worker->shared->config;
    size_t first, size;
    dl_train_slice_of(count, parts, worker->index, &first, &size);
    dl_train_serve(worker);
    dl_train_average_vectors(worker->shared, result, vectors, config->workers, first, size);
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

/* All-reduce through memory. The slots are the workers' own gradients. Two barriers are enough: the
 * result is read after the second one and written again only after the next step's first one, which
 * a worker reaches after its read; and a worker overwrites its gradients only after the second one,
 * when all have read them. */
static void average_gradients(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    const bool alone =
        config->where == DL_TRAIN_WHERE_GPU || config->dispatch == DL_DISPATCH_SINGLE;
    const int parts = alone ? 1 : config->workers;
    if (shared->ranks != NULL && worker->index == 0) {
        dl_train_ranks_meet(worker);
        dl_train_ranks_average(worker, shared->result, shared->slots, shared->count,
                               DL_TRAIN_NAME_GRADIENTS);
    }
    if (shared->ranks != NULL || worker->index >= parts) return;
    average_slice_of(worker, shared->result, shared->slots, shared->count, parts);
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_GRADIENTS, config->workers, parts,
                          shared->bytes);
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

static void take_gradients(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_train_pull(worker, dl_model_gradients(worker->model), shared->result, shared->bytes,
                  DL_TRAIN_NAME_GRADIENTS);
    dl_train_update_replica(worker);
}

/* All-reduce between devices: of gradients, or after the update of parameters and state. */
static void reduce_gradients(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_launch(worker);
    shared->config->device->all_reduce(dl_model_gradients(worker->model), shared->count);
}

int dl_sync_phases(const dl_train_worker *worker)
{
    const dl_train_config *config = worker->shared->config;
    const bool between = config->sync == DL_SYNC_AVERAGE &&
                         (worker->step + 1) % (worker->interval / config->fragments) != 0;
    return between ? 1 : worker->shared->mode->phase_count;
}

static void update_and_reduce(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_update_replica(worker);
    if (dl_sync_phases(worker) == 1) return;
    size_t state_count;
    void *state = dl_optimizer_state(worker->optimizer, &state_count);
    shared->config->device->all_reduce(dl_model_parameters(worker->model), shared->count);
    if (shared->state_count > 0) shared->config->device->all_reduce(state, state_count);
}

/* Recorded as arithmetic of all workers, however it is done. */
static void mark_reduced(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const uint32_t workers = (uint32_t)shared->whole->workers;
    const bool gradients = shared->config->sync == DL_SYNC_ALLREDUCE;
    if (dl_sync_phases(worker) == 1) return;
    dl_train_launched(
        worker, (dl_record){.kind = DL_RECORD_AVERAGE,
                            .name = dl_train_name_id(shared, gradients ? DL_TRAIN_NAME_GRADIENTS
                                                                       : DL_TRAIN_NAME_PARAMETERS),
                            .vectors = workers,
                            .threads = workers,
                            .bytes = shared->bytes + shared->state_bytes});
}

/* ps. The server's parameters are read after the second barrier and written between the two. */
static void push_to_server(dl_train_worker *worker)
{
    dl_train_push_gradients(worker);
    /* One worker counts the update, while none applies: all do that after the barrier. */
    const dl_train_shared *shared = worker->shared;
    if (worker->index != 0) return;
    dl_train_begin_update(shared->optimizer, shared->config, shared->data->count,
                          worker->step * shared->config->batch);
}

static void update_server(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    if (worker->index >= config->server_threads) return;
    size_t first, size;
    dl_train_slice_of(shared->count, config->server_threads, worker->index, &first, &size);
    average_slice_of(worker, shared->result, shared->slots, shared->count, config->server_threads);
    dl_optimizer_apply(shared->optimizer, shared->parameters, shared->result, first, size);
    dl_train_mark_average(worker, DL_PHASE_UPDATE, DL_TRAIN_NAME_GRADIENTS, config->workers,
                          config->server_threads, shared->bytes);
}

static const dl_sync_mode modes[] = {
    [DL_SYNC_NONE] = {.free_running = true, .phase_count = 1, .phases = {dl_train_update_replica}},
    [DL_SYNC_ALLREDUCE] = {.result = true,
                           .phase_count = 3,
                           .phases = {NULL, average_gradients, take_gradients}},
    [DL_SYNC_PS] = {.slots = true,
                    .result = true,
                    .server = true,
                    .phase_count = 3,
                    .phases = {push_to_server, update_server, dl_train_pull_parameters}},
    [DL_SYNC_AVERAGE] = {.slots = true,
                         .result = true,
                         .phase_count = 3,
                         .phases = {dl_average_push, dl_average_combine, dl_average_pull}},
    [DL_SYNC_ASYNC] = {.slots = true,
                       .server = true,
                       .free_running = true,
                       .phase_count = 1,
                       .phases = {dl_train_exchange_server}},
    [DL_SYNC_SOFTSYNC] = {.slots = true,
                          .result = true,
                          .server = true,
                          .free_running = true,
                          .phase_count = 1,
                          .phases = {dl_train_exchange_server}},
    [DL_SYNC_ASYNC_AVERAGE] = {.result = true,
                               .syncer = true,
                               .free_running = true,
                               .phase_count = 1,
                               .phases = {dl_train_exchange_syncer}},
};

static const dl_sync_mode lagging_average = {
    .slots = true, .result = true, .phase_count = 1, .phases = {dl_average_lagging}};

static const dl_sync_mode in_step = {.phase_count = 2, .phases = {dl_train_update_replica, NULL}};

/* Reductions between devices; on one worker they do nothing. */
static const dl_sync_mode device_allreduce = {.collective = true,
                                              .phase_count = 2,
                                              .phases = {reduce_gradients, dl_train_update_replica},
                                              .reduced = mark_reduced};
static const dl_sync_mode device_average = {.collective = true,
                                            .phase_count = 2,
                                            .phases = {update_and_reduce, NULL},
                                            .reduced = mark_reduced};

/* allreduce of gradients that are pushed: from devices, or as messages. */
static const dl_sync_mode pushed_allreduce = {
    .slots = true,
    .result = true,
    .phase_count = 3,
    .phases = {dl_train_push_gradients, average_gradients, take_gradients}};

const dl_sync_mode *dl_sync_mode_of(const dl_train_config *config)
{
    if (dl_train_is_collective(config)) {
        return config->sync == DL_SYNC_AVERAGE ? &device_average : &device_allreduce;
    }
    if (config->sync == DL_SYNC_NONE && config->in_step) return &in_step;
    if (config->sync == DL_SYNC_AVERAGE && config->lag > 0) return &lagging_average;
    const bool pushed = config->device != NULL || config->quantise != DL_QUANTISE_NONE;
    return config->sync == DL_SYNC_ALLREDUCE && pushed ? &pushed_allreduce : &modes[config->sync];
}
