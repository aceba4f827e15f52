/* Convolutions through cuDNN. A shape's descriptors are made once; the algorithm of each of the
 * three directions is chosen at its first use: the first of those that cuDNN's heuristics propose,
 * in their order, which gives equal bits every time, fits into SCRATCH_MAX, and is accepted when it
 * is tried. No measuring: replicas must choose alike. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "kernels/backend_cuda.h"

/* Most scratch memory that an algorithm may ask for. */
#define SCRATCH_MAX ((size_t)1 << 30)

/* More than there are in any direction: cuDNN lists each algorithm with and without tensor cores.
 */
#define PROPOSALS_MAX 32

typedef enum direction { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, DIRECTIONS } direction;

/* A way to compute: the algorithm's number in the enumeration of its direction. */
typedef struct way {
    int algorithm;
    cudnnMathType_t math;
    size_t scratch_bytes;
} way;

struct dl_cuda_conv {
    dl_cuda_conv *next;
    dl_conv shape;
    cudnnTensorDescriptor_t x, y, bias;
    cudnnFilterDescriptor_t weights;
    cudnnConvolutionDescriptor_t windows[DIRECTIONS]; /* one a direction: each has its math type */
    bool chosen[DIRECTIONS];
    way ways[DIRECTIONS];
};

/* One call of a convolution, any direction: x, weights and y in the roles that it gives them. */
typedef struct conv_call {
    direction direction;
    void *x, *weights, *y; /* two of them are read, the third one written */
    const float *beta;     /* 1 adds to what is there */
} conv_call;

static const float one = 1, zero = 0;

static void free_conv(dl_cuda_conv *conv)
{
    for (int d = 0; d < DIRECTIONS; d++) {
        if (conv->windows[d] != NULL) (void)cudnnDestroyConvolutionDescriptor(conv->windows[d]);
    }
    if (conv->weights != NULL) (void)cudnnDestroyFilterDescriptor(conv->weights);
    if (conv->bias != NULL) (void)cudnnDestroyTensorDescriptor(conv->bias);
    if (conv->y != NULL) (void)cudnnDestroyTensorDescriptor(conv->y);
    if (conv->x != NULL) (void)cudnnDestroyTensorDescriptor(conv->x);
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

static bool describe_images(dl_device *device, cudnnTensorDescriptor_t *images, int count,
                            dl_shape shape)
{
    return dl_cuda_good_dnn(device, cudnnCreateTensorDescriptor(images),
                            "cudnnCreateTensorDescriptor") &&
           dl_cuda_good_dnn(device,
                            cudnnSetTensor4dDescriptor(*images, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
                                                       count, shape.channels, shape.rows,
                                                       shape.columns),
                            "cudnnSetTensor4dDescriptor");
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
           dl_cuda_good_dnn(device,
                            cudnnSetConvolutionMathType(*windows, device->settings.tf32
                                                                      ? CUDNN_DEFAULT_MATH
                                                                      : CUDNN_FMA_MATH),
                            "cudnnSetConvolutionMathType");
}

static bool describe(dl_device *device, dl_cuda_conv *conv)
{
    const dl_conv *shape = &conv->shape;
    const dl_shape one_pixel = {1, 1, shape->out.channels};
    bool good = describe_images(device, &conv->x, shape->count, shape->in) &&
                describe_images(device, &conv->y, shape->count, shape->out) &&
                describe_images(device, &conv->bias, 1, one_pixel) &&
                dl_cuda_good_dnn(device, cudnnCreateFilterDescriptor(&conv->weights),
                                 "cudnnCreateFilterDescriptor") &&
                dl_cuda_good_dnn(device,
                                 cudnnSetFilter4dDescriptor(conv->weights, CUDNN_DATA_FLOAT,
                                                            CUDNN_TENSOR_NHWC, shape->out.channels,
                                                            shape->in.channels, shape->kernel,
                                                            shape->kernel),
                                 "cudnnSetFilter4dDescriptor");
    for (int d = 0; good && d < DIRECTIONS; d++)
        good = describe_windows(device, &conv->windows[d], shape);
    return good;
}

static bool same_shape(const dl_conv *a, const dl_conv *b)
{
    return a->count == b->count && a->in.rows == b->in.rows && a->in.columns == b->in.columns &&
           a->in.channels == b->in.channels && a->out.channels == b->out.channels &&
           a->kernel == b->kernel && a->stride == b->stride && a->padding == b->padding;
}

/* The known convolution of that shape, or a new one; NULL if something failed, now or before. */
static dl_cuda_conv *find(dl_device *device, const dl_conv *shape)
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

/* Copies the usable ones of cuDNN's proposals, whose type differs by direction, to ways[]. */
#define KEEP_USABLE(ways, kept, proposals, count)                                            \
    for (int i = 0; i < (count); i++) {                                                      \
        if ((proposals)[i].status != CUDNN_STATUS_SUCCESS) continue;                         \
        if ((proposals)[i].memory > SCRATCH_MAX) continue;                                   \
        if ((proposals)[i].determinism != CUDNN_DETERMINISTIC) continue;                     \
        (ways)[(kept)++] =                                                                   \
            (way){(int)(proposals)[i].algo, (proposals)[i].mathType, (proposals)[i].memory}; \
    }

/* Fills ways[PROPOSALS_MAX], best first; returns how many. */
static int propose(dl_device *device, const dl_cuda_conv *conv, direction d, way *ways)
{
    cudnnConvolutionFwdAlgoPerf_t forward[PROPOSALS_MAX];
    cudnnConvolutionBwdDataAlgoPerf_t data[PROPOSALS_MAX];
    cudnnConvolutionBwdFilterAlgoPerf_t filter[PROPOSALS_MAX];
    int count = 0, kept = 0;
    switch (d) {
    case FORWARD:
        dl_cuda_good_dnn(device,
                         cudnnGetConvolutionForwardAlgorithm_v7(device->dnn, conv->x, conv->weights,
                                                                conv->windows[d], conv->y,
                                                                PROPOSALS_MAX, &count, forward),
                         "cudnnGetConvolutionForwardAlgorithm_v7");
        KEEP_USABLE(ways, kept, forward, count)
        break;
    case BACKWARD_DATA:
        dl_cuda_good_dnn(device,
                         cudnnGetConvolutionBackwardDataAlgorithm_v7(
                             device->dnn, conv->weights, conv->y, conv->windows[d], conv->x,
                             PROPOSALS_MAX, &count, data),
                         "cudnnGetConvolutionBackwardDataAlgorithm_v7");
        KEEP_USABLE(ways, kept, data, count)
        break;
    default:
        dl_cuda_good_dnn(device,
                         cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                             device->dnn, conv->x, conv->y, conv->windows[d], conv->weights,
                             PROPOSALS_MAX, &count, filter),
                         "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
        KEEP_USABLE(ways, kept, filter, count)
        break;
    }
    return kept;
}

/* Issues the call in that way; cuDNN's answer. */
static cudnnStatus_t issue(dl_device *device, const dl_cuda_conv *conv, const conv_call *call,
                           const way *by)
{
    const direction d = call->direction;
    void *scratch = dl_cuda_scratch(device, by->scratch_bytes);
    if (by->scratch_bytes > 0 && scratch == NULL) return CUDNN_STATUS_ALLOC_FAILED;
    const size_t bytes = by->scratch_bytes;
    switch (d) {
    case FORWARD:
        return cudnnConvolutionForward(
            device->dnn, &one, conv->x, call->x, conv->weights, call->weights, conv->windows[d],
            (cudnnConvolutionFwdAlgo_t)by->algorithm, scratch, bytes, call->beta, conv->y, call->y);
    case BACKWARD_DATA:
        return cudnnConvolutionBackwardData(device->dnn, &one, conv->weights, call->weights,
                                            conv->y, call->y, conv->windows[d],
                                            (cudnnConvolutionBwdDataAlgo_t)by->algorithm, scratch,
                                            bytes, call->beta, conv->x, call->x);
    default:
        return cudnnConvolutionBackwardFilter(
            device->dnn, &one, conv->x, call->x, conv->y, call->y, conv->windows[d],
            (cudnnConvolutionBwdFilterAlgo_t)by->algorithm, scratch, bytes, call->beta,
            conv->weights, call->weights);
    }
}

/* The first call of a shape: tries the proposals. One that cuDNN refuses has not touched the
 * result. */
static void choose(dl_device *device, dl_cuda_conv *conv, const conv_call *call)
{
    const direction d = call->direction;
    way ways[PROPOSALS_MAX];
    const int count = propose(device, conv, d, ways);
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    for (int i = 0; dl_cuda_works(device) && !conv->chosen[d] && i < count; i++) {
        /* TensorFloat-32 is proposed through the math type, which must be set to have it. */
        if (device->settings.tf32 &&
            !dl_cuda_good_dnn(device, cudnnSetConvolutionMathType(conv->windows[d], ways[i].math),
                              "cudnnSetConvolutionMathType")) {
            return;
        }
        status = issue(device, conv, call, &ways[i]);
        if (status != CUDNN_STATUS_SUCCESS) continue;
        conv->ways[d] = ways[i];
        conv->chosen[d] = true;
    }
    if (!conv->chosen[d]) dl_cuda_good_dnn(device, status, "no algorithm for a convolution");
}

static void run(const dl_conv *shape, const conv_call *call)
{
    static const char *const names[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                        "cudnnConvolutionBackwardFilter"};
    dl_device *device = dl_cuda_device();
    dl_cuda_conv *conv = find(device, shape);
    if (conv == NULL) return;
    const direction d = call->direction;
    if (!conv->chosen[d]) {
        choose(device, conv, call);
    } else {
        dl_cuda_good_dnn(device, issue(device, conv, call, &conv->ways[d]), names[d]);
    }
}

/* The scratch memory is the device's, shared by all that work on it. */
size_t dl_cuda_conv_scratch_bytes(const dl_conv *conv)
{
    (void)conv;
    return 0;
}

void dl_cuda_conv_forward(const dl_conv *conv, const void *x, const void *weights, const void *bias,
                          void *y, void *scratch)
{
    (void)scratch;
    run(conv, &(conv_call){.direction = FORWARD,
                           .x = (void *)x,
                           .weights = (void *)weights,
                           .y = y,
                           .beta = &zero});
    if (bias == NULL) return;
    dl_device *device = dl_cuda_device();
    const dl_cuda_conv *known = find(device, conv);
    if (known == NULL) return;
    dl_cuda_good_dnn(device,
                     cudnnAddTensor(device->dnn, &one, known->bias, bias, &one, known->y, y),
                     "cudnnAddTensor");
}

void dl_cuda_conv_backward_data(const dl_conv *conv, const void *dy, const void *weights, void *dx,
                                bool accumulate, void *scratch)
{
    (void)scratch;
    run(conv, &(conv_call){.direction = BACKWARD_DATA,
                           .x = dx,
                           .weights = (void *)weights,
                           .y = (void *)dy,
                           .beta = accumulate ? &one : &zero});
}

void dl_cuda_conv_backward_filter(const dl_conv *conv, const void *x, const void *dy,
                                  void *dweights, void *scratch)
{
    (void)scratch;
    run(conv, &(conv_call){.direction = BACKWARD_FILTER,
                           .x = (void *)x,
                           .weights = dweights,
                           .y = (void *)dy,
                           .beta = &zero});
}
