/* Weights of a table's rows, so that a few wrong ones do not move the costs. See
 * calibrate/table/table_fit.h for method and source. */
#ifndef DL_CALIBRATE_TABLE_ROBUST_H
#define DL_CALIBRATE_TABLE_ROBUST_H

#include "calibrate/table/table_model.h"

/* Robust standard deviation of r of the rows that count, at the costs set last. */
double dl_table_sigma(const dl_table_model *model);

/* Sets model->weight and moves x to the costs that belong to them; x must be a least sum of squares
 * already. With fewer rows than DL_TABLE_ROWS_A_COST a cost nothing changes. */
dl_status dl_table_reweigh(dl_table_model *model, double *x);

#endif
