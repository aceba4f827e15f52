#include <stdlib.h>

#include "common/alloc.h"
#include "kernels/cuda/cuda_internal.h"

/* Requests direct access to a GPU; returns whether there is. Without it copies between GPUs go
 * through the host. */
static bool ask_for_access(dl_device *device, int peer)
{
    const uint64_t bit = peer < 64 ? (uint64_t)1 << peer : 0;
    int possible = 0;
    if (peer == device->number || (device->asked & bit) != 0)
        return peer == device->number || (device->peers & bit) != 0;
    device->asked |= bit;
    cudaError_t result = cudaDeviceCanAccessPeer(&possible, device->number, peer);
    if (result == cudaSuccess && possible) result = cudaDeviceEnablePeerAccess(peer, 0);
    if (result != cudaSuccess) (void)cudaGetLastError(); /* the next launch must not report it */
    /* Another slot on this GPU may have enabled it already. */
    if (!possible || (result != cudaSuccess && result != cudaErrorPeerAccessAlreadyEnabled))
        return false;
    device->peers |= bit;
    return true;
}

static bool cuda_reach(const dl_device *other)
{
    return ask_for_access(dl_cuda_device(), other->number);
}

static void cuda_copy(const dl_device *target, void *to, const dl_device *source, const void *from,
                      size_t bytes)
{
    dl_device *device = dl_cuda_device();
    if (bytes == 0 || !dl_cuda_works(device)) return;
    (void)ask_for_access(device, source->number);
    (void)ask_for_access(device, target->number);
    dl_cuda_good(
        device,
        cudaMemcpyPeerAsync(to, target->number, from, source->number, bytes, device->stream),
        "cudaMemcpyPeerAsync");
}

/* Decodes CUDA's version numbers: 13000 is 13.0. */
#define MAJOR(version) ((version) / 1000)
#define MINOR(version) ((version) % 1000 / 10)

static dl_status no_device(cudaError_t result, dl_error *err)
{
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "no NVIDIA driver (libcuda.so.1) on this machine");
    }
    if (result == cudaErrorInsufficientDriver) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "the NVIDIA driver is for CUDA %d.%d, but this program needs %d.%d",
                            MAJOR(driver), MINOR(driver), MAJOR(runtime), MINOR(runtime));
    }
    if (result == cudaSuccess || result == cudaErrorNoDevice) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "the NVIDIA driver finds no GPU%s%.64s%s",
                            visible != NULL ? " (CUDA_VISIBLE_DEVICES is '" : "",
                            visible != NULL ? visible : "", visible != NULL ? "')" : "");
    }
    return dl_error_set(err, DL_ERR_UNSUPPORTED, "the NVIDIA driver cannot be used: %.200s",
                        cudaGetErrorString(result));
}

static dl_status cuda_count(int *count, dl_error *err)
{
    int found = 0;
    const cudaError_t result = cudaGetDeviceCount(&found);
    if (result != cudaSuccess || found < 1) return no_device(result, err);
    *count = found;
    return DL_OK;
}

static dl_status cuda_describe(int number, dl_device_info *info, dl_error *err)
{
    struct cudaDeviceProp properties;
    dl_device_info made = {0};
    cudaError_t result = cudaGetDeviceProperties(&properties, number);
    if (result == cudaSuccess) {
        result = cudaDeviceGetPCIBusId(made.bus_id, (int)sizeof made.bus_id, number);
    }
    if (result != cudaSuccess) {
        return dl_error_set(err, DL_ERR_SYSTEM, "GPU %d: %.200s", number,
                            cudaGetErrorString(result));
    }
    snprintf(made.name, sizeof made.name, "%s", properties.name);
    made.memory_bytes = properties.totalGlobalMem;
    made.major = properties.major;
    made.minor = properties.minor;
    made.multiprocessors = properties.multiProcessorCount;
    *info = made;
    return DL_OK;
}

static bool open_handles(dl_device *device)
{
    const dl_device_settings *settings = &device->settings;
    return dl_cuda_good(device, cudaSetDevice(device->number), "cudaSetDevice") &&
           dl_cuda_good(device, cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking),
                        "cudaStreamCreate") &&
           dl_cuda_good_blas(device, cublasCreate(&device->blas), "cublasCreate") &&
           dl_cuda_good_blas(device, cublasSetStream(device->blas, device->stream),
                             "cublasSetStream") &&
           dl_cuda_good_blas(device,
                             cublasSetMathMode(device->blas, settings->math == DL_DEVICE_MATH_TF32
                                                                 ? CUBLAS_TF32_TENSOR_OP_MATH
                                                                 : CUBLAS_DEFAULT_MATH),
                             "cublasSetMathMode") &&
           dl_cuda_good_dnn(device, cudnnCreate(&device->dnn), "cudnnCreate") &&
           dl_cuda_good_dnn(device, cudnnSetStream(device->dnn, device->stream),
                            "cudnnSetStream") &&
           dl_cuda_good_dnn(device, cudnnCreateTensorDescriptor(&device->tensor),
                            "cudnnCreateTensorDescriptor") &&
           dl_cuda_good_dnn(device, cudnnCreateTensorDescriptor(&device->channels),
                            "cudnnCreateTensorDescriptor") &&
           dl_cuda_good_dnn(device, cudnnCreateActivationDescriptor(&device->rectifier),
                            "cudnnCreateActivationDescriptor") &&
           dl_cuda_good_dnn(device,
                            cudnnSetActivationDescriptor(device->rectifier, CUDNN_ACTIVATION_RELU,
                                                         CUDNN_NOT_PROPAGATE_NAN, 0),
                            "cudnnSetActivationDescriptor");
}

/* Releases everything even if a release fails, since none can be repeated. */
static void cuda_close(dl_device *device)
{
    if (device == NULL) return;
    (void)cudaSetDevice(device->number);
    dl_cuda_group_leave(device);
    for (size_t i = 0; i < device->mark_count; i++) {
        if (device->marks[i] != NULL) (void)cudaEventDestroy(device->marks[i]);
    }
    free(device->marks);
    dl_cuda_convs_free(device);
    if (device->rectifier != NULL) (void)cudnnDestroyActivationDescriptor(device->rectifier);
    if (device->channels != NULL) (void)cudnnDestroyTensorDescriptor(device->channels);
    if (device->tensor != NULL) (void)cudnnDestroyTensorDescriptor(device->tensor);
    if (device->dnn != NULL) (void)cudnnDestroy(device->dnn);
    if (device->blas != NULL) (void)cublasDestroy(device->blas);
    (void)cudaFreeHost((void *)device->let_go);
    (void)cudaFree(device->ones);
    (void)cudaFree(device->overflow);
    (void)cudaFree(device->scratch);
    if (device->stream != NULL) (void)cudaStreamDestroy(device->stream);
    free(device);
}

/* Without TF32 the libraries compute in fp32, and a trace would name the wrong arithmetic. */
static dl_status check_math(int number, const dl_device_settings *settings, dl_error *err)
{
    dl_device_info info;
    if (settings->math != DL_DEVICE_MATH_TF32) return DL_OK;
    const dl_status status = cuda_describe(number, &info, err);
    if (status != DL_OK || info.major >= 8) return status;
    return dl_error_set(err, DL_ERR_UNSUPPORTED,
                        "GPU %d (%.100s) has no TF32, which came with compute capability 8.0; it "
                        "has %d.%d",
                        number, info.name, info.major, info.minor);
}

static dl_status cuda_open(dl_device **device, int number, const dl_device_settings *settings,
                           dl_error *err)
{
    const dl_status status = check_math(number, settings, err);
    if (status != DL_OK) return status;
    dl_device *made = dl_calloc(1, sizeof *made, "device");
    made->number = number;
    made->settings = *settings;
    if (!open_handles(made)) {
        const dl_status failed = made->failure.code;
        if (err != NULL) *err = made->failure;
        cuda_close(made);
        return failed;
    }
    *device = made;
    return DL_OK;
}

static void cuda_use(dl_device *device)
{
    dl_cuda_use(device);
    dl_cuda_good(device, cudaSetDevice(device->number), "cudaSetDevice");
}

static size_t cuda_used_bytes(void)
{
    dl_device *device = dl_cuda_device();
    size_t free_bytes = 0, all_bytes = 0;
    if (!dl_cuda_works(device)) return 0;
    dl_cuda_good(device, cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
    return all_bytes - free_bytes;
}

/* Makes an event for every mark up to `index`; false if CUDA fails. */
static bool have_mark(dl_device *device, size_t index)
{
    if (index < device->mark_count) return true;
    const size_t count = index + 1 > 2 * device->mark_count ? index + 1 : 2 * device->mark_count;
    device->marks = dl_realloc(device->marks, count, sizeof *device->marks, "marks");
    while (device->mark_count < count) {
        cudaEvent_t *event = &device->marks[device->mark_count];
        *event = NULL;
        if (!dl_cuda_good(device, cudaEventCreateWithFlags(event, cudaEventDefault),
                          "cudaEventCreate")) {
            return false;
        }
        device->mark_count++;
    }
    return true;
}

static void cuda_mark(size_t index)
{
    dl_device *device = dl_cuda_device();
    if (!dl_cuda_works(device) || !have_mark(device, index)) return;
    dl_cuda_good(device, cudaEventRecord(device->marks[index], device->stream), "cudaEventRecord");
}

static double cuda_between_ns(size_t from, size_t to)
{
    dl_device *device = dl_cuda_device();
    float ms = 0;
    if (!dl_cuda_works(device)) return 0;
    dl_cuda_good(device, cudaEventElapsedTime(&ms, device->marks[from], device->marks[to]),
                 "cudaEventElapsedTime");
    return (double)ms * 1e6;
}

/* The GPU reads the flag in host memory. It can be set again, since the caller has waited for the
 * operations of the last hold. */
static void cuda_hold(void)
{
    dl_device *device = dl_cuda_device();
    const unsigned flags = cudaHostAllocPortable | cudaHostAllocMapped;
    if (!dl_cuda_works(device)) return;
    if (device->let_go == NULL &&
        !dl_cuda_good(device,
                      cudaHostAlloc((void **)&device->let_go, sizeof *device->let_go, flags),
                      "page-locked memory of the host")) {
        return;
    }
    *device->let_go = 0;
    dl_cuda_hold(device->let_go);
}

static void cuda_let_go(void)
{
    const dl_device *device = dl_cuda_device();
    if (device->let_go != NULL) *device->let_go = 1;
}

const dl_device_type dl_device_cuda = {
    .name = "cuda",
    .backend = &dl_backend_cuda,
    .count = cuda_count,
    .describe = cuda_describe,
    .open = cuda_open,
    .close = cuda_close,
    .use = cuda_use,
    .used_bytes = cuda_used_bytes,
    .mark = cuda_mark,
    .between_ns = cuda_between_ns,
    .join = dl_cuda_join,
    .make_id = dl_cuda_make_id,
    .all_reduce = dl_cuda_all_reduce,
    .group = dl_cuda_group_calls,
    .hold = cuda_hold,
    .let_go = cuda_let_go,
    .launch = dl_cuda_launch,
    .reach = cuda_reach,
    .copy = cuda_copy,
    .unscale = dl_cuda_unscale,
    .average = dl_cuda_average,
    .encode = dl_cuda_encode,
    .decode = dl_cuda_decode,
};
