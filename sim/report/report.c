#include "sim/report/report.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"
#include "sim/report/accuracy.h"
#include "sim/report/notes.h"
#include "sim/report/report_gpu.h"
#include "sim/report/report_pipeline.h"
#include "sim/scenario/without.h"

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
    "speedup_low",
    "speedup_high",
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
    "measured_p10_per_s",
    "measured_p90_per_s",
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

char *dl_report_short_note(const dl_sweep *sweep)
{
    const dl_row *worst = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error != NULL || !(row->mean.tail_frac > DL_REPORT_TAIL_FRAC)) continue;
        if (worst == NULL || row->mean.tail_frac > worst->mean.tail_frac) worst = row;
        count++;
    }
    if (worst == NULL) return NULL;
    char text[DL_POINT_TEXT_BYTES];
    return dl_format(
        "%zu of %zu points ran too few steps for a throughput within %.0f %%: when the first "
        "worker has done all its steps, others are still in one, at worst for "
        "%.0f %% of the run (%s); raise [scenario] steps",
        count, sweep->row_count, 100 * DL_REPORT_TAIL_FRAC, 100 * worst->mean.tail_frac,
        dl_point_text(text, sizeof text, &worst->point));
}

/* Settings are those of the first variant; a line names those that are swept. */
static void write_head(dl_csv_writer *writer, const char *kind, const dl_study *study,
                       const dl_sweep *sweep)
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
    size_t count = 0;
    char **notes = dl_study_notes(study, &count);
    for (size_t i = 0; i < count; i++)
        dl_csv_comment(writer, "note: %s", notes[i]);
    dl_study_notes_free(notes, count);
    char *is_short = dl_report_short_note(sweep);
    if (is_short != NULL) dl_csv_comment(writer, "note: %s", is_short);
    free(is_short);
    dl_deciding_default *deciding = dl_deciding_defaults(study, sweep, &count);
    for (size_t i = 0; i < count; i++) {
        const dl_deciding_default *d = &deciding[i];
        char part[64] = "";
        if (d->column != NULL) snprintf(part, sizeof part, " %s=%.4g", d->column, d->most);
        dl_csv_comment(writer, "default: [%s] %s=%s rows=%zu%s", d->key->section, d->key->name,
                       d->key->fallback, d->rows, part);
    }
    free(deciding);
}

/* As accuracy.h names them; nothing where no point was measured. */
static void write_accuracy(dl_csv_writer *writer, const dl_accuracy *accuracy)
{
    if (accuracy->points == 0) return;
    dl_csv_comment(writer,
                   "accuracy: points=%d mean_frac=%.4f max_frac=%.4f repeated=%d noise_frac=%.4f "
                   "spread_frac=%.4f others_frac=%.4f steal_frac=%.4f left_out=%d runs=%d "
                   "runs_inside=%d medians_inside=%d half_width_frac=%.4f "
                   "repeats_half_width_frac=%.4f",
                   accuracy->points, accuracy->mean_frac, accuracy->max_frac, accuracy->repeated,
                   accuracy->noise_frac, accuracy->spread_frac, accuracy->others_frac,
                   accuracy->steal_frac, accuracy->left_out, accuracy->runs, accuracy->runs_inside,
                   accuracy->medians_inside, accuracy->half_width_frac,
                   accuracy->repeats_half_width_frac);
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

static void write_doubles(dl_csv_writer *writer, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dl_csv_double(writer, values[i]);
}

/* Columns that only some results have, by what the measured table says. */
typedef struct optional_columns {
    bool use, left_out;
} optional_columns;

static optional_columns optional_of(const dl_sweep *sweep, const dl_measured *measured)
{
    optional_columns columns = {0};
    for (size_t i = 0; i < sweep->row_count; i++) {
        columns.use |= measured[i].use == DL_USE_FITTED || measured[i].use == DL_USE_CONTRADICTION;
        columns.left_out |= !isnan(measured[i].left_out_frac);
    }
    return columns;
}

static void write_optional_names(dl_csv_writer *writer, optional_columns columns)
{
    if (columns.use) dl_csv_text(writer, "measured_use");
    if (columns.use) dl_csv_text(writer, "measured_note");
    if (columns.left_out) dl_csv_text(writer, "left_out_error_frac");
}

static void write_optional(dl_csv_writer *writer, optional_columns columns,
                           const dl_measured *measured)
{
    if (columns.use) {
        const bool is_measured = measured->runs > 0 || measured->failed_runs > 0;
        dl_csv_text(writer, is_measured ? dl_measured_use_names[measured->use] : "");
        dl_csv_text(writer, measured->note != NULL ? measured->note : "");
    }
    if (columns.left_out) dl_csv_double(writer, measured->left_out_frac);
}

static void write_measured(dl_csv_writer *writer, const dl_row *row, const dl_measured *measured)
{
    const double *value = measured->value;
    dl_csv_double(writer, measured->runs > 0 ? measured->runs : (double)NAN);
    double per_s = value[DL_MEASURE_PER_S], error = value[DL_MEASURE_PER_S_ERR];
    const double numbers[] = {
        per_s - error,
        per_s + error,
        dl_measured_quantile(measured, 0.1),
        dl_measured_quantile(measured, 0.9),
        dl_report_error_frac(row, measured),
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
        mean->step_mean_s,       mean->step_p50_s,
        mean->step_p99_s,        mean->step_sd_s,
        mean->throughput_per_s,  row->low_per_s,
        row->high_per_s,         row->speedup,
        row->speedup_low,        row->speedup_high,
        row->efficiency,         part[DL_PART_COMPUTE],
        part[DL_PART_DISPATCH],  part[DL_PART_COMMUNICATION],
        part[DL_PART_AVERAGING], part[DL_PART_WAITING],
        part[DL_PART_INPUT],     mean->applied_frac,
        mean->updates_per_s,     row->staleness_mean,
        row->staleness_sd,       row->staleness_p50,
        row->staleness_p90,      row->staleness_p99,
        row->staleness_max,      mean->drift_steps_mean,
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

void dl_report_results_write(FILE *out, const dl_study *study, const dl_sweep *sweep,
                             const dl_measured *measured)
{
    const dl_gpu_options *gpu =
        study->variants[0].scenario.gpu; /* all variants have GPUs, or none */
    const bool splits = study->variants[0].scenario.pipeline != NULL; /* likewise */
    const optional_columns optional = optional_of(sweep, measured);
    dl_csv_writer writer = {.out = out};
    const dl_accuracy accuracy = dl_accuracy_of(sweep, measured);
    write_head(&writer, "results", study, sweep);
    write_accuracy(&writer, &accuracy);
    if (gpu != NULL) dl_report_gpu_head(&writer, gpu);
    write_names(&writer, study, result_columns, sizeof result_columns / sizeof *result_columns);
    if (gpu != NULL) dl_report_gpu_names(&writer);
    if (splits) dl_report_pipeline_names(&writer);
    write_optional_names(&writer, optional);
    dl_csv_end_row(&writer);
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        write_row(&writer, study, row, &measured[i]);
        const dl_variant *variant = &study->variants[row->variant];
        if (gpu != NULL) dl_report_gpu_row(&writer, &variant->scenario, row);
        if (splits) dl_report_pipeline_row(&writer, &variant->scenario, &variant->costs, row);
        write_optional(&writer, optional, &measured[i]);
        dl_csv_end_row(&writer);
    }
}

dl_status dl_report_results(const char *path, const dl_study *study, const dl_sweep *sweep,
                            const dl_measured *measured, dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_report_results_write(output.out, study, sweep, measured);
    return dl_output_close(&output, err);
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

void dl_report_histogram_write(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    dl_csv_writer writer = {.out = out};
    write_head(&writer, "staleness histogram", study, sweep);
    write_names(&writer, study, histogram_columns,
                sizeof histogram_columns / sizeof *histogram_columns);
    dl_csv_end_row(&writer);
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->worker_staleness == NULL) continue;
        for (int w = 0; w < row->mean.workers; w++)
            write_counts(&writer, study, row, w);
    }
}

dl_status dl_report_histogram(const char *path, const dl_study *study, const dl_sweep *sweep,
                              dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_report_histogram_write(output.out, study, sweep);
    return dl_output_close(&output, err);
}
