/* Which layer reads what, and which layers' gradients share memory.
 *
 * A layer's output is kept from forward to backward, as the readers' backward needs it. The
 * gradient of an output lives only from the backward pass of its last reader to that of its writer,
 * so few arrays (slots) serve all: two in a chain of layers, one more where a skip connection
 * runs. */
#ifndef DL_KERNELS_MODEL_PLAN_H
#define DL_KERNELS_MODEL_PLAN_H

#include "kernels/layers/layer.h"

/* A layer's place among the others; layers are numbered from 0. */
typedef struct dl_model_link {
    int input;         /* the layer whose output it reads, -1 = the model's input */
    int other;         /* its second input, -1 = none */
    int gradient_slot; /* of its output, -1 = none: the loss */
} dl_model_link;

typedef struct dl_model_plan {
    dl_model_link *links; /* [layer_count] */
    int slot_count;
    size_t *slot_size; /* [slot_count] numbers a sample, the most that a user needs */
} dl_model_plan;

/* Fills `links` from the specs: inputs and slots still -1. A link that leads out of the model is a
 * broken invariant. Release with dl_model_plan_free. */
void dl_model_plan_links(dl_model_plan *plan, const dl_layer_spec *specs, int layer_count);

/* Chooses the slots of planned layers, in the order of a backward pass, and sets
 * layers[].accumulates where an output has a second reader. Broken invariants, as the specs come
 * from this program: an output that nobody reads; an in-place layer on an output with other
 * readers behind it; a second reader that cannot accumulate. */
void dl_model_plan_gradients(dl_model_plan *plan, dl_layer *layers, int layer_count);

void dl_model_plan_free(dl_model_plan *plan);

#endif
