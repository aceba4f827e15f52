/* The processor's operations: effects and arguments see dl_backend. Compiled for float and for
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

DL_HOT static void cpu_add(void *to, const void *from, size_t count)
{
    dl_real *restrict t = to;
    const dl_real *restrict f = from;
    for (size_t i = 0; i < count; i++)
        t[i] += f[i];
}

DL_HOT static void cpu_relu(void *values, size_t count)
{
    dl_real *v = values;
    for (size_t i = 0; i < count; i++)
        v[i] = v[i] > 0 ? v[i] : 0;
}

DL_HOT static void cpu_relu_backward(void *gradients, const void *values, size_t count)
{
    dl_real *restrict g = gradients;
    const dl_real *restrict v = values;
    for (size_t i = 0; i < count; i++)
        g[i] = v[i] > 0 ? g[i] : 0;
}

/* The loops of the optimizers copy what they need of `update` first: with -fno-strict-aliasing
 * every store may change it, and a loop whose end may move does not vectorise. */

DL_HOT static void sgd_plain(const dl_update *update)
{
    dl_real *restrict p = update->parameters;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate;
    const size_t count = update->count;
    for (size_t i = 0; i < count; i++)
        p[i] -= rate * g[i];
}

DL_HOT static void sgd_momentum(const dl_update *update)
{
    dl_real *restrict p = update->parameters, *restrict v = update->first;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate, decay = (dl_real)update->decay1;
    const size_t count = update->count;
    for (size_t i = 0; i < count; i++) {
        v[i] = decay * v[i] + g[i];
        p[i] -= rate * v[i];
    }
}

static void cpu_sgd(const dl_update *update)
{
    if (update->first) {
        sgd_momentum(update);
    } else {
        sgd_plain(update);
    }
}

DL_HOT static void cpu_rmsprop(const dl_update *update)
{
    dl_real *restrict p = update->parameters, *restrict s = update->first;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate, epsilon = (dl_real)update->epsilon;
    const dl_real decay = (dl_real)update->decay1, rest = (dl_real)(1 - update->decay1);
    const size_t count = update->count;
    for (size_t i = 0; i < count; i++) {
        s[i] = decay * s[i] + rest * g[i] * g[i];
        p[i] -= rate * g[i] / (sqrt(s[i]) + epsilon);
    }
}

DL_HOT static void cpu_adam(const dl_update *update)
{
    dl_real *restrict p = update->parameters;
    dl_real *restrict m = update->first, *restrict s = update->second;
    const dl_real *restrict g = update->gradients;
    const dl_real decay1 = (dl_real)update->decay1, rest1 = (dl_real)(1 - update->decay1);
    const dl_real decay2 = (dl_real)update->decay2, rest2 = (dl_real)(1 - update->decay2);
    const dl_real rate1 = (dl_real)(update->rate / update->correction1);
    const dl_real scale2 = (dl_real)(1 / update->correction2);
    const dl_real epsilon = (dl_real)update->epsilon;
    const size_t count = update->count;
    for (size_t i = 0; i < count; i++) {
        m[i] = decay1 * m[i] + rest1 * g[i];
        s[i] = decay2 * s[i] + rest2 * g[i] * g[i];
        p[i] -= rate1 * m[i] / (sqrt(s[i] * scale2) + epsilon);
    }
}

/* Columns are summed in blocks, in double: a float sum over the 10^5 pixels of a batch would lose
 * half of its digits. */
enum { BLOCK = 64 };

static inline int block_width(int columns, int first)
{
    return columns - first < BLOCK ? columns - first : BLOCK;
}

DL_HOT void dl_repeat_row(void *matrix, const void *row, int rows, int columns)
{
    dl_real *restrict to = matrix;
    const dl_real *restrict from = row;
    for (int i = 0; i < rows; i++, to += columns) {
        for (int j = 0; j < columns; j++)
            to[j] = from[j];
    }
}

DL_HOT static void cpu_sum_rows(void *sums, const void *matrix, int rows, int columns)
{
    dl_real *result = sums;
    for (int first = 0; first < columns; first += BLOCK) {
        const int width = block_width(columns, first);
        const dl_real *from = (const dl_real *)matrix + first;
        double sum[BLOCK] = {0};
        for (int i = 0; i < rows; i++, from += columns) {
            for (int j = 0; j < width; j++)
                sum[j] += (double)from[j];
        }
        for (int j = 0; j < width; j++)
            result[first + j] = (dl_real)sum[j];
    }
}

/* variance[j] = sum over rows of (x - mean)^2 / rows for one block of columns. */
static inline void block_variance(double *variance, const dl_norm *norm, int first, int width)
{
    const dl_real *from = (const dl_real *)norm->x + first;
    const dl_real *mean = (const dl_real *)norm->mean + first;
    for (int j = 0; j < width; j++)
        variance[j] = 0;
    for (int i = 0; i < norm->rows; i++, from += norm->channels) {
        for (int j = 0; j < width; j++) {
            const double difference = (double)from[j] - (double)mean[j];
            variance[j] += difference * difference;
        }
    }
    for (int j = 0; j < width; j++)
        variance[j] /= norm->rows;
}

DL_HOT static void batch_statistics(const dl_norm *norm)
{
    dl_real *mean = norm->mean, *inverse_deviation = norm->inverse_deviation;
    dl_real *running_mean = norm->running_mean, *running_variance = norm->running_variance;
    const double share = norm->momentum;
    const double unbiased = norm->rows > 1 ? (double)norm->rows / (norm->rows - 1) : 1;
    cpu_sum_rows(mean, norm->x, norm->rows, norm->channels);
    for (int c = 0; c < norm->channels; c++)
        mean[c] /= (dl_real)norm->rows;
    for (int first = 0; first < norm->channels; first += BLOCK) {
        const int width = block_width(norm->channels, first);
        double variance[BLOCK];
        block_variance(variance, norm, first, width);
        for (int j = 0; j < width; j++) {
            const int c = first + j;
            inverse_deviation[c] = (dl_real)(1 / sqrt(variance[j] + norm->epsilon));
            running_mean[c] =
                (dl_real)((1 - share) * (double)running_mean[c] + share * (double)mean[c]);
            running_variance[c] = (dl_real)((1 - share) * (double)running_variance[c] +
                                            share * unbiased * variance[j]);
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

DL_HOT static void normalise(const dl_norm *norm, void *y)
{
    const int channels = norm->channels;
    const dl_real *restrict mean = norm->mean, *restrict inverse = norm->inverse_deviation;
    const dl_real *restrict scale = norm->scale, *restrict shift = norm->shift;
    const dl_real *restrict from = norm->x;
    dl_real *restrict to = y;
    for (int i = 0; i < norm->rows; i++, from += channels, to += channels) {
        for (int c = 0; c < channels; c++) {
            to[c] = scale[c] * ((from[c] - mean[c]) * inverse[c]) + shift[c];
        }
    }
}

static void cpu_norm_training_forward(const dl_norm *norm, void *y)
{
    batch_statistics(norm);
    normalise(norm, y);
}

static void cpu_norm_inference_forward(const dl_norm *norm, void *y)
{
    running_statistics(norm);
    normalise(norm, y);
}

/* dscale = sum of dy * normalised x over the rows. */
DL_HOT static void norm_scale_gradient(const dl_norm *norm, const dl_real *dy, dl_real *dscale)
{
    const dl_real *mean = norm->mean, *inverse = norm->inverse_deviation, *x = norm->x;
    const int channels = norm->channels;
    for (int first = 0; first < channels; first += BLOCK) {
        const int width = block_width(channels, first);
        double sum[BLOCK] = {0};
        for (int i = 0; i < norm->rows; i++) {
            const size_t at = (size_t)i * (size_t)channels + (size_t)first;
            for (int j = 0; j < width; j++) {
                sum[j] += (double)(dy[at + (size_t)j] * (x[at + (size_t)j] - mean[first + j]));
            }
        }
        for (int j = 0; j < width; j++) {
            dscale[first + j] = (dl_real)(sum[j] * (double)inverse[first + j]);
        }
    }
}

/* With z the normalised x and n rows:  dx = scale / deviation (dy - dshift / n - z dscale / n)
 * (Ioffe & Szegedy 2015, section 3, its chain rule put together). */
DL_HOT static void norm_input_gradient(const dl_norm *norm, const dl_real *restrict dy,
                                       const dl_real *restrict dscale,
                                       const dl_real *restrict dshift, dl_real *restrict dx)
{
    const int channels = norm->channels;
    const dl_real *restrict mean = norm->mean, *restrict inverse = norm->inverse_deviation;
    const dl_real *restrict scale = norm->scale, *restrict x = norm->x;
    const dl_real share = (dl_real)(1.0 / norm->rows);
    for (int i = 0; i < norm->rows; i++, x += channels, dy += channels, dx += channels) {
        for (int c = 0; c < channels; c++) {
            const dl_real z = (x[c] - mean[c]) * inverse[c];
            dx[c] = scale[c] * inverse[c] * (dy[c] - share * (dshift[c] + z * dscale[c]));
        }
    }
}

static void cpu_norm_backward(const dl_norm *norm, const void *dy, void *dscale, void *dshift,
                              void *dx)
{
    cpu_sum_rows(dshift, dy, norm->rows, norm->channels);
    norm_scale_gradient(norm, dy, dscale);
    if (dx) norm_input_gradient(norm, dy, dscale, dshift, dx);
}

/* Fills one row of probabilities and returns -log of the label's: the scores' maximum is taken off
 * first, so that exp cannot overflow and the logarithm is taken of a number >= 1. */
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

static void cpu_softmax(const dl_softmax *softmax)
{
    const dl_real *scores = softmax->scores;
    dl_real *probabilities = softmax->probabilities;
    for (int i = 0; i < softmax->batch; i++) {
        const size_t row = (size_t)i * (size_t)softmax->classes;
        int best;
        softmax->losses[i] = softmax_row(probabilities + row, scores + row, softmax->classes,
                                         softmax->labels[i], &best);
        softmax->correct[i] = best == softmax->labels[i];
    }
}

static void cpu_softmax_backward(const dl_softmax *softmax, void *gradients)
{
    const dl_real *p = softmax->probabilities;
    dl_real *g = gradients;
    const dl_real share = (dl_real)(1.0 / softmax->batch);
    for (int i = 0; i < softmax->batch; i++) {
        for (int c = 0; c < softmax->classes; c++, p++, g++) {
            *g = share * (*p - (dl_real)(c == softmax->labels[i]));
        }
    }
}

static inline __attribute__((always_inline)) void
add_share(dl_real *restrict to, const dl_real *restrict from, dl_real share, int channels)
{
    for (int c = 0; c < channels; c++)
        to[c] += share * from[c];
}

DL_HOT static void cpu_mean_pixels(int count, int pixels, int channels, const void *x, void *y)
{
    const dl_real share = (dl_real)(1.0 / pixels);
    const dl_real *from = x;
    dl_real *to = y;
    memset(y, 0, (size_t)count * (size_t)channels * sizeof(dl_real));
    for (int i = 0; i < count; i++, to += channels) {
        for (int p = 0; p < pixels; p++, from += channels)
            add_share(to, from, share, channels);
    }
}

DL_HOT static void cpu_mean_pixels_backward(int count, int pixels, int channels, const void *dy,
                                            void *dx)
{
    const dl_real share = (dl_real)(1.0 / pixels);
    const dl_real *from = dy;
    dl_real *to = dx;
    memset(dx, 0, (size_t)count * (size_t)pixels * (size_t)channels * sizeof(dl_real));
    for (int i = 0; i < count; i++, from += channels) {
        for (int p = 0; p < pixels; p++, to += channels)
            add_share(to, from, share, channels);
    }
}

void dl_gemm_run(const dl_gemm *gemm)
{
    dl_blas_loaded()->DL_TYPED(gemm)(
        CblasRowMajor, gemm->transpose_a ? CblasTrans : CblasNoTrans,
        gemm->transpose_b ? CblasTrans : CblasNoTrans, gemm->m, gemm->n, gemm->k, 1, gemm->a,
        gemm->transpose_a ? gemm->m : gemm->k, gemm->b, gemm->transpose_b ? gemm->k : gemm->n,
        gemm->accumulate ? 1 : 0, gemm->c, gemm->n);
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
};
