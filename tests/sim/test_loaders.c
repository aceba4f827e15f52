/* Batches of workers on cores, made by loaders. A step computes and updates for T = 1.1 ms; times
 * are means over 200 steps after 50 that fill the buffers. */
#include "tests/sim_fixture.h"

#define STEP_NS 1.1e6
/* Batches of one sample. */
#define BATCH(make_ns, bytes)                                                         \
    FIXTURE_COSTS "[op input]\nfixed_ns = 0\nper_sample_ns = " #make_ns "\n[input]\n" \
                  "stored_bytes_per_sample = " #bytes "\n"
#define REDUCES "[collective allreduce 2]\nbytes_0 = 20000\nbytes_8000 = 100000\n"
#define NEAR 0.01

static dl_run_result run_batches(int samples, const char *costs_text, int cores, int workers,
                                 const char *mode, const char *input)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    costs.slice_ns.value = 1e5;
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = 200\nwarmup = 50\n[machine]\ncores = %d\n"
                         "workers = %d\nprocesses = yes\n[workload]\ncosts = c.ini\n"
                         "batch_per_worker = %d\n[sync]\nmode = %s\n[input]\n%s\n",
                         cores, workers, samples, mode, input);
    dl_run_result result = fixture_run(&costs, &scenario);
    dl_scenario_free(&scenario);
    return result;
}

static dl_run_result run(const char *costs_text, int cores, int workers, const char *mode,
                         const char *input)
{
    return run_batches(1, costs_text, cores, workers, mode, input);
}

static double step_ns(const char *costs_text, int cores, int workers, const char *mode,
                      const char *input)
{
    DL_SCOPED(dl_run_result) r = run(costs_text, cores, workers, mode, input);
    return 1e9 * r.step_mean_s;
}

/* The batch is made before the step, after it is read: 3 MB at 1 GB/s take 3 ms. */
static void without_loaders_the_worker_makes_its_batch(void **state DL_UNUSED)
{
    const char *read = "storage_bytes_per_s = 1GB/s";
    assert_near(step_ns(BATCH(5e5, 3e6), 2, 1, "none", ""), STEP_NS + 5e5, 1e-6);
    assert_near(step_ns(BATCH(5e5, 3e6), 2, 1, "none", read), STEP_NS + 5e5 + 3e6, 1e-6);
    assert_near(step_ns(BATCH(5e5, 3e6), 2, 2, "none", read), 2 * 3e6, NEAR);
    DL_SCOPED(dl_run_result) r = run(BATCH(0, 3e6), 2, 1, "none", read);
    assert_near(r.part_frac[DL_PART_INPUT], 3e6 / (STEP_NS + 3e6), 1e-6);
    assert_near(r.part_frac[DL_PART_WAITING], 0, 0);
    assert_string_equal(r.usage.busiest, "storage");
}

/* With a core for each process, the slower of training and all loaders determines the step, and a
 * batch that is ready is taken immediately. */
static void with_spare_cores_loaders_hide(void **state DL_UNUSED)
{
    for (int loaders = 1; loaders <= 4; loaders++) {
        char input[32];
        snprintf(input, sizeof input, "loaders = %d", loaders);
        assert_near(step_ns(BATCH(5e5, 0), 5, 1, "none", input), STEP_NS, 1e-6);
        DL_SCOPED(dl_run_result) r = run(BATCH(33e5, 0), 5, 1, "none", input);
        const double ns = fmax(STEP_NS, 33e5 / loaders);
        assert_near(1e9 * r.step_mean_s, ns, NEAR);
        assert_near(r.part_frac[DL_PART_INPUT], 1 - STEP_NS / ns, NEAR);
    }
}

/* Three copies of the training slow one another down; loaders do not slow down two copies, nor are
 * they slowed down. */
static void loaders_are_no_copies(void **state DL_UNUSED)
{
    static const char costs[] =
        FIXTURE_COSTS "copies_3 = 1.5\n[op input]\nfixed_ns = 0\nper_sample_ns = 3300000\n";
    assert_near(step_ns(costs, 6, 2, "none", "loaders = 2"), 33e5 / 2, NEAR);
    assert_near(step_ns(costs, 9, 2, "none", "loaders = 3"), STEP_NS, NEAR);
    assert_near(step_ns(costs, 9, 3, "none", "loaders = 3"), 1.5 * STEP_NS, 0.1);
}

/* With too few cores, none is idle while there is work: the time is the work of training and
 * loaders divided by the number of cores. */
static void loaders_take_cores_from_training(void **state DL_UNUSED)
{
    static const struct {
        int cores, workers;
        const char *input;
        double ns;
    } cases[] = {
        {1, 1, "loaders = 1", STEP_NS + 22e5},           {1, 1, "loaders = 2", STEP_NS + 22e5},
        {2, 1, "loaders = 2", (STEP_NS + 22e5) / 2},     {2, 1, "loaders = 1", 22e5},
        {2, 2, "loaders = 1", STEP_NS + 22e5},           {2, 2, "loaders = 2", STEP_NS + 22e5},
        {3, 2, "loaders = 2", (STEP_NS + 22e5) * 2 / 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_near(
            step_ns(BATCH(22e5, 0), cases[i].cores, cases[i].workers, "none", cases[i].input),
            cases[i].ns, 0.02);
}

/* All loaders share the rate of storage; cached samples need not be read. A loader reads, then
 * makes. */
static void storage_bounds(void **state DL_UNUSED)
{
    static const struct {
        int workers;
        const char *input;
        double ns;
    } cases[] = {
        {1, "loaders = 1\nstorage_bytes_per_s = 1GB/s", 3e6 + 5e5},
        {1, "loaders = 2\nstorage_bytes_per_s = 1GB/s", 3e6},
        {1, "loaders = 4\nstorage_bytes_per_s = 10GB/s", STEP_NS},
        {2, "loaders = 4\nstorage_bytes_per_s = 1GB/s", 6e6},
        {2, "loaders = 4\nstorage_bytes_per_s = 1GB/s\ncached_frac = 0.5", 3e6},
        {2, "loaders = 4\nstorage_bytes_per_s = 1GB/s\ncached_frac = 1", STEP_NS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_near(step_ns(BATCH(5e5, 3e6), 10, cases[i].workers, "none", cases[i].input),
                    cases[i].ns, NEAR);
}

/* Batches of 4 samples, each read for 0.5 ms and made for 0.2 ms. Storage reads ahead by 0.1 or 0.3
 * ms while a sample is made; without loaders also while the step computes. */
static void storage_reads_ahead(void **state DL_UNUSED)
{
    static const struct {
        const char *input;
        double input_ns; /* without loaders: added to the step; with one: the step */
    } cases[] = {
        {"storage_bytes_per_s = 1GB/s", 4 * 7e5},
        {"storage_bytes_per_s = 1GB/s\nstorage_ahead_bytes = 100000", 4 * 6e5},
        {"storage_bytes_per_s = 1GB/s\nstorage_ahead_bytes = 300000", 2e5 + 3 * 5e5 + 2e5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result r = run_batches(4, BATCH(2e5, 5e5), 2, 1, "none", cases[i].input);
        assert_near(1e9 * r.step_mean_s, STEP_NS + cases[i].input_ns, 1e-6);
        assert_near(r.part_frac[DL_PART_INPUT], cases[i].input_ns / (STEP_NS + cases[i].input_ns),
                    1e-6);
        dl_run_result_free(&r);
        char input[128];
        snprintf(input, sizeof input, "loaders = 1\n%s", cases[i].input);
        r = run_batches(4, BATCH(2e5, 5e5), 2, 1, "none", input);
        assert_near(1e9 * r.step_mean_s, fmax(cases[i].input_ns, 4 * 5e5), NEAR);
        dl_run_result_free(&r);
    }
}

/* 100 000 samples, each read for 300 ns and made for 100 ns, in 4096 parts. */
static void large_batches_are_made_in_parts(void **state DL_UNUSED)
{
    dl_run_result r =
        run_batches(100000, BATCH(100, 300), 2, 1, "none", "storage_bytes_per_s = 1GB/s");
    assert_near(1e9 * r.step_mean_s, STEP_NS + 1e5 * (100 + 300), 1e-3);
    assert_true(r.events < 250 * 3 * 4096);
    dl_run_result_free(&r);
}

/* The default prefetch is two batches per loader. With a prefetch of one, making hides behind the
 * step; with 0, a batch is requested when needed and nothing hides it. */
static void batches_are_made_ahead(void **state DL_UNUSED)
{
    dl_scenario scenario =
        fixture_scenario("[machine]\ncores = 2\nworkers = 1\n[workload]\ncosts = c\nbatch = 1\n"
                         "[sync]\nmode = none\n[input]\nloaders = 3\n");
    assert_int_equal(scenario.input.prefetch, 6);
    dl_scenario_free(&scenario);
    assert_near(step_ns(BATCH(5e5, 0), 4, 1, "none", "loaders = 2\nprefetch = 0"), STEP_NS + 5e5,
                1e-6);
    assert_near(step_ns(BATCH(5e5, 0), 4, 1, "none", "loaders = 2\nprefetch = 1"), STEP_NS, 1e-6);
    assert_near(step_ns(BATCH(22e5, 0), 4, 1, "none", "loaders = 2\nprefetch = 1"), 22e5, NEAR);
    assert_near(step_ns(BATCH(22e5, 0), 4, 1, "none", "loaders = 2\nprefetch = 2"), STEP_NS, NEAR);
}

/* The worker copies each batch itself, in 0.2 ms. */
static void taking_a_batch_takes_time(void **state DL_UNUSED)
{
    assert_near(step_ns(BATCH(5e5, 0) "copy_ns = 200000\n", 4, 1, "none", "loaders = 2"),
                STEP_NS + 2e5, 1e-6);
    assert_near(step_ns(BATCH(5e5, 0) "copy_ns = 200000\n", 4, 1, "none", ""), STEP_NS + 5e5, 1e-6);
}

/* An all-reduce of 0.1 ms keeps a core of each process busy. With spare cores it takes as long as
 * without loaders; otherwise the loaders use a part of the cores during it. */
static void loaders_delay_all_reduces(void **state DL_UNUSED)
{
    assert_near(step_ns(BATCH(5e5, 0) REDUCES, 4, 2, "allreduce", "loaders = 1"), STEP_NS + 1e5,
                1e-5);
    assert_near(step_ns(BATCH(11e5, 0) REDUCES, 2, 2, "allreduce", "loaders = 1"),
                STEP_NS + 1e5 + 11e5, 0.02);
}

/* Each update uses the first of two workers: the other worker's step is cut while it computes or
 * waits for its batch, which it uses in the next step. So batches are made as usual, and each
 * worker takes one per update. */
static void steps_that_wait_for_a_batch_are_cut(void **state DL_UNUSED)
{
    dl_run_result r =
        fixture_run_mode(BATCH(33e5, 0), "ksync", 4, 2, 200, "k = 1\n", "[input]\nloaders = 1\n");
    assert_near(1e9 / r.updates_per_s, 33e5, 0.02);
    dl_run_result_free(&r);
}

/* The same with workers that make their batches. If reading takes longest, the sample being read
 * when a step is cut is used in the next one; if making takes longest, it is repeated. */
static void batches_that_workers_make_are_cut(void **state DL_UNUSED)
{
    static const char input[] = "[input]\nstorage_bytes_per_s = 1GB/s\n";
    dl_run_result r = fixture_run_mode(BATCH(5e5, 3e6), "ksync", 4, 2, 200, "k = 1\n", input);
    assert_near(1e9 / r.updates_per_s, 3e6, 0.02);
    dl_run_result_free(&r);
    r = fixture_run_mode(BATCH(33e5, 3e6), "ksync", 4, 2, 200, "k = 1\n", input);
    assert_near(1e9 / r.updates_per_s, 33e5 + STEP_NS, 0.03);
    dl_run_result_free(&r);
}

/* A step that an absence cuts is repeated with another batch. Worker 0, which is away ten times for
 * 0.5 ms, does all its 40 steps; a run with random failures ends. */
static void steps_done_again_have_batches(void **state DL_UNUSED)
{
    char rest[512] = "[syncer]\nend = each\n[input]\nloaders = 1\n[failures]\naway = ";
    for (int a = 0; a < 10; a++) {
        char text[32];
        snprintf(text, sizeof text, "%s0:%g-%g", a > 0 ? ", " : "", 0.003 * a + 0.0015,
                 0.003 * a + 0.002);
        strcat(rest, text);
    }
    dl_run_result r =
        fixture_run_mode(BATCH(1e5, 0), "async_average", 4, 2, 40, "interval = 1\n", rest);
    assert_near(r.samples, 2 * 40, 0);
    dl_run_result_free(&r);
    r = fixture_run_mode(BATCH(1e5, 0), "async_average", 4, 2, 400, "interval = 1\n",
                         "[syncer]\nend = each\n[input]\nloaders = 1\n[failures]\n"
                         "worker_mtbf_s = 0.05\nworker_away_s = 0.001\n");
    assert_near(r.samples, 2 * 400, 0);
    dl_run_result_free(&r);
}

static dl_status refused(const char *text, dl_error *err)
{
    dl_scenario scenario = {0};
    return dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), err);
}

static void loaders_are_of_workers_on_cores(void **state DL_UNUSED)
{
    dl_error err = {0};
    assert_int_not_equal(refused("[machine]\nfile = m.ini\nworkers = 1\n[workload]\ncosts = c\n"
                                 "batch = 1\n[sync]\nmode = none\n[input]\nloaders = 1\n",
                                 &err),
                         DL_OK);
    assert_non_null(strstr(err.text, "workers are GPUs"));
}

/* With 64 loaders per worker, 100 million are accepted, and one more worker is refused. */
static void too_many_loaders_are_refused(void **state DL_UNUSED)
{
    dl_error err = {0};
    static const char format[] =
        "[scenario]\nsteps = 1\n[machine]\ncores = 1\nworkers = %d\n[workload]\ncosts = c\n"
        "batch_per_worker = 1\n[sync]\nmode = none\n[input]\nloaders = 64\n";
    DL_SCOPED(dl_scenario) scenario DL_UNUSED = fixture_scenario(format, 100000000 / 64);
    char text[512];
    snprintf(text, sizeof text, format, 100000000 / 64 + 1);
    assert_int_equal(refused(text, &err), DL_ERR_RANGE);
    assert_non_null(strstr(err.text, "loaders times workers exceeds 100000000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_loaders_the_worker_makes_its_batch),
        cmocka_unit_test(with_spare_cores_loaders_hide),
        cmocka_unit_test(loaders_are_no_copies),
        cmocka_unit_test(loaders_take_cores_from_training),
        cmocka_unit_test(storage_bounds),
        cmocka_unit_test(storage_reads_ahead),
        cmocka_unit_test(large_batches_are_made_in_parts),
        cmocka_unit_test(batches_are_made_ahead),
        cmocka_unit_test(taking_a_batch_takes_time),
        cmocka_unit_test(loaders_delay_all_reduces),
        cmocka_unit_test(steps_that_wait_for_a_batch_are_cut),
        cmocka_unit_test(batches_that_workers_make_are_cut),
        cmocka_unit_test(steps_done_again_have_batches),
        cmocka_unit_test(loaders_are_of_workers_on_cores),
        cmocka_unit_test(too_many_loaders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
