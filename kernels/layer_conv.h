/* Convolution with `units` filters over kernel x kernel windows, stride 1, no padding ("valid"):
 *   y[row][column][unit] = b[unit] + sum over (ky, kx, c) of x[row + ky][column + kx][c] W[ky, kx,
 * c][unit] Parameters: W[(ky, kx, c) x units], then b[units]. Initially W is normal with deviation
 * sqrt(2 / (kernel^2 channels)) (He et al. 2015, equation 10), b is 0.
 *
 * Computed as matrix products: im2row turns the windows of a few samples into rows[pixels x
 * window], then  y = rows W,  dW = rows^T dy,  drows = dy W^T,  and row2im adds drows up to dx. A
 * few samples at once, so that `rows` stays in the level-2 cache; it is made again in the backward
 * pass, which costs less than to keep and fetch it. */
#ifndef DL_KERNELS_LAYER_CONV_H
#define DL_KERNELS_LAYER_CONV_H

#include "kernels/layer.h"

extern const dl_layer_type dl_layer_conv_float;
extern const dl_layer_type dl_layer_conv_double;

#endif
