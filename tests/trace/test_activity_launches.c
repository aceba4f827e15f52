#include "tests/check.h"

#include "trace/activity/activity.h"

/* Only CALLs with a correlation are launches; of two with the same one, the earlier is used. */
static void test_find(void **state DL_UNUSED)
{
    const dl_activity activities[] = {
        {.kind = DL_ACTIVITY_CALL, .correlation = 5, .start_ns = 30, .duration_ns = 4},
        {.kind = DL_ACTIVITY_CALL, .correlation = 5, .start_ns = 20, .duration_ns = 19},
        {.kind = DL_ACTIVITY_CALL, .correlation = 5, .start_ns = 40},
        {.kind = DL_ACTIVITY_CALL, .start_ns = 1},
        {.kind = DL_ACTIVITY_KERNEL, .correlation = 6, .start_ns = 2},
        {.kind = DL_ACTIVITY_CALL, .correlation = UINT32_MAX, .start_ns = 50},
    };
    DL_SCOPED(dl_launches) launches = {0};
    dl_launches_init(&launches, activities, 6);
    assert_int_equal(launches.call_count, 4);
    assert_ptr_equal(dl_launches_find(&launches, 5), &activities[1]);
    assert_ptr_equal(dl_launches_find(&launches, UINT32_MAX), &activities[5]);
    assert_null(dl_launches_find(&launches, 6));
    assert_null(dl_launches_find(&launches, 0));
}

static void test_empty(void **state DL_UNUSED)
{
    dl_launches launches = {0};
    dl_launches_init(&launches, NULL, 0);
    assert_null(dl_launches_find(&launches, 1));
    dl_launches_free(&launches);
    dl_launches_free(&launches);
}

/* 1000 correlations, some far apart, so that slots collide. */
static void test_many(void **state DL_UNUSED)
{
    enum { MANY = 1000 };
    static dl_activity activities[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        activities[i] = (dl_activity){.kind = DL_ACTIVITY_CALL,
                                      .correlation = i % 2 != 0 ? i : i << 21 | 1 << 20};
    }
    DL_SCOPED(dl_launches) launches = {0};
    dl_launches_init(&launches, activities, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(dl_launches_find(&launches, activities[i].correlation), &activities[i]);
    }
    assert_null(dl_launches_find(&launches, 1001));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
