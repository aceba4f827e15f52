#include "profiler/bench_exchange.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/units.h"
#include "profiler/crew.h"
#include "profiler/run_meta.h"

#define VECTORS_MAX 16
#define SMALL_BYTES 65536
#define SIZE_COUNT 6
#define REPETITIONS_MIN 2
#define REPETITIONS_MAX 100
#define CASES_MAX (SIZE_COUNT * 5 * DL_BENCH_COUNTS_MAX * 3)

typedef struct exchange_case {
    int size;    /* index in sizes */
    int vectors; /* n */
    int threads; /* t: own the vectors and copy */
    int servers; /* s: average; 0: one thread updates instead */
} exchange_case;

typedef struct span {
    int64_t start_ns, end_ns;
} span;

/* What one thread times in a round. */
typedef struct lane {
    _Alignas(64) span push[VECTORS_MAX];
    span pull[VECTORS_MAX];
    span server; /* its part of the average or update */
} lane;

/* The server's memory for one size. */
typedef struct server_memory {
    size_t bytes, count; /* of one vector: bytes, numbers */
    int vectors_max;
    void *slots[VECTORS_MAX];
    void *gradient, *parameters;
    dl_optimizer *optimizer;
} server_memory;

typedef struct exchange {
    const dl_bench_config *config;
    dl_bench *bench;
    server_memory sizes[SIZE_COUNT];
    exchange_case *cases;
    uint32_t *order; /* of the present repetition */
    uint32_t case_count;
    int thread_count;
    lane *lanes;             /* [thread_count] */
    dl_barrier between;      /* of all threads, between rounds: those not needed sleep */
    dl_barrier *within;      /* [thread_count + 1]: of the t threads of a round, spinning */
    const exchange_case *at; /* the present round; NULL: the end */
    int64_t start_ns, budget_ns;
} exchange;

/* One thread's own memory. */
typedef struct own_memory {
    void *vectors[SIZE_COUNT][VECTORS_MAX];
    void *working_set;
} own_memory;

static size_t element_bytes(const exchange *all)
{
    return all->config->train.precision == DL_FLOAT ? sizeof(float) : sizeof(double);
}

/* Small numbers, none of them denormal, so that thousands of updates stay finite. */
static void write_vector(const exchange *all, void *vector, size_t count)
{
    if (all->config->train.precision == DL_FLOAT) {
        float *numbers = vector;
        for (size_t i = 0; i < count; i++)
            numbers[i] = 1e-3f * (float)(int)(i % 8 + 1);
    } else {
        double *numbers = vector;
        for (size_t i = 0; i < count; i++)
            numbers[i] = 1e-3 * (double)(int)(i % 8 + 1);
    }
}

static dl_status make_sizes(exchange *all, dl_error *err)
{
    const size_t parameters = all->config->parameter_bytes;
    const size_t bytes[SIZE_COUNT] = {SMALL_BYTES, parameters / 4, parameters / 2,
                                      parameters,  parameters * 2, parameters * 4};
    for (int i = 0; i < SIZE_COUNT; i++) {
        server_memory *size = &all->sizes[i];
        size->count = bytes[i] / element_bytes(all);
        size->bytes = size->count * element_bytes(all);
        size->vectors_max = all->config->quick ? DL_BENCH_QUICK_VECTORS : VECTORS_MAX;
        while (size->vectors_max > 1 && size->bytes * (size_t)size->vectors_max > parameters * 16) {
            size->vectors_max /= 2;
        }
        for (int v = 0; v < size->vectors_max; v++) {
            size->slots[v] = dl_alloc_aligned(size->bytes, "server's vectors");
        }
        size->gradient = dl_alloc_aligned(size->bytes, "server's gradient");
        size->parameters = dl_alloc_aligned(size->bytes, "server's parameters");
        const dl_status status =
            dl_optimizer_create(&size->optimizer, &all->config->train.optimizer,
                                all->config->train.precision, size->count, err);
        if (status != DL_OK) return status;
    }
    return DL_OK;
}

static void free_sizes(exchange *all)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        server_memory *size = &all->sizes[i];
        for (int v = 0; v < VECTORS_MAX; v++)
            free(size->slots[v]);
        free(size->gradient);
        free(size->parameters);
        dl_optimizer_destroy(size->optimizer);
    }
}

static void add_case(exchange *all, int size, int vectors, int threads, int servers)
{
    DL_ASSERT(all->case_count < CASES_MAX, "%u cases", all->case_count);
    all->cases[all->case_count++] = (exchange_case){size, vectors, threads, servers};
}

static void make_cases(exchange *all)
{
    int counts[DL_BENCH_COUNTS_MAX];
    const int count = dl_bench_thread_counts(all->thread_count, counts);
    all->cases = dl_calloc(CASES_MAX, sizeof *all->cases, "exchange cases");
    for (int size = 0; size < SIZE_COUNT; size++) {
        for (int n = 1; n <= all->sizes[size].vectors_max; n *= 2) {
            for (int i = 0; i < count && counts[i] <= n; i++) {
                const int threads = counts[i];
                add_case(all, size, n, threads, 0);
                add_case(all, size, n, threads, 1);
                if (threads > 1) add_case(all, size, n, threads, threads);
            }
        }
    }
    all->order = dl_calloc(all->case_count, sizeof *all->order, "exchange cases");
    for (uint32_t i = 0; i < all->case_count; i++)
        all->order[i] = i;
}

/* Vectors are allocated one by one, as training's are, so that they get pages of the same kind. */
static void make_own(const exchange *all, int index, own_memory *own)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        const server_memory *size = &all->sizes[i];
        for (int m = 0; m * (index + 1) + index < size->vectors_max; m++) {
            own->vectors[i][m] = dl_alloc_aligned(size->bytes, "worker's vectors");
            write_vector(all, own->vectors[i][m], size->count);
        }
    }
    own->working_set = dl_alloc_aligned(DL_BENCH_WORKING_SET_BYTES, "working set");
}

static void free_own(own_memory *own)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        for (int m = 0; m < VECTORS_MAX; m++)
            free(own->vectors[i][m]);
    }
    free(own->working_set);
}

static span copy_timed(void *to, const void *from, size_t bytes)
{
    span time = {.start_ns = dl_clock_ns()};
    dl_exchange_copy(to, from, bytes);
    time.end_ns = dl_clock_ns();
    return time;
}

/* Averages slice `index` of the s slices into the server's gradient, or, for s = 0, updates the
 * server's parameters. A single gradient is applied where it lies. */
static span serve(const exchange *all, const exchange_case *at, server_memory *size, int index)
{
    const dl_precision precision = all->config->train.precision;
    span time = {.start_ns = dl_clock_ns()};
    if (at->servers > 0) {
        const size_t first = size->count * (size_t)index / (size_t)at->servers;
        const size_t end = size->count * ((size_t)index + 1) / (size_t)at->servers;
        dl_exchange_average(size->parameters, (const void *const *)size->slots, at->vectors, first,
                            end - first, precision);
    } else {
        const void *gradient = size->slots[0];
        if (at->vectors > 1) {
            dl_exchange_average(size->gradient, (const void *const *)size->slots, at->vectors, 0,
                                size->count, precision);
            gradient = size->gradient;
        }
        dl_optimizer_begin(size->optimizer);
        dl_optimizer_apply(size->optimizer, size->parameters, gradient, 0, size->count);
    }
    time.end_ns = dl_clock_ns();
    return time;
}

static void run_round(exchange *all, int index, own_memory *own)
{
    const exchange_case *at = all->at;
    server_memory *size = &all->sizes[at->size];
    lane *mine = &all->lanes[index];
    dl_barrier *within = &all->within[at->threads];
    void *const *vectors = own->vectors[at->size];
    for (int v = index, m = 0; v < at->vectors; v += at->threads, m++) {
        write_vector(all, vectors[m], size->count);
    }
    dl_bench_evict(own->working_set);
    dl_barrier_wait(within);
    for (int v = index, m = 0; v < at->vectors; v += at->threads, m++) {
        mine->push[m] = copy_timed(size->slots[v], vectors[m], size->bytes);
    }
    dl_barrier_wait(within);
    if (index < (at->servers > 0 ? at->servers : 1)) mine->server = serve(all, at, size, index);
    dl_barrier_wait(within);
    for (int v = index, m = 0; v < at->vectors; v += at->threads, m++) {
        mine->pull[m] = copy_timed(vectors[m], size->parameters, size->bytes);
    }
}

static void add_copy(exchange *all, int worker, dl_phase phase, const span *time)
{
    dl_bench_add(all->bench, DL_BENCH_COPY,
                 (dl_record){.phase = phase,
                             .worker = (uint32_t)worker,
                             .threads = (uint32_t)all->at->threads,
                             .bytes = all->sizes[all->at->size].bytes,
                             .start_ns = time->start_ns,
                             .duration_ns = time->end_ns - time->start_ns});
}

/* Copies that not all threads take part in (n no multiple of t) are left out: fewer than t run. */
static void collect(exchange *all)
{
    const exchange_case *at = all->at;
    const int servers = at->servers > 0 ? at->servers : 1;
    span served = all->lanes[0].server;
    for (int i = 0; i < at->threads; i++) {
        const lane *one = &all->lanes[i];
        for (int m = 0; m < at->vectors / at->threads; m++) {
            add_copy(all, i, DL_PHASE_PUSH, &one->push[m]);
            add_copy(all, i, DL_PHASE_PULL, &one->pull[m]);
        }
        if (i >= servers) continue;
        if (one->server.start_ns < served.start_ns) served.start_ns = one->server.start_ns;
        if (one->server.end_ns > served.end_ns) served.end_ns = one->server.end_ns;
    }
    dl_bench_add(all->bench, at->servers > 0 ? DL_BENCH_AVERAGE : DL_BENCH_UPDATE,
                 (dl_record){.vectors = (uint32_t)at->vectors,
                             .threads = (uint32_t)servers,
                             .bytes = all->sizes[at->size].bytes,
                             .start_ns = served.start_ns,
                             .duration_ns = served.end_ns - served.start_ns});
}

/* Another repetition must fit into what is left of the time, going by those before. */
static bool enough(const exchange *all, int repetitions)
{
    if (repetitions < REPETITIONS_MIN) return false;
    const int64_t used_ns = dl_clock_ns() - all->start_ns;
    return repetitions >= REPETITIONS_MAX || used_ns + used_ns / repetitions > all->budget_ns;
}

/* Thread 0 leads: says what comes next, takes part in all rounds, and collects the times. */
static void lead(exchange *all, own_memory *own)
{
    dl_random random;
    dl_random_init(&random, all->config->train.seed, 0, 0, DL_BENCH_COPY);
    for (int repetition = 0; !enough(all, repetition); repetition++) {
        dl_random_shuffle(&random, all->order, all->case_count);
        for (uint32_t i = 0; i < all->case_count; i++) {
            all->at = &all->cases[all->order[i]];
            dl_barrier_wait(&all->between);
            run_round(all, 0, own);
            dl_barrier_wait(&all->between);
            collect(all);
        }
        dl_progress_update(&all->bench->progress,
                           (double)(dl_clock_ns() - all->start_ns) / (double)all->budget_ns);
    }
    all->at = NULL;
    dl_barrier_wait(&all->between);
}

static void follow(exchange *all, int index, own_memory *own)
{
    for (;;) {
        dl_barrier_wait(&all->between);
        if (all->at == NULL) return;
        if (index < all->at->threads) run_round(all, index, own);
        dl_barrier_wait(&all->between);
    }
}

static void thread_main(void *user, int index)
{
    exchange *all = user;
    own_memory own = {0};
    make_own(all, index, &own);
    if (index == 0) {
        all->start_ns = dl_clock_ns();
        lead(all, &own);
    } else {
        follow(all, index, &own);
    }
    free_own(&own);
}

static dl_status run_threads(exchange *all, dl_error *err)
{
    int *cores = dl_bench_cores(&all->config->train, all->thread_count);
    all->lanes = dl_alloc_aligned((size_t)all->thread_count * sizeof *all->lanes, "lanes");
    all->within =
        dl_alloc_aligned(((size_t)all->thread_count + 1) * sizeof *all->within, "barriers");
    for (int t = 1; t <= all->thread_count; t++) {
        dl_barrier_init(&all->within[t], t, DL_WAIT_SPIN);
    }
    dl_barrier_init(&all->between, all->thread_count, DL_WAIT_BLOCK);
    const dl_status status = dl_crew_run(all->thread_count, cores, thread_main, all, err);
    dl_barrier_free(&all->between);
    for (int t = 1; t <= all->thread_count; t++)
        dl_barrier_free(&all->within[t]);
    free(all->within);
    free(all->lanes);
    free(cores);
    return status;
}

dl_status dl_bench_exchange(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                            dl_error *err)
{
    exchange all = {.config = config, .bench = bench, .budget_ns = budget_ns};
    all.thread_count = dl_run_cores(&config->train);
    if (all.thread_count > VECTORS_MAX) all.thread_count = VECTORS_MAX;
    dl_status status = make_sizes(&all, err);
    if (status == DL_OK) {
        make_cases(&all);
        status = run_threads(&all, err);
    }
    free(all.order);
    free(all.cases);
    free_sizes(&all);
    return status;
}
