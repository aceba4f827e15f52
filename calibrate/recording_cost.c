/* The time that recording adds to the steps of train traces, and its subtraction. */
#include <stdlib.h>
#include <string.h>

#include "calibrate/dataset.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "trace/activity/capture_cost.h"

/* Figures are medians with a distribution-free 95 % interval; as for a normal distribution, half
 * the interval is 1.96 standard errors. */
#define STANDARD_ERRORS_OF_INTERVAL 1.96

static dl_status meta_figure(const dl_trace *trace, const char *key, double *figure, dl_error *err)
{
    const char *text = dl_trace_meta(trace, key);
    if (text == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0, "does not say %s", key);
    }
    dl_error inner = {0};
    const dl_status status = dl_parse_double(text, -1e9, 1e9, figure, &inner);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(err, status, trace->path, 0, "%s: %s", key, inner.text);
}

dl_status dl_recording_cost_take(dl_dataset *dataset, const dl_trace *trace, dl_error *err)
{
    double low_ns, high_ns, pairs;
    dl_status status;
    if ((status = meta_figure(trace, "record_ns", &dataset->record_ns, err)) ||
        (status = meta_figure(trace, "record_low_ns", &low_ns, err)) ||
        (status = meta_figure(trace, "record_high_ns", &high_ns, err)) ||
        (status = meta_figure(trace, "pairs", &pairs, err))) {
        return status;
    }
    const char *device = dl_trace_meta(trace, "device");
    if (dataset->device != NULL && device != NULL && strcmp(device, dataset->device) != 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "is of '%s', but the traces before it are of '%s'", device,
                               dataset->device);
    }
    if (dataset->record_pairs > 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "an earlier trace already gives the cost of recording");
    }
    dataset->record_error_ns = (high_ns - low_ns) / 2 / STANDARD_ERRORS_OF_INTERVAL;
    dataset->record_pairs = (int64_t)pairs;
    return DL_OK;
}

/* Subtracts the cost from one step: op_ns[op_count], of which the last is dispatch. */
static void subtract(double *op_ns, size_t op_count, double *step_ns, double cost_ns)
{
    double *dispatch_ns = &op_ns[op_count - 1];
    const double operations_ns = *step_ns - *dispatch_ns;
    if (cost_ns >= *step_ns) return; /* a step's time stays positive */
    *step_ns -= cost_ns;
    const double off_dispatch_ns = cost_ns < *dispatch_ns ? cost_ns : *dispatch_ns;
    *dispatch_ns -= off_dispatch_ns;
    const double left_ns = cost_ns - off_dispatch_ns;
    for (size_t op = 0; op + 1 < op_count && left_ns > 0; op++)
        op_ns[op] *= 1 - left_ns / operations_ns;
}

/* Subtracts the cost of the records written by dlprof train. */
static void subtract_records(dl_dataset *dataset, dl_notes *notes)
{
    if (dataset->record_pairs == 0 || dataset->run_count == 0) return;
    const double error_ns = STANDARD_ERRORS_OF_INTERVAL * dataset->record_error_ns;
    if (dataset->record_ns - error_ns <= 0) {
        dl_notes_add(
            notes,
            "recording: %.0f +- %.0f ns per record, not distinguishable from 0; not taken off",
            dataset->record_ns, error_ns);
        return;
    }
    double taken_ns = 0, all_ns = 0;
    for (size_t r = 0; r < dataset->run_count; r++) {
        dl_step_run *run = &dataset->runs[r];
        for (size_t s = 0; s < run->steps; s++) {
            const double before_ns = run->step_ns[s];
            subtract(run->op_ns + s * dataset->op_count, dataset->op_count, &run->step_ns[s],
                     run->records[s] * dataset->record_ns);
            all_ns += before_ns;
            taken_ns += before_ns - run->step_ns[s];
        }
    }
    dl_notes_add(notes,
                 "recording: %.0f +- %.0f ns per record (%lld pairs of runs) taken off the steps, "
                 "%.2f %% of their time",
                 dataset->record_ns, error_ns, (long long)dataset->record_pairs,
                 100 * taken_ns / all_ns);
}

char *dl_recording_process(const dl_trace *trace)
{
    const char *host = dl_trace_meta(trace, "host"), *pid = dl_trace_meta(trace, "pid");
    return host != NULL && pid != NULL ? dl_format("%s:%s", host, pid) : NULL;
}

/* Sets the cost per step to the sum over the devices, as one thread may launch on all of them. */
static dl_status estimate(dl_captured_process *made, const dl_capture_figures *figures,
                          const dl_trace *trace, dl_error *err)
{
    const dl_step_hints none = {0};
    DL_SCOPED(dl_activity_steps) steps = {0};
    const dl_status status = dl_activity_steps_init(&steps, trace, &none, err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < steps.count; i++) {
        const dl_capture_estimate e = dl_capture_estimate_of(figures, trace, &steps.lines[i]);
        made->step_ns += e.step_ns;
        made->low_ns += e.step_low_ns;
        made->high_ns += e.step_high_ns;
        for (int item = 0; item < DL_CAPTURE_PER_RECORD; item++)
            made->launches += e.per_step[item];
    }
    if (made->launches == 0) made->unknown = dl_strdup("no steps were found in its recording");
    return DL_OK;
}

dl_status dl_recording_cost_take_run(dl_dataset *dataset, const dl_trace *trace, dl_error *err)
{
    dl_captured_process made = {.process = dl_recording_process(trace)};
    if (made.process == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "does not say of which process it is");
    }
    const char *text = dl_trace_meta(trace, DL_CAPTURE_COST_KEY);
    dl_capture_figures figures;
    dl_error why = {0};
    dl_status status = DL_OK;
    if (dl_capture_figures_parse(text != NULL ? text : DL_CAPTURE_COST_UNKNOWN, &figures, &why) !=
        DL_OK) {
        made.unknown = dl_strdup(why.text);
    } else {
        status = estimate(&made, &figures, trace, err);
    }
    if (status != DL_OK) {
        free(made.process);
        return status;
    }
    DL_APPEND(dataset->captures, dataset->capture_count, "recorded processes") = made;
    return DL_OK;
}

static const dl_captured_process *find_capture(const dl_dataset *dataset, const dl_step_run *run)
{
    for (size_t c = 0; c < dataset->capture_count && run->process != NULL; c++) {
        if (strcmp(dataset->captures[c].process, run->process) == 0) return &dataset->captures[c];
    }
    return NULL;
}

/* Subtracts the cost from the dispatch of each step. */
static void subtract_capture(const dl_dataset *dataset, dl_step_run *run,
                             const dl_captured_process *capture, dl_notes *notes)
{
    double taken_ns = 0, all_ns = 0;
    for (size_t s = 0; s < run->steps; s++) {
        double *dispatch_ns = &run->op_ns[(s + 1) * dataset->op_count - 1];
        const double off_ns = capture->step_ns < *dispatch_ns ? capture->step_ns : *dispatch_ns;
        all_ns += run->step_ns[s];
        taken_ns += off_ns;
        *dispatch_ns -= off_ns;
        run->step_ns[s] -= off_ns;
    }
    dl_notes_add(notes,
                 "%s: recorded by dlprof run (%s): %.0f ns per step (95 %% interval %.0f to %.0f) "
                 "for %.0f launches; taken off dispatch %.2f %% of the steps' time",
                 dl_base_name(run->path), run->captured, capture->step_ns, capture->low_ns,
                 capture->high_ns, capture->launches, all_ns > 0 ? 100 * taken_ns / all_ns : 0);
}

static void subtract_run(const dl_dataset *dataset, dl_step_run *run, dl_notes *notes)
{
    const dl_captured_process *capture = find_capture(dataset, run);
    const char *name = dl_base_name(run->path);
    if (capture == NULL) {
        dl_notes_add(notes,
                     "%s: was recorded by dlprof run (%s), which made its dispatch longer by an "
                     "unknown time: give the trace of dlprof run too",
                     name, run->captured);
    } else if (capture->unknown != NULL) {
        dl_notes_add(notes,
                     "%s: was recorded by dlprof run (%s), which made its dispatch longer by an "
                     "unknown time: %s",
                     name, run->captured, capture->unknown);
    } else if (capture->low_ns <= 0) {
        dl_notes_add(notes,
                     "%s: recorded by dlprof run (%s): %.0f ns per step (95 %% interval %.0f to "
                     "%.0f), not distinguishable from 0; not taken off",
                     name, run->captured, capture->step_ns, capture->low_ns, capture->high_ns);
    } else {
        subtract_capture(dataset, run, capture, notes);
    }
}

void dl_recording_cost_subtract(dl_dataset *dataset, dl_notes *notes)
{
    for (size_t r = 0; r < dataset->run_count; r++) {
        if (dataset->runs[r].captured != NULL) subtract_run(dataset, &dataset->runs[r], notes);
    }
    subtract_records(dataset, notes);
}
