#include <stdatomic.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/cpu.h"
#include "common/random.h"
#include "common/units.h"
#include "kernels/pinned_threads.h"
#include "profiler/bench/bench.h"
#include "profiler/bench/bench_internal.h"

/* Target and minimum length of a burst. The minimum lets all threads of a burst meet several times;
 * that of a slice burst, per thread, allows several turns of the scheduler. */
#define BURST_NS 120000000LL
#define BURST_NS_MIN 20000000LL
#define SLICE_NS_MIN 80000000LL
#define REPETITIONS_MAX 20

/* A case without a sample, because its threads missed one another on busy cores, is measured again
 * in bursts of this length and twice, four times ... as long, up to the longest. */
#define LONGER_BURST_NS 250000000LL
#define LONGEST_BURST_NS 4000000000LL
#define SAMPLES_MAX 20000 /* maximum samples of one thread in a burst */
#define ROUNDS_MIN 4      /* minimum rounds of a burst, even if its time is over */

/* A blocked thread sleeps for this time plus a random part of the span, so that it is certainly
 * asleep. */
#define SLEEP_NS_MIN 200000
#define SLEEP_NS_SPAN 1800000

typedef struct sync_burst sync_burst;

/* One thread's samples in a burst. */
typedef struct sync_lane {
    _Alignas(64) dl_record *samples; /* [SAMPLES_MAX] */
    int count;
    void *working_set;
    dl_random random;
} sync_lane;

typedef struct sync_case {
    dl_bench_name name;
    void (*run)(sync_burst *burst, int index); /* a thread's part of the burst */
    int threads;
    bool one_core;            /* all threads on the first core instead of one core each */
    uint32_t vectors, in_use; /* values of the records' `vectors` and `threads` */
    size_t samples;           /* number of samples taken so far */
} sync_case;

/* State shared by the threads of a burst. */
struct sync_burst {
    const sync_case *at;
    sync_lane *lanes; /* [at->threads] */
    dl_barrier start; /* lets all threads start together */
    dl_barrier barrier;
    dl_lock lock;
    int64_t end_ns;                       /* end of the burst; set by thread 0 before `start` */
    _Alignas(64) atomic_llong posted_ns;  /* time of the wake-up, or of the release of the lock */
    _Alignas(64) atomic_llong arrived_ns; /* time when the sleeper was about to block; 0: it runs */
    _Alignas(64) atomic_int stop;
    _Alignas(64) atomic_int owner; /* thread that last ran on the core */
};

static void add_sample(sync_burst *burst, int index, int64_t start_ns, int64_t end_ns)
{
    sync_lane *lane = &burst->lanes[index];
    if (lane->count == SAMPLES_MAX) return;
    lane->samples[lane->count++] =
        (dl_record){.worker = (uint32_t)index,
                    .vectors = burst->at->vectors,
                    .threads = burst->at->in_use,
                    .start_ns = start_ns,
                    .duration_ns = end_ns > start_ns ? end_ns - start_ns : 0};
}

/* Barrier: each thread passes over its working set, waits at the barrier, and keeps the times of
 * its arrival and release for make_barrier_samples. At the second barrier of a round the threads
 * agree on whether to stop. */
static void run_barrier(sync_burst *burst, int index)
{
    sync_lane *lane = &burst->lanes[index];
    while (atomic_load(&burst->stop) == 0) {
        dl_bench_evict(lane->working_set);
        const int64_t arrived_ns = dl_clock_ns();
        dl_barrier_wait(&burst->barrier);
        const int64_t released_ns = dl_clock_ns();
        add_sample(burst, index, arrived_ns, released_ns);
        if (index == 0 && lane->count >= ROUNDS_MIN && released_ns >= burst->end_ns) {
            atomic_store(&burst->stop, 1);
        }
        dl_barrier_wait(&burst->barrier);
    }
}

/* A sample lasts from the last arrival to a thread's release. The last thread to arrive did not
 * wait: it has no sample, unless it is alone. */
static void make_barrier_samples(sync_burst *burst)
{
    const int threads = burst->at->threads;
    const int rounds = burst->lanes[0].count;
    for (int i = 0; i < threads; i++)
        burst->lanes[i].count = 0;
    for (int round = 0; round < rounds; round++) {
        int64_t last_ns = INT64_MIN;
        for (int i = 0; i < threads; i++) {
            const int64_t arrived_ns = burst->lanes[i].samples[round].start_ns;
            if (arrived_ns > last_ns) last_ns = arrived_ns;
        }
        for (int i = 0; i < threads; i++) {
            const dl_record own = burst->lanes[i].samples[round];
            if (own.start_ns == last_ns && threads > 1) continue;
            add_sample(burst, i, last_ns, own.start_ns + own.duration_ns);
        }
    }
}

/* Lock: the holder passes over its working set while the others wait in the queue. A hand-over
 * counts if the new holder had asked before the release; alone, each acquisition counts. */
static void run_lock(sync_burst *burst, int index)
{
    sync_lane *lane = &burst->lanes[index];
    for (int round = 0; round < ROUNDS_MIN || dl_clock_ns() < burst->end_ns; round++) {
        const int64_t asked_ns = dl_clock_ns();
        dl_lock_acquire(&burst->lock);
        const int64_t got_ns = dl_clock_ns();
        const int64_t released_ns = atomic_load_explicit(&burst->posted_ns, memory_order_relaxed);
        if (burst->at->threads == 1) {
            add_sample(burst, index, asked_ns, got_ns);
        } else if (asked_ns < released_ns) {
            add_sample(burst, index, released_ns, got_ns);
        }
        dl_bench_evict(lane->working_set);
        atomic_store_explicit(&burst->posted_ns, dl_clock_ns(), memory_order_relaxed);
        dl_lock_release(&burst->lock);
    }
}

/* The sleeper's part: blocks at the barrier until thread 0 arrives, repeatedly. */
static void sleep_and_wake(sync_burst *burst)
{
    for (;;) {
        atomic_store(&burst->arrived_ns, dl_clock_ns());
        dl_barrier_wait(&burst->barrier);
        const int64_t running_ns = dl_clock_ns();
        if (atomic_load(&burst->stop) != 0) return;
        add_sample(burst, 1, atomic_load(&burst->posted_ns), running_ns);
        atomic_store(&burst->arrived_ns, 0);
    }
}

/* Wake-up: thread 0 computes, wakes thread 1 and continues to compute, like the last worker at a
 * blocking barrier. */
static void run_wakeup(sync_burst *burst, int index)
{
    if (index == 1) {
        sleep_and_wake(burst);
        return;
    }
    dl_random *random = &burst->lanes[0].random;
    for (int round = 0; round < ROUNDS_MIN || dl_clock_ns() < burst->end_ns; round++) {
        int64_t asleep_ns;
        while ((asleep_ns = atomic_load(&burst->arrived_ns)) == 0)
            dl_cpu_relax();
        const int64_t until_ns =
            asleep_ns + SLEEP_NS_MIN + (int64_t)dl_random_below(random, SLEEP_NS_SPAN);
        while (dl_clock_ns() < until_ns)
            dl_cpu_relax();
        atomic_store(&burst->posted_ns, dl_clock_ns());
        dl_barrier_wait(&burst->barrier);
        while (atomic_load(&burst->arrived_ns) == asleep_ns)
            dl_cpu_relax();
    }
    while (atomic_load(&burst->arrived_ns) == 0)
        dl_cpu_relax();
    atomic_store(&burst->stop, 1);
    dl_barrier_wait(&burst->barrier);
}

/* Slice: each thread marks the core as its own; when it finds another thread's mark, it has been
 * descheduled. A slice is the CPU time between two such moments, which other processes do not
 * lengthen. A thread's first slice, which may begin before the others want the core, and its last
 * one, which ends with the burst, are left out. */
static void run_slice(sync_burst *burst, int index)
{
    int64_t now_ns, run_start_ns = 0, run_start_cpu_ns = 0;
    int runs = 0;
    while ((now_ns = dl_clock_ns()) < burst->end_ns) {
        if (atomic_load_explicit(&burst->owner, memory_order_relaxed) == index) continue;
        const int64_t cpu_ns = dl_clock_thread_cpu_ns();
        if (runs++ > 1) {
            add_sample(burst, index, run_start_ns, run_start_ns + cpu_ns - run_start_cpu_ns);
        }
        run_start_ns = now_ns;
        run_start_cpu_ns = cpu_ns;
        atomic_store_explicit(&burst->owner, index, memory_order_relaxed);
    }
}

/* All cases of this machine; without a second core, barrier and lock are measured uncontended. */
static int list_cases(int cores, sync_case *cases)
{
    int counts[DL_BENCH_COUNTS_MAX];
    const int count = dl_bench_thread_counts(cores, counts);
    int n = 0;
    for (int i = count > 1 ? 1 : 0; i < count; i++) {
        const uint32_t threads = (uint32_t)counts[i];
        cases[n++] = (sync_case){DL_BENCH_BARRIER, run_barrier, counts[i], false, 0, threads, 0};
        cases[n++] = (sync_case){DL_BENCH_LOCK, run_lock, counts[i], false, 0, threads, 0};
    }
    if (cores > 1) cases[n++] = (sync_case){DL_BENCH_WAKEUP, run_wakeup, 2, false, 0, 2, 0};
    cases[n++] = (sync_case){DL_BENCH_WAKEUP, run_wakeup, 2, true, 0, 1, 0};
    cases[n++] = (sync_case){DL_BENCH_SLICE, run_slice, 2, true, 2, 1, 0};
    cases[n++] = (sync_case){DL_BENCH_SLICE, run_slice, 3, true, 3, 1, 0};
    return n;
}

#define SYNC_CASES_MAX (2 * DL_BENCH_COUNTS_MAX + 4)

typedef struct burst_start {
    sync_burst *burst;
    int64_t duration_ns;
} burst_start;

static void thread_main(void *user, int index)
{
    const burst_start *start = user;
    sync_burst *burst = start->burst;
    if (index == 0) burst->end_ns = dl_clock_ns() + start->duration_ns;
    dl_barrier_wait(&burst->start);
    burst->at->run(burst, index);
}

static void open_burst(sync_burst *burst, const sync_case *at, uint64_t seed, uint32_t repetition)
{
    *burst = (sync_burst){.at = at};
    const dl_wait wait = at->name == DL_BENCH_WAKEUP ? DL_WAIT_BLOCK : DL_WAIT_SPIN;
    dl_barrier_init(&burst->start, at->threads, DL_WAIT_BLOCK);
    dl_barrier_init(&burst->barrier, at->threads, wait);
    dl_lock_init(&burst->lock, wait);
    atomic_init(&burst->owner, -1);
    burst->lanes = dl_alloc_aligned((size_t)at->threads * sizeof *burst->lanes, "sync lanes");
    for (int i = 0; i < at->threads; i++) {
        sync_lane *lane = &burst->lanes[i];
        lane->samples = dl_calloc(SAMPLES_MAX, sizeof *lane->samples, "sync samples");
        lane->working_set = dl_alloc_aligned(DL_BENCH_WORKING_SET_BYTES, "working set");
        dl_random_init(&lane->random, seed, repetition, (uint32_t)at->name, (uint32_t)i);
    }
}

/* Adds the samples to `bench` and frees the burst. Returns the number of samples. */
static size_t close_burst(sync_burst *burst, dl_bench *bench)
{
    size_t samples = 0;
    if (burst->at->name == DL_BENCH_BARRIER) make_barrier_samples(burst);
    for (int i = 0; i < burst->at->threads; i++) {
        sync_lane *lane = &burst->lanes[i];
        samples += (size_t)lane->count;
        for (int s = 0; s < lane->count; s++) {
            dl_bench_add(bench, burst->at->name, lane->samples[s]);
        }
        free(lane->samples);
        free(lane->working_set);
    }
    free(burst->lanes);
    dl_lock_free(&burst->lock);
    dl_barrier_free(&burst->barrier);
    dl_barrier_free(&burst->start);
    return samples;
}

static dl_status run_burst(dl_bench *bench, const dl_bench_config *config, sync_case *at,
                           uint32_t repetition, int64_t duration_ns, dl_error *err)
{
    DL_AUTOFREE sync_burst *burst = dl_alloc_aligned(sizeof *burst, "burst");
    open_burst(burst, at, config->train.seed, repetition);
    DL_AUTOFREE int *cores = dl_bench_cores(&config->train, at->threads);
    for (int i = 0; at->one_core && i < at->threads; i++)
        cores[i] = cores[0];
    const int64_t least_ns = at->name == DL_BENCH_SLICE ? at->threads * SLICE_NS_MIN : BURST_NS_MIN;
    burst_start start = {.burst = burst,
                         .duration_ns = duration_ns > least_ns ? duration_ns : least_ns};
    const dl_status status = dl_pinned_threads_run(at->threads, cores, thread_main, &start, err);
    at->samples += close_burst(burst, bench);
    return status;
}

/* Measures a case that has no sample so far in longer bursts, and adds it to the gaps. */
static dl_status run_longer(dl_bench *bench, const dl_bench_config *config, sync_case *at,
                            uint32_t repetition, dl_error *err)
{
    dl_status status = DL_OK;
    int64_t longest_ns = 0;
    for (int64_t ns = LONGER_BURST_NS; ns <= LONGEST_BURST_NS; ns *= 2) {
        if (status != DL_OK || at->samples > 0 || dl_train_stopped(&config->train)) break;
        longest_ns = ns;
        status = run_burst(bench, config, at, repetition++, ns, err);
    }
    if (longest_ns > 0 && bench->gap_count < DL_BENCH_GAPS_MAX) {
        bench->gaps[bench->gap_count++] =
            (dl_bench_gap){.name = at->name,
                           .threads = at->threads,
                           .longest_s = dl_ns_to_s((double)longest_ns),
                           .found = at->samples > 0};
    }
    return status;
}

dl_status dl_bench_sync(dl_bench *bench, const dl_bench_config *config, int64_t budget_ns,
                        dl_error *err)
{
    sync_case cases[SYNC_CASES_MAX];
    const int count = list_cases(dl_train_cores(&config->train), cases);
    int repetitions = (int)(budget_ns / (count * BURST_NS));
    if (repetitions < 1) repetitions = 1;
    if (repetitions > REPETITIONS_MAX) repetitions = REPETITIONS_MAX;
    const int64_t duration_ns = budget_ns / (count * repetitions);
    DL_SCOPED(dl_bench_order) order;
    dl_bench_order_init(&order, (uint32_t)count, config->train.seed, DL_BENCH_BARRIER);
    dl_status status = DL_OK;
    for (int r = 0; status == DL_OK && r < repetitions; r++) {
        const uint32_t *next = dl_bench_order_next(&order);
        for (int i = 0; status == DL_OK && i < count; i++) {
            if (dl_train_stopped(&config->train)) break;
            status = run_burst(bench, config, &cases[next[i]], (uint32_t)r, duration_ns, err);
        }
        if (dl_train_stopped(&config->train)) break;
        dl_progress_update(&bench->progress, (double)(r + 1) / repetitions);
    }
    for (int i = 0; status == DL_OK && i < count; i++)
        status = run_longer(bench, config, &cases[i], (uint32_t)repetitions, err);
    return status;
}
