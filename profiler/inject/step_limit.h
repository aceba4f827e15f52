/* Counts the steps that a program marks, to end a recording after some. A step is a RANGE or MARK
 * whose text names one (dl_text_names_step in trace/activity/step_marks.h). Texts that differ only in
 * numbers
 * ("step 1", "step 2") are counted together, others apart ("train step", "Optimizer.step"); the
 * limit is reached as soon as one of them reaches it. Any thread. */
#ifndef DL_PROFILER_INJECT_STEP_LIMIT_H
#define DL_PROFILER_INJECT_STEP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/activity/activity.h"

/* Sets the limit; 0 = none. Once, before the others. */
void dl_step_limit_begin(int64_t steps);

/* Says which text an id stands for. */
void dl_step_limit_name(uint32_t id, const char *text);

/* Counts `activity`; whether it is the step at which the limit is reached or one after it. */
bool dl_step_limit_reached(const dl_activity *activity);

#endif
