/* Shared by the sources of the processor's backend. Compiled for float and for double. */
#ifndef DL_KERNELS_BACKEND_CPU_INTERNAL_H
#define DL_KERNELS_BACKEND_CPU_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/backend.h"
#include "kernels/real.h"

/* Width in numbers of a panel, the columns of a product that are computed together: 256 bytes. */
enum { DL_PANEL = 256 / sizeof(dl_real) };

/* c[m x n] = a b, or c += a b, n a multiple of DL_PANEL. Unlike dl_gemm it copies nothing first, so
 * it pays if the operands are laid out for it, or are too small to be worth a copy:
 *   a(i, l) = a[i * a_row + l * a_depth]
 *   b(l, j) = b[j / DL_PANEL * b_panel + l * b_depth + j % DL_PANEL]
 *   c(i, j) = c[i * c_row + j]
 * Each number of c is summed in the order of l and, with `accumulate`, then added to the old value;
 * so it depends only on its row of a and its column of b. Product and sum are fused where the
 * processor can. */
typedef struct dl_product {
    int m, n, k;
    bool accumulate;
    const dl_real *a, *b;
    size_t a_row, a_depth, b_panel, b_depth, c_row;
    dl_real *c;
} dl_product;

/* c[m x n] = a b^T, or c += a b^T, both stored by rows; n a multiple of 4 and k of DL_PANEL:
 *   a(i, l) = a[i * a_row + l]
 *   b(j, l) = b[j * b_row + l]
 *   c(i, j) = c[i * c_row + j]
 * Each number is summed in as many parts as a register has numbers. */
typedef struct dl_dots {
    int m, n, k;
    bool accumulate;
    const dl_real *a, *b;
    size_t a_row, b_row, c_row;
    dl_real *c;
} dl_dots;

#define dl_product_run DL_TYPED(dl_product_run)
#define dl_dots_run DL_TYPED(dl_dots_run)
#define dl_product_kinds DL_TYPED(dl_product_kinds)
#define dl_product_outruns_blas DL_TYPED(dl_product_outruns_blas)

/* dl_product_run and dl_dots_run use the first of dl_product_kinds that the processor supports;
 * dl_product_outruns_blas returns its `outruns_blas`. */
void dl_product_run(const dl_product *product);
void dl_dots_run(const dl_dots *dots);
bool dl_product_outruns_blas(void);

/* Product functions for each kind of processor, the best first; the last row has no name. */
typedef struct dl_product_kind {
    const char *name;
    bool outruns_blas; /* faster than OpenBLAS from some hundred rows on, even if the operands must
                        * be copied first */
    bool (*is_there)(void);
    void (*run)(const dl_product *product);
    void (*run_dots)(const dl_dots *dots);
} dl_product_kind;

const dl_product_kind *dl_product_kinds(void);

#define dl_gemm_run DL_TYPED(dl_gemm_run)
#define dl_repeat_row DL_TYPED(dl_repeat_row)
#define dl_conv_scratch_bytes DL_TYPED(dl_conv_scratch_bytes)
#define dl_conv_forward DL_TYPED(dl_conv_forward)
#define dl_conv_backward_data DL_TYPED(dl_conv_backward_data)
#define dl_conv_backward_filter DL_TYPED(dl_conv_backward_filter)
#define dl_max_pool DL_TYPED(dl_max_pool)
#define dl_max_pool_backward DL_TYPED(dl_max_pool_backward)

/* Operations of dl_backend that are in separate sources, or called from these: gemm by OpenBLAS,
 * repeat_row, convolutions and max pooling. */
void dl_gemm_run(const dl_gemm *gemm);
void dl_repeat_row(void *matrix, const void *row, int rows, int columns);
size_t dl_conv_scratch_bytes(const dl_windows *conv);
void dl_conv_forward(const dl_windows *conv, const void *x, const void *weights, const void *bias,
                     void *y, void *scratch);
void dl_conv_backward_data(const dl_windows *conv, const void *dy, const void *weights, void *dx,
                           bool accumulate, void *scratch);
void dl_conv_backward_filter(const dl_windows *conv, const void *x, const void *dy, void *dweights,
                             void *scratch);
void dl_max_pool(const dl_windows *pool, const void *x, void *y, int32_t *choice);
void dl_max_pool_backward(const dl_windows *pool, const int32_t *choice, const void *dy, void *dx);

/* The operations of transformers (transformer_cpu.c). */
#define dl_transformer_cpu DL_TYPED(dl_transformer_cpu)
extern const dl_transformer_operations dl_transformer_cpu;

/* Convolutions of 3x3 windows, stride 1, padding 1, by Winograd's minimal filtering F(2x2, 3x3)
 * (Lavin & Gray 2016, section 4.1): 16 products where the definition has 36. Arguments and results
 * are those of dl_backend; `accumulate` adds to dx. */
#define dl_winograd_fits DL_TYPED(dl_winograd_fits)
#define dl_winograd_scratch_bytes DL_TYPED(dl_winograd_scratch_bytes)
#define dl_winograd_forward DL_TYPED(dl_winograd_forward)
#define dl_winograd_backward_data DL_TYPED(dl_winograd_backward_data)
#define dl_winograd_backward_filter DL_TYPED(dl_winograd_backward_filter)

/* Returns whether Winograd's filtering applies to the convolution and makes it faster. */
bool dl_winograd_fits(const dl_windows *conv);
size_t dl_winograd_scratch_bytes(const dl_windows *conv);
void dl_winograd_forward(const dl_windows *conv, const dl_real *x, const dl_real *weights,
                         const dl_real *bias, dl_real *y, dl_real *scratch);
void dl_winograd_backward_data(const dl_windows *conv, const dl_real *dy, const dl_real *weights,
                               dl_real *dx, bool accumulate, dl_real *scratch);
void dl_winograd_backward_filter(const dl_windows *conv, const dl_real *x, const dl_real *dy,
                                 dl_real *dweights, dl_real *scratch);

#endif
