/* [layer NAME] of a cost file. */
#include "tests/sim_fixture.h"

#include <unistd.h>

#define HEAD "[costs]\nschema = 1\nparameter_bytes = 1000\n"
#define OPERATIONS                                         \
    "[op a.forward]\nfixed_ns = 1\nper_sample_ns = 1\n"    \
    "[op a.backward]\nfixed_ns = 1\nper_sample_ns = 1\n"   \
    "[op pool.forward]\nfixed_ns = 1\nper_sample_ns = 1\n" \
    "[op input]\nfixed_ns = 1\nper_sample_ns = 1\n"        \
    "[op all.update]\nfixed_ns = 1\nper_sample_ns = 1\n"

static void layers_are_read_and_written(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(
        HEAD "tensor_ranks = 4\nexpert_ranks = 8\n" OPERATIONS
             "[layer a]\noutput_bytes_per_sample = 40, catalogue\n"
             "parameter_bytes = 1000, catalogue\nexpert_parameter_bytes = 600\n"
             "expert_bytes_per_sample = 50\nexpert_exchanges_forward = 2\n"
             "expert_exchanges_backward = 4\nexpert_copies = 6\nexpert_count = 24\n[layer "
             "pool]\nparameter_bytes = 0\nactivation_bytes_per_sample = 7\n"
             "tensor_bytes_per_sample = 90\n"
             "tensor_collectives_forward = 2\n"
             "tensor_collectives_backward = 3\ntensor_collectives_beside = 2\n"
             "tensor_beside_ns_per_sample = 5000\n");
    char path[64];
    snprintf(path, sizeof path, "costs_layers_%d.ini", (int)getpid());
    dl_error err = {0};
    assert_int_equal(dl_costs_write(&costs, path, NULL, &err), DL_OK);
    DL_SCOPED(dl_costs) back = {0};
    assert_int_equal(dl_costs_read(&back, path, &err), DL_OK);
    unlink(path);
    assert_int_equal(back.layer_count, 2);
    assert_string_equal(back.layers[0].name, "a");
    assert_true(back.layers[0].output_bytes_per_sample.value == 40);
    assert_int_equal(back.layers[0].parameter_bytes.origin, DL_ORIGIN_CATALOGUE);
    assert_true(back.layers[1].parameter_bytes.known);
    assert_true(back.layers[1].activation_bytes_per_sample.value == 7);
    assert_false(back.layers[1].output_bytes_per_sample.known);
    assert_int_equal(back.tensor_ranks, 4);
    assert_int_equal(back.expert_ranks, 8);
    assert_true(back.layers[0].expert_parameter_bytes.value == 600);
    assert_true(back.layers[0].expert_bytes_per_sample.value == 50);
    assert_true(back.layers[0].expert_exchanges_forward.value == 2);
    assert_true(back.layers[0].expert_exchanges_backward.value == 4);
    assert_true(back.layers[0].expert_copies.value == 6);
    assert_true(back.layers[0].expert_count.value == 24);
    assert_false(back.layers[1].expert_parameter_bytes.known);
    assert_true(back.layers[1].tensor_bytes_per_sample.value == 90);
    assert_true(back.layers[1].tensor_collectives_forward.value == 2);
    assert_true(back.layers[1].tensor_collectives_backward.value == 3);
    assert_true(back.layers[1].tensor_collectives_beside.value == 2);
    assert_true(back.layers[1].tensor_beside_ns_per_sample.value == 5000);
    assert_false(back.layers[0].tensor_bytes_per_sample.known);
}

static void layers_must_be_those_of_the_model(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {HEAD OPERATIONS "[layer pol]\nparameter_bytes = 0\n", DL_ERR_NAME, 0, "pool"},
        {HEAD OPERATIONS "[layer a]\nweights = 0\n", DL_ERR_NAME, 20, "weights"},
        {HEAD OPERATIONS "[layer a]\nparameter_bytes = -1\n", DL_ERR_RANGE, 20,
         "-1 B is not within 0 B"},
        {HEAD OPERATIONS "[layer a]\nparameter_bytes = 900\n[layer pool]\nparameter_bytes = 0\n",
         DL_ERR_DATA, 0, "900 bytes of parameters"},
        {HEAD OPERATIONS "[layer a]\nparameter_bytes = 900\nexpert_parameter_bytes = 901\n",
         DL_ERR_DATA, 0, "[layer a]: expert_parameter_bytes is 901, of parameter_bytes = 900"},
        {HEAD "expert_ranks = 8\n" OPERATIONS "[layer a]\nparameter_bytes = 900\n"
              "expert_copies = 2\n",
         DL_ERR_DATA, 0, "[layer a]: expert_copies = 2 needs a whole number, and expert_count"},
        {HEAD "expert_ranks = 8\n" OPERATIONS "[layer a]\nparameter_bytes = 900\n"
              "expert_copies = 2\nexpert_count = 12\n",
         DL_ERR_DATA, 0, "a multiple of expert_ranks = 8, of at least as many: it is 12"},
        {HEAD "expert_ranks = 8\n" OPERATIONS "[layer a]\nparameter_bytes = 900\n"
              "expert_copies = 9\nexpert_count = 8\n",
         DL_ERR_DATA, 0, "it is 8"},
    };
    assert_all_refused(cases, "costs.ini", fixture_refused_costs);
    /* Values missing for one layer cannot be summed. */
    DL_SCOPED(dl_costs) costs DL_UNUSED =
        fixture_costs(HEAD OPERATIONS "[layer a]\nparameter_bytes = 900\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_read_and_written),
        cmocka_unit_test(layers_must_be_those_of_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
