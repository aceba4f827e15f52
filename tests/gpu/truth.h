/* Kernels of truth.c, which only take time: with CUDA in truth_kernels.cu, with the doubles of the
 * driver and its runtime in tests/doubles/runtime_double.c. */
#ifndef DL_TESTS_GPU_TRUTH_H
#define DL_TESTS_GPU_TRUTH_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum truth_kernel { TRUTH_SPIN, TRUTH_LONG, TRUTH_NODE, TRUTH_DRIVER } truth_kernel;

/* Launches a kernel that lasts `ns` on a stream of the current device. */
cudaError_t truth_launch(truth_kernel kernel, cudaStream_t stream, unsigned long long ns);

/* Returns the kernel for cuLaunchKernel (a CUfunction), with `ns` as the only argument. */
cudaError_t truth_function(truth_kernel kernel, void **function);

/* Waits until a recorder, if there is one, has written all activities so far. */
void truth_wait_for_recorder(void);

#ifdef __cplusplus
}
#endif

#endif
