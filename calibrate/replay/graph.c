#include "calibrate/replay/graph.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "sim/engine.h"

uint32_t dl_replay_graph_add_lane(dl_replay_graph *graph, const dl_replay_lane *lane)
{
    dl_replay_lane *added = &DL_APPEND(graph->lanes, graph->lane_count, "replay graph");
    *added = *lane;
    added->first = added->last = DL_REPLAY_NONE;
    return (uint32_t)graph->lane_count - 1;
}

uint32_t dl_replay_graph_add(dl_replay_graph *graph, uint32_t lane, const dl_replay_node *node)
{
    DL_ASSERT(lane < graph->lane_count && node->duration_ns >= 0 && node->spacing_ns >= 0,
              "node of lane %u of %zu", lane, graph->lane_count);
    const uint32_t id = (uint32_t)graph->node_count;
    graph->next = dl_grow(graph->next, id, sizeof *graph->next, "replay graph");
    graph->before = dl_grow(graph->before, id, sizeof *graph->before, "replay graph");
    DL_APPEND(graph->nodes, graph->node_count, "replay graph") = *node;
    graph->nodes[id].lane = lane;
    graph->nodes[id].group = DL_REPLAY_NONE;
    graph->next[id] = DL_REPLAY_NONE;
    dl_replay_lane *on = &graph->lanes[lane];
    graph->before[id] = on->last;
    if (on->last == DL_REPLAY_NONE) {
        on->first = id;
        on->begin_ns = node->recorded_ns;
    } else {
        graph->next[on->last] = id;
    }
    on->last = id;
    if (id == 0 || node->recorded_ns < graph->origin_ns) graph->origin_ns = node->recorded_ns;
    return id;
}

uint32_t dl_replay_graph_insert(dl_replay_graph *graph, uint32_t work, const dl_replay_node *node)
{
    const uint32_t id = (uint32_t)graph->node_count, lane = graph->nodes[work].lane;
    const uint32_t before = graph->before[work];
    graph->next = dl_grow(graph->next, id, sizeof *graph->next, "replay graph");
    graph->before = dl_grow(graph->before, id, sizeof *graph->before, "replay graph");
    DL_APPEND(graph->nodes, graph->node_count, "replay graph") = *node;
    graph->nodes[id].lane = lane;
    graph->nodes[id].group = DL_REPLAY_NONE;
    graph->before[id] = before;
    graph->next[id] = work;
    graph->before[work] = id;
    *(before == DL_REPLAY_NONE ? &graph->lanes[lane].first : &graph->next[before]) = id;
    return id;
}

void dl_replay_graph_add_edge(dl_replay_graph *graph, const dl_replay_edge *edge)
{
    DL_ASSERT(edge->from < graph->node_count && edge->to < graph->node_count && edge->lag_ns >= 0,
              "edge from %u to %u of %zu nodes", edge->from, edge->to, graph->node_count);
    DL_APPEND(graph->edges, graph->edge_count, "replay graph") = *edge;
}

uint32_t dl_replay_graph_add_group(dl_replay_graph *graph, const uint32_t *nodes, size_t count,
                                   int64_t duration_ns)
{
    const uint32_t id = (uint32_t)graph->group_count;
    DL_APPEND(graph->groups, graph->group_count, "replay graph") =
        (dl_replay_group){.size = (uint32_t)count, .duration_ns = duration_ns};
    for (size_t i = 0; i < count; i++) {
        DL_ASSERT(graph->nodes[nodes[i]].group == DL_REPLAY_NONE, "node %u is in a group",
                  nodes[i]);
        graph->nodes[nodes[i]].group = id;
    }
    return id;
}

void dl_replay_graph_free(dl_replay_graph *graph)
{
    free(graph->nodes);
    free(graph->next);
    free(graph->before);
    free(graph->edges);
    free(graph->lanes);
    free(graph->groups);
    *graph = (dl_replay_graph){0};
}

bool dl_replay_node_is_work(const dl_replay_node *node)
{
    return node->kind >= DL_REPLAY_KERNEL;
}

const char *dl_replay_kind_name(dl_replay_kind kind)
{
    static const char *const names[DL_REPLAY_KIND_END] = {
        [DL_REPLAY_HOST] = "host",
        [DL_REPLAY_CALL] = "call",
        [DL_REPLAY_EXTERNAL] = "external",
        [DL_REPLAY_KERNEL] = "kernel",
        [DL_REPLAY_COLLECTIVE] = "collective",
        [DL_REPLAY_GRAPH] = "graph",
        [DL_REPLAY_COPY] = "copy",
        [DL_REPLAY_MEMSET] = "memset",
    };
    return (unsigned)kind < DL_REPLAY_KIND_END ? names[kind] : "unknown";
}

const char *dl_replay_edge_kind_name(dl_replay_edge_kind kind)
{
    static const char *const names[DL_REPLAY_EDGE_KIND_END] = {
        [DL_REPLAY_LAUNCH] = "launch", [DL_REPLAY_EVENT] = "event",
        [DL_REPLAY_SYNC] = "sync",     [DL_REPLAY_QUEUE] = "queue",
        [DL_REPLAY_ROOM] = "room",     [DL_REPLAY_HANDOVER] = "handover",
        [DL_REPLAY_OTHER] = "other",
    };
    return (unsigned)kind < DL_REPLAY_EDGE_KIND_END ? names[kind] : "unknown";
}

static int64_t recorded_end(const dl_replay_node *node)
{
    return node->recorded_ns + node->duration_ns;
}

void dl_replay_earliest_starts(const dl_replay_graph *graph, int64_t *earliest_ns)
{
    for (size_t i = 0; i < graph->node_count; i++) {
        uint32_t before = graph->before[i];
        earliest_ns[i] = before == DL_REPLAY_NONE
                             ? graph->lanes[graph->nodes[i].lane].begin_ns
                             : recorded_end(&graph->nodes[before]) + graph->nodes[i].spacing_ns;
    }
    for (size_t i = 0; i < graph->edge_count; i++) {
        const dl_replay_edge *edge = &graph->edges[i];
        const dl_replay_node *from = &graph->nodes[edge->from];
        int64_t ready_ns =
            (edge->from_start ? from->recorded_ns : recorded_end(from)) + edge->lag_ns;
        if (ready_ns > earliest_ns[edge->to]) earliest_ns[edge->to] = ready_ns;
    }
}

typedef struct replay {
    const dl_replay_graph *graph;
    dl_replay_time *times;
    dl_engine engine;
    uint32_t *first_edge; /* [node_count + 1] in edge_order, by the edges' `from` */
    uint32_t *edge_order;
    uint32_t *missing; /* [node_count] predecessors that are not done */
    uint32_t *group_missing;
    uint32_t *group_node; /* heads of lists of a group's started nodes, through group_next */
    uint32_t *group_next;
    size_t done;
} replay;

static void index_edges(replay *r)
{
    const dl_replay_graph *g = r->graph;
    r->first_edge = dl_calloc(g->node_count + 2, sizeof *r->first_edge, "replay");
    r->edge_order = dl_calloc(g->edge_count, sizeof *r->edge_order, "replay");
    r->missing = dl_calloc(g->node_count, sizeof *r->missing, "replay");
    for (size_t e = 0; e < g->edge_count; e++)
        r->first_edge[g->edges[e].from + 2]++;
    for (size_t n = 0; n < g->node_count; n++)
        r->first_edge[n + 2] += r->first_edge[n + 1];
    for (size_t e = 0; e < g->edge_count; e++) {
        r->edge_order[r->first_edge[g->edges[e].from + 1]++] = (uint32_t)e;
        r->missing[g->edges[e].to]++;
    }
    for (size_t n = 0; n < g->node_count; n++)
        r->missing[n] += g->before[n] != DL_REPLAY_NONE;
}

static void start_node(void *user, int index);
static void end_node(void *user, int index);

/* A predecessor of `node` is done: it may start at ready_ns as far as that one goes. */
static void satisfy(replay *r, uint32_t node, int64_t ready_ns, dl_replay_cause cause,
                    uint32_t edge)
{
    dl_replay_time *time = &r->times[node];
    if (ready_ns >= time->start_ns) {
        time->start_ns = ready_ns;
        time->cause = (uint8_t)cause;
        time->edge = edge;
    }
    if (--r->missing[node] > 0) return;
    dl_engine_after(&r->engine, time->start_ns - r->engine.now_ns, start_node, r, (int)node);
}

static void follow_edges(replay *r, uint32_t node, bool from_start)
{
    const dl_replay_graph *g = r->graph;
    for (uint32_t i = r->first_edge[node]; i < r->first_edge[node + 1]; i++) {
        const dl_replay_edge *edge = &g->edges[r->edge_order[i]];
        if ((edge->from_start != 0) != from_start) continue;
        satisfy(r, edge->to, r->engine.now_ns + edge->lag_ns, DL_REPLAY_BY_EDGE, r->edge_order[i]);
    }
}

/* A node of a group started; the last one ends all. */
static void arrive(replay *r, uint32_t node)
{
    uint32_t group = r->graph->nodes[node].group;
    r->group_next[node] = r->group_node[group];
    r->group_node[group] = node;
    if (--r->group_missing[group] > 0) return;
    for (uint32_t n = node; n != DL_REPLAY_NONE; n = r->group_next[n]) {
        r->times[n].last_arrival = node;
        dl_engine_after(&r->engine, r->graph->groups[group].duration_ns, end_node, r, (int)n);
    }
}

static void start_node(void *user, int index)
{
    replay *r = user;
    uint32_t node = (uint32_t)index;
    r->times[node].last_arrival = node;
    if (r->graph->nodes[node].group != DL_REPLAY_NONE) {
        arrive(r, node);
    } else {
        dl_engine_after(&r->engine, r->graph->nodes[node].duration_ns, end_node, r, index);
    }
    follow_edges(r, node, true);
}

static void end_node(void *user, int index)
{
    replay *r = user;
    uint32_t node = (uint32_t)index, next = r->graph->next[node];
    r->times[node].end_ns = r->engine.now_ns;
    r->done++;
    if (next != DL_REPLAY_NONE) {
        satisfy(r, next, r->engine.now_ns + r->graph->nodes[next].spacing_ns, DL_REPLAY_BY_LANE, 0);
    }
    follow_edges(r, node, false);
}

static void begin(replay *r)
{
    const dl_replay_graph *g = r->graph;
    r->group_missing = dl_calloc(g->group_count, sizeof *r->group_missing, "replay");
    r->group_node = dl_calloc(g->group_count, sizeof *r->group_node, "replay");
    r->group_next =
        dl_calloc(g->group_count > 0 ? g->node_count : 0, sizeof *r->group_next, "replay");
    for (size_t i = 0; i < g->group_count; i++) {
        r->group_missing[i] = g->groups[i].size;
        r->group_node[i] = DL_REPLAY_NONE;
    }
    for (size_t n = 0; n < g->node_count; n++)
        r->times[n] = (dl_replay_time){0};
    for (size_t i = 0; i < g->lane_count; i++) {
        uint32_t first = g->lanes[i].first;
        if (first == DL_REPLAY_NONE) continue;
        r->missing[first]++;
        satisfy(r, first, g->lanes[i].begin_ns - g->origin_ns, DL_REPLAY_BY_BEGIN, 0);
    }
}

/* Whether all times together stay within 64 bits, so that no sum of some can leave them. */
static bool times_fit(const dl_replay_graph *g)
{
    double sum_ns = 0;
    for (size_t n = 0; n < g->node_count; n++)
        sum_ns += (double)g->nodes[n].duration_ns + (double)g->nodes[n].spacing_ns;
    for (size_t e = 0; e < g->edge_count; e++)
        sum_ns += (double)g->edges[e].lag_ns;
    for (size_t i = 0; i < g->group_count; i++)
        sum_ns += (double)g->groups[i].duration_ns;
    for (size_t i = 0; i < g->lane_count; i++) {
        if (g->lanes[i].first != DL_REPLAY_NONE)
            sum_ns += (double)g->lanes[i].begin_ns - (double)g->origin_ns;
    }
    return sum_ns < (double)(INT64_MAX / 2);
}

dl_status dl_replay_simulate(const dl_replay_graph *graph, dl_replay_time *times, dl_error *err)
{
    if (!times_fit(graph)) return dl_error_set(err, DL_ERR_RANGE, "times add up to 146 years");
    replay r = {.graph = graph, .times = times};
    index_edges(&r);
    /* A lane has at most one event: the start or the end of the node at hand. */
    dl_engine_init(&r.engine, (int)graph->lane_count + 1);
    begin(&r);
    dl_engine_run(&r.engine);
    dl_engine_free(&r.engine);
    free(r.first_edge);
    free(r.edge_order);
    free(r.missing);
    free(r.group_missing);
    free(r.group_node);
    free(r.group_next);
    if (r.done == graph->node_count) return DL_OK;
    return dl_error_set(err, DL_ERR_DATA, "%zu of %zu parts of the trace wait for one another",
                        graph->node_count - r.done, graph->node_count);
}
