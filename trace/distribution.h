/* Numbers that describe a sample: mean, spread, quantiles. */
#ifndef DL_TRACE_DISTRIBUTION_H
#define DL_TRACE_DISTRIBUTION_H

#include <stddef.h>

#include "common/json.h"

/* In the unit of the values. All 0 for count 0. */
typedef struct dl_distribution {
    size_t count;
    double mean;
    double sd; /* of a sample: divided by count - 1; 0 for one value */
    double low, p10, p50, p90, p99, high;
} dl_distribution;

/* Describes values[count], which it sorts ascending; count 0 is allowed. */
dl_distribution dl_distribution_of(double *values, size_t count);

/* The value below which the fraction p (0..1) of sorted[count] (count >= 1) lies, linear between
 * neighbours: place p * (count - 1) counted from 0 (R's type 7). */
double dl_distribution_quantile(const double *sorted, size_t count, double p);

/* Mode of counts[count], the least if there are several; 0 if count is 0. Sorts the counts. */
size_t dl_most_usual(size_t *counts, size_t count);

/* The object `name` with its members as they are called above. */
void dl_distribution_write_json(dl_json *to, const char *name, const dl_distribution *d);

#endif
