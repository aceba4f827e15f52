#include "trace/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *dl_shape_name(char name[DL_SHAPE_NAME_BYTES], const dl_shape_product *product)
{
    snprintf(name, DL_SHAPE_NAME_BYTES, "%s %lldx%lldx%lld", dl_product_pass_names[product->pass],
             (long long)product->rows, (long long)product->inputs, (long long)product->outputs);
    return name;
}

/* Parses a number of 1 to DL_SHAPE_MAX followed by `end` at *at; advances *at past `end` unless
 * `end` is NUL. Returns false for any other text. */
static bool take_size(const char **at, char end, int64_t *size)
{
    char *rest = NULL;
    if (**at < '1' || **at > '9') return false;
    const long long value = strtoll(*at, &rest, 10);
    if (*rest != end || value > DL_SHAPE_MAX) return false;
    *size = value;
    *at = rest + (end != '\0');
    return true;
}

bool dl_shape_parse(const char *name, dl_shape_product *product)
{
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        const size_t length = strlen(dl_product_pass_names[pass]);
        if (strncmp(name, dl_product_pass_names[pass], length) != 0 || name[length] != ' ')
            continue;
        const char *at = name + length + 1;
        product->pass = (dl_product_pass)pass;
        return take_size(&at, 'x', &product->rows) && take_size(&at, 'x', &product->inputs) &&
               take_size(&at, '\0', &product->outputs);
    }
    return false;
}

double dl_shape_flop(const dl_shape_product *product)
{
    return 2 * (double)product->rows * (double)product->inputs * (double)product->outputs;
}

double dl_shape_weights(const dl_shape_product *product)
{
    return (double)product->inputs * (double)product->outputs;
}

double dl_shape_others(const dl_shape_product *product)
{
    return (double)product->rows * (double)(product->inputs + product->outputs);
}
