/* What the intervals of assumed costs do to the result: dl_sweep_find_influences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "sim/sweep.h"

#define STEPS_MOST 40
#define STEPS_LEAST 4
#define EVENTS_LEAST 300000.0

/* A row whose runs are repeated with other costs, as rank 0 lists them for all. */
typedef struct trial {
    int64_t row, variant, point;
    int64_t steps;
    int64_t first; /* of its runs: as it is, then the low and the high end of each variation; */
    int64_t count; /* 1 + 2 variations */
} trial;

typedef struct trials {
    const dl_study *study;
    trial *items;
    size_t count;
    double *per_s; /* of all runs, NaN: it does not run */
    const dl_sweep_config *config;
    int64_t before; /* runs of the sweep */
} trials;

/* Whether the row's run may depend on what was assumed, as it was assumed, and there is something
 * to vary. */
static bool counts(const dl_assumption *a, const dl_variant *variant, const dl_point *point)
{
    const dl_scenario *scenario = &variant->scenario;
    if (!dl_assumption_holds(a, &variant->costs)) return false;
    if (a->of == DL_ASSUMED_SETTING)
        return a->other[0] != '\0' && (a->matters == NULL || a->matters(scenario, point));
    if (a->of == DL_ASSUMED_COST && !(dl_run_needs(scenario, &variant->costs, point) & a->need))
        return false;
    return a->low < a->high;
}

/* What two runs vary, the first to the low and the second to the high end. */
typedef struct variation {
    dl_influence_kind kind;
    const dl_assumption *assumption; /* the first of its cause */
} variation;

/* Whether an assumption before is of the same cause, and so is tried with it. */
static bool goes_along(const dl_variant *variant, const dl_point *point, size_t number)
{
    const dl_assumption *items = variant->assumed.items;
    for (size_t i = 0; i < number && items[number].cause != 0; i++)
        if (items[i].cause == items[number].cause && counts(&items[i], variant, point)) return true;
    return false;
}

/* Number `number` of what the row's run varies in; false: there are not as many. */
static bool find_variation(const dl_variant *variant, const dl_point *point, int64_t number,
                           variation *found)
{
    *found = (variation){.kind = DL_INFLUENCE_COMPUTE};
    if (dl_variant_compute_log(variant) > 0 && number-- == 0) return true;
    found->kind = DL_INFLUENCE_ASSUMPTION;
    for (size_t i = 0; i < variant->assumed.count; i++) {
        found->assumption = &variant->assumed.items[i];
        if (counts(found->assumption, variant, point) && !goes_along(variant, point, i) &&
            number-- == 0)
            return true;
    }
    return false;
}

static int count_of(const dl_variant *variant, const dl_point *point)
{
    variation ignored;
    int count = 0;
    while (find_variation(variant, point, count, &ignored))
        count++;
    return count;
}

/* Of each variant and mode the row with most workers that ran, the last of equal ones; and only if
 * something of it was assumed. */
static bool is_tried(const dl_study *study, const dl_sweep *sweep, size_t number)
{
    const dl_row *row = &sweep->rows[number];
    if (row->error != NULL || count_of(&study->variants[row->variant], &row->point) == 0) {
        return false;
    }
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *other = &sweep->rows[i];
        if (other->variant != row->variant || other->point.mode != row->point.mode ||
            other->error != NULL)
            continue;
        const int more = dl_point_gpus(&other->point) - dl_point_gpus(&row->point);
        if (more > 0 || (more == 0 && i > number)) return false;
    }
    return true;
}

double dl_influence_size(const dl_influence *influence)
{
    return fmax(fabs(influence->at_low), fabs(influence->at_high));
}

static bool is_same(const dl_influence *a, const dl_influence *b)
{
    if (a->kind != b->kind || a->kind == DL_INFLUENCE_COMPUTE) return a->kind == b->kind;
    return dl_assumption_same(a->assumption, b->assumption);
}

/* Keeps the largest of each assumption. */
static void add(dl_sweep *sweep, const dl_influence *influence)
{
    if (isnan(dl_influence_size(influence))) return;
    for (size_t i = 0; i < sweep->influence_count; i++) {
        dl_influence *kept = &sweep->influences[i];
        if (!is_same(kept, influence)) continue;
        if (dl_influence_size(influence) > dl_influence_size(kept)) *kept = *influence;
        return;
    }
    DL_APPEND(sweep->influences, sweep->influence_count, "influences") = *influence;
}

/* --- runs as jobs ---------------------------------------------------------------------------- */

static const trial *trial_of(const trials *all, int64_t run)
{
    size_t t = all->count - 1;
    while (all->items[t].first > run)
        t--;
    return &all->items[t];
}

/* Puts all that is of one cause to an end of its interval, or the setting's alternative, of which
 * there is one, in its place. */
static void vary(const dl_variant *variant, const dl_assumption *varied, bool high,
                 dl_scenario *scenario, dl_costs *costs)
{
    const dl_assumptions *all = &variant->assumed;
    if (varied->of == DL_ASSUMED_SETTING) {
        if (!high && varied->change != NULL) varied->change(scenario, scenario->gpu);
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        const dl_assumption *a = &all->items[i];
        if (a == varied ||
            (a->cause != 0 && a->cause == varied->cause && dl_assumption_holds(a, &variant->costs)))
            dl_assumption_set(a, costs, high ? a->high : a->low);
    }
}

static dl_status run_job(void *user, int64_t job, dl_error *err)
{
    trials *all = user;
    const trial *t = trial_of(all, job);
    const dl_variant *variant = &all->study->variants[t->variant];
    const dl_point *point = &variant->scenario.points[t->point];
    const int64_t number = job - t->first - 1; /* -1: as it is */
    const bool high = number % 2 == 1;
    variation varied = {0};
    if (number >= 0) find_variation(variant, point, number / 2, &varied);
    const dl_assumption *a = varied.assumption;
    const bool other_costs = a != NULL && a->costs != NULL && !high;
    dl_scenario scenario = variant->scenario;
    dl_gpu_options gpu;
    dl_costs costs; /* of its own: threads vary different values */
    dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = point, .by_spread = true};
    scenario.steps = t->steps;
    if (scenario.gpu != NULL) {
        gpu = *scenario.gpu;
        scenario.gpu = &gpu;
    }
    dl_costs_draw(other_costs ? a->costs : &variant->costs, NULL, &costs);
    if (a != NULL) {
        vary(variant, a, high, &scenario, &costs);
    } else if (number >= 0) {
        const double log = dl_variant_compute_log(variant);
        config.compute_log = high ? log : -log;
    }
    dl_run_result result = {0};
    dl_error ignored = {0};
    (void)err;
    const bool ran = dl_run(&config, &result, &ignored) == DL_OK;
    all->per_s[job] = ran ? result.throughput_per_s : (double)NAN;
    if (ran) dl_run_result_free(&result);
    dl_costs_draw_free(&costs);
    return DL_OK;
}

static void encode_job(void *user, int64_t job, dl_bytes *into)
{
    dl_bytes_add(into, &((trials *)user)->per_s[job], sizeof(double));
}

static bool decode_job(void *user, int64_t job, const void *data, size_t bytes)
{
    if (bytes != sizeof(double)) return false;
    memcpy(&((trials *)user)->per_s[job], data, bytes);
    return true;
}

static void show(void *user, int64_t done, int64_t count)
{
    const trials *all = user;
    all->config->progress(all->config->user, all->before + done, all->before + count);
}

/* --- which rows ------------------------------------------------------------------------------ */

/* Tries the row with as many steps as `events` are enough for; false: for too few. */
static bool list_row(trials *all, const dl_sweep *sweep, size_t number, double events)
{
    const dl_row *row = &sweep->rows[number];
    const dl_variant *variant = &all->study->variants[row->variant];
    const dl_scenario *scenario = &variant->scenario;
    int64_t steps = scenario->steps > STEPS_MOST ? STEPS_MOST : scenario->steps;
    const double runs = 2 * count_of(variant, &row->point) + 1;
    const double whole = (double)row->mean.events / (double)scenario->replicates * (double)steps /
                         (double)scenario->steps;
    if (whole * runs > events) steps = (int64_t)((double)steps * events / (whole * runs));
    if (steps < STEPS_LEAST) return false;
    size_t first_row = number; /* of the variant: its points are the rows from there on */
    while (first_row > 0 && sweep->rows[first_row - 1].variant == row->variant)
        first_row--;
    const trial *last = all->count > 0 ? &all->items[all->count - 1] : NULL;
    const int64_t first = last != NULL ? last->first + last->count : 0;
    DL_APPEND(all->items, all->count, "rows to try") =
        (trial){.row = (int64_t)number,
                .variant = (int64_t)row->variant,
                .point = (int64_t)(number - first_row),
                .steps = steps,
                .first = first,
                .count = (int64_t)runs};
    return true;
}

static void list_rows(trials *all, dl_sweep *sweep)
{
    size_t rows = 0;
    for (size_t i = 0; i < sweep->row_count; i++)
        rows += is_tried(all->study, sweep, i);
    const double each = fmax((double)sweep->events, EVENTS_LEAST) / fmax((double)rows, 1);
    for (size_t i = 0; i < sweep->row_count; i++) {
        if (!is_tried(all->study, sweep, i)) continue;
        sweep->influence_rows_skipped += !list_row(all, sweep, i, each);
    }
}

/* Only rank 0 has rows, and knows how many events they took. */
static dl_status share(trials *all, const dl_cluster *cluster, dl_error *err)
{
    if (cluster == NULL || cluster->size == 1) return DL_OK;
    const dl_status status = cluster->calls->broadcast(&all->count, sizeof all->count, err);
    if (status != DL_OK || all->count == 0) return status;
    if (cluster->rank > 0) all->items = dl_calloc(all->count, sizeof *all->items, "rows to try");
    return cluster->calls->broadcast(all->items, all->count * sizeof *all->items, err);
}

static void keep(dl_sweep *sweep, const trials *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const trial *t = &all->items[i];
        const double *per_s = &all->per_s[t->first];
        const dl_variant *variant = &all->study->variants[t->variant];
        for (int64_t k = 0; 2 * k + 1 < t->count; k++) {
            variation varied;
            if (!find_variation(variant, &variant->scenario.points[t->point], k, &varied)) break;
            add(sweep, &(dl_influence){.row = (size_t)t->row,
                                       .kind = varied.kind,
                                       .assumption = varied.assumption,
                                       .at_low = per_s[1 + 2 * k] / per_s[0] - 1,
                                       .at_high = per_s[2 + 2 * k] / per_s[0] - 1});
        }
    }
}

DL_ORDER(by_size, dl_influence, DL_COMPARE(dl_influence_size(b), dl_influence_size(a)));

dl_status dl_sweep_find_influences(dl_sweep *sweep, const dl_study *study,
                                   const dl_sweep_config *config, int64_t runs, dl_error *err)
{
    trials all = {.study = study, .config = config, .before = runs};
    const bool leads = config->cluster == NULL || config->cluster->rank == 0;
    if (leads) list_rows(&all, sweep);
    dl_status status = share(&all, config->cluster, err);
    if (status == DL_OK && all.count > 0) {
        const trial *last = &all.items[all.count - 1];
        all.per_s = dl_calloc((size_t)(last->first + last->count), sizeof *all.per_s, "trials");
        const dl_jobs jobs = {.count = last->first + last->count,
                              .threads = config->threads,
                              .user = &all,
                              .run = run_job,
                              .encode = encode_job,
                              .decode = decode_job,
                              .progress = config->progress != NULL ? show : NULL,
                              .progress_user = &all,
                              .cluster = config->cluster,
                              .journal = sweep->journal,
                              .journal_first = runs};
        status = dl_jobs_run(&jobs, err);
        if (status == DL_OK && leads) keep(sweep, &all);
    }
    free(all.items);
    free(all.per_s);
    if (sweep->influence_count > 1) {
        qsort(sweep->influences, sweep->influence_count, sizeof *sweep->influences, by_size);
    }
    return status;
}
