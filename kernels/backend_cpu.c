#include "kernels/backend_cpu.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/alloc.h"

#define dl_cblas_gemm_float cblas_sgemm
#define dl_cblas_gemm_double cblas_dgemm

/* A replica is one thread on its own core: threads of BLAS would fight the other replicas. */
static void make_blas_single_threaded(void)
{
    openblas_set_num_threads(1);
}

static void cpu_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_blas_single_threaded);
}

/* OpenBLAS maps a buffer for each thread inside a product, 128 MiB on x86-64 (its BUFFER_SIZE), tried
 * with up to 1 MiB more; where it gets none it tries again without end. What it has mapped it keeps
 * and lends to any thread, up to a number that its build sets, at least BUFFERS_MAX. */
#define BUFFER_BYTES ((size_t)129 << 20)
#define BUFFERS_MAX 48

/* Not in its headers, but exported; a replacement of OpenBLAS may lack them. */
extern void *blas_memory_alloc(int unused) __attribute__((weak));
extern void blas_memory_free(void *buffer) __attribute__((weak));

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

/* Maps as OpenBLAS will, one by one: a single large mapping could be refused where these are not. */
static dl_status try_buffers(size_t more, int threads, dl_error *err)
{
    void **buffers = dl_calloc(more, sizeof *buffers, "buffers");
    size_t got = 0;
    while (got < more) {
        buffers[got] =
            mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (buffers[got] == MAP_FAILED) break;
        got++;
    }
    for (size_t i = 0; i < got; i++)
        (void)munmap(buffers[i], BUFFER_BYTES);
    free(buffers);
    const size_t there = (size_t)threads - more + got;
    return got == more ? DL_OK : too_little(threads, there, err);
}

static void take_buffers(int count)
{
    void *buffers[BUFFERS_MAX];
    if (blas_memory_alloc == NULL || blas_memory_free == NULL) return;
    for (int i = 0; i < count; i++)
        buffers[i] = blas_memory_alloc(0);
    for (int i = 0; i < count; i++)
        if (buffers[i] != NULL) blas_memory_free(buffers[i]);
}

static dl_status cpu_start_threads(int threads, dl_error *err)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static int taken;
    cpu_start();
    pthread_mutex_lock(&mutex);
    dl_status status = DL_OK;
    if (threads > taken) {
        status = try_buffers((size_t)(threads - taken), threads, err);
        const int count = threads < BUFFERS_MAX ? threads : BUFFERS_MAX;
        if (status == DL_OK) take_buffers(count);
        if (status == DL_OK) taken = count;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

static void cpu_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* Every call has done its work when it returns. */
static dl_status cpu_wait(dl_error *err)
{
    (void)err;
    return DL_OK;
}

void dl_cpu_gemm(const dl_gemm *gemm)
{
    DL_TYPED(dl_cblas_gemm)
    (CblasRowMajor, gemm->transpose_a ? CblasTrans : CblasNoTrans,
     gemm->transpose_b ? CblasTrans : CblasNoTrans, gemm->m, gemm->n, gemm->k, 1, gemm->a,
     gemm->transpose_a ? gemm->m : gemm->k, gemm->b, gemm->transpose_b ? gemm->k : gemm->n,
     gemm->accumulate ? 1 : 0, gemm->c, gemm->n);
}

const dl_backend DL_TYPED(dl_backend_cpu) = {
    .name = "cpu",
    .precision = sizeof(dl_real) == sizeof(double) ? DL_DOUBLE : DL_FLOAT,
    .start = cpu_start,
    .start_threads = cpu_start_threads,
    .host_memory = true,
    .allocate = dl_alloc_staggered,
    .release = dl_free_staggered,
    .allocate_host = dl_alloc_staggered,
    .release_host = dl_free_staggered,
    .upload = cpu_copy,
    .download = cpu_copy,
    .wait = cpu_wait,
    .gemm = dl_cpu_gemm,
    .conv_scratch_bytes = dl_cpu_conv_scratch_bytes,
    .conv_forward = dl_cpu_conv_forward,
    .conv_backward_data = dl_cpu_conv_backward_data,
    .conv_backward_filter = dl_cpu_conv_backward_filter,
    .repeat_row = dl_cpu_repeat_row,
    .sum_rows = dl_cpu_sum_rows,
    .max_pool = dl_cpu_max_pool,
    .max_pool_backward = dl_cpu_max_pool_backward,
    .average_pool = dl_cpu_average_pool,
    .average_pool_backward = dl_cpu_average_pool_backward,
    .add = dl_cpu_add,
    .relu = dl_cpu_relu,
    .relu_backward = dl_cpu_relu_backward,
    .norm_training_forward = dl_cpu_norm_training_forward,
    .norm_inference_forward = dl_cpu_norm_inference_forward,
    .norm_backward = dl_cpu_norm_backward,
    .softmax = dl_cpu_softmax,
    .softmax_backward = dl_cpu_softmax_backward,
    .sgd = dl_cpu_sgd,
    .rmsprop = dl_cpu_rmsprop,
    .adam = dl_cpu_adam,
};
