#include "trace/readers/kineto.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/readers/kineto_state.h"
#include "trace/readers/text_source.h"

/* No profiler is older: 10^18 ns are 2001-09-09. */
#define YEAR_2001_NS INT64_C(1000000000000000000)

/* JSON: an array or an object, maybe behind blanks. */
static bool recognises(const char *begin, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && isspace((unsigned char)begin[i]))
        i++;
    return i < bytes && (begin[i] == '{' || begin[i] == '[');
}

static void kineto_free(dl_kineto *kineto)
{
    dl_trace_builder_free(&kineto->builder);
    free(kineto->scratch);
    free(kineto->collective_of);
    free(kineto->collective_known);
    free(kineto->calls);
    free(kineto->waits);
    free(kineto->copies);
    free(kineto->other_category);
}

/* Whether times are of the clock by themselves, and count from no base that is yet to come. */
static bool is_absolute(const dl_trace *trace)
{
    return trace->activity_count > 0 && trace->activities[0].start_ns > YEAR_2001_NS;
}

static void note_text(dl_kineto *kineto, const dl_json_events_result *result)
{
    dl_trace *trace = &kineto->builder.trace;
    trace->complete = result->complete;
    trace->bytes_ignored = result->ignored;
    if (!result->complete) {
        dl_read_note(kineto->item,
                     "the text ends early, at byte %" PRIu64 ": all %" PRIu64
                     " whole events before it are read",
                     result->bytes, result->events);
        if (kineto->base_ns == 0 && !is_absolute(trace)) {
            dl_read_note(kineto->item, "the time that events count from stood behind them and is "
                                       "missing");
        }
    }
    if (result->replaced > 0) {
        dl_read_note(kineto->item, "%" PRIu64 " bytes that JSON forbids are replaced",
                     result->replaced);
    }
}

dl_status dl_kineto_read_text(dl_read_trace *item, const char *name, dl_json_source *read,
                              void *source, const dl_read_options *options, dl_error *err)
{
    dl_kineto kineto = {.item = item, .options = options, .rank = -1, .ranks = -1, .pid = -1};
    dl_json_events_result result = {0};
    const dl_json_events_spec spec = {
        .keys = dl_kineto_keys,
        .key_count = KEY_END,
        .event = dl_kineto_event,
        .member = dl_kineto_member,
        .context = &kineto,
    };
    dl_trace_builder_init(&kineto.builder, name);
    dl_status status = dl_json_events_read(&spec, read, source, &result, err);
    if (status == DL_OK) {
        note_text(&kineto, &result);
        dl_kineto_finish(&kineto);
        dl_trace_builder_finish(&kineto.builder, &item->trace);
    } else {
        const dl_error cause = *err;
        dl_error_set_at(err, status, name, 0, "%s", cause.text);
    }
    kineto_free(&kineto);
    return status;
}

static dl_status read_file(dl_read_traces *traces, const char *path, const dl_read_options *options,
                           dl_error *err)
{
    dl_text_source *source = NULL;
    dl_error closing = {0};
    bool cut = false;
    dl_status status = dl_text_source_open(&source, path, err);
    if (status != DL_OK) return status;
    dl_read_trace *item = dl_read_add(traces);
    status = dl_kineto_read_text(item, path, dl_text_source_read, source, options, err);
    dl_status closed = dl_text_source_close(source, &cut, &closing);
    if (closed != DL_OK) {
        /* What the file itself suffers from explains what is wrong with the text. */
        *err = closing;
        return closed;
    }
    if (status == DL_OK && cut) dl_read_note(item, "the packed file is cut");
    return status;
}

const dl_trace_reader dl_kineto_reader = {"kineto", "Chrome-trace JSON of PyTorch's profiler",
                                          recognises, read_file};
