#include "trace/activity/groups.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/kernel_class.h"

/* --- lists of ranks --------------------------------------------------------------------------- */

/* Reads the next number of the list at *at; returns false at its end. *gap: "..." precedes it. */
static bool next_rank(const char **at, int64_t *rank, bool *gap)
{
    *gap = false;
    for (; **at != '\0'; ++*at) {
        if (isdigit((unsigned char)**at)) {
            char *end = NULL;
            *rank = strtoll(*at, &end, 10);
            *at = end;
            return true;
        }
        *gap = *gap || strncmp(*at, "...", 3) == 0;
    }
    return false;
}

/* A list of ranks whose numbers may be equally spaced. */
typedef struct rank_list {
    int64_t first, step, last;
    uint32_t count; /* numbers in the list; of a list with a gap, the given number of ranks */
    bool even;      /* ranks are first, first + step, ..., last; step >= 1 */
    bool gap;
} rank_list;

static rank_list look_at(const char *ranks, uint32_t count)
{
    rank_list list = {.even = true};
    int64_t rank = 0;
    bool gap = false;
    while (next_rank(&ranks, &rank, &gap)) {
        if (gap) {
            list.gap = true;
            list.count = count > 0 ? count - 1 : list.count;
        }
        if (list.count == 0) list.first = list.last = rank;
        if (list.count == 1) list.step = rank - list.first;
        const int64_t steps = (int64_t)list.count;
        list.even = list.even && list.step >= 0 && list.step <= INT32_MAX && rank <= UINT32_MAX &&
                    list.first <= UINT32_MAX && rank == list.first + steps * list.step;
        list.last = rank;
        list.count++;
    }
    list.even = list.even && list.count > 0 && (list.count == 1 || list.step > 0) &&
                (count == 0 || list.count == count);
    return list;
}

int64_t dl_group_place(const char *ranks, uint32_t count, int64_t rank)
{
    const rank_list list = look_at(ranks, count);
    int64_t place = 0, other = 0;
    bool gap = false;
    if (list.even && list.step > 0) {
        place = (rank - list.first) / list.step;
        const bool inside = rank >= list.first && rank <= list.last;
        return inside && (rank - list.first) % list.step == 0 ? place : -1;
    }
    for (; next_rank(&ranks, &other, &gap); place++) {
        if (gap) place = count > 0 ? (int64_t)count - 1 : INT64_MIN;
        if (other == rank) return place >= 0 ? place : -1;
    }
    return -1;
}

int64_t dl_group_rank(const char *ranks, uint32_t count, int64_t place)
{
    const rank_list list = look_at(ranks, count);
    int64_t rank = 0;
    bool gap = false;
    if (place < 0) return -1;
    if (list.even) return place < (int64_t)list.count ? list.first + place * list.step : -1;
    for (int64_t at = 0; next_rank(&ranks, &rank, &gap); at++) {
        if (gap) return count > 0 && place == (int64_t)count - 1 ? rank : -1;
        if (at == place) return rank;
    }
    return -1;
}

char *dl_group_members(const char *ranks, uint32_t count)
{
    const rank_list list = look_at(ranks, count);
    if (list.even && list.count > 2) {
        return list.step == 1 ? dl_format("%" PRId64 "-%" PRId64, list.first, list.last)
                              : dl_format("%" PRId64 "-%" PRId64 " by %" PRId64, list.first,
                                          list.last, list.step);
    }
    char *text = NULL;
    int64_t rank = 0;
    bool gap = false;
    while (next_rank(&ranks, &rank, &gap)) {
        dl_join_format(&text, ", ", gap ? "..., %" PRId64 : "%" PRId64, rank);
    }
    return text != NULL ? text : dl_strdup("");
}

/* --- collectives by group --------------------------------------------------------------------- */

/* Returns the spans in which the devices compute: kernels other than collectives, and graphs. */
static dl_spans find_computing(const dl_activity *activities, size_t count, const uint8_t *classes)
{
    dl_spans spans = {0};
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &activities[i];
        const bool kernel =
            a->kind == DL_ACTIVITY_KERNEL && classes[a->name] != DL_KERNEL_COLLECTIVE;
        if (!kernel && a->kind != DL_ACTIVITY_GRAPH) continue;
        dl_spans_add(&spans, a->device, a->start_ns, a->start_ns + a->duration_ns);
    }
    dl_spans_join(&spans);
    return spans;
}

DL_ORDER(by_group, dl_collective_kernel, DL_BY(device), DL_BY_TEXT(name), DL_BY(object),
         DL_BY(ranks));

DL_ORDER(by_total, dl_group_summary, DL_BY(device), DL_BY_DESCENDING(total_ns), DL_BY_TEXT(name),
         DL_BY(object));

static const dl_step_line *line_of(const dl_activity_steps *steps, uint32_t device)
{
    for (size_t i = 0; steps != NULL && i < steps->count; i++) {
        const dl_step_line *line = &steps->lines[i];
        if (line->device == device && line->regular_count > 0) return line;
    }
    return NULL;
}

/* Sums kernels[count] of one group: all if `line` is NULL, else those of its regular steps, or of
 * those marked in timed[line->count] unless that is NULL. */
static dl_group_summary sum_group(const dl_collective_kernel *kernels, size_t count,
                                  const dl_spans *computing, const dl_step_line *line,
                                  const uint8_t *timed)
{
    dl_group_summary sum = {.device = kernels[0].device,
                            .ranks = kernels[0].ranks,
                            .name = kernels[0].name,
                            .object = kernels[0].object,
                            .group = "",
                            .members = ""};
    for (size_t i = 0; i < count; i++) {
        const dl_collective_kernel *k = &kernels[i];
        const dl_activity_step *step = line != NULL ? dl_regular_step_at(line, k->start_ns) : NULL;
        if (line != NULL && (step == NULL || (timed != NULL && !timed[step - line->steps])))
            continue;
        sum.count++;
        sum.bytes += (double)k->bytes;
        sum.total_ns += (double)k->duration_ns;
        sum.exposed_ns +=
            (double)(k->duration_ns - dl_spans_covered(computing, k->device, k->start_ns,
                                                       k->start_ns + k->duration_ns));
    }
    if (line != NULL) sum.per_step = (double)sum.count / (double)line->regular_count;
    return sum;
}

static dl_groups find_groups(const dl_trace *trace, const uint8_t *classes,
                             const dl_launches *launches, const dl_activity_steps *steps,
                             const uint8_t *timed)
{
    dl_groups groups = {0};
    DL_SCOPED(dl_collective_kernels) list = {0};
    dl_collective_kernels_find(&list, trace->activities, trace->activity_count, trace->strings,
                               classes, launches);
    dl_communicators comms = dl_communicators_find(trace->activities, trace->activity_count);
    DL_AUTO(dl_spans_free)
    dl_spans computing = find_computing(trace->activities, trace->activity_count, classes);
    dl_sort(list.kernels, list.count, sizeof *list.kernels, by_group);
    DL_GROUPS (first, end, list.count, by_group(&list.kernels[first], &list.kernels[end]) == 0) {
        const dl_step_line *line = line_of(steps, list.kernels[first].device);
        if (timed != NULL && line == NULL) continue;
        dl_group_summary sum =
            sum_group(&list.kernels[first], end - first, &computing, line, timed);
        const dl_activity *comm = dl_communicators_get(&comms, sum.object);
        if (comm != NULL && sum.object != 0) {
            sum.group = trace->strings[comm->name];
            sum.members = trace->strings[comm->detail];
        }
        if (sum.count > 0) DL_APPEND(groups.items, groups.count, "process groups") = sum;
    }
    dl_sort(groups.items, groups.count, sizeof *groups.items, by_total);
    free(comms.items);
    return groups;
}

dl_groups dl_groups_find(const dl_trace *trace, const uint8_t *classes, const dl_launches *launches,
                         const dl_activity_steps *steps)
{
    return find_groups(trace, classes, launches, steps, NULL);
}

dl_groups dl_groups_of_line(const dl_trace *trace, const uint8_t *classes,
                            const dl_launches *launches, const dl_step_line *line,
                            const uint8_t *timed)
{
    dl_step_line own = *line;
    return find_groups(trace, classes, launches, &(dl_activity_steps){&own, 1}, timed);
}
