/* Network values and GPU spread of the cost file, and placements, against closed forms on two nodes
 * of four GPUs (tests/gpu_fixture.h). */
#include "tests/gpu_fixture.h"

#include <stdlib.h>

#include "sim/platform/placement.h"

#define COMPUTE_NS 1.1e6 /* forward, backward, update */
#define BYTES 4e6

/* Step, in ns; `gpus` is the text of a machine file. */
static double step_on_ns(const char *gpus, const char *more_costs, const char *machine, int workers)
{
    char costs[1024], path[64];
    snprintf(costs, sizeof costs,
             "[costs]\nschema = 1\nparameter_bytes = %.0f\n"
             "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n"
             "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n"
             "[op a.update]\nfixed_ns = 100000\nper_sample_ns = 0\n" FIXTURE_FREE_DISPATCH "%s",
             BYTES, more_costs);
    const char *rest = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n";
    if (workers > 0 && strcmp(gpus, FIXTURE_GPUS) == 0)
        return fixture_step_ns(costs, machine, workers, rest);
    /* The placement gives the number of workers. */
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    fixture_write(path, gpus);
    DL_SCOPED(dl_costs) read = fixture_costs(costs);
    dl_scenario scenario = fixture_scenario("[scenario]\nsteps = 20\n[machine]\nfile = %s\n%s"
                                            "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n%s",
                                            path, machine, rest);
    unlink(path);
    DL_SCOPED(dl_run_result) result = fixture_run(&read, &scenario);
    const double step = 1e9 * result.step_p50_s;
    dl_scenario_free(&scenario);
    return step;
}

static double step_ns(const char *more_costs, const char *machine, int workers)
{
    return step_on_ns(FIXTURE_GPUS, more_costs, machine, workers);
}

/* Step of a ring of n GPUs on both nodes; a hop between nodes is limited to `rate`, in 2 (n - 1)
 * rounds. One latency is not hidden by the preceding pieces. */
static double ring_ns(int n, double rate, double latency_ns)
{
    return COMPUTE_NS + latency_ns + 2 * (n - 1) * BYTES / n / rate * 1e9;
}

/* GPU, switch, socket and NIC on both sides: 100 ns per edge. */
#define EDGES_NS 600

static void network_of_the_costs_is_that_of_the_links(void **state DL_UNUSED)
{
    const double as_machine = step_ns("", "placement = 22\n", 0);
    assert_near(as_machine, ring_ns(4, 1e9, 10000 + EDGES_NS), 1e-4);
    assert_near(step_ns("[network]\nbytes_per_s = 5e8\n", "placement = 22\n", 0),
                ring_ns(4, 5e8, 10000 + EDGES_NS), 1e-4);
    assert_near(step_ns("[network]\nlatency_ns = 300000\n", "placement = 22\n", 0),
                ring_ns(4, 1e9, 300000 + EDGES_NS), 1e-4);
    /* The latencies of a piece's hops, three of six between the nodes, are hidden while the wire
     * carries other pieces; the time that the slices of a message take at its sender is not. */
    assert_near(step_ns("[network]\nslice_ns = 200000\n", "placement = 22\n", 0) - as_machine,
                6 * 200000, 1e-2);
    /* Two rounds of 2 MB, each in two slices. */
    assert_near(step_ns("[network]\nslice_ns = 200000\n", "placement = 11\n", 0) -
                    step_ns("", "placement = 11\n", 0),
                2 * 2 * 200000, 1e-2);
    /* Both directions of the single pair share it. */
    assert_near(step_ns("[network]\npair_bytes_per_s = 6e8\n", "placement = 22\n", 0),
                ring_ns(4, 3e8, 10000 + EDGES_NS), 1e-4);
    assert_near(step_ns("[network]\npair_bytes_per_s = 6e9\n", "placement = 22\n", 0), as_machine,
                1e-9);
    /* Within a node the network is not used. */
    assert_near(step_ns("[network]\nbytes_per_s = 1e3\npair_bytes_per_s = 1e3\nlatency_ns = 1e9\n",
                        "placement = 4\n", 0),
                step_ns("", "placement = 4\n", 0), 1e-12);
}

/* At half the clock of the peak rates an estimated pass takes twice as long; the update, which is
 * bound by memory, does not change; a measured pass already includes the clock. */
static void a_lower_clock_slows_estimated_times(void **state DL_UNUSED)
{
    const char *estimated = "[spread]\ncompute_frac = 0.1\n";
    const char *model = strstr(FIXTURE_GPUS, "fp32_flop_per_s");
    char slow[4096];
    snprintf(slow, sizeof slow, "%.*sclock_frac = 0.5\n%s",
             (int)(strlen(FIXTURE_GPUS) - strlen(model)), FIXTURE_GPUS, model);
    assert_near(step_on_ns(slow, estimated, "placement = 1\n", 0), 2e6 + 1e5, 1e-9);
    assert_near(step_on_ns(slow, "", "placement = 1\n", 0), COMPUTE_NS, 1e-9);
    assert_near(step_ns(estimated, "placement = 1\n", 0), COMPUTE_NS, 1e-9);
}

/* The host's time per message is added to each round, also within a node, and to a push and a
 * pull. */
static void messages_cost_the_host(void **state DL_UNUSED)
{
    const char *message = "[message]\nhost_ns = 20000\n";
    assert_near(step_ns(message, "", 4) - step_ns("", "", 4), 6 * 20000, 1e-6);
    assert_near(step_ns(message, "placement = 22\n", 0),
                ring_ns(4, 1e9, 10000 + EDGES_NS) + 6 * 20000, 1e-4);
    const char *server = "[sync]\nmode = ps\n";
    const char *costs = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH;
    char with[1024];
    snprintf(with, sizeof with, "%s%s", costs, message);
    assert_near(fixture_step_ns(with, "", 2, server) - fixture_step_ns(costs, "", 2, server),
                2 * 20000, 1e-6);
}

/* Unequal nodes: the ring crosses the network twice, as with equal ones, but in consecutive
 * hops. */
static void placements_are_the_gpus_that_they_name(void **state DL_UNUSED)
{
    assert_near(step_ns("", "placement = 31\n", 0), ring_ns(4, 1e9, 2 * (10000 + EDGES_NS)), 1e-4);
    assert_near(step_ns("", "placement = 31\n", 0), step_ns("", "gpus = 0, 1, 2, 4\n", 4), 1e-12);
    assert_near(step_ns("", "placement = 3\n", 0), step_ns("", "gpus = 0, 1, 2\n", 3), 1e-12);
}

/* Two GPUs with spread s: exp(+-s m) over their mean, where m is the mean of the larger of two
 * normal numbers, 1/sqrt(pi) (Blom's approximation is off by 5 % for two). */
static void spread_slows_who_waits_for_all(void **state DL_UNUSED)
{
    const char *spread = "[spread]\ngpu_frac = 0.1\n";
    assert_near(step_ns(spread, "", 1), COMPUTE_NS, 1e-9);
    const double alone = step_ns("", "", 2), apart = step_ns(spread, "", 2);
    const double slowest = 1 + tanh(0.1 / sqrt(M_PI));
    assert_near((apart - alone) / 1e6, slowest - 1, 0.06); /* relative to forward and backward */
    double before = 1;
    for (int n = 3; n <= 8; n++) {
        double slow[8] = {1, 1, 1, 1, 1, 1, 1, 1}, sum = 0;
        dl_costs costs = {.gpu_spread_frac = {.known = true, .value = 0.1}};
        dl_gpus_spread(&costs, n, n, slow);
        for (int w = 0; w < n; w++)
            sum += slow[w];
        assert_near(sum, n, 1e-12);
        assert_true(slow[n - 1] > before);
        before = slow[n - 1];
        const double now = step_ns(spread, "", n) - step_ns("", "", n);
        assert_near(now, 1e6 * (slow[n - 1] - 1), 1e-3);
    }
    /* Times stay finite and non-negative for any spread. */
    double wide[2] = {1, 1};
    dl_costs costs = {.gpu_spread_frac = {.known = true, .value = 1e6}};
    dl_gpus_spread(&costs, 2, 2, wide);
    assert_near(wide[1], 2, 1e-12);
    assert_true(wide[0] >= 0 && wide[0] < 1e-12);
}

/* Work uniform from 0 to 2 times its mean (bounded, of variance 1/3): of four workers the one with
 * the most has 2 x 4 / 5 of it on average, for which all wait in each step; a single worker has the
 * mean. With drawn work a step takes the same time on average, and longer with log-normal work of
 * equal variance. */
static void work_that_differs_makes_all_wait(void **state DL_UNUSED)
{
    const char *even = "[spread]\nwork_frac = 0.57735\nwork_max = 2\n";
    const char *long_tail = "[spread]\nwork_frac = 0.57735\n";
    assert_near(step_ns(even, "", 1), COMPUTE_NS, 1e-6);
    const double alike = step_ns("", "", 4), differs = step_ns(even, "", 4);
    assert_near((differs - alike) / 1e6, 0.6, 2e-3); /* relative to forward and backward */
    const char *of_four = "[spread]\nwork_frac = 0.288675\nwork_max = 2\nwork_samples = 4\n";
    assert_near(step_ns(of_four, "", 4), differs, 1); /* work_frac for one sample is twice as
                                                       * large */
    char costs[1024];
    snprintf(costs, sizeof costs, "%s%s", FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, even);
    const char *rest = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n";
    const char *drawn = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n"
                        "[noise]\nkind = work\n";
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "", 4, 4000, drawn);
    assert_near(1e9 * r.step_mean_s / fixture_step_ns(costs, "", 4, rest), 1, 0.02);
    assert_true(step_ns(long_tail, "", 4) > differs);
}

/* GPUs 0 and 1 share a switch, 2 has another: forward and backward take 1.2 times as long for two
 * GPUs of one switch, and for all workers that wait for them. */
static void gpus_of_a_board_slow_one_another(void **state DL_UNUSED)
{
    const char *board = "[spread]\nboard_slowdown = 1.2\n";
    assert_near(step_ns(board, "", 1), COMPUTE_NS, 1e-9);
    assert_near(step_ns(board, "", 2) - step_ns("", "", 2), 0.2e6, 1e-6);
    assert_near(step_ns(board, "", 4) - step_ns("", "", 4), 0.2e6, 1e-6);
    assert_near(step_ns(board, "gpus = 0, 2\n", 2), step_ns("", "gpus = 0, 2\n", 2), 1e-9);
    assert_near(step_ns(board, "placement = 11\n", 0), step_ns("", "placement = 11\n", 0), 1e-9);
}

/* Three nodes with twelve GPUs each. */
static dl_node_kind of_twelve = {.gpu_count = 12};
static dl_node_run of_one_kind = {0};
static const dl_machine three_nodes = {
    .nodes = 3, .kinds = &of_twelve, .kind_count = 1, .runs = &of_one_kind, .run_count = 1};

static void assert_placed(const char *text, const int *gpus, int count)
{
    const dl_machine machine = three_nodes;
    int *found = NULL, found_count = 0;
    dl_error err = {0};
    if (dl_placement_gpus(text, &machine, &found, &found_count, &err) != DL_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    assert_int_equal(found_count, count);
    assert_memory_equal(found, gpus, (size_t)count * sizeof *gpus);
    free(found);
}

static void assert_not_placed(const char *text, dl_status code, const char *part)
{
    const dl_machine machine = three_nodes;
    int *found = NULL, found_count = 0;
    dl_error err = {0};
    assert_int_equal(dl_placement_gpus(text, &machine, &found, &found_count, &err), code);
    assert_contains(err.text, part);
    assert_null(found);
}

static void placements_are_read(void **state DL_UNUSED)
{
    assert_placed("1", (const int[]){0}, 1);
    assert_placed("213", (const int[]){0, 1, 12, 24, 25, 26}, 6);
    assert_placed("1+11", (const int[]){0, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22}, 12);
    assert_not_placed("", DL_ERR_PARSE, "431 or 16+8");
    assert_not_placed("4-1", DL_ERR_PARSE, "'4-1'");
    assert_not_placed("4+", DL_ERR_PARSE, "'4+'");
    assert_not_placed("1111", DL_ERR_RANGE, "more nodes than the machine's 3");
    assert_not_placed("13+1", DL_ERR_RANGE, "13");
    assert_not_placed("201", DL_ERR_RANGE, "0");
}

static void assert_refused(const char *machine, const char *part)
{
    char text[512];
    fixture_write("placed_gpus.ini", FIXTURE_GPUS);
    snprintf(
        text, sizeof text,
        "[machine]\nfile = placed_gpus.ini\n%s[workload]\ncosts = c.ini\nbatch_per_worker = 1\n",
        machine);
    dl_scenario scenario = {0};
    dl_error err = {0};
    assert_true(dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), &err) != DL_OK);
    assert_contains(err.text, part);
    assert_int_equal(err.line, 3);
    unlink("placed_gpus.ini");
}

static void scenarios_refuse_what_a_placement_tells(void **state DL_UNUSED)
{
    assert_refused("placement = 4\nworkers = 4\n", "a placement gives both");
    assert_refused("placement = 4\ngpus = 0, 1\n", "a placement gives both");
    assert_refused("placement = 5\n", "5");
    assert_refused("placement = x\n", "'x'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network_of_the_costs_is_that_of_the_links),
        cmocka_unit_test(a_lower_clock_slows_estimated_times),
        cmocka_unit_test(messages_cost_the_host),
        cmocka_unit_test(placements_are_the_gpus_that_they_name),
        cmocka_unit_test(work_that_differs_makes_all_wait),
        cmocka_unit_test(spread_slows_who_waits_for_all),
        cmocka_unit_test(gpus_of_a_board_slow_one_another),
        cmocka_unit_test(placements_are_read),
        cmocka_unit_test(scenarios_refuse_what_a_placement_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
