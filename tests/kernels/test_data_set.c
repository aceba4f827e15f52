/* IDX files (plain and gzipped, complete and damaged) and the synthetic set. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "tests/check.h"

#include "kernels/data_set.h"

#define FOLDER "test_data_set.tmp"
#define IMAGES FOLDER "/train-images-idx3-ubyte"
#define LABELS FOLDER "/train-labels-idx1-ubyte"

/* Three images of 2 x 2 and their labels. */
static const uint8_t good_images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0,   2,  0,  0,
                                      0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 255, 10, 11, 12};
static const uint8_t good_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};

static void remove_files(void)
{
    static const char *const paths[] = {IMAGES, IMAGES ".gz", LABELS, LABELS ".gz"};
    for (size_t i = 0; i < 4; i++) {
        unlink(paths[i]);
        rmdir(paths[i]);
    }
    rmdir(FOLDER);
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, count, out), count);
    assert_int_equal(fclose(out), 0);
}

static void write_gz(const char *path, const void *bytes, size_t count)
{
    gzFile out = gzopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(gzwrite(out, bytes, (unsigned)count), count);
    assert_int_equal(gzclose(out), Z_OK);
}

static int fresh_folder(void **state DL_UNUSED)
{
    remove_files();
    return mkdir(FOLDER, 0777);
}

static int clean_folder(void **state DL_UNUSED)
{
    remove_files();
    return 0;
}

static void check_good(void)
{
    dl_data_set set = {0};
    dl_error err = {0};
    assert_int_equal(dl_data_set_read_mnist(&set, FOLDER, 0, &err), DL_OK);
    assert_string_equal(set.name, "mnist");
    assert_int_equal(set.count, 3);
    assert_int_equal(set.sample_bytes, 4);
    assert_int_equal(set.classes, 10);
    assert_memory_equal(set.pixels, good_images + 16, 12);
    for (int i = 0; i < 3; i++)
        assert_int_equal(set.labels[i], good_labels[8 + i]);
    dl_data_set_free(&set);
    assert_null(set.pixels);
}

static void reads_plain_files(void **state DL_UNUSED)
{
    write_file(IMAGES, good_images, sizeof good_images);
    write_file(LABELS, good_labels, sizeof good_labels);
    check_good();
}

static void reads_gzipped_files(void **state DL_UNUSED)
{
    write_gz(IMAGES ".gz", good_images, sizeof good_images);
    write_gz(LABELS ".gz", good_labels, sizeof good_labels);
    check_good();
}

static void reads_a_mixture(void **state DL_UNUSED)
{
    write_file(IMAGES, good_images, sizeof good_images);
    write_gz(LABELS ".gz", good_labels, sizeof good_labels);
    check_good();
}

/* Reading must fail with `code`, report `text`, and leave the set unchanged. */
static void check_fails(dl_status code, const char *text)
{
    dl_data_set set = {.count = 77};
    dl_error err = {0};
    assert_int_equal(dl_data_set_read_mnist(&set, FOLDER, 0, &err), code);
    assert_int_equal(err.code, code);
    assert_contains(err.text, text);
    assert_int_equal(set.count, 77);
    assert_null(set.pixels);
}

/* Writes the valid files, with `count` bytes at `offset` replaced by `bytes`, and without the last
 * `cut` bytes. */
static void write_images(size_t offset, const void *bytes, size_t count, size_t cut)
{
    uint8_t copy[sizeof good_images];
    memcpy(copy, good_images, sizeof copy);
    if (count > 0) memcpy(copy + offset, bytes, count);
    write_file(IMAGES, copy, sizeof copy - cut);
    write_file(LABELS, good_labels, sizeof good_labels);
}

static void missing_files_are_errors(void **state DL_UNUSED)
{
    check_fails(DL_ERR_IO, "neither train-images-idx3-ubyte nor");
    write_file(IMAGES, good_images, sizeof good_images);
    check_fails(DL_ERR_IO, "neither train-labels-idx1-ubyte nor");
}

static void unreadable_file_is_an_error(void **state DL_UNUSED)
{
    assert_int_equal(mkdir(IMAGES, 0777), 0); /* a folder instead of the file */
    check_fails(DL_ERR_IO, "");
}

static void wrong_magic_is_an_error(void **state DL_UNUSED)
{
    write_images(3, "\x01", 1, 0);
    check_fails(DL_ERR_FORMAT, "magic 0x00000801, expected 0x00000803");
    write_images(0, NULL, 0, 0);
    write_file(LABELS, good_images, sizeof good_images);
    check_fails(DL_ERR_FORMAT, "magic 0x00000803, expected 0x00000801");
}

static void short_header_is_an_error(void **state DL_UNUSED)
{
    write_images(0, NULL, 0, sizeof good_images - 7);
    check_fails(DL_ERR_FORMAT, "header ends after 7 bytes of 16");
    write_images(0, NULL, 0, sizeof good_images);
    check_fails(DL_ERR_FORMAT, "header ends after 0 bytes of 16");
    write_images(0, NULL, 0, 0);
    write_file(LABELS, good_labels, 5);
    check_fails(DL_ERR_FORMAT, "header ends after 5 bytes of 8");
}

static void truncation_is_an_error(void **state DL_UNUSED)
{
    write_images(0, NULL, 0, 1);
    check_fails(DL_ERR_FORMAT, "ends after 11 of 12 data bytes");
    write_images(0, NULL, 0, 0);
    write_file(LABELS, good_labels, sizeof good_labels - 2);
    check_fails(DL_ERR_FORMAT, "ends after 1 of 3 data bytes");
}

static void bytes_behind_the_end_are_an_error(void **state DL_UNUSED)
{
    write_images(7, "\x02", 1, 0); /* the header gives 2 of the 3 images */
    check_fails(DL_ERR_FORMAT, "more than the 8 data bytes");
}

static void impossible_sizes_are_errors(void **state DL_UNUSED)
{
    write_images(7, "\x00", 1, 0);
    check_fails(DL_ERR_FORMAT, "0 images of 2 x 2");
    write_images(11, "\x00", 1, 0);
    check_fails(DL_ERR_FORMAT, "3 images of 0 x 2");
    write_images(8, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0);
    check_fails(DL_ERR_FORMAT, "3 images of 4294967295 x 4294967295");
    write_images(4, "\xff\xff\xff\xff", 4, 0); /* valid sizes, but the data are missing */
    check_fails(DL_ERR_FORMAT, "ends after 12 of 17179869180 data bytes");
}

static void labels_must_fit(void **state DL_UNUSED)
{
    write_images(0, NULL, 0, 0);
    write_file(LABELS, "\0\0\x8\x1\0\0\0\x2\x1\x2", 10);
    check_fails(DL_ERR_FORMAT, "2 labels for 3 images");
    write_file(LABELS, "\0\0\x8\x1\0\0\0\x3\x1\xa\x2", 11);
    check_fails(DL_ERR_FORMAT, "label 10 of image 1");
}

static void damaged_gzip_is_an_error(void **state DL_UNUSED)
{
    write_gz(IMAGES ".gz", good_images, sizeof good_images);
    write_file(LABELS, good_labels, sizeof good_labels);
    FILE *in = fopen(IMAGES ".gz", "rb");
    assert_non_null(in);
    uint8_t bytes[256];
    const size_t count = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    write_file(IMAGES ".gz", bytes, count - 9); /* without checksum and length */
    check_fails(DL_ERR_FORMAT, "gzip");
    bytes[count - 6] ^= 0x40; /* in the checksum (the last 8 bytes are CRC-32 and length) */
    write_file(IMAGES ".gz", bytes, count);
    check_fails(DL_ERR_FORMAT, "gzip");
}

/* A file that expands beyond its header: 64 MiB of zeros, then damage, which must not be
 * reached. */
static void no_more_is_unpacked_than_promised(void **state DL_UNUSED)
{
    enum { PIECE = 1 << 20, PIECES = 64 };
    static const uint8_t zeros[PIECE];
    static uint8_t packed[PIECE];
    write_file(LABELS, good_labels, sizeof good_labels);
    for (int kind = 0; kind < 2; kind++) {
        gzFile out = gzopen(IMAGES ".gz", "wb9");
        assert_non_null(out);
        if (kind == 0) assert_int_equal(gzwrite(out, good_images, sizeof good_images), 28);
        for (int i = 0; i < PIECES; i++)
            assert_int_equal(gzwrite(out, zeros, PIECE), PIECE);
        assert_int_equal(gzclose(out), Z_OK);
        FILE *in = fopen(IMAGES ".gz", "rb");
        assert_non_null(in);
        const size_t count = fread(packed, 1, sizeof packed, in);
        fclose(in);
        assert_in_range(count, 1000, sizeof packed - 1);
        write_file(IMAGES ".gz", packed, count - 9);
        check_fails(DL_ERR_FORMAT, kind == 0 ? "more than the 12 data bytes" : "magic 0x00000000");
    }
}

/* Expectation: equal bytes for equal seeds, different ones for another seed; all ten classes; and
 * images of a class are closer to one another than to those of other classes (mean over pixels and
 * images). */
static void synthetic_set_is_deterministic(void **state DL_UNUSED)
{
    const dl_shape digits = {28, 28, 1};
    DL_SCOPED(dl_data_set) a = {0}, b = {0}, c = {0};
    dl_data_set_synthetic(&a, digits, 10, 200, 5);
    dl_data_set_synthetic(&b, digits, 10, 200, 5);
    dl_data_set_synthetic(&c, digits, 10, 200, 6);
    assert_string_equal(a.name, "synthetic");
    assert_int_equal(a.count, 200);
    assert_int_equal(a.sample_bytes, 784);
    assert_int_equal(a.classes, 10);
    assert_memory_equal(a.pixels, b.pixels, 200 * 784);
    assert_memory_equal(a.labels, b.labels, 200 * sizeof *a.labels);
    assert_memory_not_equal(a.pixels, c.pixels, 200 * 784);
    assert_memory_not_equal(a.labels, c.labels, 200 * sizeof *a.labels);
    double distance[2] = {0, 0}, pairs[2] = {0, 0};
    int seen[10] = {0};
    for (size_t i = 0; i < 200; i++) {
        assert_true(a.labels[i] < 10);
        seen[a.labels[i]] = 1;
        const size_t j = (i * 7 + 1) % 200; /* an image of the other set: the patterns are shared */
        const int same = a.labels[i] == c.labels[j];
        for (size_t p = 0; p < 784; p++) {
            distance[same] += abs(a.pixels[i * 784 + p] - c.pixels[j * 784 + p]);
        }
        pairs[same]++;
    }
    for (int k = 0; k < 10; k++)
        assert_int_equal(seen[k], 1);
    assert_true(pairs[1] > 0);
    assert_true(distance[1] / pairs[1] < 0.85 * distance[0] / pairs[0]);
}

/* More classes than a byte can count: labels above 255 occur, all below the number of classes. */
static void synthetic_set_has_any_shape(void **state DL_UNUSED)
{
    DL_SCOPED(dl_data_set) set = {0};
    dl_data_set_synthetic(&set, (dl_shape){3, 2, 5}, 1000, 100, 1);
    assert_int_equal(set.sample_bytes, 30);
    assert_int_equal(set.classes, 1000);
    unsigned largest = 0;
    for (int i = 0; i < 100; i++) {
        if (set.labels[i] > largest) largest = set.labels[i];
    }
    assert_true(largest > 255 && largest < 1000);
}

static void batch_takes_the_order_and_scales(void **state DL_UNUSED)
{
    uint8_t pixels[] = {0, 51, 255, 102, 153, 204};
    uint16_t labels[] = {4, 5, 999};
    const dl_data_set set = {.pixels = pixels, .labels = labels, .count = 3, .sample_bytes = 2};
    const uint32_t order[] = {2, 0, 2};
    float single[6];
    double exact[6];
    int32_t got[3];
    dl_data_set_batch(&set, order, 3, DL_FLOAT, single, got);
    dl_data_set_batch(&set, order, 3, DL_DOUBLE, exact, got);
    const double expected[] = {0.6, 0.8, 0, 0.2, 0.6, 0.8};
    for (int i = 0; i < 6; i++) {
        assert_float_equal(single[i], expected[i], 1e-7);
        assert_float_equal(exact[i], expected[i], 1e-15);
    }
    assert_int_equal(got[0], 999);
    assert_int_equal(got[1], 4);
    assert_int_equal(got[2], 999);
}

/* MNIST has 60,000 and 10,000 images; its first training label is 5, the first test label 7. */
static void reads_real_mnist(void **state DL_UNUSED)
{
    const char *data = getenv("DL_DATA");
    if (data == NULL) skip();
    char *folder = dl_format("%s/mnist", data);
    dl_data_set set = {0};
    dl_error err = {0};
    for (int test_set = 0; test_set < 2; test_set++) {
        const dl_status status = dl_data_set_read_mnist(&set, folder, test_set, &err);
        if (status == DL_ERR_IO) {
            free(folder);
            skip();
        }
        assert_int_equal(status, DL_OK);
        assert_int_equal(set.count, test_set ? 10000 : 60000);
        assert_int_equal(set.sample_bytes, 784);
        assert_int_equal(set.labels[0], test_set ? 7 : 5);
        dl_data_set_free(&set);
    }
    free(folder);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fresh_folder, clean_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(reads_plain_files),
        IN_FOLDER(reads_gzipped_files),
        IN_FOLDER(reads_a_mixture),
        IN_FOLDER(missing_files_are_errors),
        IN_FOLDER(unreadable_file_is_an_error),
        IN_FOLDER(wrong_magic_is_an_error),
        IN_FOLDER(short_header_is_an_error),
        IN_FOLDER(truncation_is_an_error),
        IN_FOLDER(bytes_behind_the_end_are_an_error),
        IN_FOLDER(impossible_sizes_are_errors),
        IN_FOLDER(labels_must_fit),
        IN_FOLDER(damaged_gzip_is_an_error),
        IN_FOLDER(no_more_is_unpacked_than_promised),
        cmocka_unit_test(synthetic_set_is_deterministic),
        cmocka_unit_test(synthetic_set_has_any_shape),
        cmocka_unit_test(batch_takes_the_order_and_scales),
        cmocka_unit_test(reads_real_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
