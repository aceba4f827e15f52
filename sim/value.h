/* A number with where it comes from and how well it is known, as cost files write it:
 *
 *   NUMBER [UNIT] [+- STANDARD_ERROR [UNIT]] [, n = COUNT] [, ORIGIN]
 *   NUMBER [UNIT] (LOW [UNIT] to HIGH [UNIT]) [, n = COUNT] [, ORIGIN]
 *
 * with the units of common/quantity.h; that of the error counts for the number too if it has none
 * ("12.4 +- 0.2 GB/s"). With bounds, what the number was fitted to does not determine it: any
 * between them does as well. Origins are measured, fitted, catalogue, assumed (default: assumed).
 */
#ifndef DL_SIM_VALUE_H
#define DL_SIM_VALUE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/quantity.h"

/* One number of the file. known = false: not given (never taken as zero). */
typedef struct dl_value {
    bool known;
    double value;
    double error;  /* standard error in the unit of value; 0 = not given */
    int64_t count; /* samples; 0 = not given */
    dl_origin origin;
    double low, high; /* bounds of one that is not determined; equal: it is */
    bool is_assumed;  /* low and high are where it is with a probability of 95 %; not in a file */
    unsigned cause;   /* is drawn with all others of this one; 0: alone. Not in a file */
} dl_value;

/* Its number; NaN if it is not known. */
static inline double dl_value_or_nan(const dl_value *value)
{
    return value->known ? value->value : (double)NAN;
}

/* Whether it is not determined, but has bounds. */
static inline bool dl_value_is_bounded(const dl_value *value)
{
    return value->known && value->low < value->high && !value->is_assumed;
}

/* Parses one value text as above. DL_ERR_PARSE, DL_ERR_RANGE (a number), DL_ERR_NAME (the origin, a
 * unit). */
dl_status dl_value_parse(const char *text, dl_dimension dimension, dl_value *value,
                         dl_error *err) DL_MUST_CHECK;

/* Writes the text that dl_value_parse reads back to the same value. `value` must be known. */
void dl_value_write(FILE *out, const dl_value *value);

#endif
