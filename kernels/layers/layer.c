#include "kernels/layers/layer.h"

#include <string.h>

#include "common/status.h"

const dl_layer_type *dl_layer_type_find(const char *kind, dl_precision precision)
{
    const dl_layer_type *type =
        precision == DL_DOUBLE ? dl_layer_types_double : dl_layer_types_float;
    while (type->name != NULL && strcmp(type->name, kind) != 0)
        type++;
    return type->name != NULL ? type : NULL;
}

void dl_layer_plan(dl_layer *layer)
{
    layer->type = dl_layer_type_find(layer->spec->kind, layer->backend->precision);
    DL_ASSERT(layer->type, "layer '%s' is of unknown kind '%s'", layer->spec->name,
              layer->spec->kind);
    layer->out = layer->in;
    layer->parameter_count = 0;
    layer->state_bytes = 0;
    layer->scratch_bytes = 0;
    layer->flops = 0;
    if (layer->type->plan) layer->type->plan(layer);
}
