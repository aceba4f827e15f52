/* Order statistics, moments and distributions.
 *
 * Values are sorted with NaN last. Quantiles of distributions at 0 and 1 are the ends of the range,
 * which may be infinite; NaN if a parameter is out of range. Relative errors are below 1e-15, for
 * the beta distribution below 1e-12. */
#ifndef DL_SIM_STATISTICS_H
#define DL_SIM_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sorts values[count], ascending. */
void dl_sort_doubles(double *values, size_t count);

/* Partially sorts values[count] so that values[place] is the value that full ascending order has
 * there, with none larger before it and none smaller after it; place < count. */
void dl_select(double *values, size_t count, size_t place);

/* Mean, and sample standard deviation (n - 1). count >= 1; the deviation of one value is NaN. */
double dl_mean(const double *values, size_t count);
double dl_sd(const double *values, size_t count);

/* The quantile of sorted[count >= 1], 0 <= share <= 1: interpolated linearly, the minimum at 0 and
 * the maximum at 1 (definition 7 of Hyndman and Fan, American Statistician 50, 1996). */
double dl_quantile(const double *sorted, size_t count, double share);

/* Kolmogorov-Smirnov distance of two samples a[n], b[m], ascending, n, m >= 1: the largest
 * difference of their empirical distribution functions; 0 to 1. */
double dl_ks_distance(const double *a, size_t n, const double *b, size_t m);

/* Mean Kolmogorov-Smirnov distance of two samples of sizes n, m from one continuous distribution:
 * sqrt(pi / 2) ln 2, the mean of Kolmogorov's distribution, over sqrt(e) + 0.12 + 0.11 / sqrt(e), e
 * = nm / (n + m) (Stephens 1970, Journal of the Royal Statistical Society B 32, 115). The error is
 * below 0.02 for n >= 5. */
double dl_ks_distance_of_equals(size_t n, size_t m);

/* The median of values[count >= 1]; sorts the array. */
float dl_median_float(float *values, size_t count);

/* Shuffles values[count] by the Fisher-Yates method with the Mersenne Twister MT19937, seeded with
 * the lower 32 bits of the seed. */
void dl_shuffle(double *values, size_t count, uint64_t seed);

/* Standard normal distribution: probability below z, probability above z, and the quantile of u. */
double dl_normal_below(double z);
double dl_normal_above(double z);
double dl_normal_quantile(double u);

/* Quantiles of Student's t distribution, freedom > 0, and of the beta distribution with shapes a, b
 * > 0. */
double dl_t_quantile(double u, double freedom);
double dl_beta_quantile(double u, double a, double b);

/* Logarithm of the beta function, a, b > 0. */
double dl_log_beta(double a, double b);

#ifdef __cplusplus
}
#endif

#endif
