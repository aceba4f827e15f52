/* The usual choice among the best points: all-reduced gradients, the default of frameworks, or one
 * GPU alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/report/advise_internal.h"
#include "sim/scenario/without.h"

bool dl_advice_is_usual(const dl_advised *point)
{
    const dl_mode *mode = point->row.point.mode;
    return mode->exchange == DL_EXCHANGES_NOTHING || dl_mode_reduces_gradients(mode);
}

/* --- comparison on equal terms ---------------------------------------------------------------- */

static void take_no_time(dl_costs *costs, const char *phase)
{
    for (size_t i = 0; i < costs->op_count; i++)
        if (dl_costs_is_phase(costs->ops[i].name, phase))
            costs->ops[i].fixed_ns.value = costs->ops[i].per_sample_ns.value = 0;
}

/* Makes a server and all-reduce comparable by removing costs known for only one of them.
 * Collectives do not slow compute, as the slowdown by a server's copies is unknown. Updates take no
 * time, as a server makes them at its memory's rate, nor do copies to buckets, which a server does
 * not need. */
static void set_terms(dl_variant *variant)
{
    dl_error ignored = {0};
    unsigned overlap = 0;
    if (dl_without_parse("overlap", &overlap, &ignored) == DL_OK)
        dl_without_apply(variant->scenario.without | overlap, &variant->scenario, &variant->costs);
    take_no_time(&variant->costs, "update");
    take_no_time(&variant->costs, "bucket");
}

/* Score of a short run of the point on equal terms (set_terms); NaN if it fails. */
static double score_of(const dl_advice_search *s, dl_advised *point)
{
    DL_AUTO(dl_study_free)
    dl_study study = {.variants = dl_calloc(1, sizeof(dl_variant), "points")};
    dl_variant *variant = &study.variants[0];
    double score = (double)NAN;
    if (dl_advice_read_point(s, point, variant)) {
        study.variant_count = 1;
        set_terms(variant);
        if (variant->scenario.steps > DL_ADVICE_COARSE_STEPS)
            variant->scenario.steps = DL_ADVICE_COARSE_STEPS;
        const dl_run_config config = {.scenario = &variant->scenario,
                                      .costs = &variant->costs,
                                      .point = &variant->scenario.points[0],
                                      .by_spread = true};
        dl_run_result result = {0};
        dl_error ignored = {0};
        if (dl_run(&config, &result, &ignored) == DL_OK) {
            score = dl_advice_score(s->advice, point, result.throughput_per_s);
            dl_run_result_free(&result);
        }
    }
    return score;
}

/* Finds the all-reduce points that otherwise differ from point `number` only in their buckets, and
 * simulates the new ones. The caller frees *found, also after an error. Invalidates pointers to
 * points. */
static dl_status find_allreduces(dl_advice_search *s, size_t number, size_t **found, size_t *count,
                                 dl_error *err)
{
    dl_advice *advice = s->advice;
    DL_AUTOFREE size_t *at = dl_calloc(advice->axis_count, sizeof *at, "settings");
    DL_AUTOFREE size_t *new = NULL;
    size_t new_count = 0;
    memcpy(at, advice->points[number].at, advice->axis_count * sizeof *at);
    at[MODE] = dl_advice_add_value(&advice->axes[MODE], "allreduce");
    for (at[BUCKET] = 0; at[BUCKET] < advice->axes[BUCKET].count; at[BUCKET]++) {
        const size_t before = advice->point_count, point = dl_advice_add_point(s, at);
        DL_APPEND(*found, *count, "points") = point;
        if (point == before) DL_APPEND(new, new_count, "points") = point;
    }
    return dl_advice_simulate(s, new, new_count, false, err);
}

/* Sets on_terms of a server's point from the best of these all-reduce points: those with the
 * point's settings and any buckets, and those among the best points with the same number of workers
 * and the same machine. */
static dl_status set_on_terms(dl_advice_search *s, size_t number, dl_error *err)
{
    dl_advice *advice = s->advice;
    size_t *allreduces = NULL, count = 0;
    const dl_status status = find_allreduces(s, number, &allreduces, &count, err);
    dl_advised *server = &advice->points[number];
    const double own = score_of(s, server);
    for (size_t i = 0; i < advice->best_count && status == DL_OK; i++) {
        const dl_advised *other = &advice->points[advice->best[i]];
        if (dl_mode_reduces_gradients(other->row.point.mode) &&
            other->row.point.workers == server->row.point.workers &&
            dl_advice_same_rest(advice, advice->best[i], number))
            DL_APPEND(allreduces, count, "points") = advice->best[i];
    }
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_advised *other = &advice->points[allreduces[i]];
        if (other->out != DL_OUT_NOT) continue;
        server->on_terms = fmax(server->on_terms, score_of(s, other) / own);
    }
    free(allreduces);
    return status;
}

/* --- the choice ------------------------------------------------------------------------------- */

/* Sets *apart to whether the point leads `usual` with certainty: by at least
 * DL_ADVICE_SIMPLER_FRAC, without draws and in 97.5 % of the draws, and if it has a server, also on
 * equal terms with all-reduce. */
static dl_status tell_apart(dl_advice_search *s, size_t number, size_t usual, bool *apart,
                            dl_error *err)
{
    const double keeps = 1 - DL_ADVICE_SIMPLER_FRAC;
    dl_advice *advice = s->advice;
    const dl_advised *point = &advice->points[number], *other = &advice->points[usual];
    const dl_advice_pair pair = dl_advice_compare(advice, point, other);
    *apart = pair.ratio * keeps > 1 && !(pair.low * keeps <= 1);
    if (!*apart || !dl_advice_is_served(advice, point)) return DL_OK;
    const dl_status status = set_on_terms(s, number, err);
    *apart = !(advice->points[number].on_terms >= keeps);
    return status;
}

dl_status dl_advice_prefer_usual(dl_advice_search *s, dl_error *err)
{
    dl_advice *advice = s->advice;
    size_t place = advice->best_count;
    for (size_t i = 0; i < advice->best_count; i++) {
        const dl_advised *point = &advice->points[advice->best[i]];
        if (!dl_advice_is_usual(point) ||
            !dl_advice_same_rest(advice, advice->best[i], advice->best[0]))
            continue;
        if (place == advice->best_count || point->score > advice->points[advice->best[place]].score)
            place = i;
    }
    if (place == advice->best_count || dl_advice_is_usual(&advice->points[advice->best[0]]))
        return DL_OK;
    const size_t usual = advice->best[place];
    for (size_t i = 0; i < advice->best_count; i++) {
        bool apart = false;
        if (!(advice->points[advice->best[i]].score > advice->points[usual].score)) continue;
        const dl_status status = tell_apart(s, advice->best[i], usual, &apart, err);
        if (status != DL_OK || apart) return status;
    }
    memmove(&advice->best[1], &advice->best[0], place * sizeof *advice->best);
    advice->best[0] = usual;
    return DL_OK;
}
