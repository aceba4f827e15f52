/* Division of a point's batch among its workers, and the GPU model of each worker.
 *
 *   equal   the same number of samples for each worker
 *   speed   forward and backward take all workers the same time, as far as whole samples allow,
 *           with at least one sample each: the time T solves sum over workers of b_w(T) = batch,
 *           where b_w(T) is the number of samples that worker w computes in T; samples left by
 *           rounding go one by one to the worker that finishes it first. With accumulation the
 *           unit is one sample of each micro-batch
 *
 * Speeds are those of the undrawn costs: shares are decided before the run. A synchronous mode then
 * weights the gradients by their samples, at the same cost. Workers that share a GPU get equal
 * parts of its speed ([sharing] of the costs). */
#ifndef DL_SIM_SHARES_H
#define DL_SIM_SHARES_H

#include "sim/scenario/scenario.h"

/* The scenario's GPU options for the point, which may list GPUs for its workers. The result borrows
 * from both. */
dl_gpu_options dl_point_gpu_options(const dl_scenario *scenario, const dl_point *point);

/* Sets models[workers] to each worker's GPU model, its index in the machine; 0 on cores. */
void dl_point_models(const dl_scenario *scenario, const dl_point *point, int *models);

/* Sets samples[workers] to the samples of each worker's step; their sum is the point's batch. */
void dl_point_shares(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                     int64_t *samples);

/* Index of the GPU that computes `batch` samples fastest, among the GPUs that workers take in turn;
 * 0 if all are of one model. With `ranks` GPUs per worker, the first GPU of the worker whose
 * slowest GPU is fastest. */
int dl_fastest_gpu(const dl_scenario *scenario, const dl_costs *costs, double batch, int ranks);

/* Samples of a micro-batch per rank. */
double dl_point_micro_batch(const dl_point *point);

/* Number of GPUs of the fastest model that are equivalent to the point's GPUs, each computing its
 * share or, with several GPUs per worker, a micro-batch; the number of GPUs if all are of one
 * model. */
double dl_point_worth(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point);

#endif
