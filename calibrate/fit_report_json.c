#include "calibrate/fit_report_json.h"

#include "calibrate/json_report.h"

static void value_item(dl_json *to, const char *name, const dl_value *value)
{
    if (!value->known) {
        dl_json_null_item(to, name);
        return;
    }
    dl_json_begin(to, name, '{');
    dl_json_number_item(to, "value", value->value);
    dl_json_number_item(to, "error", value->error);
    dl_json_number_item(to, "n", (double)value->count);
    dl_json_text_item(to, "origin", dl_origin_name(value->origin));
    dl_json_end(to, '}');
}

static void estimate_items(dl_json *to, const char *name, const dl_estimate *estimate)
{
    dl_json_number_item(to, name, estimate->value);
    dl_json_number_item(to, "error", estimate->error);
    dl_json_number_item(to, "n", (double)estimate->count);
}

static void op_points(dl_json *to, const dl_op_point *points, size_t count)
{
    dl_json_begin(to, "points", '[');
    for (size_t b = 0; b < count; b++) {
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "batch", (double)points[b].batch);
        dl_json_number_item(to, "observed_ns", points[b].observed_ns);
        dl_json_number_item(to, "error_ns", points[b].error_ns);
        dl_json_number_item(to, "fitted_ns", points[b].fitted_ns);
        dl_json_number_item(to, "residual_frac", dl_op_residual_frac(&points[b]));
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void operations(dl_json *to, const dl_calibration *all)
{
    const dl_operations *fits = &all->operations;
    dl_json_begin(to, "operations", '[');
    for (size_t op = 0; op < fits->op_count; op++) {
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "name", fits->ops[op].name);
        value_item(to, "fixed_ns", &all->costs.ops[op].fixed_ns);
        value_item(to, "per_sample_ns", &all->costs.ops[op].per_sample_ns);
        op_points(to, fits->ops[op].points, fits->batch_count);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
    dl_json_begin(to, "steps", '[');
    for (size_t b = 0; b < fits->batch_count; b++) {
        const dl_step_point *step = &fits->steps[b];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "batch", (double)step->sum.batch);
        dl_json_number_item(to, "operations_ns", step->sum.observed_ns);
        dl_json_number_item(to, "fitted_ns", step->sum.fitted_ns);
        dl_json_number_item(to, "residual_frac", dl_op_residual_frac(&step->sum));
        dl_json_number_item(to, "step_ns", step->step_ns);
        dl_json_number_item(to, "step_error_ns", step->step_error_ns);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void noise(dl_json *to, const dl_step_noise *fit)
{
    dl_json_begin(to, "noise", '[');
    for (size_t i = 0; i < fit->count; i++) {
        const dl_step_noise_set *set = &fit->sets[i];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "batch", (double)set->batch);
        dl_json_number_item(to, "copies", (double)set->copies);
        dl_json_number_item(to, "runs", (double)set->runs);
        dl_json_number_item(to, "steps", (double)set->steps);
        dl_json_number_item(to, "kept", (double)set->kept);
        dl_json_number_item(to, "mean", set->shape.mean);
        dl_json_number_item(to, "sd", set->shape.sd);
        dl_json_number_item(to, "p99", set->shape.p99);
        dl_json_number_item(to, "run_sd", set->run_sd);
        dl_json_number_item(to, "lag1_autocorrelation", set->shape.lag1);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void exchange_runs(dl_json *to, const dl_costs *costs)
{
    dl_json_begin(to, "exchange_runs", '[');
    for (size_t i = 0; i < costs->exchange_run_count; i++) {
        const dl_exchange_run *run = &costs->exchange_runs[i];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "copy", (double)run->copy);
        dl_json_number_item(to, "average", (double)run->average);
        dl_json_number_item(to, "update", (double)run->update);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void charge_points(dl_json *to, const dl_charge_line *line)
{
    dl_json_begin(to, "points", '[');
    for (size_t i = 0; i < line->count; i++) {
        const dl_charge_point *point = &line->points[i];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "bytes", (double)point->bytes);
        dl_json_number_item(to, "vectors", point->vectors);
        dl_json_number_item(to, "threads", point->threads);
        dl_json_text_item(to, "phase", dl_phase_name(point->phase));
        estimate_items(to, "time_ns", &point->time_ns);
        dl_json_number_item(to, "fitted_ns", point->fitted_ns);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void charges(dl_json *to, const dl_calibration *all)
{
    const dl_costs *costs = &all->costs;
    dl_json_begin(to, "copy", '{');
    value_item(to, "latency_ns", &costs->copy.latency_ns);
    value_item(to, "bandwidth_bytes_per_s", &costs->copy.bandwidth_bytes_per_s);
    charge_points(to, &all->charges.lines[DL_CHARGE_COPY]);
    dl_json_end(to, '}');
    dl_json_begin(to, "average", '{');
    value_item(to, "latency_ns", &costs->average.latency_ns);
    value_item(to, "read_bytes_per_s", &costs->average.read_bytes_per_s);
    value_item(to, "write_bytes_per_s", &costs->average.write_bytes_per_s);
    charge_points(to, &all->charges.lines[DL_CHARGE_AVERAGE]);
    dl_json_end(to, '}');
    dl_json_begin(to, "update", '{');
    value_item(to, "latency_ns", &costs->update.latency_ns);
    value_item(to, "read_bytes_per_s", &costs->update.read_bytes_per_s);
    value_item(to, "write_bytes_per_s", &costs->update.write_bytes_per_s);
    charge_points(to, &all->charges.lines[DL_CHARGE_UPDATE]);
    dl_json_end(to, '}');
    dl_json_begin(to, "sync", '{');
    value_item(to, "barrier_ns", &costs->barrier_ns);
    value_item(to, "wakeup_ns", &costs->wakeup_ns);
    value_item(to, "lock_ns", &costs->lock_ns);
    value_item(to, "slice_ns", &costs->slice_ns);
    dl_json_end(to, '}');
}

static void memory(dl_json *to, const dl_calibration *all)
{
    dl_json_begin(to, "memory", '{');
    value_item(to, "total_bytes_per_s", &all->costs.memory_total_bytes_per_s);
    dl_json_begin(to, "points", '[');
    for (size_t i = 0; i < all->memory.count; i++) {
        const dl_memory_point *point = &all->memory.points[i];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "name", point->name);
        dl_json_text_item(to, "phase", dl_phase_name(point->phase));
        dl_json_number_item(to, "bytes", (double)point->bytes);
        dl_json_number_item(to, "vectors", point->vectors);
        dl_json_number_item(to, "threads", point->threads);
        estimate_items(to, "bytes_per_s", &point->bytes_per_s);
        dl_json_number_item(to, "speedup", point->speedup);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
    dl_json_end(to, '}');
}

static void sharing(dl_json *to, const dl_sharing_fit *fit)
{
    dl_json_begin(to, "sharing", '[');
    for (size_t i = 0; i < fit->count; i++) {
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "copies", fit->points[i].copies);
        dl_json_number_item(to, "batch", (double)fit->points[i].batch);
        estimate_items(to, "factor", &fit->points[i].factor);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void traces(dl_json *to, const dl_dataset *dataset)
{
    dl_json_begin(to, "traces", '[');
    for (size_t r = 0; r < dataset->run_count; r++) {
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "file", dl_base_name(dataset->runs[r].path));
        dl_json_text_item(to, "kind", "train");
        dl_json_number_item(to, "batch", (double)dataset->runs[r].batch);
        dl_json_number_item(to, "steps", (double)dataset->runs[r].steps);
        dl_json_end(to, '}');
    }
    for (size_t b = 0; b < dataset->bench_count; b++) {
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "file", dl_base_name(dataset->benches[b].path));
        dl_json_text_item(to, "kind", "bench");
        dl_json_number_item(to, "samples", (double)dataset->benches[b].count);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_members(dl_json *to, const void *report)
{
    const dl_calibration *all = report;
    dl_json_text_item(to, "workload", all->dataset.workload);
    dl_json_text_item(to, "device", all->dataset.device);
    dl_json_number_item(to, "cores", (double)all->dataset.cores);
    dl_json_number_item(to, "parameter_bytes", (double)all->dataset.parameter_bytes);
    traces(to, &all->dataset);
    operations(to, all);
    noise(to, &all->noise);
    charges(to, all);
    exchange_runs(to, &all->costs);
    memory(to, all);
    sharing(to, &all->sharing);
}

dl_status dl_fit_report_json_write(const dl_calibration *calibration, const char *path,
                                   dl_error *err)
{
    return dl_json_report_write(path, write_members, calibration, &calibration->notes, err);
}
