/* Statistics of timings: location estimates of samples with standard errors, and straight lines
 * through them. They expect that GSL's own error handler is off.
 *
 * Letters: n data points, p parameters.
 *
 * Timings have a long upper tail (preemption) and drift, so the mean alone does not describe a
 * sample:
 *
 *   location   the sample, in the order of time, is cut into at most DL_FIT_BLOCKS blocks; a
 *              bisquare M-estimator combines the blocks' midmeans (means of the middle half).
 *              Blocks make the standard error correct if neighbouring values are correlated
 *   median     with a standard error from the order statistics around it, for tiny samples of odd
 *              shape (latencies)
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

#define DL_FIT_BLOCKS 32 /* most blocks of a sample */
#define DL_FIT_TERMS_MAX 3

/* Standard error, in ns, of any time read from a clock of whole ns: 1 / sqrt(12). */
#define DL_FIT_CLOCK_ERROR_NS 0.2886751345948129

/* A number with its standard error, in the unit of the number. */
typedef struct dl_estimate {
    double value;
    double error;  /* 0 for a single value */
    int64_t count; /* values used */
} dl_estimate;

/* Robust location estimate of values[n] in the order of time, n >= 1. DL_ERR_DATA if the estimator
 * fails. */
dl_status dl_fit_location(const double *values, size_t n, dl_estimate *location,
                          dl_error *err) DL_MUST_CHECK;

/* Median of values[n], n >= 1, in any order. */
dl_estimate dl_fit_median(const double *values, size_t n);

/* Arithmetic mean of values[n], n >= 1; standard error for independent values. */
dl_estimate dl_fit_mean(const double *values, size_t n);

/* The shape of a sample in the order of time. */
typedef struct dl_fit_shape {
    double mean, sd, p99;
    double lag1; /* autocorrelation of neighbours; 0 where the values do not vary */
} dl_fit_shape;

/* Shape of values[n], n >= 1. */
dl_fit_shape dl_fit_shape_of(const double *values, size_t n);

/* y = sum of coefficient[j] * term[j], no coefficient below 0.
 *
 * A point's variance is error^2 + (tau scale)^2: its own standard error, and the further scatter of
 * points around the line (another run, another cache regime). tau makes chi^2 equal its degrees of
 * freedom, and is 0 if chi^2 is below them anyway (Mandel & Paule 1970, Analytical Chemistry 42,
 * 1194). With error = 0 and scale = 1 this is ordinary least squares; with scale = y all points
 * count by their relative deviation. A coefficient that an unbounded fit makes < 0 is held at 0,
 * and the others are refitted. */
typedef struct dl_fit_problem {
    size_t n, p;         /* n >= p, 1 <= p <= DL_FIT_TERMS_MAX */
    const double *terms; /* [n x p], row by row */
    const double *y;     /* [n] */
    const double *error; /* [n] standard errors >= 0 */
    const double *scale; /* [n] > 0 */
} dl_fit_problem;

typedef struct dl_fit_line {
    double coefficient[DL_FIT_TERMS_MAX];
    double error[DL_FIT_TERMS_MAX]; /* standard errors; 0 where held */
    bool held_at_zero[DL_FIT_TERMS_MAX];
    double tau;
} dl_fit_line;

/* Fits a constant to y[n], n >= 1, with these standard errors and scales, as dl_fit_solve does with
 * a single term of 1. */
dl_status dl_fit_constant(const double *y, const double *error, const double *scale, size_t n,
                          dl_estimate *constant, dl_error *err) DL_MUST_CHECK;

/* Solves the problem. DL_ERR_DATA if there are fewer points than parameters or the terms do not
 * determine them. O(n p^2) times some dozens. */
dl_status dl_fit_solve(const dl_fit_problem *problem, dl_fit_line *line,
                       dl_error *err) DL_MUST_CHECK;

#endif
