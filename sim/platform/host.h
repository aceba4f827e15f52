/* A CPU box: how fast the threads that run on its cores are, by what they do.
 *
 *   compute    speed 1 / sharing[k], k = threads that have work at that moment (running or waiting
 *              for their time slice): caches, memory, clock, sibling hyper-threads
 *   bytes      copies and averages share the memory's total bandwidth max-min fairly; each alone
 *              moves its traffic in its full-speed time, which is its cap
 *
 * What it leaves out: compute's own memory traffic does not take from the bytes' bandwidth (what it
 * costs the others is in sharing, which counts threads of both kinds), NUMA.
 */
#ifndef DL_SIM_HOST_H
#define DL_SIM_HOST_H

#include "sim/network/maxmin.h"
#include "sim/platform/processor.h"
#include "sim/workload.h"

typedef struct dl_host_config {
    dl_engine *engine; /* borrowed until free; room for one pending event */
    int cores, threads;
    double slice_ns, tick_ns;   /* as in sim/platform/processor.h */
    double memory_bytes_per_ns; /* > 0, INFINITY = no limit */
    const dl_costs *costs;      /* for its sharing; read by init only */
    dl_event_fn done;           /* done(user, thread): what it was started on is finished */
    void *user;
} dl_host_config;

typedef struct dl_host {
    dl_processor processor;
    dl_maxmin memory;
    int memory_link;
    double *sharing;        /* [threads + 1] */
    double *bytes_per_ns;   /* [threads] traffic at full speed of the task at hand; 0 = compute */
    double traffic_bytes;   /* of all tasks started so far */
    double memory_capacity; /* bytes per ns */
    dl_event_fn done;
    void *user;
} dl_host;

void dl_host_init(dl_host *host, const dl_host_config *config);
void dl_host_free(dl_host *host);

/* Gives `thread`, which must have no work, `work_ns` of computing, or a piece of moving bytes. */
void dl_host_compute(dl_host *host, int thread, double work_ns);
void dl_host_move(dl_host *host, int thread, dl_work work);

/* Lets what is left of the thread's computing fall away (dl_processor_cut). */
void dl_host_cut(dl_host *host, int thread);

#endif
