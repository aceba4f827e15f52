#include "kernels/backend_cpu.h"

#include <cblas.h>
#include <pthread.h>
#include <string.h>

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
