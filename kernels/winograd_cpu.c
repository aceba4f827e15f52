/* Winograd's minimal filtering F(2x2, 3x3) on the processor: see dl_winograd_fits.
 *
 * The image is cut into tiles of 2x2 outputs, each of which depends on 4x4 pixels d. With
 *       | 1  0 -1  0 |        |  1   0   0  |
 *   B = | 0  1  1  0 |    G = | 1/2 1/2 1/2 |    A = | 1  1  1  0 |
 *       | 0 -1  1  0 |        | 1/2-1/2 1/2 |        | 0  1 -1 -1 |
 *       | 0  1  0 -1 |        |  0   0   1  |
 * and V = B d B^T, U = G g G^T of a window's weights g, a tile's outputs are A M A^T, where each of
 * the 16 numbers of M is the sum over the channels of those of U and V: 16 products of matrices
 * [tiles x channels] [channels x filters]. dx is the same convolution of dy with the windows turned
 * by 180 degrees. The adjoint of all three gives the weights' gradient: with D = A^T dy A the 16
 * products dU = D^T V, summed over the tiles, and dg = G^T dU G.
 *
 * All factors are 0, 1 and 1/2, so rounding errors are small: in single precision, layers of VGG-19
 * with 8 to 32 samples, outputs and dx are off by 2e-7 to 8e-7 of their size (rms; products of the
 * definition by OpenBLAS: 2e-7 to 3e-7), weights' gradients by 2e-7 to 11e-7 (2e-7). */
#include <string.h>

#include "kernels/backend_cpu_internal.h"
#include "kernels/thread_team.h"

enum { PLACES = 16 }; /* numbers of a transformed tile */

/* Tiles of a block: V and M of up to 64 channels then fit into a 1 MiB level-2 cache, and each
 * number of U, which is in slower memory, is used in BLOCK_TILES products. */
enum { BLOCK_TILES = 96 };

/* With fewer tiles, transforming the weights costs more than the products save. */
enum { TILES_MIN = 12 };

typedef dl_real vec __attribute__((vector_size(64), aligned(sizeof(dl_real))));
enum { LANES = sizeof(vec) / sizeof(dl_real) };

static int tile_rows(const dl_windows *conv)
{
    return (conv->in.rows + 1) / 2;
}

static int tile_columns(const dl_windows *conv)
{
    return (conv->in.columns + 1) / 2;
}

static int tile_count(const dl_windows *conv)
{
    return conv->count * tile_rows(conv) * tile_columns(conv);
}

bool dl_winograd_fits(const dl_windows *conv)
{
    return conv->kernel == 3 && conv->stride == 1 && conv->padding == 1 &&
           conv->in.channels % DL_PANEL == 0 && conv->out.channels % DL_PANEL == 0 &&
           tile_count(conv) >= TILES_MIN;
}

/* Sizes of the parts of the scratch, in numbers. */
static size_t weights_size(const dl_windows *conv)
{
    return (size_t)PLACES * (size_t)conv->in.channels * (size_t)conv->out.channels;
}

static size_t tiles_size(int channels)
{
    return (size_t)PLACES * BLOCK_TILES * (size_t)channels;
}

static size_t outside_size(const dl_windows *conv)
{
    const int most =
        conv->in.channels > conv->out.channels ? conv->in.channels : conv->out.channels;
    return (size_t)most;
}

size_t dl_winograd_scratch_bytes(const dl_windows *conv)
{
    return (weights_size(conv) + tiles_size(conv->in.channels) + tiles_size(conv->out.channels) +
            outside_size(conv)) *
           sizeof(dl_real);
}

/* Parts of the scratch: U or dU, the tiles of x and of y, a pixel of zeros. */
typedef struct parts {
    dl_real *weights, *in, *out, *zeros;
} parts;

static parts cut_scratch(const dl_windows *conv, dl_real *scratch)
{
    parts p = {.weights = scratch};
    p.in = p.weights + weights_size(conv);
    p.out = p.in + tiles_size(conv->in.channels);
    p.zeros = p.out + tiles_size(conv->out.channels);
    memset(p.zeros, 0, outside_size(conv) * sizeof(dl_real));
    return p;
}

/* Strides of a block's transformed tiles. The index of number `place` of tile `at` in a channel is
 * place * plane + at * row + channel / DL_PANEL * panel + channel % DL_PANEL. */
typedef struct layout {
    size_t plane, row, panel;
} layout;

/* Each tile's channels are contiguous: the left operand of M = V U. */
static layout by_tile(int channels)
{
    return (layout){(size_t)BLOCK_TILES * (size_t)channels, (size_t)channels, DL_PANEL};
}

/* Panel by panel: the operands of dU = D^T V. */
static layout by_panel(int channels)
{
    return (layout){(size_t)BLOCK_TILES * (size_t)channels, DL_PANEL,
                    (size_t)BLOCK_TILES * DL_PANEL};
}

/* Finds the pixels of a tile, `side` x `side` from (row, column) on in image `sample`; pixels
 * outside the image become `outside`. */
static inline void find_pixels(dl_real **pixels, const dl_windows *conv, dl_real *images,
                               int channels, int tile, int offset, int side, dl_real *outside)
{
    const int columns = tile_columns(conv), rows = tile_rows(conv);
    const int sample = tile / (rows * columns);
    const int row = tile / columns % rows * 2 + offset, column = tile % columns * 2 + offset;
    for (int i = 0; i < side * side; i++) {
        const int y = row + i / side, x = column + i % side;
        const bool inside = y >= 0 && y < conv->in.rows && x >= 0 && x < conv->in.columns;
        const size_t pixel =
            ((size_t)sample * (size_t)conv->in.rows + (size_t)y) * (size_t)conv->in.columns +
            (size_t)x;
        pixels[i] = inside ? images + pixel * (size_t)channels : outside;
    }
}

/* to[16] = B d B^T of one vector of channels. */
static inline __attribute__((always_inline)) void
transform_input(dl_real *to, size_t plane, dl_real *const *pixels, size_t channel)
{
    vec half[4][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        vec d[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            d[i] = *(const vec *)(pixels[4 * i + j] + channel);
        half[0][j] = d[0] - d[2];
        half[1][j] = d[1] + d[2];
        half[2][j] = d[2] - d[1];
        half[3][j] = d[1] - d[3];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        dl_real *row = to + (size_t)(4 * i) * plane;
        *(vec *)row = half[i][0] - half[i][2];
        *(vec *)(row + plane) = half[i][1] + half[i][2];
        *(vec *)(row + 2 * plane) = half[i][2] - half[i][1];
        *(vec *)(row + 3 * plane) = half[i][1] - half[i][3];
    }
}

/* V of the tiles first .. first + count - 1. */
DL_HOT static void transform_inputs(dl_real *to, layout at, const dl_windows *conv,
                                    const dl_real *images, int channels, int first, int count,
                                    const dl_real *zeros)
{
    for (int t = 0; t < count; t++) {
        dl_real *pixels[16];
        find_pixels(pixels, conv, (dl_real *)images, channels, first + t, -1, 4, (dl_real *)zeros);
        for (int c = 0; c < channels; c += LANES) {
            dl_real *start = to + (size_t)t * at.row + (size_t)(c / DL_PANEL) * at.panel +
                             (size_t)(c % DL_PANEL);
            transform_input(start, at.plane, pixels, (size_t)c);
        }
    }
}

/* The 2x2 numbers A M A^T of one vector of channels. */
static inline __attribute__((always_inline)) void transform_output(vec *y, const dl_real *from,
                                                                   size_t plane)
{
    vec half[2][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        vec m[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            m[i] = *(const vec *)(from + (size_t)(4 * i + j) * plane);
        half[0][j] = m[0] + m[1] + m[2];
        half[1][j] = m[1] - m[2] - m[3];
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        y[2 * i] = half[i][0] + half[i][1] + half[i][2];
        y[2 * i + 1] = half[i][1] - half[i][2] - half[i][3];
    }
}

/* The outputs of the tiles first .. first + count - 1; bias may be NULL. */
DL_HOT static void transform_outputs(dl_real *images, const dl_real *from, const dl_windows *conv,
                                     int channels, int first, int count, const dl_real *bias,
                                     bool accumulate)
{
    const layout at = by_tile(channels);
    for (int t = 0; t < count; t++) {
        dl_real *pixels[4];
        find_pixels(pixels, conv, images, channels, first + t, 0, 2, NULL);
        for (int c = 0; c < channels; c += LANES) {
            vec y[4];
            transform_output(y, from + (size_t)t * at.row + (size_t)c, at.plane);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                if (pixels[i] == NULL) continue; /* outside the image */
                vec *to = (vec *)(pixels[i] + c);
                if (bias != NULL) y[i] += *(const vec *)(bias + c);
                *to = accumulate ? *to + y[i] : y[i];
            }
        }
    }
}

/* D = A^T dy A of the tiles first .. first + count - 1. */
DL_HOT static void transform_gradients(dl_real *to, layout at, const dl_windows *conv,
                                       const dl_real *images, int channels, int first, int count,
                                       const dl_real *zeros)
{
    for (int t = 0; t < count; t++) {
        dl_real *pixels[4];
        find_pixels(pixels, conv, (dl_real *)images, channels, first + t, 0, 2, (dl_real *)zeros);
        for (int c = 0; c < channels; c += LANES) {
            dl_real *start = to + (size_t)t * at.row + (size_t)(c / DL_PANEL) * at.panel +
                             (size_t)(c % DL_PANEL);
            vec half[4][2];
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                const vec above = *(const vec *)(pixels[j] + c);
                const vec below = *(const vec *)(pixels[2 + j] + c);
                half[0][j] = above;
                half[1][j] = above + below;
                half[2][j] = above - below;
                half[3][j] = -below;
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                dl_real *row = start + (size_t)(4 * i) * at.plane;
                *(vec *)row = half[i][0];
                *(vec *)(row + at.plane) = half[i][0] + half[i][1];
                *(vec *)(row + 2 * at.plane) = half[i][0] - half[i][1];
                *(vec *)(row + 3 * at.plane) = -half[i][1];
            }
        }
    }
}

/* u[16] = G g G^T of one vector of channels; g[ky][kx] lies `step` apart (negative: turned). */
static inline __attribute__((always_inline)) void transform_window(vec *u, const dl_real *g,
                                                                   ptrdiff_t step)
{
    const dl_real half = (dl_real)0.5;
    vec rows[4][3];
#pragma GCC unroll 3
    for (int j = 0; j < 3; j++) {
        const vec a = *(const vec *)(g + j * step), b = *(const vec *)(g + (3 + j) * step);
        const vec c = *(const vec *)(g + (6 + j) * step);
        rows[0][j] = a;
        rows[1][j] = half * (a + c + b);
        rows[2][j] = half * (a + c - b);
        rows[3][j] = c;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const vec ends = rows[i][0] + rows[i][2];
        u[4 * i] = rows[i][0];
        u[4 * i + 1] = half * (ends + rows[i][1]);
        u[4 * i + 2] = half * (ends - rows[i][1]);
        u[4 * i + 3] = rows[i][2];
    }
}

/* A transform of the weights, from or to the places of U; a loop over the filters. */
typedef struct weights_loop {
    const dl_windows *conv;
    const dl_real *from;
    dl_real *to;
} weights_loop;

/* U for y: u[place][panel of filters][channel][filter]. Transposes LANES filters x LANES channels
 * at a time. */
DL_HOT static void transform_weights_part(const void *loop, size_t first, size_t last)
{
    const weights_loop *w = loop;
    const dl_windows *conv = w->conv;
    const dl_real *weights = w->from;
    dl_real *u = w->to;
    const size_t channels = (size_t)conv->in.channels, filters = (size_t)conv->out.channels;
    for (size_t f = first; f < last; f += LANES) {
        for (size_t c = 0; c < channels; c += LANES) {
            vec block[LANES][PLACES];
            for (size_t i = 0; i < LANES; i++)
                transform_window(block[i], weights + (f + i) * 9 * channels + c,
                                 (ptrdiff_t)channels);
            dl_real *to = u + f / DL_PANEL * channels * DL_PANEL + c * DL_PANEL + f % DL_PANEL;
            for (size_t place = 0; place < PLACES; place++, to += channels * filters) {
                for (size_t j = 0; j < LANES; j++) {
                    vec row;
                    for (size_t i = 0; i < LANES; i++)
                        row[i] = block[i][place][j];
                    *(vec *)(to + j * DL_PANEL) = row;
                }
            }
        }
    }
}

/* U for dx: u[place][panel of channels][filter][channel] of the turned windows. */
DL_HOT static void transform_turned_weights_part(const void *loop, size_t first, size_t last)
{
    const weights_loop *w = loop;
    const dl_windows *conv = w->conv;
    const dl_real *weights = w->from;
    dl_real *u = w->to;
    const size_t channels = (size_t)conv->in.channels, filters = (size_t)conv->out.channels;
    for (size_t f = first; f < last; f++) {
        const dl_real *end = weights + f * 9 * channels + 8 * channels;
        for (size_t c = 0; c < channels; c += LANES) {
            vec block[PLACES];
            transform_window(block, end + c, -(ptrdiff_t)channels);
            dl_real *to = u + c / DL_PANEL * filters * DL_PANEL + f * DL_PANEL + c % DL_PANEL;
#pragma GCC unroll 16
            for (size_t place = 0; place < PLACES; place++, to += channels * filters)
                *(vec *)to = block[place];
        }
    }
}

/* dg = G^T dU G, of du[place][filter][channel]. */
DL_HOT static void transform_weight_gradients_part(const void *loop, size_t first, size_t last)
{
    const weights_loop *w = loop;
    const dl_windows *conv = w->conv;
    const dl_real *du = w->from;
    dl_real *dweights = w->to;
    const size_t channels = (size_t)conv->in.channels, filters = (size_t)conv->out.channels;
    const size_t plane = channels * filters;
    const dl_real half = (dl_real)0.5;
    for (size_t f = first; f < last; f++) {
        for (size_t c = 0; c < channels; c += LANES) {
            const dl_real *from = du + f * channels + c;
            dl_real *to = dweights + f * 9 * channels + c;
            vec rows[3][4];
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++) {
                vec d[4];
#pragma GCC unroll 4
                for (size_t i = 0; i < 4; i++)
                    d[i] = *(const vec *)(from + (4 * i + j) * plane);
                rows[0][j] = d[0] + half * (d[1] + d[2]);
                rows[1][j] = half * (d[1] - d[2]);
                rows[2][j] = half * (d[1] + d[2]) + d[3];
            }
#pragma GCC unroll 3
            for (size_t i = 0; i < 3; i++) {
                const vec sum = half * (rows[i][1] + rows[i][2]);
                *(vec *)(to + 3 * i * channels) = rows[i][0] + sum;
                *(vec *)(to + (3 * i + 1) * channels) = half * (rows[i][1] - rows[i][2]);
                *(vec *)(to + (3 * i + 2) * channels) = sum + rows[i][3];
            }
        }
    }
}

static void transform(dl_loop_part part, const dl_windows *conv, dl_real *to, const dl_real *from)
{
    dl_divide(part, &(weights_loop){conv, from, to}, (size_t)conv->out.channels, LANES);
}

static int tiles_left(const dl_windows *conv, int first)
{
    const int left = tile_count(conv) - first;
    return left < BLOCK_TILES ? left : BLOCK_TILES;
}

/* Input or output images of a convolution, and scratch memory for their tiles. */
typedef struct side {
    dl_real *images, *tiles;
    int channels;
} side;

/* Tiles first .. first + count - 1. Transforms are loops over the tiles, products are loops over
 * the 16 places, so that only one thread reads each number of U. */
typedef struct block {
    const dl_windows *conv;
    const parts *parts;
    side from, to;       /* for dW: `from` is x, `to` is dy */
    const dl_real *bias; /* or NULL */
    bool accumulate;     /* dx: add to it; dW: add to the products of earlier blocks */
    int first, count;
} block;

static void inputs_part(const void *loop, size_t first, size_t last)
{
    const block *b = loop;
    const layout at = by_tile(b->from.channels);
    transform_inputs(b->from.tiles + first * at.row, at, b->conv, b->from.images, b->from.channels,
                     b->first + (int)first, (int)(last - first), b->parts->zeros);
}

/* The products M = V U of the places first .. last - 1. */
static void products_part(const void *loop, size_t first, size_t last)
{
    const block *b = loop;
    const size_t channels = (size_t)b->from.channels, filters = (size_t)b->to.channels;
    const layout from = by_tile(b->from.channels), to = by_tile(b->to.channels);
    for (size_t place = first; place < last; place++) {
        dl_product_run(&(dl_product){
            .m = b->count,
            .n = b->to.channels,
            .k = b->from.channels,
            .a = b->from.tiles + place * from.plane,
            .a_row = from.row,
            .a_depth = 1,
            .b = b->parts->weights + place * channels * filters,
            .b_panel = channels * DL_PANEL,
            .b_depth = DL_PANEL,
            .c = b->to.tiles + place * to.plane,
            .c_row = to.row,
        });
    }
}

static void outputs_part(const void *loop, size_t first, size_t last)
{
    const block *b = loop;
    transform_outputs(b->to.images, b->to.tiles + first * by_tile(b->to.channels).row, b->conv,
                      b->to.channels, b->first + (int)first, (int)(last - first), b->bias,
                      b->accumulate);
}

/* Convolves with the transformed weights in the scratch. */
static void convolve(block b)
{
    for (b.first = 0; b.first < tile_count(b.conv); b.first += b.count) {
        b.count = tiles_left(b.conv, b.first);
        dl_divide(inputs_part, &b, (size_t)b.count, 1);
        dl_divide(products_part, &b, PLACES, 1);
        dl_divide(outputs_part, &b, (size_t)b.count, 1);
    }
}

void dl_winograd_forward(const dl_windows *conv, const dl_real *x, const dl_real *weights,
                         const dl_real *bias, dl_real *y, dl_real *scratch)
{
    const parts p = cut_scratch(conv, scratch);
    transform(transform_weights_part, conv, p.weights, weights);
    convolve((block){.conv = conv,
                     .parts = &p,
                     .from = {(dl_real *)x, p.in, conv->in.channels},
                     .to = {y, p.out, conv->out.channels},
                     .bias = bias});
}

void dl_winograd_backward_data(const dl_windows *conv, const dl_real *dy, const dl_real *weights,
                               dl_real *dx, bool accumulate, dl_real *scratch)
{
    const parts p = cut_scratch(conv, scratch);
    transform(transform_turned_weights_part, conv, p.weights, weights);
    convolve((block){.conv = conv,
                     .parts = &p,
                     .from = {(dl_real *)dy, p.out, conv->out.channels},
                     .to = {dx, p.in, conv->in.channels},
                     .accumulate = accumulate});
}

/* Computes V and D of tiles first .. last - 1 of the block. */
static void gradient_inputs_part(const void *loop, size_t first, size_t last)
{
    const block *b = loop;
    const layout in = by_panel(b->from.channels), out = by_panel(b->to.channels);
    const int tile = b->first + (int)first, count = (int)(last - first);
    transform_inputs(b->from.tiles + first * in.row, in, b->conv, b->from.images, b->from.channels,
                     tile, count, b->parts->zeros);
    transform_gradients(b->to.tiles + first * out.row, out, b->conv, b->to.images, b->to.channels,
                        tile, count, b->parts->zeros);
}

/* Computes the products dU = D^T V of places first .. last - 1, one panel of filters after another,
 * and adds them to those of earlier blocks. */
static void gradient_products_part(const void *loop, size_t first, size_t last)
{
    const block *b = loop;
    const int channels = b->from.channels, filters = b->to.channels;
    const layout in = by_panel(channels), out = by_panel(filters);
    for (size_t place = first; place < last; place++) {
        dl_real *plane = b->parts->weights + place * (size_t)channels * (size_t)filters;
        for (int f = 0; f < filters; f += DL_PANEL) {
            dl_product_run(&(dl_product){
                .m = DL_PANEL,
                .n = channels,
                .k = b->count,
                .accumulate = b->accumulate,
                .a = b->to.tiles + place * out.plane + (size_t)(f / DL_PANEL) * out.panel,
                .a_row = 1,
                .a_depth = out.row,
                .b = b->from.tiles + place * in.plane,
                .b_panel = in.panel,
                .b_depth = in.row,
                .c = plane + (size_t)f * (size_t)channels,
                .c_row = (size_t)channels,
            });
        }
    }
}

void dl_winograd_backward_filter(const dl_windows *conv, const dl_real *x, const dl_real *dy,
                                 dl_real *dweights, dl_real *scratch)
{
    const parts p = cut_scratch(conv, scratch);
    block b = {.conv = conv,
               .parts = &p,
               .from = {(dl_real *)x, p.in, conv->in.channels},
               .to = {(dl_real *)dy, p.out, conv->out.channels}};
    for (; b.first < tile_count(conv); b.first += b.count) {
        b.count = tiles_left(conv, b.first);
        b.accumulate = b.first > 0;
        dl_divide(gradient_inputs_part, &b, (size_t)b.count, 1);
        dl_divide(gradient_products_part, &b, PLACES, 1);
    }
    transform(transform_weight_gradients_part, conv, dweights, p.weights);
}
