/* Readable results: the answer, a table, notes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/report/accuracy.h"
#include "sim/report/deciding.h"
#include "sim/report/notes.h"
#include "sim/report/report.h"
#include "sim/report/report_assumed.h"
#include "sim/report/row_text.h"
#include "sim/report/views.h"

#define SPLITS_SHOWN 6
#define NOTES_SHOWN 6

/* --- tables ---------------------------------------------------------------------------------- */

/* A table that is being fitted to the width of a terminal. */
typedef struct view {
    dl_column_table table;
    const dl_column **columns; /* [table.column_count], like ranks and widths */
    int *ranks;
    size_t *widths;
    bool folds;   /* point values shared by all rows are in `common`, not in a column */
    char *common; /* "2 cores, batch 128, allreduce"; NULL: none */
} view;

/* Whether the column identifies the point; it has a value also in rows that did not run. */
static bool is_key(const dl_column *column)
{
    static const char *const keys[] = {"workers", "GPUs", "cores", "batch", "sync", "options"};
    for (size_t i = 0; i < DL_LENGTH(keys); i++)
        if (strcmp(column->heading, keys[i]) == 0) return true;
    return false;
}

static bool any_ran(const dl_results *results)
{
    for (size_t i = 0; i < results->count; i++)
        if (results->results[i].row->error == NULL) return true;
    return false;
}

static void view_add(view *v, const dl_column *column, int rank)
{
    const size_t count = v->table.column_count++;
    v->columns = dl_realloc(v->columns, count + 1, sizeof *v->columns, "columns");
    v->ranks = dl_realloc(v->ranks, count + 1, sizeof *v->ranks, "ranks");
    v->widths = dl_realloc(v->widths, count + 1, sizeof *v->widths, "widths");
    v->columns[count] = column;
    v->ranks[count] = rank;
    v->widths[count] = dl_column_width(&v->table, column);
    v->table.columns = v->columns;
}

/* Returns the common value of a column that identifies points: "2 cores", "batch 128", "batch 32 a
 * worker", "allreduce", "interval 10", freed by the caller; NULL if rows differ in it. */
static char *common_text(const view *v, const dl_results *results, const dl_column *column)
{
    const dl_point *first = &results->results[0].row->point;
    const int64_t each = first->batch / first->workers;
    bool weak = strcmp(column->heading, "batch") == 0;
    if (!v->folds && !weak) return NULL;
    if (results->count == 1 && results->results[0].row->error != NULL) return NULL;
    for (size_t i = 0; i < results->count && weak; i++) {
        const dl_point *point = &results->results[i].row->point;
        weak = point->batch == each * point->workers;
    }
    char *value = dl_column_common_text(&v->table, column);
    if (value == NULL && weak) value = dl_format("%lld a worker", (long long)each);
    if (value == NULL || strcmp(column->heading, "sync") == 0) return value;
    const bool counts = strcmp(column->heading, "cores") == 0;
    char *text = dl_format("%s %s", counts ? value : column->heading, counts ? "cores" : value);
    free(value);
    return text;
}

/* Adds a column that identifies the point, or its common value to v->common. */
static void view_add_key(view *v, const dl_results *results, const dl_column *column, int rank)
{
    DL_AUTOFREE char *text = common_text(v, results, column);
    if (text != NULL) {
        dl_join(&v->common, ", ", text);
    } else {
        view_add(v, column, rank);
    }
}

/* Adds one column per option, or one column for all options, whichever is narrower. */
static void view_add_options(view *v, const dl_results *results)
{
    const dl_column *together = dl_result_column("options");
    size_t apart = 0;
    if (!dl_column_has_values(&v->table, together)) return;
    for (size_t o = 0; o < results->option_count; o++) {
        const dl_column *option = &results->options[o];
        if (!dl_column_has_values(&v->table, option)) continue;
        DL_AUTOFREE char *text = common_text(v, results, option);
        if (text == NULL) apart += dl_column_width(&v->table, option) + 1;
    }
    if (apart > dl_column_width(&v->table, together) + 1) {
        view_add(v, together, 0);
        return;
    }
    for (size_t o = 0; o < results->option_count; o++)
        if (dl_column_has_values(&v->table, &results->options[o]))
            view_add_key(v, results, &results->options[o], 0);
}

/* Selects the columns in which the rows have values; v->folds must be set before. */
static void view_begin(view *v, const dl_results *results, const dl_view *of)
{
    static const char *const keys[] = {"cores", "batch", "sync", "recompute"};
    const bool ran = any_ran(results);
    v->table = (dl_column_table){.rows = results->results,
                                 .row_count = results->count,
                                 .row_bytes = sizeof *results->results,
                                 .failed = dl_result_failure};
    for (size_t c = 0; c < of->count; c++) {
        const dl_view_column *wanted = &of->columns[c];
        const dl_column *column = dl_result_column(wanted->heading);
        if (wanted->rank == DL_VIEW_PAGE_ONLY) continue;
        if (strcmp(wanted->heading, "options") == 0) {
            view_add_options(v, results);
            continue;
        }
        if (!dl_view_shows(results, wanted) || (!ran && !is_key(column))) continue;
        if (dl_names_find(wanted->heading, keys, DL_LENGTH(keys)) >= 0) {
            view_add_key(v, results, column, wanted->rank);
        } else {
            view_add(v, column, wanted->rank);
        }
    }
}

static void view_end(view *v)
{
    free(v->columns);
    free(v->ranks);
    free(v->widths);
    free(v->common);
}

static void view_remove(view *v, size_t column)
{
    const size_t after = --v->table.column_count - column;
    memmove(v->columns + column, v->columns + column + 1, after * sizeof *v->columns);
    memmove(v->ranks + column, v->ranks + column + 1, after * sizeof *v->ranks);
    memmove(v->widths + column, v->widths + column + 1, after * sizeof *v->widths);
}

/* Keeps the columns of rank 0, and as many others as fit into `width` characters, lowest ranks
 * first; appends the headings of the dropped columns to *left_out. */
static void view_fit(view *v, size_t width, char **left_out)
{
    DL_AUTOFREE bool *kept = dl_calloc(v->table.column_count, sizeof *kept, "columns");
    const size_t extra = dl_columns_extra(&v->table);
    size_t used = extra;
    int most = 0;
    for (size_t c = 0; c < v->table.column_count; c++) {
        kept[c] = v->ranks[c] == 0;
        if (kept[c]) used += v->widths[c] + (used > extra);
        if (v->ranks[c] > most) most = v->ranks[c];
    }
    for (int rank = 1; rank <= most; rank++) {
        for (size_t c = 0; c < v->table.column_count; c++) {
            if (v->ranks[c] != rank || used + 1 + v->widths[c] > width) continue;
            kept[c] = true;
            used += 1 + v->widths[c];
        }
    }
    for (size_t c = v->table.column_count; c-- > 0;) {
        if (kept[c]) continue;
        dl_join(left_out, ", ", v->columns[c]->heading);
        view_remove(v, c);
    }
}

static void print_view(FILE *out, const dl_results *all, const dl_view *of)
{
    dl_results some;
    dl_view_rows(&some, all, of);
    /* The first table states the settings common to all rows; a further table of all rows omits
     * them, one of some rows only the batch. */
    view v = {.folds = some.count == all->count};
    if (some.count > 0) {
        DL_AUTOFREE char *left_out = NULL;
        fprintf(out, "%s:\n", of->title);
        view_begin(&v, &some, of);
        view_fit(&v, (size_t)dl_wrap_columns(out), &left_out);
        dl_columns_print(out, &v.table, (size_t)dl_wrap_columns(out));
        view_end(&v);
    }
    free(some.results);
}

/* --- the answer ------------------------------------------------------------------------------ */

static const char *word_of(const dl_result *r)
{
    const bool one = r->row->point.workers == 1;
    if (r->variant->scenario.gpu == NULL || dl_point_is_split(&r->row->point))
        return one ? "worker" : "workers";
    return one ? "GPU" : "GPUs";
}

/* Writes "4 GPUs, average, interval 100" or "2 workers on 2 cores, async". */
static void put_point(char **text, const dl_result *r)
{
    char options[DL_REPORT_OPTIONS_BYTES];
    dl_report_options(options, sizeof options, r->study, r->row);
    dl_extend(text, "%d %s", r->row->point.workers, word_of(r));
    if (r->row->point.cores != DL_CORES_GPU)
        dl_extend(text, " on %d core%s", r->row->point.cores, r->row->point.cores == 1 ? "" : "s");
    dl_extend(text, ", %s%s%s", dl_point_mode(&r->row->point), options[0] != '\0' ? ", " : "",
              options);
}

/* Compares the answer with the trace that the costs come from. */
static void put_trace(char **text, const dl_row *row)
{
    char marks[DL_MARKS_BYTES];
    dl_report_marks(marks, row);
    if (strchr(marks, '!') != NULL) {
        dl_extend(
            text,
            " The trace of the costs contradicts this: its own step is predicted %.0f %% too %s.",
            100 * fabs(row->trace_error_frac / (1 + row->trace_error_frac)),
            row->trace_error_frac > 0 ? "short" : "long");
    }
    if (strchr(marks, '+') != NULL)
        dl_extend(text, " Collectives of the traced step are left out.");
}

#define SPEEDUP_SHOWN 0.01 /* smallest speedup that is shown */

char *dl_report_answer(const dl_results *results)
{
    static const char *const words[DL_PART_COUNT] = {
        [DL_PART_COMPUTE] = "Compute takes",
        [DL_PART_DISPATCH] = "The host's launches take",
        [DL_PART_COMMUNICATION] = "Communication takes",
        [DL_PART_AVERAGING] = "Averaging takes",
        [DL_PART_WAITING] = "Waiting takes",
        [DL_PART_INPUT] = "Waiting for input takes",
    };
    const dl_result *best = dl_results_best(results);
    if (best == NULL) return NULL;
    const dl_row *row = best->row;
    if (row->mean.rollout != NULL) return dl_generators_answer(best, results->count > 1);
    const dl_part part = dl_dominant_part(row);
    char bound[DL_BOUND_TEXT_BYTES], *text = NULL;
    const double target_s = dl_result_target_s(best), usd = dl_result_target_usd(best);
    if (results->count > 1)
        dl_extend(&text, "%s", isnan(target_s) ? "Fastest: " : "First at the target: ");
    put_point(&text, best);
    dl_extend(&text, ": ");
    if (!isnan(target_s)) {
        dl_extend(&text, "%s hours", DL_RATE_TEXT(target_s / 3600));
        if (!isnan(usd)) dl_extend(&text, " and %s USD", DL_RATE_TEXT(usd));
        dl_extend(&text, " to the target, ");
    }
    dl_extend(&text, "%s samples/s", DL_RATE_TEXT(row->mean.throughput_per_s));
    if (!isnan(row->low_per_s))
        dl_extend(&text, " (95 %%: %s to %s)", DL_RATE_TEXT(row->low_per_s),
                  DL_RATE_TEXT(row->high_per_s));
    if (dl_point_gpus(&row->point) > row->baseline_gpus && row->speedup >= SPEEDUP_SHOWN) {
        dl_extend(&text, row->speedup < 999.5 ? ", %.3g times %s" : ", %.0f times %s", row->speedup,
                  row->baseline_text[0] != '\0'    ? row->baseline_text
                  : dl_point_is_split(&row->point) ? "one GPU"
                                                   : "one");
        if (row->baseline_gpus == 1) dl_extend(&text, " without exchange");
    }
    const char *bound_by = dl_result_bound(best, bound);
    dl_extend(&text, ". %s %.0f %% of a step", words[part], 100 * row->mean.part_frac[part]);
    const bool by_host = part != DL_PART_DISPATCH && strcmp(bound_by, "host") == 0;
    if (part == DL_PART_COMMUNICATION || part == DL_PART_WAITING || by_host)
        dl_extend(&text, ", bound by %s", bound_by);
    dl_extend(&text, ".");
    put_trace(&text, row);
    return text;
}

#define BASELINES_SHOWN 3

/* Returns the baseline of a row with a speedup, "one GPU" or "one worker" if it is one worker with
 * the micro-batches of the costs; NULL: none. */
static const char *baseline_of(const dl_row *row)
{
    if (row->error != NULL || isnan(row->speedup)) return NULL;
    if (row->baseline_text[0] != '\0') return row->baseline_text;
    return row->point.cores == DL_CORES_GPU ? "one GPU" : "one worker";
}

/* Returns the row's machine and model where the study lists several, "8xa100, gpt2, "; the caller
 * frees it. */
static char *place_of_baseline(const dl_result *of)
{
    static const char *const columns[] = {"machine", "model"};
    char *text = dl_strdup("");
    for (size_t c = 0; c < DL_LENGTH(columns); c++) {
        for (size_t k = 0; k < of->study->key_count; k++) {
            if (strcmp(of->study->keys[k].column, columns[c]) != 0) continue;
            dl_extend(&text, "%s, ", dl_study_text(of->study, of->variant, &of->row->point, k));
        }
    }
    return text;
}

/* Returns a line such as "Speedup is over one worker of fsdp=2."; NULL if no row has a speedup, or
 * if all are over one worker (or one GPU) without anything to add. The caller frees it. */
static char *speedup_line(const dl_results *results)
{
    DL_AUTOFREE char *list = NULL,
                     **entries = dl_calloc(results->count, sizeof *entries, "baselines");
    size_t count = 0, apart = 0;
    const char *first = NULL;
    bool is_plain = true, places = false;
    const bool machines = dl_study_swept(results->results[0].study, "machine", "file") != NULL;
    for (size_t i = 0; i < results->count; i++) {
        const dl_result *of = &results->results[i];
        const char *text = baseline_of(of->row);
        if (text == NULL) continue;
        char *place = place_of_baseline(of), *entry = dl_format("%s%s", place, text);
        bool is_new = true;
        for (size_t k = 0; k < count && is_new; k++)
            is_new = strcmp(entries[k], entry) != 0;
        if (first == NULL) first = text;
        apart += strcmp(first, text) != 0;
        is_plain = is_plain && of->row->baseline_text[0] == '\0';
        places |= place[0] != '\0';
        free(place);
        if (is_new && count < BASELINES_SHOWN) dl_join(&list, "; ", entry);
        if (is_new) {
            entries[count++] = entry;
        } else {
            free(entry);
        }
    }
    char *line = NULL;
    if (apart > 0) {
        line = dl_format("Speedup is over %s%s%s.",
                         machines ? "each machine's own baseline: "
                         : places ? "each model's own baseline: "
                                  : "",
                         list, count > BASELINES_SHOWN ? "; or others" : "");
    } else if (first != NULL && (machines || !is_plain)) {
        line = dl_format("Speedup is over %s%s.", first, machines ? " of each machine" : "");
    }
    for (size_t k = 0; k < count; k++)
        free(entries[k]);
    return line;
}

static void print_rows(FILE *out, const dl_results *results)
{
    view v = {.folds = true};
    DL_AUTOFREE char *left_out = NULL;
    const dl_result *best = dl_results_best(results);
    DL_AUTOFREE char *answer = dl_report_answer(results);
    if (answer != NULL) dl_wrap_print(out, 2, "%s", answer);
    view_begin(&v, results, dl_view_main(results));
    if (v.common != NULL)
        dl_wrap_print(out, 2, "%s: %s.", results->count > 1 ? "In all rows" : "Settings", v.common);
    DL_AUTOFREE char *over = speedup_line(results);
    if (over != NULL) dl_wrap_print(out, 2, "%s", over);
    v.table.mark = dl_result_mark;
    v.table.remark = dl_result_remark;
    v.table.chosen = results->count > 1 ? best : NULL;
    while (v.table.failed_from < v.table.column_count &&
           strcmp(v.columns[v.table.failed_from]->heading, "step") != 0 &&
           strcmp(v.columns[v.table.failed_from]->heading, "update") != 0) {
        v.table.failed_from++;
    }
    view_fit(&v, (size_t)dl_wrap_columns(out), &left_out);
    dl_columns_print(out, &v.table, (size_t)dl_wrap_columns(out));
    if (left_out != NULL) dl_wrap_print(out, 2, "Left out here: %s.", left_out);
    view_end(&v);
}

/* Writes ", 2 stages, 8 micro-batches, 1f1b, each sharded over 4 GPUs, layers divided over 2
 * GPUs". */
static void print_layout(FILE *out, const dl_variant *variant, const dl_split *of)
{
    fprintf(out, ", %d stages, %d micro-batches, %s", of->stages, of->micro_batches,
            dl_schedule_names[variant->scenario.pipeline->schedule]);
    if (dl_split_is_sharded(of)) fprintf(out, ", each sharded over %d GPUs", of->shards);
    if (of->context > 1) fprintf(out, ", sequences divided over %d GPUs", of->context);
    if (of->experts > 1) fprintf(out, ", experts divided over %d GPUs", of->experts);
    if (of->tensor > 1) fprintf(out, ", layers divided over %d GPUs", of->tensor);
}

static void print_stages(FILE *out, const dl_variant *variant, const dl_row *row)
{
    const dl_point *point = &row->point;
    const dl_split_result *split = row->mean.split;
    const dl_split of = dl_point_split(point);
    char text[DL_POINT_TEXT_BYTES], needs[32], has[32];
    fprintf(out, "%s", dl_point_text(text, sizeof text, point));
    print_layout(out, variant, &of);
    if (split != NULL) fprintf(out, ": bubble %.1f %%", 100 * split->bubble_frac);
    fprintf(out, "\n");
    DL_AUTOFREE char *layers = dl_run_split_text(&variant->scenario, &variant->costs, point);
    char *rest = layers;
    for (int s = 0; s < of.stages && layers != NULL; s++) {
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
        const int staleness = dl_pipeline_staleness(variant->scenario.pipeline->schedule, &of, s);
        if (staleness > 0) fprintf(out, "  staleness %d", staleness);
        fprintf(out, "\n");
    }
}

/* Writes a line for each stage of each split point or, if there are many such points, only their
 * number. */
static void print_splits(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    int points = 0;
    /* With generators the stages belong to the trainer. */
    if (study->variants[0].scenario.generators != NULL) return;
    for (size_t r = 0; r < sweep->row_count; r++)
        points += sweep->rows[r].point.stages > 1;
    if (points > SPLITS_SHOWN) {
        fprintf(out, "%d points of split models: their stages are in the results\n", points);
        return;
    }
    for (size_t r = 0; r < sweep->row_count; r++) {
        const dl_row *row = &sweep->rows[r];
        if (row->point.stages > 1) print_stages(out, &study->variants[row->variant], row);
    }
}

/* --- notes ----------------------------------------------------------------------------------- */

/* Adds the defaults that take time, or those that take none, with the fraction that they take. */
static void add_deciding(dl_effects *effects, const dl_deciding_default *all, size_t count,
                         bool has_share)
{
    char text[DL_DECIDING_TEXT_BYTES];
    for (size_t i = 0; i < count; i++)
        if ((all[i].column != NULL) == has_share)
            dl_effects_add(effects, has_share ? all[i].most : 0, "%s",
                           dl_deciding_text(text, sizeof text, &all[i]));
}

#define ALONE_FRAC 0.97

/* If one worker with an exchange is slower than one without, adds the slowest such row and the
 * causes of its loss, which the columns show only in part. */
static void add_alone(dl_effects *effects, const dl_study *study, const dl_sweep *sweep)
{
    DL_AUTOFREE char *text = NULL;
    const dl_row *slowest = NULL;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error == NULL && row->point.workers == 1 && !dl_point_is_split(&row->point) &&
            row->baseline_is_own && row->speedup < ALONE_FRAC &&
            row->point.mode->exchange != DL_EXCHANGES_NOTHING &&
            (slowest == NULL || row->speedup < slowest->speedup)) {
            slowest = row;
        }
    }
    if (slowest == NULL) return;
    const dl_costs *costs = &study->variants[slowest->variant].costs;
    const int64_t batch = slowest->point.batch, base_parts = slowest->baseline_parts;
    const int64_t parts = (int64_t)slowest->point.option[DL_SYNC_ACCUMULATE];
    const bool reduces = dl_mode_reduces_gradients(slowest->point.mode);
    const double bucket_ns =
        reduces ? dl_costs_step_ns(costs, (double)batch / (double)parts, "bucket") : 0;
    const double slower_ns = dl_s_to_ns(slowest->mean.step_mean_s) * (1 - slowest->speedup);
    const bool accumulates = reduces && parts > base_parts && bucket_ns < slower_ns / 2;
    dl_extend(&text, "1 worker with %s is %.3g times one without exchange: ",
              dl_point_mode(&slowest->point), slowest->speedup);
    if (accumulates) {
        dl_extend(&text,
                  "%lld micro-batches of %lld samples take %s a step longer than %lld of %lld",
                  (long long)parts, (long long)(batch / parts), DL_NS_TEXT(slower_ns - bucket_ns),
                  (long long)base_parts, (long long)(batch / base_parts));
    }
    if (bucket_ns > 0) {
        dl_extend(
            &text,
            "%sDistributedDataParallel copies gradients into buckets and back, %s a step, with one "
            "process too",
            accumulates ? "; " : "", DL_NS_TEXT(bucket_ns));
    } else if (!accumulates) {
        dl_parts_put(&text, slowest, 0);
        dl_extend(&text, " of its step");
    }
    dl_effects_add(effects, 1 - slowest->speedup, "%s", text);
}

/* If no row has an interval, tells how to obtain the interval that follows from the costs' standard
 * errors. */
static void put_no_interval(dl_notes *notes, const dl_study *study, const dl_sweep *sweep)
{
    bool errors = false;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        const dl_variant *variant = &study->variants[row->variant];
        if (!isnan(row->low_per_s) || variant->scenario.replicates > 1) return;
        errors = errors || (row->error == NULL && dl_costs_have_errors(&variant->costs));
    }
    if (errors)
        dl_notes_add(notes,
                     "no interval, as a single run uses the mean costs: --replicates 20 draws "
                     "them within their standard errors");
}

/* Effect of compute times that are not measured; 0: none. */
static double effect_of_compute(const dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->influence_count; i++)
        if (sweep->influences[i].kind == DL_INFLUENCE_COMPUTE)
            return dl_influence_size(&sweep->influences[i]);
    return 0;
}

/* Writes notes on the validity of rows and of settings, then those with a measured effect, the
 * largest first, then the others. */
void dl_report_notes(dl_notes *notes, const dl_study *study, const dl_sweep *sweep)
{
    size_t deciding_count = 0;
    dl_effects effects = {0};
    DL_SCOPED(dl_notes) computes = {0}, others = {0};
    dl_report_row_notes(notes, study, sweep);
    dl_traced_notes(notes, study, sweep);
    dl_study_notes(notes, study, DL_NOTES_LEADING);
    dl_study_notes(&computes, study, DL_NOTES_COMPUTE);
    dl_study_notes(&others, study, DL_NOTES_OTHER);
    DL_AUTOFREE dl_deciding_default *deciding = dl_deciding_defaults(study, sweep, &deciding_count);
    const double compute = effect_of_compute(sweep);
    add_alone(&effects, study, sweep);
    for (size_t i = 0; i < computes.count; i++)
        dl_effects_add(&effects, compute, "%s", computes.lines[i]);
    add_deciding(&effects, deciding, deciding_count, true);
    dl_report_assumed(&effects, study, sweep);
    for (size_t i = 0; i < others.count; i++)
        dl_effects_add(&effects, 0, "%s", others.lines[i]);
    add_deciding(&effects, deciding, deciding_count, false);
    dl_effects_end(notes, &effects);
    put_no_interval(notes, study, sweep);
}

void dl_report_note_print(FILE *out, const char *note)
{
    const int before = fprintf(out, "note: ");
    dl_wrap(out, note, before, before, dl_wrap_columns(out));
}

/* Prints the first NOTES_SHOWN notes, or all. */
static void print_notes(FILE *out, const dl_study *study, const dl_sweep *sweep, bool all)
{
    DL_SCOPED(dl_notes) notes = {0};
    dl_report_notes(&notes, study, sweep);
    const size_t more = !all && notes.count > NOTES_SHOWN ? notes.count - NOTES_SHOWN : 0;
    for (size_t i = 0; i + more < notes.count; i++)
        dl_report_note_print(out, notes.lines[i]);
    if (more > 0)
        fprintf(out, "%zu more note%s: --notes shows %s\n", more, more == 1 ? "" : "s",
                more == 1 ? "it" : "them");
}

/* Suggests --calibrate if the predictions for all measured rows of the first variant with a single
 * worker err in the same direction by more than DL_BAR_MEAN_FRAC. Names the row with the largest
 * batch. */
static void suggest_calibration(FILE *out, const dl_study *study, const dl_sweep *sweep,
                                const dl_measured *measured)
{
    double least = (double)INFINITY, most = -(double)INFINITY;
    size_t alone = sweep->row_count;
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (measured[i].runs == 0 || row->error != NULL || row->variant != 0) continue;
        if (row->point.workers > 1 || dl_point_is_split(&row->point)) continue;
        const double error = dl_report_error_frac(row, &measured[i]);
        least = fmin(least, error);
        most = fmax(most, error);
        if (alone == sweep->row_count || row->point.batch > sweep->rows[alone].point.batch)
            alone = i;
    }
    if (alone == sweep->row_count || study->variants[0].calibrated.factor > 0) return;
    if (least <= DL_BAR_MEAN_FRAC && most >= -DL_BAR_MEAN_FRAC) return;
    fprintf(out,
            "one worker alone misses by %+.1f %% (batch %lld): its step differs, not the exchange; "
            "--calibrate %.4gms@1x%lld scales computing to it\n",
            100 * dl_report_error_frac(&sweep->rows[alone], &measured[alone]),
            (long long)sweep->rows[alone].point.batch,
            1e3 * measured[alone].value[DL_MEASURE_STEP_S],
            (long long)sweep->rows[alone].point.batch);
}

void dl_report_table(FILE *out, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured, bool all_notes)
{
    char used[DL_MARKS_BYTES] = "";
    bool compare = false;
    DL_SCOPED(dl_results) results;
    for (size_t i = 0; i < sweep->row_count; i++) {
        compare |= measured[i].runs > 0;
        dl_report_marks_of(used, &sweep->rows[i]);
    }
    dl_results_make(&results, study, sweep, measured, false);
    fprintf(out, "%s\n", study->variants[0].scenario.name);
    print_rows(out, &results);
    dl_report_marks_explain(out, used, "", "");
    print_splits(out, study, sweep);
    for (size_t i = 0; i < DL_VIEWS_FURTHER; i++)
        print_view(out, &results, &dl_views_further[i]);
    print_notes(out, study, sweep, all_notes);
    const dl_accuracy accuracy = dl_accuracy_of(sweep, measured);
    dl_accuracy_print(out, &accuracy, sweep, compare);
    if (compare) {
        suggest_calibration(out, study, sweep, measured);
        print_view(out, &results, &dl_view_staleness);
    }
}
