/* Root finding for functions of one variable. */
#ifndef DL_SIM_ROOT_H
#define DL_SIM_ROOT_H

/* Finds a root of f(x, user) between `low` < `high`, where f has opposite signs or is zero, by
 * Brent's method (R. P. Brent 1973, Algorithms for Minimization without Derivatives, chapter 4), to
 * within `width`, with at most `rounds` evaluations after those at low and high. A NaN or infinite
 * value of f ends the search. Returns the best x found; `low` if the signs are equal. */
double dl_find_root(double (*f)(double x, void *user), void *user, double low, double high,
                    double width, int rounds);

#endif
