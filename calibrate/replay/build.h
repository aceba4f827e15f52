/* Builds the replay graph of one or several traces (graph.h).
 *
 * Nodes. Each thread of the host that calls the device is a lane: its calls (calls within calls
 * belong to the outer one), and the time between them. Each stream is a lane of its operations;
 * where operations of one stream overlap by more than DL_REPLAY_OVERLAP_NS (branches of a CUDA
 * graph), the stream has several lanes. The host's time is kept as it is. Waits of the host and
 * idle time of a device are dropped, except waits for something outside the trace (external.h).
 *
 * Typical costs, measured in the trace, one for all operations of a sort:
 *
 *   launch latency  from the start of the launching call to the start of the work, for operations
 *                   on an idle stream, by name of call and kind of work;
 *   spacing         from the end of a work to the start of the next one on the stream if that had
 *                   been launched long before; by kind of the work before, call, and kernel or size
 *                   of copy, in each 50 ms of the trace with enough operations.
 *
 * The typical value is the mean of those below three medians. The minimum would be too early by the
 * spread, and the errors add up where the host waits for the device or operations follow one
 * another.
 *
 * Edges, each with its rules: launches, and those that find a queue full (build_device.c); streams
 * that wait for one another, and the host's waits for them (build_events.c); threads that wait for
 * one another (build_host.c). */
#ifndef DL_CALIBRATE_REPLAY_BUILD_H
#define DL_CALIBRATE_REPLAY_BUILD_H

#include "calibrate/replay/graph.h"
#include "common/status.h"
#include "trace/dlt/dlt.h"

/* Operations of one stream that overlap by no more than this count as consecutive: some traces have
 * times in whole microseconds. */
#define DL_REPLAY_OVERLAP_NS 2000

/* Shortest external wait of a thread; an interpreter's calls and garbage collections are
 * shorter. */
#define DL_REPLAY_EXTERNAL_NS 1000000

/* One trace's part of the graph. */
typedef struct dl_replay_rank {
    const dl_trace *trace; /* borrowed */
    /* [activity_count] node of the activity, or of the call around it; or DL_REPLAY_NONE */
    uint32_t *node_of;
    size_t work_count;
    size_t unlaunched;       /* operations whose launch was not recorded */
    size_t launches_without; /* calls that launch but have no work in the trace */
    size_t launch_calls;     /* calls that launch */
    /* most operations launched and not yet started; 0 = the limit was never reached */
    size_t queue_depth;
} dl_replay_rank;

/* External waits of threads or of devices (external.h). */
typedef struct dl_external_waits {
    size_t count;
    int64_t total_ns; /* over all threads, or streams */
    int64_t longest_ns;
    uint32_t longest; /* node of the longest wait, or the node that it holds back */
    /* of the longest: the range around it, or the operation after it; NULL = unknown. Borrowed
     * from the trace */
    const char *where;
    /* of devices: fraction, 0..1, of each stream's time from its first work to its last end */
    double share;
    bool removed; /* a replay leaves them out */
} dl_external_waits;

/* Owns all but the traces; release with dl_replay_run_free. */
typedef struct dl_replay_run {
    dl_replay_graph graph;
    dl_replay_rank *ranks; /* [rank_count] */
    size_t rank_count;
    dl_external_waits waits_of_threads;
    dl_external_waits waits_of_devices; /* removed at first */
} dl_replay_run;

/* Builds the graph of traces[count], whose activities stay in memory; `run` must be zeroed. Several
 * traces are ranks of one run on a common clock already. DL_ERR_DATA if a trace has no work of a
 * device. O(n log n). */
dl_status dl_replay_build(dl_replay_run *run, const dl_trace *const *traces, size_t count,
                          dl_error *err) DL_MUST_CHECK;
void dl_replay_run_free(dl_replay_run *run);

#endif
