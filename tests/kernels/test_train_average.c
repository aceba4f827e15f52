/* Averages of parameters during training: in fragments, with a lag, as messages, over two levels,
 * with workers of unequal speed. Settings that must not change the result give equal bits. */
#include <math.h>
#include <stdlib.h>

#include "tests/near.h"
#include "tests/train_case.h"

#include "kernels/train/train.h"

/* Kinds of messages differ in numbers, not in threads: under ThreadSanitizer only every other kind
 * is tested; it also detects races that do not change the bits. */
#ifdef __SANITIZE_THREAD__
enum { NEXT_KIND = 2, REPEATS = 4 };
#else
enum { NEXT_KIND = 1, REPEATS = 10 };
#endif

static dl_train_config average_config(int workers, int interval)
{
    dl_train_config config = small_config();
    config.optimizer.momentum = 0.9;
    config.sync = DL_SYNC_AVERAGE;
    config.workers = workers;
    config.interval = interval;
    return config;
}

/* Fragments of one worker change nothing. A worker that keeps all of its own parameters trains as
 * without exchange. */
static void fragments_and_lags_that_change_nothing(void **state DL_UNUSED)
{
    dl_train_config config = average_config(1, 4);
    config.average_state = true;
    config.sync = DL_SYNC_NONE;
    DL_SCOPED(dl_train_result) one = run(&config, NULL);
    config.sync = DL_SYNC_AVERAGE;
    for (config.fragments = 2; config.fragments <= 4; config.fragments *= 2) {
        DL_SCOPED(dl_train_result) divided = run(&config, NULL);
        assert_true(same_bits(&one, &divided));
    }

    config = average_config(3, 4);
    config.fragments = 2;
    config.lag = 3;
    config.mixing = 1;
    dl_train_result kept = run(&config, NULL);
    config.sync = DL_SYNC_NONE;
    config.in_step = true;
    config.fragments = 1;
    config.lag = 0;
    dl_train_result none = run(&config, NULL);
    expect_same(&kept, &none);
}

/* With a lag, the last worker to send averages, which is not always the same: REPEATS runs with as
 * many threads as cores or more, blocking while they wait, one of them half as fast in some runs,
 * have equal bits; and so have two runs with compressed messages. Without a lag, several threads
 * average slices. Other settings give other results. */
static void who_averages_changes_nothing(void **state DL_UNUSED)
{
    static const double slow[] = {1, 2, 1};
    for (int kind = DL_QUANTISE_NONE; kind < DL_QUANTISE_COUNT; kind += NEXT_KIND) {
        dl_train_config config = average_config(3, 6);
        config.steps = 14;
        config.quantise = (dl_quantise)kind;
        config.topk_frac = 0.1;
        config.fragments = 3;
        config.outer = (dl_outer_config){DL_OUTER_NESTEROV, 0.7, 0.9};
        config.precision = kind % 2 == 0 ? DL_FLOAT : DL_DOUBLE;
        DL_SCOPED(dl_train_result) slices = run(&config, NULL);
        config.server_threads = 3;
        DL_SCOPED(dl_train_result) by_three = run(&config, NULL);
        assert_true(same_bits(&slices, &by_three));
        config.lag = 5;
        DL_SCOPED(dl_train_result) first = run(&config, NULL);
        assert_false(near_all(first.parameters, slices.parameters, first.parameter_count, 1e-6));
        for (int again = 0; again < (kind == DL_QUANTISE_NONE ? REPEATS : 2); again++) {
            config.wait = again % 2 == 0 ? DL_WAIT_BLOCK : DL_WAIT_AUTO;
            config.slow = again < REPEATS / 2 ? slow : NULL;
            DL_SCOPED(dl_train_result) other = run(&config, NULL);
            assert_true(same_bits(&first, &other));
        }
        config.mixing = 0;
        DL_SCOPED(dl_train_result) replaced = run(&config, NULL);
        assert_false(near_all(first.parameters, replaced.parameters, first.parameter_count, 1e-6));
    }
}

/* One worker has done one step and sent its first fragment, which then has the initial parameters
 * plus the change in multiples of its block's scale, the largest magnitude there / 127. A block has
 * 1024 numbers, or the rest of a layer or of the fragment: the mlp's layers have 784 x 128 + 128,
 * 128 x 64 + 64 and 64 x 10 + 10. */
static void check_bytes(int fragments)
{
    static const size_t layers[] = {784 * 128 + 128, 128 * 64 + 64, 64 * 10 + 10};
    dl_train_config config = average_config(1, fragments);
    config.steps = 1;
    config.sync = DL_SYNC_NONE;
    DL_SCOPED(dl_train_result) plain = run(&config, NULL);
    dl_model *model = NULL;
    assert_int_equal(dl_model_create(&model, config.model, DL_DOUBLE, 1, config.seed, NULL), DL_OK);
    const double *start = dl_model_parameters(model);
    config.sync = DL_SYNC_AVERAGE;
    config.quantise = DL_QUANTISE_INT8;
    config.fragments = fragments;
    DL_SCOPED(dl_train_result) sent = run(&config, NULL);
    const size_t count = sent.parameter_count, units = (count + 15) / 16;
    const size_t end_of_first = fragments == 1 ? count : units / (size_t)fragments * 16;
    size_t first = 0, layer = 0, layer_end = layers[0], differing = 0;
    while (first < end_of_first) {
        size_t end = first + DL_QUANTISE_BLOCK;
        if (end > layer_end) end = layer_end;
        if (end > end_of_first) end = end_of_first;
        double most = 0;
        for (size_t i = first; i < end; i++)
            most = fmax(most, fabs(plain.parameters[i] - start[i]));
        for (size_t i = first; i < end; i++) {
            const double learned = plain.parameters[i] - start[i], scale = most / 127;
            const double quotient = scale > 0 ? learned / scale : 0, whole = nearbyint(quotient);
            /* For a tie the quotient in float may be closer to the other multiple. */
            const bool is_tie = fabs(fabs(quotient - whole) - 0.5) < 1e-4;
            const double off = fabs(sent.parameters[i] - (start[i] + whole * scale));
            /* Scale and product are rounded to 24 bits each. */
            assert_true(off < 3e-7 * most + 1e-16 + (is_tie ? scale : 0));
            differing += sent.parameters[i] != plain.parameters[i];
        }
        first = end;
        if (first == layer_end && layer < 2) layer_end += layers[++layer];
    }
    assert_true(differing > end_of_first / 4);
    /* Fragments that were not sent have the worker's parameters. */
    for (size_t i = end_of_first; i < count; i++)
        assert_true(sent.parameters[i] == plain.parameters[i]);
    dl_model_destroy(model);
}

static void what_was_learned_is_sent_as_bytes(void **state DL_UNUSED)
{
    check_bytes(1);
    check_bytes(4);
}

/* Errors after 5 steps, relative to the change: half precision 1/2048, bytes 1/254, powers of two
 * 1/3. Results differ from the exact average by no more than that; and one bit, or one of ten
 * numbers, whose error is fed back, still train. */
static void messages_are_close_to_the_average(void **state DL_UNUSED)
{
    dl_train_config config = average_config(2, 5);
    config.optimizer.momentum = 0;
    config.steps = 5;
    DL_SCOPED(dl_train_result) whole = run(&config, NULL);
    static const double off[DL_QUANTISE_COUNT] = {[DL_QUANTISE_FP16] = 1.0 / 2048,
                                                  [DL_QUANTISE_INT8] = 1.0 / 254,
                                                  [DL_QUANTISE_1BIT] = 1,
                                                  [DL_QUANTISE_TOPK] = 1,
                                                  [DL_QUANTISE_FP4] = 1.0 / 3};
    config.topk_frac = 0.1;
    dl_model *model = NULL;
    assert_int_equal(dl_model_create(&model, config.model, DL_DOUBLE, 1, config.seed, NULL), DL_OK);
    const double *start = dl_model_parameters(model);
    double most = 0;
    for (size_t i = 0; i < whole.parameter_count; i++)
        most = fmax(most, fabs(whole.parameters[i] - start[i]));
    for (int kind = DL_QUANTISE_FP16; kind < DL_QUANTISE_COUNT; kind += NEXT_KIND) {
        config.quantise = (dl_quantise)kind;
        DL_SCOPED(dl_train_result) sent = run(&config, NULL);
        double largest = 0;
        for (size_t i = 0; i < whole.parameter_count; i++)
            largest = fmax(largest, fabs(sent.parameters[i] - whole.parameters[i]));
        /* A worker's change may be twice as large as the mean. */
        assert_true(largest > 0 && largest <= 2 * off[kind] * most);
    }
    dl_model_destroy(model);
}

/* If all gradients are sent, ps and allreduce have the same bits as without messages. The change of
 * a worker's parameters is a difference, which is rounded: its average differs by that only. */
static void all_of_topk_is_everything(void **state DL_UNUSED)
{
    for (int sync = DL_SYNC_ALLREDUCE; sync <= DL_SYNC_AVERAGE; sync++) {
        dl_train_config config = average_config(3, sync == DL_SYNC_AVERAGE ? 4 : 1);
        config.sync = (dl_sync)sync;
        config.steps = 9;
        config.precision = DL_FLOAT;
        DL_SCOPED(dl_train_result) whole = run(&config, NULL);
        config.quantise = DL_QUANTISE_TOPK;
        config.topk_frac = 1;
        DL_SCOPED(dl_train_result) all = run(&config, NULL);
        if (sync == DL_SYNC_AVERAGE) {
            assert_true(near_all(all.parameters, whole.parameters, whole.parameter_count, 1e-5));
        } else {
            assert_true(same_bits(&all, &whole));
        }
        config.topk_frac = 0.5;
        DL_SCOPED(dl_train_result) half = run(&config, NULL);
        assert_false(near_all(half.parameters, whole.parameters, whole.parameter_count, 1e-5));
    }
}

/* A stop comes while workers are up to a period and a lag ahead of worker 0: all end after the same
 * step, with an interval's averages merged. */
static void a_stop_with_a_lag_ends_all_alike(void **state DL_UNUSED)
{
    const atomic_bool stop = true;
    dl_train_config config = average_config(3, 6);
    config.steps = 200;
    config.fragments = 3;
    config.lag = 5;
    config.stop = &stop;
    DL_SCOPED(dl_train_result) result = run(&config, NULL);
    /* Requested after 1 step: 1 + period 2 + lag 5 = 8, and the next multiple of 6 is 12. */
    for (int w = 0; w < 3; w++)
        assert_int_equal(result.steps_done[w], 12);
}

/* One site of all workers is allreduce, at any interval; sites of one worker are average: bit for
 * bit, with all other settings. */
static void sites_of_all_and_of_one_are_the_other_modes(void **state DL_UNUSED)
{
    for (int interval = 1; interval <= 4; interval += 3) {
        dl_train_config config = average_config(3, interval);
        config.precision = DL_FLOAT;
        config.sites = 1;
        dl_train_result site = run(&config, NULL);
        config.sites = 0;
        config.sync = DL_SYNC_ALLREDUCE;
        dl_train_result all = run(&config, NULL);
        expect_same(&site, &all);
    }
    for (int kind = DL_QUANTISE_NONE; kind < DL_QUANTISE_COUNT; kind += NEXT_KIND) {
        dl_train_config config = average_config(3, 4);
        config.steps = 9;
        config.quantise = (dl_quantise)kind;
        config.topk_frac = 0.1;
        config.fragments = 2;
        config.average_state = kind == DL_QUANTISE_NONE;
        config.outer = (dl_outer_config){(dl_outer)(kind % 3), 0.7, 0.9};
        for (config.lag = 0; config.lag < 4; config.lag += config.average_state ? 4 : 3) {
            config.sites = 3;
            dl_train_result sites = run(&config, NULL);
            config.sites = 0;
            dl_train_result workers = run(&config, NULL);
            expect_same(&sites, &workers);
        }
    }
}

/* Two sites of two workers are equivalent to two workers with twice the batch; averaging in each
 * step they are equivalent to allreduce of all four: mean(p - r g_s) = p - r mean(g_s), and
 * likewise with momentum, up to rounding. */
static void a_site_is_a_worker_with_the_batch_of_all(void **state DL_UNUSED)
{
    dl_train_config config = average_config(4, 4);
    config.steps = 9;
    config.sites = 2;
    config.fragments = 2;
    config.server_threads = 3;
    for (config.lag = 0; config.lag < 4; config.lag += 3) {
        config.workers = 4;
        config.sites = 2;
        DL_SCOPED(dl_train_result) sites = run(&config, NULL);
        DL_SCOPED(dl_train_result) again = run(&config, NULL);
        assert_true(same_bits(&sites, &again));
        config.workers = 2;
        config.sites = 0;
        config.server_threads = 1;
        DL_SCOPED(dl_train_result) workers = run(&config, NULL);
        assert_true(near_all(sites.parameters, workers.parameters, sites.parameter_count, 1e-10));
    }
    config = average_config(4, 1);
    config.steps = 9;
    config.sites = 2;
    DL_SCOPED(dl_train_result) each_step = run(&config, NULL);
    config.interval = 4;
    DL_SCOPED(dl_train_result) rarely = run(&config, NULL);
    config.sites = 0;
    config.sync = DL_SYNC_ALLREDUCE;
    DL_SCOPED(dl_train_result) all = run(&config, NULL);
    assert_true(near_all(each_step.parameters, all.parameters, all.parameter_count, 1e-10));
    assert_false(near_all(rarely.parameters, all.parameters, all.parameter_count, 1e-6));
}

/* Workers of equal speed do the interval's steps: the same bits, without slowing or if all are
 * slowed equally. */
static void equal_speeds_have_the_plain_interval(void **state DL_UNUSED)
{
    static const double alike[] = {1.5, 1.5, 1.5};
    dl_train_config config = average_config(3, 4);
    DL_SCOPED(dl_train_result) plain = run(&config, NULL);
    config.interval_by_speed = true;
    for (int slowed = 0; slowed <= 1; slowed++) {
        config.slow = slowed ? alike : NULL;
        DL_SCOPED(dl_train_result) by_speed = run(&config, NULL);
        assert_true(same_bits(&plain, &by_speed));
        assert_int_equal(by_speed.samples, 20 * 12);
    }
}

/* Of an interval of 4 steps, workers that take 1, 2, 3 and 9 times as long do 4, 2, 1 (4/3) and 1
 * (4/9): in 20 steps of the fastest, 20, 10, 5 and 5. A stop in the first round ends at an
 * average. */
static void slower_workers_do_fewer_steps(void **state DL_UNUSED)
{
    static const double slow[] = {2, 1, 3, 9};
    static const int64_t steps[] = {10, 20, 5, 5};
    const atomic_bool stop = true;
    dl_train_config config = average_config(4, 4);
    config.slow = slow;
    config.interval_by_speed = true;
    DL_SCOPED(dl_train_result) first = run(&config, NULL);
    for (int w = 0; w < 4; w++)
        assert_int_equal(first.steps_done[w], steps[w]);
    assert_int_equal(first.samples, 40 * 3);
    config.wait = DL_WAIT_BLOCK;
    config.server_threads = 4;
    DL_SCOPED(dl_train_result) again = run(&config, NULL);
    assert_true(same_bits(&first, &again));
    config.stop = &stop;
    DL_SCOPED(dl_train_result) stopped = run(&config, NULL);
    for (int w = 0; w < 4; w++)
        assert_int_equal(stopped.steps_done[w], steps[w] / 5);
}

static void speed_settings_are_checked(void **state DL_UNUSED)
{
    static const struct {
        int fragments, lag, sites, steps;
        dl_sync sync;
        dl_status code;
        const char *text;
    } bad[] = {
        {2, 0, 0, 20, DL_SYNC_AVERAGE, DL_ERR_UNSUPPORTED, "cannot be combined with --fragments"},
        {1, 1, 0, 20, DL_SYNC_AVERAGE, DL_ERR_UNSUPPORTED, "cannot be combined with --lag"},
        {1, 0, 2, 20, DL_SYNC_AVERAGE, DL_ERR_UNSUPPORTED, "cannot be combined with --sites"},
        {1, 0, 0, 18, DL_SYNC_AVERAGE, DL_ERR_RANGE, "a multiple of the interval of 4 steps"},
        {1, 0, 0, 20, DL_SYNC_ASYNC, DL_ERR_UNSUPPORTED,
         "--interval-by-speed needs --sync average, not async"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dl_train_config config = average_config(2, 4);
        dl_error err = {0};
        config.interval_by_speed = true;
        config.fragments = bad[i].fragments;
        config.lag = bad[i].lag;
        config.sites = bad[i].sites;
        config.steps = bad[i].steps;
        config.sync = bad[i].sync;
        assert_int_equal(dl_train_run(&config, &data, NULL, &(dl_train_result){0}, &err),
                         bad[i].code);
        assert_contains(err.text, bad[i].text);
    }
}

static void average_settings_are_checked(void **state DL_UNUSED)
{
    static const struct {
        int fragments, lag, sites;
        double mixing;
        dl_sync sync;
        bool average_state;
        dl_status code;
        const char *text;
    } bad[] = {
        {0, 0, 0, 0.5, DL_SYNC_AVERAGE, false, DL_ERR_RANGE, "--fragments: '0'"},
        {3, 0, 0, 0.5, DL_SYNC_AVERAGE, false, DL_ERR_RANGE, "divide the interval of 4 steps"},
        {2, 4, 0, 0.5, DL_SYNC_AVERAGE, false, DL_ERR_RANGE, "lag 4; must be less than"},
        {2, -1, 0, 0.5, DL_SYNC_AVERAGE, false, DL_ERR_RANGE, "--lag: '-1'"},
        {1, 1, 0, 1.5, DL_SYNC_AVERAGE, false, DL_ERR_RANGE, "--mixing: '1.5'"},
        {1, 1, 0, (double)NAN, DL_SYNC_AVERAGE, false, DL_ERR_RANGE, "--mixing: 'nan'"},
        {2, 0, 0, 0.5, DL_SYNC_PS, false, DL_ERR_UNSUPPORTED,
         "--fragments needs --sync average, not ps"},
        {1, 1, 0, 0.5, DL_SYNC_ALLREDUCE, false, DL_ERR_UNSUPPORTED,
         "--lag needs --sync average, not allreduce"},
        {1, 0, 3, 0.5, DL_SYNC_AVERAGE, false, DL_ERR_RANGE,
         "3 sites; must divide the number of workers, 2"},
        {1, 0, -1, 0.5, DL_SYNC_AVERAGE, false, DL_ERR_RANGE, "--sites: '-1'"},
        {1, 0, 1, 0.5, DL_SYNC_ASYNC, false, DL_ERR_UNSUPPORTED,
         "--sites needs --sync average, not async"},
        {1, 1, 0, 0.5, DL_SYNC_AVERAGE, true, DL_ERR_UNSUPPORTED, "cannot be combined with --lag"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dl_train_result result = {0};
        dl_error err = {0};
        dl_train_config config = average_config(2, 4);
        config.fragments = bad[i].fragments;
        config.lag = bad[i].lag;
        config.sites = bad[i].sites;
        config.mixing = bad[i].mixing;
        config.sync = bad[i].sync;
        config.average_state = bad[i].average_state;
        assert_int_equal(dl_train_run(&config, &data, NULL, &result, &err), bad[i].code);
        assert_contains(err.text, bad[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_and_lags_that_change_nothing),
        cmocka_unit_test(who_averages_changes_nothing),
        cmocka_unit_test(what_was_learned_is_sent_as_bytes),
        cmocka_unit_test(messages_are_close_to_the_average),
        cmocka_unit_test(all_of_topk_is_everything),
        cmocka_unit_test(a_stop_with_a_lag_ends_all_alike),
        cmocka_unit_test(sites_of_all_and_of_one_are_the_other_modes),
        cmocka_unit_test(a_site_is_a_worker_with_the_batch_of_all),
        cmocka_unit_test(equal_speeds_have_the_plain_interval),
        cmocka_unit_test(slower_workers_do_fewer_steps),
        cmocka_unit_test(speed_settings_are_checked),
        cmocka_unit_test(average_settings_are_checked),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
