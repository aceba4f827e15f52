/* Leaving out rows of a large table: see "left out" in calibrate/table/table_fit.h. */
#ifndef DL_CALIBRATE_TABLE_LEFT_OUT_H
#define DL_CALIBRATE_TABLE_LEFT_OUT_H

#include "calibrate/table/table_fit.h"
#include "calibrate/table/table_model.h"

/* Puts left_out_frac into fit->residuals, from one step of Gauss and Newton from x, the end of the
 * search, without each point's rows; NaN where the other rows do not determine the costs. Fails as
 * dl_table_model_set. */
dl_status dl_table_leave_out_linear(dl_table_fit *fit, dl_table_model *model, const double *x);

#endif
