/* What the traces of a cost file ([trace NUMBER]) say of a study: their own steps beside the
 * predicted ones, and the collectives that a prediction leaves out.
 *
 * A point is a trace's own where as many workers have as large a batch each, exchange as the traced
 * ranks did, and all else is as the cost file has it: the same model of GPU (or as many cores), no
 * compression, accumulation or lag, nothing switched off. One worker exchanges nothing, so mode
 * none is its own too. */
#ifndef DL_SIM_TRACED_H
#define DL_SIM_TRACED_H

#include "sim/scenario/study.h"

/* Predicted over traced throughput, minus 1, from which on a prediction is said to contradict the
 * trace that it is from. */
#define DL_TRACED_CONTRADICTS 0.1

/* Whether it does, by more than two standard errors of the traced step. */
bool dl_traced_contradicts(const dl_cost_trace *trace, double error_frac);

/* The trace whose own the point is, borrowed; NULL if there is none. */
const dl_cost_trace *dl_traced_of_point(const dl_variant *variant, const dl_point *point);

/* The step that is predicted for the trace's own point on the variant's machine, in seconds, from a
 * short simulation without noise; NaN where the machine has no such point, or is another one. */
double dl_traced_step_s(const dl_variant *variant, const dl_cost_trace *trace);

/* The trace of the variant whose own point's throughput is predicted worst, and by how much it is
 * off (predicted over traced, minus 1); NULL and NaN if none can be compared. */
const dl_cost_trace *dl_traced_worst(const dl_variant *variant, double *error_frac);

/* Whether a prediction of the point leaves the traced collective out: nothing in it stands for it. */
bool dl_traced_is_left_out(const dl_variant *variant, const dl_point *point,
                           const dl_cost_trace *trace, const dl_traced_collective *collective);

/* Time on the device of the traced collectives of a step that a prediction of the point leaves out,
 * of the first trace that has any, in seconds; NaN: it leaves out none. */
double dl_traced_left_out_s(const dl_variant *variant, const dl_point *point);

#endif
