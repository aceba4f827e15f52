#include "profiler/bench/exchange_round.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

#define SMALL_BYTES 65536

static size_t element_bytes(const dl_round_shared *shared)
{
    return shared->config->train.precision == DL_FLOAT ? sizeof(float) : sizeof(double);
}

/* Small numbers, none of them denormal, so that thousands of updates stay finite. */
static void write_vector(const dl_round_shared *shared, void *vector, size_t count)
{
    if (shared->config->train.precision == DL_FLOAT) {
        float *numbers = vector;
        for (size_t i = 0; i < count; i++)
            numbers[i] = 1e-3f * (float)(int)(i % 8 + 1);
    } else {
        double *numbers = vector;
        for (size_t i = 0; i < count; i++)
            numbers[i] = 1e-3 * (double)(int)(i % 8 + 1);
    }
}

static dl_status init_size(dl_round_shared *shared, dl_round_size *size, size_t bytes,
                           dl_error *err)
{
    const dl_train_config *train = &shared->config->train;
    size->count = bytes / element_bytes(shared);
    size->bytes = size->count * element_bytes(shared);
    size->vectors_max = shared->config->quick ? DL_BENCH_QUICK_VECTORS : DL_ROUND_VECTORS_MAX;
    const size_t most = 16 * shared->config->parameter_bytes;
    while (size->vectors_max > 1 && size->bytes * (size_t)size->vectors_max > most) {
        size->vectors_max /= 2;
    }
    /* One by one, as training allocates them, so that they get pages of the same kind
     * and are staggered like them. */
    for (int v = 0; v < size->vectors_max; v++) {
        size->slots[v] = dl_alloc_staggered(size->bytes, "server's vectors");
    }
    size->gradient = dl_alloc_staggered(size->bytes, "server's gradient");
    size->parameters = dl_alloc_staggered(size->bytes, "server's parameters");
    return dl_optimizer_create(&size->optimizer, &train->optimizer, train->precision, size->count,
                               err);
}

/* The server of the real size starts with the parameters of the replicas. */
static dl_status copy_parameters(dl_round_shared *shared, dl_error *err)
{
    const dl_train_config *train = &shared->config->train;
    const dl_round_size *size = &shared->sizes[DL_ROUND_REAL];
    dl_model *model = NULL;
    const dl_status status =
        dl_model_create(&model, train->model, train->precision, 1, train->seed, err);
    if (status != DL_OK) return status;
    memcpy(size->parameters, dl_model_parameters(model), size->bytes);
    dl_model_destroy(model);
    return DL_OK;
}

dl_status dl_round_shared_init(dl_round_shared *shared, const dl_bench_config *config,
                               int thread_count, dl_error *err)
{
    const size_t parameters = config->parameter_bytes;
    const size_t bytes[DL_ROUND_SIZES] = {parameters,     SMALL_BYTES, parameters / 4,
                                          parameters / 2, parameters,  parameters * 2,
                                          parameters * 4};
    *shared = (dl_round_shared){.config = config, .thread_count = thread_count};
    shared->batch = config->batches[0];
    for (int b = 1; b < config->batch_count; b++) {
        if (config->batches[b] < shared->batch) shared->batch = config->batches[b];
    }
    shared->within =
        dl_alloc_aligned(((size_t)thread_count + 1) * sizeof *shared->within, "barriers");
    for (int t = 1; t <= thread_count; t++)
        dl_barrier_init(&shared->within[t], t, DL_WAIT_SPIN);
    dl_lock_init(&shared->lock, DL_WAIT_SPIN);
    dl_status status = DL_OK;
    for (int i = 0; status == DL_OK && i < DL_ROUND_SIZES; i++) {
        status = init_size(shared, &shared->sizes[i], bytes[i], err);
    }
    if (status == DL_OK) status = copy_parameters(shared, err);
    if (status != DL_OK) dl_round_shared_free(shared);
    return status;
}

void dl_round_shared_free(dl_round_shared *shared)
{
    for (int i = 0; i < DL_ROUND_SIZES; i++) {
        dl_round_size *size = &shared->sizes[i];
        for (int v = 0; v < DL_ROUND_VECTORS_MAX; v++)
            dl_free_staggered(size->slots[v]);
        dl_free_staggered(size->gradient);
        dl_free_staggered(size->parameters);
        dl_optimizer_destroy(size->optimizer);
    }
    if (shared->within != NULL) {
        dl_lock_free(&shared->lock);
        for (int t = 1; t <= shared->thread_count; t++)
            dl_barrier_free(&shared->within[t]);
    }
    free(shared->within);
    *shared = (dl_round_shared){0};
}

dl_status dl_round_own_init(dl_round_own *own, const dl_round_shared *shared, int index,
                            dl_error *err)
{
    const dl_train_config *train = &shared->config->train;
    *own = (dl_round_own){0};
    dl_status status = dl_model_create(&own->model, train->model, train->precision, shared->batch,
                                       train->seed, err);
    if (status == DL_OK) {
        status = dl_optimizer_create(&own->optimizer, &train->optimizer, train->precision,
                                     dl_model_parameter_count(own->model), err);
    }
    if (status != DL_OK) {
        dl_round_own_free(own);
        return status;
    }
    for (int i = DL_ROUND_REAL + 1; i < DL_ROUND_SIZES; i++) {
        const dl_round_size *size = &shared->sizes[i];
        /* It has most vectors when it is the last of the threads. */
        for (int m = 0; m * (index + 1) + index < size->vectors_max; m++) {
            own->vectors[i][m] = dl_alloc_staggered(size->bytes, "worker's vectors");
        }
    }
    own->working_set = dl_alloc_aligned(DL_BENCH_WORKING_SET_BYTES, "working set");
    own->samples = dl_calloc((size_t)shared->batch, sizeof *own->samples, "samples of a step");
    for (int s = 0; s < shared->batch; s++)
        own->samples[s] = (uint32_t)(index * shared->batch + s);
    return DL_OK;
}

void dl_round_own_free(dl_round_own *own)
{
    for (int i = 0; i < DL_ROUND_SIZES; i++) {
        for (int m = 0; m < DL_ROUND_VECTORS_MAX; m++)
            dl_free_staggered(own->vectors[i][m]);
    }
    free(own->samples);
    free(own->working_set);
    dl_optimizer_destroy(own->optimizer);
    dl_model_destroy(own->model);
    *own = (dl_round_own){0};
}

static void advance_samples(const dl_round_shared *shared, dl_round_own *own)
{
    const uint32_t step = (uint32_t)(shared->batch * shared->thread_count);
    const uint32_t count = (uint32_t)shared->config->data->count;
    for (int s = 0; s < shared->batch; s++)
        own->samples[s] = (own->samples[s] + step) % count;
}

/* A step of training up to its exchange. */
static void step_replica(const dl_round_shared *shared, dl_round_own *own, bool update)
{
    dl_model *model = own->model;
    const int operations = dl_model_operation_count(model);
    advance_samples(shared, own);
    dl_data_set_batch(shared->config->data, own->samples, shared->batch, dl_model_precision(model),
                      dl_model_input(model), dl_model_labels(model));
    for (int op = 0; op < operations; op++)
        dl_model_forward(model, op, shared->batch);
    for (int op = operations - 1; op >= 0; op--)
        dl_model_backward(model, op, shared->batch);
    if (!update) return;
    dl_optimizer_begin(own->optimizer);
    dl_optimizer_apply(own->optimizer, dl_model_parameters(model), dl_model_gradients(model), 0,
                       dl_model_parameter_count(model));
}

/* Makes the thread's vector number m and returns what is pushed; *to is where it pulls to. */
static const void *make_vector(const dl_round_shared *shared, const dl_round_case *at,
                               dl_round_own *own, int m, void **to)
{
    if (at->size == DL_ROUND_REAL) {
        const bool average = at->kind == DL_ROUND_AVERAGE;
        step_replica(shared, own, average);
        *to = dl_model_parameters(own->model);
        return average ? *to : dl_model_gradients(own->model);
    }
    dl_bench_evict(own->working_set);
    *to = own->vectors[at->size][m];
    write_vector(shared, *to, shared->sizes[at->size].count);
    return *to;
}

static dl_span copy_timed(void *to, const void *from, size_t bytes)
{
    dl_span time = {.start_ns = dl_clock_ns()};
    dl_exchange_copy(to, from, bytes);
    time.end_ns = dl_clock_ns();
    return time;
}

static void apply(dl_round_size *size, const void *gradient)
{
    dl_optimizer_begin(size->optimizer);
    dl_optimizer_apply(size->optimizer, size->parameters, gradient, 0, size->count);
}

/* Averages this thread's slice, or sums all gradients and updates. */
static dl_span serve(const dl_round_shared *shared, const dl_round_case *at, dl_round_size *size,
                     int index)
{
    const dl_precision precision = shared->config->train.precision;
    const void *const *slots = (const void *const *)size->slots;
    dl_span time = {.start_ns = dl_clock_ns()};
    if (at->kind == DL_ROUND_AVERAGE) {
        const size_t first = size->count * (size_t)index / (size_t)at->servers;
        const size_t end = size->count * ((size_t)index + 1) / (size_t)at->servers;
        dl_exchange_average(size->parameters, slots, at->vectors, first, end - first, precision);
    } else {
        dl_exchange_average(size->gradient, slots, at->vectors, 0, size->count, precision);
        apply(size, size->gradient);
    }
    time.end_ns = dl_clock_ns();
    return time;
}

/* The server's parameters and optimizer were last touched by another thread, as in training. */
static void update_in_turn(dl_round_shared *shared, dl_round_size *size, int index, void *to,
                           dl_round_times *times)
{
    dl_lock_acquire(&shared->lock);
    times->server.start_ns = dl_clock_ns();
    apply(size, size->slots[index]);
    times->server.end_ns = dl_clock_ns();
    times->pull = copy_timed(to, size->parameters, size->bytes);
    dl_lock_release(&shared->lock);
}

void dl_round_run(dl_round_shared *shared, const dl_round_case *at, int index, dl_round_own *own,
                  dl_round_times *times)
{
    dl_round_size *size = &shared->sizes[at->size];
    dl_barrier *within = &shared->within[at->threads];
    void *to[DL_ROUND_VECTORS_MAX];
    const void *from = make_vector(shared, at, own, 0, &to[0]);
    dl_barrier_wait(within);
    times->push = copy_timed(size->slots[index], from, size->bytes);
    int count = 1;
    for (int v = index + at->threads; v < at->vectors; v += at->threads, count++) {
        from = make_vector(shared, at, own, count, &to[count]);
        dl_exchange_copy(size->slots[v], from, size->bytes);
    }
    dl_barrier_wait(within);
    if (at->kind == DL_ROUND_ASYNC) {
        update_in_turn(shared, size, index, to[0], times);
        return;
    }
    if (index < at->servers) times->server = serve(shared, at, size, index);
    dl_barrier_wait(within);
    times->pull = copy_timed(to[0], size->parameters, size->bytes);
    for (int m = 1; m < count; m++)
        dl_exchange_copy(to[m], size->parameters, size->bytes);
}
