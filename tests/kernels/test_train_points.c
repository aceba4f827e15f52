/* Points of a run, and the drop of the learning rate. */
#include <math.h>
#include <stdlib.h>

#include "tests/near.h"
#include "tests/train_case.h"

/* The parameters of every point equal the result of a run with that many steps. */
static void a_point_is_a_shorter_run(void **state DL_UNUSED)
{
    for (int sync = DL_SYNC_NONE; sync <= DL_SYNC_SOFTSYNC; sync++) {
        dl_train_config config = small_config();
        config.sync = (dl_sync)sync;
        config.interval = 4;
        config.evaluate_every = 6;
        /* Several asynchronous workers give different results in every run. */
        config.workers = sync >= DL_SYNC_ASYNC || sync == DL_SYNC_NONE ? 1 : 3;
        const bool averages = sync == DL_SYNC_AVERAGE;
        const int64_t expected[2][3] = {{6, 12, 18}, {8, 12, 20}};
        DL_SCOPED(dl_train_result) result = run(&config, NULL);
        assert_int_equal(result.point_count, 3);
        config.evaluate_every = 0;
        for (int i = 0; i < 3; i++) {
            const dl_train_point *point = &result.points[i];
            assert_int_equal(point->update, expected[averages][i]);
            assert_int_equal(point->samples, 12 * point->update);
            assert_true(isnan(point->simulated_s));
            config.steps = point->update;
            DL_SCOPED(dl_train_result) shorter = run(&config, NULL);
            assert_null(shorter.points);
            assert_int_equal(shorter.updates, point->update);
            assert_int_equal(shorter.samples, point->samples);
            if (config.workers == 1) {
                assert_memory_equal(point->parameters, shorter.parameters,
                                    result.parameter_count * sizeof(double));
            } else {
                /* There the result is computed as a mean of equal vectors. */
                assert_true(
                    near_all(point->parameters, shorter.parameters, result.parameter_count, 1e-14));
            }
        }
    }
}

/* The loss of a point is the mean over the steps since the last one: with points at each step, the
 * means of twos are those with points at every second one. */
static void losses_are_means_since_the_last_point(void **state DL_UNUSED)
{
    dl_train_config config = small_config();
    config.evaluate_every = 1;
    DL_SCOPED(dl_train_result) each = run(&config, NULL);
    config.evaluate_every = 2;
    DL_SCOPED(dl_train_result) seconds = run(&config, NULL);
    assert_int_equal(each.point_count, 20);
    assert_int_equal(seconds.point_count, 10);
    assert_true(each.points[0].loss == each.first_loss);
    assert_true(each.points[19].loss == each.last_loss);
    for (int i = 0; i < 10; i++) {
        const double mean = (each.points[2 * i].loss + each.points[2 * i + 1].loss) / 2;
        assert_true(near_scaled(seconds.points[i].loss, mean, 0, 1e-14));
    }
}

/* Points of several asynchronous workers: ascending versions, with the corresponding samples. */
static void points_of_a_server_are_versions(void **state DL_UNUSED)
{
    for (int n = 1; n <= 4; n += 3) {
        dl_train_config config = small_config();
        config.sync = DL_SYNC_SOFTSYNC;
        config.softsync_n = n;
        config.workers = 4;
        config.evaluate_every = 5;
        DL_SCOPED(dl_train_result) result = run(&config, NULL);
        int64_t before = -1;
        for (int i = 0; i < result.point_count; i++) {
            const dl_train_point *point = &result.points[i];
            assert_true(point->update > before && point->update <= result.updates);
            assert_int_equal(point->samples, point->update * (4 / n) * 3);
            before = point->update;
        }
    }
}

/* Set of 50, batches of 12: before step 8 there were 96 samples, less than 2 epochs; step 9 is the
 * first one with a tenth of the rate. Plain SGD: it moves the parameters a tenth as far. */
static void the_rate_drops_behind_its_epoch(void **state DL_UNUSED)
{
    static const dl_sync modes[] = {DL_SYNC_NONE, DL_SYNC_PS, DL_SYNC_ASYNC, DL_SYNC_AVERAGE};
    for (int m = 0; m < 4; m++) {
        dl_train_config config = small_config();
        config.sync = modes[m];
        config.evaluate_every = 1;
        config.steps = 10;
        DL_SCOPED(dl_train_result) whole = run(&config, NULL);
        config.drop_epochs = 2;
        DL_SCOPED(dl_train_result) drops = run(&config, NULL);
        const size_t bytes = whole.parameter_count * sizeof(double);
        assert_memory_equal(whole.points[8].parameters, drops.points[8].parameters, bytes);
        for (size_t i = 0; i < whole.parameter_count; i++) {
            const double at = whole.points[8].parameters[i];
            const double far = whole.points[9].parameters[i] - at;
            const double near = drops.points[9].parameters[i] - at;
            assert_true(fabs(near - 0.1 * far) < 1e-15);
        }
        assert_true(memcmp(whole.parameters, drops.parameters, bytes) != 0);
    }
}

static void bad_settings_are_errors(void **state DL_UNUSED)
{
    dl_train_result result = {0};
    dl_error err = {0};
    dl_train_config config = small_config();
    config.drop_epochs = -1;
    assert_int_equal(dl_train_run(&config, &data, NULL, &result, &err), DL_ERR_RANGE);
    assert_contains(err.text, "--rate-drop: '-1'");
    config = small_config();
    config.evaluate_every = -1;
    assert_int_equal(dl_train_run(&config, &data, NULL, &result, &err), DL_ERR_RANGE);
    assert_contains(err.text, "-1 steps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_is_a_shorter_run),
        cmocka_unit_test(losses_are_means_since_the_last_point),
        cmocka_unit_test(points_of_a_server_are_versions),
        cmocka_unit_test(the_rate_drops_behind_its_epoch),
        cmocka_unit_test(bad_settings_are_errors),
    };
    return cmocka_run_group_tests(tests, make_data, free_data);
}
