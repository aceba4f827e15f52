/* OpenBLAS's kernels fit the processor, also if its version does not know it
 * (doubles/openblas_double.c). */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/install.h"
#include "kernels/blas.h"
#include "tests/check.h"

/* Returns the kernels chosen by the library that dl_blas_load loads, in a process of its own. */
static char *loaded_core(const char *given)
{
    static char name[32];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (given != NULL) {
            (void)setenv("OPENBLAS_CORETYPE", given, 1);
        } else {
            (void)unsetenv("OPENBLAS_CORETYPE");
        }
        char *(*core_name)(void) = NULL;
        if (dl_blas_load(NULL) != DL_OK) _exit(1);
        void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
        if (handle == NULL || !dl_library_function(handle, "openblas_get_corename", &core_name))
            _exit(1);
        const char *after = getenv("OPENBLAS_CORETYPE"); /* the environment is as before */
        if ((given == NULL) != (after == NULL)) _exit(1);
        const size_t length = strlen(core_name());
        _exit(write(ends[1], core_name(), length) == (ssize_t)length ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const ssize_t length = read(ends[0], name, sizeof name - 1);
    assert_true(length > 0);
    name[length] = '\0';
    close(ends[0]);
    close(ends[1]);
    return name;
}

static void an_unknown_processor_gets_its_vector_kernels(void **state DL_UNUSED)
{
#if defined(__x86_64__)
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    assert_string_equal(loaded_core(NULL), avx512 ? "SkylakeX" : avx2 ? "Haswell" : "Prescott");
#else
    assert_string_equal(loaded_core(NULL), "Prescott");
#endif
}

static void kernels_chosen_by_the_user_stay(void **state DL_UNUSED)
{
    assert_string_equal(loaded_core("Prescott"), "Prescott");
    assert_string_equal(loaded_core("Nehalem"), "Nehalem");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_processor_gets_its_vector_kernels),
        cmocka_unit_test(kernels_chosen_by_the_user_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
