/* The cost of recording: the interval of the median, and a short measurement. */
#include <unistd.h>

#include "tests/train_case.h"

#include "profiler/bench/overhead.h"

#define PATH "test_overhead.dlt"

/* Tables of the sign test (two-sided, 95 %): n = 6 uses the extremes, 20 the 6th and 15th values,
 * 25 the 8th and 18th, 100 the 40th and 61st (counted from 1). */
static void ranks_of_the_median_interval(void **state DL_UNUSED)
{
    assert_int_equal(dl_overhead_median_interval(6, 0.95), 0);
    assert_int_equal(dl_overhead_median_interval(8, 0.95), 0);
    assert_int_equal(dl_overhead_median_interval(9, 0.95), 1);
    assert_int_equal(dl_overhead_median_interval(20, 0.95), 5);
    assert_int_equal(dl_overhead_median_interval(25, 0.95), 7);
    assert_int_equal(dl_overhead_median_interval(100, 0.95), 39);
    assert_int_equal(dl_overhead_median_interval(3, 0.95), 0);
}

/* With the fewest pairs; a step of mlp without exchange has 17 records. */
static void measures_pairs(void **state DL_UNUSED)
{
    const dl_train_config train = small_config();
    dl_progress progress;
    dl_progress_init(&progress, "overhead");
    const dl_overhead_config config = {
        .train = &train, .data = &data, .path = PATH, .seconds = 0.1, .progress = &progress};
    dl_overhead overhead = {0};
    dl_error err = {0};
    if (dl_overhead_measure(&config, &overhead, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(overhead.pairs, DL_OVERHEAD_PAIRS_MIN);
    assert_true(overhead.records_per_step == 17);
    assert_true(overhead.steps > 0 && overhead.step_ns > 0);
    assert_true(overhead.extra.low_ns <= overhead.extra.ns &&
                overhead.extra.ns <= overhead.extra.high_ns);
}

static void stop_says_how_far_it_got(void **state DL_UNUSED)
{
    const atomic_bool stop = true;
    dl_train_config train = small_config();
    train.stop = &stop;
    dl_progress progress;
    dl_progress_init(&progress, "overhead");
    const dl_overhead_config config = {
        .train = &train, .data = &data, .path = PATH, .seconds = 3600, .progress = &progress};
    dl_overhead overhead = {0};
    dl_error err = {0};
    assert_int_equal(dl_overhead_measure(&config, &overhead, &err), DL_ERR_DATA);
    assert_contains(err.text, "stopped after 0 of 1000 pairs");
}

static void trace_that_cannot_be_made(void **state DL_UNUSED)
{
    const dl_train_config train = small_config();
    dl_progress progress;
    dl_progress_init(&progress, "overhead");
    const dl_overhead_config config = {.train = &train,
                                       .data = &data,
                                       .path = "no_such_folder/x.dlt",
                                       .seconds = 0.1,
                                       .progress = &progress};
    dl_overhead overhead = {0};
    dl_error err = {0};
    assert_int_equal(dl_overhead_measure(&config, &overhead, &err), DL_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_the_median_interval), cmocka_unit_test(measures_pairs),
        cmocka_unit_test(stop_says_how_far_it_got), cmocka_unit_test(trace_that_cannot_be_made)};
    return cmocka_run_group_tests(tests, make_data, free_data);
}
