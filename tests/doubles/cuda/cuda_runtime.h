/* Runs CUDA kernels on the processor: each block's threads are contexts of one thread, which are
 * switched at barriers, shuffles and ballots; blocks run one after another. It shows a kernel's
 * results and, with AddressSanitizer, its invalid accesses; not races, nor the rounding of a
 * GPU.
 *
 * Launches, kernel<<<blocks, threads, 0, stream>>>(...), are rewritten to cuda_launch(blocks,
 * threads, stream, kernel)(...) before the source is compiled (tests/kernels/tests.cmake). */
#ifndef DL_TESTS_DOUBLES_CUDA_RUNTIME_H
#define DL_TESTS_DOUBLES_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <functional>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __shared__ static /* blocks run one at a time */

struct cuda_index {
    unsigned x, y, z;
};
extern cuda_index threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) float4 {
    float x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

/* Either all threads of the block call one of these, or none does; else the program is aborted. The
 * latter two work on warps of 32 threads, all of which take part. */
void __syncthreads();
unsigned __ballot_sync(unsigned mask, bool vote);
double __shfl_down_sync(unsigned mask, double value, int distance);

/* The host's clock, instead of the register %globaltimer. */
unsigned long long cuda_clock_ns();

void cuda_run(unsigned blocks, unsigned threads, const std::function<void()> &kernel);

template <typename... P> struct cuda_call {
    unsigned blocks, threads;
    void (*kernel)(P...);
    void operator()(P... arguments) const
    {
        cuda_run(blocks, threads, [&] { kernel(arguments...); });
    }
};
template <typename... P>
static inline cuda_call<P...> cuda_launch(unsigned blocks, unsigned threads, cudaStream_t,
                                          void (*kernel)(P...))
{
    return {blocks, threads, kernel};
}

static inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
template <typename T> static inline cudaError_t cudaMalloc(T **memory, size_t bytes)
{
    *memory = static_cast<T *>(malloc(bytes));
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t)
{
    memset(memory, value, bytes);
    return cudaSuccess;
}

#endif
