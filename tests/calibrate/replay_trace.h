/* Hand-made traces for the tests of replay: calls of host threads, kernels and copies of streams.
 * Times are in microseconds. */
#ifndef DL_TESTS_CALIBRATE_REPLAY_TRACE_H
#define DL_TESTS_CALIBRATE_REPLAY_TRACE_H

#include <string.h>

#include "calibrate/replay/build.h"
#include "calibrate/replay/graph.h"
#include "tests/hand_trace.h"

/* LATENCY: from the start of a launch to the start of its kernel; SPACING: between the kernels of a
 * stream. */
enum { LATENCY = 5, SPACING = 1 };

static inline uint32_t replay_name(dl_trace *trace, const char *name)
{
    for (size_t i = 0; i < trace->string_count; i++) {
        if (strcmp(trace->strings[i], name) == 0) return (uint32_t)i;
    }
    return hand_name(trace, name);
}

static inline dl_activity *replay_add(dl_trace *trace, dl_activity_kind kind, const char *name,
                                      int64_t start_us, int64_t duration_us)
{
    uint32_t id = replay_name(trace, name);
    trace->activities =
        dl_realloc(trace->activities, trace->activity_count + 1, sizeof *trace->activities, "test");
    dl_activity *a = &trace->activities[trace->activity_count++];
    *a = (dl_activity){.kind = (uint8_t)kind,
                       .name = id,
                       .start_ns = start_us * 1000,
                       .duration_ns = duration_us * 1000};
    return a;
}

/* Each function returns the activity's index. */
static inline uint32_t replay_call(dl_trace *trace, uint32_t thread, const char *name,
                                   int64_t start_us, int64_t duration_us, uint32_t correlation)
{
    dl_activity *a = replay_add(trace, DL_ACTIVITY_CALL, name, start_us, duration_us);
    a->thread = thread;
    a->correlation = correlation;
    return (uint32_t)(trace->activity_count - 1);
}

static inline uint32_t replay_kernel(dl_trace *trace, uint32_t stream, const char *name,
                                     int64_t start_us, int64_t duration_us, uint32_t correlation)
{
    dl_activity *a = replay_add(trace, DL_ACTIVITY_KERNEL, name, start_us, duration_us);
    a->stream = stream;
    a->correlation = correlation;
    return (uint32_t)(trace->activity_count - 1);
}

/* A built and replayed trace; release with replayed_free. */
typedef struct replayed {
    dl_replay_run run;
    dl_replay_time *times;
    dl_trace *trace;
} replayed;

static inline void replay_again(replayed *r)
{
    dl_error err = {0};
    assert_int_equal(dl_replay_simulate(&r->run.graph, r->times, &err), DL_OK);
}

static inline replayed replay_trace(dl_trace *trace)
{
    replayed r = {.trace = trace};
    const dl_trace *traces[] = {trace};
    dl_error err = {0};
    assert_int_equal(dl_replay_build(&r.run, traces, 1, &err), DL_OK);
    r.times = dl_calloc(r.run.graph.node_count, sizeof *r.times, "test");
    replay_again(&r);
    return r;
}

static inline void replayed_free(replayed *r)
{
    free(r->times);
    dl_replay_run_free(&r->run);
    dl_trace_free(r->trace);
}

static inline dl_replay_node *replayed_node(replayed *r, uint32_t activity)
{
    return &r->run.graph.nodes[r->run.ranks[0].node_of[activity]];
}

/* Replayed start of an activity in us, on the trace's clock. */
static inline int64_t replayed_us(const replayed *r, uint32_t activity)
{
    uint32_t node = r->run.ranks[0].node_of[activity];
    return (r->times[node].start_ns + r->run.graph.origin_ns) / 1000;
}

/* Replayed end of a call in us, including waits. */
static inline int64_t replayed_end_us(const replayed *r, uint32_t activity)
{
    uint32_t node = r->run.ranks[0].node_of[activity];
    while (r->run.graph.next[node] != DL_REPLAY_NONE &&
           r->run.graph.nodes[r->run.graph.next[node]].activity == activity)
        node = r->run.graph.next[node];
    return (r->times[node].end_ns + r->run.graph.origin_ns) / 1000;
}

static inline size_t replayed_edges(const replayed *r, dl_replay_edge_kind kind,
                                    dl_replay_origin origin)
{
    size_t count = 0;
    for (size_t i = 0; i < r->run.graph.edge_count; i++)
        count += r->run.graph.edges[i].kind == kind && r->run.graph.edges[i].origin == origin;
    return count;
}

/* Removes all edges of a kind and replays. */
static inline void replayed_without(replayed *r, dl_replay_edge_kind kind)
{
    dl_replay_graph *graph = &r->run.graph;
    size_t kept = 0;
    for (size_t i = 0; i < graph->edge_count; i++) {
        if (graph->edges[i].kind != kind) graph->edges[kept++] = graph->edges[i];
    }
    graph->edge_count = kept;
    replay_again(r);
}

#endif
