#include "tests/check.h"

#include "sim/noise.h"

static void numbers_are_those_of_the_stream(void **state)
{
    (void)state;
    dl_random stream;
    dl_random_init(&stream, 42, 1, 2, 3);
    dl_random_u32(&stream); /* the generator starts where the stream stands */
    gsl_rng *rng = dl_gsl_random_create(&stream);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(gsl_rng_get(rng), dl_random_u32(&stream));
        assert_true(gsl_rng_uniform(rng) == dl_random_uniform(&stream));
    }
    assert_int_equal(gsl_rng_min(rng), 0);
    assert_int_equal(gsl_rng_max(rng), UINT32_MAX);
    gsl_rng_free(rng);
}

/* GSL may seed a generator anew: then it is the stream of that seed. */
static void seeding_starts_the_stream_of_the_seed(void **state)
{
    (void)state;
    dl_random stream;
    dl_random_init(&stream, 1, 0, 0, 0);
    gsl_rng *rng = dl_gsl_random_create(&stream);
    gsl_rng_set(rng, 7);
    dl_random_init(&stream, 7, 0, 0, 0);
    assert_int_equal(gsl_rng_get(rng), dl_random_u32(&stream));
    gsl_rng_free(rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_stream),
        cmocka_unit_test(seeding_starts_the_stream_of_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
