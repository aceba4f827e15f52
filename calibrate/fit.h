/* Statistics of timings: location estimates of samples with standard errors, and straight lines
 * through them. GSL's error handler must be off.
 *
 * Notation: n data points, p parameters.
 *
 * Timings have a long upper tail (preemption) and drift, so the mean alone does not describe a
 * sample:
 *
 *   location   the sample, in the order of time, is divided into at most DL_FIT_BLOCKS blocks, or
 *              into its single values if there are fewer than 128; a bisquare M-estimator combines
 *              the blocks' midmeans (means of the middle half). With fewer than 5 blocks, or if at
 *              least half of the midmeans are equal, it is their mean. Blocks make the standard
 *              error correct if neighbouring values are correlated
 *   median     with a standard error from the order statistics around it, for tiny samples of
 *              irregular shape (latencies)
 *   mean       where every part of the distribution counts (threads that share a core)
 *
 * A robust location estimate ignores the tail, so the mean is kept separately, in the noise factors
 * of a cost file. */
#ifndef DL_CALIBRATE_FIT_H
#define DL_CALIBRATE_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

#define DL_FIT_BLOCKS 32 /* maximum number of blocks of a sample of 128 values or more */
#define DL_FIT_TERMS_MAX 3

/* Standard error, in ns, of a time read from a clock with a resolution of 1 ns: 1 / sqrt(12). */
#define DL_FIT_CLOCK_ERROR_NS 0.2886751345948129

/* A number with its standard error, in the unit of the number. */
typedef struct dl_estimate {
    double value;
    double error;  /* 0 for a single value */
    int64_t count; /* number of values used */
} dl_estimate;

/* Computes the robust location estimate of values[n] in the order of time, n >= 1. Returns
 * DL_ERR_DATA if the estimator fails. */
dl_status dl_fit_location(const double *values, size_t n, dl_estimate *location,
                          dl_error *err) DL_MUST_CHECK;

/* Returns the median of values[n], n >= 1, in any order. */
dl_estimate dl_fit_median(const double *values, size_t n);

/* Returns the arithmetic mean of values[n], n >= 1, with the standard error for independent
 * values. */
dl_estimate dl_fit_mean(const double *values, size_t n);

/* Shape of a sample in the order of time. */
typedef struct dl_fit_shape {
    double mean, sd, p99;
    double lag1; /* autocorrelation of neighbours; 0 if the values do not vary */
} dl_fit_shape;

/* Returns the shape of values[n], n >= 1. */
dl_fit_shape dl_fit_shape_of(const double *values, size_t n);

/* y = sum of coefficient[j] * term[j], all coefficients >= 0.
 *
 * A point's variance is error^2 + (tau scale)^2: its own standard error, and the additional scatter
 * of points around the line (another run, another cache regime). tau makes chi^2 equal its degrees
 * of freedom, and is 0 if chi^2 is below them without it (Mandel & Paule 1970, Analytical Chemistry
 * 42, 1194). With error = 0 and scale = 1 this is ordinary least squares; with scale = y all points
 * have equal relative weight. While a fit has negative coefficients, the most significant one is
 * fixed at 0, and the others are refitted. */
typedef struct dl_fit_problem {
    size_t n, p;         /* n >= p, 1 <= p <= DL_FIT_TERMS_MAX */
    const double *terms; /* [n x p], row-major */
    const double *y;     /* [n] */
    const double *error; /* [n] standard errors >= 0 */
    const double *scale; /* [n] > 0 */
} dl_fit_problem;

typedef struct dl_fit_line {
    double coefficient[DL_FIT_TERMS_MAX];
    double error[DL_FIT_TERMS_MAX]; /* standard errors; 0 if fixed */
    bool held_at_zero[DL_FIT_TERMS_MAX];
    double tau;
} dl_fit_line;

/* Fits a constant to y[n], n >= 1, with these standard errors and scales, like dl_fit_solve with a
 * single term of 1. */
dl_status dl_fit_constant(const double *y, const double *error, const double *scale, size_t n,
                          dl_estimate *constant, dl_error *err) DL_MUST_CHECK;

/* Solves the problem. Returns DL_ERR_DATA if there are fewer points than parameters or the terms do
 * not determine the parameters. O(n p^2) for each of some dozens of iterations. */
dl_status dl_fit_solve(const dl_fit_problem *problem, dl_fit_line *line,
                       dl_error *err) DL_MUST_CHECK;

#endif
