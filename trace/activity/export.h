/* Export of traces of activities as Chrome-trace JSON, for Perfetto and chrome://tracing.
 *
 * Each trace is a process: pid = its rank (meta key "rank") if all traces have distinct ranks, else
 * its index. Tracks are those of dl_activity_tracks:
 *
 *   track               tid
 *   "GPU 0 stream 7"    (device + 1) << 24 | stream
 *   "thread 1234"       1234; preceded by its name if meta key "thread.1234" gives one
 *   a step line         from 2^30; also any of the above whose number does not fit, and additional
 *                       lanes: "thread 1234 (2)"
 *
 *   activity    category              name                              args
 *   KERNEL      kernel                dl_demangle_short                 device, stream,
 *                                                                       correlation, graph id,
 *                                                                       graph node id, grid, block,
 *                                                                       shared memory, registers
 *                                                                       per thread (launch shape,
 *                                                                       if its form is unknown);
 *                                                                       symbol
 *   MEMCPY      gpu_memcpy            "Memcpy HtoD (Pinned -> Device)"  device ... graph node id,
 *                                                                       bytes, memory bandwidth
 *                                                                       (GB/s), peer device
 *   MEMSET      gpu_memset            "Memset (Device)"                 device ... graph node id,
 *                                                                       bytes
 *   GRAPH       gpu_graph             "graph 3"                         device ... graph id
 *   CALL        cuda_runtime, cuda_driver ("cu" and a capital)          correlation
 *   SYNC        cuda_sync             "Stream Sync", ...                stream, correlation,
 *                                                                       wait_on_cuda_event_id
 *   RANGE       user_annotation       its text                          domain
 *   MARK        user_annotation       its text, an instant              domain
 *   COLLECTIVE  collective_comm       "AllReduce", ...                  bytes, communicator, peer
 *   OVERHEAD    overhead              its kind
 *
 * Names of categories and args are Kineto's (PyTorch) if it has them; args that do not apply are
 * omitted. An arrow leads from each CALL to all work with its correlation. Times count from the
 * earliest start in all traces, to the ns. EVENT, COMM and CLOCK are not drawn. */
#ifndef DL_TRACE_ACTIVITY_EXPORT_H
#define DL_TRACE_ACTIVITY_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/chrome_trace.h"
#include "trace/activity/activity.h"
#include "trace/dlt/dlt.h"

/* A training step, or another interval to show above the tracks. */
typedef struct dl_export_step {
    int64_t start_ns, duration_ns; /* same value ranges as in dl_activity */
    const char *label;
} dl_export_step;

/* Steps to show on one track. */
typedef struct dl_export_line {
    const char *name; /* e.g. "GPU 0 steps" */
    const dl_export_step *steps;
    size_t count;
} dl_export_line;

/* All members are borrowed. */
typedef struct dl_export_process {
    const dl_trace *trace;
    const dl_export_line *lines; /* [line_count]; NULL if there are none */
    size_t line_count;
} dl_export_process;

/* Creates (overwrites) `path` and writes the activities of processes[count] and their steps,
 * without records. Returns DL_ERR_DATA if the traces' clocks differ (meta key "clock"), and
 * DL_ERR_IO from dl_chrome_trace_open and _close. */
dl_status dl_activity_export(const dl_export_process *processes, size_t count, const char *path,
                             dl_error *err) DL_MUST_CHECK;

/* Text of a Chrome trace for an activity: category, title and args, as listed above. */

enum { DL_LABEL_TITLE_BYTES = 80, DL_LABEL_ARGS_MAX = 10 };

/* Must not be copied: contains pointers into itself and its sources. */
typedef struct dl_activity_label {
    const char *category, *title;
    dl_chrome_arg args[DL_LABEL_ARGS_MAX];
    int arg_count;
    char title_text[DL_LABEL_TITLE_BYTES];
    char object_text[24];
    uint32_t grid[3], block[3];
} dl_activity_label;

/* Describes *activity, whose name and detail are strings of `trace`. `short_name` is the readable
 * name of a KERNEL; it is unused for other kinds. */
void dl_activity_label_init(dl_activity_label *label, const dl_activity *activity,
                            const dl_trace *trace, const char *short_name);

/* Layout of activities on tracks, as in a timeline viewer: the slices of one track are nested or
 * disjoint, so each has a place in a stack.
 *
 * Each device stream (KERNEL, MEMCPY, MEMSET, GRAPH) has a track, and so has each host thread
 * (CALL, SYNC, RANGE, MARK, COLLECTIVE, OVERHEAD; a SYNC is on the thread of its CALL, on thread 0
 * if that is unknown). EVENT, COMM and CLOCK have no track. If two slices of a track overlap and
 * neither contains the other, one moves to an additional lane of the same stream or thread: on a
 * thread the one that is not a CALL (an NVTX range may start and end anywhere), otherwise the later
 * one. A MARK is an instant and stays on lane 0. */

#define DL_NO_TRACK UINT32_MAX

typedef struct dl_track {
    bool is_stream;          /* track of a device stream; otherwise of a host thread */
    uint32_t thread;         /* for a host thread */
    uint32_t device, stream; /* for a device stream */
    uint32_t lane;           /* 0: the track itself; >= 1: additional lanes of crossing slices */
    size_t first, count;     /* its activities: order[first] .. order[first + count - 1] */
} dl_track;

/* Owns its arrays; release with dl_activity_tracks_free. */
typedef struct dl_activity_tracks {
    /* [count] threads by number, then streams by device and number; lanes of one track are
     * consecutive */
    dl_track *tracks;
    size_t count;
    /* indices of activities, by track; within a track by start, then longer ones first, so that an
     * outer slice precedes its inner ones */
    uint32_t *order;
    uint32_t *track_of; /* track of each activity, or DL_NO_TRACK */
} dl_activity_tracks;

/* Lays out activities[count], count < 2^32 - 1; `tracks` must be zeroed. `launches` must be those
 * of the same activities. O(n log n), plus O(n) per additional lane. */
void dl_activity_tracks_init(dl_activity_tracks *tracks, const dl_activity *activities,
                             size_t count, const dl_launches *launches);
void dl_activity_tracks_free(dl_activity_tracks *tracks);

#endif
