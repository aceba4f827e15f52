/* Functions that sweep.c, sensitivity.c and baseline.c share. */
#ifndef DL_SIM_SWEEP_INTERNAL_H
#define DL_SIM_SWEEP_INTERNAL_H

#include "sim/sweep.h"

/* The baseline of a point's speedup (sim/sweep.h); *gpu is the number of its GPU, to which it
 * points if the machine has several models. */
dl_point dl_sweep_baseline(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point, int *gpu);

/* Reason for a row's efficiency above 1; NULL: it is not, or by at most 0.2 %. `base`: a run of its
 * baseline, of `base_batch` samples. */
const char *dl_sweep_above(const dl_scenario *scenario, const dl_costs *costs, const dl_row *row,
                           const dl_run_result *base, double base_batch);

#endif
