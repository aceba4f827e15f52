#include "calibrate/replay/graph.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"

/* Room for one more of `count` objects: doubled when full. */
static void *grow(void *block, size_t count, size_t *room, size_t size)
{
    if (count < *room) return block;
    *room = 2 * *room + 64;
    return dl_realloc(block, *room, size, "replay graph");
}

uint32_t dl_replay_graph_add_lane(dl_replay_graph *graph, const dl_replay_lane *lane)
{
    graph->lanes = grow(graph->lanes, graph->lane_count, &graph->lane_room, sizeof *graph->lanes);
    dl_replay_lane *added = &graph->lanes[graph->lane_count];
    *added = *lane;
    added->first = added->last = DL_REPLAY_NONE;
    return (uint32_t)graph->lane_count++;
}

uint32_t dl_replay_graph_add(dl_replay_graph *graph, uint32_t lane, const dl_replay_node *node)
{
    DL_ASSERT(lane < graph->lane_count && node->duration_ns >= 0 && node->spacing_ns >= 0,
              "node of lane %u of %zu", lane, graph->lane_count);
    size_t room = graph->node_room;
    graph->nodes = grow(graph->nodes, graph->node_count, &room, sizeof *graph->nodes);
    if (room != graph->node_room) {
        graph->next = dl_realloc(graph->next, room, sizeof *graph->next, "replay graph");
        graph->before = dl_realloc(graph->before, room, sizeof *graph->before, "replay graph");
        graph->node_room = room;
    }
    uint32_t id = (uint32_t)graph->node_count++;
    graph->nodes[id] = *node;
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

void dl_replay_graph_add_edge(dl_replay_graph *graph, const dl_replay_edge *edge)
{
    DL_ASSERT(edge->from < graph->node_count && edge->to < graph->node_count && edge->lag_ns >= 0,
              "edge from %u to %u of %zu nodes", edge->from, edge->to, graph->node_count);
    graph->edges = grow(graph->edges, graph->edge_count, &graph->edge_room, sizeof *graph->edges);
    graph->edges[graph->edge_count++] = *edge;
}

uint32_t dl_replay_graph_add_group(dl_replay_graph *graph, const uint32_t *nodes, size_t count,
                                   int64_t duration_ns)
{
    graph->groups =
        grow(graph->groups, graph->group_count, &graph->group_room, sizeof *graph->groups);
    uint32_t id = (uint32_t)graph->group_count++;
    graph->groups[id] = (dl_replay_group){.size = (uint32_t)count, .duration_ns = duration_ns};
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
        [DL_REPLAY_HOST] = "host",     [DL_REPLAY_CALL] = "call",
        [DL_REPLAY_KERNEL] = "kernel", [DL_REPLAY_COLLECTIVE] = "collective",
        [DL_REPLAY_GRAPH] = "graph",   [DL_REPLAY_COPY] = "copy",
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
