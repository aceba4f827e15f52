#include "calibrate/replay/overlap.h"

#include <gsl/gsl_statistics_double.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/random.h"
#include "trace/kernel_class.h"

#define RESAMPLINGS 400
/* A work ran beside collectives if they cover so much of it; alone if nothing does. */
#define BESIDE 0.95

typedef struct span {
    int64_t start_ns, end_ns;
} span;

typedef struct ratio {
    double value, weight;
} ratio;

static int by_start(const void *left, const void *right)
{
    const span *a = left, *b = right;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static int by_value(const void *left, const void *right)
{
    const ratio *a = left, *b = right;
    return (a->value > b->value) - (a->value < b->value);
}

/* When collectives ran on the line's device, overlaps joined. */
static span *take_spans(const dl_trace *trace, const dl_step_line *line, const uint8_t *classes,
                        size_t *count)
{
    span *spans = dl_calloc(trace->activity_count, sizeof *spans, "collectives");
    size_t all = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_KERNEL || a->device != line->device ||
            classes[a->name] != DL_KERNEL_COLLECTIVE)
            continue;
        spans[all++] = (span){a->start_ns, a->start_ns + a->duration_ns};
    }
    if (all > 0) qsort(spans, all, sizeof *spans, by_start);
    *count = 0;
    for (size_t i = 0; i < all; i++) {
        if (*count > 0 && spans[i].start_ns <= spans[*count - 1].end_ns) {
            if (spans[i].end_ns > spans[*count - 1].end_ns) {
                spans[*count - 1].end_ns = spans[i].end_ns;
            }
        } else {
            spans[(*count)++] = spans[i];
        }
    }
    return spans;
}

static double covered(const span *spans, size_t count, const dl_activity *work)
{
    const int64_t end_ns = work->start_ns + work->duration_ns;
    size_t low = 0, high = count; /* first that ends behind the work's start */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (spans[middle].end_ns <= work->start_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    int64_t sum_ns = 0;
    for (; low < count && spans[low].start_ns < end_ns; low++) {
        const int64_t from =
            spans[low].start_ns > work->start_ns ? spans[low].start_ns : work->start_ns;
        const int64_t to = spans[low].end_ns < end_ns ? spans[low].end_ns : end_ns;
        sum_ns += to - from;
    }
    return (double)sum_ns / (double)work->duration_ns;
}

static double weighted_median(ratio *ratios, size_t count)
{
    qsort(ratios, count, sizeof *ratios, by_value);
    double all = 0, so_far = 0;
    for (size_t i = 0; i < count; i++)
        all += ratios[i].weight;
    for (size_t i = 0; i < count; i++) {
        so_far += ratios[i].weight;
        if (so_far >= all / 2) return ratios[i].value;
    }
    return 1;
}

static double resampled_error(const ratio *ratios, size_t count)
{
    double medians[RESAMPLINGS];
    ratio *drawn = dl_calloc(count, sizeof *drawn, "ratios");
    dl_random stream;
    dl_random_init(&stream, 1, 0, 0, 0);
    for (size_t r = 0; r < RESAMPLINGS; r++) {
        for (size_t i = 0; i < count; i++)
            drawn[i] = ratios[dl_random_below(&stream, count)];
        medians[r] = weighted_median(drawn, count);
    }
    free(drawn);
    return gsl_stats_sd(medians, 1, RESAMPLINGS);
}

/* A work of a regular step. */
typedef struct work {
    uint32_t name, detail;
    uint32_t occurrence; /* of these in its step */
    const dl_activity *activity;
} work;

static int by_kernel(const work *a, const work *b)
{
    if (a->name != b->name) return a->name < b->name ? -1 : 1;
    return (a->detail > b->detail) - (a->detail < b->detail);
}

static int by_kernel_and_order(const void *left, const void *right)
{
    const work *a = left, *b = right;
    const int order = by_kernel(a, b);
    return order != 0 ? order : (a->occurrence > b->occurrence) - (a->occurrence < b->occurrence);
}

/* Numbers the occurrences of equal kernels of one step, whose works come in launch order. */
static void number_step(work *works, size_t count)
{
    for (size_t i = 0; i < count; i++)
        works[i].occurrence = (uint32_t)i;
    qsort(works, count, sizeof *works, by_kernel_and_order);
    for (size_t i = 0; i < count; i++) {
        const bool same = i > 0 && by_kernel(&works[i - 1], &works[i]) == 0;
        works[i].occurrence = same ? works[i - 1].occurrence + 1 : 0;
    }
}

/* The kernels of all regular steps, equal ones of different steps side by side. */
static work *take_works(const dl_trace *trace, const dl_step_line *line, const uint8_t *classes,
                        size_t *count)
{
    work *works = dl_calloc(line->work_count, sizeof *works, "works");
    *count = 0;
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *step = &line->steps[s];
        const size_t before = *count;
        for (size_t w = step->first; w < step->first + step->count; w++) {
            const dl_activity *a = &trace->activities[line->work[w]];
            if (step->label != DL_STEP_REGULAR || a->kind != DL_ACTIVITY_KERNEL ||
                classes[a->name] == DL_KERNEL_COLLECTIVE)
                continue;
            works[(*count)++] = (work){.name = a->name, .detail = a->detail, .activity = a};
        }
        if (*count > before) number_step(&works[before], *count - before);
    }
    if (*count > 0) qsort(works, *count, sizeof *works, by_kernel_and_order);
    return works;
}

/* The ratio of equal works[count], if they were seen both ways. */
static bool compare(const work *works, size_t count, const span *spans, size_t span_count,
                    ratio *found)
{
    double sums[2] = {0};
    size_t counts[2] = {0};
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = works[i].activity;
        if (a->duration_ns < DL_OVERLAP_SHORTEST_NS) return false;
        const double share = covered(spans, span_count, a);
        if (share > 0 && share < BESIDE) continue;
        sums[share > 0] += (double)a->duration_ns;
        counts[share > 0]++;
    }
    if (counts[0] == 0 || counts[1] == 0) return false;
    const double alone_ns = sums[0] / (double)counts[0];
    *found = (ratio){.value = sums[1] / (double)counts[1] / alone_ns, .weight = alone_ns};
    return true;
}

dl_overlap_slowdown dl_overlap_slowdown_find(const dl_trace *trace, const dl_step_line *line)
{
    dl_overlap_slowdown slowdown = {.factor = 1};
    uint8_t *classes = dl_kernel_classes(trace->activities, trace->activity_count, trace->strings,
                                         trace->string_count);
    size_t span_count, work_count;
    span *spans = take_spans(trace, line, classes, &span_count);
    work *works = take_works(trace, line, classes, &work_count);
    ratio *ratios = dl_calloc(work_count, sizeof *ratios, "ratios");
    for (size_t first = 0, end; first < work_count; first = end) {
        end = first + 1;
        while (end < work_count && by_kernel_and_order(&works[first], &works[end]) == 0)
            end++;
        ratio *next = &ratios[slowdown.works];
        if (!compare(&works[first], end - first, spans, span_count, next)) continue;
        slowdown.alone_ns += next->weight;
        slowdown.works++;
    }
    if (slowdown.works > 0) {
        slowdown.error = resampled_error(ratios, slowdown.works);
        slowdown.factor = weighted_median(ratios, slowdown.works);
    }
    free(spans);
    free(works);
    free(ratios);
    free(classes);
    return slowdown;
}
