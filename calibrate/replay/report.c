#include "calibrate/replay/report.h"

#include <math.h>
#include <stdlib.h>

#include "calibrate/replay/explain.h"
#include "common/alloc.h"

static void find_gaps(dl_replay_gaps *gaps, const dl_replay_graph *graph)
{
    int64_t *earliest_ns = dl_calloc(graph->node_count, sizeof *earliest_ns, "replay gaps");
    double span_ns = 0;
    dl_replay_explain(graph, earliest_ns);
    for (size_t i = 0; i < graph->node_count; i++) {
        const dl_replay_node *node = &graph->nodes[i];
        int64_t gap_ns = node->recorded_ns - earliest_ns[i];
        if (!dl_replay_node_is_work(node) || gap_ns <= DL_REPLAY_SPREAD_NS) continue;
        gaps->count++;
        gaps->total_ns += gap_ns;
        if (gap_ns > gaps->longest_ns) gaps->longest_ns = gap_ns;
    }
    for (size_t i = 0; i < graph->lane_count; i++) {
        const dl_replay_lane *lane = &graph->lanes[i];
        if (!lane->is_stream || lane->last == DL_REPLAY_NONE) continue;
        const dl_replay_node *last = &graph->nodes[lane->last];
        span_ns += (double)(last->recorded_ns + last->duration_ns - lane->begin_ns);
    }
    gaps->share = span_ns > 0 ? (double)gaps->total_ns / span_ns : 0;
    free(earliest_ns);
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
        double error = fabs(dl_replay_step_error(step));
        report->regular++;
        report->mean_error += error;
        if (error > report->worst_error) report->worst_error = error;
        recorded_ns += (double)step->recorded_ns;
        replayed_ns += (double)step->replayed_ns;
        dl_critical_path path = {0};
        dl_critical_path_find(&path, &report->run->graph, times, step);
        for (uint32_t what = 0; what < DL_PATH_END; what++)
            report->path_ns[what] += (double)path.ns[what];
        dl_critical_path_free(&path);
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
    for (size_t r = 0; r < run->rank_count; r++)
        dl_replay_steps_add(&report->steps, run, r, &steps[r], times);
    for (size_t i = 0; i < run->graph.edge_count; i++)
        report->edges[run->graph.edges[i].kind][run->graph.edges[i].origin]++;
    find_gaps(&report->gaps, &run->graph);
    sum_up(report, times);
}

void dl_replay_report_change(dl_replay_report *report, const dl_activity_steps *steps,
                             const dl_replay_time *times)
{
    for (size_t r = 0; r < report->run->rank_count; r++)
        dl_replay_steps_add(&report->changed, report->run, r, &steps[r], times);
}

void dl_replay_report_free(dl_replay_report *report)
{
    dl_replay_steps_free(&report->steps);
    dl_replay_steps_free(&report->changed);
    *report = (dl_replay_report){0};
}
