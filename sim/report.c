#include "sim/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/options.h"
#include "common/units.h"
#include "sim/report_gpu.h"
#include "sim/without.h"

#define OPTIONS_WIDTH 16 /* at least */
#define OPTIONS_TEXT_BYTES 1024

/* Behind the columns of the point. */
static const char *const result_columns[] = {
    "step_mean_s",
    "step_p50_s",
    "step_p99_s",
    "step_sd_s",
    "throughput_per_s",
    "throughput_low_per_s",
    "throughput_high_per_s",
    "speedup",
    "efficiency",
    "compute_frac",
    "dispatch_frac",
    "communication_frac",
    "averaging_frac",
    "waiting_frac",
    "input_frac",
    "applied_frac",
    "updates_per_s",
    "staleness_mean",
    "staleness_sd",
    "staleness_p50",
    "staleness_p90",
    "staleness_p99",
    "staleness_max",
    "drift_steps_mean",
    "drift_steps_max",
    "clock_lag_max",
    "busiest",
    "busiest_frac",
    "origin",
    "extrapolated",
    "measured_runs",
    "measured_step_s",
    "measured_per_s",
    "measured_low_per_s",
    "measured_high_per_s",
    "error_frac",
    "measured_staleness_mean",
    "measured_staleness_sd",
    "measured_staleness_p50",
    "measured_staleness_p90",
    "measured_staleness_mean_by_worker",
    "measured_source",
    "step_mean_s_by_worker",
    "staleness_mean_by_worker",
};

static const char *const histogram_columns[] = {"worker", "staleness", "count", "frac"};

/* The point's columns and `names`; the caller ends the row. */
static void write_names(dl_csv_writer *writer, const dl_study *study, const char *const *names,
                        size_t count)
{
    static const char *const keys[] = {"cores", "workers", "batch", "sync"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        dl_csv_text(writer, keys[k]);
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        dl_csv_text(writer, dl_sync_options[o].name);
    for (size_t k = 0; k < study->key_count; k++)
        dl_csv_text(writer, study->keys[k].column);
    for (size_t i = 0; i < count; i++)
        dl_csv_text(writer, names[i]);
}

/* Settings are those of the first variant; a line names those that are swept. */
static void write_head(dl_csv_writer *writer, const char *kind, const dl_study *study)
{
    const dl_scenario *scenario = &study->variants[0].scenario;
    dl_csv_comment(writer, "dlsim %s, schema %d", kind, DL_RESULTS_SCHEMA);
    dl_csv_comment(writer, "version: dlsim %s", dl_version());
    dl_csv_comment(writer, "scenario: %s", scenario->name);
    dl_csv_comment(writer,
                   "settings: steps=%lld replicates=%lld seed=%lld noise=%s sigma=%g "
                   "average_state=%s server_threads=%d scaling=%s slow_workers=%zu",
                   (long long)scenario->steps, (long long)scenario->replicates,
                   (long long)scenario->seed, dl_noise_names[scenario->noise], scenario->sigma,
                   scenario->average_state ? "yes" : "no", scenario->server_threads,
                   scenario->batch_per_worker ? "weak" : "strong", scenario->slow_count);
    char without[DL_WITHOUT_TEXT_BYTES];
    if (scenario->without != 0) {
        dl_csv_comment(writer, "without: %s", dl_without_text(without, scenario->without));
    }
    for (size_t k = 0; k < study->key_count; k++)
        dl_csv_comment(writer, "swept: [%s] %s", study->keys[k].section, study->keys[k].key);
}

static void write_keys(dl_csv_writer *writer, const dl_study *study, const dl_row *row)
{
    const dl_point *point = &row->point;
    const dl_variant *variant = &study->variants[row->variant];
    dl_csv_double(writer, point->cores != DL_CORES_GPU ? point->cores : (double)NAN);
    dl_csv_int(writer, point->workers);
    dl_csv_int(writer, point->batch);
    dl_csv_text(writer, point->mode->name);
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        dl_csv_double(writer, dl_point_shows(point, o) ? point->option[o] : (double)NAN);
    for (size_t k = 0; k < study->key_count; k++)
        dl_csv_text(writer, dl_study_text(study, variant, point, k));
}

/* values[count] as "1;2.5"; an empty cell for NULL. */
static void write_joined(dl_csv_writer *writer, const double *values, int count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *joined = open_memstream(&text, &bytes);
    DL_ASSERT(joined != NULL, "no memory for %d numbers", count);
    for (int i = 0; values != NULL && i < count; i++) {
        char number[DL_DOUBLE_TEXT_BYTES];
        fprintf(joined, "%s%s", i > 0 ? ";" : "", dl_format_double(number, values[i]));
    }
    fclose(joined);
    dl_csv_text(writer, text);
    free(text);
}

/* Predicted over measured throughput, minus 1; NaN without a measurement. */
static double error_frac(const dl_row *row, const dl_measured *measured)
{
    return row->mean.throughput_per_s / measured->value[DL_MEASURE_PER_S] - 1;
}

static void write_doubles(dl_csv_writer *writer, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dl_csv_double(writer, values[i]);
}

static void write_measured(dl_csv_writer *writer, const dl_row *row, const dl_measured *measured)
{
    const double *value = measured->value;
    dl_csv_double(writer, measured->runs > 0 ? measured->runs : (double)NAN);
    double per_s = value[DL_MEASURE_PER_S], error = value[DL_MEASURE_PER_S_ERR];
    const double numbers[] = {
        per_s - error,
        per_s + error,
        error_frac(row, measured),
        value[DL_MEASURE_STALENESS_MEAN],
        value[DL_MEASURE_STALENESS_SD],
        value[DL_MEASURE_STALENESS_P50],
        value[DL_MEASURE_STALENESS_P90],
    };
    dl_csv_double(writer, value[DL_MEASURE_STEP_S]);
    if (measured->runs == 0 && measured->failed_runs > 0) {
        dl_csv_text(writer, "error");
    } else {
        dl_csv_double(writer, per_s);
    }
    write_doubles(writer, numbers, sizeof numbers / sizeof *numbers);
    write_joined(writer, measured->worker_staleness, row->point.workers);
    dl_csv_text(writer, measured->source != NULL ? measured->source : "");
}

static void write_row(dl_csv_writer *writer, const dl_study *study, const dl_row *row,
                      const dl_measured *measured)
{
    const dl_run_result *mean = &row->mean;
    const double *part = mean->part_frac;
    const double numbers[] = {
        mean->step_mean_s,       mean->step_p50_s,       mean->step_p99_s,
        mean->step_sd_s,         mean->throughput_per_s, row->low_per_s,
        row->high_per_s,         row->speedup,           row->efficiency,
        part[DL_PART_COMPUTE],   part[DL_PART_DISPATCH], part[DL_PART_COMMUNICATION],
        part[DL_PART_AVERAGING], part[DL_PART_WAITING],  part[DL_PART_INPUT],
        mean->applied_frac,      mean->updates_per_s,    row->staleness_mean,
        row->staleness_sd,       row->staleness_p50,     row->staleness_p90,
        row->staleness_p99,      row->staleness_max,     mean->drift_steps_mean,
        mean->drift_steps_max,   mean->clock_lag_max,
    };
    write_keys(writer, study, row);
    write_doubles(writer, numbers, sizeof numbers / sizeof *numbers);
    dl_csv_text(writer, mean->usage.busiest);
    dl_csv_double(writer, mean->usage.busiest_frac);
    dl_csv_text(writer, dl_origin_name(row->origin));
    dl_csv_int(writer, row->extrapolated);
    write_measured(writer, row, measured);
    write_joined(writer, mean->worker_step_s, mean->workers);
    write_joined(writer, row->worker_staleness, mean->workers);
}

static dl_status open_file(const char *path, FILE **out, dl_error *err)
{
    *out = fopen(path, "w");
    if (*out != NULL) return DL_OK;
    return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot create: %s", strerror(errno));
}

static dl_status close_file(const char *path, FILE *out, dl_error *err)
{
    int failed = ferror(out);
    if (fclose(out) == 0 && !failed) return DL_OK;
    return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot write: %s", strerror(errno));
}

dl_status dl_report_results(const char *path, const dl_study *study, const dl_sweep *sweep,
                            const dl_measured *measured, dl_error *err)
{
    const dl_gpu_options *gpu =
        study->variants[0].scenario.gpu; /* all variants have GPUs, or none */
    FILE *out = NULL;
    dl_status status = open_file(path, &out, err);
    if (status != DL_OK) return status;
    dl_csv_writer writer = {.out = out};
    write_head(&writer, "results", study);
    if (gpu != NULL) dl_report_gpu_head(&writer, gpu);
    write_names(&writer, study, result_columns, sizeof result_columns / sizeof *result_columns);
    if (gpu != NULL) dl_report_gpu_names(&writer);
    dl_csv_end_row(&writer);
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        write_row(&writer, study, row, &measured[i]);
        if (gpu != NULL) dl_report_gpu_row(&writer, &study->variants[row->variant].scenario, row);
        dl_csv_end_row(&writer);
    }
    return close_file(path, out, err);
}

static void write_counts(dl_csv_writer *writer, const dl_study *study, const dl_row *row,
                         int worker)
{
    int bins = row->mean.staleness_bins;
    const int64_t *counts = &row->mean.staleness[worker * bins];
    int64_t total = 0;
    for (int s = 0; s < bins; s++)
        total += counts[s];
    for (int s = 0; s < bins; s++) {
        write_keys(writer, study, row);
        dl_csv_int(writer, worker);
        dl_csv_int(writer, s);
        dl_csv_int(writer, counts[s]);
        dl_csv_double(writer, (double)counts[s] / (double)total);
        dl_csv_end_row(writer);
    }
}

dl_status dl_report_histogram(const char *path, const dl_study *study, const dl_sweep *sweep,
                              dl_error *err)
{
    FILE *out = NULL;
    dl_status status = open_file(path, &out, err);
    if (status != DL_OK) return status;
    dl_csv_writer writer = {.out = out};
    write_head(&writer, "staleness histogram", study);
    write_names(&writer, study, histogram_columns,
                sizeof histogram_columns / sizeof *histogram_columns);
    dl_csv_end_row(&writer);
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->worker_staleness == NULL) continue;
        for (int w = 0; w < row->mean.workers; w++)
            write_counts(&writer, study, row, w);
    }
    return close_file(path, out, err);
}

/* "12.3" or "-" for NaN, `width` wide. */
static void print_number(FILE *out, int width, int digits, double value)
{
    if (isnan(value)) {
        fprintf(out, " %*s", width, "-");
    } else {
        fprintf(out, " %*.*f", width, digits, value);
    }
}

/* "where gpu:0, interval 10", or "" in text[bytes]: what is swept beside the columns. */
static void list_options(char *text, size_t bytes, const dl_study *study, const dl_row *row)
{
    const dl_variant *variant = &study->variants[row->variant];
    char options[DL_POINT_TEXT_BYTES];
    size_t used = 0;
    text[0] = '\0';
    for (size_t k = 0; k < study->key_count; k++) {
        const char *value = dl_study_text(study, variant, &row->point, k);
        if (value[0] == '\0' || used >= bytes) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s %s", used > 0 ? ", " : "",
                                 study->keys[k].column, value);
    }
    dl_point_options(options, sizeof options, &row->point);
    if (options[0] == '\0' || used >= bytes) return;
    snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", options);
}

/* As wide as the longest of all rows. */
static int options_width(const dl_study *study, const dl_sweep *sweep)
{
    size_t width = OPTIONS_WIDTH;
    char text[OPTIONS_TEXT_BYTES];
    for (size_t i = 0; i < sweep->row_count && study->key_count > 0; i++) {
        list_options(text, sizeof text, study, &sweep->rows[i]);
        if (strlen(text) > width) width = strlen(text);
    }
    return (int)width;
}

typedef struct table_style {
    const dl_study *study;
    int options_width;
    bool compare;
} table_style;

static void print_row(FILE *out, const table_style *style, const dl_row *row,
                      const dl_measured *measured)
{
    const dl_point *point = &row->point;
    const dl_run_result *mean = &row->mean;
    char step[32], options[OPTIONS_TEXT_BYTES];
    print_number(out, 4, 0, point->cores != DL_CORES_GPU ? point->cores : (double)NAN);
    list_options(options, sizeof options, style->study, row);
    fprintf(out, " %7d %6lld %-11s %-*s", point->workers, (long long)point->batch,
            point->mode->name, style->options_width, options);
    if (row->error != NULL) {
        fprintf(out, " %s\n", row->error);
        return;
    }
    fprintf(out, " %10s", dl_format_ns(step, sizeof step, dl_s_to_ns(mean->step_mean_s)));
    print_number(out, 12, 1, mean->throughput_per_s);
    print_number(out, 7, 3, row->speedup);
    print_number(out, 6, 1, 100 * mean->part_frac[DL_PART_WAITING]);
    print_number(out, 9, 2, row->staleness_mean);
    if (style->compare && measured->runs == 0 && measured->failed_runs > 0) {
        fprintf(out, " %12s %7s %9s", "error", "-", "-");
    } else if (style->compare) {
        print_number(out, 12, 1, measured->value[DL_MEASURE_PER_S]);
        print_number(out, 7, 1, 100 * error_frac(row, measured));
        print_number(out, 9, 2, measured->value[DL_MEASURE_STALENESS_MEAN]);
    }
    fprintf(out, "%s\n", row->extrapolated ? "  *" : "");
}

/* "0.50 1.94", the workers' means; nothing for NULL. */
static void print_by_worker(FILE *out, const double *means, int workers)
{
    for (int w = 0; means != NULL && w < workers; w++)
        fprintf(out, " %.2f", means[w]);
}

/* Staleness in full where it was measured: predicted above measured. */
static void print_staleness(FILE *out, const dl_sweep *sweep, const dl_measured *measured)
{
    bool any = false;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        const double *value = measured[i].value;
        if (row->worker_staleness == NULL || isnan(value[DL_MEASURE_STALENESS_MEAN])) continue;
        if (!any) {
            fprintf(out, "%5s %7s %-9s %-9s %7s %7s %5s %5s  %s\n", "cores", "workers", "sync",
                    "staleness", "mean", "sd", "p50", "p90", "mean by worker");
        }
        any = true;
        fprintf(out, "%5d %7d %-9s predicted %7.2f %7.2f %5.0f %5.0f ", row->point.cores,
                row->point.workers, row->point.mode->name, row->staleness_mean, row->staleness_sd,
                row->staleness_p50, row->staleness_p90);
        print_by_worker(out, row->worker_staleness, row->point.workers);
        fprintf(out, "\n%24smeasured  %7.2f %7.2f %5.0f %5.0f ", "",
                value[DL_MEASURE_STALENESS_MEAN], value[DL_MEASURE_STALENESS_SD],
                value[DL_MEASURE_STALENESS_P50], value[DL_MEASURE_STALENESS_P90]);
        print_by_worker(out, measured[i].worker_staleness, row->point.workers);
        fprintf(out, "\n");
    }
}

static void print_errors(FILE *out, const dl_sweep *sweep, const dl_measured *measured)
{
    double sum = 0, most = 0;
    int count = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        if (measured[i].runs == 0) continue;
        double error = fabs(error_frac(&sweep->rows[i], &measured[i]));
        sum += error;
        most = fmax(most, error);
        count++;
    }
    fprintf(out, "error over %d measured points: mean %.1f %%, largest %.1f %%\n", count,
            100 * sum / count, 100 * most);
}

void dl_report_table(FILE *out, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured)
{
    bool compare = false, failed = false, extrapolated = false;
    for (size_t i = 0; i < sweep->row_count; i++) {
        compare |= measured[i].runs > 0;
        failed |= measured[i].failed_runs > 0;
        extrapolated |= sweep->rows[i].extrapolated;
    }
    const table_style style = {study, options_width(study, sweep), compare || failed};
    fprintf(out, "%s\n", study->variants[0].scenario.name);
    fprintf(out, "%5s %7s %6s %-11s %-*s %10s %12s %7s %6s %9s", "cores", "workers", "batch",
            "sync", style.options_width, "options", "step", "samples/s", "speedup", "wait %",
            "staleness");
    if (style.compare) fprintf(out, " %12s %7s %9s", "measured/s", "error %", "staleness");
    fprintf(out, "\n");
    for (size_t i = 0; i < sweep->row_count; i++) {
        print_row(out, &style, &sweep->rows[i], &measured[i]);
    }
    if (extrapolated) fprintf(out, "* outside of what the costs were measured at\n");
    if (compare) {
        print_errors(out, sweep, measured);
        print_staleness(out, sweep, measured);
    }
}
