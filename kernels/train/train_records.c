/* Records of a step. On the processor the observer gets each one as soon as it ends. On a device
 * the host does not see operations end: marks are recorded between them and converted to times
 * after the step, so that recording does not lengthen the step. */
#include "common/alloc.h"
#include "common/units.h"
#include "kernels/train/train_internal.h"

uint32_t dl_train_name_id(const dl_train_shared *shared, dl_train_name name)
{
    return (uint32_t)shared->operations + (uint32_t)name;
}

void dl_train_use(const dl_train_worker *worker)
{
    if (worker->device != NULL) worker->shared->config->device->use(worker->device);
}

void dl_train_emit_one(const dl_train_worker *worker, dl_record fields, int64_t start_ns,
                       int64_t end_ns)
{
    const dl_train_observer *observer = worker->shared->observer;
    fields.worker = (uint32_t)(worker->shared->first_worker + worker->index);
    fields.step = (uint32_t)worker->step;
    fields.samples = (uint32_t)worker->samples;
    fields.start_ns = start_ns;
    fields.duration_ns = end_ns - start_ns;
    observer->record(observer->user, &fields);
}

/* Whether the observer wants more than steps. */
static bool is_observed(const dl_train_worker *worker)
{
    const dl_train_observer *observer = worker->shared->observer;
    return observer != NULL && !observer->steps_only;
}

static dl_train_pending *add_pending(dl_train_worker *worker, dl_record fields)
{
    if (worker->pending_count == worker->pending_capacity) {
        worker->pending_capacity = 2 * worker->pending_capacity + 64;
        worker->pending = dl_realloc(worker->pending, worker->pending_capacity,
                                     sizeof *worker->pending, "records of a step");
    }
    dl_train_pending *pending = &worker->pending[worker->pending_count++];
    *pending = (dl_train_pending){.fields = fields};
    return pending;
}

void dl_train_mark(dl_train_worker *worker, dl_record fields)
{
    if (!is_observed(worker)) return;
    fields.staleness = DL_NO_STALENESS;
    const int64_t now_ns = dl_clock_ns();
    if (worker->device == NULL) {
        dl_train_emit_one(worker, fields, worker->boundary_ns, now_ns);
    } else {
        dl_train_pending *pending = add_pending(worker, fields);
        pending->start_ns = worker->boundary_ns;
        pending->end_ns = now_ns;
    }
    worker->boundary_ns = now_ns;
}

void dl_train_launch(dl_train_worker *worker)
{
    if (worker->device == NULL || !is_observed(worker) || worker->launching) return;
    worker->launching = true;
    worker->first_mark = worker->marks;
    worker->first_pending = worker->pending_count;
    worker->launch_ns = dl_clock_ns();
    worker->shared->config->device->mark(worker->marks++);
}

void dl_train_launched(dl_train_worker *worker, dl_record fields)
{
    if (worker->device == NULL) {
        dl_train_mark(worker, fields);
        return;
    }
    if (!is_observed(worker)) return;
    DL_ASSERT(worker->launching, "worker %d, mark %zu", worker->index, worker->marks);
    fields.staleness = DL_NO_STALENESS;
    dl_train_pending *pending = add_pending(worker, fields);
    pending->on_device = true;
    pending->from = worker->marks - 1;
    pending->to = worker->marks;
    worker->shared->config->device->mark(worker->marks++);
}

void dl_train_synchronize(dl_train_worker *worker)
{
    if (worker->device == NULL) return;
    dl_train_shared *shared = worker->shared;
    if (worker->status == DL_OK) {
        worker->status = shared->backend->wait(&worker->err);
        if (worker->status != DL_OK) {
            atomic_store_explicit(&shared->failed, true, memory_order_relaxed);
            /* A device has failed, and other ranks' devices must not wait for it. */
            if (shared->ranks != NULL && shared->mode->collective)
                shared->ranks->abandon(shared->ranks, &worker->err);
        }
    }
    if (!worker->launching) return;
    worker->launching = false;
    worker->boundary_ns = dl_clock_ns();
    for (size_t i = worker->first_pending; i < worker->pending_count; i++) {
        worker->pending[i].first = worker->first_mark;
        worker->pending[i].start_ns = worker->launch_ns;
        worker->pending[i].end_ns = worker->boundary_ns;
    }
}

/* Host time of a mark, ns: at most the end that the host measured for all launched operations,
 * since the device's clock may run at another rate. */
static int64_t mark_ns(const dl_train_worker *worker, const dl_train_pending *pending, size_t mark)
{
    const double since_ns = worker->shared->config->device->between_ns(pending->first, mark);
    const int64_t at_ns = pending->start_ns + (int64_t)since_ns;
    return at_ns < pending->end_ns ? at_ns : pending->end_ns;
}

void dl_train_emit(dl_train_worker *worker)
{
    int64_t last_ns = INT64_MIN;
    for (size_t i = 0; worker->status == DL_OK && i < worker->pending_count; i++) {
        const dl_train_pending *pending = &worker->pending[i];
        if (!pending->on_device) {
            dl_train_emit_one(worker, pending->fields, pending->start_ns, pending->end_ns);
            continue;
        }
        /* One operation ends where the next one starts, so each mark is read once. */
        const bool first = pending->from == pending->first;
        const int64_t from_ns = first ? pending->start_ns : last_ns;
        const int64_t to_ns = mark_ns(worker, pending, pending->to);
        last_ns = to_ns > from_ns ? to_ns : from_ns;
        dl_train_emit_one(worker, pending->fields, from_ns, last_ns);
    }
    worker->pending_count = 0;
    worker->marks = 0;
}
