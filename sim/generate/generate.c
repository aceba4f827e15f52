#include "sim/generate/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/units.h"
#include "sim/run_internal.h"

/* Steps of the trainer that are simulated for its seconds, and before them. */
#define TRAIN_STEPS 4
#define TRAIN_WARMUP 2

/* A step of the trainer with `times` as many micro-batches. */
static dl_status step_s(const dl_run_config *config, const dl_costs *costs, int gpus, int times,
                        double *seconds, dl_error *err)
{
    dl_scenario scenario = *config->scenario;
    dl_point point = *config->point;
    scenario.generators = NULL;
    scenario.steps = TRAIN_STEPS;
    scenario.warmup = TRAIN_WARMUP;
    point.workers = gpus / dl_point_ranks(config->point);
    point.batch = times * point.batch / config->point->workers * point.workers;
    if (dl_point_is_split(&point)) {
        point.micro_batches *= times;
    } else {
        point.option[DL_SYNC_ACCUMULATE] *= times;
    }
    dl_run_config inner = *config;
    inner.scenario = &scenario;
    inner.costs = costs;
    inner.point = &point;
    inner.draw = 0; /* these costs are drawn */
    inner.observer = NULL;
    dl_run_result result = {0};
    const dl_status status = dl_run(&inner, &result, err);
    if (status == DL_OK) *seconds = result.step_mean_s;
    dl_run_result_free(&result);
    return status;
}

dl_status dl_generate_trainer(const dl_run_config *config, const dl_costs *costs, int gpus,
                              double *fixed_s, double *token_s, dl_error *err)
{
    const dl_generators *g = config->scenario->generators;
    if (!isnan(g->train_token_gpu_s)) {
        *fixed_s = g->train_fixed_s;
        *token_s = g->train_token_gpu_s / gpus;
        return DL_OK;
    }
    double once_s = 0, twice_s = 0;
    dl_status status = step_s(config, costs, gpus, 1, &once_s, err);
    if (status == DL_OK) status = step_s(config, costs, gpus, 2, &twice_s, err);
    if (status != DL_OK) return status;
    const double workers = gpus / dl_point_ranks(config->point);
    const double samples = (double)config->point->batch / config->point->workers * workers;
    *token_s = (twice_s - once_s) / (samples * g->sample_tokens);
    *fixed_s = g->train_fixed_s + fmax(0, 2 * once_s - twice_s);
    return DL_OK;
}

static void take_updates(dl_run_result *result, const dl_rollout_ages *ages, size_t count)
{
    double *sorted = dl_calloc(count, sizeof *sorted, "updates");
    memcpy(sorted, ages->update_s, count * sizeof *sorted);
    dl_run_spread_of_steps(sorted, count, result);
    free(sorted);
}

static void take_ages(dl_run_result *result, dl_rollout_ages *ages)
{
    const size_t workers = (size_t)result->workers;
    result->staleness = ages->counts;
    result->staleness_bins = ages->bins;
    result->staleness_rows = 1;
    ages->counts = NULL;
    result->worker_stale_sum = dl_calloc(workers, sizeof(int64_t), "ages");
    result->worker_stale_count = dl_calloc(workers, sizeof(int64_t), "ages");
    int64_t sum = 0, count = 0;
    for (int age = 0; age < result->staleness_bins; age++) {
        sum += age * result->staleness[age];
        count += result->staleness[age];
    }
    for (size_t w = 0; w < workers; w++) { /* they train together */
        result->worker_stale_sum[w] = sum;
        result->worker_stale_count[w] = count;
    }
}

/* The figures that runs of all kinds have: a step is an update, the workers are the trainer's. */
static void take(dl_run_result *result, const dl_run_config *config, const dl_rollout_result *r,
                 dl_rollout_ages *ages)
{
    const int workers = config->point->workers;
    const double nan = (double)NAN, *frac = r->trainer_frac;
    *result = (dl_run_result){
        .workers = workers,
        .samples = r->samples,
        .span_s = r->span_s,
        .throughput_per_s = r->samples / r->span_s,
        .applied_frac = r->tokens.used / (r->tokens.used + r->tokens.discarded),
        .updates = config->scenario->steps,
        .updates_per_s = 1 / r->update_s,
        .step_mean_s = r->update_s,
        .goodput_frac = nan,
        .away_frac = nan,
        .drift_steps_mean = nan,
        .drift_steps_max = nan,
        .events = (int64_t)r->events,
    };
    result->part_frac[DL_PART_COMPUTE] = frac[DL_ROLLOUT_WORKING] + frac[DL_ROLLOUT_VALIDATING];
    result->part_frac[DL_PART_COMMUNICATION] = frac[DL_ROLLOUT_COPYING];
    result->part_frac[DL_PART_WAITING] = frac[DL_ROLLOUT_WAITING] + frac[DL_ROLLOUT_DRAINING];
    result->worker_step_s = dl_calloc((size_t)workers, sizeof(double), "mean steps");
    for (int w = 0; w < workers; w++)
        result->worker_step_s[w] = r->update_s;
    take_updates(result, ages, (size_t)config->scenario->steps);
    take_ages(result, ages);
    result->rollout = dl_calloc(1, sizeof *result->rollout, "figures of generators");
    *result->rollout = *r;
}

dl_status dl_generate_run(const dl_run_config *config, const dl_costs *costs,
                          const dl_rollout_observer *observer, dl_run_result *result, dl_error *err)
{
    const dl_scenario *scenario = config->scenario;
    const dl_generators *g = scenario->generators;
    const int gpus = config->on_policy ? g->gpus : dl_generators_trainer_gpus(g);
    double fixed_s = 0, token_s = 0;
    dl_status status = dl_generate_trainer(config, costs, gpus, &fixed_s, &token_s, err);
    if (status != DL_OK) return status;
    dl_rollout_config rollout = dl_generators_rollout(g, config->on_policy, fixed_s, token_s);
    rollout.updates = scenario->steps;
    rollout.warmup = scenario->warmup;
    rollout.seed = (uint64_t)scenario->seed;
    rollout.replicate = config->replicate;
    dl_rollout_result r;
    dl_rollout_ages ages;
    if (!dl_rollout_run(&rollout, observer, &r, &ages)) {
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "[generators]: the trainer waits for groups that may not begin: "
                               "bound, in_flight or buffer is too small");
    }
    take(result, config, &r, &ages);
    free(ages.update_s);
    return DL_OK;
}
