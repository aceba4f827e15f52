/* When gradients are ready for exchange: the all-reduces that the host calls during a backward pass,
 * in their order. Each has its gradients when the works launched before its call are done, as share
 * of the backward pass's device time.
 *
 * Taken from the regular steps whose all-reduces are the most usual ones by number and bytes
 * (frameworks choose buckets anew after the first step); shares are the means over these. All-reduces
 * behind the backward pass, but before the optimizer's first kernel, have all gradients. */
#ifndef DL_CALIBRATE_REPLAY_GRADIENTS_H
#define DL_CALIBRATE_REPLAY_GRADIENTS_H

#include "calibrate/replay/phases.h"
#include "sim/costs/costs.h"
#include "trace/activity/activity_launches.h"

/* What the trace holds; all borrowed. */
typedef struct dl_gradient_source {
    const dl_trace *trace;
    const dl_step_line *line;
    const dl_step_phases *phases;
    const dl_launches *launches;
    const double *work_ns; /* [line.work_count] device time of each work */
} dl_gradient_source;

/* The gradients of a step, cumulative; *count of them, owned by the caller. NULL without any.
 * O(n log n). */
dl_gradients_ready *dl_gradients_find(const dl_gradient_source *source, size_t *count);

#endif
