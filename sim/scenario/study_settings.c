/* Settings that a scenario leaves open: taken from the program of the costs, else assumed to be the
 * usual ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/generate/generate.h"
#include "sim/run.h"
#include "sim/scenario/study_internal.h"
#include "sim/workloads/architecture.h"

/* --- settings of the costs' program ---------------------------------------------------------- */

static bool gives_overlap(const dl_scenario *scenario)
{
    return dl_scenario_gives(scenario, "exchange", "overlap");
}

const dl_swept_key *dl_study_swept(const dl_study *study, const char *section, const char *key)
{
    for (size_t k = 0; k < study->key_count; k++)
        if (strcmp(study->keys[k].section, section) == 0 && strcmp(study->keys[k].key, key) == 0)
            return &study->keys[k];
    return NULL;
}

bool dl_variant_waits_by_costs(const dl_variant *variant)
{
    return variant->scenario.gpu != NULL && variant->scenario.gpu->in_turn;
}

bool dl_variant_accumulates_by_costs(const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    return variant->costs.accumulate > 1 && scenario->generators == NULL &&
           !dl_scenario_gives(scenario, "sync", "accumulate") &&
           !dl_scenario_gives(scenario, "pipeline", "micro_batches") &&
           !dl_scenario_gives(scenario, "pipeline", "micro_batch");
}

bool dl_variant_overlaps_by_costs(const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    return scenario->gpu != NULL && scenario->gpu->overlap && variant->costs.overlap &&
           !gives_overlap(scenario);
}

bool dl_variant_assumes_overlap(const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    return dl_variant_overlaps_by_costs(variant) &&
           (scenario->costs_path == NULL || scenario->model != NULL ||
            scenario->samples_per_s > 0) &&
           dl_scenario_sharded(scenario) != DL_SHARDED_PARAMETERS;
}

bool dl_variant_exchanges_as_costs(const dl_variant *variant)
{
    const dl_gpu_options *gpu = variant->scenario.gpu;
    const dl_costs *costs = &variant->costs;
    const bool overlaps = costs->overlap || costs->sharded == DL_SHARDED_PARAMETERS;
    return gpu->overlap == overlaps && dl_scenario_sharded(&variant->scenario) == costs->sharded &&
           gpu->keeps_parameters == costs->keeps_parameters;
}

/* Places averages in host memory if the costs contain averaging there, like those of dlprof
 * train. */
static void take_place(dl_variant *variant)
{
    dl_gpu_options *gpu = variant->scenario.gpu;
    if (gpu != NULL && gpu->where == DL_WHERE_AUTO && variant->costs.average.read_bytes_per_s.known)
        gpu->where = DL_WHERE_CPU;
}

/* Runs the parts of a step in sequence if the program of the costs does, the scenario leaves this
 * open, and no point has a lag or a layout. */
static void take_turns(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    bool goes = variant->costs.waits && scenario->gpu != NULL && scenario->pipeline == NULL &&
                !dl_scenario_gives(scenario, "machine", "ahead") &&
                !dl_scenario_gives(scenario, "input", "prefetch") &&
                !dl_scenario_gives(scenario, "input", "cores") &&
                !dl_scenario_gives(scenario, "input", "made");
    for (size_t p = 0; p < scenario->point_count; p++)
        goes = goes && scenario->points[p].option[DL_SYNC_LAG] == 0;
    if (!goes) return;
    scenario->gpu->in_turn = true;
    scenario->gpu->ahead = scenario->gpu->prefetch = 0;
}

/* Shards the model state like the program of the costs, if the scenario leaves this open and all
 * points allow it. */
static void take_sharded(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    const dl_sharded sharded = variant->costs.sharded;
    const bool divide = scenario->gpu != NULL || scenario->processes == DL_PROCESSES_YES;
    if (!divide || sharded == DL_SHARDED_NONE || dl_scenario_gives(scenario, "exchange", "sharded"))
        return;
    for (size_t p = 0; p < scenario->point_count; p++)
        if (dl_scenario_not_sharded(scenario, sharded, &scenario->points[p]) != NULL) return;
    if (scenario->gpu != NULL) {
        scenario->gpu->sharded = sharded;
        scenario->gpu->keeps_parameters = variant->costs.keeps_parameters;
    } else {
        scenario->sharded = sharded;
        scenario->keeps_parameters = variant->costs.keeps_parameters;
    }
}

/* Whether the point's gradients are exchanged only after the backward pass: gradients of stages are
 * not all ready before its end, and shards first reduce theirs within the worker. */
static bool exchanges_late(const dl_point *point)
{
    const dl_split split = dl_point_split(point);
    return split.stages > 1 || split.shards > 1;
}

/* Sets overlap if sharded parameters are gathered beside the passes or, where the scenario leaves
 * it open, if the program of the costs overlaps and all points can: none with a lag, and none that
 * exchanges only after the backward pass. */
static void take_overlap(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    const bool gathers =
        scenario->gpu != NULL && dl_scenario_sharded(scenario) == DL_SHARDED_PARAMETERS;
    if (gathers && (scenario->gpu->sharded == DL_SHARDED_PARAMETERS || !gives_overlap(scenario)))
        scenario->gpu->overlap = true;
    bool goes = variant->costs.overlap && scenario->gpu != NULL && !gives_overlap(scenario);
    for (size_t p = 0; p < scenario->point_count; p++) {
        goes = goes && !exchanges_late(&scenario->points[p]) &&
               scenario->points[p].option[DL_SYNC_LAG] == 0;
    }
    if (goes) scenario->gpu->overlap = true;
}

/* Makes workers on cores processes if the cost file has times of their all-reduces or round trips,
 * or comes from a program that exchanges between processes. */
static void choose_processes(dl_scenario *scenario, const dl_costs *costs)
{
    if (scenario->processes != DL_PROCESSES_AUTO) return;
    const bool are = scenario->gpu == NULL &&
                     (dl_costs_have_exchanges(costs) || dl_costs_exchange_by_messages(costs));
    scenario->processes = are ? DL_PROCESSES_YES : DL_PROCESSES_NO;
}

/* Returns why the point cannot have this number of micro-batches per worker, or NULL. */
static const char *not_accumulated(const dl_scenario *scenario, const dl_point *point,
                                   int64_t micro_batches)
{
    const int64_t least = micro_batches * point->workers * dl_point_batches(point);
    const int64_t divisor = scenario->shares == DL_SHARES_SPEED ? micro_batches : least;
    if (point->batch < least || point->batch % divisor != 0) return "cannot share the batch evenly";
    if (point->stages <= 1) return NULL;
    if (micro_batches > DL_MICRO_BATCHES_MAX) return "are more than stages can have";
    return dl_schedule_refuses(scenario->pipeline->schedule, micro_batches, point->stages);
}

/* Takes the number of micro-batches from the program of the costs if the scenario leaves it open.
 * Interleaved stages never leave it open, as the default, 1, is rejected (sim/scenario/points.c,
 * check_batch). */
static dl_status take_accumulation(dl_variant *variant, dl_error *err)
{
    dl_scenario *scenario = &variant->scenario;
    const int64_t micro_batches = variant->costs.accumulate;
    if (!dl_variant_accumulates_by_costs(variant)) return DL_OK;
    for (size_t p = 0; p < scenario->point_count; p++) {
        dl_point *point = &scenario->points[p];
        const char *why = not_accumulated(scenario, point, micro_batches);
        if (why != NULL) {
            char text[DL_POINT_TEXT_BYTES];
            return dl_error_set_at(
                err, DL_ERR_RANGE, scenario->path, 0,
                "%lld micro-batches of each worker, [costs] accumulate of %s, %s: %s gives others "
                "(point: %s)",
                (long long)micro_batches, variant->costs.path, why,
                point->stages > 1 ? "--micro-batches"
                                  : "[sync] accumulate (--set sync.accumulate=1)",
                dl_point_text(text, sizeof text, point));
        }
        if (point->stages > 1) {
            point->micro_batches = (int)micro_batches;
        } else {
            point->option[DL_SYNC_ACCUMULATE] = (double)micro_batches;
        }
    }
    return DL_OK;
}

dl_status dl_variant_take_settings(dl_variant *variant, dl_error *err)
{
    const dl_costs *costs = &variant->costs;
    if (variant->scenario.gpu != NULL && costs->frozen_bytes > 0)
        variant->scenario.gpu->frozen_frac =
            (double)costs->frozen_bytes / (double)costs->parameter_bytes;
    choose_processes(&variant->scenario, &variant->costs);
    take_place(variant);
    take_sharded(variant);
    take_overlap(variant);
    take_turns(variant);
    return take_accumulation(variant, err);
}

/* --- assumed --------------------------------------------------------------------------------- */

static bool exchanges_gradients(const dl_scenario *scenario DL_UNUSED, const dl_point *point)
{
    return point->workers > 1 && point->mode->exchange == DL_EXCHANGES_GRADIENTS;
}

/* Adds an open key of [exchange] as an assumption, with its alternative. */
static void assume(dl_variant *variant, const char *key, const char *chosen, const char *other,
                   dl_setting_matters_fn matters, dl_setting_change_fn change, const char *source,
                   const char *measure)
{
    dl_assumption *a = dl_setting_assume(dl_keys_find(&dl_scenario_keys, "exchange", key), chosen,
                                         source, measure, &variant->assumed);
    strcpy(a->other, other);
    a->matters = matters;
    a->change = change;
}

static void without_overlap(dl_scenario *scenario DL_UNUSED, dl_gpu_options *gpu)
{
    gpu->overlap = false;
}

static void gather_in_fp32(dl_scenario *scenario DL_UNUSED, dl_gpu_options *gpu)
{
    gpu->param_dtype = DL_DTYPE_FP32;
}

static void sum_in_fp32(dl_scenario *scenario DL_UNUSED, dl_gpu_options *gpu)
{
    gpu->reduce_dtype = DL_DTYPE_FP32;
}

static void sum_in_bf16(dl_scenario *scenario DL_UNUSED, dl_gpu_options *gpu)
{
    gpu->reduce_dtype = DL_DTYPE_BF16;
}

static bool leaves_dtype(const dl_scenario *scenario, const char *name, dl_dtype dtype)
{
    return dtype == DL_DTYPE_AUTO || !dl_scenario_gives(scenario, "exchange", name);
}

void dl_scenario_set_dtypes(const dl_scenario *scenario, dl_gpu_options *gpu, bool in_half)
{
    const dl_sharded sharded = dl_scenario_sharded(scenario);
    if (gpu == NULL || sharded == DL_SHARDED_NONE) return;
    if (leaves_dtype(scenario, "param_dtype", gpu->param_dtype))
        gpu->param_dtype = in_half ? DL_DTYPE_BF16 : DL_DTYPE_FP32;
    if (leaves_dtype(scenario, "reduce_dtype", gpu->reduce_dtype))
        gpu->reduce_dtype = sharded == DL_SHARDED_PARAMETERS ? gpu->param_dtype : DL_DTYPE_FP32;
}

static void pass_in_half(dl_scenario *scenario, dl_gpu_options *gpu)
{
    dl_scenario_set_dtypes(scenario, gpu, true);
}

static void pass_in_fp32(dl_scenario *scenario, dl_gpu_options *gpu)
{
    dl_scenario_set_dtypes(scenario, gpu, false);
}

void dl_variant_take_dtypes(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    dl_gpu_options *gpu = scenario->gpu;
    if (gpu == NULL || dl_scenario_sharded(scenario) == DL_SHARDED_NONE) return;
    const bool in_half = scenario->model != NULL && dl_scenario_arithmetic(scenario) >= DL_FP16;
    const bool gathers = gpu->param_dtype == DL_DTYPE_AUTO,
               sums = gpu->reduce_dtype == DL_DTYPE_AUTO;
    if (variant->costs.half_gathers && leaves_dtype(scenario, "param_dtype", gpu->param_dtype)) {
        gpu->param_dtype = DL_DTYPE_BF16;
        if (leaves_dtype(scenario, "reduce_dtype", gpu->reduce_dtype))
            gpu->reduce_dtype = DL_DTYPE_FP32;
        return;
    }
    dl_scenario_set_dtypes(scenario, gpu, in_half);
    if (gathers && in_half)
        assume(variant, "param_dtype", "bf16", "fp32", exchanges_gradients, gather_in_fp32,
               "FSDP's MixedPrecision and DeepSpeed gather parameters as their passes use them",
               "the type in which FSDP or DeepSpeed gathers");
    if (!sums || !in_half) return;
    const char *measure = "the type in which gradients are reduced";
    if (gpu->reduce_dtype == DL_DTYPE_BF16)
        assume(variant, "reduce_dtype", "bf16", "fp32", exchanges_gradients, sum_in_fp32,
               "FSDP's MixedPrecision reduces in param_dtype where reduce_dtype is not given",
               measure);
    else
        assume(variant, "reduce_dtype", "fp32", "bf16", exchanges_gradients, sum_in_bf16,
               "Megatron and nanotron reduce gradients in fp32", measure);
}

/* Changes the buckets to DeepSpeed's reduce_bucket_size, 5e8 numbers. */
static void in_large_buckets(dl_scenario *scenario DL_UNUSED, dl_gpu_options *gpu)
{
    gpu->own_buckets = false;
    gpu->bucket_bytes = 2000000000;
}

static bool shares_parameters(const dl_scenario *scenario, const dl_point *point)
{
    return dl_point_is_split(point) ? point->shards > 1 && point->stages <= 1
                                    : exchanges_gradients(scenario, point);
}

/* Notes as an assumption that the buckets of estimated costs are the units that FSDP gathers and
 * reduces. */
static void assume_units(dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    if (scenario->model == NULL || scenario->gpu == NULL || !scenario->gpu->own_buckets ||
        dl_scenario_sharded(scenario) != DL_SHARDED_PARAMETERS)
        return;
    const bool blocks = dl_architecture_class(scenario->model) == DL_MODEL_TRANSFORMER;
    assume(variant, "bucket_bytes", blocks ? "a block each" : "a layer each", "2GB",
           shares_parameters, in_large_buckets,
           "units that FSDP wraps, by the usual auto_wrap_policy; DeepSpeed's reduce_bucket_size "
           "is 5e8 numbers",
           "the units that FSDP wraps, or DeepSpeed's reduce_bucket_size");
}

static void assume_overlap(dl_variant *variant)
{
    if (dl_variant_assumes_overlap(variant))
        assume(variant, "overlap", "yes", "no", exchanges_gradients, without_overlap,
               "PyTorch's DistributedDataParallel sends gradients during the backward pass, in "
               "buckets; no is a program that sends them after it, without buckets to copy into",
               "whether the program exchanges during its backward pass");
}

/* Returns the alternative to the usual arithmetic: fp32 instead of bf16, as in PyTorch without
 * autocast; else fp16, in which convolutions run with autocast. */
static dl_arithmetic other_arithmetic(dl_arithmetic usual)
{
    return usual == DL_BF16 ? DL_FP32 : DL_FP16;
}

/* Returns the variant's costs in another arithmetic, owned by the caller; NULL: the GPU does not
 * support it. */
static dl_costs *costs_in(const dl_variant *variant, dl_arithmetic arithmetic)
{
    const dl_scenario *scenario = &variant->scenario;
    dl_scenario other = *scenario;
    dl_costs *costs = dl_calloc(1, sizeof *costs, "costs in another arithmetic");
    DL_SCOPED(dl_assumptions) same = {0};
    dl_error ignored = {0};
    other.arithmetic = 1 + (int)arithmetic;
    dl_status status =
        dl_scenario_estimate_costs(&other, dl_scenario_first_gpu(scenario), costs, &ignored);
    if (status == DL_OK && scenario->costs_path != NULL)
        status = dl_costs_add_exchange(costs, scenario->costs_path, &ignored);
    if (status != DL_OK) {
        free(costs);
        return NULL;
    }
    if (scenario->parameter_bytes > 0) costs->parameter_bytes = scenario->parameter_bytes;
    dl_generate_estimate(&other, dl_scenario_first_gpu(scenario), arithmetic, costs, &same);
    if (scenario->generators != NULL) dl_generate_assume(scenario->generators, costs, &same);
    dl_run_assume(scenario, costs, NULL, &same);
    return costs;
}

static void assume_arithmetic(dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    if (scenario->model == NULL || scenario->arithmetic > 0) return;
    const dl_arithmetic usual = dl_scenario_arithmetic(scenario), other = other_arithmetic(usual);
    dl_assumption *a = dl_setting_assume(
        dl_keys_find(&dl_scenario_keys, "workload", "arithmetic"), dl_arithmetic_names[usual],
        usual == DL_BF16   ? "transformers are usually trained in it on GPUs that have it"
        : usual == DL_TF32 ? "PyTorch lets cuDNN take it for convolutions"
                           : "not all GPUs have bf16 (transformers) or tf32 (convolutions)",
        "the arithmetic of the program's products (autocast, allow_tf32)", &variant->assumed);
    /* GPUs of several models have separate costs; a measured step is valid for either
     * arithmetic. */
    if (variant->costs.model_count == 0 && variant->calibrated.factor == 0)
        a->costs = costs_in(variant, other);
    if (a->costs == NULL) return;
    snprintf(a->other, sizeof a->other, "%s", dl_arithmetic_names[other]);
    a->change = other == DL_FP32 ? pass_in_fp32 : pass_in_half;
}

void dl_variant_assume_settings(dl_variant *variant)
{
    assume_overlap(variant);
    assume_units(variant);
    assume_arithmetic(variant);
}

/* Changes fp32 gradients to 16 bits, as DistributedDataParallel's communication hooks do. */
static void compress_to_fp16(dl_scenario *scenario, dl_gpu_options *gpu DL_UNUSED)
{
    scenario->compression.kind = DL_COMPRESS_FP16;
}

static bool reduces_whole_gradients(const dl_scenario *scenario DL_UNUSED, const dl_point *point)
{
    return point->workers > 1 && dl_mode_reduces_gradients(point->mode);
}

/* Whether the variant is FSDP whose messages have 16 bits. */
static bool has_short_messages(const dl_variant *variant)
{
    const dl_gpu_options *gpu = variant->scenario.gpu;
    return gpu != NULL && dl_scenario_sharded(&variant->scenario) == DL_SHARDED_PARAMETERS &&
           gpu->param_dtype == DL_DTYPE_BF16 && gpu->reduce_dtype == DL_DTYPE_BF16;
}

static void assume_uncompressed(dl_variant *variant)
{
    dl_scenario *scenario = &variant->scenario;
    if (scenario->gpu == NULL || variant->costs.half_weights ||
        dl_scenario_sharded(scenario) != DL_SHARDED_NONE ||
        dl_scenario_gives(scenario, "exchange", "compress"))
        return;
    assume(variant, "compress", "none", "fp16", reduces_whole_gradients, compress_to_fp16,
           "DistributedDataParallel all-reduces gradients in fp32, but FSDP's messages are in bf16 "
           "here; with its hook bf16_compress_hook or fp16_compress_hook DDP sends 16 bits too",
           "whether DDP registers a hook that compresses gradients");
}

void dl_study_assume_messages(dl_study *study)
{
    bool compared = false;
    for (size_t v = 0; v < study->variant_count; v++)
        compared |= has_short_messages(&study->variants[v]);
    for (size_t v = 0; compared && v < study->variant_count; v++)
        assume_uncompressed(&study->variants[v]);
}
