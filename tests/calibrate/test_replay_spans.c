#include "calibrate/replay/step_costs.h"

#include "tests/check.h"

static void overlapping_spans_are_one(void **state DL_UNUSED)
{
    DL_SCOPED(dl_spans) s = {0};
    dl_spans_add(&s, 2, 100, 200);
    dl_spans_add(&s, 1, 50, 60);
    dl_spans_add(&s, 2, 300, 310);
    dl_spans_add(&s, 2, 120, 130); /* within the first */
    dl_spans_add(&s, 2, 200, 220); /* adjacent to the first */
    dl_spans_join(&s);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.items[1].start_ns, 100);
    assert_int_equal(s.items[1].end_ns, 220);
}

static void ends_do_not_count(void **state DL_UNUSED)
{
    DL_SCOPED(dl_spans) s = {0};
    assert_false(dl_spans_hold(&s, 0, 0));
    dl_spans_add(&s, 2, 100, 200);
    dl_spans_add(&s, 3, 150, 160);
    dl_spans_join(&s);
    assert_false(dl_spans_hold(&s, 2, 99));
    assert_true(dl_spans_hold(&s, 2, 100));
    assert_true(dl_spans_hold(&s, 2, 199));
    assert_false(dl_spans_hold(&s, 2, 200));
    assert_false(dl_spans_hold(&s, 3, 100));
    assert_false(dl_spans_hold(&s, 1, 150));
}

static void what_is_covered_adds_up(void **state DL_UNUSED)
{
    DL_SCOPED(dl_spans) s = {0};
    dl_spans_add(&s, 2, 100, 200);
    dl_spans_add(&s, 2, 300, 400);
    dl_spans_add(&s, 3, 0, 1000);
    dl_spans_join(&s);
    assert_int_equal(dl_spans_covered(&s, 2, 0, 1000), 200);
    assert_int_equal(dl_spans_covered(&s, 2, 150, 310), 60);
    assert_int_equal(dl_spans_covered(&s, 2, 120, 130), 10);
    assert_int_equal(dl_spans_covered(&s, 2, 200, 300), 0);
    assert_int_equal(dl_spans_covered(&s, 1, 0, 1000), 0);
    assert_int_equal(dl_spans_covered(&s, 4, 0, 1000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_spans_are_one),
        cmocka_unit_test(ends_do_not_count),
        cmocka_unit_test(what_is_covered_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
