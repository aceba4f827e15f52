/* Ranges and marks that delimit steps.
 *
 * Ranges of one thread whose texts are equal except for numbers form a group. The group represents
 * steps if
 *   - its text contains "step", "iter", "iteration", "batch" or "minibatch" as a separate word
 *     (capitals also begin words) and a number that changes in four of five cases from one range to
 *     the next; or
 *   - it contains such a word without a number, and repeats 3 times or more; or
 *   - it is any text that repeats 5 times or more at regular starts (coefficient of variation at
 *     most 0.5);
 * and half of the device work launched from the group's first start to its last end is launched
 * inside its ranges (0.8 of it for the third form). The second and third form must contain half of
 * all device work, which excludes "Optimizer.step" and operators. If there are several such groups,
 * the earliest form is preferred; within a form the one with more work, then with more ranges. A
 * MARK counts as a range up to the next one. */
#ifndef DL_TRACE_ACTIVITY_STEP_MARKS_H
#define DL_TRACE_ACTIVITY_STEP_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "trace/activity/activity.h"

/* Owns its arrays; release with dl_step_marks_free. */
typedef struct dl_step_marks {
    int64_t *starts_ns, *ends_ns; /* [count] ascending, not overlapping */
    size_t count;                 /* 0 = none */
    char *text;                   /* text of the group, with # for numbers; or the given
                                   * expression */
} dl_step_marks;

/* A trace and the launch times of its device work; borrowed. */
typedef struct dl_marked_trace {
    const dl_activity *activities; /* [count] */
    size_t count;
    char *const *strings; /* [string_count] */
    size_t string_count;
    const int64_t *launches_ns; /* [launch_count] ascending */
    size_t launch_count;
} dl_marked_trace;

/* Finds the group that most likely represents steps. Without device work, the conditions on its
 * share count as met. */
void dl_step_marks_find(dl_step_marks *marks, const dl_marked_trace *trace);

/* Finds ranges and marks whose text matches the POSIX extended expression; of overlapping ranges
 * the earlier one is kept. Returns DL_ERR_PARSE and DL_ERR_DATA like dl_activity_steps_init. */
dl_status dl_step_marks_match(dl_step_marks *marks, const dl_marked_trace *trace,
                              const char *expression, dl_error *err) DL_MUST_CHECK;
void dl_step_marks_free(dl_step_marks *marks);

/* Returns whether `text` contains "step", "iter" or another word of the list above, as a separate
 * word. */
bool dl_text_names_step(const char *text);

#endif
