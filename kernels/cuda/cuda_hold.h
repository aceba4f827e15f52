/* Kernels of the "cuda" device that only measurements need. Each function launches on the stream and
 * returns the error of the launch. */
#ifndef DL_KERNELS_CUDA_HOLD_H
#define DL_KERNELS_CUDA_HOLD_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Holds up the stream until *let_go is not 0, or for two seconds if that never comes. */
cudaError_t dl_cuda_launch_hold(const volatile int *let_go, cudaStream_t stream);
cudaError_t dl_cuda_launch_nothing(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
