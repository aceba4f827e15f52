/* The processor's operations; see dl_backend for effects and arguments. Compiled for float and for
 * double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "common/alloc.h"
#include "kernels/backend.h"
#include "kernels/backend_cpu_internal.h"
#include "kernels/blas.h"
#include "kernels/real.h"
#include "kernels/thread_team.h"

/* Minimum numbers in a part of an elementwise loop: for fewer, waking another thread takes longer
 * than computing them. */
enum { PART_MIN = 4096 };

/* The operands of a loop over two vectors. */
typedef struct pair {
    dl_real *to;
    const dl_real *from;
} pair;

DL_HOT static void add_part(const void *loop, size_t first, size_t last)
{
    const pair *p = loop;
    dl_real *restrict to = p->to;
    const dl_real *restrict from = p->from;
    for (size_t i = first; i < last; i++)
        to[i] += from[i];
}

static void cpu_add(void *to, const void *from, size_t count)
{
    dl_divide(add_part, &(pair){to, from}, count, PART_MIN);
}

DL_HOT static void relu_part(const void *loop, size_t first, size_t last)
{
    const pair *p = loop;
    dl_real *values = p->to;
    for (size_t i = first; i < last; i++)
        values[i] = values[i] > 0 ? values[i] : 0;
}

static void cpu_relu(void *values, size_t count)
{
    dl_divide(relu_part, &(pair){values, values}, count, PART_MIN);
}

DL_HOT static void relu_backward_part(const void *loop, size_t first, size_t last)
{
    const pair *p = loop;
    dl_real *restrict gradients = p->to;
    const dl_real *restrict values = p->from;
    for (size_t i = first; i < last; i++)
        gradients[i] = values[i] > 0 ? gradients[i] : 0;
}

static void cpu_relu_backward(void *gradients, const void *values, size_t count)
{
    dl_divide(relu_backward_part, &(pair){gradients, values}, count, PART_MIN);
}

/* The optimizers' loops first copy the fields of `update` to locals: with -fno-strict-aliasing
 * every store may change *update, and a loop whose end may change does not vectorise. */

DL_HOT static void sgd_plain_part(const void *loop, size_t first, size_t last)
{
    const dl_update *update = loop;
    dl_real *restrict p = update->parameters;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate;
    for (size_t i = first; i < last; i++)
        p[i] -= rate * g[i];
}

DL_HOT static void sgd_momentum_part(const void *loop, size_t first, size_t last)
{
    const dl_update *update = loop;
    dl_real *restrict p = update->parameters, *restrict v = update->first;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate, decay = (dl_real)update->decay1;
    for (size_t i = first; i < last; i++) {
        v[i] = decay * v[i] + g[i];
        p[i] -= rate * v[i];
    }
}

static void cpu_sgd(const dl_update *update)
{
    dl_divide(update->first != NULL ? sgd_momentum_part : sgd_plain_part, update, update->count,
              PART_MIN);
}

DL_HOT static void rmsprop_part(const void *loop, size_t first, size_t last)
{
    const dl_update *update = loop;
    dl_real *restrict p = update->parameters, *restrict s = update->first;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate, epsilon = (dl_real)update->epsilon;
    const dl_real decay = (dl_real)update->decay1, rest = (dl_real)(1 - update->decay1);
    for (size_t i = first; i < last; i++) {
        s[i] = decay * s[i] + rest * g[i] * g[i];
        p[i] -= rate * g[i] / (sqrt(s[i]) + epsilon);
    }
}

static void cpu_rmsprop(const dl_update *update)
{
    dl_divide(rmsprop_part, update, update->count, PART_MIN);
}

DL_HOT static void adam_part(const void *loop, size_t first, size_t last)
{
    const dl_update *update = loop;
    dl_real *restrict p = update->parameters;
    dl_real *restrict m = update->first, *restrict s = update->second;
    const dl_real *restrict g = update->gradients;
    const dl_real decay1 = (dl_real)update->decay1, rest1 = (dl_real)(1 - update->decay1);
    const dl_real decay2 = (dl_real)update->decay2, rest2 = (dl_real)(1 - update->decay2);
    const dl_real rate1 = (dl_real)(update->rate / update->correction1);
    const dl_real scale2 = (dl_real)(1 / update->correction2);
    const dl_real epsilon = (dl_real)update->epsilon;
    for (size_t i = first; i < last; i++) {
        m[i] = decay1 * m[i] + rest1 * g[i];
        s[i] = decay2 * s[i] + rest2 * g[i] * g[i];
        p[i] -= rate1 * m[i] / (sqrt(s[i] * scale2) + epsilon);
    }
}

static void cpu_adam(const dl_update *update)
{
    dl_divide(adam_part, update, update->count, PART_MIN);
}

/* Grains of loops over the rows or columns of a matrix: at least PART_MIN numbers, and for columns
 * whole cache lines. */
static size_t row_grain(int columns)
{
    return 1 + PART_MIN / (size_t)columns;
}

static size_t column_grain(int rows)
{
    enum { LINE = 64 / sizeof(dl_real) };
    return LINE * (1 + PART_MIN / ((size_t)rows * LINE));
}

/* Columns are summed in blocks, in double: a float sum over the 10^5 pixels of a batch would lose
 * half of its digits. Each sum of a block is loaded once per ROWS rows, which are added in order;
 * so rows are read in long pieces, and sums are loaded rarely. */
enum { BLOCK = 512, ROWS = 8 };

static inline size_t block_width(size_t first, size_t last)
{
    return last - first < BLOCK ? last - first : BLOCK;
}

/* A matrix and a row of equal width. */
typedef struct matrix_row {
    dl_real *matrix, *row;
    int rows, columns;
} matrix_row;

/* Adds rows to the sums of the columns. Inlined with a constant number of rows. */
static inline __attribute__((always_inline)) void
add_rows(double *restrict sum, const dl_real *restrict from, size_t columns, size_t width, int rows)
{
    for (size_t j = 0; j < width; j++) {
        double total = sum[j];
        for (int i = 0; i < rows; i++)
            total += (double)from[(size_t)i * columns + j];
        sum[j] = total;
    }
}

DL_HOT static void repeat_row_part(const void *loop, size_t first, size_t last)
{
    const matrix_row *m = loop;
    const size_t columns = (size_t)m->columns;
    dl_real *restrict to = m->matrix + first * columns;
    const dl_real *restrict from = m->row;
    for (size_t i = first; i < last; i++, to += columns) {
        for (size_t j = 0; j < columns; j++)
            to[j] = from[j];
    }
}

void dl_repeat_row(void *matrix, const void *row, int rows, int columns)
{
    dl_divide(repeat_row_part, &(matrix_row){matrix, (dl_real *)row, rows, columns}, (size_t)rows,
              row_grain(columns));
}

/* Sums columns first .. last - 1. */
DL_HOT static void sum_rows_part(const void *loop, size_t first, size_t last)
{
    const matrix_row *m = loop;
    const size_t columns = (size_t)m->columns;
    for (size_t block = first; block < last; block += BLOCK) {
        const size_t width = block_width(block, last);
        const dl_real *restrict from = m->matrix + block;
        double sum[BLOCK] = {0};
        for (int left = m->rows; left > 0; left -= ROWS, from += ROWS * columns) {
            if (left < ROWS) {
                add_rows(sum, from, columns, width, left);
            } else {
                add_rows(sum, from, columns, width, ROWS);
            }
        }
        for (size_t j = 0; j < width; j++)
            m->row[block + j] = (dl_real)sum[j];
    }
}

static void cpu_sum_rows(void *sums, const void *matrix, int rows, int columns)
{
    dl_divide(sum_rows_part, &(matrix_row){(dl_real *)matrix, sums, rows, columns}, (size_t)columns,
              column_grain(rows));
}

/* Adds up the differences of rows from a given row, and their squares. Inlined with a constant
 * number of rows. */
static inline __attribute__((always_inline)) void
add_differences(double *restrict sum, double *restrict squares, const dl_real *restrict pivot,
                const dl_real *restrict from, size_t columns, size_t width, int rows)
{
    for (size_t j = 0; j < width; j++) {
        const double middle = (double)pivot[j];
        double total = sum[j], square = squares[j];
        for (int i = 0; i < rows; i++) {
            const double difference = (double)from[(size_t)i * columns + j] - middle;
            total += difference;
            square += difference * difference;
        }
        sum[j] = total;
        squares[j] = square;
    }
}

/* Statistics of channels first .. last - 1 in one pass, from differences from the first row instead
 * of the mean. These differences raise the sum of squares by n (mean - first)^2; in double no digit
 * of a float is lost unless the first row is an extreme outlier. */
DL_HOT static void batch_statistics_part(const void *loop, size_t first, size_t last)
{
    const dl_norm *norm = loop;
    dl_real *mean = norm->mean, *inverse_deviation = norm->inverse_deviation;
    dl_real *running_mean = norm->running_mean, *running_variance = norm->running_variance;
    const size_t channels = (size_t)norm->channels;
    const double share = norm->momentum, rows = norm->rows;
    const double unbiased = norm->rows > 1 ? rows / (rows - 1) : 1;
    for (size_t block = first; block < last; block += BLOCK) {
        const size_t width = block_width(block, last);
        const dl_real *restrict pivot = (const dl_real *)norm->x + block, *restrict from = pivot;
        double sum[BLOCK] = {0}, squares[BLOCK] = {0};
        for (int left = norm->rows; left > 0; left -= ROWS, from += ROWS * channels) {
            if (left < ROWS) {
                add_differences(sum, squares, pivot, from, channels, width, left);
            } else {
                add_differences(sum, squares, pivot, from, channels, width, ROWS);
            }
        }
        for (size_t j = 0; j < width; j++) {
            const size_t c = block + j;
            const double variance = fmax(0, squares[j] - sum[j] * sum[j] / rows) / rows;
            mean[c] = (dl_real)((double)pivot[j] + sum[j] / rows);
            inverse_deviation[c] = (dl_real)(1 / sqrt(variance + norm->epsilon));
            running_mean[c] =
                (dl_real)((1 - share) * (double)running_mean[c] + share * (double)mean[c]);
            running_variance[c] =
                (dl_real)((1 - share) * (double)running_variance[c] + share * unbiased * variance);
        }
    }
}

static void running_statistics(const dl_norm *norm)
{
    const dl_real *variance = norm->running_variance;
    dl_real *inverse_deviation = norm->inverse_deviation;
    memcpy(norm->mean, norm->running_mean, (size_t)norm->channels * sizeof(dl_real));
    for (int c = 0; c < norm->channels; c++) {
        inverse_deviation[c] = (dl_real)(1 / sqrt((double)variance[c] + norm->epsilon));
    }
}

typedef struct norm_forward {
    const dl_norm *norm;
    dl_real *y;
} norm_forward;

/* Normalises rows first .. last - 1. */
DL_HOT static void normalise_part(const void *loop, size_t first, size_t last)
{
    const norm_forward *forward = loop;
    const dl_norm *norm = forward->norm;
    const size_t channels = (size_t)norm->channels;
    const dl_real *restrict mean = norm->mean, *restrict inverse = norm->inverse_deviation;
    const dl_real *restrict scale = norm->scale, *restrict shift = norm->shift;
    const dl_real *restrict from = (const dl_real *)norm->x + first * channels;
    dl_real *restrict to = forward->y + first * channels;
    for (size_t i = first; i < last; i++, from += channels, to += channels) {
        for (size_t c = 0; c < channels; c++) {
            to[c] = scale[c] * ((from[c] - mean[c]) * inverse[c]) + shift[c];
        }
    }
}

static void normalise(const dl_norm *norm, void *y)
{
    dl_divide(normalise_part, &(norm_forward){norm, y}, (size_t)norm->rows,
              row_grain(norm->channels));
}

static void cpu_norm_training_forward(const dl_norm *norm, void *y)
{
    dl_divide(batch_statistics_part, norm, (size_t)norm->channels, column_grain(norm->rows));
    normalise(norm, y);
}

static void cpu_norm_inference_forward(const dl_norm *norm, void *y)
{
    running_statistics(norm);
    normalise(norm, y);
}

typedef struct norm_backward {
    const dl_norm *norm;
    const dl_real *dy;
    dl_real *dscale, *dshift, *dx;
} norm_backward;

/* Adds up dy, and dy (x - mean), over rows. Inlined with a constant number of rows. */
static inline __attribute__((always_inline)) void
add_gradients(double *restrict shift, double *restrict scale, const dl_real *restrict mean,
              const dl_real *restrict x, const dl_real *restrict dy, size_t columns, size_t width,
              int rows)
{
    for (size_t j = 0; j < width; j++) {
        double shifted = shift[j], scaled = scale[j];
        for (int i = 0; i < rows; i++) {
            const size_t at = (size_t)i * columns + j;
            shifted += (double)dy[at];
            scaled += (double)(dy[at] * (x[at] - mean[j]));
        }
        shift[j] = shifted;
        scale[j] = scaled;
    }
}

/* Gradients of channels first .. last - 1: dshift, and dscale = sum of dy * normalised x over the
 * rows. */
DL_HOT static void norm_parameter_gradients_part(const void *loop, size_t first, size_t last)
{
    const norm_backward *back = loop;
    const dl_norm *norm = back->norm;
    const dl_real *mean = norm->mean, *inverse = norm->inverse_deviation;
    const size_t channels = (size_t)norm->channels;
    for (size_t block = first; block < last; block += BLOCK) {
        const size_t width = block_width(block, last);
        const dl_real *restrict x = (const dl_real *)norm->x + block;
        const dl_real *restrict dy = back->dy + block;
        double shift[BLOCK] = {0}, scale[BLOCK] = {0};
        for (int left = norm->rows; left > 0; left -= ROWS) {
            if (left < ROWS) {
                add_gradients(shift, scale, mean + block, x, dy, channels, width, left);
            } else {
                add_gradients(shift, scale, mean + block, x, dy, channels, width, ROWS);
            }
            x += ROWS * channels;
            dy += ROWS * channels;
        }
        for (size_t j = 0; j < width; j++) {
            back->dshift[block + j] = (dl_real)shift[j];
            back->dscale[block + j] = (dl_real)(scale[j] * (double)inverse[block + j]);
        }
    }
}

/* Gradients of rows first .. last - 1. With z the normalised x and n rows:
 *
 *   dx = scale / deviation (dy - dshift / n - z dscale / n)
 *
 * (Ioffe & Szegedy 2015, section 3, with the chain rule combined). */
DL_HOT static void norm_input_gradient_part(const void *loop, size_t first, size_t last)
{
    const norm_backward *back = loop;
    const dl_norm *norm = back->norm;
    const size_t channels = (size_t)norm->channels, start = first * channels;
    const dl_real *restrict mean = norm->mean, *restrict inverse = norm->inverse_deviation;
    const dl_real *restrict scale = norm->scale, *restrict x = (const dl_real *)norm->x + start;
    const dl_real *restrict dscale = back->dscale, *restrict dshift = back->dshift;
    const dl_real *restrict dy = back->dy + start;
    dl_real *restrict dx = back->dx + start;
    const dl_real share = (dl_real)(1.0 / norm->rows);
    for (size_t i = first; i < last; i++, x += channels, dy += channels, dx += channels) {
        for (size_t c = 0; c < channels; c++) {
            const dl_real z = (x[c] - mean[c]) * inverse[c];
            dx[c] = scale[c] * inverse[c] * (dy[c] - share * (dshift[c] + z * dscale[c]));
        }
    }
}

static void cpu_norm_backward(const dl_norm *norm, const void *dy, void *dscale, void *dshift,
                              void *dx)
{
    const norm_backward back = {norm, dy, dscale, dshift, dx};
    dl_divide(norm_parameter_gradients_part, &back, (size_t)norm->channels,
              column_grain(norm->rows));
    if (dx == NULL) return;
    dl_divide(norm_input_gradient_part, &back, (size_t)norm->rows, row_grain(norm->channels));
}

/* Fills one row of probabilities and returns -log of the label's. The scores' maximum is subtracted
 * first, so that exp cannot overflow and the logarithm's argument is >= 1. */
static double softmax_row(dl_real *probabilities, const dl_real *scores, int classes, int label,
                          int *best)
{
    double sum = 0;
    *best = 0;
    for (int c = 1; c < classes; c++) {
        if (scores[c] > scores[*best]) *best = c;
    }
    const double top = (double)scores[*best];
    for (int c = 0; c < classes; c++)
        sum += exp((double)scores[c] - top);
    for (int c = 0; c < classes; c++) {
        probabilities[c] = (dl_real)(exp((double)scores[c] - top) / sum);
    }
    return log(sum) - ((double)scores[label] - top);
}

static void softmax_part(const void *loop, size_t first, size_t last)
{
    const dl_softmax *softmax = loop;
    const dl_real *scores = softmax->scores;
    dl_real *probabilities = softmax->probabilities;
    for (size_t i = first; i < last; i++) {
        const size_t row = i * (size_t)softmax->classes;
        int best;
        softmax->losses[i] = softmax_row(probabilities + row, scores + row, softmax->classes,
                                         softmax->labels[i], &best);
        softmax->correct[i] = best == softmax->labels[i];
    }
}

static void cpu_softmax(const dl_softmax *softmax)
{
    dl_divide(softmax_part, softmax, (size_t)softmax->batch, row_grain(softmax->classes));
}

typedef struct softmax_backward {
    const dl_softmax *softmax;
    dl_real *gradients;
} softmax_backward;

static void softmax_backward_part(const void *loop, size_t first, size_t last)
{
    const softmax_backward *back = loop;
    const dl_softmax *softmax = back->softmax;
    const size_t classes = (size_t)softmax->classes;
    const dl_real *p = (const dl_real *)softmax->probabilities + first * classes;
    dl_real *g = back->gradients + first * classes;
    const dl_real share = (dl_real)(1.0 / softmax->batch);
    for (size_t i = first; i < last; i++) {
        for (int c = 0; c < softmax->classes; c++, p++, g++) {
            *g = share * (*p - (dl_real)(c == softmax->labels[i]));
        }
    }
}

static void cpu_softmax_backward(const dl_softmax *softmax, void *gradients)
{
    dl_divide(softmax_backward_part, &(softmax_backward){softmax, gradients},
              (size_t)softmax->batch, row_grain(softmax->classes));
}

/* Operands of the means over images x[pixels x channels], or of their gradient. */
typedef struct pixel_means {
    int count, pixels, channels;
    const dl_real *from;
    dl_real *to;
} pixel_means;

static inline __attribute__((always_inline)) void
add_share(dl_real *restrict to, const dl_real *restrict from, dl_real share, size_t channels)
{
    for (size_t c = 0; c < channels; c++)
        to[c] += share * from[c];
}

/* Means of channels first .. last - 1. */
DL_HOT static void mean_pixels_part(const void *loop, size_t first, size_t last)
{
    const pixel_means *mean = loop;
    const dl_real share = (dl_real)(1.0 / mean->pixels);
    const size_t channels = (size_t)mean->channels, width = last - first;
    const dl_real *from = mean->from + first;
    dl_real *to = mean->to + first;
    for (int i = 0; i < mean->count; i++, to += channels) {
        memset(to, 0, width * sizeof *to);
        for (int p = 0; p < mean->pixels; p++, from += channels)
            add_share(to, from, share, width);
    }
}

static void cpu_mean_pixels(int count, int pixels, int channels, const void *x, void *y)
{
    dl_divide(mean_pixels_part, &(pixel_means){count, pixels, channels, x, y}, (size_t)channels,
              column_grain(count * pixels));
}

/* Gradients of pixels first .. last - 1 of all images. */
DL_HOT static void mean_pixels_backward_part(const void *loop, size_t first, size_t last)
{
    const pixel_means *mean = loop;
    const dl_real share = (dl_real)(1.0 / mean->pixels);
    const size_t channels = (size_t)mean->channels;
    dl_real *restrict to = mean->to + first * channels;
    for (size_t p = first; p < last; p++, to += channels) {
        const dl_real *restrict from = mean->from + p / (size_t)mean->pixels * channels;
        for (size_t c = 0; c < channels; c++)
            to[c] = share * from[c];
    }
}

static void cpu_mean_pixels_backward(int count, int pixels, int channels, const void *dy, void *dx)
{
    dl_divide(mean_pixels_backward_part, &(pixel_means){count, pixels, channels, dy, dx},
              (size_t)count * (size_t)pixels, row_grain(channels));
}

/* Number of parts into which a product is divided along the larger side of c. It does not depend on
 * the number of threads, since the bits of OpenBLAS's results may depend on the matrix's size. Each
 * part packs all of one operand again, in about 12 / size of the product's time (an Intel Xeon), so
 * parts are few. */
static size_t gemm_parts(int size)
{
    return size < 512 ? 1 : size < 4096 ? 2 : 8;
}

/* Computes parts first .. last - 1, one call each. */
static void gemm_part(const void *loop, size_t first, size_t last)
{
    enum { ALIGNED = 16 };
    const dl_gemm *gemm = loop;
    const bool by_rows = gemm->m >= gemm->n;
    const int size = by_rows ? gemm->m : gemm->n;
    const size_t parts = gemm_parts(size);
    const int lda = gemm->transpose_a ? gemm->m : gemm->k;
    const int ldb = gemm->transpose_b ? gemm->k : gemm->n;
    const int step = (int)(((size_t)size + parts * ALIGNED - 1) / (parts * ALIGNED)) * ALIGNED;
    for (size_t part = first; part < last; part++) {
        const int begin = (int)part * step, end = begin + step < size ? begin + step : size;
        if (begin >= end) continue;
        const size_t row = by_rows ? (size_t)begin : 0, column = by_rows ? 0 : (size_t)begin;
        dl_blas_loaded()->DL_TYPED(gemm)(
            CblasRowMajor, gemm->transpose_a ? CblasTrans : CblasNoTrans,
            gemm->transpose_b ? CblasTrans : CblasNoTrans, by_rows ? end - begin : gemm->m,
            by_rows ? gemm->n : end - begin, gemm->k, 1,
            (const dl_real *)gemm->a + (gemm->transpose_a ? row : row * (size_t)lda), lda,
            (const dl_real *)gemm->b + (gemm->transpose_b ? column * (size_t)ldb : column), ldb,
            gemm->accumulate ? 1 : 0, (dl_real *)gemm->c + row * (size_t)gemm->n + column, gemm->n);
    }
}

void dl_gemm_run(const dl_gemm *gemm)
{
    dl_divide(gemm_part, gemm, gemm_parts(gemm->m >= gemm->n ? gemm->m : gemm->n), 1);
}

static void cpu_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* Every call is complete when it returns. */
static dl_status cpu_wait(dl_error *err DL_UNUSED)
{
    return DL_OK;
}

const dl_backend DL_TYPED(dl_backend_cpu) = {
    .name = "cpu",
    .precision = sizeof(dl_real) == sizeof(double) ? DL_DOUBLE : DL_FLOAT,
    .start = dl_blas_load,
    .start_threads = dl_blas_reserve,
    .host_memory = true,
    .allocate = dl_alloc_staggered,
    .release = dl_free_staggered,
    .allocate_host = dl_alloc_staggered,
    .release_host = dl_free_staggered,
    .upload = cpu_copy,
    .download = cpu_copy,
    .wait = cpu_wait,
    .gemm = dl_gemm_run,
    .conv_scratch_bytes = dl_conv_scratch_bytes,
    .conv_forward = dl_conv_forward,
    .conv_backward_data = dl_conv_backward_data,
    .conv_backward_filter = dl_conv_backward_filter,
    .repeat_row = dl_repeat_row,
    .sum_rows = cpu_sum_rows,
    .max_pool = dl_max_pool,
    .max_pool_backward = dl_max_pool_backward,
    .mean_pixels = cpu_mean_pixels,
    .mean_pixels_backward = cpu_mean_pixels_backward,
    .add = cpu_add,
    .relu = cpu_relu,
    .relu_backward = cpu_relu_backward,
    .norm_training_forward = cpu_norm_training_forward,
    .norm_inference_forward = cpu_norm_inference_forward,
    .norm_backward = cpu_norm_backward,
    .softmax = cpu_softmax,
    .softmax_backward = cpu_softmax_backward,
    .sgd = cpu_sgd,
    .rmsprop = cpu_rmsprop,
    .adam = cpu_adam,
    .transformer = &dl_transformer_cpu,
};
