/* The phase of a training step that work of a device belongs to, as far as the work shows it by
 * itself: by the framework's range in which it was launched, else by its kernel's name.
 *
 *   update     ranges that name an optimizer's step ("Optimizer.step#SGD.step", "optimizer")
 *   backward   ranges that name a backward pass ("CudnnBatchNormBackward0",
 *              "autograd::engine::...", "AccumulateGrad", "backward")
 *
 * Where no range names a backward pass, kernels whose names give the phase stand for all three. */
#ifndef DL_TRACE_ACTIVITY_PHASES_H
#define DL_TRACE_ACTIVITY_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/activity/kernel_class.h"

/* Times when something was so on a thread or a device: sets of intervals that do not overlap. */

typedef struct dl_span {
    uint32_t on; /* thread, device */
    int64_t start_ns, end_ns;
} dl_span;

/* Owns its array; release with dl_spans_free. A zeroed one is empty. */
typedef struct dl_spans {
    dl_span *items; /* [count]; once joined, by `on` and time */
    size_t count;
} dl_spans;

void dl_spans_add(dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns);

/* Sorts the spans and joins those that overlap or touch: to be called before any question. */
void dl_spans_join(dl_spans *spans);

/* Whether a span holds the time; its end does not. O(log n). */
bool dl_spans_hold(const dl_spans *spans, uint32_t on, int64_t time_ns);

/* Time of start_ns .. end_ns that spans cover. O(log n) and the number of them. */
int64_t dl_spans_covered(const dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns);
void dl_spans_free(dl_spans *spans);

/* Owns its arrays, borrows the launches; release with dl_phase_hints_free. */
typedef struct dl_phase_hints {
    const dl_launches *launches;
    dl_spans backward, update;
    uint8_t *kernel_phase; /* [string_count] dl_phase by the kernel's name */
    size_t string_count;
} dl_phase_hints;

/* Prepares the hints for activities[count] of a trace with the texts strings[string_count]; zero
 * `hints` before. */
void dl_phase_hints_init(dl_phase_hints *hints, const dl_activity *activities, size_t count,
                         char *const *strings, size_t string_count, const dl_launches *launches);
void dl_phase_hints_free(dl_phase_hints *hints);

/* Phase of the work as its range or kernel shows it; NONE if nothing does. O(log n). */
dl_phase dl_phase_hint(const dl_phase_hints *hints, const dl_activity *work);

#endif
