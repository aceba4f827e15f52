/* Comparison of arrays of numbers up to rounding, for the tests of the layers. */
#ifndef DL_TESTS_NEAR_H
#define DL_TESTS_NEAR_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Root of the mean square of values[count]. */
static inline double rms(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return count ? sqrt(sum / (double)count) : 0;
}

/* Whether |actual - expected| <= tolerance * max(|expected|, scale); prints both if not (also if
 * one is NaN). `scale` keeps numbers that only cancellation made small from asking for digits that
 * nobody has. */
static inline bool near_scaled(double actual, double expected, double scale, double tolerance)
{
    const double size = fabs(expected) > scale ? fabs(expected) : scale;
    if (fabs(actual - expected) <= tolerance * size) return true;
    printf("%.17g is not within %g of %.17g (scale %g)\n", actual, tolerance, expected, scale);
    return false;
}

/* near_scaled for actual[count] against expected[count], the scale being the rms of `expected`. */
static inline bool near_all(const double *actual, const double *expected, size_t count,
                            double tolerance)
{
    const double scale = rms(expected, count);
    for (size_t i = 0; i < count; i++) {
        if (!near_scaled(actual[i], expected[i], scale, tolerance)) {
            printf("at %zu of %zu\n", i, count);
            return false;
        }
    }
    return true;
}

#endif
