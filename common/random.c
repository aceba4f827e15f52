#include "common/random.h"

#ifndef __wasm__
#include <Random123/philox.h>
#endif
#include <endian.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/philox.h"
#include "common/status.h"

/* Layout of the counter: the lower 53 bits of words 0 and 1 number the blocks of the stream; words
 * 2 and 3 hold replicate, point and worker, 21 bits each; the upper bits of word 1 hold the
 * remaining bits of the worker. The seed is the key. Two streams of one seed thus never share a
 * counter value, and two seeds use different permutations. */
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

/* Fills block[] from the counter and advances the counter. Reads the counter word by word: a load
 * of all four words would stall until the newly written words have reached the cache. */
static inline void next_block(dl_random *stream)
{
#ifdef __wasm__
    dl_philox4x32_10(stream->counter, stream->key, stream->block);
#else
    const uint32_t *c = stream->counter;
    const philox4x32_ctr_t counter = {{c[0], c[1], c[2], c[3]}};
    const philox4x32_key_t key = {{stream->key[0], stream->key[1]}};
    const philox4x32_ctr_t block = philox4x32_R(10, counter, key);
    memcpy(stream->block, block.v, sizeof stream->block);
#endif
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

void dl_random_bytes(dl_random *stream, uint8_t *to, size_t bytes)
{
    for (; bytes >= 4; to += 4, bytes -= 4) {
        const uint32_t word = htole32(dl_random_u32(stream));
        memcpy(to, &word, 4);
    }
    if (bytes == 0) return;
    const uint32_t word = htole32(dl_random_u32(stream));
    memcpy(to, &word, bytes);
}

double dl_random_uniform(dl_random *stream)
{
    return (double)(dl_random_u64(stream) >> 11) * 0x1p-53;
}

uint64_t dl_random_below(dl_random *stream, uint64_t n)
{
    DL_ASSERT(n >= 1, "no number is below %d", 0);
    /* The lowest 2^64 mod n numbers would cause unequal shares and are drawn again. */
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
    do { /* a point in the unit circle */
        u = -1 + 2 * dl_random_uniform(stream);
        v = -1 + 2 * dl_random_uniform(stream);
        square = u * u + v * v;
    } while (square > 1 || square == 0);
    return u * sqrt(-2 * log(square) / square);
}

double dl_random_exponential(dl_random *stream)
{
    return -log1p(-dl_random_uniform(stream));
}

/* The ziggurat: LEVELS stacked boxes of equal area, which cover the right half of the normal
 * density, exp(-x^2/2) (Marsaglia and Tsang, Journal of Statistical Software 5, 2000). Box i
 * extends between the heights of the density at x_i and x_(i+1), with x_0 = 0, and is x_(i+1) wide.
 * The last box lies on the axis, below the density at ZIGGURAT_END; beyond that point it continues
 * below the exponential function that is tangent to the density there and bounds its tail (J. Voss
 * 2005). ZIGGURAT_END is such that the first box reaches the density's maximum. */
enum { LEVELS = 128, WIDTH_BITS = 24 };
#define ZIGGURAT_END 3.4442864767612842

static double level_end, level_height[LEVELS];
static double level_unit[LEVELS];     /* 2^-WIDTH_BITS of the level's width */
static uint32_t level_inside[LEVELS]; /* number of units below which all points are inside */
static pthread_once_t levels_once = PTHREAD_ONCE_INIT;

/* Rounds to 12 digits, as in the printed tables that define the streams. */
static double rounded(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.11e", x);
    return strtod(text, NULL);
}

static void make_levels(void)
{
    double x = ZIGGURAT_END, height = exp(-0.5 * x * x);
    double width = x + 1 / x; /* width of a box of the same area */
    const double area = height * width;
    level_end = rounded(x);
    for (int i = LEVELS - 1; i >= 0; i--) {
        if (i == 0) {
            height = 1;
            x = 0;
        }
        level_height[i] = rounded(height);
        level_unit[i] = rounded(ldexp(width, -WIDTH_BITS));
        level_inside[i] = (uint32_t)ldexp(x / width, WIDTH_BITS);
        width = x;
        height += area / x;
        x = sqrt(-2 * log(height));
    }
}

/* Standard normal by the ziggurat; almost always takes one 32-bit number. */
static double normal_of_levels(dl_random *stream)
{
    static const uint32_t sign_bit = LEVELS;
    for (;;) {
        const uint32_t bits = dl_random_u32(stream), level = bits % LEVELS;
        const double sign = (bits & sign_bit) != 0 ? 1 : -1;
        const uint32_t units = bits >> (32 - WIDTH_BITS);
        double x = units * level_unit[level], y;
        if (units < level_inside[level]) return sign * x;
        if (level + 1 < LEVELS) {
            const double top = level_height[level], bottom = level_height[level + 1];
            y = bottom + (top - bottom) * dl_random_uniform(stream);
        } else {
            x = level_end - log(1 - dl_random_uniform(stream)) / level_end;
            y = exp(-level_end * (x - 0.5 * level_end)) * dl_random_uniform(stream);
        }
        if (y < exp(-0.5 * x * x)) return sign * x;
    }
}

static double uniform_above_0(dl_random *stream)
{
    double u;
    do {
        u = dl_random_uniform(stream);
    } while (u == 0);
    return u;
}

double dl_random_gamma(dl_random *stream, double shape, double scale)
{
    pthread_once(&levels_once, make_levels);
    if (shape < 1) {
        const double u = uniform_above_0(stream);
        return dl_random_gamma(stream, 1 + shape, scale) * pow(u, 1 / shape);
    }
    const double d = shape - 1.0 / 3, c = 1.0 / 3 / sqrt(d);
    for (;;) {
        double x, v;
        do {
            x = normal_of_levels(stream);
            v = 1 + c * x;
        } while (v <= 0);
        v = v * v * v;
        const double u = uniform_above_0(stream);
        if (u < 1 - 0.0331 * x * x * x * x) return scale * d * v;
        if (log(u) < 0.5 * x * x + d * (1 - v + log(v))) return scale * d * v;
    }
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

double dl_chance_of_some(double all, double some, double draws)
{
    double none = 1;
    for (double drawn = 0; drawn < draws && none > 0; drawn++)
        none *= fmax(0, all - some - drawn) / (all - drawn);
    return 1 - none;
}
