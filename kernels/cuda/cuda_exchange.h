/* Kernels of the "cuda" device for the exchange of parameters and gradients. Each function launches
 * on the stream and returns the error of the launch. Numbers are float in memory that the device can
 * read: its own, or a peer's whose access is on. */
#ifndef DL_KERNELS_CUDA_EXCHANGE_H
#define DL_KERNELS_CUDA_EXCHANGE_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/quantise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* DL_DEVICE_VECTORS_MAX: as many pointers fit into a kernel's arguments (4 KiB). */
#define DL_CUDA_VECTORS_MAX 256

/* result[i] = mean of vectors[0..n-1][i] for i < count, 1 <= n <= DL_CUDA_VECTORS_MAX, in one pass.
 * Sums are in the order of the vectors, with nothing fused: the bits of dl_exchange_average. All
 * pointers lie on 16-byte borders; `result` may be one of the vectors. */
cudaError_t dl_cuda_launch_average(float *result, const float *const *vectors, int n, size_t count,
                                   cudaStream_t stream);

/* Messages, see kernels/quantise.h. `blocks` lies in the device's memory. Sums of 1bit are taken in
 * double: its means may differ from the processor's in the last bit. */
cudaError_t dl_cuda_launch_halve(uint16_t *message, const float *values, size_t count,
                                 cudaStream_t stream);
cudaError_t dl_cuda_launch_widen(float *values, const uint16_t *message, size_t count,
                                 cudaStream_t stream);
cudaError_t dl_cuda_launch_sign(dl_quantise_bits *message, const dl_quantise_block *blocks,
                                size_t block_count, const float *values, float *residual,
                                cudaStream_t stream);
cudaError_t dl_cuda_launch_unsign(float *values, const dl_quantise_block *blocks,
                                  size_t block_count, const dl_quantise_bits *message,
                                  cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
