#include "calibrate/replay/graph.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "sim/step/program.h"

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

/* Returns whether the sum of all times is below 2^53 ns, so that a double holds each partial sum
 * exactly. */
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
    return sum_ns < 9007199254740992.0;
}

/* Converts the graph to a program; tasks, edges, groups and lanes keep their indices. */
static void make_program(const dl_replay_graph *g, dl_program *program)
{
    *program = (dl_program){
        .tasks = dl_calloc(g->node_count, sizeof *program->tasks, "replay"),
        .next = dl_calloc(g->node_count, sizeof *program->next, "replay"),
        .edges = dl_calloc(g->edge_count, sizeof *program->edges, "replay"),
        .lanes = dl_calloc(g->lane_count, sizeof *program->lanes, "replay"),
        .groups = dl_calloc(g->group_count, sizeof *program->groups, "replay"),
        .task_count = g->node_count,
        .edge_count = g->edge_count,
        .lane_count = g->lane_count,
        .group_count = g->group_count,
    };
    for (size_t n = 0; n < g->node_count; n++) {
        const dl_replay_node *node = &g->nodes[n];
        program->tasks[n] = (dl_task){.work_ns = (double)node->duration_ns,
                                      .spacing_ns = node->spacing_ns,
                                      .lane = node->lane,
                                      .group = node->group};
        program->next[n] = g->next[n];
    }
    for (size_t e = 0; e < g->edge_count; e++) {
        const dl_replay_edge *edge = &g->edges[e];
        program->edges[e] =
            (dl_task_edge){edge->from, edge->to, edge->lag_ns, edge->from_start != 0};
    }
    for (size_t l = 0; l < g->lane_count; l++)
        program->lanes[l] = (dl_task_lane){g->lanes[l].first, g->lanes[l].last};
    for (size_t i = 0; i < g->group_count; i++)
        program->groups[i] = (dl_task_group){g->groups[i].size, g->groups[i].duration_ns};
    dl_program_close(program);
}

static void take_times(const dl_replay_graph *g, const dl_program_run *run, dl_replay_time *times)
{
    for (size_t n = 0; n < g->node_count; n++) {
        const dl_task_state *state = &run->tasks[n];
        const dl_replay_cause cause = state->edge != DL_TASK_NONE      ? DL_REPLAY_BY_EDGE
                                      : g->before[n] != DL_REPLAY_NONE ? DL_REPLAY_BY_LANE
                                                                       : DL_REPLAY_BY_BEGIN;
        times[n] = (dl_replay_time){.start_ns = state->start_ns,
                                    .end_ns = state->end_ns,
                                    .cause = (uint8_t)cause,
                                    .edge = cause == DL_REPLAY_BY_EDGE ? state->edge : 0,
                                    .last_arrival = state->last_arrival};
    }
}

dl_status dl_replay_simulate(const dl_replay_graph *graph, dl_replay_time *times, dl_error *err)
{
    if (!times_fit(graph))
        return dl_error_set(err, DL_ERR_RANGE, "times add up to more than 104 days");
    DL_SCOPED(dl_program) program;
    DL_SCOPED(dl_program_run) run;
    DL_SCOPED(dl_engine) engine;
    make_program(graph, &program);
    /* A lane has at most one event: the start or the end of its current task. */
    dl_engine_init(&engine, (int)graph->lane_count + 1);
    dl_program_run_init(&run, &program, &engine, NULL, NULL, 0);
    dl_program_start(&run);
    for (size_t l = 0; l < graph->lane_count; l++)
        dl_program_begin_lane(&run, (uint32_t)l, graph->lanes[l].begin_ns - graph->origin_ns);
    dl_engine_run(&engine);
    take_times(graph, &run, times);
    const size_t left = graph->node_count - run.ended;
    if (left == 0) return DL_OK;
    return dl_error_set(err, DL_ERR_DATA, "%zu of %zu parts of the trace wait for one another",
                        left, graph->node_count);
}
