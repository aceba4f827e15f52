#include "sim/report/index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/csv.h"
#include "common/file.h"
#include "common/json.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "sim/report/html.h"
#include "sim/report/page.h"

typedef enum entry_kind { STUDY, FIGURE, TEXT } entry_kind;

typedef struct entry {
    entry_kind kind;
    const char *group, *file; /* borrowed from the list */
    char *title, *path;       /* path: path of the file to open */
    char *folder, *name;      /* for studies: the file's folder, and the file name without
                               * extension */
    dl_csv results;           /* for studies */
    dl_errors errors;
    char *why; /* reason if the study failed; else NULL */
} entry;

typedef struct entries {
    dl_csv list;
    entry *items; /* [count] */
    size_t count;
} entries;

/* --- reading ---------------------------------------------------------------------------------- */

/* A measured row of results. */
typedef struct measured_row {
    dl_measured_use use;
    double error_frac, left_out_frac, runs;
} measured_row;

/* Reads row i; sets *is_measured to whether it has a measurement. */
static dl_status read_row(const dl_csv *csv, size_t i, measured_row *row, bool *is_measured,
                          dl_error *err)
{
    const bool is_error = strcmp(dl_csv_text_in(csv, i, "measured_per_s"), "error") == 0;
    const int use =
        dl_names_find(dl_csv_text_in(csv, i, "measured_use"), dl_measured_use_names, DL_USE_COUNT);
    dl_status status;
    if ((status = dl_csv_number_in(csv, i, "error_frac", &row->error_frac, err)) ||
        (status = dl_csv_number_in(csv, i, "left_out_error_frac", &row->left_out_frac, err)) ||
        (status = dl_csv_number_in(csv, i, "measured_runs", &row->runs, err))) {
        return status;
    }
    if (is_error || isnan(row->runs)) row->runs = 1;
    row->use = is_error ? DL_USE_ERROR : use >= 0 ? (dl_measured_use)use : DL_USE_UNSEEN;
    *is_measured = is_error || !isnan(row->error_frac);
    return DL_OK;
}

/* Sums the study's errors. If no row is fitted or traced, all rows count as left out of a fit. */
static dl_status sum_errors(entry *e, dl_error *err)
{
    const dl_csv *csv = &e->results;
    bool any_fitted = false, is_measured = false;
    dl_status status = DL_OK;
    for (size_t i = 0; i < csv->rows; i++)
        any_fitted |= strcmp(dl_csv_text_in(csv, i, "measured_use"), "fitted") == 0 ||
                      strcmp(dl_csv_text_in(csv, i, "measured_use"), "traced") == 0;
    for (size_t i = 0; i < csv->rows && status == DL_OK; i++) {
        measured_row row = {0};
        status = read_row(csv, i, &row, &is_measured, err);
        if (status != DL_OK || !is_measured) continue;
        dl_errors_add(&e->errors, row.use, (int)row.runs, row.error_frac,
                      any_fitted ? row.left_out_frac : row.error_frac);
    }
    return status;
}

/* Returns the last line of NAME.txt, the reason why a study without NAME.csv (`path`) failed; the
 * caller frees it. */
static char *last_line(const char *path)
{
    char *line = NULL;
    DL_AUTOFREE char *log = dl_format("%.*s.txt", (int)strlen(path) - 4, path), *text = NULL;
    size_t bytes = 0;
    dl_error ignored = {0};
    if (dl_file_read(log, &text, &bytes, &ignored) == DL_OK) {
        while (bytes > 0 && text[bytes - 1] == '\n')
            text[--bytes] = '\0';
        const char *start = strrchr(text, '\n');
        line = dl_strdup(start != NULL ? start + 1 : text);
    }
    return line != NULL ? line : dl_strdup("it has no results");
}

static dl_status read_study(entry *e, dl_error *err)
{
    static const char before[] = "# scenario: ";
    const char *slash = strrchr(e->file, '/'), *base = slash != NULL ? slash + 1 : e->file;
    const char *folder = slash;
    while (folder != NULL && folder > e->file && folder[-1] != '/')
        folder--;
    e->folder = slash != NULL ? dl_strndup(folder, (size_t)(slash - folder)) : dl_strdup("");
    e->name = dl_strndup(base, strlen(base) - 4);
    if (access(e->path, F_OK) != 0) {
        DL_AUTOFREE char *line = last_line(e->path);
        e->why = dl_format("failed: %s", line);
        return DL_OK;
    }
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    dl_status status = dl_file_read(e->path, &text, &bytes, err);
    if (status == DL_OK) status = dl_csv_read_text(&e->results, e->path, text, bytes, err);
    if (status == DL_OK) status = sum_errors(e, err);
    const char *line = status == DL_OK ? strstr(text, before) : NULL;
    if (line != NULL) {
        line += strlen(before);
        free(e->title);
        e->title = dl_strndup(line, strcspn(line, "\n"));
    }
    return status;
}

static dl_status read_entries(entries *all, const char *path, dl_error *err)
{
    static const char *const needed[] = {"group", "title", "file"};
    static const char *const endings[] = {".csv", ".svg", ".txt"};
    const dl_csv *list = &all->list;
    dl_status status = dl_csv_read(&all->list, path, err);
    if (status != DL_OK) return status;
    for (size_t n = 0; n < 3; n++) {
        if (dl_csv_column(list, needed[n]) >= 0) continue;
        return dl_error_set_at(err, DL_ERR_NAME, path, 0, "no column '%s'", needed[n]);
    }
    all->items = dl_calloc(list->rows, sizeof *all->items, "entries of the index");
    for (size_t row = 0; row < list->rows && status == DL_OK; row++) {
        entry *e = &all->items[all->count++];
        e->group = dl_csv_text_in(list, row, "group");
        e->file = dl_csv_text_in(list, row, "file");
        e->title = dl_strdup(dl_csv_text_in(list, row, "title"));
        e->path = dl_path_beside(path, e->file);
        const size_t bytes = strlen(e->file);
        const int kind = bytes > 4 ? dl_names_find(e->file + bytes - 4, endings, 3) : -1;
        if (kind < 0) {
            return dl_error_set_at(err, DL_ERR_DATA, path, list->lines[row],
                                   "'%s' is not a .csv, .svg or .txt", e->file);
        }
        e->kind = (entry_kind)kind;
        if (e->kind == STUDY) status = read_study(e, err);
    }
    return status;
}

static void free_entries(entries *all)
{
    for (size_t i = 0; i < all->count; i++) {
        entry *e = &all->items[i];
        dl_csv_free(&e->results);
        free(e->title);
        free(e->path);
        free(e->folder);
        free(e->name);
        free(e->why);
    }
    free(all->items);
    dl_csv_free(&all->list);
}

/* --- the table of all rows -------------------------------------------------------------------- */

/* Returns the row's settings that have no column in the table of all rows, "interval 10; k 2": the
 * cells before column step_mean_s. The caller frees it. */
static char *options_of(const dl_csv *csv, size_t row)
{
    static const char *const own[] = {"cores", "workers", "batch", "sync"};
    char *text = dl_strdup("");
    for (size_t c = 0; c < csv->columns && strcmp(csv->names[c], "step_mean_s") != 0; c++) {
        const char *value = dl_csv_cell(csv, row, c);
        if (value[0] == '\0' || dl_names_find(csv->names[c], own, 4) >= 0) continue;
        dl_extend(&text, "%s%s %s", text[0] != '\0' ? "; " : "", csv->names[c], value);
    }
    return text;
}

static void write_rows(FILE *out, const entries *all)
{
    /* The first columns, with their names in the results. */
    static const char *const names[][2] = {{"workers", "workers"},
                                           {"batch", "batch"},
                                           {"step_s", "step_mean_s"},
                                           {"measured_step_s", "measured_step_s"},
                                           {"error_frac", "error_frac"}};
    static const char *const more[] = {"use",   "sync", "options", "measured_per_s", "runs",
                                       "group", "note", "source",  "left_out_frac"};
    dl_csv_writer writer = {.out = out};
    dl_csv_text(&writer, "scenario");
    for (size_t n = 0; n < DL_LENGTH(names); n++)
        dl_csv_text(&writer, names[n][0]);
    for (size_t n = 0; n < DL_LENGTH(more); n++)
        dl_csv_text(&writer, more[n]);
    dl_csv_end_row(&writer);
    for (size_t i = 0; i < all->count; i++) {
        const entry *e = &all->items[i];
        const dl_csv *csv = &e->results;
        for (size_t r = 0; r < csv->rows; r++) {
            measured_row row = {0};
            bool is_measured = false;
            dl_error ignored = {0};
            if (read_row(csv, r, &row, &is_measured, &ignored) != DL_OK || !is_measured) continue;
            DL_AUTOFREE char *options = options_of(csv, r);
            dl_csv_text(&writer, e->name);
            for (size_t n = 0; n < DL_LENGTH(names); n++)
                dl_csv_text(&writer, dl_csv_text_in(csv, r, names[n][1]));
            dl_csv_text(&writer, dl_measured_use_names[row.use]);
            dl_csv_text(&writer, dl_csv_text_in(csv, r, "sync"));
            dl_csv_text(&writer, options);
            dl_csv_text(&writer, dl_csv_text_in(csv, r, "measured_per_s"));
            dl_csv_double(&writer, row.runs);
            dl_csv_text(&writer, e->folder);
            dl_csv_text(&writer, dl_csv_text_in(csv, r, "measured_note"));
            dl_csv_text(&writer, dl_csv_text_in(csv, r, "measured_source"));
            dl_csv_double(&writer, row.left_out_frac);
            dl_csv_end_row(&writer);
        }
    }
}

/* --- totals ----------------------------------------------------------------------------------- */

typedef struct totals {
    dl_errors errors;
    int studies, failed, verdicts[DL_VERDICT_COUNT], missed, rows;
} totals;

static bool misses(const entry *e)
{
    return dl_errors_verdict(&e->errors) == DL_VERDICT_PREDICTED &&
           !dl_errors_within_bar(&e->errors);
}

static totals count_all(const entries *all)
{
    totals t = {0};
    for (size_t i = 0; i < all->count; i++) {
        const entry *e = &all->items[i];
        if (e->kind != STUDY) continue;
        t.studies++;
        if (e->why != NULL) t.failed++;
        if (e->why == NULL) t.verdicts[dl_errors_verdict(&e->errors)]++;
        t.missed += misses(e);
        dl_errors_merge(&t.errors, &e->errors);
    }
    for (int use = 0; use < DL_USE_COUNT; use++)
        t.rows += t.errors.use[use].rows;
    return t;
}

/* Writes the number of studies with each verdict in a sentence. */
static void put_verdicts(FILE *out, const totals *t)
{
    const int predicted = t->verdicts[DL_VERDICT_PREDICTED];
    fprintf(
        out,
        "%d studies: %d predicted (%d within %.0f %% mean and %.0f %% largest error, %d not), %d "
        "reproduced, %d with too few rows to judge, %d without measurement, %d failed",
        t->studies, predicted, predicted - t->missed, 100 * DL_BAR_MEAN_FRAC, 100 * DL_BAR_MAX_FRAC,
        t->missed, t->verdicts[DL_VERDICT_REPRODUCED], t->verdicts[DL_VERDICT_TOO_FEW_ROWS],
        t->verdicts[DL_VERDICT_NO_MEASUREMENT], t->failed);
}

static void print_summary(FILE *out, const totals *t)
{
    const struct {
        const char *what;
        const dl_error_sum *sum;
    } lines[] = {{"fitted rows", &t->errors.use[DL_USE_FITTED]},
                 {"unseen rows", &t->errors.use[DL_USE_UNSEEN]},
                 {"contradictory rows", &t->errors.use[DL_USE_CONTRADICTION]},
                 {"leave-one-out rows", &t->errors.left_out}};
    put_verdicts(out, t);
    for (size_t i = 0; i < DL_LENGTH(lines); i++) {
        fprintf(out, "\n%-20s ", lines[i].what);
        if (lines[i].sum->points == 0) {
            fputs("none", out);
        } else {
            fprintf(out, "%d: mean error %.1f %%, largest %.1f %%", lines[i].sum->points,
                    100 * dl_error_mean(lines[i].sum), 100 * lines[i].sum->max_frac);
        }
    }
    fputc('\n', out);
}

/* --- the page --------------------------------------------------------------------------------- */

static const char words[] =
    "<details><summary>What the words mean</summary>\n"
    "<p>Each study is a scenario: a machine, the costs of a workload on it, a way to synchronize. "
    "Costs "
    "are determined by the measured rows that are marked as <i>fitted</i>, or come from data "
    "sheets and "
    "other tables of the same machine; all other rows are <i>unseen</i> and judge the "
    "prediction.</p>\n"
    "<p>A study counts as <i>predicted</i> with two unseen rows or more; one unseen row, or "
    "contradictory ones only, are <i>too few rows</i> to judge; if its costs were fitted to all of "
    "its "
    "rows it is <i>reproduced</i>; where nothing was measured it is <i>no measurement</i>, and its "
    "figures are predictions only. Every row counts in the totals, whatever the verdict of its "
    "study. "
    "Rows that contradict others of their table or its source are shown, named and counted "
    "apart.</p>\n"
    "<p>How a framework overlaps its work was chosen from its documentation and source where these "
    "tell; "
    "where a study's page says that it was chosen by what fits, the errors judge its costs and not "
    "that "
    "choice.</p>\n</details>\n";

static void put_totals(FILE *out, const totals *t)
{
    const dl_error_sum *unseen = &t->errors.use[DL_USE_UNSEEN];
    fputs("<p>", out);
    put_verdicts(out, t);
    dl_html(out, ". %d measured rows.", t->rows);
    if (unseen->points > 0) {
        dl_html(out,
                " Over the %d points that no cost was fitted to the error is %.1f %% on "
                "average and %.1f %% at most.",
                unseen->points, 100 * dl_error_mean(unseen), 100 * unseen->max_frac);
    }
    dl_html(out, "</p>\n<p class=\"sources\">Simulated by dlsim %s.</p>\n", dl_version());
    dl_page_errors(out, &t->errors);
    fputs(words, out);
}

/* A row of the table of studies. */
typedef struct study_row {
    const entry *of;
    const char *title;
    char verdict[48], apart[80];
    double fitted, unseen, mean_frac, largest_frac, left_mean_frac, left_largest_frac;
} study_row;

static double largest(const dl_error_sum *sum)
{
    return sum->points > 0 ? sum->max_frac : (double)NAN;
}

static double rows_of(const entry *e, dl_measured_use use)
{
    return e->errors.use[use].rows > 0 ? e->errors.use[use].rows : (double)NAN;
}

static void make_row(study_row *row, const entry *e)
{
    const dl_error_sum *unseen = &e->errors.use[DL_USE_UNSEEN];
    const dl_error_sum *apart = &e->errors.use[DL_USE_CONTRADICTION];
    const dl_verdict verdict = dl_errors_verdict(&e->errors);
    const int wrong = e->errors.use[DL_USE_ERROR].rows;
    *row = (study_row){.of = e,
                       .title = e->title,
                       .fitted = rows_of(e, DL_USE_FITTED),
                       .unseen = rows_of(e, DL_USE_UNSEEN),
                       .mean_frac = dl_error_mean(unseen),
                       .largest_frac = largest(unseen),
                       .left_mean_frac = dl_error_mean(&e->errors.left_out),
                       .left_largest_frac = largest(&e->errors.left_out)};
    snprintf(row->verdict, sizeof row->verdict, "%s%s", dl_verdict_names[verdict],
             verdict != DL_VERDICT_PREDICTED ? ""
             : misses(e)                     ? ", misses the bar"
                                             : ", within the bar");
    if (apart->points > 0) {
        snprintf(row->apart, sizeof row->apart, "%d contradictory (%.1f %%)", apart->rows,
                 100 * apart->max_frac);
    } else if (wrong > 0) {
        snprintf(row->apart, sizeof row->apart, "%d with an error in the source", wrong);
    }
}

static dl_datum csv_of(const void *row DL_UNUSED, const dl_column *column DL_UNUSED)
{
    return dl_datum_text("CSV");
}

/* Returns the link to the study's page or, for a failed study, to its text; the caller frees it. */
static char *study_link(const void *row)
{
    const entry *e = ((const study_row *)row)->of;
    return dl_format("./%.*s.%s", (int)strlen(e->file) - 4, e->file,
                     e->why != NULL ? "txt" : "html");
}

static char *csv_link(const void *row)
{
    return dl_format("./%s", ((const study_row *)row)->of->file);
}

static const char *failure_of(const void *row)
{
    return ((const study_row *)row)->of->why;
}

static const char *class_of(const void *row)
{
    const entry *e = ((const study_row *)row)->of;
    return e->why != NULL ? "failed" : misses(e) ? "missed" : "study";
}

static const dl_column study_columns[] = {
    {DL_WORD("study"), DL_MEMBER(study_row, title), .link = study_link},
    {DL_WORD("verdict"), DL_MEMBER(study_row, verdict)},
    {.heading = "fitted rows", DL_MEMBER(study_row, fitted)},
    {.heading = "unseen rows", DL_MEMBER(study_row, unseen)},
    {DL_PERCENT("mean error %", 1), DL_MEMBER(study_row, mean_frac)},
    {DL_PERCENT("largest error %", 1), DL_MEMBER(study_row, largest_frac)},
    {DL_PERCENT("left out, mean %", 1), DL_MEMBER(study_row, left_mean_frac)},
    {DL_PERCENT("left out, largest %", 1), DL_MEMBER(study_row, left_largest_frac)},
    {DL_WORD("rows apart"), DL_MEMBER(study_row, apart)},
    {DL_WORD("results"), .get = csv_of, .link = csv_link},
};

/* Writes the table of studies first[count]. */
static void put_studies(FILE *out, const entry *first, size_t count)
{
    DL_AUTOFREE study_row *rows = dl_calloc(count, sizeof *rows, "studies");
    for (size_t i = 0; i < count; i++)
        make_row(&rows[i], &first[i]);
    dl_column_table table = DL_COLUMN_TABLE(study_columns, rows, count);
    table.failed = failure_of;
    table.failed_from = 1;
    table.row_class = class_of;
    dl_html_table(out, first->group, &table);
}

/* Writes a figure or a text from the list. */
static dl_status put_file(FILE *out, const entry *e, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    const dl_status status = dl_file_read(e->path, &text, &bytes, err);
    if (status != DL_OK) return status;
    if (e->kind == FIGURE) {
        dl_html_figure(out, text, bytes, e->title, e->title);
    } else {
        dl_html_details(out, e->title, text);
    }
    return DL_OK;
}

/* Writes the entries in order: each group below its heading, consecutive studies in a table. */
static dl_status put_groups(FILE *out, const entries *all, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t i = 0, end; i < all->count && status == DL_OK; i = end) {
        const entry *e = &all->items[i];
        if (i == 0 || strcmp(e[-1].group, e->group) != 0) dl_html(out, "<h2>%s</h2>\n", e->group);
        end = i + 1;
        if (e->kind != STUDY) {
            status = put_file(out, e, err);
            continue;
        }
        while (end < all->count && all->items[end].kind == STUDY &&
               strcmp(all->items[end].group, e->group) == 0)
            end++;
        put_studies(out, e, end - i);
    }
    return status;
}

/* Writes the errors of all rows, which figures.js draws. */
static void put_errors(FILE *out, const entries *all)
{
    DL_AUTOFREE char *rows = NULL, *data = NULL;
    size_t bytes = 0;
    FILE *text = dl_text_stream(&rows, &bytes);
    write_rows(text, all);
    fclose(text);
    text = dl_text_stream(&data, &bytes);
    dl_json to = {.out = text};
    dl_json_begin(&to, NULL, '{');
    dl_json_text_item(&to, "rows", rows);
    dl_json_end(&to, '}');
    fclose(text);
    dl_html_figures(out, data);
}

dl_status dl_index_write(const char *path, const char *rows, FILE *summary, const char *list,
                         dl_error *err)
{
    entries all = {0};
    dl_output output = {0};
    dl_status status = read_entries(&all, list, err);
    const totals t = count_all(&all);
    if (status == DL_OK && rows != NULL) {
        status = dl_output_open(&output, rows, err);
        if (status == DL_OK) write_rows(output.out, &all);
        status = dl_output_end(&output, status, err);
    }
    if (status == DL_OK) status = dl_output_open(&output, path, err);
    if (status == DL_OK) {
        dl_html_begin(output.out, "Distributed training, measured and predicted");
        put_totals(output.out, &t);
        const bool has_figures = t.rows > 0 && dl_html_figures_script(output.out);
        if (has_figures) put_errors(output.out, &all);
        status = put_groups(output.out, &all, err);
        if (has_figures) dl_html_show(output.out);
        dl_html_end(output.out);
    }
    status = dl_output_end(&output, status, err);
    if (status == DL_OK && summary != NULL) print_summary(summary, &t);
    free_entries(&all);
    return status;
}
