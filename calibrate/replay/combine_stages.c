/* Combines the steps of pipeline stages into the costs of a whole model. */
#include <stdlib.h>
#include <string.h>

#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/names.h"

/* Returns copies of the steps of one stage, all of them if `alike`; their arrays are borrowed. */
static dl_step_costs *list_stage(const dl_step_costs *steps, size_t count, uint32_t stage,
                                 bool alike, size_t *found)
{
    dl_step_costs *own = dl_calloc(count, sizeof *own, "stages");
    *found = 0;
    for (size_t i = 0; i < count; i++)
        if (alike || steps[i].axes.stage == stage) own[(*found)++] = steps[i];
    return own;
}

/* Checks that the traces are of one layout, and of one stage if `alike`, else of all stages. */
static dl_status check_stages(const dl_step_costs *steps, size_t count, bool alike, dl_error *err)
{
    const dl_step_axes *axes = &steps[0].axes;
    DL_AUTOFREE char *lacks = NULL;
    size_t missing = 0;
    const dl_status status = dl_step_layouts_check(steps, count, err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < count && alike; i++) {
        if (steps[i].axes.stage == axes->stage) continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "--stages alike takes traces of one stage; these are of stages %u "
                            "and %u",
                            axes->stage, steps[i].axes.stage);
    }
    for (uint32_t stage = 0; stage < axes->stages && !alike; stage++) {
        size_t found = 0;
        for (size_t i = 0; i < count; i++)
            found += steps[i].axes.stage == stage;
        DL_AUTOFREE char *one = dl_format("%u", stage);
        if (found > 0) continue;
        dl_join(&lacks, ", ", one);
        missing++;
    }
    if (lacks == NULL) return DL_OK;
    return dl_error_set(
        err, DL_ERR_DATA,
        "the trace is of stage %u of %u, and the times of stage%s %s are unknown: give "
        "a trace of each stage (of ranks that differ in their stage only), or "
        "--stages alike if all take as long as this one",
        axes->stage, axes->stages, missing > 1 ? "s" : "", lacks);
}

/* Sets the origin of what another stage's trace gives to assumed. */
static void assume(dl_value *value)
{
    if (!value->known) return;
    value->origin = DL_ORIGIN_ASSUMED;
    value->count = 0;
}

/* Moves the operations and the layer of a stage, "step", to `costs`, as "stage3". `assumed`: they
 * are those of another stage. */
static void add_stage(dl_costs *costs, dl_costs *of, uint32_t stage, bool assumed)
{
    for (size_t i = 0; i < of->op_count; i++) {
        dl_op_cost op = of->ops[i];
        const char *phase = strrchr(op.name, '.');
        char *name = phase != NULL && !dl_ends_with(op.name, ".bucket")
                         ? dl_format("stage%u%s", stage, phase)
                         : dl_strdup(op.name);
        free(op.name);
        op.name = name;
        if (assumed) assume(&op.fixed_ns);
        if (assumed) assume(&op.per_sample_ns);
        DL_APPEND(costs->ops, costs->op_count, "operations") = op;
    }
    for (size_t i = 0; i < of->layer_count; i++) {
        dl_layer_cost layer = of->layers[i];
        free(layer.name);
        layer.name = dl_format("stage%u", stage);
        if (assumed) assume(&layer.parameter_bytes);
        DL_APPEND(costs->layers, costs->layer_count, "layers") = layer;
    }
    of->op_count = of->layer_count = 0;
}

/* Adds a note, unless it is there already, as of another stage. */
static void add_note_once(dl_notes *notes, const char *line)
{
    for (size_t i = 0; i < notes->count; i++)
        if (strcmp(notes->lines[i], line) == 0) return;
    dl_notes_add(notes, "%s", line);
}

dl_status dl_stage_costs_combine(dl_costs *costs, const dl_step_costs *steps, size_t count,
                                 bool alike, dl_notes *notes, dl_error *err)
{
    const uint32_t stages = steps[0].axes.stages, traced = steps[0].axes.stage;
    dl_status status = check_stages(steps, count, alike, err);
    for (uint32_t stage = 0; stage < stages && status == DL_OK; stage++) {
        size_t found = 0;
        DL_AUTOFREE dl_step_costs *own = list_stage(steps, count, stage, alike, &found);
        dl_costs one = {0};
        DL_SCOPED(dl_notes) more = {0};
        status = dl_step_costs_combine(&one, own, found, &more, err);
        for (size_t i = 0; i < more.count; i++)
            add_note_once(notes, more.lines[i]);
        if (status != DL_OK) {
            dl_costs_free(&one);
            break;
        }
        if (stage == 0) { /* the values that stages have in common */
            *costs = one;
            costs->ops = NULL;
            costs->layers = NULL;
            costs->op_count = costs->layer_count = 0;
        } else {
            const bool known = costs->parameter_bytes >= 0 && one.parameter_bytes >= 0;
            costs->parameter_bytes = known ? costs->parameter_bytes + one.parameter_bytes : -1;
            dl_step_value_add(&costs->dispatch.per_worker_ns, &one.dispatch.per_worker_ns);
            dl_step_value_add(&costs->dispatch.external_ns, &one.dispatch.external_ns);
        }
        dl_costs moved = stage == 0 ? one
                                    : (dl_costs){.ops = one.ops,
                                                 .op_count = one.op_count,
                                                 .layers = one.layers,
                                                 .layer_count = one.layer_count};
        add_stage(costs, &moved, stage, alike && stage != traced);
        free(moved.ops);
        free(moved.layers);
        if (stage == 0) continue;
        one.ops = NULL;
        one.layers = NULL;
        one.op_count = one.layer_count = 0;
        dl_costs_free(&one);
    }
    if (status != DL_OK) return status;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < costs->trace_count && steps[i].axes.gpipe; k++)
            costs->traces[k].schedule = DL_SCHEDULE_GPIPE;
    free(costs->gradients);
    costs->gradients = NULL;
    costs->gradient_count = 0;
    if (alike) {
        dl_notes_add(notes,
                     "assumed (--stages alike): the other %u stages compute as long and have as "
                     "many parameters as stage %u, which was traced; embeddings and the head make "
                     "the first and the last one longer",
                     stages - 1, traced);
    }
    return DL_OK;
}
