#include "tests/check.h"

#include <gsl/gsl_randist.h>
#include <math.h>

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

/* Steps varied log-normally are drawn without GSL, and are bit for bit GSL's numbers: of each
 * worker's stream, one after the other. About 21 % of the points are outside of the circle and
 * drawn again. */
static void lognormal_factors_are_those_of_gsl(void **state)
{
    (void)state;
    enum { WORKERS = 3, STEPS = 1000 };
    const dl_noise_config config = {.kind = DL_NOISE_LOGNORMAL, .sigma = 0.3};
    const double variance = log1p(config.sigma * config.sigma);
    dl_noise_source source;
    dl_noise_source_init(&source, &config, 9, 4);
    for (uint32_t w = 0; w < WORKERS; w++) {
        dl_noise noise;
        dl_random stream;
        dl_noise_init(&noise, &source, w);
        dl_random_init(&stream, 9, 4, 0, w);
        gsl_rng *rng = dl_gsl_random_create(&stream);
        for (int s = 0; s < STEPS; s++)
            assert_true(dl_noise_next(&source, &noise) ==
                        gsl_ran_lognormal(rng, -variance / 2, sqrt(variance)));
        gsl_rng_free(rng);
    }
    dl_noise_source_free(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_stream),
        cmocka_unit_test(seeding_starts_the_stream_of_the_seed),
        cmocka_unit_test(lognormal_factors_are_those_of_gsl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
