/* What simpler models than the simulator make of a measured table, to set its errors beside theirs.
 * All give the time of a step of a row with n workers on k nodes, b samples each.
 *
 *   linear       the time that one worker takes for b samples, of the rows of one worker (a line between
 *                neighbours in b, and on through the outer two): speedup n
 *   bytes        that, and 2 (n - 1) / n x parameter bytes over the rate of the slowest way
 *                between neighbours, as the machine file has it
 *   pollux       the form that Pollux fits online (Qiao et al. 2021, OSDI, section 3.2; its
 *                code names the same terms): (G^c + S^c)^(1/c), 1 <= c <= 10, with
 *                  G = a1 + b1 b                   gradients
 *                  S = 0                           n = 1
 *                      a2 + b2 (n - 2)             k = 1
 *                      a3 + b3 (n - 2)             k > 1
 *                all seven fitted to the same rows, by least squares of ln(step), all rows alike, as
 *                there: GSL's trust region from DL_TABLE_POLLUX_STARTS points of a Sobol sequence */
#ifndef DL_CALIBRATE_TABLE_BASELINES_H
#define DL_CALIBRATE_TABLE_BASELINES_H

#include "calibrate/table/table_rows.h"

#define DL_TABLE_POLLUX_COSTS 7
#define DL_TABLE_POLLUX_STARTS 64

/* A row as these models see it. */
typedef struct dl_table_shape {
    double workers, nodes, batch; /* batch: of a worker */
    double step_s;
} dl_table_shape;

dl_table_shape dl_table_shape_of(const dl_table_row *row, const dl_scenario *scenario);

/* NAN if fewer than two batches of one worker are among rows[count]. */
double dl_table_linear_step_s(const dl_table_shape *rows, size_t count, double batch);

/* Seconds of exchange of a row; 0 for one worker. `row` is one of the scenario's machine. */
double dl_table_bytes_s(const dl_table_row *row, const dl_scenario *scenario,
                        double parameter_bytes);

/* a1, b1, a2, b2, a3, b3 in seconds, c. */
typedef struct dl_table_pollux {
    double value[DL_TABLE_POLLUX_COSTS];
    double rms; /* of ln(fitted / measured); NAN if it was not fitted */
} dl_table_pollux;

/* With fewer rows than costs there is no fit, and rms is NAN. */
void dl_table_pollux_fit(dl_table_pollux *form, const dl_table_shape *rows, size_t count);
double dl_table_pollux_step_s(const dl_table_pollux *form, const dl_table_shape *row);

#endif
