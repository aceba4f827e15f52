#include "calibrate/table/table_model.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_qrng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/table/table_fit.h"
#include "calibrate/table/table_simulate.h"
#include "common/alloc.h"
#include "common/units.h"

/* Of GSL's driver: iterations, least relative change of x = ln(cost), least gradient. */
#define ITERATIONS 30
#define STEP_TOLERANCE 1e-6
#define GRADIENT_TOLERANCE 1e-10

static bool ends_in(const char *text, const char *tail)
{
    const size_t length = strlen(text), tail_length = strlen(tail);
    return length >= tail_length && strcmp(text + length - tail_length, tail) == 0;
}

bool dl_table_is_rate(const dl_table_cost *cost)
{
    return ends_in(cost->name, "bytes_per_s");
}

/* Median over the rows of the step's time in ns, over its samples or workers if asked for. */
static double median_step_ns(const dl_table_rows *rows, bool per_sample, bool per_worker)
{
    double *steps = dl_calloc(rows->used, sizeof *steps, "steps of rows");
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const dl_table_row *row = &rows->rows[i];
        if (row->failed) continue;
        double step_ns = dl_s_to_ns((double)row->batch / row->throughput_per_s);
        if (per_sample) step_ns /= (double)row->point.batch / row->point.workers;
        if (per_worker) step_ns /= row->point.workers;
        steps[count++] = step_ns;
    }
    gsl_sort(steps, 1, count);
    const double median = gsl_stats_median_from_sorted_data(steps, 1, count);
    free(steps);
    return median;
}

/* Where to look for a cost of which nothing is known: a part of the step. */
static double guess(const dl_table_model *model, const dl_table_cost *cost)
{
    const dl_table_rows *rows = model->rows;
    if (cost->was_known) return cost->value->value;
    if (ends_in(cost->name, "_frac")) return 0.05;
    if (ends_in(cost->name, "per_sample_ns")) return median_step_ns(rows, true, false) / 2;
    if (ends_in(cost->name, "per_worker_ns")) return median_step_ns(rows, false, true) / 2;
    const double step_ns = median_step_ns(rows, false, false);
    if (ends_in(cost->name, "_ns")) return step_ns / 4;
    if (dl_table_is_rate(cost) && model->costs->parameter_bytes > 0) {
        return (double)model->costs->parameter_bytes / dl_ns_to_s(step_ns / 10);
    }
    if (dl_table_is_rate(cost)) return 1e9;                     /* a slow link */
    return ends_in(cost->name, "bytes_per_sample") ? 1e4 : 1.1; /* a small picture; a factor */
}

void dl_table_model_init(dl_table_model *model, const dl_scenario *scenario, dl_costs *costs,
                         const dl_table_rows *rows, const dl_table_costs *unknown, int threads)
{
    *model = (dl_table_model){.scenario = scenario,
                              .costs = costs,
                              .rows = rows,
                              .unknown = unknown,
                              .threads = threads,
                              .steps = DL_TABLE_STEPS,
                              .status = DL_OK};
    model->wanted = dl_calloc(scenario->point_count, sizeof *model->wanted, "points to simulate");
    model->use = dl_calloc(rows->count, sizeof *model->use, "rows that count");
    model->weight = dl_calloc(rows->count, sizeof *model->weight, "weights of rows");
    model->per_s = dl_calloc(scenario->point_count, sizeof *model->per_s, "throughputs");
    for (size_t i = 0; i < rows->count; i++) {
        model->use[i] = !rows->rows[i].failed;
        model->weight[i] = 1;
    }
    for (size_t j = 0; j < unknown->count; j++) {
        model->active[j] = true;
        model->guess[j] = guess(model, &unknown->items[j]);
    }
}

void dl_table_model_free(dl_table_model *model)
{
    free(model->use);
    free(model->weight);
    free(model->wanted);
    free(model->per_s);
    *model = (dl_table_model){0};
}

size_t dl_table_model_rows(const dl_table_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->rows->count; i++)
        count += model->use[i];
    return count;
}

size_t dl_table_model_costs(const dl_table_model *model)
{
    size_t count = 0;
    for (size_t j = 0; j < model->unknown->count; j++)
        count += model->active[j];
    return count;
}

double dl_table_model_low(const dl_table_model *model, size_t cost)
{
    return log(model->guess[cost] / DL_TABLE_RANGE);
}

double dl_table_model_high(const dl_table_model *model, size_t cost)
{
    return log(model->guess[cost] * DL_TABLE_RANGE);
}

double dl_table_model_least(const dl_table_model *model, size_t cost)
{
    return dl_table_is_rate(&model->unknown->items[cost]) ? dl_table_model_high(model, cost)
                                                          : dl_table_model_low(model, cost);
}

static void set_costs(dl_table_model *model, const double *x)
{
    for (size_t j = 0; j < model->unknown->count; j++) {
        const double low = dl_table_model_low(model, j), high = dl_table_model_high(model, j);
        const dl_value value = {.known = true, .value = exp(fmin(fmax(x[j], low), high))};
        dl_table_cost_set(&model->unknown->items[j], &value);
    }
}

dl_status dl_table_model_set(dl_table_model *model, const double *x)
{
    if (model->status != DL_OK) return model->status;
    set_costs(model, x);
    memset(model->wanted, 0, model->scenario->point_count * sizeof *model->wanted);
    for (size_t i = 0; i < model->rows->count; i++) {
        if (model->use[i]) model->wanted[model->rows->rows[i].at] = true;
    }
    for (size_t p = 0; p < model->scenario->point_count; p++)
        model->runs += 2 * model->wanted[p];
    const dl_table_simulation simulation = {.scenario = model->scenario,
                                            .costs = model->costs,
                                            .wanted = model->wanted,
                                            .steps = model->steps,
                                            .threads = model->threads};
    return model->status = dl_table_simulate(&simulation, model->per_s, &model->error);
}

double dl_table_model_residual(const dl_table_model *model, size_t row)
{
    const dl_table_row *r = &model->rows->rows[row];
    /* The simulated batch may be a little larger than the real one; the step's time is the same. */
    const double simulated_per_s = model->per_s[r->at] * (double)r->batch / (double)r->point.batch;
    return log(r->throughput_per_s / simulated_per_s);
}

/* Of the rows that count, each times the root of its weight. */
static void residuals(const dl_table_model *model, gsl_vector *r)
{
    size_t at = 0;
    for (size_t i = 0; i < model->rows->count; i++) {
        if (!model->use[i]) continue;
        gsl_vector_set(r, at++, sqrt(model->weight[i]) * dl_table_model_residual(model, i));
    }
}

double dl_table_model_squares(dl_table_model *model, const double *x)
{
    if (dl_table_model_set(model, x) != DL_OK) return (double)INFINITY;
    double squares = 0;
    for (size_t i = 0; i < model->rows->count; i++) {
        if (!model->use[i]) continue;
        squares += model->weight[i] * pow(dl_table_model_residual(model, i), 2);
    }
    return squares;
}

dl_status dl_table_model_jacobian(dl_table_model *model, const double *x, gsl_matrix *jacobian)
{
    const size_t n = dl_table_model_rows(model);
    double moved[DL_TABLE_COSTS_MAX];
    gsl_vector *up = gsl_vector_alloc(n), *down = gsl_vector_alloc(n);
    dl_status status = DL_OK;
    size_t column = 0;
    for (size_t j = 0; j < model->unknown->count && status == DL_OK; j++) {
        if (!model->active[j]) continue;
        memcpy(moved, x, model->unknown->count * sizeof *moved);
        moved[j] = x[j] + DL_TABLE_DIFFERENCE;
        status = dl_table_model_set(model, moved);
        residuals(model, up);
        moved[j] = x[j] - DL_TABLE_DIFFERENCE;
        if (status == DL_OK) status = dl_table_model_set(model, moved);
        residuals(model, down);
        gsl_vector_sub(up, down);
        gsl_vector_scale(up, 1 / (2 * DL_TABLE_DIFFERENCE));
        gsl_matrix_set_col(jacobian, column++, up);
    }
    gsl_vector_free(up);
    gsl_vector_free(down);
    return status;
}

/* What GSL's callbacks get: the model, and the costs that are not active. */
typedef struct descent {
    dl_table_model *model;
    double x[DL_TABLE_COSTS_MAX];
} descent;

static void spread(descent *down, const gsl_vector *active)
{
    size_t at = 0;
    for (size_t j = 0; j < down->model->unknown->count; j++) {
        if (down->model->active[j]) down->x[j] = gsl_vector_get(active, at++);
    }
}

static int evaluate(const gsl_vector *active, void *user, gsl_vector *r)
{
    descent *down = user;
    spread(down, active);
    if (dl_table_model_set(down->model, down->x) != DL_OK) return GSL_EFAILED;
    residuals(down->model, r);
    return GSL_SUCCESS;
}

static int differentiate(const gsl_vector *active, void *user, gsl_matrix *jacobian)
{
    descent *down = user;
    spread(down, active);
    const dl_status status = dl_table_model_jacobian(down->model, down->x, jacobian);
    return status == DL_OK ? GSL_SUCCESS : GSL_EFAILED;
}

double dl_table_model_descend(dl_table_model *model, double *x)
{
    const size_t n = dl_table_model_rows(model), p = dl_table_model_costs(model);
    if (p == 0) return dl_table_model_squares(model, x);
    descent down = {.model = model};
    memcpy(down.x, x, model->unknown->count * sizeof *x);
    gsl_multifit_nlinear_fdf fdf = {
        .f = evaluate, .df = differentiate, .n = n, .p = p, .params = &down};
    const gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_workspace *work =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, n, p);
    gsl_vector *start = gsl_vector_alloc(p);
    for (size_t j = 0, at = 0; j < model->unknown->count; j++) {
        if (model->active[j]) gsl_vector_set(start, at++, x[j]);
    }
    double squares = (double)INFINITY;
    if (gsl_multifit_nlinear_init(start, &fdf, work) == GSL_SUCCESS) {
        int info = 0;
        /* No progress is the usual end in a kink; a failed run is in model->status. */
        const int end = gsl_multifit_nlinear_driver(ITERATIONS, STEP_TOLERANCE, GRADIENT_TOLERANCE,
                                                    0, NULL, NULL, &info, work);
        (void)end;
        spread(&down, gsl_multifit_nlinear_position(work));
        if (model->status == DL_OK) squares = dl_table_model_squares(model, down.x);
    }
    gsl_vector_free(start);
    gsl_multifit_nlinear_free(work);
    memcpy(x, down.x, model->unknown->count * sizeof *x);
    return squares;
}

typedef struct start {
    double squares, x[DL_TABLE_COSTS_MAX];
} start;

static int by_squares(const void *a, const void *b)
{
    const double left = ((const start *)a)->squares, right = ((const start *)b)->squares;
    return (left > right) - (left < right);
}

/* `count` starts, the best first. */
static void list_starts(dl_table_model *model, start *starts, size_t count)
{
    const size_t p = model->unknown->count;
    gsl_qrng *sobol = gsl_qrng_alloc(gsl_qrng_sobol, (unsigned)p);
    double u[DL_TABLE_COSTS_MAX];
    for (size_t s = 0; s < count; s++) {
        gsl_qrng_get(sobol, u); /* the first is the middle: the guess */
        for (size_t j = 0; j < p; j++)
            starts[s].x[j] = log(model->guess[j]) + (2 * u[j] - 1) * log(DL_TABLE_SPAN);
        starts[s].squares = dl_table_model_squares(model, starts[s].x);
    }
    gsl_qrng_free(sobol);
    qsort(starts, count, sizeof *starts, by_squares);
}

static bool is_exact(const dl_table_model *model, double squares)
{
    return squares <= DL_TABLE_EXACT * DL_TABLE_EXACT * (double)dl_table_model_rows(model);
}

/* Goes down from `from`, and keeps the end in *best if it is lower. */
static void try_from(dl_table_model *model, const start *from, start *best)
{
    if (is_exact(model, best->squares)) return;
    start end = *from;
    end.squares = dl_table_model_descend(model, end.x);
    if (end.squares < best->squares) *best = end;
}

double dl_table_model_search(dl_table_model *model, bool near, double *x)
{
    static const double jolts[] = {4, 0.25}; /* large enough to leave a flat part or a kink */
    const size_t count = near ? 1 : DL_TABLE_STARTS, descents = near ? 1 : DL_TABLE_DESCENTS;
    start *starts = dl_calloc(count, sizeof *starts, "starts");
    model->steps = near ? DL_TABLE_NEAR_STEPS / 2 : DL_TABLE_SEARCH_STEPS;
    list_starts(model, starts, count);
    start best = starts[0];
    for (size_t s = 0; s < descents && model->status == DL_OK; s++)
        try_from(model, &starts[s], &best);
    free(starts);
    for (size_t j = 0; j < model->unknown->count && !near; j++) {
        for (size_t k = 0; k < 2 && model->status == DL_OK; k++) {
            start moved = best;
            moved.x[j] += log(jolts[k]);
            try_from(model, &moved, &best);
        }
    }
    model->steps = near ? DL_TABLE_NEAR_STEPS : DL_TABLE_STEPS;
    memcpy(x, best.x, model->unknown->count * sizeof *x);
    return dl_table_model_descend(model, x);
}
