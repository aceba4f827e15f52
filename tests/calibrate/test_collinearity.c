#include "calibrate/table/collinearity.h"

#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/near.h"

#define NEAR(actual, expected, tolerance) \
    assert_true(near_scaled((actual), (expected), 0, (tolerance)))

/* Analyses J[n x p], row-major. */
static dl_collinearity analyse(const double *jacobian, size_t n, size_t p)
{
    dl_collinearity c;
    gsl_matrix *copy = gsl_matrix_alloc(n, p);
    memcpy(copy->data, jacobian, n * p * sizeof *jacobian);
    dl_collinearity_init(&c, copy);
    gsl_matrix_free(copy);
    return c;
}

/* Orthogonal columns share nothing; each error is that of the rows over the column's length. */
static void test_orthogonal_columns(void **state DL_UNUSED)
{
    const double jacobian[] = {3, 0, 4, 0, 0, -2};
    DL_SCOPED(dl_collinearity) c = analyse(jacobian, 3, 2);
    int group[2];
    dl_collinearity_groups(&c, group);
    NEAR(dl_collinearity_condition(&c), 1, 1e-12);
    assert_int_equal(dl_collinearity_rank(&c), 2);
    NEAR(c.length[0], 5, 1e-12);
    NEAR(c.length[1], 2, 1e-12);
    NEAR(dl_collinearity_error(&c, 0), 0.2, 1e-12);
    NEAR(dl_collinearity_error(&c, 1), 0.5, 1e-12);
    assert_int_equal(group[0], 0);
    assert_int_equal(group[1], 0);
}

/* The first two columns have the given cosine, lengths 1 and 10; the third is orthogonal to
 * them. */
static dl_collinearity slanted(double cosine)
{
    const double sine = sqrt((1 - cosine) * (1 + cosine));
    const double jacobian[] = {1, 10 * cosine, 0, 0, 10 * sine, 0, 0, 0, 1};
    return analyse(jacobian, 3, 3);
}

/* Singular values are sqrt(1 + cosine), 1, sqrt(1 - cosine); (J'J)^-1 has 1 / (1 - cosine^2) for
 * both columns of length 1. With a cosine of 0.99 the condition is 14.1, with 0.999 it is 44.7. */
static void test_slanted_columns(void **state DL_UNUSED)
{
    dl_collinearity c = slanted(0.99);
    int group[3];
    dl_collinearity_groups(&c, group);
    NEAR(dl_collinearity_condition(&c), sqrt(199), 1e-9);
    NEAR(dl_collinearity_error(&c, 0), 1 / sqrt(1 - 0.99 * 0.99), 1e-9);
    NEAR(dl_collinearity_error(&c, 1), 0.1 / sqrt(1 - 0.99 * 0.99), 1e-9);
    NEAR(dl_collinearity_error(&c, 2), 1, 1e-12);
    assert_int_equal(group[0] + group[1] + group[2], 0);
    dl_collinearity_free(&c);

    c = slanted(0.999);
    dl_collinearity_groups(&c, group);
    NEAR(dl_collinearity_condition(&c), sqrt(1999), 1e-9);
    assert_int_equal(dl_collinearity_rank(&c), 3);
    assert_int_equal(group[0], 1);
    assert_int_equal(group[1], 1);
    assert_int_equal(group[2], 0);
    dl_collinearity_free(&c);
}

/* Columns parallel except for rounding: only two combinations of the three are determined. */
static void test_parallel_columns(void **state DL_UNUSED)
{
    DL_SCOPED(dl_collinearity) c = slanted(1 - 1e-10);
    assert_int_equal(dl_collinearity_rank(&c), 2);
}

/* Two columns are parallel; a third is orthogonal to them except for a rounding error of 1e-5,
 * which the singular value of 0 would amplify to almost all of its variance. */
static void test_rounding_confuses_nobody(void **state DL_UNUSED)
{
    const double jacobian[] = {1, 2, 1e-5, 1, 2 + 1e-9, 0, 0, 1e-9, 1};
    DL_SCOPED(dl_collinearity) c = analyse(jacobian, 3, 3);
    int group[3];
    dl_collinearity_groups(&c, group);
    assert_int_equal(dl_collinearity_rank(&c), 2);
    assert_int_equal(group[0], 1);
    assert_int_equal(group[1], 1);
    assert_int_equal(group[2], 0);
    NEAR(dl_collinearity_error(&c, 2), 1, 1e-3);
}

static void test_no_parameters(void **state DL_UNUSED)
{
    DL_SCOPED(dl_collinearity) none = {0};
    NEAR(dl_collinearity_condition(&none), 1, 0);
    assert_int_equal(dl_collinearity_rank(&none), 0);
    dl_collinearity_groups(&none, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orthogonal_columns), cmocka_unit_test(test_slanted_columns),
        cmocka_unit_test(test_parallel_columns),   cmocka_unit_test(test_rounding_confuses_nobody),
        cmocka_unit_test(test_no_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
