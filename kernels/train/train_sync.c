#include "kernels/train/train_worker.h"

const char *const dl_sync_names[] = {
    [DL_SYNC_NONE] = "none",      [DL_SYNC_ALLREDUCE] = "allreduce",
    [DL_SYNC_PS] = "ps",          [DL_SYNC_AVERAGE] = "average",
    [DL_SYNC_ASYNC] = "async",    [DL_SYNC_SOFTSYNC] = "softsync",
    [DL_SYNC_SOFTSYNC + 1] = NULL};

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

/* Worker `worker` averages its slice of `parts` of the workers' vectors into `result`. */
static void average_slice(dl_train_worker *worker, void *result, void *const *vectors, size_t count,
                          int parts)
{
    const dl_train_config *config = worker->shared->config;
    size_t first, size;
    slice(count, parts, worker->index, &first, &size);
    dl_train_serve(worker);
    dl_train_average(worker->shared, result, vectors, config->workers, first, size);
}

/* The first worker of each rank, for all of them. */
static void average_over_ranks(dl_train_worker *worker, dl_train_name name)
{
    const dl_train_shared *shared = worker->shared;
    if (worker->index != 0) return;
    dl_train_ranks_meet(worker);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_BARRIER)});
    dl_train_ranks_average(worker, shared->result, shared->slots, shared->count, name);
    if (shared->state_count == 0) return;
    dl_train_ranks_average(worker, shared->state_result, shared->state_slots, shared->state_count,
                           DL_TRAIN_NAME_STATE);
}

/* allreduce through memory. The slots are the workers' own gradients. Two barriers are enough: the
 * result is read behind the second one and written again only behind the next step's first one,
 * which a worker reaches after its read; and a worker overwrites its gradients only behind the
 * second one, when all have read them. */
static void average_gradients(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    const bool alone =
        config->where == DL_TRAIN_WHERE_GPU || config->dispatch == DL_DISPATCH_SINGLE;
    const int parts = alone ? 1 : config->workers;
    if (shared->ranks != NULL) {
        average_over_ranks(worker, DL_TRAIN_NAME_GRADIENTS);
        return;
    }
    if (worker->index >= parts) return;
    average_slice(worker, shared->result, shared->slots, shared->count, parts);
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_GRADIENTS, config->workers, parts,
                          shared->bytes);
}

static void take_gradients(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_train_pull(worker, dl_model_gradients(worker->model), shared->result, shared->bytes,
                  DL_TRAIN_NAME_GRADIENTS);
    dl_train_update(worker);
}

/* Between devices: gradients, or behind the update parameters and state. */
static void reduce_gradients(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_issue(worker);
    shared->config->device->all_reduce(dl_model_gradients(worker->model), shared->count);
}

static void update_and_reduce(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_update(worker);
    if (dl_sync_phases(worker) == 1) return;
    size_t state_count;
    void *state = dl_optimizer_state(worker->optimizer, &state_count);
    shared->config->device->all_reduce(dl_model_parameters(worker->model), shared->count);
    if (shared->state_count > 0) shared->config->device->all_reduce(state, state_count);
}

/* Recorded as arithmetic of all workers, whatever it is made of. */
static void mark_reduced(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const uint32_t workers = (uint32_t)shared->whole->workers;
    const bool gradients = shared->config->sync == DL_SYNC_ALLREDUCE;
    if (dl_sync_phases(worker) == 1) return;
    dl_train_issued(
        worker, (dl_record){.kind = DL_RECORD_AVERAGE,
                            .name = dl_train_name_id(shared, gradients ? DL_TRAIN_NAME_GRADIENTS
                                                                       : DL_TRAIN_NAME_PARAMETERS),
                            .vectors = workers,
                            .threads = workers,
                            .bytes = shared->bytes + shared->state_bytes});
}

/* ps. The server's parameters are read behind the second barrier and written between the two. */
static void push_to_server(dl_train_worker *worker)
{
    dl_train_push_gradients(worker);
    /* One of the workers counts the update, while no one applies: all do that behind the barrier.
     */
    const dl_train_shared *shared = worker->shared;
    if (worker->index != 0) return;
    dl_optimizer_scale_rate(shared->optimizer,
                            dl_train_rate_factor(shared->config, shared->data->count,
                                                 worker->step * shared->config->batch));
    dl_optimizer_begin(shared->optimizer);
}

static void update_server(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    if (worker->index >= config->server_threads) return;
    size_t first, size;
    slice(shared->count, config->server_threads, worker->index, &first, &size);
    average_slice(worker, shared->result, shared->slots, shared->count, config->server_threads);
    dl_optimizer_apply(shared->optimizer, shared->parameters, shared->result, first, size);
    dl_train_mark_average(worker, DL_PHASE_UPDATE, DL_TRAIN_NAME_GRADIENTS, config->workers,
                          config->server_threads, shared->bytes);
}

/* average. As in allreduce, the next push comes behind the second barrier, when the slots were
 * read, and the next averaging behind the next first barrier, when the result was. */
static void update_and_push(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_update(worker);
    if (dl_sync_phases(worker) == 1) return;
    dl_train_push(worker, shared->slots[worker->index], dl_model_parameters(worker->model),
                  shared->bytes, DL_TRAIN_NAME_PARAMETERS);
    if (shared->state_count == 0) return;
    size_t state_count;
    const void *state = dl_optimizer_state(worker->optimizer, &state_count);
    dl_train_push(worker, shared->state_slots[worker->index], state, shared->state_bytes,
                  DL_TRAIN_NAME_STATE);
}

static void average_parameters(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    if (shared->ranks != NULL) {
        average_over_ranks(worker, DL_TRAIN_NAME_PARAMETERS);
        return;
    }
    if (worker->index >= config->server_threads) return;
    average_slice(worker, shared->result, shared->slots, shared->count, config->server_threads);
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_PARAMETERS, config->workers,
                          config->server_threads, shared->bytes);
    if (shared->state_count == 0) return;
    average_slice(worker, shared->state_result, shared->state_slots, shared->state_count,
                  config->server_threads);
    dl_train_mark_average(worker, DL_PHASE_NONE, DL_TRAIN_NAME_STATE, config->workers,
                          config->server_threads, shared->state_bytes);
}

static void pull_averages(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_pull(worker, dl_model_parameters(worker->model), shared->result, shared->bytes,
                  DL_TRAIN_NAME_PARAMETERS);
    if (shared->state_count == 0) return;
    size_t state_count;
    void *state = dl_optimizer_state(worker->optimizer, &state_count);
    dl_train_pull(worker, state, shared->state_result, shared->state_bytes, DL_TRAIN_NAME_STATE);
}

static const dl_sync_mode modes[] = {
    [DL_SYNC_NONE] = {.free_running = true, .phase_count = 1, .phases = {dl_train_update}},
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
                         .phases = {update_and_push, average_parameters, pull_averages}},
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
};

/* Reductions between devices; on one worker they do nothing. */
static const dl_sync_mode device_allreduce = {.collective = true,
                                              .phase_count = 2,
                                              .phases = {reduce_gradients, dl_train_update},
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

bool dl_train_is_collective(const dl_train_config *config)
{
    const bool unsaid = config->where == DL_TRAIN_WHERE_AUTO;
    if (config->device == NULL) return false;
    if (config->sync == DL_SYNC_AVERAGE) return config->where == DL_TRAIN_WHERE_ALLREDUCE;
    return config->sync == DL_SYNC_ALLREDUCE &&
           (unsaid || config->where == DL_TRAIN_WHERE_ALLREDUCE);
}

const dl_sync_mode *dl_sync_mode_of(const dl_train_config *config)
{
    if (dl_train_is_collective(config)) {
        return config->sync == DL_SYNC_AVERAGE ? &device_average : &device_allreduce;
    }
    const bool pushed = config->device != NULL || config->quantise != DL_QUANTISE_NONE;
    return config->sync == DL_SYNC_ALLREDUCE && pushed ? &pushed_allreduce : &modes[config->sync];
}

int dl_sync_phases(const dl_train_worker *worker)
{
    const dl_train_config *config = worker->shared->config;
    const bool between =
        config->sync == DL_SYNC_AVERAGE && (worker->step + 1) % config->interval != 0;
    return between ? 1 : worker->shared->mode->phase_count;
}
