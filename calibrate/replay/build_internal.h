/* Declarations shared by the graph builder's sources; internal to calibrate/replay. */
#ifndef DL_CALIBRATE_REPLAY_BUILD_INTERNAL_H
#define DL_CALIBRATE_REPLAY_BUILD_INTERNAL_H

#include "calibrate/replay/build.h"
#include "trace/activity/activity.h"

/* Effect of a call, by its name. */
typedef enum call_role {
    CALL_OTHER,
    CALL_LAUNCH,       /* kernel, graph, memset */
    CALL_COPY,         /* launches a copy, and may wait for it */
    CALL_SYNC_DEVICE,  /* waits for all work of the device */
    CALL_SYNC_STREAM,  /* waits for one stream */
    CALL_SYNC_EVENT,   /* waits for one event */
    CALL_EVENT_RECORD, /* marks the end of the work launched to a stream */
    CALL_STREAM_WAIT,  /* makes a stream wait for an event */
    CALL_MEMORY        /* allocates, frees or registers memory, or unloads a module, which may wait
                        * for the device */
} call_role;

/* An outermost call of a thread. A call that may wait for operations has two nodes: the first
 * launches and takes no time, the second takes the call's time. Other calls have one node. */
typedef struct replay_call {
    int64_t start_ns, end_ns;
    uint32_t activity;
    uint32_t thread;        /* number of the thread in this trace, from 0 */
    uint32_t node, returns; /* first and last node of the call */
    uint8_t role;           /* call_role */
} replay_call;

typedef struct replay_untraced {
    uint32_t lane;
    /* node that ends where the span starts; the lane's next node, if any, starts with the span */
    uint32_t before;
    int64_t from_ns, to_ns;
} replay_untraced;

/* Operations of one lane of a stream, in order. */
typedef struct stream_works {
    uint32_t lane, device, stream;
    uint32_t *nodes; /* [count] slice of the builder's stream_nodes */
    /* [count] start of the launching call, non-decreasing; if unknown, that of the previous work */
    int64_t *launch_ns;
    size_t count;
} stream_works;

/* Records of events with a known identity; owns its array. */
typedef struct replay_events {
    const dl_activity **items; /* [count] EVENTs by object, then by start */
    size_t count;
} replay_events;

void replay_events_init(replay_events *events, const dl_trace *trace);
void replay_events_free(replay_events *events);

typedef struct replay_builder {
    dl_replay_graph *graph;
    dl_replay_rank *rank;
    uint16_t rank_number;
    const dl_trace *trace;
    dl_launches launches;
    uint8_t *classes;   /* dl_kernel_class by name id */
    uint8_t *roles;     /* call_role by name id */
    int64_t begin_ns;   /* earliest time in the trace */
    replay_call *calls; /* [call_count] of all threads by start */
    size_t call_count;
    size_t thread_count;       /* threads with calls */
    replay_untraced *untraced; /* [untraced_count] lane by lane, in order */
    size_t untraced_count;
    uint32_t first_node;   /* first node of this trace; operations come first, stream by stream */
    uint32_t *launcher;    /* [work_count] activity of the call that launched node first_node + i,
                            * or DL_REPLAY_NONE */
    stream_works *streams; /* [stream_count] */
    size_t stream_count;
    uint32_t *stream_nodes;
    int64_t *stream_launch_ns;
    size_t *stream_of;    /* [work_count] index in streams, by node - first_node */
    uint32_t *first_work; /* [call nodes] first work that a call launched, by the call's node, or
                           * DL_REPLAY_NONE; complete after replay_build_launches */
} replay_builder;

/* Stages of dl_replay_build: streams, host, launches, threads, waits, queues, events, timed. */
void replay_build_streams(replay_builder *b);  /* lanes and nodes of operations */
void replay_build_host(replay_builder *b);     /* lanes and nodes of threads */
void replay_build_launches(replay_builder *b); /* edges, latencies, spacings */
void replay_build_threads(replay_builder *b);  /* threads that wait for each other */

/* Edges of calls that wait for operations, and of streams that wait for each other. */
void replay_build_waits(replay_builder *b, const replay_events *events);
void replay_build_events(replay_builder *b, const replay_events *events);
void replay_build_queues(replay_builder *b); /* launches that wait for room in a queue */
void replay_build_timed(replay_builder *b);  /* edges inferred from the recorded times only */

/* Returns the recorded end of a work. */
int64_t replay_work_end(const replay_builder *b, uint32_t node);

/* Returns the index in `works` of the last one launched before `time_ns`, plus 1; 0: none. */
size_t replay_launched_before(const stream_works *works, int64_t time_ns);

#endif
