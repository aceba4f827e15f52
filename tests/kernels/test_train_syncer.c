/* Asynchronous local SGD in real runs. The order of uploads, merges and adoptions depends on the
 * scheduler, or is forced by a test; the result follows from the order. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/train_case.h"

#include "common/units.h"
#include "kernels/train/schedule.h"

#define BLOCKED_S 60 /* a test that waits this long has failed */

static dl_train_config syncer_config(int workers, int interval)
{
    dl_train_config config = small_config();
    config.sync = DL_SYNC_ASYNC_AVERAGE;
    config.workers = workers;
    config.interval = interval;
    config.wait = DL_WAIT_BLOCK;
    return config;
}

/* Writes local steps of worker `w` until *done steps, which counts them, reach `until`. */
static void write_steps(FILE *out, int workers, int w, int64_t *done, int64_t until)
{
    for (; *done < until; (*done)++)
        fprintf(out, "0,local,,%d,,%lld,\n", w, (long long)(*done * workers + w));
}

/* Returns the run's events as a schedule, as written by dlsim for a simulated run. */
static dl_schedule schedule_of(const dl_train_config *config, const dl_train_result *result)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    int64_t done[8] = {0};
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out,
            "# dlscale schedule\n# schema: 1\n# mode: async_average\n# workers: %d\n# batch: %d\n"
            "time_s,event,update,worker,read,batch,weight\n",
            config->workers, config->batch);
    for (size_t i = 0; i < result->merge_event_count; i++) {
        const dl_merge_event *e = &result->merge_events[i];
        if (e->kind == DL_MERGE_UPLOAD) {
            write_steps(out, config->workers, e->worker, &done[e->worker], e->step + 1);
            fprintf(out, "0,upload,,%d,%lld,,\n", e->worker, (long long)e->base);
        } else if (e->kind == DL_MERGE_MERGE) {
            fprintf(out, "0,merge,%lld,%d,%lld,,%.17g\n", (long long)e->version, e->worker,
                    (long long)e->base, e->weight);
        } else if (e->kind == DL_MERGE_ADOPT) {
            fprintf(out, "0,replace,,%d,%lld,,\n", e->worker, (long long)e->version);
        }
    }
    fclose(out);
    dl_schedule schedule = {0};
    dl_error err = {0};
    if (dl_schedule_read_text(&schedule, "run", text, bytes, &err) != DL_OK)
        fail_msg("line %d: %s", err.line, err.text);
    return schedule;
}

static void expect_counts(const dl_train_result *result)
{
    const dl_merge_counts *c = &result->uploads;
    assert_int_equal(c->uploaded, c->applied + c->too_stale + c->superseded + c->unmerged);
    assert_int_equal(result->updates, c->merges);
}

/* Frees the result. Its bits must equal those of a replay in its order. */
static void expect_replay(const dl_train_config *config, dl_train_result *result)
{
    DL_SCOPED(dl_schedule) schedule = schedule_of(config, result);
    dl_train_config as = *config;
    as.cores = 1;
    as.bound = -1;
    dl_train_result again = {0};
    dl_error err = {0};
    if (dl_train_replay(&as, &schedule, &data, &again, &err) != DL_OK) fail_msg("%s", err.text);
    assert_int_equal(again.updates, result->updates);
    expect_same(&again, result);
}

/* A merge of all uploads, for which each worker waits, is an average: nothing is stale or lost, and
 * the order is always the same. Rounding differs, since differences are summed. */
static void a_merge_of_all_is_an_average(void **state DL_UNUSED)
{
    for (int outer = DL_OUTER_NONE; outer <= DL_OUTER_NESTEROV; outer++) {
        dl_train_config config = syncer_config(3, 5);
        config.merge = (dl_merge_config){.quorum = 3, .weight_power = 1, .wait_s = BLOCKED_S};
        config.outer = (dl_outer_config){(dl_outer)outer, 0.7, 0.9};
        config.optimizer.momentum = 0.9;
        dl_train_result merged = run(&config, NULL);
        expect_counts(&merged);
        assert_int_equal(merged.uploads.applied, 12);
        assert_int_equal(merged.uploads.merges, 4);
        assert_true(merged.uploads.weight == 12);
        assert_int_equal(merged.samples, 240);
        config.sync = DL_SYNC_AVERAGE;
        DL_SCOPED(dl_train_result) averaged = run(&config, NULL);
        double most = 0;
        for (size_t i = 0; i < merged.parameter_count; i++) {
            const double d = merged.parameters[i] - averaged.parameters[i];
            if (d > most || -d > most) most = d > 0 ? d : -d;
        }
        assert_true(most < 1e-12);
        config.sync = DL_SYNC_ASYNC_AVERAGE;
        expect_replay(&config, &merged);
    }
}

/* In any order of the threads, each run has the bits of a replay in its order. */
static void every_order_is_replayed_to_the_bit(void **state DL_UNUSED)
{
    static const double slow[] = {1, 3, 1, 2};
    for (int i = 0; i < 8; i++) {
        dl_train_config config = syncer_config(4, 1 + i % 3);
        config.precision = i < 4 ? DL_DOUBLE : DL_FLOAT;
        config.steps = 12;
        config.slow = i % 2 == 0 ? slow : NULL;
        config.merge = (dl_merge_config){.quorum = 1 + i % 4,
                                         .quorum_max = i % 5 == 0 ? 4 : 0,
                                         .grace_s = i % 3 == 1 ? 1e-4 : 0,
                                         .adaptive = i % 2 == 1,
                                         .scan_s = i % 4 == 2 ? 1e-4 : 0,
                                         .weight_power = i % 2,
                                         .wait_s = i % 4 == 3 ? 1e-3 : 0};
        config.bound = i % 3 == 2 ? 1 : -1;
        if (i % 2 == 1) config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.5};
        dl_train_result result = run(&config, NULL);
        expect_counts(&result);
        if (result.updates > 0) {
            expect_replay(&config, &result);
        } else {
            dl_train_result_free(&result);
        }
    }
}

/* Worker 1 is held at the end of its first step until worker 0 has done `needed` steps; then it
 * ends the run. Or worker 0 is held until worker 1 has done its second step, after which worker 1
 * is held until worker 0 has done two more. */
typedef struct gate {
    atomic_llong steps[2]; /* steps done */
    long long needed;
    bool stops;
    atomic_bool stop, late;
} gate;

static void wait_for(gate *g, int worker, long long steps)
{
    const int64_t until_ns = dl_clock_ns() + BLOCKED_S * INT64_C(1000000000);
    while (atomic_load(&g->steps[worker]) < steps && dl_clock_ns() < until_ns)
        sched_yield();
    if (dl_clock_ns() >= until_ns) atomic_store(&g->late, true);
}

static void hold(void *user, const dl_record *record)
{
    gate *g = user;
    if (record->kind != DL_RECORD_STEP) return;
    const long long done = atomic_fetch_add(&g->steps[record->worker], 1) + 1;
    if (record->worker == 1 && done == 1) {
        wait_for(g, 0, g->needed);
        if (g->stops) atomic_store(&g->stop, true);
    }
    if (record->worker == 1 && done == 2 && !g->stops) wait_for(g, 0, g->needed + 2);
    if (record->worker == 0 && done == g->needed && !g->stops) wait_for(g, 1, 2);
}

/* Worker 0 makes three versions and waits for each; then worker 1 uploads its change since version
 * 0: three versions stale, weight (1 + 3)^-1/2, or lost with a bound of two. */
static void staleness_is_counted_weighted_and_bounded(void **state DL_UNUSED)
{
    for (int64_t bound = 2; bound <= 3; bound++) {
        dl_train_config config = syncer_config(2, 2);
        gate g = {.needed = 6};
        const dl_train_observer observer = {.steps_only = true, .user = &g, .record = hold};
        config.steps = 8;
        config.bound = bound;
        config.merge = (dl_merge_config){.quorum = 1, .weight_power = 0.5, .wait_s = BLOCKED_S};
        dl_train_result result = run(&config, &observer);
        assert_false(g.late);
        expect_counts(&result);
        int64_t merged = 0;
        for (size_t i = 0; i < result.merge_event_count; i++) {
            const dl_merge_event *e = &result.merge_events[i];
            if (e->kind != DL_MERGE_MERGE || e->worker != 1 || e->step != 1) continue;
            merged++;
            assert_int_equal(e->version, 4);
            assert_int_equal(e->staleness, 3);
            assert_true(e->weight == 0.5);
        }
        assert_int_equal(merged, bound == 3);
        assert_int_equal(result.uploads.too_stale, bound == 2);
        expect_replay(&config, &result);
    }
}

/* There is never a quorum: ten uploads, each replacing the previous one, and the initial
 * parameters. */
static void without_a_quorum_nothing_is_merged(void **state DL_UNUSED)
{
    dl_train_config config = syncer_config(2, 2);
    gate g = {.needed = 20, .stops = true};
    const dl_train_observer observer = {.steps_only = true, .user = &g, .record = hold};
    config.merge.quorum = 2;
    config.stop = &g.stop;
    DL_SCOPED(dl_train_result) result = run(&config, &observer);
    assert_false(g.late);
    expect_counts(&result);
    assert_int_equal(result.updates, 0);
    assert_int_equal(result.samples, 0);
    assert_int_equal(result.uploads.superseded, 9);
    assert_int_equal(result.uploads.unmerged, 1);
}

/* Learners that wait for a version that does not come wait no longer than wait_s, and end with the
 * run. */
static void a_run_ends_though_one_waits(void **state DL_UNUSED)
{
    dl_train_config config = syncer_config(1, 2);
    config.merge = (dl_merge_config){.quorum = 1, .scan_s = 1e-3, .wait_s = 1e-6};
    DL_SCOPED(dl_train_result) result = run(&config, NULL);
    expect_counts(&result);
    assert_int_equal(result.steps_done[0], 20);
}

#define REFUSED(code, said, ...)                                      \
    do {                                                              \
        dl_train_config bad = syncer_config(2, 2);                    \
        dl_error err = {0};                                           \
        __VA_ARGS__;                                                  \
        assert_int_equal(dl_train_check(&bad, &data, &err), code);    \
        if (strstr(err.text, said) == NULL) fail_msg("%s", err.text); \
    } while (0)

static void bad_settings_are_refused(void **state DL_UNUSED)
{
    REFUSED(DL_ERR_RANGE, "quorum 3; must be 1 to 2", bad.merge.quorum = 3);
    REFUSED(DL_ERR_RANGE, "--bound: '-2'", bad.bound = -2);
    REFUSED(DL_ERR_RANGE, "--interval: '0'", bad.interval = 0);
    REFUSED(DL_ERR_UNSUPPORTED, "uncompressed, not as int8", bad.quantise = DL_QUANTISE_INT8);
    REFUSED(DL_ERR_UNSUPPORTED, "evaluated at the end only", bad.evaluate_every = 2);
    REFUSED(DL_ERR_UNSUPPORTED, "--sync average, not async_average", bad.fragments = 2);
    REFUSED(DL_ERR_UNSUPPORTED, "--sync average, not async_average", bad.interval_by_speed = true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merge_of_all_is_an_average),
        cmocka_unit_test(every_order_is_replayed_to_the_bit),
        cmocka_unit_test(staleness_is_counted_weighted_and_bounded),
        cmocka_unit_test(without_a_quorum_nothing_is_merged),
        cmocka_unit_test(a_run_ends_though_one_waits),
        cmocka_unit_test(bad_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
