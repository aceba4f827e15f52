/* A schedule: the order in which a simulated run applied its gradients, as `dlsim --schedule`
 * writes it (sim/schedule.h has the format), read and checked for a replay. */
#ifndef DL_KERNELS_SCHEDULE_H
#define DL_KERNELS_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef enum dl_schedule_kind {
    DL_SCHEDULE_GRADIENT, /* part of update `update`, with all other gradients of that number */
    DL_SCHEDULE_LOCAL,    /* updates a worker's own parameters; with sites, the last one of a site's
                             step updates all of its workers with the mean */
    DL_SCHEDULE_AVERAGE,  /* average number `update` of all workers' parameters, or of their
                           * fragment `fragment`; averages the current parameters or, in a schedule
                           * with sends, the parameters sent */
    DL_SCHEDULE_UPLOAD,   /* stores the worker's change since its last upload or adoption, in place
                             of its previous upload */
    DL_SCHEDULE_MERGE,    /* the worker's upload becomes part of version `update`, with those of all
                           * other merges of that number */
    DL_SCHEDULE_REPLACE,  /* the worker takes version `read` */
    DL_SCHEDULE_REBASE,   /* the worker takes version `read` and adds its change since its last
                           * upload or adoption */
    DL_SCHEDULE_SEND,     /* stores the worker's parameters of `fragment` for an average */
    DL_SCHEDULE_RECEIVE   /* the worker merges the last average of `fragment` */
} dl_schedule_kind;

typedef struct dl_schedule_event {
    double time_s; /* simulated time since the start of the run */
    int64_t update;
    int64_t read;  /* gradient: update that made its parameters, 0 = initial; upload, merge: base
                    * version of the upload; replace, rebase: version that the worker takes */
    double weight; /* merge: weight of the upload */
    int64_t batch; /* gradient, local: number of its mini-batch in the order of the samples */
    size_t after;  /* gradient, local: number of leading events that must be done before its
                    * gradient is computed */
    int worker;    /* all events except averages */
    int fragment;  /* average, send, receive */
    dl_schedule_kind kind;
} dl_schedule_event;

typedef struct dl_schedule {
    char *path, *mode;
    int workers;
    int batch;                 /* samples per step of all workers; a multiple of workers */
    dl_schedule_event *events; /* [count], count >= 1 */
    size_t count, gradients;   /* number of all events; number of gradients and local steps */
    bool has_merges;           /* has uploads, merges and adoptions (async_average) */
    int sites;                 /* sites, whose neighbouring workers share local steps; 0: none */
    int fragments;             /* fragments of the parameters; 1: averaged as a whole */
    bool has_sends;            /* averages have a lag: parameters are sent and received */
    int64_t updates;           /* number of updates, averages or merges */
    int64_t staleness_max;     /* maximum staleness of gradients or merged uploads; staleness_mean
                                * is their mean */
    double staleness_mean;
} dl_schedule;

/* Largest staleness of a gradient, in updates: a replay keeps one version of the parameters more
 * than the largest staleness. */
#define DL_SCHEDULE_STALENESS_MAX 1023
#define DL_SCHEDULE_WORKERS_MAX 1024
#define DL_SCHEDULE_FRAGMENTS_MAX 1024
/* Limit of mini-batch numbers: 1000 epochs of ten million samples, one by one. */
#define DL_SCHEDULE_BATCHES_MAX ((int64_t)10000000000)

/* Reads a schedule into *schedule, which must be zeroed. DL_ERR_PARSE, DL_ERR_NAME, DL_ERR_RANGE
 * and DL_ERR_DATA with file:line for a file that is no schedule, has another schema or an unknown
 * event, or describes an impossible run: updates out of order, a version that does not exist yet or
 * is no longer kept, a worker that does not exist. The caller releases it with dl_schedule_free.
 * Only `bytes` bytes of `text` are read: no NUL needs to follow. */
dl_status dl_schedule_read(dl_schedule *schedule, const char *path, dl_error *err) DL_MUST_CHECK;
dl_status dl_schedule_read_text(dl_schedule *schedule, const char *name, const char *text,
                                size_t bytes, dl_error *err) DL_MUST_CHECK;
void dl_schedule_free(dl_schedule *schedule);

#endif
