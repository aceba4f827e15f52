/* Steps, critical path and what-if changes for a hand-made trace. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "calibrate/replay/report.h"
#include "tests/calibrate/replay_trace.h"

/* Two steps of 400 us each, at 0 and 400: the host launches a gemm of 300 us and an all-reduce of
 * 60 us on stream 8 that waits for it, waits for the device, and computes until the next step.
 * Launch latency is 5 us.
 *   launch 0-4, gemm 5-305, record, wait, launch 8-12, all-reduce 305-365, sync 12-370, host 30 us.
 * The last gemm, at 800, ends the second step. */
static dl_trace two_steps(void)
{
    dl_trace trace = hand_trace();
    const char *nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";
    for (uint32_t i = 0; i < 2; i++) {
        int64_t at = 400 * i;
        uint32_t id = 10 * i;
        replay_call(&trace, 1, "cudaLaunchKernel", at, 4, id + 1);
        replay_kernel(&trace, 7, "sgemm", at + 5, 300, id + 1);
        replay_call(&trace, 1, "cudaEventRecord", at + 4, 2, id + 2);
        replay_call(&trace, 1, "cudaStreamWaitEvent", at + 6, 2, id + 3);
        replay_call(&trace, 1, "cudaLaunchKernel", at + 8, 4, id + 4);
        replay_kernel(&trace, 8, nccl, at + 305, 60, id + 4);
        replay_call(&trace, 1, "cudaDeviceSynchronize", at + 12, 358, id + 5);
    }
    replay_call(&trace, 1, "cudaLaunchKernel", 800, 4, 90);
    replay_kernel(&trace, 7, "sgemm", 805, 300, 90);
    return trace;
}

/* Steps as step detection would find them: records 1, 5 | 8, 12 | 15 of the trace. */
static dl_activity_steps given_steps(void)
{
    static const size_t work[] = {1, 5, 8, 12, 15};
    dl_activity_steps found = {.lines = dl_calloc(1, sizeof *found.lines, "test"), .count = 1};
    dl_step_line *line = found.lines;
    line->work = dl_calloc(5, sizeof *line->work, "test");
    memcpy(line->work, work, sizeof work);
    line->work_count = 5;
    line->count = 3;
    line->steps = dl_calloc(3, sizeof *line->steps, "test");
    for (size_t i = 0; i < 3; i++) {
        line->steps[i].first = 2 * i;
        line->steps[i].count = i < 2 ? 2 : 1;
        line->steps[i].label = i < 2 ? DL_STEP_REGULAR : DL_STEP_OTHER;
    }
    return found;
}

static void test_steps_and_path(void **state DL_UNUSED)
{
    dl_trace trace = two_steps();
    DL_SCOPED(replayed) r = replay_trace(&trace);
    DL_SCOPED(dl_activity_steps) found = given_steps();
    DL_SCOPED(dl_replay_report) report = {0};
    dl_replay_report_init(&report, &r.run, &found, r.times);
    assert_int_equal(report.steps.count, 3);
    assert_int_equal(report.steps.items[0].recorded_ns, 400000);
    assert_int_equal(report.steps.items[0].replayed_ns, 400000);
    assert_int_equal(report.steps.items[1].replayed_ns, 400000);
    assert_int_equal(report.steps.items[2].replayed_ns, 300000);
    assert_int_equal(report.regular, 2);
    assert_true(report.worst_error == 0);
    /* gemm 300, all-reduce 60, 5 us in the waiting call after it, 30 host, 5 launch latency. */
    assert_int_equal(report.path_ns[DL_PATH_KERNEL + DL_KERNEL_GEMM], 300000);
    assert_int_equal(report.path_ns[DL_PATH_KERNEL + DL_KERNEL_COLLECTIVE], 60000);
    assert_int_equal(report.path_ns[DL_PATH_CALL], 5000);
    assert_int_equal(report.path_ns[DL_PATH_HOST], 30000);
    assert_int_equal(report.path_ns[DL_PATH_LAUNCH], 5000);
    assert_int_equal(report.run->waits_of_devices.count, 0);
}

static void check_change(const char *what, double factor, int64_t step_ns)
{
    dl_trace trace = two_steps();
    DL_SCOPED(replayed) r = replay_trace(&trace);
    DL_SCOPED(dl_activity_steps) found = given_steps();
    DL_SCOPED(dl_replay_report) report = {0};
    dl_replay_report_init(&report, &r.run, &found, r.times);
    dl_error err = {0};
    assert_int_equal(dl_replay_scale(&r.run, what, factor, NULL, &err), DL_OK);
    replay_again(&r);
    dl_replay_report_change(&report, &found, r.times);
    assert_int_equal(report.changed.items[0].replayed_ns, step_ns);
    assert_int_equal(report.steps.items[0].replayed_ns, 400000);
}

static void test_what_if(void **state DL_UNUSED)
{
    check_change("gemm", 2, 700000);
    check_change("sgemm", 0.5, 250000); /* by name */
    check_change("kernel", 2, 700000);  /* not the collective */
    check_change("collective", 0, 340000);
    check_change("host", 0, 370000);
    check_change("call", 3, 410000);
    check_change("launch", 2, 405000);
    /* Without device work, the step is 12 us of calls, the last kernel's latency after its launch,
     * 5 us of the waiting call, 30 us of host: the all-reduce launched at 8 ends at 13. */
    dl_trace trace = two_steps();
    DL_SCOPED(replayed) r = replay_trace(&trace);
    dl_error err = {0};
    size_t changed = 0;
    assert_int_equal(dl_replay_scale(&r.run, "kernel", 0, &changed, &err), DL_OK);
    assert_int_equal(changed, 3);
    assert_int_equal(dl_replay_scale(&r.run, "collective", 0, &changed, &err), DL_OK);
    assert_int_equal(changed, 2);
    replay_again(&r);
    assert_int_equal(replayed_us(&r, 7), 48);
    assert_int_equal(dl_replay_scale(&r.run, "gem", 2, &changed, &err), DL_OK);
    assert_int_equal(dl_replay_scale(&r.run, "convolutoin", 2, NULL, &err), DL_ERR_USAGE);
    assert_contains(err.text, "did you mean 'convolution'");
}

static void test_parse(void **state DL_UNUSED)
{
    char *what = NULL;
    double factor = 0;
    dl_error err = {0};
    assert_int_equal(dl_replay_parse_scale("a=b=0.5", &what, &factor, &err), DL_OK);
    assert_string_equal(what, "a=b");
    assert_true(factor == 0.5);
    free(what);
    const char *const wrong[] = {"gemm", "=2", "gemm=", "gemm=2x", "gemm=-1", "gemm=nan", "a=1e9"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(dl_replay_parse_scale(wrong[i], &what, &factor, &err), DL_ERR_USAGE);
    }
}

/* A device without steps is one step, from its first work to its last end. */
static void test_without_steps(void **state DL_UNUSED)
{
    dl_trace trace = two_steps();
    DL_SCOPED(replayed) r = replay_trace(&trace);
    DL_SCOPED(dl_activity_steps) found = given_steps();
    found.lines[0].count = 0;
    DL_SCOPED(dl_replay_report) report = {0};
    dl_replay_report_init(&report, &r.run, &found, r.times);
    assert_int_equal(report.steps.count, 1);
    assert_true(report.steps.items[0].whole);
    assert_int_equal(report.steps.items[0].recorded_ns, 1100000);
    assert_int_equal(report.steps.items[0].replayed_ns, 1100000);
    assert_int_equal(report.regular, 1);
    double sum_ns = 0;
    for (int i = 0; i < DL_PATH_END; i++)
        sum_ns += report.path_ns[i];
    assert_int_equal(sum_ns, 1100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_and_path),
        cmocka_unit_test(test_what_if),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_without_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
