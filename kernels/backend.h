/* A backend: the primitive operations of layers and optimizers, as one const table per device and
 * precision. Layers call the table and nothing else, so adding a device means adding a table.
 *
 * Arrays are `void *` of the table's number type, in the backend's memory. Matrices are row-major
 * without gaps. Images are channels-last (NHWC): image[row][column][channel], one after another. So
 * a window of an image is a few long contiguous pieces, and the channels of a pixel are contiguous.
 *
 * Operations have cuDNN's granularity, so that each entry of a GPU's table is one library call.
 *
 * Tables have no state: any number of threads may use one concurrently. Operations on equal
 * arguments give equal bits.
 *
 * A device may queue an operation and run it later, in the order of one thread's calls. The host
 * sees results after `wait`, which also reports failures: once an operation has failed, those that
 * follow do nothing. */
#ifndef DL_KERNELS_BACKEND_H
#define DL_KERNELS_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/precision.h"

/* Size of one sample; {1, 1, n} for a plain vector of n. */
typedef struct dl_shape {
    int rows, columns, channels;
} dl_shape;

/* Numbers per sample. */
static inline size_t dl_shape_count(dl_shape shape)
{
    return (size_t)shape.rows * (size_t)shape.columns * (size_t)shape.channels;
}

/* c[m x n] = op(a) op(b), or c += op(a) op(b); op(a) is m x k and op(b) is k x n, so a is stored
 * k x m if it is transposed, and b n x k. */
typedef struct dl_gemm {
    bool transpose_a, transpose_b, accumulate;
    int m, n, k;
    const void *a, *b;
    void *c;
} dl_gemm;

/* The kernel x kernel windows of a convolution or a pooling over the images of `count` samples.
 * Window (y, x) starts at row y * stride - padding and column x * stride - padding. A convolution
 * reads 0 outside the image, and its weights are [out.channels][ky][kx][in.channels], cuDNN's NHWC
 * order; a pooling works channel by channel, and its windows may lie partly outside. */
typedef struct dl_windows {
    int count;
    dl_shape in, out; /* of one sample; see dl_window_count */
    int kernel, stride, padding;
} dl_windows;

/* Number of windows along a side of `size` pixels; windows that do not fit entirely are left
 * out. */
static inline int dl_window_count(int size, int kernel, int stride, int padding)
{
    return (size + 2 * padding - kernel) / stride + 1;
}

/* Normalisation of the columns (channels) of x[rows x channels] over its rows:
 *   y = scale (x - mean) inverse_deviation + shift
 *   inverse_deviation = 1 / sqrt(variance + epsilon)
 * All other arrays are [channels]. */
typedef struct dl_norm {
    int rows, channels;
    int count; /* number of samples; it divides `rows` */
    const void *x, *scale, *shift;
    void *mean, *inverse_deviation;
    void *running_mean, *running_variance;
    double momentum; /* weight of a batch in the running statistics */
    double epsilon;
} dl_norm;

/* Softmax and cross-entropy of scores[batch x classes] against labels[batch]. */
typedef struct dl_softmax {
    int batch, classes;
    const void *scores;
    const int32_t *labels;
    void *probabilities; /* [batch x classes] */
    double *losses;      /* [batch] -log(probability of the label), always double */
    int32_t *correct; /* [batch] 1 if the label is the first class with the largest score, else 0 */
} dl_softmax;

/* One optimizer update of `count` numbers. Each operation uses only some of the fields. */
typedef struct dl_update {
    void *parameters;
    const void *gradients;
    void *first, *second; /* the optimizer's state vectors, [count], as the operations below use
                           * them; else NULL */
    size_t count;
    double rate;                     /* learning rate */
    double decay1, decay2;           /* weights of the old values of first and second */
    double correction1, correction2; /* adam: 1 - decay^t */
    double epsilon;
} dl_update;

/* Normalisation of each row of x[rows x columns] (layer normalisation):
 *   y = scale (x - mean) inverse_deviation + shift
 * scale and shift are [columns], mean and inverse_deviation [rows], kept for the backward pass. */
typedef struct dl_row_norm {
    int rows, columns;
    const void *x, *scale, *shift;
    void *mean, *inverse_deviation;
    double epsilon;
} dl_row_norm;

/* Causal attention of `heads` independent heads, those of all samples, of `tokens` queries, keys
 * and values of `size` numbers: y = softmax(q k^T / sqrt(size)) v, where a query sees the keys up
 * to its own token. All matrices are [heads][tokens][size]. */
typedef struct dl_heads {
    int heads, tokens, size;
    const void *q, *k, *v;
    void *y;
    void *log_sums; /* [heads][tokens] logarithms of the softmax's sums, for the backward pass */
} dl_heads;

/* Operations of transformers, which benchmarks measure; no model of kernels/ has them. */
typedef struct dl_transformer_operations {
    void (*row_norm)(const dl_row_norm *norm, void *y);
    /* Gradients of x, scale and shift, from the forward pass's mean and inverse_deviation. */
    void (*row_norm_backward)(const dl_row_norm *norm, const void *dy, void *dscale, void *dshift,
                              void *dx);
    /* y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
    void (*gelu)(void *y, const void *x, size_t count);
    void (*gelu_backward)(void *dx, const void *dy, const void *x, size_t count);
    /* Computes y and log_sums. NULL, like the next: the device has no attention. */
    void (*attend)(const dl_heads *of);
    /* Gradients of q, k and v, from the y and log_sums of the forward pass. */
    void (*attend_backward)(const dl_heads *of, const void *dy, void *dq, void *dk, void *dv);
} dl_transformer_operations;

typedef struct dl_backend {
    const char *name; /* "cpu", "cuda" */
    dl_precision precision;
    bool host_memory; /* the host can read and write the backend's memory */

    /* Makes the device ready; every model calls it, so repeated calls must be harmless.
     * DL_ERR_UNSUPPORTED: a library is missing. */
    dl_status (*start)(dl_error *err);
    /* Permanently reserves the memory that the backend's library needs for `threads` concurrent
     * threads; may be called repeatedly. Returns DL_ERR_SYSTEM, with the bytes, if the system
     * refuses the memory (ulimit -v, strict overcommit), for which operations would otherwise wait
     * forever. NULL: nothing to reserve. */
    dl_status (*start_threads)(int threads, dl_error *err);
    /* Zeroed memory on a 64-byte boundary; released with `release` (NULL is fine). A device returns
     * NULL for 0 bytes, or if it lacks memory: then `wait` fails. The processor's table ends the
     * program if it lacks memory. */
    void *(*allocate)(size_t bytes, const char *purpose);
    void (*release)(void *memory);

    /* Allocates host memory of the kind fastest for copies to and from the device. */
    void *(*allocate_host)(size_t bytes, const char *purpose);
    void (*release_host)(void *memory);
    /* Copy from host to device, and from device to host. The host's bytes must stay unchanged until
     * `wait`. */
    void (*upload)(void *to, const void *from, size_t bytes);
    void (*download)(void *to, const void *from, size_t bytes);
    /* Waits for all operations of this thread; returns DL_ERR_SYSTEM if any operation has
     * failed. */
    dl_status (*wait)(dl_error *err);

    void (*gemm)(const dl_gemm *gemm);

    /* Returns the scratch bytes that each of the three operations below needs for any count up to
     * conv->count. */
    size_t (*conv_scratch_bytes)(const dl_windows *conv);
    /* y[count x out] = x * weights + bias; bias[out.channels] may be NULL */
    void (*conv_forward)(const dl_windows *conv, const void *x, const void *weights,
                         const void *bias, void *y, void *scratch);
    /* dx = gradient with respect to x; with `accumulate`, adds it to dx */
    void (*conv_backward_data)(const dl_windows *conv, const void *dy, const void *weights,
                               void *dx, bool accumulate, void *scratch);
    /* dweights = gradient with respect to the weights. The bias's gradient is sum_rows of dy. */
    void (*conv_backward_filter)(const dl_windows *conv, const void *x, const void *dy,
                                 void *dweights, void *scratch);

    /* matrix[i][j] = row[j] */
    void (*repeat_row)(void *matrix, const void *row, int rows, int columns);
    /* sums[j] = sum over i of matrix[i][j] */
    void (*sum_rows)(void *sums, const void *matrix, int rows, int columns);

    /* y = maximum of each window, choice = its place ky * kernel + kx in the window, the first of
     * equal ones; y and choice are [count x out]. */
    void (*max_pool)(const dl_windows *pool, const void *x, void *y, int32_t *choice);
    /* dx = sum of dy over the windows that chose the pixel. */
    void (*max_pool_backward)(const dl_windows *pool, const int32_t *choice, const void *dy,
                              void *dx);

    /* y[count x channels] = mean over the pixels of x[count x pixels x channels]. */
    void (*mean_pixels)(int count, int pixels, int channels, const void *x, void *y);
    /* dx = dy / pixels */
    void (*mean_pixels_backward)(int count, int pixels, int channels, const void *dy, void *dx);

    /* to += from */
    void (*add)(void *to, const void *from, size_t count);

    /* values = max(values, 0) */
    void (*relu)(void *values, size_t count);
    /* gradients = 0 where values (after relu) are 0 */
    void (*relu_backward)(void *gradients, const void *values, size_t count);

    /* y from mean and inverse_deviation of x (variance over n rows), which are kept for
     * norm_backward; running statistics move towards the batch's mean and unbiased variance (over n
     * - 1) by `momentum`. */
    void (*norm_training_forward)(const dl_norm *norm, void *y);
    /* y from the running statistics; mean and inverse_deviation are undefined afterwards. */
    void (*norm_inference_forward)(const dl_norm *norm, void *y);
    /* Gradients of scale and shift, and, if dx is not NULL, of x, from the batch's statistics. */
    void (*norm_backward)(const dl_norm *norm, const void *dy, void *dscale, void *dshift,
                          void *dx);

    /* Computes probabilities, losses and correct. */
    void (*softmax)(const dl_softmax *softmax);
    /* gradients[batch x classes] of the mean of the losses with respect to the scores. */
    void (*softmax_backward)(const dl_softmax *softmax, void *gradients);

    /* p -= rate g;  with `first` not NULL: first = decay1 first + g, p -= rate first */
    void (*sgd)(const dl_update *update);
    /* first = decay1 first + (1 - decay1) g^2;  p -= rate g / (sqrt(first) + epsilon) */
    void (*rmsprop)(const dl_update *update);
    /* first = decay1 first + (1 - decay1) g;  second = decay2 second + (1 - decay2) g^2;
     * p -= rate (first / correction1) / (sqrt(second / correction2) + epsilon) */
    void (*adam)(const dl_update *update);

    const dl_transformer_operations *transformer; /* NULL: none */
} dl_backend;

/* The processor's tables: loops are divided among the calling thread's team (thread_team.h). */
extern const dl_backend dl_backend_cpu_float;
extern const dl_backend dl_backend_cpu_double;
static inline const dl_backend *dl_backend_cpu(dl_precision precision)
{
    return precision == DL_DOUBLE ? &dl_backend_cpu_double : &dl_backend_cpu_float;
}

#endif
