/* Operations of the "cpu" backend, in three sources by what they work on; backend_cpu.c puts them
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

#define dl_cpu_im2row DL_TYPED(dl_cpu_im2row)
#define dl_cpu_row2im DL_TYPED(dl_cpu_row2im)
#define dl_cpu_max_pool DL_TYPED(dl_cpu_max_pool)
#define dl_cpu_max_pool_backward DL_TYPED(dl_cpu_max_pool_backward)
#define dl_cpu_repeat_row DL_TYPED(dl_cpu_repeat_row)
#define dl_cpu_sum_rows DL_TYPED(dl_cpu_sum_rows)
#define dl_cpu_relu DL_TYPED(dl_cpu_relu)
#define dl_cpu_relu_backward DL_TYPED(dl_cpu_relu_backward)
#define dl_cpu_norm_batch_statistics DL_TYPED(dl_cpu_norm_batch_statistics)
#define dl_cpu_norm_running_statistics DL_TYPED(dl_cpu_norm_running_statistics)
#define dl_cpu_norm_forward DL_TYPED(dl_cpu_norm_forward)
#define dl_cpu_norm_backward DL_TYPED(dl_cpu_norm_backward)
#define dl_cpu_softmax DL_TYPED(dl_cpu_softmax)
#define dl_cpu_softmax_backward DL_TYPED(dl_cpu_softmax_backward)
#define dl_cpu_sgd DL_TYPED(dl_cpu_sgd)
#define dl_cpu_rmsprop DL_TYPED(dl_cpu_rmsprop)
#define dl_cpu_adam DL_TYPED(dl_cpu_adam)

/* backend_cpu_image.c */
void dl_cpu_im2row(void *rows, const void *images, int count, dl_shape image, int kernel);
void dl_cpu_row2im(void *images, const void *rows, int count, dl_shape image, int kernel);
void dl_cpu_max_pool(void *y, int32_t *choice, const void *x, int count, dl_shape image);
void dl_cpu_max_pool_backward(void *dx, const int32_t *choice, const void *dy, int count,
                              dl_shape image);

/* backend_cpu_rows.c */
void dl_cpu_repeat_row(void *matrix, const void *row, int rows, int columns);
void dl_cpu_sum_rows(void *sums, const void *matrix, int rows, int columns, bool accumulate);
void dl_cpu_norm_batch_statistics(const dl_norm *norm);
void dl_cpu_norm_running_statistics(const dl_norm *norm);
void dl_cpu_norm_forward(const dl_norm *norm, void *y);
void dl_cpu_norm_backward(const dl_norm *norm, const void *dy, void *dscale, void *dshift,
                          void *dx);
void dl_cpu_softmax(const dl_softmax *softmax, double *loss, int *correct);
void dl_cpu_softmax_backward(const dl_softmax *softmax, void *gradients);

/* backend_cpu_vector.c */
void dl_cpu_relu(void *values, size_t count);
void dl_cpu_relu_backward(void *gradients, const void *values, size_t count);
void dl_cpu_sgd(const dl_update *update);
void dl_cpu_rmsprop(const dl_update *update);
void dl_cpu_adam(const dl_update *update);

#endif
