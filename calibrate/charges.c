#include "calibrate/charges.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

static const struct {
    const char *name;
    dl_sample_kind kind;
} line_kinds[DL_CHARGE_LINES] = {
    [DL_CHARGE_COPY] = {"copy", DL_SAMPLE_COPY},
    [DL_CHARGE_AVERAGE] = {"average", DL_SAMPLE_AVERAGE},
    [DL_CHARGE_UPDATE] = {"update", DL_SAMPLE_UPDATE},
};

/* A sample with the case that it belongs to. */
typedef struct case_sample {
    uint64_t bytes;
    uint32_t vectors, threads;
    dl_phase phase;
    size_t order; /* as they were taken, which the centre needs */
    double duration_ns;
} case_sample;

static int compare_cases(const case_sample *a, const case_sample *b)
{
    if (a->threads != b->threads) return a->threads < b->threads ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->vectors != b->vectors) return a->vectors < b->vectors ? -1 : 1;
    return a->phase < b->phase ? -1 : a->phase > b->phase;
}

static int by_case_and_order(const void *a, const void *b)
{
    const case_sample *left = a, *right = b;
    const int order = compare_cases(left, right);
    if (order != 0) return order;
    return left->order < right->order ? -1 : left->order > right->order;
}

/* Samples of one kind from all bench traces, sorted by case. */
static case_sample *list_samples(const dl_dataset *dataset, dl_sample_kind kind, size_t *count)
{
    size_t most = 0;
    for (size_t b = 0; b < dataset->bench_count; b++)
        most += dataset->benches[b].count;
    case_sample *samples = dl_calloc(most, sizeof *samples, "bench samples");
    *count = 0;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        for (size_t i = 0; i < bench->count; i++) {
            const dl_record *record = &bench->samples[i];
            if (record->name != (uint32_t)kind) continue;
            samples[*count] = (case_sample){
                record->bytes, record->vectors, record->threads > 0 ? record->threads : 1,
                record->phase, *count,          (double)record->duration_ns};
            (*count)++;
        }
    }
    if (*count > 1) qsort(samples, *count, sizeof *samples, by_case_and_order);
    return samples;
}

static dl_status add_point(dl_charge_line *line, const case_sample *samples, size_t n,
                           dl_error *err)
{
    double *values = dl_calloc(n, sizeof *values, "bench samples");
    for (size_t i = 0; i < n; i++)
        values[i] = samples[i].duration_ns;
    dl_estimate time;
    const dl_status status = dl_fit_location(values, n, &time, err);
    free(values);
    if (status != DL_OK) return status;
    line->points = dl_realloc(line->points, line->count + 1, sizeof *line->points, "bench points");
    line->points[line->count++] = (dl_charge_point){.bytes = samples->bytes,
                                                    .vectors = samples->vectors,
                                                    .threads = samples->threads,
                                                    .phase = samples->phase,
                                                    .time_ns = time,
                                                    .fitted_ns = NAN};
    return DL_OK;
}

static dl_status find_points(const dl_dataset *dataset, dl_sample_kind kind, dl_charge_line *line,
                             dl_error *err)
{
    size_t count;
    case_sample *samples = list_samples(dataset, kind, &count);
    dl_status status = DL_OK;
    for (size_t first = 0, end; first < count && status == DL_OK; first = end) {
        for (end = first; end < count && compare_cases(&samples[first], &samples[end]) == 0;)
            end++;
        status = add_point(line, samples + first, end - first, err);
    }
    free(samples);
    return status;
}

/* What the one-thread points of a line can tell apart. They come first in the line. */
typedef struct line_data {
    size_t n;
    bool sizes_vary, vectors_vary;
    int64_t samples;
} line_data;

static line_data look_at(const dl_charge_line *line)
{
    line_data data = {0};
    while (data.n < line->count && line->points[data.n].threads == 1) {
        const dl_charge_point *point = &line->points[data.n++];
        data.sizes_vary |= point->bytes != line->points[0].bytes;
        data.vectors_vary |= point->vectors != line->points[0].vectors;
        data.samples += point->time_ns.count;
    }
    return data;
}

static double distance(const dl_charge_point *point, int which, int64_t parameter_bytes)
{
    double ratio = 1, steps = 0;
    if (parameter_bytes > 0 && point->bytes > 0) {
        ratio = (double)point->bytes / (double)parameter_bytes;
        if (ratio < 1) ratio = 1 / ratio;
    }
    if (which != DL_CHARGE_COPY && point->vectors > 0) {
        const int usual =
            which == DL_CHARGE_AVERAGE ? DL_CHARGE_VECTORS_AVERAGE : DL_CHARGE_VECTORS_UPDATE;
        steps = fabs(log2((double)point->vectors / usual));
    }
    return ratio * ratio * (1 + steps);
}

/* Terms of the lines, in this order, so that any of them may be left out. */
enum { LATENCY, READ, WRITE, TERMS };

/* ns, ns per byte, with standard errors. merged: read and write are one coefficient. */
typedef struct line_fit {
    double coefficient[TERMS], error[TERMS];
    bool latency_assumed, merged;
} line_fit;

/* One attempt. A copy is read and write in one (`merged` from the start): bytes once. */
static dl_status solve(const dl_charge_line *line, const line_data *data, int64_t parameter_bytes,
                       int which, bool merged, line_fit *fit, dl_fit_line *found, dl_error *err)
{
    const size_t n = data->n, p = (size_t)data->sizes_vary + (merged ? 1 : 2);
    double *block = dl_calloc(n * (p + 3), sizeof *block, "line fit");
    double *terms = block, *y = block + n * p, *error = y + n, *scale = error + n;
    for (size_t i = 0; i < n; i++) {
        const dl_charge_point *point = &line->points[i];
        const double bytes = (double)point->bytes, vectors = point->vectors;
        double *row = terms + i * p;
        if (data->sizes_vary) *row++ = 1;
        if (merged) {
            *row = which == DL_CHARGE_COPY ? bytes : bytes * (vectors + 1);
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
    free(block);
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

static dl_status fit_line(dl_charge_line *line, int which, int64_t parameter_bytes, line_fit *fit,
                          int64_t *samples, dl_notes *notes, dl_error *err)
{
    const line_data data = look_at(line);
    *samples = data.samples;
    dl_fit_line found;
    const bool copy = which == DL_CHARGE_COPY;
    bool merged = copy || !data.vectors_vary;
    dl_status status = solve(line, &data, parameter_bytes, which, merged, fit, &found, err);
    /* Reading or writing for nothing is no cost: the points cannot tell them apart. */
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
        dl_notes_add(notes, "%s: read and write cannot be told apart; taken as equal", line->name);
    }
    for (size_t i = 0; i < data.n; i++) {
        dl_charge_point *point = &line->points[i];
        const double reads = copy ? 1 : point->vectors, writes = copy ? 0 : 1;
        point->fitted_ns = fit->coefficient[LATENCY] +
                           (double)point->bytes *
                               (reads * fit->coefficient[READ] + writes * fit->coefficient[WRITE]);
    }
    return DL_OK;
}

/* A coefficient in ns per byte as a rate: the relative error stays. */
static dl_value rate_value(const line_fit *fit, int term, int64_t samples)
{
    const double ns_per_byte = fit->coefficient[term];
    const double rate = 1e9 / ns_per_byte;
    return (dl_value){true, rate, rate * fit->error[term] / ns_per_byte, samples, DL_ORIGIN_FITTED};
}

static dl_value latency_value(const line_fit *fit, int64_t samples)
{
    return (dl_value){true, fit->coefficient[LATENCY], fit->error[LATENCY], samples,
                      fit->latency_assumed ? DL_ORIGIN_ASSUMED : DL_ORIGIN_FITTED};
}

static dl_status fit_lines(const dl_dataset *dataset, dl_charges *all, dl_costs *costs,
                           dl_notes *notes, dl_error *err)
{
    for (int which = 0; which < DL_CHARGE_LINES; which++) {
        dl_charge_line *line = &all->lines[which];
        line->name = line_kinds[which].name;
        dl_status status = find_points(dataset, line_kinds[which].kind, line, err);
        if (status != DL_OK) return status;
        if (line->count == 0 || line->points[0].threads != 1) continue;
        line_fit fit;
        int64_t n;
        status = fit_line(line, which, costs->parameter_bytes, &fit, &n, notes, err);
        if (status != DL_OK) return status;
        const dl_value latency = latency_value(&fit, n), read = rate_value(&fit, READ, n);
        if (which == DL_CHARGE_COPY) {
            costs->copy.latency_ns = latency;
            costs->copy.bandwidth_bytes_per_s = read;
            continue;
        }
        const dl_value write = rate_value(&fit, WRITE, n);
        if (which == DL_CHARGE_AVERAGE) {
            costs->average.latency_ns = latency;
            costs->average.read_bytes_per_s = read;
            costs->average.write_bytes_per_s = write;
        } else {
            costs->update.latency_ns = latency;
            costs->update.read_bytes_per_s = read;
            costs->update.write_bytes_per_s = write;
        }
    }
    return DL_OK;
}

/* Median of the samples with low .. high threads, of all where there are none of these. */
static dl_value median_value(const dl_dataset *dataset, dl_sample_kind kind, uint32_t low,
                             uint32_t high)
{
    size_t count, chosen = 0;
    case_sample *samples = list_samples(dataset, kind, &count);
    double *values = dl_calloc(count, sizeof *values, "bench samples");
    for (size_t i = 0; i < count; i++) {
        if (samples[i].threads >= low && samples[i].threads <= high)
            values[chosen++] = samples[i].duration_ns;
    }
    if (chosen == 0) {
        for (size_t i = 0; i < count; i++)
            values[chosen++] = samples[i].duration_ns;
    }
    dl_value value = {0};
    if (chosen > 0) {
        const dl_estimate median = dl_fit_median(values, chosen);
        value = (dl_value){true, median.value, median.error, median.count, DL_ORIGIN_MEASURED};
    }
    free(values);
    free(samples);
    return value;
}

dl_status dl_charges_fit_all(const dl_dataset *dataset, dl_charges *fit, dl_costs *costs,
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
    return DL_OK;
}

void dl_charges_free(dl_charges *fit)
{
    for (int which = 0; which < DL_CHARGE_LINES; which++)
        free(fit->lines[which].points);
    *fit = (dl_charges){0};
}
