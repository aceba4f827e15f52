#include "calibrate/notes.h"

#include "tests/check.h"

/* Lines are formatted and kept in order; freeing twice is allowed. */
static void test_notes(void **state DL_UNUSED)
{
    dl_notes notes = {0};
    dl_notes_add(&notes, "%d of %s", 1, "two");
    dl_notes_add(&notes, "second");
    dl_notes_add(&notes, "1 of %s", "two"); /* duplicate, kept once */
    assert_int_equal(notes.count, 2);
    assert_string_equal(notes.lines[0], "1 of two");
    assert_string_equal(notes.lines[1], "second");
    dl_notes_free(&notes);
    assert_int_equal(notes.count, 0);
    dl_notes_free(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_notes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
