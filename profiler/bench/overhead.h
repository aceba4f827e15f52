/* Cost of recording a run: pairs of equal training runs, one with a trace and one without, in
 * random order within the pair, so that a drift of the machine cancels out. */
#ifndef DL_PROFILER_OVERHEAD_H
#define DL_PROFILER_OVERHEAD_H

#include <stdint.h>
#include <stdio.h>

#include "common/status.h"
#include "kernels/train/train.h"
#include "profiler/bench/capture_cost.h"
#include "profiler/progress.h"
#include "trace/dlt/dlt.h"

typedef struct dl_overhead_config {
    const dl_train_config *train; /* its number of steps is replaced */
    const dl_data_set *data;
    const char *path; /* path of the traces; each overwrites the previous one */
    double seconds;   /* time budget; at least DL_OVERHEAD_PAIRS_MIN pairs are run */
    dl_progress *progress;
} dl_overhead_config;

#define DL_OVERHEAD_PAIRS_MIN 6 /* fewest pairs for an interval of DL_OVERHEAD_CONFIDENCE */

typedef struct dl_overhead {
    int pairs;
    int64_t steps; /* steps of each run */
    double records_per_step;
    double step_ns;          /* median over the runs without a trace */
    dl_capture_figure extra; /* ns added per step: with trace less without, over the pairs */
} dl_overhead;

dl_status dl_overhead_measure(const dl_overhead_config *config, dl_overhead *overhead,
                              dl_error *err) DL_MUST_CHECK;

/* Costs of recording on this machine, as `dlprof bench overhead -o` saved them. */

/* Default path of the file: $XDG_DATA_HOME/dlprof/overhead.dlt, else
 * $HOME/.local/share/dlprof/overhead.dlt; NULL if neither variable is set. free() it. */
char *dl_overhead_file_default(void);

/* Sets *text to the value of a recorded trace's meta key "capture_cost" under `preset`
 * (dl_capture_preset): the file's figures, or "unknown (why)". free() it.
 *
 * DL_ERR_DATA, or the error of dl_trace_read, if the `given` file is no trace of kind overhead with
 * such a key. The default file is used only if it was measured on this host; any problem with it
 * makes the cost unknown. */
dl_status dl_overhead_file_cost(const char *given, int preset, char **text,
                                dl_error *err) DL_MUST_CHECK;

/* Output of `dlprof bench overhead`: a table, and a trace of kind overhead with the figures. */

/* The measurements. Where a pointer is NULL, the text after it gives the reason. */
typedef struct dl_overhead_report {
    const char *model;
    int batch;
    const dl_overhead *training;
    const dl_launch_cost *cuda;
    const char *cuda_reason;
} dl_overhead_report;

/* Prints for people, at most 80 columns. Write errors: ferror(out). */
void dl_overhead_report_print(const dl_overhead_report *report, FILE *out);

/* Writes the figures as meta keys. For dlcal: "record_ns", "record_low_ns", "record_high_ns" and
 * "pairs" of training. For dlprof run: "capture_cost.<preset>" of each preset and of "nvtx" (the
 * library loaded, CUPTI unused; trace/activity/capture_cost.h). */
void dl_overhead_report_write(const dl_overhead_report *report, dl_trace_writer *writer);

#endif
