/* The baseline of a point's speedup, and reasons for an efficiency above 1: the resource of which a
 * sample takes less than in the baseline, and its known cause. */
#include <math.h>

#include "sim/shares.h"
#include "sim/sweep_internal.h"

dl_point dl_sweep_baseline(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point, int *gpu)
{
    if (scenario->generators != NULL) return *point; /* on policy */
    int64_t batch = scenario->batch_per_worker ? point->batch / point->workers : point->batch;
    dl_point baseline = {.cores = point->cores == DL_CORES_GPU ? DL_CORES_GPU : 1,
                         .workers = 1,
                         .batch = batch,
                         .mode = &dl_mode_none};
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        baseline.option[o] = dl_sync_options[o].fallback;
    if (costs->accumulate > 1 && batch % costs->accumulate == 0)
        baseline.option[DL_SYNC_ACCUMULATE] = (double)costs->accumulate;
    if (dl_point_is_split(point)) {
        const dl_gpu_memory memory = dl_run_memory(scenario, costs, &baseline);
        if (point->tensor > 1 || point->context > 1 || memory.needs_bytes > memory.has_bytes) {
            baseline.option[DL_SYNC_ACCUMULATE] = point->option[DL_SYNC_ACCUMULATE];
            baseline.stages = point->stages;
            baseline.micro_batches = point->micro_batches;
            baseline.shards = point->shards;
            baseline.chunks = point->chunks;
            baseline.tensor = point->tensor;
            baseline.context = point->context;
            baseline.axes = point->axes;
            return baseline;
        }
    }
    if (costs->model_count == 0) return baseline;
    const dl_place place =
        dl_gpu_options_place(scenario->gpu, dl_fastest_gpu(scenario, costs, (double)batch));
    *gpu = dl_place_gpu_number(&scenario->gpu->machine, place);
    baseline.gpus = gpu;
    return baseline;
}

/* Least excess of the efficiency that is worth a reason: a tenth of the usual error of costs. */
#define ABOVE_FRAC 0.002

/* Reason why a sample takes less compute: the update is divided or done elsewhere, or the batch
 * takes less per sample. */
static const char *of_compute(const dl_scenario *scenario, const dl_costs *costs,
                              const dl_point *point, double base_batch)
{
    const bool serves = (point->mode->needs & DL_NEED_UPDATE) != 0;
    const double sharers = dl_scenario_exchange(scenario, point).sharers;
    const double batch = (double)point->batch / point->workers;
    const double all = dl_costs_step_ns(costs, batch, NULL) / batch;
    const double update = dl_costs_step_ns(costs, batch, "update") / batch;
    const double by_batch = dl_costs_step_ns(costs, base_batch, NULL) / base_batch - all;
    const double by_update = serves ? update : update * (1 - 1 / sharers);
    if (by_update <= 0 && by_batch <= 0)
        return dl_run_varies(scenario, costs)
                   ? "steps vary, and one worker's were slow by chance"
                   : "a sample computes for less time than in one worker's step";
    if (by_batch > by_update) return "smaller batches a worker take less a sample (caches)";
    return serves ? "the server updates, which one worker does itself"
                  : "each updates its part of the parameters only (sharded)";
}

const char *dl_sweep_above(const dl_scenario *scenario, const dl_costs *costs, const dl_row *row,
                           const dl_run_result *base, double base_batch)
{
    static const char *const reasons[DL_PART_COUNT] = {
        [DL_PART_DISPATCH] = "the host's launches take less a sample",
        [DL_PART_COMMUNICATION] = "copies take less a sample",
        [DL_PART_AVERAGING] = "averages take less a sample",
        [DL_PART_WAITING] = "one worker waits, for its host or its core",
        [DL_PART_INPUT] = "one worker waits for input, which more nodes or cores make",
    };
    if (!(row->efficiency > 1 + ABOVE_FRAC)) return NULL;
    int most = 0;
    double gain[DL_PART_COUNT];
    for (int p = 0; p < DL_PART_COUNT; p++) {
        gain[p] = base->part_frac[p] / base->throughput_per_s -
                  row->mean.part_frac[p] * row->point.workers / row->mean.throughput_per_s;
        if (gain[p] > gain[most]) most = p;
    }
    if (most != DL_PART_COMPUTE) return reasons[most];
    return of_compute(scenario, costs, &row->point, base_batch);
}
