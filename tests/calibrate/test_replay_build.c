/* Graphs of hand-made traces with known replays. All begin with a launch at 0 on an idle device:
 * launch latency is 5 us, spacing 1 us. */
#include "tests/check.h"

#include <stdlib.h>

#include "calibrate/replay/external.h"
#include "calibrate/replay/graph.h"
#include "tests/calibrate/replay_trace.h"

/* Three launches of 10 us run ahead of kernels of 100, 50 and 70 us, then the host waits:
 *   k0 5-105, k1 106-156, k2 157-227, cudaDeviceSynchronize 40-230. */
static replayed device_bound(uint32_t kernels[3], uint32_t *sync)
{
    static dl_trace trace;
    trace = hand_trace();
    const int64_t starts_us[] = {5, 106, 157}, us[] = {100, 50, 70};
    for (uint32_t i = 0; i < 3; i++) {
        replay_call(&trace, 1, "cudaLaunchKernel", 10 * i, 10, i + 1);
        kernels[i] = replay_kernel(&trace, 7, i == 1 ? "b" : "a", starts_us[i], us[i], i + 1);
    }
    *sync = replay_call(&trace, 1, "cudaDeviceSynchronize", 40, 190, 9);
    return replay_trace(&trace);
}

static void test_device_bound(void **state DL_UNUSED)
{
    uint32_t k[3], sync;
    DL_SCOPED(replayed) r = device_bound(k, &sync);
    assert_int_equal(replayed_us(&r, k[0]), 5);
    assert_int_equal(replayed_us(&r, k[1]), 106);
    assert_int_equal(replayed_us(&r, k[2]), 157);
    assert_int_equal(replayed_end_us(&r, sync), 230);
    /* On the critical path: the added time delays all later work. */
    replayed_node(&r, k[1])->duration_ns *= 2;
    replay_again(&r);
    assert_int_equal(replayed_us(&r, k[2]), 207);
    assert_int_equal(replayed_end_us(&r, sync), 280);
    /* Without the wait the call takes only the 3 us after it: 40-43. */
    replayed_without(&r, DL_REPLAY_SYNC);
    assert_int_equal(replayed_end_us(&r, sync), 43);
}

/* Slow launches with 40 us between them and short kernels: the device's gaps come from the host. */
static void test_host_bound(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    uint32_t calls[3], kernels[3];
    for (uint32_t i = 0; i < 3; i++) {
        calls[i] = replay_call(&trace, 1, "cudaLaunchKernel", 50 * i, 10, i + 1);
        kernels[i] = replay_kernel(&trace, 7, "k", 50 * i + LATENCY, 20, i + 1);
    }
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_us(&r, kernels[2]), 105);
    replayed_node(&r, kernels[0])->duration_ns *= 2; /* hidden */
    replay_again(&r);
    assert_int_equal(replayed_us(&r, kernels[2]), 105);
    replayed_node(&r, calls[0])->duration_ns *= 2; /* not hidden */
    replay_again(&r);
    assert_int_equal(replayed_us(&r, kernels[2]), 115);
}

/* The second kernel starts 500 us after all possible causes: no wait, no event. Replay drops the
 * gap unless told to keep it. */
static void test_unexplained(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 10, 1);
    replay_call(&trace, 1, "cudaLaunchKernel", 10, 10, 2);
    const uint32_t first = replay_kernel(&trace, 7, "k", 5, 100, 1);
    uint32_t late = replay_kernel(&trace, 7, "k", 605, 10, 2);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_us(&r, late), 105); /* no spacing was observed */
    int64_t *earliest_ns = dl_calloc(r.run.graph.node_count, sizeof *earliest_ns, "test");
    dl_replay_earliest_starts(&r.run.graph, earliest_ns);
    assert_int_equal(earliest_ns[r.run.ranks[0].node_of[late]], 105000);
    free(earliest_ns);
    assert_int_equal(r.run.waits_of_devices.count, 1);
    assert_int_equal(r.run.waits_of_devices.total_ns, 500000);
    assert_string_equal(r.run.waits_of_devices.where, "k");
    /* If kept, it is a wait of the stream: 500 us after the previous kernel, however long that
     * takes. */
    dl_external_use(&r.run, DL_EXTERNAL_KEEP);
    r.times = dl_realloc(r.times, r.run.graph.node_count, sizeof *r.times, "test");
    replay_again(&r);
    assert_int_equal(replayed_us(&r, late), 605);
    replayed_node(&r, first)->duration_ns *= 2;
    replay_again(&r);
    assert_int_equal(replayed_us(&r, late), 705);
    dl_external_use(&r.run, DL_EXTERNAL_REMOVE);
    replay_again(&r);
    assert_int_equal(replayed_us(&r, late), 205);
}

/* Kernels without launches only follow their stream; a launch without a kernel is counted. */
static void test_missing_launches(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    uint32_t first = replay_kernel(&trace, 7, "k", 30, 10, 0);
    uint32_t second = replay_kernel(&trace, 7, "k", 41, 10, 88);
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 10, 1);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_us(&r, first), 30);
    assert_int_equal(replayed_us(&r, second), 41);
    assert_int_equal(r.run.ranks[0].unlaunched, 2);
    assert_int_equal(r.run.ranks[0].launches_without, 1);
    assert_int_equal(r.run.ranks[0].launch_calls, 1);
}

/* A kernel on stream 7, an event recorded after it, another kernel on stream 8 behind a wait for
 * the event, and one more on 8 launched last. The result is the same if the trace names the
 * event. */
static replayed two_streams(bool named, uint32_t kernels[3])
{
    static dl_trace trace;
    trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 4, 1);
    kernels[0] = replay_kernel(&trace, 7, "k", 5, 200, 1);
    replay_call(&trace, 1, "cudaEventRecord", 4, 2, 2);
    replay_call(&trace, 1, "cudaStreamWaitEvent", 6, 2, 3);
    replay_call(&trace, 1, "cudaLaunchKernel", 8, 4, 4);
    kernels[1] = replay_kernel(&trace, 8, "k", 205, 20, 4);
    replay_call(&trace, 1, "cudaLaunchKernel", 12, 4, 5);
    kernels[2] = replay_kernel(&trace, 8, "k", 226, 10, 5);
    if (named) {
        dl_activity *event = replay_add(&trace, DL_ACTIVITY_EVENT, "", 5, 0);
        event->stream = 7;
        event->object = 77;
        dl_activity *wait = replay_add(&trace, DL_ACTIVITY_SYNC, "stream wait", 6, 1);
        wait->stream = 8;
        wait->object = 77;
        wait->correlation = 3;
    }
    return replay_trace(&trace);
}

static void test_event(void **state DL_UNUSED)
{
    for (int named = 0; named < 2; named++) {
        uint32_t k[3];
        DL_SCOPED(replayed) r = two_streams(named, k);
        assert_int_equal(
            replayed_edges(&r, DL_REPLAY_EVENT, named ? DL_REPLAY_RECORDED : DL_REPLAY_INFERRED),
            1);
        assert_int_equal(replayed_edges(&r, DL_REPLAY_EVENT, DL_REPLAY_TIMED), 0);
        assert_int_equal(replayed_us(&r, k[1]), 205);
        assert_int_equal(replayed_us(&r, k[2]), 226);
        replayed_node(&r, k[0])->duration_ns += 50000;
        replay_again(&r);
        assert_int_equal(replayed_us(&r, k[2]), 276);
        /* Without the edge, stream 8 runs immediately: launched at 8. */
        replayed_without(&r, DL_REPLAY_EVENT);
        assert_int_equal(replayed_us(&r, k[1]), 8 + LATENCY);
    }
}

/* Streams of two devices with one number: stream 7 of device 1 waits for stream 7 of device 0. */
static void test_event_between_devices(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 4, 1);
    replay_kernel(&trace, 7, "k", 5, 200, 1);
    replay_call(&trace, 1, "cudaEventRecord", 4, 2, 2);
    replay_call(&trace, 1, "cudaStreamWaitEvent", 6, 2, 3);
    replay_call(&trace, 1, "cudaLaunchKernel", 8, 4, 4);
    replay_kernel(&trace, 7, "k", 205, 20, 4);
    trace.activities[trace.activity_count - 1].device = 1;
    dl_activity *event = replay_add(&trace, DL_ACTIVITY_EVENT, "", 5, 0);
    event->stream = 7;
    event->object = 77;
    dl_activity *wait = replay_add(&trace, DL_ACTIVITY_SYNC, "stream wait", 6, 1);
    wait->device = 1;
    wait->stream = 7;
    wait->object = 77;
    wait->correlation = 3;
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_edges(&r, DL_REPLAY_EVENT, DL_REPLAY_RECORDED), 1);
}

/* The wait is for an earlier event: the kernel on 8 starts while the one on 7 runs. */
static void test_refuted_event(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 4, 1);
    replay_kernel(&trace, 7, "k", 5, 2000, 1);
    replay_call(&trace, 1, "cudaEventRecord", 4, 2, 2);
    replay_call(&trace, 1, "cudaStreamWaitEvent", 6, 2, 3);
    replay_call(&trace, 1, "cudaLaunchKernel", 8, 4, 4);
    uint32_t other = replay_kernel(&trace, 8, "k", 8 + LATENCY, 20, 4);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_edges(&r, DL_REPLAY_EVENT, DL_REPLAY_INFERRED), 0);
    assert_int_equal(replayed_us(&r, other), 8 + LATENCY);
}

/* No calls record events, but the kernel on stream 8 starts as that on 7 ends. */
static void test_timed_event(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 4, 1);
    uint32_t first = replay_kernel(&trace, 7, "k", 5, 200, 1);
    replay_call(&trace, 1, "cudaLaunchKernel", 8, 4, 4);
    uint32_t other = replay_kernel(&trace, 8, "k", 207, 20, 4);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_edges(&r, DL_REPLAY_EVENT, DL_REPLAY_TIMED), 1);
    replayed_node(&r, first)->duration_ns += 50000;
    replay_again(&r);
    assert_int_equal(replayed_us(&r, other), 255);
}

/* A copy to pageable memory: the call returns 4 us after its end. The copy waits for the kernel. */
static void test_blocking_copy(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 10, 1);
    uint32_t kernel = replay_kernel(&trace, 7, "k", 5, 300, 1);
    uint32_t call = replay_call(&trace, 1, "cudaMemcpyAsync", 10, 320, 2);
    dl_activity *copy = replay_add(&trace, DL_ACTIVITY_MEMCPY, "", 306, 20);
    copy->stream = 7;
    copy->correlation = 2;
    copy->copy = DL_COPY_D2H;
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_end_us(&r, call), 330);
    replayed_node(&r, kernel)->duration_ns -= 100000;
    replay_again(&r);
    assert_int_equal(replayed_end_us(&r, call), 230);
}

/* cudaStreamSynchronize waits for the stream of its thread's last launch, not for another running
 * stream, and not for later launches. */
static void test_stream_sync(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 5, 1);
    uint32_t other = replay_kernel(&trace, 8, "k", 5, 900, 1);
    replay_call(&trace, 1, "cudaLaunchKernel", 5, 5, 2);
    uint32_t own = replay_kernel(&trace, 7, "k", 10, 200, 2);
    uint32_t sync = replay_call(&trace, 1, "cudaStreamSynchronize", 10, 203, 3);
    replay_call(&trace, 1, "cudaLaunchKernel", 213, 5, 4);
    uint32_t after = replay_kernel(&trace, 7, "k", 218, 10, 4);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_end_us(&r, sync), 213);
    assert_int_equal(replayed_us(&r, after), 218);
    replayed_node(&r, own)->duration_ns += 100000;
    replayed_node(&r, other)->duration_ns += 700000;
    replay_again(&r);
    assert_int_equal(replayed_end_us(&r, sync), 313);
    assert_int_equal(replayed_us(&r, after), 318);
}

/* The main thread launches forward, hands over to the backward thread at 30 and continues at 205, 5
 * us after that thread's last call; the backward thread wakes up 10 us after the hand-over. */
static void test_threads(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 30, 1);
    replay_kernel(&trace, 7, "k", LATENCY, 20, 1);
    uint32_t backward = replay_call(&trace, 2, "cudaLaunchKernel", 40, 60, 2);
    replay_kernel(&trace, 7, "k", 40 + LATENCY, 20, 2);
    replay_call(&trace, 2, "cudaLaunchKernel", 110, 90, 3);
    replay_kernel(&trace, 7, "k", 110 + LATENCY, 20, 3);
    uint32_t update = replay_call(&trace, 1, "cudaLaunchKernel", 205, 10, 4);
    replay_kernel(&trace, 7, "k", 205 + LATENCY, 20, 4);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_edges(&r, DL_REPLAY_HANDOVER, DL_REPLAY_INFERRED), 2);
    assert_int_equal(replayed_us(&r, backward), 40);
    assert_int_equal(replayed_us(&r, update), 205);
    replayed_node(&r, backward)->duration_ns += 33000;
    replay_again(&r);
    assert_int_equal(replayed_us(&r, update), 238);
}

/* A quiet span while no other thread works is the thread's own time. */
static void test_busy_quiet(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 10, 1);
    replay_kernel(&trace, 7, "k", LATENCY, 20, 1);
    uint32_t late = replay_call(&trace, 1, "cudaLaunchKernel", 5000, 10, 2);
    replay_kernel(&trace, 7, "k", 5000 + LATENCY, 20, 2);
    replay_call(&trace, 2, "cudaEventQuery", 20000, 10, 3);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_edges(&r, DL_REPLAY_HANDOVER, DL_REPLAY_INFERRED), 0);
    assert_int_equal(replayed_us(&r, late), 5000);
}

/* 200 kernels of 100 us, launches of 10 us; from the 81st the host waits for the end of the kernel
 * 80 positions earlier, and returns 6 us after it. */
static void test_queue(void **state DL_UNUSED)
{
    enum { KERNELS = 200, DEPTH = 80 };
    dl_trace trace = hand_trace();
    int64_t host_us = 0, device_us = LATENCY, ends_us[KERNELS];
    uint32_t last = 0;
    for (uint32_t i = 0; i < KERNELS; i++) {
        int64_t end_us = host_us + 10;
        if (i >= DEPTH && ends_us[i - DEPTH] + 6 > end_us) end_us = ends_us[i - DEPTH] + 6;
        last = replay_call(&trace, 1, "cudaLaunchKernel", host_us, end_us - host_us, i + 1);
        replay_kernel(&trace, 7, "k", device_us, 100, i + 1);
        ends_us[i] = device_us + 100;
        device_us = ends_us[i] + SPACING;
        host_us = end_us;
    }
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(r.run.ranks[0].queue_depth, DEPTH);
    assert_int_equal(replayed_edges(&r, DL_REPLAY_QUEUE, DL_REPLAY_INFERRED), KERNELS - DEPTH);
    assert_int_equal(replayed_end_us(&r, last), host_us);
    /* With a device twice as fast, the host continues twice as fast: 119 kernels of 51 us precede
     * the one that the last launch waits for, which takes 50 us. */
    for (size_t i = 0; i < r.run.graph.node_count; i++) {
        if (dl_replay_node_is_work(&r.run.graph.nodes[i])) r.run.graph.nodes[i].duration_ns = 50000;
    }
    replay_again(&r);
    assert_int_equal(replayed_end_us(&r, last), LATENCY + 119 * 51 + 50 + 6);
}

/* A nested call belongs to the outer one: cuLaunchKernel within cudaLaunchKernel. */
static void test_nested_call(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    uint32_t inner = replay_call(&trace, 1, "cuLaunchKernel", 2, 5, 1);
    uint32_t outer = replay_call(&trace, 1, "cudaLaunchKernel", 0, 10, 1);
    uint32_t kernel = replay_kernel(&trace, 7, "k", LATENCY, 20, 1);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_ptr_equal(replayed_node(&r, inner), replayed_node(&r, outer));
    assert_int_equal(replayed_us(&r, kernel), LATENCY);
}

/* Overlapping kernels of one stream, such as branches of a graph, are on separate lanes. */
static void test_overlapping_works(void **state DL_UNUSED)
{
    dl_trace trace = hand_trace();
    replay_call(&trace, 1, "cudaGraphLaunch", 0, 10, 1);
    uint32_t a = replay_kernel(&trace, 7, "k", LATENCY, 100, 1);
    uint32_t b = replay_kernel(&trace, 7, "k", LATENCY, 40, 1);
    DL_SCOPED(replayed) r = replay_trace(&trace);
    assert_int_equal(replayed_us(&r, a), LATENCY);
    assert_int_equal(replayed_us(&r, b), LATENCY);
    assert_int_not_equal(replayed_node(&r, a)->lane, replayed_node(&r, b)->lane);
}

static void test_refused(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = hand_trace();
    replay_call(&trace, 1, "cudaLaunchKernel", 0, 10, 1);
    const dl_trace *traces[] = {&trace};
    dl_replay_run run = {0};
    dl_error err = {0};
    assert_int_equal(dl_replay_build(&run, traces, 1, &err), DL_ERR_DATA);
    assert_contains(err.text, "no work of a device");
    dl_replay_run_free(&run);
    trace.activities[0].start_ns = INT64_MAX - 10000;
    assert_int_equal(dl_replay_build(&run, traces, 1, &err), DL_ERR_RANGE);
    dl_replay_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_bound),
        cmocka_unit_test(test_host_bound),
        cmocka_unit_test(test_unexplained),
        cmocka_unit_test(test_missing_launches),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_event_between_devices),
        cmocka_unit_test(test_refuted_event),
        cmocka_unit_test(test_timed_event),
        cmocka_unit_test(test_blocking_copy),
        cmocka_unit_test(test_stream_sync),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_busy_quiet),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_nested_call),
        cmocka_unit_test(test_overlapping_works),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
