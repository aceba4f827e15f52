/* The models that exist, as tables of layers. */
#ifndef DL_KERNELS_MODEL_TABLE_H
#define DL_KERNELS_MODEL_TABLE_H

#include "kernels/layer.h"

typedef struct dl_model_table {
    const char *name;
    dl_shape in;
    int layer_count;
    const dl_layer_spec *layers; /* the last one is the loss */
} dl_model_table;

/* The table called `name`; otherwise NULL. */
const dl_model_table *dl_model_table_find(const char *name);

#endif
