#include "tests/check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/install.h"
#include "common/system.h"

/* The test is in a folder beside the build's bin, at the same relative position to
 * share/dlscale. */
static void share_is_found_from_the_program(void **state DL_UNUSED)
{
    unsetenv("DLSCALE_SHARE");
    DL_AUTOFREE char *plots = dl_share_path("plots"), *script = dl_format("%s/speedup.gp", plots);
    assert_true(plots[0] == '/');
    assert_int_equal(access(script, R_OK), 0);
}

static void the_variable_goes_before(void **state DL_UNUSED)
{
    setenv("DLSCALE_SHARE", "/nowhere", 1);
    char *path = dl_share_path("scenarios/machines");
    assert_string_equal(path, "/nowhere/scenarios/machines");
    free(path);
    setenv("DLSCALE_SHARE", "", 1); /* counts as unset */
    path = dl_share_path("plots");
    assert_int_equal(access(path, R_OK), 0);
    free(path);
    unsetenv("DLSCALE_SHARE");
}

static void libraries_lie_beside_the_program(void **state DL_UNUSED)
{
    char *program = dl_system_program(), *path = NULL;
    assert_non_null(program);
    dl_error err = {0};
    assert_int_equal(dl_library_path(strrchr(program, '/') + 1, &path, &err), DL_OK);
    assert_string_equal(path, program);
    free(path);
    path = NULL;
    assert_int_equal(dl_library_path("libnone.so", &path, &err), DL_ERR_UNSUPPORTED);
    assert_null(path);
    assert_contains(err.file, "/libnone.so");
    assert_string_equal(err.text, "No such file or directory");
    free(program);
}

static void functions_of_libraries_are_found(void **state DL_UNUSED)
{
    size_t (*length)(const char *) = NULL;
    void *program = dlopen(NULL, RTLD_NOW); /* includes the C library */
    assert_non_null(program);
    assert_true(dl_library_function(program, "strlen", &length));
    assert_int_equal(length("four"), 4);
    assert_false(dl_library_function(program, "dl_no_such_function", &length));
    assert_null(length);
    dlclose(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_is_found_from_the_program),
        cmocka_unit_test(the_variable_goes_before),
        cmocka_unit_test(libraries_lie_beside_the_program),
        cmocka_unit_test(functions_of_libraries_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
