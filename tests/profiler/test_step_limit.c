#include "profiler/inject/capture.h"

#include <stdio.h>

#include "tests/check.h"

static bool reached(dl_activity_kind kind, uint32_t name)
{
    const dl_activity activity = {.kind = (uint8_t)kind, .name = name};
    return dl_step_limit_reached(&activity);
}

/* The process has one list of texts, so this is one test of several parts, the first without a
 * limit. */
static void steps_of_one_text_are_counted(void **state DL_UNUSED)
{
    dl_step_limit_begin(0);
    dl_step_limit_name(1, "step 0");
    for (int i = 0; i < 100; i++)
        assert_false(reached(DL_ACTIVITY_RANGE, 1));

    dl_step_limit_begin(3);
    dl_step_limit_name(10, "train step 1");
    dl_step_limit_name(11, "train step 22");
    dl_step_limit_name(12, "Optimizer.step");
    dl_step_limit_name(13, "forward");
    dl_step_limit_name(9000, "train step 333");
    assert_false(reached(DL_ACTIVITY_RANGE, 10));
    assert_false(reached(DL_ACTIVITY_RANGE, 12));
    assert_false(reached(DL_ACTIVITY_RANGE, 11));
    assert_false(reached(DL_ACTIVITY_MARK, 12));
    for (int i = 0; i < 10; i++)
        assert_false(reached(DL_ACTIVITY_RANGE, 13));   /* names no step */
    assert_false(reached(DL_ACTIVITY_KERNEL, 9000));    /* not a step */
    assert_false(reached(DL_ACTIVITY_RANGE, 0));        /* no text */
    assert_false(reached(DL_ACTIVITY_RANGE, 1u << 30)); /* unregistered id */
    assert_true(reached(DL_ACTIVITY_RANGE, 9000));
    assert_true(reached(DL_ACTIVITY_MARK, 12));
}

/* The texts of a program's steps never repeat. */
static void many_kinds_of_steps_do_no_harm(void **state DL_UNUSED)
{
    dl_step_limit_begin(1);
    char text[32];
    for (uint32_t i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "step %c%c", 'a' + (int)(i / 26), 'a' + (int)(i % 26));
        dl_step_limit_name(100 + i, text);
    }
    assert_true(reached(DL_ACTIVITY_RANGE, 100));
    assert_false(reached(DL_ACTIVITY_RANGE, 599));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_one_text_are_counted),
        cmocka_unit_test(many_kinds_of_steps_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
