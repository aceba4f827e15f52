#include "profiler/inject/cupti_setup.h"

#include "profiler/inject/capture.h"
#include "profiler/inject/cupti_kinds.h"

static void log_taken(const char *other)
{
    dl_capture_log("another tool has CUPTI already%s%s%s: CUDA is not recorded",
                   other[0] != '\0' ? " (" : "", other, other[0] != '\0' ? ")" : "");
}

static bool subscribe(const dl_cupti_api *api, CUpti_CallbackFunc event,
                      CUpti_SubscriberHandle *subscriber)
{
    char other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
    CUpti_SubscriberParams parameters = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                         .subscriberName = "dlprof",
                                         .oldSubscriberName = other,
                                         .oldSubscriberSize = sizeof other};
    const CUptiResult result = api->Subscribe_v2 != NULL
                                   ? api->Subscribe_v2(subscriber, event, NULL, &parameters)
                                   : api->Subscribe(subscriber, event, NULL);
    if (result == CUPTI_SUCCESS) return true;
    other[sizeof other - 1] = '\0';
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
        log_taken(other);
    } else {
        dl_capture_log("cannot subscribe to CUPTI %u: %s: CUDA is not recorded",
                       (unsigned)api->version, dl_cupti_result_name(api, result));
    }
    return false;
}

/* These only make it cheaper or more exact: an older CUPTI that does not know one does without. */
static void set_attributes(const dl_cupti_api *api, const dl_capture_settings *settings)
{
    if (api->SetThreadIdType != NULL) {
        (void)api->SetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    }
    uint8_t zeroed = 1; /* our buffers are: CUPTI need not clear them in the program's threads */
    size_t bytes = sizeof zeroed;
    if (api->ActivitySetAttribute != NULL) {
        (void)api->ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes,
                                        &zeroed);
    }
    if (settings->latency && api->ActivityEnableLatencyTimestamps != NULL) {
        (void)api->ActivityEnableLatencyTimestamps(1);
    }
    /* Not each query of an event that was not ready yet: allocators and watchdogs poll. */
    if (api->ActivityEnableAllSyncRecords != NULL) (void)api->ActivityEnableAllSyncRecords(0);
}

static void enable_callbacks(const dl_cupti_api *api, const dl_capture_settings *settings,
                             CUpti_SubscriberHandle subscriber)
{
    static const struct {
        CUpti_CallbackDomain domain;
        CUpti_CallbackId id;
        dl_capture_preset preset;
    } wanted[] = {
        {CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_ERROR, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_WARNING, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, DL_CAPTURE_LIGHT},
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020,
         DL_CAPTURE_LIGHT},
        /* Calls that come once or a few times a step, and are themselves recorded: whether records
         * arrive is told by them. */
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
         DL_CAPTURE_DEFAULT},
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_ptsz_v7000,
         DL_CAPTURE_DEFAULT},
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020,
         DL_CAPTURE_DEFAULT},
        {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
         DL_CAPTURE_DEFAULT},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (settings->preset >= (int)wanted[i].preset)
            (void)api->EnableCallback(1, subscriber, wanted[i].domain, wanted[i].id);
}

/* Buffers and kinds. */
static bool start_recording(const dl_cupti_api *api, const dl_capture_settings *settings,
                            const dl_cupti_callbacks *callbacks)
{
    const CUptiResult result =
        api->ActivityRegisterCallbacks(callbacks->request, callbacks->complete);
    if (result != CUPTI_SUCCESS) {
        dl_capture_log("CUPTI takes no buffers: %s: CUDA is not recorded",
                       dl_cupti_result_name(api, result));
        return false;
    }
    char refused[DL_REFUSED_BYTES];
    const bool kernels = dl_cupti_kinds_enable(api, settings, refused);
    if (refused[0] != '\0') {
        dl_capture_meta("refused_kinds", refused);
        dl_capture_log("CUPTI does not record: %s", refused);
    }
    return kernels;
}

bool dl_cupti_set_up(const dl_cupti_api *api, const dl_capture_settings *settings,
                     const dl_cupti_callbacks *callbacks, CUpti_SubscriberHandle *subscriber)
{
    if (!subscribe(api, callbacks->event, subscriber)) return false;
    set_attributes(api, settings);
    if (!start_recording(api, settings, callbacks)) {
        (void)api->Unsubscribe(*subscriber);
        return false;
    }
    enable_callbacks(api, settings, *subscriber);
    return true;
}
