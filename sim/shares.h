/* Division of a point's batch among its workers, and the GPU model of each worker.
 *
 *   equal   the same number of samples for each
 *   speed   all compute (forward and backward) for the same time, as far as whole samples allow,
 *           with at least one sample each: the time T solves sum over workers of b_w(T) = batch,
 *           b_w(T) the samples that worker w computes in T; the rest from rounding goes, sample by
 *           sample, to the worker that finishes it first. With accumulation the unit is one
 *           sample of each micro-batch
 *
 * Speeds are those of the undrawn costs: shares are decided before the run. A synchronous mode then
 * weights the gradients by their samples, at the same cost. Workers that share a GPU have equal
 * parts of its speed ([sharing] of the costs). */
#ifndef DL_SIM_SHARES_H
#define DL_SIM_SHARES_H

#include "sim/scenario/scenario.h"

/* The scenario's GPUs for the point, which may list its own. Borrowed. */
dl_gpu_options dl_point_gpu_options(const dl_scenario *scenario, const dl_point *point);

/* The number, in the machine, of the model of each worker's GPU, [workers]; 0 on cores. */
void dl_point_models(const dl_scenario *scenario, const dl_point *point, int *models);

/* Samples of each worker's step, [workers]; their sum is the point's batch. */
void dl_point_shares(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                     int64_t *samples);

/* The GPU of the scenario on which `batch` samples take least time: its index among those that
 * workers take in turn; 0 if all are of one model. With `ranks` GPUs a worker, the first GPU of the
 * worker whose slowest GPU takes least time. */
int dl_fastest_gpu(const dl_scenario *scenario, const dl_costs *costs, double batch, int ranks);

/* Number of fastest GPUs equivalent to the point's GPUs, each with its share; their number if all
 * are of one model. */
double dl_point_worth(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

#endif
