/* Cost that recording adds to a program: the figures of `dlprof bench overhead`, which traces of
 * recorded programs hold under the meta key "capture_cost", and the estimate for the steps of such
 * a trace.
 *
 * The value is one line, "kernel 812.5 790.1 850.2; copy ...; event ...; sync ...; record ...;
 * repetitions 12; host node1; device NVIDIA H200", each figure followed by the ends of its
 * interval, in ns; or "unknown", followed by the reason in parentheses. */
#ifndef DL_TRACE_ACTIVITY_CAPTURE_COST_H
#define DL_TRACE_ACTIVITY_CAPTURE_COST_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "trace/activity/activity.h"
#include "trace/activity/steps.h"
#include "trace/dlt/dlt.h"

/* Meta key of a recorded program's trace. A trace of kind overhead has one key per preset:
 * "capture_cost.light", ... */
#define DL_CAPTURE_COST_KEY "capture_cost"
#define DL_CAPTURE_COST_UNKNOWN "unknown"

typedef enum dl_capture_item {
    DL_CAPTURE_PER_KERNEL, /* launching a kernel, on the launching thread */
    DL_CAPTURE_PER_COPY,   /* launching a copy or memset, on the launching thread */
    DL_CAPTURE_PER_EVENT,  /* recording an event, on the recording thread */
    DL_CAPTURE_PER_SYNC,   /* a driver call that waits for the device and finds it idle */
    DL_CAPTURE_PER_RECORD, /* flush, decoding, writing: processor time of the recorder's threads,
                            * per record */
    DL_CAPTURE_ITEM_COUNT
} dl_capture_item;

extern const char *const dl_capture_item_names[DL_CAPTURE_ITEM_COUNT]; /* "kernel", "copy", ... */

/* Median and its distribution-free 95 % interval. If the interval contains 0, or the median is
 * negative, the cost is not distinguishable from zero. */
typedef struct dl_capture_figure {
    double ns, low_ns, high_ns;
} dl_capture_figure;

#define DL_CAPTURE_NAME_BYTES 256

typedef struct dl_capture_figures {
    dl_capture_figure items[DL_CAPTURE_ITEM_COUNT];
    int64_t repetitions; /* measurements per figure */
    /* Host and device of the measurement. */
    char host[DL_CAPTURE_NAME_BYTES], device[DL_CAPTURE_NAME_BYTES];
} dl_capture_figures;

/* Returns the value of the meta key; the caller frees it. */
char *dl_capture_figures_text(const dl_capture_figures *figures);

/* Parses the value of the meta key. Returns DL_ERR_DATA for "unknown" (the error's text gives the
 * reason), DL_ERR_PARSE for any other invalid text; both leave *figures unchanged. */
dl_status dl_capture_figures_parse(const char *text, dl_capture_figures *figures,
                                   dl_error *err) DL_MUST_CHECK;

/* Time that recording added to the threads that feed one device, over its regular steps. Host-bound
 * steps grow by this time, others by less. */
typedef struct dl_capture_estimate {
    size_t steps;                           /* number of regular steps; 0: no estimate, all other
                                             * members are 0 */
    double per_step[DL_CAPTURE_PER_RECORD]; /* mean number of launches, copies, events and waits per
                                             * step */
    double step_ns, step_low_ns,
        step_high_ns;  /* mean cost per step, and its bounds from the ends of the figures'
                        * intervals */
    double share_frac; /* fraction of the steps' time */
} dl_capture_estimate;

/* Returns the estimate for the device of `line`, whose steps are in `trace`. The nodes of a CUDA
 * graph are launched together, so a graph counts as one kernel. */
dl_capture_estimate dl_capture_estimate_of(const dl_capture_figures *figures, const dl_trace *trace,
                                           const dl_step_line *line);

#endif
