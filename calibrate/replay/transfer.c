#include "calibrate/replay/transfer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* Sizes that differ by less than rounding are one. */
#define SAME_SIZE 1e-12

static int by_name(const void *left, const void *right)
{
    const dl_meeting *a = *(dl_meeting *const *)left, *b = *(dl_meeting *const *)right;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a > b) - (a < b);
}

/* From the last rank's start to the end; of one rank the whole kernel. */
static double time_of(const dl_meeting *meeting, const dl_replay_run *run)
{
    const int64_t ns = run->rank_count > 1 ? meeting->end_ns - meeting->last_ns
                                           : run->graph.nodes[meeting->nodes[0]].duration_ns;
    return ns > 0 ? (double)ns : 0;
}

/* Adds a point as the count-th. */
static void add_point(dl_transfer_sums *s, size_t count, double x, double y)
{
    const double dx = x - s->mean_x, dy = y - s->mean_y, n = (double)count;
    s->mean_x += dx / n;
    s->mean_y += dy / n;
    s->xx += dx * (x - s->mean_x);
    s->xy += dx * (y - s->mean_y);
    s->yy += dy * (y - s->mean_y);
}

/* The sums of the others of `count` >= 2 points. */
static dl_transfer_sums without_point(const dl_transfer_sums *s, size_t count, double x, double y)
{
    const double n = (double)count;
    dl_transfer_sums rest = *s;
    rest.mean_x -= (x - s->mean_x) / (n - 1);
    rest.mean_y -= (y - s->mean_y) / (n - 1);
    rest.xx -= (x - s->mean_x) * (x - rest.mean_x);
    rest.xy -= (x - s->mean_x) * (y - rest.mean_y);
    rest.yy -= (y - s->mean_y) * (y - rest.mean_y);
    return rest;
}

/* Of the least-squares line; if one of its numbers is negative, of the best line without it. */
static void fit_line(dl_transfer_line *line, const dl_transfer_sums *s, size_t count)
{
    const double n = (double)count;
    const bool same = s->xx <= SAME_SIZE * n * s->mean_x * s->mean_x;
    line->ns_per_byte = same ? 0 : fmax(0, s->xy / s->xx);
    line->latency_ns = s->mean_y - line->ns_per_byte * s->mean_x;
    if (line->latency_ns < 0) {
        line->latency_ns = 0;
        line->ns_per_byte =
            (s->xy + n * s->mean_x * s->mean_y) / (s->xx + n * s->mean_x * s->mean_x);
    }
    const double slope = line->ns_per_byte;
    const double bias = s->mean_y - line->latency_ns - slope * s->mean_x;
    const double squares = s->yy - 2 * slope * s->xy + slope * slope * s->xx + n * bias * bias;
    line->error_ns = sqrt(fmax(0, squares) / n);
}

/* The line of meetings[count] of one name; false if none has a known size. */
static bool make_line(dl_transfer_line *line, dl_meeting *const *meetings, size_t count,
                      const dl_replay_run *run)
{
    double lowest = INFINITY;
    *line = (dl_transfer_line){.name = meetings[0]->name, .second = INFINITY};
    for (size_t i = 0; i < count; i++) {
        const double bytes = meetings[i]->bytes, ns = time_of(meetings[i], run);
        if (bytes <= 0) continue;
        add_point(&line->sums, ++line->meetings, bytes, ns);
        line->second = fmin(line->second, fmax(lowest, ns / bytes));
        lowest = fmin(lowest, ns / bytes);
    }
    if (line->meetings == 0) return false;
    if (run->rank_count > 1) {
        fit_line(line, &line->sums, line->meetings);
    } else {
        line->ns_per_byte = lowest;
    }
    return true;
}

void dl_transfer_fit(dl_transfer *transfer, const dl_meetings *meetings, const dl_replay_run *run)
{
    dl_meeting **order = dl_calloc(meetings->count, sizeof *order, "collectives");
    for (size_t i = 0; i < meetings->count; i++)
        order[i] = &meetings->meetings[i];
    if (meetings->count > 0) qsort(order, meetings->count, sizeof(dl_meeting *), by_name);
    for (size_t first = 0, end; first < meetings->count; first = end) {
        for (end = first + 1;
             end < meetings->count && strcmp(order[end]->name, order[first]->name) == 0;)
            end++;
        transfer->lines = dl_realloc(transfer->lines, transfer->count + 1, sizeof *transfer->lines,
                                     "collectives");
        dl_transfer_line *line = &transfer->lines[transfer->count];
        transfer->count += make_line(line, &order[first], end - first, run);
    }
    free(order);
}

static const dl_transfer_line *find_line(const dl_transfer *transfer, const char *name)
{
    size_t low = 0, high = transfer->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(transfer->lines[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const bool found = low < transfer->count && strcmp(transfer->lines[low].name, name) == 0;
    return found ? &transfer->lines[low] : NULL;
}

static double by_line(const dl_transfer_line *line, const dl_meeting *meeting)
{
    return line->latency_ns + line->ns_per_byte * meeting->bytes;
}

double dl_transfer_ns(const dl_transfer *transfer, const dl_meeting *meeting)
{
    const dl_transfer_line *line = find_line(transfer, meeting->name);
    if (line == NULL || meeting->bytes <= 0) return (double)NAN;
    return by_line(line, meeting);
}

double dl_transfer_ns_without(const dl_transfer *transfer, const dl_meeting *meeting,
                              const dl_replay_run *run)
{
    const dl_transfer_line *line = find_line(transfer, meeting->name);
    if (line == NULL || meeting->bytes <= 0 || line->meetings < 2) return (double)NAN;
    const double ns = time_of(meeting, run);
    dl_transfer_line others = *line;
    if (run->rank_count == 1) {
        if (ns / meeting->bytes <= line->ns_per_byte) others.ns_per_byte = line->second;
    } else {
        const dl_transfer_sums rest =
            without_point(&line->sums, line->meetings, meeting->bytes, ns);
        fit_line(&others, &rest, line->meetings - 1);
    }
    return by_line(&others, meeting);
}

void dl_transfer_free(dl_transfer *transfer)
{
    free(transfer->lines);
    *transfer = (dl_transfer){0};
}
