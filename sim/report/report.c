#include "sim/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "sim/report/accuracy.h"
#include "sim/report/columns.h"
#include "sim/report/deciding.h"
#include "sim/report/notes.h"
#include "sim/report/report_assumed.h"
#include "sim/report/row_text.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/without.h"

/* Columns of the histogram, after those of the point. */
static const char *const histogram_columns[] = {"worker", "staleness", "count", "frac"};

/* Writes and releases the notes. */
static void write_notes(dl_csv_writer *writer, dl_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        dl_csv_comment(writer, "note: %s", notes->lines[i]);
    dl_notes_free(notes);
}

/* Writes the comments that start all results: program, scenario, settings of the first variant,
 * swept keys, notes, assumptions, and defaults that decided. */
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
    dl_notes notes = {0};
    size_t count = 0;
    dl_study_notes(&notes, study, DL_NOTES_ALL);
    dl_traced_notes(&notes, study, sweep);
    dl_file_notes(&notes, study);
    write_notes(writer, &notes);
    dl_report_assumed_head(writer, study, sweep);
    dl_report_row_notes(&notes, study, sweep);
    write_notes(writer, &notes);
    DL_AUTOFREE dl_deciding_default *deciding = dl_deciding_defaults(study, sweep, &count);
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
}

/* Adds " name=value" to the text; nothing if the value is unknown. */
static void add_value(char **text, const char *name, double value)
{
    if (!isnan(value)) dl_join_format(text, " ", "%s=%.4f", name, value);
}

/* Writes the known main values under their names in accuracy.h; writes nothing if no point was
 * measured. */
static void write_accuracy(dl_csv_writer *writer, const dl_accuracy *accuracy)
{
    if (accuracy->points == 0) return;
    DL_AUTOFREE char *text =
        dl_format("accuracy: points=%d mean_frac=%.4f max_frac=%.4f left_out=%d "
                  "repeated=%d",
                  accuracy->points, accuracy->mean_frac, accuracy->max_frac, accuracy->left_out,
                  accuracy->repeated);
    if (accuracy->repeated > 0) {
        add_value(&text, "noise_frac", accuracy->noise_frac);
        add_value(&text, "spread_frac", accuracy->spread_frac);
    }
    add_value(&text, "others_frac", accuracy->others_frac);
    add_value(&text, "steal_frac", accuracy->steal_frac);
    if (accuracy->intervals > 0) {
        dl_join_format(&text, " ", "runs=%d runs_inside=%d medians_inside=%d", accuracy->runs,
                       accuracy->runs_inside, accuracy->medians_inside);
        add_value(&text, "half_width_frac", accuracy->half_width_frac);
        add_value(&text, "repeats_half_width_frac", accuracy->repeats_half_width_frac);
    }
    dl_csv_comment(writer, "%s", text);
}

/* Returns the first variant that sets the key of this table row, as a key need not apply to all
 * variants (large_bytes does not apply to a list of tensors); NULL if there is none. */
static const dl_scenario *first_given(const dl_study *study, size_t row)
{
    for (size_t v = 0; v < study->variant_count; v++)
        if (study->variants[v].scenario.given[row]) return &study->variants[v].scenario;
    return NULL;
}

/* Returns " tensors=round_robin order=forward": the given keys of [exchange] that neither a column
 * nor `listed` shows; the caller frees it. */
static char *given_text(const dl_study *study)
{
    static const char *const listed[] = {"fidelity", "bucket_bytes", "overlap"};
    char *line = NULL;
    size_t bytes = 0;
    FILE *out = dl_text_stream(&line, &bytes);
    for (size_t i = 0; i < dl_scenario_keys.count; i++) {
        const dl_key *key = &dl_scenario_keys.rows[i];
        const dl_scenario *scenario = first_given(study, i);
        if (scenario == NULL || key->owner != DL_OF_GPU ||
            dl_study_swept(study, "exchange", key->name) != NULL ||
            strcmp(key->section, "exchange") != 0 ||
            dl_names_find(key->name, listed, DL_LENGTH(listed)) >= 0)
            continue;
        DL_AUTOFREE char *text = dl_key_text(key, (const char *)scenario->gpu + key->offset);
        fprintf(out, " %s=%s", key->name, text);
    }
    fclose(out);
    return line;
}

/* Writes comments with the machine and the settings of the first variant. */
static void write_gpu_head(dl_csv_writer *writer, const dl_study *study)
{
    const dl_gpu_options *options = study->variants[0].scenario.gpu;
    const dl_compression *message = &study->variants[0].scenario.compression;
    static const char *const places[] = {"auto", "cpu", "gpu:", "allreduce"};
    char gpu[16] = "", shards[16] = "workers", *given = given_text(study);
    if (options->shards == DL_SHARDS_NODES) snprintf(shards, sizeof shards, "nodes");
    if (options->where == DL_WHERE_GPU) snprintf(gpu, sizeof gpu, "%d", options->where_gpu);
    if (options->shards > 0) snprintf(shards, sizeof shards, "%d", options->shards);
    dl_csv_comment(writer, "machine: %s", options->machine.name);
    dl_csv_comment(writer,
                   "exchange: where=%s%s shards=%s algorithm=%s fidelity=%s bucket_bytes=%lld "
                   "overlap=%s compress=%s topk_frac=%g dispatch=%s ahead=%d pageable=%s "
                   "input_cores=%d prefetch=%d input_noise=%s%s",
                   places[options->where], gpu, shards, options->algorithm,
                   dl_fidelity_names[options->fidelity], (long long)options->bucket_bytes,
                   options->overlap ? "yes" : "no", dl_compress_names[message->kind],
                   message->kept_frac, dl_dispatch_names[options->dispatch], options->ahead,
                   options->pageable ? "yes" : "no", options->input_cores, options->prefetch,
                   options->input_varies ? "exponential" : "none", given);
    free(given);
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
                       none, dl_point_mode(point), point->workers, (long long)point->batch);
    }
}

static void write_results(dl_csv_writer *writer, const dl_study *study, const dl_sweep *sweep,
                          const dl_measured *measured, const dl_explanation *explanation)
{
    const dl_accuracy accuracy = dl_accuracy_of(sweep, measured);
    DL_SCOPED(dl_results) results;
    write_head(writer, "results", study, sweep);
    write_accuracy(writer, &accuracy);
    /* If the first variant has GPUs, all have. */
    if (study->variants[0].scenario.gpu != NULL) write_gpu_head(writer, study);
    if (explanation != NULL) write_gains(writer, explanation);
    dl_results_make(&results, study, sweep, measured, explanation != NULL);
    dl_columns_csv_names(writer, results.columns, results.column_count);
    dl_csv_end_row(writer);
    for (size_t i = 0; i < results.count; i++) {
        dl_columns_csv_row(writer, results.columns, results.column_count, &results.results[i]);
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

/* Writes the staleness counts of one worker, or of all workers together if the row has only
 * these. */
static void write_counts(dl_csv_writer *writer, const dl_results *results, const dl_result *result,
                         int worker)
{
    const dl_run_result *mean = &result->row->mean;
    const int bins = mean->staleness_bins;
    const int64_t *counts = &mean->staleness[(size_t)worker * (size_t)bins];
    int64_t total = 0;
    for (int s = 0; s < bins; s++)
        total += counts[s];
    for (int s = 0; s < bins; s++) {
        dl_columns_csv_row(writer, results->columns, results->key_count, result);
        if (mean->staleness_rows < mean->workers) {
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

static void write_histogram(dl_csv_writer *writer, const dl_study *study, const dl_sweep *sweep,
                            size_t first, size_t end)
{
    DL_SCOPED(dl_results) results;
    dl_results_make(&results, study, sweep, NULL, false);
    dl_columns_csv_names(writer, results.columns, results.key_count);
    for (size_t i = 0; i < DL_LENGTH(histogram_columns); i++)
        dl_csv_text(writer, histogram_columns[i]);
    dl_csv_end_row(writer);
    for (size_t i = first; i < end; i++) {
        const dl_row *row = results.results[i].row;
        for (int w = 0; row->worker_staleness != NULL && w < row->mean.staleness_rows; w++)
            write_counts(writer, &results, &results.results[i], w);
    }
}

void dl_report_histogram_write(FILE *out, const dl_study *study, const dl_sweep *sweep, size_t row)
{
    dl_csv_writer writer = {.out = out};
    write_histogram(&writer, study, sweep, row, row + 1);
}

dl_status dl_report_histogram(const char *path, const dl_study *study, const dl_sweep *sweep,
                              dl_error *err)
{
    dl_output output = {0};
    const dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_csv_writer writer = {.out = output.out};
    write_head(&writer, "staleness histogram", study, sweep);
    write_histogram(&writer, study, sweep, 0, sweep->row_count);
    return dl_output_close(&output, err);
}
