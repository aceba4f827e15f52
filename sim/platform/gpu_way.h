/* Ways that copies between GPUs and one server share: a network of them alone, without links and
 * classes.
 *
 * All copies of a way are of the same bytes and go over the same links, beside links of their own,
 * which are no narrower. Then all have one rate, and the first to come is the first to end: a line
 * of them is enough. The sums of bytes are those of the network's bundles (sim/network/network.h),
 * down to what is rounded: a copy that was alone has a bundle of its own until others share with
 * it. */
#ifndef DL_SIM_GPU_WAY_H
#define DL_SIM_GPU_WAY_H

#include <math.h>

#include "common/units.h"
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
    /* Of the links that each copy has to itself: the narrowest one's rate, INFINITY without any,
     * and whether one of them comes first, and whether that rate is not everyone's. */
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

/* The ways from all workers' GPUs to the server and back; false if they are not such ways, or have
 * links in common. Sets all but `bytes`. */
bool dl_gpu_ways_find(const dl_gpus *gpus, dl_gpu_way *in, dl_gpu_way *out);

/* The same of workers from number `first` on, one at least, and a server in host memory; but in and
 * out may have links in common. Workers have links of their own of one rate. */
bool dl_gpu_ways_find_apart(const dl_gpus *gpus, int first, dl_gpu_way ways[2]);

/* The way from the worker's GPU to the server, or back; what a copy over it waits before it
 * moves. */
void dl_gpu_route(const dl_gpus *gpus, int worker, bool inward, dl_route *route);
int64_t dl_gpu_route_latency(const dl_gpus *gpus, const dl_route *route);

/* The memory of the server's GPU as a way. */
void dl_gpu_way_set_memory(dl_gpu_way *way, const dl_gpus *gpus);

/* Bytes that have crossed one of its links, as the network adds them up. */
double dl_gpu_way_carried(const dl_gpu_way *way, int link);

/* --- what each copy needs, to be compiled into the loop over events --------------------------- */

void dl_gpu_way_grow(dl_gpu_way *way);
void dl_gpu_ended_grow(dl_gpu_ended *ended);

static inline void dl_gpu_way_advance(dl_gpu_way *v, int64_t now_ns)
{
    v->served += v->rate * 1e-9 * (double)(now_ns - v->since_ns);
    v->since_ns = now_ns;
}

/* The worker's copy starts to move bytes; then the way is to be shared at the same time. */
static inline void dl_gpu_way_join(dl_gpu_way *v, int64_t now_ns, int worker)
{
    if (v->count < 2) { /* a new bundle, beside that of one which was alone */
        if (v->count == 1) {
            v->was_alone = true;
            v->alone_served = v->served;
            v->alone_rate = v->rate;
            v->alone_since_ns = v->since_ns;
        }
        v->served = v->rate = 0;
        v->since_ns = now_ns;
    } else {
        dl_gpu_way_advance(v, now_ns);
    }
    if (v->count == v->room) dl_gpu_way_grow(v);
    v->copies[(v->first + v->count++) & (v->room - 1)] = (dl_gpu_way_copy){v->served, worker};
}

/* As the network's has_ended. */
static inline bool dl_gpu_way_has_ended(const dl_gpu_way *v, double served, double rate)
{
    const double mark = v->bytes + v->copies[v->first].base;
    return mark - served <= rate * 1e-12 + mark * 1e-14;
}

static inline void dl_gpu_way_end_first(dl_gpu_way *v, int which, dl_gpu_ended *ended)
{
    if (ended->count == ended->room) dl_gpu_ended_grow(ended);
    ended->items[ended->count++] =
        (uint32_t)which << DL_WAY_WORKER_BITS | (uint32_t)v->copies[v->first].worker;
    v->first = (v->first + 1) & (v->room - 1);
    v->count--;
    v->ended++;
}

/* Appends what has ended to *ended, with `which`. */
static inline void dl_gpu_way_end(dl_gpu_way *v, int64_t now_ns, int which, dl_gpu_ended *ended)
{
    if (v->was_alone) { /* the others have only come now */
        v->alone_served += v->alone_rate * 1e-9 * (double)(now_ns - v->alone_since_ns);
        v->alone_since_ns = now_ns;
        if (!dl_gpu_way_has_ended(v, v->alone_served, v->alone_rate)) return;
        dl_gpu_way_end_first(v, which, ended);
        v->was_alone = false;
        return;
    }
    dl_gpu_way_advance(v, now_ns);
    while (v->count > 0 && dl_gpu_way_has_ended(v, v->served, v->rate))
        dl_gpu_way_end_first(v, which, ended);
}

/* Shares the way among its copies; returns the ns until the next one ends, -1 if there is none. */
static inline int64_t dl_gpu_way_share(dl_gpu_way *v)
{
    if (v->count == 0) return -1;
    v->rate = INFINITY;
    for (int i = 0; i < v->narrow_count; i++) {
        const double rate = v->narrow[i] / ((double)v->count * v->narrow_times[i]);
        v->rate = rate < v->rate ? rate : v->rate;
    }
    dl_gpu_way_copy *first = &v->copies[v->first];
    if (v->was_alone) { /* it comes to the others */
        first->base = first->base - v->alone_served + v->served;
        v->was_alone = false;
    }
    const double left_ns = (v->bytes + first->base - v->served) / v->rate * 1e9;
    return dl_ns_ceil(left_ns > 1 ? left_ns : 1);
}

#endif
