#include "tests/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/file.h"
#include "common/system.h"

/* 200,000 bytes make the buffer grow twice; one byte is NUL. */
static void whole_file_is_read(void **state DL_UNUSED)
{
    enum { BYTES = 200000 };
    char path[] = "file_XXXXXX";
    DL_AUTOFREE char *written = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        written[i] = (char)(i % 251);
    int file = mkstemp(path);
    assert_int_equal(dl_file_write(file, written, BYTES), 0);
    assert_int_equal(dl_file_write(-1, written, BYTES), EBADF);
    close(file);
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_file_read(path, &text, &bytes, NULL), DL_OK);
    unlink(path);
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(text, written, BYTES);
    assert_int_equal(text[BYTES], '\0');
}

static void missing_files_and_folders_are_errors(void **state DL_UNUSED)
{
    dl_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(dl_file_read("no_such_file", &text, &bytes, &err), DL_ERR_IO);
    assert_string_equal(err.file, "no_such_file");
    assert_contains(err.text, "cannot open");
    assert_int_equal(dl_file_read(".", &text, &bytes, &err), DL_ERR_IO);
    assert_contains(err.text, "is a folder: name the files in it, as in ./");
    assert_null(text);
}

/* The text names a, not b, whether or not the folder ends with a slash. */
static void a_folder_names_its_first_file(void **state DL_UNUSED)
{
    dl_error err = {0};
    char folder[] = "folder_XXXXXX", name[40], text[120];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(dl_file_refuse_folder(folder, &err), DL_ERR_IO);
    assert_string_equal(err.text, "is an empty folder");
    for (const char *file = "ba"; *file != '\0'; file++) {
        snprintf(name, sizeof name, "%s/%c", folder, *file);
        fclose(fopen(name, "w"));
    }
    snprintf(text, sizeof text, "is a folder: name the files in it, as in %s", name);
    assert_int_equal(dl_file_refuse_folder(folder, &err), DL_ERR_IO);
    assert_string_equal(err.text, text);
    unlink(name);
    snprintf(name, sizeof name, "%s/b", folder);
    unlink(name);
    snprintf(name, sizeof name, "%s/", folder);
    assert_int_equal(dl_file_refuse_folder(name, &err), DL_ERR_IO);
    assert_string_equal(err.file, name);
    rmdir(folder);
}

static void endless_input_has_a_limit(void **state DL_UNUSED)
{
    dl_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    if (access("/dev/zero", R_OK) != 0) skip();
    const size_t limits[] = {0, 1, 70000, 1 << 20};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        assert_int_equal(dl_file_read_up_to("/dev/zero", limits[i], &text, &bytes, &err),
                         DL_ERR_RANGE);
        assert_string_equal(err.file, "/dev/zero");
        assert_null(text);
    }
    assert_contains(err.text, "is longer than 1048576 bytes");
    /* The limit of text files is low enough for a small machine. */
    assert_true(DL_FILE_BYTES_MAX <= (size_t)64 << 20);
    assert_int_equal(dl_file_read("/dev/zero", &text, &bytes, &err), DL_ERR_RANGE);
    assert_null(text);
}

static bool no_proc;
ssize_t __real_readlink(const char *path, char *to, size_t bytes);
ssize_t __wrap_readlink(const char *path, char *to, size_t bytes);
ssize_t __wrap_readlink(const char *path, char *to, size_t bytes)
{
    if (!no_proc) return __real_readlink(path, to, bytes);
    errno = ENOENT;
    return -1;
}

static void the_program_finds_its_own_file(void **state DL_UNUSED)
{
    DL_AUTOFREE char *with = dl_system_program();
    assert_non_null(with);
    assert_contains(with, "/test_file");
    no_proc = true;
    DL_AUTOFREE char *without = dl_system_program();
    no_proc = false;
    assert_non_null(without);
    assert_string_equal(without, with);
}

/* Sizes around the limit, and around the size at which the buffer grows. */
static void a_file_of_the_limit_is_read(void **state DL_UNUSED)
{
    const size_t sizes[] = {0, 1, 65534, 65535, 65536, 65537};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char path[] = "file_XXXXXX";
        const int file = mkstemp(path);
        assert_int_equal(ftruncate(file, (off_t)sizes[i]), 0);
        close(file);
        char *text = NULL;
        size_t bytes = 0;
        const dl_status exact = dl_file_read_up_to(path, sizes[i], &text, &bytes, NULL);
        assert_int_equal(exact, DL_OK);
        assert_int_equal(bytes, sizes[i]);
        assert_int_equal(text[bytes], '\0');
        free(text);
        text = NULL;
        if (sizes[i] > 0) {
            const dl_status less = dl_file_read_up_to(path, sizes[i] - 1, &text, &bytes, NULL);
            assert_int_equal(less, DL_ERR_RANGE);
        }
        unlink(path);
    }
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void another_format_is_not_read_on(void **state DL_UNUSED)
{
    char path[] = "file_XXXXXX";
    close(mkstemp(path));
    const struct {
        const char *content, *read;
    } cases[] = {
        {"MAGIC and more", "MAGIC and more"},
        {"MAGICAL", "MAGICAL"},
        {"MAGI", "MAGI"},
        {"magic and more", "magic"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(path, cases[i].content);
        DL_AUTOFREE char *text = NULL;
        size_t bytes = 0;
        assert_int_equal(dl_file_read_format(path, "MAGIC", 5, &text, &bytes, NULL), DL_OK);
        assert_string_equal(text, cases[i].read);
        assert_int_equal(bytes, strlen(cases[i].read));
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file_is_read),
        cmocka_unit_test(missing_files_and_folders_are_errors),
        cmocka_unit_test(a_folder_names_its_first_file),
        cmocka_unit_test(endless_input_has_a_limit),
        cmocka_unit_test(the_program_finds_its_own_file),
        cmocka_unit_test(a_file_of_the_limit_is_read),
        cmocka_unit_test(another_format_is_not_read_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
