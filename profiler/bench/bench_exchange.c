#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/exchange.h"
#include "kernels/pinned_threads.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/bench_internal.h"

/* One round of exchange of n vectors on t threads, with memory in the state in which training
 * leaves it: threads make their vectors, wait for each other, push, do the server's work, and pull.
 *
 * A vector is made as in training. For the real size, that of the model's parameters, each thread
 * has a replica of the model, which runs a step (and, before an averaging, its update), so that the
 * caches are as after a step. Vectors of other sizes are written after a pass over a working set
 * larger than a core's private caches; a thread may have several. Vector v belongs to thread v mod
 * t, which allocates and first touches all its memory. The server's memory is kept between rounds.
 *
 * If workers are on a GPU, its copy engines do the copies: each thread has a stream and vectors on
 * the GPU, pushes to and pulls from page-locked memory, and waits for the copy. The server then
 * reads from memory, not from another core's cache.
 *
 * Copies to a vector that another core's cache holds, and of a vector that another core has
 * written, are timed separately: two threads train a step each, then one pushes a vector and the
 * other pulls it.
 *
 * One thread also encodes the difference of its replica's parameters from the server's, after a
 * step, as a message of each kind and decodes it; each round starts with another kind. */

#define DL_ROUND_VECTORS_MAX 16
#define DL_ROUND_SIZES 7
#define DL_ROUND_REAL 0 /* index of the real size */

typedef enum dl_round_kind {
    DL_ROUND_AVERAGE, /* parameters; `servers` threads average a slice each */
    DL_ROUND_PS,      /* gradients; thread 0 sums them and updates the server's parameters */
    DL_ROUND_ASYNC,   /* gradients; threads in turn update the server under the lock, and pull */
    DL_ROUND_MESSAGE, /* no exchange; one thread encodes and decodes messages */
    DL_ROUND_SHARED   /* parameters, two threads; thread 0 pulls the vector that thread 1 pushed */
} dl_round_kind;

typedef struct dl_round_case {
    dl_round_kind kind;
    int size;    /* index of the size */
    int vectors; /* n; = threads for ASYNC and, except in SHARED, the real size */
    int threads; /* t <= n; SHARED: 2 */
    int servers; /* AVERAGE: 1 .. threads; else 1 */
} dl_round_case;

typedef struct dl_span {
    int64_t start_ns, end_ns;
} dl_span;

/* Times of one thread in a round: push and pull of its first vector, which all threads copy at the
 * same time (except ASYNC's pulls, one after another), and its part of the server's work. */
typedef struct dl_round_times {
    _Alignas(64) dl_span push;
    dl_span pull, server;
} dl_round_times;

typedef struct dl_round_size {
    size_t bytes, count; /* bytes and numbers of one vector */
    int vectors_max;     /* largest number of vectors in a round */
    void *slots[DL_ROUND_VECTORS_MAX];
    void *gradient, *parameters;
    dl_optimizer *optimizer;
} dl_round_size;

/* The server and the state shared by the threads. */
typedef struct dl_round_shared {
    const dl_bench_config *config;
    dl_device *device; /* with `copier`: owner of the server's memory */
    int batch;         /* samples per step of a replica */
    dl_round_size sizes[DL_ROUND_SIZES];
    int thread_count;
    dl_span learned[DL_QUANTISE_COUNT], encode[DL_QUANTISE_COUNT],
        decode[DL_QUANTISE_COUNT]; /* spans of the last MESSAGE round, without time off the core */
    int message_rounds;
    dl_barrier *within; /* [thread_count + 1] spinning; number t is for rounds of t threads */
    dl_lock lock;
} dl_round_shared;

/* One thread's own memory. */
typedef struct dl_round_own {
    dl_model *model;
    dl_optimizer *optimizer;
    void *vectors[DL_ROUND_SIZES][DL_ROUND_VECTORS_MAX]; /* NULL for the real size */
    void *working_set;
    uint32_t *samples;     /* [batch] samples of the next step */
    dl_device *device;     /* with `copier`, instead of all members above */
    void *pushed, *pulled; /* vectors on the device, of the largest size */
    dl_status status;      /* first error of the copies */
    dl_error err;
    dl_quantise_plan plans[DL_QUANTISE_COUNT]; /* plans and buffers of messages; thread 0 only */
    void *learned, *residual, *message, *turned_back;
} dl_round_own;

#define SMALL_BYTES 65536
#define KEPT_FRAC 0.01 /* fraction of the numbers that topk keeps */

static size_t element_bytes(const dl_round_shared *shared)
{
    return shared->config->train.precision == DL_FLOAT ? sizeof(float) : sizeof(double);
}

/* Writes small normal numbers, so that the vectors stay finite over thousands of updates. */
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

/* Allocates memory of the server, page-locked for a `copier`. */
static void *server_allocate(const dl_round_shared *shared, size_t bytes, const char *purpose)
{
    const dl_device_type *copier = shared->config->copier;
    return copier != NULL ? copier->backend->allocate_host(bytes, purpose)
                          : dl_alloc_staggered(bytes, purpose);
}

static void server_release(const dl_round_shared *shared, void *memory)
{
    const dl_device_type *copier = shared->config->copier;
    if (copier == NULL) {
        dl_free_staggered(memory);
    } else if (memory != NULL) {
        copier->backend->release_host(memory);
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
    /* Allocated one by one, as in training, so that they get the same kind of pages and the same
     * offsets from page boundaries. */
    for (int v = 0; v < size->vectors_max; v++) {
        size->slots[v] = server_allocate(shared, size->bytes, "server's vectors");
    }
    size->gradient = server_allocate(shared, size->bytes, "server's gradient");
    size->parameters = server_allocate(shared, size->bytes, "server's parameters");
    return dl_optimizer_create(&size->optimizer, &train->optimizer, train->precision, size->count,
                               err);
}

/* Initialises the server's parameters of the real size to those of the replicas. */
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

static void round_shared_free(dl_round_shared *shared)
{
    for (int i = 0; i < DL_ROUND_SIZES; i++) {
        dl_round_size *size = &shared->sizes[i];
        for (int v = 0; v < DL_ROUND_VECTORS_MAX; v++)
            server_release(shared, size->slots[v]);
        server_release(shared, size->gradient);
        server_release(shared, size->parameters);
        dl_optimizer_destroy(size->optimizer);
    }
    if (shared->within != NULL) {
        dl_lock_free(&shared->lock);
        for (int t = 1; t <= shared->thread_count; t++)
            dl_barrier_free(&shared->within[t]);
    }
    free(shared->within);
    if (shared->device != NULL) shared->config->copier->close(shared->device);
    *shared = (dl_round_shared){0};
}

/* Opens a stream on the GPU for the calling thread. */
static dl_status open_copier(const dl_bench_config *config, dl_device **device, dl_error *err)
{
    const dl_device_type *type = config->copier;
    const dl_status status =
        type->open(device, config->train.first_device, &config->train.device_settings, err);
    if (status == DL_OK) type->use(*device);
    return status;
}

/* Vector sizes: the real one; 64 KiB; and the size of the parameters times 1/4, 1/2, 1, 2 and 4. In
 * rounds with several vectors these take at most 16 times the parameters' size together. */
static dl_status round_shared_init(dl_round_shared *shared, const dl_bench_config *config,
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
    if (config->copier != NULL) {
        status = open_copier(config, &shared->device, err);
    }
    for (int i = 0; status == DL_OK && i < DL_ROUND_SIZES; i++) {
        status = init_size(shared, &shared->sizes[i], bytes[i], err);
    }
    if (status == DL_OK && config->copier != NULL) status = config->copier->backend->wait(err);
    if (status == DL_OK) status = copy_parameters(shared, err);
    if (status != DL_OK) round_shared_free(shared);
    return status;
}

static bool makes_messages(const dl_round_shared *shared, int thread)
{
    return thread == 0 && shared->config->kind == DL_BENCH_WHOLE;
}

static void make_messages(const dl_round_shared *shared, dl_round_own *own)
{
    const size_t bytes = dl_model_parameter_count(own->model) * element_bytes(shared);
    void **const vectors[] = {&own->learned, &own->residual, &own->turned_back};
    size_t message_bytes = 0;
    for (size_t v = 0; v < DL_LENGTH(vectors); v++) {
        *vectors[v] = dl_alloc_staggered(bytes, "vectors of messages");
        memset(*vectors[v], 0, bytes);
    }
    for (dl_quantise kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind++) {
        dl_train_plan_messages(&own->plans[kind], own->model, kind, KEPT_FRAC);
        if (own->plans[kind].message_bytes > message_bytes)
            message_bytes = own->plans[kind].message_bytes;
    }
    own->message = dl_alloc_staggered(message_bytes, "message");
}

static void free_messages(dl_round_own *own)
{
    void *const vectors[] = {own->learned, own->residual, own->message, own->turned_back};
    for (size_t v = 0; v < DL_LENGTH(vectors); v++)
        dl_free_staggered(vectors[v]);
    for (dl_quantise kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind++)
        dl_quantise_plan_free(&own->plans[kind]);
}

static void free_on_copier(const dl_device_type *type, dl_round_own *own)
{
    if (own->device == NULL) return;
    type->use(own->device);
    type->backend->release(own->pushed);
    type->backend->release(own->pulled);
    type->close(own->device);
}

static void round_own_free(const dl_round_shared *shared, dl_round_own *own)
{
    free_on_copier(shared->config->copier, own);
    free_messages(own);
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

/* Opens the thread's stream and allocates its vectors on the GPU; the pushed one holds small
 * numbers. */
static dl_status init_on_copier(dl_round_own *own, const dl_round_shared *shared, dl_error *err)
{
    const dl_backend *backend = shared->config->copier->backend;
    size_t bytes = 0;
    for (int i = 0; i < DL_ROUND_SIZES; i++)
        if (shared->sizes[i].bytes > bytes) bytes = shared->sizes[i].bytes;
    dl_status status = open_copier(shared->config, &own->device, err);
    if (status != DL_OK) return status;
    own->pushed = backend->allocate(bytes, "worker's vector");
    own->pulled = backend->allocate(bytes, "worker's vector");
    void *numbers = backend->allocate_host(bytes, "worker's vector");
    status = backend->wait(err);
    if (status == DL_OK) {
        write_vector(shared, numbers, bytes / element_bytes(shared));
        backend->upload(own->pushed, numbers, bytes);
        status = backend->wait(err);
    }
    backend->release_host(numbers);
    return status;
}

/* Allocates the memory of thread `index`; called on that thread. */
static dl_status round_own_init(dl_round_own *own, const dl_round_shared *shared, int index,
                                dl_error *err)
{
    const dl_train_config *train = &shared->config->train;
    *own = (dl_round_own){0};
    if (shared->config->copier != NULL) {
        const dl_status made = init_on_copier(own, shared, err);
        if (made != DL_OK) round_own_free(shared, own);
        return made;
    }
    dl_status status = dl_model_create(&own->model, train->model, train->precision, shared->batch,
                                       train->seed, err);
    if (status == DL_OK) {
        status = dl_optimizer_create(&own->optimizer, &train->optimizer, train->precision,
                                     dl_model_parameter_count(own->model), err);
    }
    if (status != DL_OK) {
        round_own_free(shared, own);
        return status;
    }
    for (int i = DL_ROUND_REAL + 1; i < DL_ROUND_SIZES; i++) {
        const dl_round_size *size = &shared->sizes[i];
        /* The thread has the most vectors in rounds of index + 1 threads. */
        for (int m = 0; m * (index + 1) + index < size->vectors_max; m++) {
            own->vectors[i][m] = dl_alloc_staggered(size->bytes, "worker's vectors");
        }
    }
    if (makes_messages(shared, index)) make_messages(shared, own);
    own->working_set = dl_alloc_aligned(DL_BENCH_WORKING_SET_BYTES, "working set");
    own->samples = dl_calloc((size_t)shared->batch, sizeof *own->samples, "samples of a step");
    for (int s = 0; s < shared->batch; s++)
        own->samples[s] = (uint32_t)(index * shared->batch + s);
    return DL_OK;
}

static void advance_samples(const dl_round_shared *shared, dl_round_own *own)
{
    const uint32_t step = (uint32_t)(shared->batch * shared->thread_count);
    const uint32_t count = (uint32_t)shared->config->data->count;
    for (int s = 0; s < shared->batch; s++)
        own->samples[s] = (own->samples[s] + step) % count;
}

/* Runs a step of training up to its exchange; with `update`, also the replica's update. */
static void step_replica(const dl_round_shared *shared, dl_round_own *own, bool update)
{
    dl_model *model = own->model;
    advance_samples(shared, own);
    dl_data_set_batch(shared->config->data, own->samples, shared->batch, dl_model_precision(model),
                      dl_model_input(model), dl_model_labels(model));
    dl_model_pass(model, shared->batch);
    if (!update) return;
    dl_optimizer_begin(own->optimizer);
    dl_optimizer_apply(own->optimizer, dl_model_parameters(model), dl_model_gradients(model), 0,
                       dl_model_parameter_count(model));
}

/* Makes the thread's vector number m and returns the vector to push; *to is the target of its
 * pull. */
static const void *make_vector(const dl_round_shared *shared, const dl_round_case *at,
                               dl_round_own *own, int m, void **to)
{
    if (own->device != NULL) {
        *to = own->pulled;
        return own->pushed;
    }
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

/* Copies to the server's memory (push) or from it. */
static void copy(const dl_round_shared *shared, dl_round_own *own, bool push, void *to,
                 const void *from, size_t bytes)
{
    const dl_device_type *copier = shared->config->copier;
    if (copier == NULL) {
        memcpy(to, from, bytes);
        return;
    }
    (push ? copier->backend->download : copier->backend->upload)(to, from, bytes);
    const dl_status status = copier->backend->wait(own->status == DL_OK ? &own->err : NULL);
    if (own->status == DL_OK) own->status = status;
}

static dl_span copy_timed(const dl_round_shared *shared, dl_round_own *own, bool push, void *to,
                          const void *from, size_t bytes)
{
    dl_span time = {.start_ns = dl_clock_ns()};
    copy(shared, own, push, to, from, bytes);
    time.end_ns = dl_clock_ns();
    return time;
}

static void apply_update(dl_round_size *size, const void *gradient)
{
    dl_optimizer_begin(size->optimizer);
    dl_optimizer_apply(size->optimizer, size->parameters, gradient, 0, size->count);
}

/* Does the server's work of this thread: averages its slice, or sums all gradients and updates. */
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
        apply_update(size, size->gradient);
    }
    time.end_ns = dl_clock_ns();
    return time;
}

/* Updates the server under the lock, then pulls. As in training, another thread was the last to
 * touch the server's parameters and optimizer. */
static void update_in_turn(dl_round_shared *shared, dl_round_size *size, int index,
                           dl_round_own *own, void *to, dl_round_times *times)
{
    dl_lock_acquire(&shared->lock);
    times->server.start_ns = dl_clock_ns();
    apply_update(size, size->slots[index]);
    times->server.end_ns = dl_clock_ns();
    times->pull = copy_timed(shared, own, false, to, size->parameters, size->bytes);
    dl_lock_release(&shared->lock);
}

/* Returns the span since the watch was started, and restarts it. */
static dl_span lap(dl_stopwatch *watch)
{
    const int64_t ns = dl_stopwatch_ns(watch);
    const dl_span span = {.start_ns = watch->start_ns, .end_ns = watch->start_ns + ns};
    *watch = dl_stopwatch_start();
    return span;
}

/* Times three operations as in training: computing the change of the parameters, encoding it and
 * decoding it. */
static void quantise_timed(dl_round_shared *shared, dl_round_own *own, dl_quantise kind)
{
    const dl_precision precision = shared->config->train.precision;
    const dl_round_size *size = &shared->sizes[DL_ROUND_REAL];
    const dl_quantise_plan *plan = &own->plans[kind];
    dl_stopwatch watch = dl_stopwatch_start();
    memcpy(own->learned, dl_model_parameters(own->model), size->bytes);
    dl_exchange_add(own->learned, size->parameters, -1, size->count, precision);
    shared->learned[kind] = lap(&watch);
    dl_quantise_encode(plan, own->learned, own->residual, own->message, precision);
    shared->encode[kind] = lap(&watch);
    dl_quantise_decode(plan, own->message, own->turned_back, precision);
    shared->decode[kind] = lap(&watch);
}

static void quantise_all(dl_round_shared *shared, dl_round_own *own)
{
    const int kinds = DL_QUANTISE_COUNT - DL_QUANTISE_FP16, first = shared->message_rounds++;
    step_replica(shared, own, true);
    for (int k = 0; k < kinds; k++)
        quantise_timed(shared, own, (dl_quantise)(DL_QUANTISE_FP16 + (first + k) % kinds));
}

/* One round of SHARED. Slot 0 is in thread 0's cache since its last pull. */
static void share_vector(dl_round_shared *shared, int index, dl_round_own *own,
                         dl_round_times *times)
{
    const dl_round_size *size = &shared->sizes[DL_ROUND_REAL];
    dl_barrier *within = &shared->within[2];
    void *parameters = dl_model_parameters(own->model);
    step_replica(shared, own, true);
    dl_barrier_wait(within);
    if (index == 1)
        times->push = copy_timed(shared, own, true, size->slots[0], parameters, size->bytes);
    dl_barrier_wait(within);
    if (index == 0)
        times->pull = copy_timed(shared, own, false, parameters, size->slots[0], size->bytes);
}

/* Runs thread `index` < at->threads in a round; all threads of the round must call it. */
static void round_run(dl_round_shared *shared, const dl_round_case *at, int index,
                      dl_round_own *own, dl_round_times *times)
{
    if (at->kind == DL_ROUND_MESSAGE) {
        quantise_all(shared, own);
        return;
    }
    if (at->kind == DL_ROUND_SHARED) {
        share_vector(shared, index, own, times);
        return;
    }
    dl_round_size *size = &shared->sizes[at->size];
    dl_barrier *within = &shared->within[at->threads];
    void *to[DL_ROUND_VECTORS_MAX];
    const void *from = make_vector(shared, at, own, 0, &to[0]);
    dl_barrier_wait(within);
    times->push = copy_timed(shared, own, true, size->slots[index], from, size->bytes);
    int count = 1;
    for (int v = index + at->threads; v < at->vectors; v += at->threads, count++) {
        from = make_vector(shared, at, own, count, &to[count]);
        copy(shared, own, true, size->slots[v], from, size->bytes);
    }
    dl_barrier_wait(within);
    if (at->kind == DL_ROUND_ASYNC) {
        update_in_turn(shared, size, index, own, to[0], times);
        return;
    }
    if (index < at->servers) times->server = serve(shared, at, size, index);
    dl_barrier_wait(within);
    times->pull = copy_timed(shared, own, false, to[0], size->parameters, size->bytes);
    for (int m = 1; m < count; m++)
        copy(shared, own, false, to[m], size->parameters, size->bytes);
}

#define REPETITIONS_MIN 2
#define REPETITIONS_MAX 200
#define CASES_MAX (4 * (DL_ROUND_SIZES * 5 + DL_BENCH_COUNTS_MAX) + 2)

/* A case runs several rounds in a row. The first WARM_ROUNDS, which only bring the server's memory
 * into the state in which an exchange leaves it, are not recorded. */
#define WARM_ROUNDS 1
#define ROUNDS 1
#define REAL_ROUNDS 4

typedef struct exchange {
    const dl_bench_config *config;
    dl_bench *bench;
    dl_round_shared shared;
    dl_round_case cases[CASES_MAX];
    uint32_t case_count;
    int thread_count;
    dl_round_times *times;   /* [thread_count] */
    dl_barrier between;      /* between rounds, for all threads; idle ones sleep in it */
    const dl_round_case *at; /* current round; NULL: no further round */
    dl_status *status;       /* [thread_count] errors of set-up and copies */
    dl_error *errors;        /* [thread_count] */
    int64_t start_ns, budget_ns;
} exchange;

static void add_case(exchange *all, dl_round_case added)
{
    DL_ASSERT(all->case_count < CASES_MAX, "%u cases", all->case_count);
    all->cases[all->case_count++] = added;
}

static void add_round(exchange *all, dl_round_kind kind, int size, int vectors, int threads,
                      int servers)
{
    add_case(all, (dl_round_case){.kind = kind,
                                  .size = size,
                                  .vectors = vectors,
                                  .threads = threads,
                                  .servers = servers});
}

/* Adds the kinds of round with n vectors on t threads. The asynchronous update by a single thread
 * is measured only on a machine with one core. */
static void add_kinds(exchange *all, int size, int n, int t)
{
    add_round(all, DL_ROUND_AVERAGE, size, n, t, 1);
    if (t > 1) add_round(all, DL_ROUND_AVERAGE, size, n, t, t);
    if (n > 1) add_round(all, DL_ROUND_PS, size, n, t, 1);
    if (n == t && (n > 1 || all->thread_count == 1)) {
        add_round(all, DL_ROUND_ASYNC, size, n, t, 1);
    }
}

static void add_shared(exchange *all)
{
    if (all->thread_count < 2 || all->config->copier != NULL) return;
    add_round(all, DL_ROUND_SHARED, DL_ROUND_REAL, 1, 2, 1);
}

/* The cases of a snapshot: the rounds that dlcal compares from run to run
 * (dl_exchange_runs_fit). */
static void make_snapshot_cases(exchange *all)
{
    const int t = all->thread_count < 2 ? 1 : 2;
    add_shared(all);
    add_round(all, DL_ROUND_AVERAGE, DL_ROUND_REAL, t, t, 1);
    add_round(all, DL_ROUND_ASYNC, DL_ROUND_REAL, t, t, 1);
}

static void make_cases(exchange *all)
{
    if (all->config->kind == DL_BENCH_SNAPSHOT) {
        make_snapshot_cases(all);
        return;
    }
    int counts[DL_BENCH_COUNTS_MAX];
    const int count = dl_bench_thread_counts(all->thread_count, counts);
    const size_t real_bytes = all->shared.sizes[DL_ROUND_REAL].bytes;
    for (int i = 0; i < count; i++) {
        add_kinds(all, DL_ROUND_REAL, counts[i], counts[i]);
    }
    add_shared(all);
    if (makes_messages(&all->shared, 0)) add_round(all, DL_ROUND_MESSAGE, DL_ROUND_REAL, 1, 1, 1);
    for (int size = DL_ROUND_REAL + 1; size < DL_ROUND_SIZES; size++) {
        for (int n = 1; n <= all->shared.sizes[size].vectors_max; n *= 2) {
            const int t = n < all->thread_count ? n : all->thread_count;
            if (n == t && all->shared.sizes[size].bytes == real_bytes) continue;
            add_kinds(all, size, n, t);
        }
    }
}

/* Adds the record with the case's bytes and the time. */
static void add(exchange *all, int name, dl_record record, const dl_span *time)
{
    record.bytes = all->shared.sizes[all->at->size].bytes;
    record.start_ns = time->start_ns;
    record.duration_ns = time->end_ns - time->start_ns;
    dl_bench_add(all->bench, (dl_bench_name)name, record);
}

static void add_alone(exchange *all, int name, const dl_span *time)
{
    add(all, name, (dl_record){.threads = 1}, time);
}

static void add_copy(exchange *all, int worker, dl_phase phase, int at_once, const dl_span *time)
{
    const dl_record record = {
        .phase = phase, .worker = (uint32_t)worker, .threads = (uint32_t)at_once};
    add(all, DL_BENCH_COPY, record, time);
}

static void add_server(exchange *all, dl_bench_name name, int worker, int vectors,
                       const dl_span *time)
{
    const dl_record record = {.worker = (uint32_t)worker,
                              .vectors = (uint32_t)vectors,
                              .threads = (uint32_t)all->at->servers};
    add(all, name, record, time);
}

static void collect(exchange *all)
{
    const dl_round_case *at = all->at;
    const bool async = at->kind == DL_ROUND_ASYNC;
    dl_span served = all->times[0].server;
    if (at->kind == DL_ROUND_MESSAGE) {
        for (int kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind++) {
            const int at_name = kind - DL_QUANTISE_FP16;
            add_alone(all, DL_BENCH_LEARNED, &all->shared.learned[kind]);
            add_alone(all, DL_BENCH_QUANTISE + at_name, &all->shared.encode[kind]);
            add_alone(all, DL_BENCH_DEQUANTISE + at_name, &all->shared.decode[kind]);
        }
        return;
    }
    if (at->kind == DL_ROUND_SHARED) {
        add_alone(all, DL_BENCH_SHARED_WRITE, &all->times[1].push);
        add_alone(all, DL_BENCH_SHARED_READ, &all->times[0].pull);
        return;
    }
    for (int i = 0; i < at->threads; i++) {
        const dl_round_times *one = &all->times[i];
        if (at->vectors == at->threads) {
            add_copy(all, i, DL_PHASE_PUSH, at->threads, &one->push);
            add_copy(all, i, DL_PHASE_PULL, async ? 1 : at->threads, &one->pull);
        }
        if (async) add_server(all, DL_BENCH_UPDATE, i, 1, &one->server);
        if (i >= at->servers) continue;
        if (one->server.start_ns < served.start_ns) served.start_ns = one->server.start_ns;
        if (one->server.end_ns > served.end_ns) served.end_ns = one->server.end_ns;
    }
    if (async) return;
    add_server(all, at->kind == DL_ROUND_PS ? DL_BENCH_UPDATE : DL_BENCH_AVERAGE, 0, at->vectors,
               &served);
}

/* Whether to end: if stopped, at REPETITIONS_MAX, or, from REPETITIONS_MIN on, if the time left is
 * too short for another repetition of average length. */
static bool enough(const exchange *all, int repetitions)
{
    if (dl_train_stopped(&all->config->train)) return true;
    if (repetitions < REPETITIONS_MIN) return false;
    const int64_t used_ns = dl_clock_ns() - all->start_ns;
    return repetitions >= REPETITIONS_MAX || used_ns + used_ns / repetitions > all->budget_ns;
}

/* Runs the rounds of the current case and collects their times. */
static void lead_case(exchange *all, dl_round_own *own)
{
    const int rounds = WARM_ROUNDS + (all->at->size == DL_ROUND_REAL ? REAL_ROUNDS : ROUNDS);
    for (int round = 0; round < rounds; round++) {
        dl_barrier_wait(&all->between);
        round_run(&all->shared, all->at, 0, own, &all->times[0]);
        dl_barrier_wait(&all->between);
        if (round >= WARM_ROUNDS) collect(all);
    }
}

/* Thread 0 leads: chooses the next round, takes part in all rounds, and collects the times. */
static void lead(exchange *all, dl_round_own *own)
{
    dl_bench_order order;
    dl_bench_order_init(&order, all->case_count, all->config->train.seed, DL_BENCH_COPY);
    all->start_ns = dl_clock_ns();
    for (int repetition = 0; !enough(all, repetition); repetition++) {
        const uint32_t *next = dl_bench_order_next(&order);
        for (uint32_t i = 0; i < all->case_count && !dl_train_stopped(&all->config->train); i++) {
            all->at = &all->cases[next[i]];
            lead_case(all, own);
        }
        dl_progress_update(&all->bench->progress,
                           (double)(dl_clock_ns() - all->start_ns) / (double)all->budget_ns);
    }
    dl_bench_order_free(&order);
    all->at = NULL;
    dl_barrier_wait(&all->between);
}

static void follow(exchange *all, int index, dl_round_own *own)
{
    for (;;) {
        dl_barrier_wait(&all->between);
        if (all->at == NULL) return;
        if (index < all->at->threads) {
            round_run(&all->shared, all->at, index, own, &all->times[index]);
        }
        dl_barrier_wait(&all->between);
    }
}

static bool all_set_up(const exchange *all)
{
    for (int i = 0; i < all->thread_count; i++) {
        if (all->status[i] != DL_OK) return false;
    }
    return true;
}

static void thread_main(void *user, int index)
{
    exchange *all = user;
    dl_round_own own;
    all->status[index] = round_own_init(&own, &all->shared, index, &all->errors[index]);
    dl_barrier_wait(&all->between);
    if (all_set_up(all)) {
        if (index == 0) {
            lead(all, &own);
        } else {
            follow(all, index, &own);
        }
    }
    if (all->status[index] != DL_OK) return;
    if (own.status != DL_OK) {
        all->status[index] = own.status;
        all->errors[index] = own.err;
    }
    round_own_free(&all->shared, &own);
}

static dl_status run_threads(exchange *all, dl_error *err)
{
    const size_t count = (size_t)all->thread_count;
    DL_AUTOFREE int *cores = dl_bench_cores(&all->config->train, all->thread_count);
    all->times = dl_alloc_aligned(count * sizeof *all->times, "times of a round");
    all->status = dl_calloc(count, sizeof *all->status, "exchange threads");
    all->errors = dl_calloc(count, sizeof *all->errors, "exchange threads");
    dl_barrier_init(&all->between, all->thread_count, DL_WAIT_BLOCK);
    dl_status status = dl_pinned_threads_run(all->thread_count, cores, thread_main, all, err);
    for (int i = 0; status == DL_OK && i < all->thread_count; i++) {
        status = all->status[i];
        if (status != DL_OK && err != NULL) *err = all->errors[i];
    }
    dl_barrier_free(&all->between);
    free(all->errors);
    free(all->status);
    free(all->times);
    return status;
}

dl_status dl_bench_exchange(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                            dl_error *err)
{
    DL_AUTOFREE exchange *all = dl_alloc_aligned(sizeof *all, "exchange");
    all->config = config;
    all->bench = bench;
    all->budget_ns = budget_ns;
    all->thread_count = dl_train_cores(&config->train);
    if (all->thread_count > DL_ROUND_VECTORS_MAX) all->thread_count = DL_ROUND_VECTORS_MAX;
    dl_status status = round_shared_init(&all->shared, config, all->thread_count, err);
    if (status == DL_OK) {
        make_cases(all);
        status = run_threads(all, err);
        round_shared_free(&all->shared);
    }
    return status;
}
