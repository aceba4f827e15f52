#include <cuda_fp16.h>

#include "kernels/cuda/cuda_exchange.h"
#include "kernels/cuda/cuda_launch.cuh"

#define WARP 32
#define WARPS (DL_CUDA_THREADS / WARP)
#define EACH (DL_QUANTISE_BLOCK / DL_CUDA_THREADS) /* numbers of a thread in a block of 1bit */

struct vectors {
    const float *of[DL_CUDA_VECTORS_MAX];
};

static __device__ float4 sum_of(float4 a, float4 b)
{
    return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z),
                       __fadd_rn(a.w, b.w));
}

/* N vectors, or n where N is 0: with a constant all loads of a number are under way at once, and the
 * pointers stay in registers. Four numbers a thread and turn. */
template <int N>
static __global__ void average_kernel(float *result, const vectors v, int n, size_t count,
                                      float share)
{
    const int all = N > 0 ? N : n;
    const size_t quads = count / 4;
    for (size_t i = dl_cuda_first_index(); i < quads; i += dl_cuda_grid_size()) {
        float4 sum = reinterpret_cast<const float4 *>(v.of[0])[i];
#pragma unroll
        for (int k = 1; k < all; k++)
            sum = sum_of(sum, reinterpret_cast<const float4 *>(v.of[k])[i]);
        reinterpret_cast<float4 *>(result)[i] =
            make_float4(sum.x * share, sum.y * share, sum.z * share, sum.w * share);
    }
    const size_t last = quads * 4 + dl_cuda_first_index();
    if (last >= count) return;
    float sum = v.of[0][last];
    for (int k = 1; k < all; k++)
        sum = __fadd_rn(sum, v.of[k][last]);
    result[last] = sum * share;
}

cudaError_t dl_cuda_launch_average(float *result, const float *const *list, int n, size_t count,
                                   cudaStream_t stream)
{
    vectors v;
    for (int k = 0; k < DL_CUDA_VECTORS_MAX; k++)
        v.of[k] = k < n ? list[k] : NULL;
    const float share = 1.0f / (float)n;
    const unsigned blocks = dl_cuda_blocks((count + 3) / 4);
    switch (n) {
    case 1:
        average_kernel<1><<<blocks, DL_CUDA_THREADS, 0, stream>>>(result, v, n, count, share);
        break;
    case 2:
        average_kernel<2><<<blocks, DL_CUDA_THREADS, 0, stream>>>(result, v, n, count, share);
        break;
    case 3:
        average_kernel<3><<<blocks, DL_CUDA_THREADS, 0, stream>>>(result, v, n, count, share);
        break;
    case 4:
        average_kernel<4><<<blocks, DL_CUDA_THREADS, 0, stream>>>(result, v, n, count, share);
        break;
    case 8:
        average_kernel<8><<<blocks, DL_CUDA_THREADS, 0, stream>>>(result, v, n, count, share);
        break;
    default:
        average_kernel<0><<<blocks, DL_CUDA_THREADS, 0, stream>>>(result, v, n, count, share);
        break;
    }
    return cudaGetLastError();
}

/* Largest number of half precision. */
#define HALF_MAX 65504.0f

/* NaN stays NaN: neither comparison holds. */
static __global__ void halve_kernel(__half *message, const float *values, size_t count)
{
    for (size_t i = dl_cuda_first_index(); i < count; i += dl_cuda_grid_size()) {
        float value = values[i];
        if (value > HALF_MAX) value = HALF_MAX;
        if (value < -HALF_MAX) value = -HALF_MAX;
        message[i] = __float2half_rn(value);
    }
}

static __global__ void widen_kernel(float *values, const __half *message, size_t count)
{
    for (size_t i = dl_cuda_first_index(); i < count; i += dl_cuda_grid_size())
        values[i] = __half2float(message[i]);
}

cudaError_t dl_cuda_launch_halve(uint16_t *message, const float *values, size_t count,
                                 cudaStream_t stream)
{
    halve_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(
        reinterpret_cast<__half *>(message), values, count);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_widen(float *values, const uint16_t *message, size_t count,
                                 cudaStream_t stream)
{
    widen_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(
        values, reinterpret_cast<const __half *>(message), count);
    return cudaGetLastError();
}

/* Sum over the block, in the same order every time; every thread gets it. */
static __device__ double block_sum(double value, double *shared)
{
    for (int width = WARP / 2; width > 0; width /= 2)
        value += __shfl_down_sync(0xffffffffu, value, width);
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = value;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < WARPS; w++)
        sum += shared[w];
    __syncthreads();
    return sum;
}

/* One block of threads a block of numbers, which stay in registers: values and residual are read
 * once, the residual written once. Thread t has numbers t, t + DL_CUDA_THREADS, ..., so that a warp
 * has one word of bits a turn. */
static __global__ void sign_kernel(dl_quantise_bits *message, const dl_quantise_block *blocks,
                                   const float *values, float *residual)
{
    __shared__ double shared[WARPS];
    const dl_quantise_block block = blocks[blockIdx.x];
    dl_quantise_bits *bits = &message[blockIdx.x];
    const float *from = values + block.first;
    float *rest = residual + block.first;
    float v[EACH];
    double low = 0, high = 0, above = 0;
    for (int e = 0; e < EACH; e++) {
        const unsigned i = threadIdx.x + e * DL_CUDA_THREADS;
        v[e] = 0;
        if (i >= block.count) continue;
        v[e] = rest[i] + from[i];
        if (v[e] >= 0) {
            high += (double)v[e];
            above += 1;
        } else {
            low += (double)v[e];
        }
    }
    low = block_sum(low, shared);
    high = block_sum(high, shared);
    above = block_sum(above, shared);
    const double below = (double)block.count - above;
    const float mean_low = below > 0 ? (float)(low / below) : 0;
    const float mean_high = above > 0 ? (float)(high / above) : 0;
    for (int e = 0; e < EACH; e++) {
        const unsigned i = threadIdx.x + e * DL_CUDA_THREADS;
        const bool within = i < block.count, positive = within && v[e] >= 0;
        const unsigned word = __ballot_sync(0xffffffffu, positive);
        if (threadIdx.x % WARP == 0) bits->words[i / WARP] = word;
        if (within) rest[i] = v[e] - (positive ? mean_high : mean_low);
    }
    if (threadIdx.x > 0) return;
    bits->low = mean_low;
    bits->high = mean_high;
}

static __global__ void unsign_kernel(float *values, const dl_quantise_block *blocks,
                                     const dl_quantise_bits *message)
{
    const dl_quantise_block block = blocks[blockIdx.x];
    const dl_quantise_bits *bits = &message[blockIdx.x];
    const float low = bits->low, high = bits->high;
    for (unsigned i = threadIdx.x; i < block.count; i += DL_CUDA_THREADS)
        values[block.first + i] = (bits->words[i / WARP] >> i % WARP & 1u) != 0 ? high : low;
}

cudaError_t dl_cuda_launch_sign(dl_quantise_bits *message, const dl_quantise_block *blocks,
                                size_t block_count, const float *values, float *residual,
                                cudaStream_t stream)
{
    sign_kernel<<<(unsigned)block_count, DL_CUDA_THREADS, 0, stream>>>(message, blocks, values,
                                                                       residual);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_unsign(float *values, const dl_quantise_block *blocks,
                                  size_t block_count, const dl_quantise_bits *message,
                                  cudaStream_t stream)
{
    unsign_kernel<<<(unsigned)block_count, DL_CUDA_THREADS, 0, stream>>>(values, blocks, message);
    return cudaGetLastError();
}
