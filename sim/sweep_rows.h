/* What the runs of a point come to: the figures of its row. */
#ifndef DL_SIM_SWEEP_ROWS_H
#define DL_SIM_SWEEP_ROWS_H

#include "sim/sweep.h"

/* Sets the figures of row->point from runs[replicates]; base[replicates] are those of its baseline,
 * NULL if there are none (no speedup). */
void dl_row_set(dl_row *row, const dl_run_result *runs, const dl_run_result *base,
                int64_t replicates);

/* A row without figures, since the point does not fit into row->memory. */
void dl_row_set_unfit(dl_row *row);

/* Widens the row's interval by what compute may be off: throughputs with the slowest and the
 * fastest compute. */
void dl_row_widen(dl_row *row, double slow_per_s, double fast_per_s);

#endif
