/* Costs of a step on a processor's cores, from the operators recorded by a framework's profiler
 * (trace/activity/cpu_steps.h). */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/cpu.h"
#include "common/sort.h"
#include "common/units.h"
#include "trace/activity/cpu_steps.h"
#include "trace/readers/reader.h"

/* Time in ns that a step waits for collectives and for data-loader processes. */
static int64_t waiting_ns(const dl_cpu_training *cpu, const dl_cpu_step *step)
{
    return step->part_ns[DL_CPU_PART_WAIT] +
           (cpu->waits_for_loaders ? step->part_ns[DL_CPU_PART_INPUT] : 0);
}

static int64_t without_waiting_ns(const dl_cpu_training *cpu, const dl_cpu_step *step)
{
    return step->duration_ns - waiting_ns(cpu, step);
}

/* Returns whether the sizes of an operator's inputs show that the work of a step varies, as with
 * sequences of different lengths. If all steps have the same inputs, each size occurs in every
 * step; up to twice as many sizes come from a last, smaller batch or a validation. */
static bool work_varies(const dl_trace *trace, size_t steps)
{
    const int64_t sizes = dl_trace_meta_int(trace, DL_META_INPUT_SIZES, 0, INT32_MAX, 0);
    const int64_t calls = dl_trace_meta_int(trace, DL_META_INPUT_CALLS, 0, INT64_MAX, 0);
    return (double)sizes * (double)steps > 2 * (double)calls;
}

/* Returns the number of operators recorded in the step. */
static size_t operators_of(const dl_cpu_step *step)
{
    size_t count = 0;
    for (int p = 0; p < DL_CPU_PARTS; p++)
        count += step->part_operators[p];
    return count;
}

/* Returns the regular steps except interrupted ones and a pause, which it notes. The caller frees
 * the array. */
static const dl_cpu_step **usual_steps(const dl_cpu_training *cpu, bool varies, size_t *count,
                                       dl_notes *notes)
{
    const dl_cpu_step **kept = dl_calloc(cpu->regular_count, sizeof *kept, "steps");
    DL_AUTOFREE double *ns = dl_calloc(cpu->regular_count, sizeof *ns, "steps");
    DL_AUTOFREE double *works = dl_calloc(cpu->regular_count, sizeof *works, "steps");
    size_t all = 0;
    for (size_t s = 0; s < cpu->step_count; s++) {
        if (cpu->steps[s].label != DL_STEP_REGULAR) continue;
        ns[all] = (double)without_waiting_ns(cpu, &cpu->steps[s]);
        works[all] = varies ? (double)NAN : (double)operators_of(&cpu->steps[s]);
        kept[all++] = &cpu->steps[s];
    }
    const size_t paused = dl_step_paused(ns, all, NULL, notes);
    if (paused != SIZE_MAX) {
        all--;
        for (size_t i = paused; i < all; i++) {
            ns[i] = ns[i + 1];
            works[i] = works[i + 1];
            kept[i] = kept[i + 1];
        }
    }
    DL_AUTOFREE uint8_t *interrupted = dl_steps_interrupted(ns, works, all, notes);
    *count = 0;
    for (size_t i = 0; i < all; i++)
        if (!interrupted[i]) kept[(*count)++] = kept[i];
    return kept;
}

/* Names of a step's parts as operations; NULL: the part is not an operation. */
static const char *const op_names[DL_CPU_PARTS] = {[DL_CPU_PART_INPUT] = "input",
                                                   [DL_CPU_PART_FORWARD] = "step.forward",
                                                   [DL_CPU_PART_BACKWARD] = "step.backward",
                                                   [DL_CPU_PART_UPDATE] = "step.update"};

static dl_step_mean part_mean(const dl_cpu_step *const *steps, size_t count, int part)
{
    DL_AUTOFREE double *values = dl_calloc(count, sizeof *values, "steps");
    for (size_t i = 0; i < count; i++)
        values[i] = (double)steps[i]->part_ns[part];
    const dl_distribution d = dl_distribution_of(values, count);
    return (dl_step_mean){d.mean, d.sd / sqrt((double)count)};
}

/* Takes the mean step with and without its waits, the noise, and an operation for each part, which
 * is empty for waits. */
static void take_parts(dl_step_costs *costs, const dl_cpu_training *cpu, bool varies,
                       dl_notes *notes)
{
    size_t count;
    DL_AUTOFREE const dl_cpu_step **steps = usual_steps(cpu, varies, &count, notes);
    costs->factors = dl_calloc(count, sizeof *costs->factors, "steps");
    costs->steps = count;
    costs->host_ns = (double)NAN;
    for (size_t i = 0; i < count; i++) {
        costs->step_ns += (double)steps[i]->duration_ns / (double)count;
        costs->device_ns += (double)without_waiting_ns(cpu, steps[i]) / (double)count;
    }
    for (size_t i = 0; i < count; i++)
        costs->factors[i] = (float)((double)without_waiting_ns(cpu, steps[i]) / costs->device_ns);
    costs->ops = dl_calloc(DL_CPU_PARTS, sizeof *costs->ops, "operations");
    costs->op_count = DL_CPU_PARTS;
    for (int p = 0; p < DL_CPU_PARTS; p++) {
        dl_step_op *op = &costs->ops[p];
        if (op_names[p] == NULL || (cpu->waits_for_loaders && p == DL_CPU_PART_INPUT)) continue;
        op->ns = part_mean(steps, count, p);
        snprintf(op->name, sizeof op->name, "%s", op_names[p]);
    }
}

static void drop_empty(dl_step_costs *costs)
{
    const size_t count = costs->op_count;
    costs->op_count = 0;
    for (size_t i = 0; i < count; i++)
        if (costs->ops[i].ns.value > 0) costs->ops[costs->op_count++] = costs->ops[i];
}

/* Returns the bytes of gradients over all ranks' parts that an all-reduce or a reduce-scatter
 * reduces (the latter reports one rank's part); 0 for another collective and for integers. */
static double reduced_bytes(const dl_cpu_collective *of)
{
    if (of->integers) return 0;
    if (strcmp(of->name, DL_REDUCES) == 0) return (double)of->bytes;
    return strcmp(of->name, DL_SCATTERS) == 0 ? (double)of->bytes * of->ranks : 0;
}

/* Maximum relative difference of bytes at which all-reduces outside of the backward pass are those
 * of the gradients; a loss or a counter is reduced too. */
#define GRADIENTS_DIFFER_MAX 0.05

/* Returns whether no regular step reduces gradients during its backward pass, but each reduces
 * outside of it about as many bytes as a backward pass adds, as a program's own loop over its
 * parameters does. */
static bool reduces_after(const dl_cpu_training *cpu)
{
    if (!(cpu->gradient_bytes > 0)) return false;
    const dl_cpu_collective *all = cpu->collectives;
    size_t steps = 0;
    DL_GROUPS (first, end, cpu->collective_count, all[end].step == all[first].step) {
        double bytes = 0;
        if (all[first].step == SIZE_MAX) continue;
        for (size_t c = first; c < end; c++) {
            if (!isnan(all[c].ready_frac) && reduced_bytes(&all[c]) > 0) return false;
            bytes += reduced_bytes(&all[c]);
        }
        if (fabs(bytes / cpu->gradient_bytes - 1) > GRADIENTS_DIFFER_MAX) return false;
        steps++;
    }
    return steps == cpu->regular_count;
}

/* All-reduces that carry less than this part of the gradients' bytes carry them compressed. */
#define COMPRESSED_FRAC 0.75

static void note_compressed(const dl_step_costs *costs, const dl_cpu_training *cpu, dl_notes *notes)
{
    const double carried =
        costs->gradient_count > 0 ? costs->gradients[costs->gradient_count - 1].bytes : 0;
    if (carried == 0 || carried > COMPRESSED_FRAC * cpu->gradient_bytes) return;
    dl_notes_add(
        notes,
        "a pass adds %s of gradients, the exchange carries %s: compressed by a hook, or "
        "some are not exchanged in each step. dlsim exchanges and averages as many bytes as are "
        "carried, without [exchange] compress",
        DL_BYTES_TEXT(cpu->gradient_bytes), DL_BYTES_TEXT(carried));
}

/* Takes the state that `ranks` ranks divide, as FSDP does. Returns whether the all-gathers are
 * those of parameters. */
static bool take_sharded(dl_step_costs *costs, const dl_cpu_training *cpu, uint32_t ranks,
                         dl_notes *notes)
{
    dl_sharding of = {.ranks = ranks, .steps = cpu->regular_count};
    for (size_t c = 0; c < cpu->collective_count; c++) {
        const dl_cpu_collective *one = &cpu->collectives[c];
        if (one->step != SIZE_MAX && one->ranks == ranks)
            dl_sharding_count(&of, one->name, one->step, (double)one->bytes);
    }
    return dl_step_costs_take_sharded(costs, &of, notes);
}

/* Takes the all-reduces and reduce-scatters of gradients of regular steps: those called in backward
 * passes, or `after` them (reduces_after). Returns whether all-gathers are those of parameters. */
static bool take_gradients(dl_step_costs *costs, const dl_cpu_training *cpu, bool after,
                           dl_notes *notes)
{
    uint32_t scattered = 0; /* ranks of the reduce-scatters; 0: none */
    DL_AUTOFREE dl_reduce *reduces = dl_calloc(cpu->collective_count, sizeof *reduces, "gradients");
    size_t count = 0;
    for (size_t c = 0; c < cpu->collective_count; c++) {
        const dl_cpu_collective *of = &cpu->collectives[c];
        const double bytes = of->step != SIZE_MAX ? reduced_bytes(of) : 0;
        const bool scatters = strcmp(of->name, DL_SCATTERS) == 0;
        /* FSDP's last reduce-scatter follows the backward pass's last operator. */
        const double ready = (scatters || after) && isnan(of->ready_frac) ? 1 : of->ready_frac;
        if (!(ready >= 0) || bytes == 0) continue;
        if (scatters) scattered = of->ranks;
        reduces[count++] = (dl_reduce){of->step, ready, bytes};
    }
    costs->gradients = dl_gradients_usual(reduces, count, &costs->gradient_count);
    note_compressed(costs, cpu, notes);
    if (after)
        dl_notes_add(notes,
                     "gradients are all-reduced after the backward pass, which hides nothing "
                     "of it");
    return scattered >= 2 && take_sharded(costs, cpu, scattered, notes);
}

static void take_added(dl_step_costs *costs, const dl_cpu_training *cpu)
{
    double bytes = 0;
    for (size_t i = 0; i < cpu->gradient_count; i++) {
        bytes += cpu->gradients[i].bytes;
        DL_APPEND(costs->added, costs->added_count, "gradients") =
            (dl_gradients_ready){cpu->gradients[i].ready_frac, bytes};
    }
}

/* Takes parameter_bytes if no step exchanges gradients: the bytes that the optimizer updates, if
 * the trace gives them, else those of the accumulated gradients, else those of the largest
 * all-reduce, which then averages parameters. */
static void take_parameters(dl_step_costs *costs, const dl_cpu_training *cpu, const dl_trace *trace,
                            dl_notes *notes)
{
    const int64_t updated = dl_trace_meta_int(trace, DL_META_PARAMETER_BYTES, 1, INT64_MAX, 0);
    uint64_t largest = 0;
    for (size_t c = 0; c < cpu->collective_count; c++) {
        const dl_cpu_collective *collective = &cpu->collectives[c];
        if (strcmp(collective->name, DL_REDUCES) == 0 && !collective->integers &&
            collective->bytes > largest)
            largest = collective->bytes;
    }
    if (costs->gradient_count > 0) return;
    if (updated > 0) {
        costs->parameter_bytes = (double)updated;
        dl_notes_add(notes, "parameter_bytes are those that the optimizer updates");
        if (cpu->step_gradient_bytes > 0 &&
            cpu->step_gradient_bytes < (1 - GRADIENTS_DIFFER_MAX) * (double)updated)
            dl_notes_add(notes,
                         "a step adds gradients of %s of these on average: some parameters are not "
                         "trained in each step, as if a GAN's critic takes more steps than its "
                         "generator. dlsim exchanges all gradients in each",
                         DL_BYTES_TEXT(cpu->step_gradient_bytes));
        return;
    }
    if (cpu->gradient_bytes > 0) {
        costs->parameter_bytes = cpu->gradient_bytes;
        dl_notes_add(notes, "parameter_bytes are those of the gradients that %s",
                     cpu->phases.alternates
                         ? "the passes of a step's several optimizers add, except passes that a "
                           "longer one repeats, as a generator's does a discriminator's: "
                           "--parameter-bytes gives another number if others share parameters"
                         : "a pass adds");
    } else if (largest > 0) {
        costs->parameter_bytes = (double)largest;
        dl_notes_add(notes, "parameter_bytes are those of the largest all-reduce");
    }
}

/* Recognizes a divided optimizer (ZeRO stage 1) by broadcasts of as many bytes as a pass's
 * gradients: each owner of a part of its state sends the parameters that it has updated. */
static void take_sharded_update(dl_step_costs *costs, const dl_cpu_training *cpu, uint32_t ranks,
                                dl_notes *notes)
{
    const double bytes = costs->broadcast_bytes;
    if (bytes == 0 || fabs(bytes / cpu->gradient_bytes - 1) > GRADIENTS_DIFFER_MAX) return;
    costs->sharded = DL_SHARDED_OPTIMIZER;
    costs->broadcast_bytes = costs->broadcast_calls = 0;
    dl_step_costs_scale_update(costs, ranks);
    dl_notes_add(
        notes,
        "a step broadcasts %s, as many bytes as it has gradients: the optimizer's state is "
        "divided (ZeRO stage 1), [costs] sharded = optimizer. dlsim gathers the updated "
        "parameters; a rank updates its part, so the update is taken %u times as long for "
        "all parameters",
        DL_BYTES_TEXT(bytes), ranks);
}

/* Returns the bytes that all-reduces of the step, or those of `only` if it is not NULL, sum outside
 * of the backward pass. */
static double outside_bytes(const dl_cpu_training *cpu, const dl_cpu_step *step,
                            const dl_cpu_collectives *only)
{
    double bytes = 0;
    for (size_t c = step->first; c < step->first + step->count; c++) {
        const dl_cpu_collective *of = &cpu->collectives[c];
        if (strcmp(of->name, DL_REDUCES) == 0 && isnan(of->ready_frac) &&
            (only == NULL || (of->bytes == only->bytes && of->ranks == only->ranks)))
            bytes += reduced_bytes(of);
    }
    return bytes;
}

/* Marks in average[step_count] the regular steps whose all-reduces outside of the backward pass sum
 * as many bytes as the parameters have, in one or by parameter, and notes them: local SGD. */
static void note_averages(const dl_step_costs *costs, const dl_cpu_training *cpu, uint8_t *average,
                          dl_notes *notes)
{
    const double all = costs->gradient_count > 0 ? costs->gradients[costs->gradient_count - 1].bytes
                                                 : costs->parameter_bytes;
    size_t count = 0, first = 0, last = 0;
    for (size_t s = 0; s < cpu->step_count && all > 0; s++) {
        if (cpu->steps[s].label != DL_STEP_REGULAR) continue;
        average[s] =
            fabs(outside_bytes(cpu, &cpu->steps[s], NULL) / all - 1) <= GRADIENTS_DIFFER_MAX;
        if (!average[s]) continue;
        if (count++ == 0) first = s;
        last = s;
    }
    if (count == 0) return;
    const double every = count > 1 ? (double)(last - first) / (double)(count - 1) : 0;
    char interval[96] = "its interval is not in the trace: dlsim --mode average --interval STEPS";
    if (every > 0)
        snprintf(interval, sizeof interval,
                 "an average every %.3g %s (local SGD) is dlsim --mode average --interval %.0f",
                 every, every > 1 ? "steps" : "step", every);
    dl_notes_add(notes,
                 "in %zu of %zu steps AllReduce calls outside of the backward pass, left out of "
                 "the costs, sum as many bytes as the parameters have: %s",
                 count, cpu->regular_count, interval);
}

/* Notes all-reduces outside of backward passes that are neither those of gradients nor only in
 * steps marked as `average`. */
static void note_outside(const dl_cpu_training *cpu, const dl_cpu_collectives *of,
                         const uint8_t *average, dl_notes *notes)
{
    bool noted = of->integers || of->bytes == 0;
    if (!isnan(of->ready_frac)) return;
    for (size_t s = 0; s < cpu->step_count && !noted; s++)
        noted = cpu->steps[s].label == DL_STEP_REGULAR && !average[s] &&
                outside_bytes(cpu, &cpu->steps[s], of) > 0;
    if (!noted) return;
    dl_notes_add(notes,
                 "%.3g AllReduce calls a step%s%s, outside of the backward pass, are left out of "
                 "the costs",
                 of->per_step, of->bytes > 0 ? " of " : "",
                 of->bytes > 0 ? DL_BYTES_TEXT((double)of->bytes) : "");
}

/* Takes broadcasts outside of backward passes, which are of buffers or parameters. Notes the
 * collectives that cost files cannot describe; gradients are all-reduced `after` the passes or in
 * them. */
static void take_others(dl_step_costs *costs, const dl_cpu_training *cpu, bool gathers_parameters,
                        bool after, dl_notes *notes)
{
    size_t count;
    uint32_t ranks = 0;
    DL_AUTOFREE dl_cpu_collectives *groups = dl_cpu_training_collectives(cpu, &count);
    DL_AUTOFREE uint8_t *average = dl_calloc(cpu->step_count, sizeof *average, "steps");
    if (!after) note_averages(costs, cpu, average, notes);
    for (size_t i = 0; i < count; i++) {
        const dl_cpu_collectives *g = &groups[i];
        if (strcmp(g->name, DL_REDUCES) == 0 && !after) note_outside(cpu, g, average, notes);
        if (strcmp(g->name, DL_REDUCES) == 0 && g->integers && !isnan(g->ready_frac))
            dl_notes_add(notes,
                         "%.3g AllReduce calls a step of %s of integers, as DDP makes with "
                         "find_unused_parameters, are left out of the costs",
                         g->per_step, DL_BYTES_TEXT((double)g->bytes));
        if (strcmp(g->name, DL_REDUCES) == 0 || strcmp(g->name, DL_SCATTERS) == 0) continue;
        if (strcmp(g->name, DL_GATHERS) == 0 && gathers_parameters) continue;
        if (strcmp(g->name, "Broadcast") == 0 && isnan(g->ready_frac) && g->bytes > 0) {
            costs->broadcast_bytes += g->per_step * (double)g->bytes;
            costs->broadcast_calls += g->per_step;
            ranks = g->ranks;
            continue;
        }
        dl_notes_add(notes, "%.3g %s calls a step%s%s are left out of the costs", g->per_step,
                     g->name, g->bytes > 0 ? " of " : "",
                     g->bytes > 0 ? DL_BYTES_TEXT((double)g->bytes) : "");
    }
    take_sharded_update(costs, cpu, ranks, notes);
}

/* Maximum fraction of a part's time that is subtracted as profiler overhead: at least half of the
 * time is assumed to be the program's. */
#define PROFILED_MAX 0.5

/* Subtracts the assumed profiler overhead per operator from the operations. */
static void take_off_profiler(dl_step_costs *costs, const dl_cpu_training *cpu,
                              const dl_trace *trace, dl_notes *notes)
{
    const double each_ns = dl_profiled_operator_ns(trace);
    const double traced_ns = costs->device_ns;
    double operators = 0, sum_ns = 0;
    for (int p = 0; p < DL_CPU_PARTS; p++) {
        dl_step_op *op = &costs->ops[p];
        if (op->ns.value <= 0) continue;
        double count = 0;
        for (size_t s = 0; s < cpu->step_count; s++)
            if (cpu->steps[s].label == DL_STEP_REGULAR)
                count += (double)cpu->steps[s].part_operators[p] / (double)cpu->regular_count;
        const double ns = fmin(count * each_ns, PROFILED_MAX * op->ns.value);
        op->ns.value -= ns;
        op->ns.error = hypot(op->ns.error, DL_PROFILED_ERROR * ns);
        operators += count;
        sum_ns += ns;
    }
    costs->device_ns -= sum_ns;
    costs->step_ns -= sum_ns;
    costs->recording_ns = sum_ns;
    dl_notes_add(notes,
                 "assumed: PyTorch's profiler makes each of %.0f operators per step %.1f us longer "
                 "(half to twice that): %s, %.0f %% of the step, are subtracted. %s",
                 operators, each_ns / 1e3, DL_NS_TEXT(sum_ns), 100 * sum_ns / traced_ns,
                 dl_trace_meta(trace, "unprofiled_step_ns") != NULL
                     ? "The step that dlprof run timed without it does not show how much, as it "
                       "contains waits for other processes; --copies measures it"
                     : "dlprof run, or --copies, measures the step without it");
}

/* Maximum fraction of a step's time that steps wait on average, for the profiler's overhead to be
 * distinguished from the waits; and maximum fraction that the shortest input takes if its batch was
 * ready. */
#define WAITING_FRAC_MAX 0.05

/* Plausible limits of the ratio of a step's time without the profiler to its time with it. A ratio
 * beyond them is due to other programs that changed the times in between. A profiler does not
 * shorten a step; it doubles a step of very small operators. */
#define PROFILED_FASTER_MAX 1.1
#define PROFILED_SLOWER_MAX 0.4

static double mean_waiting_ns(const dl_cpu_training *cpu)
{
    const double of_loader =
        cpu->waits_for_loaders ? dl_cpu_training_part(cpu, DL_CPU_PART_INPUT).mean : 0;
    return dl_cpu_training_part(cpu, DL_CPU_PART_WAIT).mean + of_loader;
}

/* Scales the operations to the step time without the profiler, which lengthens every operator, if
 * the trace has that time and steps hardly wait; otherwise subtracts the assumed overhead. */
static void scale_to_unprofiled(dl_step_costs *costs, const dl_cpu_training *cpu,
                                const dl_trace *trace, dl_notes *notes)
{
    const int64_t ns = dl_trace_meta_int(trace, "unprofiled_step_ns", 1, INT64_MAX, 0);
    const dl_distribution steps = dl_cpu_training_steps(cpu);
    if (ns == 0 || mean_waiting_ns(cpu) > WAITING_FRAC_MAX * steps.mean) {
        take_off_profiler(costs, cpu, trace, notes);
        return;
    }
    const double factor = (double)ns / steps.p50;
    for (size_t i = 0; i < costs->op_count; i++) {
        costs->ops[i].ns.value *= factor;
        costs->ops[i].ns.error *= factor;
    }
    costs->device_ns *= factor;
    costs->step_ns *= factor;
    dl_notes_add(notes,
                 "without the profiler a step took %s, %.3f times the traced one: the "
                 "operations are scaled to that",
                 DL_NS_TEXT(ns), factor);
    if (factor > PROFILED_FASTER_MAX || factor < PROFILED_SLOWER_MAX) {
        dl_notes_add(notes, "the profiler alone does not explain that: other programs probably "
                            "used the processor during the recording; record again when it is "
                            "idle");
    }
}

/* Minimum coefficient of variation of the step time for a note that the work of a step varies. */
#define VARIES_MIN 0.1

static void note_varying(const dl_step_costs *costs, const dl_trace *trace, dl_notes *notes)
{
    double squares = 0;
    for (size_t i = 0; i < costs->steps; i++)
        squares += pow((double)costs->factors[i] - 1, 2);
    const double cv = sqrt(squares / fmax(1, (double)costs->steps - 1));
    if (cv < VARIES_MIN) return;
    dl_notes_add(notes,
                 "the inputs of %s have %s sizes in %s calls, so the work of a step varies, by "
                 "%.0f %%: the costs are of the mean step, and dlsim --noise trace draws the "
                 "recorded ones",
                 dl_trace_meta_text(trace, DL_META_SAMPLES_OF),
                 dl_trace_meta_text(trace, DL_META_INPUT_SIZES),
                 dl_trace_meta_text(trace, DL_META_INPUT_CALLS), 100 * cv);
}

/* Notes whole steps that contain other work, such as a validation, and are therefore left out. */
static void note_left_out(const dl_step_costs *costs, const dl_cpu_training *cpu, dl_notes *notes)
{
    size_t count = 0;
    double more_ns = 0;
    for (size_t s = 0; s < cpu->step_count; s++) {
        const dl_cpu_step *step = &cpu->steps[s];
        if (step->label != DL_STEP_OTHER || step->part_ns[DL_CPU_PART_BACKWARD] == 0 ||
            step->part_ns[DL_CPU_PART_UPDATE] == 0 || (double)step->duration_ns < costs->step_ns)
            continue;
        count++;
        more_ns += (double)step->duration_ns - costs->step_ns;
    }
    if (count == 0) return;
    dl_notes_add(notes,
                 "%zu of %zu steps also %s other work, as a validation, for %s: left out. If it "
                 "recurs, training takes that much longer; it is included if the trace has it "
                 "twice",
                 count, cpu->step_count, count == 1 ? "does" : "do", DL_NS_TEXT(more_ns));
}

/* Minimum fraction of a step's time that child processes must compute to be noted. */
#define CHILDREN_FRAC_MIN 0.01

/* Notes child processes, whose work is missing from the training process's trace. */
static void take_children(const dl_step_costs *costs, int64_t ns, dl_notes *notes)
{
    if ((double)ns <= CHILDREN_FRAC_MIN * costs->step_ns) return;
    dl_notes_add(notes,
                 "processes that the program started (a data loader's workers?) take %s of "
                 "processor time per step, which the costs leave out: if cores are scarce, measure "
                 "copies of the program with dlprof bench --of, and give them to --copies",
                 DL_NS_TEXT(ns));
}

/* Shortest input time, in ns, of the regular steps with input. */
static double least_input_ns(const dl_cpu_training *cpu)
{
    double least = INFINITY;
    for (size_t s = 0; s < cpu->step_count; s++) {
        const int64_t ns = cpu->steps[s].part_ns[DL_CPU_PART_INPUT];
        if (cpu->steps[s].label == DL_STEP_REGULAR && ns > 0) least = fmin(least, (double)ns);
    }
    return least;
}

/* Minimum fraction of the time to take a finished batch in which the taking thread uses the
 * processor; in the rest of that time the other process hands the batch over. It was 0.7 with
 * PyTorch 2.15 and batches of two tensors, passed as shared-memory files through a socket, on 2
 * virtual cores of an AMD EPYC, 2026-11-26. */
#define TAKE_PROCESSOR_FRAC 0.5

/* Returns the time to take a finished batch, in ns; NaN: unknown. `text` receives its source. */
static double take_ns(const dl_step_costs *costs, const dl_cpu_training *cpu, const dl_trace *trace,
                      char *text, size_t capacity)
{
    const double least_ns = least_input_ns(cpu);
    const int64_t usual_ns = dl_trace_meta_int(trace, "take_ns", 1, INT64_MAX, 0);
    const int64_t processor_ns = dl_trace_meta_int(trace, "take_processor_ns", 1, INT64_MAX, 0);
    double ns = (double)NAN;
    const char *whence = NULL;
    if (processor_ns > 0 && (double)processor_ns >= TAKE_PROCESSOR_FRAC * (double)usual_ns) {
        ns = (double)usual_ns;
        whence = "to take a batch that is ready, the median without the profiler";
    } else if (processor_ns > 0) {
        ns = (double)processor_ns;
        whence = "the processor time of taking a batch";
    } else if (least_ns <= WAITING_FRAC_MAX * costs->device_ns) {
        ns = least_ns;
        whence = "the shortest, to take a batch that is ready";
    }
    if (whence == NULL) {
        snprintf(text, capacity, "; no batch was ready without a wait");
    } else {
        snprintf(text, capacity, " ([input] copy_ns, %s, is %s)", DL_NS_TEXT(ns), whence);
    }
    return ns;
}

/* Takes the processor time `ns` per step of the data-loader processes, if it is known, as operation
 * "input", which the step's time excludes; sets take_ns. */
static void take_loaders(dl_step_costs *costs, const dl_cpu_training *cpu, const dl_trace *trace,
                         int64_t ns, dl_notes *notes)
{
    const dl_distribution waits = dl_cpu_training_part(cpu, DL_CPU_PART_INPUT);
    const double mean_ns = dl_cpu_training_steps(cpu).mean;
    char take[128];
    costs->take_ns = take_ns(costs, cpu, trace, take, sizeof take);
    dl_notes_add(
        notes,
        "input: a step waits for processes of a data loader, %s on average, %.0f %% of it: "
        "left out of the step%s",
        DL_NS_TEXT(waits.mean), 100 * waits.mean / mean_ns, take);
    if (ns > 0) {
        const int number = (int)dl_trace_meta_int(trace, "loaders", 1, INT32_MAX, 0);
        costs->ops[DL_CPU_PART_INPUT] = (dl_step_op){.name = "input", .ns = {(double)ns, 0}};
        snprintf(costs->loaders, sizeof costs->loaders, "NUM_WORKERS");
        if (number > 0) snprintf(costs->loaders, sizeof costs->loaders, "%d", number);
        dl_notes_add(notes,
                     "[op input] is the processor time of these processes per step, %s. Simulate "
                     "with dlsim --set input.loaders=%s (the data loader's); where "
                     "storage limits them, also give [input] stored_bytes_per_sample and --set "
                     "input.storage_bytes_per_s=RATE",
                     DL_NS_TEXT(ns), costs->loaders);
    } else {
        dl_notes_add(notes, "the processor time of these processes is not in the trace: "
                            "record with dlprof run, or with num_workers=0, for [op input]");
    }
}

/* Minimum page faults per step, and minimum fraction of its time in the kernel, that cause a note.
 * A fault of new memory took 2 us on a virtual core of an AMD EPYC, 2026-11-26. */
#define FAULTS_MIN 200
#define KERNEL_FRAC_MIN 0.05

/* Notes page faults caused by memory that the C library returns to the system and requests again in
 * each step. */
static void note_faults(const dl_step_costs *costs, const dl_trace *trace, dl_notes *notes)
{
    const int64_t faults = dl_trace_meta_int(trace, "step_faults", 1, INT64_MAX, 0);
    const int64_t ns = dl_trace_meta_int(trace, "step_kernel_ns", 1, INT64_MAX, 0);
    if (faults < FAULTS_MIN || (double)ns < KERNEL_FRAC_MIN * costs->step_ns) return;
    dl_notes_add(notes,
                 "a step has %" PRId64
                 " page faults and %s of kernel time, %.0f %% of it: probably memory that the C "
                 "library returns and requests again, in some starts more than in others. With "
                 "glibc, MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=33554432 in the "
                 "environment prevent this",
                 faults, DL_NS_TEXT(ns), 100 * (double)ns / costs->step_ns);
}

/* Notes operators that use several cores, fewer of which are available to concurrent workers. */
static void note_threads(const dl_trace *trace, dl_notes *notes)
{
    const int64_t threads = dl_trace_meta_int(trace, "operator_threads", 1, INT64_MAX, 1);
    if (threads == 1) return;
    dl_notes_add(notes,
                 "operators used %" PRId64
                 " threads: costs of a worker with as many cores of its own. For workers with one "
                 "core each record with OMP_NUM_THREADS=1, which torchrun sets",
                 threads);
}

/* Takes this host's processor name and number of cores if the trace was recorded on this host;
 * otherwise they are unknown. */
static void take_processor(dl_step_costs *costs, const dl_trace *trace, dl_notes *notes)
{
    char host[256] = "", name[256];
    const char *recorded = dl_trace_meta_text(trace, "host");
    if (gethostname(host, sizeof host - 1) == 0 && strcmp(host, recorded) == 0) {
        costs->device = dl_strdup(dl_cpu_name(name, sizeof name));
        costs->cores = dl_cpu_count();
        return;
    }
    dl_notes_add(notes,
                 "recorded on another host%s%s: the processor's name and number of cores are not "
                 "in the trace (--device, --cores)",
                 recorded[0] != '\0' ? ", " : "", recorded);
}

/* Minimum number of sums of activations in the forward passes of a step (local SGD may reduce as
 * many bytes once outside of the backward pass as the gradients have), and maximum relative
 * difference of that number from the backward passes'. */
#define SUMS_MIN 2
#define SUMS_DIFFER_MAX 0.1

/* Refuses a rank of a pipeline, which sends and receives during backward passes, and of divided
 * layers, which sum activations of the same size equally often in forward and backward passes. */
static dl_status refuse_axes(const dl_cpu_training *cpu, const dl_trace *trace, dl_error *err)
{
    size_t count;
    DL_AUTOFREE dl_cpu_collectives *groups = dl_cpu_training_collectives(cpu, &count);
    for (size_t i = 0; i < count; i++) {
        const dl_cpu_collectives *in = &groups[i];
        const bool sums = strcmp(in->name, DL_REDUCES) == 0 || strcmp(in->name, DL_SCATTERS) == 0;
        if (isnan(in->ready_frac)) continue;
        if (strcmp(in->name, "Send") == 0 || strcmp(in->name, "Recv") == 0)
            return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                                   "a step sends and receives in its backward passes (%s %.3g "
                                   "times), as a stage of a pipeline does: costs of stages are "
                                   "taken from traces of GPUs only (dlsim --layout pp=2 simulates "
                                   "networks that are given by name)",
                                   in->name, in->per_step);
        for (size_t o = 0; o < count && sums && in->bytes > 0 && !in->integers; o++) {
            const dl_cpu_collectives *out = &groups[o];
            if (!isnan(out->ready_frac) || strcmp(out->name, in->name) != 0 ||
                out->bytes != in->bytes || out->ranks != in->ranks || out->integers ||
                out->per_step < SUMS_MIN ||
                fabs(out->per_step / in->per_step - 1) > SUMS_DIFFER_MAX)
                continue;
            return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                                   "a step has %.3g %s calls of %s in its forward passes and as "
                                   "many in its backward passes: layers are divided (tensor "
                                   "parallel), whose costs are taken from traces of GPUs only "
                                   "(dlsim --layout tp=2 simulates networks that are given by "
                                   "name)",
                                   in->per_step, in->name, DL_BYTES_TEXT((double)in->bytes));
        }
    }
    return DL_OK;
}

dl_status dl_step_costs_take_cores(dl_step_costs *costs, const dl_trace *trace,
                                   const dl_step_line *line, dl_notes *notes, dl_error *err)
{
    DL_AUTO(dl_cpu_training_free) dl_cpu_training cpu = {0};
    const int64_t children_ns = dl_trace_meta_int(trace, "children_step_ns", 1, INT64_MAX, 0);
    dl_cpu_training_find(&cpu, trace, line);
    if (cpu.regular_count < (line->method == DL_STEPS_GIVEN_ONE ? 1u : 2u)) {
        return dl_error_set_at(
            err, DL_ERR_DATA, trace->path, 0,
            "%zu regular %s of operators on cores%s%s: costs need at least two, or --one-step",
            cpu.regular_count, cpu.regular_count == 1 ? "step" : "steps",
            line->reason != NULL ? ", " : "", line->reason != NULL ? line->reason : "");
    }
    const dl_status status = refuse_axes(&cpu, trace, err);
    if (status != DL_OK) return status;
    costs->on_cores = true;
    costs->collectives = cpu.collective_count;
    costs->passes = cpu.phases.passes;
    costs->mean_passes = cpu.phases.mean_passes;
    costs->known_steps = cpu.phases.known_steps;
    costs->updated_steps = cpu.phases.updated_steps;
    costs->alternates = cpu.phases.alternates;
    costs->take_ns = (double)NAN;
    const bool varies = work_varies(trace, cpu.regular_count);
    take_parts(costs, &cpu, varies, notes);
    if (varies) note_varying(costs, trace, notes);
    if (line->marks_cut_passes)
        dl_notes_add(notes, "the program's marks lie between forward and backward pass, as if "
                            "profiler.step() were called in Lightning's training_step: steps "
                            "are taken from update to update");
    note_left_out(costs, &cpu, notes);
    scale_to_unprofiled(costs, &cpu, trace, notes);
    costs->forward_ns = costs->ops[DL_CPU_PART_FORWARD].ns;
    costs->backward_ns = costs->ops[DL_CPU_PART_BACKWARD].ns;
    costs->update_ns = costs->ops[DL_CPU_PART_UPDATE].ns;
    if (cpu.waits_for_loaders) {
        take_loaders(costs, &cpu, trace, children_ns, notes);
    } else {
        take_children(costs, children_ns, notes);
    }
    note_faults(costs, trace, notes);
    note_threads(trace, notes);
    const bool after = reduces_after(&cpu);
    const bool gathers_parameters = take_gradients(costs, &cpu, after, notes);
    take_added(costs, &cpu);
    take_parameters(costs, &cpu, trace, notes);
    take_others(costs, &cpu, gathers_parameters, after, notes);
    take_processor(costs, trace, notes);
    drop_empty(costs);
    return DL_OK;
}
