#include "kernels/cuda/cuda_fill.h"

#include "kernels/cuda/cuda_launch.cuh"

static __global__ void repeat_row_kernel(float *matrix, const float *row, size_t count,
                                         size_t columns)
{
    for (size_t i = dl_cuda_first_index(); i < count; i += dl_cuda_grid_size())
        matrix[i] = row[i % columns];
}

cudaError_t dl_cuda_launch_repeat_row(float *matrix, const float *row, int rows, int columns,
                                      cudaStream_t stream)
{
    const size_t count = (size_t)rows * (size_t)columns;
    repeat_row_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(matrix, row, count,
                                                                             (size_t)columns);
    return cudaGetLastError();
}

static __global__ void fill_kernel(float *values, float value, size_t count)
{
    for (size_t i = dl_cuda_first_index(); i < count; i += dl_cuda_grid_size())
        values[i] = value;
}

cudaError_t dl_cuda_launch_fill(float *values, float value, size_t count, cudaStream_t stream)
{
    fill_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(values, value, count);
    return cudaGetLastError();
}
