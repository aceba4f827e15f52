/* Fits of logs, and their reports as text and JSON. */
#include "calibrate/links/links.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/evaluate/evaluate.h"
#include "calibrate/links/links_internal.h"
#include "common/alloc.h"
#include "common/json.h"
#include "common/options.h"
#include "common/rows.h"
#include "common/sort.h"
#include "common/units.h"

#define MISS_FRAC 0.1 /* relative errors at left-out sizes above this are reported */

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

/* Notes which parameters the series' sizes do not determine. */
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
                     "%s: the latency is not determined: even the smallest size, %s, takes much "
                     "longer; measure smaller sizes",
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
        if (r->changes) {
            dl_notes_add(&links->notes,
                         "%s: from %s to %s additional bytes take the time of %s/s, but no size "
                         "reaches more than %s/s: %s, not the rate of a link",
                         name, DL_BYTES_TEXT(s->points[r->first].bytes),
                         DL_BYTES_TEXT(s->points[r->last].bytes),
                         DL_BYTES_TEXT(DL_NS_PER_S / r->ns_per_byte.value),
                         DL_BYTES_TEXT(fit->fastest_per_s),
                         k > 0 ? "a change of protocol or of the number of channels"
                               : "mostly latency");
            continue;
        }
        if (r->latency_ns.count > 2 || fit->regime_count == 1) continue;
        dl_notes_add(
            &links->notes,
            "%s: regime %zu has only two sizes, so any line fits: its errors assume %.0f %% noise",
            name, k + 1, 100 * fit->noise_frac);
    }
    if (s->one_start) {
        dl_notes_add(&links->notes,
                     "%s: one start of the processes, so the errors do not include the differences "
                     "between starts; measure five or more",
                     name);
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
    if (series->count >= DL_LINK_EVALUATE_MIN) {
        result->evaluation = dl_calloc(2, sizeof *result->evaluation, "evaluations");
    }
    for (size_t start = 0; start < 2 && result->evaluation != NULL && status == DL_OK; start++) {
        status = dl_link_evaluate(&result->evaluation[start], series->points, series->count, start,
                                  &result->fit, err);
    }
    if (status == DL_OK) note_series(links, result);
    return status;
}

/* Notes on peer access between GPUs, from p2pBandwidthLatencyTest. */
static void note_peers(dl_link_results *links)
{
    const dl_link_data *data = links->data;
    DL_AUTOFREE double *rates = dl_calloc(data->rate_count, sizeof *rates, "rates");
    size_t n = 0;
    for (size_t i = 0; i < data->rate_count; i++)
        if (strcmp(data->rates[i].name, "GPU and GPU, P2P=Disabled") == 0)
            rates[n++] = data->rates[i].value;
    if (data->wrong > 0) {
        dl_notes_add(&links->notes,
                     "%d times are of calls with wrong results (#wrong above 0, first in %s): the "
                     "hardware or the library is faulty, and so may be the times",
                     data->wrong, data->first_wrong);
    }
    if (data->peerless > 0) {
        dl_notes_add(&links->notes,
                     "%d of %d pairs of GPUs cannot access each other's memory: copies between "
                     "them go through host memory, with P2P=Enabled too (peer = none of a machine "
                     "file)",
                     data->peerless, data->peerless + data->peers);
    }
    if (n > 0) {
        dl_notes_add(&links->notes,
                     "through host memory a GPU sends and receives %s/s together (median): [shm] "
                     "bytes_per_s of a machine file, if NCCL copies like the driver",
                     DL_BYTES_TEXT(dl_fit_median(rates, n).value));
    }
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
        dl_notes_add(&links->notes, "%s: one size cannot separate latency from bandwidth; left out",
                     dl_link_series_text(name, sizeof name, &data->series[i]));
    }
    if (status == DL_OK && links->count == 0 && data->rate_count == 0) {
        status = dl_error_set(err, DL_ERR_DATA,
                              "no collective has two sizes, so neither latency nor bandwidth "
                              "follows: measure several "
                              "(-b 8 -e 1G -f 2)");
    }
    note_peers(links);
    if (status == DL_OK) dl_link_scalings_fit(links);
    if (status != DL_OK) dl_link_results_free(links);
    return status;
}

void dl_link_results_free(dl_link_results *links)
{
    for (size_t i = 0; i < links->count; i++) {
        dl_link_fit_free(&links->results[i].fit);
        for (size_t start = 0; start < 2 && links->results[i].evaluation != NULL; start++)
            dl_link_evaluation_free(&links->results[i].evaluation[start]);
        free(links->results[i].evaluation);
    }
    free(links->results);
    for (size_t i = 0; i < links->scaling_count; i++)
        dl_link_scaling_free(&links->scalings[i]);
    free(links->scalings);
    dl_notes_free(&links->notes);
    *links = (dl_link_results){0};
}

static void print_regimes(const dl_link_result *result, FILE *out)
{
    const dl_link_series *s = result->series;
    dl_rows to = {.out = out, .indent = 2};
    dl_rows_begin(&to, NULL, NULL);
    for (size_t k = 0; k < result->fit.regime_count; k++) {
        const dl_link_regime *r = &result->fit.regimes[k];
        const bool latency = r->latency_determined && !(r->changes && k > 0);
        const bool rate = r->bandwidth_determined && !r->changes;
        DL_AUTOFREE char *text =
            dl_format("%s/s", DL_BYTES_TEXT(DL_NS_PER_S / r->ns_per_byte.value));
        dl_rows_add(&to,
                    "|from=%gB |to=%gB |latency=%s |error %%=%.1f%% |bandwidth=%s |error %%=%.1f%% "
                    "|n=%lld",
                    s->points[r->first].bytes, s->points[r->last].bytes,
                    latency               ? DL_NS_TEXT(r->latency_ns.value)
                    : r->changes && k > 0 ? "changes over"
                                          : "not determined",
                    latency ? r->latency_ns.error / r->latency_ns.value : (double)NAN,
                    rate         ? text
                    : r->changes ? "none"
                                 : "not determined",
                    rate ? r->ns_per_byte.error / r->ns_per_byte.value : (double)NAN,
                    (long long)r->latency_ns.count);
    }
    dl_rows_end(&to, 0);
}

/* Prints a line such as " 5 starts: from 0.93 to 1.12 of the medians, whose standard error is 4.1
 * %". */
static void print_starts(const dl_link_series *s, FILE *out)
{
    if (s->start_count == 0) return;
    fprintf(out,
            "  %zu starts: from %.2f to %.2f of the medians, whose standard error is %.1f %%\n",
            s->start_count, gsl_stats_min(s->starts, 1, s->start_count),
            gsl_stats_max(s->starts, 1, s->start_count), 100 * s->start_error_frac);
}

static void print_outliers(const dl_link_result *result, FILE *out)
{
    for (size_t i = 0; i < result->fit.count; i++) {
        const dl_link_point *point = &result->series->points[i];
        if (!result->fit.outlier[i]) continue;
        fprintf(out, "  outlier: %s, fitted %+.1f %% of measured", DL_BYTES_TEXT(point->bytes),
                100 * result->fit.residual[i]);
        if (point->line > 0) fprintf(out, " (line %d)", point->line);
        fputc('\n', out);
    }
}

static void print_errors(const char *what, const dl_link_errors *errors, FILE *out)
{
    fprintf(out, "%s mean %.1f %%, largest %.1f %% (%s)", what, 100 * errors->mean_frac,
            100 * errors->max_frac, DL_BYTES_TEXT(errors->max_bytes));
}

static void print_series(const dl_link_result *result, FILE *out)
{
    const dl_link_series *s = result->series;
    char name[128];
    fprintf(out, "\n%.60s", dl_link_series_text(name, sizeof name, s));
    if (s->device != NULL) fprintf(out, ", %.40s", s->device);
    if (s->nodes > 1) fprintf(out, ", %d nodes", s->nodes);
    fprintf(out, "\n  %.60s, %zu sizes\n", dl_base_name(s->path), s->count);
    print_regimes(result, out);
    fprintf(out, "  residuals: root mean square %.2f %%; times scatter by %.2g %%\n",
            100 * result->fit.rms_frac, 100 * result->fit.noise_frac);
    print_starts(s, out);
    print_outliers(result, out);
    if (result->evaluation == NULL) return;
    const dl_link_evaluation *e = &result->evaluation[0];
    const size_t without = e->rest.count > 0 ? e->fit.count - e->rest.count : 0;
    print_errors("  every second size left out:", without > 0 ? &e->rest : &e->fit, out);
    print_errors("\n    latency + bytes/bandwidth:", without > 0 ? &e->usual_rest : &e->usual, out);
    if (without > 0)
        fprintf(out, "\n    without %zu of these %zu: outliers, or times of two digits", without,
                e->fit.count);
    fputc('\n', out);
}

/* Prints a title such as "allreduce in place over nodes of 8 ranks: 1, 2, 4" and the scaling. */
static void print_scaling(const dl_link_scaling *s, FILE *out)
{
    fprintf(out, "\n%s%s%s over ", s->name, s->place != DL_LINK_ANYWHERE ? " " : "",
            dl_link_place_names[s->place]);
    if (s->by_nodes) {
        fprintf(out, "nodes of %d ranks:", s->ranks_per_node);
    } else {
        fprintf(out, "ranks of a node:");
    }
    for (size_t i = 0; i < s->count; i++)
        fprintf(out, "%s %.0f", i > 0 ? "," : "", s->counts[i]);
    fputc('\n', out);
    DL_GROUPS (first, end, s->sizes, s->law[end] == s->law[first]) {
        fprintf(out, "  %9s to %9s grows with the %s\n", DL_BYTES_TEXT(s->bytes[first]),
                DL_BYTES_TEXT(s->bytes[end - 1]), dl_link_law_name(s->law[first]));
    }
    fprintf(out,
            "  each count left out: mean %.1f %%, largest %.1f %%\n"
            "  the largest, %.0f, from those below: mean %.1f %%\n",
            100 * s->left_out_mean, 100 * s->left_out_max, s->counts[s->count - 1],
            100 * s->last_mean);
}

bool dl_link_same_test(const dl_link_rate *a, const dl_link_rate *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->path, b->path) == 0;
}

bool dl_link_is_first(const dl_link_data *data, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (dl_link_same_test(&data->rates[i], &data->rates[index])) return false;
    return true;
}

dl_link_range dl_link_range_of(double *values, size_t n)
{
    const double none = (double)NAN;
    if (n == 0) return (dl_link_range){none, none, none};
    gsl_sort(values, 1, n);
    return (dl_link_range){gsl_stats_median_from_sorted_data(values, 1, n), values[0],
                           values[n - 1]};
}

/* Formats a rate or a latency with its unit; the caller frees the text. */
static char *rate_text(double value, bool is_latency)
{
    return is_latency ? dl_strdup(DL_NS_TEXT(value)) : dl_format("%s/s", DL_BYTES_TEXT(value));
}

/* Adds a row with the lowest, median and highest rate of the test that starts at rate `first`. */
static void put_rates(dl_rows *to, const dl_link_data *data, size_t first)
{
    const dl_link_rate *rates = data->rates;
    size_t n = 0;
    DL_AUTOFREE double *values = dl_calloc(data->rate_count, sizeof *values, "rates");
    for (size_t i = first; i < data->rate_count; i++)
        if (dl_link_same_test(&rates[i], &rates[first])) values[n++] = rates[i].value;
    const dl_link_range range = dl_link_range_of(values, n);
    DL_AUTOFREE char *low = rate_text(range.least, rates[first].is_latency);
    DL_AUTOFREE char *median = rate_text(range.median, rates[first].is_latency);
    DL_AUTOFREE char *high = rate_text(range.most, rates[first].is_latency);
    dl_rows_add(to, "|test=%-s |lowest=%s |median=%s |highest=%s |n=%zu", rates[first].name, low,
                median, high, n);
}

void dl_link_results_print(const dl_link_results *links, FILE *out)
{
    const dl_link_data *data = links->data;
    fprintf(out, "dlcal %s: %zu series, %zu single rates\n", dl_version(), links->count,
            data->rate_count);
    for (size_t i = 0; i < links->count; i++)
        print_series(&links->results[i], out);
    for (size_t i = 0; i < links->scaling_count; i++)
        print_scaling(&links->scalings[i], out);
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "rates of one size");
    for (size_t i = 0; i < data->rate_count; i++)
        if (dl_link_is_first(data, i)) put_rates(&to, data, i);
    dl_rows_end(&to, 0);
    dl_notes_print(&links->notes, "\nnotes\n", "  - ", out);
}

static void print_evaluation(const dl_link_result *result, size_t begin, FILE *out)
{
    char name[128];
    const dl_link_evaluation *j = &result->evaluation[begin];
    fprintf(out, "%-34.34s %4zu %3zu %6.1f %6.1f %8s %6.1f %6.1f\n",
            dl_link_series_text(name, sizeof name, result->series), j->fit.count, j->regimes,
            100 * j->fit.mean_frac, 100 * j->fit.max_frac, DL_BYTES_TEXT(j->fit.max_bytes),
            100 * j->usual.mean_frac, 100 * j->usual.max_frac);
}

/* Prints sizes, other than outliers, whose error exceeds MISS_FRAC. */
static void print_misses(const dl_link_result *result, size_t begin, FILE *out)
{
    for (size_t i = 0; i < result->fit.count; i++) {
        const dl_link_point *point = &result->series->points[i];
        const double error = result->evaluation[begin].error_frac[i];
        const double beside = result->evaluation[begin].beside_frac[i];
        if (!(fabs(error) > MISS_FRAC) || result->fit.outlier[i]) continue;
        fprintf(out, "  missed: %s, %+.1f %%", DL_BYTES_TEXT(point->bytes), 100 * error);
        if (!isnan(beside)) fprintf(out, "; by the neighbouring sizes %+.1f %%", 100 * beside);
        if (point->error_frac > DL_LINK_COARSE_FRAC) {
            fprintf(out, "; printed to %.0f %%", 100 * point->error_frac);
        }
        fputc('\n', out);
    }
}

/* Merges the errors into the mean and the maximum over all left-out sizes. */
static void add_errors(dl_link_errors *sum, const dl_link_errors *errors)
{
    if (errors->count == 0) return;
    sum->mean_frac += (errors->mean_frac - sum->mean_frac) * (double)errors->count /
                      (double)(sum->count + errors->count);
    sum->count += errors->count;
    sum->max_frac = fmax(sum->max_frac, errors->max_frac);
}

static void add_sum(dl_rows *to, const char *what, const dl_link_errors *e)
{
    dl_rows_add(to, "|=%-s |sizes=%zu |mean %%=%.1f%% |largest %%=%.1f%%", what, e->count,
                e->mean_frac, e->max_frac);
}

void dl_link_results_print_evaluations(const dl_link_results *links, FILE *out)
{
    dl_link_errors fit = {0}, rest = {0}, even = {0}, usual = {0};
    const char *path = "";
    fprintf(out, "sizes that were left out: error of the regimes and of latency + bytes/bandwidth\n"
                 "(two rows per series: fitted to sizes 1, 3, 5, ...; to 2, 4, 6, ...)\n");
    for (size_t i = 0; i < links->count; i++) {
        const dl_link_result *r = &links->results[i];
        if (r->evaluation == NULL) continue;
        if (strcmp(path, r->series->path) != 0) {
            path = r->series->path;
            fprintf(out, "\n%.79s\n%-34s %4s %3s %6s %6s %8s %6s %6s\n", dl_base_name(path), "",
                    "n", "reg", "mean %", "max %", "at", "usual", "max %");
        }
        for (size_t begin = 0; begin < 2; begin++) {
            print_evaluation(r, begin, out);
            print_misses(r, begin, out);
            add_errors(&fit, &r->evaluation[begin].fit);
            add_errors(&rest, &r->evaluation[begin].rest);
            add_errors(&even, &r->evaluation[begin].even);
            add_errors(&usual, &r->evaluation[begin].usual);
        }
        print_outliers(r, out);
    }
    dl_rows to = {.out = out, .indent = 2};
    dl_rows_begin(&to, NULL, "all");
    add_sum(&to, "regimes", &fit);
    add_sum(&to, "regimes, without outliers and times of two digits", &rest);
    add_sum(&to, "regimes, where the neighbouring sizes predict it within 10 %", &even);
    add_sum(&to, "latency + bytes/bandwidth", &usual);
    dl_rows_end(&to, 0);
}

static void write_estimate(dl_json *to, const char *name, const dl_estimate *e, bool determined)
{
    dl_json_object(to, name, "value=%g error=%g determined=%hhd", e->value, e->error, determined);
}

static void write_regimes(dl_json *to, const dl_link_result *result)
{
    DL_JSON_LIST (to, "regimes", k, result->fit.regime_count) {
        const dl_link_regime *r = &result->fit.regimes[k];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "from_bytes", r->low_bytes);
        dl_json_number_item(to, "to_bytes", r->high_bytes); /* null for the last regime */
        dl_json_number_item(to, "sizes", (double)r->latency_ns.count);
        write_estimate(to, "latency_ns", &r->latency_ns, r->latency_determined);
        write_estimate(to, "ns_per_byte", &r->ns_per_byte, r->bandwidth_determined);
        dl_json_members(to, "changes=%hhd", r->changes);
        dl_json_end(to, '}');
    }
    DL_JSON_LIST (to, "curve", i, result->fit.vertex_count) {
        const dl_link_vertex *v = &result->fit.vertices[i];
        dl_json_object(to, NULL, "bytes=%g time_ns=%g error_ns=%g", v->bytes, v->time_ns,
                       v->error_ns);
    }
}

static void write_points(dl_json *to, const dl_link_result *result)
{
    DL_JSON_LIST (to, "sizes", i, result->fit.count) {
        const dl_link_point *p = &result->series->points[i];
        dl_json_object(
            to, NULL, "bytes=%g time_ns=%g line=%d samples=%g error_frac=%g outlier=%hhd", p->bytes,
            p->time_ns, p->line, (double)p->count, result->fit.residual[i], result->fit.outlier[i]);
    }
}

static void write_errors(dl_json *to, const char *name, const dl_link_errors *errors)
{
    dl_json_object(to, name, "sizes=%g mean_frac=%g max_frac=%g max_bytes=%g",
                   (double)errors->count, errors->mean_frac, errors->max_frac, errors->max_bytes);
}

static void write_evaluations(dl_json *to, const dl_link_result *result)
{
    const size_t count = result->evaluation != NULL ? 2 : 0;
    DL_JSON_LIST (to, "left_out", begin, count) {
        const dl_link_evaluation *j = &result->evaluation[begin];
        dl_json_begin(to, NULL, '{');
        write_errors(to, "regimes", &j->fit);
        write_errors(to, "regimes_without_outliers", &j->rest);
        write_errors(to, "regimes_at_even_sizes", &j->even);
        write_errors(to, "latency_and_bandwidth", &j->usual);
        dl_json_end(to, '}');
    }
}

static void write_series(dl_json *to, const dl_link_result *result)
{
    const dl_link_series *s = result->series;
    dl_json_begin(to, NULL, '{');
    dl_json_members(to, "file=%s name=%s", dl_base_name(s->path), s->name);
    if (s->device != NULL) dl_json_text_item(to, "device", s->device);
    dl_json_members(to, "collective=%hhd ranks=%d nodes=%d place=%s", s->collective, s->ranks,
                    s->nodes, dl_link_place_names[s->place]);
    write_regimes(to, result);
    dl_json_number_item(to, "rms_frac", result->fit.rms_frac);
    dl_json_number_item(to, "noise_frac", result->fit.noise_frac);
    write_points(to, result);
    write_evaluations(to, result);
    dl_json_end(to, '}');
}

static void write_rates(dl_json *to, const dl_link_data *data)
{
    DL_JSON_LIST (to, "rates", i, data->rate_count) {
        const dl_link_rate *r = &data->rates[i];
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "file=%s name=%s pair=%s", dl_base_name(r->path), r->name, r->pair);
        dl_json_number_item(to, r->is_latency ? "latency_ns" : "bytes_per_s", r->value);
        dl_json_number_item(to, "line", r->line);
        dl_json_end(to, '}');
    }
}

static void write_members(dl_json *to, const void *report)
{
    const dl_link_results *links = report;
    DL_JSON_LIST (to, "series", i, links->count)
        write_series(to, &links->results[i]);
    write_rates(to, links->data);
    DL_JSON_LIST (to, "scalings", i, links->scaling_count) {
        const dl_link_scaling *s = &links->scalings[i];
        dl_json_object(to, NULL,
                       "name=%s place=%s by_nodes=%hhd ranks_per_node=%d counts=%zu largest=%g "
                       "left_out_mean_frac=%g left_out_max_frac=%g largest_mean_frac=%g",
                       s->name, dl_link_place_names[s->place], s->by_nodes, s->ranks_per_node,
                       s->count, s->counts[s->count - 1], s->left_out_mean, s->left_out_max,
                       s->last_mean);
    }
}

dl_status dl_link_results_json_write(const dl_link_results *links, const char *path, dl_error *err)
{
    return dl_json_report_write(path, write_members, links, &links->notes, err);
}
