/* Rectifier, in place: y = max(x, 0). The gradient at 0 is 0. */
#ifndef DL_KERNELS_LAYER_RELU_H
#define DL_KERNELS_LAYER_RELU_H

#include "kernels/layers/layer.h"

extern const dl_layer_type dl_layer_relu_float;
extern const dl_layer_type dl_layer_relu_double;

#endif
