#include "trace/activity/activity_collectives.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* A kernel with what is known of it. */
typedef struct run {
    uint32_t device, ranks, calls;
    const char *name, *algorithm;
    uint64_t bytes;
    int64_t duration_ns;
} run;

/* Kernels that carry out the same, the longest first. */
static int by_content(const void *left, const void *right)
{
    const run *a = left, *b = right;
    int order = COMPARE(a->device, b->device);
    if (order == 0) order = strcmp(a->name, b->name);
    if (order == 0) order = strcmp(a->algorithm, b->algorithm);
    if (order == 0) order = COMPARE(a->bytes, b->bytes);
    if (order == 0) order = COMPARE(a->ranks, b->ranks);
    return order != 0 ? order : COMPARE(a->calls, b->calls);
}

static int by_total(const void *left, const void *right)
{
    const dl_collective_summary *a = left, *b = right;
    double a_ns = a->duration_ns.mean * (double)a->duration_ns.count;
    double b_ns = b->duration_ns.mean * (double)b->duration_ns.count;
    int order = COMPARE(a->device, b->device);
    return order != 0 ? order : COMPARE(b_ns, a_ns);
}

/* Whether NCCL counts one rank's share of it, so that S = ranks * bytes. */
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

static void sum_runs(dl_collectives *collectives, const run *runs, size_t count,
                     double *durations_ns)
{
    for (size_t i = 0; i < count; i++)
        durations_ns[i] = (double)runs[i].duration_ns;
    dl_collective_summary *c = &collectives->collectives[collectives->count++];
    *c = (dl_collective_summary){.device = runs[0].device,
                                 .name = runs[0].name,
                                 .algorithm = runs[0].algorithm,
                                 .bytes = runs[0].bytes,
                                 .ranks = runs[0].ranks,
                                 .calls = runs[0].calls,
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
    dl_collective_kernels list = {0};
    dl_collective_kernels_find(&list, activities, count, strings, classes, launches);
    if (list.count == 0) return;
    run *runs = dl_calloc(list.count, sizeof *runs, "collectives");
    for (size_t i = 0; i < list.count; i++) {
        const dl_collective_kernel *k = &list.kernels[i];
        const dl_activity *a = &activities[k->activity];
        runs[i] =
            (run){a->device, k->ranks, k->calls, k->name, k->algorithm, k->bytes, a->duration_ns};
    }
    qsort(runs, list.count, sizeof *runs, by_content);
    size_t groups = 0;
    for (size_t i = 0; i < list.count; i++)
        groups += i == 0 || by_content(&runs[i - 1], &runs[i]) != 0;
    collectives->collectives = dl_calloc(groups, sizeof *collectives->collectives, "collectives");
    double *durations_ns = dl_calloc(list.count, sizeof *durations_ns, "collectives");
    for (size_t first = 0, end; first < list.count; first = end) {
        for (end = first + 1; end < list.count; end++) {
            if (by_content(&runs[first], &runs[end]) != 0) break;
        }
        sum_runs(collectives, runs + first, end - first, durations_ns);
    }
    free(durations_ns);
    free(runs);
    dl_collective_kernels_free(&list);
    qsort(collectives->collectives, collectives->count, sizeof *collectives->collectives, by_total);
}

void dl_collectives_free(dl_collectives *collectives)
{
    free(collectives->collectives);
    *collectives = (dl_collectives){0};
}
