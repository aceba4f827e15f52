/* The report of a replay for people. */
#include <string.h>

#include "calibrate/dataset.h"
#include "calibrate/replay/explain.h"
#include "calibrate/replay/report.h"
#include "common/units.h"

/* A duration of at most 12 characters. */
#define NS_TEXT(ns) dl_format_ns((char[24]){0}, 24, (double)(ns))

static void print_graph(const dl_replay_report *report, FILE *out)
{
    const dl_replay_graph *graph = &report->run->graph;
    fprintf(out, "graph: %zu nodes on %zu lanes\n\n%-10s %10s %10s %10s\n", graph->node_count,
            graph->lane_count, "edges", "recorded", "inferred", "by times");
    for (int kind = 0; kind < DL_REPLAY_EDGE_KIND_END; kind++) {
        const size_t *edges = report->edges[kind];
        if (edges[0] + edges[1] + edges[2] == 0) continue;
        fprintf(out, "%-10s %10zu %10zu %10zu\n",
                dl_replay_edge_kind_name((dl_replay_edge_kind)kind), edges[DL_REPLAY_RECORDED],
                edges[DL_REPLAY_INFERRED], edges[DL_REPLAY_TIMED]);
    }
}

static void print_steps(const dl_replay_report *report, size_t rows, FILE *out)
{
    bool changed = report->changed.count > 0;
    fprintf(out, "\n%-4s %-6s %5s %-8s %12s %12s %9s", "rank", "device", "step", "", "recorded",
            "replayed", "error");
    fprintf(out, changed ? " %12s %9s\n" : "\n", "changed", "by");
    for (size_t i = 0; i < report->steps.count; i++) {
        const dl_replay_step *step = &report->steps.items[i];
        if (i == rows) {
            fprintf(out, "and %zu more\n", report->steps.count - rows);
            break;
        }
        fprintf(out, "%-4u %-6u %5zu %-8s %12s %12s %+8.2f%%", step->rank, step->device,
                step->number, step->whole ? "all" : dl_step_label_name(step->label),
                NS_TEXT(step->recorded_ns), NS_TEXT(step->replayed_ns),
                100 * dl_replay_step_error(step));
        if (changed) {
            const dl_replay_step *to = &report->changed.items[i];
            double by =
                step->replayed_ns > 0 ? (double)to->replayed_ns / (double)step->replayed_ns - 1 : 0;
            fprintf(out, " %12s %+8.2f%%", NS_TEXT(to->replayed_ns), 100 * by);
        }
        fputc('\n', out);
    }
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

/* The one that `place` others go before: the longest first, equal ones by number. */
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
    double sum_ns = path_sum(report);
    if (sum_ns == 0) return;
    fprintf(out, "\n%-20s %12s %8s\n", "critical path", "of a step", "share");
    for (uint32_t place = 0; place < DL_PATH_END; place++) {
        uint32_t what = path_at(report, place);
        if (report->path_ns[what] == 0) break;
        fprintf(out, "%-20s %12s %7.1f%%\n", dl_path_name(what), NS_TEXT(report->path_ns[what]),
                100 * report->path_ns[what] / sum_ns);
    }
}

static void print_warnings(const dl_replay_report *report, FILE *out)
{
    const dl_replay_gaps *gaps = &report->gaps;
    fputc('\n', out);
    for (size_t r = 0; r < report->run->rank_count; r++) {
        const dl_replay_rank *rank = &report->run->ranks[r];
        if (rank->unlaunched > 0)
            fprintf(out,
                    "warning: %zu of %zu works have no recorded launch: only their stream's "
                    "order holds them back\n",
                    rank->unlaunched, rank->work_count);
        if (rank->launches_without > 0)
            fprintf(out, "warning: %zu of %zu launches have no work in the trace\n",
                    rank->launches_without, rank->launch_calls);
        if (rank->queue_depth > 0)
            fprintf(out, "note: launches wait when %zu works of a stream are not over\n",
                    rank->queue_depth);
    }
    if (gaps->count == 0) {
        fprintf(out, "unexplained: no work begins more than %s after all that holds it back\n",
                NS_TEXT(DL_REPLAY_SPREAD_NS));
        return;
    }
    fprintf(out,
            "unexplained: %zu works begin %s too late in all (longest %s, %.2f %% of their\n"
            "streams' time); nothing of that is kept, replay begins them earlier\n",
            gaps->count, NS_TEXT(gaps->total_ns), NS_TEXT(gaps->longest_ns), 100 * gaps->share);
}

void dl_replay_report_print(const dl_replay_report *report, size_t rows, FILE *out)
{
    print_graph(report, out);
    print_steps(report, rows, out);
    print_path(report, out);
    print_warnings(report, out);
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
            100 * report->total_error, 100 * report->gaps.share);
    for (uint32_t place = 0; place < 3 && sum_ns > 0; place++) {
        uint32_t what = path_at(report, place);
        if (report->path_ns[what] == 0) break;
        fprintf(out, " %s %.0f%%", dl_path_name(what), 100 * report->path_ns[what] / sum_ns);
    }
    fputc('\n', out);
}
