/* Workers whose GPUs have different experts: times, bytes and memory against closed forms. */
#include "tests/island_fixture.h"

#include <stdlib.h>

/* Four layers of 0.1 ms + 10 us per sample forward and twice that backward, with 20 kB of
 * parameters each; of those of the first 12 kB are a GPU's own experts. */
#define DIVIDED(ranks, exchanges)                                                               \
    "[costs]\nschema = 1\nparameter_bytes = 80000\nstate_bytes = 40000\n"                       \
    "expert_ranks = " ranks "\n[gpu_memory]\nactivation_bytes_per_sample "                      \
    "= 7000\nworkspace_bytes = 1000\n" FIXTURE_LAYER(                                           \
        "a") "expert_parameter_bytes = 12000\n" exchanges FIXTURE_LAYER("b") FIXTURE_LAYER("c") \
        FIXTURE_LAYER("d") FIXTURE_FREE_DISPATCH                                                \
        "[average]\nlatency_ns = 0\nread_bytes_per_s = 2e9\nwrite_bytes_per_s = 1e9\n"          \
        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9\nwrite_bytes_per_s = 1e9\n"           \
        "[sync]\nbarrier_ns = 0\nlock_ns = 0\n[overlap]\nslowdown = 1.25\n"
#define EXCHANGES(bytes, forward, backward)                                         \
    "expert_bytes_per_sample = " bytes "\nexpert_exchanges_forward = " forward "\n" \
    "expert_exchanges_backward = " backward "\n"

static const char none[] = "[sync]\nmode = none\n[exchange]\noverlap = yes\nbucket_bytes = 0\n";

/* Time that all-to-alls of 1 MB per sample on each GPU add to the step, s. */
static double added_s(int gpus, const char *exchanges, int samples)
{
    char layout[32];
    snprintf(layout, sizeof layout, "layout = ep=%d,dp=1\n", gpus);
    double step_s[2];
    for (int with = 0; with < 2; with++) {
        DL_AUTOFREE char *costs = dl_format(DIVIDED("%d", "%s"), gpus, with ? exchanges : "");
        DL_SCOPED(dl_run_result) r = run(costs, layout, gpus * samples, none);
        step_s[with] = r.step_mean_s;
    }
    return step_s[1] - step_s[0];
}

/* Each GPU sends n - 1 parts of 1 MB / n per sample at 10 GB/s. Of two GPUs each takes 50 us, of
 * four the link between the two switches 100 us, as 4 parts cross it in each direction; and
 * latencies. The step waits for all exchanges of both passes. */
static void exchanges_are_waited_for(void **state DL_UNUSED)
{
    for (int n = 2; n <= 4; n += 2) {
        const double few = n - 1, one = added_s(n, EXCHANGES("1e6", "1", "0"), 1);
        const double bytes_s = n == 2 ? 50e-6 : 100e-6;
        assert_true(one > bytes_s && one < bytes_s + few * 10e-6);
        for (int samples = 1; samples <= 2; samples++) {
            const double each = one + (samples - 1) * bytes_s;
            assert_near(added_s(n, EXCHANGES("1e6", "2", "2"), samples), 4 * each, 1e-4);
            assert_near(added_s(n, EXCHANGES("1e6", "2", "4"), samples), 6 * each, 1e-4);
        }
    }
}

/* In an all-to-all each of 4 GPUs sends 3/4 of the bytes of its samples, 8 / 4 of a step. What is
 * not of experts, 68 kB, is gathered and reduced once per step; experts have one GPU each. */
static void bytes_are_those_of_all_to_alls(void **state DL_UNUSED)
{
    for (int micro = 1; micro <= 2; micro++) {
        char options[192];
        snprintf(options, sizeof options, "%saccumulate = %d\n[exchange]\noverlap = yes\n",
                 "[sync]\nmode = none\n", micro);
        dl_run_result r =
            run(DIVIDED("4", EXCHANGES("1000", "2", "2")), "layout = ep=4,dp=1\n", 8, options);
        assert_near(r.usage.traffic_bytes, 12 * (2 * 3 * 68000.0 + 4 * 4 * 0.75 * 2 * 1000.0),
                    1e-9);
        dl_run_result_free(&r);
        /* With FSDP two GPUs share each expert: in each micro-batch pairs gather them twice, and
         * reduce their gradients. */
        DL_SCOPED(dl_run_result) both = run(DIVIDED("2", EXCHANGES("1000", "2", "2")),
                                            "layout = ep=2,fsdp=2,dp=1\n", 8, options);
        assert_near(both.usage.traffic_bytes,
                    12 * (micro * 3 * (3 * 68000.0 + 2 * 12000.0) + 4 * 4 * 0.5 * 2 * 1000.0),
                    1e-9);
    }
}

/* Sum of the bytes that tokens of 500 bytes, of 2 experts each, move in a step: 2 exchanges in each
 * pass, of 2 samples per GPU. */
static double moved_bytes(const char *machine, const char *layout, const char *ranks)
{
    DL_AUTOFREE char *once = dl_format(
        DIVIDED("%s", EXCHANGES("1000", "2", "2") "expert_copies = 2\nexpert_count = 16\n"), ranks);
    DL_AUTOFREE char *none_sent = dl_format(DIVIDED("%s", ""), ranks);
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        DL_SCOPED(dl_costs) costs = fixture_costs(i == 0 ? once : none_sent);
        dl_scenario s = fixture_scenario("[scenario]\nsteps = 12\n[machine]\nfile = %s\n%s"
                                         "[workload]\ncosts = c\nbatch = %d\n%s",
                                         machine, layout, 2 * atoi(ranks), none);
        DL_SCOPED(dl_run_result) r = fixture_run(&costs, &s);
        bytes[i] = r.usage.traffic_bytes;
        dl_scenario_free(&s);
    }
    return (bytes[0] - bytes[1]) / 12;
}

/* A token has 2 different ones of 16 experts: 120 pairs. One of 4 GPUs has 4 experts, and 66 pairs
 * contain none of these: each GPU sends 54/120 = 0.45 of its tokens to each of the 3 others. On two
 * nodes 28 pairs contain none of the other node's 8: a GPU sends 92/120 of its tokens there, and
 * passes on the tokens of two GPUs, each of which has one expert, of 15 pairs, to each of 7
 * others. */
static void tokens_are_sent_once(void **state DL_UNUSED)
{
    const double sent = 4 * 2 * 500.0;
    assert_near(moved_bytes("dgx_h100", "layout = ep=4,dp=1\n", "4"), 4 * 3 * sent * 0.45, 1e-9);
    assert_near(moved_bytes("2xdgx_h100", "layout = ep=16,dp=1\n", "16"),
                16 * sent * (92 / 120.0 + 7 * 2 * 15 / 120.0), 1e-9);
    assert_near(moved_bytes("4x1xh100@100gbe", "layout = ep=4,dp=1\n", "4"), 4 * 3 * sent * 0.45,
                1e-9);
}

/* In plain all-to-alls each GPU sends 8 of 16 parts to the other node, half of 8 copies of each
 * token. Sent once, that is one copy: the step waits for about a quarter of the time. */
static void the_network_carries_a_quarter(void **state DL_UNUSED)
{
    double added[2], step_s[3];
    static const char *const more[] = {
        "", EXCHANGES("4e8", "2", "2"),
        EXCHANGES("4e8", "2", "2") "expert_copies = 8\nexpert_count = 16\n"};
    for (int i = 0; i < 3; i++) {
        DL_AUTOFREE char *text = dl_format(DIVIDED("16", "%s"), more[i]);
        DL_SCOPED(dl_costs) costs = fixture_costs(text);
        dl_scenario s =
            fixture_scenario("[scenario]\nsteps = 4\n[machine]\nfile = 2xdgx_h100\n"
                             "layout = ep=16,dp=1\n[workload]\ncosts = c\nbatch = 16\n%s",
                             none);
        DL_SCOPED(dl_run_result) r = fixture_run(&costs, &s);
        step_s[i] = r.step_mean_s;
        dl_scenario_free(&s);
    }
    for (int i = 0; i < 2; i++)
        added[i] = step_s[i + 1] - step_s[0];
    assert_near(added[1] / added[0], 0.25, 0.06);
}

/* Two workers of two GPUs each: 68 kB are summed like in a ring of all four, 2 x 3 x 68 kB, and the
 * 12 kB of each of the two sets of experts in a ring of two, 2 x 12 kB. */
static void gradients_of_experts_have_groups_of_their_own(void **state DL_UNUSED)
{
    const char *sums =
        "[sync]\nmode = allreduce\n[exchange]\noverlap = yes\nbucket_bytes = 20000\n";
    DL_SCOPED(dl_run_result) two = run(DIVIDED("2", ""), "layout = ep=2,dp=2\n", 4, sums);
    assert_near(two.usage.traffic_bytes, 12 * (2 * 3 * 68000.0 + 2 * 2 * 12000.0), 1e-9);
}

/* An axis of size 1 has no effect; the GPUs of an NVSwitch are equidistant. */
static void axes_in_any_order(void **state DL_UNUSED)
{
    static const char *const layouts[] = {"ep=2,pp=2,fsdp=2", "pp=2,ep=2,fsdp=2",
                                          "fsdp=2,pp=2,ep=2", "tp=1,fsdp=2,ep=2,pp=2"};
    assert_any_order(DIVIDED("2", EXCHANGES("1e5", "2", "2")), layouts, DL_LENGTH(layouts),
                     "layout = ep=1,fsdp=4,dp=2\n");
}

/* GPUs 0 and 1 below one switch have its links to themselves; pairs 0, 2 and 1, 3 share those
 * between the switches. Half of 10 MB go that way, in each of 4 exchanges of 2 samples. */
static void exchanges_share_the_links(void **state DL_UNUSED)
{
    const char *costs = DIVIDED("2", EXCHANGES("1e7", "2", "2"));
    DL_SCOPED(dl_run_result) near = run(costs, "layout = ep=2,fsdp=2,dp=1\n", 8, none);
    DL_SCOPED(dl_run_result) far = run(costs, "layout = fsdp=2,ep=2,dp=1\n", 8, none);
    assert_near(far.step_mean_s - near.step_mean_s, 4 * 2 * 0.5e7 / 1e10, 0.05);
}

/* Every GPU has a place of its own, and those of an expert group have all experts. */
static void each_gpu_has_one_place(void **state DL_UNUSED)
{
    static const dl_axis orders[][DL_AXES] = {
        {DL_AXIS_TP, DL_AXIS_CP, DL_AXIS_EP, DL_AXIS_PP, DL_AXIS_FSDP},
        {DL_AXIS_FSDP, DL_AXIS_PP, DL_AXIS_EP, DL_AXIS_CP, DL_AXIS_TP},
        {DL_AXIS_EP, DL_AXIS_FSDP, DL_AXIS_TP, DL_AXIS_PP, DL_AXIS_CP}};
    for (size_t o = 0; o < DL_LENGTH(orders); o++) {
        dl_split s = {.stages = 2, .shards = 3 * 4 * 2, .context = 2, .experts = 4, .tensor = 2};
        bool taken[96] = {false};
        memcpy(s.axes, orders[o], sizeof s.axes);
        assert_int_equal(dl_split_gpus(&s), 96);
        assert_int_equal(dl_split_owners(&s), 6);
        for (int rank = 0; rank < dl_split_ranks(&s); rank++) {
            for (int part = 0; part < 2; part++) {
                const int gpu = dl_split_gpu(&s, rank, part);
                assert_in_range(gpu, 0, 95);
                assert_false(taken[gpu]);
                taken[gpu] = true;
                assert_int_equal(dl_split_rank_of(&s, gpu), rank);
            }
        }
        for (int expert = 0; expert < 4; expert++)
            for (int n = 0; n < 6; n++)
                assert_int_equal(dl_split_expert(&s, dl_split_owner(&s, expert, n)), expert);
    }
}

/* 80 kB of parameters and of gradients, 40 kB of state, 7 kB per sample, 1 kB, as in the costs. Of
 * what is divided, a GPU has its part of the 68 kB (34 kB of state) over all GPUs, and of its own
 * experts' 12 kB (6 kB) over those that have the same ones. */
static void memory_is_that_of_own_experts(void **state DL_UNUSED)
{
    static const struct {
        const char *layout, *sharded;
        double needs;
    } cases[] = {
        {"ep=4,dp=1", "none", 2 * 80e3 + 40e3 + 2 * 7e3 + 1e3},
        {"ep=4,dp=1", "optimizer", 2 * 80e3 + 34e3 / 4 + 6e3 + 2 * 7e3 + 1e3},
        {"ep=2,dp=2", "none", 2 * 80e3 + 40e3 + 2 * 7e3 + 1e3},
        {"ep=2,dp=2", "optimizer", 2 * 80e3 + 34e3 / 4 + 6e3 / 2 + 2 * 7e3 + 1e3},
        {"ep=2,fsdp=2,dp=1", "none",
         2 * (68e3 / 4 + 12e3 / 2 + 80e3) + 34e3 / 4 + 6e3 / 2 + 2 * 7e3 + 1e3},
        {"ep=2,fsdp=2,dp=2", "optimizer",
         2 * (68e3 / 4 + 12e3 / 2 + 80e3) + 34e3 / 8 + 6e3 / 4 + 7e3 + 1e3},
    };
    for (size_t c = 0; c < DL_LENGTH(cases); c++) {
        const char *costs = cases[c].layout[3] == '4' ? DIVIDED("4", "") : DIVIDED("2", "");
        assert_near(needs_bytes(costs, cases[c].layout, 8, cases[c].sharded), cases[c].needs, 1e-9);
    }
}

/* A shard that represents the others, with all groups of the same experts, takes as long and moves
 * as many bytes as all of them simulated. */
static void a_group_represents_the_others(void **state DL_UNUSED)
{
    static const char *const layouts[] = {
        "layout = ep=2,fsdp=2,dp=1\n", "layout = fsdp=2,ep=2,dp=1\n", "layout = ep=2,dp=2\n",
        "layout = fsdp=2,ep=2,dp=2\n", "layout = ep=2,fsdp=4,dp=1\n"};
    const char *costs = DIVIDED("2", EXCHANGES("1e5", "2", "2"));
    for (size_t l = 0; l < DL_LENGTH(layouts); l++) {
        const char *options = "[sync]\nmode = allreduce\n[exchange]\noverlap = yes\n"
                              "bucket_bytes = 20000\n";
        DL_SCOPED(dl_run_result) few = run_so(false, costs, layouts[l], 16, options);
        DL_SCOPED(dl_run_result) all = run_so(true, costs, layouts[l], 16, options);
        assert_true(few.events < all.events);
        assert_same(&few, &all);
    }
}

/* Costs with all experts cannot be used for parts, nor vice versa. */
static void all_experts_are_not_divided(void **state DL_UNUSED)
{
    assert_layout_refused(DIVIDED("1", ""), "layout = ep=2\n",
                          "ep = 2 divides the experts, but these are costs of all experts");
    assert_layout_refused(DIVIDED("4", ""), "workers = 2\n", "--layout ep=4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges_are_waited_for),
        cmocka_unit_test(bytes_are_those_of_all_to_alls),
        cmocka_unit_test(tokens_are_sent_once),
        cmocka_unit_test(the_network_carries_a_quarter),
        cmocka_unit_test(gradients_of_experts_have_groups_of_their_own),
        cmocka_unit_test(axes_in_any_order),
        cmocka_unit_test(exchanges_share_the_links),
        cmocka_unit_test(each_gpu_has_one_place),
        cmocka_unit_test(memory_is_that_of_own_experts),
        cmocka_unit_test(a_group_represents_the_others),
        cmocka_unit_test(all_experts_are_not_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
