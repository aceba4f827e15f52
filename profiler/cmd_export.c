/* dlprof export: traces as Chrome-trace JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "profiler/commands.h"
#include "trace/activity/export.h"
#include "trace/activity/steps.h"
#include "trace/training/summary.h"

/* The steps of one trace and their labels. */
typedef struct shown_steps {
    dl_activity_steps found;
    dl_export_line *lines; /* [found.count] */
} shown_steps;

/* "run.dlt" becomes "run.json"; another name gets ".json" after it. free() it. */
static char *default_output(const char *path)
{
    static const char ending[] = ".dlt";
    const size_t stem = strlen(path) - (dl_ends_with(path, ending) ? strlen(ending) : 0);
    return dl_format("%.*s.json", (int)stem, path);
}

/* Labels regular steps by their number in the line, from 0, and other steps by their kind. */
static dl_export_step *label_steps(const dl_step_line *line)
{
    dl_export_step *steps = dl_calloc(line->count, sizeof *steps, "steps");
    size_t regular = 0;
    for (size_t i = 0; i < line->count; i++) {
        const dl_activity_step *step = &line->steps[i];
        char *label = step->label == DL_STEP_REGULAR ? dl_format("step %zu", regular++)
                                                     : dl_strdup(dl_step_label_name(step->label));
        steps[i] = (dl_export_step){
            .start_ns = step->start_ns, .duration_ns = step->duration_ns, .label = label};
    }
    return steps;
}

static dl_status find_steps(shown_steps *shown, const dl_trace *trace, dl_error *err)
{
    const dl_step_hints none = {0};
    dl_status status = dl_activity_steps_init(&shown->found, trace, &none, err);
    if (status != DL_OK) return status;
    shown->lines = dl_calloc(shown->found.count, sizeof *shown->lines, "steps");
    for (size_t i = 0; i < shown->found.count; i++) {
        const dl_step_line *line = &shown->found.lines[i];
        shown->lines[i] = (dl_export_line){
            .name = line->device == DL_NO_DEVICE ? dl_strdup("steps")
                                                 : dl_format("GPU %u steps", line->device),
            .steps = label_steps(line),
            .count = line->count,
        };
    }
    return DL_OK;
}

static void free_steps(shown_steps *shown)
{
    for (size_t i = 0; shown->lines != NULL && i < shown->found.count; i++) {
        for (size_t s = 0; s < shown->lines[i].count; s++)
            free((char *)shown->lines[i].steps[s].label);
        free((dl_export_step *)shown->lines[i].steps);
        free((char *)shown->lines[i].name);
    }
    free(shown->lines);
    dl_activity_steps_free(&shown->found);
}

/* Exports all traces to one file, each as a process. */
static dl_status export_activities(const dl_trace *traces, size_t count, const char *output,
                                   dl_error *err)
{
    DL_AUTOFREE shown_steps *shown = dl_calloc(count, sizeof *shown, "steps");
    DL_AUTOFREE dl_export_process *processes = dl_calloc(count, sizeof *processes, "processes");
    dl_status status = DL_OK;
    size_t activities = 0;
    for (size_t i = 0; status == DL_OK && i < count; i++) {
        status = find_steps(&shown[i], &traces[i], err);
        processes[i] = (dl_export_process){
            .trace = &traces[i], .lines = shown[i].lines, .line_count = shown[i].found.count};
        activities += traces[i].activity_count;
    }
    if (status == DL_OK) status = dl_activity_export(processes, count, output, err);
    if (status == DL_OK) {
        printf("%s: %zu activities of %zu %s\n", output, activities, count,
               count == 1 ? "process" : "processes");
    }
    for (size_t i = 0; i < count; i++)
        free_steps(&shown[i]);
    return status;
}

static dl_status export_records(const dl_trace *trace, const char *output, dl_error *err)
{
    dl_status status = dl_trace_export(trace, output, err);
    if (status != DL_OK) return status;
    printf("%s: %zu records", output, trace->record_count);
    if (trace->activity_count > 0) printf(", without %zu activities", trace->activity_count);
    putchar('\n');
    return DL_OK;
}

/* A trace of dlprof train is exported alone: its clock and its workers differ from those of
 * recorded programs. */
static dl_status export_traces(const dl_trace *traces, size_t count, const char *output,
                               dl_error *err)
{
    if (count == 1 && (traces[0].record_count > 0 || traces[0].activity_count == 0)) {
        return export_records(&traces[0], output, err);
    }
    for (size_t i = 0; i < count; i++) {
        if (traces[i].record_count == 0) continue;
        return dl_error_set_at(err, DL_ERR_DATA, traces[i].path, 0,
                               "holds the records of a training run; export it alone");
    }
    return export_activities(traces, count, output, err);
}

/* `user` points to the output path, or to NULL. */
static dl_status read_and_export(const dl_text_list *paths, void *user, dl_error *err)
{
    const char *output = *(const char **)user;
    if (paths->count > 1 && output == NULL) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "several traces are written to one file: --output must name it");
    }
    DL_AUTOFREE dl_trace *traces = dl_calloc(paths->count, sizeof *traces, "traces");
    DL_AUTOFREE char *chosen = output != NULL ? dl_strdup(output) : default_output(paths->items[0]);
    const dl_file_role json = {"--output", chosen};
    dl_status status = dl_outputs_check_paths(&json, 1, "a trace", paths->items, paths->count, err);
    for (size_t i = 0; status == DL_OK && i < paths->count; i++)
        status = dl_trace_read(&traces[i], paths->items[i], err);
    if (status == DL_OK) status = export_traces(traces, paths->count, chosen, err);
    for (size_t i = 0; i < paths->count; i++)
        dl_trace_free(&traces[i]);
    return status;
}

int dl_cmd_export(int argc, char **argv)
{
    const char *output = NULL;
    const dl_option table[] = {{.name = "output",
                                .letter = 'o',
                                .type = DL_OPTION_TEXT,
                                .target = &output,
                                .argument = "FILE",
                                .help = "JSON file to write (default: the TRACE's name with "
                                        ".json; required for several traces)."}};
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Write traces as Chrome-trace JSON, for Perfetto and chrome://tracing: one "
                   "trace of dlprof train, or those of a recorded program's processes in one "
                   "file.",
        .options = table,
        .option_count = sizeof table / sizeof table[0],
        .positional_min = 1,
        .positional_max = SIZE_MAX,
    };
    return dl_command_main(&command, argc, argv, read_and_export, &output);
}
