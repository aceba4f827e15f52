/* [layer NAME] of a cost file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "sim/costs/costs_fields.h"

/* Parameters of all layers may miss [costs] parameter_bytes by as much: both may be rounded. */
#define SUM_TOLERANCE 1e-3

static const char *const phases[] = {".forward", ".backward", ".update"};

/* Whether an operation is a layer's forward, backward or update. */
static bool is_of_layer(const dl_op_cost *op, const char *layer)
{
    const size_t length = strlen(layer);
    if (strncmp(op->name, layer, length) != 0) return false;
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
        if (strcmp(op->name + length, phases[p]) == 0) return true;
    }
    return false;
}

dl_layer_cost *dl_costs_layer(dl_costs *costs, const dl_ini_entry *entry)
{
    const char *name = entry->section + strlen("layer ");
    size_t i = 0;
    while (i < costs->layer_count && strcmp(costs->layers[i].name, name) != 0)
        i++;
    if (i == costs->layer_count) {
        costs->layers = dl_realloc(costs->layers, i + 1, sizeof *costs->layers, "layers");
        costs->layers[i] = (dl_layer_cost){.name = dl_strdup(name)};
        costs->layer_count++;
    }
    return &costs->layers[i];
}

static dl_status check_operations(const dl_costs *costs, const dl_layer_cost *layer, dl_error *err)
{
    for (size_t o = 0; o < costs->op_count; o++) {
        if (is_of_layer(&costs->ops[o], layer->name)) return DL_OK;
    }
    const char **names = dl_calloc(costs->op_count, sizeof *names, "names of operations");
    for (size_t o = 0; o < costs->op_count; o++)
        names[o] = costs->ops[o].name;
    char hint[160];
    dl_names_hint(hint, sizeof hint, layer->name, names, (int)costs->op_count);
    free(names);
    return dl_error_set_at(err, DL_ERR_NAME, costs->path, 0,
                           "[layer %s]: no operation %s.forward, .backward or .update%s",
                           layer->name, layer->name, hint);
}

/* Where all layers say how many parameters they have, it must be those of the model. */
static dl_status check_sum(const dl_costs *costs, dl_error *err)
{
    double sum = 0;
    for (size_t l = 0; l < costs->layer_count; l++)
        sum += costs->layers[l].parameter_bytes.value;
    for (size_t o = 0; o < costs->op_count; o++) {
        bool told =
            strcmp(costs->ops[o].name, "input") == 0 || strcmp(costs->ops[o].name, "dispatch") == 0;
        for (size_t l = 0; l < costs->layer_count && !told; l++) {
            told = is_of_layer(&costs->ops[o], costs->layers[l].name) &&
                   costs->layers[l].parameter_bytes.known;
        }
        if (!told && strstr(costs->ops[o].name, ".update") == NULL) return DL_OK;
    }
    const double all = (double)costs->parameter_bytes;
    if (all < 0 || fabs(sum - all) <= SUM_TOLERANCE * all) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, costs->path, 0,
                           "the layers have %.0f bytes of parameters, but [costs] "
                           "parameter_bytes is %.0f",
                           sum, all);
}

dl_status dl_costs_finish_layers(const dl_costs *costs, dl_error *err)
{
    if (costs->layer_count == 0) return DL_OK;
    for (size_t l = 0; l < costs->layer_count; l++) {
        dl_status status = check_operations(costs, &costs->layers[l], err);
        if (status != DL_OK) return status;
    }
    return check_sum(costs, err);
}

void dl_costs_free_layers(dl_costs *costs)
{
    for (size_t l = 0; l < costs->layer_count; l++)
        free(costs->layers[l].name);
    free(costs->layers);
}
