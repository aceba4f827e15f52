#include "sim/report/layout_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/jobs.h"
#include "common/sort.h"
#include "common/units.h"
#include "sim/fits.h"
#include "sim/scenario/without.h"

#define FINALS 20
#define AT_ONCE 16         /* runs between two checks of the best layouts */
#define REFINED_AT_ONCE 64 /* lower bounds refined before the layouts are sorted again */
#define EQUAL_FRAC 5e-3    /* steps that differ by less are equal */
#define STEPS 1            /* steps simulated without noise, after one step of warm-up */
#define STEPS_OF_NOISE 20
#define DRAWS_LEAST 10
#define DRAWS_MOST 200
#define DRAWN_EVENTS 4e7    /* limit on the events of all runs with draws */
#define EVENTS_OF_A_GPU 100 /* events that take as long as the setup of a GPU */

typedef struct search {
    dl_layout_space space;
    const dl_advice_config *config;
    dl_layout_advice *advice;
    size_t *order; /* [order_count] waiting layouts sorted by the lower bounds of their steps */
    size_t order_count, ran;
    int *stages;        /* [stages_at] stages of Megatron's usual layouts for each tp and cp; 0:
                         * none */
    bool in_full;       /* Megatron's usual layouts recompute fully */
    const size_t *jobs; /* layouts that the next jobs handle */
} search;

/* --- jobs ------------------------------------------------------------------------------------ */

static dl_status read_family_job(void *user, int64_t job, dl_error *err DL_UNUSED)
{
    search *s = user;
    dl_layout_read_family(&s->space, &s->space.families[job]);
    return DL_OK;
}

static dl_layout_fate fate_of(const dl_gpu_memory *memory)
{
    switch (dl_memory_fit(memory)) {
    case DL_FIT_NO: return DL_LAYOUT_UNFIT;
    case DL_FIT_UNCACHED: return DL_LAYOUT_UNCACHED;
    default: return DL_LAYOUT_WAITS;
    }
}

static dl_status look_job(void *user, int64_t job, dl_error *err DL_UNUSED)
{
    search *s = user;
    dl_layout *l = &s->space.layouts[job];
    dl_layout_scenario own;
    if (s->space.families[l->family].why != NULL) {
        l->fate = DL_LAYOUT_REFUSED;
        return DL_OK;
    }
    const dl_costs *costs = dl_layout_set_up(&s->space, l, &own);
    l->memory = dl_run_memory(&own.scenario, costs, &own.point);
    l->fate = fate_of(&l->memory);
    if (l->fate != DL_LAYOUT_UNFIT)
        l->least_s = dl_ns_to_s(dl_run_least_ns(&own.scenario, costs, &own.point, false));
    return DL_OK;
}

static dl_status refine_job(void *user, int64_t job, dl_error *err DL_UNUSED)
{
    const search *s = user;
    dl_layout *l = &s->space.layouts[s->jobs[job]];
    dl_layout_scenario own;
    const dl_costs *costs = dl_layout_set_up(&s->space, l, &own);
    l->least_s = dl_ns_to_s(dl_run_least_ns(&own.scenario, costs, &own.point, true));
    l->is_refined = true;
    return DL_OK;
}

static dl_status run_job(void *user, int64_t job, dl_error *err DL_UNUSED)
{
    const search *s = user;
    dl_layout *l = &s->space.layouts[s->jobs[job]];
    dl_layout_scenario own;
    const dl_costs *costs = dl_layout_set_up(&s->space, l, &own);
    const dl_run_config config = {
        .scenario = &own.scenario, .costs = costs, .point = &own.point, .by_spread = true};
    dl_run_result result = {0};
    if (dl_run(&config, &result, NULL) != DL_OK) {
        l->fate = DL_LAYOUT_REFUSED;
        return DL_OK;
    }
    l->fate = DL_LAYOUT_RAN;
    l->step_s = (double)own.point.batch / result.throughput_per_s;
    l->events = result.events;
    dl_run_result_free(&result);
    return DL_OK;
}

static dl_status do_jobs(search *s, const size_t *layouts, size_t count,
                         dl_status (*run)(void *, int64_t, dl_error *), dl_error *err)
{
    s->jobs = layouts;
    return dl_jobs_run(
        &(dl_jobs){.count = (int64_t)count, .threads = s->config->threads, .user = s, .run = run},
        err);
}

static dl_status simulate(search *s, const size_t *layouts, size_t count, dl_error *err)
{
    const dl_advice_config *config = s->config;
    const dl_status status = do_jobs(s, layouts, count, run_job, err);
    s->ran += count;
    if (config->progress != NULL)
        config->progress(config->user, (int64_t)s->ran, config->max_points);
    return status;
}

/* --- orders ---------------------------------------------------------------------------------- */

typedef struct ordered {
    double value;
    size_t layout;
} ordered;

DL_ORDER(by_value, ordered, DL_COMPARE(a->value, b->value), DL_BY(layout));

/* Returns the indices of the layouts with this fate, sorted by simulated step if they ran, else by
 * the lower bound of the step; sets *count. The caller frees it. */
static size_t *in_order(const search *s, dl_layout_fate fate, size_t *count)
{
    DL_AUTOFREE ordered *all = dl_calloc(s->space.count, sizeof *all, "layouts");
    *count = 0;
    for (size_t i = 0; i < s->space.count; i++) {
        const dl_layout *l = &s->space.layouts[i];
        if (l->fate == fate)
            all[(*count)++] = (ordered){fate == DL_LAYOUT_RAN ? l->step_s : l->least_s, i};
    }
    qsort(all, *count, sizeof *all, by_value);
    size_t *order = dl_calloc(*count, sizeof *order, "layouts");
    for (size_t i = 0; i < *count; i++)
        order[i] = all[i].layout;
    return order;
}

/* Whether two layouts differ at most in the order of the axes, the schedule, the chunks and the
 * sharding among workers, and their steps by at most EQUAL_FRAC: only one of them is kept. */
static bool are_equal(const dl_layout *a, const dl_layout *b)
{
    const dl_point *p = &a->point, *q = &b->point;
    return dl_axes_are_equal(p->size, q->size) &&
           a->values[DL_KEY_MICRO_BATCH] == b->values[DL_KEY_MICRO_BATCH] &&
           a->values[DL_KEY_RECOMPUTE] == b->values[DL_KEY_RECOMPUTE] &&
           fabs(a->step_s - b->step_s) <= EQUAL_FRAC * a->step_s;
}

/* Finds the FINALS fastest layouts that ran, without those equal to a faster one, and sets equal[]
 * to the number of layouts equal to each. Returns the number of layouts found. */
static size_t find_best(const search *s, size_t *layouts, size_t *equal)
{
    size_t ran_count = 0, count = 0;
    DL_AUTOFREE size_t *ran = in_order(s, DL_LAYOUT_RAN, &ran_count);
    for (size_t i = 0; i < ran_count; i++) {
        const dl_layout *l = &s->space.layouts[ran[i]];
        size_t like = 0;
        while (like < count && !are_equal(&s->space.layouts[layouts[like]], l))
            like++;
        if (like < count) {
            equal[like]++;
        } else if (count < FINALS) {
            equal[count] = 0;
            layouts[count++] = ran[i];
        }
    }
    return count;
}

/* Step of the slowest of the FINALS best layouts so far, s; INFINITY if fewer ran. */
static double worst_of_best(const search *s)
{
    size_t best[FINALS], equal[FINALS];
    const size_t count = find_best(s, best, equal);
    return count >= FINALS ? s->space.layouts[best[FINALS - 1]].step_s : (double)INFINITY;
}

/* Sorts the waiting layouts again. */
static void put_in_order(search *s)
{
    free(s->order);
    s->order = in_order(s, DL_LAYOUT_WAITS, &s->order_count);
}

/* --- usual layouts --------------------------------------------------------------------------- */

static bool divides_optimizer(const dl_layout *l)
{
    return l->values[DL_KEY_SHARDED] == NULL || strcmp(l->values[DL_KEY_SHARDED], "optimizer") == 0;
}

static bool is_in_full(const dl_layout *l)
{
    return l->values[DL_KEY_RECOMPUTE] != NULL && strcmp(l->values[DL_KEY_RECOMPUTE], "full") == 0;
}

/* Index in search.stages of a point's sizes of tp and cp. */
static size_t stages_at(const search *s, const dl_point *point)
{
    const size_t gpus = (size_t)dl_gpu_options_count(s->space.scenario->gpu);
    return (size_t)point->tensor * (gpus + 1) + (size_t)point->context;
}

/* Finds, for each size of tp and cp, the number of stages of Megatron's usual layouts: the fewest
 * that fit without full recomputation or, if no layout of any size fits without it, the fewest that
 * fit with it. */
static void find_megatron(search *s)
{
    const int node = dl_machine_gpus_before(&s->space.scenario->gpu->machine, 1);
    bool found = false;
    const dl_point most = {.tensor = node + 1};
    s->stages = dl_calloc(stages_at(s, &most), sizeof *s->stages, "stages");
    for (int full = 0; full < 2 && !found; full++) {
        s->in_full = full > 0;
        for (size_t i = 0; i < s->space.count; i++) {
            const dl_layout *l = &s->space.layouts[i];
            const bool fits = l->fate == DL_LAYOUT_WAITS || l->fate == DL_LAYOUT_RAN;
            int *stages = &s->stages[stages_at(s, &l->point)];
            if (!fits || l->point.shards > 1 || !divides_optimizer(l) ||
                is_in_full(l) != s->in_full || (*stages > 0 && *stages <= l->point.stages))
                continue;
            *stages = l->point.stages;
            found = true;
        }
    }
}

static bool is_usual(const search *s, const dl_layout *l, dl_layout_usual usual)
{
    const dl_point *p = &l->point;
    if (usual == DL_LAYOUT_GIVEN) return dl_layout_is_given(&s->space, l);
    if (usual == DL_LAYOUT_FSDP)
        return p->tensor == 1 && p->stages == 1 && p->workers == 1 &&
               p->shards * p->context == dl_gpu_options_count(s->space.scenario->gpu) &&
               p->shards > 1;
    return p->shards == 1 && p->stages == s->stages[stages_at(s, p)] && divides_optimizer(l) &&
           is_in_full(l) == s->in_full;
}

/* Returns the fastest layout of this reference kind that ran; s->space.count: none. */
static size_t best_usual(const search *s, dl_layout_usual usual)
{
    const size_t none = s->space.count;
    size_t best = none;
    for (size_t i = 0; i < none; i++) {
        const dl_layout *l = &s->space.layouts[i];
        if (l->fate != DL_LAYOUT_RAN || !is_usual(s, l, usual)) continue;
        if (best == none || l->step_s < s->space.layouts[best].step_s) best = i;
    }
    return best;
}

/* --- the search ------------------------------------------------------------------------------ */

/* Refines the lower bounds of steps from the front of the order until the first `count` layouts are
 * refined, or all that may be faster than worst_s. */
static dl_status refine(search *s, size_t count, double worst_s, dl_error *err)
{
    dl_status status = DL_OK;
    while (status == DL_OK) {
        size_t some[REFINED_AT_ONCE], some_count = 0;
        for (size_t i = 0; i < s->order_count && some_count < REFINED_AT_ONCE; i++) {
            const dl_layout *l = &s->space.layouts[s->order[i]];
            if (l->least_s >= worst_s || (some_count == 0 && i >= count)) break;
            if (!l->is_refined) some[some_count++] = s->order[i];
        }
        if (some_count == 0) break;
        status = do_jobs(s, some, some_count, refine_job, err);
        put_in_order(s);
    }
    return status;
}

/* Number of runs that --max-points still allows. */
static size_t left(const search *s)
{
    const size_t most = (size_t)s->config->max_points;
    return most > s->ran ? most - s->ran : 0;
}

/* Simulates the layouts of one reference kind until the fastest is known or max_points are
 * simulated. */
static dl_status search_usual(search *s, dl_layout_usual usual, dl_error *err)
{
    dl_status status = DL_OK;
    while (status == DL_OK) {
        const size_t best = best_usual(s, usual);
        const double best_s =
            best < s->space.count ? s->space.layouts[best].step_s : (double)INFINITY;
        size_t some[AT_ONCE], count = 0;
        for (size_t i = 0; i < s->order_count && count < AT_ONCE && count < left(s); i++) {
            const dl_layout *l = &s->space.layouts[s->order[i]];
            if (l->least_s >= best_s) break;
            if (is_usual(s, l, usual)) some[count++] = s->order[i];
        }
        if (count == 0) break;
        status = simulate(s, some, count, err);
        put_in_order(s);
    }
    return status;
}

/* Simulates the reference layouts, then the other layouts as long as one may be among the best. */
static dl_status search_layouts(search *s, dl_error *err)
{
    dl_status status = DL_OK;
    find_megatron(s);
    put_in_order(s);
    if (s->config->progress != NULL) s->config->progress(s->config->user, 0, s->config->max_points);
    for (int u = 0; u < DL_LAYOUT_USUALS && status == DL_OK; u++)
        status = search_usual(s, (dl_layout_usual)u, err);
    while (status == DL_OK) {
        size_t some[AT_ONCE], count = 0;
        const double worst_s = worst_of_best(s);
        status = refine(s, AT_ONCE, worst_s, err);
        while (count < AT_ONCE && count < s->order_count &&
               s->space.layouts[s->order[count]].least_s < worst_s) {
            some[count] = s->order[count];
            count++;
        }
        if (status != DL_OK || count == 0) break;
        s->advice->stopped = count > left(s);
        if (s->advice->stopped) count = left(s);
        if (count > 0) status = simulate(s, some, count, err);
        put_in_order(s);
        if (s->advice->stopped) break;
    }
    return status;
}

/* Simulates the layouts that fit only without the cache until the fastest of those is known that are
 * faster than all that fit with it. */
static dl_status search_uncached(search *s, dl_error *err)
{
    size_t best[FINALS], equal[FINALS], count = 0;
    if (find_best(s, best, equal) == 0) return DL_OK;
    const dl_layout *advised = &s->space.layouts[best[0]];
    double best_s = advised->step_s * (1 - EQUAL_FRAC);
    DL_AUTOFREE size_t *order = in_order(s, DL_LAYOUT_UNCACHED, &count);
    dl_status status = do_jobs(s, order, count, refine_job, err);
    free(order);
    order = in_order(s, DL_LAYOUT_UNCACHED, &count);
    size_t fastest = s->space.count;
    for (size_t from = 0; from < count && status == DL_OK;) {
        size_t some = 0;
        while (some < AT_ONCE && some < left(s) && from + some < count &&
               s->space.layouts[order[from + some]].least_s < best_s)
            some++;
        if (some == 0) break;
        status = simulate(s, &order[from], some, err);
        for (size_t i = from; i < from + some; i++) {
            dl_layout *l = &s->space.layouts[order[i]];
            if (l->fate != DL_LAYOUT_RAN) continue;
            l->fate = DL_LAYOUT_UNCACHED;
            if (!(l->step_s < best_s)) continue;
            best_s = l->step_s;
            fastest = order[i];
        }
        from += some;
    }
    if (fastest == s->space.count) return status;
    const dl_layout *l = &s->space.layouts[fastest];
    s->advice->uncached.options = dl_layout_options(l);
    s->advice->uncached.throughput_per_s = (double)l->point.batch / l->step_s;
    s->advice->uncached.ratio = advised->step_s / l->step_s;
    s->advice->uncached.lacks_bytes =
        l->memory.needs_bytes + dl_memory_reserve_bytes(&l->memory) - l->memory.has_bytes;
    return status;
}

/* --- with draws ------------------------------------------------------------------------------ */

static size_t value_number(dl_swept_key *key, const char *value)
{
    for (size_t i = 0; i < key->count; i++)
        if (strcmp(key->values[i], value) == 0) return i;
    key->texts = dl_realloc(key->texts, key->count + 1, sizeof *key->texts, "values");
    key->cells = dl_realloc(key->cells, key->count + 1, sizeof *key->cells, "values");
    key->texts[key->count] = dl_strdup(value);
    key->cells[key->count] = dl_strdup(value);
    DL_APPEND(key->values, key->count, "values") = dl_strdup(value);
    return key->count - 1;
}

/* Reads the layout's scenario and costs, and adds them to the study as a variant. */
static dl_status add_variant(search *s, const dl_layout *l, dl_error *err)
{
    dl_study *all = &s->advice->study, one = {0};
    DL_AUTOFREE char *text = dl_layout_text(&s->space, l);
    dl_status status = dl_study_read_text(&one, s->space.study->path, text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(&one, err);
    if (status == DL_OK) {
        dl_variant *variant = &one.variants[0];
        dl_without_apply(s->space.scenario->without, &variant->scenario, &variant->costs);
        variant->scenario.seed = s->space.scenario->seed;
        free(variant->at);
        variant->at = dl_calloc(DL_LAYOUT_KEYS, sizeof *variant->at, "values");
        for (int k = 0; k < DL_LAYOUT_KEYS; k++)
            variant->at[k] =
                l->values[k] != NULL ? value_number(&all->keys[k], l->values[k]) : SIZE_MAX;
        DL_APPEND(all->variants, all->variant_count, "layouts") = *variant;
        all->point_count++;
        one.variant_count = 0;
    }
    dl_study_free(&one);
    return status;
}

/* Sets the steps and draws per layout that the event budget allows, given the events of one run of
 * each layout together. */
static void plan(search *s, double events)
{
    dl_study *all = &s->advice->study;
    bool noisy = false;
    for (size_t v = 0; v < all->variant_count; v++) {
        dl_variant *variant = &all->variants[v];
        dl_scenario *scenario = &variant->scenario;
        const bool noise = dl_run_varies(scenario, &variant->costs);
        const int64_t most = noise ? STEPS_OF_NOISE : STEPS;
        noisy |= noise;
        s->advice->varies |=
            noise || dl_costs_have_errors(&variant->costs) || dl_variant_compute_log(variant) > 0;
        if (scenario->steps > most) scenario->steps = most;
        if (scenario->warmup < 1) scenario->warmup = 1;
    }
    if (noisy) events *= (STEPS_OF_NOISE + 1.0) / (STEPS + 1);
    const double draws = fmax(DRAWS_LEAST, fmin(DRAWS_MOST, DRAWN_EVENTS / events));
    for (size_t v = 0; v < all->variant_count; v++)
        all->variants[v].scenario.replicates = s->advice->varies ? (int64_t)draws : 1;
}

/* Sorts the rows by throughput, together with their variants, options, chosen layouts and indices
 * in usual[]. */
static void sort_rows(dl_layout_advice *advice, size_t *chosen)
{
    dl_study *study = &advice->study;
    for (size_t i = 1; i < advice->sweep.row_count; i++)
        for (size_t j = i; j > 0; j--) {
            dl_row *rows = &advice->sweep.rows[j - 1];
            if (!(rows[1].mean.throughput_per_s > rows[0].mean.throughput_per_s)) break;
            const dl_row row = rows[0];
            rows[0] = rows[1];
            rows[1] = row;
            rows[0].variant = j - 1;
            rows[1].variant = j;
            const dl_variant variant = study->variants[j - 1];
            study->variants[j - 1] = study->variants[j];
            study->variants[j] = variant;
            char *options = advice->options[j - 1];
            advice->options[j - 1] = advice->options[j];
            advice->options[j] = options;
            const size_t layout = chosen[j - 1];
            chosen[j - 1] = chosen[j];
            chosen[j] = layout;
            for (int u = 0; u < DL_LAYOUT_USUALS; u++)
                if (advice->usual[u] == j || advice->usual[u] == j - 1)
                    advice->usual[u] = 2 * j - 1 - advice->usual[u];
        }
}

/* Adds the best layout of each reference kind unless it equals a chosen one; returns the new number
 * of chosen layouts. */
static size_t add_usual(const search *s, size_t *chosen, size_t *equal, size_t count)
{
    for (int u = 0; u < DL_LAYOUT_USUALS; u++) {
        const size_t best = best_usual(s, (dl_layout_usual)u);
        bool known = best == s->space.count;
        for (size_t i = 0; i < count && !known; i++)
            known = are_equal(&s->space.layouts[chosen[i]], &s->space.layouts[best]);
        if (known) continue;
        equal[count] = 0;
        chosen[count++] = best;
    }
    return count;
}

static dl_status draw(search *s, dl_error *err)
{
    dl_layout_advice *advice = s->advice;
    size_t chosen[FINALS + DL_LAYOUT_USUALS], equal[FINALS + DL_LAYOUT_USUALS];
    const size_t count = add_usual(s, chosen, equal, find_best(s, chosen, equal));
    const int gpus = dl_gpu_options_count(s->space.scenario->gpu);
    double events = 0;
    advice->study.path = dl_strdup(s->space.study->path);
    advice->study.keys = dl_calloc(DL_LAYOUT_KEYS, sizeof *advice->study.keys, "keys");
    advice->study.key_count = DL_LAYOUT_KEYS;
    for (int k = 0; k < DL_LAYOUT_KEYS; k++)
        advice->study.keys[k] = (dl_swept_key){.section = dl_strdup(dl_layout_keys[k].section),
                                               .key = dl_strdup(dl_layout_keys[k].key),
                                               .column = dl_strdup(dl_layout_keys[k].key),
                                               .option = -1};
    advice->options = dl_calloc(count, sizeof *advice->options, "options");
    dl_status status = DL_OK;
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        const dl_layout *l = &s->space.layouts[chosen[i]];
        events += (double)l->events + EVENTS_OF_A_GPU * (double)gpus;
        status = add_variant(s, l, err);
        advice->options[i] = dl_layout_options(l);
    }
    if (status != DL_OK) return status;
    plan(s, events);
    const dl_sweep_config config = {.threads = s->config->threads,
                                    .pace = s->config->pace,
                                    .progress = s->config->progress,
                                    .user = s->config->user,
                                    .no_influences = true,
                                    .no_baselines = true};
    status = dl_sweep_run(&advice->sweep, &advice->study, &config, err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < count; i++)
        advice->sweep.rows[i].equal_layouts = (double)equal[i];
    for (int u = 0; u < DL_LAYOUT_USUALS; u++) {
        const size_t best = best_usual(s, (dl_layout_usual)u);
        size_t row = 0;
        while (row < count && (best == s->space.count ||
                               !are_equal(&s->space.layouts[chosen[row]], &s->space.layouts[best])))
            row++;
        advice->usual[u] = row;
    }
    sort_rows(advice, chosen);
    advice->study.text = dl_layout_text(&s->space, &s->space.layouts[chosen[0]]);
    return DL_OK;
}

/* --- the complete search -------------------------------------------------------------------- */

/* Returns the error with the layout nearest to fitting and the changes that would make it fit. */
static dl_status refuse_unfit(const search *s, dl_error *err)
{
    const dl_layout_space *space = &s->space;
    const dl_layout *nearest = NULL;
    for (size_t i = 0; i < space->count; i++) {
        const dl_layout *l = &space->layouts[i];
        if (l->fate != DL_LAYOUT_UNFIT) continue;
        if (nearest == NULL || l->memory.needs_bytes < nearest->memory.needs_bytes) nearest = l;
    }
    if (nearest == NULL)
        return dl_error_set(err, DL_ERR_DATA, "--advise layout: no layout of %d GPUs: %s",
                            dl_gpu_options_count(space->scenario->gpu),
                            s->advice->refused != NULL ? s->advice->refused
                                                       : "they cannot share the batch evenly");
    dl_layout_scenario own;
    const dl_costs *costs = dl_layout_set_up(space, nearest, &own);
    DL_AUTOFREE char *options = dl_layout_options(nearest);
    DL_AUTOFREE char *fits = dl_fits_text(&own.scenario, costs, &own.point, &nearest->memory);
    return dl_error_set(err, DL_ERR_UNFIT,
                        "--advise layout: none of %zu fits; the nearest (%s) needs %s of %s: %s",
                        space->count, options, DL_BYTES_TEXT(nearest->memory.needs_bytes),
                        DL_BYTES_TEXT(nearest->memory.has_bytes), fits);
}

/* If no layout fits with the allocator's cache, uses those that fit without it. */
static void take_uncached(search *s)
{
    for (size_t i = 0; i < s->space.count; i++)
        if (s->space.layouts[i].fate == DL_LAYOUT_WAITS) return;
    for (size_t i = 0; i < s->space.count; i++) {
        dl_layout *l = &s->space.layouts[i];
        if (l->fate != DL_LAYOUT_UNCACHED) continue;
        l->fate = DL_LAYOUT_WAITS;
        s->advice->is_uncached = true;
    }
}

dl_status dl_layouts_advise(dl_layout_advice *advice, const dl_study *study,
                            const dl_advice_config *config, dl_error *err)
{
    search s = {.config = config, .advice = advice};
    dl_layout_space *space = &s.space;
    dl_status status = dl_layout_space_init(space, study, config->samples, err);
    if (status == DL_OK) status = do_jobs(&s, NULL, space->family_count, read_family_job, err);
    for (size_t f = 0; f < space->family_count && advice->refused == NULL; f++)
        if (space->families[f].why != NULL) advice->refused = dl_strdup(space->families[f].why);
    if (status == DL_OK) status = do_jobs(&s, NULL, space->count, look_job, err);
    if (status == DL_OK) {
        take_uncached(&s);
        put_in_order(&s);
        status = s.order_count > 0 ? search_layouts(&s, err) : refuse_unfit(&s, err);
    }
    if (status == DL_OK && !advice->stopped) status = search_uncached(&s, err);
    if (status == DL_OK) status = draw(&s, err);
    advice->count = space->count;
    for (size_t i = 0; i < space->count; i++) {
        advice->counts[space->layouts[i].fate]++;
        advice->given_count += dl_layout_is_given(space, &space->layouts[i]);
    }
    advice->given = space->given;
    space->given = NULL;
    free(s.order);
    free(s.stages);
    dl_layout_space_free(space);
    return status;
}

void dl_layout_advice_free(dl_layout_advice *advice)
{
    for (size_t i = 0; i < advice->study.variant_count; i++)
        free(advice->options[i]);
    free(advice->options);
    dl_sweep_free(&advice->sweep);
    dl_study_free(&advice->study);
    free(advice->uncached.options);
    free(advice->refused);
    free(advice->given);
    *advice = (dl_layout_advice){0};
}
