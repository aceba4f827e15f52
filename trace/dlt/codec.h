/* Byte encoding of a .dlt file: framing of chunks and encoding of one record and of one activity.
 * Shared by the writer and the reader so that the format is defined once.
 *
 * A record is a head byte (kind | phase << 4), a mask byte, the fields present in the mask in the
 * order of its bits, and the duration. Numbers are LEB128 varints; differences are zigzag-coded:
 *
 *   bit  field              coded as                                     absent means
 *   0    worker             difference to the previous record            equal
 *   1    step               difference to the previous record            equal
 *   2    samples            difference to the previous record            equal
 *   3    name               id                                           0
 *   4    bytes              count                                        0
 *   5    vectors, threads   two counts                                   0, 0
 *   6    staleness          staleness + 1                                DL_NO_STALENESS
 *   7    start_ns           difference to the previous record's end      starts at that end
 *
 * A chunk's first record is coded against a record of zeros. A record has exactly one encoding: the
 * reader rejects a present field that has its absent value and a varint with leading zeros. */
#ifndef DL_TRACE_DLT_CODEC_H
#define DL_TRACE_DLT_CODEC_H

#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/record.h"

#define DL_DLT_MAGIC "DLTRACE\n"
#define DL_DLT_MAGIC_BYTES 8
#define DL_DLT_VERSION 1
#define DL_DLT_HEADER_BYTES 16       /* magic, version, reserved */
#define DL_DLT_CHUNK_HEADER_BYTES 12 /* type, payload bytes, CRC-32 */

/* Minimum and maximum encoded size of a record. */
#define DL_DLT_RECORD_BYTES_MIN 3
#define DL_DLT_RECORD_BYTES_MAX 80

typedef enum dl_dlt_chunk {
    DL_DLT_META = 1,
    DL_DLT_STRINGS,
    DL_DLT_RECORDS,
    DL_DLT_END,
    DL_DLT_ACTIVITIES
} dl_dlt_chunk;

/* Fields of the previous record that the next record is coded against; zero at a chunk's start. */
typedef struct dl_dlt_previous {
    uint32_t worker, step, samples;
    int64_t end_ns;
} dl_dlt_previous;

/* Returns whether every field is in the range allowed in a file: known kind and phase, worker below
 * DL_WORKER_LIMIT, staleness >= DL_NO_STALENESS, start, duration and end within 0 .. 2^63-1 ns. */
int dl_dlt_valid(const dl_record *record);

/* Encodes a valid *record to out[DL_DLT_RECORD_BYTES_MAX], updates *previous, and returns the
 * end. */
uint8_t *dl_dlt_encode(uint8_t *out, const dl_record *record, dl_dlt_previous *previous);

/* Decodes one record from at..end-1, updates *previous, and returns the start of the next record.
 * Returns NULL if the bytes are not a valid record; `record` and `previous` are then undefined. */
const uint8_t *dl_dlt_decode(const uint8_t *at, const uint8_t *end, dl_record *record,
                             dl_dlt_previous *previous);

/* Fills the chunk header, DL_DLT_CHUNK_HEADER_BYTES at `chunk`, for the payload that follows it. */
void dl_dlt_chunk_seal(uint8_t *chunk, dl_dlt_chunk type, uint32_t payload_bytes);

/* Returns the CRC-32 of a chunk's type, length and payload. */
uint32_t dl_dlt_chunk_crc(const uint8_t *chunk, uint32_t payload_bytes);

/* Write and read little-endian 32-bit numbers. */
void dl_dlt_put_u32(uint8_t *out, uint32_t value);
uint32_t dl_dlt_get_u32(const uint8_t *in);

/* Encoding of one dl_activity in an ACTIVITIES chunk of a .dlt file.
 *
 * An activity is a head byte (kind | copy << 4 | MORE << 7), a mask byte, a second mask byte if
 * MORE is set, the fields present in the masks in the order of their bits, and the duration.
 * Numbers are varints, differences zigzag-coded:
 *
 *   bit  field        coded as                                         absent means
 *   0    name         id                                               0
 *   1    detail       id                                               0
 *   2    correlation  difference to the class's last one (mod 2^32)    0
 *   3    thread       difference to the last activity of its kind      equal
 *   4    stream       difference to the last activity of its kind      equal
 *   5    object       difference to the class's last one (mod 2^64)    0
 *   6    bytes        count                                            0
 *   7    start_ns     difference to the end of the previous activity   starts at that end
 *                     of its class
 *   second mask byte
 *   0    device       difference to the last activity of its kind      equal
 *   1    memory       dl_host_memory                                   0
 *   2    peer         number                                           0
 *   3    count        number                                           0
 *
 * There are two classes, device work and everything else (dl_activity_is_device_work), because a
 * kernel runs long after its launch, while activities of one class follow each other closely. "The
 * class's last one" of correlation and object is the last non-zero value. At a chunk's start all
 * previous values are 0. An activity has exactly one encoding: the reader rejects a present field
 * that has its absent value, a second mask byte of zero or with other bits, and a varint with
 * leading zeros. */

/* Minimum and maximum encoded size of an activity. */
#define DL_ACTIVITY_BYTES_MIN 3
#define DL_ACTIVITY_BYTES_MAX 83

/* State that the next activity is coded against; zero it at the start of a chunk. */
typedef struct dl_activity_previous {
    struct {
        int64_t end_ns;
        uint64_t object;
        uint32_t correlation;
    } classes[2]; /* index: dl_activity_is_device_work */
    struct {
        uint32_t device, stream, thread;
    } kinds[DL_ACTIVITY_KIND_END];
} dl_activity_previous;

/* Encodes a valid *activity (dl_activity_valid) to out[DL_ACTIVITY_BYTES_MAX], updates *previous,
 * and returns the end. */
uint8_t *dl_activity_encode(uint8_t *out, const dl_activity *activity,
                            dl_activity_previous *previous);

/* Decodes one activity from at..end-1, updates *previous, and returns the start of the next one.
 * Returns NULL if the bytes are not a valid activity; `activity` and `previous` are then
 * undefined. */
const uint8_t *dl_activity_decode(const uint8_t *at, const uint8_t *end, dl_activity *activity,
                                  dl_activity_previous *previous);

#endif
