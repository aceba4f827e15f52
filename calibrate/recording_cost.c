#include "calibrate/recording_cost.h"

#include <string.h>

#include "common/units.h"

/* The figures are medians with a distribution-free interval of 95 %; as for a normal one, its half
 * is 1.96 standard errors. */
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
                               "is of '%s', the traces before of '%s'", device, dataset->device);
    }
    if (dataset->record_pairs > 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "a trace before it says already what recording costs");
    }
    dataset->record_error_ns = (high_ns - low_ns) / 2 / STANDARD_ERRORS_OF_INTERVAL;
    dataset->record_pairs = (int64_t)pairs;
    return DL_OK;
}

/* Off one step: op_ns[op_count], the last one dispatch. */
static void subtract(double *op_ns, size_t op_count, double *step_ns, double cost_ns)
{
    double *dispatch_ns = &op_ns[op_count - 1];
    const double operations_ns = *step_ns - *dispatch_ns;
    if (cost_ns >= *step_ns) return; /* no step takes less than nothing */
    *step_ns -= cost_ns;
    const double off_dispatch_ns = cost_ns < *dispatch_ns ? cost_ns : *dispatch_ns;
    *dispatch_ns -= off_dispatch_ns;
    const double left_ns = cost_ns - off_dispatch_ns;
    for (size_t op = 0; op + 1 < op_count && left_ns > 0; op++)
        op_ns[op] *= 1 - left_ns / operations_ns;
}

void dl_recording_cost_subtract(dl_dataset *dataset, dl_notes *notes)
{
    if (dataset->record_pairs == 0 || dataset->run_count == 0) return;
    const double error_ns = STANDARD_ERRORS_OF_INTERVAL * dataset->record_error_ns;
    if (dataset->record_ns - error_ns <= 0) {
        dl_notes_add(notes, "recording: %.0f +- %.0f ns a record, not told from 0; not taken off",
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
                 "recording: %.0f +- %.0f ns a record (%lld pairs of runs) taken off the steps, "
                 "%.2f %% of their time",
                 dataset->record_ns, error_ns, (long long)dataset->record_pairs,
                 100 * taken_ns / all_ns);
}
