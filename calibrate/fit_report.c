#include "calibrate/calibration.h"

#include <math.h>

#include "calibrate/notes.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/options.h"
#include "common/rows.h"
#include "common/units.h"

static void put_traces(dl_rows *to, const dl_dataset *dataset)
{
    dl_rows_begin(to, "traces", NULL);
    for (size_t r = 0; r < dataset->run_count; r++) {
        const dl_step_run *run = &dataset->runs[r];
        dl_rows_add(to, "file|trace=%-s kind=%-s batch=%lld steps=%zu |samples=%s",
                    dl_base_name(run->path), "train", (long long)run->batch, run->steps, "");
    }
    for (size_t b = 0; b < dataset->bench_count; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        dl_rows_add(to, "file|trace=%-s kind=%-s |batch=%s |steps=%s samples=%zu",
                    dl_base_name(bench->path), "bench", "", "", bench->count);
    }
    dl_rows_end(to, 0);
}

/* Largest residual over the batch sizes. */
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
    dl_rows to = {.out = out, .indent = 2};
    dl_rows_begin(&to, NULL,
                  "operations: time = fixed + per sample * batch; off: largest residual");
    for (size_t op = 0; op < operations->op_count; op++) {
        const dl_op_cost *cost = &all->costs.ops[op];
        dl_rows_add(&to,
                    "|operation=%-s |fixed=%gns |error=%gns |per sample=%gns |error=%gns |n=%lld "
                    "|off %%=%+.1f%%",
                    cost->name, cost->fixed_ns.value, cost->fixed_ns.error,
                    cost->per_sample_ns.value, cost->per_sample_ns.error,
                    (long long)cost->fixed_ns.count,
                    worst_residual_frac(operations->ops[op].points, operations->batch_count));
    }
    dl_rows_end(&to, 0);
}

static void put_steps(dl_rows *to, const dl_operations *fits)
{
    dl_rows_begin(to, "steps",
                  "step: sum of the operations against their lines, and the steps themselves\n"
                  "  (robust locations; the steps' excess over the sum is in the noise)");
    for (size_t b = 0; b < fits->batch_count; b++) {
        const dl_step_point *step = &fits->steps[b];
        dl_rows_add(to,
                    "batch=%lld operations_ns|sum=%gns fitted_ns|fitted=%gns "
                    "residual_frac|off %%=%+.2f%% step_ns|steps=%gns step_error_ns|error=%gns "
                    "|off %%=%+.2f%%",
                    (long long)step->sum.batch, step->sum.observed_ns, step->sum.fitted_ns,
                    dl_op_residual_frac(&step->sum), step->step_ns, step->step_error_ns,
                    step->step_ns / step->sum.fitted_ns - 1);
    }
    dl_rows_end(to, 0);
}

static void put_noise(dl_rows *to, const dl_step_noise *noise)
{
    dl_rows_begin(to, "noise", "noise: step time over expected step time, concurrent copies");
    for (size_t i = 0; i < noise->count; i++) {
        const dl_step_noise_set *set = &noise->sets[i];
        dl_rows_add(to,
                    "batch=%lld copies=%zu runs=%zu steps=%zu kept=%zu mean=%.4f sd=%.4f "
                    "p99=%.4f run_sd|run sd=%.4f lag1_autocorrelation|lag-1 r=%.3f",
                    (long long)set->batch, set->copies, set->runs, set->steps, set->kept,
                    set->shape.mean, set->shape.sd, set->shape.p99, set->run_sd, set->shape.lag1);
    }
    dl_rows_end(to, 0);
}

static void put_exchange_runs(dl_rows *to, const dl_costs *costs)
{
    dl_rows_begin(to, "exchange_runs",
                  "exchange, run by run: time at the model's size over that of all runs");
    for (size_t i = 0; i < costs->exchange_run_count; i++) {
        const dl_exchange_run *run = &costs->exchange_runs[i];
        dl_rows_add(to, "|run=%zu copy=%.3f average=%.3f update=%.3f shared=%.3f", i + 1,
                    (double)run->copy, (double)run->average, (double)run->update,
                    (double)run->shared);
    }
    dl_rows_end(to, 0);
}

static void add_value(dl_rows *to, const char *name, const dl_value *value, bool is_rate)
{
    static const char times[] = "|cost=%-s |value=%gns |error=%gns |n=%lld |origin=%-s";
    static const char rates[] = "|cost=%-s |value=%gB/s |error=%gB/s |n=%lld |origin=%-s";
    if (!value->known) return;
    dl_rows_add(to, is_rate ? rates : times, name, value->value, value->error,
                (long long)value->count, dl_origin_name(value->origin));
}

/* A count for display; NaN (not shown) for 0. */
static double some(unsigned count)
{
    return count > 0 ? (double)count : (double)NAN;
}

static const char *phase_text(dl_phase phase)
{
    return phase != DL_PHASE_NONE ? dl_phase_name(phase) : "";
}

static void put_points(dl_rows *to, const dl_comm_line *line)
{
    dl_rows_begin(to, "points", NULL);
    for (size_t i = 0; i < line->count; i++) {
        const dl_comm_point *point = &line->points[i];
        if (to->out != NULL && isnan(point->fitted_ns)) continue;
        dl_rows_add(to,
                    "bytes=%llu vectors|=%u |vectors=%.0f threads|=%u phase|=%s |=%-s "
                    "time_ns|time=%gns error=%gns n|=%lld fitted_ns|fitted=%gns |off %%=%+.1f%% "
                    "|n=%lld",
                    (unsigned long long)point->bytes, point->vectors, some(point->vectors),
                    point->threads, dl_phase_name(point->phase), phase_text(point->phase),
                    point->time_ns.value, point->time_ns.error, (long long)point->time_ns.count,
                    point->fitted_ns, point->time_ns.value / point->fitted_ns - 1,
                    (long long)point->time_ns.count);
    }
    dl_rows_end(to, 0);
}

static void print_line(const dl_comm_line *line, const char *formula, const dl_value *latency,
                       const dl_value *read, const dl_value *write, FILE *out)
{
    if (!latency->known) return;
    fprintf(out, "\n%s: %s\n", line->name, formula);
    dl_rows to = {.out = out, .indent = 2};
    dl_rows_begin(&to, NULL, NULL);
    add_value(&to, "latency", latency, false);
    add_value(&to, write != NULL ? "read" : "bandwidth", read, true);
    if (write != NULL) add_value(&to, "write", write, true);
    dl_rows_end(&to, 0);
    put_points(&(dl_rows){.out = out, .indent = 2}, line);
}

static void put_memory(dl_rows *to, const dl_memory_fit *memory)
{
    dl_rows_begin(to, "points",
                  "memory: traffic of k threads near the parameters' size; times: over one thread");
    for (size_t i = 0; i < memory->count; i++) {
        const dl_memory_point *point = &memory->points[i];
        dl_rows_add(to,
                    "name|memory=%-s phase|=%s |=%-s bytes|=%llu vectors|=%u |vectors=%.0f "
                    "threads=%u bytes_per_s|rate=%gB/s error=%gB/s n|=%lld speedup|times=%.2f",
                    point->name, dl_phase_name(point->phase), phase_text(point->phase),
                    (unsigned long long)point->bytes, point->vectors, some(point->vectors),
                    point->threads, point->bytes_per_s.value, point->bytes_per_s.error,
                    (long long)point->bytes_per_s.count, point->speedup);
    }
    dl_rows_end(to, 0);
}

static void print_sync(const dl_costs *costs, FILE *out)
{
    dl_rows to = {.out = out, .indent = 2};
    dl_rows_begin(&to, NULL, "sync: medians");
    add_value(&to, "barrier", &costs->barrier_ns, false);
    add_value(&to, "wakeup", &costs->wakeup_ns, false);
    add_value(&to, "lock", &costs->lock_ns, false);
    add_value(&to, "slice", &costs->slice_ns, false);
    dl_rows_end(&to, 0);
}

static void put_sharing(dl_rows *to, const dl_calibration *all)
{
    dl_rows_begin(to, "sharing", "sharing: time of k copies over that of one, per turn on a core");
    for (size_t i = 0; i < all->sharing.count; i++) {
        const dl_contention_point *point = &all->sharing.points[i];
        dl_rows_add(to, "copies=%d batch=%lld factor=%.4f error=%.4f n|rounds=%lld", point->copies,
                    (long long)point->batch, point->factor.value, point->factor.error,
                    (long long)point->factor.count);
    }
    for (int k = 2; k <= DL_SHARING_MAX && to->out != NULL && all->sharing.count > 0; k++) {
        const dl_value *value = &all->costs.sharing[k];
        if (!value->known) continue;
        dl_rows_add(to, "copies=%d |batch=%s factor=%.4f error=%.4f |rounds=%s", k, "all",
                    value->value, value->error, "");
    }
    dl_rows_end(to, 0);
}

/* Prints each rate as the time for the bytes of the model's parameters. */
static void print_shared(const dl_costs *costs, FILE *out)
{
    const dl_value *rates[] = {&costs->shared.push_bytes_per_s, &costs->shared.average_bytes_per_s,
                               &costs->shared.pull_bytes_per_s};
    static const char *const names[] = {"push", "average", "pull"};
    dl_rows to = {.out = out, .indent = 2};
    dl_rows_begin(&to, NULL, "shared: extra time if another core's cache has the model's vector");
    for (size_t i = 0; i < DL_LENGTH(rates) && rates[0]->known; i++) {
        dl_value time = *rates[i];
        time.value = dl_s_to_ns((double)costs->parameter_bytes) / rates[i]->value;
        time.error = time.value * rates[i]->error / rates[i]->value;
        add_value(&to, names[i], &time, false);
    }
    dl_rows_end(&to, 0);
}

static void print_messages(const dl_costs *costs, FILE *out)
{
    dl_rows to = {.out = out, .indent = 2};
    DL_AUTOFREE char *title =
        dl_format("messages: rates of the vector, to one and back; learned %.3f +- %.3f GB/s",
                  1e-9 * costs->learned_bytes_per_s.value, 1e-9 * costs->learned_bytes_per_s.error);
    dl_rows_begin(&to, NULL, title);
    for (int kind = DL_COMPRESS_FP16; kind < DL_COMPRESS_KINDS; kind++) {
        const dl_value *encode = &costs->quantise[kind].encode_bytes_per_s;
        const dl_value *decode = &costs->quantise[kind].decode_bytes_per_s;
        if (!encode->known || !decode->known) continue;
        dl_rows_add(&to, "|message=%-s |to=%gB/s |error=%gB/s |back=%gB/s |error=%gB/s |n=%lld",
                    dl_compress_names[kind], encode->value, encode->error, decode->value,
                    decode->error, (long long)encode->count);
    }
    dl_rows_end(&to, 0);
}

void dl_fit_report_print(const dl_calibration *calibration, FILE *out)
{
    const dl_costs *costs = &calibration->costs;
    const dl_dataset *dataset = &calibration->dataset;
    const dl_comm_line *lines = calibration->comm.lines;
    const char *server = "time = latency + bytes * (vectors / read + 1 / write)";
    dl_rows rows = {.out = out, .indent = 2};
    fprintf(out, "dlcal %s: %s on %.50s", dl_version(), dataset->workload, dataset->device);
    if (dataset->cores > 0) fprintf(out, ", %lld cores", (long long)dataset->cores);
    fprintf(out, "\n\ntraces\n");
    put_traces(&rows, dataset);
    print_operations(calibration, out);
    put_steps(&rows, &calibration->operations);
    put_noise(&rows, &calibration->noise);
    put_exchange_runs(&rows, costs);
    print_line(&lines[DL_COMM_COPY], "time = latency + bytes / bandwidth", &costs->copy.latency_ns,
               &costs->copy.bandwidth_bytes_per_s, NULL, out);
    print_line(&lines[DL_COMM_AVERAGE], server, &costs->average.latency_ns,
               &costs->average.read_bytes_per_s, &costs->average.write_bytes_per_s, out);
    print_line(&lines[DL_COMM_UPDATE], server, &costs->update.latency_ns,
               &costs->update.read_bytes_per_s, &costs->update.write_bytes_per_s, out);
    if (calibration->dataset.parameter_bytes > 0 && costs->copy.latency_ns.known) {
        fprintf(out,
                "\nweight of a point's distance from its line: 1 / distance^2, distance = (bytes\n"
                "  over the model's %lld, or the inverse)^2 *\n"
                "  (1 + |log2(vectors / %d; update: %d)|)\n",
                (long long)calibration->dataset.parameter_bytes, DL_COMM_VECTORS_AVERAGE,
                DL_COMM_VECTORS_UPDATE);
    }
    print_shared(costs, out);
    print_messages(costs, out);
    put_memory(&rows, &calibration->memory);
    dl_rows_begin(&rows, NULL, NULL);
    if (calibration->memory.count > 0)
        add_value(&rows, "total", &costs->memory_total_bytes_per_s, true);
    dl_rows_end(&rows, 0);
    print_sync(costs, out);
    put_sharing(&rows, calibration);
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
}

static void write_comm(dl_json *to, const dl_calibration *all)
{
    const dl_costs *costs = &all->costs;
    dl_rows rows = {.json = to};
    dl_json_begin(to, "copy", '{');
    value_item(to, "latency_ns", &costs->copy.latency_ns);
    value_item(to, "bandwidth_bytes_per_s", &costs->copy.bandwidth_bytes_per_s);
    put_points(&rows, &all->comm.lines[DL_COMM_COPY]);
    dl_json_end(to, '}');
    for (int which = DL_COMM_AVERAGE; which <= DL_COMM_UPDATE; which++) {
        const struct dl_average_cost *cost =
            which == DL_COMM_AVERAGE ? &costs->average : &costs->update;
        dl_json_begin(to, which == DL_COMM_AVERAGE ? "average" : "update", '{');
        value_item(to, "latency_ns", &cost->latency_ns);
        value_item(to, "read_bytes_per_s", &cost->read_bytes_per_s);
        value_item(to, "write_bytes_per_s", &cost->write_bytes_per_s);
        put_points(&rows, &all->comm.lines[which]);
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

static void write_members(dl_json *to, const void *report)
{
    const dl_calibration *all = report;
    dl_rows rows = {.json = to};
    dl_json_members(to, "workload=%s device=%s cores=%g parameter_bytes=%g", all->dataset.workload,
                    all->dataset.device, (double)all->dataset.cores,
                    (double)all->dataset.parameter_bytes);
    put_traces(&rows, &all->dataset);
    write_operations(to, all);
    put_steps(&rows, &all->operations);
    put_noise(&rows, &all->noise);
    write_comm(to, all);
    put_exchange_runs(&rows, &all->costs);
    dl_json_begin(to, "memory", '{');
    value_item(to, "total_bytes_per_s", &all->costs.memory_total_bytes_per_s);
    put_memory(&rows, &all->memory);
    dl_json_end(to, '}');
    put_sharing(&rows, all);
}

dl_status dl_fit_report_json_write(const dl_calibration *calibration, const char *path,
                                   dl_error *err)
{
    return dl_json_report_write(path, write_members, calibration, &calibration->notes, err);
}
