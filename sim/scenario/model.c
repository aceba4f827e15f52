/* The network of a scenario, [workload] model: its description, its arithmetic and its estimated
 * costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/scenario/scenario_internal.h"
#include "sim/scenario/study.h"
#include "sim/workloads/roofline.h"

static void add_key(char **model, const char *key, const char *value)
{
    dl_extend(model, "%s%s=%s", strchr(*model, ':') != NULL ? "," : ":", key, value);
}

/* Returns the file's model with the adapters of [workload], freed by the caller; NULL: no model is
 * given. */
static char *adapted(const dl_ini *ini)
{
    const dl_ini_entry *model = dl_ini_find(ini, "workload", "model");
    const dl_ini_entry *rank = dl_ini_find(ini, "workload", "lora");
    const dl_ini_entry *on = dl_ini_find(ini, "workload", "lora_targets");
    if (model == NULL) return NULL;
    char *text = dl_strdup(model->value);
    if (rank == NULL || strcmp(rank->value, "0") == 0) return text;
    add_key(&text, "lora", rank->value);
    if (on == NULL) return text;
    char *joined = dl_strdup(on->value), *end = joined;
    for (const char *at = on->value; *at != '\0'; at++)
        if (*at != ' ') *end++ = *at == ',' ? '+' : *at;
    *end = '\0';
    add_key(&text, "lora_targets", joined);
    free(joined);
    return text;
}

dl_status dl_scenario_read_model(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "workload", "model");
    scenario->model = adapted(ini);
    if (entry == NULL) return DL_OK;
    if (dl_ini_find(ini, "workload", "scale_compute") != NULL) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "scale_compute is given too: give only one");
    }
    DL_SCOPED(dl_architecture) architecture = {0};
    dl_error inner = {0};
    dl_status status = dl_architecture_make(&architecture, scenario->model, &inner);
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", inner.text);
}

dl_arithmetic dl_scenario_arithmetic(const dl_scenario *scenario)
{
    if (scenario->arithmetic > 0) return (dl_arithmetic)(scenario->arithmetic - 1);
    return dl_arithmetic_usual(&scenario->gpu->machine, dl_architecture_class(scenario->model));
}

/* Appends the size of an axis unless the description already has one. */
static void add_axis(char **model, const char *key, int size)
{
    char number[16], own[16];
    const char *at = strchr(*model, ':');
    snprintf(number, sizeof number, "%d", size);
    snprintf(own, sizeof own, "%s=", key);
    for (at = at != NULL ? strstr(at, own) : NULL; at != NULL; at = strstr(at + 1, own))
        if (at[-1] == ',' || at[-1] == ':') return;
    if (size > 1) add_key(model, key, number);
}

/* Parts of transformers that the axes divide. */
static const char *const divided_parts[] = {
    [DL_AXIS_TP] = "layers", [DL_AXIS_CP] = "sequences", [DL_AXIS_EP] = "experts"};

/* Returns the model's description with the layout's tp, cp and ep and the recomputation; the caller
 * frees it. */
static char *divided(const dl_scenario *scenario)
{
    char *text = dl_strdup(scenario->model);
    const dl_scenario_pipeline *p = scenario->pipeline;
    for (size_t a = 0; p != NULL && a < DL_LENGTH(divided_parts); a++)
        add_axis(&text, dl_axis_names[a], p->size[a]);
    if (scenario->recompute > 0)
        add_key(&text, "recompute", dl_recompute_names[scenario->recompute]);
    return text;
}

/* Refuses recomputation, tp, cp and ep for a model that is not a transformer. */
static dl_status check_transformer(const dl_scenario *scenario, dl_error *err)
{
    const dl_scenario_pipeline *p = scenario->pipeline;
    size_t a = 0;
    if (dl_architecture_class(scenario->model) == DL_MODEL_TRANSFORMER) return DL_OK;
    if (scenario->recompute > 0) {
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "[workload] recompute = %s: only activations of transformers are "
                               "recomputed, and the model is %s",
                               dl_recompute_names[scenario->recompute], scenario->model);
    }
    while (a < DL_LENGTH(divided_parts) && (p == NULL || p->size[a] <= 1))
        a++;
    if (a == DL_LENGTH(divided_parts)) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                           "%s=%d divides %s of transformers only, and the model is %s: pp and "
                           "fsdp divide any network",
                           dl_axis_names[a], p->size[a], divided_parts[a], scenario->model);
}

dl_status dl_scenario_network(const dl_scenario *scenario, dl_architecture *network, dl_error *err)
{
    DL_AUTOFREE char *model = divided(scenario);
    const dl_status status = check_transformer(scenario, err);
    return status == DL_OK ? dl_architecture_make(network, model, err) : status;
}

dl_status dl_scenario_check_network(const dl_scenario *scenario, dl_error *err)
{
    DL_SCOPED(dl_architecture) network = {0};
    const bool divides = scenario->model != NULL && scenario->pipeline != NULL;
    return divides ? dl_scenario_network(scenario, &network, err) : DL_OK;
}

dl_status dl_scenario_estimate_costs(const dl_scenario *scenario, const dl_gpu_model *gpu,
                                     dl_costs *costs, dl_error *err)
{
    const dl_machine *m = &scenario->gpu->machine;
    dl_architecture architecture = {0};
    dl_status status = dl_scenario_network(scenario, &architecture, err);
    if (status != DL_OK) return status;
    const dl_optimizer_kind usual =
        architecture.class == DL_MODEL_TRANSFORMER ? DL_ADAM : DL_MOMENTUM;
    const dl_arithmetic arithmetic = dl_scenario_arithmetic(scenario);
    dl_error inner = {0};
    status = dl_roofline_costs(
        costs, &architecture, gpu, arithmetic,
        scenario->optimizer > 0 ? (dl_optimizer_kind)(scenario->optimizer - 1) : usual,
        dl_scenario_sharded(scenario) == DL_SHARDED_PARAMETERS, &inner);
    dl_architecture_free(&architecture);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(err, status, m->path, 0, "[workload] arithmetic = %s: %s",
                           dl_arithmetic_names[arithmetic], inner.text);
}

const dl_gpu_model *dl_scenario_first_gpu(const dl_scenario *scenario)
{
    const dl_place place = dl_gpu_options_place(scenario->gpu, 0);
    return dl_machine_model(&scenario->gpu->machine, place.node, place.index);
}
