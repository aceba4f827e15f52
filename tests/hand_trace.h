/* Traces made by hand, in memory, for the tests of what reads traces. */
#ifndef DL_TESTS_HAND_TRACE_H
#define DL_TESTS_HAND_TRACE_H

#include "common/alloc.h"
#include "trace/dlt/dlt.h"

/* An empty, complete trace. */
static inline dl_trace hand_trace(void)
{
    dl_trace trace = {.path = dl_strdup("hand.dlt"), .complete = true, .string_count = 1};
    trace.strings = dl_calloc(1, sizeof *trace.strings, "test");
    trace.strings[0] = dl_strdup("");
    return trace;
}

/* Adds a name and returns its id. */
static inline uint32_t hand_name(dl_trace *trace, const char *name)
{
    trace->strings =
        dl_realloc(trace->strings, trace->string_count + 1, sizeof *trace->strings, "test");
    trace->strings[trace->string_count] = dl_strdup(name);
    return (uint32_t)trace->string_count++;
}

static inline void hand_meta(dl_trace *trace, const char *key, const char *value)
{
    trace->meta = dl_realloc(trace->meta, 2 * trace->meta_count + 2, sizeof *trace->meta, "test");
    trace->meta[2 * trace->meta_count] = dl_strdup(key);
    trace->meta[2 * trace->meta_count++ + 1] = dl_strdup(value);
}

/* Adds a record without staleness; the caller may change it until the next one is added. */
static inline dl_record *hand_record(dl_trace *trace, dl_record_kind kind, uint32_t worker,
                                     int64_t start_ns, int64_t duration_ns)
{
    size_t count = trace->record_count++;
    trace->records = dl_realloc(trace->records, count + 1, sizeof *trace->records, "test");
    trace->records[count] = (dl_record){.kind = kind,
                                        .worker = worker,
                                        .staleness = DL_NO_STALENESS,
                                        .start_ns = start_ns,
                                        .duration_ns = duration_ns};
    if (worker >= trace->worker_count) trace->worker_count = worker + 1;
    return &trace->records[count];
}

#endif
