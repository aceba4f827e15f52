/* What CUPTI says about a device, as meta keys of the trace. */
#ifndef DL_PROFILER_INJECT_CUPTI_DEVICE_H
#define DL_PROFILER_INJECT_CUPTI_DEVICE_H

#include "profiler/inject/cupti_decode.h"

/* Writes device.N.name, uuid, pci (`cuda` may be NULL: not then), compute_capability, sm_count,
 * memory_bytes, and frees the record's name, which is ours. */
void dl_cupti_device_meta(const CUpti_ActivityDevice5 *record, const dl_cuda_api *cuda,
                          dl_activity_sink sink);

#endif
