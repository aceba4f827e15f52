#include "calibrate/table/table_robust.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "calibrate/table/table_fit.h"
#include "common/alloc.h"

/* Normal distribution: sd over median absolute deviation. */
#define MAD_TO_SD 1.4826
/* Bisquare: 95 % efficient where errors are normal. */
#define TUNING 4.685
/* Most rounds of each kind of weight, and the change of a weight that ends them. */
#define ROUNDS 20
#define SETTLED 0.01

double dl_table_sigma(const dl_table_model *model)
{
    const size_t n = dl_table_model_rows(model), p = dl_table_model_costs(model);
    double *size = dl_calloc(n, sizeof *size, "absolute residuals");
    size_t count = 0;
    for (size_t i = 0; i < model->rows->count; i++) {
        if (model->use[i]) size[count++] = fabs(dl_table_model_residual(model, i));
    }
    gsl_sort(size, 1, n);
    /* A fit of p costs can make p - 1 residuals small beside the one that it always can. */
    const size_t skipped = p > 1 && p <= n ? p - 1 : 0;
    const double median = gsl_stats_median_from_sorted_data(size + skipped, 1, n - skipped);
    free(size);
    return fmax(MAD_TO_SD * median, DL_TABLE_SIGMA_MIN);
}

/* Least absolute values as weighted squares; the smallest residuals weigh 1. */
static double weight_absolute(double r, double sigma)
{
    (void)sigma;
    return DL_TABLE_SIGMA_MIN / fmax(fabs(r), DL_TABLE_SIGMA_MIN);
}

static double weight_bisquare(double r, double sigma)
{
    const double u = r / (TUNING * sigma);
    return fabs(u) < 1 ? pow(1 - u * u, 2) : 0;
}

/* Weighs the rows by their residuals at x; returns the largest change of a weight. */
static double weigh(dl_table_model *model, double (*weight)(double r, double sigma))
{
    const double sigma = dl_table_sigma(model);
    double change = 0;
    for (size_t i = 0; i < model->rows->count; i++) {
        if (!model->use[i]) continue;
        const double w = weight(dl_table_model_residual(model, i), sigma);
        change = fmax(change, fabs(w - model->weight[i]));
        model->weight[i] = w;
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

dl_status dl_table_reweigh(dl_table_model *model, double *x)
{
    if (dl_table_model_rows(model) < DL_TABLE_ROWS_A_COST * dl_table_model_costs(model)) {
        return DL_OK;
    }
    const dl_status status = iterate(model, x, weight_absolute);
    return status == DL_OK ? iterate(model, x, weight_bisquare) : status;
}
