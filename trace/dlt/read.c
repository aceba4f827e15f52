#include "trace/dlt/dlt.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/units.h"
#include "trace/dlt/codec.h"

/* A trace under construction. */
typedef struct reader {
    dl_trace trace;
    size_t record_capacity, activity_capacity, meta_capacity;
} reader;

/* Makes room for `more` objects after the first `count` in a block of *capacity objects: doubles
 * the block, or grows it to count + more if *capacity < more. */
static void *reserve(void *block, size_t *capacity, size_t count, size_t more, size_t size)
{
    if (*capacity - count >= more) return block;
    *capacity = *capacity < more ? count + more : 2 * *capacity;
    return dl_realloc(block, *capacity, size, "trace");
}

/* Number of NUL-terminated texts in `bytes` bytes; -1 if the last one is not terminated. */
static int64_t count_texts(const uint8_t *text, size_t bytes)
{
    int64_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\0';
    return bytes > 0 && text[bytes - 1] != '\0' ? -1 : count;
}

static void set_meta(reader *in, const char *key, const char *value)
{
    dl_trace *trace = &in->trace;
    for (size_t i = 0; i < trace->meta_count; i++) {
        if (strcmp(trace->meta[2 * i], key) == 0) {
            free(trace->meta[2 * i + 1]);
            trace->meta[2 * i + 1] = dl_strdup(value);
            return;
        }
    }
    trace->meta =
        reserve(trace->meta, &in->meta_capacity, trace->meta_count, 1, 2 * sizeof *trace->meta);
    trace->meta[2 * trace->meta_count] = dl_strdup(key);
    trace->meta[2 * trace->meta_count + 1] = dl_strdup(value);
    trace->meta_count++;
}

/* The take_ functions return whether the payload is valid; an invalid one changes nothing. */
static bool take_meta(reader *in, const uint8_t *payload, size_t bytes)
{
    int64_t texts = count_texts(payload, bytes);
    if (texts <= 0 || texts % 2 != 0) return false;
    const char *text = (const char *)payload;
    for (int64_t i = 0; i < texts; i += 2) {
        const char *value = text + strlen(text) + 1;
        set_meta(in, text, value);
        text = value + strlen(value) + 1;
    }
    return true;
}

static bool take_strings(reader *in, const uint8_t *payload, size_t bytes)
{
    dl_trace *trace = &in->trace;
    if (bytes < 4 || dl_dlt_get_u32(payload) != trace->string_count) return false;
    int64_t texts = count_texts(payload + 4, bytes - 4);
    if (texts < 0) return false;
    const char *text = (const char *)payload + 4;
    for (int64_t i = 0; i < texts; i++) {
        DL_APPEND(trace->strings, trace->string_count, "trace names") = dl_strdup(text);
        text += strlen(text) + 1;
    }
    return true;
}

static bool take_records(reader *in, const uint8_t *payload, size_t bytes)
{
    dl_trace *trace = &in->trace;
    if (bytes < 4) return false;
    uint32_t count = dl_dlt_get_u32(payload);
    if (count > (bytes - 4) / DL_DLT_RECORD_BYTES_MIN) return false;
    trace->records = reserve(trace->records, &in->record_capacity, trace->record_count, count,
                             sizeof *trace->records);
    const uint8_t *at = payload + 4;
    dl_dlt_previous previous = {0};
    uint32_t worker_count = trace->worker_count;
    for (uint32_t i = 0; i < count; i++) {
        dl_record *record = &trace->records[trace->record_count + i];
        at = dl_dlt_decode(at, payload + bytes, record, &previous);
        if (at == NULL || record->name >= trace->string_count) return false;
        if (record->worker >= worker_count) worker_count = record->worker + 1;
    }
    if (at != payload + bytes) return false;
    trace->record_count += count;
    trace->worker_count = worker_count;
    return true;
}

static bool take_activities(reader *in, const uint8_t *payload, size_t bytes)
{
    dl_trace *trace = &in->trace;
    if (bytes < 4) return false;
    uint32_t count = dl_dlt_get_u32(payload);
    if (count > (bytes - 4) / DL_ACTIVITY_BYTES_MIN) return false;
    trace->activities = reserve(trace->activities, &in->activity_capacity, trace->activity_count,
                                count, sizeof *trace->activities);
    const uint8_t *at = payload + 4;
    dl_activity_previous previous = {0};
    for (uint32_t i = 0; i < count; i++) {
        dl_activity *activity = &trace->activities[trace->activity_count + i];
        at = dl_activity_decode(at, payload + bytes, activity, &previous);
        if (at == NULL || activity->name >= trace->string_count ||
            activity->detail >= trace->string_count) {
            return false;
        }
    }
    if (at != payload + bytes) return false;
    trace->activity_count += count;
    return true;
}

static bool take_chunk(reader *in, uint32_t type, const uint8_t *payload, size_t bytes)
{
    switch (type) {
    case DL_DLT_META: return take_meta(in, payload, bytes);
    case DL_DLT_STRINGS: return take_strings(in, payload, bytes);
    case DL_DLT_RECORDS: return take_records(in, payload, bytes);
    case DL_DLT_ACTIVITIES: return take_activities(in, payload, bytes);
    case DL_DLT_END: return in->trace.complete = bytes == 0;
    default: return false;
    }
}

/* Processes chunks until END or the first truncated or damaged one; returns the bytes processed. */
static size_t take_chunks(reader *in, const uint8_t *data, size_t bytes)
{
    size_t taken = 0;
    while (!in->trace.complete && bytes - taken >= DL_DLT_CHUNK_HEADER_BYTES) {
        const uint8_t *chunk = data + taken;
        uint32_t payload_bytes = dl_dlt_get_u32(chunk + 4);
        if (payload_bytes > bytes - taken - DL_DLT_CHUNK_HEADER_BYTES) break;
        if (dl_dlt_get_u32(chunk + 8) != dl_dlt_chunk_crc(chunk, payload_bytes)) break;
        const uint8_t *payload = chunk + DL_DLT_CHUNK_HEADER_BYTES;
        if (!take_chunk(in, dl_dlt_get_u32(chunk), payload, payload_bytes)) break;
        taken += DL_DLT_CHUNK_HEADER_BYTES + (size_t)payload_bytes;
    }
    return taken;
}

static dl_status check_header(const char *name, const uint8_t *data, size_t bytes, dl_error *err)
{
    if (bytes < DL_DLT_HEADER_BYTES || memcmp(data, DL_DLT_MAGIC, DL_DLT_MAGIC_BYTES) != 0) {
        return dl_error_set_at(err, DL_ERR_FORMAT, name, 0,
                               "is not a .dlt trace of dlprof; those of PyTorch's profiler and "
                               "Nsight Systems are read by dlcal info and dlcal costs");
    }
    uint32_t version = dl_dlt_get_u32(data + DL_DLT_MAGIC_BYTES);
    uint32_t reserved = dl_dlt_get_u32(data + DL_DLT_MAGIC_BYTES + 4);
    if (version != DL_DLT_VERSION || reserved != 0) {
        return dl_error_set_at(err, DL_ERR_FORMAT, name, 0,
                               "trace version %u.%u; this program reads %d.0", version, reserved,
                               DL_DLT_VERSION);
    }
    return DL_OK;
}

dl_status dl_trace_read_bytes(dl_trace *trace, const char *name, const void *data, size_t bytes,
                              dl_error *err)
{
    dl_status status = check_header(name, data, bytes, err);
    if (status != DL_OK) return status;
    reader in = {.trace = {.path = dl_strdup(name)}};
    DL_APPEND(in.trace.strings, in.trace.string_count, "trace names") = dl_strdup("");
    bytes -= DL_DLT_HEADER_BYTES;
    size_t taken = take_chunks(&in, (const uint8_t *)data + DL_DLT_HEADER_BYTES, bytes);
    if (taken == 0) {
        dl_trace_free(&in.trace);
        return dl_error_set_at(err, DL_ERR_FORMAT, name, 0, "the trace has no whole chunk");
    }
    in.trace.bytes_ignored = bytes - taken;
    in.trace.late_ends = dl_activities_cut_late_ends(in.trace.activities, in.trace.activity_count,
                                                     &in.trace.late_worst_ns);
    *trace = in.trace;
    return DL_OK;
}

dl_status dl_trace_read(dl_trace *trace, const char *path, dl_error *err)
{
    DL_AUTOFREE char *data = NULL;
    size_t bytes = 0;
    dl_status status =
        dl_file_read_format(path, DL_DLT_MAGIC, DL_DLT_MAGIC_BYTES, &data, &bytes, err);
    if (status != DL_OK) return status;
    return dl_trace_read_bytes(trace, path, data, bytes, err);
}

void dl_trace_free(dl_trace *trace)
{
    for (size_t i = 0; i < trace->string_count; i++)
        free(trace->strings[i]);
    for (size_t i = 0; i < 2 * trace->meta_count; i++)
        free(trace->meta[i]);
    free(trace->strings);
    free(trace->meta);
    free(trace->records);
    free(trace->activities);
    free(trace->path);
    *trace = (dl_trace){0};
}

const char *dl_trace_meta(const dl_trace *trace, const char *key)
{
    for (size_t i = 0; i < trace->meta_count; i++) {
        if (strcmp(trace->meta[2 * i], key) == 0) return trace->meta[2 * i + 1];
    }
    return NULL;
}

const char *dl_trace_name(const dl_trace *trace, const dl_record *record)
{
    return record->name < trace->string_count ? trace->strings[record->name] : "";
}

const char *dl_trace_meta_text(const dl_trace *trace, const char *key)
{
    const char *value = dl_trace_meta(trace, key);
    return value != NULL ? value : "";
}

int64_t dl_trace_meta_int(const dl_trace *trace, const char *key, int64_t low, int64_t high,
                          int64_t fallback)
{
    const char *text = dl_trace_meta(trace, key);
    int64_t number;
    if (text == NULL || dl_parse_int(text, low, high, &number, NULL) != DL_OK) return fallback;
    return number;
}

dl_status dl_trace_meta_read_int(const dl_trace *trace, const char *key, int64_t fallback,
                                 int64_t *number, dl_error *err)
{
    const char *text = dl_trace_meta(trace, key);
    if (text == NULL) {
        *number = fallback;
        return DL_OK;
    }
    dl_error inner = {0};
    if (dl_parse_int(text, 0, INT64_MAX, number, &inner) == DL_OK) return DL_OK;
    return dl_error_set_at(err, DL_ERR_PARSE, trace->path, 0, "%s: %s", key, inner.text);
}
