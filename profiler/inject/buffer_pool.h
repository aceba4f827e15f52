/* Buffers that CUPTI fills: zeroed memory of one size, reused. Outside malloc, so that the
 * program's heap stays as it was. Any thread; the lock is held for a few instructions only, and
 * never while CUPTI is called. */
#ifndef DL_PROFILER_INJECT_BUFFER_POOL_H
#define DL_PROFILER_INJECT_BUFFER_POOL_H

#include <stddef.h>
#include <stdint.h>

/* What a buffer is known by besides its data. */
typedef struct dl_buffer {
    struct dl_buffer *next; /* for lists of its holder */
    size_t used;            /* bytes that may not be zero */
} dl_buffer;

typedef struct dl_buffer_pool dl_buffer_pool;

/* Buffers of `bytes` usable bytes (a multiple of 4096 is best); at most `limit` of them exist at
 * once, 0 = no limit. Free with dl_buffer_pool_free. */
dl_buffer_pool *dl_buffer_pool_new(size_t bytes, size_t limit);

/* A buffer of zeros, or NULL: the limit is reached or there is no memory. */
dl_buffer *dl_buffer_pool_take(dl_buffer_pool *pool);

/* Takes a buffer back and clears the first buffer->used bytes. */
void dl_buffer_pool_give(dl_buffer_pool *pool, dl_buffer *buffer);

/* The data of a buffer, aligned to 64 bytes, and the buffer of such data. */
uint8_t *dl_buffer_data(dl_buffer *buffer);
dl_buffer *dl_buffer_of(uint8_t *data);

/* Usable bytes of a buffer; bytes of memory that the pool has had at most. */
size_t dl_buffer_pool_bytes(const dl_buffer_pool *pool);
size_t dl_buffer_pool_peak_bytes(dl_buffer_pool *pool);

/* All buffers must have been given back. */
void dl_buffer_pool_free(dl_buffer_pool *pool);

#endif
