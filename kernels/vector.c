#include <stdbool.h>
#include <string.h>

#include "kernels/real.h"
#include "kernels/vector_internal.h"

/* Vectors that are summed in registers in one sweep. One sweep of n + 1 streams runs at the speed
 * of a plain copy; adding vector after vector to a running sum in the cache took up to 3.5 times
 * as long (4 vectors of 1.7 MB, AMD EPYC 9005, 2025). */
#define GROUP 8

/* Beyond a group the running sum of this many numbers stays in the first-level cache. */
#define BLOCK 1024

/* Promises that no iteration reads what another writes: `out` is a vector itself or apart. */
#if defined(__GNUC__) && !defined(__clang__)
#define INDEPENDENT _Pragma("GCC ivdep")
#elif defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT
#endif

/* out[i] = share * sum of v[0..n-1][i], added in that order. n is a constant in every call, so the
 * conditions vanish. */
static inline __attribute__((always_inline)) void sweep(dl_real *out, const dl_real *const *v,
                                                        int n, size_t count, dl_real share)
{
    const dl_real *a = v[0], *b = n > 1 ? v[1] : a, *c = n > 2 ? v[2] : a, *d = n > 3 ? v[3] : a;
    const dl_real *e = n > 4 ? v[4] : a, *f = n > 5 ? v[5] : a, *g = n > 6 ? v[6] : a;
    const dl_real *h = n > 7 ? v[7] : a;
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        dl_real sum = a[i];
        if (n > 1) sum += b[i];
        if (n > 2) sum += c[i];
        if (n > 3) sum += d[i];
        if (n > 4) sum += e[i];
        if (n > 5) sum += f[i];
        if (n > 6) sum += g[i];
        if (n > 7) sum += h[i];
        out[i] = sum * share;
    }
}

/* The same for any 1 <= n <= GROUP. */
static inline __attribute__((always_inline)) void sum_group(dl_real *out, const dl_real *const *v,
                                                            int n, size_t count, dl_real share)
{
    switch (n) {
    case 1: sweep(out, v, 1, count, share); break;
    case 2: sweep(out, v, 2, count, share); break;
    case 3: sweep(out, v, 3, count, share); break;
    case 4: sweep(out, v, 4, count, share); break;
    case 5: sweep(out, v, 5, count, share); break;
    case 6: sweep(out, v, 6, count, share); break;
    case 7: sweep(out, v, 7, count, share); break;
    default: sweep(out, v, GROUP, count, share); break;
    }
}

/* More than a group: the running sum is the first vector of every further group. `out` is written
 * only by the last one, after the block's numbers of all vectors were read. */
DL_HOT static void average_many(dl_real *out, const void *const *vectors, int n, size_t first,
                                size_t count, dl_real share)
{
    _Alignas(64) dl_real running[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t block = count - done < BLOCK ? count - done : BLOCK;
        const dl_real *group[GROUP] = {running};
        for (int next = 0; next < n;) {
            int members = next > 0; /* the running sum */
            while (members < GROUP && next < n) {
                group[members++] = (const dl_real *)vectors[next++] + first + done;
            }
            if (next < n) {
                sum_group(running, group, members, block, 1);
            } else {
                sum_group(out + done, group, members, block, share);
            }
            group[0] = running;
        }
    }
}

DL_HOT static void average_few(dl_real *out, const void *const *vectors, int n, size_t first,
                               size_t count, dl_real share)
{
    const dl_real *group[GROUP];
    for (int v = 0; v < n; v++)
        group[v] = (const dl_real *)vectors[v] + first;
    sum_group(out, group, n, count, share);
}

void DL_TYPED(dl_exchange_sum)(void *result, const void *const *vectors, int n, int of,
                               size_t first, size_t count)
{
    dl_real *out = (dl_real *)result + first;
    const dl_real share = (dl_real)1 / (dl_real)of;
    if (n <= GROUP) {
        average_few(out, vectors, n, first, count, share);
    } else {
        average_many(out, vectors, n, first, count, share);
    }
}

DL_HOT void DL_TYPED(dl_exchange_add)(void *result, const void *from, double factor, size_t count)
{
    dl_real *restrict to = result;
    const dl_real *restrict added = from;
    const dl_real share = (dl_real)factor;
    for (size_t i = 0; i < count; i++)
        to[i] += share * added[i];
}

DL_HOT void DL_TYPED(dl_exchange_mix)(void *parameters, const void *average, double own_frac,
                                      size_t count)
{
    dl_real *restrict own = parameters;
    const dl_real *restrict other = average;
    const dl_real kept = (dl_real)own_frac, taken = 1 - kept;
    for (size_t i = 0; i < count; i++)
        own[i] = kept * own[i] + taken * other[i];
}

DL_HOT static void outer_nesterov(dl_real *restrict parameters, const dl_real *restrict average,
                                  dl_real *restrict velocity, size_t count, dl_real rate,
                                  dl_real momentum)
{
    for (size_t i = 0; i < count; i++) {
        const dl_real d = parameters[i] - average[i];
        velocity[i] = momentum * velocity[i] + d;
        parameters[i] = average[i] - (rate * (d + momentum * velocity[i]) - d);
    }
}

DL_HOT static void outer_sgd(dl_real *restrict parameters, const dl_real *restrict average,
                             dl_real *restrict velocity, size_t count, dl_real rate,
                             dl_real momentum)
{
    for (size_t i = 0; i < count; i++) {
        const dl_real d = parameters[i] - average[i];
        velocity[i] = momentum * velocity[i] + d;
        parameters[i] = average[i] - (rate * velocity[i] - d);
    }
}

void DL_TYPED(dl_exchange_outer)(void *parameters, const void *average, void *velocity,
                                 const dl_outer_config *outer, size_t first, size_t count)
{
    (outer->kind == DL_OUTER_NESTEROV ? outer_nesterov : outer_sgd)(
        (dl_real *)parameters + first, (const dl_real *)average + first,
        (dl_real *)velocity + first, count, (dl_real)outer->rate, (dl_real)outer->momentum);
}

/* Partial sums side by side, as many as the widest vectors hold: their order does not depend on the
 * width, so all processors give equal bits. */
#define LANES 16

#define WORD_BITS 32

/* Largest number of half precision, (2 - 2^-10) 2^15; its smallest one with a full significand. */
#define HALF_MAX 65504.0f
#define HALF_NORMAL_MIN 0x1p-14f
#define HALF_SPACING_BELOW 0x1p-24f /* of the numbers below that */

/* Bits of a float: its infinity, what its exponent is above that of the half with the same
 * value. */
#define INFINITE_BITS 0x7f800000u
#define EXPONENT_SHIFT (112u << 23)
#define DROPPED_BITS 13 /* of the significand */
#define NAN_BITS 0x7fc00000u
#define HALF_INFINITE_BITS 0x7c00u
#define HALF_NAN_BITS 0x7e00u

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Without a branch, so that it vectorises. Carry of the rounded significand into the exponent is
 * what rounding up to the next power of two means. Below HALF_NORMAL_MIN the sum with 0.5, whose
 * spacing is HALF_SPACING_BELOW, rounds. */
static inline uint16_t halve(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, whole = bits & 0x7fffffffu;
    const float magnitude = float_of(whole);
    const float within = magnitude > HALF_MAX ? HALF_MAX : magnitude;
    const uint32_t kept = bits_of(within), odd = kept >> DROPPED_BITS & 1u;
    const uint32_t normal = (kept + 0xfffu + odd - EXPONENT_SHIFT) >> DROPPED_BITS;
    const uint32_t small = bits_of(within + 0.5f) - bits_of(0.5f);
    const uint32_t half = within < HALF_NORMAL_MIN ? small : normal;
    return (uint16_t)(sign | (whole > INFINITE_BITS ? HALF_NAN_BITS : half));
}

static inline float widen(uint16_t half)
{
    const uint32_t whole = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t normal = (whole << DROPPED_BITS) + EXPONENT_SHIFT;
    const uint32_t small = bits_of((float)(int32_t)whole * HALF_SPACING_BELOW);
    const uint32_t number = whole < 0x400u ? small : normal;
    return float_of(sign | (whole >= HALF_INFINITE_BITS ? NAN_BITS : number));
}

/* A double becomes a float first. */
DL_HOT void DL_TYPED(dl_quantise_halve)(uint16_t *message, const void *values, size_t count)
{
    const dl_real *from = values;
    for (size_t i = 0; i < count; i++)
        message[i] = halve((float)from[i]);
}

DL_HOT void DL_TYPED(dl_quantise_widen)(void *values, const uint16_t *message, size_t count)
{
    dl_real *to = values;
    for (size_t i = 0; i < count; i++)
        to[i] = (dl_real)widen(message[i]);
}

/* Multiples of the scale that a byte holds, either side of 0. */
#define BYTE_MOST 127

/* A block whose largest magnitude is below this becomes 0: the inverse of its scale would be beyond
 * the range of a float. */
#define BYTE_LEAST 0x1p-100f

/* Adding and taking it away again rounds a float below 2^22 to a whole number, ties to even. */
#define ROUNDING 0x1.8p23f

/* The bits of the largest magnitude. Bits of magnitudes are in their order as whole numbers, the
 * largest of which does not depend on the order of looking. A double becomes a float first. */
static inline __attribute__((always_inline)) float largest_of(const dl_real *from, size_t count)
{
    int32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const int32_t bits = (int32_t)(bits_of((float)from[i]) & 0x7fffffffu);
        most = bits > most ? bits : most;
    }
    return float_of((uint32_t)most);
}

DL_HOT void DL_TYPED(dl_quantise_round)(dl_quantise_bytes *message, const dl_quantise_block *blocks,
                                        size_t block_count, const void *values)
{
    for (size_t b = 0; b < block_count; b++) {
        const size_t count = blocks[b].count;
        const dl_real *from = (const dl_real *)values + blocks[b].first;
        dl_quantise_bytes *bytes = &message[b];
        const float most = largest_of(from, count);
        const bool finite = bits_of(most) < INFINITE_BITS;
        const float inverse = finite && most >= BYTE_LEAST ? BYTE_MOST / most : 0;
        bytes->scale = !finite ? float_of(NAN_BITS) : inverse > 0 ? most / BYTE_MOST : 0;
        memset(bytes->numbers + count, 0, sizeof bytes->numbers - count);
        for (size_t i = 0; finite && i < count; i++)
            bytes->numbers[i] = (int8_t)(((float)from[i] * inverse + ROUNDING) - ROUNDING);
        if (!finite) memset(bytes->numbers, 0, count);
    }
}

DL_HOT void DL_TYPED(dl_quantise_unround)(void *values, const dl_quantise_block *blocks,
                                          size_t block_count, const dl_quantise_bytes *message)
{
    for (size_t b = 0; b < block_count; b++) {
        dl_real *to = (dl_real *)values + blocks[b].first;
        for (size_t i = 0; i < blocks[b].count; i++)
            to[i] = (dl_real)((float)message[b].numbers[i] * message[b].scale);
    }
}

/* A vector of the compiler's, in as many registers as it takes, and of masks: -1 where it holds. */
typedef dl_real lanes __attribute__((vector_size(LANES * sizeof(dl_real))));
typedef __typeof__((lanes){0} >= (lanes){0}) masks;

/* residual += values; the means of either side. */
static inline __attribute__((always_inline)) void add_up(dl_real *residual, const dl_real *values,
                                                         size_t count, dl_quantise_bits *bits)
{
    lanes low = {0}, high = {0};
    masks above = low > high; /* nowhere */
    for (size_t i = 0; i < count; i++)
        residual[i] += values[i];
    for (size_t i = 0; i < count; i += LANES) {
        lanes v = {0};
        if (i + LANES <= count) {
            memcpy(&v, &residual[i], sizeof v);
        } else {
            memcpy(&v, &residual[i], (count - i) * sizeof *residual);
        }
        const masks positive = v >= 0;
        const lanes kept = (lanes)((masks)v & positive);
        high += kept;
        low += v - kept;
        above -= positive;
    }
    /* The zeros that filled up the last vector are in `above`. */
    double sum_low = 0, sum_high = 0, count_high = -(double)((LANES - count % LANES) % LANES);
    for (size_t l = 0; l < LANES; l++) {
        sum_low += (double)low[l];
        sum_high += (double)high[l];
        count_high += (double)above[l];
    }
    const double count_low = (double)count - count_high;
    bits->high = count_high > 0 ? (float)(sum_high / count_high) : 0;
    bits->low = count_low > 0 ? (float)(sum_low / count_low) : 0;
}

/* One word of up to 32 numbers; what they lose stays in the residual. */
static inline __attribute__((always_inline)) uint32_t take_signs(dl_real *residual, size_t count,
                                                                 dl_real low, dl_real high)
{
    uint32_t word = 0;
    for (size_t j = 0; j < count; j++)
        word |= residual[j] >= 0 ? (uint32_t)1 << j : 0;
    for (size_t j = 0; j < count; j++)
        residual[j] -= residual[j] >= 0 ? high : low;
    return word;
}

DL_HOT void DL_TYPED(dl_quantise_sign)(dl_quantise_bits *message, const dl_quantise_block *blocks,
                                       size_t block_count, const void *values, void *residual)
{
    for (size_t b = 0; b < block_count; b++) {
        const size_t count = blocks[b].count, whole = count / WORD_BITS;
        dl_real *rest = (dl_real *)residual + blocks[b].first;
        dl_quantise_bits *bits = &message[b];
        add_up(rest, (const dl_real *)values + blocks[b].first, count, bits);
        const dl_real low = (dl_real)bits->low, high = (dl_real)bits->high;
        for (size_t w = 0; w < whole; w++)
            bits->words[w] = take_signs(rest + w * WORD_BITS, WORD_BITS, low, high);
        for (size_t w = whole; w < DL_QUANTISE_BLOCK / WORD_BITS; w++) {
            const size_t left = w == whole ? count % WORD_BITS : 0;
            bits->words[w] = take_signs(rest + w * WORD_BITS, left, low, high);
        }
    }
}

static inline __attribute__((always_inline)) void put_means(dl_real *to, uint32_t word,
                                                            size_t count, dl_real low, dl_real high)
{
    for (size_t j = 0; j < count; j++)
        to[j] = (word >> j & 1) != 0 ? high : low;
}

DL_HOT void DL_TYPED(dl_quantise_unsign)(void *values, const dl_quantise_block *blocks,
                                         size_t block_count, const dl_quantise_bits *message)
{
    for (size_t b = 0; b < block_count; b++) {
        const dl_quantise_bits *bits = &message[b];
        const size_t count = blocks[b].count, whole = count / WORD_BITS;
        dl_real *to = (dl_real *)values + blocks[b].first;
        const dl_real low = (dl_real)bits->low, high = (dl_real)bits->high;
        for (size_t w = 0; w < whole; w++)
            put_means(to + w * WORD_BITS, bits->words[w], WORD_BITS, low, high);
        if (count % WORD_BITS != 0) {
            put_means(to + whole * WORD_BITS, bits->words[whole], count % WORD_BITS, low, high);
        }
    }
}
