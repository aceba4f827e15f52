#include "calibrate/notes.h"

#include <stdlib.h>

#include "common/file.h"
#include "common/options.h"
#include "tests/check.h"

static void write_answer(dl_json *to, const void *report)
{
    dl_json_number_item(to, "answer", *(const int *)report);
}

/* Head, members of the report, notes; one line. */
static void test_members(void **state DL_UNUSED)
{
    const int answer = 42;
    DL_SCOPED(dl_notes) notes = {0};
    dl_notes_add(&notes, "a \"note\"");
    dl_notes_add(&notes, "another");
    assert_int_equal(dl_json_report_write("report.json", write_answer, &answer, &notes, NULL),
                     DL_OK);
    char *text = NULL, expected[256];
    size_t bytes;
    assert_int_equal(dl_file_read("report.json", &text, &bytes, NULL), DL_OK);
    snprintf(expected, sizeof expected,
             "{\"schema\":1,\"program\":\"dlcal\",\"version\":\"%s\",\"answer\":42,"
             "\"notes\":[\"a \\\"note\\\"\",\"another\"]}\n",
             dl_version());
    assert_string_equal(text, expected);
    free(text);
}

static void test_errors(void **state DL_UNUSED)
{
    const int answer = 42;
    const dl_notes none = {0};
    dl_error err = {0};
    assert_int_equal(
        dl_json_report_write("no/such/folder/r.json", write_answer, &answer, &none, &err),
        DL_ERR_IO);
    assert_string_equal(err.file, "no/such/folder/r.json");
    assert_contains(err.text, "cannot create");
    assert_int_equal(dl_json_report_write("/dev/full", write_answer, &answer, &none, &err),
                     DL_ERR_IO);
    assert_contains(err.text, "cannot write");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_members),
                                       cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
