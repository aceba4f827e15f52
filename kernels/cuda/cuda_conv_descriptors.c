#include "kernels/cuda/cuda_conv_descriptors.h"

#include <stdlib.h>

#include "common/alloc.h"

static const cudnnMathType_t math_types[] = {[DL_DEVICE_MATH_FP32] = CUDNN_FMA_MATH,
                                             [DL_DEVICE_MATH_TF32] = CUDNN_DEFAULT_MATH,
                                             [DL_DEVICE_MATH_FP16] =
                                                 CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION};

static const cudnnTensorFormat_t formats[] = {
    [DL_CUDA_CHANNELS_LAST] = CUDNN_TENSOR_NHWC, [DL_CUDA_CHANNELS_FIRST] = CUDNN_TENSOR_NCHW};

static void free_images(cudnnTensorDescriptor_t images)
{
    if (images != NULL) (void)cudnnDestroyTensorDescriptor(images);
}

static void free_conv(dl_cuda_conv *conv)
{
    for (int d = 0; d < DL_CUDA_DIRECTIONS; d++) {
        if (conv->windows[d] != NULL) (void)cudnnDestroyConvolutionDescriptor(conv->windows[d]);
    }
    for (int o = 0; o < DL_CUDA_ORDERS; o++) {
        const dl_cuda_conv_arrays *freed = &conv->in_order[o];
        if (freed->weights != NULL) (void)cudnnDestroyFilterDescriptor(freed->weights);
        free_images(freed->weights_as_images);
        free_images(freed->y);
        free_images(freed->x);
    }
    free_images(conv->bias);
    free(conv);
}

void dl_cuda_convs_free(dl_device *device)
{
    while (device->convs != NULL) {
        dl_cuda_conv *next = device->convs->next;
        free_conv(device->convs);
        device->convs = next;
    }
}

static bool describe_images(dl_device *device, cudnnTensorDescriptor_t *images, dl_cuda_order o,
                            int count, dl_shape shape)
{
    return dl_cuda_good_dnn(device, cudnnCreateTensorDescriptor(images),
                            "cudnnCreateTensorDescriptor") &&
           dl_cuda_good_dnn(device,
                            cudnnSetTensor4dDescriptor(*images, formats[o], CUDNN_DATA_FLOAT, count,
                                                       shape.channels, shape.rows, shape.columns),
                            "cudnnSetTensor4dDescriptor");
}

static bool describe_arrays(dl_device *device, dl_cuda_conv_arrays *made, dl_cuda_order o,
                            const dl_conv *shape)
{
    const dl_shape window = {shape->kernel, shape->kernel, shape->in.channels};
    return describe_images(device, &made->x, o, shape->count, shape->in) &&
           describe_images(device, &made->y, o, shape->count, shape->out) &&
           describe_images(device, &made->weights_as_images, o, shape->out.channels, window) &&
           dl_cuda_good_dnn(device, cudnnCreateFilterDescriptor(&made->weights),
                            "cudnnCreateFilterDescriptor") &&
           dl_cuda_good_dnn(device,
                            cudnnSetFilter4dDescriptor(made->weights, CUDNN_DATA_FLOAT, formats[o],
                                                       shape->out.channels, shape->in.channels,
                                                       shape->kernel, shape->kernel),
                            "cudnnSetFilter4dDescriptor");
}

static bool describe_windows(dl_device *device, cudnnConvolutionDescriptor_t *windows,
                             const dl_conv *shape)
{
    return dl_cuda_good_dnn(device, cudnnCreateConvolutionDescriptor(windows),
                            "cudnnCreateConvolutionDescriptor") &&
           dl_cuda_good_dnn(device,
                            cudnnSetConvolution2dDescriptor(
                                *windows, shape->padding, shape->padding, shape->stride,
                                shape->stride, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                            "cudnnSetConvolution2dDescriptor") &&
           dl_cuda_good_dnn(
               device, cudnnSetConvolutionMathType(*windows, math_types[device->settings.math]),
               "cudnnSetConvolutionMathType");
}

static bool describe(dl_device *device, dl_cuda_conv *conv)
{
    const dl_conv *shape = &conv->shape;
    bool good = describe_images(device, &conv->bias, DL_CUDA_CHANNELS_LAST, 1,
                                (dl_shape){1, 1, shape->out.channels});
    for (int o = 0; good && o < DL_CUDA_ORDERS; o++)
        good = describe_arrays(device, &conv->in_order[o], (dl_cuda_order)o, shape);
    for (int d = 0; good && d < DL_CUDA_DIRECTIONS; d++)
        good = describe_windows(device, &conv->windows[d], shape);
    return good;
}

static bool same_shape(const dl_conv *a, const dl_conv *b)
{
    return a->count == b->count && a->in.rows == b->in.rows && a->in.columns == b->in.columns &&
           a->in.channels == b->in.channels && a->out.channels == b->out.channels &&
           a->kernel == b->kernel && a->stride == b->stride && a->padding == b->padding;
}

dl_cuda_conv *dl_cuda_conv_find(dl_device *device, const dl_conv *shape)
{
    if (!dl_cuda_works(device)) return NULL;
    for (dl_cuda_conv *conv = device->convs; conv != NULL; conv = conv->next) {
        if (same_shape(&conv->shape, shape)) return conv;
    }
    dl_cuda_conv *made = dl_calloc(1, sizeof *made, "convolution");
    made->shape = *shape;
    if (!describe(device, made)) {
        free_conv(made);
        return NULL;
    }
    made->next = device->convs;
    device->convs = made;
    return made;
}
