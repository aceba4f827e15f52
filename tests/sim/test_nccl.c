/* NCCL's model of its times, and its choices, compared with numbers worked out from its constants
 * (src/graph/tuning.cc of version 2.26). */
#include "tests/machine_fixture.h"
#include "tests/sim_fixture.h"

#include <math.h>

#include "sim/collective/nccl.h"

#define RANKS_MAX 512

/* Two nodes of eight Hopper GPUs. */
static const dl_nccl_group two_nodes = {.ranks = 16,
                                        .nodes = 2,
                                        .channels = 8,
                                        .minor = 26,
                                        .generation = 2,
                                        .nvlink = true,
                                        .ll128 = true,
                                        .sums = true,
                                        .inside_frac = 1,
                                        .inside_bytes_per_s = 370e9,
                                        .ring_bytes_per_s = 384e9,
                                        .tree_bytes_per_s = 370e9};

static double time_us(const dl_nccl_group *g, dl_collective_kind kind, double bytes,
                      dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    return dl_nccl_time_ns(g, kind, bytes, algorithm, protocol) / 1e3;
}

/* Tree, LL128, 4 MiB: 14 + 2 (7 x 1.25 + 8.5) = 48.5 us; 8 channels of 41.4 GB/s x 120/128 are
 * 310.5, more than 8 of 36.7, half of which is corrected by 0.8 for 2^16 times 64 bytes: 117.44
 * GB/s. Ring, Simple, 1 GiB: 30 steps, 2 of them between nodes, 1.4 times (8.4 + 28 x 3.4 + 2 x 14)
 * us; 384 GB/s x 16/30. LL: the processor's 39 GB/s are less than a quarter; 6.6 + 28 x 1 + 2 x
 * 2.7, as posting a message takes 1 us. */
static void times_are_those_of_its_constants(void **state DL_UNUSED)
{
    assert_near(time_us(&two_nodes, DL_ALLREDUCE, 4194304, DL_NCCL_TREE, DL_NCCL_LL128),
                48.5 + 4194304 / 117.44e3, 1e-6);
    assert_near(time_us(&two_nodes, DL_ALLREDUCE, 1073741824, DL_NCCL_RING, DL_NCCL_SIMPLE),
                1.4 * 131.6 + 1073741824 / 204.8e3, 1e-6);
    assert_near(time_us(&two_nodes, DL_ALLREDUCE, 64, DL_NCCL_RING, DL_NCCL_LL),
                40 + 64 / (39e3 * 16 / 30), 1e-6);
    /* NVLS tree: 8/9 of the switch's 370 GB/s are less than the ports' 384; with four nodes half of
     * the latter. */
    assert_near(time_us(&two_nodes, DL_ALLREDUCE, 1e9, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE),
                25 + 2 * 14 + 1e9 / (370e3 * 8 / 9 * 5 / 6), 1e-6);
    assert_true(isinf(time_us(&two_nodes, DL_ALLREDUCE, 1e9, DL_NCCL_NVLS, DL_NCCL_SIMPLE)));
    dl_nccl_group other = two_nodes;
    other.nodes = 4;
    assert_near(time_us(&other, DL_ALLREDUCE, 1e9, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE),
                25 + 4 * 14 + 1e9 / (192e3 * 5 / 6), 1e-6);
    other = two_nodes;
    other.amd = true; /* posting takes 2 us; the limit is 22.5 GB/s */
    assert_near(time_us(&other, DL_ALLREDUCE, 64, DL_NCCL_RING, DL_NCCL_LL),
                6.6 + 28 * 2 + 2 * 2.7 + 64 / (22.5e3 * 16 / 30), 1e-6);
    /* In an all-gather each byte crosses 15 of 16 edges, and 1 of the steps is between nodes. */
    assert_near(time_us(&two_nodes, DL_ALLGATHER, 1e9, DL_NCCL_RING, DL_NCCL_LL128),
                14 + 14 * 1.9 + 4 + 1e9 / (8 * 36.7e3 * 16 / 15), 1e-6);
    assert_true(isinf(time_us(&two_nodes, DL_ALLGATHER, 1e9, DL_NCCL_TREE, DL_NCCL_SIMPLE)));
    /* A broadcast's first byte waits for one edge between nodes. */
    assert_near(time_us(&two_nodes, DL_BROADCAST, 64, DL_NCCL_RING, DL_NCCL_LL),
                6.6 + 2.7 + 64 / 39e3, 1e-6);
    other.ll128 = false;
    assert_true(isinf(time_us(&other, DL_ALLREDUCE, 1e9, DL_NCCL_RING, DL_NCCL_LL128)));
}

/* NCCL's debug log prints the numbers of its model. Three nodes of eight H100 with 8 ports of 200
 * Gb/s, Intel processors (NVIDIA/nccl, thread 1453): trees whose NICs send to and from one GPU,
 * with 0.85 of the rate. */
static void times_are_those_that_nccl_prints(void **state DL_UNUSED)
{
    dl_nccl_group three = {.ranks = 24,
                           .nodes = 3,
                           .channels = 8,
                           .minor = 26,
                           .generation = 2,
                           .nvlink = true,
                           .ll128 = true,
                           .sums = true,
                           .simple_tree = true,
                           .inside_frac = 1,
                           .inside_bytes_per_s = 370.8e9,
                           .ring_bytes_per_s = 192e9,
                           .tree_bytes_per_s = 192e9};
    static const struct {
        double bytes, us;
        dl_nccl_protocol protocol;
    } printed[] = {{4096, 25.874907, DL_NCCL_LL},
                   {8192, 26.549810, DL_NCCL_LL},
                   {262144, 54.707825, DL_NCCL_LL128}};
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        dl_nccl_algorithm algorithm = DL_NCCL_RING;
        dl_nccl_protocol protocol = DL_NCCL_SIMPLE;
        assert_true(
            dl_nccl_choose(&three, DL_ALLREDUCE, printed[i].bytes, ~0u, &algorithm, &protocol));
        assert_int_equal(algorithm, DL_NCCL_TREE);
        assert_int_equal(protocol, printed[i].protocol);
        assert_near(time_us(&three, DL_ALLREDUCE, printed[i].bytes, algorithm, protocol),
                    printed[i].us, 1e-5);
    }
}

/* Six channels of 40 GB/s between A100, for an NVSwitch of 240, become twelve of 20; eight ports of
 * 24 GB/s stay eight channels, as do eight of 48 GB/s between nodes of H100, since there are more
 * than four. Within a DGX H100 six channels of 60 become twelve. Its GPUs have separate NICs, so
 * trees are simple; two GPUs of a DGX A100 share a switch with two NICs. */
static void channels_and_trees_follow_the_search(void **state DL_UNUSED)
{
    static const struct {
        const char *machine;
        int nodes, channels;
        bool simple;
    } cases[] = {{"dgx_a100", 1, 12, false},
                 {"dgx_a100", 2, 8, false},
                 {"dgx_h100", 1, 12, false},
                 {"dgx_h100", 4, 8, true},
                 {"t4_4x4_ethernet", 4, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DL_SCOPED(dl_machine) m = fixture_shipped(cases[i].machine);
        DL_SCOPED(dl_links) links;
        dl_place ranks[RANKS_MAX];
        dl_nccl_group group;
        const int count = cases[i].nodes * m.kinds[0].gpu_count;
        dl_links_init(&links, &m);
        for (int r = 0; r < count; r++)
            ranks[r] = gpu_place(r / m.kinds[0].gpu_count, r % m.kinds[0].gpu_count);
        dl_nccl_group_init(&group, &links, ranks, count);
        if (group.channels != cases[i].channels || group.simple_tree != cases[i].simple) {
            fail_msg("%s, %d nodes: %d channels, simple %d", cases[i].machine, cases[i].nodes,
                     group.channels, group.simple_tree);
        }
    }
}

/* The correction, 0.8, does not apply to trees by Simple, whose chunks are simulated. */
static void transfers_take_its_latencies_and_rates(void **state DL_UNUSED)
{
    dl_hop_costs c = dl_nccl_costs(&two_nodes, DL_ALLREDUCE, 4194304, DL_NCCL_TREE, DL_NCCL_LL128);
    assert_near(c.bandwidth_frac, 8 * 36.7 / 370 * 0.8, 1e-9);
    assert_near(c.launch_ns, 14e3, 1e-9);
    assert_near(c.network_hop_ns, 8500, 1e-9);
    c = dl_nccl_costs(&two_nodes, DL_ALLREDUCE, 4194304, DL_NCCL_TREE, DL_NCCL_SIMPLE);
    assert_near(c.bandwidth_frac, 8 * 41.4 / 370, 1e-9);
    assert_near(c.hop_ns, 4000, 1e-9);
    assert_near(c.network_message_ns, 0, 1e-9);
    assert_near(c.held_ns, 4000, 1e-9);
    c = dl_nccl_costs(&two_nodes, DL_ALLREDUCE, 4194304, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_near(c.network_message_ns, 3000, 1e-9);
    assert_near(c.network_held_ns, 6600, 1e-9); /* InfiniBand's latency is in the hop's time */
    c = dl_nccl_costs(&two_nodes, DL_ALLREDUCE, 64, DL_NCCL_RING, DL_NCCL_LL);
    assert_near(c.network_held_ns, 2700, 1e-9); /* at most all of it */
    /* 25 us of the switch's sum without the 8.4 of the call, half on the way down. */
    c = dl_nccl_costs(&two_nodes, DL_ALLREDUCE, 4194304, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE);
    assert_near(c.hop_ns, (25 - 8.4) / 2 * 1e3, 1e-9);
}

static void assert_version_choice(int minor, const char *machine, int nodes, int per_node,
                                  double bytes, dl_nccl_algorithm algorithm,
                                  dl_nccl_protocol protocol)
{
    DL_SCOPED(dl_machine) m = fixture_shipped(machine);
    DL_SCOPED(dl_links) links;
    dl_place ranks[RANKS_MAX];
    dl_nccl_group group;
    dl_nccl_algorithm chosen = DL_NCCL_ALGORITHMS;
    dl_nccl_protocol with = DL_NCCL_PROTOCOLS;
    if (m.nodes < nodes) m.nodes = nodes;
    m.nccl = minor - DL_NCCL_OLDEST_MINOR + 1;
    dl_links_init(&links, &m);
    for (int i = 0; i < nodes * per_node; i++)
        ranks[i] = gpu_place(i / per_node, i % per_node);
    dl_nccl_group_init(&group, &links, ranks, nodes * per_node);
    assert_true(dl_nccl_choose(&group, DL_ALLREDUCE, bytes, ~0u, &chosen, &with));
    if (chosen != algorithm || with != protocol) {
        fail_msg("2.%d, %s, %d x %d GPUs, %.0f bytes: algorithm %d, protocol %s", minor, machine,
                 nodes, per_node, bytes, (int)chosen, dl_nccl_protocol_names[with]);
    }
}

static void assert_choice(const char *machine, int nodes, int per_node, double bytes,
                          dl_nccl_algorithm algorithm, dl_nccl_protocol protocol)
{
    assert_version_choice(DL_NCCL_DEFAULT_MINOR, machine, nodes, per_node, bytes, algorithm,
                          protocol);
}

/* Over NVLink LL, LL128 and Simple by size; the NVSwitch of H100 sums large vectors. LL128 needs
 * NVLink: it is used neither between T4 nor over TCP, where buckets of 25 MiB use rings, and small
 * vectors use trees once the ring is long. */
static void algorithms_and_protocols_follow_size_and_count(void **state DL_UNUSED)
{
    assert_choice("dgx_a100", 1, 8, 1024, DL_NCCL_RING, DL_NCCL_LL);
    assert_choice("dgx_a100", 1, 8, 4194304, DL_NCCL_RING, DL_NCCL_LL128);
    assert_choice("dgx_a100", 1, 8, 1073741824, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_choice("dgx_h100", 1, 8, 1073741824, DL_NCCL_NVLS, DL_NCCL_SIMPLE);
    assert_choice("dgx_h100", 8, 8, 1048576, DL_NCCL_TREE, DL_NCCL_LL128);
    assert_choice("dgx_h100", 8, 8, 4194304, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE);
    assert_choice("dgx_h100", 2, 8, 1073741824, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE);
    assert_choice("dgx_h100", 8, 8, 67108864, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE);
    assert_choice("dgx_h100", 8, 8, 4294967296, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_choice("t4_4x4_ethernet", 2, 1, 26214400, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_choice("t4_4x4_ethernet", 2, 4, 26214400, DL_NCCL_TREE, DL_NCCL_SIMPLE);
    assert_choice("t4_4x4_ethernet", 4, 4, 26214400, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_choice("t4_4x4_ethernet", 16, 4, 1024, DL_NCCL_TREE, DL_NCCL_LL);
    assert_choice("g6e_4x_l40s", 4, 1, 26214400, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_choice("g6e_4x_l40s", 4, 1, 123e6, DL_NCCL_RING, DL_NCCL_SIMPLE);
}

/* 2.4 uses thresholds. Without NVLink, rings replace trees at 5000 x 3333 / 1667 bytes per us by
 * which a ring's latency is longer: for two nodes of four GPUs 6 x 7 - (15 + 4 x 3) = 15, for four
 * 6 x 15 - (2 x 15 + 12) = 48. Over NVLink and two nodes, trees have a higher rate than rings. LL:
 * 256 threads with 128 bytes per rank of the only ring, 512 in a tree. Since 2.5 trees over two
 * nodes have twice a port's rate, of which 2.7 takes 0.9 x 0.6 / 2 at 25 MiB, 2.8 0.92 x 0.7 / 2; a
 * ring of eight has 8 / 14 of it. */
static void version_2_4_goes_by_thresholds(void **state DL_UNUSED)
{
    static const char t4[] = "t4_4x4_ethernet";
    assert_version_choice(4, t4, 2, 4, 256 * 512, DL_NCCL_TREE, DL_NCCL_LL);
    assert_version_choice(4, t4, 2, 4, 149999, DL_NCCL_TREE, DL_NCCL_SIMPLE);
    assert_version_choice(4, t4, 2, 4, 150001, DL_NCCL_RING, DL_NCCL_LL);
    assert_version_choice(4, t4, 2, 4, 256 * 8 * 128 + 1, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_version_choice(4, t4, 2, 4, 26214400, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_version_choice(4, t4, 4, 4, 479999, DL_NCCL_TREE, DL_NCCL_SIMPLE);
    assert_version_choice(4, t4, 4, 4, 480001, DL_NCCL_RING, DL_NCCL_LL);
    assert_version_choice(4, t4, 1, 4, 64, DL_NCCL_RING, DL_NCCL_LL);
    assert_version_choice(4, "dgx_a100", 2, 8, 1073741824, DL_NCCL_TREE, DL_NCCL_SIMPLE);
    assert_version_choice(5, t4, 2, 4, 26214400, DL_NCCL_TREE, DL_NCCL_SIMPLE);
    assert_version_choice(7, t4, 2, 4, 26214400, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_version_choice(7, t4, 2, 4, 268435456, DL_NCCL_TREE, DL_NCCL_SIMPLE);
    assert_version_choice(8, t4, 2, 4, 26214400, DL_NCCL_TREE, DL_NCCL_SIMPLE);
}

/* LL128 is used on A100 since 2.7, sums in the NVSwitch since 2.17, over several nodes since 2.18.
 * On 64 nodes 2.28 has 20.9 us per hop of an NVLS tree, 2.26 had 14: a log of as many nodes of H200
 * (NVIDIA/nccl, thread 1752) shows trees by LL128 at 16 MiB, NVLS trees at 32. */
static void versions_have_what_they_brought(void **state DL_UNUSED)
{
    assert_version_choice(5, "dgx_a100", 1, 8, 4194304, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_version_choice(7, "dgx_a100", 1, 8, 4194304, DL_NCCL_RING, DL_NCCL_LL128);
    assert_version_choice(16, "dgx_h100", 1, 8, 1073741824, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_version_choice(17, "dgx_h100", 1, 8, 1073741824, DL_NCCL_NVLS, DL_NCCL_SIMPLE);
    assert_version_choice(17, "dgx_h100", 2, 8, 1073741824, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_version_choice(18, "dgx_h100", 2, 8, 1073741824, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE);
    assert_version_choice(26, "dgx_h100", 64, 8, 16777216, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE);
    assert_version_choice(28, "dgx_h100", 64, 8, 16777216, DL_NCCL_TREE, DL_NCCL_LL128);
    assert_version_choice(28, "dgx_h100", 64, 8, 33554432, DL_NCCL_NVLS_TREE, DL_NCCL_SIMPLE);
}

/* One channel of NVLS per GPU, at most 60 GB/s on Hopper: with four, 240 x 5/6 are 200 GB/s, less
 * than the ring's 370 x 4/6; with eight, 8/9 of 370 are 329 x 5/6, more than 370 x 8/14. */
static void nvls_needs_enough_gpus(void **state DL_UNUSED)
{
    assert_choice("dgx_h100", 1, 4, 1073741824, DL_NCCL_RING, DL_NCCL_SIMPLE);
    assert_choice("dgx_h100", 1, 5, 1073741824, DL_NCCL_NVLS, DL_NCCL_SIMPLE);
    assert_choice("dgx_h100", 1, 8, 1073741824, DL_NCCL_NVLS, DL_NCCL_SIMPLE);
}

/* Twelve NVLinks of 20 GB/s to the switch, less than the machine file's 279; eight ports of 24.2
 * GB/s, twice that for trees over two nodes. */
static void rates_are_those_that_it_counts_on(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_shipped("dgx_a100");
    DL_SCOPED(dl_links) links;
    dl_place ranks[24];
    dl_nccl_group group;
    dl_links_init(&links, &m);
    for (int i = 0; i < 24; i++)
        ranks[i] = gpu_place(i / 8, i % 8);
    dl_nccl_group_init(&group, &links, ranks, 8);
    assert_near(group.ring_bytes_per_s, 240e9, 1e-9);
    assert_near(group.tree_bytes_per_s, 240e9, 1e-9);
    const double port = m.classes[m.kinds[0].nics[0].port].bytes_per_s.value;
    dl_nccl_group_init(&group, &links, ranks, 16);
    assert_near(group.ring_bytes_per_s, 8 * port, 1e-9);
    assert_near(group.tree_bytes_per_s, fmin(240e9, 2 * 8 * port), 1e-9);
    dl_nccl_group_init(&group, &links, ranks, 24);
    assert_near(group.tree_bytes_per_s, 8 * port, 1e-9);
    assert_true(group.nvlink && group.ll128 && group.generation == 1 && group.amd);
}

static double ring_us(const char *text, double bytes)
{
    DL_SCOPED(dl_machine) m = fixture_machine(text);
    DL_SCOPED(dl_links) links;
    const dl_place ranks[] = {gpu_place(0, 0), gpu_place(0, 1), gpu_place(0, 2), gpu_place(0, 3)};
    const dl_collective_config config = {.kind = DL_ALLREDUCE,
                                         .algorithm = "auto",
                                         .ranks = ranks,
                                         .rank_count = 4,
                                         .bytes = bytes,
                                         .chunk_bytes = DL_CHUNK_BYTES};
    double ns = 0;
    dl_links_init(&links, &m);
    assert_int_equal(dl_collective_idle_ns(&links, &config, &ns, NULL), DL_OK);
    return ns / 1e3;
}

/* Four GPUs on a crossbar, 100 ns apart. NCCL's hops of 0.6 us include that; a protocol's costs in
 * the file are added to it. */
static void a_protocol_of_the_file_wins(void **state DL_UNUSED)
{
    char text[2048];
    static const char machine[] = "[machine]\nschema = 1\nname = crossbar\npeer = none\n"
                                  "collectives = nccl\n" FIXTURE_PARTS
                                  "[host]\nmemory_bytes_per_s = 40GB/s\n[gpus 0-3]\nmodel = g\n"
                                  "parent = socket0\nlink = x16\n[nvswitch]\nlink = fast\n";
    assert_near(ring_us(machine, 8), 6.6 + 6 * 0.6, 1e-3);
    assert_near(ring_us(machine, 1e9), 8.4 + 6 * 3.4 + 1.5e9 / 50e3, 1e-3);
    snprintf(text, sizeof text,
             "%s[protocol ll]\nlaunch_ns = 10us\nhop_ns = 2us\nnetwork_hop_ns = 0\n"
             "bandwidth_frac = 0.25\n",
             machine);
    assert_near(ring_us(text, 8), 10 + 6 * 2.1, 1e-3);
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s",
             "[protocol ll ring]\nlaunch_ns = 1us\nhop_ns = 1us\nnetwork_hop_ns = 0\n"
             "bandwidth_frac = 0.25\n");
    assert_near(ring_us(text, 8), 1 + 6 * 1.1, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_its_constants),
        cmocka_unit_test(times_are_those_that_nccl_prints),
        cmocka_unit_test(channels_and_trees_follow_the_search),
        cmocka_unit_test(transfers_take_its_latencies_and_rates),
        cmocka_unit_test(algorithms_and_protocols_follow_size_and_count),
        cmocka_unit_test(version_2_4_goes_by_thresholds),
        cmocka_unit_test(versions_have_what_they_brought),
        cmocka_unit_test(nvls_needs_enough_gpus),
        cmocka_unit_test(rates_are_those_that_it_counts_on),
        cmocka_unit_test(a_protocol_of_the_file_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
