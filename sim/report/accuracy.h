/* How well a sweep predicts what was measured, and how far that can be told: errors of the points
 * beside the scatter of their repeated runs. */
#ifndef DL_SIM_ACCURACY_H
#define DL_SIM_ACCURACY_H

#include <stdio.h>

#include "sim/report/measured.h"
#include "sim/sweep.h"

/* Where the 90th percentile of a setting's repeated runs is further above the 10th than this, the
 * machine is said to vary too much for a verdict on the predictions. */
#define DL_ACCURACY_SPREAD_FRAC 0.3

/* The share of the processors that others took from which on the runs are called disturbed. */
#define DL_ACCURACY_DISTURBED_FRAC 0.05

typedef struct dl_accuracy {
    int points;                 /* measured */
    double mean_frac, max_frac; /* |predicted / measured - 1| of throughput; measured: the median */

    int repeated;      /* points of at least DL_MEASURED_REPEATED_MIN runs; what follows is of these */
    double noise_frac; /* standard error of a point's median, over it; mean over points. An error as
                        * large as that is no evidence against a prediction */
    double spread_frac; /* p90 / p10 - 1 of a point's runs, the largest of all points */
    size_t spread_row;  /* whose */

    double others_frac, steal_frac; /* of the machine's processors while these ran, mean over points;
                                     * NaN if a table does not say */

    int left_out; /* runs of any point that others disturbed (measured.h) */

    int intervals;                      /* points of these whose prediction has a 95 % interval */
    int runs, runs_inside;              /* of those points, and how many lie in the interval */
    int medians_inside;                 /* points whose median does */
    double half_width_frac;             /* of the interval over the prediction, mean over points */
    double repeats_half_width_frac;     /* 1.96 sd of the runs over their median, likewise */
} dl_accuracy;

/* measured[sweep->row_count]. Points that were not measured or not run are left out. */
dl_accuracy dl_accuracy_of(const dl_sweep *sweep, const dl_measured *measured);

/* A few lines: the errors, and of repeated points the noise floor, how many runs lie in the interval,
 * and whether the machine varied too much to judge. */
void dl_accuracy_print(FILE *out, const dl_accuracy *accuracy, const dl_sweep *sweep);

#endif
