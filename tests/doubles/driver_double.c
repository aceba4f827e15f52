#include "tests/doubles/driver_double.h"

#include "profiler/inject/cupti_headers.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static _Atomic(const driver_tool *) tool;
static atomic_uint correlations;
static atomic_bool has_context;
static atomic_uint flushes;

void driver_double_set_tool(const driver_tool *other)
{
    atomic_store(&tool, other);
}

void driver_double_flushes(void)
{
    atomic_fetch_add(&flushes, 1);
}

void driver_double_await_flushes(unsigned count)
{
    const unsigned before = atomic_load(&flushes);
    if (atomic_load(&tool) == NULL) return;
    for (int i = 0; atomic_load(&flushes) - before < count; i++) {
        if (i == 60000) {
            fprintf(stderr, "driver double: the tool is not asked for its records\n");
            abort();
        }
        usleep(1000);
    }
}

CUresult cuInit(unsigned int flags)
{
    (void)flags;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (path == NULL) return CUDA_SUCCESS;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "driver double: %s\n", dlerror());
        abort();
    }
    int (*initialize)(void) = NULL;
    *(void **)&initialize = dlsym(library, "InitializeInjection");
    if (initialize == NULL || initialize() == 0) dlclose(library);
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = atomic_load(&has_context) ? (CUcontext)&has_context : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    return context == (CUcontext)&has_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Returns the correlation id of the next call. */
static unsigned next(void)
{
    return atomic_fetch_add(&correlations, 1) + 1;
}

CUresult cuCtxSynchronize(void)
{
    const driver_tool *now = atomic_load(&tool);
    if (now != NULL) now->synchronized(next());
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", device + 1);
    return CUDA_SUCCESS;
}

uint64_t driver_double_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void driver_double_create_context(unsigned device)
{
    const driver_tool *now = atomic_load(&tool);
    atomic_store(&has_context, 1);
    if (now != NULL) now->context_created(device);
}

unsigned driver_double_call(driver_call call, const driver_work *works, size_t count)
{
    const unsigned correlation = next();
    const driver_tool *now = atomic_load(&tool);
    if (now == NULL) return correlation;
    const uint64_t start_ns = driver_double_now_ns();
    for (size_t i = 0; i < count; i++) {
        driver_work work = works[i];
        if (work.start_ns == 0) work.start_ns = start_ns;
        now->worked(&work, correlation);
    }
    now->called(call, correlation, start_ns);
    return correlation;
}

#define STREAM 7
#define WORK_NS 1000

unsigned driver_double_launch(const char *kernel)
{
    return driver_double_call(
        (driver_call){0, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000},
        &(driver_work){
            .kind = DRIVER_KERNEL, .name = kernel, .stream = STREAM, .duration_ns = WORK_NS},
        1);
}

void driver_double_copy(size_t bytes)
{
    driver_double_call((driver_call){0, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020},
                       &(driver_work){.kind = DRIVER_COPY,
                                      .from = DRIVER_PINNED,
                                      .to = DRIVER_DEVICE,
                                      .bytes = bytes,
                                      .stream = STREAM,
                                      .duration_ns = WORK_NS},
                       1);
}

void driver_double_wait(void)
{
    const unsigned correlation = next();
    const driver_tool *now = atomic_load(&tool);
    if (now != NULL) now->waited(correlation);
}

void driver_double_record(void)
{
    const unsigned correlation = next();
    const driver_tool *now = atomic_load(&tool);
    if (now != NULL) now->recorded(correlation);
}

#define DEVICES_MAX 64

static void start_driver(void)
{
    cuInit(0);
}

void driver_double_operation(int device, const char *name, size_t copied_bytes, bool to_device)
{
    static atomic_bool made[DEVICES_MAX];
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    static const driver_call launch = {0, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000};
    static const driver_call copy = {0, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020};
    pthread_once(&started, start_driver);
    if (!atomic_exchange(&made[device], 1)) driver_double_create_context((unsigned)device);
    const driver_work work = {.kind = copied_bytes > 0 ? DRIVER_COPY : DRIVER_KERNEL,
                              .name = name,
                              .device = (unsigned)device,
                              .stream = STREAM,
                              .from = to_device ? DRIVER_PINNED : DRIVER_DEVICE,
                              .to = to_device ? DRIVER_DEVICE : DRIVER_PINNED,
                              .bytes = copied_bytes,
                              .duration_ns = WORK_NS};
    driver_double_call(copied_bytes > 0 ? copy : launch, &work, 1);
}
