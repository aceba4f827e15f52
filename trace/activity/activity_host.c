#include "trace/activity/activity_host.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/activity/activity_timeline.h"

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* A CALL on its thread's time line. */
typedef struct call {
    dl_interval interval;
    uint32_t thread;
    uint32_t name;
} call;

static int by_total(const void *left, const void *right)
{
    const dl_host_summary *a = left, *b = right;
    int order = COMPARE(b->total_ns, a->total_ns);
    return order != 0 ? order : strcmp(a->name, b->name);
}

static dl_host_list sum_kind(dl_activity_kind kind, const dl_activity *activities, size_t count,
                             char *const *strings, size_t string_count)
{
    dl_host_list list = {0};
    uint32_t *places = dl_calloc(string_count, sizeof *places, "host activities");
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &activities[i];
        if (a->kind != kind) continue;
        if (places[a->name] == 0) {
            list.items = dl_realloc(list.items, list.count + 1, sizeof *list.items, "calls");
            list.items[list.count] = (dl_host_summary){.name = strings[a->name]};
            places[a->name] = (uint32_t)++list.count;
        }
        dl_host_summary *item = &list.items[places[a->name] - 1];
        double duration_ns = (double)a->duration_ns;
        item->count++;
        item->total_ns += duration_ns;
        if (duration_ns > item->longest_ns) item->longest_ns = duration_ns;
    }
    free(places);
    if (list.count > 0) qsort(list.items, list.count, sizeof *list.items, by_total);
    return list;
}

static int by_thread_and_start(const void *left, const void *right)
{
    const call *a = left, *b = right;
    int order = COMPARE(a->thread, b->thread);
    return order != 0 ? order : COMPARE(a->interval.start_ns, b->interval.start_ns);
}

/* Time that calls[count], by thread and start, cover on their threads. */
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
    for (size_t i = 0; i < count; i++)
        call_count += activities[i].kind == DL_ACTIVITY_CALL;
    if (call_count == 0) return;
    call *calls = dl_calloc(call_count, sizeof *calls, "calls");
    call_count = 0;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &activities[i];
        if (a->kind != DL_ACTIVITY_CALL) continue;
        calls[call_count++] =
            (call){{a->start_ns, a->start_ns + a->duration_ns}, a->thread, a->name};
    }
    qsort(calls, call_count, sizeof *calls, by_thread_and_start);
    host->call_ns = covered_ns(calls, call_count);
    for (size_t i = 0; i < call_count; i++) {
        if (strstr(strings[calls[i].name], "Synchronize") != NULL) calls[waiting++] = calls[i];
    }
    host->sync_call_ns = covered_ns(calls, waiting);
    free(calls);
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
