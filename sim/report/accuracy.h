/* The errors of a sweep's predictions, and their reliability: the scatter of repeated measurements
 * of the same point. */
#ifndef DL_SIM_ACCURACY_H
#define DL_SIM_ACCURACY_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/report/measured.h"
#include "sim/sweep.h"

/* If the 90th percentile of a setting's repeated runs exceeds the 10th by more than this, the
 * machine is reported to vary too much for a verdict on the predictions. */
#define DL_ACCURACY_SPREAD_FRAC 0.3

/* Share of the processors taken by others from which on the runs are called disturbed. */
#define DL_ACCURACY_DISTURBED_FRAC 0.05

typedef struct dl_accuracy {
    int points;                 /* measured */
    double mean_frac, max_frac; /* |predicted / measured - 1| of throughput; measured: the median */

    int repeated; /* points of at least DL_MEASURED_REPEATED_MIN runs; the following members are for
                   * these */
    double noise_frac; /* standard error of a point's median, over it; mean over points. An error as
                        * large as that is no evidence against a prediction */
    double spread_frac; /* p90 / p10 - 1 of a point's runs, the largest of all points */
    size_t spread_row;  /* row of that point */

    double others_frac,
        steal_frac; /* share of the machine's processors taken from these runs, mean over points;
                     * NaN if not in a table */

    int left_out; /* runs of any point that were disturbed (measured.h) */

    int intervals;                  /* points of these whose prediction has a 95 % interval */
    int runs, runs_inside;          /* of those points, and the number in the interval */
    int medians_inside;             /* points whose median is in the interval */
    double half_width_frac;         /* of the interval over the prediction, mean over points */
    double repeats_half_width_frac; /* 1.96 sd of the runs over their median, likewise */

    int compared;         /* repeated points with DL_MEASURED_REPEATED_MIN simulated runs, whose
                   * distribution is compared with that of the measured runs */
    double distance_frac; /* distance (dl_ks_distance), median over points */
    double equals_distance_frac; /* distance expected for equal distributions, mean over points */
} dl_accuracy;

/* measured[sweep->row_count]. Points that were not measured or not run are left out. */
dl_accuracy dl_accuracy_of(const dl_sweep *sweep, const dl_measured *measured);

/* A few lines: the errors, and for repeated points the noise floor, the number of runs in the
 * interval, and whether the machine varied too much to judge. */
void dl_accuracy_print(FILE *out, const dl_accuracy *accuracy, const dl_sweep *sweep);

/* The same without the errors; nothing where no point was repeated or left out. */
void dl_accuracy_print_scatter(FILE *out, const dl_accuracy *accuracy, const dl_sweep *sweep);

/* --- errors by use of the rows ---------------------------------------------------------------- */

/* Bar: the largest error of the unseen rows of a good prediction. */
#define DL_BAR_MEAN_FRAC 0.05
#define DL_BAR_MAX_FRAC 0.12

typedef struct dl_error_sum {
    int points, rows;          /* rows: measured rows of the points, several of a repeated one */
    double sum_frac, max_frac; /* of |predicted / measured - 1| over the points */
} dl_error_sum;

typedef struct dl_errors {
    dl_error_sum use[DL_USE_COUNT]; /* for DL_USE_ERROR only the rows */
    dl_error_sum left_out;          /* all points but those: each predicted without itself */
} dl_errors;

/* Adds a measured point. left_out_frac: its error with no cost fitted to it; NaN: unknown. */
void dl_errors_add(dl_errors *errors, dl_measured_use use, int rows, double error_frac,
                   double left_out_frac);

/* Errors of all measured points of a sweep. If no costs were fitted to any row, every point also
 * counts as left out. */
dl_errors dl_errors_of(const dl_sweep *sweep, const dl_measured *measured);

/* Adds all of `more`. */
void dl_errors_merge(dl_errors *errors, const dl_errors *more);

/* Mean error, NaN without a point. */
double dl_error_mean(const dl_error_sum *sum);

typedef enum dl_verdict {
    DL_VERDICT_PREDICTED,      /* two unseen points or more */
    DL_VERDICT_TOO_FEW_ROWS,   /* one, or only contradictory ones */
    DL_VERDICT_REPRODUCED,     /* costs were fitted to all points */
    DL_VERDICT_NO_MEASUREMENT, /* none but the step of the costs' own trace */
    DL_VERDICT_COUNT
} dl_verdict;

/* "predicted", "too few rows", "reproduced", "no measurement". */
extern const char *const dl_verdict_names[DL_VERDICT_COUNT];

dl_verdict dl_errors_verdict(const dl_errors *errors);

/* Whether the unseen points are within the bar; true without one. */
bool dl_errors_within_bar(const dl_errors *errors);

#endif
