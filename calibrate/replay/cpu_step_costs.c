/* Costs of a step on a processor's cores, from the operators recorded by a framework's profiler
 * (trace/activity/cpu_steps.h). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/cpu.h"
#include "common/sort.h"
#include "common/units.h"
#include "trace/activity/cpu_steps.h"
#include "trace/activity/phases.h"
#include "trace/readers/reader.h"

/* Returns whether the sizes of an operator's inputs show that the work of a step varies, as with
 * sequences of different lengths. If all steps have the same inputs, each size occurs in every
 * step; up to twice as many sizes come from a last, smaller batch or a validation. */
static bool work_varies(const dl_trace *trace, size_t steps)
{
    const int64_t sizes = dl_trace_meta_int(trace, DL_META_INPUT_SIZES, 0, INT32_MAX, 0);
    const int64_t calls = dl_trace_meta_int(trace, DL_META_INPUT_CALLS, 0, INT64_MAX, 0);
    return (double)sizes * (double)steps > 2 * (double)calls;
}

/* Returns marks of the regular steps except interrupted ones and a pause, which it notes, and sets
 * ns[line->count] to the times of the steps without waits for collectives and for data-loader
 * processes. The caller frees the array. */
static uint8_t *find_timed(const dl_cpu_training *cpu, const dl_step_line *line, bool varies,
                           double *ns, dl_notes *notes)
{
    uint8_t *timed = dl_steps_regular(line);
    DL_AUTOFREE double *works = dl_calloc(line->count, sizeof *works, "steps");
    for (size_t s = 0; s < line->count; s++) {
        const dl_cpu_step *step = &cpu->steps[s];
        const int64_t input_ns = cpu->waits_for_loaders ? step->part_ns[DL_CPU_PART_INPUT] : 0;
        ns[s] = (double)(line->steps[s].duration_ns - step->part_ns[DL_CPU_PART_WAIT] - input_ns);
        for (int p = 0; p < DL_CPU_PARTS; p++)
            works[s] += varies ? (double)NAN : (double)step->part_operators[p];
    }
    dl_steps_leave_out_pause(timed, ns, line->count, NULL, notes);
    dl_steps_leave_out_interrupted(timed, ns, works, line->count, notes);
    return timed;
}

/* Names of a step's parts as operations; NULL: the part is not an operation. */
static const char *const op_names[DL_CPU_PARTS] = {[DL_CPU_PART_INPUT] = "input",
                                                   [DL_CPU_PART_FORWARD] = "step.forward",
                                                   [DL_CPU_PART_BACKWARD] = "step.backward",
                                                   [DL_CPU_PART_UPDATE] = "step.update"};

/* Takes the mean step with and without its waits, the noise, and an operation for each part, which
 * is empty for waits. */
static void take_parts(dl_step_costs *costs, const dl_cpu_training *cpu, const dl_step_line *line,
                       bool varies, dl_notes *notes)
{
    DL_AUTOFREE double *ns = dl_calloc(line->count, sizeof *ns, "steps");
    DL_AUTOFREE uint8_t *timed = find_timed(cpu, line, varies, ns, notes);
    costs->host_ns = (double)NAN;
    dl_step_costs_take_times(costs, line, timed, ns, notes);
    costs->ops = dl_calloc(DL_CPU_PARTS, sizeof *costs->ops, "operations");
    costs->op_count = DL_CPU_PARTS;
    for (int p = 0; p < DL_CPU_PARTS; p++) {
        dl_step_op *op = &costs->ops[p];
        if (op_names[p] == NULL || (cpu->waits_for_loaders && p == DL_CPU_PART_INPUT)) continue;
        for (size_t s = 0; s < line->count; s++)
            ns[s] = (double)cpu->steps[s].part_ns[p];
        op->ns = dl_steps_mean(timed, ns, line->count);
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
static double reduced_bytes(const dl_collective_kernel *of)
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
    if (!(cpu->added.bytes > 0)) return false;
    const dl_collective_kernel *all = cpu->collectives;
    size_t steps = 0;
    DL_GROUPS (first, end, cpu->collective_count, all[end].step == all[first].step) {
        double bytes = 0;
        if (all[first].step == SIZE_MAX) continue;
        for (size_t c = first; c < end; c++) {
            if (!isnan(all[c].ready_frac) && reduced_bytes(&all[c]) > 0) return false;
            bytes += reduced_bytes(&all[c]);
        }
        if (fabs(bytes / cpu->added.bytes - 1) > GRADIENTS_DIFFER_MAX) return false;
        steps++;
    }
    return steps == cpu->step_ns.count;
}

/* All-reduces that carry less than this part of the gradients' bytes carry them compressed. */
#define COMPRESSED_FRAC 0.75

/* Takes parameter_bytes from the gradients that a pass adds if all-reduces carry others:
 * compressed, or those of several passes of the same samples. Notes where they carry more. */
static void take_carried(dl_step_costs *costs, const dl_cpu_training *cpu, dl_notes *notes)
{
    const double carried =
        costs->gradient_count > 0 ? costs->gradients[costs->gradient_count - 1].bytes : 0;
    const double added = cpu->added.bytes;
    const bool less = carried > 0 && carried <= COMPRESSED_FRAC * added;
    const bool more = cpu->phases.passes == 1 && added > 0 && carried > added / COMPRESSED_FRAC;
    if (less || (more && cpu->phases.joint > 0)) {
        costs->parameter_bytes = added;
        dl_notes_add(notes,
                     "a pass adds %s of gradients, the exchange carries %s: %s. dlsim exchanges "
                     "what is carried, without [exchange] compress; parameter_bytes, of which "
                     "averages are, are those that a pass adds",
                     DL_BYTES_TEXT(added), DL_BYTES_TEXT(carried),
                     less ? "compressed by a hook, or some are not exchanged in each step"
                          : "each pass exchanges");
    } else if (more) {
        dl_notes_add(notes,
                     "a step exchanges %s, its passes add %s of gradients: unused parameters are "
                     "exchanged too (find_unused_parameters). If parameter_bytes are more than the "
                     "model's, --parameter-bytes gives these",
                     DL_BYTES_TEXT(carried), DL_BYTES_TEXT(added));
    }
}

/* Returns the collectives called by regular steps, those outside of backward passes as following
 * the update: except all-reduces of gradients `after` the passes (reduces_after), and
 * reduce-scatters, since FSDP's last one follows the backward pass's last operator. */
static dl_step_call *list_calls(const dl_cpu_training *cpu, bool after, size_t *count)
{
    dl_step_call *calls = dl_calloc(cpu->collective_count, sizeof *calls, "calls of collectives");
    *count = 0;
    for (size_t c = 0; c < cpu->collective_count; c++) {
        const dl_collective_kernel *of = &cpu->collectives[c];
        const bool inside = !isnan(of->ready_frac);
        if (of->step == SIZE_MAX) continue;
        calls[(*count)++] =
            (dl_step_call){.name = of->name,
                           .bytes = of->bytes,
                           .object = of->object,
                           .ranks = of->ranks,
                           .integers = of->integers,
                           .step = of->step,
                           .phase = inside ? DL_PHASE_BACKWARD : DL_PHASE_NONE,
                           .share = inside ? of->ready_frac : 1,
                           .updated = !inside && !after && strcmp(of->name, DL_SCATTERS) != 0};
    }
    return calls;
}

static void take_added(dl_step_costs *costs, const dl_added_gradients *added)
{
    double bytes = 0;
    for (size_t i = 0; i < added->count; i++) {
        bytes += added->items[i].bytes;
        DL_APPEND(costs->added, costs->added_count, "gradients") =
            (dl_gradients_ready){added->items[i].ready_frac, bytes};
    }
}

/* Takes parameter_bytes if no step exchanges gradients: the bytes that the optimizer updates, if
 * the trace gives them, else those of the added gradients, else those of the largest all-reduce,
 * which then averages parameters. */
static void take_parameters(dl_step_costs *costs, const dl_cpu_training *cpu, const dl_trace *trace,
                            dl_notes *notes)
{
    const int64_t updated = dl_trace_meta_int(trace, DL_META_PARAMETER_BYTES, 1, INT64_MAX, 0);
    const double step_bytes = cpu->added.step_bytes;
    uint64_t largest = 0;
    if (costs->gradient_count > 0) return;
    if (updated > 0) {
        costs->parameter_bytes = (double)updated;
        dl_notes_add(notes, "parameter_bytes are those that the optimizer updates");
        if (step_bytes > 0 && step_bytes < (1 - GRADIENTS_DIFFER_MAX) * (double)updated)
            dl_notes_add(notes,
                         "a step adds gradients of %s of these on average: some parameters are not "
                         "trained in each step, as if a GAN's critic takes more steps than its "
                         "generator. dlsim exchanges all gradients in each",
                         DL_BYTES_TEXT(step_bytes));
        return;
    }
    if (dl_step_costs_take_added(costs, &cpu->added, &cpu->phases, notes)) return;
    for (size_t c = 0; c < cpu->collective_count; c++) {
        const dl_collective_kernel *of = &cpu->collectives[c];
        if (strcmp(of->name, DL_REDUCES) == 0 && !of->integers && of->bytes > largest)
            largest = of->bytes;
    }
    if (largest > 0) {
        costs->parameter_bytes = (double)largest;
        dl_notes_add(notes, "parameter_bytes are those of the largest all-reduce");
    } else if (step_bytes == 0 && dl_trace_meta(trace, "record_shapes") != NULL) {
        dl_notes_add(notes, "no gradient is added to a parameter's, as with torch.autograd.grad "
                            "and torch.func: if a step has several passes, or vmap divides its "
                            "batch, give the samples of all as --batch");
    }
}

/* Recognizes a divided optimizer (ZeRO stage 1) by broadcasts of as many bytes as a pass's
 * gradients: each owner of a part of its state sends the parameters that it has updated. */
static void take_sharded_update(dl_step_costs *costs, const dl_cpu_training *cpu, uint32_t ranks,
                                dl_notes *notes)
{
    const double bytes = costs->broadcast_bytes;
    if (bytes == 0 || fabs(bytes / cpu->added.bytes - 1) > GRADIENTS_DIFFER_MAX) return;
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
                            const dl_collective_summary *only)
{
    double bytes = 0;
    for (size_t c = step->first; c < step->first + step->count; c++) {
        const dl_collective_kernel *of = &cpu->collectives[c];
        if (strcmp(of->name, DL_REDUCES) == 0 && isnan(of->ready_frac) &&
            (only == NULL || (of->bytes == only->bytes && of->ranks == only->ranks)))
            bytes += reduced_bytes(of);
    }
    return bytes;
}

/* Marks in average[step_count] the regular steps whose all-reduces outside of the backward pass sum
 * as many bytes as the parameters have, in one or by parameter, and notes them: local SGD. */
static void note_averages(const dl_step_costs *costs, const dl_cpu_training *cpu,
                          const dl_step_line *line, uint8_t *average, dl_notes *notes)
{
    const double all = costs->gradient_count > 0 && !(costs->parameter_bytes > 0)
                           ? costs->gradients[costs->gradient_count - 1].bytes
                           : costs->parameter_bytes;
    size_t count = 0, first = 0, last = 0;
    for (size_t s = 0; s < line->count && all > 0; s++) {
        if (line->steps[s].label != DL_STEP_REGULAR) continue;
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
                 count, line->regular_count, interval);
}

/* Number of such collectives in a step. */
static double per_step(const dl_cpu_training *cpu, const dl_collective_summary *of)
{
    return (double)of->duration_ns.count / (double)cpu->step_ns.count;
}

/* Notes all-reduces outside of backward passes that are neither those of gradients nor only in
 * steps marked as `average`. */
static void note_outside(const dl_cpu_training *cpu, const dl_step_line *line,
                         const dl_collective_summary *of, const uint8_t *average, dl_notes *notes)
{
    bool noted = of->integers || of->bytes == 0;
    if (!isnan(of->ready_frac)) return;
    for (size_t s = 0; s < line->count && !noted; s++)
        noted = line->steps[s].label == DL_STEP_REGULAR && !average[s] &&
                outside_bytes(cpu, &cpu->steps[s], of) > 0;
    if (!noted) return;
    dl_notes_add(notes,
                 "%.3g AllReduce calls a step%s%s, outside of the backward pass, are left out of "
                 "the costs",
                 per_step(cpu, of), of->bytes > 0 ? " of " : "",
                 of->bytes > 0 ? DL_BYTES_TEXT((double)of->bytes) : "");
}

/* Takes broadcasts outside of backward passes, which are of buffers or parameters. Notes the
 * collectives that cost files cannot describe; gradients are all-reduced `after` the passes or in
 * them. */
static void take_others(dl_step_costs *costs, const dl_cpu_training *cpu, const dl_step_line *line,
                        bool gathers_parameters, bool after, dl_notes *notes)
{
    uint32_t ranks = 0;
    DL_AUTOFREE uint8_t *average = dl_calloc(line->count, sizeof *average, "steps");
    if (!after) note_averages(costs, cpu, line, average, notes);
    for (size_t i = 0; i < cpu->groups.count; i++) {
        const dl_collective_summary *g = &cpu->groups.collectives[i];
        if (strcmp(g->name, DL_REDUCES) == 0 && !after) note_outside(cpu, line, g, average, notes);
        if (strcmp(g->name, DL_REDUCES) == 0 || strcmp(g->name, DL_SCATTERS) == 0) continue;
        if (strcmp(g->name, DL_GATHERS) == 0 && gathers_parameters) continue;
        if (strcmp(g->name, "Broadcast") == 0 && isnan(g->ready_frac) && g->bytes > 0) {
            costs->broadcast_bytes += per_step(cpu, g) * (double)g->bytes;
            costs->broadcast_calls += per_step(cpu, g);
            ranks = g->ranks;
            continue;
        }
        dl_notes_add(notes, "%.3g %s calls a step%s%s are left out of the costs", per_step(cpu, g),
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
                              const dl_step_line *line, const dl_trace *trace, dl_notes *notes)
{
    const double each_ns = dl_profiled_operator_ns(trace);
    const double traced_ns = costs->device_ns;
    double operators = 0, sum_ns = 0;
    for (int p = 0; p < DL_CPU_PARTS; p++) {
        dl_step_op *op = &costs->ops[p];
        if (op->ns.value <= 0) continue;
        double count = 0;
        for (size_t s = 0; s < line->count; s++)
            if (line->steps[s].label == DL_STEP_REGULAR)
                count += (double)cpu->steps[s].part_operators[p] / (double)line->regular_count;
        const double ns = fmin(count * each_ns, PROFILED_MAX * op->ns.value);
        op->ns.value -= ns;
        op->ns.error = hypot(fmax(0, op->ns.error), DL_PROFILED_ERROR * ns); /* of one step: NaN */
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
    return cpu->part_ns[DL_CPU_PART_WAIT].mean +
           (cpu->waits_for_loaders ? cpu->part_ns[DL_CPU_PART_INPUT].mean : 0);
}

/* Scales the operations to the step time without the profiler, which lengthens every operator, if
 * the trace has that time and steps hardly wait; otherwise subtracts the assumed overhead. */
static void scale_to_unprofiled(dl_step_costs *costs, const dl_cpu_training *cpu,
                                const dl_step_line *line, const dl_trace *trace, dl_notes *notes)
{
    const int64_t ns = dl_trace_meta_int(trace, "unprofiled_step_ns", 1, INT64_MAX, 0);
    if (ns == 0 || mean_waiting_ns(cpu) > WAITING_FRAC_MAX * cpu->step_ns.mean) {
        take_off_profiler(costs, cpu, line, trace, notes);
        return;
    }
    const double factor = (double)ns / cpu->step_ns.p50;
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
static double least_input_ns(const dl_cpu_training *cpu, const dl_step_line *line)
{
    double least = INFINITY;
    for (size_t s = 0; s < line->count; s++) {
        const int64_t ns = cpu->steps[s].part_ns[DL_CPU_PART_INPUT];
        if (line->steps[s].label == DL_STEP_REGULAR && ns > 0) least = fmin(least, (double)ns);
    }
    return least;
}

/* Minimum fraction of the time to take a finished batch in which the taking thread uses the
 * processor; in the rest of that time the other process hands the batch over. It was 0.7 with
 * PyTorch 2.15 and batches of two tensors, passed as shared-memory files through a socket, on 2
 * virtual cores of an AMD EPYC, 2026-11-26. */
#define TAKE_PROCESSOR_FRAC 0.5

/* Returns the time to take a finished batch, in ns; NaN: unknown. least_ns: least_input_ns. `text`
 * receives its source. */
static double take_ns(const dl_step_costs *costs, double least_ns, const dl_trace *trace,
                      char *text, size_t capacity)
{
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
static void take_loaders(dl_step_costs *costs, const dl_cpu_training *cpu, const dl_step_line *line,
                         const dl_trace *trace, int64_t ns, dl_notes *notes)
{
    const double waits_ns = cpu->part_ns[DL_CPU_PART_INPUT].mean;
    char take[128];
    costs->take_ns = take_ns(costs, least_input_ns(cpu, line), trace, take, sizeof take);
    dl_notes_add(
        notes,
        "input: a step waits for processes of a data loader, %s on average, %.0f %% of it: "
        "left out of the step%s",
        DL_NS_TEXT(waits_ns), 100 * waits_ns / cpu->step_ns.mean, take);
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

/* Sets costs->updates_inside, and notes it. */
static void find_updates_inside(dl_step_costs *costs, const dl_cpu_training *cpu,
                                const dl_trace *trace, dl_notes *notes)
{
    for (size_t i = 0; i < trace->activity_count && !costs->updates_inside; i++) {
        const dl_activity *a = &trace->activities[i];
        costs->updates_inside = cpu->part_ns[DL_CPU_PART_UPDATE].mean <= 0 &&
                                a->kind == DL_ACTIVITY_RANGE && a->thread == cpu->thread &&
                                a->name < trace->string_count &&
                                dl_range_roles(trace->strings[a->name]) == DL_ROLE_UPDATE;
    }
    if (costs->updates_inside)
        dl_notes_add(notes, "the parameters are updated within the backward pass, by hooks of "
                            "their gradients: the update's time is part of that pass's");
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
 * many bytes once outside of the backward pass as the gradients have), unless the sums in the
 * backward passes carry less than COMPRESSED_FRAC of the gradients; and maximum relative difference
 * of that number from the backward passes'. */
#define SUMS_MIN 2
#define SUMS_DIFFER_MAX 0.1

/* Refuses a rank of a pipeline, which sends and receives during backward passes, and of divided
 * layers, which sum activations of the same size equally often in forward and backward passes. */
static dl_status refuse_axes(const dl_cpu_training *cpu, const dl_trace *trace, dl_error *err)
{
    const dl_collective_summary *groups = cpu->groups.collectives;
    double carried = 0; /* by a step's reductions in its backward passes */
    for (size_t c = 0; c < cpu->collective_count; c++) {
        const dl_collective_kernel *of = &cpu->collectives[c];
        if (of->step != SIZE_MAX && !isnan(of->ready_frac))
            carried += reduced_bytes(of) / (double)cpu->step_ns.count;
    }
    const double least = carried < COMPRESSED_FRAC * cpu->added.bytes ? 1 : SUMS_MIN;
    for (size_t i = 0; i < cpu->groups.count; i++) {
        const dl_collective_summary *in = &groups[i];
        const bool sums = strcmp(in->name, DL_REDUCES) == 0 || strcmp(in->name, DL_SCATTERS) == 0;
        if (isnan(in->ready_frac)) continue;
        if (strcmp(in->name, "Send") == 0 || strcmp(in->name, "Recv") == 0)
            return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                                   "a step sends and receives in its backward passes (%s %.3g "
                                   "times), as a stage of a pipeline does: costs of stages are "
                                   "taken from traces of GPUs only (dlsim --layout pp=2 simulates "
                                   "networks that are given by name)",
                                   in->name, per_step(cpu, in));
        for (size_t o = 0; o < cpu->groups.count && sums && in->bytes > 0 && !in->integers; o++) {
            const dl_collective_summary *out = &groups[o];
            if (!isnan(out->ready_frac) || strcmp(out->name, in->name) != 0 ||
                out->bytes != in->bytes || out->ranks != in->ranks || out->integers ||
                per_step(cpu, out) < least ||
                fabs(per_step(cpu, out) / per_step(cpu, in) - 1) > SUMS_DIFFER_MAX)
                continue;
            return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                                   "a step has %.3g %s calls of %s in its forward passes and as "
                                   "many in its backward passes: layers are divided (tensor "
                                   "parallel), whose costs are taken from traces of GPUs only "
                                   "(dlsim --layout tp=2 simulates networks that are given by "
                                   "name)",
                                   per_step(cpu, in), in->name, DL_BYTES_TEXT((double)in->bytes));
        }
    }
    return DL_OK;
}

dl_status dl_step_costs_take_cores(dl_step_costs *costs, const dl_trace *trace,
                                   const dl_step_line *line, dl_notes *notes, dl_error *err)
{
    DL_SCOPED(dl_cpu_training) cpu = {0};
    const int64_t children_ns = dl_trace_meta_int(trace, "children_step_ns", 1, INT64_MAX, 0);
    dl_cpu_training_find(&cpu, trace, line);
    const size_t regular = cpu.step_count > 0 ? line->regular_count : 0;
    if (regular < (line->method == DL_STEPS_GIVEN_ONE ? 1u : 2u)) {
        return dl_error_set_at(
            err, DL_ERR_DATA, trace->path, 0,
            "%zu regular %s of operators on cores%s%s: costs need at least two, or --one-step",
            regular, regular == 1 ? "step" : "steps", line->reason != NULL ? ", " : "",
            line->reason != NULL ? line->reason : "");
    }
    const dl_status status = refuse_axes(&cpu, trace, err);
    if (status != DL_OK) return status;
    costs->on_cores = true;
    costs->collectives = cpu.collective_count;
    costs->take_ns = (double)NAN;
    const bool varies = work_varies(trace, line->regular_count);
    take_parts(costs, &cpu, line, varies, notes);
    if (varies) note_varying(costs, trace, notes);
    if (line->marks_cut_passes)
        dl_notes_add(notes, "the program's marks lie between forward and backward pass, as if "
                            "profiler.step() were called in Lightning's training_step: steps "
                            "are taken from update to update");
    scale_to_unprofiled(costs, &cpu, line, trace, notes);
    costs->forward_ns = costs->ops[DL_CPU_PART_FORWARD].ns;
    costs->backward_ns = costs->ops[DL_CPU_PART_BACKWARD].ns;
    costs->update_ns = costs->ops[DL_CPU_PART_UPDATE].ns;
    if (cpu.waits_for_loaders) {
        take_loaders(costs, &cpu, line, trace, children_ns, notes);
    } else {
        take_children(costs, children_ns, notes);
    }
    note_faults(costs, trace, notes);
    note_threads(trace, notes);
    find_updates_inside(costs, &cpu, trace, notes);
    const bool after = reduces_after(&cpu);
    dl_gradient_source source = {
        .trace = trace,
        .line = line,
        .phases = &cpu.phases,
        .communicators = dl_communicators_find(trace->activities, trace->activity_count)};
    source.calls = list_calls(&cpu, after, &source.call_count);
    const dl_gradient_exchange gradients = dl_step_costs_take_exchange(costs, &source, notes);
    if (!gradients.scattered) take_carried(costs, &cpu, notes);
    if (after)
        dl_notes_add(notes,
                     "gradients are all-reduced after the backward pass, which hides nothing "
                     "of it");
    const bool gathers = dl_step_costs_take_sharded(costs, &source, &gradients, notes);
    free(source.calls);
    free(source.communicators.items);
    free(gradients.activations);
    take_added(costs, &cpu.added);
    costs->passes_apart = cpu.added.apart;
    take_parameters(costs, &cpu, trace, notes);
    take_others(costs, &cpu, line, gathers, after, notes);
    take_processor(costs, trace, notes);
    drop_empty(costs);
    return DL_OK;
}
