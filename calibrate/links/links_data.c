#include "calibrate/links/links_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/fit.h"
#include "common/alloc.h"

const char *const dl_link_place_names[3] = {"", "out of place", "in place"};

static bool same_text(const char *a, const char *b)
{
    return (a == NULL || b == NULL) ? a == b : strcmp(a, b) == 0;
}

static char *copy_text(const char *text)
{
    return text != NULL ? dl_strdup(text) : NULL;
}

dl_link_series *dl_link_data_series(dl_link_data *data, const dl_link_series *key)
{
    for (size_t i = 0; i < data->series_count; i++) {
        dl_link_series *s = &data->series[i];
        if (same_text(s->path, key->path) && same_text(s->name, key->name) &&
            same_text(s->device, key->device) && s->collective == key->collective &&
            s->ranks == key->ranks && s->nodes == key->nodes && s->place == key->place) {
            return s;
        }
    }
    data->series = dl_realloc(data->series, data->series_count + 1, sizeof *data->series, "series");
    dl_link_series *s = &data->series[data->series_count++];
    *s = *key;
    s->path = copy_text(key->path);
    s->name = copy_text(key->name);
    s->device = copy_text(key->device);
    s->points = NULL;
    s->count = 0;
    return s;
}

void dl_link_series_add(dl_link_series *series, dl_link_point point)
{
    /* Grown by doubling: a power of two is a full array. */
    if ((series->count & (series->count - 1)) == 0) {
        const size_t room = series->count > 0 ? 2 * series->count : 1;
        series->points = dl_realloc(series->points, room, sizeof *series->points, "points");
    }
    series->points[series->count++] = point;
}

void dl_link_data_add_rate(dl_link_data *data, const dl_link_rate *rate)
{
    data->rates = dl_realloc(data->rates, data->rate_count + 1, sizeof *data->rates, "rates");
    dl_link_rate *r = &data->rates[data->rate_count++];
    *r = *rate;
    r->path = dl_strdup(rate->path);
    r->name = dl_strdup(rate->name);
    r->pair = dl_strdup(rate->pair);
}

static int by_size(const void *left, const void *right)
{
    const dl_link_point *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

/* Points of one size as one. */
static dl_link_point merged(const dl_link_point *points, size_t n)
{
    if (n == 1) return points[0];
    double *times = dl_calloc(n, sizeof *times, "times of a size");
    dl_link_point all = points[0];
    for (size_t i = 0; i < n; i++) {
        times[i] = points[i].time_ns;
        all.error_frac = fmin(all.error_frac, points[i].error_frac);
    }
    const dl_estimate median = dl_fit_median(times, n);
    all.time_ns = median.value;
    all.count = (int64_t)n;
    if (n >= 3) all.error_frac = fmax(all.error_frac, median.error / median.value);
    free(times);
    return all;
}

static void finish_series(dl_link_series *series)
{
    size_t kept = 0;
    if (series->count > 0) qsort(series->points, series->count, sizeof *series->points, by_size);
    for (size_t i = 0, end; i < series->count; i = end) {
        for (end = i + 1; end < series->count; end++) {
            if (series->points[end].bytes > series->points[i].bytes) break;
        }
        series->points[kept++] = merged(&series->points[i], end - i);
    }
    series->count = kept;
}

void dl_link_data_finish(dl_link_data *data)
{
    for (size_t i = 0; i < data->series_count; i++)
        finish_series(&data->series[i]);
}

void dl_link_data_free(dl_link_data *data)
{
    for (size_t i = 0; i < data->series_count; i++) {
        free(data->series[i].path);
        free(data->series[i].name);
        free(data->series[i].device);
        free(data->series[i].points);
    }
    for (size_t i = 0; i < data->rate_count; i++) {
        free(data->rates[i].path);
        free(data->rates[i].name);
        free(data->rates[i].pair);
    }
    free(data->series);
    free(data->rates);
    *data = (dl_link_data){0};
}
