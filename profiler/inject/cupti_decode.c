#include "profiler/inject/cupti_decode.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"

/* Grid in blocks, block in threads, shared memory in bytes per block, registers per thread. */
typedef struct dl_launch_shape {
    int32_t grid[3], block[3];
    uint32_t shared_bytes, registers;
} dl_launch_shape;

typedef struct recorded_kind {
    CUpti_ActivityKind kind;
    const char *name;
    dl_capture_preset preset; /* smallest preset that includes it */
} recorded_kind;

/* Without CONCURRENT_KERNEL the other kinds are useless. KIND_KERNEL is not used: it serialises
 * kernels. */
static const recorded_kind kinds[] = {
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernel", DL_CAPTURE_LIGHT},
    {CUPTI_ACTIVITY_KIND_DEVICE, "device", DL_CAPTURE_LIGHT},
    {CUPTI_ACTIVITY_KIND_CONTEXT, "context", DL_CAPTURE_LIGHT},
    {CUPTI_ACTIVITY_KIND_MEMCPY, "memcpy", DL_CAPTURE_LIGHT},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "memcpy2", DL_CAPTURE_LIGHT},
    {CUPTI_ACTIVITY_KIND_MEMSET, "memset", DL_CAPTURE_LIGHT},
    {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime", DL_CAPTURE_DEFAULT},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronization", DL_CAPTURE_DEFAULT},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, "event", DL_CAPTURE_DEFAULT},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead", DL_CAPTURE_DEFAULT},
};
static const recorded_kind graph_trace = {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "graph",
                                          DL_CAPTURE_LIGHT};
static const recorded_kind driver = {CUPTI_ACTIVITY_KIND_DRIVER, "driver", DL_CAPTURE_DEFAULT};

#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

/* Frameworks make these calls very often; they say nothing about the time of a step. */
static const CUpti_CallbackId idle_calls[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_ptsz_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020, /* polled continuously while NCCL reduces */
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_ptsz_v7000,
};

/* Driver calls that start device work or wait for it, made by libraries and programs that use the
 * driver directly (NCCL, Triton, XLA). */
typedef struct driver_call {
    CUpti_CallbackId id;
    dl_capture_preset preset; /* smallest preset that includes it */
} driver_call;

#define BOTH(name, preset)                                         \
    {CUPTI_DRIVER_TRACE_CBID_##name, DL_CAPTURE_##preset},         \
    {                                                              \
        CUPTI_DRIVER_TRACE_CBID_##name##_ptsz, DL_CAPTURE_##preset \
    }
static const driver_call driver_calls[] = {
    BOTH(cuLaunchKernel, DEFAULT),
    BOTH(cuLaunchKernelEx, DEFAULT),
    BOTH(cuLaunchCooperativeKernel, DEFAULT),
    {CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice, DL_CAPTURE_DEFAULT},
    BOTH(cuGraphLaunch, DEFAULT),
    BOTH(cuMemcpyAsync, FULL),
    BOTH(cuMemcpyHtoDAsync_v2, FULL),
    BOTH(cuMemcpyDtoHAsync_v2, FULL),
    BOTH(cuMemcpyDtoDAsync_v2, FULL),
    BOTH(cuMemcpyPeerAsync, FULL),
    BOTH(cuMemcpyBatchAsync, FULL),
    BOTH(cuStreamSynchronize, FULL),
    {CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize, DL_CAPTURE_FULL},
    BOTH(cuEventRecord, FULL),
    BOTH(cuStreamWaitEvent, FULL),
    {CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, DL_CAPTURE_FULL},
    {CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2, DL_CAPTURE_FULL},
};
#undef BOTH

static bool wants(const dl_capture_settings *settings, const recorded_kind *one)
{
    return settings->preset >= (int)one->preset;
}

static bool enable(const dl_cupti_api *api, const recorded_kind *one, char *refused)
{
    const CUptiResult result = api->ActivityEnable(one->kind);
    if (result == CUPTI_SUCCESS) return true;
    const size_t length = strlen(refused);
    snprintf(refused + length, DL_REFUSED_BYTES - length, "%s%s (%s)", length > 0 ? ", " : "",
             one->name, dl_cupti_result_name(api, result));
    return false;
}

/* Enables only the preset's calls, or, if CUPTI (before 12.6) cannot choose, all of the driver's;
 * the decoder then drops the others. */
static void enable_driver(const dl_cupti_api *api, const dl_capture_settings *settings,
                          char *refused)
{
    if (api->ActivityEnableDriverApi == NULL) {
        enable(api, &driver, refused);
        return;
    }
    for (size_t i = 0; i < DL_LENGTH(driver_calls); i++) /* an older CUPTI does not know the last
                                                      * ones */
        if (settings->preset >= (int)driver_calls[i].preset)
            (void)api->ActivityEnableDriverApi(driver_calls[i].id, 1);
}

static bool is_driver_call(CUpti_CallbackId id, dl_capture_preset preset)
{
    for (size_t i = 0; i < DL_LENGTH(driver_calls); i++)
        if (driver_calls[i].id == id) return driver_calls[i].preset <= preset;
    return false;
}

bool dl_cupti_kinds_enable(const dl_cupti_api *api, const dl_capture_settings *settings,
                           char refused[DL_REFUSED_BYTES])
{
    refused[0] = '\0';
    if (!enable(api, &kinds[0], refused)) return false;
    for (size_t i = 1; i < KIND_COUNT; i++)
        if (wants(settings, &kinds[i])) enable(api, &kinds[i], refused);
    if (settings->graphs == DL_CAPTURE_GRAPH_WHOLE) enable(api, &graph_trace, refused);
    if (wants(settings, &driver)) enable_driver(api, settings, refused);
    /* Disabled after the kind is enabled, which enables all calls. */
    if (settings->preset >= DL_CAPTURE_DEFAULT && api->ActivityEnableRuntimeApi != NULL) {
        for (size_t i = 0; i < DL_LENGTH(idle_calls); i++)
            (void)api->ActivityEnableRuntimeApi(idle_calls[i], 0);
    }
    return true;
}

void dl_cupti_kinds_disable(const dl_cupti_api *api, const dl_capture_settings *settings)
{
    if (settings->graphs == DL_CAPTURE_GRAPH_WHOLE) (void)api->ActivityDisable(graph_trace.kind);
    if (wants(settings, &driver)) (void)api->ActivityDisable(driver.kind);
    for (size_t i = KIND_COUNT; i-- > 0;)
        if (wants(settings, &kinds[i])) (void)api->ActivityDisable(kinds[i].kind);
}

#define PCI_TEXT_BYTES 32

static void device_meta(dl_activity_sink sink, uint32_t device, const char *what, const char *value)
{
    char key[64];
    snprintf(key, sizeof key, "device.%u.%s", device, what);
    sink.meta(key, value);
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

/* CUPTI's information on a device, as meta keys of the trace. */

/* Writes device.N.name, uuid, pci (unless `cuda` is NULL), compute_capability, sm_count,
 * memory_bytes. */
static void cupti_device_meta(const CUpti_ActivityDevice4 *record, const dl_cuda_api *cuda,
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
}

/* Slots of each cache; a power of two, larger than the number of kernels of most programs. */
#define SLOTS 4096
#define SLOT_BITS 12
#define CALLS_MAX 2048 /* callback ids of one domain; CUDA 13.0 has about 800 */
#define CALL_NAME_BYTES 128

/* A cached text, by the address given by CUPTI. */
typedef struct name_slot {
    char *text; /* own copy; NULL = free */
    uint32_t id;
} name_slot;

typedef struct shape_slot {
    dl_launch_shape shape;
    uint32_t id; /* 0 = free */
} shape_slot;

#define WAITING_MAX 256   /* maximum events of a buffer that wait for their call */
#define CONTEXTS_MAX 1024 /* contexts with smaller ids have their device remembered */

struct dl_cupti_decoder {
    const dl_cupti_api *api;
    const dl_cuda_api *cuda;
    dl_activity_sink sink;
    dl_capture_preset preset; /* preset that selects driver calls */
    dl_decode_counts counts;
    int64_t last_end_ns;              /* end of the previous record */
    uint32_t device_of[CONTEXTS_MAX]; /* by context id; 0 = device 0 or unknown */
    dl_activity waiting[WAITING_MAX]; /* events without a time, oldest first */
    size_t waiting_count;

    /* Caches of ids, used before the sink's intern: nearly every record repeats a recent name. */
    name_slot names[SLOTS];
    shape_slot shapes[SLOTS];
    uint32_t runtime_calls[CALLS_MAX], driver_calls[CALLS_MAX]; /* by callback id; 0 = unknown */
};

/* Multiplicative hash (Knuth): the highest bits of the product with 2^64 over the golden ratio. */
static size_t slot_of(uint64_t key)
{
    return (key * 0x9e3779b97f4a7c15u) >> (64 - SLOT_BITS);
}

/* Id of a kernel's name, which may be NULL. Compares the text, not the pointer: after a module is
 * unloaded, another name may be at the same address. */
static uint32_t cupti_name_kernel(dl_cupti_decoder *decoder, const char *name)
{
    if (name == NULL) return 0;
    name_slot *slot = &decoder->names[slot_of((uintptr_t)name)];
    if (slot->text != NULL && strcmp(slot->text, name) == 0) return slot->id;
    free(slot->text);
    slot->text = dl_strdup(name);
    slot->id = decoder->sink.intern(name);
    return slot->id;
}

/* Id of "grid 64x1x1 block 256x1x1 shared 0 regs 32". */
static uint32_t cupti_name_shape(dl_cupti_decoder *decoder, const dl_launch_shape *shape)
{
    uint64_t key = 0;
    for (int i = 0; i < 3; i++)
        key = key * 1000003 + (uint32_t)shape->grid[i] * 31u + (uint32_t)shape->block[i];
    key = (key * 1000003 + shape->shared_bytes) * 1000003 + shape->registers;
    shape_slot *slot = &decoder->shapes[slot_of(key)];
    if (slot->id != 0 && memcmp(&slot->shape, shape, sizeof *shape) == 0) return slot->id;
    char text[192];
    snprintf(text, sizeof text, "grid %dx%dx%d block %dx%dx%d shared %u regs %u", shape->grid[0],
             shape->grid[1], shape->grid[2], shape->block[0], shape->block[1], shape->block[2],
             shape->shared_bytes, shape->registers);
    slot->shape = *shape;
    slot->id = decoder->sink.intern(text);
    return slot->id;
}

/* Cuts "_v" and 4 or 5 digits off the end: CUDA's version in which CUPTI first knew the call. */
static void cut_version(char *name)
{
    char *at = strrchr(name, '_');
    if (at == NULL || at[1] != 'v') return;
    const size_t digits = strspn(at + 2, "0123456789");
    if (digits >= 4 && at[2 + digits] == '\0') *at = '\0';
}

void dl_cupti_cut_call_name(char *name)
{
    cut_version(name);
    char *at = strrchr(name, '_');
    if (at != NULL && (strcmp(at, "_ptsz") == 0 || strcmp(at, "_ptds") == 0)) *at = '\0';
}

/* Id of the name of a callback id's function: "cudaLaunchKernel". */
static uint32_t cupti_name_call(dl_cupti_decoder *decoder, CUpti_CallbackDomain domain,
                                CUpti_CallbackId call)
{
    uint32_t *ids =
        domain == CUPTI_CB_DOMAIN_RUNTIME_API ? decoder->runtime_calls : decoder->driver_calls;
    if (call >= CALLS_MAX) return 0;
    if (ids[call] != 0) return ids[call];
    const char *found = NULL;
    char name[CALL_NAME_BYTES];
    if (decoder->api->GetCallbackName(domain, call, &found) == CUPTI_SUCCESS && found != NULL) {
        snprintf(name, sizeof name, "%s", found);
        dl_cupti_cut_call_name(name);
    } else {
        snprintf(name, sizeof name, "%s call %u",
                 domain == CUPTI_CB_DOMAIN_RUNTIME_API ? "runtime" : "driver", call);
    }
    return ids[call] = decoder->sink.intern(name);
}

dl_cupti_decoder *dl_cupti_decoder_new(const dl_cupti_api *api, const dl_cuda_api *cuda,
                                       dl_activity_sink sink)
{
    dl_cupti_decoder *decoder = dl_calloc(1, sizeof *decoder, "decoder of records");
    decoder->api = api;
    decoder->cuda = cuda;
    decoder->sink = sink;
    decoder->preset = DL_CAPTURE_FULL;
    return decoder;
}

void dl_cupti_decoder_choose(dl_cupti_decoder *decoder, dl_capture_preset preset)
{
    decoder->preset = preset;
}

void dl_cupti_decoder_free(dl_cupti_decoder *decoder)
{
    for (size_t i = 0; i < SLOTS; i++)
        free(decoder->names[i].text);
    free(decoder);
}

dl_decode_counts dl_cupti_decoder_counts(const dl_cupti_decoder *decoder)
{
    return decoder->counts;
}

/* Sets start and duration and appends, unless CUPTI lost the times. */
static bool append_timed(dl_cupti_decoder *decoder, dl_activity *activity, uint64_t start_ns,
                         uint64_t end_ns)
{
    if (start_ns == 0 || end_ns < start_ns || end_ns > INT64_MAX) {
        decoder->counts.lost_timestamps++;
        return false;
    }
    activity->start_ns = (int64_t)start_ns;
    activity->duration_ns = (int64_t)(end_ns - start_ns);
    decoder->last_end_ns = (int64_t)end_ns;
    decoder->sink.append(activity);
    return true;
}

/* Combines a graph's id (upper half) and the node's id in that graph, which is the lower half of
 * CUPTI's node id. */
static uint64_t graph_object(uint32_t graph, uint64_t node)
{
    return (uint64_t)graph << 32 | (uint32_t)node;
}

/* An activity of a device, from the fields common to all such records of CUPTI. */
#define DEVICE_ACTIVITY(work_kind, record)                                               \
    {                                                                                    \
        .kind = (work_kind), .device = (record)->deviceId, .stream = (record)->streamId, \
        .correlation = (record)->correlationId,                                          \
        .object = graph_object((record)->graphId, (record)->graphNodeId),                \
    }

static void know_context(dl_cupti_decoder *decoder, uint32_t context, uint32_t device)
{
    if (context < CONTEXTS_MAX) decoder->device_of[context] = device;
}

static void decode_kernel(dl_cupti_decoder *decoder, const CUpti_ActivityKernel8 *record)
{
    know_context(decoder, record->contextId, record->deviceId);
    const dl_launch_shape shape = {
        .grid = {record->gridX, record->gridY, record->gridZ},
        .block = {record->blockX, record->blockY, record->blockZ},
        .shared_bytes =
            (uint32_t)record->staticSharedMemory + (uint32_t)record->dynamicSharedMemory,
        .registers = record->registersPerThread,
    };
    dl_activity activity = DEVICE_ACTIVITY(DL_ACTIVITY_KERNEL, record);
    activity.name = cupti_name_kernel(decoder, record->name);
    activity.detail = cupti_name_shape(decoder, &shape);
    append_timed(decoder, &activity, record->start, record->end);
}

static dl_copy_direction copy_direction(uint8_t kind)
{
    static const uint8_t directions[] = {
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOD] = DL_COPY_H2D,
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOA] = DL_COPY_H2D,
        [CUPTI_ACTIVITY_MEMCPY_KIND_DTOH] = DL_COPY_D2H,
        [CUPTI_ACTIVITY_MEMCPY_KIND_ATOH] = DL_COPY_D2H,
        [CUPTI_ACTIVITY_MEMCPY_KIND_ATOA] = DL_COPY_D2D,
        [CUPTI_ACTIVITY_MEMCPY_KIND_ATOD] = DL_COPY_D2D,
        [CUPTI_ACTIVITY_MEMCPY_KIND_DTOA] = DL_COPY_D2D,
        [CUPTI_ACTIVITY_MEMCPY_KIND_DTOD] = DL_COPY_D2D,
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOH] = DL_COPY_H2H,
        [CUPTI_ACTIVITY_MEMCPY_KIND_PTOP] = DL_COPY_PEER,
    };
    return kind < sizeof directions ? (dl_copy_direction)directions[kind] : DL_COPY_UNKNOWN;
}

static dl_host_memory host_memory(uint8_t kind)
{
    static const uint8_t memories[] = {
        [CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE] = DL_MEMORY_PAGEABLE,
        [CUPTI_ACTIVITY_MEMORY_KIND_PINNED] = DL_MEMORY_PINNED,
        [CUPTI_ACTIVITY_MEMORY_KIND_MANAGED] = DL_MEMORY_MANAGED,
        [CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC] = DL_MEMORY_MANAGED,
    };
    return kind < sizeof memories ? (dl_host_memory)memories[kind] : DL_MEMORY_UNKNOWN;
}

/* Returns the memory type of the host's side; from host to host, that of the slower side. */
static dl_host_memory memory_of_copy(dl_copy_direction direction, uint8_t source, uint8_t target)
{
    if (direction == DL_COPY_H2D) return host_memory(source);
    if (direction == DL_COPY_D2H) return host_memory(target);
    if (direction != DL_COPY_H2H) return DL_MEMORY_UNKNOWN;
    return source == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE ? DL_MEMORY_PAGEABLE : host_memory(target);
}

static void decode_memcpy(dl_cupti_decoder *decoder, const CUpti_ActivityMemcpy5 *record)
{
    const dl_copy_direction direction = copy_direction(record->copyKind);
    dl_activity activity = DEVICE_ACTIVITY(DL_ACTIVITY_MEMCPY, record);
    activity.copy = (uint8_t)direction;
    activity.memory = (uint8_t)memory_of_copy(direction, record->srcKind, record->dstKind);
    activity.bytes = record->bytes;
    append_timed(decoder, &activity, record->start, record->end);
}

static void decode_peer_memcpy(dl_cupti_decoder *decoder, const CUpti_ActivityMemcpyPtoP4 *record)
{
    const bool from_here = record->deviceId == record->srcDeviceId;
    dl_activity activity = DEVICE_ACTIVITY(DL_ACTIVITY_MEMCPY, record);
    activity.copy = DL_COPY_PEER;
    activity.peer = from_here ? record->dstDeviceId : record->srcDeviceId;
    activity.bytes = record->bytes;
    append_timed(decoder, &activity, record->start, record->end);
}

static void decode_memset(dl_cupti_decoder *decoder, const CUpti_ActivityMemset4 *record)
{
    dl_activity activity = DEVICE_ACTIVITY(DL_ACTIVITY_MEMSET, record);
    activity.bytes = record->bytes;
    append_timed(decoder, &activity, record->start, record->end);
}

static void decode_graph(dl_cupti_decoder *decoder, const CUpti_ActivityGraphTrace *record)
{
    dl_activity activity = {
        .kind = DL_ACTIVITY_GRAPH,
        .device = record->deviceId,
        .stream = record->streamId,
        .correlation = record->correlationId,
        .object = graph_object(record->graphId, 0),
    };
    append_timed(decoder, &activity, record->start, record->end);
}

static void append_waiting(dl_cupti_decoder *decoder, size_t i, int64_t start_ns)
{
    dl_activity *event = &decoder->waiting[i];
    event->start_ns = start_ns;
    decoder->sink.append(event);
    decoder->waiting_count--;
    memmove(event, event + 1, (decoder->waiting_count - i) * sizeof *event);
}

/* Gives waiting events the start time of the call that recorded them. */
static void find_waiting(dl_cupti_decoder *decoder, const dl_activity *call)
{
    for (size_t i = decoder->waiting_count; i-- > 0;)
        if (decoder->waiting[i].correlation == call->correlation)
            append_waiting(decoder, i, call->start_ns);
}

static void end_waiting(dl_cupti_decoder *decoder)
{
    if (decoder->waiting_count == 0) return;
    if (decoder->last_end_ns == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        decoder->last_end_ns = now.tv_sec * 1000000000 + now.tv_nsec;
    }
    while (decoder->waiting_count > 0)
        append_waiting(decoder, 0, decoder->last_end_ns);
}

static void decode_call(dl_cupti_decoder *decoder, const CUpti_ActivityAPI *record)
{
    const CUpti_CallbackDomain domain = record->kind == CUPTI_ACTIVITY_KIND_RUNTIME
                                            ? CUPTI_CB_DOMAIN_RUNTIME_API
                                            : CUPTI_CB_DOMAIN_DRIVER_API;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && !is_driver_call(record->cbid, decoder->preset))
        return;
    dl_activity activity = {
        .kind = DL_ACTIVITY_CALL,
        .name = cupti_name_call(decoder, domain, record->cbid),
        .thread = record->threadId,
        .correlation = record->correlationId,
    };
    if (append_timed(decoder, &activity, record->start, record->end)) {
        find_waiting(decoder, &activity);
    }
}

/* In records: no stream or event. */
#define NONE ((uint32_t)CUPTI_SYNCHRONIZATION_INVALID_VALUE)

/* Identifies one recording of an event, as events are reused. */
static uint64_t event_object(const dl_cupti_decoder *decoder, uint32_t event,
                             const uint64_t *recording)
{
    if (decoder->api->version >= DL_CUPTI_12_8 && *recording != 0 && *recording != UINT64_MAX &&
        *recording != NONE)
        return *recording;
    return event != NONE ? event : 0;
}

static uint32_t device_of_context(const dl_cupti_decoder *decoder, uint32_t context)
{
    return context < CONTEXTS_MAX ? decoder->device_of[context] : 0;
}

static void decode_sync(dl_cupti_decoder *decoder, const CUpti_ActivitySynchronization2 *record)
{
    static const char *const waits[] = {
        [CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE] = "event",
        [CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT] = "stream wait",
        [CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE] = "stream",
        [CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE] = "context",
    };
    const unsigned type = (unsigned)record->type;
    const bool of_event = type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE ||
                          type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
    const char *name = type < sizeof waits / sizeof waits[0] ? waits[type] : NULL;
    dl_activity activity = {
        .kind = DL_ACTIVITY_SYNC,
        .name = cupti_name_kernel(decoder, name),
        .device = device_of_context(decoder, record->contextId),
        .stream = record->streamId != NONE ? record->streamId : 0,
        .correlation = record->correlationId,
        .object =
            of_event ? event_object(decoder, record->cudaEventId, &record->cudaEventSyncId) : 0,
    };
    append_timed(decoder, &activity, record->start, record->end);
}

static void decode_event(dl_cupti_decoder *decoder, const CUpti_ActivityCudaEvent2 *record)
{
    if (decoder->waiting_count == WAITING_MAX) end_waiting(decoder);
    decoder->waiting[decoder->waiting_count++] = (dl_activity){
        .kind = DL_ACTIVITY_EVENT,
        .device = device_of_context(decoder, record->contextId),
        .stream = record->streamId,
        .correlation = record->correlationId,
        .object = event_object(decoder, record->eventId, &record->cudaEventSyncId),
    };
}

static const char *overhead_name(CUpti_ActivityOverheadKind kind)
{
    static const struct {
        CUpti_ActivityOverheadKind kind;
        const char *name;
    } overheads[] = {
        {CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER, "driver compiler"},
        {CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, "CUPTI buffer flush"},
        {CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, "CUPTI instrumentation"},
        {CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, "CUPTI resource"},
        {CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING, "module loading"},
        {CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, "lazy function loading"},
        {CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL, "command buffer full"},
        {CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST, "CUPTI buffer request"},
        {CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT, "unified memory set-up"},
    };
    for (size_t i = 0; i < sizeof overheads / sizeof overheads[0]; i++)
        if (overheads[i].kind == kind) return overheads[i].name;
    return "unknown overhead";
}

static void decode_overhead(dl_cupti_decoder *decoder, const CUpti_ActivityOverhead3 *record)
{
    const bool of_thread = record->objectKind == CUPTI_ACTIVITY_OBJECT_THREAD;
    dl_activity activity = {
        .kind = DL_ACTIVITY_OVERHEAD,
        .name = cupti_name_kernel(decoder, overhead_name(record->overheadKind)),
        .thread = of_thread ? record->objectId.pt.threadId : 0,
    };
    append_timed(decoder, &activity, record->start, record->end);
    if (dl_cupti_gives_names(decoder->api)) free(record->overheadData);
}

/* CUPTI aligns its records to 8 bytes. */
#define AS(type, record) ((const type *)(const void *)(record))

static void decode_record(dl_cupti_decoder *decoder, const CUpti_Activity *record)
{
    decoder->counts.records++;
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        decode_kernel(decoder, AS(CUpti_ActivityKernel8, record));
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        decode_memcpy(decoder, AS(CUpti_ActivityMemcpy5, record));
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        decode_peer_memcpy(decoder, AS(CUpti_ActivityMemcpyPtoP4, record));
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        decode_memset(decoder, AS(CUpti_ActivityMemset4, record));
        break;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        decode_graph(decoder, AS(CUpti_ActivityGraphTrace, record));
        break;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: decode_call(decoder, AS(CUpti_ActivityAPI, record)); break;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        decode_sync(decoder, AS(CUpti_ActivitySynchronization2, record));
        break;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
        decode_event(decoder, AS(CUpti_ActivityCudaEvent2, record));
        break;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
        decode_overhead(decoder, AS(CUpti_ActivityOverhead3, record));
        break;
    case CUPTI_ACTIVITY_KIND_DEVICE:
        cupti_device_meta(AS(CUpti_ActivityDevice4, record), decoder->cuda, decoder->sink);
        if (dl_cupti_gives_names(decoder->api))
            free((void *)AS(CUpti_ActivityDevice4, record)->name);
        break;
    case CUPTI_ACTIVITY_KIND_CONTEXT:
        know_context(decoder, AS(CUpti_ActivityContext, record)->contextId,
                     AS(CUpti_ActivityContext, record)->deviceId);
        break;
    default: decoder->counts.unknown++; break;
    }
}

void dl_cupti_decode(dl_cupti_decoder *decoder, uint8_t *buffer, size_t bytes)
{
    CUpti_Activity *record = NULL;
    while (decoder->api->ActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS)
        decode_record(decoder, record);
    end_waiting(decoder);
}
