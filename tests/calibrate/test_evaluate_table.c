/* Compares the simpler models with their closed forms; tests placements in tables, and left-out
 * rows of large tables by one step against complete fits. */
#include "calibrate/evaluate/evaluate.h"

#include <math.h>
#include <stdio.h>

#include "tests/check.h"
#include "tests/gpu_fixture.h"

#define COSTS                                                             \
    "[costs]\nschema = 1\nparameter_bytes = 4000000\n"                    \
    "[op network.forward]\nfixed_ns = 1000000\nper_sample_ns = 100000\n"  \
    "[op network.backward]\nfixed_ns = 2000000\nper_sample_ns = 200000\n" \
    "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n[overlap]\nslowdown = 1\n"
#define NETWORK "[network]\nbytes_per_s = %g\nlatency_ns = 20000\n"

static void write_scenario(double bytes_per_s)
{
    char costs[1024];
    snprintf(costs, sizeof costs, COSTS NETWORK, bytes_per_s);
    fixture_write("judge_costs.ini", costs);
    fixture_write("judge_gpus.ini", FIXTURE_GPUS);
    fixture_write("judge.ini",
                  "[machine]\nfile = judge_gpus.ini\nworkers = 1\n[workload]\n"
                  "costs = judge_costs.ini\nbatch_per_worker = 4\n[sync]\nmode = allreduce\n"
                  "[exchange]\nalgorithm = ring\noverlap = yes\nbucket_bytes = 1000000\n");
}

/* Writes a table of the scenario's own steps, by placement; every seventh row deviates by
 * `noise`. */
static void make_table(const char *path, const char *const *placements, int count, double noise)
{
    DL_SCOPED(dl_scenario) scenario = {0};
    dl_error err = {0};
    DL_SCOPED(dl_table_rows) rows = {0};
    DL_SCOPED(dl_costs) costs = {0};
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "placement,batch,step_s\n");
    for (int i = 0; i < count; i++) {
        int workers = 0;
        for (const char *c = placements[i]; *c != '\0'; c++)
            workers += *c - '0';
        for (int batch = 4; batch <= 64; batch *= 2)
            fprintf(out, "%s,%d,1\n", placements[i], batch * workers);
    }
    fclose(out);
    if (dl_scenario_read(&scenario, "judge.ini", &err) != DL_OK ||
        dl_costs_read(&costs, "judge_costs.ini", &err) != DL_OK ||
        dl_table_rows_read(&rows, path, NULL, &scenario, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "placement,batch,step_s\n");
    for (size_t i = 0; i < rows.count; i++) {
        const dl_run_config config = {
            .scenario = &scenario, .costs = &costs, .point = &rows.rows[i].point};
        DL_SCOPED(dl_run_result) result = {0};
        if (dl_run(&config, &result, &err) != DL_OK) fail_msg("%s", err.text);
        const double off = i % 7 == 3 ? 1 + noise : 1;
        fprintf(out, "%s,%lld,%.9f\n", placements[i / 5], (long long)rows.rows[i].batch,
                off * result.step_p50_s);
    }
    fclose(out);
}

static const char *const fitted[] = {"1", "2", "4", "11", "22", "33", "44"};
static const char *const others[] = {"12", "31", "24", "43"};
#define KEYS "[op network.backward] per_sample_ns, network.bytes_per_s"

static void fit(dl_table_fit *fit, dl_table_fit_config *config)
{
    static const dl_table_part_config part = {
        .scenario_path = "judge.ini", .table_path = "judge_fitted.csv", .names = KEYS};
    *config = (dl_table_fit_config){.parts = &part, .part_count = 1, .near = true, .threads = 2};
    *fit = (dl_table_fit){0};
    dl_error err = {0};
    if (dl_table_fit_run(fit, config, &err) != DL_OK) fail_msg("%s", err.text);
}

/* Without noise, costs are recovered and other placements are predicted; the simpler models are
 * worse: exchange takes as long as computation. */
static void other_placements_are_predicted(void **state DL_UNUSED)
{
    write_scenario(3e8);
    make_table("judge_fitted.csv", fitted, 7, 0);
    make_table("judge_others.csv", others, 4, 0);
    write_scenario(9e8); /* start of the search */
    DL_SCOPED(dl_table_fit) f;
    dl_table_fit_config config;
    fit(&f, &config);
    assert_near(f.estimates[0].value, 2e5, 1e-3);
    assert_near(f.estimates[1].value, 3e8, 1e-3);
    dl_table_evaluation j = {0};
    dl_error err = {0};
    assert_int_equal(dl_table_evaluate(&j, &f, &config, 0, "judge_others.csv", &err), DL_OK);
    for (int m = 0; m < DL_TABLE_METHODS; m++)
        assert_int_equal(j.errors[m].rows, 20);
    assert_int_equal(j.fitted_rows, 35);
    assert_true(j.errors[DL_TABLE_SIMULATOR].max_frac < 2e-3);
    for (int m = 1; m < DL_TABLE_METHODS; m++) {
        assert_true(j.errors[m].mean_frac > 5 * j.errors[DL_TABLE_SIMULATOR].mean_frac);
        assert_true(j.errors[m].max_frac >= j.errors[m].mean_frac);
    }
    dl_table_evaluation_free(&j);
    assert_int_equal(dl_table_evaluate(&j, &f, &config, 0, "judge_none.csv", &err), DL_ERR_IO);
    dl_table_evaluation_free(&j);
}

/* A scenario that sweeps placements is accepted as one scenario for each; other lists are
 * rejected. */
static void placements_of_the_scenario_may_be_a_list(void **state DL_UNUSED)
{
    const char *rest = "[workload]\ncosts = judge_costs.ini\nbatch_per_worker = 4\n"
                       "[sync]\nmode = allreduce\n";
    char text[512];
    dl_scenario scenario = {0};
    dl_error err = {0};
    write_scenario(3e8);
    snprintf(text, sizeof text, "[machine]\nfile = judge_gpus.ini\nplacement = 22, 4\n%s", rest);
    fixture_write("judge_list.ini", text);
    assert_int_equal(dl_table_scenario_read(&scenario, NULL, "judge_list.ini", NULL, &err), DL_OK);
    assert_int_equal(scenario.point_count, 1);
    assert_int_equal(scenario.points[0].workers, 4);
    dl_scenario_free(&scenario);
    scenario = (dl_scenario){0};
    snprintf(text, sizeof text, "[machine]\nfile = judge_gpus.ini\nworkers = 2\nahead = 0, 1\n%s",
             rest);
    fixture_write("judge_list.ini", text);
    assert_int_not_equal(dl_table_scenario_read(&scenario, NULL, "judge_list.ini", NULL, &err),
                         DL_OK);
    assert_int_equal(dl_table_scenario_read(&scenario, NULL, "judge_none.ini", NULL, &err),
                     DL_ERR_IO);
}

/* Five rows of 35 deviate by 6 %. One step without a row agrees with a complete fit without it. */
static void rows_are_left_out_by_one_step(void **state DL_UNUSED)
{
    write_scenario(3e8);
    make_table("judge_fitted.csv", fitted, 7, 0.06);
    DL_SCOPED(dl_table_fit) f;
    dl_table_fit_config config;
    fit(&f, &config);
    assert_int_equal(f.quality.left_out_count, 35);
    for (size_t i = 0; i < 35; i++) {
        const dl_table_residual *r = &f.parts->residuals[i];
        /* Left-out errors move away from the fit, and only slightly. */
        assert_true(fabs(r->left_out_frac) >= fabs(r->error_frac) - 1e-4);
        assert_near(r->left_out_frac + 1, r->error_frac + 1, 0.02);
        assert_true(i % 7 != 3 || fabs(r->left_out_frac) > 0.04);
    }
}

static void linear_speedup_is_between_the_rows_of_one(void **state DL_UNUSED)
{
    const dl_table_shape rows[] = {
        {1, 1, 10, 1}, {2, 1, 15, 9}, {1, 1, 20, 3}, {1, 1, 40, 4}, {1, 1, 20, 3}};
    assert_near(dl_table_linear_step_s(rows, 5, 10), 1, 1e-12);
    assert_near(dl_table_linear_step_s(rows, 5, 15), 2, 1e-12);
    assert_near(dl_table_linear_step_s(rows, 5, 30), 3.5, 1e-12);
    assert_near(dl_table_linear_step_s(rows, 5, 60), 5, 1e-12);
    assert_near(dl_table_linear_step_s(rows, 5, 5), 0, 1e-12);
    assert_true(isnan(dl_table_linear_step_s(rows, 2, 10)));
}

/* 2 (n - 1) / n x bytes over the NIC's 1 GB/s, or over 10 GB/s inside a node. */
static void bytes_take_the_slowest_way(void **state DL_UNUSED)
{
    write_scenario(3e8);
    fixture_write("judge_rows.csv", "placement,batch,step_s\n1,4,1\n4,16,1\n22,16,1\n121,16,1\n");
    DL_SCOPED(dl_scenario) scenario = {0};
    DL_SCOPED(dl_table_rows) rows = {0};
    dl_error err = {0};
    assert_int_equal(dl_scenario_read(&scenario, "judge.ini", &err), DL_OK);
    /* The machine has two nodes. */
    assert_int_equal(dl_table_rows_read(&rows, "judge_rows.csv", NULL, &scenario, &err),
                     DL_ERR_RANGE);
    assert_int_equal(err.line, 5);
    fixture_write("judge_rows.csv", "placement,batch,step_s\n1,4,1\n4,16,1\n22,16,1\n");
    assert_int_equal(dl_table_rows_read(&rows, "judge_rows.csv", NULL, &scenario, &err), DL_OK);
    assert_near(dl_table_bytes_s(&rows.rows[0], &scenario, 4e6), 0, 1e-12);
    assert_near(dl_table_bytes_s(&rows.rows[1], &scenario, 4e6), 1.5 * 4e6 / 10e9, 1e-9);
    assert_near(dl_table_bytes_s(&rows.rows[2], &scenario, 4e6), 1.5 * 4e6 / 1e9, 1e-9);
    const dl_table_shape shape = dl_table_shape_of(&rows.rows[2], &scenario);
    assert_true(shape.workers == 4 && shape.nodes == 2 && shape.batch == 4 && shape.step_s == 1);
}

/* The form is recovered from its values for 3 x 24 rows. */
static void pollux_form_is_recovered(void **state DL_UNUSED)
{
    const dl_table_pollux made = {.value = {0.02, 0.001, 0.01, 0.005, 0.1, 0.004, 2.5}};
    dl_table_shape rows[72];
    size_t count = 0;
    for (int b = 32; b <= 1024; b *= 2) {
        for (int n = 1; n <= 12; n++)
            rows[count++] = (dl_table_shape){n, n > 4 ? 3 : 1, b, 0};
    }
    for (size_t i = 0; i < count; i++)
        rows[i].step_s = dl_table_pollux_step_s(&made, &rows[i]);
    /* One GPU has no exchange; without overlap (c = 1) the parts add up. */
    assert_near(rows[0].step_s, 0.02 + 0.001 * 32, 1e-12);
    const dl_table_pollux sum = {.value = {0.02, 0.001, 0.01, 0.005, 0.1, 0.004, 1}};
    assert_near(dl_table_pollux_step_s(&sum, &rows[4]), 0.052 + 0.1 + 3 * 0.004, 1e-12);
    dl_table_pollux form;
    dl_table_pollux_fit(&form, rows, count);
    assert_true(form.rms < 1e-5);
    for (size_t j = 0; j < DL_TABLE_POLLUX_COSTS; j++)
        assert_near(form.value[j], made.value[j], 0.01);
    dl_table_pollux_fit(&form, rows, 6);
    assert_true(isnan(form.rms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_placements_are_predicted),
        cmocka_unit_test(placements_of_the_scenario_may_be_a_list),
        cmocka_unit_test(rows_are_left_out_by_one_step),
        cmocka_unit_test(linear_speedup_is_between_the_rows_of_one),
        cmocka_unit_test(bytes_take_the_slowest_way),
        cmocka_unit_test(pollux_form_is_recovered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
