/* Initial weights, shared by the layers that have a weight matrix. */
#ifndef DL_KERNELS_LAYER_INIT_H
#define DL_KERNELS_LAYER_INIT_H

#include <math.h>
#include <stddef.h>

#include "common/random.h"
#include "kernels/layers/layer.h"
#include "kernels/real.h"

/* Deviation of the weights of a layer with that many inputs a unit: the spec's, or He's. */
static inline double dl_layer_init_deviation(const dl_layer_spec *spec, size_t inputs)
{
    return spec->deviation > 0 ? spec->deviation : sqrt(2.0 / (double)inputs);
}

/* Fills weights[count] with normal numbers of that deviation. */
static inline void dl_layer_init_normal(dl_real *weights, size_t count, double deviation,
                                        dl_random *random)
{
    for (size_t i = 0; i < count; i++) {
        weights[i] = (dl_real)(deviation * dl_random_normal(random));
    }
}

#endif
