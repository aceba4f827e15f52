/* Roles of work in a training step: of a framework's range by the range's name; of device work by
 * the range in which it was launched, else by the kernel's name.
 *
 *   update     ranges that name an optimizer's step ("Optimizer.step#SGD.step", "optimizer")
 *   backward   ranges that name a backward pass ("CudnnBatchNormBackward0",
 *              "autograd::engine::...", "AccumulateGrad", "backward")
 *   clearing   "Optimizer.zero_grad#...": separates passes as an update does, and counts as forward
 *   input      "enumerate(DataLoader)#...__next__"
 *   exchange   "c10d::allreduce_": the call of a collective, which other threads execute
 *
 * If no range names a backward pass, or no launch of a kernel is recorded, kernels' names give
 * forward, backward and update. */
#ifndef DL_TRACE_ACTIVITY_PHASES_H
#define DL_TRACE_ACTIVITY_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"
#include "trace/activity/kernel_class.h"

typedef enum dl_work_role {
    DL_ROLE_INPUT = 1,   /* a data loader's range, or a copy of a batch from the host: of unknown
                          * size, or of at least DL_INPUT_BYTES if fewer than half as many copies of
                          * about the same size (equal binary logarithm, rounded down) go to the
                          * host */
    DL_ROLE_UPDATE = 2,  /* an optimizer's kernel or range, or work launched in one */
    DL_ROLE_GRAPH = 4,   /* a graph's launch */
    DL_ROLE_FORWARD = 8, /* mostly part of the forward pass; if ranges name backward passes, work
                          * without such a range. With UPDATE: clears gradients */
    DL_ROLE_BACKWARD = 16,
    DL_ROLE_EXCHANGE = 32 /* the call of a collective */
} dl_work_role;

/* Phases that a training step contains, if the trace shows them. */
#define DL_ROLE_PHASES (DL_ROLE_FORWARD | DL_ROLE_BACKWARD | DL_ROLE_UPDATE)

#define DL_ROLE_CLEAR (DL_ROLE_FORWARD | DL_ROLE_UPDATE)

/* Returns the roles given by the name of a range, or-ed. */
uint8_t dl_range_roles(const char *name);

/* Sets of disjoint time intervals on threads or devices. */

typedef struct dl_span {
    uint32_t on; /* thread or device */
    int64_t start_ns, end_ns;
} dl_span;

/* Owns its array; release with dl_spans_free. A zeroed object is empty. */
typedef struct dl_spans {
    dl_span *items; /* [count]; after dl_spans_join by `on` and time */
    size_t count;
} dl_spans;

void dl_spans_add(dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns);

/* Sorts the spans and joins overlapping and adjacent ones; required before any query. */
void dl_spans_join(dl_spans *spans);

/* Returns whether time_ns lies in a span [start_ns, end_ns) on `on`. O(log n). */
bool dl_spans_hold(const dl_spans *spans, uint32_t on, int64_t time_ns);

/* Returns the time between start_ns and end_ns covered by spans on `on`. O(log n + number of these
 * spans). */
int64_t dl_spans_covered(const dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns);
void dl_spans_free(dl_spans *spans);

/* Owns its arrays, borrows the launches; release with dl_phase_hints_free. */
typedef struct dl_phase_hints {
    const dl_launches *launches;
    dl_spans backward, update;
    uint8_t *kernel_phase; /* [string_count] dl_phase by the kernel's name */
    uint8_t *range_roles;  /* [string_count] by the range's name */
    size_t string_count;
} dl_phase_hints;

/* Prepares the hints for the trace's activities; `hints` must be zeroed. */
void dl_phase_hints_init(dl_phase_hints *hints, const dl_trace *trace, const dl_launches *launches);
void dl_phase_hints_free(dl_phase_hints *hints);

/* Returns the phase of device work given by its range or kernel; NONE if it is unknown. O(log
 * n). */
dl_phase dl_phase_hint(const dl_phase_hints *hints, const dl_activity *work);

/* Returns the roles of device work by dl_phase_hint, or of a range by its name. */
uint8_t dl_work_roles(const dl_phase_hints *hints, const dl_activity *work);

#endif
