/* The slot that a thread uses, its scratch memory, and the first failure of its calls. */
#include "common/alloc.h"
#include "kernels/cuda/cuda_internal.h"

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
    (void)cudaGetLastError(); /* kept in the slot; another slot's next launch must not report it */
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

void *dl_cuda_scratch(dl_device *device, size_t bytes)
{
    if (bytes == 0 || !dl_cuda_works(device)) return NULL;
    if (bytes <= device->scratch_bytes) return device->scratch;
    /* cudaFree waits until the GPU no longer uses it. */
    dl_cuda_good(device, cudaFree(device->scratch), "cudaFree");
    device->scratch = NULL;
    device->scratch_bytes = 0;
    if (!dl_cuda_good(device, cudaMalloc(&device->scratch, bytes), "scratch memory")) return NULL;
    device->scratch_bytes = bytes;
    return device->scratch;
}
