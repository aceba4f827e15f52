#include "trace/distribution.h"

#include <math.h>
#include <stdlib.h>

#include "common/sort.h"

size_t dl_most_usual(size_t *counts, size_t count)
{
    size_t usual = 0, most = 0;
    dl_sort(counts, count, sizeof *counts, dl_compare_sizes);
    DL_GROUPS (first, end, count, counts[end] == counts[first]) {
        if (end - first <= most) continue;
        usual = counts[first];
        most = end - first;
    }
    return usual;
}

double dl_distribution_quantile(const double *sorted, size_t count, double p)
{
    double place = p * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

dl_distribution dl_distribution_of(double *values, size_t count)
{
    dl_distribution d = {.count = count};
    if (count == 0) return d;
    qsort(values, count, sizeof *values, dl_compare_doubles);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    d.mean = sum / (double)count;
    /* Second pass around the mean, because sums of squares of large, nearly equal values would
     * cancel. */
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - d.mean) * (values[i] - d.mean);
    d.sd = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    d.low = values[0];
    d.p10 = dl_distribution_quantile(values, count, 0.10);
    d.p50 = dl_distribution_quantile(values, count, 0.50);
    d.p90 = dl_distribution_quantile(values, count, 0.90);
    d.p99 = dl_distribution_quantile(values, count, 0.99);
    d.high = values[count - 1];
    return d;
}

void dl_distribution_write_json(dl_json *to, const char *name, const dl_distribution *d)
{
    dl_json_object(to, name, "count=%g mean=%g sd=%g low=%g p10=%g p50=%g p90=%g p99=%g high=%g",
                   (double)d->count, d->mean, d->sd, d->low, d->p10, d->p50, d->p90, d->p99,
                   d->high);
}
