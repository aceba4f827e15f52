/* Closed forms of asynchronous staleness. Exchange is free (FIXTURE_COMPUTE_ONLY) unless stated
 * otherwise. */
#include "tests/sim_fixture.h"

typedef struct moments {
    double mean, sd;
    int64_t count;
} moments;

/* Moments of worker `worker`; -1: of all workers. */
static moments staleness_of(const dl_run_result *result, int worker)
{
    double sum = 0, squares = 0, count = 0;
    int first = worker < 0 ? 0 : worker, last = worker < 0 ? result->workers - 1 : worker;
    for (int w = first; w <= last; w++) {
        for (int s = 0; s < result->staleness_bins; s++) {
            double n = (double)result->staleness[w * result->staleness_bins + s];
            count += n;
            sum += n * s;
            squares += n * s * s;
        }
    }
    double mean = sum / count;
    return (moments){mean, sqrt(squares / count - mean * mean), (int64_t)count};
}

/* n equal deterministic workers take turns: the first n gradients have staleness 0 .. n-1, all
 * others n-1. */
static void equal_workers_are_n_minus_1_stale(void **state DL_UNUSED)
{
    for (int workers = 1; workers <= 9; workers++) {
        dl_run_result result =
            fixture_run_mode(FIXTURE_COSTS, "async", workers, workers, 50, "", "");
        assert_int_equal(result.staleness_bins, workers);
        int64_t all = 0;
        for (int s = 0; s < workers; s++) {
            int64_t count = 0;
            for (int w = 0; w < workers; w++)
                count += result.staleness[w * workers + s];
            if (s < workers - 1) assert_int_equal(count, 1);
            all += count;
        }
        /* The run ends with the first worker's last step; workers within a step finish it. */
        assert_int_equal(all, 50 * workers);
        dl_run_result_free(&result);
    }
}

/* Exponential compute times: P(k) = (1/n) (1 - 1/n)^k, mean n - 1, sd sqrt(n (n - 1)). 4 x 100 000
 * gradients: the rarest count here (k = 5, 24 000) has a standard error of 0.7 %. */
static void exponential_times_make_it_geometric(void **state DL_UNUSED)
{
    enum { N = 4 };
    dl_run_result result = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "async", N, N, 100000, "",
                                            "[noise]\nkind = exponential\n");
    moments m = staleness_of(&result, -1);
    assert_near(m.mean, N - 1, 0.02);
    assert_near(m.sd, sqrt(N * (N - 1)), 0.02);
    double expected = 1.0 / N;
    for (int k = 0; k < 6; k++) {
        int64_t count = 0;
        for (int w = 0; w < N; w++)
            count += result.staleness[w * result.staleness_bins + k];
        assert_near((double)count / (double)m.count, expected, 0.03);
        expected *= 1 - 1.0 / N;
    }
    dl_run_result_free(&result);
}

/* Rates 1, 1/2, 1 (worker 1 is slowed twofold): between two updates of worker i the others make sum
 * of mu_j / mu_i updates: 1.5, 4, 1.5. Over all gradients the mean is n - 1 = 2 for any
 * distribution of times (conservation law: each update ages every gradient in flight by one). */
static void staleness_is_conserved_among_unequal_workers(void **state DL_UNUSED)
{
    static const char *const noises[] = {"none", "exponential", "gamma\nsigma = 0.3",
                                         "lognormal\nsigma = 2"};
    for (size_t i = 0; i < sizeof noises / sizeof *noises; i++) {
        char rest[80];
        snprintf(rest, sizeof rest, "[noise]\nslow = 1:2\nkind = %s\n", noises[i]);
        dl_run_result result =
            fixture_run_mode(FIXTURE_COMPUTE_ONLY, "async", 3, 3, 30000, "", rest);
        assert_near(staleness_of(&result, -1).mean, 2, 0.002);
        assert_near(staleness_of(&result, 0).mean, 1.5, 0.05);
        assert_near(staleness_of(&result, 1).mean, 4, 0.05);
        assert_near(staleness_of(&result, 2).mean, 1.5, 0.05);
        dl_run_result_free(&result);
    }
}

/* More workers than cores, queueing for the lock: the conservation law still holds. */
static void staleness_is_conserved_on_shared_cores(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) result = fixture_run_mode(FIXTURE_COSTS, "async", 2, 7, 5000, "",
                                                       "[noise]\nkind = gamma\nsigma = 0.5\n");
    assert_near(staleness_of(&result, -1).mean, 6, 0.002);
}

/* If two workers take turns, every gradient except the first has staleness 1; a warm-up excludes
 * the first. */
static void a_warm_up_has_no_staleness(void **state DL_UNUSED)
{
    for (int warmup = 0; warmup <= 5; warmup += 5) {
        DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
        DL_SCOPED(dl_scenario) scenario = fixture_scenario(
            "[scenario]\nsteps = 20\nwarmup = %d\n[machine]\ncores = 2\nworkers = 2\n"
            "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = async\n",
            warmup);
        DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
        assert_int_equal(r.staleness_bins, 2);
        assert_int_equal(r.staleness[0] + r.staleness[2], warmup > 0 ? 0 : 1);
        assert_near(r.clock_lag_max, 1, 1e-12);
    }
}

/* With the lock as the only cost (no compute), the server determines the rate. B = 8000: update 16
 * 000 + pull 8000 + hand-over 50 ns per gradient; the push of 8000 is outside the lock. */
static void a_saturated_server_sets_the_pace(void **state DL_UNUSED)
{
    static const char costs[] =
        "[costs]\nschema = 1\nparameter_bytes = 8000\n"
        "[op a.forward]\nfixed_ns = 0\nper_sample_ns = 0\n"
        "[copy]\nlatency_ns = 0\nbandwidth_bytes_per_s = 1e9\n"
        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"
        "[memory]\ntotal_bytes_per_s = 1e12\n[sync]\nlock_ns = 50\n[sharing]\ncopies_2 = 1\n";
    DL_SCOPED(dl_run_result) result = fixture_run_mode(costs, "async", 5, 5, 1000, "", "");
    assert_near(result.throughput_per_s, 1e9 / 24050, 1e-3);
    assert_string_equal(result.usage.busiest, "lock");
    assert_near(result.usage.busiest_frac, 1, 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_workers_are_n_minus_1_stale),
        cmocka_unit_test(exponential_times_make_it_geometric),
        cmocka_unit_test(staleness_is_conserved_among_unequal_workers),
        cmocka_unit_test(staleness_is_conserved_on_shared_cores),
        cmocka_unit_test(a_warm_up_has_no_staleness),
        cmocka_unit_test(a_saturated_server_sets_the_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
