#include "calibrate/fit.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

#include "common/alloc.h"

#define DL_FIT_BLOCK_MIN 8 /* minimum block length, in samples of 128 values or more */

#define BISQUARE_MIN 5 /* minimum number of blocks for the robust estimate */
#define TAU_MIN 1e-9   /* lower bound of tau; keeps the weight of points with error 0 finite */
#define TAU_STEPS 60   /* number of bisections of log tau */

static double *sorted_copy(const double *values, size_t n)
{
    double *copy = dl_calloc(n, sizeof *copy, "sorted values");
    memcpy(copy, values, n * sizeof *copy);
    gsl_sort(copy, 1, n);
    return copy;
}

static double midmean(const double *values, size_t n)
{
    DL_AUTOFREE double *sorted = sorted_copy(values, n);
    return gsl_stats_trmean_from_sorted_data(0.25, sorted, 1, n);
}

static size_t block_count(size_t n)
{
    if (n < DL_FIT_BLOCK_MIN * DL_FIT_BLOCKS / 2) return n;
    const size_t blocks = n / DL_FIT_BLOCK_MIN;
    return blocks < DL_FIT_BLOCKS ? blocks : DL_FIT_BLOCKS;
}

dl_estimate dl_fit_mean(const double *values, size_t n)
{
    const double sd = n > 1 ? gsl_stats_sd(values, 1, n) : 0;
    return (dl_estimate){gsl_stats_mean(values, 1, n), sd / sqrt((double)n), (int64_t)n};
}

/* Fits a constant by gsl_multifit_robust. */
static int bisquare(const double *values, size_t n, dl_estimate *location)
{
    gsl_multifit_robust_workspace *work =
        gsl_multifit_robust_alloc(gsl_multifit_robust_bisquare, n, 1);
    gsl_matrix *ones = gsl_matrix_alloc(n, 1);
    gsl_vector *constant = gsl_vector_alloc(1);
    gsl_matrix *covariance = gsl_matrix_alloc(1, 1);
    int code = GSL_ENOMEM;
    if (work != NULL && ones != NULL && constant != NULL && covariance != NULL) {
        gsl_matrix_set_all(ones, 1);
        const gsl_vector_const_view y = gsl_vector_const_view_array(values, n);
        code = gsl_multifit_robust(ones, &y.vector, constant, covariance, work);
        /* If the iteration alternates between two location estimates, either is acceptable. */
        if (code == GSL_EMAXITER) code = GSL_SUCCESS;
    }
    if (code == GSL_SUCCESS) {
        location->value = gsl_vector_get(constant, 0);
        location->error = sqrt(gsl_matrix_get(covariance, 0, 0));
    }
    if (covariance != NULL) gsl_matrix_free(covariance);
    if (constant != NULL) gsl_vector_free(constant);
    if (ones != NULL) gsl_matrix_free(ones);
    if (work != NULL) gsl_multifit_robust_free(work);
    return code;
}

/* Returns whether at least half of the values equal their median, as for an operation of a few ns
 * on a clock of whole ns: the robust scale is then 0, and the weights would be 0/0. */
static bool most_are_equal(const double *values, size_t n)
{
    DL_AUTOFREE double *sorted = sorted_copy(values, n);
    const double median = gsl_stats_median_from_sorted_data(sorted, 1, n);
    size_t equal = 0;
    for (size_t i = 0; i < n; i++) {
        if (fabs(values[i] - median) <= 1e-12 * fabs(median)) equal++;
    }
    return 2 * equal >= n;
}

dl_status dl_fit_location(const double *values, size_t n, dl_estimate *location, dl_error *err)
{
    DL_ASSERT(n >= 1, "n = %zu", n);
    const size_t blocks = block_count(n);
    DL_AUTOFREE double *centers = dl_calloc(blocks, sizeof *centers, "block centres");
    for (size_t b = 0; b < blocks; b++) {
        const size_t first = b * n / blocks, end = (b + 1) * n / blocks;
        centers[b] = midmean(values + first, end - first);
    }
    dl_estimate found = dl_fit_mean(centers, blocks);
    int code = GSL_SUCCESS;
    if (blocks >= BISQUARE_MIN && found.error > 0 && !most_are_equal(centers, blocks)) {
        code = bisquare(centers, blocks, &found);
    }
    found.count = (int64_t)n;
    if (code != GSL_SUCCESS || !isfinite(found.value) || !isfinite(found.error)) {
        return dl_error_set(err, DL_ERR_DATA, "no centre of %zu values: %s", n,
                            code != GSL_SUCCESS ? gsl_strerror(code) : "not finite");
    }
    *location = found;
    return DL_OK;
}

dl_estimate dl_fit_median(const double *values, size_t n)
{
    DL_ASSERT(n >= 1, "n = %zu", n);
    DL_AUTOFREE double *sorted = sorted_copy(values, n);
    dl_estimate median = {gsl_stats_median_from_sorted_data(sorted, 1, n), 0, (int64_t)n};
    /* The number of values below the true median has the standard deviation sqrt(n) / 2, so the
     * order statistics at this distance on either side lie one standard error away. */
    const double half = sqrt((double)n) / 2;
    const double middle = (double)(n - 1) / 2;
    const size_t low = (size_t)fmax(0, floor(middle - half));
    const size_t high = (size_t)fmin((double)n - 1, ceil(middle + half));
    median.error = (sorted[high] - sorted[low]) / 2;
    return median;
}

dl_fit_shape dl_fit_shape_of(const double *values, size_t n)
{
    DL_ASSERT(n >= 1, "n = %zu", n);
    DL_AUTOFREE double *sorted = sorted_copy(values, n);
    dl_fit_shape shape = {.mean = gsl_stats_mean(values, 1, n),
                          .p99 = gsl_stats_quantile_from_sorted_data(sorted, 1, n, 0.99)};
    if (n > 1) shape.sd = gsl_stats_sd(values, 1, n);
    if (shape.sd > 0) shape.lag1 = gsl_stats_lag1_autocorrelation(values, 1, n);
    return shape;
}

/* Workspace of one problem; uses only the terms with active[j]. */
typedef struct solver {
    const dl_fit_problem *problem;
    bool active[DL_FIT_TERMS_MAX];
    size_t active_count;
    gsl_matrix *terms; /* [n x active_count] */
    gsl_vector *weights, *coefficients;
    gsl_matrix *covariance;
    gsl_multifit_linear_workspace *work;
    double chi2;
} solver;

static void solver_free(solver *s)
{
    if (s->terms != NULL) gsl_matrix_free(s->terms);
    if (s->weights != NULL) gsl_vector_free(s->weights);
    if (s->coefficients != NULL) gsl_vector_free(s->coefficients);
    if (s->covariance != NULL) gsl_matrix_free(s->covariance);
    if (s->work != NULL) gsl_multifit_linear_free(s->work);
    *s = (solver){0};
}

static int solver_init(solver *s, const dl_fit_problem *problem, const bool *active)
{
    *s = (solver){.problem = problem};
    for (size_t j = 0; j < problem->p; j++) {
        s->active[j] = active[j];
        s->active_count += active[j];
    }
    s->terms = gsl_matrix_alloc(problem->n, s->active_count);
    s->weights = gsl_vector_alloc(problem->n);
    s->coefficients = gsl_vector_alloc(s->active_count);
    s->covariance = gsl_matrix_alloc(s->active_count, s->active_count);
    s->work = gsl_multifit_linear_alloc(problem->n, s->active_count);
    if (s->terms == NULL || s->weights == NULL || s->coefficients == NULL ||
        s->covariance == NULL || s->work == NULL) {
        return GSL_ENOMEM;
    }
    for (size_t i = 0; i < problem->n; i++) {
        size_t column = 0;
        for (size_t j = 0; j < problem->p; j++) {
            if (!active[j]) continue;
            gsl_matrix_set(s->terms, i, column++, problem->terms[i * problem->p + j]);
        }
    }
    return GSL_SUCCESS;
}

/* Weighted least squares with the variances given by `tau`. */
static int solve_at(solver *s, double tau)
{
    const dl_fit_problem *problem = s->problem;
    for (size_t i = 0; i < problem->n; i++) {
        const double own = problem->error[i], common = tau * problem->scale[i];
        gsl_vector_set(s->weights, i, 1 / (own * own + common * common));
    }
    const gsl_vector_const_view y = gsl_vector_const_view_array(problem->y, problem->n);
    size_t rank;
    const int code =
        gsl_multifit_wlinear_tsvd(s->terms, s->weights, &y.vector, 1e-12, s->coefficients,
                                  s->covariance, &s->chi2, &rank, s->work);
    return code == GSL_SUCCESS && rank < s->active_count ? GSL_ESING : code;
}

/* chi^2 decreases as tau grows; bisects for chi^2 = n - p. */
static int solve_for_tau(solver *s, double *tau)
{
    const double freedom = (double)(s->problem->n - s->active_count);
    double low = TAU_MIN, high = TAU_MIN;
    int code = solve_at(s, low);
    if (code != GSL_SUCCESS || s->chi2 <= freedom || freedom <= 0) {
        *tau = 0;
        return code;
    }
    while (code == GSL_SUCCESS && s->chi2 > freedom) {
        low = high;
        high *= 10;
        code = solve_at(s, high);
    }
    for (int i = 0; code == GSL_SUCCESS && i < TAU_STEPS; i++) {
        *tau = sqrt(low * high);
        code = solve_at(s, *tau);
        if (s->chi2 > freedom) {
            low = *tau;
        } else {
            high = *tau;
        }
    }
    return code;
}

/* Removes the most significantly negative coefficient from `active`; returns false if there is
 * none, or if it is the only active one. */
static bool hold_negative(const solver *s, bool *active)
{
    double worst = 0;
    size_t held = DL_FIT_TERMS_MAX, column = 0;
    for (size_t j = 0; j < s->problem->p; j++) {
        if (!s->active[j]) continue;
        const double value = gsl_vector_get(s->coefficients, column);
        const double z = value / sqrt(gsl_matrix_get(s->covariance, column, column));
        column++;
        if (value >= 0 || !(z < worst)) continue;
        worst = z;
        held = j;
    }
    if (held == DL_FIT_TERMS_MAX || s->active_count == 1) return false;
    active[held] = false;
    return true;
}

static void take_result(const solver *s, double tau, dl_fit_line *line)
{
    *line = (dl_fit_line){.tau = tau};
    size_t column = 0;
    for (size_t j = 0; j < s->problem->p; j++) {
        line->held_at_zero[j] = !s->active[j];
        if (!s->active[j]) continue;
        line->coefficient[j] = gsl_vector_get(s->coefficients, column);
        line->error[j] = sqrt(gsl_matrix_get(s->covariance, column, column));
        if (line->coefficient[j] < 0) {
            line->coefficient[j] = line->error[j] = 0;
            line->held_at_zero[j] = true;
        }
        column++;
    }
}

dl_status dl_fit_solve(const dl_fit_problem *problem, dl_fit_line *line, dl_error *err)
{
    DL_ASSERT(problem->p >= 1 && problem->p <= DL_FIT_TERMS_MAX, "p = %zu", problem->p);
    if (problem->n < problem->p) {
        return dl_error_set(err, DL_ERR_DATA, "%zu points do not determine %zu parameters",
                            problem->n, problem->p);
    }
    bool active[DL_FIT_TERMS_MAX] = {true, true, true};
    dl_fit_line found = {0};
    int code;
    bool again;
    do {
        DL_SCOPED(solver) s;
        double tau = 0;
        code = solver_init(&s, problem, active);
        if (code == GSL_SUCCESS) code = solve_for_tau(&s, &tau);
        again = code == GSL_SUCCESS && hold_negative(&s, active);
        if (code == GSL_SUCCESS && !again) take_result(&s, tau, &found);
    } while (again);
    if (code == GSL_ESING) {
        return dl_error_set(err, DL_ERR_DATA,
                            "the points do not determine the %zu parameters separately",
                            problem->p);
    }
    if (code != GSL_SUCCESS) {
        return dl_error_set(err, DL_ERR_DATA, "the fit fails: %s", gsl_strerror(code));
    }
    *line = found;
    return DL_OK;
}

dl_status dl_fit_constant(const double *y, const double *error, const double *scale, size_t n,
                          dl_estimate *constant, dl_error *err)
{
    DL_AUTOFREE double *ones = dl_calloc(n, sizeof *ones, "fit points");
    for (size_t i = 0; i < n; i++)
        ones[i] = 1;
    dl_fit_line line;
    const dl_status status =
        dl_fit_solve(&(dl_fit_problem){n, 1, ones, y, error, scale}, &line, err);
    if (status == DL_OK) *constant = (dl_estimate){line.coefficient[0], line.error[0], (int64_t)n};
    return status;
}
