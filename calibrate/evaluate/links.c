#include "calibrate/evaluate/evaluate.h"

#include <gsl/gsl_fit.h>
#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"

static void add(dl_link_errors *errors, double bytes, double frac)
{
    errors->mean_frac += (frac - errors->mean_frac) / (double)++errors->count;
    if (frac <= errors->max_frac && errors->count > 1) return;
    errors->max_frac = frac;
    errors->max_bytes = bytes;
}

/* Least squares of absolute times, the usual practice. */
static void fit_usual(const dl_link_point *points, size_t n, double *latency, double *slope)
{
    double *bytes = dl_calloc(2 * n, sizeof *bytes, "sizes and times"), *time = bytes + n;
    double cov00, cov01, cov11, sum;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = points[i].bytes;
        time[i] = points[i].time_ns;
    }
    gsl_fit_linear(bytes, 1, time, 1, n, latency, slope, &cov00, &cov01, &cov11, &sum);
    free(bytes);
}

/* Relative error at point i of the log-log interpolation between its two neighbours; NaN at both
 * ends. */
static double beside(const dl_link_point *points, size_t n, size_t i)
{
    if (i == 0 || i + 1 == n) return (double)NAN;
    const dl_link_point *before = &points[i - 1], *at = &points[i], *behind = &points[i + 1];
    const double share = log(at->bytes / before->bytes) / log(behind->bytes / before->bytes);
    return before->time_ns * pow(behind->time_ns / before->time_ns, share) / at->time_ns - 1;
}

dl_status dl_link_evaluate(dl_link_evaluation *evaluation, const dl_link_point *points, size_t n,
                           size_t begin, const dl_link_fit *all, dl_error *err)
{
    if (n < DL_LINK_EVALUATE_MIN) {
        return dl_error_set(err, DL_ERR_DATA, "%zu sizes: half of them are too few", n);
    }
    DL_AUTOFREE dl_link_point *seen = dl_calloc(n, sizeof *seen, "sizes to fit");
    size_t seen_count = 0;
    for (size_t i = begin; i < n; i += 2)
        seen[seen_count++] = points[i];
    DL_SCOPED(dl_link_fit) fit = {0};
    const dl_status status = dl_link_fit_run(&fit, seen, seen_count, err);
    if (status == DL_OK) {
        double latency, slope;
        fit_usual(seen, seen_count, &latency, &slope);
        *evaluation = (dl_link_evaluation){.regimes = fit.regime_count};
        evaluation->error_frac = dl_calloc(n, sizeof *evaluation->error_frac, "errors");
        evaluation->beside_frac = dl_calloc(n, sizeof *evaluation->beside_frac, "errors beside");
        for (size_t i = begin; i < n; i += 2)
            evaluation->error_frac[i] = evaluation->beside_frac[i] = (double)NAN;
        for (size_t i = 1 - begin; i < n; i += 2) {
            const double bytes = points[i].bytes, time = points[i].time_ns;
            evaluation->error_frac[i] = dl_link_fit_time_ns(&fit, bytes) / time - 1;
            const double error = fabs(evaluation->error_frac[i]);
            add(&evaluation->fit, bytes, error);
            const double usual = fabs((latency + slope * bytes) / time - 1);
            add(&evaluation->usual, bytes, usual);
            evaluation->beside_frac[i] = beside(points, n, i);
            if (fabs(evaluation->beside_frac[i]) <= DL_LINK_EVEN_FRAC) {
                add(&evaluation->even, bytes, error);
            }
            if (all->outlier[i] || points[i].error_frac > DL_LINK_COARSE_FRAC) continue;
            add(&evaluation->rest, bytes, error);
            add(&evaluation->usual_rest, bytes, usual);
        }
    }
    return status;
}

void dl_link_evaluation_free(dl_link_evaluation *evaluation)
{
    free(evaluation->error_frac);
    free(evaluation->beside_frac);
    *evaluation = (dl_link_evaluation){0};
}
