#include "calibrate/dataset.h"
#include "common/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/calibrate/calibrate_traces.h"
#include "tests/check.h"

static const made_variation steady = {0, 0, 0};

/* Reads one file; after an expected failure the data set may only be freed. */
static dl_status read_one(const char *path, dl_dataset *dataset, dl_notes *notes, dl_error *err)
{
    *dataset = (dl_dataset){0};
    *notes = (dl_notes){0};
    return dl_dataset_add(dataset, path, notes, err);
}

static void release(dl_dataset *dataset, dl_notes *notes)
{
    dl_dataset_free(dataset);
    dl_notes_free(notes);
}

static void test_what_traces_are_of(void **state DL_UNUSED)
{
    made_train("dataset_a.dlt", 10, 3, &steady, 1);
    dl_dataset dataset;
    dl_notes notes;
    assert_int_equal(read_one("dataset_a.dlt", &dataset, &notes, NULL), DL_OK);
    assert_int_equal(dataset.run_count, 1);
    assert_string_equal(dataset.workload, "tiny");
    assert_string_equal(dataset.device, "test box");
    assert_int_equal(dataset.parameter_bytes, 1000000);
    assert_int_equal(dataset.cores, 2);
    assert_int_equal(notes.count, 0);
    release(&dataset, &notes);
}

/* A trace truncated in the middle is used up to its last whole chunk, with a note. */
static void test_incomplete_trace_is_used(void **state DL_UNUSED)
{
    made_trace trace;
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    made_open(&trace, "dataset_c.dlt", "train", "tiny");
    made_steps(&trace, 10, 20, 0, &steady, &random);
    dl_trace_stream_flush(trace.stream);
    made_close(&trace);
    struct stat info;
    assert_int_equal(stat("dataset_c.dlt", &info), 0);
    assert_int_equal(truncate("dataset_c.dlt", info.st_size - 1), 0);
    dl_dataset dataset;
    dl_notes notes;
    assert_int_equal(read_one("dataset_c.dlt", &dataset, &notes, NULL), DL_OK);
    assert_int_equal(notes.count, 1);
    assert_contains(notes.lines[0], "dataset_c.dlt: incomplete");
    assert_int_equal(dataset.runs[0].steps, 20);
    release(&dataset, &notes);
}

/* Expects that adding `path` after `first` (NULL: alone) fails with this code and text. */
static void check_refused(const char *first, const char *path, dl_status code, const char *text)
{
    dl_dataset dataset = {0};
    dl_notes notes = {0};
    dl_error err = {0};
    if (first != NULL) assert_int_equal(dl_dataset_add(&dataset, first, &notes, NULL), DL_OK);
    assert_int_equal(dl_dataset_add(&dataset, path, &notes, &err), code);
    assert_contains(err.text, text);
    assert_contains(err.file, path);
    release(&dataset, &notes);
}

/* Writes a train trace like made_train, but with `value` for the meta key `key`. */
static void make_odd(const char *path, const char *key, const char *value)
{
    made_trace trace;
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    made_open(&trace, path, "train", "tiny");
    dl_trace_writer_meta(trace.writer, key, value);
    made_steps(&trace, 10, 20, 0, &steady, &random);
    made_close(&trace);
}

static void test_what_does_not_fit_together(void **state DL_UNUSED)
{
    made_train("dataset_ok.dlt", 10, 20, &steady, 1);
    make_odd("dataset_odd.dlt", "model", "other");
    check_refused("dataset_ok.dlt", "dataset_odd.dlt", DL_ERR_DATA,
                  "the model is 'other', but 'tiny' in dataset_ok.dlt");
    make_odd("dataset_odd.dlt", "device", "other box");
    check_refused("dataset_ok.dlt", "dataset_odd.dlt", DL_ERR_DATA, "the device is 'other box'");
    make_odd("dataset_odd.dlt", "parameter_bytes", "4");
    check_refused("dataset_ok.dlt", "dataset_odd.dlt", DL_ERR_DATA, "'4 + 1000000'");
    make_odd("dataset_odd.dlt", "parameter_bytes", "four");
    check_refused(NULL, "dataset_odd.dlt", DL_ERR_PARSE, "parameter_bytes");
    make_odd("dataset_odd.dlt", "workers", "2");
    check_refused(NULL, "dataset_odd.dlt", DL_ERR_DATA, "is of 2 workers");
    make_odd("dataset_odd.dlt", "worker_threads", "2");
    check_refused(NULL, "dataset_odd.dlt", DL_ERR_DATA, "was recorded with --threads 2");
    make_odd("dataset_odd.dlt", "kind", "trian");
    check_refused(NULL, "dataset_odd.dlt", DL_ERR_DATA, "is of kind 'trian'");
}

/* Traces without required data. */
static void test_what_lacks_data(void **state DL_UNUSED)
{
    made_trace trace;
    made_open(&trace, "dataset_empty.dlt", "train", "tiny");
    made_close(&trace);
    check_refused(NULL, "dataset_empty.dlt", DL_ERR_DATA, "holds no records");
    made_open(&trace, "dataset_empty.dlt", "train", "tiny");
    dl_trace_stream_append(trace.stream, &(dl_record){.kind = DL_RECORD_INPUT, .duration_ns = 5});
    made_close(&trace);
    check_refused(NULL, "dataset_empty.dlt", DL_ERR_DATA, "no step");
    made_open(&trace, "dataset_empty.dlt", "train", "tiny");
    dl_trace_stream_append(trace.stream, &(dl_record){.kind = DL_RECORD_STEP, .duration_ns = 5});
    made_close(&trace);
    check_refused(NULL, "dataset_empty.dlt", DL_ERR_DATA, "how many samples");
    made_open(&trace, "dataset_empty.dlt", "bench", "tiny");
    dl_trace_stream_append(trace.stream, &(dl_record){.kind = DL_RECORD_INPUT, .duration_ns = 5});
    made_close(&trace);
    check_refused(NULL, "dataset_empty.dlt", DL_ERR_DATA, "has no samples");
    FILE *text = fopen("dataset_empty.dlt", "w");
    fputs("no trace", text);
    fclose(text);
    check_refused(NULL, "dataset_empty.dlt", DL_ERR_FORMAT, "");
    check_refused(NULL, "dataset_nowhere.dlt", DL_ERR_IO, "");
}

static void test_bench_samples(void **state DL_UNUSED)
{
    made_trace trace;
    made_open(&trace, "dataset_bench.dlt", "bench", "tiny");
    dl_trace_writer_meta(trace.writer, "snapshot", "1");
    dl_trace_writer_meta(trace.writer, "others_permille", "120");
    dl_trace_writer_meta(trace.writer, "steal_permille", "30");
    made_sample(&trace, "lock", (dl_record){.threads = 2, .duration_ns = 70});
    made_sample(&trace, "step",
                (dl_record){.vectors = 1, .threads = 1, .samples = 8, .duration_ns = 900});
    made_close(&trace);
    dl_dataset dataset;
    dl_notes notes;
    assert_int_equal(read_one("dataset_bench.dlt", &dataset, &notes, NULL), DL_OK);
    assert_int_equal(dataset.bench_count, 1);
    assert_int_equal(dataset.benches[0].count, 2);
    assert_true(dataset.benches[0].snapshot);
    assert_int_equal(dataset.benches[0].disturbed, 150);
    assert_int_equal(dataset.benches[0].samples[0].name, DL_SAMPLE_LOCK);
    assert_int_equal(dataset.benches[0].samples[1].name, DL_SAMPLE_STEP);
    assert_int_equal(dataset.run_count, 0);
    release(&dataset, &notes);

    made_open(&trace, "dataset_bench.dlt", "bench", "tiny");
    made_sample(&trace, "lokc", (dl_record){.threads = 2, .duration_ns = 70});
    made_close(&trace);
    check_refused(NULL, "dataset_bench.dlt", DL_ERR_NAME, "lock");
    made_open(&trace, "dataset_bench.dlt", "bench", "tiny");
    made_sample(&trace, "step", (dl_record){.vectors = 2, .samples = 8, .duration_ns = 900});
    made_close(&trace);
    check_refused(NULL, "dataset_bench.dlt", DL_ERR_DATA, "number of copies");
}

/* Two bench traces with different numbers of cores are rejected. */
static void test_bench_cores(void **state DL_UNUSED)
{
    made_trace trace;
    made_open(&trace, "dataset_two.dlt", "bench", "tiny");
    made_sample(&trace, "lock", (dl_record){.threads = 2, .duration_ns = 70});
    made_close(&trace);
    made_open(&trace, "dataset_four.dlt", "bench", "tiny");
    dl_trace_writer_meta(trace.writer, "cores", "4");
    made_sample(&trace, "lock", (dl_record){.threads = 2, .duration_ns = 70});
    made_close(&trace);
    check_refused("dataset_two.dlt", "dataset_four.dlt", DL_ERR_DATA, "is from 4 cores");
    made_train("dataset_ok.dlt", 10, 20, &steady, 1);
    dl_dataset dataset = {0};
    dl_notes notes = {0};
    assert_int_equal(dl_dataset_add(&dataset, "dataset_ok.dlt", &notes, NULL), DL_OK);
    assert_int_equal(dl_dataset_add(&dataset, "dataset_four.dlt", &notes, NULL), DL_OK);
    assert_int_equal(dataset.cores, 4);
    release(&dataset, &notes);
}

/* One of the three runs of batch 4 was disturbed and is dropped. Both runs of batch 8 were
 * disturbed and are kept, with notes. No whole bench was disturbed, but one of the two snapshots
 * was. */
static void test_disturbed_traces_are_left_out(void **state DL_UNUSED)
{
    const int64_t batch[] = {4, 4, 4, 8, 8}, disturbed[] = {0, 101, 100, 500, 600};
    dl_dataset dataset = {0};
    dl_notes notes = {0};
    dataset.runs = dl_calloc(5, sizeof *dataset.runs, "runs");
    dataset.benches = dl_calloc(4, sizeof *dataset.benches, "benches");
    for (int r = 0; r < 5; r++) {
        dataset.runs[dataset.run_count++] =
            (dl_step_run){.path = dl_strdup("run"), .batch = batch[r], .disturbed = disturbed[r]};
    }
    for (int b = 0; b < 4; b++) {
        dataset.benches[dataset.bench_count++] = (dl_bench_trace){
            .path = dl_strdup("bench"), .snapshot = b >= 2, .disturbed = b == 2 ? 300 : 0};
    }
    dl_dataset_leave_out_disturbed(&dataset, &notes);
    assert_int_equal(dataset.run_count, 4);
    assert_int_equal(dataset.runs[1].disturbed, 100);
    assert_int_equal(dataset.runs[3].disturbed, 600);
    assert_int_equal(dataset.bench_count, 3);
    assert_true(dataset.benches[2].snapshot && dataset.benches[2].disturbed == 0);
    assert_int_equal(notes.count, 3);
    assert_contains(notes.lines[0],
                    "1 of 3 runs of batch 4 ran while other programs took over 10 % of the "
                    "processors: left out");
    assert_contains(notes.lines[1], "2 of 2 runs of batch 8");
    assert_contains(notes.lines[1], "kept, as most did");
    assert_contains(notes.lines[2], "1 of 2 snapshots");
    release(&dataset, &notes);
}

/* Batches 30, 10, 30: two sizes, ascending. */
static void test_batches(void **state DL_UNUSED)
{
    dl_dataset dataset = {0};
    dl_notes notes = {0};
    const uint32_t sizes[] = {30, 10, 30};
    for (int i = 0; i < 3; i++) {
        made_train("dataset_a.dlt", sizes[i], 5, &steady, 1);
        assert_int_equal(dl_dataset_add(&dataset, "dataset_a.dlt", &notes, NULL), DL_OK);
    }
    size_t count;
    DL_AUTOFREE int64_t *batches = dl_dataset_batches(&dataset, &count);
    assert_int_equal(count, 2);
    assert_true(batches[0] == 10 && batches[1] == 30);
    release(&dataset, &notes);
    assert_string_equal(dl_base_name("a/b/c.dlt"), "c.dlt");
    assert_string_equal(dl_base_name("c.dlt"), "c.dlt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_traces_are_of),
        cmocka_unit_test(test_incomplete_trace_is_used),
        cmocka_unit_test(test_what_does_not_fit_together),
        cmocka_unit_test(test_what_lacks_data),
        cmocka_unit_test(test_bench_samples),
        cmocka_unit_test(test_bench_cores),
        cmocka_unit_test(test_disturbed_traces_are_left_out),
        cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
