#include "trace/activity/activity_codec.h"

#include <stddef.h>

#include "trace/varint.h"

enum {
    HAS_NAME = 1,
    HAS_DETAIL = 2,
    HAS_CORRELATION = 4,
    HAS_THREAD = 8,
    HAS_STREAM = 16,
    HAS_OBJECT = 32,
    HAS_BYTES = 64,
    HAS_START = 128
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
    if (activity->name != 0) mask |= HAS_NAME;
    if (activity->detail != 0) mask |= HAS_DETAIL;
    if (activity->correlation != 0) mask |= HAS_CORRELATION;
    if (activity->thread != previous->kinds[activity->kind].thread) mask |= HAS_THREAD;
    if (activity->stream != previous->kinds[activity->kind].stream) mask |= HAS_STREAM;
    if (activity->object != 0) mask |= HAS_OBJECT;
    if (activity->bytes != 0) mask |= HAS_BYTES;
    if (activity->start_ns != previous->classes[class].end_ns) mask |= HAS_START;
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

/* The fields of the first mask byte. */
static uint8_t *put_fields(uint8_t *at, unsigned mask, const dl_activity *activity,
                           const dl_activity_previous *previous)
{
    int class = dl_activity_is_device_work(activity);
    if (mask & HAS_NAME) at = dl_put_varint(at, activity->name);
    if (mask & HAS_DETAIL) at = dl_put_varint(at, activity->detail);
    if (mask & HAS_CORRELATION) {
        uint32_t difference = activity->correlation - previous->classes[class].correlation;
        at = dl_put_difference(at, (int32_t)difference);
    }
    if (mask & HAS_THREAD) {
        at = dl_put_difference(at,
                               (int64_t)activity->thread - previous->kinds[activity->kind].thread);
    }
    if (mask & HAS_STREAM) {
        at = dl_put_difference(at,
                               (int64_t)activity->stream - previous->kinds[activity->kind].stream);
    }
    if (mask & HAS_OBJECT) {
        uint64_t difference = activity->object - previous->classes[class].object;
        at = dl_put_difference(at, (int64_t)difference);
    }
    if (mask & HAS_BYTES) at = dl_put_varint(at, activity->bytes);
    if (mask & HAS_START) {
        at = dl_put_difference(at, activity->start_ns - previous->classes[class].end_ns);
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
        at = dl_put_difference(at,
                               (int64_t)activity->device - previous->kinds[activity->kind].device);
    }
    if (more & HAS_MEMORY) *at++ = activity->memory;
    if (more & HAS_PEER) at = dl_put_varint(at, activity->peer);
    if (more & HAS_COUNT) at = dl_put_varint(at, activity->count);
    at = dl_put_varint(at, (uint64_t)activity->duration_ns);
    remember(previous, activity);
    return at;
}

static uint32_t get_nonzero_u32(dl_cursor *in)
{
    uint32_t value = dl_get_u32_varint(in);
    in->failed |= value == 0;
    return value;
}

/* A difference modulo 2^32 has one coding: the one of its least size. */
static uint32_t get_correlation(dl_cursor *in, uint32_t base)
{
    int64_t difference = dl_get_difference(in);
    uint32_t correlation = base + (uint32_t)difference;
    in->failed |= difference != (int32_t)difference || correlation == 0;
    return correlation;
}

static void get_fields(dl_cursor *in, unsigned mask, dl_activity *activity,
                       const dl_activity_previous *previous)
{
    int class = dl_activity_is_device_work(activity);
    if (mask & HAS_NAME) activity->name = get_nonzero_u32(in);
    if (mask & HAS_DETAIL) activity->detail = get_nonzero_u32(in);
    if (mask & HAS_CORRELATION) {
        activity->correlation = get_correlation(in, previous->classes[class].correlation);
    }
    if (mask & HAS_THREAD) {
        activity->thread = (uint32_t)dl_get_relative(in, activity->thread, UINT32_MAX);
    }
    if (mask & HAS_STREAM) {
        activity->stream = (uint32_t)dl_get_relative(in, activity->stream, UINT32_MAX);
    }
    if (mask & HAS_OBJECT) {
        activity->object = previous->classes[class].object + (uint64_t)dl_get_difference(in);
        in->failed |= activity->object == 0;
    }
    if (mask & HAS_BYTES) activity->bytes = dl_get_nonzero(in);
    if (mask & HAS_START) {
        activity->start_ns = dl_get_relative(in, activity->start_ns, INT64_MAX);
    }
}

static void get_more_fields(dl_cursor *in, unsigned more, dl_activity *activity)
{
    if (more & HAS_DEVICE) {
        activity->device = (uint32_t)dl_get_relative(in, activity->device, UINT32_MAX);
    }
    if (more & HAS_MEMORY) {
        uint64_t memory = dl_get_nonzero(in);
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
    dl_cursor in = {at + 2, end, false};
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
    activity->duration_ns = dl_get_i64_varint(&in);
    if (in.failed || !dl_activity_valid(activity)) return NULL;
    remember(previous, activity);
    return in.at;
}
