/* How the workers of a point share its batch, and on which model of GPU each of them is.
 *
 *   equal   as many samples for each
 *   speed   all compute (forward and backward) for the same time, as far as whole samples allow,
 *           with at least one sample each: the time T solves sum over workers of b_w(T) = batch,
 *           b_w(T) the samples that worker w computes in T; what rounding down leaves goes, sample
 *           by sample, to the worker that has then done it first. With accumulation the unit is one
 *           sample of each micro-batch
 *
 * Speeds are those of the costs as they are: one decides on shares before the run. A synchronous
 * mode weighs the gradients by their samples then, which costs the same. Workers that share a GPU
 * have its speed in equal parts ([sharing] of the costs). */
#ifndef DL_SIM_SHARES_H
#define DL_SIM_SHARES_H

#include "sim/scenario/scenario.h"

/* The scenario's GPUs as the point has them: those of its own, if it lists some. Borrowed. */
dl_gpu_options dl_point_gpu_options(const dl_scenario *scenario, const dl_point *point);

/* The machine's number of the model of each worker's GPU, [workers]; 0 on cores. */
void dl_point_models(const dl_scenario *scenario, const dl_point *point, int *models);

/* Samples of each worker's step, [workers]; their sum is the point's batch. */
void dl_point_shares(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                     int64_t *samples);

/* A GPU of the scenario on which `batch` samples take least time: its place among those that the
 * workers take in turn; 0 if all are of one model. */
int dl_fastest_gpu(const dl_scenario *scenario, const dl_costs *costs, double batch);

/* As how many of the fastest GPU the point's GPUs compute, each with its share; their number if all
 * are of one model. */
double dl_point_worth(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

#endif
