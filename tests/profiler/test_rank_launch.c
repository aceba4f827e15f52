/* Which rank a process is, by the variables of launchers: Open MPI 4.1.4's were looked at here, the
 * others' are those of their manuals. */
#include <stdlib.h>

#include "tests/check.h"

#include "profiler/ranks.h"

/* All that is read; the launcher of these tests may have set some. */
static const char *const known[] = {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_WORLD_SIZE",
                                    "TORCHELASTIC_RUN_ID",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMIX_NAMESPACE",
                                    "OMPI_MCA_ess_base_jobid",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "MPI_LOCALNRANKS",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_STEP_NUM_NODES",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_ID",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_JOB_NODELIST",
                                    "SLURM_NODELIST",
                                    "SLURM_LAUNCH_NODE_IPADDR"};

/* The variables NAME, VALUE, ..., NULL and nothing else of these. */
static dl_status find(const char *const *variables, const char *rendezvous, dl_launch *launch,
                      dl_error *err)
{
    dl_rank_options options = dl_rank_options_default();
    options.rendezvous = rendezvous;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        unsetenv(known[i]);
    for (int i = 0; variables[i] != NULL; i += 2)
        setenv(variables[i], variables[i + 1], 1);
    return dl_launch_find(&options, launch, err);
}

static dl_launch found(const char *const *variables, const char *rendezvous)
{
    dl_launch launch;
    dl_error err = {0};
    if (find(variables, rendezvous, &launch, &err) != DL_OK) fail_msg("%s", err.text);
    return launch;
}

static void check(const char *const *variables, int rank, int size, const char *host)
{
    const dl_launch launch = found(variables, NULL);
    assert_int_equal(launch.rank, rank);
    assert_int_equal(launch.size, size);
    assert_string_equal(launch.host, host);
    if (size > 1) assert_in_range(launch.port, 1, 65535);
}

#define LIST(...)         \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void launchers_say_who_one_is(void **state)
{
    (void)state;
    check((const char *const[]){NULL}, 0, 1, "");
    check(LIST("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4",
               "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "PMIX_NAMESPACE", "77"),
          1, 4, "127.0.0.1");
    check(LIST("PMI_RANK", "2", "PMI_SIZE", "3", "MPI_LOCALNRANKS", "3"), 2, 3, "127.0.0.1");
    check(LIST("SLURM_PROCID", "5", "SLURM_NTASKS", "8", "SLURM_STEP_NUM_TASKS", "6",
               "SLURM_JOB_ID", "9", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_NODES", "2",
               "SLURM_STEP_NODELIST", "gpu[07-09,12]-ib,login"),
          5, 6, "gpu07-ib");
    check(LIST("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_JOB_ID", "9",
               "SLURM_STEP_NUM_NODES", "1", "SLURM_STEP_NODELIST", "gpu7"),
          0, 2, "127.0.0.1");
    check(LIST("RANK", "3", "WORLD_SIZE", "4", "MASTER_ADDR", "head", "MASTER_PORT", "29500",
               "SLURM_PROCID", "0", "SLURM_NTASKS", "1"),
          3, 4, "head");
    /* One rank is none; half of what a launcher says is nothing. */
    check(LIST("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1"), 0, 1, "");
    check(LIST("RANK", "1"), 0, 1, "");
    /* Slurm's batch script has numbers too. */
    check(LIST("SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_JOB_ID", "9"), 0, 1, "");
}

static void ranks_of_a_job_have_one_port(void **state)
{
    (void)state;
#define SLURM_RANK(rank, step)                                                                    \
    LIST("SLURM_PROCID", rank, "SLURM_STEP_NUM_TASKS", "2", "SLURM_JOB_ID", "9", "SLURM_STEP_ID", \
         step, "SLURM_STEP_NODELIST", "a,b")
    const dl_launch zero = found(SLURM_RANK("0", "1"), NULL);
    const dl_launch one = found(SLURM_RANK("1", "1"), NULL);
    const dl_launch other = found(SLURM_RANK("1", "2"), NULL);
    assert_int_equal(zero.port, one.port);
    assert_string_equal(zero.job, one.job);
    assert_int_not_equal(zero.port, other.port);
    assert_in_range(zero.port, 20000, 31999);
}

static void a_rendezvous_may_be_given(void **state)
{
    (void)state;
    const char *const two[] = {"RANK", "1", "WORLD_SIZE", "2", NULL};
    dl_launch launch = found(two, "node1:29500");
    assert_string_equal(launch.host, "node1");
    assert_int_equal(launch.port, 29500);
    launch = found(two, "[fe80::1]:1");
    assert_string_equal(launch.host, "fe80::1");
    assert_int_equal(launch.port, 1);
    static const char *const wrong[] = {"node1", "node1:", ":5", "node1:0", "node1:65536", "a:b"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dl_error err = {0};
        assert_int_equal(find(two, wrong[i], &launch, &err), DL_ERR_USAGE);
        assert_contains(err.text, "must be HOST:PORT");
    }
    dl_error err = {0};
    assert_int_equal(find((const char *const[]){NULL}, "node1:5", &launch, &err), DL_ERR_USAGE);
    assert_contains(err.text, "no launcher has started several ranks");
}

static void what_is_open_is_asked_for(void **state)
{
    (void)state;
    dl_launch launch;
    dl_error err = {0};
    assert_int_equal(find(LIST("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4",
                               "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "PMIX_NAMESPACE", "77"),
                          NULL, &launch, &err),
                     DL_ERR_DATA);
    assert_contains(err.text, "mpirun has started 4 ranks, but does not say where they can meet");
    assert_int_equal(
        find(LIST("PMI_RANK", "4", "PMI_SIZE", "4", "MPI_LOCALNRANKS", "4"), NULL, &launch, &err),
        DL_ERR_DATA);
    assert_contains(err.text, "PMI_RANK is 4, but there are 4 ranks");
    dl_rank_options options = dl_rank_options_default();
    options.ranks = 1;
    assert_int_equal(dl_launch_find(&options, &launch, &err), DL_OK);
    assert_int_equal(launch.size, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_say_who_one_is),
        cmocka_unit_test(ranks_of_a_job_have_one_port),
        cmocka_unit_test(a_rendezvous_may_be_given),
        cmocka_unit_test(what_is_open_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
