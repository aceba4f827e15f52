/* Convolutions through cuDNN. The algorithm for each direction of a shape is chosen at its first
 * use: the first one in the order of cuDNN's heuristics that gives equal bits every time, fits into
 * SCRATCH_MAX, and is accepted when tried. Algorithms are not measured, since all replicas must
 * choose the same one.
 *
 * cuDNN does not promise an algorithm for channels-last single precision without tensor cores. If
 * it has none, the arrays are transposed to channels-first in the scratch memory and the result is
 * transposed back, as frameworks do. */
#include <stdlib.h>

#include "common/alloc.h"
#include "kernels/cuda/cuda_internal.h"

/* The result of a convolution: y, the gradient of x, or that of the weights. */
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

/* Algorithm of a convolution as a number in the enumeration of its direction, with the order of the
 * data and the math type. */
typedef struct dl_cuda_conv_plan {
    dl_cuda_order order;
    int algorithm;
    cudnnMathType_t math;
    size_t scratch_bytes;
} dl_cuda_conv_plan;

/* Descriptors of a convolution's arrays in one order; the weights also as images, for
 * transposing. */
typedef struct dl_cuda_conv_arrays {
    cudnnTensorDescriptor_t x, y, weights_as_images;
    cudnnFilterDescriptor_t weights;
} dl_cuda_conv_arrays;

struct dl_cuda_conv {
    dl_cuda_conv *next;
    dl_windows shape;
    dl_cuda_conv_arrays in_order[DL_CUDA_ORDERS];
    cudnnTensorDescriptor_t bias;
    /* One per direction, with the math type of its plan. */
    cudnnConvolutionDescriptor_t windows[DL_CUDA_DIRECTIONS];
    bool chosen[DL_CUDA_DIRECTIONS]; /* whether the plan is known */
    dl_cuda_conv_plan plans[DL_CUDA_DIRECTIONS];
};

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
                            const dl_windows *shape)
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
                             const dl_windows *shape)
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
    const dl_windows *shape = &conv->shape;
    bool good = describe_images(device, &conv->bias, DL_CUDA_CHANNELS_LAST, 1,
                                (dl_shape){1, 1, shape->out.channels});
    for (int o = 0; good && o < DL_CUDA_ORDERS; o++)
        good = describe_arrays(device, &conv->in_order[o], (dl_cuda_order)o, shape);
    for (int d = 0; good && d < DL_CUDA_DIRECTIONS; d++)
        good = describe_windows(device, &conv->windows[d], shape);
    return good;
}

static bool same_shape(const dl_windows *a, const dl_windows *b)
{
    return a->count == b->count && a->in.rows == b->in.rows && a->in.columns == b->in.columns &&
           a->in.channels == b->in.channels && a->out.channels == b->out.channels &&
           a->kernel == b->kernel && a->stride == b->stride && a->padding == b->padding;
}

/* Finds the slot's convolution of that shape, or makes it with its descriptors. The slot owns it
 * until dl_cuda_convs_free. NULL if this or an earlier call failed. */
static dl_cuda_conv *conv_find(dl_device *device, const dl_windows *shape)
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

/* Maximum scratch memory of an algorithm, in bytes. */
#define SCRATCH_MAX ((size_t)1 << 30)

/* More proposals than any direction has: cuDNN lists each algorithm with and without tensor
 * cores. */
#define PROPOSALS_MAX 32

/* One call of a convolution in any direction, with x, weights and y in the roles of that
 * direction. */
typedef struct conv_call {
    dl_cuda_direction direction;
    void *x, *weights, *y; /* two are read, the third is written */
    const float *beta;     /* 1 adds to the old result */
} conv_call;

static const float one = 1, zero = 0;

/* Copies cuDNN's usable proposals, whose type differs by direction, to plans[]. */
#define KEEP_USABLE(plans, kept, o, proposals, count)                                            \
    for (int i = 0; i < (count); i++) {                                                          \
        if ((proposals)[i].status != CUDNN_STATUS_SUCCESS) continue;                             \
        if ((proposals)[i].memory > SCRATCH_MAX) continue;                                       \
        if ((proposals)[i].determinism != CUDNN_DETERMINISTIC) continue;                         \
        (plans)[(kept)++] = (dl_cuda_conv_plan){(o), (int)(proposals)[i].algo,                   \
                                                (proposals)[i].mathType, (proposals)[i].memory}; \
    }

/* Fills plans[PROPOSALS_MAX], best first; returns their number, 0 if cuDNN has no algorithm, which
 * it may also report as an error. */
static int propose(dl_device *device, const dl_cuda_conv *conv, dl_cuda_direction d,
                   dl_cuda_order o, dl_cuda_conv_plan *plans)
{
    const dl_cuda_conv_arrays *in = &conv->in_order[o];
    cudnnConvolutionFwdAlgoPerf_t forward[PROPOSALS_MAX];
    cudnnConvolutionBwdDataAlgoPerf_t data[PROPOSALS_MAX];
    cudnnConvolutionBwdFilterAlgoPerf_t filter[PROPOSALS_MAX];
    int count = 0, kept = 0;
    cudnnStatus_t status;
    switch (d) {
    case DL_CUDA_FORWARD:
        status = cudnnGetConvolutionForwardAlgorithm_v7(device->dnn, in->x, in->weights,
                                                        conv->windows[d], in->y, PROPOSALS_MAX,
                                                        &count, forward);
        if (status != CUDNN_STATUS_SUCCESS) break;
        KEEP_USABLE(plans, kept, o, forward, count)
        break;
    case DL_CUDA_BACKWARD_DATA:
        status = cudnnGetConvolutionBackwardDataAlgorithm_v7(
            device->dnn, in->weights, in->y, conv->windows[d], in->x, PROPOSALS_MAX, &count, data);
        if (status != CUDNN_STATUS_SUCCESS) break;
        KEEP_USABLE(plans, kept, o, data, count)
        break;
    default:
        status = cudnnGetConvolutionBackwardFilterAlgorithm_v7(device->dnn, in->x, in->y,
                                                               conv->windows[d], in->weights,
                                                               PROPOSALS_MAX, &count, filter);
        if (status != CUDNN_STATUS_SUCCESS) break;
        KEEP_USABLE(plans, kept, o, filter, count)
        break;
    }
    return kept;
}

/* Launches the call by that plan, with all arrays in the plan's order; returns cuDNN's status. */
static cudnnStatus_t launch_in_order(dl_device *device, const dl_cuda_conv *conv,
                                     const conv_call *call, const dl_cuda_conv_plan *by,
                                     void *scratch)
{
    const dl_cuda_direction d = call->direction;
    const dl_cuda_conv_arrays *in = &conv->in_order[by->order];
    const size_t bytes = by->scratch_bytes;
    switch (d) {
    case DL_CUDA_FORWARD:
        return cudnnConvolutionForward(
            device->dnn, &one, in->x, call->x, in->weights, call->weights, conv->windows[d],
            (cudnnConvolutionFwdAlgo_t)by->algorithm, scratch, bytes, call->beta, in->y, call->y);
    case DL_CUDA_BACKWARD_DATA:
        return cudnnConvolutionBackwardData(device->dnn, &one, in->weights, call->weights, in->y,
                                            call->y, conv->windows[d],
                                            (cudnnConvolutionBwdDataAlgo_t)by->algorithm, scratch,
                                            bytes, call->beta, in->x, call->x);
    default:
        return cudnnConvolutionBackwardFilter(
            device->dnn, &one, in->x, call->x, in->y, call->y, conv->windows[d],
            (cudnnConvolutionBwdFilterAlgo_t)by->algorithm, scratch, bytes, call->beta, in->weights,
            call->weights);
    }
}

/* An array of a call, and its transposed copy. */
typedef struct transposed {
    cudnnTensorDescriptor_t last, first; /* descriptors of the two orders */
    void *from, *to;
    bool is_result;
} transposed;

static size_t round_up(size_t bytes)
{
    return (bytes + 255) / 256 * 256; /* as cudaMalloc aligns */
}

/* Transposes the inputs, launches, and transposes the result back, adding it if the call
 * accumulates. */
static cudnnStatus_t launch_transposed(dl_device *device, const dl_cuda_conv *conv,
                                       const conv_call *call, const dl_cuda_conv_plan *by)
{
    const dl_windows *shape = &conv->shape;
    const dl_cuda_conv_arrays *last = &conv->in_order[DL_CUDA_CHANNELS_LAST],
                              *first = &conv->in_order[DL_CUDA_CHANNELS_FIRST];
    const size_t count = (size_t)shape->count;
    const size_t x_bytes = round_up(count * dl_shape_count(shape->in) * sizeof(float));
    const size_t y_bytes = round_up(count * dl_shape_count(shape->out) * sizeof(float));
    const size_t weight_count = (size_t)shape->kernel * (size_t)shape->kernel *
                                (size_t)shape->in.channels * (size_t)shape->out.channels;
    const size_t weight_bytes = round_up(weight_count * sizeof(float));
    char *scratch = dl_cuda_scratch(device, x_bytes + y_bytes + weight_bytes + by->scratch_bytes);
    if (scratch == NULL) return CUDNN_STATUS_ALLOC_FAILED;
    const transposed all[] = {
        {last->x, first->x, call->x, scratch, call->direction == DL_CUDA_BACKWARD_DATA},
        {last->y, first->y, call->y, scratch + x_bytes, call->direction == DL_CUDA_FORWARD},
        {last->weights_as_images, first->weights_as_images, call->weights,
         scratch + x_bytes + y_bytes, call->direction == DL_CUDA_BACKWARD_FILTER}};
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (int i = 0; status == CUDNN_STATUS_SUCCESS && i < 3; i++) {
        if (all[i].is_result) continue;
        status = cudnnTransformTensor(device->dnn, &one, all[i].last, all[i].from, &zero,
                                      all[i].first, all[i].to);
    }
    if (status != CUDNN_STATUS_SUCCESS) return status;
    const conv_call apart = {.direction = call->direction,
                             .x = all[0].to,
                             .y = all[1].to,
                             .weights = all[2].to,
                             .beta = &zero};
    status = launch_in_order(device, conv, &apart, by, scratch + x_bytes + y_bytes + weight_bytes);
    for (int i = 0; status == CUDNN_STATUS_SUCCESS && i < 3; i++) {
        if (!all[i].is_result) continue;
        status = cudnnTransformTensor(device->dnn, &one, all[i].first, all[i].to, call->beta,
                                      all[i].last, all[i].from);
    }
    return status;
}

static cudnnStatus_t launch(dl_device *device, const dl_cuda_conv *conv, const conv_call *call,
                            const dl_cuda_conv_plan *by)
{
    if (by->order == DL_CUDA_CHANNELS_FIRST) return launch_transposed(device, conv, call, by);
    void *scratch = dl_cuda_scratch(device, by->scratch_bytes);
    if (by->scratch_bytes > 0 && scratch == NULL) return CUDNN_STATUS_ALLOC_FAILED;
    return launch_in_order(device, conv, call, by, scratch);
}

/* Tries the proposals for one order. A proposal that cuDNN refuses leaves the result unchanged. */
static cudnnStatus_t try_order(dl_device *device, dl_cuda_conv *conv, const conv_call *call,
                               dl_cuda_order o)
{
    const dl_cuda_direction d = call->direction;
    dl_cuda_conv_plan plans[PROPOSALS_MAX];
    const int count = propose(device, conv, d, o, plans);
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    for (int i = 0; dl_cuda_works(device) && !conv->chosen[d] && i < count; i++) {
        /* Tensor cores are enabled through the proposed math type. */
        if (device->settings.math != DL_DEVICE_MATH_FP32 &&
            !dl_cuda_good_dnn(device, cudnnSetConvolutionMathType(conv->windows[d], plans[i].math),
                              "cudnnSetConvolutionMathType")) {
            return status;
        }
        status = launch(device, conv, call, &plans[i]);
        if (status == CUDNN_STATUS_SUCCESS) {
            conv->plans[d] = plans[i];
            conv->chosen[d] = true;
        } else {
            (void)cudaGetLastError(); /* the next launch must not report this error */
        }
    }
    return status;
}

/* Chooses a plan at the first call of a shape. */
static void choose(dl_device *device, dl_cuda_conv *conv, const conv_call *call)
{
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    for (int o = 0; !conv->chosen[call->direction] && o < DL_CUDA_ORDERS; o++)
        status = try_order(device, conv, call, (dl_cuda_order)o);
    if (!conv->chosen[call->direction]) {
        dl_cuda_good_dnn(device, status, "no algorithm for a convolution");
    }
}

static void run(const dl_windows *shape, const conv_call *call)
{
    static const char *const names[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                        "cudnnConvolutionBackwardFilter"};
    dl_device *device = dl_cuda_device();
    dl_cuda_conv *conv = conv_find(device, shape);
    if (conv == NULL) return;
    const dl_cuda_direction d = call->direction;
    if (!conv->chosen[d]) {
        choose(device, conv, call);
    } else {
        dl_cuda_good_dnn(device, launch(device, conv, call, &conv->plans[d]), names[d]);
    }
}

/* Returns 0: scratch memory belongs to the slot and is shared by all its operations. */
size_t dl_cuda_conv_scratch_bytes(const dl_windows *conv)
{
    (void)conv;
    return 0;
}

void dl_cuda_conv_forward(const dl_windows *conv, const void *x, const void *weights,
                          const void *bias, void *y, void *scratch)
{
    (void)scratch;
    run(conv, &(conv_call){.direction = DL_CUDA_FORWARD,
                           .x = (void *)x,
                           .weights = (void *)weights,
                           .y = y,
                           .beta = &zero});
    if (bias == NULL) return;
    dl_device *device = dl_cuda_device();
    const dl_cuda_conv *known = conv_find(device, conv);
    if (known == NULL) return;
    dl_cuda_good_dnn(device,
                     cudnnAddTensor(device->dnn, &one, known->bias, bias, &one,
                                    known->in_order[DL_CUDA_CHANNELS_LAST].y, y),
                     "cudnnAddTensor");
}

void dl_cuda_conv_backward_data(const dl_windows *conv, const void *dy, const void *weights,
                                void *dx, bool accumulate, void *scratch)
{
    (void)scratch;
    run(conv, &(conv_call){.direction = DL_CUDA_BACKWARD_DATA,
                           .x = dx,
                           .weights = (void *)weights,
                           .y = (void *)dy,
                           .beta = accumulate ? &one : &zero});
}

void dl_cuda_conv_backward_filter(const dl_windows *conv, const void *x, const void *dy,
                                  void *dweights, void *scratch)
{
    (void)scratch;
    run(conv, &(conv_call){.direction = DL_CUDA_BACKWARD_FILTER,
                           .x = (void *)x,
                           .weights = dweights,
                           .y = (void *)dy,
                           .beta = &zero});
}
