/* A layer: one operation of a model, forward and backward, over memory that the model gives it.
 *
 *                 input ──forward──▶ output
 *        input_gradient ◀─backward── output_gradient       (of the loss; and parameter gradients)
 *
 * A kind of layer is a row of the tables in layer_types.c, one table per precision; adding one
 * means adding its functions and its row there. Layers use the backend's operations only. */
#ifndef DL_KERNELS_LAYER_H
#define DL_KERNELS_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/random.h"
#include "kernels/backend.h"

typedef struct dl_layer_type dl_layer_type;

/* One row of a model's table. */
typedef struct dl_layer_spec {
    const char *name; /* "conv1" */
    const char *kind; /* "conv": the name of a dl_layer_type */
    int units;        /* outputs of a dense layer, filters of a conv */
    int kernel;       /* rows and columns of a conv's or max_pool's window */
    int stride;       /* pixels from window to window; 0 means 1 */
    int padding;      /* pixels by which windows extend beyond each edge */
    bool no_bias;     /* conv: without bias */
    double deviation; /* standard deviation of a conv's or dense layer's initial weights; 0: as He
                       * et al. 2015 */
    int back;         /* the input is the output of the layer this many rows before; 0 means 1 */
    int skip;         /* add: the other input is the output of the layer this many rows before */
} dl_layer_spec;

typedef struct dl_layer {
    /* Set before dl_layer_plan. */
    const dl_layer_spec *spec;
    const dl_backend *backend;
    dl_shape in;
    int max_batch;
    bool wants_input_gradient; /* false: not needed, so backward skips it */
    bool accumulates;          /* backward adds to input_gradient, which another reader has
                                  written */
    bool training;             /* batch-norm: normalise by the batch, not the running statistics */

    /* Set by dl_layer_plan. */
    const dl_layer_type *type;
    dl_shape out;
    size_t parameter_count;
    size_t state_bytes;   /* own memory, kept from forward to backward and to the next step */
    size_t scratch_bytes; /* scratch memory, lost between calls; layers may share it */
    double flops;         /* floating-point operations of one sample's matrix products, forward and
                           * backward */

    /* The model's memory. Arrays of samples hold max_batch of them; an in-place layer has output =
     * input and input_gradient = output_gradient. */
    void *parameters, *gradients; /* [parameter_count] */
    void *input, *output, *input_gradient, *output_gradient;
    void *state, *scratch;
    const void *other; /* add: its second input */

    /* The loss layer's labels [batch] and the results that `result` fetches. */
    const int32_t *labels;
    double loss; /* mean over the batch */
    int correct;
} dl_layer;

struct dl_layer_type {
    const char *name;
    bool in_place;
    bool can_accumulate; /* supports dl_layer.accumulates */
    /* Sets out, counts, sizes and flops if they differ from out = in and 0. NULL: nothing to do. */
    void (*plan)(dl_layer *layer);
    /* Draws initial parameters and sets the initial state; both are zeroed before and in host
     * memory. NULL: nothing to do. */
    void (*init)(const dl_layer *layer, void *parameters, void *state, dl_random *random);
    /* For 1 <= batch <= max_batch. Backward follows forward on the same batch and overwrites its
     * gradients. */
    void (*forward)(dl_layer *layer, int batch);
    void (*backward)(dl_layer *layer, int batch);
    /* For the loss layer: fetches loss and correct of the last forward, which had `batch` samples.
     * Fails as the backend's `wait` does. NULL: the layer has no result. */
    dl_status (*result)(dl_layer *layer, int batch, dl_error *err);
};

/* All kinds of layers; the last row has no name. */
extern const dl_layer_type dl_layer_types_float[];
extern const dl_layer_type dl_layer_types_double[];

/* Returns the type called `kind`, or NULL. */
const dl_layer_type *dl_layer_type_find(const char *kind, dl_precision precision);

/* Finds the type and computes shapes and sizes. The spec comes from a table of this program: an
 * unknown kind, or a shape that the layer cannot take, is a broken invariant. */
void dl_layer_plan(dl_layer *layer);

/* Returns the spec's stride, for layers with windows. */
static inline int dl_layer_stride(const dl_layer *layer)
{
    return layer->spec->stride > 0 ? layer->spec->stride : 1;
}

#endif
