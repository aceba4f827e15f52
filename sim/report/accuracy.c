#include "sim/report/accuracy.h"

#include <math.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/statistics.h"

/* Ratio of the standard error of the median of many normal samples to that of their mean: sqrt(pi /
 * 2). */
#define MEDIAN_ERROR 1.2533141373155
#define NORMAL_95 1.959963984540054

static bool is_inside(const dl_row *row, double per_s)
{
    return per_s >= row->low_per_s && per_s <= row->high_per_s;
}

/* Distance between a point's measured and simulated runs. */
static double distance_of(const dl_row *row, const dl_measured *measured)
{
    DL_AUTOFREE double *rates = dl_calloc(row->rate_count, sizeof *rates, "simulated runs");
    memcpy(rates, row->rates, row->rate_count * sizeof *rates);
    dl_sort_doubles(rates, row->rate_count);
    return dl_ks_distance(measured->runs_per_s, (size_t)measured->runs, rates, row->rate_count);
}

static void compare_distributions(dl_accuracy *all, const dl_sweep *sweep,
                                  const dl_measured *measured)
{
    DL_AUTOFREE double *distances = dl_calloc(sweep->row_count, sizeof *distances, "distances");
    size_t count = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (measured[i].runs < DL_MEASURED_REPEATED_MIN || row->error != NULL ||
            row->rate_count < DL_MEASURED_REPEATED_MIN)
            continue;
        distances[count++] = distance_of(row, &measured[i]);
        all->equals_distance_frac +=
            dl_ks_distance_of_equals((size_t)measured[i].runs, row->rate_count);
    }
    all->compared = (int)count;
    if (count > 0) {
        dl_sort_doubles(distances, count);
        all->distance_frac = dl_quantile(distances, count, 0.5);
        all->equals_distance_frac /= (double)count;
    }
}

double dl_accuracy_steps_frac(const dl_row *row, const dl_measured *measured)
{
    if (row->steps_s == NULL || measured->steps_s == NULL) return (double)NAN;
    return dl_ks_distance(measured->steps_s, measured->step_count, row->steps_s, row->step_count);
}

static void compare_steps(dl_accuracy *all, const dl_sweep *sweep, const dl_measured *measured)
{
    DL_AUTOFREE double *distances = dl_calloc(sweep->row_count, sizeof *distances, "distances");
    size_t count = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const double distance = dl_accuracy_steps_frac(&sweep->rows[i], &measured[i]);
        if (!isnan(distance)) distances[count++] = distance;
    }
    all->steps_compared = (int)count;
    if (count == 0) return;
    dl_sort_doubles(distances, count);
    all->steps_median_frac = dl_quantile(distances, count, 0.5);
    all->steps_max_frac = distances[count - 1];
}

/* Adds a repeated point to the sums, which dl_accuracy_of divides by the number of points. */
static void add_repeated(dl_accuracy *sum, const dl_row *row, size_t number,
                         const dl_measured *measured)
{
    const double *per_s = measured->runs_per_s;
    const size_t runs = (size_t)measured->runs;
    const double median = measured->value[DL_MEASURE_PER_S];
    const double sd_frac = dl_sd(per_s, runs) / median;
    const double spread =
        dl_measured_quantile(measured, 0.9) / dl_measured_quantile(measured, 0.1) - 1;
    sum->repeated++;
    sum->noise_frac += MEDIAN_ERROR * sd_frac / sqrt((double)runs);
    if (spread > sum->spread_frac) {
        sum->spread_frac = spread;
        sum->spread_row = number;
    }
    if (isnan(row->low_per_s) || isnan(row->high_per_s)) return;
    sum->intervals++;
    sum->medians_inside += is_inside(row, median);
    for (size_t r = 0; r < runs; r++)
        sum->runs_inside += is_inside(row, per_s[r]);
    sum->runs += (int)runs;
    sum->half_width_frac += (row->high_per_s - row->low_per_s) / 2 / row->mean.throughput_per_s;
    sum->repeats_half_width_frac += NORMAL_95 * sd_frac;
}

/* Adds a known value to the running mean of *count values. */
static void add_to_mean(double *mean, int *count, double value)
{
    if (isnan(value)) return;
    *mean += (value - *mean) / ++*count;
}

dl_accuracy dl_accuracy_of(const dl_sweep *sweep, const dl_measured *measured)
{
    dl_accuracy all = {0};
    int others = 0, steal = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        all.left_out += measured[i].disturbed_runs;
        all.without_point += measured[i].without_point;
        if (measured[i].runs == 0 || row->error != NULL) continue;
        const double error =
            fabs(row->mean.throughput_per_s / measured[i].value[DL_MEASURE_PER_S] - 1);
        all.points++;
        all.mean_frac += error;
        all.max_frac = fmax(all.max_frac, error);
        add_to_mean(&all.others_frac, &others, measured[i].value[DL_MEASURE_OTHERS_FRAC]);
        add_to_mean(&all.steal_frac, &steal, measured[i].value[DL_MEASURE_STEAL_FRAC]);
        if (measured[i].runs >= DL_MEASURED_REPEATED_MIN) add_repeated(&all, row, i, &measured[i]);
    }
    if (all.points > 0) all.mean_frac /= all.points;
    if (others == 0) all.others_frac = (double)NAN;
    if (steal == 0) all.steal_frac = (double)NAN;
    if (all.repeated > 0) all.noise_frac /= all.repeated;
    if (all.intervals > 0) {
        all.half_width_frac /= all.intervals;
        all.repeats_half_width_frac /= all.intervals;
    }
    compare_distributions(&all, sweep, measured);
    compare_steps(&all, sweep, measured);
    return all;
}

void dl_accuracy_scatter(dl_notes *lines, const dl_accuracy *accuracy, const dl_sweep *sweep)
{
    if (accuracy->left_out > 0) {
        dl_notes_add(lines,
                     "left out: %d of the measured runs: other programs took over %.0f %% of the "
                     "processors",
                     accuracy->left_out, 100 * DL_MEASURED_DISTURBED_FRAC);
    }
    if (accuracy->without_point > 0) {
        dl_notes_add(lines, "left out: %d measured row%s: no point has the same keys",
                     accuracy->without_point, accuracy->without_point == 1 ? "" : "s");
    }
    if (accuracy->repeated > 0) {
        dl_notes_add(lines,
                     "noise floor: %.1f %%, the standard error of a measured median (mean over %d "
                     "points)",
                     100 * accuracy->noise_frac, accuracy->repeated);
    }
    if (accuracy->intervals > 0) {
        dl_notes_add(
            lines,
            "predicted 95 %% interval of one run: +-%.1f %%, holds %d of %d measured runs and %d "
            "of %d medians; repeated runs scatter by +-%.1f %% (1.96 sd)",
            100 * accuracy->half_width_frac, accuracy->runs_inside, accuracy->runs,
            accuracy->medians_inside, accuracy->intervals, 100 * accuracy->repeats_half_width_frac);
    }
    if (accuracy->compared > 0) {
        dl_notes_add(
            lines,
            "distribution of repeated runs: Kolmogorov-Smirnov distance from the simulated ones "
            "%.0f %% (median over %d points); so few runs of one distribution have %.0f %%",
            100 * accuracy->distance_frac, accuracy->compared,
            100 * accuracy->equals_distance_frac);
    }
    if (accuracy->steps_compared > 0) {
        dl_notes_add(lines,
                     "distribution of steps: Kolmogorov-Smirnov distance from the simulated ones "
                     "%.0f %% (median over %d point%s), at most %.0f %%",
                     100 * accuracy->steps_median_frac, accuracy->steps_compared,
                     accuracy->steps_compared == 1 ? "" : "s", 100 * accuracy->steps_max_frac);
    }
    if (fmax(accuracy->others_frac, accuracy->steal_frac) > DL_ACCURACY_DISTURBED_FRAC) {
        DL_AUTOFREE char *took = NULL;
        if (!isnan(accuracy->others_frac))
            took = dl_format("other programs used %.0f %% of the processors' time",
                             100 * accuracy->others_frac);
        if (!isnan(accuracy->steal_frac))
            dl_join_format(&took, ", and ", "the host took %.0f %%%s", 100 * accuracy->steal_frac,
                           took == NULL ? " of the processors' time" : "");
        dl_notes_add(lines, "disturbed: meanwhile %s; measure again when the machine is idle",
                     took);
    }
    if (accuracy->spread_frac <= DL_ACCURACY_SPREAD_FRAC) return;
    const dl_point *point = &sweep->rows[accuracy->spread_row].point;
    char text[DL_POINT_TEXT_BYTES];
    dl_notes_add(
        lines,
        "this machine varies too much to judge the predictions: repeated runs of one setting "
        "differ by up to %.0f %% (p90 over p10; %s)",
        100 * accuracy->spread_frac, dl_point_text(text, sizeof text, point));
}

void dl_accuracy_print(FILE *out, const dl_accuracy *accuracy, const dl_sweep *sweep, bool errors)
{
    DL_SCOPED(dl_notes) lines = {0};
    if (errors)
        fprintf(out, "error over %d measured point%s: mean %.1f %%, largest %.1f %%\n",
                accuracy->points, accuracy->points == 1 ? "" : "s", 100 * accuracy->mean_frac,
                100 * accuracy->max_frac);
    dl_accuracy_scatter(&lines, accuracy, sweep);
    for (size_t i = 0; i < lines.count; i++)
        fprintf(out, "%s\n", lines.lines[i]);
}

/* --- errors by use of the rows ---------------------------------------------------------------- */

const char *const dl_verdict_names[DL_VERDICT_COUNT] = {"predicted", "too few rows", "reproduced",
                                                        "no measurement"};

static void add_error(dl_error_sum *sum, double error_frac)
{
    sum->points++;
    sum->sum_frac += fabs(error_frac);
    sum->max_frac = fmax(sum->max_frac, fabs(error_frac));
}

void dl_errors_add(dl_errors *errors, dl_measured_use use, int rows, double error_frac,
                   double left_out_frac)
{
    errors->use[use].rows += rows;
    if (use == DL_USE_ERROR) return;
    add_error(&errors->use[use], error_frac);
    if (isnan(left_out_frac)) return;
    errors->left_out.rows += rows;
    add_error(&errors->left_out, left_out_frac);
}

dl_errors dl_errors_of(const dl_sweep *sweep, const dl_measured *measured)
{
    bool any_fitted = false;
    for (size_t i = 0; i < sweep->row_count; i++)
        any_fitted |= measured[i].use == DL_USE_FITTED || measured[i].use == DL_USE_TRACED;
    dl_errors errors = {0};
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_measured *m = &measured[i];
        if (m->use == DL_USE_ERROR) dl_errors_add(&errors, m->use, m->failed_runs, 0, (double)NAN);
        if (m->runs == 0 || sweep->rows[i].error != NULL) continue;
        const double error = sweep->rows[i].mean.throughput_per_s / m->value[DL_MEASURE_PER_S] - 1;
        dl_errors_add(&errors, m->use, m->runs, error, any_fitted ? m->left_out_frac : error);
    }
    return errors;
}

static void merge(dl_error_sum *sum, const dl_error_sum *more)
{
    sum->points += more->points;
    sum->rows += more->rows;
    sum->sum_frac += more->sum_frac;
    sum->max_frac = fmax(sum->max_frac, more->max_frac);
}

void dl_errors_merge(dl_errors *errors, const dl_errors *more)
{
    for (int use = 0; use < DL_USE_COUNT; use++)
        merge(&errors->use[use], &more->use[use]);
    merge(&errors->left_out, &more->left_out);
}

double dl_error_mean(const dl_error_sum *sum)
{
    return sum->points > 0 ? sum->sum_frac / sum->points : (double)NAN;
}

dl_verdict dl_errors_verdict(const dl_errors *errors)
{
    const int unseen = errors->use[DL_USE_UNSEEN].points;
    if (unseen >= 2) return DL_VERDICT_PREDICTED;
    if (unseen + errors->use[DL_USE_CONTRADICTION].points > 0) return DL_VERDICT_TOO_FEW_ROWS;
    return errors->use[DL_USE_FITTED].points > 0 ? DL_VERDICT_REPRODUCED
                                                 : DL_VERDICT_NO_MEASUREMENT;
}

bool dl_errors_within_bar(const dl_errors *errors)
{
    const dl_error_sum *unseen = &errors->use[DL_USE_UNSEEN];
    return unseen->points == 0 ||
           (dl_error_mean(unseen) <= DL_BAR_MEAN_FRAC && unseen->max_frac <= DL_BAR_MAX_FRAC);
}
