#include "trace/activity/activity.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/status.h"

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

DL_ORDER_OF_POINTERS(compare_on_stream, dl_activity, DL_BY(device), DL_BY(stream), DL_BY(start_ns),
                     DL_COMPARE(a, b));

static bool ends_before_next(const dl_activity *activity)
{
    return activity->kind == DL_ACTIVITY_MEMCPY || activity->kind == DL_ACTIVITY_MEMSET;
}

size_t dl_activities_cut_late_ends(dl_activity *activities, size_t count, int64_t *worst_ns)
{
    DL_AUTOFREE dl_activity **works =
        dl_calloc(count, sizeof *works, "device operations by stream");
    size_t work_count = 0, cut = 0;
    for (size_t i = 0; i < count; i++) {
        if (dl_activity_is_device_work(&activities[i])) works[work_count++] = &activities[i];
    }
    qsort(works, work_count, sizeof(dl_activity *), compare_on_stream);
    *worst_ns = 0;
    /* Later works on the same stream, found in a backward pass: `later` is the next one with a
     * different start, `other` the next one with a different correlation, and `beyond` the next one
     * after `later` with a correlation different from `later`'s. */
    const dl_activity *later = NULL, *other = NULL, *beyond = NULL;
    for (size_t i = work_count; i-- > 0;) {
        dl_activity *copy = works[i];
        const dl_activity *next = i + 1 < work_count ? works[i + 1] : NULL;
        if (next == NULL || next->device != copy->device || next->stream != copy->stream) {
            later = other = beyond = NULL;
            continue;
        }
        if (next->start_ns != copy->start_ns) {
            later = next;
            beyond = other;
        }
        if (next->correlation != copy->correlation) other = next;
        const dl_activity *bound =
            later != NULL && later->correlation == copy->correlation ? beyond : later;
        if (!ends_before_next(copy) || bound == NULL) continue;
        const int64_t late_ns = copy->start_ns + copy->duration_ns - bound->start_ns;
        if (late_ns <= 0) continue;
        copy->duration_ns -= late_ns;
        cut++;
        if (late_ns > *worst_ns) *worst_ns = late_ns;
    }
    return cut;
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

dl_communicators dl_communicators_find(const dl_activity *activities, size_t count)
{
    dl_communicators found = {0};
    for (size_t i = 0; i < count; i++) {
        if (activities[i].kind == DL_ACTIVITY_COMM)
            DL_APPEND(found.items, found.count, "communicators") = &activities[i];
    }
    return found;
}

const dl_activity *dl_communicators_get(const dl_communicators *communicators, uint64_t object)
{
    for (size_t i = 0; i < communicators->count; i++)
        if (communicators->items[i]->object == object) return communicators->items[i];
    return NULL;
}

uint32_t dl_communicators_ranks(const dl_communicators *communicators, uint64_t object)
{
    const dl_activity *comm = dl_communicators_get(communicators, object);
    return comm != NULL ? comm->count : 0;
}

/* Returns the slot of `correlation`, or the empty slot for it. */
static uint32_t *find_slot(const dl_launches *launches, uint32_t correlation)
{
    /* Fibonacci hashing: correlations are consecutive, and 2^32 / golden ratio spreads
     * neighbours. */
    size_t slot = (uint32_t)(correlation * UINT32_C(2654435769)) & (launches->slot_count - 1);
    while (launches->slots[slot] != 0) {
        if (launches->activities[launches->slots[slot] - 1].correlation == correlation) break;
        slot = (slot + 1) & (launches->slot_count - 1);
    }
    return &launches->slots[slot];
}

static bool is_launch(const dl_activity *activity)
{
    return activity->kind == DL_ACTIVITY_CALL && activity->correlation != 0;
}

void dl_launches_init(dl_launches *launches, const dl_activity *activities, size_t count)
{
    DL_ASSERT(count < UINT32_MAX, "%zu activities", count);
    launches->activities = activities;
    for (size_t i = 0; i < count; i++)
        launches->call_count += is_launch(&activities[i]);
    /* keep the table at most half full */
    launches->slot_count = 1;
    while (launches->slot_count < 2 * launches->call_count)
        launches->slot_count *= 2;
    launches->slots = dl_calloc(launches->slot_count, sizeof *launches->slots, "launches");
    for (size_t i = 0; i < count; i++) {
        if (!is_launch(&activities[i])) continue;
        uint32_t *slot = find_slot(launches, activities[i].correlation);
        if (*slot == 0 || activities[i].start_ns < activities[*slot - 1].start_ns) {
            *slot = (uint32_t)i + 1;
        }
    }
}

void dl_launches_free(dl_launches *launches)
{
    free(launches->slots);
    *launches = (dl_launches){0};
}

const dl_activity *dl_launches_find(const dl_launches *launches, uint32_t correlation)
{
    if (launches->call_count == 0 || correlation == 0) return NULL;
    uint32_t slot = *find_slot(launches, correlation);
    return slot != 0 ? &launches->activities[slot - 1] : NULL;
}
