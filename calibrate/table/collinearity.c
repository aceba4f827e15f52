#include "calibrate/table/collinearity.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

/* Belsley, Kuh & Welsch: minimum share of a parameter's variance in one singular value. */
#define VARIANCE_SHARE 0.5
/* Singular values below the largest / SINGULAR count as 0, because the simulator rounds. Components
 * below ROUNDED of their singular vectors are then rounding errors too. */
#define SINGULAR 1e4
#define ROUNDED 0.01

void dl_collinearity_init(dl_collinearity *c, gsl_matrix *jacobian)
{
    const size_t p = jacobian->size2;
    *c = (dl_collinearity){.n = jacobian->size1,
                           .p = p,
                           .length = dl_calloc(p, sizeof *c->length, "lengths of columns"),
                           .v = gsl_matrix_alloc(p, p),
                           .s = gsl_vector_alloc(p)};
    for (size_t j = 0; j < p; j++) {
        gsl_vector_view column = gsl_matrix_column(jacobian, j);
        c->length[j] = gsl_blas_dnrm2(&column.vector);
        if (c->length[j] > 0) gsl_vector_scale(&column.vector, 1 / c->length[j]);
    }
    gsl_vector *work = gsl_vector_alloc(p);
    gsl_linalg_SV_decomp(jacobian, c->v, c->s, work);
    gsl_vector_free(work);
}

void dl_collinearity_free(dl_collinearity *c)
{
    free(c->length);
    if (c->v != NULL) gsl_matrix_free(c->v);
    if (c->s != NULL) gsl_vector_free(c->s);
    *c = (dl_collinearity){0};
}

double dl_collinearity_condition(const dl_collinearity *c)
{
    return c->p == 0 ? 1 : gsl_vector_get(c->s, 0) / gsl_vector_get(c->s, c->p - 1);
}

size_t dl_collinearity_rank(const dl_collinearity *c)
{
    size_t rank = 0;
    while (rank < c->p && gsl_vector_get(c->s, rank) * SINGULAR > gsl_vector_get(c->s, 0))
        rank++;
    return rank;
}

/* Contribution of singular value k to the variance of scaled parameter j, relative to the variance
 * of the rows. */
static double variance_part(const dl_collinearity *c, size_t j, size_t k)
{
    const double part = gsl_matrix_get(c->v, j, k), value = gsl_vector_get(c->s, k);
    if (value * SINGULAR <= gsl_vector_get(c->s, 0) && fabs(part) < ROUNDED) return 0;
    return part * part / (value * value);
}

static double variance(const dl_collinearity *c, size_t j)
{
    double sum = 0;
    for (size_t k = 0; k < c->p; k++)
        sum += variance_part(c, j, k);
    return sum;
}

double dl_collinearity_error(const dl_collinearity *c, size_t j)
{
    return sqrt(variance(c, j)) / c->length[j];
}

void dl_collinearity_groups(const dl_collinearity *c, int *group)
{
    int groups = 0;
    for (size_t j = 0; j < c->p; j++)
        group[j] = 0;
    for (size_t k = 0; k < c->p; k++) {
        if (gsl_vector_get(c->s, 0) < DL_COLLINEARITY_CONDITION * gsl_vector_get(c->s, k)) continue;
        size_t members = 0;
        for (size_t j = 0; j < c->p; j++)
            members += variance_part(c, j, k) > VARIANCE_SHARE * variance(c, j);
        if (members < 2) continue;
        groups++;
        for (size_t j = 0; j < c->p; j++) {
            if (variance_part(c, j, k) > VARIANCE_SHARE * variance(c, j)) group[j] = groups;
        }
    }
}
