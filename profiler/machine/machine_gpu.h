/* Information on this machine's GPUs from NVIDIA's management library (NVML), which is loaded at
 * run time and never linked: names, memory, clocks, NVLinks, peer access between GPUs.
 *
 * Types and values are those of nvml.h (12.9), limited to those used here; NVML keeps the layout of
 * structs whose functions carry a version (_v2, _v3). */
#ifndef DL_PROFILER_MACHINE_GPU_H
#define DL_PROFILER_MACHINE_GPU_H

#include "profiler/machine/machine_box.h"

#define DL_NVML_SUCCESS 0
#define DL_NVML_LINKS_MAX 18 /* NVML_NVLINK_MAX_LINKS */

enum { DL_NVML_CLOCK_SM = 1, DL_NVML_CLOCK_MEM = 2 }; /* nvmlClockType_t */
enum {
    DL_NVML_REMOTE_GPU = 0,
    DL_NVML_REMOTE_NPU,
    DL_NVML_REMOTE_SWITCH
};                             /* device at the other end of an NVLink */
enum { DL_NVML_P2P_READ = 0 }; /* nvmlGpuP2PCapsIndex_t */
enum { DL_NVML_FIELD_NVLINK_SPEED_COMMON = 90, DL_NVML_FIELD_NVLINK_SPEED = 164 }; /* MB/s */
enum { DL_NVML_TYPE_UNSIGNED = 1, DL_NVML_TYPE_UNSIGNED_LONG_LONG = 3 };

/* nvmlPciInfo_t */
typedef struct dl_nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} dl_nvml_pci;

/* nvmlMemory_t, bytes */
typedef struct dl_nvml_memory {
    unsigned long long total, free, used;
} dl_nvml_memory;

/* nvmlFieldValue_t */
typedef struct dl_nvml_field {
    unsigned field, scope; /* scope: number of the NVLink */
    long long timestamp, latency_us;
    int type, status;
    union {
        unsigned value_unsigned;
        unsigned long long value_long;
    };
} dl_nvml_field;

/* NVML's functions by their names in nvml.h; results are nvmlReturn_t, devices nvmlDevice_t. The
 * optional ones may be NULL: older drivers lack some. */
#define DL_NVML_NEEDED(F)                                                   \
    F(int, Init_v2, (void))                                                 \
    F(int, Shutdown, (void))                                                \
    F(const char *, ErrorString, (int result))                              \
    F(int, DeviceGetCount_v2, (unsigned *count))                            \
    F(int, DeviceGetHandleByIndex_v2, (unsigned index, void **device))      \
    F(int, DeviceGetPciInfo_v3, (void *device, dl_nvml_pci *pci))           \
    F(int, DeviceGetName, (void *device, char *name, unsigned bytes))       \
    F(int, DeviceGetMemoryInfo, (void *device, dl_nvml_memory *memory))     \
    F(int, DeviceGetMaxClockInfo, (void *device, int clock, unsigned *mhz)) \
    F(int, DeviceGetCudaComputeCapability, (void *device, int *major, int *minor))

#define DL_NVML_OPTIONAL(F)                                                                  \
    F(int, DeviceGetNumGpuCores, (void *device, unsigned *cores))                            \
    F(int, DeviceGetMemoryBusWidth, (void *device, unsigned *bits))                          \
    F(int, DeviceGetMaxPcieLinkGeneration, (void *device, unsigned *generation))             \
    F(int, DeviceGetMaxPcieLinkWidth, (void *device, unsigned *lanes))                       \
    F(int, DeviceGetNvLinkState, (void *device, unsigned link, int *active))                 \
    F(int, DeviceGetNvLinkRemoteDeviceType, (void *device, unsigned link, int *type))        \
    F(int, DeviceGetNvLinkRemotePciInfo_v2, (void *device, unsigned link, dl_nvml_pci *pci)) \
    F(int, DeviceGetFieldValues, (void *device, int count, dl_nvml_field *fields))           \
    F(int, DeviceGetP2PStatus, (void *device_a, void *device_b, int capability, int *status))

typedef struct dl_nvml {
#define DL_NVML_MEMBER(type, name, parameters) type(*name) parameters;
    DL_NVML_NEEDED(DL_NVML_MEMBER)
    DL_NVML_OPTIONAL(DL_NVML_MEMBER)
#undef DL_NVML_MEMBER
    void *library; /* from dlopen; NULL in tests */
} dl_nvml;

/* Opens `library` ("libnvidia-ml.so.1", which comes with the driver) and starts it.
 * DL_ERR_UNSUPPORTED with the reason if it is missing, too old, or finds no driver. */
dl_status dl_nvml_open(dl_nvml *nvml, const char *library, dl_error *err) DL_MUST_CHECK;
void dl_nvml_close(dl_nvml *nvml);

/* Fills in the driver's information on the box's GPUs. A GPU missing in the PCIe tree (in some
 * containers) is added at socket 0. Values that no function gives stay unknown. */
void dl_gpu_probe(dl_box *box, const dl_nvml *nvml);

#endif
