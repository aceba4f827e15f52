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

int dl_layer_stride(const dl_layer *layer)
{
    return layer->spec->stride > 0 ? layer->spec->stride : 1;
}

dl_shape dl_layer_windows(const dl_layer *layer, int channels)
{
    const dl_layer_spec *spec = layer->spec;
    const dl_shape in = layer->in;
    const int padded = (in.rows < in.columns ? in.rows : in.columns) + 2 * spec->padding;
    DL_ASSERT(spec->kernel >= 1 && spec->kernel <= padded && spec->padding >= 0 &&
                  spec->padding < spec->kernel,
              "%s: a window of %d, padding %d, does not fit into %d x %d", spec->name, spec->kernel,
              spec->padding, in.rows, in.columns);
    const int stride = dl_layer_stride(layer);
    return (dl_shape){dl_window_count(in.rows, spec->kernel, stride, spec->padding),
                      dl_window_count(in.columns, spec->kernel, stride, spec->padding), channels};
}
