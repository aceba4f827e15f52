/* The .dlt reader and everything that works on what it read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/file.h"
#include "tests/fuzz/fuzz_driver.h"
#include "trace/dlt.h"
#include "trace/dlt_codec.h"
#include "trace/summary.h"

/* Writes one of the seeds: a trace with every kind of record, phase and field. */
static bool write_seed(const char *path)
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

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static dl_fuzz_seed seed;
    char path[] = "fuzz_dlt_XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) return 0;
    close(fd);
    char *data = NULL;
    dl_error err = {0};
    bool made = write_seed(path) && dl_file_read(path, &data, &seed.bytes, &err) == DL_OK;
    unlink(path);
    seed.data = data;
    *seeds = &seed;
    return made ? 1 : 0;
}

/* There is one coding of a record: what was decoded codes to the same bytes. */
static void check_one_coding(const uint8_t *at, const uint8_t *end)
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

static void use(const uint8_t *data, size_t bytes, FILE *sink)
{
    dl_trace trace = {0};
    dl_error err = {0};
    if (dl_trace_read_bytes(&trace, "fuzz", data, bytes, &err) != DL_OK) return;
    DL_ASSERT(trace.record_count * DL_DLT_RECORD_BYTES_MIN <= bytes, "%zu records of %zu bytes",
              trace.record_count, bytes);
    dl_summary summary = {0};
    dl_summary_init(&summary, &trace);
    dl_summary_print(&summary, sink);
    dl_summary_write_json(&summary, sink);
    dl_summary_free(&summary);
    dl_trace_free(&trace);
}

/* Makes the checksums of all chunks right, so that mutants get beyond them. */
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
    /* Behind the seed's header, meta and names lies its first chunk of records. */
    for (size_t at = 0; at < bytes && at < 160; at++)
        check_one_coding(data + at, data + bytes);
    return 0;
}
