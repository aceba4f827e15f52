#include "sim/report/notes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/fits.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/machine_catalogue.h"
#include "sim/shares.h"
#include "sim/workloads/roofline.h"

const char *dl_note_file(const dl_costs *costs)
{
    return dl_base_name(costs->path);
}

/* Adds a note on unknown costs on GPUs that no run needs and that the simulation therefore leaves
 * out. */
static void add_unknown(dl_notes *list, const dl_costs *costs)
{
    DL_AUTOFREE char *missing =
        dl_costs_missing(costs, DL_NEED_GPU_MEMORY | DL_NEED_PARAMETERS | DL_NEED_STATE);
    if (missing != NULL) {
        dl_notes_add(list, "unknown in %s: %s: whether a point fits into its GPUs is not checked",
                     dl_note_file(costs), missing);
    }
    if (dl_costs_have_input(costs)) return;
    dl_notes_add(list,
                 "unknown in %s: [op input], [input] bytes_per_sample: batches are taken to be "
                 "on the GPUs",
                 dl_note_file(costs));
}

static void add_overlap(dl_notes *list, const dl_variant *variant)
{
    if (!dl_variant_overlaps_by_costs(variant) || dl_variant_assumes_overlap(variant)) return;
    dl_notes_add(list,
                 "all-reduce and ps overlap the backward pass: [costs] overlap = yes in %s "
                 "([exchange] overlap = no switches it off)",
                 dl_note_file(&variant->costs));
}

static void add_sharded(dl_notes *list, const dl_variant *variant)
{
    const dl_costs *costs = &variant->costs;
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "exchange", "sharded");
    const dl_scenario *scenario = &variant->scenario;
    if (costs->sharded != DL_SHARDED_NONE && scenario->gpu == NULL &&
        scenario->processes != DL_PROCESSES_YES) {
        dl_notes_add(list,
                     "[costs] sharded = %s in %s has no effect: workers on cores are "
                     "threads, which each update all parameters",
                     dl_sharded_names[costs->sharded], dl_note_file(costs));
        return;
    }
    if (costs->sharded == DL_SHARDED_NONE || scenario->given[key - dl_scenario_keys.rows]) return;
    const char *name = dl_sharded_names[costs->sharded];
    dl_notes_add(
        list,
        dl_scenario_sharded(scenario) == costs->sharded
            ? "states are divided as [costs] sharded = %s in %s says ([exchange] sharded = "
              "none switches it off)"
            : "[costs] sharded = %s in %s: the program divides its states, but not all "
              "points of this scenario can, so none does; --mode allreduce --set "
              "exchange.sharded=%s simulates it",
        name, dl_note_file(costs), name);
}

/* Adds a note on the size of a micro-batch, which PyTorch's programs call the batch size. */
static void add_divided(dl_notes *list, const dl_scenario *scenario)
{
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "sync", "accumulate");
    const dl_point *most = NULL;
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        if (most == NULL || point->option[DL_SYNC_ACCUMULATE] > most->option[DL_SYNC_ACCUMULATE])
            most = point;
    }
    if (!scenario->given[key - dl_scenario_keys.rows] || most == NULL) return;
    const double count = most->option[DL_SYNC_ACCUMULATE];
    const double each = (double)most->batch / most->workers;
    if (!(count > 1)) return;
    dl_notes_add(list,
                 "[sync] accumulate = %.0f divides a worker's batch of %.4g into "
                 "micro-batches of %.4g; micro-batches of %.4g are --batch-per-worker %.4g",
                 count, each, each / count, each, each * count);
}

static void add_accumulation(dl_notes *list, const dl_variant *variant)
{
    if (!dl_variant_accumulates_by_costs(variant)) return;
    const long long count = variant->costs.accumulate;
    const dl_scenario_pipeline *pipeline = variant->scenario.pipeline;
    const bool staged = pipeline != NULL && pipeline->stages > 1;
    const bool sharded = dl_scenario_sharded(&variant->scenario) == DL_SHARDED_PARAMETERS;
    dl_notes_add(
        list,
        "a worker's batch of a step is %lld micro-batches, whose gradients are exchanged after "
        "%s: [costs] accumulate = %lld in %s (%s overrides it)",
        count, sharded ? "each" : "the last", count, dl_note_file(&variant->costs),
        staged ? "--micro-batches" : "[sync] accumulate");
}

/* Adds a note on the default batch per worker, derived from the costs' batch of a GPU, if several
 * GPUs of a worker divide it. */
static void add_batch_of_gpus(dl_notes *list, const dl_study *study)
{
    const dl_variant *first = &study->variants[0];
    if (!study->batch_by_costs || first->scenario.model != NULL) return;
    const long long each = dl_costs_step_batch(&first->costs);
    const int gpus = dl_point_batches(&first->scenario.points[0]);
    if (gpus == 1) return;
    dl_notes_add(list,
                 "a worker's batch of %lld is %d times the %lld samples per GPU of "
                 "%s, as fsdp and ep divide it (--batch-per-worker sets it)",
                 each * gpus, gpus, each, dl_note_file(&first->costs));
}

/* Adds a note on a job that repeats all its work after a failure. */
static void add_restarts(dl_notes *list, const dl_failures *failures)
{
    if (!dl_failures_given(failures) || failures->checkpoint_steps > 0) return;
    dl_notes_add(
        list,
        "without [failures] checkpoint_steps the job starts over after each "
        "failure%s",
        failures->at_count > 0 ? "" : "; best_checkpoint_steps of the results is the best value");
}

static void add_job(dl_notes *list, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    if (!dl_failures_given(&scenario->failures) || scenario->failures.steps > 0 ||
        scenario->target.samples > 0)
        return;
    dl_notes_add(list,
                 "goodput and the best checkpoint_steps are those of a job of %lld steps, "
                 "as simulated: [failures] job_steps or [target] samples says its length",
                 (long long)scenario->steps);
}

static void add_turns(dl_notes *list, const dl_variant *variant)
{
    if (!dl_variant_waits_by_costs(variant)) return;
    dl_notes_add(list,
                 "each worker's thread makes a batch, launches its step and waits for it, "
                 "in turn: [costs] waits = yes in %s ([machine] ahead, [input] prefetch or "
                 "cores switch it off)",
                 dl_note_file(&variant->costs));
}

/* Adds a note on time independent of the number of GPUs whose cause is not in the trace. */
static void add_external(dl_notes *list, const dl_variant *variant)
{
    const dl_value *wait = &variant->costs.dispatch.external_ns;
    if (!wait->known || !(wait->value > 0)) return;
    dl_notes_add(list,
                 "%s of each step, for any number of GPUs, are external waits ([dispatch] "
                 "external_ns in %s): nothing in the trace ran meanwhile, as when training "
                 "waits for a data loader; more GPUs may wait longer. --without external "
                 "leaves them out",
                 DL_NS_TEXT(wait->value), dl_note_file(&variant->costs));
}

/* Compute time of a GPU in a step of the point with `samples` per worker, ns. */
static double computed_ns(const dl_costs *costs, const dl_point *point, double samples)
{
    const double micro_batches = point->option[DL_SYNC_ACCUMULATE], each = samples / micro_batches;
    return micro_batches * (dl_costs_step_ns(costs, each, "forward") +
                            dl_costs_step_ns(costs, each, "backward")) +
           dl_costs_step_ns(costs, each, "update");
}

/* Adds a note that launches by the host, which a faster GPU does not shorten, take longer than the
 * GPU's work. Counts the launches of every micro-batch. */
static void add_host(dl_notes *list, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_value *launch = &variant->costs.dispatch.per_worker_ns;
    double most = 1, gpu_ns = 0, samples = 0, launches = 0;
    if (scenario->gpu == NULL || !launch->known || launch->origin == DL_ORIGIN_ASSUMED) return;
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        if (point->stages > 1) continue;
        const double each = (double)point->batch / point->workers;
        const double ns = computed_ns(&variant->costs, point, each);
        const double ratio = launch->value * point->option[DL_SYNC_ACCUMULATE] / ns;
        if (!(ratio > most)) continue;
        most = ratio;
        gpu_ns = ns;
        samples = each;
        launches = point->option[DL_SYNC_ACCUMULATE];
    }
    if (!(most > 1)) return;
    char times[32] = "";
    if (launches > 1) snprintf(times, sizeof times, "%.0f times ", launches);
    dl_notes_add(list,
                 "the host bounds steps: launching one takes it %s (%s[dispatch] "
                 "per_worker_ns in %s, of the host that was measured), the GPU computes for "
                 "%s (batch %.4g). Larger batches, a faster host or fewer launches (CUDA "
                 "graphs) help; --without dispatch shows the GPUs alone",
                 DL_NS_TEXT(launches * launch->value), times, dl_note_file(&variant->costs),
                 DL_NS_TEXT(gpu_ns), samples);
}

/* Adds a note on the costs derived from a single measured throughput. */
static void add_throughput(dl_notes *list, const dl_scenario *scenario)
{
    if (scenario->samples_per_s <= 0) return;
    dl_notes_add(list,
                 "%g samples/s by one worker at any batch size: assumed, a third of it "
                 "forward, two thirds backward pass and update; dlcal costs takes these "
                 "times from a trace",
                 scenario->samples_per_s);
}

/* Returns "; 95 % interval: up to 2.8 times faster or slower" (2.5 to 2.8 for two factors), or ""
 * if a measured step replaces the interval; the caller frees it. */
static char *interval_of(const dl_variant *variant, double least, double most)
{
    char range[32] = "", upper[16];
    if (variant->calibrated.factor > 0 && variant->is_calibrated_gpu) return dl_strdup("");
    snprintf(range, sizeof range, "%.2g", least);
    snprintf(upper, sizeof upper, "%.2g", most);
    if (strcmp(range, upper) != 0) snprintf(range, sizeof range, "%.2g to %s", least, upper);
    return dl_format("; 95 %% interval: up to %s times faster or slower", range);
}

/* Adds a note on the factor derived from a measured step. */
static void add_calibrated(dl_notes *list, const dl_variant *variant)
{
    const dl_calibrate *c = &variant->calibrated;
    const bool finds = c->step_ns > 0;
    char factor[32], *step = NULL;
    if (!(c->factor > 0)) return;
    snprintf(factor, sizeof factor, "%.3g", c->factor);
    const bool scales = strcmp(factor, "1") != 0;
    const char *says = variant->scenario.model != NULL       ? "the estimate"
                       : variant->scenario.samples_per_s > 0 ? "that of samples_per_s"
                                                             : "that of the cost file";
    const char *of_others =
        variant->is_calibrated_gpu ? "" : " and for this model of GPU, whose interval stays";
    if (finds)
        step = dl_format("a step of %d worker%s with %lld samples each takes the measured %s",
                         c->workers, c->workers > 1 ? "s" : "", (long long)c->samples,
                         DL_NS_TEXT(c->step_ns));
    if (scales) {
        dl_notes_add(list,
                     "compute is %s times %s, %s%s ([workload] calibrate); the same "
                     "factor is taken for other batch sizes%s%s",
                     factor, says, finds ? "so that " : "as is given", finds ? step : "", of_others,
                     c->may_launch ? "; but the host's launches, whose time is "
                                     "assumed, may take as long: a step with more "
                                     "samples tells"
                                   : "");
    } else if (finds) {
        dl_notes_add(list, "compute is equal to %s: %s ([workload] calibrate)", says, step);
    }
    free(step);
}

/* Adds a note on an assumed [spread] run_frac. */
static void add_runs(dl_notes *list, const dl_variant *variant)
{
    const dl_value *runs = &variant->costs.run_spread_frac;
    if (!runs->known || runs->origin != DL_ORIGIN_ASSUMED) return;
    dl_notes_add(list,
                 "95 %% intervals include %.0f %% either way, within which 95 %% of "
                 "258 published rows were predicted from others of their table; "
                 "dlcal table fits your own ([spread] run_frac)",
                 100 * (exp(1.96 * runs->value) - 1));
}

static void add_scaling(dl_notes *list, const dl_variant *variant)
{
    const dl_scaling *s = &variant->scaling;
    const dl_costs *costs = &variant->costs;
    if (s->differs) {
        dl_notes_add(list, "%s is of %s, not of %s; its times are not scaled: %s",
                     dl_note_file(costs), costs->device, s->to, s->why_not);
    }
    if (!s->scaled) return;
    DL_AUTOFREE char *interval =
        interval_of(variant, exp(DL_SCALING_SPREAD), exp(DL_SCALING_SPREAD));
    dl_notes_add(list, "compute of %s scaled from %s to %s: x %.3g (update x %.3g)%s",
                 dl_note_file(costs), s->from, s->to, s->compute_factor, s->update_factor,
                 interval);
}

/* Adds a note on how the costs of the machine's other GPU models are obtained. */
static void add_models(dl_notes *list, const dl_variant *variant)
{
    const dl_costs *costs = &variant->costs;
    const dl_machine *m = &variant->scenario.gpu->machine;
    for (int i = 0; i < costs->model_count; i++) {
        const dl_scaling *s = &variant->scalings[i];
        const dl_costs *own = costs->models[i].own;
        if (own != NULL && variant->scenario.model == NULL) {
            dl_notes_add(list, "compute on %s is taken from %s", m->models[i].name,
                         dl_note_file(own));
        }
        if (s->scaled) {
            dl_notes_add(list,
                         "compute of %s on %s scaled from %s: x %.3g (update x %.3g); 95 %% "
                         "interval: up to %.2g times faster or slower",
                         dl_note_file(costs), s->to, s->from, s->compute_factor, s->update_factor,
                         exp(s->spread_log));
        }
        if (s->differs) {
            dl_notes_add(list, "times of %s are used for %s without scaling: %s",
                         dl_note_file(costs), s->to, s->why_not);
        }
    }
}

/* Returns the point with the most workers among all that are not split, the last one among equals;
 * NULL if all are split. */
static const dl_point *largest_point(const dl_scenario *scenario)
{
    const dl_point *largest = NULL;
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        if (dl_point_is_split(point)) continue;
        if (largest == NULL || point->workers >= largest->workers) largest = point;
    }
    return largest;
}

/* Adds a note on the division of a batch among the workers on each model. */
static void add_shares(dl_notes *list, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_costs *costs = &variant->costs;
    const dl_point *point = largest_point(scenario);
    if (costs->model_count == 0 || point == NULL) return;
    DL_AUTOFREE int *models = dl_calloc((size_t)point->workers, sizeof *models, "models");
    DL_AUTOFREE int64_t *samples = dl_calloc((size_t)point->workers, sizeof *samples, "shares");
    dl_point_models(scenario, point, models);
    dl_point_shares(scenario, costs, point, samples);
    DL_AUTOFREE char *text =
        dl_format("GPUs differ; a batch of %lld is divided", (long long)point->batch);
    for (int m = 0, listed = 0; m < costs->model_count; m++) {
        int count = 0, one = -1;
        for (int w = 0; w < point->workers; w++) {
            if (models[w] != m) continue;
            one = one < 0 ? w : one;
            count++;
        }
        if (count == 0) continue;
        const double batch = (double)samples[one];
        const double ns = dl_costs_model_step_ns(costs, m, batch, "forward") +
                          dl_costs_model_step_ns(costs, m, batch, "backward");
        dl_extend(&text, "%s %lld samples on %s%s (%s)", listed++ > 0 ? "," : ":",
                  (long long)samples[one], count > 1 ? "each " : "",
                  scenario->gpu->machine.models[m].name, DL_NS_TEXT(ns));
    }
    dl_notes_add(list, "%s", text);
}

/* Adds a note on the arithmetic, and on the sizes of weights and messages, which do not follow from
 * it. If variants of the study differ in what they exchange, each one's note names its mode. */
static void add_arithmetic(dl_notes *list, const dl_variant *variant, bool differ)
{
    const dl_arithmetic arithmetic = dl_scenario_arithmetic(&variant->scenario);
    const dl_sharded sharded = dl_scenario_sharded(&variant->scenario);
    const bool halves = variant->costs.half_weights && sharded != DL_SHARDED_PARAMETERS;
    if (arithmetic < DL_FP16) return;
    DL_AUTOFREE char *of = !differ ? dl_strdup("")
                           : sharded == DL_SHARDED_NONE
                               ? dl_strdup(" without sharding")
                               : dl_format(" with sharded %s", dl_sharded_names[sharded]);
    dl_notes_add(list, "arithmetic %s%s is %s%s: %s%s", dl_arithmetic_names[arithmetic], of,
                 halves ? "as in Megatron-LM" : "PyTorch's autocast",
                 arithmetic >= DL_FP8 ? " with Transformer Engine's linear layers" : "",
                 halves ? "weights have 16 bits, the optimizer keeps them in fp32 too, and "
                          "gradients are summed in fp32"
                        : "parameters, gradients and the optimizer's state stay fp32",
                 sharded != DL_SHARDED_NONE
                     ? "; messages have the types of [exchange] param_dtype and reduce_dtype"
                 : halves ? ", in which they are exchanged"
                          : ", and so is what is exchanged ([exchange] compress = fp16: half of "
                            "the bytes)");
}

/* Returns a clause on the time of a step over that of its kernels measured one by one, or "" if the
 * estimate has no such factor; the caller frees it. */
static char *sustained_of(const dl_variant *variant, const dl_efficiency *efficiency)
{
    const double measured = variant->calibrated.factor;
    if (!(efficiency->sustained > 1)) return dl_strdup("");
    if (measured > 0 && variant->is_calibrated_gpu) {
        return dl_format(", which the measured step makes %.3g times as long",
                         efficiency->sustained * measured);
    }
    return dl_format(", %.3g times as long as kernels one by one (1 to 1.6 in published steps; "
                     "--calibrate STEP gives it)",
                     efficiency->sustained);
}

/* Removes a key from a network's name: "gpt2:tp=2,fused=yes, bf16, adam" -> "gpt2:fused=yes, bf16,
 * adam". */
static void remove_name_key(char *name, const char *key)
{
    char *at = strstr(name, key);
    if (at == NULL || at == name || (at[-1] != ':' && at[-1] != ',')) return;
    const char *end = at + strcspn(at, ",");
    if (at[-1] == ':' && *end == ',' && end[1] != ' ') {
        end++;
    } else {
        at--;
    }
    memmove(at, end, strlen(end) + 1);
}

/* Returns the name of the network with its arithmetic and optimizer, without the keys by which the
 * estimates of a study's variants do not differ; the caller frees it. */
static char *short_name(const dl_variant *variant)
{
    char *name = dl_strdup(variant->costs.workload);
    remove_name_key(name, "tp=");
    remove_name_key(name, "cp=");
    remove_name_key(name, "ep=");
    remove_name_key(name, "recompute=");
    return name;
}

/* Returns the name for a note on the estimate: short if it holds for several variants, of which
 * *least and *most are the standard deviations of the smallest and largest interval. The caller
 * frees it. */
static char *estimated_name(const dl_study *study, const dl_variant *variant, double *least,
                            double *most)
{
    char *name = short_name(variant);
    bool several = false;
    *least = *most = variant->costs.compute_spread_frac.value;
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *other = &study->variants[v];
        if (other->scenario.gpu == NULL || other->scenario.model == NULL ||
            strcmp(dl_scenario_first_gpu(&other->scenario)->name,
                   dl_scenario_first_gpu(&variant->scenario)->name) != 0)
            continue;
        DL_AUTOFREE char *of_other = short_name(other);
        if (strcmp(of_other, name) == 0) {
            several |= strcmp(other->costs.workload, variant->costs.workload) != 0;
            *least = fmin(*least, other->costs.compute_spread_frac.value);
            *most = fmax(*most, other->costs.compute_spread_frac.value);
        }
    }
    if (several) return name;
    free(name);
    return dl_strdup(variant->costs.workload);
}

/* Number of columns of the first product whose rows are not a multiple of 16 bytes, which makes
 * them slow to load into tensor cores, as with a vocabulary of 50257; 0: none. */
static int unaligned_columns(const dl_architecture *network, dl_arithmetic arithmetic)
{
    const int bytes = arithmetic >= DL_FP16 ? 2 : 4;
    for (size_t l = 0; l < network->layer_count; l++) {
        const dl_layer_pass *forward = &network->layers[l].forward;
        for (int p = 0; p < forward->count; p++)
            if (forward->parts[p].odd_columns * bytes % 16 > 0)
                return forward->parts[p].odd_columns;
    }
    return 0;
}

/* Makes the network that was estimated; the caller frees it. */
static dl_architecture network_of(const dl_scenario *scenario)
{
    dl_architecture network = {0};
    dl_error error = {0};
    const dl_status status = dl_scenario_network(scenario, &network, &error);
    DL_ASSERT(status == DL_OK, "%s", error.text);
    return network;
}

static void add_estimate(dl_notes *list, const dl_study *study, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_gpu_model *gpu = dl_scenario_first_gpu(scenario);
    if (scenario->model == NULL) return;
    const dl_arithmetic arithmetic = dl_scenario_arithmetic(scenario);
    const dl_model_class class = dl_architecture_class(scenario->model);
    const dl_arithmetic products = dl_gpu_model_products(gpu, arithmetic);
    const dl_efficiency *efficiency = dl_efficiency_of(gpu, class, arithmetic);
    DL_SCOPED(dl_architecture) network = network_of(scenario);
    double least, most;
    DL_AUTOFREE char *name = estimated_name(study, variant, &least, &most);
    DL_AUTOFREE char *interval = interval_of(variant, exp(2 * least), exp(2 * most));
    DL_AUTOFREE char *sustained = sustained_of(variant, efficiency);
    const char *assumed = dl_efficiency_assumed(gpu, class, arithmetic);
    const dl_gpu_kernels *kernels = dl_roofline_kernels(gpu, class, arithmetic);
    DL_AUTOFREE char *rates =
        kernels != NULL
            ? dl_format(kernels->sustained.known
                            ? "kernels in %s that were measured one by one on %s, times %.3g, as a "
                              "layer in a loop took; programs may take longer (--calibrate STEP)"
                            : "products and copies in %s that were measured one by one on %s; "
                              "steps were found to take 1 to 1.6 times as long as the sum of "
                              "their kernels (--calibrate STEP gives it)",
                        dl_arithmetic_names[arithmetic], gpu->name, kernels->sustained.value)
            : dl_format("%.3g of the %s flop rate and %.3g of the memory rate of %s%s%s%s",
                        efficiency->arithmetic_frac, dl_arithmetic_names[products],
                        efficiency->memory_frac, gpu->name, assumed != NULL ? ", " : "",
                        assumed != NULL ? assumed : "", sustained);
    dl_notes_add(list, "times of %s are estimated from %s%s%s", name, rates, interval,
                 network.unfused
                     ? "; norms, rotation, gates and scores are assumed to run operation by "
                       "operation, as in plain PyTorch: fused=compiled, or yes as in Megatron"
                     : "");
    const int columns =
        products != DL_FP32 && kernels == NULL ? unaligned_columns(&network, arithmetic) : 0;
    if (columns > 0)
        dl_notes_add(list,
                     "products with %d columns, no multiple of 16 bytes, are slow: vocabulary=%d "
                     "if padded, as by Megatron-LM",
                     columns, (columns + 63) / 64 * 64);
}

/* Adds notes on the parts of a network's parameters that are trained, and that a token uses. */
static void add_parameters(dl_notes *list, const dl_variant *variant)
{
    const char *model = variant->scenario.model;
    if (model == NULL) return;
    DL_SCOPED(dl_architecture) network = network_of(&variant->scenario);
    DL_SCOPED(dl_architecture) whole = {0}; /* without the layout's axes */
    if (variant->costs.frozen_bytes > 0)
        dl_notes_add(list,
                     "adapters of %.4g million parameters are trained, the other %.4g "
                     "billion of a GPU's part are frozen",
                     (double)dl_architecture_parameters(&network) / 1e6,
                     (double)dl_architecture_frozen(&network) / 1e9);
    if (network.experts == 0 || dl_architecture_make(&whole, model, NULL) != DL_OK) return;
    dl_notes_add(list,
                 "each of %d experts is assumed to get as many tokens as the others: a token uses "
                 "%d of them, %.3g of the %.3g billion parameters%s",
                 whole.experts, whole.active, (double)dl_architecture_active(&whole) / 1e9,
                 (double)dl_architecture_whole(&whole) / 1e9,
                 whole.tensor > 1 ? " of a GPU's part" : "");
    if (network.expert_ranks > 1)
        dl_notes_add(list, "GPUs compute nothing while they exchange tokens for experts");
}

/* Whether the variant's times are estimates for a network on a GPU, with none of its steps
 * measured. */
static bool is_estimate(const dl_variant *variant)
{
    return variant->scenario.gpu != NULL && variant->scenario.model != NULL &&
           !(variant->calibrated.factor > 0);
}

/* Adds a note on the basis of the ratio of two GPUs if both are estimates. */
static void add_compared(dl_notes *list, const dl_variant *variant, const dl_variant *other)
{
    const dl_scenario *scenario = &variant->scenario;
    if (!is_estimate(variant) || !is_estimate(other)) return;
    const dl_gpu_model *gpus[] = {dl_scenario_first_gpu(&other->scenario),
                                  dl_scenario_first_gpu(scenario)};
    if (strcmp(gpus[0]->name, gpus[1]->name) == 0) return;
    const dl_arithmetic arithmetic = dl_scenario_arithmetic(scenario);
    const dl_model_class class = dl_architecture_class(scenario->model);
    const dl_efficiency *parts[] = {dl_efficiency_of(gpus[0], class, arithmetic),
                                    dl_efficiency_of(gpus[1], class, arithmetic)};
    DL_AUTOFREE char *longer =
        parts[0]->sustained > 1 || parts[1]->sustained > 1
            ? dl_format(", with %.3g and %.3g times their kernels' times one by one",
                        parts[1]->sustained, parts[0]->sustained)
            : dl_strdup("");
    dl_notes_add(list,
                 "the ratio of %s to %s rests on an estimate of each%s: up to %.2g times more or "
                 "less; a measured step of each gives it (--calibrate STEP, a run for each)",
                 gpus[1]->name, gpus[0]->name, longer,
                 exp(2 * hypot(variant->costs.compute_spread_frac.value,
                               other->costs.compute_spread_frac.value)));
}

/* Adds a note on the machine's GPUs that neither a layout's point nor generators use. */
static void add_idle(dl_notes *list, const dl_study *study, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_generators *g = scenario->generators;
    const int has = dl_gpu_options_count(scenario->gpu);
    const int generate = g != NULL && !g->colocated ? g->generator_gpus : 0;
    int most = 0;
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_scenario *other = &study->variants[v].scenario;
        if (other->gpu == NULL ||
            strcmp(other->gpu->machine.path, scenario->gpu->machine.path) != 0)
            continue;
        for (size_t p = 0; p < other->point_count; p++) {
            const int used = dl_point_gpus(&other->points[p]);
            if (dl_point_is_split(&other->points[p]) && used > most) most = used;
        }
    }
    if (most == 0 || most + generate >= has) return;
    DL_AUTOFREE char *generators =
        generate > 0 ? dl_format(", generators use %d", generate) : dl_strdup("");
    dl_notes_add(list,
                 "the largest layout uses %d of the machine's %d GPUs%s, the other %d are idle",
                 most, has, generators, has - most - generate);
}

/* Adds a note on nodes that are parts of an NVLink rack but are joined only by NICs here. */
static void add_racks(dl_notes *list, const dl_machine *m)
{
    for (int k = 0; k < m->kind_count && m->nodes > 1; k++) {
        const dl_node_kind *kind = &m->kinds[k];
        const char *name = m->models[kind->gpus[0].model].name;
        if ((strcmp(name, "gb200") != 0 && strcmp(name, "gb300") != 0) || kind->gpu_count >= 72)
            continue;
        dl_notes_add(list,
                     "nodes of %d %s exchange over their NICs here; NVLink joins all 72 GPUs "
                     "of a rack: --machine %s_nvl72",
                     kind->gpu_count, name, name);
    }
}

/* Adds a note on buffers that a framework broadcasts before each step, if the broadcast is not
 * simulated. */
static void add_buffers(dl_notes *list, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_costs *costs = &variant->costs;
    if (!costs->broadcast_bytes.known || !(costs->broadcast_bytes.value > 0)) return;
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        if (!dl_mode_reduces_gradients(point->mode) || point->workers == 1) continue;
        const bool split = dl_point_is_split(point);
        if (!split && !(point->option[DL_SYNC_LAG] > 0)) continue;
        dl_notes_add(list, "[broadcast] of %s has no effect %s", dl_note_file(costs),
                     split ? "where stages split the model" : "with [sync] lag");
    }
}

static int node_of(const dl_scenario *scenario, int gpu)
{
    return dl_gpu_options_place(scenario->gpu, gpu).node;
}

/* Adds notes on averages that the costs place in host memory, on layers that nodes divide, and on a
 * key of sharded parameters that stages leave without effect. */
static void add_places(dl_notes *list, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const bool open = scenario->gpu->where == DL_WHERE_CPU &&
                      variant->costs.average.read_bytes_per_s.known &&
                      !dl_scenario_gives(scenario, "sync", "where") &&
                      !dl_scenario_gives(scenario, "sync", "server_threads") &&
                      !dl_scenario_gives(scenario, "exchange", "shards");
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        const dl_split split = dl_point_split(point);
        if (open && point->workers > 1 && point->mode->through & DL_THROUGH_COLLECTIVE &&
            dl_mode_takes(point->mode, DL_SYNC_WHERE))
            dl_notes_add(list,
                         "averages are made in host memory, as [average] of %s says "
                         "([sync] where = allreduce makes them on the GPUs)",
                         dl_note_file(&variant->costs));
        if (node_of(scenario, dl_split_gpu(&split, 0, split.tensor - 1)) != node_of(scenario, 0))
            dl_notes_add(list,
                         "tp = %d: GPUs of several nodes divide each layer and exchange "
                         "activations over the network in each pass%s",
                         split.tensor,
                         node_of(scenario, split.tensor - 1) == node_of(scenario, 0)
                             ? "; with tp first in --layout one node's GPUs do"
                             : "");
        if (split.stages > 1 && dl_split_is_sharded(&split) &&
            dl_scenario_gives(scenario, "exchange", "reshard_after_forward"))
            dl_notes_add(list, "[exchange] reshard_after_forward has no effect with "
                               "stages: a stage keeps the parameters that it gathers in a "
                               "step's first forward pass");
    }
}

/* Adds a note on costs of another program whose workers are processes, if the scenario runs them as
 * threads. */
static void add_shared_memory(dl_notes *list, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    if (scenario->processes == DL_PROCESSES_YES || !dl_costs_of_other_program(&variant->costs))
        return;
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        if (point->workers == 1 || point->mode->exchange == DL_EXCHANGES_NOTHING) continue;
        dl_notes_add(list,
                     "[machine] processes = no takes the workers of %s to be threads that "
                     "share memory; between processes, by gloo or RPC, each exchange takes "
                     "milliseconds more, so that two may be slower than one",
                     dl_note_file(&variant->costs));
    }
}

/* Adds a note on an outer optimizer whose interval is the default. */
static void add_outer(dl_notes *list, const dl_variant *variant)
{
    if (variant->scenario.outer == 0 || dl_scenario_gives(&variant->scenario, "sync", "interval"))
        return;
    dl_notes_add(list, "default [sync] interval = 1: an outer step after each local one; DiLoCo's "
                       "authors take 500 (arXiv 2311.08105)");
}

/* Adds a note on the given keys of [input] whose cost is missing, so that they have no effect. */
static void add_idle_input(dl_notes *list, const dl_variant *variant)
{
    static const struct {
        const char *key, *says;
        bool of_storage;
    } rows[] = {
        {"loaders", "loaders make batches in no time", false},
        {"cores", "cores make batches in no time", false},
        {"noise", "noise has no time to vary", false},
        {"storage_bytes_per_s", "storage_bytes_per_s has nothing to read", true},
        {"shared_storage_bytes_per_s", "shared_storage_bytes_per_s has nothing to read", true},
        {"storage_ahead_bytes", "storage_ahead_bytes has nothing to read", true},
        {"cached_frac", "cached_frac has nothing to read", true},
    };
    const dl_costs *costs = &variant->costs;
    bool has_input = false;
    for (size_t i = 0; i < costs->op_count; i++)
        has_input |= strcmp(costs->ops[i].name, "input") == 0;
    for (size_t r = 0; r < DL_LENGTH(rows); r++) {
        const dl_key *key = dl_keys_find(&dl_scenario_keys, "input", rows[r].key);
        if (!variant->scenario.given[key - dl_scenario_keys.rows]) continue;
        if (r == 0 && variant->scenario.input.loaders == 0) continue;
        if (rows[r].of_storage ? costs->stored_bytes_per_sample.known : has_input) continue;
        dl_notes_add(list, "unknown in %s: %s: [input] %s", dl_note_file(costs),
                     rows[r].of_storage ? "[input] stored_bytes_per_sample" : "[op input]",
                     rows[r].says);
    }
}

/* Adds a note on collectives between GPUs in slots if the machine file lacks the path through host
 * memory. Skips the program's own files, which have the path where their studies need it. */
static void add_slots(dl_notes *list, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_gpu_options *gpu = scenario->gpu;
    bool collective = false;
    for (size_t p = 0; p < scenario->point_count && !collective; p++) {
        const dl_point *point = &scenario->points[p];
        collective = point->workers > 1 && dl_scenario_is_collective(scenario, point);
    }
    if (!collective || access(gpu->machine.path, F_OK) != 0) return;
    const dl_place first = dl_gpu_options_place(gpu, 0), next = dl_gpu_options_place(gpu, 1);
    if (!dl_links_in_slots(&gpu->links, first, next) || dl_links_by_shm(&gpu->links, first, next))
        return;
    DL_AUTOFREE char *own = dl_machine_own_name(gpu->machine.path);
    if (own == NULL) {
        dl_notes_add(list,
                     "collectives between GPUs of %s without NVLink or a common PCIe switch "
                     "run at its links' rates; NCCL sends them through host memory, usually "
                     "more slowly: [shm] bytes_per_s, with bounds or from nccl-tests "
                     "(docs/simulating.md, \"Boxes of PCIe cards\")",
                     dl_base_name(gpu->machine.path));
    }
}

/* Adds a note on the keys of the scenario that replace parts of the machine's network. */
static void add_network(dl_notes *list, const dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    DL_AUTOFREE char *names = NULL;
    for (size_t k = 0; k < dl_scenario_keys.count; k++) {
        const dl_key *key = &dl_scenario_keys.rows[k];
        if (!scenario->given[k] ||
            (strcmp(key->section, "network") != 0 && strcmp(key->section, "tcp") != 0))
            continue;
        dl_join_format(&names, ", ", "[%s] %s", key->section, key->name);
    }
    if (names == NULL) return;
    dl_notes_add(list,
                 "the scenario sets %s in place of the values of %s, whose network it keeps "
                 "otherwise",
                 names, dl_base_name(scenario->gpu->machine.path));
}

static void add_leading(dl_notes *list, const dl_study *study)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        add_restarts(list, &variant->scenario.failures);
        add_divided(list, &variant->scenario);
        if (variant->scenario.gpu == NULL) add_shared_memory(list, variant);
        add_outer(list, variant);
        add_idle_input(list, variant);
        if (variant->scenario.gpu == NULL) continue;
        add_shares(list, variant);
        add_parameters(list, variant);
        const char *in_vain = dl_recompute_in_vain(&variant->scenario);
        if (in_vain != NULL) dl_notes_add(list, "%s", in_vain);
        add_idle(list, study, variant);
        add_racks(list, &variant->scenario.gpu->machine);
        add_host(list, variant);
        add_external(list, variant);
        add_slots(list, variant);
        add_places(list, variant);
    }
}

static void add_computes(dl_notes *list, const dl_study *study)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        add_throughput(list, &variant->scenario);
        add_calibrated(list, variant);
        add_runs(list, variant);
        if (variant->scenario.gpu == NULL) continue;
        add_scaling(list, variant);
        add_models(list, variant);
        add_estimate(list, study, variant);
        add_compared(list, variant, &study->variants[0]);
    }
}

static void add_others(dl_notes *list, const dl_study *study)
{
    const dl_sharded sharded = dl_scenario_sharded(&study->variants[0].scenario);
    bool differ = false;
    for (size_t v = 1; v < study->variant_count; v++)
        differ |= dl_scenario_sharded(&study->variants[v].scenario) != sharded;
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        if (variant->scenario.gpu != NULL && variant->scenario.model != NULL)
            add_arithmetic(list, variant, differ);
        add_job(list, variant);
        add_sharded(list, variant);
        if (variant->scenario.gpu == NULL) continue;
        add_network(list, variant);
        add_unknown(list, &variant->costs);
        add_overlap(list, variant);
        add_accumulation(list, variant);
        add_turns(list, variant);
        add_buffers(list, variant);
    }
    add_batch_of_gpus(list, study);
}

void dl_study_notes(dl_notes *notes, const dl_study *study, unsigned kinds)
{
    if (kinds & DL_NOTES_LEADING) add_leading(notes, study);
    if (kinds & DL_NOTES_COMPUTE) add_computes(notes, study);
    if (kinds & DL_NOTES_OTHER) add_others(notes, study);
}

void dl_file_notes(dl_notes *notes, const dl_study *study)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_costs *costs = &study->variants[v].costs;
        const char *path = study->variants[v].scenario.costs_path;
        const char *file = path != NULL ? dl_base_name(path) : dl_note_file(costs);
        for (size_t i = 0; i < costs->note_count; i++)
            dl_notes_add(notes, "%s: %s", file, costs->notes[i]);
    }
}
