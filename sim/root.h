/* Roots of functions of one number. */
#ifndef DL_SIM_ROOT_H
#define DL_SIM_ROOT_H

/* The root of f(x, user) between `low` < `high`, at which f has opposite signs, or is zero: closed in
 * by Brent's method (R. P. Brent 1973, Algorithms for Minimization without Derivatives, chapter 4)
 * until it is known to less than `width`, for at most `rounds` evaluations after those at low and
 * high. A function that returns NaN or an infinity ends the search. The best x so far; where the
 * signs are equal, `low`. */
double dl_find_root(double (*f)(double x, void *user), void *user, double low, double high,
                    double width, int rounds);

#endif
