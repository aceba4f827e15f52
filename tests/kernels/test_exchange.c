/* Copies, averages, barrier and lock of the training threads. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/check.h"

#include "common/random.h"
#include "common/units.h"
#include "kernels/exchange.h"

#define VECTORS_MAX 40
#define COUNT_MAX 2500
#define THREADS 4

/* System: n vectors of random numbers, a range in the middle of them. Expectation: inside the range
 * the plain sum in the order of the vectors times 1/n, bit for bit; outside nothing changes.
 * Sizes are odd so that every remainder of vector width, group (8) and block (1024) occurs. */
static void check_average_float(int n, size_t first, size_t count, bool in_place)
{
    static float data[VECTORS_MAX][COUNT_MAX], expected[COUNT_MAX], result[COUNT_MAX];
    const void *vectors[VECTORS_MAX];
    dl_random stream;
    dl_random_init(&stream, 7, (uint32_t)n, (uint32_t)count, 0);
    for (int v = 0; v < n; v++) {
        for (size_t i = 0; i < COUNT_MAX; i++)
            data[v][i] = (float)dl_random_normal(&stream);
        vectors[v] = data[v];
    }
    float *out = in_place ? data[n - 1] : result;
    memcpy(expected, out, sizeof expected);
    for (size_t i = first; i < first + count; i++) {
        float sum = data[0][i];
        for (int v = 1; v < n; v++)
            sum += data[v][i];
        expected[i] = sum * (1.0f / (float)n);
    }
    dl_exchange_average(out, vectors, n, first, count, DL_FLOAT);
    assert_memory_equal(out, expected, sizeof expected);
}

static void check_average_double(int n, size_t first, size_t count)
{
    static double data[VECTORS_MAX][COUNT_MAX], expected[COUNT_MAX], result[COUNT_MAX];
    const void *vectors[VECTORS_MAX];
    dl_random stream;
    dl_random_init(&stream, 8, (uint32_t)n, (uint32_t)count, 0);
    for (int v = 0; v < n; v++) {
        for (size_t i = 0; i < COUNT_MAX; i++)
            data[v][i] = dl_random_normal(&stream);
        vectors[v] = data[v];
    }
    memcpy(expected, result, sizeof expected);
    for (size_t i = first; i < first + count; i++) {
        double sum = data[0][i];
        for (int v = 1; v < n; v++)
            sum += data[v][i];
        expected[i] = sum * (1.0 / n);
    }
    dl_exchange_average(result, vectors, n, first, count, DL_DOUBLE);
    assert_memory_equal(result, expected, sizeof expected);
}

static void average_is_the_mean_in_order(void **state DL_UNUSED)
{
    static const int numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 40};
    static const size_t counts[] = {0, 1, 7, 33, 1023, 1024, 1025, 2311};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            check_average_float(numbers[k], 13, counts[c], false);
            check_average_float(numbers[k], 16, counts[c], true);
            check_average_double(numbers[k], 13, counts[c]);
        }
    }
}

/* One vector's average is the vector itself, bit for bit, whatever the bits are. */
static void average_of_one_copies(void **state DL_UNUSED)
{
    const float values[5] = {1e-45f, -0.0f, 3.4e38f, 1.0f / 3, 7};
    const void *vectors[] = {values};
    float result[5] = {0};
    dl_exchange_average(result, vectors, 1, 0, 5, DL_FLOAT);
    assert_memory_equal(result, values, sizeof values);
}

/* State shared by the threads of the barrier test: plain numbers, so that a barrier that lets a
 * thread through too early is detected (and ThreadSanitizer sees the missing order). */
typedef struct barrier_case {
    dl_barrier barrier;
    int parties, rounds;
    int written[THREADS]; /* last round written by each thread */
    int wrong[THREADS];
} barrier_case;

typedef struct barrier_thread {
    barrier_case *shared;
    int index;
} barrier_thread;

static void *barrier_run(void *argument)
{
    const barrier_thread *me = argument;
    barrier_case *shared = me->shared;
    for (int round = 1; round <= shared->rounds; round++) {
        shared->written[me->index] = round;
        dl_barrier_wait(&shared->barrier);
        for (int i = 0; i < shared->parties; i++)
            shared->wrong[me->index] += shared->written[i] != round;
        dl_barrier_wait(&shared->barrier);
    }
    return NULL;
}

/* System: 4 threads write the round's number, wait at the barrier, read all numbers, wait again.
 * Expectation: every thread reads the current round from all, in every round. */
static void check_barrier(dl_wait wait, int parties, int rounds)
{
    barrier_case shared = {.parties = parties, .rounds = rounds};
    barrier_thread threads[THREADS];
    pthread_t ids[THREADS];
    dl_barrier_init(&shared.barrier, parties, wait);
    for (int i = 0; i < parties; i++) {
        threads[i] = (barrier_thread){&shared, i};
        assert_int_equal(pthread_create(&ids[i], NULL, barrier_run, &threads[i]), 0);
    }
    for (int i = 0; i < parties; i++)
        pthread_join(ids[i], NULL);
    dl_barrier_free(&shared.barrier);
    for (int i = 0; i < parties; i++) {
        assert_int_equal(shared.wrong[i], 0);
        assert_int_equal(shared.written[i], rounds);
    }
}

/* Spinning threads may outnumber the cores here: each round then costs scheduler slices, hence few
 * rounds. */
static void barrier_spins(void **state DL_UNUSED)
{
    check_barrier(DL_WAIT_SPIN, 2, 2000);
    check_barrier(DL_WAIT_SPIN, THREADS, 20);
}

static void barrier_blocks(void **state DL_UNUSED)
{
    check_barrier(DL_WAIT_BLOCK, 2, 2000);
    check_barrier(DL_WAIT_BLOCK, THREADS, 1000);
}

static void barrier_of_one_never_waits(void **state DL_UNUSED)
{
    check_barrier(DL_WAIT_SPIN, 1, 3);
    check_barrier(DL_WAIT_BLOCK, 1, 3);
}

typedef struct lock_case {
    dl_lock lock;
    int turns;
    long counter; /* guarded by the lock */
    int inside;   /* guarded: number of holders */
    int overlaps;
} lock_case;

static void *lock_run(void *argument)
{
    lock_case *shared = argument;
    for (int i = 0; i < shared->turns; i++) {
        dl_lock_acquire(&shared->lock);
        shared->inside++;
        shared->overlaps += shared->inside != 1;
        shared->counter++;
        shared->inside--;
        dl_lock_release(&shared->lock);
    }
    return NULL;
}

/* System: 4 threads add 1 under the lock. Expectation: no addition is lost, and no two threads hold
 * it. */
static void check_lock(dl_wait wait, int turns)
{
    lock_case shared = {.turns = turns};
    pthread_t ids[THREADS];
    dl_lock_init(&shared.lock, wait);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&ids[i], NULL, lock_run, &shared), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    dl_lock_free(&shared.lock);
    assert_int_equal(shared.counter, (long)THREADS * turns);
    assert_int_equal(shared.overlaps, 0);
}

static void lock_excludes(void **state DL_UNUSED)
{
    check_lock(DL_WAIT_SPIN, 20);
    check_lock(DL_WAIT_BLOCK, 2000);
}

typedef struct queue_case {
    dl_lock lock;
    int order[THREADS]; /* threads in the order in which they got the lock; guarded by it */
    int served;
} queue_case;

typedef struct queue_thread {
    queue_case *shared;
    int index;
} queue_thread;

static void *queue_run(void *argument)
{
    const queue_thread *me = argument;
    dl_lock_acquire(&me->shared->lock);
    me->shared->order[me->shared->served++] = me->index;
    dl_lock_release(&me->shared->lock);
    return NULL;
}

/* System: the spinning lock is held while threads 0..3 queue up, each started only after the
 * previous one has drawn its ticket (`next` counts tickets). Expectation: they are served in this
 * order. */
static void spinning_lock_is_first_come_first_served(void **state DL_UNUSED)
{
    queue_case shared = {0};
    queue_thread threads[THREADS];
    pthread_t ids[THREADS];
    dl_lock_init(&shared.lock, DL_WAIT_SPIN);
    dl_lock_acquire(&shared.lock);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (queue_thread){&shared, i};
        assert_int_equal(pthread_create(&ids[i], NULL, queue_run, &threads[i]), 0);
        while (atomic_load(&shared.lock.next) != (unsigned)i + 2)
            sched_yield();
    }
    dl_lock_release(&shared.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    dl_lock_free(&shared.lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(shared.order[i], i);
}

/* Worked out by hand, all numbers exact: from p = 2 with averages of 1 and rate and momentum 1/2,
 *   sgd:      d = 1, v = 1, p = 1 - (1/2 - 1) = 1.5; d = 1/2, v = 1, p = 1 - (1/2 - 1/2) = 1
 *   nesterov: d = 1, v = 1, g = 3/2, p = 2 - 3/4 = 1.25; d = 1/4, v = 3/4, g = 5/8, p = 0.9375
 * Only the numbers of the slice change. */
static void outer_steps(void **state DL_UNUSED)
{
    static const double expected[][2] = {
        [DL_OUTER_SGD] = {1.5, 1}, [DL_OUTER_NESTEROV] = {1.25, 0.9375}};
    for (int kind = DL_OUTER_SGD; kind <= DL_OUTER_NESTEROV; kind++) {
        const dl_outer_config outer = {(dl_outer)kind, 0.5, 0.5};
        float p[3] = {2, 2, 2}, v[3] = {0};
        double pd[3] = {2, 2, 2}, vd[3] = {0};
        const float average[3] = {1, 1, 1};
        const double average_d[3] = {1, 1, 1};
        for (int step = 0; step < 2; step++) {
            dl_exchange_outer(p, average, v, &outer, 1, 1, DL_FLOAT);
            dl_exchange_outer(pd, average_d, vd, &outer, 1, 1, DL_DOUBLE);
            assert_true(p[1] == (float)expected[kind][step]);
            assert_true(pd[1] == expected[kind][step]);
        }
        assert_true(p[0] == 2 && p[2] == 2 && v[0] == 0 && v[2] == 0);
        assert_true(pd[0] == 2 && pd[2] == 2 && vd[0] == 0 && vd[2] == 0);
    }
}

/* With rate 1 and no momentum the result is exactly the average, including the sign of zero. */
static void a_plain_outer_step_is_the_average(void **state DL_UNUSED)
{
    const float average[] = {0.1f, -0.0f, 0, 1e-38f, -3e30f};
    for (int kind = DL_OUTER_SGD; kind <= DL_OUTER_NESTEROV; kind++) {
        const dl_outer_config outer = {(dl_outer)kind, 1, 0};
        float p[] = {3e7f, 0, -0.0f, 1, 1e-3f}, v[5] = {0};
        for (int step = 0; step < 2; step++) {
            dl_exchange_outer(p, average, v, &outer, 0, 5, DL_FLOAT);
            assert_memory_equal(p, average, sizeof p);
        }
    }
}

/* A quarter of 8 and three quarters of 4 give 5; of -2 and 6, 4. With 0 the average is copied, even
 * where a worker's own number is not finite; with 1 nothing changes. */
static void parameters_mix_with_an_average(void **state DL_UNUSED)
{
    static const float average[] = {4, 6};
    static const double average_d[] = {4, 6};
    float own[] = {8, -2};
    double own_d[] = {8, -2};
    dl_exchange_mix(own, average, 0.25, 2, DL_FLOAT);
    dl_exchange_mix(own_d, average_d, 0.25, 2, DL_DOUBLE);
    assert_true(own[0] == 5 && own[1] == 4 && own_d[0] == 5 && own_d[1] == 4);
    dl_exchange_mix(own, average, 1, 2, DL_FLOAT);
    assert_true(own[0] == 5 && own[1] == 4);
    own[0] = (float)INFINITY;
    dl_exchange_mix(own, average, 0, 2, DL_FLOAT);
    assert_true(own[0] == 4 && own[1] == 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(average_is_the_mean_in_order),
        cmocka_unit_test(average_of_one_copies),
        cmocka_unit_test(outer_steps),
        cmocka_unit_test(a_plain_outer_step_is_the_average),
        cmocka_unit_test(parameters_mix_with_an_average),
        cmocka_unit_test(barrier_spins),
        cmocka_unit_test(barrier_blocks),
        cmocka_unit_test(barrier_of_one_never_waits),
        cmocka_unit_test(lock_excludes),
        cmocka_unit_test(spinning_lock_is_first_come_first_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
