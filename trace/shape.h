/* Matrix products of linear layers, and their names in BENCH records. */
#ifndef DL_TRACE_SHAPE_H
#define DL_TRACE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/machine.h"

/* Matrix product in one of the three passes of a linear layer; takes 2 * rows * inputs * outputs
 * flop. Matrix layouts are PyTorch's: the weights are outputs x inputs. */
typedef struct dl_shape_product {
    dl_product_pass pass;
    int64_t rows, inputs, outputs; /* 1 to DL_SHAPE_MAX */
} dl_shape_product;

#define DL_SHAPE_MAX (1 << 24)
#define DL_SHAPE_NAME_BYTES 64

/* Formats "forward 2048x512x1536" (rows x inputs x outputs) into name; returns name. */
const char *dl_shape_name(char name[DL_SHAPE_NAME_BYTES], const dl_shape_product *product);

/* Parses a name in the form of dl_shape_name. Returns false for any other text; *product is then
 * undefined. */
bool dl_shape_parse(const char *name, dl_shape_product *product);

double dl_shape_flop(const dl_shape_product *product);
/* Return the number of elements of the weight matrix (or its gradient), and of the two other
 * matrices together (rows x inputs and rows x outputs). */
double dl_shape_weights(const dl_shape_product *product);
double dl_shape_others(const dl_shape_product *product);

#endif
