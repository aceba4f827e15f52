#include "calibrate/fit.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/random.h"
#include "tests/check.h"

#define NEAR(actual, expected, relative) \
    assert_true(fabs((double)(actual) - (double)(expected)) <= (relative)*fabs((double)(expected)))

/* NIST StRD, linear regression, Norris (lower difficulty, observed data): y, x. */
static const double norris[36][2] = {
    {0.1, 0.2},     {338.8, 337.4}, {118.1, 118.2}, {888.0, 884.6}, {9.2, 10.1},    {228.1, 226.5},
    {668.5, 666.3}, {998.5, 996.3}, {449.1, 448.6}, {778.9, 777.0}, {559.2, 558.2}, {0.3, 0.4},
    {0.1, 0.6},     {778.1, 775.5}, {668.8, 666.9}, {339.3, 338.0}, {448.9, 447.5}, {10.8, 11.6},
    {557.7, 556.0}, {228.3, 228.1}, {998.0, 995.8}, {888.8, 887.6}, {119.6, 120.2}, {0.3, 0.3},
    {0.6, 0.3},     {557.6, 556.8}, {339.3, 339.1}, {888.0, 887.2}, {998.5, 999.0}, {778.9, 779.0},
    {10.2, 11.1},   {117.6, 118.3}, {228.9, 229.2}, {668.4, 669.1}, {449.2, 448.9}, {0.2, 0.5}};

/* Certified: intercept -0.262323073774029, slope 1.00211681802045, their standard deviations
 * 0.232818234301152 and 0.429796848199937e-3, residual 0.884796396144373. One is added to every y,
 * because negative coefficients are constrained: only the intercept changes, by exactly 1. */
static void test_certified_line(void **state DL_UNUSED)
{
    double terms[72], y[36], error[36] = {0}, scale[36];
    for (int i = 0; i < 36; i++) {
        terms[2 * i] = 1;
        terms[2 * i + 1] = norris[i][1];
        y[i] = norris[i][0] + 1;
        scale[i] = 1;
    }
    const dl_fit_problem problem = {36, 2, terms, y, error, scale};
    dl_fit_line line;
    assert_int_equal(dl_fit_solve(&problem, &line, NULL), DL_OK);
    NEAR(line.coefficient[0], 1 - 0.262323073774029, 1e-11);
    NEAR(line.coefficient[1], 1.00211681802045, 1e-12);
    NEAR(line.error[0], 0.232818234301152, 1e-9);
    NEAR(line.error[1], 0.429796848199937e-3, 1e-9);
    NEAR(line.tau, 0.884796396144373, 1e-9);
    assert_false(line.held_at_zero[0] || line.held_at_zero[1]);
}

/* These data have a negative intercept, which is held at 0: the slope through the origin is
 * sum x y / sum x^2. */
static void test_negative_coefficient_is_held(void **state DL_UNUSED)
{
    double terms[72], y[36], error[36] = {0}, scale[36], xy = 0, xx = 0;
    for (int i = 0; i < 36; i++) {
        terms[2 * i] = 1;
        terms[2 * i + 1] = norris[i][1];
        y[i] = norris[i][0];
        scale[i] = 1;
        xy += norris[i][0] * norris[i][1];
        xx += norris[i][1] * norris[i][1];
    }
    const dl_fit_problem problem = {36, 2, terms, y, error, scale};
    dl_fit_line line;
    assert_int_equal(dl_fit_solve(&problem, &line, NULL), DL_OK);
    assert_true(line.held_at_zero[0] && !line.held_at_zero[1]);
    assert_true(line.coefficient[0] == 0 && line.error[0] == 0);
    NEAR(line.coefficient[1], xy / xx, 1e-12);
}

/* Two points with errors: y = a + b x goes through both; with x = 10, 20 and sigma = 3, 4:
 * var b = (9 + 16) / 100, var a = 2^2 9 + 1^2 16 (a = 2 y1 - y2). */
static void test_two_points_propagate_their_errors(void **state DL_UNUSED)
{
    const double terms[] = {1, 10, 1, 20}, y[] = {150, 250}, error[] = {3, 4}, scale[] = {1, 1};
    const dl_fit_problem problem = {2, 2, terms, y, error, scale};
    dl_fit_line line;
    assert_int_equal(dl_fit_solve(&problem, &line, NULL), DL_OK);
    NEAR(line.coefficient[0], 50, 1e-9);
    NEAR(line.coefficient[1], 10, 1e-9);
    NEAR(line.error[0], sqrt(4 * 9 + 16), 1e-9);
    NEAR(line.error[1], 0.5, 1e-9);
    assert_true(line.tau == 0);
}

/* Three values of one constant, 90, 100, 110 with errors of 1 each: they differ by far more, so 1 +
 * tau^2 = 100 (chi^2 = 200 / (1 + tau^2) = 2) and the error is sqrt(100 / 3). */
static void test_scatter_between_points_widens_errors(void **state DL_UNUSED)
{
    const double terms[] = {1, 1, 1}, y[] = {90, 100, 110}, error[] = {1, 1, 1},
                 scale[] = {1, 1, 1};
    const dl_fit_problem problem = {3, 1, terms, y, error, scale};
    dl_fit_line line;
    assert_int_equal(dl_fit_solve(&problem, &line, NULL), DL_OK);
    NEAR(line.coefficient[0], 100, 1e-9);
    NEAR(line.tau, sqrt(99.0), 1e-6);
    NEAR(line.error[0], sqrt(100.0 / 3), 1e-6);
}

/* Columns that are multiples of each other, and fewer points than parameters. */
static void test_undetermined_is_an_error(void **state DL_UNUSED)
{
    const double terms[] = {1, 5, 1, 5, 1, 5}, y[] = {1, 2, 3}, error[] = {1, 1, 1},
                 scale[] = {1, 1, 1};
    dl_fit_problem problem = {3, 2, terms, y, error, scale};
    dl_fit_line line = {.tau = 7};
    dl_error err = {0};
    assert_int_equal(dl_fit_solve(&problem, &line, &err), DL_ERR_DATA);
    assert_contains(err.text, "do not determine the 2 parameters");
    problem.n = 1;
    assert_int_equal(dl_fit_solve(&problem, &line, &err), DL_ERR_DATA);
    assert_contains(err.text, "1 points");
    assert_true(line.tau == 7);
}

/* 1000 values of mean 100 and sd 5, of which 5 % have a preemption of 400. The middle half of all
 * values are the quantiles 0.25 / 0.95 to 0.75 / 0.95 of the normal part, so the midmean is 100 + 5
 * (phi(-0.634) - phi(0.803)) / 0.526 = 100.35 (the mean: 120). Its standard error is about 5 /
 * sqrt(1000) over an efficiency; intervals of one and three standard errors must have their nominal
 * coverage. */
static void test_location_ignores_outliers(void **state DL_UNUSED)
{
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    int within_one = 0, within_three = 0;
    for (int repetition = 0; repetition < 100; repetition++) {
        double values[1000];
        for (int i = 0; i < 1000; i++) {
            values[i] = 100 + 5 * dl_random_normal(&random);
            if (dl_random_uniform(&random) < 0.05) values[i] += 400;
        }
        dl_estimate location;
        assert_int_equal(dl_fit_location(values, 1000, &location, NULL), DL_OK);
        assert_int_equal(location.count, 1000);
        assert_true(location.error > 0.12 && location.error < 0.35);
        const double off = fabs(location.value - 100.35);
        within_one += off <= location.error;
        within_three += off <= 3 * location.error;
    }
    assert_in_range(within_one, 50, 85);
    assert_in_range(within_three, 97, 100);
}

/* An autoregressive sample, x[i] = 0.8 x[i-1] + z: the error of its mean is that of independent
 * values times sqrt((1 + 0.8) / (1 - 0.8)) = 3. Blocks of 125 values must reproduce that. */
static void test_location_error_knows_correlation(void **state DL_UNUSED)
{
    dl_random random;
    dl_random_init(&random, 2, 0, 0, 0);
    double *values = calloc(4000, sizeof *values), sum = 0;
    for (int repetition = 0; repetition < 50; repetition++) {
        double x = 0;
        for (int i = 0; i < 4000; i++) {
            x = 0.8 * x + dl_random_normal(&random);
            values[i] = 1000 + x;
        }
        dl_estimate location;
        assert_int_equal(dl_fit_location(values, 4000, &location, NULL), DL_OK);
        sum += location.error;
    }
    free(values);
    const double independent = 1 / sqrt(1 - 0.64) / sqrt(4000.0);
    assert_true(sum / 50 > 2.5 * independent && sum / 50 < 3.8 * independent);
}

static void test_location_of_few(void **state DL_UNUSED)
{
    const double one[] = {42}, same[] = {7, 7, 7, 7, 7, 7, 7}, three[] = {1, 2, 6};
    dl_estimate location;
    assert_int_equal(dl_fit_location(one, 1, &location, NULL), DL_OK);
    assert_true(location.value == 42 && location.error == 0 && location.count == 1);
    assert_int_equal(dl_fit_location(same, 7, &location, NULL), DL_OK);
    assert_true(location.value == 7 && location.error == 0);
    assert_int_equal(dl_fit_location(three, 3, &location, NULL), DL_OK);
    NEAR(location.value, 3, 1e-12);
    NEAR(location.error, sqrt(7.0 / 3), 1e-12); /* variance (4 + 1 + 9) / 2 = 7 */
    const double broken[] = {1, NAN, 3, 4, 5, 6};
    assert_int_equal(dl_fit_location(broken, 6, &location, NULL), DL_ERR_DATA);
}

/* 1 .. 100: median 50.5; sqrt(100) / 2 = 5 indices around index 49.5 are 44 and 55, with values 45
 * and 56: error 5.5. */
static void test_median(void **state DL_UNUSED)
{
    double values[100];
    for (int i = 0; i < 100; i++)
        values[i] = 1 + (i * 37) % 100;
    const dl_estimate median = dl_fit_median(values, 100);
    NEAR(median.value, 50.5, 1e-12);
    NEAR(median.error, 5.5, 1e-12);
    const dl_estimate one = dl_fit_median(values, 1);
    assert_true(one.value == 1 && one.error == 0 && one.count == 1);
}

/* 1, 3, 1, 3, ...: mean 2, sd sqrt(100 / 99), neighbours anticorrelated; equal values: no shape. */
static void test_shape(void **state DL_UNUSED)
{
    double values[100];
    for (int i = 0; i < 100; i++)
        values[i] = i % 2 == 0 ? 1 : 3;
    dl_fit_shape shape = dl_fit_shape_of(values, 100);
    NEAR(shape.mean, 2, 1e-12);
    NEAR(shape.sd, sqrt(100.0 / 99), 1e-12);
    NEAR(shape.p99, 3, 1e-12);
    assert_true(shape.lag1 < -0.95);
    for (int i = 0; i < 100; i++)
        values[i] = 5;
    shape = dl_fit_shape_of(values, 100);
    assert_true(shape.sd == 0 && shape.lag1 == 0 && shape.mean == 5);
}

int main(void)
{
    gsl_set_error_handler_off();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certified_line),
        cmocka_unit_test(test_negative_coefficient_is_held),
        cmocka_unit_test(test_two_points_propagate_their_errors),
        cmocka_unit_test(test_scatter_between_points_widens_errors),
        cmocka_unit_test(test_undetermined_is_an_error),
        cmocka_unit_test(test_location_ignores_outliers),
        cmocka_unit_test(test_location_error_knows_correlation),
        cmocka_unit_test(test_location_of_few),
        cmocka_unit_test(test_median),
        cmocka_unit_test(test_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
