#include "kernels/layer_softmax.h"

#include "kernels/real.h"

static dl_softmax layer_softmax(const dl_layer *layer, int batch)
{
    return (dl_softmax){.batch = batch,
                        .classes = (int)dl_shape_count(layer->in),
                        .scores = layer->input,
                        .labels = layer->labels,
                        .probabilities = layer->output};
}

static void forward(dl_layer *layer, int batch)
{
    const dl_softmax softmax = layer_softmax(layer, batch);
    layer->backend->softmax(&softmax, &layer->loss, &layer->correct);
}

static void backward(dl_layer *layer, int batch)
{
    const dl_softmax softmax = layer_softmax(layer, batch);
    layer->backend->softmax_backward(&softmax, layer->input_gradient);
}

const dl_layer_type DL_TYPED(dl_layer_softmax) = {
    .name = "softmax", .forward = forward, .backward = backward};
