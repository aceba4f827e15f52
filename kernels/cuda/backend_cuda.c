#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "kernels/cuda/cuda_internal.h"

static const float one = 1, zero = 0;

/* cuBLAS is column-major: it sees each row-major matrix transposed. It computes c = op(a) op(b) as
 * c^T = op(b)^T op(a)^T, so the factors change places and keep their transposition. */
static void cuda_gemm(const dl_gemm *gemm)
{
    dl_device *device = dl_cuda_device();
    if (!dl_cuda_works(device)) return;
    const cublasOperation_t op_b = gemm->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_a = gemm->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int stride_b = gemm->transpose_b ? gemm->k : gemm->n;
    const int stride_a = gemm->transpose_a ? gemm->m : gemm->k;
    const float *beta = gemm->accumulate ? &one : &zero;
    if (device->settings.math == DL_DEVICE_MATH_FP16) {
        dl_cuda_good_blas(device,
                          cublasGemmEx(device->blas, op_b, op_a, gemm->n, gemm->m, gemm->k, &one,
                                       gemm->b, CUDA_R_32F, stride_b, gemm->a, CUDA_R_32F, stride_a,
                                       beta, gemm->c, CUDA_R_32F, gemm->n,
                                       CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_GEMM_DEFAULT),
                          "cublasGemmEx");
    } else {
        dl_cuda_good_blas(device,
                          cublasSgemm(device->blas, op_b, op_a, gemm->n, gemm->m, gemm->k, &one,
                                      gemm->b, stride_b, gemm->a, stride_a, beta, gemm->c, gemm->n),
                          "cublasSgemm");
    }
}

/* Ensures that the device's memory holds at least `count` ones. */
static bool have_ones(dl_device *device, int count)
{
    if (count <= device->ones_count) return true;
    dl_cuda_good(device, cudaFree(device->ones), "cudaFree");
    device->ones = NULL;
    device->ones_count = 0;
    if (!dl_cuda_good(device, cudaMalloc((void **)&device->ones, (size_t)count * sizeof(float)),
                      "ones")) {
        return false;
    }
    device->ones_count = count;
    dl_cuda_set_ones(device->ones, (size_t)count);
    return dl_cuda_works(device);
}

/* In column-major order the matrix is [columns x rows]; its product with ones is the sum of the
 * rows. */
static void cuda_sum_rows(void *sums, const void *matrix, int rows, int columns)
{
    dl_device *device = dl_cuda_device();
    if (!dl_cuda_works(device) || !have_ones(device, rows)) return;
    dl_cuda_good_blas(device,
                      cublasSgemv(device->blas, CUBLAS_OP_N, columns, rows, &one, matrix, columns,
                                  device->ones, 1, &zero, sums, 1),
                      "cublasSgemv");
}

static void cuda_add(void *to, const void *from, size_t count)
{
    dl_device *device = dl_cuda_device();
    if (!dl_cuda_works(device)) return;
    dl_cuda_good_blas(device, cublasSaxpy_64(device->blas, (int64_t)count, &one, from, 1, to, 1),
                      "cublasSaxpy");
}

/* Describes a plain vector in the slot's descriptor. */
static bool describe_vector(dl_device *device, size_t count)
{
    return dl_cuda_works(device) &&
           dl_cuda_good_dnn(device,
                            count <= INT_MAX ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED,
                            "a layer's output of over 2^31 - 1 numbers") &&
           dl_cuda_good_dnn(device,
                            cudnnSetTensor4dDescriptor(device->tensor, CUDNN_TENSOR_NCHW,
                                                       CUDNN_DATA_FLOAT, 1, 1, 1, (int)count),
                            "cudnnSetTensor4dDescriptor");
}

static void cuda_relu(void *values, size_t count)
{
    dl_device *device = dl_cuda_device();
    if (!describe_vector(device, count)) return;
    dl_cuda_good_dnn(device,
                     cudnnActivationForward(device->dnn, device->rectifier, &one, device->tensor,
                                            values, &zero, device->tensor, values),
                     "cudnnActivationForward");
}

/* The rectifier's input is above 0 where its output is, so the output is passed for both. */
static void cuda_relu_backward(void *gradients, const void *values, size_t count)
{
    dl_device *device = dl_cuda_device();
    if (!describe_vector(device, count)) return;
    dl_cuda_good_dnn(device,
                     cudnnActivationBackward(device->dnn, device->rectifier, &one, device->tensor,
                                             values, device->tensor, gradients, device->tensor,
                                             values, &zero, device->tensor, gradients),
                     "cudnnActivationBackward");
}

/* Sets the descriptors of the values, and of the numbers per channel. */
static bool describe_norm(dl_device *device, const dl_norm *norm)
{
    DL_ASSERT(norm->count >= 1 && norm->rows % norm->count == 0, "%d rows of %d samples",
              norm->rows, norm->count);
    return dl_cuda_works(device) &&
           dl_cuda_good_dnn(device,
                            cudnnSetTensor4dDescriptor(device->tensor, CUDNN_TENSOR_NHWC,
                                                       CUDNN_DATA_FLOAT, norm->count,
                                                       norm->channels, norm->rows / norm->count, 1),
                            "cudnnSetTensor4dDescriptor") &&
           dl_cuda_good_dnn(device,
                            cudnnDeriveBNTensorDescriptor(device->channels, device->tensor,
                                                          CUDNN_BATCHNORM_SPATIAL),
                            "cudnnDeriveBNTensorDescriptor");
}

static void cuda_norm_training_forward(const dl_norm *norm, void *y)
{
    dl_device *device = dl_cuda_device();
    if (!describe_norm(device, norm)) return;
    dl_cuda_good_dnn(device,
                     cudnnBatchNormalizationForwardTraining(
                         device->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, device->tensor, norm->x,
                         device->tensor, y, device->channels, norm->scale, norm->shift,
                         norm->momentum, norm->running_mean, norm->running_variance, norm->epsilon,
                         norm->mean, norm->inverse_deviation),
                     "cudnnBatchNormalizationForwardTraining");
}

static void cuda_norm_inference_forward(const dl_norm *norm, void *y)
{
    dl_device *device = dl_cuda_device();
    if (!describe_norm(device, norm)) return;
    dl_cuda_good_dnn(device,
                     cudnnBatchNormalizationForwardInference(
                         device->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, device->tensor, norm->x,
                         device->tensor, y, device->channels, norm->scale, norm->shift,
                         norm->running_mean, norm->running_variance, norm->epsilon),
                     "cudnnBatchNormalizationForwardInference");
}

/* cuDNN always computes dx; if not wanted, it goes to the scratch memory. */
static void cuda_norm_backward(const dl_norm *norm, const void *dy, void *dscale, void *dshift,
                               void *dx)
{
    dl_device *device = dl_cuda_device();
    if (!describe_norm(device, norm)) return;
    if (dx == NULL) {
        dx = dl_cuda_scratch(device, (size_t)norm->rows * (size_t)norm->channels * sizeof(float));
        if (dx == NULL) return;
    }
    dl_cuda_good_dnn(
        device,
        cudnnBatchNormalizationBackward(device->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one,
                                        &zero, device->tensor, norm->x, device->tensor, dy,
                                        device->tensor, dx, device->channels, norm->scale, dscale,
                                        dshift, norm->epsilon, norm->mean, norm->inverse_deviation),
        "cudnnBatchNormalizationBackward");
}

/* The first wait reports any problem of the device. */
static dl_status cuda_start(dl_error *err)
{
    (void)err;
    (void)dl_cuda_device();
    return DL_OK;
}

static void *cuda_allocate(size_t bytes, const char *purpose)
{
    dl_device *device = dl_cuda_device();
    void *memory = NULL;
    if (bytes == 0 || !dl_cuda_works(device)) return NULL;
    DL_AUTOFREE char *what = dl_format("%zu bytes for %s", bytes, purpose);
    /* cudaMalloc aligns to 256 bytes at least. */
    const bool good =
        dl_cuda_good(device, cudaMalloc(&memory, bytes), what) &&
        dl_cuda_good(device, cudaMemsetAsync(memory, 0, bytes, device->stream), "cudaMemsetAsync");
    return good ? memory : NULL;
}

static void cuda_release(void *memory)
{
    if (memory != NULL) dl_cuda_good(dl_cuda_device(), cudaFree(memory), "cudaFree");
}

static void *cuda_allocate_host(size_t bytes, const char *purpose)
{
    dl_device *device = dl_cuda_device();
    if (device->settings.pageable) return dl_alloc_aligned(bytes, purpose);
    void *memory = NULL;
    if (bytes == 0 || !dl_cuda_works(device)) return NULL;
    /* Portable: page-locked for all GPUs. It must not be write-combined: the host reads it. */
    const cudaError_t result = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (!dl_cuda_good(device, result, "page-locked memory of the host")) return NULL;
    memset(memory, 0, bytes);
    return memory;
}

static void cuda_release_host(void *memory)
{
    dl_device *device = dl_cuda_device();
    if (device->settings.pageable) {
        free(memory);
    } else if (memory != NULL) {
        dl_cuda_good(device, cudaFreeHost(memory), "cudaFreeHost");
    }
}

static void cuda_upload(void *to, const void *from, size_t bytes)
{
    dl_device *device = dl_cuda_device();
    if (bytes == 0 || !dl_cuda_works(device)) return;
    dl_cuda_good(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, device->stream),
                 "copy to the GPU");
}

static void cuda_download(void *to, const void *from, size_t bytes)
{
    dl_device *device = dl_cuda_device();
    if (bytes == 0 || !dl_cuda_works(device)) return;
    dl_cuda_good(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, device->stream),
                 "copy from the GPU");
}

const dl_backend dl_backend_cuda = {
    .name = "cuda",
    .precision = DL_FLOAT,
    .start = cuda_start,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .allocate_host = cuda_allocate_host,
    .release_host = cuda_release_host,
    .upload = cuda_upload,
    .download = cuda_download,
    .wait = dl_cuda_wait,
    .gemm = cuda_gemm,
    .conv_scratch_bytes = dl_cuda_conv_scratch_bytes,
    .conv_forward = dl_cuda_conv_forward,
    .conv_backward_data = dl_cuda_conv_backward_data,
    .conv_backward_filter = dl_cuda_conv_backward_filter,
    .repeat_row = dl_cuda_repeat_row,
    .sum_rows = cuda_sum_rows,
    .max_pool = dl_cuda_max_pool,
    .max_pool_backward = dl_cuda_max_pool_backward,
    .mean_pixels = dl_cuda_mean_pixels,
    .mean_pixels_backward = dl_cuda_mean_pixels_backward,
    .add = cuda_add,
    .relu = cuda_relu,
    .relu_backward = cuda_relu_backward,
    .norm_training_forward = cuda_norm_training_forward,
    .norm_inference_forward = cuda_norm_inference_forward,
    .norm_backward = cuda_norm_backward,
    .softmax = dl_cuda_softmax,
    .softmax_backward = dl_cuda_softmax_backward,
    .sgd = dl_cuda_sgd,
    .rmsprop = dl_cuda_rmsprop,
    .adam = dl_cuda_adam,
};
