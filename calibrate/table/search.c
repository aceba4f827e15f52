/* Search for the costs at which the simulator reproduces the measurements.
 *
 * A descent uses the Levenberg-Marquardt method on ln(cost). Its expense is simulations, mostly for
 * derivatives. J is therefore differenced again only where it predicted badly, and otherwise
 * corrected by the result of each step (C. G. Broyden 1965, Mathematics of Computation 19, 577),
 * also from one descent to the next if they are close. */
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_qrng.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/table/table_internal.h"
#include "common/alloc.h"
#include "common/sort.h"

#define SEARCH_STEPS 6 /* minimum steps per run before the last descent */
#define NEAR_STEPS 6   /* steps per run with `near`, meant for many rows; half as many at first */

/* A descent ends if the predicted reduction of the sum of squares is below this fraction; COARSE
 * applies to all descents of a search but the last. */
#define COARSE 1e-3
#define FINE 1e-7
/* A descent ends at this root mean square of r. */
#define ROUNDED 1e-7
/* A descent ends at a step shorter than this in every ln(cost). */
#define SHORT 1e-5
/* Maximum number of trial steps of a descent. */
#define TRIALS 60
/* Longest step of ln(cost): a factor of twenty. */
#define LONGEST 3.0
/* A descent reuses J of another one if it starts within this distance. */
#define CLOSE 0.3
/* Ends of two descents within this distance count as equal. */
#define SAME_END 0.01

/* One descent. Notation of table.h; A = J'WJ, g = J'Wr, d the step. */
typedef struct descent {
    dl_table_model *model;
    bool coarse;
    size_t p, index[DL_TABLE_COSTS_MAX]; /* active costs */
    double x[DL_TABLE_COSTS_MAX], trial[DL_TABLE_COSTS_MAX];
    double *r, *trial_r; /* [row_count] r of the rows used */
    double squares;
    double damping, scale[DL_TABLE_COSTS_MAX];
    double d[DL_TABLE_COSTS_MAX];
    double promised; /* reduction of the sum of squares predicted by J, as a fraction */
    bool fresh;      /* J was differenced at x */
} descent;

/* Returns the sum of squares at x, and sets r; INFINITY if a run fails. */
static double look(const descent *down, const double *x, double *r)
{
    dl_table_model *model = down->model;
    double squares = 0;
    if (dl_table_model_set(model, x) != DL_OK) return (double)INFINITY;
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->use[i]) continue;
        r[i] = dl_table_model_residual(model, i);
        squares += model->weight[i] * r[i] * r[i];
    }
    return squares;
}

static dl_status difference(descent *down)
{
    down->fresh = true;
    return dl_table_model_differentiate(down->model, down->x, !down->coarse);
}

/* Returns whether J was differenced or corrected near x. */
static bool is_close(const descent *down)
{
    const dl_table_model *model = down->model;
    if (!model->jacobian_known) return false;
    for (size_t k = 0; k < down->p; k++) {
        if (fabs(down->x[down->index[k]] - model->jacobian_x[down->index[k]]) > CLOSE) return false;
    }
    return true;
}

/* Sets normal to A + damping diag(scale) and d to -g. */
static void linear_problem(descent *down, gsl_matrix *normal, gsl_vector *d)
{
    const dl_table_model *model = down->model;
    gsl_matrix_set_zero(normal);
    gsl_vector_set_zero(d);
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->use[i]) continue;
        const double *row = gsl_matrix_const_ptr(model->jacobian, i, 0);
        for (size_t a = 0; a < down->p; a++) {
            const double weighted = model->weight[i] * row[down->index[a]];
            *gsl_vector_ptr(d, a) -= weighted * down->r[i];
            for (size_t b = 0; b < down->p; b++)
                *gsl_matrix_ptr(normal, a, b) += weighted * row[down->index[b]];
        }
    }
    double trace = 0;
    for (size_t a = 0; a < down->p; a++)
        trace += gsl_matrix_get(normal, a, a);
    for (size_t a = 0; a < down->p; a++) {
        down->scale[a] = fmax(down->scale[a], gsl_matrix_get(normal, a, a));
        *gsl_matrix_ptr(normal, a, a) +=
            down->damping * fmax(down->scale[a], 1e-9 * trace) + 1e-300;
    }
}

/* Computes the step from x into d and trial, and the reduction predicted by J; returns false if
 * there is none. */
static bool propose(descent *down)
{
    dl_table_model *model = down->model;
    gsl_matrix *normal = gsl_matrix_alloc(down->p, down->p);
    gsl_vector *d = gsl_vector_alloc(down->p);
    linear_problem(down, normal, d);
    gsl_error_handler_t *before = gsl_set_error_handler_off();
    const bool solved = gsl_linalg_cholesky_decomp1(normal) == GSL_SUCCESS &&
                        gsl_linalg_cholesky_svx(normal, d) == GSL_SUCCESS;
    gsl_set_error_handler(before);
    double longest = 0, left = 0;
    for (size_t k = 0; k < down->p; k++)
        longest = fmax(longest, fabs(gsl_vector_get(d, k)));
    memcpy(down->trial, down->x, model->unknown->count * sizeof *down->x);
    for (size_t k = 0; k < down->p; k++) {
        const size_t j = down->index[k];
        const double wanted =
            down->x[j] + gsl_vector_get(d, k) * (longest > LONGEST ? LONGEST / longest : 1);
        down->trial[j] =
            fmin(fmax(wanted, dl_table_model_low(model, j)), dl_table_model_high(model, j));
        down->d[k] = down->trial[j] - down->x[j];
    }
    gsl_matrix_free(normal);
    gsl_vector_free(d);
    for (size_t i = 0; i < model->row_count; i++) {
        if (!model->use[i]) continue;
        double r = down->r[i];
        for (size_t k = 0; k < down->p; k++)
            r += gsl_matrix_get(model->jacobian, i, down->index[k]) * down->d[k];
        left += model->weight[i] * r * r;
    }
    down->promised = 1 - left / down->squares;
    return solved && isfinite(longest);
}

static double longest_step(const descent *down)
{
    double longest = 0;
    for (size_t k = 0; k < down->p; k++)
        longest = fmax(longest, fabs(down->d[k]));
    return longest;
}

/* Applies Broyden's correction to J for the tried step: J d becomes the change of r. */
static void correct(descent *down)
{
    const dl_table_model *model = down->model;
    double length = 0;
    for (size_t k = 0; k < down->p; k++)
        length += down->d[k] * down->d[k];
    for (size_t i = 0; i < model->row_count && length > 0; i++) {
        if (!model->use[i]) continue;
        double off = down->trial_r[i] - down->r[i];
        for (size_t k = 0; k < down->p; k++)
            off -= gsl_matrix_get(model->jacobian, i, down->index[k]) * down->d[k];
        for (size_t k = 0; k < down->p; k++)
            *gsl_matrix_ptr(model->jacobian, i, down->index[k]) += off * down->d[k] / length;
    }
    down->fresh = false;
}

/* Tries one step; returns false at the end of the descent. */
static bool step(descent *down)
{
    dl_table_model *model = down->model;
    if (!propose(down)) return false;
    const double least = down->coarse ? COARSE : FINE;
    if (down->promised < least || longest_step(down) < SHORT) {
        if (down->fresh || down->coarse) return false;
        return difference(down) == DL_OK;
    }
    const double squares = look(down, down->trial, down->trial_r);
    if (model->status != DL_OK) return false;
    const double got = (1 - squares / down->squares) / down->promised;
    const bool was_fresh = down->fresh;
    if (got <= 0) {
        /* J is not valid here: a kink, or J is outdated. */
        if (!was_fresh) return difference(down) == DL_OK;
        down->damping = fmax(8 * down->damping, 1e-3);
        return true;
    }
    correct(down);
    memcpy(down->x, down->trial, model->unknown->count * sizeof *down->x);
    memcpy(model->jacobian_x, down->x, sizeof down->x);
    memcpy(down->r, down->trial_r, model->row_count * sizeof *down->r);
    down->squares = squares;
    if (got < 0.25) down->damping = fmax(4 * down->damping, 1e-4);
    if (got > 0.75) down->damping /= 8;
    /* Less than half of the predicted reduction: the correction covers one direction only. */
    if (got < 0.5 && !was_fresh) return difference(down) == DL_OK;
    return true;
}

/* Ends of earlier descents of a search. */
typedef struct ends {
    size_t count;
    double x[2 * DL_TABLE_COSTS_MAX + DL_TABLE_DESCENTS][DL_TABLE_COSTS_MAX];
} ends;

static bool is_known_end(const descent *down, const ends *known)
{
    for (size_t e = 0; known != NULL && e < known->count; e++) {
        double off = 0;
        for (size_t k = 0; k < down->p; k++)
            off = fmax(off, fabs(down->x[down->index[k]] - known->x[e][down->index[k]]));
        if (off < SAME_END) return true;
    }
    return false;
}

static double descend(dl_table_model *model, double *x, bool coarse, const ends *known)
{
    descent down = {.model = model, .coarse = coarse, .damping = 1e-6};
    const size_t rows = model->row_count;
    for (size_t j = 0; j < model->unknown->count; j++) {
        if (model->active[j]) down.index[down.p++] = j;
    }
    if (down.p == 0) return dl_table_model_squares(model, x);
    memcpy(down.x, x, model->unknown->count * sizeof *x);
    for (size_t k = 0; k < down.p; k++) {
        const size_t j = down.index[k];
        down.x[j] = fmin(fmax(x[j], dl_table_model_low(model, j)), dl_table_model_high(model, j));
    }
    down.r = dl_calloc(rows, sizeof *down.r, "residuals");
    down.trial_r = dl_calloc(rows, sizeof *down.trial_r, "residuals");
    down.squares = look(&down, down.x, down.r);
    const double n = (double)dl_table_model_rows(model);
    bool goes_on = model->status == DL_OK && (is_close(&down) || difference(&down) == DL_OK);
    for (int trial = 0; goes_on && trial < TRIALS; trial++) {
        if (down.squares <= n * ROUNDED * ROUNDED || is_known_end(&down, known)) break;
        goes_on = step(&down);
    }
    memcpy(x, down.x, model->unknown->count * sizeof *x);
    free(down.r);
    free(down.trial_r);
    return model->status == DL_OK ? down.squares : (double)INFINITY;
}

double dl_table_model_descend(dl_table_model *model, double *x)
{
    return descend(model, x, false, NULL);
}

typedef struct start {
    double squares, x[DL_TABLE_COSTS_MAX];
} start;

DL_ORDER(by_squares, start, DL_BY(squares));

/* Lists `count` starts, best first. */
static void list_starts(dl_table_model *model, start *starts, size_t count)
{
    const size_t p = model->unknown->count;
    gsl_qrng *sobol = gsl_qrng_alloc(gsl_qrng_sobol, (unsigned)p);
    double u[DL_TABLE_COSTS_MAX];
    for (size_t s = 0; s < count; s++) {
        dl_table_show(model, "of %lld starts of the search", s, count);
        gsl_qrng_get(sobol, u); /* the first point is the middle: the guess */
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

/* Descends coarsely from `from`, unless *best is exact; stores the end in *best if it is lower. */
static void try_from(dl_table_model *model, const start *from, ends *known, start *best)
{
    if (is_exact(model, best->squares)) return;
    start end = *from;
    end.squares = descend(model, end.x, true, known);
    memcpy(known->x[known->count++], end.x, sizeof end.x);
    if (end.squares < best->squares) *best = end;
}

double dl_table_model_search(dl_table_model *model, bool near, double *x)
{
    static const char searches[] = "of %lld searches";
    static const double jolts[] = {4, 0.25}; /* large enough to leave a flat part or a kink */
    const size_t count = near ? 1 : DL_TABLE_STARTS, descents = near ? 1 : DL_TABLE_DESCENTS;
    DL_AUTOFREE start *starts = dl_calloc(count, sizeof *starts, "starts");
    ends known = {0};
    model->steps = near ? NEAR_STEPS / 2 : SEARCH_STEPS;
    list_starts(model, starts, count);
    start best = starts[0];
    const size_t moves = near ? 0 : 2 * model->unknown->count, all = descents + moves;
    for (size_t s = 0; s < descents && model->status == DL_OK; s++) {
        dl_table_show(model, searches, s, all);
        try_from(model, &starts[s], &known, &best);
    }
    for (size_t j = 0; j < model->unknown->count && !near; j++) {
        for (size_t k = 0; k < 2 && model->status == DL_OK; k++) {
            dl_table_show(model, searches, descents + 2 * j + k, all);
            start moved = best;
            moved.x[j] += log(jolts[k]);
            try_from(model, &moved, &known, &best);
        }
    }
    model->steps = near ? NEAR_STEPS : DL_TABLE_STEPS;
    memcpy(x, best.x, model->unknown->count * sizeof *x);
    return dl_table_model_descend(model, x);
}
