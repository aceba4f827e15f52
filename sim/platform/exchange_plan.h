/* The exchange of a step as data: created once from the settings of [exchange] and [sync], and read
 * by all code that runs the exchange or computes its cost or memory. */
#ifndef DL_SIM_EXCHANGE_PLAN_H
#define DL_SIM_EXCHANGE_PLAN_H

#include "sim/collective/collective.h"
#include "sim/compress.h"

struct dl_gpu_options;

/* When a tensor is fetched from a server, and which computation waits for it. */
typedef enum dl_fetch {
    DL_FETCH_SUMMED,    /* when it is summed; the end of the step waits for all tensors */
    DL_FETCH_AFTER,     /* when all are summed; the end of the step waits */
    DL_FETCH_LAYERS,    /* when it is summed; its layer's next forward pass waits */
    DL_FETCH_NEXT_STEP, /* when all are summed and the next step starts; its layer waits */
    DL_FETCH_PUSHED     /* when it is summed and the sender has reached the push of its last tensor;
                         * the end of the step waits */
} dl_fetch;

typedef struct dl_exchange_plan {
    bool is_collective; /* true: collectives among the workers; false: through a server, if there is
                         * one */
    bool as_ready;      /* each bucket is exchanged as soon as it is ready, during the backward
                         * pass; otherwise all of them after it */
    bool each;          /* the server applies the gradients of each worker separately */
    dl_fetch fetch;
    int late;    /* lag of the parameters: number of steps that an exchange overlaps */
    int passes;  /* passes per step, each of which runs all collectives; with a server, the
                         * first waits for parameters, and the last sends gradients */
    int sharers; /* number of ranks that share the optimizer state; 1: not sharded */
    bool divides_gradients, divides_parameters;
    int gathers;            /* number of times per pass that a bucket's parameters are gathered for
                             * use: 0; 1, for the forward pass; or 2, for both passes */
    bool gathers_after;     /* all parameters are gathered after the update */
    dl_collective_kind sum; /* kind of the collective that sums a bucket's gradients, or collects
                             * its messages */
    /* Bytes sent per byte of the vector in fp32, which depend on the data type: by sums, and by
     * gathers. With divided parameters, gather_frac includes frozen parameters. */
    double sum_frac, gather_frac;
    int bucket_copies;      /* number of copies of gradients into buckets and back, 0 to 2 */
    dl_compression message; /* compression of pushed or reduced data */
    bool packs;             /* workers encode and decode messages */
} dl_exchange_plan;

/* The plan of an exchange by collectives, without the compression of messages, for `sharers` ranks
 * that divide the parameters or, if divides_parameters is false, the vectors that [exchange]
 * sharded names. */
dl_exchange_plan dl_exchange_plan_among(const struct dl_gpu_options *options,
                                        bool divides_parameters, int sharers);

/* With [exchange] sharded_among = node, lets only the first of the plan's sharers that are on one
 * node divide the optimizer state, as those of every node do; a sharer has `gpus` GPUs. */
void dl_exchange_plan_by_node(dl_exchange_plan *plan, const struct dl_gpu_options *options,
                              int gpus);

#endif
