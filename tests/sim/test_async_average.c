/* Asynchronous local SGD against hand calculations. Unless stated otherwise (FIXTURE_COMPUTE_ONLY)
 * a step takes 1 ms and exchange no time; learners do 10 local steps, merges take merge_s. */
#include "tests/sim_fixture.h"

static dl_run_result run(int workers, int steps, const char *sync, const char *rest)
{
    return fixture_run_mode(FIXTURE_COMPUTE_ONLY, "async_average", workers, workers, steps, sync,
                            rest);
}

/* counts: uploaded, applied, too stale, superseded, unmerged, merges; staleness[bins]: applied
 * uploads with staleness 0, 1, 2, ... */
static void assert_merged(dl_run_result *r, const int counts[6], int bins, const int *staleness)
{
    const dl_syncer_result *s = r->syncer;
    assert_non_null(s);
    const double found[6] = {s->uploaded,   s->applied,  s->too_stale,
                             s->superseded, s->unmerged, s->merges};
    for (int i = 0; i < 6; i++) {
        if (found[i] != counts[i]) fail_msg("count %d is %g, not %d", i, found[i], counts[i]);
    }
    assert_int_equal(r->staleness_bins, bins);
    for (int b = 0; b < bins; b++) {
        int64_t count = 0;
        for (int w = 0; w < r->workers; w++)
            count += r->staleness[w * bins + b];
        assert_int_equal(count, staleness[b]);
    }
    assert_near(r->applied_frac, found[1] / found[0], 1e-12);
    assert_true(found[0] == found[1] + found[2] + found[3] + found[4]);
    dl_run_result_free(r);
}

/* Two equal learners upload at 10, 20, ... ms. The merge of 10 ms ends at 13, too late for the
 * check after that upload, so the uploads of 20 ms are based on version 0 while the syncer is at 1,
 * those of 30 ms on 1 while it is at 2, ... The 10th merge ends at 103 ms. */
static void updates_are_one_version_stale_where_nobody_waits(void **state DL_UNUSED)
{
    dl_run_result r = run(2, 100, "interval = 10\n", "[syncer]\nquorum = 2\nmerge_s = 0.003\n");
    assert_near(r.averaging->outer_step_mean_s, 0.103 / 10, 1e-9);
    assert_near(r.averaging->outer_step_p50_s, 0.010, 1e-9);
    assert_near(r.part_frac[DL_PART_COMPUTE], 1, 1e-12);
    assert_merged(&r, (const int[6]){20, 20, 0, 0, 0, 10}, 2, (const int[2]){2, 18});
}

/* The same without merging stale uploads: those of 10, 30, 50, 70, 90 ms are merged, those of
 * 20, 40, 60, 80 are superseded by them, so half of all steps is lost; those of 100 ms are left
 * over. */
static void only_every_second_update_is_fresh(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 100, "interval = 10\nbound = 0\n", "[syncer]\nquorum = 2\nmerge_s = 0.003\n");
    /* 200 steps of one sample in 100 ms, 80 of them superseded. */
    assert_near(r.throughput_per_s, 120 / 0.1, 1e-9);
    assert_merged(&r, (const int[6]){20, 10, 0, 8, 2, 5}, 1, (const int[1]){10});
}

/* Learners wait for the merge: 10 + 3 ms per interval, 10 of which are compute. */
static void who_waits_is_never_stale(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 100, "interval = 10\n", "[syncer]\nquorum = 2\nmerge_s = 0.003\nwait_s = 1\n");
    assert_near(r.averaging->outer_step_mean_s, 0.013, 1e-9);
    assert_near(r.part_frac[DL_PART_COMPUTE], 10 / 13.0, 1e-9);
    assert_merged(&r, (const int[6]){20, 20, 0, 0, 0, 10}, 1, (const int[1]){20});
}

/* A wait that ends 1 ms before the merge is useless: after the uploads of 10 ms learners wait until
 * 12, so the next uploads are at 22, after version 1 at 13: no wait then, nor at 32, 42, 52. */
static void a_wait_may_be_too_short(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 50, "interval = 10\n", "[syncer]\nquorum = 2\nmerge_s = 0.003\nwait_s = 0.002\n");
    assert_near(r.span_s, 0.052, 1e-9);
    assert_near(r.part_frac[DL_PART_COMPUTE], 50 / 52.0, 1e-9);
    assert_merged(&r, (const int[6]){10, 10, 0, 0, 0, 5}, 2, (const int[2]){2, 8});
}

/* Rebased at 13 ms (the first step that ends after 12.5), the uploads of 20 ms are based on version
 * 1. The same holds if learners replace their parameters, or wait with a prediction of them. */
static void who_looks_during_the_interval_is_not_stale(void **state DL_UNUSED)
{
    static const char *const adopts[] = {"rebase", "replace", "predict"};
    for (size_t i = 0; i < 3; i++) {
        char rest[100];
        snprintf(rest, sizeof rest, "[syncer]\nquorum = 2\nmerge_s = 0.0025\nadopt = %s\n",
                 adopts[i]);
        dl_run_result r = run(2, 100, "interval = 10\n", rest);
        assert_merged(&r, (const int[6]){20, 18, 0, 0, 2, 9}, 1, (const int[1]){18});
    }
}

/* A merge takes 25 ms: uploads of 10 ms are merged at 35. With predict, a learner waits at 20 ms
 * for that merge and then uploads without staleness; with rebase it uploads at 20 and 30, both
 * based on version 0, and the first is superseded. */
static void who_predicts_waits_before_the_upload(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 20, "interval = 10\n", "[syncer]\nquorum = 2\nmerge_s = 0.025\nadopt = predict\n");
    assert_near(r.span_s, 0.035, 1e-9);
    assert_merged(&r, (const int[6]){4, 2, 0, 0, 2, 1}, 1, (const int[1]){2});
    r = run(2, 30, "interval = 10\n", "[syncer]\nquorum = 2\nmerge_s = 0.025\nadopt = rebase\n");
    assert_near(r.span_s, 0.030, 1e-9);
    assert_merged(&r, (const int[6]){6, 2, 0, 2, 2, 1}, 1, (const int[1]){2});
}

/* A syncer that checks every 4 ms sees the uploads of 10 ms at 12, finishes at 12.5 and checks
 * then; next at 16.5, 20.5 (those of 20), finishes at 21; 25, 29, 33 (those of 30), finishes at
 * 33.5; 37.5, 41.5 (those of 40), finishes at 42; 46, 50: just before those of 50 ms arrive and the
 * run ends. */
static void a_syncer_that_scans(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 50, "interval = 10\n",
            "[syncer]\nquorum = 2\nscan_s = 0.004\nmerge_s = 0.0005\nadopt = rebase\n");
    assert_near(r.averaging->outer_step_mean_s, 0.042 / 4, 1e-9);
    /* Outer steps take 12.5, 8.5, 12.5, 8.5 ms. */
    assert_near(r.averaging->outer_step_p50_s, 0.0105, 1e-9);
    assert_merged(&r, (const int[6]){10, 8, 0, 0, 2, 4}, 1, (const int[1]){8});
}

/* Learner 1 takes 4 ms per step. An adaptive grace time ends when the next upload of learner 0 is
 * expected:
 *
 *   10 ms  upload of 0, next expected at 20
 *   20     merge of it; upload of 0 (version 0)
 *   20.5   version 1; that upload is seen, next expected at 30.5
 *   30     upload of 0 (version 0) supersedes it
 *   30.5   merge: staleness 1
 *   31     version 2
 *   40     uploads of 1 (version 0) and 0 (version 1): from all, merged immediately: 2 and 1 */
static void grace_time(void **state DL_UNUSED)
{
    dl_run_result r = run(2, 40, "interval = 10\n",
                          "[syncer]\nmerge_s = 0.0005\ngrace_s = 1\ngrace = adaptive\n"
                          "[noise]\nslow = 1:4\n");
    assert_merged(&r, (const int[6]){5, 4, 0, 1, 0, 3}, 3, (const int[3]){1, 2, 1});
    /* A long fixed grace time waits for learner 1: of learner 0's uploads of 10 to 50 ms those of
     * 10 to 30 are superseded, and that of 50 comes too late for the end of the run. */
    r = run(2, 50, "interval = 10\n",
            "[syncer]\nmerge_s = 0.0005\ngrace_s = 1\n[noise]\nslow = 1:4\n");
    assert_merged(&r, (const int[6]){6, 2, 0, 3, 1, 1}, 1, (const int[1]){2});
    /* A grace time of 15 ms: the upload of 20 ms, which superseded that of 10, is merged at 25.
     * That of 30 (version 0) is superseded by that of 40 (version 1), when learner 1's (version 0)
     * has also arrived. */
    r = run(2, 50, "interval = 10\n",
            "[syncer]\nmerge_s = 0.0005\ngrace_s = 0.015\n[noise]\nslow = 1:4\n");
    assert_merged(&r, (const int[6]){6, 3, 0, 2, 1, 2}, 2, (const int[2]){2, 1});
}

/* A merge of at most two takes the first uploads. Of the three uploads of 10 ms two are merged.
 * With a quorum of two, the third waits until the first upload of 20 ms, both then with staleness
 * 1; the other two of 20 ms are left over. With a quorum of one, a syncer that checks at 10.5 ms
 * merges two until 11, and then immediately the third, with staleness 1. */
static void a_merge_may_have_a_largest_size(void **state DL_UNUSED)
{
    static const char rest[] = "[syncer]\nmerge_s = 0.0005\nquorum = 2\nquorum_max = 2\n";
    dl_run_result r = run(3, 20, "interval = 10\n", rest);
    assert_merged(&r, (const int[6]){6, 4, 0, 0, 2, 2}, 2, (const int[2]){2, 2});
    r = run(3, 20, "interval = 10\n",
            "[syncer]\nmerge_s = 0.0005\nscan_s = 0.0105\nquorum_max = 2\n");
    assert_merged(&r, (const int[6]){6, 3, 0, 0, 3, 2}, 2, (const int[2]){2, 1});
}

/* With end = each every learner does all its steps. Learner 1 takes 3 ms per step: uploads at 10,
 * 20 (learner 0) and 30, 60 ms (learner 1). The first merge, of 20 and 30, supersedes the upload of
 * 10. The last upload is below the quorum: it is merged a grace time after its learner has ended,
 * at 65, until 65.5. */
static void the_rest_is_merged_when_all_have_ended(void **state DL_UNUSED)
{
    static const char rest[] = "[syncer]\nquorum = 2\nmerge_s = 0.0005\ngrace_s = 0.005\n"
                               "end = each\n[noise]\nslow = 1:3\n";
    dl_run_result r = run(2, 20, "interval = 10\n", rest);
    assert_near(r.averaging->outer_step_mean_s, 0.0655 / 2, 1e-9);
    assert_near(r.span_s, 0.060, 1e-9);
    assert_true(r.tail_frac == 0);
    assert_merged(&r, (const int[6]){4, 3, 0, 1, 0, 2}, 2, (const int[2]){2, 1});
}

/* Without merge_s a merge is the work of a thread. A step takes 1.1 ms, a copy 8 us, adding a
 * vector 16 us, a wake-up 1 us. A push is a copy, a subtraction and a copy; a merge of two is three
 * additions and two copies; a waiting learner resumes 100 ns after it. An addition moves three
 * vectors, a copy two. */
static void a_merge_is_work_of_a_thread(void **state DL_UNUSED)
{
    dl_run_result r = fixture_run_mode(FIXTURE_COSTS, "async_average", 2, 2, 20, "interval = 10\n",
                                       "[syncer]\nquorum = 2\nwait_s = 1\n");
    const double first_ns = 11000000 + 32000 + 1000 + 64000, next_ns = first_ns + 100 + 8000;
    assert_near(r.averaging->outer_step_mean_s * 1e9, (first_ns + next_ns) / 2, 1e-9);
    const double upload = 7 + 2, merge = 3 * 3 + 2 * 2;
    assert_near(r.usage.traffic_bytes, (4 * upload + 2 * merge) * 8000, 1e-12);
    dl_run_result_free(&r);
}

static unsigned needs_of(const char *syncer)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COSTS);
    dl_scenario scenario =
        fixture_scenario("[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c.ini\nbatch = 2\n"
                         "[sync]\nmode = async_average\n%s",
                         syncer);
    const unsigned needs = dl_run_needs(&scenario, &costs, &scenario.points[0]);
    dl_scenario_free(&scenario);
    return needs;
}

/* Two learners and a syncer are three threads that take turns on two cores. The syncer adds vectors
 * and applies no update. */
static void a_syncer_is_a_thread_more(void **state DL_UNUSED)
{
    const unsigned always = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_WAKEUP;
    assert_int_equal(needs_of("") & (always | DL_NEED_UPDATE | DL_NEED_SLICE),
                     always | DL_NEED_SLICE);
    assert_int_equal(
        needs_of("[syncer]\nmerge_s = 1\n") & (always | DL_NEED_UPDATE | DL_NEED_SLICE), always);
}

/* Merges of one upload take the learner's only core for 48 us of the second interval, and the pull
 * of a version takes it at the end of that interval. */
static void a_merge_takes_a_core(void **state DL_UNUSED)
{
    dl_run_result r =
        fixture_run_mode(FIXTURE_COSTS, "async_average", 1, 1, 20, "interval = 10\n", "");
    assert_near(20 / r.throughput_per_s * 1e9, 2 * (11000000 + 32000 + 48000) + 8000, 1e-9);
    dl_run_result_free(&r);
}

/* The syncer runs on the other core, which has read the vectors that the learner's push replaces, 2
 * ns per byte, and has written those of the second pull, 1 ns per byte. */
static void a_syncer_elsewhere_has_the_vectors(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = fixture_run_mode(
        FIXTURE_COSTS "[shared]\npush_bytes_per_s = 0.5e9\naverage_bytes_per_s = 0.25e9\n"
                      "pull_bytes_per_s = 1e9\n",
        "async_average", 2, 1, 20, "interval = 10\n", "");
    assert_near(20 / r.throughput_per_s * 1e9, 2 * (11000000 + 32000 + 16000) + 8000 + 8000, 1e-9);
}

/* A worker that takes twice as long does 5 local steps while the other does 10, so that neither
 * waits: 40 + 20 samples in 40 ms instead of 80 in 80 ms. One that takes 3 times as long does 3 (10
 * / 3 rounded), which takes 9 ms of 10. */
static void intervals_by_speed(void **state DL_UNUSED)
{
    static const struct {
        const char *mode, *rest;
    } modes[] = {{"average", "[noise]\nslow = 1:2\n"},
                 {"async_average", "[syncer]\nmerge_s = 1e-9\n[noise]\nslow = 1:2\n"}};
    for (size_t m = 0; m < 2; m++) {
        dl_run_result r =
            fixture_run_mode(FIXTURE_COMPUTE_ONLY, modes[m].mode, 2, 2, 40,
                             "interval = 10\ninterval_by_speed = yes\n", modes[m].rest);
        assert_near(r.throughput_per_s, 60 / 0.040, 1e-9);
        assert_near(r.part_frac[DL_PART_WAITING], 0, 1e-12);
        dl_run_result_free(&r);
    }
    dl_run_result r = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "average", 2, 2, 40, "interval = 10\n",
                                       "[noise]\nslow = 1:2\n");
    assert_near(r.throughput_per_s, 80 / 0.080, 1e-9);
    dl_run_result_free(&r);
    r = fixture_run_mode(FIXTURE_COMPUTE_ONLY, "average", 2, 2, 40,
                         "interval = 10\ninterval_by_speed = yes\n", "[noise]\nslow = 1:3\n");
    assert_near(r.part_frac[DL_PART_WAITING], 1 / 20.0, 1e-9);
    dl_run_result_free(&r);
}

/* Learner 1 fails at 14.5 ms, which loses 4.5 steps, and returns at 32.5. Each upload is merged
 * immediately, in 0.5 ms. Base version of each upload; version found at the upload:
 *
 *   10 ms    both learners 0; 0 and then 1
 *   20       learner 0: 0; 2 (and takes 2)       30   2; 3 (takes 3)      40  3; 4 (takes 4)
 *   32.5     learner 1 returns, with 4           42.5 4; 5 (takes 5)      52.5  5; 7
 *   50       learner 0: 4; 6 (takes 6)           60   6; 8
 *
 * When learner 0 has done its 60 steps, learner 1 ends its current step at 60.5: 14 + 28 steps. */
static void a_learner_fails_and_comes_back(void **state DL_UNUSED)
{
    dl_run_result r = run(2, 60, "interval = 10\n",
                          "[syncer]\nmerge_s = 0.0005\n[failures]\naway = 1:0.0145-0.0325\n");
    assert_near(r.span_s, 0.0605, 1e-9);
    assert_near(r.samples, 60 + 42 - 4, 1e-12);
    assert_near(r.syncer->goodput_frac, 98 / (2 * 60.5), 1e-9);
    assert_merged(&r, (const int[6]){9, 9, 0, 0, 0, 9}, 3, (const int[3]){1, 4, 4});
}

/* Learner 1 arrives at 25 ms and takes version 2, the base of its upload of 35 ms, when version 4
 * is current. */
static void a_learner_joins_late(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 40, "interval = 10\n", "[syncer]\nmerge_s = 0.0005\n[failures]\naway = 1:0-0.025\n");
    assert_merged(&r, (const int[6]){5, 5, 0, 0, 0, 5}, 3, (const int[3]){1, 3, 1});
}

/* Learner 1 leaves for good; the run ends with learner 0's 30 steps. */
static void a_learner_leaves(void **state DL_UNUSED)
{
    dl_run_result r = run(2, 30, "interval = 10\n",
                          "[syncer]\nmerge_s = 0.0005\nend = each\n[failures]\naway = 1:0.0145-\n");
    assert_near(r.span_s, 0.030, 1e-9);
    assert_near(r.samples, 30 + 10, 1e-12);
    assert_merged(&r, (const int[6]){4, 4, 0, 0, 0, 4}, 3, (const int[3]){1, 2, 1});
}

/* Learner 1 leaves before its first step: it has no step time, and is excluded from means. */
static void a_learner_leaves_before_its_first_step(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 20, "interval = 10\n", "[syncer]\nmerge_s = 0.0005\n[failures]\naway = 1:0.0005-\n");
    assert_near(r.step_mean_s, 0.001, 1e-9);
    assert_true(isnan(r.worker_step_s[1]));
    assert_near(r.samples, 20, 1e-12);
    dl_run_result_free(&r);
}

static void all_learners_leave_before_their_first_step(void **state DL_UNUSED)
{
    dl_run_result result = {0};
    dl_error err = {0};
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COMPUTE_ONLY);
    dl_scenario scenario =
        fixture_scenario("[machine]\ncores = 1\nworkers = 1\n[workload]\ncosts = c.ini\nbatch = 1\n"
                         "[sync]\nmode = async_average\n[failures]\naway = 0:%s-\n",
                         "0.0005");
    const dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = &scenario.points[0]};
    assert_int_equal(dl_run(&config, &result, &err), DL_ERR_DATA);
    assert_non_null(strstr(err.text, "leave before"));
    dl_scenario_free(&scenario);
}

/* The run does not wait for an absence at 50 s or a grace time of 100 s when all have ended. The
 * uploads of 10 and 20 ms are merged one by one; the last merge that starts before the end finishes
 * at 20.5 ms. With the grace time the upload of learner 1 at 30 ms completes the only merge; it
 * ends its last step at 42 ms. */
static void what_is_planned_after_the_end_does_not_count(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 20, "interval = 10\n", "[syncer]\nmerge_s = 0.0005\n[failures]\naway = 1:50-60\n");
    assert_near(r.updates_per_s, 3 / 0.0205, 1e-9);
    dl_run_result_free(&r);
    r = run(2, 40, "interval = 10\n",
            "[syncer]\nmerge_s = 0.0005\ngrace_s = 100\n[noise]\nslow = 1:3\n");
    assert_near(r.updates_per_s, 1 / 0.042, 1e-9);
    dl_run_result_free(&r);
}

/* Two absences, the second while the learner waits for a version that contains its upload: nothing
 * is lost then. */
static void absences_follow_one_another(void **state DL_UNUSED)
{
    DL_SCOPED(dl_run_result) r = run(1, 30, "interval = 10\n",
                                     "[syncer]\nmerge_s = 0.004\nwait_s = 1\n"
                                     "[failures]\naway = 0:0.0055-0.007, 0:0.018-0.030\n");
    /* 5 steps are lost; the learner returns at 7, uploads at 17 and waits for the merge until 21,
     * so it leaves after the end of that step; it returns at 30 with steps 6 to 15 done; 14 more
     * until 44, with an upload at 40. */
    assert_near(r.samples, 30 - 5, 1e-12);
}

static dl_status read(const char *text, dl_error *err)
{
    DL_SCOPED(dl_scenario) scenario = {0};
    return dl_scenario_read_text(&scenario, "s.ini", text, strlen(text), err);
}

/* As in updates_are_one_version_stale_where_nobody_waits, 2 uploads of 20 are fresh and 18 are one
 * version old. If stale ones are not merged, half are merged with the full weight. */
static void stale_uploads_weigh_less(void **state DL_UNUSED)
{
    static const double powers[] = {0, 0.5, 1, 2};
    for (int i = 0; i < 4; i++) {
        char rest[100];
        snprintf(rest, sizeof rest, "[syncer]\nquorum = 2\nmerge_s = 0.003\nweight_power = %g\n",
                 powers[i]);
        dl_run_result r = run(2, 100, "interval = 10\n", rest);
        const double mean = (2 + 18 * pow(2, -powers[i])) / 20;
        assert_near(r.syncer->weight_mean, mean, 1e-12);
        assert_near(r.syncer->applied_weight_frac, mean, 1e-12);
        dl_run_result_free(&r);
        r = run(2, 100, "interval = 10\nbound = 0\n", rest);
        assert_near(r.syncer->weight_mean, 1, 1e-12);
        assert_near(r.syncer->applied_weight_frac, 0.5, 1e-12);
        dl_run_result_free(&r);
    }
}

/* As in who_looks_during_the_interval_is_not_stale, version 1 is available at 12.5 ms, so the steps
 * that end at 11, 12 and 13 ms are lost, and so are those at 21 to 23, ..., 91 to 93 of both
 * learners: 54 of 200. */
static void replaced_parameters_lose_steps(void **state DL_UNUSED)
{
    dl_run_result r =
        run(2, 100, "interval = 10\n", "[syncer]\nquorum = 2\nmerge_s = 0.0025\nadopt = replace\n");
    assert_near(r.throughput_per_s, 146 / 0.1, 1e-9);
    assert_near(r.syncer->goodput_frac, 0.73, 1e-9);
    dl_run_result_free(&r);
    /* Learner 1 takes 2.55 ms per step and uploads at 25.5 ms, together with learner 0's upload of
     * 20, which superseded 10 steps. Version 1 is available at 25.8: learner 0 loses 6 steps at 26,
     * and uploads 4 at 30, which the upload of 40 supersedes; learner 1 loses a step at 28.05 and
     * does its 16th until 40.8. */
    r = run(2, 40, "interval = 10\n",
            "[syncer]\nquorum = 2\nmerge_s = 0.0003\nadopt = replace\n[noise]\nslow = "
            "1:2.55\n");
    assert_near(r.samples, 40 - 10 - 6 - 4 + 16 - 1, 1e-12);
    dl_run_result_free(&r);
    /* An interval's last step is uploaded before a new version is taken: with intervals of one step
     * none is lost, although each ends with a new version (merges take 0.3 of the 1 ms). */
    r = run(1, 20, "interval = 1\n", "[syncer]\nmerge_s = 0.0003\nadopt = replace\n");
    assert_near(r.throughput_per_s, 1000, 1e-9);
    assert_merged(&r, (const int[6]){20, 20, 0, 0, 0, 20}, 2, (const int[2]){1, 19});
}

/* As in updates_are_one_version_stale_where_nobody_waits, without the first 20 ms: of the merges
 * that end at 13, 23, ..., 103 ms the first does not count, nor do the uploads of 10 and 20 ms. */
static void a_warm_up_does_not_count(void **state DL_UNUSED)
{
    DL_SCOPED(dl_costs) costs = fixture_costs(FIXTURE_COMPUTE_ONLY);
    DL_SCOPED(dl_scenario) scenario = fixture_scenario(
        "[scenario]\nsteps = 80\nwarmup = %d\n[machine]\ncores = 2\nworkers = 2\n"
        "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n[sync]\nmode = async_average\n"
        "interval = 10\n[syncer]\nquorum = 2\nmerge_s = 0.003\n",
        20);
    dl_run_result r = fixture_run(&costs, &scenario);
    assert_near(r.averaging->outer_step_mean_s, 0.010, 1e-9);
    assert_near(r.averaging->outer_step_p50_s, 0.010, 1e-9);
    assert_int_equal(r.updates, 9);
    assert_near(r.updates_per_s, 9 / 0.083, 1e-9);
    assert_merged(&r, (const int[6]){16, 16, 0, 0, 0, 9}, 2, (const int[2]){0, 16});
}

/* Modes without a syncer reject its keys. */
static void other_modes_have_no_syncer(void **state DL_UNUSED)
{
    dl_error err = {0};
    assert_int_not_equal(
        read("[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\nbatch = 2\n"
             "[sync]\nmode = average\n[syncer]\nquorum = 2\n",
             &err),
        DL_OK);
    assert_non_null(strstr(err.text, "quorum"));
}

static void absences_are_checked(void **state DL_UNUSED)
{
    static const struct {
        const char *away, *says;
    } cases[] = {{"1:5", "in seconds, as 1:40-60, not '1:5'"},
                 {"1:5-3", "absence 1:5-3 ends before it starts"},
                 {"1:0-", "is never there"},
                 {"x:1-2", "x"},
                 {"2:1-2", "no point has a worker 2"},
                 {"1:5-9, 1:8-10", "in their order"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error err = {0};
        char text[300];
        snprintf(text, sizeof text,
                 "[machine]\ncores = 2\nworkers = 2\n[workload]\ncosts = c\nbatch = 2\n"
                 "[sync]\nmode = async_average\n[failures]\naway = %s\n",
                 cases[i].away);
        assert_int_not_equal(read(text, &err), DL_OK);
        assert_int_equal(err.line, 10);
        if (strstr(err.text, cases[i].says) == NULL) fail_msg("%s", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_are_one_version_stale_where_nobody_waits),
        cmocka_unit_test(only_every_second_update_is_fresh),
        cmocka_unit_test(who_waits_is_never_stale),
        cmocka_unit_test(a_wait_may_be_too_short),
        cmocka_unit_test(who_looks_during_the_interval_is_not_stale),
        cmocka_unit_test(who_predicts_waits_before_the_upload),
        cmocka_unit_test(a_syncer_that_scans),
        cmocka_unit_test(grace_time),
        cmocka_unit_test(a_merge_may_have_a_largest_size),
        cmocka_unit_test(the_rest_is_merged_when_all_have_ended),
        cmocka_unit_test(a_merge_is_work_of_a_thread),
        cmocka_unit_test(a_merge_takes_a_core),
        cmocka_unit_test(a_syncer_elsewhere_has_the_vectors),
        cmocka_unit_test(a_syncer_is_a_thread_more),
        cmocka_unit_test(intervals_by_speed),
        cmocka_unit_test(stale_uploads_weigh_less),
        cmocka_unit_test(replaced_parameters_lose_steps),
        cmocka_unit_test(a_warm_up_does_not_count),
        cmocka_unit_test(other_modes_have_no_syncer),
        cmocka_unit_test(a_learner_fails_and_comes_back),
        cmocka_unit_test(a_learner_joins_late),
        cmocka_unit_test(a_learner_leaves),
        cmocka_unit_test(a_learner_leaves_before_its_first_step),
        cmocka_unit_test(all_learners_leave_before_their_first_step),
        cmocka_unit_test(what_is_planned_after_the_end_does_not_count),
        cmocka_unit_test(absences_follow_one_another),
        cmocka_unit_test(absences_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
