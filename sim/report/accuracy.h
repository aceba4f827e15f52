/* How well a sweep predicts what was measured, and how far that can be told: errors of the points
 * beside the scatter of their repeated runs. */
#ifndef DL_SIM_ACCURACY_H
#define DL_SIM_ACCURACY_H

#include <stdbool.h>
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

    int repeated; /* points of at least DL_MEASURED_REPEATED_MIN runs; what follows is of these */
    double noise_frac; /* standard error of a point's median, over it; mean over points. An error as
                        * large as that is no evidence against a prediction */
    double spread_frac; /* p90 / p10 - 1 of a point's runs, the largest of all points */
    size_t spread_row;  /* whose */

    double others_frac,
        steal_frac; /* of the machine's processors while these ran, mean over points;
                                     * NaN if a table does not say */

    int left_out; /* runs of any point that others disturbed (measured.h) */

    int intervals;                  /* points of these whose prediction has a 95 % interval */
    int runs, runs_inside;          /* of those points, and how many lie in the interval */
    int medians_inside;             /* points whose median does */
    double half_width_frac;         /* of the interval over the prediction, mean over points */
    double repeats_half_width_frac; /* 1.96 sd of the runs over their median, likewise */

    int compared; /* of the repeated points, those with DL_MEASURED_REPEATED_MIN simulated runs, of
                   * whose distribution that of the measured runs is */
    double distance_frac;        /* so far (dl_ks_distance), median over points; */
    double equals_distance_frac; /* so few runs of one distribution are, mean over points */
} dl_accuracy;

/* measured[sweep->row_count]. Points that were not measured or not run are left out. */
dl_accuracy dl_accuracy_of(const dl_sweep *sweep, const dl_measured *measured);

/* A few lines: the errors, and of repeated points the noise floor, how many runs lie in the
 * interval, and whether the machine varied too much to judge. */
void dl_accuracy_print(FILE *out, const dl_accuracy *accuracy, const dl_sweep *sweep);

/* The same without the errors; nothing where no point was repeated or left out. */
void dl_accuracy_print_scatter(FILE *out, const dl_accuracy *accuracy, const dl_sweep *sweep);

/* --- errors by what the rows are to the prediction -------------------------------------------- */

/* A prediction whose unseen rows are off by no more than these is within the bar. */
#define DL_BAR_MEAN_FRAC 0.05
#define DL_BAR_MAX_FRAC 0.12

typedef struct dl_error_sum {
    int points, rows;          /* rows: measured rows of the points, several of a repeated one */
    double sum_frac, max_frac; /* of |predicted / measured - 1| over the points */
} dl_error_sum;

typedef struct dl_errors {
    dl_error_sum use[DL_USE_COUNT]; /* of DL_USE_ERROR only the rows */
    dl_error_sum left_out;          /* of all points but those: each predicted without itself */
} dl_errors;

/* Adds a measured point. left_out_frac: its error where no cost was fitted to it; NaN: not
 * known. */
void dl_errors_add(dl_errors *errors, dl_measured_use use, int rows, double error_frac,
                   double left_out_frac);

/* Of all measured points of a sweep. Where costs were fitted to no row, each counts as left out. */
dl_errors dl_errors_of(const dl_sweep *sweep, const dl_measured *measured);

/* Adds all of `more`. */
void dl_errors_merge(dl_errors *errors, const dl_errors *more);

/* Mean error, NaN without a point. */
double dl_error_mean(const dl_error_sum *sum);

typedef enum dl_verdict {
    DL_VERDICT_PREDICTED,    /* two unseen points or more */
    DL_VERDICT_TOO_FEW_ROWS, /* one, or contradictory ones only */
    DL_VERDICT_REPRODUCED,   /* costs were fitted to all points */
    DL_VERDICT_NO_MEASUREMENT,
    DL_VERDICT_COUNT
} dl_verdict;

/* "predicted", "too few rows", "reproduced", "no measurement". */
extern const char *const dl_verdict_names[DL_VERDICT_COUNT];

dl_verdict dl_errors_verdict(const dl_errors *errors);

/* Whether the unseen points are within the bar; true without one. */
bool dl_errors_within_bar(const dl_errors *errors);

#endif
