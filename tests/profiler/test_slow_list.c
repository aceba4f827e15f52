/* Workers slowed on purpose, and random numbers of samples per step: texts of the command line. */
#include <stdlib.h>

#include "tests/check.h"

#include "profiler/workload_options.h"

static void unnamed_workers_have_factor_one(void **state DL_UNUSED)
{
    const char *items[] = {"1:2", "3:1.5"};
    const dl_text_list list = {.items = items, .count = 2};
    DL_AUTOFREE double *factors = NULL;
    dl_error err = {0};
    assert_int_equal(dl_slow_list_parse(&list, 4, &factors, &err), DL_OK);
    const double expected[] = {1, 2, 1, 1.5};
    for (int w = 0; w < 4; w++)
        assert_true(factors[w] == expected[w]);
}

static void empty_list_is_null(void **state DL_UNUSED)
{
    const dl_text_list list = {0};
    double unused, *factors = &unused;
    assert_int_equal(dl_slow_list_parse(&list, 4, &factors, NULL), DL_OK);
    assert_null(factors);
}

/* No colon, no number, a worker that does not exist (of 2), a factor out of range, a worker
 * twice. */
static void refuses_others(void **state DL_UNUSED)
{
    static const struct {
        const char *first, *second;
    } cases[] = {{"1", NULL},     {"1:", NULL},   {":2", NULL},    {"x:2", NULL},  {"1:x", NULL},
                 {"2:2", NULL},   {"-1:2", NULL}, {"1:0.5", NULL}, {"1:-2", NULL}, {"1:1e9", NULL},
                 {"1:nan", NULL}, {"1:2", "1:3"}, {"0:2", "1"},    {"1:1", "1:1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *items[] = {cases[i].first, cases[i].second};
        const dl_text_list list = {.items = items, .count = cases[i].second != NULL ? 2 : 1};
        double *factors = NULL;
        dl_error err = {0};
        if (dl_slow_list_parse(&list, 2, &factors, &err) != DL_ERR_USAGE) {
            fail_msg("'%s' was taken", cases[i].first);
        }
        assert_contains(err.text, "--slow");
        assert_null(factors);
    }
}

static void work_is_a_kind_and_a_spread(void **state DL_UNUSED)
{
    dl_train_work work = {0};
    dl_error err = {0};
    assert_int_equal(dl_work_parse("two-point:0.25", &work, &err), DL_OK);
    assert_int_equal(work.kind, DL_TRAIN_WORK_TWO_POINT);
    assert_true(work.spread == 0.25);
    static const char *const wrong[] = {"uniform",   "uniform:", "uniform:x",
                                        "uniform:2", ":0.4",     "none:0.4"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(dl_work_parse(wrong[i], &work, &err), DL_ERR_USAGE);
        assert_contains(err.text, wrong[i]);
    }
    assert_int_equal(dl_work_parse("lognormel:0.5", &work, &err), DL_ERR_USAGE);
    assert_contains(err.text, "lognormal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unnamed_workers_have_factor_one), cmocka_unit_test(empty_list_is_null),
        cmocka_unit_test(refuses_others), cmocka_unit_test(work_is_a_kind_and_a_spread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
