#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "common/cluster.h"
#include "common/cpu.h"

static const char *const variables[] = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",   "PMI_SIZE", "PMIX_RANK",
    "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",         "DLSCALE_MPI"};

static int clear(void **state DL_UNUSED)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return 0;
}

static void expect_launcher(const char *name, int rank, int size, bool has_mpi)
{
    const dl_launcher found = dl_launcher_find();
    assert_non_null(found.name);
    assert_string_equal(found.name, name);
    assert_int_equal(found.rank, rank);
    assert_int_equal(found.size, size);
    assert_int_equal(found.has_mpi, has_mpi);
}

static void launchers_are_known_by_their_variables(void **state DL_UNUSED)
{
    assert_null(dl_launcher_find().name);
    /* The script of sbatch has a task number, but is not a job step. */
    setenv("SLURM_PROCID", "0", 1);
    assert_null(dl_launcher_find().name);
    setenv("SLURM_STEP_NUM_TASKS", "8", 1);
    expect_launcher("srun", 0, 8, false);
    setenv("PMIX_RANK", "5", 1);
    expect_launcher("srun (PMIx)", 5, 8, true);
    setenv("PMI_RANK", "3", 1);
    setenv("PMI_SIZE", "4", 1);
    expect_launcher("mpirun (PMI)", 3, 4, true);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    expect_launcher("mpirun (Open MPI)", 1, 2, true);
    setenv("OMPI_COMM_WORLD_RANK", "one", 1);
    expect_launcher("mpirun (PMI)", 3, 4, true);
    setenv("DLSCALE_MPI", "off", 1);
    assert_null(dl_launcher_find().name);
}

static void without_a_launcher_a_process_is_alone(void **state DL_UNUSED)
{
    dl_cluster cluster;
    dl_error err = {0};
    assert_int_equal(dl_cluster_start(&cluster, &err), DL_OK);
    assert_int_equal(cluster.rank, 0);
    assert_int_equal(cluster.size, 1);
    assert_int_equal(cluster.local_size, 1);
    assert_int_equal(cluster.cpu_count, dl_cpu_count());
    assert_null(cluster.calls);
    assert_int_equal(dl_cluster_agree(&cluster, DL_OK, &err), DL_OK);
    assert_int_equal(dl_cluster_same(&cluster, 1, "what", &err), DL_OK);
    assert_int_equal(dl_cluster_end(&cluster, DL_OK, &err, "test"), 0);
    assert_int_equal(dl_cluster_end(&cluster, DL_ERR_USAGE, &err, "test"), 2);
}

/* A single process needs no communication. */
static void one_process_needs_no_mpi(void **state DL_UNUSED)
{
    dl_cluster cluster;
    dl_error err = {0};
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    assert_int_equal(dl_cluster_start(&cluster, &err), DL_OK);
    assert_int_equal(cluster.size, 1);
    assert_null(cluster.calls);
}

/* There is no library beside this test. Only rank 0 has an exit status. */
static void several_need_it(void **state DL_UNUSED)
{
    dl_cluster cluster;
    dl_error err = {0};
    setenv("SLURM_PROCID", "2", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    assert_int_equal(dl_cluster_start(&cluster, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "srun has started 4 processes without MPI: use srun --mpi=pmix");
    assert_int_equal(dl_cluster_end(&cluster, DL_ERR_UNSUPPORTED, &err, "test"), 0);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    assert_int_equal(dl_cluster_start(&cluster, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "mpirun (Open MPI) has started 3 processes, but this build has no");
    assert_contains(err.text, "/" DL_CLUSTER_LIBRARY "; with DLSCALE_MPI=off each works alone");
    assert_int_equal(dl_cluster_end(&cluster, DL_ERR_UNSUPPORTED, &err, "test"), 1);
}

/* A different MPI's launcher: each process finds only itself. */
static void all_ranks_must_be_found(void **state DL_UNUSED)
{
    dl_error err = {0};
    const dl_launcher of_two = {.name = "mpirun (PMI)", .rank = 0, .size = 2, .has_mpi = true};
    assert_int_equal(dl_launcher_check(&of_two, 2, &err), DL_OK);
    assert_int_equal(dl_launcher_check(&of_two, 1, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "has started 2 processes, but this build's MPI finds 1");
    assert_int_equal(dl_launcher_check(&of_two, 4, &err), DL_ERR_UNSUPPORTED);
    /* If the variables do not give the number of ranks, rank 1 implies at least two. */
    const dl_launcher second = {.name = "srun (PMIx)", .rank = 1, .has_mpi = true};
    assert_int_equal(dl_launcher_check(&second, 2, &err), DL_OK);
    assert_int_equal(dl_launcher_check(&second, 1, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "at least 2 processes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(launchers_are_known_by_their_variables, clear),
        cmocka_unit_test_setup(without_a_launcher_a_process_is_alone, clear),
        cmocka_unit_test_setup(one_process_needs_no_mpi, clear),
        cmocka_unit_test_setup(several_need_it, clear),
        cmocka_unit_test_setup(all_ranks_must_be_found, clear),
    };
    return cmocka_run_group_tests(tests, NULL, clear);
}
