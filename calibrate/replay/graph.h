/* The dependency graph of a traced run: its operations with their durations, and the order that
 * dependencies impose. Recorded starts are kept for comparison; a replay computes new ones.
 *
 * A node occupies its lane, a thread of the host or a stream of a device, for duration_ns. The
 * nodes of a lane run one after another, in the order of next[]. A node starts when
 *
 *   its predecessor on the lane has ended, and spacing_ns of the node has passed;
 *   every edge to it is satisfied: `lag_ns` after the end of the edge's node, or after its start;
 *   the lane has started (lane.begin_ns).
 *
 * A *group* is a collective that several ranks carry out together: its nodes start by themselves
 * and end together, duration_ns of the group after the last start. */
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
    DL_REPLAY_CALL,     /* a thread is in a call; its waits there are edges, not time */
    DL_REPLAY_EXTERNAL, /* a thread or a stream waits for something that the trace does not hold */
    DL_REPLAY_KERNEL,
    DL_REPLAY_COLLECTIVE, /* a kernel that is one */
    DL_REPLAY_GRAPH,      /* a whole CUDA graph whose kernels are not recorded */
    DL_REPLAY_COPY,
    DL_REPLAY_MEMSET,
    DL_REPLAY_KIND_END
} dl_replay_kind;

typedef enum dl_replay_edge_kind {
    DL_REPLAY_LAUNCH, /* start of a call -> work that it launches; lag = launch latency */
    DL_REPLAY_EVENT,  /* work -> work of another stream that waits for it */
    DL_REPLAY_SYNC,   /* work -> call that waits for it */
    DL_REPLAY_QUEUE,  /* work -> launch that found the queue of launches full */
    /* start of a work -> work of another stream that had no room beside it; lag = the part of
     * the former after which there was room */
    DL_REPLAY_ROOM,
    DL_REPLAY_HANDOVER, /* end of a thread's burst -> thread that went on after it */
    DL_REPLAY_OTHER,    /* added by a caller */
    DL_REPLAY_EDGE_KIND_END
} dl_replay_edge_kind;

/* How an edge is known. */
typedef enum dl_replay_origin {
    DL_REPLAY_RECORDED, /* the trace gives both ends */
    DL_REPLAY_INFERRED, /* from the order of calls, and not refuted by the recorded times */
    DL_REPLAY_TIMED,    /* from the recorded times alone */
    DL_REPLAY_ORIGIN_END
} dl_replay_origin;

typedef struct dl_replay_node {
    uint8_t kind;        /* dl_replay_kind */
    uint8_t class;       /* dl_kernel_class of KERNEL and COLLECTIVE */
    uint16_t rank;       /* which of the traces */
    uint32_t lane;       /* set by dl_replay_graph_add */
    uint32_t activity;   /* index in the trace's activities, or DL_REPLAY_NONE (HOST) */
    uint32_t group;      /* or DL_REPLAY_NONE */
    int64_t recorded_ns; /* start in the trace, on the common clock */
    int64_t duration_ns; /* >= 0, without time that edges explain */
    int64_t spacing_ns;  /* >= 0 after its predecessor on the lane */
} dl_replay_node;

typedef struct dl_replay_edge {
    uint32_t from, to;  /* nodes */
    int64_t lag_ns;     /* >= 0 */
    uint8_t kind;       /* dl_replay_edge_kind */
    uint8_t origin;     /* dl_replay_origin */
    uint8_t from_start; /* counts from the start of `from`, not from its end */
} dl_replay_edge;

typedef struct dl_replay_lane {
    bool is_stream;
    uint16_t rank;
    uint32_t thread;         /* of a lane of the host */
    uint32_t device, stream; /* of a lane of a device */
    int64_t begin_ns; /* nothing on it starts before; set by the first node to its recorded start */
    uint32_t first, last; /* its nodes; DL_REPLAY_NONE if it has none */
} dl_replay_lane;

typedef struct dl_replay_group {
    uint32_t size;       /* nodes in it */
    int64_t duration_ns; /* from the last start to the common end */
} dl_replay_group;

/* Owns its arrays; release with dl_replay_graph_free. A zeroed one is empty. */
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

/* Adds a lane without nodes; returns its number. */
uint32_t dl_replay_graph_add_lane(dl_replay_graph *graph, const dl_replay_lane *lane);

/* Adds a copy of *node after the last one of `lane`; returns its number. */
uint32_t dl_replay_graph_add(dl_replay_graph *graph, uint32_t lane, const dl_replay_node *node);

/* Adds a copy of *node to the lane of `work`, right before it; returns its number. Edges stay with
 * their nodes. */
uint32_t dl_replay_graph_insert(dl_replay_graph *graph, uint32_t work, const dl_replay_node *node);

/* Adds a copy of *edge; both nodes must exist. Cycles are reported by dl_replay_simulate. */
void dl_replay_graph_add_edge(dl_replay_graph *graph, const dl_replay_edge *edge);

/* Makes the `count` nodes one group that takes duration_ns from the last start on. None may be in a
 * group yet. Returns its number. */
uint32_t dl_replay_graph_add_group(dl_replay_graph *graph, const uint32_t *nodes, size_t count,
                                   int64_t duration_ns);
void dl_replay_graph_free(dl_replay_graph *graph);

/* Whether a node is work of a device. */
bool dl_replay_node_is_work(const dl_replay_node *node);

/* "host", "call", "kernel", ...; "launch", "event", ...; never NULL. */
const char *dl_replay_kind_name(dl_replay_kind kind);
const char *dl_replay_edge_kind_name(dl_replay_edge_kind kind);

/* Simulation of a replay graph as a program on lanes (sim/step/program.h). It uses durations,
 * spacings, edges, groups and the begin of lanes, but no other recorded starts. */

/* The constraint that determined a node's start. */
typedef enum dl_replay_cause {
    DL_REPLAY_BY_BEGIN, /* its lane began */
    DL_REPLAY_BY_LANE,  /* its predecessor on the lane, and the node's spacing */
    DL_REPLAY_BY_EDGE,  /* edge number `edge` */
} dl_replay_cause;

typedef struct dl_replay_time {
    int64_t start_ns, end_ns; /* since graph.origin_ns */
    uint8_t cause;            /* dl_replay_cause */
    uint32_t edge;            /* of BY_EDGE */
    uint32_t last_arrival;    /* its group's node that started last; itself without a group */
} dl_replay_time;

/* Computes the caller's times[node_count] of all nodes. DL_ERR_DATA if the graph has a cycle,
 * DL_ERR_RANGE if all times together exceed 2^53 ns (104 days). O((nodes + edges) log lanes). */
dl_status dl_replay_simulate(const dl_replay_graph *graph, dl_replay_time *times,
                             dl_error *err) DL_MUST_CHECK;

/* Unexplained time: the recorded delay of a device's work after all of its constraints in the graph
 * are satisfied. Replay leaves this time out. It follows from the recorded times alone, so that a
 * gap stays where it arose. */

/* Gaps up to this are the spread of launch latencies and spacings, for which typical values are
 * used. */
#define DL_REPLAY_SPREAD_NS 10000

/* Sets the caller's earliest_ns[node_count] to the time at which, by recorded times, all
 * constraints of each node are satisfied. */
void dl_replay_earliest_starts(const dl_replay_graph *graph, int64_t *earliest_ns);

#endif
