/* VGG-19 with batch norm and ResNet-50 as a whole: sizes, loss and gradients compared with
 * PyTorch's, and that they learn. */
#include <stdlib.h>

#include "common/random.h"
#include "kernels/model_table.h"
#include "tests/check.h"
#include "tests/near.h"

enum { BATCH = 4 };

static dl_model *create(const char *name, int side, dl_precision precision)
{
    const dl_model_table *found = NULL;
    assert_int_equal(dl_model_table_find(&found, name, NULL), DL_OK);
    dl_model_table table = *found;
    table.in = (dl_shape){side, side, 3};
    return dl_model_create_from(&table, precision, BATCH, 1);
}

static void fill(dl_model *model)
{
    const size_t count = BATCH * dl_model_input_count(model);
    dl_random random;
    dl_random_init(&random, 2, 0, 0, 0);
    for (size_t i = 0; i < count; i++) {
        const double value = dl_random_uniform(&random);
        if (dl_model_precision(model) == DL_DOUBLE) {
            ((double *)dl_model_input(model))[i] = value;
        } else {
            ((float *)dl_model_input(model))[i] = (float)value;
        }
    }
    for (int i = 0; i < BATCH; i++) {
        dl_model_labels(model)[i] =
            (int32_t)dl_random_below(&random, (uint64_t)dl_model_class_count(model));
    }
}

static double step(dl_model *model)
{
    const int count = dl_model_operation_count(model);
    for (int i = 0; i < count; i++)
        dl_model_forward(model, i, BATCH);
    for (int i = count - 1; i >= 0; i--)
        dl_model_backward(model, i, BATCH);
    return dl_model_loss(model);
}

typedef struct model_case {
    const char *name;
    int side; /* rows and columns of the images */
    size_t parameters;
    int operations;
    double multiply_adds, first; /* of one sample's forward pass at this size; of its first layer */
    double loss;
    struct {
        const char *operation;
        double norm;
    } gradients[6];
} model_case;

/* Parameters: torchvision's documented 25 557 032 for resnet50; for vgg19_bn the convolutions' 20
 * 024 384, 2 per channel of each batch norm, and 5130 of the dense layer. Multiply-adds of
 * vgg19_bn: for each convolution pixels x 9 x channels x filters; those of resnet50 at 64 pixels
 * are (64 / 224)^2 of the 4 087 136 256 of its convolutions at 224, and 2048 x 1000. Loss and norms
 * of the gradients (root of the sum of squares over an operation's parameters): PyTorch 2.15.0,
 * CPU, double, with the same network, and parameters and images made by `prepare`. */
static const model_case cases[] = {
    {"vgg19_bn",
     32,
     20040522,
     55,
     398136320,
     1769472,
     9.05526853259596,
     {{"conv1_1", 135.422633216},
      {"bn1_1", 41.027715557},
      {"conv3_1", 81.4917011522},
      {"bn4_1", 1.66818340889},
      {"conv5_4", 3.01093465508},
      {"fc", 18.7901717059}}},
    {"resnet50",
     64,
     25557032,
     175,
     333643776 + 2048000,
     9633792,
     54.9329323884571,
     {{"conv1", 623.457425885},
      {"2a.conv_projection", 145.36072093},
      {"3a.conv2", 236.263845577},
      {"4f.bn3", 0.320282717447},
      {"5a.bn_projection", 0.538261304149},
      {"fc", 31.0390766855}}},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

/* Changes every parameter, so that none keeps its initial 0 or 1. */
static void prepare(dl_model *model)
{
    double *parameters = dl_model_parameters(model);
    for (size_t i = 0; i < dl_model_parameter_count(model); i++) {
        parameters[i] = parameters[i] * (1 + 0.1 * (double)(i % 3)) + 0.01 * ((double)(i % 5) - 2);
    }
    fill(model);
}

static int operation_called(const dl_model *model, const char *name)
{
    for (int i = 0; i < dl_model_operation_count(model); i++) {
        if (strcmp(dl_model_operation_name(model, i), name) == 0) return i;
    }
    fail_msg("no operation is called %s", name);
    return -1;
}

static double gradient_norm(dl_model *model, const char *operation)
{
    size_t first, count;
    dl_model_operation_parameters(model, operation_called(model, operation), &first, &count);
    return rms((double *)dl_model_gradients(model) + first, count) * sqrt((double)count);
}

static void check_case(const model_case *c)
{
    dl_model *model = create(c->name, c->side, DL_DOUBLE);
    double flops = 0;
    assert_int_equal(dl_model_parameter_count(model), c->parameters);
    assert_int_equal(dl_model_operation_count(model), c->operations);
    for (int i = 0; i < c->operations; i++)
        flops += dl_model_operation_flops(model, i);
    /* 2 flops per multiply-add; three products per layer, two in the first. */
    assert_true(near_scaled(flops, 6 * c->multiply_adds - 2 * c->first, 0, 0));
    prepare(model);
    const double loss = step(model);
    assert_true(near_scaled(loss, c->loss, 0, 1e-9));
    for (int i = 0; i < 6; i++) {
        const double norm = gradient_norm(model, c->gradients[i].operation);
        if (!near_scaled(norm, c->gradients[i].norm, 0, 1e-8)) {
            fail_msg("%s, %s", c->name, c->gradients[i].operation);
        }
    }
    dl_model_destroy(model);
}

static void vgg19_bn_matches_pytorch(void **state DL_UNUSED)
{
    check_case(&cases[0]);
}

static void resnet50_matches_pytorch(void **state DL_UNUSED)
{
    check_case(&cases[1]);
}

/* The first loss is close to that of equal probabilities, ln(classes); eight steps of plain
 * gradient descent on the same batch reduce it to below half of that. */
static void loss_falls_on_one_batch(void **state DL_UNUSED)
{
    for (int i = 0; i < CASE_COUNT; i++) {
        dl_model *model = create(cases[i].name, cases[i].side, DL_FLOAT);
        const double even = log((double)dl_model_class_count(model));
        float *parameters = dl_model_parameters(model);
        const float *gradients = dl_model_gradients(model);
        fill(model);
        double loss = step(model);
        if (!near_scaled(loss, even, 0, 0.15)) fail_msg("%s begins far off", cases[i].name);
        for (int s = 0; s < 8; s++) {
            for (size_t k = 0; k < cases[i].parameters; k++)
                parameters[k] -= 0.002f * gradients[k];
            loss = step(model);
        }
        if (!(loss < 0.5 * even)) fail_msg("%s: loss %g after 8 steps", cases[i].name, loss);
        dl_model_destroy(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vgg19_bn_matches_pytorch),
        cmocka_unit_test(resnet50_matches_pytorch),
        cmocka_unit_test(loss_falls_on_one_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
