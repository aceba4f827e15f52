#include "calibrate/evaluate/evaluate.h"

#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_qrng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "calibrate/table/table_internal.h"
#include "common/alloc.h"

/* Limits of GSL's driver. */
#define ITERATIONS 100
#define STEP_TOLERANCE 1e-8
#define GRADIENT_TOLERANCE 1e-12
#define GAMMA_MAX 10.0 /* upper bound of c in Pollux */
#define SPAN 1e3       /* ratio of the largest to the smallest start */

static dl_place place_of(const dl_table_row *row, const dl_scenario *scenario, int worker)
{
    if (row->gpus == NULL) return dl_gpu_options_place(scenario->gpu, worker);
    return dl_place_of_gpu(&scenario->gpu->machine, row->gpus[worker]);
}

dl_table_shape dl_table_shape_of(const dl_table_row *row, const dl_scenario *scenario)
{
    const int workers = row->point.workers;
    dl_table_shape shape = {.workers = workers,
                            .nodes = 1,
                            .batch = (double)row->point.batch / workers,
                            .step_s = (double)row->batch / row->throughput_per_s};
    for (int w = 1; w < workers && scenario->gpu != NULL; w++) {
        shape.nodes +=
            place_of(row, scenario, w).node != place_of(row, scenario, w - 1).node ? 1 : 0;
    }
    return shape;
}

double dl_table_linear_step_s(const dl_table_shape *rows, size_t count, double batch)
{
    /* The two batches that define the line: the nearest on each side, or the nearest two. */
    const dl_table_shape *low = NULL, *high = NULL;
    for (int end = 0; end < 2; end++) {
        const dl_table_shape *best = NULL, *other = end == 0 ? NULL : low;
        for (size_t i = 0; i < count; i++) {
            const dl_table_shape *row = &rows[i];
            if (row->workers > 1 || (other != NULL && row->batch == other->batch)) continue;
            const double off = fabs(row->batch - batch);
            const bool between = other != NULL && (row->batch - batch) * (other->batch - batch) < 0;
            const bool best_between =
                best != NULL && other != NULL && (best->batch - batch) * (other->batch - batch) < 0;
            if (best == NULL || (between && !best_between) ||
                (between == best_between && off < fabs(best->batch - batch))) {
                best = row;
            }
        }
        if (end == 0) low = best;
        if (end == 1) high = best;
    }
    if (low == NULL || high == NULL) return (double)NAN;
    return low->step_s +
           (high->step_s - low->step_s) * (batch - low->batch) / (high->batch - low->batch);
}

double dl_table_bytes_s(const dl_table_row *row, const dl_scenario *scenario,
                        double parameter_bytes)
{
    const int n = row->point.workers;
    if (n < 2 || scenario->gpu == NULL) return 0;
    double slowest = (double)INFINITY;
    for (int w = 0; w < n; w++) {
        dl_route route;
        dl_links_route(&scenario->gpu->links, place_of(row, scenario, w),
                       place_of(row, scenario, (w + 1) % n), &route);
        slowest = fmin(slowest, dl_links_route_rate(&scenario->gpu->links, &route));
    }
    return 2.0 * (n - 1) / n * parameter_bytes / slowest;
}

double dl_table_pollux_step_s(const dl_table_pollux *form, const dl_table_shape *row)
{
    const double *v = form->value, c = v[6];
    const double gradients = v[0] + v[1] * row->batch, more = row->workers - 2;
    if (row->workers < 2) return gradients;
    const double sync = row->nodes < 2 ? v[2] + v[3] * more : v[4] + v[5] * more;
    const double larger = fmax(gradients, sync); /* factored out to avoid overflow of the power */
    return larger * pow(pow(gradients / larger, c) + pow(sync / larger, c), 1 / c);
}

typedef struct problem {
    const dl_table_shape *rows;
    size_t count;
} problem;

/* Sets the form from x, with positive times and c within its bounds. */
static void set_form(dl_table_pollux *form, const gsl_vector *x)
{
    for (size_t j = 0; j + 1 < DL_TABLE_POLLUX_COSTS; j++)
        form->value[j] = exp(fmin(fmax(gsl_vector_get(x, j), -50), 50));
    const double last = gsl_vector_get(x, DL_TABLE_POLLUX_COSTS - 1);
    form->value[DL_TABLE_POLLUX_COSTS - 1] = 1 + (GAMMA_MAX - 1) / (1 + exp(-last));
}

static int residuals(const gsl_vector *x, void *user, gsl_vector *r)
{
    const problem *p = user;
    dl_table_pollux form;
    set_form(&form, x);
    for (size_t i = 0; i < p->count; i++) {
        gsl_vector_set(r, i, log(dl_table_pollux_step_s(&form, &p->rows[i]) / p->rows[i].step_s));
    }
    return GSL_SUCCESS;
}

/* Descends from one point; stores the end in *best if it is lower. */
static void descend(const problem *p, const gsl_vector *start, dl_table_pollux *best)
{
    gsl_multifit_nlinear_fdf fdf = {
        .f = residuals, .n = p->count, .p = DL_TABLE_POLLUX_COSTS, .params = (void *)(uintptr_t)p};
    const gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_workspace *work = gsl_multifit_nlinear_alloc(
        gsl_multifit_nlinear_trust, &parameters, fdf.n, DL_TABLE_POLLUX_COSTS);
    if (gsl_multifit_nlinear_init(start, &fdf, work) == GSL_SUCCESS) {
        int info = 0;
        /* Lack of progress also ends the iteration. */
        const int end = gsl_multifit_nlinear_driver(ITERATIONS, STEP_TOLERANCE, GRADIENT_TOLERANCE,
                                                    0, NULL, NULL, &info, work);
        (void)end;
        const gsl_vector *r = gsl_multifit_nlinear_residual(work);
        double squares = 0;
        for (size_t i = 0; i < p->count; i++)
            squares += pow(gsl_vector_get(r, i), 2);
        const double rms = sqrt(squares / (double)p->count);
        if (isnan(best->rms) || rms < best->rms) {
            set_form(best, gsl_multifit_nlinear_position(work));
            best->rms = rms;
        }
    }
    gsl_multifit_nlinear_free(work);
}

void dl_table_pollux_fit(dl_table_pollux *form, const dl_table_shape *rows, size_t count)
{
    *form = (dl_table_pollux){.rms = (double)NAN};
    if (count < DL_TABLE_POLLUX_COSTS) return;
    const problem p = {rows, count};
    double step_s = 0, batch = 0;
    for (size_t i = 0; i < count; i++) {
        step_s += log(rows[i].step_s) / (double)count;
        batch += log(rows[i].batch) / (double)count;
    }
    /* Middle of the starts, as logarithms of times: each term takes half of the geometric mean of
     * the steps, at the geometric mean of the batches and n - 2 = 10. The last number, 0, is the
     * middle of c's range. */
    const double middle[DL_TABLE_POLLUX_COSTS] = {step_s - log(2),
                                                  step_s - log(2) - batch,
                                                  step_s - log(2),
                                                  step_s - log(20),
                                                  step_s - log(2),
                                                  step_s - log(20),
                                                  0};
    gsl_qrng *sobol = gsl_qrng_alloc(gsl_qrng_sobol, DL_TABLE_POLLUX_COSTS);
    gsl_vector *start = gsl_vector_alloc(DL_TABLE_POLLUX_COSTS);
    for (int s = 0; s < DL_TABLE_POLLUX_STARTS; s++) {
        double u[DL_TABLE_POLLUX_COSTS];
        gsl_qrng_get(sobol, u);
        for (size_t j = 0; j < DL_TABLE_POLLUX_COSTS; j++) {
            const double span = j + 1 < DL_TABLE_POLLUX_COSTS ? log(SPAN) / 2 : 3;
            gsl_vector_set(start, j, middle[j] + (2 * u[j] - 1) * span);
        }
        descend(&p, start, form);
    }
    gsl_vector_free(start);
    gsl_qrng_free(sobol);
}

static dl_status read_all(dl_table_evaluation *j, const dl_table_part_config *config,
                          const char *path, dl_error *err)
{
    dl_status status;
    dl_costs before = {0}; /* costs before the fit; only their settings are used */
    if ((status = dl_table_scenario_read(&j->scenario, &before, config->scenario_path,
                                         config->scenario_text, err)) ||
        (status = dl_table_rows_read(&j->rows, path, NULL, &j->scenario, err))) {
        dl_costs_free(&before);
        return status;
    }
    dl_costs_free(&before);
    for (int m = 0; m < DL_TABLE_METHODS; m++) {
        j->off[m] = dl_calloc(j->rows.count, sizeof *j->off[m], "errors of predictions");
        for (size_t i = 0; i < j->rows.count; i++)
            j->off[m][i] = (double)NAN;
    }
    return DL_OK;
}

static dl_status simulate(dl_table_evaluation *j, const dl_table_part *fit, int threads,
                          dl_error *err)
{
    const size_t points = j->scenario.point_count;
    DL_AUTOFREE double *per_s = dl_calloc(points, sizeof *per_s, "throughputs");
    DL_AUTOFREE bool *wanted = dl_calloc(points, sizeof *wanted, "points to simulate");
    for (size_t p = 0; p < points; p++)
        wanted[p] = true;
    const dl_table_simulation simulation = {.scenario = &j->scenario,
                                            .costs = &fit->costs,
                                            .wanted = wanted,
                                            .steps = DL_TABLE_STEPS,
                                            .threads = threads};
    const dl_status status = dl_table_simulate(&simulation, per_s, err);
    for (size_t i = 0; i < j->rows.count && status == DL_OK; i++) {
        const dl_table_row *row = &j->rows.rows[i];
        if (row->failed) continue;
        const double own_per_s = per_s[row->at] * (double)row->batch / (double)row->point.batch;
        j->off[DL_TABLE_SIMULATOR][i] = row->throughput_per_s / own_per_s - 1;
    }
    return status;
}

static void predict_simply(dl_table_evaluation *j, const dl_table_part *fit)
{
    DL_AUTOFREE dl_table_shape *fitted =
        dl_calloc(fit->rows.used > 0 ? fit->rows.used : 1, sizeof *fitted, "fitted rows");
    for (size_t i = 0; i < fit->rows.count; i++) {
        if (fit->rows.rows[i].failed) continue;
        fitted[j->fitted_rows++] = dl_table_shape_of(&fit->rows.rows[i], &fit->scenario);
    }
    dl_table_pollux_fit(&j->form, fitted, j->fitted_rows);
    for (size_t i = 0; i < j->rows.count; i++) {
        const dl_table_row *row = &j->rows.rows[i];
        if (row->failed) continue;
        const dl_table_shape shape = dl_table_shape_of(row, &j->scenario);
        const double linear_s = dl_table_linear_step_s(fitted, j->fitted_rows, shape.batch);
        const double bytes_s =
            dl_table_bytes_s(row, &j->scenario, fmax(0, (double)fit->costs.parameter_bytes));
        j->off[DL_TABLE_LINEAR][i] = linear_s / shape.step_s - 1;
        j->off[DL_TABLE_BYTES][i] = (linear_s + bytes_s) / shape.step_s - 1;
        if (isnan(j->form.rms)) continue;
        j->off[DL_TABLE_POLLUX_FORM][i] =
            dl_table_pollux_step_s(&j->form, &shape) / shape.step_s - 1;
    }
}

static void summarise(dl_table_evaluation *j, dl_table_method method)
{
    dl_table_errors *e = &j->errors[method];
    DL_AUTOFREE double *size = dl_calloc(j->rows.count, sizeof *size, "errors of predictions");
    *e = (dl_table_errors){0};
    double sum = 0, most = -1;
    for (size_t i = 0; i < j->rows.count; i++) {
        const double off = fabs(j->off[method][i]);
        if (isnan(off)) continue;
        size[e->rows++] = off;
        sum += off;
        if (off <= most) continue;
        most = off;
        e->max_line = j->rows.rows[i].line;
    }
    gsl_sort(size, 1, e->rows);
    const bool any = e->rows > 0;
    e->median_frac = any ? gsl_stats_median_from_sorted_data(size, 1, e->rows) : (double)NAN;
    e->mean_frac = any ? sum / (double)e->rows : (double)NAN;
    e->max_frac = any ? most : (double)NAN;
}

dl_status dl_table_evaluate(dl_table_evaluation *evaluation, const dl_table_fit *fit,
                            const dl_table_fit_config *config, size_t part, const char *path,
                            dl_error *err)
{
    const dl_table_part *of = &fit->parts[part];
    dl_status status = read_all(evaluation, &config->parts[part], path, err);
    if (status == DL_OK) status = simulate(evaluation, of, config->threads, err);
    if (status != DL_OK) return status;
    predict_simply(evaluation, of);
    for (int m = 0; m < DL_TABLE_METHODS; m++)
        summarise(evaluation, (dl_table_method)m);
    return DL_OK;
}

void dl_table_evaluation_free(dl_table_evaluation *evaluation)
{
    dl_table_rows_free(&evaluation->rows);
    dl_scenario_free(&evaluation->scenario);
    for (int m = 0; m < DL_TABLE_METHODS; m++)
        free(evaluation->off[m]);
    *evaluation = (dl_table_evaluation){0};
}

void dl_table_evaluation_print(const dl_table_evaluation *j, FILE *out)
{
    static const char *const names[DL_TABLE_METHODS] = {
        "simulator, costs as above", "(G^c + S^c)^(1/c), same rows", "one GPU + bytes / bandwidth",
        "one GPU, linear speedup"};
    fprintf(out,
            "\nprediction of %s; off: |predicted step / measured - 1|\n  %-30s %6s %10s %10s %10s  "
            "%s\n",
            j->rows.path, "", "rows", "median [%]", "mean [%]", "max [%]", "at line");
    for (int m = 0; m < DL_TABLE_METHODS; m++) {
        const dl_table_errors *e = &j->errors[m];
        if (e->rows == 0) {
            fprintf(out, "  %-30s %6s\n", names[m], "none");
            continue;
        }
        fprintf(out, "  %-30s %6zu %10.2f %10.2f %10.1f  %d\n", names[m], e->rows,
                100 * e->median_frac, 100 * e->mean_frac, 100 * e->max_frac, e->max_line);
    }
    if (isnan(j->form.rms)) return;
    const double *v = j->form.value;
    fprintf(out,
            "G = %.4g + %.4g b; S = %.4g + %.4g (n-2) on a node, %.4g + %.4g (n-2) on several; c = "
            "%.2f;\nroot mean square %.2f %% of %zu fitted rows\n",
            v[0], v[1], v[2], v[3], v[4], v[5], v[6], 100 * j->form.rms, j->fitted_rows);
}
