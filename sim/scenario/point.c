/* One point of a scenario: its GPUs, its split, its exchange, its text. */
#include <math.h>
#include <stdio.h>

#include "common/units.h"
#include "sim/scenario/scenario.h"

const char *dl_point_mode(const dl_point *point)
{
    return point->word != NULL ? point->word : point->mode->name;
}

bool dl_point_is_split(const dl_point *point)
{
    return dl_point_ranks(point) > 1;
}

bool dl_point_reduces_within(const dl_point *point)
{
    return point->shards > 1 || point->context > 1 || point->experts > 1;
}

int dl_point_batches(const dl_point *point)
{
    return (int)dl_axes_batches(point->size);
}

int dl_point_passes(const dl_point *point)
{
    return point->stages > 1 ? point->micro_batches : (int)point->option[DL_SYNC_ACCUMULATE];
}

dl_sharded dl_scenario_sharded(const dl_scenario *scenario)
{
    const bool within = scenario->pipeline != NULL && scenario->pipeline->shards > 1;
    if (within) return DL_SHARDED_PARAMETERS;
    return scenario->gpu != NULL ? scenario->gpu->sharded : scenario->sharded;
}

int dl_point_ranks(const dl_point *point)
{
    return dl_axes_gpus(point->size);
}

int dl_point_gpus(const dl_point *point)
{
    if (point->gpu_count > 0) return point->gpu_count;
    return point->workers * dl_point_ranks(point);
}

double dl_scenario_usd_per_hour(const dl_scenario *scenario, const dl_point *point)
{
    const dl_generators *g = scenario->generators;
    if (g != NULL && !isnan(g->usd_per_gpu_hour)) return g->gpus * g->usd_per_gpu_hour;
    const int gpus = g != NULL ? g->gpus : dl_point_gpus(point);
    return scenario->gpu != NULL ? dl_gpu_options_usd_per_hour(scenario->gpu, gpus) : (double)NAN;
}

int dl_point_workers_per_gpu(const dl_point *point)
{
    if (point->gpu_count == 0) return 1;
    return (point->workers + point->gpu_count - 1) / point->gpu_count;
}

dl_split dl_point_split(const dl_point *point)
{
    const int stages = dl_axis_size(point->size, DL_AXIS_PP);
    const int micro_batches =
        stages > 1 ? point->micro_batches : (int)point->option[DL_SYNC_ACCUMULATE];
    const int batches = dl_point_batches(point);
    const int context = dl_axis_size(point->size, DL_AXIS_CP);
    dl_split split = {
        .stages = stages,
        .shards = batches * context,
        .context = context,
        .experts = dl_axis_size(point->size, DL_AXIS_EP),
        .tensor = dl_axis_size(point->size, DL_AXIS_TP),
        .axes = {DL_AXIS_TP, DL_AXIS_CP, DL_AXIS_EP, DL_AXIS_PP, DL_AXIS_FSDP},
        .chunks = point->chunks > 1 && stages > 1 ? point->chunks : 1,
        .micro_batches = micro_batches,
        .samples = (double)(point->batch / point->workers / batches / micro_batches),
    };
    for (int a = 0; a < DL_AXES && point->axes != NULL; a++)
        split.axes[a] = point->axes[a];
    return split;
}

bool dl_point_shows(const dl_point *point, int option)
{
    if (!dl_mode_takes(point->mode, option)) return false;
    double value = point->option[option];
    if ((DL_SYNC_ANY | 1u << DL_SYNC_LAG) & 1u << option)
        return value != dl_sync_options[option].fallback;
    return isfinite(value);
}

const char *dl_point_options(char *text, size_t bytes, const dl_point *point)
{
    size_t used = 0;
    text[0] = '\0';
    for (int o = 0; o < DL_SYNC_SWEPT && used < bytes; o++) {
        if (!dl_point_shows(point, o)) continue;
        char number[DL_DOUBLE_TEXT_BYTES];
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s %s", used > 0 ? ", " : "",
                             dl_sync_options[o].name, dl_format_double(number, point->option[o]));
    }
    return text;
}

const char *dl_point_text(char *text, size_t bytes, const dl_point *point)
{
    char options[DL_POINT_TEXT_BYTES];
    dl_point_options(options, sizeof options, point);
    char cores[32] = "";
    if (point->cores != DL_CORES_GPU) snprintf(cores, sizeof cores, "cores %d, ", point->cores);
    snprintf(text, bytes, "%sworkers %d, batch %lld, %s%s%s", cores, point->workers,
             (long long)point->batch, dl_point_mode(point), options[0] != '\0' ? ", " : "",
             options);
    return text;
}

bool dl_scenario_is_collective(const dl_scenario *scenario, const dl_point *point)
{
    const dl_mode *mode = point->mode;
    const dl_where where = scenario->gpu->where;
    if (dl_mode_reduces_gradients(mode) || where == DL_WHERE_ALLREDUCE) return true;
    return where == DL_WHERE_AUTO && mode->through & DL_THROUGH_COLLECTIVE && point->gpu_count == 0;
}

bool dl_scenario_has_outer(const dl_scenario *scenario, const dl_point *point)
{
    return dl_mode_takes(point->mode, DL_SYNC_OUTER)
               ? scenario->outer != 0
               : dl_mode_takes(point->mode, DL_SYNC_BLOCK_MOMENTUM);
}

int dl_scenario_fragments(const dl_scenario *scenario, const dl_point *point)
{
    return dl_mode_takes(point->mode, DL_SYNC_FRAGMENTS) ? scenario->fragments : 1;
}

dl_exchange_plan dl_scenario_exchange(const dl_scenario *scenario, const dl_point *point)
{
    const dl_exchanges of = point->mode->exchange;
    dl_exchange_plan plan = {.passes = 1, .sharers = 1};
    if (scenario->gpu != NULL) {
        plan = dl_exchange_plan_among(scenario->gpu, false, point->workers);
        dl_exchange_plan_by_node(&plan, scenario->gpu, dl_point_ranks(point));
        plan.is_collective =
            of != DL_EXCHANGES_NOTHING && dl_scenario_is_collective(scenario, point);
        plan.each = point->mode->each; /* the costs' overlap is that of a synchronous program */
        const bool overlaps =
            of == DL_EXCHANGES_GRADIENTS || (plan.each && !scenario->gpu->own_overlap);
        plan.as_ready = plan.as_ready && overlaps;
        if (!dl_mode_reduces_gradients(point->mode)) plan.bucket_copies = 0;
        plan.fetch = scenario->gpu->fetch;
        if (plan.fetch != DL_FETCH_NEXT_STEP && dl_mode_reads_late(point->mode))
            plan.fetch = DL_FETCH_AFTER;
        const bool by_layer = dl_mode_sends_tensors(point->mode) &&
                              (plan.fetch == DL_FETCH_LAYERS || plan.fetch == DL_FETCH_NEXT_STEP);
        if (by_layer) plan.passes = (int)point->option[DL_SYNC_ACCUMULATE];
    } else if (scenario->processes == DL_PROCESSES_YES && dl_mode_reduces_gradients(point->mode)) {
        const dl_gpu_options own = {.sharded = scenario->sharded,
                                    .keeps_parameters = scenario->keeps_parameters};
        plan = dl_exchange_plan_among(&own, false, point->workers);
    }
    if (plan.divides_gradients && !dl_point_is_split(point))
        plan.passes = (int)point->option[DL_SYNC_ACCUMULATE];
    plan.late = (int)point->option[DL_SYNC_LAG];
    plan.message = scenario->compression;
    plan.packs = plan.message.kind != DL_COMPRESS_NONE;
    /* Messages with different indices cannot be summed on their way. */
    if (plan.message.kind == DL_COMPRESS_TOPK) plan.sum = DL_ALLGATHER;
    return plan;
}
