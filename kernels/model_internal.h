/* The plan of a model: which layer reads what, and which layers' gradients share memory. */
#ifndef DL_KERNELS_MODEL_INTERNAL_H
#define DL_KERNELS_MODEL_INTERNAL_H

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
    size_t *slot_size; /* [slot_count] numbers per sample, the most that a user needs */
} dl_model_plan;

/* Fills `links` from the specs: inputs and slots still -1. A link that leads out of the model is a
 * broken invariant. Release with dl_model_plan_free. */
void dl_model_plan_links(dl_model_plan *plan, const dl_layer_spec *specs, int layer_count);

void dl_model_plan_free(dl_model_plan *plan);

#endif
