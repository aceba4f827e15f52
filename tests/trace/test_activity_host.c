#include "tests/check.h"

#include "trace/activity/summary.h"

enum { LAUNCH = 1, SYNC, DRIVER, STREAM, FLUSH, TEXTS };
static char texts[TEXTS][32] = {
    "", "cudaLaunchKernel", "cudaStreamSynchronize", "cuLaunchKernel", "stream", "flush"};

static dl_activity activity(dl_activity_kind kind, uint32_t name, uint32_t thread, int64_t start_ns,
                            int64_t end_ns)
{
    return (dl_activity){.kind = (uint8_t)kind,
                         .name = name,
                         .thread = thread,
                         .start_ns = start_ns,
                         .duration_ns = end_ns - start_ns};
}

/* Thread 1: launch [0, 10) with a nested driver launch [2, 8), wait [20, 50), launches [50, 52),
 * [53, 55). Thread 2: wait [5, 15). Time in calls: 10 + 30 + 2 + 2 + 10 = 54 ns, 40 of it waits.
 * Launches of 10, 2 and 2. */
static void test_sums(void **state DL_UNUSED)
{
    char *strings[TEXTS];
    for (int i = 0; i < TEXTS; i++)
        strings[i] = texts[i];
    const dl_activity activities[] = {activity(DL_ACTIVITY_CALL, SYNC, 1, 20, 50),
                                      activity(DL_ACTIVITY_CALL, LAUNCH, 1, 0, 10),
                                      activity(DL_ACTIVITY_CALL, DRIVER, 1, 2, 8),
                                      activity(DL_ACTIVITY_CALL, SYNC, 2, 5, 15),
                                      activity(DL_ACTIVITY_CALL, LAUNCH, 1, 50, 52),
                                      activity(DL_ACTIVITY_CALL, LAUNCH, 1, 53, 55),
                                      activity(DL_ACTIVITY_SYNC, STREAM, 0, 21, 49),
                                      activity(DL_ACTIVITY_OVERHEAD, FLUSH, 3, 0, 7),
                                      activity(DL_ACTIVITY_KERNEL, LAUNCH, 0, 0, 9)};
    dl_activity_host host = {0};
    dl_activity_host_init(&host, activities, 9, strings, TEXTS);
    assert_float_equal(host.call_ns, 54, 0);
    assert_float_equal(host.sync_call_ns, 40, 0);
    assert_int_equal(host.calls.count, 3);
    const dl_host_summary *sync = &host.calls.items[0], *launch = &host.calls.items[1];
    assert_string_equal(sync->name, "cudaStreamSynchronize");
    assert_int_equal(sync->count, 2);
    assert_float_equal(sync->total_ns, 40, 0);
    assert_float_equal(sync->p50_ns, 20, 0);
    assert_float_equal(sync->longest_ns, 30, 0);
    assert_string_equal(launch->name, "cudaLaunchKernel");
    assert_int_equal(launch->count, 3);
    assert_float_equal(launch->total_ns, 14, 0);
    assert_float_equal(launch->p50_ns, 2, 0);
    assert_float_equal(launch->longest_ns, 10, 0);
    assert_string_equal(host.calls.items[2].name, "cuLaunchKernel");
    assert_int_equal(host.syncs.count, 1);
    assert_float_equal(host.syncs.items[0].total_ns, 28, 0);
    assert_int_equal(host.overheads.count, 1);
    assert_string_equal(host.overheads.items[0].name, "flush");
    dl_activity_host_free(&host);
    dl_activity_host_init(&host, NULL, 0, strings, TEXTS);
    assert_int_equal(host.calls.count, 0);
    assert_float_equal(host.call_ns, 0, 0);
    dl_activity_host_free(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
