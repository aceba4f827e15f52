/* OpenBLAS, loaded with a single thread, and with kernels that fit the processor, when the first
 * model is made. A linked OpenBLAS would start a thread per core before main(), also for commands
 * that multiply no matrices; each thread maps 128 MiB and, if a limit (ulimit -v) refuses that,
 * retries forever, so that not even `dlprof --version` would finish. */
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

/* Loads OpenBLAS; may be repeated, from any thread, but the first call temporarily changes the
 * environment and so must precede other threads' reads of it. DL_ERR_UNSUPPORTED: the library is
 * missing or lacks matrix products. */
dl_status dl_blas_load(dl_error *err);

/* Loads OpenBLAS, and makes it map and keep the buffers for `threads` concurrent products; may be
 * repeated, from any thread. DL_ERR_SYSTEM, with the bytes, if the system refuses them (ulimit -v,
 * strict overcommit): products would otherwise wait for them forever. */
dl_status dl_blas_reserve(int threads, dl_error *err);

/* Returns the loaded functions; they are NULL before dl_blas_load. */
const dl_blas *dl_blas_loaded(void);

#endif
