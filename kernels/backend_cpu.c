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

DL_HOT static void cpu_repeat_row(void *matrix, const void *row, int rows, int columns)
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

/* 2x2 blocks side by side: what most networks pool with, and worth separate loops. */
static bool is_blocks(const dl_windows *pool)
{
    return pool->kernel == 2 && pool->stride == 2 && pool->padding == 0 && pool->in.rows % 2 == 0 &&
           pool->in.columns % 2 == 0;
}

/* One block, all channels: the four pixels are a b over d e. Arrays that do not overlap come as
 * arguments, for the compiler to believe it. */
static inline __attribute__((always_inline)) void
pool_block(dl_real *restrict y, int32_t *restrict choice, const dl_real *restrict above,
           const dl_real *restrict below, int channels)
{
    for (int c = 0; c < channels; c++) {
        const dl_real a = above[c], b = above[channels + c];
        const dl_real d = below[c], e = below[channels + c];
        const dl_real top = b > a ? b : a, bottom = e > d ? e : d;
        const int32_t in_top = b > a ? 1 : 0, in_bottom = e > d ? 3 : 2;
        y[c] = bottom > top ? bottom : top;
        choice[c] = bottom > top ? in_bottom : in_top;
    }
}

DL_HOT static void pool_blocks(const dl_windows *pool, const dl_real *from, dl_real *to,
                               int32_t *choice)
{
    const int channels = pool->in.channels;
    const size_t line = (size_t)pool->in.columns * (size_t)channels;
    for (int row = 0; row < pool->count * pool->out.rows; row++, from += line) {
        for (int column = 0; column < pool->out.columns; column++) {
            pool_block(to, choice, from, from + line, channels);
            from += 2 * channels;
            to += channels;
            choice += channels;
        }
    }
}

static inline __attribute__((always_inline)) void
unpool_block(dl_real *restrict above, dl_real *restrict below, const int32_t *restrict choice,
             const dl_real *restrict dy, int channels)
{
    for (int c = 0; c < channels; c++) {
        const dl_real gradient = dy[c];
        const int32_t chosen = choice[c];
        above[c] = chosen == 0 ? gradient : 0;
        above[channels + c] = chosen == 1 ? gradient : 0;
        below[c] = chosen == 2 ? gradient : 0;
        below[channels + c] = chosen == 3 ? gradient : 0;
    }
}

DL_HOT static void unpool_blocks(const dl_windows *pool, const int32_t *choice, const dl_real *from,
                                 dl_real *to)
{
    const int channels = pool->in.channels;
    const size_t line = (size_t)pool->in.columns * (size_t)channels;
    for (int row = 0; row < pool->count * pool->out.rows; row++, to += line) {
        for (int column = 0; column < pool->out.columns; column++) {
            unpool_block(to, to + line, choice, from, channels);
            to += 2 * channels;
            from += channels;
            choice += channels;
        }
    }
}

/* Pixel (ky, kx) of the window of output pixel `at` (counted over all samples): where its channels
 * start in the image; or SIZE_MAX if it lies outside. */
static size_t window_pixel(const dl_windows *pool, int at, int ky, int kx)
{
    const int line = at / pool->out.columns;
    const int row = line % pool->out.rows * pool->stride - pool->padding + ky;
    const int column = at % pool->out.columns * pool->stride - pool->padding + kx;
    if (row < 0 || row >= pool->in.rows || column < 0 || column >= pool->in.columns) {
        return SIZE_MAX;
    }
    const size_t image = (size_t)(line / pool->out.rows) * dl_shape_count(pool->in);
    return image +
           ((size_t)row * (size_t)pool->in.columns + (size_t)column) * (size_t)pool->in.channels;
}

static inline __attribute__((always_inline)) void keep_larger(dl_real *restrict y,
                                                              int32_t *restrict choice,
                                                              const dl_real *restrict x,
                                                              int32_t place, int channels)
{
    for (int c = 0; c < channels; c++) {
        const bool larger = x[c] > y[c];
        choice[c] = larger ? place : choice[c];
        y[c] = larger ? x[c] : y[c];
    }
}

DL_HOT static void pool_windows(const dl_windows *pool, const dl_real *from, dl_real *to,
                                int32_t *choice)
{
    const int channels = pool->in.channels;
    const int pixels = pool->count * pool->out.rows * pool->out.columns;
    for (int at = 0; at < pixels; at++, to += channels, choice += channels) {
        bool first = true;
        for (int place = 0; place < pool->kernel * pool->kernel; place++) {
            const size_t pixel = window_pixel(pool, at, place / pool->kernel, place % pool->kernel);
            if (pixel == SIZE_MAX) continue;
            if (first) {
                memcpy(to, from + pixel, (size_t)channels * sizeof(dl_real));
                for (int c = 0; c < channels; c++)
                    choice[c] = place;
                first = false;
            } else {
                keep_larger(to, choice, from + pixel, place, channels);
            }
        }
    }
}

static inline __attribute__((always_inline)) void add_chosen(dl_real *restrict dx,
                                                             const int32_t *restrict choice,
                                                             const dl_real *restrict dy,
                                                             int32_t place, int channels)
{
    for (int c = 0; c < channels; c++)
        dx[c] += choice[c] == place ? dy[c] : 0;
}

DL_HOT static void unpool_windows(const dl_windows *pool, const int32_t *choice,
                                  const dl_real *from, dl_real *to)
{
    const int channels = pool->in.channels;
    const int pixels = pool->count * pool->out.rows * pool->out.columns;
    memset(to, 0, (size_t)pool->count * dl_shape_count(pool->in) * sizeof(dl_real));
    for (int at = 0; at < pixels; at++, from += channels, choice += channels) {
        for (int place = 0; place < pool->kernel * pool->kernel; place++) {
            const size_t pixel = window_pixel(pool, at, place / pool->kernel, place % pool->kernel);
            if (pixel != SIZE_MAX) add_chosen(to + pixel, choice, from, place, channels);
        }
    }
}

static void cpu_max_pool(const dl_windows *pool, const void *x, void *y, int32_t *choice)
{
    if (is_blocks(pool)) {
        pool_blocks(pool, x, y, choice);
    } else {
        pool_windows(pool, x, y, choice);
    }
}

static void cpu_max_pool_backward(const dl_windows *pool, const int32_t *choice, const void *dy,
                                  void *dx)
{
    if (is_blocks(pool)) {
        unpool_blocks(pool, choice, dy, dx);
    } else {
        unpool_windows(pool, choice, dy, dx);
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

/* Bytes of `rows` that are worked on at once: half of a 1 MiB level-2 cache, the rest of which the
 * product's packed operands take. LeNet's step on a Zen 5 core is as fast from 256 KiB to 1 MiB. */
#define ROWS_BYTES ((size_t)512 * 1024)

/* Fewest rows of a tile, even if they are more bytes: each product packs all weights anew, which
 * must be little against the product itself. */
#define ROWS_MIN 256

/* OpenBLAS 0.3.21 on Zen 5, 256 rows: 50 filters of 500 numbers 109 against 101 GFLOP/s, 64 of 576
 * 120 against 110, 256 of 2304 alike. */
#define FILTERS_TURNED 64

/* Numbers of one window. */
static int window_size(const dl_windows *conv)
{
    return conv->kernel * conv->kernel * conv->in.channels;
}

/* Whether the rows are the image itself, so that nothing needs copying. */
static bool is_pointwise(const dl_windows *conv)
{
    return conv->kernel == 1 && conv->stride == 1 && conv->padding == 0;
}

/* Output lines of a tile; a tile may begin and end within an image. */
static int tile_lines(const dl_windows *conv)
{
    const int all = conv->count * conv->out.rows;
    const size_t columns = (size_t)conv->out.columns;
    const size_t fit = ROWS_BYTES / (columns * (size_t)window_size(conv) * sizeof(dl_real));
    const size_t least = (ROWS_MIN + columns - 1) / columns;
    const size_t lines = is_pointwise(conv) ? (size_t)all : fit > least ? fit : least;
    return lines < (size_t)all ? (int)lines : all;
}

/* Numbers of the rows of a full tile. */
static size_t tile_size(const dl_windows *conv)
{
    if (is_pointwise(conv)) return 0;
    return (size_t)tile_lines(conv) * (size_t)conv->out.columns * (size_t)window_size(conv);
}

/* Whether the gradient of the weights is computed transposed, [window x filters], after the rows
 * in the scratch. With few filters the product is up to a tenth faster that way round, and the
 * weights are few. */
static bool is_filter_turned(const dl_windows *conv)
{
    return conv->out.channels <= FILTERS_TURNED;
}

/* Convolutions as matrix products. The windows of a few output lines are copied out as
 * rows[pixels x window] into the scratch, a tile small enough for the level-2 cache; then
 * y = rows W^T,  dW = dy^T rows,  drows = dy W, which is added up to dx. Rows are made again in the
 * backward pass, which costs less than to keep and fetch them. */
static size_t cpu_conv_scratch_bytes(const dl_windows *conv)
{
    const size_t weights = (size_t)window_size(conv) * (size_t)conv->out.channels;
    const size_t rows =
        (tile_size(conv) + (is_filter_turned(conv) ? weights : 0)) * sizeof(dl_real);
    const size_t winograd = dl_winograd_fits(conv) ? dl_winograd_scratch_bytes(conv) : 0;
    return rows > winograd ? rows : winograd; /* fewer samples may not fit winograd */
}

/* First image line of the window of output line `line`, which may lie outside. */
static int first_row(const dl_windows *conv, int line)
{
    return line % conv->out.rows * conv->stride - conv->padding;
}

/* Where image line `row` of the image of output line `line` starts. */
static size_t line_offset(const dl_windows *conv, int line, int row)
{
    const size_t image = (size_t)(line / conv->out.rows) * dl_shape_count(conv->in);
    return image + (size_t)row * (size_t)conv->in.columns * (size_t)conv->in.channels;
}

/* The part [*begin, *end) of 0..kernel-1 that lies on `size` pixels when a window starts at
 * `first`. */
static inline void clip(int first, int size, int kernel, int *begin, int *end)
{
    *begin = first < 0 ? -first : 0;
    *end = first + kernel > size ? size - first : kernel;
    if (*end < *begin) *end = *begin;
}

/* Rows of one output line, no window of which hangs over the edge. Each window row is one
 * contiguous piece of `piece` = kernel * channels numbers. Inlined, so that a caller's constant
 * `piece` turns the copy into a few moves. */
static inline __attribute__((always_inline)) void
copy_inner_windows(dl_real *row, const dl_real *from, const dl_windows *conv, int piece)
{
    const size_t line = (size_t)conv->in.columns * (size_t)conv->in.channels;
    const size_t step = (size_t)conv->stride * (size_t)conv->in.channels;
    for (int x = 0; x < conv->out.columns; x++) {
        const dl_real *window = from + (size_t)x * step;
        for (int ky = 0; ky < conv->kernel; ky++) {
            memcpy(row, window, (size_t)piece * sizeof(dl_real));
            row += piece;
            window += line;
        }
    }
}

/* Rows of one output line, some windows of which hang over the edge: zeros there. */
static inline void copy_edge_windows(dl_real *row, const dl_real *images, const dl_windows *conv,
                                     int line)
{
    const int channels = conv->in.channels, kernel = conv->kernel, top = first_row(conv, line);
    for (int x = 0; x < conv->out.columns; x++) {
        const int left = x * conv->stride - conv->padding;
        int begin, end;
        clip(left, conv->in.columns, kernel, &begin, &end);
        for (int ky = 0; ky < kernel; ky++, row += kernel * channels) {
            const bool inside = top + ky >= 0 && top + ky < conv->in.rows;
            const int from = inside ? begin : kernel, to = inside ? end : kernel;
            for (int i = 0; i < from * channels; i++)
                row[i] = 0;
            for (int i = to * channels; i < kernel * channels; i++)
                row[i] = 0;
            if (from >= to) continue;
            memcpy(row + from * channels,
                   images + line_offset(conv, line, top + ky) + (left + from) * channels,
                   (size_t)((to - from) * channels) * sizeof(dl_real));
        }
    }
}

/* rows[(line, x)][(ky, kx, channel)] of the output lines first .. first + lines - 1. */
DL_HOT static void copy_windows(dl_real *rows, const dl_real *images, const dl_windows *conv,
                                int first, int lines)
{
    const int piece = conv->kernel * conv->in.channels;
    const size_t line_size = (size_t)conv->out.columns * (size_t)window_size(conv);
    for (int line = first; line < first + lines; line++, rows += line_size) {
        if (conv->padding > 0) {
            copy_edge_windows(rows, images, conv, line);
            continue;
        }
        const dl_real *from = images + line_offset(conv, line, first_row(conv, line));
        if (piece == 5) { /* a 5x5 window on one channel, the first layer of most digit networks */
            copy_inner_windows(rows, from, conv, 5);
        } else {
            copy_inner_windows(rows, from, conv, piece);
        }
    }
}

/* The transpose of copy_windows: adds each entry of `rows` to the pixel that it is a copy of. */
DL_HOT static void add_windows(dl_real *images, const dl_real *rows, const dl_windows *conv,
                               int first, int lines)
{
    const int channels = conv->in.channels, kernel = conv->kernel, piece = kernel * channels;
    const int line_size = conv->in.columns * channels;
    for (int line = first; line < first + lines; line++) {
        const int top = first_row(conv, line);
        int above, below;
        clip(top, conv->in.rows, kernel, &above, &below);
        dl_real *image = images + line_offset(conv, line, 0);
        for (int x = 0; x < conv->out.columns; x++, rows += kernel * piece) {
            const int left = x * conv->stride - conv->padding;
            int begin, end;
            clip(left, conv->in.columns, kernel, &begin, &end);
            const int width = (end - begin) * channels;
            const dl_real *restrict from = rows + above * piece + begin * channels;
            dl_real *restrict to =
                image + ((top + above) * conv->in.columns + left + begin) * channels;
            for (int ky = above; ky < below; ky++, from += piece, to += line_size) {
                for (int j = 0; j < width; j++)
                    to[j] += from[j];
            }
        }
    }
}

/* Zeroes the images whose first output line is one of first .. first + lines - 1: just before
 * something is added to them, so that they are in the cache. */
static void zero_images(dl_real *images, const dl_windows *conv, int first, int lines)
{
    const int begin = (first + conv->out.rows - 1) / conv->out.rows;
    const int end = (first + lines + conv->out.rows - 1) / conv->out.rows;
    const size_t size = dl_shape_count(conv->in);
    memset(images + (size_t)begin * size, 0, (size_t)(end - begin) * size * sizeof(dl_real));
}

/* What the three operations do with the tile of lines first .. first + lines - 1. */
typedef struct tile {
    int rows;      /* pixels */
    size_t output; /* where its part of y or dy starts */
    const dl_real *windows;
} tile;

/* The tile with its windows copied, or where the image is the rows, pointed at. */
static tile make_tile(const dl_windows *conv, const dl_real *x, int first, int lines,
                      dl_real *scratch)
{
    const size_t pixel = (size_t)first * (size_t)conv->out.columns;
    const tile made = {.rows = lines * conv->out.columns,
                       .output = pixel * (size_t)conv->out.channels,
                       .windows =
                           is_pointwise(conv) ? x + pixel * (size_t)conv->in.channels : scratch};
    if (!is_pointwise(conv)) copy_windows(scratch, x, conv, first, lines);
    return made;
}

static int lines_left(const dl_windows *conv, int first)
{
    const int left = conv->count * conv->out.rows - first, most = tile_lines(conv);
    return left < most ? left : most;
}

static void cpu_gemm(const dl_gemm *gemm)
{
    dl_blas_loaded()->DL_TYPED(gemm)(
        CblasRowMajor, gemm->transpose_a ? CblasTrans : CblasNoTrans,
        gemm->transpose_b ? CblasTrans : CblasNoTrans, gemm->m, gemm->n, gemm->k, 1, gemm->a,
        gemm->transpose_a ? gemm->m : gemm->k, gemm->b, gemm->transpose_b ? gemm->k : gemm->n,
        gemm->accumulate ? 1 : 0, gemm->c, gemm->n);
}

/* Most pixels of a convolution whose products go without OpenBLAS: it copies the weights of each
 * product first, which for some hundred pixels is little. On a Zen 4 core that is the quicker way
 * from some 50 pixels on. */
#define FEW_PIXELS 48

/* Rows of the weights' gradient that are computed together, so that they are written to memory in
 * long pieces. */
#define GRADIENT_ROWS 12

static bool has_few_pixels(const dl_windows *conv)
{
    return conv->count * conv->out.rows * conv->out.columns <= FEW_PIXELS &&
           conv->in.channels % DL_PANEL == 0 && conv->out.channels % DL_PANEL == 0;
}

/* y[pixels x filters] += windows W^T */
static void few_outputs(const dl_windows *conv, const tile *at, const dl_real *weights, dl_real *y,
                        bool accumulate)
{
    const int window = window_size(conv), filters = conv->out.channels;
    dl_dots_run(&(dl_dots){.m = at->rows,
                           .n = filters,
                           .k = window,
                           .accumulate = accumulate,
                           .a = at->windows,
                           .a_row = (size_t)window,
                           .b = weights,
                           .b_row = (size_t)window,
                           .c = y,
                           .c_row = (size_t)filters});
}

/* dW = dy^T windows */
static void few_weight_gradients(const dl_windows *conv, const tile *at, const dl_real *dy,
                                 dl_real *dweights)
{
    const int window = window_size(conv), filters = conv->out.channels;
    for (int first = 0; first < filters; first += GRADIENT_ROWS) {
        const int left = filters - first;
        dl_product_run(&(dl_product){.m = left < GRADIENT_ROWS ? left : GRADIENT_ROWS,
                                     .n = window,
                                     .k = at->rows,
                                     .a = dy + first,
                                     .a_row = 1,
                                     .a_depth = (size_t)filters,
                                     .b = at->windows,
                                     .b_panel = DL_PANEL,
                                     .b_depth = (size_t)window,
                                     .c = dweights + (size_t)first * (size_t)window,
                                     .c_row = (size_t)window});
    }
}

/* windows = dy W, or += */
static void few_window_gradients(const dl_windows *conv, int pixels, const dl_real *dy,
                                 const dl_real *weights, dl_real *windows, bool accumulate)
{
    const int window = window_size(conv), filters = conv->out.channels;
    dl_product_run(&(dl_product){.m = pixels,
                                 .n = window,
                                 .k = filters,
                                 .accumulate = accumulate,
                                 .a = dy,
                                 .a_row = (size_t)filters,
                                 .a_depth = 1,
                                 .b = weights,
                                 .b_panel = DL_PANEL,
                                 .b_depth = (size_t)window,
                                 .c = windows,
                                 .c_row = (size_t)window});
}

static void cpu_conv_forward(const dl_windows *conv, const void *x, const void *weights,
                             const void *bias, void *y, void *scratch)
{
    const int units = conv->out.channels, lines = conv->count * conv->out.rows;
    if (dl_winograd_fits(conv)) {
        dl_winograd_forward(conv, x, weights, bias, y, scratch);
        return;
    }
    for (int first = 0, part; first < lines; first += part) {
        part = lines_left(conv, first);
        const tile at = make_tile(conv, x, first, part, scratch);
        dl_real *output = (dl_real *)y + at.output;
        if (bias != NULL) cpu_repeat_row(output, bias, at.rows, units);
        if (has_few_pixels(conv)) {
            few_outputs(conv, &at, weights, output, bias != NULL);
            continue;
        }
        cpu_gemm(&(dl_gemm){.transpose_b = true,
                            .accumulate = bias != NULL,
                            .m = at.rows,
                            .n = units,
                            .k = window_size(conv),
                            .a = at.windows,
                            .b = weights,
                            .c = output});
    }
}

/* to[columns x rows] = the transpose of from[rows x columns] */
static void transpose(dl_real *to, const dl_real *from, int rows, int columns)
{
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++)
            to[(size_t)j * (size_t)rows + (size_t)i] =
                from[(size_t)i * (size_t)columns + (size_t)j];
    }
}

static void cpu_conv_backward_filter(const dl_windows *conv, const void *x, const void *dy,
                                     void *dweights, void *scratch)
{
    const int lines = conv->count * conv->out.rows;
    const int units = conv->out.channels, window = window_size(conv);
    const bool turned = is_filter_turned(conv);
    if (dl_winograd_fits(conv)) {
        dl_winograd_backward_filter(conv, x, dy, dweights, scratch);
        return;
    }
    dl_real *product = turned ? (dl_real *)scratch + tile_size(conv) : dweights;
    for (int first = 0, part; first < lines; first += part) {
        part = lines_left(conv, first);
        const tile at = make_tile(conv, x, first, part, scratch);
        const dl_real *output = (const dl_real *)dy + at.output;
        if (has_few_pixels(conv)) {
            few_weight_gradients(conv, &at, output, dweights);
            continue;
        }
        cpu_gemm(&(dl_gemm){.transpose_a = true,
                            .accumulate = first > 0,
                            .m = turned ? window : units,
                            .n = turned ? units : window,
                            .k = at.rows,
                            .a = turned ? at.windows : output,
                            .b = turned ? output : at.windows,
                            .c = product});
    }
    if (turned && !has_few_pixels(conv)) transpose(dweights, product, window, units);
}

static void cpu_conv_backward_data(const dl_windows *conv, const void *dy, const void *weights,
                                   void *dx, bool accumulate, void *scratch)
{
    const int lines = conv->count * conv->out.rows, units = conv->out.channels;
    const bool direct = is_pointwise(conv);
    if (dl_winograd_fits(conv)) {
        dl_winograd_backward_data(conv, dy, weights, dx, accumulate, scratch);
        return;
    }
    for (int first = 0, part; first < lines; first += part) {
        part = lines_left(conv, first);
        const size_t pixel = (size_t)first * (size_t)conv->out.columns;
        const dl_real *output = (const dl_real *)dy + pixel * (size_t)units;
        dl_real *windows = direct ? (dl_real *)dx + pixel * (size_t)conv->in.channels : scratch;
        if (has_few_pixels(conv)) {
            few_window_gradients(conv, part * conv->out.columns, output, weights, windows,
                                 direct && accumulate);
        } else {
            cpu_gemm(&(dl_gemm){.accumulate = direct && accumulate,
                                .m = part * conv->out.columns,
                                .n = window_size(conv),
                                .k = units,
                                .a = output,
                                .b = weights,
                                .c = windows});
        }
        if (direct) continue;
        if (!accumulate) zero_images(dx, conv, first, part);
        add_windows(dx, scratch, conv, first, part);
    }
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
    .gemm = cpu_gemm,
    .conv_scratch_bytes = cpu_conv_scratch_bytes,
    .conv_forward = cpu_conv_forward,
    .conv_backward_data = cpu_conv_backward_data,
    .conv_backward_filter = cpu_conv_backward_filter,
    .repeat_row = cpu_repeat_row,
    .sum_rows = cpu_sum_rows,
    .max_pool = cpu_max_pool,
    .max_pool_backward = cpu_max_pool_backward,
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
