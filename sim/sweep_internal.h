/* Internal interface of sweep.c, sensitivity.c and baseline.c. */
#ifndef DL_SIM_SWEEP_INTERNAL_H
#define DL_SIM_SWEEP_INTERNAL_H

#include "sim/sweep.h"

typedef struct dl_baseline {
    size_t variant; /* variant whose scenario and costs the baseline uses */
    dl_point point;
    int *gpus; /* GPU list of `point`; the caller frees it; NULL: any GPUs */
} dl_baseline;

/* The baseline for the speedup of a point of variant `number` (sim/sweep.h). */
dl_baseline dl_sweep_baseline(const dl_study *study, size_t number, const dl_point *point);

/* Describes a baseline: "one worker of tp=2 (recompute full)", "one GPU in 4 micro-batches"; "":
 * one worker with the micro-batches of the costs. */
void dl_sweep_baseline_text(char text[DL_BASELINE_TEXT_BYTES], const dl_study *study,
                            const dl_variant *variant, const dl_point *baseline);

/* Explains a row's efficiency above 1; NULL if it exceeds 1 by at most 0.2 %. `base`: a run of the
 * baseline, with base_batch samples. */
const char *dl_sweep_above(const dl_scenario *scenario, const dl_costs *costs, const dl_row *row,
                           const dl_run_result *base, double base_batch);

/* Standard deviation of the logarithm of the throughput, by which runs of a point with this rate
 * differ ([spread] run_frac). 0 if that is assumed because a step or a rate was given, and the point
 * is the given one: it has its workers and batch, and about its rate. */
double dl_sweep_run_sd(const dl_variant *variant, const dl_point *point, double per_s);

/* Whether runs of two points differ like repeated runs: always, but for points of as many GPUs
 * where that is assumed from a given step or rate. */
bool dl_sweep_runs_differ(const dl_variant *variant, const dl_point *a, const dl_point *b);

#endif
