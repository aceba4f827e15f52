#include "tests/doubles/nvml_double.h"

#include <stdio.h>
#include <stdlib.h>

nvml_double_state nvml_double = {
    .gpus = 2,
    .buses = {0x13, 0x14},
    .name = "NVIDIA A100-SXM4-40GB",
    .memory_gib = 40,
    .sm_mhz = 1410,
    .memory_mhz = 1215,
    .cores = 6912,
    .bus_bits = 5120,
    .lane_mb_per_s = 25000,
    .major = 8,
    .lanes = {{0, 12}, {12, 0}},
};

/* Returns a device's number. Devices are pointers to their bus, so that each pointer is unique. */
static int number(void *device)
{
    return (int)((unsigned *)device - nvml_double.buses);
}

static void fill_pci(dl_nvml_pci *pci, int gpu)
{
    *pci = (dl_nvml_pci){.bus = nvml_double.buses[gpu], .device_id = 0x20b010de};
}

/* Returns the remote end of a lane; -1 for an unused lane. */
static int far_end(int gpu, unsigned link)
{
    unsigned passed = 0;
    for (int end = 0; end < NVML_DOUBLE_MAX + 2; end++) {
        passed += (unsigned)nvml_double.lanes[gpu][end];
        if (link < passed) return end;
    }
    return -1;
}

/* Names and types are those of NVML. */
#define nvmlname nvml##name
int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetPciInfo_v3(void *device, dl_nvml_pci *pci);
int nvmlDeviceGetName(void *device, char *name, unsigned bytes);
int nvmlDeviceGetMemoryInfo(void *device, dl_nvml_memory *memory);
int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
int nvmlDeviceGetNumGpuCores(void *device, unsigned *cores);
int nvmlDeviceGetMemoryBusWidth(void *device, unsigned *bits);
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *generation);
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *lanes);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, dl_nvml_pci *pci);
int nvmlDeviceGetFieldValues(void *device, int count, dl_nvml_field *fields);
int nvmlDeviceGetP2PStatus(void *a, void *b, int capability, int *status);

/* Sets FAKE_DEVICES GPUs, each with a lane to each other one, to match the fake device
 * (fake_cuda.c). */
static void take_count(void)
{
    const char *devices = getenv("FAKE_DEVICES");
    if (devices == NULL) return;
    nvml_double.gpus = atoi(devices);
    for (int gpu = 0; gpu < nvml_double.gpus && gpu < NVML_DOUBLE_MAX; gpu++) {
        nvml_double.buses[gpu] = 0x13 + (unsigned)gpu;
        for (int other = 0; other < nvml_double.gpus; other++)
            nvml_double.lanes[gpu][other] = other != gpu;
    }
}

int nvmlInit_v2(void)
{
    take_count();
    return nvml_double.init_result;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int result)
{
    return result == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)nvml_double.gpus;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &nvml_double.buses[index];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, dl_nvml_pci *pci)
{
    fill_pci(pci, number(device));
    return 0;
}

int nvmlDeviceGetName(void *device DL_UNUSED, char *name, unsigned bytes)
{
    snprintf(name, bytes, "%s", nvml_double.name);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device DL_UNUSED, dl_nvml_memory *memory)
{
    memory->total = (unsigned long long)(nvml_double.memory_gib * 0x1p30);
    return 0;
}

int nvmlDeviceGetMaxClockInfo(void *device DL_UNUSED, int clock, unsigned *mhz)
{
    *mhz = clock == DL_NVML_CLOCK_MEM ? nvml_double.memory_mhz : nvml_double.sm_mhz;
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *device DL_UNUSED, int *major, int *minor)
{
    *major = nvml_double.major;
    *minor = nvml_double.minor;
    return 0;
}

int nvmlDeviceGetNumGpuCores(void *device DL_UNUSED, unsigned *cores)
{
    *cores = nvml_double.cores;
    return 0;
}

int nvmlDeviceGetMemoryBusWidth(void *device DL_UNUSED, unsigned *bits)
{
    *bits = nvml_double.bus_bits;
    return 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *device DL_UNUSED, unsigned *generation)
{
    *generation = 4;
    return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *device DL_UNUSED, unsigned *lanes)
{
    *lanes = 16;
    return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active)
{
    *active = far_end(number(device), link) >= 0;
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type)
{
    const int end = far_end(number(device), link);
    *type = end == NVML_DOUBLE_SWITCH ? DL_NVML_REMOTE_SWITCH
            : end == NVML_DOUBLE_NPU  ? DL_NVML_REMOTE_NPU
                                      : DL_NVML_REMOTE_GPU;
    return end < 0 ? 3 : 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, dl_nvml_pci *pci)
{
    const int end = far_end(number(device), link);
    if (end < 0) return 3;
    *pci = (dl_nvml_pci){.bus = 0xc0};
    if (end < NVML_DOUBLE_MAX) fill_pci(pci, end);
    return 0;
}

/* Like a driver that reports no rate per lane any more, but a common one. */
int nvmlDeviceGetFieldValues(void *device DL_UNUSED, int count, dl_nvml_field *fields)
{
    for (int i = 0; i < count; i++) {
        const bool known = fields[i].field == DL_NVML_FIELD_NVLINK_SPEED_COMMON;
        fields[i].status = known ? 0 : 3;
        fields[i].type = DL_NVML_TYPE_UNSIGNED;
        if (known) fields[i].value_unsigned = nvml_double.lane_mb_per_s;
    }
    return 0;
}

int nvmlDeviceGetP2PStatus(void *a, void *b, int capability DL_UNUSED, int *status)
{
    *status = nvml_double.peer[number(a)][number(b)];
    return 0;
}

nvml_double_state nvml_double_default(void)
{
    static nvml_double_state first;
    static bool kept;
    if (!kept) first = nvml_double;
    kept = true;
    return first;
}

dl_nvml nvml_double_table(void)
{
    return (dl_nvml){
        .Init_v2 = nvmlInit_v2,
        .Shutdown = nvmlShutdown,
        .ErrorString = nvmlErrorString,
        .DeviceGetCount_v2 = nvmlDeviceGetCount_v2,
        .DeviceGetHandleByIndex_v2 = nvmlDeviceGetHandleByIndex_v2,
        .DeviceGetPciInfo_v3 = nvmlDeviceGetPciInfo_v3,
        .DeviceGetName = nvmlDeviceGetName,
        .DeviceGetMemoryInfo = nvmlDeviceGetMemoryInfo,
        .DeviceGetMaxClockInfo = nvmlDeviceGetMaxClockInfo,
        .DeviceGetCudaComputeCapability = nvmlDeviceGetCudaComputeCapability,
        .DeviceGetNumGpuCores = nvmlDeviceGetNumGpuCores,
        .DeviceGetMemoryBusWidth = nvmlDeviceGetMemoryBusWidth,
        .DeviceGetMaxPcieLinkGeneration = nvmlDeviceGetMaxPcieLinkGeneration,
        .DeviceGetMaxPcieLinkWidth = nvmlDeviceGetMaxPcieLinkWidth,
        .DeviceGetNvLinkState = nvmlDeviceGetNvLinkState,
        .DeviceGetNvLinkRemoteDeviceType = nvmlDeviceGetNvLinkRemoteDeviceType,
        .DeviceGetNvLinkRemotePciInfo_v2 = nvmlDeviceGetNvLinkRemotePciInfo_v2,
        .DeviceGetFieldValues = nvmlDeviceGetFieldValues,
        .DeviceGetP2PStatus = nvmlDeviceGetP2PStatus,
    };
}
