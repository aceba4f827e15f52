#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "trace/activity/collectives.h"
#include "trace/activity/kernel_class.h"

enum { ALL_REDUCE = 1, REDUCE_KERNEL, SEND, SEND_KERNEL, GENERIC_KERNEL, RECV, INTEGERS, TEXTS };
static char texts[TEXTS][40] = {"",
                                "AllReduce",
                                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                                "Send",
                                "ncclDevKernel_SendRecv",
                                "ncclDevKernel_Generic",
                                "Recv",
                                DL_COLLECTIVE_OF_INTEGERS};
static const uint8_t classes[TEXTS] = {
    [REDUCE_KERNEL] = DL_KERNEL_COLLECTIVE,
    [SEND_KERNEL] = DL_KERNEL_COLLECTIVE,
    [GENERIC_KERNEL] = DL_KERNEL_COLLECTIVE,
};

/* A growing trace: 100 ns pass with each host event. */
typedef struct hand {
    dl_activity activities[64];
    size_t count;
    uint32_t correlation;
} hand;

static void add_call(hand *h, uint32_t thread, uint32_t name, uint64_t bytes)
{
    h->activities[h->count] = (dl_activity){.kind = DL_ACTIVITY_COLLECTIVE,
                                            .name = name,
                                            .thread = thread,
                                            .bytes = bytes,
                                            .object = 77,
                                            .start_ns = (int64_t)h->count * 100,
                                            .duration_ns = 250};
    h->count++;
}

/* Adds a launch and its kernel. */
static void add_kernel(hand *h, uint32_t thread, uint32_t name, uint32_t device, int64_t ns)
{
    h->activities[h->count] = (dl_activity){.kind = DL_ACTIVITY_CALL,
                                            .thread = thread,
                                            .correlation = ++h->correlation,
                                            .start_ns = (int64_t)h->count * 100,
                                            .duration_ns = 50};
    h->count++;
    h->activities[h->count++] = (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                                              .name = name,
                                              .device = device,
                                              .correlation = h->correlation,
                                              .start_ns = 1000000,
                                              .duration_ns = ns};
}

static void add_communicator(hand *h, uint32_t ranks)
{
    h->activities[h->count++] =
        (dl_activity){.kind = DL_ACTIVITY_COMM, .object = 77, .count = ranks};
}

static dl_collectives collectives_of(const hand *h)
{
    char *strings[TEXTS];
    for (int i = 0; i < TEXTS; i++)
        strings[i] = texts[i];
    DL_SCOPED(dl_launches) launches = {0};
    dl_collectives collectives = {0};
    dl_launches_init(&launches, h->activities, h->count);
    dl_collectives_init(&collectives, h->activities, h->count, strings, classes, &launches);
    return collectives;
}

/* A kernel is of integers if all of its calls are. */
static void test_integers(void **state DL_UNUSED)
{
    char *strings[TEXTS];
    hand h = {.count = 0};
    DL_SCOPED(dl_launches) launches = {0};
    DL_SCOPED(dl_collective_kernels) found = {0};
    for (int i = 0; i < TEXTS; i++)
        strings[i] = texts[i];
    for (int other = 0; other < 2; other++) {
        add_call(&h, 1, ALL_REDUCE, 204);
        h.activities[h.count - 1].detail = INTEGERS;
        add_call(&h, 1, ALL_REDUCE, 8);
        h.activities[h.count - 1].detail = other ? 0 : INTEGERS;
        add_kernel(&h, 1, REDUCE_KERNEL, 0, 200);
    }
    dl_launches_init(&launches, h.activities, h.count);
    dl_collective_kernels_find(&found, h.activities, h.count, strings, classes, &launches);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.kernels[0].calls, 2);
    assert_true(found.kernels[0].integers);
    assert_false(found.kernels[1].integers);
}

/* Three all-reduces of 1000 bytes of 4 ranks in 100, 200, 400 ns and one of 8 bytes in 90 ns, on
 * two interleaved threads. Bus factor 2 * 3 / 4 = 1.5: 1500 bytes in 200 ns (median) are 7.5e9 per
 * second, in 100 ns 15e9; algorithm rate 1000 bytes / 200 ns = 5e9. */
static void test_one_each(void **state DL_UNUSED)
{
    hand h = {.count = 0};
    add_communicator(&h, 4);
    add_call(&h, 1, ALL_REDUCE, 1000);
    add_call(&h, 2, ALL_REDUCE, 8);
    add_kernel(&h, 1, REDUCE_KERNEL, 0, 200);
    add_kernel(&h, 2, REDUCE_KERNEL, 0, 90);
    add_call(&h, 1, ALL_REDUCE, 1000);
    add_kernel(&h, 1, REDUCE_KERNEL, 0, 100);
    add_call(&h, 1, ALL_REDUCE, 1000);
    add_kernel(&h, 1, REDUCE_KERNEL, 0, 400);
    DL_SCOPED(dl_collectives) c = collectives_of(&h);
    assert_int_equal(c.count, 2);
    const dl_collective_summary *large = &c.collectives[0], *small = &c.collectives[1];
    assert_string_equal(large->name, "AllReduce");
    assert_int_equal(large->bytes, 1000);
    assert_int_equal(large->ranks, 4);
    assert_int_equal(large->calls, 1);
    assert_int_equal(large->duration_ns.count, 3);
    assert_float_equal(large->duration_ns.p50, 200, 1e-9);
    assert_float_equal(large->algorithm_bytes_per_s, 5e9, 1);
    assert_float_equal(large->bus_bytes_per_s, 7.5e9, 1);
    assert_float_equal(large->best_bus_bytes_per_s, 15e9, 1);
    assert_int_equal(small->bytes, 8);
    assert_int_equal(small->duration_ns.count, 1);
}

/* Grouped: two calls and two kernels on two devices pair in order; with two equal calls and one
 * kernel, the kernel executes both; Send and Recv in one kernel form a group without a rate. */
static void test_groups(void **state DL_UNUSED)
{
    hand h = {.count = 0};
    add_communicator(&h, 2);
    add_call(&h, 1, ALL_REDUCE, 100);
    add_call(&h, 1, ALL_REDUCE, 200);
    add_kernel(&h, 1, REDUCE_KERNEL, 0, 10);
    add_kernel(&h, 1, REDUCE_KERNEL, 1, 50);
    add_call(&h, 1, ALL_REDUCE, 300);
    add_call(&h, 1, ALL_REDUCE, 300);
    add_kernel(&h, 1, REDUCE_KERNEL, 1, 40);
    add_call(&h, 1, SEND, 5);
    add_call(&h, 1, RECV, 6);
    add_kernel(&h, 1, SEND_KERNEL, 1, 30);
    DL_SCOPED(dl_collectives) c = collectives_of(&h);
    assert_int_equal(c.count, 4);
    assert_int_equal(c.collectives[0].device, 0);
    assert_int_equal(c.collectives[0].bytes, 100);
    assert_int_equal(c.collectives[1].device, 1);
    assert_int_equal(c.collectives[1].bytes, 200);
    assert_int_equal(c.collectives[2].bytes, 600);
    assert_int_equal(c.collectives[2].calls, 2);
    assert_float_equal(c.collectives[2].bus_bytes_per_s, 600 / 40e-9, 1e3); /* factor 1 */
    assert_string_equal(c.collectives[3].name, "group");
    assert_int_equal(c.collectives[3].bytes, 11);
    assert_float_equal(c.collectives[3].bus_bytes_per_s, 0, 0);
}

/* Sizes stay unknown: three calls for two kernels; a kernel without calls, or without a launch. The
 * name then comes from the kernel, if it contains one. Without COMM the number of ranks is unknown,
 * so there is no rate. */
static void test_unknown(void **state DL_UNUSED)
{
    hand h = {.count = 0};
    for (int i = 0; i < 3; i++)
        add_call(&h, 1, ALL_REDUCE, 100);
    add_kernel(&h, 1, REDUCE_KERNEL, 0, 70);
    add_kernel(&h, 1, REDUCE_KERNEL, 0, 70);
    add_kernel(&h, 2, GENERIC_KERNEL, 0, 20);
    add_call(&h, 3, SEND, 9);
    add_kernel(&h, 3, SEND_KERNEL, 0, 30);
    h.activities[h.count++] = (dl_activity){
        .kind = DL_ACTIVITY_KERNEL, .name = REDUCE_KERNEL, .duration_ns = 70, .correlation = 999};
    dl_collectives c = collectives_of(&h);
    assert_int_equal(c.count, 3);
    assert_string_equal(c.collectives[0].name, "AllReduce");
    assert_int_equal(c.collectives[0].bytes, 0);
    assert_int_equal(c.collectives[0].calls, 0);
    assert_int_equal(c.collectives[0].duration_ns.count, 3);
    assert_string_equal(c.collectives[1].name, "Send");
    assert_int_equal(c.collectives[1].bytes, 9);
    assert_int_equal(c.collectives[1].ranks, 0);
    assert_float_equal(c.collectives[1].bus_bytes_per_s, 0, 0);
    assert_string_equal(c.collectives[2].name, "");
    dl_collectives_free(&c);
    h.count = 3; /* calls only */
    c = collectives_of(&h);
    assert_int_equal(c.count, 0);
    dl_collectives_free(&c);
}

/* nccl-tests: S = n shares for the last four, whose factor (n - 1) / n gives n - 1 shares. */
static void test_bus_factor(void **state DL_UNUSED)
{
    assert_float_equal(dl_collective_bus_factor("AllReduce", 8), 1.75, 1e-12);
    assert_float_equal(dl_collective_bus_factor("Broadcast", 8), 1, 1e-12);
    assert_float_equal(dl_collective_bus_factor("Reduce", 8), 1, 1e-12);
    assert_float_equal(dl_collective_bus_factor("Send", 8), 1, 1e-12);
    assert_float_equal(dl_collective_bus_factor("AllGather", 8), 7, 1e-12);
    assert_float_equal(dl_collective_bus_factor("ReduceScatter", 8), 7, 1e-12);
    assert_float_equal(dl_collective_bus_factor("AlltoAll", 8), 7, 1e-12);
    assert_float_equal(dl_collective_bus_factor("Gather", 8), 7, 1e-12);
    assert_float_equal(dl_collective_bus_factor("AllReduce", 1), 0, 0);
    assert_float_equal(dl_collective_bus_factor("AllReduce", 0), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),   cmocka_unit_test(test_one_each),
        cmocka_unit_test(test_groups),     cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_bus_factor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
