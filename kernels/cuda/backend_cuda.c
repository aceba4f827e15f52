#include "kernels/cuda/backend_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static _Thread_local dl_device *used;

dl_device *dl_cuda_device(void)
{
    DL_ASSERT(used != NULL, "thread uses %s", "no device");
    return used;
}

void dl_cuda_use(dl_device *device)
{
    used = device;
}

bool dl_cuda_works(const dl_device *device)
{
    return device->failure.code == DL_OK;
}

static bool keep(dl_device *device, const char *what, const char *reason)
{
    if (dl_cuda_works(device)) {
        dl_error_set(&device->failure, DL_ERR_SYSTEM, "GPU %d: %.200s: %.200s", device->number,
                     what, reason);
        dl_cuda_group_fail(device);
    }
    return false;
}

bool dl_cuda_good(dl_device *device, cudaError_t result, const char *what)
{
    if (result == cudaSuccess) return true;
    (void)cudaGetLastError(); /* kept here; another place's next launch must not find it */
    return keep(device, what, cudaGetErrorString(result));
}

bool dl_cuda_good_blas(dl_device *device, cublasStatus_t result, const char *what)
{
    return result == CUBLAS_STATUS_SUCCESS || keep(device, what, cublasGetStatusString(result));
}

bool dl_cuda_good_dnn(dl_device *device, cudnnStatus_t result, const char *what)
{
    return result == CUDNN_STATUS_SUCCESS || keep(device, what, cudnnGetErrorString(result));
}

bool dl_cuda_good_nccl(dl_device *device, ncclResult_t result, const char *what)
{
    return result == ncclSuccess || keep(device, what, ncclGetErrorString(result));
}

static void cuda_start(void)
{
    (void)dl_cuda_device();
}

static void *cuda_allocate(size_t bytes, const char *purpose)
{
    dl_device *device = dl_cuda_device();
    void *memory = NULL;
    if (bytes == 0 || !dl_cuda_works(device)) return NULL;
    char *what = dl_format("%zu bytes for %s", bytes, purpose);
    /* cudaMalloc aligns to 256 bytes at least. */
    const bool good =
        dl_cuda_good(device, cudaMalloc(&memory, bytes), what) &&
        dl_cuda_good(device, cudaMemsetAsync(memory, 0, bytes, device->stream), "cudaMemsetAsync");
    free(what);
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
    /* Portable: page-locked for all GPUs. Write-combined it must not be: the host reads it. */
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

static dl_status cuda_wait(dl_error *err)
{
    dl_device *device = dl_cuda_device();
    dl_cuda_group_wait(device);
    if (dl_cuda_works(device)) {
        dl_cuda_good(device, cudaStreamSynchronize(device->stream), "the GPU's work");
    }
    if (dl_cuda_works(device)) return DL_OK;
    if (err != NULL) *err = device->failure;
    return device->failure.code;
}

void *dl_cuda_scratch(dl_device *device, size_t bytes)
{
    if (bytes == 0 || !dl_cuda_works(device)) return NULL;
    if (bytes <= device->scratch_bytes) return device->scratch;
    /* cudaFree waits until the GPU has done with it. */
    dl_cuda_good(device, cudaFree(device->scratch), "cudaFree");
    device->scratch = NULL;
    device->scratch_bytes = 0;
    if (!dl_cuda_good(device, cudaMalloc(&device->scratch, bytes), "scratch memory")) return NULL;
    device->scratch_bytes = bytes;
    return device->scratch;
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
    .wait = cuda_wait,
    .gemm = dl_cuda_gemm,
    .conv_scratch_bytes = dl_cuda_conv_scratch_bytes,
    .conv_forward = dl_cuda_conv_forward,
    .conv_backward_data = dl_cuda_conv_backward_data,
    .conv_backward_filter = dl_cuda_conv_backward_filter,
    .repeat_row = dl_cuda_repeat_row,
    .sum_rows = dl_cuda_sum_rows,
    .max_pool = dl_cuda_max_pool,
    .max_pool_backward = dl_cuda_max_pool_backward,
    .average_pool = dl_cuda_average_pool,
    .average_pool_backward = dl_cuda_average_pool_backward,
    .add = dl_cuda_add,
    .relu = dl_cuda_relu,
    .relu_backward = dl_cuda_relu_backward,
    .norm_training_forward = dl_cuda_norm_training_forward,
    .norm_inference_forward = dl_cuda_norm_inference_forward,
    .norm_backward = dl_cuda_norm_backward,
    .softmax = dl_cuda_softmax,
    .softmax_backward = dl_cuda_softmax_backward,
    .sgd = dl_cuda_sgd,
    .rmsprop = dl_cuda_rmsprop,
    .adam = dl_cuda_adam,
};
