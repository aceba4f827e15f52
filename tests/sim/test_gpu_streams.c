/* A parameter server with overlap, against the recursion of three stations in series: each worker's
 * link up, the server, the link down; bucket k enters a station when k has left the previous one
 * and k-1 has left this one. One thread sums at 1 ns per byte and vector; links have 10 GB/s and
 * 200 ns. */
#include "tests/gpu_fixture.h"

#define FORWARD_NS 400e3
#define BACKWARD_NS 600e3

static double simulated_ns(double parameters, double bucket, const char *machine, int workers,
                           const char *more)
{
    char costs[1024], rest[512];
    snprintf(costs, sizeof costs,
             "[costs]\nschema = 1\nparameter_bytes = %.0f\n" FIXTURE_PASSES
             "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"
             "[sync]\nbarrier_ns = 0\n" FIXTURE_FREE_DISPATCH,
             parameters);
    snprintf(rest, sizeof rest,
             "[exchange]\noverlap = yes\nbucket_bytes = %.0f\n%s[sync]\nmode = ps\n", bucket, more);
    return fixture_step_ns(costs, machine, workers, rest);
}

/* `copy`: ns per byte on a link; `sum`: ns per byte at the server. */
static double recursion_ns(double parameters, double bucket, double copy, double sum)
{
    double up_ns = 0, summed_ns = 0, down_ns = 0;
    for (double done = 0; done < parameters; done += bucket) {
        const double bytes = fmin(bucket, parameters - done);
        const double ready_ns = FORWARD_NS + BACKWARD_NS * (done + bytes) / parameters;
        up_ns = fmax(ready_ns, up_ns) + 200 + copy * bytes;
        summed_ns = fmax(up_ns, summed_ns) + sum * bytes;
        down_ns = fmax(summed_ns, down_ns) + 200 + copy * bytes;
    }
    return down_ns;
}

/* From exchange hidden by the backward pass to exchange limited by the server or the links. */
static void steps_follow_the_recursion(void **state DL_UNUSED)
{
    static const double parameters[] = {40e3, 200e3, 800e3};
    static const double parts[] = {1, 2, 3.7, 10, 40};
    for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            const double all = parameters[p], bucket = floor(all / parts[k]);
            assert_near(simulated_ns(all, bucket, "", 1, ""), recursion_ns(all, bucket, 0.1, 2),
                        1e-4);
            assert_near(simulated_ns(all, bucket, "gpus = 0, 2\n", 2, ""),
                        recursion_ns(all, bucket, 0.1, 3), 1e-4);
            /* Two workers behind one link of their switch. */
            assert_near(simulated_ns(all, bucket, "", 2, ""), recursion_ns(all, bucket, 0.2, 3),
                        1e-4);
        }
    }
}

/* The sum waits for the slowest worker, whose links and server are then free. */
static void a_bucket_waits_for_the_slowest(void **state DL_UNUSED)
{
    const double step_ns = simulated_ns(200e3, 100e3, "gpus = 0, 2\n", 2, "[noise]\nslow = 1:2\n");
    const double second_ns = 100e3 * (0.1 + 3 + 0.1) + 400;
    assert_near(step_ns, 2 * (FORWARD_NS + BACKWARD_NS) + second_ns, 1e-4);
}

/* Each shard has its own thread, and both share the link of 10 GB/s. */
static void shards_serve_at_once(void **state DL_UNUSED)
{
    const double all = 800e3, bucket = 200e3;
    const double one = simulated_ns(all, bucket, "", 1, "");
    const double two = simulated_ns(all, bucket, "", 1, "shards = 2\n");
    assert_near(one, recursion_ns(all, bucket, 0.1, 2), 1e-4);
    assert_true(two < one);
}

/* Half of the parameters on each of two GPUs of one switch: 40 kB in each direction,
 * simultaneously, and (2 + 1) x 40 kB in the memory of each, at 100 GB/s, with half of the update
 * of 0.1 ms. */
static void as_many_shards_as_workers(void **state DL_UNUSED)
{
    const char *rest = "[exchange]\noverlap = yes\nshards = workers\n"
                       "[sync]\nmode = ps\nwhere = gpu:0\n";
    const char *costs = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH;
    const double way_ns = 200 + 40e3 / 10;
    assert_near(fixture_step_ns(costs, "", 2, rest),
                FORWARD_NS + BACKWARD_NS + 2 * way_ns + 1200 + 50e3, 1e-4);
    assert_near(fixture_step_ns(costs, "", 1, rest), FORWARD_NS + BACKWARD_NS + 100e3, 1e-4);
}

/* All workers' bytes are sent in both directions once per step. */
static void bytes_are_those_of_the_model(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH;
    const char *rest = "[exchange]\noverlap = yes\nbucket_bytes = 30000\n[sync]\nmode = ps\n";
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "", 4, 20, rest);
    assert_near(r.usage.traffic_bytes, 20.0 * 4 * 2 * 80e3, 1e-9);
}

/* One bucket equals a server without overlap. */
static void one_bucket_is_no_overlap(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH;
    for (int workers = 1; workers <= 8; workers++) {
        const double with =
            fixture_step_ns(costs, "", workers, "[exchange]\noverlap = yes\n[sync]\nmode = ps\n");
        assert_near(with, fixture_step_ns(costs, "", workers, "[sync]\nmode = ps\n"), 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_the_recursion),
        cmocka_unit_test(a_bucket_waits_for_the_slowest),
        cmocka_unit_test(shards_serve_at_once),
        cmocka_unit_test(bytes_are_those_of_the_model),
        cmocka_unit_test(one_bucket_is_no_overlap),
        cmocka_unit_test(as_many_shards_as_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
