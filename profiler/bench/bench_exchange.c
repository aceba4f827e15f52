#include "profiler/bench/bench_exchange.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "profiler/bench/bench_order.h"
#include "profiler/bench/crew.h"
#include "profiler/bench/exchange_round.h"
#include "profiler/run/run_meta.h"

#define REPETITIONS_MIN 2
#define REPETITIONS_MAX 200
#define CASES_MAX (4 * (DL_ROUND_SIZES * 5 + DL_BENCH_COUNTS_MAX))

/* Rounds of a case in a row: the first ones only bring the server's memory into the state in which
 * the last exchange leaves it, and are not recorded. */
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
    dl_barrier between;      /* of all threads, between rounds: those not needed sleep */
    const dl_round_case *at; /* the present round; NULL: the end */
    dl_status *status;       /* [thread_count] of setting up */
    dl_error *errors;        /* [thread_count] */
    int64_t start_ns, budget_ns;
} exchange;

static void add_case(exchange *all, dl_round_case added)
{
    DL_ASSERT(all->case_count < CASES_MAX, "%u cases", all->case_count);
    all->cases[all->case_count++] = added;
}

/* The kinds of round with n vectors on t threads. With one core only, the asynchronous update is
 * that of a single thread. */
static void add_kinds(exchange *all, int size, int n, int t)
{
    add_case(all, (dl_round_case){DL_ROUND_AVERAGE, size, n, t, 1});
    if (t > 1) add_case(all, (dl_round_case){DL_ROUND_AVERAGE, size, n, t, t});
    if (n > 1) add_case(all, (dl_round_case){DL_ROUND_PS, size, n, t, 1});
    if (n == t && (n > 1 || all->thread_count == 1)) {
        add_case(all, (dl_round_case){DL_ROUND_ASYNC, size, n, t, 1});
    }
}

/* Of a snapshot: the rounds that dlcal compares from run to run (calibrate/exchange_runs.h). */
static void make_snapshot_cases(exchange *all)
{
    const int t = all->thread_count < 2 ? 1 : 2;
    add_case(all, (dl_round_case){DL_ROUND_AVERAGE, DL_ROUND_REAL, t, t, 1});
    add_case(all, (dl_round_case){DL_ROUND_ASYNC, DL_ROUND_REAL, t, t, 1});
}

static void make_cases(exchange *all)
{
    if (all->config->snapshot) {
        make_snapshot_cases(all);
        return;
    }
    int counts[DL_BENCH_COUNTS_MAX];
    const int count = dl_bench_thread_counts(all->thread_count, counts);
    const size_t real_bytes = all->shared.sizes[DL_ROUND_REAL].bytes;
    for (int i = 0; i < count; i++) {
        add_kinds(all, DL_ROUND_REAL, counts[i], counts[i]);
    }
    for (int size = DL_ROUND_REAL + 1; size < DL_ROUND_SIZES; size++) {
        for (int n = 1; n <= all->shared.sizes[size].vectors_max; n *= 2) {
            const int t = n < all->thread_count ? n : all->thread_count;
            if (n == t && all->shared.sizes[size].bytes == real_bytes) continue;
            add_kinds(all, size, n, t);
        }
    }
}

static void add_copy(exchange *all, int worker, dl_phase phase, int at_once, const dl_span *time)
{
    dl_bench_add(all->bench, DL_BENCH_COPY,
                 (dl_record){.phase = phase,
                             .worker = (uint32_t)worker,
                             .threads = (uint32_t)at_once,
                             .bytes = all->shared.sizes[all->at->size].bytes,
                             .start_ns = time->start_ns,
                             .duration_ns = time->end_ns - time->start_ns});
}

static void add_server(exchange *all, dl_bench_name name, int worker, int vectors,
                       const dl_span *time)
{
    dl_bench_add(all->bench, name,
                 (dl_record){.worker = (uint32_t)worker,
                             .vectors = (uint32_t)vectors,
                             .threads = (uint32_t)all->at->servers,
                             .bytes = all->shared.sizes[all->at->size].bytes,
                             .start_ns = time->start_ns,
                             .duration_ns = time->end_ns - time->start_ns});
}

static void collect(exchange *all)
{
    const dl_round_case *at = all->at;
    const bool async = at->kind == DL_ROUND_ASYNC;
    dl_span served = all->times[0].server;
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

/* Another repetition must fit into what is left of the time, going by those before. */
static bool enough(const exchange *all, int repetitions)
{
    if (dl_train_stopped(&all->config->train)) return true;
    if (repetitions < REPETITIONS_MIN) return false;
    const int64_t used_ns = dl_clock_ns() - all->start_ns;
    return repetitions >= REPETITIONS_MAX || used_ns + used_ns / repetitions > all->budget_ns;
}

/* The rounds of one case. */
static void lead_case(exchange *all, dl_round_own *own)
{
    const int rounds = WARM_ROUNDS + (all->at->size == DL_ROUND_REAL ? REAL_ROUNDS : ROUNDS);
    for (int round = 0; round < rounds; round++) {
        dl_barrier_wait(&all->between);
        dl_round_run(&all->shared, all->at, 0, own, &all->times[0]);
        dl_barrier_wait(&all->between);
        if (round >= WARM_ROUNDS) collect(all);
    }
}

/* Thread 0 leads: says what comes next, takes part in all rounds, and collects the times. */
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
            dl_round_run(&all->shared, all->at, index, own, &all->times[index]);
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
    all->status[index] = dl_round_own_init(&own, &all->shared, index, &all->errors[index]);
    dl_barrier_wait(&all->between);
    if (all_set_up(all)) {
        if (index == 0) {
            lead(all, &own);
        } else {
            follow(all, index, &own);
        }
    }
    if (all->status[index] == DL_OK) dl_round_own_free(&own);
}

static dl_status run_threads(exchange *all, dl_error *err)
{
    const size_t count = (size_t)all->thread_count;
    int *cores = dl_bench_cores(&all->config->train, all->thread_count);
    all->times = dl_alloc_aligned(count * sizeof *all->times, "times of a round");
    all->status = dl_calloc(count, sizeof *all->status, "exchange threads");
    all->errors = dl_calloc(count, sizeof *all->errors, "exchange threads");
    dl_barrier_init(&all->between, all->thread_count, DL_WAIT_BLOCK);
    dl_status status = dl_crew_run(all->thread_count, cores, thread_main, all, err);
    for (int i = 0; status == DL_OK && i < all->thread_count; i++) {
        status = all->status[i];
        if (status != DL_OK && err != NULL) *err = all->errors[i];
    }
    dl_barrier_free(&all->between);
    free(all->errors);
    free(all->status);
    free(all->times);
    free(cores);
    return status;
}

dl_status dl_bench_exchange(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                            dl_error *err)
{
    exchange *all = dl_alloc_aligned(sizeof *all, "exchange");
    all->config = config;
    all->bench = bench;
    all->budget_ns = budget_ns;
    all->thread_count = dl_run_cores(&config->train);
    if (all->thread_count > DL_ROUND_VECTORS_MAX) all->thread_count = DL_ROUND_VECTORS_MAX;
    dl_status status = dl_round_shared_init(&all->shared, config, all->thread_count, err);
    if (status == DL_OK) {
        make_cases(all);
        status = run_threads(all, err);
        dl_round_shared_free(&all->shared);
    }
    free(all);
    return status;
}
