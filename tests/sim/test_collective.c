#include "tests/machine_fixture.h"

#include <math.h>

#include "sim/collective/rings.h"
#include "sim/network/tcp.h"

#define RANKS_MAX 64

/* Ranks: all GPUs of a machine, or the first `count` of one node. Costs are only those of the
 * machine file (test_nccl.c tests those of NCCL). */
typedef struct group {
    dl_machine machine;
    dl_links links;
    dl_place ranks[RANKS_MAX];
    int count;
} group;

static void make_group(group *g, dl_machine machine, int nodes, int per_node)
{
    memset(g, 0, sizeof *g);
    g->machine = machine;
    g->machine.library = DL_LIBRARY_OTHER;
    dl_links_init(&g->links, &g->machine);
    for (int node = 0; node < nodes; node++) {
        for (int i = 0; i < per_node; i++)
            g->ranks[g->count++] = gpu_place(node, i);
    }
}

static void free_group(group *g)
{
    dl_links_free(&g->links);
    dl_machine_free(&g->machine);
}

static dl_collective_config config_of(const group *g, dl_collective_kind kind,
                                      const char *algorithm, double bytes)
{
    return (dl_collective_config){.kind = kind,
                                  .algorithm = algorithm,
                                  .ranks = g->ranks,
                                  .rank_count = g->count,
                                  .bytes = bytes,
                                  .chunk_bytes = DL_CHUNK_BYTES};
}

static double time_ns(const group *g, const dl_collective_config *config)
{
    double result = 0;
    dl_error err = {0};
    if (dl_collective_idle_ns(&g->links, config, &result, &err) != DL_OK) fail_msg("%s", err.text);
    return result;
}

static void assert_time(const group *g, const dl_collective_config *config, double expected_ns,
                        double tolerance)
{
    double actual = time_ns(g, config);
    if (fabs(actual - expected_ns) > tolerance * expected_ns + 3) {
        fail_msg("%s by %s: %.0f ns, not %.0f", dl_collective_kind_names[config->kind],
                 config->algorithm, actual, expected_ns);
    }
}

/* Two GPUs share 8 GB/s for both directions: 4 bytes/ns each way, S / 2 twice, and hops of 200 ns;
 * a single direction has the links' 10. With four GPUs all send and receive, like two. */
static void host_memory_is_shared_by_both_directions(void **state DL_UNUSED)
{
    static const char box[] =
        "[machine]\nschema = 1\nname = box\npeer = socket\n" FIXTURE_PARTS
        "[host]\nmemory_bytes_per_s = 400GB/s\n"
        "[gpus 0-3]\nmodel = g\nparent = socket0\nlink = x16\n[shm]\nbytes_per_s = 8GB/s\n";
    group g;
    make_group(&g, fixture_machine(box), 1, 2);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "ring", 40e6);
    assert_time(&g, &c, 2 * (200 + 20e6 / 4), 1e-6);
    c = config_of(&g, DL_BROADCAST, "ring", 40e6);
    assert_time(&g, &c, 200 + 40e6 / 10, 1e-6);
    free_group(&g);
    make_group(&g, fixture_machine(box), 1, 4);
    c = config_of(&g, DL_ALLREDUCE, "ring", 40e6);
    assert_time(&g, &c, 6 * (200 + 10e6 / 4), 1e-6);
    free_group(&g);
}

/* It is also crossed on the way to another node without GPUDirect: one or two GPUs of each of two
 * nodes then have 4 bytes/ns each way, with hops of 600 ns between nodes and 200 inside. With
 * GPUDirect one GPU has the ports' 10, and of two GPUs one sends through host memory and the other
 * receives, at 8; hops between nodes end earlier. */
static void host_memory_is_shared_with_ports(void **state DL_UNUSED)
{
    static const struct {
        const char *gpudirect;
        double rate; /* bytes/ns between nodes */
    } cases[] = {{"no", 4}, {"yes", 10}};
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_AUTOFREE char *boxes =
            dl_format("[machine]\nschema = 1\nname = boxes\nnodes = 2\npeer = socket\n"
                      "gpudirect = %s\n" FIXTURE_PARTS "[host]\nmemory_bytes_per_s = 400GB/s\n"
                      "[gpus 0-1]\nmodel = g\nparent = socket0\nlink = x16\n[nics 0]\n"
                      "parent = socket0\nlink = x16\nport = x16\n[shm]\nbytes_per_s = 8GB/s\n",
                      cases[i].gpudirect);
        group g;
        make_group(&g, fixture_machine(boxes), 2, 1);
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "ring", 40e6);
        assert_time(&g, &c, 2 * (600 + 20e6 / cases[i].rate), 1e-6);
        c = config_of(&g, DL_BROADCAST, "ring", 40e6);
        assert_time(&g, &c, 600 + 40e6 / 10, 1e-6);
        free_group(&g);
        make_group(&g, fixture_machine(boxes), 2, 2);
        c = config_of(&g, DL_ALLREDUCE, "ring", 40e6);
        assert_time(&g, &c, i == 0 ? 3 * (200 + 600) + 6 * 10e6 / 4 : 200 + 6 * 10e6 / 8, 1e-6);
        free_group(&g);
    }
}

/* Over TCP, whose headers count for the links of the whole route, two such nodes reach 4 bytes/ns
 * each way less the headers, to 1 % for slow start and hops. A single direction is not limited: it
 * is as fast as without [shm]. */
static void host_memory_limits_tcp(void **state DL_UNUSED)
{
    static const char *const shm[] = {"", "[shm]\nbytes_per_s = 8GB/s\n"};
    double broadcast_ns[2];
    for (size_t i = 0; i < DL_LENGTH(shm); i++) {
        DL_AUTOFREE char *boxes =
            dl_format("[machine]\nschema = 1\nname = boxes\nnodes = 2\npeer = none\n" FIXTURE_PARTS
                      "[host]\nmemory_bytes_per_s = 400GB/s\n"
                      "[gpus 0]\nmodel = g\nparent = socket0\nlink = x16\n[nics 0]\n"
                      "parent = socket0\nlink = x16\nport = x16\n[tcp]\nsockets = 16\n%s",
                      shm[i]);
        group g;
        make_group(&g, fixture_machine(boxes), 2, 1);
        dl_collective_config c = config_of(&g, DL_BROADCAST, "ring", 400e6);
        broadcast_ns[i] = time_ns(&g, &c);
        const double frac = dl_tcp_payload_frac(&g.machine.tcp);
        c = config_of(&g, DL_ALLREDUCE, "ring", 400e6);
        if (i == 1) assert_time(&g, &c, 2 * 200e6 / (4 * frac), 0.01);
        free_group(&g);
    }
    assert_true(fabs(broadcast_ns[1] / broadcast_ns[0] - 1) < 1e-9);
}

/* Four GPUs on a crossbar: 50 bytes/ns and 100 ns between any two. S = 40 000 000: a quarter takes
 * 200 000 ns. */
static void rings_take_their_closed_form(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "ring", 40e6);
        c.fidelity = (dl_fidelity)fidelity;
        assert_time(&g, &c, 6 * (100 + 200000), 1e-6);
        c.kind = DL_ALLGATHER;
        assert_time(&g, &c, 3 * (100 + 200000), 1e-6);
        c.kind = DL_REDUCE_SCATTER;
        assert_time(&g, &c, 3 * (100 + 200000), 1e-6);
        c.chunk_bytes = 400e3; /* 100 chunks of 8000 ns; the last one passes two more edges */
        for (int root = 0; root < 4; root++) {
            c.root = root;
            c.kind = DL_BROADCAST;
            assert_time(&g, &c, 3 * 100 + 102 * 8000, 1e-4);
            c.kind = DL_REDUCE;
            assert_time(&g, &c, 3 * 100 + 102 * 8000, 1e-4);
        }
    }
    free_group(&g);
}

/* h = 2, C = 100. All-reduce: 2 (2 * 100 + 800 000 (1 + 1/200)); one tree: 2 * 100 + 800 000 (2 +
 * 1/100). */
static void trees_take_their_closed_form(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "tree", 40e6);
    c.chunk_bytes = 200e3; /* per half of each tree */
    assert_time(&g, &c, 2 * (200 + 804000), 1e-6);
    c.chunk_bytes = 400e3;
    c.kind = DL_BROADCAST;
    assert_time(&g, &c, 200 + 1608000, 1e-6);
    c.kind = DL_REDUCE;
    assert_time(&g, &c, 200 + 1608000, 1e-6);
    free_group(&g);
}

static void all_to_all_takes_its_closed_form(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        dl_collective_config c = config_of(&g, DL_ALLTOALL, "pairwise", 40e6);
        c.fidelity = (dl_fidelity)fidelity;
        assert_time(&g, &c, 3 * (100 + 200000), 1e-6);
    }
    free_group(&g);
}

#define TWO_NODES                                                                               \
    "[machine]\nschema = 1\nname = two\nnodes = 2\npeer = all\ngpudirect = yes\n" FIXTURE_PARTS \
    "[host]\nmemory_bytes_per_s = 100GB/s\n[gpus 0-1]\nmodel = g\nparent = socket0\nlink = "    \
    "x16\n[nics 0]\nparent = socket0\nlink = x16\nport = wire\n[nvswitch]\nlink = fast\n"

/* Two nodes of two GPUs, S = 40 MB. Within a node one round of 20 MB at 50 bytes/ns before and
 * after: 400 000 + 100 ns. Between the nodes two rounds of 10 MB by each of two rings over one wire
 * of 1 byte/ns: 40 000 000 ns, plus 2 * (100 + 5000 + 100 + 5000 + ...): outwards 2 PCIe links, 2
 * of wire, inwards 2 PCIe links. */
static void hierarchies_take_their_closed_form(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(TWO_NODES), 2, 2);
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "hierarchical", 40e6);
        c.fidelity = (dl_fidelity)fidelity;
        double between = 2 * (10400 + 20e6), inside = 2 * (100 + 400e3);
        assert_time(&g, &c, between + inside, 1e-6);
    }
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "hierarchical", 40e6);
    dl_error err = {0};
    double unused;
    c.kind = DL_ALLGATHER;
    assert_int_equal(dl_collective_idle_ns(&g.links, &c, &unused, &err), DL_ERR_UNSUPPORTED);
    c.kind = DL_ALLREDUCE;
    c.rank_count = 3; /* 2 + 1 GPUs */
    assert_int_equal(dl_collective_idle_ns(&g.links, &c, &unused, &err), DL_ERR_UNSUPPORTED);
    free_group(&g);
}

/* Two nodes of two GPUs on one ring: hops of 100 ns within the nodes and 10 400 ns between them.
 * With S = 40 bytes a piece of 10 passes six edges, three of them between nodes, each of which
 * takes 10 ns. With S = 40 MB the wire needs 10 000 000 ns for each of six pieces, which hides the
 * later hops. */
static void a_ring_adds_up_the_hops_of_its_way(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(TWO_NODES), 2, 2);
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "ring", 40);
        c.fidelity = (dl_fidelity)fidelity;
        assert_time(&g, &c, 3 * 100 + 3 * 10400 + 3 * 10, 1e-3);
        c.bytes = 40e6;
        assert_time(&g, &c, 10400 + 6 * 10e6, 1e-6);
    }
    free_group(&g);
}

/* Two nodes of two GPUs: the first of each is in a tree over the nodes, the second below it. Two
 * trees, each with half of the bytes and another node's GPU as its root, so that the wire is used
 * in both directions. S = 40 MB in 64 chunks of 312 500 bytes per tree: the first chunk of both
 * trees takes 100 + 2 * 6250 ns in the node, the wire 10 400 + 20 000 000 ns; and the same
 * downwards. S = 40 bytes: two hops up, two down, 20 ns on the wire each time. */
static void trees_over_nodes_take_their_closed_form(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(TWO_NODES), 2, 2);
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "node_tree", 40e6);
        c.fidelity = (dl_fidelity)fidelity;
        assert_time(&g, &c, 2 * (100 + 12500 + 10400 + 20e6), 5e-4);
        c.bytes = 40;
        assert_time(&g, &c, 2 * (100 + 10400 + 20), 1e-3);
    }
    free_group(&g);
}

/* The same with one GPU on the second node: the root of its tree has the other node's first GPU as
 * its child, and that GPU has the second one, so that nothing changes. In NCCL's model small
 * vectors also use trees on such nodes. */
static void trees_over_unequal_nodes(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(TWO_NODES), 2, 2);
    g.count = 3;
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "node_tree", 40e6);
        c.fidelity = (dl_fidelity)fidelity;
        assert_time(&g, &c, 2 * (100 + 12500 + 10400 + 20e6), 5e-4);
        c.bytes = 40;
        assert_time(&g, &c, 2 * (100 + 10400 + 20), 1e-3);
    }
    free_group(&g);
    dl_machine machine = fixture_shipped("dgx_h100");
    machine.nodes = 2;
    make_group(&g, machine, 2, 8);
    g.count = 12;
    g.machine.library = DL_LIBRARY_NCCL;
    const dl_collective_config small = config_of(&g, DL_ALLREDUCE, "auto", 1024);
    DL_SCOPED(dl_collective) c = {0};
    dl_error err = {0};
    DL_SCOPED(dl_engine) engine;
    DL_SCOPED(dl_network) network;
    dl_engine_init(&engine, 1000);
    dl_network_init(&network, &engine, 1000);
    dl_network_add_links(&network, &g.links);
    assert_int_equal(dl_collective_init(&c, &network, &g.links, &small, &err), DL_OK);
    assert_string_equal(c.algorithm->name, "node_tree");
    assert_string_equal(c.protocol, "ll");
    free_group(&g);
}

/* Trees for each NIC of two nodes with eight H100, S = 8 GB: a port sends an eighth in each
 * direction, 21 ms. Each GPU is the first of its node in one pair of trees and sends up, then down,
 * in the seven others, over NVLinks of 376.6 GB/s, of which 0.9758 are used. With one NIC it would
 * take 171 ms. */
static void trees_over_nodes_use_all_nics(void **state DL_UNUSED)
{
    group g;
    dl_machine machine = fixture_shipped("dgx_h100");
    machine.nodes = 2;
    make_group(&g, machine, 2, 8);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "node_tree", 8e9);
    assert_time(&g, &c, 2 * 7 / 8.0 * 8e9 / (376.6 * 0.9758), 0.02);
    free_group(&g);
}

/* Four rings through the cube mesh of each node use four NICs: each ring enters and leaves by its
 * own. */
static void rings_over_nodes_share_no_nic(void **state DL_UNUSED)
{
    group g;
    dl_machine machine = fixture_shipped("dgx1_p100");
    machine.nodes = 2;
    make_group(&g, machine, 2, 8);
    DL_SCOPED(dl_rings) rings;
    dl_rings_init(&rings, &g.links, g.ranks, g.count);
    assert_int_equal(rings.count, 4);
    unsigned in = 0, out = 0;
    for (int r = 0; r < rings.count; r++) {
        const dl_place *order = rings.order + r * rings.size;
        in |= 1u << dl_links_nic(&g.links, order[0]);
        out |= 1u << dl_links_nic(&g.links, order[7]);
    }
    assert_int_equal(in, 0xf);
    assert_int_equal(out, 0xf);
    free_group(&g);
}

/* Reductions in the switch at half of 50 bytes/ns. 40 MB are 5 pieces of 8 MB (of at most 16 chunks
 * of 128 KiB for each of 4 ranks): 2 * 100 + 40e6 * 5/4 / 25 + 8e6 * 3/4 / 25. */
static void sums_in_the_switch_take_their_closed_form(void **state DL_UNUSED)
{
    group g, plain;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR "sum_frac = 0.5\n"), 1, 4);
    make_group(&plain, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "nvls", 40e6);
    dl_error err = {0};
    double unused;
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        c.fidelity = (dl_fidelity)fidelity;
        assert_time(&g, &c, 200 + 2000000 + 240000, 1e-6);
    }
    assert_int_equal(dl_collective_idle_ns(&plain.links, &c, &unused, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "on this machine");
    c.kind = DL_ALLGATHER;
    assert_int_equal(dl_collective_idle_ns(&g.links, &c, &unused, &err), DL_ERR_UNSUPPORTED);
    free_group(&plain);
    free_group(&g);
}

/* Two nodes of two GPUs whose switches reduce at 25 bytes/ns, connected by one wire of 1 byte/ns.
 * 40 MB are 10 pieces of at most 16 chunks of 128 KiB per rank. Of a piece of 4 MB each rank's half
 * goes half up one tree and half up the other: 2 MB in each direction on the wire, and the same
 * down, so that the wire takes 4 ms per piece. Before its first and after its last bytes a piece is
 * reduced and distributed, 160 us each, with two hops of 100 ns in the nodes and two of 10.4 us
 * between them. 1 MB is one piece: 2 (100 + 40 000 + 10 400 + 500 000). */
static void sums_in_two_switches_take_their_closed_form(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(TWO_NODES "sum_frac = 0.5\n"), 2, 2);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "nvls_tree", 0);
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        c.fidelity = (dl_fidelity)fidelity;
        c.bytes = 40e6;
        assert_time(&g, &c, 40e6 + 2 * (160e3 + 100 + 10400), 5e-4);
        c.bytes = 1e6;
        assert_time(&g, &c, 2 * (100 + 40000 + 10400 + 500e3), 1e-5);
    }
    dl_error err = {0};
    double unused;
    c.rank_count = 2; /* one node */
    assert_int_equal(dl_collective_idle_ns(&g.links, &c, &unused, &err), DL_ERR_UNSUPPORTED);
    free_group(&g);
}

/* At the full rate of the links it is faster than a ring for large messages: 1.25 S / B instead of
 * 1.5. */
static void auto_lets_the_switch_sum_where_it_can(void **state DL_UNUSED)
{
    group g, plain;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR "sum_frac = 1\n"), 1, 4);
    make_group(&plain, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "auto", 4e9);
    double summed = time_ns(&g, &c), ring = time_ns(&plain, &c);
    assert_true(fabs(summed / ring - 1.25 / 1.5) < 0.01);
    c.algorithm = "ring";
    assert_true(fabs(time_ns(&g, &c) - ring) < 1);
    free_group(&plain);
    free_group(&g);
}

/* Compares the phase and the chunk model on all kinds of machines. */
static void phases_and_chunks_agree(void **state DL_UNUSED)
{
    static const struct {
        const char *machine, *algorithm;
        int nodes, per_node;
        dl_collective_kind kind;
    } cases[] = {
        {"z10pe_2x1080ti", "ring", 1, 2, DL_ALLREDUCE},
        {"p2.8xlarge", "ring", 1, 8, DL_ALLREDUCE},
        {"p2.8xlarge", "ring", 1, 8, DL_BROADCAST},
        {"gce_k80_8", "ring", 1, 8, DL_ALLREDUCE},
        {"dgx1_v100", "ring", 1, 8, DL_ALLREDUCE},
        {"dgx1_v100", "ring", 1, 8, DL_REDUCE},
        {"dgx1_v100", "ring", 2, 8, DL_ALLREDUCE},
        {"dgx1_v100", "hierarchical", 2, 8, DL_ALLREDUCE},
        {"dgx1_p100", "ring", 1, 4, DL_ALLGATHER},
        {"dgx_a100", "tree", 1, 8, DL_ALLREDUCE},
        {"dgx_a100", "tree", 1, 7, DL_ALLREDUCE},
        {"dgx_a100", "tree", 1, 3, DL_ALLREDUCE},
        {"dgx_a100", "tree", 1, 8, DL_BROADCAST},
        {"dgx_a100", "tree", 2, 8, DL_ALLREDUCE},
        {"dgx_h100", "node_tree", 3, 8, DL_ALLREDUCE},
        {"dgx1_v100", "node_tree", 2, 8, DL_ALLREDUCE},
        {"t4_4x4_ethernet", "node_tree", 4, 4, DL_ALLREDUCE},
        {"dgx1_v100", "tree", 2, 8, DL_ALLREDUCE},
        {"dgx1_v100", "tree", 1, 4, DL_REDUCE},
        {"p2.8xlarge", "tree", 1, 8, DL_ALLREDUCE},
        {"gce_k80_8", "tree", 1, 3, DL_ALLREDUCE},
        {"azure_nc24", "tree", 1, 4, DL_ALLREDUCE},
        {"t4_4x4_ethernet", "tree", 2, 4, DL_ALLREDUCE},
        {"t4_4x4_ethernet", "tree", 2, 4, DL_BROADCAST},
        {"dgx_a100", "ring", 4, 8, DL_REDUCE_SCATTER},
        {"dgx_h100", "ring", 4, 8, DL_ALLREDUCE},
        {"dgx_h100", "pairwise", 1, 8, DL_ALLTOALL},
        {"dgx_h100", "nvls", 1, 8, DL_ALLREDUCE},
        {"dgx_h100", "nvls", 1, 5, DL_ALLREDUCE},
        {"dgx_h100", "nvls_tree", 2, 8, DL_ALLREDUCE},
        {"dgx_h100", "nvls_tree", 3, 8, DL_ALLREDUCE},
        {"dgx_h100", "nvls_tree", 4, 8, DL_ALLREDUCE},
        {"dgx_h100", "nvls_tree", 6, 8, DL_ALLREDUCE},
        {"t4_4x4_ethernet", "hierarchical", 4, 4, DL_ALLREDUCE},
        {"t4_4x4_ethernet", "ring", 4, 4, DL_ALLREDUCE},
    };
    static const double sizes[] = {1e4, 1e6, 1e8, 1e7}; /* the last size is for trees between
                                                         * switches */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        group g;
        dl_machine machine = fixture_shipped(cases[i].machine);
        const bool trees = strcmp(cases[i].algorithm, "nvls_tree") == 0;
        const double tolerance = !trees ? 0.03 : cases[i].nodes == 3 ? 0.07 : 0.04;
        if (machine.nodes < cases[i].nodes) machine.nodes = cases[i].nodes;
        make_group(&g, machine, cases[i].nodes, cases[i].per_node);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes - !trees; s++) {
            dl_collective_config c = config_of(&g, cases[i].kind, cases[i].algorithm, sizes[s]);
            double phase = time_ns(&g, &c);
            c.fidelity = DL_FIDELITY_CHUNK;
            double chunk = time_ns(&g, &c);
            if (fabs(chunk / phase - 1) > tolerance) {
                print_error("%s %s %s, %d ranks, %g bytes: %.0f ns, %.0f by chunks (%.1f %%)\n",
                            cases[i].machine, cases[i].algorithm,
                            dl_collective_kind_names[cases[i].kind], g.count, sizes[s], phase,
                            chunk, 100 * (chunk / phase - 1));
                fail();
            }
        }
        free_group(&g);
    }
}

/* The time never decreases with more bytes or with more ranks on links of the same kind. */
static void time_grows_with_bytes_and_ranks(void **state DL_UNUSED)
{
    double before = 0;
    for (int n = 2; n <= 8; n++) {
        group g;
        make_group(&g, fixture_shipped("dgx_h100"), 1, n);
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "ring", 1e6);
        double now = time_ns(&g, &c), small = 0;
        assert_true(now > before);
        before = now;
        for (double bytes = 1; bytes < 1e10; bytes *= 10) {
            c.bytes = bytes;
            c.algorithm = "auto";
            double larger = time_ns(&g, &c);
            assert_true(larger >= small && larger > 0);
            small = larger;
        }
        free_group(&g);
    }
}

/* A run with arrivals: the engine, the network, and the end time. */
typedef struct run {
    dl_engine engine;
    dl_network network;
    dl_collective collective;
    int64_t end_ns;
    int ends;
} run;

static void note_end(void *user, int index)
{
    run *r = user;
    assert_int_equal(index, 7);
    r->end_ns = r->engine.now_ns;
    r->ends++;
}

static void arrive(void *user, int unused DL_UNUSED)
{
    dl_collective_arrive(user);
}

static void open_run(run *r, const group *g, const dl_collective_config *config)
{
    memset(r, 0, sizeof *r);
    dl_error err = {0};
    dl_network_init(&r->network, &r->engine, 1);
    dl_network_add_links(&r->network, &g->links);
    if (dl_collective_init(&r->collective, &r->network, &g->links, config, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    int flows = r->collective.plan.transfer_count + 1;
    dl_network_reserve(&r->network, flows);
    dl_engine_init(&r->engine, 2 * flows + 16);
    dl_collective_on_done(&r->collective, note_end, r, 7);
}

static void close_run(run *r)
{
    dl_collective_free(&r->collective);
    dl_network_free(&r->network);
    dl_engine_free(&r->engine);
}

/* A collective ends T after the last arrival, and can be run again. */
static void it_starts_at_the_last_arrival(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_shipped("dgx_a100"), 1, 4);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "auto", 1e6);
    double idle = time_ns(&g, &c);
    run r;
    open_run(&r, &g, &c);
    for (int round = 1; round <= 2; round++) {
        int64_t now_ns = r.engine.now_ns;
        for (int i = 0; i < 4; i++)
            dl_engine_after(&r.engine, 1000 * (i * 3 % 4), arrive, &r.collective, 0);
        dl_engine_run(&r.engine);
        assert_int_equal(r.ends, round);
        assert_true(r.end_ns == now_ns + 3000 + (int64_t)idle);
    }
    close_run(&r);
    c.rank_count = 1;
    open_run(&r, &g, &c);
    dl_collective_arrive(&r.collective);
    dl_engine_run(&r.engine);
    assert_int_equal(r.ends, 1);
    assert_int_equal(r.end_ns, 0);
    close_run(&r);
    free_group(&g);
}

/* In the chunk model, 2 trees with 3 edges for 4 ranks pass 64 chunks up and down, each with two
 * transfers, and there are two joins; a ring of 4 has 6 rounds, counted in the same way. The number
 * is known before transfers are created. A bound lower by one, or a bound of one, rejects the
 * collective, with the key to change. */
static void what_has_too_many_transfers_is_refused(void **state DL_UNUSED)
{
    static const char *const algorithms[] = {"tree", "ring"};
    static const int counts[] = {2 * 3 * 64 * 2 * 2 + 2, 4 * 6 * 2 + 1};
    group g;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    for (int i = 0; i < 2; i++) {
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, algorithms[i], 1e6);
        c.fidelity = DL_FIDELITY_CHUNK;
        c.transfers_max = counts[i];
        run r;
        open_run(&r, &g, &c);
        assert_int_equal(r.collective.plan.transfer_count, counts[i]);
        close_run(&r);
        for (int most = 1; most < counts[i]; most += counts[i] - 2) {
            DL_SCOPED(dl_collective) collective;
            dl_error err = {0};
            memset(&r, 0, sizeof r);
            c.transfers_max = most;
            dl_network_init(&r.network, &r.engine, 1);
            dl_network_add_links(&r.network, &g.links);
            assert_int_equal(dl_collective_init(&collective, &r.network, &g.links, &c, &err),
                             DL_ERR_RANGE);
            assert_non_null(strstr(err.text, "fidelity = chunk: allreduce over 4 GPUs by"));
            assert_non_null(strstr(err.text, "use [exchange] fidelity = phase"));
            dl_network_free(&r.network);
        }
    }
    free_group(&g);
}

static void ignore(void *user DL_UNUSED, int index DL_UNUSED) {}

/* Another flow that is always active on one link of the ring takes half of it: the ring waits for
 * its slowest edge, whose 60 MB take 2 400 000 instead of 1 200 000 ns. */
static void other_traffic_slows_it(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "ring", 40e6);
    run r;
    open_run(&r, &g, &c);
    dl_route route;
    dl_links_route(&g.links, g.ranks[0], g.ranks[2], &route);
    int class = dl_network_route_class(&r.network, &route);
    dl_network_start(&r.network, class, 1e9, 0, ignore, NULL, 0);
    for (int i = 0; i < 4; i++)
        dl_collective_arrive(&r.collective);
    dl_engine_run(&r.engine);
    assert_true(fabs((double)r.end_ns - 2400600) < 10);
    close_run(&r);
    free_group(&g);
}

/* The sums of bytes are those that the algorithm must move: 2 (n-1)/n S in and out of each GPU. */
static void bytes_are_what_the_algorithm_moves(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "ring", 40e6);
        c.fidelity = (dl_fidelity)fidelity;
        run r;
        open_run(&r, &g, &c);
        for (int i = 0; i < 4; i++)
            dl_collective_arrive(&r.collective);
        dl_engine_run(&r.engine);
        for (int i = 0; i < 4; i++) {
            double up = r.network.bytes[g.links.kinds[0].nvswitch[i].up];
            double down = r.network.bytes[g.links.kinds[0].nvswitch[i].down];
            assert_true(fabs(up - 60e6) < 1 && fabs(down - 60e6) < 1);
        }
        close_run(&r);
    }
    free_group(&g);
}

/* DGX-1: 6 lanes give 3 cycles, 4 lanes give 2, each in both directions; no lane is used twice in
 * one direction. */
static void rings_use_all_lanes_of_a_cube_mesh(void **state DL_UNUSED)
{
    static const struct {
        const char *machine;
        int ranks, rings;
    } cases[] = {{"dgx1_v100", 8, 6}, {"dgx1_p100", 8, 4}, {"dgx1_v100", 4, 4},
                 {"dgx1_v100", 2, 1}, {"dgx_a100", 8, 1},  {"p2.8xlarge", 8, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        group g;
        make_group(&g, fixture_shipped(cases[k].machine), 1, cases[k].ranks);
        DL_SCOPED(dl_rings) rings;
        dl_rings_init(&rings, &g.links, g.ranks, g.count);
        assert_int_equal(rings.count, cases[k].rings);
        int crossed[8][8] = {{0}};
        for (int r = 0; r < rings.count; r++) {
            int seen = 0;
            for (int i = 0; i < g.count; i++) {
                int a = rings.order[r * g.count + i].index;
                seen |= 1 << a;
                crossed[a][rings.order[r * g.count + (i + 1) % g.count].index]++;
            }
            assert_int_equal(seen, (1 << g.count) - 1);
        }
        for (int i = 0; i < g.machine.kinds[0].nvlink_count; i++) {
            const dl_nvlink *l = &g.machine.kinds[0].nvlinks[i];
            assert_true(crossed[l->a][l->b] <= l->lanes && crossed[l->b][l->a] <= l->lanes);
        }
        free_group(&g);
    }
}

/* Chooses among the algorithms of NCCL: trees over all ranks and hierarchies are used only if
 * named. */
static void auto_is_the_fastest(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_shipped("t4_4x4_ethernet"), 4, 4);
    for (double bytes = 1e3; bytes < 1e9; bytes *= 100) {
        dl_collective_config c = config_of(&g, DL_ALLREDUCE, "auto", bytes);
        double best = time_ns(&g, &c);
        static const char *const names[] = {"ring", "node_tree"};
        double fastest = INFINITY;
        for (size_t i = 0; i < 2; i++) {
            c.algorithm = names[i];
            fastest = fmin(fastest, time_ns(&g, &c));
        }
        assert_true(best == fastest);
    }
    free_group(&g);
}

static void unknown_names_are_refused(void **state DL_UNUSED)
{
    group g;
    make_group(&g, fixture_machine(FIXTURE_CROSSBAR), 1, 4);
    dl_collective_config c = config_of(&g, DL_ALLREDUCE, "rong", 1);
    double unused;
    dl_error err = {0};
    assert_int_equal(dl_collective_idle_ns(&g.links, &c, &unused, &err), DL_ERR_NAME);
    assert_contains(err.text, "ring");
    c.algorithm = "pairwise";
    assert_int_equal(dl_collective_idle_ns(&g.links, &c, &unused, &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "allreduce");
    free_group(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_memory_is_shared_by_both_directions),
        cmocka_unit_test(host_memory_is_shared_with_ports),
        cmocka_unit_test(host_memory_limits_tcp),
        cmocka_unit_test(rings_take_their_closed_form),
        cmocka_unit_test(trees_take_their_closed_form),
        cmocka_unit_test(all_to_all_takes_its_closed_form),
        cmocka_unit_test(hierarchies_take_their_closed_form),
        cmocka_unit_test(a_ring_adds_up_the_hops_of_its_way),
        cmocka_unit_test(trees_over_nodes_take_their_closed_form),
        cmocka_unit_test(trees_over_unequal_nodes),
        cmocka_unit_test(trees_over_nodes_use_all_nics),
        cmocka_unit_test(rings_over_nodes_share_no_nic),
        cmocka_unit_test(sums_in_the_switch_take_their_closed_form),
        cmocka_unit_test(sums_in_two_switches_take_their_closed_form),
        cmocka_unit_test(auto_lets_the_switch_sum_where_it_can),
        cmocka_unit_test(phases_and_chunks_agree),
        cmocka_unit_test(time_grows_with_bytes_and_ranks),
        cmocka_unit_test(it_starts_at_the_last_arrival),
        cmocka_unit_test(what_has_too_many_transfers_is_refused),
        cmocka_unit_test(other_traffic_slows_it),
        cmocka_unit_test(bytes_are_what_the_algorithm_moves),
        cmocka_unit_test(rings_use_all_lanes_of_a_cube_mesh),
        cmocka_unit_test(auto_is_the_fastest),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
