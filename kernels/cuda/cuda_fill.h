/* One number, or one row, over and over, on the "cuda" device. Each function launches on the stream
 * and returns the error of the launch. All numbers are float in the device's memory. */
#ifndef DL_KERNELS_CUDA_FILL_H
#define DL_KERNELS_CUDA_FILL_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* values[i] = value for i < count. */
cudaError_t dl_cuda_launch_fill(float *values, float value, size_t count, cudaStream_t stream);

/* matrix[rows x columns]: each row becomes row[columns]. */
cudaError_t dl_cuda_launch_repeat_row(float *matrix, const float *row, int rows, int columns,
                                      cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
