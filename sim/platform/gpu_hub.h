/* The network of a run that exchanges with one server in host memory, without the engine: all
 * copies, and the server's threads, go over one memory, so that all of them are one component and
 * have one event.
 *
 * Workers whose copies go over the same links beside links of their own, of which each has the
 * like, are a crowd (sim/network/network.h): they need no class each. The others, as those on the
 * server's node, have one for each direction; where GPUs share a port or a switch, all have. */
#ifndef DL_SIM_GPU_HUB_H
#define DL_SIM_GPU_HUB_H

#include "sim/platform/gpu_way.h"

enum { DL_HUB_IN, DL_HUB_OUT, DL_HUB_WAYS };

/* A worker that is in no crowd. */
typedef struct dl_gpu_apart {
    int classes[DL_HUB_WAYS];
    int64_t latency_ns[DL_HUB_WAYS];
} dl_gpu_apart;

typedef struct dl_gpu_hub {
    dl_gpus *gpus;
    dl_network network;
    int apart_count;              /* the first workers are in no crowd */
    dl_gpu_apart *apart;          /* [apart_count] */
    dl_gpu_way ways[DL_HUB_WAYS]; /* of the others: their common links */
    int crowds[DL_HUB_WAYS];      /* classes */
    int *number;    /* [links of the machine] of the network's link, + 1; 0: it has none */
    int threads;    /* of the server that serve at a time */
    int *serving;   /* [threads] classes, + 1; 0: not yet there */
    int *thread_of; /* [own_count] threads whose links of their own were made, in that order */
    int *own_link;  /* [own_count] in the network */
    int own_count;
    dl_exchange exchange; /* that the server does */
    int first_thread;     /* number of the first one */
} dl_gpu_hub;

/* For workers that push and pull, and `threads` of the server. Everything happens by the driver. */
void dl_gpu_hub_init(dl_gpu_hub *hub, dl_gpus *gpus, const dl_network_driver *driver,
                     dl_exchange exchange, int threads);
void dl_gpu_hub_free(dl_gpu_hub *hub); /* a zeroed one is fine */

/* Before its bytes move. */
static inline int64_t dl_gpu_hub_latency(const dl_gpu_hub *hub, int worker, int way)
{
    return worker < hub->apart_count ? hub->apart[worker].latency_ns[way]
                                     : hub->ways[way].latency_ns;
}

/* The worker's copy of `bytes` starts to move, and part of what the server does; then
 * done(user, index). */
void dl_gpu_hub_copy(dl_gpu_hub *hub, int worker, int way, double bytes, dl_event_fn done,
                     void *user, int index);
void dl_gpu_hub_serve(dl_gpu_hub *hub, int thread, double bytes, dl_event_fn done, void *user,
                      int index);

/* What has crossed the links, into gpus->carried; each worker's exchanges done are `exchanges`. */
void dl_gpu_hub_note(dl_gpu_hub *hub, double bytes, int most_worker, int64_t exchanges);

#endif
