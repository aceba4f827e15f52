#include "profiler/inject/cupti_decode.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "profiler/inject/cupti_device.h"
#include "profiler/inject/cupti_names.h"

#define WAITING_MAX 256   /* events of a buffer whose call has not come yet */
#define CONTEXTS_MAX 1024 /* ids of contexts whose device is remembered */

struct dl_cupti_decoder {
    const dl_cupti_api *api;
    const dl_cuda_api *cuda;
    dl_activity_sink sink;
    dl_cupti_names *names;
    dl_decode_counts counts;
    int64_t last_end_ns;              /* of the record before */
    uint32_t device_of[CONTEXTS_MAX]; /* by context id; 0 = device 0 or unknown */
    dl_activity waiting[WAITING_MAX]; /* events without a time, oldest first */
    size_t waiting_count;
};

dl_cupti_decoder *dl_cupti_decoder_new(const dl_cupti_api *api, const dl_cuda_api *cuda,
                                       dl_activity_sink sink)
{
    dl_cupti_decoder *decoder = dl_calloc(1, sizeof *decoder, "decoder of records");
    decoder->api = api;
    decoder->cuda = cuda;
    decoder->sink = sink;
    decoder->names = dl_cupti_names_new(api, sink);
    return decoder;
}

void dl_cupti_decoder_free(dl_cupti_decoder *decoder)
{
    dl_cupti_names_free(decoder->names);
    free(decoder);
}

dl_decode_counts dl_cupti_decoder_counts(const dl_cupti_decoder *decoder)
{
    return decoder->counts;
}

static void append(dl_cupti_decoder *decoder, const dl_activity *activity)
{
    decoder->counts.activities++;
    decoder->sink.append(decoder->sink.user, activity);
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
    append(decoder, activity);
    return true;
}

/* The node's id in its graph is the lower half of CUPTI's. */
static uint64_t graph_object(uint32_t graph, uint64_t node)
{
    return (uint64_t)graph << 32 | (uint32_t)node;
}

/* A work of a device, from what all of CUPTI's records of such have. */
#define WORK(work_kind, record)                                                          \
    {                                                                                    \
        .kind = (work_kind), .device = (record)->deviceId, .stream = (record)->streamId, \
        .correlation = (record)->correlationId,                                          \
        .object = graph_object((record)->graphId, (record)->graphNodeId),                \
    }

static void decode_kernel(dl_cupti_decoder *decoder, const CUpti_ActivityKernel10 *record)
{
    const dl_launch_shape shape = {
        .grid = {record->gridX, record->gridY, record->gridZ},
        .block = {record->blockX, record->blockY, record->blockZ},
        .shared_bytes =
            (uint32_t)record->staticSharedMemory + (uint32_t)record->dynamicSharedMemory,
        .registers = record->registersPerThread,
    };
    dl_activity activity = WORK(DL_ACTIVITY_KERNEL, record);
    activity.name = dl_cupti_name_kernel(decoder->names, record->name);
    activity.detail = dl_cupti_name_shape(decoder->names, &shape);
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

/* The host's side; from host to host the slower one. */
static dl_host_memory memory_of_copy(dl_copy_direction direction, uint8_t source, uint8_t target)
{
    if (direction == DL_COPY_H2D) return host_memory(source);
    if (direction == DL_COPY_D2H) return host_memory(target);
    if (direction != DL_COPY_H2H) return DL_MEMORY_UNKNOWN;
    return source == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE ? DL_MEMORY_PAGEABLE : host_memory(target);
}

static void decode_memcpy(dl_cupti_decoder *decoder, const CUpti_ActivityMemcpy6 *record)
{
    const dl_copy_direction direction = copy_direction(record->copyKind);
    dl_activity activity = WORK(DL_ACTIVITY_MEMCPY, record);
    activity.copy = (uint8_t)direction;
    activity.memory = (uint8_t)memory_of_copy(direction, record->srcKind, record->dstKind);
    activity.bytes = record->bytes;
    append_timed(decoder, &activity, record->start, record->end);
}

static void decode_peer_memcpy(dl_cupti_decoder *decoder, const CUpti_ActivityMemcpyPtoP4 *record)
{
    const bool from_here = record->deviceId == record->srcDeviceId;
    dl_activity activity = WORK(DL_ACTIVITY_MEMCPY, record);
    activity.copy = DL_COPY_PEER;
    activity.peer = from_here ? record->dstDeviceId : record->srcDeviceId;
    activity.bytes = record->bytes;
    append_timed(decoder, &activity, record->start, record->end);
}

static void decode_memset(dl_cupti_decoder *decoder, const CUpti_ActivityMemset4 *record)
{
    dl_activity activity = WORK(DL_ACTIVITY_MEMSET, record);
    activity.bytes = record->bytes;
    append_timed(decoder, &activity, record->start, record->end);
}

static void decode_graph(dl_cupti_decoder *decoder, const CUpti_ActivityGraphTrace2 *record)
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
    append(decoder, event);
    decoder->waiting_count--;
    memmove(event, event + 1, (decoder->waiting_count - i) * sizeof *event);
}

/* The call that recorded an event tells its time. */
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
    dl_activity activity = {
        .kind = DL_ACTIVITY_CALL,
        .name = dl_cupti_name_call(decoder->names, domain, record->cbid),
        .thread = record->threadId,
        .correlation = record->correlationId,
    };
    if (append_timed(decoder, &activity, record->start, record->end)) {
        find_waiting(decoder, &activity);
    }
}

/* Which recording of an event is meant: events are used again and again. */
static uint64_t event_object(const dl_cupti_decoder *decoder, uint32_t event,
                             const uint64_t *recording)
{
    if (decoder->api->version >= DL_CUPTI_12_8 && *recording != 0 && *recording != UINT64_MAX &&
        *recording != CUPTI_SYNCHRONIZATION_INVALID_VALUE)
        return *recording;
    return event != CUPTI_SYNCHRONIZATION_INVALID_VALUE ? event : 0;
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
        .name = dl_cupti_name_kernel(decoder->names, name),
        .device = device_of_context(decoder, record->contextId),
        .stream = record->streamId != CUPTI_SYNCHRONIZATION_INVALID_VALUE ? record->streamId : 0,
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
        .name = dl_cupti_name_kernel(decoder->names, overhead_name(record->overheadKind)),
        .thread = of_thread ? record->objectId.pt.threadId : 0,
    };
    append_timed(decoder, &activity, record->start, record->end);
    if (decoder->api->version >= DL_CUPTI_13_0) free(record->overheadData);
}

static void decode_context(dl_cupti_decoder *decoder, const CUpti_ActivityContext3 *record)
{
    if (record->contextId < CONTEXTS_MAX) decoder->device_of[record->contextId] = record->deviceId;
}

/* CUPTI aligns its records to 8 bytes. */
#define AS(type, record) ((const type *)(const void *)(record))

static void decode_record(dl_cupti_decoder *decoder, const CUpti_Activity *record)
{
    decoder->counts.records++;
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        decode_kernel(decoder, AS(CUpti_ActivityKernel10, record));
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        decode_memcpy(decoder, AS(CUpti_ActivityMemcpy6, record));
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        decode_peer_memcpy(decoder, AS(CUpti_ActivityMemcpyPtoP4, record));
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        decode_memset(decoder, AS(CUpti_ActivityMemset4, record));
        break;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        decode_graph(decoder, AS(CUpti_ActivityGraphTrace2, record));
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
        dl_cupti_device_meta(AS(CUpti_ActivityDevice5, record), decoder->cuda, decoder->sink);
        break;
    case CUPTI_ACTIVITY_KIND_CONTEXT:
        decode_context(decoder, AS(CUpti_ActivityContext3, record));
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
