#include "kernels/train_worker.h"

const char *const dl_sync_names[] = {
    [DL_SYNC_NONE] = "none",       [DL_SYNC_ALLREDUCE] = "allreduce", [DL_SYNC_PS] = "ps",
    [DL_SYNC_AVERAGE] = "average", [DL_SYNC_ASYNC] = "async",         [DL_SYNC_ASYNC + 1] = NULL};

/* Slice borders are multiples of this many numbers: 64 bytes of float, so that no two workers write
 * the same cache line. */
#define SLICE_NUMBERS 16

/* Slice `index` of `parts` of a vector of `count` numbers. */
static void slice(size_t count, int parts, int index, size_t *first, size_t *size)
{
    const size_t units = (count + SLICE_NUMBERS - 1) / SLICE_NUMBERS;
    const size_t begin = units * (size_t)index / (size_t)parts * SLICE_NUMBERS;
    const size_t end = units * (size_t)(index + 1) / (size_t)parts * SLICE_NUMBERS;
    *first = begin;
    *size = (end < count ? end : count) - begin;
}

static void meet(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_barrier_wait(&shared->barrier);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_BARRIER)});
}

static void copy(dl_train_worker *worker, void *to, const void *from, size_t bytes, dl_phase phase,
                 dl_train_name name)
{
    dl_exchange_copy(to, from, bytes);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_COPY,
                                      .phase = phase,
                                      .name = dl_train_name_id(worker->shared, name),
                                      .bytes = bytes});
}

/* Records the arithmetic of `threads` workers on `vectors` vectors of `bytes` each. */
static void mark_average(dl_train_worker *worker, dl_phase phase, dl_train_name name, int vectors,
                         int threads, size_t bytes)
{
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_AVERAGE,
                                      .phase = phase,
                                      .name = dl_train_name_id(worker->shared, name),
                                      .vectors = (uint32_t)vectors,
                                      .threads = (uint32_t)threads,
                                      .bytes = bytes});
}

/* Worker `worker` averages its slice of `parts` of the workers' vectors into `result`. */
static void average_slice(dl_train_worker *worker, void *result, void *const *vectors, size_t count,
                          int parts)
{
    const dl_train_config *config = worker->shared->config;
    size_t first, size;
    slice(count, parts, worker->index, &first, &size);
    dl_exchange_average(result, (const void *const *)vectors, config->workers, first, size,
                        config->precision);
}

static void exchange_none(dl_train_worker *worker)
{
    dl_train_update(worker);
}

/* The slots are the workers' own gradients. Two barriers are enough: the result is read behind the
 * second one and written again only behind the next step's first one, which a worker reaches after
 * its read; and a worker overwrites its gradients only behind the second one, when all have read
 * them. */
static void exchange_allreduce(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const int workers = shared->config->workers;
    meet(worker);
    average_slice(worker, shared->result, shared->slots, shared->count, workers);
    mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_GRADIENTS, workers, workers, shared->bytes);
    meet(worker);
    copy(worker, dl_model_gradients(worker->model), shared->result, shared->bytes, DL_PHASE_PULL,
         DL_TRAIN_NAME_GRADIENTS);
    dl_train_update(worker);
}

/* The server's parameters are read behind the second barrier and written between the two. */
static void exchange_ps(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    copy(worker, shared->slots[worker->index], dl_model_gradients(worker->model), shared->bytes,
         DL_PHASE_PUSH, DL_TRAIN_NAME_GRADIENTS);
    /* One of the workers counts the update, while no one applies: all do that behind the barrier.
     */
    if (worker->index == 0) dl_optimizer_begin(shared->optimizer);
    meet(worker);
    if (worker->index < config->server_threads) {
        size_t first, size;
        slice(shared->count, config->server_threads, worker->index, &first, &size);
        average_slice(worker, shared->result, shared->slots, shared->count, config->server_threads);
        dl_optimizer_apply(shared->optimizer, shared->parameters, shared->result, first, size);
        mark_average(worker, DL_PHASE_UPDATE, DL_TRAIN_NAME_GRADIENTS, config->workers,
                     config->server_threads, shared->bytes);
    }
    meet(worker);
    copy(worker, dl_model_parameters(worker->model), shared->parameters, shared->bytes,
         DL_PHASE_PULL, DL_TRAIN_NAME_PARAMETERS);
}

/* As in allreduce, the next push comes behind the second barrier, when the slots were read, and the
 * next averaging behind the next first barrier, when the result was. */
static void exchange_average(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    dl_train_update(worker);
    if ((worker->step + 1) % config->interval != 0) return;
    const bool with_state = shared->state_count > 0;
    size_t state_count;
    void *state = dl_optimizer_state(worker->optimizer, &state_count);
    void *parameters = dl_model_parameters(worker->model);

    copy(worker, shared->slots[worker->index], parameters, shared->bytes, DL_PHASE_PUSH,
         DL_TRAIN_NAME_PARAMETERS);
    if (with_state) {
        copy(worker, shared->state_slots[worker->index], state, shared->state_bytes, DL_PHASE_PUSH,
             DL_TRAIN_NAME_STATE);
    }
    meet(worker);
    if (worker->index < config->server_threads) {
        average_slice(worker, shared->result, shared->slots, shared->count, config->server_threads);
        mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_PARAMETERS, config->workers,
                     config->server_threads, shared->bytes);
        if (with_state) {
            average_slice(worker, shared->state_result, shared->state_slots, shared->state_count,
                          config->server_threads);
            mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_STATE, config->workers,
                         config->server_threads, shared->state_bytes);
        }
    }
    meet(worker);
    copy(worker, parameters, shared->result, shared->bytes, DL_PHASE_PULL,
         DL_TRAIN_NAME_PARAMETERS);
    if (with_state) {
        copy(worker, state, shared->state_result, shared->state_bytes, DL_PHASE_PULL,
             DL_TRAIN_NAME_STATE);
    }
}

/* The slot is this worker's inbox at the server. Parameters, optimizer and version belong to the
 * holder of the lock; the pull is under it too, so that a worker never reads half an update. */
static void exchange_async(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    void *inbox = shared->slots[worker->index];
    copy(worker, inbox, dl_model_gradients(worker->model), shared->bytes, DL_PHASE_PUSH,
         DL_TRAIN_NAME_GRADIENTS);
    dl_lock_acquire(&shared->lock);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_LOCK)});
    worker->staleness = shared->version - worker->read_version;
    dl_optimizer_begin(shared->optimizer);
    dl_optimizer_apply(shared->optimizer, shared->parameters, inbox, 0, shared->count);
    worker->read_version = ++shared->version;
    mark_average(worker, DL_PHASE_UPDATE, DL_TRAIN_NAME_GRADIENTS, 1, 1, shared->bytes);
    copy(worker, dl_model_parameters(worker->model), shared->parameters, shared->bytes,
         DL_PHASE_PULL, DL_TRAIN_NAME_PARAMETERS);
    dl_lock_release(&shared->lock);
}

const dl_sync_mode dl_sync_modes[] = {
    [DL_SYNC_NONE] = {.free_running = true, .exchange = exchange_none},
    [DL_SYNC_ALLREDUCE] = {.result = true, .exchange = exchange_allreduce},
    [DL_SYNC_PS] = {.slots = true, .result = true, .server = true, .exchange = exchange_ps},
    [DL_SYNC_AVERAGE] = {.slots = true, .result = true, .exchange = exchange_average},
    [DL_SYNC_ASYNC] = {.slots = true,
                       .server = true,
                       .free_running = true,
                       .exchange = exchange_async},
};
