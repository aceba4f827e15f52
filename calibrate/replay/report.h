/* Report of a replay: steps as recorded and replayed, the critical path, and unexplained gaps. */
#ifndef DL_CALIBRATE_REPLAY_REPORT_H
#define DL_CALIBRATE_REPLAY_REPORT_H

#include <stdio.h>

#include "calibrate/replay/build.h"
#include "calibrate/replay/graph.h"
#include "trace/activity/steps.h"

/* Durations of a run's steps, recorded and simulated. Steps are delimited on the device: a step
 * starts with the earliest of its operations, but not before the step before, and lasts until the
 * next one starts; the last one lasts until its last operation ends. A device on which no steps
 * were found counts as one step. */

typedef struct dl_replay_step {
    uint16_t rank;
    uint32_t device;
    size_t number;       /* on its device */
    dl_step_label label; /* OTHER, with `whole`, if none were found */
    bool whole;          /* all of the device's work */
    int64_t recorded_ns; /* durations */
    int64_t replayed_ns;
    int64_t start_ns, end_ns; /* replayed, since the graph's origin */
    uint32_t ends_with;       /* node whose start is end_ns; of the last step, whose end is */
    bool at_end;              /* end_ns is the end of ends_with */
} dl_replay_step;

/* Owns its array; free() it. */
typedef struct dl_replay_steps {
    dl_replay_step *items; /* [count] by rank, device and number */
    size_t count;
} dl_replay_steps;

/* Mean replayed duration of the regular steps of a line of the first rank; 0 if there are none.
 * *recorded_ns (may be NULL) becomes the recorded mean of the same steps. */
double dl_replay_mean_step_ns(const dl_replay_run *run, const dl_step_line *line,
                              const dl_replay_time *times, double *recorded_ns);

/* The critical path: from the end of a step back to its start, along the last event that each node
 * waited for. Only faster nodes on this path shorten the step; all others have slack. */

/* Kinds of time on the path. */
enum {
    DL_PATH_HOST,     /* threads between calls, and waking up after another thread */
    DL_PATH_CALL,     /* threads in calls, without waits */
    DL_PATH_EXTERNAL, /* waits for what is not in the trace (external.h) */
    DL_PATH_LAUNCH,   /* from a call to the start of its work */
    DL_PATH_SPACING,
    DL_PATH_COPY,
    DL_PATH_MEMSET,
    DL_PATH_GRAPH,  /* whole graphs, whose kernels are not recorded */
    DL_PATH_BEGIN,  /* before the first node of a lane, of which the trace knows nothing */
    DL_PATH_KERNEL, /* + dl_kernel_class */
    DL_PATH_END = DL_PATH_KERNEL + DL_KERNEL_CLASS_END
};

/* Kind of a node's time, an index of path_ns. */
uint32_t dl_path_what(const dl_replay_node *node);

/* "host", "call", ..., "gemm", "collective"; never NULL. */
const char *dl_path_name(uint32_t what);

/* Owns all but the run; release with dl_replay_report_free. */
typedef struct dl_replay_report {
    const dl_replay_run *run; /* borrowed */
    dl_replay_steps steps;
    size_t regular;                 /* steps that count below: regular ones, or `whole` ones */
    double mean_error, worst_error; /* of their |errors|, as fractions */
    double total_error;             /* of the sum of their times, signed */
    double path_ns[DL_PATH_END];    /* mean critical path of a step that counts */
    size_t edges[DL_REPLAY_EDGE_KIND_END][DL_REPLAY_ORIGIN_END];
    dl_replay_steps changed; /* the same steps after a change; count 0 = none was asked for */
} dl_replay_report;

/* Sums up a replay of `run` at `times`; steps[run->rank_count] are those of its ranks. `report`
 * must be zeroed. */
void dl_replay_report_init(dl_replay_report *report, const dl_replay_run *run,
                           const dl_activity_steps *steps, const dl_replay_time *times);

/* Adds a replay of the same run after a change. */
void dl_replay_report_change(dl_replay_report *report, const dl_activity_steps *steps,
                             const dl_replay_time *times);
void dl_replay_report_free(dl_replay_report *report);

/* Whether the step counts in the means: regular, or the only one of a device without steps. */
bool dl_replay_step_counts(const dl_replay_step *step);

/* Prints the report for people, with at most `rows` steps. Write errors: ferror(out). */
void dl_replay_report_print(const dl_replay_report *report, size_t rows, FILE *out);

/* Prints a line of the most important numbers, or the heading of such lines. */
void dl_replay_report_print_line(const dl_replay_report *report, FILE *out);
void dl_replay_report_print_heading(FILE *out);

/* Writes the whole report as one JSON object; members' names have their units. */
void dl_replay_report_write_json(const dl_replay_report *report, FILE *out);

/* Writes all nodes that take time to `path` (overwritten), at their replayed times, with their
 * recorded starts beside them. DL_ERR_IO. */
dl_status dl_replay_timeline_write(const char *path, const dl_replay_run *run,
                                   const dl_replay_time *times, dl_error *err) DL_MUST_CHECK;

/* Changes of the duration of some kind of work in a replay graph. */

/* Multiplies the time of the work that `what` names by factor >= 0:
 *
 *   host, call, external, kernel, collective, copy, ...      all nodes of that kind; kernel without
 *                                                           collectives
 *   convolution, gemm, ...                                  kernels of that class
 *   launch, spacing                                         launch latency; time between operations
 *   any other text                                          kernels and calls whose name holds it
 *
 * Factor 0 also removes the operations' spacing, but not their launches. For a collective of
 * several ranks only the transfer is scaled, not the wait. *changed (may be NULL) becomes the
 * number of changed nodes and edges, which may be 0 for a kind or class. If `what` is another text
 * that no name holds: DL_ERR_USAGE, with the nearest of the names above. */
dl_status dl_replay_scale(dl_replay_run *run, const char *what, double factor, size_t *changed,
                          dl_error *err) DL_MUST_CHECK;

/* Parses "CLASS=FACTOR" of an option; the text's part before '=' is copied to *what, to be freed.
 * DL_ERR_USAGE if the text has another form. */
dl_status dl_replay_parse_scale(const char *text, char **what, double *factor,
                                dl_error *err) DL_MUST_CHECK;

#endif
