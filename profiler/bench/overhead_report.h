/* What `dlprof bench overhead` says: its table, and the trace of kind overhead with its figures. */
#ifndef DL_PROFILER_OVERHEAD_REPORT_H
#define DL_PROFILER_OVERHEAD_REPORT_H

#include <stdio.h>

#include "profiler/bench/capture_cost.h"
#include "profiler/bench/launch_cost.h"
#include "profiler/bench/overhead.h"
#include "trace/dlt/dlt.h"

/* What was measured. Where a pointer is NULL, the reason beside it says why not. */
typedef struct dl_overhead_report {
    const char *model;
    int batch;
    const dl_overhead *training;
    const dl_capture_cost *nvtx; /* [DL_CAPTURE_COST_COUNT] */
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
