/* Collects the data of logs: points by series, starts of a benchmark, single rates. */
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/fit.h"
#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/sort.h"
#include "common/units.h"

/* Largest credible rate in GB/s, or latency in ns. */
#define RATE_MAX 1e9

const char *const dl_link_place_names[3] = {"", "out of place", "in place"};

static bool same_text(const char *a, const char *b)
{
    return (a == NULL || b == NULL) ? a == b : strcmp(a, b) == 0;
}

static char *copy_text(const char *text)
{
    return text != NULL ? dl_strdup(text) : NULL;
}

/* Returns the series that equals *key except for the points, or a new one with copies of its texts.
 * The pointer is valid until the next call. */
static dl_link_series *find_series(dl_link_data *data, const dl_link_series *key)
{
    for (size_t i = 0; i < data->series_count; i++) {
        dl_link_series *s = &data->series[i];
        if (same_text(s->path, key->path) && same_text(s->name, key->name) &&
            same_text(s->device, key->device) && s->collective == key->collective &&
            s->ranks == key->ranks && s->nodes == key->nodes && s->place == key->place &&
            s->thread_gpus == key->thread_gpus) {
            return s;
        }
    }
    dl_link_series *s = &DL_APPEND(data->series, data->series_count, "series");
    *s = *key;
    s->path = copy_text(key->path);
    s->name = copy_text(key->name);
    s->device = copy_text(key->device);
    s->points = NULL;
    s->starts = NULL;
    s->count = s->start_count = 0;
    return s;
}

void dl_link_data_add(dl_link_data *data, const dl_link_series *key, dl_link_point point)
{
    dl_link_series *series = find_series(data, key);
    DL_APPEND(series->points, series->count, "points") = point;
}

dl_status dl_link_data_add_rate(dl_link_data *data, const dl_link_log *log,
                                const dl_link_rate_text *rate, dl_error *err)
{
    double value = 0;
    const double most = rate->is_latency ? RATE_MAX : RATE_MAX * 1e9 / rate->unit;
    const dl_status status = dl_link_log_number(log, rate->word, 0, most, &value, err);
    if (status != DL_OK || value <= 0) return status;
    DL_APPEND(data->rates, data->rate_count, "rates") =
        (dl_link_rate){.path = dl_strdup(log->path),
                       .name = dl_strdup(rate->name),
                       .pair = dl_strdup(rate->pair),
                       .value = value * rate->unit,
                       .is_latency = rate->is_latency,
                       .line = log->line};
    return DL_OK;
}

DL_ORDER(by_size, dl_link_point, DL_BY(bytes), DL_BY(line));

/* Merges points of one size into one. */
static dl_link_point merged(const dl_link_point *points, size_t n)
{
    if (n == 1) return points[0];
    DL_AUTOFREE double *times = dl_calloc(n, sizeof *times, "times of a size");
    dl_link_point all = points[0];
    for (size_t i = 0; i < n; i++) {
        times[i] = points[i].time_ns;
        all.error_frac = fmin(all.error_frac, points[i].error_frac);
    }
    const dl_estimate median = dl_fit_median(times, n);
    all.time_ns = median.value;
    all.count = (int64_t)n;
    if (n >= 3) all.error_frac = fmax(all.error_frac, median.error / median.value);
    return all;
}

DL_ORDER(by_start, dl_link_point, DL_BY(start), DL_BY(line));

static double time_of_size(const dl_link_series *series, double bytes)
{
    size_t i = 0;
    while (i + 1 < series->count && series->points[i].bytes < bytes)
        i++;
    return series->points[i].time_ns;
}

/* Standard error of the median of n values, as a multiple of their standard deviation: sqrt(pi / (2
 * n)) for many normal values; sqrt(1 / n) for n <= 2, where the median is the mean. */
static double median_error(int64_t n)
{
    return sqrt((n > 2 ? M_PI / 2 : 1) / (double)n);
}

/* Finds the standard error of the median over starts. */
static void find_start_error(dl_link_series *series)
{
    DL_AUTOFREE double *logs = dl_calloc(series->start_count, sizeof *logs, "starts");
    for (size_t k = 0; k < series->start_count; k++)
        logs[k] = log(series->starts[k]);
    series->start_error_frac =
        gsl_stats_sd(logs, 1, series->start_count) * median_error((int64_t)series->start_count);
}

/* Finds the residual scatter, in ns, after the factors of the starts; all[n] are in the order of
 * starts. The scatter is the same for all sizes, since each time is a difference of two much longer
 * steps. */
static void find_scatter(dl_link_series *series, const dl_link_point *all, size_t n)
{
    const double free_points = (double)n - (double)(series->count + series->start_count) + 1;
    double squares = 0;
    size_t k = 0;
    if (!(free_points > 0)) return;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && all[i].start != all[i - 1].start) k++;
        const double off = all[i].time_ns - series->starts[k] * time_of_size(series, all[i].bytes);
        squares += off * off;
    }
    const double sd_ns = sqrt(squares / free_points);
    for (size_t i = 0; i < series->count; i++) {
        dl_link_point *point = &series->points[i];
        point->error_frac = sd_ns * median_error(point->count) / point->time_ns;
    }
}

/* Finds the factor of each start, its times over the merged times of the same sizes, and the
 * errors. all[n] are the points before merging. */
static void find_starts(dl_link_series *series, dl_link_point *all, size_t n)
{
    dl_sort(all, n, sizeof *all, by_start);
    if (n == 0 || all[0].start == 0 || all[0].start == all[n - 1].start) return;
    for (size_t i = 0; i < n;) {
        const int start = all[i].start;
        double own_ns = 0, typical_ns = 0;
        for (; i < n && all[i].start == start; i++) {
            own_ns += all[i].time_ns;
            typical_ns += time_of_size(series, all[i].bytes);
        }
        DL_APPEND(series->starts, series->start_count, "starts") = own_ns / typical_ns;
    }
    find_start_error(series);
    find_scatter(series, all, n);
}

/* Averages neighbouring sizes if there are more than DL_LINK_SIZES_MAX. */
static void join_neighbours(dl_link_series *series)
{
    const size_t each = (series->count + DL_LINK_SIZES_MAX - 1) / DL_LINK_SIZES_MAX;
    size_t kept = 0;
    for (size_t i = 0; each > 1 && i < series->count; i += each) {
        const size_t n = i + each < series->count ? each : series->count - i;
        dl_link_point mean = series->points[i];
        for (size_t k = 1; k < n; k++) {
            const dl_link_point *point = &series->points[i + k];
            mean.bytes += point->bytes;
            mean.time_ns += point->time_ns;
            mean.error_frac += point->error_frac;
            mean.count += point->count;
        }
        mean.bytes /= (double)n;
        mean.time_ns /= (double)n;
        mean.error_frac /= (double)n * sqrt((double)n);
        series->points[kept++] = mean;
    }
    if (kept > 0) series->count = kept;
}

static void finish_series(dl_link_series *series)
{
    size_t kept = 0;
    const size_t n = series->count;
    dl_sort(series->points, n, sizeof *series->points, by_size);
    DL_AUTOFREE dl_link_point *all = dl_calloc(n, sizeof *all, "points");
    for (size_t i = 0; i < n; i++)
        all[i] = series->points[i];
    DL_GROUPS (i, end, n, all[end].bytes <= all[i].bytes)
        series->points[kept++] = merged(&all[i], end - i);
    series->count = kept;
    series->one_start = n > 0 && all[0].start > 0;
    for (size_t i = 1; i < n; i++)
        series->one_start &= all[i].start == all[0].start;
    find_starts(series, all, n);
    join_neighbours(series);
}

static void free_series(dl_link_series *series)
{
    free(series->path);
    free(series->name);
    free(series->device);
    free(series->points);
    free(series->starts);
}

/* Adds the rate of a copy that was measured at one size. */
static void add_rate_of(dl_link_data *data, const dl_link_series *series)
{
    const dl_link_point *point = &series->points[0];
    DL_APPEND(data->rates, data->rate_count, "rates") =
        (dl_link_rate){.path = dl_strdup(series->path),
                       .name = dl_strdup(series->name),
                       .pair = dl_strdup("0 0"),
                       .value = point->bytes / point->time_ns * DL_NS_PER_S,
                       .line = point->line};
}

void dl_link_data_finish(dl_link_data *data)
{
    size_t kept = 0;
    for (size_t i = 0; i < data->series_count; i++) {
        dl_link_series *series = &data->series[i];
        finish_series(series);
        if (series->copy && series->count == 1 && series->points[0].bytes > 0) {
            add_rate_of(data, series);
            free_series(series);
        } else {
            data->series[kept++] = *series;
        }
    }
    data->series_count = kept;
}

void dl_link_data_free(dl_link_data *data)
{
    for (size_t i = 0; i < data->series_count; i++)
        free_series(&data->series[i]);
    for (size_t i = 0; i < data->rate_count; i++) {
        free(data->rates[i].path);
        free(data->rates[i].name);
        free(data->rates[i].pair);
    }
    free(data->series);
    free(data->rates);
    free(data->first_wrong);
    *data = (dl_link_data){0};
}
