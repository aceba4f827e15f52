/* Dependency graph of a traced run: its operations with their durations, and the order imposed by
 * dependencies. Recorded starts are kept for comparison; a replay computes new ones.
 *
 * A node occupies its lane, a host thread or a device stream, for duration_ns. The nodes of a lane
 * run one after another, in the order of next[]. A node starts when
 *
 *   its predecessor on the lane has ended, and the node's spacing_ns has passed;
 *   every edge to it is satisfied: `lag_ns` after the end of the edge's source node, or its start;
 *   the lane has started (lane.begin_ns).
 *
 * A *group* is a collective that several ranks carry out together: its nodes start independently
 * and end simultaneously, the group's duration_ns after the last start. */
#ifndef DL_CALIBRATE_REPLAY_GRAPH_H
#define DL_CALIBRATE_REPLAY_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "trace/activity/kernel_class.h"

#define DL_REPLAY_NONE UINT32_MAX

typedef enum dl_replay_kind {
    DL_REPLAY_HOST,     /* a thread computes, between two calls */
    DL_REPLAY_CALL,     /* a thread is in a call; its waits in the call are edges, not time */
    DL_REPLAY_EXTERNAL, /* a thread or a stream waits for something outside the trace */
    DL_REPLAY_KERNEL,
    DL_REPLAY_COLLECTIVE, /* a kernel of a collective */
    DL_REPLAY_GRAPH,      /* a whole CUDA graph without recorded kernels */
    DL_REPLAY_COPY,
    DL_REPLAY_MEMSET,
    DL_REPLAY_KIND_END
} dl_replay_kind;

typedef enum dl_replay_edge_kind {
    DL_REPLAY_LAUNCH, /* start of a call -> work that it launches; lag: launch latency */
    DL_REPLAY_EVENT,  /* work -> work of another stream that waits for it */
    DL_REPLAY_SYNC,   /* work -> call that waits for it */
    DL_REPLAY_QUEUE,  /* work -> launch that found the launch queue full */
    /* start of a work -> work of another stream that had no room beside it; lag: the part of the
     * first work after which there was room */
    DL_REPLAY_ROOM,
    DL_REPLAY_HANDOVER, /* end of a thread's burst -> thread that continued after it */
    DL_REPLAY_EDGE_KIND_END
} dl_replay_edge_kind;

/* Source of an edge. */
typedef enum dl_replay_origin {
    DL_REPLAY_RECORDED, /* the trace gives both ends */
    DL_REPLAY_INFERRED, /* inferred from the order of calls, and not refuted by the recorded
                         * times */
    DL_REPLAY_TIMED,    /* inferred from the recorded times alone */
    DL_REPLAY_ORIGIN_END
} dl_replay_origin;

typedef struct dl_replay_node {
    uint8_t kind;        /* dl_replay_kind */
    uint8_t class;       /* dl_kernel_class, for KERNEL and COLLECTIVE */
    uint16_t rank;       /* index of the trace */
    uint32_t lane;       /* set by dl_replay_graph_add */
    uint32_t activity;   /* index in the trace's activities; DL_REPLAY_NONE for HOST and EXTERNAL */
    uint32_t group;      /* index of the group, or DL_REPLAY_NONE */
    int64_t recorded_ns; /* start in the trace, on the common clock */
    int64_t duration_ns; /* >= 0, excluding time that edges explain */
    int64_t spacing_ns;  /* >= 0, minimum gap after the predecessor on the lane */
} dl_replay_node;

typedef struct dl_replay_edge {
    uint32_t from, to;  /* nodes */
    int64_t lag_ns;     /* >= 0 */
    uint8_t kind;       /* dl_replay_edge_kind */
    uint8_t origin;     /* dl_replay_origin */
    uint8_t from_start; /* the lag counts from the start of `from` instead of its end */
} dl_replay_edge;

typedef struct dl_replay_lane {
    bool is_stream;
    uint16_t rank;
    uint32_t thread;         /* for a host lane */
    uint32_t device, stream; /* for a device lane */
    int64_t begin_ns;        /* earliest start on the lane; dl_replay_graph_add sets it to the first
                           * node's recorded start */
    uint32_t first, last;    /* first and last node; DL_REPLAY_NONE if there are none */
} dl_replay_lane;

typedef struct dl_replay_group {
    uint32_t size;       /* number of nodes */
    int64_t duration_ns; /* from the last start to the common end */
} dl_replay_group;

/* Owns its arrays; release with dl_replay_graph_free. A zeroed graph is empty. */
typedef struct dl_replay_graph {
    dl_replay_node *nodes;
    size_t node_count;
    uint32_t *next;   /* [node_count] successor on the lane, or DL_REPLAY_NONE */
    uint32_t *before; /* [node_count] predecessor on the lane, or DL_REPLAY_NONE */
    dl_replay_edge *edges;
    size_t edge_count;
    dl_replay_lane *lanes;
    size_t lane_count;
    dl_replay_group *groups;
    size_t group_count;
    int64_t origin_ns; /* earliest recorded start: time 0 of a replay */
} dl_replay_graph;

/* Adds a lane without nodes; returns its index. */
uint32_t dl_replay_graph_add_lane(dl_replay_graph *graph, const dl_replay_lane *lane);

/* Appends a copy of *node to `lane`; returns its index. */
uint32_t dl_replay_graph_add(dl_replay_graph *graph, uint32_t lane, const dl_replay_node *node);

/* Inserts a copy of *node into the lane of `work`, right before it; returns its index. Edges stay
 * with their nodes. */
uint32_t dl_replay_graph_insert(dl_replay_graph *graph, uint32_t work, const dl_replay_node *node);

/* Adds a copy of *edge; both nodes must exist. Cycles are reported by dl_replay_simulate. */
void dl_replay_graph_add_edge(dl_replay_graph *graph, const dl_replay_edge *edge);

/* Makes nodes[count] a group that ends duration_ns after the last start. None of the nodes may
 * already be in a group. Returns the group's index. */
uint32_t dl_replay_graph_add_group(dl_replay_graph *graph, const uint32_t *nodes, size_t count,
                                   int64_t duration_ns);
void dl_replay_graph_free(dl_replay_graph *graph);

/* Returns whether a node is device work. */
bool dl_replay_node_is_work(const dl_replay_node *node);

/* Return "host", "call", "kernel", ... and "launch", "event", ...; never NULL. */
const char *dl_replay_kind_name(dl_replay_kind kind);
const char *dl_replay_edge_kind_name(dl_replay_edge_kind kind);

/* Simulation of a replay graph as a program on lanes (sim/step/program.h). It uses durations,
 * spacings, edges, groups and the begin of lanes, but no other recorded starts. */

/* The constraint that determined a node's start. */
typedef enum dl_replay_cause {
    DL_REPLAY_BY_BEGIN, /* its lane's begin */
    DL_REPLAY_BY_LANE,  /* its predecessor on the lane, and the node's spacing */
    DL_REPLAY_BY_EDGE,  /* edge number `edge` */
} dl_replay_cause;

typedef struct dl_replay_time {
    int64_t start_ns, end_ns; /* relative to graph.origin_ns */
    uint8_t cause;            /* dl_replay_cause */
    uint32_t edge;            /* index of the edge, for BY_EDGE */
    uint32_t last_arrival;    /* node of the group that started last; without a group, the node
                               * itself */
} dl_replay_time;

/* Computes the caller's times[node_count] for all nodes. Returns DL_ERR_DATA if the graph has a
 * cycle, DL_ERR_RANGE if the sum of all times reaches 2^53 ns (104 days). O((nodes + edges) log
 * lanes). */
dl_status dl_replay_simulate(const dl_replay_graph *graph, dl_replay_time *times,
                             dl_error *err) DL_MUST_CHECK;

/* Unexplained time: the recorded delay of device work after all of its constraints in the graph are
 * satisfied. A replay omits this time. It is computed from recorded times only, so a gap is
 * attributed to the node where it arose. */

/* Maximum gap within the spread of launch latencies and spacings, for which typical values are
 * used. */
#define DL_REPLAY_SPREAD_NS 10000

/* Sets the caller's earliest_ns[node_count] to the time at which all constraints of each node are
 * satisfied, according to the recorded times. */
void dl_replay_earliest_starts(const dl_replay_graph *graph, int64_t *earliest_ns);

#endif
