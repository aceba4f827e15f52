/* Convolution with `units` filters over kernel x kernel windows that lie `stride` apart, the image
 * being `padding` zeros larger on each side (less than `kernel`):
 *   y[row][column][unit] = b[unit] + sum over (ky, kx, c) of
 *       x[row * stride - padding + ky][column * stride - padding + kx][c] W[unit][ky][kx][c]
 * Parameters: W, then b[units] unless the spec says no_bias. Initially W is normal with the spec's
 * deviation or else sqrt(2 / (kernel^2 channels)) (He et al. 2015, equation 10), b is 0. */
#ifndef DL_KERNELS_LAYER_CONV_H
#define DL_KERNELS_LAYER_CONV_H

#include "kernels/layers/layer.h"

extern const dl_layer_type dl_layer_conv_float;
extern const dl_layer_type dl_layer_conv_double;

#endif
