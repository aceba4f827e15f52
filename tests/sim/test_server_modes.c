/* Modes whose server updates after a number of gradients, and elastic and block-wise averaging:
 * relations to the simpler modes, and single steps worked out by hand. Costs: FIXTURE_COSTS (see
 * test_sync.c), or FIXTURE_COMPUTE_ONLY. */
#include "tests/sim_fixture.h"

static const char gamma_noise[] = "[noise]\nkind = gamma\nsigma = 0.4\n";

static void assert_equal_runs(const dl_run_result *a, const dl_run_result *b)
{
    assert_true(a->step_mean_s == b->step_mean_s && a->throughput_per_s == b->throughput_per_s);
    assert_true(a->usage.traffic_bytes == b->usage.traffic_bytes);
    assert_int_equal(a->updates, b->updates);
    assert_int_equal(a->staleness_bins, b->staleness_bins);
    for (int i = 0; i < a->workers * a->staleness_bins; i++)
        assert_int_equal(a->staleness[i], b->staleness[i]);
}

/* A mode with one gradient per update equals async; with spinning and blocking threads. */
static void one_gradient_an_update_is_async(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *sync;
    } cases[] = {{"kasync", "k = 1\n"},
                 {"kbatchasync", "k = 1\n"},
                 {"softsync", "n = 4\n"},
                 {"softsync", "n = 3\n"}, /* 4 / 3 rounded down */
                 {"ssp", "bound = 1000000\n"}};
    for (int cores = 2; cores <= 4; cores += 2) {
        dl_run_result async =
            fixture_run_mode(FIXTURE_COSTS, "async", cores, 4, 300, "", gamma_noise);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            dl_run_result r = fixture_run_mode(FIXTURE_COSTS, cases[i].mode, cores, 4, 300,
                                               cases[i].sync, gamma_noise);
            assert_equal_runs(&async, &r);
            dl_run_result_free(&r);
        }
        dl_run_result_free(&async);
    }
}

/* k-batch-async with as many gradients per update as n-softsync gives the same result. */
static void softsync_is_k_batch_async(void **state DL_UNUSED)
{
    for (int n = 1; n <= 6; n++) {
        char softsync[40], k_batch[40];
        snprintf(softsync, sizeof softsync, "n = %d\n", n);
        snprintf(k_batch, sizeof k_batch, "k = %d\n", 6 / n);
        dl_run_result a =
            fixture_run_mode(FIXTURE_COSTS, "softsync", 6, 6, 200, softsync, gamma_noise);
        dl_run_result b =
            fixture_run_mode(FIXTURE_COSTS, "kbatchasync", 6, 6, 200, k_batch, gamma_noise);
        assert_equal_runs(&a, &b);
        dl_run_result_free(&a);
        dl_run_result_free(&b);
    }
}

static double step_ns(const char *mode, int workers, const char *sync)
{
    dl_run_result r = fixture_run_mode(FIXTURE_COSTS, mode, workers, workers, 40, sync, "");
    double ns = r.step_mean_s * 1e9;
    dl_run_result_free(&r);
    return ns;
}

/* One worker: easgd pushes, pulls (8000 ns each) and blends twice (8000 (2 / 2 + 1) = 16 000); bmuf
 * pushes, averages one vector (12 000), filters (8000 (3 / 2 + 1) + 16 000 = 36 000) and pulls. Two
 * workers with bmuf: average 16 000, two barriers of 100 ns. ksync with k = n is ps without its
 * first barrier: the last worker continues immediately. */
static void single_steps(void **state DL_UNUSED)
{
    assert_near(step_ns("easgd", 1, ""), 1100000 + 16000 + 32000, 1e-9);
    assert_near(step_ns("easgd", 1, "interval = 8\n"), 1100000 + 48000 / 8.0, 1e-9);
    assert_near(step_ns("bmuf", 1, ""), 1100000 + 16000 + 12000 + 36000, 1e-9);
    assert_near(step_ns("bmuf", 2, ""), 1100000 + 16000 + 16000 + 36000 + 200, 1e-9);
    assert_near(step_ns("bmuf", 2, "server_threads = 2\n"), 1100000 + 16000 + 8000 + 18000 + 200,
                1e-9);
    assert_near(step_ns("ksync", 1, "k = 1\n"), 1000000 + 8000 + 16000 + 8000, 1e-9);
}

/* In units of B = 8000 bytes read or written per step of all 4 workers: softsync with c gradients
 * per update: push and pull 2 each, and (c + 1) / c for the server; kbatchasync the same; easgd
 * push, pull, two blends of 3; bmuf 8 + 8 + average 5 + filter 4 + 3. */
static void bytes_moved_are_those_of_the_algorithm(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *sync;
        double units;
    } cases[] = {{"softsync", "n = 4\n", 4 * 4 + 4 * 2},
                 {"softsync", "n = 2\n", 4 * 4 + 2 * 3},
                 {"softsync", "n = 1\n", 4 * 4 + 5},
                 {"kbatchasync", "k = 8\n", 4 * 4 + 9 / 2.0},
                 {"kasync", "k = 2\n", 4 * 4 + 2 * 3},
                 {"ksync", "k = 4\n", 4 * 4 + 5},
                 {"ssp", "bound = 0\n", 4 * 6},
                 {"easgd", "interval = 2\n", (4 * 4 + 4 * 6) / 2.0},
                 {"bmuf", "interval = 4\n", (16 + 5 + 4 + 3) / 4.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result r =
            fixture_run_mode(FIXTURE_COSTS, cases[i].mode, 4, 4, 40, cases[i].sync, "");
        assert_near(r.usage.traffic_bytes, cases[i].units * 8000 * 40, 1e-12);
        dl_run_result_free(&r);
    }
}

typedef struct steps {
    int64_t end_ns[3][8];
    int count[3], staleness[3][8];
} steps;

static void on_step(void *user, int worker, int64_t step, int64_t start_ns DL_UNUSED,
                    int64_t end_ns, int staleness)
{
    steps *s = user;
    if (step >= 8) return;
    s->end_ns[worker][step] = end_ns;
    s->staleness[worker][step] = staleness;
    s->count[worker]++;
}

/* Observes workers that compute for 1 ms, times the factors in `slow`; everything else is free. */
static steps watch(const char *mode, const char *sync, const char *slow, int count,
                   dl_run_result *result)
{
    steps s = {.count = {0}};
    const dl_team_observer observer = {.user = &s, .step = on_step};
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COMPUTE_ONLY);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = %d\n[machine]\ncores = 3\nworkers = 3\n"
                         "[workload]\ncosts = c\nbatch_per_worker = 1\n[sync]\nmode = %s\n%s"
                         "[noise]\nslow = %s\n",
                         count, mode, sync, slow);
    const dl_run_config config = {.scenario = &scenario,
                                  .costs = &costs,
                                  .point = &scenario.points[0],
                                  .observer = &observer};
    assert_int_equal(dl_run(&config, result, NULL), DL_OK);
    dl_scenario_free(&scenario);
    return s;
}

static void assert_step(const steps *s, int worker, int step, double end_ms, int staleness)
{
    assert_true(step < s->count[worker]);
    assert_int_equal(s->end_ns[worker][step], (int64_t)(end_ms * 1e6));
    assert_int_equal(s->staleness[worker][step], staleness);
}

/* ksync, k = 2: the third worker is aborted at 2 ms, and all start a new step. */
static void ksync_cuts_the_rest_short(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = {0};
    steps s = watch("ksync", "k = 2\n", "1:2, 2:3", 4, &r);
    for (int i = 0; i < 4; i++) {
        assert_step(&s, 0, i, 2 * (i + 1), 0);
        assert_step(&s, 1, i, 2 * (i + 1), 0);
        assert_step(&s, 2, i, 2 * (i + 1), DL_NO_STALENESS_YET);
    }
    assert_int_equal(r.updates, 4);
    assert_near(r.applied_frac, 2.0 / 3, 1e-12);
    assert_near(r.throughput_per_s, 1000, 1e-12); /* 2 samples in 2 ms */
}

/* kbatchsync, k = 3: gradients at 1, 2 (worker 0) and 2.5 ms (worker 1); then worker 0's third step
 * and worker 2's first are aborted. After 3.5 ms no worker starts a step; at 6.5 the last gradient
 * completes a second update. */
static void a_fast_worker_brings_several(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = {0};
    steps s = watch("kbatchsync", "k = 3\n", "1:2.5, 2:4", 4, &r);
    assert_step(&s, 0, 0, 1, 0);
    assert_step(&s, 0, 1, 2, 0);
    assert_step(&s, 0, 2, 2.5, DL_NO_STALENESS_YET);
    assert_step(&s, 1, 0, 2.5, 0);
    assert_step(&s, 2, 0, 2.5, DL_NO_STALENESS_YET);
    assert_step(&s, 0, 3, 3.5, 0);
    assert_step(&s, 1, 1, 5, 0);
    assert_step(&s, 2, 1, 6.5, 0);
    assert_int_equal(r.updates, 2);
    assert_near(r.applied_frac, 6.0 / 8, 1e-12);
}

/* kasync, k = 2: updates at 2 ms (workers 0, 1), 3 ms (2, after one update, and 0), 5 ms (0 waits
 * since 4 ms; 1 read before the second update). */
static void kasync_waits_for_its_update(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = {0};
    steps s = watch("kasync", "k = 2\n", "1:2, 2:3", 4, &r);
    assert_step(&s, 0, 0, 2, 0);
    assert_step(&s, 1, 0, 2, 0);
    assert_step(&s, 2, 0, 3, 1);
    assert_step(&s, 0, 1, 3, 0);
    assert_step(&s, 1, 1, 4, 1);
    assert_step(&s, 0, 2, 4, 0);
}

/* ssp with bound 1: worker 0 has done two steps at 2 ms (the second one after worker 1's update at
 * 1.9 ms) and must not start a third one before worker 2 has done its first, at 3 ms. */
static void ssp_waits_for_the_slowest(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = {0};
    steps s = watch("ssp", "bound = 1\n", "1:1.9, 2:3", 6, &r);
    assert_step(&s, 0, 0, 1, 0);
    assert_step(&s, 0, 1, 3, 1);
    assert_step(&s, 1, 0, 1.9, 1);
    assert_step(&s, 2, 0, 3, 3);
    assert_int_equal((int)r.clock_lag_max, 1);
}

/* softsync with 3 workers and one gradient per update: with a bound no staleness exceeds it;
 * without one the slow worker's does. */
static void a_bound_makes_the_update_wait(void **state DL_UNUSED)
{
    static const char slow[] = "[noise]\nkind = gamma\nsigma = 0.5\nslow = 2:8\n";
    dl_run_result free_run =
        fixture_run_mode(FIXTURE_COMPUTE_ONLY, "softsync", 3, 3, 400, "n = 3\n", slow);
    assert_true(free_run.staleness_bins > 9);
    dl_run_result_free(&free_run);
    for (int bound = 0; bound <= 6; bound += 2) {
        char sync[40];
        snprintf(sync, sizeof sync, "n = 3\nbound = %d\n", bound);
        dl_run_result r = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "softsync", 3, 3, 400, sync, slow);
        assert_int_equal(r.staleness_bins, bound + 1);
        dl_run_result_free(&r);
    }
}

/* Every mode terminates on few and on many cores, for any k. */
static void every_mode_ends(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *sync;
    } cases[] = {{"softsync", "n = 2\nbound = 1\n"},
                 {"ssp", "bound = 0\n"},
                 {"ssp", "bound = 2\n"},
                 {"ksync", "k = 3\n"},
                 {"kasync", "k = 5\n"},
                 {"kbatchsync", "k = 12\n"},
                 {"kbatchsync", "k = 1000\n"},
                 {"kbatchasync", "k = 7\n"},
                 {"easgd", "interval = 3\n"},
                 {"bmuf", "interval = 3\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int cores = 1; cores <= 5; cores++) {
            dl_run_result r = fixture_run_mode(FIXTURE_COSTS, cases[i].mode, cores, 5, 60,
                                               cases[i].sync, gamma_noise);
            assert_true(r.applied_frac >= 0 && r.applied_frac <= 1);
            double sum = 0;
            for (int p = 0; p < DL_PART_COUNT; p++)
                sum += r.part_frac[p];
            assert_near(sum, 1, 1e-9);
            dl_run_result_free(&r);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gradient_an_update_is_async),
        cmocka_unit_test(softsync_is_k_batch_async),
        cmocka_unit_test(single_steps),
        cmocka_unit_test(bytes_moved_are_those_of_the_algorithm),
        cmocka_unit_test(ksync_cuts_the_rest_short),
        cmocka_unit_test(a_fast_worker_brings_several),
        cmocka_unit_test(kasync_waits_for_its_update),
        cmocka_unit_test(ssp_waits_for_the_slowest),
        cmocka_unit_test(a_bound_makes_the_update_wait),
        cmocka_unit_test(every_mode_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
