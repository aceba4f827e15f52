#include "kernels/cuda/cuda_kernels.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <limits.h>
#include <math.h>

/* Elementwise kernels: a thread takes numbers first_index, first_index + grid_size, ... below the
 * count. */

/* How the elementwise kernels of the "cuda" device are launched: a thread takes numbers
 * first_index, first_index + grid_size, ... below the count. */
#ifndef DL_KERNELS_CUDA_LAUNCH_CUH
#define DL_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>
#include <stddef.h>

/* Threads of a block, and most blocks of an elementwise kernel: more than any GPU holds at once. */
#define THREADS 256
#define BLOCKS_MAX 8192

/* Blocks of an elementwise kernel for `count` numbers. */
static inline unsigned blocks_for(size_t count)
{
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}

static inline __device__ size_t first_index()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static inline __device__ size_t grid_size()
{
    return (size_t)gridDim.x * blockDim.x;
}

#endif

static __global__ void repeat_row_kernel(float *matrix, const float *row, size_t count,
                                         size_t columns)
{
    for (size_t i = first_index(); i < count; i += grid_size())
        matrix[i] = row[i % columns];
}

cudaError_t dl_cuda_launch_repeat_row(float *matrix, const float *row, int rows, int columns,
                                      cudaStream_t stream)
{
    const size_t count = (size_t)rows * (size_t)columns;
    repeat_row_kernel<<<blocks_for(count), THREADS, 0, stream>>>(matrix, row, count,
                                                                 (size_t)columns);
    return cudaGetLastError();
}

static __global__ void fill_kernel(float *values, float value, size_t count)
{
    for (size_t i = first_index(); i < count; i += grid_size())
        values[i] = value;
}

cudaError_t dl_cuda_launch_fill(float *values, float value, size_t count, cudaStream_t stream)
{
    fill_kernel<<<blocks_for(count), THREADS, 0, stream>>>(values, value, count);
    return cudaGetLastError();
}

/* Longest hold by the GPU's clock: far beyond the time to issue what is measured. */
#define HOLD_NS 2000000000ull

static __device__ unsigned long long device_clock_ns()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __global__ void hold_kernel(const volatile int *let_go)
{
    const unsigned long long until = device_clock_ns() + HOLD_NS;
    while (*let_go == 0 && device_clock_ns() < until) {}
}

static __global__ void nothing_kernel() {}

cudaError_t dl_cuda_launch_hold(const volatile int *let_go, cudaStream_t stream)
{
    hold_kernel<<<1, 1, 0, stream>>>(let_go);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_nothing(cudaStream_t stream)
{
    nothing_kernel<<<1, 1, 0, stream>>>();
    return cudaGetLastError();
}

#define WARP 32

#define WARPS (THREADS / WARP)

#define EACH (DL_QUANTISE_BLOCK / THREADS) /* numbers of a thread in a block of 1bit */

struct vectors {
    const float *of[DL_CUDA_VECTORS_MAX];
};

static __device__ float4 sum_of(float4 a, float4 b)
{
    return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z),
                       __fadd_rn(a.w, b.w));
}

/* N vectors, or n where N is 0: with a constant all loads of a number are under way at once, and
 * the pointers stay in registers. Four numbers per thread and turn. */
template <int N>
static __global__ void average_kernel(float *result, const vectors v, int n, size_t count,
                                      float share)
{
    const int all = N > 0 ? N : n;
    const size_t quads = count / 4;
    for (size_t i = first_index(); i < quads; i += grid_size()) {
        float4 sum = reinterpret_cast<const float4 *>(v.of[0])[i];
#pragma unroll
        for (int k = 1; k < all; k++)
            sum = sum_of(sum, reinterpret_cast<const float4 *>(v.of[k])[i]);
        reinterpret_cast<float4 *>(result)[i] =
            make_float4(sum.x * share, sum.y * share, sum.z * share, sum.w * share);
    }
    const size_t last = quads * 4 + first_index();
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
    const unsigned blocks = blocks_for((count + 3) / 4);
    switch (n) {
    case 1: average_kernel<1><<<blocks, THREADS, 0, stream>>>(result, v, n, count, share); break;
    case 2: average_kernel<2><<<blocks, THREADS, 0, stream>>>(result, v, n, count, share); break;
    case 3: average_kernel<3><<<blocks, THREADS, 0, stream>>>(result, v, n, count, share); break;
    case 4: average_kernel<4><<<blocks, THREADS, 0, stream>>>(result, v, n, count, share); break;
    case 8: average_kernel<8><<<blocks, THREADS, 0, stream>>>(result, v, n, count, share); break;
    default: average_kernel<0><<<blocks, THREADS, 0, stream>>>(result, v, n, count, share); break;
    }
    return cudaGetLastError();
}

/* Largest number of half precision. */
#define HALF_MAX 65504.0f

/* NaN stays NaN: neither comparison holds. */
static __global__ void halve_kernel(__half *message, const float *values, size_t count)
{
    for (size_t i = first_index(); i < count; i += grid_size()) {
        float value = values[i];
        if (value > HALF_MAX) value = HALF_MAX;
        if (value < -HALF_MAX) value = -HALF_MAX;
        message[i] = __float2half_rn(value);
    }
}

static __global__ void widen_kernel(float *values, const __half *message, size_t count)
{
    for (size_t i = first_index(); i < count; i += grid_size())
        values[i] = __half2float(message[i]);
}

cudaError_t dl_cuda_launch_halve(uint16_t *message, const float *values, size_t count,
                                 cudaStream_t stream)
{
    halve_kernel<<<blocks_for(count), THREADS, 0, stream>>>(reinterpret_cast<__half *>(message),
                                                            values, count);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_widen(float *values, const uint16_t *message, size_t count,
                                 cudaStream_t stream)
{
    widen_kernel<<<blocks_for(count), THREADS, 0, stream>>>(
        values, reinterpret_cast<const __half *>(message), count);
    return cudaGetLastError();
}

/* Sum over the block, in the same order every time; every thread gets it. */
static __device__ double warp_sum(double value, double *shared)
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

/* One block of threads per block of numbers, which stay in registers: values and residual are read
 * once, the residual written once. Thread t has numbers t, t + THREADS, ..., so that a warp
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
        const unsigned i = threadIdx.x + e * THREADS;
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
    low = warp_sum(low, shared);
    high = warp_sum(high, shared);
    above = warp_sum(above, shared);
    const double below = (double)block.count - above;
    const float mean_low = below > 0 ? (float)(low / below) : 0;
    const float mean_high = above > 0 ? (float)(high / above) : 0;
    for (int e = 0; e < EACH; e++) {
        const unsigned i = threadIdx.x + e * THREADS;
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
    for (unsigned i = threadIdx.x; i < block.count; i += THREADS)
        values[block.first + i] = (bits->words[i / WARP] >> i % WARP & 1u) != 0 ? high : low;
}

cudaError_t dl_cuda_launch_sign(dl_quantise_bits *message, const dl_quantise_block *blocks,
                                size_t block_count, const float *values, float *residual,
                                cudaStream_t stream)
{
    sign_kernel<<<(unsigned)block_count, THREADS, 0, stream>>>(message, blocks, values, residual);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_unsign(float *values, const dl_quantise_block *blocks,
                                  size_t block_count, const dl_quantise_bits *message,
                                  cudaStream_t stream)
{
    unsign_kernel<<<(unsigned)block_count, THREADS, 0, stream>>>(values, blocks, message);
    return cudaGetLastError();
}

static __global__ void find_overflow_kernel(const float *gradients, size_t count, int *overflow)
{
    bool found = false;
    for (size_t i = first_index(); i < count; i += grid_size())
        found |= !isfinite(gradients[i]);
    if (found) *overflow = 1; /* whoever writes, writes the same */
}

static __global__ void unscale_kernel(float *gradients, size_t count, float share,
                                      const int *overflow)
{
    const bool lost = *overflow != 0;
    for (size_t i = first_index(); i < count; i += grid_size())
        gradients[i] = lost ? 0.0f : gradients[i] * share;
}

cudaError_t dl_cuda_launch_unscale(float *gradients, size_t count, float scale, int *overflow,
                                   cudaStream_t stream)
{
    const cudaError_t cleared = cudaMemsetAsync(overflow, 0, sizeof *overflow, stream);
    if (cleared != cudaSuccess) return cleared;
    find_overflow_kernel<<<blocks_for(count), THREADS, 0, stream>>>(gradients, count, overflow);
    unscale_kernel<<<blocks_for(count), THREADS, 0, stream>>>(gradients, count, 1.0f / scale,
                                                              overflow);
    return cudaGetLastError();
}

static __global__ void sgd_kernel(dl_cuda_update u)
{
    for (size_t i = first_index(); i < u.count; i += grid_size()) {
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
    for (size_t i = first_index(); i < u.count; i += grid_size()) {
        const float g = u.gradients[i];
        const float square = u.decay1 * u.first[i] + u.rest1 * g * g;
        u.first[i] = square;
        u.parameters[i] -= u.rate * g / (sqrtf(square) + u.epsilon);
    }
}

static __global__ void adam_kernel(dl_cuda_update u)
{
    for (size_t i = first_index(); i < u.count; i += grid_size()) {
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
    sgd_kernel<<<blocks_for(update->count), THREADS, 0, stream>>>(*update);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_rmsprop(const dl_cuda_update *update, cudaStream_t stream)
{
    rmsprop_kernel<<<blocks_for(update->count), THREADS, 0, stream>>>(*update);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_adam(const dl_cuda_update *update, cudaStream_t stream)
{
    adam_kernel<<<blocks_for(update->count), THREADS, 0, stream>>>(*update);
    return cudaGetLastError();
}

/* Where number `i` of [count][rows][columns][channels] is. */
struct place {
    int channel, column, row, sample;
};

static __device__ place place_of(size_t i, int rows, int columns, int channels)
{
    place at;
    at.channel = (int)(i % (size_t)channels);
    i /= (size_t)channels;
    at.column = (int)(i % (size_t)columns);
    i /= (size_t)columns;
    at.row = (int)(i % (size_t)rows);
    at.sample = (int)(i / (size_t)rows);
    return at;
}

/* One thread an output: its window in order, the first of equal maxima wins. */
static __global__ void max_pool_kernel(dl_cuda_pool pool, size_t outputs, const float *x, float *y,
                                       int32_t *choice)
{
    for (size_t i = first_index(); i < outputs; i += grid_size()) {
        const place at = place_of(i, pool.out_rows, pool.out_columns, pool.channels);
        const int top = at.row * pool.stride - pool.padding;
        const int left = at.column * pool.stride - pool.padding;
        float best = 0;
        int chosen = -1;
        for (int ky = 0; ky < pool.kernel; ky++) {
            const int row = top + ky;
            if (row < 0 || row >= pool.in_rows) continue;
            for (int kx = 0; kx < pool.kernel; kx++) {
                const int column = left + kx;
                if (column < 0 || column >= pool.in_columns) continue;
                const size_t pixel =
                    ((size_t)at.sample * pool.in_rows + row) * pool.in_columns + column;
                const float value = x[pixel * pool.channels + at.channel];
                if (chosen < 0 || value > best) {
                    best = value;
                    chosen = ky * pool.kernel + kx;
                }
            }
        }
        y[i] = best;
        choice[i] = chosen;
    }
}

/* Outputs along one side whose windows hold position `at`: *first .. *last, none if *first > *last.
 */
static __device__ void windows_of(int at, int outputs, const dl_cuda_pool &pool, int *first,
                                  int *last)
{
    const int padded = at + pool.padding;
    const int beyond = padded - pool.kernel + 1;
    *first = beyond <= 0 ? 0 : (beyond + pool.stride - 1) / pool.stride;
    *last = padded / pool.stride < outputs - 1 ? padded / pool.stride : outputs - 1;
}

/* One thread an input: the sum over the windows that hold it, in the order of the outputs. `choice`
 * NULL: means, every window gives its share. */
static __global__ void unpool_kernel(dl_cuda_pool pool, size_t inputs, const int32_t *choice,
                                     const float *dy, float *dx)
{
    const float share = choice ? 1.0f : 1.0f / (float)(pool.kernel * pool.kernel);
    for (size_t i = first_index(); i < inputs; i += grid_size()) {
        const place at = place_of(i, pool.in_rows, pool.in_columns, pool.channels);
        int row, last_row, first_column, last_column;
        windows_of(at.row, pool.out_rows, pool, &row, &last_row);
        windows_of(at.column, pool.out_columns, pool, &first_column, &last_column);
        float sum = 0;
        for (; row <= last_row; row++) {
            const int ky = at.row + pool.padding - row * pool.stride;
            for (int column = first_column; column <= last_column; column++) {
                const int kx = at.column + pool.padding - column * pool.stride;
                const size_t window =
                    ((size_t)at.sample * pool.out_rows + row) * pool.out_columns + column;
                const size_t output = window * pool.channels + at.channel;
                if (!choice || choice[output] == ky * pool.kernel + kx) sum += share * dy[output];
            }
        }
        dx[i] = sum;
    }
}

static __global__ void average_pool_kernel(dl_cuda_pool pool, size_t outputs, const float *x,
                                           float *y)
{
    const float share = 1.0f / (float)(pool.kernel * pool.kernel);
    for (size_t i = first_index(); i < outputs; i += grid_size()) {
        const place at = place_of(i, pool.out_rows, pool.out_columns, pool.channels);
        float sum = 0;
        for (int ky = 0; ky < pool.kernel; ky++) {
            for (int kx = 0; kx < pool.kernel; kx++) {
                const size_t pixel =
                    ((size_t)at.sample * pool.in_rows + at.row * pool.stride + ky) *
                        pool.in_columns +
                    at.column * pool.stride + kx;
                sum += share * x[pixel * pool.channels + at.channel];
            }
        }
        y[i] = sum;
    }
}

static size_t output_count(const dl_cuda_pool *pool)
{
    return (size_t)pool->count * pool->out_rows * pool->out_columns * pool->channels;
}

static size_t input_count(const dl_cuda_pool *pool)
{
    return (size_t)pool->count * pool->in_rows * pool->in_columns * pool->channels;
}

cudaError_t dl_cuda_launch_max_pool(const dl_cuda_pool *pool, const float *x, float *y,
                                    int32_t *choice, cudaStream_t stream)
{
    const size_t count = output_count(pool);
    max_pool_kernel<<<blocks_for(count), THREADS, 0, stream>>>(*pool, count, x, y, choice);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_max_pool_backward(const dl_cuda_pool *pool, const int32_t *choice,
                                             const float *dy, float *dx, cudaStream_t stream)
{
    const size_t count = input_count(pool);
    unpool_kernel<<<blocks_for(count), THREADS, 0, stream>>>(*pool, count, choice, dy, dx);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_average_pool(const dl_cuda_pool *pool, const float *x, float *y,
                                        cudaStream_t stream)
{
    const size_t count = output_count(pool);
    average_pool_kernel<<<blocks_for(count), THREADS, 0, stream>>>(*pool, count, x, y);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_average_pool_backward(const dl_cuda_pool *pool, const float *dy,
                                                 float *dx, cudaStream_t stream)
{
    const size_t count = input_count(pool);
    unpool_kernel<<<blocks_for(count), THREADS, 0, stream>>>(*pool, count, NULL, dy, dx);
    return cudaGetLastError();
}

/* Sum over the block of each thread's value, the same for every thread and every time. */
static __device__ double block_sum(double value, double *shared)
{
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned width = THREADS / 2; width > 0; width /= 2) {
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
    for (unsigned width = THREADS / 2; width > 0; width /= 2) {
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
    __shared__ double shared[THREADS];
    __shared__ int places[THREADS];
    const size_t row = (size_t)blockIdx.x * classes;
    double top = -INFINITY;
    int best = INT_MAX;
    for (int c = (int)threadIdx.x; c < classes; c += THREADS) {
        if (scores[row + c] > top) {
            top = scores[row + c];
            best = c;
        }
    }
    top = block_best(top, &best, shared, places);
    double sum = 0;
    for (int c = (int)threadIdx.x; c < classes; c += THREADS)
        sum += exp((double)scores[row + c] - top);
    sum = block_sum(sum, shared);
    for (int c = (int)threadIdx.x; c < classes; c += THREADS)
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
    softmax_kernel<<<(unsigned)batch, THREADS, 0, stream>>>(classes, scores, labels, probabilities,
                                                            losses, correct);
    return cudaGetLastError();
}

static __global__ void softmax_backward_kernel(size_t count, int classes, float share,
                                               const float *probabilities, const int32_t *labels,
                                               float *gradients)
{
    for (size_t i = first_index(); i < count; i += grid_size()) {
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
    softmax_backward_kernel<<<blocks_for(count), THREADS, 0, stream>>>(
        count, classes, scale / (float)batch, probabilities, labels, gradients);
    return cudaGetLastError();
}
