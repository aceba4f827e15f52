#include "sim/scenario/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/scenario/known_gpus.h"
#include "sim/scenario/machine_catalogue.h"

/* Whether two models have the same chip, like a100_80gb and a100_pcie. */
static bool same_chip(const char *a, const char *b)
{
    const size_t bytes = strcspn(a, "_");
    return bytes == strcspn(b, "_") && strncmp(a, b, bytes) == 0;
}

/* --- costs ----------------------------------------------------------------------------------- */

/* Returns the model index of a GPU that the scenario may use. */
static int model_of(const dl_gpu_options *gpu, int number)
{
    const dl_place place = dl_gpu_options_place(gpu, number);
    return dl_machine_model_number(&gpu->machine, place.node, place.index);
}

static const dl_gpu_model *first_model(const dl_scenario *scenario)
{
    return &scenario->gpu->machine.models[model_of(scenario->gpu, 0)];
}

/* Rates of two GPUs, [0] that of the costs, [1] that of the machine, in flop/s and bytes/s. */
typedef struct rates {
    double arithmetic[2], memory[2];
} rates;

static double roofline_s(const rates *r, int gpu, const dl_op_cost *op)
{
    return fmax(op->flop_per_sample.value / r->arithmetic[gpu],
                op->bytes_per_sample.value / r->memory[gpu]);
}

static double factor_of(const rates *r, const dl_op_cost *op, const dl_scaling *scaling)
{
    const bool known = op->flop_per_sample.known && op->bytes_per_sample.known;
    if (known && roofline_s(r, 0, op) > 0) return roofline_s(r, 1, op) / roofline_s(r, 0, op);
    return dl_costs_is_of_parameters(op->name) ? scaling->update_factor : scaling->compute_factor;
}

static void scale(dl_value *value, double factor)
{
    value->value *= factor;
    value->error *= factor;
    value->origin = DL_ORIGIN_ASSUMED;
}

static bool is_on_gpu(const dl_op_cost *op)
{
    return strcmp(op->name, "input") != 0 && strcmp(op->name, "dispatch") != 0;
}

/* Sets the factors from the rates, and the spread also from the names in *scaling. */
static void set_factors(const rates *r, dl_scaling *scaling)
{
    const double a = r->arithmetic[0] / r->arithmetic[1], b = r->memory[0] / r->memory[1];
    scaling->scaled = true;
    scaling->update_factor = b;
    scaling->compute_factor =
        pow(a, DL_SCALING_ARITHMETIC_SHARE) * pow(b, 1 - DL_SCALING_ARITHMETIC_SHARE);
    scaling->spread_log = DL_SCALING_SPREAD;
    if (same_chip(scaling->from, scaling->to)) {
        scaling->spread_log =
            fmax(fabs(log(a / scaling->compute_factor)), fabs(log(b / scaling->compute_factor)));
    }
}

static void scale_all(dl_costs *costs, const rates *r, const dl_scaling *scaling)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        dl_op_cost *op = &costs->ops[i];
        if (!is_on_gpu(op)) continue;
        const double factor = factor_of(r, op, scaling);
        scale(&op->fixed_ns, factor);
        scale(&op->per_sample_ns, factor);
    }
}

/* --- the costs' GPU -------------------------------------------------------------------------- */

/* Finds the costs' GPU in the file given by scale_compute. */
static dl_status find_in(const dl_machine *file, const dl_costs *costs, const dl_gpu_model **source,
                         dl_error *err)
{
    for (int i = 0; i < file->model_count && costs->device != NULL; i++) {
        if (!dl_device_is_gpu(costs->device, file->models[i].name)) continue;
        *source = &file->models[i];
        return DL_OK;
    }
    return dl_error_set_at(
        err, DL_ERR_DATA, costs->path, 0,
        "[costs] device = %s: not a GPU of %s, from which compute is to be scaled",
        costs->device != NULL ? costs->device : "", file->path);
}

static rates rates_of(const dl_gpu_model *from, const dl_gpu_model *to)
{
    return (rates){{from->fp32_flop_per_s.value, to->fp32_flop_per_s.value},
                   {from->memory_bytes_per_s.value, to->memory_bytes_per_s.value}};
}

static void name_both(dl_scaling *scaling, const dl_gpu_model *from, const dl_gpu_model *to)
{
    snprintf(scaling->from, sizeof scaling->from, "%s", from->name);
    snprintf(scaling->to, sizeof scaling->to, "%s", to->name);
}

static void scale_between(const dl_gpu_model *from, const dl_gpu_model *to, dl_costs *costs,
                          dl_scaling *scaling)
{
    const rates r = rates_of(from, to);
    name_both(scaling, from, to);
    set_factors(&r, scaling);
    scale_all(costs, &r, scaling);
}

static dl_status scale_from(const dl_machine *file, const dl_scenario *scenario, dl_costs *costs,
                            dl_scaling *scaling, const dl_gpu_model **source, dl_error *err)
{
    const dl_gpu_model *to = first_model(scenario);
    *source = to;
    if (costs->device != NULL && dl_device_is_gpu(costs->device, to->name)) return DL_OK;
    const dl_status status = find_in(file, costs, source, err);
    if (status == DL_OK) scale_between(*source, to, costs, scaling);
    return status;
}

/* Whether a GPU of the machine is the one on which the costs were measured: its name matches the
 * device and, if a more specific known name matches too, the rates are equal ("A100-SXM4-80GB"
 * matches the name, but not the rates, of the 40 GB a100). */
static bool is_own(const dl_gpu_model *gpu, const char *device, const dl_gpu_model *known)
{
    if (!dl_device_is_gpu(device, gpu->name)) return false;
    const bool special = known->name != NULL && strlen(known->name) > strlen(gpu->name);
    if (!special) return true;
    const rates r = rates_of(known, gpu);
    return r.arithmetic[0] == r.arithmetic[1] && r.memory[0] == r.memory[1];
}

/* Scales if the costs' GPU is known; else sets the reason why not. */
static void scale_known(const dl_gpu_model *to, dl_costs *costs, const dl_gpu_model *from,
                        dl_scaling *scaling)
{
    if (from->name == NULL) {
        scaling->why_not = "no known machine has such a GPU; [workload] scale_compute names a "
                           "machine file that has";
    } else {
        scale_between(from, to, costs, scaling);
    }
}

/* Returns the GPU named by the costs: a model of the machine, else the known GPU, whose name is
 * NULL if there is none. */
static const dl_gpu_model *named(const dl_machine *m, const dl_costs *costs,
                                 const dl_gpu_model *known)
{
    for (int i = 0; i < m->model_count && costs->device != NULL; i++)
        if (is_own(&m->models[i], costs->device, known)) return &m->models[i];
    return known;
}

/* Whether the device is a processor: names of processors contain one of these words, names of GPUs
 * do not. */
static bool is_processor(const char *device)
{
    static const char *const words[] = {"EPYC",     "Xeon",     "Ryzen", "Threadripper",
                                        "Opteron",  "Core(TM)", "CPU",   "Graviton",
                                        "Neoverse", "Processor"};
    for (size_t i = 0; i < DL_LENGTH(words); i++)
        if (strstr(device, words[i]) != NULL) return true;
    return false;
}

/* Scales from the GPU named by the costs' device to the machine's first GPU. Sets *source to the
 * costs' GPU, or to the one that they are assumed to come from. */
static dl_status scale_by_name(const dl_scenario *scenario, dl_costs *costs, dl_scaling *scaling,
                               const dl_gpu_model *known, const dl_gpu_model **source,
                               dl_error *err)
{
    const dl_gpu_model *to = first_model(scenario);
    *source = to;
    if (costs->device == NULL || is_own(to, costs->device, known)) return DL_OK;
    if (known->name == NULL && scenario->scale != DL_SCALE_NO && is_processor(costs->device)) {
        return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                               "times of a processor, %s, say nothing about those of a GPU, %s: "
                               "record on a GPU, or estimate its times (--workload); [workload] "
                               "scale = no (--no-scale) takes them as they are",
                               costs->device, to->name);
    }
    snprintf(scaling->to, sizeof scaling->to, "%s", to->name);
    if (scenario->scale == DL_SCALE_NO) {
        scaling->why_not = "[workload] scale = no";
    } else {
        scale_known(to, costs, named(&scenario->gpu->machine, costs, known), scaling);
    }
    scaling->differs = !scaling->scaled;
    if (scaling->scaled) *source = named(&scenario->gpu->machine, costs, known);
    return DL_OK;
}

/* --- GPUs of several models ------------------------------------------------------------------ */

/* Inputs of the costs of the machine's models. */
typedef struct models_job {
    const dl_scenario *scenario;
    dl_costs *costs;
    const dl_scaling *first;    /* scaling to the first GPU's model */
    const dl_gpu_model *source; /* GPU of the costs as read; its name is NULL if unknown */
    dl_scaling *scalings;       /* [models] scalings to each model */
} models_job;

/* Whether a GPU that the scenario may use has that model. */
static bool is_used(const dl_gpu_options *gpu, int model)
{
    if (gpu->gpus == NULL) return dl_machine_has_model(&gpu->machine, model);
    for (int g = 0; g < gpu->gpu_count; g++)
        if (model_of(gpu, g) == model) return true;
    return false;
}

static bool are_several(const dl_gpu_options *gpu)
{
    int count = 0;
    for (int m = 0; m < gpu->machine.model_count; m++)
        count += is_used(gpu, m);
    return count > 1;
}

static dl_status read_own(const models_job *job, const dl_gpu_costs *file, dl_error *err)
{
    const dl_gpu_model *gpu = &job->scenario->gpu->machine.models[file->model];
    dl_model_costs *model = &job->costs->models[file->model];
    dl_costs *own = dl_calloc(1, sizeof *own, "costs of a model");
    dl_status status = dl_costs_read(own, file->path, err);
    if (status == DL_OK && own->device != NULL && !dl_device_is_gpu(own->device, gpu->name)) {
        status = dl_error_set_at(err, DL_ERR_DATA, own->path, 0,
                                 "[costs] device = %s: [workload] gpu_costs has it for %s",
                                 own->device, gpu->name);
    }
    if (status == DL_OK && own->machine_value_count > 0) {
        status = dl_error_set_at(err, DL_ERR_DATA, own->path, 0,
                                 "[machine %s]: the file of one model's compute gives no number of "
                                 "the machine; [workload] costs does",
                                 own->machine_values[0].section);
    }
    DL_AUTOFREE char *missing = status == DL_OK ? dl_costs_missing(own, DL_NEED_OPS) : NULL;
    if (missing != NULL) {
        status = dl_error_set_at(err, DL_ERR_DATA, own->path, 0, "costs are missing: %s", missing);
    }
    if (status != DL_OK) {
        dl_costs_free(own);
        free(own);
        return status;
    }
    model->own = own;
    model->spread_log = 2 * own->compute_spread_frac.value;
    return DL_OK;
}

/* Sets the ratios of the operations' times on this model to those on the first GPU. */
static void scale_model(const models_job *job, int number)
{
    dl_costs *costs = job->costs;
    dl_model_costs *model = &costs->models[number];
    dl_scaling *scaling = &job->scalings[number];
    const dl_gpu_model *to = &job->scenario->gpu->machine.models[number];
    const dl_gpu_model *first = first_model(job->scenario);
    name_both(scaling, job->source, to);
    if (job->scenario->scale == DL_SCALE_NO) {
        scaling->differs = true;
        scaling->why_not = "[workload] scale = no";
        return;
    }
    const rates r = rates_of(job->source, to), r_first = rates_of(job->source, first);
    set_factors(&r, scaling);
    const bool is_own = costs->device != NULL && dl_device_is_gpu(costs->device, to->name);
    model->spread_log = is_own ? 0 : scaling->spread_log;
    scaling->scaled = !is_own;
    model->factors = dl_calloc(costs->op_count, sizeof *model->factors, "factors");
    for (size_t i = 0; i < costs->op_count; i++) {
        const dl_op_cost *op = &costs->ops[i];
        const double to_model = is_own ? 1 : factor_of(&r, op, scaling);
        const double to_first = job->first->scaled ? factor_of(&r_first, op, job->first) : 1;
        model->factors[i] = is_on_gpu(op) ? to_model / to_first : 1;
    }
}

static dl_status set_models(const models_job *job, dl_error *err)
{
    const dl_scenario *scenario = job->scenario;
    const dl_gpu_options *gpu = scenario->gpu;
    const int first = model_of(gpu, 0);
    dl_costs *costs = job->costs;
    costs->model_count = gpu->machine.model_count;
    costs->models = dl_calloc((size_t)costs->model_count, sizeof *costs->models, "models");
    dl_status status = DL_OK;
    costs->models[first].spread_log = job->first->scaled ? job->first->spread_log : 0;
    for (size_t f = 0; f < scenario->gpu_costs_count && status == DL_OK; f++) {
        if (is_used(gpu, scenario->gpu_costs[f].model))
            status = read_own(job, &scenario->gpu_costs[f], err);
    }
    for (int m = 0; m < costs->model_count; m++) {
        dl_model_costs *model = &costs->models[m];
        if (model->own != NULL || !is_used(gpu, m)) continue;
        if (m != first) scale_model(job, m);
        model->spread_log = fmax(model->spread_log, 2 * costs->compute_spread_frac.value);
    }
    return status;
}

/* Whether [workload] gpu_costs has a file for the first GPU, so that the costs stay as read. */
static bool first_has_own(const dl_scenario *scenario)
{
    for (size_t f = 0; f < scenario->gpu_costs_count; f++)
        if (scenario->gpu_costs[f].model == model_of(scenario->gpu, 0)) return true;
    return false;
}

dl_status dl_scaling_apply(const dl_scenario *scenario, dl_costs *costs, dl_scaling *scaling,
                           dl_scaling **scalings, dl_error *err)
{
    *scaling = (dl_scaling){0};
    *scalings = NULL;
    if (scenario->gpu == NULL) return DL_OK;
    const bool by_file = scenario->scale_path != NULL && scenario->scale != DL_SCALE_NO;
    models_job job = {.scenario = scenario, .costs = costs, .first = scaling};
    DL_SCOPED(dl_machine) file = {0};
    dl_gpu_model known = {0};
    dl_status status = DL_OK;
    if (costs->device != NULL) dl_known_gpu(costs->device, &known);
    if (first_has_own(scenario)) {
        job.source = named(&scenario->gpu->machine, costs, &known);
        if (job.source->name == NULL) job.source = first_model(scenario);
    } else if (by_file) {
        status = dl_machine_open(&file, scenario->scale_path, err);
        if (status == DL_OK) status = scale_from(&file, scenario, costs, scaling, &job.source, err);
    } else {
        status = scale_by_name(scenario, costs, scaling, &known, &job.source, err);
    }
    if (status == DL_OK && are_several(scenario->gpu)) {
        job.scalings = *scalings = dl_calloc((size_t)scenario->gpu->machine.model_count,
                                             sizeof **scalings, "scalings of models");
        status = set_models(&job, err);
    }
    free(known.name);
    return status;
}
