#include <stdlib.h>

#include "tests/sim_fixture.h"

#include "sim/sweep.h"

/* All-reduces of 2 processes: 20,000 ns and 10 ns a byte, so 100,000 ns for 8,000 bytes. */
#define REDUCES "[collective allreduce 2]\nbytes_0 = 20000\nbytes_8000 = 100000\n"
#define PROCESSES "[machine]\ncores = 2\nworkers = 2\nprocesses = yes\n"

static dl_scenario scenario_of(const char *machine, const char *sync)
{
    return fixture_scenario("[scenario]\nsteps = 20\n%s[workload]\ncosts = c.ini\n"
                            "batch_per_worker = 1\n[sync]\n%s",
                            machine, sync);
}

static double step_ns(const char *costs_text, const char *machine, const char *sync)
{
    dl_costs costs = fixture_costs(costs_text);
    dl_scenario scenario = scenario_of(machine, sync);
    dl_run_result result = fixture_run(&costs, &scenario);
    const double ns = 1e9 * 2 / result.throughput_per_s;
    dl_run_result_free(&result);
    dl_scenario_free(&scenario);
    dl_costs_free(&costs);
    return ns;
}

/* Computing takes 1,000,000 ns, the update 100,000; nothing else is charged. */
static void a_step_has_one_all_reduce(void **state)
{
    (void)state;
    assert_near(step_ns(FIXTURE_COSTS REDUCES, PROCESSES, "mode = allreduce\n"), 1200000, 1e-9);
    assert_near(step_ns(FIXTURE_COSTS REDUCES, PROCESSES, "mode = average\n"), 1200000, 1e-9);
    assert_near(step_ns(FIXTURE_COSTS REDUCES, PROCESSES, "mode = average\ninterval = 10\n"),
                1110000, 1e-9);
    /* 4,000 bytes of state: 60,000 ns more. */
    assert_near(step_ns(FIXTURE_COSTS REDUCES, PROCESSES, "mode = average\naverage_state = yes\n"),
                1260000, 1e-9);
}

/* Gradients in two buckets of 2,000 and 6,000 bytes: 40,000 and 80,000 ns. Parameters are averaged
 * in one. */
static void gradients_go_in_buckets(void **state)
{
    (void)state;
    static const char costs[] =
        FIXTURE_COSTS REDUCES "[gradients]\nready_1 = 0.5, 2000\nready_2 = 1, 8000\n";
    assert_near(step_ns(costs, PROCESSES, "mode = allreduce\n"), 1220000, 1e-9);
    assert_near(step_ns(costs, PROCESSES, "mode = average\n"), 1200000, 1e-9);
}

/* Four processes on two cores: a core computes two steps, then comes the all-reduce of four. */
static void more_processes_than_cores(void **state)
{
    (void)state;
    static const char costs[] =
        FIXTURE_COSTS "[collective allreduce 4]\nbytes_0 = 300000\nbytes_8000 = 300000\n";
    dl_costs read = fixture_costs(costs);
    dl_scenario scenario =
        scenario_of("[machine]\ncores = 2\nworkers = 4\nprocesses = yes\n", "mode = average\n");
    dl_run_result result = fixture_run(&read, &scenario);
    assert_near(1e9 * 4 / result.throughput_per_s, 2 * 1100000 + 300000, 0.001);
    dl_run_result_free(&result);
    dl_scenario_free(&scenario);
    dl_costs_free(&read);
}

/* Shared memory and its costs where the scenario says so. */
static void threads_stay_what_they_are(void **state)
{
    (void)state;
    static const char threads[] = "[machine]\ncores = 2\nworkers = 2\nprocesses = no\n";
    const double with = step_ns(FIXTURE_COSTS REDUCES, threads, "mode = allreduce\n");
    const double without = step_ns(FIXTURE_COSTS, threads, "mode = allreduce\n");
    assert_near(with, without, 0);
    assert_true(with < 1150000);
}

/* A step of async computes 1,000,000 ns, calls the server, which takes 16,000 ns for its update. The
 * round trip is the one among as many callers: of 8,000 bytes 100,000 ns alone, and 3,000,000 ns of
 * four, which the server answers side by side: its lock is held for the update only. */
static void a_server_is_called(void **state)
{
    (void)state;
    static const char costs[] =
        FIXTURE_COSTS "[roundtrip 1]\nbytes_0 = 20000\nbytes_8000 = 100000\n"
                      "[roundtrip 4]\nbytes_0 = 2000000\nbytes_8000 = 3000000\n";
    static const char one[] = "[machine]\ncores = 4\nworkers = 1\nprocesses = yes\n";
    static const char four[] = "[machine]\ncores = 4\nworkers = 4\nprocesses = yes\n";
    assert_near(step_ns(costs, one, "mode = async\n"), 2 * 1116000, 1e-9);
    assert_near(step_ns(costs, four, "mode = async\n"), 4016000.0 / 2, 0.002);
}

/* No copies, averages, barriers and memory are needed, but the all-reduce of as many ranks. */
static void what_is_missing_is_named(void **state)
{
    (void)state;
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 8000\n"
                                   "[op a.forward]\nfixed_ns = 1000\nper_sample_ns = 0\n"
                                   "[sharing]\ncopies_2 = 1\n" REDUCES);
    dl_scenario two = scenario_of(PROCESSES, "mode = allreduce\n");
    assert_null(dl_sweep_missing(&two, &costs));
    dl_scenario three =
        scenario_of("[machine]\ncores = 3\nworkers = 3\nprocesses = yes\n", "mode = allreduce\n");
    char *missing = dl_sweep_missing(&three, &costs);
    assert_string_equal(missing, "[collective allreduce 3]");
    free(missing);
    dl_scenario served = scenario_of(PROCESSES, "mode = async\n");
    missing = dl_sweep_missing(&served, &costs);
    assert_string_equal(missing, "[update] latency_ns, [update] read_bytes_per_s, [update] "
                                 "write_bytes_per_s, [roundtrip 2]");
    free(missing);
    dl_scenario_free(&served);
    dl_scenario_free(&two);
    dl_scenario_free(&three);
    dl_costs_free(&costs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_one_all_reduce),  cmocka_unit_test(gradients_go_in_buckets),
        cmocka_unit_test(more_processes_than_cores),  cmocka_unit_test(a_server_is_called),
        cmocka_unit_test(threads_stay_what_they_are), cmocka_unit_test(what_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
