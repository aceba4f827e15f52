/* Batches of workers on cores: made by processes beside each worker, its loaders (the worker
 * processes of PyTorch's DataLoader), which share the cores with all else (host.h).
 *
 *   worker   [step 4 ........][step 5 ........]
 *   loader 0 [batch 6: read][make] [batch 8: read][make]     batch k is of loader k mod loaders
 *   loader 1 [make] [batch 7: read][make]
 *
 * A batch is made sample by sample (a large one in 4096 equal parts): each is read from storage,
 * which serves requests one after another while the loader sleeps, then made on a core. Storage
 * reads ahead during a pause, up to `ahead_bytes`, which are then available at once (the operating
 * system's read-ahead, or the burst of a rate-limited disk after a rest).
 *
 * A worker takes its batches in order, and has at most `prefetch` of them waiting or being made: it
 * requests the next one when it takes one. With a prefetch of 0, it requests one when it needs it.
 * A step cut by an absence is repeated with another batch; batches beyond one a step are requested
 * when needed.
 *
 * Without loaders a worker makes each batch itself when it needs it: in its step or, if storage
 * limits it, through this module on the worker's own thread, which sleeps during each read.
 *
 * Not modelled: a cache that fills.
 */
#ifndef DL_SIM_LOADERS_H
#define DL_SIM_LOADERS_H

#include "sim/platform/host.h"

typedef struct dl_loaders_config {
    dl_engine *engine; /* borrowed, like all pointers here; room for dl_loaders_events */
    dl_host *host;
    int workers;                 /* that train: threads 0 .. workers - 1 of the host */
    int loaders;                 /* of each worker; >= 0 */
    int prefetch;                /* >= 0; batches of a worker */
    int first_thread;            /* on the host, of worker 0's first loader */
    int64_t samples;             /* >= 1; of a batch */
    double make_ns;              /* >= 0; of a batch */
    double read_bytes;           /* >= 0; of a batch, from storage */
    double storage_bytes_per_ns; /* > 0, INFINITY: no limit */
    double ahead_bytes;          /* >= 0 */
    int64_t steps;               /* most batches of each worker that are made ahead */
    const bool *stopping;        /* no more batches are begun */
    /* Factor on the worker's own work in this step. */
    double (*effort)(void *user, int worker);
    /* The batch that the worker waits for has been made and taken; also called from its thread's
     * end of work. */
    void (*came)(void *user, int worker);
    void *user;
} dl_loaders_config;

/* A loader, or without loaders a worker that makes its own batches. */
typedef struct dl_maker {
    int64_t next;    /* batch made now or next */
    int64_t samples; /* of that batch already made */
    bool busy;
    bool reading; /* its next sample is being read */
    bool read;    /* its next sample has been read */
    bool making;  /* its thread has work started here */
} dl_maker;

typedef struct dl_loaded_worker {
    int64_t ordered, taken; /* batches */
    bool wanted;            /* waiting for a batch */
} dl_loaded_worker;

typedef struct dl_loaders {
    dl_loaders_config config;
    int64_t storage_free_ns;   /* end of all requested reads */
    double read_ns;            /* total of all requested reads */
    dl_maker *makers;          /* [workers x loaders, or 1 where there are none] */
    dl_loaded_worker *workers; /* [workers] */
    bool *made;                /* [workers x depth] of batches by their number modulo depth */
} dl_loaders;

/* dl_loaders_free accepts a zeroed object. */
void dl_loaders_init(dl_loaders *loaders, const dl_loaders_config *config);
void dl_loaders_free(dl_loaders *loaders);

/* Most pending events. */
int dl_loaders_events(const dl_loaders_config *config);

/* Starts the run's first batches. */
void dl_loaders_start(dl_loaders *loaders);

/* Takes the worker's next batch; false if it is not ready: `came` is called when it is. */
bool dl_loaders_take(dl_loaders *loaders, int worker);

/* The worker stops waiting for a batch; returns whether it waited. */
bool dl_loaders_give_up(dl_loaders *loaders, int worker);

/* The host's thread of this number has ended its work: true if that was started here. */
bool dl_loaders_done(dl_loaders *loaders, int thread);

/* Fraction of the time up to now in which storage was read. */
double dl_loaders_storage_frac(const dl_loaders *loaders);

#endif
