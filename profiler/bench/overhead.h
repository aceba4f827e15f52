/* What recording a run costs: pairs of equal training runs, one with a trace and one without, in
 * random order within the pair, so that a drift of the machine cancels out. */
#ifndef DL_PROFILER_OVERHEAD_H
#define DL_PROFILER_OVERHEAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"
#include "kernels/train/train.h"
#include "profiler/bench/capture_cost.h"
#include "profiler/progress.h"
#include "trace/dlt/dlt.h"

typedef struct dl_overhead_config {
    const dl_train_config *train; /* its steps are chosen here */
    const dl_data_set *data;
    const char *path; /* the traces go here, one over the other */
    double seconds;   /* for everything; at least DL_OVERHEAD_PAIRS_MIN pairs are run */
    dl_progress *progress;
} dl_overhead_config;

#define DL_OVERHEAD_PAIRS_MIN 6 /* the fewest of which the interval has its confidence */

typedef struct dl_overhead {
    int pairs;
    int64_t steps; /* of each run */
    double records_per_step;
    double step_ns;          /* median over the runs without a trace */
    dl_capture_figure extra; /* over the pairs: with less without, per step */
} dl_overhead;

dl_status dl_overhead_measure(const dl_overhead_config *config, dl_overhead *overhead,
                              dl_error *err) DL_MUST_CHECK;

/* What recording costs here, as `dlprof bench overhead -o` has left it. */

/* Where the file is looked for if none is given: $XDG_DATA_HOME/dlprof/overhead.dlt, else
 * $HOME/.local/share/dlprof/overhead.dlt; NULL if neither variable is set. free() it. */
char *dl_overhead_file_default(void);

/* *text becomes the value of a recorded trace's meta key "capture_cost" under `preset`
 * (dl_capture_preset): the figures of the file, or "unknown (why)". free() it.
 *
 * A `given` file that is no trace of kind overhead with such a key is an error: DL_ERR_DATA, or
 * that of dl_trace_read. The file of the default place is taken only if it was measured on this
 * host; whatever is wrong with it makes the cost unknown. */
dl_status dl_overhead_file_cost(const char *given, int preset, char **text,
                                dl_error *err) DL_MUST_CHECK;

/* What `dlprof bench overhead` says: its table, and the trace of kind overhead with its figures. */

/* What was measured. Where a pointer is NULL, the reason beside it says why not. */
typedef struct dl_overhead_report {
    const char *model;
    int batch;
    const dl_overhead *training;
    const dl_capture_figure *nvtx; /* [DL_CAPTURE_COST_COUNT] */
    const char *nvtx_reason;
    const dl_launch_cost *cuda;
    const char *cuda_reason;
} dl_overhead_report;

/* For people, at most 80 columns. Write errors: ferror(out). */
void dl_overhead_report_print(const dl_overhead_report *report, FILE *out);

/* The figures as meta keys: of training, which dlcal reads, "record_ns", "record_low_ns",
 * "record_high_ns", "pairs"; "capture_cost.<preset>" of each preset and of "nvtx" (the library
 * loaded, CUPTI unused), which dlprof run hands on (trace/activity/capture_cost.h). */
void dl_overhead_report_write(const dl_overhead_report *report, dl_trace_writer *writer);

#endif
