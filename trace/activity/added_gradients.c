#include "trace/activity/added_gradients.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/phases.h"
#include "trace/distribution.h"

/* A gradient added in a regular step. */
typedef struct addition {
    size_t step;
    size_t pass;   /* number of backward passes that begin before it in the trace */
    size_t update; /* number of operations of updates before it, without clearing of gradients */
    int64_t start_ns;
    bool again; /* to a gradient that the parameter already has */
    dl_added_gradient gradient;
} addition;

DL_ORDER(by_addition, addition, DL_BY(step), DL_BY(start_ns));
DL_ORDER(by_thread_and_start, dl_activity, DL_BY(thread), DL_BY(start_ns));

/* Returns for each work, and for the end, the number of backward passes that begin before it, and
 * writes the number of operations of updates to updates[count + 1]; freed by the caller. */
static size_t *number_passes(const dl_step_phases *phases, size_t count, size_t *updates)
{
    size_t *passes = dl_calloc(count + 1, sizeof *passes, "passes");
    dl_phase before = DL_PHASE_NONE;
    for (size_t i = 0; i < count; i++) {
        const dl_phase phase = (dl_phase)phases->phases[i];
        passes[i + 1] = passes[i] + (phase == DL_PHASE_BACKWARD && before != DL_PHASE_BACKWARD);
        updates[i + 1] = updates[i] + ((phases->roles[i] & DL_ROLE_CLEAR) == DL_ROLE_UPDATE);
        if (phase != DL_PHASE_NONE) before = phase;
    }
    return passes;
}

/* Returns the sums of tensors, by thread and start, *count of them; freed by the caller. A gradient's
 * addition contains one if the parameter already has a gradient, which else takes its place. */
static dl_activity *find_sums(const dl_trace *trace, size_t *count)
{
    dl_activity *sums = NULL;
    DL_AUTOFREE uint8_t *adds = dl_calloc(trace->string_count + 1, 1, "gradients");
    for (size_t i = 0; i < trace->string_count; i++)
        adds[i] = strcmp(trace->strings[i], "aten::add_") == 0 ||
                  strcmp(trace->strings[i], "aten::add") == 0;
    *count = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind == DL_ACTIVITY_RANGE && a->name < trace->string_count && adds[a->name])
            DL_APPEND(sums, *count, "gradients") = *a;
    }
    dl_sort(sums, *count, sizeof *sums, by_thread_and_start);
    return sums;
}

/* Returns whether a sum starts within the range `of`. */
static bool holds_sum(const dl_activity *of, const dl_activity *sums, size_t count)
{
    size_t i;
    DL_BISECT(i, count, by_thread_and_start(&sums[i], of) < 0);
    return i < count && sums[i].thread == of->thread &&
           sums[i].start_ns < of->start_ns + of->duration_ns;
}

static addition *find_additions(const dl_trace *trace, const dl_step_line *line,
                                const dl_step_phases *phases, const int64_t *begins_ns,
                                const double *done, size_t *count)
{
    addition *all = NULL;
    DL_AUTOFREE size_t *updates = dl_calloc(line->work_count + 1, sizeof *updates, "updates");
    DL_AUTOFREE size_t *passes = number_passes(phases, line->work_count, updates);
    const bool on_cores = line->device == DL_NO_DEVICE;
    size_t sum_count;
    DL_AUTOFREE dl_activity *sums = find_sums(trace, &sum_count);
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
        DL_APPEND(all, *count, "gradients") = (addition){s - 1,
                                                         passes[after],
                                                         updates[after],
                                                         a->start_ns,
                                                         holds_sum(a, sums, sum_count),
                                                         {(double)a->bytes, done[after - 1]}};
    }
    dl_sort(all, *count, sizeof *all, by_addition);
    return all;
}

/* Returns whether the passes of additions [a, a_end) and [b, b_end) begin with the same sizes, and
 * b has more of them, or replaces a, which no update follows (SAM). */
static bool continues(const addition *all, size_t a, size_t a_end, size_t b, size_t b_end)
{
    const bool replaces = b_end - b == a_end - a && b > a && all[a].update == all[b].update;
    if (b_end - b <= a_end - a && !replaces) return false;
    for (size_t i = 0; i < a_end - a; i++)
        if (all[a + i].gradient.bytes != all[b + i].gradient.bytes) return false;
    return true;
}

/* Returns the bytes of the passes of all[count], a step's additions, except passes that another one
 * continues: backward passes begin at the loss, so both go through the same layers first. */
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

/* Returns whether addition `of` adds to a gradient that all[count], those of its step, made. */
static bool repeats(const addition *of, const addition *all, size_t count)
{
    for (size_t i = 0; i < count && of->again; i++)
        if (!all[i].again && all[i].gradient.bytes == of->gradient.bytes) return true;
    return false;
}

/* Returns how many of all[count], the additions of a step, make a gradient. */
static size_t count_made(const addition *all, size_t count)
{
    size_t made = 0;
    for (size_t i = 0; i < count; i++)
        made += !all[i].again;
    return made;
}

/* In-place sums by start, as of an update that a program computes itself. Owned by the caller. */
typedef struct changes {
    dl_activity *items; /* [count] */
    size_t count;
    uint8_t *each; /* [string_count] by name: 1: of a tensor, 2: of a list */
} changes;

DL_ORDER(by_start, dl_activity, DL_BY(start_ns), DL_BY(thread));

/* Finds the in-place sums. */
static changes find_changes(const dl_trace *trace)
{
    changes found = {.each = dl_calloc(trace->string_count + 1, 1, "sums")};
    for (size_t i = 0; i < trace->string_count; i++) {
        const char *name = trace->strings[i];
        const bool list = strncmp(name, "aten::_foreach_", strlen("aten::_foreach_")) == 0;
        if (strncmp(name, "aten::", strlen("aten::")) != 0) continue;
        const char *rest = name + strlen(list ? "aten::_foreach_" : "aten::");
        if (strcmp(rest, "add_") == 0 || strcmp(rest, "sub_") == 0) found.each[i] = list ? 2 : 1;
    }
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind == DL_ACTIVITY_RANGE && a->name < trace->string_count && found.each[a->name])
            DL_APPEND(found.items, found.count, "sums") = *a;
    }
    dl_sort(found.items, found.count, sizeof *found.items, by_start);
    return found;
}

/* Returns whether as many tensors change between two times as a pass has gradients. */
static bool parameters_change(const changes *sums, int64_t from_ns, int64_t to_ns, size_t gradients)
{
    size_t i, changed = 0;
    DL_BISECT(i, sums->count, sums->items[i].start_ns < from_ns);
    for (; i < sums->count && sums->items[i].start_ns < to_ns && changed < gradients; i++)
        changed += sums->each[sums->items[i].name] == 2 ? gradients : 1;
    return changed >= gradients;
}

/* Returns whether the passes of all[count], the additions of a step, are of the same samples: only
 * one of them adds gradients (the others are torch.autograd.grad's), or each makes gradients of its
 * own and begins at another layer than the one before, so at the loss of another network, or after a
 * change of the parameters (SAM). */
static bool are_of_same_samples(const addition *all, size_t count, const changes *sums)
{
    size_t before = count;
    if (all[0].pass == all[count - 1].pass) return true;
    if (count_made(all, count) < count) return false;
    DL_GROUPS (a, end, count, all[end].pass == all[a].pass) {
        if (before < count && all[a].gradient.bytes == all[before].gradient.bytes &&
            !parameters_change(sums, all[a - 1].start_ns, all[a].start_ns, a - before))
            return false;
        before = a;
    }
    return true;
}

/* Returns whether the trace is of a stage of a pipeline. */
static bool sends(const dl_trace *trace)
{
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind == DL_ACTIVITY_COLLECTIVE && strcmp(trace->strings[a->name], "Send") == 0)
            return true;
    }
    return false;
}

/* Takes the passes of a step as one if those of most steps are of the same samples. */
static void join_passes(dl_step_phases *phases, const dl_trace *trace, const addition *all,
                        size_t count)
{
    size_t joint = 0;
    if (phases->passes < 2 || sends(trace)) return;
    const changes sums = find_changes(trace);
    DL_GROUPS (first, end, count, all[end].step == all[first].step)
        joint += are_of_same_samples(&all[first], end - first, &sums);
    free(sums.items);
    free(sums.each);
    if (2 * joint <= phases->known_steps) return;
    phases->joint = phases->passes;
    phases->passes = 1;
    phases->mean_passes = 1;
    phases->alternates = true;
}

/* Returns the bytes of a pass of all[count], the additions of a step of this many passes. If the
 * step makes gradients and adds to them, each counts once, also within a pass: one that has two
 * losses adds to each gradient twice. */
static double bytes_of_pass(const addition *all, size_t count, size_t passes)
{
    double sum = 0, once = 0;
    const bool made = count_made(all, count) > 0;
    for (size_t i = 0; i < count; i++) {
        sum += all[i].gradient.bytes;
        once += made && repeats(&all[i], all, count) ? 0 : all[i].gradient.bytes;
    }
    return once < sum || passes == 0 ? once : sum / (double)passes;
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
        bytes[all[first].step] =
            (size_t)(phases->alternates ? once
                                        : bytes_of_pass(&all[first], end - first,
                                                        phases->step_passes[all[first].step]));
    }
    for (size_t s = 0; s < line->count; s++)
        if (line->steps[s].label == DL_STEP_REGULAR) bytes[kept++] = bytes[s];
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
    size_t own = usual / phases->passes;
    if (own == 0 || usual % phases->passes != 0) return;
    DL_GROUPS (first, end, count, all[end].step == all[first].step) {
        const size_t made = count_made(&all[first], end - first);
        if (end - first == usual && made > 0 && own % made == 0) own = made; /* of the last loss */
    }
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
                                           dl_step_phases *phases, const int64_t *begins_ns,
                                           const double *done)
{
    dl_added_gradients added = {0};
    size_t count;
    DL_AUTOFREE addition *all = find_additions(trace, line, phases, begins_ns, done, &count);
    join_passes(phases, trace, all, count);
    added.apart = phases->passes > 1 && count > 0 && count_made(all, count) == count;
    set_bytes(&added, all, count, line, phases);
    set_items(&added, all, count, phases);
    return added;
}
