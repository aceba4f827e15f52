/* Statistics of a sample: mean, standard deviation, quantiles. */
#ifndef DL_PROFILER_SAMPLE_H
#define DL_PROFILER_SAMPLE_H

#include <stddef.h>

typedef struct dl_sample_summary {
    size_t count;
    double mean, sd; /* sd with count - 1; 0 for one value */
    double min, p50, p90;
} dl_sample_summary;

/* Summarises values[count], which it sorts. Without values all is NaN. */
dl_sample_summary dl_sample_summarise(double *values, size_t count);

/* Quantile, 0 <= fraction <= 1, of ascending sorted[count], count >= 1: linear between the order
 * statistics ("type 7" of Hyndman & Fan 1996). */
double dl_sample_quantile(const double *sorted, size_t count, double fraction);

/* Which order statistics, low and count - 1 - low counted from 0, enclose the median with a
 * probability of at least `confidence`, whatever the distribution (binomial). Returns low, or 0 if
 * there are too few values for it. */
size_t dl_sample_median_interval(size_t count, double confidence);

#endif
