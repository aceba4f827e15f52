#include "calibrate/calibration.h"

#include <math.h>

#include "tests/check.h"

enum { MODEL_BYTES = 1000, TIMES = 10 };

static void add_sample(dl_bench_trace *bench, dl_sample_kind kind, uint64_t bytes, uint32_t vectors,
                       uint32_t threads, int64_t duration_ns)
{
    bench->samples =
        dl_realloc(bench->samples, bench->count + 1, sizeof *bench->samples, "samples");
    bench->samples[bench->count++] = (dl_record){.name = kind,
                                                 .bytes = bytes,
                                                 .vectors = vectors,
                                                 .threads = threads,
                                                 .duration_ns = duration_ns};
}

/* Adds the usual run with averages slower by `factor`, one preemption, which is ignored, and
 * unusual cases, which differ even more. */
static void add_run(dl_dataset *dataset, int64_t factor)
{
    dataset->benches =
        dl_realloc(dataset->benches, dataset->bench_count + 1, sizeof *dataset->benches, "bench");
    dl_bench_trace *bench = &dataset->benches[dataset->bench_count++];
    *bench = (dl_bench_trace){.path = dl_strdup("bench")};
    for (int i = 0; i < TIMES; i++) {
        add_sample(bench, DL_SAMPLE_COPY, MODEL_BYTES, 0, 1, 100);
        add_sample(bench, DL_SAMPLE_AVERAGE, MODEL_BYTES, 2, 1, i == 3 ? 1000000 : 200 * factor);
        add_sample(bench, DL_SAMPLE_AVERAGE, MODEL_BYTES, 4, 1, 360 * factor * factor);
        add_sample(bench, DL_SAMPLE_AVERAGE, MODEL_BYTES, 2, 2, 120 * factor * factor);
        add_sample(bench, DL_SAMPLE_AVERAGE, MODEL_BYTES * 2, 2, 1, 400 * factor * factor);
        add_sample(bench, DL_SAMPLE_COPY, MODEL_BYTES * 2, 0, 1, 200);
    }
}

/* Five runs, one of them five times as slow, compared with fitted points of the usual runs. Updates
 * were not measured. */
static void test_a_slow_run_shows(void **state DL_UNUSED)
{
    DL_SCOPED(dl_dataset) dataset = {.parameter_bytes = MODEL_BYTES};
    DL_SCOPED(dl_costs) costs = {0};
    dl_comm_point copies[] = {
        {.bytes = MODEL_BYTES, .threads = 1, .time_ns.value = 100},
        {.bytes = 2 * MODEL_BYTES, .threads = 1, .time_ns.value = 200},
    };
    dl_comm_point averages[] = {
        {.bytes = MODEL_BYTES, .vectors = 2, .threads = 1, .time_ns.value = 200},
        {.bytes = MODEL_BYTES, .vectors = 4, .threads = 1, .time_ns.value = 360},
        {.bytes = 2 * MODEL_BYTES, .vectors = 2, .threads = 1, .time_ns.value = 400},
        {.bytes = MODEL_BYTES, .vectors = 2, .threads = 2, .time_ns.value = 120},
    };
    const dl_comm_fit comm = {.lines = {[DL_COMM_COPY] = {"copy", copies, 2},
                                        [DL_COMM_AVERAGE] = {"average", averages, 4},
                                        [DL_COMM_UPDATE] = {"update", NULL, 0}}};
    for (int run = 0; run < 5; run++)
        add_run(&dataset, run == 2 ? 5 : 1);
    dl_exchange_runs_fit(&dataset, &comm, &costs);
    assert_int_equal(costs.exchange_run_count, 5);
    for (size_t run = 0; run < 5; run++) {
        const dl_exchange_run *one = &costs.exchange_runs[run];
        assert_true(one->copy == 1 && one->update == 1);
        assert_true(fabsf(one->average - (run == 2 ? 5.0F : 1.0F)) < 1e-5F);
    }
}

/* (vectors + 1) 0.1 ns per byte for averages, 0.1 ns per byte for a copy. In the second run vectors
 * in another core's cache take 200 000 ns longer to push, 50 000 to pull, 400 000 to average. */
static void add_shared_run(dl_dataset *dataset, int64_t far)
{
    enum { BYTES = 1000000 };
    dataset->benches =
        dl_realloc(dataset->benches, dataset->bench_count + 1, sizeof *dataset->benches, "bench");
    dl_bench_trace *bench = &dataset->benches[dataset->bench_count++];
    *bench = (dl_bench_trace){.path = dl_strdup("bench")};
    for (int i = 0; i < TIMES; i++) {
        for (uint64_t bytes = BYTES / 2; bytes <= 2 * BYTES; bytes *= 2) {
            const int64_t tenth = (int64_t)bytes / 10, more = far * (int64_t)bytes * 4 / 10;
            add_sample(bench, DL_SAMPLE_COPY, bytes, 0, 1, tenth);
            add_sample(bench, DL_SAMPLE_AVERAGE, bytes, 1, 1, 2 * tenth);
            add_sample(bench, DL_SAMPLE_AVERAGE, bytes, 2, 1, 3 * tenth + more);
            add_sample(bench, DL_SAMPLE_AVERAGE, bytes, 4, 1, 5 * tenth + more);
        }
        add_sample(bench, DL_SAMPLE_SHARED_WRITE, BYTES, 0, 1, 100000 + far * 200000);
        add_sample(bench, DL_SAMPLE_SHARED_READ, BYTES, 0, 1, 100000 + far * 50000);
    }
}

/* Means: 100 000, 25 000 and 200 000 ns for 1 MB; the runs have zero and twice that time. A file
 * does not accept a factor of 0. */
static void test_sharing_is_kept_apart(void **state DL_UNUSED)
{
    DL_SCOPED(dl_dataset) dataset = {.parameter_bytes = 1000000};
    DL_SCOPED(dl_costs) costs = {.parameter_bytes = 1000000, .cores = 2};
    DL_SCOPED(dl_comm_fit) comm = {0};
    DL_SCOPED(dl_notes) notes = {0};
    add_shared_run(&dataset, 0);
    add_shared_run(&dataset, 1);
    assert_int_equal(dl_comm_costs_fit(&dataset, &comm, &costs, &notes, NULL), DL_OK);
    dl_exchange_runs_fit(&dataset, &comm, &costs);
    assert_true(fabs(costs.shared.push_bytes_per_s.value / 1e10 - 1) < 1e-3);
    assert_true(fabs(costs.shared.average_bytes_per_s.value / 5e9 - 1) < 1e-3);
    assert_true(fabs(costs.shared.pull_bytes_per_s.value / 4e10 - 1) < 1e-3);
    assert_true(fabs(costs.average.read_bytes_per_s.value / 1e10 - 1) < 1e-3);
    assert_true(fabs(costs.average.write_bytes_per_s.value / 1e10 - 1) < 1e-3);
    assert_int_equal(costs.exchange_run_count, 2);
    for (size_t run = 0; run < 2; run++) {
        assert_true(costs.exchange_runs[run].average == 1);
        const float shared = costs.exchange_runs[run].shared;
        assert_true(shared > 0 && fabsf(shared - 2.0F * (float)run) < 2e-3F);
    }
}

/* One run gives no variation between runs. */
static void test_one_run_says_nothing(void **state DL_UNUSED)
{
    DL_SCOPED(dl_dataset) dataset = {.parameter_bytes = MODEL_BYTES};
    dl_costs costs = {0};
    const dl_comm_fit comm = {0};
    add_run(&dataset, 1);
    dl_exchange_runs_fit(&dataset, &comm, &costs);
    assert_int_equal(costs.exchange_run_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_run_shows),
        cmocka_unit_test(test_sharing_is_kept_apart),
        cmocka_unit_test(test_one_run_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
