/* Switches between nodes: which links a copy crosses, at which rate, and what that does to an
 * all-reduce. A node has a GPU (or two) and as many NICs; ports have 1 GB/s and 5 us each way. */
#include "tests/machine_fixture.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "sim/collective/collective.h"
#include "sim/network/fabric.h"

#define NODES(count, last, fabric)                                                                 \
    "[machine]\nschema = 1\nname = cluster\nnodes = " count                                        \
    "\npeer = all\ngpudirect = yes\n" FIXTURE_PARTS                                                \
    "[host]\nmemory_bytes_per_s = 40GB/s\n[gpus 0-" last "]\nmodel = g\n"                          \
    "parent = socket0\nlink = x16\n[nics 0-" last "]\nparent = socket0\nlink = x16\nport = wire\n" \
    "[fabric]\n" fabric

/* GPU to port and back: two links of 100 ns and a port of 5 us on each side. */
#define PORTS_NS 10400

/* The fabric's links on a route, by name, and the latency beyond the ports'. */
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

/* Four ports of 1 GB/s over 2: a leaf's uplinks carry 2 GB/s. Two switches more are 600 ns. */
static void a_leaf_has_uplinks(void **state)
{
    (void)state;
    dl_machine m = fixture_machine(NODES("8", "0",
                                         "topology = fat_tree\ngroup_nodes = 4\n"
                                         "oversubscription = 2\nhop_ns = 300\n"));
    dl_links links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(1, 0), gpu_place(3, 0), "", 0);
    assert_way(&links, gpu_place(1, 0), gpu_place(6, 0), "leaf 0 up, leaf 1 down", 600);
    assert_way(&links, gpu_place(6, 0), gpu_place(1, 0), "leaf 1 up, leaf 0 down", 600);
    assert_float_equal(capacity_of(&links, "leaf 1 up"), 2e9, 1);
    assert_int_equal(dl_fabric_links(&m), 4);
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* Leaves of two nodes, pods of two leaves: 2 GB/s up from a leaf, 2 * 2 / 4 from a pod, of which
 * other jobs take a fifth. */
static void pods_have_uplinks_too(void **state)
{
    (void)state;
    dl_machine m =
        fixture_machine(NODES("8", "0",
                              "topology = fat_tree\ngroup_nodes = 2\npod_groups = 2\n"
                              "pod_oversubscription = 4\nhop_ns = 100\nbackground_frac = 0.2\n"));
    dl_links links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(2, 0), "leaf 0 up, leaf 1 down", 200);
    assert_way(&links, gpu_place(3, 0), gpu_place(6, 0),
               "leaf 1 up, pod 0 up, pod 1 down, leaf 3 down", 400);
    assert_float_equal(capacity_of(&links, "leaf 3 down"), 1.6e9, 1);
    assert_float_equal(capacity_of(&links, "pod 1 up"), 0.8e9, 1);
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* Of eight nodes over two leaves, even ones are at the first. */
static void scattered_nodes_are_dealt_out(void **state)
{
    (void)state;
    dl_machine m = fixture_machine(NODES("8", "0",
                                         "topology = fat_tree\ngroup_nodes = 4\n"
                                         "placement = scattered\n"));
    dl_links links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(6, 0), "", 0);
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 0), "leaf 0 up, leaf 1 down", 0);
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* Two rails: NIC i of nodes 0 and 1 is at leaf i, of nodes 2 and 3 at leaf 2 + i; a leaf has two
 * ports. */
static void rails_join_nics_of_one_number(void **state)
{
    (void)state;
    dl_machine m = fixture_machine(NODES("4", "1", "topology = rail\ngroup_nodes = 2\n"));
    dl_links links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 0), "", 0);
    assert_way(&links, gpu_place(0, 1), gpu_place(1, 1), "", 0);
    assert_way(&links, gpu_place(0, 0), gpu_place(1, 1), "leaf 0 up, leaf 1 down", 0);
    assert_way(&links, gpu_place(0, 1), gpu_place(2, 1), "leaf 1 up, leaf 3 down", 0);
    assert_float_equal(capacity_of(&links, "leaf 2 up"), 2e9, 1);
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* Groups of two routers with two nodes each; the link to group g is at router g modulo 2. */
static void a_dragonfly_has_minimal_routes(void **state)
{
    (void)state;
    dl_machine m =
        fixture_machine(NODES("12", "0",
                              "topology = dragonfly\ngroup_nodes = 4\nrouter_nodes = 2\n"
                              "global_links = 2\nlink_bytes_per_s = 4GB/s\nbackground_frac = 0.25\n"
                              "hop_ns = 100\n"));
    dl_links links;
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
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* 4 x 3: from (0, 0) to (3, 0) backwards over the edge; to (2, 1) twice ahead, then in y. */
static void a_torus_takes_the_shorter_way(void **state)
{
    (void)state;
    dl_machine m = fixture_machine(NODES("12", "0",
                                         "topology = torus\nsize_x = 4\nsize_y = 3\nhop_ns = 300\n"
                                         "link_bytes_per_s = 2GB/s\n"));
    dl_links links;
    dl_links_init(&links, &m);
    assert_way(&links, gpu_place(0, 0), gpu_place(3, 0), "switch 0 -x", 300);
    assert_way(&links, gpu_place(0, 0), gpu_place(6, 0), "switch 0 +x, switch 1 +x, switch 2 +y",
               900);
    assert_way(&links, gpu_place(6, 0), gpu_place(0, 0), "switch 6 +x, switch 7 +x, switch 4 -y",
               900);
    assert_float_equal(capacity_of(&links, "switch 11 -y"), 2e9, 1);
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* Eight uplinks of 1 GB/s each. Eight flows by a hash use 8 (1 - (7/8)^8) = 5.25 of them on average;
 * up and down are at the same spine switch. */
static void ecmp_lets_flows_collide(void **state)
{
    (void)state;
    dl_machine m = fixture_machine(NODES("256", "0",
                                         "topology = fat_tree\ngroup_nodes = 8\n"
                                         "spreading = ecmp\n"));
    dl_links links;
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
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* Seconds of a ring over all GPUs, of enough bytes for latencies not to matter. */
static double ring_s(const char *text, double bytes)
{
    dl_machine m = fixture_machine(text);
    dl_links links;
    dl_links_init(&links, &m);
    dl_place *places = dl_calloc((size_t)m.nodes, sizeof *places, "places");
    for (int i = 0; i < m.nodes; i++)
        places[i] = gpu_place(i, 0);
    const dl_collective_config config = {.kind = DL_ALLREDUCE,
                                         .algorithm = "ring",
                                         .ranks = places,
                                         .rank_count = m.nodes,
                                         .bytes = bytes,
                                         .chunk_bytes = DL_CHUNK_BYTES};
    double time_ns = 0;
    dl_error err = {0};
    assert_int_equal(dl_collective_idle_ns(&links, &config, &time_ns, &err), DL_OK);
    free(places);
    dl_links_free(&links);
    dl_machine_free(&m);
    return time_ns / 1e9;
}

/* A ring of eight nodes sends 2 * 7/8 of 8 GB over each port: 14 s at 1 GB/s. Packed, one flow
 * leaves each leaf, which four times oversubscribed carries 1 GB/s: nothing is lost. Scattered, all
 * four nodes of a leaf send to the other one, 1/4 GB/s each: 56 s. */
static void scattered_rings_pay_for_oversubscription(void **state)
{
    (void)state;
#define OVER "topology = fat_tree\ngroup_nodes = 4\noversubscription = 4\n"
    assert_float_equal(ring_s(NODES("8", "0", "topology = none\n"), 8e9), 14, 0.14);
    assert_float_equal(ring_s(NODES("8", "0", OVER), 8e9), 14, 0.14);
    assert_float_equal(ring_s(NODES("8", "0", OVER "placement = scattered\n"), 8e9), 56, 0.56);
}

/* In a torus of eight switches in a row the ring's flows have a link each; of a ring that jumps over a
 * switch each link carries more: none of that here, as ranks are in order. */
static void a_ring_fits_a_torus(void **state)
{
    (void)state;
    assert_float_equal(ring_s(NODES("8", "0", "topology = torus\nsize_x = 8\n"), 8e9), 14, 0.14);
    assert_float_equal(ring_s(NODES("8", "0",
                                    "topology = torus\nsize_x = 8\n"
                                    "background_frac = 0.5\n"),
                              8e9),
                       28, 0.28);
}

static void bad_fabrics_are_refused(void **state)
{
    (void)state;
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
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        dl_machine m = {0};
        dl_error err = {0};
        const char *text = cases[i].text;
        const dl_status status = dl_machine_read_text(&m, "machine.ini", text, strlen(text), &err);
        if (status == DL_OK || strstr(err.text, cases[i].says) == NULL) {
            fail_msg("case %zu: %s", i, err.text);
        }
        dl_machine_free(&m);
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
        cmocka_unit_test(bad_fabrics_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
