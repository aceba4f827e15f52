#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/fits.h"
#include "sim/report/advise_internal.h"
#include "sim/scenario/without.h"
#include "sim/statistics.h"

bool dl_advice_read_point(const dl_advice_search *s, dl_advised *point, dl_variant *variant)
{
    DL_SCOPED(dl_study) study = {0};
    dl_error err = {0};
    free(point->why);
    point->why = NULL;
    dl_status status =
        dl_study_read_text(&study, s->study->path, point->text, strlen(point->text), &err);
    if (status == DL_OK) status = dl_study_read_costs(&study, &err);
    if (status != DL_OK) {
        point->out = DL_OUT_REFUSED;
        point->why = dl_strdup(err.text);
        return false;
    }
    dl_variant *read = &study.variants[0];
    const bool pairs = dl_study_swept(s->study, "workload", "costs") != NULL;
    if (study.point_count != 1 || (pairs && read->scaling.differs)) {
        point->out = DL_OUT_REFUSED;
        point->why = dl_strdup(study.point_count != 1 ? "a list that makes several points of one"
                                                      : "the costs are of another machine's GPU");
        return false;
    }
    dl_without_apply(s->scenario->without, &read->scenario, &read->costs);
    read->scenario.seed = s->scenario->seed;
    point->why = dl_sweep_missing(&read->scenario, &read->costs);
    if (point->why != NULL) {
        point->out = DL_OUT_COSTS;
        return false;
    }
    *variant = *read;
    study.variant_count = 0;
    return true;
}

double dl_advice_score(const dl_advice *advice, const dl_advised *point, double computed_per_s)
{
    const dl_advice_config *config = &advice->config;
    const double per_s = computed_per_s / point->factor;
    const double hours = config->samples / per_s / 3600;
    switch (config->goal) {
    case DL_GOAL_COST: return per_s * 3600 / point->usd_per_hour;
    case DL_GOAL_DEADLINE:
        if (!isnan(point->usd_per_hour)) return 1 / (point->usd_per_hour * hours);
        return 1 / (point->gpus * hours);
    case DL_GOAL_THROUGHPUT:
    case DL_GOALS: break;
    }
    return per_s;
}

bool dl_advice_is_fresh(double staleness, double most)
{
    return staleness < most + 0.005;
}

dl_out dl_advice_excluded(const dl_advice *advice, const dl_advised *point)
{
    const dl_advice_config *config = &advice->config;
    const dl_row *row = &point->row;
    if (row->error != NULL) return DL_OUT_MEMORY;
    if (!advice->is_uncached && dl_memory_fit(&row->memory) == DL_FIT_UNCACHED)
        return DL_OUT_RESERVE;
    if (row->point.batch > config->max_batch) return DL_OUT_BATCH;
    if (!isnan(row->staleness_mean) &&
        !dl_advice_is_fresh(row->staleness_mean, config->max_staleness))
        return DL_OUT_STALENESS;
    if (dl_mode_takes(row->point.mode, DL_SYNC_INTERVAL) &&
        row->point.option[DL_SYNC_INTERVAL] > (double)config->max_interval)
        return DL_OUT_INTERVAL;
    if (config->min_efficiency > 0 && !(row->efficiency >= config->min_efficiency))
        return DL_OUT_EFFICIENCY;
    if (!isnan(config->deadline_h) && !(point->hours <= config->deadline_h)) return DL_OUT_DEADLINE;
    if (!isnan(config->budget_usd) && !(point->usd <= config->budget_usd)) return DL_OUT_BUDGET;
    return DL_OUT_NOT;
}

/* Scores the point by the goal and checks the limits, from its row. */
static void judge(dl_advice_search *s, dl_advised *point, const dl_variant *variant)
{
    const dl_advice *advice = s->advice;
    const dl_advice_config *config = &advice->config;
    const dl_row *row = &point->row;
    const dl_target *target = &variant->scenario.target;
    const double per_s = row->mean.throughput_per_s;
    point->factor = 1;
    if (target->samples > 0)
        point->factor = dl_target_factor_of(
            target, row->point.mode, row->point.option[DL_SYNC_INTERVAL], row->staleness_mean);
    point->gpus = dl_point_gpus(&row->point);
    point->usd_per_hour = variant->scenario.gpu != NULL
                              ? dl_gpu_options_usd_per_hour(variant->scenario.gpu, point->gpus)
                              : (double)NAN;
    point->hours = config->samples * point->factor / per_s / 3600;
    point->usd = point->hours * point->usd_per_hour;
    point->score = dl_advice_score(advice, point, per_s);
    point->deadline_frac = (double)NAN;
    if (!isnan(config->deadline_h) && row->rate_count > 0) {
        size_t met = 0;
        for (size_t r = 0; r < row->rate_count; r++)
            met += config->samples * point->factor / row->rates[r] / 3600 <= config->deadline_h;
        point->deadline_frac = (double)met / (double)row->rate_count;
    }
    point->out = dl_advice_excluded(advice, point);
}

/* Copies the row and takes ownership of its rates and error. Its other arrays stay with *row; the
 * copy's pointers to them are NULL. */
static void take_row(dl_advised *point, dl_row *row)
{
    free(point->row.rates);
    free(point->row.error);
    point->row = *row;
    row->rates = NULL;
    row->error = NULL;
    dl_run_result *mean = &point->row.mean;
    mean->worker_step_s = NULL;
    mean->staleness = NULL;
    mean->worker_stale_sum = NULL;
    mean->worker_stale_count = NULL;
    mean->split = NULL;
    mean->averaging = NULL;
    mean->syncer = NULL;
    mean->rollout = NULL;
    point->row.worker_staleness = NULL;
    point->row.point.gpus = NULL;
}

typedef struct watched {
    const dl_advice_search *s;
    size_t before, now;
} watched;

static void show_points(void *user, int64_t done, int64_t runs)
{
    const watched *w = user;
    const dl_advice_config *config = &w->s->advice->config;
    config->progress(config->user, (int64_t)w->before + done * (int64_t)w->now / runs,
                     config->max_points);
}

dl_status dl_advice_simulate(dl_advice_search *s, const size_t *points, size_t count, bool final,
                             dl_error *err)
{
    dl_advice *advice = s->advice;
    const int64_t steps = final ? advice->steps : DL_ADVICE_COARSE_STEPS;
    dl_study study = {.variants = dl_calloc(count, sizeof(dl_variant), "points")};
    DL_AUTOFREE size_t *of = dl_calloc(count, sizeof *of, "points");
    for (size_t i = 0; i < count; i++) {
        dl_variant variant = {0};
        if (!dl_advice_read_point(s, &advice->points[points[i]], &variant)) continue;
        if (variant.scenario.steps > steps) variant.scenario.steps = steps;
        variant.scenario.replicates = final ? advice->draws : 1;
        of[study.variant_count] = points[i];
        study.variants[study.variant_count++] = variant;
        study.point_count++;
    }
    watched w = {s, s->searched, count};
    const dl_sweep_config config = {
        .threads = advice->config.threads,
        .pace = advice->config.pace,
        .progress = advice->config.progress != NULL ? show_points : NULL,
        .user = &w,
        .no_influences = true,
    };
    dl_sweep sweep = {0};
    dl_status status = study.variant_count > 0 ? dl_sweep_run(&sweep, &study, &config, err) : DL_OK;
    for (size_t r = 0; r < sweep.row_count; r++) {
        dl_advised *point = &advice->points[of[r]];
        dl_row *row = &sweep.rows[r];
        take_row(point, row);
        point->is_final = final;
        judge(s, point, &study.variants[r]);
    }
    s->searched += count;
    s->events += sweep.events;
    if (status != DL_OK && study.variant_count == 1 && err != NULL) {
        dl_advised *point = &advice->points[of[0]];
        point->out = DL_OUT_REFUSED;
        point->why = dl_strdup(err->text);
        status = DL_OK;
    }
    dl_sweep_free(&sweep);
    dl_study_free(&study);
    /* Simulate one by one, so that a point that fails does not lose the results of the others. */
    for (size_t i = 0; status != DL_OK && i < count && count > 1; i++) {
        dl_error one = {0};
        if (dl_advice_simulate(s, &points[i], 1, final, &one) != DL_OK) return status;
        if (i + 1 == count) status = DL_OK;
    }
    return status;
}

dl_advice_pair dl_advice_pair_of(const double *a, const double *b, size_t count, double ratio)
{
    dl_advice_pair pair = {ratio, (double)NAN, (double)NAN, 0, 0, count, false};
    DL_AUTOFREE double *ratios = dl_calloc(count, sizeof *ratios, "ratios");
    for (size_t r = 0; r < count; r++) {
        ratios[r] = log(a[r] / b[r]);
        pair.wins += ratios[r] > 1e-9;
        pair.ties += fabs(ratios[r]) <= 1e-9;
    }
    const size_t losses = count - pair.wins - pair.ties;
    pair.differ = count > 0 && ((double)pair.wins >= 0.975 * (double)count ||
                                (double)losses >= 0.975 * (double)count);
    if (count > 1) { /* with few draws the interval spans almost the smallest to the largest
                      * ratio */
        dl_sort_doubles(ratios, count);
        pair.low = exp(dl_quantile(ratios, count, 0.025));
        pair.high = exp(dl_quantile(ratios, count, 0.975));
    }
    return pair;
}

dl_advice_pair dl_advice_compare(const dl_advice *advice, const dl_advised *a, const dl_advised *b)
{
    const size_t count =
        a->row.rate_count < b->row.rate_count ? a->row.rate_count : b->row.rate_count;
    DL_AUTOFREE double *scores = dl_calloc(2 * count, sizeof *scores, "scores");
    for (size_t r = 0; r < count; r++) {
        scores[r] = dl_advice_score(advice, a, a->row.rates[r]);
        scores[count + r] = dl_advice_score(advice, b, b->row.rates[r]);
    }
    return dl_advice_pair_of(scores, scores + count, count, a->score / b->score);
}
