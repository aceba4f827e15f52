#include "kernels/model_table.h"

#include "common/names.h"

static const dl_layer_spec mlp_layers[] = {
    {.name = "fc1", .kind = "dense", .units = 128}, {.name = "relu1", .kind = "relu"},
    {.name = "fc2", .kind = "dense", .units = 64},  {.name = "relu2", .kind = "relu"},
    {.name = "fc3", .kind = "dense", .units = 10},  {.name = "loss", .kind = "softmax"},
};

/* The rectifier comes after the pooling: the two commute, as the rectifier is monotone, and in this
 * order it handles only a quarter of the numbers. */
static const dl_layer_spec lenet_layers[] = {
    {.name = "conv1", .kind = "conv", .units = 20, .kernel = 5},
    {.name = "pool1", .kind = "max_pool", .kernel = 2, .stride = 2},
    {.name = "relu1", .kind = "relu"},
    {.name = "conv2", .kind = "conv", .units = 50, .kernel = 5},
    {.name = "pool2", .kind = "max_pool", .kernel = 2, .stride = 2},
    {.name = "relu2", .kind = "relu"},
    {.name = "fc1", .kind = "dense", .units = 500},
    {.name = "relu3", .kind = "relu"},
    {.name = "fc2", .kind = "dense", .units = 10},
    {.name = "loss", .kind = "softmax"},
};

/* Deviation of a classifier's initial weights: small, so that the first loss is that of equal
 * probabilities (Goyal et al. 2017, section 5.1). */
#define CLASSIFIER_DEVIATION 0.01

#define CONV_BN(number, filters)                                                            \
    {.name = "conv" number, .kind = "conv", .units = (filters), .kernel = 3, .padding = 1}, \
        {.name = "bn" number, .kind = "batch_norm"},                                        \
    {                                                                                       \
        .name = "relu" number, .kind = "relu"                                               \
    }
#define POOL(number)                                                        \
    {                                                                       \
        .name = "pool" number, .kind = "max_pool", .kernel = 2, .stride = 2 \
    }

static const dl_layer_spec vgg19_bn_layers[] = {
    CONV_BN("1_1", 64),
    CONV_BN("1_2", 64),
    POOL("1"),
    CONV_BN("2_1", 128),
    CONV_BN("2_2", 128),
    POOL("2"),
    CONV_BN("3_1", 256),
    CONV_BN("3_2", 256),
    CONV_BN("3_3", 256),
    CONV_BN("3_4", 256),
    POOL("3"),
    CONV_BN("4_1", 512),
    CONV_BN("4_2", 512),
    CONV_BN("4_3", 512),
    CONV_BN("4_4", 512),
    POOL("4"),
    CONV_BN("5_1", 512),
    CONV_BN("5_2", 512),
    CONV_BN("5_3", 512),
    CONV_BN("5_4", 512),
    POOL("5"),
    {.name = "fc", .kind = "dense", .units = 10, .deviation = CLASSIFIER_DEVIATION},
    {.name = "loss", .kind = "softmax"},
};

/* One convolution with batch norm; it reads the output of the layer `steps` before it. */
#define CONV(block, number, filters, window, step, pad, steps) \
    {.name = block ".conv" number,                             \
     .kind = "conv",                                           \
     .units = (filters),                                       \
     .kernel = (window),                                       \
     .stride = (step),                                         \
     .padding = (pad),                                         \
     .no_bias = true,                                          \
     .back = (steps)},                                         \
    {                                                          \
        .name = block ".bn" number, .kind = "batch_norm"       \
    }
#define RELU(block, number)                          \
    {                                                \
        .name = block ".relu" number, .kind = "relu" \
    }

/* The three convolutions of a bottleneck: 8 layers. */
#define BRANCH(block, width, step)                                                                 \
    CONV(block, "1", width, 1, 1, 0, 1), RELU(block, "1"), CONV(block, "2", width, 3, step, 1, 1), \
        RELU(block, "2"), CONV(block, "3", 4 * (width), 1, 1, 0, 1)

/* Block whose input has the output's shape: the input is added to the branch's output. */
#define BLOCK(block, width) \
    BRANCH(block, width, 1), {.name = block ".add", .kind = "add", .skip = 9}, RELU(block, "3")

/* Block that changes the shape: the branch's output is added to the projection of the input. */
#define FIRST_BLOCK(block, width, step)                                                 \
    BRANCH(block, width, step), CONV(block, "_projection", 4 * (width), 1, step, 0, 9), \
        {.name = block ".add", .kind = "add", .skip = 3}, RELU(block, "3")

static const dl_layer_spec resnet50_layers[] = {
    {.name = "conv1",
     .kind = "conv",
     .units = 64,
     .kernel = 7,
     .stride = 2,
     .padding = 3,
     .no_bias = true},
    {.name = "bn1", .kind = "batch_norm"},
    {.name = "relu1", .kind = "relu"},
    {.name = "pool1", .kind = "max_pool", .kernel = 3, .stride = 2, .padding = 1},
    FIRST_BLOCK("2a", 64, 1),
    BLOCK("2b", 64),
    BLOCK("2c", 64),
    FIRST_BLOCK("3a", 128, 2),
    BLOCK("3b", 128),
    BLOCK("3c", 128),
    BLOCK("3d", 128),
    FIRST_BLOCK("4a", 256, 2),
    BLOCK("4b", 256),
    BLOCK("4c", 256),
    BLOCK("4d", 256),
    BLOCK("4e", 256),
    BLOCK("4f", 256),
    FIRST_BLOCK("5a", 512, 2),
    BLOCK("5b", 512),
    BLOCK("5c", 512),
    {.name = "pool5", .kind = "global_pool"},
    {.name = "fc", .kind = "dense", .units = 1000, .deviation = CLASSIFIER_DEVIATION},
    {.name = "loss", .kind = "softmax"},
};

#define LAYERS(array) .layer_count = (int)(sizeof(array) / sizeof((array)[0])), .layers = (array)

static const dl_model_table tables[] = {
    {.name = "mlp", .in = {28, 28, 1}, LAYERS(mlp_layers)},
    {.name = "lenet", .in = {28, 28, 1}, LAYERS(lenet_layers)},
    {.name = "vgg19_bn", .in = {32, 32, 3}, LAYERS(vgg19_bn_layers)},
    {.name = "resnet50", .in = {224, 224, 3}, LAYERS(resnet50_layers)},
};

/* In the order of the tables. */
const char *const dl_model_names[] = {"mlp", "lenet", "vgg19_bn", "resnet50", NULL};

dl_status dl_model_table_find(const dl_model_table **table, const char *name, dl_error *err)
{
    enum { COUNT = sizeof tables / sizeof tables[0] };
    const int found = dl_names_find(name, dl_model_names, COUNT);
    if (found < 0) {
        char hint[DL_ERROR_TEXT_BYTES / 2];
        dl_names_hint(hint, sizeof hint, name, dl_model_names, COUNT);
        return dl_error_set(err, DL_ERR_NAME, "unknown model '%s'%s", name, hint);
    }
    *table = &tables[found];
    return DL_OK;
}
