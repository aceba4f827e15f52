/* Ways that copies between GPUs and one server share: a network of them alone, without links and classes.
 *
 * All copies of a way are of the same bytes and go over the same links, beside links of their own, which
 * are no narrower. Then all have one rate, and the first to come is the first to end: a line of them is
 * enough. The sums of bytes are those of the network's bundles (sim/network/network.h), down to what is
 * rounded: a copy that was alone has a bundle of its own until others share with it. */
#ifndef DL_SIM_GPU_WAY_H
#define DL_SIM_GPU_WAY_H

#include "sim/platform/gpu_internal.h"

#define DL_WAY_LINKS 16 /* that all copies of a way go over, at most */

typedef struct dl_gpu_way_copy {
    double base; /* bytes that others of its bundle had got when it came in */
    int worker;
} dl_gpu_way_copy;

typedef struct dl_gpu_way {
    double bytes; /* of each copy */
    int64_t latency_ns;
    int links[DL_WAY_LINKS];
    double capacity[DL_WAY_LINKS], times[DL_WAY_LINKS]; /* times that a byte crosses it */
    int link_count;
    double narrow[DL_WAY_LINKS], narrow_times[DL_WAY_LINKS]; /* of those that may limit the rate */
    int narrow_count;
    /* Of the links that each copy has to itself: the narrowest one's rate, INFINITY without any, and
     * whether one of them comes first, and whether that rate is not everyone's. */
    double own_rate;
    bool starts_alone, own_differs;
    dl_gpu_way_copy *copies; /* a ring, in the order of their ends */
    uint32_t first, count, room;
    double served, rate; /* bytes of each, of the bundle */
    int64_t since_ns;    /* served is of this time */
    bool was_alone;      /* the first copy is still in a bundle by itself: */
    double alone_served, alone_rate;
    int64_t alone_since_ns;
    int64_t ended; /* copies */
} dl_gpu_way;

/* Copies that have ended: which way's, then the worker, whose number has DL_WAY_WORKER_BITS. */
#define DL_WAY_WORKER_BITS 24

typedef struct dl_gpu_ended {
    uint32_t *items; /* owned */
    size_t count, room;
} dl_gpu_ended;

/* The ways from all workers' GPUs to the server and back; false if they are not such ways, or have links
 * in common. Sets all but `bytes`. */
bool dl_gpu_ways_find(const dl_gpus *gpus, dl_gpu_way *in, dl_gpu_way *out);

/* The same of workers from number `first` on, one at least, and a server in host memory; but in and out may
 * have links in common. Workers have links of their own of one rate. */
bool dl_gpu_ways_find_apart(const dl_gpus *gpus, int first, dl_gpu_way ways[2]);

/* The way from the worker's GPU to the server, or back; what a copy over it waits before it moves. */
void dl_gpu_route(const dl_gpus *gpus, int worker, bool inward, dl_route *route);
int64_t dl_gpu_route_latency(const dl_gpus *gpus, const dl_route *route);

/* The memory of the server's GPU as a way. */
void dl_gpu_way_set_memory(dl_gpu_way *way, const dl_gpus *gpus);

/* The worker's copy starts to move bytes; then the way is to be shared at the same time. */
void dl_gpu_way_join(dl_gpu_way *way, int64_t now_ns, int worker);

/* Appends what has ended to *ended, with `which`. */
void dl_gpu_way_end(dl_gpu_way *way, int64_t now_ns, int which, dl_gpu_ended *ended);

/* Shares the way among its copies; returns the ns until the next one ends, -1 if there is none. */
int64_t dl_gpu_way_share(dl_gpu_way *way);

/* Bytes that have crossed one of its links, as the network adds them up. */
double dl_gpu_way_carried(const dl_gpu_way *way, int link);

#endif
