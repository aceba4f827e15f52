#include "tests/sim_fixture.h"

#include "tests/sim/peers.h"

/* SimGrid with the plain model of latency and bandwidth (CM02), and without acknowledgement
 * traffic, has the same model as dlsim chunk by chunk. The ring has 2 (n-1) rounds starting with
 * the last rank; both programs round pieces by less than a byte and times by less than 1 ns. */
static void assert_agrees(const peer_case *of, double tolerance)
{
    double simulated_s = 0, run_s = 0;
    DL_SCOPED(dl_run_result) result = peer_simulate(of);
    if (!peer_simgrid(of, "--cfg=network/model:CM02 --cfg=network/crosstraffic:0", &simulated_s,
                      &run_s)) {
        fail_msg("%s failed", PEER_SIMGRID);
    }
    assert_near(result.span_s, simulated_s, tolerance * simulated_s);
}

static void rings_agree_with_simgrid(void **state DL_UNUSED)
{
    assert_agrees(&(peer_case){PEER_RING, 2, 5}, 1e-3);
    assert_agrees(&(peer_case){PEER_RING, 8, 5}, 1e-3);
    assert_agrees(&(peer_case){PEER_RING, 33, 3}, 1e-3);
    assert_agrees(&(peer_case){PEER_UNEQUAL_RING, 9, 3}, 1e-3);
    assert_agrees(&(peer_case){PEER_BOX_RING, 8, 3}, 1e-3);
    /* Ports are slower than PCIe, so in dlsim their latency passes while other pieces move;
     * SimGrid's ranks wait for each piece to arrive before they send the next one: 62 rounds of 4
     * us per step. */
    assert_agrees(&(peer_case){PEER_BOX_RING, 32, 3}, 5e-3);
}

/* One step of each worker, so that both programs end with the last worker. */
static void servers_agree_with_simgrid(void **state DL_UNUSED)
{
    assert_agrees(&(peer_case){PEER_SERVER, 2, 1}, 1e-3);
    assert_agrees(&(peer_case){PEER_SERVER, 8, 1}, 1e-3);
    assert_agrees(&(peer_case){PEER_SERVER, 64, 1}, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_agree_with_simgrid),
        cmocka_unit_test(servers_agree_with_simgrid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
