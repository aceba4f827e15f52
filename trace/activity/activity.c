#include "trace/activity/activity.h"

bool dl_activity_valid(const dl_activity *activity)
{
    return activity->kind >= DL_ACTIVITY_KERNEL && activity->kind < DL_ACTIVITY_KIND_END &&
           activity->copy < DL_COPY_DIRECTION_END && activity->memory < DL_HOST_MEMORY_END &&
           activity->start_ns >= 0 && activity->duration_ns >= 0 &&
           activity->duration_ns <= INT64_MAX - activity->start_ns;
}

bool dl_activity_is_device_work(const dl_activity *activity)
{
    return activity->kind >= DL_ACTIVITY_KERNEL && activity->kind <= DL_ACTIVITY_GRAPH;
}

const char *dl_activity_kind_name(dl_activity_kind kind)
{
    static const char *const names[DL_ACTIVITY_KIND_END] = {
        [DL_ACTIVITY_KERNEL] = "kernel", [DL_ACTIVITY_MEMCPY] = "memcpy",
        [DL_ACTIVITY_MEMSET] = "memset", [DL_ACTIVITY_GRAPH] = "graph",
        [DL_ACTIVITY_CALL] = "call",     [DL_ACTIVITY_SYNC] = "sync",
        [DL_ACTIVITY_EVENT] = "event",   [DL_ACTIVITY_RANGE] = "range",
        [DL_ACTIVITY_MARK] = "mark",     [DL_ACTIVITY_COLLECTIVE] = "collective",
        [DL_ACTIVITY_COMM] = "comm",     [DL_ACTIVITY_OVERHEAD] = "overhead",
        [DL_ACTIVITY_CLOCK] = "clock",
    };
    return kind >= DL_ACTIVITY_KERNEL && kind < DL_ACTIVITY_KIND_END ? names[kind] : "unknown";
}

const char *dl_copy_direction_name(dl_copy_direction direction)
{
    static const char *const names[DL_COPY_DIRECTION_END] = {
        [DL_COPY_UNKNOWN] = "unknown", [DL_COPY_H2D] = "h2d",   [DL_COPY_D2H] = "d2h",
        [DL_COPY_D2D] = "d2d",         [DL_COPY_PEER] = "peer", [DL_COPY_H2H] = "h2h",
    };
    return (unsigned)direction < DL_COPY_DIRECTION_END ? names[direction] : "unknown";
}

const char *dl_host_memory_name(dl_host_memory memory)
{
    static const char *const names[DL_HOST_MEMORY_END] = {
        [DL_MEMORY_UNKNOWN] = "unknown",
        [DL_MEMORY_PAGEABLE] = "pageable",
        [DL_MEMORY_PINNED] = "pinned",
        [DL_MEMORY_MANAGED] = "managed",
    };
    return (unsigned)memory < DL_HOST_MEMORY_END ? names[memory] : "unknown";
}
