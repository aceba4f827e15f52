#include "sim/root.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

static bool same_sign(double a, double b)
{
    return (a < 0 && b < 0) || (a > 0 && b > 0);
}

/* `best` is the best x so far, f(`other`) has the opposite sign, `last` is the previous best. */
double dl_find_root(double (*f)(double x, void *user), void *user, double low, double high,
                    double width, int rounds)
{
    double last = low, f_last = f(low, user);
    double best = high, f_best = f(high, user);
    double other = best, f_other = f_best;
    double step = high - low, step_before = step;
    double root = 0.5 * (low + high);
    if (!isfinite(f_last) || !isfinite(f_best) || same_sign(f_last, f_best)) return low;
    for (int k = 0; k < rounds; k++) {
        if (same_sign(f_best, f_other)) {
            other = last;
            f_other = f_last;
            step = step_before = best - last;
        }
        if (fabs(f_other) < fabs(f_best)) {
            last = best;
            f_last = f_best;
            best = other;
            f_best = f_other;
            other = last;
            f_other = f_last;
        }
        const double least = 0.5 * DBL_EPSILON * fabs(best); /* smallest step */
        const double half = 0.5 * (other - best);
        if (f_best == 0 || fabs(half) <= least) return best;
        bool is_interpolated = false;
        if (fabs(step_before) >= least && fabs(f_last) > fabs(f_best)) {
            const double s = f_best / f_last;
            double p, q;         /* the step to the interpolated root is p / q */
            if (last == other) { /* linear interpolation through two points */
                p = 2 * half * s;
                q = 1 - s;
            } else { /* inverse quadratic interpolation through three points */
                const double t = f_last / f_other, r = f_best / f_other;
                p = s * (2 * half * t * (t - r) - (best - last) * (r - 1));
                q = (t - 1) * (r - 1) * (s - 1);
            }
            if (p > 0) {
                q = -q;
            } else {
                p = -p;
            }
            is_interpolated = 2 * p < fmin(3 * half * q - fabs(least * q), fabs(step_before * q));
            if (is_interpolated) {
                step_before = step;
                step = p / q;
            }
        }
        if (!is_interpolated) step = step_before = half;
        last = best;
        f_last = f_best;
        best += fabs(step) > least ? step : copysign(least, half);
        f_best = f(best, user);
        if (!isfinite(f_best)) return root;
        root = best;
        if (fabs((same_sign(f_best, f_other) ? last : other) - best) < width) return root;
    }
    return root;
}
