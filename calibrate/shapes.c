#include "calibrate/shapes.h"

#include <gsl/gsl_multimin.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/workloads/roofline.h"

#define SPREAD_MIN 4 /* minimum shapes per pass: one more than the fitted numbers */

/* The three fitted numbers, as logarithms, and their ranges. */
enum { FLOP, BYTES, FIXED, NUMBERS };
static const double lowest[NUMBERS] = {1e6, 1e3, 1}, highest[NUMBERS] = {1e18, 1e15, 1e9};

#define NUMBER_BYTES 4 /* bytes per number in fp32 and tf32 */

/* --- the trace ------------------------------------------------------------------------------- */

/* Durations of one shape. */
typedef struct sample {
    dl_shape_time time;
    uint32_t name;
    double *values, *rounds;
    size_t count, round_count;
} sample;

static sample *find_sample(sample **samples, size_t *count, const dl_record *record)
{
    for (size_t i = 0; i < *count; i++)
        if ((*samples)[i].name == record->name &&
            (*samples)[i].time.step_count == (int64_t)record->samples)
            return &(*samples)[i];
    sample *added = &DL_APPEND(*samples, *count, "shapes");
    *added = (sample){.name = record->name, .time.step_count = record->samples};
    return added;
}

/* Last time / first time: times of the rounds with the greatest and the least number. */
static double drift_of(const sample *of)
{
    size_t first = 0, last = 0;
    for (size_t i = 1; i < of->count; i++) {
        if (of->rounds[i] < of->rounds[first]) first = i;
        if (of->rounds[i] > of->rounds[last]) last = i;
    }
    return of->values[last] / of->values[first];
}

static void take_times(dl_shapes *shapes, const dl_trace *trace)
{
    DL_AUTOFREE sample *samples = NULL;
    size_t count = 0;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        dl_shape_product product;
        if (record->kind != DL_RECORD_BENCH || record->duration_ns <= 0 ||
            !dl_shape_parse(dl_trace_name(trace, record), &product))
            continue;
        sample *to = find_sample(&samples, &count, record);
        to->time.product = product;
        DL_APPEND(to->values, to->count, "times") = (double)record->duration_ns;
        DL_APPEND(to->rounds, to->round_count, "rounds") = record->step;
    }
    shapes->times = dl_calloc(count + 1, sizeof *shapes->times, "shapes");
    shapes->count = count;
    for (size_t i = 0; i < count; i++) {
        samples[i].time.drift = drift_of(&samples[i]);
        samples[i].time.time_ns = dl_fit_median(samples[i].values, samples[i].count);
        shapes->times[i] = samples[i].time;
        free(samples[i].values);
        free(samples[i].rounds);
    }
}

/* --- products -------------------------------------------------------------------------------- */

typedef struct problem {
    const dl_shape_time *const *times;
    size_t count, without; /* without: index of the shape left out; count: none */
} problem;

static double fit_ns(const dl_shape_fit *fit, const dl_shape_product *product)
{
    const dl_product_rates rates = {.flop_per_s = {.value = fit->flop_per_s.value},
                                    .bytes_per_s = {.value = fit->bytes_per_s.value},
                                    .fixed_ns = {.value = fit->fixed_ns.value}};
    return dl_roofline_product_ns(&rates, dl_shape_flop(product),
                                  NUMBER_BYTES * dl_shape_weights(product),
                                  NUMBER_BYTES * dl_shape_others(product));
}

static dl_shape_fit fit_at(const double *logs)
{
    double value[NUMBERS];
    for (int n = 0; n < NUMBERS; n++)
        value[n] = fmin(fmax(exp(logs[n]), lowest[n]), highest[n]);
    return (dl_shape_fit){.flop_per_s.value = value[FLOP],
                          .bytes_per_s.value = value[BYTES],
                          .fixed_ns.value = value[FIXED]};
}

static double sum_of_squares(const gsl_vector *logs, void *user)
{
    const problem *p = user;
    const dl_shape_fit fit = fit_at(logs->data);
    double sum = 0;
    for (size_t i = 0; i < p->count; i++) {
        const dl_shape_time *time = p->times[i];
        if (i == p->without) continue;
        const double off = log(fit_ns(&fit, &time->product) / time->time_ns.value);
        sum += off * off;
    }
    for (int n = 0; n < NUMBERS; n++) { /* penalty that grows outside the ranges */
        const double log_n = gsl_vector_get(logs, (size_t)n);
        sum += fmax(0, log(lowest[n]) - log_n) + fmax(0, log_n - log(highest[n]));
    }
    return sum;
}

/* Runs the Nelder-Mead simplex from `logs` twice: the restart escapes a kink of the roofline's
 * maximum. */
static double descend(problem *p, double logs[NUMBERS])
{
    gsl_multimin_function function = {sum_of_squares, NUMBERS, p};
    gsl_multimin_fminimizer *search =
        gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, NUMBERS);
    gsl_vector *at = gsl_vector_alloc(NUMBERS), *step = gsl_vector_alloc(NUMBERS);
    double least = 0;
    for (int start = 0; start < 2; start++) {
        for (size_t n = 0; n < NUMBERS; n++)
            gsl_vector_set(at, n, logs[n]);
        gsl_vector_set_all(step, 0.5);
        (void)gsl_multimin_fminimizer_set(search, &function, at, step);
        for (int i = 0; i < 2000; i++) {
            if (gsl_multimin_fminimizer_iterate(search)) break;
            if (gsl_multimin_test_size(gsl_multimin_fminimizer_size(search), 1e-7) == GSL_SUCCESS)
                break;
        }
        least = gsl_multimin_fminimizer_minimum(search);
        for (size_t n = 0; n < NUMBERS; n++)
            logs[n] = gsl_vector_get(gsl_multimin_fminimizer_x(search), n);
    }
    gsl_multimin_fminimizer_free(search);
    gsl_vector_free(at);
    gsl_vector_free(step);
    return least;
}

/* Takes the best of four searches: all start from the fastest shape's flop rate, with slow or fast
 * memory and a short or long fixed time. */
static void search(problem *p, double best[NUMBERS])
{
    double flop = 0, shortest = INFINITY, least = INFINITY;
    for (size_t i = 0; i < p->count; i++) {
        const dl_shape_time *time = p->times[i];
        flop = fmax(flop, dl_shape_flop(&time->product) / dl_ns_to_s(time->time_ns.value));
        shortest = fmin(shortest, time->time_ns.value);
    }
    for (int start = 0; start < 4; start++) {
        double logs[NUMBERS] = {log(flop), log(flop / (start & 1 ? 10 : 100)),
                                log(shortest / (start & 2 ? 2 : 20))};
        const double sum = descend(p, logs);
        if (sum >= least) continue;
        least = sum;
        memcpy(best, logs, sizeof logs);
    }
}

/* Jackknife standard error of the logarithm. */
static double jackknife(const double (*logs)[NUMBERS], size_t count, int number)
{
    double mean = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        mean += logs[i][number] / (double)count;
    for (size_t i = 0; i < count; i++)
        sum += (logs[i][number] - mean) * (logs[i][number] - mean);
    return sqrt(sum * (double)(count - 1) / (double)count);
}

static void set_number(dl_shape_number *number, const double (*logs)[NUMBERS], size_t count,
                       int which)
{
    number->error_frac = jackknife(logs, count, which);
    number->at_limit =
        number->value <= 1.01 * lowest[which] || number->value >= 0.99 * highest[which];
}

/* --- errors ---------------------------------------------------------------------------------- */

typedef struct error_list {
    double *values;
    size_t count;
    double predicted, measured; /* sums over a step's products, or over all spread shapes */
    dl_shape_errors errors;
} error_list;

static void add_error(error_list *list, size_t place, double predicted, double measured,
                      double times)
{
    const double error = fabs(predicted / measured - 1);
    if (list->count == 0 || error > list->errors.max) {
        list->errors.max = error;
        list->errors.worst = place;
    }
    list->predicted += times * predicted;
    list->measured += times * measured;
    list->errors.mean += error;
    DL_APPEND(list->values, list->count, "errors") = error;
}

static dl_shape_errors end_errors(error_list *list)
{
    dl_shape_errors errors = list->errors;
    errors.count = list->count;
    if (list->count > 0) {
        errors.mean /= (double)list->count;
        errors.median = dl_fit_median(list->values, list->count).value;
        errors.sum_frac = list->predicted / list->measured - 1;
    }
    free(list->values);
    return errors;
}

/* Returns whether the network's product is also one of the fitted spread shapes. */
static bool is_spread(const dl_shapes *shapes, const dl_shape_product *product)
{
    for (size_t i = 0; i < shapes->count; i++) {
        const dl_shape_time *time = &shapes->times[i];
        if (time->step_count == 0 && time->product.pass == product->pass &&
            time->product.rows == product->rows && time->product.inputs == product->inputs &&
            time->product.outputs == product->outputs)
            return true;
    }
    return false;
}

/* Returns the errors of the fit at the network's products other than spread shapes, of one pass or
 * of all passes (pass -1). */
static dl_shape_errors judge(const dl_shapes *shapes, int pass)
{
    error_list list = {0};
    for (size_t i = 0; i < shapes->count; i++) {
        const dl_shape_time *time = &shapes->times[i];
        if (time->step_count == 0 || is_spread(shapes, &time->product)) continue;
        if (pass >= 0 && time->product.pass != (dl_product_pass)pass) continue;
        add_error(&list, i, fit_ns(&shapes->passes[time->product.pass], &time->product),
                  time->time_ns.value, (double)time->step_count);
    }
    return end_errors(&list);
}

static dl_status fit_pass(dl_shapes *shapes, dl_product_pass pass, dl_error *err)
{
    DL_AUTOFREE const dl_shape_time **times = dl_calloc(shapes->count + 1, sizeof *times, "shapes");
    DL_AUTOFREE size_t *places = dl_calloc(shapes->count + 1, sizeof *places, "shapes");
    problem p = {.times = times};
    for (size_t i = 0; i < shapes->count; i++) {
        if (shapes->times[i].step_count > 0 || shapes->times[i].product.pass != pass) continue;
        places[p.count] = i;
        times[p.count++] = &shapes->times[i];
    }
    dl_status status = DL_OK;
    if (p.count < SPREAD_MIN) {
        status = dl_error_set_at(err, DL_ERR_DATA, shapes->path, 0,
                                 "%zu spread shapes of products '%s', %d are needed: was dlprof "
                                 "bench shapes stopped?",
                                 p.count, dl_product_pass_names[pass], SPREAD_MIN);
    } else {
        dl_shape_fit *fit = &shapes->passes[pass];
        double(*logs)[NUMBERS] = dl_calloc(p.count, sizeof *logs, "fits"), whole[NUMBERS];
        error_list inside = {0};
        p.without = p.count;
        search(&p, whole);
        *fit = fit_at(whole);
        fit->shapes = p.count;
        for (p.without = 0; p.without < p.count; p.without++) {
            const dl_shape_time *time = times[p.without];
            search(&p, logs[p.without]);
            const dl_shape_fit other = fit_at(logs[p.without]);
            add_error(&inside, places[p.without], fit_ns(&other, &time->product),
                      time->time_ns.value, 1);
        }
        fit->inside = end_errors(&inside);
        set_number(&fit->flop_per_s, (const double(*)[NUMBERS])logs, p.count, FLOP);
        set_number(&fit->bytes_per_s, (const double(*)[NUMBERS])logs, p.count, BYTES);
        set_number(&fit->fixed_ns, (const double(*)[NUMBERS])logs, p.count, FIXED);
        free(logs);
    }
    return status;
}

/* --- moves, attention, the layer ------------------------------------------------------------- */

/* Points of a line: ns = fixed + x slope. */
typedef struct points {
    double *terms, *ns;
    size_t term_count, count;
} points;

static void add_point(points *to, double x, double ns)
{
    DL_APPEND(to->terms, to->term_count, "times") = 1;
    DL_APPEND(to->terms, to->term_count, "times") = x;
    DL_APPEND(to->ns, to->count, "times") = ns;
}

/* Fits the line by least squares of the relative residuals. Leaves the numbers 0 if the points give
 * no slope. */
static dl_status fit_line(const points *of, dl_shape_line *to, dl_error *err)
{
    dl_fit_line line = {0};
    DL_AUTOFREE double *none = dl_calloc(of->count + 1, sizeof *none, "errors");
    const dl_fit_problem two_terms = {
        .n = of->count, .p = 2, .terms = of->terms, .y = of->ns, .error = none, .scale = of->ns};
    const dl_status status = of->count >= 2 ? dl_fit_solve(&two_terms, &line, err) : DL_OK;
    if (status != DL_OK || !(line.coefficient[1] > 0)) return status;
    const double per_s = DL_NS_PER_S / line.coefficient[1];
    to->per_s = (dl_shape_number){.value = fmin(per_s, highest[BYTES]),
                                  .error_frac = line.error[1] / line.coefficient[1],
                                  .at_limit = per_s > highest[BYTES]};
    to->fixed_ns = (dl_shape_number){
        .value = line.coefficient[0],
        .error_frac = line.coefficient[0] > 0 ? line.error[0] / line.coefficient[0] : 0,
        .at_limit = line.held_at_zero[0]};
    for (size_t i = 0; i < of->count; i++) {
        const double ns = line.coefficient[0] + line.coefficient[1] * of->terms[2 * i + 1];
        to->inside_mean += fabs(ns / of->ns[i] - 1) / (double)of->count;
    }
    return DL_OK;
}

/* Mean relative error of the line at other points. */
static void judge_line(const points *of, dl_shape_line *line)
{
    line->left_out = of->count;
    for (size_t i = 0; i < of->count; i++) {
        const double ns =
            line->fixed_ns.value + of->terms[2 * i + 1] * DL_NS_PER_S / line->per_s.value;
        line->left_out_mean += fabs(ns / of->ns[i] - 1) / (double)of->count;
    }
}

/* Returns whether the name is `kind` or, with `both`, "KIND_backward". */
static bool is_kind(const char *name, const char *kind, bool both)
{
    const size_t length = strlen(kind);
    if (strncmp(name, kind, length) != 0) return false;
    return name[length] == '\0' || (both && strcmp(name + length, "_backward") == 0);
}

/* Flop of attention by the name of its record; 0: another kind of kernel. */
static double attention_flop(const char *name, bool backward)
{
    long long heads, tokens, size;
    int end = 0;
    const char *form =
        backward ? "attention_backward %lldx%lldx%lld%n" : "attention %lldx%lldx%lld%n";
    if (sscanf(name, form, &heads, &tokens, &size, &end) != 3 || name[end] != '\0') return 0;
    /* Two products over the unmasked half; backward five, as it computes the scores again. */
    return (backward ? 2.5 : 1) * 2 * (double)heads * (double)tokens * (double)tokens *
           (double)size;
}

/* Fits the records whose x is > 0; those of the network test the fit. */
static dl_status fit_kind(dl_shape_line *line, const dl_trace *trace,
                          double (*x_of)(const char *name, const dl_record *record, int which),
                          int which, dl_error *err)
{
    points spread = {0}, network = {0};
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        if (record->kind != DL_RECORD_BENCH || record->duration_ns <= 0) continue;
        const double x = x_of(dl_trace_name(trace, record), record, which);
        if (x > 0)
            add_point(record->samples > 0 ? &network : &spread, x, (double)record->duration_ns);
    }
    const dl_status status = fit_line(&spread, line, err);
    if (status == DL_OK && line->per_s.value > 0) judge_line(&network, line);
    free(spread.terms);
    free(spread.ns);
    free(network.terms);
    free(network.ns);
    return status;
}

static double moved_bytes(const char *name, const dl_record *record, int kind)
{
    return is_kind(name, dl_move_names[kind], kind != DL_MOVE_PLAIN) ? (double)record->bytes : 0;
}

static double flop_of_attention(const char *name, const dl_record *record DL_UNUSED, int backward)
{
    return attention_flop(name, backward > 0);
}

static dl_status fit_kinds(dl_shapes *shapes, const dl_trace *trace, dl_error *err)
{
    dl_status status = DL_OK;
    for (int kind = 0; status == DL_OK && kind < DL_MOVES; kind++)
        status = fit_kind(&shapes->moves[kind], trace, moved_bytes, kind, err);
    for (int pass = 0; status == DL_OK && pass < 2; pass++)
        status = fit_kind(&shapes->attention[pass], trace, flop_of_attention, pass, err);
    if (status == DL_OK && !(shapes->moves[DL_MOVE_PLAIN].per_s.value > 0)) {
        status = dl_error_set_at(err, DL_ERR_DATA, shapes->path, 0,
                                 "no rate of data movement: was dlprof bench shapes stopped?");
    }
    return status;
}

/* A round: the sum of a layer's kernels, and the times of the layer. */
typedef struct layer_round {
    double sum_ns;
    int kernels;
    double *layers;
    size_t layer_count;
} layer_round;

/* Computes the sustained factor: the median over rounds of (median time of the layer) / (sum of its
 * kernels' times one by one). A round that was stopped early does not count. Each round has a
 * record, so a trace has no more rounds than records. */
static dl_status take_layer(dl_shapes *shapes, const dl_trace *trace, dl_error *err)
{
    DL_AUTOFREE layer_round *rounds = NULL;
    DL_AUTOFREE double *ratios = NULL, *launches = NULL;
    size_t count = 0, ratio_count = 0, launch_count = 0;
    int most = 0;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        const char *name = dl_trace_name(trace, record);
        const double ns = (double)record->duration_ns;
        if (record->kind != DL_RECORD_BENCH) continue;
        if (record->step >= trace->record_count) {
            for (size_t r = 0; r < count; r++)
                free(rounds[r].layers);
            return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                                   "a record is of round %" PRIu32 ", but the trace has %zu "
                                   "records: it is damaged",
                                   record->step, trace->record_count);
        }
        while (count <= record->step)
            DL_APPEND(rounds, count, "rounds") = (layer_round){0};
        layer_round *round = &rounds[record->step];
        round->sum_ns += record->vectors * ns;
        round->kernels += (int)record->vectors;
        if (round->kernels > most) most = round->kernels;
        if (strcmp(name, "layer") == 0) DL_APPEND(round->layers, round->layer_count, "layers") = ns;
        if (strcmp(name, "launch") == 0 && record->samples > 0)
            DL_APPEND(launches, launch_count, "launches") = ns / record->samples;
    }
    for (size_t r = 0; r < count; r++) {
        if (rounds[r].kernels == most && most > 0 && rounds[r].layer_count > 0)
            DL_APPEND(ratios, ratio_count, "ratios") =
                dl_fit_median(rounds[r].layers, rounds[r].layer_count).value / rounds[r].sum_ns;
        free(rounds[r].layers);
    }
    if (ratio_count > 0) shapes->sustained = dl_fit_median(ratios, ratio_count);
    if (launch_count > 0) shapes->launch_ns = dl_fit_median(launches, launch_count);
    shapes->layer_kernels = most;
    return DL_OK;
}

static double median_drift(const dl_shapes *shapes)
{
    DL_AUTOFREE double *drifts = NULL;
    size_t count = 0;
    for (size_t i = 0; i < shapes->count; i++)
        if (shapes->times[i].step_count == 0)
            DL_APPEND(drifts, count, "drifts") = shapes->times[i].drift;
    return count > 0 ? dl_fit_median(drifts, count).value : 1;
}

dl_status dl_shapes_fit(dl_shapes *shapes, const dl_trace *trace, dl_error *err)
{
    const int arithmetic =
        dl_names_find(dl_trace_meta_text(trace, "arithmetic"), dl_arithmetic_names, DL_FP16);
    if (strcmp(dl_trace_meta_text(trace, "kind"), "shapes") != 0 || arithmetic < 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "it is not a trace of dlprof bench shapes");
    }
    *shapes = (dl_shapes){
        .path = trace->path,
        .device = dl_trace_meta_text(trace, "device"),
        .workload = dl_trace_meta_text(trace, "workload"),
        .batch = dl_trace_meta_text(trace, "batch"),
        .layer_note = dl_trace_meta_text(trace, "layer_note"),
        .on_cores = strcmp(dl_trace_meta_text(trace, "where"), "cores") == 0,
        .arithmetic = (dl_arithmetic)arithmetic,
        .threads = strtoll(dl_trace_meta_text(trace, "threads"), NULL, 10),
        .others_frac = strtod(dl_trace_meta_text(trace, "others_permille"), NULL) / 1000,
        .memory_bytes = strtod(dl_trace_meta_text(trace, "device_memory_bytes"), NULL)};
    take_times(shapes, trace);
    dl_status status = DL_OK;
    for (int pass = 0; status == DL_OK && pass < DL_PRODUCT_PASSES; pass++)
        status = fit_pass(shapes, (dl_product_pass)pass, err);
    if (status == DL_OK) status = fit_kinds(shapes, trace, err);
    if (status == DL_OK) status = take_layer(shapes, trace, err);
    if (status != DL_OK) return status;
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++)
        shapes->passes[pass].left_out = judge(shapes, pass);
    shapes->all = judge(shapes, -1);
    shapes->drift = median_drift(shapes);
    return DL_OK;
}

void dl_shapes_free(dl_shapes *shapes)
{
    free(shapes->times);
    *shapes = (dl_shapes){0};
}
