/* Exchange between training threads: averages, the barrier, the server's lock. The training modes
 * and the micro-benchmarks use the same functions, so that `dlprof bench` measures what training
 * does. */
#ifndef DL_KERNELS_EXCHANGE_H
#define DL_KERNELS_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "kernels/model.h"

/* result[i] = mean of vectors[0..n-1][i] for i in first .. first+count-1, n >= 1, in one fused pass
 * that reads n vectors and writes one. `result` may be one of the vectors. The sum is taken in the
 * order of the vectors, so the result does not depend on who computes it; n = 1 copies exactly. */
void dl_exchange_average(void *result, const void *const *vectors, int n, size_t first,
                         size_t count, dl_precision precision);

/* As dl_exchange_average with any divisor: result[i] = sum / of, as a product with 1 / of; `of` = 1
 * gives the sum. Several calls give the same bits as one if each passes the previous sum as its
 * first vector. */
void dl_exchange_sum(void *result, const void *const *vectors, int n, int of, size_t first,
                     size_t count, dl_precision precision);

/* result[i] += factor x from[i], i < count, rounded once for the factors 1 and -1. */
void dl_exchange_add(void *result, const void *from, double factor, size_t count,
                     dl_precision precision);

/* parameters[i] = own_frac x parameters[i] + (1 - own_frac) x average[i], i < count: merges an
 * average sent some steps ago into a worker's parameters (Streaming DiLoCo, Douillard et al. 2025,
 * whose alpha is own_frac). 0 copies the average exactly. */
void dl_exchange_mix(void *parameters, const void *average, double own_frac, size_t count,
                     dl_precision precision);

/* Outer optimizers of local SGD, named in dl_outer_names. The gradient (pseudo-gradient) is the
 * difference between the parameters that the workers started from and the average of those they
 * have reached. */
typedef enum dl_outer {
    DL_OUTER_NONE,    /* the average replaces the parameters */
    DL_OUTER_SGD,     /* with momentum: block-momentum SGD (BMUF, Chen & Huo 2016) */
    DL_OUTER_NESTEROV /* with Nesterov momentum: DiLoCo (Douillard et al. 2023) */
} dl_outer;

extern const char *const dl_outer_names[]; /* "none", "sgd", "nesterov", NULL */

typedef struct dl_outer_config {
    dl_outer kind;
    double rate;     /* > 0 */
    double momentum; /* 0 <= momentum < 1 */
} dl_outer_config;

/* An outer step on numbers first ... first + count - 1:
 *
 *   d <- parameters - average;   v <- momentum v + d;
 *   g <- v (sgd), d + momentum v (nesterov);   parameters <- average - (rate g - d)
 *
 * The new parameters are the old ones less rate g; with rate 1 and momentum 0 they are exactly the
 * average. `velocity` is v, initially 0. */
void dl_exchange_outer(void *parameters, const void *average, void *velocity,
                       const dl_outer_config *outer, size_t first, size_t count,
                       dl_precision precision);

/* How threads wait for one another: AUTO lets training choose. */
typedef enum dl_wait { DL_WAIT_AUTO, DL_WAIT_SPIN, DL_WAIT_BLOCK } dl_wait;
extern const char *const dl_wait_names[]; /* "auto", "spin", "block", NULL */

/* A reusable barrier of `parties` threads: spins, or blocks in the kernel (pthread barrier). */
typedef struct dl_barrier {
    dl_wait wait; /* SPIN or BLOCK */
    int parties;
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_uint round;
    pthread_barrier_t blocking; /* BLOCK only */
} dl_barrier;

/* `wait` is SPIN or BLOCK, here and for the lock; the caller resolves AUTO. */
void dl_barrier_init(dl_barrier *barrier, int parties, dl_wait wait);
void dl_barrier_free(dl_barrier *barrier);
/* Returns after all parties have called it. Writes before the call are visible after it. */
void dl_barrier_wait(dl_barrier *barrier);

/* The server's lock. SPIN: a ticket lock, first come, first served. BLOCK: a mutex, taken by
 * whichever thread runs first: if it were handed to a sleeping thread, all would wait each time
 * until that thread is woken and gets a core. */
typedef struct dl_lock {
    dl_wait wait;
    _Alignas(64) atomic_uint next; /* next ticket to hand out */
    _Alignas(64) atomic_uint serving;
    pthread_mutex_t mutex; /* BLOCK only */
} dl_lock;

/* Initialises a free lock. Only the thread that holds it may call dl_lock_release. */
void dl_lock_init(dl_lock *lock, dl_wait wait);
void dl_lock_free(dl_lock *lock);
void dl_lock_acquire(dl_lock *lock);
void dl_lock_release(dl_lock *lock);

#endif
