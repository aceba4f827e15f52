/* Re-times a replay graph through the simulator's engine: one resource a lane, events in order of
 * time. Only durations, spacings, edges and groups count; recorded starts are not looked at but
 * for the beginnings of lanes. */
#ifndef DL_CALIBRATE_REPLAY_RETIME_H
#define DL_CALIBRATE_REPLAY_RETIME_H

#include "calibrate/replay/graph.h"
#include "common/status.h"

/* Why a node started when it did. */
typedef enum dl_replay_cause {
    DL_REPLAY_BY_BEGIN, /* its lane began */
    DL_REPLAY_BY_LANE,  /* its predecessor on the lane, and the node's spacing */
    DL_REPLAY_BY_EDGE,  /* edge number `edge` */
} dl_replay_cause;

typedef struct dl_replay_time {
    int64_t start_ns, end_ns; /* since graph.origin_ns */
    uint8_t cause;            /* dl_replay_cause */
    uint32_t edge;            /* of BY_EDGE */
    uint32_t last_arrival;    /* node of the group that started last, itself without group */
} dl_replay_time;

/* Times of all nodes: times[node_count], given by the caller. DL_ERR_DATA if nodes wait for one
 * another in a circle, DL_ERR_RANGE if all times together exceed 2^62 ns. O((nodes + edges) log lanes). */
dl_status dl_replay_retime(const dl_replay_graph *graph, dl_replay_time *times,
                           dl_error *err) DL_MUST_CHECK;

#endif
