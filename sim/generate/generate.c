#include "sim/generate/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/run_internal.h"
#include "sim/scenario/study.h"
#include "sim/workloads/architecture.h"

/* Simulated steps of the trainer, and steps before them; largest number of micro-batches in the
 * shorter of the two simulated steps: each additional one takes equally long. */
#define TRAIN_STEPS 2
#define TRAIN_WARMUP 1
#define TRAIN_PASSES 4

/* Simulates a step of the trainer with `passes` micro-batches; *seconds: its time. */
static dl_status step_s(const dl_run_config *config, const dl_costs *costs, int gpus,
                        int64_t passes, double *seconds, dl_error *err)
{
    dl_scenario scenario = *config->scenario;
    dl_point point = *config->point;
    scenario.generators = NULL;
    scenario.steps = TRAIN_STEPS;
    scenario.warmup = TRAIN_WARMUP;
    point.workers = gpus / dl_point_ranks(config->point);
    point.batch =
        point.batch / config->point->workers / dl_point_passes(&point) * passes * point.workers;
    if (point.stages > 1) {
        point.micro_batches = (int)passes;
    } else {
        point.option[DL_SYNC_ACCUMULATE] = (double)passes;
    }
    dl_run_config inner = *config;
    inner.scenario = &scenario;
    inner.costs = costs;
    inner.point = &point;
    inner.draw = 0; /* the costs are already drawn */
    inner.observer = NULL;
    DL_SCOPED(dl_run_result) result = {0};
    const dl_status status = dl_run(&inner, &result, err);
    if (status == DL_OK) *seconds = result.step_mean_s;
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
    if (costs->trainer.token_gpu_ns.known) {
        *fixed_s = g->train_fixed_s + dl_ns_to_s(costs->trainer.fixed_ns.value);
        *token_s = dl_ns_to_s(costs->trainer.token_gpu_ns.value) / gpus;
        return DL_OK;
    }
    const int64_t passes = dl_point_passes(config->point);
    const int64_t few = passes < TRAIN_PASSES ? passes : TRAIN_PASSES;
    double once_s = 0, twice_s = 0;
    dl_status status = step_s(config, costs, gpus, few, &once_s, err);
    if (status == DL_OK) status = step_s(config, costs, gpus, 2 * few, &twice_s, err);
    if (status != DL_OK) return status;
    const double workers = gpus / dl_point_ranks(config->point);
    const double samples = (double)config->point->batch / config->point->workers * workers *
                           (double)few / (double)passes;
    *token_s = (twice_s - once_s) / (samples * g->sample_tokens);
    *fixed_s = g->train_fixed_s + fmax(0, 2 * once_s - twice_s);
    return DL_OK;
}

/* --- a measured update on policy -------------------------------------------------------------- */

#define GENERATION_MAX 0.9 /* largest fraction of a measured update, if not given */

static void set_rates(dl_rollout_config *rollout, const dl_generators *g, const dl_costs *costs)
{
    if (!dl_generators_need_rates(g)) return;
    rollout->decode.a_s = dl_ns_to_s(costs->generator.token_ns.value);
    rollout->decode.b_s = dl_ns_to_s(costs->generator.request_token_ns.value);
}

/* Splits the measured update into generation, whose time gives the scale of the replica's curve,
 * and the trainer's part. */
static dl_status split_on_policy(const dl_run_config *config, const dl_costs *costs, int gpus,
                                 double *fixed_s, double *token_s, double *log_scale, dl_error *err)
{
    const dl_generators *g = config->scenario->generators;
    dl_generators measured = *g;
    measured.gpus = g->on_policy_gpus;
    measured.length_mean = g->on_policy_length;
    measured.decode_log = measured.switch_s = 0;
    measured.validation_every = 0;
    dl_rollout_config rollout = dl_generators_rollout(&measured, true, 0, 0);
    set_rates(&rollout, g, costs);
    rollout.updates = config->scenario->steps;
    rollout.seed = (uint64_t)config->scenario->seed;
    rollout.replicate = config->replicate;
    dl_rollout_result r;
    dl_rollout_ages ages;
    if (!dl_rollout_run(&rollout, NULL, &r, &ages))
        return dl_error_set_at(err, DL_ERR_DATA, config->scenario->path, 0,
                               "[generators] on_policy_s: no update can be made");
    free(ages.counts);
    free(ages.update_s);
    const double update_s = g->on_policy_s - g->switch_s / g->copy_every;
    const double generation_s = isnan(g->on_policy_generation_frac)
                                    ? fmin(r.update_s, GENERATION_MAX * update_s)
                                    : g->on_policy_generation_frac * update_s;
    const double rest_s = exp(config->compute_log) * (update_s - generation_s);
    const double frac =
        isnan(g->train_fixed_frac) ? fmin(1, costs->trainer.fixed_frac.value) : g->train_fixed_frac;
    const double again = g->log_probs == DL_LOG_PROBS_NEVER ? 1 : 1 + g->log_prob_frac;
    *log_scale = log(generation_s / r.update_s);
    *fixed_s = g->train_fixed_s + frac * rest_s;
    *token_s = (1 - frac) * rest_s * g->on_policy_gpus / (r.batch_tokens * again * gpus);
    return DL_OK;
}

/* --- an unmeasured generator ------------------------------------------------------------------ */

/* Fractions of the memory's rate for reads of weights and caches, and of peak arithmetic: assumed,
 * as no measurement is known; hence the wide interval. */
#define MEMORY_FRAC 0.6
#define FLOP_FRAC 0.5
#define ESTIMATE_FACTOR 2.0 /* in either direction; covers launches, imbalance, scheduling */
#define CACHE_FRAC 0.9      /* fraction of the memory for weights and cache (vLLM's default) */
#define NUMBER_BYTES 2.0    /* bf16 */
#define CAUSE_GENERATOR 1000u
#define CAUSE_TRAINER 1001u
#define FIXED_FRAC 0.5
#define FIXED_FACTOR 2.0

void dl_generate_assume(const dl_generators *generators, dl_costs *costs, dl_assumptions *made)
{
    if (!dl_generators_need_split(generators) || costs->trainer.fixed_frac.known) return;
    dl_costs_assume_value(
        costs, "trainer", "fixed_frac", FIXED_FRAC, FIXED_FACTOR, CAUSE_TRAINER, DL_NEED_SPLIT,
        "half of an update's time without generation: between perfect scaling and "
        "none, both of which are published",
        "seconds of an update on two numbers of GPUs: dlcal generators", made);
}

/* A replica of the scenario's model. */
typedef struct replica {
    double parameters, weight_bytes;
    double cache_bytes; /* of keys and values, per token; 0: unknown */
    double context;     /* mean tokens of a request in flight; longer answers are in flight for
                         * longer */
    double longest;     /* tokens of the longest request, or `context` if lengths have no cap */
} replica;

static bool make_replica(replica *r, const dl_scenario *scenario)
{
    const dl_generators *g = scenario->generators;
    dl_architecture network = {0};
    if (g == NULL || scenario->model == NULL ||
        dl_architecture_make(&network, scenario->model, NULL) != DL_OK)
        return false;
    const double squares = 1 + (g->lengths == NULL ? g->length_cv * g->length_cv : 0);
    double answer = g->length_cap;
    for (size_t i = 0; i < g->length_count; i++)
        answer = i == 0 ? g->lengths[0] : fmax(answer, g->lengths[i]);
    r->parameters =
        (double)(dl_architecture_parameters(&network) + dl_architecture_frozen(&network)) *
        network.tensor;
    r->weight_bytes = NUMBER_BYTES * r->parameters;
    r->cache_bytes = NUMBER_BYTES * network.cache_numbers * network.tensor;
    r->context = g->prompt_tokens + g->length_mean * squares / 2;
    r->longest = isinf(answer) ? r->context : g->prompt_tokens + answer;
    dl_architecture_free(&network);
    return true;
}

static dl_gpu_memory memory_of(const dl_scenario *scenario, int gpus)
{
    const dl_quantity has = dl_scenario_first_gpu(scenario)->memory_bytes;
    dl_gpu_memory memory = {.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
    replica r;
    if (!dl_generators_need_rates(scenario->generators) || !has.known ||
        !make_replica(&r, scenario) || !(r.cache_bytes > 0))
        return memory;
    memory.content.parameters = r.weight_bytes / gpus;
    memory.content.others = r.cache_bytes * r.longest / gpus;
    memory.needs_bytes = memory.content.parameters + memory.content.others;
    memory.has_bytes = CACHE_FRAC * has.value;
    return memory;
}

dl_gpu_memory dl_generate_memory(const dl_scenario *scenario)
{
    const dl_generators *g = scenario->generators;
    if (g == NULL || scenario->model == NULL || scenario->gpu == NULL)
        return (dl_gpu_memory){.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
    return memory_of(scenario, g->replica_gpus);
}

char *dl_generate_remedy(const dl_scenario *scenario)
{
    const dl_generators *g = scenario->generators;
    const dl_gpu_memory own = dl_generate_memory(scenario);
    if (!(own.needs_bytes > own.has_bytes)) return NULL;
    for (int gpus = g->replica_gpus + 1; gpus <= g->generator_gpus; gpus++) {
        const dl_gpu_memory memory = memory_of(scenario, gpus);
        if (g->gpus % gpus == 0 && g->generator_gpus % gpus == 0 &&
            memory.needs_bytes <= memory.has_bytes)
            return dl_format("what fits: generators.replica_gpus=%d (%s)", gpus,
                             DL_BYTES_TEXT(memory.needs_bytes));
    }
    return dl_format("no generators.replica_gpus that divides their %d GPUs fits: take more or "
                     "larger GPUs, or a smaller generators.length_cap",
                     g->generator_gpus);
}

void dl_generate_estimate(dl_scenario *scenario, const dl_gpu_model *gpu, dl_arithmetic arithmetic,
                          dl_costs *costs, dl_assumptions *made)
{
    dl_generators *g = scenario->generators;
    replica r;
    if (!make_replica(&r, scenario)) return;
    const dl_quantity *flop = dl_gpu_model_flop_per_s(gpu, arithmetic);
    const double gpus = g->replica_gpus;
    if (!gpu->memory_bytes_per_s.known || !flop->known || !(r.cache_bytes > 0)) return;
    if (g->requests_max == 0 && gpu->memory_bytes.known) {
        const double room = CACHE_FRAC * gpus * gpu->memory_bytes.value - r.weight_bytes;
        const double most = floor(room / (r.cache_bytes * r.context));
        g->requests_max = (int)fmax(1, fmin(most, DL_REQUESTS_MAX));
    }
    if (!dl_generators_need_rates(g) || costs->generator.token_ns.known) return;
    const double memory = MEMORY_FRAC * gpus * gpu->memory_bytes_per_s.value;
    const double request_s =
        r.cache_bytes * r.context / memory + 2 * r.parameters / (FLOP_FRAC * gpus * flop->value);
    static const char measure[] = "tokens/s of the inference engine at two numbers of requests in "
                                  "flight: [generators] rates";
    char source[DL_ASSUMPTION_SOURCE_BYTES];
    snprintf(source, sizeof source,
             "reads of %.3g GB of weights at %.0f %% of the memory rate of %g GPU%s",
             r.weight_bytes / 1e9, 100 * MEMORY_FRAC, gpus, gpus == 1 ? "" : "s");
    dl_costs_assume_value(costs, "generator", "token_ns", dl_s_to_ns(r.weight_bytes / memory),
                          ESTIMATE_FACTOR, CAUSE_GENERATOR, DL_NEED_GENERATOR, source, measure,
                          made);
    snprintf(source, sizeof source,
             "reads of a cache of %.0f tokens of %.3g kB, and products at %.0f %% of the peak",
             r.context, r.cache_bytes / 1e3, 100 * FLOP_FRAC);
    dl_costs_assume_value(costs, "generator", "request_token_ns", dl_s_to_ns(request_s),
                          ESTIMATE_FACTOR, CAUSE_GENERATOR, DL_NEED_GENERATOR, source, measure,
                          made);
}

/* --- the run --------------------------------------------------------------------------------- */

static void take_updates(dl_run_result *result, const dl_rollout_ages *ages, size_t count)
{
    DL_AUTOFREE double *sorted = dl_calloc(count, sizeof *sorted, "updates");
    memcpy(sorted, ages->update_s, count * sizeof *sorted);
    dl_run_spread_of_steps(sorted, count, result);
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
    for (size_t w = 0; w < workers; w++) { /* workers train together */
        result->worker_stale_sum[w] = sum;
        result->worker_stale_count[w] = count;
    }
}

/* Sets the figures common to all runs: a step is an update, and the workers are the trainer's. */
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
    double fixed_s = 0, token_s = 0, log_scale = 0;
    dl_status status =
        isnan(g->on_policy_s)
            ? dl_generate_trainer(config, costs, gpus, &fixed_s, &token_s, err)
            : split_on_policy(config, costs, gpus, &fixed_s, &token_s, &log_scale, err);
    if (status != DL_OK) return status;
    dl_rollout_config rollout = dl_generators_rollout(g, config->on_policy, fixed_s, token_s);
    set_rates(&rollout, g, costs);
    rollout.decode.log_scale += log_scale;
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
