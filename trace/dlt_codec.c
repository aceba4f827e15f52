#include "trace/dlt_codec.h"

#include <zlib.h>

#include "trace/varint.h"

enum {
    HAS_WORKER = 1,
    HAS_STEP = 2,
    HAS_SAMPLES = 4,
    HAS_NAME = 8,
    HAS_BYTES = 16,
    HAS_VECTORS = 32,
    HAS_STALENESS = 64,
    HAS_START = 128
};

int dl_dlt_valid(const dl_record *record)
{
    return record->kind >= DL_RECORD_STEP && record->kind <= DL_RECORD_BENCH &&
           (unsigned)record->phase <= DL_PHASE_PULL && record->worker < DL_WORKER_LIMIT &&
           record->staleness >= DL_NO_STALENESS && record->start_ns >= 0 &&
           record->duration_ns >= 0 && record->duration_ns <= INT64_MAX - record->start_ns;
}

uint8_t *dl_dlt_encode(uint8_t *out, const dl_record *record, dl_dlt_previous *previous)
{
    unsigned mask = 0;
    uint8_t *at = out + 2;
    if (record->worker != previous->worker) {
        mask |= HAS_WORKER;
        at = dl_put_difference(at, (int64_t)record->worker - previous->worker);
    }
    if (record->step != previous->step) {
        mask |= HAS_STEP;
        at = dl_put_difference(at, (int64_t)record->step - previous->step);
    }
    if (record->samples != previous->samples) {
        mask |= HAS_SAMPLES;
        at = dl_put_difference(at, (int64_t)record->samples - previous->samples);
    }
    if (record->name != 0) {
        mask |= HAS_NAME;
        at = dl_put_varint(at, record->name);
    }
    if (record->bytes != 0) {
        mask |= HAS_BYTES;
        at = dl_put_varint(at, record->bytes);
    }
    if ((record->vectors | record->threads) != 0) {
        mask |= HAS_VECTORS;
        at = dl_put_varint(at, record->vectors);
        at = dl_put_varint(at, record->threads);
    }
    if (record->staleness != DL_NO_STALENESS) {
        mask |= HAS_STALENESS;
        at = dl_put_varint(at, (uint64_t)record->staleness + 1);
    }
    if (record->start_ns != previous->end_ns) {
        mask |= HAS_START;
        at = dl_put_difference(at, record->start_ns - previous->end_ns);
    }
    at = dl_put_varint(at, (uint64_t)record->duration_ns);
    out[0] = (uint8_t)((unsigned)record->kind | (unsigned)record->phase << 4);
    out[1] = (uint8_t)mask;
    *previous = (dl_dlt_previous){record->worker, record->step, record->samples,
                                  record->start_ns + record->duration_ns};
    return at;
}

static void decode_fields(dl_cursor *in, unsigned mask, dl_record *record,
                          const dl_dlt_previous *previous)
{
    record->worker = previous->worker;
    record->step = previous->step;
    record->samples = previous->samples;
    record->staleness = DL_NO_STALENESS;
    record->start_ns = previous->end_ns;
    if (mask & HAS_WORKER) {
        record->worker = (uint32_t)dl_get_relative(in, previous->worker, DL_WORKER_LIMIT - 1);
    }
    if (mask & HAS_STEP) {
        record->step = (uint32_t)dl_get_relative(in, previous->step, UINT32_MAX);
    }
    if (mask & HAS_SAMPLES) {
        record->samples = (uint32_t)dl_get_relative(in, previous->samples, UINT32_MAX);
    }
    if (mask & HAS_NAME) {
        record->name = dl_get_u32_varint(in);
        in->failed |= record->name == 0;
    }
    if (mask & HAS_BYTES) record->bytes = dl_get_nonzero(in);
    if (mask & HAS_VECTORS) {
        record->vectors = dl_get_u32_varint(in);
        record->threads = dl_get_u32_varint(in);
        in->failed |= (record->vectors | record->threads) == 0;
    }
    if (mask & HAS_STALENESS) {
        uint64_t coded = dl_get_nonzero(in);
        in->failed |= coded > (uint64_t)INT64_MAX + 1;
        record->staleness = (int64_t)((coded - 1) & INT64_MAX);
    }
    if (mask & HAS_START) record->start_ns = dl_get_relative(in, previous->end_ns, INT64_MAX);
    record->duration_ns = dl_get_i64_varint(in);
}

const uint8_t *dl_dlt_decode(const uint8_t *at, const uint8_t *end, dl_record *record,
                             dl_dlt_previous *previous)
{
    if (end - at < DL_DLT_RECORD_BYTES_MIN) return NULL;
    dl_cursor in = {at + 2, end, false};
    *record = (dl_record){.kind = (dl_record_kind)(at[0] & 0x0F), .phase = (dl_phase)(at[0] >> 4)};
    decode_fields(&in, at[1], record, previous);
    if (in.failed || !dl_dlt_valid(record)) return NULL;
    *previous = (dl_dlt_previous){record->worker, record->step, record->samples,
                                  record->start_ns + record->duration_ns};
    return in.at;
}

void dl_dlt_put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

uint32_t dl_dlt_get_u32(const uint8_t *in)
{
    return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

uint32_t dl_dlt_chunk_crc(const uint8_t *chunk, uint32_t payload_bytes)
{
    uLong crc = crc32(0, chunk, 8);
    return (uint32_t)crc32(crc, chunk + DL_DLT_CHUNK_HEADER_BYTES, payload_bytes);
}

void dl_dlt_chunk_seal(uint8_t *chunk, dl_dlt_chunk type, uint32_t payload_bytes)
{
    dl_dlt_put_u32(chunk, (uint32_t)type);
    dl_dlt_put_u32(chunk + 4, payload_bytes);
    dl_dlt_put_u32(chunk + 8, dl_dlt_chunk_crc(chunk, payload_bytes));
}
