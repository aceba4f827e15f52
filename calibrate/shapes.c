#include "calibrate/shapes.h"

#include <gsl/gsl_multimin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/rows.h"
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
    sample *samples = NULL;
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
    free(samples);
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
    const dl_shape_time **times = dl_calloc(shapes->count + 1, sizeof *times, "shapes");
    size_t *places = dl_calloc(shapes->count + 1, sizeof *places, "shapes");
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
    free(times);
    free(places);
    return status;
}

/* --- moves ----------------------------------------------------------------------------------- */

/* Fits time = move_ns + bytes / move_bytes_per_s to the data-movement samples ("move"), by least
 * squares of the relative residuals. */
static dl_status fit_moves(dl_shapes *shapes, const dl_trace *trace, dl_error *err)
{
    double *terms = NULL, *values = NULL;
    size_t term_count = 0, count = 0;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        if (record->kind != DL_RECORD_BENCH || record->duration_ns <= 0 ||
            strcmp(dl_trace_name(trace, record), "move") != 0)
            continue;
        DL_APPEND(terms, term_count, "moves") = 1;
        DL_APPEND(terms, term_count, "moves") = (double)record->bytes;
        DL_APPEND(values, count, "moves") = (double)record->duration_ns;
    }
    double *none = dl_calloc(count + 1, sizeof *none, "errors");
    const dl_fit_problem line_problem = {
        .n = count, .p = 2, .terms = terms, .y = values, .error = none, .scale = values};
    dl_fit_line line = {0};
    dl_status status = count >= 2 ? dl_fit_solve(&line_problem, &line, err) : DL_OK;
    if (status == DL_OK && !(line.coefficient[1] > 0)) {
        status = dl_error_set_at(err, DL_ERR_DATA, shapes->path, 0,
                                 "no rate of data movement: was dlprof bench shapes stopped?");
    }
    if (status == DL_OK) {
        shapes->move_bytes_per_s =
            (dl_shape_number){.value = DL_NS_PER_S / line.coefficient[1],
                              .error_frac = line.error[1] / line.coefficient[1]};
        shapes->move_ns = (dl_shape_number){
            .value = line.coefficient[0],
            .error_frac = line.coefficient[0] > 0 ? line.error[0] / line.coefficient[0] : 0,
            .at_limit = line.held_at_zero[0]};
    }
    free(terms);
    free(values);
    free(none);
    return status;
}

static double median_drift(const dl_shapes *shapes)
{
    double *drifts = NULL;
    size_t count = 0;
    for (size_t i = 0; i < shapes->count; i++)
        if (shapes->times[i].step_count == 0)
            DL_APPEND(drifts, count, "drifts") = shapes->times[i].drift;
    const double median = count > 0 ? dl_fit_median(drifts, count).value : 1;
    free(drifts);
    return median;
}

/* Returns the value of a key of the trace; "" if it has none. */
static const char *meta(const dl_trace *trace, const char *key)
{
    const char *text = dl_trace_meta(trace, key);
    return text != NULL ? text : "";
}

dl_status dl_shapes_fit(dl_shapes *shapes, const dl_trace *trace, dl_error *err)
{
    const int arithmetic = dl_names_find(meta(trace, "arithmetic"), dl_arithmetic_names, DL_FP16);
    if (strcmp(meta(trace, "kind"), "shapes") != 0 || arithmetic < 0) {
        return dl_error_set_at(err, DL_ERR_DATA, trace->path, 0,
                               "it is not a trace of dlprof bench shapes");
    }
    *shapes = (dl_shapes){.path = trace->path,
                          .device = meta(trace, "device"),
                          .workload = meta(trace, "workload"),
                          .batch = meta(trace, "batch"),
                          .on_cores = strcmp(meta(trace, "where"), "cores") == 0,
                          .arithmetic = (dl_arithmetic)arithmetic,
                          .threads = strtoll(meta(trace, "threads"), NULL, 10),
                          .memory_bytes = strtod(meta(trace, "device_memory_bytes"), NULL)};
    take_times(shapes, trace);
    dl_status status = DL_OK;
    for (int pass = 0; status == DL_OK && pass < DL_PRODUCT_PASSES; pass++)
        status = fit_pass(shapes, (dl_product_pass)pass, err);
    if (status == DL_OK) status = fit_moves(shapes, trace, err);
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

/* --- report ---------------------------------------------------------------------------------- */

/* Formats "84.1 G +- 1.2 %"; "-" if the shapes do not determine the number. The caller frees it. */
static char *number_text(const dl_shape_number *number, dl_dimension dimension)
{
    char text[64];
    if (number->at_limit) return dl_strdup("-");
    return dl_format("%s +- %.2g %%", dl_amount_text(text, sizeof text, number->value, dimension),
                     100 * number->error_frac);
}

static void print_fits(const dl_shapes *shapes, FILE *out)
{
    dl_rows rows = {.out = out};
    dl_rows_begin(&rows, "passes", "times of products by three numbers each");
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        const dl_shape_fit *fit = &shapes->passes[pass];
        char *flop = number_text(&fit->flop_per_s, DL_DIMENSION_FLOP_PER_S),
             *bytes = number_text(&fit->bytes_per_s, DL_DIMENSION_BYTES_PER_S),
             *fixed = number_text(&fit->fixed_ns, DL_DIMENSION_NS);
        dl_rows_add(&rows,
                    "pass=%-s flop_per_s|flop a second=%s bytes_per_s|bytes a second=%s "
                    "fixed_ns|each=%s shapes=%zu inside_mean|mean %% left out=%.1f "
                    "inside_max|max=%.1f",
                    dl_product_pass_names[pass], flop, bytes, fixed, fit->shapes,
                    100 * fit->inside.mean, 100 * fit->inside.max);
        free(flop);
        free(bytes);
        free(fixed);
    }
    dl_rows_end(&rows, 0);
}

static void add_errors(dl_rows *rows, const dl_shapes *shapes, const char *name,
                       const dl_shape_errors *e)
{
    char worst[DL_SHAPE_NAME_BYTES];
    dl_rows_add(rows,
                "pass=%-s products=%zu mean_frac|mean=%.1f%% median_frac|median=%.1f%% "
                "max_frac|max=%.1f%% sum_frac|of a step's sum=%+.1f%% worst|at=%-s",
                name, e->count, e->mean, e->median, e->max, e->sum_frac,
                dl_shape_name(worst, &shapes->times[e->worst].product));
}

static void print_left_out(const dl_shapes *shapes, FILE *out)
{
    dl_rows rows = {.out = out};
    if (shapes->all.count == 0) {
        fputs("\nno product of a network was left out to judge the fit\n", out);
        return;
    }
    char *title = dl_format("errors on the products of %s, batch %s, which the fit does not use",
                            shapes->workload, shapes->batch);
    dl_rows_begin(&rows, "left_out", title);
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++)
        if (shapes->passes[pass].left_out.count > 0)
            add_errors(&rows, shapes, dl_product_pass_names[pass], &shapes->passes[pass].left_out);
    add_errors(&rows, shapes, "all", &shapes->all);
    dl_rows_end(&rows, 0);
    free(title);
}

void dl_shapes_print(const dl_shapes *shapes, FILE *out)
{
    fprintf(out, "%s, ", shapes->device);
    if (shapes->on_cores)
        fprintf(out, "%lld core%s, ", (long long)shapes->threads, shapes->threads > 1 ? "s" : "");
    fprintf(out, "%s\n", dl_arithmetic_names[shapes->arithmetic]);
    print_fits(shapes, out);
    print_left_out(shapes, out);
    char *rate = number_text(&shapes->move_bytes_per_s, DL_DIMENSION_BYTES_PER_S),
         *each = number_text(&shapes->move_ns, DL_DIMENSION_NS);
    fprintf(out,
            "\ndata is moved at %s, each time with %s; spread shapes at the end take %.3f of "
            "their time at the start\n",
            rate, each, shapes->drift);
    free(rate);
    free(each);
}

/* --- machine file ---------------------------------------------------------------------------- */

static char *kernels_text(const dl_shapes *shapes, const char *model)
{
    char *text = dl_format("; Fitted by dlcal shapes to %s: %s, %s of %s. Relative standard errors "
                           "of flop rate, byte\n"
                           "; rate and fixed time in %%, and errors of the products of %s (batch "
                           "%s), which the fit has "
                           "not seen.\n[kernels %s %s]\n",
                           shapes->path, shapes->device, dl_arithmetic_names[shapes->arithmetic],
                           shapes->on_cores ? "its cores" : "the GPU", shapes->workload,
                           shapes->batch, model, dl_arithmetic_names[shapes->arithmetic]);
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        const char *name = dl_product_pass_names[pass];
        const dl_shape_fit *f = &shapes->passes[pass];
        dl_extend(&text,
                  "; %.2g, %.2g, %.2g; left out %.1f mean, %.1f median, %.1f max\n"
                  "%s_flop_per_s = %.6gflop/s, fitted\n%s_bytes_per_s = %.6gB/s, fitted\n"
                  "%s_ns = %.6gns, fitted\n",
                  100 * f->flop_per_s.error_frac, 100 * f->bytes_per_s.error_frac,
                  100 * f->fixed_ns.error_frac, 100 * f->left_out.mean, 100 * f->left_out.median,
                  100 * f->left_out.max, name, f->flop_per_s.value, name, f->bytes_per_s.value,
                  name, f->fixed_ns.value);
    }
    char *whole =
        dl_format("%s; %.2g, %.2g\nmove_bytes_per_s = %.6gB/s, fitted\nmove_ns = %.6gns, fitted\n",
                  text, 100 * shapes->move_bytes_per_s.error_frac, 100 * shapes->move_ns.error_frac,
                  shapes->move_bytes_per_s.value, shapes->move_ns.value);
    free(text);
    return whole;
}

/* Returns the text of a machine whose only device consists of the cores that the bench used. */
static char *cores_text(const dl_shapes *shapes)
{
    const double rate = shapes->move_bytes_per_s.value;
    return dl_format("; The cores that dlprof bench shapes used, as one device.\n[machine]\n"
                     "schema = 1\nname = %lld cores of %s\npeer = none\n\n[gpu_model cores]\n"
                     "memory_bytes = %.6g, measured\nmemory_bytes_per_s = %.6gB/s, fitted\n"
                     "fp32_flop_per_s = %.6gflop/s, fitted\n\n"
                     "[link memory]\nbytes_per_s = %.6gB/s, fitted\nlatency_ns = 0ns, assumed\n\n"
                     "[host]\nmemory_bytes_per_s = %.6gB/s, fitted\n\n"
                     "[gpus 0]\nmodel = cores\nparent = socket0\nlink = memory\n",
                     (long long)shapes->threads, shapes->device, shapes->memory_bytes, rate,
                     shapes->passes[DL_PRODUCT_FORWARD].flop_per_s.value, rate, rate);
}

dl_status dl_shapes_machine(const dl_shapes *shapes, const char *base, const char *base_name,
                            char **text, dl_error *err)
{
    char *before = NULL;
    dl_machine machine = {0};
    dl_status status = DL_OK;
    if (base == NULL && !shapes->on_cores) {
        return dl_error_set(
            err, DL_ERR_USAGE,
            "--machine is needed: a machine with this GPU (%s), to which its kernels are added",
            shapes->device);
    }
    before = base != NULL ? dl_strdup(base) : cores_text(shapes);
    status = dl_machine_read_text(&machine, base_name, before, strlen(before), err);
    if (status == DL_OK && machine.model_count != 1) {
        status = dl_error_set_at(err, DL_ERR_DATA, base_name, 0,
                                 "it has %d [gpu_model]s: one is needed, that of the trace",
                                 machine.model_count);
    }
    if (status == DL_OK && machine.models[0].kernels[shapes->arithmetic].known) {
        status = dl_error_set_at(err, DL_ERR_DATA, base_name, 0, "it has [kernels %s %s] already",
                                 machine.models[0].name, dl_arithmetic_names[shapes->arithmetic]);
    }
    if (status == DL_OK) {
        char *kernels = kernels_text(shapes, machine.models[0].name);
        *text = dl_format("%s\n%s", before, kernels);
        free(kernels);
    }
    dl_machine_free(&machine);
    free(before);
    if (status != DL_OK) return status;
    /* Check that dlsim can read the machine file. */
    dl_machine written = {0};
    status = dl_machine_read_text(&written, base_name, *text, strlen(*text), err);
    dl_machine_free(&written);
    if (status != DL_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}
