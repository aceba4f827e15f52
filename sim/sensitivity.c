/* What the intervals of assumed costs do to the result: dl_sweep_find_influences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/sweep.h"

#define STEPS_MOST 40
#define STEPS_LEAST 4
#define EVENTS_LEAST 300000.0

/* A row whose runs are repeated with other costs. */
typedef struct trial {
    const dl_variant *variant;
    dl_scenario scenario; /* the variant's, with fewer steps; borrows from it */
    const dl_point *point;
    double per_s; /* with the costs as they are; NaN: it does not run */
} trial;

/* The throughput, NaN if it does not run. */
static double run(trial *t, const dl_costs *costs, double compute_log)
{
    dl_run_result result = {0};
    dl_error ignored = {0};
    const dl_run_config config = {.scenario = &t->scenario,
                                  .costs = costs,
                                  .point = t->point,
                                  .compute_log = compute_log,
                                  .by_spread = true};
    if (dl_run(&config, &result, &ignored) != DL_OK) return (double)NAN;
    const double per_s = result.throughput_per_s;
    dl_run_result_free(&result);
    return per_s;
}

/* Whether the row's run depends on the assumed value, as it was assumed, and there is an interval
 * to vary it over. */
static bool counts(const dl_assumption *a, const dl_variant *variant, const dl_point *point)
{
    return a->low < a->high && dl_run_needs(&variant->scenario, &variant->costs, point) & a->need &&
           dl_assumption_holds(a, &variant->costs);
}

static int count_of(const dl_variant *variant, const dl_point *point)
{
    int count = dl_variant_compute_log(variant) > 0;
    for (size_t i = 0; i < variant->assumed.count; i++)
        count += counts(&variant->assumed.items[i], variant, point);
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
    if (a->assumption == NULL || b->assumption == NULL) return a->assumption == b->assumption;
    return a->assumption->key == b->assumption->key && a->assumption->value == b->assumption->value;
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

static double with_value(trial *t, const dl_assumption *a, double value)
{
    dl_costs costs = t->variant->costs;
    dl_assumption_set(a, &costs, value);
    return run(t, &costs, 0) / t->per_s - 1;
}

static void vary(trial *t, size_t row, dl_sweep *sweep)
{
    const dl_costs *costs = &t->variant->costs;
    const double compute_log = dl_variant_compute_log(t->variant);
    if (compute_log > 0) {
        add(sweep, &(dl_influence){.row = row,
                                   .at_low = run(t, costs, -compute_log) / t->per_s - 1,
                                   .at_high = run(t, costs, compute_log) / t->per_s - 1});
    }
    for (size_t i = 0; i < t->variant->assumed.count; i++) {
        const dl_assumption *a = &t->variant->assumed.items[i];
        if (!counts(a, t->variant, t->point)) continue;
        add(sweep, &(dl_influence){.row = row,
                                   .assumption = a,
                                   .at_low = with_value(t, a, a->low),
                                   .at_high = with_value(t, a, a->high)});
    }
}

/* Tries the row with as many steps as `events` are enough for; false: for too few. */
static bool try_row(dl_sweep *sweep, const dl_study *study, size_t number, double events)
{
    const dl_row *row = &sweep->rows[number];
    trial t = {.variant = &study->variants[row->variant], .point = &row->point};
    t.scenario = t.variant->scenario;
    if (t.scenario.steps > STEPS_MOST) t.scenario.steps = STEPS_MOST;
    const double runs = 2 * count_of(t.variant, t.point) + 1;
    const double whole = (double)row->mean.events / (double)t.scenario.replicates *
                         (double)t.scenario.steps / (double)t.variant->scenario.steps;
    if (whole * runs > events) {
        t.scenario.steps = (int64_t)((double)t.scenario.steps * events / (whole * runs));
    }
    if (t.scenario.steps < STEPS_LEAST) return false;
    t.per_s = run(&t, &t.variant->costs, 0);
    if (!isnan(t.per_s)) vary(&t, number, sweep);
    return true;
}

static int by_size(const void *a, const void *b)
{
    const double x = dl_influence_size(a), y = dl_influence_size(b);
    return (x < y) - (x > y);
}

void dl_sweep_find_influences(dl_sweep *sweep, const dl_study *study)
{
    size_t rows = 0;
    for (size_t i = 0; i < sweep->row_count; i++)
        rows += is_tried(study, sweep, i);
    const double each = fmax((double)sweep->events, EVENTS_LEAST) / fmax((double)rows, 1);
    for (size_t i = 0; i < sweep->row_count; i++) {
        if (!is_tried(study, sweep, i)) continue;
        sweep->influence_rows_skipped += !try_row(sweep, study, i, each);
    }
    if (sweep->influence_count > 1) {
        qsort(sweep->influences, sweep->influence_count, sizeof *sweep->influences, by_size);
    }
}
