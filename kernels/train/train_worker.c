#include "kernels/train/train_worker.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/random.h"
#include "common/units.h"

uint32_t dl_train_name_id(const dl_train_shared *shared, dl_train_name name)
{
    return (uint32_t)shared->operations + (uint32_t)name;
}

void dl_train_shuffle(uint64_t seed, int64_t epoch, uint32_t *order, uint32_t count)
{
    dl_random stream;
    dl_random_init(&stream, seed, 0, (uint32_t)epoch, 0);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    dl_random_shuffle(&stream, order, count);
}

/* Makes worker->order the permutation of `epoch`: every worker draws the same one, so none waits
 * for another. */
static void shuffle(dl_train_worker *worker, int64_t epoch)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_shuffle(shared->config->seed, epoch, worker->order, (uint32_t)shared->data->count);
    worker->epoch = epoch;
}

/* Fills the model's input with this worker's share of the step's batch: positions step*batch +
 * index*share ... of the endless sequence of shuffled epochs. */
static void input(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const int share = shared->batch_per_worker;
    const int64_t count = (int64_t)shared->data->count;
    const int64_t first = worker->step * shared->whole->batch +
                          (int64_t)(shared->first_worker + worker->index) * share;
    for (int i = 0; i < share; i++) {
        const int64_t epoch = (first + i) / count;
        if (epoch != worker->epoch) shuffle(worker, epoch);
        worker->samples[i] = worker->order[(first + i) % count];
    }
    const dl_precision precision = shared->config->precision;
    dl_data_set_batch(shared->data, worker->samples, share, precision,
                      dl_model_input(worker->model), dl_model_labels(worker->model));
    const dl_record fields = {.kind = DL_RECORD_INPUT,
                              .name = dl_train_name_id(shared, DL_TRAIN_NAME_INPUT),
                              .bytes = (uint64_t)share * shared->data->sample_bytes *
                                       dl_precision_bytes(precision)};
    dl_train_mark(worker, fields);
    dl_train_issue(worker);
    if (worker->device == NULL) return;
    dl_model_upload(worker->model, share);
    dl_train_issued(worker, fields);
}

/* On a device with fp16 the loss was scaled; its last backward operation includes this. */
static void unscale(dl_train_worker *worker)
{
    const dl_train_config *config = worker->shared->config;
    if (worker->device == NULL || config->device_settings.math != DL_DEVICE_MATH_FP16) return;
    config->device->unscale(dl_model_gradients(worker->model), worker->shared->count);
}

static void compute(dl_train_worker *worker)
{
    const int share = worker->shared->batch_per_worker;
    const int operations = worker->shared->operations;
    for (int op = 0; op < operations; op++) {
        dl_model_forward(worker->model, op, share);
        dl_train_issued(worker, (dl_record){.kind = DL_RECORD_COMPUTE,
                                            .phase = DL_PHASE_FORWARD,
                                            .name = (uint32_t)op});
    }
    for (int op = operations - 1; op >= 0; op--) {
        dl_model_backward(worker->model, op, share);
        if (op == 0) unscale(worker);
        dl_train_issued(worker, (dl_record){.kind = DL_RECORD_COMPUTE,
                                            .phase = DL_PHASE_BACKWARD,
                                            .name = (uint32_t)op});
    }
}

static void repeat_passes(dl_train_worker *worker)
{
    const int share = worker->shared->batch_per_worker;
    const int operations = worker->shared->operations;
    for (int op = 0; op < operations; op++)
        dl_model_forward(worker->model, op, share);
    for (int op = operations - 1; op >= 0; op--)
        dl_model_backward(worker->model, op, share);
    unscale(worker);
}

/* On a device only whole passes are repeated, as many that `factor` is right on average: with 1.5,
 * every other step has a second pass. Sleeping on the host instead would leave the device idle,
 * which a slower one is not, and give what it lacks to workers that share it. */
static void slow_device_down(dl_train_worker *worker, double factor)
{
    const double extra = factor - 1, step = (double)worker->step;
    const int64_t passes = (int64_t)(floor((step + 1) * extra) - floor(step * extra));
    if (passes == 0) return;
    for (int64_t again = 0; again < passes; again++)
        repeat_passes(worker);
    dl_train_issued(worker,
                    (dl_record){.kind = DL_RECORD_SLOWDOWN,
                                .name = dl_train_name_id(worker->shared, DL_TRAIN_NAME_SLOWDOWN)});
}

/* Prolongs forward and backward, which have used CPU time since start_cpu_ns, by `factor`: a device
 * that takes f times as long also loads memory and caches f times as long, so the passes are run
 * again (they overwrite what they computed with the same values), and only a rest of less than one
 * pass is spun away. CPU time, not wall time: where threads share a core, a slow device would not
 * run faster while the others wait. */
static void slow_down(dl_train_worker *worker, double factor, int64_t start_cpu_ns)
{
    const int64_t pass_ns = dl_clock_thread_cpu_ns() - start_cpu_ns;
    const int64_t until_ns = start_cpu_ns + (int64_t)(factor * (double)pass_ns);
    for (int again = 1; again + 1 <= factor; again++)
        repeat_passes(worker);
    if (factor > floor(factor)) {
        while (dl_clock_thread_cpu_ns() < until_ns)
            dl_cpu_relax();
    }
    dl_train_mark(worker,
                  (dl_record){.kind = DL_RECORD_SLOWDOWN,
                              .name = dl_train_name_id(worker->shared, DL_TRAIN_NAME_SLOWDOWN)});
}

void dl_train_update(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_optimizer_scale_rate(worker->optimizer,
                            dl_train_rate_factor(shared->config, shared->data->count,
                                                 worker->step * shared->whole->batch));
    dl_optimizer_begin(worker->optimizer);
    dl_train_issue(worker);
    for (int op = 0; op < worker->shared->operations; op++) {
        size_t first, count;
        dl_model_operation_parameters(worker->model, op, &first, &count);
        if (count == 0) continue;
        dl_optimizer_apply(worker->optimizer, dl_model_parameters(worker->model),
                           dl_model_gradients(worker->model), first, count);
        dl_train_issued(
            worker,
            (dl_record){.kind = DL_RECORD_COMPUTE, .phase = DL_PHASE_UPDATE, .name = (uint32_t)op});
    }
}

/* All meet, and the devices are idle. */
static void meet(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_train_settle(worker);
    dl_barrier_wait(&shared->barrier);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_BARRIER)});
}

/* The ranks meet while their devices work, which reduce among themselves. */
void dl_train_meet_beside(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    if (shared->ranks == NULL || !shared->mode->collective || worker->index != 0) return;
    if (dl_sync_phases(worker) > 1) dl_train_ranks_meet(worker);
}

static void exchange(dl_train_worker *worker)
{
    const dl_sync_mode *mode = worker->shared->mode;
    const int phases = dl_sync_phases(worker);
    for (int p = 0; p < phases; p++) {
        if (p > 0 && !mode->collective) meet(worker);
        if (mode->phases[p] != NULL) mode->phases[p](worker);
        if (p == 0 && mode->reduced != NULL) mode->reduced(worker);
    }
    dl_train_meet_beside(worker);
}

void dl_train_step_begin(dl_train_worker *worker, int64_t start_ns)
{
    worker->border_ns = start_ns;
    worker->staleness = DL_NO_STALENESS;
}

void dl_train_step_compute(dl_train_worker *worker)
{
    const double *slow = worker->shared->config->slow;
    const double factor = slow != NULL ? slow[worker->index] : 1;
    const int64_t start_cpu_ns = factor > 1 ? dl_clock_thread_cpu_ns() : 0;
    input(worker);
    compute(worker);
    if (factor > 1 && worker->device != NULL) {
        slow_device_down(worker, factor);
    } else if (factor > 1) {
        slow_down(worker, factor, start_cpu_ns);
    }
}

/* Space for one more step is there but when the number of steps has doubled. */
static void keep_duration(dl_train_worker *worker, int64_t duration_ns)
{
    if (worker->step == worker->step_capacity) {
        worker->step_capacity *= 2;
        worker->step_ns = dl_realloc(worker->step_ns, (size_t)worker->step_capacity,
                                     sizeof *worker->step_ns, "durations of steps");
    }
    worker->step_ns[worker->step] = duration_ns;
}

int64_t dl_train_step_end(dl_train_worker *worker, int64_t start_ns)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_settle(worker);
    const int64_t end_ns = dl_clock_ns();
    keep_duration(worker, end_ns - start_ns);
    if (shared->observer != NULL && worker->status == DL_OK) {
        const dl_record step = {.kind = DL_RECORD_STEP,
                                .name = dl_train_name_id(shared, DL_TRAIN_NAME_STEP),
                                .staleness = worker->staleness};
        dl_train_tell(worker);
        dl_train_tell_one(worker, step, start_ns, end_ns);
    }
    if (worker->step == 0) worker->first_loss = dl_model_loss(worker->model);
    worker->end_ns = end_ns;
    const bool noted = dl_train_note_point(worker);
    return worker->device == NULL && !noted ? end_ns : dl_clock_ns();
}

/* One step; returns the start of the next one. */
static int64_t run_step(dl_train_worker *worker, int64_t start_ns)
{
    dl_train_step_begin(worker, start_ns);
    dl_train_step_compute(worker);
    exchange(worker);
    return dl_train_step_end(worker, start_ns);
}

/* Whether the run goes on behind a step. A stop must not let some workers wait in a barrier for
 * others that have left. The modes whose workers meet therefore stop where all meet, behind the
 * coming barrier: worker 0 names the end before it enters that barrier, so that the others, which
 * cannot have passed it, know behind it. */
bool dl_train_goes_on(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    const bool failed = atomic_load_explicit(&shared->failed, memory_order_relaxed);
    const bool stop = shared->ranks != NULL ? atomic_load(&shared->agreed_stop)
                                            : dl_train_stopped(config) || failed;
    /* There nobody here waits for another worker, and the ranks were told. */
    if (failed && shared->ranks != NULL && shared->mode->collective) return false;
    if (stop && shared->mode->free_running) return false;
    if (stop && worker->index == 0) {
        const int64_t interval = config->sync == DL_SYNC_AVERAGE ? config->interval : 1;
        const int64_t end = (worker->step / interval + 1) * interval;
        if (end < atomic_load_explicit(&shared->last_step, memory_order_relaxed)) {
            atomic_store_explicit(&shared->last_step, end, memory_order_relaxed);
        }
    }
    return worker->step < atomic_load_explicit(&shared->last_step, memory_order_relaxed) &&
           !atomic_load_explicit(&shared->ended, memory_order_relaxed);
}

dl_status dl_train_worker_pin(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    return dl_cpu_pin((shared->config->first_core + worker->index) % shared->cores, &worker->err);
}

void dl_train_use(const dl_train_worker *worker)
{
    if (worker->device != NULL) worker->shared->config->device->use(worker->device);
}

/* A step without data or update: the device's libraries choose their ways and get their memory. */
static dl_status rehearse(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_model_upload(worker->model, shared->batch_per_worker);
    for (int op = 0; op < shared->operations; op++)
        dl_model_forward(worker->model, op, shared->batch_per_worker);
    for (int op = shared->operations - 1; op >= 0; op--)
        dl_model_backward(worker->model, op, shared->batch_per_worker);
    return shared->backend->wait(&worker->err);
}

static dl_status make_worker(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    dl_train_use(worker);
    dl_status status = dl_model_create_on(&worker->model, config->model, shared->backend,
                                          shared->batch_per_worker, config->seed, &worker->err);
    if (status != DL_OK) return status;
    if (!shared->mode->server) {
        status = dl_optimizer_create_on(&worker->optimizer, &config->optimizer, shared->backend,
                                        shared->count, &worker->err);
        if (status != DL_OK) return status;
    }
    if (!shared->mode->slots) shared->slots[worker->index] = dl_model_gradients(worker->model);
    worker->order = dl_calloc(shared->data->count, sizeof *worker->order, "order of samples");
    worker->samples =
        dl_calloc((size_t)shared->batch_per_worker, sizeof *worker->samples, "samples of a batch");
    shuffle(worker, 0);
    dl_train_make_message(worker);
    return worker->device != NULL ? rehearse(worker) : DL_OK;
}

void dl_train_worker_set_up(dl_train_worker *worker)
{
    worker->status = make_worker(worker);
}

bool dl_train_wait_at_gate(dl_train_shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    shared->ready++;
    pthread_cond_broadcast(&shared->changed);
    while (shared->gate == DL_TRAIN_HOLD)
        pthread_cond_wait(&shared->changed, &shared->mutex);
    const bool go = shared->gate == DL_TRAIN_GO;
    pthread_mutex_unlock(&shared->mutex);
    return go;
}

void *dl_train_worker_run(void *argument)
{
    dl_train_worker *worker = argument;
    dl_train_shared *shared = worker->shared;
    worker->status = dl_train_worker_pin(worker);
    if (worker->status == DL_OK) dl_train_worker_set_up(worker);
    if (!dl_train_wait_at_gate(shared)) return NULL;
    /* Threads leave the gate one by one as they are woken; behind the barrier all start at once. */
    dl_barrier_wait(&shared->barrier);
    worker->start_ns = dl_clock_ns();
    int64_t next_ns = worker->start_ns;
    do {
        next_ns = run_step(worker, next_ns);
        worker->step++;
    } while (dl_train_goes_on(worker));
    if (shared->mode->free_running) {
        pthread_mutex_lock(&shared->mutex);
        atomic_store_explicit(&shared->ended, true, memory_order_relaxed);
        pthread_cond_broadcast(&shared->changed);
        pthread_mutex_unlock(&shared->mutex);
    }
    worker->last_loss = dl_model_loss(worker->model);
    return NULL;
}

void dl_train_worker_free(dl_train_worker *worker)
{
    free(worker->samples);
    free(worker->order);
    free(worker->pending);
    free(worker->step_ns);
    dl_train_use(worker);
    dl_train_free_message(worker);
    dl_optimizer_destroy(worker->optimizer);
    dl_model_destroy(worker->model);
    if (worker->server != worker->device) worker->shared->config->device->close(worker->server);
    if (worker->device != NULL) worker->shared->config->device->close(worker->device);
}
