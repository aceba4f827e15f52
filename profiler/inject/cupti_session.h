/* The CUPTI front end: subscribes, hands buffers to CUPTI and takes them back, and decodes them
 * into the capture in a separate thread, every DL_CAPTURE_FLUSH_MS and when one is full.
 *
 * Meta keys that it writes: cupti_version and driver_version (numbers as CUPTI and the driver give
 * them), refused_kinds (kinds that CUPTI refused to record), dropped_records (by CUPTI, for lack of
 * buffers), lost_timestamps (records without times), unknown_records, buffer_bytes (peak memory for
 * CUPTI), takeover ("clock": another tool has set CUPTI's clock, later records were left out;
 * "buffers": CUPTI's buffers seem to go to another tool). */
#ifndef DL_PROFILER_INJECT_CUPTI_SESSION_H
#define DL_PROFILER_INJECT_CUPTI_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/inject/cupti_api.h"

/* Starts recording through CUPTI, once per process: from InitializeInjection, before any context is
 * created. Returns false if it cannot, with the reason in the capture's log; CUPTI is left alone
 * then. */
bool dl_cupti_session_start(void);

/* Buffers that CUPTI fills: zeroed memory of one size, reused. Outside malloc, so that the
 * program's heap stays as it was. Any thread; the lock is never held while CUPTI is called. */

/* Header of a buffer. */
typedef struct dl_buffer {
    struct dl_buffer *next; /* next buffer in a list of the buffer's current holder */
    size_t used;            /* bytes of records */
} dl_buffer;

typedef struct dl_buffer_pool dl_buffer_pool;

/* Creates a pool of buffers with `bytes` usable bytes (best a multiple of 4096); at most `limit` of
 * them exist at a time, 0 = no limit. Free with dl_buffer_pool_free. */
dl_buffer_pool *dl_buffer_pool_new(size_t bytes, size_t limit);

/* Returns a zeroed buffer, or NULL if the limit is reached or memory is short. */
dl_buffer *dl_buffer_pool_take(dl_buffer_pool *pool);

/* Takes a buffer back and clears it. */
void dl_buffer_pool_give(dl_buffer_pool *pool, dl_buffer *buffer);

/* Converts a buffer to its data, aligned to 64 bytes, and back. */
uint8_t *dl_buffer_data(dl_buffer *buffer);
dl_buffer *dl_buffer_of(uint8_t *data);
size_t dl_buffer_pool_peak_bytes(dl_buffer_pool *pool);

/* All buffers must have been given back. */
void dl_buffer_pool_free(dl_buffer_pool *pool);

/* Detects when another profiler in the process takes CUPTI over: up to CUDA 13.2 the last one to
 * set its clock or buffers gets them, subscribed or not (PyTorch's profiler sets both). */

/* Zero it before the first check. */
typedef struct dl_preemption {
    bool clock;      /* permanent: times are of another clock from here on */
    bool buffers;    /* no buffers arrive, though records must exist */
    unsigned silent; /* consecutive checks with calls but without records */
    unsigned calls;  /* `calls` of the previous check */
} dl_preemption;

/* Call it after every flush. `calls`: recorded calls so far, each of which must have left a record
 * (always 0 if unknown); `records`: records that arrived since the previous check. Writes the meta
 * key "takeover" when the state changes. */
void dl_preemption_check(dl_preemption *preemption, const dl_cupti_api *api, unsigned calls,
                         uint64_t records);

/* Does the last check, when the program ends and CUPTI has delivered everything: no records can
 * follow, so that missing ones count even in a short program. */
void dl_preemption_end(dl_preemption *preemption, unsigned calls, uint64_t records);

#endif
