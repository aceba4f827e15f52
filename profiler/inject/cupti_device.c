#include "profiler/inject/cupti_device.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define PCI_TEXT_BYTES 32

static void device_meta(dl_activity_sink sink, uint32_t device, const char *what, const char *value)
{
    char key[64];
    snprintf(key, sizeof key, "device.%u.%s", device, what);
    sink.meta(sink.user, key, value);
}

static void device_number(dl_activity_sink sink, uint32_t device, const char *what, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    device_meta(sink, device, what, text);
}

/* As nvidia-smi writes it: GPU-8-4-4-4-12 hexadecimal digits. */
static void device_uuid(dl_activity_sink sink, uint32_t device, const CUuuid *uuid)
{
    char text[64] = "GPU-";
    size_t length = 4;
    for (int i = 0; i < 16; i++) {
        const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%02x", dash ? "-" : "",
                                   (unsigned char)uuid->bytes[i]);
    }
    device_meta(sink, device, "uuid", text);
}

void dl_cupti_device_meta(const CUpti_ActivityDevice5 *record, const dl_cuda_api *cuda,
                          dl_activity_sink sink)
{
    const uint32_t device = record->id;
    if (record->name != NULL) device_meta(sink, device, "name", record->name);
    device_uuid(sink, device, &record->uuid);
    char pci[PCI_TEXT_BYTES];
    if (cuda != NULL && cuda->DeviceGetPCIBusId != NULL &&
        cuda->DeviceGetPCIBusId(pci, sizeof pci, (CUdevice)device) == CUDA_SUCCESS) {
        device_meta(sink, device, "pci", pci);
    }
    char capability[32];
    snprintf(capability, sizeof capability, "%u.%u", record->computeCapabilityMajor,
             record->computeCapabilityMinor);
    device_meta(sink, device, "compute_capability", capability);
    device_number(sink, device, "sm_count", record->numMultiprocessors);
    device_number(sink, device, "memory_bytes", record->globalMemorySize);
    free((void *)record->name);
}
