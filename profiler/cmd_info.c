/* dlprof info: summarizes traces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "common/options.h"
#include "profiler/commands.h"
#include "trace/activity/summary.h"
#include "trace/readers/reader.h"
#include "trace/training/summary.h"

/* The traces and their summaries of activities, zeroed for traces without activities. */
typedef struct info {
    dl_trace *traces;
    dl_activity_summary *summaries;
    size_t count;
    size_t written; /* number of JSON objects, or of text blocks */
    bool array;     /* the JSON objects are in an array */
} info;

static void separate(info *all, bool json)
{
    if (all->written == 0 && all->array) printf("[\n");
    if (all->written++ > 0) printf(json ? ",\n" : "\n");
}

static dl_status show_activities(info *all, const dl_info_settings *set, dl_error *err)
{
    dl_trace *trace = &all->traces[all->count - 1];
    dl_activity_summary *summary = &all->summaries[all->count - 1];
    const dl_status status = dl_info_summarise(summary, trace, set, err);
    if (status != DL_OK) return status;
    separate(all, set->json);
    if (set->json) {
        dl_activity_summary_write_json(summary, stdout);
    } else {
        dl_activity_summary_print(summary, (size_t)set->top, stdout);
    }
    dl_info_let_go(trace);
    return DL_OK;
}

static void show_records(info *all, const dl_info_settings *set)
{
    DL_SCOPED(dl_summary) summary = {0};
    dl_summary_init(&summary, &all->traces[all->count - 1]);
    separate(all, set->json);
    if (set->json) {
        dl_summary_write_json(&summary, stdout);
    } else {
        dl_summary_print(&summary, stdout);
    }
}

/* Decided by the meta data: a program killed early may have left no activities. */
static bool is_recorded_program(const dl_trace *trace)
{
    const char *kind = dl_trace_meta(trace, "kind");
    return kind != NULL && strcmp(kind, "run") == 0;
}

/* Shows one trace; a trace with activities and records gives two blocks. */
static dl_status show(info *all, const char *path, const dl_info_settings *set, dl_error *err)
{
    dl_trace *trace = &all->traces[all->count];
    dl_status status = dl_trace_read(trace, path, err);
    if (status != DL_OK) return status;
    all->count++;
    bool activities = trace->activity_count > 0 || is_recorded_program(trace);
    if (activities && trace->record_count > 0) all->array = set->json;
    if (activities) status = show_activities(all, set, err);
    if (status == DL_OK && (!activities || trace->record_count > 0)) show_records(all, set);
    return status;
}

/* Lists the given files, and the traces in the given folders. */
static dl_status list_files(dl_trace_folder *files, const dl_text_list *given, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t i = 0; i < given->count && status == DL_OK; i++) {
        struct stat kind;
        if (stat(given->items[i], &kind) == 0 && S_ISDIR(kind.st_mode)) {
            status = dl_trace_folder_list(files, given->items[i], err);
        } else {
            DL_APPEND(files->files, files->count, "traces") = dl_strdup(given->items[i]);
        }
    }
    return status;
}

/* Several JSON summaries form one array; a failure ends it early. */
static dl_status summarise(const dl_text_list *given, void *user, dl_error *err)
{
    const dl_info_settings *set = user;
    DL_SCOPED(dl_trace_folder) files = {0};
    dl_status status = list_files(&files, given, err);
    const dl_trace_folder *paths = &files;
    info all = {.array = set->json && paths->count > 1,
                .traces = dl_calloc(paths->count + 1, sizeof *all.traces, "traces"),
                .summaries = dl_calloc(paths->count + 1, sizeof *all.summaries, "summaries")};
    for (size_t i = 0; status == DL_OK && i < paths->count; i++)
        status = show(&all, paths->files[i], set, err);
    if (all.array) printf(all.written > 0 ? "]\n" : "[\n]\n");
    if (!set->json && status == DL_OK)
        dl_activity_summaries_compare(all.summaries, all.count, stdout);
    for (size_t i = 0; i < all.count; i++) {
        dl_activity_summary_free(&all.summaries[i]);
        dl_trace_free(&all.traces[i]);
    }
    free(all.summaries);
    free(all.traces);
    return status;
}

int dl_cmd_info(int argc, char **argv)
{
    dl_info_settings set = dl_info_settings_default();
    dl_option table[DL_INFO_OPTION_COUNT];
    dl_info_options(&set, "Print a JSON object; for several traces an array.", table);
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Summarize traces. For dlprof train: step times and their parts, samples per "
                   "second, copies, staleness; for dlprof bench: its measurements. For a "
                   "recorded program: where its devices' time went, steps, kernels, copies, "
                   "collectives, calls; several ranks side by side.",
        .options = table,
        .option_count = DL_INFO_OPTION_COUNT,
        .positional_min = 1,
        .positional_max = SIZE_MAX,
    };
    return dl_command_main(&command, argc, argv, summarise, &set);
}
