#include "kernels/layers/layer_max_pool.h"

#include "kernels/real.h"

static dl_pool layer_pool(const dl_layer *layer, int batch)
{
    return (dl_pool){.count = batch,
                     .in = layer->in,
                     .out = layer->out,
                     .kernel = layer->spec->kernel,
                     .stride = dl_layer_stride(layer),
                     .padding = layer->spec->padding};
}

static void plan(dl_layer *layer)
{
    layer->out = dl_layer_windows(layer, layer->in.channels);
    layer->state_bytes = (size_t)layer->max_batch * dl_shape_count(layer->out) * sizeof(int32_t);
}

static void forward(dl_layer *layer, int batch)
{
    const dl_pool pool = layer_pool(layer, batch);
    layer->backend->max_pool(&pool, layer->input, layer->output, layer->state);
}

static void backward(dl_layer *layer, int batch)
{
    if (!layer->wants_input_gradient) return;
    const dl_pool pool = layer_pool(layer, batch);
    layer->backend->max_pool_backward(&pool, layer->state, layer->output_gradient,
                                      layer->input_gradient);
}

const dl_layer_type DL_TYPED(dl_layer_max_pool) = {
    .name = "max_pool", .plan = plan, .forward = forward, .backward = backward};
