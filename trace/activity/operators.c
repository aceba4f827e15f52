/* Operators of a framework on cores, and the ends of steps derived from them. See the header. */
#include "trace/activity/operators.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "trace/activity/steps_internal.h"
#include "trace/distribution.h"

#define STEPS_MIN 3

/* Returns whether a call submits work to a device or waits for it. Excludes queries such as the
 * number of devices, and cudaDeviceSynchronize, which the profiler itself calls. */
static bool calls_device(const char *name)
{
    static const char *const runtimes[] = {"cuda", "cu", "hip"};
    static const char *const acts[] = {"Launch", "Memcpy", "Memset", "StreamSynchronize", NULL};
    for (size_t i = 0; i < DL_LENGTH(runtimes); i++) {
        const size_t length = strlen(runtimes[i]);
        if (strncmp(name, runtimes[i], length) == 0 && isupper((unsigned char)name[length]))
            return dl_holds_any(name, acts);
    }
    return false;
}

/* Returns whether an operator or collective belongs to a device's library. */
static bool is_of_device(const char *name)
{
    static const char *const libraries[] = {"cudnn", "miopen", "nccl:", NULL};
    return dl_holds_any(name, libraries) && strstr(name, "is_acceptable") == NULL;
}

static bool launches_kernels(const char *name)
{
    static const char *const launches[] = {"LaunchKernel", "LaunchCooperative", "GraphLaunch",
                                           NULL};
    return calls_device(name) && dl_holds_any(name, launches);
}

static bool is_computing(const dl_activity *activity)
{
    return activity->kind == DL_ACTIVITY_KERNEL || activity->kind == DL_ACTIVITY_GRAPH;
}

/* Returns the number of ranges and calls whose device work is missing from the trace. If the trace
 * has copies, counts only kernel launches; if it has kernels, returns 0. */
static size_t lost_work(const dl_trace *trace)
{
    const size_t string_count = trace->string_count;
    size_t launches = 0, others = 0;
    bool copied = false, computed = false;
    DL_AUTOFREE uint8_t *calls = dl_calloc(string_count, 1, "calls");
    DL_AUTOFREE bool *ranges = dl_calloc(string_count, sizeof *ranges, "ranges");
    for (size_t i = 0; i < string_count; i++) {
        calls[i] = launches_kernels(trace->strings[i]) ? 2 : calls_device(trace->strings[i]);
        ranges[i] = is_of_device(trace->strings[i]);
    }
    for (size_t i = 0; i < trace->activity_count && !computed; i++) {
        const dl_activity *a = &trace->activities[i];
        computed = is_computing(a);
        copied = copied || dl_activity_is_device_work(a);
        if (a->name >= string_count) continue;
        launches += a->kind == DL_ACTIVITY_CALL && calls[a->name] == 2;
        others += (a->kind == DL_ACTIVITY_CALL && calls[a->name] == 1) ||
                  (a->kind == DL_ACTIVITY_RANGE && ranges[a->name]);
    }
    if (computed) return 0;
    return copied ? launches : launches + others;
}

char *dl_cpu_lost_device(const dl_trace *trace)
{
    const size_t lost = lost_work(trace);
    bool of_device = lost > 0 || dl_trace_meta(trace, "device.0.name") != NULL;
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (is_computing(&trace->activities[i])) return NULL;
        of_device = of_device || trace->activities[i].kind == DL_ACTIVITY_CALL;
    }
    if (!trace->complete && of_device) {
        return dl_strdup("the file is truncated: it lacks the GPU's operations, which PyTorch "
                         "writes last; record it again, with fewer steps if the disk was full or "
                         "time ran out");
    }
    if (lost == 0) return NULL;
    return dl_format(
        "the program used a GPU (%zu of its calls and operators), but the profiler recorded no "
        "kernels. PyTorch records them with activities=[ProfilerActivity.CPU, "
        "ProfilerActivity.CUDA], Nsight Systems with --trace=cuda; if they are still missing, "
        "CUPTI is not allowed to record: it needs permission to profile (root, CAP_SYS_ADMIN, or "
        "the driver's NVreg_RestrictProfilingToAdminUsers=0), in WSL a driver that supports it, "
        "and no other profiler at the same time",
        lost);
}

/* Returns whether the activity is an operator by its category. PyTorch 1.8 gives annotations the
 * same category; those of steps are excluded. */
static bool is_operator(const dl_activity *a, const dl_trace *trace)
{
    if (a->kind != DL_ACTIVITY_RANGE || a->name >= trace->string_count ||
        a->detail >= trace->string_count)
        return false;
    const char *category = trace->strings[a->detail];
    return (strcmp(category, "cpu_op") == 0 || strcmp(category, "Operator") == 0) &&
           strncmp(trace->strings[a->name], "ProfilerStep", 12) != 0;
}

/* Returns whether the activity is a range of an optimizer or a data loader, usually an
 * annotation. */
static bool is_told(const dl_activity *a, const uint8_t *roles, size_t string_count)
{
    return a->kind == DL_ACTIVITY_RANGE && a->name < string_count &&
           roles[a->name] & (DL_ROLE_UPDATE | DL_ROLE_INPUT);
}

DL_ORDER_OF_POINTERS(by_thread_and_start, dl_activity, DL_BY(thread), DL_BY(start_ns),
                     DL_BY_DESCENDING(duration_ns), DL_COMPARE(a, b));

/* Takes the outermost of the sorted ranges[count] of one thread, and all calls of collectives; sets
 * *total_ns to the total time of the outermost ranges. */
static dl_cpu_operators take_outermost(const dl_activity *const *ranges, size_t count,
                                       const uint8_t *roles, int64_t *total_ns)
{
    dl_cpu_operators found = {.thread = ranges[0]->thread,
                              .items = dl_calloc(count, sizeof *found.items, "operators"),
                              .calls = dl_calloc(count, sizeof *found.calls, "operators"),
                              .starts_ns = dl_calloc(count, sizeof(int64_t), "operators"),
                              .start_count = count};
    int64_t end_ns = INT64_MIN, call_end_ns = INT64_MIN;
    *total_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *r = ranges[i];
        found.starts_ns[i] = r->start_ns;
        if (roles[r->name] == DL_ROLE_EXCHANGE && r->start_ns >= call_end_ns) {
            found.calls[found.call_count++] = r;
            call_end_ns = r->start_ns + r->duration_ns;
        }
        if (r->start_ns < end_ns) continue;
        end_ns = r->start_ns + r->duration_ns;
        *total_ns += r->duration_ns;
        found.items[found.count++] = r;
    }
    return found;
}

void dl_cpu_operators_find(dl_cpu_operators *operators, const dl_trace *trace)
{
    const size_t count = trace->activity_count, string_count = trace->string_count;
    const dl_activity *activities = trace->activities;
    size_t kept = 0;
    int64_t best_ns = -1;
    for (size_t i = 0; i < count; i++) {
        if (dl_activity_is_device_work(&activities[i])) return;
    }
    if (lost_work(trace) > 0) return;
    uint8_t *roles = dl_calloc(string_count, 1, "operators");
    for (size_t i = 0; i < string_count; i++)
        roles[i] = dl_range_roles(trace->strings[i]);
    DL_AUTOFREE const dl_activity **ranges = dl_calloc(count, sizeof *ranges, "operators");
    bool any = false; /* there are operators other than annotations */
    for (size_t i = 0; i < count; i++) {
        const bool is = is_operator(&activities[i], trace);
        any = any || is;
        if (is || is_told(&activities[i], roles, string_count)) ranges[kept++] = &activities[i];
    }
    if (!any) kept = 0;
    dl_sort(ranges, kept, sizeof *ranges, by_thread_and_start);
    DL_GROUPS (first, end, kept, ranges[end]->thread == ranges[first]->thread) {
        int64_t total_ns;
        DL_AUTO(dl_cpu_operators_free)
        dl_cpu_operators found = take_outermost(ranges + first, end - first, roles, &total_ns);
        if (total_ns > best_ns) {
            const dl_cpu_operators before = *operators;
            best_ns = total_ns;
            *operators = found;
            found = before;
        }
    }
    if (kept > 0) {
        operators->roles = roles;
        operators->string_count = string_count;
    } else {
        free(roles);
    }
}

void dl_cpu_operators_free(dl_cpu_operators *operators)
{
    free(operators->items);
    free(operators->calls);
    free(operators->starts_ns);
    free(operators->roles);
    *operators = (dl_cpu_operators){0};
}

int64_t dl_cpu_operators_end_ns(const dl_cpu_operators *operators, size_t item)
{
    return operators->items[item]->start_ns + operators->items[item]->duration_ns;
}

dl_symbols dl_cpu_operators_symbols(const dl_cpu_operators *operators,
                                    const dl_activity *activities)
{
    const size_t count = operators->count;
    dl_symbol_line *line = dl_calloc(1, sizeof *line, "operators");
    *line = (dl_symbol_line){
        .device = DL_NO_DEVICE,
        .work_count = count,
        .work = dl_calloc(count, sizeof *line->work, "operators"),
        .count = count,
        .symbols = dl_calloc(count, sizeof *line->symbols, "operators"),
        .first = dl_calloc(count + 1, sizeof *line->first, "operators"),
        .idle_ns = dl_calloc(count, sizeof *line->idle_ns, "operators"),
        .start_ns = dl_calloc(count, sizeof *line->start_ns, "operators"),
        .kind_count = (uint32_t)operators->string_count,
        .kind_roles = dl_calloc(operators->string_count, 1, "operators"),
    };
    for (size_t i = 0; i < count; i++) {
        const dl_activity *o = operators->items[i];
        line->work[i] = (size_t)(o - activities);
        line->symbols[i] = o->name;
        line->first[i + 1] = i + 1;
        line->start_ns[i] = o->start_ns;
        line->idle_ns[i] = i > 0 ? o->start_ns - dl_cpu_operators_end_ns(operators, i - 1) : 0;
        line->kind_roles[o->name] = operators->roles[o->name] & (DL_ROLE_BACKWARD | DL_ROLE_UPDATE);
    }
    return (dl_symbols){line, 1};
}

/* Ends each update before the clearing of gradients, which may follow the next forward pass. If
 * there are others, removes updates that only clear. Returns the number of updates. */
static size_t end_before_clearing(const dl_cpu_operators *operators, dl_update *updates,
                                  size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t end = updates[i].end;
        while (end > updates[i].first &&
               operators->roles[operators->items[end - 1]->name] != DL_ROLE_UPDATE)
            end--;
        if (end > updates[i].first) updates[kept++] = (dl_update){updates[i].first, end};
    }
    return kept > 0 ? kept : count;
}

/* Returns for each of times_ns[count] how many operators start before it; freed by the caller. */
static size_t *places_of(const dl_sequence *sequence, const int64_t *times_ns, size_t count)
{
    size_t *places = dl_calloc(count, sizeof *places, "steps");
    for (size_t i = 0; i < count; i++)
        DL_BISECT(places[i], sequence->count, sequence->start_ns[places[i]] < times_ns[i]);
    return places;
}

double *dl_cpu_operators_gradients(const dl_cpu_operators *operators, const dl_trace *trace,
                                   const dl_sequence *sequence)
{
    double *gradients = dl_calloc(sequence->count + 1, sizeof *gradients, "gradients");
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        size_t place;
        if (a->kind != DL_ACTIVITY_RANGE || a->thread != operators->thread) continue;
        DL_BISECT(place, sequence->count, sequence->start_ns[place] <= a->start_ns);
        gradients[place] += (double)a->bytes;
    }
    for (size_t i = 0; i < sequence->count; i++)
        gradients[i + 1] += gradients[i];
    return gradients;
}

int64_t *dl_cpu_operators_cuts(const dl_cpu_operators *operators, const dl_sequence *sequence,
                               const double *gradients, size_t *count, size_t *updates)
{
    DL_AUTOFREE dl_update *found = dl_updates_find(sequence, count);
    *count = end_before_clearing(operators, found, *count);
    int64_t *cuts = dl_calloc(operators->count, sizeof *cuts, "steps");
    for (size_t i = 0; i < *count; i++)
        cuts[i] = dl_cpu_operators_end_ns(operators, found[i].end - 1);
    DL_AUTOFREE size_t *ends = places_of(sequence, cuts, *count);
    const size_t cycle = dl_updates_cycle(sequence, ends, *count, gradients);
    *count /= cycle;
    for (size_t i = 0; i < *count; i++)
        cuts[i] = cuts[(i + 1) * cycle - 1];
    *updates = *count >= STEPS_MIN ? cycle : 0;
    if (*updates == 0) {
        DL_SCOPED(dl_period) period = {0};
        dl_period_find(&period, sequence, 0);
        *count = period.cut_count >= STEPS_MIN ? period.cut_count : 0;
        for (size_t i = 0; i < *count; i++)
            cuts[i] = operators->items[period.cuts[i]]->start_ns;
    }
    return cuts;
}

bool dl_cpu_operators_hold_steps(const dl_sequence *sequence, const double *gradients,
                                 const int64_t *marks_ns, size_t mark_count, const int64_t *cuts_ns,
                                 size_t count)
{
    DL_AUTOFREE size_t *parts = places_of(sequence, marks_ns, mark_count);
    DL_AUTOFREE size_t *ends = places_of(sequence, cuts_ns, count);
    return dl_parts_hold_steps(sequence, parts, mark_count, ends, count, gradients);
}

/* Ratio of a step's forward to backward operators; 0 without backward operators. */
static double forward_share(const dl_cpu_operators *operators, const dl_activity_step *step)
{
    double forward = 0, backward = 0;
    for (size_t i = step->first; i < step->first + step->count; i++) {
        const uint8_t roles = operators->roles[operators->items[i]->name];
        forward += roles == 0;
        backward += roles == DL_ROLE_BACKWARD;
    }
    return backward > 0 ? forward / backward : 0;
}

/* Returns the phases after the forward pass for which the step has operators: DL_ROLE_BACKWARD and
 * DL_ROLE_UPDATE, or-ed. Clearing gradients does not count as an update. */
static unsigned later_phases(const dl_cpu_operators *operators, const dl_activity_step *step)
{
    unsigned phases = 0;
    for (size_t i = step->first; i < step->first + step->count; i++) {
        const uint8_t roles = operators->roles[operators->items[i]->name];
        if (roles == DL_ROLE_BACKWARD || roles == DL_ROLE_UPDATE) phases |= roles;
    }
    return phases;
}

/* Returns whether the last step lacks a phase that all regular steps before it have. */
static bool ends_early(const dl_cpu_operators *operators, const dl_activity_step *steps,
                       size_t count)
{
    unsigned common = DL_ROLE_BACKWARD | DL_ROLE_UPDATE;
    bool any = false;
    for (size_t s = 0; s + 1 < count; s++) {
        if (steps[s].label != DL_STEP_REGULAR) continue;
        common &= later_phases(operators, &steps[s]);
        any = true;
    }
    return any && (common & ~later_phases(operators, &steps[count - 1])) != 0;
}

void dl_cpu_operators_set_apart(const dl_cpu_operators *operators, dl_activity_step *steps,
                                size_t count)
{
    DL_AUTOFREE double *shares = dl_calloc(count, sizeof *shares, "steps");
    DL_AUTOFREE double *sorted = dl_calloc(count, sizeof *sorted, "steps");
    for (size_t s = 0; s < count; s++)
        sorted[s] = shares[s] = forward_share(operators, &steps[s]);
    const double most = DL_CPU_EVALUATION * dl_distribution_of(sorted, count).p50;
    size_t validations = 0;
    for (size_t s = 0; s < count && most > 0; s++)
        validations += steps[s].label == DL_STEP_REGULAR && shares[s] > most;
    for (size_t s = 0; s < count && most > 0; s++) {
        const bool recurs = validations > 1 && later_phases(operators, &steps[s]) ==
                                                   (DL_ROLE_BACKWARD | DL_ROLE_UPDATE);
        if (shares[s] > most && !recurs) steps[s].label = DL_STEP_OTHER;
    }
    if (count > 0 && ends_early(operators, steps, count)) steps[count - 1].label = DL_STEP_OTHER;
}
