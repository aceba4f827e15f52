#include "kernels/model_table.h"

#include <string.h>

#include "kernels/model.h"

static const dl_layer_spec mlp_layers[] = {
    {.name = "fc1", .kind = "dense", .units = 128}, {.name = "relu1", .kind = "relu"},
    {.name = "fc2", .kind = "dense", .units = 64},  {.name = "relu2", .kind = "relu"},
    {.name = "fc3", .kind = "dense", .units = 10},  {.name = "loss", .kind = "softmax"},
};

/* The rectifier comes after the pooling: both orders give the same numbers, as the maximum is
 * monotone, and this one rectifies a quarter of them. */
static const dl_layer_spec lenet_layers[] = {
    {.name = "conv1", .kind = "conv", .units = 20, .kernel = 5},
    {.name = "pool1", .kind = "max_pool"},
    {.name = "relu1", .kind = "relu"},
    {.name = "conv2", .kind = "conv", .units = 50, .kernel = 5},
    {.name = "pool2", .kind = "max_pool"},
    {.name = "relu2", .kind = "relu"},
    {.name = "fc1", .kind = "dense", .units = 500},
    {.name = "relu3", .kind = "relu"},
    {.name = "fc2", .kind = "dense", .units = 10},
    {.name = "loss", .kind = "softmax"},
};

#define LAYERS(array) .layer_count = (int)(sizeof(array) / sizeof((array)[0])), .layers = (array)

static const dl_model_table tables[] = {
    {.name = "mlp", .in = {28, 28, 1}, LAYERS(mlp_layers)},
    {.name = "lenet", .in = {28, 28, 1}, LAYERS(lenet_layers)},
};

const char *const dl_model_names[] = {"mlp", "lenet", NULL};

const dl_model_table *dl_model_table_find(const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (strcmp(tables[i].name, name) == 0) return &tables[i];
    }
    return NULL;
}
