/* Traces of activities as Chrome-trace JSON, for Perfetto and chrome://tracing.
 *
 * Each trace is a process: pid = its rank (meta key "rank") where all traces have one and no two
 * the same, else its place among the traces. Tracks are those of activity_tracks.h:
 *
 *   track               tid
 *   "GPU 0 stream 7"    (device + 1) << 24 | stream
 *   "thread 1234"       1234; with its name before it if meta key "thread.1234" tells one
 *   a step line         from 2^30 on; and so any of the above whose number does not fit, and what
 *                       had to make way: "thread 1234 (2)"
 *
 *   activity    category              name                              args
 *   KERNEL      kernel                dl_demangle_short                 device, stream,
 * correlation, grid, block, shared memory, registers per thread; symbol MEMCPY      gpu_memcpy
 * "Memcpy HtoD (Pinned -> Device)"  ..., bytes, memory bandwidth (GB/s), peer device MEMSET
 * gpu_memset            "Memset (Device)"                 ..., bytes GRAPH       gpu_graph "graph
 * 3"                         ..., graph id CALL        cuda_runtime, cuda_driver ("cu" and a
 * capital)          correlation SYNC        cuda_sync             "Stream Sync", ... stream,
 * correlation, wait_on_cuda_event_id RANGE       user_annotation       its text domain MARK
 * user_annotation       its text, an instant              domain COLLECTIVE  collective_comm
 * "AllReduce", ...                  bytes, communicator, peer OVERHEAD    overhead what
 *
 * Names of categories and args are Kineto's (PyTorch) where it has them; args that do not apply are
 * left out. An arrow leads from each CALL to each piece of work of its correlation. Times count
 * from the earliest begin in all traces, to the ns. EVENT, COMM and CLOCK are not drawn.
 */
#ifndef DL_TRACE_ACTIVITY_EXPORT_H
#define DL_TRACE_ACTIVITY_EXPORT_H

#include <stddef.h>
#include <stdint.h>

#include "trace/dlt.h"

/* One training step, or another interval to be shown above the tracks. */
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

#endif
