/* Rows of a measured table, and what the rows of one point come to. */
#ifndef DL_SIM_MEASURED_RUNS_H
#define DL_SIM_MEASURED_RUNS_H

#include "sim/report/measured.h"

typedef struct dl_measured_row {
    size_t point; /* of all of the study's */
    bool failed;  /* the source says `error` */
    dl_measured_use use;
    double value[DL_MEASURE_COUNT];
    double *worker_staleness; /* [workers of the point] or NULL */
    double *counts;           /* [count_bins] or NULL */
    int count_bins;
} dl_measured_row;

/* Sets the throughput from the step or the step from the throughput, and each error relative to its
 * value. */
void dl_measured_derive(double *value, double batch);

/* Moves the rows that were not disturbed to the front of rows[runs] and returns how many those are;
 * changes nothing and returns `runs` where fewer than a quarter would be left. */
size_t dl_measured_undisturbed(const dl_measured_row **rows, size_t runs);

/* Puts the figures of a point with `workers` together from rows[runs], none of which has failed. */
void dl_measured_summarise(dl_measured *measured, const dl_measured_row *const *rows, size_t runs,
                           int workers);

#endif
