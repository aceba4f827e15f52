/* Operations of the "cpu" backend, in four sources by what they work on; backend_cpu.c puts them
 * in the table. Effects and arguments: see dl_backend. Every source here is compiled for float and
 * for double. */
#ifndef DL_KERNELS_BACKEND_CPU_H
#define DL_KERNELS_BACKEND_CPU_H

#include "kernels/backend.h"
#include "kernels/real.h"

/* Hot loops are compiled for several vector widths and chosen when the program is loaded, so that a
 * binary built for any x86-64 uses what it finds. A sanitizer cannot run before that choice. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DL_HOT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DL_HOT
#endif

#define dl_cpu_gemm DL_TYPED(dl_cpu_gemm)
#define dl_cpu_conv_scratch_bytes DL_TYPED(dl_cpu_conv_scratch_bytes)
#define dl_cpu_conv_forward DL_TYPED(dl_cpu_conv_forward)
#define dl_cpu_conv_backward_data DL_TYPED(dl_cpu_conv_backward_data)
#define dl_cpu_conv_backward_filter DL_TYPED(dl_cpu_conv_backward_filter)
#define dl_cpu_max_pool DL_TYPED(dl_cpu_max_pool)
#define dl_cpu_max_pool_backward DL_TYPED(dl_cpu_max_pool_backward)
#define dl_cpu_average_pool DL_TYPED(dl_cpu_average_pool)
#define dl_cpu_average_pool_backward DL_TYPED(dl_cpu_average_pool_backward)
#define dl_cpu_add DL_TYPED(dl_cpu_add)
#define dl_cpu_repeat_row DL_TYPED(dl_cpu_repeat_row)
#define dl_cpu_sum_rows DL_TYPED(dl_cpu_sum_rows)
#define dl_cpu_relu DL_TYPED(dl_cpu_relu)
#define dl_cpu_relu_backward DL_TYPED(dl_cpu_relu_backward)
#define dl_cpu_norm_training_forward DL_TYPED(dl_cpu_norm_training_forward)
#define dl_cpu_norm_inference_forward DL_TYPED(dl_cpu_norm_inference_forward)
#define dl_cpu_norm_backward DL_TYPED(dl_cpu_norm_backward)
#define dl_cpu_softmax DL_TYPED(dl_cpu_softmax)
#define dl_cpu_softmax_backward DL_TYPED(dl_cpu_softmax_backward)
#define dl_cpu_sgd DL_TYPED(dl_cpu_sgd)
#define dl_cpu_rmsprop DL_TYPED(dl_cpu_rmsprop)
#define dl_cpu_adam DL_TYPED(dl_cpu_adam)

/* backend_cpu.c */
void dl_cpu_gemm(const dl_gemm *gemm);

/* backend_cpu_conv.c: as matrix products. The windows of a few output lines are copied out as
 * rows[pixels x window] into the scratch, a tile small enough for the level-2 cache; then
 * y = rows W^T,  dW = dy^T rows,  drows = dy W, which is added up to dx. Rows are made again in the
 * backward pass, which costs less than to keep and fetch them. */
size_t dl_cpu_conv_scratch_bytes(const dl_conv *conv);
void dl_cpu_conv_forward(const dl_conv *conv, const void *x, const void *weights, const void *bias,
                         void *y, void *scratch);
void dl_cpu_conv_backward_data(const dl_conv *conv, const void *dy, const void *weights, void *dx,
                               bool accumulate, void *scratch);
void dl_cpu_conv_backward_filter(const dl_conv *conv, const void *x, const void *dy, void *dweights,
                                 void *scratch);

/* backend_cpu_pool.c */
void dl_cpu_max_pool(const dl_pool *pool, const void *x, void *y, int32_t *choice);
void dl_cpu_max_pool_backward(const dl_pool *pool, const int32_t *choice, const void *dy, void *dx);
void dl_cpu_average_pool(const dl_pool *pool, const void *x, void *y);
void dl_cpu_average_pool_backward(const dl_pool *pool, const void *dy, void *dx);

/* backend_cpu_rows.c */
void dl_cpu_repeat_row(void *matrix, const void *row, int rows, int columns);
void dl_cpu_sum_rows(void *sums, const void *matrix, int rows, int columns, bool accumulate);
void dl_cpu_norm_training_forward(const dl_norm *norm, void *y);
void dl_cpu_norm_inference_forward(const dl_norm *norm, void *y);
void dl_cpu_norm_backward(const dl_norm *norm, const void *dy, void *dscale, void *dshift,
                          void *dx);
void dl_cpu_softmax(const dl_softmax *softmax);
void dl_cpu_softmax_backward(const dl_softmax *softmax, void *gradients);

/* backend_cpu_vector.c */
void dl_cpu_add(void *to, const void *from, size_t count);
void dl_cpu_relu(void *values, size_t count);
void dl_cpu_relu_backward(void *gradients, const void *values, size_t count);
void dl_cpu_sgd(const dl_update *update);
void dl_cpu_rmsprop(const dl_update *update);
void dl_cpu_adam(const dl_update *update);

#endif
