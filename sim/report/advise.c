#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "sim/fits.h"
#include "sim/report/advise_internal.h"
#include "sim/scenario/command.h"

#define FINAL_STEPS 200
#define FINAL_DRAWS 40
#define FINAL_DRAWS_LEAST 10
#define FINAL_EVENTS 60000000 /* limit on the events of all draws of the final points */
#define COARSE_EVENTS 400000000
#define BEAM 3
#define ROUNDS 8
#define BEYOND_GAIN 1.02
#define WORKERS_NEAR 2 /* numbers of workers tried in a round on each side of a point */

const char *const dl_goal_names[DL_GOALS + 1] = {"throughput", "cost", "deadline", NULL};

/* --- batches of points ------------------------------------------------------------------------ */

/* Indices of points to simulate. */
typedef struct batch {
    size_t *points;
    size_t count;
} batch;

static void want(dl_advice_search *s, batch *b, const size_t *at)
{
    dl_advice *advice = s->advice;
    const size_t before = advice->point_count;
    const size_t number = dl_advice_add_point(s, at);
    dl_advised *point = &advice->points[number];
    if (number < before) return;
    if (s->searched + b->count >= (size_t)advice->config.max_points) {
        advice->stopped = DL_STOPPED_BY_POINTS;
    } else if (s->events > COARSE_EVENTS) {
        advice->stopped = DL_STOPPED_BY_TIME;
    }
    if (advice->stopped != DL_STOPPED_NOT) {
        dl_advised_free(&advice->points[--advice->point_count]);
        return;
    }
    if (dl_advice_batch(s, point->at) > advice->config.max_batch ||
        dl_advice_batch(s, point->at) == 0) {
        point->out = DL_OUT_BATCH;
        return;
    }
    DL_APPEND(b->points, b->count, "points") = number;
}

static dl_status run_batch(dl_advice_search *s, batch *b, dl_error *err)
{
    const dl_status status = dl_advice_simulate(s, b->points, b->count, false, err);
    free(b->points);
    *b = (batch){0};
    return status;
}

/* --- searching -------------------------------------------------------------------------------- */

static size_t *copy_of(const dl_advice *advice, const size_t *at)
{
    size_t *copy = dl_calloc(advice->axis_count, sizeof *copy, "settings");
    memcpy(copy, at, advice->axis_count * sizeof *copy);
    return copy;
}

/* Simulates every number of workers in every mode, with all values that the scenario lists for the
 * other keys. */
static dl_status search_coarsely(dl_advice_search *s, dl_error *err)
{
    const dl_advice *advice = s->advice;
    size_t *at = dl_calloc(advice->axis_count, sizeof *at, "settings"), rest = 1;
    batch b = {0};
    for (size_t a = FIXED; a < advice->axis_count; a++)
        rest *= advice->axes[a].count;
    for (size_t r = 0; r < rest; r++) {
        for (size_t w = 0; w < advice->axes[WORKERS].count; w++) {
            for (size_t m = 0; m < advice->axes[MODE].count; m++) {
                size_t number = r;
                for (size_t a = 0; a < advice->axis_count; a++) {
                    at[a] = advice->axes[a].start;
                    if (a < FIXED) continue;
                    at[a] = number % advice->axes[a].count;
                    number /= advice->axes[a].count;
                }
                at[WORKERS] = w;
                at[MODE] = m;
                want(s, &b, at);
            }
        }
    }
    free(at);
    return run_batch(s, &b, err);
}

static bool lacks_memory(const dl_advised *point)
{
    return point->out == DL_OUT_MEMORY || point->out == DL_OUT_RESERVE;
}

/* Sort key of a point: the score; for a point beyond a limit, the throughput or the fraction of the
 * needed memory, with the allocator's reserve, that the GPU has. */
static double worth(const dl_advised *point)
{
    const dl_gpu_memory *memory = &point->row.memory;
    switch (point->out) {
    case DL_OUT_EFFICIENCY:
    case DL_OUT_DEADLINE:
    case DL_OUT_BUDGET: return point->row.mean.throughput_per_s;
    case DL_OUT_MEMORY:
    case DL_OUT_RESERVE:
        return memory->has_bytes / (memory->needs_bytes + dl_memory_reserve_bytes(memory));
    default: return point->score;
    }
}

/* Simulates the points that lack memory again with full recomputation, if that saves memory and the
 * scenario does not choose it, and with most of the state divided. The climb then tries the kinds
 * that recompute or divide less. */
static dl_status search_recomputed(dl_advice_search *s, dl_error *err)
{
    dl_advice *advice = s->advice;
    const size_t count = advice->point_count;
    batch b = {0};
    bool lacks = false;
    for (size_t p = 0; p < count; p++)
        lacks |= lacks_memory(&advice->points[p]);
    if (!lacks || !dl_advice_add_recomputed(s)) return DL_OK;
    for (size_t p = 0; p < count; p++) {
        if (!lacks_memory(&advice->points[p])) continue;
        DL_AUTOFREE size_t *at = copy_of(advice, advice->points[p].at);
        at[RECOMPUTE] = advice->axes[RECOMPUTE].count - 1;
        want(s, &b, at);
        if (advice->axes[SHARDED].count > 0) at[SHARDED] = advice->axes[SHARDED].count - 1;
        want(s, &b, at);
    }
    return run_batch(s, &b, err);
}

/* Whether the point is within the limits or, if `relaxed`, exceeds only a limit that other settings
 * may meet. */
static bool counts(const dl_advised *point, bool relaxed)
{
    const bool near = point->out == DL_OUT_EFFICIENCY || point->out == DL_OUT_DEADLINE ||
                      point->out == DL_OUT_BUDGET || lacks_memory(point);
    return relaxed ? near && isfinite(worth(point))
                   : point->out == DL_OUT_NOT && isfinite(point->score);
}

/* Adds each change of one setting of the point, and of overlap and buckets together, to the
 * batch. The number of workers changes by at most WORKERS_NEAR values if the point is within the
 * limits. */
static void want_neighbours(dl_advice_search *s, batch *b, size_t number)
{
    const dl_advice *advice = s->advice;
    const bool within = advice->points[number].out == DL_OUT_NOT;
    DL_AUTOFREE size_t *at = copy_of(advice, advice->points[number].at);
    for (size_t a = 0; a < advice->axis_count; a++) {
        const size_t own = at[a];
        if (own >= advice->axes[a].count) continue;
        for (size_t v = 0; v < advice->axes[a].count; v++) {
            const size_t far = v > own ? v - own : own - v;
            if (v == own || (a == WORKERS && far > WORKERS_NEAR && within)) continue;
            at[a] = v;
            want(s, b, at);
            for (size_t k = 0; a == OVERLAP && k < advice->axes[BUCKET].count; k++) {
                const size_t bucket = at[BUCKET];
                at[BUCKET] = k;
                want(s, b, at);
                at[BUCKET] = bucket;
            }
        }
        at[a] = own;
    }
}

enum { FIND_ANY = 0, FIND_FINAL = 1, FIND_RELAXED = 2, FIND_ALTERNATIVES = 4, FIND_USUAL = 8 };

/* Whether two points have the same mode and machine and, unless FIND_ALTERNATIVES is set, the same
 * number of workers. */
static bool same_choice(const dl_advice *advice, size_t a, size_t b, unsigned how)
{
    const size_t *x = advice->points[a].at, *y = advice->points[b].at;
    return (how & FIND_ALTERNATIVES || x[WORKERS] == y[WORKERS]) && x[MODE] == y[MODE] &&
           dl_advice_same_rest(advice, a, b);
}

/* Writes the best points, one per choice, to best[most] in descending order; returns their
 * number. */
static size_t find_best(const dl_advice *advice, size_t *best, size_t most, unsigned how)
{
    size_t count = 0;
    for (size_t p = 0; p < advice->point_count; p++) {
        const dl_advised *point = &advice->points[p];
        if (!counts(point, how & FIND_RELAXED)) continue;
        if (how & FIND_FINAL && !point->is_final) continue;
        if (how & FIND_USUAL && !dl_advice_is_usual(point)) continue;
        size_t same = 0;
        while (same < count && !same_choice(advice, best[same], p, how))
            same++;
        if (same < count && worth(&advice->points[best[same]]) >= worth(point)) continue;
        if (same < count) { /* a better point of the same choice replaces the listed one */
            memmove(&best[same], &best[same + 1], (count - same - 1) * sizeof *best);
            count--;
        }
        size_t place = count;
        while (place > 0 && worth(&advice->points[best[place - 1]]) < worth(point))
            place--;
        if (place == most) continue;
        const size_t moved = (count < most ? count : most - 1) - place;
        memmove(&best[place + 1], &best[place], moved * sizeof *best);
        best[place] = p;
        if (count < most) count++;
    }
    return count;
}

/* Lists the best point of each mode and machine and, as far as there is room, the best ones with
 * other numbers of workers, in descending order. */
static void list_best(dl_advice *advice, unsigned how)
{
    size_t others[2 * DL_ADVICE_BEST], *best = advice->best;
    const size_t count = find_best(advice, others, 2 * DL_ADVICE_BEST, how);
    advice->best_count = find_best(advice, best, DL_ADVICE_BEST, how | FIND_ALTERNATIVES);
    for (size_t i = 0; i < count && advice->best_count < DL_ADVICE_BEST; i++) {
        size_t place = 0;
        while (place < advice->best_count && best[place] != others[i])
            place++;
        if (place < advice->best_count) continue;
        for (; place > 0 &&
               worth(&advice->points[best[place - 1]]) < worth(&advice->points[others[i]]);
             place--)
            best[place] = best[place - 1];
        best[place] = others[i];
        advice->best_count++;
    }
}

/* Climbs from the best points, from the best ones beyond a limit, and from the best usual one. */
static dl_status climb(dl_advice_search *s, dl_error *err)
{
    dl_status status = DL_OK;
    for (int round = 0; round < ROUNDS && status == DL_OK; round++) {
        size_t best[2 * BEAM + 1];
        size_t count = find_best(s->advice, best, BEAM, FIND_ANY);
        count += find_best(s->advice, best + count, BEAM, FIND_RELAXED);
        count += find_best(s->advice, best + count, 1, FIND_USUAL);
        batch b = {0};
        for (size_t i = 0; i < count; i++)
            want_neighbours(s, &b, best[i]);
        if (b.count == 0) return DL_OK;
        status = run_batch(s, &b, err);
    }
    return status;
}

/* Resets the point's settings one by one to the simplest values that keep nearly all of its score;
 * resets workers and mode too unless keep_choice. */
static dl_status simplify(dl_advice_search *s, size_t *number, bool keep_choice, dl_error *err)
{
    static const int order[] = {RECOMPUTE,  SHARDED,  COMPRESS, LAG,   BUCKET, OVERLAP,
                                ACCUMULATE, INTERVAL, SHARDS,   WHERE, MODE,   WORKERS};
    const size_t changed = DL_LENGTH(order) - (keep_choice ? 2 : 0);
    dl_advice *advice = s->advice;
    const double least = (1 - DL_ADVICE_SIMPLER_FRAC) * advice->points[*number].score;
    dl_status status = DL_OK;
    for (size_t o = 0; o < changed && status == DL_OK; o++) {
        const size_t a = (size_t)order[o];
        for (size_t v = 0; v < advice->points[*number].at[a] && status == DL_OK; v++) {
            if (advice->points[*number].at[a] >= advice->axes[a].count) break;
            DL_AUTOFREE size_t *at = copy_of(advice, advice->points[*number].at);
            batch b = {0};
            at[a] = v;
            want(s, &b, at);
            status = run_batch(s, &b, err);
            const size_t simpler = dl_advice_add_point(s, at);
            if (advice->points[simpler].out != DL_OUT_NOT ||
                !(advice->points[simpler].score >= least)) {
                continue;
            }
            *number = simpler;
            break;
        }
    }
    return status;
}

/* --- final simulation of the best points ------------------------------------------------------ */

static dl_status simulate_finally(dl_advice_search *s, const size_t *points, size_t count,
                                  dl_error *err)
{
    size_t *left = dl_calloc(count, sizeof *left, "points"), left_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!s->advice->points[points[i]].is_final) left[left_count++] = points[i];
    const dl_status status =
        left_count > 0 ? dl_advice_simulate(s, left, left_count, true, err) : DL_OK;
    free(left);
    return status;
}

/* Sets the steps of the final simulation, and the number of draws that the event budget allows,
 * from the events of the searched points. */
static void plan_draws(dl_advice_search *s)
{
    dl_advice *advice = s->advice;
    const dl_scenario *scenario = s->scenario;
    for (size_t v = 0; v < s->study->variant_count; v++) {
        const dl_variant *variant = &s->study->variants[v];
        advice->varies |= dl_run_varies(&variant->scenario, &variant->costs) ||
                          dl_costs_have_errors(&variant->costs) ||
                          dl_variant_compute_log(variant) > 0;
    }
    advice->steps = scenario->steps < FINAL_STEPS ? scenario->steps : FINAL_STEPS;
    double most = 1;
    for (size_t i = 0; i < advice->best_count; i++)
        most = fmax(most, (double)advice->points[advice->best[i]].row.mean.events);
    most *= 2 * (double)advice->steps /
            DL_ADVICE_COARSE_STEPS; /* each draw takes two runs of a point, with the undrawn and
                                     * with drawn costs */
    advice->draws = (int64_t)(FINAL_EVENTS / (3 * DL_ADVICE_BEST * most));
    if (advice->draws > FINAL_DRAWS) advice->draws = FINAL_DRAWS;
    if (advice->draws < FINAL_DRAWS_LEAST) advice->draws = FINAL_DRAWS_LEAST;
    if (!advice->varies) advice->draws = 1;
}

/* Adds the point that has this value on `axis` and the best point's values on the other axes,
 * unless it is the best point itself, is in the batch already, or has too small a batch for its
 * workers. */
static void want_final(dl_advice_search *s, batch *b, size_t axis, size_t value)
{
    dl_advice *advice = s->advice;
    DL_AUTOFREE size_t *at = copy_of(advice, advice->points[advice->best[0]].at);
    at[axis] = value;
    const size_t number = dl_advice_add_point(s, at);
    for (size_t i = 0; i < b->count; i++)
        if (b->points[i] == number) return;
    if (number == advice->best[0]) return;
    if (dl_advice_batch(s, advice->points[number].at) == 0) return;
    DL_APPEND(b->points, b->count, "points") = number;
}

/* Simulates points for comparison with the best one: each of the settings in `simplest` at its
 * simplest value, the next smaller number of workers, and the largest number. */
static dl_status explain_best(dl_advice_search *s, dl_error *err)
{
    static const int simplest[] = {MODE,     WHERE,      INTERVAL, LAG,       OVERLAP, BUCKET,
                                   COMPRESS, ACCUMULATE, SHARDED,  RECOMPUTE, WORKERS};
    dl_advice *advice = s->advice;
    const size_t *at = advice->points[advice->best[0]].at;
    batch simpler = {0}, others = {0};
    for (size_t i = 0; i < DL_LENGTH(simplest); i++) {
        const size_t a = (size_t)simplest[i], own = at[a];
        if (own == 0 || own >= advice->axes[a].count) continue;
        want_final(s, &simpler, a, a == WORKERS ? own - 1 : 0);
    }
    const size_t last = advice->axes[WORKERS].count - 1;
    if (at[WORKERS] != last) want_final(s, &others, WORKERS, last);
    const size_t has_more = others.count;
    dl_status status = simulate_finally(s, simpler.points, simpler.count, err);
    if (status == DL_OK) status = simulate_finally(s, others.points, others.count, err);
    advice->simpler = simpler.points;
    advice->simpler_count = simpler.count;
    advice->more = has_more > 0 ? others.points[0] : SIZE_MAX;
    free(others.points);
    return status;
}

/* Simulates twice the batch, stale gradients, and ten times the local steps, each of which exceeds
 * one limit, and keeps the points that gain. */
static dl_status try_beyond(dl_advice_search *s, dl_error *err)
{
    dl_advice *advice = s->advice;
    dl_advice_config *config = &advice->config;
    batch b = {0};
    const int64_t batch_now = advice->points[advice->best[0]].row.point.batch;
    if (!s->scenario->batch_per_worker && 2 * batch_now > config->max_batch) {
        want_final(s, &b, BATCH, dl_advice_add_number(&advice->axes[BATCH], 2 * batch_now));
    } else if (2 * batch_now > config->max_batch) {
        const int workers = advice->points[advice->best[0]].row.point.workers;
        want_final(s, &b, BATCH,
                   dl_advice_add_number(&advice->axes[BATCH], 2 * batch_now / workers));
    }
    if (advice->points[advice->best[0]].row.point.workers > 1) {
        if (!(config->max_staleness > 0))
            want_final(s, &b, MODE, dl_advice_add_value(&advice->axes[MODE], "async"));
        const size_t interval =
            dl_advice_add_number(&advice->axes[INTERVAL], 10 * config->max_interval);
        const size_t start = advice->axes[INTERVAL].start;
        advice->axes[INTERVAL].start = interval;
        want_final(s, &b, MODE, dl_advice_add_value(&advice->axes[MODE], "average"));
        if (dl_advice_mode(advice, advice->points[advice->best[0]].at)->options &
            1u << DL_SYNC_INTERVAL)
            want_final(s, &b, INTERVAL, interval);
        advice->axes[INTERVAL].start = start;
    }
    const dl_status status = simulate_finally(s, b.points, b.count, err);
    for (size_t i = 0; i < b.count && status == DL_OK; i++) {
        const dl_advised *point = &advice->points[b.points[i]];
        const bool over = point->out == DL_OUT_BATCH || point->out == DL_OUT_STALENESS ||
                          point->out == DL_OUT_INTERVAL;
        if (over && point->score > BEYOND_GAIN * advice->points[advice->best[0]].score)
            DL_APPEND(advice->beyond, advice->beyond_count, "points") = b.points[i];
    }
    free(b.points);
    return status;
}

static dl_status find_gains(const dl_advice_search *s, const dl_advised *best, dl_gains *gains,
                            dl_error *err)
{
    DL_SCOPED(dl_study) study = {0};
    dl_status status =
        dl_study_read_text(&study, s->study->path, best->text, strlen(best->text), err);
    if (status == DL_OK) {
        status = dl_study_read_costs(&study, err);
        study.variants[0].scenario.without = s->scenario->without;
        dl_row row = best->row;
        row.variant = 0;
        if (status == DL_OK) dl_gains_simulate(gains, &study, &row, 0);
    }
    return status;
}

/* --- the complete search --------------------------------------------------------------------- */

static dl_status check_study(const dl_advice_search *s, dl_error *err)
{
    static const struct {
        const char *section, *key;
    } refused[] = {{"machine", "gpus"}, {"machine", "placement"}, {"pipeline", "stages"}};
    static const char *const single[] = {"scenario", "noise"};
    const dl_advice_config *config = &s->advice->config;
    for (size_t i = 0; i < DL_LENGTH(refused); i++) {
        if (dl_ini_find(&s->base, refused[i].section, refused[i].key) == NULL) continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "--advise searches the number of workers from GPU 0 on: not with "
                            "[%s] %s",
                            refused[i].section, refused[i].key);
    }
    const dl_ini_entry *layout = dl_ini_find(&s->base, "machine", "layout");
    int64_t all = 0;
    if (layout != NULL && dl_scenario_layout_gpus(layout->value, &all) != all) {
        return dl_error_set(
            err, DL_ERR_USAGE,
            "--advise searches the number of workers: not with dp in [machine] layout");
    }
    for (size_t k = 0; k < s->study->key_count; k++) {
        const dl_swept_key *key = &s->study->keys[k];
        if (dl_names_find(key->section, single, 2) < 0) continue;
        return dl_error_set(
            err, DL_ERR_USAGE,
            "--advise: [%s] %s has a list, which --advise does not search: give one value",
            key->section, key->key);
    }
    const bool limited = !isnan(config->deadline_h) || !isnan(config->budget_usd);
    if (limited && isnan(config->samples)) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "%s needs the length of the training: --epochs or --samples",
                            isnan(config->deadline_h) ? "--budget" : "--deadline");
    }
    if (config->goal == DL_GOAL_DEADLINE && isnan(config->deadline_h)) {
        return dl_error_set(err, DL_ERR_USAGE, "--for deadline needs --deadline");
    }
    const bool needs_price = config->goal == DL_GOAL_COST || !isnan(config->budget_usd);
    for (size_t v = 0; v < s->study->variant_count && needs_price; v++) {
        const dl_scenario *scenario = &s->study->variants[v].scenario;
        if (scenario->gpu != NULL && !isnan(dl_gpu_options_usd_per_hour(
                                         scenario->gpu, dl_gpu_options_count(scenario->gpu)))) {
            continue;
        }
        return dl_error_set(err, DL_ERR_DATA,
                            "%s: %s has no price: --set machine.price_usd_per_hour=USD gives a "
                            "node's",
                            isnan(config->budget_usd) ? "--for cost" : "--budget",
                            scenario->gpu != NULL ? scenario->gpu->machine.path
                                                  : "a machine without a machine file");
    }
    return DL_OK;
}

/* If no point fits with the allocator's reserve, admits those that fit without it. Returns whether
 * any point was admitted. */
static bool take_uncached(dl_advice *advice)
{
    for (size_t p = 0; p < advice->point_count; p++)
        if (advice->points[p].out == DL_OUT_NOT) return false;
    advice->is_uncached = true;
    bool any = false;
    for (size_t p = 0; p < advice->point_count; p++) {
        dl_advised *point = &advice->points[p];
        if (point->out != DL_OUT_RESERVE) continue;
        point->out = dl_advice_excluded(advice, point);
        any = true;
    }
    return any;
}

static dl_status search_all(dl_advice_search *s, dl_error *err)
{
    dl_advice *advice = s->advice;
    dl_status status = search_coarsely(s, err);
    if (status == DL_OK) status = search_recomputed(s, err);
    if (status == DL_OK) status = climb(s, err);
    if (status == DL_OK && take_uncached(advice)) status = climb(s, err);
    if (status != DL_OK) return status;
    size_t last[DL_ADVICE_BEST + 1], count = 0;
    list_best(advice, FIND_ANY);
    if (advice->best_count == 0) return DL_OK;
    for (size_t i = 0; i < advice->best_count && status == DL_OK; i++) {
        size_t number = advice->best[i];
        if (count > 0 && same_choice(advice, number, last[0], FIND_ANY)) continue;
        last[count] = number;
        status = simplify(s, &last[count++], i > 0, err);
        /* The best point before simplification is a rival if simplification changed its choice. */
        if (i == 0 && !same_choice(advice, number, last[0], FIND_ANY)) last[count++] = number;
    }
    plan_draws(s);
    if (status == DL_OK) status = simulate_finally(s, last, count, err);
    if (status != DL_OK) return status;
    list_best(advice, FIND_FINAL);
    if (advice->best_count == 0) return DL_OK;
    /* Within DL_ADVICE_SIMPLER_FRAC the simpler point stays first. */
    for (size_t i = 1; i < advice->best_count; i++) {
        if (advice->best[i] != last[0] ||
            advice->points[last[0]].score <
                (1 - DL_ADVICE_SIMPLER_FRAC) * advice->points[advice->best[0]].score) {
            continue;
        }
        memmove(&advice->best[1], &advice->best[0], i * sizeof *advice->best);
        advice->best[0] = last[0];
    }
    status = dl_advice_prefer_usual(s, err);
    if (status == DL_OK) status = explain_best(s, err);
    if (status == DL_OK) status = try_beyond(s, err);
    const dl_advised *more =
        advice->more < advice->point_count ? &advice->points[advice->more] : NULL;
    if (status == DL_OK)
        status = find_gains(s, &advice->points[advice->best[0]], &advice->gains, err);
    if (status == DL_OK && more != NULL && more->row.rate_count > 0) {
        status = find_gains(s, more, &advice->more_gains, err);
    }
    return status;
}

/* Returns what would make the nearest point fit, after "; ": the largest batch with which it fits,
 * or, if none does, other settings, with one sample per worker unless a worker has several GPUs.
 * The caller frees the text. */
static char *remedy(const dl_advice_search *s, dl_advised *nearest)
{
    DL_SCOPED(dl_study) study = {.variants = dl_calloc(1, sizeof(dl_variant), "points")};
    char *text = NULL;
    if (dl_advice_read_point(s, nearest, &study.variants[0])) {
        study.variant_count = 1;
        const dl_scenario *scenario = &study.variants[0].scenario;
        const dl_costs *costs = &study.variants[0].costs;
        dl_point point = scenario->points[0];
        const int64_t given = point.batch;
        const int64_t least = point.workers * (int64_t)point.option[DL_SYNC_ACCUMULATE];
        int64_t most = least < given ? dl_largest_fitting(scenario, costs, &point, least) : 0;
        if (most == 0 && !dl_point_is_split(&point)) {
            point.option[DL_SYNC_ACCUMULATE] = 1;
            point.batch = point.workers;
        }
        const dl_gpu_memory memory = dl_run_memory(scenario, costs, &point);
        if (most == 0 && dl_memory_fits(&memory)) most = point.batch;
        DL_AUTOFREE char *others =
            most > 0 ? NULL : dl_fits_remedy(scenario, costs, &point, &memory);
        DL_AUTOFREE char *smaller =
            point.batch < given
                ? dl_format("with a batch of %lld (1 per GPU), ", (long long)point.batch)
                : dl_strdup("");
        text = others != NULL
                   ? dl_format("; %s%s", smaller, others)
                   : dl_format("; there, a batch of %lld (%lld per GPU) is the largest that fits",
                               (long long)most, (long long)(most / point.workers));
    }
    return text != NULL ? text : dl_strdup("");
}

/* Returns the error if nothing fits: the memory that the nearest point lacks, and what fits. */
static dl_status refuse_unfit(const dl_advice_search *s, dl_advised *nearest, dl_error *err)
{
    const dl_point *point = &nearest->row.point;
    const bool alone = point->workers == 1;
    DL_AUTOFREE char *fits = remedy(s, nearest);
    return dl_error_set(err, DL_ERR_UNFIT,
                        "--advise: no point fits; the nearest (%d GPU%s, batch %lld%s%s%s%s) %s%s",
                        point->workers, alone ? "" : "s", (long long)point->batch,
                        alone ? "" : ", ", alone ? "" : dl_point_mode(point),
                        nearest->settings[0] != '\0' ? ", " : "", nearest->settings,
                        nearest->row.error, fits);
}

/* Returns the error if no point could be simulated. */
static dl_status refuse_all(const dl_advice_search *s, dl_error *err)
{
    const dl_advice *advice = s->advice;
    dl_advised *nearest = NULL;
    for (size_t p = 0; p < advice->point_count; p++) {
        dl_advised *point = &advice->points[p];
        if (lacks_memory(point) && (nearest == NULL || worth(point) > worth(nearest)))
            nearest = point;
    }
    if (nearest != NULL) return refuse_unfit(s, nearest, err);
    const char *why = advice->point_count == 0        ? "no points"
                      : advice->points[0].why != NULL ? advice->points[0].why
                                                      : "no batch that the workers can share";
    return dl_error_set(err, DL_ERR_DATA, "--advise: no point can be simulated: %s", why);
}

/* Whether each worker is one GPU. */
static bool has_whole_models(const dl_study *study)
{
    bool whole = study->variants[0].scenario.gpu != NULL;
    for (size_t v = 0; v < study->variant_count; v++)
        for (size_t p = 0; p < study->variants[v].scenario.point_count; p++)
            whole &= dl_point_ranks(&study->variants[v].scenario.points[p]) == 1;
    return whole;
}

dl_status dl_advise(dl_advice *advice, const dl_study *study, const dl_advice_config *config,
                    dl_error *err)
{
    dl_advice made = {.config = *config,
                      .name = dl_strdup(study->variants[0].scenario.name),
                      .path = dl_strdup(study->path),
                      .on_gpus = has_whole_models(study),
                      .by_target = study->variants[0].scenario.target.count > 0,
                      .more = SIZE_MAX};
    dl_advice_search s = {
        .advice = &made, .study = study, .scenario = &study->variants[0].scenario};
    s.text = dl_strdup(study->text);
    dl_status status =
        dl_ini_read_text(&s.given, study->path, study->text, strlen(study->text), err);
    if (status == DL_OK) status = dl_scenario_plain_mode(&s.text, err);
    if (status == DL_OK)
        status = dl_ini_read_text(&s.base, study->path, s.text, strlen(s.text), err);
    if (status == DL_OK) status = check_study(&s, err);
    if (status == DL_OK) {
        dl_advice_make_space(&s);
        status = search_all(&s, err);
    }
    dl_ini_free(&s.base);
    dl_ini_free(&s.given);
    bool ran = false;
    for (size_t p = 0; p < made.point_count; p++)
        ran |= !isnan(made.points[p].row.mean.throughput_per_s);
    if (status == DL_OK && !ran) status = refuse_all(&s, err);
    free(s.text);
    if (status == DL_OK) {
        *advice = made;
    } else {
        dl_advice_free(&made);
    }
    return status;
}

void dl_advice_free(dl_advice *advice)
{
    for (size_t a = 0; a < advice->axis_count; a++) {
        dl_advice_axis *axis = &advice->axes[a];
        for (size_t v = 0; v < axis->count; v++)
            free(axis->values[v]);
        free(axis->values);
        free(axis->section);
        free(axis->key);
    }
    free(advice->axes);
    for (size_t p = 0; p < advice->point_count; p++)
        dl_advised_free(&advice->points[p]);
    free(advice->points);
    free(advice->simpler);
    free(advice->beyond);
    free(advice->name);
    free(advice->path);
    *advice = (dl_advice){0};
}
