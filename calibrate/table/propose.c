/* Finds an unfitted rate, shared by the GPUs of a node, that would explain the rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/table/table_internal.h"
#include "common/alloc.h"

/* Host keys: the total rate of a socket's devices, and the rate of its memory. */
static const char *const shared[] = {"root_bytes_per_s", "memory_bytes_per_s"};

/* Returns the machine value in the costs unless it is already fitted; NULL if there is none. */
static dl_machine_value *find_value(const dl_table_model *model, const char *key)
{
    dl_costs *costs = &model->parts->costs;
    for (size_t i = 0; i < costs->machine_value_count; i++) {
        dl_machine_value *value = &costs->machine_values[i];
        if (strcmp(value->section, "host") != 0 || strcmp(value->key->name, key) != 0) continue;
        for (size_t j = 0; j < model->unknown->count; j++)
            if (model->unknown->items[j].value[0] == &value->value) return NULL;
        return value;
    }
    return NULL;
}

/* Makes a second model with all weights 1: that of `from` plus the rate `extra`, unless NULL. */
static void extend(dl_table_model *model, dl_table_costs *list, const dl_table_model *from,
                   dl_machine_value *extra, double guess)
{
    *list = *from->unknown;
    if (extra != NULL) {
        list->items[list->count++] = (dl_table_cost){.name = (char *)extra->key->name,
                                                     .value = {&extra->value},
                                                     .start = guess,
                                                     .low = extra->key->low,
                                                     .high = extra->key->high};
    }
    dl_table_model_init(model, from->parts, from->part_count, list, from->threads);
    memcpy(model->guess, from->guess, from->unknown->count * sizeof *model->guess);
    memcpy(model->active, from->active, from->unknown->count * sizeof *model->active);
    model->cluster = from->cluster;
    model->fitted = from->fitted;
    model->journal = from->journal;
    model->next = from->next;
    model->steps = from->steps;
}

/* Returns the root mean square of r of the fit with the rate `extra` (NULL: without one) and
 * weights 1, and stores the fitted rate in *value. */
static double fit_with(dl_table_model *from, const double *x, dl_machine_value *extra,
                       double *value)
{
    const dl_machine *m = &from->parts->scenario.gpu->machine;
    const double link = m->classes[dl_machine_node(m, 0)->gpus[0].link].bytes_per_s.value;
    dl_table_costs list;
    DL_SCOPED(dl_table_model) model = {0};
    extend(&model, &list, from, extra, link);
    const size_t last = list.count - 1;
    double best[DL_TABLE_COSTS_MAX], at[DL_TABLE_COSTS_MAX];
    memcpy(at, x, from->unknown->count * sizeof *at);
    memcpy(best, at, sizeof at);
    double squares = (double)INFINITY;
    /* Start rates from four times a link's rate, which limits almost nothing, down to a quarter. */
    for (double rate = 4; rate >= 0.25 && extra != NULL; rate /= 2) {
        at[last] = log(rate * link);
        const double here = dl_table_model_squares(&model, at);
        if (here >= squares) continue;
        squares = here;
        memcpy(best, at, sizeof at);
    }
    squares = dl_table_model_descend(&model, best);
    if (extra != NULL) *value = exp(best[last]);
    const double n = (double)dl_table_model_rows(&model);
    from->runs += model.runs;
    if (model.status != DL_OK && from->status == DL_OK) {
        from->status = model.status;
        from->error = model.error;
    }
    return sqrt(squares / n);
}

/* Returns whether a rate can be proposed: the fit has one part and room for one more cost, and
 * several workers run on a machine whose nodes have several GPUs. */
static bool shares_nodes(const dl_table_model *model)
{
    const dl_scenario *scenario = &model->parts->scenario;
    if (model->part_count > 1 || scenario->gpu == NULL ||
        model->unknown->count == DL_TABLE_COSTS_MAX)
        return false;
    for (size_t p = 0; p < scenario->point_count; p++)
        if (scenario->points[p].workers > 1)
            return dl_machine_most_gpus(&scenario->gpu->machine) > 1;
    return false;
}

dl_status dl_table_propose(dl_table_proposal *proposal, dl_table_model *model, const double *x)
{
    const size_t costs = dl_table_model_costs(model) + 1;
    if (!shares_nodes(model) || dl_table_model_rows(model) < costs + DL_TABLE_PROPOSAL_ROWS) {
        return DL_OK;
    }
    const double without = fit_with(model, x, NULL, NULL);
    if (!(without > DL_TABLE_PROPOSAL_RMS)) return model->status;
    double least = DL_TABLE_PROPOSAL_PART * without;
    for (size_t k = 0; k < DL_LENGTH(shared) && model->status == DL_OK; k++) {
        dl_machine_value *extra = find_value(model, shared[k]);
        if (extra == NULL) continue;
        const dl_value before = extra->value;
        double value = 0;
        const double rms = fit_with(model, x, extra, &value);
        extra->value = before;
        if (!(rms < least)) continue;
        least = rms;
        free(proposal->name);
        *proposal = (dl_table_proposal){.name = dl_format("[machine host] %s", shared[k]),
                                        .value = value,
                                        .rms_frac = rms,
                                        .rms_without_frac = without};
    }
    return model->status;
}
