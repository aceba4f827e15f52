#include <stdlib.h>

#include "common/alloc.h"
#include "common/json.h"
#include "profiler/run/run_traces.h"

static void text_or_null(dl_json *to, const char *name, const char *text)
{
    if (text != NULL) {
        dl_json_text_item(to, name, text);
    } else {
        dl_json_null_item(to, name);
    }
}

static void write_trace(const dl_run_process *process, dl_json *to)
{
    char *path = dl_format("%s" DL_RUN_TRACE_ENDING, process->stem);
    dl_json_text_item(to, "trace", path);
    free(path);
    dl_json_number_item(to, "bytes", (double)process->trace_bytes);
    text_or_null(to, "error", process->readable ? NULL : process->error.text);
    if (!process->readable) return;
    dl_json_bool_item(to, "complete", process->complete);
    text_or_null(to, "stopped", process->stopped);
    dl_json_number_item(to, "lost", (double)process->lost);
    dl_json_begin(to, "activities", '{');
    for (int kind = 1; kind < DL_ACTIVITY_KIND_END; kind++) {
        dl_json_number_item(to, dl_activity_kind_name((dl_activity_kind)kind),
                            (double)process->counts[kind]);
    }
    dl_json_end(to, '}');
    if (process->json == NULL) return;
    dl_json_item(to, "summary");
    fputs(process->json, to->out);
}

void dl_run_traces_write_json(const dl_run_traces *traces, FILE *out)
{
    dl_json json = {out, false}, *to = &json;
    dl_json_begin(to, NULL, '[');
    for (size_t i = 0; i < traces->count; i++) {
        const dl_run_process *process = &traces->processes[i];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "host", process->host);
        dl_json_number_item(to, "pid", (double)process->pid);
        if (process->rank >= 0) {
            dl_json_number_item(to, "rank", (double)process->rank);
        } else {
            dl_json_null_item(to, "rank");
        }
        if (process->has_trace) {
            write_trace(process, to);
        } else {
            dl_json_null_item(to, "trace");
        }
        text_or_null(to, "log", process->log);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}
