/* Traces of a cost file, compared with points. */
#include "sim/traced.h"

#include "tests/gpu_fixture.h"

#include "sim/report/measured.h"

#define DEVICE(name) "device = " name "\n"

/* A step of 1.1 ms; its trace with `ranks` ranks took 1.375 ms. */
#define COSTS(device, rest)                                                               \
    "[costs]\nschema = 1\nparameter_bytes = 80000\n" device FIXTURE_PASSES FIXTURE_UPDATE \
        FIXTURE_FREE_DISPATCH rest
#define TRACE(ranks)                                                                       \
    "[trace 1]\nfile = t.json\nranks = " ranks "\nbatch = 2\nallreduces = yes\nstep_ns = " \
    "1375000\n"

typedef struct made {
    dl_scenario scenario;
    dl_costs costs;
    dl_variant variant;
    dl_study study;
} made;

static void make(made *m, const char *costs, const char *points, const char *rest)
{
    char path[64];
    snprintf(path, sizeof path, "traced_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    m->costs = fixture_costs(costs);
    m->scenario = fixture_scenario("[scenario]\nsteps = 30\n[machine]\nfile = %s\n%s"
                                   "[workload]\ncosts = c\nbatch_per_worker = 2\n%s",
                                   path, points, rest);
    unlink(path);
    m->study = fixture_study(&m->variant, &m->scenario, &m->costs);
}

static void free_made(made *m)
{
    dl_scenario_free(&m->scenario);
    dl_costs_free(&m->costs);
}

/* 1, 2, 4 workers with allreduce, then with average: only two workers with allreduce reproduce the
 * trace. */
static void the_point_of_a_trace_has_its_step(void **state DL_UNUSED)
{
    made m;
    dl_measured *measured = NULL;
    make(&m, COSTS(DEVICE("g"), TRACE("2")), "workers = 1, 2, 4\n",
         "[sync]\nmode = allreduce, average\ninterval = 1\n");
    assert_int_equal(dl_measured_read(&measured, &m.study, NULL), DL_OK);
    for (size_t p = 0; p < m.study.point_count; p++) {
        const dl_point *point = &m.scenario.points[p];
        const bool own = point->workers == 2 && point->mode == &dl_mode_allreduce;
        assert_int_equal(measured[p].runs, own);
        if (!own) continue;
        assert_near(measured[p].value[DL_MEASURE_STEP_S], 1.375e-3, 1e-12);
        assert_near(measured[p].value[DL_MEASURE_PER_S], 4 / 1.375e-3, 1e-9);
        assert_int_equal(measured[p].use, DL_USE_TRACED);
        assert_string_equal(measured[p].source, "t.json");
    }
    dl_measured_free(measured, m.study.point_count);
    free_made(&m);
}

/* Whether the point with two workers reproduces a trace. */
static bool is_own(const char *costs, const char *rest)
{
    made m;
    make(&m, costs, "workers = 2\n", rest);
    const bool own = dl_traced_of_point(&m.variant, &m.scenario.points[0]) != NULL;
    free_made(&m);
    return own;
}

static void other_settings_are_not_its_own(void **state DL_UNUSED)
{
    static const char reduce[] = "[sync]\nmode = allreduce\n";
    const char *const of_g = COSTS(DEVICE("g"), TRACE("2"));
    assert_true(is_own(of_g, reduce));
    assert_false(is_own(COSTS(DEVICE("g"), TRACE("4")), reduce));
    assert_false(is_own(COSTS("", TRACE("2")), reduce)); /* unknown GPU */
    assert_false(is_own(of_g, "[sync]\nmode = none\n"));
    assert_false(is_own(of_g, "[sync]\nmode = ps\n"));
    assert_false(is_own(of_g, "[sync]\nmode = allreduce\naccumulate = 2\n"));
    assert_false(is_own(of_g, "[exchange]\ncompress = fp16\n[sync]\nmode = allreduce\n"));
    assert_false(is_own(of_g, "[exchange]\noverlap = yes\n[sync]\nmode = allreduce\n"));
    assert_false(is_own(of_g, "[exchange]\nsharded = optimizer\n[sync]\nmode = allreduce\n"));
    assert_false(is_own(of_g, "[noise]\nslow = 1:2\n[sync]\nmode = allreduce\n"));
}

#define STAGED(rest)                                                                     \
    COSTS(DEVICE("g"), "[trace 1]\nranks = 2\nbatch = 2\nstages = 2\nallreduces = yes\n" \
                       "step_ns = 1375000\n" rest)
#define STAGES(schedule) \
    "[pipeline]\nstages = 2\nschedule = " schedule "\n[sync]\nmode = allreduce\n"

/* Whether one worker of two stages reproduces the trace of two stages. */
static bool is_own_of_stages(const char *costs, const char *rest)
{
    made m;
    make(&m, costs, "workers = 1\n", rest);
    const bool own = dl_traced_of_point(&m.variant, &m.scenario.points[0]) != NULL;
    free_made(&m);
    return own;
}

static void stages_have_the_traced_schedule(void **state DL_UNUSED)
{
    assert_true(is_own_of_stages(STAGED(""), STAGES("1f1b")));
    assert_false(is_own_of_stages(STAGED(""), STAGES("gpipe")));
    assert_false(is_own_of_stages(STAGED(""), STAGES("pipedream")));
    assert_true(is_own_of_stages(STAGED("schedule = gpipe\n"), STAGES("gpipe")));
    assert_false(is_own_of_stages(STAGED("schedule = gpipe\n"), STAGES("1f1b")));
}

/* The simulated step is 1 + 0.1 ms and an all-reduce of 80 kB between two GPUs on a switch: 2 (0.2
 * us + 40 kB / 10 GB/s) = 8.4 us. 1.375 / 1.1084 - 1 = 0.2405 too fast, also if the scenario has
 * other points; with 16 ranks the machine has no such point. */
static void the_own_step_is_predicted_where_no_row_has_it(void **state DL_UNUSED)
{
    made m;
    double error;
    make(&m, COSTS(DEVICE("g"), TRACE("2")), "workers = 4\n", "[sync]\nmode = average\n");
    assert_near(dl_traced_step_s(&m.variant, &m.costs.traces[0]), 1.1084e-3, 1e-6);
    assert_ptr_equal(dl_traced_worst(&m.variant, &error), &m.costs.traces[0]);
    assert_near(error, 1.375 / 1.1084 - 1, 1e-3);
    free_made(&m);
    make(&m, COSTS(DEVICE("g"), TRACE("16")), "workers = 4\n", "[sync]\nmode = average\n");
    assert_null(dl_traced_worst(&m.variant, &error));
    assert_true(isnan(error));
    free_made(&m);
}

/* From the first trace with collectives: 0.2 ms of a collective with unknown bytes; with averages
 * also the all-to-all, 0.3 ms. One worker has no collectives. */
static void collectives_that_are_left_out_are_told(void **state DL_UNUSED)
{
    static const char collectives[] =
        COSTS(DEVICE("g"), "[trace 1]\nbatch = 4\n[trace 2]\nranks = 2\nbatch = 2\n"
                           "step_ns = 1375000\ncollective_1 = AlltoAll, 7, 1000, 1e5, 2\n"
                           "collective_2 = Gather, 1, 0, 2e5, 2\n");
    made m;
    make(&m, collectives, "workers = 1, 2\n", "[sync]\nmode = allreduce, average\ninterval = 1\n");
    for (size_t p = 0; p < m.scenario.point_count; p++) {
        const dl_point *point = &m.scenario.points[p];
        const double left_out_s = dl_traced_left_out_s(&m.variant, point);
        if (point->workers == 1) {
            assert_true(isnan(left_out_s));
        } else {
            assert_near(left_out_s, point->mode == &dl_mode_allreduce ? 2e-4 : 3e-4, 1e-15);
        }
    }
    free_made(&m);
    make(&m, COSTS(DEVICE("g"), TRACE("2") "collective_1 = AlltoAll, 7, 1000, 1e5, 2\n"),
         "workers = 2\n", "[sync]\nmode = allreduce\n");
    assert_true(isnan(dl_traced_left_out_s(&m.variant, &m.scenario.points[0])));
    free_made(&m);
}

/* An error of 15 %: above 10 %, but not significant with a standard error of 3 %. */
static void scatter_is_no_contradiction(void **state DL_UNUSED)
{
    const dl_cost_trace sure = {.step_ns = {.known = true, .value = 1e6, .error = 1e4}};
    const dl_cost_trace unsure = {.step_ns = {.known = true, .value = 1e6, .error = 3e4}};
    assert_true(dl_traced_contradicts(&sure, 0.15) && dl_traced_contradicts(&sure, -0.15));
    assert_false(dl_traced_contradicts(&unsure, 0.15) || dl_traced_contradicts(&sure, 0.1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_point_of_a_trace_has_its_step),
        cmocka_unit_test(other_settings_are_not_its_own),
        cmocka_unit_test(stages_have_the_traced_schedule),
        cmocka_unit_test(the_own_step_is_predicted_where_no_row_has_it),
        cmocka_unit_test(collectives_that_are_left_out_are_told),
        cmocka_unit_test(scatter_is_no_contradiction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
