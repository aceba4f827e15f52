/* The report of a replay as JSON. */
#include "calibrate/replay/report.h"
#include "common/json.h"

static void write_steps(dl_json *to, const dl_replay_report *report)
{
    dl_json_begin(to, "steps", '[');
    for (size_t i = 0; i < report->steps.count; i++) {
        const dl_replay_step *step = &report->steps.items[i];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "rank", step->rank);
        dl_json_number_item(to, "device", step->device);
        dl_json_number_item(to, "step", (double)step->number);
        dl_json_text_item(to, "label", step->whole ? "all" : dl_step_label_name(step->label));
        dl_json_number_item(to, "recorded_ns", (double)step->recorded_ns);
        dl_json_number_item(to, "replayed_ns", (double)step->replayed_ns);
        dl_json_number_item(to, "error_frac", dl_replay_step_error(step));
        if (report->changed.count > 0)
            dl_json_number_item(to, "changed_ns", (double)report->changed.items[i].replayed_ns);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_edges(dl_json *to, const dl_replay_report *report)
{
    dl_json_begin(to, "edges", '{');
    for (int kind = 0; kind < DL_REPLAY_EDGE_KIND_END; kind++) {
        const size_t *edges = report->edges[kind];
        dl_json_begin(to, dl_replay_edge_kind_name((dl_replay_edge_kind)kind), '{');
        dl_json_number_item(to, "recorded", (double)edges[DL_REPLAY_RECORDED]);
        dl_json_number_item(to, "inferred", (double)edges[DL_REPLAY_INFERRED]);
        dl_json_number_item(to, "timed", (double)edges[DL_REPLAY_TIMED]);
        dl_json_end(to, '}');
    }
    dl_json_end(to, '}');
}

static void write_ranks(dl_json *to, const dl_replay_run *run)
{
    dl_json_begin(to, "ranks", '[');
    for (size_t r = 0; r < run->rank_count; r++) {
        const dl_replay_rank *rank = &run->ranks[r];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "file", rank->trace->path);
        dl_json_number_item(to, "works", (double)rank->work_count);
        dl_json_number_item(to, "works_without_launch", (double)rank->unlaunched);
        dl_json_number_item(to, "launches", (double)rank->launch_calls);
        dl_json_number_item(to, "launches_without_work", (double)rank->launches_without);
        dl_json_number_item(to, "queue_depth", (double)rank->queue_depth);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

void dl_replay_report_write_json(const dl_replay_report *report, FILE *out)
{
    dl_json to = {.out = out};
    dl_json_begin(&to, NULL, '{');
    write_ranks(&to, report->run);
    dl_json_number_item(&to, "nodes", (double)report->run->graph.node_count);
    write_edges(&to, report);
    write_steps(&to, report);
    dl_json_number_item(&to, "counted_steps", (double)report->regular);
    dl_json_number_item(&to, "error_mean_frac", report->mean_error);
    dl_json_number_item(&to, "error_max_frac", report->worst_error);
    dl_json_number_item(&to, "error_of_sum_frac", report->total_error);
    dl_json_begin(&to, "critical_path_ns", '{');
    for (uint32_t what = 0; what < DL_PATH_END; what++)
        dl_json_number_item(&to, dl_path_name(what), report->path_ns[what]);
    dl_json_end(&to, '}');
    dl_json_begin(&to, "unexplained", '{');
    dl_json_number_item(&to, "works", (double)report->gaps.count);
    dl_json_number_item(&to, "total_ns", (double)report->gaps.total_ns);
    dl_json_number_item(&to, "longest_ns", (double)report->gaps.longest_ns);
    dl_json_number_item(&to, "share_frac", report->gaps.share);
    dl_json_end(&to, '}');
    dl_json_end(&to, '}');
}
