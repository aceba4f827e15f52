#include "trace/activity/step_phases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "trace/activity/kernel_class.h"
#include "trace/activity/phases.h"
#include "trace/distribution.h"

/* A run of operations repeats the first forward pass if it has at least FORWARD_LENGTH times as
 * many operations, and if enough of them have names that occur in the first pass: FORWARD_ALIKE
 * times the length of the run or, unless the run ends the step, of the shorter of the run and the
 * first pass. A run of fewer than FORWARD_FEWEST operations counts only if most of them are named
 * as forward. After an input or an update, names are not compared; with ranges, nor are lengths. */
#define FORWARD_FEWEST 4
#define FORWARD_LENGTH 0.5
#define FORWARD_ALIKE 0.8

/* Roles that end a run of work. */
#define TELLING (DL_ROLE_BACKWARD | DL_ROLE_UPDATE | DL_ROLE_INPUT)

/* State of the search in one step. */
typedef struct search {
    const dl_trace *trace;
    const dl_step_line *line;
    uint8_t *classes;  /* [string_count] dl_kernel_class by name */
    uint8_t *phases;   /* [line.work_count] */
    uint8_t *roles;    /* [line.work_count] */
    uint32_t *in_step; /* [string_count] number (>= 1) of the last step whose first forward pass
                        * contains the name */
    uint32_t step;
    size_t forward; /* number of operations in its first forward pass, or between two of its sends
                     * and receives, if the trace has such calls: a pipeline's stage starts with
                     * several passes */
    uint8_t *crossings; /* [string_count] 1: kernels of sends and receives; NULL: no such calls */
    uint8_t *changes;   /* [string_count] 1: in-place sums, products, copies and clearings */
    bool by_ranges;     /* ranges name backward passes */
} search;

static const dl_activity *work_of(const search *s, size_t w)
{
    return &s->trace->activities[s->line->work[w]];
}

/* Returns the number of the operations [first, end) except those with which PyTorch's programs sum,
 * scale and clear gradients between passes. */
static size_t length_of(const search *s, size_t first, size_t end)
{
    size_t length = 0;
    for (size_t w = first; w < end; w++)
        length += !s->changes[work_of(s, w)->name];
    return length;
}

/* Returns whether the names of most of the operations [first, end) denote a forward pass. */
static bool is_named_forward(const search *s, size_t first, size_t end)
{
    size_t named = 0;
    for (size_t w = first; w < end; w++)
        named += (s->roles[w] & DL_ROLE_FORWARD) != 0;
    return 2 * named > end - first;
}

static bool is_long(const search *s, size_t first, size_t end)
{
    const size_t length = length_of(s, first, end);
    return (length >= FORWARD_FEWEST || is_named_forward(s, first, end)) &&
           (double)length >= FORWARD_LENGTH * (double)s->forward;
}

/* Returns whether operations [first, end) contain a repeated forward pass or, with `only`, nothing
 * else. */
static bool repeats_forward(const search *s, size_t first, size_t end, bool only)
{
    const size_t length = length_of(s, first, end);
    size_t known = 0;
    for (size_t w = first; w < end; w++) {
        const uint32_t name = work_of(s, w)->name;
        known += s->in_step[name] == s->step && !s->changes[name];
    }
    return is_long(s, first, end) &&
           (double)known >=
               FORWARD_ALIKE * (double)(only || length < s->forward ? length : s->forward);
}

/* Returns the phase of the operations [first, end), which lie between an operation of roles
 * `before` and one of roles `after`; after = 0: the step's end. */
static dl_phase between(const search *s, size_t first, size_t end, uint8_t before, uint8_t after)
{
    const bool begins = (before & (DL_ROLE_INPUT | DL_ROLE_UPDATE)) != 0;
    /* Without ranges an optimizer's unnamed kernels, after the named ones, may resemble a pass. */
    const bool may_repeat = s->by_ranges ? after == 0 || (begins && after & DL_ROLE_INPUT)
                                         : after == 0 && !(before & DL_ROLE_UPDATE);
    if (may_repeat && repeats_forward(s, first, end, true)) return DL_PHASE_FORWARD;
    if (!(after & DL_ROLE_BACKWARD)) return DL_PHASE_UPDATE;
    const bool forward =
        begins ? s->by_ranges || is_long(s, first, end) : repeats_forward(s, first, end, false);
    return forward ? DL_PHASE_FORWARD : DL_PHASE_BACKWARD;
}

/* Returns the end of the forward pass at the start of operations [first, end). If only kernels'
 * names give the phases, it ends after the loss when that is the last work named as forward,
 * because matrix products have the same names in both passes. */
static size_t forward_end(const search *s, size_t first, size_t end)
{
    for (size_t w = end; w-- > first && !s->by_ranges;) {
        if (!(s->roles[w] & DL_ROLE_FORWARD)) continue;
        return s->classes[work_of(s, w)->name] == DL_KERNEL_SOFTMAX ? w + 1 : end;
    }
    return end;
}

/* Returns the number of operations of the first forward pass among operations [first, end). */
static size_t count_forward(const search *s, size_t first, size_t end)
{
    size_t longest = 0, length = 0;
    if (s->crossings == NULL) return length_of(s, first, end);
    for (size_t w = first; w < end; w++) {
        const dl_activity *a = work_of(s, w);
        const bool crosses = a->kind == DL_ACTIVITY_KERNEL && s->crossings[a->name];
        length = crosses ? 0 : length + 1;
        if (length > longest) longest = length;
    }
    return longest;
}

/* Returns which names are those of kernels that send and receive, if the trace has such calls. */
static uint8_t *find_crossings(const dl_trace *trace)
{
    bool any = false;
    for (size_t i = 0; i < trace->activity_count && !any; i++) {
        const dl_activity *a = &trace->activities[i];
        any = a->kind == DL_ACTIVITY_COLLECTIVE && (strcmp(trace->strings[a->name], "Send") == 0 ||
                                                    strcmp(trace->strings[a->name], "Recv") == 0);
    }
    if (!any) return NULL;
    uint8_t *crossings = dl_calloc(trace->string_count, 1, "phases");
    for (size_t i = 0; i < trace->string_count; i++) {
        dl_kernel_collective told = {"", ""};
        crossings[i] = dl_kernel_tell_collective(trace->strings[i], &told) &&
                       strcmp(told.collective, "SendRecv") == 0;
    }
    return crossings;
}

static dl_phase phase_of(uint8_t roles)
{
    if (roles & DL_ROLE_BACKWARD) return DL_PHASE_BACKWARD;
    if (roles & DL_ROLE_INPUT) return DL_PHASE_NONE;
    return roles & DL_ROLE_FORWARD ? DL_PHASE_FORWARD : DL_PHASE_UPDATE;
}

static bool find_phases(search *s, const dl_activity_step *step)
{
    const size_t end = step->first + step->count;
    size_t backward = step->first;
    while (backward < end && !(s->roles[backward] & DL_ROLE_BACKWARD))
        backward++;
    if (backward == end) return false;
    backward = forward_end(s, step->first, backward);
    s->forward = count_forward(s, step->first, backward);
    for (size_t w = step->first; w < backward && s->crossings == NULL && s->by_ranges; w++)
        s->forward -= (s->roles[w] & TELLING) != 0; /* clearing, input: later passes lack them */
    s->step++;
    for (size_t w = step->first; w < backward; w++) {
        /* Without ranges, an optimizer's kernels before the backward pass set gradients to zero. */
        const bool told = s->by_ranges && s->roles[w] & TELLING;
        s->phases[w] = (uint8_t)(told ? phase_of(s->roles[w]) : DL_PHASE_FORWARD);
        s->in_step[work_of(s, w)->name] = s->step;
    }
    for (size_t w = backward, next; w < end; w = next) {
        for (next = w; next < end && !(s->roles[next] & TELLING);)
            next++;
        if (next == w) {
            s->phases[w] = (uint8_t)phase_of(s->roles[w]);
            next = w + 1;
            continue;
        }
        const uint8_t before = w > step->first ? s->roles[w - 1] : 0;
        const dl_phase phase = between(s, w, next, before, next < end ? s->roles[next] : 0);
        const size_t split = phase == DL_PHASE_FORWARD ? forward_end(s, w, next) : next;
        memset(s->phases + w, (int)phase, split - w);
        memset(s->phases + split, DL_PHASE_BACKWARD, next - split);
    }
    return true;
}

/* Returns the number of backward passes of a step that follow a forward pass. If an update lies
 * between two of them, they belong to different models: returns 1 and adds 1 to *alternating. */
static size_t count_passes(const search *s, const dl_activity_step *step, size_t *alternating)
{
    size_t passes = 0;
    bool updated = false;
    dl_phase before = DL_PHASE_NONE;
    for (size_t w = step->first; w < step->first + step->count; w++) {
        const dl_phase phase = (dl_phase)s->phases[w];
        updated = updated || (s->roles[w] & DL_ROLE_UPDATE && passes > 0);
        if (phase == DL_PHASE_BACKWARD && before == DL_PHASE_FORWARD) {
            if (updated) {
                ++*alternating;
                return 1;
            }
            passes++;
        }
        if (phase != DL_PHASE_NONE) before = phase;
    }
    return passes;
}

/* Minimum fraction of the steps with the most usual number of passes at which other numbers are
 * exceptions, such as a truncated last step. */
#define USUAL_PASSES_MIN 0.75

static void take_passes(dl_step_phases *phases, size_t *passes, size_t count)
{
    double sum = 0;
    size_t alike = 0;
    phases->passes = count > 0 ? dl_most_usual(passes, count) : 1;
    for (size_t i = 0; i < count; i++) {
        sum += (double)passes[i];
        alike += passes[i] == phases->passes;
    }
    phases->mean_passes = count > 0 ? sum / (double)count : 1;
    if ((double)alike < USUAL_PASSES_MIN * (double)count)
        phases->passes = (size_t)lround(phases->mean_passes);
}

static bool is_updated(const search *s, const dl_activity_step *step)
{
    for (size_t w = step->first; w < step->first + step->count; w++)
        if ((s->roles[w] & DL_ROLE_CLEAR) == DL_ROLE_UPDATE)
            return true; /* an update, not only a clearing */
    return false;
}

/* Whether an operator changes a tensor in place as programs change gradients: not relu_, which
 * belongs to a layer. */
static bool is_change(const char *name)
{
    static const char *const changes[] = {"add_",  "sub_",  "mul_", "div_",
                                          "copy_", "fill_", "zero_"};
    const char *const prefixes[] = {"aten::_foreach_", "aten::"};
    for (size_t p = 0; p < DL_LENGTH(prefixes); p++)
        for (size_t c = 0; c < DL_LENGTH(changes); c++)
            if (strncmp(name, prefixes[p], strlen(prefixes[p])) == 0 &&
                strcmp(name + strlen(prefixes[p]), changes[c]) == 0)
                return true;
    return false;
}

void dl_step_phases_find(dl_step_phases *phases, const dl_trace *trace, const dl_step_line *line)
{
    DL_SCOPED(dl_launches) launches = {0};
    DL_SCOPED(dl_phase_hints) hints = {0};
    dl_launches_init(&launches, trace->activities, trace->activity_count);
    dl_phase_hints_init(&hints, trace, &launches);
    phases->phases = dl_calloc(line->work_count, 1, "phases");
    phases->roles = dl_calloc(line->work_count, 1, "phases");
    phases->step_passes = dl_calloc(line->count, sizeof *phases->step_passes, "phases");
    search s = {.trace = trace,
                .line = line,
                .phases = phases->phases,
                .roles = phases->roles,
                .classes = dl_kernel_classes(trace),
                .crossings = find_crossings(trace),
                .in_step = dl_calloc(trace->string_count, sizeof *s.in_step, "phases"),
                .changes = dl_calloc(trace->string_count, 1, "phases"),
                .by_ranges = hints.backward.count > 0};
    for (size_t i = 0; i < trace->string_count; i++)
        s.changes[i] = is_change(trace->strings[i]);
    size_t *passes = dl_calloc(line->count, sizeof *passes, "phases"), kept = 0;
    size_t alternating = 0;
    for (size_t i = 0; i < line->count; i++) {
        const dl_activity_step *step = &line->steps[i];
        if (step->label != DL_STEP_REGULAR) continue;
        for (size_t w = step->first; w < step->first + step->count; w++)
            s.roles[w] = dl_work_roles(&hints, work_of(&s, w));
        if (!find_phases(&s, step)) continue;
        phases->known_steps++;
        phases->updated_steps += is_updated(&s, step);
        phases->step_passes[i] = passes[kept] = count_passes(&s, step, &alternating);
        kept += passes[kept] > 0;
    }
    take_passes(phases, passes, kept);
    phases->alternates = 2 * alternating > phases->known_steps;
    free(passes);
    free(s.in_step);
    free(s.changes);
    free(s.crossings);
    free(s.classes);
}

double *dl_pass_ends(const dl_step_phases *phases, const dl_activity_step *step,
                     const double *done_ns)
{
    double *ends_ns = dl_calloc(phases->passes, sizeof *ends_ns, "passes");
    const size_t end = step->first + step->count;
    size_t passes = 0;
    dl_phase before = DL_PHASE_NONE;
    for (size_t w = step->first; w < end; w++) {
        const dl_phase phase = (dl_phase)phases->phases[w];
        if (phase == DL_PHASE_BACKWARD && before == DL_PHASE_FORWARD && passes++ > 0 &&
            passes <= phases->passes)
            ends_ns[passes - 2] = done_ns[w - 1];
        if (phase != DL_PHASE_NONE) before = phase;
    }
    if (passes != phases->passes) memset(ends_ns, 0, phases->passes * sizeof *ends_ns);
    if (step->count > 0) ends_ns[phases->passes - 1] = done_ns[end - 1];
    return ends_ns;
}

double dl_backward_share(const double *ends_ns, size_t passes, double done_ns)
{
    const size_t first = passes > 1 && ends_ns[0] <= 0 ? passes - 1 : 0; /* only the sum is known */
    const double count = (double)(passes - first);
    double start_ns = 0;
    for (size_t p = first; p < passes; p++) {
        if (done_ns <= ends_ns[p] && ends_ns[p] > start_ns)
            return ((double)(p - first) + (done_ns - start_ns) / (ends_ns[p] - start_ns)) / count;
        start_ns = ends_ns[p];
    }
    return 1;
}

void dl_step_phases_free(dl_step_phases *phases)
{
    free(phases->phases);
    free(phases->roles);
    free(phases->step_passes);
    *phases = (dl_step_phases){0};
}
