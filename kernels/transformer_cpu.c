/* Layer normalisation, GELU and causal attention on the processor; see dl_backend. Compiled for
 * float and for double. */
#include <math.h>
#include <string.h>
#include <tgmath.h>

#include "common/alloc.h"
#include "kernels/backend_cpu_internal.h"
#include "kernels/blas.h"
#include "kernels/thread_team.h"

enum {
    LANES = 64 / sizeof(dl_real), /* partial sums of a row */
    BLOCK = 64,                   /* columns summed together; queries of one block of scores */
    PART_MIN = 4096               /* minimum numbers of a part, as in backend_cpu.c */
};

/* e^x. In float by Cephes' expf, which vectorises: x = n ln 2 + r, and a polynomial in r; x is
 * clamped to -87 to 88. */
static inline __attribute__((always_inline)) dl_real exponential(dl_real x)
{
    if (sizeof x == sizeof(double)) return exp(x);
    const float rounder = 12582912.0f; /* 1.5 x 2^23: a sum with it has no fraction */
    float f = (float)x;
    f = f > -87.0f ? f : -87.0f;
    f = f < 88.0f ? f : 88.0f;
    const float n = (f * 1.44269504f + rounder) - rounder;
    const float r = f - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const union {
        int32_t bits;
        float value;
    } power = {.bits = ((int32_t)n + 127) * (1 << 23)};
    return (dl_real)((p * r * r + r + 1.0f) * power.value);
}

static size_t rows_grain(int columns)
{
    return columns >= PART_MIN ? 1 : (size_t)(PART_MIN / columns);
}

/* --- layer normalisation --------------------------------------------------------------------- */

typedef struct row_norm {
    const dl_row_norm *norm;
    const dl_real *dy;
    dl_real *y, *dscale, *dshift; /* y: also the input's gradient */
} row_norm;

/* Sums of x - from, and of their squares. */
static inline __attribute__((always_inline)) void
row_sums(const dl_real *restrict x, int columns, dl_real from, dl_real *sum, dl_real *squares)
{
    dl_real s[LANES] = {0}, q[LANES] = {0};
    int c = 0;
    for (; c + LANES <= columns; c += LANES) {
        for (int l = 0; l < LANES; l++) {
            const dl_real d = x[c + l] - from;
            s[l] += d;
            q[l] += d * d;
        }
    }
    for (int l = 0; c < columns; c++, l++) {
        const dl_real d = x[c] - from;
        s[l] += d;
        q[l] += d * d;
    }
    *sum = *squares = 0;
    for (int l = 0; l < LANES; l++) {
        *sum += s[l];
        *squares += q[l];
    }
}

DL_HOT static void row_norm_part(const void *loop, size_t first, size_t last)
{
    const row_norm *of = loop;
    const dl_row_norm *norm = of->norm;
    const int columns = norm->columns;
    const dl_real *restrict scale = norm->scale, *restrict shift = norm->shift;
    dl_real *mean = norm->mean, *inverse = norm->inverse_deviation;
    for (size_t i = first; i < last; i++) {
        const dl_real *restrict x = (const dl_real *)norm->x + i * (size_t)columns;
        dl_real *restrict y = of->y + i * (size_t)columns;
        dl_real sum, squares;
        row_sums(x, columns, 0, &sum, &squares);
        const dl_real middle = sum / (dl_real)columns;
        row_sums(x, columns, middle, &sum, &squares);
        const dl_real by = 1 / sqrt(squares / (dl_real)columns + (dl_real)norm->epsilon);
        mean[i] = middle;
        inverse[i] = by;
        for (int c = 0; c < columns; c++)
            y[c] = scale[c] * ((x[c] - middle) * by) + shift[c];
    }
}

static void cpu_row_norm(const dl_row_norm *norm, void *y)
{
    dl_divide(row_norm_part, &(row_norm){.norm = norm, .y = y}, (size_t)norm->rows,
              rows_grain(norm->columns));
}

/* With z the normalised x, g = scale dy and means over the row: dx = (g - mean(g) - z mean(g z)) /
 * deviation (Ba, Kiros and Hinton 2016, arXiv 1607.06450, by the chain rule). */
DL_HOT static void row_gradient_part(const void *loop, size_t first, size_t last)
{
    const row_norm *of = loop;
    const dl_row_norm *norm = of->norm;
    const int columns = norm->columns;
    const dl_real *restrict scale = norm->scale;
    for (size_t i = first; i < last; i++) {
        const dl_real *restrict x = (const dl_real *)norm->x + i * (size_t)columns;
        const dl_real *restrict dy = of->dy + i * (size_t)columns;
        dl_real *restrict dx = of->y + i * (size_t)columns;
        const dl_real middle = ((const dl_real *)norm->mean)[i];
        const dl_real by = ((const dl_real *)norm->inverse_deviation)[i];
        dl_real g[LANES] = {0}, gz[LANES] = {0}, g_mean = 0, gz_mean = 0;
        int c = 0;
        for (; c + LANES <= columns; c += LANES) {
            for (int l = 0; l < LANES; l++) {
                const dl_real one = scale[c + l] * dy[c + l];
                g[l] += one;
                gz[l] += one * ((x[c + l] - middle) * by);
            }
        }
        for (; c < columns; c++) {
            g[0] += scale[c] * dy[c];
            gz[0] += scale[c] * dy[c] * ((x[c] - middle) * by);
        }
        for (int l = 0; l < LANES; l++) {
            g_mean += g[l] / (dl_real)columns;
            gz_mean += gz[l] / (dl_real)columns;
        }
        for (c = 0; c < columns; c++)
            dx[c] = by * (scale[c] * dy[c] - g_mean - (x[c] - middle) * by * gz_mean);
    }
}

/* Gradients of scale and shift of columns first .. last - 1. */
DL_HOT static void row_parameters_part(const void *loop, size_t first, size_t last)
{
    const row_norm *of = loop;
    const dl_row_norm *norm = of->norm;
    const size_t columns = (size_t)norm->columns;
    const dl_real *mean = norm->mean, *inverse = norm->inverse_deviation;
    for (size_t at = first; at < last; at += BLOCK) {
        const size_t width = last - at < BLOCK ? last - at : BLOCK;
        dl_real shift[BLOCK] = {0}, scale[BLOCK] = {0};
        for (size_t i = 0; i < (size_t)norm->rows; i++) {
            const dl_real *restrict x = (const dl_real *)norm->x + i * columns + at;
            const dl_real *restrict dy = of->dy + i * columns + at;
            for (size_t c = 0; c < width; c++) {
                shift[c] += dy[c];
                scale[c] += dy[c] * ((x[c] - mean[i]) * inverse[i]);
            }
        }
        memcpy(of->dshift + at, shift, width * sizeof *shift);
        memcpy(of->dscale + at, scale, width * sizeof *scale);
    }
}

static void cpu_row_norm_backward(const dl_row_norm *norm, const void *dy, void *dscale,
                                  void *dshift, void *dx)
{
    const row_norm of = {.norm = norm, .dy = dy, .y = dx, .dscale = dscale, .dshift = dshift};
    dl_divide(row_gradient_part, &of, (size_t)norm->rows, rows_grain(norm->columns));
    dl_divide(row_parameters_part, &of, (size_t)norm->columns, BLOCK);
}

/* --- GELU ------------------------------------------------------------------------------------ */

/* With u = sqrt(2 / pi) (x + CUBE x^3): (1 + tanh u) / 2 = 1 / (1 + e^-2u) = the part of x that
 * passes (Hendrycks and Gimpel 2016, arXiv 1606.08415). */
#define TWICE_ROOT ((dl_real)1.5957691216057308) /* 2 sqrt(2 / pi) */
#define CUBE ((dl_real)0.044715)

static inline __attribute__((always_inline)) dl_real passing(dl_real x)
{
    const dl_real minus = -TWICE_ROOT * (x + CUBE * x * x * x);
    return 1 / (1 + exponential(minus > 80 ? 80 : minus));
}

typedef struct gelu {
    const dl_real *x, *dy;
    dl_real *to;
} gelu;

DL_HOT static void gelu_part(const void *loop, size_t first, size_t last)
{
    const gelu *of = loop;
    const dl_real *restrict x = of->x;
    dl_real *restrict y = of->to;
    for (size_t i = first; i < last; i++)
        y[i] = x[i] * passing(x[i]);
}

static void cpu_gelu(void *y, const void *x, size_t count)
{
    dl_divide(gelu_part, &(gelu){.x = x, .to = y}, count, PART_MIN);
}

DL_HOT static void gelu_backward_part(const void *loop, size_t first, size_t last)
{
    const gelu *of = loop;
    const dl_real *restrict x = of->x, *restrict dy = of->dy;
    dl_real *restrict dx = of->to;
    for (size_t i = first; i < last; i++) {
        const dl_real p = passing(x[i]);
        const dl_real slope = TWICE_ROOT * (1 + 3 * CUBE * x[i] * x[i]);
        dx[i] = dy[i] * (p + x[i] * p * (1 - p) * slope);
    }
}

static void cpu_gelu_backward(void *dx, const void *dy, const void *x, size_t count)
{
    dl_divide(gelu_backward_part, &(gelu){.x = x, .dy = dy, .to = dx}, count, PART_MIN);
}

/* --- attention ------------------------------------------------------------------------------- */

/* Attention is computed in blocks of queries, of which no scores are kept (Dao et al. 2022, arXiv
 * 2205.14135): the backward pass makes them again from the logarithms of their sums. */
typedef struct attention {
    const dl_heads *of;
    const dl_real *dy;
    dl_real *dq, *dk, *dv;
} attention;

static int blocks_of(const dl_heads *of)
{
    return (of->tokens + BLOCK - 1) / BLOCK;
}

/* c[m x n] = factor op(a) b + old c, with rows of the given lengths. */
static void product(bool transpose_a, bool transpose_b, int m, int n, int k, dl_real factor,
                    const dl_real *a, int a_row, const dl_real *b, dl_real old, dl_real *c,
                    int c_row)
{
    dl_blas_loaded()->DL_TYPED(gemm)(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                                     transpose_b ? CblasTrans : CblasNoTrans, m, n, k, factor, a,
                                     a_row, b, transpose_b ? k : n, old, c, c_row);
}

/* scores[seen] = e^(scores - maximum), and 0 up to `keys`; returns the sum. */
DL_HOT static dl_real exponentials(dl_real *restrict scores, int seen, int keys, dl_real *maximum)
{
    dl_real top = scores[0], sum[LANES] = {0};
    for (int j = 1; j < seen; j++)
        top = scores[j] > top ? scores[j] : top;
    for (int j = 0; j < seen; j++)
        scores[j] = exponential(scores[j] - top);
    for (int j = seen; j < keys; j++)
        scores[j] = 0;
    int j = 0;
    for (; j + LANES <= seen; j += LANES)
        for (int l = 0; l < LANES; l++)
            sum[l] += scores[j + l];
    for (; j < seen; j++)
        sum[0] += scores[j];
    for (int l = 1; l < LANES; l++)
        sum[0] += sum[l];
    *maximum = top;
    return sum[0];
}

static void attend_part(const void *loop, size_t first, size_t last)
{
    const dl_heads *of = ((const attention *)loop)->of;
    const int size = of->size, blocks = blocks_of(of);
    const size_t head_numbers = (size_t)of->tokens * (size_t)size;
    DL_AUTOFREE dl_real *scores =
        dl_alloc_aligned((size_t)BLOCK * (size_t)of->tokens * sizeof *scores, "scores");
    for (size_t part = first; part < last; part++) {
        const size_t head = part / (size_t)blocks;
        const int begin = (int)(part % (size_t)blocks) * BLOCK;
        const int left = of->tokens - begin, rows = left < BLOCK ? left : BLOCK;
        const int keys = begin + rows;
        const dl_real *k = (const dl_real *)of->k + head * head_numbers;
        const dl_real *v = (const dl_real *)of->v + head * head_numbers;
        const size_t at = head * head_numbers + (size_t)begin * (size_t)size;
        dl_real *y = (dl_real *)of->y + at;
        dl_real *log_sums = (dl_real *)of->log_sums + head * (size_t)of->tokens + begin;
        dl_real sums[BLOCK];
        product(false, true, rows, keys, size, 1 / sqrt((dl_real)size), (const dl_real *)of->q + at,
                size, k, 0, scores, keys);
        for (int i = 0; i < rows; i++) {
            dl_real top;
            sums[i] = exponentials(scores + (size_t)i * (size_t)keys, begin + i + 1, keys, &top);
            log_sums[i] = top + log(sums[i]);
        }
        product(false, false, rows, size, keys, 1, scores, keys, v, 0, y, size);
        for (int i = 0; i < rows; i++)
            for (int d = 0; d < size; d++)
                y[i * size + d] /= sums[i];
    }
}

static void cpu_attend(const dl_heads *of)
{
    dl_divide(attend_part, &(attention){.of = of}, (size_t)of->heads * (size_t)blocks_of(of), 1);
}

/* probabilities[seen] = e^(scores - log_sum), 0 up to `keys`; slopes, which hold dy v^T, become the
 * scores' gradients: probabilities (slopes - mean). */
DL_HOT static void score_gradients(dl_real *restrict scores, dl_real *restrict slopes, int seen,
                                   int keys, dl_real log_sum, dl_real mean)
{
    for (int j = 0; j < seen; j++) {
        scores[j] = exponential(scores[j] - log_sum);
        slopes[j] = scores[j] * (slopes[j] - mean);
    }
    for (int j = seen; j < keys; j++)
        scores[j] = slopes[j] = 0;
}

/* Gradients of heads first .. last - 1, whose blocks add to the same keys and values. */
static void attend_backward_part(const void *loop, size_t first, size_t last)
{
    const attention *back = loop;
    const dl_heads *of = back->of;
    const int size = of->size;
    const size_t head_numbers = (size_t)of->tokens * (size_t)size;
    const dl_real factor = 1 / sqrt((dl_real)size);
    const size_t block_bytes = (size_t)BLOCK * (size_t)of->tokens * sizeof(dl_real);
    DL_AUTOFREE dl_real *scores = dl_alloc_aligned(block_bytes, "scores");
    DL_AUTOFREE dl_real *slopes = dl_alloc_aligned(block_bytes, "gradients of scores");
    for (size_t head = first; head < last; head++) {
        const dl_real *k = (const dl_real *)of->k + head * head_numbers;
        const dl_real *v = (const dl_real *)of->v + head * head_numbers;
        dl_real *dk = back->dk + head * head_numbers, *dv = back->dv + head * head_numbers;
        for (int begin = 0; begin < of->tokens; begin += BLOCK) {
            const int left = of->tokens - begin, rows = left < BLOCK ? left : BLOCK;
            const int keys = begin + rows, before = begin * size;
            const size_t at = head * head_numbers + (size_t)begin * (size_t)size;
            const dl_real *q = (const dl_real *)of->q + at, *y = (const dl_real *)of->y + at;
            const dl_real *dy = back->dy + at;
            const dl_real *log_sums =
                (const dl_real *)of->log_sums + head * (size_t)of->tokens + begin;
            /* The block's own keys have no sum yet. */
            memset(dk + before, 0, (size_t)(rows * size) * sizeof *dk);
            memset(dv + before, 0, (size_t)(rows * size) * sizeof *dv);
            product(false, true, rows, keys, size, factor, q, size, k, 0, scores, keys);
            product(false, true, rows, keys, size, 1, dy, size, v, 0, slopes, keys);
            for (int i = 0; i < rows; i++) {
                dl_real mean = 0; /* mean of the slopes, weighted by the probabilities */
                for (int d = 0; d < size; d++)
                    mean += dy[i * size + d] * y[i * size + d];
                score_gradients(scores + (size_t)i * (size_t)keys,
                                slopes + (size_t)i * (size_t)keys, begin + i + 1, keys, log_sums[i],
                                mean);
            }
            product(true, false, keys, size, rows, 1, scores, keys, dy, 1, dv, size);
            product(false, false, rows, size, keys, factor, slopes, keys, k, 0, back->dq + at,
                    size);
            product(true, false, keys, size, rows, factor, slopes, keys, q, 1, dk, size);
        }
    }
}

static void cpu_attend_backward(const dl_heads *of, const void *dy, void *dq, void *dk, void *dv)
{
    dl_divide(attend_backward_part, &(attention){.of = of, .dy = dy, .dq = dq, .dk = dk, .dv = dv},
              (size_t)of->heads, 1);
}

const dl_transformer_operations dl_transformer_cpu = {
    .row_norm = cpu_row_norm,
    .row_norm_backward = cpu_row_norm_backward,
    .gelu = cpu_gelu,
    .gelu_backward = cpu_gelu_backward,
    .attend = cpu_attend,
    .attend_backward = cpu_attend_backward,
};
