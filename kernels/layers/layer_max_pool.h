/* Maximum of each kernel x kernel window, a channel at a time; the windows lie `stride` apart and
 * hang `padding` pixels (less than `kernel`) over the edge, where nothing is. The state keeps which
 * pixel it was (of equal ones the first) in as many bits as a float has, so that both vectorise
 * alike. */
#ifndef DL_KERNELS_LAYER_MAX_POOL_H
#define DL_KERNELS_LAYER_MAX_POOL_H

#include "kernels/layers/layer.h"

extern const dl_layer_type dl_layer_max_pool_float;
extern const dl_layer_type dl_layer_max_pool_double;

#endif
