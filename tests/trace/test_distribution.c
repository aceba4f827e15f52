#include "tests/check.h"

#include "trace/distribution.h"

static void test_empty_and_single(void **state DL_UNUSED)
{
    dl_distribution none = dl_distribution_of(NULL, 0);
    assert_int_equal(none.count, 0);
    assert_float_equal(none.mean, 0, 0);
    double value[] = {7};
    dl_distribution one = dl_distribution_of(value, 1);
    assert_int_equal(one.count, 1);
    assert_float_equal(one.mean, 7, 0);
    assert_float_equal(one.sd, 0, 0);
    assert_float_equal(one.low, 7, 0);
    assert_float_equal(one.p99, 7, 0);
}

/* 1..5 unsorted: mean 3, squares around it 4+1+0+1+4 = 10, sd = sqrt(10/4). Quantile p is at index
 * 4 p: p10 at 0.4 = 1.4, p50 = 3, p90 at 3.6 = 4.6, p99 at 3.96 = 4.96. */
static void test_known_sample(void **state DL_UNUSED)
{
    double values[] = {4, 1, 5, 3, 2};
    dl_distribution d = dl_distribution_of(values, 5);
    assert_float_equal(d.mean, 3, 1e-12);
    assert_float_equal(d.sd, 1.5811388300841898, 1e-12);
    assert_float_equal(d.low, 1, 0);
    assert_float_equal(d.p10, 1.4, 1e-12);
    assert_float_equal(d.p50, 3, 1e-12);
    assert_float_equal(d.p90, 4.6, 1e-12);
    assert_float_equal(d.p99, 4.96, 1e-12);
    assert_float_equal(d.high, 5, 0);
    assert_float_equal(values[0], 1, 0); /* sorted in place */
    assert_float_equal(dl_distribution_quantile(values, 5, 1), 5, 0);
}

/* Nanoseconds of a clock that has run for a century: 1e18 + {0, 1024, 2048} has sd 1024, which a
 * difference of sums of squares (1e36) would lose. */
static void test_large_offset(void **state DL_UNUSED)
{
    double values[] = {1e18, 1e18 + 1024, 1e18 + 2048};
    assert_float_equal(dl_distribution_of(values, 3).sd, 1024, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_and_single),
        cmocka_unit_test(test_known_sample),
        cmocka_unit_test(test_large_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
