#include "profiler/machine/machine_gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"

#define NAME(type, name, parameters) "nvml" #name,
static const char *const function_names[] = {DL_NVML_NEEDED(NAME) DL_NVML_OPTIONAL(NAME)};
#define FUNCTION_COUNT DL_LENGTH(function_names)
#define COUNT(type, name, parameters) +1
enum { NEEDED_COUNT = 0 DL_NVML_NEEDED(COUNT) };
_Static_assert(offsetof(dl_nvml, library) == FUNCTION_COUNT * sizeof(void *),
               "one name a function");

dl_status dl_nvml_open(dl_nvml *nvml, const char *library, dl_error *err)
{
    void *functions[FUNCTION_COUNT];
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "no %s: no NVIDIA driver is installed",
                            library);
    }
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        functions[i] = dlsym(opened, function_names[i]);
        if (functions[i] != NULL || i >= NEEDED_COUNT) continue;
        dlclose(opened);
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "%s lacks %s", library, function_names[i]);
    }
    dl_nvml made = {0};
    memcpy(&made, functions, sizeof functions);
    made.library = opened;
    const int result = made.Init_v2();
    if (result != DL_NVML_SUCCESS) {
        const dl_status status =
            dl_error_set(err, DL_ERR_UNSUPPORTED, "%s: %s", library, made.ErrorString(result));
        dlclose(opened);
        return status;
    }
    *nvml = made;
    return DL_OK;
}

void dl_nvml_close(dl_nvml *nvml)
{
    nvml->Shutdown();
    if (nvml->library != NULL) dlclose(nvml->library);
    *nvml = (dl_nvml){0};
}

static int find_gpu(const dl_box *box, const dl_nvml_pci *pci)
{
    char bus_id[DL_BUS_ID_BYTES];
    snprintf(bus_id, sizeof bus_id, "%04x:%02x:%02x.0", pci->domain & 0xffffU, pci->bus & 0xffU,
             pci->device & 0x1fU);
    for (int i = 0; i < box->gpu_count; i++) {
        if (strcmp(box->gpus[i].bus_id, bus_id) == 0) return i;
    }
    return -1;
}

static int add_gpu(dl_box *box, const dl_nvml_pci *pci)
{
    dl_box_gpu gpu = {.device_id = pci->device_id >> 16}; /* the lower half is the vendor's
                                                           * number */
    snprintf(gpu.bus_id, sizeof gpu.bus_id, "%04x:%02x:%02x.0", pci->domain & 0xffffU,
             pci->bus & 0xffU, pci->device & 0x1fU);
    if (box->sockets > 1) box->places_known = false;
    DL_APPEND(box->gpus, box->gpu_count, "GPUs") = gpu;
    return box->gpu_count - 1;
}

/* Returns the value of an optional function that gives one number; 0 if it is missing or fails. */
static double ask(int (*function)(void *, unsigned *), void *device)
{
    unsigned value = 0;
    return function != NULL && function(device, &value) == DL_NVML_SUCCESS ? value : 0;
}

static double clock_hz(const dl_nvml *nvml, void *device, int clock)
{
    unsigned mhz = 0;
    return nvml->DeviceGetMaxClockInfo(device, clock, &mhz) == DL_NVML_SUCCESS ? mhz * 1e6 : 0;
}

static void fill_gpu(dl_box_gpu *gpu, const dl_nvml *nvml, void *device)
{
    static const double transfers_per_s[] = {0, 2.5e9, 5e9, 8e9, 16e9, 32e9, 64e9};
    if (nvml->DeviceGetName(device, gpu->name, sizeof gpu->name) != DL_NVML_SUCCESS) {
        gpu->name[0] = '\0';
    }
    dl_nvml_memory memory = {0};
    if (nvml->DeviceGetMemoryInfo(device, &memory) == DL_NVML_SUCCESS) {
        gpu->memory_bytes = (double)memory.total;
    }
    if (nvml->DeviceGetCudaComputeCapability(device, &gpu->major, &gpu->minor) != DL_NVML_SUCCESS) {
        gpu->major = gpu->minor = 0;
    }
    gpu->cores = ask(nvml->DeviceGetNumGpuCores, device);
    gpu->clock_hz = clock_hz(nvml, device, DL_NVML_CLOCK_SM);
    gpu->memory_clock_hz = clock_hz(nvml, device, DL_NVML_CLOCK_MEM);
    gpu->memory_bus_bits = ask(nvml->DeviceGetMemoryBusWidth, device);
    if (dl_pci_link_generation(&gpu->link) > 0 && gpu->link.lanes > 0) return;
    const size_t generation = (size_t)ask(nvml->DeviceGetMaxPcieLinkGeneration, device);
    dl_pci_link link = {.lanes = (int)ask(nvml->DeviceGetMaxPcieLinkWidth, device)};
    if (generation < DL_LENGTH(transfers_per_s)) {
        link.transfers_per_s = transfers_per_s[generation];
    }
    dl_pci_link_set_wire(&link);
    if (link.wire_bytes_per_s > 0) gpu->link = link;
}

/* Returns bytes per second of a lane; 0 if the driver does not report it. */
static double lane_rate(const dl_nvml *nvml, void *device, unsigned lane)
{
    static const unsigned ids[] = {DL_NVML_FIELD_NVLINK_SPEED, DL_NVML_FIELD_NVLINK_SPEED_COMMON};
    for (size_t i = 0; i < 2 && nvml->DeviceGetFieldValues != NULL; i++) {
        dl_nvml_field field = {.field = ids[i], .scope = lane};
        if (nvml->DeviceGetFieldValues(device, 1, &field) != DL_NVML_SUCCESS ||
            field.status != DL_NVML_SUCCESS) {
            continue;
        }
        const double mb_per_s = field.type == DL_NVML_TYPE_UNSIGNED_LONG_LONG
                                    ? (double)field.value_long
                                    : field.value_unsigned;
        if (mb_per_s > 0) return mb_per_s * 1e6;
    }
    return 0;
}

/* Returns the remote end of a lane: the index of a GPU, -1 for a switch, -2 for anything else. */
static int lane_end(const dl_box *box, const dl_nvml *nvml, void *device, unsigned lane)
{
    int active = 0, type = DL_NVML_REMOTE_GPU;
    dl_nvml_pci pci = {0};
    if (nvml->DeviceGetNvLinkState(device, lane, &active) != DL_NVML_SUCCESS || !active) return -2;
    const bool typed =
        nvml->DeviceGetNvLinkRemoteDeviceType != NULL &&
        nvml->DeviceGetNvLinkRemoteDeviceType(device, lane, &type) == DL_NVML_SUCCESS;
    if (typed && type == DL_NVML_REMOTE_SWITCH) return -1;
    if (typed && type != DL_NVML_REMOTE_GPU) return -2;
    if (nvml->DeviceGetNvLinkRemotePciInfo_v2 == NULL ||
        nvml->DeviceGetNvLinkRemotePciInfo_v2(device, lane, &pci) != DL_NVML_SUCCESS) {
        return -2;
    }
    const int gpu = find_gpu(box, &pci);
    if (gpu >= 0) return gpu;
    return typed ? -2 : -1; /* older drivers show a switch as another PCI device */
}

/* counts[a * gpus + b]: lanes to GPU b that GPU a reports. */
static void add_nvlinks(dl_box *box, const int *counts)
{
    const int n = box->gpu_count;
    for (int a = 0; a < n; a++) {
        for (int b = a + 1; b < n; b++) {
            const int there = counts[a * n + b], back = counts[b * n + a];
            if (there == 0 && back == 0) continue;
            DL_APPEND(box->nvlinks, box->nvlink_count, "NVLinks") =
                (dl_box_nvlink){a, b, there > back ? there : back};
        }
    }
}

static void probe_nvlinks(dl_box *box, const dl_nvml *nvml, void *const *devices)
{
    if (nvml->DeviceGetNvLinkState == NULL) return;
    const int n = box->gpu_count;
    DL_AUTOFREE int *counts = dl_calloc((size_t)n * (size_t)n, sizeof *counts, "NVLink lanes");
    int least = DL_NVML_LINKS_MAX;
    for (int gpu = 0; gpu < n; gpu++) {
        int to_switch = 0;
        for (unsigned lane = 0; lane < DL_NVML_LINKS_MAX && devices[gpu] != NULL; lane++) {
            const int end = lane_end(box, nvml, devices[gpu], lane);
            if (end == -2) continue;
            if (end >= 0) counts[gpu * n + end]++;
            to_switch += end == -1;
            if (box->nvlink_bytes_per_s <= 0) {
                box->nvlink_bytes_per_s = lane_rate(nvml, devices[gpu], lane);
            }
        }
        if (to_switch < least) least = to_switch;
    }
    box->nvswitch_lanes = n > 0 ? least : 0;
    add_nvlinks(box, counts);
}

static dl_peer nearness(const dl_box *box, int a, int b)
{
    const int parent_a = box->gpus[a].parent, parent_b = box->gpus[b].parent;
    if (dl_box_share_switch(box, parent_a, parent_b)) return DL_PEER_SWITCH;
    return dl_box_socket(box, parent_a) == dl_box_socket(box, parent_b) ? DL_PEER_SOCKET
                                                                        : DL_PEER_ALL;
}

/* Sets box->peer to the widest class of GPU pairs (dl_peer) such that all pairs of that class, and
 * of all narrower ones, can copy directly; pairs with an NVLink do not count. */
static void probe_peers(dl_box *box, const dl_nvml *nvml, void *const *devices)
{
    int pairs[DL_PEER_ALL + 1] = {0}, good[DL_PEER_ALL + 1] = {0};
    if (nvml->DeviceGetP2PStatus == NULL) return;
    for (int a = 0; a < box->gpu_count; a++) {
        for (int b = a + 1; b < box->gpu_count; b++) {
            int status = -1;
            if (dl_box_has_nvlink(box, a, b) || devices[a] == NULL || devices[b] == NULL ||
                nvml->DeviceGetP2PStatus(devices[a], devices[b], DL_NVML_P2P_READ, &status) !=
                    DL_NVML_SUCCESS) {
                continue;
            }
            const dl_peer near = nearness(box, a, b);
            pairs[near]++;
            good[near] += status == 0; /* NVML_P2P_STATUS_OK */
        }
    }
    for (int near = DL_PEER_SWITCH; near <= DL_PEER_ALL; near++) {
        if (pairs[near] == 0) continue;
        const bool all = good[near] == pairs[near];
        /* A refusal says nothing about nearer pairs, which may all have NVLink. */
        box->peer_known = box->peer_known || all || near == DL_PEER_SWITCH;
        if (!all) return;
        box->peer = (dl_peer)near;
    }
}

void dl_gpu_probe(dl_box *box, const dl_nvml *nvml)
{
    unsigned count = 0;
    if (nvml->DeviceGetCount_v2(&count) != DL_NVML_SUCCESS) return;
    if (count > DL_MACHINE_MAX_PARTS) count = DL_MACHINE_MAX_PARTS;
    /* [box->gpu_count] handles; NULL for GPUs that the driver does not show. */
    DL_AUTOFREE void **devices = dl_calloc((size_t)box->gpu_count + count, sizeof *devices, "GPUs");
    for (unsigned i = 0; i < count; i++) {
        void *device = NULL;
        dl_nvml_pci pci = {0};
        if (nvml->DeviceGetHandleByIndex_v2(i, &device) != DL_NVML_SUCCESS ||
            nvml->DeviceGetPciInfo_v3(device, &pci) != DL_NVML_SUCCESS) {
            continue;
        }
        int gpu = find_gpu(box, &pci);
        if (gpu < 0) gpu = add_gpu(box, &pci);
        devices[gpu] = device;
        fill_gpu(&box->gpus[gpu], nvml, device);
    }
    probe_nvlinks(box, nvml, devices);
    probe_peers(box, nvml, devices);
}
