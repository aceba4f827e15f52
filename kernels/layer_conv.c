#include "kernels/layer_conv.h"

#include "common/status.h"
#include "kernels/layer_init.h"
#include "kernels/real.h"

/* Bytes of `rows` that are worked on at once: half of a 1 MiB level-2 cache, the rest of which the
 * product's packed operands take. LeNet's step on a Zen 5 core is as fast from 256 KiB to 1 MiB. */
#define ROWS_BYTES ((size_t)512 * 1024)

static int window_count(const dl_layer *layer)
{
    return layer->spec->kernel * layer->spec->kernel * layer->in.channels;
}

static int pixel_count(const dl_layer *layer)
{
    return layer->out.rows * layer->out.columns;
}

/* Samples whose rows fit in ROWS_BYTES, at least 1, at most max_batch. */
static int group_size(const dl_layer *layer)
{
    const size_t sample_bytes =
        (size_t)pixel_count(layer) * (size_t)window_count(layer) * sizeof(dl_real);
    const size_t fit = ROWS_BYTES / sample_bytes;
    if (fit < 1) return 1;
    return fit < (size_t)layer->max_batch ? (int)fit : layer->max_batch;
}

static void plan(dl_layer *layer)
{
    const dl_layer_spec *spec = layer->spec;
    const dl_shape in = layer->in;
    DL_ASSERT(spec->kernel >= 1 && spec->kernel <= in.rows && spec->kernel <= in.columns,
              "%s: a window of %d does not fit into %d x %d", spec->name, spec->kernel, in.rows,
              in.columns);
    layer->out = (dl_shape){in.rows - spec->kernel + 1, in.columns - spec->kernel + 1, spec->units};
    const size_t weights = (size_t)window_count(layer) * (size_t)spec->units;
    const size_t rows = (size_t)pixel_count(layer) * (size_t)window_count(layer);
    layer->parameter_count = weights + (size_t)spec->units;
    layer->scratch_bytes = (size_t)group_size(layer) * rows * sizeof(dl_real);
    layer->flops =
        2.0 * (double)weights * pixel_count(layer) * (layer->wants_input_gradient ? 3 : 2);
}

static void init(const dl_layer *layer, void *parameters, void *state, dl_random *random)
{
    (void)state;
    dl_layer_init_he(parameters, (size_t)window_count(layer), (size_t)layer->spec->units, random);
}

static void forward(dl_layer *layer, int batch)
{
    const dl_backend *backend = layer->backend;
    const int window = window_count(layer), pixels = pixel_count(layer);
    const int units = layer->spec->units, group = group_size(layer);
    const size_t in_count = dl_shape_count(layer->in), out_count = dl_shape_count(layer->out);
    const dl_real *weights = layer->parameters, *bias = weights + (size_t)window * (size_t)units;
    for (int first = 0; first < batch; first += group) {
        const int samples = batch - first < group ? batch - first : group;
        const dl_real *input = (const dl_real *)layer->input + (size_t)first * in_count;
        dl_real *output = (dl_real *)layer->output + (size_t)first * out_count;
        backend->im2row(layer->scratch, input, samples, layer->in, layer->spec->kernel);
        backend->repeat_row(output, bias, samples * pixels, units);
        backend->gemm(&(dl_gemm){.m = samples * pixels,
                                 .n = units,
                                 .k = window,
                                 .a = layer->scratch,
                                 .b = weights,
                                 .c = output,
                                 .accumulate = true});
    }
}

/* Gradients of `samples` samples from `first` on. The parameters' add up over the groups; the rows
 * are no longer needed once dW is done, so their gradient takes their place in the scratch. */
static void backward_group(dl_layer *layer, int first, int samples)
{
    const dl_backend *backend = layer->backend;
    const int window = window_count(layer), rows = samples * pixel_count(layer);
    const int units = layer->spec->units;
    const size_t in_first = (size_t)first * dl_shape_count(layer->in);
    const dl_real *input = (const dl_real *)layer->input + in_first;
    const dl_real *output_gradient =
        (const dl_real *)layer->output_gradient + (size_t)first * dl_shape_count(layer->out);
    dl_real *weight_gradient = layer->gradients;
    dl_real *bias_gradient = weight_gradient + (size_t)window * (size_t)units;
    backend->sum_rows(bias_gradient, output_gradient, rows, units, first > 0);
    backend->im2row(layer->scratch, input, samples, layer->in, layer->spec->kernel);
    backend->gemm(&(dl_gemm){.transpose_a = true,
                             .accumulate = first > 0,
                             .m = window,
                             .n = units,
                             .k = rows,
                             .a = layer->scratch,
                             .b = output_gradient,
                             .c = weight_gradient});
    if (!layer->wants_input_gradient) return;
    backend->gemm(&(dl_gemm){.transpose_b = true,
                             .m = rows,
                             .n = window,
                             .k = units,
                             .a = output_gradient,
                             .b = layer->parameters,
                             .c = layer->scratch});
    backend->row2im((dl_real *)layer->input_gradient + in_first, layer->scratch, samples, layer->in,
                    layer->spec->kernel);
}

static void backward(dl_layer *layer, int batch)
{
    const int group = group_size(layer);
    for (int first = 0; first < batch; first += group) {
        backward_group(layer, first, batch - first < group ? batch - first : group);
    }
}

const dl_layer_type DL_TYPED(dl_layer_conv) = {
    .name = "conv", .plan = plan, .init = init, .forward = forward, .backward = backward};
