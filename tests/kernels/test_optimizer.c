/* Optimizers compared with sequences worked out by hand, updates in ranges, and errors. */
#include "common/random.h"
#include "kernels/optimizer.h"
#include "tests/check.h"
#include "tests/near.h"

static dl_optimizer *create(const char *name, double learning_rate, double momentum,
                            dl_precision precision, size_t count)
{
    const dl_optimizer_config config = {name, learning_rate, momentum};
    dl_optimizer *optimizer = NULL;
    dl_error err = {0};
    assert_int_equal(dl_optimizer_create(&optimizer, &config, precision, count, &err), DL_OK);
    return optimizer;
}

/* Applies gradients[steps] to one parameter that starts at 1 and compares it after each step. */
static void check_sequence(const char *name, double learning_rate, double momentum,
                           const double *gradients, const double *expected, int steps)
{
    dl_optimizer *twofold = create(name, learning_rate, momentum, DL_DOUBLE, 1);
    dl_optimizer *single = create(name, learning_rate, momentum, DL_FLOAT, 1);
    double p = 1;
    float q = 1;
    for (int i = 0; i < steps; i++) {
        const float gradient = (float)gradients[i];
        dl_optimizer_begin(twofold);
        dl_optimizer_apply(twofold, &p, &gradients[i], 0, 1);
        dl_optimizer_begin(single);
        dl_optimizer_apply(single, &q, &gradient, 0, 1);
        assert_true(near_scaled(p, expected[i], 1, 1e-14));
        assert_true(near_scaled((double)q, expected[i], 1, 1e-6));
    }
    dl_optimizer_destroy(twofold);
    dl_optimizer_destroy(single);
}

/* lr 0.1, g = 2, -1:  1 - 0.2 = 0.8;  0.8 + 0.1 = 0.9. */
static void sgd_descends(void **state DL_UNUSED)
{
    check_sequence("sgd", 0.1, 0, (double[]){2, -1}, (double[]){0.8, 0.9}, 2);
}

/* lr 0.1, momentum 0.5, g = 2, -1, 0:  v = 2, 0, 0;  p = 0.8, 0.8, 0.8. Then g = 4: v = 4, p = 0.4;
 * g = 0: v = 2, p = 0.2. */
static void momentum_remembers(void **state DL_UNUSED)
{
    check_sequence("sgd", 0.1, 0.5, (double[]){2, -1, 0, 4, 0}, (double[]){0.8, 0.8, 0.8, 0.4, 0.2},
                   5);
}

/* lr 0.1, rho 0.9, g = 2:  s = 0.1 * 4 = 0.4,               p = 1 - 0.2 / (sqrt 0.4 + 1e-8)
 *              then g = 1:  s = 0.36 + 0.1 = 0.46,           p -= 0.1 / (sqrt 0.46 + 1e-8) */
static void rmsprop_scales_by_the_root_mean_square(void **state DL_UNUSED)
{
    const double first = 1 - 0.2 / (sqrt(0.4) + 1e-8);
    check_sequence("rmsprop", 0.1, 0, (double[]){2, 1},
                   (double[]){first, first - 0.1 / (sqrt(0.46) + 1e-8)}, 2);
}

/* lr 0.1, g = 2:  m = 0.2, corrected by 0.1: 2;  v = 0.004, corrected by 0.001: 4;
 *                 p = 1 - 0.1 * 2 / (2 + 1e-8)
 * then g = -1:    m = 0.18 - 0.1 = 0.08, by 1 - 0.81 = 0.19;
 *                 v = 0.003996 + 0.001 = 0.004996, by 1 - 0.998001 = 0.001999 */
static void adam_corrects_its_bias(void **state DL_UNUSED)
{
    const double first = 1 - 0.1 * 2 / (2 + 1e-8);
    const double step = 0.1 * (0.08 / 0.19) / (sqrt(0.004996 / 0.001999) + 1e-8);
    check_sequence("adam", 0.1, 0, (double[]){2, -1}, (double[]){first, first - step}, 2);
}

enum { COUNT = 101 };

/* Three steps over 101 numbers in one call, and in ranges of 0, 37, 1 and 63: the same bits, also
 * in the state. Odd sizes, so that vectorised loops end differently. */
static void check_ranges(const char *name, double momentum)
{
    const size_t border[] = {0, 0, 37, 38, COUNT};
    dl_optimizer *whole = create(name, 0.01, momentum, DL_FLOAT, COUNT);
    dl_optimizer *parts = create(name, 0.01, momentum, DL_FLOAT, COUNT);
    float p[COUNT] = {0}, q[COUNT] = {0}, gradients[COUNT];
    dl_random random;
    dl_random_init(&random, 1, 0, 0, 0);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < COUNT; i++)
            gradients[i] = (float)dl_random_normal(&random);
        dl_optimizer_begin(whole);
        dl_optimizer_apply(whole, p, gradients, 0, COUNT);
        dl_optimizer_begin(parts);
        for (int i = 0; i < 4; i++) {
            dl_optimizer_apply(parts, q, gradients, border[i], border[i + 1] - border[i]);
        }
    }
    assert_memory_equal(p, q, sizeof p);
    size_t count, same_count;
    const void *state = dl_optimizer_state(whole, &count);
    const void *same = dl_optimizer_state(parts, &same_count);
    assert_int_equal(count, same_count);
    if (count > 0) assert_memory_equal(state, same, count * sizeof(float));
    dl_optimizer_destroy(whole);
    dl_optimizer_destroy(parts);
}

static void ranges_equal_the_whole(void **state DL_UNUSED)
{
    check_ranges("sgd", 0);
    check_ranges("sgd", 0.9);
    check_ranges("rmsprop", 0);
    check_ranges("adam", 0);
}

/* Vectors of state: none, momentum, mean square, two moments; initially all 0, and after one step
 * with g = 1: v = 1; s = 0.1; m = 0.1 in the first half and 0.001 in the second. */
static void state_is_one_flat_vector(void **state DL_UNUSED)
{
    const struct {
        const char *name;
        double momentum;
        size_t count;
        double expected[4];
    } cases[] = {{"sgd", 0, 0, {0}},
                 {"sgd", 0.5, 2, {1, 1}},
                 {"rmsprop", 0, 2, {0.1, 0.1}},
                 {"adam", 0, 4, {0.1, 0.1, 0.001, 0.001}}};
    for (int i = 0; i < 4; i++) {
        dl_optimizer *optimizer = create(cases[i].name, 0.1, cases[i].momentum, DL_DOUBLE, 2);
        double p[2] = {0}, gradients[2] = {1, 1};
        size_t count = 99;
        const double *values = dl_optimizer_state(optimizer, &count);
        assert_int_equal(count, cases[i].count);
        assert_int_equal(values == NULL, count == 0);
        for (size_t k = 0; k < count; k++)
            assert_true(near_scaled(values[k], 0, 0, 0));
        dl_optimizer_begin(optimizer);
        dl_optimizer_apply(optimizer, p, gradients, 0, 2);
        for (size_t k = 0; k < count; k++) {
            assert_true(near_scaled(values[k], cases[i].expected[k], 0, 1e-14));
        }
        dl_optimizer_destroy(optimizer);
    }
    dl_optimizer_destroy(NULL);
}

static void check_refused(const char *name, double learning_rate, double momentum, dl_status status,
                          const char *text)
{
    const dl_optimizer_config config = {name, learning_rate, momentum};
    dl_optimizer *optimizer = NULL;
    dl_error err = {0};
    assert_int_equal(dl_optimizer_create(&optimizer, &config, DL_FLOAT, 1, &err), status);
    assert_contains(err.text, text);
    assert_null(optimizer);
}

static void bad_configurations_are_refused(void **state DL_UNUSED)
{
    check_refused("adams", 0.1, 0, DL_ERR_NAME, "did you mean 'adam'");
    check_refused("sgd", 0, 0, DL_ERR_RANGE, "learning rate 0");
    check_refused("sgd", (double)NAN, 0, DL_ERR_RANGE, "learning rate");
    check_refused("sgd", (double)INFINITY, 0, DL_ERR_RANGE, "learning rate");
    check_refused("sgd", 0.1, 1, DL_ERR_RANGE, "momentum 1");
    check_refused("sgd", 0.1, -0.1, DL_ERR_RANGE, "momentum");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_descends),
        cmocka_unit_test(momentum_remembers),
        cmocka_unit_test(rmsprop_scales_by_the_root_mean_square),
        cmocka_unit_test(adam_corrects_its_bias),
        cmocka_unit_test(ranges_equal_the_whole),
        cmocka_unit_test(state_is_one_flat_vector),
        cmocka_unit_test(bad_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
