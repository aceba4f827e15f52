#include "kernels/layers/layer_conv.h"

#include "common/status.h"
#include "kernels/layers/layer_init.h"
#include "kernels/real.h"

static size_t window_size(const dl_layer *layer)
{
    return (size_t)layer->spec->kernel * (size_t)layer->spec->kernel * (size_t)layer->in.channels;
}

static size_t weight_count(const dl_layer *layer)
{
    return window_size(layer) * (size_t)layer->spec->units;
}

static dl_conv layer_conv(const dl_layer *layer, int batch)
{
    return (dl_conv){.count = batch,
                     .in = layer->in,
                     .out = layer->out,
                     .kernel = layer->spec->kernel,
                     .stride = dl_layer_stride(layer),
                     .padding = layer->spec->padding};
}

static void plan(dl_layer *layer)
{
    const dl_layer_spec *spec = layer->spec;
    layer->out = dl_layer_windows(layer, spec->units);
    layer->parameter_count = weight_count(layer) + (spec->no_bias ? 0 : (size_t)spec->units);
    const dl_conv conv = layer_conv(layer, layer->max_batch);
    layer->scratch_bytes = layer->backend->conv_scratch_bytes(&conv);
    layer->flops = 2.0 * (double)weight_count(layer) * layer->out.rows * layer->out.columns *
                   (layer->wants_input_gradient ? 3 : 2);
}

static void init(const dl_layer *layer, void *parameters, void *state, dl_random *random)
{
    (void)state;
    dl_layer_init_normal(parameters, weight_count(layer),
                         dl_layer_init_deviation(layer->spec, window_size(layer)), random);
}

static void forward(dl_layer *layer, int batch)
{
    const dl_conv conv = layer_conv(layer, batch);
    const dl_real *weights = layer->parameters;
    const dl_real *bias = layer->spec->no_bias ? NULL : weights + weight_count(layer);
    layer->backend->conv_forward(&conv, layer->input, weights, bias, layer->output, layer->scratch);
}

static void backward(dl_layer *layer, int batch)
{
    const dl_backend *backend = layer->backend;
    const dl_conv conv = layer_conv(layer, batch);
    if (!layer->spec->no_bias) {
        backend->sum_rows((dl_real *)layer->gradients + weight_count(layer), layer->output_gradient,
                          batch * conv.out.rows * conv.out.columns, conv.out.channels, false);
    }
    backend->conv_backward_filter(&conv, layer->input, layer->output_gradient, layer->gradients,
                                  layer->scratch);
    if (!layer->wants_input_gradient) return;
    backend->conv_backward_data(&conv, layer->output_gradient, layer->parameters,
                                layer->input_gradient, layer->accumulates, layer->scratch);
}

const dl_layer_type DL_TYPED(dl_layer_conv) = {.name = "conv",
                                               .can_accumulate = true,
                                               .plan = plan,
                                               .init = init,
                                               .forward = forward,
                                               .backward = backward};
