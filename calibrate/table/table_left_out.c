#include "calibrate/table/table_left_out.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

/* The rows that count, linearised at the end of the search: of row k of `at`, J and r, both times
 * the root of its weight. */
typedef struct linear {
    size_t n, p;
    size_t *row; /* [n] in the table */
    gsl_matrix *jacobian;
    gsl_vector *r;
    gsl_matrix *normal;   /* [p x p] J'WJ */
    gsl_vector *gradient; /* [p] J'Wr */
} linear;

static dl_status linearise(linear *l, dl_table_model *model, const double *x)
{
    *l = (linear){.n = dl_table_model_rows(model), .p = dl_table_model_costs(model)};
    l->row = dl_calloc(l->n, sizeof *l->row, "rows that count");
    l->jacobian = gsl_matrix_alloc(l->n, l->p);
    l->r = gsl_vector_alloc(l->n);
    l->normal = gsl_matrix_alloc(l->p, l->p);
    l->gradient = gsl_vector_alloc(l->p);
    dl_status status = dl_table_model_jacobian(model, x, l->jacobian);
    if (status == DL_OK) status = dl_table_model_set(model, x);
    if (status != DL_OK) return status;
    for (size_t i = 0, at = 0; i < model->rows->count; i++) {
        if (!model->use[i]) continue;
        l->row[at] = i;
        gsl_vector_set(l->r, at++, sqrt(model->weight[i]) * dl_table_model_residual(model, i));
    }
    gsl_blas_dgemm(CblasTrans, CblasNoTrans, 1, l->jacobian, l->jacobian, 0, l->normal);
    gsl_blas_dgemv(CblasTrans, 1, l->jacobian, l->r, 0, l->gradient);
    return DL_OK;
}

static void linear_free(linear *l)
{
    free(l->row);
    gsl_matrix_free(l->jacobian);
    gsl_vector_free(l->r);
    gsl_matrix_free(l->normal);
    gsl_vector_free(l->gradient);
}

/* The step that the rows but the point's take; false if they do not determine the costs. */
static bool step_without(const linear *l, const dl_table_model *model, size_t point,
                         gsl_matrix *normal, gsl_vector *step)
{
    gsl_matrix_memcpy(normal, l->normal);
    gsl_vector_memcpy(step, l->gradient);
    for (size_t k = 0; k < l->n; k++) {
        if (model->rows->rows[l->row[k]].at != point) continue;
        gsl_vector_view row = gsl_matrix_row(l->jacobian, k);
        gsl_blas_dsyr(CblasLower, -1, &row.vector, normal);
        gsl_blas_daxpy(-gsl_vector_get(l->r, k), &row.vector, step);
    }
    gsl_error_handler_t *before = gsl_set_error_handler_off();
    const bool solved = gsl_linalg_cholesky_decomp1(normal) == GSL_SUCCESS &&
                        gsl_linalg_cholesky_svx(normal, step) == GSL_SUCCESS;
    gsl_set_error_handler(before);
    return solved;
}

/* dr/dx of a row without its weight, times a step; of a row of no weight it is not known. */
static double moved(const linear *l, const dl_table_model *model, size_t k, const gsl_vector *step)
{
    const double weight = model->weight[l->row[k]];
    double change = 0;
    gsl_vector_view row = gsl_matrix_row(l->jacobian, k);
    gsl_blas_ddot(&row.vector, step, &change);
    return weight > 0 ? change / sqrt(weight) : 0; /* without weight it moved nothing */
}

dl_status dl_table_leave_out_linear(dl_table_fit *fit, dl_table_model *model, const double *x)
{
    linear l;
    const dl_status status = linearise(&l, model, x);
    gsl_matrix *normal = gsl_matrix_alloc(l.p, l.p);
    gsl_vector *step = gsl_vector_alloc(l.p);
    for (size_t k = 0; k < l.n && status == DL_OK; k++) {
        dl_table_residual *residual = &fit->residuals[l.row[k]];
        if (!step_without(&l, model, model->rows->rows[l.row[k]].at, normal, step)) continue;
        const double r = dl_table_model_residual(model, l.row[k]) - moved(&l, model, k, step);
        residual->left_out_frac = expm1(-r);
    }
    gsl_matrix_free(normal);
    gsl_vector_free(step);
    linear_free(&l);
    return status;
}
