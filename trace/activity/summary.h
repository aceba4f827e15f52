/* Summary of a trace of activities: the use of each device's time, its kernels, copies and
 * collectives; the host's time in calls; the quality of the trace.
 *
 * Devices' times are defined below, classes in kernel_class.h, collectives in collectives.h, steps
 * in steps.h. If steps were found, a device's time line extends from the start of its first regular
 * step to the end of its last, which excludes start-up and warm-up; everything else covers the
 * whole trace. Sums of durations count each activity, so kernels on several streams may add up to
 * more than the span. */
#ifndef DL_TRACE_ACTIVITY_SUMMARY_H
#define DL_TRACE_ACTIVITY_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/options.h"
#include "common/status.h"
#include "trace/activity/activity.h"
#include "trace/activity/capture_cost.h"
#include "trace/activity/collectives.h"
#include "trace/activity/cpu_steps.h"
#include "trace/activity/groups.h"
#include "trace/activity/kernel_class.h"
#include "trace/activity/steps.h"
#include "trace/distribution.h"
#include "trace/dlt/dlt.h"
#include "trace/print.h"

/* Use of the devices' time, by interval algebra over their activities.
 *
 * Intervals are half-open (without their end); a set of intervals is sorted and disjoint. Device
 * work (dl_activity_is_device_work) belongs to one of three parts:
 *
 *   compute        kernels other than collectives; whole graphs (GRAPH)
 *   communication  kernels of collectives and transfers (kernel_class.h); copies between devices
 *   copy           all other MEMCPY, MEMSET
 *
 * Each part's time is the union over all streams of the device. Work during compute takes no
 * additional time, so communication is *exposed* while no compute runs, and a copy while neither
 * compute nor communication runs. Hence
 *
 *   span = busy + idle,   busy = compute + exposed communication + exposed copy.
 *
 * Idle time. A gap [a, b) is a maximal interval without work between the first start and the last
 * end of the device's work. It ends with the work that starts at b (of several the first recorded);
 * let s be the start of the call that launched it (by correlation). The device can have waited for
 * the host only until the launch arrived, DL_LAUNCH_LATENCY_NS after s at most, so of the gap
 *
 *   max(0, min(b, s + DL_LAUNCH_LATENCY_NS) - a)  is launch-bound;
 *
 * the rest has another cause: an event of another stream or device, a transfer. If s is unknown (no
 * CALL of that correlation), the gap counts as unknown. If work appears to start before its launch
 * (clocks of host and device differ by microseconds), its gap is launch-bound.
 *
 * Not covered: work of other processes on the device, and unrecorded work of this process. */

/* Maximum time in ns from the start of a launch call to the start of its work on an idle device. In
 * traces of PyTorch 1.9 to 2.3 on V100 and A100 the median is 7 to 12 us and the 90th percentile 8
 * to 21 us. */
#define DL_LAUNCH_LATENCY_NS 20000

typedef struct dl_interval {
    int64_t start_ns, end_ns; /* start <= end */
} dl_interval;

/* Converts intervals[count], in any order, to a set: sorts them, joins overlapping and adjacent
 * ones, drops empty ones. Returns the new count. O(n log n), O(n) if sorted. */
size_t dl_intervals_unite(dl_interval *intervals, size_t count);

/* Returns the total length of the set. */
int64_t dl_intervals_total(const dl_interval *set, size_t count);

/* Returns the time covered by both sets. O(a_count + b_count). */
int64_t dl_intervals_overlap(const dl_interval *a, size_t a_count, const dl_interval *b,
                             size_t b_count);

typedef struct dl_device_timeline {
    uint32_t device;
    int64_t start_ns, end_ns; /* first start and last end of its work */
    int64_t busy_ns, idle_ns;
    int64_t kernel_ns; /* time in which any kernel or graph runs, including collectives */
    int64_t compute_ns;
    int64_t communication_ns, exposed_communication_ns;
    int64_t copy_ns, exposed_copy_ns;
    int64_t launch_bound_ns, unknown_gap_ns; /* parts of idle_ns */
    size_t gap_count;
} dl_device_timeline;

/* Owns its array; release with dl_activity_timeline_free. */
typedef struct dl_activity_timeline {
    dl_device_timeline *devices; /* [device_count] devices with work, by number */
    size_t device_count;
} dl_activity_timeline;

/* Computes the time lines of the device work among activities[count] (count < 2^32, in any order);
 * `timeline` must be zeroed. `classes` is indexed by name id, as returned by dl_kernel_classes, for
 * all names. Work is clipped to `window` unless that is NULL. O(n log n). */
void dl_activity_timeline_init(dl_activity_timeline *timeline, const dl_activity *activities,
                               size_t count, const uint8_t *classes, const dl_launches *launches,
                               const dl_interval *window);
void dl_activity_timeline_free(dl_activity_timeline *timeline);

/* Returns the device with number `device`, or NULL if it has no work. */
const dl_device_timeline *dl_activity_timeline_device(const dl_activity_timeline *timeline,
                                                      uint32_t device);

/* Host activities of a trace: time in calls, waits, overhead of the profiler. */

/* All host activities of one kind and name. */
typedef struct dl_host_summary {
    const char *name; /* borrowed from the trace */
    uint64_t count;
    double total_ns, p50_ns, longest_ns;
} dl_host_summary;

typedef struct dl_host_list {
    dl_host_summary *items; /* [count] by descending total time */
    size_t count;
} dl_host_list;

/* Owns its arrays; release with dl_activity_host_free. */
typedef struct dl_activity_host {
    dl_host_list calls;     /* CALL, by function */
    dl_host_list syncs;     /* SYNC, by kind of wait */
    dl_host_list overheads; /* OVERHEAD: work of the profiler */
    double call_ns;         /* time of threads in calls; nested calls count once */
    double sync_call_ns;    /* part of call_ns in calls that wait, named ...Synchronize... */
} dl_activity_host;

/* Summarizes CALL, SYNC and OVERHEAD among activities[count], count < 2^32; `host` must be zeroed.
 * All name ids must be below string_count. O(n log n). */
void dl_activity_host_init(dl_activity_host *host, const dl_activity *activities, size_t count,
                           char *const *strings, size_t string_count);
void dl_activity_host_free(dl_activity_host *host);

/* All kernels of a device with equal short name (demangle.h), class and phase. */
typedef struct dl_kernel_summary {
    char *name; /* owned */
    dl_kernel_class class;
    dl_phase phase;
    uint64_t count;
    double total_ns;
    double share_frac; /* share of the device's kernel_total_ns */
} dl_kernel_summary;

typedef struct dl_class_summary {
    uint64_t count;
    double total_ns;
    double share_frac; /* share of the device's kernel_total_ns */
} dl_class_summary;

/* All copies of a device with equal direction and kind of host memory, or its memsets. */
typedef struct dl_transfer_summary {
    dl_activity_kind kind; /* MEMCPY or MEMSET */
    dl_copy_direction direction;
    dl_host_memory memory;
    uint64_t count;
    double bytes, total_ns;
    double bytes_per_s; /* sum of bytes over sum of durations; 0 if the durations are 0 */
} dl_transfer_summary;

/* Steps of a device, or of a process that used none. */
typedef struct dl_steps_summary {
    dl_step_method method;   /* DL_STEPS_NONE: no steps; the other members are unused */
    dl_distribution step_ns; /* durations of regular steps */
    size_t warmup_steps, other_steps;
    double order_match, similarity; /* confidence, 0..1: see steps.h; NaN without a device */
} dl_steps_summary;

typedef struct dl_device_summary {
    dl_device_timeline time;
    const char *name;           /* name of the device model; borrowed from the trace, "": unknown */
    bool in_steps;              /* `time` covers the regular steps only */
    double kernel_total_ns;     /* sum of the durations of all kernels and graphs */
    dl_kernel_summary *kernels; /* [kernel_count] by descending total time */
    size_t kernel_count;
    dl_class_summary classes[DL_KERNEL_CLASS_END];
    dl_class_summary graphs;        /* whole graphs */
    dl_transfer_summary *transfers; /* [transfer_count] */
    size_t transfer_count;
    const dl_collective_summary *collectives; /* [collective_count] slice of the summary's array */
    size_t collective_count;
    dl_steps_summary steps;
    dl_capture_estimate capture; /* recording cost; steps = 0 if unknown */
} dl_device_summary;

/* Losses counted by the recorder, stored under the meta keys of these names. */
typedef enum dl_loss {
    DL_LOSS_DROPPED_RECORDS, /* dropped by CUPTI because its buffers were full */
    DL_LOSS_LOST_TIMESTAMPS, /* activities delivered by CUPTI without times */
    DL_LOSS_LOST_ACTIVITIES, /* lost by the recorder */
    DL_LOSS_LOST_RECORDS,    /* not written to the file */
    DL_LOSS_INVALID_RECORDS, /* records with fields out of range */
    DL_LOSS_END
} dl_loss;

/* Returns "dropped_records", ...; never NULL. */
const char *dl_loss_name(dl_loss loss);

/* Losses and inconsistencies of a trace. */
typedef struct dl_trace_quality {
    uint64_t losses[DL_LOSS_END];
    const char *stopped;     /* reason why the recording ended before the program; "": it did not.
                              * Borrowed */
    const char *takeover;    /* tool that took over the recording; "": none. Borrowed */
    uint64_t early_count;    /* operations that start before their launch call */
    int64_t early_worst_ns;  /* largest such difference */
    uint64_t late_count;     /* copies whose recorded end was too late and was truncated */
    int64_t late_worst_ns;   /* largest truncation */
    uint64_t launched_count; /* operations with a known launch call, out of work_count */
    uint64_t work_count;
} dl_trace_quality;

/* Recording cost of a trace, from its meta data. */
typedef struct dl_capture_knowledge {
    const char *preset;         /* "": unknown, or not a recording of dlprof. Borrowed */
    const char *text;           /* value of the meta key; "": missing. Borrowed */
    bool known;                 /* the text has numbers */
    dl_capture_figures figures; /* zero unless `known` */
} dl_capture_knowledge;

/* Owns its arrays and texts; release with dl_activity_summary_free. Borrows the trace. */
typedef struct dl_activity_summary {
    const dl_trace *trace;
    const char *host, *pid, *command; /* borrowed; "": unknown */
    char *rank, *world_size;          /* owned; see dl_trace_find_rank; "": unknown */
    dl_device_summary *devices;       /* [device_count] by number */
    size_t device_count;
    dl_collectives collectives;
    dl_groups groups;            /* collectives by process group */
    dl_steps_summary host_steps; /* of a process that used no device */
    dl_activity_host host_time;
    dl_cpu_training cpu; /* training on cores, in host_steps; without steps if there is none */
    dl_trace_quality quality;
    dl_capture_knowledge capture;
    dl_notes warnings;
} dl_activity_summary;

/* Determines the rank and the number of ranks from the meta keys set from the launcher's variables,
 * else from the communicator with the most ranks; -1 and 0: unknown. A process with several ranks
 * of that communicator (one per device) has no rank. */
void dl_trace_find_rank(const dl_trace *trace, int64_t *rank, int64_t *ranks);

/* Summarizes the activities of `trace` (fewer than 2^32); `summary` must be zeroed. `steps` are
 * those of the same activities, or NULL. Never fails; missing data cause warnings. O(n log n). */
void dl_activity_summary_init(dl_activity_summary *summary, const dl_trace *trace,
                              const dl_activity_steps *steps);
void dl_activity_summary_free(dl_activity_summary *summary);

/* Prints the summary as text in at most 80 columns, with the `top` longest rows of each table.
 * Write errors: ferror(out). */
void dl_activity_summary_print(const dl_activity_summary *summary, size_t top, FILE *out);

/* Prints a table of several summaries with a line per rank and device; nothing if fewer than two
 * have devices. */
void dl_activity_summaries_compare(const dl_activity_summary *summaries, size_t count, FILE *out);

/* Writes the summary as one JSON object; member names include their units. Write errors:
 * ferror(out). */
void dl_activity_summary_write_json(const dl_activity_summary *summary, FILE *out);

/* Options shared by the programs that summarize traces of activities. */

typedef struct dl_info_settings {
    bool json;
    int64_t top;         /* rows per table */
    dl_step_hints hints; /* hints on steps */
} dl_info_settings;

/* Returns the defaults: text, 15 rows, no hints on steps. */
dl_info_settings dl_info_settings_default(void);

/* Writes the options --json, with the help text `json`, --top, and dl_step_options to
 * table[DL_INFO_OPTION_COUNT]. */
#define DL_INFO_OPTION_COUNT (2 + DL_STEP_OPTION_COUNT)

void dl_info_options(dl_info_settings *settings, const char *json, dl_option *table);

/* Finds the steps and summarizes the trace; `summary` must be zeroed. The summary borrows the
 * trace, but not its activities. Returns the errors of dl_activity_steps_init. */
dl_status dl_info_summarise(dl_activity_summary *summary, const dl_trace *trace,
                            const dl_info_settings *settings, dl_error *err) DL_MUST_CHECK;

/* Frees the trace's activities, so that those of many ranks need not be in memory
 * simultaneously. */
void dl_info_let_go(dl_trace *trace);

#endif
