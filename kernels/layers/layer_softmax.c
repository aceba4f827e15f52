#include "kernels/layers/layer_softmax.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "kernels/real.h"

/* The state: the losses of a batch's samples, and behind them whether each was right. */
#define SAMPLE_BYTES (sizeof(double) + sizeof(int32_t))

static void plan(dl_layer *layer)
{
    layer->state_bytes = (size_t)layer->max_batch * SAMPLE_BYTES;
}

static dl_softmax layer_softmax(const dl_layer *layer, int batch)
{
    return (dl_softmax){.batch = batch,
                        .classes = (int)dl_shape_count(layer->in),
                        .scores = layer->input,
                        .labels = layer->labels,
                        .probabilities = layer->output,
                        .losses = layer->state,
                        .correct = (int32_t *)((double *)layer->state + layer->max_batch)};
}

static void forward(dl_layer *layer, int batch)
{
    const dl_softmax softmax = layer_softmax(layer, batch);
    layer->backend->softmax(&softmax);
}

static void backward(dl_layer *layer, int batch)
{
    const dl_softmax softmax = layer_softmax(layer, batch);
    layer->backend->softmax_backward(&softmax, layer->input_gradient);
}

static dl_status result(dl_layer *layer, int batch, dl_error *err)
{
    double *losses = dl_calloc((size_t)layer->max_batch, SAMPLE_BYTES, "losses");
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
    free(losses);
    return status;
}

const dl_layer_type DL_TYPED(dl_layer_softmax) = {
    .name = "softmax", .plan = plan, .forward = forward, .backward = backward, .result = result};
