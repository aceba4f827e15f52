/* Traffic of other jobs during a run, compared with closed forms. */
#include "tests/check.h"
#include "tests/gpu_fixture.h"

/* Nodes with a GPU and a port of 1 GB/s each, two of them under a leaf with uplinks of 1 GB/s. */
#define LEAVES(more)                                                                 \
    "[machine]\nschema = 1\nname = leaves\nnodes = 4\npeer = all\ngpudirect = yes\n" \
    "[gpu_model g]\nmemory_bytes = 100GB\nmemory_bytes_per_s = 1e12\n"               \
    "fp32_flop_per_s = 1Tflop/s\n"                                                   \
    "[link x16]\nbytes_per_s = 100GB/s\nlatency_ns = 0\n"                            \
    "[link wire]\nbytes_per_s = 1GB/s\nlatency_ns = 0\n"                             \
    "[host]\nmemory_bytes_per_s = 1000GB/s\n"                                        \
    "[gpus 0]\nmodel = g\nparent = socket0\nlink = x16\n"                            \
    "[nics 0]\nparent = socket0\nlink = x16\nport = wire\n"                          \
    "[fabric]\ntopology = fat_tree\ngroup_nodes = 2\noversubscription = 2\n" more

/* 0.4 s of computing, then an all-reduce of 1.2 GB of gradients. */
#define COSTS                                                    \
    "[costs]\nschema = 1\nparameter_bytes = 1200000000\n"        \
    "[op a.forward]\nfixed_ns = 100000000\nper_sample_ns = 0\n"  \
    "[op a.backward]\nfixed_ns = 300000000\nper_sample_ns = 0\n" \
    "[op a.update]\nfixed_ns = 0\nper_sample_ns = 0\n" FIXTURE_FREE_DISPATCH

/* Step time of two workers on nodes 0 and 2, one under each leaf. */
static double step_s(const char *machine, const char *fidelity)
{
    char rest[256];
    snprintf(rest, sizeof rest,
             "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\nfidelity = %s\n", fidelity);
    DL_SCOPED(dl_run_result) r = fixture_run_machine(machine, COSTS, "gpus = 0, 2\n", 2, 10, rest);
    return r.step_p50_s;
}

/* Each of two workers sends half of 1.2 GB twice: 1.2 s. Another job sends continuously from node 1
 * to node 3: over the uplink of leaf 0 both get 0.5 GB/s, so each half takes 1.2 s and a step 2.8
 * s.
 *
 * If the job sends 100 MB every 400 ms, and so overlaps the ring for 200 ms, the ring moves 0.1 +
 * 0.2 GB per period: a half takes two periods, a step with 400 ms of computing 2 s. If the job also
 * sends 100 MB the other way, from node 3 to node 1, nothing changes: the halves take the time of
 * the slower way. */
static void a_ring_shares_an_uplink(void **state DL_UNUSED)
{
#define ALWAYS "[traffic other]\nfrom = 1\nto = 3\nbytes = 100GB\nevery_ns = 1e6\n"
#define SOMETIMES "[traffic other]\nfrom = 1\nto = 3\nbytes = 100MB\nevery_ns = 400e6\n"
#define BOTH_WAYS "[traffic other]\nfrom = 1, 3\nto = 3, 1\nbytes = 100MB\nevery_ns = 400e6\n"
    static const struct {
        const char *machine;
        double seconds;
    } cases[] = {
        {LEAVES(""), 1.6},
        {LEAVES(ALWAYS), 2.8},
        {LEAVES(SOMETIMES), 2},
        {LEAVES(BOTH_WAYS), 2},
        /* Within a leaf they share the port of node 0. */
        {LEAVES("[traffic other]\nfrom = 1\nto = 0\nbytes = 100GB\nevery_ns = 1e6\n"), 2.8},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        assert_near(step_s(cases[i].machine, "phase"), cases[i].seconds, 1e-6);
        assert_near(step_s(cases[i].machine, "chunk"), cases[i].seconds, 0.02);
    }
}

/* Two workers push 1.2 GB each to a server on the GPU of node 1, and pull as much: 2.4 s in and 2.4
 * s out of its port. With a job that sends continuously from node 3 to node 1, in takes 3.6 s. The
 * server's sums take (2 + 1) * 1.2 GB of its GPU's memory: 4 ms. */
static void a_server_shares_its_port(void **state DL_UNUSED)
{
#define SERVED(more)                                                                 \
    fixture_run_machine(LEAVES(more), COSTS "[sync]\nbarrier_ns = 0\nlock_ns = 0\n", \
                        "gpus = 0, 2\n", 2, 10, "[sync]\nmode = ps\nwhere = gpu:1\n")
#define TO_SERVER "[traffic other]\nfrom = 3\nto = 1\nbytes = 100GB\nevery_ns = 1e6\n"
    DL_SCOPED(dl_run_result) alone = SERVED(""), beside = SERVED(TO_SERVER);
    assert_near(alone.step_p50_s, 0.4 + 2.4 + 2.4, 0.005);
    assert_near(beside.step_p50_s, 0.4 + 3.6 + 2.4, 0.005);
}

/* A worker without exchange is not affected. */
static void one_worker_is_as_fast_as_ever(void **state DL_UNUSED)
{
    dl_run_result r =
        fixture_run_machine(LEAVES(ALWAYS), COSTS, "gpus = 0\n", 1, 10, "[sync]\nmode = none\n");
    assert_near(r.step_p50_s, 0.4, 1e-6);
    dl_run_result_free(&r);
}

static void bad_traffic_is_refused(void **state DL_UNUSED)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[traffic o]\nfrom = 0, 1\nto = 2\nbytes = 1MB\nevery_ns = 1e6\n",
         "from has 2 nodes, to has 1"},
        {"[traffic o]\nfrom = 1\nto = 1\nbytes = 1MB\nevery_ns = 1e6\n", "node 1 sends to itself"},
        {"[traffic o]\nfrom = 1\nto = 4\nbytes = 1MB\nevery_ns = 1e6\n",
         "[traffic o]: node 4, but there are 4 nodes, from 0"},
        {"[traffic o]\nfrom = 1\nto = 2\nbytes = 1MB\n", "every_ns"},
        {"[traffic o]\nfrom = 1\nto = 2\nbytes = 1MB\nevery_ns = 1e6\n[tcp]\n",
         "other jobs are not simulated beside [tcp]"},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s", LEAVES(""), cases[i].text);
        DL_SCOPED(dl_machine) m = {0};
        dl_error err = {0};
        assert_int_not_equal(dl_machine_read_text(&m, "m.ini", text, strlen(text), &err), DL_OK);
        assert_contains(err.text, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_shares_an_uplink),
        cmocka_unit_test(a_server_shares_its_port),
        cmocka_unit_test(one_worker_is_as_fast_as_ever),
        cmocka_unit_test(bad_traffic_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
