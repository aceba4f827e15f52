/* Kernels of the "cuda" device. Each function launches on the stream and returns the error of the
 * launch. Effects and arguments of the backend's operations: see dl_backend; all numbers are float
 * in the device's memory. */
#ifndef DL_KERNELS_CUDA_KERNELS_H
#define DL_KERNELS_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/quantise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* values[i] = value for i < count. */
cudaError_t dl_cuda_launch_fill(float *values, float value, size_t count, cudaStream_t stream);

/* matrix[rows x columns]: each row becomes row[columns]. */
cudaError_t dl_cuda_launch_repeat_row(float *matrix, const float *row, int rows, int columns,
                                      cudaStream_t stream);

/* Holds up the stream until *let_go is not 0, or for two seconds if that never comes. */
cudaError_t dl_cuda_launch_hold(const volatile int *let_go, cudaStream_t stream);
cudaError_t dl_cuda_launch_nothing(cudaStream_t stream);

/* DL_DEVICE_VECTORS_MAX: as many pointers fit into a kernel's arguments (4 KiB). */
#define DL_CUDA_VECTORS_MAX 256

/* result[i] = mean of vectors[0..n-1][i] for i < count, 1 <= n <= DL_CUDA_VECTORS_MAX, in one pass.
 * Sums are in the order of the vectors, with nothing fused: the bits of dl_exchange_average. All
 * pointers lie on 16-byte boundaries; `result` may be one of the vectors. */
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

/* dl_pool, flat. */
typedef struct dl_cuda_pool {
    int count, channels;
    int in_rows, in_columns, out_rows, out_columns;
    int kernel, stride, padding;
} dl_cuda_pool;

/* cuDNN keeps no place of a maximum, and takes the maxima themselves for the backward pass, which a
 * rectifier in place has overwritten by then. */
cudaError_t dl_cuda_launch_max_pool(const dl_cuda_pool *pool, const float *x, float *y,
                                    int32_t *choice, cudaStream_t stream);
cudaError_t dl_cuda_launch_max_pool_backward(const dl_cuda_pool *pool, const int32_t *choice,
                                             const float *dy, float *dx, cudaStream_t stream);

/* cuDNN asks for x and y again for the backward pass of means too, which the table does not keep.
 */
cudaError_t dl_cuda_launch_average_pool(const dl_cuda_pool *pool, const float *x, float *y,
                                        cudaStream_t stream);
cudaError_t dl_cuda_launch_average_pool_backward(const dl_cuda_pool *pool, const float *dy,
                                                 float *dx, cudaStream_t stream);

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
