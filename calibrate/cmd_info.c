#include "calibrate/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "calibrate/trace_inputs.h"
#include "common/alloc.h"
#include "common/json.h"
#include "common/options.h"
#include "common/rows.h"
#include "trace/activity/rank_clock.h"
#include "trace/activity/summary.h"
#include "trace/print.h"

typedef struct settings {
    dl_info_settings info;
    bool clocks; /* compare the ranks' clocks */
    dl_read_options read;
} settings;

/* All files; the summaries borrow from their traces. */
typedef struct info {
    dl_read_traces *files;
    size_t file_count;
    dl_activity_summary *summaries;
    size_t summary_count;
} info;

static void write_json(const dl_read_traces *file, const dl_read_trace *item,
                       const dl_activity_summary *summary)
{
    dl_json json = {stdout, false}, *to = &json;
    dl_json_begin(to, NULL, '{');
    dl_json_members(to, "file=%s reader=%s", item->trace.path, file->reader);
    dl_notes_write_json(to, "notes", &item->notes);
    dl_json_item(to, "summary");
    dl_activity_summary_write_json(summary, stdout);
    dl_json_end(to, '}');
    printf("\n");
}

static void print(const dl_read_traces *file, const dl_read_trace *item,
                  const dl_activity_summary *summary, size_t top)
{
    dl_activity_summary_print(summary, top, stdout);
    printf("\nread as %s\n", file->reader);
    dl_notes_print(&item->notes, "", "note: ", stdout);
}

static dl_status show_process(info *all, dl_read_traces *file, dl_read_trace *item,
                              const settings *set, dl_error *err)
{
    dl_trace *trace = &item->trace;
    dl_activity_summary *summary = &DL_APPEND(all->summaries, all->summary_count, "summaries");
    *summary = (dl_activity_summary){0};
    const dl_status status = dl_info_summarise(summary, trace, &set->info, err);
    if (status != DL_OK) return status;
    if (all->summary_count > 1) printf(set->info.json ? ",\n" : "\n");
    if (set->info.json) {
        write_json(file, item, summary);
    } else {
        print(file, item, summary, (size_t)set->info.top);
    }
    if (!set->clocks) dl_info_let_go(trace);
    return DL_OK;
}

static dl_status show_file(info *all, const char *path, const settings *set, dl_error *err)
{
    dl_read_traces *file = &all->files[all->file_count];
    dl_status status = dl_read(file, path, &set->read, err);
    if (status != DL_OK) return status;
    all->file_count++;
    for (size_t i = 0; i < file->count && status == DL_OK; i++) {
        dl_read_trace *item = &file->items[i];
        if (item->trace.activity_count == 0 && item->trace.record_count > 0) {
            return dl_error_set_at(err, DL_ERR_DATA, path, 0,
                                   "it is a recording of dlprof train: see dlprof info");
        }
        status = show_process(all, file, item, set, err);
    }
    return status;
}

static dl_status show_clocks(const info *all, dl_error *err)
{
    if (all->summary_count < 2)
        return dl_error_set(err, DL_ERR_USAGE, "--clocks needs at least two ranks");
    DL_AUTOFREE const dl_trace **traces = dl_calloc(all->summary_count, sizeof *traces, "traces");
    DL_AUTOFREE dl_rank_clock *clocks = dl_calloc(all->summary_count, sizeof *clocks, "clocks");
    for (size_t i = 0; i < all->summary_count; i++)
        traces[i] = all->summaries[i].trace;
    dl_status status = dl_rank_clocks_find(clocks, traces, all->summary_count, err);
    dl_rows to = {.out = stdout};
    dl_rows_begin(
        &to, NULL,
        "clock offsets from the first trace's: value to add; bounds; remaining spread of ends");
    for (size_t i = 0; i < all->summary_count && status == DL_OK; i++) {
        const dl_rank_clock *c = &clocks[i];
        dl_rows_add(&to,
                    "|rank=%-s |offset=%+gns |low=%+gns |high=%+gns |spread=%gns |collectives=%zu",
                    all->summaries[i].rank, (double)c->offset_ns, (double)c->low_ns,
                    (double)c->high_ns, (double)c->spread_ns, c->matched);
    }
    dl_rows_end(&to, 0);
    return status;
}

/* Writes the summaries. The JSON output is an array, as a file may hold several processes; after a
 * failure the array ends with the earlier ones. */
static dl_status summarise(const dl_text_list *paths, void *user, dl_error *err)
{
    const settings *set = user;
    if (set->info.json && set->clocks) {
        return dl_error_set(err, DL_ERR_USAGE, "--clocks cannot be combined with --json");
    }
    dl_status status = DL_OK;
    info all = {.files = dl_calloc(paths->count, sizeof *all.files, "traces")};
    if (set->info.json) printf("[\n");
    for (size_t i = 0; status == DL_OK && i < paths->count; i++)
        status = show_file(&all, paths->items[i], set, err);
    if (set->info.json) printf("]\n");
    if (!set->info.json && status == DL_OK)
        dl_activity_summaries_compare(all.summaries, all.summary_count, stdout);
    if (set->clocks && status == DL_OK) status = show_clocks(&all, err);
    for (size_t i = 0; i < all.summary_count; i++)
        dl_activity_summary_free(&all.summaries[i]);
    for (size_t i = 0; i < all.file_count; i++)
        dl_read_free(&all.files[i]);
    free(all.summaries);
    free(all.files);
    return status;
}

int dl_calibrate_info(int argc, char **argv)
{
    settings set = {.info = dl_info_settings_default()};
    dl_option options[DL_INFO_OPTION_COUNT + 1];
    dl_info_options(&set.info, "Print an array of JSON objects, one per process.", options);
    options[DL_INFO_OPTION_COUNT] = (dl_option)DL_OPT_FLAG(
        "clocks", 0, &set.clocks,
        "Also compare the ranks' clocks by the ends of their collectives (no JSON).",
        .group = "Output");
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Summarize traces of other profilers: PyTorch's (Kineto) Chrome-trace JSON, "
                   "also gzipped or several in a .tar, Nsight Systems' SQLite exports, and .dlt: "
                   "where the devices' time went, steps, kernels, copies, collectives by size, "
                   "gaps of the trace, several ranks side by side.",
        .options = options,
        .option_count = DL_LENGTH(options),
        .positional_min = 1,
        .positional_max = SIZE_MAX,
    };
    return dl_trace_command_main(&command, argc, argv, summarise, &set, &set.read, NULL);
}
