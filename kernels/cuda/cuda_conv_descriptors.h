/* cuDNN's descriptors of the convolutions that a place on a GPU has met, one of each shape, and the
 * way in which each of them is computed. */
#ifndef DL_KERNELS_CUDA_CONV_DESCRIPTORS_H
#define DL_KERNELS_CUDA_CONV_DESCRIPTORS_H

#include "kernels/cuda/backend_cuda.h"

/* What a convolution works out: y, the gradient of x, or that of the weights. */
typedef enum dl_cuda_direction {
    DL_CUDA_FORWARD,
    DL_CUDA_BACKWARD_DATA,
    DL_CUDA_BACKWARD_FILTER,
    DL_CUDA_DIRECTIONS
} dl_cuda_direction;

/* NHWC, as all arrays of a backend are, or NCHW. */
typedef enum dl_cuda_order {
    DL_CUDA_CHANNELS_LAST,
    DL_CUDA_CHANNELS_FIRST,
    DL_CUDA_ORDERS
} dl_cuda_order;

/* A way to compute: the algorithm's number in the enumeration of its direction. */
typedef struct dl_cuda_conv_way {
    dl_cuda_order order;
    int algorithm;
    cudnnMathType_t math;
    size_t scratch_bytes;
} dl_cuda_conv_way;

/* The arrays of a convolution in one order; the weights also as images, to be turned. */
typedef struct dl_cuda_conv_arrays {
    cudnnTensorDescriptor_t x, y, weights_as_images;
    cudnnFilterDescriptor_t weights;
} dl_cuda_conv_arrays;

struct dl_cuda_conv {
    dl_cuda_conv *next;
    dl_conv shape;
    dl_cuda_conv_arrays in_order[DL_CUDA_ORDERS];
    cudnnTensorDescriptor_t bias;
    /* One a direction: each has its math type. */
    cudnnConvolutionDescriptor_t windows[DL_CUDA_DIRECTIONS];
    bool chosen[DL_CUDA_DIRECTIONS]; /* whether the way is known */
    dl_cuda_conv_way ways[DL_CUDA_DIRECTIONS];
};

/* The place's convolution of that shape, with its descriptors, made at the first call. The place owns
 * it until dl_cuda_convs_free. NULL if something failed, now or before. */
dl_cuda_conv *dl_cuda_conv_find(dl_device *device, const dl_conv *shape);

#endif
