#include "trace/training/summary.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/chrome_trace.h"

enum { PID = 1, ARGS_MAX = 5, NAME_BYTES = 160 };

static int step_track(uint32_t worker)
{
    return (int)(2 * worker + 1);
}

static int part_track(uint32_t worker)
{
    return (int)(2 * worker + 2);
}

static const char *category_of(dl_record_kind kind)
{
    switch (kind) {
    case DL_RECORD_STEP: return "user_annotation";
    case DL_RECORD_COMPUTE: return "cpu_op";
    case DL_RECORD_COPY: return "memcpy";
    default: return dl_record_kind_name(kind);
    }
}

/* Formats the record's title into text[NAME_BYTES]; a longer title is truncated. */
static void title_of(char *text, const dl_trace *trace, const dl_record *record)
{
    const char *name = dl_trace_name(trace, record);
    const char *phase = dl_phase_name(record->phase);
    bool phased = record->phase != DL_PHASE_NONE;
    if (name[0] == '\0') name = dl_record_kind_name(record->kind);
    if (record->kind == DL_RECORD_STEP) {
        snprintf(text, NAME_BYTES, "step %u", record->step);
    } else if (record->kind == DL_RECORD_COPY && phased) {
        snprintf(text, NAME_BYTES, "%s", phase);
    } else {
        snprintf(text, NAME_BYTES, "%s%s%s", name, phased ? "." : "", phased ? phase : "");
    }
}

static int add_arg(dl_chrome_arg *args, int count, const char *key, double value)
{
    if (value > 0) args[count++] = (dl_chrome_arg){.key = key, .number = value};
    return count;
}

static void write_record(dl_chrome_trace *out, const dl_trace *trace, const dl_record *record,
                         int64_t origin_ns)
{
    char title[NAME_BYTES];
    title_of(title, trace, record);
    bool is_step = record->kind == DL_RECORD_STEP;
    bool stale = is_step && record->staleness != DL_NO_STALENESS;
    dl_chrome_arg args[ARGS_MAX];
    int count = add_arg(args, 0, "bytes", (double)record->bytes);
    count = add_arg(args, count, "samples", record->samples);
    count = add_arg(args, count, "vectors", record->vectors);
    count = add_arg(args, count, "threads", record->threads);
    /* 0 is a valid staleness and is therefore written. */
    if (stale) {
        args[count++] = (dl_chrome_arg){.key = "staleness", .number = (double)record->staleness};
    }
    int track = is_step ? step_track(record->worker) : part_track(record->worker);
    int64_t start_ns = record->start_ns - origin_ns;
    dl_chrome_trace_slice(out, PID, track, category_of(record->kind), title, start_ns,
                          record->duration_ns, args, count);
    if (stale) {
        snprintf(title, sizeof title, "staleness %u", record->worker);
        dl_chrome_trace_counter(out, PID, title, start_ns + record->duration_ns,
                                (double)record->staleness);
    }
}

/* Names the process from the known parts, e.g. "lenet, average, 2 workers". */
static void name_process(dl_chrome_trace *out, const dl_trace *trace)
{
    const char *model = dl_trace_meta(trace, "model"), *sync = dl_trace_meta(trace, "sync");
    const char *workers = dl_trace_meta(trace, "workers");
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s%s%s%s%s", model != NULL ? model : trace->path,
             sync != NULL ? ", " : "", sync != NULL ? sync : "", workers != NULL ? ", " : "",
             workers != NULL ? workers : "", workers != NULL ? " workers" : "");
    dl_chrome_trace_process(out, PID, name);
}

/* Names the tracks of `worker` that have records; bits of `tracks`: 1 steps, 2 parts. */
static void name_worker(dl_chrome_trace *out, uint32_t worker, unsigned tracks)
{
    char name[32];
    snprintf(name, sizeof name, "worker %u steps", worker);
    if (tracks & 1) dl_chrome_trace_thread(out, PID, step_track(worker), name);
    snprintf(name, sizeof name, "worker %u", worker);
    if (tracks & 2) dl_chrome_trace_thread(out, PID, part_track(worker), name);
}

dl_status dl_trace_export(const dl_trace *trace, const char *path, dl_error *err)
{
    dl_chrome_trace out = {0};
    dl_status status = dl_chrome_trace_open(&out, path, err);
    if (status != DL_OK) return status;
    DL_AUTOFREE unsigned char *tracks = dl_calloc(trace->worker_count, 1, "tracks");
    int64_t origin_ns = INT64_MAX;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        if (record->start_ns < origin_ns) origin_ns = record->start_ns;
        tracks[record->worker] |= record->kind == DL_RECORD_STEP ? 1 : 2;
    }
    name_process(&out, trace);
    for (uint32_t w = 0; w < trace->worker_count; w++)
        name_worker(&out, w, tracks[w]);
    for (size_t i = 0; i < trace->record_count; i++) {
        write_record(&out, trace, &trace->records[i], origin_ns);
    }
    return dl_chrome_trace_close(&out, err);
}
