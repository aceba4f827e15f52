#include "sim/report/page.h"
#include "sim/report/row_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/options.h"
#include "common/output.h"
#include "sim/report/figures.h"
#include "sim/report/html.h"
#include "sim/report/live.h"
#include "sim/report/notes.h"
#include "sim/report/report.h"
#include "sim/report/timeline.h"
#include "sim/report/views.h"
#include "sim/scenario/without.h"

#define ROWS_OPEN 24            /* more rows that were not measured are shown by a click */
#define CSV_BYTES_MAX (1 << 20) /* of a table in the page */
#define SPEEDUP_SHOWN 0.01      /* a scenario that is nearly all exchange has none */

typedef struct page {
    FILE *out;
    const dl_study *study;
    const dl_sweep *sweep;
    const dl_measured *measured;
    const char *title;
    const dl_explanation *explanation;
    bool explain_results; /* in the results too */
    dl_results results;
} page;

/* Text that a function writes, and what is done with it. */
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

/* Ends the text and writes each line of it as an item of a list. */
static void memory_list(memory *m, FILE *out)
{
    fclose(m->out);
    if (m->bytes > 0) fputs("<ul class=\"remarks\">\n", out);
    for (char *line = strtok(m->text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        dl_html(out, "<li>%s</li>\n", line);
    if (m->bytes > 0) fputs("</ul>\n", out);
    free(m->text);
}

/* --- the head --------------------------------------------------------------------------------- */

static void put_verdict(FILE *out, const dl_errors *errors)
{
    const dl_verdict verdict = dl_errors_verdict(errors);
    const dl_error_sum *unseen = &errors->use[DL_USE_UNSEEN];
    dl_html(out, "<p class=\"badges\"><span class=\"badge%s\">%s</span>",
            verdict == DL_VERDICT_PREDICTED ? " predicted" : "", dl_verdict_names[verdict]);
    if (unseen->points > 0) {
        dl_html(out, " mean error of %d unseen rows %.1f&nbsp;%%, largest %.1f&nbsp;%%",
                unseen->rows, 100 * dl_error_mean(unseen), 100 * unseen->max_frac);
    }
    if (verdict == DL_VERDICT_PREDICTED) {
        dl_html(out, " (bar: %.0f and %.0f&nbsp;%%; ", 100 * DL_BAR_MEAN_FRAC,
                100 * DL_BAR_MAX_FRAC);
        fputs(dl_errors_within_bar(errors) ? "within it)" : "<strong>missed</strong>)", out);
    }
    fputs("</p>\n", out);
}

static void put_answer(const page *p)
{
    char *answer = dl_report_answer(&p->results);
    if (answer != NULL) dl_html(p->out, "<p class=\"answer\">%s</p>\n", answer);
    free(answer);
}

/* The comment at the head of the scenario: its first paragraph, and the others by a click. */
static void put_description(FILE *out, const char *text)
{
    int paragraphs = 0;
    bool open = false;
    while (*text == ';' || *text == '#') {
        const size_t bytes = strcspn(text, "\n");
        char *line = dl_strndup(text + 1, bytes - 1);
        const bool empty = line[strspn(line, " \t\r")] == '\0';
        if (open && empty) fputs("</p>\n", out);
        if (!open && !empty) {
            fputs(++paragraphs == 2 ? "<details><summary>More about this scenario</summary>\n<p>"
                                    : "<p>",
                  out);
        }
        open = !empty;
        dl_html(out, "%s\n", line);
        free(line);
        text += bytes + (text[bytes] == '\n');
    }
    if (open) fputs("</p>\n", out);
    if (paragraphs > 1) fputs("</details>\n", out);
}

/* --- figures ---------------------------------------------------------------------------------- */

enum { SPEEDUP, BREAKDOWN, INTERVAL, UTILISATION, STALENESS, TIMELINE, FIGURES };

static const struct {
    const char *name, *results, *histogram, *alt, *caption;
} figures[FIGURES] = {
    {"speedup", "results.csv", NULL,
     "speedup against the number of workers, predicted as lines, measured as points",
     "Speedup: predicted lines with their 95 % interval; measured points, hollow where costs were "
     "fitted to them; the thin line is proportional."},
    {"breakdown", "results.csv", NULL, "share of each part in a step",
     "Where a step's time goes, averaged over the workers, and its mean time."},
    {"interval", "results.csv", NULL,
     "throughput against the number of mini-batches between two averages",
     "What averaging less often is worth."},
    {"utilisation", "results.csv", NULL,
     "share of the time in which the workers compute against the rate of the network",
     "What a faster network is worth: the share of the time in which the workers compute."},
    {"staleness", "results.csv", "histogram.csv",
     "distribution of the staleness of applied gradients", "How stale the applied gradients are."},
    {"timeline", "timeline.csv", NULL, "three simulated steps, a row for each worker",
     "Three simulated steps, a row per worker."},
};

/* Which figures these results have something for. */
static void choose_figures(const page *p, bool *fits)
{
    const dl_row *first = NULL, *last_averaged = NULL;
    bool workers = false, speedup = false;
    for (size_t i = 0; i < p->sweep->row_count; i++) {
        const dl_row *row = &p->sweep->rows[i];
        if (row->error != NULL) continue;
        if (first == NULL) first = row;
        workers |= row->point.workers != first->point.workers;
        speedup |= row->speedup >= SPEEDUP_SHOWN;
        fits[STALENESS] |=
            row->point.mode->staleness == DL_MODE_STALENESS_SOME && row->staleness_mean > 0;
        if (!dl_point_shows(&row->point, DL_SYNC_INTERVAL)) continue;
        fits[INTERVAL] |=
            last_averaged != NULL &&
            row->point.option[DL_SYNC_INTERVAL] != last_averaged->point.option[DL_SYNC_INTERVAL];
        last_averaged = row;
    }
    fits[SPEEDUP] = workers && speedup;
    fits[UTILISATION] =
        last_averaged != NULL && (dl_study_swept(p->study, "machine", "port_bytes_per_s") != NULL ||
                                  dl_study_swept(p->study, "machine", "site_bytes_per_s") != NULL);
    fits[BREAKDOWN] = first != NULL;
    fits[TIMELINE] = p->explanation->drawn < p->sweep->row_count &&
                     !dl_point_is_split(&p->sweep->rows[p->explanation->drawn].point);
}

/* Writes a file that gnuplot reads; of one that cannot be written, gnuplot says so. */
static void write_data(const page *p, const dl_drawing *drawing, const char *name)
{
    char *path = dl_drawing_path(drawing, name);
    FILE *file = fopen(path, "w");
    free(path);
    if (file == NULL) return;
    if (strcmp(name, "results.csv") == 0) {
        dl_report_results_write(file, p->study, p->sweep, p->measured, NULL);
    } else if (strcmp(name, "histogram.csv") == 0) {
        dl_report_histogram_write(file, p->study, p->sweep);
    } else {
        size_t point = 0;
        dl_error why = {0};
        const dl_variant *variant = dl_study_variant(p->study, p->explanation->drawn, &point);
        if (dl_timeline_steps_write(file, &variant->scenario, &variant->costs,
                                    &variant->scenario.points[point], &why) != DL_OK) {
            fprintf(file, "# %s\n", why.text);
        }
    }
    fclose(file);
}

static dl_status put_figures(const page *p, dl_error *err)
{
    bool fits[FIGURES] = {false};
    dl_figure drawn[FIGURES] = {{0}};
    size_t count = 0, which[FIGURES];
    dl_drawing drawing;
    const dl_status status = dl_drawing_begin(&drawing, err);
    if (status != DL_OK) return status;
    choose_figures(p, fits);
    write_data(p, &drawing, "results.csv");
    if (fits[STALENESS]) write_data(p, &drawing, "histogram.csv");
    if (fits[TIMELINE]) write_data(p, &drawing, "timeline.csv");
    for (size_t f = 0; f < FIGURES; f++) {
        if (!fits[f]) continue;
        which[count] = f;
        drawn[count++] = (dl_figure){.name = figures[f].name,
                                     .results = figures[f].results,
                                     .histogram = figures[f].histogram};
    }
    dl_figures_draw(&drawing, drawn, count);
    fputs("<div class=\"figures\">\n", p->out);
    for (size_t i = 0; i < count; i++) {
        char *alt = dl_format("%s: %s", p->title, figures[which[i]].alt);
        dl_figure_put(p->out, &drawn[i], alt, figures[which[i]].caption);
        dl_figure_free(&drawn[i]);
        free(alt);
    }
    fputs("</div>\n", p->out);
    dl_drawing_end(&drawing);
    return DL_OK;
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
    const bool closed = p->sweep->row_count > ROWS_OPEN && !compared;
    char *caption =
        dl_format("%s: %s", compared ? "Predicted and measured" : "Predicted", p->title);
    char marks[DL_MARKS_BYTES] = "";
    for (size_t i = 0; i < p->sweep->row_count; i++)
        dl_report_marks_of(marks, &p->sweep->rows[i]);
    fputs("<h2>Results</h2>\n", p->out);
    if (closed)
        dl_html(p->out, "<details><summary>All %zu points</summary>\n", p->sweep->row_count);
    dl_view_html(p->out, caption, &p->results, dl_view_main(&p->results));
    if (closed) fputs("</details>\n", p->out);
    dl_report_marks_explain(p->out, marks, "<p class=\"remarks\">", "</p>");
    for (size_t i = 0; i < DL_VIEWS_FURTHER; i++)
        dl_view_html(p->out, dl_views_further[i].title, &p->results, &dl_views_further[i]);
    free(caption);
}

/* --- predicted beside measured ---------------------------------------------------------------- */

/* Errors of the rows that are the same to the prediction. */
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
        [DL_USE_ERROR] = "with an error in the source"};
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
                                                   "an error in the source"};
    memory m;
    FILE *out = memory_begin(&m);
    for (size_t i = 0; i < p->sweep->row_count; i++) {
        const dl_measured *measured = &p->measured[i];
        const dl_point *point = &p->sweep->rows[i].point;
        if (measured->note == NULL && measured->use != DL_USE_ERROR) continue;
        fprintf(out, "%d workers, batch %lld: %s%s%s\n", point->workers, (long long)point->batch,
                what[measured->use], measured->note != NULL ? "; " : "",
                measured->note != NULL ? measured->note : "");
    }
    memory_list(&m, p->out);
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
    memory m;
    fputs("<h2>Predicted beside measured</h2>\n", p->out);
    dl_page_errors(p->out, errors);
    if (errors->use[DL_USE_FITTED].rows == 0) {
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
    dl_accuracy_print_scatter(memory_begin(&m), &accuracy, p->sweep);
    memory_list(&m, p->out);
    put_remarks(p);
}

/* --- what was assumed ------------------------------------------------------------------------- */

static void put_assumptions(const page *p)
{
    size_t origins[DL_ORIGIN_MEASURED + 1] = {0}, extrapolated = 0, kinds = 0;
    for (size_t i = 0; i < p->sweep->row_count; i++) {
        origins[p->sweep->rows[i].origin]++;
        extrapolated += p->sweep->rows[i].extrapolated;
    }
    memory m;
    FILE *out = memory_begin(&m);
    fputs("Where the costs are from, by the least trustworthy one that a point uses: ", out);
    for (int o = 0; o <= DL_ORIGIN_MEASURED; o++) {
        if (origins[o] == 0) continue;
        fprintf(out, "%s%s (%zu %s)", kinds++ > 0 ? ", " : "", dl_origin_name((dl_origin)o),
                origins[o], origins[o] == 1 ? "point" : "points");
    }
    fputc('\n', out);
    if (extrapolated > 0) {
        fprintf(out, "%zu points lie outside of what the costs were measured at\n", extrapolated);
    }
    dl_report_notes(out, p->study, p->sweep);
    fputs("<h2>What was assumed</h2>\n", p->out);
    memory_list(&m, p->out);
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

static void put_results_link(const page *p, const char *results)
{
    const char *slash = strrchr(results, '/'), *name = slash != NULL ? slash + 1 : results;
    memory m;
    dl_report_results_write(memory_begin(&m), p->study, p->sweep, p->measured,
                            p->explain_results ? p->explanation : NULL);
    fclose(m.out);
    fputs("<p>All results, with more columns: ", p->out);
    if (m.bytes <= CSV_BYTES_MAX) {
        dl_html(p->out, "<a download=\"%s\" href=\"data:text/csv;base64,", name);
        dl_html_base64(p->out, m.text, m.bytes);
        fputs("\">", p->out);
    }
    dl_html(p->out, "%s", name);
    fputs(m.bytes <= CSV_BYTES_MAX ? "</a>" : ", which is too long for this page", p->out);
    dl_html(p->out, ".</p>\n<p class=\"sources\">By dlsim %s.</p>\n", dl_version());
    free(m.text);
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
    page p = {output.out, study, sweep, measured, title, explanation, explain_results, {0}};
    const dl_errors errors = dl_errors_of(sweep, measured);
    dl_results_make(&p.results, study, sweep, measured, false);
    dl_html_begin(p.out, title);
    put_answer(&p);
    put_verdict(p.out, &errors);
    put_description(p.out, study->text);
    fputs("<h2>What takes the time, and what would help</h2>\n", p.out);
    dl_explanation_html(p.out, explanation);
    dl_live_put(p.out, study, sweep);
    status = put_figures(&p, err);
    put_results(&p);
    put_comparison(&p, &errors);
    put_assumptions(&p);
    put_settings(&p);
    put_results_link(&p, results);
    dl_html_end(p.out);
    dl_results_free(&p.results);
    return dl_output_end(&output, status, err);
}
