/* Choice of the training data. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

#include "profiler/workload_options.h"

#define EMPTY_FOLDER "data_source_empty"
#define BROKEN_FOLDER "data_source_broken"

static int make_folders(void **state DL_UNUSED)
{
    mkdir(EMPTY_FOLDER, 0777);
    mkdir(BROKEN_FOLDER, 0777);
    FILE *file = fopen(BROKEN_FOLDER "/train-images-idx3-ubyte", "w");
    fputs("no images", file);
    return fclose(file);
}

/* 60000 images like MNIST's training set, 10000 for the test; the note gives the reason. */
static void auto_takes_synthetic_without_files(void **state DL_UNUSED)
{
    dl_data_source source = {
        .choice = DL_DATA_AUTO, .model = "lenet", .folder = EMPTY_FOLDER, .seed = 5};
    DL_SCOPED(dl_data_set) set = {0};
    char *note = NULL;
    dl_error err = {0};
    assert_int_equal(dl_data_source_open(&source, &set, &note, &err), DL_OK);
    assert_string_equal(set.name, "synthetic");
    assert_int_equal(set.count, 60000);
    assert_contains(note, "no MNIST in " EMPTY_FOLDER);
    free(note);

    source.test_set = true;
    DL_SCOPED(dl_data_set) test = {0};
    assert_int_equal(dl_data_source_open(&source, &test, &note, &err), DL_OK);
    assert_int_equal(test.count, 10000);
    assert_memory_not_equal(test.pixels, set.pixels, 784);
    free(note);
}

static void mnist_without_files_is_an_error(void **state DL_UNUSED)
{
    const dl_data_source source = {
        .choice = DL_DATA_MNIST, .model = "lenet", .folder = EMPTY_FOLDER};
    dl_data_set set = {0};
    char *note = NULL;
    dl_error err = {0};
    assert_int_equal(dl_data_source_open(&source, &set, &note, &err), DL_ERR_IO);
    assert_null(note);
    assert_null(set.pixels);
}

/* Damaged files are not silently replaced. */
static void damaged_files_are_an_error(void **state DL_UNUSED)
{
    const dl_data_source source = {
        .choice = DL_DATA_AUTO, .model = "lenet", .folder = BROKEN_FOLDER};
    dl_data_set set = {0};
    char *note = NULL;
    dl_error err = {0};
    assert_int_equal(dl_data_source_open(&source, &set, &note, &err), DL_ERR_FORMAT);
    assert_int_equal(err.code, DL_ERR_FORMAT);
}

static void environment_says_where_mnist_is(void **state DL_UNUSED)
{
    const char *given = getenv("DL_DATA");
    DL_AUTOFREE char *kept = given != NULL ? dl_strdup(given) : NULL;
    setenv("DL_DATA", "nowhere_at_all", 1);
    const dl_data_source source = {.choice = DL_DATA_AUTO, .model = "lenet", .seed = 5};
    DL_SCOPED(dl_data_set) set = {0};
    DL_AUTOFREE char *note = NULL;
    assert_int_equal(dl_data_source_open(&source, &set, &note, NULL), DL_OK);
    assert_contains(note, "no MNIST in nowhere_at_all/mnist");
    if (kept != NULL) setenv("DL_DATA", kept, 1);
}

static void real_mnist_is_found(void **state DL_UNUSED)
{
    const dl_data_source source = {.choice = DL_DATA_AUTO, .model = "lenet"};
    const char *root = getenv("DL_DATA");
    char *images = dl_format("%s/mnist/train-images-idx3-ubyte.gz", root != NULL ? root : "./data");
    const bool present = access(images, R_OK) == 0;
    free(images);
    if (!present) skip();
    DL_SCOPED(dl_data_set) set = {0};
    DL_AUTOFREE char *note = NULL;
    dl_error err = {0};
    if (dl_data_source_open(&source, &set, &note, &err) != DL_OK) fail_msg("%s", err.text);
    assert_string_equal(set.name, "mnist");
    assert_int_equal(set.count, 60000);
}

/* A model with CIFAR-10's shape selects CIFAR-10, which the folder lacks. */
static void model_decides_which_set(void **state DL_UNUSED)
{
    dl_data_source source = {
        .choice = DL_DATA_AUTO, .model = "vgg19_bn", .folder = EMPTY_FOLDER, .test_set = true};
    dl_data_set set = {0};
    char *note = NULL;
    dl_error err = {0};
    assert_int_equal(dl_data_source_open(&source, &set, &note, &err), DL_OK);
    assert_string_equal(note,
                        "synthetic, 10000 images of 32x32x3 (no CIFAR-10 in " EMPTY_FOLDER ")");
    assert_int_equal(set.sample_bytes, 3072);
    assert_int_equal(set.classes, 10);
    free(note);
    dl_data_set_free(&set);

    source.choice = DL_DATA_CIFAR10;
    assert_int_equal(dl_data_source_open(&source, &set, &note, &err), DL_ERR_IO);
    assert_contains(err.file, EMPTY_FOLDER "/test_batch.bin");
}

/* There is no reader for ImageNet. */
static void large_images_are_synthetic(void **state DL_UNUSED)
{
    const dl_data_source source = {.choice = DL_DATA_AUTO, .model = "resnet50", .test_set = true};
    DL_SCOPED(dl_data_set) set = {0};
    DL_AUTOFREE char *note = NULL;
    dl_error err = {0};
    assert_int_equal(dl_data_source_open(&source, &set, &note, &err), DL_OK);
    assert_string_equal(note, "synthetic, 64 images of 224x224x3 (no real set of this shape can be "
                              "read)");
    assert_int_equal(set.sample_bytes, 224 * 224 * 3);
    assert_int_equal(set.classes, 1000);
}

static void sets_are_found_again_by_name(void **state DL_UNUSED)
{
    assert_int_equal(dl_data_choice_of("mnist"), DL_DATA_MNIST);
    assert_int_equal(dl_data_choice_of("cifar10"), DL_DATA_CIFAR10);
    assert_int_equal(dl_data_choice_of("synthetic"), DL_DATA_SYNTHETIC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_takes_synthetic_without_files),
        cmocka_unit_test(mnist_without_files_is_an_error),
        cmocka_unit_test(damaged_files_are_an_error),
        cmocka_unit_test(environment_says_where_mnist_is),
        cmocka_unit_test(real_mnist_is_found),
        cmocka_unit_test(model_decides_which_set),
        cmocka_unit_test(large_images_are_synthetic),
        cmocka_unit_test(sets_are_found_again_by_name),
    };
    return cmocka_run_group_tests(tests, make_folders, NULL);
}
