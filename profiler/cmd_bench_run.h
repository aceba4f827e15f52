/* Inside of `dlprof bench` (cmd_bench*.c; nobody else includes this): the command line and what both
 * forms of the command need. */
#ifndef DL_PROFILER_CMD_BENCH_RUN_H
#define DL_PROFILER_CMD_BENCH_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/bench/batch_list.h"
#include "profiler/run/run_meta.h"
#include "profiler/workload_options.h"

/* The command line. */
typedef struct dl_bench_options {
    dl_workload_options workload;
    const char *batch, *output, *device, *cupti;
    int64_t workers_max;
    double seconds;
    bool quick, snapshot;
} dl_bench_options;

/* What both forms of the command need. */
typedef struct dl_bench_setup {
    dl_train_config train;
    int batches[DL_BATCH_LIST_MAX];
    int batch_count;
    double seconds;
    dl_run_sizes sizes;
    dl_data_set data;
    char *data_note;
} dl_bench_setup;

/* cmd_bench_overhead.c: measures what recording costs, prints it, and writes it where --output says.
 * Takes the first batch. */
dl_status dl_bench_command_overhead(const dl_bench_options *options, dl_bench_setup *setup,
                                    const char *command_text, dl_error *err) DL_MUST_CHECK;

#endif
