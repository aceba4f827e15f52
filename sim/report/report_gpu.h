/* The columns of the results that only runs on GPUs have. */
#ifndef DL_SIM_REPORT_GPU_H
#define DL_SIM_REPORT_GPU_H

#include "common/csv.h"
#include "sim/sweep.h"

/* A comment with the machine and the settings; then the columns link, link_frac: the busiest link
 * and its utilisation; memory_bytes, memory_frac: what the fullest GPU needs, absolute and of what
 * it has; usd_per_hour: price of the nodes in use; epoch_s, usd_per_epoch: with [workload]
 * samples_per_epoch; error: why the point was not run. */
void dl_report_gpu_head(dl_csv_writer *writer, const dl_gpu_options *options);
void dl_report_gpu_names(dl_csv_writer *writer);
void dl_report_gpu_row(dl_csv_writer *writer, const dl_scenario *scenario, const dl_row *row);

#endif
