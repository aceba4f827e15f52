/* The layers, compiled for float and for double. */
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "kernels/layers/layer.h"
#include "kernels/real.h"

/* Returns the deviation of the weights of a layer with `inputs` inputs per unit: the spec's, or
 * He's. */
static double initial_deviation(const dl_layer_spec *spec, size_t inputs)
{
    return spec->deviation > 0 ? spec->deviation : sqrt(2.0 / (double)inputs);
}

/* Fills weights[count] with normal numbers of this deviation. */
static void fill_normal(dl_real *weights, size_t count, double deviation, dl_random *random)
{
    for (size_t i = 0; i < count; i++) {
        weights[i] = (dl_real)(deviation * dl_random_normal(random));
    }
}

/* Returns the shape of the output with `channels`, for layers with windows. A window that does not
 * fit is a broken invariant. */
static dl_shape shape_of_windows(const dl_layer *layer, int channels)
{
    const dl_layer_spec *spec = layer->spec;
    const dl_shape in = layer->in;
    const int padded = (in.rows < in.columns ? in.rows : in.columns) + 2 * spec->padding;
    DL_ASSERT(spec->kernel >= 1 && spec->kernel <= padded && spec->padding >= 0 &&
                  spec->padding < spec->kernel,
              "%s: a window of %d, padding %d, does not fit into %d x %d", spec->name, spec->kernel,
              spec->padding, in.rows, in.columns);
    const int stride = dl_layer_stride(layer);
    return (dl_shape){dl_window_count(in.rows, spec->kernel, stride, spec->padding),
                      dl_window_count(in.columns, spec->kernel, stride, spec->padding), channels};
}

/* The windows of a convolution or pooling. */
static dl_windows windows_of(const dl_layer *layer, int batch)
{
    const dl_layer_spec *spec = layer->spec;
    return (dl_windows){.count = batch,
                        .in = layer->in,
                        .out = layer->out,
                        .kernel = spec->kernel,
                        .stride = dl_layer_stride(layer),
                        .padding = spec->padding};
}

/* Dense layer: y[units] = x W + b for each sample. Parameters: W[inputs x units], then b[units].
 * Initially W is normal with the spec's deviation or else sqrt(2 / inputs) (He et al. 2015,
 * equation 10), b is 0. */

static int dense_input_count(const dl_layer *layer)
{
    return (int)dl_shape_count(layer->in);
}

static void dense_plan(dl_layer *layer)
{
    const size_t inputs = dl_shape_count(layer->in), units = (size_t)layer->spec->units;
    layer->out = (dl_shape){1, 1, layer->spec->units};
    layer->parameter_count = (inputs + 1) * units;
    layer->flops = 2.0 * (double)(inputs * units) * (layer->wants_input_gradient ? 3 : 2);
}

static void dense_init(const dl_layer *layer, void *parameters, void *state, dl_random *random)
{
    (void)state;
    const size_t inputs = dl_shape_count(layer->in);
    fill_normal(parameters, inputs * (size_t)layer->spec->units,
                initial_deviation(layer->spec, inputs), random);
}

static void dense_forward(dl_layer *layer, int batch)
{
    const int inputs = dense_input_count(layer), units = layer->spec->units;
    const dl_real *weights = layer->parameters, *bias = weights + (size_t)inputs * (size_t)units;
    layer->backend->repeat_row(layer->output, bias, batch, units);
    layer->backend->gemm(&(dl_gemm){.m = batch,
                                    .n = units,
                                    .k = inputs,
                                    .a = layer->input,
                                    .b = weights,
                                    .c = layer->output,
                                    .accumulate = true});
}

static void dense_backward(dl_layer *layer, int batch)
{
    const int inputs = dense_input_count(layer), units = layer->spec->units;
    dl_real *weight_gradient = layer->gradients;
    dl_real *bias_gradient = weight_gradient + (size_t)inputs * (size_t)units;
    layer->backend->sum_rows(bias_gradient, layer->output_gradient, batch, units);
    layer->backend->gemm(&(dl_gemm){.transpose_a = true,
                                    .m = inputs,
                                    .n = units,
                                    .k = batch,
                                    .a = layer->input,
                                    .b = layer->output_gradient,
                                    .c = weight_gradient});
    if (!layer->wants_input_gradient) return;
    layer->backend->gemm(&(dl_gemm){.transpose_b = true,
                                    .m = batch,
                                    .n = inputs,
                                    .k = units,
                                    .a = layer->output_gradient,
                                    .b = layer->parameters,
                                    .c = layer->input_gradient});
}

/* Convolution with `units` filters over kernel x kernel windows at a distance of `stride`, with the
 * image extended by `padding` zeros on each side (less than `kernel`):
 *   y[row][column][unit] = b[unit] + sum over (ky, kx, c) of
 *       x[row * stride - padding + ky][column * stride - padding + kx][c] W[unit][ky][kx][c]
 * Parameters: W, then b[units] unless the spec says no_bias. Initially W is normal with the spec's
 * deviation or else sqrt(2 / (kernel^2 channels)) (He et al. 2015, equation 10), b is 0. */

static size_t conv_window_size(const dl_layer *layer)
{
    return (size_t)layer->spec->kernel * (size_t)layer->spec->kernel * (size_t)layer->in.channels;
}

static size_t conv_weight_count(const dl_layer *layer)
{
    return conv_window_size(layer) * (size_t)layer->spec->units;
}

static void conv_plan(dl_layer *layer)
{
    const dl_layer_spec *spec = layer->spec;
    layer->out = shape_of_windows(layer, spec->units);
    layer->parameter_count = conv_weight_count(layer) + (spec->no_bias ? 0 : (size_t)spec->units);
    const dl_windows conv = windows_of(layer, layer->max_batch);
    layer->scratch_bytes = layer->backend->conv_scratch_bytes(&conv);
    layer->flops = 2.0 * (double)conv_weight_count(layer) * layer->out.rows * layer->out.columns *
                   (layer->wants_input_gradient ? 3 : 2);
}

static void conv_init(const dl_layer *layer, void *parameters, void *state, dl_random *random)
{
    (void)state;
    fill_normal(parameters, conv_weight_count(layer),
                initial_deviation(layer->spec, conv_window_size(layer)), random);
}

static void conv_forward(dl_layer *layer, int batch)
{
    const dl_windows conv = windows_of(layer, batch);
    const dl_real *weights = layer->parameters;
    const dl_real *bias = layer->spec->no_bias ? NULL : weights + conv_weight_count(layer);
    layer->backend->conv_forward(&conv, layer->input, weights, bias, layer->output, layer->scratch);
}

static void conv_backward(dl_layer *layer, int batch)
{
    const dl_backend *backend = layer->backend;
    const dl_windows conv = windows_of(layer, batch);
    if (!layer->spec->no_bias) {
        backend->sum_rows((dl_real *)layer->gradients + conv_weight_count(layer),
                          layer->output_gradient, batch * conv.out.rows * conv.out.columns,
                          conv.out.channels);
    }
    backend->conv_backward_filter(&conv, layer->input, layer->output_gradient, layer->gradients,
                                  layer->scratch);
    if (!layer->wants_input_gradient) return;
    backend->conv_backward_data(&conv, layer->output_gradient, layer->parameters,
                                layer->input_gradient, layer->accumulates, layer->scratch);
}

/* Maximum of each kernel x kernel window, a channel at a time; the windows are `stride` apart and
 * extend `padding` pixels (less than `kernel`) beyond the edge, where there are no values. The
 * state keeps the place of the first maximum as a number of 32 bits, the size of a float, so that
 * loops over both vectorise. */

static void max_pool_plan(dl_layer *layer)
{
    layer->out = shape_of_windows(layer, layer->in.channels);
    layer->state_bytes = (size_t)layer->max_batch * dl_shape_count(layer->out) * sizeof(int32_t);
}

static void max_pool_forward(dl_layer *layer, int batch)
{
    const dl_windows pool = windows_of(layer, batch);
    layer->backend->max_pool(&pool, layer->input, layer->output, layer->state);
}

static void max_pool_backward(dl_layer *layer, int batch)
{
    if (!layer->wants_input_gradient) return;
    const dl_windows pool = windows_of(layer, batch);
    layer->backend->max_pool_backward(&pool, layer->state, layer->output_gradient,
                                      layer->input_gradient);
}

/* Mean over all pixels of an image, a channel at a time (global average pooling). */

static void global_pool_plan(dl_layer *layer)
{
    layer->out = (dl_shape){1, 1, layer->in.channels};
}

static void global_pool_forward(dl_layer *layer, int batch)
{
    layer->backend->mean_pixels(batch, layer->in.rows * layer->in.columns, layer->in.channels,
                                layer->input, layer->output);
}

static void global_pool_backward(dl_layer *layer, int batch)
{
    if (!layer->wants_input_gradient) return;
    layer->backend->mean_pixels_backward(batch, layer->in.rows * layer->in.columns,
                                         layer->in.channels, layer->output_gradient,
                                         layer->input_gradient);
}

/* Rectifier, in place: y = max(x, 0). The gradient at 0 is 0. */

static void relu_forward(dl_layer *layer, int batch)
{
    layer->backend->relu(layer->output, (size_t)batch * dl_shape_count(layer->out));
}

static void relu_backward(dl_layer *layer, int batch)
{
    layer->backend->relu_backward(layer->output_gradient, layer->output,
                                  (size_t)batch * dl_shape_count(layer->out));
}

/* Batch normalisation (Ioffe & Szegedy 2015, algorithm 1), each channel over all pixels of the
 * batch:
 *   y = scale (x - mean) / sqrt(variance + 1e-5) + shift
 * Parameters: scale[channels] (initially 1), then shift[channels] (initially 0). In training mean
 * and variance are the batch's, and running values follow them with momentum 0.1 (variance over
 * n - 1); otherwise the running values are used. State: mean, 1 / deviation, running mean, running
 * variance, [channels] each. Backward needs a forward pass in training. */

#define MOMENTUM 0.1

#define EPSILON 1e-5

static void batch_norm_plan(dl_layer *layer)
{
    const size_t channels = (size_t)layer->in.channels;
    layer->parameter_count = 2 * channels;
    layer->state_bytes = 4 * channels * sizeof(dl_real);
}

static void batch_norm_init(const dl_layer *layer, void *parameters, void *state, dl_random *random)
{
    (void)random;
    dl_real *scale = parameters;
    dl_real *running_variance = (dl_real *)state + 3 * layer->in.channels;
    for (int c = 0; c < layer->in.channels; c++) {
        scale[c] = 1;
        running_variance[c] = 1;
    }
}

static dl_norm norm_of(const dl_layer *layer, int batch)
{
    const int channels = layer->in.channels;
    const dl_real *parameters = layer->parameters;
    dl_real *state = layer->state;
    return (dl_norm){.rows = batch * layer->in.rows * layer->in.columns,
                     .count = batch,
                     .channels = channels,
                     .x = layer->input,
                     .scale = parameters,
                     .shift = parameters + channels,
                     .mean = state,
                     .inverse_deviation = state + channels,
                     .running_mean = state + 2 * channels,
                     .running_variance = state + 3 * channels,
                     .momentum = MOMENTUM,
                     .epsilon = EPSILON};
}

static void batch_norm_forward(dl_layer *layer, int batch)
{
    const dl_norm norm = norm_of(layer, batch);
    if (layer->training) {
        layer->backend->norm_training_forward(&norm, layer->output);
    } else {
        layer->backend->norm_inference_forward(&norm, layer->output);
    }
}

static void batch_norm_backward(dl_layer *layer, int batch)
{
    const dl_norm norm = norm_of(layer, batch);
    dl_real *gradients = layer->gradients;
    DL_ASSERT(layer->training, "%s: backward outside training", layer->spec->name);
    layer->backend->norm_backward(&norm, layer->output_gradient, gradients,
                                  gradients + norm.channels,
                                  layer->wants_input_gradient ? layer->input_gradient : NULL);
}

/* End of a skip connection, in place: y = x + other, `other` being the output of an earlier layer
 * of the same shape (dl_layer_spec's skip). The gradient of both terms is the output's, so backward
 * has nothing to do: the model lets all three share one array. */

static void add_forward(dl_layer *layer, int batch)
{
    layer->backend->add(layer->output, layer->other, (size_t)batch * dl_shape_count(layer->out));
}

/* The gradient is already in place. */
static void add_backward(dl_layer *layer DL_UNUSED, int batch DL_UNUSED) {}

/* Loss of a classifier: softmax of the input's scores, and the mean over the batch of
 * -log(probability of the label). Output: the probabilities. Backward starts the chain, so it reads
 * no output gradient. */

/* The state: the losses of a batch's samples, then whether each was classified correctly. */
#define SAMPLE_BYTES (sizeof(double) + sizeof(int32_t))

static void softmax_plan(dl_layer *layer)
{
    layer->state_bytes = (size_t)layer->max_batch * SAMPLE_BYTES;
}

static dl_softmax softmax_of(const dl_layer *layer, int batch)
{
    return (dl_softmax){.batch = batch,
                        .classes = (int)dl_shape_count(layer->in),
                        .scores = layer->input,
                        .labels = layer->labels,
                        .probabilities = layer->output,
                        .losses = layer->state,
                        .correct = (int32_t *)((double *)layer->state + layer->max_batch)};
}

static void softmax_forward(dl_layer *layer, int batch)
{
    const dl_softmax softmax = softmax_of(layer, batch);
    layer->backend->softmax(&softmax);
}

static void softmax_backward(dl_layer *layer, int batch)
{
    const dl_softmax softmax = softmax_of(layer, batch);
    layer->backend->softmax_backward(&softmax, layer->input_gradient);
}

static dl_status softmax_result(dl_layer *layer, int batch, dl_error *err)
{
    DL_AUTOFREE double *losses = dl_calloc((size_t)layer->max_batch, SAMPLE_BYTES, "losses");
    const int32_t *correct = (const int32_t *)(losses + layer->max_batch);
    layer->backend->download(losses, layer->state, (size_t)layer->max_batch * SAMPLE_BYTES);
    const dl_status status = layer->backend->wait(err);
    double sum = 0;
    layer->correct = 0;
    for (int i = 0; i < batch; i++) {
        sum += losses[i];
        layer->correct += correct[i];
    }
    layer->loss = sum / batch;
    return status;
}

const dl_layer_type DL_TYPED(dl_layer_types)[] = {
    {.name = "dense",
     .plan = dense_plan,
     .init = dense_init,
     .forward = dense_forward,
     .backward = dense_backward},
    {.name = "conv",
     .can_accumulate = true,
     .plan = conv_plan,
     .init = conv_init,
     .forward = conv_forward,
     .backward = conv_backward},
    {.name = "max_pool",
     .plan = max_pool_plan,
     .forward = max_pool_forward,
     .backward = max_pool_backward},
    {.name = "global_pool",
     .plan = global_pool_plan,
     .forward = global_pool_forward,
     .backward = global_pool_backward},
    {.name = "relu", .in_place = true, .forward = relu_forward, .backward = relu_backward},
    {.name = "batch_norm",
     .plan = batch_norm_plan,
     .init = batch_norm_init,
     .forward = batch_norm_forward,
     .backward = batch_norm_backward},
    {.name = "add", .in_place = true, .forward = add_forward, .backward = add_backward},
    {.name = "softmax",
     .plan = softmax_plan,
     .forward = softmax_forward,
     .backward = softmax_backward,
     .result = softmax_result},
    {.name = NULL}};
