/* Time to a target: factors on samples by interval, staleness and mode, compared with values worked
 * out by hand. */
#include <math.h>

#include "sim/target.h"
#include "tests/sim_fixture.h"

static dl_target_factor factors[8];

static dl_target target_of(const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dl_error err = {0};
        if (dl_target_read_factor(&factors[i], texts[i], &err) != DL_OK) fail_msg("%s", err.text);
    }
    return (dl_target){.samples = 1000, .factors = factors, .count = count};
}

static double of(const dl_target *target, double interval, double staleness)
{
    return dl_target_factor_of(target, &dl_mode_average, interval, staleness);
}

/* 16 is halfway from 4 to 64 in the logarithm: (1.1 + 1.5) / 2. 2 is halfway from 1 to 4. */
static void intervals_are_interpolated_by_their_logarithm(void **state DL_UNUSED)
{
    static const char *const texts[] = {"interval 64:1.5", "interval 4: 1.1"};
    const dl_target target = target_of(texts, 2);
    assert_near(of(&target, 1, NAN), 1, 0);
    assert_near(of(&target, 2, NAN), 1.05, 1e-12);
    assert_near(of(&target, 4, NAN), 1.1, 0);
    assert_near(of(&target, 16, NAN), 1.3, 1e-12);
    assert_near(of(&target, 64, NAN), 1.5, 0);
    assert_true(isnan(of(&target, 65, NAN)));
    assert_true(isnan(of(&target, 4, 0.5)));
}

/* Halfway from 0 to 3 the factor is 1.25; it is multiplied by that of the interval. */
static void staleness_multiplies(void **state DL_UNUSED)
{
    static const char *const texts[] = {"staleness 3:1.5", "interval 4:2", "interval 1:1.2"};
    const dl_target target = target_of(texts, 3);
    assert_near(of(&target, 1, 0), 1.2, 0);
    assert_near(of(&target, 1, 1.5), 1.2 * 1.25, 1e-12);
    assert_near(of(&target, 4, 1.5), 2 * 1.25, 1e-12);
    assert_true(isnan(of(&target, 4, 3.1)));
}

static void a_mode_has_its_own(void **state DL_UNUSED)
{
    static const char *const texts[] = {"interval 4:2", "async:1.7"};
    const dl_target target = target_of(texts, 2), none = {.samples = 1};
    assert_near(dl_target_factor_of(&target, &dl_mode_async, 1, 15), 1.7, 0);
    assert_near(of(&target, 4, NAN), 2, 0);
    assert_near(of(&none, 1, NAN), 1, 0);
    assert_true(isnan(of(&none, 2, NAN)));
    assert_true(isnan(dl_target_factor_of(&none, &dl_mode_async, 1, 1)));
}

static void errors_name_the_words(void **state DL_UNUSED)
{
    static const struct {
        const char *text;
        dl_status status;
        const char *says;
    } cases[] = {
        {"interval 16", DL_ERR_PARSE, "has no factor, as interval 16:1.05"},
        {"interval 0.5:2", DL_ERR_RANGE, ""},
        {"interval x:2", DL_ERR_PARSE, ""},
        {"async:0", DL_ERR_RANGE, ""},
        {"asynch:2", DL_ERR_NAME, "nor a mode; did you mean 'async'?"},
        {"intervall:2", DL_ERR_NAME, "did you mean 'interval'?"},
    };
    for (size_t i = 0; i < DL_LENGTH(cases); i++) {
        dl_target_factor factor;
        dl_error err = {0};
        assert_int_equal(dl_target_read_factor(&factor, cases[i].text, &err), cases[i].status);
        if (strstr(err.text, cases[i].says) == NULL) fail_msg("%s: %s", cases[i].text, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_are_interpolated_by_their_logarithm),
        cmocka_unit_test(staleness_multiplies),
        cmocka_unit_test(a_mode_has_its_own),
        cmocka_unit_test(errors_name_the_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
