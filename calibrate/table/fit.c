#include "calibrate/table/table_internal.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/table/collinearity.h"
#include "calibrate/table/table.h"
#include "common/alloc.h"

/* Minimum effect (root mean square of dr/dx) of a cost on the other rows for them to determine
 * it. */
#define DL_TABLE_NO_EFFECT 1e-3

/* Ratio of the standard deviation to the median absolute deviation of a normal distribution. */
#define MAD_TO_SD 1.4826
/* Bisquare tuning constant: 95 % efficient for normal errors. */
#define TUNING 4.685
/* Maximum rounds for each kind of weight, and the change of a weight at convergence. */
#define ROUNDS 20
#define SETTLED 0.01

/* Number of costs fitted to the part's rows, its own and shared ones. */
static size_t costs_of(const dl_table_model *model, size_t part)
{
    size_t p = 0;
    for (size_t j = 0; j < model->unknown->count; j++)
        p += model->active[j] && model->unknown->items[j].value[part] != NULL;
    return p;
}

double dl_table_sigma(const dl_table_model *model, size_t part)
{
    DL_AUTOFREE double *size = dl_calloc(model->row_count, sizeof *size, "absolute residuals");
    size_t n = 0;
    const size_t p = costs_of(model, part);
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->use[i] || model->rows[i].part != part) continue;
        size[n++] = fabs(dl_table_model_residual(model, i));
    }
    gsl_sort(size, 1, n);
    /* A fit of p costs can make several residuals almost 0, so the p - 1 smallest are skipped. */
    const size_t skipped = p > 1 && p <= n ? p - 1 : 0;
    const double median = gsl_stats_median_from_sorted_data(size + skipped, 1, n - skipped);
    return fmax(MAD_TO_SD * median, DL_TABLE_SIGMA_MIN);
}

/* Degrees of freedom for the scatter of the part's rows when one of them is left out. */
static double freedom_without_one(const dl_table_model *model, size_t part)
{
    size_t n = 0;
    for (size_t i = 0; i < model->row_count; i++)
        n += model->use[i] && model->rows[i].part == part;
    return (double)n - (double)costs_of(model, part) - 1;
}

/* Multiple of sigma above which a row of the part is an outlier: table.h. */
static double outlier_sigmas(const dl_table_model *model, size_t part)
{
    const double freedom = freedom_without_one(model, part);
    if (freedom < 1) return (double)INFINITY;
    return gsl_cdf_tdist_Qinv(gsl_cdf_ugaussian_Q(DL_TABLE_OUTLIER), freedom);
}

/* Weight that turns squares into absolute values; the smallest residuals have weight 1. */
static double weight_absolute(double r, double sigma DL_UNUSED)
{
    return DL_TABLE_SIGMA_MIN / fmax(fabs(r), DL_TABLE_SIGMA_MIN);
}

static double weight_bisquare(double r, double sigma)
{
    const double u = r / (TUNING * sigma);
    return fabs(u) < 1 ? pow(1 - u * u, 2) : 0;
}

/* A row's weight in the fit, without its part's scale. */
static double row_weight(const dl_table_model *model, size_t row)
{
    return model->weight[row] / pow(model->scale[model->rows[row].part], 2);
}

/* Sets the weights of the parts and their rows from the residuals at x; returns the largest change
 * of a weight. */
static double weigh(dl_table_model *model, double (*weight)(double r, double sigma))
{
    double sigma[DL_TABLE_PARTS_MAX], least = (double)INFINITY, change = 0;
    for (size_t p = 0; p < model->part_count; p++) {
        sigma[p] = dl_table_sigma(model, p);
        least = fmin(least, sigma[p]);
    }
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->use[i]) continue;
        const double scale = least / sigma[model->rows[i].part];
        const double w = weight(scale * dl_table_model_residual(model, i), least);
        change = fmax(change, fabs(w - row_weight(model, i)));
        model->weight[i] = scale * scale * w;
    }
    for (size_t p = 0; p < model->part_count; p++) {
        change = fmax(change, fabs(least / sigma[p] - model->scale[p]));
        model->scale[p] = least / sigma[p];
    }
    return change;
}

static dl_status iterate(dl_table_model *model, double *x, double (*weight)(double r, double sigma))
{
    dl_status status = dl_table_model_set(model, x);
    for (int round = 0; round < ROUNDS && status == DL_OK; round++) {
        if (weigh(model, weight) < SETTLED) break;
        dl_table_model_descend(model, x);
        status = model->status;
        if (status == DL_OK) status = dl_table_model_set(model, x);
    }
    return status;
}

/* Sets model->weight and moves x to the matching costs; x must already minimize the sum of squares.
 * Has no effect with fewer than DL_TABLE_ROWS_A_COST rows per cost, or if leaving out one row
 * leaves fewer than DL_TABLE_OTHERS degrees of freedom. */
static dl_status table_reweigh(dl_table_model *model, double *x)
{
    if (!dl_table_model_has_rows(model, DL_TABLE_ROWS_A_COST)) return DL_OK;
    if (dl_table_model_rows(model) < dl_table_model_costs(model) + 1 + DL_TABLE_OTHERS)
        return DL_OK;
    const dl_status status = iterate(model, x, weight_absolute);
    return status == DL_OK ? iterate(model, x, weight_bisquare) : status;
}

/* The rows used, linearised at the end of the search: J and r, each row multiplied by the square
 * root of its weight. */
typedef struct linear {
    size_t n, p;
    size_t *row; /* [n] index of each row in model->rows */
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
    dl_status status = dl_table_model_differentiate(model, x, true);
    if (status == DL_OK) dl_table_model_weighted(model, l->jacobian);
    if (status == DL_OK) status = dl_table_model_set(model, x);
    if (status != DL_OK) return status;
    for (size_t i = 0, at = 0; i < model->row_count; i++) {
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

/* Computes the Gauss-Newton step of the fit without the point's rows; returns false if the other
 * rows do not determine the costs. */
static bool step_without(const linear *l, const dl_table_model *model, size_t point,
                         gsl_matrix *normal, gsl_vector *step)
{
    gsl_matrix_memcpy(normal, l->normal);
    gsl_vector_memcpy(step, l->gradient);
    for (size_t k = 0; k < l->n; k++) {
        if (model->rows[l->row[k]].point != point) continue;
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

/* Unweighted dr/dx of a row times `step`; 0 for a row without weight. */
static double moved(const linear *l, const dl_table_model *model, size_t k, const gsl_vector *step)
{
    const double weight = model->weight[l->row[k]];
    double change = 0;
    gsl_vector_view row = gsl_matrix_row(l->jacobian, k);
    gsl_blas_ddot(&row.vector, step, &change);
    return weight > 0 ? change / sqrt(weight) : 0; /* a row without weight had no influence */
}

static dl_table_residual *residual_of(const dl_table_fit *fit, const dl_table_model *model,
                                      size_t row)
{
    const dl_table_part *part = &fit->parts[model->rows[row].part];
    return &part->residuals[model->rows[row].row - part->rows.rows];
}

/* Estimates left_out_frac of each row as if the rows of its point were left out, by one
 * Gauss-Newton step from x, where the search ended; NaN where the other rows do not determine the
 * costs. Returns the errors of dl_table_model_set. */
static dl_status table_leave_out_linear(dl_table_fit *fit, dl_table_model *model, const double *x)
{
    linear l;
    const dl_status status = linearise(&l, model, x);
    gsl_matrix *normal = gsl_matrix_alloc(l.p, l.p);
    gsl_vector *step = gsl_vector_alloc(l.p);
    for (size_t k = 0; k < l.n && status == DL_OK; k++) {
        if (!step_without(&l, model, model->rows[l.row[k]].point, normal, step)) continue;
        const double r = dl_table_model_residual(model, l.row[k]) - moved(&l, model, k, step);
        residual_of(fit, model, l.row[k])->left_out_frac = expm1(-r);
    }
    gsl_matrix_free(normal);
    gsl_vector_free(step);
    linear_free(&l);
    return status;
}

/* A cost is needless if the sum of squares without it grows by less than this fraction of s^2. */
#define NEEDLESS 0.1
/* Analyses model->jacobian for the active costs and the rows used. */
static void analyse(const dl_table_model *model, dl_collinearity *analysis)
{
    *analysis = (dl_collinearity){0};
    const size_t costs = dl_table_model_costs(model);
    if (costs == 0) return;
    gsl_matrix *jacobian = gsl_matrix_alloc(dl_table_model_rows(model), costs);
    dl_table_model_weighted(model, jacobian);
    dl_collinearity_init(analysis, jacobian);
    gsl_matrix_free(jacobian);
}

/* Lists the index of each active cost. */
static void list_active(const dl_table_model *model, size_t *index)
{
    size_t at = 0;
    for (size_t j = 0; j < model->unknown->count; j++) {
        if (model->active[j]) index[at++] = j;
    }
}

/* Sum of squares with cost j at the limit with the shortest step, the others unchanged. */
static double squares_without(dl_table_model *model, const double *x, size_t j)
{
    double at[DL_TABLE_COSTS_MAX];
    memcpy(at, x, model->unknown->count * sizeof *at);
    at[j] = dl_table_model_least(model, j);
    return dl_table_model_squares(model, at);
}

/* Removes needless costs one by one, because a cost without effect may gain one once another is
 * removed. */
static dl_status drop_needless(dl_table_model *model, double *x)
{
    const double rows = (double)dl_table_model_rows(model);
    while (model->status == DL_OK) {
        const double squares = dl_table_model_squares(model, x);
        const double free_rows = fmax(rows - (double)dl_table_model_costs(model), 1);
        const double tolerance =
            NEEDLESS * squares / free_rows + rows * DL_TABLE_EXACT * DL_TABLE_EXACT;
        size_t least = model->unknown->count;
        double growth = tolerance;
        for (size_t j = 0; j < model->unknown->count; j++) {
            if (!model->active[j]) continue;
            const double grown = squares_without(model, x, j) - squares;
            if (!(grown <= growth)) continue;
            least = j;
            growth = grown;
        }
        if (least == model->unknown->count) break;
        model->active[least] = false;
        x[least] = dl_table_model_least(model, least);
        dl_table_model_descend(model, x);
    }
    return model->status;
}

/* Value of cost j, between x[j] and the far end of its range, at which the sum of squares exceeds
 * that at x by `growth`; NaN if it does not grow that much. */
static double find_bound(dl_table_model *model, const double *x, size_t j, double growth)
{
    double at[DL_TABLE_COSTS_MAX];
    memcpy(at, x, model->unknown->count * sizeof *at);
    const double limit = dl_table_model_squares(model, at) + growth;
    double inside = x[j];
    double outside = dl_table_is_rate(&model->unknown->items[j]) ? dl_table_model_low(model, j)
                                                                 : dl_table_model_high(model, j);
    at[j] = outside;
    if (dl_table_model_squares(model, at) < limit) return (double)NAN;
    while (fabs(outside - inside) > 0.01) {
        at[j] = (inside + outside) / 2;
        if (dl_table_model_squares(model, at) < limit) {
            inside = at[j];
        } else {
            outside = at[j];
        }
    }
    return exp(inside);
}

/* Discards the errors of costs of which only a combination is determined. */
static void forget_errors(dl_table_fit *fit)
{
    for (size_t j = 0; j < fit->unknown.count && fit->rank < fit->determined; j++) {
        if (fit->estimates[j].confused > 0) fit->estimates[j].error = (double)NAN;
    }
}

static double sum_of_weights(const dl_table_model *model)
{
    double sum = 0;
    for (size_t i = 0; i < model->row_count; i++)
        sum += model->use[i] ? row_weight(model, i) : 0;
    return sum;
}

/* Returns the root mean square of dr/dx over the rows of the parts that have this cost; `length` is
 * the Euclidean norm of dr/dx over all rows. */
static double effect_of(const dl_table_model *model, size_t cost, double length)
{
    double rows = 0;
    for (size_t i = 0; i < model->row_count; i++) {
        const size_t part = model->rows[i].part;
        if (!model->use[i] || model->unknown->items[cost].value[part] == NULL) continue;
        rows += model->scale[part] * model->scale[part];
    }
    return length / sqrt(rows);
}

/* Variance s^2 of the rows around the fit at x; NaN without degrees of freedom. */
static double variance_at(dl_table_model *model, const double *x)
{
    const double free_rows = sum_of_weights(model) - (double)dl_table_model_costs(model);
    return free_rows > 1e-9 ? dl_table_model_squares(model, x) / free_rows : (double)NAN;
}

/* Finds the bounds of the undetermined costs and fixes each in x: at its known value if the rows
 * allow it, else at a rate's bound; a time, or a rate without a bound, stays where steps are
 * shortest. Then refits the determined costs. */
static void bound_undetermined(dl_table_fit *fit, dl_table_model *model, double *x)
{
    const double variance = fmax(variance_at(model, x), DL_TABLE_SIGMA_MIN * DL_TABLE_SIGMA_MIN);
    double held[DL_TABLE_COSTS_MAX];
    memcpy(held, x, fit->unknown.count * sizeof *held);
    for (size_t j = 0; j < fit->unknown.count; j++) {
        const dl_table_cost *cost = &fit->unknown.items[j];
        dl_table_estimate *e = &fit->estimates[j];
        e->at_most = !dl_table_is_rate(cost);
        e->bound = e->enough = (double)NAN;
        if (model->active[j]) continue;
        e->bound = find_bound(model, x, j, 4 * variance);
        e->kept = cost->was_known &&
                  (isnan(e->bound) || (e->at_most ? cost->was <= e->bound : cost->was >= e->bound));
        if (e->kept) {
            held[j] = log(cost->was);
        } else if (!e->at_most && !isnan(e->bound)) {
            e->enough = find_bound(model, x, j, NEEDLESS * variance);
            held[j] = log(e->bound);
        }
    }
    memcpy(x, held, fit->unknown.count * sizeof *held);
    if (dl_table_model_costs(model) > 0 && model->status == DL_OK) dl_table_model_descend(model, x);
}

/* Sets the values and errors of the costs at x, the end of the search. */
static dl_status estimate(dl_table_fit *fit, dl_table_model *model, const double *x)
{
    DL_SCOPED(dl_collinearity) a = {0};
    size_t index[DL_TABLE_COSTS_MAX];
    list_active(model, index);
    const dl_status status = dl_table_model_differentiate(model, x, true);
    if (status == DL_OK) {
        analyse(model, &a);
        const double variance = variance_at(model, x);
        fit->determined = a.p;
        fit->condition = dl_collinearity_condition(&a);
        fit->rank = dl_collinearity_rank(&a);
        for (size_t j = 0; j < fit->unknown.count; j++)
            fit->estimates[j].value = fit->estimates[j].error = (double)NAN;
        for (size_t j = 0; j < a.p; j++) {
            dl_table_estimate *e = &fit->estimates[index[j]];
            fit->singular_values[j] = gsl_vector_get(a.s, j);
            e->determined = true;
            e->effect = effect_of(model, index[j], a.length[j]);
            e->value = exp(x[index[j]]);
            e->error = e->value * sqrt(variance) * dl_collinearity_error(&a, j);
        }
        int group[DL_TABLE_COSTS_MAX];
        dl_collinearity_groups(&a, group);
        for (size_t j = 0; j < a.p; j++)
            fit->estimates[index[j]].confused = group[j];
        forget_errors(fit);
    }
    return status != DL_OK ? status : model->status;
}

/* Sets fitted throughputs and marks outliers; the model's costs must be those of the fit. */
static void evaluate_rows(dl_table_fit *fit, const dl_table_model *model)
{
    const double nan = (double)NAN;
    double squares[DL_TABLE_PARTS_MAX] = {0}, all = 0;
    for (size_t p = 0; p < fit->part_count; p++) {
        fit->parts[p].quality.sigma_frac = dl_table_sigma(model, p);
        fit->parts[p].quality.outlier_sigmas = outlier_sigmas(model, p);
    }
    for (size_t i = 0; i < model->row_count; i++) {
        const dl_table_row *row = model->rows[i].row;
        const size_t part = model->rows[i].part;
        dl_table_residual *residual = residual_of(fit, model, i);
        *residual = (dl_table_residual){nan, nan, nan, nan, false};
        if (row->failed) continue;
        const double r = dl_table_model_residual(model, i);
        residual->fitted_per_s = row->throughput_per_s * exp(-r);
        residual->error_frac = expm1(-r);
        residual->weight = row_weight(model, i);
        const dl_table_quality *quality = &fit->parts[part].quality;
        residual->unexplained = fabs(r) > quality->outlier_sigmas * quality->sigma_frac;
        squares[part] += r * r;
        all += r * r;
    }
    for (size_t p = 0; p < fit->part_count; p++) {
        dl_table_quality *quality = &fit->parts[p].quality;
        quality->rms_frac = sqrt(squares[p] / (double)quality->used);
        const double freedom = (double)quality->used - (double)costs_of(model, p);
        if (freedom < DL_TABLE_SCATTER) continue;
        const double scatter = fmin(1, sqrt(squares[p] / freedom));
        fit->parts[p].costs.run_spread_frac = (dl_value){.known = true,
                                                         .value = scatter,
                                                         .error = scatter / sqrt(2 * freedom),
                                                         .count = (int64_t)quality->used,
                                                         .origin = DL_ORIGIN_FITTED};
    }
    fit->quality.rms_frac = sqrt(all / (double)fit->quality.used);
    fit->quality.sigma_frac = fit->part_count == 1 ? fit->parts->quality.sigma_frac : nan;
}

/* Returns whether the rows used determine as many combinations of the active costs as all rows do,
 * according to the Jacobian at the end of a descent, and every active cost affects them. */
static bool all_determined(const dl_table_fit *fit, const dl_table_model *model)
{
    DL_SCOPED(dl_collinearity) a;
    size_t index[DL_TABLE_COSTS_MAX];
    list_active(model, index);
    analyse(model, &a);
    bool determined = dl_collinearity_rank(&a) >= fit->rank;
    for (size_t j = 0; j < a.p; j++)
        determined &= effect_of(model, index[j], a.length[j]) >= DL_TABLE_NO_EFFECT;
    return determined;
}

/* Fits without the rows of a point, and sets the left-out errors of these rows. */
static void leave_out(dl_table_fit *fit, dl_table_model *model, const double *x, size_t point)
{
    double moved[DL_TABLE_COSTS_MAX];
    memcpy(moved, x, fit->unknown.count * sizeof *moved);
    for (size_t i = 0; i < model->row_count; i++)
        model->use[i] = !model->rows[i].row->failed && model->rows[i].point != point;
    const size_t n = dl_table_model_rows(model);
    bool fitted = n > 0 && n >= dl_table_model_costs(model);
    if (fitted) fitted = isfinite(dl_table_model_descend(model, moved));
    if (fitted) fitted = all_determined(fit, model);
    for (size_t i = 0; i < model->row_count; i++)
        model->use[i] = !model->rows[i].row->failed;
    if (!fitted || dl_table_model_set(model, moved) != DL_OK) return;
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->use[i] || model->rows[i].point != point) continue;
        residual_of(fit, model, i)->left_out_frac = expm1(-dl_table_model_residual(model, i));
    }
}

/* Computes the mean and the maximum of the left-out errors over the parts begin..end - 1. */
static void sum_left_out(const dl_table_fit *fit, size_t begin, size_t end,
                         dl_table_quality *quality)
{
    double sum = 0, most = 0;
    for (size_t p = begin; p < end; p++) {
        for (size_t i = 0; i < fit->parts[p].rows.count; i++) {
            const double off = fabs(fit->parts[p].residuals[i].left_out_frac);
            if (isnan(off)) continue;
            sum += off;
            most = fmax(most, off);
            quality->left_out_count++;
        }
    }
    const bool any = quality->left_out_count > 0;
    quality->left_out_mean_frac = any ? sum / (double)quality->left_out_count : (double)NAN;
    quality->left_out_max_frac = any ? most : (double)NAN;
}

static dl_status leave_each_out(dl_table_fit *fit, dl_table_model *model, const double *x)
{
    const size_t costs = dl_table_model_costs(model);
    const size_t points = model->first_point[model->part_count];
    if (costs > 0 && dl_table_model_has_rows(model, DL_TABLE_ROWS_LINEAR) && fit->rank == costs) {
        const dl_status status = table_leave_out_linear(fit, model, x);
        if (status != DL_OK) return status;
    } else {
        for (size_t p = 0; p < points; p++) {
            /* Every point needs the Jacobian at x; its simulations are in the cache. */
            const dl_status status = dl_table_model_differentiate(model, x, true);
            if (status != DL_OK) return status;
            dl_table_show(model, "of %lld points left out", p, points);
            leave_out(fit, model, x, p);
        }
    }
    for (size_t p = 0; p < fit->part_count; p++)
        sum_left_out(fit, p, p + 1, &fit->parts[p].quality);
    sum_left_out(fit, 0, fit->part_count, &fit->quality);
    return model->status;
}

/* Number of rows that a cost was fitted to. */
static int64_t rows_of(const dl_table_fit *fit, size_t cost)
{
    const dl_table_cost *item = &fit->unknown.items[cost];
    return (int64_t)(item->shared ? fit->quality.used : fit->parts[item->part].quality.used);
}

/* Value, in a part's cost file, of a cost that the rows do not determine: its known value; else a
 * time from 0, or its key's minimum, up to the bound, or a rate from the bound up; unknown if no
 * row depends on it. */
static dl_value undetermined_value(const dl_table_fit *fit, size_t j)
{
    const dl_table_estimate *e = &fit->estimates[j];
    const dl_table_cost *cost = &fit->unknown.items[j];
    if (e->kept) return cost->before;
    if (isnan(e->bound)) return (dl_value){0};
    const double least = e->at_most ? fmax(cost->low, 0) : e->bound;
    return (dl_value){
        .known = true,
        .value = least,
        .low = least,
        .high = e->at_most ? e->bound : e->enough,
        .count = rows_of(fit, j),
        .origin = DL_ORIGIN_FITTED,
    };
}

/* Sets the costs to the values for their cost files. */
static void set_values(dl_table_fit *fit)
{
    for (size_t j = 0; j < fit->unknown.count; j++) {
        const dl_table_estimate *e = &fit->estimates[j];
        const dl_value bounded = undetermined_value(fit, j);
        /* The rows determine this cost itself, not only a combination with other costs. */
        const bool split_known = e->confused == 0 || fit->rank == fit->determined;
        const dl_value value = {
            .known = true,
            .value = e->value,
            .error = isnan(e->error) ? 0 : e->error,
            .count = rows_of(fit, j),
            .origin = split_known ? DL_ORIGIN_FITTED : DL_ORIGIN_ASSUMED,
        };
        dl_table_cost_set(&fit->unknown.items[j], e->determined ? &value : &bounded);
    }
}

/* Sets the range of the workers' batches, unless the cost file has a range. */
static void set_batches(dl_table_part *part)
{
    dl_costs *costs = &part->costs;
    if (costs->batch_min > 0 || costs->batch_max > 0) return;
    for (size_t p = 0; p < part->scenario.point_count; p++) {
        const dl_point *point = &part->scenario.points[p];
        const int64_t batch =
            point->batch / point->workers / (int64_t)point->option[DL_SYNC_ACCUMULATE];
        if (costs->batch_min == 0 || batch < costs->batch_min) costs->batch_min = batch;
        if (batch > costs->batch_max) costs->batch_max = batch;
    }
}

static dl_status check_rows(const dl_table_part *part, size_t rows, size_t costs, dl_error *err)
{
    if (rows >= costs) return DL_OK;
    return dl_error_set_at(err, DL_ERR_DATA, part->rows.path, 0,
                           "%zu rows cannot determine %zu costs; --fit names fewer", rows, costs);
}

/* Checks that each part has enough rows for its own costs, and all parts for all costs. */
static dl_status check_all_rows(const dl_table_fit *fit, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t p = 0; p < fit->part_count && status == DL_OK; p++) {
        size_t own = 0;
        for (size_t j = 0; j < fit->unknown.count; j++)
            own += fit->unknown.items[j].part == p && !fit->unknown.items[j].shared;
        status = check_rows(&fit->parts[p], fit->parts[p].quality.used, own, err);
    }
    return status == DL_OK ? check_rows(fit->parts, fit->quality.used, fit->unknown.count, err)
                           : status;
}

static dl_status fit_costs(dl_table_fit *fit, const dl_table_fit_config *config, dl_error *err)
{
    dl_status status = check_all_rows(fit, err);
    if (status != DL_OK) return status;
    double x[DL_TABLE_COSTS_MAX];
    DL_SCOPED(dl_table_model) model = {0};
    dl_table_model_init(&model, fit->parts, fit->part_count, &fit->unknown, config->threads);
    model.cluster = config->cluster;
    model.journal = fit->journal;
    model.next = &fit->journal_next;
    model.config = config;
    dl_table_model_search(&model, config->near, x);
    status = model.status;
    if (status == DL_OK) status = table_reweigh(&model, x);
    if (status == DL_OK) status = drop_needless(&model, x);
    if (status == DL_OK) bound_undetermined(fit, &model, x);
    if (status == DL_OK) status = estimate(fit, &model, x);
    if (status == DL_OK) status = dl_table_model_set(&model, x);
    if (status == DL_OK) evaluate_rows(fit, &model);
    if (status == DL_OK) status = leave_each_out(fit, &model, x);
    if (status == DL_OK) status = dl_table_propose(&fit->proposal, &model, x);
    fit->runs = model.runs;
    if (status != DL_OK && err != NULL) *err = model.error;
    if (status == DL_OK) set_values(fit);
    if (status != DL_OK) return status;
    for (size_t p = 0; p < fit->part_count; p++)
        set_batches(&fit->parts[p]);
    dl_table_notes_add(fit);
    return DL_OK;
}

static dl_status read_part(dl_table_part *part, const dl_table_part_config *config, const char *use,
                           dl_error *err)
{
    dl_scenario *scenario = &part->scenario;
    dl_status status;
    if ((status = dl_table_scenario_read(scenario, &part->costs, config->scenario_path,
                                         config->scenario_text, err)) ||
        (status = dl_table_rows_read(&part->rows, config->table_path, use, scenario, err))) {
        return status;
    }
    part->residuals = dl_calloc(part->rows.count, sizeof *part->residuals, "residuals");
    part->quality.used = part->rows.used;
    return DL_OK;
}

static dl_status read_all(dl_table_fit *fit, const dl_table_fit_config *config, dl_error *err)
{
    dl_status status = DL_OK;
    fit->parts = dl_calloc(config->part_count, sizeof *fit->parts, "scenarios and tables");
    fit->part_count = config->part_count;
    for (size_t p = 0; p < config->part_count && status == DL_OK; p++) {
        dl_table_part *part = &fit->parts[p];
        status = read_part(part, &config->parts[p], config->use, err);
        if (status == DL_OK) {
            status = dl_table_costs_add(&fit->unknown, part, p, config->share,
                                        config->parts[p].names, err);
        }
        fit->quality.used += part->quality.used;
    }
    return status;
}

static dl_status open_journal(dl_table_fit *fit, const dl_table_fit_config *config, uint64_t key,
                              dl_error *err)
{
    dl_status status = DL_OK;
    if (config->journal != NULL) {
        status = dl_journal_open(&fit->journal, config->journal, key, 0, err);
    }
    return config->cluster != NULL ? dl_cluster_agree(config->cluster, status, err) : status;
}

/* Saves the results simulated before a failure too; the failure's status takes precedence. */
static dl_status flush_journal(dl_table_fit *fit, dl_status status, dl_error *err)
{
    dl_error why = {0};
    if (fit->journal == NULL || dl_journal_flush(fit->journal, &why) == DL_OK) return status;
    if (status != DL_OK) return status;
    if (err != NULL) *err = why;
    return why.code;
}

dl_status dl_table_fit_run(dl_table_fit *fit, const dl_table_fit_config *config, dl_error *err)
{
    uint64_t key;
    dl_status status = read_all(fit, config, err);
    status = dl_table_ranks_compare(fit, config, status, &key, err);
    if (status == DL_OK) status = open_journal(fit, config, key, err);
    if (status != DL_OK) return status;
    if (config->cluster != NULL && config->cluster->rank > 0) {
        return dl_table_ranks_serve(fit, config, err);
    }
    status = fit_costs(fit, config, err);
    dl_table_ranks_end(fit, config->cluster);
    return flush_journal(fit, status, err);
}

void dl_table_fit_end_journal(dl_table_fit *fit)
{
    dl_journal_end(fit->journal, true);
    fit->journal = NULL;
}

void dl_table_fit_free(dl_table_fit *fit)
{
    for (size_t p = 0; p < fit->part_count; p++) {
        dl_table_rows_free(&fit->parts[p].rows);
        dl_costs_free(&fit->parts[p].costs);
        dl_scenario_free(&fit->parts[p].scenario);
        dl_notes_free(&fit->parts[p].notes);
        free(fit->parts[p].residuals);
    }
    free(fit->parts);
    dl_table_costs_free(&fit->unknown);
    dl_notes_free(&fit->notes);
    dl_journal_end(fit->journal, false);
    free(fit->proposal.name);
    *fit = (dl_table_fit){0};
}
