#include "tests/sim_fixture.h"

static void needs_follow_mode_and_machine(void **state DL_UNUSED)
{
    static const struct {
        const char *mode;
        int workers, cores;
        unsigned needs;
    } cases[] = {
        {"none", 1, 1, DL_NEED_OPS},
        {"none", 2, 2, DL_NEED_OPS | DL_NEED_SHARING},
        {"none", 2, 1, DL_NEED_OPS | DL_NEED_SHARING | DL_NEED_SLICE},
        {"async", 1, 1, DL_NEED_OPS | DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS},
        {"async", 2, 2,
         DL_NEED_OPS | DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS | DL_NEED_SHARING |
             DL_NEED_MEMORY | DL_NEED_LOCK},
        {"allreduce", 2, 1,
         DL_NEED_OPS | DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS | DL_NEED_SHARING |
             DL_NEED_MEMORY | DL_NEED_SLICE | DL_NEED_WAKEUP},
        {"average", 2, 2,
         DL_NEED_OPS | DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS | DL_NEED_STATE |
             DL_NEED_SHARING | DL_NEED_MEMORY | DL_NEED_BARRIER},
    };
    const dl_costs costs = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_scenario s =
            fixture_scenario("[machine]\ncores = %d\nworkers = %d\n[workload]\n"
                             "costs = c\nbatch_per_worker = 1\n"
                             "[sync]\nmode = %s\n%s"
                             "[noise]\nkind = trace\n",
                             cases[i].cores, cases[i].workers, cases[i].mode,
                             cases[i].needs & DL_NEED_STATE ? "average_state = yes\n" : "");
        assert_int_equal(dl_run_needs(&s, &costs, &s.points[0]), cases[i].needs | DL_NEED_NOISE);
        dl_scenario_free(&s);
    }
}

/* Costs measured on 2 cores with batches of 8 to 16 and up to 4 copies. */
static void extrapolation_is_noticed(void **state DL_UNUSED)
{
    dl_costs costs = fixture_costs("[costs]\nschema = 1\nbatch_min = 8\nbatch_max = 16\ncores = 2\n"
                                   "[sharing]\ncopies_2 = 1\ncopies_4 = 1\n");
    static const struct {
        int cores, workers, batch;
        bool extrapolates;
    } cases[] = {{2, 1, 8, false},  {2, 1, 7, true},  {2, 1, 17, true}, {2, 2, 32, false},
                 {2, 4, 64, false}, {2, 4, 68, true}, {2, 5, 40, true}, {4, 2, 16, true},
                 {1, 2, 16, true},  {1, 1, 16, false}};
    const dl_scenario on_cores = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dl_point point = {.cores = cases[i].cores,
                                .workers = cases[i].workers,
                                .batch = cases[i].batch,
                                .mode = &dl_mode_none,
                                .option = {[DL_SYNC_INTERVAL] = 1, [DL_SYNC_ACCUMULATE] = 1}};
        if (dl_run_extrapolates(&on_cores, &costs, &point) != cases[i].extrapolates)
            fail_msg("case %zu", i);
    }
    dl_costs_free(&costs);
}

static void steps_are_whole_intervals(void **state DL_UNUSED)
{
    const dl_scenario scenario = {.steps = 200};
    dl_point point = {.option[DL_SYNC_INTERVAL] = 1};
    assert_int_equal(dl_run_steps(&scenario, &point), 200);
    point.option[DL_SYNC_INTERVAL] = 7;
    assert_int_equal(dl_run_steps(&scenario, &point), 203);
    point.option[DL_SYNC_INTERVAL] = 500;
    assert_int_equal(dl_run_steps(&scenario, &point), 500);
}

/* One worker: input 100, dispatch 200, forward 300, update 400 ns; with forward slowed twofold:
 * 100, 200, 600, 400 of 1300. */
static void the_step_is_split(void **state DL_UNUSED)
{
    static const char costs[] = "[costs]\nschema = 1\n"
                                "[op input]\nfixed_ns = 100\nper_sample_ns = 0\n"
                                "[op dispatch]\nfixed_ns = 200\nper_sample_ns = 0\n"
                                "[op a.forward]\nfixed_ns = 300\nper_sample_ns = 0\n"
                                "[op a.update]\nfixed_ns = 400\nper_sample_ns = 0\n";
    dl_run_result r = fixture_run_mode(costs, "none", 1, 1, 10, "", "[noise]\nslow = 0:2\n");
    assert_near(r.step_mean_s, 1300e-9, 1e-12);
    assert_near(r.part_frac[DL_PART_INPUT], 100.0 / 1300, 1e-12);
    assert_near(r.part_frac[DL_PART_DISPATCH], 200.0 / 1300, 1e-12);
    assert_near(r.part_frac[DL_PART_COMPUTE], 1000.0 / 1300, 1e-12);
    dl_run_result_free(&r);
}

/* FIXTURE_COSTS, allreduce of 2: compute 1 100 000, copy 8000, average 8000, waiting 200 of
 * 1 116 200 ns. */
static void parts_sum_to_one(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = fixture_run_mode(FIXTURE_COSTS, "allreduce", 2, 2, 10, "", "");
    assert_near(r.part_frac[DL_PART_COMPUTE], 1100000 / 1116200.0, 1e-12);
    assert_near(r.part_frac[DL_PART_COMMUNICATION], 8000 / 1116200.0, 1e-12);
    assert_near(r.part_frac[DL_PART_AVERAGING], 8000 / 1116200.0, 1e-12);
    assert_near(r.part_frac[DL_PART_WAITING], 200 / 1116200.0, 1e-12);
}

/* A step is 1 ms +- 1 %: draw 0 uses the cost itself, each other draw differs; replicates do not,
 * as there is no noise. */
static void draws_of_the_costs_are_not_replicates(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs("[costs]\nschema = 1\n[op a.forward]\n"
                                              "fixed_ns = 1000000 +- 10000\nper_sample_ns = 0\n");
    dl_scenario s = fixture_scenario("[machine]\ncores = 1\nworkers = 1\n[workload]\ncosts = c\n"
                                     "batch = 1\n");
    double off_s[2][3];
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t d = 0; d < 3; d++) {
            DL_SCOPED(dl_run_result) result = {0};
            const dl_run_config config = {
                .scenario = &s, .costs = &costs, .point = &s.points[0], .replicate = r, .draw = d};
            assert_int_equal(dl_run(&config, &result, NULL), DL_OK);
            off_s[r][d] = result.step_mean_s - 1e-3;
        }
    }
    assert_true(fabs(off_s[0][0]) < 1e-12);
    assert_true(fabs(off_s[0][1]) > 1e-8 && fabs(off_s[0][1]) < 5e-5);
    assert_true(fabs(off_s[0][2] - off_s[0][1]) > 1e-8);
    assert_memory_equal(off_s[0], off_s[1], sizeof off_s[0]);
    assert_false(dl_run_varies(&s, &costs));
    dl_scenario_free(&s);
}

static void a_run_without_end_is_refused(void **state DL_UNUSED)
{
    static const struct {
        double fixed_ns;
        const char *message;
        dl_status status;
    } cases[] = {{-5, "no time", DL_ERR_DATA},
                 {1e24, "more than 146 years", DL_ERR_RANGE},
                 {1e17, "more than 146 years", DL_ERR_RANGE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_costs costs =
            fixture_costs("[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 0\nper_sample_ns = 0\n");
        costs.ops[0].fixed_ns.value = cases[i].fixed_ns; /* a file could not contain it */
        dl_scenario s =
            fixture_scenario("[machine]\ncores = 1\nworkers = 1\n[workload]\ncosts = c\n"
                             "batch = 1\n");
        dl_run_result result = {.workers = 77};
        dl_error err = {0};
        const dl_run_config config = {.scenario = &s, .costs = &costs, .point = &s.points[0]};
        assert_int_equal(dl_run(&config, &result, &err), cases[i].status);
        assert_contains(err.text, cases[i].message);
        assert_int_equal(result.workers, 77);
        dl_scenario_free(&s);
        dl_costs_free(&costs);
    }
}

/* Costs similar to those of the MLP of scenarios/accuracy, in whole ns, without a factor that
 * favours small batches: 79 000 + 4700 ns per sample. */
#define MLP_LIKE                                                                   \
    "[costs]\nschema = 1\n[op a.forward]\nfixed_ns = 9000\nper_sample_ns = 1600\n" \
    "[op a.backward]\nfixed_ns = 15000\nper_sample_ns = 3100\n"                    \
    "[op a.update]\nfixed_ns = 55000\nper_sample_ns = 0\n"                         \
    "[sync]\nslice_ns = 4e6\n[sharing]\ncopies_2 = 1\n"

static double mlp_per_s(const dl_costs *costs, int cores, int workers, int samples, int steps)
{
    DL_SCOPED(dl_scenario) s = fixture_scenario("[scenario]\nsteps = %d\n[machine]\ncores = %d\n"
                                                "workers = %d\n[workload]\ncosts = c\nbatch = %d\n",
                                                steps, cores, workers, workers * samples);
    DL_SCOPED(dl_run_result) r = fixture_run(costs, &s);
    return r.throughput_per_s;
}

/* Without exchange, k cores reach at most k times the throughput of one worker with the same batch,
 * however short the run and however many workers share a core: a worker that has the core for the
 * first slice may end all its steps before others have begun. */
static void k_cores_without_exchange_are_at_most_k(void **state DL_UNUSED)
{
    static const int all_cores[] = {1, 2, 4}, all_steps[] = {1, 2, 5, 12, 30, 200, 3000};
    static const int all_samples[] = {2, 8, 32, 128}, all_workers[] = {1, 2, 3, 5, 16, 64};
    DL_SCOPED(dl_costs) costs = fixture_costs(MLP_LIKE);
    for (int c = 0; c < 3; c++) {
        for (int w = 0; w < 6; w++) {
            for (int b = 0; b < 4; b++) {
                const int cores = all_cores[c], workers = all_workers[w], samples = all_samples[b];
                const double one_per_s = mlp_per_s(&costs, 1, 1, workers * samples, 1);
                for (int s = 0; s < 7; s++) {
                    const double per_s = mlp_per_s(&costs, cores, workers, samples, all_steps[s]);
                    if (per_s / one_per_s <= cores * (1 + 1e-9)) continue;
                    fail_msg("%d cores, %d workers with %d samples, %d steps: speedup %.12g", cores,
                             workers, samples, all_steps[s], per_s / one_per_s);
                }
            }
        }
    }
}

/* Steps of 1 and 3 ms: worker 0 has done its 4 steps at 4 ms, worker 1 ends its second one at 6 ms.
 * So 6 samples in 6 ms, of which one third is the tail. */
static void throughput_is_of_the_whole_span(void **state DL_UNUSED)
{
    dl_run_result r =
        fixture_run_mode(FIXTURE_COMPUTE_ONLY, "none", 2, 2, 4, "", "[noise]\nslow = 1:3\n");
    assert_near(r.span_s, 6e-3, 1e-12);
    assert_near(r.samples, 6, 1e-12);
    assert_near(r.throughput_per_s, 1000, 1e-12);
    assert_near(r.tail_frac, 1.0 / 3, 1e-12);
    dl_run_result_free(&r);
}

/* Three gradients per update, 5 steps of 2 workers: the tenth gradient waits for an update when the
 * run ends. No update includes it, but its time was spent on what a longer run would apply. */
static void what_waits_at_the_end_counts_as_done(void **state DL_UNUSED)
{
    dl_run_result r = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "kbatchasync", 2, 2, 5, "k = 3\n", "");
    assert_int_equal(r.updates, 3);
    assert_near(r.applied_frac, 0.9, 1e-12);
    assert_near(r.samples, 10, 1e-12);
    assert_near(r.throughput_per_s, 2000, 1e-12);
    dl_run_result_free(&r);
}

/* Runs `steps` steps of two workers; if `steady_after` > 0, the run ends when they repeat. */
static dl_run_result run_steady(const char *mode, const char *sync, int cores, int64_t steps,
                                int64_t steady_after)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = %d\n[machine]\ncores = %d\nworkers = 2\n"
                         "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = %s\n%s",
                         (int)steps, cores, mode, sync);
    dl_run_result result = {0};
    dl_error err = {0};
    const dl_run_config config = {.scenario = &scenario,
                                  .costs = &costs,
                                  .point = &scenario.points[0],
                                  .steady_after = steady_after};
    if (dl_run(&config, &result, &err) != DL_OK) fail_msg("%s", err.text);
    dl_scenario_free(&scenario);
    return result;
}

/* Repeating steps give the throughput of the last 900 of 1000 steps. A period has at least two
 * steps, so no run of two steps, or of five with an interval of three, has repeated. */
static void steps_that_repeat_end_the_run(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *sync;
        int few;
    } cases[] = {{"none", "", 2},
                 {"allreduce", "", 2},
                 {"ps", "", 2},
                 {"async", "", 2},
                 {"average", "interval = 3\n", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *mode = cases[i].mode, *sync = cases[i].sync;
        DL_SCOPED(dl_run_result) some = run_steady(mode, sync, 2, 102, 0);
        DL_SCOPED(dl_run_result) all = run_steady(mode, sync, 2, 1002, 0);
        DL_SCOPED(dl_run_result) steady = run_steady(mode, sync, 2, 1002, 1);
        const double per_s = (all.samples - some.samples) / (all.span_s - some.span_s);
        if (!(steady.steady_per_s > 0)) fail_msg("%s does not repeat", mode);
        assert_near(steady.steady_per_s, per_s, 1e-5);
        assert_int_equal(steady.workers, 0);
        assert_true(all.steady_per_s == 0 && all.workers == 2);
        DL_SCOPED(dl_run_result) short_run = run_steady(mode, sync, 2, cases[i].few, 1);
        assert_true(short_run.steady_per_s == 0);
        assert_int_equal(short_run.workers, 2);
    }
}

/* Two workers take turns on one core in slices of 4 ms, which is no multiple of a step of 1.1 ms:
 * nothing repeats within a few steps, so the run continues to its end. */
static void time_slices_do_not_repeat(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) whole = run_steady("none", "", 1, 200, 0);
    DL_SCOPED(dl_run_result) steady = run_steady("none", "", 1, 200, 1);
    assert_true(steady.steady_per_s == 0);
    assert_near(steady.throughput_per_s, whole.throughput_per_s, 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_follow_mode_and_machine),
        cmocka_unit_test(extrapolation_is_noticed),
        cmocka_unit_test(steps_are_whole_intervals),
        cmocka_unit_test(the_step_is_split),
        cmocka_unit_test(parts_sum_to_one),
        cmocka_unit_test(k_cores_without_exchange_are_at_most_k),
        cmocka_unit_test(throughput_is_of_the_whole_span),
        cmocka_unit_test(what_waits_at_the_end_counts_as_done),
        cmocka_unit_test(draws_of_the_costs_are_not_replicates),
        cmocka_unit_test(a_run_without_end_is_refused),
        cmocka_unit_test(steps_that_repeat_end_the_run),
        cmocka_unit_test(time_slices_do_not_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
