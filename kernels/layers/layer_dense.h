/* Dense layer: y[units] = x W + b for each sample. Parameters: W[inputs x units], then b[units].
 * Initially W is normal with the spec's deviation or else sqrt(2 / inputs) (He et al. 2015,
 * equation 10), b is 0. */
#ifndef DL_KERNELS_LAYER_DENSE_H
#define DL_KERNELS_LAYER_DENSE_H

#include "kernels/layers/layer.h"

extern const dl_layer_type dl_layer_dense_float;
extern const dl_layer_type dl_layer_dense_double;

#endif
