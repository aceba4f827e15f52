/* Matches each kernel of a collective with the host's call: see the header. */
#include "trace/activity/collectives.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/status.h"
#include "common/units.h"
#include "trace/activity/kernel_class.h"

/* A call (COLLECTIVE) or a kernel's launch, in host order. */
typedef struct event {
    uint32_t thread;
    int64_t at_ns;
    uint32_t activity; /* index of the COLLECTIVE or of the kernel */
    bool launch;
} event;

/* Trace data required for the matching. */
typedef struct matching {
    const dl_activity *activities;
    char *const *strings;
    dl_communicators communicators;
} matching;

DL_ORDER(by_thread_and_time, event, DL_BY(thread), DL_BY(at_ns), DL_BY(launch), DL_BY(activity));

DL_ORDER(by_start, dl_collective_kernel, DL_BY(start_ns), DL_BY(activity));

/* Returns a collective known only from its kernel's name. */
static dl_collective_kernel kernel_alone(const matching *m, uint32_t activity)
{
    const dl_activity *kernel = &m->activities[activity];
    dl_kernel_collective told = {"", ""};
    (void)dl_kernel_tell_collective(m->strings[kernel->name], &told);
    return (dl_collective_kernel){.activity = activity,
                                  .name = told.collective,
                                  .device = kernel->device,
                                  .start_ns = kernel->start_ns,
                                  .duration_ns = kernel->duration_ns};
}

bool dl_collective_of_integers(const dl_activity *call, char *const *strings)
{
    return strcmp(strings[call->detail], DL_COLLECTIVE_OF_INTEGERS) == 0;
}

static void add_call(dl_collective_kernel *k, const matching *m, uint32_t activity)
{
    const dl_activity *call = &m->activities[activity];
    const char *name = m->strings[call->name];
    const uint32_t ranks = dl_communicators_ranks(&m->communicators, call->object);
    bool same = k->calls == 0 || (strcmp(k->name, name) == 0 && k->ranks == ranks);
    k->name = same ? name : "group";
    k->ranks = same ? ranks : 0;
    k->integers = (k->calls == 0 || k->integers) && dl_collective_of_integers(call, m->strings);
    k->object = k->calls == 0 || k->object == call->object ? call->object : 0;
    k->bytes += call->bytes;
    k->calls++;
}

/* Matches calls, events first .. middle - 1, with the launches that follow them, middle .. end -
 * 1. */
static void match(dl_collective_kernels *list, const matching *m, const event *events, size_t first,
                  size_t middle, size_t end)
{
    size_t calls = middle - first, kernels = end - middle;
    for (size_t i = 0; i < kernels; i++) {
        dl_collective_kernel k = kernel_alone(m, events[middle + i].activity);
        size_t from = 0, to = 0;
        if (calls == kernels) {
            from = i;
            to = i + 1;
        } else if (kernels == 1) {
            to = calls;
        }
        for (size_t c = from; c < to; c++)
            add_call(&k, m, events[first + c].activity);
        DL_APPEND(list->kernels, list->count, "collectives") = k;
    }
}

static void match_all(dl_collective_kernels *list, const matching *m, const event *events,
                      size_t count)
{
    for (size_t first = 0, end; first < count; first = end) {
        size_t middle = first;
        while (middle < count && events[middle].thread == events[first].thread &&
               !events[middle].launch)
            middle++;
        end = middle;
        while (end < count && events[end].thread == events[first].thread && events[end].launch)
            end++;
        match(list, m, events, first, middle, end);
    }
}

void dl_collective_kernels_find(dl_collective_kernels *list, const dl_activity *activities,
                                size_t count, char *const *strings, const uint8_t *classes,
                                const dl_launches *launches)
{
    DL_ASSERT(count < UINT32_MAX, "%zu activities", count);
    matching m = {.activities = activities,
                  .strings = strings,
                  .communicators = dl_communicators_find(activities, count)};
    DL_AUTOFREE event *events = NULL;
    size_t event_count = 0;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &activities[i];
        if (a->kind == DL_ACTIVITY_COLLECTIVE) {
            DL_APPEND(events, event_count, "collectives") =
                (event){a->thread, a->start_ns, (uint32_t)i, false};
        }
        if (a->kind != DL_ACTIVITY_KERNEL || classes[a->name] != DL_KERNEL_COLLECTIVE) continue;
        const dl_activity *launch = dl_launches_find(launches, a->correlation);
        if (launch != NULL) {
            DL_APPEND(events, event_count, "collectives") =
                (event){launch->thread, launch->start_ns, (uint32_t)i, true};
        } else {
            DL_APPEND(list->kernels, list->count, "collectives") = kernel_alone(&m, (uint32_t)i);
        }
    }
    dl_sort(events, event_count, sizeof *events, by_thread_and_time);
    match_all(list, &m, events, event_count);
    dl_sort(list->kernels, list->count, sizeof *list->kernels, by_start);
    free(m.communicators.items);
}

void dl_collective_kernels_free(dl_collective_kernels *list)
{
    free(list->kernels);
    *list = (dl_collective_kernels){0};
}

/* Makes kernels of equal collectives adjacent. */
DL_ORDER(by_content, dl_collective_kernel, DL_BY(device), DL_BY_TEXT(name), DL_BY(bytes),
         DL_BY(ranks), DL_BY(calls), isnan(a->ready_frac) - isnan(b->ready_frac));

static int by_total(const void *left, const void *right)
{
    const dl_collective_summary *a = left, *b = right;
    double a_ns = a->duration_ns.mean * (double)a->duration_ns.count;
    double b_ns = b->duration_ns.mean * (double)b->duration_ns.count;
    int order = DL_COMPARE(a->device, b->device);
    return order != 0 ? order : DL_COMPARE(b_ns, a_ns);
}

/* Returns whether NCCL counts one rank's share of the collective, so that S = ranks * bytes. */
static bool counts_shares(const char *name)
{
    static const char *const names[] = {"AllGather", "ReduceScatter", "AlltoAll",
                                        "AllToAll",  "Gather",        "Scatter"};
    return dl_names_find(name, names, sizeof names / sizeof names[0]) >= 0;
}

double dl_collective_bus_factor(const char *name, uint32_t ranks)
{
    double n = ranks;
    if (ranks < 2) return 0;
    if (strcmp(name, "AllReduce") == 0) return 2 * (n - 1) / n;
    return counts_shares(name) ? n - 1 : 1;
}

static void sum_kernels(dl_collectives *collectives, const dl_collective_kernel *kernels,
                        size_t count, double *durations_ns)
{
    dl_collective_summary *c =
        &DL_APPEND(collectives->collectives, collectives->count, "collectives");
    double ready = 0;
    bool integers = true;
    for (size_t i = 0; i < count; i++) {
        durations_ns[i] = (double)kernels[i].duration_ns;
        ready += kernels[i].ready_frac;
        integers = integers && kernels[i].integers;
    }
    *c = (dl_collective_summary){.device = kernels[0].device,
                                 .name = kernels[0].name,
                                 .bytes = kernels[0].bytes,
                                 .ranks = kernels[0].ranks,
                                 .calls = kernels[0].calls,
                                 .integers = integers,
                                 .ready_frac = ready / (double)count,
                                 .duration_ns = dl_distribution_of(durations_ns, count)};
    double bytes = (double)c->bytes, factor = dl_collective_bus_factor(c->name, c->ranks);
    if (c->duration_ns.low <= 0 || factor <= 0 || strcmp(c->name, "group") == 0) return;
    double median_s = dl_ns_to_s(c->duration_ns.p50);
    c->algorithm_bytes_per_s = bytes * (counts_shares(c->name) ? c->ranks : 1) / median_s;
    c->bus_bytes_per_s = bytes * factor / median_s;
    c->best_bus_bytes_per_s = bytes * factor / dl_ns_to_s(c->duration_ns.low);
}

void dl_collectives_init(dl_collectives *collectives, const dl_activity *activities, size_t count,
                         char *const *strings, const uint8_t *classes, const dl_launches *launches)
{
    DL_SCOPED(dl_collective_kernels) list = {0};
    dl_collective_kernels_find(&list, activities, count, strings, classes, launches);
    dl_collectives_add(collectives, list.kernels, list.count);
}

void dl_collectives_add(dl_collectives *collectives, dl_collective_kernel *kernels, size_t count)
{
    DL_AUTOFREE double *durations_ns = dl_calloc(count, sizeof *durations_ns, "collectives");
    dl_sort(kernels, count, sizeof *kernels, by_content);
    DL_GROUPS (first, end, count, by_content(&kernels[first], &kernels[end]) == 0)
        sum_kernels(collectives, kernels + first, end - first, durations_ns);
    dl_sort(collectives->collectives, collectives->count, sizeof *collectives->collectives,
            by_total);
}

void dl_collectives_free(dl_collectives *collectives)
{
    free(collectives->collectives);
    *collectives = (dl_collectives){0};
}
