#include "tests/machine_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/collective/collective.h"
#include "sim/costs/costs.h"
#include "tests/sim_fixture.h"

#define HEAD "[costs]\nschema = 1\n"
static const char both[] = HEAD "[collective allreduce 8]\nnodes = 1\n"
                                "bytes_0 = 35000 +- 100, n = 19, fitted\n"
                                "bytes_1000 = 36000\nbytes_3000 = 40000, measured\n"
                                "[collective allgather 4]\nbytes_1024 = 10\nbytes_2048 = 20\n";

static const dl_collective_cost *find(const dl_costs *costs, int kind, int ranks, int nodes)
{
    return dl_collective_cost_find(costs->collectives, costs->collective_count, kind, ranks, nodes);
}

static void times_are_straight_between_sizes(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(both);
    assert_int_equal(costs.collective_count, 2);
    const dl_collective_cost *c = find(&costs, DL_ALLREDUCE, 8, 1);
    assert_non_null(c);
    assert_true(c->times[0].time_ns.error == 100 && c->times[0].time_ns.count == 19);
    assert_true(dl_collective_cost_ns(c, 0) == 35000);
    assert_true(dl_collective_cost_ns(c, 500) == 35500);
    assert_true(dl_collective_cost_ns(c, 2000) == 38000);
    assert_true(dl_collective_cost_ns(c, 5000) == 44000); /* extrapolated with the slope of the last
                                                           * two */
    c = find(&costs, DL_ALLGATHER, 4, 3);                 /* for any number of nodes */
    assert_true(dl_collective_cost_ns(c, 1) == 10);
    assert_null(find(&costs, DL_ALLREDUCE, 8, 2));
    assert_null(find(&costs, DL_ALLREDUCE, 4, 1));
}

static void what_is_written_reads_back(void **state DL_UNUSED)
{
    const char *path = "collective_cost.ini";
    dl_error err = {0};
    dl_costs costs = fixture_costs(both), again = {0};
    assert_int_equal(dl_costs_write(&costs, path, NULL, &err), DL_OK);
    assert_int_equal(dl_costs_read(&again, path, &err), DL_OK);
    assert_int_equal(again.collective_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const dl_collective_cost *a = &costs.collectives[i], *b = &again.collectives[i];
        assert_true(a->kind == b->kind && a->ranks == b->ranks && a->nodes == b->nodes &&
                    a->count == b->count);
        for (size_t t = 0; t < a->count; t++) {
            assert_true(a->times[t].bytes == b->times[t].bytes);
            assert_true(a->times[t].time_ns.value == b->times[t].time_ns.value);
        }
    }
    dl_costs_free(&costs);
    dl_costs_free(&again);
    unlink(path);
}

static void faults_are_named(void **state DL_UNUSED)
{
    static const refused_text cases[] = {
        {HEAD "[collective allreduse 8]\nbytes_0 = 1\n", DL_ERR_NAME, 4,
         "did you mean 'allreduce'?"},
        {HEAD "[collective allreduce]\nbytes_0 = 1\n", DL_ERR_NAME, 4, "[collective"},
        {HEAD "[collective allreduce 1]\nbytes_0 = 1\n", DL_ERR_NAME, 4, "2 ranks or more"},
        {HEAD "[collective allreduce 8]\nbyte_0 = 1\n", DL_ERR_NAME, 4, "did you mean 'bytes_*'"},
        {HEAD "[collective allreduce 8]\nbytes_x = 1\n", DL_ERR_PARSE, 4, "'x' is not a number"},
        {HEAD "[collective allreduce 8]\nbytes_0 = -1\n", DL_ERR_RANGE, 4,
         "is not within 0 ns to 3600 s"},
        {HEAD "[collective allreduce 8]\nbytes_5 = 1\nbytes_4 = 2\n", DL_ERR_DATA, 5,
         "must ascend"},
        {HEAD "[collective allreduce 8]\nbytes_5 = 1\n", DL_ERR_DATA, 0, "two sizes are required"},
        {HEAD "[collective allreduce 8]\nnodes = 9\n", DL_ERR_RANGE, 4, "not in 1..8"},
    };
    assert_all_refused(cases, "costs.ini", fixture_refused_costs);
}

/* Measured on 4 GPUs on a crossbar. */
static void a_measured_collective_takes_its_time(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs(HEAD "[collective allreduce 4]\nbytes_0 = 7000\nbytes_8 = 7008\n");
    DL_SCOPED(dl_machine) machine = fixture_machine(FIXTURE_CROSSBAR);
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &machine);
    dl_place ranks[4];
    for (int i = 0; i < 4; i++)
        ranks[i] = gpu_place(0, i);
    dl_collective_config config = {.kind = DL_ALLREDUCE,
                                   .algorithm = "ring",
                                   .ranks = ranks,
                                   .rank_count = 4,
                                   .bytes = 1000,
                                   .chunk_bytes = DL_CHUNK_BYTES,
                                   .measured = costs.collectives,
                                   .measured_count = costs.collective_count};
    double ring_ns = 0, auto_ns = 0, fewer_ns = 0;
    dl_error err = {0};
    assert_int_equal(dl_collective_idle_ns(&links, &config, &ring_ns, &err), DL_OK);
    config.algorithm = "auto";
    assert_int_equal(dl_collective_idle_ns(&links, &config, &auto_ns, &err), DL_OK);
    config.rank_count = 3;
    assert_int_equal(dl_collective_idle_ns(&links, &config, &fewer_ns, &err), DL_OK);
    assert_true(auto_ns == 8000);
    assert_true(ring_ns != 8000 && fewer_ns != 8000); /* a named algorithm and other numbers of
                                                       * ranks are modelled */

    DL_SCOPED(dl_engine) engine;
    DL_SCOPED(dl_network) network;
    DL_SCOPED(dl_collective) collective;
    config.rank_count = 4;
    dl_network_init(&network, &engine, 1);
    dl_network_add_links(&network, &links);
    assert_int_equal(dl_collective_init(&collective, &network, &links, &config, &err), DL_OK);
    dl_network_reserve(&network, collective.plan.transfer_count);
    dl_engine_init(&engine, 2 * collective.plan.transfer_count + 2);
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < 4; i++)
            dl_collective_arrive(&collective);
        dl_engine_run(&engine);
        assert_int_equal(engine.now_ns, (run + 1) * 8000);
    }
    dl_costs_free(&costs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_straight_between_sizes),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(a_measured_collective_takes_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
