/* The plugin's tables, called in the way that NCCL does. */
#include "tests/check.h"

#include <pthread.h>

#include "profiler/inject/nccl.h"
#include "tests/doubles/nvtx_capture.h"

static int clear(void **state DL_UNUSED)
{
    seen_clear();
    return 0;
}

/* Offsets of the fields in NCCL's headers on a 64-bit machine. */
static void test_layout(void **state DL_UNUSED)
{
    assert_int_equal(offsetof(dl_nccl_collective_v5, work.sequence), 24);
    assert_int_equal(offsetof(dl_nccl_collective_v5, work.type), 72);
    assert_int_equal(offsetof(dl_nccl_collective_v5, choice.protocol), 96);
    assert_int_equal(offsetof(dl_nccl_collective_v3, choice.protocol), 112);
    assert_int_equal(offsetof(dl_nccl_collective_v2, choice.protocol), 120);
    assert_int_equal(offsetof(dl_nccl_p2p_v5, channels), 60);
    assert_int_equal(offsetof(dl_nccl_p2p_v3, peer), 72);
}

static void test_version_5(void **state DL_UNUSED)
{
    void *context = NULL, *handle = NULL;
    int mask = -1;
    assert_int_equal(ncclProfiler_v5.init(&context, 0x501, &mask, NULL, 1, 4, 2, NULL), 0);
    assert_int_equal(mask, DL_NCCL_EVENT_COLLECTIVE | DL_NCCL_EVENT_P2P);
    const dl_activity comm = seen_find(DL_ACTIVITY_COMM, "");
    assert_int_equal(comm.object, 0x501);
    assert_int_equal(comm.peer, 2);
    assert_int_equal(comm.count, 4);

    dl_nccl_event group = {.type = DL_NCCL_EVENT_GROUP};
    assert_int_equal(ncclProfiler_v5.start(context, &handle, &group), 0);
    assert_non_null(handle);
    assert_int_equal(ncclProfiler_v5.record_state(handle, 23, NULL), 0);
    assert_int_equal(ncclProfiler_v5.stop(handle), 0);

    dl_nccl_collective_v5 call = {.event.type = DL_NCCL_EVENT_COLLECTIVE,
                                  .work.sequence = 7,
                                  .work.function = "Broadcast",
                                  .work.count = 1000,
                                  .work.root = 3,
                                  .work.type = "ncclFloat16",
                                  .choice.channels = 8,
                                  .choice.algorithm = "RING",
                                  .choice.protocol = "LL128"};
    assert_int_equal(ncclProfiler_v5.start(context, &handle, &call), 0);
    const dl_activity mark = seen_find(DL_ACTIVITY_MARK, "Broadcast RING LL128 8 channels");
    assert_string_equal(seen_text(mark.detail), DL_NCCL_PLAN_DETAIL);
    assert_int_equal(mark.object, 0x501);
    assert_int_equal(mark.bytes, 2000);
    assert_int_equal(mark.peer, 3);
    assert_int_equal(mark.count, 7);

    dl_nccl_p2p_v5 send = {.event.type = DL_NCCL_EVENT_P2P,
                           .function = "Send",
                           .type = "ncclInt8",
                           .count = 10,
                           .peer = 1,
                           .channels = 1};
    assert_int_equal(ncclProfiler_v5.start(context, &handle, &send), 0);
    assert_int_equal(seen_find(DL_ACTIVITY_MARK, "Send 1 channel").bytes, 10);

    /* Events that were not requested, and unknown types and texts. */
    dl_nccl_event other = {.type = 1 << 11};
    assert_int_equal(ncclProfiler_v5.start(context, &handle, &other), 0);
    assert_null(handle);
    call.work.type = "ncclFloat4";
    call.choice.algorithm = call.choice.protocol = call.work.function = NULL;
    assert_int_equal(ncclProfiler_v5.start(context, &handle, &call), 0);
    assert_int_equal(seen_count_kind(DL_ACTIVITY_MARK), 3);
    assert_int_equal(ncclProfiler_v5.finalize(context), 0);
}

/* The same communicator is reported once, from either source; another rank of it is a different
 * one. */
static void test_once(void **state DL_UNUSED)
{
    for (int rank = 0; rank < 2; rank++) {
        for (int i = 0; i < 2; i++) {
            void *context;
            int mask;
            assert_int_equal(ncclProfiler_v4.init(&context, &mask, "name", 0x400, 1, 2, rank, NULL),
                             0);
            ncclProfiler_v4.finalize(context);
        }
    }
    assert_int_equal(seen_count_kind(DL_ACTIVITY_COMM), 2);
}

/* Versions 4 to 2: a short type, whose neighbouring bytes may hold anything, and the communicator
 * in the event. */
static void test_older_versions(void **state DL_UNUSED)
{
    void *context, *handle;
    int mask;
    assert_int_equal(ncclProfiler_v4.init(&context, &mask, NULL, 0x404, 1, 2, 0, NULL), 0);
    dl_nccl_collective_v5 four = {.event.type = UINT64_MAX << 8 | DL_NCCL_EVENT_COLLECTIVE,
                                  .work.function = "AllReduce",
                                  .work.count = 5,
                                  .work.type = "ncclFloat64",
                                  .choice.algorithm = "TREE",
                                  .choice.protocol = "SIMPLE"};
    assert_int_equal(ncclProfiler_v4.start(context, &handle, &four), 0);
    dl_activity mark = seen_find(DL_ACTIVITY_MARK, "AllReduce TREE SIMPLE");
    assert_int_equal(mark.object, 0x404);
    assert_int_equal(mark.bytes, 40);
    ncclProfiler_v4.finalize(context);

    assert_int_equal(ncclProfiler_v3.init(&context, &mask), 0);
    dl_nccl_collective_v3 three = {.event.type_short = DL_NCCL_EVENT_COLLECTIVE,
                                   .comm = 0x303,
                                   .work.sequence = 9,
                                   .work.function = "AllGather",
                                   .work.count = 64,
                                   .work.type = "ncclInt8",
                                   .choice.channels = 2,
                                   .choice.algorithm = "RING",
                                   .choice.protocol = "LL"};
    assert_int_equal(ncclProfiler_v3.start(context, &handle, &three), 0);
    mark = seen_find(DL_ACTIVITY_MARK, "AllGather RING LL 2 channels");
    assert_int_equal(mark.object, 0x303);
    assert_int_equal(mark.count, 9);
    dl_nccl_p2p_v3 receive = {.event.type_short = DL_NCCL_EVENT_P2P,
                              .comm = 0x303,
                              .function = "Recv",
                              .type = "ncclInt32",
                              .count = 3,
                              .peer = 6};
    assert_int_equal(ncclProfiler_v3.start(context, &handle, &receive), 0);
    assert_int_equal(seen_find(DL_ACTIVITY_MARK, "Recv").peer, 6);
    ncclProfiler_v3.finalize(context);

    assert_int_equal(ncclProfiler_v2.init(&context, &mask), 0);
    dl_nccl_collective_v2 two = {.event.type_short = DL_NCCL_EVENT_COLLECTIVE,
                                 .comm = 0x202,
                                 .work.function = "Reduce",
                                 .work.count = 1,
                                 .work.root = 1,
                                 .work.type = "ncclUint8",
                                 .choice.channels = 4,
                                 .choice.algorithm = "NVLS",
                                 .choice.protocol = "SIMPLE"};
    assert_int_equal(ncclProfiler_v2.start(context, &handle, &two), 0);
    assert_int_equal(seen_find(DL_ACTIVITY_MARK, "Reduce NVLS SIMPLE 4 channels").object, 0x202);
    ncclProfiler_v2.finalize(context);
}

static void test_inactive(void **state DL_UNUSED)
{
    seen_set_active(false);
    void *context = &context, *handle;
    int mask = -1;
    assert_int_equal(ncclProfiler_v5.init(&context, 1, &mask, NULL, 1, 2, 0, NULL), 0);
    assert_int_equal(mask, 0);
    assert_null(context);
    dl_nccl_collective_v5 call = {.event.type = DL_NCCL_EVENT_COLLECTIVE};
    assert_int_equal(ncclProfiler_v5.start(context, &handle, &call), 0);
    assert_int_equal(ncclProfiler_v5.finalize(context), 0);
    seen_set_active(true);
    assert_int_equal(seen_count(), 0);
}

#define CALLS 1000

/* Each thread has a communicator, like each rank in a process with several. */
static void *run_rank(void *rank)
{
    void *context, *handle;
    int mask;
    ncclProfiler_v5.init(&context, 0x777, &mask, NULL, 1, 2, *(int *)rank, NULL);
    for (uint64_t i = 0; i < CALLS; i++) {
        dl_nccl_collective_v5 call = {.event.type = DL_NCCL_EVENT_COLLECTIVE,
                                      .work.sequence = i,
                                      .work.function = "AllReduce",
                                      .choice.algorithm = "RING",
                                      .choice.protocol = "LL",
                                      .choice.channels = (uint8_t)(1 + i % 32)};
        ncclProfiler_v5.start(context, &handle, &call);
    }
    ncclProfiler_v5.finalize(context);
    return NULL;
}

static void test_two_threads(void **state DL_UNUSED)
{
    int ranks[2] = {0, 1};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(seen_count_kind(DL_ACTIVITY_COMM), 2);
    assert_int_equal(seen_count_kind(DL_ACTIVITY_MARK), 2 * CALLS);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup(function, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_layout),         TEST(test_version_5), TEST(test_once),
        TEST(test_older_versions), TEST(test_inactive),  TEST(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
