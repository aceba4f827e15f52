#include "calibrate/replay/graph.h"
#include "tests/check.h"

/* Returns a graph with one thread, lane 0, and `streams` streams, lanes from 1. */
static dl_replay_graph lanes(int streams)
{
    dl_replay_graph graph = {0};
    dl_replay_graph_add_lane(&graph, &(dl_replay_lane){.thread = 1});
    for (int s = 0; s < streams; s++)
        dl_replay_graph_add_lane(&graph,
                                 &(dl_replay_lane){.is_stream = true, .stream = (uint32_t)s});
    return graph;
}

/* Adds a node; its recorded start only matters for the first node of a lane. */
static uint32_t add(dl_replay_graph *graph, uint32_t lane, dl_replay_kind kind, int64_t duration_ns)
{
    return dl_replay_graph_add(
        graph, lane, &(dl_replay_node){.kind = (uint8_t)kind, .duration_ns = duration_ns});
}

static void edge(dl_replay_graph *graph, uint32_t from, uint32_t to, dl_replay_edge_kind kind,
                 int64_t lag_ns)
{
    dl_replay_graph_add_edge(graph, &(dl_replay_edge){.from = from,
                                                      .to = to,
                                                      .lag_ns = lag_ns,
                                                      .kind = (uint8_t)kind,
                                                      .from_start = kind == DL_REPLAY_LAUNCH});
}

static void retime(const dl_replay_graph *graph, dl_replay_time *times)
{
    dl_error err = {0};
    assert_int_equal(dl_replay_simulate(graph, times, &err), DL_OK);
}

/* Two launches of 10 ns each, latency 5; kernels of 100 and 50 with spacing 2; a wait of 3 ns. */
static void test_device_bound(void **state DL_UNUSED)
{
    DL_SCOPED(dl_replay_graph) g = lanes(1);
    uint32_t c0 = add(&g, 0, DL_REPLAY_CALL, 10), c1 = add(&g, 0, DL_REPLAY_CALL, 10);
    uint32_t k0 = add(&g, 1, DL_REPLAY_KERNEL, 100), k1 = add(&g, 1, DL_REPLAY_KERNEL, 50);
    uint32_t wait = add(&g, 0, DL_REPLAY_CALL, 3);
    g.nodes[k1].spacing_ns = 2;
    edge(&g, c0, k0, DL_REPLAY_LAUNCH, 5);
    edge(&g, c1, k1, DL_REPLAY_LAUNCH, 5);
    edge(&g, k1, wait, DL_REPLAY_SYNC, 0);
    dl_replay_time t[5];
    retime(&g, t);
    assert_int_equal(t[c1].start_ns, 10);
    assert_int_equal(t[k0].start_ns, 5);
    assert_int_equal(t[k1].start_ns, 107);
    assert_int_equal(t[k1].cause, DL_REPLAY_BY_LANE);
    assert_int_equal(t[wait].start_ns, 157);
    assert_int_equal(t[wait].end_ns, 160);
    assert_int_equal(t[wait].cause, DL_REPLAY_BY_EDGE);
    assert_int_equal(t[wait].edge, 2);
    g.nodes[k0].duration_ns = 200; /* on the path: delays all later nodes */
    retime(&g, t);
    assert_int_equal(t[wait].end_ns, 260);
    g.nodes[c1].duration_ns = 60; /* not on the path */
    retime(&g, t);
    assert_int_equal(t[wait].end_ns, 260);
    g.edge_count--; /* without the wait the thread continues */
    retime(&g, t);
    assert_int_equal(t[wait].end_ns, 73);
}

/* Slow launches, short kernels: host-bound, a longer kernel is hidden. */
static void test_host_bound(void **state DL_UNUSED)
{
    DL_SCOPED(dl_replay_graph) g = lanes(1);
    uint32_t c0 = add(&g, 0, DL_REPLAY_CALL, 40), c1 = add(&g, 0, DL_REPLAY_CALL, 40);
    uint32_t k0 = add(&g, 1, DL_REPLAY_KERNEL, 10), k1 = add(&g, 1, DL_REPLAY_KERNEL, 10);
    edge(&g, c0, k0, DL_REPLAY_LAUNCH, 5);
    edge(&g, c1, k1, DL_REPLAY_LAUNCH, 5);
    dl_replay_time t[4];
    retime(&g, t);
    assert_int_equal(t[k1].start_ns, 45);
    g.nodes[k0].duration_ns = 20;
    retime(&g, t);
    assert_int_equal(t[k1].start_ns, 45);
    g.nodes[c0].duration_ns = 50;
    retime(&g, t);
    assert_int_equal(t[k1].start_ns, 55);
}

/* Two streams: b waits for a's event, c does not. */
static void test_events(void **state DL_UNUSED)
{
    DL_SCOPED(dl_replay_graph) g = lanes(3);
    uint32_t a = add(&g, 1, DL_REPLAY_KERNEL, 100);
    uint32_t b = add(&g, 2, DL_REPLAY_COLLECTIVE, 30);
    uint32_t c = add(&g, 3, DL_REPLAY_COPY, 20);
    edge(&g, a, b, DL_REPLAY_EVENT, 0);
    dl_replay_time t[3];
    retime(&g, t);
    assert_int_equal(t[b].start_ns, 100);
    assert_int_equal(t[c].start_ns, 0);
    g.edge_count = 0;
    retime(&g, t);
    assert_int_equal(t[b].start_ns, 0);
}

/* A collective of two ranks: the early one waits for the late one. */
static void test_group(void **state DL_UNUSED)
{
    DL_SCOPED(dl_replay_graph) g = lanes(2);
    uint32_t a = add(&g, 1, DL_REPLAY_KERNEL, 10), b = add(&g, 2, DL_REPLAY_KERNEL, 70);
    uint32_t pair[] = {add(&g, 1, DL_REPLAY_COLLECTIVE, 65), add(&g, 2, DL_REPLAY_COLLECTIVE, 5)};
    dl_replay_graph_add_group(&g, pair, 2, 5);
    uint32_t after = add(&g, 1, DL_REPLAY_KERNEL, 1);
    dl_replay_time t[5];
    retime(&g, t);
    assert_int_equal(t[pair[0]].start_ns, t[a].end_ns);
    assert_int_equal(t[pair[1]].start_ns, t[b].end_ns);
    assert_int_equal(t[pair[0]].end_ns, 75);
    assert_int_equal(t[pair[1]].end_ns, 75);
    assert_int_equal(t[pair[0]].last_arrival, pair[1]);
    assert_int_equal(t[after].start_ns, 75);
    g.nodes[a].duration_ns = 90;
    retime(&g, t);
    assert_int_equal(t[pair[1]].end_ns, 95);
}

/* Lanes begin at their first node's recorded start; time 0 is the earliest. */
static void test_begin(void **state DL_UNUSED)
{
    DL_SCOPED(dl_replay_graph) g = lanes(1);
    dl_replay_graph_add(&g, 0, &(dl_replay_node){.recorded_ns = 1000, .duration_ns = 5});
    dl_replay_graph_add(&g, 1, &(dl_replay_node){.kind = DL_REPLAY_KERNEL, .recorded_ns = 1040});
    dl_replay_time t[2];
    retime(&g, t);
    assert_int_equal(t[0].start_ns, 0);
    assert_int_equal(t[1].start_ns, 40);
    assert_int_equal(t[1].cause, DL_REPLAY_BY_BEGIN);
}

static void test_circle(void **state DL_UNUSED)
{
    DL_SCOPED(dl_replay_graph) g = lanes(1);
    uint32_t call = add(&g, 0, DL_REPLAY_CALL, 1), kernel = add(&g, 1, DL_REPLAY_KERNEL, 1);
    edge(&g, call, kernel, DL_REPLAY_LAUNCH, 0);
    edge(&g, kernel, call, DL_REPLAY_SYNC, 0);
    dl_replay_time t[2];
    dl_error err = {0};
    assert_int_equal(dl_replay_simulate(&g, t, &err), DL_ERR_DATA);
    assert_contains(err.text, "2 of 2 parts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_bound), cmocka_unit_test(test_host_bound),
        cmocka_unit_test(test_events),       cmocka_unit_test(test_group),
        cmocka_unit_test(test_begin),        cmocka_unit_test(test_circle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
