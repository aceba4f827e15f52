#include "kernels/layers/layer_relu.h"

#include "kernels/real.h"

static void forward(dl_layer *layer, int batch)
{
    layer->backend->relu(layer->output, (size_t)batch * dl_shape_count(layer->out));
}

static void backward(dl_layer *layer, int batch)
{
    layer->backend->relu_backward(layer->output_gradient, layer->output,
                                  (size_t)batch * dl_shape_count(layer->out));
}

const dl_layer_type DL_TYPED(dl_layer_relu) = {
    .name = "relu", .in_place = true, .forward = forward, .backward = backward};
