/* The critical path: from the end of a step back through what each node waited for last, to the
 * step's begin. Shortening anything on it shortens the step; what is not on it has slack. */
#ifndef DL_CALIBRATE_REPLAY_CRITICAL_H
#define DL_CALIBRATE_REPLAY_CRITICAL_H

#include "calibrate/replay/retime.h"
#include "calibrate/replay/step_times.h"

/* What time on the path is spent on. */
enum {
    DL_PATH_HOST,   /* threads, between calls; waking up after another thread too */
    DL_PATH_CALL,   /* threads in calls, without waits */
    DL_PATH_LAUNCH, /* from a call to the begin of its work */
    DL_PATH_SPACING,
    DL_PATH_COPY,
    DL_PATH_MEMSET,
    DL_PATH_GRAPH,  /* whole graphs, whose kernels are not recorded */
    DL_PATH_BEGIN,  /* before the first node of a lane: what the trace does not hold */
    DL_PATH_KERNEL, /* + dl_kernel_class */
    DL_PATH_END = DL_PATH_KERNEL + DL_KERNEL_CLASS_END
};

/* A stretch of the path. */
typedef struct dl_path_part {
    uint32_t node;            /* whose time it is, or for whose begin it was spent */
    uint32_t what;            /* DL_PATH_... */
    int64_t start_ns, end_ns; /* since the graph's origin */
} dl_path_part;

/* Owns its array; release with dl_critical_path_free. */
typedef struct dl_critical_path {
    int64_t ns[DL_PATH_END]; /* by what; the sum is the step's time */
    dl_path_part *parts;     /* [count] from the step's end to its begin */
    size_t count, room;
} dl_critical_path;

/* Finds the path of `step`; zero `path` before. O(its length). */
void dl_critical_path_find(dl_critical_path *path, const dl_replay_graph *graph,
                           const dl_replay_time *times, const dl_replay_step *step);
void dl_critical_path_free(dl_critical_path *path);

/* What the time of a node is. */
uint32_t dl_path_what(const dl_replay_node *node);

/* "host", "call", ..., "gemm", "collective"; never NULL. */
const char *dl_path_name(uint32_t what);

#endif
