/* Workers whose layers are divided among several GPUs: times and bytes against closed forms. */
#include "tests/island_fixture.h"

#include <stdlib.h>

/* A layer of 0.1 ms + 10 us per sample forward and twice that backward, with an output of 1 kB per
 * sample, and the given numbers of collectives of `bytes` per sample in each pass. */
#define LAYER(name, bytes, forward, backward)                          \
    FIXTURE_LAYER(name)                                                \
    "tensor_bytes_per_sample = " bytes "\ntensor_collectives_forward " \
    "= " forward "\ntensor_collectives_backward = " backward "\n"
#define DIVIDED(ranks, layers)                                                     \
    "[costs]\nschema = 1\nparameter_bytes = 80000\nstate_bytes = 40000\n"          \
    "tensor_ranks = " ranks "\n[gpu_memory]\nactivation_bytes_per_sample "         \
    "= 7000\nworkspace_bytes = 1000\n" layers FIXTURE_FREE_DISPATCH                \
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 2e9\nwrite_bytes_per_s = 1e9\n" \
    "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"  \
    "[sync]\nbarrier_ns = 0\nlock_ns = 0\n[overlap]\nslowdown = 1.25\n"
#define LAYERS                     \
    LAYER("a", "100000", "1", "1") \
    LAYER("b", "40000", "2", "3") LAYER("c", "40000", "2", "5") LAYER("d", "0", "0", "0")

/* Time of each layer's passes and their collectives, in sequence, on idle links, s. */
static double by_layers_s(int gpus, double samples)
{
    static const struct {
        double bytes;
        int calls;
    } layers[] = {{100000, 2}, {40000, 5}, {40000, 7}, {0, 0}};
    double sum_s = 0;
    for (int l = 0; l < 4; l++) {
        sum_s += 3 * (1e-4 + 1e-5 * samples);
        for (int kind = 0; kind < 2 && layers[l].calls > 0; kind++)
            sum_s += layers[l].calls * idle_s(kind == 0 ? DL_ALLGATHER : DL_REDUCE_SCATTER, gpus,
                                              layers[l].bytes * samples);
    }
    return sum_s;
}

/* The collectives of a whole pass take as long as those of its layers in sequence; so does the rest
 * of the step, and the same in stages with one micro-batch, in which stages wait for each other. */
static void passes_take_what_their_layers_do(void **state DL_UNUSED)
{
    for (int samples = 1; samples <= 4; samples *= 2) {
        dl_run_result four =
            run(DIVIDED("4", LAYERS), "layout = tp=4,dp=1\n", samples, "[sync]\nmode = none\n");
        assert_near(four.step_mean_s, by_layers_s(4, samples), 1e-6);
        dl_run_result_free(&four);
        dl_run_result two =
            run(DIVIDED("2", LAYERS), "layout = tp=2,dp=1\n", samples, "[sync]\nmode = none\n");
        const double step_s = by_layers_s(2, samples);
        assert_near(two.step_mean_s, step_s, 1e-6);
        dl_run_result_free(&two);
        dl_run_result staged = run(DIVIDED("2", LAYERS), "layout = tp=2,pp=2,dp=1\n", samples,
                                   "[sync]\nmode = none\n");
        assert_near(staged.step_mean_s, step_s, 2e-3); /* two crossings */
        dl_run_result_free(&staged);
    }
}

/* Four pairs of 1 MB in the backward pass take as long as four of which two overlap products of
 * zero time; with products of 1 s these two take no time. */
static void collectives_go_beside_products(void **state DL_UNUSED)
{
#define BESIDE(backward, beside, ns)                                                         \
    DIVIDED("4", LAYER("a", "1e6", "0", backward) "tensor_collectives_beside = " beside      \
                                                  "\ntensor_beside_ns_per_sample = " ns      \
                                                  "\n" FIXTURE_LAYER("b") FIXTURE_LAYER("c") \
                                                      FIXTURE_LAYER("d"))
    const char *none = "[sync]\nmode = none\n", *layout = "layout = tp=4,dp=1\n";
    DL_SCOPED(dl_run_result) waited = run(BESIDE("4", "0", "0"), layout, 1, none);
    DL_SCOPED(dl_run_result) shorter = run(BESIDE("2", "2", "0"), layout, 1, none);
    DL_SCOPED(dl_run_result) hidden = run(BESIDE("2", "2", "1e9"), layout, 1, none);
    DL_SCOPED(dl_run_result) half = run(BESIDE("2", "0", "0"), layout, 1, none);
    assert_near(shorter.step_mean_s, waited.step_mean_s, 1e-9);
    assert_near(hidden.step_mean_s, half.step_mean_s, 1e-9);
    assert_near(hidden.usage.traffic_bytes, waited.usage.traffic_bytes, 1e-9);
}

/* Rings over n GPUs: each pair moves 2 (n - 1) times the activation. */
static void bytes_are_those_of_rings(void **state DL_UNUSED)
{
    const double pairs = 2 * 100000.0 + 5 * 40000.0 + 7 * 40000.0;
    dl_run_result r = run(DIVIDED("4", LAYERS), "layout = tp=4,dp=1\n", 2, "[sync]\nmode = none\n");
    assert_near(r.usage.traffic_bytes, 12 * 2 * pairs * 2 * 3, 1e-9);
    assert_near(r.part_frac[DL_PART_COMMUNICATION] * r.step_mean_s, r.step_mean_s - 4 * 3 * 1.2e-4,
                1e-6);
    dl_run_result_free(&r);
    /* Each of four GPUs all-reduces its 80 kB with its peer in the other worker: 2 times 80 kB. */
    dl_run_result two =
        run(DIVIDED("4", LAYERS), "layout = tp=4,dp=2\n", 2, "[sync]\nmode = allreduce\n");
    assert_near(two.usage.traffic_bytes, 12 * (2 * pairs * 2 * 3 + 4 * 2 * 80000.0), 1e-9);
    dl_run_result_free(&two);
    /* Shards gather twice and reduce once, 3 (n - 1) times, for each of the two parts of the
     * layers. */
    DL_SCOPED(dl_run_result) shards = run(DIVIDED("2", LAYERS), "layout = tp=2,fsdp=4,dp=1\n", 4,
                                          "[sync]\nmode = none\n[exchange]\noverlap = yes\n");
    assert_near(shards.usage.traffic_bytes, 12 * (4 * pairs * 2 * 1 + 2 * 3 * 3 * 80000.0), 1e-9);
}

/* Time that the exchange between two workers of two GPUs adds to their step, s. */
static double exchange_s(const char *options)
{
    const char *costs =
        DIVIDED("2", FIXTURE_LAYER("a") FIXTURE_LAYER("b") FIXTURE_LAYER("c") FIXTURE_LAYER("d"));
    DL_SCOPED(dl_run_result) alone = run(costs, "layout = tp=2,dp=2\n", 4, "[sync]\nmode = none\n");
    DL_SCOPED(dl_run_result) both = run(costs, "layout = tp=2,dp=2\n", 4, options);
    return both.step_mean_s - alone.step_mean_s;
}

/* Rings of two send 80 kB in each direction, for both parts of the layers on the same links of 10
 * GB/s; of four buckets, three are reduced during the rest of the backward pass. */
static void gradients_of_parts_go_beside_the_pass(void **state DL_UNUSED)
{
    const double late_s = exchange_s("[sync]\nmode = allreduce\n[exchange]\noverlap = no\n");
    const double beside_s =
        exchange_s("[sync]\nmode = allreduce\n[exchange]\noverlap = yes\nbucket_bytes = 20000\n");
    assert_near(late_s - beside_s, 2 * 60e3 / 1e10, 1e-3);
}

/* GPUs 0, 1 below one switch: a ring has its links to itself, S / 2 bytes in each direction. GPUs
 * 0, 2 and 1, 3: two rings cross between the switches simultaneously. */
static void groups_share_the_links(void **state DL_UNUSED)
{
    const char *costs = DIVIDED("2", LAYER("a", "1e6", "2", "2") FIXTURE_LAYER("b")
                                         FIXTURE_LAYER("c") FIXTURE_LAYER("d"));
    const char *none = "[sync]\nmode = none\n[exchange]\nbucket_bytes = 0\n";
    DL_SCOPED(dl_run_result) near = run(costs, "layout = tp=2,fsdp=2,dp=1\n", 2, none);
    DL_SCOPED(dl_run_result) far = run(costs, "layout = fsdp=2,tp=2,dp=1\n", 2, none);
    const double both_s = 4 * 2 * 1e6 / 1e10; /* S / B instead of half of it */
    const double copies = near.part_frac[DL_PART_COMMUNICATION], others = 0.05e-3;
    assert_near(copies * near.step_mean_s, both_s / 2 + others, 0.1);
    assert_true(far.step_mean_s - near.step_mean_s > 0.9 * both_s / 2);
    assert_true(far.step_mean_s - near.step_mean_s < 1.1 * both_s / 2);
}

/* The GPUs of an NVSwitch are equidistant; an axis of size 1 has no effect. */
static void axes_in_any_order(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"tp=2,pp=2,fsdp=2", "pp=2,tp=2,fsdp=2",
                                          "fsdp=2,pp=2,tp=2", "fsdp=2,tp=2,pp=2",
                                          "tp=2,fsdp=2,pp=2", "pp=2,fsdp=2,tp=2"};
    assert_any_order(DIVIDED("2", LAYERS), layouts, DL_LENGTH(layouts),
                     "layout = tp=1,fsdp=4,dp=2\n");
}

/* Each GPU has the sizes of the costs: 80 kB of parameters and gradients, 40 kB of state, 7 kB per
 * sample, 1 kB. */
static void memory_is_that_of_a_part(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"tp=4", "tp=2,pp=2", "tp=2,fsdp=2"};
    static const double needs[] = {
        2 * 80e3 + 40e3 + 4 * 7e3 + 1e3,               /* a batch of 4 */
        (2 * 80e3 + 40e3) / 2 + 7e3 + 7e3 / 2 + 1e3,   /* half of the layers, when the first of two
                                                      * micro-batches has added all gradients, and
                                                      * keeps one of two layers' activations */
        2 * (40e3 + 80e3) + 40e3 / 2 + 2 * 7e3 + 1e3}; /* half sharded, and one gathered bucket with
                                                        * all parameters */
    for (int l = 0; l < 3; l++) {
        char path[64];
        snprintf(path, sizeof path, "tensor_memory_%d.ini", (int)getpid());
        fixture_write(path, FIXTURE_GPUS);
        DL_SCOPED(dl_costs) costs = fixture_costs(DIVIDED("2", LAYERS));
        dl_scenario s = fixture_scenario("[machine]\nfile = %s\nlayout = %s,dp=1\n[workload]\n"
                                         "costs = c\nbatch = 4\n[exchange]\nbucket_bytes = 0\n"
                                         "[pipeline]\nmicro_batches = %d\n",
                                         path, layouts[l], l == 1 ? 2 : 1);
        unlink(path);
        const dl_gpu_memory memory = dl_run_memory(&s, &costs, &s.points[0]);
        assert_near(memory.needs_bytes, needs[l], 1e-9);
        dl_scenario_free(&s);
    }
}

/* Costs of whole layers cannot be used for parts, nor vice versa. */
static void whole_layers_are_not_divided(void **state DL_UNUSED)
{
    assert_layout_refused(sharing, "layout = tp=2\n", "[costs] tensor_ranks = 2");
    assert_layout_refused(DIVIDED("4", LAYERS), "layout = tp=2\n", "--layout tp=4");
    assert_layout_refused(DIVIDED("4", LAYERS), "workers = 2\n", "--layout tp=4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_take_what_their_layers_do),
        cmocka_unit_test(collectives_go_beside_products),
        cmocka_unit_test(bytes_are_those_of_rings),
        cmocka_unit_test(gradients_of_parts_go_beside_the_pass),
        cmocka_unit_test(groups_share_the_links),
        cmocka_unit_test(axes_in_any_order),
        cmocka_unit_test(memory_is_that_of_a_part),
        cmocka_unit_test(whole_layers_are_not_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
