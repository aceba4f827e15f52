#include "calibrate/replay/collectives.h"

#include <math.h>

#include "tests/calibrate/rank_trace.h"

/* One rank: the least time per byte gives the transfer, the rest is waiting. 1000 bytes in 3000 ns
 * and 2000 in 4000: 2 ns per byte. A kernel of unknown size is ignored. */
static void of_one_rank_the_fastest_counts(void **state DL_UNUSED)
{
    rank_trace a;
    DL_SCOPED(dl_replay_run) run = {0};
    DL_SCOPED(dl_instances) instances = {0};
    DL_SCOPED(dl_transfer) transfer = {0};
    dl_error err = {0};
    rank_trace_init(&a, 0);
    rank_trace_work(&a, RT_GATHER_KERNEL, 100);
    rank_trace_collective(&a, RT_REDUCE, RT_REDUCE_KERNEL, 1000, 3000);
    rank_trace_collective(&a, RT_REDUCE, RT_REDUCE_KERNEL, 2000, 4000);
    assert_int_equal(dl_replay_build(&run, (const dl_trace *[]){&a.trace}, 1, &err), DL_OK);
    dl_instances_find(&instances, &run);
    dl_transfer_fit(&transfer, &instances, &run);
    assert_int_equal(transfer.count, 1);
    assert_int_equal(transfer.lines[0].instances, 2);
    assert_float_equal(dl_transfer_ns(&transfer, &instances.instances[1]), 2000, 1e-9);
    assert_float_equal(dl_transfer_ns(&transfer, &instances.instances[2]), 4000, 1e-9);
    assert_true(isnan(dl_transfer_ns(&transfer, &instances.instances[0])));
    /* Each is predicted by the other alone. */
    const dl_instance *m = instances.instances;
    assert_float_equal(dl_transfer_ns_without(&transfer, &m[1], &run), 2000, 1e-9);
    assert_float_equal(dl_transfer_ns_without(&transfer, &m[2], &run), 6000, 1e-9);
    assert_true(isnan(dl_transfer_ns_without(&transfer, &m[0], &run)));
}

/* Fits two ranks, the second `late_ns` behind, that all-reduce bytes[i] in times_ns[i] after the
 * later start. */
static dl_transfer_line fit_two(const uint64_t *bytes, const int64_t *times_ns, int count)
{
    rank_trace a, b;
    DL_SCOPED(dl_replay_run) run = {0};
    DL_SCOPED(dl_instances) instances = {0};
    DL_SCOPED(dl_transfer) transfer = {0};
    dl_error err = {0};
    const int64_t late_ns = 400;
    rank_trace_init(&a, 0);
    rank_trace_init(&b, 0);
    for (int i = 0; i < count; i++) {
        rank_trace_work(&b, RT_COMPUTE, late_ns);
        rank_trace_collective(&a, RT_REDUCE, RT_REDUCE_KERNEL, bytes[i], times_ns[i] + late_ns);
        rank_trace_collective(&b, RT_REDUCE, RT_REDUCE_KERNEL, bytes[i], times_ns[i]);
    }
    assert_int_equal(dl_replay_build(&run, (const dl_trace *[]){&a.trace, &b.trace}, 2, &err),
                     DL_OK);
    dl_instances_find(&instances, &run);
    dl_transfer_fit(&transfer, &instances, &run);
    assert_int_equal(transfer.count, 1);
    dl_transfer_line line = transfer.lines[0];
    line.name = NULL;
    return line;
}

static void of_several_ranks_the_last_start_counts(void **state DL_UNUSED)
{
    dl_transfer_line line =
        fit_two((const uint64_t[]){100, 200, 400}, (const int64_t[]){600, 700, 900}, 3);
    assert_float_equal(line.latency_ns, 500, 1e-6);
    assert_float_equal(line.ns_per_byte, 1, 1e-9);
    assert_float_equal(line.error_ns, 0, 1e-3);
}

/* If the best line has a negative coefficient, the best one without it is used; with one size the
 * mean, with its scatter. */
static void lines_have_no_negative_numbers(void **state DL_UNUSED)
{
    dl_transfer_line line = fit_two((const uint64_t[]){100, 200}, (const int64_t[]){100, 400}, 2);
    assert_true(line.latency_ns == 0);
    assert_float_equal(line.ns_per_byte, (100. * 100 + 200. * 400) / (100. * 100 + 200. * 200),
                       1e-9);
    line = fit_two((const uint64_t[]){100, 200}, (const int64_t[]){400, 200}, 2);
    assert_true(line.ns_per_byte == 0 && line.latency_ns == 300);
    line = fit_two((const uint64_t[]){100, 100}, (const int64_t[]){400, 200}, 2);
    assert_true(line.ns_per_byte == 0 && line.latency_ns == 300);
    assert_float_equal(line.error_ns, 100, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_rank_the_fastest_counts),
        cmocka_unit_test(of_several_ranks_the_last_start_counts),
        cmocka_unit_test(lines_have_no_negative_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
