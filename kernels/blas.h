/* OpenBLAS, loaded when the first model is made, and then with one thread. Linked, it would start a
 * thread on every core before main(), also for commands that multiply no matrices; each of them
 * maps 128 MiB, and under a lower limit (ulimit -v) it retries without end, so that not even
 * `dlprof --version` would finish. */
#ifndef DL_KERNELS_BLAS_H
#define DL_KERNELS_BLAS_H

#include <cblas.h>

#include "common/status.h"

typedef struct dl_blas {
    void (*gemm_float)(CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint m, blasint n,
                       blasint k, float alpha, const float *a, blasint lda, const float *b,
                       blasint ldb, float beta, float *c, blasint ldc);
    void (*gemm_double)(CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint m, blasint n,
                        blasint k, double alpha, const double *a, blasint lda, const double *b,
                        blasint ldb, double beta, double *c, blasint ldc);
} dl_blas;

/* Loads it; may be repeated, from any thread, but the first call changes the environment for a
 * moment and so must come before other threads read it. DL_ERR_UNSUPPORTED: the library is missing
 * or lacks matrix products. */
dl_status dl_blas_load(dl_error *err);

/* Loads it, and makes it map and keep the buffers of that many threads that multiply at once; may
 * be repeated, from any thread. DL_ERR_SYSTEM, with the bytes, if the system lacks them (ulimit -v,
 * strict overcommit): the threads would wait for them forever. */
dl_status dl_blas_reserve(int threads, dl_error *err);

/* The functions loaded; NULLs before. */
const dl_blas *dl_blas_loaded(void);

#endif
