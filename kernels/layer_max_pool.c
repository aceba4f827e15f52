#include "kernels/layer_max_pool.h"

#include "common/status.h"
#include "kernels/real.h"

static void plan(dl_layer *layer)
{
    const dl_shape in = layer->in;
    DL_ASSERT(in.rows % 2 == 0 && in.columns % 2 == 0, "%s: %d x %d is not even", layer->spec->name,
              in.rows, in.columns);
    layer->out = (dl_shape){in.rows / 2, in.columns / 2, in.channels};
    layer->state_bytes = (size_t)layer->max_batch * dl_shape_count(layer->out) * sizeof(int32_t);
}

static void forward(dl_layer *layer, int batch)
{
    layer->backend->max_pool(layer->output, layer->state, layer->input, batch, layer->in);
}

static void backward(dl_layer *layer, int batch)
{
    if (!layer->wants_input_gradient) return;
    layer->backend->max_pool_backward(layer->input_gradient, layer->state, layer->output_gradient,
                                      batch, layer->in);
}

const dl_layer_type DL_TYPED(dl_layer_max_pool) = {
    .name = "max_pool", .plan = plan, .forward = forward, .backward = backward};
