/* Activity model: calls and kernels of a CUDA program, from any recorder. While dl_record
 * (record.h) describes the steps of dlprof's training workers, dl_activity describes any program:
 * device work on (device, stream) time lines, host work on threads, and the identities that link
 * them.
 *
 * A trace holds the activities of one process. Times are nanoseconds of the clock named by the
 * trace's meta key "clock" ("realtime": CLOCK_REALTIME, used by CUPTI and shared by all processes
 * of a host). Activities are unordered. Unused fields are 0.
 *
 *   kind        name            detail        other fields
 *   KERNEL      mangled name    launch shape  device, stream, correlation; object = graph and node
 *   MEMCPY      -               -             device, stream, correlation, bytes, copy, memory;
 *                                             peer = the other device (PEER); object as in KERNEL
 *   MEMSET      -               -             device, stream, correlation, bytes; object as in
 *                                             KERNEL
 *   GRAPH       -               -             device, stream, correlation; object = graph << 32:
 *                                             one launch of a whole CUDA graph
 *   CALL        function        -             thread, correlation: the host inside an API call;
 *                                             object = that of the operator that made it, if known
 *   SYNC        awaited object  -             device, correlation; stream and object = event
 *                                             identity, if known. Names: "event", "stream",
 *                                             "context", "stream wait", "unknown"
 *   EVENT       -               -             device, stream, correlation; object = event identity:
 *                                             SYNCs of the same object wait for it
 *   RANGE       text            domain or     thread: an NVTX range or a framework's operator;
 *                               category      bytes = gradient, if the operator accumulates one;
 *                                             object = identity of the operator, if known
 *   MARK        text            domain        thread; duration 0
 *   COLLECTIVE  "AllReduce"...  - or          thread, bytes (of one rank), object = communicator,
 *                               "integers"    peer = root or peer rank in it (DL_RANK_UNKNOWN:
 *                                             unknown): the host's call. detail: all its numbers
 *                                             are integers of 32 or 64 bits
 *   COMM        name or text    its ranks     object = communicator, peer = own rank in it
 *                                             (DL_RANK_UNKNOWN: unknown), count = ranks;
 *                                             duration 0
 *   OVERHEAD    kind            -             thread: time taken by the profiler
 *   CLOCK       -               -             start_ns = realtime, object = CLOCK_MONOTONIC and
 *                                             bytes = CLOCK_MONOTONIC_RAW at the same moment
 *
 * correlation links device work to the CALL that launched it; it is unique in a process up to the
 * wrap-around at 2^32; 0: unknown. A launch shape has the form "grid 64x1x1 block 256x1x1 shared 0
 * regs 32" (shared memory in bytes, registers per thread). */
#ifndef DL_TRACE_ACTIVITY_ACTIVITY_H
#define DL_TRACE_ACTIVITY_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DL_COLLECTIVE_OF_INTEGERS "integers"
#define DL_RANK_UNKNOWN UINT32_MAX

typedef enum dl_activity_kind {
    DL_ACTIVITY_KERNEL = 1,
    DL_ACTIVITY_MEMCPY,
    DL_ACTIVITY_MEMSET,
    DL_ACTIVITY_GRAPH,
    DL_ACTIVITY_CALL,
    DL_ACTIVITY_SYNC,
    DL_ACTIVITY_EVENT,
    DL_ACTIVITY_RANGE,
    DL_ACTIVITY_MARK,
    DL_ACTIVITY_COLLECTIVE,
    DL_ACTIVITY_COMM,
    DL_ACTIVITY_OVERHEAD,
    DL_ACTIVITY_CLOCK,
    DL_ACTIVITY_KIND_END
} dl_activity_kind;

typedef enum dl_copy_direction {
    DL_COPY_UNKNOWN = 0,
    DL_COPY_H2D,
    DL_COPY_D2H,
    DL_COPY_D2D,  /* within one device */
    DL_COPY_PEER, /* between two devices */
    DL_COPY_H2H,
    DL_COPY_DIRECTION_END
} dl_copy_direction;

/* Host memory of a copy. The driver stages pageable memory through a bounce buffer. */
typedef enum dl_host_memory {
    DL_MEMORY_UNKNOWN = 0,
    DL_MEMORY_PAGEABLE,
    DL_MEMORY_PINNED,
    DL_MEMORY_MANAGED,
    DL_HOST_MEMORY_END
} dl_host_memory;

typedef struct dl_activity {
    uint8_t kind;          /* dl_activity_kind */
    uint8_t copy;          /* dl_copy_direction */
    uint8_t memory;        /* dl_host_memory */
    uint32_t name, detail; /* indices into the trace's strings; 0: none */
    uint32_t device, stream;
    uint32_t thread; /* thread id of the operating system (gettid) */
    uint32_t correlation;
    uint32_t peer, count;
    uint64_t bytes, object;
    int64_t start_ns, duration_ns; /* both >= 0, and their sum <= INT64_MAX */
} dl_activity;

/* Returns whether every field is in its range. */
bool dl_activity_valid(const dl_activity *activity);

/* Returns whether the activity is device work (KERNEL, MEMCPY, MEMSET, GRAPH), which occupies a
 * stream. */
bool dl_activity_is_device_work(const dl_activity *activity);

/* Truncates copies and memsets whose recorded end lies after the start of the next work on their
 * stream, which is impossible: CUPTI gave a copy before a graph's launch the end of the whole run
 * (13.0, H200). Nodes of one graph may overlap, so the next work is the first with a different
 * start and a different correlation. Returns the number of truncations; *worst_ns is the largest
 * one. */
size_t dl_activities_cut_late_ends(dl_activity *activities, size_t count, int64_t *worst_ns);

/* Return "kernel", "memcpy", ...; "h2d", "d2h", "d2d", "peer", "h2h", "unknown"; "pageable",
 * "pinned", "managed", "unknown"; never NULL. */
const char *dl_activity_kind_name(dl_activity_kind kind);
const char *dl_copy_direction_name(dl_copy_direction direction);
const char *dl_host_memory_name(dl_host_memory memory);

/* Communicators of a trace. Owns its array, borrows the activities; release with free(items). */
typedef struct dl_communicators {
    const dl_activity **items; /* [count] COMMs of the trace */
    size_t count;
} dl_communicators;

dl_communicators dl_communicators_find(const dl_activity *activities, size_t count);

/* Return the first COMM of an object, borrowed, and its number of ranks; NULL and 0: unknown. All
 * communicators of an NCCL without hashes have object 0. */
const dl_activity *dl_communicators_get(const dl_communicators *communicators, uint64_t object);
uint32_t dl_communicators_ranks(const dl_communicators *communicators, uint64_t object);

/* Maps device work to the host call that launched it: the CALLs of a trace by correlation. */

/* Owns its table; release with dl_launches_free. Borrows the activities. */
typedef struct dl_launches {
    const dl_activity *activities;
    uint32_t *slots; /* [slot_count] hash table: index of a CALL + 1, or 0 */
    size_t slot_count;
    size_t call_count;
} dl_launches;

/* Stores all CALLs with a correlation among activities[count], count < 2^32; `launches` must be
 * zeroed. Of several CALLs with the same correlation (a runtime call and the driver call within
 * it), stores the one that starts first. */
void dl_launches_init(dl_launches *launches, const dl_activity *activities, size_t count);
void dl_launches_free(dl_launches *launches);

/* Returns the CALL of `correlation`; NULL if none was recorded or correlation is 0. O(1). */
const dl_activity *dl_launches_find(const dl_launches *launches, uint32_t correlation);

#endif
