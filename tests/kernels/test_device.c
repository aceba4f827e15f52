/* Choosing a device, and the errors where there is none. Passes with and without CUDA, a driver, a
 * GPU. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/device.h"
#include "tests/check.h"

static void check_choice(const char *text, bool cuda, int first)
{
    dl_device_choice choice = {.first = -1};
    dl_error err = {0};
    if (dl_device_parse(text, &choice, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(choice.cuda, cuda);
    assert_int_equal(choice.first, first);
}

static void names_of_devices_are_read(void **state DL_UNUSED)
{
    check_choice("cpu", false, 0);
    check_choice("cuda", true, 0);
    check_choice("cuda:0", true, 0);
    check_choice("cuda:13", true, 13);
}

static void other_names_are_bad_usage(void **state DL_UNUSED)
{
    static const char *const bad[] = {
        "",        "gpu",     "cpu:0", "cuda:",     "cuda:-1",
        "cuda:1x", "cuda: 1", "cuda1", "cuda:4096", "cuda:99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dl_device_choice choice = {.first = -1};
        dl_error err = {0};
        assert_int_equal(dl_device_parse(bad[i], &choice, &err), DL_ERR_USAGE);
        assert_contains(err.text, "must be cpu, cuda, or cuda:NUMBER");
        assert_int_equal(choice.first, -1);
    }
}

static void check_refused(dl_status status, const dl_error *err, const char *text)
{
    assert_int_equal(status, DL_ERR_UNSUPPORTED);
    assert_contains(err->text, text);
    assert_contains(err->text, "; --device cpu uses the processor");
}

static void a_library_that_cannot_be_loaded_is_named(void **state DL_UNUSED)
{
    const dl_device_type *type = NULL;
    dl_error err = {0};
    check_refused(dl_device_load("./no_such_library.so", &type, &err), &err,
                  "no_such_library.so: cannot open shared object file");
    check_refused(dl_device_load("libm.so.6", &type, &err), &err,
                  "libm.so.6 has no " DL_DEVICE_ENTRY);
    assert_null(type);
}

/* Tests are in a separate folder, without the library. */
static void a_build_without_the_library_says_so(void **state DL_UNUSED)
{
    const dl_device_type *type = NULL;
    dl_error err = {0};
    check_refused(dl_device_load_cuda(&type, &err), &err, "this build has no CUDA: there is no /");
    assert_contains(err.text, "/" DL_DEVICE_CUDA_LIBRARY);
}

/* Sets path to BUILD/bin/library for BUILD/tests/test_device, from any working directory. */
static void find_library(char *path, size_t size)
{
    char folder[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", folder, sizeof folder - 1) > 0);
    *strrchr(folder, '/') = '\0';
    snprintf(path, size, "%s/../bin/%s", folder, DL_DEVICE_CUDA_LIBRARY);
}

/* The real library: returns its table where there is a GPU, else the reason. */
static void the_library_finds_a_gpu_or_says_why_not(void **state DL_UNUSED)
{
    char path[PATH_MAX + 64];
    find_library(path, sizeof path);
    if (access(path, R_OK) != 0) skip();
    const dl_device_type *type = NULL;
    dl_error err = {0};
    const dl_status status = dl_device_load(path, &type, &err);
    if (status != DL_OK) {
        check_refused(status, &err, "NVIDIA driver");
        assert_null(type);
        return;
    }
    int count = 0;
    assert_string_equal(type->name, "cuda");
    assert_int_equal(type->count(&count, &err), DL_OK);
    for (int i = 0; i < count; i++) {
        dl_device_info info = {0};
        if (type->describe(i, &info, &err) != DL_OK) fail_msg("%s", err.text);
        assert_true(info.name[0] != '\0' && info.bus_id[0] != '\0');
        assert_true(info.major >= 1 && info.multiprocessors >= 1 && info.memory_bytes > 0);
    }
    dl_device_info none = {.major = -1};
    assert_int_equal(type->describe(count, &none, &err), DL_ERR_SYSTEM);
    assert_int_equal(none.major, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_devices_are_read),
        cmocka_unit_test(other_names_are_bad_usage),
        cmocka_unit_test(a_library_that_cannot_be_loaded_is_named),
        cmocka_unit_test(a_build_without_the_library_says_so),
        cmocka_unit_test(the_library_finds_a_gpu_or_says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
