/* One round of exchange between n vectors on t threads, in the state of memory in which training
 * leaves it: every thread makes its vectors, all meet, push, the server works, all pull.
 *
 * A vector is made as training makes it. In the real size, that of the model's parameters, a
 * replica of the model runs a step (and, before an averaging, its update), so that caches hold what
 * they hold behind a step; each thread has one replica. Vectors of the other sizes are written
 * behind a pass over a working set larger than a core's private caches, and a thread may have
 * several. Vector v is thread v mod t's; all its memory is allocated and first touched by it. The
 * server's memory lasts from round to round. */
#ifndef DL_PROFILER_EXCHANGE_ROUND_H
#define DL_PROFILER_EXCHANGE_ROUND_H

#include "common/status.h"
#include "kernels/exchange.h"
#include "profiler/bench/bench.h"

#define DL_ROUND_VECTORS_MAX 16
#define DL_ROUND_SIZES 7
#define DL_ROUND_REAL 0 /* index of the real size */

typedef enum dl_round_kind {
    DL_ROUND_AVERAGE, /* parameters: `servers` threads average slices */
    DL_ROUND_PS,      /* gradients: thread 0 sums them and updates the server's parameters */
    DL_ROUND_ASYNC    /* gradients: each in turn updates them under the lock, and pulls */
} dl_round_kind;

typedef struct dl_round_case {
    dl_round_kind kind;
    int size;    /* index of the size */
    int vectors; /* n; ASYNC and the real size: = threads */
    int threads; /* t <= n */
    int servers; /* AVERAGE: s <= t; else 1 */
} dl_round_case;

typedef struct dl_span {
    int64_t start_ns, end_ns;
} dl_span;

/* What one thread timed in a round: the push and pull of its first vector, which all threads copy
 * at once (the pull of ASYNC: one after the other), and its part of the server's work. */
typedef struct dl_round_times {
    _Alignas(64) dl_span push;
    dl_span pull, server;
} dl_round_times;

typedef struct dl_round_size {
    size_t bytes, count; /* of one vector: bytes, numbers */
    int vectors_max;     /* most vectors of a round */
    void *slots[DL_ROUND_VECTORS_MAX];
    void *gradient, *parameters;
    dl_optimizer *optimizer;
} dl_round_size;

/* The server and what the threads meet at. */
typedef struct dl_round_shared {
    const dl_bench_config *config;
    int batch; /* samples of a replica's step */
    dl_round_size sizes[DL_ROUND_SIZES];
    int thread_count;
    dl_barrier *within; /* [thread_count + 1]: of the t threads of a round, spinning */
    dl_lock lock;
} dl_round_shared;

/* Sizes: the real one; 64 KiB, and the parameters times 1/4, 1/2, 1, 2, 4; at most 16 times the
 * parameters in one round (but always one vector). */
dl_status dl_round_shared_init(dl_round_shared *shared, const dl_bench_config *config,
                               int thread_count, dl_error *err) DL_MUST_CHECK;
void dl_round_shared_free(dl_round_shared *shared); /* a zeroed object is fine */

/* One thread's own memory. */
typedef struct dl_round_own {
    dl_model *model;
    dl_optimizer *optimizer;
    void *vectors[DL_ROUND_SIZES][DL_ROUND_VECTORS_MAX]; /* none of the real size */
    void *working_set;
    uint32_t *samples; /* [batch] of the next step */
} dl_round_own;

/* Makes the memory of thread `index`, on that thread. */
dl_status dl_round_own_init(dl_round_own *own, const dl_round_shared *shared, int index,
                            dl_error *err) DL_MUST_CHECK;
void dl_round_own_free(dl_round_own *own); /* a zeroed object is fine */

/* Thread `index` < at->threads takes part in a round; all of them call it. */
void dl_round_run(dl_round_shared *shared, const dl_round_case *at, int index, dl_round_own *own,
                  dl_round_times *times);

#endif
