/* Training steps of a trace of activities, per device.
 *
 * A step is a run of a device's work in launch order (steps_internal.h), so communication belongs
 * to the step that launched it, even if it extends into the next.
 *
 * For each device, the first of these methods that finds steps is used:
 *   1. the caller's hints: an expression for names of ranges, a number of symbols per step, or the
 *      whole trace as one step;
 *   2. ranges and marks that represent steps (step_marks.h): "ProfilerStep#5", "iteration 3"; if
 *      they are not whole (see 4), as for micro-batches, only after method 3 and if method 4 finds
 *      no steps or at least 3/4 as many as there are marks;
 *   3. repeated launches of one CUDA graph that contain most of the device's time, with equal work
 *      between them;
 *   4. period detection (steps_internal.h), first with launch shapes and sizes, then with names
 *      only, in all of the work; then, without marks, both in its later part: the rest is WARM-UP.
 *      The units must be whole, that is, contain all phases of training found in the work
 *      (phases.h). If they are not, or nothing repeats three times, steps end with updates after a
 *      backward pass.
 *
 * A process that used no device has one line, DL_NO_DEVICE, if it has marks or a framework's
 * operators (operators.h). The operators are then the line's work and replace launches in 2;
 * without marks, or if the optimizer's updates are fewer than 3/4 of them (marks of micro-batches),
 * steps end with the updates, or else are repeated units of operators.
 *
 * Labels. Work launched inside one of the caller's marks is a step; so is work inside a detected
 * mark, unless its similarity with the usual content of a unit (steps_internal.h) is less than
 * DL_STEP_SIMILARITY of the marks' median. Without marks a unit is a step if it shares
 * DL_STEP_SIMILARITY with the usual content. Work that follows the content (averaging, validation,
 * a checkpoint) is separated as OTHER if it is 2 % of the step's symbols and either 3 symbols or a
 * quarter of the step, or if the unit after it is OTHER. Work before the first step is WARM-UP, and
 * so are leading steps with less than 0.9 of the median similarity (automatic tuning) and leading
 * steps slower than 1.25 of the median and than nine in ten of the steps; the slow ones are at most
 * a tenth of all steps, rounded up, and at most ten. */
#ifndef DL_TRACE_ACTIVITY_STEPS_H
#define DL_TRACE_ACTIVITY_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/options.h"
#include "common/status.h"
#include "trace/activity/activity.h"
#include "trace/dlt/dlt.h"

#define DL_STEP_SIMILARITY 0.7

/* Device number of the line of a process that used no device (see above). */
#define DL_NO_DEVICE UINT32_MAX

typedef enum dl_step_label {
    DL_STEP_REGULAR,
    DL_STEP_WARMUP,
    DL_STEP_OTHER, /* between steps, or different from them: validation, checkpoint, averaging, a
                    * last smaller batch, a truncated step at the end */
    DL_STEP_LABEL_END
} dl_step_label;

typedef enum dl_step_method {
    DL_STEPS_NONE, /* no steps were found */
    DL_STEPS_GIVEN_MARKS,
    DL_STEPS_GIVEN_PERIOD,
    DL_STEPS_GIVEN_ONE,
    DL_STEPS_MARKS,
    DL_STEPS_GRAPH,
    DL_STEPS_PERIOD,
    DL_STEPS_PERIOD_NAMES, /* without shapes */
    DL_STEPS_OPTIMIZER,    /* each step ends with the optimizer's update */
    DL_STEPS_METHOD_END
} dl_step_method;

typedef struct dl_activity_step {
    dl_step_label label;
    size_t first, count; /* its work is dl_step_line.work[first .. first + count - 1] */
    int64_t start_ns;    /* start of its earliest work that is not `prefetched`, but not before the
                          * start of the previous step */
    int64_t duration_ns; /* time to the start of the next step; for the last step, to the end of
                          * its work */
    int64_t work_end_ns; /* end of its last work; after the next start if steps overlap */
} dl_activity_step;

/* Steps of one device. Shares are 0..1. */
typedef struct dl_step_line {
    uint32_t device;
    size_t *work; /* [work_count] indices of the device's activities in launch order */
    size_t work_count;
    uint8_t *prefetched;     /* [work_count] 1: a copy on a stream that only copies, in a step with
                              * other work; it may run long before its step. NULL: none */
    dl_activity_step *steps; /* [count] in order; contiguous unless device is DL_NO_DEVICE */
    size_t count;
    size_t regular_count; /* number of DL_STEP_REGULAR */
    dl_step_method method;
    char *marks;           /* text of the marks with # for numbers; NULL for other methods */
    bool marks_cut_passes; /* there are marks, but they lie between forward and backward pass */
    bool marks_hold_steps; /* there are marks, but each is of several updates of the same model */
    double lag_match;      /* periods only: share of the symbols of rare kinds that equal those one
                            * step later (dl_period); lost records make it smaller, not wrong */
    double order_match;    /* share of a step's symbols found in the same order in the previous step
                            * (dl_units_order_match); 0 with fewer than two units */
    double similarity;     /* mean over regular steps of common symbols / symbols of the longer of
                            * step and usual content */
    bool updates;          /* the usual step contains an optimizer's update, if the trace shows
                            * updates */
    const char *reason;    /* reason for the lack of steps, else NULL; static text */
} dl_step_line;

/* Owns its arrays; release with dl_activity_steps_free. */
typedef struct dl_activity_steps {
    dl_step_line *lines; /* [count] by device; only devices with work, or DL_NO_DEVICE */
    size_t count;
} dl_activity_steps;

/* Hints of the caller; {0}: none. */
typedef struct dl_step_hints {
    const char *marks; /* POSIX extended expression, matched anywhere in texts of ranges and marks;
                        * NULL: none. A range is a step; each mark starts a step */
    int64_t period;    /* symbols per step (kernels, copies, memsets, graph launches; no
                        * communication), within a quarter; 0: unknown. `marks` overrides it */
    bool one_step;     /* each process's whole trace is one step; excludes the other hints */
} dl_step_hints;

/* Writes the options --step-marks, --step-period, --one-step, which set *hints, to
 * table[DL_STEP_OPTION_COUNT]. */
#define DL_STEP_OPTION_COUNT 3

void dl_step_options(dl_step_hints *hints, dl_option *table);

/* Finds the steps of the trace; `steps` must be
 * zeroed. A device without steps has count 0 and a reason, which is not an error. Returns
 * DL_ERR_PARSE for an invalid expression; DL_ERR_DATA if the trace contradicts the hints: no range
 * or mark matches, nothing repeats at the period, marks or updates show several steps; DL_ERR_USAGE
 * if two hints contradict each other. O(n log n). */
dl_status dl_activity_steps_init(dl_activity_steps *steps, const dl_trace *trace,
                                 const dl_step_hints *hints, dl_error *err) DL_MUST_CHECK;
void dl_activity_steps_free(dl_activity_steps *steps);

/* Returns whether the line's work number `work` may determine the start of its step: it is not a
 * prefetched copy. */
bool dl_step_line_begins(const dl_step_line *line, size_t work);

/* Returns the regular step of the line that covers the time; NULL: none. O(log n). */
const dl_activity_step *dl_regular_step_at(const dl_step_line *line, int64_t time_ns);

/* Return "step", "warm-up", "other"; "given marks", "given period", "given as one", "marks", "graph
 * launches", "period", "period without shapes", "optimizer", "none"; never NULL. */
const char *dl_step_label_name(dl_step_label label);
const char *dl_step_method_name(dl_step_method method);

#endif
