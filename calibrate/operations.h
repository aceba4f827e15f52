/* What an operation costs: fixed + per_sample batch, from runs at two or more batch sizes.
 *
 * Each run gives one point, the robust centre of the operation's time over its steps. The line goes
 * through the points by their relative deviation, so small batches count as much as large ones.
 * With one batch size only, how cost divides is assumed: input, forward and backward in proportion
 * to the batch, everything else independent of it.
 *
 * Cost that is not linear in the batch (caches, a GEMM's efficiency) is kept for all operations
 * together, as their time over that of their lines at each batch size ([linearity], with three
 * batch sizes or more). What that leaves out: that it is not the same for all operations. */
#ifndef DL_CALIBRATE_OPERATIONS_H
#define DL_CALIBRATE_OPERATIONS_H

#include "calibrate/dataset.h"
#include "calibrate/fit.h"
#include "sim/costs/costs.h"

/* Residuals beyond this are warned of. */
#define DL_LINEARITY_LIMIT_FRAC 0.02

/* Observed and fitted time of an operation, or of all together, at one batch size. */
typedef struct dl_op_point {
    int64_t batch;
    double observed_ns; /* mean over the runs at this batch size, of their centres */
    double error_ns;
    double fitted_ns;
} dl_op_point;

typedef struct dl_op_fit {
    const char *name;    /* borrowed from the data set */
    dl_op_point *points; /* [batch_count] ascending */
} dl_op_fit;

/* The whole step at one batch size. A preemption hits one operation of a step, so the centres of
 * the operations know less of them than the centre of the steps does: on a busy machine `step_ns`
 * exceeds the sum. That part is not lost, the noise factors hold it. */
typedef struct dl_step_point {
    dl_op_point sum; /* of the operations' centres */
    double step_ns, step_error_ns;
    int64_t count; /* steps of all runs */
} dl_step_point;

typedef struct dl_operations {
    dl_op_fit *ops; /* [op_count] in the order of the data set */
    size_t op_count;
    dl_step_point *steps; /* [batch_count] */
    size_t batch_count;
} dl_operations;

/* Residual of a point: observed over fitted - 1. */
double dl_op_residual_frac(const dl_op_point *point);

/* Fits all operations of the data set (at least one run) into costs->ops, batch_min and batch_max;
 * notes what was assumed, held at zero, or deviates. Zero `operations` before; release with
 * dl_operations_free. */
dl_status dl_operations_fit(const dl_dataset *dataset, dl_operations *operations, dl_costs *costs,
                            dl_notes *notes, dl_error *err) DL_MUST_CHECK;
void dl_operations_free(dl_operations *operations);

#endif
