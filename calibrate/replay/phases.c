#include "calibrate/replay/phases.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "trace/activity_launches.h"
#include "trace/kernel_class.h"

/* Time of a thread inside ranges of one phase. */
typedef struct span {
    uint32_t thread;
    int64_t start_ns, end_ns;
} span;

/* Spans that do not overlap, by thread and time. */
typedef struct spans {
    span *items;
    size_t count;
} spans;

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

static int by_thread_and_start(const void *left, const void *right)
{
    const span *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

static spans take_spans(const dl_trace *trace, const uint8_t *phase_by_name, dl_phase phase)
{
    spans s = {.items = dl_calloc(trace->activity_count, sizeof *s.items, "phases")};
    size_t all = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_RANGE || phase_by_name[a->name] != phase) continue;
        s.items[all++] = (span){a->thread, a->start_ns, a->start_ns + a->duration_ns};
    }
    if (all > 0) qsort(s.items, all, sizeof *s.items, by_thread_and_start);
    for (size_t i = 0; i < all; i++) {
        span *last = s.count > 0 ? &s.items[s.count - 1] : NULL;
        if (last != NULL && last->thread == s.items[i].thread &&
            s.items[i].start_ns <= last->end_ns) {
            if (s.items[i].end_ns > last->end_ns) last->end_ns = s.items[i].end_ns;
        } else {
            s.items[s.count++] = s.items[i];
        }
    }
    return s;
}

static bool is_inside(const spans *s, uint32_t thread, int64_t time_ns)
{
    size_t low = 0, high = s->count; /* the last span that begins before */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const span *m = &s->items[middle];
        if (m->thread < thread || (m->thread == thread && m->start_ns <= time_ns)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && s->items[low - 1].thread == thread && time_ns < s->items[low - 1].end_ns;
}

/* What tells the phase of a work. */
typedef struct hints {
    const dl_trace *trace;
    dl_launches launches;
    spans backward, update;
    uint8_t *kernel_phase; /* by name id: what kernels' names tell */
} hints;

static dl_phase hint_of(const hints *h, const dl_activity *work)
{
    const dl_activity *call = dl_launches_find(&h->launches, work->correlation);
    if (call != NULL && is_inside(&h->update, call->thread, call->start_ns)) return DL_PHASE_UPDATE;
    if (call != NULL && is_inside(&h->backward, call->thread, call->start_ns)) {
        return DL_PHASE_BACKWARD;
    }
    /* Ranges know better: forward passes use kernels of other layers' backward passes, and backward
     * passes may hold fused updates. */
    const bool by_name = work->kind == DL_ACTIVITY_KERNEL && h->backward.count == 0;
    return by_name ? (dl_phase)h->kernel_phase[work->name] : DL_PHASE_NONE;
}

static void tell_step(dl_step_phases *phases, const hints *h, const dl_step_line *line,
                      const dl_activity_step *step)
{
    const size_t end = step->first + step->count;
    size_t first = end, last = end, update = end;
    for (size_t w = step->first; w < end; w++) {
        const dl_phase phase = hint_of(h, &h->trace->activities[line->work[w]]);
        if (phase == DL_PHASE_BACKWARD && first == end) first = w;
        if (phase == DL_PHASE_BACKWARD) last = w;
        /* An optimizer's kernels before the backward pass set gradients to zero. */
        if (phase == DL_PHASE_UPDATE && first < end && update == end) update = w;
    }
    if (first == end) return;
    phases->told++;
    const size_t behind = update < end && update < last + 1 ? update : last + 1;
    for (size_t w = step->first; w < end; w++) {
        phases->phases[w] = w < first    ? DL_PHASE_FORWARD
                            : w < behind ? DL_PHASE_BACKWARD
                                         : DL_PHASE_UPDATE;
    }
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
    for (size_t s = 0; s < line->count; s++) {
        if (line->steps[s].label == DL_STEP_REGULAR) tell_step(phases, &h, line, &line->steps[s]);
    }
    free(h.backward.items);
    free(h.update.items);
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
