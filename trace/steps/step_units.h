/* From the units of a period to labelled steps: what of a unit is the step, what follows it. */
#ifndef DL_TRACE_STEP_UNITS_H
#define DL_TRACE_STEP_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity_steps.h"
#include "trace/steps/period.h"

/* A step to be: symbols first to before the next part's first. */
typedef struct dl_step_part {
    size_t first;
    dl_step_label label;
    double alike; /* share of the longer of part and usual content that both have */
} dl_step_part;

/* Parts of the sequence cut by `period` (at least one cut), labelled REGULAR or OTHER by content,
 * and WARM-UP before the first regular one that is at least 0.9 times as alike as the median. Owned
 * by the caller; *count of them, without gaps. */
dl_step_part *dl_step_parts(const dl_period *period, const dl_sequence *sequence, size_t *count);

/* Sets `alike` of each part; `end` ends the last one. */
void dl_step_parts_compare(dl_step_part *parts, size_t count, size_t end,
                           const dl_sequence *sequence, const uint32_t *content, size_t length);

/* Of parts labelled by marks, their `alike` set: regular ones that have less than DL_STEP_SIMILARITY
 * of what the median has in common with the usual content become OTHER (validation, a step cut off
 * at the end), or WARM-UP before the first that stays. Nothing changes where the median itself is
 * below DL_STEP_SIMILARITY: steps whose work varies. */
void dl_step_parts_set_apart(dl_step_part *parts, size_t count);

/* Number of regular parts in a cycle that a kind outside the usual content marks: the distance, in
 * regular parts, that four fifths of its occurrences have from the last one, at least 2, with 4
 * occurrences or more; of several kinds, the one that occurs most. 0 = none. */
size_t dl_step_parts_cycle(const dl_step_part *parts, size_t count, size_t end,
                           const dl_sequence *sequence, const uint32_t *content);

#endif
