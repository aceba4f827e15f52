#include "calibrate/dataset.h"

#include <math.h>

#include "tests/calibrate/calibrate_traces.h"
#include "tests/check.h"

static const made_variation steady = {0, 0, 0};

/* Adds the run of one file; after an expected failure the data set may only be freed. */
static dl_status add(dl_dataset *dataset, const char *path, dl_notes *notes, dl_error *err)
{
    DL_SCOPED(dl_trace) trace = {0};
    assert_int_equal(dl_trace_read(&trace, path, NULL), DL_OK);
    return dl_step_run_add(dataset, &trace, notes, err);
}

static dl_status add_first(dl_dataset *dataset, const char *path, dl_notes *notes)
{
    *dataset = (dl_dataset){0};
    *notes = (dl_notes){0};
    return add(dataset, path, notes, NULL);
}

static void release(dl_dataset *dataset, dl_notes *notes)
{
    dl_dataset_free(dataset);
    dl_notes_free(notes);
}

/* Expects that the run of `path` after that of `first` (NULL: alone) is rejected with `text`. */
static void check_refused(const char *first, const char *path, const char *text)
{
    dl_dataset dataset = {0};
    dl_notes notes = {0};
    dl_error err = {0};
    if (first != NULL) assert_int_equal(add(&dataset, first, &notes, NULL), DL_OK);
    assert_int_equal(add(&dataset, path, &notes, &err), DL_ERR_DATA);
    assert_contains(err.text, text);
    assert_contains(err.file, path);
    release(&dataset, &notes);
}

/* Three steps of batch 10: input 2000, forward 70000, backward 150000, update 50000, and 400 ns
 * without a record: 272400 ns per step. */
static void test_steps_become_operations(void **state DL_UNUSED)
{
    made_train("step_runs_a.dlt", 10, 3, &steady, 1);
    dl_dataset dataset;
    dl_notes notes;
    assert_int_equal(add_first(&dataset, "step_runs_a.dlt", &notes), DL_OK);
    static const char *const names[] = {"input", "fc.forward", "fc.backward", "fc.update",
                                        "dispatch"};
    static const double times_ns[] = {2000, 70000, 150000, 50000, 400};
    assert_int_equal(dataset.op_count, 5);
    assert_int_equal(dataset.run_count, 1);
    assert_int_equal(dataset.runs[0].steps, 3);
    assert_int_equal(dataset.runs[0].batch, 10);
    for (size_t op = 0; op < 5; op++) {
        assert_string_equal(dataset.ops[op], names[op]);
        for (size_t s = 0; s < 3; s++) {
            assert_true(fabs(dataset.runs[0].op_ns[s * 5 + op] - times_ns[op]) < 0.5);
        }
    }
    assert_true(fabs(dataset.runs[0].step_ns[2] - 272400) < 0.5);
    assert_int_equal(notes.count, 0);
    release(&dataset, &notes);
}

/* A first step that takes 20 ms more is warm-up; copies, waits and intentional delays are not part
 * of a step's time. */
static void test_warm_up_and_exchange_are_left_out(void **state DL_UNUSED)
{
    made_trace trace;
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    made_open(&trace, "step_runs_b.dlt", "train", "tiny");
    made_steps(&trace, 10, 30, 20000000, &steady, &random);
    const int64_t start_ns = trace.now_ns;
    const dl_record_kind others[] = {DL_RECORD_COPY, DL_RECORD_WAIT, DL_RECORD_AVERAGE,
                                     DL_RECORD_SLOWDOWN};
    for (int i = 0; i < 4; i++) {
        dl_trace_stream_append(trace.stream, &(dl_record){.kind = others[i],
                                                          .step = 30,
                                                          .start_ns = trace.now_ns,
                                                          .duration_ns = 7000});
        trace.now_ns += 7000;
    }
    const made_op *op = made_ops;
    for (int i = 0; i < MADE_OPS; i++, op++) {
        dl_trace_stream_append(trace.stream,
                               &(dl_record){.kind = op->kind,
                                            .phase = op->phase,
                                            .name = dl_trace_writer_intern(trace.writer, op->name),
                                            .step = 30,
                                            .samples = 10,
                                            .start_ns = trace.now_ns,
                                            .duration_ns = 1000});
        trace.now_ns += 1000;
    }
    dl_trace_stream_append(trace.stream, &(dl_record){.kind = DL_RECORD_STEP,
                                                      .step = 30,
                                                      .samples = 10,
                                                      .start_ns = start_ns,
                                                      .duration_ns = trace.now_ns - start_ns + 5});
    made_close(&trace);
    dl_dataset dataset;
    dl_notes notes;
    assert_int_equal(add_first(&dataset, "step_runs_b.dlt", &notes), DL_OK);
    assert_int_equal(dataset.runs[0].steps, 30);
    assert_true(fabs(dataset.runs[0].step_ns[0] - 272400) < 0.5);
    assert_true(fabs(dataset.runs[0].step_ns[29] - 4005) < 0.5);
    assert_true(fabs(dataset.runs[0].op_ns[29 * 5 + 4] - 5) < 0.5);
    release(&dataset, &notes);
}

/* An operation missing in the first trace; steps that lack one, or with another batch. */
static void test_other_operations(void **state DL_UNUSED)
{
    made_train("step_runs_ok.dlt", 10, 20, &steady, 1);
    made_trace trace;
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    made_open(&trace, "step_runs_ops.dlt", "train", "tiny");
    dl_trace_stream_append(trace.stream,
                           &(dl_record){.kind = DL_RECORD_COMPUTE,
                                        .phase = DL_PHASE_FORWARD,
                                        .name = dl_trace_writer_intern(trace.writer, "conv9"),
                                        .start_ns = 1000000,
                                        .duration_ns = 10});
    dl_trace_stream_append(trace.stream, &(dl_record){.kind = DL_RECORD_STEP,
                                                      .samples = 10,
                                                      .start_ns = 1000000,
                                                      .duration_ns = 20});
    made_close(&trace);
    check_refused("step_runs_ok.dlt", "step_runs_ops.dlt", "'conv9.forward'");

    made_open(&trace, "step_runs_ops.dlt", "train", "tiny");
    made_steps(&trace, 10, 20, 0, &steady, &random);
    made_steps(&trace, 9, 2, 0, &steady, &random);
    made_close(&trace);
    dl_dataset dataset;
    dl_notes notes;
    assert_int_equal(add_first(&dataset, "step_runs_ops.dlt", &notes), DL_OK);
    assert_int_equal(dataset.runs[0].steps, 20);
    assert_int_equal(notes.count, 1);
    assert_contains(notes.lines[0], "2 steps left out");
    release(&dataset, &notes);

    made_open(&trace, "step_runs_ops.dlt", "train", "tiny");
    made_steps(&trace, 10, 2, 0, &steady, &random);
    made_steps(&trace, 9, 20, 0, &steady, &random);
    made_close(&trace);
    check_refused(NULL, "step_runs_ops.dlt", "20 of 22 steps");
}

/* A second worker's record makes it a trace of two workers, regardless of its meta data. */
static void test_second_worker_is_refused(void **state DL_UNUSED)
{
    made_trace trace;
    made_open(&trace, "step_runs_two.dlt", "train", "tiny");
    dl_trace_writer_meta(trace.writer, "workers", "1");
    dl_trace_stream_append(
        trace.stream,
        &(dl_record){.kind = DL_RECORD_STEP, .worker = 1, .samples = 10, .duration_ns = 5});
    made_close(&trace);
    check_refused(NULL, "step_runs_two.dlt", "is of 2 workers");
}

/* Steps with drawn sample counts 10, 20 and 30: only these counts are taken. */
static void test_drawn_steps_are_no_run(void **state DL_UNUSED)
{
    made_trace trace;
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    made_open(&trace, "step_runs_drawn.dlt", "train", "tiny");
    dl_trace_writer_meta(trace.writer, "work", "uniform:0.4");
    for (uint32_t batch = 10; batch <= 30; batch += 10)
        made_steps(&trace, batch, 1, 0, &steady, &random);
    made_close(&trace);
    dl_dataset dataset;
    dl_notes notes;
    assert_int_equal(add_first(&dataset, "step_runs_drawn.dlt", &notes), DL_OK);
    assert_int_equal(dataset.run_count, 0);
    assert_int_equal(dataset.drawn_count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(dataset.drawn[i], 10 * (i + 1));
    release(&dataset, &notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_become_operations),
        cmocka_unit_test(test_warm_up_and_exchange_are_left_out),
        cmocka_unit_test(test_other_operations),
        cmocka_unit_test(test_second_worker_is_refused),
        cmocka_unit_test(test_drawn_steps_are_no_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
