/* Random orders of cases. */
#include <stdbool.h>
#include <string.h>

#include "tests/check.h"

#include "profiler/bench/bench_internal.h"

enum { CASES = 40, ROUNDS = 10 };

/* Every round has each case once, in another order than the previous round. */
static void every_round_has_all_cases(void **state DL_UNUSED)
{
    DL_SCOPED(dl_bench_order) order;
    dl_bench_order_init(&order, CASES, 7, 0);
    uint32_t before[CASES];
    for (uint32_t i = 0; i < CASES; i++)
        before[i] = i;
    for (int round = 0; round < ROUNDS; round++) {
        bool seen[CASES] = {false};
        const uint32_t *next = dl_bench_order_next(&order);
        for (int i = 0; i < CASES; i++) {
            assert_true(next[i] < CASES);
            assert_false(seen[next[i]]);
            seen[next[i]] = true;
        }
        assert_memory_not_equal(next, before, sizeof before);
        memcpy(before, next, sizeof before);
    }
}

static void seed_and_stream_decide(void **state DL_UNUSED)
{
    DL_SCOPED(dl_bench_order) one, same, seed, stream;
    dl_bench_order_init(&one, CASES, 7, 3);
    dl_bench_order_init(&same, CASES, 7, 3);
    dl_bench_order_init(&seed, CASES, 8, 3);
    dl_bench_order_init(&stream, CASES, 7, 4);
    const size_t bytes = CASES * sizeof(uint32_t);
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t *next = dl_bench_order_next(&one);
        assert_memory_equal(next, dl_bench_order_next(&same), bytes);
        assert_memory_not_equal(next, dl_bench_order_next(&seed), bytes);
        assert_memory_not_equal(next, dl_bench_order_next(&stream), bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_round_has_all_cases),
        cmocka_unit_test(seed_and_stream_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
