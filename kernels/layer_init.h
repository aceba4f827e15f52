/* Initial weights, shared by the layers that have a weight matrix. */
#ifndef DL_KERNELS_LAYER_INIT_H
#define DL_KERNELS_LAYER_INIT_H

#include <math.h>
#include <stddef.h>

#include "common/random.h"
#include "kernels/real.h"

/* Fills weights[inputs x units] with normal numbers of deviation sqrt(2 / inputs). */
static inline void dl_layer_init_he(dl_real *weights, size_t inputs, size_t units,
                                    dl_random *random)
{
    const double deviation = sqrt(2.0 / (double)inputs);
    for (size_t i = 0; i < inputs * units; i++) {
        weights[i] = (dl_real)(deviation * dl_random_normal(random));
    }
}

#endif
