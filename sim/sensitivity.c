/* Effects of assumptions on the results: dl_sweep_find_influences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/units.h"
#include "sim/statistics.h"
#include "sim/sweep_internal.h"

#define STEPS_MOST 40
#define STEPS_LEAST 4
#define EVENTS_LEAST 300000.0
#define MOVES_LOG 1e-4  /* a row whose rate changes less, as a logarithm, gets no interval */
#define EQUAL_FRAC 1e-3 /* rates that differ by less are equal */
/* Rates of one GPU that differ by less are equal: DDP's copies to buckets take 2 % of a step of
 * ResNet-50. */
#define ALONE_FRAC 0.05
#define OVERRUN 16 /* factor by which the fewest steps may exceed the allowed events */

/* A row whose runs are repeated with other costs; rank 0 lists them for all ranks. */
typedef struct trial {
    int64_t row, variant, point;
    int64_t steps;
    int64_t first; /* number of its first run: unchanged costs, then the low and the high end of
                    * each variation */
    int64_t count; /* 1 + 2 x number of variations; the baseline's runs follow */
    int64_t bases; /* number of baseline runs: `count` if the speedup gets an interval, else 0 */
    int64_t leads; /* 1: its influences are reported */
} trial;

typedef struct trials {
    const dl_study *study;
    trial *items;
    size_t count;
    double *per_s; /* [runs] throughputs; NaN: the run failed */
    const dl_sweep_config *config;
    int64_t before; /* number of runs of the sweep before the trials */
} trials;

/* Whether the row's run may depend on the assumption, which must still hold and have a range or,
 * for a setting, an alternative. */
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

/* A variation of a row's run, simulated at its low and then at its high end. */
typedef struct variation {
    dl_influence_kind kind;
    const dl_assumption *assumption; /* the first assumption of its cause */
} variation;

/* Whether an earlier assumption has the same cause, and so covers this one. */
static bool goes_along(const dl_variant *variant, const dl_point *point, size_t number)
{
    const dl_assumption *items = variant->assumed.items;
    for (size_t i = 0; i < number && items[number].cause != 0; i++)
        if (items[i].cause == items[number].cause && counts(&items[i], variant, point)) return true;
    return false;
}

/* Finds variation `number` of the row's run; false if there are fewer. */
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

/* Whether the row has variations and, among the rows that ran with its variant and mode, the most
 * GPUs (or workers on cores); of equal rows, the last one. */
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

/* Adds the influence, or keeps the larger one of the same assumption. */
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

/* Moves all assumptions of one cause to an end of their interval. A setting takes its only
 * alternative at the low end, and stays at the high end. */
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

static dl_status run_job(void *user, int64_t job, dl_error *err DL_UNUSED)
{
    trials *all = user;
    const trial *t = trial_of(all, job);
    const dl_variant *variant = &all->study->variants[t->variant];
    const dl_point *point = &variant->scenario.points[t->point];
    const bool is_base = job - t->first >= t->count;
    const int64_t number = (job - t->first) % t->count - 1; /* -1: unchanged */
    const bool high = number % 2 == 1;
    const dl_baseline base = is_base ? dl_sweep_baseline(all->study, (size_t)t->variant, point)
                                     : (dl_baseline){.gpus = NULL};
    variation varied = {0};
    if (number >= 0) find_variation(variant, point, number / 2, &varied);
    const dl_assumption *a = varied.assumption;
    const bool other_costs = a != NULL && a->costs != NULL && !high;
    dl_scenario scenario = variant->scenario;
    dl_gpu_options gpu;
    DL_AUTO(dl_costs_draw_free) dl_costs costs; /* private copy: threads vary different values */
    dl_run_config config = {.scenario = &scenario,
                            .costs = &costs,
                            .point = is_base ? &base.point : point,
                            .by_spread = true,
                            .without_slow = is_base};
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
    const bool ran = dl_run(&config, &result, &ignored) == DL_OK;
    all->per_s[job] = ran ? result.throughput_per_s : (double)NAN;
    if (ran) dl_run_result_free(&result);
    free(base.gpus);
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

/* Number of steps for which `runs` runs take about as many events as the row is allowed; 0: even
 * the fewest steps take too many. */
static int64_t steps_for(const dl_variant *variant, const dl_row *row, double runs, double events)
{
    const dl_scenario *scenario = &variant->scenario;
    const int64_t most = scenario->steps < STEPS_MOST ? scenario->steps : STEPS_MOST;
    const bool varies = dl_run_varies(scenario, &variant->costs);
    /* Number of runs that mean.events covers. */
    const double counted = varies ? (double)scenario->replicates : 1;
    const double each =
        (double)row->mean.events / counted / (double)dl_run_steps(scenario, &row->point);
    dl_scenario shorter = *scenario;
    const double may = fmax(events, (double)row->mean.events);
    shorter.steps = (int64_t)fmin((double)most, may / (each * runs));
    if (shorter.steps < STEPS_LEAST) shorter.steps = most < STEPS_LEAST ? most : STEPS_LEAST;
    const double takes = each * runs * (double)dl_run_steps(&shorter, &row->point);
    return takes <= OVERRUN * may ? shorter.steps : 0;
}

/* The baseline of the row, without its GPU list, if it is of the row's variant and so has its
 * assumptions; else without workers. */
static dl_point own_base(const dl_study *study, const dl_row *row)
{
    const dl_baseline base = dl_sweep_baseline(study, row->variant, &row->point);
    free(base.gpus);
    return base.variant == row->variant && !isnan(row->speedup) ? base.point : (dl_point){0};
}

/* Lists the row for trial; false if it would take too long. */
static bool list_row(trials *all, const dl_sweep *sweep, size_t number, bool leads, double events)
{
    const dl_row *row = &sweep->rows[number];
    const dl_variant *variant = &all->study->variants[row->variant];
    const bool has_base =
        variant->scenario.replicates == 1 && own_base(all->study, row).workers > 0;
    const int64_t runs = 2 * count_of(variant, &row->point) + 1;
    const int64_t steps = steps_for(variant, row, (double)runs, events);
    if (steps == 0) return false;
    size_t first_row = number; /* the row of the variant's first point */
    while (first_row > 0 && sweep->rows[first_row - 1].variant == row->variant)
        first_row--;
    const trial *last = all->count > 0 ? &all->items[all->count - 1] : NULL;
    /* Read before the list grows, which may move it. */
    const int64_t first = last != NULL ? last->first + last->count + last->bases : 0;
    DL_APPEND(all->items, all->count, "rows to try") =
        (trial){.row = (int64_t)number,
                .variant = (int64_t)row->variant,
                .point = (int64_t)(number - first_row),
                .steps = steps,
                .first = first,
                .count = runs,
                .bases = has_base ? runs : 0,
                .leads = leads};
    return true;
}

/* The interval around a rate, from its changes at both ends of each variation, and the
 * differences between runs. */
typedef struct interval {
    double below, above; /* sums of squared logarithms of the changes */
} interval;

static void widen(interval *i, double at_low, double at_high)
{
    if (!(at_low > 0) || !(at_high > 0)) return; /* one of the runs failed */
    i->below += pow(log(fmin(1, fmin(at_low, at_high))), 2);
    i->above += pow(log(fmax(1, fmax(at_low, at_high))), 2);
}

static void set_interval(const interval *i, double rate, double *low, double *high)
{
    *low = rate * exp(-sqrt(i->below));
    *high = rate * exp(sqrt(i->above));
}

/* Whether [spread] run_frac is assumed because one step or rate was given. */
static bool assumes_runs(const dl_variant *variant)
{
    return variant->costs.run_spread_frac.origin == DL_ORIGIN_ASSUMED &&
           (variant->calibrated.factor > 0 || variant->scenario.samples_per_s > 0);
}

double dl_sweep_run_sd(const dl_variant *variant, const dl_point *point, double per_s)
{
    const dl_calibrate *c = &variant->calibrated;
    const int64_t batch = c->workers * c->samples;
    const bool steps = c->step_ns > 0, alone = dl_point_gpus(point) == 1;
    const double given_per_s =
        steps ? (double)batch / dl_ns_to_s(c->step_ns) : variant->scenario.samples_per_s;
    const bool given = (steps ? point->workers == c->workers && point->batch == batch : alone) &&
                       fabs(per_s - given_per_s) < (alone ? ALONE_FRAC : EQUAL_FRAC) * per_s;
    return given && assumes_runs(variant) ? 0 : dl_costs_run_frac(&variant->costs);
}

bool dl_sweep_runs_differ(const dl_variant *variant, const dl_point *a, const dl_point *b)
{
    return !assumes_runs(variant) || variant->scenario.generators != NULL ||
           dl_point_gpus(a) != dl_point_gpus(b);
}

/* Squared half width, as a logarithm, of what runs of a point with this rate differ by. */
static double runs_of(const dl_variant *variant, const dl_point *point, double per_s)
{
    return pow(dl_normal_quantile(0.975) * dl_sweep_run_sd(variant, point, per_s), 2);
}

/* Adds the differences between runs to the intervals, and sets those of the row; a row whose rate
 * hardly changes gets none. */
static void set_intervals(const dl_study *study, dl_row *row, interval rate, interval speedup)
{
    const dl_variant *variant = &study->variants[row->variant];
    const double runs = runs_of(variant, &row->point, row->mean.throughput_per_s);
    const bool moves = rate.below + rate.above + runs > MOVES_LOG * MOVES_LOG;
    if (variant->scenario.replicates > 1 || !moves) return;
    rate.below += runs;
    rate.above += runs;
    set_interval(&rate, row->mean.throughput_per_s, &row->low_per_s, &row->high_per_s);
    const dl_point base = own_base(study, row);
    if (base.workers == 0) return;
    if (dl_sweep_runs_differ(variant, &row->point, &base)) {
        const double both =
            runs + runs_of(variant, &base, row->mean.throughput_per_s / row->speedup);
        speedup.below += both;
        speedup.above += both;
    }
    set_interval(&speedup, row->speedup, &row->speedup_low, &row->speedup_high);
}

/* Whether the row's interval is computed from its assumptions. */
static bool wants_interval(const dl_study *study, const dl_row *row)
{
    const dl_variant *variant = &study->variants[row->variant];
    return row->error == NULL && variant->scenario.replicates == 1 &&
           count_of(variant, &row->point) > 0;
}

/* Sets the interval of a row without variations, whose runs may differ nevertheless. */
static void set_own_interval(const dl_study *study, dl_row *row)
{
    const dl_variant *variant = &study->variants[row->variant];
    const interval none = {0};
    if (row->error == NULL && count_of(variant, &row->point) == 0)
        set_intervals(study, row, none, none);
}

static void list_rows(trials *all, dl_sweep *sweep)
{
    const dl_study *study = all->study;
    const double least = EVENTS_LEAST / fmax((double)sweep->row_count, 1);
    for (size_t i = 0; i < sweep->row_count; i++) {
        const bool leads = is_tried(study, sweep, i);
        if (!leads && !wants_interval(study, &sweep->rows[i])) {
            set_own_interval(study, &sweep->rows[i]);
            continue;
        }
        if (!list_row(all, sweep, i, leads, least) && leads) sweep->influence_rows_skipped++;
    }
}

/* Sends the list to all ranks: only rank 0 has rows and knows their numbers of events. */
static dl_status share(trials *all, const dl_cluster *cluster, dl_error *err)
{
    if (cluster == NULL || cluster->size == 1) return DL_OK;
    const dl_status status = cluster->calls->broadcast(&all->count, sizeof all->count, err);
    if (status != DL_OK || all->count == 0) return status;
    if (cluster->rank > 0) all->items = dl_calloc(all->count, sizeof *all->items, "rows to try");
    return cluster->calls->broadcast(all->items, all->count * sizeof *all->items, err);
}

static void keep_trial(dl_sweep *sweep, const trials *all, const trial *t)
{
    const double *per_s = &all->per_s[t->first], *base = per_s + t->count;
    const dl_variant *variant = &all->study->variants[t->variant];
    dl_row *row = &sweep->rows[t->row];
    interval rate = {0}, speedup = {0};
    for (int64_t k = 0; 2 * k + 1 < t->count; k++) {
        variation varied;
        if (!find_variation(variant, &variant->scenario.points[t->point], k, &varied)) break;
        const double low = per_s[1 + 2 * k] / per_s[0], high = per_s[2 + 2 * k] / per_s[0];
        if (t->leads) {
            add(sweep, &(dl_influence){.row = (size_t)t->row,
                                       .kind = varied.kind,
                                       .assumption = varied.assumption,
                                       .at_low = low - 1,
                                       .at_high = high - 1});
        }
        if (varied.assumption != NULL && varied.assumption->of == DL_ASSUMED_SETTING) continue;
        widen(&rate, low, high);
        if (t->bases > 0) {
            widen(&speedup, low * base[0] / base[1 + 2 * k], high * base[0] / base[2 + 2 * k]);
        }
    }
    set_intervals(all->study, row, rate, speedup);
}

static void keep(dl_sweep *sweep, const trials *all)
{
    for (size_t i = 0; i < all->count; i++)
        keep_trial(sweep, all, &all->items[i]);
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
        const int64_t count = last->first + last->count + last->bases;
        all.per_s = dl_calloc((size_t)count, sizeof *all.per_s, "trials");
        const dl_jobs jobs = {.count = count,
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
