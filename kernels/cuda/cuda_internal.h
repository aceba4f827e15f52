/* Internals of the "cuda" backend: a slot on a GPU and the operations. cuda_calls.c: the thread's
 * slot, failures of calls; backend_cuda.c: the table and all operations but convolutions
 * (backend_cuda_conv.c); device_cuda.c: slots, marks, holds, copies; device_cuda_group.c:
 * reductions, waits; cuda_kernels.cu: our kernels and the operations that use them. dl_backend
 * documents the operations.
 *
 * A slot launches everything on one stream, so that its operations run in order and may share
 * scratch memory. Only `wait`, allocations, releases and the first use of a shape block, and with
 * several processes also reductions.
 *
 * Every CUDA call is checked by dl_cuda_good or a similar function: the first failure is kept with
 * its reason, and later calls are skipped. */
#ifndef DL_KERNELS_CUDA_INTERNAL_H
#define DL_KERNELS_CUDA_INTERNAL_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include "kernels/backend.h"
#include "kernels/device.h"

/* Descriptors and algorithms of one shape of convolution. */
typedef struct dl_cuda_conv dl_cuda_conv;

/* State shared by the members of a reduction. */
typedef struct dl_cuda_group dl_cuda_group;

struct dl_device {
    int number;
    dl_device_settings settings;
    dl_error failure; /* first failure; code DL_OK: none */
    cudaStream_t stream;
    cublasHandle_t blas;
    cudnnHandle_t dnn;
    dl_cuda_group *group;    /* NULL: no group */
    ncclComm_t communicator; /* this slot's communicator in the group; NULL: no group, or aborted */

    /* Descriptors; each operation sets them before use. */
    cudnnTensorDescriptor_t tensor, channels;
    cudnnActivationDescriptor_t rectifier;

    dl_cuda_conv *convs; /* list of the shapes used so far */
    void *scratch;
    size_t scratch_bytes;
    float *ones; /* a vector of ones: sums are products with it */
    int ones_count;
    /* On the device: whether a scaled gradient is not finite; NULL: not needed yet. */
    int *overflow;

    cudaEvent_t *marks;
    size_t mark_count;

    volatile int *let_go;  /* flag of the last hold, in page-locked host memory; NULL: none */
    uint64_t asked, peers; /* bit n: direct access to GPU n was requested, and is possible */
};

/* Factor on the loss with fp16. A power of two, so that nothing is rounded; 8 to 32768 were enough
 * for the networks of Micikevicius et al. 2018 ("Mixed precision training"). */
#define DL_CUDA_LOSS_SCALE 1024.0f

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the calling thread's slot; having none is a broken invariant. */
dl_device *dl_cuda_device(void);
void dl_cuda_use(dl_device *device);

/* Returns whether no call of the slot has failed so far; operations run only then. */
bool dl_cuda_works(const dl_device *device);

/* Return whether a call succeeded; if not, keep the reason of the slot's first failure. `what`
 * names the call in the message. */
bool dl_cuda_good(dl_device *device, cudaError_t result, const char *what);
bool dl_cuda_good_blas(dl_device *device, cublasStatus_t result, const char *what);
bool dl_cuda_good_dnn(dl_device *device, cudnnStatus_t result, const char *what);
bool dl_cuda_good_nccl(dl_device *device, ncclResult_t result, const char *what);

/* Returns memory for one operation's intermediate results, which the next operation may overwrite;
 * NULL for 0 bytes, if the device lacks memory, or after a failure. */
void *dl_cuda_scratch(dl_device *device, size_t bytes);

/* The backend's `wait`: returns when all work of the thread's slot is done or another member of its
 * group has failed. */
dl_status dl_cuda_wait(dl_error *err);

extern const dl_backend dl_backend_cuda;
extern const dl_device_type dl_device_cuda;

/* Reductions over several GPUs, see dl_device_type. dl_cuda_group_fail tells the other members not
 * to wait for this one. */
dl_status dl_cuda_join(dl_device *const *devices, int count, const dl_device_ranks *ranks,
                       dl_error *err) DL_MUST_CHECK;
dl_status dl_cuda_make_id(char id[DL_DEVICE_ID_BYTES], dl_error *err) DL_MUST_CHECK;
void dl_cuda_all_reduce(void *values, size_t count);
void dl_cuda_group_calls(bool begin);
void dl_cuda_group_fail(dl_device *device);
void dl_cuda_group_leave(dl_device *device);

/* cuDNN's convolutions. */
size_t dl_cuda_conv_scratch_bytes(const dl_windows *conv);
void dl_cuda_conv_forward(const dl_windows *conv, const void *x, const void *weights,
                          const void *bias, void *y, void *scratch);
void dl_cuda_conv_backward_data(const dl_windows *conv, const void *dy, const void *weights,
                                void *dx, bool accumulate, void *scratch);
void dl_cuda_conv_backward_filter(const dl_windows *conv, const void *x, const void *dy,
                                  void *dweights, void *scratch);

/* Frees device->convs. */
void dl_cuda_convs_free(dl_device *device);

/* Operations built on our own kernels (cuda_kernels.cu). */
void dl_cuda_repeat_row(void *matrix, const void *row, int rows, int columns);
void dl_cuda_max_pool(const dl_windows *pool, const void *x, void *y, int32_t *choice);
void dl_cuda_max_pool_backward(const dl_windows *pool, const int32_t *choice, const void *dy,
                               void *dx);
void dl_cuda_mean_pixels(int count, int pixels, int channels, const void *x, void *y);
void dl_cuda_mean_pixels_backward(int count, int pixels, int channels, const void *dy, void *dx);
void dl_cuda_softmax(const dl_softmax *of);
void dl_cuda_softmax_backward(const dl_softmax *of, void *gradients);
void dl_cuda_sgd(const dl_update *update);
void dl_cuda_rmsprop(const dl_update *update);
void dl_cuda_adam(const dl_update *update);
void dl_cuda_unscale(void *gradients, size_t count);
void dl_cuda_average(void *result, const void *const *vectors, int n, size_t count);
void dl_cuda_encode(const dl_quantise_plan *plan, const void *blocks, const void *values,
                    void *residual, void *message);
void dl_cuda_decode(const dl_quantise_plan *plan, const void *blocks, const void *message,
                    void *values);
void dl_cuda_hold(const volatile int *let_go);
void dl_cuda_launch(void);
void dl_cuda_set_ones(float *values, size_t count);

#ifdef __cplusplus
}
#endif

#endif
