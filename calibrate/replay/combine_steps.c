/* Combines the steps of several traces of one workload into one cost file. */
#include <gsl/gsl_fit.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/workloads/roofline.h"

static dl_value value_of(double value, double error, size_t count, dl_origin origin)
{
    return (dl_value){.known = true,
                      .value = value,
                      .error = isfinite(error) ? error : 0,
                      .count = (int64_t)count,
                      .origin = origin};
}

static bool have_one_batch(const dl_step_costs *steps, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (steps[i].batch != steps[0].batch) return false;
    }
    return true;
}

static size_t all_steps(const dl_step_costs *steps, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += steps[i].steps;
    return sum;
}

/* Returns the operation's costs in one trace's step; zero if it does not occur. */
static dl_step_op op_of(const dl_step_costs *step, const char *name)
{
    for (size_t i = 0; i < step->op_count; i++) {
        if (strcmp(step->ops[i].name, name) == 0) return step->ops[i];
    }
    return (dl_step_op){0};
}

/* Sets an operation from traces of one batch size. An update, an external wait, and the starts,
 * ends and gaps of the passes' operations, do not depend on the batch; the rest of the passes is
 * assumed proportional to it. */
static void set_of_one_batch(dl_op_cost *op, const dl_step_costs *steps, size_t count)
{
    double sum = 0, starts = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        const dl_step_op one = op_of(&steps[i], op->name);
        sum += one.ns.value / (double)count;
        starts += one.starts_ns / (double)count;
        squares += pow(one.ns.error / (double)count, 2);
    }
    const bool fixed = dl_ends_with(op->name, ".update") || strncmp(op->name, "external.", 9) == 0;
    const double batch = (double)steps[0].batch;
    const size_t n = all_steps(steps, count);
    if (fixed) {
        op->fixed_ns = value_of(sum, sqrt(squares), n, DL_ORIGIN_MEASURED);
        op->per_sample_ns = value_of(0, 0, 0, DL_ORIGIN_ASSUMED);
    } else {
        op->fixed_ns = value_of(starts, 0, 0, DL_ORIGIN_ASSUMED);
        op->per_sample_ns =
            value_of(fmax(0, sum - starts) / batch, sqrt(squares) / batch, n, DL_ORIGIN_MEASURED);
    }
}

static void fit_op(dl_op_cost *op, const dl_step_costs *steps, size_t count)
{
    DL_AUTOFREE double *x = dl_calloc(count, sizeof *x, "batch sizes"),
                       *y = dl_calloc(count, sizeof *y, "times");
    double fixed, slope, cov00, cov01, cov11, squares;
    for (size_t i = 0; i < count; i++) {
        x[i] = (double)steps[i].batch;
        y[i] = op_of(&steps[i], op->name).ns.value;
    }
    gsl_fit_linear(x, 1, y, 1, count, &fixed, &slope, &cov00, &cov01, &cov11, &squares);
    const size_t n = all_steps(steps, count);
    if (slope < 0) { /* more samples never take less time: a falling line becomes constant */
        fixed = gsl_stats_mean(y, 1, count);
        slope = cov11 = 0;
        cov00 = gsl_stats_variance_m(y, 1, count, fixed) / (double)count;
    }
    op->fixed_ns = value_of(fixed, count > 2 ? sqrt(cov00) : 0, n, DL_ORIGIN_FITTED);
    op->per_sample_ns = value_of(slope, count > 2 ? sqrt(cov11) : 0, n, DL_ORIGIN_FITTED);
}

/* Sets the share of an update's fixed time in starts of kernels, from all traces. */
static void set_starts(dl_op_cost *op, const dl_step_costs *steps, size_t count)
{
    double starts = 0;
    for (size_t i = 0; i < count; i++)
        starts += op_of(&steps[i], op->name).starts_ns / (double)count;
    if (!dl_ends_with(op->name, ".update") || starts <= 0 || op->fixed_ns.value <= 0) return;
    op->starts_frac = value_of(fmin(1, starts / op->fixed_ns.value), 0, 0, DL_ORIGIN_ASSUMED);
}

/* Adds the operations of all traces, in order of first occurrence. */
static void add_ops(dl_costs *costs, const dl_step_costs *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < steps[i].op_count; k++) {
            const char *name = steps[i].ops[k].name;
            size_t at = 0;
            while (at < costs->op_count && strcmp(costs->ops[at].name, name) != 0)
                at++;
            if (at < costs->op_count) continue;
            costs->ops = dl_realloc(costs->ops, at + 1, sizeof *costs->ops, "operations");
            costs->ops[at] = (dl_op_cost){.name = dl_strdup(name)};
            costs->op_count++;
        }
    }
    for (size_t i = 0; i < costs->op_count; i++) {
        if (have_one_batch(steps, count)) {
            set_of_one_batch(&costs->ops[i], steps, count);
        } else {
            fit_op(&costs->ops[i], steps, count);
        }
        set_starts(&costs->ops[i], steps, count);
    }
}

/* Adds the host's time to launch a step, and its external waits, from the traces that have them. */
static void add_dispatch(dl_costs *costs, const dl_step_costs *steps, size_t count, dl_notes *notes)
{
    double sum = 0, error = 0, waits = 0, known = 0;
    size_t counted = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(steps[i].host_ns)) continue;
        sum += steps[i].host_ns - steps[i].waits_ns;
        error += steps[i].host_error_ns; /* same recorder, so errors are not independent */
        waits += steps[i].waits_ns;
        known++;
        counted += steps[i].steps;
    }
    if (known > 0) {
        costs->dispatch.per_worker_ns =
            value_of(sum / known, error / known, counted, DL_ORIGIN_MEASURED);
        costs->dispatch.serial_ns = value_of(0, 0, 0, DL_ORIGIN_ASSUMED);
        if (waits > 0)
            costs->dispatch.external_ns = value_of(waits / known, 0, counted, DL_ORIGIN_MEASURED);
    } else {
        dl_notes_add(notes, "no launches in the trace: the host's time, [dispatch], stays "
                            "unknown");
    }
}

static void add_copies(dl_costs *costs, const dl_step_costs *steps, size_t count, dl_notes *notes)
{
    double input = 0;
    for (size_t i = 0; i < count; i++)
        input += steps[i].input_bytes.value / (double)steps[i].batch / (double)count;
    for (size_t i = 0; i < count; i++) {
        if (steps[i].pageable_copies == 0) continue;
        costs->copy.pageable_bytes_per_s = value_of(steps[i].pageable_bytes_per_s, 0,
                                                    steps[i].pageable_copies, DL_ORIGIN_MEASURED);
        break;
    }
    if (input <= 0) return; /* made on the device, or copied without a record */
    costs->input_bytes_per_sample = value_of(input, 0, all_steps(steps, count), DL_ORIGIN_MEASURED);
    dl_notes_add(notes, "copies to the device count as input, not as operations");
}

/* Adds the time to take a batch made by other processes: the least of all traces. */
static void add_taking(dl_costs *costs, const dl_step_costs *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (isnan(steps[i].take_ns)) continue;
        if (costs->input_copy_ns.known && costs->input_copy_ns.value <= steps[i].take_ns) continue;
        costs->input_copy_ns = value_of(steps[i].take_ns, 0, steps[i].steps, DL_ORIGIN_MEASURED);
    }
}

static void add_gradients(dl_costs *costs, const dl_step_costs *steps, size_t count,
                          dl_notes *notes)
{
    for (size_t i = 0; i < count && costs->parameter_bytes < 0; i++)
        if (steps[i].parameter_bytes > 0)
            costs->parameter_bytes = (int64_t)steps[i].parameter_bytes;
    for (size_t i = 0; i < count; i++) {
        if (steps[i].gradient_count == 0) continue;
        costs->gradient_count = steps[i].gradient_count;
        costs->gradients = dl_calloc(costs->gradient_count, sizeof *costs->gradients, "gradients");
        memcpy(costs->gradients, steps[i].gradients,
               costs->gradient_count * sizeof *costs->gradients);
        if (!(steps[i].parameter_bytes > 0)) {
            costs->parameter_bytes = (int64_t)costs->gradients[costs->gradient_count - 1].bytes;
            dl_notes_add(notes, "parameter_bytes are those of the gradients exchanged in a step");
        }
        costs->sharded = steps[i].sharded;
        costs->keeps_parameters = steps[i].keeps_parameters;
        costs->half_gathers = steps[i].gathers_half && !steps[i].on_cores;
        return;
    }
    dl_notes_add(notes, "no all-reduce of gradients in the trace");
}

static void add_slowdown(dl_costs *costs, const dl_step_costs *steps, size_t count, dl_notes *notes)
{
    for (size_t i = 0; i < count; i++) {
        const dl_overlap_slowdown *s = &steps[i].slowdown;
        if (!s->known) continue;
        if (s->factor < 1) {
            dl_notes_add(notes,
                         "[overlap] slowdown: during collectives operations took %.3f times as "
                         "long; 1 is used",
                         s->factor);
        }
        costs->overlap_slowdown =
            value_of(fmax(1, s->factor), s->error, s->works, DL_ORIGIN_MEASURED);
        return;
    }
    dl_notes_add(notes, "[overlap] slowdown stays unknown: too little work ran during collectives, "
                        "or without them");
}

static void add_noise(dl_costs *costs, const dl_step_costs *steps, size_t count)
{
    costs->noise = dl_calloc(count, sizeof *costs->noise, "noise");
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t k = 0; k < i; k++)
            known = known || (steps[k].batch == steps[i].batch && steps[k].steps > 1);
        if (known || steps[i].steps < 2) continue;
        dl_noise_series *series = dl_calloc(1, sizeof *series, "noise");
        series->factors = dl_calloc(steps[i].steps, sizeof *series->factors, "noise");
        series->count = steps[i].steps;
        memcpy(series->factors, steps[i].factors, series->count * sizeof *series->factors);
        dl_noise_series_finish(series);
        costs->noise[costs->noise_count++] =
            (dl_noise_set){.batch = steps[i].batch, .copies = 1, .run_count = 1, .series = series};
    }
}

static void add_traces(dl_costs *costs, const dl_step_costs *steps, size_t count, dl_notes *notes)
{
    for (size_t i = 0; i < count; i++) {
        const dl_step_costs *s = &steps[i];
        dl_cost_trace trace = {.file = s->file != NULL ? dl_strdup(s->file) : NULL,
                               .ranks = s->ranks == 0 && !s->allreduces && s->other_count == 0 &&
                                                s->collectives == 0
                                            ? 1
                                            : s->ranks,
                               .rank = s->rank,
                               .batch = s->batch,
                               .stages = s->axes.stages,
                               .schedule = s->axes.gpipe ? DL_SCHEDULE_GPIPE : DL_SCHEDULE_1F1B,
                               .shards = s->axes.shards,
                               .allreduces = s->allreduces,
                               .collective_count = s->other_count};
        const int64_t gpus = dl_costs_traced_gpus(costs, &trace);
        if (trace.ranks % gpus != 0) {
            dl_notes_add(notes,
                         "the job's %lld ranks are not a multiple of the %lld GPUs of a worker: "
                         "the trace's step is not compared with the simulated one",
                         (long long)trace.ranks, (long long)gpus);
            trace.ranks = 0;
        }
        double squares = 0;
        for (size_t k = 0; k < s->steps; k++)
            squares += pow((double)s->factors[k] - 1, 2);
        const double error =
            s->steps > 1 ? sqrt(squares / ((double)s->steps * (double)(s->steps - 1))) : 0;
        /* On cores, step_ns excludes the recording overhead, which the trace's recorded step
         * includes. */
        const double step_ns = s->step_ns + (s->on_cores ? s->recording_ns : 0);
        trace.step_ns = value_of(step_ns, error * step_ns, s->steps, DL_ORIGIN_MEASURED);
        if (s->recording_ns > 0)
            trace.recording_ns = value_of(s->recording_ns, 0, 0, DL_ORIGIN_ASSUMED);
        trace.collectives =
            dl_calloc(s->other_count, sizeof *trace.collectives, "traced collectives");
        for (size_t k = 0; k < s->other_count; k++) {
            trace.collectives[k] = s->others[k];
            trace.collectives[k].name = dl_strdup(s->others[k].name);
        }
        DL_APPEND(costs->traces, costs->trace_count, "traces") = trace;
    }
}

static void note_one_batch(const dl_costs *costs, const dl_step_costs *steps, dl_notes *notes)
{
    double fixed_ns = 0;
    for (size_t i = 0; i < costs->op_count; i++)
        if (!dl_ends_with(costs->ops[i].name, ".update")) fixed_ns += costs->ops[i].fixed_ns.value;
    if (steps->on_cores) {
        dl_notes_add(notes,
                     "one batch size: forward and backward pass are taken per sample, which holds "
                     "at %lld samples a worker only",
                     (long long)steps->batch);
    } else {
        dl_notes_add(
            notes,
            "one batch size: %s of the forward and backward pass are assumed not to depend on "
            "it (%.3g us of each kernel: its start, end, and the gap to the next one), the "
            "rest is taken per sample; traces at two batch sizes give both",
            DL_NS_TEXT(fixed_ns), DL_ROOFLINE_KERNEL_NS / 1e3);
    }
}

/* Divides the costs of a step by its passes; costs that occur once per step are unchanged. */
static dl_step_costs of_one_pass(const dl_step_costs *step)
{
    dl_step_costs one = *step;
    const size_t count = step->passes > 1 ? step->passes : 1;
    const double passes = (double)count;
    one.batch = step->batch / (int64_t)count;
    one.input_bytes.value /= passes;
    one.host_ns = (step->host_ns - step->waits_ns) / passes + step->waits_ns;
    one.host_error_ns /= passes;
    one.ops = dl_calloc(step->op_count, sizeof *one.ops, "operations");
    for (size_t i = 0; i < step->op_count; i++) {
        one.ops[i] = step->ops[i];
        if (dl_ends_with(one.ops[i].name, ".update")) continue;
        one.ops[i].ns.value /= passes;
        one.ops[i].ns.error /= passes;
        one.ops[i].starts_ns /= passes;
    }
    return one;
}

void dl_step_value_add(dl_value *sum, const dl_value *more)
{
    if (!more->known) return;
    sum->known = true;
    sum->value += more->value;
    sum->error = hypot(sum->error, more->error);
    if (more->count > sum->count) sum->count = more->count;
    if (more->count > 0) sum->origin = more->origin;
}

/* Joins the operations of each phase, "gemm.forward", ..., into one of a layer, "step.forward", as
 * only layers have collectives, parameters and outputs. */
static void join_ops(dl_costs *costs)
{
    static const char *const names[] = {"step.forward", "step.backward", "step.update"};
    dl_op_cost *joined = dl_calloc(DL_LENGTH(names), sizeof *joined, "operations");
    double starts_ns[DL_LENGTH(names)] = {0};
    for (size_t p = 0; p < DL_LENGTH(names); p++)
        joined[p] = (dl_op_cost){.name = dl_strdup(names[p]),
                                 .fixed_ns = value_of(0, 0, 0, DL_ORIGIN_ASSUMED),
                                 .per_sample_ns = value_of(0, 0, 0, DL_ORIGIN_ASSUMED)};
    for (size_t i = 0; i < costs->op_count; i++) {
        for (size_t p = 0; p < DL_LENGTH(names); p++) {
            if (!dl_ends_with(costs->ops[i].name, strchr(names[p], '.'))) continue;
            dl_step_value_add(&joined[p].fixed_ns, &costs->ops[i].fixed_ns);
            dl_step_value_add(&joined[p].per_sample_ns, &costs->ops[i].per_sample_ns);
            starts_ns[p] += costs->ops[i].fixed_ns.value * costs->ops[i].starts_frac.value;
        }
        free(costs->ops[i].name);
    }
    for (size_t p = 0; p < DL_LENGTH(names); p++)
        if (starts_ns[p] > 0)
            joined[p].starts_frac =
                value_of(starts_ns[p] / joined[p].fixed_ns.value, 0, 0, DL_ORIGIN_ASSUMED);
    free(costs->ops);
    costs->ops = joined;
    costs->op_count = DL_LENGTH(names);
}

/* Adds the layer "step" if GPUs divide layers, or are stages: its collectives, its output, its
 * parameters. `steps` are of one pass. */
static void add_layer(dl_costs *costs, const dl_step_costs *steps, size_t count)
{
    const dl_step_axes *axes = &steps[0].axes;
    double bytes = 0, crossing = 0;
    if (axes->tensor < 2 && axes->stages < 2) return;
    for (size_t i = 0; i < count; i++) {
        bytes += steps[i].axes.tensor_bytes / (double)steps[i].batch / (double)count;
        crossing += steps[i].axes.crossing_bytes / (double)steps[i].batch / (double)count;
    }
    join_ops(costs);
    dl_layer_cost *layer = &DL_APPEND(costs->layers, costs->layer_count, "layers");
    *layer = (dl_layer_cost){.name = dl_strdup("step")};
    const size_t n = all_steps(steps, count);
    const double passes = steps[0].passes > 1 ? (double)steps[0].passes : 1;
    if (axes->tensor > 1) {
        costs->tensor_ranks = axes->tensor;
        layer->tensor_bytes_per_sample = value_of(bytes, 0, n, DL_ORIGIN_MEASURED);
        layer->tensor_collectives_forward =
            value_of(axes->tensor_calls[1] / passes, 0, n, DL_ORIGIN_MEASURED);
        layer->tensor_collectives_backward =
            value_of(axes->tensor_calls[0] / passes, 0, n, DL_ORIGIN_MEASURED);
    }
    if (axes->stages > 1)
        layer->output_bytes_per_sample = value_of(crossing, 0, n, DL_ORIGIN_MEASURED);
    if (costs->parameter_bytes > 0)
        layer->parameter_bytes = value_of((double)costs->parameter_bytes, 0, n, DL_ORIGIN_MEASURED);
}

static bool have_one_layout(const dl_step_costs *s, const dl_step_costs *t)
{
    const dl_step_axes *a = &s->axes, *b = &t->axes;
    const bool both_exchange = s->gradient_count > 0 && t->gradient_count > 0;
    if (a->stages != b->stages || a->tensor != b->tensor) return false;
    if (both_exchange &&
        (a->copies != b->copies || a->shards != b->shards || s->sharded != t->sharded))
        return false;
    return a->stages < 2 ||
           (s->passes == t->passes && (a->either || b->either || a->gpipe == b->gpipe));
}

/* Returns the layout, as part of a message; owned by the caller. */
static char *describe(const dl_step_costs *step)
{
    const dl_step_axes *axes = &step->axes;
    DL_AUTOFREE char *stages =
        axes->stages > 1 ? dl_format("%u stages in schedule %s, %zu micro-batches, ", axes->stages,
                                     dl_step_axes_schedule(axes), step->passes)
                         : dl_strdup("");
    return dl_format("%stp %u, %u copies of %u shards (sharded: %s)", stages, axes->tensor,
                     axes->copies, axes->shards, dl_sharded_names[step->sharded]);
}

dl_status dl_step_layouts_check(const dl_step_costs *steps, size_t count, dl_error *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (have_one_layout(&steps[k], &steps[i])) continue;
            DL_AUTOFREE char *first = describe(&steps[k]), *second = describe(&steps[i]);
            return dl_error_set(err, DL_ERR_DATA, "traces of different layouts: %s; %s", first,
                                second);
        }
    }
    return DL_OK;
}

static dl_status combine(dl_costs *costs, const dl_step_costs *steps, size_t count, dl_notes *notes,
                         dl_error *err)
{
    *costs = (dl_costs){.parameter_bytes = -1, .state_bytes = -1};
    const dl_status status = dl_step_layouts_check(steps, count, err);
    if (status != DL_OK) return status;
    costs->batch_min = costs->batch_max = steps[0].batch;
    for (size_t i = 0; i < count; i++) {
        if (steps[i].batch < costs->batch_min) costs->batch_min = steps[i].batch;
        if (steps[i].batch > costs->batch_max) costs->batch_max = steps[i].batch;
        if (i > 0 && steps[i].device != NULL && steps[0].device != NULL &&
            strcmp(steps[i].device, steps[0].device) != 0) {
            return dl_error_set(err, DL_ERR_DATA, "traces of different devices: %s and %s",
                                steps[0].device, steps[i].device);
        }
    }
    for (size_t i = 1; i < count; i++) {
        if (steps[i].on_cores == steps[0].on_cores) continue;
        return dl_error_set(err, DL_ERR_DATA, "traces of GPUs and of cores in one");
    }
    costs->device = steps[0].device != NULL ? dl_strdup(steps[0].device) : NULL;
    costs->framework = steps[0].framework != NULL ? dl_strdup(steps[0].framework) : NULL;
    costs->cores = steps[0].cores;
    add_ops(costs, steps, count);
    if (have_one_batch(steps, count)) note_one_batch(costs, &steps[0], notes);
    add_gradients(costs, steps, count, notes);
    if (steps[0].on_cores) {
        if (steps[0].broadcast_bytes > 0) {
            costs->broadcast_bytes =
                value_of(steps[0].broadcast_bytes, 0, steps[0].steps, DL_ORIGIN_MEASURED);
            costs->broadcast_calls =
                value_of(fmax(1, steps[0].broadcast_calls), 0, steps[0].steps, DL_ORIGIN_MEASURED);
        }
        add_taking(costs, steps, count);
        costs->slice_ns = value_of(4e6, 0, 0, DL_ORIGIN_ASSUMED);
        dl_notes_add(notes, "[sync] slice_ns, of processes that share a core, is assumed");
    } else {
        add_dispatch(costs, steps, count, notes);
        add_copies(costs, steps, count, notes);
        add_slowdown(costs, steps, count, notes);
    }
    add_noise(costs, steps, count);
    add_layer(costs, steps, count);
    return DL_OK;
}

dl_status dl_step_costs_combine(dl_costs *costs, const dl_step_costs *steps, size_t count,
                                dl_notes *notes, dl_error *err)
{
    DL_AUTOFREE dl_step_costs *passes = dl_calloc(count, sizeof *passes, "costs");
    for (size_t i = 0; i < count; i++)
        passes[i] = of_one_pass(&steps[i]);
    const dl_status status = combine(costs, passes, count, notes, err);
    if (status == DL_OK) add_traces(costs, steps, count, notes);
    for (size_t i = 0; i < count; i++)
        free(passes[i].ops);
    if (steps[0].passes > 1) costs->accumulate = (int64_t)steps[0].passes;
    for (size_t i = 1; i < count && status == DL_OK; i++) {
        if (steps[i].passes == steps[0].passes) continue;
        dl_notes_add(notes,
                     "[costs] accumulate is that of the first trace, %zu passes; another has %zu",
                     steps[0].passes, steps[i].passes);
    }
    return status;
}
