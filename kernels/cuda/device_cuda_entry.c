/* The one symbol of DL_DEVICE_CUDA_LIBRARY. */
#include "kernels/cuda/cuda_internal.h"

__attribute__((visibility("default"))) const dl_device_type *dl_device_entry(void);

const dl_device_type *dl_device_entry(void)
{
    return &dl_device_cuda;
}
