/* Training on cores: parts of steps, and collectives. */
#include "trace/activity/cpu_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/collectives.h"
#include "trace/activity/operators.h"
#include "trace/activity/phases.h"

const char *const dl_cpu_part_names[DL_CPU_PARTS] = {"input", "forward", "backward", "update",
                                                     "waiting for collectives"};

/* --- collectives ------------------------------------------------------------------------------ */

DL_ORDER(by_activity_start, dl_cpu_collective, DL_BY(start_ns));
DL_ORDER(by_call, dl_cpu_collective, DL_BY(called_ns), DL_BY(start_ns));

/* Returns whether an operator calls the collective: "c10d::allreduce_" calls "AllReduce". Ignores
 * case and '_'. */
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

/* Returns whether the operator calls the collective. Sets *scatters if the operator is a
 * reduce-scatter, which PyTorch's gloo backend executes as an all-reduce. */
static bool calls_for(const char *operator_name, const dl_cpu_collective *collective,
                      bool *scatters)
{
    *scatters = strcmp(collective->name, "AllReduce") == 0 && collective->ranks > 0 &&
                calls_it(operator_name, "ReduceScatter");
    return *scatters || calls_it(operator_name, collective->name);
}

/* Assigns a call to each collective. Other threads execute collectives in call order, so a
 * collective gets the first unassigned call of its kind that precedes it. Without such a call,
 * called_ns remains the collective's start. */
static void find_calls(dl_cpu_training *training, const dl_cpu_operators *operators,
                       char *const *strings)
{
    DL_AUTOFREE bool *taken =
        dl_calloc(operators->call_count, sizeof *taken, "calls of collectives");
    size_t free_from = 0; /* all earlier calls are assigned */
    for (size_t c = 0; c < training->collective_count; c++) {
        dl_cpu_collective *collective = &training->collectives[c];
        while (free_from < operators->call_count && taken[free_from])
            free_from++;
        for (size_t i = free_from; i < operators->call_count; i++) {
            const dl_activity *call = operators->calls[i];
            if (call->start_ns > collective->start_ns) break;
            bool scatters = false;
            if (taken[i] || !calls_for(strings[call->name], collective, &scatters)) continue;
            taken[i] = true;
            collective->called_ns = call->start_ns;
            if (scatters) {
                collective->name = "ReduceScatter";
                collective->bytes /= collective->ranks;
            }
            break;
        }
    }
}

static void take_collectives(dl_cpu_training *training, const dl_trace *trace,
                             const dl_cpu_operators *operators)
{
    dl_communicators communicators =
        dl_communicators_find(trace->activities, trace->activity_count);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_COLLECTIVE) continue;
        DL_APPEND(training->collectives, training->collective_count, "collectives") =
            (dl_cpu_collective){.name = trace->strings[a->name],
                                .bytes = a->bytes,
                                .ranks = dl_communicators_ranks(&communicators, a->object),
                                .integers = dl_collective_of_integers(a, trace->strings),
                                .step = SIZE_MAX,
                                .ready_frac = (double)NAN,
                                .called_ns = a->start_ns,
                                .start_ns = a->start_ns,
                                .end_ns = a->start_ns + a->duration_ns};
    }
    free(communicators.items);
    dl_cpu_collective *all = training->collectives;
    dl_sort(all, training->collective_count, sizeof *all, by_activity_start);
    find_calls(training, operators, trace->strings);
    dl_sort(all, training->collective_count, sizeof *all, by_call);
}

/* --- parts of a step -------------------------------------------------------------------------- */

/* Returns the part of a step to which an operator belongs: by its role if that is input or
 * exchange, else by its phase, else UPDATE if that is its only role, else FORWARD. */
static dl_cpu_part part_of(const dl_step_phases *phases, size_t item)
{
    static const dl_cpu_part parts[] = {[DL_PHASE_FORWARD] = DL_CPU_PART_FORWARD,
                                        [DL_PHASE_BACKWARD] = DL_CPU_PART_BACKWARD,
                                        [DL_PHASE_UPDATE] = DL_CPU_PART_UPDATE};
    const uint8_t roles = phases->roles[item];
    if (roles & DL_ROLE_INPUT) return DL_CPU_PART_INPUT;
    if (roles & DL_ROLE_EXCHANGE) return DL_CPU_PART_WAIT;
    if (phases->phases[item] != DL_PHASE_NONE) return parts[phases->phases[item]];
    return roles == DL_ROLE_UPDATE ? DL_CPU_PART_UPDATE : DL_CPU_PART_FORWARD;
}

/* Positions in the lists of calls and collectives at which the search for those of the next step
 * continues. */
typedef struct places {
    size_t call, collective, running; /* running: the first collective that ends in or after the
                                       * step */
} places;

/* Returns the end of the thread's wait for collectives [first, ...) in the gap from_ns .. to_ns
 * between operators; from_ns if it waits for none. */
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

/* Splits the gap before an operator, or at the step's end, into waiting and `part`. */
static void add_gap(const dl_cpu_training *training, const places *at, dl_cpu_step *step,
                    int64_t from_ns, int64_t to_ns, dl_cpu_part part)
{
    if (to_ns <= from_ns) return;
    const int64_t awake_ns = wait_end_ns(training, at->running, from_ns, to_ns);
    step->part_ns[DL_CPU_PART_WAIT] += awake_ns - from_ns;
    step->part_ns[part] += to_ns - awake_ns;
}

/* Sets ready_frac of the step's collectives called at called_ns to `backward_ns`, the time of the
 * backward passes so far, from which take_step computes the share. */
static void set_ready(dl_cpu_training *training, const dl_cpu_step *step, int64_t called_ns,
                      int64_t backward_ns)
{
    for (size_t c = step->first; c < step->first + step->count; c++) {
        if (training->collectives[c].called_ns == called_ns)
            training->collectives[c].ready_frac = (double)backward_ns;
    }
}

/* Adds the operator's time up to end_ns to `part` of the step. Calls of collectives within the
 * operator count as waiting; with `ready`, sets their ready_frac. *call is the first call that may
 * lie in the operator, and advances past its last one. */
static void add_operator(dl_cpu_training *training, dl_cpu_step *step,
                         const dl_cpu_operators *operators, const dl_activity *o, dl_cpu_part part,
                         bool ready, size_t *call, int64_t end_ns)
{
    int64_t at_ns = o->start_ns;
    while (*call < operators->call_count && operators->calls[*call]->start_ns < o->start_ns)
        (*call)++;
    for (; *call < operators->call_count && operators->calls[*call]->start_ns < end_ns; (*call)++) {
        const dl_activity *c = operators->calls[*call];
        const int64_t call_end_ns = c->start_ns + c->duration_ns;
        const int64_t until_ns = call_end_ns < end_ns ? call_end_ns : end_ns;
        step->part_ns[part] += c->start_ns - at_ns;
        if (ready) set_ready(training, step, c->start_ns, step->part_ns[DL_CPU_PART_BACKWARD]);
        step->part_ns[DL_CPU_PART_WAIT] += until_ns - c->start_ns;
        at_ns = until_ns;
    }
    step->part_ns[part] += end_ns - at_ns;
}

/* Returns the number of the thread's operators that start in from_ns .. to_ns, the interval of an
 * outermost operator, including that one. */
static size_t started_between(const dl_cpu_operators *operators, int64_t from_ns, int64_t to_ns)
{
    size_t first = 0, after = 0;
    DL_BISECT(first, operators->start_count, operators->starts_ns[first] < from_ns);
    DL_BISECT(after, operators->start_count, operators->starts_ns[after] < to_ns);
    return after > first ? after - first : 1; /* an operator of zero duration */
}

/* Finds the collectives called in the step. */
static void take_collectives_of(dl_cpu_training *training, dl_cpu_step *step, places *at)
{
    const int64_t end_ns = step->start_ns + step->duration_ns;
    while (at->running < training->collective_count &&
           training->collectives[at->running].end_ns <= step->start_ns)
        at->running++;
    while (at->collective < training->collective_count &&
           training->collectives[at->collective].called_ns < step->start_ns)
        at->collective++;
    step->first = at->collective;
    while (step->first + step->count < training->collective_count &&
           training->collectives[step->first + step->count].called_ns < end_ns)
        step->count++;
}

/* Splits the step with the operators of `work` into parts. Sets done[] of each operator to the share
 * of the step's backward passes that is over at the operator's end. */
static void take_step(dl_cpu_training *training, const dl_cpu_operators *operators,
                      const dl_activity_step *work, dl_cpu_step *step, double *done, places *at)
{
    const int64_t end_ns = step->start_ns + step->duration_ns;
    const size_t first = work->first, end = work->first + work->count;
    take_collectives_of(training, step, at);
    int64_t at_ns = step->start_ns;
    size_t last = first; /* index after the last backward operator */
    for (size_t i = first; i < end; i++) {
        if (part_of(&training->phases, i) == DL_CPU_PART_BACKWARD) last = i + 1;
    }
    bool backward = false;
    dl_cpu_part gap = DL_CPU_PART_FORWARD;
    for (size_t i = first; i < end; i++) {
        const dl_activity *o = operators->items[i];
        const dl_cpu_part part = part_of(&training->phases, i);
        const int64_t own_end_ns = dl_cpu_operators_end_ns(operators, i);
        const int64_t until_ns = own_end_ns < end_ns ? own_end_ns : end_ns;
        backward = backward || part == DL_CPU_PART_BACKWARD;
        /* The host time around a call of a collective belongs to the surrounding part. */
        gap = part != DL_CPU_PART_WAIT ? part
              : backward && i < last   ? DL_CPU_PART_BACKWARD
              : backward               ? DL_CPU_PART_UPDATE
                                       : DL_CPU_PART_FORWARD;
        add_gap(training, at, step, at_ns, o->start_ns, gap);
        add_operator(training, step, operators, o, part, backward && i < last, &at->call, until_ns);
        done[i] = (double)step->part_ns[DL_CPU_PART_BACKWARD];
        step->part_operators[part] += started_between(operators, o->start_ns, own_end_ns);
        at_ns = until_ns;
    }
    add_gap(training, at, step, at_ns, end_ns, gap);
    const dl_step_phases *phases = &training->phases;
    DL_AUTOFREE double *ends_ns = dl_pass_ends(phases, work, done);
    for (size_t i = first; i < end; i++)
        done[i] = dl_backward_share(ends_ns, phases->passes, done[i]);
    for (size_t c = step->first; c < step->first + step->count; c++) {
        double *ready = &training->collectives[c].ready_frac;
        if (!isnan(*ready)) *ready = dl_backward_share(ends_ns, phases->passes, *ready);
        if (step->label == DL_STEP_REGULAR)
            training->collectives[c].step = (size_t)(step - training->steps);
    }
}

/* A gradient accumulated in a regular step. */
typedef struct addition {
    size_t step;
    size_t pass; /* number of backward passes that begin before it in the trace */
    int64_t start_ns;
    dl_cpu_gradient gradient;
} addition;

DL_ORDER(by_addition, addition, DL_BY(step), DL_BY(start_ns));

/* Returns the index after the operator around time_ns. */
static size_t after_operator(const dl_cpu_operators *operators, int64_t time_ns)
{
    size_t after = 0; /* first operator that starts later */
    DL_BISECT(after, operators->count, operators->items[after]->start_ns <= time_ns);
    return after;
}

/* Returns for each operator, and for the end, the number of backward passes that begin before it;
 * freed by the caller. */
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

static addition *find_additions(const dl_cpu_training *training, const dl_trace *trace,
                                const dl_step_line *line, const dl_cpu_operators *operators,
                                const double *done, size_t *count)
{
    addition *all = NULL;
    size_t *passes = number_passes(&training->phases, operators->count);
    *count = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_RANGE || a->bytes == 0 || a->thread != training->thread)
            continue;
        const dl_activity_step *step = dl_regular_step_at(line, a->start_ns);
        if (step == NULL) continue;
        const size_t after = after_operator(operators, a->start_ns);
        const dl_cpu_gradient gradient = {(double)a->bytes, after > 0 ? done[after - 1] : 1};
        DL_APPEND(all, *count, "gradients") =
            (addition){(size_t)(step - line->steps), passes[after], a->start_ns, gradient};
    }
    free(passes);
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

/* Returns the index after the last addition of the pass of all[first]. */
static size_t pass_end(const addition *all, size_t first, size_t count)
{
    size_t end = first + 1;
    while (end < count && all[end].step == all[first].step && all[end].pass == all[first].pass)
        end++;
    return end;
}

/* Returns the bytes of all passes, except passes that equal the beginning of a longer pass of the
 * same step: backward passes begin at the loss, so both go through the same layers first. */
static double bytes_once(const addition *all, size_t count)
{
    double sum = 0;
    DL_GROUPS (step, end, count, all[end].step == all[step].step) {
        for (size_t a = step, a_end; a < end; a = a_end) {
            bool again = false;
            a_end = pass_end(all, a, end);
            for (size_t b = step; b < end && !again; b = pass_end(all, b, end))
                again = continues(all, a, a_end, b, pass_end(all, b, end));
            for (size_t i = a; i < a_end && !again; i++)
                sum += all[i].gradient.bytes;
        }
    }
    return sum;
}

/* Finds the gradients of the last pass, averaged over the regular steps that have the most frequent
 * number of gradients and the sizes of the first such step. Also sets gradient_bytes from all
 * regular steps. */
static void find_gradients(dl_cpu_training *training, const addition *all, size_t count)
{
    size_t *lengths = dl_calloc(training->step_count, sizeof *lengths, "gradients");
    size_t runs = 0, alike = 0;
    DL_GROUPS (first, end, count, all[end].step == all[first].step)
        lengths[runs++] = end - first;
    const size_t usual = runs > 0 ? dl_most_usual(lengths, runs) : 0;
    const size_t own = usual / training->phases.passes;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += all[i].gradient.bytes;
    const double steps = fmax(1, (double)training->regular_count);
    training->step_gradient_bytes = bytes_once(all, count) / steps;
    training->gradient_bytes = training->phases.alternates
                                   ? training->step_gradient_bytes
                                   : sum / (steps * training->phases.mean_passes);
    free(lengths);
    if (own == 0 || usual % training->phases.passes != 0) return;
    training->gradients = dl_calloc(own, sizeof *training->gradients, "gradients");
    training->gradient_count = own;
    DL_GROUPS (first, end, count, all[end].step == all[first].step) {
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

/* Returns whether a data loader of PyTorch uses separate processes. */
static bool loads_in_processes(char *const *strings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(strings[i], "_MultiProcessingDataLoaderIter") != NULL) return true;
    }
    return false;
}

void dl_cpu_training_find(dl_cpu_training *training, const dl_trace *trace,
                          const dl_step_line *line)
{
    DL_AUTO(dl_cpu_operators_free) dl_cpu_operators operators = {0};
    if (line->device != DL_NO_DEVICE || line->count == 0 || line->work_count == 0) return;
    dl_cpu_operators_find(&operators, trace->activities, trace->activity_count, trace->strings,
                          trace->string_count);
    dl_step_phases_find(&training->phases, trace, line);
    training->thread = operators.thread;
    training->waits_for_loaders = loads_in_processes(trace->strings, trace->string_count);
    take_collectives(training, trace, &operators);
    training->steps = dl_calloc(line->count, sizeof *training->steps, "steps");
    training->step_count = line->count;
    training->regular_count = line->regular_count;
    DL_AUTOFREE double *done = dl_calloc(operators.count, sizeof *done, "operators");
    places at = {0};
    for (size_t s = 0; s < line->count; s++) {
        const dl_activity_step *from = &line->steps[s];
        dl_cpu_step *step = &training->steps[s];
        *step = (dl_cpu_step){
            .label = from->label, .start_ns = from->start_ns, .duration_ns = from->duration_ns};
        take_step(training, &operators, from, step, done, &at);
    }
    size_t additions;
    DL_AUTOFREE addition *all = find_additions(training, trace, line, &operators, done, &additions);
    find_gradients(training, all, additions);
}

void dl_cpu_training_free(dl_cpu_training *training)
{
    free(training->steps);
    free(training->collectives);
    free(training->gradients);
    dl_step_phases_free(&training->phases);
    *training = (dl_cpu_training){0};
}

/* --- sums ------------------------------------------------------------------------------------- */

/* Returns the statistics of a part over the regular steps; part = DL_CPU_PARTS: whole steps. */
static dl_distribution over_steps(const dl_cpu_training *training, int part)
{
    DL_AUTOFREE double *values = dl_calloc(training->step_count, sizeof *values, "steps");
    size_t count = 0;
    for (size_t s = 0; s < training->step_count; s++) {
        const dl_cpu_step *step = &training->steps[s];
        if (step->label != DL_STEP_REGULAR) continue;
        values[count++] = (double)(part == DL_CPU_PARTS ? step->duration_ns : step->part_ns[part]);
    }
    return dl_distribution_of(values, count);
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
         DL_BY(integers), isnan(a->ready_frac) - isnan(b->ready_frac));

static int by_total(const void *left, const void *right)
{
    const dl_cpu_collectives *a = left, *b = right;
    const double a_ns = a->duration_ns.mean * (double)a->duration_ns.count;
    const double b_ns = b->duration_ns.mean * (double)b->duration_ns.count;
    return DL_COMPARE(b_ns, a_ns);
}

dl_cpu_collectives *dl_cpu_training_collectives(const dl_cpu_training *training, size_t *count)
{
    DL_AUTOFREE dl_cpu_collective *all =
        dl_calloc(training->collective_count, sizeof *all, "collectives");
    DL_AUTOFREE double *values =
        dl_calloc(training->collective_count, sizeof *values, "collectives");
    dl_cpu_collectives *groups = NULL;
    size_t kept = 0;
    *count = 0;
    for (size_t c = 0; c < training->collective_count; c++)
        if (training->collectives[c].step != SIZE_MAX) all[kept++] = training->collectives[c];
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
                                 .integers = all[first].integers,
                                 .per_step = number / (double)training->regular_count,
                                 .ready_frac = ready / number,
                                 .duration_ns = dl_distribution_of(values, end - first)};
    }
    if (*count > 0) qsort(groups, *count, sizeof *groups, by_total);
    return groups;
}
