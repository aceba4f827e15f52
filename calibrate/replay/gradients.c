/* Readiness of gradients for exchange, on devices. See step_costs.h. */
#include "calibrate/replay/step_costs.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/activity.h"
#include "trace/activity/collectives.h"
#include "trace/activity/kernel_class.h"

/* Reductions of one communicator, by pass. If they sum activations, forward and backward passes
 * have equal bytes. */
typedef struct group_calls {
    uint64_t object;
    double forward_bytes, backward_bytes;
    double summed_bytes[2]; /* by all-reduces and by reduce-scatters, after the forward pass */
} group_calls;

typedef struct search {
    const dl_gradient_source *source;
    group_calls *groups; /* [group_count] */
    size_t group_count;
    uint64_t object; /* communicator of the gradients */
    bool scatters;   /* they are reduce-scattered */
} search;

/* --- calls of collectives --------------------------------------------------------------------- */

DL_ORDER_OF_POINTERS(by_start, dl_activity, DL_BY(start_ns), DL_COMPARE(a, b));

static const dl_activity *work_of(const dl_gradient_source *s, size_t w)
{
    return &s->trace->activities[s->line->work[w]];
}

static const dl_activity *launch_of(const dl_gradient_source *s, size_t w)
{
    return dl_launches_find(s->launches, work_of(s, w)->correlation);
}

static bool is_update(const dl_gradient_source *s, size_t w)
{
    const dl_activity *a = work_of(s, w);
    return s->phases->phases[w] == DL_PHASE_UPDATE && a->kind == DL_ACTIVITY_KERNEL &&
           s->classes[a->name] == DL_KERNEL_OPTIMIZER;
}

static double backward_ns(const dl_gradient_source *s, const double *work_ns, size_t w)
{
    return s->phases->phases[w] == DL_PHASE_BACKWARD ? work_ns[w] : 0;
}

/* Returns a call in the step, before the launch of work number w. */
static dl_step_call call_of(const dl_gradient_source *s, const dl_activity *call, size_t step,
                            size_t w, double share, bool updated)
{
    return (dl_step_call){.name = s->trace->strings[call->name],
                          .bytes = call->bytes,
                          .object = call->object,
                          .ranks = dl_communicators_ranks(&s->communicators, call->object),
                          .peer = call->peer,
                          .integers = dl_collective_of_integers(call, s->trace->strings),
                          .step = step,
                          .phase = (dl_phase)s->phases->phases[w],
                          .share = share,
                          .updated = updated};
}

/* A position between two steps. */
typedef struct position {
    size_t call, work;         /* the next ones */
    const dl_activity *launch; /* last known launch of earlier work; NULL: none */
} position;

/* Returns the launch of the next work, if it is known, and passes the work. */
static const dl_activity *next_launch(const dl_gradient_source *s, position *at)
{
    const dl_activity *launch = launch_of(s, at->work++);
    if (launch != NULL) at->launch = launch;
    return launch;
}

/* Adds the calls of one step, from all[count], and moves to its end. Sets done[] of its work. */
static void add_calls(dl_gradient_source *s, size_t step, const dl_activity *const *all,
                      size_t count, position *at, const double *work_ns, double *done)
{
    const size_t first = s->line->steps[step].first, end = first + s->line->steps[step].count;
    double all_ns = 0;
    bool updated = false;
    while (at->work < first)
        next_launch(s, at);
    while (at->launch != NULL && at->call < count &&
           all[at->call]->start_ns <= at->launch->start_ns)
        at->call++;
    for (size_t w = first; w < end; w++)
        done[w] = all_ns += backward_ns(s, work_ns, w);
    DL_AUTOFREE double *ends_ns = dl_pass_ends(s->phases, &s->line->steps[step], done);
    double share = all_ns > 0 ? dl_backward_share(ends_ns, s->phases->passes, 0) : 0;
    for (size_t w = first; w < end; w++) {
        const dl_activity *launch = next_launch(s, at);
        for (; launch != NULL && at->call < count && all[at->call]->start_ns <= launch->start_ns;
             at->call++)
            s->calls[s->call_count++] = call_of(s, all[at->call], step, w, share, updated);
        share = all_ns > 0 ? dl_backward_share(ends_ns, s->phases->passes, done[w]) : 0;
        done[w] = share;
        updated = (updated || is_update(s, w)) && backward_ns(s, work_ns, w) <= 0;
    }
}

/* Returns the launches of collectives' kernels on other devices than the line's, by start. */
static const dl_activity **launches_elsewhere(const dl_gradient_source *s, size_t *count)
{
    const dl_activity **launches = NULL;
    *count = 0;
    for (size_t i = 0; i < s->trace->activity_count; i++) {
        const dl_activity *a = &s->trace->activities[i];
        if (a->kind != DL_ACTIVITY_KERNEL || a->device == s->line->device ||
            s->classes[a->name] != DL_KERNEL_COLLECTIVE)
            continue;
        const dl_activity *launch = dl_launches_find(s->launches, a->correlation);
        if (launch != NULL) DL_APPEND(launches, *count, "calls of collectives") = launch;
    }
    dl_sort(launches, *count, sizeof *launches, by_start);
    return launches;
}

/* Whether the call of a collective contains one of launches[count], sorted by start. */
static bool is_elsewhere(const dl_activity *call, const dl_activity *const *launches, size_t count)
{
    size_t i;
    DL_BISECT(i, count, launches[i]->start_ns < call->start_ns);
    for (; i < count && launches[i]->start_ns <= call->start_ns + call->duration_ns; i++)
        if (launches[i]->thread == call->thread) return true;
    return false;
}

void dl_step_calls_find(dl_gradient_source *source, const double *work_ns, double *done)
{
    const dl_trace *trace = source->trace;
    size_t elsewhere_count;
    DL_AUTOFREE const dl_activity **elsewhere = launches_elsewhere(source, &elsewhere_count);
    DL_AUTOFREE const dl_activity **all =
        dl_calloc(trace->activity_count, sizeof *all, "calls of collectives");
    size_t count = 0;
    position at = {0};
    for (size_t i = 0; i < trace->activity_count; i++)
        if (trace->activities[i].kind == DL_ACTIVITY_COLLECTIVE &&
            !is_elsewhere(&trace->activities[i], elsewhere, elsewhere_count))
            all[count++] = &trace->activities[i];
    dl_sort(all, count, sizeof *all, by_start);
    source->calls = dl_calloc(count, sizeof *source->calls, "calls of collectives");
    for (size_t s = 0; s < source->line->count; s++)
        if (source->line->steps[s].label == DL_STEP_REGULAR)
            add_calls(source, s, all, count, &at, work_ns, done);
}

/* --- gradients -------------------------------------------------------------------------------- */

static bool is_scatter(const char *name)
{
    return strcasecmp(name, DL_SCATTERS) == 0;
}

static bool is_reduction(const char *name, uint64_t bytes)
{
    return bytes > 0 && (is_scatter(name) || strcasecmp(name, DL_REDUCES) == 0);
}

static group_calls *group_of(search *s, const dl_step_call *call)
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

/* Bytes that the call sums; a rank of a reduce-scatter reports only its own part. */
static double summed_bytes(const dl_step_call *call)
{
    return (double)call->bytes * (is_scatter(call->name) ? fmax(1, call->ranks) : 1);
}

/* Adds up the bytes that each communicator moves in the forward passes, and after them up to the
 * update. */
static void count_bytes(search *s)
{
    for (size_t i = 0; i < s->source->call_count; i++) {
        const dl_step_call *c = &s->source->calls[i];
        const bool forward = c->share <= 0 || c->phase == DL_PHASE_FORWARD;
        if (c->updated || !is_reduction(c->name, c->bytes) || c->integers) continue;
        group_calls *group = group_of(s, c);
        *(forward ? &group->forward_bytes : &group->backward_bytes) += (double)c->bytes;
        if (!forward) group->summed_bytes[is_scatter(c->name)] += summed_bytes(c);
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

/* Reductions of one step: reduces[first .. first + count - 1]. */
typedef struct step_reduces {
    size_t first, count;
    double bytes;
} step_reduces;

DL_ORDER(by_number_and_bytes, step_reduces, DL_BY(count), DL_BY(bytes), DL_BY(first));

/* Sorts the steps and returns the end (exclusive) of the most frequent ones, which begin at
 * steps[*first]. */
static size_t most_usual(step_reduces *steps, size_t count, size_t *first)
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

static bool is_of_gradients(const search *s, const dl_step_call *call)
{
    return call->share > 0 && !call->updated && call->object == s->object &&
           is_reduction(call->name, call->bytes) && !call->integers &&
           is_scatter(call->name) == s->scatters;
}

/* Returns the cumulative gradients [*count] of the reductions called after the start of a step's
 * backward pass and before its update, in the steps with the most frequent number and bytes of
 * these, with mean shares; owned by the caller. NULL, with *count unchanged: none. */
static dl_gradients_ready *take_calls(const search *s, size_t *count)
{
    const size_t most = s->source->call_count;
    DL_AUTOFREE dl_step_call *reduces = dl_calloc(most, sizeof *reduces, "gradients");
    DL_AUTOFREE step_reduces *steps = dl_calloc(most, sizeof *steps, "gradients");
    size_t reduce_count = 0, step_count = 0, first;
    for (size_t i = 0; i < most; i++)
        if (is_of_gradients(s, &s->source->calls[i])) reduces[reduce_count++] = s->source->calls[i];
    DL_GROUPS (i, after, reduce_count, reduces[after].step == reduces[i].step) {
        step_reduces *step = &steps[step_count++];
        *step = (step_reduces){.first = i, .count = after - i};
        for (size_t k = i; k < after; k++)
            step->bytes += summed_bytes(&reduces[k]);
    }
    const size_t end = most_usual(steps, step_count, &first);
    if (end == first) return NULL;
    *count = steps[first].count;
    dl_gradients_ready *ready = dl_calloc(*count, sizeof *ready, "gradients");
    for (size_t i = first; i < end; i++) {
        double bytes = 0;
        for (size_t k = 0; k < *count; k++) {
            const dl_step_call *r = &reduces[steps[i].first + k];
            bytes += summed_bytes(r);
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

static dl_gradient_exchange find_gradients(const dl_gradient_source *source)
{
    const dl_trace *trace = source->trace;
    search s = {.source = source};
    dl_gradient_exchange found = {0};
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        found.integers += a->kind == DL_ACTIVITY_COLLECTIVE &&
                          is_reduction(trace->strings[a->name], a->bytes) &&
                          dl_collective_of_integers(a, trace->strings);
    }
    count_bytes(&s);
    list_activations(&s, &found);
    if (choose_gradients(&s)) {
        found.ready = take_calls(&s, &found.count);
        found.ranks = dl_communicators_ranks(&source->communicators, s.object);
    }
    found.scattered = s.scatters;
    found.object = s.object;
    free(s.groups);
    return found;
}

dl_gradient_exchange dl_step_costs_take_exchange(dl_step_costs *costs,
                                                 const dl_gradient_source *source, dl_notes *notes)
{
    const dl_gradient_exchange gradients = find_gradients(source);
    costs->passes = source->phases->passes;
    costs->mean_passes = source->phases->mean_passes;
    costs->known_steps = source->phases->known_steps;
    costs->updated_steps = source->phases->updated_steps;
    costs->alternates = source->phases->alternates;
    if (source->phases->joint > 0)
        dl_notes_add(notes,
                     "each of a step's %zu passes makes gradients of its own, those of another "
                     "network, or of changed parameters (SAM), or only one adds gradients (the "
                     "others are torch.autograd.grad's): they are taken as one pass of the same "
                     "samples. If each has its own, give the samples of all as --batch",
                     source->phases->joint);
    costs->gradients = gradients.ready;
    costs->gradient_count = gradients.count;
    if (gradients.integers > 0)
        dl_notes_add(notes,
                     "%zu calls in the trace sum integers, as DDP does with "
                     "find_unused_parameters: they are no gradients",
                     gradients.integers);
    return gradients;
}

bool dl_step_costs_take_added(dl_step_costs *costs, const dl_added_gradients *added,
                              const dl_step_phases *phases, dl_notes *notes)
{
    costs->parameter_bytes = added->bytes * (phases->mean_passes / costs->mean_passes);
    if (added->bytes <= 0) return false;
    dl_notes_add(notes, "parameter_bytes are those of the gradients that %s",
                 phases->alternates
                     ? "the passes of a step's several optimizers add, except passes that a "
                       "longer one repeats, as a generator's does a discriminator's: "
                       "--parameter-bytes gives another number if others share parameters"
                     : "a pass adds");
    return true;
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
