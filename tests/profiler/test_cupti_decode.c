/* Records made from the headers' structures, read by the real library. Skipped without libcupti,
 * and with one of another version than the headers. */
#include "profiler/inject/cupti_decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "profiler/inject/cupti_raw.h"
#include "tests/check.h"
#include "tests/doubles/cupti_records.h"
#include "tests/doubles/raw_replay.h"

#define SEEN_MAX 64
#define TEXTS_MAX 64
#define BUFFER_BYTES 16384
#define RAW_PATH "test_cupti_decode.raw"

static dl_cupti_api api;

/* Calls of the sink by the decoder. */
static struct seen {
    dl_activity activities[SEEN_MAX];
    size_t count;
    char *texts[TEXTS_MAX]; /* indexed by id */
    uint32_t text_count;
    char *meta[2 * TEXTS_MAX];
    size_t meta_count;
} seen;

static void sink_append(const dl_activity *activity)
{
    assert_in_range(seen.count, 0, SEEN_MAX - 1);
    assert_true(dl_activity_valid(activity));
    seen.activities[seen.count++] = *activity;
}

static uint32_t sink_intern(const char *text)
{
    for (uint32_t id = 1; id < seen.text_count; id++)
        if (strcmp(seen.texts[id], text) == 0) return id;
    assert_in_range(seen.text_count, 1, TEXTS_MAX - 1);
    seen.texts[seen.text_count] = dl_strdup(text);
    return seen.text_count++;
}

static void sink_meta(const char *key, const char *value)
{
    assert_in_range(seen.meta_count, 0, TEXTS_MAX - 1);
    seen.meta[2 * seen.meta_count] = dl_strdup(key);
    seen.meta[2 * seen.meta_count++ + 1] = dl_strdup(value);
}

static const char *seen_meta(const char *key)
{
    for (size_t i = 0; i < seen.meta_count; i++)
        if (strcmp(seen.meta[2 * i], key) == 0) return seen.meta[2 * i + 1];
    fail_msg("no meta key %s", key);
    return NULL;
}

static const dl_activity_sink sink = {sink_append, sink_intern, sink_meta};

/* A buffer, filled in the way that CUPTI does. */
static _Alignas(64) uint8_t buffer[BUFFER_BYTES];
static size_t used;

static void put(const void *record, size_t bytes)
{
    used += cupti_put_record(api.ActivityGetNextRecord, buffer + used, record, bytes);
    assert_in_range(used, 0, BUFFER_BYTES);
}
#define PUT(record) put(&(record), sizeof(record))

static dl_cupti_decoder *decoder;

static int begin(void **state DL_UNUSED)
{
    memset(buffer, 0, sizeof buffer);
    used = 0;
    seen = (struct seen){.text_count = 1};
    decoder = dl_cupti_decoder_new(&api, NULL, sink);
    return 0;
}

static int end(void **state DL_UNUSED)
{
    dl_cupti_decoder_free(decoder);
    for (uint32_t id = 1; id < seen.text_count; id++)
        free(seen.texts[id]);
    for (size_t i = 0; i < 2 * seen.meta_count; i++)
        free(seen.meta[i]);
    return 0;
}

static void decode(void)
{
    dl_cupti_decode(decoder, buffer, used);
}

static CUpti_ActivityKernel8 kernel_record(const char *name, uint64_t start, uint64_t end_ns)
{
    CUpti_ActivityKernel8 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    record.start = start;
    record.end = end_ns;
    record.deviceId = 1;
    record.contextId = 2;
    record.streamId = 7;
    record.gridX = 64, record.gridY = 2, record.gridZ = 1;
    record.blockX = 256, record.blockY = 1, record.blockZ = 1;
    record.staticSharedMemory = 1024;
    record.dynamicSharedMemory = 48;
    record.registersPerThread = 32;
    record.correlationId = 99;
    record.name = name;
    record.graphId = 3;
    record.graphNodeId = (uint64_t)3 << 32 | 5;
    return record;
}

static void kernels(void **state DL_UNUSED)
{
    const CUpti_ActivityKernel8 first = kernel_record("_Z4gemmPf", 1000, 1500);
    CUpti_ActivityKernel8 second = kernel_record("_Z4reluPf", 1600, 1600);
    second.gridX = 128;
    PUT(first);
    PUT(second);
    PUT(first);
    decode();
    assert_int_equal(seen.count, 3);
    const dl_activity *kernel = &seen.activities[0];
    assert_int_equal(kernel->kind, DL_ACTIVITY_KERNEL);
    assert_string_equal(seen.texts[kernel->name], "_Z4gemmPf");
    assert_string_equal(seen.texts[kernel->detail],
                        "grid 64x2x1 block 256x1x1 shared 1072 regs 32");
    assert_int_equal(kernel->device, 1);
    assert_int_equal(kernel->stream, 7);
    assert_int_equal(kernel->correlation, 99);
    assert_int_equal(kernel->object, (uint64_t)3 << 32 | 5);
    assert_int_equal(kernel->start_ns, 1000);
    assert_int_equal(kernel->duration_ns, 500);
    assert_string_equal(seen.texts[seen.activities[1].name], "_Z4reluPf");
    assert_int_equal(seen.activities[1].duration_ns, 0);
    assert_memory_equal(&seen.activities[2], kernel, sizeof *kernel);
}

/* A module was unloaded, and another name is at the same address. */
static void a_name_is_its_text_not_its_address(void **state DL_UNUSED)
{
    char name[] = "before";
    const CUpti_ActivityKernel8 record = kernel_record(name, 1, 2);
    PUT(record);
    decode();
    strcpy(name, "after");
    decode();
    assert_string_equal(seen.texts[seen.activities[0].name], "before");
    assert_string_equal(seen.texts[seen.activities[1].name], "after");
}

static void a_kernel_without_name(void **state DL_UNUSED)
{
    const CUpti_ActivityKernel8 record = kernel_record(NULL, 1, 2);
    PUT(record);
    decode();
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.activities[0].name, 0);
}

static void copies(void **state DL_UNUSED)
{
    static const struct {
        uint8_t kind, source, target;
        dl_copy_direction direction;
        dl_host_memory memory;
    } cases[] = {
        {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
         CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, DL_COPY_H2D, DL_MEMORY_PINNED},
        {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE,
         CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, DL_COPY_H2D, DL_MEMORY_PAGEABLE},
        {CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC,
         CUPTI_ACTIVITY_MEMORY_KIND_ARRAY, DL_COPY_H2D, DL_MEMORY_MANAGED},
        {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
         CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, DL_COPY_D2H, DL_MEMORY_PAGEABLE},
        {CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, CUPTI_ACTIVITY_MEMORY_KIND_ARRAY,
         CUPTI_ACTIVITY_MEMORY_KIND_PINNED, DL_COPY_D2H, DL_MEMORY_PINNED},
        {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
         CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, DL_COPY_D2D, DL_MEMORY_UNKNOWN},
        {CUPTI_ACTIVITY_MEMCPY_KIND_ATOD, CUPTI_ACTIVITY_MEMORY_KIND_ARRAY,
         CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, DL_COPY_D2D, DL_MEMORY_UNKNOWN},
        {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
         CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, DL_COPY_H2H, DL_MEMORY_PAGEABLE},
        {77, CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN, CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN,
         DL_COPY_UNKNOWN, DL_MEMORY_UNKNOWN},
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    for (int i = 0; i < COUNT; i++) {
        CUpti_ActivityMemcpy5 record;
        memset(&record, 0, sizeof record);
        record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
        record.copyKind = cases[i].kind;
        record.srcKind = cases[i].source;
        record.dstKind = cases[i].target;
        record.bytes = 4096;
        record.start = 10;
        record.end = 30;
        record.deviceId = 2;
        record.streamId = 13;
        record.correlationId = 5;
        record.graphId = 1;
        record.graphNodeId = 8;
        PUT(record);
    }
    decode();
    assert_int_equal(seen.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        const dl_activity expected = {.kind = DL_ACTIVITY_MEMCPY,
                                      .copy = (uint8_t)cases[i].direction,
                                      .memory = (uint8_t)cases[i].memory,
                                      .device = 2,
                                      .stream = 13,
                                      .correlation = 5,
                                      .bytes = 4096,
                                      .object = (uint64_t)1 << 32 | 8,
                                      .start_ns = 10,
                                      .duration_ns = 20};
        assert_memory_equal(&seen.activities[i], &expected, sizeof expected);
    }
}

static void peer_copies_name_the_other_device(void **state DL_UNUSED)
{
    CUpti_ActivityMemcpyPtoP4 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
    record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    record.bytes = 100;
    record.start = 10;
    record.end = 11;
    record.streamId = 4;
    record.correlationId = 6;
    record.srcDeviceId = 2;
    record.dstDeviceId = 3;
    record.deviceId = 2;
    PUT(record);
    record.deviceId = 3;
    PUT(record);
    decode();
    assert_int_equal(seen.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(seen.activities[i].copy, DL_COPY_PEER);
        assert_int_equal(seen.activities[i].device, 2 + i);
        assert_int_equal(seen.activities[i].peer, 3 - i);
        assert_int_equal(seen.activities[i].bytes, 100);
        assert_int_equal(seen.activities[i].correlation, 6);
    }
}

static void memsets_and_graphs(void **state DL_UNUSED)
{
    CUpti_ActivityMemset4 set;
    memset(&set, 0, sizeof set);
    set.kind = CUPTI_ACTIVITY_KIND_MEMSET;
    set.bytes = 512;
    set.start = 100;
    set.end = 107;
    set.deviceId = 1;
    set.streamId = 2;
    set.correlationId = 3;
    set.graphId = 4;
    set.graphNodeId = 5;
    PUT(set);
    CUpti_ActivityGraphTrace graph;
    memset(&graph, 0, sizeof graph);
    graph.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
    graph.start = 200;
    graph.end = 300;
    graph.deviceId = 1;
    graph.graphId = 9;
    graph.streamId = 2;
    graph.correlationId = 4;
    PUT(graph);
    decode();
    assert_int_equal(seen.count, 2);
    const dl_activity expected[] = {{.kind = DL_ACTIVITY_MEMSET,
                                     .device = 1,
                                     .stream = 2,
                                     .correlation = 3,
                                     .bytes = 512,
                                     .object = (uint64_t)4 << 32 | 5,
                                     .start_ns = 100,
                                     .duration_ns = 7},
                                    {.kind = DL_ACTIVITY_GRAPH,
                                     .device = 1,
                                     .stream = 2,
                                     .correlation = 4,
                                     .object = (uint64_t)9 << 32,
                                     .start_ns = 200,
                                     .duration_ns = 100}};
    assert_memory_equal(seen.activities, expected, sizeof expected);
}

static CUpti_ActivityAPI call_record(CUpti_ActivityKind kind, CUpti_CallbackId id,
                                     uint32_t correlation, uint64_t start)
{
    CUpti_ActivityAPI record;
    memset(&record, 0, sizeof record);
    record.kind = kind;
    record.cbid = id;
    record.start = start;
    record.end = start + 10;
    record.processId = 1;
    record.threadId = 4711;
    record.correlationId = correlation;
    return record;
}

static void calls(void **state DL_UNUSED)
{
    static const struct {
        CUpti_ActivityKind kind;
        CUpti_CallbackId id;
        const char *name;
    } cases[] = {
        {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
         "cudaLaunchKernel"},
        {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
         "cudaLaunchKernelExC"},
        {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
         "cudaDeviceSynchronize"},
        {CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz, "cuLaunchKernel"},
        {CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
         "cuMemcpyHtoDAsync_v2"},
        {CUPTI_ACTIVITY_KIND_RUNTIME, 1999, "runtime call 1999"},
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    for (uint32_t i = 0; i < COUNT; i++) {
        const CUpti_ActivityAPI record = call_record(cases[i].kind, cases[i].id, i, 1000 * (i + 1));
        PUT(record);
    }
    decode();
    assert_int_equal(seen.count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const dl_activity *call = &seen.activities[i];
        assert_int_equal(call->kind, DL_ACTIVITY_CALL);
        assert_string_equal(seen.texts[call->name], cases[i].name);
        assert_int_equal(call->thread, 4711);
        assert_int_equal(call->correlation, i);
        assert_int_equal(call->start_ns, 1000 * (i + 1));
        assert_int_equal(call->duration_ns, 10);
    }
}

/* CUPTI before 12.6 records all calls of the driver or none; the decoder drops unwanted ones. */
static void calls_of_the_driver_that_nobody_asked_for(void **state DL_UNUSED)
{
    const CUpti_ActivityAPI record =
        call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuEventQuery, 1, 1000);
    PUT(record);
    decode();
    assert_int_equal(seen.count, 0);
}

/* By default only launches; in full also copies and waits. */
static void calls_of_the_driver_by_preset(void **state DL_UNUSED)
{
    static const CUpti_CallbackId ids[] = {
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
        CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch};
    for (uint32_t i = 0; i < 4; i++) {
        const CUpti_ActivityAPI record =
            call_record(CUPTI_ACTIVITY_KIND_DRIVER, ids[i], i, 1000 * (i + 1));
        PUT(record);
    }
    dl_cupti_decoder_choose(decoder, DL_CAPTURE_DEFAULT);
    decode();
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.activities[0].correlation, 0);
    assert_int_equal(seen.activities[1].correlation, 3);
    dl_cupti_decoder_choose(decoder, DL_CAPTURE_FULL);
    decode();
    assert_int_equal(seen.count, 6);
}

static void call_names_lose_suffixes(void **state DL_UNUSED)
{
    static const char *const cases[][2] = {
        {"cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync"},
        {"cudaFree_v3020", "cudaFree"},
        {"cudaGraphInstantiate_v12000", "cudaGraphInstantiate"},
        {"cuMemAlloc_v2", "cuMemAlloc_v2"},
        {"cudaMemcpy_ptds_v7000", "cudaMemcpy"},
        {"plain", "plain"},
        {"with_value", "with_value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64];
        strcpy(name, cases[i][0]);
        dl_cupti_cut_call_name(name);
        assert_string_equal(name, cases[i][1]);
    }
}

static CUpti_ActivitySynchronization2 sync_record(CUpti_ActivitySynchronizationType type)
{
    CUpti_ActivitySynchronization2 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    record.type = type;
    record.start = 50;
    record.end = 90;
    record.correlationId = 12;
    record.contextId = 3;
    record.streamId = 7;
    record.cudaEventId = 21;
    record.cudaEventSyncId = 1001;
    return record;
}

/* The object of an event: its recording, or the event if the library is older than CUDA 12.8. */
static uint64_t recording(void)
{
    return api.version >= DL_CUPTI_12_8 ? 1001 : 21;
}

/* The device comes from the context, whose record came before. */
static void syncs(void **state DL_UNUSED)
{
    CUpti_ActivityContext context;
    memset(&context, 0, sizeof context);
    context.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
    context.contextId = 3;
    context.deviceId = 6;
    PUT(context);
    static const struct {
        CUpti_ActivitySynchronizationType type;
        const char *name;
        bool of_event;
    } cases[] = {
        {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, "event", true},
        {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, "stream wait", true},
        {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, "stream", false},
        {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, "context", false},
    };
    for (int i = 0; i < 4; i++) {
        const CUpti_ActivitySynchronization2 record = sync_record(cases[i].type);
        PUT(record);
    }
    decode();
    assert_int_equal(seen.count, 4);
    for (int i = 0; i < 4; i++) {
        const dl_activity *sync = &seen.activities[i];
        assert_int_equal(sync->kind, DL_ACTIVITY_SYNC);
        assert_string_equal(seen.texts[sync->name], cases[i].name);
        assert_int_equal(sync->device, 6);
        assert_int_equal(sync->stream, 7);
        assert_int_equal(sync->object, cases[i].of_event ? recording() : 0);
        assert_int_equal(sync->correlation, 12);
        assert_int_equal(sync->duration_ns, 40);
    }
}

/* The record of the context may be in a buffer of another thread, which CUPTI gives back later. */
static void kernels_name_the_device_of_a_context(void **state DL_UNUSED)
{
    CUpti_ActivityKernel8 kernel = kernel_record("_Z4gemmPf", 10, 20);
    kernel.contextId = 3;
    kernel.deviceId = 6;
    const CUpti_ActivitySynchronization2 sync =
        sync_record(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
    PUT(kernel);
    PUT(sync);
    decode();
    assert_int_equal(seen.activities[1].kind, DL_ACTIVITY_SYNC);
    assert_int_equal(seen.activities[1].device, 6);
}

static void syncs_without_stream_and_event(void **state DL_UNUSED)
{
    CUpti_ActivitySynchronization2 record =
        sync_record(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
    record.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    record.cudaEventSyncId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    PUT(record); /* uses the event's id instead */
    record.cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    PUT(record);
    decode();
    assert_int_equal(seen.activities[0].stream, 0);
    assert_int_equal(seen.activities[0].object, 21);
    assert_int_equal(seen.activities[1].object, 0);
}

/* Before CUDA 12.8 records ended before this id: the bytes there belong to the next record. */
static void older_libraries_have_no_recording_ids(void **state DL_UNUSED)
{
    dl_cupti_api older = api;
    older.version = DL_CUPTI_12_8 - 1;
    dl_cupti_decoder *old = dl_cupti_decoder_new(&older, NULL, sink);
    const CUpti_ActivitySynchronization2 record =
        sync_record(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
    PUT(record);
    dl_cupti_decode(old, buffer, used);
    dl_cupti_decoder_free(old);
    assert_int_equal(seen.activities[0].object, 21);
}

static CUpti_ActivityCudaEvent2 event_record(uint32_t correlation)
{
    CUpti_ActivityCudaEvent2 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
    record.correlationId = correlation;
    record.contextId = 3;
    record.streamId = 8;
    record.eventId = 21;
    record.cudaEventSyncId = 1001;
    return record;
}

/* An event's record precedes that of its call, in the same buffer. */
static void events_take_the_time_of_their_call(void **state DL_UNUSED)
{
    const CUpti_ActivityCudaEvent2 first = event_record(31), second = event_record(32);
    const CUpti_ActivityAPI call = call_record(
        CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, 32, 700);
    const CUpti_ActivityKernel8 kernel = kernel_record("k", 900, 950);
    PUT(first);
    PUT(second);
    PUT(call);
    PUT(kernel);
    decode();
    assert_int_equal(seen.count, 4);
    const dl_activity *found = &seen.activities[1], *alone = &seen.activities[3];
    assert_int_equal(found->kind, DL_ACTIVITY_EVENT);
    assert_int_equal(found->correlation, 32);
    assert_int_equal(found->start_ns, 700);
    assert_int_equal(found->duration_ns, 0);
    assert_int_equal(found->stream, 8);
    assert_int_equal(found->object, recording());
    assert_int_equal(alone->kind, DL_ACTIVITY_EVENT);
    assert_int_equal(alone->correlation, 31);
    assert_int_equal(alone->start_ns, 950);
}

static void many_events_without_calls(void **state DL_UNUSED)
{
    const CUpti_ActivityCudaEvent2 record = event_record(1);
    for (int i = 0; i < SEEN_MAX; i++)
        PUT(record);
    decode();
    assert_int_equal(seen.count, SEEN_MAX);
    assert_true(seen.activities[0].start_ns > 0); /* the current time */
}

/* The record's data must be freed by the reader: the sanitizers would report a leak. */
static void overheads(void **state DL_UNUSED)
{
    CUpti_ActivityOverhead3 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    record.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
    record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
    record.objectId.pt.processId = 1;
    record.objectId.pt.threadId = 4711;
    record.start = 5;
    record.end = 8;
    record.overheadData = malloc(100);
    PUT(record);
    record.overheadKind = CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING;
    record.objectKind = CUPTI_ACTIVITY_OBJECT_CONTEXT;
    record.overheadData = NULL;
    PUT(record);
    decode();
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.activities[0].kind, DL_ACTIVITY_OVERHEAD);
    assert_string_equal(seen.texts[seen.activities[0].name], "CUPTI buffer flush");
    assert_int_equal(seen.activities[0].thread, 4711);
    assert_string_equal(seen.texts[seen.activities[1].name], "lazy function loading");
    assert_int_equal(seen.activities[1].thread, 0);
}

static CUresult pci_of(char *text, int bytes, CUdevice device)
{
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", 0x3b + device);
    return CUDA_SUCCESS;
}

static void devices_become_meta_keys(void **state DL_UNUSED)
{
    CUpti_ActivityDevice4 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    record.id = 1;
    record.name = dl_strdup("NVIDIA H200");
    record.numMultiprocessors = 132;
    record.globalMemorySize = 150754820096;
    record.computeCapabilityMajor = 9;
    for (int i = 0; i < 16; i++)
        record.uuid.bytes[i] = (char)(0xf0 + i);
    PUT(record);
    const dl_cuda_api cuda = {.DeviceGetPCIBusId = pci_of};
    dl_cupti_decoder *with_driver = dl_cupti_decoder_new(&api, &cuda, sink);
    dl_cupti_decode(with_driver, buffer, used);
    dl_cupti_decoder_free(with_driver);
    assert_int_equal(seen.count, 0);
    assert_string_equal(seen_meta("device.1.name"), "NVIDIA H200");
    assert_string_equal(seen_meta("device.1.uuid"), "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
    assert_string_equal(seen_meta("device.1.pci"), "0000:3C:00.0");
    assert_string_equal(seen_meta("device.1.sm_count"), "132");
    assert_string_equal(seen_meta("device.1.memory_bytes"), "150754820096");
    assert_string_equal(seen_meta("device.1.compute_capability"), "9.0");
}

/* Freeing this static name would crash. */
static void until_12_9_a_devices_name_is_not_ours(void **state DL_UNUSED)
{
    CUpti_ActivityDevice4 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    static const char name[] = "NVIDIA A100";
    record.name = name;
    PUT(record);
    dl_cupti_api older = api;
    older.version = DL_CUPTI_12_9;
    dl_cupti_decoder *of_older = dl_cupti_decoder_new(&older, NULL, sink);
    dl_cupti_decode(of_older, buffer, used);
    dl_cupti_decoder_free(of_older);
    assert_string_equal(seen_meta("device.0.name"), name);
}

static void lost_times_are_counted(void **state DL_UNUSED)
{
    const CUpti_ActivityKernel8 lost = kernel_record("k", 0, 0);
    const CUpti_ActivityKernel8 reversed = kernel_record("k", 10, 9);
    const CUpti_ActivityKernel8 unending = kernel_record("k", 10, UINT64_MAX);
    const CUpti_ActivityKernel8 good = kernel_record("k", 10, 10);
    PUT(lost);
    PUT(reversed);
    PUT(unending);
    PUT(good);
    CUpti_ActivityName name;
    memset(&name, 0, sizeof name);
    name.kind = CUPTI_ACTIVITY_KIND_NAME;
    PUT(name);
    decode();
    const dl_decode_counts counts = dl_cupti_decoder_counts(decoder);
    assert_int_equal(seen.count, 1);
    assert_int_equal(counts.records, 5);
    assert_int_equal(counts.lost_timestamps, 3);
    assert_int_equal(counts.unknown, 1);
}

static void a_buffer_of_nothing(void **state DL_UNUSED)
{
    decode();
    const CUpti_ActivityKernel8 record = kernel_record("k", 1, 2);
    PUT(record);
    used -= 8; /* truncated */
    decode();
    assert_int_equal(seen.count, 0);
}

/* As in another process: the names that the buffers point to are freed. */
static void raw_buffers_are_read_again(void **state DL_UNUSED)
{
    char *name = dl_strdup("_Z4gemmPf");
    CUpti_ActivityKernel8 kernel = kernel_record(name, 100, 200);
    CUpti_ActivityOverhead3 overhead;
    memset(&overhead, 0, sizeof overhead);
    overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    overhead.start = 5;
    overhead.end = 8;
    overhead.overheadData = malloc(8);
    CUpti_ActivityDevice4 device;
    memset(&device, 0, sizeof device);
    device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    device.name = dl_strdup("NVIDIA H200");
    PUT(kernel);
    PUT(overhead);
    PUT(device);
    dl_raw_dump *dump = NULL;
    dl_error err = {0};
    assert_int_equal(dl_raw_dump_open(&dump, RAW_PATH, &api, &err), DL_OK);
    assert_true(dl_raw_dump_append(dump, buffer, used));
    strcpy(name, "_Z4reluPf"); /* another name at the same address, in the next buffer */
    const size_t first =
        cupti_record_bytes(api.ActivityGetNextRecord, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    assert_true(dl_raw_dump_append(dump, buffer, first));
    dl_raw_dump_close(dump);
    free(name);
    free((void *)device.name);
    free(overhead.overheadData);

    assert_int_equal(raw_replay(RAW_PATH, &api, decoder, &err), DL_OK);
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.texts[seen.activities[0].name], "_Z4gemmPf");
    assert_int_equal(seen.activities[1].kind, DL_ACTIVITY_OVERHEAD);
    assert_string_equal(seen.texts[seen.activities[2].name], "_Z4reluPf");
    assert_string_equal(seen_meta("device.0.name"), "NVIDIA H200");
}

static void write_file(const void *data, size_t bytes)
{
    FILE *file = fopen(RAW_PATH, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void raw_files_of_another_form_are_refused(void **state DL_UNUSED)
{
    dl_error err = {0};
    assert_int_equal(raw_replay("/nonexistent/raw", &api, decoder, &err), DL_ERR_IO);
    write_file("something else, longer than a header", 36);
    assert_int_equal(raw_replay(RAW_PATH, &api, decoder, &err), DL_ERR_FORMAT);
    uint8_t header[24] = "DLRAWBUF\x01";
    write_file(header, 16); /* header of CUPTI version 1 */
    assert_int_equal(raw_replay(RAW_PATH, &api, decoder, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "CUPTI 1;");
    memcpy(header + 8, &api.version, 4);
    write_file(header, 16); /* no blocks */
    assert_int_equal(raw_replay(RAW_PATH, &api, decoder, &err), DL_OK);
    header[16] = 3; /* a block of an unknown kind */
    write_file(header, 24);
    assert_int_equal(raw_replay(RAW_PATH, &api, decoder, &err), DL_ERR_FORMAT);
    header[16] = 2;
    header[20] = 100; /* truncated */
    write_file(header, 24);
    assert_int_equal(raw_replay(RAW_PATH, &api, decoder, &err), DL_OK);
    assert_int_equal(seen.count, 0);
}

static void a_full_disk_ends_the_dump(void **state DL_UNUSED)
{
    if (access("/dev/full", W_OK) != 0) skip();
    dl_raw_dump *dump = NULL;
    dl_error err = {0};
    const CUpti_ActivityKernel8 kernel = kernel_record("k", 100, 200);
    PUT(kernel);
    assert_int_equal(dl_raw_dump_open(&dump, "/dev/full", &api, &err), DL_OK);
    assert_false(dl_raw_dump_append(dump, buffer, used));
    assert_false(dl_raw_dump_append(dump, buffer, used));
    dl_raw_dump_close(dump);
    assert_int_equal(dl_raw_dump_open(&dump, "/nonexistent/raw", &api, &err), DL_ERR_IO);
}

#define DECODES(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    dl_error err = {0};
    const char *path = getenv("DLPROF_CUPTI");
    if (dl_cupti_api_load(&api, path != NULL ? path : "", 0, &err) != DL_OK) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    if (api.version != CUPTI_API_VERSION) {
        fprintf(stderr, "skipped: CUPTI %u, headers of %u\n", api.version, CUPTI_API_VERSION);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        DECODES(kernels),
        DECODES(a_name_is_its_text_not_its_address),
        DECODES(a_kernel_without_name),
        DECODES(copies),
        DECODES(peer_copies_name_the_other_device),
        DECODES(memsets_and_graphs),
        DECODES(calls),
        DECODES(calls_of_the_driver_that_nobody_asked_for),
        DECODES(calls_of_the_driver_by_preset),
        DECODES(until_12_9_a_devices_name_is_not_ours),
        DECODES(kernels_name_the_device_of_a_context),
        cmocka_unit_test(call_names_lose_suffixes),
        DECODES(syncs),
        DECODES(syncs_without_stream_and_event),
        DECODES(older_libraries_have_no_recording_ids),
        DECODES(events_take_the_time_of_their_call),
        DECODES(many_events_without_calls),
        DECODES(overheads),
        DECODES(devices_become_meta_keys),
        DECODES(lost_times_are_counted),
        DECODES(a_buffer_of_nothing),
        DECODES(raw_buffers_are_read_again),
        DECODES(raw_files_of_another_form_are_refused),
        DECODES(a_full_disk_ends_the_dump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
