/* The phases of a step: which of its works belong to the forward pass, the backward pass, and the
 * update, by what the framework calls the ranges in which they were launched.
 *
 *   update     ranges that name an optimizer's step ("Optimizer.step#SGD.step", "optimizer")
 *   backward   ranges that name a backward pass ("CudnnBatchNormBackward0", "autograd::engine::...",
 *              "AccumulateGrad", "backward")
 *
 * Where no range names a backward pass, kernels whose names tell the phase stand for both.
 *
 * A step's works, in the order of their launches, are forward up to the first backward one. Behind
 * it, works that neither names lie between two that one does: before another backward one they are
 * backward; forward if they are four or more, at least half as many as the first forward pass, and of the same
 * kernels (accumulated gradients), or of any behind an update (two models in turn);
 * before an update and at the step's end they belong to the update. In a step without any backward
 * work the phases are not told apart. */
#ifndef DL_CALIBRATE_REPLAY_PHASES_H
#define DL_CALIBRATE_REPLAY_PHASES_H

#include "trace/activity/activity_steps.h"
#include "trace/dlt.h"
#include "trace/record.h"

/* Owns its array; release with dl_step_phases_free. */
typedef struct dl_step_phases {
    uint8_t *phases; /* [line.work_count] dl_phase; NONE outside of regular steps and in those
                        whose phases are not told apart */
    size_t told;     /* regular steps that they are told apart in */
} dl_step_phases;

/* Finds the phases of the works of `line`; zero `phases` before. O(n log n). */
void dl_step_phases_find(dl_step_phases *phases, const dl_trace *trace, const dl_step_line *line);
void dl_step_phases_free(dl_step_phases *phases);

#endif
