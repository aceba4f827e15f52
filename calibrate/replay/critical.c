#include "calibrate/replay/critical.h"

#include <stdlib.h>

#include "common/alloc.h"

uint32_t dl_path_what(const dl_replay_node *node)
{
    switch ((dl_replay_kind)node->kind) {
    case DL_REPLAY_HOST: return DL_PATH_HOST;
    case DL_REPLAY_CALL: return DL_PATH_CALL;
    case DL_REPLAY_COPY: return DL_PATH_COPY;
    case DL_REPLAY_MEMSET: return DL_PATH_MEMSET;
    case DL_REPLAY_GRAPH: return DL_PATH_GRAPH;
    default: return DL_PATH_KERNEL + node->class;
    }
}

const char *dl_path_name(uint32_t what)
{
    static const char *const names[DL_PATH_KERNEL] = {
        [DL_PATH_HOST] = "host",       [DL_PATH_CALL] = "call",   [DL_PATH_LAUNCH] = "launch",
        [DL_PATH_SPACING] = "spacing", [DL_PATH_COPY] = "copy",   [DL_PATH_MEMSET] = "memset",
        [DL_PATH_GRAPH] = "graph",     [DL_PATH_BEGIN] = "begin",
    };
    return what < DL_PATH_KERNEL ? names[what]
                                 : dl_kernel_class_name((dl_kernel_class)(what - DL_PATH_KERNEL));
}

/* What the path is being followed for. */
typedef struct walk {
    dl_critical_path *path;
    const dl_replay_graph *graph;
    const dl_replay_time *times;
    int64_t begin_ns, end_ns; /* of the step */
} walk;

/* Adds [start_ns, end_ns), as far as it lies within the step. */
static void add_part(walk *w, uint32_t node, uint32_t what, int64_t start_ns, int64_t end_ns)
{
    if (start_ns < w->begin_ns) start_ns = w->begin_ns;
    if (end_ns > w->end_ns) end_ns = w->end_ns;
    if (end_ns <= start_ns) return;
    dl_critical_path *path = w->path;
    if (path->count == path->room) {
        path->room = 2 * path->room + 64;
        path->parts = dl_realloc(path->parts, path->room, sizeof *path->parts, "critical path");
    }
    path->parts[path->count++] = (dl_path_part){node, what, start_ns, end_ns};
    path->ns[what] += end_ns - start_ns;
}

/* Passes the whole of a node, from its end; returns the node from whose start to go on. */
static uint32_t pass_node(walk *w, uint32_t node)
{
    uint32_t last = w->times[node].last_arrival;
    add_part(w, node, dl_path_what(&w->graph->nodes[node]), w->times[last].start_ns,
             w->times[node].end_ns);
    return last;
}

/* Follows what made the node start; returns the node from whose start to go on, or NONE. */
static uint32_t follow(walk *w, uint32_t node)
{
    const dl_replay_time *time = &w->times[node];
    if (time->cause == DL_REPLAY_BY_BEGIN) {
        add_part(w, node, DL_PATH_BEGIN, w->begin_ns, time->start_ns);
        return DL_REPLAY_NONE;
    }
    if (time->cause == DL_REPLAY_BY_LANE) {
        uint32_t before = w->graph->before[node];
        add_part(w, node, DL_PATH_SPACING, w->times[before].end_ns, time->start_ns);
        return pass_node(w, before);
    }
    const dl_replay_edge *edge = &w->graph->edges[time->edge];
    if (edge->from_start) {
        uint32_t what = edge->kind == DL_REPLAY_LAUNCH ? DL_PATH_LAUNCH
                                                       : dl_path_what(&w->graph->nodes[edge->from]);
        add_part(w, node, what, w->times[edge->from].start_ns, time->start_ns);
        return edge->from;
    }
    add_part(w, node, DL_PATH_SPACING, w->times[edge->from].end_ns, time->start_ns);
    return pass_node(w, edge->from);
}

void dl_critical_path_find(dl_critical_path *path, const dl_replay_graph *graph,
                           const dl_replay_time *times, const dl_replay_step *step)
{
    walk w = {path, graph, times, step->start_ns, step->end_ns};
    uint32_t node = step->ends_with;
    if (step->at_end) node = pass_node(&w, node);
    while (node != DL_REPLAY_NONE && times[node].start_ns > step->start_ns)
        node = follow(&w, node);
}

void dl_critical_path_free(dl_critical_path *path)
{
    free(path->parts);
    *path = (dl_critical_path){0};
}
