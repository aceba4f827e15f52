/* Gradients that a trace with shapes shows one by one, as PyTorch's AccumulateGrad adds them: a
 * RANGE with `bytes`. */
#ifndef DL_TRACE_ACTIVITY_ADDED_GRADIENTS_H
#define DL_TRACE_ACTIVITY_ADDED_GRADIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/step_phases.h"
#include "trace/activity/steps.h"
#include "trace/dlt/dlt.h"

/* A parameter's gradient. */
typedef struct dl_added_gradient {
    double bytes;
    double ready_frac; /* fraction of the step's backward pass before its addition ends */
} dl_added_gradient;

/* Owns its array; release with free(items). */
typedef struct dl_added_gradients {
    double bytes;      /* of a pass in most regular steps; 0: unknown, or most steps differ. If
                        * phases->alternates, the sum over the step's passes, without a pass whose
                        * gradients begin a longer one (a GAN's discriminator within the generator's
                        * pass), or which an equal one follows without an update between them */
    double step_bytes; /* mean of that sum over the regular steps; 0: unknown */
    bool apart;        /* steps have several passes, none of which adds to gradients of another */
    /* [count] gradients of the last pass of most regular steps, in the order of the backward pass,
     * with mean times; 0: the trace has no shapes */
    dl_added_gradient *items;
    size_t count;
} dl_added_gradients;

/* Finds the gradients added in the regular steps of `line`; on cores, by its thread. A gradient
 * belongs to the last work that the host had begun when it was added. begins_ns[line->work_count]:
 * when the host began each work, ascending. done[line->work_count]: share of the step's backward
 * passes that is over at the end of each. Passes of a step that make gradients of their own at the
 * losses of several networks, or before and after a change of the parameters (SAM), or of which only
 * one adds gradients (torch.autograd.grad adds none), are of the same samples: sets phases->joint.
 * O(n log n). */
dl_added_gradients dl_added_gradients_find(const dl_trace *trace, const dl_step_line *line,
                                           dl_step_phases *phases, const int64_t *begins_ns,
                                           const double *done);

#endif
