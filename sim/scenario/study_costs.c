/* The costs of a study's variants: read, estimated or derived from one number, then scaled,
 * calibrated, and completed by assumptions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/generate/generate.h"
#include "sim/run.h"
#include "sim/scenario/calibrate.h"
#include "sim/scenario/known_gpus.h"
#include "sim/scenario/study_internal.h"

/* Estimates a network on the GPUs of the machine's other models instead of scaling. */
static dl_status estimate_models(dl_variant *variant, dl_error *err)
{
    const dl_scenario *scenario = &variant->scenario;
    dl_status status = DL_OK;
    for (int m = 0; m < variant->costs.model_count && status == DL_OK; m++) {
        dl_model_costs *model = &variant->costs.models[m];
        if (model->factors == NULL) continue;
        dl_costs *own = dl_calloc(1, sizeof *own, "costs of a model");
        status = dl_scenario_estimate_costs(scenario, &scenario->gpu->machine.models[m], own, err);
        if (status == DL_OK) {
            free(model->factors);
            *model = (dl_model_costs){.own = own, .spread_log = 2 * own->compute_spread_frac.value};
            variant->scalings[m] = (dl_scaling){0};
        } else {
            free(own);
        }
    }
    return status;
}

int64_t dl_scenario_batch(const dl_scenario *scenario)
{
    int64_t batch = 0;
    for (size_t p = 0; p < scenario->point_count; p++) {
        const dl_point *point = &scenario->points[p];
        const int64_t own = point->batch / (scenario->batch_per_worker ? point->workers : 1);
        if (p > 0 && own != batch) return 0;
        batch = own;
    }
    return batch;
}

/* Reads or makes the costs. A cost file has all costs or, together with a model or a rate, those of
 * exchange. */
static dl_status take_costs(const dl_scenario *scenario, dl_costs *costs, dl_error *err)
{
    dl_status status = DL_OK;
    if (scenario->model != NULL) {
        status = dl_scenario_estimate_costs(scenario, dl_scenario_first_gpu(scenario), costs, err);
    } else if (scenario->samples_per_s > 0) {
        const char *device = scenario->device;
        if (device != NULL && device[0] == '\0') device = NULL;
        dl_costs_of_throughput(costs, scenario->samples_per_s, device, dl_scenario_batch(scenario));
    } else if (scenario->costs_path != NULL) {
        return dl_costs_read(costs, scenario->costs_path, err);
    } else { /* [generators] sets the time of an update: no run needs costs */
        dl_costs_of_throughput(costs, 1, NULL, 0);
    }
    if (status != DL_OK || scenario->costs_path == NULL) return status;
    return dl_costs_add_exchange(costs, scenario->costs_path, err);
}

/* Checks the number of GPUs that divide the layers, sequences or experts. Costs of layers are valid
 * only for one such number, as times of whole layers cannot be converted to times of parts. */
static dl_status check_axis(const dl_costs *costs, const char *axis, const char *divided,
                            const char *whole, const char *key, int64_t ranks, int wanted,
                            dl_error *err)
{
    const int has = ranks > 1 ? (int)ranks : 1;
    if (has == wanted) return DL_OK;
    if (has > 1) {
        return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                               "these are costs of one of %d GPUs that divide %s: %s=%d "
                               "in [machine] layout (--layout %s=%d)",
                               has, divided, axis, has, axis, has);
    }
    return dl_error_set_at(
        err, DL_ERR_DATA, costs->path, 0,
        "%s = %d divides %s, but these are costs of %s, whose times cannot be "
        "divided: take --workload NAME of a transformer, or costs of one of %d GPUs with [costs] "
        "%s = %d",
        axis, wanted, divided, whole, wanted, key, wanted);
}

static dl_status check_divided(const dl_variant *variant, dl_error *err)
{
    const dl_costs *costs = &variant->costs;
    const dl_scenario_pipeline *p = variant->scenario.pipeline;
    dl_status status = check_axis(costs, "tp", "each layer", "whole layers", "tensor_ranks",
                                  costs->tensor_ranks, p != NULL ? p->tensor : 1, err);
    if (status == DL_OK)
        status = check_axis(costs, "cp", "each sequence", "whole sequences", "context_ranks",
                            costs->context_ranks, p != NULL ? p->context : 1, err);
    if (status != DL_OK) return status;
    return check_axis(costs, "ep", "the experts", "all experts", "expert_ranks",
                      costs->expert_ranks, p != NULL ? p->experts : 1, err);
}

/* Checks that the model can be split as the variant's points require. */
static dl_status check_split(const dl_variant *variant, dl_error *err)
{
    dl_status status = check_divided(variant, err);
    for (size_t p = 0; p < variant->scenario.point_count && status == DL_OK; p++) {
        const dl_point *point = &variant->scenario.points[p];
        if (!dl_point_is_split(point)) continue;
        int first[DL_PIECES_MAX + 1];
        const dl_split whole = dl_point_split(point), split = dl_split_of_pieces(&whole);
        status = dl_pipeline_cut(&variant->scenario.pipeline->options, &variant->costs, &split,
                                 first, err);
    }
    return status;
}

/* Rejects costs measured on a GPU in a scenario without a machine, whose workers would be cores. */
static dl_status refuse_cores_of_gpu(const dl_scenario *scenario, const dl_costs *costs,
                                     dl_error *err)
{
    bool measured = false;
    for (size_t p = 0; p < scenario->point_count; p++)
        measured = measured || scenario->points[p].cores == DL_CORES_MEASURED;
    if (!measured || costs->cores > 0 || costs->device == NULL) return DL_OK;
    dl_gpu_model known = {0};
    dl_known_gpu(costs->device, &known);
    const dl_status status = dl_error_set_at(
        err, DL_ERR_DATA, scenario->path, 0,
        "%s is of a GPU (%s): --machine, or [machine] file, says on which machine it is to train, "
        "as --machine 4x%s; dlsim --machines lists them",
        costs->path, costs->device, known.name != NULL ? known.name : "v100");
    free(known.name);
    return status;
}

/* Rejects features that are not simulated for the kind of workers on cores: sharding for threads;
 * compression, and averages with absences, for processes. */
static dl_status check_processes(const dl_scenario *scenario, dl_error *err)
{
    const bool messages = scenario->compression.kind != DL_COMPRESS_NONE;
    bool elastic = false;
    if (scenario->gpu == NULL && scenario->sharded != DL_SHARDED_NONE &&
        scenario->processes != DL_PROCESSES_YES) {
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "workers on cores are threads here, which share the parameters: "
                               "[exchange] sharded (mode fsdp) is simulated of processes and GPUs "
                               "([machine] processes = yes, or a cost file of a PyTorch trace)");
    }
    if (scenario->processes != DL_PROCESSES_YES) return DL_OK;
    for (size_t p = 0; p < scenario->point_count; p++) {
        elastic |=
            dl_mode_averages(scenario->points[p].mode) && dl_absences_given(&scenario->absences);
    }
    if (!messages && !elastic) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                           "workers on cores are processes here: %s is simulated of threads only "
                           "([machine] processes = no)",
                           messages ? "[exchange] compress" : "mode average with absences");
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Whether two scenarios have the same workload, as a calibration factor applies only to one
 * workload. */
static bool same_workload(const dl_scenario *a, const dl_scenario *b)
{
    return same_text(a->costs_path, b->costs_path) && same_text(a->model, b->model) &&
           a->samples_per_s == b->samples_per_s;
}

/* Returns the first variant of the study with the same measured step or calibration factor as this
 * one. */
static const dl_variant *first_calibrated(const dl_study *study, const dl_variant *variant)
{
    const dl_calibrate *own = &variant->scenario.calibrate, *of = NULL;
    size_t v = 0;
    for (;; v++) {
        of = &study->variants[v].scenario.calibrate;
        if (of->step_ns == own->step_ns && of->per_s == own->per_s && of->workers == own->workers &&
            of->samples == own->samples && of->factor == own->factor && of->most_ns == own->most_ns)
            return &study->variants[v];
    }
}

/* Scales compute by the given calibration factor, or so that the predicted step equals the measured
 * one; a later variant takes the factor of the first with the same key. */
static dl_status calibrate(const dl_study *study, dl_variant *variant, dl_error *err)
{
    const dl_scenario *scenario = &variant->scenario;
    const dl_variant *first = first_calibrated(study, variant);
    dl_status status = DL_OK;
    variant->calibrated = scenario->calibrate;
    if (scenario->calibrate.step_ns == 0 && scenario->calibrate.per_s == 0 &&
        scenario->calibrate.factor == 0)
        return DL_OK;
    if (!same_workload(scenario, &first->scenario)) {
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "[workload] calibrate: a measured step is of one workload, but the "
                               "scenario lists several");
    }
    if (first != variant) {
        variant->calibrated = first->calibrated;
    } else if (scenario->calibrate.factor == 0) {
        status = dl_calibrate_find(scenario, &variant->costs, &variant->calibrated, err);
    }
    variant->is_calibrated_gpu =
        scenario->gpu == NULL || strcmp(dl_scenario_first_gpu(scenario)->name,
                                        dl_scenario_first_gpu(&first->scenario)->name) == 0;
    if (status == DL_OK) dl_calibrate_apply(&variant->costs, variant->calibrated.factor);
    variant->costs.dispatch.most_ns = variant->calibrated.most_ns;
    return status;
}

/* Stores the measured step with its factor, and the limit of launches, in the study's text, so that
 * scenarios derived from it need not determine them again. */
static void keep_factor(dl_study *study)
{
    char step[DL_DOUBLE_TEXT_BYTES], number[DL_DOUBLE_TEXT_BYTES], most[DL_DOUBLE_TEXT_BYTES];
    const dl_calibrate *c = &study->variants[0].calibrated;
    if (c->step_ns == 0 || dl_study_swept(study, "workload", "calibrate") != NULL) return;
    const bool limited = c->most_ns > 0;
    DL_AUTOFREE char *text =
        dl_format("%s ns@%dx%lld=%s%s%s%s", dl_format_double(step, c->step_ns), c->workers,
                  (long long)c->samples, dl_format_double(number, c->factor), limited ? "/" : "",
                  limited ? dl_format_double(most, c->most_ns) : "", limited ? " ns" : "");
    dl_ini_text_set(&study->text, "workload", "calibrate", text);
}

/* Assumes [spread] run_frac if compute is that of one measured step or rate on the GPUs and has no
 * interval of its own; else intervals would only have the exchange's assumed values. */
static void assume_runs(dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    const bool is_timed = variant->calibrated.factor > 0 || scenario->samples_per_s > 0;
    if (scenario->gpu == NULL || !is_timed || variant->costs.run_spread_frac.known ||
        dl_variant_compute_log(variant) > 0)
        return;
    variant->costs.run_spread_frac =
        (dl_value){.known = true, .value = DL_RUN_FRAC, .origin = DL_ORIGIN_ASSUMED};
}

/* Assumes settings that the scenario leaves open, defaults of costs that points need and the costs
 * lack, and bounds of the machine's values; with [generators] also those of generation. */
static void assume(dl_variant *variant)
{
    const dl_scenario *scenario = &variant->scenario;
    if (scenario->generators != NULL && scenario->model != NULL)
        dl_generate_estimate(&variant->scenario, dl_scenario_first_gpu(scenario),
                             dl_scenario_arithmetic(scenario), &variant->costs, &variant->assumed);
    if (scenario->generators != NULL)
        dl_generate_assume(scenario->generators, &variant->costs, &variant->assumed);
    if (dl_scenario_trains_by_keys(scenario)) return;
    dl_variant_assume_settings(variant);
    dl_run_assume(scenario, &variant->costs, NULL, &variant->assumed);
    if (scenario->gpu != NULL)
        dl_machine_assume(&variant->costs, &scenario->gpu->machine, &variant->assumed);
    assume_runs(variant);
}

dl_status dl_variant_read_costs(const dl_study *study, dl_variant *variant, dl_error *err)
{
    dl_scenario *scenario = &variant->scenario;
    dl_costs *costs = &variant->costs;
    dl_status status;
    if ((status = take_costs(scenario, costs, err)) ||
        (status = dl_costs_check_machine(
             costs, scenario->gpu != NULL ? &scenario->gpu->machine : NULL, err)) ||
        (status = refuse_cores_of_gpu(scenario, costs, err)) ||
        (status = dl_scenario_set_measured_cores(scenario, costs->cores, err)) ||
        (status = dl_scaling_apply(scenario, costs, &variant->scaling, &variant->scalings, err)) ||
        (scenario->model != NULL && (status = estimate_models(variant, err)))) {
        return status;
    }
    if (scenario->parameter_bytes > 0) costs->parameter_bytes = scenario->parameter_bytes;
    if (scenario->samples_per_s > 0 && scenario->gpu != NULL && costs->parameter_bytes > 0)
        dl_costs_assume_buckets(costs);
    if ((status = dl_variant_take_settings(variant, err)) ||
        (status = check_processes(scenario, err)))
        return status;
    if (!dl_scenario_trains_by_keys(scenario)) dl_variant_take_dtypes(variant);
    return calibrate(study, variant, err);
}

dl_status dl_study_read_costs(dl_study *study, dl_error *err)
{
    dl_status status = DL_OK;
    study->point_count = 0;
    for (size_t v = 0; v < study->variant_count && status == DL_OK; v++) {
        dl_variant *variant = &study->variants[v];
        status = dl_variant_read_costs(study, variant, err);
        if (status == DL_OK) assume(variant);
        if (status == DL_OK) status = check_split(variant, err);
        study->point_count += variant->scenario.point_count;
    }
    if (status == DL_OK) dl_study_assume_messages(study);
    if (status == DL_OK && study->variant_count > 0) keep_factor(study);
    return status;
}

double dl_variant_compute_log(const dl_variant *variant)
{
    const dl_costs *costs = &variant->costs;
    double most = 0;
    if (variant->calibrated.factor > 0 && variant->is_calibrated_gpu) return 0;
    for (int m = 0; m < costs->model_count; m++)
        most = fmax(most, costs->models[m].spread_log);
    if (costs->model_count > 0) return most;
    return fmax(variant->scaling.scaled ? variant->scaling.spread_log : 0,
                2 * costs->compute_spread_frac.value);
}
