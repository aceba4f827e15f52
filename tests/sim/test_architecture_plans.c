/* Networks that can be trained here and are counted by sim/workloads have the same layers in both:
 * the names, parameters and flop of each layer equal those planned by kernels/. */
#include <stdlib.h>

#include "kernels/model.h"
#include "sim/workloads/architecture.h"
#include "tests/check.h"
#include "tests/near.h"

static void check_model(const char *name)
{
    dl_model *model = NULL;
    DL_SCOPED(dl_architecture) counted = {0};
    assert_int_equal(dl_model_create(&model, name, DL_FLOAT, 1, 1, NULL), DL_OK);
    assert_int_equal(dl_architecture_make(&counted, name, NULL), DL_OK);
    assert_int_equal(counted.layer_count, dl_model_operation_count(model));
    for (int i = 0; i < dl_model_operation_count(model); i++) {
        const dl_architecture_layer *layer = &counted.layers[i];
        size_t first, count;
        dl_model_operation_parameters(model, i, &first, &count);
        assert_string_equal(layer->name, dl_model_operation_name(model, i));
        assert_int_equal(dl_layer_parameters(layer), count);
        const double flop = dl_pass_flop(&layer->forward) + dl_pass_flop(&layer->backward);
        if (!near_scaled(flop, dl_model_operation_flops(model, i), 0, 0)) {
            fail_msg("%s, %s: %g flop", name, layer->name, flop);
        }
    }
    assert_true(near_scaled(counted.input_numbers, (double)dl_model_input_count(model), 0, 0));
    dl_model_destroy(model);
}

static void counts_are_those_of_the_plans(void **state DL_UNUSED)
{
    for (int i = 0; dl_model_names[i] != NULL; i++)
        check_model(dl_model_names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_those_of_the_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
