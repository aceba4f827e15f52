/* CIFAR-10's binary files, complete and damaged. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

#include "kernels/data_set.h"

#define FOLDER "test_data_cifar.tmp"
enum { RECORDS = 10000, RECORD_BYTES = 3073 };

static const char *const names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                    "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
enum { FILES = sizeof names / sizeof names[0] };

static void remove_files(void)
{
    for (int f = 0; f < FILES; f++) {
        DL_AUTOFREE char *path = dl_format(FOLDER "/%s", names[f]);
        unlink(path);
        rmdir(path);
    }
    rmdir(FOLDER);
}

/* Byte k of record i of file f: first a label, then pixels that depend on file, record and
 * position. */
static uint8_t expected_byte(int f, int i, int k)
{
    return (uint8_t)(k == 0 ? (f + i) % 10 : f * 31 + i * 7 + k);
}

/* Writes the first `bytes` bytes of file f, continued beyond its end in the same way. */
static void write_file(int f, size_t bytes)
{
    DL_AUTOFREE char *path = dl_format(FOLDER "/%s", names[f]);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    for (size_t at = 0; at < bytes; at += RECORD_BYTES) {
        uint8_t record[RECORD_BYTES];
        for (int k = 0; k < RECORD_BYTES; k++)
            record[k] = expected_byte(f, (int)(at / RECORD_BYTES), k);
        fwrite(record, 1, bytes - at < sizeof record ? bytes - at : sizeof record, out);
    }
    assert_int_equal(fclose(out), 0);
}

static int make_files(void **state DL_UNUSED)
{
    remove_files();
    if (mkdir(FOLDER, 0777) != 0) return 1;
    for (int f = 0; f < FILES; f++)
        write_file(f, (size_t)RECORDS * RECORD_BYTES);
    return 0;
}

static int drop_files(void **state DL_UNUSED)
{
    remove_files();
    return 0;
}

static dl_data_set read_set(int test_set)
{
    dl_data_set set = {0};
    dl_error err = {0};
    if (dl_data_set_read_cifar10(&set, FOLDER, test_set, &err) != DL_OK) fail_msg("%s", err.text);
    assert_string_equal(set.name, "cifar10");
    assert_int_equal(set.sample_bytes, 3072);
    assert_int_equal(set.classes, 10);
    return set;
}

/* Image `at` of the set is record i of file f; pixel p's channel c is its byte 1 + 1024 c + p. */
static void check_image(const dl_data_set *set, size_t at, int f, int i)
{
    assert_int_equal(set->labels[at], expected_byte(f, i, 0));
    for (int p = 0; p < 1024; p++) {
        for (int c = 0; c < 3; c++) {
            assert_int_equal(set->pixels[at * 3072 + (size_t)(3 * p + c)],
                             expected_byte(f, i, 1 + 1024 * c + p));
        }
    }
}

static void five_files_are_the_training_set(void **state DL_UNUSED)
{
    DL_SCOPED(dl_data_set) set = read_set(0);
    assert_int_equal(set.count, 50000);
    check_image(&set, 0, 0, 0);
    check_image(&set, 9999, 0, 9999);
    check_image(&set, 10000, 1, 0);
    check_image(&set, 49998, 4, 9998);
}

static void one_file_is_the_test_set(void **state DL_UNUSED)
{
    DL_SCOPED(dl_data_set) set = read_set(1);
    assert_int_equal(set.count, 10000);
    check_image(&set, 1234, 5, 1234);
}

/* Reading must fail with `code`, name the file, report `text`, and leave the set unchanged. */
static void check_fails(int test_set, dl_status code, const char *file, const char *text)
{
    dl_data_set set = {.count = 77};
    dl_error err = {0};
    assert_int_equal(dl_data_set_read_cifar10(&set, FOLDER, test_set, &err), code);
    assert_contains(err.file, file);
    assert_contains(err.text, text);
    assert_int_equal(set.count, 77);
    assert_null(set.pixels);
}

/* Sets the length of file f; added bytes are zeros. */
static void resize_file(int f, off_t bytes)
{
    DL_AUTOFREE char *path = dl_format(FOLDER "/%s", names[f]);
    assert_int_equal(truncate(path, bytes), 0);
}

/* This is the last test: the files stay damaged. */
static void sizes_are_strict(void **state DL_UNUSED)
{
    const off_t whole = (off_t)RECORDS * RECORD_BYTES;
    resize_file(5, whole + 1);
    check_fails(1, DL_ERR_FORMAT, "test_batch.bin",
                "has 30730001 bytes; a CIFAR-10 file has 30730000");
    resize_file(5, whole - 1);
    check_fails(1, DL_ERR_FORMAT, "test_batch.bin", "has 30729999 bytes");
    resize_file(5, 0);
    check_fails(1, DL_ERR_FORMAT, "test_batch.bin", "has 0 bytes");
    resize_file(3, 100);
    check_fails(0, DL_ERR_FORMAT, "data_batch_4.bin", "has 100 bytes");
}

static void labels_must_fit(void **state DL_UNUSED)
{
    FILE *file = fopen(FOLDER "/test_batch.bin", "r+b");
    assert_non_null(file);
    fseek(file, 42L * RECORD_BYTES, SEEK_SET);
    fputc(10, file);
    assert_int_equal(fclose(file), 0);
    check_fails(1, DL_ERR_FORMAT, "test_batch.bin", "label 10 of image 42");
    write_file(5, (size_t)RECORDS * RECORD_BYTES);
}

static void missing_and_unreadable_files_are_errors(void **state DL_UNUSED)
{
    unlink(FOLDER "/data_batch_2.bin");
    check_fails(0, DL_ERR_IO, "data_batch_2.bin", "cannot open");
    mkdir(FOLDER "/data_batch_2.bin", 0777);
    dl_data_set set = {0};
    dl_error err = {0};
    assert_int_equal(dl_data_set_read_cifar10(&set, FOLDER, 0, &err), DL_ERR_IO);
    assert_contains(err.text, "is an empty folder");
    rmdir(FOLDER "/data_batch_2.bin");
    write_file(1, (size_t)RECORDS * RECORD_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_files_are_the_training_set),
        cmocka_unit_test(one_file_is_the_test_set),
        cmocka_unit_test(labels_must_fit),
        cmocka_unit_test(missing_and_unreadable_files_are_errors),
        cmocka_unit_test(sizes_are_strict),
    };
    return cmocka_run_group_tests(tests, make_files, drop_files);
}
