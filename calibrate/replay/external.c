#include "calibrate/replay/external.h"

#include "calibrate/replay/graph.h"
#include "common/alloc.h"
#include "trace/activity/activity.h"

const char *const dl_external_names[4] = {"threads", "keep", "remove", NULL};

bool dl_external_is_of_device(const dl_replay_graph *graph, uint32_t node)
{
    return graph->nodes[node].kind == DL_REPLAY_EXTERNAL &&
           graph->lanes[graph->nodes[node].lane].is_stream;
}

static void add(dl_external_waits *waits, int64_t ns, uint32_t node)
{
    waits->count++;
    waits->total_ns += ns;
    if (ns <= waits->longest_ns) return;
    waits->longest_ns = ns;
    waits->longest = node;
}

/* Finds the devices' waits before each node, in ns: [node_count]; 0: none. */
static int64_t *find_gaps(const dl_replay_graph *graph)
{
    int64_t *waits_ns = dl_calloc(graph->node_count, sizeof *waits_ns, "replay gaps");
    dl_replay_earliest_starts(graph, waits_ns);
    for (size_t i = 0; i < graph->node_count; i++) {
        const int64_t gap_ns = graph->nodes[i].recorded_ns - waits_ns[i];
        const bool waits = dl_replay_node_is_work(&graph->nodes[i]) && gap_ns > DL_REPLAY_SPREAD_NS;
        waits_ns[i] = waits ? gap_ns : 0;
    }
    return waits_ns;
}

/* `ns` as a fraction of the streams' total time from first work to last end. */
static double share_of_streams(const dl_replay_graph *graph, int64_t ns)
{
    double span_ns = 0;
    for (size_t i = 0; i < graph->lane_count; i++) {
        const dl_replay_lane *lane = &graph->lanes[i];
        if (!lane->is_stream || lane->last == DL_REPLAY_NONE) continue;
        const dl_replay_node *last = &graph->nodes[lane->last];
        span_ns += (double)(last->recorded_ns + last->duration_ns - lane->begin_ns);
    }
    return span_ns > 0 ? (double)ns / span_ns : 0;
}

/* Returns the name of the innermost range around the thread's wait; NULL if there is none. */
static const char *range_around(const dl_replay_run *run, const dl_replay_node *wait)
{
    const dl_trace *trace = run->ranks[wait->rank].trace;
    const dl_activity *best = NULL;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_RANGE || a->thread != run->graph.lanes[wait->lane].thread ||
            a->start_ns > wait->recorded_ns ||
            a->start_ns + a->duration_ns < wait->recorded_ns + wait->duration_ns)
            continue;
        if (best == NULL || a->duration_ns < best->duration_ns) best = a;
    }
    return best != NULL ? trace->strings[best->name] : NULL;
}

void dl_external_find(dl_replay_run *run)
{
    const dl_replay_graph *graph = &run->graph;
    DL_AUTOFREE int64_t *waits_ns = find_gaps(graph);
    dl_external_waits *threads = &run->waits_of_threads, *devices = &run->waits_of_devices;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (waits_ns[i] > 0) add(devices, waits_ns[i], i);
        if (graph->nodes[i].kind == DL_REPLAY_EXTERNAL)
            add(threads, graph->nodes[i].duration_ns, i);
    }
    devices->share = share_of_streams(graph, devices->total_ns);
    if (threads->count > 0) threads->where = range_around(run, &graph->nodes[threads->longest]);
    if (devices->count == 0) return;
    const dl_replay_node *late = &graph->nodes[devices->longest];
    const dl_trace *trace = run->ranks[late->rank].trace;
    devices->where = trace->strings[trace->activities[late->activity].name];
}

/* Inserts each wait of a device as a node before the work in its stream; the work's constraints
 * move to that node. */
static void keep_gaps(dl_replay_graph *graph)
{
    const size_t count = graph->node_count;
    DL_AUTOFREE int64_t *waits_ns = find_gaps(graph);
    DL_AUTOFREE uint32_t *wait_of = dl_calloc(count, sizeof *wait_of, "replay gaps");
    for (uint32_t i = 0; i < count; i++) {
        wait_of[i] = i;
        if (waits_ns[i] == 0) continue;
        const dl_replay_node wait = {
            .kind = DL_REPLAY_EXTERNAL,
            .rank = graph->nodes[i].rank,
            .activity = DL_REPLAY_NONE,
            .recorded_ns = graph->nodes[i].recorded_ns - waits_ns[i],
            .duration_ns = waits_ns[i],
            .spacing_ns = graph->nodes[i].spacing_ns,
        };
        graph->nodes[i].spacing_ns = 0;
        wait_of[i] = dl_replay_graph_insert(graph, i, &wait);
    }
    for (size_t e = 0; e < graph->edge_count; e++)
        graph->edges[e].to = wait_of[graph->edges[e].to];
}

void dl_external_use(dl_replay_run *run, dl_external kind)
{
    if (kind == DL_EXTERNAL_KEEP) keep_gaps(&run->graph);
    run->waits_of_threads.removed = kind == DL_EXTERNAL_REMOVE;
    run->waits_of_devices.removed = kind != DL_EXTERNAL_KEEP;
    for (size_t i = 0; i < run->graph.node_count && kind == DL_EXTERNAL_REMOVE; i++) {
        if (run->graph.nodes[i].kind == DL_REPLAY_EXTERNAL) run->graph.nodes[i].duration_ns = 0;
    }
}
