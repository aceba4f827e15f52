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

/* Bytes of the collectives of one communicator, by pass. If they sum activations, forward and
 * backward passes have equal bytes. */
typedef struct group_calls {
    uint64_t object;
    double forward_bytes, backward_bytes;
} group_calls;

typedef struct search {
    const dl_gradient_source *source;
    const char *kind;          /* "AllReduce", "ReduceScatter" */
    const dl_activity **calls; /* [call_count] calls of that kind by start */
    group_calls *groups;       /* [group_count] */
    size_t group_count;
    size_t call_count, next; /* next: first call that may belong to the current step */
    uint8_t *classes;
    dl_communicators communicators;
    uint32_t ranks;         /* communicator size of the first call taken */
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
            strcasecmp(trace->strings[a->name], s->kind) != 0 ||
            dl_collective_of_integers(a, trace->strings))
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

/* Minimum ratio of forward to backward bytes of a communicator that sums activations, as for layers
 * split over GPUs (Megatron). Sums of a loss or of statistics are small compared with gradients. */
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

/* Adds up the bytes that each communicator moves in the step's forward pass, and after it. */
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

/* Bytes that the call sums; a rank of a reduce-scatter reports only its own part. */
static double summed_bytes(const search *s, const dl_activity *call)
{
    const bool scatters = strcasecmp(s->kind, DL_SCATTERS) == 0;
    return (double)call->bytes *
           (scatters ? fmax(1, dl_communicators_ranks(&s->communicators, call)) : 1);
}

/* Lists the reductions called after the start of the step's backward pass and before its update,
 * without those of activations. */
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
            if (s->ranks == 0) s->ranks = dl_communicators_ranks(&s->communicators, of);
            s->reduces[s->reduce_count++] = (dl_reduce){done_ns / all_ns, bytes};
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

/* Finds the gradients summed per step by collectives of one kind. */
static dl_gradient_exchange find_of_kind(const dl_gradient_source *source, const char *kind)
{
    const dl_trace *trace = source->trace;
    const dl_step_line *line = source->line;
    search s = {.source = source, .kind = kind};
    dl_gradient_exchange found = {.scattered = strcmp(kind, DL_SCATTERS) == 0};
    list_calls(&s);
    s.classes = dl_kernel_classes(trace->activities, trace->activity_count, trace->strings,
                                  trace->string_count);
    s.communicators = dl_communicators_find(trace->activities, trace->activity_count);
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
    free(s.communicators.items);
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
