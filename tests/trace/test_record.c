#include "tests/check.h"

#include "trace/record.h"

/* Every kind and phase has a distinct name; an invalid value is named as such. */
static void test_names(void **state DL_UNUSED)
{
    assert_string_equal(dl_record_kind_name(DL_RECORD_STEP), "step");
    assert_string_equal(dl_record_kind_name(DL_RECORD_COMPUTE), "compute");
    assert_string_equal(dl_record_kind_name(DL_RECORD_COPY), "copy");
    assert_string_equal(dl_record_kind_name(DL_RECORD_AVERAGE), "average");
    assert_string_equal(dl_record_kind_name(DL_RECORD_WAIT), "wait");
    assert_string_equal(dl_record_kind_name(DL_RECORD_INPUT), "input");
    assert_string_equal(dl_record_kind_name(DL_RECORD_SLOWDOWN), "slowdown");
    assert_string_equal(dl_record_kind_name(DL_RECORD_BENCH), "bench");
    assert_string_equal(dl_record_kind_name((dl_record_kind)0), "unknown");
    assert_string_equal(dl_phase_name(DL_PHASE_NONE), "none");
    assert_string_equal(dl_phase_name(DL_PHASE_FORWARD), "forward");
    assert_string_equal(dl_phase_name(DL_PHASE_BACKWARD), "backward");
    assert_string_equal(dl_phase_name(DL_PHASE_UPDATE), "update");
    assert_string_equal(dl_phase_name(DL_PHASE_PUSH), "push");
    assert_string_equal(dl_phase_name(DL_PHASE_PULL), "pull");
    assert_string_equal(dl_phase_name((dl_phase)6), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
