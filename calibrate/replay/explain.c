#include "calibrate/replay/explain.h"

static int64_t recorded_end(const dl_replay_node *node)
{
    return node->recorded_ns + node->duration_ns;
}

void dl_replay_explain(const dl_replay_graph *graph, int64_t *earliest_ns)
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
        if (!edge->off && ready_ns > earliest_ns[edge->to]) earliest_ns[edge->to] = ready_ns;
    }
}
