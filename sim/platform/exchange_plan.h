/* The exchange of a step as data: made once from the settings of [exchange] and [sync], and read by
 * all that runs the exchange, prices it, or computes the memory that it takes. */
#ifndef DL_SIM_EXCHANGE_PLAN_H
#define DL_SIM_EXCHANGE_PLAN_H

#include "sim/collective/collective.h"
#include "sim/compress.h"

struct dl_gpu_options;

typedef struct dl_exchange_plan {
    bool is_collective; /* among the workers; else through a server, if there is any */
    bool as_ready;      /* each bucket during the backward pass; else all after it */
    int late;           /* steps beside which an exchange runs, before parameters include it */
    int passes;         /* of a step, each with all collectives */
    int sharers;        /* ranks that divide the optimizer's state; 1: each has all of it */
    bool divides_gradients, divides_parameters;
    int gathers;            /* of a bucket's parameters in a pass, each before a use */
    bool gathers_after;     /* of all parameters, after the update */
    dl_collective_kind sum; /* of a bucket's gradients, or messages */
    /* bytes sent for a byte of 32-bit numbers, by their type; with divided parameters those of
     * frozen ones too */
    double sum_frac, gather_frac;
    int bucket_copies;      /* of gradients: into buckets, and back */
    dl_compression message; /* form of what is pushed or reduced */
    bool packs;             /* messages are made, and read */
} dl_exchange_plan;

/* The plan, without messages, among ranks that divide the parameters or, if they do not, share what
 * [exchange] sharded says. */
dl_exchange_plan dl_exchange_plan_among(const struct dl_gpu_options *options,
                                        bool divides_parameters, int sharers);

#endif
