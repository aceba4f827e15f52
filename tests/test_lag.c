/* Exchange that lags a step behind. FIXTURE_COSTS, 2 workers: ps pushes 8000 ns, sums and updates
 * 24 000, pulls 8000, with two barriers of 100; waking a helper, or its worker, takes 100 more. */
#include "tests/sim_fixture.h"

enum { STEPS = 400 };

static dl_run_result run(const char *compute_ns, const char *mode, int cores, int workers)
{
    char text[2048];
    snprintf(text, sizeof text, "%s", FIXTURE_COSTS);
    char *forward = strstr(text, "400000");
    char *backward = strstr(text, "600000");
    memcpy(forward, compute_ns, 6);
    memcpy(backward, "000000", 6);
    return fixture_run_mode(text, mode, cores, workers, STEPS, "lag = 1\n", "");
}

/* Where computing is longer it is all there is to see. */
static void exchange_hides_behind_computing(void **state)
{
    (void)state;
    static const char *const modes[] = {"ps", "allreduce"};
    for (size_t m = 0; m < 2; m++) {
        for (int workers = 1; workers <= 3; workers++) {
            dl_run_result r = run("900000", modes[m], 2 * workers, workers);
            assert_near(r.step_mean_s, 900e-6, 1e-12);
            assert_int_equal(r.updates, STEPS);
            dl_run_result_free(&r);
        }
    }
}

/* Where exchange is longer, it follows on itself: 40 200 and the two wakings. */
static void the_slower_of_the_two_sets_the_pace(void **state)
{
    (void)state;
    dl_run_result r = run("001000", "ps", 4, 2);
    assert_near(r.step_mean_s, 40.4e-6, 2.0 / STEPS);
    assert_int_equal(r.updates, STEPS);
    dl_run_result_free(&r);
}

/* Bytes are those of the mode without lag. */
static void the_bytes_are_the_same(void **state)
{
    (void)state;
    static const char *const modes[] = {"ps", "allreduce"};
    for (size_t m = 0; m < 2; m++) {
        dl_run_result lag = fixture_run_mode(FIXTURE_COSTS, modes[m], 6, 3, 50, "lag = 1\n", "");
        dl_run_result none = fixture_run_mode(FIXTURE_COSTS, modes[m], 6, 3, 50, "", "");
        assert_near(lag.usage.traffic_bytes, none.usage.traffic_bytes, 1e-12);
        assert_true(lag.step_mean_s < none.step_mean_s);
        dl_run_result_free(&lag);
        dl_run_result_free(&none);
    }
}

/* Without cores of their own, helpers take theirs from the workers: nothing is gained but waiting.
 * Each core has the copies of 16 000 a step, and one of them the server's 24 000. */
static void helpers_need_cores(void **state)
{
    (void)state;
    dl_run_result r = run("900000", "ps", 2, 2);
    assert_true(r.step_mean_s >= 927e-6 && r.step_mean_s < 960e-6);
    assert_int_equal(r.updates, STEPS);
    dl_run_result_free(&r);
    for (int cores = 1; cores <= 7; cores++) {
        r = fixture_run_mode(FIXTURE_COSTS, "allreduce", cores, 4, 60, "lag = 1\n",
                             "[noise]\nkind = gamma\nsigma = 0.5\n");
        assert_int_equal(r.updates, 60);
        dl_run_result_free(&r);
    }
}

/* All exchange is free: step k + 1 ends no earlier than its slowest computing of step k, but a
 * worker may be a step ahead. Less than the barrier's H_4 = 25/12 ms, more than 1 ms. */
static void lag_softens_the_barrier(void **state)
{
    (void)state;
    dl_run_result r = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "allreduce", 8, 4, 20000, "lag = 1\n",
                                       "[noise]\nkind = exponential\n");
    assert_true(r.step_mean_s > 1.2e-3 && r.step_mean_s < 0.95 * 25e-3 / 12);
    assert_true(r.clock_lag_max <= 2);
    dl_run_result_free(&r);
}

static void only_some_modes_lag(void **state)
{
    (void)state;
    static const char text[] =
        "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\nbatch = 2\n"
        "[sync]\nmode = async\nlag = 1\n";
    dl_scenario s = {0};
    dl_error err = {0};
    assert_int_equal(dl_scenario_read_text(&s, "s", text, sizeof text - 1, &err), DL_ERR_NAME);
    assert_contains(err.text, "mode async takes accumulate, where");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchange_hides_behind_computing),
        cmocka_unit_test(the_slower_of_the_two_sets_the_pace),
        cmocka_unit_test(the_bytes_are_the_same),
        cmocka_unit_test(helpers_need_cores),
        cmocka_unit_test(lag_softens_the_barrier),
        cmocka_unit_test(only_some_modes_lag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
