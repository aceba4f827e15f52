/* Exchange that lags a step behind. With FIXTURE_COSTS and 2 workers, ps pushes for 8000 ns, sums
 * and updates for 24 000 and pulls for 8000, with two barriers of 100; waking a communication
 * thread, or its worker, takes 100 more. */
#include "tests/gpu_fixture.h"

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

/* If computing takes longer, it determines the step; with allreduce it includes 0.1 ms of the
 * worker's update. */
static void exchange_hides_behind_computing(void **state DL_UNUSED)
{
    static const char *const modes[] = {"ps", "allreduce"};
    static const double expected_s[] = {900e-6, 1000e-6};
    for (size_t m = 0; m < 2; m++) {
        for (int workers = 1; workers <= 3; workers++) {
            DL_SCOPED(dl_run_result) r = run("900000", modes[m], 2 * workers, workers);
            assert_near(r.step_mean_s, expected_s[m], 1e-12);
            assert_int_equal(r.updates, STEPS);
        }
    }
}

/* If the exchange takes longer, exchanges follow each other: 40 200 ns and the two wake-ups. */
static void the_slower_of_the_two_sets_the_pace(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run("001000", "ps", 4, 2);
    assert_near(r.step_mean_s, 40.4e-6, 2.0 / STEPS);
    assert_int_equal(r.updates, STEPS);
}

/* The bytes are the same as without lag. */
static void the_bytes_are_the_same(void **state DL_UNUSED)
{
    static const char *const modes[] = {"ps", "allreduce"};
    for (size_t m = 0; m < 2; m++) {
        dl_run_result lag = fixture_run_mode(FIXTURE_COSTS, modes[m], 6, 3, 50, "lag = 1\n", "");
        DL_SCOPED(dl_run_result) none = fixture_run_mode(FIXTURE_COSTS, modes[m], 6, 3, 50, "", "");
        assert_near(lag.usage.traffic_bytes, none.usage.traffic_bytes, 1e-12);
        assert_true(lag.step_mean_s < none.step_mean_s);
        dl_run_result_free(&lag);
    }
}

/* Without spare cores, communication threads share those of the workers, and only waiting is saved.
 * Each core has 16 000 ns of copies per step, and one of them the server's 24 000. */
static void helpers_need_cores(void **state DL_UNUSED)
{
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

/* The exchange is free: step k + 1 ends no earlier than the slowest worker's step k, but a worker
 * may be a step ahead. The mean step is less than the barrier's H_4 = 25/12 ms, and more than 1
 * ms. */
static void lag_softens_the_barrier(void **state DL_UNUSED)
{
    dl_run_result r = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "allreduce", 8, 4, 20000, "lag = 1\n",
                                       "[noise]\nkind = exponential\n");
    assert_true(r.step_mean_s > 1.2e-3 && r.step_mean_s < 0.95 * 25e-3 / 12);
    assert_true(r.clock_lag_max <= 2);
    dl_run_result_free(&r);
}

static double gpu_step_ns(const char *costs, const char *rest)
{
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "", 4, STEPS, rest);
    return r.step_mean_s * 1e9;
}

/* Four GPUs (tests/gpu_fixture.h): push, sum and pull take 432 400 ns. Computing for 1 ms hides
 * them; with 0.1 ms they determine the step. */
static void gpus_copy_while_they_compute(void **state DL_UNUSED)
{
    static const char quick[] =
        "[costs]\nschema = 1\nparameter_bytes = 80000\n"
        "[op a.forward]\nfixed_ns = 1e5\nper_sample_ns = 0\n"
        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"
        "[sync]\nbarrier_ns = 0\n" FIXTURE_FREE_DISPATCH;
    static const char ps[] = "[sync]\nmode = ps\nlag = 1\n";
    assert_near(gpu_step_ns(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, ps), 1e6, 1e-6);
    assert_near(gpu_step_ns(quick, ps), 432400, 2.0 / STEPS);
}

/* The collective takes T; while it runs, computing has half its speed, which adds T / 2. The GPU's
 * update of 0.1 ms is a part of computing. */
static void collectives_slow_computing_down(void **state DL_UNUSED)
{
    static const char costs[] = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH "[overlap]\nslowdown = 2\n";
    double collective_ns = gpu_step_ns(costs, "[sync]\nmode = allreduce\n") - 1.1e6;
    assert_true(collective_ns > 10000);
    assert_near(gpu_step_ns(costs, "[sync]\nmode = allreduce\nlag = 1\n"),
                1.1e6 + collective_ns / 2, collective_ns / 1e6 / STEPS);
}

static void only_some_modes_lag(void **state DL_UNUSED)
{
    static const char text[] =
        "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\nbatch = 2\n"
        "[sync]\nmode = async\nlag = 1\n";
    dl_scenario s = {0};
    dl_error err = {0};
    assert_int_equal(dl_scenario_read_text(&s, "s", text, sizeof text - 1, &err), DL_ERR_NAME);
    assert_contains(err.text, "it is for mode allreduce, ps, average, not for async");
}

/* With a lag there is no backward pass whose buckets could be exchanged: the last step's gradients
 * are still in flight. */
static void lag_and_overlap_exclude_each_other(void **state DL_UNUSED)
{
    static const char path[] = "lag_gpus.ini";
    static const char text[] =
        "[machine]\nfile = lag_gpus.ini\nworkers = 2\n[workload]\ncosts = c\n"
        "batch = 2\n[exchange]\noverlap = yes\n"
        "[sync]\nmode = allreduce\nlag = 0, 1\n";
    fixture_write(path, FIXTURE_GPUS);
    dl_scenario s = {0};
    dl_error err = {0};
    assert_int_equal(dl_scenario_read_text(&s, "s", text, sizeof text - 1, &err), DL_ERR_DATA);
    unlink(path);
    assert_int_equal(err.line, 11);
    assert_contains(err.text, "not with [exchange] overlap");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchange_hides_behind_computing),
        cmocka_unit_test(the_slower_of_the_two_sets_the_pace),
        cmocka_unit_test(the_bytes_are_the_same),
        cmocka_unit_test(helpers_need_cores),
        cmocka_unit_test(lag_softens_the_barrier),
        cmocka_unit_test(gpus_copy_while_they_compute),
        cmocka_unit_test(collectives_slow_computing_down),
        cmocka_unit_test(only_some_modes_lag),
        cmocka_unit_test(lag_and_overlap_exclude_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
