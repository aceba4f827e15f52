#include "kernels/layers/layer_dense.h"

#include "kernels/layers/layer_init.h"
#include "kernels/real.h"

static int input_count(const dl_layer *layer)
{
    return (int)dl_shape_count(layer->in);
}

static void plan(dl_layer *layer)
{
    const size_t inputs = dl_shape_count(layer->in), units = (size_t)layer->spec->units;
    layer->out = (dl_shape){1, 1, layer->spec->units};
    layer->parameter_count = (inputs + 1) * units;
    layer->flops = 2.0 * (double)(inputs * units) * (layer->wants_input_gradient ? 3 : 2);
}

static void init(const dl_layer *layer, void *parameters, void *state, dl_random *random)
{
    (void)state;
    const size_t inputs = dl_shape_count(layer->in);
    dl_layer_init_normal(parameters, inputs * (size_t)layer->spec->units,
                         dl_layer_init_deviation(layer->spec, inputs), random);
}

static void forward(dl_layer *layer, int batch)
{
    const int inputs = input_count(layer), units = layer->spec->units;
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

static void backward(dl_layer *layer, int batch)
{
    const int inputs = input_count(layer), units = layer->spec->units;
    dl_real *weight_gradient = layer->gradients;
    dl_real *bias_gradient = weight_gradient + (size_t)inputs * (size_t)units;
    layer->backend->sum_rows(bias_gradient, layer->output_gradient, batch, units, false);
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

const dl_layer_type DL_TYPED(dl_layer_dense) = {
    .name = "dense", .plan = plan, .init = init, .forward = forward, .backward = backward};
