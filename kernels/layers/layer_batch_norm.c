#include "kernels/layers/layer_batch_norm.h"

#include "common/status.h"
#include "kernels/real.h"

#define MOMENTUM 0.1
#define EPSILON 1e-5

static void plan(dl_layer *layer)
{
    const size_t channels = (size_t)layer->in.channels;
    layer->parameter_count = 2 * channels;
    layer->state_bytes = 4 * channels * sizeof(dl_real);
}

static void init(const dl_layer *layer, void *parameters, void *state, dl_random *random)
{
    (void)random;
    dl_real *scale = parameters;
    dl_real *running_variance = (dl_real *)state + 3 * layer->in.channels;
    for (int c = 0; c < layer->in.channels; c++) {
        scale[c] = 1;
        running_variance[c] = 1;
    }
}

static dl_norm layer_norm(const dl_layer *layer, int batch)
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

static void forward(dl_layer *layer, int batch)
{
    const dl_norm norm = layer_norm(layer, batch);
    if (layer->training) {
        layer->backend->norm_training_forward(&norm, layer->output);
    } else {
        layer->backend->norm_inference_forward(&norm, layer->output);
    }
}

static void backward(dl_layer *layer, int batch)
{
    const dl_norm norm = layer_norm(layer, batch);
    dl_real *gradients = layer->gradients;
    DL_ASSERT(layer->training, "%s: backward outside training", layer->spec->name);
    layer->backend->norm_backward(&norm, layer->output_gradient, gradients,
                                  gradients + norm.channels,
                                  layer->wants_input_gradient ? layer->input_gradient : NULL);
}

const dl_layer_type DL_TYPED(dl_layer_batch_norm) = {
    .name = "batch_norm", .plan = plan, .init = init, .forward = forward, .backward = backward};
