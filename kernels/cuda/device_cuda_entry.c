/* The one symbol of DL_DEVICE_CUDA_LIBRARY. */
#include "kernels/cuda/backend_cuda.h"

__attribute__((visibility("default"))) const dl_device_type *dl_device_entry(void);

const dl_device_type *dl_device_entry(void)
{
    return &dl_device_cuda;
}
