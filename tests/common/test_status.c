#include "tests/check.h"

#include <stdlib.h>

#include "common/status.h"

/* Returns the output of dl_error_print; the caller frees it. */
static char *printed(const dl_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_error_print(err, "dlsim", out);
    fclose(out);
    return text;
}

static void error_names_file_and_line(void **state DL_UNUSED)
{
    dl_error err = {0};
    assert_int_equal(dl_error_set_at(&err, DL_ERR_PARSE, "a.ini", 7, "bad %s", "key"),
                     DL_ERR_PARSE);
    assert_int_equal(err.code, DL_ERR_PARSE);
    DL_AUTOFREE char *text = printed(&err);
    assert_string_equal(text, "dlsim: a.ini:7: bad key\n");
}

static void error_without_line_or_file(void **state DL_UNUSED)
{
    dl_error err = {0};
    dl_error_set_at(&err, DL_ERR_IO, "a.ini", 0, "cannot open");
    char *text = printed(&err);
    assert_string_equal(text, "dlsim: a.ini: cannot open\n");
    free(text);
    /* a second error replaces the first completely */
    dl_error_set(&err, DL_ERR_USAGE, "no %d", 3);
    text = printed(&err);
    assert_string_equal(text, "dlsim: no 3\n");
    free(text);
}

static void error_accepts_null_and_cuts_long_text(void **state DL_UNUSED)
{
    assert_int_equal(dl_error_set(NULL, DL_ERR_DATA, "lost"), DL_ERR_DATA);
    dl_error err = {0};
    dl_error_set(&err, DL_ERR_DATA, "%0600d", 1);
    assert_int_equal(strlen(err.text), DL_ERROR_TEXT_BYTES - 1);
}

static void exit_code_tells_usage_from_failure(void **state DL_UNUSED)
{
    assert_int_equal(dl_status_exit_code(DL_OK), 0);
    assert_int_equal(dl_status_exit_code(DL_ERR_USAGE), 2);
    for (int code = DL_ERR_IO; code <= DL_ERR_SYSTEM; code++) {
        assert_int_equal(dl_status_exit_code((dl_status)code), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_names_file_and_line),
        cmocka_unit_test(error_without_line_or_file),
        cmocka_unit_test(error_accepts_null_and_cuts_long_text),
        cmocka_unit_test(exit_code_tells_usage_from_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
