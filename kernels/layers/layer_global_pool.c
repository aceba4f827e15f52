#include "kernels/layers/layer_global_pool.h"

#include "common/status.h"
#include "kernels/real.h"

static dl_pool layer_pool(const dl_layer *layer, int batch)
{
    return (dl_pool){
        .count = batch, .in = layer->in, .out = layer->out, .kernel = layer->in.rows, .stride = 1};
}

static void plan(dl_layer *layer)
{
    DL_ASSERT(layer->in.rows == layer->in.columns, "%s: %d x %d is no square", layer->spec->name,
              layer->in.rows, layer->in.columns);
    layer->out = (dl_shape){1, 1, layer->in.channels};
}

static void forward(dl_layer *layer, int batch)
{
    const dl_pool pool = layer_pool(layer, batch);
    layer->backend->average_pool(&pool, layer->input, layer->output);
}

static void backward(dl_layer *layer, int batch)
{
    if (!layer->wants_input_gradient) return;
    const dl_pool pool = layer_pool(layer, batch);
    layer->backend->average_pool_backward(&pool, layer->output_gradient, layer->input_gradient);
}

const dl_layer_type DL_TYPED(dl_layer_global_pool) = {
    .name = "global_pool", .plan = plan, .forward = forward, .backward = backward};
