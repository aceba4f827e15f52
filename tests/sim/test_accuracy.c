#include "sim/report/accuracy.h"

#include <math.h>
#include <stdlib.h>

#include "tests/sim_fixture.h"

/* A row of 2 workers, predicted at per_s with an interval of +- 10 %. */
static dl_row row_of(double per_s)
{
    return (dl_row){.point = {.workers = 2, .batch = 128, .cores = 2, .mode = &dl_mode_async},
                    .mean = {.throughput_per_s = per_s},
                    .low_per_s = 0.9 * per_s,
                    .high_per_s = 1.1 * per_s};
}

/* A point with per_s[runs], which must be in ascending order. */
static dl_measured measured_of(const double *per_s, int runs, double median)
{
    dl_measured measured = {.runs = runs};
    measured.runs_per_s = dl_calloc((size_t)runs, sizeof(double), "runs");
    for (int r = 0; r < runs; r++)
        measured.runs_per_s[r] = per_s[r];
    measured.value[DL_MEASURE_PER_S] = median;
    measured.value[DL_MEASURE_OTHERS_FRAC] = 0.04;
    measured.value[DL_MEASURE_STEAL_FRAC] = 0;
    return measured;
}

static char *print(const dl_accuracy *accuracy, const dl_sweep *sweep)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_accuracy_print(out, accuracy, sweep, true);
    fclose(out);
    return text;
}

/* Five runs 90 95 100 105 110: sd = sqrt(250 / 4) = 7.906; standard error of the median 1.2533 x
 * 7.906 / sqrt(5) = 4.431; p10 = 92, p90 = 108 (linear between order statistics): spread 108 / 92 -
 * 1 = 17.4 %. The prediction 98 +- 9.8, 88.2 .. 107.8, contains four runs and the median. */
static void scatter_and_coverage(void **state DL_UNUSED)
{
    const double runs[] = {90, 95, 100, 105, 110};
    dl_row rows[] = {row_of(98)};
    dl_measured measured[] = {measured_of(runs, 5, 100)};
    const dl_sweep sweep = {.rows = rows, .row_count = 1};
    const dl_accuracy accuracy = dl_accuracy_of(&sweep, measured);
    assert_int_equal(accuracy.points, 1);
    assert_near(accuracy.mean_frac, 0.02, 1e-12);
    assert_near(accuracy.noise_frac, 0.04431, 1e-3);
    assert_near(accuracy.spread_frac, 16.0 / 92, 1e-12);
    assert_int_equal(accuracy.runs, 5);
    assert_int_equal(accuracy.runs_inside, 4);
    assert_int_equal(accuracy.medians_inside, 1);
    assert_near(accuracy.half_width_frac, 0.1, 1e-12);
    assert_near(accuracy.repeats_half_width_frac, 1.96 * 0.07906, 1e-3);
    DL_AUTOFREE char *text = print(&accuracy, &sweep);
    assert_contains(text, "error over 1 measured point: mean 2.0 %, largest 2.0 %");
    assert_contains(text, "noise floor: 4.4 %");
    assert_contains(text, "+-10.0 %, holds 4 of 5 measured runs and 1 of 1 medians");
    assert_null(strstr(text, "varies too much"));
    free(measured[0].runs_per_s);
}

/* Three points with five, five and six measured runs. First: unsorted simulated runs 94 96 98 104
 * 106 108 112 against measured 90 95 100 105 110. Fractions at most 95: 1/7, 2/5; 100: 3/7, 3/5;
 * 105: 4/7, 4/5; 108: 6/7, 4/5: the largest difference is 2/5 - 1/7 = 9/35. Second: all simulated
 * runs are 10 times as large as the measured ones: distance 1. The median is in the middle. The
 * third has too few simulated runs. Expected for five and seven runs of one distribution: e = 35 /
 * 12, root 1.7078: 0.86873 / (1.7078 + 0.12 + 0.0644) = 0.4591. */
static void distributions_are_compared(void **state DL_UNUSED)
{
    const double runs[] = {90, 95, 100, 105, 110, 111};
    double rates[] = {104, 94, 112, 98, 96, 108, 106};
    double far[] = {900, 950, 1000, 1050, 1100, 1110, 1111};
    dl_row rows[] = {row_of(98), row_of(1000), row_of(98)};
    rows[0].rates = rows[2].rates = rates;
    rows[1].rates = far;
    rows[0].rate_count = rows[1].rate_count = 7;
    rows[2].rate_count = 4;
    dl_measured measured[] = {measured_of(runs, 5, 100), measured_of(runs, 5, 100),
                              measured_of(runs, 6, 100)};
    const dl_sweep sweep = {.rows = rows, .row_count = 3};
    const dl_accuracy accuracy = dl_accuracy_of(&sweep, measured);
    assert_int_equal(accuracy.compared, 2);
    assert_near(accuracy.distance_frac, (9.0 / 35 + 1) / 2, 1e-12);
    assert_near(accuracy.equals_distance_frac, 0.4591, 1e-3);
    assert_true(rates[0] == 104); /* the rates stay in draw order */
    char *text = print(&accuracy, &sweep);
    assert_contains(text, "Kolmogorov-Smirnov distance from the simulated ones 63 % (median over 2 "
                          "points); so few runs of one distribution have 46 %\n");
    free(text);
    for (int i = 0; i < 3; i++)
        free(measured[i].runs_per_s);
}

/* Steps of 1 2 3 4 s measured, 3 4 5 6 s simulated: at most 2 s take half of the measured ones and
 * none of the simulated ones. Steps of the second point are all shorter than simulated, of the third
 * equal; the others' are unknown on one side: the median of 50, 100 and 0 %. */
static void steps_are_compared(void **state DL_UNUSED)
{
    const double runs[] = {100};
    double low[] = {1, 2, 3, 4}, high[] = {3, 4, 5, 6}, higher[] = {5, 6, 7};
    double *simulated[] = {high, higher, low, NULL, low}, *seen[] = {low, low, low, low, NULL};
    const size_t counts[] = {4, 3, 4, 0, 4};
    dl_row rows[5];
    dl_measured measured[5];
    for (int i = 0; i < 5; i++) {
        rows[i] = row_of(100);
        measured[i] = measured_of(runs, 1, 100);
        rows[i].steps_s = simulated[i];
        rows[i].step_count = counts[i];
        measured[i].steps_s = seen[i];
        measured[i].step_count = 4;
    }
    const dl_sweep sweep = {.rows = rows, .row_count = 5};
    const dl_accuracy accuracy = dl_accuracy_of(&sweep, measured);
    assert_int_equal(accuracy.steps_compared, 3);
    char *text = print(&accuracy, &sweep);
    assert_contains(text, "distribution of steps: Kolmogorov-Smirnov distance from the simulated "
                          "ones 50 % (median over 3 points), at most 100 %\n");
    free(text);
    for (int i = 0; i < 5; i++)
        free(measured[i].runs_per_s);
}

/* The second of two settings spreads by more than 30 %: 60 .. 140, p10 = 68, p90 = 132. The verdict
 * names it. */
static void verdict_names_the_setting(void **state DL_UNUSED)
{
    const double calm[] = {99, 99.5, 100, 100.5, 101}, wild[] = {60, 80, 100, 120, 140};
    dl_row rows[] = {row_of(100), row_of(100)};
    rows[1].point.workers = 4;
    dl_measured measured[] = {measured_of(calm, 5, 100), measured_of(wild, 5, 100)};
    const dl_sweep sweep = {.rows = rows, .row_count = 2};
    const dl_accuracy accuracy = dl_accuracy_of(&sweep, measured);
    assert_near(accuracy.spread_frac, 64.0 / 68, 1e-12);
    assert_int_equal(accuracy.spread_row, 1);
    DL_AUTOFREE char *text = print(&accuracy, &sweep);
    assert_null(strstr(text, "disturbed"));
    assert_contains(text,
                    "this machine varies too much to judge the predictions: repeated runs of one "
                    "setting differ by up to 94 % (p90 over p10; ");
    assert_contains(text, "workers 4");
    free(measured[0].runs_per_s);
    free(measured[1].runs_per_s);
}

/* Others used 4 % of the processors during one setting and 10 % during the other: 7 % on average is
 * reported. A table without these columns is not reported as disturbed. */
static void disturbance_is_reported(void **state DL_UNUSED)
{
    const double runs[] = {98, 99, 100, 101, 102};
    dl_row rows[] = {row_of(100), row_of(100)};
    dl_measured measured[] = {measured_of(runs, 5, 100), measured_of(runs, 5, 100)};
    measured[1].value[DL_MEASURE_OTHERS_FRAC] = 0.10;
    const dl_sweep sweep = {.rows = rows, .row_count = 2};
    dl_accuracy accuracy = dl_accuracy_of(&sweep, measured);
    char *text = print(&accuracy, &sweep);
    assert_contains(text, "other programs used 7 % of the processors' time, and the host took 0 %");
    free(text);
    for (int i = 0; i < 2; i++)
        measured[i].value[DL_MEASURE_STEAL_FRAC] = (double)NAN; /* no such column */
    accuracy = dl_accuracy_of(&sweep, measured);
    text = print(&accuracy, &sweep);
    assert_contains(text, "meanwhile other programs used 7 % of the processors' time; measure");
    free(text);
    for (int i = 0; i < 2; i++) {
        measured[i].value[DL_MEASURE_STEAL_FRAC] = 0.2;
        measured[i].value[DL_MEASURE_OTHERS_FRAC] = (double)NAN;
    }
    accuracy = dl_accuracy_of(&sweep, measured);
    text = print(&accuracy, &sweep);
    assert_contains(text, "meanwhile the host took 20 % of the processors' time; measure");
    free(text);
    for (int i = 0; i < 2; i++) {
        measured[i].value[DL_MEASURE_STEAL_FRAC] = (double)NAN;
    }
    accuracy = dl_accuracy_of(&sweep, measured);
    text = print(&accuracy, &sweep);
    assert_null(strstr(text, "disturbed"));
    free(text);
    free(measured[0].runs_per_s);
    free(measured[1].runs_per_s);
}

/* Single runs are reported as disturbed, too. */
static void disturbance_of_single_runs_is_reported(void **state DL_UNUSED)
{
    const double runs[] = {80};
    dl_row rows[] = {row_of(100)};
    dl_measured measured[] = {measured_of(runs, 1, 80)};
    measured[0].value[DL_MEASURE_OTHERS_FRAC] = 0.3;
    const dl_sweep sweep = {.rows = rows, .row_count = 1};
    const dl_accuracy accuracy = dl_accuracy_of(&sweep, measured);
    DL_AUTOFREE char *text = print(&accuracy, &sweep);
    assert_contains(text, "other programs used 30 % of the processors' time");
    free(measured[0].runs_per_s);
}

/* Published points have one run: errors are reported, scatter is not. */
static void single_runs_have_errors_only(void **state DL_UNUSED)
{
    const double runs[] = {80};
    dl_row rows[] = {row_of(100), row_of(50)};
    dl_measured measured[] = {measured_of(runs, 1, 80), {.runs = 0}};
    const dl_sweep sweep = {.rows = rows, .row_count = 2};
    const dl_accuracy accuracy = dl_accuracy_of(&sweep, measured);
    assert_int_equal(accuracy.points, 1);
    assert_int_equal(accuracy.repeated, 0);
    DL_AUTOFREE char *text = print(&accuracy, &sweep);
    assert_string_equal(text, "error over 1 measured point: mean 25.0 %, largest 25.0 %\n");
    free(measured[0].runs_per_s);
}

/* Without an interval (one replicate) coverage is not reported. */
static void no_interval_no_coverage(void **state DL_UNUSED)
{
    const double runs[] = {90, 95, 100, 105, 110};
    dl_row rows[] = {row_of(100)};
    rows[0].low_per_s = rows[0].high_per_s = (double)NAN;
    dl_measured measured[] = {measured_of(runs, 5, 100)};
    const dl_sweep sweep = {.rows = rows, .row_count = 1};
    const dl_accuracy accuracy = dl_accuracy_of(&sweep, measured);
    assert_int_equal(accuracy.intervals, 0);
    DL_AUTOFREE char *text = print(&accuracy, &sweep);
    assert_contains(text, "noise floor");
    assert_null(strstr(text, "interval"));
    free(measured[0].runs_per_s);
}

/* One unseen row is too few, two are a prediction: errors -30 % and +10 % give 20 % on average. */
static void verdicts_count_unseen_rows(void **state DL_UNUSED)
{
    dl_errors errors = {0}, all = {0};
    const double none = (double)NAN;
    assert_int_equal(dl_errors_verdict(&errors), DL_VERDICT_NO_MEASUREMENT);
    assert_true(isnan(dl_error_mean(&errors.use[DL_USE_UNSEEN])));
    dl_errors_add(&errors, DL_USE_ERROR, 1, none, none);
    dl_errors_add(&errors, DL_USE_TRACED, 1, 0.02, none); /* the costs are from this row */
    assert_int_equal(dl_errors_verdict(&errors), DL_VERDICT_NO_MEASUREMENT);
    dl_errors_add(&errors, DL_USE_FITTED, 3, 0.01, 0.4);
    assert_int_equal(dl_errors_verdict(&errors), DL_VERDICT_REPRODUCED);
    dl_errors_add(&errors, DL_USE_UNSEEN, 1, 0.04, none);
    assert_int_equal(dl_errors_verdict(&errors), DL_VERDICT_TOO_FEW_ROWS);
    dl_errors_add(&errors, DL_USE_UNSEEN, 1, -0.06, none);
    assert_int_equal(dl_errors_verdict(&errors), DL_VERDICT_PREDICTED);
    assert_near(dl_error_mean(&errors.use[DL_USE_UNSEEN]), 0.05, 1e-12);
    assert_true(dl_errors_within_bar(&errors));
    dl_errors_merge(&all, &errors);
    dl_errors_add(&all, DL_USE_UNSEEN, 1, -0.13, none);
    assert_false(dl_errors_within_bar(&all));
    assert_near(all.use[DL_USE_UNSEEN].max_frac, 0.13, 1e-12);
    assert_int_equal(all.use[DL_USE_FITTED].rows, 3);
    assert_near(dl_error_mean(&all.left_out), 0.4, 1e-12);
    dl_errors only = {0};
    dl_errors_add(&only, DL_USE_CONTRADICTION, 1, 0.3, none);
    assert_int_equal(dl_errors_verdict(&only), DL_VERDICT_TOO_FEW_ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scatter_and_coverage),
        cmocka_unit_test(distributions_are_compared),
        cmocka_unit_test(steps_are_compared),
        cmocka_unit_test(verdict_names_the_setting),
        cmocka_unit_test(disturbance_is_reported),
        cmocka_unit_test(disturbance_of_single_runs_is_reported),
        cmocka_unit_test(single_runs_have_errors_only),
        cmocka_unit_test(no_interval_no_coverage),
        cmocka_unit_test(verdicts_count_unseen_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
