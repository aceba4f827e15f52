/* What one training run came to, as a row of the table that dlsim compares with. */
#ifndef DL_PROFILER_MEASURED_ROW_H
#define DL_PROFILER_MEASURED_ROW_H

#include "common/cpu.h"
#include "common/status.h"
#include "kernels/train/train.h"
#include "profiler/recorder.h"

/* Before a run: whether a row can be appended to `path`, or the file be made. Changes nothing.
 * DL_ERR_FORMAT if it has other columns. */
dl_status dl_measured_row_check(const char *path, dl_error *err) DL_MUST_CHECK;

/* Appends a row to `path`, with the column names before it if the file is new or empty:
 *
 *   cores, workers, batch, sync, interval    interval is empty but for average
 *   step_s, throughput_per_s                 without the warm-up, as recorder.h says
 *   staleness_mean, _sd, _p50, _p90          empty in synchronous modes
 *   staleness_mean_by_worker                 numbers separated by semicolons
 *   steps, seed                              steps of the worker that did the most: fewer than
 *                                            asked for if the run was stopped
 *   others_frac, steal_frac                  of the machine's processor time during the run, what
 *                                            other programs used and what the host took
 *   source                                   "dlprof train"
 *
 * DL_ERR_FORMAT if the file has other columns; DL_ERR_IO. */
dl_status dl_measured_row_append(const char *path, const dl_train_config *config,
                                 const dl_recorder *recorder, const dl_cpu_disturbance *disturbed,
                                 dl_error *err) DL_MUST_CHECK;

#endif
