#include "tests/sim_fixture.h"

static void needs_follow_mode_and_machine(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        int workers, cores;
        unsigned needs;
    } cases[] = {
        {"none", 1, 1, DL_NEED_OPS},
        {"none", 2, 2, DL_NEED_OPS | DL_NEED_SHARING},
        {"none", 2, 1, DL_NEED_OPS | DL_NEED_SHARING | DL_NEED_SLICE},
        {"async", 1, 1, DL_NEED_OPS | DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS},
        {"async", 2, 2,
         DL_NEED_OPS | DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS | DL_NEED_SHARING |
             DL_NEED_MEMORY | DL_NEED_LOCK},
        {"allreduce", 2, 1,
         DL_NEED_OPS | DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS | DL_NEED_SHARING |
             DL_NEED_MEMORY | DL_NEED_SLICE | DL_NEED_WAKEUP},
        {"average", 2, 2,
         DL_NEED_OPS | DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS | DL_NEED_STATE |
             DL_NEED_SHARING | DL_NEED_MEMORY | DL_NEED_BARRIER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_scenario s =
            fixture_scenario("[machine]\ncores = %d\nworkers = %d\n[workload]\n"
                             "costs = c\nbatch_per_worker = 1\n"
                             "[sync]\nmode = %s\n%s"
                             "[noise]\nkind = trace\n",
                             cases[i].cores, cases[i].workers, cases[i].mode,
                             cases[i].needs & DL_NEED_STATE ? "average_state = yes\n" : "");
        assert_int_equal(dl_run_needs(&s, &s.points[0]), cases[i].needs | DL_NEED_NOISE);
        dl_scenario_free(&s);
    }
}

/* Measured on 2 cores with batches of 8 to 16 and up to 4 copies. */
static void extrapolation_is_noticed(void **state)
{
    (void)state;
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nbatch_min = 8\nbatch_max = 16\ncores = 2\n"
                                   "[sharing]\ncopies_2 = 1\ncopies_4 = 1\n");
    static const struct {
        int cores, workers, batch;
        bool extrapolates;
    } cases[] = {{2, 1, 8, false},  {2, 1, 7, true},  {2, 1, 17, true}, {2, 2, 32, false},
                 {2, 4, 64, false}, {2, 4, 68, true}, {2, 5, 40, true}, {4, 2, 16, true},
                 {1, 2, 16, true},  {1, 1, 16, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dl_point point = {.cores = cases[i].cores,
                                .workers = cases[i].workers,
                                .batch = cases[i].batch,
                                .mode = &dl_mode_none,
                                .option = {[DL_SYNC_INTERVAL] = 1, [DL_SYNC_ACCUMULATE] = 1}};
        if (dl_run_extrapolates(&costs, &point) != cases[i].extrapolates) fail_msg("case %zu", i);
    }
    dl_costs_free(&costs);
}

static void steps_are_whole_intervals(void **state)
{
    (void)state;
    const dl_scenario scenario = {.steps = 200};
    dl_point point = {.option[DL_SYNC_INTERVAL] = 1};
    assert_int_equal(dl_run_steps(&scenario, &point), 200);
    point.option[DL_SYNC_INTERVAL] = 7;
    assert_int_equal(dl_run_steps(&scenario, &point), 203);
    point.option[DL_SYNC_INTERVAL] = 500;
    assert_int_equal(dl_run_steps(&scenario, &point), 500);
}

/* One worker: input 100, dispatch 200, forward 300, update 400 ns; slow twofold on
 * forward: 100, 200, 600, 400 of 1300. */
static void the_step_is_split(void **state)
{
    (void)state;
    static const char costs[] = "[costs]\nschema = 1\n"
                                "[op input]\nfixed_ns = 100\nper_sample_ns = 0\n"
                                "[op dispatch]\nfixed_ns = 200\nper_sample_ns = 0\n"
                                "[op a.forward]\nfixed_ns = 300\nper_sample_ns = 0\n"
                                "[op a.update]\nfixed_ns = 400\nper_sample_ns = 0\n";
    dl_run_result r = fixture_run_mode(costs, "none", 1, 1, 10, "", "[noise]\nslow = 0:2\n");
    assert_near(r.step_mean_s, 1300e-9, 1e-12);
    assert_near(r.part_frac[DL_PART_INPUT], 100.0 / 1300, 1e-12);
    assert_near(r.part_frac[DL_PART_DISPATCH], 200.0 / 1300, 1e-12);
    assert_near(r.part_frac[DL_PART_COMPUTE], 1000.0 / 1300, 1e-12);
    dl_run_result_free(&r);
}

/* FIXTURE_COSTS, allreduce of 2: compute 1 100 000, copy 8000, average 8000, waiting 200 of
 * 1 116 200 ns. */
static void parts_sum_to_one(void **state)
{
    (void)state;
    dl_run_result r = fixture_run_mode(FIXTURE_COSTS, "allreduce", 2, 2, 10, "", "");
    assert_near(r.part_frac[DL_PART_COMPUTE], 1100000 / 1116200.0, 1e-12);
    assert_near(r.part_frac[DL_PART_COMMUNICATION], 8000 / 1116200.0, 1e-12);
    assert_near(r.part_frac[DL_PART_AVERAGING], 8000 / 1116200.0, 1e-12);
    assert_near(r.part_frac[DL_PART_WAITING], 200 / 1116200.0, 1e-12);
    dl_run_result_free(&r);
}

/* A step is 1 ms +- 1 %: replicate 0 has the cost itself, 1 and 2 lie opposite, 3 elsewhere. */
static void replicates_draw_antithetic_costs(void **state)
{
    (void)state;
    dl_costs costs = fixture_costs("[costs]\nschema = 1\n[op a.forward]\n"
                                   "fixed_ns = 1000000 +- 10000\nper_sample_ns = 0\n");
    dl_scenario s = fixture_scenario("[machine]\ncores = 1\nworkers = 1\n[workload]\ncosts = c\n"
                                     "batch = 1\n");
    double off_s[4];
    for (uint32_t r = 0; r < 4; r++) {
        dl_run_result result = {0};
        const dl_run_config config = {
            .scenario = &s, .costs = &costs, .point = &s.points[0], .replicate = r};
        assert_int_equal(dl_run(&config, &result, NULL), DL_OK);
        off_s[r] = result.step_mean_s - 1e-3;
        dl_run_result_free(&result);
    }
    assert_true(fabs(off_s[0]) < 1e-12);
    assert_true(fabs(off_s[1]) > 1e-8 && fabs(off_s[1]) < 5e-5);
    assert_true(fabs(off_s[1] + off_s[2]) < 2e-9); /* steps are rounded up to whole ns */
    assert_true(fabs(off_s[3] - off_s[1]) > 1e-8);
    dl_scenario_free(&s);
    dl_costs_free(&costs);
}

static void a_run_without_end_is_refused(void **state)
{
    (void)state;
    static const struct {
        double fixed_ns;
        const char *message;
        dl_status status;
    } cases[] = {{-5, "no time", DL_ERR_DATA},
                 {1e24, "more than 146 years", DL_ERR_RANGE},
                 {1e17, "more than 146 years", DL_ERR_RANGE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_costs costs = fixture_costs(
            "[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 0\nper_sample_ns = 0\n");
        costs.ops[0].fixed_ns.value = cases[i].fixed_ns; /* a file's would be refused */
        dl_scenario s =
            fixture_scenario("[machine]\ncores = 1\nworkers = 1\n[workload]\ncosts = c\n"
                             "batch = 1\n");
        dl_run_result result = {.workers = 77};
        dl_error err = {0};
        const dl_run_config config = {.scenario = &s, .costs = &costs, .point = &s.points[0]};
        assert_int_equal(dl_run(&config, &result, &err), cases[i].status);
        assert_contains(err.text, cases[i].message);
        assert_int_equal(result.workers, 77);
        dl_scenario_free(&s);
        dl_costs_free(&costs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_follow_mode_and_machine),
        cmocka_unit_test(extrapolation_is_noticed),
        cmocka_unit_test(steps_are_whole_intervals),
        cmocka_unit_test(the_step_is_split),
        cmocka_unit_test(parts_sum_to_one),
        cmocka_unit_test(replicates_draw_antithetic_costs),
        cmocka_unit_test(a_run_without_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
