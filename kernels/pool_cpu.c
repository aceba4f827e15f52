/* Pooling on the processor; see dl_backend for effects and arguments. Compiled for float and for
 * double. */
#include <string.h>

#include "kernels/backend_cpu_internal.h"
#include "kernels/thread_team.h"

/* Operands of a pooling or of its gradient. */
typedef struct pooling {
    const dl_windows *windows;
    const dl_real *from;
    dl_real *to;
    int32_t *choice; /* written by the pooling, read by the gradient */
} pooling;

/* Whether the windows are adjacent 2x2 blocks, the most common pooling, which has separate
 * loops. */
static bool is_blocks(const dl_windows *pool)
{
    return pool->kernel == 2 && pool->stride == 2 && pool->padding == 0 && pool->in.rows % 2 == 0 &&
           pool->in.columns % 2 == 0;
}

/* Pools one block of 2x2 pixels, all channels: a and b above d and e. The arrays are restrict
 * arguments, so that the compiler may assume that they do not overlap. */
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

/* Pools output lines first .. last - 1 of all samples. */
DL_HOT static void pool_blocks_part(const void *loop, size_t first, size_t last)
{
    const pooling *p = loop;
    const dl_windows *pool = p->windows;
    const int channels = pool->in.channels;
    const size_t line = (size_t)pool->in.columns * (size_t)channels;
    const dl_real *from = p->from + 2 * first * line;
    const size_t start = first * (size_t)pool->out.columns * (size_t)channels;
    dl_real *to = p->to + start;
    int32_t *choice = p->choice + start;
    for (size_t row = first; row < last; row++, from += line) {
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

DL_HOT static void unpool_blocks_part(const void *loop, size_t first, size_t last)
{
    const pooling *p = loop;
    const dl_windows *pool = p->windows;
    const int channels = pool->in.channels;
    const size_t line = (size_t)pool->in.columns * (size_t)channels;
    const size_t start = first * (size_t)pool->out.columns * (size_t)channels;
    const dl_real *from = p->from + start;
    const int32_t *choice = p->choice + start;
    dl_real *to = p->to + 2 * first * line;
    for (size_t row = first; row < last; row++, to += line) {
        for (int column = 0; column < pool->out.columns; column++) {
            unpool_block(to, to + line, choice, from, channels);
            to += 2 * channels;
            from += channels;
            choice += channels;
        }
    }
}

/* Start of the channels of pixel (ky, kx) of the window of output pixel `at` (counted over all
 * samples) in the image; SIZE_MAX if it lies outside. */
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

/* Pools output pixels first .. last - 1 of all samples. */
DL_HOT static void pool_windows_part(const void *loop, size_t first, size_t last)
{
    const pooling *p = loop;
    const dl_windows *pool = p->windows;
    const dl_real *from = p->from;
    const int channels = pool->in.channels;
    dl_real *to = p->to + first * (size_t)channels;
    int32_t *choice = p->choice + first * (size_t)channels;
    for (int at = (int)first; at < (int)last; at++, to += channels, choice += channels) {
        bool empty = true;
        for (int place = 0; place < pool->kernel * pool->kernel; place++) {
            const size_t pixel = window_pixel(pool, at, place / pool->kernel, place % pool->kernel);
            if (pixel == SIZE_MAX) continue;
            if (empty) {
                memcpy(to, from + pixel, (size_t)channels * sizeof(dl_real));
                for (int c = 0; c < channels; c++)
                    choice[c] = place;
                empty = false;
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

/* Gradients of channels first .. last - 1. The loop is divided by channels, since windows
 * overlap. */
DL_HOT static void unpool_windows_part(const void *loop, size_t first, size_t last)
{
    const pooling *p = loop;
    const dl_windows *pool = p->windows;
    const size_t channels = (size_t)pool->in.channels, width = last - first;
    const size_t inputs = (size_t)pool->count * dl_shape_count(pool->in) / channels;
    const int outputs = pool->count * pool->out.rows * pool->out.columns;
    const dl_real *from = p->from + first;
    const int32_t *choice = p->choice + first;
    dl_real *to = p->to + first;
    for (size_t pixel = 0; pixel < inputs; pixel++)
        memset(to + pixel * channels, 0, width * sizeof *to);
    for (int at = 0; at < outputs; at++, from += channels, choice += channels) {
        for (int place = 0; place < pool->kernel * pool->kernel; place++) {
            const size_t pixel = window_pixel(pool, at, place / pool->kernel, place % pool->kernel);
            if (pixel != SIZE_MAX) add_chosen(to + pixel, choice, from, place, (int)width);
        }
    }
}

void dl_max_pool(const dl_windows *pool, const void *x, void *y, int32_t *choice)
{
    const pooling loop = {pool, x, y, choice};
    const size_t lines = (size_t)pool->count * (size_t)pool->out.rows;
    if (is_blocks(pool)) {
        dl_divide(pool_blocks_part, &loop, lines, 1);
    } else {
        dl_divide(pool_windows_part, &loop, lines * (size_t)pool->out.columns, 16);
    }
}

void dl_max_pool_backward(const dl_windows *pool, const int32_t *choice, const void *dy, void *dx)
{
    const pooling loop = {pool, dy, dx, (int32_t *)choice};
    if (is_blocks(pool)) {
        dl_divide(unpool_blocks_part, &loop, (size_t)pool->count * (size_t)pool->out.rows, 1);
    } else {
        dl_divide(unpool_windows_part, &loop, (size_t)pool->in.channels, 16);
    }
}
