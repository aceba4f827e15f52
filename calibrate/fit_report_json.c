#include "calibrate/fit_report_json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/options.h"

/* Where in the file we are: a comma goes before every item but the first of its list. */
typedef struct json {
    FILE *out;
    bool first;
} json;

/* `name`: NULL inside a list. */
static void item(json *to, const char *name)
{
    if (!to->first) fputs(",\n", to->out);
    to->first = false;
    if (name == NULL) return;
    dl_json_string(to->out, name);
    fputs(": ", to->out);
}

static void begin(json *to, const char *name, char bracket)
{
    item(to, name);
    fprintf(to->out, "%c\n", bracket);
    to->first = true;
}

static void end(json *to, char bracket)
{
    fprintf(to->out, "%c", bracket);
    to->first = false;
}

static void text_item(json *to, const char *name, const char *text)
{
    item(to, name);
    dl_json_string(to->out, text);
}

static void number_item(json *to, const char *name, double number)
{
    item(to, name);
    dl_json_number(to->out, number);
}

static void value_item(json *to, const char *name, const dl_value *value)
{
    item(to, name);
    if (!value->known) {
        fputs("null", to->out);
        return;
    }
    fputs("{\"value\": ", to->out);
    dl_json_number(to->out, value->value);
    fputs(", \"error\": ", to->out);
    dl_json_number(to->out, value->error);
    fprintf(to->out, ", \"n\": %lld, \"origin\": \"%s\"}", (long long)value->count,
            dl_origin_name(value->origin));
}

static void estimate_items(json *to, const char *name, const dl_estimate *estimate)
{
    number_item(to, name, estimate->value);
    number_item(to, "error", estimate->error);
    number_item(to, "n", (double)estimate->count);
}

static void op_points(json *to, const dl_op_point *points, size_t count)
{
    begin(to, "points", '[');
    for (size_t b = 0; b < count; b++) {
        begin(to, NULL, '{');
        number_item(to, "batch", (double)points[b].batch);
        number_item(to, "observed_ns", points[b].observed_ns);
        number_item(to, "error_ns", points[b].error_ns);
        number_item(to, "fitted_ns", points[b].fitted_ns);
        number_item(to, "residual_frac", dl_op_residual_frac(&points[b]));
        end(to, '}');
    }
    end(to, ']');
}

static void operations(json *to, const dl_calibration *all)
{
    const dl_operations *fits = &all->operations;
    begin(to, "operations", '[');
    for (size_t op = 0; op < fits->op_count; op++) {
        begin(to, NULL, '{');
        text_item(to, "name", fits->ops[op].name);
        value_item(to, "fixed_ns", &all->costs.ops[op].fixed_ns);
        value_item(to, "per_sample_ns", &all->costs.ops[op].per_sample_ns);
        op_points(to, fits->ops[op].points, fits->batch_count);
        end(to, '}');
    }
    end(to, ']');
    begin(to, "steps", '[');
    for (size_t b = 0; b < fits->batch_count; b++) {
        const dl_step_point *step = &fits->steps[b];
        begin(to, NULL, '{');
        number_item(to, "batch", (double)step->sum.batch);
        number_item(to, "operations_ns", step->sum.observed_ns);
        number_item(to, "fitted_ns", step->sum.fitted_ns);
        number_item(to, "residual_frac", dl_op_residual_frac(&step->sum));
        number_item(to, "step_ns", step->step_ns);
        number_item(to, "step_error_ns", step->step_error_ns);
        end(to, '}');
    }
    end(to, ']');
}

static void noise(json *to, const dl_step_noise *fit)
{
    begin(to, "noise", '[');
    for (size_t i = 0; i < fit->count; i++) {
        const dl_step_noise_set *set = &fit->sets[i];
        begin(to, NULL, '{');
        number_item(to, "batch", (double)set->batch);
        number_item(to, "copies", (double)set->copies);
        number_item(to, "runs", (double)set->runs);
        number_item(to, "steps", (double)set->steps);
        number_item(to, "kept", (double)set->kept);
        number_item(to, "mean", set->shape.mean);
        number_item(to, "sd", set->shape.sd);
        number_item(to, "p99", set->shape.p99);
        number_item(to, "run_sd", set->run_sd);
        number_item(to, "lag1_autocorrelation", set->shape.lag1);
        end(to, '}');
    }
    end(to, ']');
}

static void charge_points(json *to, const dl_charge_line *line)
{
    begin(to, "points", '[');
    for (size_t i = 0; i < line->count; i++) {
        const dl_charge_point *point = &line->points[i];
        begin(to, NULL, '{');
        number_item(to, "bytes", (double)point->bytes);
        number_item(to, "vectors", point->vectors);
        number_item(to, "threads", point->threads);
        text_item(to, "phase", dl_phase_name(point->phase));
        estimate_items(to, "time_ns", &point->time_ns);
        number_item(to, "fitted_ns", point->fitted_ns);
        end(to, '}');
    }
    end(to, ']');
}

static void charges(json *to, const dl_calibration *all)
{
    const dl_costs *costs = &all->costs;
    begin(to, "copy", '{');
    value_item(to, "latency_ns", &costs->copy.latency_ns);
    value_item(to, "bandwidth_bytes_per_s", &costs->copy.bandwidth_bytes_per_s);
    charge_points(to, &all->charges.lines[DL_CHARGE_COPY]);
    end(to, '}');
    begin(to, "average", '{');
    value_item(to, "latency_ns", &costs->average.latency_ns);
    value_item(to, "read_bytes_per_s", &costs->average.read_bytes_per_s);
    value_item(to, "write_bytes_per_s", &costs->average.write_bytes_per_s);
    charge_points(to, &all->charges.lines[DL_CHARGE_AVERAGE]);
    end(to, '}');
    begin(to, "update", '{');
    value_item(to, "latency_ns", &costs->update.latency_ns);
    value_item(to, "read_bytes_per_s", &costs->update.read_bytes_per_s);
    value_item(to, "write_bytes_per_s", &costs->update.write_bytes_per_s);
    charge_points(to, &all->charges.lines[DL_CHARGE_UPDATE]);
    end(to, '}');
    begin(to, "sync", '{');
    value_item(to, "barrier_ns", &costs->barrier_ns);
    value_item(to, "wakeup_ns", &costs->wakeup_ns);
    value_item(to, "lock_ns", &costs->lock_ns);
    value_item(to, "slice_ns", &costs->slice_ns);
    end(to, '}');
}

static void memory(json *to, const dl_calibration *all)
{
    begin(to, "memory", '{');
    value_item(to, "total_bytes_per_s", &all->costs.memory_total_bytes_per_s);
    begin(to, "points", '[');
    for (size_t i = 0; i < all->memory.count; i++) {
        const dl_memory_point *point = &all->memory.points[i];
        begin(to, NULL, '{');
        text_item(to, "name", point->name);
        text_item(to, "phase", dl_phase_name(point->phase));
        number_item(to, "bytes", (double)point->bytes);
        number_item(to, "vectors", point->vectors);
        number_item(to, "threads", point->threads);
        estimate_items(to, "bytes_per_s", &point->bytes_per_s);
        number_item(to, "speedup", point->speedup);
        end(to, '}');
    }
    end(to, ']');
    end(to, '}');
}

static void sharing(json *to, const dl_sharing_fit *fit)
{
    begin(to, "sharing", '[');
    for (size_t i = 0; i < fit->count; i++) {
        begin(to, NULL, '{');
        number_item(to, "copies", fit->points[i].copies);
        number_item(to, "batch", (double)fit->points[i].batch);
        estimate_items(to, "factor", &fit->points[i].factor);
        end(to, '}');
    }
    end(to, ']');
}

static void traces(json *to, const dl_dataset *dataset)
{
    begin(to, "traces", '[');
    for (size_t r = 0; r < dataset->run_count; r++) {
        begin(to, NULL, '{');
        text_item(to, "file", dl_base_name(dataset->runs[r].path));
        text_item(to, "kind", "train");
        number_item(to, "batch", (double)dataset->runs[r].batch);
        number_item(to, "steps", (double)dataset->runs[r].steps);
        end(to, '}');
    }
    for (size_t b = 0; b < dataset->bench_count; b++) {
        begin(to, NULL, '{');
        text_item(to, "file", dl_base_name(dataset->benches[b].path));
        text_item(to, "kind", "bench");
        number_item(to, "samples", (double)dataset->benches[b].count);
        end(to, '}');
    }
    end(to, ']');
}

static void write_all(FILE *out, const dl_calibration *all)
{
    json to = {out, true};
    begin(&to, NULL, '{');
    number_item(&to, "schema", 1);
    text_item(&to, "program", "dlcal");
    text_item(&to, "version", dl_version());
    text_item(&to, "workload", all->dataset.workload);
    text_item(&to, "device", all->dataset.device);
    number_item(&to, "cores", (double)all->dataset.cores);
    number_item(&to, "parameter_bytes", (double)all->dataset.parameter_bytes);
    traces(&to, &all->dataset);
    operations(&to, all);
    noise(&to, &all->noise);
    charges(&to, all);
    memory(&to, all);
    sharing(&to, &all->sharing);
    begin(&to, "notes", '[');
    for (size_t i = 0; i < all->notes.count; i++)
        text_item(&to, NULL, all->notes.lines[i]);
    end(&to, ']');
    end(&to, '}');
    fputc('\n', out);
}

dl_status dl_fit_report_json_write(const dl_calibration *calibration, const char *path,
                                   dl_error *err)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot create: %s", strerror(errno));
    }
    write_all(out, calibration);
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        return dl_error_set_at(err, DL_ERR_IO, path, 0, "cannot write: %s", strerror(errno));
    }
    return DL_OK;
}
