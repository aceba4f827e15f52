/* A training run: settings of this process, devices, threads, and the steps of each worker. With
 * dispatch single, one thread launches the steps of all workers, like the session or main thread of
 * a framework that drives every GPU: worker after worker, phase after phase. The devices run
 * concurrently, but each starts only when the thread reaches it. */
#include "kernels/train/train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/units.h"
#include "kernels/pinned_threads.h"
#include "kernels/train/train.h"

/* Fills the model's input with this worker's samples of the step: positions step*batch +
 * index*share ... of the endless sequence of shuffled epochs. */
static void input(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const int share = worker->samples;
    const int64_t first =
        worker->step * shared->whole->batch +
        (int64_t)(shared->first_worker + worker->index) * shared->batch_per_worker;
    dl_train_reader_fill(&worker->reader, worker->model, first, share);
    const dl_record fields = {.kind = DL_RECORD_INPUT,
                              .name = dl_train_name_id(shared, DL_TRAIN_NAME_INPUT),
                              .bytes = (uint64_t)share * shared->data->sample_bytes *
                                       dl_precision_bytes(shared->config->precision)};
    dl_train_mark(worker, fields);
    dl_train_launch(worker);
    if (worker->device == NULL) return;
    dl_model_upload(worker->model, share);
    dl_train_launched(worker, fields);
}

/* On a device with fp16 the loss was scaled; its last backward operation includes the unscaling. */
static void unscale(dl_train_worker *worker)
{
    const dl_train_config *config = worker->shared->config;
    if (worker->device == NULL || config->device_settings.math != DL_DEVICE_MATH_FP16) return;
    config->device->unscale(dl_model_gradients(worker->model), worker->shared->count);
}

static void compute(dl_train_worker *worker)
{
    const int share = worker->samples;
    const int operations = worker->shared->operations;
    for (int op = 0; op < operations; op++) {
        dl_model_forward(worker->model, op, share);
        dl_train_launched(worker, (dl_record){.kind = DL_RECORD_COMPUTE,
                                              .phase = DL_PHASE_FORWARD,
                                              .name = (uint32_t)op});
    }
    for (int op = operations - 1; op >= 0; op--) {
        dl_model_backward(worker->model, op, share);
        if (op == 0) unscale(worker);
        dl_train_launched(worker, (dl_record){.kind = DL_RECORD_COMPUTE,
                                              .phase = DL_PHASE_BACKWARD,
                                              .name = (uint32_t)op});
    }
}

static void repeat_passes(dl_train_worker *worker)
{
    dl_model_pass(worker->model, worker->samples);
    unscale(worker);
}

/* On a device only whole passes are repeated, so that `factor` holds on average: with 1.5 every
 * other step has a second pass. Sleeping on the host would instead leave the device idle, and give
 * its time to the workers that share it, unlike on a slower device. */
static void slow_device_down(dl_train_worker *worker, double factor)
{
    const double extra = factor - 1, step = (double)worker->step;
    const int64_t passes = (int64_t)(floor((step + 1) * extra) - floor(step * extra));
    if (passes == 0) return;
    for (int64_t again = 0; again < passes; again++)
        repeat_passes(worker);
    dl_train_launched(
        worker, (dl_record){.kind = DL_RECORD_SLOWDOWN,
                            .name = dl_train_name_id(worker->shared, DL_TRAIN_NAME_SLOWDOWN)});
}

/* Prolongs by `factor` the computation that began at start_cpu_ns: the filling of the input, the
 * forward and the backward pass. A slower device also loads memory and caches for longer, so the
 * passes are run again (with the same results), and only a fractional part of the factor is spent
 * spinning. Measures CPU time, since wall time also includes the time in which other threads have
 * the core. */
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

/* Waits for the worker's device, then for all workers. */
static void wait_for_all(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    dl_train_synchronize(worker);
    dl_barrier_wait(&shared->barrier);
    dl_train_mark(worker, (dl_record){.kind = DL_RECORD_WAIT,
                                      .name = dl_train_name_id(shared, DL_TRAIN_NAME_BARRIER)});
}

/* With collective modes the ranks meet while their devices reduce. */
static void ranks_barrier_beside(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    if (shared->ranks == NULL || !shared->mode->collective || worker->index != 0) return;
    if (dl_sync_phases(worker) > 1) dl_train_ranks_barrier(worker);
}

static void exchange(dl_train_worker *worker)
{
    const dl_sync_mode *mode = worker->shared->mode;
    const int phases = dl_sync_phases(worker);
    for (int p = 0; p < phases; p++) {
        if (p > 0 && !mode->collective) wait_for_all(worker);
        if (mode->phases[p] != NULL) mode->phases[p](worker);
        if (p == 0 && mode->reduced != NULL) mode->reduced(worker);
    }
    ranks_barrier_beside(worker);
}

/* Calls the observer, if it asks for it, when a step of the first worker begins or ends. */
static void tell_step(const dl_train_worker *worker, bool begins)
{
    const dl_train_observer *observer = worker->shared->observer;
    if (observer == NULL || observer->step == NULL || worker->index != 0) return;
    observer->step(observer->user, worker->step, begins);
}

static void step_begin(dl_train_worker *worker, int64_t start_ns)
{
    tell_step(worker, true);
    worker->boundary_ns = start_ns;
    worker->samples = dl_train_step_samples(
        worker->shared->whole, worker->shared->first_worker + worker->index, worker->step);
    worker->staleness = DL_NO_STALENESS;
}

static void step_compute(dl_train_worker *worker)
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

/* Keeps the duration of a step; doubles the list when it is full. */
static void keep_duration(dl_train_worker *worker, int64_t duration_ns)
{
    if (worker->step == worker->step_capacity) {
        worker->step_capacity *= 2;
        worker->step_ns = dl_realloc(worker->step_ns, (size_t)worker->step_capacity,
                                     sizeof *worker->step_ns, "durations of steps");
    }
    worker->step_ns[worker->step] = duration_ns;
}

/* Copies the worker's parameters to the host. A failure of the device ends the run at the next
 * step. */
static double *fetch(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    DL_AUTOFREE void *fetched = dl_alloc_aligned(shared->bytes, "parameters of a point");
    shared->backend->download(fetched, dl_model_parameters(worker->model), shared->bytes);
    dl_train_synchronize(worker);
    return dl_train_as_double(fetched, shared->count, shared->config->precision);
}

/* Keeps the worker's parameters if a point is due after its step; returns whether the call took
 * noticeable time. */
static bool note_point(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    const int64_t steps = worker->step + 1;
    if (config->evaluate_every == 0 || worker->index != 0) return false;
    dl_train_points_loss(&shared->points, dl_model_loss(worker->model));
    if (config->sync == DL_SYNC_AVERAGE && steps % worker->interval != 0) return true;
    if (!dl_train_points_due(&shared->points, steps, config->evaluate_every)) return true;
    dl_train_points_add(&shared->points,
                        &(dl_train_point){.update = dl_train_updates(worker, steps),
                                          .samples = dl_train_samples(worker, steps),
                                          .simulated_s = (double)NAN,
                                          .parameters = fetch(worker)});
    return true;
}

static int64_t step_end(dl_train_worker *worker, int64_t start_ns)
{
    const dl_train_shared *shared = worker->shared;
    dl_train_synchronize(worker);
    const int64_t end_ns = dl_clock_ns();
    keep_duration(worker, end_ns - start_ns);
    worker->samples_done += worker->samples;
    if (shared->observer != NULL && worker->status == DL_OK) {
        const dl_record step = {.kind = DL_RECORD_STEP,
                                .name = dl_train_name_id(shared, DL_TRAIN_NAME_STEP),
                                .staleness = worker->staleness};
        dl_train_emit(worker);
        dl_train_emit_one(worker, step, start_ns, end_ns);
    }
    tell_step(worker, false);
    if (worker->step == 0) worker->first_loss = dl_model_loss(worker->model);
    worker->end_ns = end_ns;
    const bool noted = note_point(worker);
    return worker->device == NULL && !noted ? end_ns : dl_clock_ns();
}

/* One step; returns the start of the next one. */
static int64_t run_step(dl_train_worker *worker, int64_t start_ns)
{
    step_begin(worker, start_ns);
    step_compute(worker);
    exchange(worker);
    return step_end(worker, start_ns);
}

/* Whether the run continues after a step. No worker may be left in a barrier by others that have
 * stopped. Modes with barriers therefore stop after the next one: worker 0 sets the last step
 * before it enters that barrier, and the others, which cannot have passed it, read the value after
 * it. */
static bool run_goes_on(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    const bool failed = atomic_load_explicit(&shared->failed, memory_order_relaxed);
    const bool stop = shared->ranks != NULL ? atomic_load(&shared->agreed_stop)
                                            : dl_train_stopped(config) || failed;
    /* In collective modes no worker waits for another here, and the other ranks were notified. */
    if (failed && shared->ranks != NULL && shared->mode->collective) return false;
    if (stop && shared->mode->free_running) return false;
    if (stop && worker->index == 0) {
        const int64_t end = config->sync == DL_SYNC_AVERAGE
                                ? dl_average_stop(config, dl_train_run_steps(worker, worker->step))
                                : worker->step + 1;
        if (end < atomic_load_explicit(&shared->last_step, memory_order_relaxed)) {
            atomic_store_explicit(&shared->last_step, end, memory_order_relaxed);
        }
    }
    const int64_t last_step = atomic_load_explicit(&shared->last_step, memory_order_relaxed);
    return worker->step < dl_train_own_steps(worker, last_step) &&
           !atomic_load_explicit(&shared->ended, memory_order_relaxed);
}

/* A step without data and an update of nothing: the device's libraries choose algorithms
 * and allocate memory, and kernels are loaded. Once devices reduce this could block for ever, as it
 * waits for the work of one or all of them (github.com/NVIDIA/nccl/issues/613, 744). */
static dl_status warm_up(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    dl_model_upload(worker->model, shared->batch_per_worker);
    dl_model_pass(worker->model, shared->batch_per_worker);
    unscale(worker);
    if (worker->optimizer != NULL) {
        dl_optimizer_apply(worker->optimizer, dl_model_parameters(worker->model),
                           dl_model_gradients(worker->model), 0, 0);
    }
    return shared->backend->wait(&worker->err);
}

static dl_status make_worker(dl_train_worker *worker)
{
    const dl_train_shared *shared = worker->shared;
    const dl_train_config *config = shared->config;
    dl_train_use(worker);
    dl_status status = dl_model_create_like(&worker->model, shared->initial, shared->backend,
                                            dl_train_most_samples(config), &worker->err);
    if (status != DL_OK) return status;
    if (!shared->mode->server) {
        status = dl_optimizer_create_on(&worker->optimizer, &config->optimizer, shared->backend,
                                        shared->count, &worker->err);
        if (status != DL_OK) return status;
    }
    if (!shared->mode->slots) shared->slots[worker->index] = dl_model_gradients(worker->model);
    if (shared->gradients != NULL)
        shared->gradients[worker->index] = dl_model_gradients(worker->model);
    dl_train_reader_init(&worker->reader, shared->data, config->seed,
                         dl_train_most_samples(config));
    dl_train_make_message(worker);
    return worker->device != NULL ? warm_up(worker) : DL_OK;
}

/* Makes the worker's model and its other data; on a device, runs the model once, so that algorithms
 * are chosen and memory is allocated before the start. The result goes to worker->status. */
static void worker_set_up(dl_train_worker *worker)
{
    worker->status = make_worker(worker);
}

/* Returns the first failure of a worker; DL_OK if there is none. */
static dl_status worker_status(const dl_train_shared *shared, dl_error *err)
{
    for (int w = 0; w < shared->config->workers; w++) {
        const dl_train_worker *worker = &shared->workers[w];
        if (worker->status == DL_OK) continue;
        if (worker->lost_rank) return dl_error_set(err, worker->status, "%s", worker->err.text);
        return dl_error_set(err, worker->status, "worker %d: %s", w, worker->err.text);
    }
    return DL_OK;
}

/* Before the start: returns `status`, or DL_ERR_SYSTEM if another rank's set-up failed; the others
 * hear of this rank's failure. */
static dl_status ranks_ready(const dl_train_shared *shared, dl_status status, dl_error *err)
{
    dl_rank_group *ranks = shared->ranks;
    bool failed = false;
    if (ranks == NULL) return status;
    if (status == DL_OK) return ranks->agree(ranks, false, &failed, err);
    ranks->abandon(ranks, err);
    return status;
}

/* Called in each thread after its set-up. Returns whether all workers, those of other ranks
 * included, could be set up. If not, no worker starts: the others would wait forever. */
static bool all_set_up(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    (void)pthread_barrier_wait(&shared->set_up);
    if (worker->index == 0) {
        dl_model_destroy(shared->initial);
        shared->initial = NULL;
        const dl_status status = worker_status(shared, &shared->err);
        shared->status = ranks_ready(shared, status, &shared->err);
    }
    (void)pthread_barrier_wait(&shared->set_up);
    return shared->status == DL_OK;
}

/* Runs a worker from its set-up to its last step. */
static void worker_run(dl_train_worker *worker)
{
    dl_train_shared *shared = worker->shared;
    worker_set_up(worker);
    if (!all_set_up(worker)) return;
    /* Threads leave the set-up barrier one by one, as they are woken; this barrier gives them a
     * common start. */
    dl_barrier_wait(&shared->barrier);
    worker->start_ns = dl_clock_ns();
    int64_t next_ns = worker->start_ns;
    do {
        next_ns = run_step(worker, next_ns);
        worker->step++;
    } while (run_goes_on(worker));
    if (shared->mode->free_running) dl_train_free_running_end(shared);
    worker->last_loss = dl_model_loss(worker->model);
}

/* Thread function: thread `index` % threads of worker `index` / threads. */
static void thread_run(void *user, int index)
{
    const dl_train_shared *shared = user;
    const int threads = shared->config->threads;
    dl_train_worker *worker = &shared->workers[index / threads];
    if (index % threads > 0) {
        dl_thread_team_serve(worker->team);
        return;
    }
    dl_thread_team_lead(worker->team);
    worker_run(worker);
    dl_thread_team_dismiss(worker->team);
}

/* Frees what the worker owns. */
static void worker_free(dl_train_worker *worker)
{
    dl_train_reader_free(&worker->reader);
    dl_thread_team_free(worker->team);
    free(worker->pending);
    free(worker->step_ns);
    dl_train_use(worker);
    dl_train_free_message(worker);
    dl_optimizer_destroy(worker->optimizer);
    dl_model_destroy(worker->model);
    if (worker->server != worker->device) worker->shared->config->device->close(worker->server);
    if (worker->device != NULL) worker->shared->config->device->close(worker->device);
}

/* Launches the grouped reductions, by device->group(false), and records them. */
static void end_reduction(dl_train_shared *shared)
{
    const dl_sync_mode *mode = shared->mode;
    shared->config->device->group(false);
    for (int w = 0; mode->reduced != NULL && w < shared->config->workers; w++) {
        dl_train_use(&shared->workers[w]);
        mode->reduced(&shared->workers[w]);
    }
}

/* Runs every worker's phase in turn, then waits for all devices, except in collective modes. */
static void run_phase(dl_train_shared *shared, int phase)
{
    const dl_sync_mode *mode = shared->mode;
    const bool together = mode->collective && phase == 0;
    if (mode->phases[phase] == NULL) return;
    if (together) shared->config->device->group(true);
    for (int w = 0; w < shared->config->workers; w++) {
        dl_train_worker *worker = &shared->workers[w];
        dl_train_use(worker);
        /* Time spent in other workers' phases does not count as this worker's. */
        if (!worker->launching) worker->boundary_ns = dl_clock_ns();
        mode->phases[phase](worker);
    }
    if (together) end_reduction(shared);
    for (int w = 0; !mode->collective && w < shared->config->workers; w++) {
        dl_train_use(&shared->workers[w]);
        dl_train_synchronize(&shared->workers[w]);
    }
}

static void run_step_of_all(dl_train_shared *shared)
{
    dl_train_worker *workers = shared->workers;
    const int count = shared->config->workers;
    const int64_t start_ns = dl_clock_ns();
    for (int w = 0; w < count; w++) {
        dl_train_use(&workers[w]);
        step_begin(&workers[w], dl_clock_ns());
        step_compute(&workers[w]);
    }
    const int phases = dl_sync_phases(&workers[0]);
    for (int p = 0; p < phases; p++)
        run_phase(shared, p);
    ranks_barrier_beside(&workers[0]);
    for (int w = 0; w < count; w++) {
        dl_train_use(&workers[w]);
        (void)step_end(&workers[w], start_ns);
    }
}

/* Thread function for all workers of a run. */
static void single_run(void *user, int index DL_UNUSED)
{
    dl_train_shared *shared = user;
    dl_train_worker *workers = shared->workers;
    const int count = shared->config->workers;
    for (int w = 0; w < count; w++)
        worker_set_up(&workers[w]);
    if (!all_set_up(&workers[0])) return;
    for (int w = 0; w < count; w++)
        workers[w].start_ns = dl_clock_ns();
    bool goes_on = true;
    while (goes_on) {
        run_step_of_all(shared);
        for (int w = 0; w < count; w++) {
            workers[w].step++;
            goes_on = run_goes_on(&workers[w]);
        }
    }
    for (int w = 0; w < count; w++) {
        dl_train_use(&workers[w]);
        workers[w].last_loss = dl_model_loss(workers[w].model);
    }
}

/* Opens the worker's slot on a device and, if the server is on another device, a slot there. */
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

static bool device_lost(void *user)
{
    dl_rank_group *group = user;
    return group->lost(group);
}

/* Rank 0's id of the group, and whether it could be made. */
typedef struct identity {
    bool made;
    char id[DL_DEVICE_ID_BYTES];
} identity;

/* Makes the devices of all ranks' workers one group. */
static dl_status ranks_join(const dl_train_shared *shared, dl_device *const *devices, dl_error *err)
{
    const dl_device_type *type = shared->config->device;
    identity of = {0};
    dl_status made = DL_OK;
    if (shared->ranks->rank == 0) {
        made = type->make_id(of.id, err);
        of.made = made == DL_OK;
    }
    const dl_status status =
        shared->ranks->broadcast(shared->ranks, &of, sizeof of, made == DL_OK ? err : NULL);
    if (made != DL_OK) return made;
    if (status != DL_OK) return status;
    if (!of.made) {
        return dl_error_set(err, DL_ERR_SYSTEM, "rank 0 could not start a reduction between GPUs");
    }
    dl_device_ranks ranks = {.first = shared->first_worker,
                             .count = shared->whole->workers,
                             .limit_s = shared->ranks->limit_s,
                             .lost = device_lost,
                             .user = shared->ranks};
    memcpy(ranks.id, of.id, sizeof ranks.id);
    return type->join(devices, shared->config->workers, &ranks, err);
}

/* Opens a slot on a device for each worker, in turn; the calling thread then uses the first one. */
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
        DL_AUTOFREE dl_device **devices =
            dl_calloc((size_t)config->workers, sizeof *devices, "devices");
        for (int w = 0; w < config->workers; w++)
            devices[w] = shared->workers[w].device;
        status = shared->ranks != NULL ? ranks_join(shared, devices, err)
                                       : type->join(devices, config->workers, NULL, err);
    }
    if (status == DL_OK) dl_train_use(&shared->workers[0]);
    return status;
}

/* Sets this process's part of `whole`: config, own, ranks, first_worker. */
static dl_status take_part(dl_train_shared *shared, dl_error *err)
{
    const dl_train_config *whole = shared->whole;
    dl_train_config *own = &shared->own;
    *own = *whole;
    shared->config = own;
    if (whole->ranks == NULL) return DL_OK;
    const int ranks = dl_train_rank_count(whole);
    shared->ranks = whole->ranks;
    own->ranks = NULL;
    own->workers = whole->workers / ranks;
    own->batch = whole->batch / ranks;
    own->sites = whole->sites / ranks;
    shared->first_worker = shared->ranks->rank * own->workers;
    if (whole->slow != NULL) own->slow = whole->slow + shared->first_worker;
    const int before = shared->ranks->local_rank * own->workers;
    own->first_core += before * own->threads;
    int devices = 0;
    if (whole->device == NULL) return DL_OK;
    const dl_status status = whole->device->count(&devices, err);
    if (status != DL_OK) return status;
    /* A launcher may show each rank only its own devices, which then have the same numbers. */
    const int all = whole->devices > 0 ? whole->devices : devices - whole->first_device;
    own->first_device += before % all;
    if (whole->devices > 0) own->devices -= before % all;
    return DL_OK;
}

/* Sets up everything except the threads. After a failure free_shared releases what exists. */
static dl_status init_shared(dl_train_shared *shared, const dl_train_config *whole,
                             const dl_data_set *data, const dl_train_observer *observer,
                             dl_error *err)
{
    *shared = (dl_train_shared){
        .whole = whole, .data = data, .observer = observer, .last_step = whole->steps};
    dl_status status = take_part(shared, err);
    const dl_train_config *config = shared->config;
    shared->mode = dl_sync_mode_of(config);
    shared->backend =
        config->device != NULL ? config->device->backend : dl_backend_cpu(config->precision);
    shared->batch_per_worker = config->batch / config->workers;
    shared->wait = dl_train_wait(config);
    dl_barrier_init(&shared->barrier, config->workers, shared->wait);
    dl_lock_init(&shared->lock, shared->wait);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&shared->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    shared->workers = dl_calloc((size_t)config->workers, sizeof *shared->workers, "workers");
    for (int w = 0; w < config->workers; w++) {
        shared->workers[w] =
            (dl_train_worker){.shared = shared,
                              .index = w,
                              .interval = dl_train_interval_of(whole, shared->first_worker + w),
                              .computes = true};
    }

    if (status == DL_OK) {
        status = dl_model_create(&shared->initial, config->model, config->precision, 1,
                                 config->seed, err);
    }
    if (status != DL_OK) return status;
    dl_model *model = shared->initial;
    shared->count = dl_model_parameter_count(model);
    shared->bytes = dl_model_parameter_bytes(model);
    shared->operations = dl_model_operation_count(model);
    status = dl_train_check_data(data, config->model, err);
    if (status == DL_OK) status = open_devices(shared, err);
    if (status != DL_OK) return status;
    dl_average_make(shared, model);
    status = dl_train_server_make(shared, model, err);
    if (status == DL_OK) dl_train_syncer_make(shared, model);
    return status;
}

static void free_shared(dl_train_shared *shared)
{
    dl_model_destroy(shared->initial);
    dl_train_server_free(shared);
    dl_average_free(shared);
    dl_train_syncer_free(shared);
    dl_train_points_free(&shared->points);
    for (int w = 0; w < shared->config->workers; w++)
        worker_free(&shared->workers[w]);
    free(shared->workers);
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->mutex);
    dl_lock_free(&shared->lock);
    dl_barrier_free(&shared->barrier);
}

/* Durations allocated at the start, 32 KiB per worker; the list grows for more steps. */
#define STEPS_AT_FIRST ((int64_t)1 << 12)

/* Runs the threads of each worker, or one thread for all workers. */
static dl_status run_threads(dl_train_shared *shared, dl_error *err)
{
    const dl_train_config *config = shared->config;
    const bool single = config->dispatch == DL_DISPATCH_SINGLE;
    const int threads = single ? 1 : config->workers * config->threads;
    const dl_backend *backend = shared->backend;
    dl_status status = DL_OK;
    if (backend->start_threads != NULL) status = backend->start_threads(threads, err);
    int cores[DL_TRAIN_WORKERS_MAX];
    for (int t = 0; t < threads; t++)
        cores[t] = (config->first_core + t) % dl_train_cores(config);
    for (int w = 0; w < config->workers; w++) {
        dl_train_worker *worker = &shared->workers[w];
        worker->step_capacity = config->steps < STEPS_AT_FIRST ? config->steps : STEPS_AT_FIRST;
        worker->step_ns = dl_alloc_aligned((size_t)worker->step_capacity * sizeof *worker->step_ns,
                                           "durations of steps");
        worker->team = dl_thread_team_make(config->threads, shared->wait);
    }
    pthread_barrier_init(&shared->set_up, NULL, single ? 1 : (unsigned)config->workers);
    if (status == DL_OK) status = dl_train_syncer_start(shared, err);
    if (status == DL_OK) {
        status =
            dl_pinned_threads_run(threads, cores, single ? single_run : thread_run, shared, err);
    }
    dl_train_syncer_join(shared);
    pthread_barrier_destroy(&shared->set_up);
    if (status != DL_OK) return ranks_ready(shared, status, err);
    if (shared->status == DL_OK) shared->status = worker_status(shared, &shared->err);
    if (shared->status != DL_OK && err != NULL) *err = shared->err;
    return shared->status;
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
