/* Collectives before each step. The fixture's step takes 1 + 0.1 ms on a GPU; GPUs on a switch have
 * 10 GB/s and 0.2 us. */
#include "sim/step_collectives.h"

#include <stdlib.h>

#include "tests/gpu_fixture.h"

#define COSTS(collectives)                  \
    FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH \
        "[trace 1]\nranks = 2\nbatch = 1\nallreduces = yes\nstep_ns = 2e6\n" collectives

#define REDUCES "[sync]\nmode = allreduce\n"

static double step_us(const char *costs, int workers, const char *rest)
{
    return 1e-3 * fixture_step_ns(costs, "", workers, rest);
}

/* Time that the collectives add to a step, which has no other exchange of different length. */
static double added_us(const char *costs, int workers)
{
    return step_us(costs, workers, REDUCES) - step_us(COSTS(""), workers, REDUCES);
}

/* All-to-all of two ranks: half of a rank's 80 kB crosses, 0.2 + 4 us; NCCL counts 40 kB per
 * call. */
static void an_all_to_all_comes_before_the_step(void **state DL_UNUSED)
{
    assert_near(added_us(COSTS("collective_1 = AlltoAll, 1, 40000, 9e5, 2\n"), 2), 4.2, 0.01);
    assert_near(added_us(COSTS("collective_1 = AlltoAll, 7, 280000, 9e5, 2\n"), 2), 29.4, 0.05);
}

/* A gather of 40 kB from each of two ranks: 0.2 + 4 us; then a scatter of the same size. */
static void one_comes_after_the_other(void **state DL_UNUSED)
{
    assert_near(added_us(COSTS("collective_1 = AllGather, 1, 40000, 9e5, 2\n"), 2), 4.2, 0.01);
    assert_near(added_us(COSTS("collective_1 = AllGather, 1, 40000, 9e5, 2\n"
                               "collective_2 = ReduceScatter, 2, 80000, 9e5, 2\n"),
                         2),
                12.6, 0.02);
}

/* Pairs, in a program with four ranks: concurrently on both switches, 2 (0.2 + 4) us for 80 kB. */
static void groups_run_at_once(void **state DL_UNUSED)
{
    static const char costs[] = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH
        "[trace 1]\nranks = 4\nbatch = 1\nallreduces = yes\nstep_ns = 2e6\n"
        "collective_1 = AllReduce, 3, 240000, 9e5, 2\n";
    assert_near(added_us(costs, 4), 25.2, 0.05);
}

/* Other modes, and a single worker, have no such collectives. */
static void only_all_reduce_has_them(void **state DL_UNUSED)
{
    static const char costs[] = COSTS("collective_1 = AlltoAll, 7, 280000, 9e5, 2\n");
    static const char average[] = "[sync]\nmode = average\ninterval = 1\n";
    assert_near(added_us(costs, 1), 0, 1e-6);
    assert_near(step_us(costs, 2, average), step_us(COSTS(""), 2, average), 1e-6);
}

/* Conversion of collectives of a trace of four ranks with 8 samples each. */
static void what_is_made_of_a_traced_one(void **state DL_UNUSED)
{
    const dl_cost_trace trace = {.ranks = 4, .batch = 8};
    const struct {
        char name[16];
        double calls, bytes;
        int64_t ranks;
        int workers;
        double samples;
        dl_step_collective made; /* calls 0: left out */
    } cases[] = {
        {"AlltoAll", 2, 2000, 4, 4, 8, {DL_ALLTOALL, 2, 4, 4000}},
        {"AlltoAll", 2, 2000, 4, 16, 8, {DL_ALLTOALL, 2, 16, 4000}},
        {"alltoall", 2, 2000, 4, 4, 16, {DL_ALLTOALL, 2, 4, 8000}},
        {"AllGather", 1, 1000, 4, 8, 8, {DL_ALLGATHER, 1, 8, 8000}},
        {"ReduceScatter", 1, 1000, 2, 8, 8, {DL_REDUCE_SCATTER, 1, 2, 2000}},
        {"AllReduce", 0.2, 1000, 2, 8, 8, {DL_ALLREDUCE, 1, 2, 1000}},
        {"Broadcast", 1, 1000, 4, 4, 16, {DL_BROADCAST, 1, 4, 1000}},
        {"AllReduce", 1, 1000, 2, 5, 8, {0}}, /* 5 workers cannot form pairs */
        {"AllReduce", 1, 0, 4, 4, 8, {0}},
        {"AllReduce", 1, 1000, 0, 4, 8, {0}},
        {"SendRecv", 1, 1000, 4, 4, 8, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_step_collective made = {0};
        char name[16];
        memcpy(name, cases[i].name, sizeof name);
        const dl_traced_collective traced = {.name = name,
                                             .calls = cases[i].calls,
                                             .bytes = cases[i].bytes,
                                             .ranks = cases[i].ranks};
        const bool is =
            dl_step_collective_of(&trace, &traced, cases[i].workers, cases[i].samples, &made);
        const dl_step_collective *want = &cases[i].made;
        if (is != (want->calls > 0) || made.kind != want->kind || made.calls != want->calls ||
            made.group != want->group || made.bytes != want->bytes)
            fail_msg("case %zu: kind %d, %lld calls, groups of %d, %g bytes", i, (int)made.kind,
                     (long long)made.calls, made.group, made.bytes);
    }
}

/* The broadcast of buffers comes first. */
static void the_list_has_the_buffers_first(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS("collective_1 = SendRecv, 1, 5, 5, 2\n"
                                                    "collective_2 = AlltoAll, 1, 40000, 9e5, 2\n"
                                                    "[broadcast]\nbytes = 5000\n"));
    DL_AUTOFREE dl_step_collective *list = NULL;
    assert_int_equal(dl_step_collectives_list(&costs, 2, 1, &list), 2);
    assert_true(list[0].kind == DL_BROADCAST && list[0].bytes == 5000 && list[0].group == 2);
    assert_true(list[1].kind == DL_ALLTOALL && list[1].bytes == 80000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_all_to_all_comes_before_the_step),
        cmocka_unit_test(one_comes_after_the_other),
        cmocka_unit_test(groups_run_at_once),
        cmocka_unit_test(only_all_reduce_has_them),
        cmocka_unit_test(what_is_made_of_a_traced_one),
        cmocka_unit_test(the_list_has_the_buffers_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
