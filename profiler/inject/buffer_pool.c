#include "profiler/inject/buffer_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/alloc.h"
#include "common/status.h"

/* Room for dl_buffer before the data. */
#define HEAD_BYTES 64
_Static_assert(sizeof(dl_buffer) <= HEAD_BYTES, "a buffer's head fits before its data");

struct dl_buffer_pool {
    size_t bytes, limit;
    pthread_mutex_t lock;
    dl_buffer *spare;
    size_t count; /* that exist, taken or spare: they are kept until the end */
};

dl_buffer_pool *dl_buffer_pool_new(size_t bytes, size_t limit)
{
    dl_buffer_pool *pool = dl_calloc(1, sizeof *pool, "buffer pool");
    pool->bytes = bytes;
    pool->limit = limit;
    pthread_mutex_init(&pool->lock, NULL);
    return pool;
}

static dl_buffer *map(const dl_buffer_pool *pool)
{
    void *memory = mmap(NULL, HEAD_BYTES + pool->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

dl_buffer *dl_buffer_pool_take(dl_buffer_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    dl_buffer *taken = pool->spare;
    if (taken != NULL) {
        pool->spare = taken->next;
        taken->next = NULL;
    } else if (pool->limit == 0 || pool->count < pool->limit) {
        taken = map(pool);
        if (taken != NULL) pool->count++;
    }
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

void dl_buffer_pool_give(dl_buffer_pool *pool, dl_buffer *buffer)
{
    DL_ASSERT(buffer->used <= pool->bytes, "%zu used bytes of %zu", buffer->used, pool->bytes);
    memset(dl_buffer_data(buffer), 0, buffer->used);
    buffer->used = 0;
    pthread_mutex_lock(&pool->lock);
    buffer->next = pool->spare;
    pool->spare = buffer;
    pthread_mutex_unlock(&pool->lock);
}

uint8_t *dl_buffer_data(dl_buffer *buffer)
{
    return (uint8_t *)buffer + HEAD_BYTES;
}

dl_buffer *dl_buffer_of(uint8_t *data)
{
    return (dl_buffer *)(void *)(data - HEAD_BYTES);
}

size_t dl_buffer_pool_bytes(const dl_buffer_pool *pool)
{
    return pool->bytes;
}

size_t dl_buffer_pool_peak_bytes(dl_buffer_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const size_t bytes = pool->count * (HEAD_BYTES + pool->bytes);
    pthread_mutex_unlock(&pool->lock);
    return bytes;
}

void dl_buffer_pool_free(dl_buffer_pool *pool)
{
    size_t freed = 0;
    for (dl_buffer *buffer = pool->spare; buffer != NULL; freed++) {
        dl_buffer *next = buffer->next;
        munmap(buffer, HEAD_BYTES + pool->bytes);
        buffer = next;
    }
    DL_ASSERT(freed == pool->count, "%zu of %zu buffers given back", freed, pool->count);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
