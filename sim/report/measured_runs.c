#include "sim/report/measured_runs.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

void dl_measured_derive(double *value, double batch)
{
    double per_s = value[DL_MEASURE_PER_S], step_s = value[DL_MEASURE_STEP_S];
    if (isnan(per_s)) per_s = value[DL_MEASURE_PER_S] = batch / step_s;
    if (isnan(step_s)) step_s = value[DL_MEASURE_STEP_S] = batch / per_s;
    double *per_s_err = &value[DL_MEASURE_PER_S_ERR], *step_s_err = &value[DL_MEASURE_STEP_S_ERR];
    if (isnan(*per_s_err)) *per_s_err = *step_s_err / step_s * per_s;
    if (isnan(*step_s_err)) *step_s_err = *per_s_err / per_s * step_s;
}

/* Median of the numbers among values[count], NaN if there are none; sorts them to the front. */
static double median(double *values, size_t count, size_t *numbers)
{
    *numbers = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isnan(values[i])) values[(*numbers)++] = values[i];
    }
    if (*numbers == 0) return (double)NAN;
    gsl_sort(values, 1, *numbers);
    return gsl_stats_quantile_from_sorted_data(values, 1, *numbers, 0.5);
}

static double deviation(const double *values, size_t count)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        mean += values[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return count > 1 ? sqrt(squares / (double)(count - 1)) : (double)NAN;
}

static double median_of_worker(const dl_measured_row *const *rows, size_t runs, int worker,
                               double *column)
{
    size_t numbers = 0;
    for (size_t r = 0; r < runs; r++) {
        const double *own = rows[r]->worker_staleness;
        column[r] = own != NULL ? own[worker] : (double)NAN;
    }
    return median(column, runs, &numbers);
}

/* Smallest staleness that at least the fraction `p` of `total` gradients do not exceed. */
static double count_quantile(const double *counts, int bins, double total, double p)
{
    double below = 0;
    int s = 0;
    while (s < bins - 1 && (below += counts[s]) < p * total)
        s++;
    return s;
}

/* Adds up the counts of all runs, if all have them, and takes the statistics of the sum. */
static void pool_counts(dl_measured *measured, const dl_measured_row *const *rows, size_t runs)
{
    int bins = 0;
    for (size_t r = 0; r < runs; r++) {
        if (rows[r]->counts == NULL) return;
        if (rows[r]->count_bins > bins) bins = rows[r]->count_bins;
    }
    double *counts = dl_calloc((size_t)bins, sizeof *counts, "staleness counts");
    double total = 0, sum = 0, squares = 0;
    for (size_t r = 0; r < runs; r++) {
        for (int s = 0; s < rows[r]->count_bins; s++)
            counts[s] += rows[r]->counts[s];
    }
    for (int s = 0; s < bins; s++) {
        total += counts[s];
        sum += counts[s] * s;
    }
    for (int s = 0; s < bins && total > 0; s++)
        squares += counts[s] * (s - sum / total) * (s - sum / total);
    if (total > 0) {
        measured->value[DL_MEASURE_STALENESS_MEAN] = sum / total;
        measured->value[DL_MEASURE_STALENESS_SD] = sqrt(squares / total);
        measured->value[DL_MEASURE_STALENESS_P50] = count_quantile(counts, bins, total, 0.5);
        measured->value[DL_MEASURE_STALENESS_P90] = count_quantile(counts, bins, total, 0.9);
    }
    free(counts);
}

static bool is_disturbed(const dl_measured_row *row)
{
    const double others = row->value[DL_MEASURE_OTHERS_FRAC];
    const double steal = row->value[DL_MEASURE_STEAL_FRAC];
    return (isnan(others) ? 0 : others) + (isnan(steal) ? 0 : steal) > DL_MEASURED_DISTURBED_FRAC;
}

size_t dl_measured_undisturbed(const dl_measured_row **rows, size_t runs)
{
    size_t disturbed = 0, kept = 0;
    for (size_t r = 0; r < runs; r++)
        disturbed += is_disturbed(rows[r]);
    if (4 * (runs - disturbed) < runs) return runs;
    for (size_t r = 0; r < runs; r++) {
        if (!is_disturbed(rows[r])) rows[kept++] = rows[r];
    }
    return kept;
}

void dl_measured_summarise(dl_measured *measured, const dl_measured_row *const *rows, size_t runs,
                           int workers)
{
    double *column = dl_calloc(runs, sizeof *column, "measured column");
    double spread[DL_MEASURE_COUNT];
    for (int m = 0; m < DL_MEASURE_COUNT; m++) {
        size_t numbers = 0;
        for (size_t r = 0; r < runs; r++)
            column[r] = rows[r]->value[m];
        measured->value[m] = median(column, runs, &numbers);
        spread[m] = deviation(column, numbers);
    }
    if (isnan(measured->value[DL_MEASURE_PER_S_ERR])) {
        measured->value[DL_MEASURE_PER_S_ERR] = spread[DL_MEASURE_PER_S];
        measured->value[DL_MEASURE_STEP_S_ERR] = spread[DL_MEASURE_STEP_S];
    }
    measured->runs_per_s = dl_calloc(runs, sizeof(double), "measured runs");
    for (size_t r = 0; r < runs; r++)
        measured->runs_per_s[r] = rows[r]->value[DL_MEASURE_PER_S];
    gsl_sort(measured->runs_per_s, 1, runs);
    bool by_worker = false;
    for (size_t r = 0; r < runs; r++)
        by_worker |= rows[r]->worker_staleness != NULL;
    if (by_worker) {
        measured->worker_staleness =
            dl_calloc((size_t)workers, sizeof(double), "staleness of workers");
    }
    for (int w = 0; w < workers && by_worker; w++) {
        measured->worker_staleness[w] = median_of_worker(rows, runs, w, column);
    }
    pool_counts(measured, rows, runs);
    measured->runs = (int)runs;
    free(column);
}

double dl_measured_quantile(const dl_measured *measured, double fraction)
{
    if (measured->runs < DL_MEASURED_REPEATED_MIN) return (double)NAN;
    return gsl_stats_quantile_from_sorted_data(measured->runs_per_s, 1, (size_t)measured->runs,
                                               fraction);
}
