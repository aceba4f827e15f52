/* A held file that loses its descriptor. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/file.h"
#include "trace/dlt/dlt.h"

#define PATH "test_held_file.tmp"
#define OTHER "test_held_file.other"

static void assert_text(const char *path, const char *expected)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes;
    dl_error err = {0};
    assert_int_equal(dl_file_read(path, &text, &bytes, &err), DL_OK);
    assert_string_equal(text, expected);
}

static int put(dl_held_file *file, const char *text)
{
    return dl_held_file_write(file, PATH, text, strlen(text));
}

static void test_a_closed_descriptor_is_replaced(void **state DL_UNUSED)
{
    dl_held_file file;
    assert_int_equal(dl_held_file_open(&file, PATH), 0);
    assert_int_equal(put(&file, "one "), 0);
    assert_int_equal(file.reopened, 0);
    close(file.fd);
    assert_int_equal(put(&file, "two "), 0);
    assert_int_equal(put(&file, "three"), 0);
    assert_int_equal(file.reopened, 1);
    assert_int_equal(dl_held_file_close(&file), 0);
    assert_int_equal(fcntl(file.fd, F_GETFD), -1);
    assert_text(PATH, "one two three");
}

/* The descriptor number now refers to the program's own file, which is neither written nor
 * closed. */
static void test_another_file_is_left_alone(void **state DL_UNUSED)
{
    dl_held_file file;
    assert_int_equal(dl_held_file_open(&file, PATH), 0);
    assert_int_equal(put(&file, "one "), 0);
    const int number = file.fd;
    close(number);
    assert_int_equal(open(OTHER, O_WRONLY | O_CREAT | O_TRUNC, 0666), number);
    dl_held_file lost = file;
    assert_int_equal(put(&file, "two"), 0);
    assert_int_not_equal(file.fd, number);
    assert_int_equal(dl_held_file_close(&lost), 0);
    assert_int_not_equal(fcntl(number, F_GETFD), -1);
    assert_int_equal(dl_held_file_close(&file), 0);
    assert_int_equal(close(number), 0);
    assert_text(PATH, "one two");
    assert_text(OTHER, "");
    unlink(OTHER);
}

/* Simulates a close between the check and the write: the check finds the file, the write fails. */
static void test_a_descriptor_that_takes_no_write_is_replaced(void **state DL_UNUSED)
{
    dl_held_file file;
    assert_int_equal(dl_held_file_open(&file, PATH), 0);
    assert_int_equal(put(&file, "one "), 0);
    const int number = file.fd;
    close(number);
    assert_int_equal(open(PATH, O_RDONLY), number);
    assert_int_equal(put(&file, "two"), 0);
    assert_int_equal(file.reopened, 1);
    assert_int_not_equal(file.fd, number);
    assert_int_equal(dl_held_file_close(&file), 0);
    assert_int_equal(close(number), 0);
    assert_text(PATH, "one two");
}

static void test_a_file_that_is_gone_is_an_error(void **state DL_UNUSED)
{
    dl_held_file file;
    assert_int_equal(dl_held_file_open(&file, PATH), 0);
    const int kept = dup(file.fd); /* otherwise the next file could have the same inode */
    close(file.fd);
    unlink(PATH);
    assert_int_equal(put(&file, "one"), EBADF);
    close(open(PATH, O_WRONLY | O_CREAT, 0666)); /* same name, different file */
    assert_int_equal(put(&file, "one"), EBADF);
    assert_text(PATH, "");
    close(kept);
    unlink(PATH);
    assert_int_equal(dl_held_file_open(&file, "/nowhere/file"), ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_closed_descriptor_is_replaced),
        cmocka_unit_test(test_another_file_is_left_alone),
        cmocka_unit_test(test_a_descriptor_that_takes_no_write_is_replaced),
        cmocka_unit_test(test_a_file_that_is_gone_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
