/* The errors of a sweep's predictions, and their reliability: the scatter of repeated measurements
 * of the same point. */
#ifndef DL_SIM_ACCURACY_H
#define DL_SIM_ACCURACY_H

#include <stdbool.h>
#include <stdio.h>

#include "common/notes.h"
#include "sim/report/measured.h"
#include "sim/sweep.h"

/* If the 90th percentile of a setting's repeated runs exceeds the 10th by more than this, the
 * machine is reported to vary too much for a verdict on the predictions. */
#define DL_ACCURACY_SPREAD_FRAC 0.3

/* Share of the processors taken by other programs, or by the host, above which the runs are
 * reported as disturbed. */
#define DL_ACCURACY_DISTURBED_FRAC 0.05

typedef struct dl_accuracy {
    int points;                 /* number of measured points */
    double mean_frac, max_frac; /* |predicted / measured - 1| of throughput; measured: the median */

    double others_frac,
        steal_frac; /* shares of the processors taken from the runs by other programs and by the
                     * host; mean over points; NaN if not in a table */

    int repeated; /* points with at least DL_MEASURED_REPEATED_MIN runs; the members below, except
                   * left_out, cover only these */
    double noise_frac;  /* standard error of a point's median over the median; mean over points. An
                         * error up to this size is not evidence against a prediction */
    double spread_frac; /* p90 / p10 - 1 of a point's runs; the largest over all points */
    size_t spread_row;  /* row of the point with that spread */

    int left_out;      /* number of disturbed runs left out, over all points (measured.h) */
    int without_point; /* number of measured rows left out, as no point has their keys */

    int intervals;          /* number of repeated points whose prediction has a 95 %
                                     * interval */
    int runs, runs_inside;  /* runs of the points with an interval, and the runs inside it */
    int medians_inside;     /* points whose median lies in the interval */
    double half_width_frac; /* half width of the interval over the prediction; mean over
                                     * points */
    double repeats_half_width_frac; /* 1.96 standard deviations of the runs over their median; mean
                                     * over points */

    int compared;         /* repeated points with at least DL_MEASURED_REPEATED_MIN simulated runs;
                           * their measured and simulated distributions are compared */
    double distance_frac; /* Kolmogorov-Smirnov distance (dl_ks_distance); median over points */
    double equals_distance_frac; /* distance expected for equal distributions, mean over points */

    int steps_compared;                       /* points with dl_accuracy_steps_frac */
    double steps_median_frac, steps_max_frac; /* its median and maximum over these points */
} dl_accuracy;

/* Kolmogorov-Smirnov distance of a point's measured steps from the simulated ones, of all workers
 * and runs; NaN if either are not known. */
double dl_accuracy_steps_frac(const dl_row *row, const dl_measured *measured);

/* Computes the accuracy of a sweep against measured[sweep->row_count]. Points that were not
 * measured or did not run are left out. */
dl_accuracy dl_accuracy_of(const dl_sweep *sweep, const dl_measured *measured);

/* Prints the mean and the largest error if `errors`, then the lines of dl_accuracy_scatter. */
void dl_accuracy_print(FILE *out, const dl_accuracy *accuracy, const dl_sweep *sweep, bool errors);

/* Adds lines with the number of runs left out, the noise floor, the number of runs inside the
 * interval, the distances of the distributions of runs and of steps, and whether the runs were
 * disturbed or varied too much to judge; each only if known. */
void dl_accuracy_scatter(dl_notes *lines, const dl_accuracy *accuracy, const dl_sweep *sweep);

/* --- errors by use of the rows ---------------------------------------------------------------- */

/* Limits of a good prediction: mean and largest error of the unseen rows. */
#define DL_BAR_MEAN_FRAC 0.05
#define DL_BAR_MAX_FRAC 0.12

typedef struct dl_error_sum {
    int points, rows;          /* rows: measured rows of the points, several of a repeated one */
    double sum_frac, max_frac; /* sum and maximum of |predicted / measured - 1| over the points */
} dl_error_sum;

typedef struct dl_errors {
    dl_error_sum use[DL_USE_COUNT]; /* DL_USE_ERROR counts rows only */
    dl_error_sum left_out;          /* points whose error without a fit to them is known */
} dl_errors;

/* Adds a measured point; for DL_USE_ERROR only its rows. left_out_frac is its error with no cost
 * fitted to it; NaN: unknown. */
void dl_errors_add(dl_errors *errors, dl_measured_use use, int rows, double error_frac,
                   double left_out_frac);

/* Errors of all measured points of a sweep. If no row was traced or had costs fitted to it, every
 * point also counts as left out. */
dl_errors dl_errors_of(const dl_sweep *sweep, const dl_measured *measured);

/* Adds all sums of `more` to `errors`. */
void dl_errors_merge(dl_errors *errors, const dl_errors *more);

/* Mean error; NaN if there is no point. */
double dl_error_mean(const dl_error_sum *sum);

typedef enum dl_verdict {
    DL_VERDICT_PREDICTED,      /* at least two unseen points */
    DL_VERDICT_TOO_FEW_ROWS,   /* fewer than two unseen points, and at least one unseen or
                                * contradictory point */
    DL_VERDICT_REPRODUCED,     /* no unseen or contradictory point, and costs were fitted to at
                                * least one */
    DL_VERDICT_NO_MEASUREMENT, /* no points except traced ones */
    DL_VERDICT_COUNT
} dl_verdict;

/* "predicted", "too few rows", "reproduced", "no measurement". */
extern const char *const dl_verdict_names[DL_VERDICT_COUNT];

dl_verdict dl_errors_verdict(const dl_errors *errors);

/* Whether the unseen points are within the limits DL_BAR_*; true if there are none. */
bool dl_errors_within_bar(const dl_errors *errors);

#endif
