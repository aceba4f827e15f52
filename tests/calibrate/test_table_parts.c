/* A fit of several scenarios with separate tables that share a cost. The steps of the tables are
 * computed here: the GPUs of tests/gpu_fixture.h take `fixed` + 50 us per sample, the issuing
 * thread 0.3 ms + `per_worker` per GPU, and the slower of the two determines the step. With one GPU
 * that is the GPU, with 4 and 8 the thread. */
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "calibrate/table/table.h"
#include "common/file.h"
#include "tests/check.h"
#include "tests/gpu_fixture.h"

#define FIXED "op network.forward.fixed_ns"
#define SHARED "dispatch.per_worker_ns"

static void write_scenario(const char *name)
{
    DL_AUTOFREE char *costs = dl_format("parts_%s_costs.ini", name),
                     *path = dl_format("parts_%s.ini", name);
    DL_AUTOFREE char *text =
        dl_format("[scenario]\nsteps = 100\n[machine]\nfile = parts_gpus.ini\n"
                  "workers = 1, 4, 8\ndispatch = single\n[workload]\ncosts = %s\n"
                  "batch = 16, 64\n[sync]\nmode = none\n",
                  costs);
    fixture_write("parts_gpus.ini", FIXTURE_GPUS);
    fixture_write(costs, "[costs]\nschema = 1\nparameter_bytes = 80000\n[op network.forward]\n"
                         "fixed_ns = 3e6\nper_sample_ns = 50000\n[dispatch]\nserial_ns = 300000\n"
                         "per_worker_ns = 500000\n");
    fixture_write(path, text);
}

/* Writes six rows each of 1, 4 and 8 GPUs, which deviate by +`off`, -`off`, +`off` / 2, ... in
 * turn. */
static void write_table(const char *path, double fixed, double per_worker, double off)
{
    static const int gpus[] = {1, 4, 8};
    static const double signs[] = {1, -1, 0.5, -0.5, 0.2, -0.2};
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "workers,batch,step_s,source\n");
    for (int i = 0; i < 18; i++) {
        const int n = gpus[i / 6], batch = 8 * (1 + i % 6);
        const double gpu_s = fixed + 50e-6 * batch / n, thread_s = 0.3e-3 + per_worker * n;
        fprintf(out, "%d,%d,%.9f,made\n", n, batch,
                fmax(gpu_s, thread_s) * (1 + off * signs[i % 6]));
    }
    fclose(out);
}

static const dl_table_part_config both[] = {
    {.scenario_path = "parts_a.ini", .table_path = "parts_a.csv", .names = FIXED},
    {.scenario_path = "parts_b.ini", .table_path = "parts_b.csv", .names = FIXED},
};

static void fit_both(dl_table_fit *fit)
{
    const dl_table_fit_config config = {
        .parts = both, .part_count = 2, .share = SHARED, .near = true, .threads = 1};
    dl_error err = {0};
    *fit = (dl_table_fit){0};
    if (dl_table_fit_run(fit, &config, &err) != DL_OK) fail_msg("%s", err.text);
}

static double estimate(const dl_table_fit *fit, size_t j)
{
    assert_true(fit->estimates[j].determined);
    return fit->estimates[j].value;
}

static void each_scenario_has_its_own_and_the_shared_costs(void **state DL_UNUSED)
{
    write_scenario("a");
    write_scenario("b");
    write_table("parts_a.csv", 2e-3, 0.7e-3, 0);
    write_table("parts_b.csv", 1e-3, 0.7e-3, 0);
    DL_SCOPED(dl_table_fit) fit;
    fit_both(&fit);
    assert_int_equal(fit.unknown.count, 3);
    assert_true(fit.unknown.items[0].shared);
    assert_string_equal(fit.unknown.items[0].name, "[dispatch] per_worker_ns");
    assert_near(estimate(&fit, 0) / 0.7e6, 1, 1e-3);
    assert_near(estimate(&fit, 1) / 2e6, 1, 1e-3);
    assert_near(estimate(&fit, 2) / 1e6, 1, 1e-3);
    for (size_t p = 0; p < 2; p++) {
        const dl_table_part *part = &fit.parts[p];
        assert_true(part->costs.dispatch.per_worker_ns.value == estimate(&fit, 0));
        assert_true(part->costs.ops[0].fixed_ns.value == estimate(&fit, 1 + p));
        /* 18 rows of the part, 36 of both. */
        assert_int_equal(part->costs.ops[0].fixed_ns.count, 18);
        assert_int_equal(part->costs.dispatch.per_worker_ns.count, 36);
        assert_true(part->quality.rms_frac < 1e-3);
        assert_int_equal(part->quality.left_out_count, 18);
    }
    assert_int_equal(fit.quality.used, 36);
    assert_int_equal(fit.quality.left_out_count, 36);
    /* A cost of the first scenario alone moves a third of its rows, by fixed / step: with one GPU 2
     * ms of 2.4, 2.8, ... 4.4 ms. */
    double squares = 0;
    for (int i = 1; i <= 6; i++)
        squares += pow(2 / (2 + 0.4 * i), 2);
    assert_near(fit.estimates[1].effect, sqrt(squares / 18), 0.01);
}

/* Table b has a per_worker of 0.73 ms and a scatter of 6 %, table a 0.7 ms and 0.2 %. With one
 * sigma the shared cost would lie in the middle; it follows a, and a row of a that deviates by 5 %
 * is an outlier, though this is small compared with the scatter of b. */
static void the_table_that_scatters_less_counts_more(void **state DL_UNUSED)
{
    write_scenario("a");
    write_scenario("b");
    write_table("parts_a.csv", 2e-3, 0.7e-3, 0.002);
    write_table("parts_b.csv", 1e-3, 0.73e-3, 0.06);
    char *text = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    assert_int_equal(dl_file_read("parts_a.csv", &text, &bytes, &err), DL_OK);
    char *with = dl_format("%s8,112,%.9f,odd\n", text, 1.05 * 5.9e-3);
    fixture_write("parts_a.csv", with);
    free(with);
    free(text);
    DL_SCOPED(dl_table_fit) fit;
    fit_both(&fit);
    assert_near(estimate(&fit, 0) / 0.7e6, 1, 0.002);
    assert_true(fit.parts[0].quality.sigma_frac < 0.005);
    assert_true(fit.parts[1].quality.sigma_frac > 0.02);
    assert_true(isnan(fit.quality.sigma_frac));
    assert_true(fit.parts[0].residuals[18].unexplained);
    assert_true(fit.parts[0].residuals[18].weight == 0);
    /* A weight is relative to the row's own table, in which no row deviates much. */
    for (size_t i = 0; i < 18; i++) {
        assert_true(fit.parts[1].residuals[i].weight > 0.3);
        assert_true(fit.parts[1].residuals[i].weight <= 1 + 1e-12);
    }
}

static bool has_note(const dl_notes *notes, const char *part)
{
    for (size_t i = 0; i < notes->count; i++) {
        if (strstr(notes->lines[i], part) != NULL) return true;
    }
    return false;
}

static void reports_say_whose_costs_and_rows_they_are(void **state DL_UNUSED)
{
    write_scenario("a");
    write_scenario("b");
    write_table("parts_a.csv", 2e-3, 0.7e-3, 0.002);
    write_table("parts_b.csv", 1e-3, 0.7e-3, 0.002);
    char *text = NULL;
    size_t bytes = 0;
    dl_error err = {0};
    assert_int_equal(dl_file_read("parts_b.csv", &text, &bytes, &err), DL_OK);
    char *with = dl_format("%s8,112,error,broke\n", text);
    fixture_write("parts_b.csv", with);
    free(with);
    free(text);
    DL_SCOPED(dl_table_fit) fit;
    fit_both(&fit);
    assert_true(
        has_note(&fit.notes, "parts_b.ini: line 20 (workers 8, batch 112, none): an error"));
    assert_true(has_note(&fit.parts[1].notes, "line 20 (workers 8"));
    assert_false(has_note(&fit.parts[0].notes, "line 20"));
    FILE *out = open_memstream(&text, &bytes);
    dl_table_report_print(&fit, out);
    fclose(out);
    assert_contains(text, ": 3 costs from 36 rows of 2 tables\n\nshared costs; error");
    assert_contains(text, "\ncosts of parts_b.ini\n");
    assert_contains(text, "\nrows of parts_b.ini; off: fitted over measured - 1; out: ");
    assert_contains(text, "\nall rows: root mean square 0.1");
    free(text);
    assert_int_equal(dl_table_report_json_write(&fit, "parts.json", &err), DL_OK);
    assert_int_equal(dl_file_read("parts.json", &text, &bytes, &err), DL_OK);
    assert_contains(text, "\"costs\":[{\"name\":\"[dispatch] per_worker_ns\"");
    assert_contains(text, "\"tables\":[{\"table\":\"parts_a.csv\",\"scenario\":\"parts_a.ini\","
                          "\"costs\":[{\"name\":\"[op network.forward] fixed_ns\"");
    assert_contains(text, "\"leave_one_out\":{\"rows\":36");
    free(text);
    assert_int_equal(dl_table_fit_write(&fit, 1, "parts_out.ini", &err), DL_OK);
    assert_int_equal(dl_file_read("parts_out.ini", &text, &bytes, &err), DL_OK);
    assert_contains(text, ";   18 rows of parts_b.csv, lines 2 to 20, scenario parts_b.ini\n"
                          ";   and, with it and parts_a.csv together, [dispatch] per_worker_ns\n");
    free(text);
}

static void fails(const char *share, const char *own, const char *part)
{
    dl_table_part_config parts[] = {both[0], both[1]};
    parts[1].names = own;
    const dl_table_fit_config config = {
        .parts = parts, .part_count = 2, .share = share, .near = true, .threads = 1};
    DL_SCOPED(dl_table_fit) fit = {0};
    dl_error err = {0};
    assert_int_not_equal(dl_table_fit_run(&fit, &config, &err), DL_OK);
    assert_contains(err.text, part);
}

static void bad_costs_are_refused(void **state DL_UNUSED)
{
    write_scenario("a");
    write_scenario("b");
    write_table("parts_a.csv", 2e-3, 0.7e-3, 0);
    fixture_write("parts_b.csv", "workers,batch,step_s\n1,16,0.002\n");
    fails("dispatch.per_workers_ns", FIXED,
          "--share: no cost 'dispatch.per_workers_ns'; did you mean 'dispatch.per_worker_ns'?");
    fails(SHARED, SHARED, "'dispatch.per_worker_ns' is given twice");
    /* Nineteen rows suffice for four costs, but not the one row of table b for its two. */
    fails(SHARED, FIXED ", op network.forward.per_sample_ns", "1 rows cannot determine 2 costs");
}

int main(void)
{
    gsl_set_error_handler_off();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_scenario_has_its_own_and_the_shared_costs),
        cmocka_unit_test(the_table_that_scatters_less_counts_more),
        cmocka_unit_test(reports_say_whose_costs_and_rows_they_are),
        cmocka_unit_test(bad_costs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
