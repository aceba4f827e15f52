/* All-reduce that starts during the backward pass, against the recursion of wait-free
 * backpropagation: bucket k of K starts when its share of the backward pass is done and bucket k-1
 * has ended. On two GPUs of one switch a bucket takes 400 ns plus its bytes at 10 GB/s. */
#include "tests/gpu_fixture.h"

#define FORWARD_NS 400e3
#define BACKWARD_NS 600e3
#define UPDATE_NS 100e3

static double simulated_ns(double parameters, double bucket, double slowdown, const char *more)
{
    char costs[1024], rest[512];
    snprintf(costs, sizeof costs,
             "[costs]\nschema = 1\nparameter_bytes = %.0f\n" FIXTURE_PASSES FIXTURE_UPDATE
             "[overlap]\nslowdown = %g\n" FIXTURE_FREE_DISPATCH,
             parameters, slowdown);
    snprintf(rest, sizeof rest,
             "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\noverlap = yes\n"
             "bucket_bytes = %.0f\n%s",
             bucket, more);
    return fixture_step_ns(costs, "", 2, rest);
}

static double bucket_ns(double bytes)
{
    return 400 + bytes / 10;
}

static double recursion_ns(double parameters, double bucket)
{
    double end_ns = 0;
    for (double done = 0; done < parameters; done += bucket) {
        double bytes = fmin(bucket, parameters - done);
        double ready_ns = FORWARD_NS + BACKWARD_NS * (done + bytes) / parameters;
        end_ns = fmax(ready_ns, end_ns) + bucket_ns(bytes);
    }
    return end_ns + UPDATE_NS;
}

/* From exchange hidden by the backward pass to exchange that takes much longer. */
static void steps_follow_the_recursion(void **state DL_UNUSED)
{
    static const double parameters[] = {80e3, 4e6, 8e6, 80e6};
    static const double parts[] = {1, 2, 3.7, 10, 40};
    for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            double bucket = floor(parameters[p] / parts[k]);
            assert_near(simulated_ns(parameters[p], bucket, 1, ""),
                        recursion_ns(parameters[p], bucket), 1e-4);
        }
    }
}

/* The first of two buckets (c) runs during the second half of the backward pass, which it slows. */
static void collectives_slow_computing(void **state DL_UNUSED)
{
    const double c = bucket_ns(1e6), slowdown = 1.5, half = BACKWARD_NS / 2;
    double backward_ns = half + c + (half - c / slowdown);
    assert_near(simulated_ns(2e6, 1e6, slowdown, ""), FORWARD_NS + backward_ns + c + UPDATE_NS,
                1e-5);
    /* The first bucket covers all of the second half. */
    const double long_c = bucket_ns(10e6);
    assert_near(simulated_ns(20e6, 10e6, slowdown, ""), FORWARD_NS + half + 2 * long_c + UPDATE_NS,
                1e-5);
}

/* A machine may give a larger slowdown than the costs' 1.2 for collectives between GPUs of a node,
 * 1.5, but not for those between nodes, and not a smaller one. */
static void a_machine_slows_computing(void **state DL_UNUSED)
{
    static const struct {
        const char *machine;
        double slowdown;
    } cases[] = {{FIXTURE_GPUS "[overlap]\ninside_slowdown = 1.5\n", 1.5},
                 {FIXTURE_GPUS "[overlap]\ninside_slowdown = 1.1\n", 1.2}};
    static const char rest[] = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n"
                               "overlap = yes\nbucket_bytes = 1000000\n";
    static const char costs[] =
        "[costs]\nschema = 1\nparameter_bytes = 2000000\n" FIXTURE_PASSES FIXTURE_UPDATE
        "[overlap]\nslowdown = 1.2\n" FIXTURE_FREE_DISPATCH;
    const double c = bucket_ns(1e6), half = BACKWARD_NS / 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result r = fixture_run_machine(cases[i].machine, costs, "", 2, 20, rest);
        assert_near(1e9 * r.step_p50_s,
                    FORWARD_NS + half + c + (half - c / cases[i].slowdown) + c + UPDATE_NS, 1e-5);
        /* The extra time counts as exchange. */
        if (i == 0)
            assert_near(1e9 * r.step_p50_s * r.part_frac[DL_PART_COMPUTE],
                        FORWARD_NS + BACKWARD_NS + UPDATE_NS, 1e-3);
        dl_run_result_free(&r);
    }
    /* Buckets of 1 ms in each direction and 10 us, during which 1 / 1.2 of the second half
     * proceeds. */
    dl_run_result r = fixture_run_machine(FIXTURE_NODES("2") "[overlap]\ninside_slowdown = 50\n",
                                          costs, "", 2, 20, rest);
    assert_near(1e9 * r.step_p50_s, FORWARD_NS + half + 2 * 1e6 + UPDATE_NS, 1e-5);
    dl_run_result_free(&r);
}

/* A ring over two GPUs on each of two nodes has the rate of a port, 1 GB/s, while one inside a node
 * has 10 GB/s. It takes a tenth of the compute that a ring inside a node takes with an 11-fold
 * slowdown, and so adds 1 / 11 of its time. A tree sends each byte through a port once, not 1.5
 * times, so that it takes two thirds of the time, and as much compute. */
static void a_machine_slows_less_between_nodes(void **state DL_UNUSED)
{
    static const char *const machines[] = {FIXTURE_GPUS,
                                           FIXTURE_GPUS "[overlap]\ninside_slowdown = 11\n"};
    static const char *const algorithms[] = {"ring", "node_tree"};
    static const char costs[] =
        "[costs]\nschema = 1\nparameter_bytes = 200000\n" FIXTURE_PASSES FIXTURE_UPDATE
        "[overlap]\nslowdown = 1\n" FIXTURE_FREE_DISPATCH;
    double added_ns[2];
    for (int a = 0; a < 2; a++) {
        double step_ns[2];
        DL_AUTOFREE char *rest = dl_format("[sync]\nmode = allreduce\n[exchange]\nalgorithm = %s\n"
                                           "overlap = yes\nbucket_bytes = 100000\n",
                                           algorithms[a]);
        for (int i = 0; i < 2; i++) {
            dl_run_result r =
                fixture_run_machine(machines[i], costs, "gpus = 0, 1, 4, 5\n", 4, 20, rest);
            step_ns[i] = 1e9 * r.step_p50_s;
            dl_run_result_free(&r);
        }
        const double c = step_ns[0] - FORWARD_NS - BACKWARD_NS - UPDATE_NS;
        added_ns[a] = step_ns[1] - step_ns[0];
        assert_true(c > 100e3 && c < BACKWARD_NS / 2);
        if (a == 0) assert_near(added_ns[a], c / 11, 1e-3);
    }
    assert_near(added_ns[1], added_ns[0], 0.2); /* of so few bytes: latencies matter */
}

/* From the start of the first bucket, the second half of the backward pass is slowed, also between
 * the buckets. */
static void exchange_slows_computing_throughout(void **state DL_UNUSED)
{
    const double c = bucket_ns(1e6), slowdown = 1.5, half = BACKWARD_NS / 2;
    assert_near(simulated_ns(2e6, 1e6, slowdown, "slows = exchange\n"),
                FORWARD_NS + half + slowdown * half + c + UPDATE_NS, 1e-5);
    /* The next step is not slowed: all steps are equal. */
    assert_near(simulated_ns(1e6, 1e6, slowdown, "slows = exchange\n"),
                FORWARD_NS + BACKWARD_NS + c + UPDATE_NS, 1e-5);
}

static double with_gradients_ns(const char *ready, const char *bucket)
{
    char costs[1024], rest[256];
    snprintf(costs, sizeof costs,
             "[costs]\nschema = 1\nparameter_bytes = 4000000\n" FIXTURE_PASSES FIXTURE_UPDATE
             "[gradients]\n%s"
             "[overlap]\nslowdown = 1\n" FIXTURE_FREE_DISPATCH,
             ready);
    snprintf(rest, sizeof rest,
             "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\noverlap = yes\n%s", bucket);
    return fixture_step_ns(costs, "", 2, rest);
}

/* Three quarters of the gradients are ready after a tenth of the pass, the rest after nine
 * tenths. */
static void buckets_start_when_the_costs_say(void **state DL_UNUSED)
{
    const char *ready = "ready_1 = 0.1, 3000000\nready_2 = 0.9, 4000000\n";
    const double begin = FORWARD_NS, end = FORWARD_NS + BACKWARD_NS;
    const double first = begin + 0.1 * BACKWARD_NS + bucket_ns(3e6);
    const double second = fmax(first, begin + 0.9 * BACKWARD_NS) + bucket_ns(1e6);
    assert_near(with_gradients_ns(ready, ""), fmax(second, end) + UPDATE_NS, 1e-5);
    /* In between, interpolated linearly: 3.5 MB after half of the pass. */
    const double large = begin + 0.5 * BACKWARD_NS + bucket_ns(3.5e6);
    assert_near(with_gradients_ns(ready, "bucket_bytes = 3500000\n"),
                fmax(end, fmax(large, begin + 0.9 * BACKWARD_NS) + bucket_ns(0.5e6)) + UPDATE_NS,
                1e-5);
    /* All in one bucket: the rest of the pass runs concurrently. */
    assert_near(with_gradients_ns(ready, "bucket_bytes = 0\n"),
                begin + 0.9 * BACKWARD_NS + bucket_ns(4e6) + UPDATE_NS, 1e-5);
}

/* 0.03 + (0.29 - 0.03) exceeds 0.29 in floating point: the third tensor, which becomes ready
 * together with the second, must not precede it. */
static void tensors_of_a_layer_are_ready_together(void **state DL_UNUSED)
{
    const char *ready = "ready_1 = 0.03, 1000000\nready_2 = 0.29, 2000000\n"
                        "ready_3 = 0.29, 3000000\nready_4 = 1, 4000000\n";
    const double begin = FORWARD_NS, end = FORWARD_NS + BACKWARD_NS, c = bucket_ns(1e6);
    const double first = begin + 0.03 * BACKWARD_NS + c;
    const double third = fmax(first, begin + 0.29 * BACKWARD_NS) + 2 * c;
    assert_near(with_gradients_ns(ready, ""), fmax(third, end) + c + UPDATE_NS, 1e-5);
}

/* Half of the copies to buckets and back lengthens the backward pass, so that all gradients are
 * ready later; the other half follows the last bucket. Averages that do not overlap, and modes
 * without buckets, have no copies. */
static void gradients_are_copied_to_buckets(void **state DL_UNUSED)
{
    const char *all = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\noverlap = ";
    const char *costs =
        "[costs]\nschema = 1\nparameter_bytes = 2000000\n" FIXTURE_PASSES FIXTURE_UPDATE
        "[op network.bucket]\nfixed_ns = 80000\nper_sample_ns = 0\n"
        "[overlap]\nslowdown = 1\n" FIXTURE_FREE_DISPATCH;
    char rest[256];
    snprintf(rest, sizeof rest, "%syes\nbucket_bytes = 1000000\n", all);
    const double backward_ns = BACKWARD_NS + 40e3, c = bucket_ns(1e6);
    const double first = FORWARD_NS + backward_ns / 2 + c;
    assert_near(fixture_step_ns(costs, "", 2, rest),
                fmax(first, FORWARD_NS + backward_ns) + c + UPDATE_NS + 40e3, 1e-5);
    /* A single worker copies too; without the exchange it does not. */
    assert_near(fixture_step_ns(costs, "", 1, rest), FORWARD_NS + BACKWARD_NS + UPDATE_NS + 80e3,
                1e-5);
    assert_near(fixture_step_ns(costs, "", 1, "[sync]\nmode = none\n"),
                FORWARD_NS + BACKWARD_NS + UPDATE_NS, 1e-5);
    snprintf(rest, sizeof rest, "%syes\nbuckets = views\n", all);
    assert_near(fixture_step_ns(costs, "", 1, rest), FORWARD_NS + BACKWARD_NS + UPDATE_NS + 40e3,
                1e-5);
    snprintf(rest, sizeof rest, "%syes\nsharded = optimizer\n", all);
    assert_near(fixture_step_ns(costs, "", 1, rest), FORWARD_NS + BACKWARD_NS + UPDATE_NS + 40e3,
                1e-5);
    snprintf(rest, sizeof rest, "%sno\n", all);
    assert_near(fixture_step_ns(costs, "", 2, rest),
                FORWARD_NS + BACKWARD_NS + bucket_ns(2e6) + UPDATE_NS, 1e-5);
}

/* A bucket starts when the slowest worker has it ready. */
static void buckets_wait_for_the_slowest(void **state DL_UNUSED)
{
    double step_ns = simulated_ns(2e6, 1e6, 1, "[noise]\nslow = 1:2\n");
    assert_near(step_ns, 2 * (FORWARD_NS + BACKWARD_NS) + bucket_ns(1e6) + UPDATE_NS, 1e-5);
}

/* Without overlap all buckets follow the backward pass. */
static void without_overlap_buckets_come_behind(void **state DL_UNUSED)
{
    const char *rest = "[sync]\nmode = allreduce\n[exchange]\nalgorithm = ring\n"
                       "bucket_bytes = 40000\n";
    assert_near(fixture_step_ns(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "", 2, rest),
                FORWARD_NS + BACKWARD_NS + 2 * bucket_ns(40e3) + UPDATE_NS, 1e-5);
}

/* 80 kB in buckets of one byte. */
static void too_many_buckets_are_an_error(void **state DL_UNUSED)
{
    char path[64];
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario("[machine]\nfile = %s\nworkers = 2\n"
                                                       "[workload]\ncosts = c.ini\nbatch = 2\n"
                                                       "[sync]\nmode = allreduce\n"
                                                       "[exchange]\nbucket_bytes = 1\n",
                                                       path);
    unlink(path);
    dl_error err = {0};
    dl_run_result result = {0};
    const dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = &scenario.points[0]};
    assert_int_equal(dl_run(&config, &result, &err), DL_ERR_RANGE);
    assert_non_null(strstr(err.text, "bucket_bytes = 1: 8e+04 bytes make more than 65536 buckets"));
}

/* 80 kB in 10 000 buckets, each with one chunk: with trees 2 * 7 edges, up and down, two transfers
 * each, and two joins, 58 transfers; the same number in phases, an edge and its successor. 10 000
 * steps would take hours to simulate. */
static void runs_without_end_are_refused(void **state DL_UNUSED)
{
    static const char *const fewer[] = {
        [DL_FIDELITY_PHASE] = "use a larger [exchange] bucket_bytes",
        [DL_FIDELITY_CHUNK] = "use [exchange] fidelity = phase, or a larger bucket_bytes"};
    char path[64];
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    for (int i = 0; i < 2; i++) {
        fixture_write(path, FIXTURE_GPUS);
        DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH);
        DL_SCOPED(dl_scenario) scenario = fixture_scenario(
            "[scenario]\nsteps = 10000\n[machine]\nfile = %s\nworkers = 8\n[workload]\n"
            "costs = c.ini\nbatch = 8\n[sync]\nmode = allreduce\n[exchange]\nalgorithm = tree\n"
            "bucket_bytes = 8\nfidelity = %s\n",
            path, dl_fidelity_names[i]);
        unlink(path);
        dl_error err = {0};
        dl_run_result result = {0};
        const dl_run_config config = {
            .scenario = &scenario, .costs = &costs, .point = &scenario.points[0]};
        assert_int_equal(dl_run(&config, &result, &err), DL_ERR_RANGE);
        char text[sizeof err.text];
        snprintf(text, sizeof text,
                 "[exchange] fidelity = %s: 580000 transfers an exchange, 10000 exchanges: 5.8e+09 "
                 "transfers, more than 1e+09 in one run; %s, or fewer [scenario] steps",
                 dl_fidelity_names[i], fewer[i]);
        assert_string_equal(err.text, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_the_recursion),
        cmocka_unit_test(too_many_buckets_are_an_error),
        cmocka_unit_test(runs_without_end_are_refused),
        cmocka_unit_test(collectives_slow_computing),
        cmocka_unit_test(a_machine_slows_computing),
        cmocka_unit_test(a_machine_slows_less_between_nodes),
        cmocka_unit_test(exchange_slows_computing_throughout),
        cmocka_unit_test(buckets_start_when_the_costs_say),
        cmocka_unit_test(tensors_of_a_layer_are_ready_together),
        cmocka_unit_test(gradients_are_copied_to_buckets),
        cmocka_unit_test(buckets_wait_for_the_slowest),
        cmocka_unit_test(without_overlap_buckets_come_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
