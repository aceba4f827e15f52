/* Workers whose GPUs have parts of the same sequences: times, bytes and memory against closed
 * forms. */
#include "tests/island_fixture.h"

#include <stdlib.h>

/* Four layers of 0.1 ms + 10 us per sample forward and twice that backward, the first with
 * `ring`. */
#define DIVIDED(ranks, ring)                                                           \
    "[costs]\nschema = 1\nparameter_bytes = 80000\nstate_bytes = 40000\n"              \
    "context_ranks = " ranks "\n[gpu_memory]\nactivation_bytes_per_sample "            \
    "= 7000\nworkspace_bytes = 1000\n" FIXTURE_LAYER("a") ring FIXTURE_LAYER("b")      \
        FIXTURE_LAYER("c") FIXTURE_LAYER("d") FIXTURE_FREE_DISPATCH                    \
        "[average]\nlatency_ns = 0\nread_bytes_per_s = 2e9\nwrite_bytes_per_s = 1e9\n" \
        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"  \
        "[sync]\nbarrier_ns = 0\nlock_ns = 0\n[overlap]\nslowdown = 1.25\n"
#define RING(bytes, forward, backward, again)                                        \
    "context_bytes_per_sample = " bytes "\ncontext_forward_ns_per_sample = " forward \
    "\ncontext_backward_ns_per_sample = " backward "\ncontext_forward_again = " again "\n"

static const char none[] = "[sync]\nmode = none\n[exchange]\noverlap = yes\nbucket_bytes = 0\n";

/* Time that a ring of 1 MB per sample on each GPU adds to the step, s. */
static double added_s(int gpus, const char *ring, int samples)
{
    char layout[32], *costs = NULL;
    snprintf(layout, sizeof layout, "layout = cp=%d,dp=1\n", gpus);
    double step_s[2];
    for (int with = 0; with < 2; with++) {
        costs = dl_format(DIVIDED("%d", "%s"), gpus, with ? ring : "");
        DL_SCOPED(dl_run_result) r = run(costs, layout, samples, none);
        step_s[with] = r.step_mean_s;
        free(costs);
    }
    return step_s[1] - step_s[0];
}

/* Time of a hop of `bytes` from each GPU to the next, s: one step of an all-gather among all. */
static double hop_s(int gpus, double bytes)
{
    return idle_s(DL_ALLGATHER, gpus, gpus * bytes) / (gpus - 1);
}

/* 1 MB at 10 GB/s takes 0.1 ms, approximately the time h of a hop. Without concurrent attention the
 * step waits for all n - 1 hops forward and 2 (n - 1) backward; with attention of 40 us per block
 * forward and 150 us backward, for (n - 1) (h - 40) forward and (n - 2) (2 h - 150) backward; with
 * 1 s of attention, for nothing to within a nanosecond. */
static void hops_go_beside_attention(void **state DL_UNUSED)
{
    for (int n = 2; n <= 4; n += 2) {
        for (int samples = 1; samples <= 2; samples++) {
            const double h = hop_s(n, 1e6 * samples), few = n - 1, b = 1e-6 * samples;
            assert_true(h > 80e-6 * samples && h < 140e-6 * samples);
            assert_near(added_s(n, RING("1e6", "0", "0", "0"), samples), 3 * few * h, 1e-4);
            assert_near(added_s(n, RING("1e6", "0", "0", "1"), samples), 4 * few * h, 1e-4);
            assert_near(added_s(n, RING("1e6", "40e3", "1e9", "0"), samples), few * (h - 40 * b),
                        1e-4);
            assert_near(added_s(n, RING("1e6", "40e3", "150e3", "1"), samples),
                        2 * few * (h - 40 * b) + (n - 2) * (2 * h - 150 * b), 1e-4);
            assert_true(fabs(added_s(n, RING("1e6", "1e9", "1e9", "0"), samples)) < 1e-8);
        }
    }
}

/* All-to-alls of the same bytes of each GPU are waited for: four in each pass, and four more in a
 * backward pass that recomputes attention. */
static void alltoalls_in_place_of_a_ring(void **state DL_UNUSED)
{
    for (int n = 2; n <= 4; n += 2) {
        const double each = idle_s(DL_ALLTOALL, n, 2e6);
        assert_near(added_s(n, RING("1e6", "1e9", "1e9", "0") "context_alltoalls = 4\n", 2),
                    8 * each, 1e-4);
        assert_near(added_s(n, RING("1e6", "0", "0", "1") "context_alltoalls = 4\n", 2), 12 * each,
                    1e-4);
    }
}

/* Keys and values make n - 1 hops from each GPU forward and twice as many backward. Parameters, 80
 * kB, are gathered and gradients reduced once per step, for any number of micro-batches. */
static void bytes_are_those_of_rings(void **state DL_UNUSED)
{
    static const char ring[] = DIVIDED("4", RING("1000", "1e9", "1e9", "0"));
    for (int micro = 1; micro <= 2; micro++) {
        char options[192];
        snprintf(options, sizeof options, "%saccumulate = %d\n[exchange]\noverlap = yes\n",
                 "[sync]\nmode = none\n", micro);
        DL_SCOPED(dl_run_result) r = run(ring, "layout = cp=4,dp=1\n", 2, options);
        assert_near(r.usage.traffic_bytes, 12 * (2 * 3 * 80000.0 + 3 * 3 * 4 * 2 * 1000.0), 1e-9);
        /* All four shards of parameters gather them for each pass, although two share each
         * sample. */
        DL_SCOPED(dl_run_result) both = run(DIVIDED("2", RING("1000", "1e9", "1e9", "0")),
                                            "layout = cp=2,fsdp=2,dp=1\n", 4, options);
        assert_near(both.usage.traffic_bytes,
                    12 * (micro * 3 * 3 * 80000.0 + 4 * 3 * 1 * 2 * 1000.0), 1e-9);
    }
}

/* Two workers of two GPUs each sum gradients like a ring of all four: 2 x 3 x 80 kB. */
static void gradients_are_summed_over_all(void **state DL_UNUSED)
{
    const char *sums =
        "[sync]\nmode = allreduce\n[exchange]\noverlap = yes\nbucket_bytes = 20000\n";
    DL_SCOPED(dl_run_result) two = run(DIVIDED("2", ""), "layout = cp=2,dp=2\n", 2, sums);
    DL_SCOPED(dl_run_result) four = run(DIVIDED("1", ""), "workers = 4\n", 4, sums);
    assert_near(four.usage.traffic_bytes, 12 * 2 * 3 * 80000.0, 1e-9);
    assert_near(two.usage.traffic_bytes, four.usage.traffic_bytes, 1e-9);
}

/* An axis of size 1 has no effect; the GPUs of an NVSwitch are equidistant. */
static void axes_in_any_order(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"cp=2,pp=2,fsdp=2", "pp=2,cp=2,fsdp=2",
                                          "fsdp=2,pp=2,cp=2", "tp=1,fsdp=2,cp=2,pp=2"};
    assert_any_order(DIVIDED("2", RING("1e5", "0", "0", "0")), layouts, DL_LENGTH(layouts),
                     "layout = cp=1,fsdp=4,dp=2\n");
}

/* GPUs 0 and 1 below one switch have its links to themselves; the rings of GPUs 0, 2 and of 1, 3
 * share those between the switches. */
static void rings_share_the_links(void **state DL_UNUSED)
{
    const char *costs = DIVIDED("2", RING("1e7", "0", "0", "0"));
    DL_SCOPED(dl_run_result) near = run(costs, "layout = cp=2,fsdp=2,dp=1\n", 2, none);
    DL_SCOPED(dl_run_result) far = run(costs, "layout = fsdp=2,cp=2,dp=1\n", 2, none);
    const double hops_s = 3 * 1e7 / 1e10;
    assert_near(far.step_mean_s - near.step_mean_s, hops_s, 0.05);
}

/* 80 kB of parameters and of gradients, 40 kB of state, 7 kB per sample, 1 kB: every GPU has its
 * part of all samples of its replica, as in the costs; sharded vectors are divided over all GPUs
 * with the same layers. */
static void memory_is_that_of_a_part(void **state DL_UNUSED)
{
    static const struct {
        const char *layout, *sharded;
        double needs;
    } cases[] = {
        {"cp=4,dp=1", "none", 2 * 80e3 + 40e3 + 4 * 7e3 + 1e3},
        {"cp=2,dp=2", "none", 2 * 80e3 + 40e3 + 2 * 7e3 + 1e3},
        {"cp=2,dp=2", "optimizer", 2 * 80e3 + 40e3 / 4 + 2 * 7e3 + 1e3},
        {"cp=4,dp=1", "optimizer", 2 * 80e3 + 40e3 / 4 + 4 * 7e3 + 1e3},
        {"cp=2,fsdp=2,dp=1", "none", 2 * (20e3 + 80e3) + 40e3 / 4 + 2 * 7e3 + 1e3},
        {"cp=2,fsdp=2,dp=2", "optimizer", 2 * (20e3 + 80e3) + 40e3 / 8 + 7e3 + 1e3},
    };
    for (size_t c = 0; c < DL_LENGTH(cases); c++) {
        const char *costs = cases[c].layout[3] == '4' ? DIVIDED("4", "") : DIVIDED("2", "");
        assert_near(needs_bytes(costs, cases[c].layout, 4, cases[c].sharded), cases[c].needs, 1e-9);
    }
}

/* Costs of whole sequences cannot be used for parts, nor vice versa. */
static void whole_sequences_are_not_divided(void **state DL_UNUSED)
{
    assert_layout_refused(DIVIDED("1", ""), "layout = cp=2\n", "[costs] context_ranks = 2");
    assert_layout_refused(DIVIDED("4", ""), "workers = 2\n", "--layout cp=4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hops_go_beside_attention),
        cmocka_unit_test(alltoalls_in_place_of_a_ring),
        cmocka_unit_test(bytes_are_those_of_rings),
        cmocka_unit_test(gradients_are_summed_over_all),
        cmocka_unit_test(axes_in_any_order),
        cmocka_unit_test(rings_share_the_links),
        cmocka_unit_test(memory_is_that_of_a_part),
        cmocka_unit_test(whole_sequences_are_not_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
