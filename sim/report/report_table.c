/* The table for people. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/report/accuracy.h"
#include "sim/report/notes.h"
#include "sim/report/report.h"
#include "sim/report/report_assumed.h"
#include "sim/traced.h"

#define OPTIONS_WIDTH 16 /* at least */
#define SYNC_WIDTH 11    /* at least */
#define STALENESS_SYNC_WIDTH 9
#define SPLITS_SHOWN 6

double dl_report_error_frac(const dl_row *row, const dl_measured *measured)
{
    return row->mean.throughput_per_s / measured->value[DL_MEASURE_PER_S] - 1;
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

void dl_report_options(char *text, size_t bytes, const dl_study *study, const dl_row *row)
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
    char text[DL_REPORT_OPTIONS_BYTES];
    for (size_t i = 0; i < sweep->row_count && study->key_count > 0; i++) {
        dl_report_options(text, sizeof text, study, &sweep->rows[i]);
        if (strlen(text) > width) width = strlen(text);
    }
    return (int)width;
}

/* As wide as the longest name of a mode, and at least as `least`. */
static int sync_width(const dl_sweep *sweep, size_t least)
{
    size_t width = least;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const size_t length = strlen(sweep->rows[i].point.mode->name);
        if (length > width) width = length;
    }
    return (int)width;
}

typedef struct table_style {
    const dl_study *study;
    int sync_width, options_width;
    bool compare, input;
} table_style;

/* The marks in their order, and what they mean. */
static const struct {
    char mark;
    const char *meaning;
} meanings[] = {{'*', "outside of what the costs were measured at"},
                {'+', "leaves out collectives of the traced step: see the note"},
                {'!', "the costs contradict the trace that they are from: see the note"}};
_Static_assert(DL_LENGTH(meanings) < DL_MARKS_BYTES, "more marks than there is room for");

const char *dl_report_marks(char text[DL_MARKS_BYTES], const dl_row *row)
{
    const bool is[] = {row->extrapolated, !isnan(row->left_out_s),
                       row->point.workers > 1 &&
                           fabs(row->trace_error_frac) > DL_TRACED_CONTRADICTS};
    size_t count = 0;
    for (size_t m = 0; m < DL_LENGTH(meanings) && row->error == NULL; m++)
        if (is[m]) text[count++] = meanings[m].mark;
    text[count] = '\0';
    return text;
}

void dl_report_above(FILE *out, const dl_row *row)
{
    if (row->above != NULL) fprintf(out, "  %.1f %% each: %s", 100 * row->efficiency, row->above);
}

void dl_report_marks_explain(FILE *out, const char *used, const char *before, const char *after)
{
    for (size_t m = 0; m < DL_LENGTH(meanings); m++)
        if (strchr(used, meanings[m].mark) != NULL)
            fprintf(out, "%s%c %s%s\n", before, meanings[m].mark, meanings[m].meaning, after);
}

void dl_report_marks_of(char used[DL_MARKS_BYTES], const dl_row *row)
{
    char own[DL_MARKS_BYTES];
    for (const char *c = dl_report_marks(own, row); *c != '\0'; c++) {
        if (strchr(used, *c) != NULL) continue;
        used[strlen(used) + 1] = '\0';
        used[strlen(used)] = *c;
    }
}

double dl_report_waiting_frac(const dl_row *row)
{
    const double *part = row->mean.part_frac;
    const bool on_gpu = row->point.cores == DL_CORES_GPU;
    return part[DL_PART_WAITING] + (on_gpu ? part[DL_PART_INPUT] : 0);
}

/* "-" on GPUs. */
static void print_cores(FILE *out, const dl_point *point)
{
    print_number(out, 4, 0, point->cores != DL_CORES_GPU ? point->cores : (double)NAN);
}

static void print_row(FILE *out, const table_style *style, const dl_row *row,
                      const dl_measured *measured)
{
    const dl_point *point = &row->point;
    const dl_run_result *mean = &row->mean;
    char step[32], options[DL_REPORT_OPTIONS_BYTES];
    print_cores(out, point);
    dl_report_options(options, sizeof options, style->study, row);
    fprintf(out, " %7d %6lld %-*s %-*s", point->workers, (long long)point->batch, style->sync_width,
            point->mode->name, style->options_width, options);
    if (row->error != NULL) {
        fprintf(out, " %s\n", row->error);
        return;
    }
    fprintf(out, " %10s", dl_format_ns(step, sizeof step, dl_s_to_ns(mean->step_mean_s)));
    print_number(out, 12, 1, mean->throughput_per_s);
    print_number(out, 7, 3, row->speedup);
    print_number(out, 6, 1, 100 * dl_report_waiting_frac(row));
    if (style->input) print_number(out, 7, 1, 100 * mean->part_frac[DL_PART_INPUT]);
    print_number(out, 9, 2, row->staleness_mean);
    if (style->compare && measured->runs == 0 && measured->failed_runs > 0) {
        fprintf(out, " %12s %7s %9s", "error", "-", "-");
    } else if (style->compare) {
        print_number(out, 12, 1, measured->value[DL_MEASURE_PER_S]);
        print_number(out, 7, 1, 100 * dl_report_error_frac(row, measured));
        print_number(out, 9, 2, measured->value[DL_MEASURE_STALENESS_MEAN]);
    }
    char marks[DL_MARKS_BYTES];
    dl_report_marks(marks, row);
    fprintf(out, "%s%s", marks[0] != '\0' ? "  " : "", marks);
    dl_report_above(out, row);
    fputc('\n', out);
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
    const int width = sync_width(sweep, STALENESS_SYNC_WIDTH);
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        const double *value = measured[i].value;
        if (row->worker_staleness == NULL || isnan(value[DL_MEASURE_STALENESS_MEAN])) continue;
        if (!any) {
            fprintf(out, "%5s %7s %-*s %-9s %7s %7s %5s %5s  %s\n", "cores", "workers", width,
                    "sync", "staleness", "mean", "sd", "p50", "p90", "mean by worker");
        }
        any = true;
        print_cores(out, &row->point);
        fprintf(out, " %7d %-*s predicted %7.2f %7.2f %5.0f %5.0f ", row->point.workers, width,
                row->point.mode->name, row->staleness_mean, row->staleness_sd, row->staleness_p50,
                row->staleness_p90);
        print_by_worker(out, row->worker_staleness, row->point.workers);
        fprintf(out, "\n%*smeasured  %7.2f %7.2f %5.0f %5.0f ", 15 + width, "",
                value[DL_MEASURE_STALENESS_MEAN], value[DL_MEASURE_STALENESS_SD],
                value[DL_MEASURE_STALENESS_P50], value[DL_MEASURE_STALENESS_P90]);
        print_by_worker(out, measured[i].worker_staleness, row->point.workers);
        fprintf(out, "\n");
    }
}

static void print_stages(FILE *out, const dl_variant *variant, const dl_row *row)
{
    const dl_point *point = &row->point;
    const dl_split_result *split = row->mean.split;
    char text[DL_POINT_TEXT_BYTES], needs[32], has[32];
    fprintf(out, "%s, %d stages, %d micro-batches, %s", dl_point_text(text, sizeof text, point),
            point->stages, point->micro_batches,
            dl_schedule_names[variant->scenario.pipeline->schedule]);
    if (split != NULL) fprintf(out, ": bubble %.1f %%", 100 * split->bubble_frac);
    fprintf(out, "\n");
    char *layers = dl_run_split_text(&variant->scenario, &variant->costs, point);
    char *rest = layers;
    for (int s = 0; s < point->stages; s++) {
        char *name = strsep(&rest, ";");
        const dl_gpu_memory memory =
            dl_run_stage_memory(&variant->scenario, &variant->costs, point, s);
        fprintf(out, "  stage %d from %-20s", s, name);
        if (split != NULL) fprintf(out, " busy %5.1f %%", 100 * split->busy_frac[s]);
        if (!isnan(memory.needs_bytes)) {
            fprintf(out, "  memory %s of %s",
                    dl_format_bytes(needs, sizeof needs, memory.needs_bytes),
                    dl_format_bytes(has, sizeof has, memory.has_bytes));
        }
        fprintf(out, "\n");
    }
    free(layers);
}

/* A line for each stage of each point that is split, if there are few; nothing if there is none. */
static void print_splits(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    int points = 0;
    for (size_t r = 0; r < sweep->row_count; r++)
        points += dl_point_is_split(&sweep->rows[r].point);
    if (points > SPLITS_SHOWN) {
        fprintf(out, "%d points of split models: their stages are in the results\n", points);
        return;
    }
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        if (dl_point_is_split(&row->point)) {
            print_stages(out, &study->variants[row->variant], row);
        }
    }
}

static int64_t count_of(const dl_run_result *result, int bin)
{
    int64_t count = 0;
    for (int r = 0; r < result->staleness_rows; r++)
        count += result->staleness[(size_t)r * (size_t)result->staleness_bins + (size_t)bin];
    return count;
}

/* Applied uploads by staleness, as means over the runs, as the other counts of the line; the bins
 * are sums over them. */
static void print_applied(FILE *out, const dl_run_result *mean)
{
    int64_t total = 0;
    for (int bin = 0; bin < mean->staleness_bins; bin++)
        total += count_of(mean, bin);
    const double runs = mean->syncer->applied > 0 ? (double)total / mean->syncer->applied : 1;
    for (int bin = 0; bin < mean->staleness_bins; bin++)
        fprintf(out, " %.0f", (double)count_of(mean, bin) / runs);
}

/* What became of the uploads to a syncer, by point; nothing where there is none. */
static void print_merges(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    bool any = false;
    char options[DL_REPORT_OPTIONS_BYTES];
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        const dl_syncer_result *s = row->mean.syncer;
        if (s == NULL) continue;
        if (!any) {
            fprintf(out, "%7s %7s %7s %9s %10s %8s %7s %10s %9s  %s\n", "workers", "uploads",
                    "applied", "too stale", "superseded", "unmerged", "merges", "outer step",
                    "goodput %", "applied by staleness 0, 1, ...");
        }
        any = true;
        char outer[32];
        const double outer_ns = dl_s_to_ns(row->mean.averaging->outer_step_mean_s);
        fprintf(out, "%7d %7.0f %7.0f %9.0f %10.0f %8.0f %7.0f %10s %9.1f ", row->point.workers,
                s->uploaded, s->applied, s->too_stale, s->superseded, s->unmerged, s->merges,
                s->merges > 0 ? dl_format_ns(outer, sizeof outer, outer_ns) : "-",
                100 * s->goodput_frac);
        print_applied(out, &row->mean);
        if (s->weight_mean < 1) fprintf(out, ", mean weight %.3f", s->weight_mean);
        dl_report_options(options, sizeof options, study, row);
        fprintf(out, "%s%s\n", options[0] != '\0' ? "  " : "", options);
    }
}

/* A time, or "-". */
static void print_time(FILE *out, int width, double seconds)
{
    char text[32];
    fprintf(out, " %*s", width,
            isnan(seconds) ? "-" : dl_format_ns(text, sizeof text, dl_s_to_ns(seconds)));
}

/* The outer steps of points that average between sites or nodes; nothing where there are none. */
static void print_outer_steps(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    bool any = false;
    char sent[32], options[DL_REPORT_OPTIONS_BYTES];
    const int width = sync_width(sweep, SYNC_WIDTH);
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        const dl_averaging_result *a = row->mean.averaging;
        if (a == NULL || row->mean.syncer != NULL || !(a->site_sent_bytes > 0)) continue;
        if (!any) {
            fprintf(out, "%7s %-*s %10s %10s %10s %10s %13s %10s  %s\n", "workers", width, "sync",
                    "outer step", "p95", "exchange", "blocked", "utilisation %", "site sends",
                    "options");
        }
        any = true;
        fprintf(out, "%7d %-*s", row->point.workers, width, row->point.mode->name);
        print_time(out, 10, a->outer_step_mean_s);
        print_time(out, 10, a->outer_step_p95_s);
        print_time(out, 10, a->exchange_s);
        print_time(out, 10, a->blocked_s);
        print_number(out, 13, 1, 100 * a->utilisation_frac);
        dl_report_options(options, sizeof options, study, row);
        fprintf(out, " %10s%s%s\n", dl_format_bytes(sent, sizeof sent, a->site_sent_bytes),
                options[0] != '\0' ? "  " : "", options);
    }
}

/* What failures and checkpoints leave of each point's throughput, where the scenario has them; the
 * best number of steps between two checkpoints. */
static void print_failures(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    bool any = false;
    const int width = sync_width(sweep, SYNC_WIDTH);
    char options[DL_REPORT_OPTIONS_BYTES];
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        const dl_scenario *scenario = &study->variants[row->variant].scenario;
        const dl_failures *failures = &scenario->failures;
        const double step_s = row->mean.step_mean_s;
        if (!dl_failures_given(failures) || !(step_s > 0) || row->mean.syncer != NULL) continue;
        if (!any) {
            fprintf(out, "with failures:\n%7s %-*s %9s %12s %21s  %s\n", "workers", width, "sync",
                    "goodput %", "samples/s", "best checkpoint_steps", "options");
        }
        any = true;
        const double goodput =
            dl_failures_goodput(failures, row->point.workers, scenario->steps, step_s);
        const int64_t best =
            dl_failures_best_steps(failures, row->point.workers, scenario->steps, step_s);
        fprintf(out, "%7d %-*s %9.2f %12.1f", row->point.workers, width, row->point.mode->name,
                100 * goodput, goodput * row->mean.throughput_per_s);
        print_number(out, 21, 0, best > 0 ? (double)best : (double)NAN);
        dl_report_options(options, sizeof options, study, row);
        fprintf(out, "%s%s\n", options[0] != '\0' ? "  " : "", options);
    }
}

/* What the absences of workers leave of their time; those of learners are in print_merges. */
static void print_absences(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    bool any = false;
    char options[DL_REPORT_OPTIONS_BYTES];
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        if (row->error != NULL || isnan(row->mean.goodput_frac) || row->mean.syncer != NULL)
            continue;
        if (!any) {
            fprintf(out, "with workers that are away:\n%7s %9s %7s %16s  %s\n", "workers",
                    "goodput %", "away %", "steps not lost %", "options");
        }
        any = true;
        fprintf(out, "%7d %9.1f %7.1f %16.1f", row->point.workers, 100 * row->mean.goodput_frac,
                100 * row->mean.away_frac, 100 * row->mean.applied_frac);
        dl_report_options(options, sizeof options, study, row);
        fprintf(out, "%s%s\n", options[0] != '\0' ? "  " : "", options);
    }
}

void dl_report_notes(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    size_t count = 0;
    char text[DL_DECIDING_TEXT_BYTES];
    char **notes = dl_traced_notes(study, sweep, &count);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s\n", notes[i]);
    dl_study_notes_free(notes, count);
    notes = dl_study_notes(study, &count);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s\n", notes[i]);
    dl_study_notes_free(notes, count);
    dl_report_assumed(out, study, sweep);
    char *is_short = dl_report_short_note(sweep);
    if (is_short != NULL) fprintf(out, "%s\n", is_short);
    free(is_short);
    dl_deciding_default *deciding = dl_deciding_defaults(study, sweep, &count);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s\n", dl_deciding_text(text, sizeof text, &deciding[i]));
    free(deciding);
}

void dl_report_note_print(FILE *out, const char *note)
{
    const int before = fprintf(out, "note: ");
    dl_wrap(out, note, before, before, dl_wrap_columns(out));
}

void dl_report_notes_print(FILE *out, char *text)
{
    char *rest = NULL;
    for (char *note = strtok_r(text, "\n", &rest); note != NULL;
         note = strtok_r(NULL, "\n", &rest)) {
        dl_report_note_print(out, note);
    }
}

static void print_notes(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *notes = dl_text_stream(&text, &bytes);
    dl_report_notes(notes, study, sweep);
    fclose(notes);
    dl_report_notes_print(out, text);
    free(text);
}

void dl_report_table(FILE *out, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured)
{
    char used[DL_MARKS_BYTES] = "";
    bool compare = false, failed = false, input = false;
    for (size_t i = 0; i < sweep->row_count; i++) {
        compare |= measured[i].runs > 0;
        failed |= measured[i].failed_runs > 0;
        dl_report_marks_of(used, &sweep->rows[i]);
        input |= sweep->rows[i].mean.part_frac[DL_PART_INPUT] >= DL_DECIDING_FRAC;
    }
    const table_style style = {study, sync_width(sweep, SYNC_WIDTH), options_width(study, sweep),
                               compare || failed, input};
    fprintf(out, "%s\n", study->variants[0].scenario.name);
    fprintf(out, "%5s %7s %6s %-*s %-*s %10s %12s %7s %6s%s %9s", "cores", "workers", "batch",
            style.sync_width, "sync", style.options_width, "options", "step", "samples/s",
            "speedup", "wait %", input ? " input %" : "", "staleness");
    if (style.compare) fprintf(out, " %12s %7s %9s", "measured/s", "error %", "staleness");
    fprintf(out, "\n");
    for (size_t i = 0; i < sweep->row_count; i++) {
        print_row(out, &style, &sweep->rows[i], &measured[i]);
    }
    if (input && study->variants[0].scenario.gpu != NULL) {
        fprintf(out, "wait %% includes GPUs waiting for input, which input %% shows\n");
    }
    dl_report_marks_explain(out, used, "", "");
    print_splits(out, study, sweep);
    print_outer_steps(out, study, sweep);
    print_merges(out, study, sweep);
    print_failures(out, study, sweep);
    print_absences(out, study, sweep);
    print_notes(out, study, sweep);
    if (compare) {
        const dl_accuracy accuracy = dl_accuracy_of(sweep, measured);
        dl_accuracy_print(out, &accuracy, sweep);
        print_staleness(out, sweep, measured);
    }
}
