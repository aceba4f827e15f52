#include "kernels/cuda/cuda_pool.h"

#include "kernels/cuda/cuda_launch.cuh"

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
    for (size_t i = dl_cuda_first_index(); i < outputs; i += dl_cuda_grid_size()) {
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
    for (size_t i = dl_cuda_first_index(); i < inputs; i += dl_cuda_grid_size()) {
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
    for (size_t i = dl_cuda_first_index(); i < outputs; i += dl_cuda_grid_size()) {
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
    max_pool_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(*pool, count, x, y,
                                                                           choice);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_max_pool_backward(const dl_cuda_pool *pool, const int32_t *choice,
                                             const float *dy, float *dx, cudaStream_t stream)
{
    const size_t count = input_count(pool);
    unpool_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(*pool, count, choice, dy,
                                                                         dx);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_average_pool(const dl_cuda_pool *pool, const float *x, float *y,
                                        cudaStream_t stream)
{
    const size_t count = output_count(pool);
    average_pool_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(*pool, count, x, y);
    return cudaGetLastError();
}

cudaError_t dl_cuda_launch_average_pool_backward(const dl_cuda_pool *pool, const float *dy,
                                                 float *dx, cudaStream_t stream)
{
    const size_t count = input_count(pool);
    unpool_kernel<<<dl_cuda_blocks(count), DL_CUDA_THREADS, 0, stream>>>(*pool, count, NULL, dy,
                                                                         dx);
    return cudaGetLastError();
}
