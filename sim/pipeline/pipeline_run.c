#include "sim/pipeline/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/run_internal.h"

/* --- what a point needs --------------------------------------------------------------------- */

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
        return (dl_gpu_memory){.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
    }
    const double bytes =
        dl_pipeline_stage_bytes(costs, &split, scenario->pipeline->schedule, stages, stage);
    dl_gpu_content *own = dl_calloc((size_t)point->workers, sizeof *own, "needs of GPUs");
    for (int w = 0; w < point->workers; w++)
        own[w].others = bytes;
    const dl_gpu_memory memory = dl_gpu_options_memory(
        scenario->gpu,
        &(dl_gpu_point){
            .first = stage, .stride = point->stages, .workers = point->workers, .own = own});
    free(own);
    return memory;
}

dl_gpu_memory dl_run_split_memory(const dl_scenario *scenario, const dl_costs *costs,
                                  const dl_point *point)
{
    dl_gpu_memory most = {.needs_bytes = (double)NAN, .has_bytes = (double)NAN};
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

/* --- results -------------------------------------------------------------------------------- */

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
    dl_run_spread_of_steps(all, count, result);
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

/* --- running -------------------------------------------------------------------------------- */

typedef struct watched_pipeline {
    const dl_pipeline *pipeline;
    const dl_run_watch *watch;
} watched_pipeline;

static bool pipeline_goes_on(void *user)
{
    const watched_pipeline *w = user;
    const dl_pipeline *p = w->pipeline;
    const double all = (double)p->config.steps * p->gpu_count;
    double done = 0;
    for (int g = 0; g < p->gpu_count; g++)
        done += (double)p->gpus[g].step;
    return w->watch->goes_on(w->watch->user, done / all, 1 / (double)p->config.steps);
}

static dl_status run_pipeline(const dl_pipeline_config *config, const dl_run_config *run,
                              dl_run_result *result, dl_error *err)
{
    dl_pipeline pipeline;
    dl_status status = dl_pipeline_init(&pipeline, config, err);
    if (status != DL_OK) return status;
    watched_pipeline watched = {&pipeline, run->watch};
    if (run->watch != NULL) pipeline.engine.watch = (dl_engine_watch){pipeline_goes_on, &watched};
    dl_pipeline_run(&pipeline);
    status = dl_run_check_time(&pipeline.engine, run, err);
    if (status == DL_OK) measure_split(&pipeline, run->point, result);
    dl_pipeline_free(&pipeline);
    return status;
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
                   plain_ns * dl_run_compute_factor(run, model) / exp(run->compute_log);
    }
}

dl_status dl_run_split(const dl_run_config *run, const dl_costs *costs, dl_run_result *result,
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
    dl_gpu_options gpus;
    dl_gpu_options_at_point(scenario->gpu, costs, point->workers, NULL, &gpus);
    double *slow = dl_run_slow_devices(scenario, &gpus, costs, point);
    slow_by_model(run, costs, slow);
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
