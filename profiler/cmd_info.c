/* dlprof info: summarises traces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/options.h"
#include "profiler/commands.h"
#include "trace/activity_summary.h"
#include "trace/summary.h"

typedef struct settings {
    bool json;
    int64_t top; /* rows of a table */
    dl_step_hints hints;
} settings;

/* The traces with their summaries of activities; a trace without any has a zeroed one. */
typedef struct info {
    dl_trace *traces;
    dl_activity_summary *summaries;
    size_t count;
    size_t written; /* objects of JSON, or blocks of text */
} info;

static void separate(info *all, bool json)
{
    if (all->written++ > 0) printf(json ? ",\n" : "\n");
}

static dl_status show_activities(info *all, const settings *set, dl_error *err)
{
    dl_trace *trace = &all->traces[all->count - 1];
    dl_activity_summary *summary = &all->summaries[all->count - 1];
    dl_activity_steps steps = {0};
    dl_status status =
        dl_activity_steps_init(&steps, trace->activities, trace->activity_count, trace->strings,
                               trace->string_count, &set->hints, err);
    if (status == DL_ERR_PARSE) {
        /* Only --step-marks is parsed here. */
        const dl_error cause = *err;
        return dl_error_set(err, DL_ERR_USAGE, "--step-marks: %s", cause.text);
    }
    if (status != DL_OK) return status;
    dl_activity_summary_init(summary, trace, &steps);
    dl_activity_steps_free(&steps);
    separate(all, set->json);
    if (set->json) {
        dl_activity_summary_write_json(summary, stdout);
    } else {
        dl_activity_summary_print(summary, (size_t)set->top, stdout);
    }
    /* Many ranks' activities need not lie in memory at once: nothing borrows them any more. */
    free(trace->activities);
    trace->activities = NULL;
    trace->activity_count = 0;
    return DL_OK;
}

static void show_records(info *all, const settings *set)
{
    dl_summary summary = {0};
    dl_summary_init(&summary, &all->traces[all->count - 1]);
    separate(all, set->json);
    if (set->json) {
        dl_summary_write_json(&summary, stdout);
    } else {
        dl_summary_print(&summary, stdout);
    }
    dl_summary_free(&summary);
}

/* One that was killed early may have left no activities. */
static bool is_recorded_program(const dl_trace *trace)
{
    const char *kind = dl_trace_meta(trace, "kind");
    return kind != NULL && strcmp(kind, "run") == 0;
}

/* A trace with both kinds gives two blocks. */
static dl_status show(info *all, const char *path, const settings *set, dl_error *err)
{
    dl_trace *trace = &all->traces[all->count];
    dl_status status = dl_trace_read(trace, path, err);
    if (status != DL_OK) return status;
    all->count++;
    bool activities = trace->activity_count > 0 || is_recorded_program(trace);
    if (activities) status = show_activities(all, set, err);
    if (status == DL_OK && (!activities || trace->record_count > 0)) show_records(all, set);
    return status;
}

static void compare(const info *all)
{
    size_t with_devices = 0;
    for (size_t i = 0; i < all->count; i++)
        with_devices += all->summaries[i].device_count > 0;
    if (with_devices < 2) return;
    putchar('\n');
    dl_activity_summaries_compare(all->summaries, all->count, stdout);
}

/* Several summaries in JSON are one array. */
static dl_status summarise(const dl_text_list *paths, const settings *set, dl_error *err)
{
    dl_status status = DL_OK;
    const bool array = set->json && paths->count > 1;
    info all = {.traces = dl_calloc(paths->count, sizeof *all.traces, "traces"),
                .summaries = dl_calloc(paths->count, sizeof *all.summaries, "summaries")};
    if (array) printf("[\n");
    for (size_t i = 0; status == DL_OK && i < paths->count; i++)
        status = show(&all, paths->items[i], set, err);
    if (array && status == DL_OK) printf("]\n");
    if (!set->json && status == DL_OK) compare(&all);
    for (size_t i = 0; i < all.count; i++) {
        dl_activity_summary_free(&all.summaries[i]);
        dl_trace_free(&all.traces[i]);
    }
    free(all.summaries);
    free(all.traces);
    if (status == DL_OK && (fflush(stdout) != 0 || ferror(stdout) != 0)) {
        status = dl_error_set(err, DL_ERR_IO, "cannot write the summary");
    }
    return status;
}

int dl_cmd_info(int argc, char **argv)
{
    settings set = {.top = 15};
    int64_t period = 0;
    const dl_option table[] = {
        {.name = "json",
         .type = DL_OPTION_FLAG,
         .target = &set.json,
         .help = "one JSON object, an array for several traces"},
        {.name = "top",
         .type = DL_OPTION_INT,
         .target = &set.top,
         .low = 1,
         .high = 1000000,
         .argument = "ROWS",
         .help = "kernels, collectives and calls to print; JSON holds all"},
        {.name = "step-marks",
         .type = DL_OPTION_TEXT,
         .target = &set.hints.marks,
         .argument = "REGEX",
         .help = "ranges and marks that are training steps, as an extended regular expression"},
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
        .summary = "Summarise traces. Of our own training: step times and where they go, samples a "
                   "second, copies, staleness; or the samples of a bench. Of a recorded program: "
                   "what its devices did with their time, steps, kernels, copies, collectives, "
                   "calls; several ranks beside one another.",
        .options = table,
        .option_count = sizeof table / sizeof table[0],
        .positional_min = 1,
        .positional_max = SIZE_MAX,
    };
    dl_text_list positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &positional, &action, &err);
    set.hints.period = (size_t)period;
    if (status == DL_OK && action == DL_OPTIONS_RUN) status = summarise(&positional, &set, &err);
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    dl_text_list_free(&positional);
    return dl_status_exit_code(status);
}
