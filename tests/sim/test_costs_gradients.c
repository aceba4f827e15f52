/* [gradients] of cost files. */
#include <string.h>

#include "sim/costs/costs.h"
#include "tests/check.h"
#include "tests/sim_fixture.h"

#define HEAD "[costs]\nschema = 1\n"

static void shares_and_bytes_are_read(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs(HEAD "[gradients]\nready_1 = 0.25, 1e6\nready_2 = 1, 4e6\n");
    assert_int_equal(costs.gradient_count, 2);
    assert_true(costs.gradients[0].share == 0.25 && costs.gradients[0].bytes == 1e6);
    assert_true(costs.gradients[1].share == 1 && costs.gradients[1].bytes == 4e6);
    dl_costs_free(&costs);
}

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {HEAD "[gradients]\nready_2 = 0.1, 100\n", DL_ERR_NAME, 4, "ready_1"},
        {HEAD "[gradients]\nready_1 = 0.1\n", DL_ERR_PARSE, 4, "expected a share"},
        {HEAD "[gradients]\nready_1 = 1.1, 100\n", DL_ERR_RANGE, 4, "ready_1"},
        {HEAD "[gradients]\nready_1 = 0.1, 0\n", DL_ERR_RANGE, 4, "ready_1"},
        {HEAD "[gradients]\nready_1 = 0.1, x\n", DL_ERR_PARSE, 4, "ready_1"},
        {HEAD "[gradients]\nready_1 = 0.5, 100\nready_2 = 0.4, 200\n", DL_ERR_DATA, 5, "sums"},
        {HEAD "[gradients]\nready_1 = 0.5, 100\nready_2 = 0.6, 100\n", DL_ERR_DATA, 5, "sums"},
    };
    assert_all_refused(cases, "costs.ini", fixture_refused_costs);
}

static void what_is_written_reads_back(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs(HEAD "[gradients]\nready_1 = 0.123456789, 8196000\nready_2 = 0.97, 1.02e8\n");
    DL_SCOPED(dl_costs) back = {0};
    dl_error err = {0};
    assert_int_equal(dl_costs_write(&costs, "test_costs_gradients.ini", NULL, &err), DL_OK);
    assert_int_equal(dl_costs_read(&back, "test_costs_gradients.ini", &err), DL_OK);
    remove("test_costs_gradients.ini");
    assert_int_equal(back.gradient_count, 2);
    assert_memory_equal(back.gradients, costs.gradients, 2 * sizeof *costs.gradients);
    dl_costs_free(&costs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_and_bytes_are_read),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
