#include "calibrate/replay/step_costs.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "trace/activity/summary.h"
#include "trace/readers/reader.h"

const dl_step_line *dl_step_line_busiest(const dl_activity_steps *steps)
{
    const dl_step_line *best = NULL;
    for (size_t i = 0; i < steps->count; i++) {
        const dl_step_line *line = &steps->lines[i];
        if (line->device == DL_NO_DEVICE) continue;
        if (best == NULL || line->work_count > best->work_count) best = line;
    }
    return best;
}

/* Relative difference of the mean number of passes from the costs' number that is noted. */
#define PASSES_DIFFER_MAX 0.05

/* Converts the gradients to those of the last pass. */
static void take_last_pass(dl_step_costs *costs, dl_notes *notes)
{
    if (costs->axes.stages > 1) return; /* stages reduce gradients after their last pass */
    const bool each =
        dl_gradients_of_last_pass(costs->gradients, &costs->gradient_count, costs->passes);
    dl_gradients_of_last_pass(costs->added, &costs->added_count, costs->passes);
    if (fabs(costs->mean_passes / (double)costs->passes - 1) > PASSES_DIFFER_MAX) {
        dl_notes_add(notes,
                     "steps have different numbers of passes (micro-batches), %.3g on average: the "
                     "costs divide the mean step by %zu, so a pass is %.0f %% too %s",
                     costs->mean_passes, costs->passes,
                     100 * fabs(costs->mean_passes / (double)costs->passes - 1),
                     costs->mean_passes > (double)costs->passes ? "long" : "short");
    }
    if (costs->passes < 2) return;
    const bool sharded = costs->sharded == DL_SHARDED_PARAMETERS; /* dlsim reduces in each pass */
    dl_notes_add(notes,
                 "a step accumulates the gradients of %zu passes (micro-batches): forward pass %s, "
                 "backward pass %s in all. The cost file describes one of them, [costs] accumulate "
                 "= %zu, and dlsim exchanges %s",
                 costs->passes, DL_NS_TEXT(costs->forward_ns.value),
                 DL_NS_TEXT(costs->backward_ns.value), costs->passes,
                 sharded ? "in each" : "after the last one");
    if (costs->passes_apart && costs->sharded == DL_SHARDED_NONE)
        dl_notes_add(notes, "no pass adds to the gradients of another one: if all are of the same "
                            "samples, as in SAM, give the samples of one as --batch");
    if (sharded && !each) {
        dl_notes_add(
            notes,
            "the traced program reduced gradients in the last of the %zu passes only "
            "(set_requires_gradient_sync, no_sync), dlsim does in each: where the exchange "
            "takes time, its steps are too long",
            costs->passes);
    } else if (each && !sharded) {
        dl_notes_add(notes,
                     "the traced program all-reduced in each of the %zu passes, which dlsim does "
                     "not simulate: with DistributedDataParallel's no_sync only the last one does",
                     costs->passes);
    }
}

dl_status dl_step_costs_take(dl_step_costs *costs, const dl_trace *trace, int64_t batch,
                             const dl_step_hints *hints, const dl_overlap_slowdown *slowdown,
                             dl_external external, dl_notes *notes, dl_error *err)
{
    DL_SCOPED(dl_activity_steps) steps = {0};
    *costs = (dl_step_costs){.batch = batch,
                             .axes = {.tensor = 1, .stages = 1, .copies = 1, .shards = 1}};
    const char *ungrouped = dl_trace_meta(trace, DL_META_UNGROUPED);
    if (ungrouped != NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "its collectives do not name their process group, and the job has "
                               "several (%s): which of them exchange gradients is unknown. "
                               "Take the costs of a run with one group, or without exchange",
                               ungrouped);
    }
    dl_trace_find_rank(trace, &costs->rank, &costs->ranks);
    dl_status status = dl_activity_steps_init(&steps, trace, hints, err);
    const dl_step_line *line = dl_step_line_busiest(&steps);
    if (status == DL_OK)
        status =
            line == NULL && steps.count > 0
                ? dl_step_costs_take_cores(costs, trace, &steps.lines[0], notes, err)
                : dl_step_costs_take_device(costs, trace, line, slowdown, external, notes, err);
    if (status != DL_OK) return status;
    const dl_step_line *taken = line != NULL ? line : &steps.lines[0];
    if (taken->marks_hold_steps && taken->method == DL_STEPS_OPTIMIZER)
        dl_notes_add(notes, "each of the program's marks holds several updates of the same "
                            "parameters: steps are taken from update to update (--step-marks "
                            "takes the marks)");
    costs->allreduces = costs->gradient_count > 0;
    const char *framework = dl_trace_meta(trace, "framework");
    costs->framework = framework != NULL ? dl_strdup(framework) : NULL;
    if (costs->known_steps == 0)
        dl_notes_add(notes, "forward and backward pass are not distinguished: nothing is named as "
                            "a backward pass; if there is none (inference), these are not costs "
                            "of training");
    take_last_pass(costs, notes);
    return DL_OK;
}

void dl_step_costs_free(dl_step_costs *costs)
{
    free(costs->gradients);
    for (size_t i = 0; i < costs->other_count; i++)
        free(costs->others[i].name);
    free(costs->others);
    free(costs->file);
    free(costs->added);
    free(costs->factors);
    free(costs->ops);
    free(costs->device);
    free(costs->framework);
    *costs = (dl_step_costs){0};
}
