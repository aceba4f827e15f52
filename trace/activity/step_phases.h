/* Phases of the steps of a line: forward passes, backward passes and the update, derived from the
 * roles of its operations (phases.h): kernels on a device, operators on a thread.
 *
 * A step's operations, in order, are forward up to the first backward one, or up to the loss if
 * only kernels' names give roles and the loss is the last operation named as forward. After that,
 * the phase of each run of operations without a role follows from those before and after the run:
 *
 *   after input or an update          forward if a backward pass follows; if only kernels' names
 *                                     give roles, it must also be as long as described below
 *   before any other backward one     backward, unless it repeats a forward pass
 *   at the step's end                 update, unless it only repeats a forward pass: an
 *                                     evaluation, or a pass within which the step was cut; if only
 *                                     kernels' names give roles, update after an update
 *   from an update or input to input  update, unless it only repeats a forward pass; if only
 *                                     kernels' names give roles, update
 *   before an update or input         update
 *
 * A run repeats a forward pass (accumulated gradients) if it has four operations or more, or most
 * of them are named as forward; if it has at least half as many as the first forward pass; and if
 * the operations whose names occur in the first pass number at least 0.8 of the shorter of the two,
 * at the step's end of the run; all without sums, products, copies and clearings in place
 * ("aten::add_"), with which programs sum gradients in buffers of their own. A stage of a pipeline may begin with several forward
 * passes, with sends and receives between them; the first pass is then the longest run without
 * these. Calls of collectives belong to the run around them. In a step without backward operations,
 * phases are not distinguished. */
#ifndef DL_TRACE_ACTIVITY_STEP_PHASES_H
#define DL_TRACE_ACTIVITY_STEP_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/steps.h"
#include "trace/dlt/dlt.h"

/* Owns its arrays; release with dl_step_phases_free. */
typedef struct dl_step_phases {
    uint8_t *phases;    /* [line.work_count] dl_phase; NONE for input, outside of regular steps, and
                         * in steps whose phases are not distinguished */
    uint8_t *roles;     /* [line.work_count] dl_work_role, or-ed; 0 outside of regular steps */
    size_t known_steps; /* number of regular steps in which phases are distinguished */
    size_t updated_steps; /* those of known_steps that contain work of an optimizer's update */
    size_t *step_passes;  /* [line.count] forward passes of each of these; 0: of other steps */
    double mean_passes;   /* their mean */
    size_t passes;        /* forward passes in most of these: micro-batches whose gradients are
                           * accumulated; without a majority the rounded mean; 1 if an update lies
                           * between two passes, or unknown */
    bool alternates;      /* an update lies between two passes of most of these steps: several
                           * optimizers, as in a GAN; or joint > 0 */
    size_t joint;         /* passes of the same samples (added_gradients.h) in most of these steps,
                           * which count as one; 0: none */
} dl_step_phases;

/* Finds the phases of the work of `line`; `phases` must be zeroed. O(n log n). */
void dl_step_phases_find(dl_step_phases *phases, const dl_trace *trace, const dl_step_line *line);
void dl_step_phases_free(dl_step_phases *phases);

/* Returns, for each of a step's [phases->passes] backward passes, the time of backward work up to
 * its end; done_ns[line.work_count] is that time up to the end of each work. The last end is that
 * of all backward work. If the step has another number of passes, all other ends are 0. The caller
 * frees the array. */
double *dl_pass_ends(const dl_step_phases *phases, const dl_activity_step *step,
                     const double *done_ns);

/* Returns the share of a step's backward passes that is over after done_ns of their work.
 * ends_ns[passes]: from dl_pass_ends. Each pass counts as 1 / passes, however long it takes; if
 * only the last end is known, all work counts alike. */
double dl_backward_share(const double *ends_ns, size_t passes, double done_ns);

#endif
