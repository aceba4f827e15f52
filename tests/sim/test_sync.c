/* Closed forms of the deterministic modes. Costs: FIXTURE_COSTS (compute 1 000 000 ns, update 100
 * 000, parameters B = 8000 bytes, copy 1 ns per byte, average n / 2 + 1 ns per byte, server's
 * update n + 1 ns per byte, barrier 100 ns). */
#include "tests/sim_fixture.h"

enum { STEPS = 40 };

static void assert_step_ns(const char *mode, int workers, const char *sync, double expected_ns)
{
    dl_run_result result = fixture_run_mode(FIXTURE_COSTS, mode, workers, workers, STEPS, sync, "");
    if (fabs(result.step_mean_s * 1e9 - expected_ns) > 0.01) {
        fail_msg("%s, %d workers, %s: %.3f ns, not %.3f", mode, workers, sync,
                 result.step_mean_s * 1e9, expected_ns);
    }
    assert_near(result.throughput_per_s, workers * 1e9 / expected_ns, 1e-9);
    dl_run_result_free(&result);
}

/* One worker waits for nobody, but has the copies and the arithmetic of one vector. */
static void one_worker_in_any_mode(void **state DL_UNUSED)
{
    assert_step_ns("none", 1, "", 1100000);
    assert_step_ns("allreduce", 1, "", 1000000 + 12000 + 8000 + 100000);
    assert_step_ns("ps", 1, "", 1000000 + 8000 + 16000 + 8000);
    assert_step_ns("average", 1, "interval = 1\n", 1100000 + 8000 + 12000 + 8000);
    assert_step_ns("average", 1, "interval = 4\n", 1100000 + 28000 / 4.0);
    assert_step_ns("async", 1, "", 1000000 + 8000 + 16000 + 8000);
}

/* n = 2 with a core each; slices of an allreduce: 4000 bytes at 2 ns. */
static void two_workers_step_by_step(void **state DL_UNUSED)
{
    assert_step_ns("none", 2, "", 1100000);
    assert_step_ns("allreduce", 2, "", 1000000 + 100 + 8000 + 100 + 8000 + 100000);
    assert_step_ns("ps", 2, "", 1000000 + 8000 + 100 + 24000 + 100 + 8000);
    assert_step_ns("ps", 2, "server_threads = 2\n", 1000000 + 8000 + 100 + 12000 + 100 + 8000);
    assert_step_ns("average", 2, "", 1100000 + 8000 + 100 + 16000 + 100 + 8000);
}

/* B = 8000 bytes are encoded as 4000 in half precision in 4000 ns, copied in 4000, and decoded in
 * 2000. Before an average the parameters are copied and subtracted in 16 000; after it they are
 * added and kept, in the same time, or only added, in 3 / 5 of that, and updated (20 000 + 16 000).
 * Topk with a hundredth: 20 numbers of 8 bytes. */
static void messages_are_made_and_read(void **state DL_UNUSED)
{
#define QUANTISE                                                                      \
    "[quantise]\nlearned_bytes_per_s = 0.5e9\n[quantise fp16]\nencode_bytes_per_s = " \
    "2e9\ndecode_bytes_per_s = 4e9\n"                                                 \
    "[quantise topk]\nencode_bytes_per_s = 1e9\ndecode_bytes_per_s = 8e9\n"
    const double fp16 = 4000 + 4000 + 2000, learned = 16000, pull = 8000, step = 1100000;
    static const char half[] = "[exchange]\ncompress = fp16\n";
    const struct {
        const char *mode, *sync, *rest;
        double step_ns;
    } cases[] = {
        {"average", "", half, step + learned + fp16 + 200 + 32000 + pull},
        {"average", "interval = 4\n", half, step + (learned + fp16 + 200 + 32000 + pull) / 4},
        {"average", "outer = nesterov\n", half,
         step + learned + fp16 + 200 + 16000 + 9600 + 36000 + pull},
        {"average", "", "[exchange]\ncompress = topk\ntopk_frac = 0.01\n",
         step + learned + (8000 + 160 + 1000) + 200 + 32000 + pull},
        {"ps", "", half, 1000000 + fp16 + 200 + 24000 + pull},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result r = fixture_run_mode(FIXTURE_COSTS QUANTISE, cases[i].mode, 2, 2, STEPS,
                                           cases[i].sync, cases[i].rest);
        assert_near(r.step_mean_s * 1e9, cases[i].step_ns, 1e-6);
        dl_run_result_free(&r);
    }
}

/* Vectors in the other core's cache take additional time: 2 ns per byte of a push, 4 of an average,
 * 1 of a pull. Worker 0 averages: its own slot is in its cache, and it pulls what it wrote; so
 * worker 1 is later by 16 000 in its push and starts its steps 8000 later, which the last step does
 * not wait for. All-reduce: half of the result is in the other's cache, and half of the gradients
 * that it replaces. */
static void vectors_in_others_caches_cost_more(void **state DL_UNUSED)
{
#define SHARED \
    "[shared]\npush_bytes_per_s = 0.5e9\naverage_bytes_per_s = 0.25e9\npull_bytes_per_s = 1e9\n"
    static const char half[] = "[exchange]\ncompress = fp16\n";
    const double average = 16000 + 32000, ahead = 8000.0 / STEPS / 2;
    const struct {
        const char *mode, *rest;
        int cores, workers;
        double step_ns;
    } cases[] = {
        {"average", "", 2, 2, 1100000 + 24000 + 200 + average + 16000 - ahead},
        {"average", half, 2, 2, 1100000 + 26000 + 16000 + 200 + average + 16000 + 16000 - ahead},
        {"ps", "", 2, 2, 1000000 + 24000 + 200 + 24000 + 16000 - ahead},
        {"allreduce", "", 2, 2, 1000000 + 200 + average / 2 + 8000 + 4000 + 8000 + 100000},
        {"average", "", 2, 1, 1100000 + 8000 + 12000 + 8000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result r =
            fixture_run_mode(FIXTURE_COSTS QUANTISE SHARED, cases[i].mode, cases[i].cores,
                             cases[i].workers, STEPS, "", cases[i].rest);
        assert_near(r.step_mean_s * 1e9, cases[i].step_ns, 1e-6);
        dl_run_result_free(&r);
    }
}

/* m micro-batches: m times forward and backward, m - 1 additions of gradients (8000 (2 / 2 + 1) =
 * 16 000 ns), one exchange, one update. With linear costs and no fixed ones, splitting only costs
 * the additions. */
static void micro_batches_share_an_exchange(void **state DL_UNUSED)
{
    assert_step_ns("none", 1, "accumulate = 1\n", 1100000);
    static const char *const modes[] = {"none", "allreduce", "ps", "average"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        double step_ns[2];
        for (int a = 0; a < 2; a++) {
            DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
            dl_scenario scenario =
                fixture_scenario("[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\n"
                                 "batch = 8\n[sync]\nmode = %s\naccumulate = %d\n",
                                 modes[i], a == 0 ? 1 : 4);
            DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
            step_ns[a] = r.step_mean_s * 1e9;
            assert_near(r.throughput_per_s, 8e9 / step_ns[a], 1e-9);
            dl_scenario_free(&scenario);
        }
        assert_near(step_ns[1] - step_ns[0], 3 * (1000000 + 16000), 1e-9);
    }
}

/* Optimizer state of 4000 bytes adds half to copies and averages. */
static void state_is_averaged_where_asked(void **state DL_UNUSED)
{
    assert_step_ns("average", 2, "average_state = yes\nserver_threads = 2\n",
                   1100000 + 12000 + 100 + 12000 + 100 + 12000);
}

/* step(H) = t_compute + t_average / H, here 1 100 000 + 32 200 / H. */
static void averaging_costs_one_share_of_the_interval(void **state DL_UNUSED)
{
    for (int interval = 1; interval <= STEPS; interval *= 2) {
        char sync[40];
        snprintf(sync, sizeof sync, "interval = %d\n", interval);
        /* Steps are rounded up to whole intervals, so that the share is exact. */
        assert_step_ns("average", 2, sync, 1100000 + 32200.0 / interval);
    }
}

/* The numbers of local updates before a step's gradient are 0 .. H-1: mean (H - 1) / 2. */
static void drift_is_counted_in_local_steps(void **state DL_UNUSED)
{
    dl_run_result result =
        fixture_run_mode(FIXTURE_COSTS, "average", 2, 2, 50, "interval = 5\n", "");
    assert_near(result.drift_steps_mean, 2, 1e-12);
    assert_near(result.drift_steps_max, 4, 1e-12);
    assert_int_equal(result.staleness_bins, 0);
    dl_run_result_free(&result);
    result = fixture_run_mode(FIXTURE_COSTS, "allreduce", 2, 2, 10, "", "");
    assert_true(isnan(result.drift_steps_mean));
    assert_true(result.clock_lag_max <= 1);
    dl_run_result_free(&result);
}

/* Per step, in units of B = 8000 bytes read or written, n = 4: allreduce n (n + 1) / n + 2 n = 13;
 * ps 2 n + (n + 1) + 2 n = 21; average with interval 2 half of that; async n (2 + 2 + 2) = 24. */
static void bytes_moved_are_those_of_the_algorithm(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *sync;
        double units;
    } cases[] = {{"none", "", 0},
                 {"allreduce", "", 13},
                 {"ps", "", 21},
                 {"ps", "server_threads = 4\n", 21},
                 {"average", "interval = 2\n", 10.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result result =
            fixture_run_mode(FIXTURE_COSTS, cases[i].mode, 4, 4, STEPS, cases[i].sync, "");
        assert_near(result.usage.traffic_bytes, cases[i].units * 8000 * STEPS, 1e-12);
        dl_run_result_free(&result);
    }
}

/* Two concurrent copies of 2 bytes per ns each with a memory of 2 bytes per ns take twice as long.
 * Only the two copies of `ps` overlap; the server's update runs alone. */
static void copies_at_once_share_the_memory(void **state DL_UNUSED)
{
    char text[2048];
    snprintf(text, sizeof text, "%s", FIXTURE_COSTS);
    char *total = strstr(text, "1e12");
    memcpy(total, "2e09", 4);
    DL_SCOPED(dl_run_result) result = fixture_run_mode(text, "ps", 2, 2, STEPS, "", "");
    assert_near(result.step_mean_s, 1e-9 * (1000000 + 16000 + 100 + 24000 + 100 + 16000), 1e-12);
}

/* k workers without exchange on one core take k times as long, with the same throughput, up to the
 * slice (1e5 ns) by which the first to finish is ahead. */
static void workers_on_one_core_share_it(void **state DL_UNUSED)
{
    for (int workers = 2; workers <= 5; workers++) {
        dl_run_result result =
            fixture_run_mode(FIXTURE_COMPUTE_ONLY, "none", 1, workers, 400, "", "");
        assert_near(result.step_mean_s, 1e-3 * workers, 0.002);
        assert_near(result.throughput_per_s, 1e3, 0.002);
        assert_near(result.usage.busiest_frac, 1, 1e-9);
        dl_run_result_free(&result);
    }
}

/* The expected maximum of n exponential times of mean 1 ms is H_n ms: 25 / 12 for n = 4. Its
 * standard deviation is sqrt(1 + 1/4 + 1/9 + 1/16) = 1.193 ms, so 20 000 steps give a standard
 * error of 0.0084 ms; 4 of them are 1.6 %. */
static void a_barrier_waits_for_the_slowest(void **state DL_UNUSED)
{
    dl_run_result result = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "allreduce", 4, 4, 20000, "",
                                            "[noise]\nkind = exponential\n");
    assert_near(result.step_mean_s, 1e-3 * 25 / 12, 0.016);
    assert_near(result.part_frac[DL_PART_COMPUTE], 12.0 / 25, 0.02);
    dl_run_result_free(&result);
}

/* A worker slowed down twofold determines the step of a synchronous mode: 2 ms. */
static void a_slow_worker_sets_the_pace(void **state DL_UNUSED)
{
    dl_run_result result = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "allreduce", 3, 3, STEPS, "",
                                            "[noise]\nslow = 1:2\n");
    assert_near(result.step_mean_s, 2e-3, 1e-9);
    assert_near(result.part_frac[DL_PART_WAITING], 1.0 / 3, 1e-9);
    dl_run_result_free(&result);
}

/* Mean step with `bytes` of parameters, a copy bandwidth and a memory bandwidth. */
static double step_s(const char *mode, int bytes, double copy, double memory)
{
    char text[2048];
    snprintf(text, sizeof text,
             "[costs]\nschema = 1\nparameter_bytes = %d\n"
             "[op a.forward]\nfixed_ns = 100000\nper_sample_ns = 0\n"
             "[copy]\nlatency_ns = 10\nbandwidth_bytes_per_s = %g\n"
             "[average]\nlatency_ns = 10\nread_bytes_per_s = 2e9\nwrite_bytes_per_s = 1e9\n"
             "[update]\nlatency_ns = 10\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"
             "[memory]\ntotal_bytes_per_s = %g\n"
             "[sync]\nbarrier_ns = 100\nlock_ns = 50\n[sharing]\ncopies_2 = 1\n",
             bytes, copy, memory);
    DL_SCOPED(dl_run_result) result = fixture_run_mode(text, mode, 3, 3, STEPS, "", "");
    return result.step_mean_s;
}

/* Without noise, more bytes or less bandwidth never shortens a step. */
static void more_bytes_or_less_bandwidth_is_never_faster(void **state DL_UNUSED)
{
    static const char *const modes[] = {"none", "allreduce", "ps", "average", "async"};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        double last_s = 0;
        for (int bytes = 1000; bytes < 1000000; bytes *= 3) {
            double now_s = step_s(modes[m], bytes, 1e9, 3e9);
            assert_true(now_s >= last_s);
            assert_true(step_s(modes[m], bytes, 0.7e9, 3e9) >= now_s);
            assert_true(step_s(modes[m], bytes, 1e9, 2.1e9) >= now_s);
            last_s = now_s;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_in_any_mode),
        cmocka_unit_test(two_workers_step_by_step),
        cmocka_unit_test(messages_are_made_and_read),
        cmocka_unit_test(micro_batches_share_an_exchange),
        cmocka_unit_test(vectors_in_others_caches_cost_more),
        cmocka_unit_test(state_is_averaged_where_asked),
        cmocka_unit_test(averaging_costs_one_share_of_the_interval),
        cmocka_unit_test(drift_is_counted_in_local_steps),
        cmocka_unit_test(bytes_moved_are_those_of_the_algorithm),
        cmocka_unit_test(copies_at_once_share_the_memory),
        cmocka_unit_test(workers_on_one_core_share_it),
        cmocka_unit_test(a_barrier_waits_for_the_slowest),
        cmocka_unit_test(a_slow_worker_sets_the_pace),
        cmocka_unit_test(more_bytes_or_less_bandwidth_is_never_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
