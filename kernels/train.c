#include "kernels/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/units.h"
#include "kernels/train_worker.h"

/* Samples a forward pass of dl_train_accuracy: at most so many, and no more than fit into the bytes
 * (ResNet-50 keeps 91 MB a sample). */
#define ACCURACY_BATCH 200
#define ACCURACY_BYTES ((size_t)1 << 30)

dl_train_config dl_train_default_config(void)
{
    return (dl_train_config){
        .model = "lenet",
        .precision = DL_FLOAT,
        .optimizer = {.name = "sgd", .learning_rate = 0.01, .momentum = 0.9},
        .sync = DL_SYNC_NONE,
        .interval = 1,
        .server_threads = 1,
        .workers = 1,
        .batch = 64,
        .steps = 100,
        .seed = 1,
        .wait = DL_WAIT_AUTO,
    };
}

bool dl_train_stopped(const dl_train_config *config)
{
    return config->stop != NULL && atomic_load_explicit(config->stop, memory_order_relaxed);
}

dl_status dl_train_event_names(const dl_train_config *config, const char ***names, int *count,
                               dl_error *err)
{
    static const char *const own[DL_TRAIN_NAME_COUNT] = {
        [DL_TRAIN_NAME_INPUT] = "input",           [DL_TRAIN_NAME_GRADIENTS] = "gradients",
        [DL_TRAIN_NAME_PARAMETERS] = "parameters", [DL_TRAIN_NAME_STATE] = "state",
        [DL_TRAIN_NAME_BARRIER] = "barrier",       [DL_TRAIN_NAME_LOCK] = "lock",
        [DL_TRAIN_NAME_SLOWDOWN] = "slowdown",     [DL_TRAIN_NAME_STEP] = "step",
    };
    dl_model *model = NULL;
    dl_status status = dl_model_create(&model, config->model, config->precision, 1, 0, err);
    if (status != DL_OK) return status;
    const int operations = dl_model_operation_count(model);
    const size_t all = (size_t)operations + DL_TRAIN_NAME_COUNT;

    /* One block: the pointers, then the operations' names, which the model would take with it. */
    size_t text_bytes = 0;
    for (int op = 0; op < operations; op++) {
        text_bytes += strlen(dl_model_operation_name(model, op)) + 1;
    }
    const char **list = dl_calloc(1, all * sizeof *list + text_bytes, "names of events");
    char *text = (char *)(list + all);
    for (int op = 0; op < operations; op++) {
        const size_t bytes = strlen(dl_model_operation_name(model, op)) + 1;
        list[op] = memcpy(text, dl_model_operation_name(model, op), bytes);
        text += bytes;
    }
    for (int i = 0; i < DL_TRAIN_NAME_COUNT; i++)
        list[operations + i] = own[i];
    dl_model_destroy(model);
    *names = list;
    *count = (int)all;
    return DL_OK;
}

static dl_status check_workers(const dl_train_config *config, dl_error *err)
{
    if (config->workers < 1 || config->workers > DL_TRAIN_WORKERS_MAX) {
        return dl_error_set(err, DL_ERR_RANGE, "%d workers; must be 1 to %d", config->workers,
                            DL_TRAIN_WORKERS_MAX);
    }
    if (config->batch < config->workers || config->batch % config->workers != 0) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "batch %d cannot be shared equally by %d workers; it must be a "
                            "multiple of their number",
                            config->batch, config->workers);
    }
    if (config->first_core < 0) {
        return dl_error_set(err, DL_ERR_RANGE, "first core %d; must be 0 or more",
                            config->first_core);
    }
    if (config->cores < 0 || config->cores > dl_cpu_count()) {
        return dl_error_set(err, DL_ERR_RANGE,
                            "%d cores; this process may use 1 to %d (0 means all of them)",
                            config->cores, dl_cpu_count());
    }
    for (int w = 0; config->slow != NULL && w < config->workers; w++) {
        if (config->slow[w] >= 1 && isfinite(config->slow[w])) continue;
        return dl_error_set(err, DL_ERR_RANGE, "worker %d slowed by factor %g; must be 1 or more",
                            w, config->slow[w]);
    }
    return DL_OK;
}

static dl_status check_config(const dl_train_config *config, dl_error *err)
{
    dl_status status = check_workers(config, err);
    if (status != DL_OK) return status;
    if (config->sync < DL_SYNC_NONE || config->sync > DL_SYNC_ASYNC) {
        return dl_error_set(err, DL_ERR_RANGE, "sync mode number %d is none", (int)config->sync);
    }
    if (config->steps < 1 || config->steps > UINT32_MAX) {
        return dl_error_set(err, DL_ERR_RANGE, "%lld steps; must be 1 to %u",
                            (long long)config->steps, UINT32_MAX);
    }
    if (config->sync == DL_SYNC_AVERAGE && config->interval < 1) {
        return dl_error_set(err, DL_ERR_RANGE, "averaging interval %d; must be 1 or more",
                            config->interval);
    }
    if ((config->sync == DL_SYNC_AVERAGE || config->sync == DL_SYNC_PS) &&
        (config->server_threads < 1 || config->server_threads > config->workers)) {
        return dl_error_set(err, DL_ERR_RANGE, "%d server threads; must be 1 to %d, the workers",
                            config->server_threads, config->workers);
    }
    return DL_OK;
}

/* The set must be of the model's shape. */
static dl_status check_data(const dl_data_set *data, const dl_model *model, const char *name,
                            dl_error *err)
{
    if (data->count < 1 || data->count > UINT32_MAX) {
        return dl_error_set(err, DL_ERR_DATA, "data set '%s' has %zu samples; must be 1 to %u",
                            data->name, data->count, UINT32_MAX);
    }
    if (data->sample_bytes != dl_model_input_count(model) ||
        data->classes != dl_model_class_count(model)) {
        return dl_error_set(err, DL_ERR_DATA,
                            "data set '%s' has samples of %zu values in %d classes, but model '%s' "
                            "takes %zu in %d",
                            data->name, data->sample_bytes, data->classes, name,
                            dl_model_input_count(model), dl_model_class_count(model));
    }
    return DL_OK;
}

/* `workers` vectors, or none where bytes is 0. */
static void **make_slots(int workers, size_t bytes)
{
    void **slots = dl_calloc((size_t)workers, sizeof *slots, "slots");
    for (int w = 0; bytes > 0 && w < workers; w++)
        slots[w] = dl_alloc_aligned(bytes, "slot");
    return slots;
}

/* The server's vectors, as far as the mode has them. `model` has the common first parameters. */
static dl_status make_server(dl_train_shared *shared, dl_model *model, dl_error *err)
{
    const dl_train_config *config = shared->config;
    const dl_sync_mode *mode = shared->mode;
    dl_optimizer *optimizer = NULL;
    const dl_status status =
        dl_optimizer_create(&optimizer, &config->optimizer, config->precision, shared->count, err);
    if (status != DL_OK) return status;
    if (config->sync == DL_SYNC_AVERAGE && config->average_state) {
        (void)dl_optimizer_state(optimizer, &shared->state_count);
        shared->state_bytes = shared->state_count * dl_precision_bytes(config->precision);
        shared->state_slots = make_slots(config->workers, shared->state_bytes);
        shared->state_result = dl_alloc_aligned(shared->state_bytes, "averaged state");
    }
    shared->slots = make_slots(config->workers, mode->slots ? shared->bytes : 0);
    if (mode->result) shared->result = dl_alloc_aligned(shared->bytes, "averages");
    if (mode->server) {
        shared->parameters = dl_alloc_aligned(shared->bytes, "the server's parameters");
        memcpy(shared->parameters, dl_model_parameters(model), shared->bytes);
        shared->optimizer = optimizer;
    } else {
        dl_optimizer_destroy(optimizer);
    }
    return DL_OK;
}

static dl_wait choose_wait(const dl_train_config *config, int cores)
{
    if (config->wait != DL_WAIT_AUTO) return config->wait;
    return config->workers <= cores ? DL_WAIT_SPIN : DL_WAIT_BLOCK;
}

/* Everything but the threads. What it has made when it fails, free_shared releases. */
static dl_status init_shared(dl_train_shared *shared, const dl_train_config *config,
                             const dl_data_set *data, const dl_train_observer *observer,
                             dl_error *err)
{
    *shared = (dl_train_shared){
        .config = config, .data = data, .observer = observer, .last_step = config->steps};
    shared->mode = &dl_sync_modes[config->sync];
    shared->batch_per_worker = config->batch / config->workers;
    shared->cores = config->cores > 0 ? config->cores : dl_cpu_count();
    shared->wait = choose_wait(config, shared->cores);
    dl_barrier_init(&shared->barrier, config->workers, shared->wait);
    dl_lock_init(&shared->lock, shared->wait);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_cond_init(&shared->changed, NULL);
    shared->workers = dl_calloc((size_t)config->workers, sizeof *shared->workers, "workers");

    dl_model *model = NULL;
    dl_status status =
        dl_model_create(&model, config->model, config->precision, 1, config->seed, err);
    if (status != DL_OK) return status;
    shared->count = dl_model_parameter_count(model);
    shared->bytes = dl_model_parameter_bytes(model);
    shared->operations = dl_model_operation_count(model);
    status = check_data(data, model, config->model, err);
    if (status == DL_OK) status = make_server(shared, model, err);
    dl_model_destroy(model);
    return status;
}

static void free_shared(dl_train_shared *shared)
{
    const int workers = shared->config->workers;
    for (int w = 0; w < workers; w++) {
        dl_train_worker_free(&shared->workers[w]);
        if (shared->mode->slots && shared->slots != NULL) free(shared->slots[w]);
        if (shared->state_slots != NULL) free(shared->state_slots[w]);
    }
    free(shared->slots);
    free(shared->state_slots);
    free(shared->result);
    free(shared->state_result);
    free(shared->parameters);
    dl_optimizer_destroy(shared->optimizer);
    free(shared->workers);
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->mutex);
    dl_lock_free(&shared->lock);
    dl_barrier_free(&shared->barrier);
}

/* Waits until `started` workers are set up, lets them go if all are well, and joins them. A worker
 * that could not be set up cancels the whole run: the others would wait for it for ever. */
static dl_status run_workers(dl_train_shared *shared, int started, dl_status status, dl_error *err)
{
    pthread_mutex_lock(&shared->mutex);
    while (shared->ready < started)
        pthread_cond_wait(&shared->changed, &shared->mutex);
    for (int w = 0; status == DL_OK && w < started; w++) {
        const dl_train_worker *worker = &shared->workers[w];
        status = worker->status;
        if (status == DL_OK) continue;
        dl_error_set(err, status, "worker %d: %s", w, worker->err.text);
    }
    shared->gate = status == DL_OK ? DL_TRAIN_GO : DL_TRAIN_CANCEL;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
    for (int w = 0; w < started; w++)
        pthread_join(shared->workers[w].thread, NULL);
    return status;
}

/* Starts the workers' threads; worker w writes its steps' durations to step_ns[w * steps ...]. */
static dl_status run_threads(dl_train_shared *shared, int64_t *step_ns, dl_error *err)
{
    const dl_train_config *config = shared->config;
    dl_status status = DL_OK;
    int started = 0;
    while (status == DL_OK && started < config->workers) {
        dl_train_worker *worker = &shared->workers[started];
        worker->shared = shared;
        worker->index = started;
        worker->step_ns = step_ns + started * config->steps;
        const int reason = pthread_create(&worker->thread, NULL, dl_train_worker_run, worker);
        if (reason != 0) {
            status = dl_error_set(err, DL_ERR_SYSTEM, "cannot start the thread of worker %d: %s",
                                  started, strerror(reason));
        } else {
            started++;
        }
    }
    return run_workers(shared, started, status, err);
}

/* sum[i] += share * values[i] */
static void add_share(double *sum, const void *values, size_t count, dl_precision precision,
                      double share)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] += share * (precision == DL_FLOAT ? (double)((const float *)values)[i]
                                                 : ((const double *)values)[i]);
    }
}

/* What the run came to; takes step_ns over. */
static void make_result(const dl_train_shared *shared, int64_t *step_ns, dl_train_result *result)
{
    const dl_train_config *config = shared->config;
    const double share = 1.0 / config->workers;
    dl_train_result made = {.step_ns = step_ns, .parameter_count = shared->count};
    made.parameters = dl_calloc(shared->count, sizeof *made.parameters, "final parameters");
    made.steps_done = dl_calloc((size_t)config->workers, sizeof *made.steps_done, "steps done");
    int64_t start_ns = INT64_MAX, end_ns = INT64_MIN, steps_done = 0;
    for (int w = 0; w < config->workers; w++) {
        const dl_train_worker *worker = &shared->workers[w];
        if (worker->start_ns < start_ns) start_ns = worker->start_ns;
        if (worker->end_ns > end_ns) end_ns = worker->end_ns;
        made.steps_done[w] = worker->step;
        steps_done += worker->step;
        made.first_loss += share * worker->first_loss;
        made.last_loss += share * worker->last_loss;
        if (shared->mode->server) continue;
        add_share(made.parameters, dl_model_parameters(worker->model), shared->count,
                  config->precision, share);
    }
    if (shared->mode->server) {
        add_share(made.parameters, shared->parameters, shared->count, config->precision, 1);
    }
    made.seconds = dl_ns_to_s((double)(end_ns - start_ns));
    made.samples_per_s = (double)shared->batch_per_worker * (double)steps_done / made.seconds;
    *result = made;
}

dl_status dl_train_run(const dl_train_config *config, const dl_data_set *data,
                       const dl_train_observer *observer, dl_train_result *result, dl_error *err)
{
    dl_status status = check_config(config, err);
    if (status != DL_OK) return status;
    dl_train_shared shared;
    int64_t *step_ns = NULL;
    status = init_shared(&shared, config, data, observer, err);
    if (status == DL_OK) {
        step_ns = dl_calloc((size_t)config->workers * (size_t)config->steps, sizeof *step_ns,
                            "durations of steps");
        status = run_threads(&shared, step_ns, err);
    }
    if (status == DL_OK) {
        make_result(&shared, step_ns, result);
    } else {
        free(step_ns);
    }
    free_shared(&shared);
    return status;
}

void dl_train_result_free(dl_train_result *result)
{
    free(result->parameters);
    free(result->step_ns);
    free(result->steps_done);
    *result = (dl_train_result){0};
}

/* Copies the parameters into a model of single precision, in which predictions are made. */
static void set_parameters(dl_model *model, const double *parameters)
{
    float *to = dl_model_parameters(model);
    const size_t count = dl_model_parameter_count(model);
    for (size_t i = 0; i < count; i++)
        to[i] = (float)parameters[i];
}

/* A model for batches of *batch samples. */
static dl_status create_for_accuracy(dl_model **model, const char *name, int *batch, dl_error *err)
{
    const dl_status status = dl_model_create(model, name, DL_FLOAT, 1, 0, err);
    if (status != DL_OK) return status;
    const dl_model_memory memory = dl_model_memory_use(*model);
    const size_t most =
        ACCURACY_BYTES / (memory.activation_bytes + memory.activation_gradient_bytes + 1);
    *batch = most < 1 ? 1 : most > ACCURACY_BATCH ? ACCURACY_BATCH : (int)most;
    dl_model_destroy(*model);
    return dl_model_create(model, name, DL_FLOAT, *batch, 0, err);
}

dl_status dl_train_accuracy(const char *model_name, const double *parameters,
                            const dl_data_set *data, double *accuracy, dl_error *err)
{
    dl_model *model = NULL;
    int most = 0;
    dl_status status = create_for_accuracy(&model, model_name, &most, err);
    if (status == DL_OK) status = check_data(data, model, model_name, err);
    if (status != DL_OK) {
        dl_model_destroy(model);
        return status;
    }
    set_parameters(model, parameters);
    uint32_t order[ACCURACY_BATCH];
    size_t right = 0;
    for (size_t done = 0; done < data->count;) {
        const size_t rest = data->count - done;
        const int batch = rest < (size_t)most ? (int)rest : most;
        for (int i = 0; i < batch; i++)
            order[i] = (uint32_t)(done + (size_t)i);
        dl_data_set_batch(data, order, batch, DL_FLOAT, dl_model_input(model),
                          dl_model_labels(model));
        for (int op = 0; op < dl_model_operation_count(model); op++) {
            dl_model_forward(model, op, batch);
        }
        right += (size_t)dl_model_correct(model);
        done += (size_t)batch;
    }
    dl_model_destroy(model);
    *accuracy = (double)right / (double)data->count;
    return DL_OK;
}
