/* A transformer's block, whose kernels run one after the other in both passes. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "profiler/bench/bench_shapes_internal.h"

/* Factor on normal random numbers for weights, so that products of some hundred to some thousand
 * inputs are about as large as these: 1 / sqrt(1024). */
#define WEIGHT_SCALE 0.03

/* A kernel of a layer. A forward product owns its weights, which products of the backward pass also
 * use. */
typedef struct item {
    dl_kernel kernel;
    size_t weights_of;          /* kernel that owns its weights; SIZE_MAX: it has none */
    void *weights, *results[3]; /* NULL: none */
} item;

struct dl_bench_layer {
    const dl_backend *backend;
    item *items; /* [count] */
    size_t count, forward_count;
    int64_t tokens;
    bool lacks_attention;
};

/* --- the kernels ----------------------------------------------------------------------------- */

static void add(dl_bench_layer *layer, dl_kernel kernel, size_t weights_of)
{
    DL_APPEND(layer->items, layer->count, "kernels of a layer") =
        (item){.kernel = kernel, .weights_of = weights_of};
}

/* Returns the last forward product with weights of this size that has no gradient of this pass yet;
 * SIZE_MAX if there is none. */
static size_t owner_of(const dl_bench_layer *layer, const dl_shape_product *p, dl_product_pass pass)
{
    size_t owner = SIZE_MAX;
    for (size_t k = 0; k < layer->forward_count; k++) {
        const dl_shape_product *forward = &layer->items[k].kernel.product;
        bool taken = false;
        for (size_t b = layer->forward_count; b < layer->count; b++)
            taken |= layer->items[b].weights_of == k && layer->items[b].kernel.product.pass == pass;
        if (!taken && forward->inputs == p->inputs && forward->outputs == p->outputs) owner = k;
    }
    return owner;
}

static void add_product(dl_bench_layer *layer, const dl_layer_part *part, int64_t batch)
{
    const dl_layer_product *of = &part->product;
    const int copies = of->experts > 1 ? of->experts : 1;
    for (int m = 0; m < of->matrices * copies; m++) {
        dl_shape_product p = {.rows = (int64_t)(of->rows * (double)batch),
                              .inputs = (int64_t)of->inputs,
                              .outputs = (int64_t)of->outputs[m % of->matrices]};
        if (p.rows < 1) p.rows = 1;
        if (of->gradients == 0) {
            p.pass = DL_PRODUCT_FORWARD;
            add(layer, (dl_kernel){.product = p}, layer->count);
            continue;
        }
        /* The gradient of the input is the one that earlier kernels continue with. */
        for (int pass = of->gradients > 1 ? DL_PRODUCT_WEIGHT : DL_PRODUCT_DATA;
             pass >= DL_PRODUCT_DATA; pass--) {
            p.pass = (dl_product_pass)pass;
            add(layer, (dl_kernel){.product = p}, owner_of(layer, &p, p.pass));
        }
    }
}

/* Adds a part that moves data, as kernels that together move as many numbers; plain additions
 * replace kernels that the backend lacks. Returns false if the vectors are too large. */
static bool add_moves(dl_bench_layer *layer, const dl_layer_part *part, int64_t batch, bool back,
                      size_t width)
{
    dl_kernel kernel = {.move = part->kind, .numbers = 1, .columns = 1};
    kernel.backward = back && kernel.move != DL_MOVE_PLAIN;
    const double each = part->numbers * (double)batch / part->kernels / dl_kernel_traffic(&kernel);
    if (!(each < INT_MAX)) return false;
    kernel.numbers = each < 1 ? 1 : (size_t)each;
    kernel.columns = kernel.numbers;
    if (part->kind == DL_MOVE_NORM) {
        kernel.columns = width < kernel.numbers ? width : kernel.numbers;
        kernel.numbers -= kernel.numbers % kernel.columns;
    }
    if (!dl_kernel_exists(layer->backend, &kernel)) {
        const double moved = dl_kernel_traffic(&kernel);
        kernel = (dl_kernel){.numbers = 1};
        kernel.numbers = (size_t)(moved / dl_kernel_traffic(&kernel)) + 1;
        kernel.columns = kernel.numbers;
    }
    for (int k = 0; k < part->kernels; k++)
        add(layer, kernel, SIZE_MAX);
    return true;
}

/* Adds a part; attention and products that cannot be run alike are left out. Returns false if its
 * vectors are too large. */
static bool add_part(dl_bench_layer *layer, const dl_layer_part *part, int64_t batch, bool back,
                     size_t width)
{
    if (part->attention != DL_ATTENTION_NOT) {
        const dl_kernel kernel = {.heads = (int)(part->heads * (double)batch),
                                  .tokens = (int)part->keys,
                                  .size = (int)part->head_size,
                                  .backward = back};
        if (kernel.heads > 0 && dl_kernel_exists(layer->backend, &kernel)) {
            add(layer, kernel, SIZE_MAX);
        } else {
            layer->lacks_attention = true;
        }
    } else if (part->flop > 0 && part->product.rows > 0) {
        add_product(layer, part, batch);
    } else if (part->flop > 0) { /* plain attention's; adapters' */
        layer->lacks_attention = true;
    } else if (part->numbers > 0 && part->kernels > 0) {
        return add_moves(layer, part, batch, back, width);
    }
    return true;
}

static bool add_parts(dl_bench_layer *layer, const dl_architecture_layer *of, int64_t batch)
{
    const dl_layer_product *first = NULL;
    for (int p = of->forward.count - 1; p >= 0; p--)
        if (of->forward.parts[p].product.rows > 0) first = &of->forward.parts[p].product;
    const size_t width = first != NULL ? (size_t)first->inputs : 1;
    layer->tokens = first != NULL ? (int64_t)(first->rows * (double)batch) : 1;
    for (int p = 0; p < of->forward.count; p++)
        if (!add_part(layer, &of->forward.parts[p], batch, false, width)) return false;
    layer->forward_count = layer->count;
    for (int p = of->backward.count - 1; p >= 0; p--) {
        const dl_layer_part *part = &of->backward.parts[p];
        const bool again =
            part->attention ? !part->reverse : part->flop > 0 && part->product.gradients == 0;
        if (!add_part(layer, part, batch, !again, width)) return false;
    }
    return layer->forward_count > 0 && layer->count > layer->forward_count;
}

dl_bench_layer *dl_bench_layer_make(const dl_architecture *network, int64_t batch,
                                    const dl_backend *backend, const char **note)
{
    const dl_architecture_layer *block = NULL;
    for (size_t l = 0; l < network->layer_count; l++)
        if (strncmp(network->layers[l].name, "block", strlen("block")) == 0)
            block = &network->layers[l];
    *note = "the network has no blocks";
    if (block == NULL) return NULL;
    dl_bench_layer *layer = dl_calloc(1, sizeof *layer, "layer");
    layer->backend = backend;
    *note = "its vectors are too large: take a smaller batch";
    if (!add_parts(layer, block, batch)) {
        dl_bench_layer_free(layer);
        return NULL;
    }
    *note = layer->lacks_attention ? "without its attention" : NULL;
    return layer;
}

dl_bench_layer *dl_bench_layer_with(const dl_bench_layer *layer, int64_t tokens)
{
    dl_bench_layer *less = dl_calloc(1, sizeof *less, "layer");
    less->backend = layer->backend;
    less->tokens = tokens;
    for (size_t k = 0; k < layer->count; k++) {
        dl_kernel kernel = layer->items[k].kernel;
        const double part = (double)tokens / (double)layer->tokens;
        if (kernel.product.rows > 0) kernel.product.rows = tokens;
        if (kernel.heads > 0) kernel.tokens = (int)tokens;
        if (kernel.numbers > 0) {
            const double numbers = (double)kernel.numbers * part;
            kernel.numbers = numbers < 1 ? 1 : (size_t)numbers;
            if (kernel.columns > kernel.numbers) kernel.columns = kernel.numbers;
            kernel.numbers -= kernel.numbers % kernel.columns;
        }
        if (k == layer->forward_count) less->forward_count = k;
        add(less, kernel, layer->items[k].weights_of);
    }
    return less;
}

void dl_bench_layer_free(dl_bench_layer *layer)
{
    if (layer == NULL) return;
    free(layer->items);
    free(layer);
}

size_t dl_bench_layer_count(const dl_bench_layer *layer)
{
    return layer->count;
}

const dl_kernel *dl_bench_layer_kernel(const dl_bench_layer *layer, size_t k)
{
    return &layer->items[k].kernel;
}

/* --- a run ----------------------------------------------------------------------------------- */

static void *take_weights(const dl_bench_layer *layer, const void *normal, size_t normal_count,
                          size_t numbers)
{
    const size_t bytes = dl_precision_bytes(layer->backend->precision);
    char *to = layer->backend->allocate(numbers * bytes, "weights of a layer");
    for (size_t at = 0; to != NULL && at < numbers; at += normal_count) {
        const size_t left = numbers - at;
        layer->backend->upload(to + at * bytes, normal,
                               (left < normal_count ? left : normal_count) * bytes);
    }
    return to;
}

void dl_bench_layer_start(dl_bench_layer *layer, const void *normal, size_t normal_count)
{
    const dl_backend *backend = layer->backend;
    const size_t bytes = dl_precision_bytes(backend->precision);
    DL_AUTOFREE void *scaled = dl_alloc_aligned(normal_count * bytes, "weights of a layer");
    for (size_t i = 0; i < normal_count; i++) {
        if (backend->precision == DL_FLOAT) {
            ((float *)scaled)[i] = (float)WEIGHT_SCALE * ((const float *)normal)[i];
        } else {
            ((double *)scaled)[i] = WEIGHT_SCALE * ((const double *)normal)[i];
        }
    }
    dl_error none = {0};
    for (size_t k = 0; k < layer->count; k++) {
        const dl_shape_product *p = &layer->items[k].kernel.product;
        size_t in[3], out[3];
        dl_kernel_sizes(&layer->items[k].kernel, in, out);
        if (layer->items[k].weights_of == k)
            layer->items[k].weights =
                take_weights(layer, scaled, normal_count, (size_t)p->inputs * (size_t)p->outputs);
        for (int o = 0; !backend->host_memory && o < 3; o++)
            layer->items[k].results[o] = backend->allocate(out[o] * bytes, "results of a layer");
    }
    (void)backend->wait(&none); /* a failure is reported by the next wait again */
}

void dl_bench_layer_stop(dl_bench_layer *layer)
{
    for (size_t k = 0; k < layer->count; k++) {
        layer->backend->release(layer->items[k].weights);
        for (int o = 0; !layer->backend->host_memory && o < 3; o++)
            layer->backend->release(layer->items[k].results[o]);
    }
}

/* Allocates the results of kernel k on a processor, not zeroed. */
static void take_results(dl_bench_layer *layer, size_t k, const size_t out[3])
{
    const size_t bytes = dl_precision_bytes(layer->backend->precision);
    for (int o = 0; layer->backend->host_memory && o < 3; o++)
        if (out[o] > 0)
            layer->items[k].results[o] = dl_realloc(NULL, out[o], bytes, "results of a layer");
}

static void free_results(dl_bench_layer *layer, size_t k)
{
    for (int o = 0; layer->backend->host_memory && o < 3; o++) {
        free(layer->items[k].results[o]);
        layer->items[k].results[o] = NULL;
    }
}

/* Chooses the memory of kernel k: it reads the result of the kernel before it (`flow`), weights,
 * and in the backward pass what forward kernel `saved` has written; else `memory`. */
static dl_kernel_memory memory_of(const dl_bench_layer *layer, size_t k, size_t flow, size_t saved,
                                  const dl_kernel_memory *memory)
{
    const size_t bytes = dl_precision_bytes(layer->backend->precision);
    const bool weighs = layer->items[k].weights_of != SIZE_MAX &&
                        layer->items[k].kernel.product.pass != DL_PRODUCT_WEIGHT;
    size_t in[3], out[3], flow_in[3], flow_out[3] = {0}, saved_in[3], saved_out[3] = {0};
    dl_kernel_memory own = *memory;
    dl_kernel_sizes(&layer->items[k].kernel, in, out);
    if (flow != SIZE_MAX) dl_kernel_sizes(&layer->items[flow].kernel, flow_in, flow_out);
    if (saved != SIZE_MAX) dl_kernel_sizes(&layer->items[saved].kernel, saved_in, saved_out);
    if (flow_out[0] >= in[0] && in[0] > 0) own.in[0] = layer->items[flow].results[0];
    if (saved_out[0] >= in[1] && in[1] > 0) own.in[1] = layer->items[saved].results[0];
    if (layer->items[k].kernel.heads > 0 &&
        flow_out[0] >= 3 * in[0]) { /* queries, keys and values */
        own.in[1] = (const char *)own.in[0] + in[0] * bytes;
        own.in[2] = (const char *)own.in[1] + in[0] * bytes;
    }
    if (weighs) own.in[1] = layer->items[layer->items[k].weights_of].weights;
    for (int o = 0; o < 3; o++)
        if (out[o] > 0) own.out[o] = layer->items[k].results[o];
    return own;
}

void dl_bench_layer_run(dl_bench_layer *layer, const dl_kernel_memory *memory)
{
    const size_t forward = layer->forward_count, backward = layer->count - forward;
    size_t flow = SIZE_MAX, kept = forward;
    for (size_t k = 0; k < layer->count; k++) {
        const bool back = k >= forward,
                   of_weights = layer->items[k].kernel.product.rows > 0 &&
                                layer->items[k].kernel.product.pass == DL_PRODUCT_WEIGHT;
        /* The backward pass reads the forward results from the last to the first. */
        const size_t saved = back ? forward - 1 - (k - forward) * forward / backward : SIZE_MAX;
        size_t in[3], out[3];
        dl_kernel_sizes(&layer->items[k].kernel, in, out);
        take_results(layer, k, out);
        const dl_kernel_memory own = memory_of(layer, k, flow, saved, memory);
        dl_kernel_launch(layer->backend, &layer->items[k].kernel, &own);
        if (of_weights) continue; /* its result is kept to the end */
        if (back && flow >= forward && flow != SIZE_MAX) free_results(layer, flow);
        for (; back && kept > saved + 1; kept--)
            free_results(layer, kept - 1);
        flow = k;
    }
    for (size_t k = 0; k < layer->count; k++)
        free_results(layer, k);
}
