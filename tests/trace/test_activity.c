#include "tests/check.h"

#include "trace/activity/activity.h"

static void test_names(void **state DL_UNUSED)
{
    for (int a = DL_ACTIVITY_KERNEL; a < DL_ACTIVITY_KIND_END; a++) {
        assert_string_not_equal(dl_activity_kind_name((dl_activity_kind)a), "unknown");
        for (int b = a + 1; b < DL_ACTIVITY_KIND_END; b++) {
            assert_string_not_equal(dl_activity_kind_name((dl_activity_kind)a),
                                    dl_activity_kind_name((dl_activity_kind)b));
        }
    }
    assert_string_equal(dl_activity_kind_name((dl_activity_kind)0), "unknown");
    assert_string_equal(dl_activity_kind_name(DL_ACTIVITY_KIND_END), "unknown");
    assert_string_equal(dl_copy_direction_name(DL_COPY_H2D), "h2d");
    assert_string_equal(dl_copy_direction_name((dl_copy_direction)99), "unknown");
    assert_string_equal(dl_host_memory_name(DL_MEMORY_PINNED), "pinned");
    assert_string_equal(dl_host_memory_name((dl_host_memory)-1), "unknown");
}

static void test_ranges(void **state DL_UNUSED)
{
    const dl_activity good = {.kind = DL_ACTIVITY_MEMCPY,
                              .copy = DL_COPY_PEER,
                              .memory = DL_MEMORY_MANAGED,
                              .start_ns = 1,
                              .duration_ns = INT64_MAX - 1};
    assert_true(dl_activity_valid(&good));
    dl_activity bad = good;
    bad.kind = 0;
    assert_false(dl_activity_valid(&bad));
    bad.kind = DL_ACTIVITY_KIND_END;
    assert_false(dl_activity_valid(&bad));
    bad = good;
    bad.copy = DL_COPY_DIRECTION_END;
    assert_false(dl_activity_valid(&bad));
    bad = good;
    bad.memory = DL_HOST_MEMORY_END;
    assert_false(dl_activity_valid(&bad));
    bad = good;
    bad.start_ns = -1;
    assert_false(dl_activity_valid(&bad));
    bad = good;
    bad.start_ns = 2; /* the end does not fit */
    assert_false(dl_activity_valid(&bad));
    bad = good;
    bad.duration_ns = -1;
    assert_false(dl_activity_valid(&bad));
}

/* On stream 7: a copy from 100 with a recorded duration of 900, another at 150 that ends in time;
 * then a graph's memset, during which the graph's next node runs, and a kernel after which another
 * starts early. Stream 8 is busy all the time. */
static void test_late_ends(void **state DL_UNUSED)
{
    dl_activity works[] = {
        {.kind = DL_ACTIVITY_KERNEL,
         .stream = 7,
         .correlation = 9,
         .start_ns = 310,
         .duration_ns = 9},
        {.kind = DL_ACTIVITY_MEMCPY,
         .stream = 7,
         .correlation = 1,
         .start_ns = 100,
         .duration_ns = 900},
        {.kind = DL_ACTIVITY_CALL, .correlation = 2, .start_ns = 110, .duration_ns = 5},
        {.kind = DL_ACTIVITY_MEMCPY,
         .stream = 7,
         .correlation = 2,
         .start_ns = 150,
         .duration_ns = 50},
        {.kind = DL_ACTIVITY_MEMSET,
         .stream = 7,
         .correlation = 3,
         .start_ns = 200,
         .duration_ns = 60},
        {.kind = DL_ACTIVITY_KERNEL,
         .stream = 7,
         .correlation = 3,
         .start_ns = 220,
         .duration_ns = 70},
        {.kind = DL_ACTIVITY_KERNEL,
         .stream = 7,
         .correlation = 4,
         .start_ns = 300,
         .duration_ns = 40},
        {.kind = DL_ACTIVITY_MEMCPY,
         .stream = 8,
         .correlation = 5,
         .start_ns = 90,
         .duration_ns = 500},
        {.kind = DL_ACTIVITY_MEMCPY,
         .device = 1,
         .stream = 8,
         .correlation = 6,
         .start_ns = 95,
         .duration_ns = 500},
        {.kind = DL_ACTIVITY_MEMSET,
         .device = 1,
         .stream = 8,
         .correlation = 7,
         .start_ns = 585,
         .duration_ns = 5},
    };
    const int64_t expected_ns[] = {9, 50, 5, 50, 60, 70, 40, 500, 490, 5};
    int64_t worst_ns = -1;
    assert_int_equal(dl_activities_cut_late_ends(works, 10, &worst_ns), 2);
    assert_int_equal(worst_ns, 850);
    for (int i = 0; i < 10; i++)
        assert_int_equal(works[i].duration_ns, expected_ns[i]);
    assert_int_equal(dl_activities_cut_late_ends(works, 10, &worst_ns), 0);
    assert_int_equal(worst_ns, 0);
    assert_int_equal(dl_activities_cut_late_ends(NULL, 0, &worst_ns), 0);
}

/* Copies whose next work gives no limit, because it starts with them or belongs to the same graph;
 * later work limits them: 1 at 200, as 150 belongs to its own graph; 2 and 3 at 300; the first of 4
 * at 500, as 5 starts with it and 400 belongs to its own graph; 5 at 400. The last ones on a stream
 * are not limited. */
static void test_late_ends_look_on(void **state DL_UNUSED)
{
    static const struct {
        uint32_t stream, correlation;
        int64_t start_ns, expected_ns;
    } cases[] = {{7, 1, 100, 100}, {7, 1, 150, 50},  {7, 2, 200, 100}, {7, 3, 200, 100},
                 {7, 4, 300, 200}, {7, 5, 300, 100}, {7, 4, 400, 100}, {7, 6, 500, 900},
                 {7, 6, 600, 900}, {8, 7, 50, 900},  {8, 8, 50, 900}};
    dl_activity works[sizeof cases / sizeof *cases];
    const size_t count = sizeof cases / sizeof *cases;
    for (size_t i = 0; i < count; i++) {
        works[i] = (dl_activity){.kind = DL_ACTIVITY_MEMCPY,
                                 .stream = cases[i].stream,
                                 .correlation = cases[i].correlation,
                                 .start_ns = cases[i].start_ns,
                                 .duration_ns = 900};
    }
    int64_t worst_ns = -1;
    assert_int_equal(dl_activities_cut_late_ends(works, count, &worst_ns), 7);
    assert_int_equal(worst_ns, 850);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(works[i].duration_ns, cases[i].expected_ns);
}

static void test_device_work(void **state DL_UNUSED)
{
    int count = 0;
    for (uint8_t kind = 1; kind < DL_ACTIVITY_KIND_END; kind++) {
        count += dl_activity_is_device_work(&(dl_activity){.kind = kind});
    }
    assert_int_equal(count, 4);
    assert_true(dl_activity_is_device_work(&(dl_activity){.kind = DL_ACTIVITY_GRAPH}));
    assert_false(dl_activity_is_device_work(&(dl_activity){.kind = DL_ACTIVITY_CALL}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_device_work),
        cmocka_unit_test(test_late_ends),
        cmocka_unit_test(test_late_ends_look_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
