#include <string.h>

#include "kernels/backend_cpu.h"

/* One image of im2row. Each window row is one contiguous piece of `piece` = kernel * channels
 * numbers. Inlined, so that a caller's constant `piece` turns the copy into a few moves. */
static inline __attribute__((always_inline)) dl_real *
copy_windows(dl_real *row, const dl_real *image, dl_shape shape, int kernel, int piece)
{
    const size_t stride = (size_t)shape.columns * (size_t)shape.channels;
    for (int y = 0; y + kernel <= shape.rows; y++) {
        for (int x = 0; x + kernel <= shape.columns; x++) {
            const dl_real *from = image + (size_t)y * stride + (size_t)x * (size_t)shape.channels;
            for (int ky = 0; ky < kernel; ky++) {
                memcpy(row, from, (size_t)piece * sizeof(dl_real));
                row += piece;
                from += stride;
            }
        }
    }
    return row;
}

DL_HOT void dl_cpu_im2row(void *rows, const void *images, int count, dl_shape image, int kernel)
{
    dl_real *row = rows;
    const dl_real *from = images;
    const int piece = kernel * image.channels;
    for (int i = 0; i < count; i++) {
        /* 5: a 5x5 window on one channel, the first layer of most digit networks */
        row = piece == 5 ? copy_windows(row, from, image, kernel, 5)
                         : copy_windows(row, from, image, kernel, piece);
        from += dl_shape_count(image);
    }
}

DL_HOT void dl_cpu_row2im(void *images, const void *rows, int count, dl_shape image, int kernel)
{
    const dl_real *restrict row = rows;
    dl_real *restrict to = images;
    const int piece = kernel * image.channels;
    const size_t stride = (size_t)image.columns * (size_t)image.channels;
    memset(images, 0, (size_t)count * dl_shape_count(image) * sizeof(dl_real));
    for (int i = 0; i < count; i++, to += dl_shape_count(image)) {
        for (int y = 0; y + kernel <= image.rows; y++) {
            for (int x = 0; x + kernel <= image.columns; x++) {
                dl_real *window = to + (size_t)y * stride + (size_t)x * (size_t)image.channels;
                for (int ky = 0; ky < kernel; ky++) {
                    for (int j = 0; j < piece; j++)
                        window[j] += row[j];
                    row += piece;
                    window += stride;
                }
            }
        }
    }
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

DL_HOT void dl_cpu_max_pool(void *y, int32_t *choice, const void *x, int count, dl_shape image)
{
    const int channels = image.channels;
    const size_t stride = (size_t)image.columns * (size_t)channels;
    const dl_real *from = x;
    dl_real *to = y;
    for (int row = 0; row < count * image.rows / 2; row++, from += stride) {
        for (int column = 0; column < image.columns / 2; column++) {
            pool_block(to, choice, from, from + stride, channels);
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

DL_HOT void dl_cpu_max_pool_backward(void *dx, const int32_t *choice, const void *dy, int count,
                                     dl_shape image)
{
    const int channels = image.channels;
    const size_t stride = (size_t)image.columns * (size_t)channels;
    const dl_real *from = dy;
    dl_real *to = dx;
    for (int row = 0; row < count * image.rows / 2; row++, to += stride) {
        for (int column = 0; column < image.columns / 2; column++) {
            unpool_block(to, to + stride, choice, from, channels);
            to += 2 * channels;
            from += channels;
            choice += channels;
        }
    }
}
