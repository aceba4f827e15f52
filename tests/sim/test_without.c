#include "sim/scenario/without.h"

#include "tests/sim_fixture.h"

#include <stdlib.h>

static const char noisy[] = "[noise]\nkind = gamma\nsigma = 0.5\nslow = 1:3\n";

/* The mean step in ns with FIXTURE_COSTS, without the costs in `list`. */
static double step_ns(const char *mode, int cores, const char *noise, const char *list)
{
    unsigned without = 0;
    dl_costs costs =
        fixture_costs(FIXTURE_COSTS "[op input]\nfixed_ns = 7000\nper_sample_ns = 1000\n"
                                    "[op dispatch]\nfixed_ns = 5000\nper_sample_ns = 0\n");
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = 20\n[machine]\ncores = %d\nworkers = 2\n[workload]\ncosts = c\n"
        "batch_per_worker = 1\n[sync]\nmode = %s\n%s",
        cores, mode, noise);
    if (list != NULL) assert_int_equal(dl_without_parse(list, &without, NULL), DL_OK);
    dl_without_apply(without, &scenario, &costs);
    DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
    double ns = r.step_mean_s * 1e9;
    dl_costs_free(&costs);
    return ns;
}

/* allreduce of 2: input 8000, dispatch 5000, compute 1 000 000, average 8000, pull 8000, update 100
 * 000, two barriers of 100 ns; ps: push and pull 8000 each, update 24 000. */
static void each_takes_its_own_away(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *list;
        double less_ns;
    } cases[] = {{"allreduce", "input", 8000},
                 {"allreduce", "dispatch", 5000},
                 {"allreduce", "average", 8000},
                 {"allreduce", "copy", 8000},
                 {"allreduce", "barrier", 200},
                 {"allreduce", "update", 0},
                 {"allreduce", "lock, memory, sharing, overlap, wakeup", 0},
                 {"allreduce", "copy , average,barrier,input,dispatch", 29200},
                 {"ps", "update", 24000},
                 {"ps", "copy", 16000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double all_ns = step_ns(cases[i].mode, 2, "", NULL);
        assert_near(all_ns - step_ns(cases[i].mode, 2, "", cases[i].list), cases[i].less_ns, 1e-6);
    }
}

static void noise_and_slow_workers_go(void **state DL_UNUSED)
{
    double quiet_ns = step_ns("allreduce", 2, "", NULL);
    assert_true(step_ns("allreduce", 2, noisy, "noise") > 2 * quiet_ns);
    assert_true(step_ns("allreduce", 2, noisy, "slow") > 1.05 * quiet_ns);
    assert_near(step_ns("allreduce", 2, noisy, "noise, slow"), quiet_ns, 1e-12);
}

static void wake_ups_go_on_shared_cores(void **state DL_UNUSED)
{
    assert_true(step_ns("allreduce", 1, "", "wakeup") < step_ns("allreduce", 1, "", NULL));
}

/* Costs that are switched off may be missing. */
static void nothing_is_missing_of_what_is_off(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 10\n");
    dl_scenario scenario = fixture_scenario("[machine]\ncores = 2\nworkers = 2\n[workload]\n"
                                            "costs = c\nbatch = 2\n[sync]\nmode = async\n");
    const unsigned needs =
        dl_run_needs(&scenario, &costs, &scenario.points[0]) & ~(unsigned)DL_NEED_OPS;
    DL_AUTOFREE char *missing = dl_costs_missing(&costs, needs);
    assert_non_null(missing);
    unsigned without = 0;
    assert_int_equal(dl_without_parse("copy,update,memory,lock,sharing", &without, NULL), DL_OK);
    dl_without_apply(without, &scenario, &costs);
    assert_null(dl_costs_missing(&costs, needs));
    char text[DL_WITHOUT_TEXT_BYTES];
    assert_string_equal(dl_without_text(text, scenario.without), "copy+update+sharing+memory+lock");
    assert_string_equal(dl_without_text(text, 0), "");
    dl_scenario_free(&scenario);
}

/* allreduce of 2: average and pull take 8000 each, barriers 200; half of compute is none of these
 * costs. */
static void half_of_a_cost_is_half(void **state DL_UNUSED)
{
    static const struct {
        const char *list;
        double less_ns;
    } cases[] = {{"copy", 4000},
                 {"average", 4000},
                 {"barrier", 100},
                 {"copy,average", 8000},
                 {"noise, slow, contention", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ns[2];
        for (int lessened = 0; lessened < 2; lessened++) {
            unsigned set = 0;
            DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
            DL_SCOPED(dl_scenario) scenario = fixture_scenario(
                "[scenario]\nsteps = 20\n[machine]\ncores = 2\nworkers = 2\n[workload]\n"
                "costs = c\nbatch_per_worker = 1\n[sync]\nmode = allreduce\n");
            assert_int_equal(dl_without_parse(cases[i].list, &set, NULL), DL_OK);
            if (lessened) dl_without_lessen(set, 0.5, &scenario, &costs);
            DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
            ns[lessened] = r.step_mean_s * 1e9;
        }
        assert_near(ns[0] - ns[1], cases[i].less_ns, 1e-6);
    }
    unsigned set = 0;
    assert_int_equal(dl_without_parse("noise, slow, contention, bubble", &set, NULL), DL_OK);
    assert_int_equal(dl_without_graded(set), 0);
}

/* A machine's slowdown of 9 becomes 5 with half of it, and 1 without it. */
static void a_machine_slows_less(void **state DL_UNUSED)
{
    for (int half = 0; half < 2; half++) {
        DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
        dl_gpu_options gpu = {0};
        dl_node_kind kind = {.overlap_slowdown = {.known = true, .value = 9}};
        gpu.machine.kinds = &kind;
        gpu.machine.kind_count = 1;
        dl_scenario scenario = {.gpu = &gpu};
        unsigned set = 0;
        assert_int_equal(dl_without_parse("overlap", &set, NULL), DL_OK);
        if (half) dl_without_lessen(set, 0.5, &scenario, &costs);
        if (!half) dl_without_apply(set, &scenario, &costs);
        assert_true(kind.overlap_slowdown.value == (half ? 5 : 1));
    }
}

static void unknown_names_are_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *list, *says;
    } cases[] = {{"nois", "did you mean 'noise'"},
                 {"copy,,noise", "unknown cost ''"},
                 {"", "unknown cost ''"},
                 {"copy, copy", "twice"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned without = 77;
        dl_error err = {0};
        assert_int_equal(dl_without_parse(cases[i].list, &without, &err), DL_ERR_USAGE);
        assert_contains(err.text, cases[i].says);
        assert_int_equal(without, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_takes_its_own_away),
        cmocka_unit_test(noise_and_slow_workers_go),
        cmocka_unit_test(wake_ups_go_on_shared_cores),
        cmocka_unit_test(nothing_is_missing_of_what_is_off),
        cmocka_unit_test(half_of_a_cost_is_half),
        cmocka_unit_test(a_machine_slows_less),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
