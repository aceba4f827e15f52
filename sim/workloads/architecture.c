#include "sim/workloads/architecture.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/workloads/workloads_internal.h"

/* --- layers ---------------------------------------------------------------------------------- */

dl_architecture_layer *dl_architecture_add(dl_architecture *architecture, char *name)
{
    dl_architecture_layer *layer =
        &DL_APPEND(architecture->layers, architecture->layer_count, "layers of a network");
    /* Without the room for parts, most of a layer's 60 kB. */
    memset(layer, 0, offsetof(dl_architecture_layer, forward));
    layer->forward.count = layer->backward.count = 0;
    layer->name = name;
    return layer;
}

dl_layer_part *dl_pass_add(dl_layer_pass *pass, double flop, double numbers, double weights,
                           int kernels)
{
    DL_ASSERT(pass->count < DL_PARTS_MAX, "more than %d parts", DL_PARTS_MAX);
    dl_layer_part *part = &pass->parts[pass->count++];
    *part = (dl_layer_part){.flop = flop,
                            .numbers = numbers,
                            .weights = weights,
                            .half_weights = DL_CAST_WEIGHTS * weights,
                            .kernels = kernels};
    return part;
}

void dl_layer_add_tensors(dl_architecture_layer *layer, int count, double parameters)
{
    const int last = layer->backward.count - 1;
    DL_ASSERT(layer->tensor_kinds < DL_TENSORS_MAX, "more than %d kinds of tensors",
              DL_TENSORS_MAX);
    layer->tensors[layer->tensor_kinds++] =
        (dl_layer_tensor){(int64_t)parameters, count, last > 0 ? last : 0};
}

void dl_architecture_free(dl_architecture *architecture)
{
    for (size_t l = 0; l < architecture->layer_count; l++)
        free(architecture->layers[l].name);
    free(architecture->layers);
    free(architecture->name);
    *architecture = (dl_architecture){0};
}

/* --- sums ------------------------------------------------------------------------------------ */

int64_t dl_layer_parameters(const dl_architecture_layer *layer)
{
    int64_t sum = 0;
    for (int t = 0; t < layer->tensor_kinds; t++)
        sum += layer->tensors[t].count * layer->tensors[t].parameters;
    return sum;
}

int dl_layer_tensors(const dl_architecture_layer *layer)
{
    int sum = 0;
    for (int t = 0; t < layer->tensor_kinds; t++)
        sum += layer->tensors[t].count;
    return sum;
}

int64_t dl_architecture_parameters(const dl_architecture *architecture)
{
    int64_t sum = 0;
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum += dl_layer_parameters(&architecture->layers[l]);
    return sum;
}

int64_t dl_architecture_whole(const dl_architecture *architecture)
{
    int64_t sum = dl_architecture_parameters(architecture);
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum += (architecture->expert_ranks - 1) * architecture->layers[l].expert_parameters;
    return sum;
}

int64_t dl_architecture_active(const dl_architecture *architecture)
{
    int64_t sum = dl_architecture_parameters(architecture);
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum -= architecture->layers[l].idle_parameters;
    return sum;
}

int64_t dl_architecture_frozen(const dl_architecture *architecture)
{
    int64_t sum = 0;
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum += architecture->layers[l].frozen_parameters;
    return sum;
}

int64_t dl_architecture_packed(const dl_architecture *architecture)
{
    int64_t sum = 0;
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum += architecture->layers[l].packed_parameters;
    return sum;
}

int dl_architecture_tensors(const dl_architecture *architecture)
{
    int sum = 0;
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum += dl_layer_tensors(&architecture->layers[l]);
    return sum;
}

/* List of a step's products while they are being counted. */
typedef struct product_list {
    dl_step_product *items;
    size_t count;
    int64_t batch;
} product_list;

static void count_product(product_list *list, dl_product_pass pass, const dl_layer_product *of,
                          double outputs)
{
    const dl_step_product added = {.pass = pass,
                                   .rows = (int64_t)(of->rows * (double)list->batch),
                                   .inputs = (int64_t)of->inputs,
                                   .outputs = (int64_t)outputs,
                                   .count = of->experts > 0 ? of->experts : 1};
    if (added.rows < 1 || added.inputs < 1 || added.outputs < 1) return;
    for (size_t i = 0; i < list->count; i++) {
        dl_step_product *known = &list->items[i];
        if (known->pass != added.pass || known->rows != added.rows ||
            known->inputs != added.inputs || known->outputs != added.outputs)
            continue;
        known->count += added.count;
        return;
    }
    DL_APPEND(list->items, list->count, "products") = added;
}

static void count_products(product_list *list, const dl_layer_pass *pass)
{
    for (int p = 0; p < pass->count; p++) {
        const dl_layer_product *of = &pass->parts[p].product;
        for (int m = 0; m < of->matrices; m++) {
            if (of->gradients == 0) count_product(list, DL_PRODUCT_FORWARD, of, of->outputs[m]);
            if (of->gradients > 0) count_product(list, DL_PRODUCT_DATA, of, of->outputs[m]);
            if (of->gradients > 1) count_product(list, DL_PRODUCT_WEIGHT, of, of->outputs[m]);
        }
    }
}

size_t dl_architecture_products(const dl_architecture *architecture, int64_t batch,
                                dl_step_product **products)
{
    product_list list = {.batch = batch};
    for (size_t l = 0; l < architecture->layer_count; l++) {
        count_products(&list, &architecture->layers[l].forward);
        count_products(&list, &architecture->layers[l].backward);
    }
    *products = list.items;
    return list.count;
}

static int pass_kernels(const dl_layer_pass *pass, bool in_half, bool in_low)
{
    int sum = 0;
    for (int p = 0; p < pass->count; p++) {
        const dl_layer_part *part = &pass->parts[p];
        const int calls = part->kernels + (in_low ? part->low.kernels : 0);
        sum += calls / (part->product.singly > 0 ? part->product.singly : 1) +
               (in_half ? part->kernels_in_half : 0);
    }
    return sum;
}

int dl_architecture_kernels(const dl_architecture *architecture, bool in_half, bool in_low)
{
    int sum = 0;
    for (size_t l = 0; l < architecture->layer_count; l++) {
        const dl_architecture_layer *layer = &architecture->layers[l];
        sum += pass_kernels(&layer->forward, in_half, in_low) +
               pass_kernels(&layer->backward, in_half, in_low);
    }
    return sum;
}

static int pass_singles(const dl_layer_pass *pass)
{
    int sum = 0;
    for (int p = 0; p < pass->count; p++)
        sum += pass->parts[p].product.singly > 0 ? pass->parts[p].kernels : 0;
    return sum;
}

int dl_architecture_singles(const dl_architecture *architecture)
{
    int sum = 0;
    for (size_t l = 0; l < architecture->layer_count; l++)
        sum += pass_singles(&architecture->layers[l].forward) +
               pass_singles(&architecture->layers[l].backward);
    return sum;
}

double dl_pass_flop(const dl_layer_pass *pass)
{
    double sum = 0;
    for (int p = 0; p < pass->count; p++)
        sum += pass->parts[p].flop;
    return sum;
}
