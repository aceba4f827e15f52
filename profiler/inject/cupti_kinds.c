#include "profiler/inject/cupti_kinds.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct kind {
    CUpti_ActivityKind kind;
    const char *name;
    dl_capture_preset preset; /* the smallest that holds it */
} kind;

/* Without CONCURRENT_KERNEL the rest is worth nothing. Not KIND_KERNEL: it makes kernels run one
 * after the other. */
static const kind kinds[] = {
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
static const kind graph_trace = {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "graph", DL_CAPTURE_LIGHT};
static const kind driver = {CUPTI_ACTIVITY_KIND_DRIVER, "driver", DL_CAPTURE_FULL};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

/* Frameworks ask these again and again; they say nothing about the time of a step. */
static const CUpti_CallbackId idle_calls[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_ptsz_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020, /* asked without a pause while NCCL reduces */
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_ptsz_v7000,
};

/* What starts device work or waits for it: programs that have no runtime (Triton, XLA) call these
 * directly. */
static const CUpti_CallbackId driver_calls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize,
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize,
    CUPTI_DRIVER_TRACE_CBID_cuEventRecord,
    CUPTI_DRIVER_TRACE_CBID_cuEventRecord_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent,
    CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize,
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2,
};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool wants(const dl_capture_settings *settings, const kind *one)
{
    return settings->preset >= (int)one->preset;
}

static bool enable(const dl_cupti_api *api, const kind *one, char *refused)
{
    const CUptiResult result = api->ActivityEnable(one->kind);
    if (result == CUPTI_SUCCESS) return true;
    const size_t length = strlen(refused);
    snprintf(refused + length, DL_REFUSED_BYTES - length, "%s%s (%s)", length > 0 ? ", " : "",
             one->name, dl_cupti_result_name(api, result));
    return false;
}

/* The listed calls only, or, where CUPTI cannot choose, all of the driver's. */
static void enable_driver(const dl_cupti_api *api, char *refused)
{
    if (api->ActivityEnableDriverApi == NULL) {
        enable(api, &driver, refused);
        return;
    }
    for (size_t i = 0; i < COUNT(driver_calls); i++) /* an older CUPTI does not know the last */
        (void)api->ActivityEnableDriverApi(driver_calls[i], 1);
}

bool dl_cupti_kinds_enable(const dl_cupti_api *api, const dl_capture_settings *settings,
                           char refused[DL_REFUSED_BYTES])
{
    refused[0] = '\0';
    if (!enable(api, &kinds[0], refused)) return false;
    for (size_t i = 1; i < KIND_COUNT; i++)
        if (wants(settings, &kinds[i])) enable(api, &kinds[i], refused);
    if (settings->graphs == DL_CAPTURE_GRAPH_WHOLE) enable(api, &graph_trace, refused);
    if (wants(settings, &driver)) enable_driver(api, refused);
    /* After the kind, which switches all of them on. */
    if (settings->preset >= DL_CAPTURE_DEFAULT && api->ActivityEnableRuntimeApi != NULL) {
        for (size_t i = 0; i < COUNT(idle_calls); i++)
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
