/* Batches of workers on cores: made by processes beside each worker, its loaders (the worker
 * processes of PyTorch's DataLoader), which share the cores with all else (host.h).
 *
 *   worker   [step 4 ........][step 5 ........]
 *   loader 0 [batch 6: read][make] [batch 8: read][make]     batch k is of loader k mod loaders
 *   loader 1 [make] [batch 7: read][make]
 *
 * A batch is made sample by sample (a large one in 4096 equal parts): each is read from storage,
 * which serves one after another and for which its loader sleeps, then made on a core. Storage reads on after a pause, up to
 * `ahead_bytes`: these are there at once (what an operating system reads ahead, what a disk with
 * a limited rate lets through after a rest).
 *
 * A worker takes its batches in order, and has at most `prefetch` of them waiting or in the
 * making: the next one is asked for when it takes one. With a prefetch of 0, one is asked for
 * when it is wanted. A step that an absence cuts is done again with another batch: those beyond
 * one a step are asked for when they are wanted.
 *
 * Without loaders a worker makes each batch itself when it wants it: in its step, unless storage
 * limits it; then here, on its own thread, which sleeps for each sample.
 *
 * What it leaves out: a cache that fills.
 */
#ifndef DL_SIM_LOADERS_H
#define DL_SIM_LOADERS_H

#include "sim/platform/host.h"

typedef struct dl_loaders_config {
    dl_engine *engine; /* borrowed, as all pointers here; room for dl_loaders_events */
    dl_host *host;
    int workers;                 /* threads 0 .. workers - 1 of the host */
    int loaders;                 /* of each worker; >= 0 */
    int prefetch;                /* >= 0; batches of a worker */
    int first_thread;            /* of the host; those of worker 0's loaders come first */
    int64_t samples;             /* >= 1; of a batch */
    double make_ns;              /* >= 0; of a batch */
    double read_bytes;           /* >= 0; of a batch, from storage */
    double storage_bytes_per_ns; /* > 0, INFINITY: it limits nothing */
    double ahead_bytes;          /* >= 0 */
    int64_t steps;               /* batches of each worker that are made ahead, at most */
    const bool *stopping;        /* no more batches are begun */
    /* By which the worker's own work takes longer in this step. */
    double (*effort)(void *user, int worker);
    /* A batch that the worker waits for is there, and taken; from its thread's end of work too. */
    void (*came)(void *user, int worker);
    void *user;
} dl_loaders_config;

/* A loader; or, without, a worker that makes its batches itself. */
typedef struct dl_maker {
    int64_t next;    /* batch that it makes next, or now */
    int64_t samples; /* of that one that are made */
    bool busy;
    bool reading; /* its next sample is on its way */
    bool read;    /* its next sample is there */
    bool making;  /* its thread has work that began here */
} dl_maker;

typedef struct dl_loaded_worker {
    int64_t ordered, taken; /* batches */
    bool wanted;            /* it waits for one */
} dl_loaded_worker;

typedef struct dl_loaders {
    dl_loaders_config config;
    int64_t storage_free_ns;   /* when it will have read all that it was asked for */
    double read_ns;            /* that it has been asked for, in all */
    dl_maker *makers;          /* [workers x loaders, or 1 where there are none] */
    dl_loaded_worker *workers; /* [workers] */
    bool *made;                /* [workers x depth] of batches by their number modulo depth */
} dl_loaders;

/* dl_loaders_free accepts a zeroed object. */
void dl_loaders_init(dl_loaders *loaders, const dl_loaders_config *config);
void dl_loaders_free(dl_loaders *loaders);

/* Events that are pending at most. */
int dl_loaders_events(const dl_loaders_config *config);

/* The run starts: batches are begun. */
void dl_loaders_start(dl_loaders *loaders);

/* Takes the worker's next batch; false if it is not there: then `came` says when it is. */
bool dl_loaders_take(dl_loaders *loaders, int worker);

/* The worker does not wait for a batch any more; whether it did. */
bool dl_loaders_give_up(dl_loaders *loaders, int worker);

/* The host's thread of this number is done: true if it was with work that began here. */
bool dl_loaders_done(dl_loaders *loaders, int thread);

/* The part of the time up to now in which storage was read. */
double dl_loaders_storage_frac(const dl_loaders *loaders);

#endif
