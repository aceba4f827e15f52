#include "calibrate/recording_cost.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "tests/check.h"

/* A trace in memory with the meta keys of `pairs`, key and value in turn up to NULL. */
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
    dl_trace trace = make_trace(pairs);
    const dl_status status = dl_recording_cost_take(dataset, &trace, err);
    dl_trace_free(&trace);
    return status;
}

/* Two operations and dispatch: 100, 300, 50 ns; 5 records. */
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
    dl_notes notes = {0};
    add_run(&dataset);
    dl_recording_cost_subtract(&dataset, &notes);
    const dl_step_run *run = &dataset.runs[0];
    assert_true(fabs(run->step_ns[0] - expected[0]) < 1e-9);
    for (int op = 0; op < 3; op++)
        assert_true(fabs(run->op_ns[op] - expected[op + 1]) < 1e-9);
    assert_int_equal(notes.count, 1);
    assert_contains(notes.lines[0], says);
    dl_notes_free(&notes);
    dl_dataset_free(&dataset);
}

/* 5 x 8 = 40 ns fit into dispatch; 5 x 18 = 90 take all 50 of it and a tenth of the operations;
 * what may as well be 0 is left alone. */
static void test_cost_comes_off_dispatch_first(void **state)
{
    (void)state;
    subtract(8, 1, (double[]){410, 100, 300, 10}, "8 +- 2 ns a record (400 pairs of runs)");
    subtract(18, 1, (double[]){360, 90, 270, 0}, "20.00 % of their time");
    subtract(8, 5, (double[]){450, 100, 300, 50}, "not told from 0");
}

static void test_nothing_known_is_nothing_done(void **state)
{
    (void)state;
    dl_dataset dataset = {0};
    dl_notes notes = {0};
    add_run(&dataset);
    dl_recording_cost_subtract(&dataset, &notes);
    assert_true(dataset.runs[0].step_ns[0] == 450);
    assert_int_equal(notes.count, 0);
    dl_dataset_free(&dataset);
}

static void test_figures_are_taken_once(void **state)
{
    (void)state;
    static const char *const figures[] = {
        "record_ns", "100",    "record_low_ns", "60.8", "record_high_ns", "139.2", "pairs",
        "400",       "device", "here",          NULL};
    dl_dataset dataset = {.device = dl_strdup("here")};
    dl_error err = {0};
    assert_int_equal(take(&dataset, figures, &err), DL_OK);
    assert_true(dataset.record_ns == 100 && dataset.record_pairs == 400);
    assert_true(fabs(dataset.record_error_ns - 20) < 1e-9);
    assert_int_equal(take(&dataset, figures, &err), DL_ERR_DATA);
    assert_contains(err.text, "says already");
    dl_dataset_free(&dataset);
}

static void test_wrong_figures_are_refused(void **state)
{
    (void)state;
    static const char *const missing[] = {"record_ns", "100", NULL};
    static const char *const no_number[] = {"record_ns", "much", NULL};
    static const char *const elsewhere[] = {
        "record_ns", "100",    "record_low_ns", "90", "record_high_ns", "110", "pairs",
        "9",         "device", "there",         NULL};
    dl_dataset dataset = {.device = dl_strdup("here")};
    dl_error err = {0};
    assert_int_equal(take(&dataset, missing, &err), DL_ERR_DATA);
    assert_contains(err.text, "record_low_ns");
    assert_int_equal(take(&dataset, no_number, &err), DL_ERR_PARSE);
    assert_int_equal(take(&dataset, elsewhere, &err), DL_ERR_DATA);
    assert_contains(err.text, "'there'");
    dl_dataset_free(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_comes_off_dispatch_first),
        cmocka_unit_test(test_nothing_known_is_nothing_done),
        cmocka_unit_test(test_figures_are_taken_once),
        cmocka_unit_test(test_wrong_figures_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
