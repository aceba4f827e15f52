#include "calibrate/replay/phases.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "calibrate/replay/spans.h"
#include "common/alloc.h"
#include "trace/activity/activity_launches.h"
#include "trace/kernel_class.h"

/* What repeats a forward pass: so much of its length, so many works of its kernels. Fewer than
 * FORWARD_FEWEST can be anything. */
#define FORWARD_FEWEST 4
#define FORWARD_LENGTH 0.5
#define FORWARD_ALIKE 0.8

static bool holds(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        if (strcasestr(text, *parts) != NULL) return true;
    }
    return false;
}

static dl_phase phase_of_range(const char *name)
{
    static const char *const update[] = {"optimizer.step", "optimizer ##", "optimizer_step",
                                         "OptimizerStep", NULL};
    static const char *const backward[] = {"backward", "autograd::engine", "AccumulateGrad", NULL};
    if (holds(name, update) || strcasecmp(name, "optimizer") == 0) return DL_PHASE_UPDATE;
    return holds(name, backward) ? DL_PHASE_BACKWARD : DL_PHASE_NONE;
}

/* Times of threads inside ranges of the phase. */
static dl_spans take_spans(const dl_trace *trace, const uint8_t *phase_by_name, dl_phase phase)
{
    dl_spans spans = {0};
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_RANGE || phase_by_name[a->name] != phase) continue;
        dl_spans_add(&spans, a->thread, a->start_ns, a->start_ns + a->duration_ns);
    }
    dl_spans_join(&spans);
    return spans;
}

/* What tells the phase of a work. */
typedef struct hints {
    const dl_trace *trace;
    dl_launches launches;
    dl_spans backward, update;
    uint8_t *kernel_phase; /* by name id: what kernels' names tell */
} hints;

static dl_phase hint_of(const hints *h, const dl_activity *work)
{
    const dl_activity *call = dl_launches_find(&h->launches, work->correlation);
    if (call != NULL && dl_spans_hold(&h->update, call->thread, call->start_ns))
        return DL_PHASE_UPDATE;
    if (call != NULL && dl_spans_hold(&h->backward, call->thread, call->start_ns))
        return DL_PHASE_BACKWARD;
    /* Ranges know better: forward passes use kernels of other layers' backward passes, and backward
     * passes may hold fused updates. */
    const bool by_name = work->kind == DL_ACTIVITY_KERNEL && h->backward.count == 0;
    return by_name ? (dl_phase)h->kernel_phase[work->name] : DL_PHASE_NONE;
}

/* A pass through one step. */
typedef struct pass {
    const hints *hints;
    const dl_step_line *line;
    uint8_t *phases;   /* of the line's works: hints first */
    uint32_t *in_step; /* [string_count] number of the step, 1.., whose first forward pass has the
                          kernel */
    uint32_t step;
    size_t forward; /* works of its first forward pass */
} pass;

static uint32_t name_of(const pass *p, size_t w)
{
    return p->hints->trace->activities[p->line->work[w]].name;
}

static bool is_long(const pass *p, size_t first, size_t end)
{
    return end - first >= FORWARD_FEWEST &&
           (double)(end - first) >= FORWARD_LENGTH * (double)p->forward;
}

/* Whether works [first, end) are a forward pass again: as long, and of the same kernels. */
static bool is_forward(const pass *p, size_t first, size_t end)
{
    size_t known = 0;
    for (size_t w = first; w < end; w++)
        known += p->in_step[name_of(p, w)] == p->step;
    return is_long(p, first, end) && (double)known >= FORWARD_ALIKE * (double)(end - first);
}

/* The phase of works [first, end) without a hint, between two with one; NONE = the step's end. */
static dl_phase between(const pass *p, size_t first, size_t end, dl_phase before, dl_phase behind)
{
    if (behind != DL_PHASE_BACKWARD) return DL_PHASE_UPDATE;
    const bool forward =
        before == DL_PHASE_UPDATE ? is_long(p, first, end) : is_forward(p, first, end);
    return forward ? DL_PHASE_FORWARD : DL_PHASE_BACKWARD;
}

static void fill(uint8_t *phases, size_t first, size_t end, dl_phase phase)
{
    for (size_t w = first; w < end; w++)
        phases[w] = (uint8_t)phase;
}

/* Takes the hints; returns the first work of the backward pass, or the step's end. */
static size_t take_hints(pass *p, const dl_activity_step *step)
{
    const size_t end = step->first + step->count;
    size_t first = end;
    for (size_t w = step->first; w < end; w++) {
        const dl_phase hint = hint_of(p->hints, &p->hints->trace->activities[p->line->work[w]]);
        const bool tells = hint == DL_PHASE_BACKWARD || hint == DL_PHASE_UPDATE;
        p->phases[w] = (uint8_t)(tells ? hint : DL_PHASE_NONE);
        if (hint == DL_PHASE_BACKWARD && first == end) first = w;
    }
    return first;
}

static bool tell_step(pass *p, const dl_activity_step *step)
{
    const size_t end = step->first + step->count, backward = take_hints(p, step);
    if (backward == end) {
        fill(p->phases, step->first, end, DL_PHASE_NONE);
        return false;
    }
    /* An optimizer's kernels before the backward pass set gradients to zero. */
    fill(p->phases, step->first, backward, DL_PHASE_FORWARD);
    p->forward = backward - step->first;
    p->step++;
    for (size_t w = step->first; w < backward; w++)
        p->in_step[name_of(p, w)] = p->step;
    for (size_t w = backward, next; w < end; w = next) {
        for (next = w; next < end && p->phases[next] == DL_PHASE_NONE;)
            next++;
        if (next == w) {
            next = w + 1;
            continue;
        }
        const dl_phase behind = next < end ? (dl_phase)p->phases[next] : DL_PHASE_NONE;
        fill(p->phases, w, next, between(p, w, next, (dl_phase)p->phases[w - 1], behind));
    }
    return true;
}

void dl_step_phases_find(dl_step_phases *phases, const dl_trace *trace, const dl_step_line *line)
{
    hints h = {.trace = trace, .kernel_phase = dl_calloc(trace->string_count, 1, "phases")};
    uint8_t *by_name = dl_calloc(trace->string_count, 1, "phases");
    uint8_t *seen = dl_calloc(trace->string_count, 1, "phases");
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (seen[a->name]) continue;
        const char *name = trace->strings[a->name];
        dl_phase phase = DL_PHASE_NONE;
        if (a->kind == DL_ACTIVITY_RANGE) {
            by_name[a->name] = (uint8_t)phase_of_range(name);
        } else if (a->kind == DL_ACTIVITY_KERNEL) {
            dl_kernel_classify(name, &phase);
            h.kernel_phase[a->name] = (uint8_t)phase;
        } else {
            continue;
        }
        seen[a->name] = 1;
    }
    dl_launches_init(&h.launches, trace->activities, trace->activity_count);
    h.backward = take_spans(trace, by_name, DL_PHASE_BACKWARD);
    h.update = take_spans(trace, by_name, DL_PHASE_UPDATE);
    phases->phases = dl_calloc(line->work_count, 1, "phases");
    pass p = {.hints = &h,
              .line = line,
              .phases = phases->phases,
              .in_step = dl_calloc(trace->string_count, sizeof *p.in_step, "phases")};
    for (size_t s = 0; s < line->count; s++) {
        if (line->steps[s].label == DL_STEP_REGULAR) phases->told += tell_step(&p, &line->steps[s]);
    }
    free(p.in_step);
    dl_spans_free(&h.backward);
    dl_spans_free(&h.update);
    dl_launches_free(&h.launches);
    free(h.kernel_phase);
    free(by_name);
    free(seen);
}

void dl_step_phases_free(dl_step_phases *phases)
{
    free(phases->phases);
    *phases = (dl_step_phases){0};
}
