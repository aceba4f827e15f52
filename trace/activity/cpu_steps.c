/* Training on cores: operators, steps, phases, collectives. See the header. */
#include "trace/activity/cpu_steps.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/steps_internal.h"

#define STEPS_MIN 3
#define FORWARD_LENGTH 0.5

const char *const dl_cpu_part_names[DL_CPU_PARTS] = {"input", "forward", "backward", "update",
                                                     "waiting for collectives"};

/* --- operators -------------------------------------------------------------------------------- */

static bool holds(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        if (strcasestr(text, *parts) != NULL) return true;
    }
    return false;
}

bool dl_cpu_is_input(const char *name)
{
    return strstr(name, "DataLoader") != NULL && strstr(name, "__next__") != NULL;
}

static dl_cpu_role role_of(const char *name)
{
    static const char *const update[] = {"optimizer.step", NULL};
    static const char *const clear[] = {"optimizer.zero_grad", NULL};
    static const char *const backward[] = {"backward", "autograd::engine", "AccumulateGrad", NULL};
    if (holds(name, update)) return DL_CPU_UPDATE;
    if (holds(name, clear)) return DL_CPU_CLEAR;
    if (strncmp(name, "c10d::", 6) == 0) return DL_CPU_EXCHANGE;
    if (holds(name, backward)) return DL_CPU_BACKWARD;
    return dl_cpu_is_input(name) ? DL_CPU_INPUT : DL_CPU_OTHER;
}

static bool is_optimizers(dl_cpu_role role)
{
    return role == DL_CPU_UPDATE || role == DL_CPU_CLEAR;
}

/* What the strings of a trace are, by their index. */
typedef struct texts {
    char *const *strings; /* [count], borrowed */
    size_t count;
    bool *category; /* of operators */
    uint8_t *role;  /* dl_cpu_role */
} texts;

static texts look_at_texts(char *const *strings, size_t count)
{
    texts t = {.strings = strings,
               .count = count,
               .category = dl_calloc(count, sizeof(bool), "categories"),
               .role = dl_calloc(count, 1, "operators")};
    for (size_t i = 0; i < count; i++) {
        t.category[i] = strcmp(strings[i], "cpu_op") == 0 || strcmp(strings[i], "Operator") == 0;
        t.role[i] = (uint8_t)role_of(strings[i]);
    }
    return t;
}

static void texts_free(texts *t)
{
    free(t->category);
    free(t->role);
}

/* Whether the range is an operator, or an annotation whose role is known. PyTorch 1.8 calls
 * annotations operators too, those of steps among them. */
static bool counts(const texts *t, const dl_activity *range)
{
    if (range->kind != DL_ACTIVITY_RANGE || range->name >= t->count || range->detail >= t->count)
        return false;
    const dl_cpu_role role = (dl_cpu_role)t->role[range->name];
    if (is_optimizers(role) || role == DL_CPU_INPUT) return true;
    return t->category[range->detail] && strncmp(t->strings[range->name], "ProfilerStep", 12) != 0;
}

DL_ORDER(by_thread_and_start, dl_activity, DL_BY(thread), DL_BY(start_ns),
         DL_BY_DESCENDING(duration_ns));

/* The outermost of sorted ranges[count] of one thread, and all calls of collectives; the former's
 * total time into *total_ns. */
static dl_cpu_operators take_outermost(const dl_activity *ranges, size_t count, const texts *t,
                                       int64_t *total_ns)
{
    dl_cpu_operators found = {.thread = ranges[0].thread,
                              .items = dl_calloc(count, sizeof *found.items, "operators"),
                              .calls = dl_calloc(count, sizeof *found.calls, "operators")};
    int64_t end_ns = INT64_MIN, call_end_ns = INT64_MIN;
    *total_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *r = &ranges[i];
        const dl_cpu_operator o = {r->name, (dl_cpu_role)t->role[r->name], r->start_ns,
                                   r->start_ns + r->duration_ns};
        if (o.role == DL_CPU_EXCHANGE && o.start_ns >= call_end_ns) {
            found.calls[found.call_count++] = o;
            call_end_ns = o.end_ns;
        }
        if (o.start_ns < end_ns) continue;
        end_ns = o.end_ns;
        *total_ns += r->duration_ns;
        found.items[found.count++] = o;
    }
    return found;
}

/* Keeps the thread of sorted ranges[count] if its operators take more time than *best_ns. */
static void take_thread(dl_cpu_operators *operators, const dl_activity *ranges, size_t count,
                        const texts *t, int64_t *best_ns)
{
    int64_t total_ns;
    dl_cpu_operators found = take_outermost(ranges, count, t, &total_ns);
    if (total_ns <= *best_ns) {
        dl_cpu_operators_free(&found);
        return;
    }
    dl_cpu_operators_free(operators);
    *best_ns = total_ns;
    *operators = found;
    operators->starts_ns = dl_calloc(count, sizeof(int64_t), "operators");
    operators->start_count = count;
    for (size_t i = 0; i < count; i++)
        operators->starts_ns[i] = ranges[i].start_ns;
}

/* Calls that give a device something to do, or wait for what it was given: not those that ask how
 * many devices there are, nor the profiler's own cudaDeviceSynchronize. */
static bool calls_device(const char *name)
{
    static const char *const runtimes[] = {"cuda", "cu", "hip"};
    static const char *const acts[] = {"Launch", "Memcpy", "Memset", "StreamSynchronize", NULL};
    for (size_t i = 0; i < DL_LENGTH(runtimes); i++) {
        const size_t length = strlen(runtimes[i]);
        if (strncmp(name, runtimes[i], length) == 0 && isupper((unsigned char)name[length]))
            return holds(name, acts);
    }
    return false;
}

/* Operators and collectives of libraries for devices. */
static bool is_of_device(const char *name)
{
    static const char *const libraries[] = {"cudnn", "miopen", "nccl:", NULL};
    return holds(name, libraries) && strstr(name, "is_acceptable") == NULL;
}

static bool launches_kernels(const char *name)
{
    static const char *const launches[] = {"LaunchKernel", "LaunchCooperative", "GraphLaunch",
                                           NULL};
    return calls_device(name) && holds(name, launches);
}

static bool is_computing(const dl_activity *activity)
{
    return activity->kind == DL_ACTIVITY_KERNEL || activity->kind == DL_ACTIVITY_GRAPH;
}

/* Ranges and calls of work that no device is said to have done, of kernels' launches alone where it
 * copied; 0 where a device computed. */
static size_t lost_work(const dl_activity *activities, size_t count, char *const *strings,
                        size_t string_count)
{
    size_t launches = 0, others = 0;
    bool copied = false, computed = false;
    uint8_t *calls = dl_calloc(string_count, 1, "calls");
    bool *ranges = dl_calloc(string_count, sizeof *ranges, "ranges");
    for (size_t i = 0; i < string_count; i++) {
        calls[i] = launches_kernels(strings[i]) ? 2 : calls_device(strings[i]);
        ranges[i] = is_of_device(strings[i]);
    }
    for (size_t i = 0; i < count && !computed; i++) {
        const dl_activity *a = &activities[i];
        computed = is_computing(a);
        copied = copied || dl_activity_is_device_work(a);
        if (a->name >= string_count) continue;
        launches += a->kind == DL_ACTIVITY_CALL && calls[a->name] == 2;
        others += (a->kind == DL_ACTIVITY_CALL && calls[a->name] == 1) ||
                  (a->kind == DL_ACTIVITY_RANGE && ranges[a->name]);
    }
    free(calls);
    free(ranges);
    if (computed) return 0;
    return copied ? launches : launches + others;
}

char *dl_cpu_lost_device(const dl_trace *trace)
{
    const size_t lost =
        lost_work(trace->activities, trace->activity_count, trace->strings, trace->string_count);
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
        "ProfilerActivity.CUDA]; if they are still missing, CUPTI may not record: that takes the "
        "right to profile (root, CAP_SYS_ADMIN, or NVreg_RestrictProfilingToAdminUsers=0 of the "
        "driver), in WSL a driver that supports it, and no other profiler beside it",
        lost);
}

void dl_cpu_operators_find(dl_cpu_operators *operators, const dl_activity *activities, size_t count,
                           char *const *strings, size_t string_count)
{
    size_t kept = 0;
    int64_t best_ns = -1;
    for (size_t i = 0; i < count; i++) {
        if (dl_activity_is_device_work(&activities[i])) return;
    }
    if (lost_work(activities, count, strings, string_count) > 0) return;
    texts t = look_at_texts(strings, string_count);
    dl_activity *ranges = dl_calloc(count, sizeof *ranges, "operators");
    bool any = false; /* beside annotations */
    for (size_t i = 0; i < count; i++) {
        if (!counts(&t, &activities[i])) continue;
        any = any || t.category[activities[i].detail];
        ranges[kept++] = activities[i];
    }
    if (any) qsort(ranges, kept, sizeof *ranges, by_thread_and_start);
    for (size_t first = 0, end; any && first < kept; first = end) {
        for (end = first + 1; end < kept && ranges[end].thread == ranges[first].thread;)
            end++;
        take_thread(operators, ranges + first, end - first, &t, &best_ns);
    }
    free(ranges);
    texts_free(&t);
}

void dl_cpu_operators_free(dl_cpu_operators *operators)
{
    free(operators->items);
    free(operators->calls);
    free(operators->starts_ns);
    *operators = (dl_cpu_operators){0};
}

/* --- where steps end -------------------------------------------------------------------------- */

/* An optimizer's zero_grad may come at either end of a step: only what follows a backward pass
 * without another one in between ends a step. */
static int64_t *cut_at_updates(const dl_cpu_operators *operators, size_t *count)
{
    int64_t *cuts = dl_calloc(operators->count, sizeof *cuts, "steps");
    bool backward = false, inside = false;
    *count = 0;
    for (size_t i = 0; i < operators->count; i++) {
        const dl_cpu_operator *o = &operators->items[i];
        if (o->role == DL_CPU_BACKWARD) {
            backward = true;
            inside = false;
        }
        if (!is_optimizers(o->role)) continue;
        if (backward) {
            cuts[(*count)++] = o->end_ns;
            inside = true;
        } else if (inside) {
            cuts[*count - 1] = o->end_ns; /* a second optimizer, or zero_grad behind the update */
        }
        backward = false;
    }
    return cuts;
}

static int64_t *cut_at_units(const dl_cpu_operators *operators, size_t string_count, size_t *count)
{
    uint32_t *symbols = dl_calloc(operators->count, sizeof *symbols, "operators");
    int64_t *idle_ns = dl_calloc(operators->count, sizeof *idle_ns, "operators");
    int64_t *start_ns = dl_calloc(operators->count, sizeof *start_ns, "operators");
    uint8_t *roles = dl_calloc(string_count, 1, "operators");
    for (size_t i = 0; i < operators->count; i++) {
        const dl_cpu_operator *o = &operators->items[i];
        symbols[i] = o->name;
        start_ns[i] = o->start_ns;
        idle_ns[i] = i > 0 ? o->start_ns - operators->items[i - 1].end_ns : 0;
    }
    const dl_sequence sequence = {.symbols = symbols,
                                  .idle_ns = idle_ns,
                                  .start_ns = start_ns,
                                  .roles = roles,
                                  .count = operators->count,
                                  .kind_count = (uint32_t)string_count};
    dl_period period = {0};
    dl_period_find(&period, &sequence, 0);
    int64_t *cuts = dl_calloc(period.cut_count, sizeof *cuts, "steps");
    *count = period.cut_count;
    for (size_t i = 0; i < period.cut_count; i++)
        cuts[i] = start_ns[period.cuts[i]];
    dl_period_free(&period);
    free(symbols);
    free(idle_ns);
    free(start_ns);
    free(roles);
    return cuts;
}

int64_t *dl_cpu_operators_cuts(const dl_cpu_operators *operators, size_t string_count,
                               size_t *count, bool *by_update)
{
    *count = 0;
    *by_update = true;
    if (operators->count == 0) return NULL;
    int64_t *cuts = cut_at_updates(operators, count);
    if (*count >= STEPS_MIN) return cuts;
    free(cuts);
    *by_update = false;
    cuts = cut_at_units(operators, string_count, count);
    if (*count >= STEPS_MIN) return cuts;
    free(cuts);
    *count = 0;
    return NULL;
}

/* Forward operators of a step for each backward one; 0 without any of the latter. */
static double forward_share(const dl_cpu_operators *operators, const dl_activity_step *step,
                            size_t *item)
{
    const int64_t end_ns = step->start_ns + step->duration_ns;
    size_t counts[DL_CPU_EXCHANGE + 1] = {0};
    while (*item < operators->count && operators->items[*item].start_ns < step->start_ns)
        (*item)++;
    for (; *item < operators->count && operators->items[*item].start_ns < end_ns; (*item)++)
        counts[operators->items[*item].role]++;
    const double backward = (double)counts[DL_CPU_BACKWARD];
    return backward > 0 ? (double)counts[DL_CPU_OTHER] / backward : 0;
}

void dl_cpu_operators_set_apart(const dl_cpu_operators *operators, dl_activity_step *steps,
                                size_t count)
{
    double *shares = dl_calloc(count, sizeof *shares, "steps");
    double *regular = dl_calloc(count, sizeof *regular, "steps");
    size_t kept = 0, item = 0;
    for (size_t s = 0; s < count; s++) {
        shares[s] = forward_share(operators, &steps[s], &item);
        if (steps[s].label == DL_STEP_REGULAR) regular[kept++] = shares[s];
    }
    const double most = DL_CPU_EVALUATION * dl_distribution_of(regular, kept).p50;
    for (size_t s = 0; s < count && most > 0; s++) {
        if (steps[s].label == DL_STEP_REGULAR && shares[s] > most) steps[s].label = DL_STEP_OTHER;
    }
    free(shares);
    free(regular);
}

/* --- collectives ------------------------------------------------------------------------------ */

DL_ORDER(by_activity_start, dl_cpu_collective, DL_BY(start_ns));
DL_ORDER(by_call, dl_cpu_collective, DL_BY(called_ns), DL_BY(start_ns));

/* Ranks of a communicator by the COMMs of the trace, 0 if there is none. */
static uint32_t ranks_of(const dl_activity *const *comms, size_t count, uint64_t communicator)
{
    for (size_t i = 0; i < count; i++)
        if (comms[i]->object == communicator) return comms[i]->count;
    return 0;
}

/* "c10d::allreduce_" calls "AllReduce": capitals and '_' do not count. */
static bool calls_it(const char *operator_name, const char *collective)
{
    const char *at = strstr(operator_name, "::") + strlen("::");
    for (; *collective != '\0'; collective++, at++) {
        while (*at == '_')
            at++;
        if (strncasecmp(at, collective, 1) != 0) return false;
    }
    return true;
}

/* Other threads carry collectives out in the order of their calls; the first call before a
 * collective that none has is its own. A collective without a call was called when it started. */
static void find_calls(dl_cpu_training *training, const dl_cpu_operators *operators,
                       char *const *strings)
{
    bool *taken = dl_calloc(operators->call_count, sizeof *taken, "calls of collectives");
    size_t free_from = 0; /* all before are taken */
    for (size_t c = 0; c < training->collective_count; c++) {
        dl_cpu_collective *collective = &training->collectives[c];
        while (free_from < operators->call_count && taken[free_from])
            free_from++;
        for (size_t i = free_from; i < operators->call_count; i++) {
            const dl_cpu_operator *call = &operators->calls[i];
            if (call->start_ns > collective->start_ns) break;
            if (taken[i] || !calls_it(strings[call->name], collective->name)) continue;
            taken[i] = true;
            collective->called_ns = call->start_ns;
            break;
        }
    }
    free(taken);
}

static void take_collectives(dl_cpu_training *training, const dl_activity *activities, size_t count,
                             char *const *strings, const dl_cpu_operators *operators)
{
    const dl_activity **comms = NULL;
    size_t comm_count = 0;
    for (size_t i = 0; i < count; i++)
        if (activities[i].kind == DL_ACTIVITY_COMM)
            DL_APPEND(comms, comm_count, "communicators") = &activities[i];
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &activities[i];
        if (a->kind != DL_ACTIVITY_COLLECTIVE) continue;
        DL_APPEND(training->collectives, training->collective_count, "collectives") =
            (dl_cpu_collective){.name = strings[a->name],
                                .bytes = a->bytes,
                                .ranks = ranks_of(comms, comm_count, a->object),
                                .ready_frac = (double)NAN,
                                .called_ns = a->start_ns,
                                .start_ns = a->start_ns,
                                .end_ns = a->start_ns + a->duration_ns};
    }
    free(comms);
    if (training->collective_count == 0) return;
    qsort(training->collectives, training->collective_count, sizeof *training->collectives,
          by_activity_start);
    find_calls(training, operators, strings);
    qsort(training->collectives, training->collective_count, sizeof *training->collectives,
          by_call);
}

/* --- parts of a step -------------------------------------------------------------------------- */

/* What the search knows of each operator. */
typedef struct splits {
    dl_cpu_part *parts;
    int64_t *backward_ns; /* of its step's backward pass, until its end */
} splits;

/* Operators first to before end of one step. */
typedef struct pass {
    const dl_cpu_operators *operators;
    size_t first, end;
    size_t forward; /* operators of its first forward pass */
    size_t passes;
    bool updated; /* an update lies between two of them */
    dl_cpu_part *parts;
} pass;

static dl_cpu_part part_of_role(dl_cpu_role role)
{
    switch (role) {
    case DL_CPU_BACKWARD: return DL_CPU_PART_BACKWARD;
    case DL_CPU_CLEAR: return DL_CPU_PART_FORWARD;
    case DL_CPU_UPDATE: return DL_CPU_PART_UPDATE;
    case DL_CPU_INPUT: return DL_CPU_PART_INPUT;
    default: return DL_CPU_PART_WAIT;
    }
}

/* The part of a run of others; `before` and `behind` are the roles around it, OTHER at the step's
 * ends. */
static dl_cpu_part part_between(pass *p, size_t count, dl_cpu_role before, dl_cpu_role behind,
                                bool first)
{
    if (first) {
        p->forward = count;
        return DL_CPU_PART_FORWARD;
    }
    const bool again =
        count >= DL_CPU_FORWARD_FEWEST && (double)count >= FORWARD_LENGTH * (double)p->forward;
    if (behind == DL_CPU_BACKWARD) {
        return is_optimizers(before) || before == DL_CPU_INPUT || again ? DL_CPU_PART_FORWARD
                                                                        : DL_CPU_PART_BACKWARD;
    }
    return DL_CPU_PART_UPDATE;
}

/* Calls of collectives separate nothing. */
static dl_cpu_role role_at(const pass *p, size_t i)
{
    const dl_cpu_role role = p->operators->items[i].role;
    return role == DL_CPU_EXCHANGE ? DL_CPU_OTHER : role;
}

static void find_parts(pass *p)
{
    dl_cpu_role before = DL_CPU_OTHER;
    bool first = true;   /* no backward operator has come yet */
    bool update = false; /* an update has, after one */
    for (size_t i = p->first, end; i < p->end; i = end) {
        const dl_cpu_role role = role_at(p, i);
        end = i + 1;
        if (role != DL_CPU_OTHER) {
            p->parts[i] = part_of_role(role);
            before = role;
            first = first && role != DL_CPU_BACKWARD;
            update = update || (is_optimizers(role) && !first);
            continue;
        }
        while (end < p->end && role_at(p, end) == DL_CPU_OTHER)
            end++;
        const dl_cpu_role behind = end < p->end ? role_at(p, end) : DL_CPU_OTHER;
        const dl_cpu_part part = part_between(p, end - i, before, behind, first);
        if (part == DL_CPU_PART_FORWARD && behind == DL_CPU_BACKWARD) {
            p->passes++;
            p->updated = p->updated || update;
        }
        for (size_t k = i; k < end; k++) {
            const bool call = p->operators->items[k].role == DL_CPU_EXCHANGE;
            p->parts[k] = call ? DL_CPU_PART_WAIT : part;
        }
    }
}

/* Where the search for a step goes on after the one before it. */
typedef struct places {
    size_t item, call, collective, running; /* running: the first that ends in the step or later */
} places;

/* Until when the thread waits for collectives, from number `first` on, in a gap between operators.
 */
static int64_t wait_end_ns(const dl_cpu_training *training, size_t first, int64_t from_ns,
                           int64_t to_ns)
{
    int64_t end_ns = from_ns;
    for (size_t c = first; c < training->collective_count; c++) {
        const dl_cpu_collective *collective = &training->collectives[c];
        if (collective->called_ns >= to_ns) break;
        if (collective->end_ns > end_ns && collective->end_ns <= to_ns) end_ns = collective->end_ns;
    }
    return end_ns;
}

/* Splits the gap before an operator, or at the step's end. */
static void add_gap(const dl_cpu_training *training, const places *at, dl_cpu_step *step,
                    int64_t from_ns, int64_t to_ns, dl_cpu_part part)
{
    if (to_ns <= from_ns) return;
    const int64_t awake_ns = wait_end_ns(training, at->running, from_ns, to_ns);
    step->part_ns[DL_CPU_PART_WAIT] += awake_ns - from_ns;
    step->part_ns[part] += to_ns - awake_ns;
}

/* The collective called at that time was so after `backward_ns` of the step's backward pass. */
static void set_ready(dl_cpu_training *training, const dl_cpu_step *step, int64_t called_ns,
                      int64_t backward_ns)
{
    for (size_t c = step->first; c < step->first + step->count; c++) {
        if (training->collectives[c].called_ns == called_ns)
            training->collectives[c].ready_frac = (double)backward_ns;
    }
}

/* An operator until end_ns: the calls of collectives within it count as waiting, and take place
 * during the backward pass if it is a part of it. *call is the first that may lie in it. */
static void add_operator(dl_cpu_training *training, dl_cpu_step *step,
                         const dl_cpu_operators *operators, const dl_cpu_operator *o,
                         dl_cpu_part part, bool ready, size_t *call, int64_t end_ns)
{
    int64_t at_ns = o->start_ns;
    while (*call < operators->call_count && operators->calls[*call].start_ns < o->start_ns)
        (*call)++;
    for (; *call < operators->call_count && operators->calls[*call].start_ns < end_ns; (*call)++) {
        const dl_cpu_operator *c = &operators->calls[*call];
        const int64_t until_ns = c->end_ns < end_ns ? c->end_ns : end_ns;
        step->part_ns[part] += c->start_ns - at_ns;
        if (ready) set_ready(training, step, c->start_ns, step->part_ns[DL_CPU_PART_BACKWARD]);
        step->part_ns[DL_CPU_PART_WAIT] += until_ns - c->start_ns;
        at_ns = until_ns;
    }
    step->part_ns[part] += end_ns - at_ns;
}

/* Operators of the thread that start within an outermost one, which counts too. */
static size_t started_between(const dl_cpu_operators *operators, int64_t from_ns, int64_t to_ns)
{
    size_t first = 0, after = 0;
    DL_BISECT(first, operators->start_count, operators->starts_ns[first] < from_ns);
    DL_BISECT(after, operators->start_count, operators->starts_ns[after] < to_ns);
    return after > first ? after - first : 1; /* one that takes no time */
}

static void take_step(dl_cpu_training *training, const dl_cpu_operators *operators,
                      dl_cpu_step *step, const splits *to, places *at)
{
    dl_cpu_part *parts = to->parts;
    const int64_t end_ns = step->start_ns + step->duration_ns;
    pass p = {.operators = operators, .first = at->item, .parts = parts};
    step->first = at->collective;
    while (at->running < training->collective_count &&
           training->collectives[at->running].end_ns <= step->start_ns)
        at->running++;
    while (p.first < operators->count && operators->items[p.first].start_ns < step->start_ns)
        p.first++;
    at->item = p.first;
    for (p.end = p.first; p.end < operators->count && operators->items[p.end].start_ns < end_ns;)
        p.end++;
    while (step->first < training->collective_count &&
           training->collectives[step->first].called_ns < step->start_ns)
        step->first++;
    while (step->first + step->count < training->collective_count &&
           training->collectives[step->first + step->count].called_ns < end_ns)
        step->count++;
    at->collective = step->first;
    find_parts(&p);
    step->passes = p.updated ? 1 : p.passes;
    int64_t at_ns = step->start_ns;
    size_t last = p.first; /* after the last backward operator */
    for (size_t i = p.first; i < p.end; i++) {
        if (parts[i] == DL_CPU_PART_BACKWARD) last = i + 1;
    }
    bool backward = false;
    dl_cpu_part gap = DL_CPU_PART_FORWARD;
    size_t call = at->call;
    for (size_t i = p.first; i < p.end; i++) {
        const dl_cpu_operator *o = &operators->items[i];
        const int64_t until_ns = o->end_ns < end_ns ? o->end_ns : end_ns;
        backward = backward || parts[i] == DL_CPU_PART_BACKWARD;
        /* The host's time around a call of a collective is that of its surroundings. */
        gap = parts[i] != DL_CPU_PART_WAIT ? parts[i]
              : backward && i < last       ? DL_CPU_PART_BACKWARD
              : backward                   ? DL_CPU_PART_UPDATE
                                           : DL_CPU_PART_FORWARD;
        add_gap(training, at, step, at_ns, o->start_ns, gap);
        add_operator(training, step, operators, o, parts[i], backward && i < last, &call, until_ns);
        to->backward_ns[i] = step->part_ns[DL_CPU_PART_BACKWARD];
        step->part_operators[parts[i]] += started_between(operators, o->start_ns, o->end_ns);
        at_ns = until_ns;
    }
    at->call = call;
    add_gap(training, at, step, at_ns, end_ns, gap);
    for (size_t c = step->first; c < step->first + step->count; c++) {
        dl_cpu_collective *collective = &training->collectives[c];
        collective->ready_frac /= (double)step->part_ns[DL_CPU_PART_BACKWARD];
    }
}

/* Time of the step in which some collective ran; they are sorted by their calls, so nearly by
 * their starts. */
static int64_t collectives_ns(const dl_cpu_training *training, const dl_cpu_step *step)
{
    int64_t sum_ns = 0, until_ns = INT64_MIN;
    for (size_t c = step->first; c < step->first + step->count; c++) {
        const dl_cpu_collective *collective = &training->collectives[c];
        const int64_t from_ns = collective->start_ns > until_ns ? collective->start_ns : until_ns;
        if (collective->end_ns <= from_ns) continue;
        sum_ns += collective->end_ns - from_ns;
        until_ns = collective->end_ns;
    }
    return sum_ns;
}

/* The step that holds the time, or NULL. */
static const dl_cpu_step *step_at(const dl_cpu_training *training, int64_t time_ns)
{
    size_t after = 0; /* the first step that starts later */
    DL_BISECT(after, training->step_count, training->steps[after].start_ns <= time_ns);
    const dl_cpu_step *step = after > 0 ? &training->steps[after - 1] : NULL;
    return step != NULL && time_ns < step->start_ns + step->duration_ns ? step : NULL;
}

static size_t usual_passes(const dl_cpu_training *training)
{
    size_t *passes = dl_calloc(training->step_count, sizeof *passes, "steps");
    size_t kept = 0;
    for (size_t s = 0; s < training->step_count; s++) {
        const dl_cpu_step *step = &training->steps[s];
        if (step->label == DL_STEP_REGULAR && step->passes > 0) passes[kept++] = step->passes;
    }
    const size_t usual = kept > 0 ? dl_most_usual(passes, kept) : 1;
    free(passes);
    return usual;
}

/* A gradient that some regular step adds. */
typedef struct addition {
    size_t step;
    int64_t start_ns;
    dl_cpu_gradient gradient;
} addition;

DL_ORDER(by_addition, addition, DL_BY(step), DL_BY(start_ns));

/* Part of the step's backward pass that is done when the operator around time_ns ends. */
static double ready_frac(const dl_cpu_operators *operators, const int64_t *backward_ns,
                         const dl_cpu_step *step, int64_t time_ns)
{
    size_t after = 0; /* the first operator that starts later */
    DL_BISECT(after, operators->count, operators->items[after].start_ns <= time_ns);
    const double all_ns = (double)step->part_ns[DL_CPU_PART_BACKWARD];
    return after > 0 && all_ns > 0 ? (double)backward_ns[after - 1] / all_ns : 1;
}

static addition *find_additions(const dl_cpu_training *training, const dl_activity *activities,
                                size_t activity_count, const dl_cpu_operators *operators,
                                const int64_t *backward_ns, size_t *count)
{
    addition *all = NULL;
    *count = 0;
    for (size_t i = 0; i < activity_count; i++) {
        const dl_activity *a = &activities[i];
        if (a->kind != DL_ACTIVITY_RANGE || a->bytes == 0 || a->thread != training->thread)
            continue;
        const dl_cpu_step *step = step_at(training, a->start_ns);
        if (step == NULL || step->label != DL_STEP_REGULAR) continue;
        const dl_cpu_gradient gradient = {(double)a->bytes,
                                          ready_frac(operators, backward_ns, step, a->start_ns)};
        DL_APPEND(all, *count, "gradients") =
            (addition){(size_t)(step - training->steps), a->start_ns, gradient};
    }
    if (*count > 0) qsort(all, *count, sizeof *all, by_addition);
    return all;
}

/* The gradients of the last pass of regular steps that have as many as most and of the same sizes
 * as the first of these; and their mean bytes over all regular steps and passes. */
static void find_gradients(dl_cpu_training *training, const addition *all, size_t count)
{
    size_t *lengths = dl_calloc(training->step_count, sizeof *lengths, "gradients");
    double sum = 0;
    size_t runs = 0, alike = 0;
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && all[end].step == all[first].step; end++)
            sum += all[end].gradient.bytes;
        lengths[runs++] = end - first;
    }
    const size_t usual = runs > 0 ? dl_most_usual(lengths, runs) : 0;
    const size_t own = usual / training->passes;
    training->gradient_bytes =
        sum / fmax(1, (double)training->regular_count * (double)training->passes);
    free(lengths);
    if (own == 0 || usual % training->passes != 0) return;
    training->gradients = dl_calloc(own, sizeof *training->gradients, "gradients");
    training->gradient_count = own;
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && all[end].step == all[first].step;)
            end++;
        if (end - first != usual) continue;
        bool same = true;
        for (size_t i = 0; i < own && alike > 0; i++)
            same = same && all[end - own + i].gradient.bytes == training->gradients[i].bytes;
        if (!same) continue;
        alike++;
        for (size_t i = 0; i < own; i++) {
            const dl_cpu_gradient *from = &all[end - own + i].gradient;
            training->gradients[i].bytes = from->bytes;
            training->gradients[i].ready_frac += from->ready_frac;
        }
    }
    for (size_t i = 0; i < own; i++)
        training->gradients[i].ready_frac /= (double)alike;
}

/* Whether a data loader of PyTorch's has processes of its own. */
static bool loads_in_processes(char *const *strings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(strings[i], "_MultiProcessingDataLoaderIter") != NULL) return true;
    }
    return false;
}

void dl_cpu_training_find(dl_cpu_training *training, const dl_activity *activities, size_t count,
                          char *const *strings, size_t string_count, const dl_step_line *line)
{
    dl_cpu_operators operators = {0};
    if (line->device != DL_NO_DEVICE || line->count == 0) return;
    dl_cpu_operators_find(&operators, activities, count, strings, string_count);
    if (operators.count == 0) return;
    training->thread = operators.thread;
    training->waits_for_loaders = loads_in_processes(strings, string_count);
    take_collectives(training, activities, count, strings, &operators);
    training->steps = dl_calloc(line->count, sizeof *training->steps, "steps");
    training->step_count = line->count;
    const splits to = {
        .parts = dl_calloc(operators.count, sizeof *to.parts, "operators"),
        .backward_ns = dl_calloc(operators.count, sizeof *to.backward_ns, "operators"),
    };
    places at = {0};
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *from = &line->steps[s];
        dl_cpu_step *step = &training->steps[s];
        *step = (dl_cpu_step){
            .label = from->label, .start_ns = from->start_ns, .duration_ns = from->duration_ns};
        training->regular_count += from->label == DL_STEP_REGULAR;
        take_step(training, &operators, step, &to, &at);
        step->collectives_ns = collectives_ns(training, step);
    }
    training->passes = usual_passes(training);
    size_t additions;
    addition *all =
        find_additions(training, activities, count, &operators, to.backward_ns, &additions);
    find_gradients(training, all, additions);
    free(all);
    free(to.parts);
    free(to.backward_ns);
    dl_cpu_operators_free(&operators);
}

void dl_cpu_training_free(dl_cpu_training *training)
{
    free(training->steps);
    free(training->collectives);
    free(training->gradients);
    *training = (dl_cpu_training){0};
}

/* --- sums ------------------------------------------------------------------------------------- */

/* part = DL_CPU_PARTS: the whole steps. */
static dl_distribution over_steps(const dl_cpu_training *training, int part)
{
    double *values = dl_calloc(training->step_count, sizeof *values, "steps");
    size_t count = 0;
    for (size_t s = 0; s < training->step_count; s++) {
        const dl_cpu_step *step = &training->steps[s];
        if (step->label != DL_STEP_REGULAR) continue;
        values[count++] = (double)(part == DL_CPU_PARTS ? step->duration_ns : step->part_ns[part]);
    }
    const dl_distribution d = dl_distribution_of(values, count);
    free(values);
    return d;
}

dl_distribution dl_cpu_training_part(const dl_cpu_training *training, dl_cpu_part part)
{
    return over_steps(training, part);
}

dl_distribution dl_cpu_training_steps(const dl_cpu_training *training)
{
    return over_steps(training, DL_CPU_PARTS);
}

DL_ORDER(by_content, dl_cpu_collective, DL_BY_TEXT(name), DL_BY(bytes), DL_BY(ranks),
         isnan(a->ready_frac) - isnan(b->ready_frac));

static int by_total(const void *left, const void *right)
{
    const dl_cpu_collectives *a = left, *b = right;
    const double a_ns = a->duration_ns.mean * (double)a->duration_ns.count;
    const double b_ns = b->duration_ns.mean * (double)b->duration_ns.count;
    return DL_COMPARE(b_ns, a_ns);
}

dl_cpu_collectives *dl_cpu_training_collectives(const dl_cpu_training *training, size_t *count)
{
    dl_cpu_collective *all = dl_calloc(training->collective_count, sizeof *all, "collectives");
    double *values = dl_calloc(training->collective_count, sizeof *values, "collectives");
    dl_cpu_collectives *groups = NULL;
    size_t kept = 0;
    *count = 0;
    for (size_t s = 0; s < training->step_count; s++) {
        const dl_cpu_step *step = &training->steps[s];
        for (size_t c = 0; c < step->count && step->label == DL_STEP_REGULAR; c++)
            all[kept++] = training->collectives[step->first + c];
    }
    if (kept > 0) qsort(all, kept, sizeof *all, by_content);
    for (size_t first = 0, end; first < kept; first = end) {
        double ready = 0;
        for (end = first; end < kept && by_content(&all[first], &all[end]) == 0; end++) {
            values[end - first] = (double)(all[end].end_ns - all[end].start_ns);
            ready += all[end].ready_frac;
        }
        const double number = (double)(end - first);
        DL_APPEND(groups, *count, "collectives") =
            (dl_cpu_collectives){.name = all[first].name,
                                 .bytes = all[first].bytes,
                                 .ranks = all[first].ranks,
                                 .per_step = number / (double)training->regular_count,
                                 .ready_frac = ready / number,
                                 .duration_ns = dl_distribution_of(values, end - first)};
    }
    if (*count > 0) qsort(groups, *count, sizeof *groups, by_total);
    free(all);
    free(values);
    return groups;
}
