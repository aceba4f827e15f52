#include "sim/traced.h"

#include <math.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/run.h"
#include "sim/step_collectives.h"

#define STEPS 40 /* steps of the simulation of a traced point */

static bool is_known_trace(const dl_cost_trace *trace)
{
    return trace->ranks > 0 && trace->step_ns.known && trace->step_ns.value > 0;
}

/* Whether the variant computes and exchanges as the traced program did, on the same kind of GPUs or
 * the same number of cores. The exchange of a single rank is ignored. */
static bool is_as_traced(const dl_variant *variant, const dl_cost_trace *trace)
{
    const dl_scenario *s = &variant->scenario;
    const dl_costs *costs = &variant->costs;
    const dl_gpu_options *gpu = s->gpu;
    if (s->without != 0 || s->slow_count > 0 || s->parameter_bytes > 0 ||
        s->compression.kind != DL_COMPRESS_NONE || costs->device == NULL)
        return false;
    /* Costs measured without loaders do not include the time to fetch a batch from a loader. */
    if (gpu == NULL)
        return costs->cores > 0 && (s->input.loaders == 0 || costs->input_copy_ns.known);
    if (variant->scaling.differs || variant->scaling.scaled || costs->model_count > 0) return false;
    return trace->ranks == 1 || (dl_variant_exchanges_as_costs(variant) && !gpu->on_hosts);
}

static int axis(int64_t ranks)
{
    return ranks > 1 ? (int)ranks : 1;
}

/* The point that reproduces a trace, whether or not the scenario has it. */
static dl_point own_point(const dl_variant *variant, const dl_cost_trace *trace)
{
    const dl_costs *costs = &variant->costs;
    const dl_scenario_pipeline *pipeline = variant->scenario.pipeline;
    dl_point own = {.cores = variant->scenario.gpu != NULL ? DL_CORES_GPU : (int)costs->cores,
                    .mode = &dl_mode_allreduce,
                    .stages = axis(trace->stages),
                    .shards = axis(trace->shards),
                    .tensor = axis(costs->tensor_ranks),
                    .micro_batches = axis(costs->accumulate),
                    .axes = pipeline != NULL ? pipeline->axes : NULL};
    own.workers = (int)(trace->ranks / dl_costs_traced_gpus(costs, trace));
    own.batch = own.workers * (int64_t)own.shards * trace->batch;
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        own.option[o] = dl_sync_options[o].fallback;
    if (costs->accumulate > 1 && own.stages == 1)
        own.option[DL_SYNC_ACCUMULATE] = (double)costs->accumulate;
    return own;
}

static bool is_own(const dl_point *point, const dl_point *own)
{
    const bool alone = own->workers == 1 && point->mode->exchange == DL_EXCHANGES_NOTHING;
    return point->cores == own->cores && point->workers == own->workers &&
           point->batch == own->batch && (point->mode == own->mode || alone) &&
           point->gpu_count == 0 && dl_axes_are_equal(point->size, own->size) &&
           axis(point->chunks) == 1 &&
           (own->stages == 1 || point->micro_batches == own->micro_batches) &&
           point->option[DL_SYNC_ACCUMULATE] == own->option[DL_SYNC_ACCUMULATE] &&
           point->option[DL_SYNC_LAG] == own->option[DL_SYNC_LAG];
}

static bool is_schedule(const dl_scenario_pipeline *pipeline, const dl_cost_trace *trace)
{
    return pipeline->schedule == trace->schedule;
}

/* Whether the scenario can represent the traced ranks as a point: for a layout, it must have the
 * same axes and, with stages, the same schedule. */
static bool has_point(const dl_variant *variant, const dl_cost_trace *trace)
{
    if (!is_known_trace(trace) || (trace->ranks > 1 && !trace->allreduces)) return false;
    const dl_point own = own_point(variant, trace);
    const dl_scenario_pipeline *p = variant->scenario.pipeline;
    if (!dl_point_is_split(&own)) return true;
    return p != NULL && dl_axes_are_equal(p->size, own.size) && axis(p->chunks) == 1 &&
           (own.stages == 1 || is_schedule(p, trace));
}

const dl_cost_trace *dl_traced_of_point(const dl_variant *variant, const dl_point *point)
{
    for (size_t i = 0; i < variant->costs.trace_count; i++) {
        const dl_cost_trace *trace = &variant->costs.traces[i];
        const dl_point own = own_point(variant, trace);
        if (has_point(variant, trace) && is_as_traced(variant, trace) && is_own(point, &own))
            return trace;
    }
    return NULL;
}

/* Whether the machine has room for the point, and the costs have all it needs. */
static bool can_run(const dl_variant *variant, const dl_point *own)
{
    const dl_scenario *s = &variant->scenario;
    const dl_gpu_memory memory = dl_run_memory(s, &variant->costs, own);
    if (s->gpu != NULL && dl_gpu_options_count(s->gpu) < dl_point_gpus(own)) return false;
    if (memory.needs_bytes > memory.has_bytes) return false;
    DL_AUTOFREE char *missing =
        dl_costs_missing(&variant->costs, dl_run_needs(s, &variant->costs, own));
    return missing == NULL;
}

bool dl_traced_contradicts(const dl_cost_trace *trace, double error_frac)
{
    const double scatter = 2 * trace->step_ns.error / trace->step_ns.value;
    return fabs(error_frac) - scatter > DL_TRACED_CONTRADICTS;
}

double dl_traced_step_s(const dl_variant *variant, const dl_cost_trace *trace)
{
    const dl_point own = own_point(variant, trace);
    if (!has_point(variant, trace) || !is_as_traced(variant, trace) || !can_run(variant, &own))
        return (double)NAN;
    dl_scenario few = variant->scenario;
    few.noise = DL_NOISE_NONE;
    few.steps = few.steps < STEPS ? few.steps : STEPS;
    few.warmup = 0;
    const dl_run_config config = {.scenario = &few, .costs = &variant->costs, .point = &own};
    DL_SCOPED(dl_run_result) result = {0};
    dl_error ignored = {0};
    const dl_status status = dl_run(&config, &result, &ignored);
    return status == DL_OK ? result.step_mean_s : (double)NAN;
}

const dl_cost_trace *dl_traced_worst(const dl_variant *variant, double *error_frac)
{
    const dl_cost_trace *worst = NULL;
    *error_frac = (double)NAN;
    for (size_t i = 0; i < variant->costs.trace_count; i++) {
        const dl_cost_trace *trace = &variant->costs.traces[i];
        const double step_s = dl_traced_step_s(variant, trace);
        if (!(step_s > 0)) continue;
        const double error = dl_ns_to_s(trace->step_ns.value) / step_s - 1;
        if (worst != NULL && fabs(error) <= fabs(*error_frac)) continue;
        worst = trace;
        *error_frac = error;
    }
    return worst;
}

bool dl_traced_is_left_out(const dl_variant *variant, const dl_point *point,
                           const dl_cost_trace *trace, const dl_traced_collective *collective)
{
    dl_step_collective made;
    const double samples = (double)point->batch / point->workers;
    if (point->workers < 2) return false;
    return !dl_run_starts_with_collectives(&variant->scenario, point) ||
           !dl_step_collective_of(trace, collective, point->workers, samples, &made);
}

double dl_traced_left_out_s(const dl_variant *variant, const dl_point *point)
{
    const dl_cost_trace *trace = dl_step_collectives_trace(&variant->costs);
    double ns = 0;
    for (size_t c = 0; trace != NULL && c < trace->collective_count; c++)
        if (dl_traced_is_left_out(variant, point, trace, &trace->collectives[c]))
            ns += trace->collectives[c].ns;
    return ns > 0 ? dl_ns_to_s(ns) : (double)NAN;
}
