/* Many workers, and runs too long to log each step. */
#include "tests/gpu_fixture.h"

#include <sys/prctl.h>
#include <sys/resource.h>

static dl_run_result run_with_logs_of(const char *mode, int64_t log_steps)
{
    char path[64];
    snprintf(path, sizeof path, "scale_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = 60\nwarmup = 5\n[machine]\nfile = %s\nworkers = 8\n"
                         "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = %s\n"
                         "[noise]\nkind = gamma\nsigma = 0.3\nslow = 2:1.7\n",
                         path, mode);
    unlink(path);
    const dl_run_config config = {.scenario = &scenario,
                                  .costs = &costs,
                                  .point = &scenario.points[0],
                                  .log_steps = log_steps};
    dl_run_result result = {0};
    dl_error err = {0};
    if (dl_run(&config, &result, &err) != DL_OK) fail_msg("%s", err.text);
    dl_scenario_free(&scenario);
    return result;
}

static int64_t pooled(const dl_run_result *r, int staleness)
{
    int64_t count = 0;
    for (int row = 0; row < r->staleness_rows; row++)
        count += r->staleness[row * r->staleness_bins + staleness];
    return count;
}

/* Runs without logs give the same results as with logs, except that quantiles of steps are accurate
 * to one part in a thousand, and staleness is counted for all workers together. kasync drops
 * gradients; softsync leaves some unapplied. */
static void tallies_agree_with_logs(void **state DL_UNUSED)
{
    static const char *const modes[] = {"async",          "softsync",
                                        "ssp\nbound = 3", "kasync\nk = 3",
                                        "allreduce",      "average\nwhere = cpu\ninterval = 5"};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        DL_SCOPED(dl_run_result) kept = run_with_logs_of(modes[m], 0),
                                 counted = run_with_logs_of(modes[m], 1);
        assert_true(kept.throughput_per_s == counted.throughput_per_s);
        assert_true(kept.step_mean_s == counted.step_mean_s);
        assert_true(kept.applied_frac == counted.applied_frac);
        assert_near(counted.step_sd_s, kept.step_sd_s, 1e-6);
        /* A quantile between two of the 480 steps may be either. */
        assert_near(counted.step_p50_s, kept.step_p50_s, 0.01);
        assert_int_equal(kept.staleness_bins, counted.staleness_bins);
        for (int s = 0; s < kept.staleness_bins; s++)
            assert_int_equal(pooled(&kept, s), pooled(&counted, s));
        assert_int_equal(counted.staleness_rows, kept.staleness_bins > 0 ? 1 : 0);
        for (int w = 0; w < 8 && kept.staleness_bins > 0; w++) {
            assert_int_equal(kept.worker_stale_sum[w], counted.worker_stale_sum[w]);
            assert_int_equal(kept.worker_stale_count[w], counted.worker_stale_count[w]);
        }
        assert_int_equal(kept.averaging != NULL, counted.averaging != NULL);
        if (kept.averaging != NULL) {
            /* With logs of whole outer steps; without, of all steps after the warm-up. */
            assert_near(counted.averaging->outer_step_mean_s, kept.averaging->outer_step_mean_s,
                        0.02);
            assert_true(isnan(counted.averaging->outer_step_p50_s));
        }
    }
}

static int64_t most_bytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return 1024 * (int64_t)usage.ru_maxrss;
}

enum { MANY = 200000, STEPS = 6 };

/* Runs MANY GPUs, one per node, with a mode of [sync], and one more node. */
static dl_run_result run_many(const char *mode)
{
    char rest[200];
    snprintf(rest, sizeof rest, "[sync]\n%s[noise]\nkind = lognormal\nsigma = 0.1\n", mode);
    return fixture_run_machine(FIXTURE_NODES("200001\ngpudirect = yes"),
                               FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "", MANY, STEPS, rest);
}

/* 200 000 GPUs push 80 kB to a server over its port of 1 GB/s and pull as much: 80 us each way per
 * update, which takes 0.1 ms on the server's GPU, as long as a worker's update. */
static void updates_of_many_workers_take_the_server(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run_many("mode = async\nwhere = gpu:200000\n");
    assert_true(r.updates > (int64_t)MANY * (STEPS - 1) && r.updates <= (int64_t)MANY * STEPS);
    assert_near((double)r.updates, r.samples, 0);
    assert_near(r.usage.link_frac, 100e-6 * (double)r.updates / r.span_s, 1e-9);
    assert_true(r.usage.link_frac > 0.5 && r.usage.link_frac < 1);
    assert_string_equal(r.usage.link, "memory of node200000 gpu0");
}

/* The same workers average twice in host memory, which all but the first reach over a port: 16 s
 * each way per average, which also reads 200 000 vectors in 8 s. A worker may take 1.5 kB. */
static void averages_of_many_workers_take_the_port(void **state DL_UNUSED)
{
    dl_run_result r = run_many("mode = average\nwhere = cpu\ninterval = 3\n");
    assert_int_equal(r.updates, 2);
    assert_near(r.usage.link_frac, 2 * 80e-6 * (MANY - 1) / r.span_s, 1e-9);
    assert_near(r.span_s, 2 * (16 + 8 + 16), 1e-3);
    assert_string_equal(r.usage.link, "node0 port0 up");
    dl_run_result_free(&r);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(most_bytes() < 10000000 + 1500 * (int64_t)MANY);
#endif
}

/* 200 000 GPUs, 1.2 million steps of 1 ms with an update of 0.1 ms, which are not logged
 * individually. They may take 5 KB each, of which half is used. */
static void hundreds_of_thousands_are_simulated(void **state DL_UNUSED)
{
    dl_run_result r = fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "nodes = 50000\n",
                                       MANY, STEPS, "");
    assert_near(r.samples, (double)MANY * STEPS, 0);
    assert_near(r.step_mean_s, 1.1e-3, 1e-9);
    assert_near(r.step_p50_s, 1.1e-3, 1e-3);
    assert_near(r.step_p99_s, 1.1e-3, 1e-3);
    assert_near(r.step_sd_s, 0, 1e-12);
    assert_near(r.throughput_per_s, MANY / 1.1e-3, 1e-9);
    dl_run_result_free(&r);
    assert_true(most_bytes() < 5000 * (int64_t)MANY);
}

/* A step of 100 000 GPUs that all-reduce in a ring over 25 000 nodes: 2 (n-1) rounds, each of which
 * takes at least the delay of a wire and the time of its bytes; then all workers are at the same
 * step. */
static void a_long_ring_takes_its_rounds(void **state DL_UNUSED)
{
    enum { WORKERS = 100000 };
    dl_run_result r =
        fixture_run_gpus(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "nodes = 25000\n", WORKERS, 2,
                         "[exchange]\nalgorithm = ring\n[sync]\nmode = allreduce\n");
    const double rounds = 2.0 * (WORKERS - 1);
    /* A hop within a node takes at least 200 ns; one in four is between nodes, 5000 ns or more. */
    assert_true(r.step_mean_s > 1.1e-3 + rounds * (3 * 200 + 5000) / 4 * 1e-9);
    assert_true(r.step_mean_s < 1.1e-3 + rounds * (4 * 400 + 2 * 5000) / 4 * 1e-9);
    assert_int_equal(r.updates, 2);
    dl_run_result_free(&r);
}

int main(void)
{
    /* A huge page counts whole however little of it is used, and the system may or may not have
     * one: without them, the memory taken is the same in each run. */
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tallies_agree_with_logs),
        cmocka_unit_test(updates_of_many_workers_take_the_server),
        cmocka_unit_test(averages_of_many_workers_take_the_port), /* runs before others allocate
                                                                   * memory */
        cmocka_unit_test(hundreds_of_thousands_are_simulated),
        cmocka_unit_test(a_long_ring_takes_its_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
