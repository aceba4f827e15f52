/* The parameters of a replay over two numbers and gradients given by hand: which version a gradient
 * is of, what an update and an average make of it. */
#include <stdlib.h>

#include "tests/check.h"

#include "kernels/train/train_internal.h"

enum { NUMBERS = 2, SET_SIZE = 8 };

static const double first[NUMBERS] = {1, -2};

/* A schedule of two workers with a sample each, from its rows. */
static dl_schedule read_schedule(const char *rows)
{
    char text[1024];
    const int bytes = snprintf(text, sizeof text,
                               "# dlscale schedule\n# schema: 1\n# mode: test\n# workers: 2\n"
                               "# batch: 2\ntime_s,event,update,worker,read,batch\n%s",
                               rows);
    dl_schedule schedule = {0};
    dl_error err = {0};
    if (dl_schedule_read_text(&schedule, "test.csv", text, (size_t)bytes, &err) != DL_OK) {
        fail_msg("line %d: %s", err.line, err.text);
    }
    return schedule;
}

/* Half of each gradient is taken off. */
static dl_train_config half_steps(void)
{
    dl_train_config config = dl_train_default_config();
    config.precision = DL_DOUBLE;
    config.optimizer = (dl_optimizer_config){.name = "sgd", .learning_rate = 0.5};
    return config;
}

static dl_replay_parameters begin(const dl_train_config *config, const dl_schedule *schedule)
{
    dl_replay_parameters parameters = {0};
    assert_int_equal(
        dl_replay_parameters_init(&parameters, config, schedule, SET_SIZE, first, NUMBERS, NULL),
        DL_OK);
    return parameters;
}

/* What the event's gradient is computed with. */
static void assert_reads(const dl_replay_parameters *parameters, size_t row, double a, double b)
{
    const double *read = dl_replay_parameters_of(parameters, &parameters->schedule->events[row]);
    assert_true(read[0] == a && read[1] == b);
}

static void apply(dl_replay_parameters *parameters, size_t row, double a, double b)
{
    double gradient[NUMBERS] = {a, b};
    dl_replay_parameters_apply(parameters, row, gradient, (double)row + 0.5);
}

/* The second gradient is of version 0 though version 1 is there, the third one of version 1. */
static void a_stale_gradient_reads_its_version(void **state)
{
    (void)state;
    dl_schedule schedule = read_schedule("1,gradient,1,0,0,0\n2,gradient,2,1,0,1\n"
                                         "3,gradient,3,0,1,2\n");
    const dl_train_config config = half_steps();
    dl_replay_parameters parameters = begin(&config, &schedule);
    apply(&parameters, 0, 2, 0);
    assert_reads(&parameters, 1, 1, -2);
    assert_reads(&parameters, 2, 0, -2);
    apply(&parameters, 1, 0, 4);
    assert_reads(&parameters, 2, 0, -2);
    apply(&parameters, 2, 8, 8);
    dl_train_result result;
    dl_replay_parameters_result(&parameters, &result);
    assert_true(result.parameters[0] == -4 && result.parameters[1] == -8);
    assert_int_equal(result.parameter_count, NUMBERS);
    assert_int_equal(result.updates, 3);
    assert_int_equal(result.samples, 3);
    assert_true(result.first_loss == 0.5 && result.last_loss == 2.5);
    dl_train_result_free(&result);
    dl_replay_parameters_free(&parameters);
    dl_schedule_free(&schedule);
}

/* Gradients of one update count as their mean. */
static void an_update_takes_the_mean_of_its_gradients(void **state)
{
    (void)state;
    dl_schedule schedule = read_schedule("1,gradient,1,0,0,0\n2,gradient,1,1,0,1\n"
                                         "3,gradient,2,0,1,2\n");
    const dl_train_config config = half_steps();
    dl_replay_parameters parameters = begin(&config, &schedule);
    apply(&parameters, 0, 2, 0);
    assert_int_equal(parameters.updates, 0);
    apply(&parameters, 1, 4, 8);
    assert_int_equal(parameters.updates, 1);
    assert_reads(&parameters, 2, 1 - 0.5 * 3, -2 - 0.5 * 4);
    dl_replay_parameters_free(&parameters);
    dl_schedule_free(&schedule);
}

/* Two updates stale: half the rate. One or none: the whole. */
static void the_rate_is_by_staleness_if_wanted(void **state)
{
    (void)state;
    dl_schedule schedule = read_schedule("1,gradient,1,0,0,0\n2,gradient,2,0,1,1\n"
                                         "3,gradient,3,1,0,2\n");
    dl_train_config config = half_steps();
    for (int by_staleness = 0; by_staleness <= 1; by_staleness++) {
        config.staleness_rate = by_staleness;
        dl_replay_parameters parameters = begin(&config, &schedule);
        for (size_t row = 0; row < schedule.count; row++)
            apply(&parameters, row, 4, 0);
        dl_train_result result;
        dl_replay_parameters_result(&parameters, &result);
        assert_true(result.parameters[0] == 1 - 2 - 2 - (by_staleness ? 1 : 2));
        dl_train_result_free(&result);
        dl_replay_parameters_free(&parameters);
    }
    dl_schedule_free(&schedule);
}

/* Each worker has its own until an average; momentum is averaged where that is wanted. */
static void local_steps_meet_in_averages(void **state)
{
    (void)state;
    dl_schedule schedule = read_schedule("1,local,,0,,0\n2,local,,1,,1\n2,average,1,,,\n"
                                         "3,local,,0,,2\n4,local,,1,,3\n");
    dl_train_config config = half_steps();
    config.optimizer.momentum = 0.5;
    for (int with_state = 0; with_state <= 1; with_state++) {
        config.average_state = with_state;
        dl_replay_parameters parameters = begin(&config, &schedule);
        apply(&parameters, 0, 4, 0);
        assert_reads(&parameters, 3, -1, -2);
        assert_reads(&parameters, 4, 1, -2);
        apply(&parameters, 1, 0, 0);
        dl_replay_parameters_apply(&parameters, 2, NULL, 0);
        assert_reads(&parameters, 3, 0, -2);
        assert_reads(&parameters, 4, 0, -2);
        /* What is left of the first gradient: the worker's own momentum, or the mean of both. */
        apply(&parameters, 3, 0, 0);
        apply(&parameters, 4, 0, 0);
        assert_reads(&parameters, 3, with_state ? -0.5 : -1, -2);
        assert_reads(&parameters, 4, with_state ? -0.5 : 0, -2);
        dl_train_result result;
        dl_replay_parameters_result(&parameters, &result);
        assert_true(result.parameters[0] == -0.5);
        assert_int_equal(result.updates, 1);
        assert_int_equal(result.samples, 4);
        dl_train_result_free(&result);
        dl_replay_parameters_free(&parameters);
    }
    dl_schedule_free(&schedule);
}

/* Behind every step of both workers, with the loss since the last point. */
static void points_are_taken_on_the_way(void **state)
{
    (void)state;
    dl_schedule schedule = read_schedule("1,gradient,1,0,0,0\n2,gradient,2,1,1,1\n"
                                         "3,gradient,3,0,2,2\n4,gradient,4,1,3,3\n");
    dl_train_config config = half_steps();
    config.evaluate_every = 1;
    dl_replay_parameters parameters = begin(&config, &schedule);
    for (size_t row = 0; row < schedule.count; row++)
        apply(&parameters, row, 2, 0);
    dl_train_result result;
    dl_replay_parameters_result(&parameters, &result);
    assert_int_equal(result.point_count, 2);
    assert_int_equal(result.points[1].update, 4);
    assert_true(result.points[0].parameters[0] == -1);
    assert_true(result.points[0].simulated_s == 2 && result.points[1].simulated_s == 4);
    assert_true(result.points[0].loss == 1 && result.points[1].loss == 3);
    dl_train_result_free(&result);
    dl_replay_parameters_free(&parameters);
    dl_schedule_free(&schedule);
}

static void an_unknown_optimizer_is_an_error(void **state)
{
    (void)state;
    dl_schedule schedule = read_schedule("1,gradient,1,0,0,0\n");
    dl_train_config config = half_steps();
    config.optimizer.name = "sdg";
    dl_replay_parameters parameters = {0};
    dl_error err = {0};
    assert_int_equal(
        dl_replay_parameters_init(&parameters, &config, &schedule, SET_SIZE, first, NUMBERS, &err),
        DL_ERR_NAME);
    dl_replay_parameters_free(&parameters);
    dl_schedule_free(&schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stale_gradient_reads_its_version),
        cmocka_unit_test(an_update_takes_the_mean_of_its_gradients),
        cmocka_unit_test(the_rate_is_by_staleness_if_wanted),
        cmocka_unit_test(local_steps_meet_in_averages),
        cmocka_unit_test(points_are_taken_on_the_way),
        cmocka_unit_test(an_unknown_optimizer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
