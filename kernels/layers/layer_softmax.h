/* Loss of a classifier: softmax of the input's scores, and the mean over the batch of
 * -log(probability of the label). Output: the probabilities. Backward starts the chain, so it reads
 * no output gradient. */
#ifndef DL_KERNELS_LAYER_SOFTMAX_H
#define DL_KERNELS_LAYER_SOFTMAX_H

#include "kernels/layers/layer.h"

extern const dl_layer_type dl_layer_softmax_float;
extern const dl_layer_type dl_layer_softmax_double;

#endif
