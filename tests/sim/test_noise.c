#include "tests/check.h"

#include <math.h>

#include "sim/noise.h"
#include "tests/sim_fixture.h"

enum { DRAWS = 200000 };

/* Mean 1 and the coefficient of variation asked for, over 200 000 draws: the standard errors are
 * sigma / 447 and about sigma / 200 for the heaviest tail here; 5 of them. */
static void families_have_mean_one_and_their_variation(void **state)
{
    (void)state;
    static const struct {
        dl_noise_kind kind;
        double sigma, expected;
    } cases[] = {{DL_NOISE_LOGNORMAL, 0.2, 0.2},
                 {DL_NOISE_GAMMA, 0.2, 0.2},
                 {DL_NOISE_GAMMA, 1, 1},
                 {DL_NOISE_EXPONENTIAL, 0, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        dl_noise noise;
        const dl_noise_config config = {.kind = cases[c].kind, .sigma = cases[c].sigma};
        dl_noise_init(&noise, &config, 1, 0, 0);
        double sum = 0, squares = 0;
        for (int i = 0; i < DRAWS; i++) {
            double factor = dl_noise_next(&noise);
            assert_true(factor > 0);
            sum += factor;
            squares += factor * factor;
        }
        double mean = sum / DRAWS, sd = sqrt(squares / DRAWS - mean * mean);
        assert_near(mean, 1, 5 * cases[c].expected / 447);
        assert_near(sd, cases[c].expected, 0.025);
        dl_noise_free(&noise);
        dl_noise_free(&noise);
    }
}

/* 50 factors a series: series s has `level` s + 1, times 1..50 or all the same. */
static dl_noise_set make_set(float *factors, dl_noise_series *series, size_t runs, size_t copies,
                             bool rising)
{
    for (size_t s = 0; s < runs * copies; s++) {
        series[s] = (dl_noise_series){.factors = factors + 50 * s, .count = 50};
        for (size_t i = 0; i < 50; i++)
            series[s].factors[i] = (float)((s + 1) * (rising ? i + 1 : 1));
        dl_noise_series_finish(&series[s]);
    }
    return (dl_noise_set){.copies = copies, .run_count = runs, .series = series};
}

/* A replicate has the level of one run, all runs come up, and worker w takes copy w of it. */
static void trace_keeps_the_levels_of_runs_and_copies(void **state)
{
    (void)state;
    float factors[50 * 6];
    dl_noise_series series[6];
    const dl_noise_set set = make_set(factors, series, 3, 2, false);
    const dl_noise_config config = {.kind = DL_NOISE_TRACE, .set = &set};
    int times[3] = {0};
    for (uint32_t replicate = 0; replicate < 30; replicate++) {
        int run[3];
        for (uint32_t worker = 0; worker < 3; worker++) {
            dl_noise noise;
            dl_noise_init(&noise, &config, 1, replicate, worker);
            const double level = dl_noise_next(&noise);
            for (int i = 0; i < 200; i++)
                assert_near(dl_noise_next(&noise), level, 1e-6);
            int from = (int)lround(level) - 1;
            assert_int_equal(from % 2, worker % 2);
            run[worker] = from / 2;
            dl_noise_free(&noise);
        }
        assert_true(run[0] == run[1] && run[1] == run[2]);
        times[run[0]]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(times[i], 9, 11);
}

/* What happens within runs is shared by all of them: one factor in 150 is 100 times the level, and
 * comes up that often whichever run gives the level. A block of 20 has it at most once, so 200 000
 * draws have it about 1333 times with a standard error of about the root of that: 5 of them. */
static void trace_pools_what_happens_within_runs(void **state)
{
    (void)state;
    float factors[50 * 3];
    dl_noise_series series[3];
    dl_noise_set set = make_set(factors, series, 3, 1, false);
    factors[60] = 200; /* in the run of level 2 */
    const dl_noise_config config = {.kind = DL_NOISE_TRACE, .set = &set};
    for (uint32_t replicate = 0; replicate < 5; replicate++) {
        dl_noise noise;
        dl_noise_init(&noise, &config, 1, replicate, 0);
        int large = 0;
        for (int i = 0; i < DRAWS; i++)
            large += dl_noise_next(&noise) > 50;
        assert_near(large, DRAWS / 150.0, 5 * sqrt(DRAWS / 150.0));
        dl_noise_free(&noise);
    }
}

/* Factors 1..50: within a block each draw is its predecessor's successor (50 is followed by 1), and
 * a new block starts each DL_NOISE_BLOCK draws, at places that cover the list. */
static void trace_comes_in_blocks(void **state)
{
    (void)state;
    float factors[50];
    bool started[51] = {false};
    dl_noise_series series;
    const dl_noise_set set = make_set(factors, &series, 1, 1, true);
    dl_noise noise;
    const dl_noise_config config = {.kind = DL_NOISE_TRACE, .set = &set};
    dl_noise_init(&noise, &config, 1, 0, 3);
    int last = 0, count = 0;
    for (int i = 0; i < 1000 * DL_NOISE_BLOCK; i++) {
        int factor = (int)lround(dl_noise_next(&noise));
        if (i % DL_NOISE_BLOCK == 0) {
            count += !started[factor];
            started[factor] = true;
        } else {
            assert_int_equal(factor, last % 50 + 1);
        }
        last = factor;
    }
    assert_int_equal(count, 50);
    dl_noise_free(&noise);
}

static void none_is_one(void **state)
{
    (void)state;
    dl_noise noise;
    const dl_noise_config config = {.kind = DL_NOISE_NONE};
    dl_noise_init(&noise, &config, 1, 0, 0);
    assert_true(dl_noise_next(&noise) == 1);
    dl_noise_free(&noise);
}

/* Equal names give equal numbers; another seed, replicate or worker gives others. */
static void streams_are_named(void **state)
{
    (void)state;
    static const uint32_t names[][3] = {{1, 0, 0}, {1, 0, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}};
    double first[5];
    for (int i = 0; i < 5; i++) {
        dl_noise noise;
        const dl_noise_config config = {.kind = DL_NOISE_EXPONENTIAL};
        dl_noise_init(&noise, &config, names[i][0], names[i][1], names[i][2]);
        first[i] = dl_noise_next(&noise);
        dl_noise_free(&noise);
    }
    assert_true(first[0] == first[1]);
    for (int i = 2; i < 5; i++)
        assert_true(first[i] != first[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_mean_one_and_their_variation),
        cmocka_unit_test(trace_keeps_the_levels_of_runs_and_copies),
        cmocka_unit_test(trace_pools_what_happens_within_runs),
        cmocka_unit_test(trace_comes_in_blocks),
        cmocka_unit_test(none_is_one),
        cmocka_unit_test(streams_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
