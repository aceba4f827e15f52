/* How a kind of machine executes a worker's step: one constant table of functions per kind.
 * sim/team.c and the sync modes call these functions, which call dl_team_done at the end.
 *
 *   cpu.c   threads pinned to the cores of one host, server in its memory; or processes
 *   gpu.c   GPUs of a machine file, copies on its links, launched by host threads */
#ifndef DL_SIM_PLATFORM_H
#define DL_SIM_PLATFORM_H

#include <stdio.h>

#include "sim/team.h"

#define DL_RESOURCE_NAME_BYTES 96
#define DL_MEASURED_COLLECTIVES "measured collectives"
#define DL_HOST_THREAD "host thread " /* followed by its number */

/* Load of shared resources. */
typedef struct dl_usage {
    char busiest[DL_RESOURCE_NAME_BYTES]; /* name: "core 0", "memory", "lock", "node1 gpu3 up",
                                           * DL_MEASURED_COLLECTIVES */
    char link[DL_RESOURCE_NAME_BYTES];    /* name of the busiest link; "" on a CPU host */
    double link_frac;
    double timed_frac;    /* fraction of the time in which collectives ran whose times were measured
                           * as a whole */
    double busiest_frac;  /* load of `busiest`; 0: no shared resource */
    double traffic_bytes; /* bytes moved by the exchange */
    double sent_bytes;    /* part of traffic_bytes sent to other sites (or nodes, without sites), by
                           * the site that sends most; 0 on a CPU host */
} dl_usage;

typedef struct dl_platform {
    const char *name;
    /* The server may be updated while workers pull. False on a CPU host, where workers copy from
     * the parameters themselves, under the lock (as with pulls_under_lock of dl_team_config). */
    bool serves_while_pulled;
    bool on_gpus;
    /* Initialises team->machine, before the engine is initialised; returns the largest number of
     * its pending events. */
    int (*init)(dl_team *team);
    /* Frees team->machine; NULL: the creator of config.machine frees it. */
    void (*free)(dl_team *team);
    /* Called at the start of the run; NULL: nothing to do. */
    void (*start)(dl_team *team);
    /* Called when the engine has handled all events of the run, or stopped; NULL: nothing to do. */
    void (*ended)(dl_team *team);
    /* compute: forward and backward pass, including the optimizer's update if the worker does it in
     * the step. update: only the update. */
    void (*compute)(dl_team *team, int worker);
    void (*update)(dl_team *team, int worker);
    void (*exchange)(dl_team *team, int agent, dl_exchange exchange);
    /* Merges `uploads` uploads on the syncer's thread, which shares the cores with the workers,
     * then calls dl_syncer_merged. NULL: the syncer has a separate machine. */
    void (*merge)(dl_team *team, int uploads);
    /* Drops the rest of the worker's forward and backward pass. */
    void (*cut)(dl_team *team, int worker);
    /* Wakes a sleeping worker, which continues when it has its core. */
    void (*take_core)(dl_team *team, int worker);
    /* Called when the worker has ended a step; NULL: nothing to do. */
    void (*step_ended)(dl_team *team, int worker);
    /* Called when the worker starts or stops taking part in averages (sim/sync/members.h); NULL:
     * nothing to do. */
    void (*members_changed)(dl_team *team, int worker);
    /* The worker's site (or node, without sites); NULL: workers have no sites. */
    int (*domain)(const dl_team *team, int worker);
    /* Time in ns in which the worker did not wait for its core; exact when its work ends. NULL:
     * workers never wait for cores. */
    int64_t (*ran_ns)(const dl_team *team, int worker);
    /* After the run: sets the figures of *usage; a resource replaces `busiest` if it is busier. */
    void (*measure)(const dl_team *team, dl_usage *usage);
} dl_platform;

extern const dl_platform dl_platform_cpu, dl_platform_processes;

/* Records a resource in `usage` if it is the busiest so far. */
static inline void dl_usage_note(dl_usage *usage, const char *name, double frac)
{
    if (frac <= usage->busiest_frac) return;
    snprintf(usage->busiest, sizeof usage->busiest, "%s", name);
    usage->busiest_frac = frac;
}

#endif
