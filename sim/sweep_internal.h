/* What sweep.c and sensitivity.c share. */
#ifndef DL_SIM_SWEEP_INTERNAL_H
#define DL_SIM_SWEEP_INTERNAL_H

#include "sim/sweep.h"

/* The baseline of a point's speedup, as sim/sweep.h says; *gpu is the number of its GPU, to which it
 * points where the machine has several models. */
dl_point dl_sweep_baseline(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point, int *gpu);

#endif
