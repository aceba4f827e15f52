/* Comparison of a study with the traces of a cost file ([trace NUMBER]): traced and predicted step
 * times, and the collectives that a prediction leaves out.
 *
 * A point reproduces a trace if it has the same number of workers and batch per worker, exchanges
 * as the traced ranks did, and otherwise agrees with the cost file: the same GPU model (or number
 * of cores), the same accumulation, no compression or lag, nothing switched off. One worker
 * exchanges nothing, so for a single rank mode none matches too. */
#ifndef DL_SIM_TRACED_H
#define DL_SIM_TRACED_H

#include "sim/scenario/study.h"

/* Relative error of the throughput above which a prediction contradicts the trace of its costs. */
#define DL_TRACED_CONTRADICTS 0.1

/* Whether the prediction's relative error exceeds DL_TRACED_CONTRADICTS by more than two standard
 * errors of the traced step. */
bool dl_traced_contradicts(const dl_cost_trace *trace, double error_frac);

/* The trace that the point reproduces (see above), borrowed; NULL if there is none. */
const dl_cost_trace *dl_traced_of_point(const dl_variant *variant, const dl_point *point);

/* Predicted step time in seconds of the point that reproduces the trace, on the variant's machine,
 * from a short simulation without noise; NaN if the machine has no such point or is a different
 * one, if costs are missing, or if the run fails. */
double dl_traced_step_s(const dl_variant *variant, const dl_cost_trace *trace);

/* The variant's trace with the worst prediction, and the relative error of its throughput
 * (predicted over traced, minus 1); NULL and NaN if none can be compared. */
const dl_cost_trace *dl_traced_worst(const dl_variant *variant, double *error_frac);

/* Whether a prediction of the point leaves the traced collective out, so that no part of the
 * simulation includes its time; false for one worker. */
bool dl_traced_is_left_out(const dl_variant *variant, const dl_point *point,
                           const dl_cost_trace *trace, const dl_traced_collective *collective);

/* Seconds of device time per step in traced collectives that a prediction of the point leaves out,
 * from the first trace with collectives; NaN if there are none. */
double dl_traced_left_out_s(const dl_variant *variant, const dl_point *point);

#endif
