/* Settings of the exchange between workers of several GPUs, against closed forms. Two workers of
 * two stages, of two layers each, on the four GPUs of a node. */
#include "tests/island_fixture.h"

#include <math.h>

#define STAGES "layout = pp=2\n"
#define PS "[pipeline]\nmicro_batches = 1\n[sync]\nmode = ps\n"

/* Writes costs of four layers of `bytes` each, whose server needs a nanosecond to read or write a
 * byte. */
static char *costs_of(double bytes, const char *rest)
{
    char *text = dl_format("[costs]\nschema = 1\nparameter_bytes = %.0f\n" FIXTURE_FREE_DISPATCH
                           "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9, measured\n"
                           "write_bytes_per_s = 1e9\n[sync]\nbarrier_ns = 0\nlock_ns = 0\n"
                           "[overlap]\nslowdown = 1\n%s",
                           4 * bytes, rest);
    for (int l = 0; l < 4; l++) {
        dl_extend(&text,
                  "[op %c.forward]\nfixed_ns = 1e5\nper_sample_ns = 0\n"
                  "[op %c.backward]\nfixed_ns = 2e5\nper_sample_ns = 0\n"
                  "[layer %c]\noutput_bytes_per_sample = 0\nparameter_bytes = %.0f\n",
                  'a' + l, 'a' + l, 'a' + l, bytes);
    }
    return text;
}

static double step_on_ns(const char *machine_text, double bytes, const char *machine,
                         const char *rest)
{
    const DL_AUTOFREE char *costs = costs_of(bytes, "");
    DL_SCOPED(dl_run_result) r = fixture_run_machine(machine_text, costs, machine, 2, 20, rest);
    return 1e9 * r.step_p50_s;
}

static double step_ns(double bytes, const char *rest)
{
    return step_on_ns(FIXTURE_GPUS, bytes, STAGES, rest);
}

/* With a lag of one step, a step takes as long as the slower of computing and the exchange, which
 * is what a step without a lag takes beside computing. */
static void tensors_of_stages_may_lag(void **state DL_UNUSED)
{
    static const char *const settings[] = {
        "bucket_bytes = 300000\n",
        "slice_bytes = 70000\nsum = on_arrival\n",
        "fetch = after\norder = together\n",
        "fetch = pushed\ncopies = gpu\n",
        "node_sum = yes\nshards = 2\ntensors = round_robin\nbucket_bytes = 300000\n",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const DL_AUTOFREE char *alone = dl_format(PS "[exchange]\n%s", settings[i]);
        const DL_AUTOFREE char *lags = dl_format(PS "lag = 1\n[exchange]\n%s", settings[i]);
        const double compute_ns = step_ns(1, lags);
        assert_near(compute_ns, 4 * 3e5 + 2 * 300, 1e-3);
        const double exchange_ns = step_ns(1e6, alone) - compute_ns;
        assert_true(exchange_ns > compute_ns);
        assert_near(step_ns(1e6, lags), exchange_ns, 1e-5);
    }
}

/* With one worker, whose gradients are applied as soon as they are summed, async is ps. */
static void one_pipeline_is_never_late(void **state DL_UNUSED)
{
    static const char *const settings[] = {"overlap = yes\n", "bucket_bytes = 300000\n",
                                           "overlap = yes\nfetch = after\nslice_bytes = 70000\n",
                                           "overlap = yes\nfetch = pushed\ncompress = fp16\n"};
    const DL_AUTOFREE char *costs = costs_of(1e6, "");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        double of_ns[2];
        for (int async = 0; async < 2; async++) {
            const DL_AUTOFREE char *rest =
                dl_format("[sync]\nmode = %s\n[exchange]\n%s", async ? "async" : "ps", settings[i]);
            DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, STAGES, 1, 20, rest);
            of_ns[async] = 1e9 * r.step_p50_s;
        }
        assert_near(of_ns[1], of_ns[0], 1e-9);
    }
}

/* Two workers of two GPUs that share the parameters, each with half of every layer's, take as long
 * as two workers of one GPU with layers of half the bytes, but for the gathers. Where layers wait
 * for their own parameters, part of the fetches is beside the forward pass. */
static void shards_fetch_as_whole_workers(void **state DL_UNUSED)
{
    static const char *const fetches[] = {"summed", "after", "pushed", "next_step", "layers"};
    double of_s[2][5];
    for (size_t f = 0; f < sizeof fetches / sizeof *fetches; f++) {
        for (int accumulate = 1; accumulate <= 2; accumulate++) {
            for (int shards = 1; shards <= 2; shards++) {
                const DL_AUTOFREE char *costs = costs_of(shards * 200e3, "");
                const DL_AUTOFREE char *machine = dl_format("layout = fsdp=%d,dp=2\n", shards);
                const DL_AUTOFREE char *rest =
                    dl_format("[sync]\nmode = ps\naccumulate = %d\n[exchange]\noverlap = yes\n"
                              "bucket_bytes = %d\nfetch = %s\n",
                              accumulate, shards * 200000, fetches[f]);
                DL_SCOPED(dl_run_result) r = run(costs, machine, 8, rest);
                of_s[shards - 1][f] = r.step_p50_s;
            }
            assert_near(of_s[1][f], of_s[0][f], 0.03);
        }
    }
    /* All but the first of the four fetches, of 200 kB at 5 GB/s, and their latencies. */
    assert_near(of_s[0][1] - of_s[0][3], 3 * (200e3 / 5e9 + 200e-9), 1e-3);
    assert_near(of_s[1][1] - of_s[1][3], 3 * (200e3 / 5e9 + 200e-9), 0.2);
}

/* A ring of two GPUs takes bytes / 5 ns of the links that both stages share and 800 ns of latency.
 * Buckets of half a stage's bytes take this latency twice. */
static void buckets_follow_one_another(void **state DL_UNUSED)
{
    static const char *const modes[] = {"allreduce", "average", "bmuf"};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        double of_ns[2];
        for (int halves = 0; halves < 2; halves++) {
            const DL_AUTOFREE char *rest =
                dl_format("[sync]\nmode = %s\n[exchange]\noverlap = no\nalgorithm = ring\n"
                          "bucket_bytes = %d\n",
                          modes[m], halves ? 1000000 : 0);
            of_ns[halves] = step_ns(1e6, rest);
        }
        assert_near(of_ns[1] - of_ns[0], 800, 1e-3);
    }
}

/* An all-reduce moves each byte as often as a reduce-scatter and a gather together. 16-bit messages
 * halve all of it or, if workers divide the optimizer's state, the reduce-scatter's half. */
static void divided_states_have_whole_gathers(void **state DL_UNUSED)
{
    static const char *const sharded[] = {"none", "optimizer"};
    const DL_AUTOFREE char *costs = costs_of(10e3, "");
    double saved_bytes[2];
    for (int s = 0; s < 2; s++) {
        double moved_bytes[2];
        for (int fp16 = 0; fp16 < 2; fp16++) {
            const DL_AUTOFREE char *rest =
                dl_format("[sync]\nmode = allreduce\n[exchange]\noverlap = yes\n"
                          "algorithm = ring\nsharded = %s\ncompress = %s\n",
                          sharded[s], fp16 ? "fp16" : "none");
            DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, STAGES, 2, 20, rest);
            moved_bytes[fp16] = r.usage.traffic_bytes;
        }
        saved_bytes[s] = moved_bytes[0] - moved_bytes[1];
    }
    assert_near(saved_bytes[0], 20 * 2 * 40e3 / 2, 1e-9);
    assert_near(saved_bytes[1], saved_bytes[0] / 2, 1e-9);
}

/* Gradients are pushed to a server, or exchanged with nobody, as they are; only all-reduces copy
 * them into buckets first. */
static void servers_need_no_buckets(void **state DL_UNUSED)
{
    static const char bucket[] = "[op net.bucket]\nfixed_ns = 60000\nper_sample_ns = 0\n";
    static const double copied_ns[] = {0, 0, 60e3};
    static const char *const modes[] = {"none", "ps", "allreduce"};
    for (int m = 0; m < 3; m++) {
        double of_ns[2];
        for (int copies = 0; copies < 2; copies++) {
            const DL_AUTOFREE char *costs = costs_of(10e3, copies ? bucket : "");
            const DL_AUTOFREE char *rest =
                dl_format("[sync]\nmode = %s\n[exchange]\noverlap = yes\n", modes[m]);
            DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "layout = tp=2\n", 2, 20, rest);
            of_ns[copies] = 1e9 * r.step_p50_s;
        }
        assert_near(of_ns[1] - of_ns[0], copied_ns[m], 1);
    }
}

/* The server is on GPU 0, a first stage. The driver stages copies between the GPUs, over four edges
 * of 100 ns and 10 GB/s. While the first stages' backward passes wait for a crossing without bytes
 * and then run, the second stages' bytes come from GPUs 1 and 3 and return to them, both at a time;
 * their sum, of three vectors at 100 GB/s, stops GPU 0. So GPU 2's bytes come before GPU 0 has its
 * own ones; if staged copies stop both GPUs, these stop it, too. */
static void staged_copies_stop_ranks(void **state DL_UNUSED)
{
    static const char *const staged[] = {"beside", "alone"};
    const double latency_ns = 400;
    for (double bytes = 10e3; bytes < 100e3; bytes *= 2) {
        double of_ns[2];
        for (int alone = 0; alone < 2; alone++) {
            const DL_AUTOFREE char *rest =
                dl_format("[pipeline]\nmicro_batches = 1\n[sync]\n"
                          "mode = ps\nwhere = gpu:0\n[exchange]\noverlap = yes\nstaged = %s\n",
                          staged[alone]);
            of_ns[alone] = step_on_ns(FIXTURE_GPUS_OF("peer = none\n"), bytes / 2, STAGES, rest);
        }
        const double way_ns = latency_ns + 2 * bytes / 10, sum_ns = 3 * bytes / 100;
        assert_near(of_ns[1] - of_ns[0], 2 * way_ns + sum_ns - latency_ns, 1e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_stages_may_lag),
        cmocka_unit_test(one_pipeline_is_never_late),
        cmocka_unit_test(shards_fetch_as_whole_workers),
        cmocka_unit_test(buckets_follow_one_another),
        cmocka_unit_test(servers_need_no_buckets),
        cmocka_unit_test(divided_states_have_whole_gathers),
        cmocka_unit_test(staged_copies_stop_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
