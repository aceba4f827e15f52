/* Skip connections: links, shared gradients and memory of a residual network small enough to check
 * every parameter. */
#include <stdlib.h>

#include "common/random.h"
#include "kernels/model_table.h"
#include "tests/check.h"
#include "tests/near.h"

enum { BATCH = 3 };

#define CONV(label, filters, ...)                                                         \
    {                                                                                     \
        .name = (label), .kind = "conv", .units = (filters), .no_bias = true, __VA_ARGS__ \
    }
#define NORM(label)                           \
    {                                         \
        .name = (label), .kind = "batch_norm" \
    }
#define RELU(label)                     \
    {                                   \
        .name = (label), .kind = "relu" \
    }

/* A stem, a block whose branch changes the shape, a block that keeps the shape. */
static const dl_layer_spec layers[] = {
    /*  0 */ CONV("stem", 3, .kernel = 3, .padding = 1),
    /*  1 */ NORM("stem norm"),
    /*  2 */ RELU("stem relu"),
    /*  3 */ {.name = "pool", .kind = "max_pool", .kernel = 3, .stride = 2, .padding = 1},
    /*  4 */ CONV("a1", 2, .kernel = 1),
    /*  5 */ NORM("a1 norm"),
    /*  6 */ RELU("a1 relu"),
    /*  7 */ CONV("a2", 4, .kernel = 3, .stride = 2, .padding = 1),
    /*  8 */ NORM("a2 norm"),
    /*  9 */ CONV("projection", 4, .kernel = 1, .stride = 2, .back = 6),
    /* 10 */ NORM("projection norm"),
    /* 11 */ {.name = "a add", .kind = "add", .skip = 3},
    /* 12 */ RELU("a relu"),
    /* 13 */ CONV("b1", 4, .kernel = 3, .padding = 1),
    /* 14 */ NORM("b1 norm"),
    /* 15 */ {.name = "b add", .kind = "add", .skip = 3},
    /* 16 */ RELU("b relu"),
    /* 17 */ {.name = "global", .kind = "global_pool"},
    /* 18 */ {.name = "fc", .kind = "dense", .units = 3},
    /* 19 */ {.name = "loss", .kind = "softmax"},
};
enum { LAYERS = sizeof layers / sizeof layers[0] };

static const dl_model_table table = {
    .name = "small", .in = {8, 8, 2}, .layer_count = LAYERS, .layers = layers};

static void fill(dl_model *model, uint64_t seed)
{
    dl_random random;
    dl_random_init(&random, seed, 0, 0, 0);
    double *input = dl_model_input(model);
    for (size_t i = 0; i < BATCH * dl_model_input_count(model); i++)
        input[i] = dl_random_normal(&random);
    for (int i = 0; i < BATCH; i++)
        dl_model_labels(model)[i] = i % 3;
}

static double forward(dl_model *model)
{
    for (int i = 0; i < LAYERS; i++)
        dl_model_forward(model, i, BATCH);
    return dl_model_loss(model);
}

static void backward(dl_model *model)
{
    for (int i = LAYERS - 1; i >= 0; i--)
        dl_model_backward(model, i, BATCH);
}

/* All parameters, in double: a path that is left out or counted twice would be detected. */
static void gradients_match_finite_differences(void **state DL_UNUSED)
{
    dl_model *model = dl_model_create_from(&table, DL_DOUBLE, BATCH, 4);
    double *parameters = dl_model_parameters(model);
    const double *gradients = dl_model_gradients(model), h = 1e-6;
    const size_t count = dl_model_parameter_count(model);
    fill(model, 1);
    (void)forward(model);
    backward(model);
    const double scale = rms(gradients, count);
    for (size_t k = 0; k < count; k++) {
        const double middle = parameters[k];
        parameters[k] = middle + h;
        const double above = forward(model);
        parameters[k] = middle - h;
        const double difference = (above - forward(model)) / (2 * h);
        parameters[k] = middle;
        if (!near_scaled(gradients[k], difference, scale, 1e-6)) fail_msg("parameter %zu", k);
    }
    dl_model_destroy(model);
}

/* A step that is repeated after another one gives the same bits: shared memory is written before it
 * is read. */
static void steps_repeat_bit_for_bit(void **state DL_UNUSED)
{
    dl_model *model = dl_model_create_from(&table, DL_DOUBLE, BATCH, 4);
    const size_t bytes = dl_model_parameter_bytes(model);
    DL_AUTOFREE void *first = dl_calloc(1, bytes, "test");
    fill(model, 1);
    (void)forward(model);
    backward(model);
    memcpy(first, dl_model_gradients(model), bytes);
    fill(model, 2);
    (void)forward(model);
    backward(model);
    assert_memory_not_equal(first, dl_model_gradients(model), bytes);
    fill(model, 1);
    (void)forward(model);
    backward(model);
    assert_memory_equal(first, dl_model_gradients(model), bytes);
    dl_model_destroy(model);
}

/* Shapes per sample: stem 8x8x3 = 192, pool 4x4x3 = 48, a1 4x4x2 = 32, a2, projection, b1 and the
 * layers after them 2x2x4 = 16, global 4, fc 3, loss 3.
 *
 * Kept in double: input 128; stem 2 x 192 (convolution and its norm; the rectifier is in place),
 * pool 48, a1 2 x 32, a2, projection, b1 2 x 16 each, global 4, fc 3, loss 3 = 730 numbers. Also:
 * labels, pool's choice of 48 int32, each sample's loss and whether it was right (12 bytes), and 4
 * numbers per channel of each norm (3+2+4+4+4 = 17). Gradients in the backward pass: array P (16)
 * is that of `b add`, of its two terms and thus of `a relu`, to which b1's convolution adds; it
 * stays for both branches of a. Q holds those of the convolutions' outputs in turn, a1's (32) being
 * the largest. R is pool's (48), which the projection writes while a2's norm has not yet read P.
 * Then P is free and takes the stem norm's (192), R the stem's (192). */
static void memory_is_what_the_shapes_need(void **state DL_UNUSED)
{
    dl_model *model = dl_model_create_from(&table, DL_DOUBLE, BATCH, 4);
    const dl_model_memory use = dl_model_memory_use(model);
    /* Filters 3x3x2x3, 3x2, 3x3x2x4, 3x4, 3x3x4x4; norms 2 x 17; dense 4x3 + 3. */
    const size_t parameters = 54 + 6 + 72 + 12 + 144 + 34 + 15;
    assert_int_equal(use.parameter_bytes, 8 * parameters);
    assert_int_equal(use.gradient_bytes, 8 * parameters);
    assert_int_equal(use.activation_bytes,
                     BATCH * (8 * 730 + 4 + 48 * 4 + 12) + 8 * 4 * (3 + 2 + 4 + 4 + 4));
    assert_int_equal(use.activation_gradient_bytes, BATCH * 8 * (192 + 32 + 192));
    dl_model_destroy(model);
}

/* Two arrays of gradients alternate in a chain, each as large as its largest gradient: lenet's fc2
 * (10), pool2 (800), pool1 (2880) in one; fc1 (500), conv2 (3200), conv1 (11520) in the other. */
static void chain_needs_two_arrays(void **state DL_UNUSED)
{
    dl_model *model = NULL;
    assert_int_equal(dl_model_create(&model, "lenet", DL_FLOAT, 2, 1, NULL), DL_OK);
    assert_int_equal(dl_model_memory_use(model).activation_gradient_bytes,
                     2 * sizeof(float) * (2880 + 11520));
    dl_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(steps_repeat_bit_for_bit),
        cmocka_unit_test(memory_is_what_the_shapes_need),
        cmocka_unit_test(chain_needs_two_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
