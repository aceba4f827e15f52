/* Reading a recorded step from its file, and errors in the file. */
#include "sim/step/recorded.h"

#include <string.h>

#include "tests/gpu_fixture.h"
#include "tests/refused.h"

#define HEAD "step_1,lane,work_ns,spacing_ns,issue_ns,from,to,lag_ns,value\n"

/* A thread launches a kernel at 0, which a stream runs from 10 to 50, and a kernel of 20 on another
 * stream at 100, for which the first must have ended: streams work 40 + 20 of 120. */
#define BODY                                                      \
    "batch,,,,,,,,32\nupdate,,,,,,,,30\n"                         \
    "lane,,,,,,,,0\nlane,,,,,,,,1\nlane,,,,,,,,1\n"               \
    "task,0,15,0,0,,,,\ntask,1,40,0,0,,,,\ntask,2,20,0,100,,,,\n" \
    "edge,,,,,0,1,10,1\nedge,,,,,1,2,0,0\n"

static dl_status read_text(dl_recorded *recorded, const char *text, dl_error *err)
{
    return dl_recorded_read_text(recorded, "step.csv", text, strlen(text), err);
}

static void test_reads(void **state DL_UNUSED)
{
    dl_recorded r = {0};
    dl_error err = {0};
    assert_int_equal(
        read_text(&r, HEAD BODY "ready,,,,,1,,,300\nready,,,,,2,,,100\nend,,,,,,,,12\n", &err),
        DL_OK);
    assert_int_equal(r.batch, 32);
    assert_true(r.update_ns == 30 && r.done_ns == 120 && r.busy_ns == 60);
    /* 300 of 400 bytes are ready after task 1: any fraction up to three quarters. */
    assert_int_equal(dl_recorded_ready_at(&r, 0.5), 1);
    assert_int_equal(dl_recorded_ready_at(&r, 0.75), 1);
    assert_int_equal(dl_recorded_ready_at(&r, 0.76), 2);
    dl_recorded_free(&r);
    assert_int_equal(read_text(&r, HEAD BODY "end,,,,,,,,10\n", &err), DL_OK);
    assert_int_equal(dl_recorded_ready_at(&r, 0.5), DL_TASK_NONE);
    dl_recorded_free(&r);
}

/* Two nodes exchange 8 MB in two buckets of 4 MB over 1 GB/s, 4 ms each, one after the other. The
 * first half of the gradients is ready at 1 ms, the second at 2 ms, and another stream ends at 6 ms,
 * for which the last bucket waits: 10 ms. Without overlap, 6 + 8 ms. */
static void buckets_start_when_recorded(void **state DL_UNUSED)
{
    static const char step[] =
        HEAD "batch,,,,,,,,1\nupdate,,,,,,,,0\nlane,,,,,,,,1\nlane,,,,,,,,1\n"
             "task,0,1000000,0,0,,,,\ntask,0,1000000,0,0,,,,\ntask,1,6000000,0,0,,,,\n"
             "ready,,,,,0,,,4000000\nready,,,,,1,,,4000000\nend,,,,,,,,9\n";
    char machine[64], trace[64];
    snprintf(machine, sizeof machine, "recorded_%d.ini", (int)getpid());
    snprintf(trace, sizeof trace, "recorded_%d.csv", (int)getpid());
    fixture_write(machine, FIXTURE_NODES("2"));
    fixture_write(trace, step);
    DL_SCOPED(dl_costs) costs = fixture_costs(
        "[costs]\nschema = 1\nparameter_bytes = 8000000\n" FIXTURE_PASSES FIXTURE_UPDATE
            FIXTURE_FREE_DISPATCH "[overlap]\nslowdown = 1\n");
    for (int overlaps = 0; overlaps < 2; overlaps++) {
        DL_SCOPED(dl_scenario) scenario = fixture_scenario(
            "[scenario]\nsteps = 10\n[machine]\nfile = %s\nworkers = 2\n[workload]\ncosts = c.ini\n"
            "trace = %s\nbatch_per_worker = 1\n[sync]\nmode = allreduce\n[exchange]\n"
            "algorithm = ring\nbucket_bytes = 4000000\noverlap = %s\n",
            machine, trace, overlaps ? "yes" : "no");
        DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
        assert_near(1e3 * r.step_mean_s, overlaps ? 10 : 14, 1e-2);
    }
    unlink(machine);
    unlink(trace);
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    DL_SCOPED(dl_recorded) r = {0};
    const dl_status status = read_text(&r, text, err);
    if (status != DL_OK) assert_null(r.program.tasks);
    return status;
}

static void test_refuses(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {"step_2,lane\nbatch,1\n", DL_ERR_PARSE, 1, "step_1"},
        {"step_1,lane\nbatch,1\n", DL_ERR_PARSE, 1, "no column 'work_ns'"},
        {HEAD "batch,,,,,,,,0\n", DL_ERR_RANGE, 2, "at least one sample"},
        {HEAD "kernel,,,,,,,,0\n", DL_ERR_NAME, 2, "unknown row 'kernel'"},
        {HEAD "task,0,1,0,0,,,,\n", DL_ERR_DATA, 2, "before any lane"},
        {HEAD "lane,,,,,,,,2\n", DL_ERR_RANGE, 2, "value = '2'"},
        {HEAD "lane,,,,,,,,1\ntask,1,1,0,0,,,,\n", DL_ERR_RANGE, 3, "lane = '1'"},
        {HEAD "lane,,,,,,,,1\ntask,0,-1,0,0,,,,\n", DL_ERR_RANGE, 3, "work_ns = '-1'"},
        {HEAD "lane,,,,,,,,1\ntask,0,,0,0,,,,\n", DL_ERR_RANGE, 3, "work_ns = ''"},
        {HEAD BODY "edge,,,,,3,0,0,0\n", DL_ERR_RANGE, 12, "from = '3'"},
        {HEAD BODY "edge,,,,,2,0,0,0\nend,,,,,,,,11\n", DL_ERR_DATA, 0, "wait for one another"},
        {HEAD BODY "ready,,,,,1,,,0\n", DL_ERR_RANGE, 12, "no bytes"},
        {HEAD BODY "task,0,9007199254740991,0,0,,,,\nend,,,,,,,,11\n", DL_ERR_RANGE, 0, "104 days"},
        {HEAD BODY, DL_ERR_DATA, 0, "no end: the file is cut short"},
        {HEAD BODY "end,,,,,,,,9\n", DL_ERR_DATA, 12, "rows are missing"},
        {HEAD BODY "end,,,,,,,,10\nlane,,,,,,,,0\n", DL_ERR_DATA, 12, "too many"},
        {HEAD "batch,,,,,,,,8\n", DL_ERR_DATA, 0, "no tasks: the file is cut short"},
        {HEAD "lane,,,,,,,,1\ntask,0,1,0,0,,,,\n", DL_ERR_DATA, 0, "no batch"},
    };
    assert_all_refused(cases, "step.csv", read_wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads),
                                       cmocka_unit_test(buckets_start_when_recorded),
                                       cmocka_unit_test(test_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
