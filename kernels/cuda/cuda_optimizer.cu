#include "kernels/cuda/cuda_optimizer.h"

#include <math.h>

#include "kernels/cuda/cuda_launch.cuh"

static __global__ void find_overflow_kernel(const float *gradients, size_t count, int *overflow)
{
    bool found = false;
    for (size_t i = dl_cuda_first_index(); i < count; i += dl_cuda_grid_size())
        found |= !isfinite(gradients[i]);
    if (found) *overflow = 1; /* whoever writes, writes the same */
}

static __global__ void unscale_kernel(float *gradients, size_t count, float share,
                                      const int *overflow)
{
    const bool lost = *overflow != 0;
    for (size_t i = dl_cuda_first_index(); i < count; i += dl_cuda_grid_size())
        gradients[i] = lost ? 0.0f : gradients[i] * share;
}

cudaError_t dl_cuda_launch_unscale(float *gradients, size_t count, float scale, int *overflow,
                                   cudaStream_t stream)
{
    const cudaError_t cleared = cudaMemsetAsync(overflow, 0, sizeof *overflow, stream);
    if (cleared != cudaSuccess) return cleared;
    find_overflow_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(gradients, count,
                                                                                overflow);
    unscale_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(gradients, count,
                                                                          1.0f / scale, overflow);
    return cudaGetLastError();
}

static __global__ void sgd_kernel(dl_cuda_update u)
{
    for (size_t i = dl_cuda_first_index(); i < u.count; i += dl_cuda_grid_size()) {
        float step = u.gradients[i];
        if (u.first) {
            step = u.decay1 * u.first[i] + step;
            u.first[i] = step;
        }
        u.parameters[i] -= u.rate * step;
    }
}

static __global__ void rmsprop_kernel(dl_cuda_update u)
{
    for (size_t i = dl_cuda_first_index(); i < u.count; i += dl_cuda_grid_size()) {
        const float g = u.gradients[i];
        const float square = u.decay1 * u.first[i] + u.rest1 * g * g;
        u.first[i] = square;
        u.parameters[i] -= u.rate * g / (sqrtf(square) + u.epsilon);
    }
}

static __global__ void adam_kernel(dl_cuda_update u)
{
    for (size_t i = dl_cuda_first_index(); i < u.count; i += dl_cuda_grid_size()) {
        const float g = u.gradients[i];
        const float mean = u.decay1 * u.first[i] + u.rest1 * g;
        const float square = u.decay2 * u.second[i] + u.rest2 * g * g;
        u.first[i] = mean;
        u.second[i] = square;
        u.parameters[i] -= u.rate * mean / (sqrtf(square * u.scale2) + u.epsilon);
    }
}

cudaError_t dl_cuda_launch_sgd(const dl_cuda_update *update, cudaStream_t stream)
{
    sgd_kernel<<<dl_cuda_blocks(update->count), DL_CUDA_THREADS, 0, stream>>>(*update);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_rmsprop(const dl_cuda_update *update, cudaStream_t stream)
{
    rmsprop_kernel<<<dl_cuda_blocks(update->count), DL_CUDA_THREADS, 0, stream>>>(*update);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_adam(const dl_cuda_update *update, cudaStream_t stream)
{
    adam_kernel<<<dl_cuda_blocks(update->count), DL_CUDA_THREADS, 0, stream>>>(*update);
    return cudaGetLastError();
}
