#include "kernels/cuda/cuda_softmax.h"

#include <limits.h>
#include <math.h>

#include "kernels/cuda/cuda_launch.cuh"

/* Sum over the block of each thread's value, the same for every thread and every time. */
static __device__ double block_sum(double value, double *shared)
{
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned width = DL_CUDA_THREADS / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) shared[threadIdx.x] += shared[threadIdx.x + width];
        __syncthreads();
    }
    const double sum = shared[0];
    __syncthreads();
    return sum;
}

/* The block's largest value and its place, the first of equal ones. */
static __device__ double block_best(double value, int *place, double *shared, int *places)
{
    shared[threadIdx.x] = value;
    places[threadIdx.x] = *place;
    __syncthreads();
    for (unsigned width = DL_CUDA_THREADS / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            const double mine = shared[threadIdx.x], other = shared[threadIdx.x + width];
            const int other_place = places[threadIdx.x + width];
            if (other > mine || (other == mine && other_place < places[threadIdx.x])) {
                shared[threadIdx.x] = other;
                places[threadIdx.x] = other_place;
            }
        }
        __syncthreads();
    }
    const double best = shared[0];
    *place = places[0];
    __syncthreads();
    return best;
}

/* One block a sample. The maximum is taken off first, so that exp cannot overflow. */
static __global__ void softmax_kernel(int classes, const float *scores, const int32_t *labels,
                                      float *probabilities, double *losses, int32_t *correct)
{
    __shared__ double shared[DL_CUDA_THREADS];
    __shared__ int places[DL_CUDA_THREADS];
    const size_t row = (size_t)blockIdx.x * classes;
    double top = -INFINITY;
    int best = INT_MAX;
    for (int c = (int)threadIdx.x; c < classes; c += DL_CUDA_THREADS) {
        if (scores[row + c] > top) {
            top = scores[row + c];
            best = c;
        }
    }
    top = block_best(top, &best, shared, places);
    double sum = 0;
    for (int c = (int)threadIdx.x; c < classes; c += DL_CUDA_THREADS)
        sum += exp((double)scores[row + c] - top);
    sum = block_sum(sum, shared);
    for (int c = (int)threadIdx.x; c < classes; c += DL_CUDA_THREADS)
        probabilities[row + c] = (float)(exp((double)scores[row + c] - top) / sum);
    if (threadIdx.x == 0) {
        const int label = labels[blockIdx.x];
        losses[blockIdx.x] = log(sum) - ((double)scores[row + label] - top);
        correct[blockIdx.x] = best == label;
    }
}

cudaError_t dl_cuda_launch_softmax(int batch, int classes, const float *scores,
                                   const int32_t *labels, float *probabilities, double *losses,
                                   int32_t *correct, cudaStream_t stream)
{
    softmax_kernel<<<(unsigned)batch, DL_CUDA_THREADS, 0, stream>>>(classes, scores, labels,
                                                                    probabilities, losses, correct);
    return cudaGetLastError();
}

static __global__ void softmax_backward_kernel(size_t count, int classes, float share,
                                               const float *probabilities, const int32_t *labels,
                                               float *gradients)
{
    for (size_t i = dl_cuda_first_index(); i < count; i += dl_cuda_grid_size()) {
        const int label = labels[i / (size_t)classes];
        const float wanted = (int)(i % (size_t)classes) == label ? 1.0f : 0.0f;
        gradients[i] = share * (probabilities[i] - wanted);
    }
}

cudaError_t dl_cuda_launch_softmax_backward(int batch, int classes, float scale,
                                            const float *probabilities, const int32_t *labels,
                                            float *gradients, cudaStream_t stream)
{
    const size_t count = (size_t)batch * (size_t)classes;
    softmax_backward_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(
        count, classes, scale / (float)batch, probabilities, labels, gradients);
    return cudaGetLastError();
}
