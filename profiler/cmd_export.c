/* dlprof export: a trace as Chrome-trace JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/options.h"
#include "profiler/commands.h"
#include "trace/export.h"

/* "run.dlt" becomes "run.json"; another name gets ".json" behind it. free() it. */
static char *default_output(const char *path)
{
    static const char ending[] = ".dlt";
    const size_t length = strlen(path), ending_length = strlen(ending);
    size_t stem = length;
    if (length > ending_length && strcmp(path + length - ending_length, ending) == 0) {
        stem -= ending_length;
    }
    return dl_format("%.*s.json", (int)stem, path);
}

static dl_status export_trace(const char *path, const char *output, dl_error *err)
{
    dl_trace trace = {0};
    dl_status status = dl_trace_read(&trace, path, err);
    if (status != DL_OK) return status;
    char *chosen = output != NULL ? dl_strdup(output) : default_output(path);
    status = dl_trace_export(&trace, chosen, err);
    if (status == DL_OK) printf("%s: %zu records\n", chosen, trace.record_count);
    free(chosen);
    dl_trace_free(&trace);
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
                                .help = "the JSON to write; TRACE with .json if not given"}};
    const dl_command command = {
        .program = argv[0],
        .positional = "TRACE",
        .summary = "Write a trace as Chrome-trace JSON, for Perfetto and chrome://tracing.",
        .options = table,
        .option_count = sizeof table / sizeof table[0],
        .positional_min = 1,
        .positional_max = 1,
    };
    dl_text_list positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    dl_status status = dl_options_parse(&command, argc, argv, &positional, &action, &err);
    if (status == DL_OK && action == DL_OPTIONS_RUN) {
        status = export_trace(positional.items[0], output, &err);
    }
    if (status != DL_OK) dl_error_print(&err, argv[0], stderr);
    dl_text_list_free(&positional);
    return dl_status_exit_code(status);
}
