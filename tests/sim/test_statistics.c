/* Random draws, statistics, distributions and roots compared with those of GSL: the same bits
 * unless stated otherwise. */
#include "tests/check.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_roots.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <gsl/gsl_statistics_float.h>
#include <math.h>

#include "common/random.h"
#include "sim/root.h"
#include "sim/statistics.h"

/* One of the project's random streams as a generator for GSL's distributions. */
static void seed_stream(void *state, unsigned long seed)
{
    dl_random_init(state, seed, 0, 0, 0);
}

static unsigned long get(void *state)
{
    return dl_random_u32(state);
}

static double get_double(void *state)
{
    return dl_random_uniform(state);
}

static const gsl_rng_type stream_type = {"philox",    UINT32_MAX, 0,         sizeof(dl_random),
                                         seed_stream, get,        get_double};

/* Both must be the same number, or NaN. */
#define assert_same(a, b)                                                  \
    do {                                                                   \
        const double x_ = (a), y_ = (b);                                   \
        if (memcmp(&x_, &y_, sizeof x_) != 0 && !(isnan(x_) && isnan(y_))) \
            fail_msg("%s = %.17g is not %s = %.17g", #a, x_, #b, y_);      \
    } while (0)

#define assert_near(a, b, frac)                                            \
    do {                                                                   \
        const double x_ = (a), y_ = (b);                                   \
        if (!(fabs(x_ - y_) <= (frac)*fabs(y_)))                           \
            fail_msg("%s = %.17g is not near %s = %.17g", #a, x_, #b, y_); \
    } while (0)

/* Shapes below 1 use a different method. The ziggurat leaves the fast path once in 70 draws, and
 * reaches its tail once in 3,000. */
static void draws_are_those_of_gsl(void **state DL_UNUSED)
{
    static const double shapes[] = {0.04, 0.5, 1, 1 / (0.3 * 0.3), 1e4};
    gsl_rng *rng = gsl_rng_alloc(&stream_type);
    dl_random stream;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        gsl_rng_set(rng, 9 + k);
        dl_random_init(&stream, 9 + k, 0, 0, 0);
        for (int i = 0; i < 100000; i++) {
            assert_same(dl_random_gamma(&stream, shapes[k], 1 / shapes[k]),
                        gsl_ran_gamma(rng, shapes[k], 1 / shapes[k]));
        }
        for (int i = 0; i < 1000; i++) {
            assert_same(dl_random_exponential(&stream), gsl_ran_exponential(rng, 1));
            assert_same(exp(0.3 * dl_random_polar(&stream) - 0.1),
                        gsl_ran_lognormal(rng, -0.1, 0.3));
        }
        assert_int_equal(dl_random_u32(&stream), gsl_rng_get(rng));
    }
    gsl_rng_free(rng);
}

/* Numbers with ties. */
static void fill(double *values, size_t count, dl_random *stream)
{
    for (size_t i = 0; i < count; i++)
        values[i] = 1 + 1e-3 * (double)dl_random_below(stream, 4 * count) + 1 / 3.0;
}

static void statistics_are_those_of_gsl(void **state DL_UNUSED)
{
    enum { MOST = 300 };
    static const double shares[] = {0, 0.025, 0.5, 0.95, 0.975, 0.99, 1};
    double values[MOST], sorted[MOST], picked[MOST];
    float floats[MOST], sorted_floats[MOST];
    dl_random stream;
    dl_random_init(&stream, 1, 0, 0, 0);
    for (size_t count = 1; count <= MOST; count++) {
        fill(values, count, &stream);
        assert_near(dl_mean(values, count), gsl_stats_mean(values, 1, count), 2e-16);
        if (count > 1) assert_near(dl_sd(values, count), gsl_stats_sd(values, 1, count), 3e-16);
        for (size_t i = 0; i < count; i++) {
            sorted[i] = values[i];
            floats[i] = sorted_floats[i] = (float)values[i];
        }
        gsl_sort(sorted, 1, count);
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
            assert_same(dl_quantile(sorted, count, shares[i]),
                        gsl_stats_quantile_from_sorted_data(sorted, 1, count, shares[i]));
        }
        gsl_sort_float(sorted_floats, 1, count);
        assert_same(dl_median_float(floats, count),
                    (float)gsl_stats_float_median_from_sorted_data(sorted_floats, 1, count));
        for (size_t place = 0; place < count; place += 1 + count / 5) {
            memcpy(picked, values, sizeof picked);
            dl_select(picked, count, place);
            for (size_t i = 0; i < count; i++)
                assert_true(i < place ? picked[i] <= picked[place] : picked[i] >= picked[place]);
            assert_same(picked[place], sorted[place]);
        }
        dl_sort_doubles(values, count);
        assert_memory_equal(values, sorted, count * sizeof *values);
    }
}

/* The mean over 20000 pairs of samples. */
static void distances_of_equal_distributions_are_as_said(void **state DL_UNUSED)
{
    enum { PAIRS = 20000, MOST = 300 };
    static const size_t counts[][2] = {{5, 40}, {7, 40}, {12, 12}, {100, 300}};
    dl_random stream;
    dl_random_init(&stream, 2, 0, 0, 0);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const size_t n = counts[k][0], m = counts[k][1];
        double a[MOST], b[MOST], sum = 0;
        for (int pair = 0; pair < PAIRS; pair++) {
            for (size_t i = 0; i < n; i++)
                a[i] = dl_random_uniform(&stream);
            for (size_t i = 0; i < m; i++)
                b[i] = dl_random_uniform(&stream);
            dl_sort_doubles(a, n);
            dl_sort_doubles(b, m);
            sum += dl_ks_distance(a, n, b, m);
        }
        const double said = dl_ks_distance_of_equals(n, m);
        if (!(fabs(sum / PAIRS - said) < 0.02))
            fail_msg("%zu and %zu: %g, said %g", n, m, sum / PAIRS, said);
    }
}

static void distances_of_samples(void **state DL_UNUSED)
{
    const double a[] = {1, 2, 2, 3}, b[] = {2, 4}, above[] = {5, 6, 7};
    /* Shares at most 1: 1/4, 0; 2: 3/4, 1/2; 3: 1, 1/2; 4: 1, 1. */
    assert_same(dl_ks_distance(a, 4, b, 2), 0.5);
    assert_same(dl_ks_distance(b, 2, a, 4), 0.5);
    assert_same(dl_ks_distance(a, 4, a, 4), 0);
    assert_same(dl_ks_distance(a, 4, above, 3), 1);
}

static void nan_is_sorted_last(void **state DL_UNUSED)
{
    double values[40];
    for (size_t i = 0; i < 40; i++)
        values[i] = i % 3 == 0 ? (double)NAN : (double)(i * 7 % 40);
    dl_sort_doubles(values, 40);
    for (size_t i = 1; i < 26; i++)
        assert_true(values[i - 1] < values[i]);
    for (size_t i = 26; i < 40; i++)
        assert_true(isnan(values[i]));
}

static void shuffles_are_those_of_gsl(void **state DL_UNUSED)
{
    static const unsigned long seeds[] = {1, 2, 4357, 0x123456789abcdefuL, UINT32_MAX};
    enum { COUNT = 1000 };
    double ours[COUNT], theirs[COUNT];
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        for (size_t count = 1; count <= COUNT; count += 111) {
            for (size_t i = 0; i < count; i++)
                ours[i] = theirs[i] = (double)i;
            gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
            gsl_rng_set(rng, seeds[s]);
            gsl_ran_shuffle(rng, theirs, count, sizeof *theirs);
            gsl_rng_free(rng);
            dl_shuffle(ours, count, seeds[s]);
            assert_memory_equal(ours, theirs, count * sizeof *ours);
        }
    }
}

static void normal_distributions_are_those_of_gsl(void **state DL_UNUSED)
{
    for (int i = 1; i < 10000; i++)
        assert_same(dl_normal_quantile(i / 10000.0), gsl_cdf_ugaussian_Pinv(i / 10000.0));
    for (double u = 0.5; u > 1e-300; u *= 0.7) {
        assert_same(dl_normal_quantile(u), gsl_cdf_ugaussian_Pinv(u));
        assert_same(dl_normal_quantile(1 - u), gsl_cdf_ugaussian_Pinv(1 - u));
    }
    assert_true(dl_normal_quantile(0) == -INFINITY && dl_normal_quantile(1) == INFINITY);
    assert_true(isnan(dl_normal_quantile(-0.1)) && isnan(dl_normal_quantile(1.1)));
    for (int i = -3500; i <= 800; i++) {
        const double z = 0.01 * i;
        assert_near(dl_normal_below(z), gsl_cdf_ugaussian_P(z), 2e-15);
        assert_near(dl_normal_above(-z), gsl_cdf_ugaussian_Q(-z), 2e-15);
    }
}

/* With one degree of freedom the quantile is tan((u - 1/2) pi), with two 2 x / sqrt(2 - 2 x^2) with
 * x = 2 u - 1. */
static void quantiles_of_t_are_those_of_gsl(void **state DL_UNUSED)
{
    assert_near(dl_t_quantile(0.975, 1), tan(3.141592653589793 * (0.975 - 0.5)), 1e-15);
    assert_near(dl_t_quantile(0.975, 2), 2 * 0.95 / sqrt(2 - 2 * 0.95 * 0.95), 1e-15);
    for (int freedom = 1; freedom < 100; freedom++)
        assert_near(dl_t_quantile(0.975, freedom), gsl_cdf_tdist_Pinv(0.975, freedom), 1e-14);
}

/* GSL finds no quantile for some of these: all are checked with the probability below the
 * neighbouring numbers. */
static void quantiles_of_beta_are_inverse_to_gsl(void **state DL_UNUSED)
{
    static const double maxima[] = {1.05, 1.5, 4, 20}, variations[] = {0.05, 0.3, 1};
    gsl_set_error_handler_off();
    int found = 0;
    for (int k = 0; k < 12; k++) {
        const double most = maxima[k / 3], sd = variations[k % 3], m = 1 / most;
        const double v = fmax(1, (most - 1) / (sd * sd) - 1), a = m * v, b = (1 - m) * v;
        for (int i = 1; i < 1000; i++) {
            const double u = i / 1000.0, share = dl_beta_quantile(u, a, b);
            const double theirs = gsl_cdf_beta_Pinv(u, a, b);
            assert_true(gsl_cdf_beta_P(nextafter(share, 0), a, b) <= u + 1e-12);
            assert_true(gsl_cdf_beta_P(nextafter(share, 1), a, b) >= u - 1e-12);
            if (!isnan(theirs)) assert_near(share, theirs, 1e-12);
            found += !isnan(theirs);
        }
    }
    assert_true(found > 11000); /* of 11988 */
}

/* B(a, b) = (a - 1)! (b - 1)! / (a + b - 1)! */
static void log_beta_is_that_of_factorials(void **state DL_UNUSED)
{
    assert_near(dl_log_beta(1, 1) + 1, 1, 1e-15);
    assert_near(dl_log_beta(3, 4), log(2.0 * 6 / 720), 1e-15);
    assert_near(dl_log_beta(1, 1e6), -log(1e6), 1e-13);
}

typedef struct search {
    int kind, calls;
    double seen[64]; /* arguments of all calls */
} search;

static double function(double x, void *user)
{
    search *s = user;
    assert_true(s->calls < 64);
    s->seen[s->calls++] = x;
    switch (s->kind) {
    case 0: return x * x * x - 2;
    case 1: return atan(50 * (x - 0.3));
    case 2: return x < 0.7 ? -1 : 1;
    case 3: return exp(x) - 1e-3 * x - 1.1;
    default: return x; /* a root at one end */
    }
}

/* The function is called with the same arguments in the same order. */
static void roots_are_sought_as_by_gsl(void **state DL_UNUSED)
{
    static const double width = 1e-9;
    for (int kind = 0; kind < 5; kind++) {
        const double low = kind == 4 ? 0 : -1, high = 2;
        search ours = {.kind = kind}, theirs = ours;
        const double root = dl_find_root(function, &ours, low, high, width, 50);
        gsl_function of = {function, &theirs};
        gsl_root_fsolver *solver = gsl_root_fsolver_alloc(gsl_root_fsolver_brent);
        gsl_root_fsolver_set(solver, &of, low, high);
        do {
            gsl_root_fsolver_iterate(solver);
        } while (gsl_root_fsolver_x_upper(solver) - gsl_root_fsolver_x_lower(solver) >= width);
        assert_same(root, gsl_root_fsolver_root(solver));
        assert_int_equal(ours.calls, theirs.calls);
        for (int i = 0; i < ours.calls; i++)
            assert_same(ours.seen[i], theirs.seen[i]);
        gsl_root_fsolver_free(solver);
    }
}

/* Equal signs at the ends; and a function that returns NaN at both ends or inside. */
static double without_root(double x, void *user)
{
    return *(const double *)user + x * x;
}

static double nan_above_1(double x, void *user DL_UNUSED)
{
    return x == 3 ? 1 : x > 1 ? (double)NAN : -1;
}

static void without_signs_the_lower_end_is_returned(void **state DL_UNUSED)
{
    double one = 1, nan = (double)NAN;
    assert_same(dl_find_root(without_root, &one, -2, 3, 1e-9, 50), -2);
    assert_same(dl_find_root(without_root, &nan, -2, 3, 1e-9, 50), -2);
    /* The function is NaN in the middle. */
    assert_same(dl_find_root(nan_above_1, NULL, 0, 3, 1e-9, 50), 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_those_of_gsl),
        cmocka_unit_test(statistics_are_those_of_gsl),
        cmocka_unit_test(distances_of_equal_distributions_are_as_said),
        cmocka_unit_test(distances_of_samples),
        cmocka_unit_test(nan_is_sorted_last),
        cmocka_unit_test(shuffles_are_those_of_gsl),
        cmocka_unit_test(normal_distributions_are_those_of_gsl),
        cmocka_unit_test(quantiles_of_t_are_those_of_gsl),
        cmocka_unit_test(quantiles_of_beta_are_inverse_to_gsl),
        cmocka_unit_test(log_beta_is_that_of_factorials),
        cmocka_unit_test(roots_are_sought_as_by_gsl),
        cmocka_unit_test(without_signs_the_lower_end_is_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
