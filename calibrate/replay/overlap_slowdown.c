/* Slowdown of a device's computation beside collectives. See step_costs.h. */
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/random.h"
#include "common/sort.h"
#include "trace/activity/kernel_class.h"

#define RESAMPLINGS 400
/* A kernel ran beside collectives if they cover at least this fraction of its time, and alone if
 * they cover none of it. */
#define BESIDE 0.95

dl_spans dl_collective_spans(const dl_trace *trace)
{
    dl_spans spans = {0};
    DL_AUTOFREE uint8_t *classes = dl_kernel_classes(trace);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_KERNEL || classes[a->name] != DL_KERNEL_COLLECTIVE) continue;
        dl_spans_add(&spans, a->device, a->start_ns, a->start_ns + a->duration_ns);
    }
    dl_spans_join(&spans);
    return spans;
}

typedef enum situation { ALONE, WITH_COLLECTIVES, PARTLY } situation;

/* A kernel of a regular step, except collectives. */
typedef struct work {
    uint32_t name, detail;
    uint32_t occurrence; /* index among the equal kernels of its step */
    uint32_t step;       /* index among the regular steps */
    situation situation;
    double ns; /* duration; take_pace_out divides it by the step's pace */
} work;

DL_ORDER(by_kernel, work, DL_BY(name), DL_BY(detail));

DL_ORDER(by_kernel_and_order, work, by_kernel(a, b), DL_BY(occurrence));

/* Numbers the occurrences of equal kernels in one step, whose operations are in launch order. */
static void number_step(work *works, size_t count)
{
    for (size_t i = 0; i < count; i++)
        works[i].occurrence = (uint32_t)i;
    dl_sort(works, count, sizeof *works, by_kernel_and_order);
    for (size_t i = 0; i < count; i++) {
        const bool same = i > 0 && by_kernel(&works[i - 1], &works[i]) == 0;
        works[i].occurrence = same ? works[i - 1].occurrence + 1 : 0;
    }
}

static work make_work(const dl_activity *a, uint32_t step, const dl_spans *collectives)
{
    const int64_t covered_ns =
        dl_spans_covered(collectives, a->device, a->start_ns, a->start_ns + a->duration_ns);
    const bool beside = (double)covered_ns >= BESIDE * (double)a->duration_ns;
    return (work){.name = a->name,
                  .detail = a->detail,
                  .step = step,
                  .situation = covered_ns == 0 ? ALONE
                               : beside        ? WITH_COLLECTIVES
                                               : PARTLY,
                  .ns = (double)a->duration_ns};
}

/* Returns the kernels of all regular steps, sorted so that equal kernels of different steps are
 * adjacent. */
static work *take_works(const dl_trace *trace, const dl_step_line *line,
                        const dl_spans *collectives, size_t *count)
{
    work *works = dl_calloc(line->work_count, sizeof *works, "works");
    DL_AUTOFREE uint8_t *classes = dl_kernel_classes(trace);
    uint32_t number = 0;
    *count = 0;
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *step = &line->steps[s];
        const size_t before = *count;
        if (step->label != DL_STEP_REGULAR) continue;
        for (size_t w = step->first; w < step->first + step->count; w++) {
            const dl_activity *a = &trace->activities[line->work[w]];
            if (a->kind != DL_ACTIVITY_KERNEL || classes[a->name] == DL_KERNEL_COLLECTIVE) continue;
            works[(*count)++] = make_work(a, number, collectives);
        }
        number_step(&works[before], *count - before);
        number++;
    }
    dl_sort(works, *count, sizeof *works, by_kernel_and_order);
    return works;
}

static double mean_ns(const work *works, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += works[i].ns;
    return sum / (double)count;
}

/* A ratio of times with its weight, for a pace or a slowdown. */
typedef struct ratio {
    double value, weight;
    uint32_t step; /* step of a pace */
    /* for slowdowns: 1 / observations alone + 1 / observations beside collectives, proportional to
     * the variance */
    double open;
} ratio;

DL_ORDER(by_value, ratio, DL_BY(value));

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

/* Writes to `ratios` each time of the operations that ran alone in all steps, divided by the
 * operation's mean, with its step; returns their number. */
static size_t list_paces(const work *works, size_t count, ratio *ratios)
{
    size_t found = 0;
    DL_GROUPS (first, end, count, by_kernel_and_order(&works[first], &works[end]) == 0) {
        bool alone = true;
        for (size_t i = first; i < end; i++)
            alone = alone && works[i].situation == ALONE;
        const double mean = mean_ns(&works[first], end - first);
        for (size_t i = first; i < end && alone && mean > 0; i++)
            ratios[found++] = (ratio){works[i].ns / mean, mean, works[i].step, 0};
    }
    return found;
}

DL_ORDER(by_step, ratio, DL_BY(step));

/* Divides all times by the pace of their step: the weighted median, over operations that always ran
 * alone, of an operation's time over its mean. */
static void take_pace_out(work *works, size_t count, size_t steps)
{
    DL_AUTOFREE ratio *ratios = dl_calloc(count, sizeof *ratios, "paces");
    DL_AUTOFREE double *paces = dl_calloc(steps, sizeof *paces, "paces");
    const size_t found = list_paces(works, count, ratios);
    dl_sort(ratios, found, sizeof *ratios, by_step);
    DL_GROUPS (first, end, found, ratios[end].step == ratios[first].step)
        paces[ratios[first].step] = weighted_median(&ratios[first], end - first);
    for (size_t i = 0; i < count; i++) {
        if (paces[works[i].step] > 0) works[i].ns /= paces[works[i].step];
    }
}

/* Absolute relative deviations of equal operations in one situation from their mean; `means` is the
 * number of these means. */
typedef struct scatter {
    double *deviations; /* [count] */
    size_t count, means;
} scatter;

/* Finds the ratio of the mean times of works[count], equal ones, beside collectives and alone;
 * returns false if they were not observed in both situations or one of them is shorter than
 * DL_OVERLAP_SHORTEST_NS. */
static bool compare(const work *works, size_t count, ratio *found, scatter *within)
{
    double sums[2] = {0}, counts[2] = {0};
    for (size_t i = 0; i < count; i++) {
        if (works[i].ns < DL_OVERLAP_SHORTEST_NS) return false;
        if (works[i].situation == PARTLY) continue;
        sums[works[i].situation] += works[i].ns;
        counts[works[i].situation]++;
    }
    if (counts[0] == 0 || counts[1] == 0) return false;
    for (size_t i = 0; i < count; i++) {
        if (works[i].situation == PARTLY) continue;
        const double mean = sums[works[i].situation] / counts[works[i].situation];
        within->deviations[within->count++] = fabs(works[i].ns / mean - 1);
    }
    within->means += 2;
    const double alone_ns = sums[0] / counts[0], open = 1 / counts[0] + 1 / counts[1];
    *found = (ratio){sums[1] / counts[1] / alone_ns, alone_ns / open, 0, open};
    return true;
}

static double resampled_error(const ratio *ratios, size_t count)
{
    double medians[RESAMPLINGS];
    DL_AUTOFREE ratio *drawn = dl_calloc(count, sizeof *drawn, "ratios");
    dl_random stream;
    dl_random_init(&stream, 1, 0, 0, 0);
    for (size_t r = 0; r < RESAMPLINGS; r++) {
        for (size_t i = 0; i < count; i++)
            drawn[i] = ratios[dl_random_below(&stream, count)];
        medians[r] = weighted_median(drawn, count);
    }
    return gsl_stats_sd(medians, 1, RESAMPLINGS);
}

/* Standard error of the weighted mean from the scatter of equal operations: their median absolute
 * deviation / 0.6745 (normal distribution), corrected for the degrees of freedom used by the means.
 * Infinite if no work was observed twice in one situation. */
static double scatter_error(const ratio *ratios, size_t count, const scatter *within)
{
    if (within->count <= within->means) return INFINITY;
    double weights = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        weights += ratios[i].weight;
        sum += pow(ratios[i].weight, 2) * ratios[i].open;
    }
    const double freedom = (double)(within->count - within->means) / (double)within->count;
    const double sd =
        gsl_stats_median(within->deviations, 1, within->count) / 0.6745 / sqrt(freedom);
    return sd * sqrt(sum) / weights;
}

dl_overlap_slowdown dl_overlap_slowdown_find(const dl_trace *trace, const dl_step_line *line,
                                             const dl_spans *collectives)
{
    dl_overlap_slowdown slowdown = {.factor = 1};
    size_t count;
    DL_AUTOFREE work *works = take_works(trace, line, collectives, &count);
    DL_AUTOFREE ratio *ratios = dl_calloc(count, sizeof *ratios, "ratios");
    scatter within = {.deviations = dl_calloc(count, sizeof *within.deviations, "works")};
    take_pace_out(works, count, line->count);
    DL_GROUPS (first, end, count, by_kernel_and_order(&works[first], &works[end]) == 0) {
        slowdown.works += compare(&works[first], end - first, &ratios[slowdown.works], &within);
    }
    if (slowdown.works > 0) {
        slowdown.error = hypot(resampled_error(ratios, slowdown.works),
                               scatter_error(ratios, slowdown.works, &within));
        slowdown.factor = weighted_median(ratios, slowdown.works);
        slowdown.known = slowdown.error <= DL_OVERLAP_ERROR_MAX;
    }
    free(within.deviations);
    return slowdown;
}
