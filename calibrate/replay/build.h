/* Builds the replay graph of one or more traces (graph.h).
 *
 * Nodes. Each host thread that calls the device is a lane of its calls (nested calls belong to the
 * outermost one) and of the time between them. Each stream is a lane of its operations; where
 * operations of one stream overlap by more than DL_REPLAY_OVERLAP_NS (branches of a CUDA graph),
 * the stream has several lanes. Host time is kept as recorded. Waits of the host and idle time of a
 * device are dropped, except waits for something outside the trace (external.h).
 *
 * Typical costs are measured in the trace, one value per class of operations:
 *
 *   launch latency  from the start of the launching call to the start of the work, for operations
 *                   on an idle stream, by name of call and kind of work;
 *   spacing         from the end of an operation to the start of the next one on the stream, if
 *                   the latter was launched long before; by kind of the previous operation, call,
 *                   and kernel or size of copy, in each 50 ms of the trace with enough operations.
 *
 * The typical value is the mean of the values up to three medians + 1 us. The minimum would be too
 * early by the spread, and these errors would add up where the host waits for the device or
 * operations follow one another.
 *
 * Edges and their rules are in: build_device.c (launches, and launches that find a queue full),
 * build_events.c (streams that wait for each other, and the host's waits for streams) and
 * build_host.c (threads that wait for each other). */
#ifndef DL_CALIBRATE_REPLAY_BUILD_H
#define DL_CALIBRATE_REPLAY_BUILD_H

#include "calibrate/replay/graph.h"
#include "common/status.h"
#include "trace/dlt/dlt.h"

/* Maximum overlap of operations of one stream that still count as consecutive. Some traces have
 * times in whole microseconds. */
#define DL_REPLAY_OVERLAP_NS 2000

/* Shortest external wait of a thread; calls and garbage collections of an interpreter are
 * shorter. */
#define DL_REPLAY_EXTERNAL_NS 1000000

/* One trace's part of the graph. */
typedef struct dl_replay_rank {
    const dl_trace *trace; /* borrowed */
    /* [activity_count] node of the activity or of its outermost call; DL_REPLAY_NONE without a
     * node */
    uint32_t *node_of;
    size_t work_count;
    size_t unlaunched;       /* operations without a recorded launch */
    size_t launches_without; /* launching calls without work in the trace */
    size_t launch_calls;     /* number of launching calls */
    /* limit of operations launched to a stream but not ended, the maximum over the streams; 0:
     * never reached */
    size_t queue_depth;
} dl_replay_rank;

/* External waits of threads or of devices (external.h). */
typedef struct dl_external_waits {
    size_t count;
    int64_t total_ns; /* sum over all threads, or streams */
    int64_t longest_ns;
    uint32_t longest; /* node of the thread's longest wait, or node that the device's longest wait
                       * delays */
    /* range around the longest wait, or operation after it; NULL: unknown. Borrowed from the
     * trace. */
    const char *where;
    /* for devices: total_ns as a fraction, 0..1, of the streams' total time from first work to last
     * end */
    double share;
    bool removed; /* omitted in a replay */
} dl_external_waits;

/* Owns its members except the traces; release with dl_replay_run_free. */
typedef struct dl_replay_run {
    dl_replay_graph graph;
    dl_replay_rank *ranks; /* [rank_count] */
    size_t rank_count;
    dl_external_waits waits_of_threads;
    dl_external_waits waits_of_devices; /* initially removed */
} dl_replay_run;

/* Builds the graph of traces[count], whose activities are in memory; `run` must be zeroed. Several
 * traces are ranks of one run, already on a common clock. Returns DL_ERR_DATA if a trace has no
 * device work, DL_ERR_RANGE if its times or numbers are too large. O(n log n). */
dl_status dl_replay_build(dl_replay_run *run, const dl_trace *const *traces, size_t count,
                          dl_error *err) DL_MUST_CHECK;
void dl_replay_run_free(dl_replay_run *run);

#endif
