#include "trace/activity/summary.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/status.h"
#include "trace/activity/kernel_class.h"

typedef enum part { PART_COMPUTE, PART_COMMUNICATION, PART_COPY } part;

/* An operation of a device. */
typedef struct work {
    dl_interval interval;
    uint32_t activity; /* index in the trace's activities */
    uint8_t part;
    bool kernel;
} work;

/* Operations of one device. */
typedef struct device_works {
    work *items; /* [count] */
    size_t count;
} device_works;

DL_ORDER(by_start, dl_interval, DL_BY(start_ns));

DL_ORDER(by_start_then_place, work, DL_BY(interval.start_ns), DL_BY(activity));

size_t dl_intervals_unite(dl_interval *intervals, size_t count)
{
    size_t kept = 0;
    dl_sort(intervals, count, sizeof *intervals, by_start);
    for (size_t i = 0; i < count; i++) {
        dl_interval next = intervals[i];
        if (next.start_ns >= next.end_ns) continue;
        if (kept > 0 && next.start_ns <= intervals[kept - 1].end_ns) {
            dl_interval *last = &intervals[kept - 1];
            if (next.end_ns > last->end_ns) last->end_ns = next.end_ns;
        } else {
            intervals[kept++] = next;
        }
    }
    return kept;
}

int64_t dl_intervals_total(const dl_interval *set, size_t count)
{
    int64_t total_ns = 0;
    for (size_t i = 0; i < count; i++)
        total_ns += set[i].end_ns - set[i].start_ns;
    return total_ns;
}

int64_t dl_intervals_overlap(const dl_interval *a, size_t a_count, const dl_interval *b,
                             size_t b_count)
{
    int64_t total_ns = 0;
    for (size_t i = 0, j = 0; i < a_count && j < b_count;) {
        int64_t start = a[i].start_ns > b[j].start_ns ? a[i].start_ns : b[j].start_ns;
        int64_t end = a[i].end_ns < b[j].end_ns ? a[i].end_ns : b[j].end_ns;
        if (end > start) total_ns += end - start;
        if (a[i].end_ns < b[j].end_ns) {
            i++;
        } else {
            j++;
        }
    }
    return total_ns;
}

static part part_of(const dl_activity *activity, const uint8_t *classes)
{
    switch (activity->kind) {
    case DL_ACTIVITY_KERNEL:
        return classes[activity->name] == DL_KERNEL_COLLECTIVE ? PART_COMMUNICATION : PART_COMPUTE;
    case DL_ACTIVITY_GRAPH: return PART_COMPUTE;
    case DL_ACTIVITY_MEMCPY: return activity->copy == DL_COPY_PEER ? PART_COMMUNICATION : PART_COPY;
    default: return PART_COPY;
    }
}

/* Gets the part of the activity's interval within the window; returns false if it is empty. */
static bool clip(const dl_activity *activity, const dl_interval *window, dl_interval *interval)
{
    interval->start_ns = activity->start_ns;
    interval->end_ns = activity->start_ns + activity->duration_ns;
    if (window == NULL) return true;
    if (interval->end_ns <= window->start_ns || interval->start_ns >= window->end_ns) return false;
    if (interval->start_ns < window->start_ns) interval->start_ns = window->start_ns;
    if (interval->end_ns > window->end_ns) interval->end_ns = window->end_ns;
    return true;
}

/* Returns the index of `device` in the table; adds the device if it is missing. Tries the index
 * `last` first, as neighbouring activities mostly share a device. */
static size_t find_device(dl_activity_timeline *timeline, uint32_t device, size_t last)
{
    if (last < timeline->device_count && timeline->devices[last].device == device) return last;
    for (size_t i = 0; i < timeline->device_count; i++) {
        if (timeline->devices[i].device == device) return i;
    }
    DL_APPEND(timeline->devices, timeline->device_count, "devices") =
        (dl_device_timeline){.device = device};
    return timeline->device_count - 1;
}

/* Computes span, busy time, idle time and gaps from the operations in order of time. */
static void sum_gaps(dl_device_timeline *device, const work *works, size_t count,
                     const dl_activity *activities, const dl_launches *launches)
{
    int64_t covered = works[0].interval.start_ns;
    device->start_ns = covered;
    for (size_t i = 0; i < count; i++) {
        int64_t start = works[i].interval.start_ns, end = works[i].interval.end_ns;
        if (start > covered) {
            const dl_activity *call =
                dl_launches_find(launches, activities[works[i].activity].correlation);
            device->gap_count++;
            device->idle_ns += start - covered;
            if (call == NULL) {
                device->unknown_gap_ns += start - covered;
            } else {
                int64_t until = start;
                if (start - call->start_ns > DL_LAUNCH_LATENCY_NS)
                    until = call->start_ns + DL_LAUNCH_LATENCY_NS;
                if (until > covered) device->launch_bound_ns += until - covered;
            }
        }
        if (end > covered) covered = end;
    }
    device->end_ns = covered;
    device->busy_ns = device->end_ns - device->start_ns - device->idle_ns;
}

/* Writes the union of the operations whose part is in `mask` (bits 1 << part; with `kernels`, of
 * kernels only) to set[count]; returns the number of intervals. */
static size_t select_works(dl_interval *set, const work *works, size_t count, unsigned mask,
                           bool kernels)
{
    size_t selected = 0;
    for (size_t i = 0; i < count; i++) {
        if ((mask >> works[i].part & 1) == 0 || (kernels && !works[i].kernel)) continue;
        set[selected++] = works[i].interval;
    }
    return dl_intervals_unite(set, selected);
}

static void sum_parts(dl_device_timeline *device, const work *works, size_t count)
{
    enum { COMPUTE = 1 << PART_COMPUTE, COMMUNICATION = 1 << PART_COMMUNICATION };
    const unsigned copy = 1 << PART_COPY, all = ~0U;
    DL_AUTOFREE dl_interval *a = dl_calloc(count, sizeof *a, "intervals");
    DL_AUTOFREE dl_interval *b = dl_calloc(count, sizeof *b, "intervals");

    size_t a_count = select_works(a, works, count, all, true);
    device->kernel_ns = dl_intervals_total(a, a_count);

    a_count = select_works(a, works, count, COMPUTE, false);
    size_t b_count = select_works(b, works, count, COMMUNICATION, false);
    device->compute_ns = dl_intervals_total(a, a_count);
    device->communication_ns = dl_intervals_total(b, b_count);
    device->exposed_communication_ns =
        device->communication_ns - dl_intervals_overlap(a, a_count, b, b_count);

    a_count = select_works(a, works, count, COMPUTE | COMMUNICATION, false);
    b_count = select_works(b, works, count, copy, false);
    device->copy_ns = dl_intervals_total(b, b_count);
    device->exposed_copy_ns = device->copy_ns - dl_intervals_overlap(a, a_count, b, b_count);
}

DL_ORDER(by_device, dl_device_timeline, DL_BY(device));

void dl_activity_timeline_init(dl_activity_timeline *timeline, const dl_activity *activities,
                               size_t count, const uint8_t *classes, const dl_launches *launches,
                               const dl_interval *window)
{
    DL_ASSERT(count < UINT32_MAX, "%zu activities", count);
    device_works *lists = NULL; /* [list_count] by index in the table of devices */
    size_t d = 0, list_count = 0;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *activity = &activities[i];
        dl_interval interval;
        if (!dl_activity_is_device_work(activity)) continue;
        if (!clip(activity, window, &interval)) continue;
        bool kernel = activity->kind == DL_ACTIVITY_KERNEL || activity->kind == DL_ACTIVITY_GRAPH;
        d = find_device(timeline, activity->device, d);
        if (d == list_count) DL_APPEND(lists, list_count, "devices") = (device_works){0};
        DL_APPEND(lists[d].items, lists[d].count, "device work") =
            (work){.interval = interval,
                   .activity = (uint32_t)i,
                   .part = (uint8_t)part_of(activity, classes),
                   .kernel = kernel};
    }
    for (d = 0; d < list_count; d++) {
        const device_works *works = &lists[d];
        dl_sort(works->items, works->count, sizeof *works->items, by_start_then_place);
        sum_gaps(&timeline->devices[d], works->items, works->count, activities, launches);
        sum_parts(&timeline->devices[d], works->items, works->count);
        free(works->items);
    }
    free(lists);
    dl_sort(timeline->devices, timeline->device_count, sizeof *timeline->devices, by_device);
}

void dl_activity_timeline_free(dl_activity_timeline *timeline)
{
    free(timeline->devices);
    *timeline = (dl_activity_timeline){0};
}

const dl_device_timeline *dl_activity_timeline_device(const dl_activity_timeline *timeline,
                                                      uint32_t device)
{
    for (size_t i = 0; i < timeline->device_count; i++) {
        if (timeline->devices[i].device == device) return &timeline->devices[i];
    }
    return NULL;
}

/* A CALL on its thread's time line. */
typedef struct call {
    dl_interval interval;
    uint32_t thread;
    uint32_t name;
} call;

DL_ORDER(by_total, dl_host_summary, DL_BY_DESCENDING(total_ns), DL_BY_TEXT(name));

/* An activity's duration, with the list item that it belongs to. */
typedef struct duration {
    uint32_t item;
    int64_t ns;
} duration;

DL_ORDER(by_item_and_ns, duration, DL_BY(item), DL_BY(ns));

static dl_host_list sum_kind(dl_activity_kind kind, const dl_activity *activities, size_t count,
                             char *const *strings, size_t string_count)
{
    dl_host_list list = {0};
    DL_AUTOFREE uint32_t *places = dl_calloc(string_count, sizeof *places, "host activities");
    duration *durations = NULL;
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &activities[i];
        if (a->kind != kind) continue;
        if (places[a->name] == 0) {
            DL_APPEND(list.items, list.count, "calls") =
                (dl_host_summary){.name = strings[a->name]};
            places[a->name] = (uint32_t)list.count;
        }
        DL_APPEND(durations, found, "calls") = (duration){places[a->name] - 1, a->duration_ns};
        list.items[places[a->name] - 1].total_ns += (double)a->duration_ns;
        list.items[places[a->name] - 1].count++;
    }
    dl_sort(durations, found, sizeof *durations, by_item_and_ns);
    const duration *of = durations;
    for (size_t i = 0; i < list.count; i++) {
        dl_host_summary *item = &list.items[i];
        const size_t last = (size_t)item->count - 1;
        item->p50_ns = 0.5 * ((double)of[last / 2].ns + (double)of[(last + 1) / 2].ns);
        item->longest_ns = (double)of[last].ns;
        of += item->count;
    }
    free(durations);
    dl_sort(list.items, list.count, sizeof *list.items, by_total);
    return list;
}

DL_ORDER(by_thread_and_start, call, DL_BY(thread), DL_BY(interval.start_ns));

/* Time that calls[count], sorted by thread and start, cover on their threads, in ns. */
static double covered_ns(const call *calls, size_t count)
{
    int64_t total_ns = 0, until_ns = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || calls[i].thread != calls[i - 1].thread) until_ns = 0;
        int64_t start_ns = calls[i].interval.start_ns, end_ns = calls[i].interval.end_ns;
        if (end_ns <= until_ns) continue;
        total_ns += end_ns - (start_ns > until_ns ? start_ns : until_ns);
        until_ns = end_ns;
    }
    return (double)total_ns;
}

static void sum_calls(dl_activity_host *host, const dl_activity *activities, size_t count,
                      char *const *strings)
{
    size_t call_count = 0, waiting = 0;
    DL_AUTOFREE call *calls = NULL;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &activities[i];
        if (a->kind != DL_ACTIVITY_CALL) continue;
        DL_APPEND(calls, call_count, "calls") =
            (call){{a->start_ns, a->start_ns + a->duration_ns}, a->thread, a->name};
    }
    dl_sort(calls, call_count, sizeof *calls, by_thread_and_start);
    host->call_ns = covered_ns(calls, call_count);
    for (size_t i = 0; i < call_count; i++) {
        if (strstr(strings[calls[i].name], "Synchronize") != NULL) calls[waiting++] = calls[i];
    }
    host->sync_call_ns = covered_ns(calls, waiting);
}

void dl_activity_host_init(dl_activity_host *host, const dl_activity *activities, size_t count,
                           char *const *strings, size_t string_count)
{
    host->calls = sum_kind(DL_ACTIVITY_CALL, activities, count, strings, string_count);
    host->syncs = sum_kind(DL_ACTIVITY_SYNC, activities, count, strings, string_count);
    host->overheads = sum_kind(DL_ACTIVITY_OVERHEAD, activities, count, strings, string_count);
    sum_calls(host, activities, count, strings);
}

void dl_activity_host_free(dl_activity_host *host)
{
    free(host->calls.items);
    free(host->syncs.items);
    free(host->overheads.items);
    *host = (dl_activity_host){0};
}
