/* Batches for GPUs: 200 us of one core and 1 MB per sample, which takes 100 us on a link of 10 GB/s
 * (tests/gpu_fixture.h). A step computes and updates for 1.1 ms. */
#include "tests/gpu_fixture.h"

#include <stdlib.h>

#define COSTS                                                                                 \
    FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH "[op input]\nfixed_ns = 0\nper_sample_ns = 2e5\n" \
                                            "[input]\nbytes_per_sample = 1000000\n"

#define STEP_NS 1.1e6
#define MAKE_NS 2e5
#define COPY_NS (1e5 + 200)

static double step_ns(int workers, int cores, int prefetch)
{
    char rest[128];
    snprintf(rest, sizeof rest, "[input]\ncores = %d\nprefetch = %d\n", cores, prefetch);
    return fixture_step_ns(COSTS, "", workers, rest);
}

/* The step requests its batch: all stages run in sequence. */
static void without_prefetch_the_step_waits(void **state DL_UNUSED)
{
    assert_near(step_ns(1, 1, 0), STEP_NS + MAKE_NS + COPY_NS, 1e-5);
    assert_near(step_ns(2, 2, 0), STEP_NS + MAKE_NS + 2 * COPY_NS, 2e-3); /* one link of a switch */
}

/* A pipeline: the slowest stage determines the step. */
static void with_prefetch_the_slowest_stage_counts(void **state DL_UNUSED)
{
    assert_near(step_ns(1, 1, 1), STEP_NS, 1e-5);
    for (int workers = 1; workers <= 4; workers++) {
        double made_ns = workers * MAKE_NS;
        assert_near(step_ns(workers, 1, 2), fmax(STEP_NS, made_ns), 1e-4);
    }
    const char *slow = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH
        "[op input]\nfixed_ns = 0\nper_sample_ns = 1e6\n[input]\nbytes_per_sample = 0\n";
    for (int cores = 1; cores <= 4; cores++) {
        char rest[64];
        snprintf(rest, sizeof rest, "[input]\ncores = %d\nprefetch = 4\n", cores);
        DL_SCOPED(dl_run_result) r = fixture_run_gpus(slow, "", 4, 400, rest);
        assert_near(1e9 * r.step_mean_s, fmax(STEP_NS, 4e6 / cores), 0.02);
    }
}

/* A step interrupted by its worker's absence has consumed its batch, and takes another when it is
 * repeated: with both launches of batches, at launch or ahead, no step waits for one forever. The
 * syncer's scans continue as long as a learner runs. */
static void a_step_that_is_done_anew_has_another_batch(void **state DL_UNUSED)
{
    static const char *const inputs[] = {"prefetch = 0\n", "prefetch = 2\n", "made = at_launch\n"};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        for (int mode = 0; mode < 2; mode++) {
            char rest[256];
            snprintf(rest, sizeof rest,
                     "[input]\n%s[sync]\nmode = %s\n%s[failures]\naway = 0:0.0052-0.008, "
                     "0:0.0101-0.0132, 1:0.0061-0.009\n",
                     inputs[i], mode == 0 ? "average" : "async_average",
                     mode == 0 ? "" : "[syncer]\nend = each\nscan_s = 1e-4\n");
            DL_SCOPED(dl_run_result) r = fixture_run_gpus(COSTS, "", 2, 30, rest);
            assert_true(r.samples > 40 && r.samples <= 60);
            if (mode == 1) assert_near(r.syncer->uploaded, 60, 1e-12);
        }
    }
}

/* Cores belong to a node: GPUs 3 and 4 are on different nodes. */
static void nodes_have_cores_of_their_own(void **state DL_UNUSED)
{
    const char *slow = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH
        "[op input]\nfixed_ns = 0\nper_sample_ns = 2e6\n[input]\nbytes_per_sample = 0\n";
    /* One batch ahead: the next one is started when this one has been copied. */
    assert_near(fixture_step_ns(slow, "gpus = 3, 4\n", 2, ""), 2e6 + 200, 1e-5);
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(slow, "gpus = 2, 3\n", 2, 400, "");
    assert_near(1e9 * r.step_mean_s, 4e6, 0.01);
    assert_true(r.part_frac[DL_PART_INPUT] > 0.7);
}

/* 20 MB per batch over a link of 10 GB/s shared by two GPUs: 4 ms. */
static void copies_share_links(void **state DL_UNUSED)
{
    const char *large =
        FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH "[input]\nbytes_per_sample = 20000000\n";
    dl_run_result r = fixture_run_gpus(large, "gpus = 0, 1\n", 2, 400, "");
    assert_near(1e9 * r.step_mean_s, 4e6, 0.01);
    assert_string_equal(r.usage.link, "node0 sw0 down");
    assert_near(r.usage.link_frac, 1, 0.01);
    dl_run_result_free(&r);
    r = fixture_run_gpus(large, "gpus = 0, 2\n", 2, 400, "");
    assert_near(1e9 * r.step_mean_s, 2e6, 0.01);
    dl_run_result_free(&r);
}

/* Without prefetch a step of n workers takes the longest of n exponential times, H_n times their
 * mean; a single worker takes the mean. */
static void who_waits_for_all_waits_for_the_slowest_input(void **state DL_UNUSED)
{
    const char *slow = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH
        "[op input]\nfixed_ns = 1e6\nper_sample_ns = 0\n[input]\nbytes_per_sample = 0\n";
    const char *rest = "[input]\nnoise = exponential\ncores = 4\nprefetch = 0\n"
                       "[sync]\nmode = allreduce\n";
    const char *even = "[input]\ncores = 4\nprefetch = 0\n[sync]\nmode = allreduce\n";
    double harmonic = 0;
    for (int n = 1; n <= 4; n++) {
        harmonic += 1.0 / n;
        DL_SCOPED(dl_run_result) varies = fixture_run_gpus(slow, "", n, 10000, rest);
        DL_SCOPED(dl_run_result) is_even = fixture_run_gpus(slow, "", n, 100, even);
        const double more_ns = 1e9 * (varies.step_mean_s - is_even.step_mean_s);
        assert_near(1e6 + more_ns, 1e6 * harmonic, 0.03);
    }
}

static void bytes_of_a_sample_are_needed_with_an_input(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\n[op input]\nfixed_ns = 1\n"
                                   "per_sample_ns = 1\n");
    DL_AUTOFREE char *missing = dl_costs_missing(&costs, DL_NEED_INPUT);
    assert_string_equal(missing, "[input] bytes_per_sample");
    dl_costs_free(&costs);
    costs = fixture_costs(FIXTURE_GPU_COSTS);
    assert_null(dl_costs_missing(&costs, DL_NEED_INPUT));
    dl_costs_free(&costs);
}

/* 3 MB per sample at 1 GB/s: 3 ms before a batch is made in 0.2 ms and copied. With prefetch
 * storage is the slowest stage; the GPUs of one node wait for each other's reads, those of two
 * nodes do not. A part in host memory is not read. */
static void the_workers_of_a_node_share_its_storage(void **state DL_UNUSED)
{
    const char *costs = COSTS "stored_bytes_per_sample = 3000000\n";
    const char *ahead = "[input]\ncores = 4\nprefetch = 4\nstorage_bytes_per_s = 1GB/s\n";
    assert_near(
        fixture_step_ns(costs, "", 1, "[input]\nprefetch = 0\nstorage_bytes_per_s = 1GB/s\n"),
        STEP_NS + 3e6 + MAKE_NS + COPY_NS, 1e-5);
    const struct {
        const char *gpus;
        int workers;
        double ns;
    } cases[] = {{"", 1, 3e6}, {"", 4, 12e6}, {"gpus = 3, 4\n", 2, 3e6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_run_result r = fixture_run_gpus(costs, cases[i].gpus, cases[i].workers, 400, ahead);
        assert_near(1e9 * r.step_mean_s, cases[i].ns, 0.02);
        assert_true(r.part_frac[DL_PART_INPUT] > 0.6);
        assert_string_equal(r.usage.link, "storage of node0");
        dl_run_result_free(&r);
    }
    char half[200];
    snprintf(half, sizeof half, "%scached_frac = 0.5\n", ahead);
    dl_run_result r = fixture_run_gpus(costs, "", 4, 400, half);
    assert_near(1e9 * r.step_mean_s, 6e6, 0.02);
    dl_run_result_free(&r);
    /* GPUs of two nodes get half of a file server each; a node's own rate may be the lower
     * limit. */
    const struct {
        const char *gpus, *rates, *link;
        int workers;
        double ns;
    } shared[] = {
        {"gpus = 3, 4\n", "shared_storage_bytes_per_s = 1GB/s\n", "shared storage", 2, 6e6},
        {"gpus = 3, 4\n", "shared_storage_bytes_per_s = 3GB/s\nstorage_bytes_per_s = 1GB/s\n",
         "storage of node0", 2, 3e6},
        {"", "shared_storage_bytes_per_s = 1GB/s\nstorage_bytes_per_s = 2GB/s\n", "shared storage",
         4, 12e6},
    };
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        char rest[200];
        snprintf(rest, sizeof rest, "[input]\ncores = 4\nprefetch = 4\n%s", shared[i].rates);
        r = fixture_run_gpus(costs, shared[i].gpus, shared[i].workers, 400, rest);
        assert_near(1e9 * r.step_mean_s, shared[i].ns, 0.02);
        assert_string_equal(r.usage.link, shared[i].link);
        dl_run_result_free(&r);
    }
    /* If not given, storage limits nothing. */
    assert_near(fixture_step_ns(costs, "", 4, "[input]\ncores = 4\nprefetch = 4\n"),
                fixture_step_ns(COSTS, "", 4, "[input]\ncores = 4\nprefetch = 4\n"), 1e-9);
}

/* 1 ms of one core per batch, made when the single host thread launches its step, which it does
 * after it has read the output of all forward passes, 0.4 ms after the start of the last one. Then
 * n batches take n ms; a step of 1.1 ms hides those made before its end. */
static void batches_made_at_launch_follow_the_forward_passes(void **state DL_UNUSED)
{
    const char *slow = FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH
        "[op input]\nfixed_ns = 1e6\nper_sample_ns = 0\n[input]\nbytes_per_sample = 0\n";
    const char *read = "dispatch = single\nreads = forward\n";
    for (int n = 1; n <= 4; n++) {
        assert_near(fixture_step_ns(slow, read, n, "[input]\nmade = at_launch\n"), 4e5 + n * 1e6,
                    1e-3);
        /* If the host is a step ahead of the GPUs, the step waits only for the cores. */
        assert_near(fixture_step_ns(slow, "dispatch = single\n", n, "[input]\nmade = at_launch\n"),
                    fmax(STEP_NS, n * 1e6), 1e-3);
    }
    /* Made in 0.2 ms during the backward pass, copied after it. */
    assert_near(fixture_step_ns(COSTS, read, 1, "[input]\nmade = at_launch\n"), STEP_NS + COPY_NS,
                1e-3);
    /* With a core per worker all batches are made simultaneously. */
    assert_near(fixture_step_ns(slow, read, 4, "[input]\nmade = at_launch\ncores = 4\n"), 1.4e6,
                1e-3);
}

/* Launches take 0.3 ms per GPU: a thread that has read the output of the forward passes launches
 * the last GPU's step 0.9 ms later, whose forward pass takes 0.4 ms. Otherwise it is a step ahead:
 * 4 x 0.3 ms. */
static void the_host_reads_what_forward_passes_made(void **state DL_UNUSED)
{
    const char *costs = FIXTURE_GPU_COSTS "[dispatch]\nserial_ns = 0\nper_worker_ns = 3e5\n";
    assert_near(fixture_step_ns(costs, "dispatch = single\n", 4, ""), 1.2e6, 1e-3);
    assert_near(fixture_step_ns(costs, "dispatch = single\nreads = forward\n", 4, ""), 1.3e6, 1e-3);
    /* With ahead = 0 the thread waits for the step's end anyway. */
    const char *turns = "dispatch = single\nahead = 0\n";
    assert_near(fixture_step_ns(costs, "dispatch = single\nahead = 0\nreads = forward\n", 4, ""),
                fixture_step_ns(costs, turns, 4, ""), 1e-9);
    /* Layers that wait for their own parameters split the forward pass into pieces: it ends with
     * the last of them. Interrupted steps do not block the run. */
    const char *layers = "[exchange]\noverlap = yes\nbucket_bytes = 20000\nfetch = layers\n"
                         "[sync]\nmode = ps\nwhere = gpu:0\n";
    const double ahead_ns = fixture_step_ns(costs, "dispatch = single\n", 4, layers);
    const double read_ns =
        fixture_step_ns(costs, "dispatch = single\nreads = forward\n", 4, layers);
    assert_true(read_ns > 1.299e6 && read_ns > ahead_ns);
    assert_near(fixture_step_ns(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "reads = forward\n", 4,
                                "[sync]\nmode = ksync\nk = 2\n"),
                fixture_step_ns(FIXTURE_GPU_COSTS FIXTURE_FREE_DISPATCH, "", 4,
                                "[sync]\nmode = ksync\nk = 2\n"),
                1e-9);
}

/* A forward pass of no time gives no rounding error below 0: the update is not part of it. */
static void a_forward_pass_may_take_no_time(void **state DL_UNUSED)
{
    const char *costs = "[costs]\nschema = 1\nparameter_bytes = 37482\nstate_bytes = 0\n"
                        "[op a.backward]\nfixed_ns = 131599\nper_sample_ns = 18\n"
                        "[op a.update]\nfixed_ns = 1584\nper_sample_ns = 0\n"
                        "[sync]\nbarrier_ns = 0\nlock_ns = 0\n" FIXTURE_FREE_DISPATCH;
    for (int i = 1; i < 100; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, "[noise]\nslow = 0:0.%02d1\n", i);
        DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs, "reads = forward\n", 1, 3, rest);
        assert_near(1e9 * r.step_p50_s, (0.01 * i + 0.001) * 131617 + 1584, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_prefetch_the_step_waits),
        cmocka_unit_test(with_prefetch_the_slowest_stage_counts),
        cmocka_unit_test(a_step_that_is_done_anew_has_another_batch),
        cmocka_unit_test(a_forward_pass_may_take_no_time),
        cmocka_unit_test(nodes_have_cores_of_their_own),
        cmocka_unit_test(copies_share_links),
        cmocka_unit_test(the_workers_of_a_node_share_its_storage),
        cmocka_unit_test(who_waits_for_all_waits_for_the_slowest_input),
        cmocka_unit_test(batches_made_at_launch_follow_the_forward_passes),
        cmocka_unit_test(the_host_reads_what_forward_passes_made),
        cmocka_unit_test(bytes_of_a_sample_are_needed_with_an_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
