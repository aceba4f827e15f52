#include "kernels/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libopenblas.so.0"
#define THREADS "OPENBLAS_NUM_THREADS"

static dl_blas blas;
static char why[300]; /* it could not be loaded; empty: it was */

const dl_blas *dl_blas_loaded(void)
{
    return &blas;
}

/* POSIX has functions come as object pointers; C has no cast for that. */
static void find(void *handle, const char *name, void *function)
{
    void *object = dlsym(handle, name);
    memcpy(function, &object, sizeof object);
}

/* It reads the number of its threads while it is loaded. */
static void *open_single_threaded(void)
{
    const char *before = getenv(THREADS);
    char *kept = before != NULL ? strdup(before) : NULL;
    (void)setenv(THREADS, "1", 1);
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (kept != NULL) {
        (void)setenv(THREADS, kept, 1);
    } else {
        (void)unsetenv(THREADS);
    }
    free(kept);
    return handle;
}

static void load(void)
{
    void *handle = open_single_threaded();
    if (handle == NULL) {
        const char *reason = dlerror();
        snprintf(why, sizeof why, "%s", reason != NULL ? reason : LIBRARY);
        return;
    }
    find(handle, "cblas_sgemm", &blas.gemm_float);
    find(handle, "cblas_dgemm", &blas.gemm_double);
    find(handle, "blas_memory_alloc", &blas.memory_alloc);
    find(handle, "blas_memory_free", &blas.memory_free);
    if (blas.gemm_float == NULL || blas.gemm_double == NULL) {
        snprintf(why, sizeof why, LIBRARY " has no cblas_sgemm and cblas_dgemm");
        return;
    }
    /* A build on OpenMP does not read that variable. A replica is one thread on its own core:
     * threads of BLAS would fight the other replicas. */
    void (*set_threads)(int) = NULL;
    find(handle, "openblas_set_num_threads", &set_threads);
    if (set_threads != NULL) set_threads(1);
}

dl_status dl_blas_load(dl_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load);
    if (why[0] == '\0') return DL_OK;
    return dl_error_set(err, DL_ERR_UNSUPPORTED,
                        "cannot load OpenBLAS, which training on the processor needs (Debian: "
                        "libopenblas0): %s",
                        why);
}
