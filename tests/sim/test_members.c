/* Workers that fail, leave, join and return in mode average, worked out by hand. On cores a step
 * takes 1 ms and exchange nothing (FIXTURE_COMPUTE_ONLY); parameters are averaged every 10
 * steps. */
#include "tests/gpu_fixture.h"

static dl_run_result run(int workers, int steps, const char *sync, const char *rest)
{
    return fixture_run_mode(FIXTURE_COMPUTE_ONLY, "average", workers, workers, steps, sync, rest);
}

/* Worker 2 fails at 14.5 ms and loses 4.5 steps. It returns at 32.5 ms, when the others are in the
 * third step after an average: with 2 steps counted as done it does 8 until 40.5 ms, for which the
 * others wait half a millisecond. */
static void a_worker_fails_and_comes_back(void **state DL_UNUSED)
{
    dl_run_result r = run(3, 40, "interval = 10\n", "[failures]\naway = 2:0.0145-0.0325\n");
    assert_near(r.span_s, 0.0405, 1e-9);
    assert_near(r.samples, 40 + 40 + 22 - 4, 1e-12);
    assert_near(r.applied_frac, 98 / 102.0, 1e-12);
    assert_near(r.goodput_frac, 98 / (3 * 40.5), 1e-9);
    assert_near(r.away_frac, 18 / (3 * 40.5), 1e-9);
    assert_int_equal(r.updates, 4);
    dl_run_result_free(&r);
}

/* Worker 1 joins at 24.5 ms: it does 6 steps until 30.5, then 10 with the other worker. */
static void a_worker_joins_late(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run(2, 40, "interval = 10\n", "[failures]\naway = 1:0-0.0245\n");
    assert_near(r.span_s, 0.0405, 1e-9);
    assert_near(r.samples, 40 + 16, 1e-12);
}

/* Worker 2 joins at 4.5 ms, when worker 0, at half speed, has done 2 steps and worker 1 has done 4: it
 * counts as many as the slower one, does 8, and waits for it until 20 ms. */
static void a_worker_joins_the_slowest(void **state DL_UNUSED)
{
    dl_run_result r =
        run(3, 10, "interval = 10\n", "[failures]\naway = 2:0-0.0045\n[noise]\nslow = 0:2\n");
    assert_near(r.span_s, 0.020, 1e-9);
    assert_near(r.samples, 10 + 10 + 8, 1e-12);
    dl_run_result_free(&r);
}

static void a_worker_leaves(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run(2, 30, "interval = 10\n", "[failures]\naway = 1:0.0145-\n");
    assert_near(r.span_s, 0.030, 1e-9);
    assert_near(r.samples, 30 + 14 - 4, 1e-12);
}

/* Worker 1 takes 2 ms per step and fails at 15 ms: worker 0, which has waited for it since 10,
 * continues alone. */
static void who_is_waited_for_fails(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 30, "interval = 10\n", "[failures]\naway = 1:0.015-\n[noise]\nslow = 1:2\n");
    assert_near(r.span_s, 0.035, 1e-9);
    assert_near(r.samples, 30, 1e-12);
    dl_run_result_free(&r);
}

/* Worker 0 is to leave at 12 ms, while it waits for worker 1 until 20: it leaves at 20 and loses
 * nothing. Worker 1 does its 20 steps until 40. Returning at 25 ms, worker 0 joins at the other's
 * position, 2 of 10 steps, waits for it from 33 ms on, and starts one more step just before the
 * other has done all its steps. */
static void who_waits_leaves_after_the_average(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 20, "interval = 10\n", "[failures]\naway = 0:0.012-\n[noise]\nslow = 1:2\n");
    assert_near(r.span_s, 0.040, 1e-9);
    assert_near(r.samples, 10 + 20, 1e-12);
    assert_int_equal(r.updates, 2);
    dl_run_result_free(&r);
    r = run(2, 20, "interval = 10\n", "[failures]\naway = 0:0.012-0.025\n[noise]\nslow = 1:2\n");
    assert_near(r.span_s, 0.041, 1e-9);
    assert_near(r.samples, 20 + 19, 1e-12);
    dl_run_result_free(&r);
}

/* All workers leave; worker 1 returns first and continues alone, with its own parameters. */
static void all_are_away_for_a_while(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 20, "interval = 10\n", "[failures]\naway = 0:0.0105-, 1:0.0105-0.0205\n");
    assert_near(r.span_s, 0.0305, 1e-9);
    assert_near(r.samples, 10 + 20, 1e-12);
    dl_run_result_free(&r);
}

/* Averages with two threads, in slices of the present workers. FIXTURE_COSTS: a step of 1.1 ms;
 * with 3 workers a push of 8 us, two slices of 4000 bytes each at (3 x 0.5 + 1) ns per byte, 10 us,
 * a pull of 8 us, two barriers of 0.1 us; with two workers slices of 8 us; with one a slice of 8000
 * bytes at 1.5 ns, 12 us, and no barrier. */
static void slices_are_of_who_is_there(void **state DL_UNUSED)
{
    static const struct {
        const char *away;
        double exchange_us;
    } cases[] = {{"", 8 + 10 + 8 + 0.2},
                 {"[failures]\naway = 0:0.0001-\n", 8 + 8 + 8 + 0.2},
                 {"[failures]\naway = 0:0.0001-, 2:0.0001-\n", 8 + 12 + 8}};
    for (int i = 0; i < 3; i++) {
        DL_SCOPED(dl_run_result) r =
            fixture_run_mode(FIXTURE_COSTS, "average", 3, 3, 10,
                             "interval = 5\nserver_threads = 2\n", cases[i].away);
        assert_near(1e6 * r.span_s, 10 * 1100 + 2 * cases[i].exchange_us, 1e-6);
    }
}

static dl_run_result run_nodes(int steps, const char *sync, const char *away)
{
    char path[64];
    snprintf(path, sizeof path, "members_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_NODES("4"));
    DL_SCOPED(dl_costs) costs = fixture_costs(
        "[costs]\nschema = 1\nparameter_bytes = 8000000\n"
        "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"
        "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n"
        "[op a.update]\nfixed_ns = 100000\nper_sample_ns = 0\n" FIXTURE_FREE_DISPATCH);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = %d\n[machine]\nfile = %s\nworkers = 4\n[workload]\ncosts = c.ini\n"
        "batch_per_worker = 1\n[sync]\nmode = average\nwhere = allreduce\ninterval = 10\n%s"
        "[exchange]\nalgorithm = ring\n[failures]\naway = %s\n",
        steps, path, sync, away);
    unlink(path);
    return fixture_run(&costs, &scenario);
}

/* GPUs on four nodes, a step of 1.1 ms, 8 MB around a ring at 1 GB/s: 12 ms with four, 32 / 3 with
 * three. Worker 3 fails at 27.5 ms and loses 4 steps. The averages at 11 and 78 ms are of four
 * workers, those at 34 and 55.7 of three. Returning at 60 ms it waits for the end of the third
 * average, 66.33, fetches 8 MB until 74.33, counts 7 steps as done and does 3 until 77.63, for
 * which the others wait. */
static void a_gpu_fetches_over_its_link(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run_nodes(40, "", "3:0.0275-0.0600");
    assert_near(r.span_s, 0.077633 + 0.012, 1e-4);
    assert_near(r.samples, 3 * 40 + 17 - 4, 1e-12);
    assert_near(r.usage.traffic_bytes, (2 * 6 + 2 * 4 + 1) * 8e6, 1e-9);
}

/* Two fragments, each 6 ms in the ring, every 5 steps of 1.1 ms: soon each starts when the previous
 * one ends. Worker 3, returning at 40 ms, still joins in between, and does more than half of the
 * 200 steps of the others; it fetches both fragments. A worker that leaves for good has done 18
 * steps, of which 5.5 are lost. */
static void who_is_back_comes_between_averages(void **state DL_UNUSED)
{
    static const char sync[] = "fragments = 2\nlag = 9\n";
    dl_run_result r = run_nodes(200, sync, "3:0.020-");
    assert_near(r.samples, 3 * 200 + 18 - 6, 1e-12);
    dl_run_result_free(&r);
    r = run_nodes(200, sync, "3:0.020-0.040");
    assert_true(r.samples > 3 * 200 + 18 - 6 + 100);
    assert_true(r.samples < 4 * 200 - 6);
    dl_run_result_free(&r);
}

/* Two fragments, averaged every 10 steps, 5 steps apart. Worker 2 fails at 17.5 ms: one fragment
 * was averaged 2 steps before, the other 7, which makes 4.5, rounded to 5. Returning at 32.5 ms, in
 * the third step of the others after an average, it does 3 steps until 35.5, half a millisecond
 * after them. */
static void fragments_are_lost_by_their_own_age(void **state DL_UNUSED)
{
    dl_run_result r =
        run(3, 40, "interval = 10\nfragments = 2\n", "[failures]\naway = 2:0.0175-0.0325\n");
    assert_near(r.span_s, 0.0405, 1e-9);
    assert_near(r.samples, 40 + 40 + 17 + 8 - 5, 1e-12);
    assert_near(r.goodput_frac, (40 + 40 + 20) / (3 * 40.5), 1e-9);
    assert_int_equal(r.updates, 8);
    dl_run_result_free(&r);
}

/* Averages are merged 4 steps after sending. Worker 1 fails at 14.5 ms and loses 4.5 steps: those
 * that it has sent are merged. Returning at 32.5 ms with 32 steps counted as done, it sends at
 * 40.5, for which the other, at its last step, waits; it has started one more step by then. */
static void a_worker_that_lags_fails_and_comes_back(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 40, "interval = 10\nlag = 4\n", "[failures]\naway = 1:0.0145-0.0325\n");
    assert_near(r.span_s, 0.0415, 1e-9);
    assert_near(r.samples, 40 + 14 + 9 - 4, 1e-12);
    assert_int_equal(r.updates, 4);
    dl_run_result_free(&r);
}

static void what_is_not_simulated_is_refused(void **state DL_UNUSED)
{
    static const char *const syncs[] = {"mode = average\ninterval_by_speed = yes\n",
                                        "mode = allreduce\n"};
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        DL_SCOPED(dl_scenario) scenario = {0};
        dl_error err = {0};
        char text[300];
        snprintf(text, sizeof text,
                 "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\nbatch = 2\n[sync]\n%s"
                 "[failures]\naway = 1:1-2\n",
                 syncs[i]);
        assert_int_equal(dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err),
                         DL_ERR_DATA);
        assert_non_null(strstr(err.text, "away"));
    }
}

/* A single host thread would wait for the absent GPU. */
static void one_host_thread_has_no_absences(void **state DL_UNUSED)
{
    static const char *const modes[] = {"average", "async_average"};
    fixture_write("away_single.ini", FIXTURE_GPUS);
    for (int m = 0; m < 2; m++) {
        DL_SCOPED(dl_scenario) scenario = {0};
        dl_error err = {0};
        char text[300];
        snprintf(text, sizeof text,
                 "[machine]\nfile = away_single.ini\nworkers = 2\ndispatch = single\n[workload]\n"
                 "costs = c\nbatch = 2\n[sync]\nmode = %s\n[failures]\naway = 1:0-0.001\n",
                 modes[m]);
        assert_int_equal(dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err),
                         DL_ERR_DATA);
        assert_contains(err.text, "per_gpu");
    }
    unlink("away_single.ini");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_fails_and_comes_back),
        cmocka_unit_test(a_worker_joins_late),
        cmocka_unit_test(a_worker_joins_the_slowest),
        cmocka_unit_test(a_worker_leaves),
        cmocka_unit_test(who_is_waited_for_fails),
        cmocka_unit_test(who_waits_leaves_after_the_average),
        cmocka_unit_test(all_are_away_for_a_while),
        cmocka_unit_test(slices_are_of_who_is_there),
        cmocka_unit_test(a_gpu_fetches_over_its_link),
        cmocka_unit_test(who_is_back_comes_between_averages),
        cmocka_unit_test(fragments_are_lost_by_their_own_age),
        cmocka_unit_test(a_worker_that_lags_fails_and_comes_back),
        cmocka_unit_test(what_is_not_simulated_is_refused),
        cmocka_unit_test(one_host_thread_has_no_absences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
