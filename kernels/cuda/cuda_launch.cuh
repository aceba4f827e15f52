/* How the elementwise kernels of the "cuda" device are launched: a thread takes numbers first_index,
 * first_index + grid_size, ... below the count. */
#ifndef DL_KERNELS_CUDA_LAUNCH_CUH
#define DL_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>
#include <stddef.h>

/* Threads of a block, and most blocks of an elementwise kernel: more than any GPU holds at once. */
#define DL_CUDA_THREADS 256
#define DL_CUDA_BLOCKS_MAX 8192

/* Blocks of an elementwise kernel for `count` numbers. */
static inline unsigned dl_cuda_blocks(size_t count)
{
    const size_t blocks = (count + DL_CUDA_THREADS - 1) / DL_CUDA_THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks < DL_CUDA_BLOCKS_MAX ? blocks : DL_CUDA_BLOCKS_MAX);
}

static inline __device__ size_t dl_cuda_first_index()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static inline __device__ size_t dl_cuda_grid_size()
{
    return (size_t)gridDim.x * blockDim.x;
}

#endif
