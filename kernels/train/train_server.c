/* The server of async and softsync, which differ in the gradients per update. The lock protects the
 * server's parameters, optimizer, version and lists; a worker also pulls under it, and so never
 * reads a partial update. A worker pushes to its slot. While a gradient waits for an update, its
 * vector is in the list `pending`, and the worker's slot gets a spare vector; so no gradient is
 * copied. */
#include <pthread.h>
#include <stdatomic.h>

#include "kernels/train/train_internal.h"

/* Adds the gradient in the worker's slot to those of the next update. Its staleness is that of its
 * parameters at the current version, which this update changes. */
static void contribute(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    worker->staleness = shared->version - worker->read_version;
    worker->computes = false;
    /* The learning rate of a gradient that is t updates stale is 1/t of the configured one (Zhang
     * et al. 2016, "Staleness-aware async-SGD", with 1 for t = 0). The gradient is divided instead,
     * since the gradients of an update differ in staleness. */
    if (shared->config->staleness_rate) {
        dl_train_scale(shared->slots[worker->index], shared->count, shared->config->precision,
                       dl_train_staleness_rate(worker->staleness));
    }
    shared->pending[shared->pending_count++] = shared->slots[worker->index];
    shared->slots[worker->index] = NULL;
}

/* Returns whether an update now would leave every gradient that a worker is computing within the
 * staleness bound. */
static bool may_update(const dl_train_shared *shared)
{
    const int64_t bound = shared->config->bound;
    if (bound < 0) return true;
    for (int w = 0; w < shared->config->workers; w++) {
        const dl_train_worker *other = &shared->workers[w];
        if (other->computes && shared->version + 1 - other->read_version > bound) return false;
    }
    return true;
}

/* Wakes threads that wait for an update, which exist only with a bound. */
static void publish(dl_train_shared *shared)
{
    if (shared->config->bound < 0) return;
    pthread_mutex_lock(&shared->mutex);
    shared->published = shared->version;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}

/* Applies the mean of all pending gradients. */
static void update(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const int count = shared->pending_count;
    const void *gradient = shared->pending[0];
    dl_train_serve(worker);
    if (count > 1) {
        dl_train_average_vectors(shared, shared->result, shared->pending, count, 0, shared->count);
        gradient = shared->result;
    }
    dl_train_begin_update(shared->optimizer, shared->config, shared->data->count,
                          dl_train_gradients_per_update(shared->config) * shared->version *
                              shared->batch_per_worker);
    dl_optimizer_apply(shared->optimizer, shared->parameters, gradient, 0, shared->count);
    shared->version++;
    for (int i = 0; i < count; i++)
        shared->spares[shared->spare_count++] = shared->pending[i];
    shared->pending_count = 0;
    dl_train_mark_average(worker, DL_PHASE_UPDATE, DL_TRAIN_NAME_GRADIENTS, count, 1,
                          shared->bytes);
    publish(shared);
}

/* Waits, without the lock, until an update includes the worker's gradient or the run has ended. */
static void wait_for_update(dl_train_worker *worker, int64_t contributed_version)
{
    dl_train_shared *shared = worker->shared;
    pthread_mutex_lock(&shared->mutex);
    while (shared->published <= contributed_version &&
           !atomic_load_explicit(&shared->ended, memory_order_relaxed)) {
        pthread_cond_wait(&shared->changed, &shared->mutex);
    }
    if (shared->published <= contributed_version) worker->staleness = DL_NO_STALENESS;
    pthread_mutex_unlock(&shared->mutex);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_BARRIER)});
}

static void acquire(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_lock_acquire(&shared->lock);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_LOCK)});
}

/* Pulls the server's parameters, under the lock, and gives the worker a vector for its slot. There
 * is a spare vector for every worker, except for those that waited for an update until the run
 * ended, which need none. */
static void pull(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    if (shared->spare_count > 0) {
        shared->slots[worker->index] = shared->spares[--shared->spare_count];
    }
    worker->read_version = shared->version;
    worker->computes = true;
    dl_train_pull_parameters(worker);
    dl_train_synchronize(worker);
}

void dl_train_exchange_server(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_train_push_gradients(worker);
    dl_train_synchronize(worker);
    acquire(worker);
    contribute(worker);
    const int64_t version = shared->version;
    const bool due = shared->pending_count >= dl_train_gradients_per_update(shared->config);
    if (due && may_update(shared)) {
        update(worker);
    } else if (due) {
        dl_lock_release(&shared->lock);
        wait_for_update(worker, version);
        acquire(worker);
    }
    pull(worker);
    dl_lock_release(&shared->lock);
}
