/* <cupti.h> of CUDA 11.8 or newer. Declares the names of CUDA 13.0's that older headers lack, with
 * their values and layouts, so that a recorder built with any of these headers reads the records of
 * any libcupti (cupti_api.h). A record has a version in its type's name; later versions only append
 * fields, and the types used elsewhere are the oldest ones that have the fields read. */
#ifndef DL_PROFILER_INJECT_CUPTI_HEADERS_H
#define DL_PROFILER_INJECT_CUPTI_HEADERS_H

#include <cupti.h>
#include <stddef.h>
#include <stdint.h>

#if CUPTI_API_VERSION < 20 /* CUDA 12.2 */
typedef struct {
    struct {
        CUptiResult result;
        const char *message;
    } notification;
} CUpti_StateData;
#endif

#if CUPTI_API_VERSION < 22 /* CUDA 12.4 */
typedef struct {
    CUpti_ActivityKind kind;
    CUpti_ActivityOverheadKind overheadKind;
    CUpti_ActivityObjectKind objectKind;
    CUpti_ActivityObjectKindId objectId;
    uint64_t start, end;
    uint32_t correlationId, reserved0;
    void *overheadData;
} CUpti_ActivityOverhead3;
#endif

#if CUPTI_API_VERSION < 26 /* CUDA 12.8 */
typedef struct {
    CUpti_ActivityKind kind;
    CUpti_ActivitySynchronizationType type;
    uint64_t start, end;
    uint32_t correlationId, contextId, streamId, cudaEventId;
    uint64_t cudaEventSyncId;
    uint32_t returnValue, pad;
} CUpti_ActivitySynchronization2;

typedef struct {
    CUpti_ActivityKind kind;
    uint32_t correlationId, contextId, streamId, eventId, pad, deviceId, pad2;
    void *reserved0;
    uint64_t deviceTimestamp, cudaEventSyncId;
} CUpti_ActivityCudaEvent2;
#endif

#if CUPTI_API_VERSION < 130000 /* some of these headers have some of these */
#define CUPTI_CB_DOMAIN_STATE ((CUpti_CallbackDomain)6)
#define CUPTI_CBID_STATE_FATAL_ERROR 1
#define CUPTI_CBID_STATE_ERROR 2
#define CUPTI_CBID_STATE_WARNING 3
#define CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync 776
#define CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_ptsz 777
#define CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2 800
#define CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING \
    ((CUpti_ActivityOverheadKind)(4 << 16))
#define CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING ((CUpti_ActivityOverheadKind)(5 << 16))
#define CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL ((CUpti_ActivityOverheadKind)(6 << 16))
#define CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST ((CUpti_ActivityOverheadKind)(7 << 16))
#define CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT ((CUpti_ActivityOverheadKind)(8 << 16))

#define CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN 64
typedef struct {
    size_t structSize;
    const char *subscriberName;
    char *oldSubscriberName;
    size_t oldSubscriberSize;
} CUpti_SubscriberParams;
#define CUpti_SubscriberParams_STRUCT_SIZE sizeof(CUpti_SubscriberParams)

CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber,
                                       CUpti_CallbackFunc callback, void *user,
                                       CUpti_SubscriberParams *parameters);
CUptiResult CUPTIAPI cuptiActivityEnableAllSyncRecords(uint8_t enable);
CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable);
CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable);
#endif

#endif
