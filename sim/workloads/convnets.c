/* Networks of convolutions and dense layers. */
#include <stdbool.h>

#include "common/alloc.h"
#include "sim/workloads/workloads_internal.h"

enum { IMAGE, CLASSES, LAYOUT, KEYS };
enum { NHWC, NCHW };

static const char *const layouts[] = {"nhwc", "nchw", NULL};

static const dl_network_key keys[KEYS] = {
    [IMAGE] = {"image", NULL, 1, 4096, "number of rows and columns of an image", NULL},
    [CLASSES] = {"classes", NULL, 1, 10000000, "number of classes", NULL},
    [LAYOUT] = {"layout", layouts, 0, 0,
                "memory layout of images. nhwc: PyTorch's channels_last; nchw: PyTorch's default, "
                "which is "
                "converted for convolutions on tensor cores",
                NULL},
};

/* --- layers ---------------------------------------------------------------------------------- */

/* Input of the next layer: a square image with `side` pixels per side and `channels`. */
typedef struct flow {
    dl_architecture *architecture;
    double side, channels;
    bool nchw;
} flow;

/* Extra traffic of batch norm with nchw in fp16, where PyTorch uses its own kernels instead of
 * cuDNN's: measured for ResNet-50 on an H200 (PyTorch 2.11, batch 256), 60.7 ms instead of 24.4
 * ms. */
#define NCHW_NORM 1.5

static double size_of(const flow *f)
{
    return f->side * f->side * f->channels;
}

static bool is_first(const flow *f)
{
    return f->architecture->layer_count == 1;
}

/* Adds one kernel of matrix products; `turned`: its inputs and outputs are converted to another
 * layout. */
static void add_product(dl_layer_pass *pass, double flop, double moved, double weights,
                        bool small_windows, bool turned)
{
    dl_pass_add(pass, flop, moved, weights, 1)->small_windows = small_windows;
    if (turned) dl_pass_add(pass, 0, 0, 0, 0)->turned = 2 * moved;
}

/* Adds matrix products from `inputs` numbers to `outputs`, with their weights and biases. */
static void add_products(const flow *f, dl_architecture_layer *layer, double flop, double inputs,
                         double outputs, double matrix, double bias, bool small_windows,
                         bool turned)
{
    const double weights = matrix + bias;
    layer->output_numbers = layer->kept_numbers = outputs;
    const double moved = inputs + outputs;
    add_product(&layer->forward, flop, moved, weights, small_windows, turned);
    if (!is_first(f)) add_product(&layer->backward, flop, moved, weights, small_windows, turned);
    add_product(&layer->backward, flop, moved, weights, small_windows, turned);
    dl_layer_add_tensors(layer, 1, matrix);
    if (bias > 0) dl_layer_add_tensors(layer, 1, bias);
}

static void add_conv(flow *f, char *name, double filters, int window, int stride, int padding,
                     bool bias)
{
    const double inputs = size_of(f), channels = f->channels, area = window * window;
    f->side = (double)(((int)f->side + 2 * padding - window) / stride + 1);
    f->channels = filters;
    const double pixels = f->side * f->side;
    add_products(f, dl_architecture_add(f->architecture, name),
                 2 * pixels * filters * area * channels, inputs, size_of(f),
                 filters * area * channels, bias ? filters : 0, window == 3 && stride == 1,
                 f->nchw);
}

static void add_dense(flow *f, char *name, double units)
{
    const double inputs = size_of(f);
    f->side = 1;
    f->channels = units;
    add_products(f, dl_architecture_add(f->architecture, name), 2 * inputs * units, inputs, units,
                 units * inputs, units, false, false);
}

static void add_norm(flow *f, char *name)
{
    dl_architecture_layer *layer = dl_architecture_add(f->architecture, name);
    const double size = size_of(f);
    layer->output_numbers = layer->kept_numbers = size;
    dl_layer_part *parts[] = {dl_pass_add(&layer->forward, 0, 3 * size, 0, 1),
                              dl_pass_add(&layer->backward, 0, 5 * size, 0, 1)};
    for (int p = 0; f->nchw && p < 2; p++)
        parts[p]->in_half = NCHW_NORM * parts[p]->numbers;
    dl_layer_add_tensors(layer, 2, f->channels);
}

/* Adds an in-place operation: its forward pass reads and writes `forward` numbers per output
 * number, its backward pass `backward`. */
static void add_elementwise(flow *f, char *name, double forward)
{
    dl_architecture_layer *layer = dl_architecture_add(f->architecture, name);
    const double size = size_of(f);
    layer->output_numbers = size;
    dl_pass_add(&layer->forward, 0, forward * size, 0, 1);
    dl_pass_add(&layer->backward, 0, 3 * size, 0, 1);
}

static void add_relu(flow *f, char *name)
{
    add_elementwise(f, name, 2);
}

static void add_pool(flow *f, char *name, int window, int stride, int padding)
{
    dl_architecture_layer *layer = dl_architecture_add(f->architecture, name);
    const double inputs = size_of(f);
    f->side = (double)(((int)f->side + 2 * padding - window) / stride + 1);
    const double outputs = size_of(f);
    layer->output_numbers = layer->kept_numbers = outputs;
    dl_pass_add(&layer->forward, 0, inputs + outputs, 0, 1);
    dl_pass_add(&layer->backward, 0, inputs + 2 * outputs, 0, 1);
}

static void add_loss(flow *f)
{
    add_elementwise(f, dl_strdup("loss"), 4);
}

/* --- networks -------------------------------------------------------------------------------- */

static void build_mlp(flow *f, double classes)
{
    static const double units[] = {128, 64};
    for (int i = 0; i < 2; i++) {
        add_dense(f, dl_format("fc%d", i + 1), units[i]);
        add_relu(f, dl_format("relu%d", i + 1));
    }
    add_dense(f, dl_strdup("fc3"), classes);
}

static void build_lenet(flow *f, double classes)
{
    static const double filters[] = {20, 50};
    for (int i = 0; i < 2; i++) {
        add_conv(f, dl_format("conv%d", i + 1), filters[i], 5, 1, 0, true);
        add_pool(f, dl_format("pool%d", i + 1), 2, 2, 0);
        add_relu(f, dl_format("relu%d", i + 1));
    }
    add_dense(f, dl_strdup("fc1"), 500);
    add_relu(f, dl_strdup("relu3"));
    add_dense(f, dl_strdup("fc2"), classes);
}

/* Shapes of networks: number and kind of their layers. */
enum {
    VGG16,
    VGG19,
    VGG19_BN_CIFAR,
    VGG19_BN,
    MLP,
    LENET,
    RESNET18,
    RESNET34,
    RESNET50,
    RESNET101,
    RESNET152
};

/* Simonyan and Zisserman 2015, table 1: five groups of convolutions, `count` each. */
static void build_vgg(flow *f, int shape, double classes)
{
    const bool norm = shape == VGG19_BN_CIFAR || shape == VGG19_BN;
    for (int group = 1; group <= 5; group++) {
        const int count = group <= 2 ? 2 : shape == VGG16 ? 3 : 4;
        const double filters = group == 1 ? 64 : group == 2 ? 128 : group == 3 ? 256 : 512;
        for (int i = 1; i <= count; i++) {
            add_conv(f, dl_format("conv%d_%d", group, i), filters, 3, 1, 1, true);
            if (norm) add_norm(f, dl_format("bn%d_%d", group, i));
            add_relu(f, dl_format("relu%d_%d", group, i));
        }
        add_pool(f, dl_format("pool%d", group), 2, 2, 0);
    }
    if (shape == VGG19_BN_CIFAR) {
        add_dense(f, dl_strdup("fc"), classes);
        return;
    }
    for (int i = 6; i <= 7; i++) {
        add_dense(f, dl_format("fc%d", i), 4096);
        add_relu(f, dl_format("relu%d", i));
    }
    add_dense(f, dl_strdup("fc8"), classes);
}

static void add_conv_norm(flow *f, const char *block, const char *number, double filters,
                          int window, int stride)
{
    add_conv(f, dl_format("%s.conv%s", block, number), filters, window, stride, window / 2, false);
    add_norm(f, dl_format("%s.bn%s", block, number));
}

/* Adds a residual block: He et al. 2016, table 1, with the stride in the 3x3 convolutions ("v1.5"):
 * two convolutions, or a bottleneck of three, to whose result the input is added, through a
 * projection if the shape changes. */
static void add_residual(flow *f, const char *block, double width, int stride, bool bottleneck)
{
    const double outputs = bottleneck ? 4 * width : width;
    const flow input = *f;
    if (bottleneck) {
        add_conv_norm(f, block, "1", width, 1, 1);
        add_relu(f, dl_format("%s.relu1", block));
        add_conv_norm(f, block, "2", width, 3, stride);
        add_relu(f, dl_format("%s.relu2", block));
        add_conv_norm(f, block, "3", outputs, 1, 1);
    } else {
        add_conv_norm(f, block, "1", width, 3, stride);
        add_relu(f, dl_format("%s.relu1", block));
        add_conv_norm(f, block, "2", width, 3, 1);
    }
    if (stride > 1 || input.channels != outputs) {
        *f = input;
        add_conv_norm(f, block, "_projection", outputs, 1, stride);
    }
    add_elementwise(f, dl_format("%s.add", block), 3);
    add_relu(f, dl_format("%s.relu%d", block, bottleneck ? 3 : 2));
}

static void build_resnet(flow *f, int shape, double classes)
{
    static const int blocks[][4] = {
        {2, 2, 2, 2}, {3, 4, 6, 3}, {3, 4, 6, 3}, {3, 4, 23, 3}, {3, 8, 36, 3}};
    add_conv(f, dl_strdup("conv1"), 64, 7, 2, 3, false);
    add_norm(f, dl_strdup("bn1"));
    add_relu(f, dl_strdup("relu1"));
    add_pool(f, dl_strdup("pool1"), 3, 2, 1);
    for (int stage = 0; stage < 4; stage++) {
        const int count = blocks[shape - RESNET18][stage];
        for (int b = 0; b < count; b++) {
            DL_AUTOFREE char *name = b < 26 ? dl_format("%d%c", stage + 2, 'a' + b)
                                            : dl_format("%da%c", stage + 2, 'a' + b - 26);
            add_residual(f, name, 64 << stage, stage > 0 && b == 0 ? 2 : 1, shape >= RESNET50);
        }
    }
    dl_architecture_layer *pool = dl_architecture_add(f->architecture, dl_strdup("pool5"));
    const double inputs = size_of(f);
    f->side = 1;
    pool->output_numbers = pool->kept_numbers = size_of(f);
    dl_pass_add(&pool->forward, 0, inputs + size_of(f), 0, 1);
    dl_pass_add(&pool->backward, 0, inputs + size_of(f), 0, 1);
    add_dense(f, dl_strdup("fc"), classes);
}

/* Smallest image side that leaves an input for the dense layers. */
static int least_image(int shape)
{
    return shape == MLP ? 1 : shape == LENET ? 16 : 32;
}

static dl_status build(dl_architecture *architecture, const dl_named_network *network,
                       const int64_t *values, dl_error *err)
{
    const double channels = network->shape == MLP || network->shape == LENET ? 1 : 3;
    const double classes = (double)values[CLASSES];
    flow f = {architecture, (double)values[IMAGE], channels, values[LAYOUT] == NCHW};
    if (values[IMAGE] < least_image(network->shape)) {
        return dl_error_set(err, DL_ERR_RANGE, "image = %lld: %s needs %d at least",
                            (long long)values[IMAGE], network->name, least_image(network->shape));
    }
    architecture->input_numbers = size_of(&f);
    if (network->shape == MLP) {
        build_mlp(&f, classes);
    } else if (network->shape == LENET) {
        build_lenet(&f, classes);
    } else if (network->shape <= VGG19_BN) {
        build_vgg(&f, network->shape, classes);
    } else {
        build_resnet(&f, network->shape, classes);
    }
    add_loss(&f);
    return DL_OK;
}

#define NETWORK(title, size, count, form, text)                                                   \
    {                                                                                             \
        .name = title, .help = text, .values = {[IMAGE] = size, [CLASSES] = count}, .shape = form \
    }

static const dl_named_network networks[] = {
    NETWORK("mlp", 28, 10, MLP, "784-128-64-10, MNIST"),
    NETWORK("lenet", 28, 10, LENET, "20 and 50 filters 5x5, 500, 10, MNIST"),
    NETWORK("vgg16", 224, 1000, VGG16, "Simonyan and Zisserman 2015, D, ImageNet"),
    NETWORK("vgg19", 224, 1000, VGG19, "the same, E"),
    NETWORK("vgg19_bn", 32, 10, VGG19_BN_CIFAR, "E with batch norm, one dense layer, CIFAR-10"),
    NETWORK("vgg19_bn_imagenet", 224, 1000, VGG19_BN, "E with batch norm, ImageNet"),
    NETWORK("resnet18", 224, 1000, RESNET18, "He et al. 2016, ImageNet"),
    NETWORK("resnet34", 224, 1000, RESNET34, "the same"),
    NETWORK("resnet50", 224, 1000, RESNET50, "the same, stride in the 3x3 convolutions (v1.5)"),
    NETWORK("resnet101", 224, 1000, RESNET101, "the same"),
    NETWORK("resnet152", 224, 1000, RESNET152, "the same"),
};

static const char compiled[] =
    "torch.compile is not simulated for them: --calibrate STEP scales the prediction to a step "
    "that was timed with it";

static const dl_word key_words[] = {
    {"compile", NULL, compiled},      {"torch_compile", NULL, compiled},
    {"fused", NULL, compiled},        {"memory_format", "layout", NULL},
    {"image_size", "image", NULL},    {"resolution", "image", NULL},
    {"num_classes", "classes", NULL}, {NULL, NULL, NULL},
};

const dl_network_kind dl_convnets = {.title = "networks of images",
                                     .class = DL_MODEL_CONVOLUTION,
                                     .keys = keys,
                                     .key_count = KEYS,
                                     .networks = networks,
                                     .network_count = DL_LENGTH(networks),
                                     .key_words = key_words,
                                     .build = build};
