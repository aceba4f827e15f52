#include <math.h>
#include <string.h>

#include "kernels/backend_cpu.h"

/* Columns are summed in blocks, in double: a float sum over the 10^5 pixels of a batch would lose
 * half of its digits. */
enum { BLOCK = 64 };

static inline int block_width(int columns, int first)
{
    return columns - first < BLOCK ? columns - first : BLOCK;
}

DL_HOT void dl_cpu_repeat_row(void *matrix, const void *row, int rows, int columns)
{
    dl_real *restrict to = matrix;
    const dl_real *restrict from = row;
    for (int i = 0; i < rows; i++, to += columns) {
        for (int j = 0; j < columns; j++)
            to[j] = from[j];
    }
}

DL_HOT void dl_cpu_sum_rows(void *sums, const void *matrix, int rows, int columns, bool accumulate)
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
        for (int j = 0; j < width; j++) {
            result[first + j] = (dl_real)(accumulate ? (double)result[first + j] + sum[j] : sum[j]);
        }
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
    dl_cpu_sum_rows(mean, norm->x, norm->rows, norm->channels, false);
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

void dl_cpu_norm_training_forward(const dl_norm *norm, void *y)
{
    batch_statistics(norm);
    normalise(norm, y);
}

void dl_cpu_norm_inference_forward(const dl_norm *norm, void *y)
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

void dl_cpu_norm_backward(const dl_norm *norm, const void *dy, void *dscale, void *dshift, void *dx)
{
    dl_cpu_sum_rows(dshift, dy, norm->rows, norm->channels, false);
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

void dl_cpu_softmax(const dl_softmax *softmax)
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

void dl_cpu_softmax_backward(const dl_softmax *softmax, void *gradients)
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
