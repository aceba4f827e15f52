#include "tests/doubles/driver_double.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Number of the next call. */
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

void driver_double_create_context(void)
{
    const driver_tool *now = atomic_load(&tool);
    atomic_store(&has_context, 1);
    if (now != NULL) now->context_created();
}

unsigned driver_double_launch(const char *kernel)
{
    const unsigned correlation = next();
    const driver_tool *now = atomic_load(&tool);
    if (now != NULL) now->launched(kernel, correlation);
    return correlation;
}

void driver_double_wait(void)
{
    const unsigned correlation = next();
    const driver_tool *now = atomic_load(&tool);
    if (now != NULL) now->waited(correlation);
}

void driver_double_copy(size_t bytes)
{
    const unsigned correlation = next();
    const driver_tool *now = atomic_load(&tool);
    if (now != NULL) now->copied(correlation, bytes);
}

void driver_double_record(void)
{
    const unsigned correlation = next();
    const driver_tool *now = atomic_load(&tool);
    if (now != NULL) now->recorded(correlation);
}
