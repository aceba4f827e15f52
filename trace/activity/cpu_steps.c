/* Training on cores: parts of steps, and collectives. */
#include "trace/activity/cpu_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "trace/activity/operators.h"
#include "trace/activity/phases.h"

const char *const dl_cpu_part_names[DL_CPU_PARTS] = {"input", "forward", "backward", "update",
                                                     "waiting for collectives"};

/* --- collectives ------------------------------------------------------------------------------ */

DL_ORDER(by_activity_start, dl_collective_kernel, DL_BY(start_ns));
DL_ORDER(by_call, dl_collective_kernel, DL_BY(called_ns), DL_BY(start_ns));

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
static bool calls_for(const char *operator_name, const dl_collective_kernel *collective,
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
        dl_collective_kernel *collective = &training->collectives[c];
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
            (dl_collective_kernel){.activity = (uint32_t)i,
                                   .device = DL_NO_DEVICE,
                                   .name = trace->strings[a->name],
                                   .bytes = a->bytes,
                                   .object = a->object,
                                   .ranks = dl_communicators_ranks(&communicators, a->object),
                                   .integers = dl_collective_of_integers(a, trace->strings),
                                   .step = SIZE_MAX,
                                   .ready_frac = (double)NAN,
                                   .called_ns = a->start_ns,
                                   .start_ns = a->start_ns,
                                   .duration_ns = a->duration_ns};
    }
    free(communicators.items);
    dl_collective_kernel *all = training->collectives;
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
        const dl_collective_kernel *collective = &training->collectives[c];
        const int64_t own_end_ns = collective->start_ns + collective->duration_ns;
        if (collective->called_ns >= to_ns) break;
        if (own_end_ns > end_ns && own_end_ns <= to_ns) end_ns = own_end_ns;
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
static void take_collectives_of(const dl_cpu_training *training, const dl_activity_step *work,
                                dl_cpu_step *step, places *at)
{
    const dl_collective_kernel *all = training->collectives;
    const size_t count = training->collective_count;
    while (at->running < count &&
           all[at->running].start_ns + all[at->running].duration_ns <= work->start_ns)
        at->running++;
    while (at->collective < count && all[at->collective].called_ns < work->start_ns)
        at->collective++;
    step->first = at->collective;
    while (step->first + step->count < count &&
           all[step->first + step->count].called_ns < work->start_ns + work->duration_ns)
        step->count++;
}

/* Splits the step with the operators of `work` into parts. Sets done[] of each operator to the
 * share of the step's backward passes that is over at the operator's end. */
static void take_step(dl_cpu_training *training, const dl_cpu_operators *operators,
                      const dl_activity_step *work, dl_cpu_step *step, double *done, places *at)
{
    const int64_t end_ns = work->start_ns + work->duration_ns;
    const size_t first = work->first, end = work->first + work->count;
    take_collectives_of(training, work, step, at);
    int64_t at_ns = work->start_ns;
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
        if (work->label == DL_STEP_REGULAR)
            training->collectives[c].step = (size_t)(step - training->steps);
    }
}

/* Returns whether a data loader of PyTorch uses separate processes. */
static bool loads_in_processes(char *const *strings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(strings[i], "_MultiProcessingDataLoaderIter") != NULL) return true;
    }
    return false;
}

/* Sets the statistics of the regular steps, and of their collectives. */
static void summarize(dl_cpu_training *training, const dl_step_line *line)
{
    DL_AUTOFREE double *values = dl_calloc(line->count, sizeof *values, "steps");
    for (int part = 0; part <= DL_CPU_PARTS; part++) {
        size_t count = 0;
        for (size_t s = 0; s < line->count; s++) {
            if (line->steps[s].label != DL_STEP_REGULAR) continue;
            values[count++] = (double)(part == DL_CPU_PARTS ? line->steps[s].duration_ns
                                                            : training->steps[s].part_ns[part]);
        }
        *(part == DL_CPU_PARTS ? &training->step_ns : &training->part_ns[part]) =
            dl_distribution_of(values, count);
    }
    DL_AUTOFREE dl_collective_kernel *called =
        dl_calloc(training->collective_count, sizeof *called, "collectives");
    size_t count = 0;
    for (size_t c = 0; c < training->collective_count; c++)
        if (training->collectives[c].step != SIZE_MAX) called[count++] = training->collectives[c];
    dl_collectives_add(&training->groups, called, count);
}

void dl_cpu_training_find(dl_cpu_training *training, const dl_trace *trace,
                          const dl_step_line *line)
{
    DL_SCOPED(dl_cpu_operators) operators = {0};
    if (line->device != DL_NO_DEVICE || line->count == 0 || line->work_count == 0) return;
    dl_cpu_operators_find(&operators, trace);
    dl_step_phases_find(&training->phases, trace, line);
    training->thread = operators.thread;
    training->waits_for_loaders = loads_in_processes(trace->strings, trace->string_count);
    take_collectives(training, trace, &operators);
    training->steps = dl_calloc(line->count, sizeof *training->steps, "steps");
    training->step_count = line->count;
    DL_AUTOFREE double *done = dl_calloc(operators.count, sizeof *done, "operators");
    places at = {0};
    for (size_t s = 0; s < line->count; s++)
        take_step(training, &operators, &line->steps[s], &training->steps[s], done, &at);
    summarize(training, line);
    DL_AUTOFREE int64_t *begins_ns = dl_calloc(operators.count, sizeof *begins_ns, "operators");
    for (size_t i = 0; i < operators.count; i++)
        begins_ns[i] = operators.items[i]->start_ns;
    training->added = dl_added_gradients_find(trace, line, &training->phases, begins_ns, done);
}

void dl_cpu_training_free(dl_cpu_training *training)
{
    free(training->steps);
    free(training->collectives);
    free(training->added.items);
    dl_collectives_free(&training->groups);
    dl_step_phases_free(&training->phases);
    *training = (dl_cpu_training){0};
}
