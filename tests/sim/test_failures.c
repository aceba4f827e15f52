/* Goodput of failing jobs against hand calculations and closed forms. */
#include "tests/sim_fixture.h"

#include <stdlib.h>

#include "sim/failures.h"

/* 100 steps of 1 s, checkpoints of 2 s after every 30: after 30, 60, 90 steps, 106 s in total. */
static void without_failures_checkpoints_are_the_cost(void **state DL_UNUSED)
{
    const dl_failures f = {.checkpoint_s = 2, .checkpoint_steps = 30};
    assert_near(dl_failures_goodput(&f, dl_failures_mean_s(&f, 4, 2), 100, 1), 100 / 106.0, 1e-12);
}

/* The same with failures. At 50 s: the checkpoint of 30 steps ended at 32, so 18 s are lost; 5 s
 * later, at 55, the job continues with 70 steps and 2 checkpoints and ends at 55 + 74 = 129. A
 * failure at 57 is in the first steps after that (2 s lost: 131 + 5); one at 53 is during the
 * restart. At 31, during the first checkpoint, the checkpoint is lost too: 31 s, then 5, then
 * 106. */
static void failures_at_given_times(void **state DL_UNUSED)
{
    dl_failures f = {.checkpoint_s = 2, .checkpoint_steps = 30, .restart_s = 5};
    double once[] = {50}, twice[] = {50, 57}, down[] = {50, 53}, early[] = {31};
    const struct {
        double *at_s;
        size_t count;
        double seconds;
    } cases[] = {{once, 1, 129}, {twice, 2, 136}, {down, 2, 129}, {early, 1, 142}};
    for (size_t i = 0; i < 4; i++) {
        f.at_s = cases[i].at_s;
        f.at_count = cases[i].count;
        assert_near(dl_failures_goodput(&f, dl_failures_mean_s(&f, 4, 2), 100, 1),
                    100 / cases[i].seconds, 1e-12);
    }
    /* Without checkpoints the job starts over: 50 + 5 + 100. */
    f.checkpoint_steps = 0;
    f.at_s = once;
    f.at_count = 1;
    assert_near(dl_failures_goodput(&f, dl_failures_mean_s(&f, 4, 2), 100, 1), 100 / 155.0, 1e-12);
}

/* A segment of 10 s of work that fails every 10 s on average and restarts immediately takes 10 (e -
 * 1) s; the job consists of such segments. With a restart of 10 s it takes e times that. */
static void expected_times_are_dalys(void **state DL_UNUSED)
{
    const double e = exp(1);
    dl_failures f = {.mtbf_s = 80, .checkpoint_steps = 10};
    assert_near(dl_failures_goodput(&f, dl_failures_mean_s(&f, 8, 2), 1000, 1), 1 / (e - 1), 1e-12);
    f.restart_s = 10;
    assert_near(dl_failures_goodput(&f, dl_failures_mean_s(&f, 8, 2), 1000, 1), 1 / (e * (e - 1)),
                1e-12);
    /* 15 steps: segments of 10 and 5. */
    f.restart_s = 0;
    assert_near(dl_failures_goodput(&f, dl_failures_mean_s(&f, 8, 2), 15, 1),
                15 / (10 * (e - 1) + 10 * expm1(0.5)), 1e-12);
    /* With few failures: the checkpoints, 1 of 11 s, and half a segment at each failure. */
    f = (dl_failures){.mtbf_s = 8e6, .checkpoint_steps = 10, .checkpoint_s = 1};
    assert_near(1 / dl_failures_goodput(&f, dl_failures_mean_s(&f, 8, 2), 100000, 1),
                1.1 * (1 + 11 / 2e6), 1e-5);
}

/* Young's sqrt(2 C M) with 2 s and 10,000 s for the job: 200 steps of 1 s, to about C / 3; the best
 * interval is no worse than its neighbours. */
static void the_best_interval_is_youngs(void **state DL_UNUSED)
{
    dl_failures f = {.mtbf_s = 80000, .checkpoint_s = 2, .restart_s = 60};
    const int64_t best = dl_failures_best_steps(&f, dl_failures_mean_s(&f, 8, 2), 10000000, 1);
    assert_true(llabs((long long)best - 200) <= 2);
    double goodput[3];
    for (int i = 0; i < 3; i++) {
        f.checkpoint_steps = best + (i - 1) * 20;
        goodput[i] = dl_failures_goodput(&f, dl_failures_mean_s(&f, 8, 2), 10000000, 1);
    }
    assert_true(goodput[1] > goodput[0] && goodput[1] > goodput[2]);
    f.mtbf_s = 0;
    assert_int_equal(dl_failures_best_steps(&f, dl_failures_mean_s(&f, 8, 2), 1000, 1), 0);
}

static void times_are_checked(void **state DL_UNUSED)
{
    static const struct {
        const char *lines, *says;
    } cases[] = {{"at_s = 1, 2\nmtbf_s = 9\n", "mtbf_s is given too"},
                 {"at_s = 2, 2\n", "must ascend"},
                 {"at_s = 2, x\n", "x"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_scenario scenario = {0};
        dl_error err = {0};
        char text[300];
        snprintf(
            text, sizeof text,
            "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\nbatch = 2\n[failures]\n%s",
            cases[i].lines);
        assert_int_not_equal(dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err),
                             DL_OK);
        assert_int_equal(err.line, 8);
        assert_non_null(strstr(err.text, cases[i].says));
    }
}

/* Two nodes that fail once in 20 s equal eight workers that fail once in 80 s; together they fail
 * twice as often. */
static void nodes_fail_as_well(void **state DL_UNUSED)
{
    dl_failures f = {.node_mtbf_s = 20, .checkpoint_steps = 10};
    assert_true(dl_failures_given(&f));
    assert_near(dl_failures_mean_s(&f, 8, 2), 10, 1e-12);
    f.mtbf_s = 80;
    assert_near(dl_failures_mean_s(&f, 8, 2), 5, 1e-12);
    assert_near(dl_failures_goodput(&f, 5, 1000, 1), 2 / expm1(2), 1e-12);
    f = (dl_failures){.at_count = 1};
    assert_near(dl_failures_mean_s(&f, 8, 2), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_failures_checkpoints_are_the_cost),
        cmocka_unit_test(failures_at_given_times),
        cmocka_unit_test(expected_times_are_dalys),
        cmocka_unit_test(the_best_interval_is_youngs),
        cmocka_unit_test(times_are_checked),
        cmocka_unit_test(nodes_fail_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
