#include "trace/dlt/codec.h"

#include <stdbool.h>
#include <zlib.h>

/* Encoding of numbers in .dlt files: LEB128 varints (7 bits per byte, low bits first); differences
 * are zigzag-coded first. Strict: a number has exactly one encoding, so the reader fails on a last
 * byte of zero and on bits beyond 64.
 *
 * Inline because a record consists of only a few numbers. */

/* Appends at most 10 bytes; returns the position after them. */
static inline uint8_t *put_varint(uint8_t *out, uint64_t value)
{
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

/* Appends a zigzag-coded difference: 0, -1, 1, -2, ... -> 0, 1, 2, 3, ... */
static inline uint8_t *put_difference(uint8_t *out, int64_t difference)
{
    uint64_t sign = difference < 0 ? UINT64_MAX : 0;
    return put_varint(out, ((uint64_t)difference << 1) ^ sign);
}

/* Bytes still to be decoded. `failed` stays set after an unreadable number; later results of the
 * get functions are then invalid. */
typedef struct cursor {
    const uint8_t *at, *end;
    bool failed;
} cursor;

static inline uint64_t get_varint(cursor *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; in->at < in->end && shift < 64; shift += 7) {
        uint8_t byte = *in->at++;
        if (shift == 63 && byte > 1) break;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            /* A last byte of zero would be a second encoding of the same number. */
            in->failed |= byte == 0 && shift > 0;
            return value;
        }
    }
    in->failed = true;
    return 0;
}

static inline uint64_t get_nonzero(cursor *in)
{
    uint64_t value = get_varint(in);
    in->failed |= value == 0;
    return value;
}

static inline uint32_t get_u32_varint(cursor *in)
{
    uint64_t value = get_varint(in);
    in->failed |= value > UINT32_MAX;
    return (uint32_t)value;
}

static inline int64_t get_i64_varint(cursor *in)
{
    uint64_t value = get_varint(in);
    in->failed |= value > INT64_MAX;
    return (int64_t)(value & INT64_MAX);
}

/* Reads a difference of any size, including 0. */
static inline int64_t get_difference(cursor *in)
{
    uint64_t coded = get_varint(in);
    return (int64_t)(coded >> 1) ^ -(int64_t)(coded & 1);
}

/* Returns base plus a non-zero difference, where 0 <= base <= high; fails outside 0 .. high. */
static inline int64_t get_relative(cursor *in, int64_t base, int64_t high)
{
    int64_t difference = get_difference(in);
    if (difference == 0 || difference > high - base || difference < -base) {
        in->failed = true;
        return base;
    }
    return base + difference;
}

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
        at = put_difference(at, (int64_t)record->worker - previous->worker);
    }
    if (record->step != previous->step) {
        mask |= HAS_STEP;
        at = put_difference(at, (int64_t)record->step - previous->step);
    }
    if (record->samples != previous->samples) {
        mask |= HAS_SAMPLES;
        at = put_difference(at, (int64_t)record->samples - previous->samples);
    }
    if (record->name != 0) {
        mask |= HAS_NAME;
        at = put_varint(at, record->name);
    }
    if (record->bytes != 0) {
        mask |= HAS_BYTES;
        at = put_varint(at, record->bytes);
    }
    if ((record->vectors | record->threads) != 0) {
        mask |= HAS_VECTORS;
        at = put_varint(at, record->vectors);
        at = put_varint(at, record->threads);
    }
    if (record->staleness != DL_NO_STALENESS) {
        mask |= HAS_STALENESS;
        at = put_varint(at, (uint64_t)record->staleness + 1);
    }
    if (record->start_ns != previous->end_ns) {
        mask |= HAS_START;
        at = put_difference(at, record->start_ns - previous->end_ns);
    }
    at = put_varint(at, (uint64_t)record->duration_ns);
    out[0] = (uint8_t)((unsigned)record->kind | (unsigned)record->phase << 4);
    out[1] = (uint8_t)mask;
    *previous = (dl_dlt_previous){record->worker, record->step, record->samples,
                                  record->start_ns + record->duration_ns};
    return at;
}

static void decode_fields(cursor *in, unsigned mask, dl_record *record,
                          const dl_dlt_previous *previous)
{
    record->worker = previous->worker;
    record->step = previous->step;
    record->samples = previous->samples;
    record->staleness = DL_NO_STALENESS;
    record->start_ns = previous->end_ns;
    if (mask & HAS_WORKER) {
        record->worker = (uint32_t)get_relative(in, previous->worker, DL_WORKER_LIMIT - 1);
    }
    if (mask & HAS_STEP) {
        record->step = (uint32_t)get_relative(in, previous->step, UINT32_MAX);
    }
    if (mask & HAS_SAMPLES) {
        record->samples = (uint32_t)get_relative(in, previous->samples, UINT32_MAX);
    }
    if (mask & HAS_NAME) {
        record->name = get_u32_varint(in);
        in->failed |= record->name == 0;
    }
    if (mask & HAS_BYTES) record->bytes = get_nonzero(in);
    if (mask & HAS_VECTORS) {
        record->vectors = get_u32_varint(in);
        record->threads = get_u32_varint(in);
        in->failed |= (record->vectors | record->threads) == 0;
    }
    if (mask & HAS_STALENESS) {
        uint64_t coded = get_nonzero(in);
        in->failed |= coded > (uint64_t)INT64_MAX + 1;
        record->staleness = (int64_t)((coded - 1) & INT64_MAX);
    }
    if (mask & HAS_START) record->start_ns = get_relative(in, previous->end_ns, INT64_MAX);
    record->duration_ns = get_i64_varint(in);
}

const uint8_t *dl_dlt_decode(const uint8_t *at, const uint8_t *end, dl_record *record,
                             dl_dlt_previous *previous)
{
    if (end - at < DL_DLT_RECORD_BYTES_MIN) return NULL;
    cursor in = {at + 2, end, false};
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

enum {
    ACTIVITY_HAS_NAME = 1,
    HAS_DETAIL = 2,
    HAS_CORRELATION = 4,
    HAS_THREAD = 8,
    HAS_STREAM = 16,
    HAS_OBJECT = 32,
    ACTIVITY_HAS_BYTES = 64,
    ACTIVITY_HAS_START = 128
};

/* Second mask byte. */
enum { HAS_DEVICE = 1, HAS_MEMORY = 2, HAS_PEER = 4, HAS_COUNT = 8, MORE_FIELDS = 15 };

enum { KIND_BITS = 0x0F, COPY_SHIFT = 4, COPY_BITS = 7, MORE = 0x80 };

static void remember(dl_activity_previous *previous, const dl_activity *activity)
{
    int class = dl_activity_is_device_work(activity);
    previous->classes[class].end_ns = activity->start_ns + activity->duration_ns;
    if (activity->object != 0) previous->classes[class].object = activity->object;
    if (activity->correlation != 0) previous->classes[class].correlation = activity->correlation;
    previous->kinds[activity->kind].device = activity->device;
    previous->kinds[activity->kind].stream = activity->stream;
    previous->kinds[activity->kind].thread = activity->thread;
}

static unsigned mask_of(const dl_activity *activity, const dl_activity_previous *previous)
{
    int class = dl_activity_is_device_work(activity);
    unsigned mask = 0;
    if (activity->name != 0) mask |= ACTIVITY_HAS_NAME;
    if (activity->detail != 0) mask |= HAS_DETAIL;
    if (activity->correlation != 0) mask |= HAS_CORRELATION;
    if (activity->thread != previous->kinds[activity->kind].thread) mask |= HAS_THREAD;
    if (activity->stream != previous->kinds[activity->kind].stream) mask |= HAS_STREAM;
    if (activity->object != 0) mask |= HAS_OBJECT;
    if (activity->bytes != 0) mask |= ACTIVITY_HAS_BYTES;
    if (activity->start_ns != previous->classes[class].end_ns) mask |= ACTIVITY_HAS_START;
    return mask;
}

static unsigned more_of(const dl_activity *activity, const dl_activity_previous *previous)
{
    unsigned more = 0;
    if (activity->device != previous->kinds[activity->kind].device) more |= HAS_DEVICE;
    if (activity->memory != 0) more |= HAS_MEMORY;
    if (activity->peer != 0) more |= HAS_PEER;
    if (activity->count != 0) more |= HAS_COUNT;
    return more;
}

/* Appends the fields of the first mask byte. */
static uint8_t *put_fields(uint8_t *at, unsigned mask, const dl_activity *activity,
                           const dl_activity_previous *previous)
{
    int class = dl_activity_is_device_work(activity);
    if (mask & ACTIVITY_HAS_NAME) at = put_varint(at, activity->name);
    if (mask & HAS_DETAIL) at = put_varint(at, activity->detail);
    if (mask & HAS_CORRELATION) {
        uint32_t difference = activity->correlation - previous->classes[class].correlation;
        at = put_difference(at, (int32_t)difference);
    }
    if (mask & HAS_THREAD) {
        at = put_difference(at, (int64_t)activity->thread - previous->kinds[activity->kind].thread);
    }
    if (mask & HAS_STREAM) {
        at = put_difference(at, (int64_t)activity->stream - previous->kinds[activity->kind].stream);
    }
    if (mask & HAS_OBJECT) {
        uint64_t difference = activity->object - previous->classes[class].object;
        at = put_difference(at, (int64_t)difference);
    }
    if (mask & ACTIVITY_HAS_BYTES) at = put_varint(at, activity->bytes);
    if (mask & ACTIVITY_HAS_START) {
        at = put_difference(at, activity->start_ns - previous->classes[class].end_ns);
    }
    return at;
}

uint8_t *dl_activity_encode(uint8_t *out, const dl_activity *activity,
                            dl_activity_previous *previous)
{
    unsigned mask = mask_of(activity, previous), more = more_of(activity, previous);
    uint8_t *at = out + 2;
    out[0] = (uint8_t)(activity->kind | activity->copy << COPY_SHIFT | (more != 0 ? MORE : 0));
    out[1] = (uint8_t)mask;
    if (more != 0) *at++ = (uint8_t)more;
    at = put_fields(at, mask, activity, previous);
    if (more & HAS_DEVICE) {
        at = put_difference(at, (int64_t)activity->device - previous->kinds[activity->kind].device);
    }
    if (more & HAS_MEMORY) *at++ = activity->memory;
    if (more & HAS_PEER) at = put_varint(at, activity->peer);
    if (more & HAS_COUNT) at = put_varint(at, activity->count);
    at = put_varint(at, (uint64_t)activity->duration_ns);
    remember(previous, activity);
    return at;
}

static uint32_t get_nonzero_u32(cursor *in)
{
    uint32_t value = get_u32_varint(in);
    in->failed |= value == 0;
    return value;
}

/* A difference modulo 2^32 has one valid encoding: the smallest. */
static uint32_t get_correlation(cursor *in, uint32_t base)
{
    int64_t difference = get_difference(in);
    uint32_t correlation = base + (uint32_t)difference;
    in->failed |= difference != (int32_t)difference || correlation == 0;
    return correlation;
}

static void get_fields(cursor *in, unsigned mask, dl_activity *activity,
                       const dl_activity_previous *previous)
{
    int class = dl_activity_is_device_work(activity);
    if (mask & ACTIVITY_HAS_NAME) activity->name = get_nonzero_u32(in);
    if (mask & HAS_DETAIL) activity->detail = get_nonzero_u32(in);
    if (mask & HAS_CORRELATION) {
        activity->correlation = get_correlation(in, previous->classes[class].correlation);
    }
    if (mask & HAS_THREAD) {
        activity->thread = (uint32_t)get_relative(in, activity->thread, UINT32_MAX);
    }
    if (mask & HAS_STREAM) {
        activity->stream = (uint32_t)get_relative(in, activity->stream, UINT32_MAX);
    }
    if (mask & HAS_OBJECT) {
        activity->object = previous->classes[class].object + (uint64_t)get_difference(in);
        in->failed |= activity->object == 0;
    }
    if (mask & ACTIVITY_HAS_BYTES) activity->bytes = get_nonzero(in);
    if (mask & ACTIVITY_HAS_START) {
        activity->start_ns = get_relative(in, activity->start_ns, INT64_MAX);
    }
}

static void get_more_fields(cursor *in, unsigned more, dl_activity *activity)
{
    if (more & HAS_DEVICE) {
        activity->device = (uint32_t)get_relative(in, activity->device, UINT32_MAX);
    }
    if (more & HAS_MEMORY) {
        uint64_t memory = get_nonzero(in);
        in->failed |= memory >= DL_HOST_MEMORY_END;
        activity->memory = (uint8_t)memory;
    }
    if (more & HAS_PEER) activity->peer = get_nonzero_u32(in);
    if (more & HAS_COUNT) activity->count = get_nonzero_u32(in);
}

const uint8_t *dl_activity_decode(const uint8_t *at, const uint8_t *end, dl_activity *activity,
                                  dl_activity_previous *previous)
{
    if (end - at < DL_ACTIVITY_BYTES_MIN) return NULL;
    unsigned kind = at[0] & KIND_BITS, mask = at[1], more = 0;
    if (kind == 0 || kind >= DL_ACTIVITY_KIND_END) return NULL;
    cursor in = {at + 2, end, false};
    if (at[0] & MORE) {
        more = *in.at++;
        if (more == 0 || more > MORE_FIELDS) return NULL;
    }
    *activity = (dl_activity){.kind = (uint8_t)kind,
                              .copy = at[0] >> COPY_SHIFT & COPY_BITS,
                              .device = previous->kinds[kind].device,
                              .stream = previous->kinds[kind].stream,
                              .thread = previous->kinds[kind].thread};
    activity->start_ns = previous->classes[dl_activity_is_device_work(activity)].end_ns;
    get_fields(&in, mask, activity, previous);
    if (more != 0) get_more_fields(&in, more, activity);
    activity->duration_ns = get_i64_varint(&in);
    if (in.failed || !dl_activity_valid(activity)) return NULL;
    remember(previous, activity);
    return in.at;
}
