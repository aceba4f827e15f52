#include <unistd.h>

#include "tests/gpu/truth.h"

/* The recorder writes every half second. */
#define RECORDER_US 1500000

static __device__ unsigned long long clock_ns()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __device__ void last(unsigned long long ns)
{
    const unsigned long long start = clock_ns();
    while (clock_ns() - start < ns) {}
}

extern "C" __global__ void truth_spin(unsigned long long ns)
{
    last(ns);
}

extern "C" __global__ void truth_long(unsigned long long ns)
{
    last(ns);
}

extern "C" __global__ void truth_node(unsigned long long ns)
{
    last(ns);
}

extern "C" __global__ void truth_driver(unsigned long long ns)
{
    last(ns);
}

typedef void (*kernel_function)(unsigned long long);
static const kernel_function kernels[] = {truth_spin, truth_long, truth_node, truth_driver};

cudaError_t truth_launch(truth_kernel kernel, cudaStream_t stream, unsigned long long ns)
{
    void *arguments[] = {&ns};
    return cudaLaunchKernel((const void *)kernels[kernel], dim3(1), dim3(32), arguments, 0, stream);
}

cudaError_t truth_function(truth_kernel kernel, void **function)
{
    return cudaGetFuncBySymbol((cudaFunction_t *)function, (const void *)kernels[kernel]);
}

void truth_wait_for_recorder(void)
{
    usleep(RECORDER_US);
}
