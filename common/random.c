#include "common/random.h"

#include <Random123/philox.h>
#include <math.h>
#include <string.h>

#include "common/status.h"

/* Layout of the counter: words 0 and 1 number the blocks of the stream, in their lower 53 bits;
 * words 2 and 3 hold replicate, point and worker, 21 bits each, and the upper bits of word 1 what
 * of the worker does not fit there. The seed is the key. So two streams of one seed never
 * use the same counter, and two seeds never the same permutation. */
void dl_random_init(dl_random *stream, uint64_t seed, uint32_t replicate, uint32_t point,
                    uint32_t worker)
{
    const uint64_t mask = (1u << 21) - 1;
    uint64_t names = (replicate & mask) << 42 | (point & mask) << 21 | (worker & mask);
    memset(stream, 0, sizeof *stream);
    stream->key[0] = (uint32_t)seed;
    stream->key[1] = (uint32_t)(seed >> 32);
    stream->counter[2] = (uint32_t)names;
    stream->counter[3] = (uint32_t)(names >> 32);
    stream->counter[1] = worker >> 21 << 21;
    stream->used = 4;
}

/* Fills block[] from the counter, and moves the counter on. The counter is read word by word: a
 * load of all four would have to wait until words written just before are in the cache. */
static inline void next_block(dl_random *stream)
{
    const uint32_t *c = stream->counter;
    const philox4x32_ctr_t counter = {{c[0], c[1], c[2], c[3]}};
    const philox4x32_key_t key = {{stream->key[0], stream->key[1]}};
    const philox4x32_ctr_t block = philox4x32_R(10, counter, key);
    memcpy(stream->block, block.v, sizeof stream->block);
    if (++stream->counter[0] == 0) stream->counter[1]++;
    stream->used = 0;
}

void dl_random_seek(dl_random *stream, uint64_t place)
{
    const uint32_t upper = stream->counter[1] >> 21 << 21;
    stream->counter[0] = (uint32_t)(place / 4);
    stream->counter[1] = upper | (uint32_t)(place / 4 >> 32);
    stream->used = 4;
    if (place % 4 == 0) return;
    next_block(stream);
    stream->used = (int)(place % 4);
}

uint64_t dl_random_place(const dl_random *stream)
{
    const uint64_t mask = (1u << 21) - 1;
    const uint64_t blocks = stream->counter[0] | (stream->counter[1] & mask) << 32;
    return 4 * blocks - (4 - (uint64_t)stream->used);
}

uint32_t dl_random_u32(dl_random *stream)
{
    if (stream->used == 4) next_block(stream);
    return stream->block[stream->used++];
}

uint64_t dl_random_u64(dl_random *stream)
{
    uint64_t low = dl_random_u32(stream);
    return (uint64_t)dl_random_u32(stream) << 32 | low;
}

double dl_random_uniform(dl_random *stream)
{
    return (double)(dl_random_u64(stream) >> 11) * 0x1p-53;
}

uint64_t dl_random_below(dl_random *stream, uint64_t n)
{
    DL_ASSERT(n >= 1, "no number is below %d", 0);
    /* 2^64 mod n of the numbers are too many for equal shares: the lowest ones are drawn again. */
    uint64_t excess = (UINT64_MAX - n + 1) % n;
    uint64_t number;
    do {
        number = dl_random_u64(stream);
    } while (number < excess);
    return number % n;
}

double dl_random_normal(dl_random *stream)
{
    const double two_pi = 6.283185307179586;
    double radius = sqrt(-2.0 * log(1.0 - dl_random_uniform(stream))); /* argument in (0, 1] */
    return radius * cos(two_pi * dl_random_uniform(stream));
}

double dl_random_polar(dl_random *stream)
{
    double u, v, square;
    do { /* a point of the unit circle */
        u = -1 + 2 * dl_random_uniform(stream);
        v = -1 + 2 * dl_random_uniform(stream);
        square = u * u + v * v;
    } while (square > 1 || square == 0);
    return u * sqrt(-2 * log(square) / square);
}

void dl_random_shuffle(dl_random *stream, uint32_t *values, uint32_t count)
{
    for (uint32_t left = count; left > 1; left--) {
        uint32_t pick = (uint32_t)dl_random_below(stream, left);
        uint32_t value = values[pick];
        values[pick] = values[left - 1];
        values[left - 1] = value;
    }
}
