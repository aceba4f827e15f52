/* The available models, as tables of layers. */
#ifndef DL_KERNELS_MODEL_TABLE_H
#define DL_KERNELS_MODEL_TABLE_H

#include "kernels/layers/layer.h"
#include "kernels/model.h"

typedef struct dl_model_table {
    const char *name;
    dl_shape in;
    int layer_count;
    const dl_layer_spec *layers; /* the last one is the loss */
} dl_model_table;

/* Number of classes of the model. */
static inline int dl_model_table_classes(const dl_model_table *table)
{
    return table->layers[table->layer_count - 2].units;
}

/* Finds the table called `name`. DL_ERR_NAME, with the nearest one, if there is none. */
dl_status dl_model_table_find(const dl_model_table **table, const char *name,
                              dl_error *err) DL_MUST_CHECK;

/* Builds the model of a table, which must outlive it; see dl_model_create. A copy of a table with
 * another `in` gives the same network for images of another size, if its windows fit. */
dl_model *dl_model_create_from(const dl_model_table *table, dl_precision precision, int max_batch,
                               uint64_t seed);

#endif
