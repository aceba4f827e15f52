#include "tests/check.h"

#include <stdlib.h>

#include "trace/activity/rank_clock.h"

enum { ALL_REDUCE = 1, ALL_GATHER, BROADCAST, SEND, CALL_ALL_TO_ALL, CALL_SEND, TEXTS };
static char texts[TEXTS][50] = {"",
                                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
                                "ncclDevKernel_AllGather_RING_LL(x)",
                                "ncclDevKernel_Broadcast_RING_LL(x)",
                                "ncclDevKernel_SendRecv(x)",
                                "AlltoAll",
                                "Send"};
static char *strings[TEXTS];
static char first_path[] = "first.json", other_path[] = "other.json";

typedef struct rank {
    dl_activity activities[32];
    dl_trace trace;
} rank;

static void begin(rank *r, char *path)
{
    for (int i = 0; i < TEXTS; i++)
        strings[i] = texts[i];
    *r = (rank){.trace = {.path = path, .strings = strings, .string_count = TEXTS}};
    r->trace.activities = r->activities;
}

static void add(rank *r, uint32_t name, uint32_t stream, int64_t start_ns, int64_t end_ns)
{
    bool call = name >= CALL_ALL_TO_ALL;
    r->activities[r->trace.activity_count++] =
        (dl_activity){.kind = call ? DL_ACTIVITY_COLLECTIVE : DL_ACTIVITY_KERNEL,
                      .name = name,
                      .stream = stream,
                      .start_ns = start_ns,
                      .duration_ns = end_ns - start_ns};
}

static dl_status align(dl_rank_clock clocks[2], const rank *first, const rank *other)
{
    const dl_trace *traces[] = {&first->trace, &other->trace};
    dl_error err = {0};
    return dl_rank_clocks_find(clocks, traces, 2, &err);
}

/* The other rank's clock is 10,000 ns behind. True ends differ by 0, +2 and -2 ns; the starts by up
 * to 500 ns. Bounds: in the second collective the first rank starts last (1600 to 1700: high = 1700
 * + 10,000 - 1500) ... */
static void ends_tell_the_offset(void **state DL_UNUSED)
{
    const int64_t behind_ns = 10000;
    rank first, other;
    dl_rank_clock clocks[2];
    begin(&first, first_path);
    begin(&other, other_path);
    add(&first, ALL_REDUCE, 8, 11000, 11500);
    add(&other, ALL_REDUCE, 9, 11400 - behind_ns, 11500 - behind_ns);
    add(&first, ALL_REDUCE, 8, 11600, 11700);
    add(&other, ALL_REDUCE, 9, 11510 - behind_ns, 11702 - behind_ns);
    add(&first, ALL_GATHER, 8, 12000, 12300);
    add(&other, ALL_GATHER, 9, 12000 - behind_ns, 12298 - behind_ns);
    add(&other, BROADCAST, 9, 100, 101); /* does not end simultaneously */
    add(&other, ALL_REDUCE, 3, 5, 6);    /* another stream */
    assert_int_equal(align(clocks, &first, &other), DL_OK);
    assert_int_equal(clocks[0].offset_ns, 0);
    assert_int_equal(clocks[1].offset_ns, behind_ns);
    assert_int_equal(clocks[1].matched, 3);
    assert_int_equal(clocks[1].spread_ns, 2);
    /* low: 11600 - 1702 of the second; high: 11500 - 1400 of the first. */
    assert_int_equal(clocks[1].low_ns, 9898);
    assert_int_equal(clocks[1].high_ns, 10100);

    dl_error err = {0};
    assert_int_equal(dl_rank_clock_apply(&other.trace, clocks[1].offset_ns, &err), DL_OK);
    assert_int_equal(other.activities[0].start_ns, 11400);
    assert_int_equal(dl_rank_clock_apply(&other.trace, -11401, &err), DL_ERR_RANGE);
    assert_int_equal(other.activities[0].start_ns, 11400);
    assert_int_equal(dl_rank_clock_apply(&other.trace, INT64_MAX, &err), DL_ERR_RANGE);
}

/* The other trace starts two collectives later: names agree only with a shift of two. */
static void sequences_are_shifted(void **state DL_UNUSED)
{
    static const uint32_t names[] = {ALL_REDUCE, ALL_REDUCE, ALL_GATHER, ALL_REDUCE, ALL_GATHER};
    static const int64_t ends_ns[] = {100, 250, 330, 480, 900};
    rank first, other;
    dl_rank_clock clocks[2];
    begin(&first, first_path);
    begin(&other, other_path);
    for (int i = 0; i < 5; i++) {
        add(&first, names[i], 8, ends_ns[i] - 20, ends_ns[i]);
        if (i >= 2) add(&other, names[i], 8, 5000 + ends_ns[i] - 10, 5000 + ends_ns[i]);
    }
    assert_int_equal(align(clocks, &first, &other), DL_OK);
    assert_int_equal(clocks[1].offset_ns, -5000);
    assert_int_equal(clocks[1].matched, 3);
    assert_int_equal(clocks[1].spread_ns, 0);
}

/* Of equally good shifts the one with the smallest clock offset is used; the sequences are longer
 * than the sample that distinguishes shifts. */
static void equal_shifts_move_the_clock_least(void **state DL_UNUSED)
{
    enum { LONG = 3000 };
    rank first, other;
    dl_rank_clock clocks[2];
    begin(&first, first_path);
    begin(&other, other_path);
    first.trace.activities = dl_calloc(LONG, sizeof(dl_activity), "test");
    other.trace.activities = dl_calloc(LONG, sizeof(dl_activity), "test");
    for (int i = 0; i < LONG; i++) {
        const dl_activity reduce = {.kind = DL_ACTIVITY_KERNEL,
                                    .name = ALL_REDUCE,
                                    .start_ns = 10000 + 1000 * i,
                                    .duration_ns = 100};
        first.trace.activities[first.trace.activity_count++] = reduce;
        if (i >= LONG - 2) continue;
        other.trace.activities[other.trace.activity_count] = reduce;
        other.trace.activities[other.trace.activity_count++].start_ns += 7;
    }
    assert_int_equal(align(clocks, &first, &other), DL_OK);
    assert_int_equal(clocks[1].offset_ns, -7);
    assert_int_equal(clocks[1].matched, LONG - 2);
    assert_int_equal(clocks[1].low_ns, -107);
    free(first.trace.activities);
    free(other.trace.activities);
}

/* Sends and receives end simultaneously only if they are all-to-alls. */
static void sends_count_as_all_to_all_only(void **state DL_UNUSED)
{
    rank first, other;
    dl_rank_clock clocks[2];
    begin(&first, first_path);
    begin(&other, other_path);
    add(&first, SEND, 8, 100, 200);
    add(&other, SEND, 8, 1100, 1200);
    assert_int_equal(align(clocks, &first, &other), DL_ERR_DATA);
    add(&first, CALL_ALL_TO_ALL, 0, 90, 95);
    add(&other, CALL_ALL_TO_ALL, 0, 1090, 1095);
    assert_int_equal(align(clocks, &first, &other), DL_OK);
    assert_int_equal(clocks[1].offset_ns, -1000);
    add(&other, CALL_SEND, 0, 1090, 1095);
    assert_int_equal(align(clocks, &first, &other), DL_ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_tell_the_offset),
        cmocka_unit_test(sequences_are_shifted),
        cmocka_unit_test(equal_shifts_move_the_clock_least),
        cmocka_unit_test(sends_count_as_all_to_all_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
