#include "calibrate/cmd_replay.h"

#include <stdlib.h>

#include "calibrate/replay/report.h"
#include "calibrate/replay/timeline.h"
#include "calibrate/replay/what_if.h"
#include "common/alloc.h"
#include "common/json.h"
#include "common/options.h"
#include "trace/readers/reader.h"

typedef struct settings {
    bool json;
    int64_t steps; /* rows to print */
    dl_text_list without, scale;
    const char *timeline;
    dl_step_hints hints;
} settings;

/* One process's replay; owns all but the trace. */
typedef struct replay {
    dl_replay_run run;
    dl_activity_steps steps;
    dl_replay_time *times;
    dl_replay_report report;
} replay;

static void replay_free(replay *r)
{
    dl_replay_report_free(&r->report);
    dl_activity_steps_free(&r->steps);
    dl_replay_run_free(&r->run);
    free(r->times);
    *r = (replay){0};
}

static dl_status scale_all(dl_replay_run *run, const settings *set, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t i = 0; i < set->without.count && status == DL_OK; i++)
        status = dl_replay_scale(run, set->without.items[i], 0, NULL, err);
    for (size_t i = 0; i < set->scale.count && status == DL_OK; i++) {
        char *what = NULL;
        double factor;
        status = dl_replay_parse_scale(set->scale.items[i], &what, &factor, err);
        if (status == DL_OK) status = dl_replay_scale(run, what, factor, NULL, err);
        free(what);
    }
    return status;
}

/* Replays the run unchanged, then as the settings want it changed. */
static dl_status run_replay(replay *r, const settings *set, dl_error *err)
{
    r->times = dl_calloc(r->run.graph.node_count, sizeof *r->times, "replay");
    dl_status status = dl_replay_retime(&r->run.graph, r->times, err);
    if (status != DL_OK) return status;
    dl_replay_report_init(&r->report, &r->run, &r->steps, r->times);
    if (set->without.count + set->scale.count == 0) return DL_OK;
    status = scale_all(&r->run, set, err);
    if (status == DL_OK) status = dl_replay_retime(&r->run.graph, r->times, err);
    if (status == DL_OK) dl_replay_report_change(&r->report, &r->steps, r->times);
    return status;
}

static dl_status find_steps(replay *r, const dl_trace *trace, const settings *set, dl_error *err)
{
    dl_status status =
        dl_activity_steps_init(&r->steps, trace->activities, trace->activity_count, trace->strings,
                               trace->string_count, &set->hints, err);
    if (status != DL_ERR_PARSE) return status;
    const dl_error cause = *err;
    return dl_error_set(err, DL_ERR_USAGE, "--step-marks: %s", cause.text);
}

static bool has_work(const dl_trace *trace)
{
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (dl_activity_is_device_work(&trace->activities[i])) return true;
    }
    return false;
}

/* A process without work of a device is passed over with a message. */
static dl_status replay_process(const dl_read_trace *item, const settings *set, bool *follows,
                                dl_error *err)
{
    const dl_trace *trace = &item->trace;
    if (!has_work(trace)) {
        fprintf(stderr, "dlcal replay: %s: it holds no work of a device: nothing to replay\n",
                trace->path);
        return DL_OK;
    }
    replay r = {0};
    dl_status status = dl_replay_build(&r.run, &trace, 1, err);
    if (status == DL_OK) status = find_steps(&r, trace, set, err);
    if (status == DL_OK) status = run_replay(&r, set, err);
    if (status == DL_OK) {
        if (*follows) printf(set->json ? ",\n" : "\n");
        *follows = true;
        if (set->json) {
            dl_replay_report_write_json(&r.report, stdout);
        } else {
            printf("%s\n", trace->path);
            dl_replay_report_print(&r.report, (size_t)set->steps, stdout);
        }
    }
    if (status == DL_OK && set->timeline != NULL)
        status = dl_replay_timeline_write(set->timeline, &r.run, r.times, err);
    replay_free(&r);
    return status;
}

static dl_status replay_file(const char *path, const settings *set, bool *follows, dl_error *err)
{
    dl_read_traces file = {0};
    const dl_read_options options = {0};
    dl_status status = dl_read(&file, path, &options, err);
    if (status == DL_OK && set->timeline != NULL && file.count > 1) {
        status = dl_error_set_at(err, DL_ERR_USAGE, path, 0,
                                 "--timeline writes one process, the file holds %zu", file.count);
    }
    for (size_t i = 0; i < file.count && status == DL_OK; i++)
        status = replay_process(&file.items[i], set, follows, err);
    dl_read_free(&file);
    return status;
}

static dl_status replay_files(const dl_text_list *paths, const settings *set, dl_error *err)
{
    dl_status status = DL_OK;
    bool follows = false;
    if (set->timeline != NULL && paths->count > 1)
        return dl_error_set(err, DL_ERR_USAGE, "--timeline writes one trace");
    if (set->json) printf("[\n");
    for (size_t i = 0; i < paths->count && status == DL_OK; i++)
        status = replay_file(paths->items[i], set, &follows, err);
    if (set->json && status == DL_OK) printf("\n]\n");
    if (!follows && status == DL_OK)
        status = dl_error_set(err, DL_ERR_DATA, "no trace holds work of a device");
    if (status == DL_OK && (fflush(stdout) != 0 || ferror(stdout) != 0))
        status = dl_error_set(err, DL_ERR_IO, "cannot write the report");
    return status;
}

int dl_calibrate_replay(int argc, char **argv)
{
    settings set = {.steps = 40};
    int64_t period = 0;
    dl_text_list paths = {0};
    const dl_option options[] = {
        {.name = "without",
         .type = DL_OPTION_LIST,
         .target = &set.without,
         .argument = "CLASS",
         .help = "also replay with these taking no time: host, call, launch, spacing, kernel, "
                 "collective, copy, memset, a class of kernels (gemm, convolution, ...), or all "
                 "kernels and calls whose name holds the text; may be given several times"},
        {.name = "scale",
         .type = DL_OPTION_LIST,
         .target = &set.scale,
         .argument = "CLASS=FACTOR",
         .help = "also replay with these taking FACTOR times as long; may be given several times"},
        {.name = "timeline",
         .type = DL_OPTION_TEXT,
         .target = &set.timeline,
         .argument = "FILE",
         .help = "write the replay, changed if that was wanted, as Chrome-trace JSON"},
        {.name = "json",
         .type = DL_OPTION_FLAG,
         .target = &set.json,
         .help = "an array of JSON objects, one a process"},
        {.name = "steps",
         .type = DL_OPTION_INT,
         .target = &set.steps,
         .low = 1,
         .high = 1000000,
         .argument = "ROWS",
         .help = "steps to print; JSON holds all"},
        {.name = "step-marks",
         .type = DL_OPTION_TEXT,
         .target = &set.hints.marks,
         .argument = "REGEX",
         .help = "ranges that are training steps, as an extended regular expression"},
        {.name = "step-period",
         .type = DL_OPTION_INT,
         .target = &period,
         .low = 0,
         .high = UINT32_MAX,
         .argument = "COUNT",
         .help = "kernels, copies and graph launches of a training step; 0 = find out"},
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Re-times traces (Kineto JSON, Nsight SQLite, .dlt) through the simulator: "
                   "recorded starts are thrown away, durations and dependencies kept. Prints each "
                   "step as recorded and as replayed, what lies on its critical path, and what "
                   "the dependencies leave unexplained. Answers what-if questions.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .positional_min = 1,
        .positional_max = SIZE_MAX,
    };
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &paths, &action, &err);
    set.hints.period = (size_t)period;
    if (status == DL_OK && action == DL_OPTIONS_RUN) status = replay_files(&paths, &set, &err);
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    dl_text_list_free(&set.without);
    dl_text_list_free(&set.scale);
    dl_text_list_free(&paths);
    return dl_status_exit_code(status);
}
