/* Encoding and decoding of messages of each kind (quantise.h), for one number type. */
#include <stdbool.h>
#include <string.h>

#include "kernels/real.h"
#include "kernels/vector_internal.h"

/* Number of partial sums, as many as the numbers in the widest vector registers. The order of
 * additions does not depend on the registers' width, so all processors give equal bits. */
#define LANES 16

#define WORD_BITS 32

/* Largest number and smallest normal number of half precision; the largest is (2 - 2^-10) 2^15. */
#define HALF_MAX 65504.0f
#define HALF_NORMAL_MIN 0x1p-14f
#define HALF_SPACING_BELOW 0x1p-24f /* spacing of the numbers below HALF_NORMAL_MIN */

/* Bits of an infinite float, and the difference of the exponents of a float and a half of the same
 * value. */
#define INFINITE_BITS 0x7f800000u
#define EXPONENT_SHIFT (112u << 23)
#define DROPPED_BITS 13 /* dropped bits of the significand */
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

/* Rounds to half precision without branches, so that loops vectorise. A carry of the rounded
 * significand into the exponent correctly rounds up to the next power of two. Below
 * HALF_NORMAL_MIN, adding 0.5, near which floats are HALF_SPACING_BELOW apart, rounds to a multiple
 * of that. */
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

/* A double is first rounded to float. */
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

/* Largest multiple of the scale in a byte, on either side of 0. */
#define BYTE_MOST 127

/* A block whose largest magnitude is smaller becomes 0: the inverse of its scale would exceed the
 * range of a float. */
#define BLOCK_LEAST 0x1p-100f

/* Adding and then subtracting ROUNDING rounds a float below 2^22 to a whole number, ties to
 * even. */
#define ROUNDING 0x1.8p23f

/* Returns the largest magnitude. Bits are compared as integers, which have the order of the
 * magnitudes, so that the result does not depend on the order of comparisons. Doubles are first
 * rounded to float. */
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
        const float inverse = finite && most >= BLOCK_LEAST ? BYTE_MOST / most : 0;
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

/* A compiler vector, in as many registers as needed, and a vector of masks: -1 for true. */
typedef dl_real lanes __attribute__((vector_size(LANES * sizeof(dl_real))));
typedef __typeof__((lanes){0} >= (lanes){0}) masks;

/* residual += values; computes the means of the numbers below 0 and of the others. */
static inline __attribute__((always_inline)) void add_up(dl_real *residual, const dl_real *values,
                                                         size_t count, dl_quantise_bits *bits)
{
    lanes low = {0}, high = {0};
    masks above = low > high; /* all 0 */
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
    /* `above` includes the zeros that filled up the last vector. */
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

/* Encodes up to 32 numbers as one word; their errors stay in the residual. */
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

/* The smallest magnitude to send is found by radix selection: three passes, each with a histogram
 * of one digit of the magnitudes' bits, from the highest digit on, without a copy. */
#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

static inline uint32_t magnitude_bits(dl_real value)
{
    return bits_of((float)value) & 0x7fffffffu;
}

/* Counts, by their digit at `shift`, the numbers whose higher bits are `above`. */
static void count_digits(uint32_t *numbers, const dl_real *values, size_t count, uint32_t above,
                         int shift)
{
    const int above_shift = shift + DIGIT_BITS;
    memset(numbers, 0, DIGITS * sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = magnitude_bits(values[i]);
        numbers[bits >> shift & (DIGITS - 1)] += (uint64_t)bits >> above_shift == above;
    }
}

/* Returns the `kept`th largest magnitude; *equal becomes the number of kept values of that
 * magnitude. */
static uint32_t smallest_kept(const dl_real *values, size_t count, size_t kept, size_t *equal)
{
    static const int shifts[] = {2 * DIGIT_BITS, DIGIT_BITS, 0};
    uint32_t numbers[DIGITS], found = 0;
    for (int d = 0; d < 3; d++) {
        uint32_t digit = DIGITS - 1;
        count_digits(numbers, values, count, found, shifts[d]);
        for (; numbers[digit] < kept; digit--)
            kept -= numbers[digit];
        found = found << DIGIT_BITS | digit;
    }
    *equal = kept;
    return found;
}

void DL_TYPED(dl_quantise_select)(dl_quantise_entry *message, const dl_quantise_plan *plan,
                                  const void *values, void *residual)
{
    const dl_real *from = values;
    dl_real *rest = residual;
    for (size_t i = 0; i < plan->count; i++)
        rest[i] += from[i];
    for (size_t b = 0; b < plan->block_count; b++) {
        const size_t first = plan->blocks[b].first, end = first + plan->blocks[b].count;
        size_t equal = 0, kept = dl_quantise_kept(plan->kept_frac, end - first);
        const uint32_t least = smallest_kept(rest + first, end - first, kept, &equal);
        for (size_t i = first; i < end; i++) {
            const uint32_t bits = magnitude_bits(rest[i]);
            if (bits < least || (bits == least && equal == 0)) continue;
            if (bits == least) equal--;
            const float value = (float)rest[i];
            *message++ = (dl_quantise_entry){(uint32_t)i, value};
            rest[i] -= (dl_real)value;
        }
    }
}

void DL_TYPED(dl_quantise_unselect)(void *values, size_t count, const dl_quantise_entry *message,
                                    size_t kept)
{
    dl_real *to = values;
    memset(to, 0, count * sizeof *to);
    for (size_t e = 0; e < kept; e++)
        to[message[e].place] = (dl_real)message[e].value;
}

/* Difference of a float's biased exponent and m of fp4; half of the significand's range in bits. */
#define NIBBLE_SHIFT (127 - 7)
#define HALF_POWER (1u << 22)
#define NIBBLE_LEAST 0x1p-7f /* half of the smallest power */
#define NIBBLE_SIGN 8u

/* Rounds `value`, at most about 1 in magnitude, to a power of two: adding HALF_POWER carries into
 * the exponent from 1.5 times a power on, where the next power is nearer. */
static inline uint8_t nibble_of(float value)
{
    const uint32_t bits = bits_of(value), whole = bits & 0x7fffffffu;
    const int power = (int)((whole + HALF_POWER) >> 23) - NIBBLE_SHIFT;
    const int least = float_of(whole) >= NIBBLE_LEAST;
    return (uint8_t)((bits >> 28 & NIBBLE_SIGN) | (uint32_t)(power > 0 ? power : least));
}

static inline float float_of_nibble(uint32_t nibble)
{
    const uint32_t power = nibble & 7u, sign = (nibble & NIBBLE_SIGN) << 28;
    return float_of(sign | (power > 0 ? (power + NIBBLE_SHIFT) << 23 : 0));
}

DL_HOT void DL_TYPED(dl_quantise_nibble)(dl_quantise_nibbles *message,
                                         const dl_quantise_block *blocks, size_t block_count,
                                         const void *values)
{
    for (size_t b = 0; b < block_count; b++) {
        const size_t count = blocks[b].count, pairs = count / 2;
        const dl_real *from = (const dl_real *)values + blocks[b].first;
        const float most = largest_of(from, count);
        const bool finite = bits_of(most) < INFINITE_BITS;
        const float inverse = finite && most >= BLOCK_LEAST ? 1 / most : 0;
        dl_quantise_nibbles *to = &message[b];
        to->scale = !finite ? float_of(NAN_BITS) : inverse > 0 ? most : 0;
        memset(to->pairs, 0, sizeof to->pairs);
        if (inverse == 0) continue;
        for (size_t p = 0; p < pairs; p++) {
            to->pairs[p] = (uint8_t)(nibble_of((float)from[2 * p] * inverse) |
                                     nibble_of((float)from[2 * p + 1] * inverse) << 4);
        }
        if (count % 2 != 0) to->pairs[pairs] = nibble_of((float)from[count - 1] * inverse);
    }
}

DL_HOT void DL_TYPED(dl_quantise_unnibble)(void *values, const dl_quantise_block *blocks,
                                           size_t block_count, const dl_quantise_nibbles *message)
{
    for (size_t b = 0; b < block_count; b++) {
        dl_real *to = (dl_real *)values + blocks[b].first;
        const size_t count = blocks[b].count, pairs = count / 2;
        const uint8_t *from = message[b].pairs;
        const float scale = message[b].scale;
        for (size_t p = 0; p < pairs; p++) {
            to[2 * p] = (dl_real)(float_of_nibble(from[p] & 15u) * scale);
            to[2 * p + 1] = (dl_real)(float_of_nibble((uint32_t)from[p] >> 4) * scale);
        }
        if (count % 2 != 0) to[count - 1] = (dl_real)(float_of_nibble(from[pairs]) * scale);
    }
}
