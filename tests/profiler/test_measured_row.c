/* Rows of measured runs: appended rows can be read back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/train_case.h"

#include "common/csv.h"
#include "profiler/recorder.h"
#include "profiler/run/run_meta.h"

#define PATH "test_measured_row.csv"

/* Returns a recorder with 10 steps of each of 2 workers, `first_ms` and `second_ms` long (including
 * the first one, the warm-up), with staleness 1 and 2, or none. */
static const dl_cpu_disturbance undisturbed = {.others_frac = 0.25, .steal_frac = 0.5};

static dl_recorder make_recorder(const dl_train_config *config, int64_t first_ms, int64_t second_ms)
{
    dl_recorder recorder;
    dl_error err = {0};
    assert_int_equal(dl_recorder_open(&recorder, config, NULL, &err), DL_OK);
    const dl_train_observer observer = dl_recorder_observer(&recorder);
    for (int s = 0; s < 10; s++) {
        for (uint32_t w = 0; w < 2; w++) {
            const dl_record step = {.kind = DL_RECORD_STEP,
                                    .worker = w,
                                    .samples = (uint32_t)(config->batch / 2),
                                    .staleness = config->sync == DL_SYNC_ASYNC ? 1 + (int64_t)w
                                                                               : DL_NO_STALENESS,
                                    .duration_ns = (w == 0 ? first_ms : second_ms) * 1000000};
            observer.record(observer.user, &step);
        }
    }
    return recorder;
}

static dl_train_config two_workers(dl_sync sync)
{
    dl_train_config config = small_config();
    config.sync = sync;
    config.workers = 2;
    config.interval = 5;
    config.steps = 10;
    return config;
}

static void append(const dl_train_config *config, int64_t first_ms, int64_t second_ms)
{
    DL_SCOPED(dl_recorder) recorder = make_recorder(config, first_ms, second_ms);
    dl_error err = {0};
    if (dl_measured_row_append(PATH, config, &recorder, &undisturbed, &err) != DL_OK)
        fail_msg("%s", err.text);
}

static const char *cell(const dl_csv *csv, size_t row, const char *name)
{
    const int column = dl_csv_column(csv, name);
    assert_true(column >= 0);
    return dl_csv_cell(csv, row, (size_t)column);
}

static void assert_number(const dl_csv *csv, size_t row, const char *name, double expected)
{
    double value = 0;
    dl_error err = {0};
    const int column = dl_csv_column(csv, name);
    assert_true(column >= 0);
    assert_int_equal(dl_csv_number(csv, row, (size_t)column, &value, &err), DL_OK);
    if (!(fabs(value - expected) <= 1e-12 * fabs(expected))) {
        fail_msg("%s is %.17g, not %.17g", name, value, expected);
    }
}

/* Steps of 10 and 30 ms: mean 20 ms, 6 / 0.01 + 6 / 0.03 = 800 samples per second; staleness ten
 * times 1 and ten times 2: mean 1.5, sd sqrt(20 x 0.25 / 19), median 1, 90th percentile 2. Of the 18
 * steps after the warm-up the quantile 0.475 is at place 0.475 x 17 = 8.075 between the ninth and the
 * tenth: 10 + 0.075 x 20 = 11.5 ms, the next five 3.4 ms more each. */
static void rows_read_back(void **state DL_UNUSED)
{
    unlink(PATH);
    const dl_train_config async = two_workers(DL_SYNC_ASYNC);
    const dl_train_config average = two_workers(DL_SYNC_AVERAGE);
    append(&async, 10, 30);
    append(&average, 20, 20);
    DL_SCOPED(dl_csv) csv = {0};
    dl_error err = {0};
    assert_int_equal(dl_csv_read(&csv, PATH, &err), DL_OK);
    assert_int_equal(csv.rows, 2);
    assert_number(&csv, 0, "cores", dl_train_cores(&async));
    assert_number(&csv, 0, "workers", 2);
    assert_number(&csv, 0, "batch", 12);
    assert_string_equal(cell(&csv, 0, "sync"), "async");
    assert_string_equal(cell(&csv, 0, "interval"), "");
    assert_number(&csv, 0, "step_s", 0.020);
    assert_number(&csv, 0, "throughput_per_s", 800);
    assert_number(&csv, 0, "staleness_mean", 1.5);
    assert_number(&csv, 0, "staleness_sd", sqrt(20 * 0.25 / 19));
    assert_number(&csv, 0, "staleness_p50", 1);
    assert_number(&csv, 0, "staleness_p90", 2);
    assert_string_equal(cell(&csv, 0, "staleness_mean_by_worker"), "1;2");
    assert_string_equal(cell(&csv, 0, "staleness_counts"), "0;10;10");
    char *quantiles = (char *)(uintptr_t)cell(&csv, 0, "step_quantiles_s");
    for (int q = 0; q < 100; q++) {
        const double between_s = 0.0115 + 0.0034 * (q - 47), s = fmin(0.03, fmax(0.01, between_s));
        assert_true(fabs(strtod(quantiles, &quantiles) - s) < 1e-9);
        assert_int_equal(*quantiles++, q < 99 ? ';' : '\0');
    }
    assert_number(&csv, 0, "steps", 10);
    assert_number(&csv, 0, "seed", 11);
    assert_string_equal(cell(&csv, 0, "source"), "dlprof train");
    assert_string_equal(cell(&csv, 1, "sync"), "average");
    assert_number(&csv, 1, "interval", 5);
    assert_number(&csv, 1, "step_s", 0.020);
    assert_string_equal(cell(&csv, 1, "staleness_mean"), "");
    assert_string_equal(cell(&csv, 1, "staleness_mean_by_worker"), "");
    assert_string_equal(cell(&csv, 1, "staleness_counts"), "");
    assert_string_equal(cell(&csv, 1, "uploads_applied"), "");
    assert_string_equal(cell(&csv, 1, "merges"), "");
}

/* Worker 0 uploads after steps 4 and 9: the first upload is merged one version stale, the second is
 * lost, with the samples of its five steps. Worker 1's first upload is merged, the second remains
 * unmerged. The first step is warm-up: 4 of 9 steps of 6 samples in 10 ms, and 9 of 9 in 30 ms. */
static void uploads_are_counted(void **state DL_UNUSED)
{
    const dl_train_config config = two_workers(DL_SYNC_ASYNC_AVERAGE);
    dl_recorder recorder = make_recorder(&config, 10, 30);
    dl_merge_event events[] = {
        {.kind = DL_MERGE_UPLOAD, .worker = 0, .step = 4},
        {.kind = DL_MERGE_MERGE, .worker = 0, .step = 4, .version = 2, .staleness = 1},
        {.kind = DL_MERGE_SUPERSEDED, .worker = 0, .step = 9},
        {.kind = DL_MERGE_MERGE, .worker = 1, .step = 4, .version = 2, .staleness = 0},
        {.kind = DL_MERGE_UNMERGED, .worker = 1, .step = 9},
    };
    const dl_train_result result = {
        .uploads = {.uploaded = 4, .applied = 2, .superseded = 1, .unmerged = 1, .merges = 1},
        .merge_events = events,
        .merge_event_count = sizeof events / sizeof *events};
    dl_recorder_take_uploads(&recorder, &config, &result);
    unlink(PATH);
    dl_error err = {0};
    assert_int_equal(dl_measured_row_append(PATH, &config, &recorder, &undisturbed, &err), DL_OK);
    dl_recorder_free(&recorder);
    DL_SCOPED(dl_csv) csv = {0};
    assert_int_equal(dl_csv_read(&csv, PATH, &err), DL_OK);
    assert_string_equal(cell(&csv, 0, "sync"), "async_average");
    assert_number(&csv, 0, "interval", 5);
    assert_number(&csv, 0, "throughput_per_s", 6 / 0.010 * 4 / 9 + 6 / 0.030);
    assert_number(&csv, 0, "staleness_mean", 0.5);
    assert_string_equal(cell(&csv, 0, "staleness_mean_by_worker"), "1;0");
    assert_string_equal(cell(&csv, 0, "staleness_counts"), "1;1");
    assert_number(&csv, 0, "uploads_applied", 2);
    assert_number(&csv, 0, "uploads_too_stale", 0);
    assert_number(&csv, 0, "uploads_superseded", 1);
    assert_number(&csv, 0, "uploads_unmerged", 1);
    assert_number(&csv, 0, "merges", 1);
}

/* A check creates no file, and accepts a file that is empty or has rows. */
static void check_changes_nothing(void **state DL_UNUSED)
{
    const dl_train_config config = two_workers(DL_SYNC_PS);
    dl_error err = {0};
    unlink(PATH);
    assert_int_equal(dl_measured_row_check(PATH, &err), DL_OK);
    assert_int_equal(access(PATH, F_OK), -1);
    append(&config, 10, 10);
    assert_int_equal(dl_measured_row_check(PATH, &err), DL_OK);
    assert_int_equal(dl_measured_row_check("/dev/null", &err), DL_OK);
    assert_int_equal(truncate(PATH, 0), 0);
    assert_int_equal(dl_measured_row_check(PATH, &err), DL_OK);
}

/* The recorder has 10 steps of a run of 1000: the steps done count, not those requested. */
static void steps_of_a_stopped_run(void **state DL_UNUSED)
{
    unlink(PATH);
    dl_train_config config = two_workers(DL_SYNC_PS);
    config.steps = 1000;
    append(&config, 10, 10);
    DL_SCOPED(dl_csv) csv = {0};
    dl_error err = {0};
    assert_int_equal(dl_csv_read(&csv, PATH, &err), DL_OK);
    assert_number(&csv, 0, "steps", 10);
}

static void write_text(const char *text)
{
    FILE *file = fopen(PATH, "w");
    fputs(text, file);
    fclose(file);
}

/* A file with other columns is left unchanged. */
static void other_columns_are_refused(void **state DL_UNUSED)
{
    static const char *const texts[] = {"a,b\n1,2\n", "cores,workers\n2,1\n", "# only a comment\n"};
    const dl_train_config config = two_workers(DL_SYNC_PS);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_text(texts[i]);
        dl_recorder recorder = make_recorder(&config, 10, 10);
        dl_error err = {0};
        const dl_status checked = dl_measured_row_check(PATH, &err);
        assert_true(checked == DL_ERR_FORMAT || checked == DL_ERR_PARSE);
        const dl_status status =
            dl_measured_row_append(PATH, &config, &recorder, &undisturbed, &err);
        dl_recorder_free(&recorder);
        assert_true(status == DL_ERR_FORMAT || status == DL_ERR_PARSE);
        char left[64] = "";
        FILE *file = fopen(PATH, "r");
        left[fread(left, 1, sizeof left - 1, file)] = '\0';
        fclose(file);
        assert_string_equal(left, texts[i]);
    }
}

static void folder_that_is_not_there(void **state DL_UNUSED)
{
    const dl_train_config config = two_workers(DL_SYNC_PS);
    DL_SCOPED(dl_recorder) recorder = make_recorder(&config, 10, 10);
    dl_error err = {0};
    assert_int_equal(
        dl_measured_row_append("no_such_folder/x.csv", &config, &recorder, &undisturbed, &err),
        DL_ERR_IO);
}

static void full_disk_is_reported(void **state DL_UNUSED)
{
    if (access("/dev/full", W_OK) != 0) skip();
    const dl_train_config config = two_workers(DL_SYNC_PS);
    DL_SCOPED(dl_recorder) recorder = make_recorder(&config, 10, 10);
    dl_error err = {0};
    assert_int_equal(dl_measured_row_append("/dev/full", &config, &recorder, &undisturbed, &err),
                     DL_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_read_back),
                                       cmocka_unit_test(steps_of_a_stopped_run),
                                       cmocka_unit_test(uploads_are_counted),
                                       cmocka_unit_test(check_changes_nothing),
                                       cmocka_unit_test(other_columns_are_refused),
                                       cmocka_unit_test(folder_that_is_not_there),
                                       cmocka_unit_test(full_disk_is_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
