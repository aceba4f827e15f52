/* Compressed messages of gradients or of workers' parameter changes since an average: each number
 * in half precision, a byte, four bits or one bit, or only the largest numbers; the last two with
 * error feedback.
 *
 *   fp16   each number rounded to IEEE half precision, ties to even; numbers beyond its range
 *          become its largest number. 2 bytes per number, no error feedback.
 *   int8   a block of numbers as whole multiples, -127 to 127, of one scale, the block's largest
 *          magnitude / 127, rounded to the nearest, ties to even. 1 byte per number and 4 per
 *          block, no error feedback. A block with a number that is not finite becomes NaN; one
 *          whose largest magnitude is below 2^-100 becomes 0.
 *   1bit   Seide, Fu, Droppo, Li & Yu 2014 ("1-bit stochastic gradient descent"): a block of
 *          numbers v = gradient + residual is sent as one bit each, v >= 0, and two means, of the
 *          numbers below 0 and of those >= 0, to which the receiver decodes the bits. The error,
 *          v - decoded, is the residual that is added to the next gradient.
 *   topk   Aji & Heafield 2017 ("Sparse communication for distributed gradient descent"): of each
 *          range, the `kept_frac` of the numbers v = gradient + residual (at least one) that are
 *          largest in magnitude, with their places; of equal ones the first. The others stay in the
 *          residual, as does the rounding error of doubles sent as float. 8 bytes per number sent.
 *   fp4    each number as a sign and a power of two, 2^-6 to 1, or 0, times the block's largest
 *          magnitude: E3M0, as in Streaming DiLoCo (Douillard et al. 2025). Rounded to the nearest,
 *          ties away from 0. Half a byte per number and 4 per block, no error feedback. Blocks
 *          that are not finite or too small are treated as with int8.
 *
 * Blocks are DL_QUANTISE_BLOCK consecutive numbers or the rest of a range, for topk whole ranges;
 * ranges are the operations' parameters, so that no block mixes layers. Seide et al. use a column
 * of a weight matrix; a block here is several columns or part of one, so that all blocks have the
 * same size. */
#ifndef DL_KERNELS_QUANTISE_H
#define DL_KERNELS_QUANTISE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/precision.h"

typedef enum dl_quantise {
    DL_QUANTISE_NONE,
    DL_QUANTISE_FP16,
    DL_QUANTISE_INT8,
    DL_QUANTISE_1BIT,
    DL_QUANTISE_TOPK,
    DL_QUANTISE_FP4,
    DL_QUANTISE_COUNT
} dl_quantise;

/* "none", "fp16", "int8", "1bit", "topk", "fp4", NULL */
extern const char *const dl_quantise_names[];

#define DL_QUANTISE_BLOCK 1024

/* Numbers first .. first + count - 1 of a vector, count >= 1; at most DL_QUANTISE_BLOCK, except for
 * topk. */
typedef struct dl_quantise_block {
    uint64_t first;
    uint64_t count;
} dl_quantise_block;

/* Message of a 1bit block. Bit j mod 32 of word j / 32 belongs to number j; bits after the block's
 * end are 0. */
typedef struct dl_quantise_bits {
    float low, high; /* mean of the numbers below 0, and of the numbers >= 0; 0 if there are none */
    uint32_t words[DL_QUANTISE_BLOCK / 32];
} dl_quantise_bits;

/* Message of an int8 block: number j is numbers[j] x scale; numbers after the block's end are 0. */
typedef struct dl_quantise_bytes {
    float scale;
    int8_t numbers[DL_QUANTISE_BLOCK];
} dl_quantise_bytes;

/* Message of an fp4 block. Number j is in byte j / 2, an even one in its lower four bits: a sign,
 * and below it 0 for 0, or m = 1 to 7 for 2^(m - 7) x scale; those after the end are 0. */
typedef struct dl_quantise_nibbles {
    float scale;
    uint8_t pairs[DL_QUANTISE_BLOCK / 2];
} dl_quantise_nibbles;

/* A topk number and its place in the vector. */
typedef struct dl_quantise_entry {
    uint32_t place;
    float value;
} dl_quantise_entry;

/* Plan of the messages of vectors of one length. Messages are uint16_t[count] for fp16,
 * dl_quantise_bytes[block_count] for int8, dl_quantise_bits[block_count] for 1bit,
 * dl_quantise_nibbles[block_count] for fp4, and for topk each block's
 * dl_quantise_entry[dl_quantise_kept(...)] in the order of their places. */
typedef struct dl_quantise_plan {
    dl_quantise kind; /* not NONE */
    double kept_frac; /* topk: above 0, at most 1; 1 unless set before the first range is added */
    size_t count;     /* numbers of a vector; topk: below 2^32 */
    dl_quantise_block *blocks;
    size_t block_count;
    size_t message_bytes;
} dl_quantise_plan;

/* Makes a plan without numbers; add appends a range of `count` numbers. */
void dl_quantise_plan_init(dl_quantise_plan *plan, dl_quantise kind);
void dl_quantise_plan_add(dl_quantise_plan *plan, size_t count);
void dl_quantise_plan_free(dl_quantise_plan *plan); /* a zeroed plan is allowed */

/* Returns how many numbers of a topk block are sent: kept_frac x count, rounded up. */
static inline size_t dl_quantise_kept(double kept_frac, size_t count)
{
    return (size_t)ceil(kept_frac * (double)count);
}

/* Whether the kind has error feedback: 1bit and topk do. */
bool dl_quantise_feeds_back(dl_quantise kind);

/* Encodes values[plan->count] into message, on the calling thread. Kinds with feedback read and
 * write `residual` [plan->count], which starts as 0; the others do not use it. */
void dl_quantise_encode(const dl_quantise_plan *plan, const void *values, void *residual,
                        void *message, dl_precision precision);
/* Decodes message into values[plan->count]. */
void dl_quantise_decode(const dl_quantise_plan *plan, const void *message, void *values,
                        dl_precision precision);

#endif
