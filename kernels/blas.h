/* OpenBLAS, loaded when a model is made first, and then with one thread. Linked, it would start a
 * thread on every core before main(), also for commands that multiply no matrices; each of them
 * maps 128 MiB, and where a limit (ulimit -v) leaves less it tries again without end, so that not
 * even `dlprof --version` came to its end. */
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

/* Loads it: bears repetition, from any thread, but the first call changes the environment for a
 * moment and so comes before other threads read it. DL_ERR_UNSUPPORTED: the library is missing or
 * lacks matrix products. */
dl_status dl_blas_load(dl_error *err);

/* Loads it, and has it map the buffers of that many threads that multiply at once, which it keeps:
 * bears repetition, from any thread. DL_ERR_SYSTEM, with the bytes, where the system has not that
 * much (ulimit -v, strict overcommit): the threads would wait for it forever. */
dl_status dl_blas_reserve(int threads, dl_error *err);

/* What was loaded. Before: NULLs. */
const dl_blas *dl_blas_loaded(void);

#endif
