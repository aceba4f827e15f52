/* A physical quantity in a machine file: a number, its unit, and its origin.
 *
 *   NUMBER [UNIT] [, ORIGIN]        484GB/s, catalogue     1.3us, measured     25e9
 *   NUMBER [UNIT] (LOW [UNIT] to HIGH [UNIT]) [, ORIGIN]   6GB/s (4GB/s to 9GB/s), assumed
 *
 * The interval LOW to HIGH, above 0, is a 95 % interval. Without a unit the number is in the base
 * unit of its dimension (bytes, bytes per second, floating point operations per second, ns), which
 * the key's name contains. Prefixes are decimal except for Ki, Mi, Gi; a lower-case b is a bit, an
 * upper-case B a byte. Without an origin the number is assumed. */
#ifndef DL_COMMON_QUANTITY_H
#define DL_COMMON_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

typedef enum dl_dimension {
    DL_DIMENSION_PURE, /* no unit: a price in USD, a count */
    DL_DIMENSION_BYTES,
    DL_DIMENSION_BYTES_PER_S,
    DL_DIMENSION_FLOP_PER_S,
    DL_DIMENSION_NS,
    DL_DIMENSION_S
} dl_dimension;

/* Origin of a number, least trustworthy first. */
typedef enum dl_origin {
    DL_ORIGIN_ASSUMED,
    DL_ORIGIN_CATALOGUE, /* a data sheet, a manual, a price list */
    DL_ORIGIN_FITTED,
    DL_ORIGIN_MEASURED
} dl_origin;

typedef struct dl_quantity {
    bool known;   /* false: not given (never treated as zero) */
    double value; /* in the base unit */
    dl_origin origin;
    double low, high; /* bounds; equal: none */
} dl_quantity;

/* "assumed", "catalogue", "fitted", "measured"; never NULL. */
const char *dl_origin_name(dl_origin origin);

/* Parses an origin's name. Returns DL_ERR_NAME, with the nearest name, if it is unknown. */
dl_status dl_origin_parse(const char *text, dl_origin *origin, dl_error *err) DL_MUST_CHECK;

/* Parses "NUMBER [UNIT]" with a number of any sign. Returns DL_ERR_PARSE (the number), DL_ERR_NAME
 * (the unit), DL_ERR_RANGE (beyond the largest double). */
dl_status dl_amount_parse(const char *text, dl_dimension dimension, double *value,
                          dl_error *err) DL_MUST_CHECK;

/* Parses "LOW [UNIT] to HIGH [UNIT])", the rest of "NUMBER (LOW to HIGH)" after the bracket; the
 * interval must contain `value`. Returns the errors of dl_amount_parse. */
dl_status dl_bounds_parse(const char *text, dl_dimension dimension, double value, double *low,
                          double *high, dl_error *err) DL_MUST_CHECK;

/* Returns the unit after the number, "" if it has none. Borrowed from `text`. */
const char *dl_amount_unit(const char *text);

/* Writes "12.4 B/s", "1 PB/s", "50 us" to text[bytes] and returns text. */
const char *dl_amount_text(char *text, size_t bytes, double value, dl_dimension dimension);

/* Returns DL_ERR_RANGE unless low <= value <= high, with the message "12.4 B/s is not within 1 kB/s
 * to 1 PB/s" and, if its source `text` has no unit, a unit that would make it valid. */
dl_status dl_amount_check(double value, dl_dimension dimension, double low, double high,
                          const char *text, dl_error *err) DL_MUST_CHECK;

/* Writes the accepted units, the base unit first, to text[bytes] and returns text: "ns, us, ms, s";
 * "" if the dimension has none. */
const char *dl_dimension_units(char *text, size_t bytes, dl_dimension dimension);

/* Parses the whole of `text`, a quantity >= 0. Returns DL_ERR_PARSE (the number, its bounds),
 * DL_ERR_NAME (unit or origin), DL_ERR_RANGE (negative, outside of its bounds, or beyond the
 * largest double). */
dl_status dl_quantity_parse(const char *text, dl_dimension dimension, dl_quantity *quantity,
                            dl_error *err) DL_MUST_CHECK;

#endif
