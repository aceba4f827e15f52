/* Statistics of a sample: mean, spread, quantiles. */
#ifndef DL_TRACE_DISTRIBUTION_H
#define DL_TRACE_DISTRIBUTION_H

#include <stddef.h>

#include "common/json.h"

/* Statistics of a sample, in the unit of its values; all 0 if count is 0. */
typedef struct dl_distribution {
    size_t count;
    double mean;
    double sd; /* sample standard deviation (divisor count - 1); 0 for one value */
    double low, p10, p50, p90, p99, high;
} dl_distribution;

/* Returns the statistics of values[count] and sorts the values; count may be 0. */
dl_distribution dl_distribution_of(double *values, size_t count);

/* Returns the quantile p (0..1) of sorted[count] (count >= 1), interpolated linearly at index p *
 * (count - 1) (R's type 7). */
double dl_distribution_quantile(const double *sorted, size_t count, double p);

/* Returns the mode of counts[count], the smallest if there are several; 0 if count is 0. Sorts the
 * counts. */
size_t dl_most_usual(size_t *counts, size_t count);

/* Writes the object `name` with the members of dl_distribution. */
void dl_distribution_write_json(dl_json *to, const char *name, const dl_distribution *d);

#endif
