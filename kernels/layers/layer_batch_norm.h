/* Batch normalisation (Ioffe & Szegedy 2015, algorithm 1), each channel over all pixels of the
 * batch: y = scale (x - mean) / sqrt(variance + 1e-5) + shift Parameters: scale[channels]
 * (initially 1), then shift[channels] (initially 0). In training mean and variance are the batch's,
 * and running ones follow them with momentum 0.1 (variance over n - 1); otherwise the running ones
 * are used. State: mean, 1 / deviation, running mean, running variance, [channels] each. Backward
 * needs a forward pass in training. */
#ifndef DL_KERNELS_LAYER_BATCH_NORM_H
#define DL_KERNELS_LAYER_BATCH_NORM_H

#include "kernels/layers/layer.h"

extern const dl_layer_type dl_layer_batch_norm_float;
extern const dl_layer_type dl_layer_batch_norm_double;

#endif
