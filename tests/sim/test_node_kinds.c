/* Nodes of several kinds in one machine, compared with closed forms. Nodes have two GPUs below one
 * socket and two ports of 1 GB/s; with 8 GB, latencies are negligible. */
#include "tests/gpu_fixture.h"
#include "tests/reduce_fixture.h"

#include <stdlib.h>

#include "sim/collective/nccl.h"
#include "sim/platform/placement.h"

#define NODES_OF(nodes, more)                                                                     \
    "[machine]\nschema = 1\nname = mixed\nnodes = " nodes "\npeer = all\ngpudirect = yes\n"       \
    "price_usd_per_hour = 10\ncollectives = nccl\n" FIXTURE_PARTS                                 \
    "[link slow]\nbytes_per_s = 0.25GB/s\nlatency_ns = 5000\n[host]\nmemory_bytes_per_s = "       \
    "40GB/s\n[gpus 0-1]\nmodel = g\nparent = socket0\nlink = x16\n[nics 0-1]\nparent = socket0\n" \
    "link = x16\nport = wire\n" more
#define NODES(more) NODES_OF("4", more)
#define SLOW_PORTS                                                                            \
    "[nodes 3]\nkind = slow\n[nics 0-1 of slow]\nparent = socket0\nlink = x16\nport = slow\n" \
    "[machine of slow]\nprice_usd_per_hour = 3\n"
#define ONE_PORT \
    "[nodes 0, 2]\nkind = one\n[nics 0 of one]\nparent = socket0\nlink = x16\nport = wire\n"
#define FOUR_GPUS \
    "[nodes 1]\nkind = four\n[gpus 0-3 of four]\nmodel = g\nparent = socket0\nlink = x16\n"
#define CROSSBAR "[nvswitch]\nlink = fast\nsum_frac = 0.8\n"

/* Time of an all-reduce of 8 GB, without NCCL's choice. */
static double reduce_s(const char *text, const char *algorithm, const char *counts,
                       dl_fidelity fidelity)
{
    DL_SCOPED(dl_machine) m = fixture_machine(text);
    m.library = DL_LIBRARY_OTHER;
    return fixture_reduce_s(&m, algorithm, counts, 8e9, fidelity);
}

/* A ring of n ranks sends 2 (n-1)/n of its bytes over each port; there are as many rings as the
 * fewest ports and ranks of any node, and they share the bytes:
 *   two ports each      two rings of 4 GB over 8 ranks at 1 GB/s          7 s
 *   node 3 is slow      the same at 0.25 GB/s                            28 s
 *   one rank a node     one ring of 8 GB over 4 ranks at 0.25 GB/s       48 s
 *   two have one port   one ring of 8 GB over 8 ranks at 1 GB/s          14 s
 *   node 1 has 4 GPUs   two rings of 4 GB over 10 ranks at 1 GB/s       7.2 s
 *   all of this         one ring of 8 GB over 10 ranks at 0.25 GB/s    57.6 s Hierarchical: each
 * GPU has half of the bytes, 0.4 s over 10 GB/s before and after; two rings of 4 GB over 4 nodes
 * at 0.25 GB/s, 24 s. */
static void the_slowest_port_bounds_a_ring(void **state DL_UNUSED)
{
    static const struct {
        const char *text, *algorithm, *counts;
        double seconds;
    } cases[] = {
        {NODES(""), "ring", "2222", 7},
        {NODES(SLOW_PORTS), "ring", "2222", 28},
        {NODES(SLOW_PORTS), "ring", "1111", 48},
        {NODES(SLOW_PORTS), "ring", "222", 2.0 * 5 / 6 * 4},
        {NODES(ONE_PORT), "ring", "2222", 14},
        {NODES(FOUR_GPUS), "ring", "2422", 7.2},
        {NODES(SLOW_PORTS ONE_PORT FOUR_GPUS), "ring", "2422", 57.6},
        {NODES(SLOW_PORTS), "hierarchical", "2222", 24.8},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        for (int fidelity = 0; fidelity < 2; fidelity++) {
            assert_near(
                reduce_s(cases[i].text, cases[i].algorithm, cases[i].counts, (dl_fidelity)fidelity),
                cases[i].seconds, 2e-3);
        }
    }
}

/* If there is no closed form, chunks and phases must agree. */
static void trees_over_unlike_nodes(void **state DL_UNUSED)
{
    static const struct {
        const char *text, *counts;
    } cases[] = {
        {NODES(SLOW_PORTS), "2222"},
        {NODES(ONE_PORT), "2222"},
        {NODES(FOUR_GPUS), "2422"},
        {NODES(SLOW_PORTS ONE_PORT FOUR_GPUS), "2422"},
    };
    static const char *const trees[] = {"tree", "node_tree"};
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        for (size_t t = 0; t < DL_LENGTH(trees); t++) {
            assert_near(reduce_s(cases[i].text, trees[t], cases[i].counts, DL_FIDELITY_CHUNK),
                        reduce_s(cases[i].text, trees[t], cases[i].counts, DL_FIDELITY_PHASE),
                        0.02);
        }
    }
    const char *text = NODES(CROSSBAR SLOW_PORTS);
    assert_near(reduce_s(text, "nvls_tree", "2222", DL_FIDELITY_CHUNK),
                reduce_s(text, "nvls_tree", "2222", DL_FIDELITY_PHASE), 0.02);
}

/* A kind of node that defines its own GPUs does not inherit the crossbar, which NCCL needs in all
 * nodes. */
static void own_gpus_have_no_crossbar(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(NODES(CROSSBAR SLOW_PORTS FOUR_GPUS));
    assert_true(dl_machine_node(&m, 0)->nvswitch_link >= 0);
    assert_true(dl_machine_node(&m, 3)->nvswitch_link >= 0);
    assert_true(dl_machine_node(&m, 3)->nvswitch_sum_frac.known);
    assert_int_equal(dl_machine_node(&m, 1)->nvswitch_link, -1);
    assert_false(dl_machine_node(&m, 1)->nvswitch_sum_frac.known);
}

/* NCCL uses the minimum of the nodes' rings and of their rates. */
static void nccl_takes_the_least(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        int nodes;
        double gb_per_s;
    } cases[] = {
        {NODES(""), 4, 2},
        {NODES(SLOW_PORTS), 4, 0.5},
        {NODES(SLOW_PORTS), 3, 2},
        {NODES(ONE_PORT), 4, 1},
        {NODES(ONE_PORT), 2, 1},
        {NODES(FOUR_GPUS), 4, 2},
        {NODES(SLOW_PORTS ONE_PORT), 4, 0.25},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_SCOPED(dl_machine) m = fixture_machine(cases[i].text);
        DL_SCOPED(dl_links) links;
        dl_links_init(&links, &m);
        dl_place ranks[16];
        dl_nccl_group group;
        const int count = dl_machine_gpus_before(&m, cases[i].nodes);
        for (int r = 0; r < count; r++)
            ranks[r] = dl_place_of_gpu(&m, r);
        dl_nccl_group_init(&group, &links, ranks, count);
        assert_int_equal(group.nodes, cases[i].nodes);
        assert_near(group.ring_bytes_per_s / 1e9, cases[i].gb_per_s, 1e-9);
    }
}

/* Nodes of 2, 4, 2, 2 GPUs, followed by as many with two as requested. */
static void gpus_are_counted_over_unlike_nodes(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(NODES(FOUR_GPUS));
    static const dl_place places[] = {
        {DL_PLACE_GPU, 0, 1}, {DL_PLACE_GPU, 1, 0}, {DL_PLACE_GPU, 1, 3}, {DL_PLACE_GPU, 2, 0}};
    static const int numbers[] = {1, 2, 5, 6};
    for (size_t i = 0; i < DL_LENGTH(numbers); i++) {
        const dl_place place = dl_place_of_gpu(&m, numbers[i]);
        assert_memory_equal(&place, &places[i], sizeof place);
        assert_int_equal(dl_place_gpu_number(&m, place), numbers[i]);
    }
    assert_int_equal(dl_machine_gpus(&m), 10);
    assert_int_equal(dl_machine_nodes_for(&m, 10), 4);
    assert_int_equal(dl_machine_nodes_for(&m, 13), 6);
    m.nodes = 1;
    static const int nodes_for[] = {1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 5, 5};
    for (size_t gpus = 0; gpus < DL_LENGTH(nodes_for); gpus++)
        assert_int_equal(dl_machine_nodes_for(&m, (int64_t)gpus), nodes_for[gpus]);
    m.nodes = 4;
    int *gpus = NULL, count = 0;
    dl_error err = {0};
    assert_int_equal(dl_placement_gpus("132", &m, &gpus, &count, &err), DL_OK);
    static const int expected[] = {0, 2, 3, 4, 6, 7};
    assert_int_equal(count, 6);
    assert_memory_equal(gpus, expected, sizeof expected);
    free(gpus);
    assert_int_equal(dl_placement_gpus("3", &m, &gpus, &count, &err), DL_ERR_RANGE);
}

/* A scenario may use fewer than the ten nodes with 4 GPUs and the following ones with two. */
static void fewer_nodes_than_the_file_has(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(
        NODES_OF("12", "[nodes 0-9]\nkind = four\n[gpus 0-3 of four]\nmodel = g\nparent = socket0\n"
                       "link = x16\n"));
    m.nodes = 1;
    static const int gpus[] = {4, 5, 8, 9, 39, 40, 41, 42, 43};
    static const int nodes[] = {1, 2, 2, 3, 10, 10, 11, 11, 12};
    for (size_t i = 0; i < DL_LENGTH(gpus); i++)
        assert_int_equal(dl_machine_nodes_for(&m, gpus[i]), nodes[i]);
}

/* Three nodes at 10 dollars, one at 3; two GPUs each. */
static void kinds_have_prices(void **state DL_UNUSED)
{
    dl_gpu_options options = {.machine = fixture_machine(NODES(SLOW_PORTS))};
    assert_near(dl_gpu_options_usd_per_hour(&options, 6), 30, 1e-12);
    assert_near(dl_gpu_options_usd_per_hour(&options, 7), 33, 1e-12);
    dl_machine_free(&options.machine);
}

/* Three nodes with one GPU; the last one's port has 0.1 GB/s. Two workers send 80 kB to the server
 * and get as much back: one of them over the slow port, 0.8 ms each way, or both, 1.6 ms. */
static void a_server_on_a_slow_node_is_slower(void **state DL_UNUSED)
{
    static const char text[] = FIXTURE_NODES(
        "3") "[link slow]\nbytes_per_s = 0.1GB/s\nlatency_ns = 0\n[nodes 2]\nkind = slow\n"
             "[nics 0 of slow]\nparent = socket0\nlink = x16\nport = slow\n";
    double step_s[2];
    for (int place = 0; place < 2; place++) {
        dl_run_result r =
            fixture_run_machine(text, FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "", 3, 20,
                                place == 0 ? "[sync]\nmode = ps\nwhere = gpu:0\n"
                                           : "[sync]\nmode = ps\nwhere = gpu:2\n");
        step_s[place] = r.step_p50_s;
        dl_run_result_free(&r);
    }
    assert_near(step_s[1] - step_s[0], 1.6e-3, 0.01);
}

/* A number in the cost file applies to the kinds that do not define their own. */
static void costs_set_the_numbers_of_kinds(void **state DL_UNUSED)
{
    dl_machine m = fixture_machine(
        NODES(SLOW_PORTS FOUR_GPUS "[host of four]\nmemory_bytes_per_s = 20GB/s\n"));
    dl_costs costs =
        fixture_costs(FIXTURE_GPU_COSTS "[machine host]\nmemory_bytes_per_s = 30GB/s\n");
    dl_error err = {0};
    assert_int_equal(dl_costs_check_machine(&costs, &m, &err), DL_OK);
    dl_costs_set_machine(&costs, &m);
    assert_near(dl_machine_node(&m, 0)->memory_bytes_per_s.value, 30e9, 1e-12);
    assert_near(dl_machine_node(&m, 3)->memory_bytes_per_s.value, 30e9, 1e-12);
    assert_near(dl_machine_node(&m, 1)->memory_bytes_per_s.value, 20e9, 1e-12);
    dl_costs_free(&costs);
    costs =
        fixture_costs(FIXTURE_GPU_COSTS "[machine host of four]\nmemory_bytes_per_s = 10GB/s\n");
    assert_int_equal(dl_costs_check_machine(&costs, &m, &err), DL_OK);
    dl_costs_set_machine(&costs, &m);
    assert_near(dl_machine_node(&m, 1)->memory_bytes_per_s.value, 10e9, 1e-12);
    dl_costs_free(&costs);
    costs = fixture_costs(FIXTURE_GPU_COSTS "[network]\nbytes_per_s = 1GB/s\n");
    assert_int_equal(dl_costs_check_machine(&costs, &m, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "[machine link NAME]");
    dl_machine_free(&m);
    m = fixture_machine(NODES(FOUR_GPUS)); /* all ports are of one link */
    assert_int_equal(dl_costs_check_machine(&costs, &m, &err), DL_OK);
    dl_costs_free(&costs);
    dl_machine_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slowest_port_bounds_a_ring),
        cmocka_unit_test(trees_over_unlike_nodes),
        cmocka_unit_test(own_gpus_have_no_crossbar),
        cmocka_unit_test(nccl_takes_the_least),
        cmocka_unit_test(gpus_are_counted_over_unlike_nodes),
        cmocka_unit_test(fewer_nodes_than_the_file_has),
        cmocka_unit_test(kinds_have_prices),
        cmocka_unit_test(a_server_on_a_slow_node_is_slower),
        cmocka_unit_test(costs_set_the_numbers_of_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
