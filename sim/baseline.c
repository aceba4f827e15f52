/* The baseline of a point's speedup, and the reason for an efficiency above 1: the part of the step
 * that takes less time per sample than in the baseline, and its known cause. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/island/split.h"
#include "sim/shares.h"
#include "sim/sweep_internal.h"

static bool fits(const dl_variant *variant, const dl_point *point)
{
    const dl_gpu_memory memory = dl_run_memory(&variant->scenario, &variant->costs, point);
    return !(memory.needs_bytes > memory.has_bytes);
}

/* Number of micro-batches of one worker's batch: of the size that the scenario gives, or as many as
 * in the program that the costs were measured with; 1 if these do not divide the batch. */
static int64_t own_micro_batches(const dl_variant *variant, int64_t batch)
{
    const dl_scenario_pipeline *pipeline = variant->scenario.pipeline;
    const int64_t each = pipeline != NULL ? pipeline->micro_batch : 0;
    const int64_t count = each > 0 ? batch / each : variant->costs.accumulate;
    const bool divides = count > 1 && count <= DL_MICRO_BATCHES_MAX &&
                         (each > 0 ? batch % each : batch % count) == 0;
    return divides ? count : 1;
}

/* Sets the smallest number of micro-batches, a multiple of the present one, with which a point of
 * one worker fits into memory; returns false if there is none. */
static bool set_micro_batches(const dl_variant *variant, dl_point *point)
{
    const bool staged = point->stages > 1;
    const int64_t least =
        staged ? point->micro_batches : (int64_t)point->option[DL_SYNC_ACCUMULATE];
    const int64_t batches = dl_point_batches(point);
    for (int64_t k = least; k * batches <= point->batch && k <= DL_MICRO_BATCHES_MAX; k += least) {
        if (point->batch % (k * batches) != 0) continue;
        if (staged) point->micro_batches = (int)k;
        if (!staged) point->option[DL_SYNC_ACCUMULATE] = (double)k;
        if (fits(variant, point)) return true;
    }
    return false;
}

/* A point of one worker on one GPU or core, without exchange, with its own micro-batches. */
static dl_point one_worker(const dl_variant *variant, const dl_point *point, int64_t batch)
{
    dl_point one = {.cores = point->cores == DL_CORES_GPU ? DL_CORES_GPU : 1,
                    .workers = 1,
                    .batch = batch,
                    .mode = &dl_mode_none};
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        one.option[o] = dl_sync_options[o].fallback;
    one.option[DL_SYNC_ACCUMULATE] = (double)own_micro_batches(variant, batch);
    return one;
}

static bool divides_layers(const dl_costs *costs)
{
    return costs->tensor_ranks > 1 || costs->context_ranks > 1 || costs->expert_ranks > 1;
}

typedef enum choice { OF_ANOTHER, OF_COMPUTING, OF_EXCHANGE } choice;

/* Classifies a swept key. Rows that differ only in choices of computing or exchange share a
 * baseline: these are choices for the same model on the same machine. */
static choice choice_of(const dl_swept_key *key)
{
    static const char *const keys[] = {"layout", "recompute", "arithmetic", "sharded"};
    if (strcmp(key->section, "pipeline") == 0) return OF_COMPUTING;
    for (size_t i = 0; i < DL_LENGTH(keys); i++)
        if (strcmp(key->key, keys[i]) == 0) return OF_COMPUTING;
    const bool exchanges =
        strcmp(key->section, "exchange") == 0 || strcmp(key->section, "sync") == 0;
    return exchanges ? OF_EXCHANGE : OF_ANOTHER;
}

/* Whether two variants differ only in their modes and in keys of the classes `first` to `last`. */
static bool differ_in(const dl_study *study, size_t v, size_t w, choice first, choice last)
{
    for (size_t k = 0; k < study->key_count; k++) {
        const size_t a = study->variants[v].at[k], b = study->variants[w].at[k];
        const size_t count = study->keys[k].count;
        if (a == b || a >= count || b >= count) continue;
        const choice is = choice_of(&study->keys[k]);
        if (is < first || is > last) return false;
    }
    return true;
}

/* Keeps the size of a micro-batch if the scenario gives one. */
static void keep_micro_batch(const dl_scenario *scenario, dl_point *one)
{
    if (scenario->pipeline == NULL || scenario->pipeline->micro_batch == 0) return;
    const int64_t count = one->batch / dl_point_batches(one) / scenario->pipeline->micro_batch;
    if (count < 1 || count > DL_MICRO_BATCHES_MAX) return;
    if (one->stages > 1) one->micro_batches = (int)count;
    if (one->stages <= 1) one->option[DL_SYNC_ACCUMULATE] = (double)count;
}

/* The variant's point without exchange between workers: a single worker if workers have several
 * GPUs; otherwise (workers that divide the parameters) the point itself. */
static dl_point alone(const dl_variant *variant, const dl_point *point, int64_t batch)
{
    if (!dl_point_is_split(point)) return *point;
    dl_point one = one_worker(variant, point, batch);
    one.option[DL_SYNC_ACCUMULATE] = point->option[DL_SYNC_ACCUMULATE];
    memcpy(one.size, point->size, sizeof one.size);
    one.micro_batches = point->micro_batches;
    one.chunks = point->chunks;
    one.axes = point->axes;
    keep_micro_batch(&variant->scenario, &one);
    return one;
}

/* Whether the point, in which several GPUs share one model, can be the baseline of points with
 * `batch` samples in one worker. */
static bool is_shared(const dl_variant *variant, const dl_point *point, int64_t batch)
{
    if (dl_point_is_split(point)) return true;
    const bool each = variant->scenario.batch_per_worker;
    return dl_scenario_sharded(&variant->scenario) != DL_SHARDED_NONE &&
           (each ? point->batch / point->workers : point->batch) == batch;
}

/* --- candidates ------------------------------------------------------------------------------ */

/* Places the baseline of one worker on the scenario's fastest GPUs. */
static void place(const dl_variant *variant, dl_baseline *baseline)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_point *point = &baseline->point;
    const int ranks = dl_point_ranks(point);
    if (variant->costs.model_count == 0 || point->workers > 1 || scenario->gpu == NULL) return;
    const int first = dl_fastest_gpu(scenario, &variant->costs, dl_point_micro_batch(point), ranks);
    baseline->gpus = dl_calloc((size_t)ranks, sizeof *baseline->gpus, "GPUs of baselines");
    for (int r = 0; r < ranks; r++)
        baseline->gpus[r] = dl_place_gpu_number(&scenario->gpu->machine,
                                                dl_gpu_options_place(scenario->gpu, first + r));
    baseline->point.gpus = baseline->gpus;
}

/* Compute time of the point's step, in ns, with the bubble of stages that take equally long;
 * candidates of one layout are compared by it. */
static double compute_ns(const dl_variant *variant, const dl_baseline *baseline)
{
    const dl_costs *costs = &variant->costs;
    const dl_point *point = &baseline->point;
    const double samples = dl_point_micro_batch(point),
                 parts = point->batch / point->workers / samples;
    int model = 0;
    if (baseline->gpus != NULL) dl_point_models(&variant->scenario, point, &model);
    const bool flushes = point->stages > 1 && variant->scenario.pipeline != NULL &&
                         dl_schedule_flushes(variant->scenario.pipeline->schedule);
    const double bubble =
        flushes ? (point->stages - 1) / (point->micro_batches * fmax(point->chunks, 1)) : 0;
    const double update_ns = dl_costs_model_step_ns(costs, model, samples, "update");
    const double passes_ns = dl_costs_model_step_ns(costs, model, samples, NULL) - update_ns;
    return parts * (1 + bubble) * passes_ns + update_ns;
}

static bool same_layout(const dl_point *a, const dl_point *b)
{
    return a->workers == b->workers && a->chunks == b->chunks &&
           dl_axes_are_equal(a->size, b->size);
}

/* Replaces *best and *best_ns by the candidate's if the candidate fits and its compute time is
 * below *best_ns. Frees the GPU list of the one that is discarded. */
static void prefer(const dl_study *study, dl_baseline *best, double *best_ns, dl_baseline candidate)
{
    const dl_variant *variant = &study->variants[candidate.variant];
    dl_point *point = &candidate.point;
    place(variant, &candidate);
    const bool is_one = point->workers == 1;
    const bool better = compute_ns(variant, &candidate) < *best_ns &&
                        (is_one ? set_micro_batches(variant, point) : fits(variant, point)) &&
                        compute_ns(variant, &candidate) < *best_ns;
    if (better) {
        free(best->gpus);
        *best_ns = compute_ns(variant, &candidate);
        *best = candidate;
    } else {
        free(candidate.gpus);
    }
}

dl_baseline dl_sweep_baseline(const dl_study *study, size_t number, const dl_point *point)
{
    const dl_variant *own = &study->variants[number];
    /* The baseline with [generators] is the same point, generating and training in turn. */
    if (own->scenario.generators != NULL) return (dl_baseline){.variant = number, .point = *point};
    const int64_t batch =
        own->scenario.batch_per_worker ? point->batch / point->workers : point->batch;
    dl_baseline best = {.variant = number, .point = one_worker(own, point, batch)};
    place(own, &best);
    if (point->cores != DL_CORES_GPU) return best;
    double best_ns = INFINITY;
    for (size_t i = 0; i < study->variant_count; i++) { /* the point's own variant first */
        const size_t w = i == 0 ? number : i <= number ? i - 1 : i;
        const dl_variant *variant = &study->variants[w];
        if (!differ_in(study, number, w, OF_COMPUTING, OF_COMPUTING) ||
            divides_layers(&variant->costs))
            continue;
        const dl_baseline one = {.variant = w, .point = one_worker(variant, point, batch)};
        prefer(study, &best, &best_ns, one);
    }
    if (best_ns < INFINITY) return best;
    int fewest = INT_MAX;
    for (size_t w = 0; w < study->variant_count; w++) {
        const dl_variant *variant = &study->variants[w];
        if (!differ_in(study, number, w, OF_COMPUTING, OF_EXCHANGE)) continue;
        const bool alike = differ_in(study, best.variant, w, OF_EXCHANGE, OF_EXCHANGE);
        for (size_t p = 0; p < variant->scenario.point_count; p++) {
            const dl_point *of = &variant->scenario.points[p];
            const dl_baseline group = {.variant = w, .point = alone(variant, of, batch)};
            const int gpus = dl_point_gpus(&group.point);
            if (gpus > fewest || !is_shared(variant, of, batch)) continue;
            if (gpus == fewest && (alike || !same_layout(&best.point, &group.point))) continue;
            double ns = gpus < fewest ? (double)INFINITY : best_ns;
            prefer(study, &best, &ns, group);
            if (ns == (double)INFINITY) continue;
            best_ns = ns;
            fewest = gpus;
        }
    }
    return best;
}

/* Appends " (KEY VALUE, KEY VALUE)" with the baseline's swept recomputation and arithmetic, after
 * "one GPU" or "one worker" if the text is empty. */
static void add_settings(char *text, const dl_study *study, const dl_variant *variant,
                         const dl_point *baseline)
{
    bool opened = false;
    for (size_t k = 0; k < study->key_count; k++) {
        const dl_swept_key *key = &study->keys[k];
        if (strcmp(key->key, "recompute") != 0 && strcmp(key->key, "arithmetic") != 0) continue;
        if (variant->at[k] >= key->count) continue;
        if (text[0] == '\0')
            snprintf(text, DL_BASELINE_TEXT_BYTES, "one %s",
                     baseline->cores == DL_CORES_GPU ? "GPU" : "worker");
        const size_t used = strlen(text);
        snprintf(text + used, DL_BASELINE_TEXT_BYTES - used, "%s%s %s", opened ? ", " : " (",
                 key->column, key->texts[variant->at[k]]);
        opened = true;
    }
    const size_t used = strlen(text);
    if (opened) snprintf(text + used, DL_BASELINE_TEXT_BYTES - used, ")");
}

void dl_sweep_baseline_text(char text[DL_BASELINE_TEXT_BYTES], const dl_study *study,
                            const dl_variant *variant, const dl_point *baseline)
{
    DL_AUTOFREE char *layout = dl_axes_text(baseline->size, NULL);
    const double parts = baseline->option[DL_SYNC_ACCUMULATE];
    const bool own = parts == (double)own_micro_batches(variant, baseline->batch);
    text[0] = '\0';
    if (baseline->workers > 1) {
        snprintf(text, DL_BASELINE_TEXT_BYTES, "%d GPUs with sharded %s", baseline->workers,
                 dl_sharded_names[dl_scenario_sharded(&variant->scenario)]);
    } else if (layout != NULL) {
        snprintf(text, DL_BASELINE_TEXT_BYTES, "one worker of %s", layout);
    } else if (!own) {
        snprintf(text, DL_BASELINE_TEXT_BYTES, "one GPU in %.0f micro-batches", parts);
    }
    add_settings(text, study, variant, baseline);
}

/* Efficiencies less than this above 1 are not explained: a tenth of the usual error of the
 * costs. */
#define ABOVE_FRAC 0.002

/* Explains why a sample takes less compute time: the update is divided among workers or done by a
 * server, a smaller batch takes less time per sample, or steps vary and the baseline's were slow by
 * chance. Otherwise only states that it does. */
static const char *of_compute(const dl_scenario *scenario, const dl_costs *costs,
                              const dl_point *point, double base_batch)
{
    const bool serves = (point->mode->needs & DL_NEED_UPDATE) != 0;
    const double sharers = dl_scenario_exchange(scenario, point).sharers;
    const double batch = (double)point->batch / point->workers;
    const double all = dl_costs_step_ns(costs, batch, NULL) / batch;
    const double update = dl_costs_step_ns(costs, batch, "update") / batch;
    const double by_batch = dl_costs_step_ns(costs, base_batch, NULL) / base_batch - all;
    const double by_update =
        serves ? update : update * (1 - 1 / dl_costs_update_parts(costs, batch, sharers));
    if (by_update <= 0 && by_batch <= 0)
        return dl_run_varies(scenario, costs)
                   ? "steps vary, and one worker's were slow by chance"
                   : "a sample takes less compute time than in one worker's step";
    if (by_batch > by_update)
        return "smaller batches per worker take less time per sample (caches)";
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
    if (most == DL_PART_WAITING && scenario->gpu == NULL && scenario->input.loaders > 0)
        return "the baseline shares a single core with its loaders";
    if (most != DL_PART_COMPUTE) return reasons[most];
    return of_compute(scenario, costs, &row->point, base_batch);
}
