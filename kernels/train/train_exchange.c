/* What workers and the server send one another: where the server's memory is, how vectors and
 * messages get there, and who does its arithmetic.
 *
 * On the host, the thread of the worker whose turn it is computes. On a device (where = gpu) it
 * issues to `worker->server`, a place on the server's device: the worker's own place if it is on
 * that device, so that everything follows in one queue and is timed by its marks; else a second one,
 * whose work is waited for and timed by the host. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "kernels/train/train_worker.h"

static bool on_device(const dl_train_shared *shared)
{
    return shared->config->where == DL_TRAIN_WHERE_GPU;
}

static void use_server(const dl_train_shared *shared)
{
    if (on_device(shared)) shared->config->device->use(shared->workers[0].server);
}

void *dl_train_server_allocate(const dl_train_shared *shared, size_t bytes, const char *purpose)
{
    use_server(shared);
    return on_device(shared) ? shared->backend->allocate(bytes, purpose)
                             : shared->backend->allocate_host(bytes, purpose);
}

void dl_train_server_release(const dl_train_shared *shared, void *memory)
{
    if (on_device(shared)) {
        shared->backend->release(memory);
    } else {
        shared->backend->release_host(memory);
    }
}

dl_status dl_train_server_put(const dl_train_shared *shared, void *to, const void *from,
                              size_t bytes, dl_error *err)
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
    dl_train_issue(worker);
    if (on_device(shared)) {
        shared->config->device->copy_to(worker->server, to, from, bytes);
    } else {
        shared->backend->download(to, from, bytes);
    }
    dl_train_issued(worker, copy_record(worker, bytes, DL_PHASE_PUSH, name));
}

void dl_train_pull(dl_train_worker *worker, void *to, const void *from, size_t bytes,
                   dl_train_name name)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_issue(worker);
    if (on_device(shared)) {
        shared->config->device->copy_from(worker->server, to, from, bytes);
    } else {
        shared->backend->upload(to, from, bytes);
    }
    dl_train_issued(worker, copy_record(worker, bytes, DL_PHASE_PULL, name));
}

void dl_train_serve(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    if (!on_device(shared)) return;
    if (worker->server == worker->device) {
        dl_train_issue(worker);
        return;
    }
    dl_train_settle(worker);
    shared->config->device->use(worker->server);
}

/* Ends what dl_train_serve began, with its record. */
static void served(dl_train_worker *worker, dl_record fields)
{
    dl_train_shared *shared = worker->shared;
    if (!on_device(shared)) {
        dl_train_mark(worker, fields);
        return;
    }
    if (worker->server == worker->device) {
        dl_train_issued(worker, fields);
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

void dl_train_average(const dl_train_shared *shared, void *result, void *const *vectors, int n,
                      size_t first, size_t count)
{
    const void *const *list = (const void *const *)vectors;
    if (on_device(shared)) {
        DL_ASSERT(first == 0, "slice from %zu on", first);
        shared->config->device->average(result, list, n, count);
    } else {
        dl_exchange_average(result, list, n, first, count, shared->config->precision);
    }
}

/* The worker's gradients as a message, in its own memory. */
static void quantise(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const void *gradients = dl_model_gradients(worker->model);
    if (worker->device == NULL) {
        dl_quantise_encode(&shared->plan, gradients, worker->residual, worker->message,
                           shared->config->precision);
    } else {
        dl_train_issue(worker);
        shared->config->device->encode(&shared->plan, worker->blocks, gradients, worker->residual,
                                       worker->message);
    }
    dl_train_issued(
        worker, average_record(worker, DL_PHASE_NONE, DL_TRAIN_NAME_QUANTISE, 1, 1, shared->bytes));
}

/* The worker's message at the server becomes the vector in its slot. */
static void dequantise(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const void *message = shared->messages[worker->index];
    void *vector = shared->slots[worker->index];
    if (on_device(shared)) {
        dl_train_serve(worker);
        shared->config->device->decode(&shared->plan, shared->blocks, message, vector);
    } else {
        dl_train_settle(worker);
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

dl_status dl_train_make_messages(dl_train_shared *shared, const dl_model *model, dl_error *err)
{
    const int workers = shared->config->workers;
    if (shared->config->quantise == DL_QUANTISE_NONE) return DL_OK;
    dl_quantise_plan_init(&shared->plan, shared->config->quantise);
    for (int op = 0; op < shared->operations; op++) {
        size_t first, count;
        dl_model_operation_parameters(model, op, &first, &count);
        dl_quantise_plan_add(&shared->plan, count);
    }
    DL_ASSERT(shared->plan.count == shared->count, "%zu of %zu numbers", shared->plan.count,
              shared->count);
    shared->messages = dl_calloc((size_t)workers, sizeof *shared->messages, "messages");
    for (int w = 0; w < workers; w++) {
        shared->messages[w] =
            dl_train_server_allocate(shared, shared->plan.message_bytes, "message");
    }
    if (!on_device(shared)) return DL_OK;
    const size_t bytes = shared->plan.block_count * sizeof *shared->plan.blocks;
    shared->blocks = dl_train_server_allocate(shared, bytes, "blocks");
    return dl_train_server_put(shared, shared->blocks, shared->plan.blocks, bytes, err);
}

void dl_train_free_messages(dl_train_shared *shared)
{
    for (int w = 0; shared->messages != NULL && w < shared->config->workers; w++)
        dl_train_server_release(shared, shared->messages[w]);
    if (shared->blocks != NULL) dl_train_server_release(shared, shared->blocks);
    free(shared->messages);
    dl_quantise_plan_free(&shared->plan);
}

void dl_train_make_message(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const dl_backend *backend = shared->backend;
    if (shared->messages == NULL) return;
    worker->message = backend->allocate(shared->plan.message_bytes, "message");
    if (shared->plan.kind == DL_QUANTISE_1BIT) {
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
    backend->release(worker->blocks);
}
