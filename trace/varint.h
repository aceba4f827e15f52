/* Numbers as the .dlt format codes them, written to and read from bytes: LEB128 varints (7 bits a
 * byte, the low ones first) and, for differences, zigzag before it. Strict: a number has one
 * coding, so the reader fails on a last byte of zero and on bits beyond 64.
 *
 * Inline because the coding of one record is a handful of these. */
#ifndef DL_TRACE_VARINT_H
#define DL_TRACE_VARINT_H

#include <stdbool.h>
#include <stdint.h>

/* Appends at most 10 bytes; returns where the next number goes. */
static inline uint8_t *dl_put_varint(uint8_t *out, uint64_t value)
{
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

/* Small differences of either sign become small numbers: 0, -1, 1, -2, ... -> 0, 1, 2, 3, ... */
static inline uint8_t *dl_put_difference(uint8_t *out, int64_t difference)
{
    uint64_t sign = difference < 0 ? UINT64_MAX : 0;
    return dl_put_varint(out, ((uint64_t)difference << 1) ^ sign);
}

/* Bytes still to be decoded; `failed` stays set once a number was not readable, and what the get
 * functions return is then of no use. */
typedef struct dl_cursor {
    const uint8_t *at, *end;
    bool failed;
} dl_cursor;

static inline uint64_t dl_get_varint(dl_cursor *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; in->at < in->end && shift < 64; shift += 7) {
        uint8_t byte = *in->at++;
        if (shift == 63 && byte > 1) break;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            /* A last byte of zero would be a second coding of the same number. */
            in->failed |= byte == 0 && shift > 0;
            return value;
        }
    }
    in->failed = true;
    return 0;
}

static inline uint64_t dl_get_nonzero(dl_cursor *in)
{
    uint64_t value = dl_get_varint(in);
    in->failed |= value == 0;
    return value;
}

static inline uint32_t dl_get_u32_varint(dl_cursor *in)
{
    uint64_t value = dl_get_varint(in);
    in->failed |= value > UINT32_MAX;
    return (uint32_t)value;
}

static inline int64_t dl_get_i64_varint(dl_cursor *in)
{
    uint64_t value = dl_get_varint(in);
    in->failed |= value > INT64_MAX;
    return (int64_t)(value & INT64_MAX);
}

/* A difference of any size, 0 included. */
static inline int64_t dl_get_difference(dl_cursor *in)
{
    uint64_t coded = dl_get_varint(in);
    return (int64_t)(coded >> 1) ^ -(int64_t)(coded & 1);
}

/* base + a difference other than 0, where 0 <= base <= high; fails outside 0 .. high. */
static inline int64_t dl_get_relative(dl_cursor *in, int64_t base, int64_t high)
{
    int64_t difference = dl_get_difference(in);
    if (difference == 0 || difference > high - base || difference < -base) {
        in->failed = true;
        return base;
    }
    return base + difference;
}

#endif
