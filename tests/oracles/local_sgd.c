/* Averages every H local steps of t = 1.1 ms, between four nodes with one GPU each: 8 MB around a
 * ring at 1 GB/s take T = 2 x 3/4 x 8 MB / 1 GB/s = 12 ms. Fraction of the time in which the GPUs
 * compute:
 *
 *   merged immediately      H t / (H t + T)
 *   merged L steps later    H t / (H t + max(0, T - L t))
 *   in F fragments          H t / (H t + F max(0, T / F - L t))
 *   two levels              H t / (H (t + T_inside) + T_between)   two sites of two nodes: 8 MB at
 *                                                                  500 MB/s, 16 ms, and 4 ms inside
 *   through host memory     H t / (H t + T + 2 T_copy)
 *
 * Learners that wait for one another through a syncer take, with exponential steps, the time of the
 * slowest one plus that of the merge. Uploads of learners that never wait, and do not see their own
 * merge either, are n versions stale on average. */
#include "tests/gpu_fixture.h"
#include "tests/oracles/oracles.h"

#define STEP_MS 1.1
#define RING_MS 12.0
#define MACHINE                                                         \
    "[machine]\nschema = 1\nname = nodes\nnodes = 4\npeer = all\n"      \
    "[gpu_model g]\nmemory_bytes = 1GB\nmemory_bytes_per_s = 100GB/s\n" \
    "fp32_flop_per_s = 1Tflop/s\n"                                      \
    "[link pcie]\nbytes_per_s = 4GB/s\nlatency_ns = 0\n"                \
    "[link wire]\nbytes_per_s = 1GB/s\nlatency_ns = 0\n"                \
    "[host]\nmemory_bytes_per_s = 1000GB/s\n"                           \
    "[gpus 0]\nmodel = g\nparent = socket0\nlink = pcie\n"              \
    "[nics 0]\nparent = socket0\nlink = wire\nport = wire\n"
#define COSTS                                                 \
    "[costs]\nschema = 1\nparameter_bytes = 8000000\n"        \
    "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"  \
    "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n" \
    "[op a.update]\nfixed_ns = 100000\nper_sample_ns = 0\n" FIXTURE_FREE_DISPATCH

#define INTERVALS 40

/* Returns this fraction over INTERVALS intervals, after two for warm-up; the last step waits for
 * the last average, T / F. */
static double utilisation(int interval, const char *sites, const char *sync)
{
    char path[64], machine[2048];
    snprintf(path, sizeof path, "oracle_nodes_%d.ini", (int)getpid());
    snprintf(machine, sizeof machine, MACHINE "%s", sites);
    fixture_write(path, machine);
    DL_SCOPED(dl_costs) costs = fixture_costs(COSTS);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = %d\nwarmup = %d\n[machine]\nfile = %s\nworkers = 4\n[workload]\n"
        "costs = c.ini\nbatch_per_worker = 1\n[sync]\nmode = average\nwhere = allreduce\n"
        "interval = %d\n%s[exchange]\nalgorithm = ring\n",
        INTERVALS * interval, 2 * interval, path, interval, sync);
    unlink(path);
    DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
    return r.part_frac[DL_PART_COMPUTE];
}

static double expected(int interval, double exposed_ms)
{
    return interval * STEP_MS / (interval * STEP_MS + exposed_ms);
}

static void check_fragments(int interval, int fragments, int lag)
{
    char sync[80];
    snprintf(sync, sizeof sync, "fragments = %d\nlag = %d\n", fragments, lag);
    const double left_ms = fragments * fmax(0, RING_MS / fragments - lag * STEP_MS);
    oracle_near(expected(interval, left_ms), utilisation(interval, "", sync), 1e-4,
                "average interval=%d fragments=%d lag=%d: computing", interval, fragments, lag);
}

static void check_syncer(int n)
{
    enum { STEPS = 20000 };
    dl_run_result r = oracle_run("async_average", n, STEPS, "interval = 1\n",
                                 "kind = exponential\n[syncer]\nquorum = 64\ngrace_s = 1000\n"
                                 "merge_s = 0.0005\nwait_s = 1000\n");
    oracle_near(oracle_harmonic(n, 1) + 0.5, 1e3 * r.averaging->outer_step_mean_s,
                ORACLE_ERRORS * sqrt(oracle_harmonic(n, 2) / STEPS),
                "async_average n=%d, all wait: ms a merge, H_n + 0.5", n);
    dl_run_result_free(&r);
    r = oracle_run("async_average", n, STEPS, "interval = 1\n",
                   "kind = exponential\n[syncer]\nmerge_s = 1e-9\n");
    oracle_near(n, oracle_staleness_of(&r, -1).mean, 0.02 * n,
                "async_average n=%d, nobody waits: mean staleness, n", n);
    dl_run_result_free(&r);
}

void oracles_local_sgd(void)
{
    for (int h = 1; h <= 64; h *= 4) {
        oracle_near(expected(h, RING_MS), utilisation(h, "", ""), 1e-4,
                    "average interval=%d: computing, H t / (H t + T)", h);
    }
    for (int lag = 4; lag <= 12; lag += 4)
        check_fragments(16, 1, lag);
    for (int lag = 0; lag <= 3; lag++)
        check_fragments(16, 4, lag);
    for (int lag = 0; lag <= 3; lag++)
        check_fragments(16, 5, lag);
    oracle_near(16 * STEP_MS / (16 * (STEP_MS + 8) + 16 + 4),
                utilisation(16,
                            "[site a]\nbytes_per_s = 500MB/s\n[site b]\nbytes_per_s = 500MB/s\n",
                            "inside = allreduce\n"),
                1e-3, "average interval=16, two sites of two: computing");
    oracle_near(expected(16, RING_MS + 2 * 2),
                utilisation(16, "", "[exchange]\ncollectives = hosts\n"), 1e-4,
                "average interval=16 between hosts: computing");
    for (int n = 2; n <= 8; n *= 2)
        check_syncer(n);
}
