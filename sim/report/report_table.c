/* The results for people: the answer, a table, notes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "common/wrap.h"
#include "sim/fits.h"
#include "sim/report/accuracy.h"
#include "sim/report/columns.h"
#include "sim/report/notes.h"
#include "sim/report/report.h"
#include "sim/report/report_assumed.h"

#define SPLITS_SHOWN 6
#define NOTES_SHOWN 6

double dl_report_error_frac(const dl_row *row, const dl_measured *measured)
{
    return row->mean.throughput_per_s / measured->value[DL_MEASURE_PER_S] - 1;
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
    const bool is[] = {row->extrapolated, !isnan(row->left_out_s), row->contradicts_trace};
    size_t count = 0;
    for (size_t m = 0; m < DL_LENGTH(meanings) && row->error == NULL; m++)
        if (is[m]) text[count++] = meanings[m].mark;
    text[count] = '\0';
    return text;
}

char *dl_report_above(const dl_row *row)
{
    if (row->above == NULL) return NULL;
    return dl_format("%.1f %% each: %s", 100 * row->efficiency, row->above);
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

/* --- tables ---------------------------------------------------------------------------------- */

/* A column of a table: where lines are too long, those of the highest rank are left out first; of
 * rank 0 none. */
typedef struct view_column {
    const char *heading;
    int rank;
    double least; /* shown only where some row has this much */
} view_column;

typedef struct view {
    dl_column_table table;
    const dl_column **columns; /* [table.column_count], as the next two */
    int *ranks;
    size_t *widths;
    bool folds;   /* values of the point that all rows have are in `common`, not in a column */
    char *common; /* "2 cores, batch 128, allreduce"; NULL: none */
} view;

static bool reaches(const dl_results *results, const dl_column *column, double least)
{
    for (size_t i = 0; i < results->count; i++) {
        dl_datum datum = column->get(&results->results[i], column);
        const bool does = datum.number >= least;
        dl_datum_free(&datum);
        if (does) return true;
    }
    return false;
}

static const char *failure_of(const void *row)
{
    return ((const dl_result *)row)->row->error;
}

/* Whether it is one of the columns that say the point; a row that did not run has them too. */
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

/* The value of a column that says the point, where several rows have it in common: "2 cores",
 * "batch 128", "batch 32 a worker", "allreduce", "interval 10". The caller frees it; NULL: they
 * differ. */
static char *common_text(const view *v, const dl_results *results, const dl_column *column)
{
    if (!v->folds || results->count < 2) return NULL;
    const dl_point *first = &results->results[0].row->point;
    const int64_t each = first->batch / first->workers;
    bool weak = strcmp(column->heading, "batch") == 0;
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

/* Adds a column that says the point, or its value to v->common. */
static void view_add_key(view *v, const dl_results *results, const dl_column *column, int rank)
{
    char *text = common_text(v, results, column);
    if (text != NULL) {
        dl_join(&v->common, ", ", text);
    } else {
        view_add(v, column, rank);
    }
    free(text);
}

/* The options in a column each, or in one together, whichever is narrower. */
static void view_add_options(view *v, const dl_results *results)
{
    const dl_column *together = dl_result_column("options");
    size_t apart = 0;
    if (!dl_column_has_values(&v->table, together)) return;
    for (size_t o = 0; o < results->option_count; o++) {
        const dl_column *option = &results->options[o];
        if (!dl_column_has_values(&v->table, option)) continue;
        char *text = common_text(v, results, option);
        if (text == NULL) apart += dl_column_width(&v->table, option) + 1;
        free(text);
    }
    if (apart > dl_column_width(&v->table, together) + 1) {
        view_add(v, together, 0);
        return;
    }
    for (size_t o = 0; o < results->option_count; o++)
        if (dl_column_has_values(&v->table, &results->options[o]))
            view_add_key(v, results, &results->options[o], 0);
}

/* Takes the columns that the rows have values in; v->folds is set before. */
static void view_begin(view *v, const dl_results *results, const view_column *wanted, size_t count)
{
    static const char *const keys[] = {"cores", "batch", "sync"};
    const bool ran = any_ran(results);
    v->table = (dl_column_table){.rows = results->results,
                                 .row_count = results->count,
                                 .row_bytes = sizeof *results->results,
                                 .failed = failure_of};
    for (size_t c = 0; c < count; c++) {
        const dl_column *column = dl_result_column(wanted[c].heading);
        if (strcmp(wanted[c].heading, "options") == 0) {
            view_add_options(v, results);
            continue;
        }
        if (!dl_column_has_values(&v->table, column) || (!ran && !is_key(column))) continue;
        if (wanted[c].least > 0 && !reaches(results, column, wanted[c].least)) continue;
        if (dl_names_find(wanted[c].heading, keys, DL_LENGTH(keys)) >= 0) {
            view_add_key(v, results, column, wanted[c].rank);
        } else {
            view_add(v, column, wanted[c].rank);
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

/* Keeps the columns of rank 0, and of the others as many as lines of `width` characters have room
 * for, those of the lowest ranks first; appends the headings of the rest to *left_out. */
static void view_fit(view *v, size_t width, char **left_out)
{
    bool *kept = dl_calloc(v->table.column_count, sizeof *kept, "columns");
    size_t used = dl_columns_extra(&v->table);
    int most = 0;
    for (size_t c = 0; c < v->table.column_count; c++) {
        kept[c] = v->ranks[c] == 0;
        if (kept[c]) used += v->widths[c] + (used > 0);
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
    free(kept);
}

/* A table of the rows for which `has` is true; nothing where there is none. */
static void print_view(FILE *out, const dl_results *all, bool (*has)(const dl_result *),
                       const char *title, const view_column *wanted, size_t count)
{
    dl_results some = *all;
    some.results = dl_calloc(all->count, sizeof *some.results, "results");
    some.count = 0;
    view v = {.folds = false};
    for (size_t i = 0; i < all->count; i++)
        if (all->results[i].row->error == NULL && has(&all->results[i]))
            some.results[some.count++] = all->results[i];
    if (some.count > 0) {
        char *left_out = NULL;
        fprintf(out, "%s\n", title);
        view_begin(&v, &some, wanted, count);
        view_fit(&v, (size_t)dl_wrap_columns(out), &left_out);
        dl_columns_print(out, &v.table, (size_t)dl_wrap_columns(out));
        view_end(&v);
        free(left_out);
    }
    free(some.results);
}

/* --- the answer ------------------------------------------------------------------------------ */

static char *remark_of(const void *row)
{
    const dl_result *r = row;
    if (r->row->error == NULL) return dl_report_above(r->row);
    if (!r->says_fit || dl_memory_fits(&r->row->memory)) return NULL;
    return dl_fits_text(&r->variant->scenario, &r->variant->costs, &r->row->point, &r->row->memory);
}

static const char *mark_of(const void *row)
{
    return ((const dl_result *)row)->marks;
}

/* The row with the highest throughput, one without exchange only where there is no other; NULL: none
 * ran. */
static const dl_result *fastest(const dl_results *results)
{
    const dl_result *best = NULL;
    for (size_t i = 0; i < results->count; i++) {
        const dl_result *r = &results->results[i];
        if (r->row->error != NULL) continue;
        const bool baseline = r->row->point.mode == &dl_mode_none;
        const bool was_baseline = best != NULL && best->row->point.mode == &dl_mode_none;
        if (best == NULL || (was_baseline && !baseline) ||
            (was_baseline == baseline &&
             r->row->mean.throughput_per_s > best->row->mean.throughput_per_s)) {
            best = r;
        }
    }
    return best;
}

static const char *word_of(const dl_result *r)
{
    const bool one = r->row->point.workers == 1;
    if (r->variant->scenario.gpu == NULL || dl_point_is_split(&r->row->point))
        return one ? "worker" : "workers";
    return one ? "GPU" : "GPUs";
}

/* "4 GPUs, average, interval 100", "2 workers on 2 cores, async". */
static void put_point(FILE *out, const dl_result *r)
{
    char options[DL_REPORT_OPTIONS_BYTES];
    dl_report_options(options, sizeof options, r->study, r->row);
    fprintf(out, "%d %s", r->row->point.workers, word_of(r));
    if (r->row->point.cores != DL_CORES_GPU)
        fprintf(out, " on %d core%s", r->row->point.cores, r->row->point.cores == 1 ? "" : "s");
    fprintf(out, ", %s%s%s", r->row->point.mode->name, options[0] != '\0' ? ", " : "", options);
}

/* What the trace that the costs are from says against the answer. */
static void put_trace(FILE *line, const dl_row *row)
{
    char marks[DL_MARKS_BYTES];
    dl_report_marks(marks, row);
    if (strchr(marks, '!') != NULL) {
        fprintf(line,
                " The trace that the costs are from contradicts this: its own step is "
                "predicted %.0f %% too %s.",
                100 * fabs(row->trace_error_frac / (1 + row->trace_error_frac)),
                row->trace_error_frac > 0 ? "short" : "long");
    }
    if (strchr(marks, '+') != NULL) fputs(" Collectives of the traced step are left out.", line);
}

#define SPEEDUP_SHOWN 0.01 /* a scenario that is nearly all exchange has none */

/* "Fastest: 4 GPUs, average, interval 100: 167 samples/s (95 %: 125 to 223), 3.86 times one without
 * exchange. Communication takes 97 % of a step, over node0 port0 up." */
static void print_answer(FILE *out, const dl_results *results, const dl_result *best)
{
    static const dl_column rate = {.form = DL_FORM_RATE};
    static const char *const words[DL_PART_COUNT] = {
        [DL_PART_COMPUTE] = "Compute takes",
        [DL_PART_DISPATCH] = "The host's launches take",
        [DL_PART_COMMUNICATION] = "Communication takes",
        [DL_PART_AVERAGING] = "Averaging takes",
        [DL_PART_WAITING] = "Waiting takes",
        [DL_PART_INPUT] = "Waiting for input takes",
    };
    const dl_row *row = best->row;
    const dl_part part = dl_dominant_part(row);
    char bound[DL_BOUND_TEXT_BYTES], *text = NULL, *per_s = NULL;
    size_t bytes = 0;
    FILE *line = dl_text_stream(&text, &bytes);
    if (results->count > 1) fputs("Fastest: ", line);
    put_point(line, best);
    per_s = dl_column_number_text(&rate, row->mean.throughput_per_s);
    fprintf(line, ": %s samples/s", per_s);
    free(per_s);
    if (!isnan(row->low_per_s)) {
        char *low = dl_column_number_text(&rate, row->low_per_s);
        char *high = dl_column_number_text(&rate, row->high_per_s);
        fprintf(line, " (95 %%: %s to %s)", low, high);
        free(low);
        free(high);
    }
    if (row->point.workers > 1 && row->speedup >= SPEEDUP_SHOWN)
        fprintf(line, ", %.3g times one without exchange", row->speedup);
    const char *bound_by = dl_result_bound(best, bound);
    fprintf(line, ". %s %.0f %% of a step", words[part], 100 * row->mean.part_frac[part]);
    if (part == DL_PART_COMMUNICATION || part == DL_PART_WAITING)
        fprintf(line, ", bound by %s", bound_by);
    fputs(".", line);
    put_trace(line, row);
    fclose(line);
    dl_wrap(out, text, 0, 2, dl_wrap_columns(out));
    free(text);
}

static void print_rows(FILE *out, const dl_results *results)
{
    static const view_column wanted[] = {{"workers", 0, 0},        {"GPUs", 1, 0},
                                         {"cores", 0, 0},          {"batch", 2, 0},
                                         {"sync", 0, 0},           {"options", 0, 0},
                                         {"step", 0, 0},           {"samples/s", 0, 0},
                                         {"speedup", 1, 0},        {"comp. %", 7, 0},
                                         {"host %", 8, 0.01},      {"comm. %", 4, 0.0005},
                                         {"avg. %", 8, 0.01},      {"wait %", 5, 0.0005},
                                         {"input %", 4, 0.01},     {"bound by", 3, 0},
                                         {"memory", 6, 0},         {"tokens/s", 5, 0},
                                         {"USD/h", 9, 0},          {"epoch", 6, 0},
                                         {"USD/epoch", 5, 0},      {"staleness", 2, 0.005},
                                         {"stalest worker", 6, 0}, {"measured/s", 1, 0},
                                         {"error %", 1, 0},        {"measured staleness", 3, 0}};
    view v = {.folds = true};
    char *left_out = NULL;
    const dl_result *best = fastest(results);
    if (best != NULL) print_answer(out, results, best);
    view_begin(&v, results, wanted, DL_LENGTH(wanted));
    if (v.common != NULL) {
        char *line = dl_format("In all rows: %s.", v.common);
        dl_wrap(out, line, 0, 2, dl_wrap_columns(out));
        free(line);
    }
    v.table.mark = mark_of;
    v.table.remark = remark_of;
    v.table.chosen = results->count > 1 ? best : NULL;
    while (v.table.failed_from < v.table.column_count &&
           strcmp(v.columns[v.table.failed_from]->heading, "step") != 0) {
        v.table.failed_from++;
    }
    view_fit(&v, (size_t)dl_wrap_columns(out), &left_out);
    dl_columns_print(out, &v.table, (size_t)dl_wrap_columns(out));
    if (left_out != NULL) {
        char *line = dl_format("Left out here: %s.", left_out);
        dl_wrap(out, line, 0, 2, dl_wrap_columns(out));
        free(line);
    }
    free(left_out);
    view_end(&v);
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

/* --- further tables -------------------------------------------------------------------------- */

static bool averages_between_sites(const dl_result *r)
{
    const dl_averaging_result *a = r->row->mean.averaging;
    return a != NULL && r->row->mean.syncer == NULL && a->site_sent_bytes > 0;
}

static bool merges(const dl_result *r)
{
    return r->row->mean.syncer != NULL;
}

static bool may_fail(const dl_result *r)
{
    return dl_failures_given(&r->variant->scenario.failures) && r->row->mean.step_mean_s > 0 &&
           r->row->mean.syncer == NULL;
}

/* Absences of learners are in the table of merges. */
static bool is_away(const dl_result *r)
{
    return !isnan(r->row->mean.goodput_frac) && r->row->mean.syncer == NULL;
}

static bool staleness_is_measured(const dl_result *r)
{
    return r->row->worker_staleness != NULL &&
           !isnan(r->measured->value[DL_MEASURE_STALENESS_MEAN]);
}

static void print_staleness(FILE *out, const dl_results *results)
{
    static const view_column columns[] = {{"workers", 0, 0},   {"sync", 0, 0},
                                          {"staleness", 0, 0}, {"measured staleness", 0, 0},
                                          {"sd", 2, 0},        {"measured sd", 2, 0},
                                          {"p50", 3, 0},       {"measured p50", 3, 0},
                                          {"p90", 4, 0},       {"measured p90", 4, 0},
                                          {"by worker", 1, 0}, {"measured by worker", 1, 0}};
    print_view(out, results, staleness_is_measured, "staleness, predicted and measured:", columns,
               DL_LENGTH(columns));
}

static void print_further(FILE *out, const dl_results *results)
{
    static const view_column outer[] = {
        {"workers", 0, 0},    {"sync", 2, 0},          {"options", 0, 0},
        {"outer step", 0, 0}, {"p95", 3, 0},           {"exchange", 0, 0},
        {"blocked", 1, 0},    {"local steps %", 0, 0}, {"site sends", 1, 0}};
    static const view_column syncer[] = {
        {"workers", 0, 0},    {"options", 0, 0},    {"uploads", 0, 0},  {"applied", 0, 0},
        {"too stale", 0, 0},  {"superseded", 0, 0}, {"unmerged", 1, 0}, {"merges", 3, 0},
        {"outer step", 2, 0}, {"goodput %", 0, 0},  {"weight", 4, 0},   {"by staleness", 0, 0}};
    static const view_column failures[] = {
        {"workers", 0, 0},       {"sync", 2, 0},          {"options", 0, 0},
        {"job goodput %", 0, 0}, {"job samples/s", 0, 0}, {"best checkpoint_steps", 1, 0}};
    static const view_column absences[] = {{"workers", 0, 0},
                                           {"options", 0, 0},
                                           {"worker goodput %", 0, 0},
                                           {"away %", 0, 0},
                                           {"steps kept %", 0, 0}};
    print_view(out, results, averages_between_sites, "from one average to the next:", outer,
               DL_LENGTH(outer));
    print_view(out, results, merges,
               "uploads to the syncer; those applied by staleness 0, 1, ...:", syncer,
               DL_LENGTH(syncer));
    print_view(out, results, may_fail, "with failures:", failures, DL_LENGTH(failures));
    print_view(out, results, is_away, "with workers that are away:", absences, DL_LENGTH(absences));
}

/* --- notes ----------------------------------------------------------------------------------- */

static void put_deciding(FILE *out, const dl_deciding_default *all, size_t count, bool has_share)
{
    char text[DL_DECIDING_TEXT_BYTES];
    for (size_t i = 0; i < count; i++)
        if ((all[i].column != NULL) == has_share)
            fprintf(out, "%s\n", dl_deciding_text(text, sizeof text, &all[i]));
}

#define ALONE_FRAC 0.97

/* Where one worker with an exchange is slower than one without: what takes the time, which no column
 * shows. */
static void put_alone(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        const dl_variant *variant = &study->variants[row->variant];
        const double bucket_ns =
            dl_costs_step_ns(&variant->costs, (double)row->point.batch, "bucket");
        if (row->error != NULL || row->point.workers > 1 || !(row->speedup < ALONE_FRAC) ||
            row->point.mode != &dl_mode_allreduce || !(bucket_ns > 0)) {
            continue;
        }
        fprintf(out,
                "1 worker with allreduce is %.3g times one without: DistributedDataParallel copies "
                "gradients into buckets and back, %s a step, with one process too\n",
                row->speedup, DL_NS_TEXT(bucket_ns));
        return;
    }
}

/* Those that change most come first. */
void dl_report_notes(FILE *out, const dl_study *study, const dl_sweep *sweep)
{
    size_t traced_count = 0, count = 0, leading = 0, deciding_count = 0;
    char *is_short = dl_report_short_note(sweep);
    char **traced = dl_traced_notes(study, sweep, &traced_count);
    char **notes = dl_study_notes(study, &count, &leading);
    dl_deciding_default *deciding = dl_deciding_defaults(study, sweep, &deciding_count);
    if (is_short != NULL) fprintf(out, "%s\n", is_short);
    for (size_t i = 0; i < traced_count; i++)
        fprintf(out, "%s\n", traced[i]);
    put_alone(out, study, sweep);
    for (size_t i = 0; i < leading; i++)
        fprintf(out, "%s\n", notes[i]);
    put_deciding(out, deciding, deciding_count, true);
    dl_report_assumed(out, study, sweep);
    for (size_t i = leading; i < count; i++)
        fprintf(out, "%s\n", notes[i]);
    put_deciding(out, deciding, deciding_count, false);
    free(deciding);
    dl_study_notes_free(notes, count);
    dl_study_notes_free(traced, traced_count);
    free(is_short);
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

/* The first of them, unless `all` is set. */
static void print_notes(FILE *out, const dl_study *study, const dl_sweep *sweep, bool all)
{
    char *text = NULL, *rest = NULL;
    size_t bytes = 0, count = 0;
    FILE *notes = dl_text_stream(&text, &bytes);
    dl_report_notes(notes, study, sweep);
    fclose(notes);
    for (char *note = strtok_r(text, "\n", &rest); note != NULL;
         note = strtok_r(NULL, "\n", &rest)) {
        if (all || count < NOTES_SHOWN) dl_report_note_print(out, note);
        count++;
    }
    if (!all && count > NOTES_SHOWN)
        fprintf(out, "%zu more notes: --notes shows them\n", count - NOTES_SHOWN);
    free(text);
}

void dl_report_table(FILE *out, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured, bool all_notes)
{
    char used[DL_MARKS_BYTES] = "";
    bool compare = false;
    dl_results results;
    for (size_t i = 0; i < sweep->row_count; i++) {
        compare |= measured[i].runs > 0;
        dl_report_marks_of(used, &sweep->rows[i]);
    }
    dl_results_make(&results, study, sweep, measured, false);
    fprintf(out, "%s\n", study->variants[0].scenario.name);
    print_rows(out, &results);
    dl_report_marks_explain(out, used, "", "");
    print_splits(out, study, sweep);
    print_further(out, &results);
    print_notes(out, study, sweep, all_notes);
    if (compare) {
        const dl_accuracy accuracy = dl_accuracy_of(sweep, measured);
        dl_accuracy_print(out, &accuracy, sweep);
        print_staleness(out, &results);
    }
    dl_results_free(&results);
}
