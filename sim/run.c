#include "sim/run_internal.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/generate/generate.h"
#include "sim/shares.h"
#include "sim/sync/members.h"

/* Number of the costs' random stream, above all worker numbers. */
#define COST_STREAM (1u << 20)

/* --- what a point needs --------------------------------------------------------------------- */

/* Whether the optimizer state is averaged too. */
static bool averages_state(const dl_scenario *scenario, const dl_point *point)
{
    return dl_mode_takes(point->mode, DL_SYNC_AVERAGE_STATE) && scenario->average_state;
}

/* Whether the workers of a site average their gradients in each step. */
static bool reduces_inside(const dl_scenario *scenario, const dl_point *point)
{
    return dl_mode_takes(point->mode, DL_SYNC_INSIDE) && scenario->inside != 0;
}

/* The scenario's absences if the mode supports them. */
static dl_absences absences_of(const dl_scenario *scenario, const dl_point *point)
{
    const bool has = dl_mode_takes(point->mode, DL_SYNC_AWAY);
    return has ? scenario->absences : (dl_absences){0};
}

/* Number of agents: the workers, plus a communication thread for each if exchanges overlap
 * compute. */
static int agents(const dl_scenario *scenario, const dl_point *point)
{
    return point->workers * (dl_scenario_exchange(scenario, point).late > 0 ? 2 : 1);
}

static bool has_syncer(const dl_point *point)
{
    return dl_mode_takes(point->mode, DL_SYNC_SYNCER);
}

/* Threads on cores: agents, their loaders, and a syncer whose merge time is not given. */
static int threads(const dl_scenario *scenario, const dl_point *point)
{
    const bool merges = has_syncer(point) && !(scenario->syncer.merge_s > 0);
    return agents(scenario, point) + point->workers * scenario->input.loaders + merges;
}

static unsigned gpu_needs(const dl_scenario *scenario, const dl_point *point)
{
    const dl_mode *mode = point->mode;
    const dl_gpu_options *options = scenario->gpu;
    const dl_exchange_plan plan = dl_scenario_exchange(scenario, point);
    const bool collective = dl_scenario_is_collective(scenario, point),
               several = point->workers > 1;
    const bool with_state = averages_state(scenario, point);
    const bool slows = dl_mode_reduces_gradients(mode) && (plan.as_ready || plan.late > 0);
    unsigned needs = DL_NEED_OPS | DL_NEED_DISPATCH | DL_NEED_INPUT;
    needs |= mode->needs & (DL_NEED_PARAMETERS | DL_NEED_STATE);
    if (with_state) needs |= DL_NEED_STATE;
    if (dl_point_workers_per_gpu(point) > 1) needs |= DL_NEED_SHARING;
    if ((several && slows) || dl_point_reduces_within(point)) needs |= DL_NEED_OVERLAP;
    if (collective || !(mode->needs & DL_NEED_PARAMETERS)) return needs;
    if (options->where == DL_WHERE_GPU) return needs;
    needs |= mode->needs & (DL_NEED_AVERAGE | DL_NEED_UPDATE);
    if (options->pageable) needs |= DL_NEED_PAGEABLE;
    if (several && mode->wait & DL_MODE_WAIT_BARRIER) needs |= DL_NEED_BARRIER;
    if (several && mode->wait & DL_MODE_WAIT_LOCK) needs |= DL_NEED_LOCK;
    return needs;
}

/* [workers] shares of the point; the caller frees them. */
static dl_run_share *shares_of(const dl_scenario *scenario, const dl_costs *costs,
                               const dl_point *point)
{
    const size_t workers = (size_t)point->workers;
    dl_run_share *shares = dl_calloc(workers, sizeof *shares, "shares");
    DL_AUTOFREE int *models = dl_calloc(workers, sizeof *models, "models");
    DL_AUTOFREE int64_t *samples = dl_calloc(workers, sizeof *samples, "shares");
    dl_point_models(scenario, point, models);
    dl_point_shares(scenario, costs, point, samples);
    for (size_t w = 0; w < workers; w++)
        shares[w] = (dl_run_share){models[w], samples[w]};
    return shares;
}

static bool are_alike(const dl_run_share *shares, int workers)
{
    for (int w = 1; w < workers; w++) {
        if (shares[w].model != shares[0].model || shares[w].samples != shares[0].samples)
            return false;
    }
    return true;
}

/* Samples in a micro-batch of a worker that has `samples` in a step. */
static int64_t micro_batch(const dl_point *point, int64_t samples)
{
    const dl_split split = dl_point_split(point);
    return samples / split.micro_batches / dl_split_batches(&split);
}

/* Memory that the worker needs on its GPU: vectors from the costs, activations from the costs of
 * its GPU model. */
static dl_gpu_content model_content(const dl_scenario *scenario, const dl_costs *costs,
                                    const dl_run_share *own, const dl_point *point)
{
    dl_run_ranks ranks;
    const dl_status status =
        dl_run_ranks_open(&ranks, scenario, dl_costs_of_model(costs, own->model), point);
    DL_ASSERT(status == DL_OK, "a worker of one GPU has no stages");
    dl_memory_rank rank = dl_run_rank(&ranks, 0);
    rank.parameter_bytes =
        costs->parameter_bytes < 0 ? (double)NAN : (double)costs->parameter_bytes;
    rank.state_bytes = costs->state_bytes < 0 ? (double)NAN : (double)costs->state_bytes;
    rank.split.samples = (double)micro_batch(point, own->samples);
    const dl_gpu_content content = dl_memory_of_rank(&rank, NULL);
    dl_run_ranks_close(&ranks);
    return content;
}

/* Whether workers run programs, those of a split model or of a recorded step. */
static bool runs_programs(const dl_scenario *scenario, const dl_point *point)
{
    return dl_point_is_split(point) || scenario->recorded != NULL;
}

static const dl_platform *platform_of(const dl_scenario *scenario, const dl_point *point)
{
    if (runs_programs(scenario, point)) return &dl_platform_islands;
    if (scenario->gpu != NULL) return &dl_platform_gpu;
    return dl_run_is_of_processes(scenario) ? &dl_platform_processes : &dl_platform_cpu;
}

/* Whether a worker's micro-batch is beyond the measured ones. */
static bool has_other_batch(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point)
{
    bool beyond = false;
    DL_AUTOFREE dl_run_share *shares = shares_of(scenario, costs, point);
    for (int w = 0; w < point->workers; w++) {
        const dl_costs *own = dl_costs_of_model(costs, shares[w].model);
        const int64_t batch = micro_batch(point, shares[w].samples);
        beyond |= own->batch_min > 0 && batch < own->batch_min;
        beyond |= own->batch_max > 0 && batch > own->batch_max;
    }
    return beyond;
}

unsigned dl_run_needs(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    const unsigned generator =
        (dl_generators_need_rates(scenario->generators) ? DL_NEED_GENERATOR : 0) |
        (dl_generators_need_split(scenario->generators) ? DL_NEED_SPLIT : 0);
    if (dl_scenario_trains_by_keys(scenario) ||
        (scenario->generators != NULL && costs->trainer.token_gpu_ns.known))
        return generator;
    const dl_exchange_plan plan = dl_scenario_exchange(scenario, point);
    unsigned needs = scenario->gpu != NULL ? gpu_needs(scenario, point)
                                           : dl_mode_needs(point->mode, agents(scenario, point),
                                                           threads(scenario, point), point->cores,
                                                           scenario->average_state);
    if (dl_run_is_of_processes(scenario))
        needs = dl_run_process_needs(scenario, costs, point, needs);
    if (scenario->gpu == NULL && point->option[DL_SYNC_ACCUMULATE] > 1 && costs->accumulate < 2) {
        needs |= DL_NEED_AVERAGE | DL_NEED_PARAMETERS;
    }
    if (scenario->gpu == NULL && point->mode->needs & DL_NEED_COPY && plan.packs) {
        needs |= (unsigned)DL_NEED_QUANTISE << plan.message.kind;
        if (point->mode->exchange == DL_EXCHANGES_PARAMETERS) needs |= DL_NEED_LEARNED;
    }
    if (costs->batch_min > 0 && costs->batch_min == costs->batch_max &&
        has_other_batch(scenario, costs, point))
        needs |= DL_NEED_OTHER_BATCH;
    return needs | generator | (scenario->noise == DL_NOISE_TRACE ? DL_NEED_NOISE : 0);
}

void dl_run_assume(const dl_scenario *scenario, dl_costs *costs, const dl_point *point,
                   dl_assumptions *made)
{
    const dl_point *points = point != NULL ? point : scenario->points;
    const size_t count = point != NULL ? 1 : scenario->point_count;
    unsigned needs = 0;
    int cores = 0;
    for (size_t p = 0; p < count; p++) {
        needs |= dl_run_needs(scenario, costs, &points[p]);
        if (points[p].cores > cores) cores = points[p].cores;
    }
    if (scenario->missing == DL_MISSING_REFUSE) needs = 0;
    dl_costs_assume(costs, needs, scenario->gpu != NULL ? &scenario->gpu->machine : NULL, cores,
                    made);
}

dl_origin dl_run_origin(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    dl_origin origin = dl_costs_worst_origin(costs, dl_run_needs(scenario, costs, point));
    const bool split = dl_point_is_split(point);
    if (split) origin = dl_pipeline_origin(costs, origin);
    const bool exchanges = split || point->mode->needs & DL_NEED_PARAMETERS;
    if (scenario->gpu == NULL || !exchanges) return origin;
    dl_gpu_options at;
    dl_gpu_options_at_point(scenario->gpu, costs, point->workers, point->gpus,
                            point->workers * dl_point_ranks(point), &at);
    const dl_origin machine = dl_gpu_options_origin(&at);
    dl_gpu_options_free_at_point(&at);
    return machine < origin ? machine : origin;
}

dl_gpu_memory dl_run_memory(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point)
{
    const dl_gpu_memory replica = dl_generate_memory(scenario);
    if (replica.needs_bytes > replica.has_bytes) return replica;
    if (scenario->gpu == NULL || dl_scenario_trains_by_keys(scenario))
        return (dl_gpu_memory){.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
    if (dl_point_is_split(point))
        return dl_run_split_memory(scenario, costs, point, 0, dl_point_split(point).stages - 1);
    const dl_gpu_options options = dl_point_gpu_options(scenario, point);
    DL_AUTOFREE dl_gpu_content *own =
        dl_calloc((size_t)point->workers, sizeof *own, "needs of GPUs");
    DL_AUTOFREE dl_run_share *shares = shares_of(scenario, costs, point);
    for (int w = 0; w < point->workers; w++) {
        const bool as_before = w > 0 && are_alike(&shares[w - 1], 2);
        own[w] = as_before ? own[w - 1] : model_content(scenario, costs, &shares[w], point);
    }
    dl_gpu_point gpu_point = {.stride = 1, .workers = point->workers, .own = own};
    dl_run_serve(scenario, costs, point, &gpu_point);
    return dl_gpu_options_memory(&options, &gpu_point);
}

dl_gpu_memory dl_run_stage_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int stage)
{
    return dl_point_is_split(point) ? dl_run_split_memory(scenario, costs, point, stage, stage)
                                    : dl_run_memory(scenario, costs, point);
}

bool dl_run_extrapolates(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    if (dl_scenario_trains_by_keys(scenario) ||
        (scenario->generators != NULL && costs->trainer.token_gpu_ns.known))
        return false;
    if (has_other_batch(scenario, costs, point) || dl_run_scales_exchange(scenario, costs, point))
        return true;
    if (point->cores == DL_CORES_GPU) {
        return dl_point_workers_per_gpu(point) > dl_sharing_known(costs);
    }
    if (threads(scenario, point) == 1) return false;
    if (threads(scenario, point) > dl_sharing_known(costs)) return true;
    return costs->cores > 0 && point->cores != costs->cores;
}

/* If an exchange takes 1 + f times as long as the steps between two exchanges, it stays hidden for
 * lag / f steps. If it is still hidden after WARM_LAGS lags, it slows steps down by less than 1 /
 * WARM_LAGS. */
#define WARM_LAGS 20

/* Number of warm-up steps: the scenario's, or, for lagged averages without one, at least WARM_LAGS
 * lags and at least an interval plus a lag. A run with lagged averages starts without exchanges in
 * flight and ends with some, so its warm-up is a whole number of intervals: measured steps then
 * have as many exchanges as intervals. Absences are counted from the start of the run, so runs with
 * absences get no such warm-up. */
static int64_t warm_up_steps(const dl_scenario *scenario, const dl_point *point)
{
    const int64_t interval = (int64_t)point->option[DL_SYNC_INTERVAL];
    const int64_t lag = (int64_t)point->option[DL_SYNC_LAG];
    if (scenario->warmup > 0 || lag == 0 || !dl_mode_takes(point->mode, DL_SYNC_INTERVAL))
        return scenario->warmup;
    const dl_absences absences = absences_of(scenario, point);
    if (dl_absences_given(&absences)) return 0;
    const int64_t least = WARM_LAGS * lag > interval + lag ? WARM_LAGS * lag : interval + lag;
    return (least + interval - 1) / interval * interval;
}

int64_t dl_run_observed_steps(const dl_scenario *scenario, const dl_point *point)
{
    const int64_t interval = (int64_t)point->option[DL_SYNC_INTERVAL];
    if (scenario->warmup > 0) return scenario->warmup + scenario->steps;
    return (scenario->steps + interval - 1) / interval * interval;
}

int64_t dl_run_steps(const dl_scenario *scenario, const dl_point *point)
{
    return dl_run_observed_steps(scenario, point) + warm_up_steps(scenario, point) -
           scenario->warmup;
}

/* Checks a finished run: DL_ERR_RANGE if its watch ended it or it took more than DL_NS_MAX,
 * DL_ERR_DATA if it took no time. */
static dl_status check_time(const dl_engine *engine, const dl_run_config *config, dl_error *err)
{
    char text[DL_POINT_TEXT_BYTES];
    if (engine->was_ended) {
        return dl_error_set_at(err, DL_ERR_RANGE, config->scenario->path, 0,
                               "the run was ended after %lld events (point: %s)",
                               (long long)engine->handled,
                               dl_point_text(text, sizeof text, config->point));
    }
    if (engine->now_ns > 0 && !engine->too_long) return DL_OK;
    return dl_error_set_at(err, engine->too_long ? DL_ERR_RANGE : DL_ERR_DATA, config->costs->path,
                           0, "%s (point: %s)",
                           engine->too_long ? "the run takes more than 146 years"
                                            : "a step takes no time",
                           dl_point_text(text, sizeof text, config->point));
}

/* --- running -------------------------------------------------------------------------------- */

bool dl_run_varies(const dl_scenario *scenario, const dl_costs *costs)
{
    if (scenario->generators != NULL) return true; /* lengths of answers are drawn */
    if (scenario->noise != DL_NOISE_NONE || scenario->absences.mtbf_s > 0) return true;
    return scenario->gpu != NULL && scenario->gpu->input_varies && dl_costs_have_input(costs);
}

/* Time in ns without network traffic before an average: the slowest GPU's compute in its local
 * steps, without [noise]. With a lag it is an upper bound, as averages then overlap compute. */
static double pause_ns(const dl_scenario *scenario, const dl_point *point, dl_gpu_steps steps)
{
    double step_ns = 0;
    if (!dl_mode_takes(point->mode, DL_SYNC_INTERVAL)) return 0;
    for (int w = 0; w < (steps.differ ? point->workers : 1); w++)
        step_ns = fmax(step_ns, steps.of[w].compute_ns + steps.of[w].update_ns);
    return point->option[DL_SYNC_INTERVAL] / dl_scenario_fragments(scenario, point) * step_ns;
}

bool dl_run_starts_with_collectives(const dl_scenario *scenario, const dl_point *point)
{
    return scenario->gpu != NULL && dl_mode_reduces_gradients(point->mode) && point->workers > 1 &&
           dl_scenario_exchange(scenario, point).late == 0 && !runs_programs(scenario, point);
}

/* The GPUs of a run, with one or several GPUs per worker; NULL members are unused. */
typedef struct run_gpus {
    dl_gpus *single;
    dl_islands *islands;
    dl_run_island *island; /* data of `islands` */
} run_gpus;

static void free_gpus(run_gpus *gpus)
{
    dl_gpus_free(gpus->single);
    dl_islands_free(gpus->islands);
    dl_run_free_island(gpus->island);
}

/* DistributedDataParallel copies gradients into buckets and back for any number of workers: half of
 * the time is part of the backward pass, half follows the last bucket's exchange. There is no copy
 * back if gradients are views of their buckets, or if a worker needs only its part (the inputs of
 * reduce-scatters in DeepSpeed's stage_1_and_2.py and FSDP's _fsdp_collectives.py). FSDP copies the
 * gradients of every micro-batch. */
static void add_bucket_copies(dl_workload *workload, const dl_exchange_plan *plan)
{
    const double half_ns = workload->bucket_ns / 2;
    if (plan->bucket_copies == 0) return;
    workload->compute_ns += half_ns * plan->passes;
    workload->backward_ns += half_ns;
    if (plan->bucket_copies > 1) workload->update_ns += half_ns;
}

/* Sets how a worker on cores gets its batches. */
static void take_batches(dl_workload *workload, const dl_scenario *scenario, const dl_costs *costs,
                         int64_t samples)
{
    const dl_scenario_input *input = &scenario->input;
    workload->read_bytes =
        (1 - input->cached_frac) * costs->stored_bytes_per_sample.value * (double)samples;
    workload->batch_samples = samples;
    if (input->loaders > 0) {
        dl_workload_load_beside(workload,
                                costs->input_copy_ns.known ? costs->input_copy_ns.value : 0);
    } else if (input->storage_bytes_per_s.known && workload->read_bytes > 0) {
        dl_workload_load_beside(workload, 0); /* the worker makes batches between its reads */
    }
}

static dl_loading loading_of(const dl_scenario *scenario)
{
    const dl_scenario_input *input = &scenario->input;
    const dl_quantity *rate = &input->storage_bytes_per_s;
    return (dl_loading){.loaders = input->loaders,
                        .prefetch = input->prefetch,
                        .storage_bytes_per_ns = rate->known ? rate->value / DL_NS_PER_S : INFINITY,
                        .ahead_bytes = (double)input->storage_ahead_bytes};
}

/* Sets the work of a worker's step from the drawn costs. */
static void init_workload(dl_workload *workload, const dl_run_config *config, const dl_costs *costs,
                          const dl_run_share *own)
{
    const dl_scenario *scenario = config->scenario;
    const dl_point *point = config->point;
    const double batch = (double)micro_batch(point, own->samples);
    dl_workload_init(workload, costs, batch);
    if (costs->model_count > 0) dl_workload_set_model(workload, costs, own->model, batch);
    workload->parameter_bytes /= dl_scenario_fragments(scenario, point);
    workload->state_bytes /= dl_scenario_fragments(scenario, point);
    const double factor = dl_run_compute_factor(config, own->model);
    workload->compute_ns *= factor;
    workload->backward_ns *= factor;
    workload->update_ns *= factor;
    workload->bucket_ns *= factor;
    if (scenario->gpu != NULL && scenario->gpu->reads == DL_READS_BATCH)
        dl_workload_read_batches(workload);
    dl_workload_accumulate(workload, (int)point->option[DL_SYNC_ACCUMULATE],
                           scenario->gpu == NULL && costs->accumulate < 2);
    const dl_exchange_plan plan = dl_scenario_exchange(scenario, point);
    add_bucket_copies(workload, &plan);
    if (scenario->gpu == NULL) {
        workload->update_ns /= dl_costs_update_parts(costs, batch, plan.sharers);
        dl_workload_compress(workload, costs, &plan.message);
        take_batches(workload, scenario, costs, own->samples);
    }
    if (scenario->noise == DL_NOISE_TRACE && point->workers > 1 && costs->exchange_run_count > 0) {
        dl_workload_exchange_run(
            workload,
            &costs->exchange_runs[dl_noise_run(config->replicate, costs->exchange_run_count)]);
    }
    if (dl_run_is_of_processes(scenario)) {
        workload->barrier_ns = workload->lock_ns = workload->wakeup_ns = 0;
        workload->memory_bytes_per_ns = INFINITY;
    }
    if (scenario->gpu == NULL) return;
    unsigned needs = dl_run_needs(scenario, costs, point);
    if (!(needs & DL_NEED_BARRIER)) workload->barrier_ns = 0;
    if (!(needs & DL_NEED_LOCK)) workload->lock_ns = 0;
}

/* The step of one worker on a GPU. */
static dl_gpu_step gpu_step(const dl_run_config *config, const dl_costs *costs,
                            const dl_run_share *own)
{
    dl_workload workload;
    init_workload(&workload, config, costs, own);
    /* A worker updates only its shard of the parameters. */
    workload.update_ns /= dl_costs_update_parts(
        costs, (double)own->samples, dl_scenario_exchange(config->scenario, config->point).sharers);
    return (dl_gpu_step){
        .compute_ns = workload.compute_ns,
        .backward_ns = workload.backward_ns,
        .update_ns = workload.update_ns,
        .input_ns = workload.input_ns,
        .input_bytes = costs->input_bytes_per_sample.value * (double)own->samples,
        .input_copy_ns = costs->input_copy_ns.known ? costs->input_copy_ns.value : 0,
        .stored_bytes = costs->stored_bytes_per_sample.value * (double)own->samples,
    };
}

double dl_run_least_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                       bool with_tensors)
{
    const dl_run_config run = {.scenario = scenario, .costs = costs, .point = point};
    if (scenario->gpu == NULL || costs->model_count > 0 || scenario->noise != DL_NOISE_NONE ||
        scenario->recorded != NULL)
        return 0;
    if (dl_point_is_split(point)) return dl_run_split_least_ns(&run, with_tensors);
    const dl_gpu_step step =
        gpu_step(&run, costs, &(dl_run_share){0, point->batch / point->workers});
    return step.compute_ns + step.update_ns;
}

/* The steps of all workers; the caller frees *owned. NULL steps for workers on cores. */
static dl_gpu_steps gpu_steps(const dl_run_config *config, const dl_costs *costs,
                              const dl_run_share *shares, dl_gpu_step **owned)
{
    const int workers = config->point->workers;
    *owned = NULL;
    if (config->scenario->gpu == NULL) return (dl_gpu_steps){0};
    const bool differ = !are_alike(shares, workers);
    const int count = differ ? workers : 1;
    dl_gpu_step *steps = *owned = dl_calloc((size_t)count, sizeof *steps, "steps of GPUs");
    for (int w = 0; w < count; w++) {
        const bool as_before = w > 0 && are_alike(&shares[w - 1], 2);
        steps[w] = as_before ? steps[w - 1] : gpu_step(config, costs, &shares[w]);
    }
    return (dl_gpu_steps){steps, differ};
}

/* Step times of GPUs in ns, without noise and exchange; the caller frees them; NULL for workers on
 * cores. Prefetched input takes no time; launches ahead of the GPU count only if they take longer
 * than its work. */
static double *steps_alone_ns(dl_gpu_steps steps, const dl_gpu_options *gpu,
                              const dl_workload *workload, const double *slow, int workers)
{
    if (steps.of == NULL) return NULL;
    const double launch_ns = workload->serial_ns + workload->dispatch_ns + workload->per_worker_ns;
    double *alone_ns = dl_calloc((size_t)workers, sizeof *alone_ns, "times of steps");
    for (int w = 0; w < workers; w++) {
        const dl_gpu_step *step = dl_gpu_step_of(steps, w);
        const double input_ns = gpu->prefetch == 0 ? step->input_ns : 0;
        const double gpu_ns = input_ns + slow[w] * step->compute_ns + step->update_ns;
        alone_ns[w] = dl_gpu_options_ahead(gpu) == 0 ? launch_ns + gpu_ns : fmax(launch_ns, gpu_ns);
    }
    return alone_ns;
}

/* Whether the run has a measured step. */
static bool has_steps(const dl_team *team)
{
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *worker = &team->workers[w];
        const bool is_warm = team->config.warmup == 0 || worker->warm_up_steps > 0;
        if (is_warm && worker->steps_done > worker->warm_up_steps) return true;
    }
    return false;
}

static dl_status refuse_stuck(const dl_team *team, const dl_run_config *config, dl_error *err)
{
    const dl_gpu_options *gpu = config->scenario->gpu;
    char text[DL_POINT_TEXT_BYTES];
    dl_point_text(text, sizeof text, config->point);
    if (gpu != NULL && gpu->dispatch == DL_DISPATCH_SINGLE) {
        return dl_error_set_at(
            err, DL_ERR_DATA, config->scenario->path, 0,
            "workers wait for one another forever: one waits for gradients of "
            "others, whose next steps are not launched before it has ended its own; "
            "[machine] dispatch = per_gpu avoids that (point: %s)",
            text);
    }
    int w = 0;
    while (w + 1 < team->config.workers && team->workers[w].steps_done == team->config.steps)
        w++;
    return dl_error_set_at(err, DL_ERR_DATA, config->scenario->path, 0,
                           "a fault of dlsim: after %.6g s worker %d has done %d of %lld steps and "
                           "waits forever (state %s; point: %s)",
                           dl_ns_to_s((double)team->engine.now_ns), w, team->workers[w].steps_done,
                           (long long)team->config.steps,
                           dl_worker_state_names[team->workers[w].state], text);
}

/* Collects the results of a finished run, or its error. */
static dl_status take_figures(dl_team *team, const dl_run_config *config,
                              const dl_run_share *shares, dl_run_result *result, dl_error *err)
{
    if (dl_team_is_stuck(team)) return refuse_stuck(team, config, err);
    dl_status status = check_time(&team->engine, config, err);
    if (status == DL_OK && !has_steps(team)) {
        status =
            dl_error_set_at(err, DL_ERR_DATA, config->scenario->path, 0,
                            "[failures] away: all workers leave before they have done a step%s",
                            team->config.warmup > 0 ? " after the warm-up" : "");
    }
    if (status != DL_OK) return status;
    *result = (dl_run_result){0};
    if (team->steady_steps_per_ns > 0) {
        const double samples = (double)config->point->batch / config->point->workers;
        result->steady_per_s = samples * team->steady_steps_per_ns / dl_ns_to_s(1);
    }
    if (team->engine.stopped) return DL_OK;
    dl_run_measure(team, config->point, shares, config->scenario->measured_path != NULL, result);
    if (dl_point_is_split(config->point)) dl_run_measure_island(team, config->point, result);
    return DL_OK;
}

/* Sets the distribution of work from the costs (dl_work_spread_of). Without noise, workers get
 * expected work: returns it, to be freed with the noise; otherwise NULL. */
static double *take_work(dl_noise_config *noise, const dl_point *point, const dl_costs *costs)
{
    noise->work = dl_work_spread_of(costs, fmax(1, point->option[DL_SYNC_ACCUMULATE]),
                                    (double)point->batch / point->workers);
    if (!(noise->work.sd > 0) || noise->kind != DL_NOISE_NONE) return NULL;
    double *expected = dl_calloc((size_t)point->workers, sizeof *expected, "expected work");
    dl_work_expected(&noise->work, expected, (size_t)point->workers);
    noise->expected = expected;
    noise->workers = (size_t)point->workers;
    return expected;
}

static const dl_syncer_config *syncer_of(const dl_scenario *scenario, const dl_point *point)
{
    return has_syncer(point) ? &scenario->syncer : NULL;
}

/* Inputs of a run in addition to its scenario and point. */
typedef struct run_inputs {
    const dl_costs *costs; /* drawn costs; borrowed */
    dl_workload workload;
    dl_run_share *shares; /* [workers] */
    dl_gpu_steps steps;   /* borrows owned_steps; NULL on cores */
    dl_gpu_step *owned_steps;
    double *slow, *alone_ns; /* slow: [workers x ranks]; alone_ns: [workers], only for GPUs whose
                              * intervals depend on speed, otherwise NULL */
    double *expected_work;   /* [workers], for `noise`; may be NULL */
    dl_gpu_options gpu;      /* GPU options of the point; zeroed on cores */
    dl_noise_config noise;
    double side_by_side;
    int cores; /* number of cores; on GPUs one per worker and communication thread */
} run_inputs;

static void make_inputs(run_inputs *in, const dl_run_config *config, const dl_costs *costs)
{
    const dl_scenario *scenario = config->scenario;
    const dl_point *point = config->point;
    const int workers = point->workers;
    dl_gpu_options *gpu = scenario->gpu != NULL ? &in->gpu : NULL;
    *in = (run_inputs){
        .costs = costs,
        .cores = gpu != NULL ? agents(scenario, point) : point->cores,
        .shares = shares_of(scenario, config->costs, point),
    };
    const int at_once = gpu != NULL           ? dl_point_workers_per_gpu(point)
                        : workers < in->cores ? workers
                                              : in->cores;
    init_workload(&in->workload, config, costs, &in->shares[0]);
    in->steps = gpu_steps(config, costs, in->shares, &in->owned_steps);
    if (gpu != NULL)
        dl_gpu_options_at_point(scenario->gpu, costs, workers, point->gpus,
                                workers * dl_point_ranks(point), gpu);
    in->slow = dl_run_slow_devices(scenario, gpu, costs, point);
    in->noise = (dl_noise_config){
        .kind = scenario->noise,
        .sigma = scenario->sigma,
        .set = dl_costs_noise(costs, (double)point->batch / workers, (size_t)at_once)};
    in->expected_work = take_work(&in->noise, point, costs);
    in->side_by_side = dl_side_by_side(costs, workers, in->cores);
    if (scenario->interval_by_speed)
        in->alone_ns = steps_alone_ns(in->steps, gpu, &in->workload, in->slow, workers);
}

static void free_inputs(run_inputs *in, const dl_scenario *scenario)
{
    if (scenario->gpu != NULL) dl_gpu_options_free_at_point(&in->gpu);
    free(in->alone_ns);
    free(in->owned_steps);
    free(in->shares);
    free(in->slow);
    free(in->expected_work);
}

/* Whether a run may end early once its steps repeat. Expected work that is dealt in turn repeats
 * only after as many steps as there are workers, so it is excluded. */
static bool may_repeat(const dl_scenario *scenario, const dl_team_config *team, bool is_split,
                       bool expects_work)
{
    return !is_split && scenario->input.loaders == 0 && team->syncer == NULL &&
           !dl_absences_given(&team->absences) && !expects_work;
}

/* Makes the team's configuration, except for the machine. */
static dl_team_config team_config(const dl_run_config *config, const run_inputs *in)
{
    const dl_scenario *scenario = config->scenario;
    const dl_point *point = config->point;
    const dl_exchange_plan plan = dl_scenario_exchange(scenario, point);
    const int workers = point->workers, threads = scenario->server_threads;
    const bool is_observed = config->observer != NULL;
    const int64_t steps =
        is_observed ? dl_run_observed_steps(scenario, point) : dl_run_steps(scenario, point);
    const dl_syncer_config *syncer = syncer_of(scenario, point);
    /* For workers of several GPUs, the noise and slowness of each GPU are applied individually
     * elsewhere. */
    static const dl_noise_config none = {.kind = DL_NOISE_NONE};
    const bool is_split = runs_programs(scenario, point);
    const double log_steps = (double)(config->log_steps > 0 ? config->log_steps : DL_LOG_STEPS);
    const dl_absences absences = absences_of(scenario, point);
    double reduce_ns, reduce_late_ns;
    dl_run_reduce_ns(scenario, in->costs, point, in->side_by_side * in->workload.backward_ns,
                     &reduce_ns, &reduce_late_ns);
    const bool elastic = dl_absences_given(&absences);
    dl_team_config team = {
        .platform = platform_of(scenario, point),
        .companions = {elastic ? &dl_absences_companion : NULL, syncer != NULL
                                                                    ? &dl_syncer_companion
                                                                : elastic ? &dl_members_companion
                                                                          : NULL},
        .costs = in->costs,
        .workload = &in->workload,
        .reduces = dl_run_reduces(scenario, in->costs, point),
        .reduce_ns = reduce_ns,
        .reduce_late_ns = reduce_late_ns,
        .roundtrip = dl_run_process_cost(in->costs, point, DL_ROUNDTRIP),
        .side_by_side = in->side_by_side,
        .cores = in->cores,
        .workers = workers,
        .loading = loading_of(scenario),
        .steps = steps,
        .pulls_under_lock = scenario->gpu != NULL && scenario->gpu->in_turn,
        .keeps_logs =
            config->steady_after > 0 || syncer != NULL || (double)steps * workers <= log_steps,
        .interval = (int64_t)point->option[DL_SYNC_INTERVAL],
        .warmup = is_observed ? scenario->warmup : warm_up_steps(scenario, point),
        .option = point->option,
        .comm_threads = plan.late > 0,
        .server_threads = threads < workers ? threads : workers,
        .average_state = averages_state(scenario, point),
        .interval_by_speed = scenario->interval_by_speed,
        .alone_ns = in->alone_ns,
        .syncer = syncer,
        .absences = absences,
        .each_ends = syncer != NULL && syncer->each_ends,
        .sums_on_arrival = scenario->gpu != NULL && in->gpu.sums_on_arrival,
        .outer_update = dl_scenario_has_outer(scenario, point),
        .fragments = dl_scenario_fragments(scenario, point),
        .reduces_inside = reduces_inside(scenario, point),
        .gathers = plan.gathers_after,
        .advance = point->mode->advance,
        .exchanges = point->mode->exchange,
        .noise = is_split ? &none : &in->noise,
        .seed = (uint64_t)scenario->seed,
        .replicate = config->replicate,
        .slow = config->without_slow || is_split ? NULL : in->slow,
        .observer = config->observer,
    };
    if (may_repeat(scenario, &team, is_split, in->expected_work != NULL))
        team.steady_after = config->steady_after;
    return team;
}

/* Creates the GPUs of a point for a team of this configuration and its engine; none for workers on
 * cores. */
static dl_status create_gpus(run_gpus *gpus, const dl_run_config *config, const run_inputs *in,
                             const dl_team_config *team, dl_engine *engine, dl_error *err)
{
    const dl_scenario *scenario = config->scenario;
    const dl_point *point = config->point;
    *gpus = (run_gpus){0};
    if (scenario->gpu == NULL) return DL_OK;
    const double samples = (double)point->batch / point->workers;
    DL_AUTOFREE dl_step_collective *before = NULL;
    const int before_count =
        dl_run_starts_with_collectives(scenario, point)
            ? dl_step_collectives_list(in->costs, point->workers, samples, &before)
            : 0;
    const dl_gpus_config gpus_config = {
        .team = team,
        .options = &in->gpu,
        .workload = &in->workload,
        .steps = in->steps,
        .engine = engine,
        .workers = point->workers,
        .server_threads = scenario->server_threads,
        .plan = dl_scenario_exchange(scenario, point),
        .with_input = dl_costs_have_input(in->costs),
        .before = before,
        .before_count = before_count,
        .inside_bytes = team->reduces_inside && in->costs->parameter_bytes > 0
                            ? (double)in->costs->parameter_bytes
                            : 0,
        .pause_ns = pause_ns(scenario, point, in->steps),
        .content_bytes =
            in->workload.parameter_bytes + (team->average_state ? in->workload.state_bytes : 0),
    };
    return runs_programs(scenario, point) ? dl_run_create_island(config, in->costs, &gpus_config,
                                                                 &gpus->island, &gpus->islands, err)
                                          : dl_gpus_create(&gpus->single, &gpus_config, err);
}

typedef struct watched_team {
    const dl_team *team;
    const dl_run_watch *watch;
} watched_team;

static bool team_goes_on(void *user)
{
    const watched_team *w = user;
    return w->watch->goes_on(w->watch->user, dl_team_done_frac(w->team),
                             1 / (double)w->team->config.steps);
}

/* Runs once from the start. If *undecided (dl_team.is_undecided) is set, there is no result. */
static dl_status attempt(const dl_run_config *config, const run_inputs *in, bool *undecided,
                         dl_run_result *result, dl_error *err)
{
    dl_team team = {0};
    run_gpus gpus;
    dl_team_config of_team = team_config(config, in);
    dl_status status = create_gpus(&gpus, config, in, &of_team, &team.engine, err);
    if (status == DL_OK) {
        of_team.machine = gpus.islands != NULL ? (void *)gpus.islands : gpus.single;
        if (gpus.islands != NULL && of_team.interval_by_speed)
            of_team.alone_ns = dl_run_island_alone_ns(gpus.island, config);
        watched_team watched = {&team, config->watch};
        dl_team_init(&team, &of_team);
        if (config->watch != NULL) team.engine.watch = (dl_engine_watch){team_goes_on, &watched};
        dl_team_run(&team);
        *undecided = team.is_undecided;
        if (!*undecided) status = take_figures(&team, config, in->shares, result, err);
    }
    dl_team_free(&team);
    free_gpus(&gpus);
    return status;
}

/* Runs with the drawn costs, again with all workers if the first attempt is undecided. */
static dl_status run_whole(const dl_run_config *config, const dl_costs *costs,
                           dl_run_result *result, dl_error *err)
{
    run_inputs in;
    make_inputs(&in, config, costs);
    bool undecided = false;
    dl_status status = attempt(config, &in, &undecided, result, err);
    if (undecided && status == DL_OK) {
        dl_run_config whole = *config;
        whole.is_whole = true;
        status = attempt(&whole, &in, &undecided, result, err);
    }
    free_inputs(&in, config->scenario);
    return status;
}

dl_status dl_run(const dl_run_config *config, dl_run_result *result, dl_error *err)
{
    DL_AUTO(dl_costs_draw_free) dl_costs costs;
    dl_random stream;
    dl_random_init(&stream, (uint64_t)config->scenario->seed, config->draw, 0, COST_STREAM);
    dl_costs_draw(config->costs, config->draw > 0 ? &stream : NULL, &costs);
    if (dl_run_is_of_processes(config->scenario) && dl_costs_exchange_by_messages(&costs))
        dl_costs_draw_processes(&costs, config->point->workers);
    if (dl_run_is_of_processes(config->scenario))
        dl_costs_draw_other_ranks(&costs, config->point->workers);
    return config->scenario->generators != NULL ? dl_generate_run(config, &costs, NULL, result, err)
                                                : run_whole(config, &costs, result, err);
}

dl_status dl_run_observe(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                         const dl_team_observer *observer, dl_error *err)
{
    DL_SCOPED(dl_run_result) result = {0};
    const dl_run_config config = {
        .scenario = scenario, .costs = costs, .point = point, .observer = observer};
    return dl_run(&config, &result, err);
}
