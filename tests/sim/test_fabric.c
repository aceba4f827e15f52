/* Switches between nodes: the links that a copy crosses, their rate, and the effect on an
 * all-reduce. A node has one or two GPUs and the same number of NICs; ports have 1 GB/s and 5 us in
 * each direction. */
#include "tests/reduce_fixture.h"
#include "tests/sim_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "sim/collective/collective.h"
#include "sim/network/fabric.h"

#define NODES(count, last, fabric)                                                                 \
    "[machine]\nschema = 1\nname = cluster\nnodes = " count                                        \
    "\npeer = all\ngpudirect = yes\n" FIXTURE_PARTS                                                \
    "[host]\nmemory_bytes_per_s = 40GB/s\n[gpus 0-" last "]\nmodel = g\n"                          \
    "parent = socket0\nlink = x16\n[nics 0-" last "]\nparent = socket0\nlink = x16\nport = wire\n" \
    "[fabric]\n" fabric

/* From GPU to port and back: two links of 100 ns and a port of 5 us on each side. */
#define PORTS_NS 10400

/* Checks the names of the fabric's links on a route, and the latency in addition to the ports'. */
static void assert_way(const dl_links *links, dl_place from, dl_place to, const char *expected,
                       double switches_ns)
{
    dl_route route;
    dl_links_route(links, from, to, &route);
    char text[2048] = "", name[DL_LINK_NAME_BYTES];
    for (int i = 0; i < route.count; i++) {
        const size_t used = strlen(text);
        if (route.links[i] < links->fabric) continue;
        snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "",
                 dl_links_name(links, route.links[i], name));
    }
    assert_string_equal(text, expected);
    assert_float_equal(route.latency_ns, PORTS_NS + switches_ns, 1e-9);
}

static double capacity_of(const dl_links *links, const char *link)
{
    char name[DL_LINK_NAME_BYTES];
    for (int l = links->fabric; l < links->count; l++)
        if (strcmp(dl_links_name(links, l, name), link) == 0) return dl_links_capacity(links, l);
    fail_msg("no link %s", link);
    return 0;
}

/* Four ports of 1 GB/s over 2: a leaf's uplinks carry 2 GB/s. Two more switches add 600 ns. */
static void a_leaf_has_uplinks(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(NODES("8", "0",
                                                    "topology = fat_tree\ngroup_nodes = 4\n"
                                                    "oversubscription = 2\nhop_ns = 300\n"));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(1, 0), gpu_place(3, 0), "", 0);
    assert_way(&links, gpu_place(1, 0), gpu_place(6, 0), "leaf 0 up, leaf 1 down", 600);
    assert_way(&links, gpu_place(6, 0), gpu_place(1, 0), "leaf 1 up, leaf 0 down", 600);
    assert_float_equal(capacity_of(&links, "leaf 1 up"), 2e9, 1);
    assert_int_equal(dl_fabric_links(&m), 4);
}

/* Leaves of two nodes, pods of two leaves: 2 GB/s up from a leaf, 2 * 2 / 4 from a pod, of which
 * other jobs take a fifth. */
static void pods_have_uplinks_too(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m =
        fixture_machine(NODES("8", "0",
                              "topology = fat_tree\ngroup_nodes = 2\npod_groups = 2\n"
                              "pod_oversubscription = 4\nhop_ns = 100\nbackground_frac = 0.2\n"));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(2, 0), "leaf 0 up, leaf 1 down", 200);
    assert_way(&links, gpu_place(3, 0), gpu_place(6, 0),
               "leaf 1 up, pod 0 up, pod 1 down, leaf 3 down", 400);
    assert_float_equal(capacity_of(&links, "leaf 3 down"), 1.6e9, 1);
    assert_float_equal(capacity_of(&links, "pod 1 up"), 0.8e9, 1);
}

/* Of eight nodes over two leaves, the even ones are at the first leaf. */
static void scattered_nodes_are_dealt_out(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(NODES("8", "0",
                                                    "topology = fat_tree\ngroup_nodes = 4\n"
                                                    "placement = scattered\n"));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(6, 0), "", 0);
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 0), "leaf 0 up, leaf 1 down", 0);
}

/* Two rails: NIC i of nodes 0 and 1 is at leaf i, of nodes 2 and 3 at leaf 2 + i; a leaf has two
 * ports. */
static void rails_join_nics_of_one_number(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m =
        fixture_machine(NODES("4", "1", "topology = rail\ngroup_nodes = 2\n"));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 0), "", 0);
    assert_way(&links, gpu_place(0, 1), gpu_place(1, 1), "", 0);
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 1), "leaf 0 up, leaf 1 down", 0);
    assert_way(&links, gpu_place(0, 1), gpu_place(2, 1), "leaf 1 up, leaf 3 down", 0);
    assert_float_equal(capacity_of(&links, "leaf 2 up"), 2e9, 1);
}

/* Groups of two routers with two nodes each; the link to group g is at router g modulo 2. */
static void a_dragonfly_has_minimal_routes(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m =
        fixture_machine(NODES("12", "0",
                              "topology = dragonfly\ngroup_nodes = 4\nrouter_nodes = 2\n"
                              "global_links = 2\nlink_bytes_per_s = 4GB/s\nbackground_frac = 0.25\n"
                              "hop_ns = 100\n"));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 0), "", 0);
    assert_way(&links, gpu_place(0, 0), gpu_place(3, 0), "group 0 router 0 to 1", 100);
    assert_way(&links, gpu_place(0, 0), gpu_place(6, 0),
               "group 0 router 0 to 1, group 0 to 1, group 1 router 0 to 1", 300);
    assert_way(&links, gpu_place(6, 0), gpu_place(9, 0),
               "group 1 router 1 to 0, group 1 to 2, "
               "group 2 router 1 to 0",
               300);
    assert_way(&links, gpu_place(0, 0), gpu_place(8, 0), "group 0 to 2", 100);
    assert_float_equal(capacity_of(&links, "group 2 router 1 to 0"), 3e9, 1);
    assert_float_equal(capacity_of(&links, "group 2 to 0"), 6e9, 1);
}

/* 4 x 3: from (0, 0) to (3, 0) backwards over the edge; to (2, 1) two hops forward in x, then in
 * y. */
static void a_torus_takes_the_shorter_way(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m =
        fixture_machine(NODES("12", "0",
                              "topology = torus\nsize_x = 4\nsize_y = 3\nhop_ns = 300\n"
                              "link_bytes_per_s = 2GB/s\n"));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(3, 0), "switch 0 -x", 300);
    assert_way(&links, gpu_place(0, 0), gpu_place(6, 0), "switch 0 +x, switch 1 +x, switch 2 +y",
               900);
    assert_way(&links, gpu_place(6, 0), gpu_place(0, 0), "switch 6 +x, switch 7 +x, switch 4 -y",
               900);
    assert_float_equal(capacity_of(&links, "switch 11 -y"), 2e9, 1);
}

/* Eight uplinks of 1 GB/s each. Eight hashed flows use 8 (1 - (7/8)^8) = 5.25 of them on average;
 * both directions use the same spine switch. */
static void ecmp_lets_flows_collide(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(NODES("256", "0",
                                                    "topology = fat_tree\ngroup_nodes = 8\n"
                                                    "spreading = ecmp\n"));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_int_equal(dl_fabric_links(&m), 2 * 32 * 8);
    assert_float_equal(capacity_of(&links, "leaf 1 uplink 7 down"), 1e9, 1);
    int distinct = 0;
    for (int leaf = 0; leaf < 31; leaf++) {
        int used[8] = {0};
        for (int from = 8 * leaf; from < 8 * leaf + 8; from++) {
            int way[DL_FABRIC_ROUTE_MAX];
            double ns;
            assert_int_equal(dl_fabric_route(&m, from, 0, 8 + from, 0, way, &ns), 2);
            const int uplink = way[0] / 2 - 8 * leaf;
            assert_true(way[0] % 2 == 0 && uplink >= 0 && uplink < 8);
            assert_int_equal(way[1], 2 * (8 * (leaf + 1) + uplink) + 1);
            distinct += used[uplink]++ == 0;
        }
    }
    assert_float_equal(distinct / 31.0, 5.25, 0.5);
}

/* Seconds of a ring over all GPUs, with enough bytes to make latencies negligible. */
static double ring_by(const char *text, double bytes, dl_fidelity fidelity)
{
    DL_SCOPED(dl_machine) m = fixture_machine(text);
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    DL_AUTOFREE dl_place *places = dl_calloc((size_t)m.nodes, sizeof *places, "places");
    for (int i = 0; i < m.nodes; i++)
        places[i] = gpu_place(i, 0);
    const dl_collective_config config = {.kind = DL_ALLREDUCE,
                                         .algorithm = "ring",
                                         .fidelity = fidelity,
                                         .ranks = places,
                                         .rank_count = m.nodes,
                                         .bytes = bytes,
                                         .chunk_bytes = DL_CHUNK_BYTES};
    double time_ns = 0;
    dl_error err = {0};
    assert_int_equal(dl_collective_idle_ns(&links, &config, &time_ns, &err), DL_OK);
    return time_ns / 1e9;
}

static double unequal_s(const char *text, const char *algorithm, const char *counts, double bytes,
                        dl_fidelity fidelity)
{
    DL_SCOPED(dl_machine) m = fixture_machine(text);
    return fixture_reduce_s(&m, algorithm, counts, bytes, fidelity);
}

static double ring_s(const char *text, double bytes)
{
    return ring_by(text, bytes, DL_FIDELITY_PHASE);
}

/* A ring of eight nodes sends 2 * 7/8 of 8 GB over each port: 14 s at 1 GB/s. Packed, one flow
 * leaves each leaf, which carries 1 GB/s with fourfold oversubscription: nothing is lost.
 * Scattered, all four nodes of a leaf send to the other leaf, 1/4 GB/s each: 56 s. */
static void scattered_rings_pay_for_oversubscription(void **state DL_UNUSED)
{
#define OVER "topology = fat_tree\ngroup_nodes = 4\noversubscription = 4\n"
    assert_float_equal(ring_s(NODES("8", "0", "topology = none\n"), 8e9), 14, 0.14);
    assert_float_equal(ring_s(NODES("8", "0", OVER), 8e9), 14, 0.14);
    assert_float_equal(ring_s(NODES("8", "0", OVER "placement = scattered\n"), 8e9), 56, 0.56);
}

/* In a torus of eight switches in a row each flow of the ring has its own link. A ring that skips
 * switches would load links more, which does not occur here, as ranks are in order. */
static void a_ring_fits_a_torus(void **state DL_UNUSED)
{
    assert_float_equal(ring_s(NODES("8", "0", "topology = torus\nsize_x = 8\n"), 8e9), 14, 0.14);
    assert_float_equal(ring_s(NODES("8", "0",
                                    "topology = torus\nsize_x = 8\n"
                                    "background_frac = 0.5\n"),
                              8e9),
                       28, 0.28);
}

/* Three racks in two rows. Rack 0 has four ports of 1 GB/s over 2, row 0 the 2 + 2 GB/s of its
 * racks over 2; row 1's uplinks have the given rate. Each further link adds a switch, 100 ns. */
static void switches_by_hand_form_a_tree(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(
        NODES("8", "0",
              "topology = switches\nhop_ns = 100\n[netswitch spine]\n"
              "[netswitch row0]\nparent = spine\noversubscription = 2\n"
              "[netswitch row1]\nparent = spine\nbytes_per_s = 3GB/s\n"
              "[netswitch rack0]\nparent = row0\nnodes = 0-3\noversubscription = 2\n"
              "[netswitch rack1]\nparent = row0\nnodes = 4, 5\n"
              "[netswitch rack2]\nparent = row1\nnodes = 6-7\n"));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(3, 0), "", 0);
    assert_way(&links, gpu_place(0, 0), gpu_place(5, 0), "rack0 up, rack1 down", 200);
    assert_way(&links, gpu_place(7, 0), gpu_place(1, 0), "rack2 up, row1 up, row0 down, rack0 down",
               400);
    assert_float_equal(capacity_of(&links, "rack0 up"), 2e9, 1);
    assert_float_equal(capacity_of(&links, "rack1 down"), 2e9, 1);
    assert_float_equal(capacity_of(&links, "row0 up"), 2e9, 1);
    assert_float_equal(capacity_of(&links, "row1 down"), 3e9, 1);
}

/* 256 nodes in racks of eight, eight racks per row, without oversubscription: a rack has eight
 * uplinks, a row 64. As in a fat tree, eight flows from one rack to another use 5.25 of them on
 * average, the same in both directions. The choice in the rows is independent of that: of the eight
 * flows 8 (1 - (7/8)^8) differ modulo 8. */
static void ecmp_over_switches_by_hand(void **state DL_UNUSED)
{
    char text[8192];
    size_t used = (size_t)snprintf(
        text, sizeof text, "%s",
        NODES("256", "0", "topology = switches\nspreading = ecmp\n[netswitch spine]\n"));
    for (int row = 0; row < 4; row++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "[netswitch row%d]\nparent = spine\n", row);
    }
    for (int rack = 0; rack < 32; rack++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "[netswitch rack%d]\nparent = row%d\nnodes = %d-%d\n", rack,
                                 rack / 8, 8 * rack, 8 * rack + 7);
    }
    DL_SCOPED(dl_machine) m = fixture_machine(text);
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_int_equal(dl_fabric_links(&m), 2 * (1 + 4 * 64 + 32 * 8));
    assert_float_equal(capacity_of(&links, "rack3 uplink 7 down"), 1e9, 1);
    assert_float_equal(capacity_of(&links, "row3 uplink 63 up"), 1e9, 1);
    int racks_used = 0, rows_used = 0;
    for (int rack = 0; rack < 24; rack++) {
        int of_rack[8] = {0}, of_row[8] = {0};
        for (int from = 8 * rack; from < 8 * rack + 8; from++) {
            int way[DL_FABRIC_ROUTE_MAX];
            double ns;
            assert_int_equal(dl_fabric_route(&m, from, 0, 64 + from, 0, way, &ns), 4);
            const int racks = 1 + 4 * 64, uplink = way[0] / 2 - racks - 8 * rack;
            const int row_uplink = way[1] / 2 - 1 - 64 * (rack / 8);
            assert_in_range(uplink, 0, 7);
            assert_in_range(row_uplink, 0, 63);
            assert_int_equal(way[2], 2 * (1 + 64 * (rack / 8 + 1) + row_uplink) + 1);
            assert_int_equal(way[3], 2 * (racks + 8 * (rack + 8) + uplink) + 1);
            racks_used += of_rack[uplink]++ == 0;
            rows_used += of_row[(row_uplink + 8 - uplink) % 8]++ == 0;
        }
    }
    assert_float_equal(racks_used / 24.0, 5.25, 0.6);
    assert_float_equal(rows_used / 24.0, 5.25, 0.6);
}

/* Two racks of four nodes, fourfold oversubscribed: 1 GB/s up. A ring in order sends one flow over
 * the uplink, 14 s like over its ports. If other jobs take half of rack 1's uplinks and a quarter
 * elsewhere, 28 s. For a ring over two of three racks the third rack's load is irrelevant. With
 * ecmp an uplink of 1 GB/s in two halves carries the flow at 0.5. */
static void other_jobs_load_some_switches(void **state DL_UNUSED)
{
#define LOADED(fabric, rack1)                                                            \
    NODES("8", "0",                                                                      \
          "topology = switches\n" fabric "[netswitch spine]\n"                           \
          "[netswitch rack0]\nparent = spine\nnodes = 0-3\noversubscription = 4\n"       \
          "[netswitch rack1]\nparent = spine\nnodes = 4-7\noversubscription = 4\n" rack1 \
          "[netswitch rack2]\nparent = spine\nnodes = 8-11\nbackground_frac = 0.9\n")
    assert_float_equal(ring_s(LOADED("", ""), 8e9), 14, 0.14);
    assert_float_equal(ring_s(LOADED("background_frac = 0.25\n", "background_frac = 0.5\n"), 8e9),
                       28, 0.28);
    assert_float_equal(ring_s(LOADED("background_frac = 0.25\n", "background_frac = 0\n"), 8e9),
                       14 / 0.75, 0.2);
    assert_float_equal(ring_s(LOADED("spreading = ecmp\n", "uplinks = 2\n"), 8e9), 28, 0.28);
    assert_float_equal(ring_s(LOADED("spreading = ideal\n", "uplinks = 2\n"), 8e9), 14, 0.14);
}

/* Four nodes in slots of leaves 2, 0, 2, 0; after sorting, nodes 0 and 1 are at leaf 0. */
static void a_list_places_the_nodes(void **state DL_UNUSED)
{
#define LISTED "topology = fat_tree\ngroup_nodes = 4\nslots = 8, 0, 9-10, 1\n"
    dl_machine m = fixture_machine(NODES("4", "0", LISTED));
    dl_links links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 0), "leaf 2 up, leaf 0 down", 0);
    assert_way(&links, gpu_place(0, 0), gpu_place(2, 0), "", 0);
    dl_links_free(&links);
    dl_machine_free(&m);
    m = fixture_machine(NODES("5", "0", LISTED "rank_order = switches\n"));
    dl_links_init(&links, &m); /* slots 0, 1, 8, 9, 10 */
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 0), "", 0);
    assert_way(&links, gpu_place(1, 0), gpu_place(2, 0), "leaf 0 up, leaf 2 down", 0);
    assert_way(&links, gpu_place(2, 0), gpu_place(4, 0), "", 0);
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* The same with switches defined individually, and in the chunk model: a ring in the order of the
 * nodes' numbers crosses the uplinks at every hop, 56 s; sorted by switches at one hop, 14 s. Over
 * racks with 6 and 2 slots the nodes are dealt as 0, 6, 1, 7, 2, 3, 4, 5: two flows in each
 * direction, on an uplink of the first rack's six ports over 6. */
static void rings_follow_the_ranks_or_the_switches(void **state DL_UNUSED)
{
#define RACKS "topology = switches\n[netswitch spine]\n"
#define EQUAL                                                            \
    "[netswitch a]\nparent = spine\nnodes = 0-3\noversubscription = 4\n" \
    "[netswitch b]\nparent = spine\nnodes = 4-7\noversubscription = 4\n"
#define UNEQUAL                                                          \
    "[netswitch a]\nparent = spine\nnodes = 0-5\noversubscription = 6\n" \
    "[netswitch b]\nparent = spine\nnodes = 6-7\n"
    static const struct {
        const char *text;
        double seconds;
    } cases[] = {
        {NODES("8", "0", RACKS EQUAL), 14},
        {NODES("8", "0", "placement = scattered\n" RACKS EQUAL), 56},
        {NODES("8", "0", "slots = 0, 4, 1, 5, 2, 6, 3, 7\n" RACKS EQUAL), 56},
        {NODES("8", "0", "placement = scattered\nrank_order = switches\n" RACKS EQUAL), 14},
        {NODES("8", "0", "placement = scattered\n" RACKS UNEQUAL), 28},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        for (int fidelity = 0; fidelity < 2; fidelity++)
            assert_near(ring_by(cases[i].text, 8e9, (dl_fidelity)fidelity), cases[i].seconds, 0.01);
    }
}

/* Eight GPUs on nodes with 4, 3 and 1 of them: a ring leaves each node once, at 1 GB/s, and sends 2
 * * 7/8 of 8 GB: 14 s, also over switches whose links carry a port's rate. If the uplinks of a
 * node's leaf, of four ports over 8, carry half of that: 28 s. Nodes with 2, 1 and 1 GPUs dealt
 * over two racks are in racks a, b, a: the ring goes from a to b and back, over an uplink of eight
 * ports over 16: 2 * 3/4 * 8 GB at 0.5 GB/s. The same holds for a ring over four nodes of which one
 * has its own switch, whose uplink has half a port's rate, like a port of half the rate. Trees of
 * GPUs and of nodes have no closed form as short, but the chunk and phase models agree. */
static void nodes_with_unequally_many_gpus(void **state DL_UNUSED)
{
#define THREE(fabric) NODES("3", "3", fabric)
#define SLOW_PORT                                                                   \
    NODES("4", "3",                                                                 \
          "topology = switches\n[netswitch spine]\nnodes = 0-2\n[netswitch slow]\n" \
          "parent = spine\nnodes = 3\nbytes_per_s = 0.5GB/s\n")
    static const struct {
        const char *text, *counts;
        double seconds;
    } cases[] = {
        {THREE("topology = fat_tree\ngroup_nodes = 1\n"), "431", 14},
        {THREE("topology = fat_tree\ngroup_nodes = 1\noversubscription = 8\n"), "431", 28},
        {THREE("topology = rail\ngroup_nodes = 3\n"), "431", 14},
        {THREE("topology = dragonfly\ngroup_nodes = 1\n"), "431", 14},
        {THREE("topology = torus\nsize_x = 3\n"), "431", 14},
        {THREE("topology = switches\n[netswitch spine]\n"
               "[netswitch a]\nparent = spine\nnodes = 0-1\noversubscription = 8\n"
               "[netswitch b]\nparent = spine\nnodes = 2\n"),
         "431", 14},
        {THREE("topology = switches\nplacement = scattered\n[netswitch spine]\n"
               "[netswitch a]\nparent = spine\nnodes = 0-1\noversubscription = 16\n"
               "[netswitch b]\nparent = spine\nnodes = 2-3\n"),
         "211", 24},
        {SLOW_PORT, "1111", 24},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        const char *text = cases[i].text, *counts = cases[i].counts;
        for (int fidelity = 0; fidelity < 2; fidelity++) {
            assert_near(unequal_s(text, "ring", counts, 8e9, (dl_fidelity)fidelity),
                        cases[i].seconds, 1e-3);
        }
        static const char *const trees[] = {"tree", "node_tree"};
        for (size_t t = 0; t < DL_LENGTH(trees); t++) {
            assert_near(unequal_s(text, trees[t], counts, 8e9, DL_FIDELITY_CHUNK),
                        unequal_s(text, trees[t], counts, 8e9, DL_FIDELITY_PHASE), 0.02);
        }
    }
}

static void bad_fabrics_are_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {NODES("2", "0", "group_nodes = 2\n"), "[fabric] lacks topology"},
        {NODES("2", "0", "topology = fat_tree\n"),
         "[fabric] topology = fat_tree needs group_nodes"},
        {NODES("2", "0", "topology = fattree\ngroup_nodes = 2\n"), "did you mean 'fat_tree'"},
        {NODES("2", "0", "topology = torus\n"), "[fabric] topology = torus needs size_x"},
        {NODES("2", "0", "topology = torus\nsize_x = 65\n"), "size_x"},
        {NODES("9", "0", "topology = torus\nsize_x = 2\nsize_y = 2\nsize_z = 2\n"),
         "9 nodes, but the torus of [fabric] has 8 switches"},
        {NODES("2", "0", "topology = rail\ngroup_nodes = 2\noversubscription = 0.5\n"),
         "oversubscription"},
        {NODES("2", "0", "topology = rail\ngroup_nodes = 2\nbackground_frac = 1\n"),
         "background_frac"},
        {NODES("2", "0", "topology = switches\n"), "needs [netswitch]es with nodes"},
        {NODES("2", "0", "topology = switches\n[netswitch a]\nnodes = 0-1, 1\n"),
         "slot 1 comes twice"},
        {NODES("2", "0", "topology = switches\n[netswitch a]\nnodes = 0, x\n"), "'x' is not"},
        {NODES("2", "0", "topology = switches\n[netswitch a]\nnodes = 0, 2\n"),
         "slot 1 is at no [netswitch]"},
        {NODES("2", "0", "topology = switches\n[netswitch a]\nnodes = 0\n"), "has 1 slots"},
        {NODES("1", "0", "topology = switches\n[netswitch a]\nnodes = 0\n[netswitch b]\n"),
         "a tree has one root"},
        {NODES("1", "0",
               "topology = switches\n[netswitch a]\nparent = b\nnodes = 0\n[netswitch b]\n"
               "parent = a\n"),
         "or itself"},
        {NODES("1", "0",
               "topology = switches\n[netswitch spine]\n[netswitch a]\nparent = spin\n"
               "nodes = 0\n"),
         "'spine'"},
        {NODES("3", "0", "topology = fat_tree\ngroup_nodes = 2\nslots = 0, 5\n"),
         "slots has 2 of them"},
        {NODES("2", "0", "topology = fat_tree\ngroup_nodes = 2\nslots = 0, 0\n"),
         "slot 0 comes twice"},
        {NODES("2", "0", "topology = torus\nsize_x = 2\nslots = 0, 2\n"), "there are 2 slots"},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        DL_SCOPED(dl_machine) m = {0};
        dl_error err = {0};
        const char *text = cases[i].text;
        const dl_status status = dl_machine_read_text(&m, "machine.ini", text, strlen(text), &err);
        if (status == DL_OK || strstr(err.text, cases[i].says) == NULL) {
            fail_msg("case %zu: %s", i, err.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaf_has_uplinks),
        cmocka_unit_test(pods_have_uplinks_too),
        cmocka_unit_test(scattered_nodes_are_dealt_out),
        cmocka_unit_test(rails_join_nics_of_one_number),
        cmocka_unit_test(a_dragonfly_has_minimal_routes),
        cmocka_unit_test(a_torus_takes_the_shorter_way),
        cmocka_unit_test(ecmp_lets_flows_collide),
        cmocka_unit_test(scattered_rings_pay_for_oversubscription),
        cmocka_unit_test(a_ring_fits_a_torus),
        cmocka_unit_test(switches_by_hand_form_a_tree),
        cmocka_unit_test(ecmp_over_switches_by_hand),
        cmocka_unit_test(other_jobs_load_some_switches),
        cmocka_unit_test(a_list_places_the_nodes),
        cmocka_unit_test(rings_follow_the_ranks_or_the_switches),
        cmocka_unit_test(nodes_with_unequally_many_gpus),
        cmocka_unit_test(bad_fabrics_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
