#include "sim/report/views.h"
#include "sim/report/row_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/fits.h"
#include "sim/report/html.h"

#define ROWS_OPEN 24 /* maximum number of unmeasured rows shown without a click */

/* --- selection of rows ------------------------------------------------------------------------ */

static bool averages_between_sites(const dl_result *r)
{
    const dl_averaging_result *a = r->row->mean.averaging;
    return a != NULL && r->row->mean.syncer == NULL && a->site_sent_bytes > 0;
}

static bool merges(const dl_result *r)
{
    return r->row->mean.syncer != NULL;
}

/* Whether the result has absences. Excludes modes with a syncer, whose goodput is in the table of
 * uploads. */
static bool is_away(const dl_result *r)
{
    return !isnan(r->row->mean.goodput_frac) && r->row->mean.syncer == NULL;
}

static bool staleness_is_measured(const dl_result *r)
{
    return r->row->worker_staleness != NULL &&
           !isnan(r->measured->value[DL_MEASURE_STALENESS_MEAN]);
}

/* --- columns of each table -------------------------------------------------------------------- */

static const dl_view_column points[] = {{"workers", 0, 0},
                                        {"GPUs", 1, 0},
                                        {"cores", 0, 0},
                                        {"batch", 2, 0},
                                        {"sync", 0, 0},
                                        {"options", 0, 0},
                                        {"step", 0, 0},
                                        {"step p99", 8, 0},
                                        {"samples/s", 0, 0},
                                        {"95 % interval", DL_VIEW_PAGE_ONLY, 0},
                                        {"factor", 1, 0},
                                        {"hours", 0, 0},
                                        {"USD", 1, 0},
                                        {"speedup", 1, 0},
                                        {"comp. %", 7, 0},
                                        {"host %", 8, 0.01},
                                        {"comm. %", 4, 0.0005},
                                        {"avg. %", 8, 0.01},
                                        {"wait %", 5, 0.0005},
                                        {"input %", 4, 0.01},
                                        {"bound by", 3, 0},
                                        {"memory", 6, 0},
                                        {"tokens/s", 5, 0},
                                        {"MFU %", 5, 0},
                                        {"USD/h", 9, 0},
                                        {"epoch", 6, 0},
                                        {"USD/epoch", 5, 0},
                                        {"staleness", 2, 0.005},
                                        {"stalest worker", 6, 0},
                                        {"measured step", DL_VIEW_PAGE_ONLY, 0},
                                        {"measured/s", 1, 0},
                                        {"error %", 1, 0},
                                        {"KS %", 6, 0},
                                        {"error left out %", DL_VIEW_PAGE_ONLY, 0},
                                        {"measured staleness", 3, 0},
                                        {"row", DL_VIEW_PAGE_ONLY, 0},
                                        {"runs", DL_VIEW_PAGE_ONLY, 1.5}};
static const dl_view_column generators[] = {{"trainer GPUs", 2, 0},
                                            {"gen. GPUs", 2, 0},
                                            {"options", 0, 0},
                                            {"update", 0, 0},
                                            {"95 % interval", DL_VIEW_PAGE_ONLY, 0},
                                            {"answers/h", 3, 0},
                                            {"speedup", 1, 0},
                                            {"trains %", 7, 0},
                                            {"copies %", 6, 0.0005},
                                            {"waits %", 0, 0},
                                            {"gen. idle %", 0, 0},
                                            {"requests", 8, 0},
                                            {"queue", 9, 0},
                                            {"discarded %", 2, 1e-9},
                                            {"age", 0, 0},
                                            {"age p95", 4, 0},
                                            {"age max", 5, 0},
                                            {"bound side", 1, 0},
                                            {"USD/update", 1, 0},
                                            {"tokens/s", 9, 0}};
static const dl_view_column layouts[] = {{"layout", 0, 0},
                                         {"micro", 0, 0},
                                         {"recompute", 0, 0},
                                         {"schedule", 0, 0},
                                         {"ZeRO", 0, 0},
                                         {"batch", 0, 0},
                                         {"sync", 0, 0},
                                         {"step", 0, 0},
                                         {"samples/s", DL_VIEW_PAGE_ONLY, 0},
                                         {"95 % interval", DL_VIEW_PAGE_ONLY, 0},
                                         {"memory %", 1, 0},
                                         {"hours", 2, 0},
                                         {"USD", 2, 0},
                                         {"MFU %", 3, 0},
                                         {"equal", 4, 0},
                                         {"tokens/s", 5, 0},
                                         {"comm. %", 6, 0.0005},
                                         {"bound by", 7, 0}};
static const dl_view_column outer[] = {
    {"workers", 0, 0},       {"batch", 0, 0},     {"sync", 0, 0},     {"options", 0, 0},
    {"outer step", 0, 0},    {"p95", 3, 0},       {"exchange", 0, 0}, {"blocked", 1, 0},
    {"local steps %", 0, 0}, {"site sends", 1, 0}};
static const dl_view_column syncer[] = {
    {"workers", 0, 0},     {"batch", 0, 0},      {"options", 0, 0},    {"uploads", 0, 0},
    {"applied", 0, 0},     {"too stale", 0, 0},  {"superseded", 0, 0}, {"unmerged", 1, 0},
    {"merges", 3, 0},      {"outer step", 2, 0}, {"goodput %", 0, 0},  {"weight", 4, 0},
    {"by staleness", 0, 0}};
static const dl_view_column failures[] = {
    {"workers", 0, 0},    {"batch", 0, 0},         {"sync", 2, 0},
    {"options", 0, 0},    {"job goodput %", 0, 0}, {"job samples/s", 0, 0},
    {"lost h/day", 3, 0}, {"lost USD/day", 1, 0},  {"best checkpoint", 1, 0}};
static const dl_view_column absences[] = {{"workers", 0, 0}, {"batch", 0, 0},
                                          {"options", 0, 0}, {"worker goodput %", 0, 0},
                                          {"away %", 0, 0},  {"steps kept %", 0, 0}};
static const dl_view_column staleness[] = {
    {"workers", 0, 0}, {"sync", 0, 0},         {"staleness", 0, 0}, {"measured staleness", 0, 0},
    {"sd", 2, 0},      {"measured sd", 2, 0},  {"p50", 3, 0},       {"measured p50", 3, 0},
    {"p90", 4, 0},     {"measured p90", 4, 0}, {"by worker", 1, 0}, {"measured by worker", 1, 0}};

#define VIEW(title, has, columns)                     \
    {                                                 \
        (title), (has), (columns), DL_LENGTH(columns) \
    }

static const dl_view all_points = VIEW("Points", NULL, points);
static const dl_view of_generators = VIEW("Generators beside a trainer", NULL, generators);
static const dl_view of_layouts = VIEW("Layouts", NULL, layouts);

const dl_view *dl_view_main(const dl_results *results)
{
    const bool generates =
        results->count > 0 && results->results[0].variant->scenario.generators != NULL;
    if (results->count > 0 && !isnan(results->results[0].row->equal_layouts)) return &of_layouts;
    return generates ? &of_generators : &all_points;
}

const dl_view dl_views_further[DL_VIEWS_FURTHER] = {
    VIEW("from one average to the next", averages_between_sites, outer),
    VIEW("uploads to the syncer; those applied by staleness 0, 1, ...", merges, syncer),
    VIEW("with failures", dl_result_may_fail, failures),
    VIEW("with workers that are away", is_away, absences),
};
const dl_view dl_view_staleness =
    VIEW("staleness, predicted and measured", staleness_is_measured, staleness);

/* --- inputs of the tables -------------------------------------------------------------------- */

static bool reaches(const dl_results *results, const dl_column *column, double least)
{
    for (size_t i = 0; i < results->count; i++) {
        DL_SCOPED(dl_datum) datum = column->get(&results->results[i], column);
        const bool does = datum.number >= least;
        if (does) return true;
    }
    return false;
}

/* Whether a row's scenario gives factors on the samples to its target; else they are all 1. */
static bool has_factors(const dl_results *results)
{
    bool has = false;
    for (size_t i = 0; i < results->count; i++)
        has |= results->results[i].variant->scenario.target.count > 0;
    return has;
}

bool dl_view_shows(const dl_results *results, const dl_view_column *column)
{
    if (strcmp(column->heading, "factor") == 0 && !has_factors(results)) return false;
    const dl_column *of = dl_result_column(column->heading);
    const dl_column_table table = {.rows = results->results,
                                   .row_count = results->count,
                                   .row_bytes = sizeof *results->results};
    return dl_column_has_values(&table, of) &&
           (column->least == 0 || reaches(results, of, column->least));
}

void dl_view_rows(dl_results *some, const dl_results *all, const dl_view *view)
{
    *some = *all;
    some->results = dl_calloc(all->count, sizeof *some->results, "results");
    some->count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const dl_result *r = &all->results[i];
        if (view->has == NULL || (r->row->error == NULL && view->has(r)))
            some->results[some->count++] = *r;
    }
}

const char *dl_result_failure(const void *row)
{
    return ((const dl_result *)row)->row->error;
}

char *dl_result_remark(const void *row)
{
    const dl_result *r = row;
    if (r->row->error == NULL) return dl_report_above(r->row);
    if (!r->says_fit || dl_memory_fits(&r->row->memory)) return NULL;
    return dl_fits_text(&r->variant->scenario, &r->variant->costs, &r->row->point, &r->row->memory);
}

const char *dl_result_mark(const void *row)
{
    return ((const dl_result *)row)->marks;
}

bool dl_result_is_better(const dl_result *a, const dl_result *b)
{
    const bool a_alone = a->row->point.mode->exchange == DL_EXCHANGES_NOTHING;
    const bool b_alone = b->row->point.mode->exchange == DL_EXCHANGES_NOTHING;
    const double a_s = dl_result_target_s(a), b_s = dl_result_target_s(b);
    if (a_alone != b_alone) return b_alone;
    if (!isnan(a_s) || !isnan(b_s)) return isnan(b_s) || a_s < b_s;
    return a->row->mean.throughput_per_s > b->row->mean.throughput_per_s;
}

const dl_result *dl_results_best(const dl_results *results)
{
    const dl_result *best = NULL;
    for (size_t i = 0; i < results->count; i++) {
        const dl_result *r = &results->results[i];
        if (r->row->error == NULL && (best == NULL || dl_result_is_better(r, best))) best = r;
    }
    return best;
}

static const char *class_of(const void *row)
{
    const dl_measured *m = ((const dl_result *)row)->measured;
    return m->runs > 0 || m->failed_runs > 0 ? dl_measured_use_names[m->use] : NULL;
}

void dl_view_html(FILE *out, const char *caption, const dl_results *all, const dl_view *view)
{
    dl_results some;
    DL_AUTOFREE const dl_column **columns = dl_calloc(view->count, sizeof *columns, "columns");
    dl_view_rows(&some, all, view);
    dl_column_table table = {.columns = columns,
                             .rows = some.results,
                             .row_count = some.count,
                             .row_bytes = sizeof *some.results,
                             .failed = dl_result_failure,
                             .mark = dl_result_mark,
                             .remark = dl_result_remark,
                             .row_class = class_of};
    for (size_t c = 0; c < view->count; c++) {
        if (strcmp(view->columns[c].heading, "step") == 0 ||
            strcmp(view->columns[c].heading, "update") == 0)
            table.failed_from = table.column_count;
        if (!dl_view_shows(&some, &view->columns[c])) continue;
        columns[table.column_count++] = dl_result_column(view->columns[c].heading);
    }
    if (view == dl_view_main(all) && some.count > 1) table.chosen = dl_results_best(&some);
    bool compared = false;
    for (size_t i = 0; i < some.count; i++)
        compared |= class_of(&some.results[i]) != NULL;
    const bool closed = some.count > ROWS_OPEN && !compared;
    if (closed) {
        const bool is_main = view == dl_view_main(all);
        dl_html(out, "<details><summary>%s%s %zu points</summary>\n", is_main ? "All" : caption,
                is_main ? "" : ":", some.count);
    }
    if (some.count > 0) dl_html_table(out, caption, &table);
    if (closed) fputs("</details>\n", out);
    free(some.results);
}
