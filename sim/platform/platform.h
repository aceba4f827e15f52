/* Implementation of a worker's step on a kind of machine: one const table each. sim/team.c and the
 * sync modes call its functions, which call dl_team_done at the end.
 *
 *   cpu.c   threads pinned to the cores of one box, server in its memory; or processes
 *   gpu.c   GPUs of a machine file, copies on its links, launched by host threads
 */
#ifndef DL_SIM_PLATFORM_H
#define DL_SIM_PLATFORM_H

#include <stdio.h>

#include "sim/team.h"

#define DL_RESOURCE_NAME_BYTES 96
#define DL_MEASURED_COLLECTIVES "measured collectives"
#define DL_HOST_THREAD "host thread " /* and its number */

/* The shared resources' load. */
typedef struct dl_usage {
    char busiest[DL_RESOURCE_NAME_BYTES]; /* "core 0", "memory", "lock", "node1 gpu3 up",
                                             DL_MEASURED_COLLECTIVES */
    char link[DL_RESOURCE_NAME_BYTES];    /* the busiest link; "" on a CPU box */
    double link_frac;
    double timed_frac;    /* of the time in which collectives that were measured as a whole ran */
    double busiest_frac;  /* 0: no shared resource */
    double traffic_bytes; /* moved by exchange */
    double sent_bytes;    /* of these, to other sites (nodes, where there are no sites), by the site
                           * that sends most; 0 on a CPU box */
} dl_usage;

typedef struct dl_platform {
    const char *name;
    /* The server may be updated while workers pull. False on a CPU box, where workers copy from the
     * parameters themselves, under the lock (as with dl_team_config's pulls_under_lock). */
    bool serves_while_pulled;
    bool on_gpus;
    /* Sets team->machine up, before the engine; returns the most events that it has pending. */
    int (*init)(dl_team *team);
    /* NULL: the creator of config.machine frees it. */
    void (*free)(dl_team *team);
    /* Computes the whole run without an event for each worker, with the same outcome, or makes it
     * undecided (team.h); false, with nothing changed, where that is impossible. NULL: always
     * impossible. */
    bool (*run_directly)(dl_team *team);
    /* The run starts; NULL: nothing to do. */
    void (*start)(dl_team *team);
    /* The engine has handled all events of the run, or stopped; NULL: nothing to do. */
    void (*ended)(dl_team *team);
    /* Forward and backward pass, with the optimizer's update if the worker makes it in the step;
     * the update alone. */
    void (*compute)(dl_team *team, int worker);
    void (*update)(dl_team *team, int worker);
    void (*exchange)(dl_team *team, int agent, dl_exchange exchange);
    /* Merges `uploads` uploads on the syncer's thread, which shares the cores with the workers, and
     * calls dl_syncer_merged at the end. NULL: the syncer has a machine of its own. */
    void (*merge)(dl_team *team, int uploads);
    /* Drops the rest of the worker's forward and backward pass. */
    void (*cut)(dl_team *team, int worker);
    /* The worker was asleep and continues when it has its core. */
    void (*take_core)(dl_team *team, int worker);
    /* The worker has ended a step; NULL: nothing to do. */
    void (*step_ended)(dl_team *team, int worker);
    /* The worker starts or stops taking part in averages (sim/sync/members.h); NULL: nothing to
     * do. */
    void (*members_changed)(dl_team *team, int worker);
    /* The worker's site, or its node where there are no sites; NULL: they have none. */
    int (*domain)(const dl_team *team, int worker);
    /* Time in ns during which the worker did not wait for its core; exact when its work ends. NULL:
     * workers never wait for cores. */
    int64_t (*ran_ns)(const dl_team *team, int worker);
    /* After the run: notes resources busier than usage->busiest_frac. */
    void (*measure)(const dl_team *team, dl_usage *usage);
} dl_platform;

extern const dl_platform dl_platform_cpu, dl_platform_processes;

/* Notes a resource in `usage` if it is the busiest so far. */
static inline void dl_usage_note(dl_usage *usage, const char *name, double frac)
{
    if (frac <= usage->busiest_frac) return;
    snprintf(usage->busiest, sizeof usage->busiest, "%s", name);
    usage->busiest_frac = frac;
}

#endif
