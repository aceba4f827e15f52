#include "kernels/exchange.h"

#include <string.h>

#include "common/cpu.h"
#include "common/status.h"
#include "kernels/vector_internal.h"

void dl_exchange_sum(void *result, const void *const *vectors, int n, int of, size_t first,
                     size_t count, dl_precision precision)
{
    DL_ASSERT(n >= 1 && of >= 1, "n %d, of %d", n, of);
    if (precision == DL_FLOAT) {
        dl_exchange_sum_float(result, vectors, n, of, first, count);
    } else {
        dl_exchange_sum_double(result, vectors, n, of, first, count);
    }
}

void dl_exchange_average(void *result, const void *const *vectors, int n, size_t first,
                         size_t count, dl_precision precision)
{
    dl_exchange_sum(result, vectors, n, n, first, count, precision);
}

void dl_exchange_add(void *result, const void *from, double factor, size_t count,
                     dl_precision precision)
{
    if (precision == DL_FLOAT) {
        dl_exchange_add_float(result, from, factor, count);
    } else {
        dl_exchange_add_double(result, from, factor, count);
    }
}

void dl_exchange_mix(void *parameters, const void *average, double own_frac, size_t count,
                     dl_precision precision)
{
    if (own_frac == 0) {
        memcpy(parameters, average, count * dl_precision_bytes(precision));
    } else if (precision == DL_FLOAT) {
        dl_exchange_mix_float(parameters, average, own_frac, count);
    } else {
        dl_exchange_mix_double(parameters, average, own_frac, count);
    }
}

const char *const dl_wait_names[] = {"auto", "spin", "block", NULL};
const char *const dl_outer_names[] = {"none", "sgd", "nesterov", NULL};

void dl_exchange_outer(void *parameters, const void *average, void *velocity,
                       const dl_outer_config *outer, size_t first, size_t count,
                       dl_precision precision)
{
    DL_ASSERT(outer->kind != DL_OUTER_NONE, "no outer optimizer");
    if (precision == DL_FLOAT) {
        dl_exchange_outer_float(parameters, average, velocity, outer, first, count);
    } else {
        dl_exchange_outer_double(parameters, average, velocity, outer, first, count);
    }
}

void dl_barrier_init(dl_barrier *barrier, int parties, dl_wait wait)
{
    DL_ASSERT(parties >= 1 && wait != DL_WAIT_AUTO, "parties %d, wait %d", parties, (int)wait);
    barrier->wait = wait;
    barrier->parties = parties;
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->round, 0);
    if (wait == DL_WAIT_BLOCK) pthread_barrier_init(&barrier->blocking, NULL, (unsigned)parties);
}

void dl_barrier_free(dl_barrier *barrier)
{
    if (barrier->wait == DL_WAIT_BLOCK) pthread_barrier_destroy(&barrier->blocking);
}

/* The round is read before arriving: afterwards the last party may already have advanced it. The
 * count is reset before the round advances, so no thread can arrive at the next round too early. */
static void barrier_spin(dl_barrier *barrier)
{
    const unsigned round = atomic_load_explicit(&barrier->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 ==
        barrier->parties) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&barrier->round, round + 1, memory_order_release);
        return;
    }
    while (atomic_load_explicit(&barrier->round, memory_order_acquire) == round)
        dl_cpu_relax();
}

void dl_barrier_wait(dl_barrier *barrier)
{
    if (barrier->wait == DL_WAIT_SPIN) {
        barrier_spin(barrier);
    } else {
        (void)pthread_barrier_wait(&barrier->blocking);
    }
}

void dl_lock_init(dl_lock *lock, dl_wait wait)
{
    DL_ASSERT(wait != DL_WAIT_AUTO, "wait %d", (int)wait);
    lock->wait = wait;
    atomic_init(&lock->next, 0);
    atomic_init(&lock->serving, 0);
    pthread_mutex_init(&lock->mutex, NULL);
}

void dl_lock_free(dl_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

void dl_lock_acquire(dl_lock *lock)
{
    if (lock->wait == DL_WAIT_BLOCK) {
        pthread_mutex_lock(&lock->mutex);
        return;
    }
    const unsigned ticket = atomic_fetch_add_explicit(&lock->next, 1, memory_order_relaxed);
    while (atomic_load_explicit(&lock->serving, memory_order_acquire) != ticket)
        dl_cpu_relax();
}

/* Only the holder changes `serving`, so reading and storing it is not a race. */
void dl_lock_release(dl_lock *lock)
{
    if (lock->wait == DL_WAIT_BLOCK) {
        pthread_mutex_unlock(&lock->mutex);
        return;
    }
    const unsigned next = atomic_load_explicit(&lock->serving, memory_order_relaxed) + 1;
    atomic_store_explicit(&lock->serving, next, memory_order_release);
}
