#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/file.h"

/* 200,000 bytes make the buffer grow twice; one of them is NUL. */
static void whole_file_is_read(void **state)
{
    (void)state;
    enum { BYTES = 200000 };
    char path[] = "file_XXXXXX";
    char *written = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        written[i] = (char)(i % 251);
    int file = mkstemp(path);
    assert_int_equal(write(file, written, BYTES), BYTES);
    close(file);
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_file_read(path, &text, &bytes, NULL), DL_OK);
    unlink(path);
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(text, written, BYTES);
    assert_int_equal(text[BYTES], '\0');
    free(text);
    free(written);
}

static void missing_files_and_folders_are_errors(void **state)
{
    (void)state;
    dl_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_file_read("no_such_file", &text, &bytes, &err), DL_ERR_IO);
    assert_string_equal(err.file, "no_such_file");
    assert_contains(err.text, "cannot open");
    assert_int_equal(dl_file_read(".", &text, &bytes, &err), DL_ERR_IO);
    assert_contains(err.text, "cannot read");
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file_is_read),
        cmocka_unit_test(missing_files_and_folders_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
