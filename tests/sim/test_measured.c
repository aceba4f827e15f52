#include "tests/gpu_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "sim/report/measured.h"

#define TABLE "test_measured.csv"

/* Points: 1 and 2 workers, each with none, average interval 1, average interval 10; batch 8. */
static dl_study study(void)
{
    static const char text[] = "[machine]\ncores = 2\nworkers = 1, 2\n[workload]\ncosts = c\n"
                               "batch = 8\n[sync]\nmode = none, average\ninterval = 1, 10\n"
                               "[measured]\nfile = " TABLE "\n";
    dl_study read = {0};
    assert_int_equal(dl_study_read_text(&read, "s.ini", text, sizeof text - 1, NULL), DL_OK);
    return read;
}

static dl_status read_table(const char *text, dl_measured **measured, dl_error *err)
{
    DL_SCOPED(dl_study) s = study();
    FILE *out = fopen(TABLE, "w");
    fputs(text, out);
    fclose(out);
    dl_status status = dl_measured_read(measured, &s, err);
    remove(TABLE);
    return status;
}

static void rows_find_their_points(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    dl_error err = {0};
    if (read_table(
            "# by hand\nworkers,batch,sync,interval,throughput_per_s,throughput_per_s_err,source\n"
            "2,8,average,10,400,4,here\n1,8,none,,100,,\n",
            &m, &err)) {
        fail_msg("%d: %s", err.line, err.text);
    }
    static const int runs[] = {1, 0, 0, 0, 0, 1};
    for (int p = 0; p < 6; p++)
        assert_int_equal(m[p].runs, runs[p]);
    assert_near(m[5].value[DL_MEASURE_PER_S], 400, 1e-12);
    assert_near(m[5].value[DL_MEASURE_STEP_S], 0.02, 1e-12);
    assert_near(m[5].value[DL_MEASURE_STEP_S_ERR], 0.0002, 1e-12);
    assert_string_equal(m[5].source, "here");
    assert_null(m[0].source);
    assert_true(isnan(m[0].value[DL_MEASURE_PER_S_ERR]));
    assert_true(isnan(m[1].value[DL_MEASURE_PER_S]));
    dl_measured_free(m, 6);
}

/* Columns may also have the names of options and of tables of results. */
static void other_words_for_columns(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    dl_error err = {0};
    assert_int_equal(read_table("gpus,mode,samples/s\n2,none,400\n", &m, &err), DL_OK);
    assert_int_equal(m[3].runs, 1);
    assert_near(m[3].value[DL_MEASURE_PER_S], 400, 1e-12);
    dl_measured_free(m, 6);
    assert_int_equal(read_table("workers,sync,speed\n2,none,400\n", &m, &err), DL_ERR_NAME);
    assert_non_null(strstr(err.text, "A row has throughput_per_s"));
}

/* Programs with DistributedDataParallel report the batch of one GPU: 2 workers x 4 samples are the
 * points' batch of 8, also as 2 passes of 2. */
static void batches_of_a_worker_are_taken(void **state DL_UNUSED)
{
    static const char *const tables[] = {
        "batch_per_gpu,gpus,mode,samples/s\n4,2,none,400\n",
        "per_device_batch,gpus,mode,samples/s\n4,2,none,400\n",
        "micro_batch,accumulate,gpus,mode,samples/s\n4,1,2,none,400\n",
        "Global_Batch,gpus,mode,samples/s\n8,2,none,400\n",
        "| GPUs | mode | Batch per GPU | Step time (ms) | Speedup |\n|--|--|--|--|--|\n"
        "| 2 | none | 4 | **20** | 2x |\n",
    };
    dl_measured *m = NULL;
    dl_error err = {0};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (read_table(tables[i], &m, &err)) fail_msg("%s: %s", tables[i], err.text);
        assert_int_equal(m[3].runs, 1);
        assert_near(m[3].value[DL_MEASURE_STEP_S], 0.02, 1e-12);
        dl_measured_free(m, 6);
    }
    assert_int_equal(read_table("batch_per_gpu,gpus,mode,samples/s\n8,2,none,400\n", &m, &err),
                     DL_ERR_NAME);
    assert_int_equal(read_table("batch_per_gpu,mode,samples/s\n4,none,400\n", &m, &err),
                     DL_ERR_DATA);
    assert_non_null(strstr(err.text, "the column batch_per_gpu needs a column workers"));
    assert_int_equal(read_table("micro_batch,gpus,samples/s\n4,2,400\n", &m, &err), DL_ERR_DATA);
    assert_non_null(strstr(err.text, "the column micro_batch needs a column accumulate"));
    assert_int_equal(read_table("batch_per_gpu,batch,gpus,samples/s\n4,8,2,400\n", &m, &err),
                     DL_ERR_DATA);
}

/* Two workers have mode none, and averages every step or every ten: sync and interval distinguish
 * these points. */
static void columns_that_tell_points_apart_are_named(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    dl_error err = {0};
    assert_int_equal(read_table("workers,throughput_per_s\n2,400\n", &m, &err), DL_ERR_DATA);
    assert_non_null(strstr(err.text, "have these keys: give also sync"));
    assert_int_equal(read_table("workers,sync,throughput_per_s\n2,average,400\n", &m, &err),
                     DL_ERR_DATA);
    assert_non_null(strstr(err.text, "have these keys: give also interval"));
    assert_null(strstr(err.text, "moving_rate")); /* of mode easgd only */
}

/* A row without a point gets told the key that no point has, and the points' values of it. */
static void the_unlike_key_is_named(void **state DL_UNUSED)
{
    static const struct {
        const char *row, *said;
    } cases[] = {
        {"2,8,ps,\n", "in the nearest, sync is none, average, not ps"},
        {"2,4,none,\n", "in the nearest, batch is 8, not 4"},
        {"2,8,average,5\n", "in the nearest, interval is 1, 10, not 5"},
    };
    dl_measured *m = NULL;
    dl_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_AUTOFREE char *table = dl_format("workers,batch,sync,interval\n%s", cases[i].row);
        assert_int_equal(read_table(table, &m, &err), DL_ERR_NAME);
        if (strstr(err.text, cases[i].said) == NULL) fail_msg("%s", err.text);
    }
}

/* Steps 0.01, 0.04, 0.02 with batch 8: median 0.02; throughputs 800, 200, 400: median 400, standard
 * deviation sqrt((333.3^2 + 266.7^2 + 66.7^2) / 2) = 305.5. Staleness is given twice: median
 * 1.25. */
static void repeated_rows_are_runs(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    assert_int_equal(read_table("workers,sync,interval,step_s,staleness_mean\n2,none,,0.01,1\n"
                                "2,none,,0.04,\n2,none,,0.02,1.5\n",
                                &m, NULL),
                     DL_OK);
    assert_int_equal(m[3].runs, 3);
    assert_near(m[3].value[DL_MEASURE_STEP_S], 0.02, 1e-12);
    assert_near(m[3].value[DL_MEASURE_PER_S], 400, 1e-12);
    assert_near(m[3].value[DL_MEASURE_PER_S_ERR], 305.505, 1e-5);
    assert_near(m[3].value[DL_MEASURE_STALENESS_MEAN], 1.25, 1e-12);
    assert_true(isnan(m[3].value[DL_MEASURE_STALENESS_P90]));
    dl_measured_free(m, 6);
}

/* The median per worker over the runs that give it; steps and seed are not used. */
static void staleness_of_each_worker(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    assert_int_equal(read_table("workers,sync,interval,step_s,staleness_mean_by_worker,steps,seed\n"
                                "2,none,,1,0.5;3,200,1\n2,none,,1,,200,2\n2,none,,1,1.5;2,200,3\n",
                                &m, NULL),
                     DL_OK);
    assert_int_equal(m[3].runs, 3);
    assert_near(m[3].worker_staleness[0], 1, 1e-12);
    assert_near(m[3].worker_staleness[1], 2.5, 1e-12);
    assert_null(m[0].worker_staleness);
    dl_measured_free(m, 6);
}

/* Others took 30 % of the processors, or 6 % and the host 6 %: those two of four runs are left out,
 * and the median of 100 and 200 samples per second is 150. If both of two runs were disturbed, both
 * count. A quarter of the runs is enough, also if the host alone is known. */
static void disturbed_runs_are_left_out(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    assert_int_equal(
        read_table("workers,sync,interval,throughput_per_s,others_frac,steal_frac\n"
                   "2,none,,100,0.01,0\n2,none,,40,0.3,0\n2,none,,200,,\n2,none,,41,0.06,0.06\n",
                   &m, NULL),
        DL_OK);
    assert_int_equal(m[3].runs, 2);
    assert_int_equal(m[3].disturbed_runs, 2);
    assert_near(m[3].value[DL_MEASURE_PER_S], 150, 1e-12);
    assert_near(m[3].runs_per_s[0], 100, 1e-12);
    dl_measured_free(m, 6);
    assert_int_equal(read_table("workers,sync,interval,throughput_per_s,others_frac\n"
                                "2,none,,40,0.3\n2,none,,41,0.2\n",
                                &m, NULL),
                     DL_OK);
    assert_int_equal(m[3].runs, 2);
    assert_int_equal(m[3].disturbed_runs, 0);
    dl_measured_free(m, 6);
    assert_int_equal(
        read_table("workers,sync,interval,throughput_per_s,steal_frac\n2,none,,40,0.3\n"
                   "2,none,,41,0.2\n2,none,,42,0.2\n2,none,,100,0\n",
                   &m, NULL),
        DL_OK);
    assert_int_equal(m[3].runs, 1);
    assert_int_equal(m[3].disturbed_runs, 3);
    dl_measured_free(m, 6);
}

/* Runs with 0 x 1 and 1 x 3, and with 1 x 1 and 2 x 5: in total 1, 4, 5 of 10. Mean (4 + 10) / 10 =
 * 1.4, variance 24 / 10 - 1.96 = 0.44; five do not exceed 1, nine need 2. */
static void staleness_counts_are_added_up(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    assert_int_equal(read_table("workers,sync,interval,step_s,staleness_sd,staleness_counts\n"
                                "2,none,,1,9,1;3\n2,none,,1,8,0;1;5\n",
                                &m, NULL),
                     DL_OK);
    assert_near(m[3].value[DL_MEASURE_STALENESS_MEAN], 1.4, 1e-12);
    assert_near(m[3].value[DL_MEASURE_STALENESS_SD], sqrt(0.44), 1e-12);
    assert_near(m[3].value[DL_MEASURE_STALENESS_P50], 1, 1e-12);
    assert_near(m[3].value[DL_MEASURE_STALENESS_P90], 2, 1e-12);
    dl_measured_free(m, 6);
}

/* A run without steps is a run; the table's other point has none. */
static void steps_of_all_runs_are_collected(void **state DL_UNUSED)
{
    static const double expected[] = {0.5, 0.75, 1, 1.25};
    dl_measured *m = NULL;
    assert_int_equal(read_table("workers,sync,interval,step_s,step_quantiles_s\n"
                                "2,none,,1,0.75;1.25\n2,none,,1,\n2,none,,1,0.5;1\n1,none,,1,\n",
                                &m, NULL),
                     DL_OK);
    assert_int_equal(m[3].runs, 3);
    assert_int_equal(m[3].step_count, 4);
    assert_memory_equal(m[3].steps_s, expected, sizeof expected);
    assert_null(m[0].steps_s);
    dl_measured_free(m, 6);
}

/* The table has the source's words for a missing result; there is nothing to compare. */
static void rows_that_say_error_are_taken_without_values(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    dl_error err = {0};
    if (read_table("workers,sync,interval,throughput_per_s,source\n1,none,,100,\n"
                   "1,none,,error,once\n2,none,,error,a README\n",
                   &m, &err)) {
        fail_msg("%d: %s", err.line, err.text);
    }
    assert_int_equal(m[0].runs, 1);
    assert_int_equal(m[0].failed_runs, 1);
    assert_near(m[0].value[DL_MEASURE_PER_S], 100, 1e-12);
    assert_int_equal(m[3].runs, 0);
    assert_int_equal(m[3].failed_runs, 1);
    assert_true(isnan(m[3].value[DL_MEASURE_PER_S]));
    assert_string_equal(m[3].source, "a README");
    dl_measured_free(m, 6);
    assert_int_equal(read_table("workers,sync,interval,step_s\n2,none,,error\n", &m, &err), DL_OK);
    assert_int_equal(m[3].failed_runs, 1);
    dl_measured_free(m, 6);
}

static void without_a_table_nothing_is_measured(void **state DL_UNUSED)
{
    DL_SCOPED(dl_study) s = study();
    free(s.variants[0].scenario.measured_path);
    s.variants[0].scenario.measured_path = NULL;
    dl_measured *m = NULL;
    assert_int_equal(dl_measured_read(&m, &s, NULL), DL_OK);
    for (int p = 0; p < 6; p++)
        assert_int_equal(m[p].runs, 0);
    dl_measured_free(m, s.point_count);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    dl_measured *m = NULL;
    const dl_status status = read_table(text, &m, err);
    if (status != DL_OK) assert_null(m);
    return status;
}

/* Column `use` says how a row relates to the prediction; the default is unseen. Notes and sources
 * have no line breaks. */
static void rows_have_a_use(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    dl_error err = {0};
    if (read_table("workers,sync,interval,step_s,use,note,source\n1,none,,1,fitted,,\n"
                   "2,none,,1,contradiction,\"a\nb\",\"c\r\nd\"\n2,average,1,1,,,\n"
                   "2,average,10,error,fitted,,\n",
                   &m, &err)) {
        fail_msg("%d: %s", err.line, err.text);
    }
    assert_int_equal(m[0].use, DL_USE_FITTED);
    assert_int_equal(m[0].line, 2);
    assert_int_equal(m[3].use, DL_USE_CONTRADICTION);
    assert_string_equal(m[3].note, "a b");
    assert_string_equal(m[3].source, "c  d");
    assert_int_equal(m[4].use, DL_USE_UNSEEN);
    assert_int_equal(m[5].use, DL_USE_ERROR);
    dl_measured_free(m, 6);
    assert_int_equal(read_table("workers,sync,interval,step_s,use\n1,none,,1,fited\n", &m, &err),
                     DL_ERR_NAME);
    assert_contains(err.text, "did you mean 'fitted'");
    assert_int_equal(read_table("workers,sync,interval,step_s,use\n1,none,,1,fitted\n"
                                "1,none,,1,unseen\n",
                                &m, &err),
                     DL_ERR_DATA);
    assert_int_equal(err.line, 3);
}

/* The error of a row that was left out of a fit applies to the point if that has no other row. */
static void left_out_errors_go_by_line(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    dl_error err = {0};
    assert_int_equal(
        read_table("workers,sync,interval,step_s\n1,none,,1\n2,none,,1\n2,none,,2\n", &m, &err),
        DL_OK);
    FILE *out = fopen(TABLE, "w");
    fputs("line,batch,left_out_error_frac\n2,8,-0.25\n3,8,0.5\n4,8,\n", out);
    fclose(out);
    assert_int_equal(dl_measured_read_left_out(m, 6, TABLE, &err), DL_OK);
    assert_near(m[0].left_out_frac, -0.25, 1e-12);
    assert_true(isnan(m[3].left_out_frac)); /* the point has two rows */
    out = fopen(TABLE, "w");
    fputs("line,batch\n2,8\n", out);
    fclose(out);
    assert_int_equal(dl_measured_read_left_out(m, 6, TABLE, &err), DL_ERR_NAME);
    remove(TABLE);
    dl_measured_free(m, 6);
}

/* On cores, with costs that name no model: where, compress and the number of GPUs are known. */
static void rows_are_of_the_points_setting(void **state DL_UNUSED)
{
    dl_measured *m = NULL;
    assert_int_equal(read_table("workers,sync,interval,model,precision,gpu_count,where,compress,"
                                "host_memory,step_s\n"
                                "2,none,,lenet,float,0,,,,1\n2,average,1,,,0,cpu,none,,1\n",
                                &m, NULL),
                     DL_OK);
    assert_int_equal(m[3].runs + m[4].runs, 2);
    dl_measured_free(m, 6);
    static const refused_text cases[] = {
        {"workers,sync,interval,gpu_count,step_s\n2,none,,1,1\n", DL_ERR_DATA, 2,
         "gpu_count is 1, but that of the point is 0"},
        {"workers,sync,interval,where,step_s\n2,none,,gpu:0,1\n", DL_ERR_DATA, 2, "where is gpu:0"},
        {"workers,sync,interval,compress,step_s\n2,none,,fp16,1\n", DL_ERR_DATA, 2, "compress"},
    };
    assert_all_refused(cases, TABLE, read_wrong);
}

/* Two workers on one GPU, whose server is on another GPU. */
static void rows_of_gpus_are_of_the_points_setting(void **state DL_UNUSED)
{
    static const char text[] = "[machine]\nfile = test_measured.ini\ngpus = 1\nworkers = 2\n"
                               "pageable = yes\n[workload]\ncosts = c\nbatch = 8\n"
                               "[sync]\nmode = async\nwhere = gpu:2\n[exchange]\ncompress = fp16\n"
                               "[measured]\nfile = " TABLE "\n";
    static const char *const rows[] = {
        "2,lenet,tf32,1,gpu:2,fp16,pageable", /* matches the point */
        "2,mlp,tf32,1,gpu:2,fp16,pageable",   "2,lenet,float,1,gpu:2,fp16,pageable",
        "2,lenet,tf32,2,gpu:2,fp16,pageable", "2,lenet,tf32,1,cpu,fp16,pageable",
        "2,lenet,tf32,1,gpu:2,1bit,pageable", "2,lenet,tf32,1,gpu:2,fp16,pinned"};
    fixture_write("test_measured.ini", FIXTURE_GPUS);
    DL_SCOPED(dl_study) s = {0};
    assert_int_equal(dl_study_read_text(&s, "s.ini", text, sizeof text - 1, NULL), DL_OK);
    remove("test_measured.ini");
    s.variants[0].costs.workload = dl_strdup("lenet");
    s.variants[0].costs.precision = dl_strdup("tf32");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        dl_measured *m = NULL;
        FILE *out = fopen(TABLE, "w");
        fprintf(out,
                "cores,workers,model,precision,gpu_count,where,compress,host_memory,step_s\n"
                "16,%s,1\n",
                rows[r]);
        fclose(out);
        assert_int_equal(dl_measured_read(&m, &s, NULL), r == 0 ? DL_OK : DL_ERR_DATA);
        if (r == 0) dl_measured_free(m, 1);
    }
    remove(TABLE);
}

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"workers,sync,interval,stpe_s\n", DL_ERR_NAME, 0, "step_s"},
        {"workers,sync,interval,step_s\n2,none,,1\n3,none,,1\n", DL_ERR_NAME, 3, "no point"},
        {"workers,sync,interval,step_s\n2,nun,,1\n", DL_ERR_NAME, 2, "no point"},
        {"workers,sync,interval,step_s\n2,none,1,1\n", DL_ERR_NAME, 2, "no point"},
        {"workers,sync,interval,step_s\n2,average,,1\n", DL_ERR_NAME, 2, "no point"},
        {"workers,sync,step_s\n2,average,1\n", DL_ERR_DATA, 2, "several points"},
        {"workers,sync,interval,step_s\n2,none,,\n", DL_ERR_DATA, 2, "neither"},
        {"workers,sync,interval,step_s\n2,none,,0\n", DL_ERR_RANGE, 2, "step_s"},
        {"workers,sync,interval,step_s,staleness_sd\n2,none,,1,-1\n", DL_ERR_RANGE, 2,
         "staleness_sd"},
        {"workers,sync,interval,step_s\n2,none,,fast\n", DL_ERR_PARSE, 2, "fast"},
        {"workers,sync,interval,step_s\ntwo,none,,1\n", DL_ERR_PARSE, 2, "two"},
        {"workers,sync,interval,step_s,staleness_mean_by_worker\n2,none,,1,1;2;3\n", DL_ERR_DATA, 2,
         "3 numbers for 2 workers"},
        {"workers,sync,interval,step_s,staleness_counts\n2,none,,1,1;-1\n", DL_ERR_RANGE, 2,
         "staleness_counts"},
        {"workers,sync,interval,step_s,step_quantiles_s\n2,none,,1,1;x\n", DL_ERR_PARSE, 2,
         "step_quantiles_s"},
        {"workers,sync,interval,step_s,staleness_mean_by_worker\n2,none,,1,1;x\n", DL_ERR_PARSE, 2,
         "staleness_mean_by_worker"},
        {"workers,sync\n2\n", DL_ERR_PARSE, 2, ""},
    };
    assert_all_refused(cases, TABLE, read_wrong);
    DL_SCOPED(dl_study) s = study();
    dl_measured *m = NULL;
    assert_int_equal(dl_measured_read(&m, &s, NULL), DL_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_find_their_points),
        cmocka_unit_test(other_words_for_columns),
        cmocka_unit_test(batches_of_a_worker_are_taken),
        cmocka_unit_test(columns_that_tell_points_apart_are_named),
        cmocka_unit_test(the_unlike_key_is_named),
        cmocka_unit_test(repeated_rows_are_runs),
        cmocka_unit_test(rows_that_say_error_are_taken_without_values),
        cmocka_unit_test(staleness_of_each_worker),
        cmocka_unit_test(disturbed_runs_are_left_out),
        cmocka_unit_test(staleness_counts_are_added_up),
        cmocka_unit_test(steps_of_all_runs_are_collected),
        cmocka_unit_test(without_a_table_nothing_is_measured),
        cmocka_unit_test(rows_have_a_use),
        cmocka_unit_test(left_out_errors_go_by_line),
        cmocka_unit_test(rows_are_of_the_points_setting),
        cmocka_unit_test(rows_of_gpus_are_of_the_points_setting),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
