#include "tests/check.h"

#include <math.h>

#include "sim/noise.h"
#include "tests/sim_fixture.h"

enum { DRAWS = 200000 };

/* Noise of a replicate with one worker. */
typedef struct one_stream {
    dl_noise_source source;
    dl_noise noise;
} one_stream;

static void start(one_stream *s, const dl_noise_config *config, uint64_t seed, uint32_t replicate,
                  uint32_t worker)
{
    dl_noise_source_init(&s->source, config, seed, replicate);
    dl_noise_init(&s->noise, &s->source, worker);
}

static double next(one_stream *s)
{
    return dl_noise_next(&s->source, &s->noise);
}

static double next_work(one_stream *s)
{
    return dl_noise_next_work(&s->source, &s->noise);
}

/* Mean 1 and the requested coefficient of variation, over 200 000 draws: the standard errors are
 * sigma / 447 and about sigma / 200 for the heaviest tail here; the tolerance is 5 of them. */
static void families_have_mean_one_and_their_variation(void **state DL_UNUSED)
{
    static const struct {
        dl_noise_kind kind;
        double sigma, expected;
    } cases[] = {{DL_NOISE_LOGNORMAL, 0.2, 0.2},
                 {DL_NOISE_GAMMA, 0.2, 0.2},
                 {DL_NOISE_GAMMA, 1, 1},
                 {DL_NOISE_EXPONENTIAL, 0, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        one_stream noise;
        const dl_noise_config config = {.kind = cases[c].kind, .sigma = cases[c].sigma};
        start(&noise, &config, 1, 0, 0);
        double sum = 0, squares = 0;
        for (int i = 0; i < DRAWS; i++) {
            double factor = next(&noise);
            assert_true(factor > 0);
            sum += factor;
            squares += factor * factor;
        }
        double mean = sum / DRAWS, sd = sqrt(squares / DRAWS - mean * mean);
        assert_near(mean, 1, 5 * cases[c].expected / 447);
        assert_near(sd, cases[c].expected, 0.025);
    }
}

/* Makes series of 50 factors each: series s has `level` s + 1, times 1..50 or a constant. */
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

/* A replicate has the level of one run, all runs are used, and worker w uses copy w of the run. */
static void trace_keeps_the_levels_of_runs_and_copies(void **state DL_UNUSED)
{
    float factors[50 * 6];
    dl_noise_series series[6];
    const dl_noise_set set = make_set(factors, series, 3, 2, false);
    const dl_noise_config config = {.kind = DL_NOISE_TRACE, .set = &set};
    int times[3] = {0};
    for (uint32_t replicate = 0; replicate < 30; replicate++) {
        int run[3];
        for (uint32_t worker = 0; worker < 3; worker++) {
            one_stream noise;
            start(&noise, &config, 1, replicate, worker);
            const double level = next(&noise);
            for (int i = 0; i < 200; i++)
                assert_near(next(&noise), level, 1e-6);
            int from = (int)lround(level) - 1;
            assert_int_equal(from % 2, worker % 2);
            run[worker] = from / 2;
        }
        assert_true(run[0] == run[1] && run[1] == run[2]);
        times[run[0]]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(times[i], 9, 11);
}

/* Variation within runs is pooled over all runs: one factor in 150 is 100 times the level, and is
 * drawn that often whichever run gives the level. A block of 20 has it at most once, so 200 000
 * draws have it about 1333 times, with a standard error of about the square root of that; the
 * tolerance is 5 of them. */
static void trace_pools_what_happens_within_runs(void **state DL_UNUSED)
{
    float factors[50 * 3];
    dl_noise_series series[3];
    dl_noise_set set = make_set(factors, series, 3, 1, false);
    factors[60] = 200; /* in the run with level 2 */
    const dl_noise_config config = {.kind = DL_NOISE_TRACE, .set = &set};
    for (uint32_t replicate = 0; replicate < 5; replicate++) {
        one_stream noise;
        start(&noise, &config, 1, replicate, 0);
        int large = 0;
        for (int i = 0; i < DRAWS; i++)
            large += next(&noise) > 50;
        assert_near(large, DRAWS / 150.0, 5 * sqrt(DRAWS / 150.0));
    }
}

/* Factors 1..50: within a block each draw is followed by its successor (50 by 1), and a new block
 * starts every DL_NOISE_BLOCK draws, at positions that cover the list. */
static void trace_comes_in_blocks(void **state DL_UNUSED)
{
    float factors[50];
    bool started[51] = {false};
    dl_noise_series series;
    const dl_noise_set set = make_set(factors, &series, 1, 1, true);
    one_stream noise;
    const dl_noise_config config = {.kind = DL_NOISE_TRACE, .set = &set};
    start(&noise, &config, 1, 0, 3);
    int last = 0, count = 0;
    for (int i = 0; i < 1000 * DL_NOISE_BLOCK; i++) {
        int factor = (int)lround(next(&noise));
        if (i % DL_NOISE_BLOCK == 0) {
            count += !started[factor];
            started[factor] = true;
        } else {
            assert_int_equal(factor, last % 50 + 1);
        }
        last = factor;
    }
    assert_int_equal(count, 50);
}

static void none_is_one(void **state DL_UNUSED)
{
    one_stream noise;
    const dl_noise_config config = {.kind = DL_NOISE_NONE};
    start(&noise, &config, 1, 0, 0);
    assert_true(next(&noise) == 1);
}

/* Equal names give equal numbers; another seed, replicate or worker gives others. */
static void streams_are_named(void **state DL_UNUSED)
{
    static const uint32_t names[][3] = {{1, 0, 0}, {1, 0, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}};
    double first[5];
    for (int i = 0; i < 5; i++) {
        one_stream noise;
        const dl_noise_config config = {.kind = DL_NOISE_EXPONENTIAL};
        start(&noise, &config, names[i][0], names[i][1], names[i][2]);
        first[i] = next(&noise);
    }
    assert_true(first[0] == first[1]);
    for (int i = 2; i < 5; i++)
        assert_true(first[i] != first[0]);
}

/* The first timer tick (stream 1 of worker 0) and absences (stream 2) are independent of worker 0's
 * work. */
static void work_has_a_random_stream_of_its_own(void **state DL_UNUSED)
{
    const dl_noise_config config = {.kind = DL_NOISE_WORK, .work = {.sd = 0.3}};
    one_stream noise;
    start(&noise, &config, 7, 3, 0);
    const double work = next_work(&noise);
    for (uint32_t point = 0; point < 3; point++) {
        dl_random stream;
        dl_random_init(&stream, 7, 3, point, 0);
        const double other = dl_work_quantile(&config.work, dl_random_uniform(&stream));
        assert_true(fabs(work - other) > 1e-9);
    }
}

/* The maximum of n uniform numbers is n / (n + 1) on average: work that is uniform over 0 to 2 is
 * the beta distribution with both shapes 1 on [0, 2], with variance 1/3. */
static void bounded_work_has_its_maximum(void **state DL_UNUSED)
{
    const dl_work_spread even = {.sd = sqrt(1.0 / 3), .maximum = 2};
    assert_float_equal(dl_work_quantile(&even, 0.25), 0.5, 1e-9);
    for (size_t n = 1; n <= 64; n *= 4) {
        double scores[64], mean = 0;
        dl_work_expected(&even, scores, n);
        for (size_t i = 0; i < n; i++)
            mean += scores[i] / (double)n;
        assert_float_equal(mean, 1, 1e-9);
        assert_float_equal(scores[0], 2 / ((double)n + 1), 1e-3);
        assert_float_equal(scores[n - 1], 2 * (double)n / ((double)n + 1), 1e-3);
    }
    /* No variance exceeds that of a distribution on 0 and the maximum. */
    const dl_work_spread wide = {.sd = 3, .maximum = 2};
    assert_true(dl_work_quantile(&wide, 0.999999) <= 2 && dl_work_quantile(&wide, 1e-6) >= 0);
    /* Narrow or wide, all expected values are numbers in ascending order. */
    for (double sd = 1e-7; sd < 2; sd *= 3) {
        const dl_work_spread any = {.sd = sd, .maximum = 1.65};
        double scores[16];
        dl_work_expected(&any, scores, 16);
        for (int i = 0; i < 16; i++)
            assert_true(scores[i] >= (i > 0 ? scores[i - 1] : 0) && scores[i] <= 1.65);
    }
}

/* Lognormal work: quantiles of exp(z s - s^2 / 2); for two workers, E max = 2 Phi(s / sqrt 2)
 * (Clark 1961 for equal lognormal means). */
static void lognormal_work_has_no_maximum(void **state DL_UNUSED)
{
    const double s = 0.4;
    const dl_work_spread work = {.sd = sqrt(exp(s * s) - 1)};
    assert_float_equal(dl_work_quantile(&work, 0.5), exp(-s * s / 2), 1e-9);
    double scores[2];
    dl_work_expected(&work, scores, 2);
    assert_float_equal(scores[1], 2 * 0.5 * erfc(-s / 2), 1e-3);
}

/* Without noise each worker gets each expected value once in as many steps as there are workers,
 * and each step uses all values; if drawn, workers and steps differ, with the requested mean and
 * spread. */
static void work_is_dealt_or_drawn(void **state DL_UNUSED)
{
    enum { WORKERS = 6, STEPS = 6, FEW = 20000 };
    const double expected[WORKERS] = {0.5, 0.7, 0.9, 1.1, 1.3, 1.5};
    const dl_work_spread work = {.sd = 0.35, .maximum = 2};
    double dealt[WORKERS][STEPS];
    for (int w = 0; w < WORKERS; w++) {
        const dl_noise_config config = {
            .kind = DL_NOISE_NONE, .work = work, .expected = expected, .workers = WORKERS};
        one_stream noise;
        start(&noise, &config, 1, 0, (uint32_t)w);
        double sum = 0;
        for (int s = 0; s < STEPS; s++)
            sum += dealt[w][s] = next_work(&noise);
        assert_float_equal(sum, WORKERS, 1e-9);
    }
    for (int s = 0; s < STEPS; s++) {
        double sum = 0, product = 1;
        for (int w = 0; w < WORKERS; w++) {
            sum += dealt[w][s];
            product *= dealt[w][s];
        }
        assert_float_equal(sum, WORKERS, 1e-9);
        assert_float_equal(product, 0.5 * 0.7 * 0.9 * 1.1 * 1.3 * 1.5, 1e-9);
    }
    const dl_noise_config config = {.kind = DL_NOISE_WORK, .work = work};
    one_stream first, second;
    start(&first, &config, 1, 0, 0);
    start(&second, &config, 1, 0, 1);
    double sum = 0, squares = 0, product = 0;
    for (int i = 0; i < FEW; i++) {
        const double a = next_work(&first) - 1, b = next_work(&second) - 1;
        assert_true(a > -1 && a <= 1);
        sum += a;
        squares += a * a;
        product += a * b;
    }
    assert_float_equal(sum / FEW, 0, 0.01);
    assert_float_equal(sqrt(squares / FEW), 0.35, 0.01);
    assert_float_equal(product / FEW, 0, 0.004); /* workers are independent */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_has_a_random_stream_of_its_own),
        cmocka_unit_test(bounded_work_has_its_maximum),
        cmocka_unit_test(lognormal_work_has_no_maximum),
        cmocka_unit_test(work_is_dealt_or_drawn),
        cmocka_unit_test(families_have_mean_one_and_their_variation),
        cmocka_unit_test(trace_keeps_the_levels_of_runs_and_copies),
        cmocka_unit_test(trace_pools_what_happens_within_runs),
        cmocka_unit_test(trace_comes_in_blocks),
        cmocka_unit_test(none_is_one),
        cmocka_unit_test(streams_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
