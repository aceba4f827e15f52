/* Times and figures of one device's steps, once it is known which work they hold: the part of
 * activity_steps.h that is the same for all methods. */
#ifndef DL_TRACE_STEP_LINE_H
#define DL_TRACE_STEP_LINE_H

#include "trace/activity/activity_steps.h"
#include "trace/steps/period.h"
#include "trace/steps/step_units.h"
#include "trace/symbols.h"

/* The sequence of a device's symbols; borrows from them. */
dl_sequence dl_symbol_sequence(const dl_symbol_line *symbols);

/* Sets all that follows from the work and labels of line->steps: times, fingerprints, slow warm-up,
 * and with the usual content of `period` the figures of the line. parts[line->count] are the same
 * steps in symbols; their `alike` is set. */
void dl_step_line_finish(dl_step_line *line, const dl_activity *activities,
                         const dl_symbol_line *symbols, dl_step_part *parts,
                         const dl_period *period);

/* Labels leading regular steps that are slow WARM-UP. */
void dl_step_line_flag_warmup(dl_step_line *line);

/* Sets counts, shares and spacing from the steps; similarity from the parts, NULL = none. */
void dl_step_line_measure(dl_step_line *line, const dl_step_part *parts);

#endif
