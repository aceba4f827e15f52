#include "calibrate/replay/collectives.h"

#include "tests/calibrate/rank_trace.h"

static dl_replay_run build(const dl_trace *const *traces, size_t count)
{
    dl_replay_run run = {0};
    dl_error err = {0};
    if (dl_replay_build(&run, traces, count, &err) != DL_OK) fail_msg("%s", err.text);
    return run;
}

static void kernels_of_one_rank_are_alone(void **state DL_UNUSED)
{
    rank_trace a;
    rank_trace_init(&a, 0);
    rank_trace_work(&a, RT_COMPUTE, 5000);
    const uint32_t reduce = rank_trace_collective(&a, RT_REDUCE, RT_REDUCE_KERNEL, 800, 3000);
    rank_trace_collective(&a, RT_GATHER, RT_GATHER_KERNEL, 80, 2000);
    DL_SCOPED(dl_replay_run) run = build((const dl_trace *[]){&a.trace}, 1);
    DL_SCOPED(dl_instances) instances = {0};
    dl_instances_find(&instances, &run);
    assert_int_equal(instances.count, 2);
    assert_int_equal(instances.left_alone, 0);
    const dl_instance *m = &instances.instances[0];
    assert_string_equal(m->name, "AllReduce");
    assert_true(m->bytes == 800 && m->ranks == 2);
    assert_int_equal(run.graph.nodes[m->nodes[0]].activity, reduce);
    assert_int_equal(m->last_ns, RT_AHEAD_NS + 5000);
    assert_int_equal(m->end_ns, RT_AHEAD_NS + 8000);
}

/* The second rank arrives 700 ns later at both reductions; its gather has no counterpart. */
static void ranks_meet_in_the_order_of_a_name(void **state DL_UNUSED)
{
    rank_trace a, b;
    rank_trace_init(&a, 0);
    rank_trace_init(&b, 0);
    rank_trace_work(&a, RT_COMPUTE, 5000);
    rank_trace_work(&b, RT_COMPUTE, 5700);
    rank_trace_collective(&a, RT_REDUCE, RT_REDUCE_KERNEL, 800, 3000);
    rank_trace_collective(&b, RT_REDUCE, RT_REDUCE_KERNEL, 1000, 2300);
    rank_trace_collective(&b, RT_GATHER, RT_GATHER_KERNEL, 80, 200);
    const uint32_t second_a = rank_trace_collective(&a, RT_REDUCE, RT_REDUCE_KERNEL, 8, 900);
    const uint32_t second_b = rank_trace_collective(&b, RT_REDUCE, RT_REDUCE_KERNEL, 8, 700);
    DL_SCOPED(dl_replay_run) run = build((const dl_trace *[]){&a.trace, &b.trace}, 2);
    DL_SCOPED(dl_instances) instances = {0};
    dl_instances_find(&instances, &run);
    assert_int_equal(instances.count, 2);
    assert_int_equal(instances.left_alone, 1);
    assert_true(instances.instances[0].bytes == 900);
    assert_int_equal(instances.instances[0].last_ns, RT_AHEAD_NS + 5700);
    assert_int_equal(instances.instances[0].end_ns, RT_AHEAD_NS + 8000);
    const uint32_t *nodes = instances.instances[1].nodes;
    assert_int_equal(run.graph.nodes[nodes[0]].activity, second_a);
    assert_int_equal(run.graph.nodes[nodes[1]].activity, second_b);
    assert_true(run.graph.nodes[nodes[0]].rank == 0 && run.graph.nodes[nodes[1]].rank == 1);
}

static void unequal_numbers_are_left_alone(void **state DL_UNUSED)
{
    rank_trace a, b;
    rank_trace_init(&a, 0);
    rank_trace_init(&b, 0);
    rank_trace_collective(&a, RT_REDUCE, RT_REDUCE_KERNEL, 800, 3000);
    rank_trace_collective(&b, RT_REDUCE, RT_REDUCE_KERNEL, 800, 3000);
    rank_trace_collective(&b, RT_REDUCE, RT_REDUCE_KERNEL, 800, 3000);
    DL_SCOPED(dl_replay_run) run = build((const dl_trace *[]){&a.trace, &b.trace}, 2);
    DL_SCOPED(dl_instances) instances = {0};
    dl_instances_find(&instances, &run);
    assert_int_equal(instances.count, 0);
    assert_int_equal(instances.left_alone, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_one_rank_are_alone),
        cmocka_unit_test(ranks_meet_in_the_order_of_a_name),
        cmocka_unit_test(unequal_numbers_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
