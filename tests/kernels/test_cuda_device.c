/* Slots on GPUs, with doubles of CUDA's calls: why there is no GPU, what a slot leaves behind that
 * cannot be opened, which GPUs reach each other. */
#include <stdlib.h>

#include "kernels/cuda/cuda_internal.h"
#include "tests/check.h"

static struct {
    int count, driver, major;  /* of cudaGetDeviceCount, cudaDriverGetVersion; capability */
    cudaError_t result;        /* of cudaGetDeviceCount */
    int left, alive;           /* resources until one is refused; not yet destroyed */
    bool reaches;              /* whether GPUs reach each other */
    cudaError_t enabled, last; /* result of cudaDeviceEnablePeerAccess; CUDA's last error */
    int asked, from_gpu, to_gpu, current; /* questions for access; the last copy; current GPU */
} cuda;

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = cuda.count;
    return cuda.result;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = cuda.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int number DL_UNUSED)
{
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "Double");
    properties->major = cuda.major;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes DL_UNUSED, int number DL_UNUSED)
{
    strcpy(id, "0000:17:00.0");
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "another error";
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t last = cuda.last;
    cuda.last = cudaSuccess;
    return last;
}

cudaError_t cudaSetDevice(int number)
{
    cuda.current = number;
    return cudaSuccess;
}

/* Makes a resource; false: there is no memory for it. */
static bool make(void *to)
{
    void *const made = cuda.left-- > 0 ? &cuda : NULL;
    memcpy(to, &made, sizeof made);
    cuda.alive += made != NULL;
    return made != NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    assert_int_equal(flags, cudaStreamNonBlocking);
    return make(stream) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    return make(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    return make(handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor)
{
    return make(tensor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED;
}

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *activation)
{
    return make(activation) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED;
}

#define SETS(type, success, name, ...) \
    type name(__VA_ARGS__)             \
    {                                  \
        return success;                \
    }
#define DESTROYS(type, success, name, kind) \
    type name(kind resource)                \
    {                                       \
        assert_non_null(resource);          \
        cuda.alive--;                       \
        return success;                     \
    }
SETS(cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasSetStream, cublasHandle_t a DL_UNUSED,
     cudaStream_t b DL_UNUSED)
SETS(cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasSetMathMode, cublasHandle_t a DL_UNUSED,
     cublasMath_t b DL_UNUSED)
SETS(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnSetStream, cudnnHandle_t a DL_UNUSED,
     cudaStream_t b DL_UNUSED)
SETS(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnSetActivationDescriptor,
     cudnnActivationDescriptor_t a DL_UNUSED, cudnnActivationMode_t b DL_UNUSED,
     cudnnNanPropagation_t c DL_UNUSED, double d DL_UNUSED)
DESTROYS(cudaError_t, cudaSuccess, cudaStreamDestroy, cudaStream_t)
DESTROYS(cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasDestroy, cublasHandle_t)
DESTROYS(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnDestroy, cudnnHandle_t)
DESTROYS(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnDestroyTensorDescriptor, cudnnTensorDescriptor_t)
DESTROYS(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnDestroyActivationDescriptor,
         cudnnActivationDescriptor_t)

cudaError_t cudaFree(void *memory)
{
    assert_null(memory);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    assert_null(memory);
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int number, int peer)
{
    assert_int_equal(number, cuda.current);
    assert_int_not_equal(number, peer);
    cuda.asked++;
    *can = cuda.reaches;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer DL_UNUSED, unsigned flags)
{
    assert_int_equal(flags, 0);
    return cuda.last = cuda.enabled;
}

cudaError_t cudaMemcpyPeerAsync(void *to DL_UNUSED, int to_gpu, const void *from DL_UNUSED,
                                int from_gpu, size_t bytes DL_UNUSED, cudaStream_t stream)
{
    assert_non_null(stream);
    cuda.to_gpu = to_gpu;
    cuda.from_gpu = from_gpu;
    return cudaSuccess;
}

static int set_up(void **state DL_UNUSED)
{
    memset(&cuda, 0, sizeof cuda);
    cuda.count = 8;
    cuda.left = 100;
    cuda.driver = 13000;
    cuda.major = 9;
    return 0;
}

static void check_no_gpu(int driver, cudaError_t result, const char *text)
{
    int count = -1;
    dl_error err = {0};
    cuda.driver = driver;
    cuda.result = result;
    cuda.count = 0;
    assert_int_equal(dl_device_cuda.count(&count, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, text);
}

static void reasons_without_a_gpu(void **state DL_UNUSED)
{
    check_no_gpu(0, cudaErrorInsufficientDriver, "no NVIDIA driver");
    check_no_gpu(12020, cudaErrorInsufficientDriver,
                 "is for CUDA 12.2, but this program needs 13.0");
    check_no_gpu(13000, cudaErrorSystemNotReady, "cannot be used: another error");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    check_no_gpu(13000, cudaErrorNoDevice, "finds no GPU (CUDA_VISIBLE_DEVICES is '')");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void a_slot_that_cannot_be_opened_leaves_nothing(void **state DL_UNUSED)
{
    const dl_device_settings settings = {0};
    dl_status status = DL_ERR_SYSTEM;
    for (int made = 0; status != DL_OK; made++) {
        dl_device *device = NULL;
        dl_error err = {0};
        cuda.left = made;
        status = dl_device_cuda.open(&device, 3, &settings, &err);
        assert_true(status == DL_OK ? made == 6 : made < 6);
        if (status != DL_OK) assert_contains(err.text, "GPU 3: cu");
        dl_device_cuda.close(device);
        assert_int_equal(cuda.alive, 0);
    }
}

static void tf32_needs_a_gpu_that_has_it(void **state DL_UNUSED)
{
    const dl_device_settings settings = {.math = DL_DEVICE_MATH_TF32};
    dl_device *device = NULL;
    dl_error err = {0};
    cuda.major = 7;
    assert_int_equal(dl_device_cuda.open(&device, 3, &settings, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "GPU 3 (Double) has no TF32");
    cuda.major = 8;
    assert_int_equal(dl_device_cuda.open(&device, 3, &settings, &err), DL_OK);
    dl_device_cuda.close(device);
}

/* CUDA allows eight peers of a GPU; of two slots on a GPU, the second one finds access enabled. */
static void gpus_reach_each_other(void **state DL_UNUSED)
{
    static const struct {
        bool can;
        cudaError_t enabled;
        bool reaches;
    } cases[] = {{false, cudaSuccess, false},
                 {true, cudaSuccess, true},
                 {true, cudaErrorPeerAccessAlreadyEnabled, true},
                 {true, cudaErrorTooManyPeers, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dl_device_settings settings = {0};
        dl_device *slots[3];
        dl_error err = {0};
        for (int s = 0; s < 3; s++)
            assert_int_equal(dl_device_cuda.open(&slots[s], s % 2, &settings, &err), DL_OK);
        cuda.reaches = cases[i].can;
        cuda.enabled = cases[i].enabled;
        cuda.asked = 0;
        dl_device_cuda.use(slots[0]);
        assert_true(dl_device_cuda.reach(slots[2])); /* the same GPU */
        for (int again = 0; again < 2; again++) {
            assert_int_equal(dl_device_cuda.reach(slots[1]), cases[i].reaches);
            dl_device_cuda.copy(slots[0], &cuda, slots[1], &cuda, 4);
            assert_true(cuda.to_gpu == 0 && cuda.from_gpu == 1);
        }
        assert_int_equal(cuda.asked, 1);
        assert_int_equal(cuda.last, cudaSuccess); /* the next launch would report it */
        for (int s = 0; s < 3; s++)
            dl_device_cuda.close(slots[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reasons_without_a_gpu, set_up),
        cmocka_unit_test_setup(a_slot_that_cannot_be_opened_leaves_nothing, set_up),
        cmocka_unit_test_setup(tf32_needs_a_gpu_that_has_it, set_up),
        cmocka_unit_test_setup(gpus_reach_each_other, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
