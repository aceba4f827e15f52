/* Whether a process is one of several that share a run. For the launchers' variables see
 * test_cluster. */
#include <stdlib.h>

#include "tests/check.h"

#include "profiler/ranks.h"

static void set(const char *size)
{
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", size, 1);
}

static void a_launchers_processes_are_ranks(void **state DL_UNUSED)
{
    dl_rank_options options = dl_rank_options_default();
    set("4");
    assert_int_equal(dl_ranks_launcher(&options).size, 4);
    options.ranks = 1; /* off */
    assert_null(dl_ranks_launcher(&options).name);
    set("1"); /* a single rank does not count */
    options.ranks = 0;
    assert_null(dl_ranks_launcher(&options).name);
    unsetenv("OMPI_COMM_WORLD_RANK");
    assert_null(dl_ranks_launcher(&options).name);
}

static void torchrun_is_refused(void **state DL_UNUSED)
{
    dl_rank_options options = dl_rank_options_default();
    const dl_train_config config = dl_train_default_config();
    dl_error err = {0};
    unsetenv("OMPI_COMM_WORLD_RANK");
    setenv("WORLD_SIZE", "2", 1); /* also set by others */
    assert_int_equal(dl_ranks_check(&options, &config, &err), DL_OK);
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    assert_int_equal(dl_ranks_check(&options, &config, &err), DL_ERR_USAGE);
    assert_contains(err.text, "torchrun has started 2 processes");
    options.ranks = 1;
    assert_int_equal(dl_ranks_check(&options, &config, &err), DL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launchers_processes_are_ranks),
        cmocka_unit_test(torchrun_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
