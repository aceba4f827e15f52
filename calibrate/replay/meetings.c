#include "calibrate/replay/meetings.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/collective_kernels.h"

static dl_collective_kernels kernels_of(const dl_trace *trace)
{
    dl_launches launches = {0};
    dl_collective_kernels list = {0};
    uint8_t *classes = dl_kernel_classes(trace->activities, trace->activity_count, trace->strings,
                                         trace->string_count);
    dl_launches_init(&launches, trace->activities, trace->activity_count);
    dl_collective_kernels_find(&list, trace->activities, trace->activity_count, trace->strings,
                               classes, &launches);
    dl_launches_free(&launches);
    free(classes);
    return list;
}

/* The kernels of one rank by name, those of a name by start. */
typedef struct by_name {
    dl_collective_kernels list;
    const dl_collective_kernel **order; /* [list.count] */
} by_name;

static int compare_names(const void *left, const void *right)
{
    const dl_collective_kernel *a = *(dl_collective_kernel *const *)left;
    const dl_collective_kernel *b = *(dl_collective_kernel *const *)right;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a > b) - (a < b);
}

static int compare_meetings(const void *left, const void *right)
{
    const dl_meeting *a = left, *b = right;
    if (a->last_ns != b->last_ns) return a->last_ns < b->last_ns ? -1 : 1;
    return (a->nodes[0] > b->nodes[0]) - (a->nodes[0] < b->nodes[0]);
}

static by_name sort_kernels(const dl_trace *trace)
{
    by_name names = {.list = kernels_of(trace)};
    names.order = dl_calloc(names.list.count, sizeof *names.order, "collectives");
    for (size_t i = 0; i < names.list.count; i++)
        names.order[i] = &names.list.kernels[i];
    if (names.list.count > 0) {
        qsort(names.order, names.list.count, sizeof *names.order, compare_names);
    }
    return names;
}

/* Where the kernels of `name` begin, and how many they are. */
static size_t find_name(const by_name *names, const char *name, size_t *count)
{
    size_t low = 0, high = names->list.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(names->order[middle]->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *count = 0;
    while (low + *count < names->list.count && strcmp(names->order[low + *count]->name, name) == 0)
        ++*count;
    return low;
}

/* kernels[rank] meet. */
static void add(dl_meetings *meetings, const dl_replay_run *run,
                const dl_collective_kernel *const *kernels)
{
    const double ranks = (double)run->rank_count;
    dl_meeting m = {.name = dl_strdup(kernels[0]->name),
                    .ranks = kernels[0]->ranks,
                    .nodes = dl_calloc(run->rank_count, sizeof *m.nodes, "collectives"),
                    .last_ns = INT64_MIN};
    double end_ns = 0;
    for (size_t r = 0; r < run->rank_count; r++) {
        const dl_activity *a = &run->ranks[r].trace->activities[kernels[r]->activity];
        m.nodes[r] = run->ranks[r].node_of[kernels[r]->activity];
        m.bytes += (double)kernels[r]->bytes / ranks;
        if (a->start_ns > m.last_ns) m.last_ns = a->start_ns;
        end_ns += (double)(a->start_ns + a->duration_ns - kernels[0]->start_ns) / ranks;
    }
    m.end_ns = kernels[0]->start_ns + (int64_t)end_ns;
    meetings->meetings[meetings->count++] = m;
}

/* The kernels of one name, count of them from `first` on of the first rank. */
static void add_name(dl_meetings *meetings, const dl_replay_run *run, const by_name *ranks,
                     size_t first, size_t count)
{
    const char *name = ranks[0].order[first]->name;
    size_t *begins = dl_calloc(run->rank_count, sizeof *begins, "collectives");
    const dl_collective_kernel **kernels =
        dl_calloc(run->rank_count, sizeof *kernels, "collectives");
    bool all_have_it = true;
    for (size_t r = 0; r < run->rank_count; r++) {
        size_t others;
        begins[r] = find_name(&ranks[r], name, &others);
        all_have_it = all_have_it && others == count;
    }
    for (size_t k = 0; k < count && all_have_it; k++) {
        for (size_t r = 0; r < run->rank_count; r++)
            kernels[r] = ranks[r].order[begins[r] + k];
        add(meetings, run, kernels);
    }
    free(begins);
    free(kernels);
}

void dl_meetings_find(dl_meetings *meetings, const dl_replay_run *run)
{
    by_name *ranks = dl_calloc(run->rank_count, sizeof *ranks, "collectives");
    size_t kernels = 0, count;
    for (size_t r = 0; r < run->rank_count; r++) {
        ranks[r] = sort_kernels(run->ranks[r].trace);
        kernels += ranks[r].list.count;
    }
    meetings->meetings = dl_calloc(ranks[0].list.count, sizeof *meetings->meetings, "collectives");
    for (size_t first = 0; first < ranks[0].list.count; first += count) {
        find_name(&ranks[0], ranks[0].order[first]->name, &count);
        add_name(meetings, run, ranks, first, count);
    }
    meetings->left_alone = kernels - meetings->count * run->rank_count;
    if (meetings->count > 0) {
        qsort(meetings->meetings, meetings->count, sizeof *meetings->meetings, compare_meetings);
    }
    for (size_t r = 0; r < run->rank_count; r++) {
        dl_collective_kernels_free(&ranks[r].list);
        free(ranks[r].order);
    }
    free(ranks);
}

void dl_meetings_free(dl_meetings *meetings)
{
    for (size_t i = 0; i < meetings->count; i++) {
        free(meetings->meetings[i].name);
        free(meetings->meetings[i].nodes);
    }
    free(meetings->meetings);
    *meetings = (dl_meetings){0};
}
