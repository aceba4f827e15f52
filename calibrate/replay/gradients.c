/* Readiness of gradients for exchange, on devices. See step_costs.h. */
#include "calibrate/replay/step_costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/activity.h"
#include "trace/activity/collectives.h"
#include "trace/activity/kernel_class.h"
#include "trace/distribution.h"

/* Reductions of one communicator, by pass. If they sum activations, forward and backward passes
 * have equal bytes. */
typedef struct group_calls {
    uint64_t object;
    double forward_bytes, backward_bytes;
    double summed_bytes[2]; /* by all-reduces and by reduce-scatters, after the forward pass */
} group_calls;

typedef struct search {
    const dl_gradient_source *source;
    const dl_activity **calls; /* [call_count] reductions by start */
    group_calls *groups;       /* [group_count] */
    size_t group_count;
    uint64_t object;         /* communicator of the gradients */
    bool scatters;           /* they are reduce-scattered */
    size_t integers;         /* number of calls of integers, which are not listed */
    size_t call_count, next; /* next: first call that may belong to the current step */
    dl_reduce *reduces;      /* [call_count] */
    dl_step_reduces *steps;  /* [step_count] */
    double *done_ns;         /* [line.work_count] backward work of its step up to its end */
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
            (strcasecmp(trace->strings[a->name], DL_REDUCES) != 0 &&
             strcasecmp(trace->strings[a->name], DL_SCATTERS) != 0))
            continue;
        if (dl_collective_of_integers(a, trace->strings)) {
            s->integers++;
            continue;
        }
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
           s->source->classes[a->name] == DL_KERNEL_OPTIMIZER;
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

/* Minimum ratio of forward to backward bytes of a communicator that sums activations, as for layers
 * split over GPUs (Megatron). Sums of a loss or of statistics are small compared with gradients. */
#define ACTIVATIONS_FRAC 0.25

static bool is_of_activations(const group_calls *group)
{
    return group->forward_bytes > ACTIVATIONS_FRAC * group->backward_bytes;
}

static bool is_scatter(const search *s, const dl_activity *call)
{
    return strcasecmp(s->source->trace->strings[call->name], DL_SCATTERS) == 0;
}

/* Bytes that the call sums; a rank of a reduce-scatter reports only its own part. */
static double summed_bytes(const search *s, const dl_activity *call)
{
    return (double)call->bytes *
           (is_scatter(s, call)
                ? fmax(1, dl_communicators_ranks(s->source->communicators, call->object))
                : 1);
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

/* Adds up the bytes that each communicator moves in the step's forward passes, and after them up to
 * the update. */
static void count_step(search *s, const dl_activity_step *step)
{
    const uint8_t *phases = s->source->phases->phases;
    double done_ns = 0;
    bool updated = false;
    skip_earlier(s, step);
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_activity *call = dl_launches_find(s->source->launches, work_of(s, w)->correlation);
        const bool forward = done_ns <= 0 || phases[w] == DL_PHASE_FORWARD;
        while (call != NULL && s->next < s->call_count &&
               s->calls[s->next]->start_ns <= call->start_ns) {
            const dl_activity *of = s->calls[s->next++];
            if (updated) continue;
            group_calls *group = group_of(s, of);
            *(forward ? &group->forward_bytes : &group->backward_bytes) += (double)of->bytes;
            if (!forward) group->summed_bytes[is_scatter(s, of)] += summed_bytes(s, of);
        }
        done_ns += backward_ns(s, w);
        updated = (updated || is_update(s, w)) && backward_ns(s, w) <= 0;
    }
}

/* Chooses the communicator and the kind of reduction that sum most bytes after the forward pass,
 * without those of activations; returns false if there is none. */
static bool choose_gradients(search *s)
{
    double most = 0;
    for (size_t i = 0; i < s->group_count; i++) {
        for (int scatters = 0; scatters < 2; scatters++) {
            const double bytes = s->groups[i].summed_bytes[scatters];
            if (is_of_activations(&s->groups[i]) || bytes <= most) continue;
            most = bytes;
            s->object = s->groups[i].object;
            s->scatters = scatters;
        }
    }
    return most > 0;
}

/* Lists the reductions of gradients called after the start of the step's backward pass and before
 * its update. */
static void take_step(search *s, const dl_activity_step *step)
{
    const size_t end = step->first + step->count, passes = s->source->phases->passes;
    double all_ns = 0, done_ns = 0;
    bool updated = false;
    for (size_t w = step->first; w < end; w++)
        s->done_ns[w] = all_ns += backward_ns(s, w);
    if (all_ns <= 0) return;
    DL_AUTOFREE double *ends_ns = dl_pass_ends(s->source->phases, step, s->done_ns);
    dl_step_reduces *taken = &s->steps[s->step_count++];
    *taken = (dl_step_reduces){.first = s->reduce_count};
    for (size_t w = step->first; w < end; w++) {
        const dl_activity *call = dl_launches_find(s->source->launches, work_of(s, w)->correlation);
        while (call != NULL && s->next < s->call_count &&
               s->calls[s->next]->start_ns <= call->start_ns) {
            const dl_activity *of = s->calls[s->next++];
            if (done_ns <= 0 || updated || of->object != s->object ||
                is_scatter(s, of) != s->scatters)
                continue;
            const double bytes = summed_bytes(s, of);
            s->reduces[s->reduce_count++] =
                (dl_reduce){dl_backward_share(ends_ns, passes, done_ns), bytes};
            taken->count++;
            taken->bytes += bytes;
        }
        done_ns += backward_ns(s, w);
        updated = (updated || is_update(s, w)) && backward_ns(s, w) <= 0;
    }
}

DL_ORDER(by_number_and_bytes, dl_step_reduces, DL_BY(count), DL_BY(bytes), DL_BY(first));

/* Sorts the steps and returns the end (exclusive) of the most frequent ones, which begin at
 * steps[*first]. */
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

/* Lists the communicators that sum activations. */
static void list_activations(const search *s, dl_gradient_exchange *found)
{
    for (size_t i = 0; i < s->group_count; i++) {
        if (!is_of_activations(&s->groups[i])) continue;
        DL_APPEND(found->activations, found->activation_count, "communicators") =
            s->groups[i].object;
    }
}

dl_gradient_exchange dl_gradients_find(const dl_gradient_source *source)
{
    const dl_step_line *line = source->line;
    search s = {.source = source};
    dl_gradient_exchange found = {0};
    list_calls(&s);
    s.reduces = dl_calloc(s.call_count, sizeof *s.reduces, "gradients");
    s.steps = dl_calloc(line->count, sizeof *s.steps, "gradients");
    s.done_ns = dl_calloc(line->work_count, sizeof *s.done_ns, "gradients");
    for (size_t i = 0; i < line->count; i++)
        if (line->steps[i].label == DL_STEP_REGULAR) count_step(&s, &line->steps[i]);
    list_activations(&s, &found);
    s.next = 0;
    const bool any = choose_gradients(&s);
    for (size_t i = 0; i < line->count && any; i++)
        if (line->steps[i].label == DL_STEP_REGULAR) take_step(&s, &line->steps[i]);
    found.ready = dl_gradients_usual(s.steps, s.step_count, s.reduces, &found.count);
    found.scattered = s.scatters;
    found.object = s.object;
    found.integers = s.integers;
    found.ranks = any ? dl_communicators_ranks(source->communicators, s.object) : 0;
    free(s.calls);
    free(s.groups);
    free(s.reduces);
    free(s.steps);
    free(s.done_ns);
    return found;
}

/* Returns whether each pass exchanged the same buckets. */
static bool repeats_each_pass(const dl_gradients_ready *ready, size_t count, size_t passes)
{
    const size_t own = count / passes;
    if (count == 0 || count % passes != 0) return false;
    for (size_t i = own; i < count; i++) {
        const double before = i > 0 ? ready[i - 1].bytes : 0;
        const double first = i - own > 0 ? ready[i - own - 1].bytes : 0;
        if (ready[i].bytes - before != ready[i - own].bytes - first) return false;
    }
    return ready[own - 1].share * (double)passes < 1.001; /* the first pass's buckets are ready
                                                           * within that pass */
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
