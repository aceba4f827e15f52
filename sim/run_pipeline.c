#include "sim/run_pipeline.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/pipeline/pipeline.h"

bool dl_point_is_split(const dl_point *point)
{
    return point->stages > 1;
}

int dl_point_gpus(const dl_point *point)
{
    return point->workers * (dl_point_is_split(point) ? point->stages : 1);
}

static dl_split split_of(const dl_point *point)
{
    return (dl_split){
        .stages = point->stages,
        .micro_batches = point->micro_batches,
        .samples = (double)(point->batch / point->workers / point->micro_batches),
    };
}

static bool exchanges(const dl_point *point)
{
    return point->mode->needs & DL_NEED_PARAMETERS && point->workers > 1;
}

/* --- before the run -------------------------------------------------------------------------- */

dl_status dl_run_split_check(const dl_scenario *scenario, const dl_costs *costs,
                             const dl_point *point, dl_error *err)
{
    int first[DL_STAGES_MAX + 1];
    const dl_split split = split_of(point);
    return dl_pipeline_cut(&scenario->pipeline->options, costs, &split, first, err);
}

char *dl_run_split_missing(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point)
{
    int first[DL_STAGES_MAX + 1];
    const dl_split split = split_of(point);
    if (dl_pipeline_cut(&scenario->pipeline->options, costs, &split, first, NULL)) return NULL;
    return dl_pipeline_missing(&scenario->pipeline->options, costs, &split, first,
                               exchanges(point));
}

dl_origin dl_run_split_origin(const dl_scenario *scenario, const dl_costs *costs, dl_origin others)
{
    dl_origin machine = dl_gpu_options_origin(scenario->gpu);
    dl_origin bytes = dl_pipeline_origin(&scenario->pipeline->options, costs, others);
    return machine < bytes ? machine : bytes;
}

/* The stages with the times of `costs`, cut as `undisturbed` costs say. */
static dl_status find_stages(const dl_scenario *scenario, const dl_costs *undisturbed,
                             const dl_costs *costs, const dl_point *point, dl_stage *stages,
                             dl_error *err)
{
    int first[DL_STAGES_MAX + 1];
    const dl_split split = split_of(point);
    const dl_pipeline_options *options = &scenario->pipeline->options;
    dl_status status = dl_pipeline_cut(options, undisturbed, &split, first, err);
    if (status == DL_OK) dl_pipeline_stages(options, costs, &split, first, stages);
    return status;
}

dl_gpu_memory dl_run_stage_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int stage)
{
    const dl_machine *m = &scenario->gpu->machine;
    dl_stage stages[DL_STAGES_MAX];
    const dl_split split = split_of(point);
    dl_gpu_memory memory = {(double)NAN, (double)NAN};
    if (find_stages(scenario, costs, costs, point, stages, NULL) != DL_OK) return memory;
    memory.needs_bytes =
        dl_pipeline_stage_bytes(costs, &split, scenario->pipeline->schedule, stages, stage);
    for (int r = 0; r < point->workers; r++) {
        const dl_place gpu = dl_gpu_options_place(scenario->gpu, r * point->stages + stage);
        const double has = m->models[m->gpus[gpu.index].model].memory_bytes.value;
        if (!(has >= memory.has_bytes)) memory.has_bytes = has;
    }
    return memory;
}

dl_gpu_memory dl_run_split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point, int *stage)
{
    dl_gpu_memory most = {(double)NAN, (double)NAN};
    *stage = 0;
    for (int s = 0; s < point->stages; s++) {
        dl_gpu_memory memory = dl_run_stage_memory(scenario, costs, point, s);
        if (memory.needs_bytes / memory.has_bytes <= most.needs_bytes / most.has_bytes) continue;
        most = memory;
        *stage = s;
    }
    return most;
}

char *dl_run_split_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    int first[DL_STAGES_MAX + 1];
    const dl_split split = split_of(point);
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

/* --- results --------------------------------------------------------------------------------- */

/* Steps of a replica end when its last stage has updated. Counted are those that were begun before
 * the first replica had done all its steps, as of workers that are not split (sim/team.h). */
static void measure_steps(const dl_pipeline *p, const dl_point *point, dl_run_result *result)
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
    result->step_sd_s = count > 1 ? gsl_stats_sd(all, 1, count) : 0;
    gsl_sort(all, 1, count);
    result->step_p50_s = gsl_stats_quantile_from_sorted_data(all, 1, count, 0.5);
    result->step_p99_s = gsl_stats_quantile_from_sorted_data(all, 1, count, 0.99);
    free(all);
}

static dl_part part_of(dl_worker_state state)
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

static void measure_parts(const dl_pipeline *p, dl_run_result *result)
{
    const int stages = p->config.split.stages;
    double sum_ns = 0, stage_ns[DL_STAGES_MAX] = {0};
    for (int g = 0; g < p->gpu_count; g++) {
        const int stage = dl_pipeline_stage(p, g);
        for (int s = 0; s < DL_STATE_COUNT; s++) {
            const double ns = (double)p->gpus[g].state_ns[s];
            const dl_part part = part_of((dl_worker_state)s);
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

static void measure_links(const dl_pipeline *p, double span_s, dl_usage *usage)
{
    const dl_links *links = &p->config.options->links;
    for (int l = 0; l < p->network.link_count; l++) {
        const double frac =
            dl_network_link_bytes(&p->network, l) / (p->network.capacity[l] * span_s);
        if (frac <= usage->link_frac) continue;
        usage->link_frac = frac;
        dl_links_name(links, l, usage->link);
    }
    dl_usage_note(usage, usage->link, usage->link_frac);
}

static void measure_usage(const dl_pipeline *p, dl_run_result *result)
{
    dl_usage *usage = &result->usage;
    char name[DL_RESOURCE_NAME_BYTES];
    const double span_ns = (double)p->engine.now_ns;
    for (int s = 0; s < p->config.split.stages; s++) {
        snprintf(name, sizeof name, "stage %d", s);
        dl_usage_note(usage, name, result->split->busy_frac[s]);
    }
    for (int t = 0; t < p->issuer_count; t++) {
        snprintf(name, sizeof name, "host thread %d", t);
        dl_usage_note(usage, name,
                      (double)p->config.steps * (double)p->issuers[t].step_ns / span_ns);
    }
    measure_links(p, dl_ns_to_s(span_ns), usage);
    usage->traffic_bytes = p->crossed_bytes + p->reduced_bytes;
}

static void measure(const dl_pipeline *p, const dl_point *point, dl_run_result *result)
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
    measure_steps(p, point, result);
    measure_parts(p, result);
    measure_usage(p, result);
}

/* --- the run --------------------------------------------------------------------------------- */

static dl_status run_pipeline(const dl_pipeline_config *config, const dl_run_config *run,
                              dl_run_result *result, dl_error *err)
{
    dl_pipeline pipeline;
    dl_status status = dl_pipeline_init(&pipeline, config, err);
    if (status != DL_OK) return status;
    dl_pipeline_run(&pipeline);
    status = dl_run_check_time(&pipeline.engine, run, err);
    if (status == DL_OK) measure(&pipeline, run->point, result);
    dl_pipeline_free(&pipeline);
    return status;
}

/* A slow worker is slow in all stages; GPUs of one model differ each for itself. */
static double *slow_gpus(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    const int gpus = dl_point_gpus(point);
    double *slow = dl_calloc((size_t)gpus, sizeof *slow, "slow GPUs");
    double *workers = dl_calloc((size_t)point->workers, sizeof *workers, "slow workers");
    dl_scenario_slow(scenario, point->workers, workers);
    for (int g = 0; g < gpus; g++)
        slow[g] = workers[g / point->stages];
    dl_gpus_spread(costs, gpus, slow);
    dl_gpus_boards(scenario->gpu, costs, gpus, slow);
    free(workers);
    return slow;
}

dl_status dl_run_split(const dl_run_config *run, const dl_costs *costs, dl_run_result *result,
                       dl_error *err)
{
    const dl_scenario *scenario = run->scenario;
    const dl_point *point = run->point;
    const dl_pipeline_options *options = &scenario->pipeline->options;
    const double factor = exp(run->compute_log);
    dl_stage stages[DL_STAGES_MAX];
    dl_status status = find_stages(scenario, run->costs, costs, point, stages, err);
    if (status != DL_OK) return status;
    for (int s = 0; s < point->stages; s++) {
        stages[s].forward_ns *= factor;
        stages[s].backward_ns *= factor;
        stages[s].update_ns *= factor;
    }
    const dl_split split = split_of(point);
    dl_workload workload;
    dl_workload_init(&workload, costs, split.samples);
    workload.input_ns =
        fmax(0, dl_costs_step_ns(costs, split.samples * split.micro_batches, "input"));
    double *slow = slow_gpus(scenario, costs, point);
    dl_gpu_options gpus;
    dl_gpu_options_at_point(scenario->gpu, costs, point->workers, NULL, &gpus);
    const dl_noise_config noise = {
        scenario->noise, scenario->sigma,
        dl_costs_noise(costs, split.samples, (size_t)dl_point_gpus(point))};
    const dl_pipeline_config config = {
        .options = &gpus,
        .workload = &workload,
        .stages = stages,
        .split = split,
        .schedule = scenario->pipeline->schedule,
        .replicas = point->workers,
        .steps = dl_run_steps(scenario, point),
        .reduces = exchanges(point),
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
