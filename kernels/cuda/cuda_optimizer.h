/* Updates of the optimizers on the "cuda" device, and taking a loss's scale off the gradients before
 * them. Each function launches on the stream and returns the error of the launch. Effects and
 * arguments: see dl_backend; all numbers are float in the device's memory. */
#ifndef DL_KERNELS_CUDA_OPTIMIZER_H
#define DL_KERNELS_CUDA_OPTIMIZER_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* dl_update, flat and rounded to float: what each number's update is made of. */
typedef struct dl_cuda_update {
    float *parameters;
    const float *gradients;
    float *first, *second;
    size_t count;
    float rate, decay1, rest1, decay2, rest2, scale2, epsilon;
} dl_cuda_update;

/* gradients /= scale, or 0 if one of them is not finite, which *overflow then says. */
cudaError_t dl_cuda_launch_unscale(float *gradients, size_t count, float scale, int *overflow,
                                   cudaStream_t stream);

cudaError_t dl_cuda_launch_sgd(const dl_cuda_update *update, cudaStream_t stream);
cudaError_t dl_cuda_launch_rmsprop(const dl_cuda_update *update, cudaStream_t stream);
cudaError_t dl_cuda_launch_adam(const dl_cuda_update *update, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
