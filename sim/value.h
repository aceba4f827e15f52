/* A number with its origin and uncertainty, as written in cost files:
 *
 *   NUMBER [UNIT] [+- STANDARD_ERROR [UNIT]] [, n = COUNT] [, ORIGIN]
 *   NUMBER [UNIT] (LOW [UNIT] to HIGH [UNIT]) [, n = COUNT] [, ORIGIN]
 *
 * with the units of common/quantity.h; the error's unit also applies to a number without one ("12.4
 * +- 0.2 GB/s"). Bounds mean that the fitted data do not determine the number: any value between
 * them fits equally well. Origins are measured, fitted, catalogue and assumed (default:
 * assumed). */
#ifndef DL_SIM_VALUE_H
#define DL_SIM_VALUE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/quantity.h"

/* known = false: the file does not give the number (never treated as zero). */
typedef struct dl_value {
    bool known;
    double value;
    double error;  /* standard error in the unit of value; 0 = not given */
    int64_t count; /* number of samples; 0 = not given */
    dl_origin origin;
    double low, high; /* bounds of an undetermined value; equal: determined */
    bool is_assumed;  /* low and high are its 95 % interval; not stored in files */
    unsigned cause;   /* drawn together with all values of this cause; 0: independent. Not stored in
                       * files */
} dl_value;

/* The value's number; NaN if unknown. */
static inline double dl_value_or_nan(const dl_value *value)
{
    return value->known ? value->value : (double)NAN;
}

/* Whether the value is undetermined within bounds. */
static inline bool dl_value_is_bounded(const dl_value *value)
{
    return value->known && value->low < value->high && !value->is_assumed;
}

/* Multiplies the number, its error and its bounds by `factor`. */
static inline void dl_value_scale(dl_value *value, double factor)
{
    value->value *= factor;
    value->error *= factor;
    value->low *= factor;
    value->high *= factor;
}

/* Parses a value in the form above. DL_ERR_PARSE; DL_ERR_RANGE for a number, error, bound or count;
 * DL_ERR_NAME for the origin or a unit. */
dl_status dl_value_parse(const char *text, dl_dimension dimension, dl_value *value,
                         dl_error *err) DL_MUST_CHECK;

/* Writes text that dl_value_parse reads back to the same value. `value` must be known. */
void dl_value_write(FILE *out, const dl_value *value);

#endif
