/* What the pieces of a worker's step mean on a kind of machine: one const table each. sim/team.c
 * and the sync modes ask by meaning; the table has it done, and says dl_team_done when it is.
 *
 *   cpu.c   threads pinned to the cores of one box, server in its memory; or processes
 *   gpu.c   GPUs of a machine file, copies on its links, launched by host threads
 */
#ifndef DL_SIM_PLATFORM_H
#define DL_SIM_PLATFORM_H

#include <stdio.h>

#include "sim/team.h"

#define DL_RESOURCE_NAME_BYTES 96

/* What is shared, and how busy it was. */
typedef struct dl_usage {
    char busiest[DL_RESOURCE_NAME_BYTES]; /* "core 0", "memory", "lock", "node1 gpu3 up" */
    char link[DL_RESOURCE_NAME_BYTES];    /* the busiest link; "" on a CPU box */
    double link_frac;
    double busiest_frac;  /* 0: nothing is shared */
    double traffic_bytes; /* moved by exchange */
    double sent_bytes;    /* of that to other sites (nodes, where there are none), by the site that
                             sends most; 0 on a CPU box */
} dl_usage;

typedef struct dl_platform {
    const char *name;
    /* The server may be updated while workers pull. False on a CPU box, where workers copy from the
     * parameters themselves, under the lock (as with dl_team_config's pulls_under_lock). */
    bool serves_while_pulled;
    bool on_gpus;
    /* Sets team->machine up, before the engine; returns how many events it has pending at most. */
    int (*init)(dl_team *team);
    /* NULL: whoever made config.machine frees it. */
    void (*free)(dl_team *team);
    /* Works the whole run out without an event for each worker, with the same outcome, or makes it
     * undecided (team.h); false, and nothing changed, where it cannot. NULL: it never can. */
    bool (*run_directly)(dl_team *team);
    /* The run starts; NULL: nothing to do. */
    void (*start)(dl_team *team);
    /* The engine has handled all events of the run, or stopped; NULL: nothing to do. */
    void (*ended)(dl_team *team);
    /* Forward and backward, with the optimizer's update if the worker updates at once; the update
     * alone. */
    void (*compute)(dl_team *team, int worker);
    void (*update)(dl_team *team, int worker);
    void (*exchange)(dl_team *team, int agent, dl_exchange exchange);
    /* Merges that many uploads on the syncer's thread, which shares the cores with the workers, and
     * calls dl_syncer_merged at the end. NULL: the syncer has a machine of its own. */
    void (*merge)(dl_team *team, int uploads);
    /* What is left of the worker's forward and backward falls away. */
    void (*cut)(dl_team *team, int worker);
    /* The worker was asleep and goes on when it has its core. */
    void (*take_core)(dl_team *team, int worker);
    /* The worker has ended a step; NULL: nothing to do. */
    void (*step_ended)(dl_team *team, int worker);
    /* The worker takes part in averages from now on, or does not any more (sim/sync/members.h);
     * NULL: nothing to do. */
    void (*members_changed)(dl_team *team, int worker);
    /* The worker's site, or its node where there are no sites; NULL: they have none. */
    int (*domain)(const dl_team *team, int worker);
    /* Time in ns that the worker did not wait for its core; exact when something of it ends. NULL:
     * nobody waits for one. */
    int64_t (*ran_ns)(const dl_team *team, int worker);
    /* Of the run that has ended; notes what is busier than usage->busiest_frac. */
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
