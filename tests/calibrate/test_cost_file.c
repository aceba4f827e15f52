#include "calibrate/notes.h"

#include <stdlib.h>

#include "common/file.h"
#include "tests/check.h"

/* The origin precedes the notes, and both precede the values, which read back equal. */
static void test_comment(void **state DL_UNUSED)
{
    DL_SCOPED(dl_notes) from = {0}, notes = {0};
    dl_notes_add(&from, "dlcal of a test");
    dl_notes_add(&from, "  a.dlt");
    dl_notes_add(&notes, "one is noted");
    const dl_costs costs = {.parameter_bytes = 12, .state_bytes = -1};
    assert_int_equal(dl_cost_file_write(&costs, "cost_file.ini", &from, &notes, NULL), DL_OK);
    DL_AUTOFREE char *text = NULL;
    size_t bytes;
    assert_int_equal(dl_file_read("cost_file.ini", &text, &bytes, NULL), DL_OK);
    static const char head[] = "; dlcal of a test\n;   a.dlt\n; one is noted\n";
    assert_int_equal(strncmp(text, head, sizeof head - 1), 0);
    DL_SCOPED(dl_costs) back = {0};
    assert_int_equal(dl_costs_read(&back, "cost_file.ini", NULL), DL_OK);
    assert_int_equal(back.parameter_bytes, 12);
}

static void test_errors(void **state DL_UNUSED)
{
    const dl_notes none = {0};
    const dl_costs costs = {.parameter_bytes = -1, .state_bytes = -1};
    dl_error err = {0};
    assert_int_equal(dl_cost_file_write(&costs, "no/such/folder/c.ini", &none, &none, &err),
                     DL_ERR_IO);
    assert_string_equal(err.file, "no/such/folder/c.ini");
}

/* Digits and punctuation of the format, and a year not before the test was written. */
static void test_date(void **state DL_UNUSED)
{
    char text[DL_DATE_BYTES];
    static const char shape[] = "dddd-dd-ddTdd:dd:ddZ";
    assert_int_equal(strlen(dl_date_text(text)), sizeof shape - 1);
    for (size_t i = 0; i < sizeof shape - 1; i++) {
        const bool digit = text[i] >= '0' && text[i] <= '9';
        assert_true(shape[i] == 'd' ? digit : text[i] == shape[i]);
    }
    assert_true(atoi(text) >= 2025);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_comment),
                                       cmocka_unit_test(test_errors), cmocka_unit_test(test_date)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
