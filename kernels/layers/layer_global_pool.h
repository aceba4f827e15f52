/* Mean over all pixels of a square image, a channel at a time (global average pooling). */
#ifndef DL_KERNELS_LAYER_GLOBAL_POOL_H
#define DL_KERNELS_LAYER_GLOBAL_POOL_H

#include "kernels/layers/layer.h"

extern const dl_layer_type dl_layer_global_pool_float;
extern const dl_layer_type dl_layer_global_pool_double;

#endif
