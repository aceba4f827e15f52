#include "tests/check.h"

#include <gsl/gsl_errno.h>
#include <math.h>

#include "calibrate/evaluate/evaluate.h"
#include "calibrate/links/links.h"

/* The faster of two protocols: 10 us + S at 1 GB/s up to 1 MB, then 1 ms + S at 50 GB/s (equal at
 * 1.0102 MB). */
static double two_protocols_ns(double bytes)
{
    return fmin(10e3 + bytes, 1e6 + bytes / 50);
}

/* Fills sizes 1 kB, 2 kB, 4 kB, ... with an error of +-0.5 % of irregular sign. */
static void sample(dl_link_point *points, size_t n, double (*time_ns)(double bytes))
{
    for (size_t i = 0; i < n; i++) {
        const double bytes = 1000 * pow(2, (double)i);
        const double noise = (i * 7 + 3) % 5 < 2 ? 0.005 : -0.005;
        points[i] = (dl_link_point){.bytes = bytes,
                                    .time_ns = time_ns(bytes) * (1 + noise),
                                    .count = 1,
                                    .line = (int)i + 1};
    }
}

static void two_protocols_are_two_regimes(void **state DL_UNUSED)
{
    dl_link_point points[20];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    sample(points, 20, two_protocols_ns);
    assert_int_equal(dl_link_fit_run(&fit, points, 20, &err), DL_OK);
    assert_int_equal(fit.regime_count, 2);
    assert_int_equal(fit.regimes[0].last, 9); /* 512 kB */
    assert_true(fabs(fit.regimes[0].latency_ns.value - 10e3) < 3 * fit.regimes[0].latency_ns.error);
    assert_true(fabs(fit.regimes[1].ns_per_byte.value - 0.02) <
                3 * fit.regimes[1].ns_per_byte.error);
    /* The lines cross between 512 kB and 1.024 MB. */
    assert_true(fit.regimes[0].high_bytes > 512e3 && fit.regimes[0].high_bytes < 1.024e6);
    assert_true(fit.regimes[1].low_bytes == fit.regimes[0].high_bytes);
    assert_true(isinf(fit.regimes[1].high_bytes));
    for (double bytes = 0; bytes < 1e9; bytes = 3 * bytes + 1) {
        const double expected = two_protocols_ns(bytes);
        assert_true(fabs(dl_link_fit_time_ns(&fit, bytes) - expected) < 0.03 * expected);
    }
}

/* 80 B/ns for 32 and 64 MB, 370 B/ns from 512 MB; 128 and 256 MB take 750 us + S / 2000: no size
 * exceeds 370 B/ns. */
static void a_change_of_protocol_has_no_bandwidth(void **state DL_UNUSED)
{
    dl_link_point points[10];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    for (size_t i = 0; i < 10; i++) {
        const double bytes = ldexp(32e6, (int)i);
        const double ns = i < 2 ? bytes / 80 : i < 4 ? 750e3 + bytes / 2000 : bytes / 370;
        points[i] = (dl_link_point){.bytes = bytes, .time_ns = ns, .count = 1, .line = (int)i + 1};
    }
    assert_int_equal(dl_link_fit_run(&fit, points, 10, &err), DL_OK);
    assert_int_equal(fit.regime_count, 3);
    assert_int_equal(fit.regimes[1].first, 2);
    assert_int_equal(fit.regimes[1].last, 3);
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(fit.regimes[k].changes, k == 1);
    assert_true(fabs(fit.fastest_per_s / 370e9 - 1) < 1e-3);
}

static double one_line_ns(double bytes)
{
    return 5e3 + bytes / 10;
}

static void one_line_is_one_regime_and_a_wrong_point_is_named(void **state DL_UNUSED)
{
    dl_link_point points[16];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    sample(points, 16, one_line_ns);
    points[6].time_ns *= 1.4;
    assert_int_equal(dl_link_fit_run(&fit, points, 16, &err), DL_OK);
    assert_int_equal(fit.regime_count, 1);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(fit.outlier[i], i == 6);
    assert_true(fabs(fit.residual[6] + 0.286) < 0.01);
    assert_true(fabs(fit.regimes[0].latency_ns.value - 5e3) < 50);
    assert_true(fit.regimes[0].latency_determined && fit.regimes[0].bandwidth_determined);
}

/* Ten sizes on one line with an irregular scatter of up to 35 %. */
static void scatter_is_no_regime(void **state DL_UNUSED)
{
    static const double off[] = {0.25, -0.31, 0.12, 0.34, -0.22, -0.28, 0.30, 0.05, -0.33, 0.18};
    dl_link_point points[10];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    for (size_t i = 0; i < 10; i++) {
        const double bytes = 1000 * pow(4, (double)i);
        points[i] = (dl_link_point){bytes, one_line_ns(bytes) * (1 + off[i]), 0, 1, (int)i + 1, 0};
    }
    assert_int_equal(dl_link_fit_run(&fit, points, 10, &err), DL_OK);
    assert_int_equal(fit.regime_count, 1);
    assert_true(fit.noise_frac > 0.15 && fit.noise_frac < 0.6);
    /* The line's error is about the scatter over the square root of five. */
    const dl_link_regime *r = &fit.regimes[0];
    assert_true(fabs(r->latency_ns.value - 5e3) < 2 * r->latency_ns.error);
    assert_true(r->latency_ns.error > 0.05 * r->latency_ns.value);
    assert_true(fabs(r->ns_per_byte.value - 0.1) < 2 * r->ns_per_byte.error);
}

/* The noise is that of most points; a line's errors grow with additional scatter: here four of ten
 * points deviate four times as much, and none is left out. */
static void errors_grow_with_the_scatter(void **state DL_UNUSED)
{
    static const double even[] = {1, -1, 1, -1, -1, 1, 1, -1, 1, -1};
    static const double wide[] = {1, -4, 1, 4, -1, -4, 1, 4, -1, -1};
    double error[2];
    for (int w = 0; w < 2; w++) {
        dl_link_point points[20];
        DL_SCOPED(dl_link_fit) fit = {0};
        dl_error err = {0};
        for (size_t i = 0; i < 20; i++) {
            const double bytes = 1000 * pow(2, (double)i);
            const double off = 0.03 * (w == 0 ? even : wide)[i % 10];
            points[i] = (dl_link_point){bytes, one_line_ns(bytes) * (1 + off), 0, 1, (int)i + 1, 0};
        }
        assert_int_equal(dl_link_fit_run(&fit, points, 20, &err), DL_OK);
        assert_int_equal(fit.regime_count, 1);
        error[w] = fit.regimes[0].ns_per_byte.error / fit.noise_frac;
        /* At 524 MB the slope dominates: the curve's error is the slope's error times the bytes. */
        const dl_link_vertex *last = &fit.vertices[fit.vertex_count - 1];
        assert_true(last->bytes == points[19].bytes);
        assert_true(fabs(last->error_ns / (fit.regimes[0].ns_per_byte.error * last->bytes) - 1) <
                    0.01);
    }
    assert_true(error[1] > 1.05 * error[0]);
}

/* Times exactly on a line are still assumed to repeat within DL_LINK_REPEAT_FRAC. With w = 1 /
 * (that fraction of the time)^2 and sums S over the sizes x, the variance of the slope is S(w) /
 * (S(w) S(w x^2) - S(w x)^2), that of the latency S(w x^2) / (the same). */
static void errors_are_no_less_than_those_of_repeats(void **state DL_UNUSED)
{
    dl_link_point points[12];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    double s = 0, sx = 0, sxx = 0;
    for (size_t i = 0; i < 12; i++) {
        const double bytes = 1000 * pow(2, (double)i), time_ns = one_line_ns(bytes);
        const double w = pow(DL_LINK_REPEAT_FRAC * time_ns, -2);
        points[i] = (dl_link_point){bytes, time_ns, 0, 1, (int)i + 1, 0};
        s += w;
        sx += w * bytes;
        sxx += w * bytes * bytes;
    }
    assert_int_equal(dl_link_fit_run(&fit, points, 12, &err), DL_OK);
    assert_int_equal(fit.regime_count, 1);
    assert_true(fit.noise_frac == DL_LINK_REPEAT_FRAC);
    const double determinant = s * sxx - sx * sx;
    assert_true(fabs(fit.regimes[0].ns_per_byte.error / sqrt(s / determinant) - 1) < 1e-3);
    assert_true(fabs(fit.regimes[0].latency_ns.error / sqrt(sxx / determinant) - 1) < 1e-3);
}

static double below_zero_ns(double bytes)
{
    return bytes - 300;
}

/* A latency is never negative: the line then goes through 0. */
static void no_latency_is_negative(void **state DL_UNUSED)
{
    dl_link_point points[12];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    sample(points, 12, below_zero_ns);
    assert_int_equal(dl_link_fit_run(&fit, points, 12, &err), DL_OK);
    assert_true(fit.regimes[0].latency_ns.value == 0);
    assert_true(fit.regimes[0].ns_per_byte.value > 0.7 && fit.regimes[0].ns_per_byte.value < 1);
}

/* Up to 50 kB all sizes take 30 us, beyond that 1 ns per byte less 20 us. */
static double knee_ns(double bytes)
{
    return fmax(30e3, bytes - 20e3);
}

/* A later line's latency is its extrapolated intercept, which may be negative. */
static void a_later_line_may_begin_below_zero(void **state DL_UNUSED)
{
    dl_link_point points[16];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    sample(points, 16, knee_ns);
    assert_int_equal(dl_link_fit_run(&fit, points, 16, &err), DL_OK);
    assert_int_equal(fit.regime_count, 2);
    assert_true(fabs(fit.regimes[1].latency_ns.value + 20e3) < 3 * fit.regimes[1].latency_ns.error);
    assert_true(fit.regimes[1].latency_ns.error < 2e3);
    assert_true(fabs(dl_link_fit_time_ns(&fit, 64e3) / 44e3 - 1) < 0.02);
}

static double flat_ns(double bytes)
{
    return 30e3 + 0 * bytes;
}

static double steep_ns(double bytes)
{
    return 1 + bytes;
}

static void what_sizes_do_not_tell_is_said(void **state DL_UNUSED)
{
    dl_link_point points[12];
    dl_link_fit fit = {0};
    dl_error err = {0};
    sample(points, 12, flat_ns);
    assert_int_equal(dl_link_fit_run(&fit, points, 12, &err), DL_OK);
    assert_false(fit.regimes[0].bandwidth_determined);
    dl_link_fit_free(&fit);
    sample(points, 12, steep_ns);
    assert_int_equal(dl_link_fit_run(&fit, points, 12, &err), DL_OK);
    assert_false(fit.regimes[0].latency_determined);
    assert_true(fit.regimes[0].latency_ns.value >= 0);
    dl_link_fit_free(&fit);
    assert_int_equal(dl_link_fit_run(&fit, points, 1, &err), DL_ERR_DATA);
}

/* If a time decreases with the size by more than the noise, one of the two is wrong. */
static void a_time_above_that_of_the_next_size_is_named(void **state DL_UNUSED)
{
    dl_link_point points[16];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    sample(points, 16, one_line_ns);
    points[9].time_ns = 1.2 * points[10].time_ns;
    assert_int_equal(dl_link_fit_run(&fit, points, 16, &err), DL_OK);
    assert_true(fit.outlier[9]);
}

/* One time is 100 times too short, or too long, at any size: only that size is an outlier, and the
 * line is that without it. */
static void one_wrong_time_is_the_one_that_is_named(void **state DL_UNUSED)
{
    for (size_t wrong = 0; wrong < 20; wrong++) {
        dl_link_point points[10];
        DL_SCOPED(dl_link_fit) fit = {0};
        dl_error err = {0};
        sample(points, 10, one_line_ns);
        points[wrong % 10].time_ns *= wrong < 10 ? 0.01 : 100;
        assert_int_equal(dl_link_fit_run(&fit, points, 10, &err), DL_OK);
        if (fit.regime_count != 1) fail_msg("case %zu: %zu regimes", wrong, fit.regime_count);
        for (size_t i = 0; i < 10; i++)
            if (fit.outlier[i] != (i == wrong % 10)) fail_msg("case %zu: size %zu", wrong, i);
        assert_true(fabs(fit.regimes[0].latency_ns.value - 5e3) < 60);
    }
}

/* Several sizes that take longer than the next indicate a change of protocol: the fit keeps
 * them. */
static void slow_sizes_in_a_row_are_kept(void **state DL_UNUSED)
{
    dl_link_point points[10];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    sample(points, 10, one_line_ns);
    for (size_t i = 0; i < 5; i++)
        points[i].time_ns += 50e3;
    assert_int_equal(dl_link_fit_run(&fit, points, 10, &err), DL_OK);
    assert_int_equal(fit.regime_count, 2);
    for (size_t i = 0; i < 10; i++)
        assert_true(fabs(fit.residual[i]) < 0.02);
}

/* Times printed to one digit have little weight: 0.4 for 0.35 to 0.45 does not bend the line. */
static void coarse_times_do_not_bend_the_line(void **state DL_UNUSED)
{
    dl_link_point points[12];
    DL_SCOPED(dl_link_fit) fit = {0};
    dl_error err = {0};
    sample(points, 12, one_line_ns);
    points[0].time_ns *= 1.25;
    points[0].error_frac = 0.2;
    assert_int_equal(dl_link_fit_run(&fit, points, 12, &err), DL_OK);
    assert_int_equal(fit.regime_count, 1);
    assert_false(fit.outlier[0]);
    assert_true(fabs(fit.regimes[0].latency_ns.value - 5e3) < 100);
}

static void sizes_left_out_are_judged(void **state DL_UNUSED)
{
    dl_link_point points[20];
    DL_SCOPED(dl_link_fit) all = {0};
    dl_link_evaluation j = {0};
    dl_error err = {0};
    sample(points, 20, two_protocols_ns);
    assert_int_equal(dl_link_fit_run(&all, points, 20, &err), DL_OK);
    assert_int_equal(dl_link_evaluate(&j, points, 20, 0, &all, &err), DL_OK);
    assert_int_equal(j.fit.count, 10);
    assert_true(j.fit.mean_frac < 0.02 && j.fit.max_frac < 0.06);
    assert_true(j.usual.mean_frac > 1); /* the usual formula applies the latency of large sizes to
                                         * small ones */
    assert_true(isnan(j.error_frac[0]) && !isnan(j.error_frac[1]));
    assert_true(isnan(j.beside_frac[0]) && isnan(j.beside_frac[2]) && isnan(j.beside_frac[19]));
    dl_link_evaluation_free(&j);
    assert_int_equal(dl_link_evaluate(&j, points, 5, 0, &all, &err), DL_ERR_DATA);
}

/* A size twice as fast as its neighbours is unpredictable for the fit. */
static void a_size_off_the_line_beside_it_is_told_apart(void **state DL_UNUSED)
{
    dl_link_point points[20];
    DL_SCOPED(dl_link_fit) all = {0};
    DL_SCOPED(dl_link_evaluation) j = {0};
    dl_error err = {0};
    sample(points, 20, one_line_ns);
    points[7].time_ns /= 2;
    assert_int_equal(dl_link_fit_run(&all, points, 20, &err), DL_OK);
    assert_int_equal(dl_link_evaluate(&j, points, 20, 0, &all, &err), DL_OK);
    const double by_hand =
        sqrt(points[6].time_ns * points[8].time_ns) / points[7].time_ns - 1; /* sizes double */
    assert_true(fabs(points[8].bytes / points[6].bytes - 4) < 1e-12);
    assert_true(by_hand > 0.8 && fabs(j.beside_frac[7] - by_hand) < 1e-12);
    assert_true(j.fit.max_frac > 0.8 && j.even.max_frac < DL_LINK_EVEN_FRAC);
    assert_int_equal(j.rest.count, 9); /* without the outlier */
    assert_int_equal(j.usual_rest.count, 9);
    assert_true(j.rest.max_frac < 0.05 && j.usual_rest.max_frac <= j.usual.max_frac);
    size_t even = 0;
    for (size_t i = 1; i < 20; i += 2)
        even += fabs(j.beside_frac[i]) <= DL_LINK_EVEN_FRAC;
    assert_int_equal(j.even.count, even);
    assert_true(even > 4 && even < 10);
}

int main(void)
{
    gsl_set_error_handler_off();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scatter_is_no_regime),
        cmocka_unit_test(two_protocols_are_two_regimes),
        cmocka_unit_test(a_change_of_protocol_has_no_bandwidth),
        cmocka_unit_test(one_line_is_one_regime_and_a_wrong_point_is_named),
        cmocka_unit_test(errors_grow_with_the_scatter),
        cmocka_unit_test(errors_are_no_less_than_those_of_repeats),
        cmocka_unit_test(no_latency_is_negative),
        cmocka_unit_test(a_later_line_may_begin_below_zero),
        cmocka_unit_test(what_sizes_do_not_tell_is_said),
        cmocka_unit_test(a_time_above_that_of_the_next_size_is_named),
        cmocka_unit_test(one_wrong_time_is_the_one_that_is_named),
        cmocka_unit_test(slow_sizes_in_a_row_are_kept),
        cmocka_unit_test(coarse_times_do_not_bend_the_line),
        cmocka_unit_test(sizes_left_out_are_judged),
        cmocka_unit_test(a_size_off_the_line_beside_it_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
