#include "trace/dlt/dlt.h"

#include "tests/check.h"
#include "tests/hand_trace.h"

static dl_trace made_trace(void)
{
    dl_trace trace = hand_trace();
    hand_meta(&trace, "workers", "4");
    hand_meta(&trace, "empty", "");
    hand_meta(&trace, "model", "lenet");
    hand_meta(&trace, "below", "-1");
    return trace;
}

static void test_texts(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = made_trace();
    assert_string_equal(dl_trace_meta_text(&trace, "model"), "lenet");
    assert_string_equal(dl_trace_meta_text(&trace, "empty"), "");
    assert_string_equal(dl_trace_meta_text(&trace, "missing"), "");
}

/* Missing, non-numeric and out-of-range values give the fallback. */
static void test_numbers_with_fallback(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = made_trace();
    assert_int_equal(dl_trace_meta_int(&trace, "workers", 1, 4, 7), 4);
    assert_int_equal(dl_trace_meta_int(&trace, "workers", 1, 3, 7), 7);
    assert_int_equal(dl_trace_meta_int(&trace, "workers", 5, 9, 7), 7);
    assert_int_equal(dl_trace_meta_int(&trace, "model", 0, 9, 7), 7);
    assert_int_equal(dl_trace_meta_int(&trace, "empty", 0, 9, 7), 7);
    assert_int_equal(dl_trace_meta_int(&trace, "missing", 0, 9, -1), -1);
}

/* Only a missing value gives the fallback; invalid ones are rejected. */
static void test_numbers_with_errors(void **state DL_UNUSED)
{
    DL_SCOPED(dl_trace) trace = made_trace();
    int64_t number = 0;
    dl_error err = {0};
    assert_int_equal(dl_trace_meta_read_int(&trace, "workers", 1, &number, &err), DL_OK);
    assert_int_equal(number, 4);
    assert_int_equal(dl_trace_meta_read_int(&trace, "missing", -1, &number, &err), DL_OK);
    assert_int_equal(number, -1);
    static const char *const wrong[] = {"model", "empty", "below"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(dl_trace_meta_read_int(&trace, wrong[i], 0, &number, &err), DL_ERR_PARSE);
        assert_string_equal(err.file, "hand.dlt");
        assert_true(strstr(err.text, wrong[i]) == err.text);
        assert_int_equal(number, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts),
                                       cmocka_unit_test(test_numbers_with_fallback),
                                       cmocka_unit_test(test_numbers_with_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
