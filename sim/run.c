#include "sim/run.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/pipeline/pipeline.h"
#include "sim/shares.h"

const char *const dl_part_names[DL_PART_COUNT] = {"compute",   "dispatch", "communication",
                                                  "averaging", "waiting",  "input"};

/* Name of the stream that draws the costs, above all workers' numbers. */
#define COST_STREAM (1u << 20)

static bool split_exchanges(const dl_point *point)
{
    return point->mode->needs & DL_NEED_PARAMETERS && point->workers > 1;
}

char *dl_run_split_missing(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point)
{
    int first[DL_STAGES_MAX + 1];
    const dl_split split = dl_point_split(point);
    if (dl_pipeline_cut(&scenario->pipeline->options, costs, &split, first, NULL)) return NULL;
    return dl_pipeline_missing(&scenario->pipeline->options, costs, &split, first,
                               split_exchanges(point));
}

/* The stages with the times of `costs`, cut as `undisturbed` costs say. */
static dl_status find_stages(const dl_scenario *scenario, const dl_costs *undisturbed,
                             const dl_costs *costs, const dl_point *point, dl_stage *stages,
                             dl_error *err)
{
    int first[DL_STAGES_MAX + 1];
    const dl_split split = dl_point_split(point);
    const dl_pipeline_options *options = &scenario->pipeline->options;
    dl_status status = dl_pipeline_cut(options, undisturbed, &split, first, err);
    if (status == DL_OK) dl_pipeline_stages(options, costs, &split, first, stages);
    return status;
}

dl_gpu_memory dl_run_stage_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int stage)
{
    dl_stage stages[DL_STAGES_MAX];
    const dl_split split = dl_point_split(point);
    if (find_stages(scenario, costs, costs, point, stages, NULL) != DL_OK) {
        return (dl_gpu_memory){(double)NAN, (double)NAN};
    }
    const double bytes =
        dl_pipeline_stage_bytes(costs, &split, scenario->pipeline->schedule, stages, stage);
    double *own_bytes = dl_calloc((size_t)point->workers, sizeof *own_bytes, "needs of GPUs");
    for (int w = 0; w < point->workers; w++)
        own_bytes[w] = bytes;
    const dl_gpu_memory memory =
        dl_gpu_options_memory(scenario->gpu, &(dl_gpu_point){.first = stage,
                                                             .stride = point->stages,
                                                             .workers = point->workers,
                                                             .own_bytes = own_bytes});
    free(own_bytes);
    return memory;
}

static dl_gpu_memory split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point)
{
    dl_gpu_memory most = {(double)NAN, (double)NAN};
    for (int s = 0; s < point->stages; s++) {
        dl_gpu_memory memory = dl_run_stage_memory(scenario, costs, point, s);
        if (memory.needs_bytes / memory.has_bytes <= most.needs_bytes / most.has_bytes) continue;
        most = memory;
    }
    return most;
}

char *dl_run_split_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    int first[DL_STAGES_MAX + 1];
    const dl_split split = dl_point_split(point);
    if (dl_pipeline_cut(&scenario->pipeline->options, costs, &split, first, NULL)) return NULL;
    dl_model_layers model;
    dl_model_layers_init(&model, costs);
    char *text = dl_strdup("");
    for (int s = 0; s < point->stages; s++) {
        char *grown = dl_format("%s%s%s", text, s > 0 ? ";" : "", model.layers[first[s]].name);
        free(text);
        text = grown;
    }
    dl_model_layers_free(&model);
    return text;
}

/* --- what a point needs --------------------------------------------------------------------- */

/* Whether communication threads exchange while the workers compute. */
static bool lags(const dl_point *point)
{
    return point->option[DL_SYNC_LAG] > 0;
}

/* Of the parameters, that are averaged one after another. */
static int fragments(const dl_scenario *scenario, const dl_point *point)
{
    return point->mode->options & 1u << DL_SYNC_FRAGMENTS ? scenario->fragments : 1;
}

/* Whether the workers of a site average their gradients at each step. */
static bool reduces_inside(const dl_scenario *scenario, const dl_point *point)
{
    return point->mode->options & 1u << DL_SYNC_INSIDE && scenario->inside != 0;
}

/* Workers and their communication threads. */
static int agents(const dl_point *point)
{
    return point->workers * (lags(point) ? 2 : 1);
}

static unsigned gpu_needs(const dl_scenario *scenario, const dl_point *point)
{
    const dl_mode *mode = point->mode;
    const dl_gpu_options *options = scenario->gpu;
    const bool collective = dl_scenario_is_collective(scenario, mode), several = point->workers > 1;
    const bool with_state = mode->options & 1u << DL_SYNC_AVERAGE_STATE && scenario->average_state;
    const bool slows = mode == &dl_mode_allreduce && lags(point);
    unsigned needs = DL_NEED_OPS | DL_NEED_DISPATCH | DL_NEED_INPUT;
    needs |= mode->needs & (DL_NEED_PARAMETERS | DL_NEED_STATE);
    if (with_state) needs |= DL_NEED_STATE;
    if (dl_point_workers_per_gpu(point) > 1) needs |= DL_NEED_SHARING;
    if (several && (slows || (collective && options->overlap))) needs |= DL_NEED_OVERLAP;
    if (collective || !(mode->needs & DL_NEED_PARAMETERS)) return needs;
    if (options->where != DL_WHERE_CPU) return needs;
    needs |= mode->needs & (DL_NEED_AVERAGE | DL_NEED_UPDATE);
    if (options->pageable) needs |= DL_NEED_PAGEABLE;
    if (several && mode->wait & DL_MODE_WAIT_BARRIER) needs |= DL_NEED_BARRIER;
    if (several && mode->wait & DL_MODE_WAIT_LOCK) needs |= DL_NEED_LOCK;
    return needs;
}

/* A worker's GPU and its part of the batch. */
typedef struct share {
    int model;
    int64_t samples;
} share;

/* [workers], the caller's to free. */
static share *shares_of(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    const size_t workers = (size_t)point->workers;
    share *shares = dl_calloc(workers, sizeof *shares, "shares");
    int *models = dl_calloc(workers, sizeof *models, "models");
    int64_t *samples = dl_calloc(workers, sizeof *samples, "shares");
    dl_point_models(scenario, point, models);
    dl_point_shares(scenario, costs, point, samples);
    for (size_t w = 0; w < workers; w++)
        shares[w] = (share){models[w], samples[w]};
    free(models);
    free(samples);
    return shares;
}

/* Samples in a micro-batch of a worker that has `samples` in a step. */
static int64_t micro_batch(const dl_point *point, int64_t samples)
{
    if (dl_point_is_split(point)) return samples / point->micro_batches;
    return samples / (int64_t)point->option[DL_SYNC_ACCUMULATE];
}

/* What the worker needs of its GPU. The vectors are the costs', activations those of its model. */
static double model_bytes(const dl_costs *costs, const share *own, const dl_point *point)
{
    dl_costs with = *costs;
    with.gpu_memory = dl_costs_of_model(costs, own->model)->gpu_memory;
    return dl_gpu_own_bytes(&with, (double)micro_batch(point, own->samples));
}

static bool are_processes(const dl_scenario *scenario)
{
    return scenario->gpu == NULL && scenario->processes == DL_PROCESSES_YES;
}

static const dl_platform *platform_of(const dl_scenario *scenario)
{
    if (scenario->gpu != NULL) return &dl_platform_gpu;
    return are_processes(scenario) ? &dl_platform_processes : &dl_platform_cpu;
}

/* Whether the workers are processes that exchange by all-reduces, measured as a whole. */
static bool reduces(const dl_scenario *scenario, const dl_point *point)
{
    const dl_mode *mode = point->mode;
    return are_processes(scenario) && (mode == &dl_mode_allreduce || mode == &dl_mode_average);
}

static const dl_collective_cost *find_of_processes(const dl_costs *costs, const dl_point *point,
                                                   int kind)
{
    return dl_collective_cost_find(costs->collectives, costs->collective_count, kind,
                                   point->workers, kind < 0 ? 0 : 1);
}

/* Whether a step of processes starts with a broadcast of buffers. */
static bool broadcasts(const dl_costs *costs, const dl_point *point)
{
    return point->mode == &dl_mode_allreduce && point->workers > 1 &&
           costs->broadcast_bytes.known && costs->broadcast_bytes.value > 0;
}

/* Whether the workers are processes that push to a server and pull from it. */
static bool calls_server(const dl_scenario *scenario, const dl_point *point)
{
    return are_processes(scenario) && !reduces(scenario, point) &&
           (point->mode->needs & DL_NEED_COPY) != 0;
}

char *dl_run_collective_missing(const dl_scenario *scenario, const dl_costs *costs,
                                const dl_point *point)
{
    if (calls_server(scenario, point) && find_of_processes(costs, point, DL_ROUNDTRIP) == NULL) {
        return dl_format("[roundtrip %d]", point->workers);
    }
    if (!reduces(scenario, point) || point->workers == 1) return NULL;
    if (find_of_processes(costs, point, DL_ALLREDUCE) == NULL) {
        return dl_format("[collective allreduce %d]", point->workers);
    }
    if (!broadcasts(costs, point) || find_of_processes(costs, point, DL_BROADCAST) != NULL) {
        return NULL;
    }
    return dl_format("[collective broadcast %d]", point->workers);
}

/* What an exchange of processes adds to a step whose backward pass takes backward_ns: gradients
 * bucket by bucket, from when they are ready on, and buffers, as DistributedDataParallel does. */
static double reduce_ns(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                        double backward_ns)
{
    const dl_process_reduces of = {
        .alone = find_of_processes(costs, point, DL_ALLREDUCE),
        .pair = find_of_processes(costs, point, DL_ALLREDUCE_PAIR),
        .beside = find_of_processes(costs, point, DL_ALLREDUCE_BESIDE),
    };
    if (!reduces(scenario, point) || of.alone == NULL) return 0; /* one worker */
    double ns = 0;
    if (broadcasts(costs, point)) {
        ns += dl_collective_cost_ns(find_of_processes(costs, point, DL_BROADCAST),
                                    costs->broadcast_bytes.value);
    }
    if (point->mode == &dl_mode_allreduce && costs->gradient_count > 0) {
        return ns + dl_buckets_ns(&of, costs->gradients, costs->gradient_count, backward_ns);
    }
    const double parts = fragments(scenario, point);
    const bool with_state = point->mode == &dl_mode_average && scenario->average_state;
    return ns + dl_collective_cost_ns(of.alone, (double)costs->parameter_bytes / parts) +
           (with_state ? dl_collective_cost_ns(of.alone, (double)costs->state_bytes / parts) : 0);
}

/* Waits of processes are in what their exchange takes as a whole. */
static unsigned without_waits(const dl_scenario *scenario, const dl_point *point, unsigned needs)
{
    if (!are_processes(scenario)) return needs;
    needs &= ~(unsigned)(DL_NEED_MEMORY | DL_NEED_BARRIER | DL_NEED_WAKEUP | DL_NEED_LOCK |
                         DL_NEED_COPY);
    return reduces(scenario, point) ? needs & ~(unsigned)DL_NEED_AVERAGE : needs;
}

unsigned dl_run_needs(const dl_scenario *scenario, const dl_point *point)
{
    unsigned needs = scenario->gpu != NULL ? gpu_needs(scenario, point)
                                           : dl_mode_needs(point->mode, agents(point), point->cores,
                                                           scenario->average_state);
    needs = without_waits(scenario, point, needs);
    if (scenario->gpu == NULL && point->option[DL_SYNC_ACCUMULATE] > 1) {
        needs |= DL_NEED_AVERAGE | DL_NEED_PARAMETERS;
    }
    return needs | (scenario->noise == DL_NOISE_TRACE ? DL_NEED_NOISE : 0);
}

dl_origin dl_run_origin(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    dl_origin origin = dl_costs_worst_origin(costs, dl_run_needs(scenario, point));
    const bool split = dl_point_is_split(point);
    if (split) origin = dl_pipeline_origin(&scenario->pipeline->options, costs, origin);
    const bool exchanges = split || point->mode->needs & DL_NEED_PARAMETERS;
    if (scenario->gpu == NULL || !exchanges) return origin;
    dl_gpu_options at;
    dl_gpu_options_at_point(scenario->gpu, costs, point->workers, point->gpus, &at);
    const dl_origin machine = dl_gpu_options_origin(&at);
    dl_gpu_options_free_at_point(&at);
    return machine < origin ? machine : origin;
}

dl_gpu_memory dl_run_memory(const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point)
{
    if (scenario->gpu == NULL) return (dl_gpu_memory){(double)NAN, (double)NAN};
    if (dl_point_is_split(point)) return split_memory(scenario, costs, point);
    const bool exchanges = point->mode->needs & DL_NEED_PARAMETERS;
    const bool served = exchanges && !dl_scenario_is_collective(scenario, point->mode);
    const dl_gpu_options options = dl_point_gpu_options(scenario, point);
    double *own_bytes = dl_calloc((size_t)point->workers, sizeof *own_bytes, "needs of GPUs");
    share *shares = shares_of(scenario, costs, point);
    for (int w = 0; w < point->workers; w++)
        own_bytes[w] = model_bytes(costs, &shares[w], point);
    const dl_gpu_point gpu_point = {
        .stride = 1,
        .workers = point->workers,
        .own_bytes = own_bytes,
        .served_bytes = served ? (double)costs->parameter_bytes : 0,
    };
    const dl_gpu_memory memory = dl_gpu_options_memory(&options, &gpu_point);
    free(shares);
    free(own_bytes);
    return memory;
}

bool dl_run_extrapolates(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    bool beyond = false;
    share *shares = shares_of(scenario, costs, point);
    for (int w = 0; w < point->workers; w++) {
        const dl_costs *own = dl_costs_of_model(costs, shares[w].model);
        const int64_t batch = micro_batch(point, shares[w].samples);
        beyond |= own->batch_min > 0 && batch < own->batch_min;
        beyond |= own->batch_max > 0 && batch > own->batch_max;
    }
    free(shares);
    if (beyond) return true;
    if (point->cores == DL_CORES_GPU) {
        return dl_point_workers_per_gpu(point) > dl_sharing_known(costs);
    }
    if (agents(point) == 1) return false;
    if (agents(point) > dl_sharing_known(costs)) return true;
    return costs->cores > 0 && point->cores != costs->cores;
}

int64_t dl_run_steps(const dl_scenario *scenario, const dl_point *point)
{
    int64_t interval = (int64_t)point->option[DL_SYNC_INTERVAL];
    if (scenario->warmup > 0) return scenario->warmup + scenario->steps;
    return (scenario->steps + interval - 1) / interval * interval;
}

/* --- results -------------------------------------------------------------------------------- */

/* Standard deviation and quantiles of steps_s[count], which get sorted. */
static void spread_of_steps(double *steps_s, size_t count, dl_run_result *result)
{
    result->step_sd_s = count > 1 ? gsl_stats_sd(steps_s, 1, count) : 0;
    gsl_sort(steps_s, 1, count);
    result->step_p50_s = gsl_stats_quantile_from_sorted_data(steps_s, 1, count, 0.5);
    result->step_p99_s = gsl_stats_quantile_from_sorted_data(steps_s, 1, count, 0.99);
}

dl_part dl_part_of(dl_worker_state state)
{
    switch (state) {
    case DL_STATE_COMPUTE:
    case DL_STATE_UPDATE: return DL_PART_COMPUTE;
    case DL_STATE_DISPATCH: return DL_PART_DISPATCH;
    case DL_STATE_INPUT: return DL_PART_INPUT;
    case DL_STATE_PUSH:
    case DL_STATE_PULL:
    case DL_STATE_ALLREDUCE: return DL_PART_COMMUNICATION;
    case DL_STATE_AVERAGE: return DL_PART_AVERAGING;
    case DL_STATE_BARRIER:
    case DL_STATE_LOCK:
    case DL_STATE_WAIT:
    case DL_STATE_COUNT: break;
    }
    return DL_PART_WAITING;
}

static bool are_equal(const share *shares, int workers)
{
    for (int w = 1; w < workers; w++)
        if (shares[w].samples != shares[0].samples) return false;
    return true;
}

/* Throughput is that of the whole span: workers that share cores take turns in long time slices, so
 * the rates that each has while it is at work add up to more than the cores can do. */
static void measure_throughput(const dl_team *team, const dl_point *point, const share *shares,
                               dl_run_result *result)
{
    const bool equal = are_equal(shares, point->workers);
    int64_t done = 0, lost = 0, left_over = 0, span_ns = 0, first_ns = INT64_MAX;
    double samples = 0;
    int64_t since_ns = INT64_MAX;
    for (int w = 0; w < result->workers; w++) {
        const dl_worker *worker = &team->workers[w];
        done += worker->steps_done - worker->warm_up_steps;
        if (worker->measured_since_ns < since_ns) since_ns = worker->measured_since_ns;
        lost += worker->dropped;
        left_over += worker->left_over;
        samples += (double)(worker->steps_done - worker->warm_up_steps - worker->dropped) *
                   (double)shares[w].samples;
        if (worker->last_end_ns > span_ns) span_ns = worker->last_end_ns;
        if (worker->steps_done == team->config.steps && worker->last_end_ns < first_ns) {
            first_ns = worker->last_end_ns;
        }
    }
    span_ns -= since_ns;
    first_ns -= since_ns;
    result->samples =
        equal ? (double)(done - lost) * (double)point->batch / point->workers : samples;
    result->span_s = dl_ns_to_s((double)span_ns);
    result->throughput_per_s = result->samples / result->span_s;
    if (!team->config.each_ends) result->tail_frac = (double)(span_ns - first_ns) / (double)span_ns;
    result->applied_frac = 1 - (double)(lost + left_over) / (double)done;
}

static void measure_steps(const dl_team *team, dl_run_result *result)
{
    size_t count = 0;
    int workers = 0; /* with a step; learners may leave before they have done one */
    for (int w = 0; w < result->workers; w++) {
        const int64_t steps = team->workers[w].steps_done - team->workers[w].warm_up_steps;
        count += (size_t)steps;
        workers += steps > 0;
    }
    double *all = dl_calloc(count, sizeof *all, "step times");
    size_t used = 0;
    for (int w = 0; w < result->workers; w++) {
        const dl_worker *worker = &team->workers[w];
        const int64_t first = worker->warm_up_steps;
        for (int64_t s = first; s < worker->steps_done; s++)
            all[used++] = dl_ns_to_s((double)worker->step_ns[s]);
        result->worker_step_s[w] = (double)NAN;
        if (worker->steps_done == first) continue;
        result->worker_step_s[w] =
            dl_ns_to_s((double)(worker->last_end_ns - worker->measured_since_ns)) /
            (double)(worker->steps_done - first);
        result->step_mean_s += result->worker_step_s[w] / workers;
    }
    spread_of_steps(all, count, result);
    free(all);
}

/* The compute state is one piece of work in the simulation; its time goes to its parts in the
 * proportion of their work. */
static void split_compute(const dl_team *team, int number, double *part_ns)
{
    if (team->config.platform == &dl_platform_gpu) {
        part_ns[DL_PART_COMPUTE] += (double)team->workers[number].state_ns[DL_STATE_COMPUTE];
        return;
    }
    const dl_worker *worker = &team->workers[number];
    const dl_workload *workload = team->config.workload;
    double slow = team->config.slow != NULL ? team->config.slow[number] : 1;
    double update_ns = worker->updates_at_once ? workload->update_ns : 0;
    double work_ns = worker->compute_ns + update_ns;
    double time_ns = (double)worker->state_ns[DL_STATE_COMPUTE];
    double scale = work_ns > 0 ? time_ns / work_ns : 0;
    part_ns[DL_PART_INPUT] += scale * workload->input_ns;
    part_ns[DL_PART_DISPATCH] += scale * workload->dispatch_ns;
    part_ns[DL_PART_COMPUTE] += scale * (slow * workload->compute_ns + update_ns);
}

static void measure_parts(const dl_team *team, dl_run_result *result)
{
    double part_ns[DL_PART_COUNT] = {0}, sum_ns = 0;
    for (int w = 0; w < result->workers; w++) {
        const int64_t *state_ns = team->workers[w].state_ns;
        split_compute(team, w, part_ns);
        for (int s = 0; s < DL_STATE_COUNT; s++) {
            if (s == DL_STATE_COMPUTE) continue;
            part_ns[dl_part_of((dl_worker_state)s)] += (double)state_ns[s];
        }
        part_ns[DL_PART_WAITING] += (double)team->workers[w].queue_ns;
    }
    for (int p = 0; p < DL_PART_COUNT; p++)
        sum_ns += part_ns[p];
    for (int p = 0; p < DL_PART_COUNT; p++)
        result->part_frac[p] = part_ns[p] / sum_ns;
}

static void measure_staleness(const dl_team *team, dl_run_result *result)
{
    int most = -1;
    for (int w = 0; w < result->workers; w++) {
        const dl_worker *worker = &team->workers[w];
        for (int64_t s = 0; s < worker->steps_done; s++) {
            if (worker->staleness_log[s] > most) most = worker->staleness_log[s];
        }
    }
    result->staleness_bins = most + 1;
    if (most < 0) return;
    size_t bins = (size_t)most + 1;
    result->staleness =
        dl_calloc(bins * (size_t)result->workers, sizeof *result->staleness, "staleness counts");
    for (int w = 0; w < result->workers; w++) {
        const dl_worker *worker = &team->workers[w];
        for (int64_t s = 0; s < worker->steps_done; s++) {
            if (worker->staleness_log[s] == DL_NO_STALENESS_YET) continue;
            result->staleness[(size_t)w * bins + (size_t)worker->staleness_log[s]]++;
        }
    }
}

static void measure_syncer(const dl_team *team, dl_run_result *result)
{
    const int64_t *merge_ns;
    const int64_t merges = dl_syncer_merges(team, &merge_ns);
    const dl_upload_counts counts = dl_syncer_counts(team);
    dl_syncer_result *syncer = result->syncer = dl_calloc(1, sizeof *syncer, "figures of merges");
    *syncer = (dl_syncer_result){
        .uploaded = (double)counts.uploaded,
        .applied = (double)counts.applied,
        .too_stale = (double)counts.too_stale,
        .superseded = (double)counts.superseded,
        .unmerged = (double)counts.unmerged,
        .merges = (double)merges,
        .outer_step_mean_s = (double)NAN,
        .outer_step_p50_s = (double)NAN,
        .outer_step_p95_s = (double)NAN,
    };
    result->applied_frac = (double)counts.applied / (double)counts.uploaded;
    syncer->goodput_frac = dl_syncer_goodput(team);
    if (merges == 0) return;
    double *outer_s = dl_calloc((size_t)merges, sizeof *outer_s, "outer steps");
    for (int64_t m = 0; m < merges; m++)
        outer_s[m] = dl_ns_to_s((double)(merge_ns[m] - (m > 0 ? merge_ns[m - 1] : 0)));
    syncer->outer_step_mean_s = dl_ns_to_s((double)merge_ns[merges - 1]) / (double)merges;
    gsl_sort(outer_s, 1, (size_t)merges);
    syncer->outer_step_p50_s = gsl_stats_quantile_from_sorted_data(outer_s, 1, (size_t)merges, 0.5);
    syncer->outer_step_p95_s =
        gsl_stats_quantile_from_sorted_data(outer_s, 1, (size_t)merges, 0.95);
    free(outer_s);
}

static void measure(const dl_team *team, const dl_point *point, const share *shares,
                    dl_run_result *result)
{
    result->workers = point->workers;
    result->worker_step_s =
        dl_calloc((size_t)point->workers, sizeof *result->worker_step_s, "mean steps");
    measure_throughput(team, point, shares, result);
    measure_steps(team, result);
    measure_parts(team, result);
    if (point->mode->staleness == DL_MODE_STALENESS_SOME) measure_staleness(team, result);
    team->config.platform->measure(team, &result->usage);
    dl_usage_note(&result->usage, "lock", (double)team->lock_busy_ns / (double)team->engine.now_ns);
    result->events = team->engine.handled;
    bool drifts = point->mode->options & 1u << DL_SYNC_INTERVAL;
    result->drift_steps_mean =
        drifts ? (double)team->drift_sum / (double)team->steps_started : (double)NAN;
    result->drift_steps_max = drifts ? (double)team->drift_max : (double)NAN;
    result->updates = team->version;
    result->updates_per_s = (double)team->version / dl_ns_to_s((double)team->engine.now_ns);
    result->clock_lag_max = (double)team->clock_lag_max;
    if (team->syncer != NULL) measure_syncer(team, result);
}

/* The errors of a run that has ended. */
static dl_status check_time(const dl_engine *engine, const dl_run_config *config, dl_error *err)
{
    if (engine->now_ns > 0 && !engine->too_long) return DL_OK;
    char text[DL_POINT_TEXT_BYTES];
    return dl_error_set_at(err, engine->too_long ? DL_ERR_RANGE : DL_ERR_DATA, config->costs->path,
                           0, "%s (point: %s)",
                           engine->too_long ? "the run takes more than 146 years"
                                            : "a step takes no time",
                           dl_point_text(text, sizeof text, config->point));
}

/* --- results of split models ---------------------------------------------------------------- */

/* Steps of a replica end when its last stage has updated. Counted are those that were started
 * before the first replica had done all its steps, as of workers that are not split
 * (sim/team.h). */
static void measure_split_steps(const dl_pipeline *p, const dl_point *point, dl_run_result *result)
{
    const int64_t steps = p->config.steps;
    const int replicas = p->config.replicas;
    double *all = dl_calloc((size_t)(replicas * steps), sizeof *all, "step times");
    int64_t first_ns = INT64_MAX, span_ns = 0;
    size_t count = 0;
    for (int r = 0; r < replicas; r++) {
        const int64_t last_ns = p->step_end_ns[r * steps + steps - 1];
        if (last_ns < first_ns) first_ns = last_ns;
    }
    for (int r = 0; r < replicas; r++) {
        const int64_t *end_ns = &p->step_end_ns[r * steps];
        int64_t k = 0, before_ns = 0;
        for (; k < steps && before_ns < first_ns; before_ns = end_ns[k++])
            all[count++] = dl_ns_to_s((double)(end_ns[k] - before_ns));
        if (before_ns > span_ns) span_ns = before_ns;
        result->worker_step_s[r] = dl_ns_to_s((double)before_ns) / (double)k;
        result->step_mean_s += result->worker_step_s[r] / replicas;
    }
    result->samples = (double)count * (double)point->batch / replicas;
    result->span_s = dl_ns_to_s((double)span_ns);
    result->throughput_per_s = result->samples / result->span_s;
    result->tail_frac = (double)(span_ns - first_ns) / (double)span_ns;
    spread_of_steps(all, count, result);
    free(all);
}

static void measure_split_parts(const dl_pipeline *p, dl_run_result *result)
{
    const int stages = p->config.split.stages;
    double sum_ns = 0, stage_ns[DL_STAGES_MAX] = {0};
    for (int g = 0; g < p->gpu_count; g++) {
        const int stage = dl_pipeline_stage(p, g);
        for (int s = 0; s < DL_STATE_COUNT; s++) {
            const double ns = (double)p->gpus[g].state_ns[s];
            const dl_part part = dl_part_of((dl_worker_state)s);
            result->part_frac[part] += ns;
            if (s == DL_STATE_WAIT) result->split->bubble_frac += ns;
            if (part == DL_PART_COMPUTE) result->split->busy_frac[stage] += ns;
            stage_ns[stage] += ns;
            sum_ns += ns;
        }
    }
    for (int part = 0; part < DL_PART_COUNT; part++)
        result->part_frac[part] /= sum_ns;
    result->split->bubble_frac /= sum_ns;
    for (int s = 0; s < stages; s++)
        result->split->busy_frac[s] /= stage_ns[s];
}

static void measure_split_usage(const dl_pipeline *p, dl_run_result *result)
{
    dl_usage *usage = &result->usage;
    char name[DL_RESOURCE_NAME_BYTES];
    const double span_ns = (double)p->engine.now_ns;
    for (int s = 0; s < p->config.split.stages; s++) {
        snprintf(name, sizeof name, "stage %d", s);
        dl_usage_note(usage, name, result->split->busy_frac[s]);
    }
    for (int t = 0; t < p->host_count; t++) {
        snprintf(name, sizeof name, "host thread %d", t);
        dl_usage_note(usage, name, (double)p->config.steps * (double)p->hosts[t].step_ns / span_ns);
    }
    (void)dl_usage_note_links(usage, &p->network, &p->config.options->links, dl_ns_to_s(span_ns));
    dl_usage_note(usage, usage->link, usage->link_frac);
    usage->traffic_bytes = p->crossed_bytes + p->reduced_bytes;
}

static void measure_split(const dl_pipeline *p, const dl_point *point, dl_run_result *result)
{
    const double steps = (double)p->config.steps;
    const bool updates = point->mode->needs & DL_NEED_PARAMETERS;
    *result = (dl_run_result){
        .workers = point->workers,
        .applied_frac = 1,
        .updates = updates ? p->config.steps : 0,
        .drift_steps_mean = (double)NAN,
        .drift_steps_max = (double)NAN,
        .events = p->engine.handled,
        .worker_step_s = dl_calloc((size_t)point->workers, sizeof(double), "mean steps"),
        .split = dl_calloc(1, sizeof *result->split, "figures of stages"),
    };
    result->updates_per_s = (double)result->updates / dl_ns_to_s((double)p->engine.now_ns);
    result->split->stages = point->stages;
    result->split->crossed_bytes = p->crossed_bytes / steps;
    result->split->reduced_bytes = p->reduced_bytes / steps;
    measure_split_steps(p, point, result);
    measure_split_parts(p, result);
    measure_split_usage(p, result);
}

/* --- running a split model ------------------------------------------------------------------ */

static dl_status run_pipeline(const dl_pipeline_config *config, const dl_run_config *run,
                              dl_run_result *result, dl_error *err)
{
    dl_pipeline pipeline;
    dl_status status = dl_pipeline_init(&pipeline, config, err);
    if (status != DL_OK) return status;
    dl_pipeline_run(&pipeline);
    status = check_time(&pipeline.engine, run, err);
    if (status == DL_OK) measure_split(&pipeline, run->point, result);
    dl_pipeline_free(&pipeline);
    return status;
}

/* What a run's compute_log makes of the times of a GPU of that model. */
static double compute_factor(const dl_run_config *run, int model)
{
    const dl_costs *costs = run->costs;
    double most = 0;
    if (!run->by_spread || costs->model_count == 0) return exp(run->compute_log);
    for (int m = 0; m < costs->model_count; m++)
        most = fmax(most, costs->models[m].spread_log);
    return exp(run->compute_log * (most > 0 ? costs->models[model].spread_log / most : 1));
}

/* Stages have the times of the costs: those of GPUs of other models are as much slower as theirs
 * are for the micro-batch. */
static void slow_by_model(const dl_run_config *run, const dl_costs *costs, double *slow)
{
    const dl_scenario *scenario = run->scenario;
    const dl_point *point = run->point;
    const dl_machine *m = &scenario->gpu->machine;
    const double samples = dl_point_split(point).samples;
    const double plain_ns =
        dl_costs_step_ns(costs, samples, "forward") + dl_costs_step_ns(costs, samples, "backward");
    for (int d = 0; d < point->workers * point->stages && costs->model_count > 0; d++) {
        const dl_place place = dl_gpu_options_place(scenario->gpu, d);
        const int model = dl_machine_model_number(m, place.node, place.index);
        slow[d] *= (dl_costs_model_step_ns(costs, model, samples, "forward") +
                    dl_costs_model_step_ns(costs, model, samples, "backward")) /
                   plain_ns * compute_factor(run, model) / exp(run->compute_log);
    }
}

/* A slow worker is slow in all stages; GPUs of one model differ each for itself. */
static double *slow_devices(const dl_scenario *scenario, const dl_gpu_options *gpus,
                            const dl_costs *costs, const dl_point *point)
{
    const int stages = dl_point_is_split(point) ? point->stages : 1,
              count = point->workers * stages;
    double *slow = dl_calloc((size_t)count, sizeof *slow, "slow GPUs");
    double *workers = dl_calloc((size_t)point->workers, sizeof *workers, "slow workers");
    dl_scenario_slow(scenario, point->workers, workers);
    for (int d = 0; d < count; d++)
        slow[d] = workers[d / stages];
    if (gpus != NULL) {
        dl_gpus_spread(costs, count, dl_point_gpus(point), slow);
        dl_gpus_boards(gpus, costs, count, slow);
    }
    free(workers);
    return slow;
}

static dl_status run_split(const dl_run_config *run, const dl_costs *costs, dl_run_result *result,
                           dl_error *err)
{
    const dl_scenario *scenario = run->scenario;
    const dl_point *point = run->point;
    const dl_pipeline_options *options = &scenario->pipeline->options;
    const double factor = exp(run->compute_log); /* slow_by_model takes some of it back */
    dl_stage stages[DL_STAGES_MAX];
    dl_status status = find_stages(scenario, run->costs, costs, point, stages, err);
    if (status != DL_OK) return status;
    for (int s = 0; s < point->stages; s++) {
        stages[s].forward_ns *= factor;
        stages[s].backward_ns *= factor;
        stages[s].update_ns *= factor;
    }
    const dl_split split = dl_point_split(point);
    dl_workload workload;
    dl_workload_init(&workload, costs, split.samples);
    workload.input_ns =
        fmax(0, dl_costs_step_ns(costs, split.samples * split.micro_batches, "input"));
    double *slow = slow_devices(scenario, scenario->gpu, costs, point);
    slow_by_model(run, costs, slow);
    dl_gpu_options gpus;
    dl_gpu_options_at_point(scenario->gpu, costs, point->workers, NULL, &gpus);
    const dl_noise_config noise = {
        .kind = scenario->noise,
        .sigma = scenario->sigma,
        .set = dl_costs_noise(costs, split.samples, (size_t)dl_point_gpus(point))};
    const dl_pipeline_config config = {
        .options = &gpus,
        .workload = &workload,
        .stages = stages,
        .split = split,
        .schedule = scenario->pipeline->schedule,
        .replicas = point->workers,
        .steps = dl_run_steps(scenario, point),
        .reduces = split_exchanges(point),
        .without_waits = options->without_bubble,
        .free_crossing = options->without_activations,
        .with_input = dl_costs_have_input(costs),
        .input_bytes = costs->input_bytes_per_sample.value * split.samples * split.micro_batches,
        .noise = &noise,
        .seed = (uint64_t)scenario->seed,
        .replicate = run->replicate,
        .slow = slow,
        .observer = run->observer,
    };
    status = run_pipeline(&config, run, result, err);
    dl_gpu_options_free_at_point(&gpus);
    free(slow);
    return status;
}

/* --- running -------------------------------------------------------------------------------- */

bool dl_run_varies(const dl_scenario *scenario, const dl_costs *costs)
{
    if (scenario->noise != DL_NOISE_NONE) return true;
    return scenario->gpu != NULL && scenario->gpu->input_varies && dl_costs_have_input(costs);
}

/* The GPUs of a point, for the team whose engine it is; NULL for workers on cores. */
static dl_status create_gpus(dl_gpus **gpus, const dl_gpu_options *options,
                             const dl_run_config *config, const dl_costs *costs,
                             const dl_workload *workload, const dl_gpu_step *step,
                             dl_engine *engine, dl_error *err)
{
    const dl_scenario *scenario = config->scenario;
    const dl_mode *mode = config->point->mode;
    *gpus = NULL;
    if (scenario->gpu == NULL) return DL_OK;
    bool with_state = mode->options & 1u << DL_SYNC_AVERAGE_STATE && scenario->average_state;
    const dl_gpus_config gpus_config = {
        .options = options,
        .workload = workload,
        .step = step,
        .costs = costs,
        .engine = engine,
        .workers = config->point->workers,
        .server_threads = scenario->server_threads,
        .collective = dl_scenario_is_collective(scenario, mode) && mode != &dl_mode_none,
        .overlap = scenario->gpu->overlap && (mode == &dl_mode_allreduce || mode == &dl_mode_ps),
        .ps = mode == &dl_mode_ps && !lags(config->point),
        .slows = config->point->workers > 1 && mode == &dl_mode_allreduce &&
                 (scenario->gpu->overlap || lags(config->point)),
        .with_input = dl_costs_have_input(costs),
        .seed = (uint64_t)scenario->seed,
        .replicate = config->replicate,
        .with_buffers = mode == &dl_mode_allreduce && !lags(config->point) &&
                        config->point->workers > 1 && workload->buffer_bytes > 0,
        .inside_bytes = reduces_inside(scenario, config->point) && costs->parameter_bytes > 0
                            ? (double)costs->parameter_bytes
                            : 0,
        .connects = mode != &dl_mode_allreduce,
        .exchanges = (double)dl_run_steps(scenario, config->point) *
                     fragments(scenario, config->point) /
                     fmax(1, config->point->option[DL_SYNC_INTERVAL]),
        .content_bytes = workload->parameter_bytes + (with_state ? workload->state_bytes : 0),
    };
    return dl_gpus_create(gpus, &gpus_config, err);
}

/* The work of a step of a worker with the costs of this draw. */
static void init_workload(dl_workload *workload, const dl_run_config *config, const dl_costs *costs,
                          const share *own)
{
    const dl_scenario *scenario = config->scenario;
    const dl_point *point = config->point;
    const double batch = (double)micro_batch(point, own->samples);
    dl_workload_init(workload, costs, batch);
    if (costs->model_count > 0) dl_workload_set_model(workload, costs, own->model, batch);
    workload->parameter_bytes /= fragments(scenario, point);
    workload->state_bytes /= fragments(scenario, point);
    const double factor = compute_factor(config, own->model);
    workload->compute_ns *= factor;
    workload->backward_ns *= factor;
    workload->update_ns *= factor;
    dl_workload_accumulate(workload, (int)point->option[DL_SYNC_ACCUMULATE], scenario->gpu == NULL);
    if (scenario->noise == DL_NOISE_TRACE && point->workers > 1 && costs->exchange_run_count > 0) {
        dl_workload_exchange_run(
            workload,
            &costs->exchange_runs[dl_noise_run(config->replicate, costs->exchange_run_count)]);
    }
    if (are_processes(scenario)) {
        workload->barrier_ns = workload->lock_ns = workload->wakeup_ns = 0;
        workload->memory_bytes_per_ns = INFINITY;
    }
    if (scenario->gpu == NULL) return;
    unsigned needs = dl_run_needs(scenario, point);
    if (!(needs & DL_NEED_BARRIER)) workload->barrier_ns = 0;
    if (!(needs & DL_NEED_LOCK)) workload->lock_ns = 0;
}

/* The steps of all workers; NULL for workers on cores. The caller's to free. */
static dl_gpu_step *gpu_steps(const dl_run_config *config, const dl_costs *costs,
                              const share *shares)
{
    const int workers = config->point->workers;
    if (config->scenario->gpu == NULL) return NULL;
    dl_gpu_step *steps = dl_calloc((size_t)workers, sizeof *steps, "steps of GPUs");
    for (int w = 0; w < workers; w++) {
        const share *own = &shares[w];
        if (w > 0 && own->model == shares[w - 1].model && own->samples == shares[w - 1].samples) {
            steps[w] = steps[w - 1];
            continue;
        }
        dl_workload workload;
        init_workload(&workload, config, costs, own);
        steps[w] = (dl_gpu_step){
            .compute_ns = workload.compute_ns,
            .backward_ns = workload.backward_ns,
            .update_ns = workload.update_ns,
            .input_ns = workload.input_ns,
            .input_bytes = costs->input_bytes_per_sample.value * (double)own->samples,
        };
    }
    return steps;
}

/* Of GPUs' steps without noise and exchange; NULL for workers on cores. Batches that are made ahead
 * take no time of a step, nor do launches ahead, unless they take longer than all else. The caller's to
 * free. */
static double *steps_alone_ns(const dl_gpu_step *steps, const dl_gpu_options *gpu,
                              const dl_workload *workload, const double *slow, int workers)
{
    if (steps == NULL) return NULL;
    const double launch_ns = workload->serial_ns + workload->dispatch_ns + workload->per_worker_ns;
    double *alone_ns = dl_calloc((size_t)workers, sizeof *alone_ns, "times of steps");
    for (int w = 0; w < workers; w++) {
        const double input_ns = gpu->prefetch == 0 ? steps[w].input_ns : 0;
        const double gpu_ns = input_ns + slow[w] * steps[w].compute_ns + steps[w].update_ns;
        alone_ns[w] = gpu->ahead == 0 ? launch_ns + gpu_ns : fmax(launch_ns, gpu_ns);
    }
    return alone_ns;
}

static bool has_steps(const dl_team *team)
{
    for (int w = 0; w < team->config.workers; w++)
        if (team->workers[w].steps_done > 0) return true;
    return false;
}

/* Runs the team and takes its figures. */
static dl_status run_team(dl_team *team, const dl_run_config *config, const share *shares,
                          dl_run_result *result, dl_error *err)
{
    dl_team_run(team);
    if (dl_team_is_stuck(team)) {
        char text[DL_POINT_TEXT_BYTES];
        return dl_error_set_at(
            err, DL_ERR_DATA, config->scenario->path, 0,
            "workers wait for one another forever: one waits for gradients of "
            "others, whose next steps are not launched before it has ended its own; "
            "[machine] dispatch = per_gpu avoids that (point: %s)",
            dl_point_text(text, sizeof text, config->point));
    }
    dl_status status = check_time(&team->engine, config, err);
    if (status == DL_OK && !has_steps(team)) {
        status = dl_error_set_at(err, DL_ERR_DATA, config->scenario->path, 0,
                                 "[syncer] away: all learners leave before they have done a step");
    }
    if (status != DL_OK) return status;
    *result = (dl_run_result){0};
    if (team->steady_steps_per_ns > 0) {
        const double samples = (double)config->point->batch / config->point->workers;
        result->steady_per_s = samples * team->steady_steps_per_ns / dl_ns_to_s(1);
        return DL_OK;
    }
    measure(team, config->point, shares, result);
    return DL_OK;
}

/* The work that the costs say differs; of k accumulated batches the sum varies by 1 / sqrt(k) as
 * much. Returns what is to be freed after the noise, or NULL. */
static double *take_work(dl_noise_config *noise, const dl_point *point, const dl_costs *costs)
{
    const double batches = fmax(1, point->option[DL_SYNC_ACCUMULATE]);
    if (!costs->work_frac.known || !(costs->work_frac.value > 0)) return NULL;
    noise->work = (dl_work_spread){.sd = costs->work_frac.value / sqrt(batches),
                                   .maximum = costs->work_max.known ? costs->work_max.value : 0};
    if (noise->kind != DL_NOISE_NONE) return NULL;
    double *expected = dl_calloc((size_t)point->workers, sizeof *expected, "expected work");
    dl_work_expected(&noise->work, expected, (size_t)point->workers);
    noise->expected = expected;
    noise->workers = (size_t)point->workers;
    return expected;
}

static const dl_syncer_config *syncer_of(const dl_scenario *scenario, const dl_point *point)
{
    return point->mode->options & 1u << DL_SYNC_SYNCER ? &scenario->syncer : NULL;
}

dl_status dl_run(const dl_run_config *config, dl_run_result *result, dl_error *err)
{
    const dl_scenario *scenario = config->scenario;
    const dl_point *point = config->point;
    const int workers = point->workers, threads = scenario->server_threads;
    const int cores = scenario->gpu != NULL ? agents(point) : point->cores;
    const int at_once = workers < cores ? workers : cores;
    const dl_syncer_config *syncer = syncer_of(scenario, point);
    const int64_t steady_after = syncer == NULL ? config->steady_after : 0;
    dl_costs costs;
    dl_random stream;
    dl_random_init(&stream, (uint64_t)scenario->seed, config->draw, 0, COST_STREAM);
    dl_costs_draw(config->costs, config->draw > 0 ? &stream : NULL, &costs);
    if (dl_point_is_split(point)) {
        const dl_status split = run_split(config, &costs, result, err);
        dl_costs_draw_free(&costs);
        return split;
    }
    dl_workload workload;
    share *shares = shares_of(scenario, config->costs, point);
    init_workload(&workload, config, &costs, &shares[0]);
    dl_gpu_step *steps = gpu_steps(config, &costs, shares);
    dl_gpu_options options = {0}, *gpu = scenario->gpu != NULL ? &options : NULL;
    if (gpu != NULL) dl_gpu_options_at_point(scenario->gpu, &costs, workers, point->gpus, gpu);
    double *slow = slow_devices(scenario, gpu, &costs, point);
    dl_noise_config noise = {
        .kind = scenario->noise,
        .sigma = scenario->sigma,
        .set = dl_costs_noise(&costs, (double)point->batch / workers, (size_t)at_once)};
    double *expected_work = take_work(&noise, point, &costs);
    const double side_by_side = dl_side_by_side(&costs, workers, cores);
    double *alone_ns = steps_alone_ns(steps, gpu, &workload, slow, workers);
    dl_team team = {0};
    dl_gpus *gpus;
    dl_status status =
        create_gpus(&gpus, &options, config, &costs, &workload, steps, &team.engine, err);
    if (status == DL_OK) {
        dl_team_init(&team, &(dl_team_config){
                                .platform = platform_of(scenario),
                                .machine = gpus,
                                .costs = &costs,
                                .workload = &workload,
                                .reduces = reduces(scenario, point),
                                .reduce_ns = reduce_ns(scenario, &costs, point,
                                                       side_by_side * workload.backward_ns),
                                .roundtrip = find_of_processes(&costs, point, DL_ROUNDTRIP),
                                .side_by_side = side_by_side,
                                .cores = cores,
                                .workers = workers,
                                .steps = dl_run_steps(scenario, point),
                                /* Work that is dealt out in turn repeats after as many steps as
                                 * there are workers. */
                                .steady_after = expected_work == NULL ? steady_after : 0,
                                .interval = (int64_t)point->option[DL_SYNC_INTERVAL],
                                .warmup = scenario->warmup,
                                .option = point->option,
                                .comm_threads = lags(point),
                                .server_threads = threads < workers ? threads : workers,
                                .average_state = scenario->average_state,
                                .interval_by_speed = scenario->interval_by_speed,
                                .alone_ns = alone_ns,
                                .syncer = syncer,
                                .each_ends = syncer != NULL && syncer->each_ends,
                                .sums_on_arrival = gpu != NULL && gpu->sums_on_arrival,
                                .outer_update = scenario->outer != 0,
                                .fragments = fragments(scenario, point),
                                .reduces_inside = reduces_inside(scenario, point),
                                .advance = point->mode->advance,
                                .noise = &noise,
                                .seed = (uint64_t)scenario->seed,
                                .replicate = config->replicate,
                                .slow = config->without_slow ? NULL : slow,
                                .observer = config->observer,
                            });
        status = run_team(&team, config, shares, result, err);
    }
    dl_team_free(&team);
    dl_gpus_free(gpus);
    if (scenario->gpu != NULL) dl_gpu_options_free_at_point(&options);
    free(alone_ns);
    free(steps);
    free(shares);
    free(slow);
    free(expected_work);
    dl_costs_draw_free(&costs);
    return status;
}

dl_status dl_run_observe(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                         const dl_team_observer *observer, dl_error *err)
{
    dl_run_result result = {0};
    const dl_run_config config = {
        .scenario = scenario, .costs = costs, .point = point, .observer = observer};
    dl_status status = dl_run(&config, &result, err);
    dl_run_result_free(&result);
    return status;
}

void dl_run_result_free(dl_run_result *result)
{
    free(result->worker_step_s);
    free(result->staleness);
    free(result->split);
    free(result->syncer);
    *result = (dl_run_result){0};
}
