/* Our kernels for the "cuda" device, and the operations of dl_backend and dl_device_type built on
 * them. All numbers are float in the device's memory. */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

extern "C" {
#include "common/status.h"
}
#include "kernels/cuda/cuda_internal.h"

/* Threads per block, and largest number of blocks of an elementwise kernel, which is more than any
 * GPU runs simultaneously. */
#define THREADS 256
#define BLOCKS_MAX 8192

/* Blocks of an elementwise kernel for `count` numbers; a thread handles the numbers first_index,
 * first_index + grid_size, ... below `count`. */
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

/* Launches on the stream of the thread's slot, unless a call has failed before; `what` names the
 * launch in the message. */
#define LAUNCH_OF(what, blocks, threads, kernel, ...)                  \
    do {                                                               \
        dl_device *slot = dl_cuda_device();                            \
        if (!dl_cuda_works(slot)) break;                               \
        kernel<<<(blocks), (threads), 0, slot->stream>>>(__VA_ARGS__); \
        dl_cuda_good(slot, cudaGetLastError(), what);                  \
    } while (0)
#define LAUNCH(what, blocks, kernel, ...) LAUNCH_OF(what, blocks, THREADS, kernel, __VA_ARGS__)

static inline float *floats(void *memory)
{
    return static_cast<float *>(memory);
}

static inline const float *floats(const void *memory)
{
    return static_cast<const float *>(memory);
}

static __global__ void repeat_row_kernel(float *matrix, const float *row, size_t count,
                                         size_t columns)
{
    for (size_t i = first_index(); i < count; i += grid_size())
        matrix[i] = row[i % columns];
}

void dl_cuda_repeat_row(void *matrix, const void *row, int rows, int columns)
{
    const size_t count = (size_t)rows * (size_t)columns;
    LAUNCH("repeat_row", blocks_for(count), repeat_row_kernel, floats(matrix), floats(row), count,
           (size_t)columns);
}

static __global__ void ones_kernel(float *values, size_t count)
{
    for (size_t i = first_index(); i < count; i += grid_size())
        values[i] = 1;
}

void dl_cuda_set_ones(float *values, size_t count)
{
    LAUNCH("ones", blocks_for(count), ones_kernel, values, count);
}

/* Longest hold by the GPU's clock: far beyond the launch time of anything measured. */
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

/* Holds the stream until *let_go is not 0, at most for HOLD_NS. */
void dl_cuda_hold(const volatile int *let_go)
{
    LAUNCH_OF("hold", 1, 1, hold_kernel, let_go);
}

void dl_cuda_launch(void)
{
    LAUNCH_OF("launch", 1, 1, nothing_kernel, );
}

#define WARP 32

#define WARPS (THREADS / WARP)

#define EACH (DL_QUANTISE_BLOCK / THREADS) /* numbers per thread in a 1bit block */

/* As many pointers as fit into a kernel's arguments (4 KiB). */
struct vectors {
    const float *of[DL_DEVICE_VECTORS_MAX];
};

static __device__ float4 sum_of(float4 a, float4 b)
{
    return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z),
                       __fadd_rn(a.w, b.w));
}

/* Sums in the order of the vectors, without fused operations, which gives bit for bit the result of
 * dl_exchange_average. All pointers lie on 16-byte boundaries; `result` may be one of the
 * vectors.
 *
 * Averages N vectors, or n if N is 0: with a constant N all loads of a number are in flight
 * together, and the pointers stay in registers. A thread handles four numbers per iteration. */
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

void dl_cuda_average(void *to, const void *const *list, int n, size_t count)
{
    DL_ASSERT(n >= 1 && n <= DL_DEVICE_VECTORS_MAX, "%d vectors", n);
    if (count == 0) return;
    vectors v;
    for (int k = 0; k < DL_DEVICE_VECTORS_MAX; k++)
        v.of[k] = k < n ? floats(list[k]) : NULL;
    const float share = 1.0f / (float)n;
    const unsigned blocks = blocks_for((count + 3) / 4);
    float *result = floats(to);
    switch (n) {
    case 1: LAUNCH("average", blocks, average_kernel<1>, result, v, n, count, share); break;
    case 2: LAUNCH("average", blocks, average_kernel<2>, result, v, n, count, share); break;
    case 3: LAUNCH("average", blocks, average_kernel<3>, result, v, n, count, share); break;
    case 4: LAUNCH("average", blocks, average_kernel<4>, result, v, n, count, share); break;
    case 8: LAUNCH("average", blocks, average_kernel<8>, result, v, n, count, share); break;
    default: LAUNCH("average", blocks, average_kernel<0>, result, v, n, count, share); break;
    }
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

/* Sum over the threads of a block, always in the same order; every thread gets the sum. 1bit sums
 * in double; its means may differ from the processor's in the last bit. */
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
 * once, and the residual is written once. Thread t handles numbers t, t + THREADS, ..., so that a
 * warp makes one word of bits per iteration. */
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

void dl_cuda_encode(const dl_quantise_plan *plan, const void *blocks, const void *values,
                    void *residual, void *message)
{
    if (plan->count == 0) return;
    if (plan->kind == DL_QUANTISE_FP16) {
        LAUNCH("rounding to half precision", blocks_for(plan->count), halve_kernel,
               static_cast<__half *>(message), floats(values), plan->count);
    } else {
        LAUNCH("quantising to bits", (unsigned)plan->block_count, sign_kernel,
               static_cast<dl_quantise_bits *>(message),
               static_cast<const dl_quantise_block *>(blocks), floats(values), floats(residual));
    }
}

void dl_cuda_decode(const dl_quantise_plan *plan, const void *blocks, const void *message,
                    void *values)
{
    if (plan->count == 0) return;
    if (plan->kind == DL_QUANTISE_FP16) {
        LAUNCH("widening of half precision", blocks_for(plan->count), widen_kernel, floats(values),
               static_cast<const __half *>(message), plan->count);
    } else {
        LAUNCH("values of bits", (unsigned)plan->block_count, unsign_kernel, floats(values),
               static_cast<const dl_quantise_block *>(blocks),
               static_cast<const dl_quantise_bits *>(message));
    }
}

static __global__ void find_overflow_kernel(const float *gradients, size_t count, int *overflow)
{
    bool found = false;
    for (size_t i = first_index(); i < count; i += grid_size())
        found |= !isfinite(gradients[i]);
    if (found) *overflow = 1; /* all writers write the same value */
}

static __global__ void unscale_kernel(float *gradients, size_t count, float share,
                                      const int *overflow)
{
    const bool lost = *overflow != 0;
    for (size_t i = first_index(); i < count; i += grid_size())
        gradients[i] = lost ? 0.0f : gradients[i] * share;
}

/* gradients /= scale, or all 0 if one of them is not finite; *overflow becomes 1 then. */
void dl_cuda_unscale(void *gradients, size_t count)
{
    dl_device *device = dl_cuda_device();
    if (!dl_cuda_works(device)) return;
    if (device->overflow == NULL &&
        !dl_cuda_good(device, cudaMalloc(&device->overflow, sizeof *device->overflow), "a flag")) {
        return;
    }
    int *overflow = device->overflow;
    if (!dl_cuda_good(device, cudaMemsetAsync(overflow, 0, sizeof *overflow, device->stream),
                      "unscale")) {
        return;
    }
    LAUNCH("unscale", blocks_for(count), find_overflow_kernel, floats(gradients), count, overflow);
    LAUNCH("unscale", blocks_for(count), unscale_kernel, floats(gradients), count,
           1.0f / DL_CUDA_LOSS_SCALE, overflow);
}

/* dl_update with its common factors rounded to float, as the processor's code rounds them. */
struct flat_update {
    float *parameters;
    const float *gradients;
    float *first, *second;
    size_t count;
    float rate, decay1, rest1, decay2, rest2, scale2, epsilon;
};

static flat_update flat(const dl_update *update)
{
    return {floats(update->parameters),
            floats(update->gradients),
            floats(update->first),
            floats(update->second),
            update->count,
            (float)update->rate,
            (float)update->decay1,
            (float)(1 - update->decay1),
            (float)update->decay2,
            (float)(1 - update->decay2),
            1,
            (float)update->epsilon};
}

static __global__ void sgd_kernel(flat_update u)
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

static __global__ void rmsprop_kernel(flat_update u)
{
    for (size_t i = first_index(); i < u.count; i += grid_size()) {
        const float g = u.gradients[i];
        const float square = u.decay1 * u.first[i] + u.rest1 * g * g;
        u.first[i] = square;
        u.parameters[i] -= u.rate * g / (sqrtf(square) + u.epsilon);
    }
}

static __global__ void adam_kernel(flat_update u)
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

void dl_cuda_sgd(const dl_update *update)
{
    LAUNCH("sgd", blocks_for(update->count), sgd_kernel, flat(update));
}

void dl_cuda_rmsprop(const dl_update *update)
{
    LAUNCH("rmsprop", blocks_for(update->count), rmsprop_kernel, flat(update));
}

void dl_cuda_adam(const dl_update *update)
{
    flat_update with = flat(update);
    with.rate = (float)(update->rate / update->correction1);
    with.scale2 = (float)(1 / update->correction2);
    LAUNCH("adam", blocks_for(update->count), adam_kernel, with);
}

/* Position of number `i` of [count][rows][columns][channels]. */
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

/* One thread per output scans its window in order and takes the first of equal maxima. cuDNN does
 * not store the place of a maximum; its backward pass reads the maxima, which an in-place rectifier
 * has overwritten by then. */
static __global__ void max_pool_kernel(dl_windows pool, size_t outputs, const float *x, float *y,
                                       int32_t *choice)
{
    for (size_t i = first_index(); i < outputs; i += grid_size()) {
        const place at = place_of(i, pool.out.rows, pool.out.columns, pool.in.channels);
        const int top = at.row * pool.stride - pool.padding;
        const int left = at.column * pool.stride - pool.padding;
        float best = 0;
        int chosen = -1;
        for (int ky = 0; ky < pool.kernel; ky++) {
            const int row = top + ky;
            if (row < 0 || row >= pool.in.rows) continue;
            for (int kx = 0; kx < pool.kernel; kx++) {
                const int column = left + kx;
                if (column < 0 || column >= pool.in.columns) continue;
                const size_t pixel =
                    ((size_t)at.sample * pool.in.rows + row) * pool.in.columns + column;
                const float value = x[pixel * pool.in.channels + at.channel];
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

/* Outputs along one side whose windows contain position `at`: *first .. *last; none if *first >
 * *last. */
static __device__ void windows_of(int at, int outputs, const dl_windows &pool, int *first,
                                  int *last)
{
    const int padded = at + pool.padding;
    const int beyond = padded - pool.kernel + 1;
    *first = beyond <= 0 ? 0 : (beyond + pool.stride - 1) / pool.stride;
    *last = padded / pool.stride < outputs - 1 ? padded / pool.stride : outputs - 1;
}

/* One thread per input: the sum over the windows that chose it, in the order of the outputs. */
static __global__ void unpool_kernel(dl_windows pool, size_t inputs, const int32_t *choice,
                                     const float *dy, float *dx)
{
    for (size_t i = first_index(); i < inputs; i += grid_size()) {
        const place at = place_of(i, pool.in.rows, pool.in.columns, pool.in.channels);
        int row, last_row, first_column, last_column;
        windows_of(at.row, pool.out.rows, pool, &row, &last_row);
        windows_of(at.column, pool.out.columns, pool, &first_column, &last_column);
        float sum = 0;
        for (; row <= last_row; row++) {
            const int ky = at.row + pool.padding - row * pool.stride;
            for (int column = first_column; column <= last_column; column++) {
                const int kx = at.column + pool.padding - column * pool.stride;
                const size_t window =
                    ((size_t)at.sample * pool.out.rows + row) * pool.out.columns + column;
                const size_t output = window * pool.in.channels + at.channel;
                if (choice[output] == ky * pool.kernel + kx) sum += dy[output];
            }
        }
        dx[i] = sum;
    }
}

/* One thread per mean. */
static __global__ void mean_pixels_kernel(size_t outputs, int pixels, int channels, const float *x,
                                          float *y)
{
    const float share = 1.0f / (float)pixels;
    for (size_t i = first_index(); i < outputs; i += grid_size()) {
        const float *from = x + i / channels * pixels * channels + i % channels;
        float sum = 0;
        for (int p = 0; p < pixels; p++)
            sum += share * from[(size_t)p * channels];
        y[i] = sum;
    }
}

static __global__ void spread_kernel(size_t inputs, int pixels, int channels, const float *dy,
                                     float *dx)
{
    const float share = 1.0f / (float)pixels;
    for (size_t i = first_index(); i < inputs; i += grid_size())
        dx[i] = share * dy[i / channels / pixels * channels + i % channels];
}

static size_t output_count(const dl_windows *pool)
{
    return (size_t)pool->count * dl_shape_count(pool->out);
}

static size_t input_count(const dl_windows *pool)
{
    return (size_t)pool->count * dl_shape_count(pool->in);
}

void dl_cuda_max_pool(const dl_windows *pool, const void *x, void *y, int32_t *choice)
{
    const size_t count = output_count(pool);
    LAUNCH("max_pool", blocks_for(count), max_pool_kernel, *pool, count, floats(x), floats(y),
           choice);
}

void dl_cuda_max_pool_backward(const dl_windows *pool, const int32_t *choice, const void *dy,
                               void *dx)
{
    const size_t count = input_count(pool);
    LAUNCH("max_pool_backward", blocks_for(count), unpool_kernel, *pool, count, choice, floats(dy),
           floats(dx));
}

void dl_cuda_mean_pixels(int count, int pixels, int channels, const void *x, void *y)
{
    const size_t outputs = (size_t)count * (size_t)channels;
    LAUNCH("mean_pixels", blocks_for(outputs), mean_pixels_kernel, outputs, pixels, channels,
           floats(x), floats(y));
}

void dl_cuda_mean_pixels_backward(int count, int pixels, int channels, const void *dy, void *dx)
{
    const size_t inputs = (size_t)count * (size_t)pixels * (size_t)channels;
    LAUNCH("mean_pixels_backward", blocks_for(inputs), spread_kernel, inputs, pixels, channels,
           floats(dy), floats(dx));
}

/* Sum over the block of each thread's value, in a fixed order; every thread gets it. */
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

/* The block's largest value and its place, the lowest of equal ones. */
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

/* One block per sample. The maximum is subtracted first, so that exp cannot overflow. */
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

void dl_cuda_softmax(const dl_softmax *of)
{
    LAUNCH("softmax", (unsigned)of->batch, softmax_kernel, of->classes, floats(of->scores),
           of->labels, floats(of->probabilities), of->losses, of->correct);
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

/* With fp16, gradients of the loss times DL_CUDA_LOSS_SCALE. */
void dl_cuda_softmax_backward(const dl_softmax *of, void *gradients)
{
    const size_t count = (size_t)of->batch * (size_t)of->classes;
    const float scale =
        dl_cuda_device()->settings.math == DL_DEVICE_MATH_FP16 ? DL_CUDA_LOSS_SCALE : 1;
    LAUNCH("softmax_backward", blocks_for(count), softmax_backward_kernel, count, of->classes,
           scale / (float)of->batch, floats(of->probabilities), of->labels, floats(gradients));
}
