/* dlprof info: summarises traces. */
#include <stdio.h>

#include "common/options.h"
#include "profiler/commands.h"
#include "trace/summary.h"

/* Several summaries in JSON are one array. */
static dl_status summarise(const dl_text_list *paths, bool json, dl_error *err)
{
    dl_status status = DL_OK;
    const bool array = json && paths->count > 1;
    if (array) printf("[\n");
    for (size_t i = 0; status == DL_OK && i < paths->count; i++) {
        dl_trace trace = {0};
        status = dl_trace_read(&trace, paths->items[i], err);
        if (status != DL_OK) break;
        dl_summary summary = {0};
        dl_summary_init(&summary, &trace);
        if (i > 0) printf(array ? ",\n" : "\n");
        if (json) {
            dl_summary_write_json(&summary, stdout);
        } else {
            dl_summary_print(&summary, stdout);
        }
        dl_summary_free(&summary);
        dl_trace_free(&trace);
    }
    if (array && status == DL_OK) printf("]\n");
    if (status == DL_OK && (fflush(stdout) != 0 || ferror(stdout) != 0)) {
        status = dl_error_set(err, DL_ERR_IO, "cannot write the summary");
    }
    return status;
}

int dl_cmd_info(int argc, char **argv)
{
    bool json = false;
    const dl_option table[] = {{.name = "json",
                                .type = DL_OPTION_FLAG,
                                .target = &json,
                                .help = "one JSON object, an array for several traces"}};
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE...",
        .summary = "Summarise traces: step times and where they go, samples a second, copies, "
                   "staleness; or the samples of a bench.",
        .options = table,
        .option_count = sizeof table / sizeof table[0],
        .positional_min = 1,
        .positional_max = SIZE_MAX,
    };
    dl_text_list positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &positional, &action, &err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) status = summarise(&positional, json, &err);
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    dl_text_list_free(&positional);
    return dl_status_exit_code(status);
}
