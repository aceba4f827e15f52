#include "tests/sim_fixture.h"

#include <stdlib.h>

#include "common/csv.h"
#include "sim/report/report.h"

#define RESULTS "test_report_results.csv"
#define HISTOGRAM "test_report_histogram.csv"

typedef struct sample {
    dl_costs costs;
    dl_scenario scenario;
    dl_variant variant;
    dl_study study;
    dl_measured *measured;
    dl_sweep sweep;
} sample;

/* 2 workers on 2 cores: average with interval 2, and async; the measured throughput of the first is
 * 10 % above the prediction. */
static void make_sample(sample *made)
{
    *made = (sample){.costs = fixture_costs(FIXTURE_COSTS),
                     .scenario = fixture_scenario("[scenario]\nname = a, \"b\"\nsteps = 20\n"
                                                  "per_worker = yes\n[machine]\n"
                                                  "cores = 2\nworkers = 2\n[workload]\ncosts = c\n"
                                                  "batch = 2\n[sync]\nmode = average, async\n"
                                                  "interval = 2\n")};
    made->study = fixture_study(&made->variant, &made->scenario, &made->costs);
    assert_int_equal(dl_measured_read(&made->measured, &made->study, NULL), DL_OK);
    const dl_sweep_config config = {.threads = 1};
    assert_int_equal(dl_sweep_run(&made->sweep, &made->study, &config, NULL), DL_OK);
    double per_s = made->sweep.rows[0].mean.throughput_per_s;
    made->measured[0].runs = 1;
    made->measured[0].value[DL_MEASURE_PER_S] = 1.1 * per_s;
    made->measured[0].value[DL_MEASURE_PER_S_ERR] = 0.1 * per_s;
}

static void free_sample(sample *s)
{
    dl_measured_free(s->measured, s->sweep.row_count);
    dl_sweep_free(&s->sweep);
    dl_scenario_free(&s->scenario);
    dl_costs_free(&s->costs);
}

static dl_csv read_back(const char *path)
{
    dl_csv csv = {0};
    dl_error err = {0};
    if (dl_csv_read(&csv, path, &err)) fail_msg("%d: %s", err.line, err.text);
    remove(path);
    return csv;
}

static const char *text_of(const dl_csv *csv, size_t row, const char *name)
{
    int column = dl_csv_column(csv, name);
    if (column < 0) fail_msg("no column %s", name);
    return dl_csv_cell(csv, row, (size_t)column);
}

static double number_of(const dl_csv *csv, size_t row, const char *name)
{
    double value = 0;
    text_of(csv, row, name);
    assert_int_equal(dl_csv_number(csv, row, (size_t)dl_csv_column(csv, name), &value, NULL),
                     DL_OK);
    return value;
}

/* average of 2 with interval 2: 1 100 000 + 32 200 / 2 ns per step (see test_sync). */
static void results_read_back(void **state DL_UNUSED)
{
    sample s;
    make_sample(&s);
    assert_int_equal(dl_report_results(RESULTS, &s.study, &s.sweep, s.measured, NULL, NULL), DL_OK);
    DL_SCOPED(dl_csv) csv = read_back(RESULTS);
    assert_int_equal(csv.rows, 2);
    assert_string_equal(text_of(&csv, 0, "sync"), "average");
    assert_string_equal(text_of(&csv, 0, "interval"), "2");
    assert_string_equal(text_of(&csv, 1, "interval"), "");
    assert_near(number_of(&csv, 0, "step_mean_s"), 1116100e-9, 1e-12);
    assert_near(number_of(&csv, 0, "measured_per_s") / number_of(&csv, 0, "throughput_per_s"), 1.1,
                1e-12);
    assert_near(number_of(&csv, 0, "measured_high_per_s"),
                1.2 * number_of(&csv, 0, "throughput_per_s"), 1e-12);
    assert_near(number_of(&csv, 0, "error_frac"), 1 / 1.1 - 1, 1e-12);
    assert_string_equal(text_of(&csv, 1, "error_frac"), "");
    assert_string_equal(text_of(&csv, 0, "staleness_mean"), "");
    assert_near(number_of(&csv, 0, "drift_steps_mean"), 0.5, 1e-12);
    assert_near(number_of(&csv, 1, "staleness_mean"), 39.0 / 40, 1e-12);
    assert_contains(text_of(&csv, 1, "staleness_mean_by_worker"), ";");
    assert_string_equal(text_of(&csv, 0, "staleness_mean_by_worker"), "");
    assert_contains(text_of(&csv, 0, "step_mean_s_by_worker"), ";");
    assert_string_equal(text_of(&csv, 0, "origin"), "assumed");
    assert_string_equal(text_of(&csv, 0, "busiest"), "core 0");
    double parts = 0;
    static const char *const names[] = {"compute_frac",   "dispatch_frac", "communication_frac",
                                        "averaging_frac", "waiting_frac",  "input_frac"};
    for (int i = 0; i < 6; i++)
        parts += number_of(&csv, 0, names[i]);
    assert_near(parts, 1, 1e-12);
    free_sample(&s);
}

static void the_histogram_holds_every_gradient(void **state DL_UNUSED)
{
    sample s;
    make_sample(&s);
    assert_int_equal(dl_report_histogram(HISTOGRAM, &s.study, &s.sweep, NULL), DL_OK);
    DL_SCOPED(dl_csv) csv = read_back(HISTOGRAM);
    assert_int_equal(csv.rows, 4); /* async only: 2 workers x staleness 0, 1 */
    double count = 0, frac = 0;
    for (size_t row = 0; row < 4; row++) {
        assert_string_equal(text_of(&csv, row, "sync"), "async");
        count += number_of(&csv, row, "count");
        frac += number_of(&csv, row, "frac");
    }
    assert_near(count, 40, 1e-12);
    assert_near(frac, 2, 1e-12);
    free_sample(&s);
}

static void the_table_tells_the_errors(void **state DL_UNUSED)
{
    sample s;
    make_sample(&s);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_report_table(out, &s.study, &s.sweep, s.measured, true);
    fclose(out);
    assert_contains(text, "measured/s");
    assert_contains(text, "-9.1");
    assert_contains(text, "error over 1 measured point: mean 9.1 %, largest 9.1 %");
    free(text);
    s.measured[0].runs = 0;
    s.measured[0].value[DL_MEASURE_PER_S] = (double)NAN;
    out = open_memstream(&text, &bytes);
    dl_report_table(out, &s.study, &s.sweep, s.measured, true);
    fclose(out);
    assert_null(strstr(text, "measured"));
    free(text);
    free_sample(&s);
}

static char *table_text(const dl_study *study, const dl_sweep *sweep, const dl_measured *measured)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_report_table(out, study, sweep, measured, true);
    fclose(out);
    return text;
}

/* Steps of 1.1 ms in slices of 1 s: the first of a core's 2 workers has done all its steps before
 * the other begins, and the latter does one more step: 1 of 21 steps. With 10 steps it is 1 of
 * 11. */
static void runs_that_are_too_short_are_noted(void **state DL_UNUSED)
{
    static const int steps[] = {20, 10};
    for (int i = 0; i < 2; i++) {
        DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
        DL_SCOPED(dl_scenario) scenario = fixture_scenario(
            "[scenario]\nsteps = %d\n[machine]\ncores = 1\nworkers = 1, 2\n[workload]\n"
            "costs = c\nbatch = 2\n",
            steps[i]);
        dl_variant variant;
        const dl_study study = fixture_study(&variant, &scenario, &costs);
        dl_measured *measured = NULL;
        DL_SCOPED(dl_sweep) sweep = {0};
        const dl_sweep_config config = {.threads = 1};
        assert_int_equal(dl_measured_read(&measured, &study, NULL), DL_OK);
        assert_int_equal(dl_sweep_run(&sweep, &study, &config, NULL), DL_OK);
        DL_AUTOFREE char *text = table_text(&study, &sweep, measured);
        assert_int_equal(strstr(text, "1 of 2 points ran too few steps") != NULL, i == 1);
        if (i == 1) assert_contains(text, "9 % of the run");
        dl_measured_free(measured, sweep.row_count);
    }
}

/* 2 samples take one worker 1.1 ms; the measurement is 2.2 ms. If the step of one worker agrees, or
 * a factor is given, nothing is suggested. */
static void a_wrong_step_of_one_worker_suggests_calibration(void **state DL_UNUSED)
{
    for (int i = 0; i < 3; i++) {
        DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
        DL_SCOPED(dl_scenario) scenario = fixture_scenario(
            "[scenario]\nsteps = 20\n[machine]\ncores = 2\nworkers = 1, 2\n[workload]\n"
            "costs = c\nbatch_per_worker = 2\n");
        dl_variant variant;
        const dl_study study = fixture_study(&variant, &scenario, &costs);
        if (i == 2) variant.calibrated.factor = 1;
        dl_measured *measured = NULL;
        DL_SCOPED(dl_sweep) sweep = {0};
        const dl_sweep_config config = {.threads = 1};
        assert_int_equal(dl_measured_read(&measured, &study, NULL), DL_OK);
        for (int p = 0; p < 2; p++) {
            const double step_s = i == 1 && p == 0 ? 1.1e-3 : 2.2e-3;
            measured[p].runs = 1;
            measured[p].value[DL_MEASURE_STEP_S] = step_s;
            measured[p].value[DL_MEASURE_PER_S] = (p + 1) * 2 / step_s;
        }
        assert_int_equal(dl_sweep_run(&sweep, &study, &config, NULL), DL_OK);
        DL_AUTOFREE char *text = table_text(&study, &sweep, measured);
        const char *said = "one worker alone misses by +100.0 % (batch 2): its step differs, not "
                           "the exchange; --calibrate 2.2ms@1x2 scales computing to it\n";
        assert_int_equal(strstr(text, said) != NULL, i == 0);
        assert_int_equal(strstr(text, "--calibrate") != NULL, i == 0);
        dl_measured_free(measured, sweep.row_count);
    }
}

/* A source without a result is shown but not compared. */
static void errors_of_the_source_are_shown(void **state DL_UNUSED)
{
    sample s;
    make_sample(&s);
    s.measured[1].failed_runs = 1;
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_report_table(out, &s.study, &s.sweep, s.measured, true);
    fclose(out);
    assert_contains(text, "    error       -");
    assert_contains(text, "error over 1 measured point");
    assert_int_equal(dl_report_results(RESULTS, &s.study, &s.sweep, s.measured, NULL, NULL), DL_OK);
    DL_SCOPED(dl_csv) csv = read_back(RESULTS);
    assert_string_equal(text_of(&csv, 1, "measured_per_s"), "error");
    assert_string_equal(text_of(&csv, 1, "error_frac"), "");
    free_sample(&s);
}

static void files_that_cannot_be_written_are_told(void **state DL_UNUSED)
{
    sample s;
    make_sample(&s);
    dl_error err = {0};
    assert_int_equal(
        dl_report_results("no/such/folder/r.csv", &s.study, &s.sweep, s.measured, NULL, &err),
        DL_ERR_IO);
    assert_int_equal(dl_report_results("/dev/full", &s.study, &s.sweep, s.measured, NULL, &err),
                     DL_ERR_IO);
    assert_int_equal(dl_report_histogram("/dev/full", &s.study, &s.sweep, &err), DL_ERR_IO);
    assert_int_equal(dl_report_histogram("no/such/folder/r.csv", &s.study, &s.sweep, &err),
                     DL_ERR_IO);
    free_sample(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_read_back),
        cmocka_unit_test(the_histogram_holds_every_gradient),
        cmocka_unit_test(the_table_tells_the_errors),
        cmocka_unit_test(runs_that_are_too_short_are_noted),
        cmocka_unit_test(a_wrong_step_of_one_worker_suggests_calibration),
        cmocka_unit_test(errors_of_the_source_are_shown),
        cmocka_unit_test(files_that_cannot_be_written_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
