/* Collinearity diagnostics of Belsley, Kuh & Welsch (1980, Regression Diagnostics, chapter 3):
 * which parameters of a least squares problem its rows distinguish.
 *
 * Notation: n rows, p parameters, n >= p; J [n x p] is dr/dx. With its columns scaled to length 1,
 * J = U S V'. The variance of parameter j, relative to the variance of the rows, is the sum over
 * singular values k of (V_jk / s_k)^2, divided by the square of the column's length. */
#ifndef DL_CALIBRATE_TABLE_COLLINEARITY_H
#define DL_CALIBRATE_TABLE_COLLINEARITY_H

#include <gsl/gsl_matrix.h>
#include <stddef.h>

/* Condition index (largest singular value over this one) above which collinearity degrades
 * estimates (Belsley et al.). */
#define DL_COLLINEARITY_CONDITION 30.0

/* Owns its arrays; release with dl_collinearity_free. A zeroed object has no parameters. */
typedef struct dl_collinearity {
    size_t n, p;
    double *length; /* [p] lengths of the columns; a column of length 0 is not scaled */
    gsl_matrix *v;  /* [p x p] right singular vectors */
    gsl_vector *s;  /* [p] singular values, descending */
} dl_collinearity;

/* Analyses `jacobian` (p >= 1) and overwrites it. */
void dl_collinearity_init(dl_collinearity *c, gsl_matrix *jacobian);
void dl_collinearity_free(dl_collinearity *c);

/* Returns the ratio of the largest to the least singular value; 1 without parameters. */
double dl_collinearity_condition(const dl_collinearity *c);

/* Returns the number of combinations of the parameters that the rows determine. A singular value
 * below 1e-4 of the largest counts as 0, as residuals are rounded. */
size_t dl_collinearity_rank(const dl_collinearity *c);

/* Returns the standard error of parameter j, relative to the standard error of the rows. */
double dl_collinearity_error(const dl_collinearity *c, size_t j);

/* Fills group[p]: parameters with the same number > 0 cannot be distinguished, as each has more
 * than half of its variance in one singular value with a condition index of at least
 * DL_COLLINEARITY_CONDITION; 0: distinguished from all others. */
void dl_collinearity_groups(const dl_collinearity *c, int *group);

#endif
