#include "kernels/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/alloc.h"
#include "common/install.h"

#define LIBRARY "libopenblas.so.0"
#define THREADS "OPENBLAS_NUM_THREADS"
#define CORE "OPENBLAS_CORETYPE"

static dl_blas blas;
/* Exported by OpenBLAS, but not in its headers; NULL if a replacement library lacks them. */
static void *(*memory_alloc)(int unused);
static void (*memory_free)(void *buffer);
static char why[300]; /* reason why loading failed; "": loaded */

const dl_blas *dl_blas_loaded(void)
{
    return &blas;
}

/* OpenBLAS reads the number of its threads while it is loaded. */
static void *open_single_threaded(void)
{
    const char *before = getenv(THREADS);
    DL_AUTOFREE char *kept = before != NULL ? strdup(before) : NULL;
    (void)setenv(THREADS, "1", 1);
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (kept != NULL) {
        (void)setenv(THREADS, kept, 1);
    } else {
        (void)unsetenv(THREADS);
    }
    return handle;
}

/* Name of OpenBLAS's kernels for the processor's vector instructions; NULL: no AVX2. */
static const char *vector_core(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
    return NULL;
}

/* OpenBLAS before 0.3.25 treats Intel processors that it does not know as a Prescott, whose SSE3
 * kernels take three times as long as those with AVX-512 (OpenBLAS's issue 4267). If so, loads it
 * again with kernels that fit the processor, unless the user chose some. */
static void *open_for_processor(void)
{
    void *handle = open_single_threaded();
    const char *core = vector_core();
    char *(*core_name)(void) = NULL;
    if (handle == NULL || core == NULL || getenv(CORE) != NULL ||
        !dl_library_function(handle, "openblas_get_corename", &core_name) ||
        strcmp(core_name(), "Prescott") != 0)
        return handle;
    dlclose(handle);
    (void)setenv(CORE, core, 1);
    handle = open_single_threaded();
    (void)unsetenv(CORE);
    return handle;
}

static void load(void)
{
    void *handle = open_for_processor();
    if (handle == NULL) {
        const char *reason = dlerror();
        snprintf(why, sizeof why, "%s", reason != NULL ? reason : LIBRARY);
        return;
    }
    dl_library_function(handle, "cblas_sgemm", &blas.gemm_float);
    dl_library_function(handle, "cblas_dgemm", &blas.gemm_double);
    dl_library_function(handle, "blas_memory_alloc", &memory_alloc);
    dl_library_function(handle, "blas_memory_free", &memory_free);
    if (blas.gemm_float == NULL || blas.gemm_double == NULL) {
        snprintf(why, sizeof why, LIBRARY " has no cblas_sgemm and cblas_dgemm");
        return;
    }
    /* A build on OpenMP ignores OPENBLAS_NUM_THREADS. One thread only: further ones would
     * compete with other replicas for their cores. */
    void (*set_threads)(int) = NULL;
    if (dl_library_function(handle, "openblas_set_num_threads", &set_threads)) set_threads(1);
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

/* OpenBLAS maps a buffer for each thread that computes a product, 128 MiB on x86-64 (its
 * BUFFER_SIZE) and up to 1 MiB more, and retries forever if refused. It keeps its mappings, up to a
 * number set by its build, at least BUFFERS_MAX, for use by any thread. */
#define BUFFER_BYTES ((size_t)129 << 20)
#define BUFFERS_MAX 48

static dl_status too_little(int threads, size_t there, dl_error *err)
{
    const size_t needed = (size_t)threads * BUFFER_BYTES;
    struct rlimit limit;
    char reason[80] = "the system gives";
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        snprintf(reason, sizeof reason, "the limit of %llu bytes (ulimit -v) leaves",
                 (unsigned long long)limit.rlim_cur);
    }
    return dl_error_set(err, DL_ERR_SYSTEM,
                        "out of memory: matrix products on %d thread%s need buffers of %zu bytes "
                        "(%zu each), of which %s %zu; take fewer workers or cores",
                        threads, threads > 1 ? "s" : "", needed, BUFFER_BYTES, reason,
                        there * BUFFER_BYTES);
}

/* Maps buffers one by one, as OpenBLAS does: a single large mapping could be refused where these
 * are not. */
static dl_status try_buffers(size_t more, int threads, dl_error *err)
{
    DL_AUTOFREE void **buffers = dl_calloc(more, sizeof *buffers, "buffers");
    size_t got = 0;
    while (got < more) {
        buffers[got] =
            mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (buffers[got] == MAP_FAILED) break;
        got++;
    }
    for (size_t i = 0; i < got; i++)
        (void)munmap(buffers[i], BUFFER_BYTES);
    const size_t there = (size_t)threads - more + got;
    return got == more ? DL_OK : too_little(threads, there, err);
}

static void take_buffers(int count)
{
    void *buffers[BUFFERS_MAX];
    if (memory_alloc == NULL || memory_free == NULL) return;
    for (int i = 0; i < count; i++)
        buffers[i] = memory_alloc(0);
    for (int i = 0; i < count; i++)
        if (buffers[i] != NULL) memory_free(buffers[i]);
}

dl_status dl_blas_reserve(int threads, dl_error *err)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static int taken;
    dl_status status = dl_blas_load(err);
    if (status != DL_OK) return status;
    pthread_mutex_lock(&mutex);
    if (threads > taken) {
        status = try_buffers((size_t)(threads - taken), threads, err);
        const int count = threads < BUFFERS_MAX ? threads : BUFFERS_MAX;
        if (status == DL_OK) take_buffers(count);
        if (status == DL_OK) taken = count;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}
