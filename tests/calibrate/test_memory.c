#include "calibrate/calibration.h"

#include <math.h>

#include "tests/check.h"

static dl_comm_point point(uint64_t bytes, uint32_t vectors, uint32_t threads, double time_ns)
{
    return (dl_comm_point){.bytes = bytes,
                           .vectors = vectors,
                           .threads = threads,
                           .time_ns = {time_ns, time_ns / 100, 50}};
}

static void fit(dl_comm_point *copies, size_t copy_count, dl_comm_point *averages,
                size_t average_count, dl_memory_fit *memory, dl_costs *costs, dl_notes *notes)
{
    const dl_comm_fit comm = {.lines = {[DL_COMM_COPY] = {"copy", copies, copy_count},
                                        [DL_COMM_AVERAGE] = {"average", averages, average_count}}};
    *memory = (dl_memory_fit){0};
    *costs = (dl_costs){.parameter_bytes = 1000000};
    *notes = (dl_notes){0};
    dl_memory_fit_total(&comm, memory, costs, notes);
}

/* Copies of 1 MB: alone 100 us; two concurrent ones 160 us each: 2 * 2 MB / 160 us = 25 GB/s in
 * total, 1.25 times one: the limit. A distant, faster size is ignored. */
static void test_limit(void **state DL_UNUSED)
{
    dl_comm_point copies[] = {point(1000000, 0, 1, 100000), point(65536, 0, 2, 1000),
                              point(1000000, 0, 2, 160000)};
    DL_SCOPED(dl_memory_fit) memory;
    dl_costs costs;
    dl_notes notes;
    fit(copies, 3, NULL, 0, &memory, &costs, &notes);
    assert_int_equal(memory.count, 1);
    assert_true(fabs(memory.points[0].speedup - 1.25) < 1e-9);
    assert_true(fabs(costs.memory_total_bytes_per_s.value - 25e9) < 1);
    assert_true(fabs(costs.memory_total_bytes_per_s.error - 25e7) < 1);
    assert_int_equal(costs.memory_total_bytes_per_s.origin, DL_ORIGIN_FITTED);
    assert_int_equal(notes.count, 0);
}

/* Two concurrent copies are hardly slower (1.98 times one): a lower bound, assumed, with a note.
 * The average of 4 vectors by two threads in 200 us moves 5 MB, 25 GB/s: less than the copies'
 * 39.6. */
static void test_lower_bound(void **state DL_UNUSED)
{
    dl_comm_point copies[] = {point(1000000, 0, 1, 100000), point(1000000, 0, 2, 101000)};
    dl_comm_point averages[] = {point(1000000, 4, 2, 200000)};
    DL_SCOPED(dl_memory_fit) memory;
    dl_costs costs;
    DL_SCOPED(dl_notes) notes;
    fit(copies, 2, averages, 1, &memory, &costs, &notes);
    assert_int_equal(memory.count, 2);
    assert_true(isnan(memory.points[1].speedup));
    assert_true(fabs(memory.points[1].bytes_per_s.value - 25e9) < 1);
    assert_true(fabs(costs.memory_total_bytes_per_s.value - 4e15 / 101000) < 1e3);
    assert_int_equal(costs.memory_total_bytes_per_s.origin, DL_ORIGIN_ASSUMED);
    assert_int_equal(notes.count, 1);
    assert_contains(notes.lines[0], "lower bound");
}

/* An average takes two threads 60 us and one thread 100 us: a speedup of 1.67. */
static void test_average(void **state DL_UNUSED)
{
    dl_comm_point averages[] = {point(1000000, 2, 1, 100000), point(1000000, 2, 2, 60000)};
    DL_SCOPED(dl_memory_fit) memory;
    dl_costs costs;
    dl_notes notes;
    fit(NULL, 0, averages, 2, &memory, &costs, &notes);
    assert_true(fabs(memory.points[0].speedup - 100.0 / 60) < 1e-9);
    assert_true(fabs(costs.memory_total_bytes_per_s.value - 3e6 / 60e-6) < 1);
}

/* Without a point of one thread the speedup is unknown, and so is whether the limit was reached. */
static void test_no_single_thread(void **state DL_UNUSED)
{
    dl_comm_point copies[] = {point(1000000, 0, 2, 160000)};
    DL_SCOPED(dl_memory_fit) memory;
    dl_costs costs;
    DL_SCOPED(dl_notes) notes;
    fit(copies, 1, NULL, 0, &memory, &costs, &notes);
    assert_true(fabs(costs.memory_total_bytes_per_s.value - 25e9) < 1);
    assert_int_equal(costs.memory_total_bytes_per_s.origin, DL_ORIGIN_ASSUMED);
    assert_contains(notes.lines[0], "one thread was not measured");
}

static void test_one_thread_says_nothing(void **state DL_UNUSED)
{
    dl_comm_point copies[] = {point(1000000, 0, 1, 100000)};
    DL_SCOPED(dl_memory_fit) memory;
    dl_costs costs;
    dl_notes notes;
    fit(copies, 1, NULL, 0, &memory, &costs, &notes);
    assert_false(costs.memory_total_bytes_per_s.known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_lower_bound),
        cmocka_unit_test(test_average),
        cmocka_unit_test(test_no_single_thread),
        cmocka_unit_test(test_one_thread_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
