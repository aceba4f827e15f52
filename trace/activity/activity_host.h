/* What the host did by a trace of activities: time in calls, waits, the profiler's own time. */
#ifndef DL_TRACE_ACTIVITY_HOST_H
#define DL_TRACE_ACTIVITY_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"

/* All host activities of one kind and name. */
typedef struct dl_host_summary {
    const char *name; /* borrowed from the trace */
    uint64_t count;
    double total_ns, longest_ns;
} dl_host_summary;

typedef struct dl_host_list {
    dl_host_summary *items; /* [count] by total time, longest first */
    size_t count;
} dl_host_list;

/* Owns its arrays; release with dl_activity_host_free. */
typedef struct dl_activity_host {
    dl_host_list calls;     /* CALL: functions */
    dl_host_list syncs;     /* SYNC: what was waited for */
    dl_host_list overheads; /* OVERHEAD: what the profiler did */
    double call_ns;         /* time of threads in calls; a call within another counts once */
    double sync_call_ns;    /* of it in calls that wait: those named ...Synchronize... */
} dl_activity_host;

/* Sums up CALL, SYNC and OVERHEAD among activities[count], count < 2^32; zero `host` before. Every
 * name is an id below string_count. O(n log n). */
void dl_activity_host_init(dl_activity_host *host, const dl_activity *activities, size_t count,
                           char *const *strings, size_t string_count);
void dl_activity_host_free(dl_activity_host *host);

#endif
