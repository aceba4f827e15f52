/* What the simulator says of a table's rows, as a function of the costs that are sought, and the
 * search for the costs at which it says what was measured. See calibrate/table/table_fit.h for symbols.
 */
#ifndef DL_CALIBRATE_TABLE_MODEL_H
#define DL_CALIBRATE_TABLE_MODEL_H

#include <gsl/gsl_matrix.h>
#include <stdbool.h>
#include <stdint.h>

#include "calibrate/table/table_costs.h"
#include "calibrate/table/table_rows.h"

/* Zero before dl_table_model_init, release with dl_table_model_free. */
typedef struct dl_table_model {
    const dl_scenario *scenario; /* borrowed, as the next three */
    dl_costs *costs;             /* the sought ones change with every evaluation */
    const dl_table_rows *rows;
    const dl_table_costs *unknown;
    double guess[DL_TABLE_COSTS_MAX]; /* > 0 */
    bool active[DL_TABLE_COSTS_MAX];  /* costs that a search changes; all at first */
    bool *use;                        /* [rows->count] rows that count; all but failed ones */
    double *weight;                   /* [rows->count] of r^2 in the sum, 0..1; 1 at first */
    bool *wanted;                     /* [points] of such rows */
    double *per_s;                    /* [points] simulated last */
    int threads;
    int64_t steps; /* of dl_table_simulation */
    int64_t runs;
    dl_status status; /* of the first run that failed */
    dl_error error;
} dl_table_model;

/* Guesses each cost's size: its known value, else a part of the rows' median step. */
void dl_table_model_init(dl_table_model *model, const dl_scenario *scenario, dl_costs *costs,
                         const dl_table_rows *rows, const dl_table_costs *unknown, int threads);
void dl_table_model_free(dl_table_model *model);

size_t dl_table_model_rows(const dl_table_model *model);  /* that count */
size_t dl_table_model_costs(const dl_table_model *model); /* that are active */

/* Limits of x of a cost: DL_TABLE_RANGE around its guess. */
double dl_table_model_low(const dl_table_model *model, size_t cost);
double dl_table_model_high(const dl_table_model *model, size_t cost);

/* Of the two, that with the shortest step. */
double dl_table_model_least(const dl_table_model *model, size_t cost);

/* Whether more of the cost is more speed. */
bool dl_table_is_rate(const dl_table_cost *cost);

/* Sets the costs from x[unknown->count] = ln(cost), limited as above, and simulates the points of
 * the rows that count; model->per_s is of these. Fails as dl_run. */
dl_status dl_table_model_set(dl_table_model *model, const double *x);

/* r of a row at the costs set last, whether it counts or not (its point must have been simulated).
 */
double dl_table_model_residual(const dl_table_model *model, size_t row);

/* Weighted sum of squares of r at x; INFINITY where a run fails (model->status). */
double dl_table_model_squares(dl_table_model *model, const double *x);

/* J[rows that count x active costs] at x, each row times the root of its weight. */
dl_status dl_table_model_jacobian(dl_table_model *model, const double *x, gsl_matrix *jacobian);

/* Goes down from x[unknown->count] to the nearest least sum of squares, which is returned
 * (INFINITY: a run failed); at least as many rows as active costs. */
double dl_table_model_descend(dl_table_model *model, double *x);

/* Searches everywhere, or, if `near`, from the guess on (table_fit.h); x is the result. */
double dl_table_model_search(dl_table_model *model, bool near, double *x);

#endif
