#include "calibrate/replay/step_costs.h"

#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/random.h"
#include "common/sort.h"
#include "trace/activity/activity.h"
#include "trace/activity/kernel_class.h"
#include "trace/distribution.h"

/* The collectives of one communicator. If they sum activations, the forward passes call as many
 * bytes as the backward passes. */
typedef struct group_calls {
    uint64_t object;
    double forward_bytes, backward_bytes;
} group_calls;

typedef struct search {
    const dl_gradient_source *source;
    const char *kind;          /* "AllReduce", "ReduceScatter" */
    const dl_activity **calls; /* [call_count] of that kind by start */
    group_calls *groups;       /* [group_count] */
    size_t group_count;
    size_t call_count, next; /* next: the first call that may belong to the present step */
    uint8_t *classes;
    uint32_t ranks;         /* of the communicator of the first call taken */
    dl_reduce *reduces;     /* [call_count] */
    dl_step_reduces *steps; /* [step_count] */
    size_t reduce_count, step_count;
} search;

DL_ORDER_OF_POINTERS(by_start, dl_activity, DL_BY(start_ns), DL_COMPARE(a, b));

static void list_calls(search *s)
{
    const dl_trace *trace = s->source->trace;
    s->calls = dl_calloc(trace->activity_count, sizeof *s->calls, "gradients");
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_COLLECTIVE || a->bytes == 0 ||
            strcasecmp(trace->strings[a->name], s->kind) != 0)
            continue;
        s->calls[s->call_count++] = a;
    }
    dl_sort(s->calls, s->call_count, sizeof(dl_activity *), by_start);
}

static const dl_activity *work_of(const search *s, size_t w)
{
    return &s->source->trace->activities[s->source->line->work[w]];
}

static bool is_update(const search *s, size_t w)
{
    const dl_activity *a = work_of(s, w);
    return s->source->phases->phases[w] == DL_PHASE_UPDATE && a->kind == DL_ACTIVITY_KERNEL &&
           s->classes[a->name] == DL_KERNEL_OPTIMIZER;
}

static double backward_ns(const search *s, size_t w)
{
    return s->source->phases->phases[w] == DL_PHASE_BACKWARD ? s->source->work_ns[w] : 0;
}

static group_calls *group_of(search *s, const dl_activity *call)
{
    for (size_t i = 0; i < s->group_count; i++)
        if (s->groups[i].object == call->object) return &s->groups[i];
    group_calls *group = &DL_APPEND(s->groups, s->group_count, "communicators");
    *group = (group_calls){.object = call->object};
    return group;
}

/* Sums of activations, as of layers that are split over GPUs (Megatron), come in both passes; those
 * of a loss or of statistics are small beside gradients. */
#define ACTIVATIONS_FRAC 0.25

static bool is_of_activations(search *s, const dl_activity *call)
{
    const group_calls *group = group_of(s, call);
    return group->forward_bytes > ACTIVATIONS_FRAC * group->backward_bytes;
}

/* Skips calls before the step's first launch: they belong to earlier steps, such as irregular
 * ones. */
static void skip_earlier(search *s, const dl_activity_step *step)
{
    const dl_activity *first = NULL;
    for (size_t w = step->first; w < step->first + step->count && first == NULL; w++)
        first = dl_launches_find(s->source->launches, work_of(s, w)->correlation);
    while (first != NULL && s->next < s->call_count &&
           s->calls[s->next]->start_ns < first->start_ns)
        s->next++;
}

/* Adds up the bytes that each communicator moves in either pass of the step. */
static void count_step(search *s, const dl_activity_step *step)
{
    double done_ns = 0;
    skip_earlier(s, step);
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_activity *call = dl_launches_find(s->source->launches, work_of(s, w)->correlation);
        while (call != NULL && s->next < s->call_count &&
               s->calls[s->next]->start_ns <= call->start_ns) {
            const dl_activity *of = s->calls[s->next++];
            group_calls *group = group_of(s, of);
            *(done_ns > 0 ? &group->backward_bytes : &group->forward_bytes) += (double)of->bytes;
        }
        done_ns += backward_ns(s, w);
    }
}

/* Number of ranks in the call's communicator; 0: unknown. */
static uint32_t ranks_of(const search *s, const dl_activity *call)
{
    const dl_trace *trace = s->source->trace;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind == DL_ACTIVITY_COMM && a->object == call->object) return a->count;
    }
    return 0;
}

/* Bytes that the call sums: a rank of a reduce-scatter reports only its part. */
static double summed_bytes(const search *s, const dl_activity *call)
{
    const bool scatters = strcasecmp(s->kind, DL_SCATTERS) == 0;
    return (double)call->bytes * (scatters ? fmax(1, ranks_of(s, call)) : 1);
}

/* Lists the sums called from the step's backward pass on, while its operations are launched. */
static void take_step(search *s, const dl_activity_step *step)
{
    const size_t end = step->first + step->count;
    double all_ns = 0, done_ns = 0;
    bool updated = false;
    for (size_t w = step->first; w < end; w++)
        all_ns += backward_ns(s, w);
    if (all_ns <= 0) return;
    dl_step_reduces *taken = &s->steps[s->step_count++];
    *taken = (dl_step_reduces){.first = s->reduce_count};
    for (size_t w = step->first; w < end; w++) {
        const dl_activity *call = dl_launches_find(s->source->launches, work_of(s, w)->correlation);
        while (call != NULL && s->next < s->call_count &&
               s->calls[s->next]->start_ns <= call->start_ns) {
            const dl_activity *of = s->calls[s->next++];
            if (done_ns <= 0 || updated || is_of_activations(s, of)) continue;
            const double bytes = summed_bytes(s, of);
            if (s->ranks == 0) s->ranks = ranks_of(s, of);
            s->reduces[s->reduce_count++] = (dl_reduce){done_ns / all_ns, bytes};
            taken->count++;
            taken->bytes += bytes;
        }
        done_ns += backward_ns(s, w);
        updated = (updated || is_update(s, w)) && backward_ns(s, w) <= 0;
    }
}

DL_ORDER(by_number_and_bytes, dl_step_reduces, DL_BY(count), DL_BY(bytes), DL_BY(first));

/* Sorts the steps; the most usual are steps[*first] up to, but not including, the returned
 * place. */
static size_t most_usual(dl_step_reduces *steps, size_t count, size_t *first)
{
    size_t best = 0;
    *first = 0;
    dl_sort(steps, count, sizeof *steps, by_number_and_bytes);
    DL_GROUPS (i, end, count,
               steps[end].count == steps[i].count && steps[end].bytes == steps[i].bytes) {
        if (steps[i].count == 0 || end - i < best) continue;
        best = end - i;
        *first = i;
    }
    return *first + best;
}

dl_gradients_ready *dl_gradients_usual(dl_step_reduces *steps, size_t step_count,
                                       const dl_reduce *reduces, size_t *count)
{
    size_t first;
    const size_t end = most_usual(steps, step_count, &first);
    if (end == first) return NULL;
    *count = steps[first].count;
    dl_gradients_ready *ready = dl_calloc(*count, sizeof *ready, "gradients");
    for (size_t i = first; i < end; i++) {
        double bytes = 0;
        for (size_t k = 0; k < *count; k++) {
            const dl_reduce *r = &reduces[steps[i].first + k];
            bytes += r->bytes;
            ready[k].share += r->share / (double)(end - first);
            ready[k].bytes = bytes;
        }
    }
    return ready;
}

static uint8_t *classify(const dl_trace *trace)
{
    return dl_kernel_classes(trace->activities, trace->activity_count, trace->strings,
                             trace->string_count);
}

/* Finds the gradients that collectives of one kind sum in a step. */
static dl_gradient_exchange find_of_kind(const dl_gradient_source *source, const char *kind)
{
    const dl_step_line *line = source->line;
    search s = {.source = source, .kind = kind};
    dl_gradient_exchange found = {.scattered = strcmp(kind, DL_SCATTERS) == 0};
    list_calls(&s);
    s.classes = classify(source->trace);
    s.reduces = dl_calloc(s.call_count, sizeof *s.reduces, "gradients");
    s.steps = dl_calloc(line->count, sizeof *s.steps, "gradients");
    for (size_t i = 0; i < line->count; i++)
        if (line->steps[i].label == DL_STEP_REGULAR) count_step(&s, &line->steps[i]);
    s.next = 0;
    for (size_t i = 0; i < line->count; i++)
        if (line->steps[i].label == DL_STEP_REGULAR) take_step(&s, &line->steps[i]);
    found.ready = dl_gradients_usual(s.steps, s.step_count, s.reduces, &found.count);
    found.ranks = s.ranks;
    free(s.calls);
    free(s.groups);
    free(s.classes);
    free(s.reduces);
    free(s.steps);
    return found;
}

static double bytes_of(const dl_gradient_exchange *e)
{
    return e->count > 0 ? e->ready[e->count - 1].bytes : 0;
}

dl_gradient_exchange dl_gradients_find(const dl_gradient_source *source)
{
    const dl_gradient_exchange reduced = find_of_kind(source, DL_REDUCES);
    const dl_gradient_exchange scattered = find_of_kind(source, DL_SCATTERS);
    const bool scatters = bytes_of(&scattered) > bytes_of(&reduced);
    free(scatters ? reduced.ready : scattered.ready);
    return scatters ? scattered : reduced;
}

/* Whether each pass exchanged the same buckets. */
static bool repeats_each_pass(const dl_gradients_ready *ready, size_t count, size_t passes)
{
    const size_t own = count / passes;
    if (count == 0 || count % passes != 0) return false;
    for (size_t i = own; i < count; i++) {
        const double before = i > 0 ? ready[i - 1].bytes : 0;
        const double first = i - own > 0 ? ready[i - own - 1].bytes : 0;
        if (ready[i].bytes - before != ready[i - own].bytes - first) return false;
    }
    return ready[own - 1].share * (double)passes < 1.001; /* in the first pass */
}

bool dl_gradients_of_last_pass(dl_gradients_ready *ready, size_t *count, size_t passes)
{
    if (passes < 2 || *count == 0) return false;
    const bool each = repeats_each_pass(ready, *count, passes);
    const size_t first = each ? *count - *count / passes : 0;
    const double before = first > 0 ? ready[first - 1].bytes : 0, all = (double)passes;
    for (size_t i = first; i < *count; i++) {
        const double share = ready[i].share * all - (all - 1);
        ready[i - first] = (dl_gradients_ready){fmax(0, share), ready[i].bytes - before};
    }
    *count -= first;
    return each;
}

#define RESAMPLINGS 400
/* A work ran beside collectives if they cover at least this part of it, and alone if they cover
 * none. */
#define BESIDE 0.95

dl_spans dl_collective_spans(const dl_trace *trace)
{
    dl_spans spans = {0};
    uint8_t *classes = classify(trace);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_KERNEL || classes[a->name] != DL_KERNEL_COLLECTIVE) continue;
        dl_spans_add(&spans, a->device, a->start_ns, a->start_ns + a->duration_ns);
    }
    free(classes);
    dl_spans_join(&spans);
    return spans;
}

typedef enum situation { ALONE, WITH_COLLECTIVES, PARTLY } situation;

/* A work of a regular step. */
typedef struct work {
    uint32_t name, detail;
    uint32_t occurrence; /* number among equal ones in its step */
    uint32_t step;       /* number among the regular ones */
    situation situation;
    double ns; /* later divided by the step's pace */
} work;

DL_ORDER(by_kernel, work, DL_BY(name), DL_BY(detail));

DL_ORDER(by_kernel_and_order, work, by_kernel(a, b), DL_BY(occurrence));

/* Numbers the occurrences of equal kernels of one step, whose operations come in launch order. */
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

/* The kernels of all regular steps, sorted so that equal ones of different steps are neighbours. */
static work *take_works(const dl_trace *trace, const dl_step_line *line,
                        const dl_spans *collectives, size_t *count)
{
    work *works = dl_calloc(line->work_count, sizeof *works, "works");
    uint8_t *classes = classify(trace);
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
    free(classes);
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

/* Result of one work: a ratio of times, with a weight. */
typedef struct ratio {
    double value, weight;
    uint32_t step; /* of paces */
    /* of slowdowns: 1 / number alone + 1 / number beside, to which the variance is proportional */
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

/* Lists, by step, ratios of the operations that always ran alone to their means; returns their
 * number. */
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

/* Divides all times by their step's pace: the weighted median of the ratios to their means of
 * operations that always ran alone. */
static void take_pace_out(work *works, size_t count, size_t steps)
{
    ratio *ratios = dl_calloc(count, sizeof *ratios, "paces");
    double *paces = dl_calloc(steps, sizeof *paces, "paces");
    const size_t found = list_paces(works, count, ratios);
    dl_sort(ratios, found, sizeof *ratios, by_step);
    DL_GROUPS (first, end, found, ratios[end].step == ratios[first].step)
        paces[ratios[first].step] = weighted_median(&ratios[first], end - first);
    for (size_t i = 0; i < count; i++) {
        if (paces[works[i].step] > 0) works[i].ns /= paces[works[i].step];
    }
    free(ratios);
    free(paces);
}

/* Absolute relative deviations of equal operations of one situation from their mean. */
typedef struct scatter {
    double *deviations; /* [count] */
    size_t count, means;
} scatter;

/* Finds the ratio of equal works[count]; false if they were not seen both ways. */
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

/* Error of the weighted mean from the scatter of equal operations: their median deviation, which
 * for a normal distribution is 0.6745 of the standard deviation, corrected for the means taken.
 * Infinite if no work was seen twice. */
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
    work *works = take_works(trace, line, collectives, &count);
    ratio *ratios = dl_calloc(count, sizeof *ratios, "ratios");
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
    free(works);
    free(ratios);
    return slowdown;
}
