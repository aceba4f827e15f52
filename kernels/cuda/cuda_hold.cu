#include "kernels/cuda/cuda_hold.h"

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
