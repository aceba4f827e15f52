/* [work] of cost files, and its effect on runs. */
#include <string.h>

#include "sim/costs/costs.h"
#include "sim/noise.h"
#include "tests/check.h"
#include "tests/sim_fixture.h"

#define HEAD "[costs]\nschema = 1\n"

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {HEAD "[work]\nsteps = 1.2, 0.8\n", DL_ERR_DATA, 4, "0.8 after 1.2"},
        {HEAD "[work]\nsteps = 0.8, 1.4\n", DL_ERR_DATA, 4, "have the mean 1.1; must have 1"},
        {HEAD "[work]\nsteps = x, 1\n", DL_ERR_PARSE, 4, "x"},
        {HEAD "[work]\nsteps = -1, 3\n", DL_ERR_RANGE, 4, "-1"},
        {HEAD "[spread]\nwork_frac = 0.1\n[work]\nsteps = 0.8, 1.2\n", DL_ERR_DATA, 6, "twice"},
        {HEAD "[work]\nstep = 0.8, 1.2\n", DL_ERR_NAME, 4, "steps"},
    };
    assert_all_refused(cases, "costs.ini", fixture_refused_costs);
}

static void what_is_written_reads_back(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(HEAD "[work]\nsteps = 0.3333333, 0.75, 1.916667\n");
    DL_SCOPED(dl_costs) back = {0};
    dl_error err = {0};
    assert_int_equal(dl_costs_write(&costs, "test_costs_work.ini", NULL, &err), DL_OK);
    assert_int_equal(dl_costs_read(&back, "test_costs_work.ini", &err), DL_OK);
    remove("test_costs_work.ini");
    assert_int_equal(back.work_step_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_near((double)back.work_steps[i], (double)costs.work_steps[i], 1e-6);
}

/* Half of the steps have 0.6, half 1.4 times the mean: the largest of two workers has 1.4 - 0.8 / 4
 * = 1.2, of four 1.4 - 0.8 / 16 = 1.35. The sum of four batches varies half as much. */
static void the_largest_is_an_order_statistic(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(HEAD "[work]\nsteps = 0.6, 1.4\n");
    const dl_work_spread work = dl_work_spread_of(&costs, 1, 1);
    assert_near(work.sd, 0.4, 1e-6);
    assert_near(dl_work_quantile(&work, 0.49), 0.6, 1e-6);
    assert_near(dl_work_quantile(&work, 0.51), 1.4, 1e-6);
    assert_near(dl_work_quantile(&work, 1 - 1e-9), 1.4, 1e-6);
    double two[2], four[4];
    dl_work_expected(&work, two, 2);
    dl_work_expected(&work, four, 4);
    assert_near(two[1], 1.2, 1e-3);
    assert_near(four[3], 1.35, 1e-3);
    const dl_work_spread sum = dl_work_spread_of(&costs, 4, 4);
    assert_near(sum.sd, 0.2, 1e-6);
    assert_near(dl_work_quantile(&sum, 0.49), 0.8, 1e-6);
}

/* Measured with 8 samples per step: 32 samples, accumulated or not, vary half as much, and 2
 * samples twice as much, so that a step with 0.4 of the mean would have negative work. */
static void larger_batches_differ_less(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs(HEAD "[spread]\nwork_samples = 8\n[work]\nsteps = 0.4, 1.6\n");
    assert_near(dl_work_spread_of(&costs, 1, 8).sd, 0.6, 1e-6);
    assert_near(dl_work_spread_of(&costs, 1, 32).sd, 0.3, 1e-6);
    assert_near(dl_work_spread_of(&costs, 4, 32).sd, 0.3, 1e-6);
    const dl_work_spread few = dl_work_spread_of(&costs, 1, 2);
    assert_near(few.sd, 1.2, 1e-6);
    assert_near(dl_work_quantile(&few, 0.51), 2.2, 1e-6);
    assert_true(dl_work_quantile(&few, 0.49) > 0 && dl_work_quantile(&few, 0.49) < 1e-6);
    dl_costs_free(&costs);
}

/* Two workers with a core each wait in each step for the one with more work: 1.2 times as long as
 * with equal work, 1 ms of passes and 0.25 ms of making the batch, with drawn or expected work.
 * Without waiting a step takes as long as with equal work. */
static void workers_wait_for_the_most_work(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *noise;
        double step_ns;
    } cases[] = {
        {"allreduce", "work", 1.5e6}, {"allreduce", "none", 1.5e6}, {"none", "work", 1.25e6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, "[noise]\nkind = %s\n", cases[i].noise);
        DL_SCOPED(dl_run_result) result = fixture_run_mode(
            FIXTURE_COMPUTE_ONLY "[op input]\nfixed_ns = 250000\nper_sample_ns = 0\n"
                                 "[work]\nsteps = 0.6, 1.4\n",
            cases[i].mode, 2, 2, 4000, "", rest);
        assert_near(1e9 * result.step_mean_s, cases[i].step_ns, 0.02);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(the_largest_is_an_order_statistic),
        cmocka_unit_test(larger_batches_differ_less),
        cmocka_unit_test(workers_wait_for_the_most_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
