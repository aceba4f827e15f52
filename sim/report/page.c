#include "sim/report/page.h"
#include "sim/report/row_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/json.h"
#include "common/names.h"
#include "common/options.h"
#include "common/output.h"
#include "sim/report/html.h"
#include "sim/report/live.h"
#include "sim/report/report.h"
#include "sim/report/timeline.h"
#include "sim/report/views.h"
#include "sim/scenario/without.h"

#define CSV_BYTES_MAX (4 << 20) /* limit on the size of the results in the page */
#define TIMELINE_BYTES 220000
#define LANES_MAX 256         /* maximum number of GPUs in a time line */
#define STALE_WORKERS_MAX 256 /* maximum number of workers whose staleness is shown by worker */

typedef struct page {
    FILE *out;
    const dl_study *study;
    const dl_sweep *sweep;
    const dl_measured *measured;
    const dl_explanation *explanation;
    dl_results results;
} page;

/* Memory stream that collects the output of a function. */
typedef struct memory {
    char *text;
    size_t bytes;
    FILE *out;
} memory;

static FILE *memory_begin(memory *m)
{
    *m = (memory){0};
    m->out = dl_text_stream(&m->text, &m->bytes);
    return m->out;
}

/* Writes the items of a list, and releases them. */
static void put_list(FILE *out, dl_notes *list)
{
    if (list->count > 0) fputs("<ul class=\"remarks\">\n", out);
    for (size_t i = 0; i < list->count; i++)
        dl_html(out, "<li>%s</li>\n", list->lines[i]);
    if (list->count > 0) fputs("</ul>\n", out);
    dl_notes_free(list);
}

/* --- the head --------------------------------------------------------------------------------- */

static void put_verdict(FILE *out, const dl_errors *errors)
{
    const dl_verdict verdict = dl_errors_verdict(errors);
    const dl_error_sum *unseen = &errors->use[DL_USE_UNSEEN];
    dl_html(out, "<p class=\"badges\"><span class=\"badge%s\">%s</span>",
            verdict == DL_VERDICT_PREDICTED ? " predicted" : "", dl_verdict_names[verdict]);
    if (unseen->points > 0) {
        dl_html(out, " mean error of %d unseen row%s %.1f&nbsp;%%, largest %.1f&nbsp;%%",
                unseen->rows, unseen->rows == 1 ? "" : "s", 100 * dl_error_mean(unseen),
                100 * unseen->max_frac);
    }
    if (verdict == DL_VERDICT_PREDICTED) {
        dl_html(out, " (bar: %.0f and %.0f&nbsp;%%; ", 100 * DL_BAR_MEAN_FRAC,
                100 * DL_BAR_MAX_FRAC);
        fputs(dl_errors_within_bar(errors) ? "within it)" : "<strong>missed</strong>)", out);
    }
    fputs("</p>\n", out);
}

/* The best row or, if none fits, what the first one needs, and settings that fit. */
static void put_answer(const page *p)
{
    DL_AUTOFREE char *answer = dl_report_answer(&p->results);
    if (answer != NULL) {
        dl_html(p->out, "<p class=\"answer\">%s</p>\n", answer);
    } else if (p->results.count > 0) {
        const dl_result *first = &p->results.results[0];
        DL_AUTOFREE char *remedy = dl_result_remark(first);
        char of[DL_POINT_TEXT_BYTES];
        dl_point_text(of, sizeof of, &first->row->point);
        dl_html(p->out, "<p class=\"answer\">No point fits. %s: %s%s%s.</p>\n", of,
                first->row->error, remedy != NULL ? "; " : "", remedy != NULL ? remedy : "");
    }
}

/* Writes the comment at the head of the scenario: its first paragraph visible, the others folded
 * until clicked. */
static void put_description(FILE *out, const char *text)
{
    int paragraphs = 0;
    bool open = false;
    while (*text == ';' || *text == '#') {
        const size_t bytes = strcspn(text, "\n");
        DL_AUTOFREE char *line = dl_strndup(text + 1, bytes - 1);
        const bool empty = line[strspn(line, " \t\r")] == '\0';
        if (open && empty) fputs("</p>\n", out);
        if (!open && !empty) {
            fputs(++paragraphs == 2 ? "<details><summary>More about this scenario</summary>\n<p>"
                                    : "<p>",
                  out);
        }
        open = !empty;
        dl_html(out, "%s\n", line);
        text += bytes + (text[bytes] == '\n');
    }
    if (open) fputs("</p>\n", out);
    if (paragraphs > 1) fputs("</details>\n", out);
}

/* --- figures ---------------------------------------------------------------------------------- */

/* Writes the time line of the row that the explanation selects for drawing. */
static void put_timeline(const page *p)
{
    const size_t row = p->explanation->drawn;
    if (row >= p->sweep->row_count || dl_point_gpus(&p->sweep->rows[row].point) > LANES_MAX) return;
    size_t point = 0;
    const dl_variant *variant = dl_study_variant(p->study, row, &point);
    memory m;
    const dl_status status =
        dl_timeline_put(memory_begin(&m), TIMELINE_BYTES, &variant->scenario, &variant->costs,
                        &variant->scenario.points[point], NULL);
    fclose(m.out);
    fputs("<div class=\"figures\" id=\"timeline\"></div>\n", p->out);
    if (status == DL_OK) dl_html_data(p->out, "timeline-data", m.text);
    free(m.text);
}

/* Whether the page shows the staleness of each of the row's workers. */
static bool has_staleness(const dl_row *row)
{
    const dl_run_result *mean = &row->mean;
    return row->error == NULL && row->worker_staleness != NULL && mean->workers > 1 &&
           mean->workers <= STALE_WORKERS_MAX && mean->staleness_rows == mean->workers;
}

/* Writes the histogram of the fastest row whose gradients have a staleness. */
static void put_staleness(dl_json *to, const page *p)
{
    const dl_row *rows = p->sweep->rows;
    const size_t count = p->sweep->row_count;
    size_t fastest = count;
    for (size_t i = 0; i < count; i++) {
        if (has_staleness(&rows[i]) &&
            (fastest == count ||
             rows[i].mean.throughput_per_s > rows[fastest].mean.throughput_per_s))
            fastest = i;
    }
    if (fastest == count) return;
    memory m;
    dl_report_histogram_write(memory_begin(&m), p->study, p->sweep, fastest);
    fclose(m.out);
    dl_json_text_item(to, "staleness", m.text);
    free(m.text);
}

/* Writes the data of figures.js, which includes `csv`, the text of the results file. */
static void put_figures(const page *p, const char *csv)
{
    char of[DL_POINT_TEXT_BYTES] = "";
    if (p->explanation->drawn < p->sweep->row_count)
        dl_point_text(of, sizeof of, &p->sweep->rows[p->explanation->drawn].point);
    memory m;
    dl_json to = {.out = memory_begin(&m)};
    dl_json_begin(&to, NULL, '{');
    dl_json_text_item(&to, "results", csv);
    dl_json_members(&to, "timeline_of=%s", of);
    put_staleness(&to, p);
    dl_json_end(&to, '}');
    fclose(m.out);
    dl_html_figures(p->out, m.text);
    put_timeline(p);
    free(m.text);
}

/* --- tables ----------------------------------------------------------------------------------- */

static bool is_compared(const page *p)
{
    bool compared = false;
    for (size_t i = 0; i < p->sweep->row_count; i++)
        compared |= p->measured[i].runs > 0 || p->measured[i].failed_runs > 0;
    return compared;
}

static void put_results(const page *p)
{
    const bool compared = is_compared(p);
    DL_AUTOFREE char *caption =
        dl_format("%s: %s", compared ? "Predicted and measured" : "Predicted",
                  p->study->variants[0].scenario.name);
    char marks[DL_MARKS_BYTES] = "";
    for (size_t i = 0; i < p->sweep->row_count; i++)
        dl_report_marks_of(marks, &p->sweep->rows[i]);
    fputs("<h2>Results</h2>\n", p->out);
    dl_view_html(p->out, caption, &p->results, dl_view_main(&p->results));
    dl_report_marks_explain(p->out, marks, "<p class=\"remarks\">", "</p>");
    for (size_t i = 0; i < DL_VIEWS_FURTHER; i++)
        dl_view_html(p->out, dl_views_further[i].title, &p->results, &dl_views_further[i]);
}

/* --- predicted beside measured ---------------------------------------------------------------- */

/* Errors of all rows with the same use. */
typedef struct error_line {
    const char *what;
    int number;
    double mean_frac, largest_frac;
} error_line;

static const dl_column error_columns[] = {
    {DL_WORD("measured points"), DL_MEMBER(error_line, what)},
    {.heading = "number", DL_MEMBER(error_line, number)},
    {DL_PERCENT("mean error %", 1), DL_MEMBER(error_line, mean_frac)},
    {DL_PERCENT("largest error %", 1), DL_MEMBER(error_line, largest_frac)},
};

static void add_line(dl_column_table *table, error_line *lines, const char *what,
                     const dl_error_sum *sum)
{
    if (sum->rows == 0) return;
    lines[table->row_count++] =
        (error_line){.what = what,
                     .number = sum->points > 0 ? sum->points : sum->rows,
                     .mean_frac = dl_error_mean(sum),
                     .largest_frac = sum->points > 0 ? sum->max_frac : (double)NAN};
}

void dl_page_errors(FILE *out, const dl_errors *errors)
{
    static const char *const what[DL_USE_COUNT] = {
        [DL_USE_UNSEEN] = "unseen: no cost was fitted to them",
        [DL_USE_FITTED] = "fitted",
        [DL_USE_CONTRADICTION] = "contradictory: to other rows or their source",
        [DL_USE_ERROR] = "with an error in the source",
        [DL_USE_TRACED] = "the traced step that the costs are from"};
    error_line lines[DL_USE_COUNT + 1];
    dl_column_table table = DL_COLUMN_TABLE(error_columns, lines, 0);
    for (int use = 0; use < DL_USE_COUNT; use++)
        add_line(&table, lines, what[use], &errors->use[use]);
    add_line(&table, lines, "each predicted with costs fitted to the others", &errors->left_out);
    dl_html_table(out, "Error: predicted over measured throughput, minus 1", &table);
}

static void put_remarks(const page *p)
{
    static const char *const what[DL_USE_COUNT] = {"unseen", "fitted", "contradictory",
                                                   "an error in the source", "traced"};
    dl_notes list = {0};
    for (size_t i = 0; i < p->sweep->row_count; i++) {
        const dl_measured *measured = &p->measured[i];
        const dl_point *point = &p->sweep->rows[i].point;
        if (measured->note == NULL && measured->use != DL_USE_ERROR) continue;
        dl_notes_add(&list, "%d workers, batch %lld: %s%s%s", point->workers,
                     (long long)point->batch, what[measured->use],
                     measured->note != NULL ? "; " : "",
                     measured->note != NULL ? measured->note : "");
    }
    put_list(p->out, &list);
    const char *last = NULL;
    for (size_t i = 0; i < p->sweep->row_count; i++) {
        const char *source = p->measured[i].source;
        if (source == NULL || (last != NULL && strcmp(source, last) == 0)) continue;
        dl_html(p->out, last == NULL ? "<p class=\"sources\">Measured: %s" : "; %s", source);
        last = source;
    }
    if (last != NULL) fputs("</p>\n", p->out);
}

static void put_comparison(const page *p, const dl_errors *errors)
{
    if (!is_compared(p)) return;
    const dl_accuracy accuracy = dl_accuracy_of(p->sweep, p->measured);
    dl_notes list = {0};
    fputs("<h2>Predicted beside measured</h2>\n", p->out);
    dl_page_errors(p->out, errors);
    if (errors->use[DL_USE_FITTED].rows + errors->use[DL_USE_TRACED].rows == 0) {
        fputs(
            "<p>The measured table marks no row as fitted (column <code>use</code>), so all judge "
            "the prediction.</p>\n",
            p->out);
    }
    if (accuracy.repeated == 0) {
        dl_html(p->out,
                "<p>No point was measured %d times or more, so the noise of the measurement is not "
                "known.</p>\n",
                DL_MEASURED_REPEATED_MIN);
    }
    dl_accuracy_scatter(&list, &accuracy, p->sweep);
    put_list(p->out, &list);
    put_remarks(p);
}

/* --- assumptions ------------------------------------------------------------------------------ */

static void put_assumptions(const page *p)
{
    size_t origins[DL_ORIGIN_MEASURED + 1] = {0}, extrapolated = 0;
    for (size_t i = 0; i < p->sweep->row_count; i++) {
        origins[p->sweep->rows[i].origin]++;
        extrapolated += p->sweep->rows[i].extrapolated;
    }
    dl_notes list = {0};
    DL_AUTOFREE char *origin = NULL;
    for (int o = 0; o <= DL_ORIGIN_MEASURED; o++)
        if (origins[o] > 0)
            dl_join_format(&origin, ", ", "%s (%zu %s)", dl_origin_name((dl_origin)o), origins[o],
                           origins[o] == 1 ? "point" : "points");
    dl_notes_add(&list, "Origin of the least trustworthy cost of each point: %s", origin);
    if (extrapolated > 0)
        dl_notes_add(&list, "%zu points lie outside the range in which the costs were measured",
                     extrapolated);
    dl_report_notes(&list, p->study, p->sweep);
    fputs("<h2>What was assumed</h2>\n", p->out);
    put_list(p->out, &list);
}

static void put_settings(const page *p)
{
    const dl_variant *first = &p->study->variants[0];
    const dl_scenario *scenario = &first->scenario;
    char without[DL_WITHOUT_TEXT_BYTES];
    fputs("<h2>Settings</h2>\n<p>", p->out);
    if (scenario->gpu != NULL) dl_html(p->out, "Machine: %s. ", scenario->gpu->machine.name);
    const bool named = first->costs.workload != NULL && first->costs.workload[0] != '\0';
    const bool placed = first->costs.device != NULL && first->costs.device[0] != '\0';
    dl_html(p->out, "Costs: %s%s%s. %lld steps of each worker, %lld replicate%s, seed %lld.",
            named ? first->costs.workload : first->costs.path, placed ? ", " : "",
            placed ? first->costs.device : "", (long long)scenario->steps,
            (long long)scenario->replicates, scenario->replicates == 1 ? "" : "s",
            (long long)scenario->seed);
    if (p->study->variant_count > 1) {
        fputs(" These are the settings of the first of several variants; the column mode shows "
              "what differs.",
              p->out);
    }
    if (scenario->without != 0) {
        dl_html(p->out, " Switched off: %s.", dl_without_text(without, scenario->without));
    }
    fputs("</p>\n", p->out);
    dl_html_details(p->out, "The scenario", p->study->text);
}

static void put_results_link(const page *p, const char *results, bool is_here)
{
    const char *name = dl_base_name(results);
    fputs("<p>All results, with more columns: ", p->out);
    if (is_here) dl_html(p->out, "<a download=\"%s\" id=\"results-link\">", name);
    dl_html(p->out, "%s", name);
    fputs(is_here ? "</a>" : ", which is too long for figures and this page", p->out);
    dl_html(p->out, ".</p>\n<p class=\"sources\">By dlsim %s.</p>\n", dl_version());
}

dl_status dl_page_write(const char *path, const char *results, const dl_explanation *explanation,
                        bool explain_results, const dl_measured *measured, dl_error *err)
{
    dl_output output = {0};
    dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    const dl_study *study = explanation->study;
    const dl_sweep *sweep = explanation->sweep;
    const char *title = study->variants[0].scenario.name;
    page p = {output.out, study, sweep, measured, explanation, {0}};
    const dl_errors errors = dl_errors_of(sweep, measured);
    dl_results_make(&p.results, study, sweep, measured, false);
    memory csv;
    dl_report_results_write(memory_begin(&csv), study, sweep, measured,
                            explain_results ? explanation : NULL);
    fclose(csv.out);
    const bool is_here = csv.bytes <= CSV_BYTES_MAX;
    dl_html_begin(p.out, title);
    const bool has_script = dl_html_figures_script(p.out);
    put_answer(&p);
    put_verdict(p.out, &errors);
    put_description(p.out, study->text);
    fputs("<h2>What takes the time, and what would help</h2>\n", p.out);
    dl_explanation_html(p.out, explanation);
    dl_live_put(p.out, study, sweep);
    if (is_here) put_figures(&p, csv.text);
    put_results(&p);
    put_comparison(&p, &errors);
    put_assumptions(&p);
    put_settings(&p);
    put_results_link(&p, results, is_here);
    if (is_here && has_script) dl_html_show(p.out);
    dl_html_end(p.out);
    free(csv.text);
    dl_results_free(&p.results);
    return dl_output_end(&output, status, err);
}
