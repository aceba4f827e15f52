#include "sim/statistics.h"

/* Boost.Math: no exceptions, NaN if out of range. Computed in long double and rounded once, so that
 * the last digit does not depend on the processor. */
#define BOOST_MATH_DOMAIN_ERROR_POLICY ignore_error
#define BOOST_MATH_POLE_ERROR_POLICY ignore_error
#define BOOST_MATH_OVERFLOW_ERROR_POLICY ignore_error
#define BOOST_MATH_EVALUATION_ERROR_POLICY ignore_error
#define BOOST_MATH_ROUNDING_ERROR_POLICY ignore_error
#define BOOST_MATH_INDETERMINATE_RESULT_ERROR_POLICY ignore_error
#define BOOST_MATH_PROMOTE_DOUBLE_POLICY true
/* Boost.Math includes <iostream> for debugging (tools/roots.hpp of 1.74), which would set up the
 * C++ streams at every start; nothing else needs them. */
#define _GLIBCXX_IOSTREAM 1

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <random>

namespace
{

/* The order with NaN last. */
template <typename number> bool is_before(number a, number b)
{
    return a < b || (std::isnan(b) && !std::isnan(a));
}

/* (a[0] + a[1] x + ... + a[7] x^7) / (b[0] + b[1] x + ... + b[7] x^7) */
double ratio(const double *a, const double *b, double x)
{
    double above = a[7], below = b[7];
    for (int i = 6; i >= 0; i--) {
        above = above * x + a[i];
        below = below * x + b[i];
    }
    return above / below;
}

/* The rounding error of the sum of two numbers (Knuth, TAOCP 2, 4.2.2). */
double lost(double a, double b, double sum)
{
    const double of_b = sum - a;
    return (a - (sum - of_b)) + (b - of_b);
}

/* A sum with twice the precision (Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26, 2005): its last
 * digit does not depend on a processor's extended precision. */
struct total {
    double high = 0, low = 0;

    void add(double number)
    {
        const double sum = high + number;
        low += lost(high, number, sum);
        high = sum;
    }

    double over(double n) const
    {
        const double quotient = high / n;
        return quotient + (std::fma(-quotient, n, high) + low) / n;
    }
};

} // namespace

void dl_sort_doubles(double *values, size_t count)
{
    std::sort(values, values + count, is_before<double>);
}

void dl_select(double *values, size_t count, size_t place)
{
    std::nth_element(values, values + place, values + count, is_before<double>);
}

double dl_mean(const double *values, size_t count)
{
    total sum;
    for (size_t i = 0; i < count; i++)
        sum.add(values[i]);
    return sum.over(static_cast<double>(count));
}

double dl_sd(const double *values, size_t count)
{
    const double mean = dl_mean(values, count), n = static_cast<double>(count);
    total squares;
    for (size_t i = 0; i < count; i++) {
        const double difference = values[i] - mean, rest = lost(values[i], -mean, difference);
        const double square = difference * difference;
        squares.add(square);
        squares.low += std::fma(difference, difference, -square) + 2 * difference * rest;
    }
    return std::sqrt(squares.over(n) * (n / (n - 1)));
}

double dl_quantile(const double *sorted, size_t count, double share)
{
    const double place = share * static_cast<double>(count - 1);
    const size_t below = static_cast<size_t>(place);
    const double part = place - static_cast<double>(below);
    if (below + 1 >= count) return sorted[count - 1];
    return (1 - part) * sorted[below] + part * sorted[below + 1];
}

double dl_ks_distance(const double *a, size_t n, const double *b, size_t m)
{
    double most = 0;
    for (size_t i = 0, j = 0; i < n && j < m;) {
        const double x = std::min(a[i], b[j]);
        while (i < n && a[i] <= x)
            i++;
        while (j < m && b[j] <= x)
            j++;
        most = std::max(most, std::fabs(static_cast<double>(i) / static_cast<double>(n) -
                                        static_cast<double>(j) / static_cast<double>(m)));
    }
    return most;
}

double dl_ks_distance_of_equals(size_t n, size_t m)
{
    const double kolmogorov_mean = 0.86873116063615914; /* sqrt(pi / 2) ln 2 */
    const double root =
        std::sqrt(static_cast<double>(n) * static_cast<double>(m) / static_cast<double>(n + m));
    return kolmogorov_mean / (root + 0.12 + 0.11 / root);
}

float dl_median_float(float *values, size_t count)
{
    std::sort(values, values + count, is_before<float>);
    const float low = values[(count - 1) / 2], high = values[count / 2];
    return (count & 1) != 0 ? low : (low + high) / 2;
}

void dl_shuffle(double *values, size_t count, uint64_t seed)
{
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (size_t left = count; left > 1; left--) {
        /* Without bias: numbers from `left` equal parts of the range; beyond these, drawn again. */
        const uint32_t part = UINT32_MAX / static_cast<uint32_t>(left);
        size_t place;
        do {
            place = random() / part;
        } while (place >= left);
        std::swap(values[place], values[left - 1]);
    }
}

double dl_normal_below(double z)
{
    return static_cast<double>(
        boost::math::erfc(-z / boost::math::constants::root_two<long double>()) / 2);
}

double dl_normal_above(double z)
{
    return dl_normal_below(-z);
}

/* Wichura's algorithm AS 241, PPND16 (Applied Statistics 37, 1988): rational functions for the
 * middle, the flanks and the tails, of a relative error of 1e-16. */
double dl_normal_quantile(double u)
{
    static const double middle[2][8] = {
        {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
         1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
         3.3430575583588128105e+4, 2.5090809287301226727e+3},
        {1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
         2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
         5.2264952788528545610e+3}};
    static const double flank[2][8] = {
        {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
         3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
         2.27238449892691845833e-2, 7.74545014278341407640e-4},
        {1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
         1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
         1.05075007164441684324e-9}};
    static const double tail[2][8] = {
        {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
         2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
         2.71155556874348757815e-5, 2.01033439929228813265e-7},
        {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
         7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
         2.04426310338993978564e-15}};
    const double off = u - 0.5;
    if (std::fabs(off) <= 0.425) return off * ratio(middle[0], middle[1], 0.180625 - off * off);
    const double part = off < 0 ? u : 1 - u, depth = std::sqrt(-std::log(part));
    if (!(part > 0)) return part < 0 ? NAN : std::copysign(INFINITY, off);
    const double z =
        depth <= 5 ? ratio(flank[0], flank[1], depth - 1.6) : ratio(tail[0], tail[1], depth - 5);
    return std::copysign(z, off);
}

double dl_t_quantile(double u, double freedom)
{
    const boost::math::students_t_distribution<long double> distribution(freedom);
    return static_cast<double>(quantile(distribution, static_cast<long double>(u)));
}

double dl_beta_quantile(double u, double a, double b)
{
    /* In double, for speed: each simulated step may need a quantile. */
    namespace policies = boost::math::policies;
    return boost::math::ibeta_inv(a, b, u, policies::policy<policies::promote_double<false>>());
}

double dl_log_beta(double a, double b)
{
    return static_cast<double>(boost::math::lgamma(static_cast<long double>(a)) +
                               boost::math::lgamma(static_cast<long double>(b)) -
                               boost::math::lgamma(static_cast<long double>(a) + b));
}
