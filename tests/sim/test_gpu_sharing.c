/* Workers that share a GPU against closed forms; tests/gpu_fixture.h has the numbers. */
#include "tests/gpu_fixture.h"

#include "sim/costs/assume.h"

#define COSTS FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH
#define SHARING COSTS "[sharing]\ncopies_2 = 0.75\ncopies_4 = 0.5\n"
#define TURNS COSTS "[sharing]\ncopies_2 = 1\n"
#define ONE "gpus = 0\n"
#define PS_CPU "[sync]\nmode = ps\n"
#define COPY_NS 8200.0 /* 80 kB at 10 GB/s, two edges of 100 ns */

static void assert_step(double actual_ns, double expected_ns)
{
    if (fabs(actual_ns - expected_ns) > 20) fail_msg("%.1f is not %.1f ns", actual_ns, expected_ns);
}

/* k workers take k copies_k times the time of one; interpolated linearly between 2 and 4, and as 4
 * beyond. */
static void k_workers_compute_as_bench_has_it(void **state DL_UNUSED)
{
    const double factor[] = {0, 1, 2 * 0.75, 3 * 0.625, 4 * 0.5, 5 * 0.5};
    for (int k = 1; k <= 5; k++) {
        assert_step(fixture_step_ns(SHARING, ONE, k, ""), factor[k] * 1.1e6);
        assert_step(fixture_step_ns(TURNS, ONE, k, ""), k * 1.1e6);
    }
}

/* Workers 0 and 2 share GPU 5, worker 1 has GPU 6 to itself. */
static void workers_take_the_gpus_in_turn(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(SHARING, "gpus = 5, 6\n", 3, 20, "");
    assert_step(1e9 * r.worker_step_s[0], 1.65e6);
    assert_step(1e9 * r.worker_step_s[1], 1.1e6);
    assert_near(r.worker_step_s[2], r.worker_step_s[0], 1e-6);
}

/* The host's time before a step is separate for each worker, and does not slow the others. */
static void the_hosts_part_is_not_shared(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS "[sharing]\ncopies_2 = 0.75\n"
                                          "[dispatch]\nserial_ns = 2e5\nper_worker_ns = 0\n";
    assert_step(fixture_step_ns(costs, ONE "ahead = 0\n", 2, ""), 2e5 + 1.65e6);
}

/* Both copy over the GPU's link; the server's thread sums two vectors. */
static void copies_share_the_link(void **state DL_UNUSED)
{
    const double both = 2 * 8000 + 200;
    assert_step(fixture_step_ns(SHARING, ONE, 2, PS_CPU), 1.5e6 + 2 * both + 3 * 80e3);
}

/* Worker 0 finishes its 1 ms after 2 ms; worker 1 then does the remaining 1 ms of its 2 ms
 * alone. */
static void who_is_left_has_the_gpu_for_itself(void **state DL_UNUSED)
{
    const double step = fixture_step_ns(TURNS, ONE, 2, "[sync]\nmode = ps\n[noise]\nslow = 1:2\n");
    assert_step(step, 3e6 + COPY_NS + 3 * 80e3 + 2 * 8000 + 200);
}

/* The sum moves 3 x 80 kB in the GPU's memory, at 100 GB/s, and the update takes 0.1 ms, like a
 * worker's own; copies within the GPU are free. */
static void a_server_on_the_workers_gpu(void **state DL_UNUSED)
{
    const char *gpu = "[sync]\nmode = ps\nwhere = gpu:0\n";
    assert_step(fixture_step_ns(TURNS, ONE, 2, gpu), 2e6 + 2400 + 100e3);
}

static dl_scenario scenario_of(const char *machine, const char *rest)
{
    char path[64];
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    dl_scenario scenario = fixture_scenario("[scenario]\nsteps = 20\n[machine]\nfile = %s\n%s"
                                            "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n%s",
                                            path, machine, rest);
    unlink(path);
    return scenario;
}

/* Runs workers whose thread makes the batch, launches and waits in sequence, like dlprof
 * train's. */
static dl_run_result run_in_turn_on(const char *machine, const char *costs_text, const char *rest)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    DL_SCOPED(dl_scenario) scenario = scenario_of(machine, rest);
    scenario.gpu->in_turn = true;
    scenario.gpu->ahead = scenario.gpu->prefetch = 0;
    return fixture_run(&costs, &scenario);
}

static dl_run_result run_in_turn(const char *costs_text, int workers, const char *rest)
{
    char machine[64];
    snprintf(machine, sizeof machine, "gpus = 0\nworkers = %d\n", workers);
    return run_in_turn_on(machine, costs_text, rest);
}

static double in_turn_step_ns(const char *costs_text, int workers, const char *rest)
{
    DL_SCOPED(dl_run_result) r = run_in_turn(costs_text, workers, rest);
    return 1e9 * r.step_p50_s;
}

#define LAUNCHES                                                       \
    "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\nlaunch_ns = 3000\n" \
    "[op dispatch]\nfixed_ns = 5000\nper_sample_ns = 0\n"

/* Push and pull each take a launch of 3 us, and 5 us until the thread resumes, like the step's end;
 * so does the update on the GPU, 3 us + 5 us and 0.1 ms. */
static void each_wait_for_the_gpu_takes_its_launch(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS LAUNCHES;
    assert_step(in_turn_step_ns(costs, 1, PS_CPU), 1e6 + 5000 + 2 * (COPY_NS + 8000) + 2 * 80e3);
    const char *gpu = "[sync]\nmode = ps\nwhere = gpu:0\n";
    assert_step(in_turn_step_ns(costs, 1, gpu), 1e6 + 5000 + 3 * 8000 + 100e3);
}

/* Worker 1 computes throughout: worker 0 computes 2 ms, and its push, update, pull and the copy of
 * its batch take twice their launches and waits, as they would beside any kernels. */
static void an_exchange_is_slower_beside_others(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS LAUNCHES
        "[sharing]\ncopies_2 = 1\n[op input]\nfixed_ns = 0\nper_sample_ns = 0\n"
        "[input]\nbytes_per_sample = 10000\ncopy_ns = 14000\n";
    dl_run_result r =
        run_in_turn(costs, 2, "[sync]\nmode = async\nwhere = gpu:0\n[noise]\nslow = 1:1000\n");
    const double input_ns = 2 * 14000 + 1200, exchange_ns = 3 * 16000 + 100e3;
    assert_near(1e9 * r.worker_step_s[0], 5000 + input_ns + 2e6 + exchange_ns, 1e-3);
    dl_run_result_free(&r);
}

/* Worker 0 computes 100 ms in its only step, in which all 20 updates of worker 1 take its GPU for
 * 0.1 ms each, but not for their launches of 3 us + 5 us. */
static void a_launch_does_not_stop_the_gpu(void **state DL_UNUSED)
{
    dl_run_result r =
        run_in_turn_on("gpus = 0, 1\nworkers = 2\n", FIXTURE_GPU_COSTS LAUNCHES,
                       "[sync]\nmode = async\nwhere = gpu:0\n[noise]\nslow = 0:100\n");
    const double own_ns = 100e6 + 5000 + 3 * 8000 + 100e3, held_ns = 20 * 100e3;
    assert_near(1e9 * r.worker_step_s[0], own_ns + held_ns, 1e-9);
    dl_run_result_free(&r);
}

/* Worker 1 has GPU 6 to itself. The copy of its next batch starts with its compute and takes 10 ms,
 * longer than its step: no other worker computes there. */
static void an_own_step_does_not_slow_the_next_batch(void **state DL_UNUSED)
{
    const char *costs = TURNS "[op input]\nfixed_ns = 0\nper_sample_ns = 0\n"
                              "[input]\nbytes_per_sample = 10000\ncopy_ns = 1e7\n";
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "gpus = 5, 6\n", 3, 20,
                                                  "[sync]\nmode = async\n"
                                                  "[input]\nprefetch = 1\n");
    assert_near(1e9 * r.worker_step_s[1], 1e7 + 1200, 0.02);
}

/* Eight workers that do not slow each other compute 1 ms, and hold the lock for 160 us of update
 * and, in dlprof train, for their pull of 8.2 us. */
static void parameters_are_pulled_under_the_lock(void **state DL_UNUSED)
{
    const char *costs = COSTS "[sharing]\ncopies_2 = 0.5\ncopies_4 = 0.25\ncopies_8 = 0.125\n";
    const char *async = "[sync]\nmode = async\n";
    assert_step(in_turn_step_ns(costs, 8, async), 8 * (160e3 + COPY_NS));
    assert_step(fixture_step_ns(costs, ONE, 8, async), 8 * 160e3);
}

/* 10 kB at 10 GB/s over two edges of 100 ns, plus the fixed 14 us of a copy. */
static void a_batch_is_copied_at_a_fixed_time_too(void **state DL_UNUSED)
{
    const char *costs = COSTS "[op input]\nfixed_ns = 0\nper_sample_ns = 0\n"
                              "[input]\nbytes_per_sample = 10000\ncopy_ns = 14000\n";
    assert_step(in_turn_step_ns(costs, 1, ""), 1.1e6 + 14000 + 1200);
}

/* Parameters and gradients of 80 kB, 40 kB state, 100 kB workspace, 70 kB per sample: 370 kB per
 * worker. */
static void each_worker_needs_its_memory(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs(COSTS "[gpu_memory]\nactivation_bytes_per_sample = 70000\n"
                                         "workspace_bytes = 100000\n");
    DL_SCOPED(dl_scenario) scenario = scenario_of("gpus = 0, 3\nworkers = 5\n", "");
    assert_near(dl_run_memory(&scenario, &costs, &scenario.points[0]).needs_bytes, 3 * 370e3,
                1e-12);
    assert_int_equal(dl_point_gpus(&scenario.points[0]), 2);
    assert_int_equal(dl_point_workers_per_gpu(&scenario.points[0]), 3);
    assert_near(dl_gpu_options_usd_per_hour(scenario.gpu, 2), 9, 1e-12);
    dl_costs_free(&costs);
}

/* Without a measurement workers take turns, with an interval from half of that time (no
 * disturbance) to twice as long; more workers than were measured are an extrapolation. */
static void what_was_not_measured_is_assumed(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    DL_SCOPED(dl_scenario) scenario = scenario_of("gpus = 0\nworkers = 1, 2, 4\n", "");
    assert_false(dl_run_needs(&scenario, &costs, &scenario.points[0]) & DL_NEED_SHARING);
    assert_true(dl_run_needs(&scenario, &costs, &scenario.points[1]) & DL_NEED_SHARING);
    DL_SCOPED(dl_assumptions) made = {0};
    dl_costs_assume(&costs, DL_NEED_SHARING, &scenario.gpu->machine, 0, &made);
    assert_int_equal(made.count, 1);
    assert_string_equal(dl_assumption_name(&made.items[0]), "copies_2");
    assert_near(made.items[0].value, 1, 1e-12);
    assert_near(made.items[0].low, 0.5, 1e-12);
    assert_near(made.items[0].high, 2, 1e-12);
    assert_non_null(strstr(made.items[0].source, "take turns"));
    assert_non_null(strstr(made.items[0].measure, "--device cuda"));
    assert_false(dl_run_extrapolates(&scenario, &costs, &scenario.points[1]));
    assert_true(dl_run_extrapolates(&scenario, &costs, &scenario.points[2]));
}

static dl_status refused(const char *machine, const char *rest, dl_error *err)
{
    char path[64], whole[1024];
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    snprintf(whole, sizeof whole,
             "[machine]\nfile = %s\n%s[workload]\ncosts = c.ini\nbatch_per_worker = 1\n%s", path,
             machine, rest);
    dl_scenario scenario = {0};
    const dl_status status = dl_scenario_read_text(&scenario, "s.ini", whole, strlen(whole), err);
    unlink(path);
    if (status == DL_OK) dl_scenario_free(&scenario);
    return status;
}

static void collectives_have_a_gpu_each(void **state DL_UNUSED)
{
    dl_error err = {0};
    assert_int_equal(refused("gpus = 0\nworkers = 2\n", "[sync]\nmode = allreduce\n", &err),
                     DL_ERR_DATA);
    assert_non_null(strstr(err.text, "2 workers share 1 GPU: collectives have one rank on each"));
    assert_int_equal(refused("gpus = 0, 1\nworkers = 3\n",
                             "[sync]\nmode = average\ninterval = 2\nwhere = allreduce\n", &err),
                     DL_ERR_DATA);
    assert_int_equal(refused("workers = 9\n", "", &err), DL_ERR_RANGE);
    assert_non_null(strstr(err.text, "gpus lists those that workers share"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k_workers_compute_as_bench_has_it),
        cmocka_unit_test(workers_take_the_gpus_in_turn),
        cmocka_unit_test(the_hosts_part_is_not_shared),
        cmocka_unit_test(copies_share_the_link),
        cmocka_unit_test(who_is_left_has_the_gpu_for_itself),
        cmocka_unit_test(a_server_on_the_workers_gpu),
        cmocka_unit_test(each_wait_for_the_gpu_takes_its_launch),
        cmocka_unit_test(an_exchange_is_slower_beside_others),
        cmocka_unit_test(a_launch_does_not_stop_the_gpu),
        cmocka_unit_test(an_own_step_does_not_slow_the_next_batch),
        cmocka_unit_test(parameters_are_pulled_under_the_lock),
        cmocka_unit_test(a_batch_is_copied_at_a_fixed_time_too),
        cmocka_unit_test(each_worker_needs_its_memory),
        cmocka_unit_test(what_was_not_measured_is_assumed),
        cmocka_unit_test(collectives_have_a_gpu_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
