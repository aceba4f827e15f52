#include "tests/check.h"

#include "trace/activity/activity.h"

static void test_names(void **state)
{
    (void)state;
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

static void test_ranges(void **state)
{
    (void)state;
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

static void test_device_work(void **state)
{
    (void)state;
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
