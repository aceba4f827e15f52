/* Maximum of each 2x2 block, a channel at a time; rows and columns must be even. The state keeps
 * which of the four it was (of equal ones the first) in as many bits as a float has, so that both
 * vectorise alike. */
#ifndef DL_KERNELS_LAYER_MAX_POOL_H
#define DL_KERNELS_LAYER_MAX_POOL_H

#include "kernels/layer.h"

extern const dl_layer_type dl_layer_max_pool_float;
extern const dl_layer_type dl_layer_max_pool_double;

#endif
