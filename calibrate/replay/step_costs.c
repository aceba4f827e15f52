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

uint8_t *dl_steps_regular(const dl_step_line *line)
{
    uint8_t *marks = dl_calloc(line->count, 1, "steps");
    for (size_t s = 0; s < line->count; s++)
        marks[s] = line->steps[s].label == DL_STEP_REGULAR;
    return marks;
}

/* Minimum factor by which a step with other work is longer than a regular one. */
#define OTHER_MIN 1.05

/* Notes longer steps between regular ones, such as those with a validation, which are left out. */
static void note_other_steps(const dl_step_line *line, double regular_ns, dl_notes *notes)
{
    size_t count = 0, open = 0, regular = 0;
    double more_ns = 0, open_ns = 0;
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *step = &line->steps[s];
        const double ns = (double)step->duration_ns - regular_ns;
        if (step->label == DL_STEP_REGULAR) {
            count += open;
            more_ns += open_ns;
            open = 0;
            open_ns = 0;
            regular++;
        } else if (regular > 0 && step->label == DL_STEP_OTHER &&
                   ns > (OTHER_MIN - 1) * regular_ns) {
            open++;
            open_ns += ns;
        }
    }
    if (count == 0) return;
    dl_notes_add(notes,
                 "%zu of %zu steps %s longer, by %s in all, as with a validation: left out. If "
                 "that recurs, training takes that much longer",
                 count, line->count, count == 1 ? "is" : "are", DL_NS_TEXT(more_ns));
}

void dl_step_costs_take_times(dl_step_costs *costs, const dl_step_line *line, const uint8_t *timed,
                              const double *ns, dl_notes *notes)
{
    DL_AUTOFREE double *whole_ns = dl_calloc(line->count, sizeof *whole_ns, "steps");
    costs->factors = dl_calloc(line->count, sizeof *costs->factors, "steps");
    costs->device_ns = dl_steps_mean(timed, ns, line->count).value;
    for (size_t s = 0; s < line->count; s++) {
        whole_ns[s] = (double)line->steps[s].duration_ns;
        if (timed[s]) costs->factors[costs->steps++] = (float)(ns[s] / costs->device_ns);
    }
    costs->step_ns = dl_steps_mean(timed, whole_ns, line->count).value;
    note_other_steps(line, costs->step_ns, notes);
}

dl_gradient_exchange dl_step_costs_take_exchange(dl_step_costs *costs,
                                                 const dl_gradient_source *source, dl_notes *notes)
{
    const dl_gradient_exchange gradients = dl_gradients_find(source);
    costs->passes = source->phases->passes;
    costs->mean_passes = source->phases->mean_passes;
    costs->known_steps = source->phases->known_steps;
    costs->updated_steps = source->phases->updated_steps;
    costs->alternates = source->phases->alternates;
    costs->gradients = gradients.ready;
    costs->gradient_count = gradients.count;
    if (gradients.integers > 0)
        dl_notes_add(notes,
                     "%zu calls in the trace sum integers, as DDP does with "
                     "find_unused_parameters: they are no gradients",
                     gradients.integers);
    return gradients;
}

bool dl_step_costs_take_added(dl_step_costs *costs, const dl_added_gradients *added,
                              const dl_step_phases *phases, dl_notes *notes)
{
    costs->parameter_bytes = added->bytes * (phases->mean_passes / costs->mean_passes);
    if (added->bytes <= 0) return false;
    dl_notes_add(notes, "parameter_bytes are those of the gradients that %s",
                 phases->alternates
                     ? "the passes of a step's several optimizers add, except passes that a "
                       "longer one repeats, as a generator's does a discriminator's: "
                       "--parameter-bytes gives another number if others share parameters"
                     : "a pass adds");
    return true;
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
    DL_AUTO(dl_activity_steps_free) dl_activity_steps steps = {0};
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
