/* The sync modes: the part of a step after its backward pass, by the functions of train_exchange.c.
 * The server of async and softsync is in train_server.c, averages of parameters in
 * train_average.c. */
#include "kernels/train/train_internal.h"

/* Averages the worker's slice of `parts` of the workers' vectors into `result`. */
static void average_slice_of(dl_train_worker *worker, void *result, void *const *vectors,
                             size_t count, int parts)
{
    const dl_train_config *config = worker->shared->config;
    size_t first, size;
    dl_train_slice_of(count, parts, worker->index, &first, &size);
    dl_train_serve(worker);
    dl_train_average_vectors(worker->shared, result, vectors, config->workers, first, size);
}

/* All-reduce through memory. The slots are the workers' own gradients. Two barriers suffice: a
 * worker reads the result after the second barrier and before the next step's first one, after
 * which the result is written again; and it overwrites its gradients only after the second barrier,
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

static void take_gradients(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_train_pull(worker, dl_model_gradients(worker->model), shared->result, shared->bytes,
                  DL_TRAIN_NAME_GRADIENTS);
    dl_train_update_replica(worker);
}

/* All-reduce between devices: of the gradients, or of parameters and state after the update. */
static void reduce_gradients(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_launch(worker);
    shared->config->device->all_reduce(dl_model_gradients(worker->model), shared->count);
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

/* Records a reduction as arithmetic of all workers, however the devices do it. */
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

/* Mode ps. The server's parameters are written between the two barriers and read after the
 * second. */
static void push_to_server(dl_train_worker *worker)
{
    dl_train_push_gradients(worker);
    /* One worker counts the update; after the barrier, server_threads workers apply a part of it
     * each. */
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

/* Reductions between devices; with one worker they do nothing. */
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
