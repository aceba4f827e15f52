#include "tests/sim_fixture.h"

#include "sim/tally.h"

/* Each of 0, 1, ..., 1000 has a separate bin. The variance of n equidistant numbers is n (n + 1) /
 * 12, n = 1001. */
static void small_durations_are_exact(void **state DL_UNUSED)
{
    dl_tally tally = {0};
    assert_near(dl_tally_quantile_ns(&tally, 0.5), 0, 0);
    for (int64_t ns = 1000; ns >= 0; ns--)
        dl_tally_add(&tally, ns);
    assert_int_equal(tally.count, 1001);
    assert_near(tally.mean_ns, 500, 1e-9);
    assert_near(dl_tally_sd_ns(&tally), sqrt(1001.0 * 1002 / 12), 1e-9);
    assert_near(dl_tally_quantile_ns(&tally, 0), 0, 0);
    assert_near(dl_tally_quantile_ns(&tally, 0.5), 500, 0);
    assert_near(dl_tally_quantile_ns(&tally, 0.99), 990, 0);
    assert_near(dl_tally_quantile_ns(&tally, 1), 1000, 0);
    dl_tally_free(&tally);
    dl_tally_free(&tally);
}

/* Powers of two, at which the width of bins changes, their neighbours, and the longest possible
 * run. */
static void long_durations_are_off_by_a_thousandth_at_most(void **state DL_UNUSED)
{
    for (int bit = 0; bit <= 62; bit++) {
        for (int64_t off = -1; off <= 1; off++) {
            const int64_t ns = (INT64_C(1) << bit) + (bit < 62 ? off : 0);
            DL_SCOPED(dl_tally) tally = {0};
            dl_tally_add(&tally, ns);
            assert_near(dl_tally_quantile_ns(&tally, 0.5), (double)ns, (double)ns / 1024);
        }
    }
}

/* A bin with two thirds of the durations: quantiles of 1 ms and of 2 ms. */
static void quantiles_count(void **state DL_UNUSED)
{
    DL_SCOPED(dl_tally) tally = {0};
    for (int i = 0; i < 300; i++)
        dl_tally_add(&tally, i % 3 == 0 ? 2000000 : 1000000);
    assert_near(dl_tally_quantile_ns(&tally, 0.5), 1e6, 1e3);
    assert_near(dl_tally_quantile_ns(&tally, 0.66), 1e6, 1e3);
    assert_near(dl_tally_quantile_ns(&tally, 0.67), 2e6, 2e3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_durations_are_exact),
        cmocka_unit_test(long_durations_are_off_by_a_thousandth_at_most),
        cmocka_unit_test(quantiles_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
