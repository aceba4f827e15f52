/* The columns of the results that only scenarios with a [pipeline] have. */
#ifndef DL_SIM_REPORT_PIPELINE_H
#define DL_SIM_REPORT_PIPELINE_H

#include "common/csv.h"
#include "sim/sweep.h"

/* gpus_used: workers x stages; stages, micro_batches, schedule; bubble_frac: of all GPUs' time, part of
 * waiting_frac; crossing_bytes, exchange_bytes: between stages and between replicas in a step,
 * over all workers; by stage, separated by ';': the first layer, the part of its time that it is
 * busy, what it needs of a GPU's memory. */
void dl_report_pipeline_names(dl_csv_writer *writer);
void dl_report_pipeline_row(dl_csv_writer *writer, const dl_scenario *scenario,
                            const dl_costs *costs, const dl_row *row);

/* A line for each stage of each point that is split, if there are few; nothing if there is none. */
void dl_report_pipeline_table(FILE *out, const dl_study *study, const dl_sweep *sweep);

#endif
