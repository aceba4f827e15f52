/* Drawn absences against closed forms. On cores a step takes 1 ms and exchange no time
 * (FIXTURE_COMPUTE_ONLY). M is the mean time to failure, A the length of an absence, T an
 * interval. */
#include "tests/gpu_fixture.h"

/* The cases of a closed form differ only in numbers: with sanitizers only the first and the last
 * are run. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ALL_CASES = 0 };
#else
enum { ALL_CASES = 1 };
#endif

#define MEAN_S 0.2
#define AWAY_S 0.05
#define DRAWN "[failures]\nworker_mtbf_s = 0.2\nworker_away_s = 0.05\n"

static void assert_within(const char *what, double value, double expected, double error_frac)
{
    if (fabs(value / expected - 1) > error_frac)
        fail_msg("%s is %.6g, not %.6g", what, value, expected);
}

/* A successful interval takes (M + A) (e^(T/M) - 1): Daly's formula without failures during an
 * absence. With T = 2 M about 3,000 of 20,000 attempts succeed, which determines the fraction to 2
 * %. */
static void who_is_alone_repeats_its_interval(void **state DL_UNUSED)
{
    static const int intervals[] = {20, 100, 400};
    for (int i = 0; i < 3; i += ALL_CASES ? 1 : 2) {
        char sync[32];
        const double interval_s = intervals[i] / 1000.0;
        const double expected = interval_s / expm1(interval_s / MEAN_S) / (MEAN_S + AWAY_S);
        snprintf(sync, sizeof sync, "interval = %d\n", intervals[i]);
        dl_run_result r =
            fixture_run_mode(FIXTURE_COMPUTE_ONLY, "average", 1, 1, 4000000, sync, DRAWN);
        assert_within("goodput", r.goodput_frac, expected, 0.04);
        assert_within("away", r.away_frac, AWAY_S / (MEAN_S + AWAY_S), 0.02);
        dl_run_result_free(&r);
    }
}

/* Learners do not wait for each other: each behaves like a single worker, and its interval starts
 * at its return. All uploads are merged. */
static void learners_repeat_their_own(void **state DL_UNUSED)
{
    dl_run_result r = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "async_average", 4, 4, 300000,
                                       "interval = 100\n", "[syncer]\nmerge_s = 1e-6\n" DRAWN);
    assert_within("goodput", r.goodput_frac, 0.1 / expm1(0.1 / MEAN_S) / (MEAN_S + AWAY_S), 0.02);
    assert_within("away", r.away_frac, AWAY_S / (MEAN_S + AWAY_S), 0.02);
    dl_run_result_free(&r);
}

/* If the others continue to average, a returning worker has a time r, uniform in 0 .. T, until the
 * next average, and keeps r + T + T + ... up to the last average before its next failure. For an
 * exponential time to failure the mean is M^2 / T (1 - e^(-T/M)) of each M + A. A return waits for
 * the end of a step of the others, or they for the end of its step: at most half a step of 200.
 * Each fragment is averaged equally often, and late merges lose nothing, as the data of a worker is
 * already sent. */
static void who_comes_back_joins_the_next_average(void **state DL_UNUSED)
{
    const double kept_s = MEAN_S * MEAN_S / 0.2 * -expm1(-0.2 / MEAN_S);
    static const char *const syncs[] = {"interval = 200\n", "interval = 200\nfragments = 4\n",
                                        "interval = 200\nlag = 50\n",
                                        "interval = 200\nfragments = 3\nlag = 90\n"};
    for (int i = 0; i < 4; i += ALL_CASES ? 1 : 3) {
        dl_run_result r =
            fixture_run_mode(FIXTURE_COMPUTE_ONLY, "average", 8, 8, 200000, syncs[i], DRAWN);
        assert_within("goodput", r.goodput_frac, kept_s / (MEAN_S + AWAY_S), 0.02);
        assert_within("away", r.away_frac, AWAY_S / (MEAN_S + AWAY_S), 0.02);
        dl_run_result_free(&r);
    }
}

#define TWO_SITES FIXTURE_NODES("4") "[site a]\n[site b]\n"

static dl_run_result run_sites(const char *failures)
{
    char rest[256];
    snprintf(rest, sizeof rest,
             "[sync]\nmode = average\nwhere = allreduce\ninterval = 10\n"
             "[exchange]\nalgorithm = ring\n[failures]\nworker_mtbf_s = 0.2\n"
             "worker_away_s = 0.05\n%s",
             failures);
    return fixture_run_machine(TWO_SITES, FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "", 4, 2000,
                               rest);
}

/* With together = site the two workers of a site do the same steps, different from those of the
 * other site; otherwise each worker does its own. */
static void a_site_fails_as_one(void **state DL_UNUSED)
{
    dl_run_result r = run_sites("together = site\n");
    const double *step_s = r.worker_step_s;
    assert_near(step_s[0], step_s[1], 1e-12);
    assert_near(step_s[2], step_s[3], 1e-12);
    assert_true(fabs(step_s[0] / step_s[2] - 1) > 1e-6);
    dl_run_result_free(&r);
    r = run_sites("");
    assert_true(fabs(r.worker_step_s[0] / r.worker_step_s[1] - 1) > 1e-6);
    assert_true(fabs(r.worker_step_s[2] / r.worker_step_s[3] - 1) > 1e-6);
    dl_run_result_free(&r);
}

/* Two nodes of each of four sites reduce 80 kB of gradients in each step, and average every 10
 * steps. A step takes 1 ms of compute, 80 us for a ring of two, and 0.1 ms of update; the time of
 * an average is negligible. Whole sites fail. Of the time between two failures the fraction derived
 * above is kept, of which 1 / 1.18 is compute. */
static void a_site_that_reduces_inside_fails_as_one(void **state DL_UNUSED)
{
    static const char *const syncs[] = {"", "fragments = 2\n", "lag = 4\n"};
    const double step_s = 1.18e-3, interval_s = 10 * step_s;
    const double kept_s = MEAN_S * MEAN_S / interval_s * -expm1(-interval_s / MEAN_S);
    for (int i = 0; i < 3; i += ALL_CASES ? 1 : 2) {
        char rest[300];
        snprintf(rest, sizeof rest,
                 "[sync]\nmode = average\nwhere = allreduce\ninside = allreduce\ninterval = 10\n%s"
                 "[exchange]\nalgorithm = ring\n" DRAWN "together = site\n",
                 syncs[i]);
        dl_run_result r =
            fixture_run_machine(FIXTURE_NODES("8") "[site a]\n[site b]\n[site c]\n[site d]\n",
                                FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "", 8, 100000, rest);
        assert_near(r.worker_step_s[0], r.worker_step_s[1], 1e-12);
        assert_true(fabs(r.worker_step_s[0] / r.worker_step_s[2] - 1) > 1e-6);
        assert_within("goodput", r.goodput_frac, kept_s / (MEAN_S + AWAY_S) / (1e3 * step_s), 0.05);
        assert_within("away", r.away_frac, AWAY_S / (MEAN_S + AWAY_S), 0.04);
        dl_run_result_free(&r);
    }
}

/* 8 MB of parameters take 8 ms to fetch, several steps, and sites fail about as often: sometimes
 * one worker of a site returns before the other, waits for it in the site's reduction, and the
 * other site waits for both in an average. Which workers are waited for must not depend in a circle
 * on which averages they take part in, else the run would never end. */
static void a_site_that_is_half_back_is_waited_for(void **state DL_UNUSED)
{
    static const char *const syncs[] = {"interval = 1\n", "interval = 2\n", "interval = 3\n",
                                        "interval = 2\nlag = 1\n", "interval = 3\nlag = 2\n"};
    for (int i = 0; i < 5 * 25; i++) {
        char rest[300];
        snprintf(rest, sizeof rest,
                 "[sync]\nmode = average\nwhere = allreduce\ninside = allreduce\n%s"
                 "[exchange]\nalgorithm = ring\n"
                 "[failures]\nworker_mtbf_s = %g\nworker_away_s = 0.001\ntogether = site\n",
                 syncs[i % 5], 0.08 + 0.005 * (i / 5));
        DL_SCOPED(dl_run_result) r = fixture_run_machine(
            TWO_SITES,
            "[costs]\nschema = 1\nparameter_bytes = 8000000\n" FIXTURE_PASSES FIXTURE_UPDATE
                FIXTURE_FREE_DISPATCH,
            "", 4, 200, rest);
        assert_true(r.updates > 40);
        assert_true(r.away_frac > 0);
    }
}

/* Rare failures give almost no time away, and runs with the same seed have the same failures. */
static void failures_are_the_seeds_own(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) one = run_sites(""), two = run_sites(""), rare = {0};
    assert_true(one.span_s == two.span_s && one.away_frac == two.away_frac);
    assert_true(one.away_frac > 0.05);
    rare = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "average", 2, 2, 100, "interval = 10\n",
                            "[failures]\nworker_mtbf_s = 1e12\nworker_away_s = 1\n");
    assert_near(rare.goodput_frac, 1, 1e-12);
    assert_true(rare.away_frac == 0);
}

static void what_makes_no_sense_is_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *failures, *message;
    } cases[] = {
        {"worker_mtbf_s = 5\n", "worker_away_s"},
        {"worker_away_s = 5\n", "worker_mtbf_s"},
        {"together = worker\n", "worker_mtbf_s"},
        {"worker_mtbf_s = 5\nworker_away_s = 1\naway = 1:1-2\n", "give only one"},
        {"worker_mtbf_s = 5\nworker_away_s = 1\ntogether = site\n", "machine file"},
        {"worker_mtbf_s = 5\nworker_away_s = 1\n", "interval_by_speed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\nbatch = 2\n[sync]\n"
                 "mode = average\ninterval = 4\n%s[failures]\n%s",
                 i + 1 == sizeof cases / sizeof *cases ? "interval_by_speed = yes\n" : "",
                 cases[i].failures);
        DL_SCOPED(dl_scenario) scenario = {0};
        dl_error err = {0};
        if (dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err) != DL_ERR_DATA ||
            strstr(err.text, cases[i].message) == NULL)
            fail_msg("case %zu: %s", i, err.text);
    }
}

static dl_status run_away(const char *scenario_rest, const char *failures, dl_run_result *result,
                          dl_error *err)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COMPUTE_ONLY);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = 20\n%s[machine]\ncores = 2\nworkers = 2\n[workload]\n"
                         "costs = c\nbatch = 2\n[sync]\nmode = average\n[failures]\naway = %s\n",
                         scenario_rest, failures);
    const dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = &scenario.points[0]};
    const dl_status status = dl_run(&config, result, err);
    dl_scenario_free(&scenario);
    return status;
}

/* With steps of 1 ms all workers leave for good during the 6th step, so none completes all 20 and
 * there is no tail; with a warm-up of 10 no step counts. */
static void all_may_leave_for_good(void **state DL_UNUSED)
{
    dl_run_result r = {0};
    dl_error err = {0};
    assert_int_equal(run_away("", "0:0.0055-, 1:0.0055-", &r, &err), DL_OK);
    assert_near(r.tail_frac, 0, 1e-12);
    assert_near(r.span_s, 0.005, 1e-9);
    dl_run_result_free(&r);
    assert_int_equal(run_away("warmup = 10\n", "0:0.0055-, 1:0.0055-", &r, &err), DL_ERR_DATA);
    assert_contains(err.text, "all workers leave before they have done a step after the warm-up");
}

/* A worker that leaves in its first step, of 20, is away for all of its time but half a step, in
 * which nothing useful is done. */
static void who_ends_no_step_does_nothing_useful(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = {0};
    dl_error err = {0};
    assert_int_equal(run_away("", "1:0.0005-", &r, &err), DL_OK);
    assert_near(r.goodput_frac, 0.5, 1e-9);
    assert_near(r.away_frac, 0.5 * 19.5 / 20, 1e-9);
}

/* Compute takes 1.1 ms, sending the update 32 us, and receiving the merge 8 us from the second step
 * on. The third step's message is in transit from 3.372 to 3.404 ms: the worker leaves meanwhile
 * and never completes that step, which is lost. */
static void a_step_that_ends_in_its_exchange_is_lost(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r =
        fixture_run_mode(FIXTURE_COSTS, "async_average", 1, 1, 20, "",
                         "[syncer]\nmerge_s = 1e-6\n[failures]\naway = 0:0.00339-\n");
    assert_near(r.syncer->uploaded, 2, 1e-12);
    assert_near(r.syncer->goodput_frac, 2.2 / 2.272, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_alone_repeats_its_interval),
        cmocka_unit_test(learners_repeat_their_own),
        cmocka_unit_test(who_comes_back_joins_the_next_average),
        cmocka_unit_test(a_site_fails_as_one),
        cmocka_unit_test(a_site_that_is_half_back_is_waited_for),
        cmocka_unit_test(a_site_that_reduces_inside_fails_as_one),
        cmocka_unit_test(failures_are_the_seeds_own),
        cmocka_unit_test(all_may_leave_for_good),
        cmocka_unit_test(who_ends_no_step_does_nothing_useful),
        cmocka_unit_test(a_step_that_ends_in_its_exchange_is_lost),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
