#include "calibrate/replay/report.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/chrome_trace.h"
#include "common/json.h"
#include "common/names.h"
#include "common/rows.h"
#include "common/units.h"
#include "trace/activity/activity.h"
#include "trace/print.h"

/* A boundary between steps: the earliest start of operations, or the latest end. */
typedef struct border {
    int64_t recorded_ns, replayed_ns;
    uint32_t node; /* node at the replayed boundary */
} border;

static border step_begin(const dl_replay_run *run, const dl_replay_rank *rank,
                         const dl_step_line *line, const dl_activity_step *step,
                         const dl_replay_time *times)
{
    border b = {INT64_MAX, INT64_MAX, DL_REPLAY_NONE};
    for (size_t i = 0; i < step->count; i++) {
        if (!dl_step_line_begins(line, step->first + i)) continue;
        uint32_t node = rank->node_of[line->work[step->first + i]];
        int64_t recorded_ns = run->graph.nodes[node].recorded_ns - run->graph.origin_ns;
        if (recorded_ns < b.recorded_ns) b.recorded_ns = recorded_ns;
        if (times[node].start_ns >= b.replayed_ns) continue;
        b.replayed_ns = times[node].start_ns;
        b.node = node;
    }
    return b;
}

static border work_end(const dl_replay_run *run, const dl_replay_rank *rank,
                       const dl_step_line *line, size_t first, const dl_replay_time *times)
{
    border b = {0, -1, DL_REPLAY_NONE};
    for (size_t i = first; i < line->work_count; i++) {
        const dl_activity *work = &rank->trace->activities[line->work[i]];
        uint32_t node = rank->node_of[line->work[i]];
        int64_t recorded_ns = work->start_ns + work->duration_ns - run->graph.origin_ns;
        if (recorded_ns > b.recorded_ns) b.recorded_ns = recorded_ns;
        if (times[node].end_ns <= b.replayed_ns) continue;
        b.replayed_ns = times[node].end_ns;
        b.node = node;
    }
    return b;
}

static void replay_steps_free(dl_replay_steps *steps)
{
    free(steps->items);
    *steps = (dl_replay_steps){0};
}

/* Adds the steps of a line with operations, or a single item if it has no steps. */
static void replay_line_add(dl_replay_steps *steps, const dl_replay_run *run, size_t number,
                            const dl_step_line *line, const dl_replay_time *times)
{
    const dl_replay_rank *rank = &run->ranks[number];
    const dl_activity_step all = {.count = line->work_count};
    size_t count = line->count > 0 ? line->count : 1;
    const dl_activity_step *items = line->count > 0 ? line->steps : &all;
    border begin = step_begin(run, rank, line, &items[0], times);
    for (size_t i = 0; i < count; i++) {
        bool last = i + 1 == count;
        border end = last ? work_end(run, rank, line, items[i].first, times)
                          : step_begin(run, rank, line, &items[i + 1], times);
        if (end.recorded_ns < begin.recorded_ns) end.recorded_ns = begin.recorded_ns;
        if (end.replayed_ns < begin.replayed_ns) end.replayed_ns = begin.replayed_ns;
        DL_APPEND(steps->items, steps->count, "replayed steps") = (dl_replay_step){
            .rank = (uint16_t)number,
            .device = line->device,
            .number = i,
            .label = line->count > 0 ? items[i].label : DL_STEP_OTHER,
            .whole = line->count == 0,
            .recorded_ns = end.recorded_ns - begin.recorded_ns,
            .replayed_ns = end.replayed_ns - begin.replayed_ns,
            .start_ns = begin.replayed_ns,
            .end_ns = end.replayed_ns,
            .ends_with = end.node,
            .at_end = last,
        };
        begin = end;
    }
}

/* Times the steps of all ranks; found[rank] are the steps of the rank's activities. */
static void time_steps(dl_replay_steps *steps, const dl_replay_run *run,
                       const dl_activity_steps *found, const dl_replay_time *times)
{
    for (size_t r = 0; r < run->rank_count; r++) {
        for (size_t i = 0; i < found[r].count; i++) {
            if (found[r].lines[i].work_count > 0)
                replay_line_add(steps, run, r, &found[r].lines[i], times);
        }
    }
}

double dl_replay_mean_step_ns(const dl_replay_run *run, const dl_step_line *line,
                              const dl_replay_time *times, double *recorded_ns)
{
    DL_AUTO(replay_steps_free) dl_replay_steps steps = {0};
    double sum_ns = 0, recorded_sum_ns = 0;
    const double count = line->regular_count > 0 ? (double)line->regular_count : 1;
    replay_line_add(&steps, run, 0, line, times);
    for (size_t i = 0; i < line->count; i++) {
        if (line->steps[i].label != DL_STEP_REGULAR) continue;
        sum_ns += (double)steps.items[i].replayed_ns;
        recorded_sum_ns += (double)steps.items[i].recorded_ns;
    }
    if (recorded_ns != NULL) *recorded_ns = recorded_sum_ns / count;
    return sum_ns / count;
}

/* replayed / recorded - 1; 0 for a step of no time. */
static double replay_step_error(const dl_replay_step *step)
{
    if (step->recorded_ns == 0) return 0;
    return (double)step->replayed_ns / (double)step->recorded_ns - 1;
}

uint32_t dl_path_what(const dl_replay_node *node)
{
    switch ((dl_replay_kind)node->kind) {
    case DL_REPLAY_HOST: return DL_PATH_HOST;
    case DL_REPLAY_CALL: return DL_PATH_CALL;
    case DL_REPLAY_EXTERNAL: return DL_PATH_EXTERNAL;
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
        [DL_PATH_GRAPH] = "graph",     [DL_PATH_BEGIN] = "begin", [DL_PATH_EXTERNAL] = "external",
    };
    return what < DL_PATH_KERNEL ? names[what]
                                 : dl_kernel_class_name((dl_kernel_class)(what - DL_PATH_KERNEL));
}

/* A walk along the critical path. */
typedef struct walk {
    double *path_ns; /* [DL_PATH_END] times by category, which the walk adds to */
    const dl_replay_graph *graph;
    const dl_replay_time *times;
    int64_t begin_ns, end_ns; /* of the step */
} walk;

/* Adds the part of [start_ns, end_ns) that lies within the step. */
static void add_part(walk *w, uint32_t what, int64_t start_ns, int64_t end_ns)
{
    if (start_ns < w->begin_ns) start_ns = w->begin_ns;
    if (end_ns > w->end_ns) end_ns = w->end_ns;
    if (end_ns > start_ns) w->path_ns[what] += (double)(end_ns - start_ns);
}

/* Adds a whole node, from its end; returns the node from whose start the walk continues. */
static uint32_t pass_node(walk *w, uint32_t node)
{
    uint32_t last = w->times[node].last_arrival;
    add_part(w, dl_path_what(&w->graph->nodes[node]), w->times[last].start_ns,
             w->times[node].end_ns);
    return last;
}

/* Follows the cause of the node's start; returns the node from whose start the walk continues, or
 * NONE. */
static uint32_t follow(walk *w, uint32_t node)
{
    const dl_replay_time *time = &w->times[node];
    if (time->cause == DL_REPLAY_BY_BEGIN) {
        add_part(w, DL_PATH_BEGIN, w->begin_ns, time->start_ns);
        return DL_REPLAY_NONE;
    }
    if (time->cause == DL_REPLAY_BY_LANE) {
        uint32_t before = w->graph->before[node];
        add_part(w, DL_PATH_SPACING, w->times[before].end_ns, time->start_ns);
        return pass_node(w, before);
    }
    const dl_replay_edge *edge = &w->graph->edges[time->edge];
    if (edge->from_start) {
        uint32_t what = edge->kind == DL_REPLAY_LAUNCH ? DL_PATH_LAUNCH
                                                       : dl_path_what(&w->graph->nodes[edge->from]);
        add_part(w, what, w->times[edge->from].start_ns, time->start_ns);
        return edge->from;
    }
    add_part(w, DL_PATH_SPACING, w->times[edge->from].end_ns, time->start_ns);
    return pass_node(w, edge->from);
}

/* Adds the critical path of `step` to path_ns[DL_PATH_END]; the parts sum to the step's time.
 * O(path length). */
static void add_critical_path(double *path_ns, const dl_replay_graph *graph,
                              const dl_replay_time *times, const dl_replay_step *step)
{
    walk w = {path_ns, graph, times, step->start_ns, step->end_ns};
    uint32_t node = step->ends_with;
    if (step->at_end) node = pass_node(&w, node);
    while (node != DL_REPLAY_NONE && times[node].start_ns > step->start_ns)
        node = follow(&w, node);
}

bool dl_replay_step_counts(const dl_replay_step *step)
{
    return step->whole || step->label == DL_STEP_REGULAR;
}

static void sum_up(dl_replay_report *report, const dl_replay_time *times)
{
    double recorded_ns = 0, replayed_ns = 0;
    for (size_t i = 0; i < report->steps.count; i++) {
        const dl_replay_step *step = &report->steps.items[i];
        if (!dl_replay_step_counts(step)) continue;
        double error = fabs(replay_step_error(step));
        report->regular++;
        report->mean_error += error;
        if (error > report->worst_error) report->worst_error = error;
        recorded_ns += (double)step->recorded_ns;
        replayed_ns += (double)step->replayed_ns;
        add_critical_path(report->path_ns, &report->run->graph, times, step);
    }
    if (report->regular == 0) return;
    report->mean_error /= (double)report->regular;
    report->total_error = recorded_ns > 0 ? replayed_ns / recorded_ns - 1 : 0;
    for (uint32_t what = 0; what < DL_PATH_END; what++)
        report->path_ns[what] /= (double)report->regular;
}

void dl_replay_report_init(dl_replay_report *report, const dl_replay_run *run,
                           const dl_activity_steps *steps, const dl_replay_time *times)
{
    report->run = run;
    time_steps(&report->steps, run, steps, times);
    for (size_t i = 0; i < run->graph.edge_count; i++)
        report->edges[run->graph.edges[i].kind][run->graph.edges[i].origin]++;
    sum_up(report, times);
}

void dl_replay_report_change(dl_replay_report *report, const dl_activity_steps *steps,
                             const dl_replay_time *times)
{
    time_steps(&report->changed, report->run, steps, times);
}

void dl_replay_report_free(dl_replay_report *report)
{
    replay_steps_free(&report->steps);
    replay_steps_free(&report->changed);
    *report = (dl_replay_report){0};
}

/* Prints the size of the graph, and its edges by kind and origin. */

static void print_graph(const dl_replay_report *report, FILE *out)
{
    const dl_replay_graph *graph = &report->run->graph;
    dl_rows to = {.out = out};
    fprintf(out, "graph: %zu nodes on %zu lanes\n", graph->node_count, graph->lane_count);
    dl_rows_begin(&to, NULL, "");
    for (int kind = 0; kind < DL_REPLAY_EDGE_KIND_END; kind++) {
        const size_t *edges = report->edges[kind];
        if (edges[0] + edges[1] + edges[2] == 0) continue;
        dl_rows_add(&to, "|edges=%-s |recorded=%zu |inferred=%zu |by times=%zu",
                    dl_replay_edge_kind_name((dl_replay_edge_kind)kind), edges[DL_REPLAY_RECORDED],
                    edges[DL_REPLAY_INFERRED], edges[DL_REPLAY_TIMED]);
    }
    dl_rows_end(&to, 0);
}

/* Adds the rows of steps; `most` as in dl_rows_end. */
static void put_steps(dl_rows *to, const dl_replay_report *report, size_t most)
{
    dl_rows_begin(to, "steps", "");
    for (size_t i = 0; i < report->steps.count; i++) {
        const dl_replay_step *step = &report->steps.items[i];
        const char *label = step->whole ? "all" : dl_step_label_name(step->label);
        const double replayed_ns = (double)step->replayed_ns;
#define STEP                                                                                    \
    "rank=%d device=%u step=%zu label=%-s recorded_ns|recorded=%gns replayed_ns|replayed=%gns " \
    "error_frac|error %%=%+.2f%%"
#define VALUES                                                                             \
    step->rank, step->device, step->number, label, (double)step->recorded_ns, replayed_ns, \
        replay_step_error(step)
        if (report->changed.count == 0) {
            dl_rows_add(to, STEP, VALUES);
        } else {
            const double changed_ns = (double)report->changed.items[i].replayed_ns;
            dl_rows_add(to, STEP " changed_ns|changed=%gns |by %%=%+.2f%%", VALUES, changed_ns,
                        replayed_ns > 0 ? changed_ns / replayed_ns - 1 : 0);
        }
    }
    dl_rows_end(to, most);
}

static void print_steps(const dl_replay_report *report, size_t rows, FILE *out)
{
    put_steps(&(dl_rows){.out = out}, report, rows);
    if (report->regular == 0) return;
    fprintf(out, "%zu %s: error mean %.2f %%, maximum %.2f %%; of their sum %+.2f %%\n",
            report->regular, report->steps.items[0].whole ? "device(s) without steps" : "step(s)",
            100 * report->mean_error, 100 * report->worst_error, 100 * report->total_error);
}

static double path_sum(const dl_replay_report *report)
{
    double sum_ns = 0;
    for (uint32_t what = 0; what < DL_PATH_END; what++)
        sum_ns += report->path_ns[what];
    return sum_ns;
}

/* Returns the category at rank `place` when sorted by descending time, equal ones by index. */
static uint32_t path_at(const dl_replay_report *report, uint32_t place)
{
    for (uint32_t what = 0; what < DL_PATH_END; what++) {
        uint32_t longer = 0;
        for (uint32_t other = 0; other < DL_PATH_END; other++)
            longer += report->path_ns[other] > report->path_ns[what] ||
                      (report->path_ns[other] == report->path_ns[what] && other < what);
        if (longer == place) return what;
    }
    return DL_PATH_END - 1;
}

static void print_path(const dl_replay_report *report, FILE *out)
{
    const double sum_ns = path_sum(report);
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "");
    for (uint32_t place = 0; place < DL_PATH_END; place++) {
        const uint32_t what = path_at(report, place);
        if (report->path_ns[what] == 0) break;
        dl_rows_add(&to, "|critical path=%-s |of a step=%gns |share %%=%.1f%%", dl_path_name(what),
                    report->path_ns[what], report->path_ns[what] / sum_ns);
    }
    dl_rows_end(&to, 0);
}

/* Notes external waits of threads, then of devices. */
static void note_waits(dl_notes *notes, const dl_replay_run *run)
{
    const dl_external_waits *threads = &run->waits_of_threads, *devices = &run->waits_of_devices;
    DL_AUTOFREE char *in =
        threads->where != NULL ? dl_format(", in '%.60s'", threads->where) : dl_strdup("");
    if (threads->count > 0) {
        dl_notes_add(notes,
                     "external waits of threads: %zu, %s in all (longest %s%s), in which nothing "
                     "in the trace runs: waits for an event outside it, or a computation; %s",
                     threads->count, DL_NS_TEXT(threads->total_ns), DL_NS_TEXT(threads->longest_ns),
                     in,
                     threads->removed ? "left out" : "kept (--external remove leaves them out)");
    }
    if (devices->count == 0) {
        dl_notes_add(notes,
                     "unexplained: no operation starts more than %s after its last dependency",
                     DL_NS_TEXT(DL_REPLAY_SPREAD_NS));
        return;
    }
    dl_notes_add(
        notes,
        "external waits of devices: %zu operations start %s after their last known dependency "
        "(longest %s, before '%.60s'; %.2f %% of their streams' time); %s",
        devices->count, DL_NS_TEXT(devices->total_ns), DL_NS_TEXT(devices->longest_ns),
        devices->where, 100 * devices->share,
        devices->removed ? "replay omits these waits and starts the operations earlier (--external "
                           "keep includes them)"
                         : "kept");
}

static void print_notes(const dl_replay_run *run, FILE *out)
{
    DL_SCOPED(dl_notes) notes = {0};
    for (size_t r = 0; r < run->rank_count; r++) {
        const dl_replay_rank *rank = &run->ranks[r];
        if (rank->unlaunched > 0)
            dl_notes_add(&notes,
                         "warning: %zu of %zu GPU operations have no recorded launch: only their "
                         "stream's order delays them",
                         rank->unlaunched, rank->work_count);
        if (rank->launches_without > 0)
            dl_notes_add(&notes, "warning: %zu of %zu launches have no work in the trace",
                         rank->launches_without, rank->launch_calls);
        if (rank->queue_depth > 0)
            dl_notes_add(&notes,
                         "note: a launch waits while %zu operations of its stream are unfinished",
                         rank->queue_depth);
    }
    note_waits(&notes, run);
    dl_notes_print(&notes, "\n", "", out);
}

void dl_replay_report_print(const dl_replay_report *report, size_t rows, FILE *out)
{
    print_graph(report, out);
    print_steps(report, rows, out);
    print_path(report, out);
    print_notes(report->run, out);
}

void dl_replay_report_print_heading(FILE *out)
{
    fprintf(out, "%-44s %5s %8s %8s %8s %8s  %s\n", "trace", "steps", "mean", "maximum", "sum",
            "unexpl.", "critical path");
}

void dl_replay_report_print_line(const dl_replay_report *report, FILE *out)
{
    const char *path = report->run->ranks[0].trace->path;
    double sum_ns = path_sum(report);
    fprintf(out, "%-44s %5zu %7.2f%% %7.2f%% %+7.2f%% %7.2f%% ", dl_base_name(path),
            report->regular, 100 * report->mean_error, 100 * report->worst_error,
            100 * report->total_error, 100 * report->run->waits_of_devices.share);
    for (uint32_t place = 0; place < 3 && sum_ns > 0; place++) {
        uint32_t what = path_at(report, place);
        if (report->path_ns[what] == 0) break;
        fprintf(out, " %s %.0f%%", dl_path_name(what), 100 * report->path_ns[what] / sum_ns);
    }
    fputc('\n', out);
}

/* Writes the number of edges by kind and origin. */

static void write_edges(dl_json *to, const dl_replay_report *report)
{
    dl_json_begin(to, "edges", '{');
    for (int kind = 0; kind < DL_REPLAY_EDGE_KIND_END; kind++) {
        const size_t *edges = report->edges[kind];
        dl_json_object(to, dl_replay_edge_kind_name((dl_replay_edge_kind)kind),
                       "recorded=%g inferred=%g timed=%g", (double)edges[DL_REPLAY_RECORDED],
                       (double)edges[DL_REPLAY_INFERRED], (double)edges[DL_REPLAY_TIMED]);
    }
    dl_json_end(to, '}');
}

static void write_ranks(dl_json *to, const dl_replay_run *run)
{
    DL_JSON_LIST (to, "ranks", r, run->rank_count) {
        const dl_replay_rank *rank = &run->ranks[r];
        dl_json_object(to, NULL,
                       "file=%s works=%g works_without_launch=%g launches=%g "
                       "launches_without_work=%g queue_depth=%g",
                       rank->trace->path, (double)rank->work_count, (double)rank->unlaunched,
                       (double)rank->launch_calls, (double)rank->launches_without,
                       (double)rank->queue_depth);
    }
}

void dl_replay_report_write_json(const dl_replay_report *report, FILE *out)
{
    dl_json to = {.out = out};
    dl_json_begin(&to, NULL, '{');
    write_ranks(&to, report->run);
    dl_json_number_item(&to, "nodes", (double)report->run->graph.node_count);
    write_edges(&to, report);
    put_steps(&(dl_rows){.json = &to}, report, 0);
    dl_json_members(
        &to, "counted_steps=%g error_mean_frac=%g error_max_frac=%g error_of_sum_frac=%g",
        (double)report->regular, report->mean_error, report->worst_error, report->total_error);
    dl_json_begin(&to, "critical_path_ns", '{');
    for (uint32_t what = 0; what < DL_PATH_END; what++)
        dl_json_number_item(&to, dl_path_name(what), report->path_ns[what]);
    dl_json_end(&to, '}');
    const dl_replay_run *run = report->run;
    dl_json_object(&to, "unexplained", "works=%g total_ns=%g longest_ns=%g share_frac=%g kept=%hhd",
                   (double)run->waits_of_devices.count, (double)run->waits_of_devices.total_ns,
                   (double)run->waits_of_devices.longest_ns, run->waits_of_devices.share,
                   (bool)!run->waits_of_devices.removed);
    dl_json_object(&to, "external_waits_of_threads", "spans=%g total_ns=%g longest_ns=%g kept=%hhd",
                   (double)run->waits_of_threads.count, (double)run->waits_of_threads.total_ns,
                   (double)run->waits_of_threads.longest_ns, (bool)!run->waits_of_threads.removed);
    dl_json_end(&to, '}');
}

static void name_tracks(dl_chrome_trace *to, const dl_replay_run *run)
{
    char name[64];
    for (size_t r = 0; r < run->rank_count; r++) {
        snprintf(name, sizeof name, "replayed rank %zu", r);
        dl_chrome_trace_process(to, (int)r, name);
    }
    for (size_t i = 0; i < run->graph.lane_count; i++) {
        const dl_replay_lane *lane = &run->graph.lanes[i];
        if (lane->is_stream) {
            snprintf(name, sizeof name, "device %u stream %u", lane->device, lane->stream);
        } else {
            snprintf(name, sizeof name, "thread %u", lane->thread);
        }
        dl_chrome_trace_thread(to, lane->rank, (int)i, name);
    }
}

static const char *node_name(const dl_replay_run *run, const dl_replay_node *node)
{
    if (node->activity == DL_REPLAY_NONE)
        return node->kind == DL_REPLAY_EXTERNAL ? "external wait" : "host";
    const dl_trace *trace = run->ranks[node->rank].trace;
    const dl_activity *activity = &trace->activities[node->activity];
    if (activity->kind == DL_ACTIVITY_MEMCPY)
        return dl_copy_direction_name((dl_copy_direction)activity->copy);
    const char *name = trace->strings[activity->name];
    return *name != '\0' ? name : dl_replay_kind_name((dl_replay_kind)node->kind);
}

dl_status dl_replay_timeline_write(const char *path, const dl_replay_run *run,
                                   const dl_replay_time *times, dl_error *err)
{
    dl_chrome_trace to;
    dl_status status = dl_chrome_trace_open(&to, path, err);
    if (status != DL_OK) return status;
    name_tracks(&to, run);
    for (size_t i = 0; i < run->graph.node_count; i++) {
        const dl_replay_node *node = &run->graph.nodes[i];
        if (times[i].end_ns <= times[i].start_ns) continue;
        const dl_chrome_arg args[] = {
            {.key = "recorded start us",
             .number = (double)(node->recorded_ns - run->graph.origin_ns) / 1e3},
        };
        dl_chrome_trace_slice(&to, node->rank, (int)node->lane,
                              dl_replay_kind_name((dl_replay_kind)node->kind), node_name(run, node),
                              times[i].start_ns, times[i].end_ns - times[i].start_ns, args, 1);
    }
    return dl_chrome_trace_close(&to, err);
}
