/* Replaces libcupti: follows the rules of its buffers (one per thread; full ones are given back
 * immediately, others at a flush) and fills them with records of the calls that the driver's double
 * reports. They are read by the real library, whose path is DOUBLE_REAL_CUPTI. DOUBLE_CUPTI is a
 * list of words that select faults:
 *
 *   whole-driver  single calls of the driver cannot be selected: all are recorded, as before 12.6
 *   taken         another tool has subscribed
 *   no-kinds      no kind can be enabled
 *   no-memset     the kind memset cannot be enabled
 *   small         a buffer is full after 8 records
 *   hold          gives no buffer back before the end
 *   no-copies     records no copies
 *   no-kernels    records no kernels
 *   drops         loses 7 records
 *   lost-times    every tenth kernel has no times
 *   ticks         at the 50th launch another tool sets the clock
 *   fatal         reports a fatal error at the tenth launch
 *   hangs         hangs in the last flush
 *   early         kernels start before their call is made
 *   cupti12       is CUDA 12.9's: it keeps its texts
 *
 * Built with DOUBLE_OLD it is CUDA 11.8's: it keeps its texts too, lacks all later functions, so
 * that all calls of the driver are recorded or none, and crashes if a buffer is refused. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/doubles/cupti_records.h"
#include "tests/doubles/driver_double.h"

#define SMALL_RECORDS 8
#define DROPPED 7
#define EVERY_LOST 10
#define FATAL_LAUNCH 10
#define RECORD_BYTES_MAX 256
#define EARLY_NS 3000
#define TICKS_LAUNCH 50
#define HANG_S 3600
#define CUPTI_12_9 27
#define DRIVER_CALLS 2048
#define CUPTI_11_8 18

#ifdef DOUBLE_OLD
enum { OLD = 1 };
#else
enum { OLD = 0 };
#endif

typedef struct thread_buffer {
    pthread_mutex_t lock;
    uint8_t *data; /* NULL = none */
    size_t bytes, used;
    unsigned records;
    struct thread_buffer *next;
} thread_buffer;

/* A full buffer that is kept back. */
typedef struct held_buffer {
    uint8_t *data;
    size_t bytes, used;
    struct held_buffer *next;
} held_buffer;

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_CallbackFunc event_callback;
static atomic_bool enabled[CUPTI_ACTIVITY_KIND_COUNT];
static atomic_bool driver_calls[DRIVER_CALLS], some_driver_calls;
static atomic_bool callbacks[CUPTI_CB_DOMAIN_STATE + 1][DRIVER_CALLS]; /* enabled by the tool */
static atomic_bool zeroed; /* set by the tool, from which the double then requires zeroed buffers */
static atomic_size_t dropped;
static atomic_uint launches;
static atomic_uint recorded; /* launches whose records are complete */
static atomic_bool ticking;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static thread_buffer *buffers;
static held_buffer *held;
static __thread thread_buffer *own;

static int told(const char *word)
{
    const char *list = getenv("DOUBLE_CUPTI");
    const size_t length = strlen(word);
    for (const char *at = list; at != NULL && (at = strstr(at, word)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return 1;
    return 0;
}

static void require(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "CUPTI double: %s\n", what);
    abort();
}

static void *real(const char *name)
{
    static void *library;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    const char *path = getenv("DOUBLE_REAL_CUPTI");
    if (library == NULL && path != NULL) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    require(library != NULL, "no real library");
    void *found = dlsym(library, name);
    pthread_mutex_unlock(&lock);
    require(found != NULL, name);
    return found;
}

static thread_buffer *own_buffer(void)
{
    if (own != NULL) return own;
    own = calloc(1, sizeof *own);
    require(own != NULL, "no memory");
    pthread_mutex_init(&own->lock, NULL);
    pthread_mutex_lock(&list_lock);
    own->next = buffers;
    buffers = own;
    pthread_mutex_unlock(&list_lock);
    return own;
}

/* Takes the thread's buffer and gives it back to the tool, or keeps it. */
static void hand_over(thread_buffer *buffer, int keep)
{
    uint8_t *data = buffer->data;
    buffer->data = NULL;
    if (data == NULL) return;
    if (!keep) {
        complete(NULL, 0, data, buffer->bytes, buffer->used);
        return;
    }
    held_buffer *kept = malloc(sizeof *kept);
    require(kept != NULL, "no memory");
    *kept = (held_buffer){data, buffer->bytes, buffer->used, NULL};
    pthread_mutex_lock(&list_lock);
    kept->next = held;
    held = kept;
    pthread_mutex_unlock(&list_lock);
}

static int ask_for_buffer(thread_buffer *buffer)
{
    size_t records_max = 1;
    buffer->used = buffer->records = 0;
    request(&buffer->data, &buffer->bytes, &records_max);
    require(!OLD || buffer->data != NULL, "a buffer is refused");
    if (buffer->data == NULL) return 0;
    require(records_max == 0, "the number of records is limited");
    require((uintptr_t)buffer->data % 8 == 0, "a buffer is not aligned");
    require(buffer->bytes >= RECORD_BYTES_MAX, "a buffer is too small");
    for (size_t i = 0; atomic_load(&zeroed) && i < 4096; i++)
        require(buffer->data[i] == 0, "a buffer is not zeroed");
    return 1;
}

static void put(const void *record, size_t bytes)
{
    CUpti_ActivityKind kind;
    memcpy(&kind, record, sizeof kind);
    if (!atomic_load(&enabled[kind])) return;
    thread_buffer *buffer = own_buffer();
    pthread_mutex_lock(&buffer->lock);
    if (buffer->data == NULL && !ask_for_buffer(buffer)) {
        atomic_fetch_add(&dropped, 1);
    } else {
        buffer->used += cupti_put_record(cuptiActivityGetNextRecord, buffer->data + buffer->used,
                                         record, bytes);
        buffer->records++;
        const int small = told("small") && buffer->records >= SMALL_RECORDS;
        if (small || buffer->bytes - buffer->used < RECORD_BYTES_MAX) {
            hand_over(buffer, told("hold"));
        }
    }
    pthread_mutex_unlock(&buffer->lock);
}
#define PUT(record) put(&(record), sizeof(record))

static void put_call(CUpti_ActivityKind kind, CUpti_CallbackId id, unsigned correlation,
                     uint64_t start)
{
    if (kind == CUPTI_ACTIVITY_KIND_DRIVER && atomic_load(&some_driver_calls) &&
        !atomic_load(&driver_calls[id]))
        return;
    CUpti_ActivityAPI record;
    memset(&record, 0, sizeof record);
    record.kind = kind;
    record.cbid = id;
    record.start = start;
    record.end = driver_double_now_ns();
    record.processId = (uint32_t)getpid();
    record.threadId = (uint32_t)gettid();
    record.correlationId = correlation;
    PUT(record);
}

/* Calls the tool back, if it has enabled that callback. */
static void tell(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const CUpti_CallbackFunc function = event_callback;
    if (function != NULL && atomic_load(&callbacks[domain][id])) function(NULL, domain, id, data);
}

/* All devices are of one model. */
static void on_context(unsigned number)
{
    CUpti_ActivityDevice4 device;
    memset(&device, 0, sizeof device);
    device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    device.id = number;
    device.uuid.bytes[0] = (char)number;
    static const char kept[] = "Double of a GPU";
    const int wanted = atomic_load(&enabled[device.kind]);
    device.name = !wanted ? NULL : OLD || told("cupti12") ? kept : strdup(kept);
    device.numMultiprocessors = 3;
    PUT(device);
    CUpti_ActivityContext context;
    memset(&context, 0, sizeof context);
    context.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
    context.contextId = number + 1;
    context.deviceId = number;
    PUT(context);
    CUpti_ResourceData data;
    memset(&data, 0, sizeof data);
    tell(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &data);
}

static void give_up(void)
{
    CUpti_StateData data;
    memset(&data, 0, sizeof data);
    data.notification.result = CUPTI_ERROR_HARDWARE;
    data.notification.message = "the double gives up";
    tell(CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, &data);
}

/* Sets the fields common to all records of a device's work. */
#define FILL(record, record_kind, work, correlation_id)        \
    do {                                                       \
        memset(&(record), 0, sizeof(record));                  \
        (record).kind = (record_kind);                         \
        (record).start = (work)->start_ns;                     \
        (record).end = (work)->start_ns + (work)->duration_ns; \
        (record).deviceId = (work)->device;                    \
        (record).contextId = (work)->device + 1;               \
        (record).streamId = (work)->stream;                    \
        (record).correlationId = (correlation_id);             \
        (record).graphId = (work)->graph;                      \
    } while (0)

/* CUPTI has the node's number in the lower half. */
#define NODE(work) ((work)->graph == 0 ? 0 : (uint64_t)(work)->graph << 32 | (work)->node)

static void put_kernel(const driver_work *work, unsigned correlation)
{
    const unsigned launch = atomic_fetch_add(&launches, 1) + 1;
    CUpti_ActivityKernel8 record;
    FILL(record, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, work, correlation);
    record.graphNodeId = NODE(work);
    if (told("early")) record.start -= EARLY_NS, record.end -= EARLY_NS;
    if (told("lost-times") && launch % EVERY_LOST == 0) record.start = record.end = 0;
    record.gridX = (int)launch % 64 + 1, record.gridY = record.gridZ = 1;
    record.blockX = 256, record.blockY = record.blockZ = 1;
    record.registersPerThread = 32;
    record.name = work->name;
    if (!told("no-kernels")) PUT(record);
    if (told("fatal") && launch == FATAL_LAUNCH) give_up();
}

static uint8_t memory_kind(driver_memory memory)
{
    static const uint8_t kinds[] = {[DRIVER_PAGEABLE] = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE,
                                    [DRIVER_PINNED] = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
                                    [DRIVER_DEVICE] = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE};
    return kinds[memory];
}

static void put_copy(const driver_work *work, unsigned correlation)
{
    CUpti_ActivityMemcpy5 record;
    FILL(record, CUPTI_ACTIVITY_KIND_MEMCPY, work, correlation);
    record.copyKind = work->from != DRIVER_DEVICE ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                      : work->to != DRIVER_DEVICE ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                                  : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    record.srcKind = memory_kind(work->from);
    record.dstKind = memory_kind(work->to);
    record.bytes = work->bytes;
    if (!told("no-copies")) PUT(record);
}

static void put_peer_copy(const driver_work *work, unsigned correlation)
{
    CUpti_ActivityMemcpyPtoP4 record;
    FILL(record, CUPTI_ACTIVITY_KIND_MEMCPY2, work, correlation);
    record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    record.srcKind = record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    record.srcDeviceId = work->device;
    record.dstDeviceId = work->peer;
    record.bytes = work->bytes;
    if (!told("no-copies")) PUT(record);
}

static void put_memset(const driver_work *work, unsigned correlation)
{
    CUpti_ActivityMemset4 record;
    FILL(record, CUPTI_ACTIVITY_KIND_MEMSET, work, correlation);
    record.bytes = work->bytes;
    record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    PUT(record);
}

static void put_graph(const driver_work *work, unsigned correlation)
{
    CUpti_ActivityGraphTrace record;
    FILL(record, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, work, correlation);
    PUT(record);
}

/* Records graphs as a whole, where that is enabled, else node by node. */
static void on_work(const driver_work *work, unsigned correlation)
{
    static void (*const put_work[])(const driver_work *, unsigned) = {
        [DRIVER_KERNEL] = put_kernel,       [DRIVER_COPY] = put_copy,
        [DRIVER_PEER_COPY] = put_peer_copy, [DRIVER_MEMSET] = put_memset,
        [DRIVER_GRAPH] = put_graph,
    };
    const int wholes = atomic_load(&enabled[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]);
    if (wholes && work->graph != 0 && work->kind != DRIVER_GRAPH) return;
    put_work[work->kind](work, correlation);
}

static void on_call(driver_call call, unsigned correlation, uint64_t start_ns)
{
    put_call(call.of_driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME, call.id,
             correlation, start_ns);
    if (call.of_driver || call.id != CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) return;
    /* A call of the driver by the runtime, where all calls are recorded. */
    put_call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, correlation,
             start_ns);
    if (OLD)
        put_call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, correlation,
                 start_ns + 1);
    atomic_fetch_add(&recorded, 1);
}

static void on_wait(unsigned correlation)
{
    const uint64_t start = driver_double_now_ns();
    CUpti_CallbackData data;
    memset(&data, 0, sizeof data);
    data.callbackSite = CUPTI_API_ENTER;
    tell(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020, &data);
    put_call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
             correlation, start);
}

static void on_synchronize(unsigned correlation)
{
    const uint64_t start = driver_double_now_ns();
    CUpti_ActivitySynchronization2 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
    record.start = start;
    record.end = driver_double_now_ns();
    record.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    record.correlationId = correlation;
    PUT(record);
    put_call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, correlation,
             start);
}

static void on_record(unsigned correlation)
{
    const uint64_t start = driver_double_now_ns();
    CUpti_ActivityCudaEvent2 record;
    memset(&record, 0, sizeof record);
    record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
    record.streamId = 7;
    record.contextId = 1;
    record.eventId = 1;
    record.correlationId = correlation;
    PUT(record);
    put_call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020,
             correlation, start);
}

/* The functions of CUPTI. */
CUptiResult cuptiGetVersion(uint32_t *version)
{
    *version = OLD ? CUPTI_11_8 : told("cupti12") ? CUPTI_12_9 : CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
    *timestamp = atomic_load(&ticking) ? 123456789 : driver_double_now_ns();
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    __typeof__(cuptiGetResultString) *function;
    *(void **)&function = real("cuptiGetResultString");
    return function(result, text);
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char **name)
{
    __typeof__(cuptiGetCallbackName) *function;
    *(void **)&function = real("cuptiGetCallbackName");
    return function(domain, id, name);
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t bytes, CUpti_Activity **record)
{
    static void *_Atomic found;
    void *now = atomic_load(&found);
    if (now == NULL) atomic_store(&found, now = real("cuptiActivityGetNextRecord"));
    __typeof__(cuptiActivityGetNextRecord) *function;
    *(void **)&function = now;
    return function(buffer, bytes, record);
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
                           void *user)
{
    static const driver_tool tool = {on_context, on_work,        on_call,
                                     on_wait,    on_synchronize, on_record};
    (void)user;
    if (told("taken")) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    require(event_callback == NULL, "subscribed twice");
    event_callback = callback;
    *subscriber = (CUpti_SubscriberHandle)&event_callback;
    driver_double_set_tool(&tool);
    return CUPTI_SUCCESS;
}

#ifndef DOUBLE_OLD
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
                              void *user, CUpti_SubscriberParams *parameters)
{
    require(parameters->structSize == CUpti_SubscriberParams_STRUCT_SIZE, "size of parameters");
    if (told("taken")) {
        snprintf(parameters->oldSubscriberName, parameters->oldSubscriberSize, "Some Profiler");
    }
    return cuptiSubscribe(subscriber, callback, user);
}
#endif

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    require(subscriber == (CUpti_SubscriberHandle)&event_callback, "unsubscribed without");
    driver_double_set_tool(NULL);
    event_callback = NULL;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    require(enable && subscriber == (CUpti_SubscriberHandle)&event_callback, "no subscriber");
    require(domain <= CUPTI_CB_DOMAIN_STATE && id < DRIVER_CALLS, "no such callback");
    atomic_store(&callbacks[domain][id], 1);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request_function,
                                           CUpti_BuffersCallbackCompleteFunc complete_function)
{
    request = request_function;
    complete = complete_function;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    require(request != NULL, "a kind was enabled before there were buffers");
    if (told("no-kinds")) return CUPTI_ERROR_UNKNOWN;
    if (told("no-memset") && kind == CUPTI_ACTIVITY_KIND_MEMSET) return CUPTI_ERROR_NOT_SUPPORTED;
    atomic_store(&enabled[kind], 1);
    return CUPTI_SUCCESS;
}

#ifndef DOUBLE_OLD
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable)
{
    require(id < DRIVER_CALLS, "a call of the driver that there is not");
    atomic_store(&driver_calls[id], enable);
    atomic_store(&some_driver_calls, !told("whole-driver"));
    atomic_store(&enabled[CUPTI_ACTIVITY_KIND_DRIVER], 1);
    return CUPTI_SUCCESS;
}
#endif

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    atomic_store(&enabled[kind], 0);
    return CUPTI_SUCCESS;
}

static void give_back_held(void)
{
    pthread_mutex_lock(&list_lock);
    held_buffer *kept = held;
    held = NULL;
    pthread_mutex_unlock(&list_lock);
    while (kept != NULL) {
        held_buffer *next = kept->next;
        complete(NULL, 0, kept->data, kept->bytes, kept->used);
        free(kept);
        kept = next;
    }
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    driver_double_flushes();
    /* From here on everything launched before is given back. */
    if (told("ticks") && atomic_load(&recorded) >= TICKS_LAUNCH) atomic_store(&ticking, 1);
    if (flag != 0 && told("hangs")) sleep(HANG_S);
    if (flag == 0 && told("hold")) return CUPTI_SUCCESS;
    give_back_held();
    pthread_mutex_lock(&list_lock);
    thread_buffer *buffer = buffers;
    pthread_mutex_unlock(&list_lock);
    for (; buffer != NULL; buffer = buffer->next) {
        pthread_mutex_lock(&buffer->lock);
        hand_over(buffer, 0);
        pthread_mutex_unlock(&buffer->lock);
    }
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *count)
{
    static atomic_bool first;
    (void)context, (void)stream;
    *count = atomic_exchange(&dropped, 0);
    if (told("drops") && !atomic_exchange(&first, 1)) *count += DROPPED;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    require(type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM, "threads are not the system's");
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
    require(*bytes == 1 && request == NULL, "an attribute is set too late");
    if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
        atomic_store(&zeroed, *(uint8_t *)value);
    }
    return CUPTI_SUCCESS;
}
