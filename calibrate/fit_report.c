#include "calibrate/calibration.h"

#include <math.h>

#include "calibrate/notes.h"
#include "common/names.h"
#include "common/options.h"
#include "common/units.h"

static void print_traces(const dl_dataset *dataset, FILE *out)
{
    fprintf(out, "dlcal %s: %s on %.50s", dl_version(), dataset->workload, dataset->device);
    if (dataset->cores > 0) fprintf(out, ", %lld cores", (long long)dataset->cores);
    fprintf(out, "\n\ntraces\n");
    for (size_t r = 0; r < dataset->run_count; r++) {
        const dl_step_run *run = &dataset->runs[r];
        fprintf(out, "  %-40.40s train  batch %5lld  %8zu steps\n", dl_base_name(run->path),
                (long long)run->batch, run->steps);
    }
    for (size_t b = 0; b < dataset->bench_count; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        fprintf(out, "  %-40.40s bench               %8zu samples\n", dl_base_name(bench->path),
                bench->count);
    }
}

/* Residual of the batch size where it is largest. */
static double worst_residual_frac(const dl_op_point *points, size_t count)
{
    double worst = 0;
    for (size_t b = 0; b < count; b++) {
        const double residual = dl_op_residual_frac(&points[b]);
        if (fabs(residual) > fabs(worst)) worst = residual;
    }
    return worst;
}

static void print_operations(const dl_calibration *all, FILE *out)
{
    const dl_operations *operations = &all->operations;
    if (operations->op_count == 0) return;
    fprintf(out,
            "\noperations: time = fixed + per sample * batch [us]; off: largest residual [%%]\n");
    fprintf(out, "  %-19s %9s    %7s %10s    %8s %7s %5s\n", "", "fixed", "error", "per sample",
            "error", "n", "off");
    for (size_t op = 0; op < operations->op_count; op++) {
        const dl_op_cost *cost = &all->costs.ops[op];
        fprintf(out, "  %-19.19s %9.2f +- %7.2f %10.4f +- %8.4f %7lld %+5.1f\n", cost->name,
                dl_ns_to_us(cost->fixed_ns.value), dl_ns_to_us(cost->fixed_ns.error),
                dl_ns_to_us(cost->per_sample_ns.value), dl_ns_to_us(cost->per_sample_ns.error),
                (long long)cost->fixed_ns.count,
                100 * worst_residual_frac(operations->ops[op].points, operations->batch_count));
    }
    fprintf(out,
            "\nstep: sum of the operations against their lines, and the steps themselves [us]\n"
            "  (robust locations; what the steps have more is in the noise)\n");
    fprintf(out, "  %7s %12s %12s %7s %14s    %9s %7s\n", "batch", "sum", "fitted", "off [%]",
            "steps", "error", "off [%]");
    for (size_t b = 0; b < operations->batch_count; b++) {
        const dl_step_point *step = &operations->steps[b];
        fprintf(out, "  %7lld %12.2f %12.2f %+7.2f %14.2f +- %9.2f %+7.2f\n",
                (long long)step->sum.batch, dl_ns_to_us(step->sum.observed_ns),
                dl_ns_to_us(step->sum.fitted_ns), 100 * dl_op_residual_frac(&step->sum),
                dl_ns_to_us(step->step_ns), dl_ns_to_us(step->step_error_ns),
                100 * (step->step_ns / step->sum.fitted_ns - 1));
    }
}

static void print_noise(const dl_step_noise *noise, FILE *out)
{
    if (noise->count == 0) return;
    fprintf(out, "\nnoise: step time over expected step time, copies at once\n");
    fprintf(out, "  %6s %6s %5s %7s %7s %7s %7s %7s %7s %7s\n", "copies", "batch", "runs", "steps",
            "kept", "mean", "sd", "p99", "run sd", "lag-1 r");
    for (size_t i = 0; i < noise->count; i++) {
        const dl_step_noise_set *set = &noise->sets[i];
        fprintf(out, "  %6zu %6lld %5zu %7zu %7zu %7.4f %7.4f %7.4f %7.4f %7.3f\n", set->copies,
                (long long)set->batch, set->runs, set->steps, set->kept, set->shape.mean,
                set->shape.sd, set->shape.p99, set->run_sd, set->shape.lag1);
    }
}

static void print_exchange_runs(const dl_costs *costs, FILE *out)
{
    if (costs->exchange_run_count == 0) return;
    fprintf(out, "\nexchange, run by run: time at the model's size over that of all runs\n");
    fprintf(out, "  %4s %9s %9s %9s %9s\n", "run", "copy", "average", "update", "shared");
    for (size_t i = 0; i < costs->exchange_run_count; i++) {
        const dl_exchange_run *run = &costs->exchange_runs[i];
        fprintf(out, "  %4zu %9.3f %9.3f %9.3f %9.3f\n", i + 1, (double)run->copy,
                (double)run->average, (double)run->update, (double)run->shared);
    }
}

static void print_value(FILE *out, const char *name, const dl_value *value, double scale,
                        const char *unit)
{
    if (!value->known) return;
    fprintf(out, "  %-12s %12.3f +- %9.3f %-5s n = %lld, %s\n", name, value->value * scale,
            value->error * scale, unit, (long long)value->count, dl_origin_name(value->origin));
}

static void print_points(const dl_comm_line *line, FILE *out)
{
    fprintf(out, "  %12s %7s %5s %11s    %8s %11s %7s %7s\n", "bytes", "vectors", "", "time [us]",
            "error", "fitted [us]", "off [%]", "n");
    for (size_t i = 0; i < line->count; i++) {
        const dl_comm_point *point = &line->points[i];
        if (isnan(point->fitted_ns)) continue;
        char vectors[16] = "";
        if (point->vectors > 0) snprintf(vectors, sizeof vectors, "%u", point->vectors);
        fprintf(out, "  %12llu %7s %5s %11.2f +- %8.2f %11.2f %+7.1f %7lld\n",
                (unsigned long long)point->bytes, vectors,
                point->phase != DL_PHASE_NONE ? dl_phase_name(point->phase) : "",
                dl_ns_to_us(point->time_ns.value), dl_ns_to_us(point->time_ns.error),
                dl_ns_to_us(point->fitted_ns), 100 * (point->time_ns.value / point->fitted_ns - 1),
                (long long)point->time_ns.count);
    }
}

static void print_line(const dl_comm_line *line, const char *formula, const dl_value *latency,
                       const dl_value *read, const dl_value *write, FILE *out)
{
    if (!latency->known) return;
    fprintf(out, "\n%s: %s\n", line->name, formula);
    print_value(out, "latency", latency, 1e-3, "us");
    print_value(out, write != NULL ? "read" : "bandwidth", read, 1e-9, "GB/s");
    if (write != NULL) print_value(out, "write", write, 1e-9, "GB/s");
    print_points(line, out);
}

static void print_memory(const dl_calibration *all, FILE *out)
{
    if (all->memory.count == 0) return;
    fprintf(out, "\nmemory: traffic of k threads together at the size nearest to the parameters\n");
    for (size_t i = 0; i < all->memory.count; i++) {
        const dl_memory_point *point = &all->memory.points[i];
        fprintf(out, "  %-8s %-5s %u threads", point->name,
                point->phase != DL_PHASE_NONE ? dl_phase_name(point->phase) : "", point->threads);
        if (point->vectors > 0) fprintf(out, ", %2u vectors", point->vectors);
        fprintf(out, "  %8.2f +- %6.2f GB/s", point->bytes_per_s.value * 1e-9,
                point->bytes_per_s.error * 1e-9);
        if (!isnan(point->speedup)) fprintf(out, ", %.2f times one", point->speedup);
        fputc('\n', out);
    }
    print_value(out, "total", &all->costs.memory_total_bytes_per_s, 1e-9, "GB/s");
}

static void print_sync(const dl_costs *costs, FILE *out)
{
    if (!costs->barrier_ns.known && !costs->wakeup_ns.known && !costs->lock_ns.known &&
        !costs->slice_ns.known) {
        return;
    }
    fprintf(out, "\nsync: medians\n");
    print_value(out, "barrier", &costs->barrier_ns, 1e-3, "us");
    print_value(out, "wakeup", &costs->wakeup_ns, 1e-3, "us");
    print_value(out, "lock", &costs->lock_ns, 1e-3, "us");
    print_value(out, "slice", &costs->slice_ns, 1e-3, "us");
}

static void print_sharing(const dl_calibration *all, FILE *out)
{
    if (all->sharing.count == 0) return;
    fprintf(out, "\nsharing: time of k copies over that of one, per turn on a core\n");
    for (size_t i = 0; i < all->sharing.count; i++) {
        const dl_contention_point *point = &all->sharing.points[i];
        fprintf(out, "  %2d copies  batch %5lld  %8.4f +- %7.4f  %4lld rounds\n", point->copies,
                (long long)point->batch, point->factor.value, point->factor.error,
                (long long)point->factor.count);
    }
    for (int k = 2; k <= DL_SHARING_MAX; k++) {
        const dl_value *value = &all->costs.sharing[k];
        if (!value->known) continue;
        fprintf(out, "  %2d copies  together     %8.4f +- %7.4f\n", k, value->value, value->error);
    }
}

static void print_shared(const dl_costs *costs, FILE *out)
{
    if (!costs->shared.push_bytes_per_s.known) return;
    fprintf(out, "\nshared: us longer where another core's cache has the model's vector\n");
    const struct {
        const char *name;
        const dl_value *rate;
    } parts[] = {{"push", &costs->shared.push_bytes_per_s},
                 {"average", &costs->shared.average_bytes_per_s},
                 {"pull", &costs->shared.pull_bytes_per_s}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const double rate = parts[i].rate->value;
        const double us = 1e6 * (double)costs->parameter_bytes / rate;
        fprintf(out, "  %-12s %12.3f +- %9.3f us    n = %lld\n", parts[i].name, us,
                us * parts[i].rate->error / rate, (long long)parts[i].rate->count);
    }
}

static void print_messages(const dl_costs *costs, FILE *out)
{
    bool head = false;
    for (int kind = DL_COMPRESS_FP16; kind < DL_COMPRESS_KINDS; kind++) {
        const dl_value *encode = &costs->quantise[kind].encode_bytes_per_s;
        const dl_value *decode = &costs->quantise[kind].decode_bytes_per_s;
        if (!encode->known || !decode->known) continue;
        if (!head) {
            fprintf(out,
                    "\nmessages: GB/s of the vector, to a message and back; learned %.3f +- %.3f\n",
                    1e-9 * costs->learned_bytes_per_s.value,
                    1e-9 * costs->learned_bytes_per_s.error);
        }
        head = true;
        fprintf(out, "  %-5s %8.3f +- %7.3f  %8.3f +- %7.3f  (%lld)\n", dl_compress_names[kind],
                1e-9 * encode->value, 1e-9 * encode->error, 1e-9 * decode->value,
                1e-9 * decode->error, (long long)encode->count);
    }
}

void dl_fit_report_print(const dl_calibration *calibration, FILE *out)
{
    const dl_costs *costs = &calibration->costs;
    const dl_comm_line *lines = calibration->comm.lines;
    const char *server = "time = latency + bytes * (vectors / read + 1 / write)";
    print_traces(&calibration->dataset, out);
    print_operations(calibration, out);
    print_noise(&calibration->noise, out);
    print_exchange_runs(&calibration->costs, out);
    print_line(&lines[DL_COMM_COPY], "time = latency + bytes / bandwidth", &costs->copy.latency_ns,
               &costs->copy.bandwidth_bytes_per_s, NULL, out);
    print_line(&lines[DL_COMM_AVERAGE], server, &costs->average.latency_ns,
               &costs->average.read_bytes_per_s, &costs->average.write_bytes_per_s, out);
    print_line(&lines[DL_COMM_UPDATE], server, &costs->update.latency_ns,
               &costs->update.read_bytes_per_s, &costs->update.write_bytes_per_s, out);
    if (calibration->dataset.parameter_bytes > 0 && costs->copy.latency_ns.known) {
        fprintf(out,
                "\nweight of what a point is off its line: 1 / distance^2, distance = (bytes over\n"
                "  the model's %lld, or the inverse)^2 * (1 + |log2(vectors / %d; update: %d)|)\n",
                (long long)calibration->dataset.parameter_bytes, DL_COMM_VECTORS_AVERAGE,
                DL_COMM_VECTORS_UPDATE);
    }
    print_shared(costs, out);
    print_messages(costs, out);
    print_memory(calibration, out);
    print_sync(costs, out);
    print_sharing(calibration, out);
    dl_notes_print(&calibration->notes, "\nnotes\n", "  - ", out);
}

static void value_item(dl_json *to, const char *name, const dl_value *value)
{
    if (!value->known) {
        dl_json_null_item(to, name);
        return;
    }
    dl_json_object(to, name, "value=%g error=%g n=%g origin=%s", value->value, value->error,
                   (double)value->count, dl_origin_name(value->origin));
}

static void estimate_items(dl_json *to, const char *name, const dl_estimate *estimate)
{
    dl_json_number_item(to, name, estimate->value);
    dl_json_members(to, "error=%g n=%g", estimate->error, (double)estimate->count);
}

static void write_op_points(dl_json *to, const dl_op_point *points, size_t count)
{
    DL_JSON_LIST (to, "points", b, count) {
        dl_json_object(to, NULL,
                       "batch=%g observed_ns=%g error_ns=%g fitted_ns=%g residual_frac=%g",
                       (double)points[b].batch, points[b].observed_ns, points[b].error_ns,
                       points[b].fitted_ns, dl_op_residual_frac(&points[b]));
    }
}

static void write_operations(dl_json *to, const dl_calibration *all)
{
    const dl_operations *fits = &all->operations;
    DL_JSON_LIST (to, "operations", op, fits->op_count) {
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "name", fits->ops[op].name);
        value_item(to, "fixed_ns", &all->costs.ops[op].fixed_ns);
        value_item(to, "per_sample_ns", &all->costs.ops[op].per_sample_ns);
        write_op_points(to, fits->ops[op].points, fits->batch_count);
        dl_json_end(to, '}');
    }
    DL_JSON_LIST (to, "steps", b, fits->batch_count) {
        const dl_step_point *step = &fits->steps[b];
        dl_json_object(
            to, NULL,
            "batch=%g operations_ns=%g fitted_ns=%g residual_frac=%g step_ns=%g step_error_ns=%g",
            (double)step->sum.batch, step->sum.observed_ns, step->sum.fitted_ns,
            dl_op_residual_frac(&step->sum), step->step_ns, step->step_error_ns);
    }
}

static void write_noise(dl_json *to, const dl_step_noise *fit)
{
    DL_JSON_LIST (to, "noise", i, fit->count) {
        const dl_step_noise_set *set = &fit->sets[i];
        dl_json_object(to, NULL,
                       "batch=%g copies=%g runs=%g steps=%g kept=%g mean=%g sd=%g p99=%g run_sd=%g "
                       "lag1_autocorrelation=%g",
                       (double)set->batch, (double)set->copies, (double)set->runs,
                       (double)set->steps, (double)set->kept, set->shape.mean, set->shape.sd,
                       set->shape.p99, set->run_sd, set->shape.lag1);
    }
}

static void write_exchange_runs(dl_json *to, const dl_costs *costs)
{
    DL_JSON_LIST (to, "exchange_runs", i, costs->exchange_run_count) {
        const dl_exchange_run *run = &costs->exchange_runs[i];
        dl_json_object(to, NULL, "copy=%g average=%g update=%g shared=%g", (double)run->copy,
                       (double)run->average, (double)run->update, (double)run->shared);
    }
}

static void write_comm_points(dl_json *to, const dl_comm_line *line)
{
    DL_JSON_LIST (to, "points", i, line->count) {
        const dl_comm_point *point = &line->points[i];
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "bytes=%g vectors=%u threads=%u phase=%s", (double)point->bytes,
                        point->vectors, point->threads, dl_phase_name(point->phase));
        estimate_items(to, "time_ns", &point->time_ns);
        dl_json_number_item(to, "fitted_ns", point->fitted_ns);
        dl_json_end(to, '}');
    }
}

static void write_comm(dl_json *to, const dl_calibration *all)
{
    const dl_costs *costs = &all->costs;
    dl_json_begin(to, "copy", '{');
    value_item(to, "latency_ns", &costs->copy.latency_ns);
    value_item(to, "bandwidth_bytes_per_s", &costs->copy.bandwidth_bytes_per_s);
    write_comm_points(to, &all->comm.lines[DL_COMM_COPY]);
    dl_json_end(to, '}');
    for (int which = DL_COMM_AVERAGE; which <= DL_COMM_UPDATE; which++) {
        const struct dl_average_cost *cost =
            which == DL_COMM_AVERAGE ? &costs->average : &costs->update;
        dl_json_begin(to, which == DL_COMM_AVERAGE ? "average" : "update", '{');
        value_item(to, "latency_ns", &cost->latency_ns);
        value_item(to, "read_bytes_per_s", &cost->read_bytes_per_s);
        value_item(to, "write_bytes_per_s", &cost->write_bytes_per_s);
        write_comm_points(to, &all->comm.lines[which]);
        dl_json_end(to, '}');
    }
    if (costs->shared.push_bytes_per_s.known) {
        dl_json_begin(to, "shared", '{');
        value_item(to, "push_bytes_per_s", &costs->shared.push_bytes_per_s);
        value_item(to, "average_bytes_per_s", &costs->shared.average_bytes_per_s);
        value_item(to, "pull_bytes_per_s", &costs->shared.pull_bytes_per_s);
        dl_json_end(to, '}');
    }
    dl_json_begin(to, "quantise", '{');
    value_item(to, "learned_bytes_per_s", &costs->learned_bytes_per_s);
    for (int kind = DL_COMPRESS_FP16; kind < DL_COMPRESS_KINDS; kind++) {
        if (!costs->quantise[kind].encode_bytes_per_s.known) continue;
        dl_json_begin(to, dl_compress_names[kind], '{');
        value_item(to, "encode_bytes_per_s", &costs->quantise[kind].encode_bytes_per_s);
        value_item(to, "decode_bytes_per_s", &costs->quantise[kind].decode_bytes_per_s);
        dl_json_end(to, '}');
    }
    dl_json_end(to, '}');
    dl_json_begin(to, "sync", '{');
    value_item(to, "barrier_ns", &costs->barrier_ns);
    value_item(to, "wakeup_ns", &costs->wakeup_ns);
    value_item(to, "lock_ns", &costs->lock_ns);
    value_item(to, "slice_ns", &costs->slice_ns);
    dl_json_end(to, '}');
}

static void write_memory(dl_json *to, const dl_calibration *all)
{
    dl_json_begin(to, "memory", '{');
    value_item(to, "total_bytes_per_s", &all->costs.memory_total_bytes_per_s);
    DL_JSON_LIST (to, "points", i, all->memory.count) {
        const dl_memory_point *point = &all->memory.points[i];
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "name=%s phase=%s bytes=%g vectors=%u threads=%u", point->name,
                        dl_phase_name(point->phase), (double)point->bytes, point->vectors,
                        point->threads);
        estimate_items(to, "bytes_per_s", &point->bytes_per_s);
        dl_json_number_item(to, "speedup", point->speedup);
        dl_json_end(to, '}');
    }
    dl_json_end(to, '}');
}

static void write_sharing(dl_json *to, const dl_contention_fit *fit)
{
    DL_JSON_LIST (to, "sharing", i, fit->count) {
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "copies=%d batch=%g", fit->points[i].copies,
                        (double)fit->points[i].batch);
        estimate_items(to, "factor", &fit->points[i].factor);
        dl_json_end(to, '}');
    }
}

static void write_traces(dl_json *to, const dl_dataset *dataset)
{
    dl_json_begin(to, "traces", '[');
    for (size_t r = 0; r < dataset->run_count; r++) {
        dl_json_object(to, NULL, "file=%s kind=%s batch=%g steps=%g",
                       dl_base_name(dataset->runs[r].path), "train", (double)dataset->runs[r].batch,
                       (double)dataset->runs[r].steps);
    }
    for (size_t b = 0; b < dataset->bench_count; b++) {
        dl_json_object(to, NULL, "file=%s kind=%s samples=%g",
                       dl_base_name(dataset->benches[b].path), "bench",
                       (double)dataset->benches[b].count);
    }
    dl_json_end(to, ']');
}

static void write_members(dl_json *to, const void *report)
{
    const dl_calibration *all = report;
    dl_json_members(to, "workload=%s device=%s cores=%g parameter_bytes=%g", all->dataset.workload,
                    all->dataset.device, (double)all->dataset.cores,
                    (double)all->dataset.parameter_bytes);
    write_traces(to, &all->dataset);
    write_operations(to, all);
    write_noise(to, &all->noise);
    write_comm(to, all);
    write_exchange_runs(to, &all->costs);
    write_memory(to, all);
    write_sharing(to, &all->sharing);
}

dl_status dl_fit_report_json_write(const dl_calibration *calibration, const char *path,
                                   dl_error *err)
{
    return dl_json_report_write(path, write_members, calibration, &calibration->notes, err);
}
