#include "profiler/sample.h"

#include <math.h>
#include <stdlib.h>

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double dl_sample_quantile(const double *sorted, size_t count, double fraction)
{
    const double place = fraction * (double)(count - 1);
    const size_t below = (size_t)place;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

dl_sample_summary dl_sample_summarise(double *values, size_t count)
{
    if (count == 0) return (dl_sample_summary){0, NAN, NAN, NAN, NAN, NAN};
    qsort(values, count, sizeof *values, compare_doubles);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    const double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return (dl_sample_summary){.count = count,
                               .mean = mean,
                               .sd = count > 1 ? sqrt(squares / (double)(count - 1)) : 0,
                               .min = values[0],
                               .p50 = dl_sample_quantile(values, count, 0.5),
                               .p90 = dl_sample_quantile(values, count, 0.9)};
}

/* The median lies below the value of rank `low` (from 0) if at most `low` of n fair coins show
 * heads; the interval misses it on either side with that probability. */
size_t dl_sample_median_interval(size_t count, double confidence)
{
    const double n = (double)count;
    double tail = 0;
    size_t low = 0;
    for (size_t k = 0; 2 * k < count; k++) {
        const double heads = (double)k;
        tail += exp(lgamma(n + 1) - lgamma(heads + 1) - lgamma(n - heads + 1) - n * log(2));
        if (2 * tail > 1 - confidence) break;
        low = k;
    }
    return low;
}
