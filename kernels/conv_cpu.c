/* Convolutions on the processor as matrix products; see dl_backend for effects and arguments.
 * Compiled for float and for double. */
#include <string.h>

#include "kernels/backend_cpu_internal.h"
#include "kernels/thread_team.h"

/* Bytes of a tile of `rows`: half of a 1 MiB level-2 cache; the product's packed operands use the
 * rest. On a Zen 5 core LeNet's step takes the same time with 256 KiB to 1 MiB. */
#define ROWS_BYTES ((size_t)512 * 1024)

/* Fewest rows of a tile, even if they exceed ROWS_BYTES: each product packs all weights again, at a
 * cost that must be small compared with the product. */
#define ROWS_MIN 256

/* Most filters for which the weights' gradient is computed transposed. OpenBLAS 0.3.21 on Zen 5,
 * 256 rows, transposed and not: 50 filters of 500 numbers 109 and 101 GFLOP/s; 64 of 576 120 and
 * 110; 256 of 2304 equal. */
#define FILTERS_TURNED 64

/* Returns how many numbers a window has. */
static int window_size(const dl_windows *conv)
{
    return conv->kernel * conv->kernel * conv->in.channels;
}

/* Whether the image itself serves as the rows, so that nothing is copied. */
static bool is_pointwise(const dl_windows *conv)
{
    return conv->kernel == 1 && conv->stride == 1 && conv->padding == 0;
}

/* Returns the number of output lines of a tile; a tile may begin and end within an image. */
static int tile_lines(const dl_windows *conv)
{
    const int all = conv->count * conv->out.rows;
    const size_t columns = (size_t)conv->out.columns;
    const size_t fit = ROWS_BYTES / (columns * (size_t)window_size(conv) * sizeof(dl_real));
    const size_t least = (ROWS_MIN + columns - 1) / columns;
    const size_t lines = is_pointwise(conv) ? (size_t)all : fit > least ? fit : least;
    return lines < (size_t)all ? (int)lines : all;
}

/* Returns how many numbers the rows of a full tile have. */
static size_t tile_size(const dl_windows *conv)
{
    if (is_pointwise(conv)) return 0;
    return (size_t)tile_lines(conv) * (size_t)conv->out.columns * (size_t)window_size(conv);
}

/* Whether the gradient of the weights is computed transposed, as [window x filters], in the scratch
 * behind the rows. With few filters this product is up to a tenth faster. */
static bool is_filter_turned(const dl_windows *conv)
{
    return conv->out.channels <= FILTERS_TURNED;
}

/* Whether channels fill panels, so that the products need no OpenBLAS. */
static bool has_panels(const dl_windows *conv)
{
    return conv->in.channels % DL_PANEL == 0 && conv->out.channels % DL_PANEL == 0;
}

/* Convolutions as matrix products. The windows of a few output lines are copied as rows[pixels x
 * window] into the scratch, a tile small enough for the level-2 cache; then y = rows W^T,  dW =
 * dy^T rows,  drows = dy W, which is added up to dx. The backward pass makes the rows again, which
 * costs less than keeping and fetching them. */
size_t dl_conv_scratch_bytes(const dl_windows *conv)
{
    const size_t weights = (size_t)window_size(conv) * (size_t)conv->out.channels;
    const bool keeps_weights = is_filter_turned(conv) || has_panels(conv);
    const size_t rows = (tile_size(conv) + (keeps_weights ? weights : 0)) * sizeof(dl_real);
    const size_t winograd = dl_winograd_fits(conv) ? dl_winograd_scratch_bytes(conv) : 0;
    return rows > winograd ? rows : winograd; /* with fewer samples Winograd may not apply */
}

/* First image line that the windows of output line `line` cover; it may lie outside the image. */
static int first_row(const dl_windows *conv, int line)
{
    return line % conv->out.rows * conv->stride - conv->padding;
}

/* Start of image line `row` in the image of output line `line`. */
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

/* Makes the rows of an output line all of whose windows lie inside the image. Each window row is
 * one piece of `piece` = kernel * channels contiguous numbers. Inlined, so that with a constant
 * `piece` the copy is a few moves. */
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

/* Makes the rows of an output line with windows beyond the edge of the image, where they are 0. */
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

/* Output lines from `first_line` on, whose windows are copied from the images to the scratch, or
 * added back. */
typedef struct window_lines {
    const dl_windows *conv;
    dl_real *images, *rows;
    int first_line, lines;
} window_lines;

/* Copies the windows of lines first .. last - 1 of these output lines. */
DL_HOT static void copy_windows_part(const void *loop, size_t first, size_t last)
{
    const window_lines *w = loop;
    const dl_windows *conv = w->conv;
    const dl_real *images = w->images;
    const int piece = conv->kernel * conv->in.channels;
    const size_t line_size = (size_t)conv->out.columns * (size_t)window_size(conv);
    const int begin = w->first_line + (int)first, end = w->first_line + (int)last;
    dl_real *rows = w->rows + first * line_size;
    for (int line = begin; line < end; line++, rows += line_size) {
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

/* Copies the windows of output lines first .. first + lines - 1 to rows[(line, x)][(ky, kx,
 * channel)]. */
static void copy_windows(dl_real *rows, const dl_real *images, const dl_windows *conv, int first,
                         int lines)
{
    const window_lines loop = {conv, (dl_real *)images, rows, first, lines};
    dl_divide(copy_windows_part, &loop, (size_t)lines, 1);
}

/* Adds the rows of output line `line` of a sample to its image lines first .. last - 1. */
static inline __attribute__((always_inline)) void
add_line(dl_real *image, const dl_real *rows, const dl_windows *conv, int line, int first, int last)
{
    const int channels = conv->in.channels, kernel = conv->kernel, piece = kernel * channels;
    const int line_size = conv->in.columns * channels;
    const int top = first_row(conv, line);
    int above, below;
    clip(top, conv->in.rows, kernel, &above, &below);
    if (top + above < first) above = first - top;
    if (top + below > last) below = last - top;
    for (int x = 0; x < conv->out.columns; x++, rows += kernel * piece) {
        const int left = x * conv->stride - conv->padding;
        int begin, end;
        clip(left, conv->in.columns, kernel, &begin, &end);
        const int width = (end - begin) * channels;
        const dl_real *restrict from = rows + above * piece + begin * channels;
        dl_real *restrict to = image + ((top + above) * conv->in.columns + left + begin) * channels;
        for (int ky = above; ky < below; ky++, from += piece, to += line_size) {
            for (int j = 0; j < width; j++)
                to[j] += from[j];
        }
    }
}

/* Adds the rows to image lines first .. last - 1, counted from the start of the first output line's
 * sample. Each pixel's additions are in the order of the output lines. */
DL_HOT static void add_windows_part(const void *loop, size_t first, size_t last)
{
    const window_lines *w = loop;
    const dl_windows *conv = w->conv;
    const size_t size = (size_t)conv->out.columns * (size_t)window_size(conv);
    const dl_real *rows = w->rows;
    const int sample = w->first_line / conv->out.rows;
    for (int line = w->first_line; line < w->first_line + w->lines; line++, rows += size) {
        const int before = (line / conv->out.rows - sample) * conv->in.rows;
        add_line(w->images + line_offset(conv, line, 0), rows, conv, line, (int)first - before,
                 (int)last - before);
    }
}

/* Transpose of copy_windows: adds each entry of `rows` to the pixel that it was copied from. */
static void add_windows(dl_real *images, const dl_real *rows, const dl_windows *conv, int first,
                        int lines)
{
    const window_lines loop = {conv, images, (dl_real *)rows, first, lines};
    const int samples = (first + lines - 1) / conv->out.rows - first / conv->out.rows + 1;
    dl_divide(add_windows_part, &loop, (size_t)samples * (size_t)conv->in.rows, 1);
}

/* Zeroes the images whose first output line is among first .. first + lines - 1, just before the
 * additions to them, so that they are in the cache. */
static void zero_images(dl_real *images, const dl_windows *conv, int first, int lines)
{
    const int begin = (first + conv->out.rows - 1) / conv->out.rows;
    const int end = (first + lines + conv->out.rows - 1) / conv->out.rows;
    const size_t size = dl_shape_count(conv->in);
    memset(images + (size_t)begin * size, 0, (size_t)(end - begin) * size * sizeof(dl_real));
}

/* The tile of output lines first .. first + lines - 1. */
typedef struct tile {
    int rows;      /* number of pixels */
    size_t output; /* start of its part of y or dy */
    const dl_real *windows;
} tile;

/* Makes the tile: copies its windows, or points to the image if that serves as the rows. */
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

/* Maximum number of pixels of a convolution whose products avoid OpenBLAS, which copies the weights
 * for each product, a cost that only many pixels repay. On a Zen 4 core OpenBLAS is faster from
 * about 50 pixels on. */
#define FEW_PIXELS 48

/* Rows of the weights' gradient computed together, so that writes to memory are long. */
#define GRADIENT_ROWS 12

/* Pixels of a block, the rows of an output that are computed together: their windows and gradients
 * fit into the level-2 cache. */
#define BLOCK_PIXELS 96

/* Depth of a panel of weights that stays in the cache for all rows of a block. */
#define BLOCK_DEPTH 256

static int pixel_count(const dl_windows *conv)
{
    return conv->count * conv->out.rows * conv->out.columns;
}

static bool has_few_pixels(const dl_windows *conv)
{
    return has_panels(conv) && pixel_count(conv) <= FEW_PIXELS;
}

/* From this number of pixels on the weights are copied once for all products; with AVX-512 these
 * are then faster than OpenBLAS, which copies all operands. On a core of an Intel Xeon, in GFLOP/s,
 * with 25,000 pixels, 64 channels, 256 filters: 145 against 101; with 1568, 256, 1024: 187 against
 * 178; with 392, 512, 2048: 131 against 162. */
#define MANY_PIXELS 768

static bool has_many_pixels(const dl_windows *conv)
{
    return has_panels(conv) && pixel_count(conv) >= MANY_PIXELS && dl_product_outruns_blas();
}

/* Whether products of dy and windows need no copy. */
static bool has_direct_gradients(const dl_windows *conv)
{
    return has_panels(conv) && (has_few_pixels(conv) || dl_product_outruns_blas());
}

/* Operands of a product that are not copied: windows or their gradients, weights or their
 * gradients, dy or y. */
typedef struct direct_product {
    const dl_windows *conv;
    int pixels;
    bool accumulate;
    const dl_real *left, *right;
    dl_real *product;
} direct_product;

/* y[pixels x filters] = windows W^T, or +=, filters first .. last - 1 */
static void few_outputs_part(const void *loop, size_t first, size_t last)
{
    const direct_product *direct = loop;
    const size_t window = (size_t)window_size(direct->conv);
    dl_dots_run(&(dl_dots){.m = direct->pixels,
                           .n = (int)(last - first),
                           .k = (int)window,
                           .accumulate = direct->accumulate,
                           .a = direct->left,
                           .a_row = window,
                           .b = direct->right + first * window,
                           .b_row = window,
                           .c = direct->product + first,
                           .c_row = (size_t)direct->conv->out.channels});
}

static void few_outputs(const dl_windows *conv, const tile *at, const dl_real *weights, dl_real *y,
                        bool accumulate)
{
    const direct_product loop = {conv, at->rows, accumulate, at->windows, weights, y};
    dl_divide(few_outputs_part, &loop, (size_t)conv->out.channels, DL_PANEL);
}

/* dW = dy^T windows, or +=, filters first .. last - 1 */
static void weight_gradients_part(const void *loop, size_t first, size_t last)
{
    const direct_product *direct = loop;
    const size_t units = (size_t)direct->conv->out.channels;
    const size_t window = (size_t)window_size(direct->conv);
    for (size_t pixel = 0; pixel < (size_t)direct->pixels; pixel += BLOCK_PIXELS) {
        const size_t pixels = (size_t)direct->pixels - pixel;
        for (size_t f = first; f < last; f += GRADIENT_ROWS) {
            const size_t left = last - f;
            dl_product_run(&(dl_product){.m = left < GRADIENT_ROWS ? (int)left : GRADIENT_ROWS,
                                         .n = (int)window,
                                         .k = pixels < BLOCK_PIXELS ? (int)pixels : BLOCK_PIXELS,
                                         .accumulate = direct->accumulate || pixel > 0,
                                         .a = direct->left + pixel * units + f,
                                         .a_row = 1,
                                         .a_depth = units,
                                         .b = direct->right + pixel * window,
                                         .b_panel = DL_PANEL,
                                         .b_depth = window,
                                         .c = direct->product + f * window,
                                         .c_row = window});
        }
    }
}

static void weight_gradients(const dl_windows *conv, const tile *at, const dl_real *dy,
                             dl_real *dweights, bool accumulate)
{
    const direct_product loop = {conv, at->rows, accumulate, dy, at->windows, dweights};
    dl_divide(weight_gradients_part, &loop, (size_t)conv->out.channels, GRADIENT_ROWS);
}

/* windows = dy W, or +=, numbers first .. last - 1 of each window */
static void few_window_gradients_part(const void *loop, size_t first, size_t last)
{
    const direct_product *direct = loop;
    const size_t window = (size_t)window_size(direct->conv);
    dl_product_run(&(dl_product){.m = direct->pixels,
                                 .n = (int)(last - first),
                                 .k = direct->conv->out.channels,
                                 .accumulate = direct->accumulate,
                                 .a = direct->left,
                                 .a_row = (size_t)direct->conv->out.channels,
                                 .a_depth = 1,
                                 .b = direct->right + first,
                                 .b_panel = DL_PANEL,
                                 .b_depth = window,
                                 .c = direct->product + first,
                                 .c_row = window});
}

static void few_window_gradients(const dl_windows *conv, int pixels, const dl_real *dy,
                                 const dl_real *weights, dl_real *windows, bool accumulate)
{
    const direct_product loop = {conv, pixels, accumulate, dy, weights, windows};
    dl_divide(few_window_gradients_part, &loop, (size_t)window_size(conv), DL_PANEL);
}

/* Operands of a loop over the filters that copies the weights into panels. */
typedef struct panels_loop {
    const dl_real *weights;
    dl_real *panels;
    size_t window, units;
} panels_loop;

/* panels[filter / DL_PANEL][number of the window][filter % DL_PANEL] */
DL_HOT static void filter_panels_part(const void *loop, size_t first, size_t last)
{
    enum { SIDE = 64 / sizeof(dl_real) }; /* side of a transposed block: a cache line */
    const panels_loop *p = loop;
    const size_t window = p->window;
    for (size_t f = first; f < last; f += SIDE) {
        for (size_t i = 0; i < window; i += SIDE) {
            const dl_real *from = p->weights + f * window + i;
            dl_real *to = p->panels + (f / DL_PANEL * window + i) * DL_PANEL + f % DL_PANEL;
            for (size_t row = 0; row < SIDE; row++) {
                for (size_t column = 0; column < SIDE; column++)
                    to[row * DL_PANEL + column] = from[column * window + row];
            }
        }
    }
}

/* panels[number of the window / DL_PANEL][filter][number % DL_PANEL] */
static void window_panels_part(const void *loop, size_t first, size_t last)
{
    const panels_loop *p = loop;
    for (size_t f = first; f < last; f++) {
        const dl_real *from = p->weights + f * p->window;
        dl_real *to = p->panels + f * DL_PANEL;
        for (size_t i = 0; i < p->window; i += DL_PANEL, to += p->units * DL_PANEL)
            memcpy(to, from + i, DL_PANEL * sizeof(dl_real));
    }
}

static void copy_panels(dl_loop_part part, const dl_windows *conv, const dl_real *weights,
                        dl_real *panels)
{
    const panels_loop loop = {weights, panels, (size_t)window_size(conv),
                              (size_t)conv->out.channels};
    dl_divide(part, &loop, (size_t)conv->out.channels, DL_PANEL / 4);
}

/* c[rows x n] = a[rows x k] times panels[k x n], or +=; a loop over the rows. */
typedef struct panels_product {
    size_t k, n;
    bool accumulate;
    const dl_real *a, *panels;
    dl_real *c;
} panels_product;

static void panels_product_part(const void *loop, size_t first, size_t last)
{
    const panels_product *p = loop;
    for (size_t row = first; row < last; row += BLOCK_PIXELS) {
        const size_t rows = last - row;
        for (size_t depth = 0; depth < p->k; depth += BLOCK_DEPTH) {
            const size_t left = p->k - depth;
            dl_product_run(&(dl_product){.m = rows < BLOCK_PIXELS ? (int)rows : BLOCK_PIXELS,
                                         .n = (int)p->n,
                                         .k = left < BLOCK_DEPTH ? (int)left : BLOCK_DEPTH,
                                         .accumulate = p->accumulate || depth > 0,
                                         .a = p->a + row * p->k + depth,
                                         .a_row = p->k,
                                         .a_depth = 1,
                                         .b = p->panels + depth * DL_PANEL,
                                         .b_panel = p->k * DL_PANEL,
                                         .b_depth = DL_PANEL,
                                         .c = p->c + row * p->n,
                                         .c_row = p->n});
        }
    }
}

static void multiply_panels(panels_product product, int rows)
{
    dl_divide(panels_product_part, &product, (size_t)rows, BLOCK_PIXELS / 2);
}

void dl_conv_forward(const dl_windows *conv, const void *x, const void *weights, const void *bias,
                     void *y, void *scratch)
{
    const int units = conv->out.channels, lines = conv->count * conv->out.rows;
    if (dl_winograd_fits(conv)) {
        dl_winograd_forward(conv, x, weights, bias, y, scratch);
        return;
    }
    dl_real *panels = (dl_real *)scratch + tile_size(conv);
    if (has_many_pixels(conv)) copy_panels(filter_panels_part, conv, weights, panels);
    for (int first = 0, part; first < lines; first += part) {
        part = lines_left(conv, first);
        const tile at = make_tile(conv, x, first, part, scratch);
        dl_real *output = (dl_real *)y + at.output;
        if (bias != NULL) dl_repeat_row(output, bias, at.rows, units);
        if (has_few_pixels(conv)) {
            few_outputs(conv, &at, weights, output, bias != NULL);
            continue;
        }
        if (has_many_pixels(conv)) {
            multiply_panels((panels_product){.k = (size_t)window_size(conv),
                                             .n = (size_t)units,
                                             .accumulate = bias != NULL,
                                             .a = at.windows,
                                             .panels = panels,
                                             .c = output},
                            at.rows);
            continue;
        }
        dl_gemm_run(&(dl_gemm){.transpose_b = true,
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

void dl_conv_backward_filter(const dl_windows *conv, const void *x, const void *dy, void *dweights,
                             void *scratch)
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
        if (has_direct_gradients(conv)) {
            weight_gradients(conv, &at, output, dweights, first > 0);
            continue;
        }
        dl_gemm_run(&(dl_gemm){.transpose_a = true,
                               .accumulate = first > 0,
                               .m = turned ? window : units,
                               .n = turned ? units : window,
                               .k = at.rows,
                               .a = turned ? at.windows : output,
                               .b = turned ? output : at.windows,
                               .c = product});
    }
    if (turned && !has_direct_gradients(conv)) transpose(dweights, product, window, units);
}

void dl_conv_backward_data(const dl_windows *conv, const void *dy, const void *weights, void *dx,
                           bool accumulate, void *scratch)
{
    const int lines = conv->count * conv->out.rows, units = conv->out.channels;
    const bool direct = is_pointwise(conv);
    if (dl_winograd_fits(conv)) {
        dl_winograd_backward_data(conv, dy, weights, dx, accumulate, scratch);
        return;
    }
    dl_real *panels = (dl_real *)scratch + tile_size(conv);
    if (has_many_pixels(conv)) copy_panels(window_panels_part, conv, weights, panels);
    for (int first = 0, part; first < lines; first += part) {
        part = lines_left(conv, first);
        const size_t pixel = (size_t)first * (size_t)conv->out.columns;
        const dl_real *output = (const dl_real *)dy + pixel * (size_t)units;
        dl_real *windows = direct ? (dl_real *)dx + pixel * (size_t)conv->in.channels : scratch;
        if (has_few_pixels(conv)) {
            few_window_gradients(conv, part * conv->out.columns, output, weights, windows,
                                 direct && accumulate);
        } else if (has_many_pixels(conv)) {
            multiply_panels((panels_product){.k = (size_t)units,
                                             .n = (size_t)window_size(conv),
                                             .accumulate = direct && accumulate,
                                             .a = output,
                                             .panels = panels,
                                             .c = windows},
                            part * conv->out.columns);
        } else {
            dl_gemm_run(&(dl_gemm){.accumulate = direct && accumulate,
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
