/* Roots of functions of one number. */
#ifndef DL_SIM_ROOT_H
#define DL_SIM_ROOT_H

/* The root of f(x, user) between `low` < `high`, at which f has opposite signs, or is zero: found
 * by Brent's method (R. P. Brent 1973, Algorithms for Minimization without Derivatives, chapter 4)
 * to within `width`, with at most `rounds` evaluations after those at low and high. A function that
 * returns NaN or an infinity ends the search. Returns the best x so far; with equal signs,
 * `low`. */
double dl_find_root(double (*f)(double x, void *user), void *user, double low, double high,
                    double width, int rounds);

#endif
