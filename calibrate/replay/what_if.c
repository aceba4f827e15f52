#include "calibrate/replay/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"

/* Maximum factor of dl_replay_parse_scale. */
#define DL_REPLAY_MOST 1000.0

/* Selections besides DL_PATH_...: kernels of any class, and nodes whose name contains a text. */
enum { ALL_KERNELS = DL_PATH_END, BY_NAME, NAME_COUNT = BY_NAME };

/* Lists the names of all categories of the critical path, and "kernel" as the last. */
static void list_names(const char **names)
{
    for (uint32_t i = 0; i < DL_PATH_END; i++)
        names[i] = dl_path_name(i);
    names[DL_PATH_END] = "kernel";
}

static uint32_t find_target(const char *text)
{
    const char *names[NAME_COUNT];
    list_names(names);
    int found = dl_names_find(text, names, NAME_COUNT);
    return found < 0 || found == DL_PATH_BEGIN ? BY_NAME : (uint32_t)found;
}

static bool hits(const dl_replay_run *run, uint32_t what, const char *text,
                 const dl_replay_node *node)
{
    if (what == ALL_KERNELS) return node->kind == DL_REPLAY_KERNEL;
    if (what != BY_NAME) return dl_path_what(node) == what;
    if (node->activity == DL_REPLAY_NONE) return false;
    const dl_trace *trace = run->ranks[node->rank].trace;
    return strstr(trace->strings[trace->activities[node->activity].name], text) != NULL;
}

/* Scales a time and limits the result; the simulation rejects sums from 2^53 ns. */
static int64_t scaled(int64_t ns, double factor)
{
    double result = (double)ns * factor;
    return result < (double)(INT64_MAX / 4) ? llround(result) : INT64_MAX / 4;
}

static size_t scale_edges(dl_replay_graph *graph, uint32_t what, double factor,
                          const uint8_t *scaled_nodes)
{
    size_t changed = 0;
    for (size_t i = 0; i < graph->edge_count; i++) {
        dl_replay_edge *edge = &graph->edges[i];
        bool launch = what == DL_PATH_LAUNCH && edge->kind == DL_REPLAY_LAUNCH;
        bool room = edge->kind == DL_REPLAY_ROOM && scaled_nodes[edge->from];
        if (!launch && !room) continue;
        edge->lag_ns = scaled(edge->lag_ns, factor);
        changed += launch;
    }
    return changed;
}

static size_t scale_nodes(dl_replay_run *run, uint32_t what, const char *text, double factor,
                          uint8_t *hit)
{
    dl_replay_graph *graph = &run->graph;
    size_t changed = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        dl_replay_node *node = &graph->nodes[i];
        if (what == DL_PATH_SPACING) {
            changed += node->spacing_ns > 0;
            node->spacing_ns = scaled(node->spacing_ns, factor);
            continue;
        }
        if (!hits(run, what, text, node)) continue;
        node->duration_ns = scaled(node->duration_ns, factor);
        if (factor == 0) node->spacing_ns = 0;
        hit[i] = 1;
        changed++;
    }
    return changed;
}

/* Scales each group with at least one selected node, once. */
static void scale_groups(dl_replay_graph *graph, double factor, const uint8_t *hit)
{
    DL_AUTOFREE uint8_t *group_hit = dl_calloc(graph->group_count, 1, "replay groups");
    for (size_t i = 0; i < graph->node_count; i++) {
        uint32_t group = graph->nodes[i].group;
        if (group == DL_REPLAY_NONE || !hit[i] || group_hit[group]) continue;
        group_hit[group] = 1;
        graph->groups[group].duration_ns = scaled(graph->groups[group].duration_ns, factor);
    }
}

dl_status dl_replay_scale(dl_replay_run *run, const char *text, double factor, size_t *changed,
                          dl_error *err)
{
    const uint32_t what = find_target(text);
    DL_AUTOFREE uint8_t *hit = dl_calloc(run->graph.node_count, 1, "replay what-if");
    size_t count = scale_nodes(run, what, text, factor, hit);
    count += scale_edges(&run->graph, what, factor, hit);
    scale_groups(&run->graph, factor, hit);
    if (changed != NULL) *changed = count;
    if (count > 0 || what != BY_NAME) return DL_OK;
    const char *names[NAME_COUNT];
    char hint[400];
    list_names(names);
    dl_names_hint(hint, sizeof hint, text, names, NAME_COUNT);
    return dl_error_set(err, DL_ERR_USAGE, "the traces hold nothing called '%s'%s", text, hint);
}

dl_status dl_replay_parse_scale(const char *text, char **what, double *factor, dl_error *err)
{
    /* Kernel names contain no '=', but the last one is used to be safe. */
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    double value = equals == NULL ? NAN : strtod(equals + 1, &end);
    if (equals == NULL || equals == text || end == equals + 1 || *end != '\0' || !(value >= 0) ||
        value > DL_REPLAY_MOST) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "'%s': expected CLASS=FACTOR with a factor of 0 to %g", text,
                            DL_REPLAY_MOST);
    }
    *what = dl_strndup(text, (size_t)(equals - text));
    *factor = value;
    return DL_OK;
}
