/* Names of products are parsed in the written form only. */
#include "trace/shape.h"

#include "tests/check.h"

static void a_name_is_read_as_it_was_written(void **state DL_UNUSED)
{
    char name[DL_SHAPE_NAME_BYTES];
    const dl_shape_product product = {DL_PRODUCT_DATA, 2048, 512, DL_SHAPE_MAX};
    dl_shape_product read = {0};
    assert_string_equal(dl_shape_name(name, &product), "data 2048x512x16777216");
    assert_true(dl_shape_parse(name, &read));
    assert_int_equal(read.pass, DL_PRODUCT_DATA);
    assert_int_equal(read.rows, 2048);
    assert_int_equal(read.inputs, 512);
    assert_int_equal(read.outputs, DL_SHAPE_MAX);
}

static void other_names_are_none(void **state DL_UNUSED)
{
    static const char *const others[] = {"",
                                         "data",
                                         "data ",
                                         "move",
                                         "data 1x2",
                                         "data 1x2x",
                                         "data 0x2x3",
                                         "data 1x-2x3",
                                         "data 1x 2x3",
                                         "data 1x2x3x4",
                                         "data1x2x3",
                                         "datas 1x2x3",
                                         "data 1x2x3 ",
                                         "forward 1x2xa",
                                         "weight 1,2,3",
                                         "Data 1x2x3",
                                         "data +1x2x3",
                                         "data 1x2x16777217",
                                         "data 99999999999999999999x1x1"};
    dl_shape_product read = {0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (dl_shape_parse(others[i], &read)) fail_msg("'%s' is read", others[i]);
}

/* 2 x 3 x 5: 60 flop; 15 weights; 6 inputs and 10 outputs. */
static void sizes_by_hand(void **state DL_UNUSED)
{
    const dl_shape_product product = {DL_PRODUCT_WEIGHT, 2, 3, 5};
    assert_true(dl_shape_flop(&product) == 60);
    assert_true(dl_shape_weights(&product) == 15);
    assert_true(dl_shape_others(&product) == 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_read_as_it_was_written),
        cmocka_unit_test(other_names_are_none),
        cmocka_unit_test(sizes_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
