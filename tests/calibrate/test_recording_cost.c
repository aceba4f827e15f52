#include "calibrate/dataset.h"

#include <math.h>
#include <stdlib.h>

#include "tests/check.h"

/* Returns a trace in memory with meta keys from `pairs`, alternating key and value,
 * NULL-terminated. */
static dl_trace make_trace(const char *const *pairs)
{
    dl_trace trace = {.path = dl_strdup("overhead.dlt")};
    for (; pairs[2 * trace.meta_count] != NULL; trace.meta_count++) {}
    trace.meta = dl_calloc(2 * trace.meta_count, sizeof *trace.meta, "meta");
    for (size_t i = 0; i < 2 * trace.meta_count; i++)
        trace.meta[i] = dl_strdup(pairs[i]);
    return trace;
}

static dl_status take(dl_dataset *dataset, const char *const *pairs, dl_error *err)
{
    DL_SCOPED(dl_trace) trace = make_trace(pairs);
    return dl_recording_cost_take(dataset, &trace, err);
}

/* Adds a run of two operations and dispatch: 100, 300, 50 ns; 5 records. */
static void add_run(dl_dataset *dataset)
{
    dataset->op_count = 3;
    dataset->ops = dl_calloc(3, sizeof *dataset->ops, "operations");
    dataset->runs = dl_calloc(1, sizeof *dataset->runs, "runs");
    dataset->run_count = 1;
    dl_step_run *run = &dataset->runs[0];
    *run = (dl_step_run){.path = dl_strdup("run"),
                         .steps = 1,
                         .step_ns = dl_calloc(1, sizeof(double), "steps"),
                         .op_ns = dl_calloc(3, sizeof(double), "operations"),
                         .records = dl_calloc(1, sizeof(double), "records")};
    run->step_ns[0] = 450;
    run->op_ns[0] = 100;
    run->op_ns[1] = 300;
    run->op_ns[2] = 50;
    run->records[0] = 5;
}

static void subtract(double record_ns, double error_ns, double expected[4], const char *says)
{
    dl_dataset dataset = {.record_ns = record_ns, .record_error_ns = error_ns, .record_pairs = 400};
    DL_SCOPED(dl_notes) notes = {0};
    add_run(&dataset);
    dl_recording_cost_subtract(&dataset, &notes);
    const dl_step_run *run = &dataset.runs[0];
    assert_true(fabs(run->step_ns[0] - expected[0]) < 1e-9);
    for (int op = 0; op < 3; op++)
        assert_true(fabs(run->op_ns[op] - expected[op + 1]) < 1e-9);
    assert_int_equal(notes.count, 1);
    assert_contains(notes.lines[0], says);
    dl_dataset_free(&dataset);
}

/* 5 x 8 = 40 ns fit into dispatch; 5 x 18 = 90 take all 50 of it and a tenth of the operations; a
 * cost not distinguishable from 0 is not subtracted. */
static void test_cost_comes_off_dispatch_first(void **state DL_UNUSED)
{
    subtract(8, 1, (double[]){410, 100, 300, 10}, "8 +- 2 ns per record (400 pairs of runs)");
    subtract(18, 1, (double[]){360, 90, 270, 0}, "20.00 % of their time");
    subtract(8, 5, (double[]){450, 100, 300, 50}, "not distinguishable from 0");
}

static void test_nothing_known_is_nothing_done(void **state DL_UNUSED)
{
    DL_SCOPED(dl_dataset) dataset = {0};
    dl_notes notes = {0};
    add_run(&dataset);
    dl_recording_cost_subtract(&dataset, &notes);
    assert_true(dataset.runs[0].step_ns[0] == 450);
    assert_int_equal(notes.count, 0);
}

static void test_figures_are_taken_once(void **state DL_UNUSED)
{
    static const char *const figures[] = {
        "record_ns", "100",    "record_low_ns", "60.8", "record_high_ns", "139.2", "pairs",
        "400",       "device", "here",          NULL};
    DL_SCOPED(dl_dataset) dataset = {.device = dl_strdup("here")};
    dl_error err = {0};
    assert_int_equal(take(&dataset, figures, &err), DL_OK);
    assert_true(dataset.record_ns == 100 && dataset.record_pairs == 400);
    assert_true(fabs(dataset.record_error_ns - 20) < 1e-9);
    assert_int_equal(take(&dataset, figures, &err), DL_ERR_DATA);
    assert_contains(err.text, "already gives the cost");
}

static void test_wrong_figures_are_refused(void **state DL_UNUSED)
{
    static const char *const missing[] = {"record_ns", "100", NULL};
    static const char *const no_number[] = {"record_ns", "much", NULL};
    static const char *const elsewhere[] = {
        "record_ns", "100",    "record_low_ns", "90", "record_high_ns", "110", "pairs",
        "9",         "device", "there",         NULL};
    DL_SCOPED(dl_dataset) dataset = {.device = dl_strdup("here")};
    dl_error err = {0};
    assert_int_equal(take(&dataset, missing, &err), DL_ERR_DATA);
    assert_contains(err.text, "record_low_ns");
    assert_int_equal(take(&dataset, no_number, &err), DL_ERR_PARSE);
    assert_int_equal(take(&dataset, elsewhere, &err), DL_ERR_DATA);
    assert_contains(err.text, "'there'");
}

static const char *const process[] = {"host", "node1", "pid", "77", NULL};

static dl_status take_run(dl_dataset *dataset, const char *cost, int launches, dl_error *err)
{
    const char *const pairs[] = {"host", "node1", "pid", "77", "capture_cost", cost, NULL};
    DL_SCOPED(dl_trace) trace = make_trace(pairs);
    trace.string_count = 3;
    trace.strings = dl_calloc(3, sizeof *trace.strings, "test");
    trace.strings[0] = dl_strdup("");
    trace.strings[1] = dl_strdup("gemm");
    trace.strings[2] = dl_strdup("step");
    /* Steps of 1 us marked by ranges, each with `launches` kernels. */
    trace.activities = dl_calloc(10 * ((size_t)launches + 1), sizeof *trace.activities, "test");
    for (int step = 0; step < 10; step++) {
        const int64_t at_ns = 1000 * (step + 1);
        trace.activities[trace.activity_count++] = (dl_activity){
            .kind = DL_ACTIVITY_RANGE, .name = 2, .start_ns = at_ns, .duration_ns = 990};
        for (int i = 0; i < launches; i++)
            trace.activities[trace.activity_count++] =
                (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                              .name = 1,
                              .correlation = (uint32_t)(10 * step + i + 1),
                              .start_ns = at_ns + 100 * i,
                              .duration_ns = 50};
    }
    return dl_recording_cost_take_run(dataset, &trace, err);
}

#define FIGURES(kernel)                                                                     \
    "kernel " kernel "; copy 1 1 1; event 1 1 1; sync 1 1 1; record 1 1 1; repetitions 6; " \
    "host node1; device A GPU"

/* Checks the steps of the run (450 ns, 50 of it dispatch) after applying the cost in the trace of
 * dlprof run. */
static void capture(const char *cost, double step_ns, double dispatch_ns, const char *says)
{
    DL_SCOPED(dl_dataset) dataset = {0};
    DL_SCOPED(dl_notes) notes = {0};
    dl_error err = {0};
    add_run(&dataset);
    DL_SCOPED(dl_trace) trace = make_trace(process);
    dataset.runs[0].process = dl_recording_process(&trace);
    dataset.runs[0].captured = dl_strdup("default");
    if (cost != NULL && take_run(&dataset, cost, 4, &err) != DL_OK) fail_msg("%s", err.text);
    dl_recording_cost_subtract(&dataset, &notes);
    assert_int_equal(notes.count, 1);
    assert_contains(notes.lines[0], says);
    const dl_step_run *run = &dataset.runs[0];
    assert_true(fabs(run->step_ns[0] - step_ns) < 1e-9);
    assert_true(fabs(run->op_ns[2] - dispatch_ns) < 1e-9);
    assert_true(run->op_ns[0] == 100 && run->op_ns[1] == 300);
}

/* Four kernels per step at 10 ns are 40 ns; at 20 ns they exceed dispatch. */
static void test_capture_comes_off_dispatch_alone(void **state DL_UNUSED)
{
    capture(FIGURES("10 9 11"), 410, 10,
            "recorded by dlprof run (default): 40 ns per step (95 % interval 36 to 44) for 4 "
            "launches; taken off dispatch 8.89 %");
    capture(FIGURES("20 18 22"), 400, 0, "80 ns per step");
    capture(FIGURES("10 -1 20"), 450, 50, "not distinguishable from 0");
}

static void test_unknown_capture_is_told(void **state DL_UNUSED)
{
    capture("unknown (no GPU)", 450, 50, "an unknown time: unknown (no GPU)");
    capture(NULL, 450, 50, "give the trace of dlprof run too");
}

static void test_run_must_say_its_process(void **state DL_UNUSED)
{
    static const char *const nothing[] = {"kind", "run", NULL};
    DL_SCOPED(dl_dataset) dataset = {0};
    dl_error err = {0};
    DL_SCOPED(dl_trace) trace = make_trace(nothing);
    assert_int_equal(dl_recording_cost_take_run(&dataset, &trace, &err), DL_ERR_DATA);
    assert_contains(err.text, "of which process");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_comes_off_dispatch_first),
        cmocka_unit_test(test_nothing_known_is_nothing_done),
        cmocka_unit_test(test_figures_are_taken_once),
        cmocka_unit_test(test_wrong_figures_are_refused),
        cmocka_unit_test(test_capture_comes_off_dispatch_alone),
        cmocka_unit_test(test_unknown_capture_is_told),
        cmocka_unit_test(test_run_must_say_its_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
