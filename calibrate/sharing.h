/* What sharing the machine costs: a step's time with k copies at once, over its time alone per turn
 * on a core, time(k) / (time(1) max(1, k / cores)).
 *
 * The bench runs all k in every round, so times are compared within a round, where the machine's
 * speed is the same. As long as every copy has its core, a run's time is its robust centre; beyond
 * that copies take turns, most steps of a short-stepped model see no turn at all, and only the mean
 * says what a step takes (of both k and 1, then). */
#ifndef DL_CALIBRATE_SHARING_H
#define DL_CALIBRATE_SHARING_H

#include "calibrate/dataset.h"
#include "calibrate/fit.h"
#include "sim/costs/costs.h"

/* A factor's difference between batch sizes that is worth a note, if it is over 3 standard errors.
 */
#define DL_SHARING_AGREE 0.05

/* One k and batch size. */
typedef struct dl_sharing_point {
    int copies;
    int64_t batch;
    dl_estimate factor; /* count = rounds */
} dl_sharing_point;

typedef struct dl_sharing_fit {
    dl_sharing_point *points; /* by copies, then batch */
    size_t count;
} dl_sharing_fit;

/* One run of k copies: consecutive samples of a bench trace. */
typedef struct dl_copies_run {
    int copies;
    int64_t batch, cores;
    const dl_record *samples; /* [count] borrowed from the data set */
    size_t count;
} dl_copies_run;

/* The runs of a bench trace in order; a new one starts where k or the batch changes, or where a
 * copy's step count starts anew. free() it; the samples are borrowed from `bench`. */
dl_copies_run *dl_sharing_runs(const dl_bench_trace *bench, size_t *count);

/* Fills costs->sharing from the bench traces: batch sizes are combined, by their errors and what
 * they differ by beyond. Without "step" samples nothing is filled in. Zero `fit` before; release
 * with dl_sharing_fit_free. DL_ERR_DATA: k copies were measured, but never one alone. */
dl_status dl_sharing_fit_factors(const dl_dataset *dataset, dl_sharing_fit *fit, dl_costs *costs,
                                 dl_notes *notes, dl_error *err) DL_MUST_CHECK;
void dl_sharing_fit_free(dl_sharing_fit *fit);

#endif
