/* External waits: waits of launching threads and of devices for something outside the trace.
 *
 *   of a thread   a span without records of the thread in which the rest of the trace is idle
 *                 (build_host.c): the thread waits for input from other processes, or polls a peer
 *                 without calls
 *   of a device   an operation that starts more than DL_REPLAY_SPREAD_NS after all of its known
 *                 constraints: it waits for a value in memory that another process writes, another
 *                 process on the same GPU, or an unrecorded call
 *
 * Waits of threads are EXTERNAL nodes of the graph from the start; waits of devices become such
 * nodes if they are kept. */
#ifndef DL_CALIBRATE_REPLAY_EXTERNAL_H
#define DL_CALIBRATE_REPLAY_EXTERNAL_H

#include "calibrate/replay/build.h"

/* The external waits that a replay keeps. */
typedef enum dl_external {
    DL_EXTERNAL_THREADS, /* waits of threads; waits of devices appear as error of the replay */
    DL_EXTERNAL_KEEP,    /* all waits */
    DL_EXTERNAL_REMOVE   /* no waits */
} dl_external;

/* Names of dl_external: "threads", "keep", "remove", NULL. */
extern const char *const dl_external_names[4];

/* Finds the waits of a newly built run; called by dl_replay_build. */
void dl_external_find(dl_replay_run *run);

/* Keeps or removes the waits; call it once per run. O(nodes + edges). */
void dl_external_use(dl_replay_run *run, dl_external kind);

/* Returns whether the node is a kept wait of a stream. */
bool dl_external_is_of_device(const dl_replay_graph *graph, uint32_t node);

#endif
