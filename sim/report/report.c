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
#include "sim/report/report_assumed.h"
#include "sim/scenario/without.h"

/* After the columns of the point and dl_row_columns. */
static const char *const result_columns[] = {
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
};

/* With [scenario] per_worker, after those. */
static const char *const worker_columns[] = {"step_mean_s_by_worker", "staleness_mean_by_worker"};

static const char *const histogram_columns[] = {"worker", "staleness", "count", "frac"};

static void write_texts(dl_csv_writer *writer, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dl_csv_text(writer, texts[i]);
}

#define WRITE_TEXTS(writer, texts) write_texts(writer, texts, sizeof texts / sizeof *texts)

/* The point's columns; the caller ends the row. */
static void write_key_names(dl_csv_writer *writer, const dl_study *study)
{
    static const char *const keys[] = {"cores", "workers", "batch", "sync"};
    WRITE_TEXTS(writer, keys);
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        dl_csv_text(writer, dl_sync_options[o].name);
    for (size_t k = 0; k < study->key_count; k++)
        dl_csv_text(writer, study->keys[k].column);
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
        "%zu of %zu points ran too few steps for a throughput within %.0f %%: after the first "
        "worker's last step others run on, for up to %.0f %% of the run (%s); raise [scenario] "
        "steps",
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
    dl_report_assumed_head(writer, study, sweep);
    char *is_short = dl_report_short_note(sweep);
    if (is_short != NULL) dl_csv_comment(writer, "note: %s", is_short);
    free(is_short);
    dl_deciding_default *deciding = dl_deciding_defaults(study, sweep, &count);
    for (size_t i = 0; i < count; i++) {
        const dl_deciding_default *d = &deciding[i];
        char part[64] = "", text[DL_DECIDING_TEXT_BYTES];
        if (d->given) {
            dl_csv_comment(writer, "note: %s", dl_deciding_text(text, sizeof text, d));
            continue;
        }
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
        dl_csv_text(writer, dl_study_cell(study, variant, point, k));
}

/* --- columns that only some results have ---------------------------------------------------------
 * */

#define SECONDS_PER_HOUR 3600.0

/* A comment with the machine and the settings. */
static void write_gpu_head(dl_csv_writer *writer, const dl_gpu_options *options)
{
    static const char *const places[] = {"auto", "cpu", "gpu:", "allreduce"};
    char gpu[16] = "", shards[16] = "workers";
    if (options->shards == DL_SHARDS_NODES) snprintf(shards, sizeof shards, "nodes");
    if (options->where == DL_WHERE_GPU) snprintf(gpu, sizeof gpu, "%d", options->where_gpu);
    if (options->shards > 0) snprintf(shards, sizeof shards, "%d", options->shards);
    dl_csv_comment(writer, "machine: %s", options->machine.name);
    dl_csv_comment(writer,
                   "exchange: where=%s%s shards=%s algorithm=%s fidelity=%s bucket_bytes=%lld "
                   "overlap=%s compress=%s topk_frac=%g dispatch=%s ahead=%d pageable=%s "
                   "input_cores=%d prefetch=%d input_noise=%s",
                   places[options->where], gpu, shards, options->algorithm,
                   dl_fidelity_names[options->fidelity], (long long)options->bucket_bytes,
                   options->overlap ? "yes" : "no", dl_compress_names[options->compression.kind],
                   options->compression.kept_frac, dl_dispatch_names[options->dispatch],
                   options->ahead, options->pageable ? "yes" : "no", options->input_cores,
                   options->prefetch, options->input_varies ? "exponential" : "none");
    if (options->tensors != DL_TENSORS_SPLIT || options->slice_bytes > 0 ||
        options->sums_on_arrival || options->fetch != DL_FETCH_SUMMED ||
        options->order != DL_ORDER_READY || options->node_sum ||
        options->copies != DL_COPIES_CONNECTION || options->staged_stops) {
        dl_csv_comment(writer,
                       "server: tensors=%s slice_bytes=%lld sum=%s fetch=%s order=%s "
                       "node_sum=%s copies=%s staged=%s",
                       dl_tensors_names[options->tensors], (long long)options->slice_bytes,
                       options->sums_on_arrival ? "on_arrival" : "at_once",
                       dl_fetch_names[options->fetch], dl_order_names[options->order],
                       options->node_sum ? "yes" : "no", dl_copies_names[options->copies],
                       options->staged_stops ? "alone" : "beside");
        if (options->copies == DL_COPIES_GPU && options->copy_threads > 1)
            dl_csv_comment(writer, "server: copy_threads=%d", options->copy_threads);
    }
}

/* Columns that only runs on GPUs have. link, link_frac: the busiest link and its utilisation;
 * memory_bytes, memory_frac: what the fullest GPU needs, absolute and of what it has; usd_per_hour:
 * price of the nodes in use; epoch_s, usd_per_epoch: with [workload] samples_per_epoch; error: why
 * the point was not run. */
static const char *const gpu_columns[] = {"link",          "link_frac",    "memory_bytes",
                                          "memory_frac",   "usd_per_hour", "epoch_s",
                                          "usd_per_epoch", "error"};

static void write_gpu_row(dl_csv_writer *writer, const dl_scenario *scenario, const dl_row *row)
{
    const double usd_per_hour =
        dl_gpu_options_usd_per_hour(scenario->gpu, dl_point_gpus(&row->point));
    const double samples =
        scenario->samples_per_epoch > 0 ? (double)scenario->samples_per_epoch : (double)NAN;
    const double epoch_s = samples / row->mean.throughput_per_s;
    dl_csv_text(writer, row->mean.usage.link);
    dl_csv_double(writer, row->mean.usage.link_frac);
    dl_csv_double(writer, row->memory.needs_bytes);
    dl_csv_double(writer, row->memory.needs_bytes / row->memory.has_bytes);
    dl_csv_double(writer, usd_per_hour);
    dl_csv_double(writer, epoch_s);
    dl_csv_double(writer, usd_per_hour * epoch_s / SECONDS_PER_HOUR);
    dl_csv_text(writer, row->error != NULL ? row->error : "");
}

/* Columns that only scenarios with a [pipeline] have. gpus_used: workers x stages; bubble_frac: of
 * all GPUs' time, part of waiting_frac; crossing_bytes, exchange_bytes: between stages and between
 * replicas in a step, over all workers; by stage, separated by ';': the first layer, the part of
 * its time that it is busy, what it needs of a GPU's memory. */
static const char *const pipeline_columns[] = {
    "gpus_used",       "pipeline_stages",    "pipeline_micro_batches", "pipeline_schedule",
    "bubble_frac",     "crossing_bytes",     "exchange_bytes",         "stage_first_layer",
    "stage_busy_frac", "stage_memory_bytes",
};

static void write_pipeline_row(dl_csv_writer *writer, const dl_scenario *scenario,
                               const dl_costs *costs, const dl_row *row)
{
    const dl_point *point = &row->point;
    dl_csv_int(writer, dl_point_gpus(point));
    dl_csv_int(writer, point->stages);
    if (!dl_point_is_split(point)) {
        for (size_t i = 2; i < sizeof pipeline_columns / sizeof *pipeline_columns; i++)
            dl_csv_text(writer, "");
        return;
    }
    const dl_split_result *split = row->mean.split; /* NULL: the point did not fit */
    double memory[DL_STAGES_MAX];
    for (int s = 0; s < point->stages; s++)
        memory[s] = dl_run_stage_memory(scenario, costs, point, s).needs_bytes;
    char *layers = dl_run_split_text(scenario, costs, point);
    dl_csv_int(writer, point->micro_batches);
    dl_csv_text(writer, dl_schedule_names[scenario->pipeline->schedule]);
    dl_csv_double(writer, split != NULL ? split->bubble_frac : (double)NAN);
    dl_csv_double(writer, split != NULL ? split->crossed_bytes : (double)NAN);
    dl_csv_double(writer, split != NULL ? split->reduced_bytes : (double)NAN);
    dl_csv_text(writer, layers);
    dl_csv_doubles(writer, split != NULL ? split->busy_frac : NULL,
                   split != NULL ? split->stages : 0);
    dl_csv_doubles(writer, memory, point->stages);
    free(layers);
}

/* Columns that only results with a syncer's merges have. */
static const char *const syncer_columns[] = {
    "uploads", "uploads_applied", "uploads_too_stale", "uploads_superseded",  "uploads_unmerged",
    "merges",  "goodput_frac",    "weight_mean",       "applied_weight_frac",
};

/* Columns that only results of modes with an interval have (dl_averaging_result). */
static const char *const averaging_columns[] = {
    "utilisation_frac", "outer_step_mean_s", "outer_step_p50_s", "outer_step_p95_s",
    "outer_blocked_s",  "outer_sent_bytes",  "outer_exchange_s",
};

static bool have_averaging(const dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_point *point = &sweep->rows[i].point;
        if (point->mode->options & 1u << DL_SYNC_INTERVAL) return true;
    }
    return false;
}

static void write_averaging_row(dl_csv_writer *writer, const dl_averaging_result *a)
{
    const double nan = (double)NAN;
    const double numbers[] = {
        a != NULL ? a->utilisation_frac : nan, a != NULL ? a->outer_step_mean_s : nan,
        a != NULL ? a->outer_step_p50_s : nan, a != NULL ? a->outer_step_p95_s : nan,
        a != NULL ? a->blocked_s : nan,        a != NULL ? a->site_sent_bytes : nan,
        a != NULL ? a->exchange_s : nan};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dl_csv_double(writer, numbers[i]);
}

static bool have_syncer(const dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        if (sweep->rows[i].point.mode->options & 1u << DL_SYNC_SYNCER) return true;
    }
    return false;
}

static void write_syncer_row(dl_csv_writer *writer, const dl_syncer_result *s)
{
    if (s == NULL) {
        for (size_t i = 0; i < sizeof syncer_columns / sizeof *syncer_columns; i++)
            dl_csv_text(writer, "");
        return;
    }
    const double numbers[] = {s->uploaded,     s->applied,     s->too_stale,
                              s->superseded,   s->unmerged,    s->merges,
                              s->goodput_frac, s->weight_mean, s->applied_weight_frac};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dl_csv_double(writer, numbers[i]);
}

/* Columns that only results of scenarios with [failures] have: of the job's time the part of steps
 * that need not be done again, throughput times that, the best checkpoint_steps by mtbf_s. */
static const char *const failure_columns[] = {"job_goodput_frac", "job_per_s",
                                              "best_checkpoint_steps"};

static bool have_failures(const dl_study *study)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        if (dl_failures_given(&study->variants[v].scenario.failures)) return true;
    }
    return false;
}

static void write_failures_row(dl_csv_writer *writer, const dl_scenario *scenario,
                               const dl_row *row)
{
    const dl_failures *failures = &scenario->failures;
    const double step_s = row->mean.step_mean_s;
    double goodput = (double)NAN, best = (double)NAN;
    if (dl_failures_given(failures) && step_s > 0 && row->mean.syncer == NULL) {
        const int workers = row->point.workers;
        goodput = dl_failures_goodput(failures, workers, scenario->steps, step_s);
        if (failures->mtbf_s > 0)
            best = (double)dl_failures_best_steps(failures, workers, scenario->steps, step_s);
    }
    dl_csv_double(writer, goodput);
    dl_csv_double(writer, goodput * row->mean.throughput_per_s);
    dl_csv_double(writer, best);
}

/* Columns that only results of workers that come and go have. */
static const char *const absence_columns[] = {"worker_goodput_frac", "worker_away_frac"};

static bool have_absences(const dl_study *study)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        if (dl_absences_given(&study->variants[v].scenario.absences)) return true;
    }
    return false;
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
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dl_csv_double(writer, numbers[i]);
    dl_csv_doubles(writer, measured->worker_staleness, row->point.workers);
    dl_csv_text(writer, measured->source != NULL ? measured->source : "");
}

static void write_row(dl_csv_writer *writer, const dl_study *study, const dl_row *row,
                      const dl_measured *measured)
{
    const dl_run_result *mean = &row->mean;
    write_keys(writer, study, row);
    for (int f = 0; f < DL_ROW_COLUMNS; f++)
        dl_csv_double(writer, dl_row_number(row, f));
    dl_csv_text(writer, mean->usage.busiest);
    dl_csv_double(writer, mean->usage.busiest_frac);
    dl_csv_text(writer, dl_origin_name(row->origin));
    dl_csv_int(writer, row->extrapolated);
    write_measured(writer, row, measured);
    if (!study->variants[0].scenario.per_worker) return;
    dl_csv_doubles(writer, mean->worker_step_s, mean->workers);
    dl_csv_doubles(writer, row->worker_staleness, mean->workers);
}

static void write_gains(dl_csv_writer *writer, const dl_explanation *x)
{
    if (x->row == x->sweep->row_count) return;
    const dl_point *point = &x->sweep->rows[x->row].point;
    for (size_t i = 0; i < x->gains.count; i++) {
        const dl_gain *gain = &x->gains.all[i];
        char half[32] = "", none[32] = "";
        if (!isnan(gain->half)) snprintf(half, sizeof half, " half=%.4g", gain->half);
        if (!isnan(gain->none)) snprintf(none, sizeof none, " none=%.4g", gain->none);
        dl_csv_comment(writer, "gain: cost=%s%s%s sync=%s workers=%d batch=%lld", gain->cost, half,
                       none, point->mode->name, point->workers, (long long)point->batch);
    }
}

static void write_dominant(dl_csv_writer *writer, const dl_row *row)
{
    const dl_part part = dl_dominant_part(row);
    dl_csv_text(writer, row->error == NULL ? dl_part_names[part] : "");
    dl_csv_double(writer, row->error == NULL ? row->mean.part_frac[part] : (double)NAN);
}

static void write_results(dl_csv_writer *writer, const dl_study *study, const dl_sweep *sweep,
                          const dl_measured *measured, const dl_explanation *explanation)
{
    const dl_gpu_options *gpu =
        study->variants[0].scenario.gpu; /* all variants have GPUs, or none */
    const bool splits = study->variants[0].scenario.pipeline != NULL; /* likewise */
    const optional_columns optional = optional_of(sweep, measured);
    const dl_accuracy accuracy = dl_accuracy_of(sweep, measured);
    write_head(writer, "results", study, sweep);
    write_accuracy(writer, &accuracy);
    if (gpu != NULL) write_gpu_head(writer, gpu);
    if (explanation != NULL) write_gains(writer, explanation);
    write_key_names(writer, study);
    for (int f = 0; f < DL_ROW_COLUMNS; f++)
        dl_csv_text(writer, dl_row_columns[f].name);
    WRITE_TEXTS(writer, result_columns);
    if (study->variants[0].scenario.per_worker) WRITE_TEXTS(writer, worker_columns);
    if (gpu != NULL) WRITE_TEXTS(writer, gpu_columns);
    if (splits) WRITE_TEXTS(writer, pipeline_columns);
    if (have_averaging(sweep)) WRITE_TEXTS(writer, averaging_columns);
    if (have_syncer(sweep)) WRITE_TEXTS(writer, syncer_columns);
    if (have_failures(study)) WRITE_TEXTS(writer, failure_columns);
    if (have_absences(study)) WRITE_TEXTS(writer, absence_columns);
    if (optional.use) dl_csv_text(writer, "measured_use");
    if (optional.use) dl_csv_text(writer, "measured_note");
    if (optional.left_out) dl_csv_text(writer, "left_out_error_frac");
    if (explanation != NULL) dl_csv_text(writer, "dominant");
    if (explanation != NULL) dl_csv_text(writer, "dominant_frac");
    dl_csv_end_row(writer);
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        write_row(writer, study, row, &measured[i]);
        const dl_variant *variant = &study->variants[row->variant];
        if (gpu != NULL) write_gpu_row(writer, &variant->scenario, row);
        if (splits) write_pipeline_row(writer, &variant->scenario, &variant->costs, row);
        if (have_averaging(sweep)) write_averaging_row(writer, row->mean.averaging);
        if (have_syncer(sweep)) write_syncer_row(writer, row->mean.syncer);
        if (have_failures(study)) write_failures_row(writer, &variant->scenario, row);
        if (have_absences(study)) dl_csv_double(writer, row->mean.goodput_frac);
        if (have_absences(study)) dl_csv_double(writer, row->mean.away_frac);
        write_optional(writer, optional, &measured[i]);
        if (explanation != NULL) write_dominant(writer, row);
        dl_csv_end_row(writer);
    }
}

void dl_report_results_write(FILE *out, const dl_study *study, const dl_sweep *sweep,
                             const dl_measured *measured, const dl_explanation *explanation)
{
    dl_csv_writer writer = {.out = out};
    write_results(&writer, study, sweep, measured, explanation);
}

void dl_report_results_table(dl_cell_table *table, const dl_study *study, const dl_sweep *sweep,
                             const dl_measured *measured, const dl_explanation *explanation)
{
    dl_csv_writer writer = {.table = table};
    write_results(&writer, study, sweep, measured, explanation);
}

dl_status dl_report_results(const char *path, const dl_study *study, const dl_sweep *sweep,
                            const dl_measured *measured, const dl_explanation *explanation,
                            dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_report_results_write(output.out, study, sweep, measured, explanation);
    return dl_output_close(&output, err);
}

static void write_counts(dl_csv_writer *writer, const dl_study *study, const dl_row *row,
                         int worker)
{
    const int bins = row->mean.staleness_bins;
    const bool pooled = row->mean.staleness_rows < row->mean.workers;
    const int64_t *counts = &row->mean.staleness[(size_t)worker * (size_t)bins];
    int64_t total = 0;
    for (int s = 0; s < bins; s++)
        total += counts[s];
    for (int s = 0; s < bins; s++) {
        write_keys(writer, study, row);
        if (pooled) {
            dl_csv_text(writer, "all");
        } else {
            dl_csv_int(writer, worker);
        }
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
    write_key_names(&writer, study);
    WRITE_TEXTS(&writer, histogram_columns);
    dl_csv_end_row(&writer);
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->worker_staleness == NULL) continue;
        for (int w = 0; w < row->mean.staleness_rows; w++)
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
