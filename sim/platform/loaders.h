/* Batches of workers on cores, made by loaders: processes of each worker (the worker processes of
 * PyTorch's DataLoader), which share the cores with everything else (host.h).
 *
 *   worker   [step 4 ........][step 5 ........]
 *   loader 0 [batch 6: read][make] [batch 8: read][make]     batch k: loader k mod loaders
 *   loader 1 [make] [batch 7: read][make]
 *
 * A batch is made sample by sample (a large one in 4096 equal parts): each is read from storage,
 * which serves requests in sequence while the loader sleeps, then made on a core. During a pause
 * storage reads up to `ahead_bytes` ahead, which are then available immediately (the operating
 * system's read-ahead, or the burst of a rate-limited disk after a rest).
 *
 * A worker takes its batches in order, and has at most `prefetch` of them waiting or being made: it
 * requests the next one when it takes one. With a prefetch of 0, it requests one when it needs it.
 * A step cut by an absence is repeated with another batch; batches beyond one per step are
 * requested when needed.
 *
 * Without loaders a worker makes each batch itself when it needs it: in its step or, if storage
 * limits it, through this module on the worker's thread, which sleeps during each read.
 *
 * Not modelled: a cache that fills. */
#ifndef DL_SIM_LOADERS_H
#define DL_SIM_LOADERS_H

#include "sim/platform/host.h"

typedef struct dl_loaders_config {
    dl_engine *engine; /* borrowed, like all pointers here; needs room for dl_loaders_events */
    dl_host *host;
    int workers;                 /* training workers, threads 0 to workers - 1 of the host */
    int loaders;                 /* loaders per worker, >= 0 */
    int prefetch;                /* batches per worker made ahead, >= 0 */
    int first_thread;            /* the host's thread of worker 0's first loader */
    int64_t samples;             /* samples per batch, >= 1 */
    double make_ns;              /* time to make a batch, >= 0 */
    double read_bytes;           /* bytes read from storage per batch, >= 0 */
    double storage_bytes_per_ns; /* rate of storage, > 0; INFINITY: no limit */
    double ahead_bytes;          /* bytes that storage reads ahead, >= 0 */
    int64_t steps;               /* largest number of batches per worker that are made ahead */
    const bool *stopping;        /* set: no more batches are begun */
    /* Factor on the time of a batch that a worker makes itself. */
    double (*effort)(void *user, int worker);
    /* The batch that the worker waits for has been made and taken. May be called from the host's
     * done callback of the worker's thread. */
    void (*came)(void *user, int worker);
    void *user;
} dl_loaders_config;

/* A loader, or without loaders a worker that makes its batches itself. */
typedef struct dl_maker {
    int64_t next;    /* batch that is being made or will be made next */
    int64_t samples; /* samples of that batch already made */
    bool busy;
    bool reading; /* its next sample is being read */
    bool read;    /* its next sample has been read */
    bool making;  /* its thread does work started by this module */
} dl_maker;

typedef struct dl_loaded_worker {
    int64_t ordered, taken; /* numbers of batches requested and taken */
    bool wanted;            /* the worker waits for a batch */
} dl_loaded_worker;

typedef struct dl_loaders {
    dl_loaders_config config;
    int64_t storage_free_ns;   /* end of all reads requested so far */
    double read_ns;            /* total time of all reads requested so far */
    dl_maker *makers;          /* [workers x loaders, or workers without loaders] */
    dl_loaded_worker *workers; /* [workers] */
    bool *made;                /* [workers x depth] whether a batch is made, by its number modulo
                                * depth */
} dl_loaders;

/* dl_loaders_free accepts a zeroed object. */
void dl_loaders_init(dl_loaders *loaders, const dl_loaders_config *config);
void dl_loaders_free(dl_loaders *loaders);

/* Largest number of pending events. */
int dl_loaders_events(const dl_loaders_config *config);

/* Starts the first batches of the run. */
void dl_loaders_start(dl_loaders *loaders);

/* Takes the worker's next batch; false if it is not ready: `came` is then called when it is. Always
 * true without loaders and storage limit: the worker then makes the batch in its step. */
bool dl_loaders_take(dl_loaders *loaders, int worker);

/* Ends the worker's wait for a batch; returns whether it waited. */
bool dl_loaders_give_up(dl_loaders *loaders, int worker);

/* Call this when the host's thread has ended its work; true if this module started that work. */
bool dl_loaders_done(dl_loaders *loaders, int thread);

/* Fraction of the time up to now in which storage was read. */
double dl_loaders_storage_frac(const dl_loaders *loaders);

#endif
