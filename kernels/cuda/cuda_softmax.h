/* Softmax with its loss on the "cuda" device, which cuDNN has not. Each function launches on the
 * stream and returns the error of the launch. Effects and arguments: see dl_backend; numbers are
 * float in the device's memory. */
#ifndef DL_KERNELS_CUDA_SOFTMAX_H
#define DL_KERNELS_CUDA_SOFTMAX_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sums in double, as on the processor. */
cudaError_t dl_cuda_launch_softmax(int batch, int classes, const float *scores,
                                   const int32_t *labels, float *probabilities, double *losses,
                                   int32_t *correct, cudaStream_t stream);
/* The gradient of `scale` times the loss. */
cudaError_t dl_cuda_launch_softmax_backward(int batch, int classes, float scale,
                                            const float *probabilities, const int32_t *labels,
                                            float *gradients, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
