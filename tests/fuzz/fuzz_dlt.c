/* The .dlt reader, and the functions that process its traces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/fuzz/fuzz_driver.h"
#include "trace/activity/export.h"
#include "trace/dlt/codec.h"
#include "trace/dlt/dlt.h"
#include "trace/training/summary.h"

/* Writes a seed: a trace with every kind of record, phase and field. */
static bool write_records(const char *path)
{
    dl_error err = {0};
    dl_trace_writer *writer = NULL;
    if (dl_trace_writer_open(&writer, path, &err) != DL_OK) return false;
    dl_trace_writer_meta(writer, "kind", "train");
    dl_trace_writer_meta(writer, "workers", "2");
    uint32_t conv1 = dl_trace_writer_intern(writer, "conv1");
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    for (int i = 0; i < 48; i++) {
        dl_record record = {.kind = (dl_record_kind)(1 + (i + 1) % 8),
                            .phase = (dl_phase)(i % 6),
                            .worker = (uint32_t)(i / 8 % 2),
                            .name = i % 3 == 0 ? conv1 : 0,
                            .step = (uint32_t)(i / 16),
                            .samples = (uint32_t)(i % 5 * 16),
                            .vectors = (uint32_t)(i % 4),
                            .threads = (uint32_t)(i % 2),
                            .bytes = (uint64_t)(i % 3) * 1000000,
                            .staleness = i % 7 == 0 ? i : DL_NO_STALENESS,
                            .start_ns = 1000 * i,
                            .duration_ns = 900};
        dl_trace_stream_append(stream, &record);
        if (i == 20) dl_trace_stream_flush(stream);
    }
    return dl_trace_writer_close(&writer, &err) == DL_OK;
}

/* Writes a seed: a trace with every kind of activity and every field, with two threads and two
 * streams. */
static bool write_activities(const char *path)
{
    dl_error err = {0};
    dl_trace_writer *writer = NULL;
    if (dl_trace_writer_open(&writer, path, &err) != DL_OK) return false;
    dl_trace_writer_meta(writer, "rank", "0");
    uint32_t name = dl_trace_writer_intern(writer, "gemm");
    dl_trace_stream *stream = dl_trace_writer_stream(writer);
    for (int i = 0; i < 65; i++) {
        dl_activity activity = {.kind = (uint8_t)(1 + i % (DL_ACTIVITY_KIND_END - 1)),
                                .copy = (uint8_t)(i % 4 == 1 ? i % DL_COPY_DIRECTION_END : 0),
                                .memory = (uint8_t)(i % 4 == 2 ? i % DL_HOST_MEMORY_END : 0),
                                .name = i % 3 > 0 ? name : 0,
                                .detail = i % 5 == 0 ? name : 0,
                                .device = (uint32_t)(i % 2),
                                .stream = (uint32_t)(7 + 6 * (i % 3 == 0)),
                                .thread = (uint32_t)(1000 + i % 2),
                                .correlation = (uint32_t)(i % 4 * i),
                                .peer = (uint32_t)(i % 7 == 0),
                                .count = (uint32_t)(i % 8 == 0),
                                .bytes = (uint64_t)(i % 3) * 1000000,
                                .object = i % 6 == 0 ? UINT64_MAX / 3 * (uint64_t)i : 0,
                                .start_ns = 1000 * i,
                                .duration_ns = 150 * (i % 14)};
        dl_trace_stream_append_activity(stream, &activity);
        if (i == 30) dl_trace_stream_flush(stream);
    }
    return dl_trace_writer_close(&writer, &err) == DL_OK;
}

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static bool (*const writers[])(const char *) = {write_records, write_activities};
    enum { SEEDS = sizeof writers / sizeof writers[0] };
    static dl_fuzz_seed made[SEEDS];
    for (int i = 0; i < SEEDS; i++) {
        char path[] = "fuzz_dlt_XXXXXX";
        int fd = mkstemp(path);
        if (fd < 0) return 0;
        close(fd);
        char *data = NULL;
        dl_error err = {0};
        bool read = writers[i](path) && dl_file_read(path, &data, &made[i].bytes, &err) == DL_OK;
        unlink(path);
        if (!read) return 0;
        made[i].data = data;
    }
    *seeds = made;
    return SEEDS;
}

/* The encoding of a record is unique: a decoded record is encoded to the same bytes. */
static void check_records(const uint8_t *at, const uint8_t *end)
{
    dl_dlt_previous decoding = {0}, coding = {0};
    dl_record record;
    const uint8_t *next;
    while ((next = dl_dlt_decode(at, end, &record, &decoding)) != NULL) {
        uint8_t coded[DL_DLT_RECORD_BYTES_MAX];
        size_t bytes = (size_t)(dl_dlt_encode(coded, &record, &coding) - coded);
        DL_ASSERT(bytes == (size_t)(next - at) && memcmp(coded, at, bytes) == 0,
                  "%zu bytes decoded, %zu coded", (size_t)(next - at), bytes);
        at = next;
    }
}

/* The encoding of an activity is unique too. */
static void check_activities(const uint8_t *at, const uint8_t *end)
{
    dl_activity_previous decoding = {0}, coding = {0};
    dl_activity activity;
    const uint8_t *next;
    while ((next = dl_activity_decode(at, end, &activity, &decoding)) != NULL) {
        uint8_t coded[DL_ACTIVITY_BYTES_MAX];
        size_t bytes = (size_t)(dl_activity_encode(coded, &activity, &coding) - coded);
        DL_ASSERT(bytes == (size_t)(next - at) && memcmp(coded, at, bytes) == 0,
                  "%zu bytes decoded, %zu coded", (size_t)(next - at), bytes);
        at = next;
    }
}

static void use(const uint8_t *data, size_t bytes, FILE *sink)
{
    dl_trace trace = {0};
    dl_error err = {0};
    if (dl_trace_read_bytes(&trace, "fuzz", data, bytes, &err) != DL_OK) return;
    DL_ASSERT(trace.record_count * DL_DLT_RECORD_BYTES_MIN <= bytes, "%zu records of %zu bytes",
              trace.record_count, bytes);
    DL_ASSERT(trace.activity_count * DL_ACTIVITY_BYTES_MIN <= bytes, "%zu activities of %zu bytes",
              trace.activity_count, bytes);
    dl_summary summary = {0};
    dl_summary_init(&summary, &trace);
    dl_summary_print(&summary, sink);
    dl_summary_write_json(&summary, sink);
    dl_summary_free(&summary);
    const dl_export_process process = {.trace = &trace};
    dl_status status = dl_activity_export(&process, 1, "/dev/null", &err);
    DL_ASSERT(status == DL_OK, "export: %s", err.text);
    dl_trace_free(&trace);
}

/* Corrects the checksums of all chunks, so that mutants get beyond them. */
static void seal_chunks(uint8_t *data, size_t bytes)
{
    size_t at = DL_DLT_HEADER_BYTES;
    while (bytes > at && bytes - at >= DL_DLT_CHUNK_HEADER_BYTES) {
        uint32_t payload_bytes = dl_dlt_get_u32(data + at + 4);
        if (payload_bytes > bytes - at - DL_DLT_CHUNK_HEADER_BYTES) return;
        dl_dlt_chunk_seal(data + at, (dl_dlt_chunk)dl_dlt_get_u32(data + at), payload_bytes);
        at += DL_DLT_CHUNK_HEADER_BYTES + (size_t)payload_bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static FILE *sink;
    if (sink == NULL) sink = fopen("/dev/null", "w");
    DL_ASSERT(sink != NULL, "no /dev/null");
    use(data, bytes, sink);
    uint8_t *sealed = dl_realloc(NULL, bytes, 1, "mutant");
    if (bytes > 0) memcpy(sealed, data, bytes);
    seal_chunks(sealed, bytes);
    use(sealed, bytes, sink);
    free(sealed);
    /* The first chunk of records or activities follows a seed's header, meta and names. */
    for (size_t at = 0; at < bytes && at < 160; at++) {
        check_records(data + at, data + bytes);
        check_activities(data + at, data + bytes);
    }
    return 0;
}
