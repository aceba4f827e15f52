#include "tests/sim_fixture.h"

#include <stdlib.h>

#include "sim/sweep.h"

static dl_sweep run_sweep(const dl_scenario *scenario, const dl_costs *costs, int threads)
{
    dl_sweep sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = threads};
    dl_variant variant;
    const dl_study study = fixture_study(&variant, scenario, costs);
    if (dl_sweep_run(&sweep, &study, &config, &err)) fail_msg("%s", err.text);
    return sweep;
}

/* Strong scaling: a sample takes 1 ms, so 8 take 8 ms on one worker, 4 on two, 2 on four. Two
 * workers on two cores have speedup 2; four on two cores too, up to the length of slices. */
static void speedup_is_over_one_worker_of_the_same_batch(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs =
        fixture_costs("[costs]\nschema = 1\n"
                      "[op a.forward]\nfixed_ns = 0\nper_sample_ns = 1000000\n"
                      "[sync]\nslice_ns = 10000\n[sharing]\ncopies_2 = 1\n");
    dl_scenario s = fixture_scenario("[machine]\ncores = 2\nworkers = 1, 2, 4\n[workload]\n"
                                     "costs = c\nbatch = 8\n");
    dl_sweep sweep = run_sweep(&s, &costs, 1);
    assert_int_equal(sweep.row_count, 3);
    assert_int_equal(sweep.runs, 4); /* including one baseline */
    assert_true(sweep.rows[0].speedup == 1);
    assert_near(sweep.rows[1].speedup, 2, 1e-9);
    assert_near(sweep.rows[1].efficiency, 1, 1e-9);
    assert_near(sweep.rows[2].speedup, 2, 1e-3);
    assert_near(sweep.rows[2].efficiency, 0.5, 1e-3);
    assert_true(isnan(sweep.rows[0].low_per_s) && isnan(sweep.rows[0].staleness_mean));
    dl_sweep_free(&sweep);
    dl_sweep_free(&sweep);
    dl_scenario_free(&s);
}

/* Weak scaling with only fixed cost: the baseline has the batch of one worker, and ignores the slow
 * worker. */
static void weak_scaling_keeps_the_batch_per_worker(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COMPUTE_ONLY);
    dl_scenario s = fixture_scenario("[machine]\ncores = workers\nworkers = 1, 4\n[workload]\n"
                                     "costs = c\nbatch_per_worker = 5\n[sync]\nmode = allreduce\n"
                                     "[noise]\nslow = 0:2\n");
    DL_SCOPED(dl_sweep) sweep = run_sweep(&s, &costs, 2);
    assert_near(sweep.rows[0].speedup, 0.5, 1e-9);
    assert_near(sweep.rows[1].speedup, 2, 1e-9);
    assert_true(sweep.rows[1].staleness_mean == 0 && sweep.rows[1].staleness_max == 0);
    assert_null(sweep.rows[1].worker_staleness);
    dl_scenario_free(&s);
}

static void assert_same_row(const dl_row *a, const dl_row *b)
{
    assert_true(a->mean.throughput_per_s == b->mean.throughput_per_s);
    assert_true(a->mean.step_p99_s == b->mean.step_p99_s);
    assert_true(a->low_per_s == b->low_per_s && a->high_per_s == b->high_per_s);
    assert_true(a->speedup == b->speedup);
    assert_int_equal(a->mean.staleness_bins, b->mean.staleness_bins);
    size_t counts = (size_t)(a->mean.staleness_bins * a->mean.workers);
    if (counts == 0) return;
    assert_memory_equal(a->mean.staleness, b->mean.staleness, counts * sizeof(int64_t));
}

static void threads_do_not_matter(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    costs.ops[0].fixed_ns.error = 9000;
    dl_scenario s = fixture_scenario("[scenario]\nsteps = 50\nreplicates = 6\n[machine]\n"
                                     "cores = 2\nworkers = 1, 2, 4\n[workload]\ncosts = c\n"
                                     "batch = 4\n[sync]\nmode = none, average, async\n"
                                     "interval = 1, 5\n[noise]\nkind = gamma\nsigma = 0.3\n");
    DL_SCOPED(dl_sweep) one = run_sweep(&s, &costs, 1), many = run_sweep(&s, &costs, 7);
    assert_int_equal(one.row_count, many.row_count);
    assert_int_equal(one.events, many.events);
    for (size_t i = 0; i < one.row_count; i++)
        assert_same_row(&one.rows[i], &many.rows[i]);
    s.seed++;
    DL_SCOPED(dl_sweep) other = run_sweep(&s, &costs, 2);
    assert_true(other.rows[0].mean.throughput_per_s != one.rows[0].mean.throughput_per_s);
    dl_scenario_free(&s);
}

/* Staleness counts of the replicates are pooled: 3 x 2 workers x 20 gradients. Two equal workers:
 * per replicate one gradient with staleness 0 and 39 with 1, mean 39 / 40. */
static void replicates_are_pooled(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    dl_scenario s =
        fixture_scenario("[scenario]\nsteps = 20\nreplicates = 3\n[machine]\ncores = 2\n"
                         "workers = 2\n[workload]\ncosts = c\nbatch = 4\n"
                         "[sync]\nmode = async\n[noise]\nkind = gamma\n"
                         "sigma = 0.0001\n");
    DL_SCOPED(dl_sweep) sweep = run_sweep(&s, &costs, 2);
    const dl_row *row = &sweep.rows[0];
    assert_int_equal(row->mean.staleness[0] + row->mean.staleness[2], 3);
    assert_int_equal(row->mean.staleness[1] + row->mean.staleness[3], 117);
    assert_near(row->staleness_mean, 39.0 / 40, 1e-12);
    assert_near(row->staleness_sd, sqrt(39.0) / 40, 1e-9);
    assert_true(row->staleness_p50 == 1 && row->staleness_p99 == 1 && row->staleness_max == 1);
    assert_near(row->worker_staleness[0] + row->worker_staleness[1], 2 * 39.0 / 40, 1e-12);
    dl_scenario_free(&s);
}

/* One slow run of three does not affect the row: exponential steps, whose median is known from a
 * separate sweep of each replicate. */
static void throughput_is_the_median_of_the_replicates(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs(FIXTURE_COSTS "[exchange_runs]\nrun_1 = 1, 1, 1\nrun_2 = 9, 9, 9\n"
                                    "run_3 = 1, 1, 1\n[noise]\nfactors_1_1_1 = 1\n");
    const char text[] = "[scenario]\nsteps = 20\nreplicates = %d\n[machine]\ncores = 2\n"
                        "workers = 2\n[workload]\ncosts = c\nbatch = 4\n"
                        "[sync]\nmode = allreduce\n[noise]\nkind = trace\n";
    DL_SCOPED(dl_scenario) all = fixture_scenario(text, 3), first = fixture_scenario(text, 1);
    DL_SCOPED(dl_sweep) three = run_sweep(&all, &costs, 1), one = run_sweep(&first, &costs, 1);
    assert_true(three.rows[0].mean.throughput_per_s == one.rows[0].mean.throughput_per_s);
    assert_true(three.rows[0].mean.step_mean_s == one.rows[0].mean.step_mean_s);
    assert_true(three.rows[0].low_per_s < 0.9 * one.rows[0].mean.throughput_per_s);
    dl_costs_free(&costs);
}

/* A step of 1 ms +- 1 %: 95 % of throughputs are within 1.96 %. With 400 replicates the quantiles
 * show it (standard error of a 2.5 % quantile: 2.7 sd / 20 = 0.13 %); with 10 it is mean +- 2.26
 * sd. */
static void the_interval_comes_from_the_costs_errors(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs("[costs]\nschema = 1\n[op a.forward]\n"
                                              "fixed_ns = 1000000 +- 10000\nper_sample_ns = 0\n");
    static const int replicates[] = {400, 10};
    static const double tolerance[] = {0.005, 0.02};
    for (int i = 0; i < 2; i++) {
        dl_scenario s = fixture_scenario("[scenario]\nsteps = 2\nreplicates = %d\n[machine]\n"
                                         "cores = 1\nworkers = 1\n[workload]\ncosts = c\n"
                                         "batch = 1\n",
                                         replicates[i]);
        DL_SCOPED(dl_sweep) sweep = run_sweep(&s, &costs, 2);
        const dl_row *row = &sweep.rows[0];
        assert_near(row->mean.throughput_per_s, 1000, 0.001);
        assert_near(row->low_per_s, 980.4, tolerance[i]);
        assert_near(row->high_per_s, 1019.6, tolerance[i]);
        assert_true(row->high_per_s > 1005 && row->low_per_s < 995);
        assert_true(row->speedup == 1);
        dl_scenario_free(&s);
    }
}

/* Host work of 0.4 ms +- 2 ms, overlapped by 1 ms of computing: half of the draws are slower than
 * the fitted value and few are faster, since the host rarely is the bottleneck. The row keeps the
 * value of the undrawn costs for any number of replicates, and its interval contains it. */
static void draws_do_not_move_the_row(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs(FIXTURE_COSTS "[op dispatch]\nfixed_ns = 400000 +- 2000000\n"
                                                 "per_sample_ns = 0\n");
    const char text[] = "[scenario]\nsteps = 20\nreplicates = %d\n[machine]\ncores = 2\n"
                        "workers = 2\n[workload]\ncosts = c\nbatch = 4\n[sync]\n"
                        "mode = allreduce\n";
    static const int replicates[] = {1, 2, 9, 200};
    for (int n = 0; n < 4; n++) {
        DL_SCOPED(dl_scenario) s = fixture_scenario(text, replicates[n]);
        DL_SCOPED(dl_scenario) once = fixture_scenario(text, 1);
        DL_SCOPED(dl_sweep) sweep = run_sweep(&s, &costs, 2), one = run_sweep(&once, &costs, 1);
        const dl_row *row = &sweep.rows[0];
        assert_true(row->mean.throughput_per_s == one.rows[0].mean.throughput_per_s);
        assert_true(row->mean.part_frac[0] == one.rows[0].mean.part_frac[0]);
        assert_true(row->speedup == one.rows[0].speedup);
        assert_int_equal(isnan(row->low_per_s), n == 0);
        if (n > 0) {
            assert_true(row->low_per_s < 0.95 * row->mean.throughput_per_s);
            assert_true(row->high_per_s > row->mean.throughput_per_s);
        }
    }
    dl_costs_free(&costs);
}

/* Common variation of row and baseline cancels: the speedup of one worker without exchange is
 * exactly 1 for any uncertainty of its costs; for two workers with a step of +- 10 %, none of that
 * remains in the speedup, but the uncertainty of an exchange remains in full. */
static void the_speedup_has_an_interval_of_its_own(void **state DL_UNUSED)
{
    static const int replicates[] = {5, 60};
    for (int n = 0; n < 2; n++) {
        DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COMPUTE_ONLY);
        costs.ops[0].fixed_ns.error = 1e5;
        dl_scenario s =
            fixture_scenario("[scenario]\nsteps = 20\nreplicates = %d\n[machine]\ncores = workers\n"
                             "workers = 1, 2\n[workload]\ncosts = c\nbatch_per_worker = "
                             "4\n[sync]\nmode = allreduce\n"
                             "[noise]\nkind = gamma\nsigma = 0.01\n",
                             replicates[n]);
        dl_sweep sweep = run_sweep(&s, &costs, 2);
        assert_true(sweep.rows[0].speedup_low == 1 && sweep.rows[0].speedup_high == 1);
        assert_true(sweep.rows[0].high_per_s > 1.1 * sweep.rows[0].low_per_s);
        assert_true(sweep.rows[1].speedup_high - sweep.rows[1].speedup_low < 0.05);
        dl_sweep_free(&sweep);
        costs.barrier_ns.value = 3e5;
        costs.barrier_ns.error = 1e5;
        sweep = run_sweep(&s, &costs, 2);
        const dl_row *row = &sweep.rows[1];
        assert_true(row->speedup_high - row->speedup_low > 0.15);
        assert_true(row->speedup_low < row->speedup && row->speedup < row->speedup_high);
        dl_sweep_free(&sweep);
        dl_scenario_free(&s);
    }
}

/* Runs of one system differ by 10 %: 95 % of throughputs lie within exp(+-0.196), of ratios to
 * another run within exp(+-0.277). A draw is the same for all rows. */
static void runs_of_one_system_differ(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COMPUTE_ONLY "[spread]\nrun_frac = 0.1\n");
    dl_scenario s = fixture_scenario("[scenario]\nsteps = 2\nreplicates = 400\n[machine]\n"
                                     "cores = workers\nworkers = 1, 2\n[workload]\ncosts = c\n"
                                     "batch_per_worker = 4\n[sync]\nmode = allreduce\n");
    dl_sweep sweep = run_sweep(&s, &costs, 2);
    const dl_row *one = &sweep.rows[0], *two = &sweep.rows[1];
    assert_near(log(one->mean.throughput_per_s / one->low_per_s), 0.196, 0.02);
    assert_near(log(one->high_per_s / one->mean.throughput_per_s), 0.196, 0.02);
    assert_true(one->speedup == 1);
    assert_near(log(one->speedup / one->speedup_low), 0.277, 0.15);
    assert_near(log(two->speedup_high / two->speedup), 0.277, 0.15);
    for (size_t d = 0; d < 400; d++)
        assert_near(two->rates[d] / one->rates[d], two->rates[0] / one->rates[0], 1e-9);
    /* Each point and its baseline run once: a draw only scales the run's rate. */
    assert_int_equal(sweep.runs, 3);
    dl_sweep_free(&sweep);
    s.replicates = 1;
    sweep = run_sweep(&s, &costs, 2);
    one = &sweep.rows[0];
    assert_near(log(one->mean.throughput_per_s / one->low_per_s), 0.195996, 1e-5);
    assert_near(log(one->high_per_s / one->mean.throughput_per_s), 0.195996, 1e-5);
    assert_near(log(one->speedup_high / one->speedup), sqrt(2) * 0.195996, 1e-5);
    dl_sweep_free(&sweep);
    dl_scenario_free(&s);
}

static void origin_and_extrapolation_are_told(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nbatch_max = 4\ncores = 2\n[op a.forward]\n"
                                   "fixed_ns = 1000, fitted\nper_sample_ns = 0, measured\n"
                                   "[sharing]\ncopies_2 = 1, catalogue\n");
    dl_scenario s = fixture_scenario("[machine]\ncores = 2\nworkers = 1, 2\n[workload]\ncosts = c\n"
                                     "batch = 4, 8\n");
    DL_SCOPED(dl_sweep) sweep = run_sweep(&s, &costs, 1);
    assert_int_equal(sweep.rows[0].origin, DL_ORIGIN_FITTED);
    assert_int_equal(sweep.rows[2].origin, DL_ORIGIN_CATALOGUE);
    assert_false(sweep.rows[0].extrapolated || sweep.rows[2].extrapolated);
    /* batch 8 for one worker; 4 for each of two, but 8 for their baseline */
    assert_true(sweep.rows[1].extrapolated && sweep.rows[3].extrapolated);
    dl_scenario_free(&s);
    dl_costs_free(&costs);
}

static void count_progress(void *user, int64_t done, int64_t runs)
{
    int64_t *last = user;
    assert_int_equal(done, *last + 1);
    assert_int_equal(runs, 8);
    *last = done;
}

static void missing_costs_and_failed_runs_are_refused(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs("[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 0\nper_sample_ns = 0\n");
    dl_scenario s = fixture_scenario("[machine]\ncores = 2\nworkers = 1, 2\n[workload]\ncosts = c\n"
                                     "batch = 4\n[sync]\nmode = none, async\n");
    char *missing = dl_sweep_missing(&s, &costs);
    assert_contains(missing, "[update] latency_ns");
    assert_contains(missing, "[sync] lock_ns");
    assert_null(strstr(missing, "average"));
    free(missing);
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 2};
    dl_variant variant;
    dl_study study = fixture_study(&variant, &s, &costs);
    assert_int_equal(dl_sweep_run(&sweep, &study, &config, &err), DL_ERR_DATA);
    assert_contains(err.text, "costs are missing");
    dl_scenario_free(&s);

    s = fixture_scenario("[machine]\ncores = 1\nworkers = 1\n[workload]\ncosts = c\nbatch = 4\n");
    study = fixture_study(&variant, &s, &costs);
    assert_int_equal(dl_sweep_run(&sweep, &study, &config, &err), DL_ERR_DATA);
    assert_contains(err.text, "no time");
    assert_null(sweep.rows);
    costs.ops[0].fixed_ns.value = 10;
    s.replicates = 4;
    s.noise = DL_NOISE_EXPONENTIAL;
    int64_t last = -1; /* reported before the first run too */
    const dl_sweep_config watched = {.threads = 2, .progress = count_progress, .user = &last};
    study = fixture_study(&variant, &s, &costs);
    assert_int_equal(dl_sweep_run(&sweep, &study, &watched, &err), DL_OK);
    assert_int_equal(last, 8);
    dl_scenario_free(&s);
    dl_costs_free(&costs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speedup_is_over_one_worker_of_the_same_batch),
        cmocka_unit_test(weak_scaling_keeps_the_batch_per_worker),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(replicates_are_pooled),
        cmocka_unit_test(throughput_is_the_median_of_the_replicates),
        cmocka_unit_test(the_interval_comes_from_the_costs_errors),
        cmocka_unit_test(draws_do_not_move_the_row),
        cmocka_unit_test(the_speedup_has_an_interval_of_its_own),
        cmocka_unit_test(runs_of_one_system_differ),
        cmocka_unit_test(origin_and_extrapolation_are_told),
        cmocka_unit_test(missing_costs_and_failed_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
