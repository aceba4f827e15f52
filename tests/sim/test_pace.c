/* Estimates of run time and reports of progress, with a clock that the test controls. */
#include "tests/gpu_fixture.h"

#include <stdlib.h>

#include "sim/sweep.h"

static int64_t now_ns, tick_ns; /* each reading of the clock advances it by a tick */
static int said;
static char first_said[200], last_said[200];

static int64_t turn(void)
{
    return now_ns += tick_ns;
}

static void note_said(const char *text)
{
    snprintf(last_said, sizeof last_said, "%s", text);
    if (said++ == 0) memcpy(first_said, last_said, sizeof first_said);
}

#define COSTS FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH

/* Four workers on GPUs whose server takes their gradients in two slices, `steps` steps: tens of
 * events per worker and step, and a reading of the clock every 1024 events. Returns the throughput;
 * NaN if the run was ended. */
static double sweep(int steps, double limit_s, double tick_s, dl_error *err)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    fixture_write("pace_gpus.ini", FIXTURE_GPUS);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = %d\n[machine]\nfile = pace_gpus.ini\nworkers = 4\n"
        "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = ps\n"
        "where = cpu\n[exchange]\nslice_bytes = 40000\n[noise]\nkind = gamma\nsigma = 0.3\n",
        steps);
    unlink("pace_gpus.ini");
    dl_variant variant;
    const dl_study study = fixture_study(&variant, &scenario, &costs);
    DL_SCOPED(dl_pace) pace;
    dl_pace_init(&pace, limit_s, 1, note_said);
    pace.clock_ns = turn;
    now_ns = said = 0;
    last_said[0] = '\0';
    tick_ns = (int64_t)(1e9 * tick_s);
    DL_SCOPED(dl_sweep) result = {0};
    const dl_sweep_config config = {.threads = 1, .no_influences = true, .pace = &pace};
    const dl_status status = dl_sweep_run(&result, &study, &config, err);
    double per_s = (double)NAN;
    if (status == DL_OK) per_s = result.rows[0].mean.throughput_per_s;
    if (status != DL_OK) assert_int_equal(status, DL_ERR_RANGE);
    return per_s;
}

/* A short run reports nothing; one that takes longer gives the same result. */
static void a_run_is_what_it_is_at_any_pace(void **state DL_UNUSED)
{
    dl_error err = {0};
    const double quick = sweep(2000, 600, 1e-6, &err);
    assert_int_equal(said, 0);
    assert_true(quick > 0);
    const double slow = sweep(2000, (double)INFINITY, 1.5, &err);
    /* Some 200 readings of 1.5 s, the first at 2 s, and each after four times as long: 2, 8, 32 and
     * 128 s, rounded up to a reading. */
    assert_int_equal(said, 4);
    assert_contains(first_said, " % of the work is done after 3 s of processor time on 1 thread");
    const double first = strtod(first_said, NULL), last = strtod(last_said, NULL);
    assert_true(first > 0 && last > 20 * first && last < 100);
    assert_true(memcmp(&quick, &slow, sizeof quick) == 0);
}

/* Some 200 readings of 1.5 s: minutes, which exceeds 20 s but not 3000. */
static void an_estimate_beyond_the_limit_ends_the_run(void **state DL_UNUSED)
{
    dl_error err = {0};
    assert_false(isnan(sweep(2000, 3000, 1.5, &err)));
    assert_true(isnan(sweep(2000, 20, 1.5, &err)));
    assert_contains(err.text, "this would take about");
    assert_contains(err.text, "--long");
    assert_string_equal(err.file, "s.ini");
    assert_int_equal(said, 0); /* the error contains the estimate */
    assert_true(now_ns < 20 * INT64_C(1000000000));
    /* The same run with a hundred times as many steps is refused as early. */
    assert_true(isnan(sweep(200000, 3000, 1.5, &err)));
    assert_true(now_ns < 20 * INT64_C(1000000000));
}

static double weight(const char *rest)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    fixture_write("pace_gpus.ini", FIXTURE_GPUS);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = 10\n[machine]\nfile = pace_gpus.ini\nworkers = 4\n"
                         "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\n%s",
                         rest);
    unlink("pace_gpus.ini");
    const double found = dl_run_weight(&scenario, &costs, &scenario.points[0]);
    dl_scenario_free(&scenario);
    return found;
}

/* 10 steps of 4 workers; 80 kB in two shards of 40 kB, of 4 slices each. */
static void messages_of_a_server_weigh(void **state DL_UNUSED)
{
    assert_near(weight("mode = none\n"), 40, 1e-12);
    assert_near(weight("mode = allreduce\n"), 40, 1e-12);
    assert_near(weight("mode = ps\n[exchange]\nshards = 2\n"), 80, 1e-12);
    assert_near(weight("mode = ps\n[exchange]\nshards = 2\nslice_bytes = 10000\n"), 320, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_what_it_is_at_any_pace),
        cmocka_unit_test(an_estimate_beyond_the_limit_ends_the_run),
        cmocka_unit_test(messages_of_a_server_weigh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
