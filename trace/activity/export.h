/* Traces of activities as Chrome-trace JSON, for Perfetto and chrome://tracing.
 *
 * Each trace is a process: pid = its rank (meta key "rank") where all traces have one and no two
 * the same, else its place among the traces. Tracks are those of dl_activity_tracks:
 *
 *   track               tid
 *   "GPU 0 stream 7"    (device + 1) << 24 | stream
 *   "thread 1234"       1234; with its name before it if meta key "thread.1234" gives one
 *   a step line         from 2^30 on; also any of the above whose number does not fit, and further
 *                       lanes: "thread 1234 (2)"
 *
 *   activity    category              name                              args
 *   KERNEL      kernel                dl_demangle_short                 device, stream,
 *                                                                       correlation, grid, block,
 *                                                                       shared memory, registers
 *                                                                       per thread; symbol
 *   MEMCPY      gpu_memcpy            "Memcpy HtoD (Pinned -> Device)"  ..., bytes, memory
 *                                                                       bandwidth (GB/s), peer
 *                                                                       device
 *   MEMSET      gpu_memset            "Memset (Device)"                 ..., bytes
 *   GRAPH       gpu_graph             "graph 3"                         ..., graph id
 *   CALL        cuda_runtime, cuda_driver ("cu" and a capital)          correlation
 *   SYNC        cuda_sync             "Stream Sync", ...                stream, correlation,
 *                                                                       wait_on_cuda_event_id
 *   RANGE       user_annotation       its text                          domain
 *   MARK        user_annotation       its text, an instant              domain
 *   COLLECTIVE  collective_comm       "AllReduce", ...                  bytes, communicator, peer
 *   OVERHEAD    overhead              what
 *
 * Names of categories and args are Kineto's (PyTorch) where it has them; args that do not apply are
 * left out. An arrow leads from each CALL to each piece of work of its correlation. Times count
 * from the earliest start in all traces, to the ns. EVENT, COMM and CLOCK are not drawn. */
#ifndef DL_TRACE_ACTIVITY_EXPORT_H
#define DL_TRACE_ACTIVITY_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/chrome_trace.h"
#include "trace/activity/activity.h"
#include "trace/dlt/dlt.h"

/* One training step, or another interval that is shown above the tracks. */
typedef struct dl_export_step {
    int64_t start_ns, duration_ns; /* as of an activity */
    const char *label;
} dl_export_step;

/* Steps that are shown on one track. */
typedef struct dl_export_line {
    const char *name; /* "GPU 0 steps" */
    const dl_export_step *steps;
    size_t count;
} dl_export_line;

/* Everything is borrowed. */
typedef struct dl_export_process {
    const dl_trace *trace;
    const dl_export_line *lines; /* [line_count]; NULL if there are none */
    size_t line_count;
} dl_export_process;

/* Creates (overwrites) `path` and writes the activities of processes[count] and their steps;
 * records are left out. DL_ERR_DATA if the traces' clocks differ (meta key "clock"), DL_ERR_IO as
 * dl_chrome_trace_open and _close report it. */
dl_status dl_activity_export(const dl_export_process *processes, size_t count, const char *path,
                             dl_error *err) DL_MUST_CHECK;

/* A Chrome trace's text about an activity: category, title and args, as listed above. */

enum { DL_LABEL_TITLE_BYTES = 80, DL_LABEL_ARGS_MAX = 10 };

/* Points into itself and into its sources: not to be copied. */
typedef struct dl_activity_label {
    const char *category, *title;
    dl_chrome_arg args[DL_LABEL_ARGS_MAX];
    int arg_count;
    char title_text[DL_LABEL_TITLE_BYTES];
    char object_text[24];
    uint32_t grid[3], block[3];
} dl_activity_label;

/* Describes *activity, whose name and detail are strings of `trace`. `short_name` is the readable
 * name of a KERNEL and not used for others. */
void dl_activity_label_init(dl_activity_label *label, const dl_activity *activity,
                            const dl_trace *trace, const char *short_name);

/* Activities laid out on tracks, as a viewer of time lines draws them: the slices of one track nest
 * or lie one after the other, so each has its place in a stack.
 *
 * A stream of a device (KERNEL, MEMCPY, MEMSET, GRAPH) has a track, and so has a thread of the host
 * (CALL, SYNC, RANGE, MARK, COLLECTIVE, OVERHEAD; a SYNC lies on the thread of its CALL, on thread
 * 0 if that is not known). EVENT, COMM and CLOCK lie on none. Where two slices of a track overlap
 * and neither contains the other, one moves to another track of the same stream or thread, numbered
 * by `lane`: on a thread the one that is not a CALL (an NVTX range may start and end anywhere),
 * otherwise the later one. A MARK is an instant and stays on lane 0.
 */

#define DL_NO_TRACK UINT32_MAX

typedef struct dl_track {
    bool is_stream;          /* of a device; otherwise a thread of the host */
    uint32_t thread;         /* of the host's */
    uint32_t device, stream; /* of a device's */
    uint32_t lane;           /* 0 = the track itself, 1.. = further lanes of slices that cross */
    size_t first, count;     /* its activities: order[first] .. order[first + count - 1] */
} dl_track;

/* Owns its arrays; release with dl_activity_tracks_free. */
typedef struct dl_activity_tracks {
    /* [count]: threads by number, then streams by device and number; lanes of one track are
     * consecutive */
    dl_track *tracks;
    size_t count;
    /* indices of activities, track by track; within one by start, of equal starts the longer
     * first, so that an outer slice comes before the inner ones */
    uint32_t *order;
    uint32_t *track_of; /* track of each activity, or DL_NO_TRACK */
} dl_activity_tracks;

/* Lays out activities[count], count < 2^32 - 1; `tracks` must be zeroed. `launches` are of the same
 * activities. O(n log n), and O(n) for each lane more. */
void dl_activity_tracks_init(dl_activity_tracks *tracks, const dl_activity *activities,
                             size_t count, const dl_launches *launches);
void dl_activity_tracks_free(dl_activity_tracks *tracks);

#endif
