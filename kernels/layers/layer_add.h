/* Where a skip connection ends, in place: y = x + other, `other` being the output of an earlier
 * layer of the same shape (dl_layer_spec's skip). The gradient of both terms is the output's, so
 * backward has nothing to do: the model lets all three share one array. */
#ifndef DL_KERNELS_LAYER_ADD_H
#define DL_KERNELS_LAYER_ADD_H

#include "kernels/layers/layer.h"

extern const dl_layer_type dl_layer_add_float;
extern const dl_layer_type dl_layer_add_double;

#endif
