/* Averages between nodes with one GPU each, compared with closed forms. A step computes for 1.1 ms;
 * 8 MB of parameters take 2 x 3/4 x 8 MB / 1 GB/s = 12 ms in a ring of four nodes at 1 GB/s, and
 * six hops with 200 ns and two latencies of 5 us each. */
#include "tests/gpu_fixture.h"

#include "sim/scenario/without.h"

#define COSTS                                                 \
    "[costs]\nschema = 1\nparameter_bytes = 8000000\n%s"      \
    "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"  \
    "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n" \
    "[op a.update]\nfixed_ns = 100000\nper_sample_ns = 0\n"   \
    "[overlap]\nslowdown = 1\n" FIXTURE_FREE_DISPATCH

#define STEP_MS 1.1
#define RING_MS 12.0
#define AVERAGE "[sync]\nmode = average\nwhere = allreduce\n"
#define RING "[exchange]\nalgorithm = ring\n"

static double copies_factor = 1; /* factor on the time of copies */

/* Runs on the nodes, with additional lines of the machine file, of [costs], and of the scenario: in
 * [scenario], in [machine], and after them. */
static dl_run_result run_of(int workers, const char *machine, const char *costs,
                            const char *scenario_lines, const char *machine_lines, const char *rest)
{
    char path[64], machine_text[2048], costs_text[1024];
    snprintf(path, sizeof path, "nodes_%d.ini", (int)getpid());
    snprintf(machine_text, sizeof machine_text, FIXTURE_NODES("8") "%s", machine);
    snprintf(costs_text, sizeof costs_text, COSTS, costs);
    fixture_write(path, machine_text);
    DL_SCOPED(dl_costs) read = fixture_costs(costs_text);
    dl_scenario scenario = fixture_scenario("[scenario]\n%s[machine]\nfile = %s\nworkers = %d\n%s"
                                            "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n%s",
                                            scenario_lines, path, workers, machine_lines, rest);
    unlink(path);
    if (copies_factor < 1) {
        unsigned copies = 0;
        assert_int_equal(dl_without_parse("copy", &copies, NULL), DL_OK);
        dl_without_lessen(copies, copies_factor, &scenario, &read);
    }
    dl_run_result result = fixture_run(&read, &scenario);
    dl_scenario_free(&scenario);
    return result;
}

static dl_run_result run(const char *machine, const char *costs, const char *scenario_lines,
                         const char *machine_lines, const char *rest)
{
    return run_of(4, machine, costs, scenario_lines, machine_lines, rest);
}

static double step_ms_of(int workers, const char *machine, const char *costs,
                         const char *scenario_lines, const char *machine_lines, const char *rest)
{
    dl_run_result r = run_of(workers, machine, costs, scenario_lines, machine_lines, rest);
    const double ms = 1e3 * r.step_mean_s;
    dl_run_result_free(&r);
    return ms;
}

static double step_ms(const char *machine, const char *costs, const char *scenario_lines,
                      const char *machine_lines, const char *rest)
{
    return step_ms_of(4, machine, costs, scenario_lines, machine_lines, rest);
}

/* Compute utilisation = H t / (H t + T). */
static void utilisation_is_computing_over_all(void **state DL_UNUSED)
{
    for (int h = 1; h <= 64; h *= 4) {
        char rest[256];
        snprintf(rest, sizeof rest, AVERAGE "interval = %d\n" RING, h);
        DL_SCOPED(dl_run_result) r = run("", "", "steps = 64\n", "", rest);
        assert_near(r.part_frac[DL_PART_COMPUTE], h * STEP_MS / (h * STEP_MS + RING_MS), 1e-4);
        assert_near(1e3 * r.step_mean_s, STEP_MS + RING_MS / h, 1e-4);
    }
}

/* INTELLECT-1 (arXiv 2412.01152, table 2): 38 minutes of local steps, 469 s per average: H t / (H t
 * + T) gives 82.94 % of the time computing, 83.0 % is published. Both are scaled by 1/1000 here:
 * 2072 steps of 1.1 ms are 2.28 s, and the ring moves 8 MB at 12 MB / 0.469 s = 25.586 MB/s. */
static void a_run_over_the_world_computes_as_published(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run("", "", "steps = 2072\n", "port_bytes_per_s = 25.586MB/s\n",
                                     AVERAGE "interval = 2072\n" RING);
    assert_near(r.part_frac[DL_PART_COMPUTE], 0.8294, 1e-3);
}

/* 16 steps and all four fragments take 17.6 and 12 ms, in which a node sends 2 x 3/4 x 8 MB. The
 * interval in which the warm-up of 20 steps ends does not count, so 40 more steps contain one whole
 * outer step, and 10 contain none. */
static void an_outer_step_is_an_interval_with_its_exchange(void **state DL_UNUSED)
{
    const char *rest = AVERAGE "interval = 16\nfragments = 4\n" RING;
    static const char *const steps[] = {"steps = 64\n", "warmup = 20\nsteps = 40\n",
                                        "warmup = 20\nsteps = 10\n"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        DL_SCOPED(dl_run_result) r = run("", "", steps[i], "", rest);
        const dl_averaging_result *a = r.averaging;
        assert_int_equal(isnan(a->outer_step_mean_s), i == 2);
        assert_int_equal(isnan(a->blocked_s), i == 2);
        if (i < 2) {
            assert_near(1e3 * a->outer_step_mean_s, 16 * STEP_MS + RING_MS, 1e-4);
            assert_near(1e3 * a->outer_step_p95_s, 16 * STEP_MS + RING_MS, 1e-4);
            assert_near(a->site_sent_bytes, 12e6, 1e-9);
        }
        if (i == 0) {
            assert_near(1e3 * a->blocked_s, RING_MS, 1e-4);
            assert_near(1e3 * a->exchange_s, RING_MS, 1e-4);
            assert_near(a->utilisation_frac, 16 * STEP_MS / (16 * STEP_MS + RING_MS), 1e-4);
        }
    }
}

/* Two sites of four nodes: the ring leaves each site once, with 2 x 7/8 x 8 MB; without sites every
 * node sends as much. A server in node 0 sends parameters to the seven others, each of which has
 * done one interval when worker 0, on the same node, has done its four: 11 / 8 on average. A single
 * node sends nothing. */
static void sites_send_to_others(void **state DL_UNUSED)
{
    const char *sites = "[site a]\nbytes_per_s = 100MB/s\n[site b]\nbytes_per_s = 100MB/s\n";
    const struct {
        const char *machine, *rest;
        int workers;
        double bytes;
    } cases[] = {
        {sites, AVERAGE "interval = 4\n" RING, 8, 14e6},
        {"", AVERAGE "interval = 4\n" RING, 8, 14e6},
        {"", AVERAGE "interval = 4\n" RING "compress = int8\n", 8, 14e6 / 4},
        {"", "[sync]\nmode = easgd\ninterval = 4\n", 8, 7 * 8e6 / (11.0 / 8)},
        {"", AVERAGE "interval = 4\n" RING, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result r =
            run_of(cases[i].workers, cases[i].machine, "", "steps = 16\n", "", cases[i].rest);
        assert_near(r.averaging->site_sent_bytes, cases[i].bytes, 1e-9);
        dl_run_result_free(&r);
    }
}

/* One of two workers takes 2.1 ms per step: the other is blocked by the exchange of 8 ms and waits
 * 4 x 1 ms for it. */
static void waiting_for_a_slow_worker_blocks(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run_of(2, "", "", "steps = 16\n", "",
                                        AVERAGE "interval = 4\n" RING "[noise]\nslow = 1:2\n");
    assert_near(1e3 * r.averaging->outer_step_mean_s, 4 * 2.1 + 8, 1e-4);
    assert_near(1e3 * r.averaging->blocked_s, 8 + 2, 1e-4);
    assert_near(r.averaging->utilisation_frac, (4.4 + 8.4) / 2 / 16.4, 1e-4);
}

static void a_port_of_another_rate(void **state DL_UNUSED)
{
    assert_near(step_ms("", "", "steps = 8\n", "port_bytes_per_s = 250MB/s\n", AVERAGE RING),
                STEP_MS + 4 * RING_MS, 1e-4);
}

/* Steps 1 to 3 are not measured. With an average after every fifth step, two of steps 4 to 11 have
 * one: 5 and 10. */
static void a_warm_up_is_not_measured(void **state DL_UNUSED)
{
    assert_near(step_ms("", "", "steps = 8\nwarmup = 3\n", "", AVERAGE "interval = 5\n" RING),
                STEP_MS + 2 * RING_MS / 8, 1e-4);
}

/* Worker 0 takes 4.1 ms per step, or 100.1; the others end their warm-up of 20 steps at 22 ms, and
 * all their steps at 66. So steps 7 to 17 of worker 0 are measured, from 24.6 to 69.7 ms; or the
 * only step that it ends. */
static void a_warm_up_is_that_of_the_fastest(void **state DL_UNUSED)
{
    const char *steps = "steps = 40\nwarmup = 20\n";
    dl_run_result r = run("", "", steps, "", "[sync]\nmode = none\n[noise]\nslow = 0:4\n");
    assert_near(1e3 * r.worker_step_s[0], 4.1, 1e-9);
    assert_near(1e3 * r.worker_step_s[1], 1.1, 1e-9);
    assert_near(r.throughput_per_s, (3 * 40 + 11) / (0.0697 - 0.022), 1e-9);
    assert_near(r.usage.busiest_frac, 1, 1e-9);
    dl_run_result_free(&r);
    r = run("", "", steps, "", "[sync]\nmode = none\n[noise]\nslow = 0:100\n");
    assert_near(1e3 * r.worker_step_s[0], 100.1, 1e-9);
    dl_run_result_free(&r);
}

/* The first average takes longer: one of ten, or part of the warm-up. */
static void the_first_average_connects(void **state DL_UNUSED)
{
    const char *machine = "[network]\nfirst_use_ns = 40ms\n";
    assert_near(step_ms(machine, "", "steps = 10\n", "", AVERAGE RING), STEP_MS + RING_MS + 4,
                1e-4);
    assert_near(step_ms(machine, "", "steps = 10\nwarmup = 1\n", "", AVERAGE RING),
                STEP_MS + RING_MS, 1e-4);
    assert_near(step_ms(machine, "", "steps = 10\n", "", "[sync]\nmode = allreduce\n" RING),
                STEP_MS + RING_MS, 1e-4);
}

/* An outer step reads 5 vectors and writes 2, 56 MB at 100 GB/s: 0.56 ms; bmuf takes the same.
 * Reading 12 and writing 8 vectors takes 1.6 ms. */
static void an_outer_step_passes_through_memory(void **state DL_UNUSED)
{
    assert_near(step_ms("", "", "steps = 8\n", "", AVERAGE "outer = nesterov\n" RING),
                STEP_MS + RING_MS + 0.56, 1e-4);
    assert_near(step_ms("", "", "steps = 8\n", "", "[sync]\nmode = bmuf\nwhere = allreduce\n" RING),
                STEP_MS + RING_MS + 0.56, 1e-4);
    assert_near(step_ms("", "[update]\nouter_reads = 12\nouter_writes = 8\n", "steps = 8\n", "",
                        AVERAGE "outer = nesterov\n" RING),
                STEP_MS + RING_MS + 1.6, 1e-4);
}

/* Four fragments, each every 16 steps: a quarter of the bytes after every fourth step. */
static void fragments_take_their_turns(void **state DL_UNUSED)
{
    dl_run_result r =
        run("", "", "steps = 64\n", "", AVERAGE "interval = 16\nfragments = 4\n" RING);
    assert_near(1e3 * r.step_mean_s, STEP_MS + RING_MS / 16, 1e-4);
    assert_near(1e3 * r.step_p99_s, STEP_MS + RING_MS / 4, 1e-4);
    assert_int_equal(r.updates, 16);
    assert_near(r.usage.traffic_bytes, 16 * 6 * 2e6, 1e-9); /* 2 (n-1) parts of 2 MB per fragment */
    dl_run_result_free(&r);
}

/* Three fragments of 4 ms in 16 steps, after steps 6, 11 and 16 (5 x 3/16 < 1 <= 6 x 3/16): never
 * two in one step. 4 steps of 1.1 ms hide each fragment before the next one is sent; 3 steps leave
 * 0.7 ms exposed. */
static void fragments_are_spread_evenly(void **state DL_UNUSED)
{
    dl_run_result r =
        run("", "", "steps = 64\n", "", AVERAGE "interval = 16\nfragments = 3\n" RING);
    assert_int_equal(r.updates, 12);
    assert_near(1e3 * r.step_mean_s, STEP_MS + RING_MS / 16, 1e-4);
    assert_near(1e3 * r.step_p99_s, STEP_MS + RING_MS / 3, 1e-4);
    dl_run_result_free(&r);
    const char *lines = "steps = 160\nwarmup = 32\n";
    assert_near(step_ms("", "", lines, "", AVERAGE "interval = 16\nfragments = 3\nlag = 4\n" RING),
                STEP_MS, 1e-4);
    assert_near(step_ms("", "", lines, "", AVERAGE "interval = 16\nfragments = 3\nlag = 3\n" RING),
                STEP_MS + 3 * (RING_MS / 3 - 3 * STEP_MS) / 16, 1e-4);
}

/* An average arrives during `lag` steps of 1.1 ms: of 12 ms, 12 - 1.1 lag remain exposed per
 * interval, for any number of measured intervals, with or without a given warm-up. */
static void a_lag_hides_the_exchange(void **state DL_UNUSED)
{
    for (int lag = 1; lag < 16; lag += 2) {
        char rest[256];
        snprintf(rest, sizeof rest, AVERAGE "interval = 16\nlag = %d\n" RING, lag);
        const double left_ms = fmax(0, RING_MS - lag * STEP_MS);
        static const char *const runs[] = {"steps = 160\nwarmup = 32\n", "steps = 1\n",
                                           "steps = 160\n"};
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
            assert_near(step_ms("", "", runs[i], "", rest), STEP_MS + left_ms / 16, 1e-4);
    }
}

/* Six fragments of 2.67 ms (16 ms in total) are sent every second step; the two steps in between
 * hide 2.2 ms of each. A run of a single interval of 12 steps is limited by the exchange like a
 * long run. */
static void a_short_run_is_bound_by_its_exchange(void **state DL_UNUSED)
{
    for (int steps = 12; steps <= 1200; steps *= 10) {
        char lines[64];
        snprintf(lines, sizeof lines, "steps = %d\n", steps);
        assert_near(step_ms("", "", lines, "port_bytes_per_s = 750MB/s\n",
                            AVERAGE "interval = 12\nfragments = 6\nlag = 8\n" RING),
                    RING_MS * 4 / 3 / 12, 1e-4);
    }
}

/* Two fragments of 6 ms; 4 steps hide 4.4 ms of each. */
static void what_is_hidden_is_exchanged_too(void **state DL_UNUSED)
{
    dl_run_result r =
        run("", "", "steps = 160\n", "", AVERAGE "interval = 16\nfragments = 2\nlag = 4\n" RING);
    assert_near(1e3 * r.averaging->exchange_s, RING_MS, 1e-4);
    assert_near(1e3 * r.averaging->blocked_s, 2 * (6 - 4.4), 1e-3);
    dl_run_result_free(&r);
}

/* One of two workers takes 1.6 ms for passes of 1 ms: the other waits for it, and neither waits for
 * an exchange. */
static void a_slow_worker_lags_as_well(void **state DL_UNUSED)
{
    assert_near(step_ms_of(2, "", "", "steps = 64\n", "",
                           AVERAGE "interval = 16\nlag = 12\n" RING "[noise]\nslow = 1:1.6\n"),
                STEP_MS + 0.6, 2e-2);
}

/* A fragment of 3 ms every four steps; two steps hide 2.2 ms of it. */
static void fragments_hide_sooner(void **state DL_UNUSED)
{
    assert_near(step_ms("", "", "steps = 160\nwarmup = 32\n", "",
                        AVERAGE "interval = 16\nfragments = 4\nlag = 2\n" RING),
                STEP_MS + (RING_MS / 4 - 2 * STEP_MS) / 4, 1e-4);
    assert_near(step_ms("", "", "steps = 160\nwarmup = 32\n", "",
                        AVERAGE "interval = 16\nfragments = 4\nlag = 3\n" RING),
                STEP_MS, 1e-4);
}

/* A quarter and an eighth of the bytes; quantising 8 MB and back takes the times at fractions of
 * 100 GB/s (sim/compress.c). */
static void quantised_averages_move_fewer_bytes(void **state DL_UNUSED)
{
    assert_near(step_ms("", "", "steps = 8\n", "", AVERAGE RING "compress = int8\n"),
                STEP_MS + RING_MS / 4 + 0.1 / 0.78 + 0.1 / 0.75, 1e-4);
    assert_near(step_ms("", "", "steps = 8\n", "", AVERAGE RING "compress = fp4\n"),
                STEP_MS + RING_MS / 8 + 0.09 / 0.45 + 0.09 / 0.41, 1e-4);
}

/* Through host memory, with PCIe at 4 GB/s: 8 MB up in 2 ms, around the ring of hosts as before, 2
 * ms down; with int8 a quarter of all that, and the time of quantising. Memories with 1000 GB/s,
 * which each copy and transfer crosses once, are no limit; with 0.5 GB/s they limit the ring, whose
 * hosts send and receive 12 MB each in 48 ms, and the copies, 16 ms each. */
static void averages_go_through_hosts(void **state DL_UNUSED)
{
    const char *pcie = "[link x16]\nbytes_per_s = 4GB/s\nlatency_ns = 0\n";
    static const struct {
        const char *memory, *sync;
        double more_ms;
    } cases[] = {
        {"1000GB/s", AVERAGE RING "collectives = hosts\n", RING_MS + 2 + 2},
        {"1000GB/s", AVERAGE RING "collectives = hosts\ncompress = int8\n",
         (RING_MS + 2 + 2) / 4 + 0.1 / 0.78 + 0.1 / 0.75},
        {"1000GB/s", "[sync]\nmode = allreduce\n" RING "collectives = hosts\n", RING_MS + 2 + 2},
        {"0.5GB/s", AVERAGE RING "collectives = hosts\n", 48 + 16 + 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64], text[2048];
        snprintf(path, sizeof path, "staged_%d.ini", (int)getpid());
        snprintf(text, sizeof text,
                 "[machine]\nschema = 1\nname = nodes\nnodes = 4\npeer = all\n"
                 "[gpu_model g]\nmemory_bytes = 1GB\nmemory_bytes_per_s = 100GB/s\n"
                 "fp32_flop_per_s = 1Tflop/s\n%s[link wire]\nbytes_per_s = 1GB/s\n"
                 "latency_ns = 0\n[host]\nmemory_bytes_per_s = %s\n"
                 "[gpus 0]\nmodel = g\nparent = socket0\nlink = x16\n"
                 "[nics 0]\nparent = socket0\nlink = wire\nport = wire\n",
                 pcie, cases[i].memory);
        fixture_write(path, text);
        snprintf(text, sizeof text, COSTS, "");
        DL_SCOPED(dl_costs) costs = fixture_costs(text);
        dl_scenario scenario =
            fixture_scenario("[scenario]\nsteps = 8\n[machine]\nfile = %s\nworkers = 4\n"
                             "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n%s",
                             path, cases[i].sync);
        unlink(path);
        DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
        assert_near(1e3 * r.step_mean_s, STEP_MS + cases[i].more_ms, 2e-3);
        dl_scenario_free(&scenario);
    }
}

/* The first worker to end has handed over an average that others no longer reach; or a worker with
 * an interval of one step, rounded up from 0.3, is already back at the barrier while others still
 * fetch. */
static void averages_at_the_end_are_abandoned(void **state DL_UNUSED)
{
    static const char *const rests[] = {
        AVERAGE "interval = 8\nlag = 3\n" RING "[noise]\nkind = lognormal\nsigma = 0.3\n",
        AVERAGE "interval = 2\nlag = 1\n" RING "[noise]\nkind = lognormal\nsigma = 0.3\n",
        AVERAGE "interval = 4\ninterval_by_speed = yes\n" RING "[noise]\nslow = 0:14\n",
        AVERAGE "interval = 4\ninterval_by_speed = yes\nlag = 1\n" RING "[noise]\nslow = 0:14\n"};
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        DL_SCOPED(dl_run_result) r = run("", "", "steps = 40\n", "", rests[i]);
        assert_true(r.samples >= 3 * 37);
        assert_true(r.samples <= 4 * 40);
    }
}

static void impossible_lags_and_fragments_are_refused(void **state DL_UNUSED)
{
    static const char *const wrong[] = {"mode = average\ninterval = 8\nlag = 8\n",
                                        "mode = average\ninterval = 8\nfragments = 9\n",
                                        "mode = allreduce\nlag = 2\n", "mode = bmuf\nlag = 1\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[512];
        dl_scenario scenario = {0};
        snprintf(
            text, sizeof text,
            "[machine]\ncores = 4\nworkers = 2\n[workload]\ncosts = c.ini\nbatch = 4\n[sync]\n%s",
            wrong[i]);
        assert_int_not_equal(dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), NULL),
                             DL_OK);
    }
}

static void hosts_of_several_gpus_are_refused(void **state DL_UNUSED)
{
    static const char *const wrong[] = {
        "placement = 21\n[sync]\nmode = average\nwhere = allreduce\n",
        "workers = 2\n[exchange]\noverlap = yes\n[sync]\nmode = "
        "allreduce\n"};
    fixture_write("hosts.ini", FIXTURE_GPUS);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[512];
        dl_scenario scenario = {0};
        dl_error err = {0};
        snprintf(text, sizeof text,
                 "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[machine]\nfile = hosts.ini\n%s"
                 "[exchange]\ncollectives = hosts\n",
                 wrong[i]);
        assert_int_equal(dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err),
                         DL_ERR_DATA);
        if (strstr(err.text, "only of one worker on each node") == NULL) fail_msg("%s", err.text);
    }
    unlink("hosts.ini");
}

/* Two sites of four nodes each: a ring of eight nodes has two edges between them, with 100 MB/s
 * each way, over which 2 x 7/8 x 8 MB take 140 ms; then a pair of sites that is slower and 20 ms
 * apart. */
static void sites_are_as_far_as_the_file_says(void **state DL_UNUSED)
{
    const char *rest = "[sync]\nmode = average\nwhere = allreduce\n" RING;
    const char *near = "[site a]\nbytes_per_s = 100MB/s\n[site b]\nbytes_per_s = 100MB/s\n";
    const char *far = "[site a]\nbytes_per_s = 100MB/s\n[site b]\n"
                      "[between a b]\nbytes_per_s = 50MB/s\nlatency_ns = 20ms\n";
    const double bytes_ms = 2 * 7.0 / 8 * 8 / 0.1;
    assert_near(step_ms_of(8, near, "", "steps = 4\n", "", rest), STEP_MS + bytes_ms, 1e-3);
    assert_near(step_ms_of(8, near, "", "steps = 4\n", "site_bytes_per_s = 200MB/s\n", rest),
                STEP_MS + bytes_ms / 2, 1e-3);
    /* A delay passes while the sender sends its next piece: only the last piece's delay is
     * exposed. */
    assert_near(step_ms_of(8, far, "", "steps = 4\n", "", rest), STEP_MS + 2 * bytes_ms + 20, 1e-3);
}

/* A scenario gives the two sites of a machine without sites. Then it replaces the sites of a
 * machine file: rate and pairs are gone, and the delay is another one. */
static void the_scenario_divides_a_machine_into_sites(void **state DL_UNUSED)
{
    const char *rest = "[network]\nsites = 2\nsite_latency_ns = 20ms\n"
                       "[sync]\nmode = average\nwhere = allreduce\n" RING;
    const char *late = "[network]\nsite_latency_ns = 10ms\n"
                       "[sync]\nmode = average\nwhere = allreduce\n" RING;
    const char *core = "[network]\nsites = 2\nbytes_per_s = 100MB/s\n"
                       "[sync]\nmode = average\nwhere = allreduce\n" RING;
    const char *own = "[site a]\nbytes_per_s = 10MB/s\n[site b]\n[site c]\n"
                      "[between a b]\nbytes_per_s = 50MB/s\nlatency_ns = 70ms\n";
    const char *rates[] = {"site_bytes_per_s = 100MB/s\n", "site_bytes_per_s = 50MB/s\n"};
    const double bytes_ms = 2 * 7.0 / 8 * 8 / 0.1;
    for (int r = 0; r < 2; r++) {
        const double expected_ms = STEP_MS + bytes_ms * (r + 1) + 20;
        assert_near(step_ms_of(8, "", "", "steps = 4\n", rates[r], rest), expected_ms, 1e-3);
        assert_near(step_ms_of(8, own, "", "steps = 4\n", rates[r], rest), expected_ms, 1e-3);
    }
    own = "[site a]\nbytes_per_s = 100MB/s\n[site b]\n[between a b]\nlatency_ns = 70ms\n";
    assert_near(step_ms_of(8, own, "", "steps = 4\n", "", late), STEP_MS + bytes_ms + 10, 1e-3);
    /* All eight edges of the ring pass through the core, a rate that has nothing to do with
     * sites. */
    assert_near(step_ms_of(8, "", "", "steps = 4\n", "", core), STEP_MS + 8 * bytes_ms, 1e-3);
}

/* Two sites of two nodes: after each step 8 MB between two nodes, 8 ms, and then the update; after
 * every eighth step an average of all nodes. Each node averages one half with its counterpart, so
 * that 8 MB leave each site at 500 MB/s, 16 ms, and the nodes of a site exchange their halves, 4
 * ms. */
static void two_levels_exchange_inside_and_between(void **state DL_UNUSED)
{
    const char *sites = "[site a]\nbytes_per_s = 500MB/s\n[site b]\nbytes_per_s = 500MB/s\n";
    const double inside_ms = 8, between_ms = 16 + 4;
    char machine[512];
    snprintf(machine, sizeof machine, "%s", sites);
    DL_SCOPED(dl_run_result) r = run_of(4, machine, "", "steps = 16\n", "nodes = 4\n",
                                        AVERAGE "interval = 8\ninside = allreduce\n" RING);
    assert_near(1e3 * r.step_mean_s, STEP_MS + inside_ms + between_ms / 8, 1e-3);
    assert_near(r.part_frac[DL_PART_COMPUTE], STEP_MS / (STEP_MS + inside_ms + between_ms / 8),
                1e-3);
    /* Two of three workers are in one site: a ring of all three, 2 x 2/3 x 8 MB. */
    assert_near(step_ms_of(3, sites, "", "steps = 16\n", "nodes = 4\n",
                           AVERAGE "interval = 8\ninside = allreduce\n" RING),
                STEP_MS + inside_ms + 2 * 2.0 / 3 * 16 / 8, 1e-3);
    /* Over TCP, rings on both levels are as efficient as one between the sites. */
    const double ms = step_ms_of(4, "[site a]\n[site b]\n[tcp]\nsockets = 4\n", "", "steps = 16\n",
                                 "nodes = 4\n", AVERAGE "interval = 8\ninside = allreduce\n" RING);
    const double wire = (1514.0 + 66) / 1448;
    assert_near(ms, STEP_MS + wire * (inside_ms + (4 + 4) / 8.0), 0.02);
}

/* 4 MB down a chain of three edges at 1 GB/s: 4 ms, and two of 64 chunks before the last node
 * starts. Averages do not broadcast buffers. */
static void buffers_are_sent_before_each_step(void **state DL_UNUSED)
{
    const char *costs = "[broadcast]\nbytes = 4000000\n";
    assert_near(step_ms("", costs, "steps = 8\n", "", "[sync]\nmode = allreduce\n" RING),
                STEP_MS + RING_MS + 4 * (1 + 2.0 / 64), 1e-3);
    assert_near(step_ms("", costs, "steps = 8\n", "", AVERAGE RING), STEP_MS + RING_MS, 1e-4);
}

/* Packets of 1500 bytes carry 1448 bytes of 1514 on the wire, whose rate limits TCP. In addition
 * there are partly filled packets, and acknowledgements in the same ports (66 bytes for each
 * 1514). */
static void over_tcp_headers_and_acknowledgements_count(void **state DL_UNUSED)
{
    const double ms = step_ms("[tcp]\nsockets = 4\n", "", "steps = 8\n", "", AVERAGE RING);
    assert_true(ms > STEP_MS + RING_MS * 1514 / 1448);
    assert_near(ms, STEP_MS + RING_MS * (1514.0 + 66) / 1448, 0.02);
    /* Two sockets with a quarter of the port's rate each. */
    const char *slow = "[tcp]\nsockets = 1\nchannels = 2\nsocket_bytes_per_s = 250MB/s\n";
    assert_near(step_ms(slow, "", "steps = 8\n", "", AVERAGE RING),
                STEP_MS + 2 * RING_MS * (1514.0 + 66) / 1448, 0.02);
}

/* A ring's phases wait for all hops, TCP's slices for some of them; but the rate never exceeds the
 * payload's share of the wire, 1448 of 1514. */
static void no_byte_is_faster_than_its_headers(void **state DL_UNUSED)
{
#define FAR "[site a]\nlatency_ns = 4ms\n[site b]\n[site c]\n[site d]\n"
    const double ring_ms = step_ms(FAR, "", "steps = 8\n", "", AVERAGE RING);
    assert_near(step_ms(FAR "[tcp]\nsockets = 64\n", "", "steps = 8\n", "", AVERAGE RING),
                ring_ms + RING_MS * (1514.0 / 1448 - 1), 1e-3);
}

/* Halving the time of copies halves the time that TCP adds, including timeouts, also at a rate that
 * the scenario gives; without copies the average takes no time. */
static void copies_over_tcp_can_be_taken_away(void **state DL_UNUSED)
{
    const char *tcp = "[tcp]\nsockets = 16\nqueue_ns = 5ms\n";
    const char *slow = "port_bytes_per_s = 25MB/s\n";
    const double whole_ms = step_ms(tcp, "", "steps = 8\n", slow, AVERAGE RING) - STEP_MS;
    assert_true(whole_ms > 1.05 * RING_MS * 40 * 1514 / 1448);
    copies_factor = 0.5;
    assert_near(step_ms(tcp, "", "steps = 8\n", slow, AVERAGE RING), STEP_MS + whole_ms / 2, 1e-3);
    copies_factor = 0;
    assert_near(step_ms(tcp, "", "steps = 8\n", slow, AVERAGE RING), STEP_MS, 1e-4);
    copies_factor = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utilisation_is_computing_over_all),
        cmocka_unit_test(a_run_over_the_world_computes_as_published),
        cmocka_unit_test(an_outer_step_is_an_interval_with_its_exchange),
        cmocka_unit_test(sites_send_to_others),
        cmocka_unit_test(waiting_for_a_slow_worker_blocks),
        cmocka_unit_test(a_port_of_another_rate),
        cmocka_unit_test(a_warm_up_is_not_measured),
        cmocka_unit_test(a_warm_up_is_that_of_the_fastest),
        cmocka_unit_test(the_first_average_connects),
        cmocka_unit_test(an_outer_step_passes_through_memory),
        cmocka_unit_test(fragments_take_their_turns),
        cmocka_unit_test(fragments_are_spread_evenly),
        cmocka_unit_test(a_lag_hides_the_exchange),
        cmocka_unit_test(what_is_hidden_is_exchanged_too),
        cmocka_unit_test(a_short_run_is_bound_by_its_exchange),
        cmocka_unit_test(a_slow_worker_lags_as_well),
        cmocka_unit_test(fragments_hide_sooner),
        cmocka_unit_test(quantised_averages_move_fewer_bytes),
        cmocka_unit_test(averages_go_through_hosts),
        cmocka_unit_test(hosts_of_several_gpus_are_refused),
        cmocka_unit_test(averages_at_the_end_are_abandoned),
        cmocka_unit_test(impossible_lags_and_fragments_are_refused),
        cmocka_unit_test(sites_are_as_far_as_the_file_says),
        cmocka_unit_test(the_scenario_divides_a_machine_into_sites),
        cmocka_unit_test(two_levels_exchange_inside_and_between),
        cmocka_unit_test(buffers_are_sent_before_each_step),
        cmocka_unit_test(over_tcp_headers_and_acknowledgements_count),
        cmocka_unit_test(copies_over_tcp_can_be_taken_away),
        cmocka_unit_test(no_byte_is_faster_than_its_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
