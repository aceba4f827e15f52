#include "sim/sweep_rows.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/run_pipeline.h"

static void add_staleness(dl_run_result *pooled, const dl_run_result *run)
{
    if (run->staleness_bins > pooled->staleness_bins) {
        size_t bins = (size_t)run->staleness_bins, old = (size_t)pooled->staleness_bins;
        int64_t *grown = dl_calloc(bins * (size_t)run->workers, sizeof *grown, "staleness counts");
        for (size_t w = 0; w < (size_t)run->workers && old > 0; w++) {
            memcpy(grown + w * bins, pooled->staleness + w * old, old * sizeof *grown);
        }
        free(pooled->staleness);
        pooled->staleness = grown;
        pooled->staleness_bins = run->staleness_bins;
    }
    for (int w = 0; w < run->workers; w++) {
        for (int s = 0; s < run->staleness_bins; s++) {
            pooled->staleness[w * pooled->staleness_bins + s] +=
                run->staleness[w * run->staleness_bins + s];
        }
    }
}

/* Median over the replicates of the figure at `offset` of their results. */
static double median_of(const dl_run_result *runs, int64_t replicates, size_t offset)
{
    double *values = dl_calloc((size_t)replicates, sizeof *values, "replicates");
    for (int64_t r = 0; r < replicates; r++) {
        values[r] = *(const double *)(const void *)((const char *)&runs[r] + offset);
    }
    gsl_sort(values, 1, (size_t)replicates);
    double median = gsl_stats_quantile_from_sorted_data(values, 1, (size_t)replicates, 0.5);
    free(values);
    return median;
}

static void add_split(dl_run_result *mean, const dl_split_result *run, double share)
{
    if (mean->split == NULL) mean->split = dl_calloc(1, sizeof *mean->split, "figures of stages");
    mean->split->stages = run->stages;
    mean->split->bubble_frac += share * run->bubble_frac;
    mean->split->crossed_bytes += share * run->crossed_bytes;
    mean->split->reduced_bytes += share * run->reduced_bytes;
    for (int s = 0; s < run->stages; s++)
        mean->split->busy_frac[s] += share * run->busy_frac[s];
}

/* Adds `share` of a run's figures to the row's means. */
static void add_run(dl_run_result *mean, const dl_run_result *run, double share)
{
    mean->samples += run->samples;
    mean->span_s += run->span_s;
    mean->tail_frac += share * run->tail_frac;
    mean->applied_frac += share * run->applied_frac;
    mean->updates_per_s += share * run->updates_per_s;
    mean->updates += run->updates;
    mean->step_sd_s += share * run->step_sd_s;
    mean->step_p50_s += share * run->step_p50_s;
    mean->step_p99_s += share * run->step_p99_s;
    for (int p = 0; p < DL_PART_COUNT; p++)
        mean->part_frac[p] += share * run->part_frac[p];
    mean->drift_steps_mean += share * run->drift_steps_mean;
    mean->drift_steps_max = isnan(run->drift_steps_max)
                                ? run->drift_steps_max
                                : fmax(mean->drift_steps_max, run->drift_steps_max);
    mean->clock_lag_max = fmax(mean->clock_lag_max, run->clock_lag_max);
    for (int w = 0; w < run->workers; w++) {
        mean->worker_step_s[w] += share * run->worker_step_s[w];
    }
    mean->events += run->events;
    add_staleness(mean, run);
    if (run->split != NULL) add_split(mean, run->split, share);
}

/* The throughput of a run, or its ratio to that of the baseline's run with the same costs and noise. */
static double rate_of(const dl_run_result *run, const dl_run_result *base)
{
    return base != NULL ? run->throughput_per_s / base->throughput_per_s : run->throughput_per_s;
}

/* The interval of the rates around `centre`, as sim/sweep.h says. */
static void set_interval(const dl_row_runs *runs, const dl_row_runs *base, double centre,
                         double *low, double *high)
{
    const bool drawn = runs->drawn_count > 0;
    const dl_run_result *run = drawn ? runs->drawn : runs->central;
    const dl_run_result *of = base == NULL ? NULL : drawn ? base->drawn : base->central;
    const size_t count = (size_t)(drawn ? runs->drawn_count : runs->central_count);
    /* The central runs' own median is the centre. */
    const double freedom = (double)count - (drawn ? 0 : 1);
    double *values = dl_calloc(count, sizeof *values, "rates"), squares = 0;
    for (size_t r = 0; r < count; r++) {
        values[r] = rate_of(&run[r], of != NULL ? &of[r] : NULL);
        squares += pow(log(values[r] / centre), 2);
    }
    *low = *high = centre;
    if (count >= DL_INTERVAL_REPLICATES) {
        gsl_sort(values, 1, count);
        *low = fmin(centre, gsl_stats_quantile_from_sorted_data(values, 1, count, 0.025));
        *high = fmax(centre, gsl_stats_quantile_from_sorted_data(values, 1, count, 0.975));
    } else if (freedom > 0) {
        const double spread = gsl_cdf_tdist_Pinv(0.975, freedom) * sqrt(squares / freedom);
        *low = centre * exp(-spread);
        *high = centre * exp(spread);
    }
    free(values);
}

/* Widens an interval around `centre` by the rates with the slowest and the fastest compute. */
static void widen(const dl_row_runs *runs, const dl_row_runs *base, double centre, double *low,
                  double *high)
{
    const double slow = rate_of(&runs->scaled[0], base != NULL ? &base->scaled[0] : NULL);
    const double fast = rate_of(&runs->scaled[1], base != NULL ? &base->scaled[1] : NULL);
    const double below = isnan(*low) ? 1 : *low / centre, above = isnan(*high) ? 1 : *high / centre;
    *low = below * fmin(centre, fmin(slow, fast));
    *high = above * fmax(centre, fmax(slow, fast));
}

/* Smallest staleness that at least a fraction `p` of all gradients do not exceed. */
static double staleness_quantile(const int64_t *counts, int bins, int64_t total, double p)
{
    int64_t seen = 0;
    for (int s = 0; s < bins; s++) {
        seen += counts[s];
        if ((double)seen >= p * (double)total) return s;
    }
    return bins - 1;
}

static void set_staleness(dl_row *row)
{
    const dl_run_result *mean = &row->mean;
    int bins = mean->staleness_bins;
    int64_t *counts = dl_calloc((size_t)bins, sizeof *counts, "staleness counts"), total = 0;
    row->worker_staleness =
        dl_calloc((size_t)mean->workers, sizeof *row->worker_staleness, "staleness means");
    double sum = 0, squares = 0;
    for (int w = 0; w < mean->workers; w++) {
        double own = 0, own_sum = 0;
        for (int s = 0; s < bins; s++) {
            int64_t count = mean->staleness[w * bins + s];
            counts[s] += count;
            own += (double)count;
            own_sum += (double)count * s;
            squares += (double)count * s * s;
        }
        total += (int64_t)own;
        sum += own_sum;
        row->worker_staleness[w] = own_sum / own;
    }
    row->staleness_mean = sum / (double)total;
    row->staleness_sd =
        sqrt(fmax(0, squares / (double)total - row->staleness_mean * row->staleness_mean));
    row->staleness_p50 = staleness_quantile(counts, bins, total, 0.5);
    row->staleness_p90 = staleness_quantile(counts, bins, total, 0.9);
    row->staleness_p99 = staleness_quantile(counts, bins, total, 0.99);
    row->staleness_max = bins - 1;
    free(counts);
}

void dl_row_set_unfit(dl_row *row)
{
    const double nan = (double)NAN;
    char needs[32], has[32], over[32];
    const dl_gpu_memory *memory = &row->memory;
    row->error =
        dl_format("does not fit: a GPU needs %s of %s, %s too much",
                  dl_format_bytes(needs, sizeof needs, memory->needs_bytes),
                  dl_format_bytes(has, sizeof has, memory->has_bytes),
                  dl_format_bytes(over, sizeof over, memory->needs_bytes - memory->has_bytes));
    row->mean = (dl_run_result){.throughput_per_s = nan,
                                .tail_frac = nan,
                                .applied_frac = nan,
                                .updates_per_s = nan,
                                .step_mean_s = nan,
                                .step_sd_s = nan,
                                .step_p50_s = nan,
                                .step_p99_s = nan,
                                .drift_steps_mean = nan,
                                .drift_steps_max = nan,
                                .clock_lag_max = nan,
                                .usage = {.busiest_frac = nan, .link_frac = nan}};
    for (int p = 0; p < DL_PART_COUNT; p++)
        row->mean.part_frac[p] = nan;
    row->low_per_s = row->high_per_s = row->speedup = row->efficiency = nan;
    row->speedup_low = row->speedup_high = nan;
    row->staleness_mean = row->staleness_sd = row->staleness_p50 = row->staleness_p90 =
        row->staleness_p99 = row->staleness_max = nan;
}

static void set_rates(dl_row *row, const dl_row_runs *runs, const dl_row_runs *base, bool interval)
{
    const size_t throughput = offsetof(dl_run_result, throughput_per_s);
    const double per_s = median_of(runs->central, runs->central_count, throughput);
    row->mean.throughput_per_s = per_s;
    row->low_per_s = row->high_per_s = (double)NAN;
    row->speedup = row->speedup_low = row->speedup_high = (double)NAN;
    if (interval) set_interval(runs, NULL, per_s, &row->low_per_s, &row->high_per_s);
    if (runs->scaled != NULL) widen(runs, NULL, per_s, &row->low_per_s, &row->high_per_s);
    if (base == NULL) return;
    row->speedup = per_s / median_of(base->central, base->central_count, throughput);
    if (interval) set_interval(runs, base, row->speedup, &row->speedup_low, &row->speedup_high);
    if (runs->scaled != NULL) {
        widen(runs, base, row->speedup, &row->speedup_low, &row->speedup_high);
    }
}

void dl_row_set(dl_row *row, const dl_row_runs *runs, const dl_row_runs *base, bool interval)
{
    const int64_t count = runs->central_count;
    row->mean.workers = row->point.workers;
    row->mean.worker_step_s = dl_calloc((size_t)row->point.workers, sizeof(double), "mean steps");
    for (int64_t r = 0; r < count; r++)
        add_run(&row->mean, &runs->central[r], 1 / (double)count);
    row->mean.step_mean_s = median_of(runs->central, count, offsetof(dl_run_result, step_mean_s));
    row->mean.usage = runs->central[0].usage;
    set_rates(row, runs, base, interval);
    row->efficiency = row->speedup / dl_point_gpus(&row->point);
    dl_mode_staleness kind = row->point.mode->staleness;
    row->staleness_mean =
        kind == DL_MODE_STALENESS_ZERO ? row->point.option[DL_SYNC_LAG] : (double)NAN;
    row->staleness_sd = row->staleness_p50 = row->staleness_p90 = row->staleness_p99 =
        row->staleness_max = row->staleness_mean;
    if (kind == DL_MODE_STALENESS_SOME) set_staleness(row);
}
