/* A physical quantity as machine files write it: a number, its unit, and where it comes from.
 *
 *   NUMBER [UNIT] [, ORIGIN]        484GB/s, catalogue     1.3us, measured     25e9
 *
 * Without a unit the number is in the base unit of its dimension (bytes, bytes a second, floating
 * point operations a second, ns), which the key names. Prefixes are decimal but for Ki, Mi, Gi; a
 * small b is a bit, a capital B a byte. Without an origin the number is assumed.
 */
#ifndef DL_COMMON_QUANTITY_H
#define DL_COMMON_QUANTITY_H

#include <stdbool.h>

#include "common/status.h"

typedef enum dl_dimension {
    DL_DIMENSION_PURE, /* no unit: a price in USD, a count */
    DL_DIMENSION_BYTES,
    DL_DIMENSION_BYTES_PER_S,
    DL_DIMENSION_FLOP_PER_S,
    DL_DIMENSION_NS
} dl_dimension;

/* The least trustworthy first. */
typedef enum dl_evidence {
    DL_EVIDENCE_ASSUMED,
    DL_EVIDENCE_CATALOGUE, /* a data sheet, a manual, a price list */
    DL_EVIDENCE_MEASURED
} dl_evidence;

typedef struct dl_quantity {
    bool known;   /* false: not given (never taken as zero) */
    double value; /* in the base unit */
    dl_evidence evidence;
} dl_quantity;

/* "assumed", "catalogue", "measured"; never NULL. */
const char *dl_evidence_name(dl_evidence evidence);

/* Parses the whole of `text`, which must be >= 0. DL_ERR_PARSE (the number), DL_ERR_NAME (unit or
 * origin), DL_ERR_RANGE (negative, or over the largest double). */
dl_status dl_quantity_parse(const char *text, dl_dimension dimension, dl_quantity *quantity,
                            dl_error *err) DL_MUST_CHECK;

#endif
