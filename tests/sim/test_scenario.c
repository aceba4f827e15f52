#include "tests/sim_fixture.h"

#define HEAD "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c.ini\nbatch = 8\n"

static void defaults(void **state DL_UNUSED)
{
    dl_scenario s = fixture_scenario(HEAD);
    assert_string_equal(s.name, "s.ini");
    assert_string_equal(s.costs_path, "c.ini");
    assert_null(s.measured_path);
    assert_int_equal(s.steps, 200);
    assert_int_equal(s.replicates, 1);
    assert_int_equal(s.seed, 1);
    assert_int_equal(s.server_threads, 1);
    assert_false(s.average_state || s.batch_per_worker);
    assert_int_equal(s.noise, DL_NOISE_NONE);
    assert_int_equal(s.point_count, 1);
    assert_ptr_equal(s.points[0].mode, &dl_mode_none);
    dl_scenario_free(&s);
    dl_scenario_free(&s);
}

/* 2 values of cores x 2 of workers x (none, average with 2 intervals) = 12 points, the last key
 * changing fastest; one of them is redundant: "2, workers" gives the same machine for 2 workers. */
static void lists_are_swept(void **state DL_UNUSED)
{
    DL_SCOPED(dl_scenario) s = fixture_scenario("[machine]\ncores = 2, workers\nworkers = 2, 4\n"
                                                "[workload]\ncosts = c.ini\nbatch_per_worker = 8\n"
                                                "[sync]\nmode = none, average\ninterval = 1, 10\n");
    static const struct {
        int cores, workers, batch, interval;
        const dl_mode *mode;
    } expected[] = {
        {2, 2, 16, 1, &dl_mode_none},     {2, 2, 16, 1, &dl_mode_average},
        {2, 2, 16, 10, &dl_mode_average}, {2, 4, 32, 1, &dl_mode_none},
        {2, 4, 32, 1, &dl_mode_average},  {2, 4, 32, 10, &dl_mode_average},
        {4, 4, 32, 1, &dl_mode_none},     {4, 4, 32, 1, &dl_mode_average},
        {4, 4, 32, 10, &dl_mode_average},
    };
    assert_int_equal(s.point_count, 9);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(s.points[i].cores, expected[i].cores);
        assert_int_equal(s.points[i].workers, expected[i].workers);
        assert_int_equal(s.points[i].batch, expected[i].batch);
        assert_int_equal(s.points[i].option[DL_SYNC_INTERVAL], expected[i].interval);
        assert_ptr_equal(s.points[i].mode, expected[i].mode);
    }
    char text[100];
    assert_string_equal(dl_point_text(text, sizeof text, &s.points[8]),
                        "cores 4, workers 4, batch 32, average, interval 10");
    assert_string_equal(dl_point_text(text, 10, &s.points[8]), "cores 4, ");
}

/* Cores 2 and measured with 2 workers: two points, or one if 2 cores were measured. */
static void measured_cores_come_from_the_costs(void **state DL_UNUSED)
{
    for (int cores = 0; cores <= 3; cores++) {
        DL_SCOPED(dl_scenario) s = fixture_scenario("[machine]\ncores = 2, measured\nworkers = 2\n"
                                                    "[workload]\ncosts = c.ini\nbatch = 8\n");
        dl_error err = {0};
        assert_int_equal(s.point_count, 2);
        dl_status status = dl_scenario_set_measured_cores(&s, cores, &err);
        assert_int_equal(status, cores == 0 ? DL_ERR_DATA : DL_OK);
        assert_int_equal(s.point_count, cores == 2 ? 1 : 2);
        if (cores == 0) assert_contains(err.text, "c.ini lacks [costs] cores");
        if (cores == 3) assert_int_equal(s.points[1].cores, 3);
    }
}

static void everything_given(void **state DL_UNUSED)
{
    DL_SCOPED(dl_scenario) s = fixture_scenario(
        "[scenario]\nname = n\nsteps = 7\nseed = 9\nreplicates = 3\n" HEAD
        "[sync]\nmode = average\naverage_state = yes\nserver_threads = 4\nwhere = cpu\n"
        "[noise]\nkind = gamma\nsigma = 0.25\nslow = 1:2, 0:1.5\n[measured]\nfile = m.csv\n");
    assert_string_equal(s.name, "n");
    assert_int_equal(s.steps, 7);
    assert_int_equal(s.seed, 9);
    assert_int_equal(s.replicates, 3);
    assert_true(s.average_state);
    assert_int_equal(s.server_threads, 4);
    assert_int_equal(s.noise, DL_NOISE_GAMMA);
    assert_true(s.sigma == 0.25);
    assert_string_equal(s.measured_path, "m.csv");
    double slow[3];
    dl_scenario_slow(&s, 3, slow);
    assert_true(slow[0] == 1.5 && slow[1] == 2 && slow[2] == 1);
    dl_scenario_slow(&s, 1, slow);
    assert_true(slow[0] == 1.5);
}

static void paths_are_relative_to_the_file(void **state DL_UNUSED)
{
    static const char text[] = HEAD "[measured]\nfile = /m.csv\n";
    DL_SCOPED(dl_scenario) s = {0};
    assert_int_equal(dl_scenario_read_text(&s, "a/b/s.ini", text, sizeof text - 1, NULL), DL_OK);
    assert_string_equal(s.costs_path, "a/b/c.ini");
    assert_string_equal(s.measured_path, "/m.csv");
}

static dl_status read_wrong(const char *text, dl_error *err)
{
    dl_scenario s = {0};
    const dl_status status = dl_scenario_read_text(&s, "s.ini", text, strlen(text), err);
    if (status != DL_OK) assert_null(s.points);
    return status;
}

static const refused_text wrong[] = {
    {"[scenaro]\nname = x\n", DL_ERR_NAME, 1, "scenario"},
    {"[scenario]\nstep = 3\n", DL_ERR_NAME, 2, "steps"},
    {"[scenario]\nsteps = 0\n" HEAD, DL_ERR_RANGE, 2, "steps"},
    {"[scenario]\nseed = -1\n" HEAD, DL_ERR_RANGE, 2, "seed"},
    {"[scenario]\nreplicates = many\n" HEAD, DL_ERR_PARSE, 2, "replicates"},
    {"[machine]\nworkers = 2\n[workload]\ncosts = c\nbatch = 8\n", DL_ERR_DATA, 0, "cores"},
    {"[machine]\ncores = 2\n[workload]\ncosts = c\nbatch = 8\n", DL_ERR_DATA, 0, "workers"},
    {"[machine]\ncores = 2\nworkers = 2\n[workload]\nbatch = 8\n", DL_ERR_DATA, 0, "costs"},
    {"[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\n", DL_ERR_DATA, 0, "batch"},
    {HEAD "batch_per_worker = 4\n", DL_ERR_DATA, 7, "only one"},
    {"[machine]\ncores = 2, 0\nworkers = 2\n[workload]\ncosts = c\nbatch = 8\n", DL_ERR_PARSE, 2,
     "cores"},
    {"[machine]\ncores = worker\nworkers = 2\n[workload]\ncosts = c\nbatch = 8\n", DL_ERR_PARSE, 2,
     "'workers', 'measured'"},
    {"[machine]\ncores = 2\nworkers = 2, 2\n[workload]\ncosts = c\nbatch = 8\n", DL_ERR_RANGE, 3,
     "means the same as an earlier value of the list"},
    {"[machine]\ncores = 2\nworkers = 10000001\n[workload]\ncosts = c\nbatch = 8\n", DL_ERR_RANGE,
     3, "10000000"},
    {"[machine]\ncores = 2\nworkers = 2,\n[workload]\ncosts = c\nbatch = 8\n", DL_ERR_PARSE, 3,
     "workers"},
    {"[machine]\ncores = 2\nworkers = 1, 3\n[workload]\ncosts = c\nbatch = 8\n", DL_ERR_RANGE, 6,
     "workers 3, batch 8"},
    {HEAD "[sync]\nmode = asynch\n", DL_ERR_NAME, 8, "did you mean 'async'"},
    {HEAD "[sync]\nmode = none, DP\n", DL_ERR_NAME, 8,
     "unknown mode 'DP'; DistributedDataParallel is 'allreduce'; DataParallel, one process, is"},
    {HEAD "[sync]\nmode = deepspeed\n", DL_ERR_NAME, 8,
     "unknown mode 'deepspeed'; write --mode zero1, zero2 or zero3"},
    {HEAD "[sync]\nmode = ZeRO\n", DL_ERR_NAME, 8,
     "unknown mode 'ZeRO'; write --mode zero1, zero2 or zero3"},
    {HEAD "[sync]\nmode = DiLoCo\nouter = average\n", DL_ERR_DATA, 9,
     "[sync] mode = diloco is average with outer = nesterov: give only one"},
    {HEAD "[sync]\nmode = average\ninterval = 0\n", DL_ERR_RANGE, 9, "interval"},
    {HEAD "[sync]\nmode = none, allreduce\ninterval = 2\n", DL_ERR_NAME, 9,
     "it is for mode average, easgd, bmuf, async_average, not for none, allreduce"},
    {HEAD "[sync]\nmode = ps\ninterval = 2\n", DL_ERR_NAME, 9,
     "it is for mode average, easgd, bmuf, async_average, not for ps"},
    {HEAD "[sync]\naccumulate = 2, 3\n", DL_ERR_RANGE, 6, "6 micro-batches"},
    {HEAD "[sync]\nmode = ksync\n", DL_ERR_DATA, 0, "mode ksync needs it"},
    {HEAD "[sync]\nmode = ksync\nk = 3\n", DL_ERR_RANGE, 9, "there are fewer workers"},
    {HEAD "[sync]\nmode = softsync\nn = 1, 3\n", DL_ERR_RANGE, 9, "there are fewer workers"},
    {HEAD "[sync]\nmode = ssp\nbound = 0.5\n", DL_ERR_PARSE, 9, "bound"},
    {HEAD "[sync]\nmode = easgd\nmoving_rate = 2\n", DL_ERR_RANGE, 9, "moving_rate"},
    {HEAD "[sync]\naverage_state = maybe\n", DL_ERR_NAME, 8, "average_state"},
    {HEAD "[sync]\nserver_threads = 0\n", DL_ERR_RANGE, 8, "server_threads"},
    {HEAD "[sync]\nwhere = gpu\n", DL_ERR_NAME, 8, "not for none"},
    {HEAD "[sync]\nmode = ps\nwhere = gpu:0\n", DL_ERR_DATA, 9, "without [machine] file"},
    {HEAD "[exchange]\nshards = 2\n", DL_ERR_DATA, 8, "needs [machine] file"},
    {HEAD "[fabric]\nslots = 0-1\n", DL_ERR_DATA, 8, "needs [machine] file"},
    {HEAD "[sync]\nmode = allreduce\n[exchange]\ncompress = int8\n", DL_ERR_DATA, 10,
     "pushes to a server"},
    {HEAD "[sync]\nmode = average\naverage_state = yes\n[exchange]\ncompress = int8\n", DL_ERR_DATA,
     11, "not with average_state"},
    {HEAD "[sync]\nmode = average\ninterval = 4\nfragments = 2\ninterval_by_speed = yes\n",
     DL_ERR_DATA, 11, "neither with fragments nor with inside"},
    {HEAD "[sync]\nmode = average\ninside = allreduce\ninterval_by_speed = yes\n", DL_ERR_DATA, 10,
     "neither with fragments nor with inside"},
    {HEAD "[noise]\nkind = gama\n", DL_ERR_NAME, 8, "gamma"},
    {HEAD "[noise]\nkind = gamma\n", DL_ERR_DATA, 8, "sigma"},
    {HEAD "[noise]\nkind = gamma\nsigma = 0\n", DL_ERR_RANGE, 9, "sigma"},
    {HEAD "[noise]\nkind = exponential\nsigma = 1\n", DL_ERR_DATA, 9,
     "this needs kind = lognormal, gamma"},
    {HEAD "[noise]\nslow = 1\n", DL_ERR_PARSE, 8, "expected WORKER:FACTOR, as 1:2, not '1'"},
    {HEAD "[noise]\nslow = x:2\n", DL_ERR_PARSE, 8, "slow"},
    {HEAD "[noise]\nslow = 1:0\n", DL_ERR_RANGE, 8, "slow"},
    {HEAD "[noise]\nslow = 2:2\n", DL_ERR_RANGE, 8, "worker 2"},
    {HEAD "[noise]\nslow = 1:2, 1:3\n", DL_ERR_RANGE, 8, "twice"},
    {"[scenario]\nsteps = 10000000\n[machine]\ncores = 2\nworkers = 10001\n"
     "[workload]\ncosts = c\nbatch = 10001\n",
     DL_ERR_RANGE, 0, "steps times workers"},
};

static void what_is_wrong_is_refused_with_its_line(void **state DL_UNUSED)
{
    assert_all_refused(wrong, "s.ini", read_wrong);
    dl_scenario s = {0};
    assert_int_equal(dl_scenario_read(&s, "no/such/file.ini", NULL), DL_ERR_IO);
}

/* On cores every push to a server can be a smaller message, as in dlprof train. */
static void all_server_modes_compress(void **state DL_UNUSED)
{
    DL_SCOPED(dl_scenario) s = fixture_scenario(
        HEAD "[sync]\nmode = ps, async, ssp, softsync, ksync, kasync, kbatchsync, kbatchasync\n"
             "bound = 1\nk = 1\n[exchange]\ncompress = int8\n");
    assert_int_equal(s.point_count, 8);
}

static void too_many_points_are_refused(void **state DL_UNUSED)
{
    char text[4096];
    int used = snprintf(text, sizeof text, "[machine]\ncores = 1");
    for (int i = 2; i <= 45; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %d", i);
    used += snprintf(text + used, sizeof text - (size_t)used, "\nworkers = 1");
    for (int i = 2; i <= 45; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %d", i);
    snprintf(text + used, sizeof text - (size_t)used,
             "\n[workload]\ncosts = c\nbatch_per_worker = 1, 2, 3, 4, 5\n");
    dl_scenario s = {0};
    dl_error err = {0};
    assert_int_equal(dl_scenario_read_text(&s, "s.ini", text, strlen(text), &err), DL_ERR_RANGE);
    assert_contains(err.text, "10000 points");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(lists_are_swept),
        cmocka_unit_test(measured_cores_come_from_the_costs),
        cmocka_unit_test(everything_given),
        cmocka_unit_test(paths_are_relative_to_the_file),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(all_server_modes_compress),
        cmocka_unit_test(too_many_points_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
