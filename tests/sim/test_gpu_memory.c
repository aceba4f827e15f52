/* Use of a GPU memory of 1 MB (tests/gpu_fixture.h), and prices. */
#include "tests/gpu_fixture.h"

#include "common/csv.h"
#include "sim/fits.h"
#include "sim/report/report.h"

/* 2 x 80 kB parameters and gradients, 40 kB state, 100 kB workspace: 300 kB and 70 kB per
 * sample. */
#define COSTS                                                                                     \
    FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH "[gpu_memory]\nactivation_bytes_per_sample = 70000\n" \
                                            "workspace_bytes = 100000\n"

typedef struct swept {
    dl_costs costs;
    dl_scenario scenario;
    dl_sweep sweep;
} swept;

static swept sweep_of(const char *costs, const char *machine, const char *workload,
                      const char *rest)
{
    swept s = {.costs = fixture_costs(costs)};
    char path[64];
    snprintf(path, sizeof path, "memory_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    s.scenario = fixture_scenario("[scenario]\nsteps = 10\n[machine]\nfile = %s\n%s"
                                  "[workload]\ncosts = c.ini\n%s%s",
                                  path, machine, workload, rest);
    unlink(path);
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 2};
    dl_variant variant;
    const dl_study study = fixture_study(&variant, &s.scenario, &s.costs);
    if (dl_sweep_run(&s.sweep, &study, &config, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    return s;
}

static void free_swept(swept *s)
{
    dl_sweep_free(&s->sweep);
    dl_scenario_free(&s->scenario);
    dl_costs_free(&s->costs);
}

static void a_batch_that_does_not_fit_is_not_run(void **state DL_UNUSED)
{
    swept s = sweep_of(COSTS, "workers = 1\n", "batch = 10, 11\n", "");
    const dl_row *fits = &s.sweep.rows[0], *over = &s.sweep.rows[1];
    assert_null(fits->error);
    assert_near(fits->memory.needs_bytes, 1e6, 1e-12);
    assert_near(fits->speedup, 1, 1e-12);
    assert_near(over->memory.needs_bytes, 1.07e6, 1e-12);
    assert_near(over->memory.has_bytes, 1e6, 1e-12);
    assert_non_null(strstr(over->error, "70.0 kB too much"));
    assert_true(isnan(over->mean.throughput_per_s) && isnan(over->speedup));
    free_swept(&s);
}

/* Two workers share a batch that one cannot hold: the speedup is relative to one worker that
 * computes it in two micro-batches of 1 ms, with an update of 0.1 ms. */
static void a_baseline_that_does_not_fit_takes_micro_batches(void **state DL_UNUSED)
{
    swept s = sweep_of(COSTS, "workers = 2\n", "batch = 20\n", "");
    assert_null(s.sweep.rows[0].error);
    assert_near(s.sweep.rows[0].speedup, s.sweep.rows[0].mean.throughput_per_s * 2.1e-3 / 20, 1e-6);
    free_swept(&s);
}

/* The server's GPU additionally holds a vector of each of 4 workers and the sum, or half of
 * them, and the optimizer's state, 40 kB, or half of it. Workers without a server need 370 kB less
 * the state. */
static void a_server_needs_memory_too(void **state)
{
    (void)state;
    const char *ps = "[sync]\nmode = ps\nwhere = gpu:1\n";
    swept s = sweep_of(COSTS, "workers = 4\n", "batch_per_worker = 1\n", ps);
    assert_near(s.sweep.rows[0].memory.needs_bytes, 370e3 + 5 * 80e3, 1e-12);
    free_swept(&s);
    s = sweep_of(COSTS, "workers = 4\n", "batch_per_worker = 1\n",
                 "[sync]\nmode = ps\nwhere = gpu:1\n[exchange]\nshards = 2\n");
    assert_near(s.sweep.rows[0].memory.needs_bytes, 330e3 + 5 * 40e3 + 20e3, 1e-12);
    free_swept(&s);
    s = sweep_of(COSTS, "workers = 1\n", "batch_per_worker = 1\n", ps); /* no worker on gpu1 */
    assert_near(s.sweep.rows[0].memory.needs_bytes, 330e3, 1e-12);
    free_swept(&s);
    s = sweep_of(COSTS, "workers = 4\n", "batch_per_worker = 1\n",
                 "[sync]\nmode = ps\nwhere = cpu\n");
    assert_near(s.sweep.rows[0].memory.needs_bytes, 330e3, 1e-12);
    assert_near(s.sweep.rows[0].memory.content.optimizer, 0, 1e-12);
    free_swept(&s);
    /* Two workers of two shards each. GPU 3 also has the vectors of all four ranks, the sum of each
     * shard, and the optimizer's state. */
    s = sweep_of(COSTS "[overlap]\nslowdown = 1\n", "layout = fsdp=2,dp=2\n",
                 "batch_per_worker = 2\n", "[sync]\nmode = ps\nwhere = gpu:3\n");
    const double with_server = s.sweep.rows[0].memory.needs_bytes;
    assert_near(s.sweep.rows[0].memory.content.others, 3 * 80e3 + 40e3, 1e-12);
    free_swept(&s);
    s = sweep_of(COSTS "[overlap]\nslowdown = 1\n", "layout = fsdp=2,dp=2\n",
                 "batch_per_worker = 2\n", "[sync]\nmode = ps\nwhere = cpu\n");
    assert_near(with_server - s.sweep.rows[0].memory.needs_bytes, 280e3, 1e-12);
    free_swept(&s);
}

/* An outer optimizer keeps its momentum and the last average, 80 kB each: on the GPU if it updates
 * there, otherwise at the server or in host memory. */
static void an_outer_optimizer_needs_memory(void **state DL_UNUSED)
{
    static const struct {
        const char *sync;
        double more_bytes;
        const char *machine;
    } cases[] = {
        {"mode = average\nwhere = allreduce\n", 0, "workers = 2\n"},
        {"mode = average\nwhere = allreduce\nouter = nesterov\n", 2 * 80e3, "workers = 2\n"},
        {"mode = bmuf\nwhere = allreduce\n", 2 * 80e3, "workers = 2\n"},
        {"mode = average\nwhere = allreduce\nouter = nesterov\n[exchange]\ncollectives = hosts\n",
         0, "placement = 11\n"},
        {"mode = average\nwhere = cpu\nouter = nesterov\n", 0, "workers = 2\n"},
        /* The server has a vector of each worker and the average too. */
        {"mode = average\nwhere = gpu:1\n", 3 * 80e3, "workers = 2\n"},
        {"mode = average\nwhere = gpu:1\nouter = nesterov\n", 5 * 80e3, "workers = 2\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rest[160];
        snprintf(rest, sizeof rest, "[sync]\n%s", cases[i].sync);
        swept s = sweep_of(COSTS, cases[i].machine, "batch_per_worker = 1\n", rest);
        assert_near(s.sweep.rows[0].memory.needs_bytes, 370e3 + cases[i].more_bytes, 1e-12);
        free_swept(&s);
    }
}

static void unknown_memory_is_not_checked(void **state DL_UNUSED)
{
    swept s =
        sweep_of(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "workers = 1\n", "batch = 1000000\n", "");
    assert_null(s.sweep.rows[0].error);
    assert_true(isnan(s.sweep.rows[0].memory.needs_bytes));
    free_swept(&s);
}

/* It is not said to fit if either side is unknown. */
static void unknown_memory_neither_fits_nor_not(void **state DL_UNUSED)
{
    const double nan = (double)NAN;
    const double pairs[][2] = {{1e9, nan}, {nan, 1e9}, {1e9, 2e9}};
    const dl_fit expected[] = {DL_FIT_UNKNOWN, DL_FIT_UNKNOWN, DL_FIT_YES};
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            dl_memory_fit(&(dl_gpu_memory){.needs_bytes = pairs[i][0], .has_bytes = pairs[i][1]}),
            expected[i]);
}

static double cell(dl_csv *csv, size_t row, const char *name)
{
    double value = 0;
    dl_error err = {0};
    int column = dl_csv_column(csv, name);
    if (column < 0) fail_msg("no column %s", name);
    if (dl_csv_number(csv, row, (size_t)column, &value, &err) != DL_OK) fail_msg("%s", err.text);
    return value;
}

/* 1.1 ms per step of one sample, 9 USD per hour and node. 6 GPUs are on two nodes. */
static void an_epoch_has_a_price(void **state DL_UNUSED)
{
    swept s = sweep_of(COSTS, "workers = 4, 6\n",
                       "batch_per_worker = 1\nsamples_per_epoch = 60000\n", "");
    dl_measured none[2];
    for (int i = 0; i < 2; i++)
        none[i] = (dl_measured){0};
    dl_error err = {0};
    dl_variant variant;
    const dl_study study = fixture_study(&variant, &s.scenario, &s.costs);
    assert_int_equal(dl_report_results("gpu_results.csv", &study, &s.sweep, none, NULL, &err),
                     DL_OK);
    DL_SCOPED(dl_csv) csv = {0};
    assert_int_equal(dl_csv_read(&csv, "gpu_results.csv", &err), DL_OK);
    assert_near(cell(&csv, 0, "usd_per_hour"), 9, 1e-12);
    assert_near(cell(&csv, 1, "usd_per_hour"), 18, 1e-12);
    assert_near(cell(&csv, 0, "epoch_s"), 60000 / 4 * 1.1e-3, 1e-6);
    assert_near(cell(&csv, 1, "usd_per_epoch"), 18 * 60000 / 6 * 1.1e-3 / 3600, 1e-6);
    assert_near(cell(&csv, 0, "memory_frac"), 0.37, 1e-12);
    unlink("gpu_results.csv");
    free_swept(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_that_does_not_fit_is_not_run),
        cmocka_unit_test(a_baseline_that_does_not_fit_takes_micro_batches),
        cmocka_unit_test(a_server_needs_memory_too),
        cmocka_unit_test(an_outer_optimizer_needs_memory),
        cmocka_unit_test(unknown_memory_is_not_checked),
        cmocka_unit_test(unknown_memory_neither_fits_nor_not),
        cmocka_unit_test(an_epoch_has_a_price),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
