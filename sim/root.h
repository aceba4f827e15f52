/* Root finding for functions of one variable. */
#ifndef DL_SIM_ROOT_H
#define DL_SIM_ROOT_H

/* Finds a root of f(x, user) between `low` < `high`, where f has opposite signs or is zero, by
 * Brent's method (R. P. Brent 1973, Algorithms for Minimization without Derivatives, chapter 4), to
 * within `width`, with at most `rounds` evaluations after those at low and high. Returns the latest
 * x found. A NaN or infinite value of f ends the search, which then returns the x before it (the
 * midpoint if there is none). Returns `low` if f has the same sign at `low` and `high`, or is not
 * finite at one of them. */
double dl_find_root(double (*f)(double x, void *user), void *user, double low, double high,
                    double width, int rounds);

#endif
