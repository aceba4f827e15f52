#include "tests/machine_fixture.h"

#include <math.h>

/* Socket 0: GPUs 0, 1 below switch a, GPU 2 below switch b; socket 1: GPU 3 and a NIC.
 *
 *      socket0 ------------ socket1
 *      a     b              gpu3  nic0
 *    0   1   2
 */
#define BOX(peer, more)                                                                  \
    "[machine]\nschema = 1\nname = box\nnodes = 2\npeer = " peer "\n" more FIXTURE_PARTS \
    "[host]\nsockets = 2\nmemory_bytes_per_s = 40GB/s\nroot_bytes_per_s = 25GB/s\n"      \
    "socket_link = x16\n[switch a]\nparent = socket0\nlink = x16\n"                      \
    "[switch b]\nparent = socket0\nlink = x16\n"                                         \
    "[gpus 0-1]\nmodel = g\nparent = a\nlink = x16\n"                                    \
    "[gpus 2]\nmodel = g\nparent = b\nlink = x16\n"                                      \
    "[gpus 3]\nmodel = g\nparent = socket1\nlink = x16\n"                                \
    "[nics 0]\nparent = socket1\nlink = x16\nport = wire\n"

/* Compares the names of a route's links, in order, with `expected`; "*N" marks links crossed N
 * times. */
static void assert_names(const dl_links *links, const dl_route *route, const char *expected,
                         double latency_ns)
{
    char text[2048] = "", name[DL_LINK_NAME_BYTES];
    for (int i = 0; i < route->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "",
                 dl_links_name(links, route->links[i], name));
        used = strlen(text);
        if (route->uses[i] > 1) snprintf(text + used, sizeof text - used, "*%d", route->uses[i]);
    }
    assert_string_equal(text, expected);
    if (fabs(route->latency_ns - latency_ns) > 1e-9) fail_msg("%g ns", route->latency_ns);
}

static void assert_route(const dl_links *links, dl_place from, dl_place to, const char *expected,
                         double latency_ns)
{
    dl_route route;
    dl_links_route(links, from, to, &route);
    assert_names(links, &route, expected, latency_ns);
}

static void copies_go_by_the_lowest_common_switch(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(BOX("all", ""));
    dl_links links;
    dl_links_init(&links, &m);
    assert_route(&links, gpu_place(1, 0), gpu_place(1, 1), "node1 gpu0 up, node1 gpu1 down", 200);
    assert_route(&links, gpu_place(0, 2), gpu_place(0, 0),
                 "node0 gpu2 up, node0 b up, node0 socket0 root up, node0 socket0 root down, "
                 "node0 a down, node0 gpu0 down",
                 400);
    assert_route(&links, gpu_place(0, 3), gpu_place(0, 2),
                 "node0 gpu3 up, node0 socket1 root up, node0 socket0-socket1 down, "
                 "node0 socket0 root down, node0 b down, node0 gpu2 down",
                 400);
    assert_route(&links, gpu_place(0, 1), gpu_place(0, 1), "", 0);
    dl_links_free(&links);
    dl_links_free(&links);
}

/* peer = switch: 0 and 1 copy directly; 0 and 2 only through memory, which each byte crosses twice,
 * so the rate is at most 20 of 40 GB/s; the links limit it to 10. */
static void without_peers_copies_are_staged(void **state DL_UNUSED)
{
    dl_machine m = fixture_machine(BOX("switch", ""));
    dl_links links;
    dl_links_init(&links, &m);
    assert_route(&links, gpu_place(0, 0), gpu_place(0, 1), "node0 gpu0 up, node0 gpu1 down", 200);
    assert_route(&links, gpu_place(0, 0), gpu_place(0, 2),
                 "node0 gpu0 up, node0 a up, node0 socket0 root up, node0 socket0 memory*2, "
                 "node0 socket0 root down, node0 b down, node0 gpu2 down",
                 400);
    dl_route route;
    dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 2), &route);
    assert_true(route.staged && !route.leaves_node);
    assert_true(dl_links_route_rate(&links, &route) == 10e9);
    dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 1), &route);
    assert_false(route.staged);
    dl_links_free(&links);
    dl_machine_free(&m);
    static const struct {
        const char *text;
        bool same_switch, same_socket, other_socket;
    } cases[] = {{BOX("none", ""), true, true, true},
                 {BOX("switch", ""), false, true, true},
                 {BOX("socket", ""), false, false, true},
                 {BOX("all", ""), false, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        m = fixture_machine(cases[i].text);
        dl_links_init(&links, &m);
        dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 1), &route);
        assert_int_equal(route.staged, cases[i].same_switch);
        dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 2), &route);
        assert_int_equal(route.staged, cases[i].same_socket);
        dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 3), &route);
        assert_int_equal(route.staged, cases[i].other_socket);
        dl_links_free(&links);
        dl_machine_free(&m);
    }
}

/* With [shm] collectives inside a node go through host memory if no PCIe switch or NVLink connects
 * two GPUs, even if copies need not; the link for what a GPU sends and receives limits them to 6
 * GB/s. It limits staged copies, too, unless they have a rate. */
static void collectives_may_go_through_host_memory(void **state DL_UNUSED)
{
    static const struct {
        const char *peer;
        bool below_switch; /* for GPUs 0 and 1 */
    } cases[] = {{"socket", false}, {"none", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_machine m = fixture_machine(i == 0 ? BOX("socket", "") "[shm]\nbytes_per_s = 6GB/s\n"
                                              : BOX("none", "") "[shm]\nbytes_per_s = 6GB/s\n");
        dl_links links;
        dl_route route;
        dl_links_init(&links, &m);
        assert_int_equal(dl_links_by_shm(&links, gpu_place(0, 0), gpu_place(0, 1)),
                         cases[i].below_switch);
        assert_true(dl_links_by_shm(&links, gpu_place(0, 0), gpu_place(0, 2)));
        assert_false(dl_links_by_shm(&links, gpu_place(0, 0), gpu_place(1, 2)));
        dl_links_route_collective(&links, gpu_place(0, 0), gpu_place(0, 2), false, &route);
        assert_names(&links, &route,
                     "node0 gpu0 up, node0 a up, node0 socket0 root up, node0 socket0 memory*2, "
                     "node0 socket0 root down, node0 b down, node0 gpu2 down, "
                     "node0 gpu0 through host memory, node0 gpu2 through host memory",
                     400);
        assert_true(dl_links_route_rate(&links, &route) == 6e9);
        dl_links_route_collective(&links, gpu_place(0, 0), gpu_place(0, 2), true, &route);
        assert_true(route.staged && dl_links_route_rate(&links, &route) == 10e9);
        dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 2), &route);
        assert_int_equal(route.staged, i == 1);
        assert_true(dl_links_route_rate(&links, &route) == (i == 1 ? 6e9 : 10e9));
        m.kinds[0].staged_bytes_per_s = (dl_quantity){.value = 1e9, .known = true};
        dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 2), &route);
        assert_true(dl_links_route_rate(&links, &route) == 10e9);
        dl_links_free(&links);
        dl_machine_free(&m);
    }
    dl_machine m = fixture_machine(BOX("none", "") "[shm]\nbytes_per_s = 6GB/s\n"
                                                   "[nvlinks pair]\nlink = fast\npairs = 0-1\n");
    dl_links links;
    dl_links_init(&links, &m);
    assert_false(dl_links_by_shm(&links, gpu_place(0, 1), gpu_place(0, 0)));
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* With [shm] collectives and copies of GPUs between nodes without GPUDirect go through host memory,
 * too, even if staged copies have a rate, which holds inside a node. */
static void ports_may_be_reached_through_host_memory(void **state DL_UNUSED)
{
    static const char *const gpudirect[] = {"", "gpudirect = yes\n"};
    for (int i = 0; i < 2; i++) {
        DL_AUTOFREE char *text = dl_format("[machine]\nschema = 1\nname = pair\nnodes = 2\n%s"
                                           "peer = none\n" FIXTURE_PARTS
                                           "[host]\nmemory_bytes_per_s = 40GB/s\n[gpus 0-1]\n"
                                           "model = g\nparent = socket0\nlink = x16\n[nics 0]\n"
                                           "parent = socket0\nlink = x16\nport = x16\n"
                                           "[shm]\nbytes_per_s = 6GB/s\n",
                                           gpudirect[i]);
        DL_SCOPED(dl_machine) pair = fixture_machine(text);
        DL_SCOPED(dl_links) links;
        dl_route route;
        dl_links_init(&links, &pair);
        for (int copy = 0; copy < 2; copy++) {
            if (copy)
                dl_links_route(&links, gpu_place(0, 1), gpu_place(1, 0), &route);
            else
                dl_links_route_collective(&links, gpu_place(0, 1), gpu_place(1, 0), false, &route);
            assert_names(&links, &route,
                         i == 0 ? "node0 gpu1 up, node0 socket0 memory*2, node0 nic0 down, "
                                  "node0 gpu1 through host memory, node0 port0 up, "
                                  "node1 port0 down, node1 nic0 up, node1 socket0 memory*2, "
                                  "node1 gpu0 down, node1 gpu0 through host memory"
                                : "node0 gpu1 up, node0 nic0 down, node0 port0 up, "
                                  "node1 port0 down, node1 nic0 up, node1 gpu0 down",
                         600);
            assert_true(dl_links_route_rate(&links, &route) == (i == 0 ? 6e9 : 10e9));
        }
        pair.kinds[0].staged_bytes_per_s = (dl_quantity){.value = 8e9, .known = true};
        dl_links_route(&links, gpu_place(0, 1), gpu_place(1, 0), &route);
        assert_true(dl_links_route_rate(&links, &route) == (i == 0 ? 6e9 : 10e9));
        dl_links_route(&links, host_place(0, 0), gpu_place(1, 0), &route);
        assert_true(dl_links_route_rate(&links, &route) == 10e9);
        dl_links_route_collective(&links, gpu_place(0, 1), gpu_place(1, 0), true, &route);
        assert_true(dl_links_route_rate(&links, &route) == 10e9);
    }
}

static void host_memory_is_a_link(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(BOX("all", ""));
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_route(&links, gpu_place(0, 0), host_place(0, 0),
                 "node0 gpu0 up, node0 a up, node0 socket0 root up, node0 socket0 memory", 200);
    assert_route(&links, host_place(0, 0), gpu_place(0, 3),
                 "node0 socket0 memory, node0 socket0-socket1 up, node0 socket1 root down, "
                 "node0 gpu3 down",
                 200);
    assert_route(&links, host_place(0, 1), host_place(0, 1), "node0 socket1 memory*2", 0);
    assert_route(&links, host_place(0, 0), host_place(0, 1),
                 "node0 socket0 memory, node0 socket0-socket1 up, node0 socket1 memory", 100);
}

static void nodes_are_joined_by_their_nics(void **state DL_UNUSED)
{
    dl_machine m =
        fixture_machine(BOX("all", "gpudirect = yes\n") "[network]\nbytes_per_s = 3GB/s\n");
    dl_links links;
    dl_links_init(&links, &m);
    assert_int_equal(links.count, 2 * links.per_node + 1);
    assert_route(&links, gpu_place(0, 3), host_place(1, 1),
                 "node0 gpu3 up, node0 socket1 root up, node0 socket1 root down, node0 nic0 down, "
                 "node0 port0 up, network, node1 port0 down, node1 nic0 up, node1 socket1 root up, "
                 "node1 socket1 memory",
                 200 + 10000 + 100);
    dl_links_free(&links);
    dl_machine_free(&m);
    m = fixture_machine(BOX("all", ""));
    dl_links_init(&links, &m);
    dl_route route;
    dl_links_route(&links, gpu_place(0, 3), gpu_place(1, 3), &route);
    assert_true(route.staged && route.leaves_node);
    assert_true(dl_links_route_rate(&links, &route) == 1e9);
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* A link with 10 GB/s each way and 15 in total: each direction also crosses the common link. */
static void both_directions_may_share_a_limit(void **state DL_UNUSED)
{
    DL_SCOPED(dl_machine) m = fixture_machine(
        "[machine]\nschema = 1\nname = d\npeer = none\n" FIXTURE_PARTS
        "[host]\nmemory_bytes_per_s = 40GB/s\n[gpus 0]\nmodel = g\nparent = socket0\n"
        "link = duplex\n");
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, &m);
    assert_route(&links, gpu_place(0, 0), host_place(0, 0),
                 "gpu0 up, gpu0 both ways, socket0 memory", 100);
    assert_route(&links, host_place(0, 0), gpu_place(0, 0),
                 "socket0 memory, gpu0 down, gpu0 both ways", 100);
}

/* DGX-1: GPUs 0 and 3 have two lanes, 0 and 1 have one, 0 and 5 have none, and no common switch;
 * NICs of switches: GPUs 2 and 3 use NIC 1. DGX A100: GPUs 2 and 3 use NICs 2 and 3 in turn. */
static void real_machines_have_their_ways(void **state DL_UNUSED)
{
    dl_machine m = fixture_shipped("dgx1_v100");
    dl_links links;
    dl_links_init(&links, &m);
    dl_route route;
    dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 3), &route);
    assert_true(fabs(dl_links_route_rate(&links, &route) - 47.9e9) < 1);
    dl_links_route(&links, gpu_place(0, 1), gpu_place(0, 0), &route);
    assert_true(fabs(dl_links_route_rate(&links, &route) - 23.95e9) < 1);
    dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 5), &route);
    assert_true(route.staged);
    assert_int_equal(dl_links_nic(&links, gpu_place(0, 2)), 1);
    assert_int_equal(dl_links_nic(&links, gpu_place(0, 3)), 1);
    dl_links_free(&links);
    dl_machine_free(&m);
    m = fixture_shipped("dgx_a100");
    dl_links_init(&links, &m);
    assert_int_equal(dl_links_nic(&links, gpu_place(0, 2)), 2);
    assert_int_equal(dl_links_nic(&links, gpu_place(0, 3)), 3);
    assert_int_equal(dl_links_nic(&links, host_place(0, 1)), 4);
    dl_links_route(&links, gpu_place(0, 0), gpu_place(0, 7), &route);
    assert_true(fabs(dl_links_route_rate(&links, &route) - 279e9) < 1);
    dl_links_free(&links);
    dl_machine_free(&m);
}

/* Both directions have equally many links, the same latency and rate, and different links, except
 * those that both directions share (a staged copy goes up and down the same tree); on every
 * machine, between all GPUs and sockets of its first and last node. */
static void assert_symmetric(const dl_links *links, dl_place a, dl_place b)
{
    dl_route there, back;
    dl_links_route(links, a, b, &there);
    dl_links_route(links, b, a, &back);
    assert_int_equal(there.count, back.count);
    assert_true(there.count > 0);
    assert_true(fabs(there.latency_ns - back.latency_ns) < 1e-9);
    double rate = dl_links_route_rate(links, &there);
    assert_true(rate > 0 && isfinite(rate));
    assert_true(fabs(rate - dl_links_route_rate(links, &back)) < 1e-6 * rate);
    for (int i = 0; i < there.count; i++) {
        char name[DL_LINK_NAME_BYTES];
        dl_links_name(links, there.links[i], name);
        bool shared = strstr(name, "both") || strstr(name, "memory") || strstr(name, "root") ||
                      strstr(name, "network");
        for (int j = 0; j < back.count && !shared && !there.staged; j++) {
            if (there.links[i] == back.links[j]) fail_msg("both ways over %s", name);
        }
    }
}

static void ways_back_mirror_ways_there(void **state DL_UNUSED)
{
    static const char *const names[] = {"z10pe_2x1080ti", "p2.16xlarge", "gce_k80_8",
                                        "dgx1_v100",      "dgx_h100",    "t4_4x4_ethernet"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        DL_SCOPED(dl_machine) m = fixture_shipped(names[n]);
        dl_links links;
        dl_links_init(&links, &m);
        int last = m.nodes - 1;
        for (int a = 0; a < m.kinds[0].gpu_count; a++) {
            for (int b = 0; b < m.kinds[0].gpu_count; b++) {
                if (a == b && last == 0) continue;
                assert_symmetric(&links, gpu_place(0, a), gpu_place(last, b));
                if (a != b) assert_symmetric(&links, gpu_place(0, a), gpu_place(0, b));
            }
            for (int s = 0; s < m.kinds[0].sockets; s++)
                assert_symmetric(&links, gpu_place(0, a), host_place(last, s));
        }
        dl_links_free(&links);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_go_by_the_lowest_common_switch),
        cmocka_unit_test(without_peers_copies_are_staged),
        cmocka_unit_test(collectives_may_go_through_host_memory),
        cmocka_unit_test(ports_may_be_reached_through_host_memory),
        cmocka_unit_test(host_memory_is_a_link),
        cmocka_unit_test(nodes_are_joined_by_their_nics),
        cmocka_unit_test(both_directions_may_share_a_limit),
        cmocka_unit_test(real_machines_have_their_ways),
        cmocka_unit_test(ways_back_mirror_ways_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
