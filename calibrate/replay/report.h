/* Report of a replay: recorded and replayed steps, the critical path, and unexplained gaps. */
#ifndef DL_CALIBRATE_REPLAY_REPORT_H
#define DL_CALIBRATE_REPLAY_REPORT_H

#include <stdio.h>

#include "calibrate/replay/build.h"
#include "calibrate/replay/graph.h"
#include "trace/activity/steps.h"

/* Durations of a run's steps, recorded and replayed. Steps are delimited on the device: a step
 * starts with the earliest of its operations, but not before the previous step, and lasts until the
 * next one starts; the last step lasts until its last operation ends. A device without steps counts
 * as one step. */

typedef struct dl_replay_step {
    uint16_t rank;
    uint32_t device;
    size_t number;       /* number of the step on its device */
    dl_step_label label; /* OTHER, with `whole`, if no steps were found */
    bool whole;          /* the step consists of all of the device's work */
    int64_t recorded_ns; /* durations */
    int64_t replayed_ns;
    int64_t start_ns, end_ns; /* replayed times relative to the graph's origin */
    uint32_t ends_with;       /* node whose start is end_ns; for the last step, node whose end is
                               * end_ns */
    bool at_end;              /* end_ns is the end of ends_with */
} dl_replay_step;

/* Owns its array; free() it. */
typedef struct dl_replay_steps {
    dl_replay_step *items; /* [count] by rank, device and number */
    size_t count;
} dl_replay_steps;

/* Returns the mean replayed duration, in ns, of the regular steps of a line of the first rank; 0 if
 * there are none. Sets *recorded_ns (may be NULL) to the mean recorded duration of these steps. */
double dl_replay_mean_step_ns(const dl_replay_run *run, const dl_step_line *line,
                              const dl_replay_time *times, double *recorded_ns);

/* The critical path: from the end of a step back to its start, along the last event that each node
 * waited for. Only faster nodes on this path shorten the step; all others have slack. */

/* Categories of time on the critical path. */
enum {
    DL_PATH_HOST,     /* threads between calls, and waking up after another thread */
    DL_PATH_CALL,     /* threads in calls, excluding waits */
    DL_PATH_EXTERNAL, /* waits for something outside the trace (external.h) */
    DL_PATH_LAUNCH,   /* from a call to the start of its work */
    DL_PATH_SPACING,
    DL_PATH_COPY,
    DL_PATH_MEMSET,
    DL_PATH_GRAPH,  /* whole graphs without recorded kernels */
    DL_PATH_BEGIN,  /* time before the first node of a lane, unknown to the trace */
    DL_PATH_KERNEL, /* first of the kernel classes: + dl_kernel_class */
    DL_PATH_END = DL_PATH_KERNEL + DL_KERNEL_CLASS_END
};

/* Returns the category of a node's time, an index into path_ns. */
uint32_t dl_path_what(const dl_replay_node *node);

/* "host", "call", ..., "gemm", "collective"; never NULL. */
const char *dl_path_name(uint32_t what);

/* Owns its members except the run; release with dl_replay_report_free. */
typedef struct dl_replay_report {
    const dl_replay_run *run; /* borrowed */
    dl_replay_steps steps;
    size_t regular;                 /* number of steps included below: regular ones, or `whole`
                                     * ones */
    double mean_error, worst_error; /* mean and maximum of the steps' |relative errors| */
    double total_error;             /* relative error of the sum of their times, signed */
    double path_ns[DL_PATH_END];    /* mean critical path of an included step, ns */
    size_t edges[DL_REPLAY_EDGE_KIND_END][DL_REPLAY_ORIGIN_END];
    dl_replay_steps changed; /* the same steps after a change; count 0: no change was requested */
} dl_replay_report;

/* Summarizes a replay of `run` at `times`; steps[run->rank_count] are the steps of its ranks.
 * `report` must be zeroed. */
void dl_replay_report_init(dl_replay_report *report, const dl_replay_run *run,
                           const dl_activity_steps *steps, const dl_replay_time *times);

/* Adds a replay of the same run after a change. */
void dl_replay_report_change(dl_replay_report *report, const dl_activity_steps *steps,
                             const dl_replay_time *times);
void dl_replay_report_free(dl_replay_report *report);

/* Returns whether the step is included in the means: regular, or the only one of a device without
 * steps. */
bool dl_replay_step_counts(const dl_replay_step *step);

/* Prints the text report with at most `rows` steps. Write errors: ferror(out). */
void dl_replay_report_print(const dl_replay_report *report, size_t rows, FILE *out);

/* Print a line of the most important numbers, and the heading of such lines. */
void dl_replay_report_print_line(const dl_replay_report *report, FILE *out);
void dl_replay_report_print_heading(FILE *out);

/* Writes the whole report as one JSON object; member names include their units. */
void dl_replay_report_write_json(const dl_replay_report *report, FILE *out);

/* Writes a timeline of all nodes that take time, with replayed times and recorded starts, to `path`
 * (overwritten). Returns DL_ERR_IO. */
dl_status dl_replay_timeline_write(const char *path, const dl_replay_run *run,
                                   const dl_replay_time *times, dl_error *err) DL_MUST_CHECK;

/* Scaling of the durations of selected work in a replay graph. */

/* Multiplies the time of the work selected by `what` by factor >= 0:
 *
 *   host, call, external, kernel, collective, copy, ...     all nodes of that kind; kernel excludes
 *                                                          collectives
 *   convolution, gemm, ...                                 kernels of that class
 *   launch, spacing                                        launch latency; gap between operations
 *   any other text                                         operations and calls whose name contains
 *                                                          it
 *
 * Factor 0 also removes the operations' spacing, but not their launches. For a collective of
 * several ranks only the transfer is scaled, not the wait. Sets *changed (may be NULL) to the
 * number of changed nodes and edges, which may be 0 for a kind or class. Returns DL_ERR_USAGE, with
 * the nearest of the names above, if `what` is another text and no name contains it. */
dl_status dl_replay_scale(dl_replay_run *run, const char *what, double factor, size_t *changed,
                          dl_error *err) DL_MUST_CHECK;

/* Parses the option value "CLASS=FACTOR"; *what becomes a copy of the part before '=', which the
 * caller frees. Returns DL_ERR_USAGE if the text does not have this form, or the factor is not in
 * [0, 1000]. */
dl_status dl_replay_parse_scale(const char *text, char **what, double *factor,
                                dl_error *err) DL_MUST_CHECK;

#endif
