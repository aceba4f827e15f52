/* Functions that sweep.c, sensitivity.c and baseline.c share. */
#ifndef DL_SIM_SWEEP_INTERNAL_H
#define DL_SIM_SWEEP_INTERNAL_H

#include "sim/sweep.h"

typedef struct dl_baseline {
    size_t variant; /* whose scenario and costs it has */
    dl_point point;
    int *gpus; /* the point's: owned by the caller, freed with it; NULL: any */
} dl_baseline;

/* The baseline of the speedup of a point of variant `number` (sim/sweep.h). */
dl_baseline dl_sweep_baseline(const dl_study *study, size_t number, const dl_point *point);

/* "one worker of tp=2 (recompute full)", "one GPU in 4 micro-batches"; "": one worker, as the costs
 * have it. */
void dl_sweep_baseline_text(char text[DL_BASELINE_TEXT_BYTES], const dl_study *study,
                            const dl_variant *variant, const dl_point *baseline);

/* Explains a row's efficiency above 1; NULL if it does not exceed 1 by more than 0.2 %. `base`: a
 * run of the baseline, with base_batch samples. */
const char *dl_sweep_above(const dl_scenario *scenario, const dl_costs *costs, const dl_row *row,
                           const dl_run_result *base, double base_batch);

#endif
