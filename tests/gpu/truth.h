/* Kernels of truth.c, which do nothing but last: by CUDA in truth_kernels.cu, by the doubles of the
 * driver and its runtime in tests/doubles/runtime_double.c. */
#ifndef DL_TESTS_GPU_TRUTH_H
#define DL_TESTS_GPU_TRUTH_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum truth_kernel { TRUTH_SPIN, TRUTH_LONG, TRUTH_NODE, TRUTH_DRIVER } truth_kernel;

/* Launches one on a stream of the current device, to last `ns`. */
cudaError_t truth_launch(truth_kernel kernel, cudaStream_t stream, unsigned long long ns);

/* The same for cuLaunchKernel (a CUfunction), with `ns` as the only argument. */
cudaError_t truth_function(truth_kernel kernel, void **function);

/* Until a recorder, where there is one, has written what was done so far. */
void truth_wait_for_recorder(void);

#ifdef __cplusplus
}
#endif

#endif
