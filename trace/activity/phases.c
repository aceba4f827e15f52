#include "trace/activity/phases.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"

void dl_spans_add(dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns)
{
    DL_APPEND(spans->items, spans->count, "spans") = (dl_span){on, start_ns, end_ns};
}

DL_ORDER(by_line_and_start, dl_span, DL_BY(on), DL_BY(start_ns), DL_BY(end_ns));

void dl_spans_join(dl_spans *spans)
{
    const size_t all = spans->count;
    if (all > 0) qsort(spans->items, all, sizeof *spans->items, by_line_and_start);
    spans->count = 0;
    for (size_t i = 0; i < all; i++) {
        const dl_span *next = &spans->items[i];
        dl_span *last = spans->count > 0 ? &spans->items[spans->count - 1] : NULL;
        if (last == NULL || last->on != next->on || next->start_ns > last->end_ns) {
            spans->items[spans->count++] = *next;
        } else if (next->end_ns > last->end_ns) {
            last->end_ns = next->end_ns;
        }
    }
}

/* Returns the index of the first span that ends after time_ns on `on`, or lies on a later thread or
 * device. */
static size_t first_after(const dl_spans *spans, uint32_t on, int64_t time_ns)
{
    size_t i;
    DL_BISECT(i, spans->count,
              spans->items[i].on < on ||
                  (spans->items[i].on == on && spans->items[i].end_ns <= time_ns));
    return i;
}

bool dl_spans_hold(const dl_spans *spans, uint32_t on, int64_t time_ns)
{
    const size_t i = first_after(spans, on, time_ns);
    return i < spans->count && spans->items[i].on == on && spans->items[i].start_ns <= time_ns;
}

int64_t dl_spans_covered(const dl_spans *spans, uint32_t on, int64_t start_ns, int64_t end_ns)
{
    int64_t sum_ns = 0;
    for (size_t i = first_after(spans, on, start_ns); i < spans->count; i++) {
        const dl_span *s = &spans->items[i];
        if (s->on != on || s->start_ns >= end_ns) break;
        const int64_t from_ns = s->start_ns > start_ns ? s->start_ns : start_ns;
        const int64_t to_ns = s->end_ns < end_ns ? s->end_ns : end_ns;
        sum_ns += to_ns - from_ns;
    }
    return sum_ns;
}

void dl_spans_free(dl_spans *spans)
{
    free(spans->items);
    *spans = (dl_spans){0};
}

uint8_t dl_range_roles(const char *name)
{
    static const char *const update[] = {"optimizer.step", "optimizer ##", "optimizer_step",
                                         "OptimizerStep", NULL};
    static const char *const backward[] = {"backward", "autograd::engine", "AccumulateGrad", NULL};
    if (dl_holds_any(name, update) || strcasecmp(name, "optimizer") == 0) return DL_ROLE_UPDATE;
    if (strcasestr(name, "optimizer.zero_grad") != NULL) return DL_ROLE_CLEAR;
    if (strncmp(name, "c10d::", 6) == 0) return DL_ROLE_EXCHANGE;
    /* The forward pass of an autograd.Function has the name of its class: FSDP's
     * RegisterPostBackwardFunction is forward, RegisterPostBackwardFunctionBackward backward. */
    if (dl_holds_any(name, backward) && !dl_ends_with(name, "Function")) return DL_ROLE_BACKWARD;
    const bool input = strstr(name, "DataLoader") != NULL && strstr(name, "__next__") != NULL;
    return input ? DL_ROLE_INPUT : 0;
}

/* Returns the time spans of threads inside ranges of this role. */
static dl_spans take_spans(const dl_phase_hints *hints, const dl_trace *trace, uint8_t role)
{
    dl_spans spans = {0};
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_RANGE || dl_work_roles(hints, a) != role) continue;
        dl_spans_add(&spans, a->thread, a->start_ns, a->start_ns + a->duration_ns);
    }
    dl_spans_join(&spans);
    return spans;
}

void dl_phase_hints_init(dl_phase_hints *hints, const dl_trace *trace, const dl_launches *launches)
{
    const size_t string_count = trace->string_count;
    *hints = (dl_phase_hints){.launches = launches,
                              .kernel_phase = dl_calloc(string_count, 1, "phases"),
                              .range_roles = dl_calloc(string_count, 1, "phases"),
                              .string_count = string_count};
    DL_AUTOFREE uint8_t *seen = dl_calloc(string_count, 1, "phases");
    bool on_device = false;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        on_device |= a->kind == DL_ACTIVITY_KERNEL;
        if (a->name >= string_count || seen[a->name]) continue;
        dl_phase phase = DL_PHASE_NONE;
        if (a->kind == DL_ACTIVITY_RANGE) {
            hints->range_roles[a->name] = dl_range_roles(trace->strings[a->name]);
        } else if (a->kind == DL_ACTIVITY_KERNEL) {
            dl_kernel_classify(trace->strings[a->name], &phase);
            hints->kernel_phase[a->name] = (uint8_t)phase;
        } else {
            continue;
        }
        seen[a->name] = 1;
    }
    if (on_device && launches->call_count == 0) return; /* no range is known to launch a kernel */
    hints->backward = take_spans(hints, trace, DL_ROLE_BACKWARD);
    hints->update = take_spans(hints, trace, DL_ROLE_UPDATE);
}

dl_phase dl_phase_hint(const dl_phase_hints *hints, const dl_activity *work)
{
    const dl_activity *call = dl_launches_find(hints->launches, work->correlation);
    if (call != NULL && dl_spans_hold(&hints->update, call->thread, call->start_ns))
        return DL_PHASE_UPDATE;
    if (call != NULL && dl_spans_hold(&hints->backward, call->thread, call->start_ns))
        return DL_PHASE_BACKWARD;
    /* Ranges are more reliable than names: forward passes use kernels that other layers use in
     * their backward passes, and backward passes may contain fused updates. */
    const bool by_name = work->kind == DL_ACTIVITY_KERNEL && hints->backward.count == 0 &&
                         work->name < hints->string_count;
    return by_name ? (dl_phase)hints->kernel_phase[work->name] : DL_PHASE_NONE;
}

uint8_t dl_work_roles(const dl_phase_hints *hints, const dl_activity *work)
{
    static const uint8_t roles[] = {[DL_PHASE_FORWARD] = DL_ROLE_FORWARD,
                                    [DL_PHASE_BACKWARD] = DL_ROLE_BACKWARD,
                                    [DL_PHASE_UPDATE] = DL_ROLE_UPDATE};
    if (work->kind == DL_ACTIVITY_RANGE)
        return work->name < hints->string_count ? hints->range_roles[work->name] : 0;
    return roles[dl_phase_hint(hints, work)];
}

void dl_phase_hints_free(dl_phase_hints *hints)
{
    dl_spans_free(&hints->backward);
    dl_spans_free(&hints->update);
    free(hints->kernel_phase);
    free(hints->range_roles);
    *hints = (dl_phase_hints){0};
}
