#include "calibrate/calibration.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/units.h"

/* Minimum speed-up over one thread, as a fraction of k, at which no limit is visible. */
#define DL_MEMORY_FREE_FRAC 0.9

#define TRIM_FRAC 0.1 /* fraction of a case's samples to drop at each end */

/* Maximum rate of a cost file, used if vectors in other cores' caches cost nothing. */
#define SHARED_RATE_MAX 1e15
#define SHARED_FACTOR_MIN 1e-3 /* minimum factor of a run, which must be positive */

static const struct {
    const char *name;
    dl_sample_kind kind;
} line_kinds[DL_COMM_LINES] = {
    [DL_COMM_COPY] = {"copy", DL_SAMPLE_COPY},
    [DL_COMM_AVERAGE] = {"average", DL_SAMPLE_AVERAGE},
    [DL_COMM_UPDATE] = {"update", DL_SAMPLE_UPDATE},
};

/* A sample with its case. */
typedef struct case_sample {
    uint64_t bytes;
    uint32_t vectors, threads;
    dl_phase phase;
    size_t bench; /* index of its trace in the dataset */
    size_t order; /* order of measurement, required by the location estimate */
    double duration_ns;
} case_sample;

DL_ORDER(by_case, case_sample, DL_BY(threads), DL_BY(bytes), DL_BY(vectors), DL_BY(phase));

DL_ORDER(by_case_and_order, case_sample, by_case(a, b), DL_BY(order));

/* Samples of one kind from all bench traces, sorted by case. */
static case_sample *list_samples(const dl_dataset *dataset, dl_sample_kind kind, size_t *count)
{
    case_sample *samples = NULL;
    *count = 0;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        for (size_t i = 0; i < bench->count; i++) {
            const dl_record *record = &bench->samples[i];
            if (record->name != (uint32_t)kind) continue;
            const size_t order = *count;
            DL_APPEND(samples, *count, "bench samples") =
                (case_sample){.bytes = record->bytes,
                              .vectors = record->vectors,
                              .threads = record->threads > 0 ? record->threads : 1,
                              .phase = record->phase,
                              .bench = b,
                              .order = order,
                              .duration_ns = (double)record->duration_ns};
        }
    }
    dl_sort(samples, *count, sizeof *samples, by_case_and_order);
    return samples;
}

static dl_status add_point(dl_comm_line *line, const case_sample *samples, size_t n, dl_error *err)
{
    DL_AUTOFREE double *values = dl_calloc(n, sizeof *values, "bench samples");
    for (size_t i = 0; i < n; i++)
        values[i] = samples[i].duration_ns;
    dl_estimate time;
    const dl_status status = dl_fit_location(values, n, &time, err);
    if (status != DL_OK) return status;
    DL_APPEND(line->points, line->count, "bench points") =
        (dl_comm_point){.bytes = samples->bytes,
                        .vectors = samples->vectors,
                        .threads = samples->threads,
                        .phase = samples->phase,
                        .time_ns = time,
                        .fitted_ns = NAN};
    return DL_OK;
}

/* Extra time in ns of one trace's pushes, averages and pulls of the model's size if the vector is
 * in another core's cache. */
typedef struct shared_times {
    bool known;
    double push_ns, average_ns, pull_ns;
} shared_times;

/* Trimmed mean in ns of the one-thread samples of `kind` at the model's size with `vectors` vectors
 * (0: any number) in the benches [from, to); 0 if there are none. */
static double model_time_ns(const dl_dataset *dataset, dl_sample_kind kind, uint32_t vectors,
                            size_t from, size_t to)
{
    DL_AUTOFREE double *times = NULL;
    size_t count = 0;
    for (size_t b = from; b < to; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        for (size_t i = 0; i < bench->count; i++) {
            const dl_record *sample = &bench->samples[i];
            if (sample->name != (uint32_t)kind || sample->threads > 1 ||
                sample->bytes != (uint64_t)dataset->parameter_bytes ||
                (vectors > 0 && sample->vectors != vectors)) {
                continue;
            }
            DL_APPEND(times, count, "bench samples") = (double)sample->duration_ns;
        }
    }
    gsl_sort(times, 1, count);
    return count > 0 ? gsl_stats_trmean_from_sorted_data(TRIM_FRAC, times, 1, count) : 0;
}

/* Finds the times of every bench trace, [bench_count]; NULL if none has all three kinds of samples,
 * a single vector was never averaged, or the rate of copies is unknown. Without the extra time, an
 * average of two vectors takes 1.5 times as long as that of one, as it reads and writes three
 * vectors instead of two. */
static shared_times *find_shared(const dl_dataset *dataset, const dl_costs *costs)
{
    const size_t benches = dataset->bench_count;
    const double alone_ns = model_time_ns(dataset, DL_SAMPLE_AVERAGE, 1, 0, benches);
    if (!(alone_ns > 0) || !costs->copy.bandwidth_bytes_per_s.known) return NULL;
    const double copy_ns =
        costs->copy.latency_ns.value +
        1e9 * (double)dataset->parameter_bytes / costs->copy.bandwidth_bytes_per_s.value;
    shared_times *all = dl_calloc(benches, sizeof *all, "shared vectors");
    bool any = false;
    for (size_t b = 0; b < benches; b++) {
        const double write_ns = model_time_ns(dataset, DL_SAMPLE_SHARED_WRITE, 0, b, b + 1);
        const double read_ns = model_time_ns(dataset, DL_SAMPLE_SHARED_READ, 0, b, b + 1);
        const double two_ns =
            model_time_ns(dataset, DL_SAMPLE_AVERAGE, DL_COMM_VECTORS_AVERAGE, b, b + 1);
        if (!(write_ns > 0) || !(read_ns > 0) || !(two_ns > 0)) continue;
        any = true;
        all[b] = (shared_times){.known = true,
                                .push_ns = fmax(0, write_ns - copy_ns),
                                .average_ns = fmax(0, two_ns - 1.5 * alone_ns),
                                .pull_ns = fmax(0, read_ns - copy_ns)};
    }
    if (any) return all;
    free(all);
    return NULL;
}

/* Mean over the traces of the member of shared_times at `offset`, converted to bytes/s. */
static dl_value shared_rate(const dl_dataset *dataset, const shared_times *all, size_t offset)
{
    DL_AUTOFREE double *times = dl_calloc(dataset->bench_count, sizeof *times, "shared vectors");
    size_t count = 0;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        if (!all[b].known) continue;
        memcpy(&times[count++], (const char *)&all[b] + offset, sizeof *times);
    }
    const dl_estimate mean = dl_fit_mean(times, count);
    const double bytes = (double)dataset->parameter_bytes, ns = mean.value;
    const double rate = fmin(1e9 * bytes / ns, SHARED_RATE_MAX);
    return (dl_value){.known = true,
                      .value = rate,
                      .error = ns > 0 && count > 1 ? rate * mean.error / ns : 0,
                      .count = (int64_t)count,
                      .origin = DL_ORIGIN_FITTED};
}

static void set_shared(const dl_dataset *dataset, const shared_times *all, dl_costs *costs)
{
    if (all == NULL) return;
    costs->shared.push_bytes_per_s = shared_rate(dataset, all, offsetof(shared_times, push_ns));
    costs->shared.average_bytes_per_s =
        shared_rate(dataset, all, offsetof(shared_times, average_ns));
    costs->shared.pull_bytes_per_s = shared_rate(dataset, all, offsetof(shared_times, pull_ns));
}

/* Subtracts the extra time of vectors in other cores' caches from one-thread averages of several
 * vectors. */
static void take_off_shared(const dl_dataset *dataset, const shared_times *all,
                            case_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        case_sample *one = &samples[i];
        if (one->vectors < 2 || one->threads > 1 || !all[one->bench].known) continue;
        const double part = (double)one->bytes / (double)dataset->parameter_bytes;
        one->duration_ns = fmax(0, one->duration_ns - part * all[one->bench].average_ns);
    }
}

/* Finds the points of a kind. `shared` adjusts the times of averages; NULL: unknown. */
static dl_status find_points(const dl_dataset *dataset, dl_sample_kind kind,
                             const shared_times *shared, dl_comm_line *line, dl_error *err)
{
    size_t count;
    DL_AUTOFREE case_sample *samples = list_samples(dataset, kind, &count);
    if (shared != NULL && kind == DL_SAMPLE_AVERAGE)
        take_off_shared(dataset, shared, samples, count);
    dl_status status = DL_OK;
    DL_GROUPS (first, end, count, by_case(&samples[first], &samples[end]) == 0)
        if (status == DL_OK) status = add_point(line, samples + first, end - first, err);
    return status;
}

/* Properties of a line's one-thread points, which come first, that determine its terms. */
typedef struct line_data {
    size_t n;
    bool sizes_vary, vectors_vary;
    int64_t samples;
} line_data;

static line_data look_at(const dl_comm_line *line)
{
    line_data data = {0};
    while (data.n < line->count && line->points[data.n].threads == 1) {
        const dl_comm_point *point = &line->points[data.n++];
        data.sizes_vary |= point->bytes != line->points[0].bytes;
        data.vectors_vary |= point->vectors != line->points[0].vectors;
        data.samples += point->time_ns.count;
    }
    return data;
}

static double distance(const dl_comm_point *point, int which, int64_t parameter_bytes)
{
    double ratio = 1, steps = 0;
    if (parameter_bytes > 0 && point->bytes > 0) {
        ratio = (double)point->bytes / (double)parameter_bytes;
        if (ratio < 1) ratio = 1 / ratio;
    }
    if (which != DL_COMM_COPY && point->vectors > 0) {
        const int usual =
            which == DL_COMM_AVERAGE ? DL_COMM_VECTORS_AVERAGE : DL_COMM_VECTORS_UPDATE;
        steps = fabs(log2((double)point->vectors / usual));
    }
    return ratio * ratio * (1 + steps);
}

/* Terms of the lines, in this order; LATENCY or WRITE may be omitted. */
enum { LATENCY, READ, WRITE, TERMS };

/* Coefficients in ns and ns per byte, with standard errors. merged: read and write are one
 * coefficient. */
typedef struct line_fit {
    double coefficient[TERMS], error[TERMS];
    bool latency_assumed, merged;
} line_fit;

/* Solves for the line `which`. With `merged`, reading and writing have one coefficient; the bytes
 * of a copy count once. */
static dl_status solve(const dl_comm_line *line, const line_data *data, int64_t parameter_bytes,
                       int which, bool merged, line_fit *fit, dl_fit_line *found, dl_error *err)
{
    const size_t n = data->n, p = (size_t)data->sizes_vary + (merged ? 1 : 2);
    DL_AUTOFREE double *block = dl_calloc(n * (p + 3), sizeof *block, "line fit");
    double *terms = block, *y = block + n * p, *error = y + n, *scale = error + n;
    for (size_t i = 0; i < n; i++) {
        const dl_comm_point *point = &line->points[i];
        const double bytes = (double)point->bytes, vectors = point->vectors;
        double *row = terms + i * p;
        if (data->sizes_vary) *row++ = 1;
        if (merged) {
            *row = which == DL_COMM_COPY ? bytes : bytes * (vectors + 1);
        } else {
            *row++ = bytes * vectors;
            *row = bytes;
        }
        y[i] = point->time_ns.value;
        error[i] = hypot(point->time_ns.error, DL_FIT_CLOCK_ERROR_NS);
        scale[i] = fmax(y[i], 1) * distance(point, which, parameter_bytes);
    }
    const dl_fit_problem problem = {n, p, terms, y, error, scale};
    const dl_status status = dl_fit_solve(&problem, found, err);
    if (status != DL_OK) return status;
    *fit = (line_fit){.latency_assumed = !data->sizes_vary, .merged = merged};
    size_t term = 0;
    for (int j = data->sizes_vary ? LATENCY : READ; term < p; j++, term++) {
        fit->coefficient[j] = found->coefficient[term];
        fit->error[j] = found->error[term];
    }
    if (merged) {
        fit->coefficient[WRITE] = fit->coefficient[READ];
        fit->error[WRITE] = fit->error[READ];
    }
    return DL_OK;
}

static dl_status fit_line(dl_comm_line *line, int which, int64_t parameter_bytes, line_fit *fit,
                          int64_t *samples, dl_notes *notes, dl_error *err)
{
    const line_data data = look_at(line);
    *samples = data.samples;
    dl_fit_line found;
    const bool copy = which == DL_COMM_COPY;
    bool merged = copy || !data.vectors_vary;
    dl_status status = solve(line, &data, parameter_bytes, which, merged, fit, &found, err);
    /* A zero cost of reading or writing means that the points cannot distinguish the two. */
    if (status == DL_OK && !merged &&
        (fit->coefficient[READ] <= 0 || fit->coefficient[WRITE] <= 0)) {
        merged = true;
        status = solve(line, &data, parameter_bytes, which, true, fit, &found, err);
    }
    if (status != DL_OK) return status;
    if (!(fit->coefficient[READ] > 0)) {
        return dl_error_set(err, DL_ERR_DATA, "%s: time does not grow with the bytes", line->name);
    }
    if (fit->latency_assumed) {
        dl_notes_add(notes, "%s: one size only; its latency is assumed to be 0", line->name);
    } else if (!(fit->coefficient[LATENCY] > 0)) {
        dl_notes_add(notes, "%s: the fitted latency is below 0; held at 0", line->name);
    }
    if (merged && !copy) {
        dl_notes_add(notes, "%s: read and write cannot be distinguished; taken as equal",
                     line->name);
    }
    for (size_t i = 0; i < data.n; i++) {
        dl_comm_point *point = &line->points[i];
        const double reads = copy ? 1 : point->vectors, writes = copy ? 0 : 1;
        point->fitted_ns = fit->coefficient[LATENCY] +
                           (double)point->bytes *
                               (reads * fit->coefficient[READ] + writes * fit->coefficient[WRITE]);
    }
    return DL_OK;
}

/* Converts a coefficient in ns per byte to a rate with the same relative error. */
static dl_value rate_value(const line_fit *fit, int term, int64_t samples)
{
    const double ns_per_byte = fit->coefficient[term];
    const double rate = 1e9 / ns_per_byte;
    return (dl_value){.known = true,
                      .value = rate,
                      .error = rate * fit->error[term] / ns_per_byte,
                      .count = samples,
                      .origin = DL_ORIGIN_FITTED};
}

static dl_value latency_value(const line_fit *fit, int64_t samples)
{
    return (dl_value){.known = true,
                      .value = fit->coefficient[LATENCY],
                      .error = fit->error[LATENCY],
                      .count = samples,
                      .origin = fit->latency_assumed ? DL_ORIGIN_ASSUMED : DL_ORIGIN_FITTED};
}

static dl_status fit_lines(const dl_dataset *dataset, dl_comm_fit *all, dl_costs *costs,
                           dl_notes *notes, dl_error *err)
{
    DL_AUTOFREE shared_times *shared = NULL;
    dl_status status = DL_OK;
    for (int which = 0; which < DL_COMM_LINES && status == DL_OK; which++) {
        dl_comm_line *line = &all->lines[which];
        line->name = line_kinds[which].name;
        if (which == DL_COMM_AVERAGE) shared = find_shared(dataset, costs);
        status = find_points(dataset, line_kinds[which].kind, shared, line, err);
        if (status != DL_OK || line->count == 0 || line->points[0].threads != 1) continue;
        line_fit fit;
        int64_t n;
        status = fit_line(line, which, costs->parameter_bytes, &fit, &n, notes, err);
        if (status != DL_OK) break;
        const dl_value latency = latency_value(&fit, n), read = rate_value(&fit, READ, n);
        if (which == DL_COMM_COPY) {
            costs->copy.latency_ns = latency;
            costs->copy.bandwidth_bytes_per_s = read;
            continue;
        }
        *(which == DL_COMM_AVERAGE ? &costs->average : &costs->update) =
            (struct dl_average_cost){latency, read, rate_value(&fit, WRITE, n)};
    }
    set_shared(dataset, shared, costs);
    return status;
}

/* Median of the values; unknown if there are none. */
static dl_value measured_median(const double *values, size_t count)
{
    if (count == 0) return (dl_value){0};
    const dl_estimate median = dl_fit_median(values, count);
    return (dl_value){.known = true,
                      .value = median.value,
                      .error = median.error,
                      .count = median.count,
                      .origin = DL_ORIGIN_MEASURED};
}

/* Median of the samples with low .. high threads; of all samples if there are none. */
static dl_value median_value(const dl_dataset *dataset, dl_sample_kind kind, uint32_t low,
                             uint32_t high)
{
    size_t count, chosen = 0;
    DL_AUTOFREE case_sample *samples = list_samples(dataset, kind, &count);
    DL_AUTOFREE double *values = dl_calloc(count, sizeof *values, "bench samples");
    for (size_t i = 0; i < count; i++) {
        if (samples[i].threads >= low && samples[i].threads <= high)
            values[chosen++] = samples[i].duration_ns;
    }
    if (chosen == 0) {
        for (size_t i = 0; i < count; i++)
            values[chosen++] = samples[i].duration_ns;
    }
    return measured_median(values, chosen);
}

/* Median of bytes / time of one kind of sample; unknown without samples. */
static dl_value message_rate(const dl_dataset *dataset, int kind)
{
    size_t count, chosen = 0;
    DL_AUTOFREE case_sample *samples = list_samples(dataset, (dl_sample_kind)kind, &count);
    DL_AUTOFREE double *rates = dl_calloc(count, sizeof *rates, "rates");
    for (size_t i = 0; i < count; i++) {
        if (samples[i].bytes == 0 || !(samples[i].duration_ns > 0)) continue;
        rates[chosen++] = (double)samples[i].bytes / dl_ns_to_s(samples[i].duration_ns);
    }
    return measured_median(rates, chosen);
}

static void fit_messages(const dl_dataset *dataset, dl_costs *costs)
{
    costs->learned_bytes_per_s = message_rate(dataset, DL_SAMPLE_LEARNED);
    for (int kind = DL_COMPRESS_FP16; kind < DL_COMPRESS_KINDS; kind++) {
        const int number = kind - DL_COMPRESS_FP16;
        costs->quantise[kind].encode_bytes_per_s =
            message_rate(dataset, DL_SAMPLE_QUANTISE + number);
        costs->quantise[kind].decode_bytes_per_s =
            message_rate(dataset, DL_SAMPLE_DEQUANTISE + number);
    }
}

static double distance_of(uint64_t bytes, int64_t parameter_bytes)
{
    return fabs(log2((double)bytes / (double)parameter_bytes));
}

/* Rate of copies between a GPU and pageable memory, over both directions, at the size nearest to
 * the parameters. */
static dl_value pageable_rate(const dl_dataset *dataset, int64_t parameter_bytes)
{
    static const dl_sample_kind kinds[] = {DL_SAMPLE_H2D_PAGEABLE, DL_SAMPLE_D2H_PAGEABLE};
    uint64_t nearest = 0;
    DL_AUTOFREE double *rates = NULL;
    size_t chosen = 0;
    for (int pass = 0; pass < 2; pass++) { /* first pass: find the size; second: collect its
                                            * samples */
        for (int k = 0; k < 2; k++) {
            size_t count;
            DL_AUTOFREE case_sample *samples = list_samples(dataset, kinds[k], &count);
            for (size_t i = 0; i < count; i++) {
                const case_sample *at = &samples[i];
                if (at->threads != 1 || at->bytes == 0 || !(at->duration_ns > 0)) continue;
                if (pass == 1 && at->bytes == nearest) {
                    DL_APPEND(rates, chosen, "rates") = 1e9 * (double)at->bytes / at->duration_ns;
                } else if (pass == 0 &&
                           (nearest == 0 || distance_of(at->bytes, parameter_bytes) <
                                                distance_of(nearest, parameter_bytes))) {
                    nearest = at->bytes;
                }
            }
        }
    }
    return measured_median(rates, chosen);
}

dl_status dl_comm_costs_fit(const dl_dataset *dataset, dl_comm_fit *fit, dl_costs *costs,
                            dl_notes *notes, dl_error *err)
{
    const dl_status status = fit_lines(dataset, fit, costs, notes, err);
    if (status != DL_OK) return status;
    const uint32_t cores = costs->cores >= 2 ? (uint32_t)costs->cores : UINT32_MAX;
    costs->barrier_ns = median_value(dataset, DL_SAMPLE_BARRIER, 2, cores);
    costs->lock_ns = median_value(dataset, DL_SAMPLE_LOCK, 2, cores);
    costs->wakeup_ns = median_value(dataset, DL_SAMPLE_WAKEUP, 2, 2);
    costs->slice_ns = median_value(dataset, DL_SAMPLE_SLICE, 0, UINT32_MAX);
    if (costs->slice_ns.known && !(costs->slice_ns.value > 0)) costs->slice_ns.known = false;
    fit_messages(dataset, costs);
    costs->copy.pageable_bytes_per_s =
        pageable_rate(dataset, costs->parameter_bytes > 0 ? costs->parameter_bytes : 1);
    return DL_OK;
}

void dl_dispatch_costs_fit(const dl_dataset *dataset, dl_costs *costs, dl_notes *notes)
{
    if (!dataset->gpu.gpu || dataset->op_count == 0) return;
    /* A step's time outside operations is charged as [op dispatch]. */
    costs->dispatch.serial_ns =
        (dl_value){.known = true, .value = 0, .error = 0, .count = 0, .origin = DL_ORIGIN_ASSUMED};
    const dl_value launch = median_value(dataset, DL_SAMPLE_LAUNCH, 0, UINT32_MAX);
    if (!launch.known) {
        dl_notes_add(notes, "no benchmark of launches: the host's time to launch a step, "
                            "[dispatch] per_worker_ns, stays unknown");
        return;
    }
    costs->dispatch.launch_ns = launch;
    const double launches = (double)(dataset->op_count - 1);
    costs->dispatch.per_worker_ns = (dl_value){.known = true,
                                               .value = launches * launch.value,
                                               .error = launches * launch.error,
                                               .count = launch.count,
                                               .origin = DL_ORIGIN_ASSUMED};
    dl_notes_add(notes,
                 "the host launches a step in %.1f us: %.0f operations, each assumed to "
                 "be one launch of %.2f us",
                 launches * launch.value / 1e3, launches, launch.value / 1e3);
}

void dl_comm_fit_free(dl_comm_fit *fit)
{
    for (int which = 0; which < DL_COMM_LINES; which++)
        free(fit->lines[which].points);
    *fit = (dl_comm_fit){0};
}

/* Returns whether a sample belongs to the case of the point. */
static bool is_of(const dl_record *sample, dl_sample_kind kind, const dl_comm_point *point)
{
    return sample->name == (uint32_t)kind && sample->bytes == point->bytes &&
           sample->vectors == point->vectors && sample->phase == point->phase &&
           (sample->threads > 0 ? sample->threads : 1) == point->threads;
}

/* Trimmed mean in ns of a case's samples in one trace; 0 if there are none. */
static double case_time_ns(const dl_bench_trace *bench, dl_sample_kind kind,
                           const dl_comm_point *point)
{
    DL_AUTOFREE double *times = dl_calloc(bench->count, sizeof *times, "bench samples");
    size_t count = 0;
    for (size_t i = 0; i < bench->count; i++) {
        if (is_of(&bench->samples[i], kind, point))
            times[count++] = (double)bench->samples[i].duration_ns;
    }
    gsl_sort(times, 1, count);
    return count > 0 ? gsl_stats_trmean_from_sorted_data(TRIM_FRAC, times, 1, count) : 0;
}

static float run_factor(const dl_bench_trace *bench, dl_sample_kind kind, const dl_comm_line *line,
                        uint32_t vectors, int64_t parameter_bytes)
{
    double sum = 0;
    int cases = 0;
    for (size_t i = 0; i < line->count; i++) {
        const dl_comm_point *point = &line->points[i];
        if (point->bytes != (uint64_t)parameter_bytes || point->vectors != vectors ||
            point->threads != 1) {
            continue;
        }
        const double time_ns = case_time_ns(bench, kind, point);
        if (!(time_ns > 0)) continue;
        sum += time_ns / point->time_ns.value;
        cases++;
    }
    return cases > 0 ? (float)(sum / cases) : 1;
}

/* Total extra time in ns due to other cores' caches. */
static double shared_ns(const dl_dataset *dataset, const dl_costs *costs)
{
    const double bytes = 1e9 * (double)dataset->parameter_bytes;
    return bytes / costs->shared.push_bytes_per_s.value +
           bytes / costs->shared.average_bytes_per_s.value +
           bytes / costs->shared.pull_bytes_per_s.value;
}

static float shared_factor(const shared_times *all, size_t bench, double all_ns)
{
    if (all == NULL || !all[bench].known || !(all_ns > 0)) return 1;
    const shared_times *own = &all[bench];
    const double own_ns = own->push_ns + own->average_ns + own->pull_ns;
    return (float)fmax(own_ns / all_ns, SHARED_FACTOR_MIN);
}

void dl_exchange_runs_fit(const dl_dataset *dataset, const dl_comm_fit *comm, dl_costs *costs)
{
    if (dataset->bench_count < 2) return;
    DL_AUTOFREE shared_times *shared =
        costs->shared.push_bytes_per_s.known ? find_shared(dataset, costs) : NULL;
    const double all_ns = shared != NULL ? shared_ns(dataset, costs) : 0;
    costs->exchange_runs =
        dl_calloc(dataset->bench_count, sizeof *costs->exchange_runs, "exchange runs");
    costs->exchange_run_count = dataset->bench_count;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        costs->exchange_runs[b] = (dl_exchange_run){
            .copy = run_factor(bench, DL_SAMPLE_COPY, &comm->lines[DL_COMM_COPY], 0,
                               dataset->parameter_bytes),
            .average = run_factor(bench, DL_SAMPLE_AVERAGE, &comm->lines[DL_COMM_AVERAGE],
                                  DL_COMM_VECTORS_AVERAGE, dataset->parameter_bytes),
            .update = run_factor(bench, DL_SAMPLE_UPDATE, &comm->lines[DL_COMM_UPDATE],
                                 DL_COMM_VECTORS_UPDATE, dataset->parameter_bytes),
            .shared = shared_factor(shared, b, all_ns),
        };
        if (shared != NULL) costs->exchange_runs[b].average = 1; /* included in `shared` */
    }
}

/* Size nearest to the parameters that has samples of several threads; 0: none. */
static uint64_t nearest_size(const dl_comm_line *line, int64_t parameter_bytes)
{
    uint64_t nearest = 0;
    for (size_t i = 0; i < line->count; i++) {
        const dl_comm_point *point = &line->points[i];
        if (point->threads < 2 || point->bytes == 0) continue;
        if (nearest == 0 ||
            distance_of(point->bytes, parameter_bytes) < distance_of(nearest, parameter_bytes)) {
            nearest = point->bytes;
        }
    }
    return nearest;
}

static const dl_comm_point *find_alone(const dl_comm_line *line, const dl_comm_point *many)
{
    for (size_t i = 0; i < line->count; i++) {
        const dl_comm_point *point = &line->points[i];
        if (point->threads == 1 && point->bytes == many->bytes && point->vectors == many->vectors &&
            point->phase == many->phase) {
            return point;
        }
    }
    return NULL;
}

/* Adds a point. Copies: each thread moves `bytes`. Averages: the threads share one average of n
 * vectors. */
static void add_memory_point(dl_memory_fit *fit, const dl_comm_line *line,
                             const dl_comm_point *many, bool copies)
{
    const dl_comm_point *alone = find_alone(line, many);
    const double share = copies ? many->threads : 1;
    const double traffic_bytes =
        (double)many->bytes * (copies ? 2.0 * many->threads : many->vectors + 1.0);
    const double time_ns = many->time_ns.value;
    const double rate = traffic_bytes / dl_ns_to_s(time_ns);
    DL_APPEND(fit->points, fit->count, "memory points") = (dl_memory_point){
        .name = line->name,
        .phase = many->phase,
        .bytes = many->bytes,
        .vectors = many->vectors,
        .threads = many->threads,
        .bytes_per_s = {rate, rate * many->time_ns.error / time_ns, many->time_ns.count},
        .speedup = alone != NULL ? share * alone->time_ns.value / time_ns : NAN};
}

static void add_line(dl_memory_fit *fit, const dl_comm_line *line, int64_t parameter_bytes,
                     bool copies)
{
    const uint64_t bytes = nearest_size(line, parameter_bytes);
    for (size_t i = 0; i < line->count; i++) {
        const dl_comm_point *point = &line->points[i];
        if (point->threads < 2 || point->bytes != bytes || !(point->time_ns.value > 0)) continue;
        add_memory_point(fit, line, point, copies);
    }
}

void dl_memory_fit_total(const dl_comm_fit *comm, dl_memory_fit *fit, dl_costs *costs,
                         dl_notes *notes)
{
    const int64_t bytes = costs->parameter_bytes > 0 ? costs->parameter_bytes : 1;
    add_line(fit, &comm->lines[DL_COMM_COPY], bytes, true);
    add_line(fit, &comm->lines[DL_COMM_AVERAGE], bytes, false);
    const dl_memory_point *highest = NULL;
    for (size_t i = 0; i < fit->count; i++) {
        const dl_memory_point *point = &fit->points[i];
        if (highest == NULL || point->bytes_per_s.value > highest->bytes_per_s.value) {
            highest = point;
        }
    }
    if (highest == NULL) return;
    const bool limited = highest->speedup < DL_MEMORY_FREE_FRAC * highest->threads;
    const dl_estimate rate = highest->bytes_per_s;
    costs->memory_total_bytes_per_s =
        (dl_value){.known = true,
                   .value = rate.value,
                   .error = rate.error,
                   .count = rate.count,
                   .origin = limited ? DL_ORIGIN_FITTED : DL_ORIGIN_ASSUMED};
    if (isnan(highest->speedup)) {
        dl_notes_add(notes,
                     "memory: one thread was not measured, so that %u threads may not have reached "
                     "its limit: total_bytes_per_s is a lower bound",
                     highest->threads);
        return;
    }
    if (limited) return;
    dl_notes_add(
        notes,
        "memory: %u threads moved %.2f times as much as one, so its limit was not reached: "
        "total_bytes_per_s is a lower bound",
        highest->threads, highest->speedup);
}

void dl_memory_fit_free(dl_memory_fit *fit)
{
    free(fit->points);
    *fit = (dl_memory_fit){0};
}
