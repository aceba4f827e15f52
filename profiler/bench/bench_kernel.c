/* The kernels that dlprof bench shapes measures: sizes, and calls of the backend's operations. */
#include <string.h>

#include "kernels/backend.h"
#include "profiler/bench/bench_shapes_internal.h"

static bool is_product(const dl_kernel *kernel)
{
    return kernel->product.rows > 0;
}

static size_t attention_numbers(const dl_kernel *kernel)
{
    return (size_t)kernel->heads * (size_t)kernel->tokens * (size_t)kernel->size;
}

static void product_sizes(const dl_shape_product *p, size_t in[3], size_t out[3])
{
    const size_t x = (size_t)(p->rows * p->inputs), y = (size_t)(p->rows * p->outputs),
                 weights = (size_t)(p->inputs * p->outputs);
    in[0] = p->pass == DL_PRODUCT_FORWARD ? x : y;
    in[1] = p->pass == DL_PRODUCT_WEIGHT ? x : weights;
    out[0] = p->pass == DL_PRODUCT_FORWARD ? y : p->pass == DL_PRODUCT_DATA ? x : weights;
}

void dl_kernel_sizes(const dl_kernel *kernel, size_t in[3], size_t out[3])
{
    const bool back = kernel->backward, moves = !is_product(kernel) && kernel->heads == 0;
    const size_t n = kernel->heads > 0 ? attention_numbers(kernel) : kernel->numbers;
    memset(in, 0, 3 * sizeof *in);
    memset(out, 0, 3 * sizeof *out);
    if (is_product(kernel)) {
        product_sizes(&kernel->product, in, out);
        return;
    }
    in[0] = out[0] = n;
    if (!moves) {
        in[1] = in[2] = n;
        out[1] = out[2] = back ? n : 0;
    } else if (kernel->move == DL_MOVE_UPDATE) {
        out[1] = out[2] = n;
    } else if (kernel->move == DL_MOVE_NORM) {
        in[1] = back ? n : 0;
        in[2] = kernel->columns;
        out[1] = out[2] = back ? kernel->columns : 0;
    } else if (kernel->move == DL_MOVE_ACTIVATION) {
        in[1] = back ? n : 0;
    }
}

size_t dl_kernel_rows(const dl_kernel *kernel)
{
    if (kernel->heads > 0) return (size_t)kernel->heads * (size_t)kernel->tokens;
    return is_product(kernel) ? 0 : kernel->numbers / kernel->columns + 1;
}

double dl_kernel_traffic(const dl_kernel *kernel)
{
    /* The backward pass of a norm reads its input and gradient twice; the loss reads the scores for
     * the maximum and the sum, and again for the result; Adam's moves are those of dlsim. */
    static const double forward[DL_MOVES] = {3, 2, 2, 3, 7}, backward[DL_MOVES] = {3, 5, 3, 2, 7};
    if (kernel->heads > 0)
        return (kernel->backward ? 8.0 : 4.0) * (double)attention_numbers(kernel);
    if (is_product(kernel))
        return dl_shape_weights(&kernel->product) + dl_shape_others(&kernel->product);
    return (kernel->backward ? backward : forward)[kernel->move] * (double)kernel->numbers;
}

bool dl_kernel_equal(const dl_kernel *a, const dl_kernel *b)
{
    const dl_shape_product *p = &a->product, *q = &b->product;
    return p->pass == q->pass && p->rows == q->rows && p->inputs == q->inputs &&
           p->outputs == q->outputs && a->heads == b->heads && a->tokens == b->tokens &&
           a->size == b->size && a->move == b->move && a->numbers == b->numbers &&
           a->columns == b->columns && a->backward == b->backward;
}

bool dl_kernel_exists(const dl_backend *backend, const dl_kernel *kernel)
{
    const dl_transformer_operations *of = backend->transformer;
    if (is_product(kernel)) return true;
    if (kernel->heads > 0) return of != NULL && of->attend != NULL;
    switch (kernel->move) {
    case DL_MOVE_PLAIN: return true;
    case DL_MOVE_NORM: return of != NULL && of->row_norm != NULL;
    case DL_MOVE_ACTIVATION: return of != NULL && of->gelu != NULL;
    case DL_MOVE_LOSS: return backend->softmax != NULL;
    case DL_MOVE_UPDATE: return backend->adam != NULL;
    }
    return false;
}

static void launch_product(const dl_backend *backend, const dl_shape_product *p,
                           const dl_kernel_memory *m)
{
    const int rows = (int)p->rows, inputs = (int)p->inputs, outputs = (int)p->outputs;
    dl_gemm gemm = {.a = m->in[0], .b = m->in[1], .c = m->out[0]};
    switch (p->pass) {
    case DL_PRODUCT_FORWARD: /* x weights^T */
        gemm.transpose_b = true;
        gemm.m = rows, gemm.n = outputs, gemm.k = inputs;
        break;
    case DL_PRODUCT_DATA: /* dy weights */ gemm.m = rows, gemm.n = inputs, gemm.k = outputs; break;
    case DL_PRODUCT_WEIGHT: /* dy^T x */
        gemm.transpose_a = true;
        gemm.m = outputs, gemm.n = inputs, gemm.k = rows;
        break;
    }
    backend->gemm(&gemm);
}

static void launch_attention(const dl_backend *backend, const dl_kernel *kernel,
                             const dl_kernel_memory *m)
{
    dl_heads of = {.heads = kernel->heads,
                   .tokens = kernel->tokens,
                   .size = kernel->size,
                   .q = m->in[0],
                   .k = m->in[1],
                   .v = m->in[2],
                   .y = m->out[0],
                   .log_sums = m->of_rows[0]};
    if (!kernel->backward) {
        backend->transformer->attend(&of);
        return;
    }
    of.y = (void *)(uintptr_t)m->in[2]; /* any numbers of this size */
    backend->transformer->attend_backward(&of, m->in[0], m->out[0], m->out[1], m->out[2]);
}

static void launch_norm(const dl_backend *backend, const dl_kernel *kernel,
                        const dl_kernel_memory *m)
{
    const dl_row_norm norm = {.rows = (int)(kernel->numbers / kernel->columns),
                              .columns = (int)kernel->columns,
                              .x = m->in[kernel->backward ? 1 : 0],
                              .scale = m->in[2],
                              .shift = m->in[2],
                              .mean = m->of_rows[0],
                              .inverse_deviation = m->of_rows[1],
                              .epsilon = 1e-5};
    if (kernel->backward) {
        backend->transformer->row_norm_backward(&norm, m->in[0], m->out[1], m->out[2], m->out[0]);
    } else {
        backend->transformer->row_norm(&norm, m->out[0]);
    }
}

static void launch_loss(const dl_backend *backend, const dl_kernel *kernel,
                        const dl_kernel_memory *m)
{
    dl_softmax softmax = {.batch = (int)(kernel->numbers / kernel->columns),
                          .classes = (int)kernel->columns,
                          .scores = m->in[0],
                          .labels = m->labels,
                          .probabilities = m->out[0],
                          .losses = m->losses,
                          .correct = m->correct};
    if (!kernel->backward) {
        backend->softmax(&softmax);
        return;
    }
    softmax.probabilities = (void *)(uintptr_t)m->in[0];
    backend->softmax_backward(&softmax, m->out[0]);
}

void dl_kernel_launch(const dl_backend *backend, const dl_kernel *kernel, const dl_kernel_memory *m)
{
    if (is_product(kernel)) {
        launch_product(backend, &kernel->product, m);
        return;
    }
    if (kernel->heads > 0) {
        launch_attention(backend, kernel, m);
        return;
    }
    switch (kernel->move) {
    case DL_MOVE_PLAIN: backend->add(m->out[0], m->in[0], kernel->numbers); break;
    case DL_MOVE_NORM: launch_norm(backend, kernel, m); break;
    case DL_MOVE_ACTIVATION:
        if (kernel->backward) {
            backend->transformer->gelu_backward(m->out[0], m->in[0], m->in[1], kernel->numbers);
        } else {
            backend->transformer->gelu(m->out[0], m->in[0], kernel->numbers);
        }
        break;
    case DL_MOVE_LOSS: launch_loss(backend, kernel, m); break;
    case DL_MOVE_UPDATE:
        backend->adam(&(dl_update){.parameters = m->out[0],
                                   .gradients = m->in[0],
                                   .first = m->out[1],
                                   .second = m->out[2],
                                   .count = kernel->numbers,
                                   .rate = 1e-4,
                                   .decay1 = 0.9,
                                   .decay2 = 0.999,
                                   .correction1 = 0.1,
                                   .correction2 = 1e-3,
                                   .epsilon = 1e-8});
        break;
    }
}
