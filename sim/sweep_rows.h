/* What the runs of a point come to: the figures of its row. */
#ifndef DL_SIM_SWEEP_ROWS_H
#define DL_SIM_SWEEP_ROWS_H

#include "sim/sweep.h"

/* The runs of one point. */
typedef struct dl_row_runs {
    const dl_run_result *central; /* [central_count >= 1] replicates, with the costs as they are */
    int64_t central_count;
    const dl_run_result *drawn; /* [drawn_count] replicates, with drawn costs; may be none */
    int64_t drawn_count;
    const dl_run_result *scaled; /* [2] with the slowest and the fastest compute; NULL = none */
} dl_row_runs;

/* Sets the figures of row->point from its runs; base are those of its baseline, as many, NULL if
 * there are none (no speedup). Without `interval` there is none but of scaled compute. */
void dl_row_set(dl_row *row, const dl_row_runs *runs, const dl_row_runs *base, bool interval);

/* A row without figures, since the point does not fit into row->memory. */
void dl_row_set_unfit(dl_row *row);

#endif
