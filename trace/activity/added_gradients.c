#include "trace/activity/added_gradients.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/phases.h"
#include "trace/distribution.h"

/* A gradient added in a regular step. */
typedef struct addition {
    size_t step;
    size_t pass; /* number of backward passes that begin before it in the trace */
    int64_t start_ns;
    dl_added_gradient gradient;
} addition;

DL_ORDER(by_addition, addition, DL_BY(step), DL_BY(start_ns));

/* Returns for each work, and for the end, the number of backward passes that begin before it; freed
 * by the caller. */
static size_t *number_passes(const dl_step_phases *phases, size_t count)
{
    size_t *passes = dl_calloc(count + 1, sizeof *passes, "passes");
    dl_phase before = DL_PHASE_NONE;
    for (size_t i = 0; i < count; i++) {
        const dl_phase phase = (dl_phase)phases->phases[i];
        passes[i + 1] = passes[i] + (phase == DL_PHASE_BACKWARD && before != DL_PHASE_BACKWARD);
        if (phase != DL_PHASE_NONE) before = phase;
    }
    return passes;
}

static addition *find_additions(const dl_trace *trace, const dl_step_line *line,
                                const dl_step_phases *phases, const int64_t *begins_ns,
                                const double *done, size_t *count)
{
    addition *all = NULL;
    DL_AUTOFREE size_t *passes = number_passes(phases, line->work_count);
    const bool on_cores = line->device == DL_NO_DEVICE;
    *count = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        size_t after = 0, s = 0; /* first work, and first step, that begins later */
        if (a->kind != DL_ACTIVITY_RANGE || a->bytes == 0) continue;
        if (on_cores && a->thread != trace->activities[line->work[0]].thread) continue;
        DL_BISECT(after, line->work_count, begins_ns[after] <= a->start_ns);
        DL_BISECT(s, line->count, line->steps[s].first < after);
        const dl_activity_step *step = s > 0 ? &line->steps[s - 1] : NULL;
        if (step == NULL || step->label != DL_STEP_REGULAR || after > step->first + step->count)
            continue;
        DL_APPEND(all, *count, "gradients") =
            (addition){s - 1, passes[after], a->start_ns, {(double)a->bytes, done[after - 1]}};
    }
    dl_sort(all, *count, sizeof *all, by_addition);
    return all;
}

/* Returns whether the passes of additions [a, a_end) and [b, b_end) begin with the same sizes, and
 * b has more of them. */
static bool continues(const addition *all, size_t a, size_t a_end, size_t b, size_t b_end)
{
    if (b_end - b <= a_end - a) return false;
    for (size_t i = 0; i < a_end - a; i++)
        if (all[a + i].gradient.bytes != all[b + i].gradient.bytes) return false;
    return true;
}

/* Returns the bytes of the passes of all[count], a step's additions, except passes that equal the
 * beginning of a longer one: backward passes begin at the loss, so both go through the same layers
 * first. */
static double bytes_once(const addition *all, size_t count)
{
    double sum = 0;
    DL_GROUPS (a, a_end, count, all[a_end].pass == all[a].pass) {
        bool again = false;
        DL_GROUPS (b, b_end, count, all[b_end].pass == all[b].pass)
            again = again || continues(all, a, a_end, b, b_end);
        for (size_t i = a; i < a_end && !again; i++)
            sum += all[i].gradient.bytes;
    }
    return sum;
}

/* Sets the bytes of a pass, which most of the line's regular steps have in common. */
static void set_bytes(dl_added_gradients *added, const addition *all, size_t count,
                      const dl_step_line *line, const dl_step_phases *phases)
{
    DL_AUTOFREE size_t *bytes = dl_calloc(line->count, sizeof *bytes, "gradients");
    size_t kept = 0, alike = 0;
    DL_GROUPS (first, end, count, all[end].step == all[first].step) {
        const double once = bytes_once(&all[first], end - first);
        added->step_bytes += once / (double)line->regular_count;
        for (size_t i = first; i < end; i++)
            bytes[all[i].step] += (size_t)all[i].gradient.bytes;
        if (phases->alternates) bytes[all[first].step] = (size_t)once;
    }
    for (size_t s = 0; s < line->count; s++)
        if (line->steps[s].label == DL_STEP_REGULAR)
            bytes[kept++] = bytes[s] / (phases->step_passes[s] > 0 ? phases->step_passes[s] : 1);
    const size_t usual = dl_most_usual(bytes, kept);
    for (size_t i = 0; i < kept; i++)
        alike += bytes[i] == usual;
    if (2 * alike > kept) added->bytes = (double)usual;
}

/* Sets the gradients of the last pass, averaged over the regular steps that have the most frequent
 * number of gradients and the sizes of the first such step. */
static void set_items(dl_added_gradients *added, const addition *all, size_t count,
                      const dl_step_phases *phases)
{
    DL_AUTOFREE size_t *lengths = dl_calloc(count, sizeof *lengths, "gradients");
    size_t runs = 0, alike = 0;
    DL_GROUPS (first, end, count, all[end].step == all[first].step)
        lengths[runs++] = end - first;
    const size_t usual = dl_most_usual(lengths, runs);
    const size_t own = usual / phases->passes;
    if (own == 0 || usual % phases->passes != 0) return;
    added->items = dl_calloc(own, sizeof *added->items, "gradients");
    added->count = own;
    DL_GROUPS (first, end, count, all[end].step == all[first].step) {
        if (end - first != usual) continue;
        const addition *last = &all[end - own];
        bool same = true;
        for (size_t i = 0; i < own && alike > 0; i++)
            same = same && last[i].gradient.bytes == added->items[i].bytes;
        if (!same) continue;
        alike++;
        for (size_t i = 0; i < own; i++) {
            added->items[i].bytes = last[i].gradient.bytes;
            added->items[i].ready_frac += last[i].gradient.ready_frac;
        }
    }
    for (size_t i = 0; i < own; i++)
        added->items[i].ready_frac /= (double)alike;
}

dl_added_gradients dl_added_gradients_find(const dl_trace *trace, const dl_step_line *line,
                                           const dl_step_phases *phases, const int64_t *begins_ns,
                                           const double *done)
{
    dl_added_gradients added = {0};
    size_t count;
    DL_AUTOFREE addition *all = find_additions(trace, line, phases, begins_ns, done, &count);
    set_bytes(&added, all, count, line, phases);
    set_items(&added, all, count, phases);
    return added;
}
