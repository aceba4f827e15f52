/* Predictions of a measured table by models simpler than the simulator, for comparison with the
 * simulator's errors. Each model gives the step time of a row with n workers on k nodes and b
 * samples per worker.
 *
 *   linear       the step time of one worker for b samples, from the fit's rows of one worker
 *                (linear between neighbours in b, extrapolated from the outer two), which is a
 *                speedup of n
 *   bytes        linear, plus 2 (n - 1) / n x parameter bytes over the rate of the slowest link
 *                between neighbours in the machine file
 *   pollux       the form that Pollux fits online (Qiao et al. 2021, OSDI, section 3.2; its
 *                code names the same terms): (G^c + S^c)^(1/c), 1 <= c <= 10, with
 *                  G = a1 + b1 b                   gradients
 *                  S = 0                           n = 1
 *                      a2 + b2 (n - 2)             k = 1
 *                      a3 + b3 (n - 2)             k > 1
 *                all seven parameters fitted to all rows of the fit by unweighted least squares of
 *                ln(step), as in Pollux: GSL's trust region from DL_TABLE_POLLUX_STARTS points of
 *                a Sobol sequence */
#ifndef DL_CALIBRATE_EVALUATE_EVALUATE_H
#define DL_CALIBRATE_EVALUATE_EVALUATE_H

#include <stdio.h>

#include "calibrate/links/links.h"
#include "calibrate/table/table.h"

#define DL_TABLE_POLLUX_COSTS 7
#define DL_TABLE_POLLUX_STARTS 64

/* A row as input to these models. */
typedef struct dl_table_shape {
    double workers, nodes, batch; /* batch: samples per worker */
    double step_s;
} dl_table_shape;

dl_table_shape dl_table_shape_of(const dl_table_row *row, const dl_scenario *scenario);

/* Returns the step time in s of the linear model, for `batch` samples per worker; NAN if
 * rows[count] have fewer than two batches of one worker. */
double dl_table_linear_step_s(const dl_table_shape *rows, size_t count, double batch);

/* Returns the exchange time of a row in s; 0 for one worker, or without a machine. `row` is on the
 * scenario's machine. */
double dl_table_bytes_s(const dl_table_row *row, const dl_scenario *scenario,
                        double parameter_bytes);

/* Parameters a1, b1, a2, b2, a3, b3 in seconds, and c. */
typedef struct dl_table_pollux {
    double value[DL_TABLE_POLLUX_COSTS];
    double rms; /* root mean square of ln(fitted / measured); NAN if not fitted */
} dl_table_pollux;

/* Fits `form` to rows[count]; with fewer rows than parameters, only sets rms to NAN. */
void dl_table_pollux_fit(dl_table_pollux *form, const dl_table_shape *rows, size_t count);
double dl_table_pollux_step_s(const dl_table_pollux *form, const dl_table_shape *row);

/* Predictions of another table's rows with the costs of a fit, and by the simpler models above,
 * fitted to the rows of that fit. */

typedef enum dl_table_method {
    DL_TABLE_SIMULATOR,
    DL_TABLE_POLLUX_FORM,
    DL_TABLE_BYTES,
    DL_TABLE_LINEAR,
    DL_TABLE_METHODS
} dl_table_method;

/* Statistics of |predicted step / measured step - 1| over the rows that a method can predict. */
typedef struct dl_table_errors {
    size_t rows;
    double median_frac, mean_frac, max_frac; /* NAN if there are no rows */
    int max_line;                            /* line number in the table of the largest error */
} dl_table_errors;

/* Zero before use, release with dl_table_evaluation_free. */
typedef struct dl_table_evaluation {
    dl_scenario scenario;
    dl_table_rows rows;
    double *off[DL_TABLE_METHODS]; /* [rows.count] predicted / measured - 1; NAN: no prediction */
    dl_table_errors errors[DL_TABLE_METHODS];
    dl_table_pollux form;
    size_t fitted_rows;
} dl_table_evaluation;

/* Predicts the rows of the table at `path`, which the fit of `config` did not use, in the
 * scenario of `part`; fits the simpler models to that part's rows. Returns the errors of
 * dl_table_fit_run. */
dl_status dl_table_evaluate(dl_table_evaluation *evaluation, const dl_table_fit *fit,
                            const dl_table_fit_config *config, size_t part, const char *path,
                            dl_error *err) DL_MUST_CHECK;
void dl_table_evaluation_free(dl_table_evaluation *evaluation);
void dl_table_evaluation_print(const dl_table_evaluation *evaluation, FILE *out);

/* Errors of a fit at unseen sizes: the fit to every second size is evaluated at the others, and so
 * is the usual formula latency + bytes / bandwidth, fitted by least squares. */

/* Absolute relative errors. */
typedef struct dl_link_errors {
    double mean_frac, max_frac;
    double max_bytes; /* size with the largest error */
    size_t count;
} dl_link_errors;

typedef struct dl_link_evaluation {
    dl_link_errors fit;   /* errors of the fit at all left-out sizes */
    dl_link_errors usual; /* errors of the usual formula at the same sizes */
    dl_link_errors rest;  /* errors of the fit without uninformative sizes: outliers of the fit to
                           * all sizes, and times with fewer digits than DL_LINK_COARSE_FRAC */
    dl_link_errors usual_rest; /* errors of the usual formula at the sizes of `rest` */
    dl_link_errors even;       /* errors of the fit where |beside_frac| <= DL_LINK_EVEN_FRAC */
    size_t regimes;
    double *error_frac;  /* [n] fitted / measured - 1; NaN: the fit has seen the size */
    double *beside_frac; /* [n] neighbours' line / measured - 1; NaN also at both ends */
} dl_link_evaluation;

#define DL_LINK_EVEN_FRAC 0.1

/* Maximum relative rounding error of times in `rest`. */
#define DL_LINK_COARSE_FRAC 0.02

/* Fits points begin, begin + 2, ... (begin 0 or 1) and evaluates the fit at the others. `all` is
 * the fit to all points[n]. Returns DL_ERR_DATA with fewer than DL_LINK_EVALUATE_MIN points.
 * Release with dl_link_evaluation_free. */
#define DL_LINK_EVALUATE_MIN 6

dl_status dl_link_evaluate(dl_link_evaluation *evaluation, const dl_link_point *points, size_t n,
                           size_t begin, const dl_link_fit *all, dl_error *err) DL_MUST_CHECK;
void dl_link_evaluation_free(dl_link_evaluation *evaluation); /* accepts a zeroed object */

#endif
