#include "tests/gpu_fixture.h"

#include <stdlib.h>

#include "sim/report/measured.h"
#include "sim/report/report.h"

#define NODE "study_a.ini"
#define OTHER "study_b.ini"
#define COSTS "study_costs.ini"
#define TABLE "study_measured.csv"

static void write_files(void)
{
    fixture_write(NODE, FIXTURE_GPUS);
    fixture_write(OTHER, FIXTURE_GPUS "[network]\nbytes_per_s = 1GB/s\n");
    fixture_write(COSTS, FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH);
}

static void remove_files(void)
{
    remove(NODE);
    remove(OTHER);
    remove(COSTS);
}

static dl_status read_text(dl_study *study, const char *text, dl_error *err)
{
    write_files();
    dl_status status = dl_study_read_text(study, "s.ini", text, strlen(text), err);
    if (status == DL_OK) status = dl_study_read_costs(study, err);
    remove_files();
    return status;
}

static dl_study study_of(const char *text)
{
    dl_study study = {0};
    dl_error err = {0};
    if (read_text(&study, text, &err) != DL_OK) fail_msg("%d: %s", err.line, err.text);
    return study;
}

static const char *text_at(const dl_study *study, size_t row, size_t key)
{
    size_t point = 0;
    const dl_variant *variant = dl_study_variant(study, row, &point);
    return dl_study_text(study, variant, &variant->scenario.points[point], key);
}

/* Micro-batches of the costs' program are checked like those of the scenario: each of 4 GPUs that
 * divide the experts has its own, and pipedream updates after each. */
static void micro_batches_of_costs_are_checked(void **state DL_UNUSED)
{
    static const struct {
        const char *costs, *scenario, *error;
        int batch, count; /* count: micro-batches; 0: error */
        bool stages;
    } cases[] = {
        {"4\nexpert_ranks = 4\n", "layout = ep=4,dp=1\n", "sync.accumulate=1", 8, 0, false},
        {"4\nexpert_ranks = 4\n", "layout = ep=4,dp=1\n", NULL, 32, 4, false},
        {"4\n", "layout = pp=2,dp=1\n", NULL, 8, 4, true},
        {"4\nsharded = parameters\n", "workers = 2\n", NULL, 32, 4, true},
        {"4\n", "layout = pp=2,dp=1\n[pipeline]\nschedule = pipedream\n",
         "with pipedream, which updates after each batch, micro_batches must be 1: "
         "--micro-batches gives others",
         8, 0, true},
        {"5000\n", "layout = pp=2,dp=1\n", "are more than stages can have", 5000, 0, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error err = {0};
        DL_SCOPED(dl_study) study = {0};
        DL_AUTOFREE char *costs =
            dl_format("[costs]\nschema = 1\nparameter_bytes = 1000\naccumulate = %s"
                      "[op a.forward]\nfixed_ns = 0\nper_sample_ns = 1\n"
                      "[op b.forward]\nfixed_ns = 0\nper_sample_ns = 1\n"
                      "[op b.backward]\nfixed_ns = 0\nper_sample_ns = 1\n"
                      "[op a.backward]\nfixed_ns = 0\nper_sample_ns = 1\n"
                      "[op all.update]\nfixed_ns = 1\nper_sample_ns = 0\n"
                      "[layer a]\noutput_bytes_per_sample = 10\nparameter_bytes = 500\n%s"
                      "[layer b]\noutput_bytes_per_sample = 10\nparameter_bytes = 500\n",
                      cases[i].costs, cases[i].stages ? "" : "expert_parameter_bytes = 300\n");
        DL_AUTOFREE char *text = dl_format("[machine]\nfile = 8xh100\n%s[workload]\ncosts = " COSTS
                                           "\nbatch = %d\n[sync]\nmode = allreduce\n",
                                           cases[i].scenario, cases[i].batch);
        fixture_write(COSTS, costs);
        dl_status status = dl_study_read_text(&study, "s.ini", text, strlen(text), &err);
        if (status == DL_OK) status = dl_study_read_costs(&study, &err);
        remove(COSTS);
        if (cases[i].error != NULL) {
            assert_int_equal(status, DL_ERR_RANGE);
            assert_contains(err.text, cases[i].error);
        } else {
            if (status != DL_OK) fail_msg("%zu: %s", i, err.text);
            const dl_point *point = &study.variants[0].scenario.points[0];
            assert_int_equal(dl_point_split(point).micro_batches, cases[i].count);
        }
    }
}

/* 2 machines x 2 locations of the server x 2 numbers of workers; the last key of the file changes
 * fastest. */
static void lists_of_any_key_make_variants(void **state DL_UNUSED)
{
    dl_study s = study_of("[machine]\nfile = " NODE ", " OTHER "\nworkers = 2, 4\n[workload]\n"
                          "costs = " COSTS "\nbatch = 8\n[sync]\nmode = ps\nwhere = cpu, gpu:3\n");
    assert_int_equal(s.key_count, 2);
    assert_string_equal(s.keys[0].column, "machine");
    assert_string_equal(s.keys[1].column, "where");
    assert_int_equal(s.variant_count, 4);
    assert_int_equal(s.point_count, 8);
    static const char *const machines[] = {"study_a", "study_a", "study_b", "study_b"};
    for (size_t v = 0; v < 4; v++) {
        assert_string_equal(text_at(&s, 2 * v, 0), machines[v]);
        assert_string_equal(text_at(&s, 2 * v + 1, 1), v % 2 == 0 ? "cpu" : "gpu:3");
        assert_int_equal(s.variants[v].scenario.gpu->where,
                         v % 2 == 0 ? DL_WHERE_CPU : DL_WHERE_GPU);
        assert_true(s.variants[v].scenario.gpu->machine.network_bytes_per_s.known == (v >= 2));
    }
    dl_study_free(&s);
    dl_study_free(&s);
}

/* Averages support another location; plain computing does not, and is listed once. */
static void options_are_swept_for_modes_that_take_them(void **state DL_UNUSED)
{
    dl_study s = study_of("[machine]\nfile = " NODE "\nworkers = 4\n[workload]\ncosts = " COSTS
                          "\nbatch = 8\n[sync]\nmode = none, average\nwhere = cpu, allreduce\n");
    assert_int_equal(s.point_count, 3);
    assert_string_equal(text_at(&s, 0, 0), "");
    assert_string_equal(text_at(&s, 1, 0), "cpu");
    assert_string_equal(text_at(&s, 2, 0), "allreduce");
    dl_study_free(&s);
}

/* Names of modes that imply a key are variants after the other modes, each with the keys that apply
 * to it: resharding only for fsdp, the interval only for averages. */
static void words_for_modes_with_keys_make_variants(void **state DL_UNUSED)
{
    static const char *const modes[] = {"allreduce", "average", "diloco", "fsdp", "fsdp"};
    static const dl_sharded sharded[] = {DL_SHARDED_NONE, DL_SHARDED_NONE, DL_SHARDED_NONE,
                                         DL_SHARDED_PARAMETERS, DL_SHARDED_PARAMETERS};
    dl_study s = study_of("[machine]\nfile = " NODE "\nworkers = 4\n[workload]\ncosts = " COSTS
                          "\nbatch = 8\n[sync]\nmode = diloco, ddp, fsdp, localsgd\n"
                          "interval = 5\n[exchange]\nreshard_after_forward = yes, no\n");
    assert_int_equal(s.point_count, 5);
    for (size_t row = 0; row < 5; row++) {
        size_t point = 0;
        const dl_scenario *scenario = &dl_study_variant(&s, row, &point)->scenario;
        assert_string_equal(dl_point_mode(&scenario->points[point]), modes[row]);
        assert_int_equal(scenario->gpu->sharded, sharded[row]);
        assert_int_equal(scenario->outer != 0, row == 2);
        assert_string_equal(text_at(&s, row, 0), row < 3 ? "" : row == 3 ? "yes" : "no");
    }
    dl_study_free(&s);
    dl_error err = {0};
    assert_int_equal(read_text(&s,
                               "[machine]\nfile = " NODE "\nworkers = 4\n[workload]\n"
                               "costs = " COSTS "\nbatch = 8\n[sync]\nmode = ddp, fsdp\n"
                               "[exchange]\nsharded = parameters\n",
                               &err),
                     DL_ERR_DATA);
    assert_string_equal(err.text, "[exchange] sharded = parameters: fsdp in the list of modes is "
                                  "allreduce with sharded = parameters: give only one");
}

/* compress none has no fraction: 1 + 2 variants; kind lognormal has three values: 3 x (1 + 2) in
 * total. */
static void keys_are_swept_where_they_mean_something(void **state DL_UNUSED)
{
    dl_study s = study_of("[machine]\nfile = " NODE "\nworkers = 4\n[workload]\ncosts = " COSTS
                          "\nbatch = 8\n[sync]\nmode = allreduce\n[exchange]\n"
                          "compress = none, topk\ntopk_frac = 0.01, 0.1\n[noise]\n"
                          "kind = none, lognormal\nsigma = 0.1, 0.2\n");
    assert_int_equal(s.variant_count, 9);
    assert_string_equal(s.keys[2].column, "noise");
    assert_string_equal(text_at(&s, 0, 1), "");
    assert_string_equal(text_at(&s, 8, 1), "0.1");
    assert_string_equal(text_at(&s, 8, 3), "0.2");
    assert_near(s.variants[8].scenario.sigma, 0.2, 1e-12);
    dl_study_free(&s);
}

/* Keys whose value is a list are swept with bars. */
static void lists_of_lists_have_bars(void **state DL_UNUSED)
{
    dl_study s = study_of("[machine]\nfile = " NODE "\nworkers = 2\ngpus = 0, 1 | 0,4\n[workload]\n"
                          "costs = " COSTS "\nbatch = 8\n[noise]\nslow = 0:2 | 0:2, 1:3\n");
    assert_int_equal(s.variant_count, 4);
    assert_int_equal(s.variants[0].scenario.gpu->gpus[1], 1);
    assert_int_equal(s.variants[3].scenario.gpu->gpus[1], 4);
    assert_int_equal(s.variants[2].scenario.slow_count, 1);
    assert_int_equal(s.variants[3].scenario.slow_count, 2);
    assert_string_equal(text_at(&s, 3, 0), "0,4");
    dl_study_free(&s);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    dl_study study = {0};
    const dl_status status = read_text(&study, text, err);
    if (status != DL_OK) assert_null(study.variants);
    return status;
}

static void what_is_wrong_is_told_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"[machine]\nfile = " NODE "\nworkers = 2\nahead = 1, 2, 1\n", DL_ERR_RANGE, 4, "twice"},
        {"[machine]\nfile = " NODE "\nworkers = 2\nahead = 1,, 1\n", DL_ERR_PARSE, 4, "item 2"},
        {"[machine]\nfile = " NODE
         "\nworkers = 2\nahead = 1, x\n[workload]\ncosts = c\nbatch = 2\n",
         DL_ERR_PARSE, 4, "x"},
        {"[scenario]\nseed = 1, 2\nsteps = 1, 0\n[machine]\ncores = 1\nworkers = 1\n[workload]\n"
         "costs = c\nbatch = 2\n",
         DL_ERR_RANGE, 3, "0"},
    };
    assert_all_refused(cases, "s.ini", read_wrong);
}

static dl_status read_table(const dl_study *study, const char *text, dl_measured **measured)
{
    fixture_write(TABLE, text);
    dl_error err = {0};
    dl_status status = dl_measured_read(measured, study, &err);
    remove(TABLE);
    return status;
}

/* Rows of a table are also matched on the swept keys; numbers match by value. */
static void measured_rows_are_matched_on_swept_keys(void **state DL_UNUSED)
{
    dl_study s = study_of("[machine]\nfile = " NODE ", " OTHER "\nworkers = 2\n[workload]\n"
                          "costs = " COSTS "\nbatch = 8\n[sync]\nmode = ps\n[exchange]\n"
                          "shards = 1, 2\n[measured]\nfile = " TABLE "\n");
    dl_measured *m = NULL;
    assert_int_equal(read_table(&s, "machine,shards,step_s\nstudy_b,2.0,0.01\n", &m), DL_OK);
    static const int runs[] = {0, 0, 0, 1};
    for (int p = 0; p < 4; p++)
        assert_int_equal(m[p].runs, runs[p]);
    dl_measured_free(m, 4);
    m = NULL;
    assert_int_equal(read_table(&s, "machine,step_s\nstudy_b,0.01\n", &m), DL_ERR_DATA);
    assert_int_equal(read_table(&s, "machine,shards,step_s\nstudy_c,2,0.01\n", &m), DL_ERR_NAME);
    assert_null(m);
    dl_study_free(&s);
}

/* 50 Mb/s are 6.25e6 bytes per second: tables use the scenario's form, CSV files the unit of the
 * column name; a measured table may use either. */
static void amounts_are_numbers_in_csv(void **state DL_UNUSED)
{
    dl_study s =
        study_of("[machine]\nfile = " NODE "\nworkers = 2\nport_bytes_per_s = 50Mb/s, 1Gb/s\n"
                 "[workload]\ncosts = " COSTS "\nbatch = 8\n[sync]\nmode = ps\n[exchange]\n"
                 "compress = none, fp16\n[measured]\nfile = " TABLE "\n");
    const dl_variant *variant = &s.variants[0];
    const dl_point *point = &variant->scenario.points[0];
    assert_string_equal(dl_study_text(&s, variant, point, 0), "50Mb/s");
    assert_string_equal(dl_study_cell(&s, variant, point, 0), "6250000");
    assert_string_equal(dl_study_cell(&s, variant, point, 1), "none");
    dl_measured *m = NULL;
    assert_int_equal(read_table(&s,
                                "port_bytes_per_s,compress,step_s\n6.25e6,none,0.01\n"
                                "1Gb/s,fp16,0.02\n125000000,fp16,0.02\n",
                                &m),
                     DL_OK);
    static const int runs[] = {1, 0, 0, 2};
    for (int p = 0; p < 4; p++)
        assert_int_equal(m[p].runs, runs[p]);
    dl_measured_free(m, 4);
    dl_study_free(&s);
}

/* All variants' points are rows of one sweep, each with its own settings. The other machine is not
 * slower inside one node: equal steps. Two buckets need two launches. */
static void a_sweep_runs_all_variants(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) s = study_of("[scenario]\nsteps = 5, 10\n[machine]\nfile = " NODE ", " OTHER
                                     "\nworkers = 4\n[workload]\ncosts = " COSTS
                                     "\nbatch = 8\n[sync]\nmode = allreduce\n[exchange]\n"
                                     "bucket_bytes = 0, 40000\n");
    dl_measured *m = NULL;
    assert_int_equal(dl_measured_read(&m, &s, NULL), DL_OK);
    DL_SCOPED(dl_sweep) one = {0}, two = {0};
    const dl_sweep_config alone = {.threads = 1}, both = {.threads = 2};
    assert_int_equal(dl_sweep_run(&one, &s, &alone, NULL), DL_OK);
    assert_int_equal(dl_sweep_run(&two, &s, &both, NULL), DL_OK);
    assert_int_equal(one.row_count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(one.rows[i].variant, i);
        assert_near(two.rows[i].mean.throughput_per_s, one.rows[i].mean.throughput_per_s, 1e-15);
    }
    assert_near(one.rows[2].mean.step_mean_s, one.rows[0].mean.step_mean_s, 1e-12);
    assert_true(one.rows[1].mean.step_mean_s > one.rows[0].mean.step_mean_s);
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_report_table(out, &s, &one, m, true);
    fclose(out);
    assert_contains(text, "4 10    study_b 40000 ");
    dl_measured_free(m, s.point_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_any_key_make_variants),
        cmocka_unit_test(micro_batches_of_costs_are_checked),
        cmocka_unit_test(options_are_swept_for_modes_that_take_them),
        cmocka_unit_test(words_for_modes_with_keys_make_variants),
        cmocka_unit_test(keys_are_swept_where_they_mean_something),
        cmocka_unit_test(lists_of_lists_have_bars),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(measured_rows_are_matched_on_swept_keys),
        cmocka_unit_test(amounts_are_numbers_in_csv),
        cmocka_unit_test(a_sweep_runs_all_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
