/* What a trace of activities says in short: per device where its time goes, its kernels, copies and
 * collectives; on the host the time in calls; how far the trace can be trusted.
 *
 * Devices' times are defined in timeline.h, classes in kernel_class.h, collectives in
 * collectives.h, steps in steps.h. Where steps were found, a device's time line
 * is taken from the start of its first regular step to the end of its last, so that start-up and
 * warm-up do not count; everything else is over the whole trace. Sums of durations count each
 * activity, so kernels on several streams may add up to more than the span.
 */
#ifndef DL_TRACE_ACTIVITY_SUMMARY_H
#define DL_TRACE_ACTIVITY_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/options.h"
#include "common/status.h"
#include "trace/activity/capture_cost.h"
#include "trace/activity/collectives.h"
#include "trace/activity/kernel_class.h"
#include "trace/activity/steps.h"
#include "trace/activity/timeline.h"
#include "trace/distribution.h"
#include "trace/dlt/dlt.h"

/* All kernels of a device with one short name (demangle.h), class and phase. */
typedef struct dl_kernel_summary {
    char *name; /* owned */
    dl_kernel_class class;
    dl_phase phase;
    uint64_t count;
    double total_ns;
    double share_frac; /* of the device's kernel_total_ns */
} dl_kernel_summary;

typedef struct dl_class_summary {
    uint64_t count;
    double total_ns;
    double share_frac; /* of the device's kernel_total_ns */
} dl_class_summary;

/* All copies of a device in one direction with one kind of host memory, or its memsets. */
typedef struct dl_transfer_summary {
    dl_activity_kind kind; /* MEMCPY or MEMSET */
    dl_copy_direction direction;
    dl_host_memory memory;
    uint64_t count;
    double bytes, total_ns;
    double bytes_per_s; /* sum of bytes over sum of durations; 0 if no time passed */
} dl_transfer_summary;

typedef struct dl_device_summary {
    dl_device_timeline time;
    const char *name;           /* of the device's model; borrowed from the trace, "" = unknown */
    bool in_steps;              /* `time` is of the regular steps only */
    double kernel_total_ns;     /* sum of the durations of all kernels and graphs */
    dl_kernel_summary *kernels; /* [kernel_count] by total time, longest first */
    size_t kernel_count;
    dl_class_summary classes[DL_KERNEL_CLASS_END];
    dl_class_summary graphs;        /* whole graphs */
    dl_transfer_summary *transfers; /* [transfer_count] */
    size_t transfer_count;
    const dl_collective_summary *collectives; /* [collective_count], within the summary's */
    size_t collective_count;
    dl_step_method step_method; /* DL_STEPS_NONE: no steps, the rest is about none then */
    dl_distribution step_ns;    /* of regular steps */
    size_t warmup_steps, other_steps;
    double step_order_match, step_similarity; /* confidence, 0..1: see steps.h */
    dl_capture_estimate capture;              /* cost of recording; without steps if unknown */
} dl_device_summary;

/* What the recorder lost, by its own count under the meta keys of these names. */
typedef enum dl_loss {
    DL_LOSS_DROPPED_RECORDS, /* by CUPTI: its buffers were full */
    DL_LOSS_LOST_TIMESTAMPS, /* activities that CUPTI delivered without times */
    DL_LOSS_LOST_ACTIVITIES, /* by the recorder */
    DL_LOSS_LOST_RECORDS,    /* not written to the file */
    DL_LOSS_INVALID_RECORDS, /* fields out of range */
    DL_LOSS_END
} dl_loss;

/* "dropped_records", ...; never NULL. */
const char *dl_loss_name(dl_loss loss);

/* What was lost or looks wrong. */
typedef struct dl_trace_quality {
    uint64_t losses[DL_LOSS_END];
    const char *stopped;     /* why the recording ended before the program; "" = it did not.
                                Borrowed */
    const char *takeover;    /* who took the recording over; "" = nobody. Borrowed */
    uint64_t early_count;    /* operations that start before their launch call does */
    int64_t early_worst_ns;  /* by how much at most */
    uint64_t launched_count; /* operations whose launch call is known, of work_count */
    uint64_t work_count;
} dl_trace_quality;

/* What the trace says about the cost of recording it. */
typedef struct dl_capture_knowledge {
    const char *preset;         /* "" = unknown, or none of our recordings. Borrowed */
    const char *text;           /* of the meta key; "" = not said. Borrowed */
    bool known;                 /* the text has numbers */
    dl_capture_figures figures; /* zero unless known */
} dl_capture_knowledge;

/* Owns its arrays and texts; release with dl_activity_summary_free. Borrows the trace. */
typedef struct dl_activity_summary {
    const dl_trace *trace;
    const char *host, *pid, *command; /* borrowed; "" = unknown */
    char *rank, *world_size; /* owned; of the trace's meta, else of its largest communicator; "" =
                                unknown */
    dl_device_summary *devices; /* [device_count] by number */
    size_t device_count;
    dl_collectives collectives;
    dl_activity_host host_time;
    dl_trace_quality quality;
    dl_capture_knowledge capture;
    char **warnings; /* [warning_count] sentences */
    size_t warning_count;
} dl_activity_summary;

/* Summarises the activities of `trace` (fewer than 2^32); zero `summary` before. `steps` (may be
 * NULL: not looked for) are those of the same activities. Never fails: what is missing becomes a
 * warning. O(n log n). */
void dl_activity_summary_init(dl_activity_summary *summary, const dl_trace *trace,
                              const dl_activity_steps *steps);
void dl_activity_summary_free(dl_activity_summary *summary);

/* Prints it for people, at most 80 columns: the longest `top` kernels, calls and so on of each
 * table. Write errors: ferror(out). */
void dl_activity_summary_print(const dl_activity_summary *summary, size_t top, FILE *out);

/* Prints several beside one another, a line per rank and device. */
void dl_activity_summaries_compare(const dl_activity_summary *summaries, size_t count, FILE *out);

/* Writes all of it as one JSON object; units are in the names of the members. Write errors:
 * ferror(out). */
void dl_activity_summary_write_json(const dl_activity_summary *summary, FILE *out);

/* What the programs that summarise traces of activities share: options, and the way to a summary.
 */

typedef struct dl_info_settings {
    bool json;
    int64_t top;       /* rows of a table */
    const char *marks; /* of steps; NULL = find out */
    int64_t period;    /* of steps; 0 = find out */
} dl_info_settings;

/* Text, 15 rows, nothing known of the steps. */
dl_info_settings dl_info_settings_default(void);

/* --json, --top, --step-marks, --step-period into table[DL_INFO_OPTION_COUNT]. `json` is the help
 * of the first. */
#define DL_INFO_OPTION_COUNT 4

void dl_info_options(dl_info_settings *settings, const char *json, dl_option *table);

/* Finds the steps and summarises the trace; zero `summary` before. The summary borrows the trace,
 * but not its activities. Errors as dl_activity_steps_init. */
dl_status dl_info_summarise(dl_activity_summary *summary, const dl_trace *trace,
                            const dl_info_settings *settings, dl_error *err) DL_MUST_CHECK;

/* Lets go of the activities: those of many ranks need not lie in memory at once. */
void dl_info_let_go(dl_trace *trace);

/* Prints those with devices beside one another, after an empty line, if there are several. Zeroed
 * summaries count as without. */
void dl_info_compare(const dl_activity_summary *summaries, size_t count, FILE *out);

#endif
