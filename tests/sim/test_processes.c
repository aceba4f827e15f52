#include <stdlib.h>

#include "tests/sim_fixture.h"

#include "sim/scenario/without.h"
#include "sim/sweep.h"

/* All-reduces of 2 processes: 20,000 ns and 10 ns per byte, so 100,000 ns for 8,000 bytes. */
#define REDUCES "[collective allreduce 2]\nbytes_0 = 20000\nbytes_8000 = 100000\n"
#define ONE "[machine]\ncores = 2\nworkers = 1\nprocesses = yes\n"
#define PROCESSES "[machine]\ncores = 2\nworkers = 2\nprocesses = yes\n"

#define LATE "[allreduce_late 2]\nbytes_0 = 6000\nbytes_8000 = 30000\n"

static dl_scenario scenario_of(const char *machine, const char *sync)
{
    return fixture_scenario("[scenario]\nsteps = 20\n%s[workload]\ncosts = c.ini\n"
                            "batch_per_worker = 1\n[sync]\n%s",
                            machine, sync);
}

static double step_ns(const char *costs_text, const char *machine, const char *sync)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    DL_SCOPED(dl_scenario) scenario = scenario_of(machine, sync);
    DL_SCOPED(dl_run_result) result = fixture_run(&costs, &scenario);
    return 1e9 * 2 / result.throughput_per_s;
}

/* Computing takes 1,000,000 ns, the update 100,000; nothing else takes time. */
static void a_step_has_one_all_reduce(void **state)
{
    (void)state;
    assert_near(step_ns(FIXTURE_COSTS REDUCES, PROCESSES, "mode = allreduce\n"), 1200000, 1e-9);
    assert_near(step_ns(FIXTURE_COSTS REDUCES, PROCESSES, "mode = average\n"), 1200000, 1e-9);
    assert_near(step_ns(FIXTURE_COSTS REDUCES, PROCESSES, "mode = average\ninterval = 10\n"),
                1110000, 1e-9);
    /* 4,000 bytes of state: 60,000 ns more. */
    assert_near(step_ns(FIXTURE_COSTS REDUCES, PROCESSES, "mode = average\naverage_state = yes\n"),
                1260000, 1e-9);
}

/* Gradients in two buckets of 2,000 and 6,000 bytes: 40,000 and 80,000 ns. The first ends long
 * before the backward pass. Parameters are averaged in one all-reduce. */
static void gradients_go_in_buckets(void **state DL_UNUSED)
{
    static const char costs[] =
        FIXTURE_COSTS REDUCES "[gradients]\nready_1 = 0.5, 2000\nready_2 = 1, 8000\n";
    assert_near(step_ns(costs, PROCESSES, "mode = allreduce\n"), 1180000, 1e-9);
    assert_near(step_ns(costs, PROCESSES, "mode = average\n"), 1200000, 1e-9);
}

/* Computing takes 1,000,000 ns, each of two processes' half of the update 50,000, all-reduces of
 * 2,000 and 6,000 bytes 40,000 and 80,000, gathers half of that. Processes wait for each
 * collective of FSDP; with a divided optimizer the first all-reduce is hidden. */
static void processes_divide_states(void **state DL_UNUSED)
{
    static const char costs[] =
        FIXTURE_COSTS REDUCES "[gradients]\nready_1 = 0.5, 2000\nready_2 = 1, 8000\n";
#define SHARDED "mode = allreduce\n[exchange]\nsharded = "
    const double passes_ns = 1000000, updates_ns = 50000, reduces_ns = 40000 + 80000;
    assert_near(step_ns(costs, PROCESSES, "mode = fsdp\n"),
                passes_ns + updates_ns + reduces_ns + 2 * reduces_ns / 2, 1e-9);
    assert_near(step_ns(costs, PROCESSES, SHARDED "parameters\nreshard_after_forward = no\n"),
                passes_ns + updates_ns + reduces_ns + reduces_ns / 2, 1e-9);
    assert_near(step_ns(costs, PROCESSES, SHARDED "gradients\n"),
                passes_ns + updates_ns + reduces_ns + reduces_ns / 2, 1e-9);
    assert_near(step_ns(costs, PROCESSES, SHARDED "optimizer\n"),
                passes_ns + updates_ns + 80000 + reduces_ns / 2, 1e-9);
}

/* An all-reduce of 8,000 bytes takes 100,000 ns if two processes arrive together, and 30,000 after
 * the last arrival if the other process has waited. Computing takes one of them longer by a factor:
 *
 *   1           together                                   1,000,000 + 100,000 + 100,000 (update)
 *   1.05        50,000 late: 50,000 are left               1,050,000 +  50,000 + 100,000
 *   1.5         longer than all of it: 30,000 are left     1,500,000 +  30,000 + 100,000
 *
 * With two buckets, of 40,000 and 80,000 ns, the first ends before the backward pass, and costs the
 * 10,000 by which it slows that down, unless one process waits; the last bucket of a late process
 * takes 24,000. */
static void who_waits_has_begun(void **state DL_UNUSED)
{
    static const char one[] = FIXTURE_COSTS REDUCES LATE;
    static const char buckets[] =
        FIXTURE_COSTS REDUCES LATE "[allreduce_beside 2]\nbytes_0 = 10000\nbytes_8000 = 10000\n"
                                   "[gradients]\nready_1 = 0.5, 2000\nready_2 = 1, 8000\n";
    static const char *const slow[] = {"", "[noise]\nslow = 0:1.05\n", "[noise]\nslow = 1:1.5\n"};
    static const double want_ns[][2] = {{1200000, 1190000}, {1200000, 1190000}, {1630000, 1624000}};
    for (int i = 0; i < 3; i++) {
        char sync[64];
        snprintf(sync, sizeof sync, "mode = allreduce\n%s", slow[i]);
        assert_near(step_ns(one, PROCESSES, sync), want_ns[i][0], 1e-9);
        assert_near(step_ns(buckets, PROCESSES, sync), want_ns[i][1], 1e-9);
    }
}

/* Buffers of 4,000 bytes are broadcast before each step of allreduce: 30,000 ns. Averages of
 * parameters do not broadcast, nor does a single worker. */
static void buffers_are_broadcast(void **state DL_UNUSED)
{
    static const char costs[] =
        FIXTURE_COSTS REDUCES "[collective broadcast 2]\nbytes_0 = 10000\nbytes_8000 = 50000\n"
                              "[broadcast]\nbytes = 4000\n";
    assert_near(step_ns(costs, PROCESSES, "mode = allreduce\n"), 1230000, 1e-9);
    assert_near(step_ns(costs, PROCESSES, "mode = average\n"), 1200000, 1e-9);
    static const char one[] = "[machine]\ncores = 2\nworkers = 1\nprocesses = yes\n";
    assert_near(step_ns(costs, one, "mode = allreduce\n"), 2 * 1100000, 1e-9);
    /* In two calls, like buffers of two data types: 2,000 bytes and 20,000 ns each. */
    static const char two[] =
        FIXTURE_COSTS REDUCES "[collective broadcast 2]\nbytes_0 = 10000\nbytes_8000 = 50000\n"
                              "[broadcast]\nbytes = 4000\ncalls = 2\n";
    assert_near(step_ns(two, PROCESSES, "mode = allreduce\n"), 1240000, 1e-9);
}

/* Buckets of 2,000, 2,000 and 4,000 bytes: 40,000, 40,000 and 60,000 ns; the last two take 90,000
 * ns concurrently instead of 100,000. With a backward pass of B ns:
 *
 *   B = 400,000, ready after 0.5, 0.75, 1: all but the last have ended        60,000
 *   B = 0: 40,000 for the first, then both together                           130,000
 *   B = 0, no pairs known: in sequence                                        140,000
 *   B = 80,000, ready after 0.25, 0.5, 1: the first ends at 60,000, the second at 100,000, when
 *   half of it was left at the end of the pass: 60,000 + (90,000 - 60,000) / 2 = 75,000
 *   B = 80,000, ready after 0.25, 0.25, 0.75: the last starts at 60,000, with the second: all
 *   ends at 150,000, which is 70,000 after the pass
 *
 * If an all-reduce of 2,000 bytes slows computing by 20,000, those that have ended add that much,
 * and one of which half was left adds half as much. */
static void buckets_hide_behind_the_backward_pass(void **state DL_UNUSED)
{
    dl_collective_time one_times[] = {{0, {.known = true, .value = 20000}},
                                      {8000, {.known = true, .value = 100000}}};
    dl_collective_time pair_times[] = {{0, {.known = true, .value = 30000}},
                                       {8000, {.known = true, .value = 110000}}};
    dl_collective_time beside_times[] = {{0, {.known = true, .value = 10000}},
                                         {8000, {.known = true, .value = 50000}}};
    const dl_collective_cost one = {.ranks = 2, .times = one_times, .count = 2};
    const dl_collective_cost pair = {.ranks = 2, .times = pair_times, .count = 2};
    const dl_collective_cost beside = {.ranks = 2, .times = beside_times, .count = 2};
    const dl_process_reduces free = {&one, &pair, NULL}, slow = {&one, &pair, &beside},
                             single = {&one, NULL, NULL};
    const dl_gradients_ready late[] = {{0.5, 2000}, {0.75, 4000}, {1, 8000}};
    const dl_gradients_ready half[] = {{0.25, 2000}, {0.5, 4000}, {1, 8000}};
    const dl_gradients_ready early[] = {{0.25, 2000}, {0.25, 4000}, {0.75, 8000}};
    assert_near(dl_buckets_ns(&free, late, 3, 400000), 60000, 1e-9);
    assert_near(dl_buckets_ns(&free, late, 3, 0), 130000, 1e-9);
    assert_near(dl_buckets_ns(&single, late, 3, 0), 140000, 1e-9);
    assert_near(dl_buckets_ns(&free, half, 3, 80000), 75000, 1e-9);
    assert_near(dl_buckets_ns(&free, early, 3, 80000), 70000, 1e-9);
    assert_near(dl_buckets_ns(&free, late, 1, 80000), 0, 1e-9);
    assert_near(dl_buckets_ns(&slow, late, 3, 400000), 60000 + 2 * 20000, 1e-9);
    assert_near(dl_buckets_ns(&slow, half, 3, 80000), 75000 + 20000 + 20000 / 2, 1e-9);
}

/* Three starts of the benchmark, in which all-reduces took exp(-0.1), 1 and exp(0.1) times as long,
 * and a broadcast the squares of these. Drawn costs use another start, the same for both: with a
 * factor f, a step takes 1,100,000 + 100,000 f + 10,000 f^2, and ln f / 0.1 is Student's t with two
 * degrees of freedom, |t| < 0.8165 in half of all cases and < 4.3027 in 95 %. For 400 draws, four
 * standard deviations are 10 and 4.4 %. */
static void drawn_costs_are_of_another_start(void **state DL_UNUSED)
{
    enum { DRAWS = 400 };
    DL_SCOPED(dl_costs) costs = fixture_costs(
        FIXTURE_COSTS "[broadcast]\nbytes = 4000\n"
                      "[collective broadcast 2]\nstarts = 0.818730753, 1, 1.221402758\n"
                      "bytes_0 = 10000\nbytes_8000 = 10000\n"
                      "[collective allreduce 2]\nstarts = 0.904837418, 1, 1.105170918\n"
                      "bytes_0 = 20000\nbytes_8000 = 100000\n");
    DL_SCOPED(dl_scenario) scenario = scenario_of(PROCESSES, "mode = allreduce\n");
    int half = 0, most = 0, longer = 0;
    assert_true(dl_costs_have_errors(&costs));
    for (uint32_t draw = 0; draw <= DRAWS; draw++) {
        DL_SCOPED(dl_run_result) result = {0};
        dl_error err = {0};
        const dl_run_config config = {
            .scenario = &scenario, .costs = &costs, .point = &scenario.points[0], .draw = draw};
        assert_int_equal(dl_run(&config, &result, &err), DL_OK);
        const double ns = 1e9 * 2 / result.throughput_per_s;
        if (draw == 0) { /* undrawn costs */
            assert_near(ns, 1210000, 1e-9);
            continue;
        }
        const double factor = (sqrt(1e10 + 4e4 * (ns - 1.1e6)) - 1e5) / 2e4;
        const double t = log(factor) / 0.1;
        half += fabs(t) < 0.8165;
        most += fabs(t) < 4.3027;
        longer += t > 0;
    }
    assert_near(half, 0.5 * DRAWS, 0.2);
    assert_near(most, 0.95 * DRAWS, 0.046);
    assert_near(longer, 0.5 * DRAWS, 0.2);
}

/* 100,000 +- 2,000 ns of a step of 1,200,000: in 400 replicates' draws, the 2.5 and 97.5 %
 * quantiles are 1.96 standard errors away, each within 27 % (the standard error of such a quantile
 * is 0.13 of one; four of them). The row has the undrawn costs. */
static void intervals_hold_errors_of_collectives(void **state DL_UNUSED)
{
    dl_costs costs =
        fixture_costs(FIXTURE_COSTS "[collective allreduce 2]\nbytes_0 = 20000 +- 400\n"
                                    "bytes_8000 = 100000 +- 2000\n");
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = 20\nreplicates = 400\n" PROCESSES "[workload]\ncosts = c.ini\n"
        "batch_per_worker = 1\n[sync]\nmode = allreduce\n[noise]\nkind = lognormal\n"
        "sigma = 1e-6\n");
    dl_variant variant = {.scenario = scenario, .costs = costs};
    const dl_study study = {
        .variants = &variant, .variant_count = 1, .point_count = scenario.point_count};
    DL_SCOPED(dl_sweep) sweep = {0};
    dl_error err = {0};
    const dl_sweep_config config = {.threads = 1};
    assert_int_equal(dl_sweep_run(&sweep, &study, &config, &err), DL_OK);
    const dl_row *row = &sweep.rows[0];
    assert_near(2e9 / row->mean.throughput_per_s, 1200000, 1e-5);
    assert_near(2e9 / row->low_per_s - 1200000, 1.96 * 2000, 0.27);
    assert_near(1200000 - 2e9 / row->high_per_s, 1.96 * 2000, 0.27);
    dl_costs_free(&costs);
}

/* Four processes on two cores: a core computes two steps, followed by the all-reduce of four. */
static void more_processes_than_cores(void **state DL_UNUSED)
{
    static const char costs[] =
        FIXTURE_COSTS "[collective allreduce 4]\nbytes_0 = 300000\nbytes_8000 = 300000\n";
    DL_SCOPED(dl_costs) read = fixture_costs(costs);
    dl_scenario scenario =
        scenario_of("[machine]\ncores = 2\nworkers = 4\nprocesses = yes\n", "mode = average\n");
    DL_SCOPED(dl_run_result) result = fixture_run(&read, &scenario);
    assert_near(1e9 * 4 / result.throughput_per_s, 2 * 1100000 + 300000, 0.001);
    dl_scenario_free(&scenario);
}

/* With processes = no, threads use shared memory and its costs. */
static void threads_stay_what_they_are(void **state DL_UNUSED)
{
    static const char threads[] = "[machine]\ncores = 2\nworkers = 2\nprocesses = no\n";
    const double with = step_ns(FIXTURE_COSTS REDUCES, threads, "mode = allreduce\n");
    const double without = step_ns(FIXTURE_COSTS, threads, "mode = allreduce\n");
    assert_near(with, without, 0);
    assert_true(with < 1150000);
}

/* A step of async computes for 1,000,000 ns and calls the server, whose update takes 16,000 ns. The
 * round trip is that measured with as many callers: for 8,000 bytes 100,000 ns with one, and
 * 3,000,000 ns with four, which the server answers concurrently: its lock is held only during the
 * update. */
static void a_server_is_called(void **state DL_UNUSED)
{
    static const char costs[] =
        FIXTURE_COSTS "[roundtrip 1]\nbytes_0 = 20000\nbytes_8000 = 100000\n"
                      "[roundtrip 4]\nbytes_0 = 2000000\nbytes_8000 = 3000000\n";
    static const char one[] = "[machine]\ncores = 4\nworkers = 1\nprocesses = yes\n";
    static const char four[] = "[machine]\ncores = 4\nworkers = 4\nprocesses = yes\n";
    assert_near(step_ns(costs, one, "mode = async\n"), 2 * 1116000, 1e-9);
    assert_near(step_ns(costs, four, "mode = async\n"), 4016000.0 / 2, 0.002);
}

/* A synchronous server measured as a whole, including its update: 1,000,000 ns of computing and
 * 300,000 of push and pull; costs of updates and round trips are not needed. Without that section,
 * the exchange is two calls and the server's sum, of 16,000 ns and more. */
static void a_synchronous_server_takes_its_time(void **state DL_UNUSED)
{
    static const char whole[] =
        FIXTURE_COSTS "[pushpull 2]\nbytes_0 = 100000\nbytes_8000 = 300000\n";
    static const char trips[] =
        FIXTURE_COSTS "[roundtrip 2]\nbytes_0 = 20000\nbytes_8000 = 100000\n";
    assert_near(step_ns(whole, PROCESSES, "mode = ps\n"), 1300000, 1e-9);
    const double calls = step_ns(trips, PROCESSES, "mode = ps\n");
    assert_true(calls > 1100000 && calls < 1150000);
    DL_SCOPED(dl_costs) costs = fixture_costs(
        "[costs]\nschema = 1\nparameter_bytes = 8000\n"
        "[op a.forward]\nfixed_ns = 1000\nper_sample_ns = 0\n[sharing]\ncopies_2 = 1\n"
        "[pushpull 2]\nbytes_0 = 100000\nbytes_8000 = 300000\n");
    DL_SCOPED(dl_scenario) two = scenario_of(PROCESSES, "mode = ps\n");
    assert_null(dl_sweep_missing(&two, &costs));
    dl_scenario three =
        scenario_of("[machine]\ncores = 3\nworkers = 3\nprocesses = yes\n", "mode = ps\n");
    DL_AUTOFREE char *missing = dl_sweep_missing(&three, &costs);
    assert_non_null(strstr(missing, "[pushpull 3]"));
    dl_scenario_free(&three);
}

/* Four callers on two cores that slow each other down by 1.25: a step alone computes for 1,000,000
 * ns. Concurrently it takes 2 x 1.25 as long, plus a round trip of 3,000,000 ns and 16,000 for the
 * update of the server, a separate process; minus what is saved while one worker waits for the
 * server's lock. */
static void calls_keep_cores_busy(void **state DL_UNUSED)
{
    static const char costs[] =
        FIXTURE_COSTS "copies_4 = 1.25\n"
                      "[roundtrip 4]\nbytes_0 = 2000000\nbytes_8000 = 3000000\n";
    static const char machine[] = "[machine]\ncores = 2\nworkers = 4\nprocesses = yes\n";
    assert_near(step_ns(costs, machine, "mode = async\n"), (2500000.0 + 16000 + 3000000) / 2, 0.01);
}

/* Copies, averages, barriers and memory are not needed, but the all-reduce of as many ranks is. */
static void what_is_missing_is_named(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs("[costs]\nschema = 1\nparameter_bytes = 8000\n"
                                              "[op a.forward]\nfixed_ns = 1000\nper_sample_ns = 0\n"
                                              "[sharing]\ncopies_2 = 1\n" REDUCES);
    DL_SCOPED(dl_scenario) two = scenario_of(PROCESSES, "mode = allreduce\n");
    assert_null(dl_sweep_missing(&two, &costs));
    dl_scenario three =
        scenario_of("[machine]\ncores = 3\nworkers = 3\nprocesses = yes\n", "mode = allreduce\n");
    char *missing = dl_sweep_missing(&three, &costs);
    assert_string_equal(missing, "[gloo] ranks_factor");
    free(missing);
    dl_costs none = fixture_costs(FIXTURE_COSTS "[roundtrip 3]\nbytes_0 = 1\nbytes_8 = 2\n");
    missing = dl_sweep_missing(&three, &none);
    assert_string_equal(missing, "[collective allreduce 3]");
    free(missing);
    dl_costs_free(&none);
    dl_costs buffers = fixture_costs(FIXTURE_COSTS REDUCES "[broadcast]\nbytes = 4000\n");
    missing = dl_sweep_missing(&two, &buffers);
    assert_string_equal(missing, "[collective broadcast 2]");
    free(missing);
    dl_costs_free(&buffers);
    DL_SCOPED(dl_scenario) served = scenario_of(PROCESSES, "mode = async\n");
    missing = dl_sweep_missing(&served, &costs);
    assert_string_equal(missing, "[update] latency_ns, [update] read_bytes_per_s, [update] "
                                 "write_bytes_per_s, [roundtrip 2]");
    free(missing);
    dl_scenario_free(&three);
}

#define STEP                                                     \
    "[costs]\nschema = 1\nparameter_bytes = 8000\n"              \
    "[op step.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"  \
    "[op step.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n" \
    "[op step.update]\nfixed_ns = 100000\nper_sample_ns = 0\n"   \
    "[sharing]\ncopies_2 = 1\n"
#define MESSAGES "[gloo]\nlatency_ns = 10000\nbytes_per_s = 1e9\nbeside_frac = 0.5\n"
#define FOUR "[machine]\ncores = 4\nworkers = 4\nprocesses = yes\n"

/* Messages of 10,000 ns and 1 ns per byte. Two processes' all-reduce of 8,000 bytes has two
 * messages, 36,000 ns, and that of four has six, 108,000 (4 processes compute 4 / 2 as many samples
 * as step_ns counts). Buffers of 4,000 bytes are sent log2 N times: 14,000 and 28,000. Of two
 * buckets of 2,000 and 6,000 bytes, the first takes 24,000 within the backward pass, which half of
 * that prolongs, and the last one 32,000. */
static void exchange_follows_from_messages(void **state DL_UNUSED)
{
    assert_near(step_ns(STEP MESSAGES, PROCESSES, "mode = allreduce\n"), 1136000, 1e-9);
    assert_near(2 * step_ns(STEP MESSAGES, FOUR, "mode = average\n"), 1208000, 1e-9);
    static const char buffers[] = STEP MESSAGES "[broadcast]\nbytes = 4000\n";
    assert_near(step_ns(buffers, PROCESSES, "mode = allreduce\n"), 1150000, 1e-9);
    assert_near(2 * step_ns(buffers, FOUR, "mode = allreduce\n"), 1236000, 1e-9);
    static const char buckets[] =
        STEP MESSAGES "[gradients]\nready_1 = 0.5, 2000\nready_2 = 1, 8000\n";
    assert_near(step_ns(buckets, PROCESSES, "mode = allreduce\n"), 1144000, 1e-9);
    assert_near(step_ns(STEP MESSAGES REDUCES, PROCESSES, "mode = allreduce\n"), 1200000, 1e-9);
    assert_near(step_ns(STEP MESSAGES, ONE, "mode = allreduce\n"), 2 * 1100000, 1e-9);
}

/* An all-reduce counts as a copy: of 100,000 ns as measured, and of 36,000 ns computed from
 * messages, half remains with half the copies, and nothing without them. */
static void exchange_is_a_copy_of_processes(void **state DL_UNUSED)
{
    static const struct {
        const char *costs;
        double ns;
    } cases[] = {{STEP REDUCES, 100000}, {STEP MESSAGES, 36000}};
    unsigned copy = 0;
    assert_int_equal(dl_without_parse("copy", &copy, NULL), DL_OK);
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        for (int left = 0; left < 3; left++) { /* in halves */
            DL_SCOPED(dl_costs) costs = fixture_costs(cases[i].costs);
            DL_SCOPED(dl_scenario) scenario = scenario_of(PROCESSES, "mode = allreduce\n");
            if (left == 0) dl_without_apply(copy, &scenario, &costs);
            if (left == 1) dl_without_lessen(copy, 0.5, &scenario, &costs);
            DL_SCOPED(dl_run_result) r = fixture_run(&costs, &scenario);
            assert_near(2e9 / r.throughput_per_s, 1100000 + cases[i].ns * left / 2, 1e-9);
        }
    }
}

/* Two processes' all-reduce takes 100,000 ns; with four, i.e. 6 messages instead of 2 and a factor
 * of 1.5, it takes 450,000. A call of one process takes 100,000 and of four 600,000, minus what is
 * saved because the server serves one at a time; if times for four are given, they are used. */
static void other_numbers_of_processes_are_scaled(void **state DL_UNUSED)
{
    static const char reduces[] =
        STEP "[gloo]\nranks_factor = 1.5\n[collective allreduce 2]\nbytes_0 = 100000\n"
             "bytes_8000 = 100000\n";
    assert_near(step_ns(reduces, PROCESSES, "mode = average\n"), 1200000, 1e-9);
    assert_near(2 * step_ns(reduces, FOUR, "mode = average\n"), 1100000 + 450000, 1e-9);
    static const char call[] = "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e12\n"
                               "write_bytes_per_s = 1e12\n[roundtrip %d]\nbytes_0 = %d\n"
                               "bytes_8000 = %d\n";
    char scaled[1024], measured[1024];
    snprintf(scaled, sizeof scaled, "%s[gloo]\nranks_factor = 1.5\n", STEP);
    snprintf(measured, sizeof measured, "%s", STEP);
    snprintf(scaled + strlen(scaled), sizeof scaled - strlen(scaled), call, 1, 100000, 100000);
    snprintf(measured + strlen(measured), sizeof measured - strlen(measured), call, 4, 600000,
             600000);
    assert_near(step_ns(scaled, FOUR, "mode = async\n"), step_ns(measured, FOUR, "mode = async\n"),
                1e-9);
    DL_SCOPED(dl_costs) costs = fixture_costs(reduces);
    DL_SCOPED(dl_scenario) two = scenario_of(PROCESSES, "mode = average\n");
    DL_SCOPED(dl_scenario) four = scenario_of(FOUR, "mode = average\n");
    assert_false(dl_run_extrapolates(&two, &costs, &two.points[0]));
    assert_true(dl_run_extrapolates(&four, &costs, &four.points[0]));
}

/* A call of one worker takes 20,000 + 8,000 ns, in addition to computing and the server's update of
 * 16,000: 8,000 bytes, read and written at 1 GB/s each. Calls of two take twice as long; in the
 * first of 20 steps one waits for the other's update, 16,000 / 20. */
static void calls_follow_from_messages(void **state DL_UNUSED)
{
    static const char costs[] =
        STEP "[rpc]\nlatency_ns = 20000\nbytes_per_s = 1e9\n[update]\nlatency_ns = 0\n"
             "read_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n";
    const double one_ns = step_ns(costs, ONE, "mode = async\n") / 2;
    assert_near(one_ns, 1000000 + 28000 + 16000, 1e-9);
    const double two_ns = step_ns(costs, PROCESSES, "mode = async\n");
    assert_near(two_ns, 1000000 + 56000 + 16000 + 800, 1e-9);
}

/* Costs of programs other than dlprof train need no times of exchanges; those of dlprof train
 * do. */
static void what_messages_lack_is_named(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(STEP);
    DL_SCOPED(dl_scenario) two = scenario_of(PROCESSES, "mode = allreduce\n");
    DL_AUTOFREE char *missing = dl_sweep_missing(&two, &costs);
    assert_string_equal(missing, "[gloo] latency_ns, [gloo] bytes_per_s, [gloo] beside_frac");
    DL_SCOPED(dl_scenario) served = scenario_of(ONE, "mode = async\n");
    assert_true(dl_run_needs(&served, &costs, &served.points[0]) & DL_NEED_RPC);
    assert_false(dl_run_needs(&served, &costs, &served.points[0]) & DL_NEED_GLOO);
    DL_SCOPED(dl_scenario) one = scenario_of(ONE, "mode = allreduce\n");
    assert_null(dl_sweep_missing(&one, &costs));
    DL_SCOPED(dl_costs) measured = fixture_costs(STEP REDUCES);
    assert_null(dl_sweep_missing(&two, &measured));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_one_all_reduce),
        cmocka_unit_test(gradients_go_in_buckets),
        cmocka_unit_test(processes_divide_states),
        cmocka_unit_test(buckets_hide_behind_the_backward_pass),
        cmocka_unit_test(a_synchronous_server_takes_its_time),
        cmocka_unit_test(calls_keep_cores_busy),
        cmocka_unit_test(who_waits_has_begun),
        cmocka_unit_test(buffers_are_broadcast),
        cmocka_unit_test(drawn_costs_are_of_another_start),
        cmocka_unit_test(intervals_hold_errors_of_collectives),
        cmocka_unit_test(more_processes_than_cores),
        cmocka_unit_test(a_server_is_called),
        cmocka_unit_test(threads_stay_what_they_are),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(exchange_follows_from_messages),
        cmocka_unit_test(exchange_is_a_copy_of_processes),
        cmocka_unit_test(other_numbers_of_processes_are_scaled),
        cmocka_unit_test(calls_follow_from_messages),
        cmocka_unit_test(what_messages_lack_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
