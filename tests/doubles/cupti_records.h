/* Records as a libcupti writes them: all of a kind have the size that its version gives them. */
#ifndef DL_TESTS_DOUBLES_CUPTI_RECORDS_H
#define DL_TESTS_DOUBLES_CUPTI_RECORDS_H

#include <string.h>

#include "profiler/inject/cupti_headers.h"

typedef __typeof__(cuptiActivityGetNextRecord) cupti_next;

/* Returns the number of bytes by which the library steps over records of a kind; 0 if it does not
 * know the kind. */
static inline size_t cupti_record_bytes(cupti_next *next, CUpti_ActivityKind kind)
{
    static _Atomic size_t found[CUPTI_ACTIVITY_KIND_COUNT];
    if (found[kind] > 0) return found[kind];
    _Alignas(8) uint8_t buffer[2048];
    const uint32_t word = (uint32_t)kind;
    for (size_t at = 0; at < sizeof buffer; at += 8) {
        memset(buffer + at, 0, 8);
        memcpy(buffer + at, &word, sizeof word);
    }
    CUpti_Activity *first = NULL, *second;
    if (next(buffer, sizeof buffer, &first) != CUPTI_SUCCESS) return 0;
    second = first;
    if (next(buffer, sizeof buffer, &second) != CUPTI_SUCCESS) return 0;
    return found[kind] = (size_t)((uint8_t *)second - (uint8_t *)first);
}

/* Writes a record of `bytes` bytes to `to` in the library's size, which it returns. */
static inline size_t cupti_put_record(cupti_next *next, uint8_t *to, const void *record,
                                      size_t bytes)
{
    CUpti_ActivityKind kind;
    memcpy(&kind, record, sizeof kind);
    const size_t size = cupti_record_bytes(next, kind);
    memset(to, 0, size);
    memcpy(to, record, bytes < size ? bytes : size);
    return size;
}

#endif
