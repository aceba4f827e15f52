/* The bytes of one dl_activity in an ACTIVITIES chunk of a .dlt file.
 *
 * An activity is a head byte (kind | copy << 4 | MORE << 7), a mask byte, with MORE a second mask
 * byte, the fields that the masks name in the order of their bits, and the duration. Numbers are
 * varints, differences zigzag-coded (varint.h):
 *
 *   bit  field        coded as                                         absent means
 *   0    name         id                                               0
 *   1    detail       id                                               0
 *   2    correlation  difference to the class's last one (mod 2^32)    0
 *   3    thread       difference to the last activity of its kind      the same
 *   4    stream       difference to the last activity of its kind      the same
 *   5    object       difference to the class's last one (mod 2^64)    0
 *   6    bytes        count                                            0
 *   7    start_ns     difference to the end of the one before          starts at that end
 *                     in its class
 *   second mask byte
 *   0    device       difference to the last activity of its kind      the same
 *   1    memory       dl_host_memory                                   0
 *   2    peer         number                                           0
 *   3    count        number                                           0
 *
 * There are two classes, device work and all the rest (dl_activity_is_device_work), because each
 * has its own time: a kernel runs long after its launch, and either comes at small steps from its
 * like. "The class's last one" of correlation and object is the last that was not 0. Before a
 * chunk's first activity everything is 0. There is exactly one coding of an activity: the reader
 * refuses a present field that has its absent value, a second mask byte of zero or with other bits,
 * and a varint with leading zeros.
 */
#ifndef DL_TRACE_ACTIVITY_CODEC_H
#define DL_TRACE_ACTIVITY_CODEC_H

#include <stdint.h>

#include "trace/activity/activity.h"

/* Shortest and longest coding of an activity. */
#define DL_ACTIVITY_BYTES_MIN 3
#define DL_ACTIVITY_BYTES_MAX 83

/* What the next activity is coded against. Zero it at the begin of a chunk. */
typedef struct dl_activity_previous {
    struct {
        int64_t end_ns;
        uint64_t object;
        uint32_t correlation;
    } classes[2]; /* [dl_activity_is_device_work] */
    struct {
        uint32_t device, stream, thread;
    } kinds[DL_ACTIVITY_KIND_END];
} dl_activity_previous;

/* Codes a valid *activity (dl_activity_valid) to out[DL_ACTIVITY_BYTES_MAX], makes it the previous
 * one, returns the end. */
uint8_t *dl_activity_encode(uint8_t *out, const dl_activity *activity,
                            dl_activity_previous *previous);

/* Decodes one activity from at..end-1, makes it the previous one, returns where the next one
 * begins; NULL if the bytes are no valid activity (`activity` and `previous` are then undefined).
 */
const uint8_t *dl_activity_decode(const uint8_t *at, const uint8_t *end, dl_activity *activity,
                                  dl_activity_previous *previous);

#endif
