/* Each kind of layer alone: gradients compared with finite differences, float with double, and
 * values with results worked out by hand or by plain loops of the definition. */
#include <stdlib.h>

#include "kernels/layers/layer.h"
#include "tests/check.h"
#include "tests/kernels/layer_cases.h"
#include "tests/near.h"

/* A layer with separate memory. Values are kept and exchanged as double in both precisions. */
typedef struct layer_rig {
    dl_layer layer;
    int batch;
    size_t in_count, out_count; /* over the whole batch */
    double *input, *weights;    /* the loss is sum(weights * output) */
    double *other;              /* second operand of an addition */
    int32_t *labels;
} layer_rig;

static void store(const layer_rig *rig, void *to, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rig->layer.backend->precision == DL_DOUBLE) {
            ((double *)to)[i] = from[i];
        } else {
            ((float *)to)[i] = (float)from[i];
        }
    }
}

static double load(const layer_rig *rig, const void *from, size_t i)
{
    return rig->layer.backend->precision == DL_DOUBLE ? ((const double *)from)[i]
                                                      : (double)((const float *)from)[i];
}

static double *load_all(const layer_rig *rig, const void *from, size_t count)
{
    double *values = dl_calloc(count, sizeof *values, "test");
    for (size_t i = 0; i < count; i++)
        values[i] = load(rig, from, i);
    return values;
}

/* Returns normal numbers that float represents exactly, so that both precisions use the same
 * values. */
static double *draw(dl_random *random, size_t count)
{
    double *values = dl_calloc(count, sizeof *values, "test");
    for (size_t i = 0; i < count; i++)
        values[i] = (double)(float)dl_random_normal(random);
    return values;
}

static void rig_allocate(layer_rig *rig)
{
    dl_layer *layer = &rig->layer;
    const dl_backend *backend = layer->backend;
    const size_t bytes = dl_precision_bytes(backend->precision);
    layer->parameters = backend->allocate(layer->parameter_count * bytes, "test");
    layer->gradients = backend->allocate(layer->parameter_count * bytes, "test");
    layer->input = backend->allocate(rig->in_count * bytes, "test");
    layer->input_gradient = backend->allocate(rig->in_count * bytes, "test");
    layer->output = layer->input;
    layer->output_gradient = layer->input_gradient;
    if (!layer->type->in_place) {
        layer->output = backend->allocate(rig->out_count * bytes, "test");
        layer->output_gradient = backend->allocate(rig->out_count * bytes, "test");
    }
    layer->state = backend->allocate(layer->state_bytes, "test");
    layer->scratch = backend->allocate(layer->scratch_bytes, "test");
    layer->labels = rig->labels;
    void *other = backend->allocate(rig->in_count * bytes, "test");
    store(rig, other, rig->other, rig->in_count);
    layer->other = other;
}

static void rig_init(layer_rig *rig, const dl_layer_spec *spec, dl_shape in, int batch,
                     dl_precision precision)
{
    dl_random random;
    dl_random_init(&random, 7, 0, 0, 0);
    memset(rig, 0, sizeof *rig);
    rig->batch = batch;
    rig->layer = (dl_layer){.spec = spec,
                            .backend = dl_backend_cpu(precision),
                            .in = in,
                            .max_batch = batch,
                            .wants_input_gradient = true,
                            .training = true};
    assert_int_equal(rig->layer.backend->start(NULL), DL_OK);
    dl_layer_plan(&rig->layer);
    rig->in_count = (size_t)batch * dl_shape_count(in);
    rig->out_count = (size_t)batch * dl_shape_count(rig->layer.out);
    rig->input = draw(&random, rig->in_count);
    rig->weights = draw(&random, rig->out_count);
    rig->other = draw(&random, rig->in_count);
    rig->labels = dl_calloc((size_t)batch, sizeof *rig->labels, "test");
    for (int i = 0; i < batch; i++) {
        rig->labels[i] = (int32_t)dl_random_below(&random, dl_shape_count(in));
    }
    rig_allocate(rig);
    DL_AUTOFREE double *parameters = draw(&random, rig->layer.parameter_count);
    store(rig, rig->layer.parameters, parameters, rig->layer.parameter_count);
}

static void rig_free(layer_rig *rig)
{
    dl_layer *layer = &rig->layer;
    if (!layer->type->in_place) {
        layer->backend->release(layer->output);
        layer->backend->release(layer->output_gradient);
    }
    layer->backend->release(layer->parameters);
    layer->backend->release(layer->gradients);
    layer->backend->release(layer->input);
    layer->backend->release(layer->input_gradient);
    layer->backend->release(layer->state);
    layer->backend->release(layer->scratch);
    layer->backend->release((void *)layer->other);
    free(rig->input);
    free(rig->weights);
    free(rig->other);
    free(rig->labels);
}

static bool is_loss(const layer_rig *rig)
{
    return strcmp(rig->layer.type->name, "softmax") == 0;
}

/* Runs forward on rig->input; returns the loss. */
static double rig_forward(layer_rig *rig)
{
    double loss = 0;
    store(rig, rig->layer.input, rig->input, rig->in_count);
    rig->layer.type->forward(&rig->layer, rig->batch);
    if (is_loss(rig)) {
        assert_int_equal(rig->layer.type->result(&rig->layer, rig->batch, NULL), DL_OK);
        return rig->layer.loss;
    }
    for (size_t i = 0; i < rig->out_count; i++) {
        loss += rig->weights[i] * load(rig, rig->layer.output, i);
    }
    return loss;
}

static void rig_backward(layer_rig *rig)
{
    store(rig, rig->layer.output_gradient, rig->weights, rig->out_count);
    rig->layer.type->backward(&rig->layer, rig->batch);
}

/* Returns the gradient by central differences. With numbers of size 1 and h = 1e-5 the difference
 * has an error of h^2 = 1e-10 and a rounding error of 1e-15 |loss| / h, |loss| < 1e3: 1e-7. */
static double difference(layer_rig *rig, double *at)
{
    const double h = 1e-5, middle = *at;
    *at = middle + h;
    const double above = rig_forward(rig);
    *at = middle - h;
    const double below = rig_forward(rig);
    *at = middle;
    return (above - below) / (2 * h);
}

enum { CHECKS = 200 };

/* Compares at most CHECKS entries of gradient[count], evenly spread from first to last, with
 * differences. */
static void check_gradient(layer_rig *rig, const char *what, double *values, const double *gradient,
                           size_t count)
{
    const double scale = rms(gradient, count);
    const size_t checks = count < CHECKS ? count : CHECKS;
    for (size_t k = 0; k < checks; k++) {
        const size_t i = checks > 1 ? k * (count - 1) / (checks - 1) : 0;
        if (!near_scaled(gradient[i], difference(rig, &values[i]), scale, 1e-6)) {
            fail_msg("%s, %s gradient %zu", rig->layer.spec->name, what, i);
        }
    }
}

/* All layers in double: the gradients of input and parameters against finite differences. */
static void gradients_match_finite_differences(void **state DL_UNUSED)
{
    for (int i = 0; i < CASE_COUNT; i++) {
        DL_AUTO(rig_free) layer_rig rig;
        rig_init(&rig, &cases[i].spec, cases[i].in, cases[i].batch, DL_DOUBLE);
        (void)rig_forward(&rig);
        rig_backward(&rig);
        const size_t count = rig.layer.parameter_count;
        DL_AUTOFREE double *input_gradient = load_all(&rig, rig.layer.input_gradient, rig.in_count);
        DL_AUTOFREE double *gradients = load_all(&rig, rig.layer.gradients, count);
        check_gradient(&rig, "input", rig.input, input_gradient, rig.in_count);
        check_gradient(&rig, "parameter", rig.layer.parameters, gradients, count);
    }
}

static void check_same(const layer_rig *a, const void *from_a, const layer_rig *b,
                       const void *from_b, size_t count, const char *what)
{
    DL_AUTOFREE double *x = load_all(a, from_a, count), *y = load_all(b, from_b, count);
    if (!near_all(x, y, count, 1e-4)) fail_msg("%s, %s", a->layer.spec->name, what);
}

/* Both precisions give the same numbers: float has a precision of 1e-7, sums of some hundred terms
 * 1e-5. */
static void float_matches_double(void **state DL_UNUSED)
{
    for (int i = 0; i < CASE_COUNT; i++) {
        DL_AUTO(rig_free) layer_rig single, twofold;
        rig_init(&single, &cases[i].spec, cases[i].in, cases[i].batch, DL_FLOAT);
        rig_init(&twofold, &cases[i].spec, cases[i].in, cases[i].batch, DL_DOUBLE);
        const double loss = rig_forward(&twofold);
        assert_true(near_scaled(rig_forward(&single), loss, 1, 1e-4));
        check_same(&single, single.layer.output, &twofold, twofold.layer.output, single.out_count,
                   "output");
        rig_backward(&single);
        rig_backward(&twofold);
        check_same(&single, single.layer.input_gradient, &twofold, twofold.layer.input_gradient,
                   single.in_count, "input gradient");
        check_same(&single, single.layer.gradients, &twofold, twofold.layer.gradients,
                   single.layer.parameter_count, "parameter gradient");
    }
}

/* Computes one output of a convolution by its definition. */
static double conv_at(const layer_rig *rig, int sample, int row, int column, int unit)
{
    const dl_layer_spec *spec = rig->layer.spec;
    const dl_shape in = rig->layer.in;
    const int window = spec->kernel * spec->kernel * in.channels;
    const double *parameters = rig->layer.parameters;
    double sum = spec->no_bias ? 0 : parameters[spec->units * window + unit];
    for (int w = 0; w < window; w++) {
        const int c = w % in.channels;
        const int kx = w / in.channels % spec->kernel, ky = w / in.channels / spec->kernel;
        const int y = row * dl_layer_stride(&rig->layer) - spec->padding + ky;
        const int x = column * dl_layer_stride(&rig->layer) - spec->padding + kx;
        if (y < 0 || y >= in.rows || x < 0 || x >= in.columns) continue;
        const int pixel = (sample * in.rows + y) * in.columns + x;
        sum += rig->input[pixel * in.channels + c] * parameters[unit * window + w];
    }
    return sum;
}

/* Every output of all kinds of convolution compared with plain loops. */
static void conv_follows_its_definition(void **state DL_UNUSED)
{
    int checked = 0;
    for (int i = 0; i < CASE_COUNT; i++) {
        if (strcmp(cases[i].spec.kind, "conv") != 0) continue;
        DL_AUTO(rig_free) layer_rig rig;
        rig_init(&rig, &cases[i].spec, cases[i].in, cases[i].batch, DL_DOUBLE);
        (void)rig_forward(&rig);
        const dl_shape out = rig.layer.out;
        for (int at = 0; at < (int)rig.out_count; at++) {
            const int pixel = at / out.channels;
            const int sample = pixel / (out.rows * out.columns);
            const double expected = conv_at(&rig, sample, pixel / out.columns % out.rows,
                                            pixel % out.columns, at % out.channels);
            assert_true(near_scaled(load(&rig, rig.layer.output, (size_t)at), expected, 1, 1e-12));
        }
        checked++;
    }
    assert_int_equal(checked, 17);
}

/* Sides of 7, 8 and 224 pixels through the windows of the large models (Dumoulin & Visin 2016,
 * relationship 6). */
static void windows_are_counted_as_usual(void **state DL_UNUSED)
{
    assert_int_equal(dl_window_count(8, 5, 1, 0), 4);
    assert_int_equal(dl_window_count(7, 3, 1, 1), 7);
    assert_int_equal(dl_window_count(7, 2, 2, 0), 3);
    assert_int_equal(dl_window_count(224, 7, 2, 3), 112);
    assert_int_equal(dl_window_count(112, 3, 2, 1), 56);
    assert_int_equal(dl_window_count(56, 1, 2, 0), 28);
}

/* Backward with `accumulates` adds to the old values, for each kind of convolution. */
static void second_reader_adds_its_gradient(void **state DL_UNUSED)
{
    for (int i = 0; i < CASE_COUNT; i++) {
        if (strcmp(cases[i].spec.kind, "conv") != 0) continue;
        DL_AUTO(rig_free) layer_rig rig;
        rig_init(&rig, &cases[i].spec, cases[i].in, cases[i].batch, DL_DOUBLE);
        (void)rig_forward(&rig);
        rig_backward(&rig);
        DL_AUTOFREE double *expected = load_all(&rig, rig.layer.input_gradient, rig.in_count);
        rig.layer.accumulates = true;
        rig_backward(&rig);
        for (size_t k = 0; k < rig.in_count; k++)
            expected[k] *= 2;
        if (!near_all(rig.layer.input_gradient, expected, rig.in_count, 1e-14)) {
            fail_msg("%s", rig.layer.spec->name);
        }
    }
}

/* A 3x3 image with values 1..9 and one border of padding, windows of 3 every 2 pixels: 2x2 outputs
 * 5 6 8 9, whose positions are counted from their window's corner: 5 is at (2,2) of the first, 6 at
 * (2,1) of the second, 8 at (1,2), 9 at (1,1). All values are lowered below 0: padding must not
 * win. */
static void pool_takes_nothing_from_beyond_the_edge(void **state DL_UNUSED)
{
    const dl_layer_spec spec = {
        .name = "pool", .kind = "max_pool", .kernel = 3, .stride = 2, .padding = 1};
    DL_AUTO(rig_free) layer_rig rig;
    rig_init(&rig, &spec, (dl_shape){3, 3, 1}, 1, DL_DOUBLE);
    for (int i = 0; i < 9; i++)
        rig.input[i] = i + 1 - 100;
    (void)rig_forward(&rig);
    assert_true(near_all(rig.layer.output, (double[]){-95, -94, -92, -91}, 4, 0));
    assert_memory_equal(rig.layer.state, ((int32_t[]){8, 7, 5, 4}), 4 * sizeof(int32_t));
    memcpy(rig.weights, (double[]){1, 2, 3, 4}, 4 * sizeof(double));
    rig_backward(&rig);
    assert_true(near_all(rig.layer.input_gradient, (double[]){0, 0, 0, 0, 1, 2, 0, 3, 4}, 9, 0));
}

/* Two samples of 2 x 1 pixels and two channels: means 2 3 and 6 7; a gradient of 4 gives 2 per
 * pixel. */
static void means_are_of_each_channels_pixels(void **state DL_UNUSED)
{
    const dl_backend *backend = dl_backend_cpu(DL_DOUBLE);
    const double x[] = {1, 2, 3, 4, 5, 6, 7, 8}, dy[] = {4, 8, 12, 16};
    double y[4], dx[8];
    backend->mean_pixels(2, 2, 2, x, y);
    assert_true(near_all(y, (double[]){2, 3, 6, 7}, 4, 1e-15));
    backend->mean_pixels_backward(2, 2, 2, dy, dx);
    assert_true(near_all(dx, (double[]){2, 4, 2, 4, 6, 8, 6, 8}, 8, 1e-15));
}

/* In single precision, with values that it represents exactly: (1 2 | 3 4) with one border of zeros
 * and windows of 2 every 2 pixels; each window then contains one pixel, 1 at its last position, 2
 * at its third, 3 at its second, 4 at its first. */
static void conv_in_float_gives_closed_values(void **state DL_UNUSED)
{
    const dl_layer_spec spec = {.name = "conv",
                                .kind = "conv",
                                .units = 1,
                                .kernel = 2,
                                .stride = 2,
                                .padding = 1,
                                .no_bias = true};
    DL_AUTO(rig_free) layer_rig rig;
    rig_init(&rig, &spec, (dl_shape){2, 2, 1}, 1, DL_FLOAT);
    memcpy(rig.input, (double[]){1, 2, 3, 4}, 4 * sizeof(double));
    memcpy(rig.layer.parameters, (float[]){10, 20, 30, 40}, 4 * sizeof(float));
    (void)rig_forward(&rig);
    memcpy(rig.weights, (double[]){1, 2, 3, 4}, 4 * sizeof(double));
    rig_backward(&rig);
    const float *y = rig.layer.output, *dw = rig.layer.gradients, *dx = rig.layer.input_gradient;
    assert_memory_equal(y, ((float[]){40, 60, 60, 40}), 4 * sizeof(float));
    assert_memory_equal(dw, ((float[]){16, 9, 4, 1}), 4 * sizeof(float));
    assert_memory_equal(dx, ((float[]){40, 60, 60, 40}), 4 * sizeof(float));
}

/* 2x6 image, one channel:  1 5 | 2 2 | 0 1    maxima: 5, the second; 2, the first of four equal
 * ones; 3 4 | 2 2 | 6 6    6, the third of two. dy = 10, 20, 30 goes to these. */
static void pool_picks_the_first_of_equal_maxima(void **state DL_UNUSED)
{
    const dl_layer_spec spec = {.name = "pool", .kind = "max_pool", .kernel = 2, .stride = 2};
    const double image[] = {1, 5, 2, 2, 0, 1, 3, 4, 2, 2, 6, 6};
    const double gradient[] = {0, 10, 20, 0, 0, 0, 0, 0, 0, 0, 30, 0};
    DL_AUTO(rig_free) layer_rig rig;
    rig_init(&rig, &spec, (dl_shape){2, 6, 1}, 1, DL_DOUBLE);
    memcpy(rig.input, image, sizeof image);
    (void)rig_forward(&rig);
    assert_true(near_all(rig.layer.output, (double[]){5, 2, 6}, 3, 0));
    memcpy(rig.weights, (double[]){10, 20, 30}, 3 * sizeof(double));
    rig_backward(&rig);
    assert_true(near_all(rig.layer.input_gradient, gradient, 12, 0));
}

static void relu_has_no_gradient_at_zero(void **state DL_UNUSED)
{
    const dl_layer_spec spec = {.name = "relu", .kind = "relu"};
    DL_AUTO(rig_free) layer_rig rig;
    rig_init(&rig, &spec, (dl_shape){1, 1, 3}, 1, DL_DOUBLE);
    memcpy(rig.input, (double[]){-2, 0, 3}, 3 * sizeof(double));
    (void)rig_forward(&rig);
    assert_true(near_all(rig.layer.output, (double[]){0, 0, 3}, 3, 0));
    memcpy(rig.weights, (double[]){7, 8, 9}, 3 * sizeof(double));
    rig_backward(&rig);
    assert_true(near_all(rig.layer.input_gradient, (double[]){0, 0, 9}, 3, 0));
}

/* One channel, batch 1, 3, 5, 7: mean 4, variance 5 (over 4) or 20/3 (over 3). Running statistics
 * start at 0 and 1: after one batch 0.1 * 4 and 0.9 + 0.1 * 20/3. With scale 2 and shift 1, outside
 * training x = 3 gives 2 (3 - 0.4) / sqrt(0.9 + 2/3 + 1e-5) + 1. */
static void batch_norm_keeps_running_statistics(void **state DL_UNUSED)
{
    const dl_layer_spec spec = {.name = "norm", .kind = "batch_norm"};
    const double values[] = {1, 3, 5, 7};
    DL_AUTO(rig_free) layer_rig rig;
    dl_random random;
    rig_init(&rig, &spec, (dl_shape){1, 1, 1}, 4, DL_DOUBLE);
    dl_random_init(&random, 1, 0, 0, 0);
    rig.layer.type->init(&rig.layer, rig.layer.parameters, rig.layer.state, &random);
    memcpy(rig.input, values, sizeof values);
    memcpy(rig.layer.parameters, (double[]){2, 1}, 2 * sizeof(double));
    (void)rig_forward(&rig);
    const double deviation = sqrt(5 + 1e-5), *norm = rig.layer.state, *y = rig.layer.output;
    assert_true(near_all(norm, (double[]){4, 1 / deviation, 0.4, 0.9 + 2.0 / 3}, 4, 1e-14));
    assert_true(near_scaled(y[1], 2 * (3 - 4) / deviation + 1, 1, 1e-14));
    rig.layer.training = false;
    (void)rig_forward(&rig);
    assert_true(near_scaled(y[1], 2 * (3 - 0.4) / sqrt(0.9 + 2.0 / 3 + 1e-5) + 1, 1, 1e-14));
    assert_true(near_scaled(norm[2], 0.4, 1, 1e-14));
}

/* Two samples of two classes, with scores far beyond the range of exp. Equal scores: probability
 * 1/2, loss ln 2. Scores 1000 and 998 with label 1: loss 2 + ln(1 + e^-2), class missed. */
static void softmax_survives_large_scores(void **state DL_UNUSED)
{
    const dl_layer_spec spec = {.name = "loss", .kind = "softmax"};
    DL_AUTO(rig_free) layer_rig rig;
    rig_init(&rig, &spec, (dl_shape){1, 1, 2}, 2, DL_DOUBLE);
    memcpy(rig.input, (double[]){-1e4, -1e4, 1000, 998}, 4 * sizeof(double));
    rig.labels[0] = 0;
    rig.labels[1] = 1;
    const double loss = rig_forward(&rig);
    assert_true(near_scaled(loss, (log(2) + 2 + log1p(exp(-2))) / 2, 1, 1e-14));
    assert_int_equal(rig.layer.correct, 1);
    const double p = 1 / (1 + exp(-2));
    assert_true(near_all(rig.layer.output, (double[]){0.5, 0.5, p, 1 - p}, 4, 1e-14));
    rig_backward(&rig);
    const double expected[] = {-0.25, 0.25, p / 2, -p / 2};
    assert_true(near_all(rig.layer.input_gradient, expected, 4, 1e-14));
}

/* A layer that needs no input gradient does not write that memory; its parameters' gradients are
 * unchanged. */
static void input_gradient_is_left_out_on_request(void **state DL_UNUSED)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        const layer_case *c = &cases[i];
        const dl_layer_type *type = dl_layer_type_find(c->spec.kind, DL_DOUBLE);
        if (type->in_place || type->result != NULL) continue; /* these already have the gradient */
        DL_AUTO(rig_free) layer_rig rig;
        rig_init(&rig, &c->spec, c->in, c->batch, DL_DOUBLE);
        (void)rig_forward(&rig);
        rig_backward(&rig);
        double *gradients = load_all(&rig, rig.layer.gradients, rig.layer.parameter_count);
        for (size_t k = 0; k < rig.in_count; k++)
            ((double *)rig.layer.input_gradient)[k] = 42;
        rig.layer.wants_input_gradient = false;
        rig_backward(&rig);
        for (size_t k = 0; k < rig.in_count; k++) {
            assert_true(near_scaled(((double *)rig.layer.input_gradient)[k], 42, 0, 0));
        }
        assert_memory_equal(gradients, rig.layer.gradients,
                            rig.layer.parameter_count * sizeof(double));
        free(gradients);
    }
}

/* 20 000 weights with 200 inputs: deviation sqrt(2 / 200) = 0.1 within 4 / sqrt(2 * 20000) = 2 %,
 * mean 0 within 4 * 0.1 / sqrt(20000) = 0.0028. Biases stay 0. */
static void initial_weights_follow_he(void **state DL_UNUSED)
{
    const dl_layer_spec spec = {.name = "dense", .kind = "dense", .units = 100};
    DL_AUTO(rig_free) layer_rig rig;
    dl_random random;
    rig_init(&rig, &spec, (dl_shape){1, 1, 200}, 1, DL_DOUBLE);
    double *parameters = rig.layer.parameters, mean = 0;
    memset(parameters, 0, rig.layer.parameter_count * sizeof(double));
    dl_random_init(&random, 5, 0, 0, 0);
    rig.layer.type->init(&rig.layer, parameters, rig.layer.state, &random);
    for (int i = 0; i < 20000; i++)
        mean += parameters[i] / 20000;
    assert_true(near_scaled(mean, 0, 1, 0.0028));
    assert_true(near_scaled(rms(parameters, 20000), 0.1, 0, 0.02));
    assert_true(near_scaled(rms(parameters + 20000, 100), 0, 0, 0));
}

static void types_are_found_by_name(void **state DL_UNUSED)
{
    for (int i = 0; i < CASE_COUNT; i++) {
        const dl_layer_type *type = dl_layer_type_find(cases[i].spec.kind, DL_FLOAT);
        assert_non_null(type);
        assert_string_equal(type->name, cases[i].spec.kind);
    }
    assert_null(dl_layer_type_find("maxpool", DL_DOUBLE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(float_matches_double),
        cmocka_unit_test(conv_follows_its_definition),
        cmocka_unit_test(windows_are_counted_as_usual),
        cmocka_unit_test(second_reader_adds_its_gradient),
        cmocka_unit_test(pool_takes_nothing_from_beyond_the_edge),
        cmocka_unit_test(means_are_of_each_channels_pixels),
        cmocka_unit_test(conv_in_float_gives_closed_values),
        cmocka_unit_test(pool_picks_the_first_of_equal_maxima),
        cmocka_unit_test(relu_has_no_gradient_at_zero),
        cmocka_unit_test(batch_norm_keeps_running_statistics),
        cmocka_unit_test(softmax_survives_large_scores),
        cmocka_unit_test(input_gradient_is_left_out_on_request),
        cmocka_unit_test(initial_weights_follow_he),
        cmocka_unit_test(types_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
