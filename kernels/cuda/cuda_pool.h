/* Pooling on the "cuda" device. Each function launches on the stream and returns the error of the
 * launch. Effects and arguments: see dl_backend; all numbers are float in the device's memory. */
#ifndef DL_KERNELS_CUDA_POOL_H
#define DL_KERNELS_CUDA_POOL_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif
