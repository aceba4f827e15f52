#include "calibrate/commands.h"

#include <stdlib.h>

#include "calibrate/replay/collectives.h"
#include "calibrate/replay/external.h"
#include "calibrate/replay/recorded_step.h"
#include "calibrate/replay/report.h"
#include "calibrate/replay/step_costs.h"
#include "calibrate/trace_inputs.h"
#include "common/alloc.h"
#include "common/output.h"
#include "common/units.h"

#define PROGRAM "dlcal replay"

typedef struct settings {
    bool json, brief, together;
    int64_t steps; /* maximum number of steps to print */
    dl_text_list without, scale;
    int external; /* dl_external */
    const char *timeline, *step;
    int64_t batch; /* samples per step; 0: not given */
    dl_step_hints hints;
    dl_read_options read;
} settings;

/* A replay of one process, or of several ranks of one run; owns all members except the traces. */
typedef struct replay {
    dl_replay_run run;
    dl_activity_steps *steps; /* [rank_count of the run] */
    dl_replay_time *times;
    dl_replay_report report;
} replay;

static void replay_free(replay *r)
{
    dl_replay_report_free(&r->report);
    for (size_t i = 0; i < r->run.rank_count && r->steps != NULL; i++)
        dl_activity_steps_free(&r->steps[i]);
    free(r->steps);
    dl_replay_run_free(&r->run);
    free(r->times);
    *r = (replay){0};
}

/* Scales one kind of task; prints a message if the run has none. */
static dl_status scale(dl_replay_run *run, const char *what, double factor, dl_error *err)
{
    size_t changed = 0;
    const dl_status status = dl_replay_scale(run, what, factor, &changed, err);
    if (status == DL_OK && changed == 0) {
        fprintf(stderr, PROGRAM ": %s: it has no '%s', so nothing changes\n",
                run->ranks[0].trace->path, what);
    }
    return status;
}

static dl_status scale_all(dl_replay_run *run, const settings *set, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t i = 0; i < set->without.count && status == DL_OK; i++)
        status = scale(run, set->without.items[i], 0, err);
    for (size_t i = 0; i < set->scale.count && status == DL_OK; i++) {
        DL_AUTOFREE char *what = NULL;
        double factor;
        status = dl_replay_parse_scale(set->scale.items[i], &what, &factor, err);
        if (status == DL_OK) status = scale(run, what, factor, err);
    }
    return status;
}

/* Replays the run unchanged, then with the settings' changes. */
static dl_status run_replay(replay *r, const settings *set, dl_error *err)
{
    r->times = dl_calloc(r->run.graph.node_count, sizeof *r->times, "replay");
    dl_status status = dl_replay_simulate(&r->run.graph, r->times, err);
    if (status != DL_OK) return status;
    dl_replay_report_init(&r->report, &r->run, r->steps, r->times);
    if (set->without.count + set->scale.count == 0) return DL_OK;
    status = scale_all(&r->run, set, err);
    if (status == DL_OK) status = dl_replay_simulate(&r->run.graph, r->times, err);
    if (status == DL_OK) dl_replay_report_change(&r->report, r->steps, r->times);
    return status;
}

static dl_status find_steps(replay *r, const settings *set, dl_error *err)
{
    r->steps = dl_calloc(r->run.rank_count, sizeof *r->steps, "steps");
    dl_status status = DL_OK;
    for (size_t i = 0; i < r->run.rank_count && status == DL_OK; i++) {
        const dl_trace *trace = r->run.ranks[i].trace;
        status = dl_activity_steps_init(&r->steps[i], trace, &set->hints, err);
    }
    return status;
}

/* Makes each collective end simultaneously on all ranks. Its duration is the recorded time from the
 * last rank's start to the end of the collective. */
static void join_collectives(dl_replay_run *run)
{
    DL_SCOPED(dl_instances) instances = {0};
    dl_instances_find(&instances, run);
    for (size_t i = 0; i < instances.count; i++) {
        const dl_instance *m = &instances.instances[i];
        int64_t ns = m->end_ns > m->last_ns ? m->end_ns - m->last_ns : 0;
        dl_replay_graph_add_group(&run->graph, m->nodes, run->rank_count, ns);
    }
}

/* Prints, for each device, that steps accumulate the gradients of several passes. */
static void print_passes(const dl_trace *trace, const dl_activity_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        const dl_step_line *line = &steps->lines[i];
        DL_SCOPED(dl_step_phases) phases = {0};
        if (line->regular_count == 0 || line->device == DL_NO_DEVICE) continue;
        dl_step_phases_find(&phases, trace, line);
        if (phases.passes > 1) {
            printf("device %u: a step accumulates the gradients of %zu passes (micro-batches)\n",
                   line->device, phases.passes);
        }
    }
}

static void show(const replay *r, const settings *set, bool *follows)
{
    if (*follows && !set->brief) printf(set->json ? ",\n" : "\n");
    if (!*follows && set->brief) dl_replay_report_print_heading(stdout);
    *follows = true;
    if (set->json) {
        dl_replay_report_write_json(&r->report, stdout);
    } else if (set->brief) {
        dl_replay_report_print_line(&r->report, stdout);
    } else {
        for (size_t i = 0; i < r->run.rank_count; i++)
            printf("%s\n", r->run.ranks[i].trace->path);
        dl_replay_report_print(&r->report, (size_t)set->steps, stdout);
        for (size_t i = 0; i < r->run.rank_count; i++)
            print_passes(r->run.ranks[i].trace, &r->steps[i]);
    }
}

/* Writes the step without collectives, for use in another simulation. */
static dl_status write_step(replay *r, const settings *set, dl_error *err)
{
    const dl_trace *trace = r->run.ranks[0].trace;
    const int64_t shown = dl_trace_meta_int(trace, DL_META_SAMPLES, 1, INT32_MAX, 0);
    const int64_t batch = set->batch > 0 ? set->batch : shown;
    DL_SCOPED(dl_replay_report) replayed = {0};
    double step_ns;
    if (batch == 0)
        return dl_error_set_at(
            err, DL_ERR_USAGE, trace->path, 0,
            "--step: the trace does not show the number of samples per step: give --batch");
    dl_status status = dl_replay_scale(&r->run, "collective", 0, NULL, err);
    if (status == DL_OK) status = dl_replay_simulate(&r->run.graph, r->times, err);
    if (status != DL_OK) return status;
    dl_replay_report_init(&replayed, &r->run, r->steps, r->times);
    status = dl_recorded_step_write(set->step, &r->run, &r->steps[0], &replayed.steps, r->times,
                                    batch, &step_ns, err);
    if (status == DL_OK && !set->json)
        printf("%s: a step of %s without collectives\n", set->step, DL_NS_TEXT(step_ns));
    return status;
}

/* Replays the traces as one run. */
static dl_status replay_traces(const dl_trace *const *traces, size_t count, const settings *set,
                               bool *follows, dl_error *err)
{
    DL_SCOPED(replay) r = {0};
    dl_status status = dl_replay_build(&r.run, traces, count, err);
    if (status == DL_OK) status = find_steps(&r, set, err);
    if (status == DL_OK) dl_external_use(&r.run, (dl_external)set->external);
    if (status == DL_OK && count > 1) join_collectives(&r.run);
    if (status == DL_OK) status = run_replay(&r, set, err);
    if (status == DL_OK) show(&r, set, follows);
    if (status == DL_OK && set->timeline != NULL)
        status = dl_replay_timeline_write(set->timeline, &r.run, r.times, err);
    if (status == DL_OK && set->step != NULL) status = write_step(&r, set, err);
    return status;
}

static dl_status replay_together(const dl_text_list *paths, const settings *set, bool *follows,
                                 dl_error *err)
{
    DL_SCOPED(dl_trace_inputs) in = {0};
    dl_status status = DL_OK;
    for (size_t i = 0; i < paths->count && status == DL_OK; i++)
        status = dl_trace_inputs_read(&in, paths->items[i], &set->read, PROGRAM, err);
    if (status == DL_OK && in.count < 2)
        status = dl_error_set(err, DL_ERR_USAGE, "--together needs at least two ranks, not %zu",
                              in.count);
    dl_notes_print(&in.notes, "", PROGRAM ": ", stderr);
    if (status == DL_OK) status = dl_trace_inputs_align(&in, err);
    if (status == DL_OK)
        status = replay_traces((const dl_trace *const *)in.traces, in.count, set, follows, err);
    return status;
}

static dl_status replay_one_by_one(const char *path, const settings *set, bool *follows,
                                   dl_error *err)
{
    DL_SCOPED(dl_trace_inputs) in = {0};
    dl_status status = dl_trace_inputs_read(&in, path, &set->read, PROGRAM, err);
    dl_notes_print(&in.notes, "", PROGRAM ": ", stderr);
    if (status == DL_OK && (set->timeline != NULL || set->step != NULL) && in.count > 1)
        status = dl_error_set_at(err, DL_ERR_USAGE, path, 0,
                                 "%s writes one replay, the file holds %zu processes",
                                 set->timeline != NULL ? "--timeline" : "--step", in.count);
    for (size_t i = 0; i < in.count && status == DL_OK; i++) {
        const dl_trace *trace = in.traces[i];
        status = replay_traces(&trace, 1, set, follows, err);
    }
    return status;
}

static dl_status check(const dl_text_list *paths, const settings *set, dl_error *err)
{
    if (set->timeline != NULL && paths->count > 1 && !set->together)
        return dl_error_set(err, DL_ERR_USAGE, "--timeline writes one replay, not %zu",
                            paths->count);
    if (set->step != NULL && (paths->count > 1 || set->together))
        return dl_error_set(err, DL_ERR_USAGE, "--step writes a step of one trace");
    if (set->step == NULL && set->batch > 0)
        return dl_error_set(err, DL_ERR_USAGE, "--batch needs --step");
    if (set->brief && set->json)
        return dl_error_set(err, DL_ERR_USAGE, "--brief cannot be combined with --json");
    const dl_file_role outputs[] = {{"--timeline", set->timeline}, {"--step", set->step}};
    return dl_outputs_check_paths(outputs, 2, "a trace", paths->items, paths->count, err);
}

static dl_status replay_files(const dl_text_list *paths, void *user, dl_error *err)
{
    settings *set = user;
    bool follows = false;
    dl_status status = check(paths, set, err);
    if (status != DL_OK) return status;
    if (set->json) printf("[\n");
    if (set->together) status = replay_together(paths, set, &follows, err);
    for (size_t i = 0; i < paths->count && status == DL_OK && !set->together; i++)
        status = replay_one_by_one(paths->items[i], set, &follows, err);
    if (set->json) printf("\n]\n"); /* after a failure, closes the array of the earlier replays */
    if (!follows && status == DL_OK)
        status = dl_error_set(err, DL_ERR_DATA, "no trace has GPU operations");
    return status;
}

int dl_calibrate_replay(int argc, char **argv)
{
    settings set = {.steps = 40};
    const dl_option options[] = {
        DL_OPT_LIST("without", 0, &set.without, "CLASS",
                    "Also replay with this class taking no time: host, call, external, launch, "
                    "spacing, kernel, collective, copy, memset, a class of kernels (gemm, "
                    "convolution, ...), or all kernels and calls whose name contains the text.",
                    .group = "What if"),
        DL_OPT_LIST("scale", 0, &set.scale, "CLASS=FACTOR",
                    "Also replay with this class taking FACTOR times as long."),
        DL_OPT_CHOICE("external", 0, &set.external, dl_external_names, "WHICH",
                      "Waits for events outside the trace that the replay keeps: threads, only the "
                      "waits of the host's threads (the devices' then appear as errors); keep, "
                      "all; remove, none."),
        DL_OPT_TEXT("timeline", 0, &set.timeline, "FILE",
                    "Write the replay, with the requested changes, as Chrome-trace JSON.",
                    .group = "Output"),
        DL_OPT_TEXT(
            "step", 0, &set.step, "FILE",
            "Write the median step, without its collectives, for dlsim's [workload] trace."),
        DL_OPT_INT("batch", 0, &set.batch, 1, INT32_MAX, "SAMPLES",
                   "Number of samples per step in --step (default: from the trace)."),
        DL_OPT_FLAG("json", 0, &set.json, "Print an array of JSON objects, one per process."),
        DL_OPT_FLAG("brief", 0, &set.brief,
                    "Print one line per process: error, critical path, unexplained time."),
        DL_OPT_FLAG("together", 0, &set.together,
                    "The processes are ranks of one run: collectives end for all after the last "
                    "one arrives.",
                    .group = "Reading traces"),
        DL_OPT_INT("steps", 0, &set.steps, 1, 1000000, "ROWS",
                   "Number of steps to print; JSON holds all.", .group = "Output"),
    };
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Simulate the steps of traces (Kineto JSON, Nsight SQLite, .dlt): recorded "
                   "starts are discarded, durations and dependencies kept. Print each step as "
                   "recorded and as replayed, its critical path, and the time that the "
                   "dependencies leave unexplained. Answer what-if questions.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_min = 1,
        .positional_max = SIZE_MAX,
    };
    const int exit_status =
        dl_trace_command_main(&command, argc, argv, replay_files, &set, &set.read, &set.hints);
    dl_text_list_free(&set.without);
    dl_text_list_free(&set.scale);
    return exit_status;
}
