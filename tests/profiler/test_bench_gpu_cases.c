/* Cases of the micro-benchmarks of GPUs. */
#include <stdbool.h>

#include "tests/check.h"

#include "profiler/bench/bench_gpu.h"

/* Counts the cases of that name and size with `at_once` concurrent GPUs. */
static int count_cases(const dl_bench_gpu_cases *cases, dl_bench_gpu_name name, size_t bytes,
                       int at_once)
{
    int found = 0;
    for (size_t i = 0; i < cases->count; i++) {
        const dl_bench_gpu_case *c = &cases->items[i];
        found += c->name == name && c->bytes == bytes && c->at_once == at_once;
    }
    return found;
}

/* Three sizes; a single GPU has no peer to reduce or copy with. */
static void one_gpu_has_no_peers(void **state DL_UNUSED)
{
    DL_SCOPED(dl_bench_gpu_cases) cases;
    dl_bench_gpu_cases_init(&cases, 1, 4 * DL_BENCH_GPU_BYTES_MIN);
    for (size_t bytes = 1024; bytes <= 4096; bytes *= 2) {
        for (int name = DL_BENCH_GPU_H2D; name <= DL_BENCH_GPU_H2D_WITH_D2H; name++)
            assert_int_equal(count_cases(&cases, (dl_bench_gpu_name)name, bytes, 1), 1);
    }
    assert_int_equal(count_cases(&cases, DL_BENCH_GPU_LAUNCH, 0, 1), 1);
    assert_int_equal(cases.count, 3 * 5 + 1);
}

/* Of six GPUs 1, 2, 4 and 6 copy concurrently; all reduce; every ordered pair copies; each
 * launches. */
static void several_gpus_copy_at_once_and_in_pairs(void **state DL_UNUSED)
{
    enum { GPUS = 6 };
    DL_SCOPED(dl_bench_gpu_cases) cases;
    dl_bench_gpu_cases_init(&cases, GPUS, DL_BENCH_GPU_BYTES_MIN);
    for (int name = DL_BENCH_GPU_H2D; name <= DL_BENCH_GPU_D2H_PAGEABLE; name++) {
        for (int n = 1; n <= GPUS; n++) {
            assert_int_equal(
                count_cases(&cases, (dl_bench_gpu_name)name, DL_BENCH_GPU_BYTES_MIN, n),
                n != 3 && n != 5);
        }
    }
    assert_int_equal(count_cases(&cases, DL_BENCH_GPU_ALL_REDUCE, DL_BENCH_GPU_BYTES_MIN, GPUS), 1);
    bool pairs[GPUS][GPUS] = {{false}};
    bool launches[GPUS] = {false};
    for (size_t i = 0; i < cases.count; i++) {
        const dl_bench_gpu_case *c = &cases.items[i];
        assert_true(c->gpu + c->at_once <= GPUS);
        if (c->name == DL_BENCH_GPU_P2P) pairs[c->gpu][c->source] = true;
        if (c->name == DL_BENCH_GPU_LAUNCH) launches[c->gpu] = true;
    }
    for (int to = 0; to < GPUS; to++) {
        assert_true(launches[to]);
        for (int from = 0; from < GPUS; from++)
            assert_int_equal(pairs[to][from], to != from);
    }
    assert_int_equal(cases.count, 4 * 4 + 1 + GPUS * (GPUS - 1) + 1 + GPUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gpu_has_no_peers),
        cmocka_unit_test(several_gpus_copy_at_once_and_in_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
