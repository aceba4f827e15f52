#include "calibrate/links/links_report.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/dataset.h"
#include "common/alloc.h"
#include "common/options.h"
#include "common/units.h"

#define MISS_FRAC 0.1 /* errors of left-out sizes that are named */

const char *dl_link_series_text(char *text, size_t bytes, const dl_link_series *series)
{
    char group[64] = "";
    if (series->collective && series->ranks > 0) {
        snprintf(group, sizeof group, " %d ranks", series->ranks);
    } else if (!series->collective && series->ranks > 1) {
        snprintf(group, sizeof group, " %d at once", series->ranks);
    }
    snprintf(text, bytes, "%s%s%s%s", series->name, group,
             series->place != DL_LINK_ANYWHERE ? " " : "", dl_link_place_names[series->place]);
    return text;
}

/* What a series' sizes leave open. */
static void note_series(dl_link_results *links, const dl_link_result *result)
{
    char name[128], size[32];
    const dl_link_series *s = result->series;
    const dl_link_fit *fit = &result->fit;
    const dl_link_regime *first = &fit->regimes[0], *last = &fit->regimes[fit->regime_count - 1];
    dl_link_series_text(name, sizeof name, s);
    dl_format_bytes(size, sizeof size, s->points[0].bytes);
    const double smallest_ns = dl_link_fit_time_ns(fit, s->points[0].bytes);
    if (!first->latency_determined) {
        dl_notes_add(&links->notes,
                     "%s: the latency is not determined: the smallest size, %s, takes long beside "
                     "it; measure smaller ones",
                     name, size);
    } else if (first->latency_ns.value < smallest_ns / 2) {
        dl_notes_add(&links->notes,
                     "%s: the latency is extrapolated from %s on, where it is %.0f %% of the time; "
                     "smaller sizes may use another protocol",
                     name, size, 100 * first->latency_ns.value / smallest_ns);
    }
    if (!last->bandwidth_determined) {
        dl_notes_add(&links->notes,
                     "%s: the bandwidth is not determined: time hardly grows up to the largest "
                     "size; measure larger ones",
                     name);
    }
    for (size_t k = 0; k < fit->regime_count; k++) {
        const dl_link_regime *r = &fit->regimes[k];
        if (r->latency_ns.count > 2 || fit->regime_count == 1) continue;
        dl_notes_add(&links->notes,
                     "%s: regime %zu has two sizes, which any line fits: its errors are those of "
                     "%.0f %% noise",
                     name, k + 1, 100 * DL_LINK_REPEAT_FRAC);
    }
}

static dl_status fit_series(dl_link_results *links, const dl_link_series *series, dl_error *err)
{
    dl_link_result *result = &links->results[links->count];
    result->series = series;
    dl_error inner = {0};
    dl_status status = dl_link_fit_run(&result->fit, series->points, series->count, &inner);
    if (status != DL_OK) {
        return dl_error_set_at(err, status, series->path, series->points[0].line, "%s: %s",
                               series->name, inner.text);
    }
    links->count++;
    result->judged = series->count >= DL_LINK_JUDGE_MIN;
    for (size_t begin = 0; begin < 2 && result->judged && status == DL_OK; begin++) {
        status = dl_link_judge(&result->judgement[begin], series->points, series->count, begin,
                               &result->fit, err);
    }
    if (status == DL_OK) note_series(links, result);
    return status;
}

dl_status dl_link_results_fit(dl_link_results *links, const dl_link_data *data, dl_error *err)
{
    dl_status status = DL_OK;
    *links = (dl_link_results){.data = data};
    links->results = dl_calloc(data->series_count, sizeof *links->results, "fits");
    for (size_t i = 0; i < data->series_count && status == DL_OK; i++) {
        char name[128];
        if (data->series[i].count >= 2) {
            status = fit_series(links, &data->series[i], err);
            continue;
        }
        dl_notes_add(&links->notes, "%s: one size does not tell latency from bandwidth; left out",
                     dl_link_series_text(name, sizeof name, &data->series[i]));
    }
    if (status == DL_OK && links->count == 0 && data->rate_count == 0) {
        status = dl_error_set(err, DL_ERR_DATA, "no series has two sizes");
    }
    if (status != DL_OK) dl_link_results_free(links);
    return status;
}

void dl_link_results_free(dl_link_results *links)
{
    for (size_t i = 0; i < links->count; i++) {
        dl_link_fit_free(&links->results[i].fit);
        dl_link_judgement_free(&links->results[i].judgement[0]);
        dl_link_judgement_free(&links->results[i].judgement[1]);
    }
    free(links->results);
    dl_notes_free(&links->notes);
    *links = (dl_link_results){0};
}

/* "34.6 us +- 0.3 %" */
static void print_value(FILE *out, int width, const char *value, double error_frac)
{
    fprintf(out, " %*s", width, value);
    if (isfinite(error_frac)) {
        fprintf(out, " +- %5.1f %%", 100 * error_frac);
    } else {
        fprintf(out, "           ");
    }
}

static void print_regime(const dl_link_regime *r, const dl_link_series *s, FILE *out)
{
    char from[32], to[32], latency[32] = "not determined", rate[40] = "not determined";
    double latency_error = (double)INFINITY, rate_error = (double)INFINITY;
    dl_format_bytes(from, sizeof from, s->points[r->first].bytes);
    dl_format_bytes(to, sizeof to, s->points[r->last].bytes);
    if (r->latency_determined) {
        dl_format_ns(latency, sizeof latency, r->latency_ns.value);
        latency_error = r->latency_ns.error / r->latency_ns.value;
    }
    if (r->bandwidth_determined) {
        char amount[32];
        dl_format_bytes(amount, sizeof amount, DL_NS_PER_S / r->ns_per_byte.value);
        snprintf(rate, sizeof rate, "%s/s", amount);
        rate_error = r->ns_per_byte.error / r->ns_per_byte.value;
    }
    fprintf(out, "  %9s %9s", from, to);
    print_value(out, 14, latency, latency_error);
    print_value(out, 14, rate, rate_error);
    fprintf(out, " %4lld\n", (long long)r->latency_ns.count);
}

static void print_outliers(const dl_link_result *result, FILE *out)
{
    for (size_t i = 0; i < result->fit.count; i++) {
        char size[32];
        const dl_link_point *point = &result->series->points[i];
        if (!result->fit.outlier[i]) continue;
        fprintf(out, "  outlier: %s, fitted %+.1f %% of measured",
                dl_format_bytes(size, sizeof size, point->bytes), 100 * result->fit.residual[i]);
        if (point->line > 0) fprintf(out, " (line %d)", point->line);
        fputc('\n', out);
    }
}

static void print_errors(const char *what, const dl_link_errors *errors, FILE *out)
{
    char size[32];
    fprintf(out, "%s mean %.1f %%, largest %.1f %% (%s)", what, 100 * errors->mean_frac,
            100 * errors->max_frac, dl_format_bytes(size, sizeof size, errors->max_bytes));
}

static void print_series(const dl_link_result *result, FILE *out)
{
    const dl_link_series *s = result->series;
    char name[128];
    fprintf(out, "\n%.60s", dl_link_series_text(name, sizeof name, s));
    if (s->device != NULL) fprintf(out, ", %.40s", s->device);
    if (s->nodes > 1) fprintf(out, ", %d nodes", s->nodes);
    fprintf(out, "\n  %.60s, %zu sizes\n", dl_base_name(s->path), s->count);
    fprintf(out, "  %9s %9s %14s %10s %14s %10s %4s\n", "from", "to", "latency", "", "bandwidth",
            "", "n");
    for (size_t k = 0; k < result->fit.regime_count; k++)
        print_regime(&result->fit.regimes[k], s, out);
    fprintf(out, "  residuals: root mean square %.2f %%\n", 100 * result->fit.rms_frac);
    print_outliers(result, out);
    if (!result->judged) return;
    print_errors("  every second size left out:", &result->judgement[0].fit, out);
    print_errors("\n    latency + bytes/bandwidth:", &result->judgement[0].usual, out);
    fputc('\n', out);
}

static bool same_test(const dl_link_rate *a, const dl_link_rate *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->path, b->path) == 0;
}

static void print_rate(double value, bool is_latency, FILE *out)
{
    char text[40], amount[32];
    if (is_latency) {
        dl_format_ns(text, sizeof text, value);
    } else {
        snprintf(text, sizeof text, "%s/s", dl_format_bytes(amount, sizeof amount, value));
    }
    fprintf(out, " %11s", text);
}

/* Rates of the first one's test: lowest, median, highest. Nothing if an earlier one is of it. */
static void print_rates(const dl_link_data *data, size_t first, FILE *out)
{
    const dl_link_rate *rates = data->rates;
    size_t n = 0;
    for (size_t i = 0; i < first; i++) {
        if (same_test(&rates[i], &rates[first])) return;
    }
    double *values = dl_calloc(data->rate_count, sizeof *values, "rates");
    for (size_t i = first; i < data->rate_count; i++) {
        if (same_test(&rates[i], &rates[first])) values[n++] = rates[i].value;
    }
    gsl_sort(values, 1, n);
    fprintf(out, "  %-37.37s", rates[first].name);
    print_rate(values[0], rates[first].is_latency, out);
    print_rate(gsl_stats_median_from_sorted_data(values, 1, n), rates[first].is_latency, out);
    print_rate(values[n - 1], rates[first].is_latency, out);
    fprintf(out, " %3zu\n", n);
    free(values);
}

void dl_link_results_print(const dl_link_results *links, FILE *out)
{
    const dl_link_data *data = links->data;
    fprintf(out, "dlcal %s: %zu series, %zu single rates\n", dl_version(), links->count,
            data->rate_count);
    for (size_t i = 0; i < links->count; i++)
        print_series(&links->results[i], out);
    if (data->rate_count > 0) {
        fprintf(out, "\nrates of one size\n  %-37s %11s %11s %11s %3s\n", "", "lowest", "median",
                "highest", "n");
    }
    for (size_t i = 0; i < data->rate_count; i++)
        print_rates(data, i, out);
    if (links->notes.count > 0) fprintf(out, "\nnotes\n");
    dl_notes_print(&links->notes, out);
}

static void print_judgement(const dl_link_result *result, size_t begin, FILE *out)
{
    char name[128], size[32];
    const dl_link_judgement *j = &result->judgement[begin];
    fprintf(out, "%-34.34s %4zu %3zu %6.1f %6.1f %8s %6.1f %6.1f\n",
            dl_link_series_text(name, sizeof name, result->series), j->fit.count, j->regimes,
            100 * j->fit.mean_frac, 100 * j->fit.max_frac,
            dl_format_bytes(size, sizeof size, j->fit.max_bytes), 100 * j->usual.mean_frac,
            100 * j->usual.max_frac);
}

/* Sizes that are off by more than MISS_FRAC though they are no outliers. */
static void print_misses(const dl_link_result *result, size_t begin, FILE *out)
{
    for (size_t i = 0; i < result->fit.count; i++) {
        char size[32];
        const dl_link_point *point = &result->series->points[i];
        const double error = result->judgement[begin].error_frac[i];
        const double beside = result->judgement[begin].beside_frac[i];
        if (!(fabs(error) > MISS_FRAC) || result->fit.outlier[i]) continue;
        fprintf(out, "  missed: %s, %+.1f %%", dl_format_bytes(size, sizeof size, point->bytes),
                100 * error);
        if (!isnan(beside)) fprintf(out, "; by the sizes beside it %+.1f %%", 100 * beside);
        if (point->error_frac > DL_LINK_COARSE_FRAC) {
            fprintf(out, "; printed to %.0f %%", 100 * point->error_frac);
        }
        fputc('\n', out);
    }
}

/* Mean over all sizes that were left out, and the largest. */
static void add_errors(dl_link_errors *sum, const dl_link_errors *errors)
{
    if (errors->count == 0) return;
    sum->mean_frac += (errors->mean_frac - sum->mean_frac) * (double)errors->count /
                      (double)(sum->count + errors->count);
    sum->count += errors->count;
    sum->max_frac = fmax(sum->max_frac, errors->max_frac);
}

static void print_sum(const char *what, const dl_link_errors *e, FILE *out)
{
    fprintf(out, "  %-54s %4zu sizes: mean %.1f %%, largest %.1f %%\n", what, e->count,
            100 * e->mean_frac, 100 * e->max_frac);
}

void dl_link_results_print_judgements(const dl_link_results *links, FILE *out)
{
    dl_link_errors fit = {0}, rest = {0}, even = {0}, usual = {0};
    const char *path = "";
    fprintf(out, "sizes that were left out: error of the regimes and of latency + bytes/bandwidth\n"
                 "(two rows a series: fitted to sizes 1, 3, 5, ...; to 2, 4, 6, ...)\n");
    for (size_t i = 0; i < links->count; i++) {
        const dl_link_result *r = &links->results[i];
        if (!r->judged) continue;
        if (strcmp(path, r->series->path) != 0) {
            path = r->series->path;
            fprintf(out, "\n%.79s\n%-34s %4s %3s %6s %6s %8s %6s %6s\n", dl_base_name(path), "",
                    "n", "reg", "mean %", "max %", "at", "usual", "max %");
        }
        for (size_t begin = 0; begin < 2; begin++) {
            print_judgement(r, begin, out);
            print_misses(r, begin, out);
            add_errors(&fit, &r->judgement[begin].fit);
            add_errors(&rest, &r->judgement[begin].rest);
            add_errors(&even, &r->judgement[begin].even);
            add_errors(&usual, &r->judgement[begin].usual);
        }
        print_outliers(r, out);
    }
    fprintf(out, "\nall\n");
    print_sum("regimes", &fit, out);
    print_sum("regimes, without outliers and times of two digits", &rest, out);
    print_sum("regimes, where the sizes beside tell it within 10 %", &even, out);
    print_sum("latency + bytes/bandwidth", &usual, out);
}
