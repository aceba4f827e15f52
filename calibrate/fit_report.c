#include "calibrate/fit_report.h"

#include <math.h>
#include <string.h>

#include "common/options.h"
#include "common/units.h"

#define COLUMNS 80

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
    fprintf(out, "\nstep: sum of the operations' centres against their lines, and the centre of the"
                 "\n  steps themselves (what it has more is in the noise) [us]\n");
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
    fprintf(out, "  %4s %9s %9s %9s\n", "run", "copy", "average", "update");
    for (size_t i = 0; i < costs->exchange_run_count; i++) {
        const dl_exchange_run *run = &costs->exchange_runs[i];
        fprintf(out, "  %4zu %9.3f %9.3f %9.3f\n", i + 1, (double)run->copy, (double)run->average,
                (double)run->update);
    }
}

static void print_value(FILE *out, const char *name, const dl_value *value, double scale,
                        const char *unit)
{
    if (!value->known) return;
    fprintf(out, "  %-12s %12.3f +- %9.3f %-5s n = %lld, %s\n", name, value->value * scale,
            value->error * scale, unit, (long long)value->count, dl_origin_name(value->origin));
}

static void print_points(const dl_charge_line *line, FILE *out)
{
    fprintf(out, "  %12s %7s %5s %11s    %8s %11s %7s %7s\n", "bytes", "vectors", "", "time [us]",
            "error", "fitted [us]", "off [%]", "n");
    for (size_t i = 0; i < line->count; i++) {
        const dl_charge_point *point = &line->points[i];
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

static void print_line(const dl_charge_line *line, const char *formula, const dl_value *latency,
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
        const dl_sharing_point *point = &all->sharing.points[i];
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

/* "- text", broken at blanks. */
static void print_wrapped(const char *text, FILE *out)
{
    const char *indent = "  - ";
    while (*text != '\0') {
        size_t length = strlen(text);
        if (length > COLUMNS - 4) {
            length = COLUMNS - 4;
            while (length > 0 && text[length] != ' ')
                length--;
            if (length == 0) length = COLUMNS - 4;
        }
        fprintf(out, "%s%.*s\n", indent, (int)length, text);
        text += length;
        while (*text == ' ')
            text++;
        indent = "    ";
    }
}

void dl_fit_report_print(const dl_calibration *calibration, FILE *out)
{
    const dl_costs *costs = &calibration->costs;
    const dl_charge_line *lines = calibration->charges.lines;
    const char *server = "time = latency + bytes * (vectors / read + 1 / write)";
    print_traces(&calibration->dataset, out);
    print_operations(calibration, out);
    print_noise(&calibration->noise, out);
    print_exchange_runs(&calibration->costs, out);
    print_line(&lines[DL_CHARGE_COPY], "time = latency + bytes / bandwidth",
               &costs->copy.latency_ns, &costs->copy.bandwidth_bytes_per_s, NULL, out);
    print_line(&lines[DL_CHARGE_AVERAGE], server, &costs->average.latency_ns,
               &costs->average.read_bytes_per_s, &costs->average.write_bytes_per_s, out);
    print_line(&lines[DL_CHARGE_UPDATE], server, &costs->update.latency_ns,
               &costs->update.read_bytes_per_s, &costs->update.write_bytes_per_s, out);
    if (calibration->dataset.parameter_bytes > 0 && costs->copy.latency_ns.known) {
        fprintf(out,
                "\nweight of what a point is off its line: 1 / distance^2, distance = (bytes over\n"
                "  the model's %lld, or the inverse)^2 * (1 + |log2(vectors / %d; update: %d)|)\n",
                (long long)calibration->dataset.parameter_bytes, DL_CHARGE_VECTORS_AVERAGE,
                DL_CHARGE_VECTORS_UPDATE);
    }
    print_memory(calibration, out);
    print_sync(costs, out);
    print_sharing(calibration, out);
    if (calibration->notes.count > 0) fprintf(out, "\nnotes\n");
    for (size_t i = 0; i < calibration->notes.count; i++) {
        print_wrapped(calibration->notes.lines[i], out);
    }
}
